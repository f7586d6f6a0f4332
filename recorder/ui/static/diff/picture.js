// Two exchanges on one time axis: as a picture, and as a table with the same numbers.

import { toggle } from "../buttons.js";
import { el, fill } from "../dom.js";
import { count, duration, plural } from "../format.js";
import { playerHref } from "../links.js";
import { visible } from "../pretty.js";
import { dataTable, scrolling } from "../table.js";
import { LanePair } from "./lane_pair.js";
import { endOf, pairedRows } from "./paired_rows.js";
import { playerLink } from "./player_link.js";

/**
 * Draw two exchanges. The picture that is returned is to be closed.
 * @param {HTMLElement} place
 * @param {Pair} pair
 * @param {import("./paired_rows.js").Side} a
 * @param {import("./paired_rows.js").Side} b
 * @param {App} app
 */
export function drawPicture(place, pair, a, b, app) {
  const rows = pairedRows(a, b, pair.items);
  const end = { a: endOf(a), b: endOf(b) };
  const taken = `A took ${duration(end.a)}, B ${duration(end.b)}`;
  const description = `Times of both exchanges in ${plural(rows.length, "row")}: ${taken}. The table has the same.`;
  const open = (/** @type {"a" | "b"} */ name, /** @type {number} */ pos) => {
    const side = name === "a" ? a : b;
    app.go(playerHref(side.session, side.number, pos));
  };
  const lanes = new LanePair(rows, Math.max(end.a, end.b), open, description);
  const table = scrolling("Times of both exchanges", timesTable(rows, a, b));
  const show = (/** @type {boolean} */ isTable) => {
    table.hidden = !isTable;
    lanes.element.hidden = isTable;
  };
  show(false);
  const head = el(
    "div",
    { class: "panel-head" },
    el(
      "h2",
      {},
      playerLink(a.session, "A", `exchange ${a.number}`, a.number),
      " ↔ ",
      playerLink(b.session, "B", `exchange ${b.number}`, b.number),
      el("span", { class: "quiet asked" }, ` ${visible(pair.a.asked)}`),
    ),
    el("span", { class: "num quiet" }, `A ${duration(end.a)} · B ${duration(end.b)}`),
    toggle("Table", "Show the times as a table", false, show),
  );
  fill(place, head, lanes.element, table);
  return lanes;
}

/**
 * @param {import("./paired_rows.js").PairedRow[]} rows
 * @param {import("./paired_rows.js").Side} a
 * @param {import("./paired_rows.js").Side} b
 */
function timesTable(rows, a, b) {
  const titles = ["Item", "A from", "A took", "A events", "B from", "B took", "B events", "Ratio"];
  const body = rows.map((row) => {
    const of_a = span(row.a);
    const of_b = span(row.b);
    const ratio = of_a?.took && of_b?.took ? `×${(of_b.took / of_a.took).toFixed(2)}` : "";
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, row.label),
      ...sideCells(a, "A", of_a, row.ticks.a),
      ...sideCells(b, "B", of_b, row.ticks.b),
      el("td", { class: "num" }, ratio),
    );
  });
  return dataTable(titles, (index) => index > 0, body, "times");
}

/**
 * @param {import("./paired_rows.js").Side} side
 * @param {string} name
 * @param {{ from: number, took: number | null } | null} times
 * @param {import("./paired_rows.js").Tick[]} ticks
 */
function sideCells(side, name, times, ticks) {
  const first = ticks[0];
  const events = first
    ? playerLink(side.session, name, count(ticks.length), side.number, first.pos)
    : times
      ? "0"
      : "–";
  return [
    el("td", { class: "num" }, times ? duration(times.from) || "0" : "–"),
    el("td", { class: "num" }, times ? (times.took === null ? "open" : duration(times.took)) : "–"),
    el("td", { class: "num" }, events),
  ];
}

/** @param {Block[]} blocks */
function span(blocks) {
  if (!blocks.length) return null;
  const from = Math.min(...blocks.map((block) => block.from_ns));
  const isOpen = blocks.some((block) => block.to_ns === null);
  return { from, took: isOpen ? null : Math.max(...blocks.map((block) => block.to_ns ?? 0)) - from };
}
