// The conversation at the playhead: an exchange a section, an item a block. Only what is visible is built, and only what
// changed is touched: equal parts of two states are the same object.

import { count, duration, el, fill } from "../dom.js";
import { DrawnText, textOffset } from "./text.js";

/** Texts of an item, in the order in which they are read. */
const TEXTS = ["summary", "text", "refusal", "arguments", "output"];
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
/** Distance in px at which a section is built before it is visible. */
const AHEAD = "400px";

/**
 * @typedef {object} ConversationOptions
 * @property {(number: number) => void} wanted a section that is visible now has no state yet
 * @property {(number: number, pos: number) => void} seek an event is chosen by one of its traces
 * @property {(chosen: ChosenText[]) => void} selected texts were selected; none: nothing is
 * @property {(exchange: ExchangeSummary) => (string | null)} rawLink
 */
/** @typedef {{ exchange: number, path: Path, start: number, end: number }} ChosenText */

/** All exchanges of a session as they stood at the playhead. */
export class Conversation {
  /** @param {ConversationOptions} options */
  constructor(options) {
    this.options = options;
    this.element = el("div", {
      class: "conversation scroll",
      tabindex: 0,
      role: "region",
      "aria-label": "Conversation at the playhead",
    });
    this.empty = el(
      "p",
      { class: "empty" },
      "No exchange of this session is recorded yet: the first one appears here.",
    );
    this.element.append(this.empty);
    /** @type {Map<number, Section>} */
    this.sections = new Map();
    this.isJson = false;
    /** False while the user reads another place than the playhead's. */
    this.isFollowing = true;
    this.wrote = new Marker("wrote");
    /** @type {Range | null} the last of what is marked */
    this.last = null;
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const section = this.sections.get(Number(/** @type {HTMLElement} */ (entry.target).dataset.number));
          if (!section) continue;
          section.isVisible = entry.isIntersecting;
          if (section.isVisible) options.wanted(section.exchange.number);
        }
      },
      { root: this.element, rootMargin: AHEAD },
    );
    const away = () => {
      this.isFollowing = false;
    };
    this.element.addEventListener("wheel", away, { passive: true });
    this.element.addEventListener("touchmove", away, { passive: true });
    this.element.addEventListener("keydown", (event) => {
      if (["PageUp", "PageDown", "ArrowUp", "ArrowDown"].includes(event.key)) away();
    });
    this.onselect = () => {
      clearTimeout(this.selecting);
      this.selecting = setTimeout(() => options.selected(this.#selection()), 120);
    };
    document.addEventListener("selectionchange", this.onselect);
  }

  close() {
    this.observer.disconnect();
    clearTimeout(this.selecting);
    document.removeEventListener("selectionchange", this.onselect);
    this.wrote.clear();
  }

  /** @param {ExchangeSummary[]} exchanges in order of time */
  setExchanges(exchanges) {
    this.empty.hidden = exchanges.length > 0;
    for (const exchange of exchanges) {
      const known = this.sections.get(exchange.number);
      if (known) known.setExchange(exchange);
      else {
        const section = new Section(exchange, this.options);
        section.setJson(this.isJson);
        this.sections.set(exchange.number, section);
        this.element.append(section.element);
        this.observer.observe(section.element);
      }
    }
  }

  /** @param {boolean} isJson */
  setJson(isJson) {
    this.isJson = isJson;
    for (const section of this.sections.values()) section.setJson(isJson);
  }

  /**
   * Show the exchanges that have begun, and no other.
   * @param {(number: number) => boolean} hasBegun
   * @param {number} current
   */
  show(hasBegun, current) {
    for (const [number, section] of this.sections) {
      section.setBegun(hasBegun(number));
      section.setCurrent(number === current);
    }
  }

  /** Return the numbers of the exchanges that are to be drawn. */
  visible() {
    return [...this.sections.values()]
      .filter((section) => section.hasBegun && (section.isVisible || section.isCurrent))
      .map((section) => section.exchange.number);
  }

  /**
   * Draw an exchange.
   * @param {number} number
   * @param {ExchangeDocument} state
   */
  draw(number, state) {
    this.sections.get(number)?.draw(state);
  }

  /**
   * Mark what an event wrote.
   * @param {number} number
   * @param {import("./track.js").Written[]} written
   */
  mark(number, written) {
    const section = this.sections.get(number);
    /** @type {Range[]} */
    const ranges = [];
    for (const { path, start, end } of written) {
      const range = section?.textAt(path)?.rangeOf(start, end);
      if (range) ranges.push(range);
    }
    this.wrote.set(ranges);
    this.last = ranges.at(-1) ?? null;
  }

  /**
   * Bring what the playhead's event wrote into view, else its exchange; unless the user reads another place.
   * @param {number} number
   */
  reveal(number) {
    const section = this.sections.get(number);
    if (!this.isFollowing || !section) return;
    const box = this.element.getBoundingClientRect();
    const target = this.last
      ? lastCharacter(this.last).getBoundingClientRect()
      : section.element.getBoundingClientRect();
    if (box.height === 0 || target.height === 0) return;
    if (this.last) {
      if (target.top < box.top + 30) this.element.scrollTop += target.top - box.top - box.height * 0.3;
      else if (target.bottom > box.bottom - 24)
        this.element.scrollTop += target.bottom - box.bottom + Math.min(120, box.height * 0.25);
    } else if (target.bottom > box.bottom || target.top < box.top) {
      const isLong = target.height > box.height;
      this.element.scrollTop +=
        isLong && target.top < box.top
          ? target.bottom - box.bottom
          : isLong
            ? target.top - box.top
            : target.bottom > box.bottom
              ? target.bottom - box.bottom
              : target.top - box.top;
    }
  }

  /** @returns {ChosenText[]} */
  #selection() {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount || !this.element.contains(selection.anchorNode))
      return [];
    const range = selection.getRangeAt(0);
    /** @type {ChosenText[]} */
    const chosen = [];
    for (const section of this.sections.values()) {
      if (!section.hasBegun || !range.intersectsNode(section.element)) continue;
      for (const text of section.texts()) {
        if (!text.drawn || !range.intersectsNode(text.content)) continue;
        const from = textOffset(range.startContainer, range.startOffset);
        const to = textOffset(range.endContainer, range.endOffset);
        const start = from?.text === text ? from.offset : 0;
        const end = to?.text === text ? to.offset : text.drawn.length;
        if (start < end) chosen.push({ exchange: section.exchange.number, path: text.path, start, end });
      }
    }
    return chosen;
  }
}

/**
 * Return the end of a range: the boxes of a long one are many.
 * @param {Range} range
 */
function lastCharacter(range) {
  const last = range.cloneRange();
  last.setStart(range.endContainer, Math.max(0, range.endOffset - 1));
  return last;
}

/** Marked ranges: a highlight of the browser, else a class on the blocks of the text. */
class Marker {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    /** @type {Element[]} */
    this.blocks = [];
    this.highlight = typeof Highlight === "function" && CSS.highlights ? new Highlight() : null;
    if (this.highlight) CSS.highlights.set(name, this.highlight);
  }

  /** @param {Range[]} ranges */
  set(ranges) {
    this.clear();
    if (this.highlight) {
      for (const range of ranges) this.highlight.add(range.cloneRange());
      return;
    }
    this.blocks = ranges.flatMap((range) => range.endContainer.parentElement ?? []);
    for (const block of this.blocks) block.classList.add(this.name);
  }

  clear() {
    this.highlight?.clear();
    for (const block of this.blocks) block.classList.remove(this.name);
    this.blocks = [];
  }
}

/** One exchange of the conversation. */
class Section {
  /**
   * @param {ExchangeSummary} exchange
   * @param {ConversationOptions} options
   */
  constructor(exchange, options) {
    this.exchange = exchange;
    this.options = options;
    this.isVisible = false;
    this.isCurrent = false;
    this.hasBegun = true;
    /** @type {ExchangeDocument | null} */
    this.state = null;
    /** @type {ItemView[]} */
    this.items = [];
    this.isJson = false;
    this.title = el("h2", {});
    this.about = el("span", { class: "quiet cut about" });
    this.status = el("span", { class: "badge" });
    this.error = el("p", { class: "error" });
    this.userText = el("span", { dir: "auto" });
    this.user = el(
      "p",
      { class: "user-text", hidden: true },
      el("span", { class: "field-name" }, "user"),
      this.userText,
    );
    this.list = el("div", { class: "items" });
    this.anomalies = el("ul", { class: "anomalies" });
    this.usage = el("p", { class: "tally" });
    this.timing = el("p", { class: "tally" });
    /** @type {DrawnText | null} */
    this.json = null;
    this.error.hidden = true;
    this.status.hidden = true;
    this.anomalies.hidden = true;
    this.head = el("header", { class: "section-head" }, this.title, this.about, this.status);
    this.body = el(
      "div",
      { class: "section-body" },
      this.user,
      this.error,
      this.list,
      this.anomalies,
      this.usage,
      this.timing,
    );
    this.element = el(
      "section",
      { class: "exchange", "data-number": exchange.number, "aria-label": `Exchange ${exchange.number}` },
      this.head,
      this.body,
    );
    this.setExchange(exchange);
  }

  /** @param {ExchangeSummary} exchange */
  setExchange(exchange) {
    this.exchange = exchange;
    const link = this.options.rawLink(exchange);
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
      el("span", { class: "mono" }, `${exchange.method} ${exchange.target}`),
      exchange.purpose && exchange.purpose !== "turn" ? el("span", {}, ` · ${exchange.purpose}`) : null,
      el("span", { class: "model" }),
      link ? el("span", {}, " · ", el("a", { href: link }, "raw")) : null,
    );
  }

  /** @param {boolean} hasBegun */
  setBegun(hasBegun) {
    if (hasBegun === this.hasBegun) return;
    this.hasBegun = hasBegun;
    this.element.hidden = !hasBegun;
  }

  /** @param {boolean} isCurrent */
  setCurrent(isCurrent) {
    if (isCurrent === this.isCurrent) return;
    this.isCurrent = isCurrent;
    this.element.classList.toggle("is-current", isCurrent);
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
      setText(this.userText, String(state.user_text ?? ""));
    }
    if (before?.status !== state.status) this.#drawStatus(String(state.status ?? ""));
    if (before?.error !== state.error || before?.fault !== state.fault) this.#drawError(state);
    if (before?.request_model !== state.request_model || before?.response_model !== state.response_model)
      this.#drawModel(state);
    if (before?.items !== state.items || !before) this.#drawItems(state.items ?? []);
    if (before?.anomalies !== state.anomalies) this.#drawAnomalies(state.anomalies ?? []);
    if (before?.usage !== state.usage || before?.finish_reason !== state.finish_reason)
      setText(this.usage, usageLine(state));
    if (before?.timing !== state.timing) setText(this.timing, timingLine(record(state.timing)));
  }

  /** @param {ExchangeDocument} state */
  #drawJson(state) {
    if (!this.json) {
      this.json = new DrawnText(["json"]);
      this.json.content.removeAttribute("data-path");
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

  /** @param {ExchangeDocument} state */
  #drawModel(state) {
    const model = state.response_model ?? state.request_model;
    setText(/** @type {HTMLElement} */ (this.about.querySelector(".model")), model ? ` · ${model}` : "");
  }

  /** @param {ItemDocument[]} items */
  #drawItems(items) {
    while (this.items.length > items.length) this.items.pop()?.element.remove();
    items.forEach((item, index) => {
      let view = this.items[index];
      if (!view) {
        view = new ItemView(index);
        this.items.push(view);
        this.list.append(view.element);
      }
      view.draw(item);
    });
  }

  /** @param {NonNullable<ExchangeDocument["anomalies"]>} anomalies */
  #drawAnomalies(anomalies) {
    this.anomalies.hidden = !anomalies.length;
    const entries = anomalies
      .slice(0, 50)
      .map(({ kind, pos, count: times, detail }) =>
        el(
          "li",
          {},
          el(
            "button",
            { type: "button", class: "plain mono", onclick: () => this.options.seek(this.exchange.number, pos) },
            `event ${pos}`,
          ),
          el("span", {}, ` ${kind}${times > 1 ? ` × ${times}` : ""}${detail ? `: ${detail}` : ""}`),
        ),
      );
    fill(this.anomalies, ...entries);
  }
}

/** One item: its head and its texts. */
class ItemView {
  /** @param {number} index */
  constructor(index) {
    this.index = index;
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
    this.element = el(
      "article",
      { class: "item", "data-item": index },
      el("div", { class: "item-head" }, this.label, this.name, this.facts),
      this.body,
      this.rest,
    );
  }

  /** @param {ItemDocument} item */
  draw(item) {
    const before = this.item;
    if (before === item) return;
    this.item = item;
    if (
      !before ||
      Object.keys(item).some((key) => !TEXTS.includes(key) && item[key] !== before[key]) ||
      Object.keys(before).some((key) => !(key in item))
    )
      this.#drawHead(item);
    for (const name of TEXTS)
      if (item[name] !== before?.[name] || (item[name] === undefined && this.fields.has(name)))
        this.#drawField(name, item[name]);
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
      item.failed ? "failed" : null,
      item.encrypted ? "encrypted" : null,
      typeof item.latency_ns === "number" ? `answered after ${duration(item.latency_ns)}` : null,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    this.element.classList.toggle("is-open", item.status === "in_progress");
    this.label.title = [item.item_id, item.call_id].filter(Boolean).join("\n");
    const rest = Object.entries(item).filter(
      ([key, value]) => !IN_HEAD.has(key) && !(Array.isArray(value) && !value.length),
    );
    const lists = rest.map(([key, value]) => {
      const title = Array.isArray(value) ? `${value.length} ${key}` : key;
      return el(
        "details",
        {},
        el("summary", { class: "quiet" }, title),
        el("pre", { class: "code" }, (JSON.stringify(value, null, 2) ?? "").slice(0, 50_000)),
      );
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
      text = new DrawnText(["items", this.index, ...path]);
      if (typeof value !== "string") text.content.removeAttribute("data-path");
      this.texts.set(key, text);
      field.append(text.element);
    }
    text.set(typeof value === "string" ? value : JSON.stringify(value));
  }
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
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
  const inner = (/** @type {(string | null)[]} */ parts) =>
    parts.some(Boolean) ? ` (${parts.filter(Boolean).join(", ")})` : "";
  const tokens = [
    usage.input_tokens === undefined
      ? null
      : `in ${count(usage.input_tokens)}${inner([part("cache_read_input_tokens", "cached"), part("cache_write_input_tokens", "written to the cache")])}`,
    usage.output_tokens === undefined
      ? null
      : `out ${count(usage.output_tokens)}${inner([part("reasoning_output_tokens", "reasoning")])}`,
    state.finish_reason && state.finish_reason !== state.status ? `finish: ${state.finish_reason}` : null,
  ];
  return tokens.filter(Boolean).join(" · ");
}

/** @param {Record<string, number>} timing */
function timingLine(timing) {
  const parts = [
    timing.ttft_ns === undefined ? null : `first token ${duration(timing.ttft_ns)}`,
    timing.duration_ns === undefined ? null : duration(timing.duration_ns),
    timing.longest_silence_ns === undefined ? null : `longest silence ${duration(timing.longest_silence_ns)}`,
    timing.events ? `${count(timing.events)} events` : null,
    timing.events_per_s === undefined ? null : `${timing.events_per_s.toFixed(1)} events/s`,
    timing.stalls ? `${count(timing.stalls)} stalls` : null,
  ];
  return parts.filter(Boolean).join(" · ");
}
