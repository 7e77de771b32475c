/**
 * Which rows stand in the page.
 *
 * Every row is 28 px high, so row n starts at n × 28 and nothing has to be measured. Rows are asked for in pages, aligned
 * so that scrolling back and forth asks for no row twice.
 */

export const ROW_PX = 28;
export const PAGE_ROWS = 50;
/** With the active row, which always stands in the page, fewer than 40. */
const MOST_ROWS = 38;
const SPARE_ROWS = 6;

/**
 * The rows that are seen, and some above and below them.
 *
 * @param {number} scrolled @param {number} height both in px
 * @param {number} total rows of the list
 * @returns {{ from: number, to: number }} `to` is not one of them
 */
export function rowsInView(scrolled, height, total) {
  const first = Math.max(0, Math.floor(scrolled / ROW_PX));
  const seen = Math.min(Math.ceil(height / ROW_PX) + 1, MOST_ROWS);
  const spare = Math.max(0, Math.min(SPARE_ROWS, Math.floor((MOST_ROWS - seen) / 2)));
  const to = Math.min(total, first + seen + spare);
  return { from: Math.max(0, Math.min(first - spare, to)), to };
}

/** The starts of the pages that hold rows `from` to `to`. @param {number} from @param {number} to @returns {number[]} */
export function pagesOf(from, to) {
  const starts = [];
  for (let at = from - (from % PAGE_ROWS); at < to; at += PAGE_ROWS) starts.push(at);
  return starts;
}

/**
 * Where to scroll so that a row is seen, moving no further than is needed.
 *
 * @param {number} row @param {number} scrolled @param {number} height
 */
export function scrollTo(row, scrolled, height) {
  const top = row * ROW_PX;
  if (top < scrolled) return top;
  return top + ROW_PX > scrolled + height ? top + ROW_PX - height : scrolled;
}
