// A list of which only the visible rows exist. Rows have one fixed height, so positions are arithmetic.
// 100,000 rows of 30 px are 3 million px; browsers draw elements of up to 17 million.

import { el, fill } from "./dom.js";
import { sortable } from "./sorting.js";

/** Rows drawn above and below of what is visible, so that a short scroll shows no gap. */
const MARGIN = 10;

/**
 * @typedef {object} VirtualOptions
 * @property {string} label name of the list, for listeners
 * @property {number} rowHeight in px
 * @property {(row: HTMLElement, index: number) => void} draw fills an empty row; with a head, a child for each column
 * @property {string[]} [head] titles of columns; then the list is a grid, else a listbox
 * @property {number[]} [numeric] columns with figures
 * @property {(order: import("./sorting.js").Order | null) => void} [sort] heads are buttons; their owner orders the rows
 * @property {(index: number) => void} [choose] the active row has changed, by key or click
 * @property {(index: number, event: KeyboardEvent | MouseEvent) => void} [open] Enter, or a double click
 * @property {(first: number, last: number) => void} [seen] these rows are visible now
 * @property {number} [total] number of rows that are not loaded too; -1: unknown
 */

let made = 0;

/** A virtual list. `element` takes the focus; the active row is `aria-activedescendant`. */
export class VirtualList {
  /** @param {VirtualOptions} options */
  constructor(options) {
    this.options = options;
    this.id = `list-${++made}`;
    this.count = 0;
    this.active = -1;
    /** @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    this.frame = 0;
    const isGrid = options.head !== undefined;
    this.isGrid = isGrid;
    this.headHeight = isGrid ? 28 : 0;
    this.body = el("div", { class: "virtual-body", role: isGrid ? "rowgroup" : null });
    this.element = el("div", {
      class: "virtual",
      role: isGrid ? "grid" : "listbox",
      tabindex: 0,
      "aria-label": options.label,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onscroll: () => this.schedule(),
      onclick: (/** @type {MouseEvent} */ event) => this.click(event, false),
      ondblclick: (/** @type {MouseEvent} */ event) => this.click(event, true),
    });
    if (options.head) this.element.append(headRow(options.head, options.numeric ?? [], options.sort));
    this.element.append(this.body);
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
  }

  /**
   * Set the number of rows. `before` rows are new at the top: what is visible, and the active row, stay in their place.
   * @param {number} count
   * @param {number} [before]
   */
  setCount(count, before = 0) {
    this.count = count;
    this.body.style.setProperty("height", `${count * this.options.rowHeight}px`);
    const rows = this.options.total ?? count;
    this.element.setAttribute("aria-rowcount", String(rows < 0 ? -1 : rows + (this.isGrid ? 1 : 0)));
    if (!this.isGrid) this.element.removeAttribute("aria-rowcount");
    if (before > 0 && this.active >= 0) this.active += before;
    if (this.active >= count) this.active = count - 1;
    if (before > 0 && this.element.scrollTop > 0) this.element.scrollTop += before * this.options.rowHeight;
    this.refresh();
  }

  /** Draw all visible rows again. */
  refresh() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.draw();
  }

  /**
   * Make a row active and visible, without a call of `choose`.
   * @param {number} index
   * @param {"nearest" | "center"} [place]
   */
  activate(index, place = "nearest") {
    this.mark(index);
    this.reveal(index, place);
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** @param {number} index */
  mark(index) {
    const before = this.active;
    this.active = index;
    for (const changed of [before, index]) {
      const row = this.rows.get(changed);
      if (row) this.setState(row, changed);
    }
    if (index >= 0) this.element.setAttribute("aria-activedescendant", `${this.id}-${index}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /**
   * @param {number} index
   * @param {"nearest" | "center"} place
   */
  reveal(index, place) {
    const { rowHeight } = this.options;
    const height = this.element.clientHeight - this.headHeight;
    const top = index * rowHeight;
    const scroll = this.element.scrollTop;
    if (top >= scroll && top + rowHeight <= scroll + height) return this.draw();
    if (place === "center") this.element.scrollTop = top - height / 2;
    else this.element.scrollTop = top < scroll ? top : top + rowHeight - height;
    this.draw();
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { rowHeight } = this.options;
    const height = Math.max(0, this.element.clientHeight - this.headHeight);
    const first = Math.floor(this.element.scrollTop / rowHeight);
    const last = Math.min(this.count - 1, Math.ceil((this.element.scrollTop + height) / rowHeight));
    const from = Math.max(0, first - MARGIN);
    const to = Math.min(this.count - 1, last + MARGIN);
    for (const [index, row] of this.rows) {
      // The active row stays, since `aria-activedescendant` must name an element.
      if ((index < from || index > to) && index !== this.active) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = from; index <= to; index++) this.ensure(index);
    if (this.active >= 0 && this.active < this.count) this.ensure(this.active);
    if (this.count) this.options.seen?.(first, last);
  }

  /** @param {number} index */
  ensure(index) {
    if (this.rows.has(index)) return;
    const row = el("div", { class: "virtual-row", id: `${this.id}-${index}`, role: this.isGrid ? "row" : "option" });
    row.style.setProperty("height", `${this.options.rowHeight}px`);
    row.style.setProperty("transform", `translateY(${index * this.options.rowHeight}px)`);
    this.rows.set(index, row);
    this.drawRow(row, index);
    // Rows are in the order of the list, for those who read by it.
    let next = index + 1;
    const limit = index + 4 * MARGIN + 200;
    while (next < limit && !this.rows.has(next)) next++;
    this.body.insertBefore(row, this.rows.get(next) ?? null);
  }

  /**
   * @param {HTMLElement} row
   * @param {number} index
   */
  drawRow(row, index) {
    fill(row);
    this.options.draw(row, index);
    if (this.isGrid) {
      const numeric = this.options.numeric ?? [];
      for (const [column, cell] of [...row.children].entries()) {
        cell.setAttribute("role", "gridcell");
        if (numeric.includes(column)) cell.classList.add("num");
      }
      row.setAttribute("aria-rowindex", String(index + 2));
    } else {
      row.setAttribute("aria-posinset", String(index + 1));
      row.setAttribute("aria-setsize", String(this.options.total ?? this.count));
    }
    this.setState(row, index);
  }

  /**
   * @param {HTMLElement} row
   * @param {number} index
   */
  setState(row, index) {
    row.setAttribute("aria-selected", String(index === this.active));
    row.toggleAttribute("data-active", index === this.active);
  }

  /**
   * Make the row active that is so many rows below the active one.
   * @param {number} by
   */
  step(by) {
    if (!this.count) return;
    const index = Math.min(this.count - 1, Math.max(0, this.active + by));
    this.activate(index);
    this.options.choose?.(index);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.count) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - this.headHeight) / this.options.rowHeight) - 1);
    const to = /** @type {Record<string, number>} */ ({
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: this.count - 1,
    })[event.key];
    if (to !== undefined) this.step(to - this.active);
    else if (event.key === "Enter" && this.active >= 0 && event.target === this.element && this.options.open) {
      this.options.open(this.active, event);
    } else return;
    event.preventDefault();
  }

  /**
   * @param {MouseEvent} event
   * @param {boolean} isDouble
   */
  click(event, isDouble) {
    const row = event.target instanceof Element ? event.target.closest(".virtual-row") : null;
    if (!row || (event.target instanceof Element && event.target.closest("a, button, input, label"))) return;
    const index = Number(row.id.slice(this.id.length + 1));
    if (isDouble) this.options.open?.(index, event);
    else {
      this.mark(index);
      this.options.choose?.(index);
    }
  }
}

/**
 * @param {string[]} titles
 * @param {number[]} numeric
 * @param {VirtualOptions["sort"]} sort
 */
function headRow(titles, numeric, sort) {
  const cells = titles.map((title, column) =>
    el("span", { role: "columnheader", class: numeric.includes(column) ? "num" : null }, title),
  );
  if (sort) sortable(cells, (column) => numeric.includes(column), sort);
  return el("div", { class: "virtual-head", role: "row", "aria-rowindex": 1 }, ...cells);
}
