// The sessions: a list that is read page by page as one scrolls, its filters in the address, live.

import { el, fill } from "../dom.js";
import { compact, count, dollars, duration, messageOf, plural, wallTime } from "../format.js";
import { sorted } from "../sorting.js";
import { listen } from "../source.js";
import { VirtualList } from "../virtual.js";
import { Filters } from "./filters.js";

const PAGE = 200;
const MOST_SORTED = 5000; // sessions that are loaded to be sorted: a browser sorts them at once
/** The usual end is quiet, so that the others are seen. */
const BADGES = /** @type {Record<string, string>} */ ({
  completed: "quiet",
  open: "badge active",
  incomplete: "badge warning",
  client_disconnect: "badge warning",
});
const HEAD = [
  "", // the boxes say what they are for
  "Name",
  "Title",
  "Model",
  "Client",
  "Exchanges",
  "Tokens",
  "Cost",
  "Errors",
  "Duration",
  "Last used",
  "Status",
];

/**
 * @typedef {object} Row
 * @property {string} session_id
 * @property {string} name
 * @property {string | null} title
 * @property {string[]} models
 * @property {string[]} clients
 * @property {number} exchanges
 * @property {number | null} total_tokens
 * @property {string | null} cost_usd
 * @property {boolean | null} cost_partial
 * @property {number} errors
 * @property {number} duration_ns
 * @property {number} used_ns
 * @property {string} status
 * @property {number} open
 */

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("Sessions");
  main.classList.add("fill", "sessions");
  const page = new SessionsPage(main, app);
  page.filters.set(route.query);
  await page.load();
  if (route.query.has("focus")) page.filters.search.focus();
  return page;
}

/**
 * What each column is sorted by.
 * @type {((row: Row) => unknown)[]}
 */
const KEYS = [
  () => null,
  (row) => row.name,
  (row) => row.title,
  (row) => row.models.join(", "),
  (row) => row.clients.join(", "),
  (row) => row.exchanges,
  (row) => row.total_tokens,
  (row) => row.cost_usd && Number(row.cost_usd),
  (row) => row.errors,
  (row) => row.duration_ns,
  (row) => row.used_ns,
  (row) => row.status,
];

/**
 * The page: `loaded` are newest first, `rows` the same in the order that is shown; `next` is the cursor of what follows,
 * null at the end.
 */
class SessionsPage {
  /**
   * @param {HTMLElement} main
   * @param {App} app
   */
  constructor(main, app) {
    this.app = app;
    /** @type {Row[]} */
    this.loaded = [];
    /** @type {Row[]} */
    this.rows = [];
    /** @type {import("../sorting.js").Order | null} */
    this.order = null;
    /** @type {string | null} */
    this.next = null;
    /** @type {Set<string>} ids of the sessions that are to be compared */
    this.marked = new Set();
    this.asked = 0;
    this.isLoading = false;
    /** @type {[string, string][]} */
    this.help = [
      ["j k", "Next and previous session"],
      ["Enter", "Open the session"],
      ["x", "Mark the session for a comparison"],
      ["d", "Compare the two marked sessions"],
    ];
    this.filters = new Filters(
      () => this.reload(),
      () => this.reload().then(() => this.list.element.focus()),
    );
    this.hint = el("p", { class: "note sessions-note", role: "status" });
    this.compare = el("button", { type: "button", class: "primary", hidden: true, onclick: () => this.openDiff() });
    this.place = el("div", { class: "grow sessions-list" });
    this.narrow = matchMedia("(max-width: 760px)");
    this.rebuild = () => this.makeList();
    this.narrow.addEventListener("change", this.rebuild);
    fill(
      main,
      el("h1", { class: "hidden-text" }, "Sessions"),
      this.filters.element,
      this.place,
      el("div", { class: "sessions-foot" }, this.hint, el("span", { class: "gap" }), this.compare),
    );
    /** @type {VirtualList} */
    this.list = this.makeList();
    /** @type {(() => void) | null} stops the following of the list */
    this.stop = null;
    this.follow = () => this.setStream(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", this.follow);
    this.follow();
  }

  /**
   * Follow the list only while it is visible: a browser has six connections to a server, for all tabs together.
   * @param {boolean} follows
   */
  setStream(follows) {
    this.stop?.();
    this.stop = follows
      ? listen(
          "/api/follow",
          "sessions",
          () => this.refresh(),
          (trouble) => trouble !== null && this.app.announce(trouble),
        )
      : null;
    if (follows && this.rows.length) this.refresh();
  }

  makeList() {
    const isNarrow = this.narrow.matches;
    const active = this.list?.active ?? -1;
    this.list?.close();
    this.order = null;
    this.rows = this.loaded;
    this.list = new VirtualList({
      label: "Sessions, the last used first",
      rowHeight: isNarrow ? 62 : 31,
      head: HEAD,
      numeric: [5, 6, 7, 8, 9],
      total: -1,
      sort: isNarrow ? undefined : (order) => void this.sort(order),
      draw: (row, index) => this.draw(row, this.rows[index]),
      open: (index, event) => this.open(index, event),
      seen: (_, last) => {
        if (last > this.rows.length - PAGE / 2) this.more();
      },
    });
    fill(this.place, this.list.element);
    this.list.setCount(this.rows.length);
    if (active >= 0) this.list.activate(active, "center");
    return this.list;
  }

  reload() {
    const query = this.filters.values().toString();
    this.app.replace(query ? `#/sessions?${query}` : "#/sessions");
    return this.load();
  }

  // -- the rows

  /** Load the first page with the filters as they are. */
  async load() {
    const mine = ++this.asked;
    try {
      const answer = await this.fetch(null);
      if (mine !== this.asked) return;
      this.loaded = answer.sessions;
      this.rows = this.#arranged();
      this.next = answer.next;
      this.list.mark(this.rows.length ? 0 : -1);
      this.list.element.scrollTop = 0;
      this.show();
    } catch (error) {
      if (mine === this.asked) this.fail(error);
    }
  }

  /**
   * Sort by a column: all sessions, as far as they are not too many to be loaded.
   * @param {import("../sorting.js").Order | null} order
   */
  async sort(order) {
    this.order = order;
    this.#rearrange();
    while (order !== null && order === this.order && this.loaded.length < MOST_SORTED) {
      if (!(await this.more())) return;
    }
  }

  #arranged() {
    return sorted(this.loaded, this.order, (row, column) => KEYS[column](row));
  }

  /** Show the loaded rows in their order; the active one stays active. */
  #rearrange() {
    const chosen = this.rows[this.list.active]?.session_id;
    this.rows = this.#arranged();
    this.list.active = chosen ? this.rows.findIndex((row) => row.session_id === chosen) : -1;
    this.show();
  }

  /** Load the next page. Return whether there was one. */
  async more() {
    if (this.isLoading || this.next === null) return false;
    this.isLoading = true;
    const mine = this.asked;
    try {
      const answer = await this.fetch(this.next);
      if (mine !== this.asked) return false;
      const known = new Set(this.loaded.map((row) => row.session_id));
      const added = answer.sessions.filter((/** @type {Row} */ row) => !known.has(row.session_id));
      this.loaded = [...this.loaded, ...added];
      this.next = answer.next;
      this.#rearrange();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    } finally {
      this.isLoading = false;
    }
  }

  /** Load the first page again, since the list has changed; what is visible stays in its place. */
  async refresh() {
    if (this.isLoading) return;
    this.isLoading = true;
    const mine = this.asked;
    try {
      const answer = await this.fetch(null);
      if (mine === this.asked) this.merge(answer.sessions, answer.next);
    } catch (error) {
      this.fail(error);
    } finally {
      this.isLoading = false;
    }
  }

  /**
   * Put a newer first page in front of the rows. If the two have no row in common, only the page remains.
   * @param {Row[]} page
   * @param {string | null} next
   */
  merge(page, next) {
    const { list } = this;
    const isNew = new Set(page.map((row) => row.session_id));
    const rest = this.loaded.filter((row) => !isNew.has(row.session_id));
    const joins = this.loaded.length === 0 || rest.length < this.loaded.length;
    const hadMore = this.loaded.length > page.length || this.next === null;
    this.loaded = joins && hadMore ? [...page, ...rest] : page;
    if (!joins || !hadMore) this.next = next;
    if (this.order) return this.#rearrange();
    const anchor = this.rows[Math.floor(list.element.scrollTop / list.options.rowHeight)]?.session_id;
    const chosen = this.rows[list.active]?.session_id;
    const anchored = this.rows.findIndex((row) => row.session_id === anchor);
    this.rows = this.loaded;
    const before = anchor ? this.rows.findIndex((row) => row.session_id === anchor) - anchored : 0;
    list.active = chosen ? this.rows.findIndex((row) => row.session_id === chosen) - Math.max(0, before) : -1;
    this.show(Math.max(0, before));
  }

  /** @param {string | null} before */
  async fetch(before) {
    const query = this.filters.query();
    query.set("limit", String(PAGE));
    if (before !== null) query.set("before", before);
    return this.app.api(`/api/sessions?${query}`);
  }

  /** @param {number} [before] rows that are new at the top */
  show(before = 0) {
    this.list.options.total = this.next === null ? this.rows.length : -1;
    this.list.setCount(this.rows.length, before);
    this.place.classList.toggle("has-cost", this.rows.some((row) => row.cost_usd !== null));
    const hasFilters = this.filters.values().size > 0;
    if (this.rows.length) fill(this.hint, this.next === null ? plural(this.rows.length, "session") : `${count(this.rows.length)}+ sessions`);
    else {
      fill(
        this.hint,
        hasFilters
          ? "No session matches all of these filters."
          : "Nothing was recorded in this database yet: `recorder demo` records a session.",
      );
    }
  }

  /** @param {unknown} error */
  fail(error) {
    fill(this.hint, el("span", { class: "error" }, messageOf(error)));
  }

  /**
   * @param {HTMLElement} element
   * @param {Row | undefined} row
   */
  draw(element, row) {
    if (!row) return;
    const box = el("input", {
      type: "checkbox",
      tabindex: -1,
      "aria-label": `Compare ${row.name}`,
      checked: this.marked.has(row.session_id),
      onclick: () => this.toggle(row),
    });
    const [model, client] = [row.models.join(", "), row.clients.join(", ")];
    element.append(
      el("span", { class: "cell-mark" }, el("label", { class: "check" }, box)),
      el("span", { class: "cell-name" }, el("a", { href: hashOf(row), tabindex: -1, title: row.name }, row.name)),
      el("span", { class: "cell-title", title: row.title }, row.title ?? ""),
      el("span", { class: "cell-model quiet", title: model }, model),
      el("span", { class: "cell-client quiet", title: client }, client),
      el("span", { class: "cell-exchanges" }, count(row.exchanges)),
      el("span", { class: "cell-tokens" }, row.total_tokens === null ? "" : compact(row.total_tokens)),
      el("span", { class: "cell-cost" }, costOf(row)),
      el("span", { class: row.errors ? "cell-errors error" : "cell-errors" }, row.errors ? count(row.errors) : ""),
      el("span", { class: "cell-duration quiet" }, duration(row.duration_ns)),
      el("span", { class: "cell-used num quiet" }, wallTime(row.used_ns)),
      el(
        "span",
        { class: "cell-status" },
        el("span", { class: BADGES[row.status] ?? "badge error" }, row.status.replaceAll("_", " ")),
      ),
    );
  }

  // -- actions

  /**
   * @param {number} index
   * @param {KeyboardEvent | MouseEvent} event
   */
  open(index, event) {
    const row = this.rows[index];
    if (!row) return;
    if (event.ctrlKey || event.metaKey) window.open(hashOf(row));
    else this.app.go(hashOf(row));
  }

  /**
   * Mark a session for the comparison, or not any more; of three the first is dropped.
   * @param {Row} row
   */
  toggle(row) {
    if (!this.marked.delete(row.session_id)) this.marked.add(row.session_id);
    const [first] = this.marked;
    if (this.marked.size > 2) this.marked.delete(first);
    this.list.refresh();
    const names = [...this.marked].map((id) => this.rows.find((each) => each.session_id === id)?.name ?? id);
    this.compare.hidden = this.marked.size < 2;
    fill(this.compare, el("span", { class: "cut" }, `Compare ${names.join(" and ")}`));
    this.app.announce(this.marked.size === 1 ? `${names[0]} is marked: mark a second session to compare them.` : "");
  }

  openDiff() {
    const [a, b] = this.marked;
    if (a && b) this.app.go(`#/diff?${new URLSearchParams({ a, b })}`);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const row = this.rows[this.list.active];
    if (event.key === "x" && row) this.toggle(row);
    else if (event.key === "d" && this.marked.size === 2) this.openDiff();
    else if (event.key === "j" || event.key === "k") {
      this.list.element.focus();
      this.list.step(event.key === "j" ? 1 : -1);
    } else return false;
    return true;
  }

  /** @param {Route} route */
  update(route) {
    this.filters.set(route.query);
    this.load();
    if (route.query.has("focus")) this.filters.search.focus();
    return true;
  }

  close() {
    this.stop?.();
    document.removeEventListener("visibilitychange", this.follow);
    this.filters.close();
    this.asked++;
    this.narrow.removeEventListener("change", this.rebuild);
    this.list.close();
  }
}

/** @param {Row} row */
function hashOf(row) {
  return `#/s/${encodeURIComponent(row.session_id)}`;
}

/**
 * The cost of a session; `≥` says that there may be more.
 * @param {Row} row
 */
function costOf(row) {
  if (row.cost_usd === null) return "";
  return `${row.cost_partial ? "≥ " : ""}${dollars(Number(row.cost_usd) * 1e12)}`;
}
