// Elements without markup: recorded text only ever becomes text nodes.

/**
 * Make an element. `on…` properties are listeners, `class`, `aria-…` and the like are attributes; null is left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {HTMLElement}
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return element;
}

/** @param {Node | string | number | null | undefined} child */
function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/**
 * Replace all children of an element.
 * @param {Element} element
 * @param {...(Node | string | null | undefined)} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
}

/**
 * Format nanoseconds for people.
 * @param {number | null | undefined} ns
 */
export function duration(ns) {
  if (ns === null || ns === undefined) return "";
  if (ns < 999.5e3) return `${(ns / 1e3).toFixed(0)} µs`;
  if (ns < 999.95e6) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(2)} s`;
  return `${Math.floor(ns / 60e9)} min ${Math.round((ns / 1e9) % 60)} s`;
}

/**
 * Return true if a key goes into a field of text, so that it is no shortcut.
 * @param {KeyboardEvent} event
 */
export function isTyping(event) {
  const target = event.target;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "range"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || (target instanceof HTMLElement && target.isContentEditable);
}

/**
 * Format a count with thin separators, as the browser's language has them.
 * @param {number | null | undefined} value
 */
export function count(value) {
  return value === null || value === undefined ? "" : value.toLocaleString();
}

/**
 * Format nanoseconds since 1970 as local date and time to the second.
 * @param {number | null | undefined} ns
 */
export function wallTime(ns) {
  if (ns === null || ns === undefined) return "";
  const date = new Date(ns / 1e6);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60e3).toISOString().slice(0, 19).replace("T", " ");
}

/**
 * Make a button that copies a text, and says so.
 * @param {string} label
 * @param {() => string} read
 * @param {App} app
 */
export function copyButton(label, read, app) {
  const copy = () =>
    navigator.clipboard.writeText(read()).then(
      () => app.announce("Copied."),
      () => app.announce("The browser did not allow the copy."),
    );
  return el("button", { type: "button", onclick: copy }, label);
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/**
 * Format picodollars as dollars: with cents, or smaller amounts with three digits.
 * @param {number} value
 */
export function dollars(value) {
  const usd = value / 1e12;
  if (!usd || Math.abs(usd) >= 1) return `$${usd.toLocaleString("en", { minimumFractionDigits: usd ? 2 : 0, maximumFractionDigits: 2 })}`;
  return `$${usd.toLocaleString("en", { maximumSignificantDigits: 3, maximumFractionDigits: 12 })}`;
}

/**
 * Format a number in three digits or so: 1.2K, 34M.
 * @param {number} value
 */
export function compact(value) {
  return Math.abs(value) < 1000 ? String(Math.round(value * 100) / 100) : COMPACT.format(value);
}
