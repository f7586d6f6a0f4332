// Tables of data, and the region that a wide or long one scrolls in.

import { el } from "./dom.js";

/**
 * Make a table of rows under titles; a column without a title has no head.
 * @param {string[]} titles
 * @param {(index: number) => boolean} isNumeric of a column
 * @param {HTMLElement[]} rows
 * @param {string} [kind] a class, besides that of tables
 */
export function dataTable(titles, isNumeric, rows, kind = "") {
  const heads = titles.map((title, index) =>
    title ? el("th", { scope: "col", class: isNumeric(index) ? "num" : null }, title) : el("td"),
  );
  const parts = [el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)];
  return /** @type {HTMLTableElement} */ (el("table", { class: `data ${kind}`.trim() }, ...parts));
}

/**
 * Make a region that scrolls, also by keys.
 * @param {string} label
 * @param {HTMLElement} table
 * @param {string} [kind] a class, besides that of such regions
 */
export function scrolling(label, table, kind = "") {
  const attributes = { class: `table-scroll ${kind}`.trim(), tabindex: 0, role: "region", "aria-label": label };
  return el("div", attributes, table);
}
