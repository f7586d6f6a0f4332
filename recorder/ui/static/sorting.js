// Heads of a table that sort it: a click sorts by a column, a second one the other way, a third one as it was.

import { el, fill } from "./dom.js";

/** @typedef {{ column: number, isDown: boolean }} Order */

const DIRECTIONS = { false: "ascending", true: "descending" };

/**
 * Make buttons of the heads of columns. Figures are sorted from the largest down first, texts from A to Z.
 * @param {HTMLElement[]} heads those without a text do not sort
 * @param {(column: number) => boolean} isNumeric
 * @param {(order: Order | null) => void} sort null is the order that the rows came in
 */
export function sortable(heads, isNumeric, sort) {
  /** @type {Order | null} */
  let order = null;
  const choose = (/** @type {number} */ column) => {
    const first = isNumeric(column);
    if (order?.column !== column) order = { column, isDown: first };
    else order = order.isDown === first ? { column, isDown: !first } : null;
    for (const [index, head] of heads.entries()) {
      if (order?.column === index) head.setAttribute("aria-sort", DIRECTIONS[`${order.isDown}`]);
      else head.removeAttribute("aria-sort");
    }
    sort(order);
  };
  for (const [column, head] of heads.entries()) {
    const title = head.textContent;
    if (title) fill(head, el("button", { type: "button", class: "sort", onclick: () => choose(column) }, title));
  }
}

/**
 * Return some rows in an order. What has no value is last either way; equal rows stay as they were.
 * @template T
 * @param {T[]} rows
 * @param {Order | null} order
 * @param {(row: T, column: number) => unknown} valueOf
 */
export function sorted(rows, order, valueOf) {
  if (!order) return rows;
  const { column, isDown } = order;
  const keyed = rows.map((row) => ({ row, key: valueOf(row, column) ?? "" }));
  keyed.sort((a, b) => {
    if (a.key === "" || b.key === "") return Number(a.key === "") - Number(b.key === "");
    return isDown ? compare(b.key, a.key) : compare(a.key, b.key);
  });
  return keyed.map(({ row }) => row);
}

const TEXTS = new Intl.Collator(undefined, { numeric: true });

/**
 * @param {any} a
 * @param {any} b
 */
function compare(a, b) {
  if (isFigure(a) && isFigure(b)) return a < b ? -1 : Number(a > b);
  return TEXTS.compare(String(a), String(b));
}

/** @param {unknown} value */
function isFigure(value) {
  return typeof value === "number" || typeof value === "bigint";
}
