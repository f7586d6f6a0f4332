// JSON as a tree that folds. All characters of the text stay, in their order, each in a text node; line breaks and
// indents are those of elements. The text is cut and never parsed, so each number, escape and repeated name stays as
// it is written.

import { el } from "../dom.js";
import { plural } from "../format.js";
import { endOfScalar, endOfString } from "../pretty.js";

/** Characters of a text that becomes a tree, and values in it: a tree of more takes long to build and to lay out. */
const LONGEST = 60_000;
const MOST = 4_000;
const DEEPEST = 100;
/** Members of an array or object that is folded at first. */
const MANY = 20;
/** Characters of what is in one line, if nothing in it has members. */
const SHORT = 72;

/**
 * @typedef {{ from: number, to: number, members: JsonMember[] | null }} JsonValue its place in the text
 * @typedef {{ from: number, nameEnd: number, value: JsonValue }} JsonMember of an array without a name
 */

/**
 * Return the tree of an object or array, and its text nodes with the place of each; null of any other text.
 * @param {string} text
 */
export function jsonTree(text) {
  if (text.length > LONGEST || !/^\s*[[{]/.test(text)) return null;
  const reader = new Reader(text);
  const value = reader.value(0);
  if (!value || reader.next() !== undefined) return null;
  const tree = new Tree(text);
  const element = el("div", { class: "json-tree" });
  tree.line(element, { from: 0, nameEnd: 0, value }, text.length);
  return { element, nodes: tree.nodes };
}

/** Finds where the values of a text begin and end. */
class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.count = 0;
  }

  /** Return the next character that is not a space; undefined at the end. */
  next() {
    while (" \n\r\t".includes(this.text[this.at] ?? "x")) this.at += 1;
    return this.text[this.at];
  }

  /**
   * @param {number} depth
   * @returns {JsonValue | null}
   */
  value(depth) {
    const sign = this.next();
    const from = this.at;
    this.count += 1;
    if (this.count > MOST || depth > DEEPEST) return null;
    if (sign === "{" || sign === "[") {
      const members = this.#members(sign === "{", depth);
      return members && { from, to: this.at, members };
    }
    const to = sign === '"' ? endOfString(this.text, from) : endOfScalar(this.text, from);
    this.at = to;
    return to < 0 ? null : { from, to, members: null };
  }

  /**
   * @param {boolean} isObject
   * @param {number} depth
   */
  #members(isObject, depth) {
    const close = isObject ? "}" : "]";
    /** @type {JsonMember[]} */
    const members = [];
    this.at += 1;
    while (this.next() !== close) {
      const from = this.at;
      if (isObject && !this.#name()) return null;
      const nameEnd = this.at;
      const value = this.value(depth + 1);
      if (!value) return null;
      members.push({ from, nameEnd, value });
      if (this.next() === close) break;
      if (this.text[this.at] !== ",") return null;
      this.at += 1;
      if (this.next() === close) return null;
    }
    this.at += 1;
    return members;
  }

  /** Go past a name and its colon. */
  #name() {
    const end = this.text[this.at] === '"' ? endOfString(this.text, this.at) : -1;
    if (end < 0) return false;
    this.at = end;
    if (this.next() !== ":") return false;
    this.at += 1;
    return true;
  }
}

/** Puts the text into elements, from its beginning to its end. */
class Tree {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    /** @type {{ node: Text, start: number }[]} */
    this.nodes = [];
  }

  /**
   * Draw a member on lines of its own, with all that stands around it up to `end`.
   * @param {HTMLElement} parent
   * @param {JsonMember} member
   * @param {number} end
   */
  line(parent, member, end) {
    const { value } = member;
    if (!value.members || isShort(value)) {
      const line = el("div", { class: "json-line" });
      this.#inline(line, member);
      this.#signs(line, end);
      parent.append(line);
    } else parent.append(this.#fold(member, value.members, end));
  }

  /**
   * @param {JsonMember} member
   * @param {JsonMember[]} members
   * @param {number} end
   */
  #fold(member, members, end) {
    const { value } = member;
    const close = this.text[value.to - 1];
    const title = el("summary", {
      "data-rest": ` ${plural(members.length, close === "}" ? "member" : "element")} ${close}`,
      // The end of a selection is a click, too.
      onclick: (/** @type {Event} */ event) => document.getSelection()?.isCollapsed === false && event.preventDefault(),
    });
    const inner = el("div", { class: "json-members" });
    const last = el("div", { class: "json-line" });
    this.#name(title, member);
    this.#signs(title, value.from + 1);
    members.forEach((each, index) => this.line(inner, each, members[index + 1]?.from ?? value.to - 1));
    this.#signs(last, end);
    return el("details", { class: "json-fold", open: members.length <= MANY }, title, inner, last);
  }

  /**
   * @param {HTMLElement} parent
   * @param {JsonMember} member
   */
  #inline(parent, member) {
    const { value } = member;
    this.#name(parent, member);
    if (value.members) {
      for (const each of value.members) this.#inline(parent, each);
      this.#signs(parent, value.to);
    } else if (this.text[value.from] === '"') this.#string(parent, value.to);
    else this.#put(parent, value.to, "json-scalar");
  }

  /**
   * Put what stands before a value: a comma, a name, a colon.
   * @param {HTMLElement} parent
   * @param {JsonMember} member
   */
  #name(parent, { from, nameEnd, value }) {
    this.#signs(parent, from);
    if (nameEnd > from) this.#put(parent, endOfString(this.text, from), "json-name");
    this.#signs(parent, value.from);
  }

  /**
   * Put a string, with a new line after each line feed in it.
   * @param {HTMLElement} parent
   * @param {number} to
   */
  #string(parent, to) {
    const string = el("span", { class: "json-string" });
    const from = this.at;
    if (to - from > SHORT) {
      for (const { 0: escape, index } of this.text.slice(from, to).matchAll(/\\[^]/g)) {
        if (escape !== "\\n") continue;
        this.#put(string, from + index, "");
        this.#put(string, from + index + escape.length, "json-sign");
        string.append(el("br"));
      }
    }
    this.#put(string, to, "");
    parent.append(string);
  }

  /**
   * Put what is between values. Spaces are drawn by the lines: those of the text are there, and take no place.
   * @param {HTMLElement} parent
   * @param {number} to
   */
  #signs(parent, to) {
    for (const [part] of this.text.slice(this.at, to).matchAll(/\s+|\S/g)) {
      const isSpace = !part.trim();
      const kind = part === ":" || part === "," ? "json-sign json-gap" : "json-sign";
      this.#put(parent, this.at + part.length, isSpace ? "json-space" : kind);
    }
  }

  /**
   * @param {HTMLElement} parent
   * @param {number} to
   * @param {string} kind
   */
  #put(parent, to, kind) {
    if (to <= this.at) return;
    const node = document.createTextNode(this.text.slice(this.at, to));
    this.nodes.push({ node, start: this.at });
    parent.append(kind ? el("span", { class: kind }, node) : node);
    this.at = to;
  }
}

/** @param {JsonValue} value */
function isShort({ from, to, members }) {
  return to - from <= SHORT && !members?.some(({ value }) => value.members?.length);
}
