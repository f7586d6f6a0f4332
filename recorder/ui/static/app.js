// The shell: navigation, routes in the hash, one page at a time, and the keys that work on each of them.

import { el, fill, isTyping, showDialog } from "./dom.js";
import { messageOf } from "./format.js";
import { keep, kept } from "./kept.js";
import { api, HttpSource, IN_HASH, takeToken } from "./source.js";

/** @type {Record<string, () => Promise<{ render: Render }>>} */
const PAGES = {
  home: () => import("./home.js"),
  sessions: () => import("./sessions/sessions.js"),
  player: () => import("./player/player.js"),
  diff: () => import("./diff/diff.js"),
  sql: () => import("./sql/sql.js"),
  raw: () => import("./raw/raw.js"),
};

/**
 * What a page asks for first, while its modules are loaded.
 * @type {Record<string, (source: Source, route: Route) => Promise<any>>}
 */
const FIRST = {
  player: (source, { session }) => {
    const reference = session ?? "latest";
    return Promise.all([source.session(reference), source.timeline(reference)]);
  },
};

/** Keys of every page, as the help shows them. */
const KEYS = [
  ["/", "Search sessions"],
  ["?", "Show this help"],
  ["Esc", "Close the help"],
];
const ANNOUNCED_MS = 4000;
const NO_KEYS = "recorder.no-single-keys";

const IN_FILE = /^#?(?=[xe]=)/;

/**
 * Read a route from the hash of the address. In a file of one session, `#x=3&e=82` is a place in it.
 * @param {string} hash
 * @param {string} [only] the session of the file
 * @returns {Route}
 */
export function parseRoute(hash, only) {
  if (only !== undefined && IN_FILE.test(hash)) {
    const query = new URLSearchParams(hash.replace(/^#/, ""));
    const pos = query.get("e");
    return { page: "player", session: only, exchange: query.get("x"), pos: pos === null ? null : Number(pos), query };
  }
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decode);
  /** @type {Route} */
  const route = {
    page: parts[0] ?? "home",
    session: null,
    exchange: null,
    pos: null,
    query: new URLSearchParams(query),
  };
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
 * Return the hash of a place as a file of one session has it: the file is its name.
 * @param {string} hash
 * @param {string} only the session of the file
 */
function placeInFile(hash, only) {
  const { page, session, exchange, pos } = parseRoute(hash);
  if (page !== "player" || session !== only) return hash;
  const parts = [exchange && `x=${encodeURIComponent(exchange)}`, exchange && pos !== null && `e=${pos}`];
  return `#${parts.filter(Boolean).join("&")}`;
}

/**
 * Decode a part of a path; one that is not encoded correctly stands for itself.
 * @param {string} part
 */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
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
  let shown = "";
  let silent = 0;
  /** @type {App} */
  const app = {
    source,
    api,
    left: new AbortController().signal,
    go: (hash) => void (location.hash = hash),
    replace: (hash) => history.replaceState(null, "", source.only ? placeInFile(hash, source.only) : hash),
    setTitle: (title) => void (document.title = `${title} · recorder`),
    announce: (message) => {
      fill(status, message);
      clearTimeout(silent);
      silent = setTimeout(() => fill(status), ANNOUNCED_MS);
    },
  };
  let leaving = new AbortController();
  const draw = async () => {
    const route = parseRoute(location.hash, source.only);
    if (route.page === shown && page.update?.(route)) return;
    leaving.abort();
    leaving = new AbortController();
    const left = leaving.signal;
    page.close?.();
    page = {};
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("data-page") === route.page) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const isFirst = shown === "";
    shown = route.page;
    const place = el("div", { class: "page", "data-page": route.page });
    fill(main, place);
    main.scrollTop = 0;
    document.title = "recorder";
    if (!isFirst) main.focus({ preventScroll: true });
    try {
      const load = PAGES[route.page];
      if (!load) throw new Error(`There is no page ${route.page}.`);
      const first = FIRST[route.page]?.(source, route);
      first?.catch(() => undefined); // the page that waits for it says why
      const { render } = await load();
      const drawn = await render(place, route, whileShown(app, left), first ?? Promise.resolve());
      if (left.aborted) drawn.close?.();
      else page = drawn;
    } catch (error) {
      if (!left.aborted) fill(place, el("p", { role: "alert", class: "error" }, messageOf(error)));
    } finally {
      place.dataset.ready = "";
    }
  };
  window.addEventListener("hashchange", (event) => {
    const { hash } = new URL(event.newURL);
    if (!source.isFile && IN_HASH.test(hash)) return location.reload(); // another token
    // The page that is left may have written its place into the address since.
    if (location.hash !== hash) history.replaceState(null, "", hash);
    draw();
  });
  document.querySelector("[data-skip]")?.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.querySelector("[data-help]")?.addEventListener("click", () => showHelp(page));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (isPlain && event.key.length === 1 && (isTyping(event) || !hasSingleKeys())) return;
    if (page.key?.(event)) event.preventDefault();
    else if (isPlain && event.key === "?") showHelp(page);
    else if (isPlain && event.key === "/" && !source.isFile) {
      event.preventDefault();
      search(app);
    }
  });
  describe(source);
  await draw();
}

/**
 * Return the app of one page: an answer that comes after the page was left changes nothing of the next one, and what it
 * still asks for is given up.
 * @param {App} app
 * @param {AbortSignal} left
 * @returns {App}
 */
function whileShown(app, left) {
  return {
    ...app,
    left,
    api: (path, body, parse, signal = left) => app.api(path, body, parse, signal),
    go: (hash) => void (left.aborted || app.go(hash)),
    replace: (hash) => void (left.aborted || app.replace(hash)),
    setTitle: (title) => void (left.aborted || app.setTitle(title)),
    announce: (message) => void (left.aborted || app.announce(message)),
  };
}

/**
 * Put the focus into the page's search box, else into that of the sessions.
 * @param {App} app
 */
function search(app) {
  const box = document.querySelector("main [data-search]");
  if (box instanceof HTMLInputElement) {
    box.focus();
    box.select();
  } else app.go("#/sessions?focus=1");
}

/**
 * Name the database in the header.
 * @param {Source} source
 */
async function describe(source) {
  const place = document.querySelector("#about");
  const about = await source.about().catch(() => null);
  if (!place || !about) return;
  const name = String(about.database ?? "");
  fill(place, name.split("/").pop() ?? name);
  place.setAttribute("title", name);
  if (about.is_stale) {
    place.prepend(
      el(
        "span",
        { class: "badge warning", title: "`recorder db rebuild` computes the views again." },
        "views are stale",
      ),
      " ",
    );
  }
}

/**
 * Show the keys of all pages and of this one.
 * @param {Page} page
 */
function showHelp(page) {
  const rows = [...(page.help ?? []), ...KEYS].flatMap(([keys, meaning]) => [
    el("dt", {}, ...keys.split(" ").flatMap((key) => [el("kbd", {}, key), " "])),
    el("dd", {}, meaning),
  ]);
  const box = el("input", {
    type: "checkbox",
    checked: hasSingleKeys(),
    onchange: () => keep(NO_KEYS, !(/** @type {HTMLInputElement} */ (box).checked)),
  });
  showDialog(
    { "aria-labelledby": "help-title" },
    el("h1", { id: "help-title" }, "Keys"),
    el("dl", { class: "facts" }, ...rows),
    el("label", { class: "check" }, box, "Keys without Ctrl are active"),
  );
}

/** Return true unless the user turned off keys without a modifier (WCAG 2.1.4). */
function hasSingleKeys() {
  return !kept(NO_KEYS);
}

if (document.documentElement.dataset.source === "http") {
  takeToken();
  start(new HttpSource());
}
