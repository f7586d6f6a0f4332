// The borders between the panes of the player, which are dragged, or moved by arrow keys. Where they are is kept in the
// browser, for all sessions.

import { el } from "../dom.js";
import { keep, kept } from "../kept.js";

const KEY = "recorder.panes";
/** Part of the whole by which an arrow key moves a border, in percent. */
const STEP = 2;

/**
 * A border: the share of the element around it that is before it, in percent. `usual` is about that of the style sheet.
 * @typedef {{ name: string, label: string, isUpright: boolean, least: number, most: number, usual: number }} Border
 */

/** @type {Border[]} */
const BORDERS = [
  { name: "turns", label: "Width of the turns", isUpright: true, least: 10, most: 30, usual: 19 },
  { name: "conversation", label: "Width of the conversation", isUpright: true, least: 40, most: 85, usual: 62 },
  { name: "events", label: "Height of the events", isUpright: false, least: 15, most: 85, usual: 50 },
];

/** The borders. Where nobody has moved one, it is where the style sheet has it. */
export class Panes {
  /** @param {HTMLElement} main the element around the panes */
  constructor(main) {
    this.main = main;
    this.shares = keptShares();
    this.elements = BORDERS.map((border) => this.#border(border));
    main.append(...this.elements);
    this.#apply();
  }

  /** @param {Border} border */
  #border(border) {
    const { name, label, isUpright, least, most } = border;
    /** @param {number} share */
    const move = (share) => {
      this.shares[name] = Math.round(10 * Math.min(most, Math.max(least, share))) / 10;
      this.#apply();
      keep(KEY, this.shares);
    };
    const reset = () => {
      delete this.shares[name];
      this.#apply();
      keep(KEY, this.shares);
    };
    /** @param {PointerEvent} event */
    const drag = (event) => {
      if (!separator.hasPointerCapture(event.pointerId)) return;
      const box = this.main.getBoundingClientRect();
      move(isUpright ? (100 * (event.clientX - box.left)) / box.width : (100 * (event.clientY - box.top)) / box.height);
    };
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const back = isUpright ? "ArrowLeft" : "ArrowUp";
      const forth = isUpright ? "ArrowRight" : "ArrowDown";
      if (event.key === back) move(this.#shareOf(separator, isUpright) - STEP);
      else if (event.key === forth) move(this.#shareOf(separator, isUpright) + STEP);
      else if (event.key === "Enter") reset();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    const separator = el("div", {
      class: `pane-border pane-border-${name}`,
      role: "separator",
      tabindex: 0,
      "aria-label": label,
      "aria-orientation": isUpright ? "vertical" : "horizontal",
      "aria-valuemin": least,
      "aria-valuemax": most,
      title: `${label}: drag, or arrow keys; double click or Enter as it was`,
      onpointerdown: (/** @type {PointerEvent} */ event) => {
        event.preventDefault();
        separator.focus();
        separator.setPointerCapture(event.pointerId);
      },
      onpointermove: drag,
      ondblclick: reset,
      onkeydown: press,
    });
    return separator;
  }

  /**
   * Return where a border is.
   * @param {HTMLElement} separator
   * @param {boolean} isUpright
   */
  #shareOf(separator, isUpright) {
    const box = this.main.getBoundingClientRect();
    const own = separator.getBoundingClientRect();
    return isUpright
      ? (100 * (own.left + own.width / 2 - box.left)) / box.width
      : (100 * (own.top + own.height / 2 - box.top)) / box.height;
  }

  #apply() {
    for (const [index, { name, usual }] of BORDERS.entries()) {
      const share = this.shares[name];
      if (share === undefined) this.main.style.removeProperty(`--${name}`);
      else this.main.style.setProperty(`--${name}`, `${share}%`);
      this.elements[index].setAttribute("aria-valuenow", String(Math.round(share ?? usual)));
    }
  }
}

/** @returns {Record<string, number>} */
function keptShares() {
  const shares = kept(KEY);
  /** @type {Record<string, number>} */
  const found = {};
  for (const { name, least, most } of BORDERS) {
    if (shares?.[name] >= least && shares[name] <= most) found[name] = shares[name];
  }
  return found;
}
