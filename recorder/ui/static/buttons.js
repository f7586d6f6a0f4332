// Buttons that do more than to be pressed: one that copies, one that stays pressed, several of which one is.

import { el } from "./dom.js";

/**
 * Make a button that copies a text, and says so.
 * @param {string} label
 * @param {() => string} read
 * @param {App} app
 */
export function copyButton(label, read, app) {
  const copy = () =>
    navigator.clipboard.writeText(read()).then(
      () => app.announce("Copied."),
      () => app.announce("The browser did not allow the copy."),
    );
  return el("button", { type: "button", onclick: copy }, label);
}

/**
 * Make a button that stays pressed until it is pressed again.
 * @param {string} label
 * @param {string} title
 * @param {boolean} isOn
 * @param {(isOn: boolean) => void} command
 */
export function toggle(label, title, isOn, command) {
  const onclick = () => {
    const next = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", String(next));
    command(next);
  };
  const made = el("button", { type: "button", title, "aria-pressed": String(isOn), onclick }, label);
  return made;
}

/** Buttons side by side, of which one is pressed. */
export class Choice {
  /**
   * @param {string} label
   * @param {(name: string) => void} choose
   */
  constructor(label, choose) {
    this.choose = choose;
    this.element = el("div", { class: "group", role: "group", "aria-label": label });
  }

  /**
   * Offer these, and show one of them as pressed.
   * @param {{ name: string, label: string }[]} options
   * @param {string} chosen
   */
  offer(options, chosen) {
    const buttons = options.map(({ name, label }) =>
      el("button", { type: "button", "data-name": name, onclick: () => this.choose(name) }, label),
    );
    this.element.replaceChildren(...buttons);
    this.select(chosen);
  }

  /** @param {string} chosen */
  select(chosen) {
    for (const button of this.element.children) {
      button.setAttribute("aria-pressed", String(button.getAttribute("data-name") === chosen));
    }
  }
}
