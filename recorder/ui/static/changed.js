// Two texts of which one became the other: only what lies between their common begin and end is marked.

import { el } from "./dom.js";

/**
 * Return both texts, with what is gone or new in them marked.
 * @param {string} before
 * @param {string} after
 * @returns {[HTMLElement, HTMLElement]}
 */
export function changedTexts(before, after) {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const marked = (/** @type {string} */ tag, /** @type {string} */ text) => {
    const end = text.length - tail;
    return el("span", {}, text.slice(0, head), el(tag, {}, text.slice(head, end)), text.slice(end));
  };
  return [marked("del", before), marked("ins", after)];
}
