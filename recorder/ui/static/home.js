// The home page: panels over the last days, each with its SQL, its command and a table.

import { Chart } from "./chart.js";
import { compact, copyButton, count, dollars, duration, el, fill } from "./dom.js";

const DAYS = [7, 30, 90, 365];
const COLORS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const SPLIT_COLORS = ["--series-5", "--series-6", "--series-3", "--series-1", "--series-4"];
/** @type {Record<string, (value: number) => string>} */
const FORMATS = { ns: duration, picousd: dollars };
const LINES = [
  { color: "--series-1", dash: [] },
  { color: "--series-6", dash: [7, 3] },
  { color: "--series-5", dash: [2, 3] },
];

/**
 * @typedef {{ column: string, label: string }} PanelSeries
 * @typedef {{ kind: "bars" | "lines" | "ranking", x: string, of?: string, split?: string, series: PanelSeries[] }} PanelChart
 * @typedef {object} Panel
 * @property {string} id
 * @property {string} title
 * @property {string} unit
 * @property {string | null} note
 * @property {string} sql
 * @property {Record<string, Json>} params
 * @property {string} command
 * @property {string[]} columns
 * @property {(string | number | null)[][]} rows
 * @property {PanelChart} chart
 * @property {string | null} error
 */

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("Home");
  main.classList.add("home");
  /** @type {Chart[]} */
  let charts = [];
  const body = el("div", { class: "home-panels" });
  const choices = el("div", { class: "group", role: "group", "aria-label": "Period" });
  fill(main, el("div", { class: "toolbar" }, el("h1", {}, "Home"), el("span", { class: "gap" }), choices), body);
  let asked = 0;

  /** @param {Route} wanted */
  const load = async (wanted) => {
    const mine = ++asked;
    const days = Number(wanted.query.get("days") ?? 30) || 30;
    const offered = DAYS.includes(days) ? DAYS : [...DAYS, days].sort((a, b) => a - b);
    const focused = choices.contains(document.activeElement);
    fill(choices, ...offered.map((each) => el("a", { class: "button", href: `#/?days=${each}`, "aria-current": each === days ? "true" : null }, `${each} days`)));
    if (focused) /** @type {HTMLElement | null} */ (choices.querySelector("[aria-current]"))?.focus();
    body.setAttribute("aria-busy", "true");
    if (!body.hasChildNodes()) fill(body, el("p", { class: "empty" }, "Computing …"));
    const answer = await app.api(`/api/home?days=${days}`);
    if (mine !== asked) return;
    body.removeAttribute("aria-busy");
    for (const chart of charts) chart.close();
    charts = [];
    if (answer.is_empty) return fill(body, emptyHome());
    fill(body, summary(answer.panels), ...answer.panels.map((/** @type {Panel} */ panel) => draw(panel, answer, charts, app)));
  };
  await load(route);
  return {
    update: (wanted) => {
      load(wanted).catch((error) => {
        body.removeAttribute("aria-busy");
        app.announce(error.message);
      });
      return true;
    },
    close: () => {
      asked += 1;
      for (const chart of charts) chart.close();
    },
  };
}

function emptyHome() {
  return el(
    "div",
    { class: "empty" },
    el("p", {}, "Nothing was recorded in this database yet. Record the demonstration, or a program of yours:"),
    el("pre", { class: "code" }, "recorder demo\nrecorder run -- codex"),
  );
}

/**
 * The figures over the whole period, from the rows of the panels.
 * @param {Panel[]} panels
 */
function summary(panels) {
  /** @type {(id: string, column: string) => number} */
  const sum = (id, column) => {
    const panel = panels.find((each) => each.id === id);
    const at = panel ? panel.columns.indexOf(column) : -1;
    return at < 0 || !panel ? 0 : panel.rows.reduce((total, row) => total + Number(row[at] ?? 0), 0);
  };
  const [uncached, cached] = [sum("tokens", "uncached_input"), sum("tokens", "cached_input")];
  const [reasoning, visible] = [sum("tokens", "reasoning"), sum("tokens", "visible_output")];
  const [exchanges, errors] = [sum("tokens", "exchanges"), sum("errors", "exchanges")];
  const [calls, failed] = [sum("tools", "calls"), sum("tools", "failed")];
  const figures = [
    ["Exchanges", count(exchanges), ""],
    ["Input tokens", compact(uncached + cached), share(cached, uncached + cached, "cached")],
    ["Output tokens", compact(reasoning + visible), share(reasoning, reasoning + visible, "reasoning")],
    ["Errors", count(errors), share(errors, exchanges, "of exchanges")],
    ["Tool calls", count(calls), share(failed, calls, "failed")],
  ];
  return el(
    "dl",
    { class: "figures" },
    ...figures.map(([name, value, more]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("span", { class: "figure" }, value), more ? el("span", { class: "note" }, more) : null))),
  );
}

/**
 * @param {number} part
 * @param {number} whole
 * @param {string} name
 */
function share(part, whole, name) {
  return whole ? `${((100 * part) / whole).toFixed(part && part < whole / 100 ? 1 : 0)} % ${name}` : "";
}

/**
 * @param {Panel} panel
 * @param {{ days: number, since_ns: number }} answer
 * @param {Chart[]} charts
 * @param {App} app
 */
function draw(panel, answer, charts, app) {
  const body = el("div", { class: "panel-body" });
  const sql = el("div", { class: "panel-sql stack", hidden: true, id: `sql-${panel.id}` });
  const wrapper = el("div", { class: "hidden-text" }, table(panel));
  const tableButton = el("button", { type: "button", "aria-pressed": "false", "aria-label": `Table: ${panel.title}`, onclick: () => toggleTable() }, "Table");
  const sqlButton = el("button", { type: "button", "aria-expanded": "false", "aria-controls": sql.id, "aria-label": `SQL: ${panel.title}`, onclick: () => toggleSql() }, "SQL");
  const picture = panel.error ? el("p", { class: "error" }, panel.error) : panel.rows.length ? drawChart(panel, answer, charts) : el("p", { class: "empty" }, `Nothing in the last ${answer.days} days.`);
  const toggleTable = () => {
    const shows = tableButton.getAttribute("aria-pressed") === "false";
    tableButton.setAttribute("aria-pressed", String(shows));
    wrapper.className = shows ? "table-scroll" : "hidden-text";
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", `Table: ${panel.title}`]]) {
      if (shows) wrapper.setAttribute(name, value);
      else wrapper.removeAttribute(name);
    }
    picture.hidden = shows;
  };
  const toggleSql = () => {
    sql.hidden = !sql.hidden;
    sqlButton.setAttribute("aria-expanded", String(!sql.hidden));
  };
  const query = new URLSearchParams({ sql: panel.sql, ...Object.fromEntries(Object.entries(panel.params).map(([name, value]) => [`p.${name}`, String(value)])) });
  const actions = el("div", { class: "panel-actions" }, copyButton("Copy recorder query …", () => panel.command, app), copyButton("Copy SQL", () => panel.sql, app), el("a", { class: "button", href: `#/sql?${query}` }, "Open in SQL"));
  sql.append(el("pre", { class: "code", tabindex: 0, role: "region", "aria-label": `SQL of ${panel.title}` }, panel.sql), actions);
  body.append(picture, ...(panel.rows.length ? [wrapper] : []));
  return el(
    "section",
    { class: `panel panel-${panel.id}`, "aria-labelledby": `title-${panel.id}` },
    el("div", { class: "panel-head" }, el("h2", { id: `title-${panel.id}` }, panel.title), panel.rows.length ? tableButton : null, sqlButton),
    body,
    sql,
    panel.note ? el("p", { class: "note" }, panel.note) : null,
  );
}

/**
 * @param {Panel} panel
 * @param {{ days: number, since_ns: number }} answer
 * @param {Chart[]} charts
 * @returns {HTMLElement}
 */
function drawChart(panel, answer, charts) {
  if (panel.chart.kind === "ranking") return ranking(panel);
  const days = allDays(answer);
  const series = panel.chart.split ? splitSeries(panel, days) : columnSeries(panel, days);
  const isBars = panel.chart.kind === "bars";
  const chart = new Chart({
    kind: panel.chart.kind,
    label: `${panel.title}, the last ${answer.days} days. The table has the same numbers.`,
    labels: days.map((day) => day.slice(days.length > 366 ? 0 : 5)),
    series,
    format: FORMATS[panel.unit] ?? compact,
    tick: panel.unit === "ns" ? (value) => (value < 1e9 ? `${value / 1e6} ms` : `${value / 1e9} s`).replace(/^0 .*/, "0") : FORMATS[panel.unit] ?? compact,
    counts: panel.unit !== "ns",
    summary: (values) => (isBars ? values.reduce((total, value) => (total ?? 0) + (value ?? 0), 0) : values.findLast((value) => value !== null) ?? null),
    summaryLabel: isBars ? `${answer.days} days` : "latest",
    height: panel.id === "tokens" ? 220 : 180,
  });
  charts.push(chart);
  return chart.element;
}

/**
 * All days of the period, those without data too.
 * @param {{ days: number, since_ns: number }} answer
 */
function allDays(answer) {
  const first = Math.round(answer.since_ns / 86400e9);
  return Array.from({ length: answer.days }, (_, index) => new Date((first + index) * 86400e3).toISOString().slice(0, 10));
}

/**
 * @param {Panel} panel
 * @param {string[]} days
 */
function columnSeries(panel, days) {
  const byDay = new Map(panel.rows.map((row) => [row[panel.columns.indexOf(panel.chart.x)], row]));
  const isBars = panel.chart.kind === "bars";
  return panel.chart.series.map((each, number) => {
    const at = panel.columns.indexOf(each.column);
    const values = days.map((day) => /** @type {number | null} */ (byDay.get(day)?.[at] ?? null));
    return { label: each.label, values, ...(isBars ? { color: COLORS[number % COLORS.length] } : LINES[number % LINES.length]) };
  });
}

/**
 * A series for each of the most frequent values of a column, and one for the rest.
 * @param {Panel} panel
 * @param {string[]} days
 */
function splitSeries(panel, days) {
  const [x, by, y] = [panel.chart.x, panel.chart.split ?? "", panel.chart.series[0].column].map((name) => panel.columns.indexOf(name));
  /** @type {Map<string, number>} */
  const totals = new Map();
  for (const row of panel.rows) totals.set(String(row[by]), (totals.get(String(row[by])) ?? 0) + Number(row[y]));
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = names.slice(0, SPLIT_COLORS.length);
  const labels = names.length > shown.length ? [...shown, "other"] : shown;
  const series = labels.map((label, number) => ({ label, color: SPLIT_COLORS[number] ?? "--heat-1", values: days.map(() => /** @type {number | null} */ (null)) }));
  const places = new Map(days.map((day, index) => [day, index]));
  for (const row of panel.rows) {
    const place = places.get(String(row[x]));
    const { values } = series[shown.indexOf(String(row[by]))] ?? series[series.length - 1];
    if (place !== undefined) values[place] = (values[place] ?? 0) + Number(row[y]);
  }
  return series;
}

/**
 * Bars beside names: the part of the whole.
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
  return el("div", { class: "ranking", "aria-hidden": "true" }, el("table", { class: "data" }, el("tbody", {}, ...rows)));
}

/** @param {Panel} panel */
function table(panel) {
  const isNumber = panel.columns.map((_, index) => panel.rows.some((row) => typeof row[index] === "number"));
  const cell = (/** @type {string | number | null} */ value, /** @type {number} */ index) =>
    typeof value !== "number" ? String(value ?? "") : (FORMATS[panel.columns[index].split("_").pop() ?? ""] ?? count)(value);
  return el(
    "table",
    { class: "data" },
    el("caption", { class: "hidden-text" }, panel.title),
    el("thead", {}, el("tr", {}, ...panel.columns.map((name, index) => el("th", { scope: "col", class: isNumber[index] ? "num" : null }, name.replace(/_(ns|picousd)$/, "").replaceAll("_", " "))))),
    el("tbody", {}, ...panel.rows.map((row) => el("tr", {}, ...row.map((value, index) => el("td", { class: isNumber[index] ? "num" : null }, cell(value, index)))))),
  );
}
