// One exchange of the conversation: what was said, its items, what went wrong, its usage and times.

import { el, fill, setText } from "../dom.js";
import { count, duration, plural } from "../format.js";
import { AskedView } from "./asked.js";
import { ItemView } from "./item.js";
import { markdown } from "./markdown.js";
import { DrawnText } from "./text.js";
import { bringsResults, wordsOf } from "./turns.js";

/** Anomalies that are listed: a broken stream has one at each event. */
const ANOMALIES = 50;

/**
 * @typedef {object} SectionOptions
 * @property {(number: number, pos: number) => void} seek an event is chosen by one of its traces
 * @property {(number: number, isBrief: boolean) => Promise<Asked>} asked
 * @property {LoadOfExchange} picture
 * @property {(number: number) => (string | null)} rawLink
 * @property {(before: number, number: number) => (string | null)} diffLink
 */

/**
 * @typedef {(number: number, of: "response" | "model", digest: import("./picture.js").PictureDigest) => Promise<Blob>}
 *   LoadOfExchange
 */

/** The section of an exchange; it is made when it is near. */
export class Section {
  /**
   * @param {ExchangeSummary} exchange
   * @param {SectionOptions} options
   * @param {HTMLElement} element its place, which is empty
   */
  constructor(exchange, options, element) {
    this.exchange = exchange;
    this.options = options;
    this.element = element;
    /** @type {ExchangeDocument | null} */
    this.state = null;
    /** @type {ItemView[]} */
    this.items = [];
    this.isJson = false;
    this.title = el("h2", {});
    this.about = el("span", { class: "quiet cut about" });
    this.model = el("span", {});
    this.raw = el("span", { class: "raw-link" });
    this.status = el("span", { class: "badge" });
    this.error = el("p", { class: "error" });
    this.userText = new DrawnText(null, markdown);
    this.user = el(
      "div",
      { class: "user-text", hidden: true },
      el("span", { class: "field-name" }, "user"),
      el("div", { dir: "auto" }, this.userText.element),
    );
    this.asked = new AskedView({
      load: (isBrief) => options.asked(this.exchange.number, isBrief),
      picture: (digest) => options.picture(this.exchange.number, "model", digest),
      diffLink: (before) => options.diffLink(before, this.exchange.number),
    });
    this.results = el("button", {
      type: "button",
      class: "plain results",
      title: "Show these results as they were sent",
      onclick: () => this.asked.open(),
    });
    this.list = el("div", { class: "items" });
    this.anomalies = el("ul", { class: "anomalies" });
    this.usage = el("p", { class: "tally" });
    this.timing = el("p", { class: "tally" });
    /** @type {DrawnText | null} */
    this.json = null;
    this.error.hidden = true;
    this.status.hidden = true;
    this.anomalies.hidden = true;
    this.head = el("header", { class: "section-head" }, this.title, this.about, this.raw, this.status);
    this.body = el(
      "div",
      { class: "section-body" },
      this.asked.element,
      this.results,
      this.user,
      this.error,
      this.list,
      this.anomalies,
      this.usage,
      this.timing,
    );
    element.append(this.head, this.body);
    this.setExchange(exchange);
  }

  /** @param {ExchangeSummary} exchange */
  setExchange(exchange) {
    this.exchange = exchange;
    const link = this.options.rawLink(exchange.number);
    fill(
      this.title,
      el(
        "button",
        {
          type: "button",
          class: "plain",
          title: "Move the playhead to its beginning",
          onclick: () => this.options.seek(exchange.number, 0),
        },
        `${exchange.number}`,
      ),
    );
    fill(
      this.about,
      exchange.purpose && exchange.purpose !== "turn" ? el("span", {}, `${exchange.purpose} · `) : null,
      this.model,
      el("span", { class: "mono" }, `${exchange.method} ${exchange.target}`),
    );
    fill(this.raw, link ? el("a", { href: link }, "request and response") : null);
    this.results.hidden = !bringsResults(exchange);
    fill(this.results, wordsOf(exchange));
  }

  /** @param {boolean} isJson */
  setJson(isJson) {
    if (isJson === this.isJson) return;
    this.isJson = isJson;
    this.body.hidden = isJson;
    this.json?.element.remove();
    this.json = null;
    const { state } = this;
    this.state = null;
    if (state) this.draw(state);
  }

  /** Return the texts that are drawn. */
  texts() {
    return this.items.flatMap((item) => [...item.texts.values()]);
  }

  /** @param {Path} path */
  textAt(path) {
    return path[0] === "items" && typeof path[1] === "number"
      ? this.items[path[1]]?.texts.get(path.slice(2).join("/"))
      : undefined;
  }

  /** @param {ExchangeDocument} state */
  draw(state) {
    const before = this.state;
    if (before === state) return;
    this.state = state;
    if (this.isJson) return this.#drawJson(state);
    if (before?.user_text !== state.user_text) {
      this.user.hidden = typeof state.user_text !== "string";
      this.userText.set(String(state.user_text ?? ""));
    }
    if (before?.status !== state.status) this.#drawStatus(String(state.status ?? ""));
    void this.asked.show();
    if (before?.error !== state.error || before?.fault !== state.fault) this.#drawError(state);
    const model = state.response_model ?? state.request_model;
    setText(this.model, model ? `${model} · ` : "");
    if (before?.items !== state.items || !before) this.#drawItems(state.items ?? []);
    if (before?.anomalies !== state.anomalies) this.#drawAnomalies(state.anomalies ?? []);
    const hasUsage = before?.usage !== state.usage || before?.finish_reason !== state.finish_reason;
    if (hasUsage) setText(this.usage, usageLine(state));
    if (before?.timing !== state.timing) setText(this.timing, timingLine(record(state.timing)));
  }

  /** @param {ExchangeDocument} state */
  #drawJson(state) {
    if (!this.json) {
      this.json = new DrawnText(null);
      this.json.element.classList.add("json");
      this.element.append(this.json.element);
    }
    this.json.set(JSON.stringify(state, null, 2));
  }

  /** @param {string} status */
  #drawStatus(status) {
    setText(this.status, status);
    this.status.hidden = !status;
    this.status.className = `badge ${statusClass(status)}`;
  }

  /** @param {ExchangeDocument} state */
  #drawError(state) {
    const error = state.error ?? state.fault ?? null;
    this.error.hidden = error === null;
    setText(this.error, error === null ? "" : typeof error === "string" ? error : JSON.stringify(error));
  }

  /** @param {ItemDocument[]} items */
  #drawItems(items) {
    while (this.items.length > items.length) this.items.pop()?.element.remove();
    items.forEach((item, index) => {
      let view = this.items[index];
      if (!view) {
        view = new ItemView(index, (digest) => this.options.picture(this.exchange.number, "response", digest));
        this.items.push(view);
        this.list.append(view.element);
      }
      view.draw(item);
    });
  }

  /** @param {NonNullable<ExchangeDocument["anomalies"]>} anomalies */
  #drawAnomalies(anomalies) {
    this.anomalies.hidden = !anomalies.length;
    const entries = anomalies.slice(0, ANOMALIES).map(({ kind, pos, count: times, detail }) => {
      const onclick = () => this.options.seek(this.exchange.number, pos);
      const text = ` ${kind}${times > 1 ? ` × ${times}` : ""}${detail ? `: ${detail}` : ""}`;
      return el(
        "li",
        {},
        el("button", { type: "button", class: "plain mono", onclick }, `event ${pos}`),
        el("span", {}, text),
      );
    });
    fill(this.anomalies, ...entries);
  }
}

/**
 * Return the class of a badge: a running exchange is active, one that failed or was cut is an error.
 * @param {string} status
 */
function statusClass(status) {
  if (status === "completed") return "good";
  if (status === "in_progress" || status === "") return "active";
  return status === "incomplete" || status === "cancelled" ? "warning" : "error";
}

/**
 * @param {unknown} value
 * @returns {Record<string, number>}
 */
function record(value) {
  return value !== null && typeof value === "object" ? /** @type {Record<string, number>} */ (value) : {};
}

/** @param {ExchangeDocument} state */
function usageLine(state) {
  const usage = record(state.usage);
  const part = (/** @type {string} */ key, /** @type {string} */ label) =>
    usage[key] ? `${count(usage[key])} ${label}` : null;
  const tokens = (
    /** @type {string} */ name,
    /** @type {number | undefined} */ total,
    /** @type {(string | null)[]} */ ...parts
  ) => {
    const inner = parts.filter(Boolean).join(", ");
    return total === undefined ? null : `${name} ${count(total)}${inner ? ` (${inner})` : ""}`;
  };
  const read = part("cache_read_input_tokens", "cached");
  const written = part("cache_write_input_tokens", "written to the cache");
  const reasoning = part("reasoning_output_tokens", "reasoning");
  const parts = [
    tokens("in", usage.input_tokens, read, written),
    tokens("out", usage.output_tokens, reasoning),
    state.finish_reason && state.finish_reason !== state.status ? `finish: ${state.finish_reason}` : null,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** @param {Record<string, number>} timing */
function timingLine(timing) {
  const parts = [
    timing.ttft_ns === undefined ? null : `first token ${duration(timing.ttft_ns)}`,
    timing.duration_ns === undefined ? null : duration(timing.duration_ns),
    timing.longest_silence_ns === undefined ? null : `longest silence ${duration(timing.longest_silence_ns)}`,
    timing.events ? plural(timing.events, "event") : null,
    timing.events_per_s === undefined ? null : `${timing.events_per_s.toFixed(1)} events/s`,
    timing.stalls ? plural(timing.stalls, "stall") : null,
  ];
  return parts.filter(Boolean).join(" · ");
}
