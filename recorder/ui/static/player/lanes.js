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
    this.setTimeline();
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
    const { rows, length } = this.timeline;
    this.view.update();
    const labels = rows.map(({ kind, label }, index) => {
      const first = this.timeline.isFirstOfGroup(index) ? " lane-first" : "";
      return el("div", { class: `lane-label lane-${kind}${first}`, title: label }, label);
    });
    fill(this.labels, ...labels);
    const height = RULER + ROW * rows.length;
    this.labels.style.setProperty("height", `${height}px`);
    this.plot.style.setProperty("height", `${height}px`);
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, length - 1)));
    this.#resize();
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
    this.picture.resize(this.plot.clientWidth, Math.min(clientHeight, RULER + ROW * this.timeline.rows.length));
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
