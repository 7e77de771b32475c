import assert from "node:assert/strict";
import { test } from "node:test";

import { chipList, fitChips } from "../history/chips.js";
import { changedCells } from "../history/cells.js";
import { rowName } from "../history/row.js";
import { NOW, houses } from "./fixture/houses.js";
import { listRows } from "./fixture/rows.js";
import { withoutPage } from "./page.js";

/** @import { CommitRow } from "../history/protocol.js" */

const ALL = {
  text: "",
  show: /** @type {const} */ ("all"),
  tz_s: -new Date(NOW).getTimezoneOffset() * 60,
  unfolded: [],
};
/** @param {string} prompt */
const rowOf = (prompt) =>
  /** @type {CommitRow} */ (listRows(houses(), ALL).rows.find((row) => row.kind === "commit" && row.prompt === prompt));

test("a row's name says in words what its columns show", () => {
  assert.equal(
    rowName(rowOf("[7]"), NOW),
    "Cell 7, Convert to euros, repair impossible areas, changed df and 3 more, removed 1 variable, 0.42 seconds, yesterday 17:12",
  );
});

test("a row's name says who, what failed, and which branch stands there", () => {
  assert.match(rowName(rowOf("[20.3]"), NOW), /^Cell 20\.3, analyst, fig = .*, you are here, on main, changed fig,/);
  assert.match(rowName(rowOf("[11]"), NOW), /failed, ValueError: Input X contains NaN\./);
  assert.match(rowName(rowOf("[19]"), NOW), /branch ridge/);
  assert.match(rowName(rowOf("[3]"), NOW), /conn not saved/);
});

test("four names are chips, of five only three and how many more", () => {
  const chips = /** @type {CommitRow["chips"]} */ ([
    ["~", "df", 23_400],
    ["~", "area_z", 1],
    ["~", "fig", 1],
    ["~", "rate", 0],
  ]);
  assert.deepEqual(fitChips(chips, 0, 500), { shown: 4, sized: true, more: 0 });
  assert.deepEqual(fitChips(chips, 1, 500), { shown: 3, sized: true, more: 2 });
});

test("where there is less room there are fewer chips, and the size goes before the last name does", () => {
  const chips = /** @type {CommitRow["chips"]} */ ([
    ["~", "df", 23_400],
    ["~", "area_z", 1],
    ["~", "fig", 1],
  ]);
  assert.deepEqual(fitChips(chips, 0, 200), { shown: 3, sized: true, more: 0 });
  assert.deepEqual(fitChips(chips, 0, 170), { shown: 3, sized: false, more: 0 });
  assert.deepEqual(fitChips(chips, 0, 90), { shown: 1, sized: false, more: 2 });
  assert.deepEqual(fitChips([], 0, 100), { shown: 0, sized: false, more: 0 });
});

test("what became of a table stands after its name, in place of a size, as long as there is room", { skip: withoutPage }, () => {
  const chips = /** @type {CommitRow["chips"]} */ ([
    ["+", "summary", 74],
    ["~", "df", 10_100],
  ]);
  const row = /** @type {CommitRow} */ ({ chips, more: 0, grew: { df: "−17 rows" } });
  const seen = (/** @type {number} */ widthPx) => chipList(row, { widthPx, marks: { names: [], words: [] } }).flatMap((chip) => chip?.textContent ?? []);
  assert.deepEqual(seen(600), ["+summary 74 B", "~df −17 rows"]);
  assert.deepEqual(seen(300), ["+summary", "~df"]);
});

test("what is not saved is seen before what is, where there is no room for both", { skip: withoutPage }, () => {
  const chips = /** @type {CommitRow["chips"]} */ ([
    ["+", "threading", 74],
    ["+", "counter", 5],
    ["!", "fh", 0],
  ]);
  const row = /** @type {CommitRow} */ ({ chips, more: 0 });
  const seen = (/** @type {number} */ widthPx) => chipList(row, { widthPx, marks: { names: [], words: [] } }).map((chip) => chip?.textContent);
  assert.deepEqual(seen(480), ["+threading", "! fh not saved", "1 more"]);
  assert.deepEqual(seen(320), ["! fh not saved", "2 more"]);
});

test("cells that differ, come or go are counted, and named by their prompts", () => {
  const now = [
    { id: "a", type: /** @type {const} */ ("code"), source: "1", prompt: "[1]" },
    { id: "b", type: /** @type {const} */ ("code"), source: "2", prompt: "[2]" },
    { id: "gone", type: /** @type {const} */ ("code"), source: "3" },
  ];
  const page = {
    name: "x.ipynb",
    saved_ms: 0,
    cells: [{ ...now[0] }, { id: "b", type: "code", source: "two" }, { id: "new", type: "markdown", source: "" }],
  };
  assert.deepEqual(changedCells(now, /** @type {any} */ (page)), { n: 3, prompts: ["[2]"] });
});
