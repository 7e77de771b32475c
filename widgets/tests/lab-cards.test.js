/** The card of a step or of a question, and the table of a race, in an output whose widget may be gone. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { FakeContext, FakeKernel, FakeRest, soon } from "./lab-fakes.js";
import { withoutPage } from "./page.js";

/** @import { MimeModel } from "../lab/jupyter.js" */

const page = { skip: withoutPage };

const VIEW = "application/vnd.jupyter.widget-view+json";
const STEP = { version: 1, store: "s", card: { run: "r", step: 1 } };
const QUESTION = { version: 1, store: "s", question: { run: "r", number: 1 } };
const RACE = { version: 1, store: "s", race: "r" };

/** A widget of the application, as far as these are: a renderer says what it shows. */
class FakeWidget {
  node = document.createElement("div");
  isVisible = true;
  isDisposed = false;

  constructor(kind = "") {
    this.kind = kind;
  }

  addClass() {}

  /** @param {FakeWidget} child */
  addWidget(child) {
    this.node.append(child.node);
  }

  /** @param {MimeModel} model */
  async renderModel(model) {
    this.node.textContent = this.kind === VIEW ? "the widget" : model.data[this.kind];
  }

  dispose() {
    this.isDisposed = true;
    this.node.remove();
  }
}

class WithWidgets extends FakeKernel {
  /** @type {Set<string>} */
  here = new Set(); // in this page
  /** @type {Record<string, object>} */
  comms_ = {};

  /** @param {string} id */
  hasComm(id) {
    return this.here.has(id);
  }

  async requestCommInfo() {
    return { content: { comms: this.comms_ } };
  }
}

/** @param {object} data @param {{ kernel?: WithWidgets | null, rest?: FakeRest, apart?: boolean }} [more] apart: in a view of its own */
async function output(data, { kernel = null, rest = new FakeRest(), apart = false } = {}) {
  const { CARD, savedCard } = await import("../lab/cards.js");
  const { Notebooks } = await import("../lab/notebooks.js");
  const context = new FakeContext(kernel);
  const make = (/** @type {string} */ kind) => new FakeWidget(kind);
  const node = document.createElement("div");
  const panel = { node, sessionContext: context, isVisible: true, disposed: { connect() {} }, content: { rendermime: { createRenderer: make } }, context: { path: "a.ipynb", localPath: "a.ipynb", pathChanged: { connect() {} } } };
  const app = { serviceManager: { sessions: { refreshRunning: async () => {} } } };
  const tracker = { find: (/** @type {(one: object) => boolean} */ test) => [panel].find(test) };
  const notebooks = new Notebooks(/** @type {any} */ (app), /** @type {any} */ (tracker), /** @type {any} */ (rest), /** @type {any} */ ({}));
  const Card = savedCard(/** @type {any} */ (FakeWidget), () => notebooks, /** @type {any} */ (make));
  const card = /** @type {any} */ (new Card());
  document.body.replaceChildren(node);
  (apart ? document.body : node).append(card.node);
  const model = { trusted: true, data: { [CARD]: data, [VIEW]: { model_id: "m" }, "text/html": "what was saved" } };
  await card.renderModel(model);
  card.onAfterAttach();
  await soon(5);
  const dispose = () => (card.dispose(), notebooks.of(/** @type {any} */ (panel)).dispose());
  return { card, context, model, dispose, shows: () => card.node.textContent };
}

function withWidget() {
  const kernel = new WithWidgets();
  kernel.here.add("m");
  return kernel;
}

for (const data of [STEP, QUESTION, RACE]) {
  const what = "race" in data ? "a race" : "question" in data ? "a question" : "a step";

  test(`the widget of ${what} is shown as long as it is there, and stays when its output is written again`, page, async () => {
    const kernel = withWidget();
    const { card, model, shows, dispose } = await output(data, { kernel });
    assert.equal(shows(), "the widget");
    const before = card.node.firstChild;
    await card.renderModel({ ...model, data: { ...model.data, "text/html": "it was approved" } });
    assert.equal(card.node.firstChild, before);
    dispose();
  });

  test(`without a kernel and without the store, what was saved of ${what} stands there`, page, async () => {
    const rest = Object.assign(new FakeRest(), { store: null });
    const { card, model, shows, dispose } = await output(data, { rest });
    assert.equal(shows(), "what was saved");
    await card.renderModel({ ...model, data: { ...model.data, "text/html": "it was approved" } });
    assert.equal(shows(), "it was approved");
    dispose();
  });
}

test("an output in a view of its own shows the widget too, as long as a notebook's kernel has it", page, async () => {
  const live = await output(STEP, { kernel: withWidget(), apart: true });
  assert.equal(live.shows(), "the widget");
  live.dispose();
  const gone = await output(STEP, { kernel: new WithWidgets(), apart: true });
  assert.equal(gone.shows(), "what was saved");
  gone.dispose();
});

test("a step whose widget is gone is asked of its store", page, async () => {
  const rest = new FakeRest();
  rest.ask = async (_, op) => (assert.equal(op, "run"), RUN);
  const { shows, dispose } = await output(STEP, { rest });
  assert.match(shows(), /analyst wants to run step 1.*In its notebook: %agent approve --run r/s);
  dispose();
});

test("a question whose widget is gone is asked of its store: without a kernel it has no field, and says what to type", page, async () => {
  const rest = new FakeRest();
  rest.ask = async (_, op) => (assert.equal(op, "run"), ASKING);
  const { card, shows, dispose } = await output(QUESTION, { rest });
  assert.match(shows(), /analyst asks you.*Which one\?In its notebook: %agent resume --run r ANSWER$/s);
  assert.equal(card.node.querySelector("input, button"), null);
  dispose();
});

test("a question that was answered since says so where it stood", page, async () => {
  const rest = new FakeRest();
  const questions = [{ ...ASKING.questions[0], answered: true, answer: "the left one", answered_by: "ada" }];
  rest.ask = async () => ({ ...ASKING, status: "completed", question: "", questions });
  const { shows, dispose } = await output(QUESTION, { rest });
  assert.match(shows(), /ada answered analystThe run is doneWhich one\?the left one$/);
  dispose();
});

test("a race whose widget is gone is asked of its store, and stands there as it is now", page, async () => {
  const rest = new FakeRest();
  let race = STANDING;
  rest.ask = async (_, op) => (assert.equal(op, "race"), race);
  const { shows, dispose } = await output(RACE, { rest });
  assert.match(shows(), /Predict it.*1 · ridgepicked/s);
  assert.doesNotMatch(shows(), /Discard/, "without a kernel nothing can be done");
  race = { ...STANDING, picked: null };
  rest.version_ = "v2";
  for (let waited = 0; waited < 100 && /picked/.test(shows()); waited += 1) await soon(50);
  assert.doesNotMatch(shows(), /picked/);
  dispose();
});

for (const data of [STEP, QUESTION, RACE]) {
  test(`what was saved stays where the store does not know the ${"race" in data ? "race" : "question" in data ? "run that asks" : "run"} any more`, page, async () => {
    const { shows, dispose } = await output(data, { rest: forgetful() });
    assert.equal(shows(), "what was saved");
    dispose();
  });
}

test("a kernel that is restarted takes the widget along", page, async () => {
  const kernel = withWidget();
  const { shows, dispose } = await output(RACE, { kernel, rest: forgetful() });
  kernel.here.clear();
  kernel.become("restarting");
  await soon(5);
  assert.equal(shows(), "what was saved");
  dispose();
});

test("a page that is loaded anew shows the widget once the kernel has said that it has it", page, async () => {
  const { context, shows, dispose } = await output(RACE, { rest: forgetful() });
  assert.equal(shows(), "what was saved");
  const kernel = Object.assign(new WithWidgets(), { comms_: { m: {} } });
  context.change(kernel);
  await soon(5);
  assert.equal(shows(), "the widget");
  dispose();
});

/** A server whose store knows no run. */
const forgetful = () => Object.assign(new FakeRest(), { ask: async () => Promise.reject(new Error("There is no run r.")) });

const STANDING = {
  id: "r",
  short: "r",
  task: "Predict it",
  start: "0123456789",
  counts: "1 done",
  over: true,
  picked: /** @type {number | null} */ (1),
  discarded: false,
  deletes: "Deletes 1 branch.",
  notes: [],
  candidates: [{ number: 1, title: "1 · ridge", best: false, done: true, tip: "aa" }],
  rows: [],
};

const RUN = {
  id: "r",
  short: "r",
  author: { name: "analyst", kind: "agent" },
  task: "Write it down",
  status: "pending",
  steps: [],
  asks: { step: 1, agent: "analyst", asked_ms: 0, after: "", branch: null, source: "open('x')", code: [["", "open('x')"]], report: [], tried: [], keeps: false, note: "" },
};

const ASKING = { ...RUN, status: "clarify", asks: null, question: "Which one?", questions: [{ number: 1, text: "Which one?", asked_ms: 0, answered: false, answer: "", answered_by: "" }] };
