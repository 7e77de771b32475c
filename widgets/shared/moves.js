/** What has to move where a list gets another order. */

/**
 * The most that need not move: a longest run of places that rises.
 *
 * @param {(number | null)[]} kept where each one of the new list stands now; null: nowhere
 * @returns {number[]} their places in the new list
 */
export function unmoved(kept) {
  /** @type {number[]} the last one of the best run of each length */
  const ends = [];
  /** @type {(number | undefined)[]} the one before each in its run */
  const before = [];
  kept.forEach((at, place) => {
    if (at === null) return;
    let length = ends.findIndex((end) => /** @type {number} */ (kept[end]) >= at);
    if (length < 0) length = ends.length;
    before[place] = ends[length - 1];
    ends[length] = place;
  });
  const run = [];
  for (let place = ends.at(-1); place !== undefined; place = before[place]) run.unshift(place);
  return run;
}
