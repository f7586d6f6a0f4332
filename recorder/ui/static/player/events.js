// The list of a session's events in order of time: what the timeline knows at once, previews as they are loaded.

import { el, fill } from "../dom.js";
import { clockTime, duration } from "../format.js";
import { countWhile } from "../search.js";
import { sorted } from "../sorting.js";
import { VirtualList } from "../virtual.js";
import { EventFilter } from "./event_filter.js";
import { heatOf } from "./heat.js";

const ROW = 24;
const HEAD = ["Event", "Time", "Silence", "", "Type", "Content"];
const FIGURES = [0, 1, 2];
const SILENCE = 2;
const TYPE = 4;
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
 * @property {(text: string) => Promise<FoundEvents>} find
 * @property {(index: number) => void} choose
 * @property {(message: string) => void} announce
 * @property {(shown: number) => void} counted so many events pass the filter
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
    /** @type {number[] | null} the index of each row; null: all events, in order of time */
    this.shown = null;
    /** @type {import("../sorting.js").Order | null} */
    this.order = null;
    /** The index of the playhead. */
    this.at = -1;
    this.filter = new EventFilter({ ...options, changed: () => this.#choose(), next: () => this.#next() });
    this.list = new VirtualList({
      label: "Events",
      rowHeight: ROW,
      head: HEAD,
      numeric: FIGURES,
      sort: (order) => {
        this.order = order;
        this.#choose();
      },
      draw: (row, place) => this.#draw(row, this.#indexAt(place)),
      choose: (place) => options.choose(this.#indexAt(place)),
      seen: (first, last) => this.#seen(first, last),
    });
    this.list.element.classList.add("events");
    // Previews are not all here: nothing sorts by them.
    const content = this.list.element.querySelector("[role=columnheader]:last-child");
    if (content) fill(content, "Content");
    this.element = el("div", { class: "event-place" }, this.filter.element, this.list.element);
    this.list.setCount(this.timeline.length);
  }

  /** Show the events that are wanted, in the order that is. */
  #choose() {
    const { order, timeline } = this;
    let shown = this.filter.wanted();
    if (order) shown = sorted(shown ?? [...timeline.time.keys()], order, (index, column) => this.#value(index, column));
    this.shown = shown;
    const total = shown?.length ?? timeline.length;
    this.list.setCount(total);
    this.options.counted(total);
    if (order) {
      this.list.element.scrollTop = 0;
      this.list.mark(this.#placeOf(this.at));
    } else this.reveal(this.at);
  }

  /** Go to the next event that passes the filter, after the last to the first. */
  #next() {
    const wanted = this.filter.wanted();
    if (wanted?.length) this.options.choose(wanted.find((index) => index > this.at) ?? wanted[0]);
  }

  /**
   * @param {number} index
   * @param {number} column
   */
  #value(index, column) {
    if (column === SILENCE) return this.timeline.silenceBefore(index);
    return column === TYPE ? this.timeline.typeOf(index) : index;
  }

  /** @param {number} place of a row */
  #indexAt(place) {
    return this.shown ? (this.shown[place] ?? 0) : place;
  }

  /**
   * Return the row of an event, or in order of time that of the last one before it; -1 if there is none.
   * @param {number} index
   */
  #placeOf(index) {
    const { shown } = this;
    if (!shown) return index;
    if (this.order) return shown.indexOf(index);
    return countWhile(shown.length, (place) => shown[place] <= index) - 1;
  }

  close() {
    this.filter.close();
    clearTimeout(this.resting);
    this.list.close();
  }

  /** Take the events that are new. */
  setTimeline() {
    // A page that was short is longer now.
    for (const [key, page] of this.pages) if (page.length < PAGE) this.pages.delete(key);
    this.filter.setTimeline();
    this.#choose();
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
    if (index !== this.at) this.reveal(index);
  }

  /** @param {number} index */
  reveal(index) {
    this.at = index;
    const place = this.#placeOf(index);
    if (place < 0) this.list.mark(-1);
    else this.list.activate(place, "center");
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
      el("span", { class: "event-pos" }, el("span", { class: "quiet" }, `${timeline.exchanges[slot].number}:`), pos),
      el("span", { class: "event-time quiet" }, clockTime(timeline.time[index])),
      el(
        "span",
        { class: `event-silence heat-text-${heatOf(silence)}` },
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
      for (let place = first; place <= Math.min(last, this.list.count - 1); place++) {
        const index = this.#indexAt(place);
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
