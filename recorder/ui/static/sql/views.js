// The documented views beside the box: their columns, each with its meaning, and names to insert.

import { el } from "../dom.js";

/** @typedef {{ view: string, row: string, columns: { name: string, meaning: string }[], example: string }} View */

/**
 * Make the list of the views, with a box that finds one by its name or a column.
 * @param {View[]} views
 * @param {(name: string) => void} insert
 * @param {(sql: string) => void} run
 */
export function viewList(views, insert, run) {
  const sections = views.map((view) => ({ view, element: section(view, insert, run) }));
  const find = () => {
    const words = /** @type {HTMLInputElement} */ (filter).value.trim().toLowerCase();
    for (const { view, element } of sections) {
      const isFound = (/** @type {string} */ name) => words !== "" && name.includes(words);
      const hasColumn = view.columns.some((column) => isFound(column.name));
      element.hidden = words !== "" && !isFound(view.view) && !hasColumn;
      element.toggleAttribute("open", hasColumn);
      for (const [index, item] of element.querySelectorAll("li").entries()) {
        item.classList.toggle("found", isFound(view.columns[index].name));
      }
    }
  };
  const label = "Find a view or column";
  const filter = el("input", { type: "search", "aria-label": label, placeholder: label.toLowerCase(), oninput: find });
  return [el("div", { class: "sql-find" }, filter), ...sections.map(({ element }) => element)];
}

/**
 * @param {View} view
 * @param {(name: string) => void} insert
 * @param {(sql: string) => void} run
 */
function section(view, insert, run) {
  const command = (/** @type {string} */ label, /** @type {string} */ kind, /** @type {() => void} */ onclick) =>
    el("button", { type: "button", class: `plain ${kind}`.trim(), onclick }, label);
  const columns = view.columns.map(({ name, meaning }) =>
    el(
      "li",
      {},
      command(name, "mono", () => insert(name)),
      el("span", { class: "note" }, ...prose(meaning)),
    ),
  );
  return el(
    "details",
    {},
    el("summary", {}, el("span", { class: "mono strong" }, view.view)),
    el("p", { class: "note" }, ...prose(view.row)),
    el(
      "div",
      { class: "sql-actions" },
      command("insert name", "", () => insert(view.view)),
      command("run example", "", () => run(view.example)),
    ),
    el("ul", { class: "sql-columns" }, ...columns),
  );
}

/**
 * Set what is between backticks as code.
 * @param {string} text
 */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
}
