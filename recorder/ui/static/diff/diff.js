// The page that compares two sessions or exchanges, level by level, with both on one time axis.

import { el, fill } from "../dom.js";
import { messageOf } from "../format.js";
import { Form, termsOf } from "./form.js";
import { LEVELS } from "./levels.js";
import { Result } from "./result.js";

/** @type {Render} */
export async function render(main, route, app) {
  app.setTitle("Diff");
  const page = new DiffPage(main, app);
  await page.show(route);
  return page;
}

/** @implements {Page} */
class DiffPage {
  /**
   * @param {HTMLElement} main
   * @param {App} app
   */
  constructor(main, app) {
    this.app = app;
    this.results = el("div", { class: "diff-results" });
    this.form = new Form(app);
    fill(main, this.form.element, this.results);
    /** @type {Result | null} */
    this.result = null;
    this.asked = "";
    /** @type {[string, string][]} */
    this.help = [
      ["j k", "Next, previous pair"],
      ["1 … 7", "Level: request, answer, tools, usage, timing, events, bytes"],
    ];
  }

  /** @param {Route} route */
  async show(route) {
    this.form.set(route.query);
    const asked = termsOf(route.query).toString();
    if (!route.query.get("a") || !route.query.get("b")) {
      this.clear();
      this.asked = asked;
      fill(
        this.results,
        el("p", { class: "empty" }, "Choose two sessions. With :N at its end, a reference is one exchange: latest:2."),
      );
      const chooser = await this.form.chooser();
      if (chooser && this.asked === asked) this.results.append(chooser);
      return;
    }
    this.asked = asked;
    this.clear();
    fill(this.results, el("p", { class: "empty", role: "status" }, "Comparing…"));
    try {
      /** @type {Comparison} */
      const found = await this.app.api(`/api/diff?${asked}`);
      if (this.asked !== asked) return;
      this.app.setTitle(`${found.sessions.a.name} ↔ ${found.sessions.b.name}`);
      this.result = new Result(found, asked, this.app, route.query);
      fill(this.results, this.result.element);
    } catch (error) {
      if (this.asked !== asked) return;
      fill(this.results, el("p", { role: "alert", class: "error" }, messageOf(error)));
    }
  }

  clear() {
    this.result?.close();
    this.result = null;
  }

  /** @param {Route} route */
  update(route) {
    if (this.result && termsOf(route.query).toString() === this.asked) this.result.choose(route.query);
    else void this.show(route);
    return true;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.result || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "j") return this.result.step(1);
    if (event.key === "k") return this.result.step(-1);
    const level = LEVELS[Number(event.key) - 1];
    return level ? this.result.showLevel(level) : false;
  }

  close() {
    this.asked = "";
    this.clear();
  }
}
