// The end of a session that grows: whether the playhead follows it, how far it is behind, and whether news come at all.

import { duration, plural } from "../format.js";

/** The following of the end. */
export class Live {
  /**
   * @param {import("./clock.js").Clock} clock
   * @param {import("./transport.js").Transport} transport shows it
   * @param {boolean} canGrow
   */
  constructor(clock, transport, canGrow) {
    this.clock = clock;
    this.timeline = clock.timeline;
    this.transport = transport;
    this.canGrow = canGrow;
    this.isOn = false;
    /** @type {string | null} why no news come */
    this.trouble = null;
    /** @type {number} how long ago the last event was recorded when it came */
    this.behind_ns = 0;
  }

  get isOpen() {
    return this.canGrow && this.timeline.exchanges.some((each) => !each.has_ended);
  }

  /** @param {boolean} isOn */
  follow(isOn) {
    this.isOn = isOn;
    this.show();
  }

  /**
   * Note that events came, and how late.
   * @param {number | undefined} began_ns wall time at which the session began
   */
  came(began_ns) {
    const now_ns = Date.now() * 1e6;
    this.behind_ns = began_ns ? Math.max(0, now_ns - began_ns - this.timeline.time[this.clock.last]) : 0;
  }

  /** @param {string | null} trouble why no news come; null if they do */
  setTrouble(trouble) {
    this.trouble = trouble;
    this.show();
  }

  show() {
    const behind = this.isOn ? this.#late() : this.#away();
    this.transport.showLive(this.isOpen || this.isOn, this.isOn, behind, this.trouble);
  }

  #late() {
    return this.behind_ns ? `${duration(this.behind_ns)} behind` : "";
  }

  #away() {
    const { clock } = this;
    const missing = clock.last - clock.index;
    const time = duration(this.timeline.time[clock.last] - clock.t);
    return missing ? `${plural(missing, "event")} · ${time} behind` : "";
  }
}
