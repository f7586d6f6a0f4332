// A recorded text that grows: text nodes in blocks, so that an addition lays out one block and not all of the text.

import { el } from "../dom.js";
import { count } from "../format.js";
import { countWhile } from "../search.js";
import { jsonTree } from "./json_tree.js";

/** Characters of a text that are drawn before somebody wants all. */
const DRAWN = 200_000;
/** A block ends with the first line that ends behind this many characters, */
const BLOCK = 4_000;
/** or here, in the middle of a line. */
const LONGEST_BLOCK = 20_000;

/**
 * @typedef {{ kind: string, length: number }} Token a stretch of a text that looks the same; its kind is a class, or
 * empty for what is only text
 * @typedef {(text: string, state: string) => { tokens: Token[], state: string }} Style what a block looks like, and
 * what the next one begins with
 * @typedef {{ node: Text, start: number, kind: string, top: Node }} TextPart a node, where it begins in its block
 * @typedef {{ element: HTMLElement, start: number, text: string, parts: TextPart[], isFull: boolean, state: string,
 *   next: string }} TextBlock
 */

/** @type {WeakMap<Node, { text: DrawnText, block: TextBlock, part: TextPart }>} */
const OWNERS = new WeakMap();

/** A text, drawn with exactly its characters: a style only puts elements around some of them. */
export class DrawnText {
  /**
   * @param {Path | null} path of the text in the document of its exchange; null if it is not text of that
   * @param {Style} [style]
   */
  constructor(path, style = plain) {
    this.path = path;
    this.style = style;
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
    this.isTree = false;
  }

  /**
   * Draw a text that is JSON as a tree. Return false if it is not, or too long for one.
   * @param {string} value
   */
  setTree(value) {
    if (this.isTree && value === this.value) return true;
    const tree = jsonTree(value);
    if (!tree) return false;
    this.#clear();
    this.isTree = true;
    this.value = value;
    this.drawn = value;
    const parts = tree.nodes.map(({ node, start }) => ({ node, start, kind: "", top: node }));
    const block = { element: tree.element, start: 0, text: value, parts, isFull: true, state: "", next: "" };
    for (const part of parts) OWNERS.set(part.node, { text: this, block, part });
    this.blocks.push(block);
    this.content.append(tree.element);
    this.#offerRest();
    return true;
  }

  #clear() {
    this.content.replaceChildren();
    this.blocks = [];
    this.isTree = false;
    this.value = "";
    this.drawn = "";
  }

  /**
   * Draw a text. What it has in common with the one before stays as it is.
   * @param {string} value
   */
  set(value) {
    if (this.isTree) this.#clear();
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
    const first = partAt(from, start - from.start);
    const final = partAt(to, last - 1 - to.start);
    range.setStart(first.node, start - from.start - first.start);
    range.setEnd(final.node, last - to.start - final.start);
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
    if (last && last.start + last.text.length > length) {
      last.text = last.text.slice(0, length - last.start);
      last.isFull = false;
      this.#restyle(last);
    }
    this.drawn = this.drawn.slice(0, length);
  }

  /** @param {string} text */
  #append(text) {
    let at = 0;
    while (at < text.length) {
      let last = this.blocks.at(-1);
      if (!last || last.isFull) last = this.#block();
      const room = LONGEST_BLOCK - last.text.length;
      const line = text.indexOf("\n", at + Math.max(0, BLOCK - last.text.length - 1));
      let end = line >= 0 && line < at + room ? line + 1 : Math.min(text.length, at + room);
      // A character of two units is in one block, else it would be drawn as two that are unknown.
      if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
      last.text += text.slice(at, end);
      last.isFull = last.text.length >= LONGEST_BLOCK || (last.text.length >= BLOCK && text[end - 1] === "\n");
      this.#restyle(last);
      at = end;
    }
  }

  #block() {
    const before = this.blocks.at(-1);
    const element = el("div", { class: "text-block" });
    const start = before ? before.start + before.text.length : 0;
    /** @type {TextBlock} */
    const block = { element, start, text: "", parts: [], isFull: false, state: before?.next ?? "", next: "" };
    this.blocks.push(block);
    this.content.append(element);
    return block;
  }

  /**
   * Draw a block again, from the first part on that is another one: a selection before it stays.
   * @param {TextBlock} block
   */
  #restyle(block) {
    const { parts, text } = block;
    const { tokens, state } = this.style(text, block.state);
    block.next = state;
    let at = 0;
    let place = 0;
    for (const { kind, length } of tokens) {
      const wanted = text.slice(at, at + length);
      const old = parts[place];
      if (old?.kind === kind && wanted.startsWith(old.node.data)) {
        if (wanted.length > old.node.length) old.node.appendData(wanted.slice(old.node.length));
        old.start = at;
      } else if (old?.kind === kind && old.node.data.startsWith(wanted)) {
        old.node.deleteData(wanted.length, old.node.length - wanted.length);
        old.start = at;
      } else {
        for (const { top } of parts.splice(place)) block.element.removeChild(top);
        parts.push(this.#part(block, kind, wanted, at));
      }
      at += length;
      place += 1;
    }
    for (const { top } of parts.splice(place)) block.element.removeChild(top);
  }

  /**
   * @param {TextBlock} block
   * @param {string} kind
   * @param {string} text
   * @param {number} start
   */
  #part(block, kind, text, start) {
    const node = document.createTextNode(text);
    const top = kind ? el(TAGS[kind] ?? "span", { class: kind }, node) : node;
    const part = { node, start, kind, top };
    OWNERS.set(node, { text: this, block, part });
    block.element.append(top);
    return part;
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

/** Elements that have a meaning of their own. @type {Record<string, string>} */
const TAGS = { "md-strong": "strong", "md-heading": "strong", "md-em": "em", "md-code": "code" };

/** @type {Style} */
function plain(text) {
  return { tokens: [{ kind: "", length: text.length }], state: "" };
}

/**
 * @param {TextBlock} block
 * @param {number} offset
 */
function partAt({ parts }, offset) {
  return parts[countWhile(parts.length, (place) => parts[place].start <= offset) - 1];
}

/**
 * Return the text and the offset in it that a place of the DOM is: in one of its nodes, or before the first one there.
 * @param {Node} node
 * @param {number} offset
 */
export function textOffset(node, offset) {
  if (node instanceof Text) return placeOf(node, offset);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const child = node.childNodes[offset];
  walker.currentNode = child ?? lastOf(node);
  const first = child instanceof Text ? child : walker.nextNode();
  return first && placeOf(first, 0);
}

/** @param {Node} node @returns {Node} */
function lastOf(node) {
  return node.lastChild ? lastOf(node.lastChild) : node;
}

/**
 * @param {Node} node
 * @param {number} offset
 */
function placeOf(node, offset) {
  const owner = OWNERS.get(node);
  return owner ? { text: owner.text, offset: owner.block.start + owner.part.start + offset } : null;
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
