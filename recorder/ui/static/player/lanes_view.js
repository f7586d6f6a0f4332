// Which part of a session's time the lanes show, and what is at which place of their picture.

import { Axis } from "./axis.js";
import { Packing } from "./packing.js";

/** Heights of a lane and of the ruler above them, in px. */
export const ROW = 24;
export const RULER = 22;
/** Free space at both ends, so that the first and the last tick can be seen and hit. */
const PAD = 8;
/** The shortest time that fills the picture: ticks of one read are microseconds apart. */
const NARROWEST_NS = 1e5;
/** Distances from the pointer at which an event and a mark are hit, in px. */
const NEAR_PX = 4.5;
const NEAR_MARK_PX = 6;
/** Events that are looked at to find the one at the pointer: in a view of all, thousands are at one pixel. */
const LOOKED_AT = 5000;

/** The part that is shown, on a picture of some size. Places are those of the axis, x and y those of the picture. */
export class LanesView {
  /**
   * @param {import("./timeline.js").SessionTimeline} timeline
   * @param {() => void} changed another part is shown
   */
  constructor(timeline, changed) {
    this.timeline = timeline;
    this.changed = changed;
    this.isShortened = true;
    this.axis = new Axis(timeline, true);
    this.packing = new Packing(timeline);
    /** @type {Map<number, string>} what each exchange is, by its number */
    this.names = new Map();
    /** Left and right end of what is shown, in places. */
    this.from = 0;
    this.to = this.axis.length;
    this.width = 0;
    this.height = 0;
    /** What of the lanes is hidden above the picture, in px. */
    this.scrolled = 0;
    /** @type {import("./findings.js").PlacedMark[]} */
    this.marks = [];
  }

  /** Take the events that are new. A view of all stays a view of all. */
  update() {
    const isWhole = this.from <= 0 && this.to >= this.axis.length * 0.9999;
    this.axis = new Axis(this.timeline, this.isShortened);
    this.packing = new Packing(this.timeline);
    if (isWhole) [this.from, this.to] = [0, this.axis.length];
  }

  /** @param {boolean} isShortened */
  shorten(isShortened) {
    this.isShortened = isShortened;
    this.axis = new Axis(this.timeline, isShortened);
    this.showAll();
  }

  showAll() {
    this.#show(0, this.axis.length);
  }

  /**
   * Show more (over 1) or less time, around a place; around the playhead if none is given.
   * @param {number} factor
   * @param {number} place
   */
  zoom(factor, place) {
    const span = Math.min(this.axis.length, Math.max(NARROWEST_NS, (this.to - this.from) / factor));
    const share = (place - this.from) / (this.to - this.from || 1);
    const middle = share < 0 || share > 1 ? 0.5 : share;
    this.#show(place - span * middle, span);
  }

  /**
   * Move the view, by parts of its width.
   * @param {number} share
   */
  pan(share) {
    const span = this.to - this.from;
    this.#show(this.from + share * span, span);
  }

  /**
   * Move what is shown so far that a place is at an x.
   * @param {number} place
   * @param {number} x
   */
  pull(place, x) {
    this.#show(this.from + place - this.placeAt(x), this.to - this.from);
  }

  /**
   * Show the part around a time if it is not shown.
   * @param {number} t
   */
  reveal(t) {
    const place = this.axis.placeOf(t);
    const span = this.to - this.from;
    if (place < this.from || place > this.to) this.#show(place - span * 0.3, span);
  }

  /**
   * @param {number} from
   * @param {number} span
   */
  #show(from, span) {
    this.from = Math.min(this.axis.length - span, Math.max(0, from));
    this.to = this.from + span;
    this.changed();
  }

  /** Return true if all of the time is shown. */
  get isAll() {
    return this.to - this.from > this.axis.length * 0.999;
  }

  /** Width of what is between the free spaces. */
  get inner() {
    return Math.max(1, this.width - 2 * PAD);
  }

  /** @param {number} t */
  x(t) {
    return PAD + ((this.axis.placeOf(t) - this.from) / (this.to - this.from)) * this.inner;
  }

  /** @param {number} x */
  placeAt(x) {
    return this.from + ((x - PAD) / this.inner) * (this.to - this.from);
  }

  /** @param {number} x */
  timeAt(x) {
    return this.axis.timeOf(this.placeAt(x));
  }

  /**
   * Return the lane of an event.
   * @param {number} index
   */
  rowOf(index) {
    return this.packing.laneOf(index);
  }

  /** @param {number} y */
  #rowAt(y) {
    return y < RULER ? -1 : Math.floor((y - RULER + this.scrolled) / ROW);
  }

  /**
   * Return the event drawn at a point; -1 if there is none.
   * @param {number} x
   * @param {number} y
   */
  eventAt(x, y) {
    const { timeline } = this;
    const row = this.#rowAt(y);
    if (row < 0 || row >= this.packing.lanes.length) return -1;
    let best = -1;
    let distance = NEAR_PX;
    const first = this.timeAt(x - NEAR_PX);
    const last = timeline.at(this.timeAt(x + NEAR_PX));
    for (let index = last; index >= 0 && last - index < LOOKED_AT && timeline.time[index] >= first; index--) {
      const away = Math.abs(this.x(timeline.time[index]) - x);
      if (away >= distance || this.rowOf(index) !== row) continue;
      best = index;
      distance = away;
    }
    return best;
  }

  /**
   * Return the mark drawn at a point.
   * @param {number} x
   * @param {number} y
   */
  markAt(x, y) {
    const row = this.#rowAt(y);
    const isNear = (/** @type {number} */ index) => Math.abs(this.x(this.timeline.time[index]) - x) < NEAR_MARK_PX;
    return this.marks.find(({ index }) => isNear(index) && this.rowOf(index) === row);
  }

  /**
   * Return the block drawn at a point.
   * @param {number} x
   * @param {number} y
   */
  blockAt(x, y) {
    const { timeline } = this;
    const row = this.#rowAt(y);
    const isAt = (/** @type {Block} */ block) =>
      this.x(timeline.startOf(block)) <= x && x <= this.x(timeline.endOf(block));
    return timeline.blocks.find((block) => this.packing.ofBlocks.get(block) === row && isAt(block));
  }
}
