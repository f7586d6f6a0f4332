// What stays in this browser from one visit to the next. A browser that stores nothing for this page forgets it.

/**
 * Return what was kept under a name; null if there is nothing.
 * @param {string} key
 */
export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {unknown} value as JSON
 */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // It is forgotten.
  }
}
