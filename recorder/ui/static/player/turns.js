// The list of turns: a line for each exchange, those of a sub-agent together under its name.

import { toggle } from "../buttons.js";
import { el, fill } from "../dom.js";
import { compact, count, dollars, duration, wallTime } from "../format.js";

const CONVERSED = ["turn", "subagent"];
/** The day of a model's version: without it there is room for the name. */
const VERSION = /-\d{4}-?\d\d-?\d\d$/;
/** Why an exchange that has ended is nothing to worry about. */
const FINE = ["completed", null];

/** A line of the list: an exchange, or the name above those of a sub-agent. */
/** @typedef {{ agent: string | null, exchanges: ExchangeSummary[] }} Group */

/** The list; the turn of the playhead is its current one. */
export class TurnList {
  /** @param {(number: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    /** @type {ExchangeSummary[]} */
    this.exchanges = [];
    /** @type {Map<number, HTMLElement>} the button of each exchange that is shown */
    this.buttons = new Map();
    /** @type {Set<string>} the sub-agents that are folded */
    this.folded = new Set();
    this.current = 0;
    this.list = el("ol", { class: "turn-list scroll" });
    this.total = el("span", { class: "num quiet" });
    this.background = toggle(
      "Background",
      "Show what the client asks on its own too: titles, prewarms, probes",
      true,
      () => this.#draw(),
    );
    this.element = el(
      "nav",
      { class: "panel turns-panel", "aria-label": "Turns", onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) },
      el("div", { class: "panel-head" }, el("h2", {}, "Turns"), this.total, el("span", { class: "gap" }), this.background),
      this.list,
    );
  }

  /** @param {ExchangeSummary[]} exchanges in order of time */
  setExchanges(exchanges) {
    this.exchanges = exchanges;
    this.background.hidden = !exchanges.some(isBackground);
    this.total.textContent = count(exchanges.length);
    this.#draw();
  }

  /** Return the number of the first turn of the conversation. */
  first() {
    const first = this.exchanges.find((each) => !isBackground(each)) ?? this.exchanges[0];
    return first?.number ?? 0;
  }

  /**
   * Return the number of the turn that is so many lines from the current one; undefined at the end of the list.
   * @param {1 | -1} by
   */
  beside(by) {
    const numbers = [...this.buttons.keys()];
    const at = numbers.indexOf(this.current);
    if (at >= 0) return numbers[at + by];
    return by > 0 ? numbers.find((each) => each > this.current) : numbers.findLast((each) => each < this.current);
  }

  /** @param {number} number */
  setCurrent(number) {
    if (number === this.current) return;
    this.#mark(this.current, false);
    this.current = number;
    this.#mark(number, true);
  }

  /**
   * @param {number} number
   * @param {boolean} isCurrent
   */
  #mark(number, isCurrent) {
    const button = this.buttons.get(number);
    button?.setAttribute("aria-current", String(isCurrent));
    if (button) button.tabIndex = isCurrent ? 0 : -1;
    if (isCurrent) button?.scrollIntoView({ block: "nearest" });
  }

  #draw() {
    const hasFocus = this.list.contains(document.activeElement);
    const showsAll = this.background.getAttribute("aria-pressed") === "true";
    this.buttons.clear();
    const lines = groups(this.exchanges.filter((each) => showsAll || !isBackground(each))).flatMap(
      ({ agent, exchanges }) => (agent === null ? exchanges.map((each) => this.#line(each)) : [this.#group(agent, exchanges)]),
    );
    fill(this.list, ...lines);
    this.#mark(this.current, true);
    const reachable = this.buttons.get(this.current) ?? this.buttons.values().next().value;
    if (reachable) reachable.tabIndex = 0;
    if (hasFocus) reachable?.focus();
  }

  /**
   * @param {string} agent
   * @param {ExchangeSummary[]} exchanges
   */
  #group(agent, exchanges) {
    const isOpen = !this.folded.has(agent);
    const fold = () => {
      if (!this.folded.delete(agent)) this.folded.add(agent);
      this.#draw();
    };
    const name = exchanges.find((each) => each.agent)?.agent;
    return el(
      "li",
      { class: "turn-agent" },
      el(
        "button",
        { type: "button", class: "plain", "aria-expanded": String(isOpen), title: agent, onclick: fold },
        el("span", { "aria-hidden": "true" }, isOpen ? "▾" : "▸"),
        el("bdi", { class: "cut" }, name ?? "sub-agent"),
        el("span", { class: "num quiet" }, count(exchanges.length)),
      ),
      isOpen ? el("ol", {}, ...exchanges.map((each) => this.#line(each))) : null,
    );
  }

  /** @param {ExchangeSummary} exchange */
  #line(exchange) {
    const { number, status, total_tokens } = exchange;
    const isFine = FINE.includes(status);
    const cost = exchange.cost_usd === null ? "" : dollars(Number(exchange.cost_usd) * 1e12);
    const button = el(
      "button",
      {
        type: "button",
        class: `plain turn${isBackground(exchange) ? " is-background" : ""}`,
        title: `${wallTime(exchange.started_ns)} · ${exchange.method} ${exchange.target} · ${exchange.model ?? ""}`,
        "aria-current": "false",
        tabindex: -1,
        onclick: () => this.choose(number),
      },
      el("span", { class: "turn-number num" }, number),
      wordsOf(exchange),
      el(
        "span",
        { class: "turn-facts num" },
        el("bdi", { class: "cut grow" }, exchange.model?.replace(VERSION, "") ?? exchange.api),
        isFine ? null : el("span", { class: status === "incomplete" ? "warn" : "error" }, status),
        el("span", { title: "tokens" }, total_tokens === null ? "" : compact(total_tokens)),
        el("span", {}, cost),
        el("span", {}, exchange.has_ended ? duration(exchange.duration_ns) : "open"),
      ),
      exchange.missed_tokens
        ? el("span", { class: "turn-missed num" }, `cache missed ${compact(exchange.missed_tokens)} tokens`)
        : null,
    );
    this.buttons.set(number, button);
    return el("li", {}, button);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = this.beside(/** @type {1 | -1} */ (by));
    if (next === undefined) return;
    this.choose(next);
    this.setCurrent(next);
    this.buttons.get(next)?.focus();
  }
}

/**
 * Return true for what a client asks on its own.
 * @param {ExchangeSummary} exchange
 */
function isBackground({ purpose, has_ended, model, user_text }) {
  if (purpose !== null) return !CONVERSED.includes(purpose);
  return has_ended && !model && !user_text;
}

/**
 * Return the first words of what a person asked, or the names of the tools whose results the request brings.
 * @param {ExchangeSummary} exchange
 */
export function wordsOf(exchange) {
  const { purpose, user_text, results, failed, method, target } = exchange;
  const label = isNamed(purpose) ? purpose : null;
  if (!bringsResults(exchange)) {
    const words = user_text ?? `${method} ${target}`;
    return el("span", { class: "turn-words cut" }, label ? el("i", {}, `${label} `) : null, el("bdi", {}, words));
  }
  const names = [...new Set(results)].map((name) => {
    const times = results.filter((each) => each === name).length;
    const words = el("bdi", { class: "mono" }, times > 1 ? `${name} ×${times}` : name);
    return failed.includes(name) ? el("span", { class: "error" }, words, " failed") : words;
  });
  if (!names.length) names.push(el("span", {}, "results of tools"));
  const listed = names.flatMap((name, place) => (place ? [", ", name] : [name]));
  return el("span", { class: "turn-words cut quiet" }, "↳ ", ...listed);
}

/**
 * Return whether a request ends with results of tools. While it is open, nobody knows their names.
 * @param {ExchangeSummary} exchange
 */
export function bringsResults({ is_turn, results, has_ended, user_text }) {
  return !is_turn && (results.length > 0 || (!has_ended && user_text !== null));
}

/** @param {string | null} purpose */
function isNamed(purpose) {
  return purpose !== null && !CONVERSED.includes(purpose);
}

/**
 * Put the exchanges of each sub-agent together, where its first one is.
 * @param {ExchangeSummary[]} exchanges
 */
function groups(exchanges) {
  const threads = new Set(exchanges.filter((each) => each.purpose === "subagent").map((each) => each.thread_id));
  threads.delete(null);
  /** @type {Map<string, Group>} */
  const found = new Map();
  for (const exchange of exchanges) {
    const isAgent = exchange.purpose === "subagent" || threads.has(exchange.thread_id);
    const agent = isAgent ? (exchange.thread_id ?? exchange.user_text ?? "") : null;
    const key = agent === null ? `exchange ${exchange.number}` : `agent ${agent}`;
    const group = found.get(key) ?? { agent, exchanges: [] };
    group.exchanges.push(exchange);
    found.set(key, group);
  }
  return [...found.values()];
}
