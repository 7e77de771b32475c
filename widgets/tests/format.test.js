import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../shared/format.js";

const NOW = new Date(2026, 10, 21, 14, 32).getTime();
const at = (/** @type {[number, number, number, number]} */ ...[day, hour, minute, second]) =>
  new Date(2026, 10, day, hour, minute, second).getTime();

test("sizes are decimal and have three digits at most", () => {
  const cases = /** @type {[number, string][]} */ ([
    [0, "0 B"],
    [28, "28 B"],
    [999, "999 B"],
    [1000, "1 kB"],
    [1900, "1.9 kB"],
    [23_400, "23.4 kB"],
    [118_000, "118 kB"],
    [999_600, "1 MB"],
    [1_200_000, "1.2 MB"],
    [4e9, "4 GB"],
  ]);
  for (const [n, text] of cases) assert.equal(format.bytes(n), text);
});

test("two sizes share a unit, and are one where they are the same", () => {
  assert.equal(format.byteChange(118_000, 130_000), "118 → 130 kB");
  assert.equal(format.byteChange(980, 1200), "980 B → 1.2 kB");
  assert.equal(format.byteChange(28, 28), "28 B");
  assert.equal(format.byteChange(null, 112), "112 B");
  assert.equal(format.byteChange(112, null), "112 B");
  assert.equal(format.byteChange(null, null), "");
});

test("a duration has two digits or so", () => {
  const cases = /** @type {[number | null, string][]} */ ([
    [null, ""],
    [0, "0.00 s"],
    [0.42, "0.42 s"],
    [2.1, "2.1 s"],
    [9.97, "10 s"],
    [38, "38 s"],
    [59.7, "1m 00s"],
    [64, "1m 04s"],
    [130, "2m 10s"],
    [3840, "1h 04m"],
  ]);
  for (const [seconds, text] of cases) assert.equal(format.took(seconds), text);
});

test("a duration is said in words", () => {
  assert.equal(format.tookSpoken(0.42), "0.42 seconds");
  assert.equal(format.tookSpoken(130), "2 minutes 10 seconds");
  assert.equal(format.tookSpoken(3660), "1 hour 1 minute");
  assert.equal(format.tookSpoken(null), "");
});

test("a moment is now, then minutes for an hour, then the time", () => {
  assert.equal(format.when(NOW - 20_000, NOW), "now");
  assert.equal(format.when(NOW - 60_000, NOW), "1 min");
  assert.equal(format.when(NOW - 59 * 60_000, NOW), "59 min");
  assert.equal(format.when(at(21, 13, 20, 0), NOW), "13:20");
  assert.equal(format.when(NOW + 600_000, NOW), "14:42");
});

test("days are named from the reader's calendar", () => {
  assert.equal(format.dayName("2026-11-21", NOW), "Today");
  assert.equal(format.dayName("2026-11-20", NOW), "Yesterday");
  assert.equal(format.dayName("2026-11-19", NOW), "Thursday 19 November");
  assert.equal(format.dayName("2025-12-31", NOW), "Wednesday 31 December 2025");
});

test("the whole moment is in the tooltip, and said in words", () => {
  assert.equal(format.stamp(at(20, 17, 12, 8), NOW), "Fri 20 Nov, 17:12:08");
  assert.equal(format.whenSpoken(at(20, 17, 12, 8), NOW), "yesterday 17:12");
  assert.equal(format.whenSpoken(at(3, 9, 5, 0), NOW), "3 November 09:05");
});

test("code keeps its last fourteen characters when it is long", () => {
  assert.deepEqual(format.cutMiddle("y = np.log(df.price_eur)"), ["y = np.log(df.price_eur)", ""]);
  const [head, tail] = format.cutMiddle('summary = scores.groupby("model").agg(["mean", "std"])');
  assert.equal(tail, ' "mean", "std"])'.slice(-14));
  assert.equal(head + tail, 'summary = scores.groupby("model").agg(["mean", "std"])');
});

test("numbers have commas, and words their plural", () => {
  assert.equal(format.count(10000), "10,000");
  assert.equal(format.plural(1, "commit"), "1 commit");
  assert.equal(format.plural(1460, "row"), "1,460 rows");
});

test("a list of names ends with how many more there are", () => {
  assert.equal(format.nameList(["a", "b"]), "a, b");
  assert.equal(format.nameList([..."abcdefghijklmnopq"]), "a, b, c, d, e, f, g, h, i, j, k, l and 5 more");
});

test("a remedy becomes a sentence of its own", () => {
  assert.equal(format.asSentence("connect again in a cell"), " Connect again in a cell.");
  assert.equal(format.asSentence(""), "");
});

test("where there is little room a stamp has neither the day of the week nor seconds", () => {
  const at = new Date(2026, 10, 20, 17, 12, 8).getTime();
  assert.equal(format.shortStamp(at, at), "20 Nov, 17:12");
  assert.equal(format.shortStamp(at, new Date(2027, 1, 1).getTime()), "20 Nov 2026, 17:12");
});
