// The list of findings, in order of time: each with its place, its rule, and the client that breaks.

import { el, fill } from "../dom.js";
import { messageOf } from "../format.js";
import { VirtualList } from "../virtual.js";
import { Findings } from "./findings.js";

const ROW = 42;

/** Loads the findings, lists them, and gives them to all parts of the page that mark them. */
export class FindingList {
  /** @param {import("./player.js").Player} player */
  constructor(player) {
    this.player = player;
    this.findings = new Findings(player.timeline);
    this.isLoaded = false;
    this.notes = el("p", { class: "note", hidden: true });
    this.empty = el("p", { class: "empty" }, "No rule is broken, and nothing is odd.");
    this.list = new VirtualList({
      label: "Findings",
      rowHeight: ROW,
      draw: (row, index) => this.#draw(row, index),
      choose: (index) => this.#choose(index),
    });
    this.list.element.classList.add("finding-list");
    this.element = el("div", { class: "finding-place" }, this.notes, this.empty, this.list.element);
  }

  close() {
    this.list.close();
  }

  async load() {
    const { app, session } = this.player;
    this.isLoaded = true;
    try {
      const { marks, notes } = await app.source.marks(session);
      this.findings.take(marks);
      this.notes.hidden = !notes?.length;
      fill(this.notes, ...(notes ?? []));
    } catch (error) {
      app.announce(`The findings could not be loaded: ${messageOf(error)}`);
    }
    if (!this.player.isClosed) this.place();
  }

  /** Show all findings at their places, since these or the timeline have changed. */
  place() {
    const { clock, events, inspector, lanes, layout, table, transport } = this.player;
    this.findings.place();
    const { marks } = this.findings;
    lanes.setMarks(marks);
    table.marks = marks;
    table.draw();
    events.setMarks(marks);
    layout.setFindings(marks.length);
    transport.setMarks(marks.length);
    inspector.showMarks(this.findings.at(clock.index));
    this.empty.hidden = marks.length > 0;
    this.list.element.hidden = !marks.length;
    this.list.setCount(marks.length);
    this.show(clock.index);
  }

  /**
   * Show which finding the playhead is at, or has passed last.
   * @param {number} index
   */
  show(index) {
    const { marks } = this.findings;
    const isAt = marks[this.list.active]?.index === index;
    const at = isAt ? this.list.active : this.findings.passed(index) - 1;
    if (at !== this.list.active) this.list.activate(at, "center");
    this.player.transport.showMark(at + 1, marks.length);
  }

  /** Bring the playhead's finding into view, if the list is visible. */
  reveal() {
    this.list.activate(this.list.active, "center");
  }

  /** @param {1 | -1} direction */
  step(direction) {
    const { app, clock } = this.player;
    const next = this.findings.beside(clock.index, direction);
    if (next) this.player.moved(() => clock.seek(next.index));
    else if (this.findings.marks.length) app.announce(`There is no ${direction > 0 ? "later" : "earlier"} finding.`);
    else app.announce("There are no findings.");
  }

  /** @param {number} at */
  #choose(at) {
    const { clock } = this.player;
    this.player.moved(() => clock.seek(this.findings.marks[at].index));
  }

  /**
   * @param {HTMLElement} row
   * @param {number} at
   */
  #draw(row, at) {
    const { mark, index } = this.findings.marks[at];
    const { timeline } = this.player;
    const place = `${mark.exchange}:${mark.pos ?? timeline.pos[index]}`;
    row.title = [mark.text, mark.why].filter(Boolean).join("\n");
    row.append(
      el("span", { class: `event-mark ${mark.severity}` }, mark.kind === "lint" ? "▼" : "◆"),
      el("span", { class: "num" }, place),
      el("bdi", { class: "mono cut" }, mark.rule),
      el("bdi", { class: "finding-text cut" }, mark.text),
      el("bdi", { class: "finding-why cut quiet" }, mark.why ?? timeline.typeOf(index)),
    );
  }
}
