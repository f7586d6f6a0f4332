// The states of one exchange: its track in segments, and which event wrote which text. Interprets no protocol.

import { shared, valueAt } from "./ops.js";
import { LoadedSegment, SEGMENT, startOf } from "./segment.js";

/** Segments that one selection is looked up in; a selection over more of them is answered in part. */
const SEARCHED = 96;

/** The document of one exchange after each of its events. */
export class Track {
  /**
   * @param {(at: number) => Promise<Segment>} fetch
   * @param {import("./tracks.js").SegmentCache} cache
   */
  constructor(fetch, cache) {
    this.fetch = fetch;
    this.cache = cache;
    /** @type {Map<number, LoadedSegment>} */
    this.segments = new Map();
    /** @type {Map<number, Promise<LoadedSegment>>} */
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
    return hasPosition(this.segments.get(start), pos) && !this.stale.has(start);
  }

  /**
   * Load the segment of a position, once.
   * @param {number} pos
   * @returns {Promise<LoadedSegment>}
   */
  load(pos) {
    const start = startOf(pos);
    const known = this.segments.get(start);
    if (known && this.has(pos)) return Promise.resolve(known);
    const pending = this.pending.get(start);
    if (pending) return pending.then((loaded) => (hasPosition(loaded, pos) ? loaded : this.load(pos)));
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
    if (!hasPosition(loaded, pos)) return undefined;
    this.cache.touch(loaded);
    this.latest = loaded.stateAt(pos, t_ns);
    return this.latest;
  }

  /**
   * Return what an event wrote: a range for each text that it added to or set; undefined if its segment is not here.
   * @param {number} pos
   * @returns {import("./segment.js").Written[] | undefined}
   */
  writtenBy(pos) {
    const loaded = this.segments.get(startOf(pos));
    return hasPosition(loaded, pos) ? loaded.writtenBy(pos) : undefined;
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
    // From its first position on: of an exchange that has ended, the last event may be here alone.
    const state = (await this.load(startOf(pos))).stateAt(pos, Infinity);
    const text = valueAt(state, path);
    if (typeof text !== "string") return { events: [], isAll: true };
    /** @type {Set<number>} */
    const events = new Set();
    const range = { start, end: Math.min(end, text.length) };
    let at = startOf(pos);
    for (let count = 0; range.start < range.end; count++) {
      if (count >= SEARCHED) return { events: ascending(events), isAll: false };
      const loaded = await this.load(at);
      const isEarlier = loaded.takeWriters(path, range, pos, events);
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
    const loaded = new LoadedSegment(segment);
    this.segments.set(start, loaded);
    this.cache.add(loaded, () => {
      if (this.segments.get(start) === loaded) this.segments.delete(start);
    });
    return loaded;
  }
}

/**
 * @param {LoadedSegment | undefined} loaded
 * @param {number} pos
 * @returns {loaded is LoadedSegment}
 */
function hasPosition(loaded, pos) {
  return loaded !== undefined && loaded.segment.from <= pos && pos <= loaded.segment.to;
}

/** @param {Set<number>} events */
function ascending(events) {
  return [...events].sort((a, b) => a - b);
}
