// Addresses of what the rows of SQL name.

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
  const exchange = value("exchange_id");
  const place = exchange === null ? "" : `/x/${encodeURIComponent(String(exchange))}`;
  return `#/s/${encodeURIComponent(String(session))}${place}`;
}
