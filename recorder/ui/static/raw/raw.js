// One exchange as it was sent and received: heads, bodies as bytes, and lines to copy that repeat it.

import { BodyView } from "./body_view.js";
import { Choice, copyButton } from "../buttons.js";
import { el, fill } from "../dom.js";
import { count, duration, messageOf, plural, size } from "../format.js";
import { visible } from "../pretty.js";
import { scrolling } from "../table.js";
import { Tabs } from "../tabs.js";

const COPIES = [
  ["curl", "curl"],
  ["python", "Python"],
  ["node", "Node"],
  ["replay", "recorder replay"],
  ["show", "recorder show"],
  ["export", "recorder export"],
  ["pytest", "pytest"],
];

/** @type {Render} */
export async function render(main, route, app) {
  if (route.session === null || route.exchange === null) {
    throw new Error("Name a session and an exchange: #/raw/latest/1.");
  }
  const path = `/api/sessions/${encodeURIComponent(route.session)}/exchanges/${encodeURIComponent(route.exchange)}`;
  const at = route.query.get("at");
  /** @type {RawExchange} */
  const raw = await app.api(`${path}/raw${at === null ? "" : `?at=${encodeURIComponent(at)}`}`);
  app.setTitle(`Raw ${raw.number} · ${raw.session.name}`);
  const sides = el("div", { class: "split raw-sides" }, requestPanel(raw, path, app), responsePanel(raw, path));
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
      if (event.key !== "Enter" || (event.target !== document.body && event.target !== main.parentElement)) {
        return false;
      }
      app.go(`#/s/${raw.session.session_id}/x/${raw.number}`);
      return true;
    },
  };
}

/** @param {RawExchange} raw */
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
 * @param {RawExchange} raw
 * @param {App} app
 */
function copyPanel(raw, app) {
  const panel = el("div", { id: "copy-panel" });
  const choose = (/** @type {string} */ kind) => {
    const { text, note } = raw.copies[kind];
    tabs.select(kind);
    fill(panel, text === null ? null : copyLine(text, kind, app), note ? el("p", { class: "note" }, note) : null);
  };
  const kinds = COPIES.filter(([kind]) => kind in raw.copies);
  const named = kinds.map(([kind, label]) => ({ name: kind, content: [label] }));
  const tabs = new Tabs("Copy as", named, panel, choose);
  choose(kinds[0][0]);
  return el("section", { class: "panel copies", "aria-label": "Copy as" }, tabs.element, panel);
}

/**
 * @param {string} text
 * @param {string} kind
 * @param {App} app
 */
function copyLine(text, kind, app) {
  const attributes = { class: "code copied", tabindex: 0, role: "region", "aria-label": `Text for ${kind}` };
  return el(
    "div",
    { class: "copy-line" },
    el("pre", attributes, text),
    copyButton("Copy", () => text, app),
  );
}

/**
 * @param {RawExchange} raw
 * @param {string} path
 * @param {App} app
 */
function requestPanel(raw, path, app) {
  const place = el("div");
  const forms = new Choice("Form of the request", (form) => {
    forms.select(form);
    fill(place, form === "sent" ? sentRequest(raw, path) : modelRequest(path, app));
  });
  const offered = [
    { name: "sent", label: "As sent" },
    { name: "model", label: "As the model saw it" },
  ];
  forms.offer(offered, "sent");
  fill(place, sentRequest(raw, path));
  const head = el("h2", { id: "request-title" }, "Request");
  return el(
    "section",
    { class: "panel grow", "aria-labelledby": "request-title" },
    el("div", { class: "panel-head" }, head, raw.request.size_bytes ? forms.element : null),
    place,
  );
}

/**
 * @param {RawExchange} raw
 * @param {string} path
 */
function sentRequest(raw, path) {
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
      ? new BodyView(`${path}/body?of=request`, request.size_bytes, request.file).element
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
    (/** @type {ModelRequest} */ model) => fill(place, ...modelParts(model, path)),
    (error) => fill(place, el("p", { class: "error", role: "alert" }, messageOf(error))),
  );
  return place;
}

/**
 * @param {ModelRequest} model
 * @param {string} path
 */
function modelParts(model, path) {
  const { depth, size_bytes } = model;
  const earlier = depth === 1 ? "one earlier exchange" : `${count(depth)} earlier exchanges`;
  const parts = model.parts.map(({ source, number, items }) =>
    el(
      "li",
      {},
      `${source === "output" ? "answer" : "input"} of exchange ${number}`,
      el("span", { class: "quiet" }, `, ${plural(items, "item")}`),
    ),
  );
  const badge = el("span", { class: "badge warning" }, "incomplete");
  return [
    depth
      ? el("p", {}, `It continues ${earlier}. Its items, in order:`)
      : el("p", { class: "quiet" }, "It continues nothing: the model saw what was sent."),
    depth ? el("ol", { class: "parts" }, ...parts) : null,
    model.is_complete
      ? null
      : el("p", { class: "incomplete" }, badge, ` ${model.reason ?? ""}: what came before is not shown.`),
    size_bytes === null
      ? el("p", { class: "quiet" }, "The body is not a JSON object.")
      : new BodyView(`${path}/body?of=model`, size_bytes, "model.json").element,
  ];
}

/**
 * @param {RawExchange} raw
 * @param {string} path
 */
function responsePanel(raw, path) {
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
      ? new BodyView(`${path}/body?of=response`, end && end.body_bytes, raw.file).element
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
 * @param {[string, string][]} headers
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
        el("summary", {}, plural(headers.length, "header")),
        scrolling(label, table),
      )
    : el("p", { class: "quiet" }, "No headers.");
}
