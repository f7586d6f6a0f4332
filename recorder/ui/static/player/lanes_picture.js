// The picture of the lanes: a lane a row, a tick an event. Two canvases: one with all that only changes with the view,
// one above it with the playhead, what is chosen and what the pointer is at.

import { el } from "../dom.js";
import { clockTime, duration, niceStep } from "../format.js";
import { HEATS, heatOf } from "./heat.js";
import { ROW, RULER } from "./lanes_view.js";

/** Characters of a tool's name before the time that it took. */
const NAME_CHARS = 24;
/** Least distance of two labels of the ruler, in px. */
const LABEL_PX = 84;
const COLOURS = ["ground", "raised", "line", "text", "quiet", "accent", "warning", "error"];

/** @typedef {{ label: string, x: number, lane: number }} Label */

/** The picture of a view. */
export class LanesPicture {
  /** @param {import("./lanes_view.js").LanesView} view */
  constructor(view) {
    this.view = view;
    this.timeline = view.timeline;
    /** @type {number[]} indices of the events that wrote the chosen text */
    this.writers = [];
    this.ratio = 1;
    /** @type {Record<string, string>} by name; `block:` and a kind; `heat:` and a number */
    this.colours = {};
    this.isStale = true;
    this.base = /** @type {HTMLCanvasElement} */ (el("canvas", { "aria-hidden": "true" }));
    this.overlay = /** @type {HTMLCanvasElement} */ (el("canvas", { "aria-hidden": "true" }));
    this.element = el("div", { class: "lanes-view" }, this.base, this.overlay);
  }

  /**
   * Take the size of the view.
   * @param {number} width
   * @param {number} height
   */
  resize(width, height) {
    const { view } = this;
    const ratio = window.devicePixelRatio || 1;
    if (!width || !height || (width === view.width && height === view.height && ratio === this.ratio)) return;
    view.width = width;
    view.height = height;
    this.ratio = ratio;
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.setProperty("width", `${width}px`);
      canvas.style.setProperty("height", `${height}px`);
    }
    this.element.style.setProperty("height", `${height}px`);
  }

  /** Note that all of it is to be drawn anew, maybe in other colours. */
  spoil() {
    this.isStale = true;
  }

  /**
   * Draw what has changed.
   * @param {number} t time of the playhead
   * @param {number} index its event
   * @param {number} hovered the event that the pointer is at; -1 if there is none
   */
  draw(t, index, hovered) {
    if (!this.view.width) return;
    if (this.isStale) {
      this.isStale = false;
      this.#readColours();
      this.#drawBase();
    }
    this.#drawOverlay(t, index, hovered);
  }

  #readColours() {
    const style = getComputedStyle(this.element);
    const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    /** @type {Record<string, string>} */
    const colours = { font: `11px ${style.fontFamily}` };
    for (const name of COLOURS) colours[name] = read(name);
    for (const block of this.timeline.blocks) colours[`block:${block.kind}`] ||= read(block.kind) || colours.quiet;
    HEATS.forEach((_, index) => (colours[`heat:${index + 1}`] = read(`heat-${index + 1}`)));
    this.colours = colours;
  }

  /** @param {HTMLCanvasElement} canvas */
  #context(canvas) {
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.view.width, this.view.height);
    return context;
  }

  #drawBase() {
    const { view } = this;
    const context = this.#context(this.base);
    const scrolled = view.scrolled;
    context.save();
    context.beginPath();
    context.rect(0, RULER, view.width, view.height - RULER);
    context.clip();
    context.translate(0, RULER - scrolled);
    this.#drawRows(context);
    this.#drawGaps(context);
    this.#drawBlocks(context);
    this.#drawNames(context);
    this.#drawTicks(context);
    this.#drawMarks(context);
    context.restore();
    this.#drawRuler(context);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawRows(context) {
    const { colours, view } = this;
    context.fillStyle = colours.line;
    view.packing.lanes.forEach((_, index) => {
      context.globalAlpha = view.packing.isFirstOfGroup(index) ? 1 : 0.45;
      context.fillRect(0, index * ROW, view.width, 1);
    });
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawGaps(context) {
    const { colours, view } = this;
    context.fillStyle = colours.raised;
    for (const gap of view.axis.gaps) {
      const x = view.x(gap.from);
      const width = view.x(gap.to) - x;
      if (x < view.width && x + width > 0) context.fillRect(x, 0, width, ROW * view.packing.lanes.length);
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawBlocks(context) {
    const { colours, timeline, view } = this;
    context.font = colours.font;
    context.textBaseline = "middle";
    /** @type {Label[]} */
    const labels = [];
    for (const block of timeline.blocks) {
      const x = view.x(timeline.startOf(block));
      const width = Math.max(1.5, view.x(timeline.endOf(block)) - x);
      if (x > view.width || x + width < 0) continue;
      const lane = view.packing.ofBlocks.get(block) ?? 0;
      const y = lane * ROW + 3;
      context.fillStyle = colours[`block:${block.kind}`];
      context.globalAlpha = timeline.isItem(block) ? 0.24 : 0.13;
      context.beginPath();
      context.roundRect(x, y, width, ROW - 5, Math.min(3, width / 2));
      context.fill();
      context.globalAlpha = 0.9;
      if (timeline.isItem(block)) context.fillRect(x, y, Math.min(2, width), ROW - 5);
      context.globalAlpha = 1;
      // The lane of the connection has the names of the exchanges in place of those of its blocks.
      if (timeline.rows[block.row]?.kind !== "connection") labels.push({ label: labelOf(block), x, lane });
    }
    this.#drawLabels(context, labels);
  }

  /**
   * Write the name of each exchange above its connection.
   * @param {CanvasRenderingContext2D} context
   */
  #drawNames(context) {
    const { timeline, view } = this;
    /** @type {Label[]} */
    const labels = [];
    for (const [slot, { number, offset_ns, row }] of timeline.exchanges.entries()) {
      const lane = row.length ? view.packing.ofRows[slot].get(row[0]) : undefined;
      if (lane !== undefined) labels.push({ label: view.names.get(number) ?? `${number}`, x: view.x(offset_ns), lane });
    }
    this.#drawLabels(context, labels);
  }

  /**
   * Write labels, each as far as the next one of its lane.
   * @param {CanvasRenderingContext2D} context
   * @param {Label[]} labels
   */
  #drawLabels(context, labels) {
    /** @type {Map<number, number>} where the label on the right begins, by lane */
    const ends = new Map();
    for (const { label, x, lane } of labels.sort((a, b) => b.x - a.x)) {
      this.#drawLabel(context, label, x, (ends.get(lane) ?? this.view.width) - x, lane * ROW + 3);
      ends.set(lane, x);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {string} label
   * @param {number} x
   * @param {number} width
   * @param {number} y
   */
  #drawLabel(context, label, x, width, y) {
    const { colours, view } = this;
    const left = Math.max(x, 0);
    const room = Math.min(x + width, view.width) - left;
    if (room < 14 || !label) return;
    // A label is recorded text: never draw more of it than can be visible.
    let shown = label.slice(0, 100);
    while (shown.length > 2 && context.measureText(shown).width > room - 11) {
      shown = `${shown.slice(0, Math.floor(shown.length * 0.8) - 1)}…`;
    }
    if (shown.length < Math.min(room < 30 ? 2 : 5, label.length)) return;
    context.fillStyle = colours.text;
    context.fillText(shown, left + 7, y + 6);
  }

  /**
   * Draw a tick for each event that is visible; of several in one pixel the one behind the longest silence.
   * @param {CanvasRenderingContext2D} context
   */
  #drawTicks(context) {
    const { timeline, view } = this;
    const width = Math.ceil(view.width);
    /** The colour of each pixel of each lane; 0 is none. */
    const heats = new Int8Array(width * view.packing.lanes.length);
    const last = Math.min(timeline.length - 1, timeline.at(view.timeAt(view.width)));
    for (let index = timeline.at(view.timeAt(0)); index <= last; index++) {
      const x = Math.min(width - 1, Math.round(view.x(timeline.time[index])));
      if (x < 0) continue;
      const cell = view.rowOf(index) * width + x;
      heats[cell] = Math.max(heats[cell], heatOf(timeline.silenceBefore(index)));
    }
    for (let heat = 1; heat <= HEATS.length; heat++) {
      context.fillStyle = this.colours[`heat:${heat}`];
      const height = heat === 1 ? 7 : 9;
      for (let cell = heats.indexOf(heat); cell >= 0; cell = heats.indexOf(heat, cell + 1)) {
        const row = Math.floor(cell / width);
        context.fillRect(cell - row * width, row * ROW + ROW - 2 - height, heat > 2 ? 1.5 : 1, height);
      }
    }
  }

  /**
   * Draw findings as triangles and anomalies as diamonds, above their tick.
   * @param {CanvasRenderingContext2D} context
   */
  #drawMarks(context) {
    const { colours, timeline, view } = this;
    for (const placed of view.marks) {
      const x = view.x(timeline.time[placed.index]);
      if (x < -8 || x > view.width + 8) continue;
      const y = view.rowOf(placed.index) * ROW + 2;
      context.fillStyle = placed.mark.severity === "error" ? colours.error : colours.warning;
      context.strokeStyle = colours.ground;
      context.lineWidth = 1.5;
      context.beginPath();
      if (placed.mark.kind === "lint") {
        context.moveTo(x - 5, y);
        context.lineTo(x + 5, y);
        context.lineTo(x, y + 8);
      } else {
        context.moveTo(x, y - 1);
        context.lineTo(x + 4.5, y + 4);
        context.lineTo(x, y + 9);
        context.lineTo(x - 4.5, y + 4);
      }
      context.closePath();
      context.stroke();
      context.fill();
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawRuler(context) {
    const { colours, view } = this;
    context.font = colours.font;
    context.textBaseline = "middle";
    context.fillStyle = colours.quiet;
    const step = niceStep((LABEL_PX / view.width) * (view.to - view.from));
    let taken = -Infinity;
    const put = (/** @type {number} */ x, /** @type {string} */ label) => {
      if (x < taken || x < -1 || x > view.width - 20) return;
      context.fillStyle = colours.line;
      context.fillRect(Math.round(x), RULER - 6, 1, 6);
      context.fillStyle = colours.quiet;
      context.fillText(label, x + 4, RULER / 2 - 1);
      taken = x + context.measureText(label).width + 14;
    };
    const end = view.axis.timeOf(view.to);
    let at = Math.ceil(view.axis.timeOf(view.from) / step) * step;
    for (const gap of [...view.axis.gaps, { from: Infinity, to: Infinity }]) {
      for (; at < gap.from && at <= end; at += step) put(view.x(at), clockTime(at, step));
      if (at > end) break;
      if (gap.to < at) continue;
      put(view.x(gap.from) + 1, `⋯ ${duration(gap.to - gap.from)}`);
      at = Math.ceil(gap.to / step) * step;
    }
    context.fillStyle = colours.line;
    context.fillRect(0, RULER - 1, view.width, 1);
    if (view.isAll) return;
    // Where the view is in all of the time.
    const { length } = view.axis;
    context.fillRect(0, 0, view.width, 2);
    context.fillStyle = colours.quiet;
    context.fillRect(
      (view.from / length) * view.width,
      0,
      Math.max(6, ((view.to - view.from) / length) * view.width),
      2,
    );
  }

  /**
   * @param {number} t
   * @param {number} index
   * @param {number} hovered
   */
  #drawOverlay(t, index, hovered) {
    const { colours, timeline, view } = this;
    const context = this.#context(this.overlay);
    const scrolled = view.scrolled;
    const x = view.x(t);
    context.globalAlpha = 0.55;
    context.fillStyle = colours.ground;
    if (x < view.width) context.fillRect(Math.max(0, x), RULER, view.width - Math.max(0, x), view.height - RULER);
    context.globalAlpha = 1;
    const tick = (/** @type {number} */ each, /** @type {string} */ colour, /** @type {number} */ width) => {
      const y = RULER - scrolled + view.rowOf(each) * ROW;
      if (y < RULER - ROW / 2) return;
      context.fillStyle = colour;
      context.fillRect(view.x(timeline.time[each]) - width / 2, y + 2, width, ROW - 3);
    };
    let drawnAt = -10;
    for (const writer of this.writers) {
      const at = view.x(timeline.time[writer]);
      if (at < 0 || at > view.width || at - drawnAt < 0.5) continue;
      drawnAt = at;
      tick(writer, colours.accent, 2);
    }
    if (timeline.length) tick(index, colours.accent, 3);
    if (hovered >= 0 && hovered < timeline.length) tick(hovered, colours.text, 2);
    if (x < -6 || x > view.width + 6) return;
    context.fillStyle = colours.accent;
    context.fillRect(x - 0.75, RULER - 8, 1.5, view.height);
    context.beginPath();
    context.moveTo(x - 6, RULER - 12);
    context.lineTo(x + 6, RULER - 12);
    context.lineTo(x + 6, RULER - 7);
    context.lineTo(x, RULER);
    context.lineTo(x - 6, RULER - 7);
    context.closePath();
    context.fill();
  }
}

/**
 * Return what is written on a block: of the client's own time also how long it is, since silences may be drawn short.
 * @param {Block} block
 */
function labelOf({ kind, label, from_ns, to_ns }) {
  return kind === "client" && to_ns !== null ? `${label.slice(0, NAME_CHARS)} ${duration(to_ns - from_ns)}` : label;
}
