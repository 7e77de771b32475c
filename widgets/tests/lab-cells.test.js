/** Bringing a page back touches only what differs, in one step, and keeps the cells that stay. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { changedCells } from "../history/cells.js";
import { cellsOf, matched, restoreCells } from "../lab/cells.js";
import { unmoved } from "../shared/moves.js";

/** A cell of a shared document, as far as it is used. */
class FakeCell {
  constructor({ id, cell_type = "code", source = "", outputs = [], execution_count = null, metadata = {} }) {
    Object.assign(this, { id, cell_type, source, outputs, execution_count, metadata });
  }

  getId() {
    return this.id;
  }

  getSource() {
    return this.source;
  }

  setOutputs(outputs) {
    this.outputs = outputs;
  }

  setSource(source) {
    this.source = source;
    this.written = true;
  }

  toJSON() {
    return { id: this.id, cell_type: this.cell_type, source: this.source, outputs: this.outputs, execution_count: this.execution_count, metadata: this.metadata };
  }
}

/** A shared notebook that counts its steps, and refuses changes outside of one. */
class FakeNotebook {
  constructor(...cells) {
    this.cells = cells.map((cell) => new FakeCell(cell));
    this.steps = 0;
    this.open = false;
  }

  transact(change) {
    this.steps += 1;
    this.open = true;
    change();
    this.open = false;
  }

  deleteCellRange(from, to) {
    assert.ok(this.open);
    // As in a shared document: what is deleted holds nothing any more.
    for (const cell of this.cells.splice(from, to - from)) Object.assign(cell, { id: "new id", source: "", outputs: [], execution_count: null, metadata: {} });
  }

  insertCells(index, cells) {
    assert.ok(this.open);
    assert.ok(index <= this.cells.length);
    this.cells.splice(index, 0, ...cells.map((cell) => new FakeCell(cell)));
  }
}

const page = (...cells) => ({ name: "a.ipynb", saved_ms: 0, cells: cells.map(([id, source, type = "code"]) => ({ id, type, source })) });
const told = (notebook) => notebook.cells.map((cell) => [cell.id, cell.source]);

test("a changed cell gets its code back and stays the cell that it is", () => {
  const notebook = new FakeNotebook({ id: "a", source: "x = 1" }, { id: "b", source: "y = 2", outputs: ["2"] });
  const [a, b] = notebook.cells;
  restoreCells(notebook, page(["a", "x = 0"], ["b", "y = 2"]));
  assert.deepEqual(told(notebook), [["a", "x = 0"], ["b", "y = 2"]]);
  assert.equal(notebook.cells[0], a);
  assert.equal(notebook.cells[1], b);
  assert.equal(b.written, undefined, "what is equal is not written");
  assert.equal(notebook.steps, 1);
});

test("cells that are new go, and deleted ones come back with their ids", () => {
  const notebook = new FakeNotebook({ id: "a" }, { id: "new" }, { id: "c" });
  restoreCells(notebook, page(["a", ""], ["b", "# Title", "markdown"], ["c", ""]));
  assert.deepEqual(notebook.cells.map((cell) => [cell.id, cell.cell_type]), [["a", "code"], ["b", "markdown"], ["c", "code"]]);
});

test("a cell that moves is counted among those that change", () => {
  const notebook = new FakeNotebook({ id: "c", execution_count: 3 }, { id: "a", execution_count: 1 }, { id: "b", execution_count: 2 });
  assert.deepEqual(changedCells(cellsOf(notebook), page(["a", ""], ["b", ""], ["c", ""])), { n: 1, prompts: ["[3]"] });
  assert.deepEqual(changedCells(cellsOf(notebook), page(["c", ""], ["a", ""], ["b", ""])), { n: 0, prompts: [] });
});

test("a moved cell goes back with its outputs, its tags and its id, and the others stay", () => {
  const notebook = new FakeNotebook({ id: "c", outputs: ["3"], execution_count: 3, metadata: { tags: ["keep"] } }, { id: "a" }, { id: "b" });
  const [, a, b] = notebook.cells;
  restoreCells(notebook, page(["a", ""], ["b", ""], ["c", ""]));
  assert.deepEqual(notebook.cells.map((cell) => cell.id), ["a", "b", "c"]);
  const { outputs, execution_count, metadata } = notebook.cells[2];
  assert.deepEqual([outputs, execution_count, metadata], [["3"], 3, { tags: ["keep"] }]);
  assert.deepEqual([notebook.cells[0], notebook.cells[1]], [a, b]);
});

test("code that becomes another keeps nothing that another run showed; what is the same keeps it", () => {
  const ran = (id, source, n) => ({ id, source, execution_count: n, outputs: [`of ${n}`], metadata: { trusted: true } });
  const notebook = new FakeNotebook(ran("c", "z = 3", 9), ran("a", "x = 1", 7), ran("b", "y = 2", 8), ran("d", "w", 10));
  restoreCells(notebook, page(["a", "x = 0"], ["b", "y = 2"], ["d", "w = 0"], ["c", "z = 3"]));
  const shown = notebook.cells.map(({ id, execution_count, outputs }) => [id, execution_count, ...outputs]);
  assert.deepEqual(shown, [["a", null], ["b", 8, "of 8"], ["d", null], ["c", 9, "of 9"]]);
  const swapped = new FakeNotebook(ran("b", "y", 2), ran("a", "x", 1));
  restoreCells(swapped, page(["a", "x = 0"], ["b", "y = 0"]));
  assert.deepEqual(swapped.cells.map((cell) => [cell.execution_count, cell.outputs.length]), [[null, 0], [null, 0]], "moved or not");
});

test("cells that come back are trusted, those that were not stay so", () => {
  const notebook = new FakeNotebook({ id: "c", outputs: ["<script>"], metadata: {} }, { id: "a", metadata: { trusted: true } });
  restoreCells(notebook, page(["a", ""], ["new", "x = 1"], ["text", "# x", "markdown"], ["c", ""]));
  assert.deepEqual(notebook.cells.map((cell) => cell.metadata.trusted), [true, true, undefined, undefined]);
});

test("a cell of another type is another cell", () => {
  const notebook = new FakeNotebook({ id: "a", cell_type: "markdown", source: "x = 1" });
  restoreCells(notebook, page(["a", "x = 1"]));
  assert.deepEqual(notebook.cells.map((cell) => cell.cell_type), ["code"]);
});

test("without ids equal text is the same cell, each one once", () => {
  const now = [{ id: "p", source: "x" }, { id: "q", source: "x" }, { id: "r", source: "y" }].map((cell) => new FakeCell(cell));
  assert.deepEqual(matched(now, page(["", "x"], ["", "y"], ["", "x"], ["", "x"]).cells), [0, 2, 1, null]);
});

test("an id that stands twice on the page is one cell and a new one", () => {
  const notebook = new FakeNotebook({ id: "a", source: "1" });
  restoreCells(notebook, page(["a", "1"], ["a", "2"]));
  assert.deepEqual(notebook.cells.map((cell) => cell.source), ["1", "2"]);
});

test("the fewest cells move", () => {
  assert.deepEqual(unmoved([0, 1, 2]), [0, 1, 2]);
  assert.deepEqual(unmoved([3, 0, 1, null, 2]), [1, 2, 4]);
  assert.deepEqual(unmoved([2, 1, 0]).length, 1);
  assert.deepEqual(unmoved([]), []);
});

test("any page comes back exactly, from any other", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let round = 0; round < 500; round += 1) {
    const some = () => {
      const ids = [..."abcdefgh"].filter(() => random(3) > 0).sort(() => random(3) - 1);
      return ids.map((id) => ({ id, source: String(random(3)), cell_type: random(5) ? "code" : "markdown" }));
    };
    const notebook = new FakeNotebook(...some());
    const wanted = some();
    restoreCells(notebook, page(...wanted.map((cell) => [cell.id, cell.source, cell.cell_type])));
    const found = notebook.cells.map(({ id, source, cell_type }) => ({ id, source, cell_type }));
    assert.deepEqual(found, wanted);
    assert.equal(notebook.steps, 1);
  }
});

test("the cells of a document are told with their prompts", () => {
  const notebook = new FakeNotebook({ id: "a", source: "x", execution_count: 7 }, { id: "b", cell_type: "markdown" });
  assert.deepEqual(cellsOf(notebook), [{ id: "a", type: "code", source: "x", prompt: "[7]" }, { id: "b", type: "markdown", source: "", prompt: "" }]);
});
