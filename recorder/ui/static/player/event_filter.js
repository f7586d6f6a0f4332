// The filter of the event list: by exchange, by kind or type, and by a text in the bytes of events or that they wrote.

import { el, fill } from "../dom.js";
import { count, messageOf } from "../format.js";

/** Pause of typing after which the text is looked for. */
const REST_MS = 300;

/**
 * @typedef {object} EventFilterOptions
 * @property {import("./timeline.js").SessionTimeline} timeline
 * @property {(text: string) => Promise<FoundEvents>} find
 * @property {() => void} changed other events are wanted
 * @property {() => void} next go to the next event that is wanted
 * @property {(message: string) => void} announce
 */

/** The controls, and which events are wanted. */
export class EventFilter {
  /** @param {EventFilterOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Map<number, Set<number>> | null} positions by exchange; null without a text */
    this.found = null;
    /** The text that was found. */
    this.looked = "";
    this.asked = 0;
    this.exchange = select("Exchange", options.changed);
    this.type = select("Kind or type", options.changed);
    this.text = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "search",
        class: "grow",
        placeholder: "Text in the session",
        "aria-label": "Text in the session",
        title: "In texts, arguments, results and bytes; Enter goes to the next event that has it or wrote it",
        maxlength: 200,
        oninput: () => this.#find(REST_MS),
        onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && void this.#next(),
      })
    );
    this.element = el("div", { class: "event-filter", role: "search" }, this.text, this.type, this.exchange);
    this.setTimeline();
  }

  close() {
    clearTimeout(this.resting);
  }

  /** Offer what the timeline has by now. */
  setTimeline() {
    const { exchanges, kinds, types } = this.options.timeline;
    offer(this.exchange, "all exchanges", [{ label: "", names: exchanges.map(({ number }) => String(number)) }]);
    offer(this.type, "all types", [
      { label: "Kinds", names: [...kinds].sort() },
      { label: "Types", names: [...types].sort() },
    ]);
    this.exchange.hidden = exchanges.length < 2;
    if (this.found) this.#find(REST_MS);
  }

  /** Return the indices of the events that are wanted, in order of time; null if all are. */
  wanted() {
    const { timeline } = this.options;
    const { found } = this;
    const exchange = this.exchange.value;
    const [group, name] = this.type.value.split(/:(.*)/s);
    if (!exchange && !group && !found) return null;
    const kind = group === "Kinds" ? timeline.kinds.indexOf(name) : -1;
    const type = group === "Types" ? timeline.types.indexOf(name) : -1;
    const wanted = [];
    for (let index = 0; index < timeline.length; index++) {
      const ticks = timeline.exchanges[timeline.slot[index]];
      const pos = timeline.pos[index];
      if (exchange && String(ticks.number) !== exchange) continue;
      if (kind >= 0 && ticks.kind[pos] !== kind) continue;
      if (type >= 0 && ticks.type[pos] !== type) continue;
      if (found && !found.get(ticks.number)?.has(pos)) continue;
      wanted.push(index);
    }
    return wanted;
  }

  async #next() {
    if (this.text.value !== this.looked) await this.#look();
    this.options.next();
  }

  /** @param {number} restMs */
  #find(restMs) {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.#look(), restMs);
  }

  async #look() {
    clearTimeout(this.resting);
    const mine = ++this.asked;
    const text = this.text.value;
    try {
      const answer = text ? await this.options.find(text) : null;
      if (mine !== this.asked) return;
      this.looked = text;
      const entries = Object.entries(answer?.events ?? {});
      this.found = answer && new Map(entries.map(([number, positions]) => [Number(number), new Set(positions)]));
      if (answer?.is_all === false) this.options.announce("There are more: these are the first.");
      this.options.changed();
    } catch (error) {
      if (mine === this.asked) this.options.announce(messageOf(error));
    }
  }
}

/**
 * @param {string} label
 * @param {() => void} onchange
 */
function select(label, onchange) {
  return /** @type {HTMLSelectElement} */ (el("select", { "aria-label": label, title: label, onchange }));
}

/**
 * Offer names in groups, and keep what is chosen.
 * @param {HTMLSelectElement} element
 * @param {string} all
 * @param {{ label: string, names: string[] }[]} groups
 */
function offer(element, all, groups) {
  const total = groups.reduce((sum, { names }) => sum + names.length, 0);
  if (element.dataset.total === count(total)) return;
  element.dataset.total = count(total);
  const { value } = element;
  const offered = groups.map(({ label, names }) => {
    const options = names.map((name) =>
      el("option", { value: label ? `${label}:${name}` : name }, label ? name : `exchange ${name}`),
    );
    return label ? el("optgroup", { label }, ...options) : options;
  });
  fill(element, el("option", { value: "" }, all), ...offered.flat());
  element.value = value;
}
