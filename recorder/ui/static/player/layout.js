// Where the parts of the player are.

import { count, el, fill } from "../dom.js";
import { clockTime } from "./lanes.js";

/** The panels below the lanes. A narrow window shows one of them. */
const PANELS = [
  ["conversation", "Conversation"],
  ["events", "Events"],
  ["inspector", "Inspector"],
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
    this.wrote = el("span", { class: "quiet note cut grow", role: "status" });
    this.total = el("span", { class: "num quiet" });
    this.main = el(
      "div",
      { class: "player-main", "data-panel": PANELS[0][0] },
      el(
        "div",
        { class: "panel conversation-panel" },
        el("div", { class: "panel-head" }, el("h2", {}, "Conversation"), player.view),
        player.conversation.element,
      ),
      el(
        "div",
        { class: "panel events-panel" },
        el("div", { class: "panel-head" }, el("h2", {}, "Events"), this.wrote, this.total),
        player.events.element,
      ),
      player.inspector.element,
    );
    this.tabs = PANELS.map(([name, label]) =>
      el("button", { type: "button", "data-name": name, onclick: () => this.choose(name) }, label),
    );
    this.element = el(
      "div",
      { class: "player", "data-ready": "false" },
      el("div", { class: "player-head" }, this.title, this.summary, player.lanes.legend),
      player.lanes.element,
      player.table.element,
      player.transport.element,
      el("div", { class: "group panel-choice", role: "group", "aria-label": "Panel" }, ...this.tabs),
      this.main,
    );
    this.choose(PANELS[0][0]);
    this.show(header, player.timeline);
  }

  /** @param {string} name */
  choose(name) {
    this.main.dataset.panel = name;
    for (const tab of this.tabs) tab.setAttribute("aria-pressed", String(tab.dataset.name === name));
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
    const parts = [
      title ? session.name : null,
      `${count(exchanges.length)} ${exchanges.length === 1 ? "exchange" : "exchanges"}`,
      `${count(timeline.length)} events`,
      clockTime(timeline.end),
    ];
    this.summary.textContent = parts.filter(Boolean).join(" · ");
    this.total.textContent = count(timeline.length);
  }
}
