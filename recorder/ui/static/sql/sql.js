// SQL on the views: a box, the names beside it, and the result. The SQL is in the address.

import { el, fill } from "../dom.js";
import { messageOf } from "../format.js";
import { ResultView } from "./result.js";
import { Side } from "./side.js";

const FIRST = `SELECT session_name, title, turns, total_tokens, duration_ns / 1e9 AS took_s
FROM session_summary ORDER BY total_tokens DESC LIMIT 20`;
/** A string, a quoted name, a comment or a cast, in which a colon is not a parameter; else a parameter. */
const TOKENS = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|::|:([A-Za-z_][A-Za-z0-9_]*)/g;

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("SQL");
  main.classList.add("fill", "sql");
  const page = new SqlPage(main, app);
  page.take(route);
  void page.side.load();
  if (route.query.has("sql")) await page.run();
  else page.box.focus();
  return page;
}

/** The page: the statement, its parameters, and the names beside it. */
class SqlPage {
  /**
   * @param {HTMLElement} main
   * @param {App} app
   */
  constructor(main, app) {
    this.app = app;
    /** @type {[string, string][]} */
    this.help = [["Ctrl+Enter", "Run the SQL"]];
    this.result = new ResultView(app);
    this.asked = 0;
    /** @type {Map<string, string>} values by the name of the parameter, also of those that the SQL does not have now */
    this.values = new Map();
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.typed(event);
    this.box = /** @type {HTMLTextAreaElement} */ (
      el("textarea", {
        id: "sql-text",
        "aria-label": "SQL",
        "aria-describedby": "sql-error",
        spellcheck: "false",
        autocapitalize: "off",
        class: "mono",
        rows: 7,
        oninput: () => this.showParameters(),
        onkeydown,
      })
    );
    this.error = el("p", { class: "error sql-error", id: "sql-error", role: "alert" });
    this.parameters = el("div", { class: "sql-parameters", onkeydown });
    /** @type {AbortController | null} of the statement that runs: the server stops one that nobody waits for */
    this.running = null;
    this.runButton = el(
      "button",
      { type: "button", class: "primary sql-run", onclick: () => (this.running ? this.running.abort() : this.run()) },
      "Run",
    );
    this.side = new Side(app, {
      insert: (name) => this.insert(name),
      run: (sql) => this.replace(sql),
    });
    const keys = el("span", { class: "note sql-keys" }, el("kbd", {}, "Ctrl"), " ", el("kbd", {}, "Enter"));
    const left = el(
      "div",
      { class: "sql-main grow" },
      el("div", { class: "sql-editor" }, this.box, this.error),
      el("div", { class: "toolbar" }, this.runButton, keys, this.parameters),
      this.result.bar,
      this.result.place,
    );
    fill(main, el("h1", { class: "hidden-text" }, "SQL"), el("div", { class: "split grow" }, left, this.side.element));
  }

  /**
   * Show the SQL and the parameters of an address.
   * @param {Route} route
   */
  take(route) {
    this.box.value = route.query.get("sql") ?? FIRST;
    for (const [name, value] of route.query) if (name.startsWith("p.")) this.values.set(name.slice(2), value);
    this.showParameters();
  }

  names() {
    return [...new Set([...this.box.value.matchAll(TOKENS)].map((found) => found[1]).filter(Boolean))];
  }

  showParameters() {
    const names = this.names();
    const shown = [...this.parameters.querySelectorAll("input")].map((input) => input.name);
    if (names.join() !== shown.join()) fill(this.parameters, ...names.map((name) => this.parameter(name)));
  }

  /** @param {string} name */
  parameter(name) {
    const input = /** @type {HTMLInputElement} */ (
      el("input", {
        name,
        class: "mono",
        value: this.values.get(name) ?? "",
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => this.values.set(name, input.value),
      })
    );
    return el("label", { class: "sql-parameter" }, el("span", { class: "mono" }, `:${name}`), input);
  }

  /** @param {KeyboardEvent} event */
  typed(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.run();
  }

  /** Run the statement, in place of one that runs. */
  async run() {
    const mine = ++this.asked;
    const sql = this.box.value;
    const given = this.names().map((name) => /** @type {[string, string]} */ ([name, this.values.get(name) ?? ""]));
    const query = new URLSearchParams({ sql });
    for (const [name, value] of given) query.set(`p.${name}`, value);
    this.app.replace(`#/sql?${query}`);
    this.running?.abort();
    const running = (this.running = new AbortController());
    fill(this.runButton, "Stop");
    this.result.say("Running …");
    try {
      const question = { sql, params: Object.fromEntries(given) };
      const signal = AbortSignal.any([running.signal, this.app.left]);
      const result = await this.app.api("/api/query", question, parseExactly, signal);
      if (mine !== this.asked) return;
      fill(this.error);
      this.box.removeAttribute("aria-invalid");
      this.result.show(result);
      this.side.remember(sql);
    } catch (error) {
      if (mine !== this.asked) return;
      fill(this.error, messageOf(error));
      this.result.say("");
      this.box.setAttribute("aria-invalid", "true");
    } finally {
      if (mine === this.asked) {
        this.running = null;
        fill(this.runButton, "Run");
      }
    }
  }

  /**
   * Insert a name where the cursor of the box is.
   * @param {string} name
   */
  insert(name) {
    const { box } = this;
    const before = box.value.slice(0, box.selectionStart);
    const space = before && !/[\s(,.]$/.test(before) ? " " : "";
    box.setRangeText(space + name, box.selectionStart, box.selectionEnd, "end");
    box.focus();
    this.showParameters();
  }

  /** @param {string} sql */
  replace(sql) {
    this.box.value = sql;
    this.showParameters();
    if (this.names().every((name) => this.values.get(name))) this.run();
    else this.parameters.querySelector("input")?.focus();
  }

  /** @param {Route} route */
  update(route) {
    this.take(route);
    if (route.query.has("sql")) this.run();
    return true;
  }

  close() {
    this.asked++;
    this.result.close();
  }
}

/**
 * Parse JSON with all digits of integers: times in nanoseconds since 1970 are above 2^53.
 * @param {string} text
 */
function parseExactly(text) {
  /** @type {any} */
  const exact = (
    /** @type {string} */ _,
    /** @type {any} */ value,
    /** @type {{ source: string } | undefined} */ context,
  ) =>
    typeof value === "number" && context && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)
      ? BigInt(context.source)
      : value;
  return JSON.parse(text, exact);
}
