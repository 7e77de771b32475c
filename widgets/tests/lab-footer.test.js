/** The line under a cell: Undo stands there only while it takes that cell back. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { FOOTER, fit, footerLine } from "../lab/footer.js";
import { stateOf } from "./lab-fakes.js";
import { withoutPage } from "./page.js";

const page = { skip: withoutPage };
const LINE = { commit: "three", short: "three", branch: "main", author: { name: "", kind: "person" }, chips: [["~", "a", 8]], more: 0, unsaved: "", took_s: 0.1, undo: true };

class FakeWidget {
  node = document.createElement("div");
  addClass() {}
  dispose() {}
}

/** The line of the commit that HEAD is at, in a kernel of this state. @param {object} state */
async function buttons(state) {
  return [...(await lineOf(state)).node.querySelectorAll("button")].map((button) => button.textContent);
}

/** @param {object} state @param {object} [more] of the line @param {string} [head] @param {string[]} [opened] @param {object[]} [acts] */
async function lineOf(state, more = {}, head = "three", opened = [], acts = []) {
  const act = (/** @type {string} */ op, /** @type {object} */ args) => Promise.resolve((acts.push([op, args]), { done: "Undone [3].", notes: [] }));
  const transport = { act, canAct: () => true, state: () => stateOf(state), place: {}, hasKernel: true };
  const following = { head, isBusy: false, lanes: new Map(), undone: new Set(more.undone ?? []), listen: (/** @type {() => void} */ fn) => ((following.tell = fn), () => {}), tell: () => {} };
  const notebook = { transport, following, seen() {} };
  const Line = footerLine(/** @type {any} */ (FakeWidget), /** @type {any} */ (() => ({ around: () => notebook })), (_, commit) => void opened.push(String(commit)));
  const line = /** @type {any} */ (new Line());
  await line.renderModel({ data: { [FOOTER]: { ...LINE, ...more } } });
  line.onAfterAttach();
  return Object.assign(line, { following });
}

test("a cell that was the last thing done can be undone", page, async () => {
  assert.deepEqual(await buttons({ undo: { text: "[3] a = 3", cell: true, to: "two" } }), ["Undo", "Diff", "History"]);
  assert.deepEqual(await buttons({}), ["Undo", "Diff", "History"], "a kernel that does not say");
});

test("where HEAD came back to it, undo would take back the move, so the line of the cell does not offer it", page, async () => {
  assert.deepEqual(await buttons({ undo: { text: "the checkout of main", cell: false, to: "one" } }), ["Diff", "History"]);
});

test("after a restart there is nothing to undo", page, async () => {
  assert.deepEqual(await buttons({ undo: null }), ["Diff", "History"]);
});

test("Undo stays where cells that only looked came since, and means what it stands under", page, async () => {
  const undo = { of: "o1", text: "[3] a = 3", cell: true, to: "two", after: "three" };
  /** @type {object[]} */
  const acts = [];
  const line = await lineOf({ undo }, {}, "five", [], acts);
  const [button] = line.node.querySelectorAll("button");
  assert.equal(button.textContent, "Undo");
  button.click();
  await Promise.resolve();
  assert.deepEqual(acts, [["undo", { head: "five", of: "o1" }]]);
});

test("a button that is pressed while the history goes on stays the same, so that the click counts, and keeps the focus", page, async () => {
  const state = /** @type {any} */ ({ undo: { text: "[3] a = 3", cell: true, to: "two", after: "three" } });
  /** @type {string[]} */
  const opened = [];
  const { node, following } = await lineOf(state, {}, "three", opened);
  document.body.append(node);
  const [, diff, history] = node.querySelectorAll("button");
  history.focus();
  const drawn = [
    () => Object.assign(following, { isBusy: true }), // Undo goes meanwhile
    () => Object.assign(following, { isBusy: false, lanes: new Map([["main", 2]]) }),
    () => void (state.undo = null),
  ].map((change) => (change(), following.tell(), [...node.querySelectorAll("button")]));
  assert.deepEqual(drawn.map((buttons) => buttons.length), [2, 3, 2]);
  for (const buttons of drawn) assert.ok(buttons.includes(diff) && buttons.includes(history));
  assert.equal(document.activeElement, history);
  diff.click();
  assert.deepEqual(opened, ["three"]);
  node.remove();
});

test("where another cell changed something since, or HEAD moved, it is gone", page, async () => {
  const another = await lineOf({ undo: { text: "[4] b = 1", cell: true, to: "three", after: "four" } }, {}, "three");
  const moved = await lineOf({ undo: { text: "the checkout of main", cell: false, to: "three", after: null } }, {}, "three");
  for (const line of [another, moved]) assert.deepEqual([...line.node.querySelectorAll("button")].map((one) => one.textContent), ["Diff", "History"]);
});

const RUN = { id: "r1", said: "done", bad: false, done: true, steps: 4, tokens: 12_400, cost: 0.041 };
const OF_RUN = { run: RUN, author: { name: "analyst", kind: "agent" }, chips: [["~", "df", 0], ["+", "model", 0]], more: 2, grew: { df: "−17 rows" }, took_s: 58 };

test("the line of a run says what it changed, and Diff opens that", page, async () => {
  /** @type {string[]} */
  const opened = [];
  const line = await lineOf({ undo: { text: "the run", cell: true, to: "two", after: "three" } }, OF_RUN, "three", opened);
  const parts = [...line.node.children].map((part) => part.textContent).filter(Boolean);
  assert.deepEqual(parts, ["three", "main", "analyst", "4 steps, $0.04", "~df −17 rows", "+model", "2 more", "58 s", "Undo run", "Diff", "History"]);
  for (const button of line.node.querySelectorAll("button")) if (button.textContent !== "Undo run") button.click();
  assert.deepEqual(opened, ["run:r1", "null"]);
});

test("the line of a run that changed nothing says how it ended, and leads to its steps", page, async () => {
  /** @type {string[]} */
  const opened = [];
  const line = await lineOf({ undo: null }, { ...OF_RUN, chips: [], more: 0, grew: {}, run: { ...RUN, said: "failed: no idea", bad: true, done: false } }, "three", opened);
  assert.match(line.node.textContent, /analystfailed: no idea4 steps/);
  assert.deepEqual([...line.node.querySelectorAll("button")].map((one) => one.textContent), ["History"]);
  line.node.querySelector("button").click();
  assert.deepEqual(opened, ["run:r1"]);
});

/** The classes that are left in a line of this width, whose parts are 50, 40, 30 and 30 px wide. @param {number} width px */
function left(width) {
  const line = document.createElement("div");
  const widths = /** @type {Record<string, number>} */ ({ "ak-hash": 50, "ak-branch": 40, "ak-mono": 30, "ak-took": 30 });
  for (const kind of Object.keys(widths)) line.append(Object.assign(document.createElement("span"), { className: kind }));
  const shown = () => /** @type {HTMLElement[]} */ ([...line.children]).filter((part) => !part.hidden);
  const right = () => shown().reduce((sum, part) => sum + (widths[part.className] ?? 0), 0);
  line.getBoundingClientRect = () => /** @type {DOMRect} */ ({ right: width + 8 });
  /** @type {HTMLElement} */ (line.lastElementChild).getBoundingClientRect = () => /** @type {DOMRect} */ ({ right: right() });
  fit(line);
  return shown().map((part) => part.className);
}

test("where there is little room the hash goes first, then the branch, then the time, and names stay", page, () => {
  assert.deepEqual(left(150), ["ak-hash", "ak-branch", "ak-mono", "ak-took"]);
  assert.deepEqual(left(149.6), ["ak-branch", "ak-mono", "ak-took"]);
  assert.deepEqual(left(80), ["ak-mono", "ak-took"]);
  assert.deepEqual(left(20), ["ak-mono"]);
});

test("where even that is too much, names go and are counted, Diff before the second, until the first is left, before a name is cut", page, async () => {
  const chips = [["~", "houses", 8_000], ["+", "summary", 8], ["+", "best", 8]];
  const { node } = await lineOf({ undo: null }, { ...OF_RUN, chips, more: 2, grew: { houses: "−161 rows" } });
  const parts = () => /** @type {HTMLElement[]} */ ([...node.querySelectorAll(":scope > *")]).filter((part) => !part.hidden);
  /** @param {number} room in parts, each of which is 10 px wide */
  const left = (room) => {
    node.getBoundingClientRect = () => ({ right: room * 10 + 8 });
    for (const part of node.children) part.getBoundingClientRect = () => ({ right: part.hidden ? 0 : 10 * (parts().indexOf(part) + 1) });
    fit(node);
    return parts().map((part) => part.textContent).filter(Boolean);
  };
  assert.deepEqual(left(20), ["three", "main", "analyst", "4 steps, $0.04", "~houses −161 rows", "+summary", "+best", "2 more", "58 s", "Diff", "History"]);
  assert.deepEqual(left(9), ["analyst", "~houses −161 rows", "+summary", "+best", "2 more", "Diff", "History"]);
  assert.deepEqual(left(7), ["~houses −161 rows", "+summary", "+best", "2 more", "Diff"]);
  assert.deepEqual(left(6), ["~houses −161 rows", "+summary", "3 more", "Diff"]);
  assert.deepEqual(left(5), ["~houses −161 rows", "+summary", "3 more"]);
  assert.deepEqual(left(4), ["~houses −161 rows", "4 more"]);
  assert.deepEqual(left(1), ["~houses −161 rows", "4 more"]);
  assert.ok(/** @type {HTMLElement} */ (node.querySelector(".ak-grew")).hidden);
  assert.equal(left(20).length, 11, "they come back");
});

/** The line of a run that stopped, as soon as it was looked at how that stands now. @param {object | null | (() => object)} now the answer to each question about it @param {object[]} [acts] @param {string[]} [cells] */
async function stoppedLine(now, acts = [], cells = []) {
  const stopped = { code: "model.fit(X, y)", done: 3, at: 17 };
  const run = { id: "019a0c4e2b1a7c12", said: "stopped in step 4", bad: false, done: false, steps: 4, tokens: 1200, cost: null, stopped };
  /** @type {() => void} */
  let tell = () => {};
  const transport = {
    act: (/** @type {string} */ op, /** @type {object} */ args) => Promise.resolve((acts.push([op, args]), { done: "", notes: [] })),
    ask: async () => ({ stopped: typeof now === "function" ? now() : now }),
    canAct: () => true,
    state: () => stateOf({ undo: null }),
    place: {},
    hasKernel: true,
  };
  const following = { head: "three", isBusy: false, lanes: new Map(), undone: new Set(), listen: (/** @type {() => void} */ fn) => ((tell = fn), () => {}) };
  const host = () => ({ runCell: (/** @type {string} */ source) => cells.push(source) > 0 });
  const Line = footerLine(/** @type {any} */ (FakeWidget), /** @type {any} */ (() => ({ around: () => ({ transport, following, host, seen() {} }) })), () => {});
  const line = /** @type {any} */ (new Line());
  await line.renderModel({ data: { [FOOTER]: { ...LINE, undo: false, run } } });
  line.onAfterAttach();
  assert.equal(line.node.querySelector("button")?.textContent, "Diff", "nothing is offered before it is known");
  tell();
  await new Promise((resolve) => setTimeout(resolve, 5));
  return line.node;
}

test("Resume lets the run of its line go on, and its title names it", page, async () => {
  /** @type {object[]} */
  const acts = [];
  const node = await stoppedLine({ said: "", code: "", done: 3, refused: "", at: 17, checked: true, cell: "" }, acts);
  assert.match(node.textContent, /stopped in step 4code: model\.fit\(X, y\)3 steps done/);
  const [button] = node.querySelectorAll("button");
  assert.deepEqual([button.textContent, button.title], ["Resume", `Resume run a7c12 of ${LINE.author.name}`]);
  button.click();
  await Promise.resolve();
  assert.deepEqual(acts, [["resume", { run: "019a0c4e2b1a7c12", answer: "" }]]);
});

test("a run that went on since, or cannot go on, has no Resume, and its line says which", page, async () => {
  const gone = await stoppedLine({ said: "", code: "", done: 3, refused: "", at: 21, checked: true, cell: "" });
  assert.match(gone.textContent, /stopped in step 4, then resumed/);
  assert.equal(gone.querySelector("span.ak-chg"), null);
  const lost = await stoppedLine({ said: "", code: "", done: 3, refused: "its model is gone", at: 17, checked: true, cell: "" });
  assert.match(lost.textContent, /stopped in step 4: its model is gone/);
  for (const node of [gone, lost]) assert.notEqual(node.querySelector("button")?.textContent, "Resume");
});

test("where its cell is not known any more, Resume runs the line that lets it go on", page, async () => {
  /** @type {string[]} */
  const cells = [];
  const node = await stoppedLine({ said: "", code: "", done: 3, refused: "", at: 17, checked: true, cell: "%agent resume --run a7c12" }, [], cells);
  node.querySelector("button").click();
  assert.deepEqual(cells, ["%agent resume --run a7c12"]);
});

test("a server's word alone offers no Resume", page, async () => {
  const node = await stoppedLine({ said: "", code: "", done: 3, refused: "", at: 17, checked: false, cell: "" });
  assert.notEqual(node.querySelector("button")?.textContent, "Resume");
});

test("a kernel that is slow to say whether a run can go on is asked again, but not for ever", page, async () => {
  let asked = 0;
  const late = (/** @type {number} */ times) => () => ({ said: "", code: "", done: 3, refused: "", at: 17, checked: (asked += 1) > times, cell: "" });
  assert.equal((await stoppedLine(late(1))).querySelector("button")?.textContent, "Resume");
  asked = 0;
  assert.notEqual((await stoppedLine(late(9))).querySelector("button")?.textContent, "Resume");
  assert.equal(asked, 3);
});

test("the line of a run that was undone says so in one word", page, async () => {
  const run = { id: "019a0c4e2b1a7c12", said: "done", bad: false, done: true, steps: 4, tokens: 1200, cost: null };
  const line = await lineOf({ undo: null }, { run, undone: [run.id] });
  assert.equal(line.node.querySelector(".ak-state")?.textContent, "undone");
  const kept = await lineOf({ undo: null }, { run });
  assert.doesNotMatch(kept.node.textContent, /undone/);
});
