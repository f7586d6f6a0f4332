// The tracks of a page, one for each exchange: segments are loaded few at a time, and held within a limit of bytes.

import { messageOf } from "../format.js";
import { Track } from "./track.js";

/** About what all tracks of a page hold: some 20 segments of a text of 500,000 characters. */
const KEPT_BYTES = 24e6;
/** Segments asked for at the same time, while the playhead runs over many. */
const AT_ONCE = 3;
/** Pause after a segment that did not come. */
const RETRY_MS = 3000;

/** Segments of all tracks of a page, the least recently used go first. */
export class SegmentCache {
  constructor() {
    this.bytes = 0;
    /** @type {Map<import("./segment.js").LoadedSegment, () => void>} */
    this.entries = new Map();
  }

  /**
   * @param {import("./segment.js").LoadedSegment} loaded
   * @param {() => void} forget
   */
  add(loaded, forget) {
    this.entries.set(loaded, forget);
    this.bytes += loaded.bytes;
    for (const [oldest, drop] of this.entries) {
      if (this.bytes <= KEPT_BYTES || oldest === loaded) break;
      this.remove(oldest);
      drop();
    }
  }

  /** @param {import("./segment.js").LoadedSegment} loaded */
  touch(loaded) {
    const forget = this.entries.get(loaded);
    if (!forget) return;
    this.entries.delete(loaded);
    this.entries.set(loaded, forget);
  }

  /** @param {import("./segment.js").LoadedSegment} loaded */
  remove(loaded) {
    if (this.entries.delete(loaded)) this.bytes -= loaded.bytes;
  }
}

/**
 * @typedef {object} TracksOptions
 * @property {(exchange: number, at: number) => Promise<Segment>} fetch
 * @property {() => void} changed a segment came, or may be asked for again
 * @property {(message: string) => void} failed
 */

/** The tracks, by number of exchange. */
export class Tracks {
  /** @param {TracksOptions} options */
  constructor(options) {
    this.options = options;
    this.cache = new SegmentCache();
    /** @type {Map<number, Track>} */
    this.tracks = new Map();
    this.loading = 0;
    /** @type {Set<Track>} tracks of which a segment did not come a moment ago */
    this.refused = new Set();
  }

  /** @param {number} number */
  of(number) {
    let track = this.tracks.get(number);
    if (!track) {
      track = new Track((at) => this.options.fetch(number, at), this.cache);
      this.tracks.set(number, track);
    }
    return track;
  }

  /** Note that exchanges have grown, or what others say of them. */
  grew() {
    for (const track of this.tracks.values()) track.grew();
  }

  /**
   * Return the events that wrote some texts, each with its exchange, and whether these are all.
   * @param {import("./conversation.js").ChosenText[]} chosen
   * @param {(exchange: number) => number} posOf an exchange, at the playhead
   */
  async writersOf(chosen, posOf) {
    const writers = [];
    let isAll = true;
    for (const { exchange, path, start, end } of chosen) {
      const found = await this.of(exchange).writersOf(path, start, end, posOf(exchange));
      isAll &&= found.isAll;
      for (const pos of found.events) writers.push({ exchange, pos });
    }
    return { writers, isAll };
  }

  /**
   * Load a segment, if not too many are on their way; one that did not come is asked for again after a pause.
   * @param {Track} track
   * @param {number} pos
   */
  async load(track, pos) {
    if (track.has(pos) || this.loading >= AT_ONCE || this.refused.has(track)) return;
    const { changed, failed } = this.options;
    this.loading += 1;
    try {
      await track.load(pos);
      if (!track.has(pos)) throw new Error("The viewer does not have the events that its timeline shows.");
    } catch (error) {
      failed(messageOf(error));
      this.refused.add(track);
      setTimeout(() => {
        this.refused.delete(track);
        changed();
      }, RETRY_MS);
    } finally {
      this.loading -= 1;
      changed();
    }
  }
}
