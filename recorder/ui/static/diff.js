// The page that compares two sessions or exchanges, level by level, with both on one time axis.

import { copyButton, count, duration, el, fill, wallTime } from "./dom.js";
import { endOf, LanePair, pairedRows } from "./lane_pair.js";
import { visible } from "./pretty.js";

const LEVELS = ["request", "answer", "tools", "usage", "timing", "events", "bytes"];
const RECENT = 50; // sessions to choose from
const PAIRS_SHOWN = 100;
const DIFFERENCES_SHOWN = 100;

/** @type {Record<string, string>} */
const HOW = {
  exact: "the same request",
  noise: "the same but for noise",
  position: "the same position",
  order: "the next to this place",
  alone: "the only ones",
};

/** @typedef {{ of: string, text: string }} Word */
/** @typedef {{ where: string, change?: string, a?: string, b?: string, a_pos?: number, b_pos?: number, words?: [string, string][] }} Difference */
/** @typedef {{ name: string, unit: string, a: number | null, b: number | null, ratio: number | null, differs: boolean }} Measure */
/** @typedef {{ level: string, count: number, differences: Difference[], measures: Measure[], note: string | null, is_compared: boolean }} Level */
/** @typedef {{ number: number, exchange_id: string, asked: string }} Which */
/** @typedef {{ a: Which, b: Which, how: string, levels: Level[], items: [number | null, number | null][] }} Pair */
/** @typedef {{ session_id: string, name: string, exchanges: number }} SideOf */
/** @typedef {{ a: string, b: string, is_equal: boolean, levels: Record<string, number>, pairs: Pair[], missing: Which[], added: Which[], sessions: { a: SideOf, b: SideOf }, command: string }} Comparison */

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("Diff");
  const page = new DiffPage(main, app);
  await page.show(route);
  return page;
}

/** @implements {Page} */
class DiffPage {
  /**
   * @param {HTMLElement} main
   * @param {App} app
   */
  constructor(main, app) {
    this.app = app;
    this.results = el("div", { class: "diff-results" });
    this.form = new Form(app);
    fill(main, this.form.element, this.results);
    /** @type {Result | null} */
    this.result = null;
    this.asked = "";
    /** @type {[string, string][]} */
    this.help = [
      ["j k", "Next, previous pair"],
      ["1 … 7", "Level: request, answer, tools, usage, timing, events, bytes"],
    ];
  }

  /** @param {Route} route */
  async show(route) {
    this.form.set(route.query);
    const asked = this.form.query().toString();
    if (!route.query.get("a") || !route.query.get("b")) {
      this.clear();
      this.asked = asked;
      fill(
        this.results,
        el("p", { class: "empty" }, "Choose two sessions. With :N at its end, a reference is one exchange: latest:2."),
      );
      const chooser = await this.form.chooser();
      if (chooser && this.asked === asked) this.results.append(chooser);
      return;
    }
    this.asked = asked;
    this.clear();
    fill(this.results, el("p", { class: "empty", role: "status" }, "Comparing…"));
    try {
      /** @type {Comparison} */
      const found = await this.app.api(`/api/diff?${asked}`);
      if (this.asked !== asked) return;
      this.app.setTitle(`${found.sessions.a.name} ↔ ${found.sessions.b.name}`);
      this.result = new Result(found, this.form, this.app, route.query);
      fill(this.results, this.result.element);
    } catch (error) {
      if (this.asked !== asked) return;
      fill(
        this.results,
        el("p", { role: "alert", class: "error" }, error instanceof Error ? error.message : String(error)),
      );
    }
  }

  clear() {
    this.result?.close();
    this.result = null;
  }

  /** @param {Route} route */
  update(route) {
    const given = new Form(this.app, false);
    given.set(route.query);
    if (this.result && given.query().toString() === this.asked) this.result.choose(route.query);
    else void this.show(route);
    return true;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.result || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "j") return this.result.step(1);
    if (event.key === "k") return this.result.step(-1);
    const level = LEVELS[Number(event.key) - 1];
    return level ? this.result.showLevel(level) : false;
  }

  close() {
    this.asked = "";
    this.clear();
  }
}

/** The two references, and the terms of the comparison. */
class Form {
  /**
   * @param {App} app
   * @param {boolean} [isDrawn]
   */
  constructor(app, isDrawn = true) {
    this.app = app;
    this.a = input("a", "A");
    this.b = input("b", "B");
    this.tolerance = /** @type {HTMLInputElement} */ (
      el("input", { type: "number", min: 1, step: "any", placeholder: "1.25", name: "tolerance" })
    );
    this.exact = /** @type {HTMLInputElement} */ (el("input", { type: "checkbox", name: "exact" }));
    this.bytes = /** @type {HTMLInputElement} */ (el("input", { type: "checkbox", name: "bytes" }));
    const list = el("datalist", { id: "recent-sessions" });
    this.element = el(
      "form",
      {
        class: "toolbar bottom diff-form",
        "aria-label": "What is compared",
        onsubmit: (/** @type {Event} */ event) => this.submit(event),
      },
      el("label", { class: "field grow" }, "A: session, or session:N", this.a),
      el("label", { class: "field grow" }, "B: session, or session:N", this.b),
      el(
        "button",
        { type: "button", onclick: () => this.swap(), "aria-label": "Swap A and B", title: "Swap A and B" },
        "⇄",
      ),
      el(
        "label",
        { class: "field tolerance", title: "By what factor times may differ; below 50 ms no difference counts" },
        "Tolerance",
        this.tolerance,
      ),
      el("label", { class: "check", title: "Nothing is noise: ids, times and padding count" }, this.exact, "Exact"),
      el(
        "label",
        { class: "check", title: "Ids alone make the bytes of any two recordings differ" },
        this.bytes,
        "Bytes",
      ),
      el("button", { class: "primary" }, "Compare"),
      list,
    );
    /** @type {Promise<Recent[]>} */
    this.recent = isDrawn ? recentSessions(app) : Promise.resolve([]);
    void this.recent.then((found) => {
      const options = found.map(({ ref, title }) => el("option", { value: ref }, title));
      fill(list, el("option", { value: "latest" }, "the session that was used last"), ...options);
    });
  }

  /** Return a table of the last sessions, with buttons that make each A or B. */
  async chooser() {
    const found = await this.recent;
    if (!found.length) return null;
    const rows = found.map(({ ref, name, title, last }) =>
      el(
        "tr",
        {},
        el(
          "td",
          {},
          el(
            "div",
            { class: "group" },
            ...[this.a, this.b].map((field) =>
              el(
                "button",
                {
                  type: "button",
                  "aria-label": `Use ${visible(name)} as ${field.placeholder}`,
                  onclick: () => this.use(field, ref),
                },
                field.placeholder,
              ),
            ),
          ),
        ),
        el("td", { class: "cut mono" }, visible(name)),
        el("td", { class: "cut" }, visible(title)),
        el("td", { class: "num quiet" }, last),
      ),
    );
    const heads = ["Use as", "Session", "Title", "Last used"].map((name, index) =>
      el("th", { scope: "col", class: index === 3 ? "num" : null }, name),
    );
    return el(
      "div",
      { class: "table-scroll chooser", tabindex: 0, role: "region", "aria-label": "The last sessions" },
      el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)),
    );
  }

  /**
   * @param {HTMLInputElement} field
   * @param {string} ref
   */
  use(field, ref) {
    field.value = ref;
    const other = field === this.a ? this.b : this.a;
    if (other.value.trim()) this.app.go(`#/diff?${this.query()}`);
    else this.app.announce(`${field.placeholder} is ${ref}.`);
  }

  /** @param {URLSearchParams} query */
  set(query) {
    this.a.value = query.get("a") ?? "";
    this.b.value = query.get("b") ?? "";
    this.tolerance.value = query.get("tolerance") ?? "";
    this.exact.checked = query.get("exact") === "1";
    this.bytes.checked = (query.get("only") ?? "").split(",").includes("bytes");
  }

  /** Return the query of the API, which the address has too. */
  query() {
    const query = new URLSearchParams({ a: this.a.value.trim(), b: this.b.value.trim() });
    if (this.tolerance.value) query.set("tolerance", this.tolerance.value);
    if (this.exact.checked) query.set("exact", "1");
    if (this.bytes.checked) query.set("only", LEVELS.join(","));
    return query;
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const empty = [this.a, this.b].find((each) => !each.value.trim());
    if (empty) empty.focus();
    else this.app.go(`#/diff?${this.query()}`);
  }

  swap() {
    [this.a.value, this.b.value] = [this.b.value, this.a.value];
    if (this.a.value && this.b.value) this.app.go(`#/diff?${this.query()}`);
  }
}

/**
 * @param {string} name
 * @param {string} placeholder
 */
function input(name, placeholder) {
  const attributes = {
    name,
    placeholder,
    list: "recent-sessions",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  };
  return /** @type {HTMLInputElement} */ (el("input", attributes));
}

/** @typedef {{ ref: string, name: string, title: string, last: string }} Recent */

/**
 * Return the last sessions. Of several with one name, a name finds the newest; the others are named by their ids.
 * @param {App} app
 * @returns {Promise<Recent[]>}
 */
async function recentSessions(app) {
  const found = await app.api(`/api/sessions?limit=${RECENT}`).catch(() => null);
  const names = new Set();
  return (found?.sessions ?? []).map((/** @type {SessionSummary} */ session) => {
    const ref = names.has(session.name) ? session.session_id : session.name;
    names.add(session.name);
    return {
      ref,
      name: session.name,
      title: String(session.title ?? ""),
      last: wallTime(Number(session.ended_ns) || Number(session.created_ns)),
    };
  });
}

/** What the comparison found: a line of sums, the pairs, and one pair with its levels. */
class Result {
  /**
   * @param {Comparison} found
   * @param {Form} form
   * @param {App} app
   * @param {URLSearchParams} query
   */
  constructor(found, form, app, query) {
    this.found = found;
    /** The terms of this comparison: the form may have been changed since, and is not submitted. */
    this.compared = form.query().toString();
    this.app = app;
    this.differing = found.pairs.map((pair) => total(pair));
    this.shown = PAIRS_SHOWN;
    this.onlyDiffering = found.pairs.length > PAIRS_SHOWN;
    this.pair = 0;
    this.level = "";
    /** @type {LanePair | null} */
    this.lanes = null;
    this.pairs = el("section", { class: "panel diff-pairs", "aria-label": "Exchanges" });
    this.one = el("section", { class: "panel diff-pair", "aria-label": "One pair" });
    this.element = el("div", {}, this.summary(), this.pairs, this.one);
    this.choose(query);
  }

  summary() {
    const { found } = this;
    const pairs = this.differing.filter(Boolean).length;
    const differences = this.differing.reduce((sum, each) => sum + each, 0);
    const alone = found.missing.length + found.added.length;
    const words = found.is_equal
      ? "No difference."
      : [
          differences
            ? `${plural(differences, "difference")} in ${found.pairs.length > 1 ? `${count(pairs)} of ${plural(found.pairs.length, "pair")}` : "one pair"}`
            : null,
          alone ? `${plural(alone, "exchange")} without a partner` : null,
        ]
          .filter(Boolean)
          .join(", ");
    return el(
      "div",
      { class: "toolbar diff-summary" },
      el(
        "h1",
        { class: "cut" },
        link(found.sessions.a.session_id, "A", visible(found.sessions.a.name)),
        " ↔ ",
        link(found.sessions.b.session_id, "B", visible(found.sessions.b.name)),
      ),
      el("span", { class: `badge ${found.is_equal ? "good" : "warning"}` }, found.is_equal ? "equal" : "different"),
      el("span", { class: "quiet" }, words),
      el("span", { class: "gap" }),
      copyButton("Copy recorder diff …", () => found.command, this.app),
    );
  }

  /** @param {URLSearchParams} query */
  choose(query) {
    const number = Number(query.get("pair"));
    const first = this.differing.findIndex(Boolean);
    this.pair = number >= 1 && number <= this.found.pairs.length ? number - 1 : Math.max(0, first);
    const pair = this.found.pairs[this.pair];
    const given = query.get("level");
    const level =
      pair?.levels.find((each) => each.level === given) ?? pair?.levels.find((each) => each.count) ?? pair?.levels[0];
    this.level = level?.level ?? "";
    this.drawPairs();
    void this.drawPair();
  }

  /** @param {number} by */
  step(by) {
    const visible = this.visible();
    const next = visible[visible.indexOf(this.pair) + by];
    if (next === undefined) return false;
    this.showPair(next);
    return true;
  }

  /** @param {number} index */
  showPair(index) {
    const query = new URLSearchParams(this.compared);
    query.set("pair", String(index + 1));
    this.app.replace(`#/diff?${query}`);
    this.choose(query);
  }

  /** @param {string} level */
  showLevel(level) {
    const pair = this.found.pairs[this.pair];
    if (!pair?.levels.some((each) => each.level === level)) return false;
    this.level = level;
    const query = new URLSearchParams(this.compared);
    query.set("pair", String(this.pair + 1));
    query.set("level", level);
    this.app.replace(`#/diff?${query}`);
    this.drawLevels(pair);
    return true;
  }

  /** Return the indices of the pairs in the list. */
  visible() {
    const indices = this.found.pairs.map((_, index) => index);
    return this.onlyDiffering ? indices.filter((index) => this.differing[index] || index === this.pair) : indices;
  }

  drawPairs() {
    const { found } = this;
    this.pairs.hidden = found.pairs.length === 1 && !found.missing.length && !found.added.length;
    if (this.pairs.hidden) return;
    const top = this.pairs.querySelector(".table-scroll")?.scrollTop ?? 0;
    const hadFocus = this.pairs.querySelector("table")?.contains(document.activeElement);
    const levels = LEVELS.filter((level) => level in found.levels);
    const visible = this.visible();
    const rows = visible.slice(0, this.shown).map((index) => this.pairRow(index, levels));
    const alone = [
      ...found.missing.map((each) => this.aloneRow(each, "missing", levels)),
      ...found.added.map((each) => this.aloneRow(each, "added", levels)),
    ];
    const only = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "checkbox",
        checked: this.onlyDiffering,
        onchange: () => {
          this.onlyDiffering = only.checked;
          this.drawPairs();
        },
      })
    );
    const heads = [
      ["num", "A"],
      ["num", "B"],
      ["", "Request"],
      ["", "Paired by"],
      ...levels.map((level) => ["num", level]),
    ].map(([kind, name]) => el("th", { scope: "col", class: kind || null }, name));
    const more =
      visible.length > this.shown
        ? el(
            "button",
            { type: "button", onclick: () => ((this.shown += PAIRS_SHOWN), this.drawPairs()) },
            `Show ${Math.min(PAIRS_SHOWN, visible.length - this.shown)} more of ${count(visible.length)}`,
          )
        : null;
    fill(
      this.pairs,
      el(
        "div",
        { class: "panel-head" },
        el("h2", {}, "Exchanges"),
        el("label", { class: "check" }, only, "Only pairs that differ"),
      ),
      el(
        "div",
        { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Pairs of exchanges" },
        el(
          "table",
          { class: "data" },
          el("thead", {}, el("tr", {}, ...heads)),
          el("tbody", {}, ...rows, ...alone.slice(0, this.shown)),
        ),
      ),
      more,
      alone.length > this.shown
        ? el("p", { class: "note" }, `${count(alone.length - this.shown)} more have no partner.`)
        : null,
    );
    const scroller = this.pairs.querySelector(".table-scroll");
    const chosen = this.pairs.querySelector("[aria-current]");
    if (scroller) scroller.scrollTop = top;
    if (hadFocus && chosen instanceof HTMLElement) chosen.focus({ preventScroll: true });
    requestAnimationFrame(() => chosen?.scrollIntoView({ block: "nearest" }));
  }

  /**
   * @param {number} index
   * @param {string[]} levels
   */
  pairRow(index, levels) {
    const pair = this.found.pairs[index];
    const isChosen = index === this.pair;
    const choose = el(
      "button",
      {
        type: "button",
        class: "plain num",
        "aria-current": isChosen ? "true" : null,
        "aria-label": `Show pair ${pair.a.number} and ${pair.b.number}`,
        onclick: () => this.showPair(index),
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
      ...levels.map((level) => countCell(pair.levels.find((each) => each.level === level))),
    );
  }

  /**
   * @param {Which} which
   * @param {"missing" | "added"} change
   * @param {string[]} levels
   */
  aloneRow(which, change, levels) {
    const side = change === "missing" ? "a" : "b";
    const go = el("a", { href: `#/s/${this.found.sessions[side].session_id}/x/${which.number}` }, which.number);
    return el(
      "tr",
      {},
      el("td", { class: "num" }, side === "a" ? go : "–"),
      el("td", { class: "num" }, side === "b" ? go : "–"),
      el("td", { class: "cut mono" }, visible(which.asked)),
      el(
        "td",
        { colspan: levels.length + 1 },
        el("span", { class: "badge warning" }, change),
        ` only in ${side.toUpperCase()}`,
      ),
    );
  }

  async drawPair() {
    this.lanes?.close();
    this.lanes = null;
    const index = this.pair;
    const pair = this.found.pairs[index];
    if (!pair) return fill(this.one);
    const picture = el("div", { class: "diff-picture" }, el("p", { class: "note" }, "Loading both lanes…"));
    this.levels = el("div", { class: "diff-levels" });
    fill(this.one, picture, this.levels);
    this.drawLevels(pair);
    const { sessions } = this.found;
    try {
      const [of_a, of_b] = await Promise.all([
        this.app.source.timeline(sessions.a.session_id, pair.a.number, -1),
        this.app.source.timeline(sessions.b.session_id, pair.b.number, -1),
      ]);
      if (this.pair !== index || !picture.isConnected) return;
      this.drawPicture(
        picture,
        pair,
        { session: sessions.a.session_id, number: pair.a.number, timeline: of_a },
        { session: sessions.b.session_id, number: pair.b.number, timeline: of_b },
      );
    } catch (error) {
      fill(picture, el("p", { class: "error", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /**
   * @param {HTMLElement} place
   * @param {Pair} pair
   * @param {import("./lane_pair.js").Side} a
   * @param {import("./lane_pair.js").Side} b
   */
  drawPicture(place, pair, a, b) {
    const rows = pairedRows(a, b, pair.items);
    const end = { a: endOf(a), b: endOf(b) };
    const description = `Times of both exchanges in ${plural(rows.length, "row")}: A took ${duration(end.a)}, B ${duration(end.b)}. The table has the same.`;
    const go = (/** @type {"a" | "b"} */ side, /** @type {number} */ pos) =>
      this.app.go(`#/s/${side === "a" ? a.session : b.session}/x/${side === "a" ? a.number : b.number}/e/${pos}`);
    const lanes = (this.lanes = new LanePair(rows, Math.max(end.a, end.b), go, description));
    const table = el(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Times of both exchanges", hidden: true },
      timesTable(rows, a, b),
    );
    const toggle = el(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => {
          table.hidden = !table.hidden;
          lanes.element.hidden = !table.hidden;
          toggle.setAttribute("aria-pressed", String(!table.hidden));
        },
      },
      "Table",
    );
    const head = el(
      "div",
      { class: "panel-head" },
      el(
        "h2",
        {},
        link(a.session, "A", `exchange ${a.number}`, a.number),
        " ↔ ",
        link(b.session, "B", `exchange ${b.number}`, b.number),
        el("span", { class: "quiet asked" }, ` ${pair.a.asked}`),
      ),
      el("span", { class: "num quiet" }, `A ${duration(end.a)} · B ${duration(end.b)}`),
      toggle,
    );
    fill(place, head, lanes.element, table);
  }

  /** @param {Pair} pair */
  drawLevels(pair) {
    if (!this.levels) return;
    const chosen = pair.levels.find((each) => each.level === this.level) ?? pair.levels[0];
    if (!chosen) return;
    const hadFocus = document.activeElement?.getAttribute("role") === "tab";
    const tabs = pair.levels.map((level) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${level.level}`,
          "aria-selected": String(level === chosen),
          "aria-controls": "level-panel",
          tabindex: level === chosen ? 0 : -1,
          onclick: () => this.showLevel(level.level),
          onkeydown: (/** @type {KeyboardEvent} */ event) => this.moveTab(event, pair, level.level),
        },
        level.level,
        " ",
        el(
          "span",
          { class: `badge ${level.count ? "warning" : ""}`, title: level.note },
          level.is_compared ? count(level.count) : "–",
        ),
      ),
    );
    fill(
      this.levels,
      el("div", { class: "tabs", role: "tablist", "aria-label": "Levels" }, ...tabs),
      el(
        "div",
        {
          role: "tabpanel",
          id: "level-panel",
          "aria-labelledby": `tab-${chosen.level}`,
          tabindex: 0,
          class: "level-panel",
        },
        ...this.levelParts(pair, chosen),
      ),
    );
    if (hadFocus) tabs.find((tab) => tab.tabIndex === 0)?.focus();
  }

  /**
   * @param {KeyboardEvent} event
   * @param {Pair} pair
   * @param {string} level
   */
  moveTab(event, pair, level) {
    const names = pair.levels.map((each) => each.level);
    const at = names.indexOf(level);
    /** @type {Record<string, number>} */
    const targets = {
      ArrowLeft: (at + names.length - 1) % names.length,
      ArrowRight: (at + 1) % names.length,
      Home: 0,
      End: names.length - 1,
    };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.showLevel(names[target]);
  }

  /**
   * @param {Pair} pair
   * @param {Level} level
   * @returns {(Node | null)[]}
   */
  levelParts(pair, level) {
    if (level.note) return [el("p", { class: "quiet" }, level.note)];
    const listed = level.differences.length;
    const measured = level.measures.filter((each) => each.differs).length;
    const left = level.count - listed - measured;
    const nothing = level.count ? null : el("p", { class: "quiet" }, "Equal.");
    const alone =
      this.found.pairs.length > 1 ? el("a", { href: `#/diff?${this.alone(pair)}` }, "Compare only this pair") : null;
    return [
      nothing,
      level.measures.length ? measuresTable(level.measures) : null,
      listed ? this.differencesTable(pair, level.differences) : null,
      left > 0 ? el("p", { class: "note" }, `${count(left)} more, which are counted and not listed. `, alone) : null,
    ];
  }

  /** @param {Pair} pair */
  alone(pair) {
    const { sessions } = this.found;
    const query = new URLSearchParams(this.compared);
    query.set("a", `${sessions.a.session_id}:${pair.a.number}`);
    query.set("b", `${sessions.b.session_id}:${pair.b.number}`);
    return query;
  }

  /**
   * @param {Pair} pair
   * @param {Difference[]} differences
   */
  differencesTable(pair, differences) {
    const body = el("tbody");
    const more = el("button", { type: "button", onclick: () => add() });
    let drawn = 0;
    const add = () => {
      const next = differences.slice(drawn, drawn + DIFFERENCES_SHOWN);
      body.append(...next.map((each) => this.differenceRow(pair, each)));
      drawn += next.length;
      more.hidden = drawn >= differences.length;
      fill(
        more,
        `Show ${Math.min(DIFFERENCES_SHOWN, differences.length - drawn)} more of ${count(differences.length)}`,
      );
    };
    add();
    const heads = ["Where", "Change", "Difference", "Open"].map((name) => el("th", { scope: "col" }, name));
    const table = el("table", { class: "data differences" }, el("thead", {}, el("tr", {}, ...heads)), body);
    return el(
      "div",
      {},
      el("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Differences" }, table),
      more,
    );
  }

  /**
   * @param {Pair} pair
   * @param {Difference} each
   */
  differenceRow(pair, each) {
    const { sessions } = this.found;
    const change = each.change ?? "changed";
    const isPlaced = each.a_pos !== undefined || each.b_pos !== undefined;
    const places = [
      isPlaced && each.a_pos === undefined
        ? null
        : link(sessions.a.session_id, "A", each.a_pos === undefined ? "" : `#${each.a_pos}`, pair.a.number, each.a_pos),
      isPlaced && each.b_pos === undefined
        ? null
        : link(sessions.b.session_id, "B", each.b_pos === undefined ? "" : `#${each.b_pos}`, pair.b.number, each.b_pos),
    ];
    return el(
      "tr",
      {},
      el("td", { class: "where" }, visible(each.where)),
      el("td", {}, el("span", { class: `badge ${change}` }, change)),
      el("td", { class: "words" }, ...(each.words ? each.words.map(word) : sides(each))),
      el("td", { class: "places" }, ...places.flatMap((place) => (place ? [place, " "] : []))),
    );
  }

  close() {
    this.lanes?.close();
  }
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
  return [
    ...(a === null ? [] : [el("del", {}, visible(a))]),
    ...(a !== null && b !== null ? [" → "] : []),
    ...(b === null ? [] : [el("ins", {}, visible(b))]),
  ];
}

/** @param {Measure[]} measures */
function measuresTable(measures) {
  const heads = [
    ["", "Measure"],
    ["num", "A"],
    ["num", "B"],
    ["num", "B − A"],
    ["num", "Ratio"],
    ["", ""],
  ].map(([kind, name]) => (name ? el("th", { scope: "col", class: kind || null }, name) : el("td")));
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
  return el(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Measures" },
    el("table", { class: "data measures" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)),
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

/**
 * The picture as a table.
 * @param {import("./lane_pair.js").PairedRow[]} rows
 * @param {import("./lane_pair.js").Side} a
 * @param {import("./lane_pair.js").Side} b
 */
function timesTable(rows, a, b) {
  const heads = [
    ["", "Item"],
    ["num", "A from"],
    ["num", "A took"],
    ["num", "A events"],
    ["num", "B from"],
    ["num", "B took"],
    ["num", "B events"],
    ["num", "Ratio"],
  ].map(([kind, name]) => el("th", { scope: "col", class: kind || null }, name));
  const body = rows.map((row) => {
    const of_a = span(row.a);
    const of_b = span(row.b);
    const ratio = of_a?.took && of_b?.took ? `×${(of_b.took / of_a.took).toFixed(2)}` : "";
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, row.label),
      ...sideCells(a, "A", of_a, row.ticks.a),
      ...sideCells(b, "B", of_b, row.ticks.b),
      el("td", { class: "num" }, ratio),
    );
  });
  return el("table", { class: "data times" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body));
}

/**
 * @param {import("./lane_pair.js").Side} side
 * @param {string} name
 * @param {{ from: number, took: number | null } | null} times
 * @param {import("./lane_pair.js").Tick[]} ticks
 */
function sideCells(side, name, times, ticks) {
  const first = ticks[0];
  const events = first ? link(side.session, name, count(ticks.length), side.number, first.pos) : times ? "0" : "–";
  return [
    el("td", { class: "num" }, times ? duration(times.from) || "0" : "–"),
    el("td", { class: "num" }, times ? (times.took === null ? "open" : duration(times.took)) : "–"),
    el("td", { class: "num" }, events),
  ];
}

/** @param {Block[]} blocks */
function span(blocks) {
  if (!blocks.length) return null;
  const from = Math.min(...blocks.map((block) => block.from_ns));
  const isOpen = blocks.some((block) => block.to_ns === null);
  return { from, took: isOpen ? null : Math.max(...blocks.map((block) => block.to_ns ?? 0)) - from };
}

/**
 * A link into the player.
 * @param {string} session
 * @param {string} side
 * @param {string} text
 * @param {number} [exchange]
 * @param {number} [pos]
 */
function link(session, side, text, exchange, pos) {
  const place = exchange === undefined ? "" : `/x/${exchange}${pos === undefined ? "" : `/e/${pos}`}`;
  return el(
    "a",
    { href: `#/s/${session}${place}`, class: "side", "aria-label": text ? null : `Open ${side} in the player` },
    el("span", { class: `side-name ${side}` }, side),
    " ",
    text,
  );
}

/** @param {Level | undefined} level */
function countCell(level) {
  if (!level) return el("td", { class: "num quiet" }, "");
  if (!level.is_compared) return el("td", { class: "num quiet", title: level.note }, "–");
  return el("td", { class: level.count ? "num strong" : "num quiet" }, count(level.count));
}

/** @param {Pair} pair */
function total(pair) {
  return pair.levels.reduce((sum, level) => sum + level.count, 0);
}

/**
 * @param {number} number
 * @param {string} noun
 */
function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
