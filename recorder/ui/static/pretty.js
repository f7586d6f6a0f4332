// Recorded text for people: JSON indented, and signs made visible that would hide or turn round what is beside them.

const INDENT = "  ";
// Deeper nesting is only a long run of spaces: the size of the result would grow with the square of the text.
const DEEPEST = 200;

/**
 * Indent a JSON text. It is cut into tokens and never parsed, so each number, escape and repeated name stays as it is
 * written. What is not JSON is returned unchanged.
 * @param {string} text
 * @param {boolean} [isCut] the text is only a beginning, which is indented as far as it goes
 * @returns {string}
 */
export function prettyJson(text, isCut = false) {
  /** @type {string[]} */
  const out = [];
  /** @type {string[]} */
  const open = [];
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    if (char === " " || char === "\n" || char === "\r" || char === "\t") {
      at += 1;
    } else if (char === "{" || char === "[") {
      const close = char === "{" ? "}" : "]";
      const next = skipSpace(text, at + 1);
      if (text[next] === close) {
        out.push(char, close);
        at = next + 1;
      } else {
        open.push(close);
        if (open.length > DEEPEST) return text;
        out.push(char, "\n", INDENT.repeat(open.length));
        at += 1;
      }
    } else if (char === "}" || char === "]") {
      if (open.pop() !== char) return text;
      out.push("\n", INDENT.repeat(open.length), char);
      at += 1;
    } else if (char === ",") {
      out.push(",\n", INDENT.repeat(open.length));
      at += 1;
    } else if (char === ":") {
      out.push(": ");
      at += 1;
    } else {
      const end = char === '"' ? endOfString(text, at) : endOfScalar(text, at);
      if (end < 0) {
        if (!isCut || !out.length) return text;
        out.push(text.slice(at));
        break;
      }
      out.push(text.slice(at, end));
      at = end;
    }
  }
  return open.length && !isCut ? text : out.join("");
}

/**
 * @param {string} text
 * @param {number} at
 */
function skipSpace(text, at) {
  while (" \n\r\t".includes(text[at] ?? "x")) at += 1;
  return at;
}

/**
 * Return where a string ends, behind its quote; -1 if it does not. A pattern would overflow its stack at 10 MB.
 * @param {string} text
 * @param {number} at of its first quote
 */
export function endOfString(text, at) {
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0;
    while (text[quote - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
  }
  return -1;
}

const SCALAR = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Return where a number or a name ends; -1 if there is none.
 * @param {string} text
 * @param {number} at
 */
export function endOfScalar(text, at) {
  SCALAR.lastIndex = at;
  return SCALAR.test(text) ? SCALAR.lastIndex : -1;
}

const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/**
 * Make control characters and bidi controls visible: with them, text is not what it seems to be.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  return text.replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    if (code < 0x20) return sign === "\r" ? "" : String.fromCharCode(0x2400 + code);
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
