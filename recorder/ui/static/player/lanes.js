// The picture of a session's events: a lane a row, a tick an event, on one time axis. Two canvases: one with all that
// only changes with the view, one above it with the playhead, what is chosen and what the pointer is at.

import { duration, el, fill } from "../dom.js";
import { Axis } from "./timeline.js";

const ROW = 24;
/** Free space at both ends, so that the first and the last tick can be seen and hit. */
const PAD = 8;
const RULER = 22;
/** Upper bounds of the silence before a tick, for its colour, in ns. */
const HEAT_NS = [50e6, 250e6, 1e9, 5e9];
const HEAT_LABELS = ["under 50 ms", "to 250 ms", "to 1 s", "to 5 s", "over 5 s"];
/** The shortest time that fills the picture: ticks of one read are microseconds apart. */
const NARROWEST_NS = 1e5;
const LABEL_PX = 84;
const STEPS = [1, 2, 5];

/**
 * @typedef {object} LanesOptions
 * @property {import("./timeline.js").SessionTimeline} timeline
 * @property {(t: number) => void} drag the playhead is dragged to a time
 * @property {(index: number) => void} choose an event is chosen
 */

/** The lanes. Its owner calls `draw` in each frame in which something moved. */
export class Lanes {
  /** @param {LanesOptions} options */
  constructor(options) {
    this.options = options;
    this.timeline = options.timeline;
    this.isShortened = true;
    this.axis = new Axis(this.timeline, true);
    /** Left and right end of what is visible, in places of the axis. */
    this.from = 0;
    this.to = this.axis.length;
    /** @type {import("./timeline.js").PlacedMark[]} */
    this.marks = [];
    /** @type {number[]} indices of the events that wrote the chosen text */
    this.writers = [];
    this.hovered = -1;
    this.isDragging = false;
    this.width = 0;
    this.height = 0;
    this.ratio = 1;
    /** @type {Record<string, string> | null} */
    this.colours = null;
    this.isStale = true;
    this.base = /** @type {HTMLCanvasElement} */ (el("canvas", { "aria-hidden": "true" }));
    this.overlay = /** @type {HTMLCanvasElement} */ (el("canvas", { "aria-hidden": "true" }));
    this.tip = el("div", { class: "lanes-tip", hidden: true });
    this.labels = el("div", { class: "lanes-labels", "aria-hidden": "true" });
    this.plot = el("div", {
      class: "lanes-plot",
      role: "slider",
      tabindex: 0,
      "aria-label": "Playhead",
      "aria-orientation": "horizontal",
      "aria-valuemin": 0,
    });
    this.view = el("div", { class: "lanes-view" }, this.base, this.overlay);
    this.plot.append(this.view);
    this.element = el("div", { class: "lanes", role: "presentation" }, this.labels, this.plot, this.tip);
    this.legend = el(
      "div",
      { class: "lanes-legend quiet" },
      el("span", {}, "silence before an event"),
      ...HEAT_LABELS.map((label, heat) => el("span", { class: `heat heat-${heat + 1}` }, label)),
    );
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => {
      this.colours = null;
      this.isStale = true;
      this.invalidate();
    };
    this.dark.addEventListener("change", this.redraw);
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.element);
    this.element.addEventListener("scroll", () => this.redraw());
    this.#listen();
    this.setTimeline();
  }

  /** Set by the owner: wants a frame. */
  invalidate() {}

  close() {
    this.observer.disconnect();
    this.dark.removeEventListener("change", this.redraw);
  }

  /** Take the events that are new. A view of all stays a view of all. */
  setTimeline() {
    const isWhole = this.from <= 0 && this.to >= this.axis.length * 0.9999;
    this.axis = new Axis(this.timeline, this.isShortened);
    if (isWhole) [this.from, this.to] = [0, this.axis.length];
    const rows = this.timeline.rows.map((row, index) => {
      const isFirst = index > 0 && row.group !== this.timeline.rows[index - 1].group;
      return el(
        "div",
        { class: `lane-label lane-${row.kind}${isFirst ? " lane-first" : ""}`, title: row.label },
        row.label,
      );
    });
    fill(this.labels, ...rows);
    const height = RULER + ROW * this.timeline.rows.length;
    this.labels.style.setProperty("height", `${height}px`);
    this.plot.style.setProperty("height", `${height}px`);
    this.plot.setAttribute("aria-valuemax", String(Math.max(0, this.timeline.length - 1)));
    this.#resize();
  }

  /** @param {boolean} isShortened */
  shorten(isShortened) {
    this.isShortened = isShortened;
    this.from = 0;
    this.to = this.axis.length;
    this.setTimeline();
  }

  /**
   * Show more (over 1) or less time, around a place; around the playhead if none is given.
   * @param {number} factor
   * @param {number} place
   */
  zoom(factor, place) {
    const span = Math.min(this.axis.length, Math.max(NARROWEST_NS, (this.to - this.from) / factor));
    const share = (place - this.from) / (this.to - this.from || 1);
    const middle = share < 0 || share > 1 ? 0.5 : share;
    this.#show(place - span * middle, span);
  }

  showAll() {
    this.#show(0, this.axis.length);
  }

  /**
   * Move the view, by parts of its width.
   * @param {number} share
   */
  pan(share) {
    const span = this.to - this.from;
    this.#show(this.from + share * span, span);
  }

  /**
   * Move the view if the playhead is outside of it.
   * @param {number} t
   * @param {number} index
   */
  reveal(t, index) {
    const place = this.axis.placeOf(t);
    const span = this.to - this.from;
    if (place < this.from || place > this.to) this.#show(place - span * 0.3, span);
    if (this.isDragging || !this.timeline.length) return;
    const { scrollTop, clientHeight } = this.element;
    const top = this.#rowOf(index) * ROW;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW + RULER > scrollTop + clientHeight) this.element.scrollTop = top + ROW + RULER - clientHeight;
  }

  /**
   * @param {number} from
   * @param {number} span
   */
  #show(from, span) {
    this.from = Math.min(this.axis.length - span, Math.max(0, from));
    this.to = this.from + span;
    this.redraw();
  }

  /** @param {number} t */
  #x(t) {
    return PAD + ((this.axis.placeOf(t) - this.from) / (this.to - this.from)) * this.inner;
  }

  /** @param {number} x */
  placeAt(x) {
    return this.from + ((x - PAD) / this.inner) * (this.to - this.from);
  }

  get inner() {
    return Math.max(1, this.width - 2 * PAD);
  }

  #resize() {
    const width = this.plot.clientWidth;
    const height = Math.min(this.element.clientHeight, RULER + ROW * this.timeline.rows.length);
    const ratio = window.devicePixelRatio || 1;
    if (width && height && (width !== this.width || height !== this.height || ratio !== this.ratio)) {
      this.width = width;
      this.height = height;
      this.ratio = ratio;
      for (const canvas of [this.base, this.overlay]) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.setProperty("width", `${width}px`);
        canvas.style.setProperty("height", `${height}px`);
      }
      this.view.style.setProperty("height", `${height}px`);
    }
    this.redraw();
  }

  #listen() {
    const { plot } = this;
    let panFrom = -1;
    const at = (/** @type {MouseEvent} */ event) => {
      const box = this.view.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      const { x, y } = at(event);
      plot.setPointerCapture(event.pointerId);
      if (event.button === 1 || y < RULER) panFrom = this.placeAt(x);
      else {
        this.isDragging = true;
        const index = this.#eventAt(x, y);
        if (index >= 0) this.options.choose(index);
        else this.options.drag(this.axis.timeOf(this.placeAt(x)));
      }
    });
    plot.addEventListener("pointermove", (event) => {
      const { x, y } = at(event);
      if (this.isDragging) this.options.drag(this.axis.timeOf(this.placeAt(Math.min(this.width, Math.max(0, x)))));
      else if (panFrom >= 0) this.#show(this.from + panFrom - this.placeAt(x), this.to - this.from);
      else this.#hover(x, y);
    });
    const stop = () => {
      this.isDragging = false;
      panFrom = -1;
    };
    plot.addEventListener("pointerup", stop);
    plot.addEventListener("pointercancel", stop);
    plot.addEventListener("pointerleave", () => this.#hover(-1, -1));
    plot.addEventListener(
      "wheel",
      (event) => {
        const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        // With more lanes than fit the wheel scrolls them, and Ctrl (what a pinch sends) zooms.
        if (!isAcross && !event.ctrlKey && this.element.scrollHeight > this.element.clientHeight + 1) return;
        event.preventDefault();
        if (isAcross) this.pan((event.deltaX || event.deltaY) / (this.width || 1));
        else this.zoom(Math.exp(-event.deltaY / 400), this.placeAt(at(event).x));
      },
      { passive: false },
    );
  }

  /**
   * Return the event drawn at a point, at most 4 px away; -1 if there is none.
   * @param {number} x
   * @param {number} y
   */
  #eventAt(x, y) {
    const row = Math.floor((y - RULER + this.element.scrollTop) / ROW);
    if (y < RULER || row < 0 || row >= this.timeline.rows.length) return -1;
    const { timeline } = this;
    let best = -1;
    let distance = 4.5;
    const to = timeline.at(this.axis.timeOf(this.placeAt(x + 4)));
    for (let index = to; index >= 0 && to - index < 5000; index--) {
      const away = Math.abs(this.#x(timeline.time[index]) - x);
      if (timeline.time[index] < this.axis.timeOf(this.placeAt(x - 5))) break;
      if (away < distance && this.#rowOf(index) === row) {
        best = index;
        distance = away;
      }
    }
    return best;
  }

  /** @param {number} index */
  #rowOf(index) {
    return this.timeline.exchanges[this.timeline.slot[index]].row[this.timeline.pos[index]];
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #hover(x, y) {
    const index = x < 0 ? -1 : this.#eventAt(x, y);
    const mark =
      x < 0
        ? undefined
        : this.marks.find(
            (each) =>
              Math.abs(this.#x(this.timeline.time[each.index]) - x) < 6 &&
              this.#markRow(each) === Math.floor((y - RULER + this.element.scrollTop) / ROW),
          );
    const block = index < 0 && x >= 0 ? this.#blockAt(x, y) : undefined;
    this.plot.classList.toggle("is-over", index >= 0);
    if (this.hovered !== index) {
      this.hovered = index;
      this.invalidate();
    }
    const shown = mark ? mark.index : index;
    this.tip.hidden = shown < 0 && !block;
    if (this.tip.hidden) return;
    if (shown >= 0) this.#tipOfEvent(shown, mark);
    else if (block) this.#tipOfBlock(block);
    const box = this.element.getBoundingClientRect();
    const left = Math.min(x + this.labels.offsetWidth + 12, box.width - this.tip.offsetWidth - 8);
    this.tip.style.setProperty("left", `${Math.max(0, left)}px`);
    this.tip.style.setProperty("top", `${y + this.element.scrollTop + 16}px`);
  }

  /**
   * @param {number} index
   * @param {import("./timeline.js").PlacedMark | undefined} mark
   */
  #tipOfEvent(index, mark) {
    const { timeline } = this;
    const ticks = timeline.exchanges[timeline.slot[index]];
    const pos = timeline.pos[index];
    fill(
      this.tip,
      el("b", {}, timeline.typeOf(index)),
      el(
        "span",
        { class: "num" },
        `exchange ${ticks.number} · event ${pos} · ${duration(ticks.t[pos])} · ${ticks.size[pos].toLocaleString()} bytes`,
      ),
      el("span", { class: "num" }, `silence before: ${duration(timeline.silenceBefore(index))}`),
      mark
        ? el(
            "span",
            { class: mark.mark.severity === "error" ? "error" : "warn" },
            `${mark.mark.rule}: ${mark.mark.text}`,
          )
        : null,
    );
  }

  /** @param {Block} block */
  #tipOfBlock(block) {
    const length = block.to_ns === null ? "open" : duration(block.to_ns - block.from_ns);
    fill(
      this.tip,
      el("b", {}, block.label || block.kind),
      el("span", { class: "num" }, `exchange ${block.exchange} · from ${duration(block.from_ns)} · ${length}`),
    );
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #blockAt(x, y) {
    const row = Math.floor((y - RULER + this.element.scrollTop) / ROW);
    const offsets = this.#offsets();
    return y < RULER
      ? undefined
      : this.timeline.blocks.find((block) => {
          if (block.row !== row) return false;
          const offset = offsets.get(block.exchange) ?? 0;
          return (
            this.#x(offset + block.from_ns) <= x &&
            x <= this.#x(block.to_ns === null ? this.timeline.end : offset + block.to_ns)
          );
        });
  }

  #offsets() {
    return new Map(this.timeline.exchanges.map((each) => [each.number, each.offset_ns]));
  }

  #palette() {
    if (this.colours) return this.colours;
    const style = getComputedStyle(this.element);
    const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    /** @type {Record<string, string>} */
    const colours = {};
    for (const name of ["ground", "raised", "line", "text", "quiet", "accent", "warning", "error", "wrote", "other"])
      colours[name] = read(name);
    colours.font = style.fontFamily;
    for (const block of this.timeline.blocks) colours[`block:${block.kind}`] ||= read(block.kind) || colours.quiet;
    colours["block:client"] ||= read("client");
    for (let heat = 0; heat <= HEAT_NS.length; heat++) colours[`heat:${heat}`] = read(`heat-${heat + 1}`);
    this.colours = colours;
    return colours;
  }

  /**
   * @param {HTMLCanvasElement} canvas
   */
  #context(canvas) {
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    return context;
  }

  /**
   * Draw what has changed.
   * @param {number} t time of the playhead
   * @param {number} index its event
   */
  draw(t, index) {
    if (!this.width) return;
    if (this.isStale) {
      this.isStale = false;
      this.#drawBase();
    }
    this.#drawOverlay(t, index);
  }

  #drawBase() {
    const colours = this.#palette();
    const context = this.#context(this.base);
    const scrolled = this.element.scrollTop;
    context.save();
    context.beginPath();
    context.rect(0, RULER, this.width, this.height - RULER);
    context.clip();
    context.translate(0, RULER - scrolled);
    this.#drawRows(context, colours);
    this.#drawGaps(context, colours);
    this.#drawBlocks(context, colours);
    this.#drawTicks(context, colours);
    this.#drawMarks(context, colours);
    context.restore();
    this.#drawRuler(context, colours);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawRows(context, colours) {
    context.fillStyle = colours.line;
    this.timeline.rows.forEach((row, index) => {
      const isFirst = index > 0 && row.group !== this.timeline.rows[index - 1].group;
      context.globalAlpha = isFirst ? 1 : 0.45;
      context.fillRect(0, index * ROW, this.width, 1);
    });
    context.globalAlpha = 1;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawGaps(context, colours) {
    context.fillStyle = colours.raised;
    for (const gap of this.axis.gaps) {
      const x = this.#x(gap.from);
      const width = this.#x(gap.to) - x;
      if (x < this.width && x + width > 0) context.fillRect(x, 0, width, ROW * this.timeline.rows.length);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawBlocks(context, colours) {
    context.font = `11px ${colours.font}`;
    context.textBaseline = "middle";
    const offsets = this.#offsets();
    for (const block of this.timeline.blocks) {
      const offset = offsets.get(block.exchange) ?? 0;
      const x = this.#x(offset + block.from_ns);
      const end = block.to_ns === null ? this.#x(this.timeline.end) : this.#x(offset + block.to_ns);
      const width = Math.max(1.5, end - x);
      if (x > this.width || x + width < 0) continue;
      const y = block.row * ROW + 3;
      const colour = colours[`block:${block.kind}`] ?? colours.quiet;
      context.fillStyle = colour;
      context.globalAlpha = this.timeline.isItem(block) ? 0.24 : 0.13;
      context.beginPath();
      context.roundRect(x, y, width, ROW - 5, Math.min(3, width / 2));
      context.fill();
      context.globalAlpha = 0.9;
      if (this.timeline.isItem(block)) context.fillRect(x, y, Math.min(2, width), ROW - 5);
      context.globalAlpha = 1;
      this.#drawLabel(context, block.label, x, width, y, colours);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {string} label
   * @param {number} x
   * @param {number} width
   * @param {number} y
   * @param {Record<string, string>} colours
   */
  #drawLabel(context, label, x, width, y, colours) {
    const left = Math.max(x, 0);
    const room = Math.min(x + width, this.width) - left;
    if (room < 30 || !label) return;
    // A label is recorded text: never draw more of it than can be visible.
    let shown = label.slice(0, 100);
    while (shown.length > 2 && context.measureText(shown).width > room - 11)
      shown = `${shown.slice(0, Math.floor(shown.length * 0.8) - 1)}…`;
    if (shown.length < Math.min(5, label.length)) return;
    context.fillStyle = colours.text;
    context.fillText(shown, left + 7, y + 6);
  }

  /**
   * Draw a tick for each event that is visible; of several in one pixel the one behind the longest silence.
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawTicks(context, colours) {
    const { timeline, axis } = this;
    const width = Math.ceil(this.width);
    const heats = new Int8Array(width * timeline.rows.length);
    const first = timeline.at(axis.timeOf(this.placeAt(0)));
    const last = Math.min(timeline.length - 1, timeline.at(axis.timeOf(this.placeAt(this.width))));
    const scale = this.inner / (this.to - this.from);
    for (let index = first; index <= last; index++) {
      const ticks = timeline.exchanges[timeline.slot[index]];
      const pos = timeline.pos[index];
      const x = Math.min(width - 1, Math.round(PAD + (axis.placeOf(timeline.time[index]) - this.from) * scale));
      if (x < 0) continue;
      const silence = pos > 0 ? ticks.t[pos] - ticks.t[pos - 1] : 0;
      let heat = 0;
      while (heat < HEAT_NS.length && silence >= HEAT_NS[heat]) heat++;
      const cell = ticks.row[pos] * width + x;
      if (heats[cell] <= heat) heats[cell] = heat + 1;
    }
    for (let heat = 1; heat <= HEAT_NS.length + 1; heat++) {
      context.fillStyle = colours[`heat:${heat - 1}`];
      const height = heat === 1 ? 7 : 9;
      for (let cell = 0; cell < heats.length; cell++) {
        if (heats[cell] !== heat) continue;
        const row = Math.floor(cell / width);
        context.fillRect(cell - row * width, row * ROW + ROW - 2 - height, heat > 2 ? 1.5 : 1, height);
      }
    }
  }

  /** @param {import("./timeline.js").PlacedMark} placed */
  #markRow(placed) {
    return this.timeline.length ? this.#rowOf(placed.index) : 0;
  }

  /**
   * Draw findings as triangles and anomalies as diamonds, above their tick.
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawMarks(context, colours) {
    for (const placed of this.marks) {
      const x = this.#x(this.timeline.time[placed.index]);
      if (x < -8 || x > this.width + 8) continue;
      const y = this.#markRow(placed) * ROW + 2;
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

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Record<string, string>} colours
   */
  #drawRuler(context, colours) {
    context.font = `11px ${colours.font}`;
    context.textBaseline = "middle";
    context.fillStyle = colours.quiet;
    const step = niceStep((LABEL_PX / this.width) * (this.to - this.from));
    let taken = -Infinity;
    const put = (/** @type {number} */ x, /** @type {string} */ label) => {
      if (x < taken || x < -1 || x > this.width - 20) return;
      context.fillStyle = colours.line;
      context.fillRect(Math.round(x), RULER - 6, 1, 6);
      context.fillStyle = colours.quiet;
      context.fillText(label, x + 4, RULER / 2 - 1);
      taken = x + context.measureText(label).width + 14;
    };
    const end = this.axis.timeOf(this.to);
    let at = Math.ceil(this.axis.timeOf(this.from) / step) * step;
    for (const gap of [...this.axis.gaps, { from: Infinity, to: Infinity }]) {
      for (; at < gap.from && at <= end; at += step) put(this.#x(at), clockTime(at, step));
      if (at > end) break;
      if (gap.to < at) continue;
      put(this.#x(gap.from) + 1, `⋯ ${duration(gap.to - gap.from)}`);
      at = Math.ceil(gap.to / step) * step;
    }
    context.fillStyle = colours.line;
    context.fillRect(0, RULER - 1, this.width, 1);
    const { length } = this.axis;
    if (this.to - this.from > length * 0.999) return;
    // Where the view is in all of the time.
    context.fillRect(0, 0, this.width, 2);
    context.fillStyle = colours.quiet;
    context.fillRect(
      (this.from / length) * this.width,
      0,
      Math.max(6, ((this.to - this.from) / length) * this.width),
      2,
    );
  }

  /**
   * @param {number} t
   * @param {number} index
   */
  #drawOverlay(t, index) {
    const colours = this.#palette();
    const context = this.#context(this.overlay);
    const scrolled = this.element.scrollTop;
    const x = this.#x(t);
    context.globalAlpha = 0.55;
    context.fillStyle = colours.ground;
    if (x < this.width) context.fillRect(Math.max(0, x), RULER, this.width - Math.max(0, x), this.height - RULER);
    context.globalAlpha = 1;
    const tick = (/** @type {number} */ each, /** @type {string} */ colour, /** @type {number} */ width) => {
      const y = RULER - scrolled + this.#rowOf(each) * ROW;
      if (y < RULER - ROW / 2) return;
      context.fillStyle = colour;
      context.fillRect(this.#x(this.timeline.time[each]) - width / 2, y + 2, width, ROW - 3);
    };
    let drawnAt = -10;
    for (const writer of this.writers) {
      const at = this.#x(this.timeline.time[writer]);
      if (at < 0 || at > this.width || at - drawnAt < 0.5) continue;
      drawnAt = at;
      tick(writer, colours.accent, 2);
    }
    if (this.timeline.length) tick(index, colours.accent, 3);
    if (this.hovered >= 0 && this.hovered < this.timeline.length) tick(this.hovered, colours.text, 2);
    if (x < -6 || x > this.width + 6) return;
    context.fillStyle = colours.accent;
    context.fillRect(x - 0.75, RULER - 8, 1.5, this.height);
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
 * Return the smallest of 1, 2, 5, 10, 20 … (ns) that is at least a span; above a minute multiples of it.
 * @param {number} span
 */
function niceStep(span) {
  if (span > 20e9) {
    for (const minutes of [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 360, 720])
      if (minutes * 60e9 >= span) return minutes * 60e9;
    return Math.ceil(span / 86400e9) * 86400e9;
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(1, span)));
  for (const step of STEPS) if (step * power >= span) return step * power;
  return 10 * power;
}

/**
 * Format a time of the session as exactly as the step between two labels needs.
 * @param {number} t
 * @param {number} [step]
 */
export function clockTime(t, step = 1e6) {
  const seconds = t / 1e9;
  const digits = step >= 1e9 ? 0 : Math.min(6, Math.ceil(-Math.log10(step / 1e9)));
  if (seconds < 60) return `${seconds.toFixed(digits)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - minutes * 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}
