// The controls of the player: buttons, speed, and where the playhead is, in words.

import { toggle } from "../buttons.js";
import { el, fill, setText } from "../dom.js";
import { clockTime, count, plural } from "../format.js";
import { SPEEDS } from "./clock.js";
import { ZOOM } from "./keys.js";

const ICONS = {
  first: "M3 3v10M13 3 6 8l7 5z",
  back: "M11 3 5 8l6 5z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  forward: "m5 3 6 5-6 5z",
  last: "M13 3v10M3 3l7 5-7 5z",
};
const FOLLOW = "Follow the end (End)";
const SVG = "http://www.w3.org/2000/svg";

/** The bar below the lanes. */
export class Transport {
  /** @param {import("./player.js").Player} player */
  constructor(player) {
    const { clock, lanes } = player;
    const seek = (/** @type {number} */ index) => player.moved(() => clock.seek(index));
    this.isPlaying = false;
    this.play = button("Play", "Space", icon("play"), () => player.moved(() => clock.toggle()));
    this.play.classList.add("play");
    this.speed = /** @type {HTMLSelectElement} */ (
      el(
        "select",
        { "aria-label": "Speed", title: "Speed", onchange: () => void (clock.speed = Number(this.speed.value)) },
        ...SPEEDS.map((speed) => el("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
      )
    );
    const skip = /** @type {HTMLInputElement} */ (
      el("input", { type: "checkbox", onchange: () => void (clock.isSkipping = skip.checked) })
    );
    this.place = el("span", { class: "place num", "aria-hidden": "true" });
    this.previous = button("Previous finding", "p", "◀", () => player.findings.step(-1));
    this.next = button("Next finding", "n", "▶", () => player.findings.step(1));
    this.marks = el("button", {
      type: "button",
      class: "num",
      title: "List the findings",
      onclick: () => player.layout.chooseList("findings"),
    });
    this.findings = el(
      "span",
      { class: "group findings-group", hidden: true },
      this.previous,
      this.marks,
      this.next,
    );
    const shorten = toggle(
      "Shorten silences",
      "Draw long silences between exchanges shorter (z)",
      true,
      (isShortened) => lanes.view.shorten(isShortened),
    );
    this.shorten = shorten;
    this.tableButton = toggle("Table", "Show the lanes as a table (t)", false, (isTable) => player.layout.showTable(isTable));
    this.live = el(
      "button",
      {
        type: "button",
        class: "live",
        "aria-pressed": "false",
        hidden: true,
        title: FOLLOW,
        onclick: () => player.toEnd(),
      },
      el("span", { class: "dot" }),
      "live",
    );
    this.behind = el("span", { class: "behind num quiet" });
    this.element = el(
      "div",
      { class: "toolbar transport", role: "group", "aria-label": "Playback" },
      el(
        "span",
        { class: "group" },
        button("Beginning", "Home", icon("first"), () => seek(0)),
        button("Previous event", "ArrowLeft", icon("back"), () => player.step(-1)),
        this.play,
        button("Next event", "ArrowRight", icon("forward"), () => player.step(1)),
        button("End", "End", icon("last"), () => player.toEnd()),
      ),
      this.speed,
      el("label", { class: "check" }, skip, "Skip silences"),
      this.place,
      this.live,
      this.behind,
      el("span", { class: "gap" }),
      this.findings,
      el(
        "span",
        { class: "group" },
        button("Zoom out", "-", "−", () => player.zoom(1 / ZOOM)),
        button("Show all of the time", "", "All", () => lanes.view.showAll()),
        button("Zoom in", "+", "+", () => player.zoom(ZOOM)),
      ),
      shorten,
      this.tableButton,
    );
  }

  /** @param {number} total */
  setMarks(total) {
    this.findings.hidden = !total;
  }

  /**
   * @param {number} at the finding of the playhead; 0 before the first
   * @param {number} total
   */
  showMark(at, total) {
    setText(this.marks, at ? `${count(at)} of ${plural(total, "finding")}` : plural(total, "finding"));
  }

  /**
   * @param {import("./clock.js").Clock} clock
   */
  show(clock) {
    const ticks = clock.timeline.exchanges[clock.slot];
    const last = clock.timeline.exchanges.length;
    const exchange = ticks && `exchange ${ticks.number}${last > 1 ? ` of ${count(last)}` : ""}`;
    const event = ticks && `event ${count(clock.pos)} of ${count(ticks.t.length - 1)}`;
    const text = ticks ? `${exchange} · ${event} · ${clockTime(clock.t)}` : "no events yet";
    if (this.place.textContent !== text) this.place.textContent = this.place.title = text;
    if (this.isPlaying !== clock.isPlaying) {
      this.isPlaying = clock.isPlaying;
      const label = clock.isPlaying ? "Pause" : "Play";
      this.play.setAttribute("aria-label", label);
      this.play.title = `${label} (Space)`;
      fill(this.play, icon(clock.isPlaying ? "pause" : "play"));
    }
  }

  /**
   * @param {boolean} isOpen the session may grow
   * @param {boolean} isLive the playhead follows its end
   * @param {string} behind
   * @param {string | null} trouble why no news come
   */
  showLive(isOpen, isLive, behind, trouble) {
    this.live.hidden = !isOpen;
    this.live.title = trouble ?? FOLLOW;
    this.live.setAttribute("aria-pressed", String(isLive));
    this.live.classList.toggle("is-live", isLive && trouble === null);
    this.live.classList.toggle("is-lost", trouble !== null);
    this.behind.textContent = !isOpen ? "" : trouble === null ? behind : "connection lost, trying again";
  }
}

/**
 * @param {string} label
 * @param {string} key
 * @param {Node | string} content
 * @param {() => void} command
 */
function button(label, key, content, command) {
  const shown = { ArrowLeft: "←", ArrowRight: "→" }[key] ?? key;
  return el(
    "button",
    {
      type: "button",
      "aria-label": label,
      title: key ? `${label} (${shown})` : label,
      "aria-keyshortcuts": key && key !== "+" ? key : null,
      onclick: command,
    },
    content,
  );
}

/** @param {keyof typeof ICONS} name */
function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({
    viewBox: "0 0 16 16",
    width: "14",
    height: "14",
    "aria-hidden": "true",
  })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}
