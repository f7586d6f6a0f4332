// The lanes of a session: their names, their picture, and the slider that the playhead is for those who cannot see it.

import { el, fill } from "../dom.js";
import { clockTime } from "../format.js";
import { HEATS } from "./heat.js";
import { LanesPicture } from "./lanes_picture.js";
import { LanesPointer } from "./lanes_pointer.js";
import { LanesView, ROW, RULER } from "./lanes_view.js";

/**
 * @typedef {object} LanesOptions
 * @property {import("./timeline.js").SessionTimeline} timeline
 * @property {(t: number) => void} drag the playhead is dragged to a time
 * @property {(index: number) => void} choose an event is chosen
 * @property {() => void} invalidate a frame is wanted
 */

/** The lanes. Their owner calls `draw` in each frame in which something moved. */
export class Lanes {
  /** @param {LanesOptions} options */
  constructor(options) {
    this.options = options;
    this.timeline = options.timeline;
    /** @type {ExchangeSummary[]} */
    this.exchanges = [];
    this.view = new LanesView(options.timeline, () => this.redraw());
    this.picture = new LanesPicture(this.view);
    this.labels = el("div", { class: "lanes-labels", "aria-hidden": "true" });
    this.plot = el("div", {
      class: "lanes-plot",
      role: "slider",
      tabindex: 0,
      "aria-label": "Playhead",
      "aria-orientation": "horizontal",
      "aria-valuemin": 0,
    });
    this.plot.append(this.picture.element);
    this.element = el("div", { class: "lanes", role: "presentation" }, this.labels, this.plot);
    this.pointer = new LanesPointer({
      view: this.view,
      scroller: this.element,
      plot: this.plot,
      picture: this.picture.element,
      drag: options.drag,
      choose: options.choose,
      hovered: options.invalidate,
    });
    this.element.append(this.pointer.tip);
    this.legend = el(
      "div",
      { class: "lanes-legend quiet" },
      el("span", {}, "silence before an event"),
      ...HEATS.map((label, index) => el("span", { class: `heat heat-${index + 1}` }, label)),
    );
    this.redraw = () => {
      this.picture.spoil();
      options.invalidate();
    };
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", this.redraw);
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.element);
    this.element.addEventListener("scroll", () => {
      this.view.scrolled = this.element.scrollTop;
      this.redraw();
    });
    this.#arrange();
  }

  close() {
    this.observer.disconnect();
    this.dark.removeEventListener("change", this.redraw);
  }

  get axis() {
    return this.view.axis;
  }

  /** Take the events that are new. */
  setTimeline() {
    this.view.update();
    this.#arrange();
  }

  #arrange() {
    const { length } = this.timeline;
    this.#drawLabels();
    const height = RULER + ROW * this.view.packing.lanes.length;
    this.labels.style.setProperty("height", `${height}px`);
    this.plot.style.setProperty("height", `${height}px`);
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, length - 1)));
    this.#resize();
  }

  /**
   * Name the exchanges, and the groups of lanes after them.
   * @param {ExchangeSummary[]} exchanges
   */
  setExchanges(exchanges) {
    const { names } = this.view;
    for (const { number, agent, method, target, model } of exchanges) {
      names.set(number, [number, agent, method, target, model].filter(Boolean).join(" "));
    }
    this.exchanges = exchanges;
    this.#drawLabels();
    this.redraw();
  }

  #drawLabels() {
    const { packing, names } = this.view;
    const labels = packing.lanes.map(({ kind, group, label }, lane) => {
      const first = packing.isFirstOfGroup(lane) ? " lane-first" : "";
      const isNamed = kind === "connection";
      const own = isNamed ? this.#exchangesOf(group) : [];
      const shown = isNamed ? groupName(own) : label;
      const title = own.length ? own.map(({ number }) => names.get(number)).join("\n") : label;
      return el("div", { class: `lane-label lane-${kind}${first}`, title }, el("bdi", {}, shown));
    });
    fill(this.labels, ...labels);
  }

  /** @param {number} group */
  #exchangesOf(group) {
    const { exchanges, rows } = this.timeline;
    const numbers = new Set(exchanges.filter(({ row }) => rows[row[0]]?.group === group).map(({ number }) => number));
    return this.exchanges.filter(({ number }) => numbers.has(number));
  }

  /** @param {import("./findings.js").PlacedMark[]} marks */
  setMarks(marks) {
    this.view.marks = marks;
    this.redraw();
  }

  /**
   * Bring the playhead into view.
   * @param {number} t
   * @param {number} index its event
   */
  reveal(t, index) {
    this.view.reveal(t);
    if (this.pointer.isDragging || !this.timeline.length) return;
    const { scrollTop, clientHeight } = this.element;
    const top = this.view.rowOf(index) * ROW;
    const bottom = top + ROW + RULER;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight;
  }

  #resize() {
    const { clientHeight } = this.element;
    this.picture.resize(this.plot.clientWidth, Math.min(clientHeight, RULER + ROW * this.view.packing.lanes.length));
    this.redraw();
  }

  /**
   * Draw what has changed.
   * @param {number} t time of the playhead
   * @param {number} index its event
   */
  draw(t, index) {
    this.picture.draw(t, index, this.pointer.index);
  }

  /**
   * Say in words where the playhead is.
   * @param {number} index
   */
  describe(index) {
    const { timeline } = this;
    const { number, t } = timeline.exchanges[timeline.slot[index]];
    const place = `event ${timeline.pos[index]} of ${t.length - 1}, ${timeline.typeOf(index)}`;
    const text = `exchange ${number}, ${place}, at ${clockTime(timeline.time[index])}`;
    this.plot.setAttribute("aria-valuenow", String(index));
    this.plot.setAttribute("aria-valuetext", text);
  }
}

/**
 * Name a group of exchanges after its only one, its sub-agent, or its first and its last.
 * @param {ExchangeSummary[]} exchanges
 */
function groupName(exchanges) {
  const [first] = exchanges;
  if (!first) return "connection";
  const agents = new Set(exchanges.map(({ agent }) => agent));
  if (first.agent && agents.size === 1) return first.agent;
  if (exchanges.length === 1) return `${first.number} ${first.model ?? first.method}`;
  return `${first.number} – ${exchanges[exchanges.length - 1].number}`;
}
