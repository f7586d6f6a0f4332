// The lanes as a table: a row for each block, for people who read with a screen reader, or who want the numbers.

import { el, fill } from "../dom.js";
import { clockTime, count, duration } from "../format.js";

/** Rows that are added at a time. */
const ROWS = 200;

/**
 * @typedef {object} LanesTableOptions
 * @property {import("./timeline.js").SessionTimeline} timeline
 * @property {(index: number) => void} choose
 */

/** The table; its rows are made when it is shown. */
export class LanesTable {
  /** @param {LanesTableOptions} options */
  constructor(options) {
    this.options = options;
    this.element = el("div", {
      class: "lanes-table table-scroll",
      role: "region",
      tabindex: 0,
      "aria-label": "Lanes as a table",
      hidden: true,
    });
    /** @type {import("./findings.js").PlacedMark[]} */
    this.marks = [];
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.element.hidden = !isShown;
    if (isShown) this.draw();
    else fill(this.element);
  }

  draw() {
    if (this.element.hidden) return;
    const { timeline } = this.options;
    const slots = new Map(timeline.exchanges.map((each, slot) => [each.number, slot]));
    const blocks = [...timeline.blocks].sort((a, b) => timeline.startOf(a) - timeline.startOf(b) || a.row - b.row);
    const body = el("tbody");
    const more = el("button", { type: "button", onclick: () => add() });
    let shown = 0;
    const add = () => {
      for (const block of blocks.slice(shown, shown + ROWS)) {
        body.append(this.#row(block, slots.get(block.exchange) ?? 0));
      }
      shown = Math.min(blocks.length, shown + ROWS);
      more.hidden = shown >= blocks.length;
      more.textContent = `More: ${count(blocks.length - shown)} rows`;
    };
    add();
    const titles = ["Exchange", "Lane", "What", "From", "Length", "Events", "Longest silence", "Findings"];
    const table = el(
      "table",
      { class: "data" },
      el("caption", {}, `${count(blocks.length)} blocks in ${count(timeline.rows.length)} lanes, in order of time`),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...titles.map((title, index) => el("th", { scope: "col", class: index > 2 ? "num" : null }, title)),
        ),
      ),
      body,
    );
    fill(this.element, table, more);
  }

  /**
   * @param {Block} block
   * @param {number} slot
   */
  #row(block, slot) {
    const { timeline } = this.options;
    const ticks = timeline.exchanges[slot];
    const first = block.first_pos ?? 0;
    const last = block.last_pos ?? first - 1;
    let events = 0;
    let silence = 0;
    for (let pos = first; pos <= Math.min(last, ticks.t.length - 1); pos++) {
      if (ticks.row[pos] !== block.row) continue;
      events += 1;
      if (pos > first) silence = Math.max(silence, ticks.t[pos] - ticks.t[pos - 1]);
    }
    const marks = this.marks.filter(
      (each) =>
        each.slot === slot &&
        timeline.pos[each.index] >= first &&
        timeline.pos[each.index] <= last &&
        ticks.row[timeline.pos[each.index]] === block.row,
    );
    const label = block.label || block.kind;
    const what =
      block.first_pos === null
        ? el("span", {}, label)
        : el(
            "button",
            { type: "button", class: "plain", onclick: () => this.options.choose(timeline.indexOf(slot, first)) },
            label,
          );
    return el(
      "tr",
      {},
      el("td", {}, ticks.number),
      el("td", {}, timeline.rows[block.row]?.label ?? ""),
      el("td", {}, what),
      el("td", { class: "num" }, clockTime(ticks.offset_ns + block.from_ns)),
      el("td", { class: "num" }, block.to_ns === null ? "open" : duration(block.to_ns - block.from_ns)),
      el("td", { class: "num" }, events ? count(events) : ""),
      el("td", { class: "num" }, silence ? duration(silence) : ""),
      el("td", { class: "num" }, marks.length ? marks.map((each) => each.mark.rule).join(", ") : ""),
    );
  }
}
