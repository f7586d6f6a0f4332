// A segment of a track: the states of an exchange after some of its events, and which of these wrote which text.

import { countWhile } from "../search.js";
import { applied, isPrefix, valueAt } from "./ops.js";

/** Positions of a segment: recorder/ui/track.py has the same number. */
export const SEGMENT = 256;
/** Steps between two states that a segment keeps, so that a seek inside of it applies at most as many. */
const CHECKPOINT = 32;

/**
 * @typedef {object} Cursor a state inside of a segment: after `index` steps, at each time from `after` until `before`
 * @property {number} index
 * @property {ExchangeDocument} state
 * @property {number} after the latest time of a timed step that was applied
 * @property {number} before the earliest time of a timed step that was left out
 */
/**
 * @typedef {{ path: Path, start: number, end: number, text: string }} Written a range of the text at `path`, in UTF-16
 * units, and what is there
 */
/** @typedef {{ from: number, to: number, pos: number | null }} Span characters and their event; null: an earlier one */

/** A segment with the states in it that are used again. */
export class LoadedSegment {
  /** @param {Segment} segment */
  constructor(segment) {
    this.segment = segment;
    /** About what it takes. */
    this.bytes = weigh(segment.state) + weigh(segment.steps);
    /** @type {Cursor} the state that was used last */
    this.cursor = { index: 0, state: segment.state, after: -Infinity, before: Infinity };
    this.checkpoints = [this.cursor];
  }

  /**
   * Return the document after event `pos` at a time of the exchange.
   * @param {number} pos
   * @param {number} t_ns
   */
  stateAt(pos, t_ns) {
    const index = stepsUntil(this.segment.steps, pos);
    const { cursor } = this;
    const isUsable = cursor.index <= index && cursor.after <= t_ns && t_ns < cursor.before;
    this.cursor = this.#advanced(isUsable ? cursor : this.#checkpoint(index, t_ns), index, t_ns, this.checkpoints);
    return this.cursor.state;
  }

  /**
   * Return what an event wrote: a range for each text that it added to or set.
   * @param {number} pos
   */
  writtenBy(pos) {
    const { steps } = this.segment;
    const first = stepsUntil(steps, pos - 1);
    /** @type {Written[]} */
    const written = [];
    let { state } = this.#advanced(this.#checkpoint(first, Infinity), first, Infinity);
    for (const [, ops, time] of steps.slice(first, stepsUntil(steps, pos))) {
      if (time !== undefined) continue;
      for (const op of ops) {
        collectWritten(state, op, written);
        state = /** @type {ExchangeDocument} */ (applied(state, op));
      }
    }
    return written;
  }

  /**
   * Add to `events` those that wrote a range of the text at `path` up to event `pos`, and shorten the range to what is
   * older than the segment.
   * @param {Path} path
   * @param {{ start: number, end: number }} range
   * @param {number} pos
   * @param {Set<number>} events
   * @returns {boolean} true if a part is older
   */
  takeWriters(path, range, pos, events) {
    let end = range.start;
    for (const span of spansOf(this.segment, path, pos)) {
      if (span.to <= range.start || span.from >= range.end) continue;
      if (span.pos === null) end = Math.min(span.to, range.end);
      else events.add(span.pos);
    }
    range.end = end;
    return range.start < end;
  }

  /**
   * Return the last kept state that is not behind `index` steps and a time.
   * @param {number} index
   * @param {number} t_ns
   */
  #checkpoint(index, t_ns) {
    return this.checkpoints.findLast((each) => each.index <= index && each.after <= t_ns) ?? this.checkpoints[0];
  }

  /**
   * Apply the steps from a cursor to `index`.
   * @param {Cursor} from
   * @param {number} index
   * @param {number} t_ns
   * @param {Cursor[]} [checkpoints] takes new ones
   * @returns {Cursor}
   */
  #advanced(from, index, t_ns, checkpoints) {
    let { state, after, before } = from;
    for (let at = from.index; at < index; at++) {
      const [, ops, time] = this.segment.steps[at];
      if (time !== undefined && time > t_ns) before = Math.min(before, time);
      else {
        for (const op of ops) state = /** @type {ExchangeDocument} */ (applied(state, op));
        if (time !== undefined) after = Math.max(after, time);
      }
      const last = checkpoints?.at(-1);
      if (checkpoints && last && before === Infinity && at + 1 === last.index + CHECKPOINT) {
        checkpoints.push({ index: at + 1, state, after, before });
      }
    }
    return { index, state, after, before };
  }
}

/**
 * Return the first position of the segment that has a position.
 * @param {number} pos
 */
export function startOf(pos) {
  return Math.floor(Math.max(0, pos) / SEGMENT) * SEGMENT;
}

/**
 * Return how many steps belong to the events up to `pos`.
 * @param {Step[]} steps
 * @param {number} pos
 */
export function stepsUntil(steps, pos) {
  return countWhile(steps.length, (place) => steps[place][0] <= pos);
}

/**
 * Return the positions of the events that wrote a part of what is looked for, in a text that lies over several.
 * @param {Step[]} steps of an exchange, from its first event on
 * @param {string[]} needles in lower case
 */
export function writersOfText(steps, needles) {
  /** @type {Map<string, { pos: number, text: string }[]>} */
  const texts = new Map();
  /** @type {ExchangeDocument} */
  let state = {};
  for (const [pos, ops, time] of steps) {
    for (const op of ops) {
      /** @type {Written[]} */
      const written = [];
      // What others say of an exchange is in their events.
      if (time === undefined) collectWritten(state, op, written);
      for (const { path, start, text } of written) {
        const key = JSON.stringify(path);
        const pieces = (start && texts.get(key)) || [];
        texts.set(key, pieces);
        pieces.push({ pos, text: text.toLowerCase() });
      }
      state = /** @type {ExchangeDocument} */ (applied(state, op));
    }
  }
  /** @type {Set<number>} */
  const found = new Set();
  for (const pieces of texts.values()) for (const needle of needles) addWriters(pieces, needle, found);
  return found;
}

/**
 * @param {{ pos: number, text: string }[]} pieces
 * @param {string} needle
 * @param {Set<number>} found
 */
function addWriters(pieces, needle, found) {
  const whole = pieces.map(({ text }) => text).join("");
  let at = whole.indexOf(needle);
  let begin = 0;
  for (const { pos, text } of pieces) {
    const end = begin + text.length;
    while (at >= 0 && at < end) {
      found.add(pos);
      if (at + needle.length > end) break; // the next piece has more of it
      at = whole.indexOf(needle, at + needle.length);
    }
    begin = end;
  }
}

/**
 * @param {ExchangeDocument} state before an operation
 * @param {Op} op
 * @param {Written[]} into
 */
function collectWritten(state, op, into) {
  const [kind, path] = op;
  if (kind === "cut") return;
  const before = valueAt(state, path);
  const length = typeof before === "string" || Array.isArray(before) ? before.length : 0;
  if (kind === "add") into.push({ path, start: length, end: length + op[2].length, text: op[2] });
  else collectTexts(op[2], kind === "push" ? [...path, length] : path, into);
}

/**
 * @param {unknown} value
 * @param {Path} path
 * @param {Written[]} into
 */
function collectTexts(value, path, into) {
  if (typeof value === "string") into.push({ path, start: 0, end: value.length, text: value });
  else if (Array.isArray(value)) value.forEach((each, index) => collectTexts(each, [...path, index], into));
  else if (value !== null && typeof value === "object") {
    for (const [key, each] of Object.entries(value)) collectTexts(each, [...path, key], into);
  }
}

/**
 * Return which event of a segment wrote each part of the text at `path`, up to event `pos`.
 * @param {Segment} segment
 * @param {Path} path
 * @param {number} pos
 * @returns {Span[]}
 */
function spansOf(segment, path, pos) {
  const known = valueAt(segment.state, path);
  /** @type {Span[]} */
  let spans = typeof known === "string" ? [{ from: 0, to: known.length, pos: null }] : [];
  for (const [at, ops] of segment.steps) {
    if (at > pos) break;
    for (const op of ops) {
      const target = op[1];
      if (op[0] === "add" && isSame(target, path)) {
        const from = spans.at(-1)?.to ?? 0;
        spans.push({ from, to: from + op[2].length, pos: at });
      } else if (op[0] === "push" && isPrefix(target, path)) {
        const value = valueAt(op[2], path.slice(target.length + 1));
        if (!spans.length && typeof value === "string") spans = [{ from: 0, to: value.length, pos: at }];
      } else if ((op[0] === "set" || op[0] === "cut") && isPrefix(target, path)) {
        const value = op[0] === "set" ? valueAt(op[2], path.slice(target.length)) : undefined;
        spans = typeof value === "string" ? [{ from: 0, to: value.length, pos: at }] : [];
      }
    }
  }
  return spans;
}

/**
 * @param {Path} a
 * @param {Path} b
 */
function isSame(a, b) {
  return a.length === b.length && isPrefix(a, b);
}

/**
 * Return about how many bytes a value takes.
 * @param {unknown} value
 * @returns {number}
 */
function weigh(value) {
  if (typeof value === "string") return 24 + value.length;
  if (value === null || typeof value !== "object") return 8;
  let bytes = 32;
  for (const each of Array.isArray(value) ? value : Object.values(value)) bytes += 16 + weigh(each);
  return bytes;
}
