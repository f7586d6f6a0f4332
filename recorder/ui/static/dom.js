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
 * Return true if a key goes into a field of text, so that it is not a shortcut.
 * @param {KeyboardEvent} event
 */
export function isTyping(event) {
  const target = event.target;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "range"].includes(target.type);
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLElement && target.isContentEditable)
  );
}

/**
 * Show a dialog with a button that closes it; it is gone then.
 * @param {Record<string, string>} attributes
 * @param {...Node} children
 */
export function showDialog(attributes, ...children) {
  const close = el("form", { method: "dialog" }, el("button", { class: "primary" }, "Close"));
  const onclose = () => dialog.remove();
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", { ...attributes, onclose }, ...children, close));
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * Set the text of an element if it is another: an equal one would end a selection in it.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
