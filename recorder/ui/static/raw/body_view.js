// A body of a request or a response, part by part: as text, as indented JSON, as a hex dump.

import { Choice } from "../buttons.js";
import { LINE_BYTES, hexDump } from "../bytes.js";
import { el, fill } from "../dom.js";
import { count, messageOf, size } from "../format.js";
import { prettyJson, visible } from "../pretty.js";
import { request, save } from "../source.js";

const PART_BYTES = 4 * 2 ** 20; // fetched at once: what a browser indents in a tenth of a second
const SHOWN_CHARS = 60_000; // of text added to the page at once: one line of that length is laid out in a frame or two
const SHOWN_ROWS = 512; // of a hex dump

/** The beginning of a body as text, as indented JSON or as a hex dump, with more of it on demand. */
export class BodyView {
  /**
   * @param {string} url
   * @param {number | null} size_bytes null if it still grows
   * @param {string} file
   */
  constructor(url, size_bytes, file) {
    this.url = url;
    this.size_bytes = size_bytes;
    this.bytes = new Uint8Array(0);
    this.isWhole = false;
    this.isLoading = false;
    this.shown = 1;
    this.mode = "";
    this.modes = new Choice("Form of the body", (mode) => this.#choose(mode));
    this.place = el("div", {}, el("p", { class: "note" }, "Loading…"));
    this.failure = el("p", { class: "error", role: "alert" });
    this.element = el(
      "div",
      { class: "body-view" },
      el(
        "div",
        { class: "panel-head" },
        el("h3", {}, "Body", size_bytes === null ? "" : ` · ${size(size_bytes)}`),
        this.modes.element,
        el("button", { type: "button", onclick: () => this.#save(file) }, "Save"),
      ),
      this.place,
      this.failure,
    );
    void this.#load();
  }

  /** @param {string} file */
  async #save(file) {
    fill(this.failure);
    await save(this.url, file).catch((error) => fill(this.failure, messageOf(error)));
  }

  async #load() {
    if (this.isLoading) return;
    this.isLoading = true;
    fill(this.failure);
    try {
      const response = await request(`${this.url}&from=${this.bytes.length}&limit=${PART_BYTES}`);
      const part = new Uint8Array(await response.arrayBuffer());
      const joined = new Uint8Array(this.bytes.length + part.length);
      joined.set(this.bytes);
      joined.set(part, this.bytes.length);
      this.bytes = joined;
      this.isWhole = part.length < PART_BYTES || joined.length === this.size_bytes;
      this.#read();
    } catch (error) {
      // What was read before stays, with the button that asks again.
      if (!this.bytes.length) fill(this.place);
      fill(this.failure, messageOf(error));
    } finally {
      this.isLoading = false;
    }
  }

  /** Decode what was fetched, and find its forms. */
  #read() {
    this.text = decoded(this.bytes);
    this.pretty = this.text === null || !/^\s*[[{]/.test(this.text) ? null : prettyJson(this.text, !this.isWhole);
    const modes = [
      ...(this.pretty !== null && this.pretty !== this.text ? [{ name: "json", label: "Indented" }] : []),
      ...(this.text !== null ? [{ name: "text", label: "Text" }] : []),
      { name: "hex", label: "Hex" },
    ];
    if (!modes.some(({ name }) => name === this.mode)) this.mode = modes[0].name;
    this.modes.offer(modes, this.mode);
    this.#draw();
  }

  /** @param {string} mode */
  #choose(mode) {
    this.mode = mode;
    this.shown = 1;
    this.modes.select(mode);
    this.#draw();
  }

  #draw() {
    if (!this.bytes.length) return fill(this.place, el("p", { class: "quiet" }, "Empty."));
    const isHex = this.mode === "hex";
    const whole = this.mode === "json" ? this.pretty : this.text;
    const [text, isAll] = isHex
      ? dumped(this.bytes, this.shown * SHOWN_ROWS)
      : beginning(whole ?? "", this.shown * SHOWN_CHARS);
    const hasMore = !isAll || !this.isWhole;
    const more = () => {
      this.shown += 1;
      if (isAll) void this.#load();
      else this.#draw();
    };
    const attributes = { class: isHex ? "code hex" : "code", tabindex: 0, role: "region", "aria-label": "Body" };
    const button = el("button", { type: "button", onclick: more }, "More");
    const progress = el("span", { class: "note" }, this.#progress(text.length, isHex));
    fill(
      this.place,
      el("pre", attributes, visible(text)),
      hasMore ? el("div", { class: "more" }, button, progress) : null,
    );
  }

  /**
   * @param {number} chars
   * @param {boolean} isHex
   */
  #progress(chars, isHex) {
    const whole = this.size_bytes === null ? null : size(this.size_bytes);
    if (!isHex) return `${count(chars)} characters are shown${whole ? `, the body has ${whole}` : ""}`;
    const shown = size(Math.min(this.bytes.length, this.shown * SHOWN_ROWS * LINE_BYTES));
    return whole ? `${shown} of ${whole}` : shown;
  }
}

/**
 * Return bytes as text, without half a character at their end; null if they are not UTF-8, or hold NUL.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function decoded(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: true });
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/**
 * Return the beginning of a text, up to the end of a line if one is near, and whether that is all of it.
 * @param {string} text
 * @param {number} limit
 * @returns {[string, boolean]}
 */
function beginning(text, limit) {
  if (text.length <= limit) return [text, true];
  const line = text.lastIndexOf("\n", limit);
  return [text.slice(0, line > limit / 2 ? line : limit), false];
}

/**
 * Return the beginning of a hex dump, and whether that is all of it.
 * @param {Uint8Array} bytes
 * @param {number} rows
 * @returns {[string, boolean]}
 */
function dumped(bytes, rows) {
  const end = Math.min(bytes.length, rows * LINE_BYTES);
  return [hexDump(bytes, 0, end, (at) => at.toString(16).padStart(8, "0")), end === bytes.length];
}
