// The findings of lint and the anomalies of a session, each at its event.

import { countWhile } from "../search.js";

/**
 * A finding at a place: `index` in the timeline.
 * @typedef {{ mark: Mark, index: number, slot: number }} PlacedMark
 */

/** The findings, in order of time. One for a whole exchange is at its last event. */
export class Findings {
  /** @param {import("./timeline.js").SessionTimeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    /** @type {Mark[]} */
    this.found = [];
    /** @type {PlacedMark[]} */
    this.marks = [];
  }

  /**
   * Take findings in place of those before.
   * @param {Mark[]} found
   */
  take(found) {
    this.found = found;
    this.place();
  }

  /** Find the places of all, since the timeline has changed. */
  place() {
    this.marks = [];
    for (const mark of this.timeline.length ? this.found : []) {
      const slot = this.timeline.slotOf(mark.exchange);
      if (slot >= 0) this.marks.push({ mark, slot, index: this.timeline.indexOf(slot, mark.pos ?? Infinity) });
    }
    this.marks.sort((a, b) => a.index - b.index);
  }

  /** @param {number} index */
  at(index) {
    const end = this.passed(index);
    return this.marks.slice(this.passed(index - 1), end).map((each) => each.mark);
  }

  /**
   * Return how many are at or before an index.
   * @param {number} index
   */
  passed(index) {
    return countWhile(this.marks.length, (at) => this.marks[at].index <= index);
  }

  /**
   * Return the next or previous one; undefined if there is none.
   * @param {number} index
   * @param {1 | -1} direction
   */
  beside(index, direction) {
    const { marks } = this;
    return direction > 0 ? marks.find((each) => each.index > index) : marks.findLast((each) => each.index < index);
  }
}
