// SQL on the views: a box, the names beside it, the result as a table and a simple chart. The SQL is in the address.

import { Chart } from "./chart.js";
import { compact, count, copyButton, el, fill } from "./dom.js";
import { api } from "./source.js";
import { VirtualList } from "./virtual.js";

const FIRST =
  "SELECT session_name, title, turns, total_tokens, duration_ns / 1e9 AS took_s\nFROM session_summary ORDER BY total_tokens DESC LIMIT 20";
/** A string, a quoted name, a comment or a cast, in which a colon is no parameter; else a parameter. */
const TOKENS = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|::|:([A-Za-z_][A-Za-z0-9_]*)/g;
const CELL_CHARS = 300; // drawn of a cell
const ROW_CHARS = 100_000; // drawn of a value in the details of a row; copies have all
const SAMPLE_ROWS = 200; // of which the widths of columns are taken
const CHART_ROWS = 2000; // more bars or points than pixels are of no use
const COLORS = ["--series-1", "--series-6", "--series-4", "--series-3", "--series-5", "--series-2"];

/**
 * @typedef {null | boolean | number | bigint | string | object} Value
 * @typedef {{ columns: string[], rows: Value[][], is_all: boolean, elapsed_ms: number, command: string }} Result
 * @typedef {{ view: string, row: string, columns: { name: string, meaning: string }[], example: string }} View
 */

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("SQL");
  main.classList.add("fill", "sql");
  const page = new SqlPage(main, app);
  page.take(route);
  page.showViews();
  if (route.query.has("sql")) await page.run();
  else page.box.focus();
  return page;
}

class SqlPage {
  /**
   * @param {HTMLElement} main
   * @param {App} app
   */
  constructor(main, app) {
    this.app = app;
    /** @type {[string, string][]} */
    this.help = [["Ctrl+Enter", "Run the SQL"]];
    /** @type {Result | null} */
    this.result = null;
    /** @type {VirtualList | null} */
    this.list = null;
    /** @type {Chart | null} */
    this.chart = null;
    this.kind = "";
    this.asked = 0;
    /** @type {Map<string, string>} values by the name of the parameter, also of those that the SQL does not have now */
    this.values = new Map();
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
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.typed(event),
      })
    );
    this.error = el("p", { class: "error sql-error", id: "sql-error", role: "alert" });
    this.parameters = el("div", { class: "sql-parameters" });
    /** @type {AbortController | null} of the statement that runs: the server stops one whose page is gone */
    this.running = null;
    this.runButton = el(
      "button",
      { type: "button", class: "primary sql-run", onclick: () => (this.running ? this.running.abort() : this.run()) },
      "Run",
    );
    this.kinds = el("div", { class: "group", role: "group", "aria-label": "Result as" });
    this.summary = el("span", { class: "note sql-summary", role: "status" });
    this.copies = el("div", { class: "group", role: "group", "aria-label": "Copy", hidden: true });
    this.place = el("div", { class: "grow sql-result" });
    this.views = el("div", { class: "sql-views scroll" });
    const bar = el(
      "div",
      { class: "toolbar" },
      this.runButton,
      el("span", { class: "note sql-keys" }, el("kbd", {}, "Ctrl"), " ", el("kbd", {}, "Enter")),
      this.parameters,
    );
    const results = el(
      "div",
      { class: "toolbar sql-bar" },
      this.summary,
      el("span", { class: "gap" }),
      this.kinds,
      this.copies,
    );
    const left = el(
      "div",
      { class: "sql-main grow" },
      el("div", { class: "sql-editor" }, this.box, this.error),
      bar,
      results,
      this.place,
    );
    fill(
      main,
      el("h1", { class: "hidden-text" }, "SQL"),
      el("div", { class: "split grow" }, left, el("aside", { class: "sql-side", "aria-label": "Views" }, this.views)),
    );
    fill(
      this.copies,
      copyButton("Copy CSV", () => csv(this.result), app),
      copyButton("Copy JSON", () => json(this.result), app),
      copyButton("Copy recorder query …", () => this.result?.command ?? "", app),
    );
  }

  // -- the statement

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
    if (names.join() === shown.join()) return;
    fill(
      this.parameters,
      ...names.map((name) =>
        el(
          "label",
          { class: "sql-parameter" },
          el("span", { class: "mono" }, `:${name}`),
          el("input", {
            name,
            class: "mono",
            value: this.values.get(name) ?? "",
            autocomplete: "off",
            spellcheck: "false",
            oninput: (/** @type {InputEvent} */ event) =>
              this.values.set(name, /** @type {HTMLInputElement} */ (event.target).value),
            onkeydown: (/** @type {KeyboardEvent} */ event) => this.typed(event),
          }),
        ),
      ),
    );
  }

  /** @param {KeyboardEvent} event */
  typed(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.run();
  }

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
    fill(this.summary, "Running …");
    try {
      const result = /** @type {Result} */ (
        await api("/api/query", { sql, params: Object.fromEntries(given) }, parseExactly, running.signal)
      );
      if (mine !== this.asked) return;
      this.result = result;
      fill(this.error);
      this.box.removeAttribute("aria-invalid");
      this.showResult();
    } catch (error) {
      if (mine !== this.asked) return;
      fill(this.error, error instanceof Error ? error.message : String(error));
      fill(this.summary);
      this.box.setAttribute("aria-invalid", "true");
    } finally {
      if (mine === this.asked) {
        this.running = null;
        fill(this.runButton, "Run");
      }
    }
  }

  // -- the result

  showResult() {
    const { result } = this;
    if (!result) return;
    const rows = `${count(result.rows.length)} ${result.rows.length === 1 ? "row" : "rows"}`;
    const more = result.is_all ? "" : "; there are more: the command with --csv gives all of them";
    fill(this.summary, `${rows} in ${result.elapsed_ms} ms${more}`);
    this.copies.hidden = false;
    const kinds = numericColumns(result).length && result.rows.length > 1 ? ["table", "bars", "lines"] : ["table"];
    if (!kinds.includes(this.kind)) this.kind = "table";
    const button = (/** @type {string} */ kind) =>
      el(
        "button",
        { type: "button", "aria-pressed": String(kind === this.kind), onclick: () => this.choose(kind) },
        kind[0].toUpperCase() + kind.slice(1),
      );
    fill(this.kinds, ...(kinds.length > 1 ? kinds.map(button) : []));
    this.drawResult(result);
  }

  /** @param {string} kind */
  choose(kind) {
    this.kind = kind;
    for (const button of this.kinds.children)
      button.setAttribute("aria-pressed", String(button.textContent?.toLowerCase() === kind));
    if (this.result) this.drawResult(this.result);
  }

  /** @param {Result} result */
  drawResult(result) {
    this.list?.close();
    this.chart?.close();
    this.list = this.chart = null;
    if (!result.rows.length) return fill(this.place, el("p", { class: "empty" }, "No rows."));
    if (this.kind !== "table") {
      this.chart = chartOf(result, this.kind === "bars" ? "bars" : "lines");
      return fill(this.place, el("div", { class: "sql-chart" }, this.chart.element));
    }
    const numeric = numericColumns(result);
    this.list = new VirtualList({
      label: "Result",
      rowHeight: 27,
      head: result.columns,
      numeric,
      draw: (row, index) => row.append(...result.rows[index].map(cell)),
      open: (index) => this.showRow(result, index),
    });
    const widths = result.columns.map((name, index) => width(name, result.rows, index));
    this.list.element.style.setProperty("--columns", widths.map((each) => `${each}ch`).join(" "));
    this.list.element.style.setProperty(
      "--least",
      `calc(${widths.reduce((sum, each) => sum + each, 0)}ch + ${12 * widths.length + 24}px)`,
    );
    fill(this.place, this.list.element);
    this.list.setCount(result.rows.length);
    this.list.mark(0);
  }

  /**
   * Show all of a row in a dialog.
   * @param {Result} result
   * @param {number} index
   */
  showRow(result, index) {
    const value = (/** @type {string | null} */ text) =>
      text === null
        ? el("span", { class: "quiet" }, "NULL")
        : text.length > ROW_CHARS
          ? `${text.slice(0, ROW_CHARS)}… (${count(text.length)} characters)`
          : text;
    const facts = result.columns.flatMap((name, column) => [
      el("dt", {}, name),
      el("dd", { class: "mono sql-value" }, value(written(result.rows[index][column]))),
    ]);
    const dialog = /** @type {HTMLDialogElement} */ (
      el(
        "dialog",
        { "aria-label": `Row ${index + 1}`, class: "sql-row", onclose: () => dialog.remove() },
        el("h1", {}, `Row ${count(index + 1)}`),
        el("dl", { class: "facts" }, ...facts),
        el("form", { method: "dialog" }, el("button", { class: "primary" }, "Close")),
      )
    );
    document.body.append(dialog);
    dialog.showModal();
  }

  // -- the views

  async showViews() {
    const views = /** @type {View[]} */ (await this.app.api("/api/views").catch(() => []));
    const filter = el("input", {
      type: "search",
      "aria-label": "Find a view or column",
      placeholder: "find a view or column",
      oninput: () => find(),
    });
    const sections = views.map((view) => ({
      view,
      element: el(
        "details",
        {},
        el("summary", {}, el("span", { class: "mono strong" }, view.view)),
        el("p", { class: "note" }, ...prose(view.row)),
        el(
          "div",
          { class: "sql-actions" },
          el("button", { type: "button", class: "plain", onclick: () => this.insert(view.view) }, "insert name"),
          el("button", { type: "button", class: "plain", onclick: () => this.replace(view.example) }, "run example"),
        ),
        el(
          "ul",
          { class: "sql-columns" },
          ...view.columns.map((column) =>
            el(
              "li",
              {},
              el(
                "button",
                { type: "button", class: "plain mono", onclick: () => this.insert(column.name) },
                column.name,
              ),
              el("span", { class: "note" }, ...prose(column.meaning)),
            ),
          ),
        ),
      ),
    }));
    const find = () => {
      const words = /** @type {HTMLInputElement} */ (filter).value.trim().toLowerCase();
      for (const { view, element } of sections) {
        const columns = view.columns.some((column) => column.name.includes(words));
        element.hidden = words !== "" && !view.view.includes(words) && !columns;
        element.toggleAttribute("open", words !== "" && columns && !element.hidden);
        for (const [index, item] of [...element.querySelectorAll("li")].entries())
          item.classList.toggle("found", words !== "" && view.columns[index].name.includes(words));
      }
    };
    fill(this.views, el("div", { class: "sql-find" }, filter), ...sections.map(({ element }) => element));
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
    this.running?.abort();
    this.list?.close();
    this.chart?.close();
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

/**
 * @param {Value} value
 * @returns {string | null} null for NULL
 */
function written(value) {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * Set what is between backticks as code.
 * @param {string} text
 */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
}

/** @param {Value} value */
function cell(value) {
  const text = written(value);
  if (text === null) return el("span", { class: "mono quiet" }, "NULL");
  return el("span", { class: "mono" }, text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text);
}

/**
 * @param {string} name
 * @param {Value[][]} rows
 * @param {number} column
 */
function width(name, rows, column) {
  const lengths = rows.slice(0, SAMPLE_ROWS).map((row) => written(row[column])?.length ?? 4);
  return Math.min(60, Math.max(name.length + 1, ...lengths, 4) + 1);
}

/** @param {Result} result */
function numericColumns(result) {
  return result.columns
    .map((_, index) => index)
    .filter(
      (index) =>
        result.rows.some((row) => isNumber(row[index])) &&
        result.rows.every((row) => row[index] === null || isNumber(row[index])),
    );
}

/** @param {Value} value */
function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}

/**
 * Chart the numeric columns over the first column.
 * @param {Result} result
 * @param {"bars" | "lines"} kind
 */
function chartOf(result, kind) {
  const rows = result.rows.slice(0, CHART_ROWS);
  const numeric = numericColumns(result);
  const columns = numeric.filter((index) => index > 0).slice(0, COLORS.length);
  const drawn = columns.length ? columns : numeric;
  return new Chart({
    kind,
    label: `${drawn.map((index) => result.columns[index]).join(", ")} by ${result.columns[0]}. The table has the same numbers.`,
    labels: rows.map((row) => (written(row[0]) ?? "NULL").slice(0, 24)),
    series: drawn.map((index, number) => ({
      label: result.columns[index],
      color: COLORS[number % COLORS.length],
      values: rows.map((row) => (row[index] === null ? null : Number(row[index]))),
    })),
    format: compact,
    summary: (values) => values.reduce((sum, value) => (sum ?? 0) + (value ?? 0), 0),
    summaryLabel: rows.length < result.rows.length ? `sum of the first ${CHART_ROWS}` : "sum",
    height: 320,
  });
}

/** @param {Result | null} result */
function csv(result) {
  if (!result) return "";
  const field = (/** @type {Value} */ value) => {
    const text = written(value) ?? "";
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [result.columns, ...result.rows].map((row) => `${row.map(field).join(",")}\n`).join("");
}

/** @param {Result | null} result */
function json(result) {
  if (!result) return "";
  const value = (/** @type {Value} */ each) => (typeof each === "bigint" ? String(each) : JSON.stringify(each));
  const object = (/** @type {Value[]} */ row) =>
    `{${result.columns.map((name, index) => `${JSON.stringify(name)}:${value(row[index])}`).join(",")}}`;
  return `[${result.rows.map(object).join(",\n")}]\n`;
}
