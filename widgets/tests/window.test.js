import assert from "node:assert/strict";
import { test } from "node:test";

import { RowPages } from "../history/pages.js";
import { PAGE_ROWS, pagesOf, rowsInView, scrollTo } from "../history/window.js";

/** @import { Row } from "../history/protocol.js" */

const NO_GRAPH = { node: null, colour: 0, lines: [] };
const row = (/** @type {number} */ at) =>
  /** @type {Row} */ (/** @type {unknown} */ ({ kind: "commit", id: `c${at}`, graph: NO_GRAPH }));
/** @param {number} from @param {number} n @param {number} [total] @param {string} [version] */
const page = (from, n, total = 200, version = "v1") => ({
  version,
  from,
  total,
  commits: total,
  matches: total,
  rows: Array.from({ length: n }, (_, at) => row(from + at)),
});

test("fewer than forty rows stand in the page, whatever its height", () => {
  for (let height = 28; height < 5000; height += 97) {
    const { from, to } = rowsInView(50_000, height, 10_000);
    assert.ok(to - from + 1 < 40, `${to - from} rows at ${height} px`);
  }
});

test("every row that is seen stands in the page, up to a window of a thousand px", () => {
  for (const [scrolled, height] of /** @type {[number, number][]} */ ([
    [0, 320],
    [13, 320],
    [2800, 448],
    [279_680, 320],
    [140, 1000],
  ])) {
    const { from, to } = rowsInView(scrolled, height, 10_000);
    assert.ok(from <= Math.floor(scrolled / 28) && to >= Math.min(10_000, Math.ceil((scrolled + height) / 28)));
  }
});

test("a short list has no rows beyond its end", () => {
  assert.deepEqual(rowsInView(0, 320, 3), { from: 0, to: 3 });
  assert.deepEqual(rowsInView(500, 320, 0), { from: 0, to: 0 });
});

test("scrolling moves no further than is needed", () => {
  assert.equal(scrollTo(3, 0, 320), 0);
  assert.equal(scrollTo(20, 0, 320), 20 * 28 + 28 - 320);
  assert.equal(scrollTo(2, 500, 320), 56);
});

test("pages are aligned", () => {
  assert.deepEqual(pagesOf(60, 120), [PAGE_ROWS, 2 * PAGE_ROWS]);
  assert.deepEqual(pagesOf(0, 0), []);
});

test("a page is asked for once", () => {
  const pages = new RowPages();
  pages.take(page(0, 50));
  assert.deepEqual(pages.missing(40, 60), [{ from: 50, n: 50 }]);
  assert.deepEqual(pages.missing(40, 60), []);
});

test("the rest of a short page is asked for when it is in view", () => {
  const pages = new RowPages();
  pages.take(page(0, 20));
  assert.deepEqual(pages.missing(0, 18), []);
  assert.deepEqual(pages.missing(0, 30), [{ from: 20, n: 30 }]);
});

test("rows of an older list stay until newer ones come, and say nothing of where a commit is", () => {
  const pages = new RowPages();
  pages.take(page(0, 50));
  pages.take(page(50, 50));
  pages.take(page(0, 50, 201, "v2"));
  assert.equal(pages.rows.size, 100);
  assert.equal(pages.find("c10"), 10);
  assert.equal(pages.find("c60"), null);
});

test("a list that became shorter loses its last rows", () => {
  const pages = new RowPages();
  pages.take(page(0, 50));
  pages.take(page(0, 10, 10, "v2"));
  assert.equal(pages.rows.size, 10);
});
