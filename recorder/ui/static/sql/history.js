// The statements that were run in this browser, the newest first. They stay here: nobody else is told.

import { keep, kept } from "../kept.js";

const KEY = "recorder.sql-history";
const MOST = 50; // more is not looked through
const MOST_CHARS = 4000; // of a statement: a longer one was not typed

/** @returns {string[]} */
export function history() {
  const found = kept(KEY);
  return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
}

/**
 * Put a statement in front, once.
 * @param {string} sql
 */
export function remember(sql) {
  const text = sql.trim();
  if (!text || text.length > MOST_CHARS) return;
  keep(KEY, [text, ...history().filter((each) => each !== text)].slice(0, MOST));
}

export function forget() {
  keep(KEY, []);
}
