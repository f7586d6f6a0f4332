// The player: a session on one time axis, the conversation as it stood at the playhead, the events and one of them in
// full. It draws what the source gives; states come from tracks, never from a reading of a protocol.

import { toggle } from "../buttons.js";
import { playerHref } from "../links.js";
import { Clock } from "./clock.js";
import { Conversation } from "./conversation.js";
import { EventList } from "./events.js";
import { FindingList } from "./finding_list.js";
import { Follower } from "./follower.js";
import { Inspector } from "./inspector.js";
import { HELP, Keys } from "./keys.js";
import { Lanes } from "./lanes.js";
import { LanesTable } from "./lanes_table.js";
import { Layout } from "./layout.js";
import { Live } from "./live.js";
import { SessionTimeline } from "./timeline.js";
import { Tracks } from "./tracks.js";
import { Transport } from "./transport.js";
import { TurnList } from "./turns.js";
import { Writers } from "./writers.js";

/** Least time between two changes of the address: browsers refuse more than some 200 in 30 s. */
const ADDRESS_MS = 300;
/** Events before the end of a segment at which the next one is loaded, while the playhead runs. */
const AHEAD = 128;
/** Durations of draw work that tests and benchmarks can read. */
const FRAMES = 2000;

/**
 * @param {HTMLElement} main
 * @param {Route} route
 * @param {App} app
 * @param {Promise<[SessionHeader, Timeline]>} asked
 * @returns {Promise<Page>}
 */
export async function render(main, route, app, asked) {
  const reference = route.session ?? "latest";
  const [header, first] = await asked;
  // From here on by its id: `latest` may be another session any moment.
  const id = header.session.session_id;
  const timeline = first.session_id === id ? first : await app.source.timeline(id);
  const player = new Player(reference, header, new SessionTimeline(timeline), app);
  main.classList.add("fill");
  main.append(player.element);
  player.open(route);
  return player;
}

/** The page: moves the playhead, and draws each part of the page as it is there. */
export class Player {
  help = HELP;

  /**
   * @param {string} reference of the session, as the address has it
   * @param {SessionHeader} header
   * @param {SessionTimeline} timeline
   * @param {App} app
   */
  constructor(reference, header, timeline, app) {
    const session = header.session.session_id;
    this.session = session;
    // `latest` may be another session at the next click.
    this.references = new Set(reference === "latest" ? [session] : [reference, session]);
    this.header = header;
    /** @type {SessionHeader | null} */
    this.drawnHeader = null;
    this.timeline = timeline;
    this.app = app;
    this.tracks = new Tracks({
      fetch: (exchange, at) => app.source.segment(session, exchange, at),
      changed: () => this.invalidate(),
      failed: (message) => app.announce(message),
    });
    this.drawnIndex = -1;
    /** @type {ExchangeDocument | undefined} */
    this.drawnWrote = undefined;
    this.isRequested = false;
    /** @type {number[]} */
    this.frames = [];
    /** @type {{ exchange: number, pos: number, done: () => void }[]} */
    this.waiting = [];
    this.clock = new Clock(timeline, () => this.invalidate());
    /** @type {import("./follower.js").Follower | null} */
    this.follower = null;
    this.isClosed = false;
    this.wasPlaying = false;
    this.drawnKey = "";
    /** @type {number | undefined} */
    this.addressing = undefined;
    const { source } = app;
    this.lanes = new Lanes({
      timeline,
      drag: (t) => this.moved(() => this.clock.seekTime(t)),
      choose: (index) => this.moved(() => this.clock.seek(index)),
      invalidate: () => this.invalidate(),
    });
    this.table = new LanesTable({ timeline, choose: (index) => this.moved(() => this.clock.seek(index)) });
    this.conversation = new Conversation({
      wanted: () => this.invalidate(),
      seek: (number, pos) => this.seek(number, pos),
      selected: (chosen) => this.writers.find(chosen),
      asked: (number, isBrief) => source.asked(session, number, isBrief),
      picture: (number, of, digest) => source.picture(session, number, of, digest),
      rawLink: (number) => (source.isFile ? null : `#/raw/${encodeURIComponent(session)}/${number}`),
      diffLink: (before, number) =>
        source.isFile ? null : `#/diff?${new URLSearchParams({ a: `${session}:${before}`, b: `${session}:${number}` })}`,
    });
    this.turns = new TurnList((number) => this.toTurn(number));
    this.events = new EventList({
      timeline,
      load: (exchange, from, limit) => source.events(session, exchange, from, limit),
      find: (text) => source.find(session, text),
      announce: (message) => app.announce(message),
      counted: (shown) => this.layout.setEvents(shown, timeline.length),
      choose: (index) => this.moved(() => this.clock.seek(index)),
    });
    this.inspector = new Inspector({ load: (exchange, pos) => source.event(session, exchange, pos) });
    this.transport = new Transport(this);
    this.live = new Live(this.clock, this.transport, !source.isFile);
    this.writers = new Writers(this);
    this.findings = new FindingList(this);
    this.view = toggle("JSON", "The exchange as `recorder show --at-event --json` gives it (v)", false, (isJson) => {
      this.conversation.setJson(isJson);
      this.invalidate();
    });
    this.layout = new Layout(this, header);
    this.element = this.layout.element;
    Object.assign(this.element, { player: this });
    this.keys = new Keys(this, app);
    this.#showHeader();
    app.setTitle(String(header.title ?? header.session.name ?? session));
    if (!timeline.length) this.findings.load();
    if (!source.isFile) this.#follow();
  }

  #showHeader() {
    this.layout.show(this.header, this.timeline);
    if (this.header === this.drawnHeader) return;
    this.drawnHeader = this.header;
    const exchanges = [...this.header.exchanges].sort((a, b) => a.offset_ns - b.offset_ns || a.number - b.number);
    this.conversation.setExchanges(exchanges);
    this.turns.setExchanges(exchanges);
    this.lanes.setExchanges(exchanges);
  }

  /**
   * Move the playhead to the place of a route: an event, else a turn, else the end of a session that is open, else the
   * first turn.
   * @param {Route} route
   */
  open(route) {
    const slot = route.exchange === null ? -1 : this.timeline.slotOf(route.exchange);
    const { pos } = route;
    if (slot >= 0 && pos !== null) this.moved(() => this.clock.seek(this.timeline.indexOf(slot, pos)));
    else if (slot >= 0) this.toTurn(this.timeline.exchanges[slot].number);
    else if (this.live.isOpen || !this.timeline.length) this.toEnd();
    else this.toTurn(this.turns.first());
    if (route.exchange !== null && slot < 0) {
      this.app.announce(`There is no exchange ${route.exchange} in this session.`);
    }
    if (route.query.has("play")) this.clock.playUnasked();
  }

  /** @param {Route} route */
  update(route) {
    if (!this.references.has(route.session ?? "")) return false;
    this.open(route);
    return true;
  }

  close() {
    clearTimeout(this.addressing);
    this.keys.close();
    this.isClosed = true;
    this.follower?.close();
    this.lanes.close();
    this.conversation.close();
    this.events.close();
    this.findings.close();
    this.inspector.close();
  }

  /**
   * Move the playhead after an event, and wait until the page shows it.
   * @param {number} exchange number
   * @param {number} pos
   * @returns {Promise<void>}
   */
  seek(exchange, pos) {
    const index = this.timeline.indexOf(this.timeline.slotOf(exchange), pos);
    this.clock.pause();
    this.moved(() => this.clock.seek(index));
    return new Promise((done) => this.waiting.push({ exchange, pos: this.timeline.pos[index], done }));
  }

  /** Return the state that the playhead's exchange is drawn from. */
  document() {
    return this.conversation.sections.get(this.clock.exchange)?.state ?? undefined;
  }

  /** @param {number} count */
  step(count) {
    this.moved(() => this.clock.step(count));
  }

  /**
   * Move the playhead to a share of the time, as it is drawn.
   * @param {number} share
   */
  seekShare(share) {
    const { axis } = this.lanes;
    this.moved(() => this.clock.seekTime(axis.timeOf(axis.length * share)));
  }

  /**
   * Show a turn from its beginning, as it ended.
   * @param {number} number
   */
  toTurn(number) {
    this.clock.pause();
    const slot = Math.max(0, this.timeline.slotOf(number));
    this.moved(() => this.clock.seek(this.timeline.indexOf(slot, Infinity)));
    this.conversation.top = number;
    this.layout.choose("conversation");
  }

  /** @param {1 | -1} by lines of the list */
  stepTurn(by) {
    const number = this.turns.beside(by);
    if (number !== undefined) this.toTurn(number);
  }

  /** Move to the end; an open session is followed from there. */
  toEnd() {
    this.clock.pause();
    this.moved(() => this.clock.seek(this.clock.last));
    this.live.follow(this.live.isOpen);
  }

  /**
   * Move the playhead for the user: it no longer follows the end, and the conversation follows it.
   * @param {() => void} move
   */
  moved(move) {
    this.conversation.isFollowing = true;
    this.conversation.top = null;
    move();
    this.lanes.reveal(this.clock.t, this.clock.index);
    this.live.follow(false);
  }

  invalidate() {
    if (this.isRequested || this.isClosed) return;
    this.isRequested = true;
    requestAnimationFrame((now) => {
      this.isRequested = false;
      if (this.isClosed) return;
      const began = performance.now();
      if (this.clock.isPlaying) {
        this.clock.tick(now);
        this.lanes.reveal(this.clock.t, this.clock.index);
      }
      this.#draw();
      this.frames.push(performance.now() - began);
      if (this.frames.length > FRAMES) this.frames.shift();
      if (this.clock.isPlaying) this.invalidate();
      else if (this.clock.index === this.clock.last && this.wasPlaying && this.live.isOpen) this.toEnd();
      this.wasPlaying = this.clock.isPlaying;
    });
  }

  #draw() {
    const { clock, timeline } = this;
    const { index, pos, exchange } = clock;
    const hasMoved = index !== this.drawnIndex;
    this.drawnIndex = index;
    if (hasMoved) this.events.show(index);
    this.lanes.draw(clock.t, index);
    this.transport.show(clock);
    if (!timeline.length) return;
    if (hasMoved) {
      this.inspector.show(exchange, pos, timeline.typeOf(index), this.findings.findings.at(index));
      this.findings.show(index);
      this.lanes.describe(index);
      this.turns.setCurrent(exchange);
      this.#address();
    }
    this.conversation.show((number) => (timeline.places[timeline.slotOf(number)]?.[0] ?? Infinity) <= index, exchange);
    let isReady = false;
    // The playhead's exchange first: a browser asks for six things at once, and what waits comes after all others.
    for (const number of this.conversation.visible().sort((a, b) => Number(b === exchange) - Number(a === exchange))) {
      const each = timeline.slotOf(number);
      const isDrawn = this.#drawExchange(
        number,
        number === exchange ? pos : timeline.posAt(each, index),
        clock.t - timeline.exchanges[each].offset_ns,
      );
      if (number === exchange) isReady = isDrawn;
    }
    if (isReady) {
      // The findings come after the first state: both are computed from all of an exchange.
      if (!this.findings.isLoaded) this.findings.load();
      this.#mark(exchange, pos);
      this.conversation.reveal(exchange);
    }
    this.element.dataset.exchange = String(exchange);
    this.element.dataset.pos = String(pos);
    this.element.dataset.ready = String(isReady);
    if (isReady) this.#wake(exchange, pos);
  }

  /**
   * Draw an exchange if its state is here; else ask for it. Return true if it is drawn as it is at the playhead.
   * @param {number} number
   * @param {number} pos
   * @param {number} t_ns
   */
  #drawExchange(number, pos, t_ns) {
    if (pos < 0) return false;
    const track = this.tracks.of(number);
    const state = track.stateAt(pos, t_ns);
    if (state) this.conversation.draw(number, state);
    if (track.has(pos)) {
      // The next segment, before it is needed.
      if (this.clock.isPlaying && number === this.clock.exchange) {
        this.tracks.load(track, Math.min(pos + AHEAD, this.timeline.exchanges[this.clock.slot].t.length - 1));
      }
    } else this.tracks.load(track, pos);
    return state !== undefined;
  }

  /**
   * Mark what the playhead's event wrote.
   * @param {number} number
   * @param {number} pos
   */
  #mark(number, pos) {
    const state = this.document();
    const key = `${number}/${pos}`;
    if (state === this.drawnWrote && key === this.drawnKey) return;
    this.drawnWrote = state;
    this.drawnKey = key;
    this.conversation.mark(number, this.tracks.of(number).writtenBy(pos) ?? []);
  }

  /**
   * @param {number} exchange
   * @param {number} pos
   */
  #wake(exchange, pos) {
    this.waiting = this.waiting.filter((each) => {
      if (each.exchange !== exchange || each.pos !== pos) return true;
      each.done();
      return false;
    });
  }

  #address() {
    if (this.addressing) return;
    this.addressing = setTimeout(() => {
      this.addressing = undefined;
      const { exchange, pos } = this.clock;
      this.app.replace(this.live.isOn ? playerHref(this.session) : playerHref(this.session, exchange, pos));
    }, ADDRESS_MS);
  }

  /** @param {number} factor */
  zoom(factor) {
    this.lanes.view.zoom(factor, this.lanes.axis.placeOf(this.clock.t));
  }

  #follow() {
    this.follower = new Follower({
      source: this.app.source,
      session: this.session,
      timeline: () => this.timeline,
      grown: (fresh) => this.#grow(fresh),
      changed: (header) => {
        this.header = header;
        this.#showHeader();
      },
      settled: () => {
        this.tracks.grew();
        this.findings.load();
        this.invalidate();
      },
      failed: (message) => this.app.announce(message),
      connection: (trouble) => {
        if (trouble !== null) this.app.announce(trouble);
        this.live.setTrouble(trouble);
      },
    });
  }

  /** @param {Timeline} fresh */
  #grow(fresh) {
    const { exchange, pos } = this.clock;
    const wasEmpty = !this.timeline.length;
    if (!this.timeline.add(fresh)) {
      this.app.source.timeline(this.session).then(
        (all) => this.isClosed || this.#grow(all),
        () => undefined,
      );
      return;
    }
    this.tracks.grew();
    this.clock.index = this.timeline.indexOf(this.timeline.slotOf(exchange), pos);
    this.lanes.setTimeline();
    this.events.setTimeline();
    this.#showHeader();
    this.findings.place();
    this.live.came(this.header.exchanges[0]?.started_ns);
    if (wasEmpty) this.live.isOn = true;
    if (this.live.isOn) {
      this.clock.seek(this.clock.last);
      this.lanes.reveal(this.clock.t, this.clock.index);
    }
    this.live.show();
    this.invalidate();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const command = this.keys.commandOf(event);
    command?.();
    return command !== undefined;
  }
}
