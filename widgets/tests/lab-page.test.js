/** The page is told before a cell runs, once for each time that it changed, and only to a kernel that listens. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { OpenNotebook } from "../lab/notebooks.js";
import { PageTeller } from "../lab/page.js";
import { FakeContext, FakeKernel, FakeRest, FakeSignal, stateOf } from "./lab-fakes.js";

const cell = (id, source) => ({ cell_type: "code", getId: () => id, getSource: () => source });

function open(name = "agent-kernel") {
  const kernel = new FakeKernel(name);
  const shared = { cells: [cell("a", "x = 1")] };
  const panel = {
    isVisible: true,
    disposed: new FakeSignal(),
    sessionContext: new FakeContext(kernel),
    content: { model: { sharedModel: shared, readOnly: false, defaultKernelLanguage: "python" } },
    context: { path: "RTC:houses/study.ipynb", localPath: "houses/study.ipynb", pathChanged: new FakeSignal(), model: { readOnly: false } },
  };
  const notebook = new OpenNotebook({}, panel, new FakeRest());
  return { kernel, notebook, shared, teller: new PageTeller() };
}

test("the cells are told with the notebook's name and language", () => {
  const { kernel, notebook, teller } = open();
  teller.tell(notebook);
  const [comm] = kernel.comms;
  assert.equal(comm.target, "agent_kernel.notebook");
  assert.equal(comm.commsOverSubshells, "disabled", "on the thread that runs the cell, before it");
  assert.deepEqual(comm.sent[1], { name: "study.ipynb", language: "python", cells: [{ id: "a", type: "code", source: "x = 1" }] });
  notebook.dispose();
});

test("what did not change is not told again", () => {
  const { kernel, notebook, shared, teller } = open();
  teller.tell(notebook);
  teller.tell(notebook);
  assert.equal(kernel.comms[0].sent.length, 2);
  shared.cells.push(cell("b", "y = 2"));
  teller.tell(notebook);
  assert.equal(kernel.comms[0].sent.length, 3);
  notebook.dispose();
});

test("a kernel that has nothing to do with it hears nothing", () => {
  const { kernel, notebook, teller } = open("python3");
  teller.tell(notebook);
  assert.equal(kernel.comms.length, 0);
  notebook.ran("%load_ext agent_kernel");
  teller.tell(notebook);
  assert.equal(kernel.comms.length, 1);
  notebook.dispose();
});

test("a kernel that did not listen is told again once it does", () => {
  const { kernel, notebook, teller } = open();
  teller.tell(notebook);
  kernel.comms[0].onClose();
  teller.tell(notebook);
  assert.equal(kernel.comms.length, 1);
  notebook.link.open();
  kernel.comms[1].say({ event: "state", state: stateOf() });
  teller.tell(notebook);
  assert.deepEqual(kernel.comms.map((comm) => comm.target), ["agent_kernel.notebook", "agent_kernel.panel", "agent_kernel.notebook"]);
  notebook.dispose();
});

test("a new kernel of the same notebook is told anew, if it listens", () => {
  const { notebook, teller } = open("python3");
  notebook.ran("%agent history");
  teller.tell(notebook);
  const other = new FakeKernel("python3");
  notebook.panel.sessionContext.change(other);
  teller.tell(notebook);
  assert.equal(other.comms.length, 0, "it has loaded nothing yet");
  notebook.dispose();
});
