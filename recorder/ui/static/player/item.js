// One item of an exchange: its head, its texts, and the rest of what is known of it.

import { el, fill, setText } from "../dom.js";
import { duration } from "../format.js";
import { markdown } from "./markdown.js";
import { picturesIn, soundIn } from "./picture.js";
import { DrawnText } from "./text.js";

/** Texts of an item, in the order in which they are read. */
const TEXTS = ["summary", "text", "refusal", "arguments", "output"];
/** Those that a tool reads or writes: the others are said to a person. */
const OF_TOOLS = ["arguments", "output"];
/** Keys of an item that its head shows in a way of its own, or not at all. */
const IN_HEAD = new Set([
  "kind",
  "type",
  "name",
  "role",
  "phase",
  "status",
  "failed",
  "latency_ns",
  "item_id",
  "call_id",
  "output_index",
  "encrypted",
  ...TEXTS,
]);

/** The item; what did not change since the last state is not touched. */
export class ItemView {
  /**
   * @param {number} index
   * @param {import("./picture.js").LoadPicture} load
   */
  constructor(index, load) {
    this.index = index;
    this.load = load;
    /** @type {ItemDocument | null} */
    this.item = null;
    /** @type {Map<string, DrawnText>} */
    this.texts = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.fields = new Map();
    this.label = el("span", { class: "item-kind" });
    this.name = el("span", { class: "item-name mono" });
    this.facts = el("span", { class: "item-facts quiet" });
    this.rest = el("div", { class: "item-rest" });
    this.body = el("div", { class: "item-body" });
    this.pictures = el("div", { class: "pictures" });
    this.element = el(
      "article",
      { class: "item", "data-item": index },
      el("div", { class: "item-head" }, this.label, this.name, this.facts),
      this.body,
      this.pictures,
      this.rest,
    );
  }

  /** @param {ItemDocument} item */
  draw(item) {
    const before = this.item;
    if (before === item) return;
    this.item = item;
    const isOther = (/** @type {string} */ key) => !TEXTS.includes(key) && item[key] !== before?.[key];
    if (!before || [...Object.keys(item), ...Object.keys(before)].some(isOther)) this.#drawHead(item);
    const hasEnded = item.status !== before?.status;
    for (const name of TEXTS) if (hasEnded || item[name] !== before?.[name]) this.#drawField(name, item[name]);
    if (item.output !== before?.output) fill(this.pictures, ...picturesIn(item.output, this.load));
  }

  /** @param {ItemDocument} item */
  #drawHead(item) {
    this.element.className = `item kind-${String(item.kind).replaceAll(/[^\w-]/g, "_")}`;
    const kind = String(item.kind).replaceAll("_", " ");
    setText(this.label, item.type && item.type !== item.kind ? String(item.type) : kind);
    setText(this.name, item.name ? String(item.name) : "");
    const facts = [
      item.role && item.role !== "assistant" ? item.role : null,
      item.phase,
      item.status !== "completed" ? item.status : null,
      item.encrypted ? "encrypted" : null,
      soundIn(item.output),
      typeof item.latency_ns === "number" ? `answered after ${duration(item.latency_ns)}` : null,
    ];
    fill(this.facts, item.failed ? el("span", { class: "error" }, "failed ") : null, facts.filter(Boolean).join(" · "));
    this.element.classList.toggle("is-open", item.status === "in_progress");
    this.label.title = [item.item_id, item.call_id].filter(Boolean).join("\n");
    const rest = Object.entries(item).filter(
      ([key, value]) => !IN_HEAD.has(key) && !(Array.isArray(value) && !value.length),
    );
    const lists = rest.map(([key, value]) => {
      const title = Array.isArray(value) ? `${value.length} ${key}` : key;
      const text = new DrawnText(null);
      const written = JSON.stringify(value, null, 2) ?? "";
      if (!text.setTree(written)) text.set(written);
      return el("details", {}, el("summary", { class: "quiet" }, title), text.element);
    });
    fill(this.rest, ...lists);
  }

  /**
   * @param {string} name
   * @param {unknown} value a text, or texts in order
   */
  #drawField(name, value) {
    let field = this.fields.get(name);
    if (value === undefined || value === null) {
      field?.remove();
      this.fields.delete(name);
      for (const key of [...this.texts.keys()]) if (key === name || key.startsWith(`${name}/`)) this.texts.delete(key);
      return;
    }
    if (!field) {
      field = el(
        "div",
        { class: `field field-${name}` },
        name === "text" || name === "summary" ? null : el("span", { class: "field-name quiet" }, name),
      );
      this.fields.set(name, field);
      const after = TEXTS.slice(TEXTS.indexOf(name) + 1).find((each) => this.fields.has(each));
      this.body.insertBefore(field, (after && this.fields.get(after)) || null);
    }
    const texts = Array.isArray(value) ? value : [value];
    texts.forEach((text, index) => this.#drawText(field, Array.isArray(value) ? [name, index] : [name], text));
    for (let index = texts.length; this.texts.has(`${name}/${index}`); index++) {
      this.texts.get(`${name}/${index}`)?.element.remove();
      this.texts.delete(`${name}/${index}`);
    }
  }

  /**
   * @param {HTMLElement} field
   * @param {Path} path inside of the item
   * @param {unknown} value
   */
  #drawText(field, path, value) {
    const key = path.join("/");
    let text = this.texts.get(key);
    if (!text) {
      const place = typeof value === "string" ? ["items", this.index, ...path] : null;
      text = new DrawnText(place, OF_TOOLS.includes(String(path[0])) ? undefined : markdown);
      this.texts.set(key, text);
      field.append(text.element);
    }
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    // What still comes is not JSON yet.
    if (this.item?.status === "in_progress" || !text.setTree(shown)) text.set(shown);
  }
}
