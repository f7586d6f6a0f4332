// The silence before an event as one of a few colours: `heat-1` to `heat-5` of the style sheet.

/** Upper bounds of all but the last, in ns. */
const BOUNDS_NS = [50e6, 250e6, 1e9, 5e9];
/** Each colour in words. */
export const HEATS = ["under 50 ms", "to 250 ms", "to 1 s", "to 5 s", "over 5 s"];

/**
 * Return the number of the colour of a silence; 1 is the shortest.
 * @param {number} silence_ns
 */
export function heatOf(silence_ns) {
  let heat = 0;
  while (heat < BOUNDS_NS.length && silence_ns >= BOUNDS_NS[heat]) heat++;
  return heat + 1;
}
