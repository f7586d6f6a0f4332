// The list of a session's events in order of time: what the timeline knows at once, previews as they are loaded.

import { el } from "../dom.js";
import { clockTime, duration } from "../format.js";
import { VirtualList } from "../virtual.js";
import { heatOf } from "./heat.js";

const ROW = 24;
/** Events of one request for previews. */
const PAGE = 200;
/** Pages of previews that are held: of some 20,000 events. */
const HELD = 100;
/** Pause of scrolling after which previews are loaded. */
const REST_MS = 80;
/** Characters of a preview that fit into a row. */
const SHOWN = 160;

/**
 * @typedef {object} EventListOptions
 * @property {import("./timeline.js").SessionTimeline} timeline
 * @property {(exchange: number, from: number, limit: number) => Promise<{ events: EventRow[] }>} load
 * @property {(index: number) => void} choose
 */

/** The list; the event of the playhead is its active row. */
export class EventList {
  /** @param {EventListOptions} options */
  constructor(options) {
    this.options = options;
    this.timeline = options.timeline;
    /** @type {Map<string, string[]>} previews by slot and page */
    this.pages = new Map();
    /** @type {Set<string>} */
    this.pending = new Set();
    /** @type {Map<number, Mark>} */
    this.marks = new Map();
    /** @type {Set<number>} */
    this.writers = new Set();
    this.list = new VirtualList({
      label: "Events",
      rowHeight: ROW,
      draw: (row, index) => this.#draw(row, index),
      choose: options.choose,
      seen: (first, last) => this.#seen(first, last),
    });
    this.element = this.list.element;
    this.element.classList.add("events");
    this.list.setCount(this.timeline.length);
  }

  close() {
    clearTimeout(this.resting);
    this.list.close();
  }

  /** Take the events that are new. */
  setTimeline() {
    // A page that was short is longer now.
    for (const [key, page] of this.pages) if (page.length < PAGE) this.pages.delete(key);
    this.list.setCount(this.timeline.length);
  }

  /** @param {import("./findings.js").PlacedMark[]} marks */
  setMarks(marks) {
    this.marks.clear();
    for (const { index, mark } of marks) if (this.marks.get(index)?.severity !== "error") this.marks.set(index, mark);
    this.list.refresh();
  }

  /** @param {number[]} indices */
  setWriters(indices) {
    this.writers = new Set(indices);
    this.list.refresh();
  }

  /** @param {number} index */
  show(index) {
    if (index !== this.list.active) this.reveal(index);
  }

  /** @param {number} index */
  reveal(index) {
    this.list.activate(index, "center");
  }

  /**
   * @param {HTMLElement} row
   * @param {number} index
   */
  #draw(row, index) {
    const { timeline } = this;
    const slot = timeline.slot[index];
    const pos = timeline.pos[index];
    const silence = timeline.silenceBefore(index);
    const mark = this.marks.get(index);
    row.classList.toggle("is-writer", this.writers.has(index));
    const preview = this.pages.get(`${slot}/${Math.floor(pos / PAGE)}`)?.[pos % PAGE] ?? "";
    row.append(
      el("span", { class: "event-exchange num quiet" }, timeline.exchanges[slot].number),
      el("span", { class: "event-pos num" }, pos),
      el("span", { class: "event-time num quiet" }, clockTime(timeline.time[index])),
      el(
        "span",
        { class: `event-silence num heat-text-${heatOf(silence)}` },
        silence >= 1e6 ? `+${duration(silence)}` : "",
      ),
      el(
        "span",
        { class: `event-mark ${mark ? mark.severity : ""}`, title: mark ? `${mark.rule}: ${mark.text}` : null },
        mark ? (mark.kind === "lint" ? "▼" : "◆") : "",
      ),
      el("span", { class: "event-type mono cut" }, timeline.typeOf(index)),
      el("bdi", { class: "event-preview mono cut quiet" }, preview),
    );
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  #seen(first, last) {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      for (let index = first; index <= Math.min(last, this.timeline.length - 1); index++) {
        this.#load(this.timeline.slot[index], Math.floor(this.timeline.pos[index] / PAGE));
      }
    }, REST_MS);
  }

  /**
   * @param {number} slot
   * @param {number} page
   */
  #load(slot, page) {
    const key = `${slot}/${page}`;
    if (this.pages.has(key) || this.pending.has(key)) return;
    this.pending.add(key);
    this.options
      .load(this.timeline.exchanges[slot].number, page * PAGE, PAGE)
      .then(({ events }) => {
        this.pages.set(
          key,
          events.map((event) => event.preview.slice(0, SHOWN)),
        );
        for (const oldest of this.pages.keys()) {
          if (this.pages.size <= HELD) break;
          this.pages.delete(oldest);
        }
        this.list.refresh();
      })
      // Without previews the list still has what the timeline knows; the next scroll tries again.
      .catch(() => undefined)
      .finally(() => this.pending.delete(key));
  }
}
