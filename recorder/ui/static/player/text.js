// A recorded text that grows: text nodes in blocks, so that an addition lays out one block and not all of the text.

import { el } from "../dom.js";
import { count } from "../format.js";
import { countWhile } from "../search.js";

/** Characters of a text that are drawn before somebody wants all. */
const DRAWN = 200_000;
/** A block ends with the first line that ends behind this many characters, */
const BLOCK = 4_000;
/** or here, in the middle of a line. */
const LONGEST_BLOCK = 20_000;

/** @typedef {{ element: HTMLElement, node: Text, start: number, isFull: boolean }} TextBlock */

/** @type {WeakMap<Node, { text: DrawnText, block: TextBlock }>} */
const OWNERS = new WeakMap();

/** A text, drawn with exactly its characters. */
export class DrawnText {
  /** @param {Path | null} path of the text in the document of its exchange; null if it is not text of that */
  constructor(path) {
    this.path = path;
    this.content = el("div", { class: "text", "data-path": path && JSON.stringify(path) });
    this.element = el("div", { class: "text-place" }, this.content);
    /** @type {HTMLElement | null} */
    this.more = null;
    /** The text, and the part of it that is drawn. */
    this.value = "";
    this.drawn = "";
    this.limit = DRAWN;
    /** @type {TextBlock[]} */
    this.blocks = [];
  }

  /**
   * Draw a text. What it has in common with the one before stays as it is.
   * @param {string} value
   */
  set(value) {
    if (value === this.value) return;
    this.value = value;
    const wanted = value.length > this.limit ? value.slice(0, this.limit) : value;
    if (wanted !== this.drawn) {
      if (!wanted.startsWith(this.drawn)) this.#cut(commonLength(this.drawn, wanted));
      this.#append(wanted.slice(this.drawn.length));
      this.drawn = wanted;
    }
    this.#offerRest();
  }

  /**
   * Return a range of the drawn text, cut to what is drawn; null if nothing of it is.
   * @param {number} start
   * @param {number} end
   */
  rangeOf(start, end) {
    const last = Math.min(end, this.drawn.length);
    if (start >= last) return null;
    const range = document.createRange();
    const from = this.#blockAt(start);
    const to = this.#blockAt(last - 1);
    range.setStart(from.node, start - from.start);
    range.setEnd(to.node, last - to.start);
    return range;
  }

  /** @param {number} offset */
  #blockAt(offset) {
    return this.blocks[countWhile(this.blocks.length, (place) => this.blocks[place].start <= offset) - 1];
  }

  /** @param {number} length */
  #cut(length) {
    while (this.blocks.length && this.blocks[this.blocks.length - 1].start >= length) {
      this.blocks.pop()?.element.remove();
    }
    const last = this.blocks.at(-1);
    if (last) {
      const rest = length - last.start;
      if (rest < last.node.length) {
        last.node.deleteData(rest, last.node.length - rest);
        last.isFull = false;
      }
    }
    this.drawn = this.drawn.slice(0, length);
  }

  /** @param {string} text */
  #append(text) {
    let at = 0;
    while (at < text.length) {
      let last = this.blocks.at(-1);
      if (!last || last.isFull) last = this.#block();
      const room = LONGEST_BLOCK - last.node.length;
      const line = text.indexOf("\n", at + Math.max(0, BLOCK - last.node.length - 1));
      let end = line >= 0 && line < at + room ? line + 1 : Math.min(text.length, at + room);
      // A character of two units is in one block, else it would be drawn as two that are unknown.
      if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
      last.node.appendData(text.slice(at, end));
      last.isFull = last.node.length >= LONGEST_BLOCK || (last.node.length >= BLOCK && text[end - 1] === "\n");
      at = end;
    }
  }

  #block() {
    const before = this.blocks.at(-1);
    const node = document.createTextNode("");
    const element = el("div", { class: "text-block" }, node);
    const block = { element, node, start: before ? before.start + before.node.length : 0, isFull: false };
    OWNERS.set(node, { text: this, block });
    this.blocks.push(block);
    this.content.append(element);
    return block;
  }

  #offerRest() {
    const rest = this.value.length - this.drawn.length;
    if (rest <= 0) {
      this.more?.remove();
      this.more = null;
      return;
    }
    if (!this.more) {
      const all = () => {
        this.limit = Infinity;
        const { value } = this;
        this.value = "";
        this.set(value);
      };
      this.more = el("button", { type: "button", class: "text-more", onclick: all });
      this.element.append(this.more);
    }
    const label = `Show all: ${count(rest)} more characters`;
    if (this.more.textContent !== label) this.more.textContent = label;
  }
}

/**
 * Return the text and the offset in it that a place of the DOM is.
 * @param {Node} node
 * @param {number} offset
 */
export function textOffset(node, offset) {
  const owner = OWNERS.get(node);
  return owner ? { text: owner.text, offset: owner.block.start + offset } : null;
}

/**
 * Return how many characters two texts begin with in common.
 * @param {string} a
 * @param {string} b
 */
function commonLength(a, b) {
  if (a.startsWith(b)) return b.length;
  return countWhile(Math.min(a.length, b.length), (place) => a.startsWith(b.slice(0, place + 1)));
}

/** @param {number} code */
function isHighSurrogate(code) {
  return code >= 0xd800 && code < 0xdc00;
}
