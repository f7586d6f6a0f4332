// Recorded bytes: out of base64, and as a hex dump.

/** Bytes of a line of a dump, with a gap in the middle. */
export const LINE_BYTES = 16;

/**
 * Decode base64.
 * @param {string} encoded
 */
export function fromBase64(encoded) {
  return Uint8Array.from(atob(encoded), (unit) => unit.charCodeAt(0));
}

/**
 * Return the recorded bytes of an event as JSON has them: a text, or base64 of bytes that are not UTF-8.
 * @param {RawBytes} raw
 */
export function bytesOf(raw) {
  return typeof raw === "string" ? new TextEncoder().encode(raw) : fromBase64(raw.base64);
}

/**
 * Return the lines of a hex dump of a part of some bytes; each ends with a line feed.
 * @param {Uint8Array} bytes
 * @param {number} from
 * @param {number} to
 * @param {(at: number) => string} address of a line, by the place of its first byte
 */
export function hexDump(bytes, from, to, address) {
  const lines = [];
  for (let at = from; at < to; at += LINE_BYTES) {
    const line = Array.from(bytes.subarray(at, Math.min(to, at + LINE_BYTES)));
    const digits = line.map((byte) => byte.toString(16).padStart(2, "0"));
    const hex = `${digits.slice(0, LINE_BYTES / 2).join(" ")}  ${digits.slice(LINE_BYTES / 2).join(" ")}`;
    const text = line.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${address(at)}  ${hex.padEnd(LINE_BYTES * 3)}  ${text}\n`);
  }
  return lines.join("");
}
