// The rows of a statement: a table of which only what is visible exists, a simple chart, and texts to copy.

import { Choice, copyButton } from "../buttons.js";
import { Chart } from "../chart.js";
import { el, fill, showDialog } from "../dom.js";
import { compact, count, plural } from "../format.js";
import { linkOf } from "../links.js";
import { sorted } from "../sorting.js";
import { VirtualList } from "../virtual.js";

const CELL_CHARS = 300; // drawn of a cell
const ROW_CHARS = 100_000; // drawn of a value in the details of a row; copies have all
const SAMPLE_ROWS = 200; // of which the widths of columns are taken
const CHART_ROWS = 2000; // more bars or points than pixels are of no use
const COLORS = ["--series-1", "--series-6", "--series-4", "--series-3", "--series-5", "--series-2"];
const TABLE = { name: "table", label: "Table" };
const CHARTS = [
  { name: "bars", label: "Bars" },
  { name: "lines", label: "Lines" },
];

/**
 * @typedef {null | boolean | number | bigint | string | object} Value
 * @typedef {{ columns: string[], rows: Value[][], is_all: boolean, elapsed_ms: number, command: string }} Result
 */

/** The result that is shown. */
export class ResultView {
  /** @param {App} app */
  constructor(app) {
    /** @type {Result | null} */
    this.result = null;
    /** @type {VirtualList | null} */
    this.list = null;
    /** @type {Chart | null} */
    this.chart = null;
    this.kind = "table";
    this.kinds = new Choice("Result as", (kind) => this.#choose(kind));
    this.summary = el("span", { class: "note sql-summary", role: "status" });
    this.copies = el(
      "div",
      { class: "group", role: "group", "aria-label": "Copy", hidden: true },
      copyButton("Copy CSV", () => csv(this.result), app),
      copyButton("Copy JSON", () => json(this.result), app),
      copyButton("Copy recorder query …", () => this.result?.command ?? "", app),
    );
    const gap = el("span", { class: "gap" });
    this.bar = el("div", { class: "toolbar sql-bar" }, this.summary, gap, this.kinds.element, this.copies);
    this.place = el("div", { class: "grow sql-result" });
  }

  /**
   * Say what is going on instead of what was found; the last rows stay.
   * @param {string} text
   */
  say(text) {
    fill(this.summary, text);
  }

  /** @param {Result} result */
  show(result) {
    this.result = result;
    const more = result.is_all ? "" : "; there are more: the command with --csv gives all of them";
    this.say(`${plural(result.rows.length, "row")} in ${result.elapsed_ms} ms${more}`);
    this.copies.hidden = false;
    const hasCharts = numericColumns(result).length > 0 && result.rows.length > 1;
    if (!hasCharts) this.kind = "table";
    this.kinds.offer(hasCharts ? [TABLE, ...CHARTS] : [], this.kind);
    this.#draw(result);
  }

  /** @param {string} kind */
  #choose(kind) {
    this.kind = kind;
    this.kinds.select(kind);
    if (this.result) this.#draw(this.result);
  }

  /** @param {Result} result */
  #draw(result) {
    this.close();
    if (!result.rows.length) return fill(this.place, el("p", { class: "empty" }, "No rows."));
    if (this.kind !== "table") {
      this.chart = chartOf(result, this.kind === "bars" ? "bars" : "lines");
      return fill(this.place, el("div", { class: "sql-chart" }, this.chart.element));
    }
    const numeric = numericColumns(result);
    let { rows } = result;
    this.list = new VirtualList({
      label: "Result",
      rowHeight: 27,
      head: result.columns,
      numeric,
      draw: (row, index) => row.append(...rows[index].map((_, column) => cell(result.columns, rows[index], column))),
      open: (index) => showRow(result.columns, rows[index], index),
      sort: (order) => {
        rows = sorted(result.rows, order, (row, column) => row[column]);
        this.list?.refresh();
      },
    });
    const widths = result.columns.map((name, index) => width(name, result.rows, index));
    const total = widths.reduce((sum, each) => sum + each, 0);
    const { style } = this.list.element;
    style.setProperty("--columns", widths.map((each) => `${each}ch`).join(" "));
    style.setProperty("--least", `calc(${total}ch + ${12 * widths.length + 24}px)`);
    fill(this.place, this.list.element);
    this.list.setCount(result.rows.length);
    this.list.mark(0);
  }

  close() {
    this.list?.close();
    this.chart?.close();
    this.list = this.chart = null;
  }
}

/**
 * Show all of a row in a dialog.
 * @param {string[]} columns
 * @param {Value[]} row
 * @param {number} index
 */
function showRow(columns, row, index) {
  const facts = columns.flatMap((name, column) => [
    el("dt", {}, name),
    el("dd", { class: "mono sql-value" }, valueInFull(written(row[column]))),
  ]);
  const title = el("h1", {}, `Row ${count(index + 1)}`);
  showDialog({ "aria-label": `Row ${index + 1}`, class: "sql-row" }, title, el("dl", { class: "facts" }, ...facts));
}

/** @param {string | null} text */
function valueInFull(text) {
  if (text === null) return el("span", { class: "quiet" }, "NULL");
  if (text.length <= ROW_CHARS) return text;
  return `${text.slice(0, ROW_CHARS)}… (${count(text.length)} characters)`;
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
 * @param {string[]} columns
 * @param {Value[]} row
 * @param {number} column
 */
function cell(columns, row, column) {
  const text = written(row[column]);
  if (text === null) return el("span", { class: "mono quiet" }, "NULL");
  const shown = text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text;
  const href = linkOf(columns, row, column);
  return el("span", { class: "mono" }, href ? el("a", { href, tabindex: -1 }, shown) : shown);
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
  const names = drawn.map((index) => result.columns[index]);
  return new Chart({
    kind,
    label: `${names.join(", ")} by ${result.columns[0]}. The table has the same numbers.`,
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
