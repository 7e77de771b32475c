/** The line under a cell: Undo stands there only while it takes that cell back. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { FOOTER, footerLine } from "../lab/footer.js";
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
  const transport = { canAct: () => true, state: () => stateOf(state), place: {}, hasKernel: true };
  const following = { head: "three", isBusy: false, lanes: new Map(), listen: () => () => {} };
  const notebook = { transport, following, seen() {} };
  const Line = footerLine(/** @type {any} */ (FakeWidget), /** @type {any} */ (() => ({ around: () => notebook })), () => {});
  const line = /** @type {any} */ (new Line());
  await line.renderModel({ data: { [FOOTER]: LINE } });
  line.onAfterAttach();
  return [...line.node.querySelectorAll("button")].map((button) => button.textContent);
}

test("a cell that was the last thing done can be undone", page, async () => {
  assert.deepEqual(await buttons({ undo: { text: "[3] a = 3", cell: true, to: "two" } }), ["Undo", "Diff", "History"]);
  assert.deepEqual(await buttons({}), ["Undo", "Diff", "History"], "a kernel that does not say");
});

test("where HEAD came back to it, undo would take back the move, so the line of the cell does not offer it", page, async () => {
  assert.deepEqual(await buttons({ undo: { text: "the move to main", cell: false, to: "one" } }), ["Diff", "History"]);
});

test("after a restart there is nothing to undo", page, async () => {
  assert.deepEqual(await buttons({ undo: null }), ["Diff", "History"]);
});
