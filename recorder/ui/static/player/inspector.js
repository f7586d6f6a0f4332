// The event of the playhead in full: payload, bytes, reads, hash, findings.

import { bytesOf, hexDump } from "../bytes.js";
import { el, fill } from "../dom.js";
import { count, duration, messageOf } from "../format.js";
import { prettyJson } from "../pretty.js";
import { Tabs } from "../tabs.js";
import { DrawnText } from "./text.js";

/** Pause of the playhead after which the event is loaded. */
const REST_MS = 120;
/** Time after which an event is shown while the playhead goes on. */
const PATIENCE_MS = 400;
/** Bytes of a hex dump that are shown at first, and by each "more". */
const DUMPED = 2048;
/** Names of the tabs. */
const PARTS = [
  { name: "payload", content: ["Payload"] },
  { name: "bytes", content: ["Bytes"] },
  { name: "origin", content: ["Origin"] },
];
/** Reads that are listed. */
const READS = 50;

/**
 * @typedef {object} InspectorOptions
 * @property {(exchange: number, pos: number) => Promise<EventDetails>} load
 */

/** The inspector. */
export class Inspector {
  /** @param {InspectorOptions} options */
  constructor(options) {
    this.options = options;
    this.title = el("h2", { class: "cut" }, "Event");
    // It scrolls if there are many, so keys must reach it.
    this.marks = el("div", {
      class: "findings",
      role: "region",
      "aria-label": "Findings of this event",
      tabindex: 0,
      hidden: true,
    });
    this.panel = el("div", { id: "inspector-panel", class: "inspector-panel scroll grow" });
    this.tabs = new Tabs("Parts of the event", PARTS, this.panel, (name) => this.#choose(name), false);
    this.element = el(
      "section",
      { class: "inspector", "aria-label": "Inspector" },
      el("div", { class: "inspector-head" }, this.title, this.tabs.element),
      this.marks,
      this.panel,
    );
    this.part = "payload";
    /** @type {EventDetails | null} */
    this.details = null;
    this.shown = "";
    this.wanted = 0;
    this.drawnMs = 0;
    /** The event that is wanted: its name and its findings are shown with its content, never above another's. */
    this.next = { key: "", name: "Event", marks: /** @type {Mark[]} */ ([]) };
    this.#choose("payload");
  }

  close() {
    clearTimeout(this.resting);
  }

  /**
   * Show an event when the playhead rests, and now and then while it goes on.
   * @param {number} exchange
   * @param {number} pos
   * @param {string} type
   * @param {Mark[]} marks
   */
  show(exchange, pos, type, marks) {
    const key = `${exchange}/${pos}`;
    if (key === this.next.key) return;
    const next = { key, name: `${exchange}:${pos} ${type}`, marks };
    this.next = next;
    this.panel.classList.add("is-old");
    clearTimeout(this.resting);
    const mine = ++this.wanted;
    const isLate = performance.now() - this.drawnMs > PATIENCE_MS;
    this.resting = setTimeout(
      async () => {
        const details = await this.options.load(exchange, pos).catch(messageOf);
        if (mine < this.wanted && performance.now() - this.drawnMs < PATIENCE_MS) return;
        this.shown = key;
        this.drawnMs = performance.now();
        this.title.textContent = next.name;
        this.title.title = next.name;
        this.#drawMarks(next.marks);
        if (typeof details === "string") this.#fail(details);
        else this.#take(details);
      },
      isLate ? 0 : REST_MS,
    );
  }

  /** @param {Mark[]} marks of the event that is wanted */
  showMarks(marks) {
    this.next.marks = marks;
    if (this.next.key === this.shown) this.#drawMarks(marks);
  }

  /** @param {Mark[]} marks */
  #drawMarks(marks) {
    const entries = marks.map((mark) =>
      el(
        "p",
        { class: `finding ${mark.severity}` },
        el("span", { "aria-hidden": "true" }, mark.kind === "lint" ? "▼ " : "◆ "),
        el("b", { class: "mono" }, mark.rule),
        el("span", {}, ` ${mark.text}`),
        mark.why ? el("span", { class: "quiet" }, ` ${mark.why}`) : null,
      ),
    );
    this.marks.hidden = !entries.length;
    fill(this.marks, ...entries);
  }

  /** @param {string} name */
  #choose(name) {
    this.part = name;
    this.tabs.select(name);
    this.#draw();
  }

  /** @param {EventDetails} details */
  #take(details) {
    this.details = details;
    this.panel.classList.remove("is-old");
    this.#draw();
  }

  /** @param {string} message */
  #fail(message) {
    this.details = null;
    this.panel.classList.remove("is-old");
    fill(this.panel, el("p", { class: "error", role: "alert" }, message));
  }

  #draw() {
    const { details } = this;
    if (!details) return;
    this.panel.scrollTop = 0;
    if (this.part === "payload") fill(this.panel, payload(details));
    else if (this.part === "bytes") fill(this.panel, ...bytes(details));
    else fill(this.panel, origin(details));
  }
}

/** @param {EventDetails} details */
function payload(details) {
  const raw = typeof details.event.raw === "string" ? details.event.raw : "";
  const text = new DrawnText(null);
  text.element.classList.add("json");
  const shown = details.payload ?? raw;
  if (!text.setTree(shown)) text.set(prettyJson(shown));
  return text.element;
}

/** @param {EventDetails} details */
function bytes(details) {
  const data = bytesOf(/** @type {RawBytes} */ (details.event.raw));
  const start = details.body_offset ?? 0;
  const dump = el("pre", { class: "dump" });
  const digits = Math.max(4, String(start + data.length).length);
  let shown = 0;
  const more = el("button", { type: "button", onclick: () => add() });
  const add = () => {
    const to = Math.min(data.length, shown + DUMPED);
    dump.append(hexDump(data, shown, to, (at) => String(start + at).padStart(digits)));
    shown = to;
    more.hidden = shown >= data.length;
    more.textContent = `More: ${count(data.length - shown)} bytes`;
  };
  add();
  const place =
    details.body_offset === null
      ? "not a part of the response body"
      : `bytes ${count(start)} to ${count(start + data.length)} of the decoded body`;
  return [el("p", { class: "note" }, `${count(data.length)} bytes · ${place}`), dump, more];
}

/** @param {EventDetails} details */
function origin(details) {
  const { event, chain, reads } = details;
  const fact = (/** @type {string} */ name, /** @type {Json | undefined} */ value) =>
    value === null || value === undefined ? [] : [el("dt", {}, name), el("dd", { class: "mono" }, String(value))];
  const list = (reads ?? [])
    .slice(0, READS)
    .map(([t, start, end]) => `${duration(t)}: bytes ${count(start)} to ${count(end)}`);
  if ((reads?.length ?? 0) > READS) list.push(`and ${count((reads?.length ?? 0) - READS)} more reads`);
  return el(
    "dl",
    { class: "facts" },
    ...fact("kind", event.kind),
    ...fact("type", event.type),
    ...fact("time", typeof event.t_ns === "number" ? `${duration(event.t_ns)} after the exchange began` : null),
    ...fact("sequence", event.sequence_number),
    ...fact("item", event.item_id),
    ...fact("output", event.output_index),
    ...(list.length
      ? [el("dt", {}, "read"), el("dd", { class: "mono" }, ...list.map((line) => el("div", {}, line)))]
      : []),
    el("dt", {}, "chain"),
    el(
      "dd",
      {},
      el(
        "span",
        { class: `badge ${chain.holds ? "good" : "error"}` },
        chain.holds ? "holds" : "does not hold: the event or one before it was changed",
      ),
    ),
    ...fact("hash", chain.hash),
    ...fact("previous", chain.previous),
    ...fact("exchange", event.exchange_id),
  );
}
