/**
 * The rows that are here, by their place in the list.
 *
 * When the history changes every row becomes old, but stays until newer ones have come, so that nothing flickers. Only rows
 * that are not old say where a commit stands.
 */

import { PAGE_ROWS, pagesOf } from "./window.js";

/** @import { Page, Row } from "./protocol.js" */

export class RowPages {
  constructor() {
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Map<number, number>} by the start of a page: up to which row it is here, or on its way */
    this.reached = new Map();
    this.version = "";
    this.total = 0;
    this.commits = 0;
    this.matches = 0;
  }

  /** Forget the rows: another list comes. */
  clear() {
    this.rows.clear();
    this.reached.clear();
  }

  /** The rows have become old. */
  expire() {
    this.reached.clear();
  }

  /** @param {Page} page */
  take(page) {
    if (page.version !== this.version) this.expire();
    const { version, total, commits, matches } = page;
    Object.assign(this, { version, total, commits, matches });
    // A page may be shorter than was asked for, where its rows are long: its rest is asked for when it is in view.
    this.reached.set(startOf(page.from), page.rows.length ? page.from + page.rows.length : Infinity);
    page.rows.forEach((row, at) => this.rows.set(page.from + at, row));
    for (const at of this.rows.keys()) if (at >= total) this.rows.delete(at);
  }

  /**
   * What has to be asked for, so that rows `from` to `to` are here. It counts as on its way from now on.
   *
   * @param {number} from @param {number} to
   */
  missing(from, to) {
    const wanted = [];
    for (const start of pagesOf(from, Math.min(to, this.total))) {
      const end = Math.min(start + PAGE_ROWS, this.total);
      const next = this.reached.get(start) ?? start;
      if (next >= Math.min(end, to)) continue;
      this.reached.set(start, end);
      wanted.push({ from: next, n: end - next });
    }
    return wanted;
  }

  /** Whether runs are here that stopped, and nobody has looked yet whether they can go on. */
  get hasUnchecked() {
    return [...this.rows.values()].some((row) => {
      const stopped = row.kind === "wait" ? row.stopped : row.kind === "fold" ? row.run?.stopped : null;
      return stopped && !stopped.checked;
    });
  }

  /** Where a row stands, if it is here and not old. @param {string} id @returns {number | null} */
  find(id) {
    for (const [at, row] of this.rows) {
      if (row.kind !== "day" && row.id === id && (this.reached.get(startOf(at)) ?? 0) > at) return at;
    }
    return null;
  }
}

/** @param {number} at */
const startOf = (at) => at - (at % PAGE_ROWS);
