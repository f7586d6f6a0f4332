// The list of the exchanges that were compared, with the number of differences on each level.

import { el, fill } from "../dom.js";
import { count } from "../format.js";
import { playerHref } from "../links.js";
import { visible } from "../pretty.js";
import { dataTable, scrolling } from "../table.js";
import { LEVELS } from "./levels.js";

const PAIRS_SHOWN = 100;

/** @type {Record<string, string>} */
const HOW = {
  exact: "the same request",
  noise: "the same but for noise",
  position: "the same position",
  order: "the next to this place",
  alone: "the only ones",
};

/** The list; one of its pairs is chosen. */
export class Pairs {
  /**
   * @param {Comparison} found
   * @param {(index: number) => void} choose
   */
  constructor(found, choose) {
    this.found = found;
    this.choose = choose;
    this.levels = LEVELS.filter((level) => level in found.levels);
    /** Number of differences of each pair. */
    this.differing = found.pairs.map((pair) => pair.levels.reduce((sum, level) => sum + level.count, 0));
    this.shown = PAIRS_SHOWN;
    this.onlyDiffering = found.pairs.length > PAIRS_SHOWN;
    this.chosen = 0;
    this.element = el("section", { class: "panel diff-pairs", "aria-label": "Exchanges" });
    this.element.hidden = found.pairs.length === 1 && !found.missing.length && !found.added.length;
  }

  /** @param {number} index */
  select(index) {
    this.chosen = index;
    this.#draw();
  }

  /**
   * Return the pair that is so many rows below the chosen one; undefined if there is none.
   * @param {number} by
   */
  beside(by) {
    const listed = this.#listed();
    return listed[listed.indexOf(this.chosen) + by];
  }

  #listed() {
    const indices = this.found.pairs.map((_, index) => index);
    return this.onlyDiffering ? indices.filter((index) => this.differing[index] || index === this.chosen) : indices;
  }

  #draw() {
    if (this.element.hidden) return;
    const { found, element } = this;
    const top = element.querySelector(".table-scroll")?.scrollTop ?? 0;
    const hadFocus = element.querySelector("table")?.contains(document.activeElement);
    const listed = this.#listed();
    const rows = listed.slice(0, this.shown).map((index) => this.#row(index));
    const alone = [
      ...found.missing.map((each) => this.#aloneRow(each, "missing")),
      ...found.added.map((each) => this.#aloneRow(each, "added")),
    ];
    const titles = ["A", "B", "Request", "Paired by", ...this.levels];
    const table = dataTable(titles, (index) => index < 2 || index > 3, [...rows, ...alone.slice(0, this.shown)]);
    const scroller = scrolling("Pairs of exchanges", table);
    const left = alone.length - this.shown;
    fill(
      element,
      el("div", { class: "panel-head" }, el("h2", {}, "Exchanges"), this.#filter()),
      scroller,
      listed.length > this.shown ? this.#more(listed.length) : null,
      left > 0 ? el("p", { class: "note" }, `${count(left)} more have no partner.`) : null,
    );
    scroller.scrollTop = top;
    const chosen = element.querySelector("[aria-current]");
    if (hadFocus && chosen instanceof HTMLElement) chosen.focus({ preventScroll: true });
    requestAnimationFrame(() => chosen?.scrollIntoView({ block: "nearest" }));
  }

  #filter() {
    const onchange = () => {
      this.onlyDiffering = box.checked;
      this.#draw();
    };
    const attributes = { type: "checkbox", checked: this.onlyDiffering, onchange };
    const box = /** @type {HTMLInputElement} */ (el("input", attributes));
    return el("label", { class: "check" }, box, "Only pairs that differ");
  }

  /** @param {number} total */
  #more(total) {
    const onclick = () => {
      this.shown += PAIRS_SHOWN;
      this.#draw();
    };
    const following = Math.min(PAIRS_SHOWN, total - this.shown);
    return el("button", { type: "button", onclick }, `Show ${following} more of ${count(total)}`);
  }

  /** @param {number} index */
  #row(index) {
    const pair = this.found.pairs[index];
    const isChosen = index === this.chosen;
    const choose = el(
      "button",
      {
        type: "button",
        class: "plain num",
        "aria-current": isChosen ? "true" : null,
        "aria-label": `Show pair ${pair.a.number} and ${pair.b.number}`,
        onclick: () => this.choose(index),
      },
      pair.a.number,
    );
    return el(
      "tr",
      { class: isChosen ? "chosen" : null },
      el("td", { class: "num" }, choose),
      el("td", { class: "num" }, pair.b.number),
      el("td", { class: "cut mono" }, visible(pair.a.asked)),
      el("td", { class: "quiet" }, HOW[pair.how] ?? pair.how),
      ...this.levels.map((level) => countCell(pair.levels.find((each) => each.level === level))),
    );
  }

  /**
   * @param {ComparedExchange} which
   * @param {"missing" | "added"} change
   */
  #aloneRow(which, change) {
    const side = change === "missing" ? "a" : "b";
    const go = el("a", { href: playerHref(this.found.sessions[side].session_id, which.number) }, which.number);
    return el(
      "tr",
      {},
      el("td", { class: "num" }, side === "a" ? go : "–"),
      el("td", { class: "num" }, side === "b" ? go : "–"),
      el("td", { class: "cut mono" }, visible(which.asked)),
      el(
        "td",
        { colspan: this.levels.length + 1 },
        el("span", { class: "badge warning" }, change),
        ` only in ${side.toUpperCase()}`,
      ),
    );
  }
}

/** @param {Level | undefined} level */
function countCell(level) {
  if (!level) return el("td", { class: "num quiet" }, "");
  if (!level.is_compared) return el("td", { class: "num quiet", title: level.note }, "–");
  return el("td", { class: level.count ? "num strong" : "num quiet" }, count(level.count));
}
