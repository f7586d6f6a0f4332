// What a comparison found: a line of sums, the pairs, and one pair with its picture and its levels.

import { copyButton } from "../buttons.js";
import { el, fill } from "../dom.js";
import { count, messageOf, plural } from "../format.js";
import { visible } from "../pretty.js";
import { Levels } from "./levels.js";
import { Pairs } from "./pairs.js";
import { drawPicture } from "./picture.js";
import { playerLink } from "./player_link.js";

/** The result; which pair and which level are open is in the address. */
export class Result {
  /**
   * @param {Comparison} found
   * @param {string} terms of this comparison: those of the form may have been changed since
   * @param {App} app
   * @param {URLSearchParams} query
   */
  constructor(found, terms, app, query) {
    this.found = found;
    this.terms = terms;
    this.app = app;
    this.pairs = new Pairs(found, (index) => this.#showPair(index));
    /** @type {Levels | null} of the pair that is open */
    this.levels = null;
    /** @type {import("./lane_pair.js").LanePair | null} */
    this.lanes = null;
    this.one = el("section", { class: "panel diff-pair", "aria-label": "One pair" });
    this.element = el("div", {}, this.#summary(), this.pairs.element, this.one);
    this.choose(query);
  }

  get pair() {
    return this.found.pairs[this.pairs.chosen];
  }

  #summary() {
    const { a, b } = this.found.sessions;
    const verdict = this.found.is_equal ? ["good", "equal"] : ["warning", "different"];
    return el(
      "div",
      { class: "toolbar diff-summary" },
      el(
        "h1",
        { class: "cut" },
        playerLink(a.session_id, "A", visible(a.name)),
        " ↔ ",
        playerLink(b.session_id, "B", visible(b.name)),
      ),
      el("span", { class: `badge ${verdict[0]}` }, verdict[1]),
      el("span", { class: "quiet" }, this.#words()),
      el("span", { class: "gap" }),
      copyButton("Copy recorder diff …", () => this.found.command, this.app),
    );
  }

  #words() {
    const { is_equal, pairs, missing, added } = this.found;
    if (is_equal) return "No difference.";
    const { differing } = this.pairs;
    const differences = differing.reduce((sum, each) => sum + each, 0);
    const where =
      pairs.length > 1 ? `${count(differing.filter(Boolean).length)} of ${plural(pairs.length, "pair")}` : "one pair";
    const alone = missing.length + added.length;
    return [
      differences ? `${plural(differences, "difference")} in ${where}` : null,
      alone ? `${plural(alone, "exchange")} without a partner` : null,
    ]
      .filter(Boolean)
      .join(", ");
  }

  /**
   * Show the pair and the level of an address; else the first that differ.
   * @param {URLSearchParams} query
   */
  choose(query) {
    const number = Number(query.get("pair"));
    const isThere = number >= 1 && number <= this.found.pairs.length;
    this.pairs.select(isThere ? number - 1 : Math.max(0, this.pairs.differing.findIndex(Boolean)));
    const levels = this.pair?.levels ?? [];
    const given = query.get("level");
    const level = levels.find((each) => each.level === given) ?? levels.find((each) => each.count) ?? levels[0];
    void this.#drawPair(level?.level ?? "");
  }

  /** @param {number} by */
  step(by) {
    const next = this.pairs.beside(by);
    if (next === undefined) return false;
    this.#showPair(next);
    return true;
  }

  /** @param {number} index */
  #showPair(index) {
    const query = new URLSearchParams(this.terms);
    query.set("pair", String(index + 1));
    this.app.replace(`#/diff?${query}`);
    this.choose(query);
  }

  /** @param {string} level */
  showLevel(level) {
    if (!this.pair?.levels.some((each) => each.level === level)) return false;
    const query = new URLSearchParams(this.terms);
    query.set("pair", String(this.pairs.chosen + 1));
    query.set("level", level);
    this.app.replace(`#/diff?${query}`);
    this.levels?.show(level);
    return true;
  }

  /** @param {string} level */
  async #drawPair(level) {
    this.close();
    const { pair } = this;
    if (!pair) return fill(this.one);
    const { a, b } = this.found.sessions;
    const picture = el("div", { class: "diff-picture" }, el("p", { class: "note" }, "Loading both lanes…"));
    this.levels = new Levels(pair, this.found.sessions, this.#alone(pair), (name) => this.showLevel(name));
    this.levels.show(level);
    fill(this.one, picture, this.levels.element);
    try {
      const [of_a, of_b] = await Promise.all([
        this.app.source.timeline(a.session_id, pair.a.number, -1),
        this.app.source.timeline(b.session_id, pair.b.number, -1),
      ]);
      if (!picture.isConnected) return;
      this.lanes = drawPicture(
        picture,
        pair,
        { session: a.session_id, number: pair.a.number, timeline: of_a },
        { session: b.session_id, number: pair.b.number, timeline: of_b },
        this.app,
      );
    } catch (error) {
      fill(picture, el("p", { class: "error", role: "alert" }, messageOf(error)));
    }
  }

  /**
   * Return the address that compares only this pair; null if it is the only one.
   * @param {Pair} pair
   */
  #alone(pair) {
    if (this.found.pairs.length === 1) return null;
    const { a, b } = this.found.sessions;
    const query = new URLSearchParams(this.terms);
    query.set("a", `${a.session_id}:${pair.a.number}`);
    query.set("b", `${b.session_id}:${pair.b.number}`);
    return `#/diff?${query}`;
  }

  close() {
    this.lanes?.close();
    this.lanes = null;
  }
}
