// The shell: navigation, routes in the hash, one page at a time.

import { el, fill } from "./dom.js";
import { api, HttpSource } from "./source.js";

/** @type {Record<string, () => Promise<{ render: Render }>>} */
const PAGES = {
  home: () => import("./home.js"),
  sessions: () => import("./sessions.js"),
  player: () => import("./player/player.js"),
  diff: () => import("./diff.js"),
  sql: () => import("./sql.js"),
  raw: () => import("./raw.js"),
};

/**
 * Read a route from the hash of the address.
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  /** @type {Route} */
  const route = { page: parts[0] ?? "home", session: null, exchange: null, pos: null, query: new URLSearchParams(query) };
  if (parts[0] === "s") {
    route.page = "player";
    route.session = parts[1] ?? null;
    if (parts[2] === "x") route.exchange = parts[3] ?? null;
    if (parts[4] === "e") route.pos = Number(parts[5]);
  } else if (parts[0] === "raw") {
    route.session = parts[1] ?? null;
    route.exchange = parts[2] ?? null;
  }
  return route;
}

/**
 * Draw the page of the address, and of each later one.
 * @param {Source} source
 */
export async function start(source) {
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  const status = /** @type {HTMLElement} */ (document.querySelector("#status"));
  /** @type {Page} */
  let page = {};
  /** @type {App} */
  const app = {
    source,
    api,
    go: (hash) => void (location.hash = hash),
    replace: (hash) => history.replaceState(null, "", hash),
    setTitle: (title) => void (document.title = `${title} · recorder`),
    announce: (message) => fill(status, message),
  };
  let drawn = 0;
  const draw = async () => {
    const mine = ++drawn;
    const route = parseRoute(location.hash);
    if (page.update?.(route)) return;
    page.close?.();
    page = {};
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("data-page") === route.page) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const place = el("div", { class: "page", "data-page": route.page });
    fill(main, place);
    try {
      const load = PAGES[route.page];
      if (!load) throw new Error(`There is no page ${route.page}.`);
      const drawnPage = await (await load()).render(place, route, app);
      if (mine === drawn) page = drawnPage;
      else drawnPage.close?.();
    } catch (error) {
      fill(place, el("p", { role: "alert", class: "error" }, error instanceof Error ? error.message : String(error)));
    }
  };
  window.addEventListener("hashchange", draw);
  document.addEventListener("keydown", (event) => {
    if (page.key?.(event)) event.preventDefault();
  });
  await draw();
}

if (document.documentElement.dataset.source === "http") start(new HttpSource());
