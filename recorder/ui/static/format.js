// Numbers, times, sizes and failures as text for people.

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/**
 * Format a number in three digits or so: 1.2K, 34M.
 * @param {number} value
 */
export function compact(value) {
  return Math.abs(value) < 1000 ? String(Math.round(value * 100) / 100) : COMPACT.format(value);
}

/**
 * Format picodollars as dollars: with cents, or smaller amounts with three digits.
 * @param {number} value
 */
export function dollars(value) {
  const usd = value / 1e12;
  const digits =
    !usd || Math.abs(usd) >= 1
      ? { minimumFractionDigits: usd ? 2 : 0, maximumFractionDigits: 2 }
      : { maximumSignificantDigits: 3, maximumFractionDigits: 12 };
  return `$${usd.toLocaleString("en", digits)}`;
}

/**
 * Format a count with separators, as the language of the browser has them.
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
 * Format a count with its noun, whose plural has an `s`.
 * @param {number} value
 * @param {string} noun
 */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/**
 * Format a number of bytes.
 * @param {number} bytes
 */
export function size(bytes) {
  if (bytes < 10_000) return plural(bytes, "byte");
  return bytes < 2 ** 20 - 51 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;
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
  const seconds = Math.round(ns / 1e9);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * Return the smallest of 1, 2, 5, 10, 20 … (ns) that is at least a span; above a minute multiples of it.
 * @param {number} span
 */
export function niceStep(span) {
  if (span > 20e9) {
    for (const minutes of [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 360, 720]) {
      if (minutes * 60e9 >= span) return minutes * 60e9;
    }
    return Math.ceil(span / 86400e9) * 86400e9;
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(1, span)));
  for (const step of [1, 2, 5]) if (step * power >= span) return step * power;
  return 10 * power;
}

/**
 * Format a time of the session as exactly as the step between two labels needs.
 * @param {number} t
 * @param {number} [step]
 */
export function clockTime(t, step = 1e6) {
  const digits = step >= 1e9 ? 0 : Math.min(6, Math.ceil(-Math.log10(step / 1e9)));
  // Rounded first: 59.9999 s must not be written as 60.000 s.
  const seconds = Math.round((t / 1e9) * 10 ** digits) / 10 ** digits;
  if (seconds < 60) return `${seconds.toFixed(digits)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - minutes * 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/**
 * Return the sentence of a failure.
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
