// What is compared: two references, the terms of the comparison, and the last sessions to choose from.

import { el, fill } from "../dom.js";
import { wallTime } from "../format.js";
import { visible } from "../pretty.js";
import { dataTable, scrolling } from "../table.js";
import { LEVELS } from "./levels.js";

const RECENT = 50; // sessions to choose from

/**
 * Return the terms of a comparison that an address has, as the API has them.
 * @param {URLSearchParams} given
 */
export function termsOf(given) {
  const terms = new URLSearchParams({ a: (given.get("a") ?? "").trim(), b: (given.get("b") ?? "").trim() });
  const tolerance = given.get("tolerance");
  if (tolerance) terms.set("tolerance", tolerance);
  if (given.get("exact") === "1") terms.set("exact", "1");
  if (hasBytes(given)) terms.set("only", LEVELS.join(","));
  return terms;
}

/** @param {URLSearchParams} query */
function hasBytes(query) {
  return (query.get("only") ?? "").split(",").includes("bytes");
}

/** The two references, and the terms of the comparison. */
export class Form {
  /** @param {App} app */
  constructor(app) {
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
    this.recent = recentSessions(app);
    void this.recent.then((found) => {
      const options = found.map(({ ref, title }) => el("option", { value: ref }, title));
      fill(list, el("option", { value: "latest" }, "the session that was used last"), ...options);
    });
  }

  /** Return a table of the last sessions, with buttons that make each A or B. */
  async chooser() {
    const found = await this.recent;
    if (!found.length) return null;
    const rows = found.map((session) => this.#row(session));
    const table = dataTable(["Use as", "Session", "Title", "Last used"], (index) => index === 3, rows);
    return scrolling("The last sessions", table, "chooser");
  }

  /** @param {Recent} session */
  #row({ ref, name, title, last }) {
    const buttons = [this.a, this.b].map(({ placeholder: side }, index) => {
      const label = `Use ${visible(name)} as ${side}`;
      const onclick = () => this.use(index ? this.b : this.a, ref);
      return el("button", { type: "button", "aria-label": label, onclick }, side);
    });
    return el(
      "tr",
      {},
      el("td", {}, el("div", { class: "group" }, ...buttons)),
      el("td", { class: "cut mono" }, visible(name)),
      el("td", { class: "cut" }, visible(title)),
      el("td", { class: "num quiet" }, last),
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
    this.bytes.checked = hasBytes(query);
  }

  /** Return the terms, as the address and the API have them. */
  query() {
    const query = new URLSearchParams({ a: this.a.value, b: this.b.value, tolerance: this.tolerance.value });
    if (this.exact.checked) query.set("exact", "1");
    if (this.bytes.checked) query.set("only", "bytes");
    return termsOf(query);
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
      last: wallTime(Number(session.used_ns)),
    };
  });
}
