// Tables of data, and the region that a wide or long one scrolls in.

import { el } from "./dom.js";
import { sortable, sorted } from "./sorting.js";

/**
 * Make a table of rows under titles, which sort it; a column without a title has no head. A cell is sorted by its
 * `data-sort` if it has one, else by its text.
 * @param {string[]} titles
 * @param {(index: number) => boolean} isNumeric of a column
 * @param {HTMLElement[]} rows
 * @param {string} [kind] a class, besides that of tables
 * @param {boolean} [sorts] false where rows are of different units
 */
export function dataTable(titles, isNumeric, rows, kind = "", sorts = true) {
  const heads = titles.map((title, index) =>
    title ? el("th", { scope: "col", class: isNumeric(index) ? "num" : null }, title) : el("td"),
  );
  const body = /** @type {HTMLTableSectionElement} */ (el("tbody", {}, ...rows));
  const all = () => [...new Set([...rows, ...body.rows])]; // rows may come later
  if (sorts) sortable(heads, isNumeric, (order) => body.append(...sorted(all(), order, keyOf)));
  const parts = [el("thead", {}, el("tr", {}, ...heads)), body];
  return /** @type {HTMLTableElement} */ (el("table", { class: `data ${kind}`.trim() }, ...parts));
}

/**
 * @param {HTMLElement} row
 * @param {number} column
 */
function keyOf(row, column) {
  const cell = /** @type {HTMLElement} */ (row.children[column]);
  const key = cell.dataset.sort ?? cell.textContent;
  return key && Number.isFinite(Number(key)) ? Number(key) : key;
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
