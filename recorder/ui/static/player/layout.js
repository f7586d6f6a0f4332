// Where the parts of the player are.

import { Choice } from "../buttons.js";
import { el, fill } from "../dom.js";
import { clockTime, compact, count, dollars, plural } from "../format.js";
import { Tabs } from "../tabs.js";
import { Panes } from "./panes.js";

/** The panels below the lanes. A narrow window shows one of them. */
const PANELS = [
  { name: "turns", label: "Turns" },
  { name: "conversation", label: "Conversation" },
  { name: "events", label: "Events" },
  { name: "inspector", label: "Inspector" },
];

/** The elements of the page. */
export class Layout {
  /**
   * @param {import("./player.js").Player} player
   * @param {SessionHeader} header
   */
  constructor(player, header) {
    this.player = player;
    this.title = el("h1", { class: "cut" });
    this.summary = el("span", { class: "quiet cut" });
    this.counts = { events: el("span", { class: "num quiet" }), findings: el("span", { class: "num quiet" }) };
    const lists = el("div", { id: "player-list", class: "lists" }, player.events.element, player.findings.element);
    this.lists = new Tabs(
      "Events and findings",
      [
        { name: "events", content: ["Events ", this.counts.events] },
        { name: "findings", content: ["Findings ", this.counts.findings] },
      ],
      lists,
      (name) => this.chooseList(name),
      false,
    );
    this.wrote = el("span", { class: "quiet note cut grow", role: "status" });
    this.main = el(
      "div",
      { class: "player-main" },
      player.turns.element,
      el(
        "div",
        { class: "panel conversation-panel" },
        el("div", { class: "panel-head" }, el("h2", {}, "Conversation"), player.view),
        player.conversation.element,
      ),
      el(
        "div",
        { class: "panel events-panel" },
        el("div", { class: "panel-head" }, this.lists.element, this.wrote),
        lists,
      ),
      player.inspector.element,
    );
    this.panes = new Panes(this.main);
    this.panels = new Choice("Panel", (name) => this.choose(name));
    this.panels.element.classList.add("panel-choice");
    this.panels.offer(PANELS, PANELS[1].name);
    this.element = el(
      "div",
      { class: "player", "data-ready": "false" },
      el("div", { class: "player-head" }, this.title, this.summary, player.lanes.legend),
      player.lanes.element,
      player.table.element,
      player.transport.element,
      this.panels.element,
      this.main,
    );
    this.choose(PANELS[1].name);
    this.chooseList("events");
    this.show(header, player.timeline);
  }

  /** @param {string} name of a list: events or findings */
  chooseList(name) {
    this.lists.select(name);
    this.player.events.element.hidden = name !== "events";
    this.player.findings.element.hidden = name !== "findings";
    if (name === "findings") this.choose("events");
    this.player.findings.reveal();
  }

  /**
   * @param {number} shown of the events
   * @param {number} total
   */
  setEvents(shown, total) {
    this.counts.events.textContent = shown < total ? `${count(shown)} of ${count(total)}` : count(total);
  }

  /** @param {number} total */
  setFindings(total) {
    this.counts.findings.textContent = count(total);
  }

  /** @param {string} name */
  choose(name) {
    this.main.dataset.panel = name;
    this.panels.select(name);
    this.player.events.reveal(this.player.clock.index);
    this.player.invalidate();
  }

  /**
   * @param {SessionHeader} header
   * @param {import("./timeline.js").SessionTimeline} timeline
   */
  show(header, timeline) {
    const { session, exchanges, title } = header;
    const name = String(title ?? session.name);
    if (this.title.title !== name) {
      this.title.title = name;
      fill(this.title, el("bdi", {}, name));
    }
    const { total_tokens, cost_usd } = session;
    const parts = [
      title ? session.name : null,
      plural(exchanges.length, "exchange"),
      plural(timeline.length, "event"),
      clockTime(timeline.end),
      total_tokens ? `${compact(Number(total_tokens))} tokens` : null,
      cost_usd ? dollars(Number(cost_usd) * 1e12) : null,
    ];
    const hasTurns = exchanges.length > 1;
    this.main.classList.toggle("has-turns", hasTurns);
    this.player.turns.element.hidden = !hasTurns;
    const [turns] = this.panels.element.children;
    if (turns instanceof HTMLElement) turns.hidden = !hasTurns;
    this.summary.textContent = parts.filter(Boolean).join(" · ");
    if (!this.player.events.shown) this.setEvents(timeline.length, timeline.length);
  }

  /** @param {boolean} isTable */
  showTable(isTable) {
    this.player.lanes.element.hidden = isTable;
    this.player.table.show(isTable);
  }

  /**
   * Say which events wrote the selected text.
   * @param {number[]} positions ascending
   * @param {boolean} isAll false if earlier ones are not known
   */
  showWriters(positions, isAll) {
    const [first] = positions;
    const last = positions[positions.length - 1];
    const events = positions.length > 1 ? `${count(positions.length)} events, ${first} to ${last}` : `event ${first}`;
    this.wrote.textContent = positions.length ? `selected text: ${isAll ? "" : "the last "}${events}` : "";
  }
}
