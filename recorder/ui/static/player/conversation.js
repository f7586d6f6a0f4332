// The conversation at the playhead: an exchange a section, an item a block. Only what is visible is built, and only
// what changed is touched: equal parts of two states are the same object.

import { el } from "../dom.js";
import { Marker } from "./marker.js";
import { Section } from "./section.js";
import { textOffset } from "./text.js";

/** Distance in px at which a section is built before it is visible. */
const AHEAD = "400px";

/**
 * @typedef {object} ConversationOptions
 * @property {(number: number) => void} wanted a section that is visible now has no state yet
 * @property {(number: number, pos: number) => void} seek an event is chosen by one of its traces
 * @property {(chosen: ChosenText[]) => void} selected texts were selected; none: nothing is
 * @property {(number: number, isBrief: boolean) => Promise<Asked>} asked
 * @property {import("./section.js").LoadOfExchange} picture
 * @property {(number: number) => (string | null)} rawLink
 * @property {(before: number, number: number) => (string | null)} diffLink
 */
/** @typedef {{ exchange: number, path: Path, start: number, end: number }} ChosenText */
/**
 * @typedef {object} Place of an exchange, empty until it is near
 * @property {ExchangeSummary} exchange
 * @property {HTMLElement} element
 * @property {boolean} isVisible
 */

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
    /** @type {Map<number, Place>} in order of time */
    this.places = new Map();
    /** @type {Map<number, Section>} those that are built: a session may have a thousand exchanges */
    this.sections = new Map();
    this.isJson = false;
    this.current = -1;
    this.shownTop = -1;
    /** False while the user reads another place than the playhead's. */
    this.isFollowing = true;
    /** @type {number | null} the exchange that is shown from its beginning, whatever its last event wrote */
    this.top = null;
    this.wrote = new Marker("wrote");
    /** @type {Range | null} the last of what is marked */
    this.last = null;
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const number = Number(/** @type {HTMLElement} */ (entry.target).dataset.number);
          const place = this.places.get(number);
          if (!place) continue;
          place.isVisible = entry.isIntersecting;
          if (!place.isVisible) continue;
          this.#build(number, place);
          options.wanted(number);
        }
      },
      { root: this.element, rootMargin: AHEAD },
    );
    const away = () => {
      this.isFollowing = false;
    };
    // A press may drag the scrollbar, and the Tab key leads to another exchange.
    for (const kind of ["wheel", "touchmove", "pointerdown", "focusin"]) {
      this.element.addEventListener(kind, away, { passive: true });
    }
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
      const { number } = exchange;
      const known = this.places.get(number);
      if (known) {
        known.exchange = exchange;
        this.sections.get(number)?.setExchange(exchange);
      } else {
        const element = el("section", { class: "exchange", "data-number": number, "aria-label": `Exchange ${number}` });
        this.places.set(number, { exchange, element, isVisible: false });
        this.element.append(element);
        this.observer.observe(element);
      }
    }
  }

  /**
   * @param {number} number
   * @param {Place} place
   */
  #build(number, place) {
    const known = this.sections.get(number);
    if (known) return known;
    const section = new Section(place.exchange, this.options, place.element);
    section.setJson(this.isJson);
    this.sections.set(number, section);
    return section;
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
    for (const [number, { element }] of this.places) {
      const isHidden = !hasBegun(number);
      if (element.hidden !== isHidden) element.hidden = isHidden;
    }
    this.current = this.#moveClass("is-current", this.current, current);
    this.shownTop = this.#moveClass("is-top", this.shownTop, current === this.top ? current : -1);
  }

  /**
   * Give a class to the place of one exchange in place of that of another, and return its number.
   * @param {string} name
   * @param {number} before
   * @param {number} number
   */
  #moveClass(name, before, number) {
    if (number !== before) this.places.get(before)?.element.classList.remove(name);
    if (number !== before) this.places.get(number)?.element.classList.add(name);
    return number;
  }

  /** Return the numbers of the exchanges that are to be drawn. */
  visible() {
    const isDrawn = (/** @type {[number, Place]} */ [number, place]) =>
      !place.element.hidden && (place.isVisible || number === this.current);
    return [...this.places].filter(isDrawn).map(([number]) => number);
  }

  /**
   * Draw an exchange.
   * @param {number} number
   * @param {ExchangeDocument} state
   */
  draw(number, state) {
    const place = this.places.get(number);
    if (place) this.#build(number, place).draw(state);
  }

  /**
   * Mark what an event wrote.
   * @param {number} number
   * @param {import("./segment.js").Written[]} written
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
    const element = this.places.get(number)?.element;
    if (!this.isFollowing || !element) return;
    const box = this.element.getBoundingClientRect();
    const target = this.last ? lastCharacter(this.last).getBoundingClientRect() : element.getBoundingClientRect();
    if (box.height === 0 || target.height === 0) return;
    if (this.top === number) {
      this.element.scrollTop += element.getBoundingClientRect().top - box.top;
      return;
    }
    if (this.last) {
      if (target.top < box.top + 30) this.element.scrollTop += target.top - box.top - box.height * 0.3;
      else if (target.bottom > box.bottom - 24) {
        this.element.scrollTop += target.bottom - box.bottom + Math.min(120, box.height * 0.25);
      }
    } else if (target.bottom > box.bottom || target.top < box.top) {
      // The end of what is long and above, or short and below; else the beginning.
      const toEnd = target.height > box.height === target.top < box.top;
      this.element.scrollTop += toEnd ? target.bottom - box.bottom : target.top - box.top;
    }
  }

  /** @returns {ChosenText[]} */
  #selection() {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount || !this.element.contains(selection.anchorNode)) {
      return [];
    }
    const range = selection.getRangeAt(0);
    /** @type {ChosenText[]} */
    const chosen = [];
    for (const [number, { element }] of this.places) {
      const section = this.sections.get(number);
      if (!section || element.hidden || !range.intersectsNode(element)) continue;
      for (const text of section.texts()) {
        if (!text.drawn || text.path === null || !range.intersectsNode(text.content)) continue;
        const from = textOffset(range.startContainer, range.startOffset);
        const to = textOffset(range.endContainer, range.endOffset);
        const start = from?.text === text ? from.offset : 0;
        const end = to?.text === text ? to.offset : text.drawn.length;
        if (start < end) chosen.push({ exchange: number, path: text.path, start, end });
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
