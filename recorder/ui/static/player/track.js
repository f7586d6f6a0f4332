// The states of one exchange: its track in segments, and which event wrote which text. Interprets no protocol.
// States are persistent: a step copies only what it changes, so equal parts of two states are the same object.

/** Positions of a segment: recorder/ui/track.py has the same number. */
export const SEGMENT = 256;
/** About what all tracks of a page hold: some 20 segments of a text of 500,000 characters. */
const KEPT_BYTES = 24e6;
/** Steps between two states that a segment keeps, so that a seek inside of it applies at most as many. */
const CHECKPOINT = 32;
/** Segments that one selection is looked up in; a selection over more of them is answered in part. */
const SEARCHED = 96;

/**
 * @typedef {object} Cursor a state inside of a segment: after `index` steps, at each time from `after` until `before`
 * @property {number} index
 * @property {ExchangeDocument} state
 * @property {number} after the latest time of a timed step that was applied
 * @property {number} before the earliest time of a timed step that was left out
 */
/** @typedef {{ segment: Segment, bytes: number, cursor: Cursor, checkpoints: Cursor[] }} Loaded */
/** @typedef {{ path: Path, start: number, end: number }} Written a range of the text at `path`, in UTF-16 units */
/** @typedef {{ from: number, to: number, pos: number | null }} Span characters and their event; null: before the segment */

/** Segments of all tracks of a page, the least recently used go first. */
export class SegmentCache {
  constructor(limit = KEPT_BYTES) {
    this.limit = limit;
    this.bytes = 0;
    /** @type {Map<Loaded, () => void>} */
    this.entries = new Map();
  }

  /**
   * @param {Loaded} loaded
   * @param {() => void} forget
   */
  add(loaded, forget) {
    this.entries.set(loaded, forget);
    this.bytes += loaded.bytes;
    for (const [oldest, drop] of this.entries) {
      if (this.bytes <= this.limit || oldest === loaded) break;
      this.remove(oldest);
      drop();
    }
  }

  /** @param {Loaded} loaded */
  touch(loaded) {
    const forget = this.entries.get(loaded);
    if (!forget) return;
    this.entries.delete(loaded);
    this.entries.set(loaded, forget);
  }

  /** @param {Loaded} loaded */
  remove(loaded) {
    if (this.entries.delete(loaded)) this.bytes -= loaded.bytes;
  }
}

/** The document of one exchange after each of its events. */
export class Track {
  /**
   * @param {(at: number) => Promise<Segment>} fetch
   * @param {SegmentCache} cache
   */
  constructor(fetch, cache) {
    this.fetch = fetch;
    this.cache = cache;
    /** @type {Map<number, Loaded>} */
    this.segments = new Map();
    /** @type {Map<number, Promise<Loaded>>} */
    this.pending = new Map();
    /** @type {Set<number>} starts of segments that the log has more of */
    this.stale = new Set();
    /** @type {ExchangeDocument | undefined} the state returned last; a new segment shares its parts */
    this.latest = undefined;
  }

  /**
   * Return true if the segment of a position is here and complete.
   * @param {number} pos
   */
  has(pos) {
    const start = startOf(pos);
    const loaded = this.segments.get(start);
    return loaded !== undefined && loaded.segment.to >= pos && !this.stale.has(start);
  }

  /**
   * Load the segment of a position, once.
   * @param {number} pos
   * @returns {Promise<Loaded>}
   */
  load(pos) {
    const start = startOf(pos);
    const known = this.segments.get(start);
    if (known && this.has(pos)) return Promise.resolve(known);
    const pending = this.pending.get(start);
    if (pending) return pending;
    this.stale.delete(start);
    const loading = this.fetch(pos)
      .then((segment) => this.#keep(start, segment))
      .finally(() => this.pending.delete(start));
    this.pending.set(start, loading);
    return loading;
  }

  /** Note that the exchange, or the results of its calls, have grown: the last segment is fetched again when needed. */
  grew() {
    for (const [start, { segment }] of this.segments) if (segment.to >= segment.last) this.stale.add(start);
  }

  /**
   * Return the document after event `pos` at a time of the exchange; undefined if its segment is not here.
   * @param {number} pos
   * @param {number} t_ns
   * @returns {ExchangeDocument | undefined}
   */
  stateAt(pos, t_ns) {
    const loaded = this.segments.get(startOf(pos));
    if (!loaded || loaded.segment.to < pos) return undefined;
    this.cache.touch(loaded);
    const state = stateIn(loaded, pos, t_ns);
    this.latest = state;
    return state;
  }

  /**
   * Return what an event wrote: a range for each text that it added to or set; undefined if its segment is not here.
   * @param {number} pos
   * @returns {Written[] | undefined}
   */
  writtenBy(pos) {
    const loaded = this.segments.get(startOf(pos));
    if (!loaded || loaded.segment.to < pos) return undefined;
    const { steps } = loaded.segment;
    const first = stepsUntil(steps, pos - 1);
    /** @type {Written[]} */
    const written = [];
    let state = advanced(bestCheckpoint(loaded, first, Infinity), steps, first, Infinity).state;
    for (const [at, ops, time] of steps.slice(first, stepsUntil(steps, pos))) {
      if (at !== pos || time !== undefined) continue;
      for (const op of ops) {
        const [kind, path] = op;
        const before = valueAt(state, path);
        const length = typeof before === "string" || Array.isArray(before) ? before.length : 0;
        if (kind === "add") written.push({ path, start: length, end: length + op[2].length });
        else if (kind === "push") collectTexts(op[2], [...path, length], written);
        else if (kind === "set") collectTexts(op[2], path, written);
        state = /** @type {ExchangeDocument} */ (applied(state, op));
      }
    }
    return written;
  }

  /**
   * Return the events that wrote a range of the text at `path`, as it is after event `pos`; ascending, each once.
   * @param {Path} path
   * @param {number} start
   * @param {number} end
   * @param {number} pos
   * @returns {Promise<{ events: number[], isAll: boolean }>}
   */
  async writersOf(path, start, end, pos) {
    const state = stateIn(await this.load(pos), pos, Infinity);
    const text = valueAt(state, path);
    if (typeof text !== "string") return { events: [], isAll: true };
    /** @type {Set<number>} */
    const events = new Set();
    const range = { start, end: Math.min(end, text.length) };
    let at = startOf(pos);
    for (let count = 0; range.start < range.end; count++) {
      if (count >= SEARCHED) return { events: ascending(events), isAll: false };
      const loaded = await this.load(count ? Math.min(at + SEGMENT - 1, pos) : pos);
      const isEarlier = takeWriters(spansOf(loaded.segment, path, pos), range, events);
      if (!isEarlier || at === 0) break;
      at = await this.#lastWithout(path, range, text, at);
    }
    return { events: ascending(events), isAll: true };
  }

  /**
   * Return the start of the last segment before `at` that begins without a range of the text; binary search.
   * @param {Path} path
   * @param {{ start: number, end: number }} range
   * @param {string} text
   * @param {number} at
   */
  async #lastWithout(path, range, text, at) {
    let low = 0;
    let high = at / SEGMENT - 1;
    const wanted = text.slice(range.start, range.end);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      const { segment } = await this.load(middle * SEGMENT);
      const known = valueAt(segment.state, path);
      if (typeof known === "string" && known.slice(range.start, range.end) === wanted) high = middle - 1;
      else low = middle;
    }
    return low * SEGMENT;
  }

  /**
   * @param {number} start
   * @param {Segment} segment
   */
  #keep(start, segment) {
    const before = this.segments.get(start);
    if (before) this.cache.remove(before);
    segment.state = /** @type {ExchangeDocument} */ (shared(this.latest, segment.state));
    const first = { index: 0, state: segment.state, after: -Infinity, before: Infinity };
    const bytes = weigh(segment.state) + weigh(segment.steps);
    const loaded = { segment, bytes, cursor: first, checkpoints: [first] };
    this.segments.set(start, loaded);
    this.cache.add(loaded, () => {
      if (this.segments.get(start) === loaded) this.segments.delete(start);
    });
    return loaded;
  }
}

/** @param {number} pos */
function startOf(pos) {
  return Math.floor(Math.max(0, pos) / SEGMENT) * SEGMENT;
}

/** @param {Set<number>} events */
function ascending(events) {
  return [...events].sort((a, b) => a - b);
}

/**
 * Return how many steps belong to the events up to `pos`.
 * @param {Step[]} steps
 * @param {number} pos
 */
function stepsUntil(steps, pos) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle][0] <= pos) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @param {Loaded} loaded
 * @param {number} pos
 * @param {number} t_ns
 */
function stateIn(loaded, pos, t_ns) {
  const index = stepsUntil(loaded.segment.steps, pos);
  const { cursor } = loaded;
  const isUsable = cursor.index <= index && cursor.after <= t_ns && t_ns < cursor.before;
  const from = isUsable ? cursor : bestCheckpoint(loaded, index, t_ns);
  loaded.cursor = advanced(from, loaded.segment.steps, index, t_ns, loaded.checkpoints);
  return loaded.cursor.state;
}

/**
 * Return the last kept state of a segment that is not behind `index` steps and a time.
 * @param {Loaded} loaded
 * @param {number} index
 * @param {number} t_ns
 */
function bestCheckpoint(loaded, index, t_ns) {
  let best = loaded.checkpoints[0];
  for (const each of loaded.checkpoints) if (each.index <= index && each.after <= t_ns) best = each;
  return best;
}

/**
 * Apply the steps from a cursor to `index`.
 * @param {Cursor} from
 * @param {Step[]} steps
 * @param {number} index
 * @param {number} t_ns
 * @param {Cursor[]} [checkpoints] takes new ones
 * @returns {Cursor}
 */
function advanced(from, steps, index, t_ns, checkpoints) {
  let { state, after, before } = from;
  for (let at = from.index; at < index; at++) {
    const [, ops, time] = steps[at];
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

/**
 * Return a value with one operation applied; all that it does not touch is shared.
 * @param {unknown} root
 * @param {Op} op
 * @returns {unknown}
 */
export function applied(root, op) {
  return changed(root, op[1], 0, op);
}

/**
 * @param {unknown} node
 * @param {Path} path
 * @param {number} depth
 * @param {Op} op
 * @returns {unknown}
 */
function changed(node, path, depth, op) {
  if (depth === path.length) {
    if (op[0] === "set") return op[2];
    if (op[0] === "add") return (typeof node === "string" ? node : "") + op[2];
    return [...(Array.isArray(node) ? node : []), op[2]];
  }
  const key = path[depth];
  /** @type {any} */
  const copy =
    typeof key === "number" ? [...(Array.isArray(node) ? node : [])] : { .../** @type {object | undefined} */ (node) };
  if (op[0] === "cut" && depth === path.length - 1) {
    if (typeof key === "number") copy.splice(key, 1);
    else delete copy[key];
  } else copy[key] = changed(copy[key], path, depth + 1, op);
  return copy;
}

/**
 * @param {unknown} root
 * @param {Path} path
 * @returns {unknown}
 */
export function valueAt(root, path) {
  /** @type {any} */
  let value = root;
  for (const key of path) value = value?.[key];
  return value;
}

/**
 * @param {unknown} value
 * @param {Path} path
 * @param {Written[]} into
 */
function collectTexts(value, path, into) {
  if (typeof value === "string") into.push({ path, start: 0, end: value.length });
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
 * Add the writers of a range to `events`, and shorten the range to what is older than the segment.
 * @param {Span[]} spans
 * @param {{ start: number, end: number }} range
 * @param {Set<number>} events
 * @returns {boolean} true if a part is older
 */
function takeWriters(spans, range, events) {
  let end = range.start;
  for (const { from, to, pos } of spans) {
    if (to <= range.start || from >= range.end) continue;
    if (pos === null) end = Math.min(to, range.end);
    else events.add(pos);
  }
  range.end = end;
  return range.start < end;
}

/**
 * @param {Path} a
 * @param {Path} b
 */
function isSame(a, b) {
  return a.length === b.length && isPrefix(a, b);
}

/**
 * @param {Path} prefix
 * @param {Path} path
 */
function isPrefix(prefix, path) {
  return prefix.length <= path.length && prefix.every((key, index) => key === path[index]);
}

/**
 * Return `fresh` with each part that equals the one of `old` replaced by that, so that identity says what changed.
 * @param {unknown} old
 * @param {unknown} fresh
 * @returns {unknown}
 */
export function shared(old, fresh) {
  if (old === fresh || typeof old !== "object" || typeof fresh !== "object" || old === null || fresh === null)
    return fresh;
  if (Array.isArray(old) !== Array.isArray(fresh)) return fresh;
  /** @type {any} */
  const before = old;
  /** @type {any} */
  const after = fresh;
  const keys = Object.keys(after);
  let isEqual = keys.length === Object.keys(before).length;
  for (const key of keys) {
    after[key] = shared(before[key], after[key]);
    if (after[key] !== before[key]) isEqual = false;
  }
  return isEqual ? old : fresh;
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
