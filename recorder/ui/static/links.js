// Addresses in the player: of a place, and of what the rows of SQL name.

const NAMES = ["session_name", "session_id", "exchange_id"];

/**
 * Return the address of the session or exchange that a column of a row names; null for any other column.
 * @param {string[]} columns
 * @param {unknown[]} row
 * @param {number} index
 */
export function linkOf(columns, row, index) {
  const value = (/** @type {string} */ name) => row[columns.indexOf(name)] ?? null;
  const session = value("session_id") ?? value("session_name");
  if (!NAMES.includes(columns[index]) || session === null || row[index] === null) return null;
  return playerHref(String(session), value("exchange_id"));
}

/**
 * Return the address of a session, of one of its exchanges, or of an event of that.
 * @param {string} session
 * @param {unknown} [exchange]
 * @param {number | null} [pos]
 */
export function playerHref(session, exchange = null, pos = null) {
  const event = pos === null ? "" : `/e/${pos}`;
  const place = exchange === null ? "" : `/x/${encodeURIComponent(String(exchange))}${event}`;
  return `#/s/${encodeURIComponent(session)}${place}`;
}
