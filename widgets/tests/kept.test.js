/** A panel that is saved with its notebook's widgets holds no code. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { keepNoCode, openingOf } from "../history/kept.js";

const CODE = "only_in_the_code";
const ME = { name: "ada", kind: "person", me: true };
const ROWS = [
  { kind: "day", day: "2026-11-21" },
  { kind: "fold", id: "f", prompt: "[3]", subject: `${CODE}()` },
  { kind: "commit", prompt: "[2]", subject: `A comment with ${CODE}`, is_code: false, author: ME, why: `ValueError: ${CODE}`, chips: [["+", "df", 8]] },
  { kind: "commit", prompt: "", subject: `${CODE} = 1`, is_code: true, author: { ...ME, kind: "agent" }, why: "", chips: [] },
  { kind: "commit", prompt: "", subject: "Before the talk", is_code: false, author: ME, why: "", chips: [] },
];
const opening = () => ({
  args: { text: "" },
  ok: {
    title: "a.ipynb",
    head: { branch: "main", id: "7", prompt: "", label: `“${CODE}”`, lane: 0 },
    state: { version: "1", undo: { text: `[2] ${CODE} = 1`, cell: true, to: null }, done: { done: CODE }, failed: { text: CODE } },
    page: { total: 5, rows: ROWS },
  },
});

/** A widget's model, as far as it is used. */
function modelOf(/** @type {any} */ held) {
  /** @type {Map<string, () => void>} */
  const events = new Map();
  return {
    get: () => held,
    set(/** @type {string} */ name, /** @type {any} */ other) {
      held = other;
      events.get(`change:${name}`)?.();
    },
    on: (/** @type {string} */ event, /** @type {() => void} */ fn) => void events.set(event, fn),
    off: (/** @type {string} */ event) => void events.delete(event),
  };
}

test("the view has the code, and what is saved of it has none", () => {
  const model = /** @type {any} */ (modelOf(opening()));
  keepNoCode(model);
  assert.deepEqual(openingOf(model), opening());
  const saved = structuredClone(model.get("opening"));
  assert.ok(!JSON.stringify(saved).includes(CODE));
  assert.deepEqual(saved.ok.page.rows.map((/** @type {any} */ row) => row.subject), [undefined, "cell", "cell", "cell", "Before the talk"]);
  assert.deepEqual([saved.ok.page.rows[2].why, saved.ok.page.rows[2].chips], ["ValueError", [["+", "df", 8]]]);
  assert.deepEqual([saved.ok.title, saved.ok.page.total, saved.args], ["a.ipynb", 5, { text: "" }]);
});

test("nor has an opening that the kernel sends later", () => {
  const model = /** @type {any} */ (modelOf(opening()));
  const stop = keepNoCode(model);
  model.set("opening", opening());
  assert.ok(!JSON.stringify(model.get("opening")).includes(CODE));
  assert.deepEqual(openingOf(model), opening());
  stop();
});
