// The lanes as a table: a row for each block, for people who read with a screen reader, or who want the numbers.

import { el, fill } from "../dom.js";
import { clockTime, count, duration } from "../format.js";
import { sortable, sorted } from "../sorting.js";
import { dataTable, growing } from "../table.js";

/** Rows that are added at a time. */
const ROWS = 200;
const TITLES = ["Exchange", "Lane", "What", "From", "Length", "Events", "Longest silence", "Findings"];

/**
 * What a row says, as it is sorted; and the event that it begins with.
 * @typedef {object} BlockFacts
 * @property {[number, string, string, number, number | null, number, number, string]} values by column
 * @property {number | null} index
 */
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
    const table = dataTable(TITLES, isNumeric, [], "", false);
    const told = `${count(blocks.length)} blocks in ${count(timeline.rows.length)} lanes`;
    table.prepend(el("caption", {}, told));
    const facts = blocks.map((block) => this.#facts(block, slots.get(block.exchange) ?? 0));
    const { more, show } = growing(table, ROWS, (/** @type {BlockFacts} */ each) => this.#row(each));
    const heads = /** @type {HTMLElement[]} */ ([...table.querySelectorAll("th")]);
    sortable(heads, isNumeric, (order) => show(sorted(facts, order, ({ values }, column) => values[column])));
    show(facts);
    fill(this.element, table, more);
  }

  /**
   * @param {Block} block
   * @param {number} slot
   * @returns {BlockFacts}
   */
  #facts(block, slot) {
    const { timeline } = this.options;
    const ticks = timeline.exchanges[slot];
    const first = block.first_pos ?? 0;
    const last = Math.min(block.last_pos ?? first - 1, ticks.t.length - 1);
    let events = 0;
    let silence = 0;
    for (let pos = first; pos <= last; pos++) {
      if (ticks.row[pos] !== block.row) continue;
      events += 1;
      if (pos > first) silence = Math.max(silence, ticks.t[pos] - ticks.t[pos - 1]);
    }
    const rules = this.marks
      .filter(({ slot: own, index }) => own === slot && timeline.pos[index] >= first && timeline.pos[index] <= last)
      .filter(({ index }) => ticks.row[timeline.pos[index]] === block.row)
      .map(({ mark }) => mark.rule);
    const length = block.to_ns === null ? null : block.to_ns - block.from_ns;
    const lane = timeline.rows[block.row]?.label ?? "";
    const from = ticks.offset_ns + block.from_ns;
    return {
      values: [ticks.number, lane, block.label || block.kind, from, length, events, silence, rules.join(", ")],
      index: block.first_pos === null ? null : timeline.indexOf(slot, first),
    };
  }

  /** @param {BlockFacts} facts */
  #row({ values: [number, lane, label, from, length, events, silence, rules], index }) {
    const choose = () => index !== null && this.options.choose(index);
    const what = index === null ? label : el("button", { type: "button", class: "plain", onclick: choose }, label);
    const figures = [
      clockTime(from),
      length === null ? "open" : duration(length),
      events ? count(events) : "",
      silence ? duration(silence) : "",
      rules,
    ];
    return el(
      "tr",
      {},
      ...[number, lane, what].map((each) => el("td", {}, each)),
      ...figures.map((each) => el("td", { class: "num" }, each)),
    );
  }
}

/** @param {number} column */
function isNumeric(column) {
  return column > 2;
}
