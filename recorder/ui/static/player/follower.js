// Keeps a timeline current while its session grows: asks only for what is new, one question at a time.

import { messageOf } from "../format.js";

/** Pause after the end of an exchange until its items are read again: projections are computed then. */
const SETTLE_MS = 1500;
/** Least pause between two readings of the marks: they are computed from whole exchanges. */
const MARKS_MS = 3000;
/** Pause after an answer that did not come. */
const RETRY_MS = 3000;

/**
 * @typedef {object} FollowerOptions
 * @property {Source} source
 * @property {string} session
 * @property {() => import("./timeline.js").SessionTimeline} timeline
 * @property {(fresh: Timeline) => void} grown new events came
 * @property {(header: SessionHeader) => void} changed the list of exchanges has changed
 * @property {() => void} settled marks may have changed
 * @property {(message: string) => void} failed an answer did not come
 * @property {(trouble: string | null) => void} connection was lost, or is there again
 */

/** The follower of one session. */
export class Follower {
  /** @param {FollowerOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Map<number, Grown["exchanges"][number]>} */
    this.wanted = new Map();
    this.isBusy = false;
    this.isClosed = false;
    /** @type {Set<number>} exchanges whose end was seen */
    this.ended = new Set();
    this.stop = options.source.follow(
      options.session,
      (grown) => {
        for (const exchange of grown.exchanges) this.wanted.set(exchange.number, exchange);
        this.#run();
      },
      options.connection,
    );
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.settling);
    this.stop();
  }

  async #run() {
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.wanted.size && !this.isClosed) {
      const [[number, grown]] = this.wanted;
      this.wanted.delete(number);
      try {
        await this.#take(grown);
      } catch (error) {
        if (this.isClosed) break;
        this.options.failed(messageOf(error));
        // An exchange that ends grows no more: nobody says again that there is something to read.
        if (!this.wanted.has(number)) this.wanted.set(number, grown);
        await new Promise((resume) => setTimeout(resume, RETRY_MS));
      }
    }
    this.isBusy = false;
  }

  /** @param {Grown["exchanges"][number]} grown */
  async #take(grown) {
    const { source, session } = this.options;
    const known = this.options.timeline().exchanges.find((each) => each.exchange_id === grown.exchange_id);
    const isNews = !known || (grown.has_ended && !known.has_ended);
    if (isNews) {
      const header = await source.session(session);
      if (this.isClosed) return;
      this.options.changed(header);
    }
    if (isNews || grown.last_pos > known.last_pos) {
      const fresh = await source.timeline(session, grown.number, known ? known.t.length - 1 : -1);
      if (this.isClosed) return;
      this.options.grown(fresh);
    }
    if (grown.has_ended && !this.ended.has(grown.number) && isNews) this.#settle(grown.number);
  }

  /** @param {number} number */
  #settle(number) {
    this.ended.add(number);
    clearTimeout(this.settling);
    this.settling = setTimeout(
      async () => {
        const numbers = [...this.ended];
        this.ended.clear();
        for (const each of numbers) {
          const fresh = await this.options.source.timeline(this.options.session, each, -1).catch(() => null);
          if (fresh && !this.isClosed) this.options.grown(fresh);
        }
        // Model, tokens and cost are known once the exchange is projected.
        const header = await this.options.source.session(this.options.session).catch(() => null);
        if (this.isClosed) return;
        if (header) this.options.changed(header);
        this.options.settled();
      },
      Math.max(SETTLE_MS, this.settling ? MARKS_MS : 0),
    );
  }
}
