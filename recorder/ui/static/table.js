// Tables of data, and the region that a wide or long one scrolls in.

import { el, fill } from "./dom.js";
import { count } from "./format.js";
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
 * Return a button that adds more rows to a table, some at a time, and what begins it again with rows of other items.
 * @template T
 * @param {HTMLTableElement} table
 * @param {number} step
 * @param {(item: T) => HTMLElement} rowOf
 */
export function growing(table, step, rowOf) {
  /** @type {T[]} */
  let items = [];
  let drawn = 0;
  const add = () => {
    table.tBodies[0].append(...items.slice(drawn, drawn + step).map(rowOf));
    drawn = Math.min(items.length, drawn + step);
    more.hidden = drawn === items.length;
    fill(more, `Show ${Math.min(step, items.length - drawn)} more of ${count(items.length)}`);
  };
  const more = el("button", { type: "button", onclick: add });
  const show = (/** @type {T[]} */ others) => {
    items = others;
    drawn = 0;
    fill(table.tBodies[0]);
    add();
  };
  return { more, show };
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
