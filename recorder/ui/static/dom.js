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
  if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(2)} s`;
  return `${Math.floor(ns / 60e9)} min ${Math.round((ns / 1e9) % 60)} s`;
}
