/** A step knows what nobody could write under its cell: that the kernel ended in the middle of the run. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { FOOTER } from "../lab/footer.js";
import { RUN, runStep } from "../lab/run-step.js";
import { withoutPage } from "./page.js";

const page = { skip: withoutPage };
const STOPPED = { said: "stopped in step 2 (the kernel ended)", code: "while True:", done: 1, refused: "", at: 9, cell: "", checked: false, died: true };
const DETAILS = { id: "r1", tip: "c".repeat(40), author: { name: "analyst", kind: "agent" }, chips: [], more: 0, took_s: 1, steps: [{}, {}], tokens: 9, cost: null, grew: {} };

class FakePanel {
  node = document.createElement("div");
  isDisposed = false;
  /** @param {string} name */
  addClass(name) {
    this.node.classList.add(name);
  }
  /** @param {{ node: HTMLElement }} child */
  addWidget(child) {
    this.node.append(child.node);
  }
  dispose() {}
}

class FakeRenderer {
  node = document.createElement("div");
  /** @param {any} model */
  async renderModel(model) {
    const line = model.data[FOOTER];
    this.node.textContent = line ? line.run.said : "step";
  }
  dispose() {
    this.node.remove();
  }
}

/** The steps of one run, as soon as the last of them has asked how it stands. @param {object} answer @param {number} [many] */
async function stepsOf(answer, many = 1) {
  const asked = [];
  const root = document.createElement("div");
  const transport = { state: () => ({ version: "v1" }), canAct: () => true, ask: async (/** @type {string} */ op) => (asked.push(op), { ...DETAILS, ...answer }) };
  const following = { isBusy: false, listen: (/** @type {() => void} */ fn) => (queueMicrotask(fn), () => {}) };
  const notebook = { transport, following, panel: { node: root }, seen() {} };
  const Step = runStep(/** @type {any} */ (FakePanel), /** @type {any} */ (FakeRenderer), /** @type {any} */ (() => ({ around: () => notebook })), /** @type {any} */ (() => new FakeRenderer()));
  const steps = [];
  for (let at = 0; at < many; at += 1) {
    const step = /** @type {any} */ (new Step());
    await step.renderModel({ data: { [RUN]: { version: 1, run: "r1" } } });
    root.append(step.node);
    steps.push(step);
  }
  for (const step of steps) step.onAfterAttach();
  await new Promise((resolve) => setTimeout(resolve, 5));
  return { steps, asked };
}

test("below the last step of a run whose kernel died stands where it stopped", page, async () => {
  const { steps, asked } = await stepsOf({ status: "interrupted", stopped: STOPPED }, 2);
  assert.equal(steps[1].node.textContent, "stepstopped in step 2 (the kernel ended)");
  assert.equal(steps[0].node.textContent, "step");
  assert.deepEqual(asked, ["run"]);
  assert.ok(steps.every((step) => step.node.classList.contains("ak-ended")));
});

test("a run that goes on, was stopped in order, or is done has no such line", page, async () => {
  for (const answer of [
    { status: "running", stopped: null },
    { status: "interrupted", stopped: { ...STOPPED, died: false } },
    { status: "completed", stopped: null },
  ]) {
    const { steps } = await stepsOf(answer);
    assert.equal(steps[0].node.textContent, "step");
    assert.equal(steps[0].node.classList.contains("ak-ended"), answer.status !== "running");
  }
});
