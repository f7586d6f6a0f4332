// What a panel of the home page shows: a chart, a ranking, or a table.

import { Chart } from "./chart.js";
import { el } from "./dom.js";
import { compact, count, dollars, duration, wallTime } from "./format.js";
import { linkOf } from "./links.js";
import { dataTable, scrolling } from "./table.js";

const DAY_NS = 86400e9;
const COLORS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const SPLIT_COLORS = ["--series-5", "--series-6", "--series-3", "--series-1", "--series-4"];
/** @type {Record<string, (value: number) => string>} */
const FORMATS = { ns: duration, picousd: dollars };
const TIMES = new Set(["started_ns", "used_ns"]); // wall times
/** @type {Record<string, string>} */
const TITLES = { used_ns: "last used", total_tokens: "tokens" };
const LINES = [
  { color: "--series-1", dash: [] },
  { color: "--series-6", dash: [7, 3] },
  { color: "--series-5", dash: [2, 3] },
];

/**
 * @typedef {string | number | null} Value
 * @typedef {{ days: number, since_ns: number, from_ns: number }} Period
 * @typedef {{ column: string, label: string }} PanelSeries
 * @typedef {object} PanelChart
 * @property {"bars" | "lines" | "ranking" | "list"} kind
 * @property {string} x
 * @property {string} [of]
 * @property {string} [split]
 * @property {string[]} [by]
 * @property {string} [total]
 * @property {PanelSeries[]} series
 *
 * @typedef {object} Panel
 * @property {string} id
 * @property {string} title
 * @property {string} unit
 * @property {string | null} note
 * @property {string} sql
 * @property {Record<string, Json>} params
 * @property {string} command
 * @property {string[]} columns
 * @property {Value[][]} rows
 * @property {boolean} [is_all] false if an answer cannot hold all rows
 * @property {PanelChart} chart
 * @property {string | null} error
 */

/**
 * Draw the rows of a panel; `by` is a column that divides them, else its own way is taken.
 * @param {Panel} panel
 * @param {Period} period
 * @param {string} by
 * @returns {{ element: HTMLElement, chart?: Chart }}
 */
export function pictureOf(panel, period, by) {
  const { kind, split = "", total = "", series } = panel.chart;
  if (panel.error) return { element: el("p", { class: "error" }, panel.error) };
  if (!panel.rows.length) return { element: el("p", { class: "empty" }, `Nothing in the last ${period.days} days.`) };
  if (kind === "ranking") return { element: ranking(panel) };
  if (kind === "list") return { element: scrolling(panel.title, panelTable(panel)) };
  const days = allDays(period);
  const divided = by || split;
  const drawn = divided
    ? splitSeries(panel, days, divided, by ? total : series[0].column)
    : columnSeries(panel, days, kind === "bars");
  const chart = chartOf(panel, period, kind, days, drawn);
  return { element: chart.element, chart };
}

/**
 * @param {Panel} panel
 * @param {Period} period
 * @param {"bars" | "lines"} kind
 * @param {string[]} days
 * @param {import("./chart.js").Series[]} series
 */
function chartOf(panel, period, kind, days, series) {
  const isBars = kind === "bars";
  return new Chart({
    kind,
    label: `${panel.title}, the last ${period.days} days. The table has the same numbers.`,
    labels: days.map((day) => day.slice(days.length > 366 ? 0 : 5)),
    series,
    format: FORMATS[panel.unit] ?? compact,
    tick:
      panel.unit === "ns"
        ? (value) => (value < 1e9 ? `${value / 1e6} ms` : `${value / 1e9} s`).replace(/^0 .*/, "0")
        : (FORMATS[panel.unit] ?? compact),
    counts: panel.unit !== "ns",
    summary: (values) =>
      isBars
        ? values.reduce((total, value) => (total ?? 0) + (value ?? 0), 0)
        : (values.findLast((value) => value !== null) ?? null),
    summaryLabel: isBars ? `${period.days} days` : "latest",
    height: panel.id === "tokens" ? 220 : 180,
  });
}

/**
 * Return all days of the period, those without data too; it begins with the first recording.
 * @param {Period} period
 */
function allDays({ days, since_ns, from_ns }) {
  const first = Math.round(from_ns / DAY_NS);
  const length = days - (first - Math.round(since_ns / DAY_NS));
  return Array.from({ length }, (_, index) => new Date((first + index) * 86400e3).toISOString().slice(0, 10));
}

/**
 * Return a series for each of the columns of a chart. Several rows of a day are added.
 * @param {Panel} panel
 * @param {string[]} days
 * @param {boolean} isBars
 */
function columnSeries(panel, days, isBars) {
  const { x, series } = panel.chart;
  const drawn = series.map(({ column, label }, number) => ({
    label,
    values: valuesOf(panel.rows, panel.columns.indexOf(x), panel.columns.indexOf(column), days),
    ...(isBars ? { color: COLORS[number % COLORS.length] } : LINES[number % LINES.length]),
  }));
  const isThere = drawn.filter(({ values }) => values.some(Boolean));
  return isThere.length ? isThere : drawn; // nothing of a kind needs no place in the legend
}

/**
 * Return a series for each of the largest values of a column, and one for the rest.
 * @param {Panel} panel
 * @param {string[]} days
 * @param {string} by
 * @param {string} column
 */
function splitSeries(panel, days, by, column) {
  const [x, of, y] = [panel.chart.x, by, column].map((name) => panel.columns.indexOf(name));
  /** @type {Map<string, number>} */
  const totals = new Map();
  for (const row of panel.rows) totals.set(String(row[of]), (totals.get(String(row[of])) ?? 0) + Number(row[y]));
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = names.slice(0, SPLIT_COLORS.length);
  const series = shown.map((label, number) => ({
    label,
    color: SPLIT_COLORS[number],
    values: valuesOf(panel.rows.filter((row) => String(row[of]) === label), x, y, days),
  }));
  if (names.length === shown.length) return series;
  const others = panel.rows.filter((row) => !shown.includes(String(row[of])));
  return [...series, { label: "other", color: "--heat-1", values: valuesOf(others, x, y, days) }];
}

/**
 * Return the sums of a column by day; null where there is nothing.
 * @param {Value[][]} rows
 * @param {number} x
 * @param {number} y
 * @param {string[]} days
 */
function valuesOf(rows, x, y, days) {
  const values = days.map(() => /** @type {number | null} */ (null));
  const places = new Map(days.map((day, index) => [day, index]));
  for (const row of rows) {
    const place = places.get(String(row[x]));
    const value = row[y];
    if (place !== undefined && value !== null) values[place] = (values[place] ?? 0) + Number(value);
  }
  return values;
}

/**
 * Draw a bar beside each name: the part of the whole.
 * @param {Panel} panel
 */
function ranking(panel) {
  const at = (/** @type {string} */ name) => panel.columns.indexOf(name);
  const { x, of = "", series } = panel.chart;
  const most = Math.max(...panel.rows.map((row) => Number(row[at(of)])), 1);
  const rows = panel.rows.map((row) => {
    const [part, whole] = [Number(row[at(series[0].column)]), Number(row[at(of)])];
    const [all, failed] = [el("span", { class: "bar" }), el("span", { class: "bar-part" })];
    all.style.setProperty("width", `${(100 * whole) / most}%`);
    failed.style.setProperty("width", `${whole ? (100 * part) / whole : 0}%`);
    all.append(failed);
    return el(
      "tr",
      {},
      el("th", { scope: "row", class: "cut" }, String(row[at(x)] ?? "")),
      el("td", { class: "bar-cell", "aria-hidden": "true" }, all),
      el("td", { class: "num" }, `${count(part)} of ${count(whole)}`),
      el("td", { class: "num quiet" }, whole ? `${((100 * part) / whole).toFixed(1)} %` : ""),
    );
  });
  return el(
    "div",
    { class: "ranking", "aria-hidden": "true" },
    el("table", { class: "data" }, el("tbody", {}, ...rows)),
  );
}

/**
 * Return the rows of a panel as a table. What names a session or an exchange is a link, and ids are only in links.
 * @param {Panel} panel
 */
export function panelTable({ title, columns, rows }) {
  const shown = columns.map((_, index) => index).filter((index) => isShown(columns, rows, index));
  const isNumeric = (/** @type {number} */ at) => rows.some((row) => typeof row[shown[at]] === "number");
  const cells = (/** @type {Value[]} */ row) => shown.map((index) => panelCell(columns, row, index));
  const titles = shown.map((index) => TITLES[columns[index]] ?? titleOf(columns[index]));
  const table = dataTable(titles, isNumeric, rows.map((row) => el("tr", {}, ...cells(row))));
  table.prepend(el("caption", { class: "hidden-text" }, title));
  return table;
}

/**
 * @param {string[]} columns
 * @param {Value[][]} rows
 * @param {number} index
 */
function isShown(columns, rows, index) {
  const isId = columns[index].endsWith("_id") && columns.includes("session_name");
  return !isId && rows.some((row) => row[index] !== null);
}

/** @param {string} column */
function titleOf(column) {
  return column.replace(/_(ns|picousd)$/, "").replace(/^session_name$/, "session").replaceAll("_", " ");
}

/**
 * @param {string[]} columns
 * @param {Value[]} row
 * @param {number} index
 */
function panelCell(columns, row, index) {
  const value = row[index];
  const name = columns[index];
  if (typeof value === "number") {
    const format = TIMES.has(name) ? wallTime : (FORMATS[name.split("_").pop() ?? ""] ?? count);
    return el("td", { class: "num", "data-sort": value }, format(value));
  }
  const text = String(value ?? "");
  const href = linkOf(columns, row, index);
  return el("td", { class: "cut", title: text }, href ? el("a", { href }, text) : text);
}
