// What is beside the box: the views, questions with their SQL, and the statements that were run before.

import { el, fill } from "../dom.js";
import { Tabs } from "../tabs.js";
import { forget, history, remember } from "./history.js";
import { viewList } from "./views.js";

const TABS = [
  { name: "views", content: ["Views"] },
  { name: "examples", content: ["Examples"] },
  { name: "history", content: ["History"] },
];

/** @typedef {{ insert: (name: string) => void, run: (sql: string) => void }} Commands */

/** Three lists, of which one is shown. */
export class Side {
  /**
   * @param {App} app
   * @param {Commands} commands
   */
  constructor(app, commands) {
    this.app = app;
    this.commands = commands;
    /** @type {Record<string, Node[]>} */
    this.lists = { views: [], examples: [] };
    this.shown = "views";
    this.panel = el("div", { class: "sql-views scroll", id: "sql-side" });
    this.tabs = new Tabs("Beside the SQL", TABS, this.panel, (name) => this.show(name));
    this.element = el("aside", { class: "sql-side", "aria-label": "Help with SQL" }, this.tabs.element, this.panel);
  }

  async load() {
    const { insert, run } = this.commands;
    const paths = ["/api/views", "/api/examples"];
    const [views, examples] = await Promise.all(paths.map((path) => this.app.api(path).catch(() => [])));
    this.lists = {
      views: viewList(views, insert, run),
      examples: examples.map((/** @type {{ question: string, sql: string }} */ { question, sql }) =>
        this.#statement(question, sql),
      ),
    };
    this.show(this.shown);
  }

  /** @param {string} name */
  show(name) {
    this.shown = name;
    this.tabs.select(name);
    fill(this.panel, ...(name === "history" ? this.#history() : this.lists[name]));
  }

  /** @param {string} sql that was run */
  remember(sql) {
    remember(sql);
    if (this.shown === "history") this.show("history");
  }

  #history() {
    const kept = history();
    if (!kept.length) return [el("p", { class: "empty" }, "What you run is listed here, in this browser only.")];
    const clear = () => {
      forget();
      this.show("history");
    };
    const button = el("button", { type: "button", class: "plain", onclick: clear }, "Clear history");
    return [...kept.map((sql) => this.#statement(sql, sql, "mono")), button];
  }

  /**
   * @param {string} label
   * @param {string} sql
   * @param {string} [kind] a class
   */
  #statement(label, sql, kind = "") {
    const onclick = () => this.commands.run(sql);
    return el("button", { type: "button", class: `plain sql-statement ${kind}`.trim(), title: sql, onclick }, label);
  }
}
