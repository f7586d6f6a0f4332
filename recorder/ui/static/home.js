// The home page: panels over the last days, each with its SQL, its command and a table.

import { Choice, copyButton } from "./buttons.js";
import { el, fill } from "./dom.js";
import { compact, count } from "./format.js";
import { panelTable, pictureOf } from "./panel_pictures.js";

const DAYS = [7, 30, 90, 365];
const BY_KIND = { name: "", label: "kind" };

/** @typedef {import("./panel_pictures.js").Panel} Panel */
/** @typedef {import("./panel_pictures.js").Period} Period */
/** @typedef {import("./chart.js").Chart} Chart */

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("Home");
  main.classList.add("home");
  /** @type {Map<string, Chart>} by the id of the panel */
  const charts = new Map();
  const closeCharts = () => {
    for (const chart of charts.values()) chart.close();
    charts.clear();
  };
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
    fill(
      choices,
      ...offered.map((each) =>
        el(
          "a",
          { class: "button", href: `#/?days=${each}`, "aria-current": each === days ? "true" : null },
          `${each} days`,
        ),
      ),
    );
    if (focused) /** @type {HTMLElement | null} */ (choices.querySelector("[aria-current]"))?.focus();
    body.setAttribute("aria-busy", "true");
    if (!body.hasChildNodes()) fill(body, el("p", { class: "empty" }, "Computing …"));
    const answer = await app.api(`/api/home?days=${days}`);
    if (mine !== asked) return;
    body.removeAttribute("aria-busy");
    closeCharts();
    if (answer.is_empty) return fill(body, emptyHome());
    fill(
      body,
      summary(answer.panels),
      ...answer.panels.map((/** @type {Panel} */ panel) => draw(panel, answer, charts, app)),
    );
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
      closeCharts();
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
 * Draw the figures over the whole period, from the rows of the panels.
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
    ...figures.map(([name, value, more]) =>
      el(
        "div",
        {},
        el("dt", {}, name),
        el("dd", {}, el("span", { class: "figure" }, value), more ? el("span", { class: "note" }, more) : null),
      ),
    ),
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
 * @param {Period} period
 * @param {Map<string, Chart>} charts
 * @param {App} app
 */
function draw(panel, period, charts, app) {
  const body = el("div", { class: "panel-body" });
  const sql = el("div", { class: "panel-sql stack", hidden: true, id: `sql-${panel.id}` });
  const isList = panel.chart.kind === "list";
  const hasTable = panel.rows.length > 0 && !isList;
  const wrapper = el("div", { class: "hidden-text" }, hasTable ? panelTable(panel) : null);
  const tableButton = el(
    "button",
    { type: "button", "aria-pressed": "false", "aria-label": `Table: ${panel.title}`, onclick: () => toggleTable() },
    "Table",
  );
  const sqlButton = el(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      "aria-controls": sql.id,
      "aria-label": `SQL: ${panel.title}`,
      onclick: () => toggleSql(),
    },
    "SQL",
  );
  /** @type {HTMLElement} */
  let picture;
  const drawPicture = (by = "") => {
    const isHidden = picture?.hidden ?? false;
    charts.get(panel.id)?.close();
    charts.delete(panel.id);
    const drawn = pictureOf(panel, period, by);
    if (drawn.chart) charts.set(panel.id, drawn.chart);
    picture?.replaceWith(drawn.element);
    picture = drawn.element;
    picture.hidden = isHidden;
    return picture;
  };
  const toggleTable = () => {
    const shows = tableButton.getAttribute("aria-pressed") === "false";
    tableButton.setAttribute("aria-pressed", String(shows));
    wrapper.className = shows ? "table-scroll" : "hidden-text";
    for (const [name, value] of [
      ["tabindex", "0"],
      ["role", "region"],
      ["aria-label", `Table: ${panel.title}`],
    ]) {
      if (shows) wrapper.setAttribute(name, value);
      else wrapper.removeAttribute(name);
    }
    picture.hidden = shows;
  };
  const toggleSql = () => {
    sql.hidden = !sql.hidden;
    sqlButton.setAttribute("aria-expanded", String(!sql.hidden));
  };
  const query = new URLSearchParams({
    sql: panel.sql,
    ...Object.fromEntries(Object.entries(panel.params).map(([name, value]) => [`p.${name}`, String(value)])),
  });
  const actions = el(
    "div",
    { class: "panel-actions" },
    copyButton("Copy recorder query …", () => panel.command, app),
    copyButton("Copy SQL", () => panel.sql, app),
    el("a", { class: "button", href: `#/sql?${query}` }, "Open in SQL"),
  );
  sql.append(
    el("pre", { class: "code", tabindex: 0, role: "region", "aria-label": `SQL of ${panel.title}` }, panel.sql),
    actions,
  );
  body.append(drawPicture(), ...(hasTable ? [wrapper] : []));
  return el(
    "section",
    { class: `panel panel-${panel.id}`, "aria-labelledby": `title-${panel.id}` },
    el(
      "div",
      { class: "panel-head" },
      el("h2", { id: `title-${panel.id}` }, panel.title),
      panel.rows.length ? divisions(panel, drawPicture) : null,
      hasTable ? tableButton : null,
      sqlButton,
    ),
    body,
    sql,
    panel.is_all === false ? el("p", { class: "error" }, "There are more rows than are shown: choose fewer days.") : null,
    panel.note ? el("p", { class: "note" }, panel.note) : null,
  );
}

/**
 * Offer the ways to divide the numbers of a panel, if there are several.
 * @param {Panel} panel
 * @param {(by: string) => void} draw
 */
function divisions(panel, draw) {
  const { by = [] } = panel.chart;
  if (!by.length) return null;
  const choice = new Choice(`${panel.title} by`, (name) => {
    choice.select(name);
    draw(name);
  });
  choice.offer([BY_KIND, ...by.map((name) => ({ name, label: name }))], "");
  return choice.element;
}
