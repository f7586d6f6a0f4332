// Two exchanges on one time axis, each from its own zero: aligned by item, the times of A as ghost bars behind those of B.

import { duration, el, fill } from "./dom.js";

const ROW = 32;
const AXIS = 22;
const BAR = 14;
const GHOST = 24;
const NEAR_PX = 6;
const STEPS = [1, 2, 5];

/**
 * The blocks of a row of the picture, and which events of each side stand on it.
 * @typedef {{ label: string, kind: string, a: Block[], b: Block[], ticks: { a: Tick[], b: Tick[] } }} PairedRow
 * @typedef {{ pos: number, t: number, type: string }} Tick
 * @typedef {{ session: string, number: number, timeline: Timeline }} Side
 */

/**
 * Put the blocks of two exchanges into rows: the connection, then each pair of items, then blocks that are no item.
 * @param {Side} a
 * @param {Side} b
 * @param {[number | null, number | null][]} items partners, as indices in the output of each side
 * @returns {PairedRow[]}
 */
export function pairedRows(a, b, items) {
  const sides = { a: ofExchange(a), b: ofExchange(b) };
  /** @type {PairedRow[]} */
  const rows = [];
  /** @param {string} label @param {Block[]} of_a @param {Block[]} of_b */
  const add = (label, of_a, of_b, kind = (of_b[0] ?? of_a[0])?.kind ?? "other") => {
    if (!of_a.length && !of_b.length) return;
    rows.push({ label, kind, a: of_a, b: of_b, ticks: { a: sides.a.ticks(of_a), b: sides.b.ticks(of_b) } });
  };
  add("connection", sides.a.ofRow("connection"), sides.b.ofRow("connection"), "quiet");
  const inOrder = [...items].sort(
    (one, other) => sides.a.begin(one[0], sides.b, one[1]) - sides.a.begin(other[0], sides.b, other[1]),
  );
  for (const [one, other] of inOrder) {
    const of_a = sides.a.ofItem(one);
    const of_b = sides.b.ofItem(other);
    add((of_b[0] ?? of_a[0])?.label ?? "item", of_a, of_b);
  }
  const shown = { a: new Set(items.map(([index]) => index)), b: new Set(items.map(([, index]) => index)) };
  const rest_a = sides.a.others(shown.a);
  const rest_b = sides.b.others(shown.b);
  for (const label of new Set([...rest_a, ...rest_b].map((block) => block.label))) {
    add(
      label,
      rest_a.filter((block) => block.label === label),
      rest_b.filter((block) => block.label === label),
    );
  }
  return rows;
}

/** @param {Side} side */
function ofExchange(side) {
  const { timeline } = side;
  const ticks = timeline.exchanges.find((each) => each.number === side.number);
  const blocks = timeline.blocks.filter((block) => block.exchange === side.number);
  /** @param {Block} block */
  const kindOfRow = (block) => timeline.rows[block.row]?.kind;
  return {
    /** @param {string} kind */
    ofRow: (kind) => blocks.filter((block) => kindOfRow(block) === kind),
    /** @param {number | null} index */
    ofItem: (index) => (index === null ? [] : blocks.filter((block) => block.item === index)),
    /** @param {Set<number | null>} shown */
    others: (shown) =>
      blocks.filter((block) => kindOfRow(block) === "item" && (block.item === null || !shown.has(block.item))),
    /**
     * @param {number | null} index
     * @param {{ ofItem(index: number | null): Block[] }} other
     * @param {number | null} otherIndex
     */
    begin: (index, other, otherIndex) =>
      (blocks.find((block) => index !== null && block.item === index) ?? other.ofItem(otherIndex)[0])?.from_ns ?? 0,
    /** @param {Block[]} own */
    ticks: (own) => {
      /** @type {Tick[]} */
      const found = [];
      if (!ticks || !own.length) return found;
      const rows = new Set(own.map((block) => block.row));
      const first = Math.min(...own.map((block) => block.first_pos ?? 0));
      const last = Math.max(...own.map((block) => block.last_pos ?? ticks.last_pos));
      const before = ticks.last_pos - ticks.t.length + 1;
      for (let n = Math.max(0, first - before); n < ticks.t.length && n + before <= last; n += 1) {
        if (!rows.has(ticks.row[n])) continue;
        found.push({
          pos: n + before,
          t: ticks.t[n],
          type: timeline.types[ticks.type[n]] ?? timeline.kinds[ticks.kind[n]] ?? "",
        });
      }
      return found;
    },
  };
}

/**
 * Return the end of an exchange, in nanoseconds since it began.
 * @param {Side} side
 */
export function endOf(side) {
  const t = side.timeline.exchanges.find((each) => each.number === side.number)?.t ?? [];
  return t.length ? t[t.length - 1] : 0;
}

/** A canvas with the rows, and a line that names the event under the pointer. */
export class LanePair {
  /**
   * @param {PairedRow[]} rows
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
    if (!found) fill(this.hint, HINT);
    else
      fill(
        this.hint,
        `${duration(found.t)} · ${found.row.label}${found.tick ? ` · ${found.side.toUpperCase()} #${found.tick.pos} ${found.tick.type} at ${duration(found.tick.t)}` : ""}`,
      );
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
    const step = niceStep(this.end_ns, Math.max(2, Math.floor(this.width / 110)));
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
   * @param {PairedRow} row
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
   * @param {Tick[]} ticks
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
 * @param {Tick[]} ticks in order of time
 * @param {number} t
 */
function nearest(ticks, t) {
  let low = 0;
  let high = ticks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ticks[middle].t < t) low = middle + 1;
    else high = middle;
  }
  const before = ticks[low - 1];
  const behind = ticks[low];
  if (!before || !behind) return before ?? behind ?? null;
  return t - before.t <= behind.t - t ? before : behind;
}

/**
 * @param {number} whole
 * @param {number} most steps
 */
function niceStep(whole, most) {
  for (let power = 1; ; power *= 10) {
    for (const step of STEPS) if (whole / (step * power) <= most) return step * power;
  }
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
