// What an exchange asked for: a folded line, and on demand the system prompt, the tools, the messages and the settings.

import { el, fill } from "../dom.js";
import { count, messageOf, plural } from "../format.js";
import { prettyJson, visible } from "../pretty.js";

/** Characters of a system prompt that are shown around the first one that differs. */
const AROUND = 60;

/** The request of an exchange. Its sizes are asked for when it is first visible, its texts when it is opened. */
export class AskedView {
  /** @param {(isBrief: boolean) => Promise<Asked>} load */
  constructor(load) {
    this.load = load;
    this.isLoaded = false;
    this.isOpened = false;
    this.line = el("summary", { class: "quiet" });
    this.place = el("div", { class: "asked-parts" });
    this.element = el(
      "details",
      { class: "asked", hidden: true, ontoggle: () => void this.#open() },
      this.line,
      this.place,
    );
  }

  /** Show the line, once the request is in the log. */
  async show() {
    if (this.isLoaded) return;
    this.isLoaded = true;
    try {
      const { read } = await this.load(true);
      if (read) fill(this.line, summary(read));
      this.element.hidden = !read;
    } catch {
      this.isLoaded = false; // the request is not whole yet: the next state asks again
    }
  }

  async #open() {
    if (this.isOpened) return;
    this.isOpened = true;
    fill(this.place, el("p", { class: "note" }, "Loading…"));
    try {
      const asked = await this.load(false);
      fill(this.place, ...parts(asked));
    } catch (error) {
      this.isOpened = false;
      fill(this.place, el("p", { class: "error", role: "alert" }, messageOf(error)));
    }
  }
}

/** @param {AskedRequest} read */
function summary(read) {
  const { settings, kept_messages } = read;
  const fresh = kept_messages === null ? 0 : read.messages - kept_messages;
  const changed = [
    read.system_differs_at === null ? null : "another system prompt",
    read.changed_tools.length ? "other tools" : null,
    read.dropped_messages ? `${plural(read.dropped_messages, "earlier item")} not repeated` : null,
  ];
  const limit = settings.max_output_tokens;
  const known = [
    read.system_chars ? `system ${plural(read.system_chars, "character")}` : null,
    read.tools ? plural(read.tools, "tool") : null,
    `${plural(read.messages, "item")}${kept_messages === null ? "" : `, ${count(fresh)} of them new`}`,
    settings.reasoning_effort ? `effort ${settings.reasoning_effort}` : null,
    typeof limit === "number" ? `max ${count(limit)}` : null,
    ...changed,
  ];
  return `asked: ${known.filter(Boolean).join(" · ")}`;
}

/** @param {Asked} asked */
function parts({ read, before, is_complete }) {
  if (!read) return [];
  const settings = Object.entries(read.settings).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return [
    is_complete ? null : el("p", { class: "note" }, "What came before this request was not recorded."),
    before === null ? null : el("p", { class: "note" }, `Marked is what differs from the request of exchange ${before}.`),
    read.system_chars ? folded("system", read.system_chars, systemPart(read)) : null,
    ...toolParts(read),
    ...messageParts(read),
    settings.length ? el("p", { class: "quiet" }, visible(settings.join(" · "))) : null,
  ].filter((part) => part !== null);
}

/** @param {AskedRequest} read */
function systemPart(read) {
  const at = read.system_differs_at;
  const text = read.system?.text ?? "";
  const from = Math.max(0, (at ?? 0) - AROUND);
  return el(
    "div",
    {},
    at === null
      ? null
      : el(
          "p",
          { class: "note is-new" },
          `It differs from character ${count(at + 1)} on: `,
          el("span", { class: "mono" }, visible(`${text.slice(from, at)}▸${text.slice(at, at + AROUND)}`)),
        ),
    cutText(read.system),
  );
}

/** @param {AskedRequest} read */
function toolParts(read) {
  const tools = (read.tool_list ?? []).map((tool) =>
    el(
      "details",
      { class: tool.state === "same" ? null : "is-new" },
      el(
        "summary",
        {},
        el("span", { class: "mono" }, visible(tool.name), " "),
        tool.state === "same" ? null : el("span", { class: "badge warning" }, tool.state),
      ),
      tool.description.chars ? el("p", {}, visible(tool.description.text)) : null,
      tool.parameters.chars ? cutText(tool.parameters) : null,
    ),
  );
  const names = new Set((read.tool_list ?? []).map(({ name }) => name));
  const gone = read.changed_tools.filter((name) => !names.has(name));
  return [
    tools.length ? folded("tools", read.tools, el("div", { class: "stack" }, ...tools)) : null,
    gone.length ? el("p", { class: "note is-new" }, `No longer offered: ${visible(gone.join(", "))}.`) : null,
  ];
}

/** @param {AskedRequest} read */
function messageParts(read) {
  const first = read.first_message ?? 0;
  const messages = read.message_list ?? [];
  const kept = read.kept_messages ?? messages.length + first;
  const old = messages.slice(0, Math.max(0, kept - first));
  const shown = messages.slice(old.length);
  return [
    first ? el("p", { class: "note" }, `The first ${count(first)} items are not shown here.`) : null,
    old.length && shown.length ? folded("as before", old.length, el("div", {}, ...old.map((message) => messagePart(message, false)))) : null,
    ...(shown.length ? shown : old).map((message) => messagePart(message, shown.length > 0 && kept < read.messages)),
  ];
}

/**
 * @param {AskedMessage} message
 * @param {boolean} isNew
 */
function messagePart(message, isNew) {
  return el(
    "div",
    { class: isNew ? "asked-message is-new" : "asked-message" },
    el("span", { class: "quiet" }, message.role, " "),
    isNew ? el("span", { class: "badge active" }, "new") : null,
    ...message.parts.map((part) =>
      el(
        "div",
        {},
        part.kind === "text" ? null : el("span", { class: "quiet" }, part.kind.replaceAll("_", " "), " "),
        part.name ? el("span", { class: "mono" }, visible(part.name)) : null,
        part.chars ? cutText(part) : null,
      ),
    ),
  );
}

/**
 * @param {string} title
 * @param {number} number
 * @param {Node} content
 */
function folded(title, number, content) {
  return el("details", {}, el("summary", {}, title, el("span", { class: "quiet" }, ` ${count(number)}`)), content);
}

/** @param {AskedText | undefined} given */
function cutText(given) {
  const { text, chars } = given ?? { text: "", chars: 0 };
  const isJson = /^\s*[[{]/.test(text);
  return el(
    "div",
    {},
    el("pre", { class: "code", dir: "auto" }, visible(isJson ? prettyJson(text, text.length < chars) : text)),
    text.length < chars
      ? el("p", { class: "note" }, `The first ${count(text.length)} of ${count(chars)} characters.`)
      : null,
  );
}
