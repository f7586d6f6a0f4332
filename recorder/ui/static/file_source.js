// The data inside of the one file, answered as the API would. Nothing here interprets a protocol: it puts together
// what `recorder/ui/html_file.py` took apart so that each long text is in the file once.

import { bytesOf, fromBase64 } from "./bytes.js";
import { applied } from "./player/ops.js";
import { SEGMENT, stepsUntil, writersOfText } from "./player/segment.js";

/** Base64 of a picture in JSON, and the types by its beginning: recorder/ui/pictures.py knows the same. */
const PICTURE = /"(?:data:[^",]{1,80};base64,)?((iVBOR|R0lGO|UklGR|\\?\/9j)[\w+/=\\-]*)"/g;
/** @type {Record<string, string>} */
const PICTURES = { iVBOR: "image/png", R0lGO: "image/gif", UklGR: "image/webp" };

/** @implements {Source} */
export class FileSource {
  isFile = true;

  /** @param {FileData} data */
  constructor(data) {
    this.data = data;
    this.only = data.session.session.session_id;
    /** @type {Map<number, ExchangeDocument[]>} states before the segments of an exchange, as far as computed */
    this.states = new Map();
  }

  async about() {
    return this.data.about;
  }

  async session() {
    return this.data.session;
  }

  /**
   * @param {string} _session
   * @param {number} [exchange]
   */
  async timeline(_session, exchange) {
    return exchange === undefined ? this.data.timeline : { ...this.data.timeline, exchanges: [], blocks: [] };
  }

  async marks() {
    return this.data.marks;
  }

  /**
   * @param {string} _session
   * @param {number} number
   * @param {number} at
   */
  async segment(_session, number, at) {
    const { exchange_id, last, has_ended, steps } = this.exchange(number);
    const place = Math.max(0, Math.min(at, last));
    const from = place - (place % SEGMENT);
    const to = Math.min(from + SEGMENT - 1, last);
    const state = this.stateBefore(number, from);
    return {
      exchange_id,
      number,
      from,
      to,
      last,
      has_ended,
      state,
      steps: steps.slice(stepsUntil(steps, from - 1), stepsUntil(steps, to)),
    };
  }

  /**
   * @param {string} _session
   * @param {number} number
   * @param {number} from
   * @param {number} limit
   */
  async events(_session, number, from, limit) {
    const { events, last } = this.exchange(number);
    const rows = [];
    for (let pos = Math.max(0, from); pos <= last && rows.length < limit; pos++) {
      const { kind, type, t_ns, size_bytes } = this.tick(number, pos);
      rows.push({ pos, kind, type, t_ns, ...this.keys(number, pos), size_bytes, preview: events.preview[pos] });
    }
    return { events: rows };
  }

  /**
   * @param {string} _session
   * @param {string} text
   * @returns {Promise<FoundEvents>}
   */
  async find(_session, text) {
    const needles = [text.toLowerCase(), JSON.stringify(text).slice(1, -1).toLowerCase()];
    /** @type {Record<string, number[]>} */
    const events = {};
    for (const [number, { last, steps }] of Object.entries(this.data.exchanges)) {
      const written = writersOfText(steps, needles);
      events[number] = [];
      for (let pos = 0; pos <= last; pos++) {
        const raw = this.raw(Number(number), pos);
        const shown = typeof raw === "string" ? raw.toLowerCase() : "";
        if (written.has(pos) || needles.some((needle) => shown.includes(needle))) events[number].push(pos);
      }
    }
    return { events, is_all: true };
  }

  /**
   * @param {string} _session
   * @param {number} number
   * @param {boolean} isBrief
   * @returns {Promise<Asked>}
   */
  async asked(_session, number, isBrief) {
    const found = this.data.asked[String(number)];
    if (!found) return { number, before: null, is_complete: true, cache: null, read: null };
    const { read } = found;
    if (!read || isBrief) return { ...found, read: read && { ...read, system: undefined, tool_list: [], message_list: [] } };
    const part = (/** @type {number} */ index) => JSON.parse(/** @type {string} */ (this.joined(this.data.asked_parts[index])));
    const [tool_list, message_list] = [read.tool_list.map(part), read.message_list.map(part)];
    return { ...found, read: { ...read, system: part(read.system), tool_list, message_list } };
  }

  /**
   * @param {string} _session
   * @param {number} number
   * @param {"response" | "model"} of a request may continue another one, which has its pictures
   * @param {import("./player/picture.js").PictureDigest} digest
   */
  async picture(_session, number, of, { size_bytes }) {
    const others = Object.keys(this.data.exchanges).map(Number);
    for (const each of of === "model" ? [number, ...others] : [number]) {
      const found = this.pictureOf(each, size_bytes);
      if (found) return found;
    }
    throw new Error("This picture is not in the file.");
  }

  /**
   * @param {number} number
   * @param {number} size_bytes
   */
  pictureOf(number, size_bytes) {
    for (let pos = 0; pos <= this.exchange(number).last; pos++) {
      const raw = this.raw(number, pos);
      for (const [, data, sign] of typeof raw === "string" ? raw.matchAll(PICTURE) : []) {
        const coded = data.replaceAll("\\", "").replaceAll("-", "+").replaceAll("_", "/");
        if (Math.floor((coded.replace(/=+$/, "").length * 3) / 4) !== size_bytes) continue;
        return new Blob([fromBase64(coded)], { type: PICTURES[sign] ?? "image/jpeg" });
      }
    }
    return null;
  }

  /**
   * @param {string} _session
   * @param {number} number
   * @param {number} pos
   */
  async event(_session, number, pos) {
    const { exchange_id, events, last } = this.exchange(number);
    if (!(pos >= 0 && pos <= last)) throw new Error(`Exchange ${number} has no event ${pos}: it has 0 to ${last}.`);
    const { kind, type, t_ns } = this.tick(number, pos);
    const raw = this.raw(number, pos);
    const data_start = present(events.data_start[pos]);
    const data_length = present(events.data_length[pos]);
    const event = {
      ...{ session_id: this.data.timeline.session_id, exchange_id, pos, kind, t_ns, type, ...this.keys(number, pos) },
      ...{
        raw: typeof raw === "string" ? raw : { base64: raw.base64 },
        data_start,
        data_length,
        hash: hex(events.hash, pos),
      },
    };
    const previous = pos === 0 ? null : hex(events.hash, pos - 1);
    return {
      event,
      payload: data_start === null || data_length === null ? null : slice(raw, data_start, data_length),
      body_offset: present(events.body_offset[pos]),
      reads: this.reads(number, pos),
      chain: { hash: event.hash, previous, holds: !events.broken.includes(pos) },
      redacted: events.redacted.includes(pos),
    };
  }

  follow() {
    return () => {};
  }

  // -- putting together

  /**
   * @param {number} number
   * @returns {FileExchange}
   */
  exchange(number) {
    const found = this.data.exchanges[String(number)];
    if (!found) throw new Error(`Exchange ${number} is not in this file.`);
    return found;
  }

  /**
   * @param {number} number
   * @param {number} pos
   */
  tick(number, pos) {
    const { exchanges, kinds, types } = this.data.timeline;
    const ticks = /** @type {ExchangeTicks} */ (exchanges.find((each) => each.number === number));
    return {
      kind: kinds[ticks.kind[pos]],
      type: types[ticks.type[pos]] ?? null,
      t_ns: ticks.t[pos],
      size_bytes: this.exchange(number).events.size[pos],
    };
  }

  /**
   * @param {number} number
   * @param {number} pos
   */
  keys(number, pos) {
    const { events } = this.exchange(number);
    return {
      sequence_number: events.sequence_number[pos] ?? null,
      item_id: events.item_ids[events.item_id[pos]] ?? null,
      output_index: events.output_index[pos] ?? null,
    };
  }

  /**
   * Return the state before an event at which a segment begins.
   * @param {number} number
   * @param {number} from
   */
  stateBefore(number, from) {
    const { steps } = this.exchange(number);
    const states = this.states.get(number) ?? [{}];
    this.states.set(number, states);
    while (states.length <= from / SEGMENT) {
      const begin = (states.length - 1) * SEGMENT;
      states.push(
        after(
          states[states.length - 1],
          steps.slice(stepsUntil(steps, begin - 1), stepsUntil(steps, begin + SEGMENT - 1)),
        ),
      );
    }
    return states[from / SEGMENT];
  }

  /**
   * Return the recorded bytes of an event.
   * @param {number} number
   * @param {number} pos
   * @returns {RawBytes}
   */
  raw(number, pos) {
    return this.joined(this.exchange(number).events.raw[pos]);
  }

  /**
   * Return what a template stands for.
   * @param {Template} template
   * @returns {RawBytes}
   */
  joined(template) {
    if (!Array.isArray(template)) return template;
    return template.map((part) => (typeof part === "number" ? this.data.texts[part] : part)).join("");
  }

  /**
   * @param {number} number
   * @param {number} pos
   * @returns {[number, number, number][] | null}
   */
  reads(number, pos) {
    const { reads, events } = this.exchange(number);
    const first = present(events.read_first[pos]);
    return first === null ? null : reads.slice(first, first + events.read_count[pos]);
  }
}

/**
 * Return a part of some bytes as text.
 * @param {RawBytes} raw
 * @param {number} start
 * @param {number} length
 */
function slice(raw, start, length) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOf(raw).subarray(start, start + length));
}

/** @param {number} value */
function present(value) {
  return value === -1 || value === undefined ? null : value;
}

/**
 * Return the state after some steps.
 * @param {ExchangeDocument} state
 * @param {Step[]} steps
 * @returns {ExchangeDocument}
 */
function after(state, steps) {
  return steps.reduce(
    (before, [, ops]) => ops.reduce((each, op) => /** @type {ExchangeDocument} */ (applied(each, op)), before),
    state,
  );
}

/**
 * Return a hash of 32 bytes, in hex, out of many in base64.
 * @param {string} hashes
 * @param {number} pos
 */
function hex(hashes, pos) {
  const begin = Math.floor((pos * 32) / 3) * 4;
  const skipped = (pos * 32) % 3;
  const bytes = atob(hashes.slice(begin, begin + 48)).slice(skipped, skipped + 32);
  return [...bytes].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}
