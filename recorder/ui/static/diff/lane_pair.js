// A picture of two exchanges on one time axis, each from its own zero: the times of A are ghost bars behind those of B.

import { el, fill } from "../dom.js";
import { duration, niceStep } from "../format.js";
import { countWhile } from "../search.js";

const ROW = 32;
const AXIS = 22;
const BAR = 14;
const GHOST = 24;
const NEAR_PX = 6;
/** Least distance of two labels of the axis, in px. */
const LABEL_PX = 110;

/** A canvas with the rows, and a line that names the event under the pointer. */
export class LanePair {
  /**
   * @param {import("./paired_rows.js").PairedRow[]} rows
   * @param {number} end_ns of the axis
   * @param {(side: "a" | "b", pos: number) => void} open called with the event that was clicked
   * @param {string} description
   */
  constructor(rows, end_ns, open, description) {
    this.rows = rows;
    this.end_ns = Math.max(end_ns, 1);
    this.canvas = /** @type {HTMLCanvasElement} */ (
      el("canvas", { class: "lane-pair", role: "img", "aria-label": description })
    );
    this.hint = el("p", { class: "note lane-hint" }, HINT);
    this.element = el("div", { class: "lane-pair-box" }, this.canvas, this.hint);
    this.canvas.style.setProperty("height", `${rows.length * ROW + AXIS}px`);
    this.labels = 0;
    this.pointer = -1;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.element);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.scheme.addEventListener("change", this.redraw);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.find(event);
      if (found?.tick) open(found.side, found.tick.pos);
    });
  }

  close() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
  }

  /** @param {PointerEvent | null} event */
  point(event) {
    const found = event && this.find(event);
    this.pointer = event && found ? event.offsetX : -1;
    this.canvas.classList.toggle("on-event", Boolean(found?.tick));
    fill(this.hint, found ? described(found) : HINT);
    this.draw();
  }

  /**
   * Find the row, the side (A in the upper half of a row) and the nearest event at a place.
   * @param {MouseEvent} event
   */
  find(event) {
    const row = this.rows[Math.floor(event.offsetY / ROW)];
    if (!row || event.offsetX < this.labels) return null;
    const t = ((event.offsetX - this.labels) / this.width) * this.end_ns;
    if (t > this.end_ns) return null;
    /** @type {"a" | "b"} */
    const side = event.offsetY % ROW < ROW / 2 ? "a" : "b";
    const tick = nearest(row.ticks[side], t);
    const isNear = tick && (Math.abs(tick.t - t) / this.end_ns) * this.width <= NEAR_PX;
    return { row, side, t, tick: isNear ? tick : null };
  }

  /** Return the width of the axis in pixels. */
  get width() {
    return Math.max(1, this.canvas.clientWidth - this.labels - 8);
  }

  draw() {
    const { canvas, rows } = this;
    const width = canvas.clientWidth;
    const height = rows.length * ROW + AXIS;
    const scale = devicePixelRatio || 1;
    if (!width) return;
    this.labels = width < 560 ? 84 : 132;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const brush = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(canvas);
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(`--${name}`).trim() || style.getPropertyValue("--other");
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    brush.clearRect(0, 0, width, height);
    brush.font = `11px ${style.getPropertyValue("--mono")}`;
    brush.textBaseline = "middle";
    this.drawAxis(brush, colour, height);
    rows.forEach((row, index) => this.drawRow(brush, colour, row, index * ROW));
    if (this.pointer >= 0) {
      brush.fillStyle = colour("accent");
      brush.fillRect(Math.round(this.pointer), 0, 1, height - AXIS);
    }
  }

  /** @param {number} t_ns */
  x(t_ns) {
    return this.labels + (Math.min(t_ns, this.end_ns) / this.end_ns) * this.width;
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {(name: string) => string} colour
   * @param {number} height
   */
  drawAxis(brush, colour, height) {
    const step = niceStep(this.end_ns / Math.max(2, Math.floor(this.width / LABEL_PX)));
    for (let t = 0; t <= this.end_ns; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      brush.fillStyle = colour("line");
      brush.fillRect(x, 0, 1, height - AXIS + 4);
      brush.fillStyle = colour("quiet");
      const label = t ? duration(t) : "0";
      const room = brush.measureText(label).width;
      brush.fillText(label, Math.min(x + 3, this.labels + this.width + 6 - room), height - AXIS / 2 + 2);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {(name: string) => string} colour
   * @param {import("./paired_rows.js").PairedRow} row
   * @param {number} top
   */
  drawRow(brush, colour, row, top) {
    brush.fillStyle = colour("line");
    brush.fillRect(0, top + ROW - 1, this.labels + this.width + 8, 1);
    brush.fillStyle = colour("text");
    brush.fillText(shortened(brush, row.label, this.labels - 10), 0, top + ROW / 2);
    const own = colour(row.kind);
    for (const block of row.a) this.drawGhost(brush, colour("edge"), block, top + (ROW - GHOST) / 2);
    for (const block of row.b) {
      const x = this.x(block.from_ns);
      const width = Math.max(2, this.x(block.to_ns ?? this.end_ns) - x);
      brush.globalAlpha = 0.3;
      brush.fillStyle = own;
      brush.fillRect(x, top + (ROW - BAR) / 2, width, BAR);
      brush.globalAlpha = 1;
      brush.strokeStyle = own;
      brush.strokeRect(x + 0.5, top + (ROW - BAR) / 2 + 0.5, Math.max(1, width - 1), BAR - 1);
    }
    brush.fillStyle = colour("quiet");
    for (const x of this.columns(row.ticks.a)) brush.fillRect(x, top + (ROW - GHOST) / 2, 1, 4);
    brush.fillStyle = own;
    for (const x of this.columns(row.ticks.b)) brush.fillRect(x, top + ROW - (ROW - BAR) / 2 - 8, 1, 8);
  }

  /**
   * @param {CanvasRenderingContext2D} brush
   * @param {string} colour
   * @param {Block} block
   * @param {number} top
   */
  drawGhost(brush, colour, block, top) {
    const x = Math.round(this.x(block.from_ns));
    const width = Math.max(3, Math.round(this.x(block.to_ns ?? this.end_ns)) - x);
    brush.save();
    brush.strokeStyle = colour;
    brush.beginPath();
    brush.rect(x, top, width, GHOST);
    brush.clip();
    brush.globalAlpha = 0.45;
    brush.beginPath();
    for (let at = x - GHOST; at < x + width; at += 6) {
      brush.moveTo(at, top + GHOST);
      brush.lineTo(at + GHOST, top);
    }
    brush.stroke();
    brush.restore();
    brush.strokeStyle = colour;
    brush.setLineDash([3, 2]);
    brush.strokeRect(x + 0.5, top + 0.5, width - 1, GHOST - 1);
    brush.setLineDash([]);
  }

  /**
   * Return the columns of pixels that have an event: however many events there are, each column is drawn once.
   * @param {import("./paired_rows.js").Tick[]} ticks
   */
  columns(ticks) {
    const found = new Set();
    for (const tick of ticks) found.add(Math.round(this.x(tick.t)));
    return found;
  }
}

const HINT =
  "Filled bars are B, dashed ghosts behind them are A. Each begins at its own zero. A click on an event opens it.";

/**
 * @param {import("./paired_rows.js").Tick[]} ticks in order of time
 * @param {number} t
 */
function nearest(ticks, t) {
  const place = countWhile(ticks.length, (each) => ticks[each].t < t);
  const before = ticks[place - 1];
  const behind = ticks[place];
  if (!before || !behind) return before ?? behind ?? null;
  return t - before.t <= behind.t - t ? before : behind;
}

/**
 * @param {CanvasRenderingContext2D} brush
 * @param {string} text
 * @param {number} width
 */
function shortened(brush, text, width) {
  if (brush.measureText(text).width <= width) return text;
  let end = Math.min(text.length, 80);
  while (end > 1 && brush.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** @param {{ row: { label: string }, side: string, t: number, tick: import("./paired_rows.js").Tick | null }} found */
function described({ row, side, t, tick }) {
  const event = tick ? ` · ${side.toUpperCase()} #${tick.pos} ${tick.type} at ${duration(tick.t)}` : "";
  return `${duration(t)} · ${row.label}${event}`;
}
