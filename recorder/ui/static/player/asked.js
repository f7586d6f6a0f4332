// What an exchange asked for: a folded line, and on demand the system prompt, the tools, the messages and the settings.

import { changedTexts } from "../changed.js";
import { el, fill } from "../dom.js";
import { count, dollars, messageOf, plural } from "../format.js";
import { prettyJson, visible } from "../pretty.js";
import { markdown } from "./markdown.js";
import { pictures } from "./picture.js";
import { DrawnText } from "./text.js";

/** Characters of a system prompt that are shown around the first one that differs. */
const AROUND = 60;
/** Characters of a description beside the name of its tool. */
const ABOUT = 120;

/**
 * @typedef {object} AskedOptions
 * @property {(isBrief: boolean) => Promise<Asked>} load
 * @property {import("./picture.js").LoadPicture} picture
 * @property {(before: number) => (string | null)} diffLink of the request before and this one
 */

/** The request of an exchange. Its sizes are asked for when it is first visible, its texts when it is opened. */
export class AskedView {
  /** @param {AskedOptions} options */
  constructor(options) {
    this.options = options;
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
      const { read, cache } = await this.options.load(true);
      const missed = cache && missedWords(cache);
      if (read) fill(this.line, summary(read), missed ? el("span", { class: "missed" }, ` · ${missed}`) : null);
      this.element.hidden = !read;
    } catch {
      this.isLoaded = false; // the request is not whole yet: the next state asks again
    }
  }

  open() {
    this.element.toggleAttribute("open", true);
  }

  async #open() {
    if (this.isOpened) return;
    this.isOpened = true;
    fill(this.place, el("p", { class: "note" }, "Loading…"));
    try {
      const asked = await this.options.load(false);
      fill(this.place, ...parts(asked, this.options));
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

/**
 * Say what of a request the cache of the provider could have had, and what it cost that it had less.
 * @param {CacheTurn} cache
 */
function missedWords(cache) {
  if (!cache.missed_tokens) return "";
  const about = cache.is_estimate ? "about " : "";
  const cost = cache.cost_usd === null ? "" : `, ${dollars(Number(cache.cost_usd) * 1e12)} more`;
  return `${about}${plural(cache.missed_tokens, "token")} read again uncached${cost}`;
}

/**
 * @param {Asked} asked
 * @param {AskedOptions} options
 */
function parts({ read, before, cache, is_complete }, { picture, diffLink }) {
  if (!read) return [];
  const settings = Object.entries(read.settings).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  const missed = cache && missedWords(cache) ? cacheNote(cache) : null;
  const place = missed ? partOf(cache?.path ?? "", read) : "";
  return [
    is_complete ? null : el("p", { class: "note" }, "What came before this request was not recorded."),
    before === null ? null : differenceNote(before, diffLink(before)),
    place === "" ? missed : null,
    place === "system" ? missed : null,
    read.system_chars ? folded("system", read.system_chars, systemPart(read), read.system_differs_at !== null) : null,
    place === "tools" ? missed : null,
    ...toolParts(read),
    place === "messages" ? missed : null,
    ...messageParts(read, picture),
    settings.length ? el("p", { class: "quiet" }, visible(settings.join(" · "))) : null,
  ].filter((part) => part !== null);
}

/**
 * Say what the request is compared with.
 * @param {number} before
 * @param {string | null} href of the comparison
 */
function differenceNote(before, href) {
  const name = `exchange ${before}`;
  const link = href === null ? name : el("a", { href, title: "Compare the two" }, name);
  return el("p", { class: "note" }, "Marked is what differs from the request of ", link, ".");
}

/**
 * Return the part of a request that a path in it leads to, in the words of any API; empty for a setting. Where the
 * system prompt is a message, and differs, the first difference is in it.
 * @param {string} path
 * @param {AskedRequest} read
 */
function partOf(path, { system_differs_at }) {
  if (/^(?:\w+\.)?(?:instructions|system)/i.test(path)) return "system";
  if (/^(?:\w+\.)?tools/.test(path)) return "tools";
  if (!/^(?:\w+\.)?(?:input|messages|contents|prompt)\b/.test(path)) return "";
  return system_differs_at === null ? "messages" : "system";
}

/**
 * Say where the prompt that the provider compares first differs, and what that cost.
 * @param {CacheTurn} cache
 */
function cacheNote(cache) {
  const { path, previous_number, before, after } = cache;
  const [gone, fresh] = changedTexts(visible(before ?? ""), visible(after ?? ""));
  return el(
    "div",
    { class: "note is-new" },
    el("span", { class: "missed" }, missedWords(cache)),
    ": ",
    el("b", {}, cache.class.replaceAll("_", " ")),
    previous_number === null ? null : ` since exchange ${previous_number}`,
    path ? el("span", {}, " at ", el("span", { class: "mono" }, visible(path))) : null,
    before === null ? null : el("div", { class: "mono" }, "− ", gone),
    after === null ? null : el("div", { class: "mono" }, "+ ", fresh),
  );
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
    cutText(read.system, markdown),
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
        { class: "cut" },
        el("span", { class: "mono" }, visible(tool.name), " "),
        tool.state === "same" ? null : el("span", { class: "badge warning" }, tool.state),
        el("span", { class: "tool-about quiet" }, visible(` ${tool.description.text.split("\n", 1)[0].slice(0, ABOUT)}`)),
      ),
      tool.description.chars ? cutText(tool.description, markdown) : null,
      tool.parameters.chars ? cutText(tool.parameters) : null,
    ),
  );
  const names = new Set((read.tool_list ?? []).map(({ name }) => name));
  const gone = read.changed_tools.filter((name) => !names.has(name));
  return [
    tools.length ? folded("tools", read.tools, el("div", { class: "asked-tools" }, ...tools)) : null,
    gone.length ? el("p", { class: "note is-new" }, `No longer offered: ${visible(gone.join(", "))}.`) : null,
  ];
}

/**
 * @param {AskedRequest} read
 * @param {import("./picture.js").LoadPicture} load
 */
function messageParts(read, load) {
  const first = read.first_message ?? 0;
  const messages = read.message_list ?? [];
  const kept = read.kept_messages ?? messages.length + first;
  const old = messages.slice(0, Math.max(0, kept - first));
  const shown = messages.slice(old.length);
  return [
    first ? el("p", { class: "note" }, `The first ${count(first)} items are not shown here.`) : null,
    old.length && shown.length ? folded("as before", old.length, el("div", {}, ...old.map((message) => messagePart(message, false, load)))) : null,
    ...(shown.length ? shown : old).map((message) => messagePart(message, shown.length > 0 && kept < read.messages, load)),
  ];
}

/**
 * @param {AskedMessage} message
 * @param {boolean} isNew
 * @param {import("./picture.js").LoadPicture} load
 */
function messagePart(message, isNew, load) {
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
        part.pictures.length ? el("div", { class: "pictures" }, ...pictures(part.pictures, load)) : null,
        part.chars ? cutText(part, ["text", "reasoning"].includes(part.kind) ? markdown : undefined) : null,
      ),
    ),
  );
}

/**
 * @param {string} title
 * @param {number} number
 * @param {Node} content
 * @param {boolean} [isChanged]
 */
function folded(title, number, content, isChanged = false) {
  const size = el("span", { class: "quiet" }, ` ${count(number)} `);
  const badge = isChanged ? el("span", { class: "badge warning" }, "changed") : null;
  return el("details", { class: isChanged ? "is-new" : null }, el("summary", {}, title, size, badge), content);
}

/**
 * @param {AskedText | undefined} given
 * @param {import("./text.js").Style} [style] of a text that is said to somebody; without one it is code
 */
function cutText(given, style) {
  const { text, chars } = given ?? { text: "", chars: 0 };
  const drawn = new DrawnText(null, style);
  const shown = visible(text);
  if (!drawn.setTree(shown)) {
    drawn.set(/^\s*[[{]/.test(text) ? visible(prettyJson(text, text.length < chars)) : shown);
  }
  return el(
    "div",
    { class: style ? "asked-text" : "asked-text code", dir: "auto" },
    drawn.element,
    text.length < chars
      ? el("p", { class: "note" }, `The first ${count(text.length)} of ${count(chars)} characters.`)
      : null,
  );
}
