// One exchange as it was sent and received: heads, bodies as bytes, and lines to copy that repeat it.

import { copyButton, count, duration, el, fill } from "./dom.js";
import { prettyJson, visible } from "./pretty.js";
import { request } from "./source.js";

const PART_BYTES = 4 * 2 ** 20; // fetched at once: what a browser indents in a tenth of a second
const SHOWN_CHARS = 60_000; // of text added to the page at once: one line of that length is laid out in a frame or two
const SHOWN_ROWS = 512; // of a hex dump
const HEX_COLUMNS = 16;

/** @typedef {[string, string][]} Headers */
/** @typedef {{ text: string | null, note: string | null }} Copy */
/** @typedef {{ method: string, target: string, upstream: string, headers: Headers, wire_bytes: number, body_bytes: number, complete: boolean, undecoded: string | null, redactions?: Record<string, number>, size_bytes: number, file: string }} Request_ */
/** @typedef {{ status: number, reason: string, http_version: string, headers: Headers, t_ns: number }} Response_ */
/** @typedef {{ status: string, outcome: string, error: string | null, wire_bytes: number, body_bytes: number, body_sha256: string, gap_bytes: number, coding: string | null, undecoded: string | null, t_ns: number }} End */
/** @typedef {{ session: { session_id: string, name: string }, number: number, exchanges: number, exchange_id: string, api: string, damage: string | null, request: Request_, response: Response_ | null, end: End | null, file: string, copies: Record<string, Copy> }} Raw */
/** @typedef {{ depth: number, is_complete: boolean, missing_id?: string, reason?: string, parts: { source: string, number: number, items: number }[], size_bytes: number | null }} Model */

const COPIES = [
  ["curl", "curl"],
  ["replay", "recorder replay"],
  ["show", "recorder show"],
  ["export", "recorder export"],
  ["pytest", "pytest"],
];

/** @type {Render} */
export async function render(main, route, app) {
  if (route.session === null || route.exchange === null)
    throw new Error("Name a session and an exchange: #/raw/latest/1.");
  const path = `/api/sessions/${encodeURIComponent(route.session)}/exchanges/${encodeURIComponent(route.exchange)}`;
  const at = route.query.get("at");
  /** @type {Raw} */
  const raw = await app.api(`${path}/raw${at === null ? "" : `?at=${encodeURIComponent(at)}`}`);
  app.setTitle(`Raw ${raw.number} · ${raw.session.name}`);
  const sides = el("div", { class: "split raw-sides" }, requestPanel(raw, path, app), responsePanel(raw, path, app));
  fill(
    main,
    heading(raw),
    raw.damage ? el("p", { class: "error" }, `${raw.damage}.`) : null,
    copyPanel(raw, app),
    sides,
  );
  /** @param {number} by */
  const step = (by) => {
    const number = raw.number + by;
    if (number < 1 || number > raw.exchanges) return false;
    app.go(`#/raw/${raw.session.session_id}/${number}`);
    return true;
  };
  return {
    help: [
      ["j k", "Next, previous exchange"],
      ["Enter", "Open it in the player"],
    ],
    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return false;
      if (event.key === "j") return step(1);
      if (event.key === "k") return step(-1);
      if (event.key !== "Enter" || (event.target !== document.body && event.target !== main.parentElement))
        return false;
      app.go(`#/s/${raw.session.session_id}/x/${raw.number}`);
      return true;
    },
  };
}

/** @param {Raw} raw */
function heading(raw) {
  const { session, number, exchanges } = raw;
  const near = (/** @type {number} */ to, /** @type {string} */ label, /** @type {string} */ sign) =>
    to < 1 || to > exchanges
      ? null
      : el(
          "a",
          { class: "button", href: `#/raw/${session.session_id}/${to}`, "aria-label": label, title: label },
          sign,
        );
  return el(
    "div",
    { class: "toolbar" },
    el("h1", { class: "cut" }, `Exchange ${number} of ${exchanges} · ${visible(session.name)}`),
    near(number - 1, "Previous exchange", "‹"),
    near(number + 1, "Next exchange", "›"),
    el("span", { class: "gap" }),
    el("a", { class: "button", href: `#/s/${session.session_id}/x/${number}` }, "Open in the player"),
  );
}

/**
 * @param {Raw} raw
 * @param {App} app
 */
function copyPanel(raw, app) {
  const kinds = COPIES.filter(([kind]) => kind in raw.copies);
  const place = el("div", { role: "tabpanel", id: "copy-panel", tabindex: 0 });
  /** @type {HTMLElement[]} */
  const tabs = [];
  const choose = (/** @type {number} */ index, hasFocus = false) => {
    const [kind] = kinds[index];
    const { text, note } = raw.copies[kind];
    tabs.forEach((tab, each) => {
      tab.setAttribute("aria-selected", String(each === index));
      tab.tabIndex = each === index ? 0 : -1;
    });
    if (hasFocus) tabs[index].focus();
    place.setAttribute("aria-labelledby", `copy-${kind}`);
    fill(
      place,
      text === null
        ? null
        : el(
            "div",
            { class: "copy-line" },
            el("pre", { class: "code copied", tabindex: 0, role: "region", "aria-label": `Text for ${kind}` }, text),
            copyButton("Copy", () => text, app),
          ),
      note ? el("p", { class: "note" }, note) : null,
    );
  };
  kinds.forEach(([kind, label], index) => {
    const move = (/** @type {KeyboardEvent} */ event) => {
      /** @type {Record<string, number>} */
      const targets = {
        ArrowLeft: (index + kinds.length - 1) % kinds.length,
        ArrowRight: (index + 1) % kinds.length,
        Home: 0,
        End: kinds.length - 1,
      };
      const target = targets[event.key];
      if (target === undefined) return;
      event.preventDefault();
      choose(target, true);
    };
    tabs.push(
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `copy-${kind}`,
          "aria-controls": "copy-panel",
          onclick: () => choose(index),
          onkeydown: move,
        },
        label,
      ),
    );
  });
  choose(0);
  return el(
    "section",
    { class: "panel copies", "aria-label": "Copy as" },
    el("div", { class: "tabs", role: "tablist", "aria-label": "Copy as" }, ...tabs),
    place,
  );
}

/**
 * @param {Raw} raw
 * @param {string} path
 * @param {App} app
 */
function requestPanel(raw, path, app) {
  const { request } = raw;
  const place = el("div");
  /** @type {[string, HTMLElement][]} */
  const buttons = [];
  const choose = (/** @type {string} */ which) => {
    for (const [name, button] of buttons) button.setAttribute("aria-pressed", String(name === which));
    fill(place, which === "sent" ? sentRequest(raw, path, app) : modelRequest(path, app));
  };
  for (const [name, label] of [
    ["sent", "As sent"],
    ["model", "As the model saw it"],
  ]) {
    buttons.push([name, el("button", { type: "button", onclick: () => choose(name) }, label)]);
  }
  choose("sent");
  const group = request.size_bytes
    ? el(
        "div",
        { class: "group", role: "group", "aria-label": "Form of the request" },
        ...buttons.map(([, button]) => button),
      )
    : null;
  return el(
    "section",
    { class: "panel grow", "aria-labelledby": "request-title" },
    el("div", { class: "panel-head" }, el("h2", { id: "request-title" }, "Request"), group),
    place,
  );
}

/**
 * @param {Raw} raw
 * @param {string} path
 * @param {App} app
 */
function sentRequest(raw, path, app) {
  const { request } = raw;
  const redacted = Object.entries(request.redactions ?? {}).map(([kind, number]) => `${count(number)} ${kind}`);
  const facts = [
    request.wire_bytes === request.body_bytes
      ? null
      : `${size(request.wire_bytes)} sent, ${size(request.body_bytes)} decoded`,
    redacted.length ? `redacted: ${redacted.join(", ")}` : null,
    request.complete ? null : "the client did not send all of it",
    request.undecoded ? `not decoded: ${request.undecoded}` : null,
  ].filter(Boolean);
  return el(
    "div",
    { class: "stack" },
    el(
      "p",
      { class: "mono start-line" },
      visible(`${request.method} ${request.target}`),
      el("span", { class: "quiet" }, ` → ${request.upstream}`),
    ),
    headersTable(request.headers, "Headers of the request"),
    facts.length ? el("p", { class: "note" }, facts.join(" · ")) : null,
    request.size_bytes
      ? new BodyView(`${path}/body?of=request`, request.size_bytes, request.file, app).element
      : el("p", { class: "quiet" }, "No body."),
  );
}

/**
 * @param {string} path
 * @param {App} app
 */
function modelRequest(path, app) {
  const place = el("div", { class: "stack" }, el("p", { class: "note" }, "Putting it together…"));
  app.api(`${path}/model`).then(
    (/** @type {Model} */ model) => {
      const parts = model.parts.map((part) =>
        el(
          "li",
          {},
          part.source === "output" ? `answer of exchange ${part.number}` : `input of exchange ${part.number}`,
          el("span", { class: "quiet" }, `, ${part.items} item${part.items === 1 ? "" : "s"}`),
        ),
      );
      fill(
        place,
        model.depth
          ? el(
              "p",
              {},
              `It continues ${model.depth === 1 ? "one earlier exchange" : `${count(model.depth)} earlier exchanges`}. Its items, in order:`,
            )
          : el("p", { class: "quiet" }, "It continues nothing: the model saw what was sent."),
        model.depth ? el("ol", { class: "parts" }, ...parts) : null,
        model.is_complete
          ? null
          : el(
              "p",
              { class: "incomplete" },
              el("span", { class: "badge warning" }, "incomplete"),
              ` ${model.reason ?? ""}: what came before is not shown.`,
            ),
        model.size_bytes === null
          ? el("p", { class: "quiet" }, "The body is no JSON object.")
          : new BodyView(`${path}/body?of=model`, model.size_bytes, "model.json", app).element,
      );
    },
    (error) => fill(place, el("p", { class: "error", role: "alert" }, error.message)),
  );
  return place;
}

/**
 * @param {Raw} raw
 * @param {string} path
 * @param {App} app
 */
function responsePanel(raw, path, app) {
  const { response, end } = raw;
  const facts = [
    response ? `head after ${duration(response.t_ns)}` : null,
    end ? `${end.status}${end.outcome === "eof" ? "" : ` (${end.outcome})`} after ${duration(end.t_ns)}` : "still open",
    end && end.wire_bytes !== end.body_bytes
      ? `${size(end.wire_bytes)} received${end.coding ? ` as ${end.coding}` : ""}, ${size(end.body_bytes)} decoded`
      : null,
    end?.undecoded ? `not decoded: ${end.undecoded}` : null,
    end?.gap_bytes ? `${size(end.gap_bytes)} were not kept` : null,
  ].filter(Boolean);
  const body =
    response && (end === null || end.body_bytes > 0)
      ? new BodyView(`${path}/body?of=response`, end && end.body_bytes, raw.file, app).element
      : el("p", { class: "quiet" }, "No body.");
  return el(
    "section",
    { class: "panel grow", "aria-labelledby": "response-title" },
    el("div", { class: "panel-head" }, el("h2", { id: "response-title" }, "Response")),
    el(
      "div",
      { class: "stack" },
      response
        ? el(
            "p",
            { class: "mono start-line" },
            `HTTP/${response.http_version} `,
            el("span", { class: response.status < 400 ? "strong" : "strong error" }, response.status),
            ` ${response.reason}`,
          )
        : el("p", { class: "quiet" }, "There was no response."),
      response ? headersTable(response.headers, "Headers of the response") : null,
      el("p", { class: "note" }, facts.join(" · ")),
      end?.error ? el("p", { class: "error" }, end.error) : null,
      body,
    ),
  );
}

/**
 * @param {Headers} headers
 * @param {string} label
 */
function headersTable(headers, label) {
  const rows = headers.map(([name, value]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "mono" }, name),
      el("td", { class: /^REDACTED/.test(value) ? "mono quiet" : "mono" }, visible(value)),
    ),
  );
  const table = el("table", { class: "data headers" }, el("tbody", {}, ...rows));
  return rows.length
    ? el(
        "details",
        { class: "heads", open: true },
        el("summary", {}, `${headers.length} header${headers.length === 1 ? "" : "s"}`),
        el("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": label }, table),
      )
    : el("p", { class: "quiet" }, "No headers.");
}

/** The beginning of a body as text, as indented JSON or as a hex dump, with more of it on demand. */
class BodyView {
  /**
   * @param {string} url
   * @param {number | null} size_bytes null if it still grows
   * @param {string} file
   * @param {App} app
   */
  constructor(url, size_bytes, file, app) {
    this.url = url;
    this.app = app;
    this.size_bytes = size_bytes;
    this.bytes = new Uint8Array(0);
    this.isWhole = false;
    this.isLoading = false;
    this.shown = 1;
    this.mode = "";
    this.modes = el("div", { class: "group", role: "group", "aria-label": "Form of the body" });
    this.place = el("div", {}, el("p", { class: "note" }, "Loading…"));
    this.failure = el("p", { class: "error", role: "alert" });
    this.element = el(
      "div",
      { class: "body-view" },
      el(
        "div",
        { class: "panel-head" },
        el("h3", {}, "Body", size_bytes === null ? "" : ` · ${size(size_bytes)}`),
        this.modes,
        el("a", { class: "button", href: url, download: file }, "Save"),
      ),
      this.place,
      this.failure,
    );
    void this.load();
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    fill(this.failure);
    try {
      const response = await request(`${this.url}&from=${this.bytes.length}&limit=${PART_BYTES}`);
      const part = new Uint8Array(await response.arrayBuffer());
      const joined = new Uint8Array(this.bytes.length + part.length);
      joined.set(this.bytes);
      joined.set(part, this.bytes.length);
      this.bytes = joined;
      this.isWhole = part.length < PART_BYTES || joined.length === this.size_bytes;
      this.read();
    } catch (error) {
      // What was read before stays, with the button that asks again.
      if (!this.bytes.length) fill(this.place);
      fill(this.failure, error instanceof Error ? error.message : String(error));
    } finally {
      this.isLoading = false;
    }
  }

  /** Decode what was fetched, and find its forms. */
  read() {
    this.text = decoded(this.bytes);
    this.pretty = this.text === null || !/^\s*[[{]/.test(this.text) ? null : prettyJson(this.text, !this.isWhole);
    const forms = [
      ["json", "Indented", this.pretty !== null && this.pretty !== this.text],
      ["text", "Text", this.text !== null],
      ["hex", "Hex", true],
    ].filter(([, , isThere]) => isThere);
    if (!forms.some(([mode]) => mode === this.mode)) this.mode = String(forms[0][0]);
    fill(
      this.modes,
      ...forms.map(([mode, label]) =>
        el("button", { type: "button", "data-mode": mode, onclick: () => this.choose(String(mode)) }, String(label)),
      ),
    );
    this.draw();
  }

  /** @param {string} mode */
  choose(mode) {
    this.mode = mode;
    this.shown = 1;
    this.draw();
  }

  draw() {
    for (const button of this.modes.children)
      button.setAttribute("aria-pressed", String(button.getAttribute("data-mode") === this.mode));
    if (!this.bytes.length) return fill(this.place, el("p", { class: "quiet" }, "Empty."));
    const isHex = this.mode === "hex";
    const whole = this.mode === "json" ? this.pretty : this.text;
    const [text, isAll] = isHex
      ? hexDump(this.bytes, this.shown * SHOWN_ROWS)
      : beginning(whole ?? "", this.shown * SHOWN_CHARS);
    const hasMore = !isAll || !this.isWhole;
    const more = () => {
      this.shown += 1;
      if (isAll) void this.load();
      else this.draw();
    };
    fill(
      this.place,
      el(
        "pre",
        { class: isHex ? "code hex" : "code", tabindex: 0, role: "region", "aria-label": "Body" },
        visible(text),
      ),
      hasMore
        ? el(
            "div",
            { class: "more" },
            el("button", { type: "button", onclick: more }, "More"),
            el("span", { class: "note" }, this.progress(text.length, isHex)),
          )
        : null,
    );
  }

  /**
   * @param {number} chars
   * @param {boolean} isHex
   */
  progress(chars, isHex) {
    const of = this.size_bytes === null ? "" : ` of ${size(this.size_bytes)}`;
    return isHex
      ? `${size(Math.min(this.bytes.length, this.shown * SHOWN_ROWS * HEX_COLUMNS))}${of}`
      : `${count(chars)} characters are shown${of ? `, the body has ${size(this.size_bytes ?? 0)}` : ""}`;
  }
}

/**
 * Return bytes as text, without half a character at their end; null if they are no UTF-8, or hold NUL.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function decoded(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: true });
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/**
 * Return the beginning of a text, up to the end of a line if one is near.
 * @param {string} text
 * @param {number} limit
 * @returns {[string, boolean]}
 */
function beginning(text, limit) {
  if (text.length <= limit) return [text, true];
  const line = text.lastIndexOf("\n", limit);
  return [text.slice(0, line > limit / 2 ? line : limit), false];
}

/**
 * @param {Uint8Array} bytes
 * @param {number} rows
 * @returns {[string, boolean]}
 */
function hexDump(bytes, rows) {
  const lines = [];
  const end = Math.min(bytes.length, rows * HEX_COLUMNS);
  for (let at = 0; at < end; at += HEX_COLUMNS) {
    const row = [...bytes.subarray(at, Math.min(at + HEX_COLUMNS, end))];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(HEX_COLUMNS * 3 - 1)}  ${text}`);
  }
  return [lines.join("\n"), end === bytes.length];
}

/** @param {number} bytes */
function size(bytes) {
  if (bytes < 10_000) return `${count(bytes)} byte${bytes === 1 ? "" : "s"}`;
  return bytes < 2 ** 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
