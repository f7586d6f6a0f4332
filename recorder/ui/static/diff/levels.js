// The levels of a comparison of two exchanges: what differs on each, what was measured.

import { changedTexts } from "../changed.js";
import { el, fill } from "../dom.js";
import { count, duration } from "../format.js";
import { visible } from "../pretty.js";
import { dataTable, growing, scrolling } from "../table.js";
import { Tabs } from "../tabs.js";
import { playerLink } from "./player_link.js";

/** Characters of two values that stand in one line. */
const ONE_LINE = 100;
/** All levels, as `recorder diff --only` has them. */
export const LEVELS = ["request", "answer", "tools", "usage", "timing", "events", "bytes"];
const DIFFERENCES_SHOWN = 100;

/** The levels of one pair, one of them open. */
export class Levels {
  /**
   * @param {Pair} pair
   * @param {Comparison["sessions"]} sessions
   * @param {string | null} alone the address that compares only this pair, which lists more; null if it is the only one
   * @param {(level: string) => void} choose
   */
  constructor(pair, sessions, alone, choose) {
    this.pair = pair;
    this.sessions = sessions;
    this.alone = alone;
    this.panel = el("div", { id: "level-panel", class: "level-panel" });
    const tabs = pair.levels.map((level) => ({ name: level.level, content: [level.level, " ", badge(level)] }));
    this.tabs = new Tabs("Levels", tabs, this.panel, choose);
    this.element = el("div", { class: "diff-levels" }, this.tabs.element, this.panel);
  }

  /** @param {string} name */
  show(name) {
    const level = this.pair.levels.find((each) => each.level === name);
    if (!level) return;
    this.tabs.select(name);
    fill(this.panel, ...this.#parts(level));
  }

  /**
   * @param {Level} level
   * @returns {(Node | null)[]}
   */
  #parts(level) {
    if (level.note) return [el("p", { class: "quiet" }, level.note)];
    const listed = level.differences.length;
    const differing = level.measures.filter((each) => each.differs).length;
    const left = level.count - listed - differing;
    const alone = this.alone === null ? null : el("a", { href: this.alone }, "Compare only this pair");
    return [
      level.count ? null : el("p", { class: "quiet" }, "Equal."),
      level.measures.length ? measuresTable(level.measures) : null,
      listed ? this.#differences(level.differences) : null,
      left > 0 ? el("p", { class: "note" }, `${count(left)} more, which are counted and not listed. `, alone) : null,
    ];
  }

  /** @param {Difference[]} differences */
  #differences(differences) {
    const table = dataTable(["Where", "Change", "Difference", "Open"], () => false, [], "differences");
    const { more, show } = growing(table, DIFFERENCES_SHOWN, (/** @type {Difference} */ each) => this.#row(each));
    show(differences);
    return el("div", {}, scrolling("Differences", table), more);
  }

  /** @param {Difference} each */
  #row(each) {
    const change = each.change ?? "changed";
    const { a, b } = this.sessions;
    const isPlaced = each.a_pos !== undefined || each.b_pos !== undefined;
    const link = (
      /** @type {string} */ session,
      /** @type {string} */ side,
      /** @type {number} */ number,
      /** @type {number | undefined} */ pos,
    ) =>
      isPlaced && pos === undefined
        ? []
        : [playerLink(session, side, pos === undefined ? "" : `#${pos}`, number, pos), " "];
    return el(
      "tr",
      {},
      el("td", { class: "where" }, visible(each.where)),
      el("td", {}, el("span", { class: `badge ${change}` }, change)),
      el("td", { class: "words" }, ...(each.words ? each.words.map(word) : sides(each))),
      el(
        "td",
        { class: "places" },
        ...link(a.session_id, "A", this.pair.a.number, each.a_pos),
        ...link(b.session_id, "B", this.pair.b.number, each.b_pos),
      ),
    );
  }
}

/** @param {Level} level */
function badge(level) {
  const attributes = { class: `badge ${level.count ? "warning" : ""}`, title: level.note };
  return el("span", attributes, level.is_compared ? count(level.count) : "–");
}

/**
 * @param {[string, string]} word
 * @returns {Node}
 */
function word([of, text]) {
  const shown = visible(text);
  if (of === "-") return el("del", {}, shown);
  return of === "+" ? el("ins", {}, shown) : document.createTextNode(shown);
}

/**
 * Return the values of both sides; an absent one is not shown where the change implies it.
 * @param {Difference} each
 * @returns {(Node | string)[]}
 */
function sides(each) {
  const isChanged = (each.change ?? "changed") === "changed";
  const a = each.a ?? (isChanged ? "(nothing)" : null);
  const b = each.b ?? (isChanged ? "(nothing)" : null);
  const [before, after] = changedTexts(visible(a ?? ""), visible(b ?? ""));
  if (a === null) return [after];
  if (b === null) return [before];
  return [before, a.length + b.length > ONE_LINE ? el("br") : " → ", after];
}

/** @param {Measure[]} measures */
function measuresTable(measures) {
  const rows = measures.map((each) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, each.name.replaceAll("_", " ")),
      el("td", { class: "num" }, measured(each.a, each.unit)),
      el("td", { class: "num" }, measured(each.b, each.unit)),
      el(
        "td",
        { class: "num quiet" },
        each.a === null || each.b === null || each.a === each.b ? "" : signed(each.b - each.a, each.unit),
      ),
      el("td", { class: "num" }, each.ratio === null ? "" : `×${each.ratio.toFixed(2)}`),
      el("td", {}, each.differs ? el("span", { class: "badge warning" }, "differs") : ""),
    ),
  );
  const titles = ["Measure", "A", "B", "B − A", "Ratio", ""];
  return scrolling(
    "Measures",
    dataTable(titles, (index) => index > 0, rows, "measures", false),
  );
}

/**
 * @param {number | null} value
 * @param {string} unit
 */
function measured(value, unit) {
  if (value === null) return "–";
  return unit === "ns" ? duration(value) : count(value);
}

/**
 * @param {number} value
 * @param {string} unit
 */
function signed(value, unit) {
  return `${value < 0 ? "−" : "+"}${measured(Math.abs(value), unit)}`;
}
