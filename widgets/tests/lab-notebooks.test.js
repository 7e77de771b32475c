/** What the document does for a panel: it takes no keyboard from whoever types. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { OpenNotebook } from "../lab/notebooks.js";
import { FakeContext, FakeKernel, FakeRest, FakeSignal } from "./lab-fakes.js";
import { withoutPage } from "./page.js";

const page = { skip: withoutPage };
const PAGE = { name: "a.ipynb", saved_ms: 0, at: 0, cells: [] };

/** A document whose second cell is the active one. @param {"edit" | "command"} mode @param {boolean} hasFocus */
function opened(mode, hasFocus) {
  const node = document.createElement("div");
  const editor = node.appendChild(document.createElement("textarea"));
  document.body.replaceChildren(node, document.createElement("input"));
  (hasFocus ? editor : /** @type {HTMLElement} */ (document.body.lastElementChild)).focus();
  const sharedModel = { cells: [], transact() {} };
  const content = { node, mode, model: { sharedModel }, activeCellIndex: 1, scrollToItem: async () => {} };
  const context = { path: "a.ipynb", localPath: "a.ipynb", pathChanged: new FakeSignal(), model: { readOnly: false } };
  const panel = { content, context, sessionContext: new FakeContext(new FakeKernel()), isVisible: true };
  const notebook = new OpenNotebook(/** @type {any} */ ({}), /** @type {any} */ (panel), /** @type {any} */ (new FakeRest()), /** @type {any} */ ({}));
  notebook.host().restoreCells?.(/** @type {any} */ (PAGE));
  notebook.dispose();
  return content.activeCellIndex;
}

test("cells that come back show the one that ran", page, () => {
  assert.equal(opened("command", true), 0);
  assert.equal(opened("edit", false), 0, "the keyboard is elsewhere");
});

test("but not to whoever types in a cell meanwhile: the keys would go into another one", page, () => {
  assert.equal(opened("edit", true), 1);
});
