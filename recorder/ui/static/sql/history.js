// The statements that were run in this browser, the newest first. They stay here: nobody else is told.

const KEY = "recorder.sql-history";
const MOST = 50; // more is not looked through
const MOST_CHARS = 4000; // of a statement: a longer one was not typed

/** @returns {string[]} */
export function history() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each === "string") : [];
  } catch {
    return []; // a browser that stores nothing has none
  }
}

/**
 * Put a statement in front, once.
 * @param {string} sql
 */
export function remember(sql) {
  const text = sql.trim();
  if (!text || text.length > MOST_CHARS) return;
  write([text, ...history().filter((each) => each !== text)].slice(0, MOST));
}

export function forget() {
  write([]);
}

/** @param {string[]} kept */
function write(kept) {
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // It is forgotten.
  }
}
