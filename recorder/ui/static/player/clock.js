// The playhead: a time of the session and the last event at that time.

/** Speeds that the player offers. */
export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
/** Longest silence that is played while silences are skipped. */
const SILENCE_NS = 3e8;

/** The playhead of a session, and how it moves. */
export class Clock {
  /**
   * @param {import("./timeline.js").SessionTimeline} timeline
   * @param {() => void} moved
   */
  constructor(timeline, moved) {
    this.timeline = timeline;
    this.moved = moved;
    this.index = 0;
    /** Time of the playhead since the session began; between two events while it plays or is dragged. */
    this.t = 0;
    this.speed = 1;
    this.isPlaying = false;
    this.isSkipping = false;
    /** @type {number | null} the time of the last frame that was played */
    this.frameMs = null;
  }

  /** Place of the playhead's exchange in the timeline. */
  get slot() {
    return this.timeline.slot[this.index] ?? 0;
  }

  get pos() {
    return this.timeline.pos[this.index] ?? 0;
  }

  /** Number of the playhead's exchange. */
  get exchange() {
    return this.timeline.exchanges[this.slot]?.number ?? 0;
  }

  get last() {
    return Math.max(0, this.timeline.length - 1);
  }

  /** @param {number} index */
  seek(index) {
    this.index = Math.min(this.last, Math.max(0, index));
    this.t = this.timeline.time[this.index] ?? 0;
    this.moved();
  }

  /**
   * Move to a time; the event is the last one until then.
   * @param {number} t
   */
  seekTime(t) {
    this.t = Math.max(0, t);
    this.index = this.timeline.at(this.t);
    this.moved();
  }

  /** @param {number} count */
  step(count) {
    this.pause();
    this.seek(this.index + count);
  }

  /**
   * Move to the next or previous beginning of an item; to the end or the beginning if there is none.
   * @param {1 | -1} direction
   */
  stepItem(direction) {
    const { timeline } = this;
    const starts = timeline.blocks
      .filter((block) => timeline.isItem(block) && block.first_pos !== null)
      .map((block) => timeline.indexOf(timeline.slotOf(block.exchange), block.first_pos ?? 0));
    this.pause();
    const sorted = starts.sort((a, b) => a - b);
    const next =
      direction > 0 ? sorted.find((each) => each > this.index) : sorted.findLast((each) => each < this.index);
    this.seek(next ?? (direction > 0 ? this.last : 0));
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    if (this.index >= this.last) this.seek(0);
    this.isPlaying = true;
    this.frameMs = null;
    this.moved();
  }

  /** Play because a link says so, unless the system asks for less motion. */
  playUnasked() {
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.play();
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    this.moved();
  }

  /**
   * Play until the time of a frame.
   * @param {number} nowMs
   */
  tick(nowMs) {
    // A tab in the background gets no frames: what was missed there is not made up for.
    const passed = this.frameMs === null ? 0 : Math.min(100, nowMs - this.frameMs);
    this.frameMs = nowMs;
    this.t += passed * 1e6 * this.speed;
    const { time } = this.timeline;
    if (this.isSkipping && this.index < this.last) {
      const next = time[this.index + 1];
      if (next - time[this.index] > SILENCE_NS * this.speed) this.t = Math.max(this.t, next - SILENCE_NS * this.speed);
    }
    this.index = this.timeline.at(this.t);
    if (this.index >= this.last) this.isPlaying = false;
  }
}
