import assert from "node:assert/strict";
import { test } from "node:test";

import { soon, withoutPage } from "./page.js";

/** @import { RaceStatus, State, Transport } from "../history/protocol.js" */

const page = { skip: withoutPage };

/** @returns {RaceStatus} */
function standing() {
  return {
    id: "r",
    short: "r",
    task: "Predict price_eur",
    start: "0123456789abcdef",
    counts: "1 done, 1 failed · $0.19",
    over: true,
    picked: null,
    discarded: false,
    deletes: "Deletes 2 branches with 5 commits that are nowhere else. Undo does not bring that back.",
    notes: [],
    candidates: [
      { number: 1, title: "1 · ridge", best: true, done: true, tip: "aa" },
      { number: 2, title: "2 · log-linear", best: false, done: false, tip: "bb" },
    ],
    rows: [
      { label: "Returned", cells: [[[["0.903", "strong"], [" float", "muted"]]], [[["✕ failed", "bad"]]]] },
      { label: "Variables", cells: [[[["~", "~"], ["model", "code"]]], [[["nothing", "muted"]]]] },
    ],
  };
}

/** @param {Partial<RaceStatus>} [more] */
async function mounted(more = {}) {
  const { mountRace } = await import("../history/race.js");
  const race = { ...standing(), ...more };
  /** @type {[string, unknown][]} */
  const acted = [];
  /** @type {(state: State) => void} */
  let tell = () => {};
  const transport = /** @type {Transport} */ (/** @type {unknown} */ ({
    ask: async () => structuredClone(race),
    act: async (/** @type {string} */ op, /** @type {unknown} */ args) => {
      acted.push([op, args]);
      if (op === "discard") {
        race.discarded = true;
        return { done: "Discarded the branches of 2 candidates.", notes: [], undo: false, head: {}, cells: null };
      }
      race.picked = 1;
      return { done: "Picked candidate 1: 1 variable changed.", notes: [], undo: true, head: {}, cells: null };
    },
    onState: (/** @type {typeof tell} */ fn) => ((tell = fn), () => {}),
    canAct: () => true,
  }));
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  mountRace(root, transport, {}, "r");
  await soon(5);
  /** @param {string} name */
  const press = async (name) => {
    [...root.querySelectorAll("button")].find((one) => one.textContent === name)?.click();
    await soon(5);
  };
  let version = 0;
  const moved = async (/** @type {Partial<RaceStatus>} */ to) => {
    Object.assign(race, to);
    tell(/** @type {State} */ ({ version: `v${++version}` }));
    await soon(5);
  };
  return { root, acted, press, moved };
}

/** @param {HTMLElement} root */
const buttons = (root) => [...root.querySelectorAll("button")].map((one) => one.getAttribute("aria-label"));

test("a race stands side by side: a column for each candidate, a row for each measure, a badge for the best", page, async () => {
  const { root } = await mounted();
  assert.deepEqual([...root.querySelectorAll("thead th")].map((one) => one.textContent), ["Measure", "1 · ridgebest", "2 · log-linear"]);
  assert.deepEqual([...root.querySelectorAll("tbody th")].map((one) => one.textContent), ["Returned", "Variables"]);
  assert.equal(root.querySelectorAll("tbody .ak-win").length, 2);
});

test("one that failed cannot be picked but can be read", page, async () => {
  const { root } = await mounted();
  assert.deepEqual(buttons(root), ["Pick candidate 1", "Open diff of candidate 1", "Open diff of candidate 2", null]);
});

test("what was picked has the badge, and nothing more can be picked", page, async () => {
  const { root, acted } = await mounted();
  /** @type {HTMLButtonElement} */ (root.querySelector("button")).click();
  await soon(5);
  assert.deepEqual(acted, [["pick", { race: "r", number: 1 }]]);
  assert.match(root.textContent ?? "", /1 · ridgepicked/);
  assert.match(root.textContent ?? "", /Picked candidate 1: 1 variable changed\./);
  assert.deepEqual(buttons(root).filter(Boolean), ["Open diff of candidate 1", "Open diff of candidate 2"]);
});

test("a pick that was undone is no pick any more, and one can be picked again", page, async () => {
  const { root, press, moved } = await mounted();
  await press("Pick");
  assert.equal(buttons(root).includes("Pick candidate 1"), false);
  await moved({ picked: null });
  assert.match(root.textContent ?? "", /1 · ridgebest/);
  assert.ok(buttons(root).includes("Pick candidate 1"));
  assert.doesNotMatch(root.textContent ?? "", /Picked candidate 1/, "nor does the card say so");
});

test("once one was picked the others can be discarded, and what goes is said first", page, async () => {
  const { root, acted, press } = await mounted();
  await press("Pick");
  await press("Discard the others…");
  assert.match(root.textContent ?? "", /Deletes 2 branches with 5 commits/);
  assert.equal(acted.length, 1);
  await press("Discard the others");
  assert.deepEqual(acted.at(-1), ["discard", { race: "r" }]);
  assert.match(root.textContent ?? "", /The others were discarded\.Discarded the branches of 2 candidates\./);
  await press("Discard the others…");
  assert.equal(acted.length, 2);
});

test("all can be discarded where none was picked, and asking it again keeps them", page, async () => {
  const { root, acted, press } = await mounted();
  await press("Discard all…");
  assert.equal(document.activeElement?.textContent, "Keep");
  await press("Keep");
  assert.equal(document.activeElement?.textContent, "Discard all…");
  assert.deepEqual(acted, []);
  await press("Discard all…");
  await press("Discard all");
  assert.deepEqual(acted, [["discard", { race: "r" }]]);
  assert.match(root.textContent ?? "", /The candidates were discarded\./);
  assert.equal(buttons(root).includes("Pick candidate 1"), false);
});

test("nothing is discarded of a race that is still on", page, async () => {
  const { root } = await mounted({ over: false });
  assert.doesNotMatch(root.textContent ?? "", /Discard/);
});
