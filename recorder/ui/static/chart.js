// Charts by uPlot: bars that are stacked, and lines. Colours are those of the style sheet, in both themes.

import uPlot from "../vendor/uPlot.esm.js";
import { el, fill } from "./dom.js";

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {string} color name of a custom property, as `--series-1`
 * @property {(number | null)[]} values
 * @property {number[]} [dash]
 */
/**
 * @typedef {object} ChartOptions
 * @property {"bars" | "lines"} kind
 * @property {string} label for listeners
 * @property {string[]} labels of the x axis, one for each value
 * @property {number[]} [x] values of the x axis if it is one of numbers; then `labels` are for people only
 * @property {Series[]} series
 * @property {(value: number) => string} format of a value in the legend
 * @property {(value: number) => string} [tick] of a value on the y axis, if it is another
 * @property {boolean} [counts] values are whole numbers, and so are the places of the y axis
 * @property {(values: (number | null)[]) => number | null} summary of a series, while no place is pointed at
 * @property {string} summaryLabel
 * @property {number} [height] in px
 */

const HEIGHT = 180;
const LEAST_WIDTH = 200;
const LABEL_CHAR = 6.5; // px, of a label on the x axis

/** A chart with its legend. `element` is to be placed; `close` when it is gone. */
export class Chart {
  /** @param {ChartOptions} options */
  constructor(options) {
    this.options = options;
    this.legend = el("div", { class: "chart-legend", "aria-hidden": "true" });
    this.place = el("div", { class: "chart-canvas", role: "img", "aria-label": options.label });
    this.element = el("div", { class: "chart" }, this.legend, this.place);
    /** @type {uPlot | null} */
    this.plot = null;
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.theme.addEventListener("change", this.redraw);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.place);
  }

  close() {
    this.theme.removeEventListener("change", this.redraw);
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  resize() {
    const width = Math.max(LEAST_WIDTH, Math.floor(this.place.clientWidth));
    if (!this.plot) this.draw();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.plot.height });
  }

  draw() {
    this.plot?.destroy();
    fill(this.place);
    const width = Math.max(LEAST_WIDTH, Math.floor(this.place.clientWidth));
    this.plot = new uPlot(this.settings(width), this.data(), this.place);
    this.describe(null);
  }

  /** Return the data as uPlot has them: stacked bars as sums, the tallest first, so that each covers the one before. */
  data() {
    const { series, labels, kind, x } = this.options;
    const xs = x ?? labels.map((_, index) => index);
    if (kind === "lines") return /** @type {any} */ ([xs, ...series.map((each) => each.values)]);
    const sums = new Array(labels.length).fill(0);
    const stacked = series.map((each) => each.values.map((value, index) => (sums[index] += value ?? 0) || null));
    return /** @type {any} */ ([xs, ...stacked.reverse()]);
  }

  /**
   * @param {number} width
   * @returns {uPlot.Options}
   */
  settings(width) {
    const { kind, series, format, tick = format, counts = false, labels, height = HEIGHT, x } = this.options;
    const isBars = kind === "bars";
    const drawn = isBars ? [...series].reverse() : series;
    const axis = {
      stroke: color("--quiet"),
      font: `11px ${getComputedStyle(document.body).fontFamily}`,
      ticks: { show: false },
    };
    const grid = { stroke: color("--line"), width: 1 };
    const last = labels.length - 1;
    const labelWidth = Math.max(...labels.map((label) => label.length), 1) * LABEL_CHAR;
    return {
      width,
      height,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: !isBars } },
      padding: [8, Math.max(8, labelWidth / 2 - 8), 0, 0],
      scales: {
        x: { time: false, range: x ? undefined : () => [-0.6, last + 0.6] },
        y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.05 : 1] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 26,
          space: Math.max(60, labelWidth + 16),
          ...(x ? {} : { incrs: INCREMENTS, values: (_, splits) => splits.map((at) => labels[at] ?? "") }),
        },
        {
          ...axis,
          grid,
          size: 58,
          space: 34,
          values: (_, splits) => splits.map((value) => tick(value)),
          ...(counts ? { incrs: COUNTS } : {}),
        },
      ],
      series: [
        {},
        ...drawn.map((each) => ({
          label: each.label,
          stroke: color(isBars ? "--ground" : each.color),
          width: isBars ? 0.5 : 1.75,
          dash: each.dash,
          fill: isBars ? color(each.color) : undefined,
          paths: isBars ? uPlot.paths.bars?.({ size: [0.78, 48] }) : undefined,
          points: isBars ? { show: false } : labels.length < 40 ? { show: true, size: 5, fill: color(each.color) } : {},
          spanGaps: true,
        })),
      ],
      hooks: { setCursor: [(plot) => this.describe(plot.cursor.idx ?? null)] },
    };
  }

  /**
   * Write the legend: values at a place of the x axis, or a summary.
   * @param {number | null} index
   */
  describe(index) {
    const { series, format, summary, summaryLabel, labels } = this.options;
    const entries = series.map((each) => {
      const value = index === null ? summary(each.values) : each.values[index];
      const swatch = el("span", { class: "swatch" });
      swatch.style.setProperty("background", `var(${each.color})`);
      return el(
        "span",
        { class: "chart-entry" },
        swatch,
        el("span", { class: "chart-label" }, each.label),
        el("span", { class: "num" }, value === null || value === undefined ? "–" : format(value)),
      );
    });
    fill(
      this.legend,
      el("span", { class: "chart-where num" }, index === null ? summaryLabel : labels[index]),
      ...entries,
    );
  }
}

const COUNTS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();
const INCREMENTS = [1, 2, 5, 7, 10, 14, 28, 30, 50, 90, 100, 180, 200, 365, 500, 1000, 2000, 5000];

/** @param {string} property */
function color(property) {
  return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}
