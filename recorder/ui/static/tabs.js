// Tabs above one panel: a click, arrow keys, Home and End choose.

import { el } from "./dom.js";

/** The tabs. Their owner calls `select`, and fills the panel. */
export class Tabs {
  /**
   * @param {string} label
   * @param {{ name: string, content: (Node | string)[] }[]} tabs
   * @param {HTMLElement} panel has an id
   * @param {(name: string) => void} choose
   * @param {boolean} [hasEnds] false where Home and End are keys of the page
   */
  constructor(label, tabs, panel, choose, hasEnds = true) {
    this.names = tabs.map(({ name }) => name);
    this.panel = panel;
    this.choose = choose;
    this.hasEnds = hasEnds;
    this.at = 0;
    this.buttons = tabs.map(({ name, content }) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `${panel.id}-${name}`,
          "aria-controls": panel.id,
          onclick: () => choose(name),
        },
        ...content,
      ),
    );
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    this.element = el("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown }, ...this.buttons);
    panel.setAttribute("role", "tabpanel");
    panel.tabIndex = 0;
  }

  /**
   * Show a tab as the chosen one.
   * @param {string} name
   */
  select(name) {
    this.at = this.names.indexOf(name);
    for (const [index, button] of this.buttons.entries()) {
      button.setAttribute("aria-selected", String(index === this.at));
      button.tabIndex = index === this.at ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `${this.panel.id}-${name}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { length } = this.names;
    const ends = this.hasEnds ? { Home: 0, End: length - 1 } : {};
    /** @type {Record<string, number | undefined>} */
    const targets = { ArrowLeft: (this.at + length - 1) % length, ArrowRight: (this.at + 1) % length, ...ends };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.choose(this.names[target]);
    this.buttons[target].focus();
  }
}
