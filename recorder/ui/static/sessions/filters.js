// The filters of the list of sessions: a form, and the query of the API that it makes.

import { el } from "../dom.js";

const NAMES = ["q", "model", "client", "status", "since", "until", "probes"];
const TIMES = ["since", "until"];
const UNITS_MS = /** @type {Record<string, number>} */ ({
  ms: 1,
  s: 1000,
  m: 60e3,
  h: 3600e3,
  d: 86400e3,
  w: 604800e3,
});
/** As `recorder sessions --status` takes them; a test compares. */
const STATUSES = [
  ...[
    "open",
    "completed",
    "incomplete",
    "failed",
    "error_status",
    "client_disconnect",
    "upstream_reset",
    "upstream_unreachable",
  ],
  ...["truncated", "timeout", "recorder_shutdown", "token_revoked", "recorder_crash", "unknown"],
];
/** Pause of typing after which the filters are applied. */
const TYPED_MS = 250;

/** The form; its fields are in the address. */
export class Filters {
  /**
   * @param {() => void} changed
   * @param {() => void} submitted
   */
  constructor(changed, submitted) {
    this.changed = changed;
    this.typed = 0;
    this.search = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "search",
        name: "q",
        "data-search": true,
        placeholder: "words in prompts, answers, tool calls and results",
        autocomplete: "off",
        spellcheck: "false",
      })
    );
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      clearTimeout(this.typed);
      submitted();
    };
    const type = () => {
      clearTimeout(this.typed);
      this.typed = setTimeout(changed, TYPED_MS);
    };
    const statuses = STATUSES.map((each) => el("option", { value: each }, each.replaceAll("_", " ")));
    const status = el("select", { name: "status" }, el("option", { value: "" }, "any"), ...statuses);
    this.element = /** @type {HTMLFormElement} */ (
      el(
        "form",
        { class: "toolbar bottom", role: "search", "aria-label": "Sessions", oninput: type, onsubmit: submit },
        el("label", { class: "field sessions-search" }, "Search", this.search),
        textField("model", "Model", "gpt-5"),
        textField("client", "Client", "codex"),
        el("label", { class: "field" }, "Status", status),
        textField("since", "Since", "7d or a date"),
        textField("until", "Until", "1d or a date"),
        el("label", { class: "check" }, el("input", { type: "checkbox", name: "probes", value: "1" }), "Probes"),
        el("button", { type: "button", onclick: () => this.#clear() }, "Clear"),
        // Without it Enter does nothing in a form of several fields.
        el("button", { type: "submit", hidden: true }),
      )
    );
  }

  /**
   * Show the filters of an address.
   * @param {URLSearchParams} query
   */
  set(query) {
    for (const name of NAMES) {
      const field = this.#field(name);
      if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = query.get(name) === "1";
      else field.value = query.get(name) ?? "";
    }
  }

  #clear() {
    this.set(new URLSearchParams());
    this.search.focus();
    clearTimeout(this.typed);
    this.changed();
  }

  /** Return the filters that are set, as an address has them. */
  values() {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(this.element)) {
      if (String(value).trim()) query.set(name, String(value).trim());
    }
    return query;
  }

  /** Return the query of the API. Throws an error for a time that is none, which its field shows too. */
  query() {
    const query = this.values();
    for (const name of TIMES) {
      const text = query.get(name);
      const at = text === null ? "" : instant(text);
      if (at === null) this.#field(name).setAttribute("aria-invalid", "true");
      else this.#field(name).removeAttribute("aria-invalid");
      if (at === null) throw new Error(`${text} is not a time: write ${TIME_FORMS}.`);
      if (at) query.set(name, at);
    }
    return query;
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement | HTMLSelectElement} */ (this.element.elements.namedItem(name));
  }

  close() {
    clearTimeout(this.typed);
  }
}

const TIME_FORMS = "30m, 12h, 7d, 2w, a date, or date and time (ISO 8601)";

/**
 * @param {string} name
 * @param {string} label
 * @param {string} placeholder
 */
function textField(name, label, placeholder) {
  const input = el("input", { name, placeholder, autocomplete: "off", spellcheck: "false" });
  return el("label", { class: "field" }, label, input);
}

/**
 * Parse an age or an ISO 8601 time, which is local without a zone: as `--since` takes it.
 * @param {string} text
 * @returns {string | null} nanoseconds since 1970; null if it is not a time
 */
function instant(text) {
  const age = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/.exec(text);
  const isDate = /^\d{4}-\d\d-\d\d$/.test(text);
  const isTime = /^\d{4}-\d\d-\d\d[T ]\d\d(:\d\d){0,2}/.test(text);
  const ms = age
    ? Date.now() - Number(age[1]) * UNITS_MS[age[2]]
    : isDate
      ? new Date(`${text}T00:00`).getTime()
      : isTime
        ? new Date(text.replace(" ", "T")).getTime()
        : NaN;
  return Number.isFinite(ms) ? `${Math.max(0, Math.round(ms))}000000` : null;
}
