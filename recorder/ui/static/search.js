// Binary search.

/**
 * Return how many of the first places satisfy a condition that no place after them does.
 * @param {number} length
 * @param {(place: number) => boolean} holds
 */
export function countWhile(length, holds) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
