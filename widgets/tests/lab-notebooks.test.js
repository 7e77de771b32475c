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

/** A document with a shared notebook of its own, which undoes as Jupyter's does or not at all. @param {boolean} canUndo */
function written(canUndo) {
  /** @param {any} cell */
  const made = (cell) => ({
    ...cell,
    getId: () => cell.id,
    getSource: () => cell.source,
    setSource: (/** @type {string} */ source) => void (cell.source = source),
    setOutputs: () => {},
    toJSON: () => ({ ...cell }),
  });
  /** @type {any[][]} */
  const past = [];
  const sharedModel = {
    cells: [{ id: "a", cell_type: "code", source: "x = 2" }, { id: "b", cell_type: "code", source: "y = 1" }].map(made),
    transact(/** @type {() => void} */ change) {
      past.push(this.cells.map((cell) => ({ id: cell.getId(), cell_type: cell.cell_type, source: cell.getSource() })));
      change();
    },
    deleteCellRange(/** @type {number} */ from, /** @type {number} */ to) {
      this.cells.splice(from, to - from);
    },
    insertCells(/** @type {number} */ at, /** @type {any[]} */ cells) {
      this.cells.splice(at, 0, ...cells.map(made));
    },
    ...(canUndo ? { undo: () => void (sharedModel.cells = (past.pop() ?? []).map(made)) } : {}),
  };
  const content = { node: document.createElement("div"), mode: "command", model: { sharedModel }, activeCellIndex: 0, scrollToItem: async () => {} };
  const context = { path: "a.ipynb", localPath: "a.ipynb", pathChanged: new FakeSignal(), model: { readOnly: false } };
  const panel = { content, context, sessionContext: new FakeContext(new FakeKernel()), isVisible: true };
  const notebook = new OpenNotebook(/** @type {any} */ ({}), /** @type {any} */ (panel), /** @type {any} */ (new FakeRest()), /** @type {any} */ ({}));
  return { notebook, sources: () => sharedModel.cells.map((cell) => cell.getSource()), sharedModel };
}

const OLD = { name: "a.ipynb", saved_ms: 0, at: 0, cells: [{ id: "a", type: "code", source: "x = 1" }] };

for (const canUndo of [true, false]) {
  test(`the undo of what brought cells takes them back, and redo brings them again (${canUndo})`, page, () => {
    const { notebook, sources } = written(canUndo);
    const host = /** @type {any} */ (notebook.host());
    assert.equal(host.restoreCells(OLD, "the checkout"), true);
    assert.deepEqual(sources(), ["x = 1"]);
    assert.equal(host.undoCells("another"), "none");
    assert.equal(/** @type {any} */ (notebook.host()).undoCells("the checkout"), "done", "whichever panel is asked");
    assert.deepEqual(sources(), ["x = 2", "y = 1"]);
    assert.equal(host.undoCells("the checkout"), "none", "once");
    assert.equal(host.redoCells("the checkout"), true);
    assert.deepEqual(sources(), ["x = 1"]);
    assert.equal(host.undoCells("the checkout"), "done");
    assert.deepEqual(sources(), ["x = 2", "y = 1"]);
    notebook.dispose();
  });
}

test("cells that were written in since stay, as do those that came alone", page, () => {
  const { notebook, sources, sharedModel } = written(true);
  const host = /** @type {any} */ (notebook.host());
  host.restoreCells(OLD, "the checkout");
  sharedModel.cells[0].setSource("x = 3");
  assert.equal(host.undoCells("the checkout"), "stay");
  assert.deepEqual(sources(), ["x = 3"]);
  host.restoreCells(OLD, null);
  assert.equal(host.undoCells(undefined), "none");
  assert.deepEqual(sources(), ["x = 1"]);
  notebook.dispose();
});
