// Where a time of a session is on the picture of its lanes.

/** Silences longer than this between two exchanges may be drawn shorter. */
const LONG_NS = 3e9;

/** The axis: places are times, with long silences between exchanges drawn shorter. */
export class Axis {
  /**
   * @param {import("./timeline.js").SessionTimeline} timeline
   * @param {boolean} isShortened
   */
  constructor(timeline, isShortened) {
    const end = Math.max(1, timeline.end);
    /** @type {{ from: number, to: number }[]} times of the silences that are drawn shorter */
    this.gaps = isShortened ? longSilences(timeline) : [];
    const busy = end - this.gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
    const drawn = Math.min(LONG_NS, Math.max(3e8, busy * 0.04));
    this.times = [0];
    this.places = [0];
    let place = 0;
    let at = 0;
    for (const gap of this.gaps) {
      place += gap.from - at;
      this.times.push(gap.from);
      this.places.push(place);
      place += drawn;
      this.times.push(gap.to);
      this.places.push(place);
      at = gap.to;
    }
    this.length = place + end - at;
    this.times.push(end);
    this.places.push(this.length);
  }

  /** @param {number} t */
  placeOf(t) {
    return between(this.times, this.places, t);
  }

  /** @param {number} place */
  timeOf(place) {
    return between(this.places, this.times, place);
  }
}

/**
 * Map a value from one ascending list to another. In a loop of its own: it is called for each event that is drawn.
 * @param {number[]} from
 * @param {number[]} to
 * @param {number} value
 */
function between(from, to, value) {
  let low = 1;
  let high = from.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (from[middle] < value) low = middle + 1;
    else high = middle;
  }
  const span = from[low] - from[low - 1];
  const share = span > 0 ? (value - from[low - 1]) / span : 0;
  return to[low - 1] + share * (to[low] - to[low - 1]);
}

/**
 * Return the long silences behind which an exchange begins, and in which no item is open: nobody waited for an event.
 * @param {import("./timeline.js").SessionTimeline} timeline
 */
function longSilences(timeline) {
  const gaps = [];
  const { time, slot } = timeline;
  const items = timeline.blocks
    .filter((block) => block.to_ns !== null && timeline.isItem(block))
    .map((block) => ({ from: timeline.startOf(block), to: timeline.endOf(block) }))
    .sort((a, b) => a.from - b.from);
  const firsts = timeline.places.map(([first]) => first).filter((index) => index > 0);
  let begun = 0;
  let latest = -Infinity; // end of those items that have begun before a silence
  for (const index of firsts.sort((a, b) => a - b)) {
    const from = time[index - 1];
    const to = time[index];
    if (to - from < LONG_NS || slot[index] === slot[index - 1]) continue;
    for (; begun < items.length && items[begun].from < from; begun++) latest = Math.max(latest, items[begun].to);
    if (latest <= to) gaps.push({ from, to });
  }
  return gaps;
}
