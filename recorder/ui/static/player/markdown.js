// Markdown as text: all of its characters stay, and some look as they are meant. Nothing becomes a link, an image or
// HTML, and nothing is left out.

/** Characters between two marks: with any number of them, a line of marks would take the square of its length. */
const WITHIN = "[^\\n]{1,200}?";

/** What is inside of a line: code, strong, emphasis. */
const INLINE = new RegExp(
  [
    `(?<code>\`{1,2})(?!\`)(?<coded>${WITHIN})\\k<code>(?!\`)`,
    `(?<strong>\\*\\*)(?=\\S)(?<loud>${WITHIN})(?<=\\S)\\k<strong>`,
    "(?<![\\w*])(?<em>[*_])(?=[^\\s*_])(?<soft>[^\\n*_]{1,200}?)(?<=\\S)\\k<em>(?![\\w*])",
  ].join("|"),
  "g",
);
const LINE = /[^\n]*\n?/g;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6} +(?=\S)/;
/** Signs of lists and quotations, few of them: with more there are too many ways to read the spaces between. */
const BEGIN = /^(?:[ \t]{0,12}(?:[-*+]|\d{1,9}[.)]) +|[ \t]{0,3}> ?){1,4}(?=\S)/;

/**
 * Return what the parts of a block of text look like. The state is the fence that is open before the block, or empty.
 * @type {import("./text.js").Style}
 */
export function markdown(text, state) {
  const tokens = new Tokens();
  let fence = state;
  for (const [line] of text.matchAll(LINE)) {
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (fence) {
      const isEnd = mark.startsWith(fence) && !line.trim().slice(mark.length);
      tokens.add(isEnd ? "md-mark" : "md-block", line.length);
      if (isEnd) fence = "";
    } else if (mark) {
      tokens.add("md-mark", line.length);
      fence = mark;
    } else addLine(tokens, line);
  }
  return { tokens: tokens.list, state: fence };
}

/** Tokens in order; neighbours of one kind are one. */
class Tokens {
  constructor() {
    /** @type {import("./text.js").Token[]} */
    this.list = [];
  }

  /**
   * @param {string} kind
   * @param {number} length
   */
  add(kind, length) {
    const last = this.list.at(-1);
    if (last?.kind === kind) last.length += length;
    else if (length) this.list.push({ kind, length });
  }
}

/**
 * @param {Tokens} tokens
 * @param {string} line
 */
function addLine(tokens, line) {
  const heading = HEADING.exec(line)?.[0].length ?? 0;
  if (heading) {
    tokens.add("md-mark", heading);
    tokens.add("md-heading", line.length - heading);
    return;
  }
  const start = BEGIN.exec(line)?.[0].length ?? 0;
  tokens.add("md-mark", start);
  let at = start;
  for (const { index, 0: all, groups } of line.slice(start).matchAll(INLINE)) {
    const begin = start + index;
    const { code, coded, strong, loud, em, soft } = groups ?? {};
    const [mark, kind, inner] = code
      ? [code, "md-code", coded]
      : strong
        ? [strong, "md-strong", loud]
        : [em, "md-em", soft];
    tokens.add("", begin - at);
    tokens.add("md-mark", mark.length);
    tokens.add(kind, inner.length);
    tokens.add("md-mark", mark.length);
    at = begin + all.length;
  }
  tokens.add("", line.length - at);
}
