import assert from "node:assert/strict";
import { test } from "node:test";

import { CommFailure, CommTransport } from "../history/comm.js";
import { CLOSED, SILENT } from "../history/pulse.js";

/** @type {any} */ (globalThis).document = { visibilityState: "visible", addEventListener() {}, removeEventListener() {} };

const ROWS = [{ kind: "commit", id: "7777", prompt: "[7]", subject: "Convert" }, { kind: "commit", id: "8888", prompt: "", subject: "Merge" }];
const HEAD = { branch: "main", id: "8888", prompt: "", label: "“Merge”", lane: 0 };
const IDLE = { version: "1", busy: null, queued: null, failed: null, done: null, kernel: true, gone: null };
const BUSY = { ...IDLE, busy: "[22]" };
const QUESTION = { text: "", show: "all", tz_s: 0, unfolded: [] };
const DONE = { done: "Checked out [7]: 1 variable changed.", notes: [], undo: true, head: HEAD, cells: null };

/** A kernel at the other end of a model: `hears` says whether it takes messages up. */
class Kernel {
  /** @param {object} [page] what all widgets of a page share */
  constructor(state = IDLE, page = {}) {
    this.widget_manager = page;
    this.opening = { args: QUESTION, ok: { title: "x.ipynb", head: HEAD, state, page: { rows: ROWS }, unsaved_names: 0 } };
    /** @type {any[]} */
    this.sent = [];
    this.hears = true;
    this.state = state;
    /** @type {Set<(message: any) => void>} */
    this.views = new Set();
    /** @type {Map<string, Set<() => void>>} what the front end says of the model, by event */
    this.events = new Map();
    this.answer = (/** @type {any} */ message) => ({ ok: { op: message.op } });
  }

  get() {
    return this.opening;
  }

  /** @param {any} message */
  send(message) {
    this.sent.push(message);
    if (!this.hears) return;
    if (message.op === "watch") queueMicrotask(() => this.say({ event: "state", state: this.state }));
    else if (message.id) queueMicrotask(() => this.say({ id: message.id, ...this.answer(message) }));
  }

  /** @param {any} message */
  say(message) {
    for (const view of this.views) view(message);
  }

  /** @param {object} state */
  become(state) {
    this.state = { ...this.state, ...state };
    this.say({ event: "state", state: this.state });
  }

  /** The front end notices something. @param {string} event */
  fire(event) {
    for (const fn of [...(this.events.get(event) ?? [])]) fn();
  }

  /** @param {string} event @param {any} fn */
  on(event, fn) {
    if (event === "msg:custom") this.views.add(fn);
    else this.events.set(event, (this.events.get(event) ?? new Set()).add(fn));
  }

  /** @param {string} event @param {any} fn */
  off(event, fn) {
    if (event === "msg:custom") this.views.delete(fn);
    else this.events.get(event)?.delete(fn);
  }

  /** @param {string} op */
  asked(op) {
    return this.sent.filter((message) => message.op === op);
  }
}

const PATIENCE = { busyMs: 20, answerMs: 60, actMs: 240, doubtMs: 20 };
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

/** @param {Kernel} kernel */
function connected(kernel, patience = PATIENCE) {
  const transport = new CommTransport(kernel, patience);
  /** @type {any[]} */
  const states = [];
  transport.onState((state) => states.push(state));
  return { transport, states };
}

test("the first question is answered by what came with the model", async () => {
  const kernel = new Kernel();
  const { transport } = connected(kernel);
  assert.equal((await transport.ask("open", { ...QUESTION, show: "all", n: 100 })).title, "x.ipynb");
  assert.deepEqual(kernel.asked("open"), []);
  await transport.ask("open", { ...QUESTION, show: "all", text: "df", n: 100 });
  assert.equal(kernel.asked("open").length, 1);
});

test("who asks again wants to know more than what came with the model", async () => {
  const kernel = new Kernel();
  const { transport } = connected(kernel);
  for (const times of [0, 1]) {
    await transport.ask("open", { ...QUESTION, show: "all", n: 100 });
    assert.equal(kernel.asked("open").length, times);
  }
});

test("once the history has moved, the opening is asked for anew", async () => {
  const kernel = new Kernel();
  const { transport, states } = connected(kernel);
  kernel.become({ version: "2" });
  assert.equal(states.at(-1).version, "2");
  await transport.ask("open", { ...QUESTION, show: "all", n: 100 });
  assert.equal(kernel.asked("open").length, 1);
});

test("answers find their questions, also where two views of one model ask", async () => {
  const kernel = new Kernel();
  kernel.answer = (message) => ({ ok: { rows: [], op: message.args.from } });
  const one = connected(kernel).transport;
  const other = connected(kernel).transport;
  const answers = await Promise.all([one.ask("rows", { ...QUESTION, show: "all", from: 1, n: 1 }), other.ask("rows", { ...QUESTION, show: "all", from: 2, n: 1 })]);
  assert.deepEqual(answers.map((/** @type {any} */ answer) => answer.op), [1, 2]);
  assert.ok(kernel.sent.every((message) => message.id === undefined || Number.isSafeInteger(message.id)));
});

test("a question that cannot be answered fails with the word that says why", async () => {
  const kernel = new Kernel();
  kernel.answer = () => ({ error: { code: "damaged", message: "df is damaged." } });
  const { transport } = connected(kernel);
  await assert.rejects(transport.ask("branches", {}), (error) => error instanceof CommFailure && error.code === "damaged");
});

test("an act goes to a kernel that hears it while its cell runs", async () => {
  const kernel = new Kernel(BUSY);
  kernel.answer = () => ({ ok: { queued: { op: "checkout", label: "[7]", id: "7777" } } });
  const { transport } = connected(kernel);
  const answer = /** @type {any} */ (await transport.act("checkout", { to: "7777", what: "both" }));
  assert.equal(answer.queued.label, "[7]");
  assert.equal(kernel.asked("checkout").length, 1);
});

test("a kernel of one thread gets it when its cell has ended; meanwhile it is shown as waiting", async () => {
  const kernel = new Kernel(BUSY);
  const { transport, states } = connected(kernel);
  kernel.hears = false;
  const answer = /** @type {any} */ (await transport.act("checkout", { to: "7777", what: "both" }));
  assert.deepEqual(answer, { queued: { op: "checkout", label: "[7]", id: "7777" } });
  assert.deepEqual(states.at(-1).queued, answer.queued);
  assert.deepEqual(kernel.asked("checkout"), []);
  kernel.hears = true;
  kernel.answer = () => ({ ok: DONE });
  kernel.become({ busy: null });
  assert.deepEqual(states.at(-1).queued, answer.queued);
  await soon();
  assert.equal(kernel.asked("checkout").length, 1);
  assert.deepEqual([states.at(-1).queued, states.at(-1).done], [null, DONE]);
});

test("a kernel of one thread is not waited for to say what a move would change", async () => {
  const kernel = new Kernel(BUSY);
  const { transport } = connected(kernel);
  kernel.hears = false;
  const asked = transport.ask("plan", { op: "checkout", to: "7777" });
  await assert.rejects(asked, (error) => error instanceof CommFailure && error.code === "busy");
  assert.deepEqual(kernel.asked("plan"), []);
  kernel.hears = true;
  assert.ok(await transport.ask("plan", { op: "checkout", to: "7777" }));
});

test("what waits here is cancelled here, and a later act takes its place", async () => {
  const kernel = new Kernel(BUSY);
  const { transport, states } = connected(kernel);
  kernel.hears = false;
  await transport.act("checkout", { to: "7777", what: "both" });
  await transport.act("switch", { branch: "ridge" });
  assert.deepEqual(states.at(-1).queued, { op: "switch", label: "ridge", id: "" });
  const done = /** @type {any} */ (await transport.act("cancel", {}));
  assert.equal(done.done, "Switch to ridge was cancelled.");
  assert.equal(states.at(-1).queued, null);
  kernel.hears = true;
  kernel.become({ busy: null });
  await soon();
  assert.deepEqual([...kernel.asked("checkout"), ...kernel.asked("switch"), ...kernel.asked("cancel")], []);
});

test("a question that was given up is no sign that a kernel of one thread hears", async () => {
  const kernel = new Kernel(BUSY);
  const { transport } = connected(kernel, { ...PATIENCE, busyMs: 60, answerMs: 10 });
  kernel.hears = false;
  const answer = /** @type {any} */ (await transport.act("checkout", { to: "7777", what: "both" }));
  assert.equal(answer.queued.label, "[7]");
  assert.deepEqual(kernel.asked("checkout"), []);
  transport.dispose();
});

test("what fails after the cell is told in a whole sentence, until the next act", async () => {
  const kernel = new Kernel(BUSY);
  const { transport, states } = connected(kernel);
  kernel.hears = false;
  await transport.act("rollback", { to: "8888", what: "both" });
  kernel.hears = true;
  kernel.answer = () => ({ error: { code: "damaged", message: "df is damaged in the store. Nothing was changed." } });
  kernel.become({ busy: null });
  await soon();
  assert.deepEqual(states.at(-1).failed, { text: "Roll back to “Merge” failed: df is damaged in the store. Nothing was changed.", code: "damaged" });
  kernel.answer = () => ({ ok: DONE });
  await transport.act("undo", {});
  kernel.become({ version: "3" });
  assert.equal(states.at(-1).failed, null);
});

test("a view that goes says so, and leaves no question open", async () => {
  const kernel = new Kernel();
  const { transport } = connected(kernel);
  kernel.hears = false;
  const asked = transport.ask("branches", {});
  transport.dispose();
  await assert.rejects(asked, /The panel was closed/);
  assert.equal(kernel.asked("unwatch").length, 1);
  assert.equal(kernel.views.size, 0);
});

for (const event of ["comm:close", "destroy"]) {
  test(`where the front end says that the kernel is gone (${event}), every question is told so, and nothing can be done`, async () => {
    const kernel = new Kernel();
    const { transport, states } = connected(kernel);
    await soon();
    kernel.hears = false;
    const asked = transport.ask("plan", { op: "checkout", to: "7777" });
    const act = transport.act("checkout", { to: "7777", what: "both" });
    kernel.fire(event);
    await assert.rejects(asked, { code: "gone", message: CLOSED });
    await assert.rejects(act, { code: "gone", message: CLOSED });
    assert.deepEqual([states.at(-1).kernel, states.at(-1).gone, transport.canAct()], [false, CLOSED, false]);
    await assert.rejects(transport.ask("branches", {}), { code: "gone" });
    await assert.rejects(transport.act("undo", {}), { code: "gone" });
  });
}

test("a kernel that owes an answer and says nothing counts as gone, until it is heard again", async () => {
  const kernel = new Kernel();
  const { transport, states } = connected(kernel);
  await soon();
  kernel.hears = false;
  await assert.rejects(transport.ask("commit", { id: "7777" }), { code: "gone", message: SILENT });
  assert.deepEqual([states.at(-1).kernel, states.at(-1).gone], [false, SILENT]);
  kernel.hears = true;
  assert.ok(await transport.ask("branches", {}));
  assert.deepEqual([states.at(-1).kernel, states.at(-1).gone], [true, null]);
});

test("a kernel that takes long, but speaks, is waited for; so is one that does an act", async () => {
  const kernel = new Kernel();
  const { transport, states } = connected(kernel);
  await soon();
  kernel.hears = false;
  const act = transport.act("checkout", { to: "7777", what: "both" });
  const asked = transport.ask("commit", { id: "7777" });
  await pause(100);
  assert.equal(states.at(-1).gone, null);
  const ids = kernel.sent.filter((message) => message.id).map((message) => message.id);
  kernel.say({ id: ids[0], ok: DONE });
  assert.deepEqual(await act, DONE);
  await pause(40);
  kernel.become({ version: "2" });
  await pause(40);
  kernel.say({ id: ids[1], ok: { rows: [] } });
  assert.deepEqual(await asked, { rows: [] });
});

test("while a cell runs a kernel of one thread is not given up: a question says what it waits for", async () => {
  const kernel = new Kernel(BUSY);
  const { transport, states } = connected(kernel);
  await soon();
  kernel.hears = false;
  await assert.rejects(transport.ask("commit", { id: "7777" }), { code: "busy", message: /answers only when the cell that runs has ended/ });
  assert.deepEqual([states.at(-1).kernel, states.at(-1).gone], [true, null]);
});

test("where the connection was lost the kernel is looked for at once, also while a cell runs, and what waits is told of", async () => {
  const kernel = new Kernel(BUSY);
  const { transport, states } = connected(kernel);
  await soon();
  kernel.hears = false;
  await transport.act("checkout", { to: "7777", what: "both" });
  kernel.fire("comm_live_update");
  await pause(40);
  assert.deepEqual([states.at(-1).kernel, states.at(-1).queued], [false, null]);
  assert.equal(states.at(-1).failed.text, "Check out of [7] was not done: the kernel is gone.");
  assert.deepEqual(kernel.asked("checkout"), []);
});

test("a connection that only blinked changes nothing", async () => {
  const kernel = new Kernel();
  const { transport, states } = connected(kernel);
  await soon();
  kernel.fire("comm_live_update");
  await pause(40);
  assert.deepEqual([states.at(-1).kernel, states.at(-1).gone], [true, null]);
  transport.dispose();
  assert.deepEqual([...kernel.events.values()].map((fns) => fns.size), [0, 0, 0]);
});

/** Two panels of one page before a kernel of one thread whose cell runs. */
function pair() {
  const page = {};
  const kernels = [new Kernel(BUSY, page), new Kernel(BUSY, page)];
  const [one, other] = kernels.map((kernel) => ({ kernel, ...connected(kernel) }));
  for (const kernel of kernels) kernel.hears = false;
  if (!one || !other) throw new Error("two were made");
  return { one, other, end: () => kernels.forEach((kernel) => kernel.become({ busy: null })) };
}

test("of two panels before a kernel of one thread a later act takes the place of the first, and both show it", async () => {
  const { one, other, end } = pair();
  await one.transport.act("checkout", { to: "7777", what: "both" });
  assert.equal(other.states.at(-1).queued.label, "[7]");
  await other.transport.act("switch", { branch: "ridge" });
  assert.deepEqual([one.states.at(-1).queued.label, other.states.at(-1).queued.label], ["ridge", "ridge"]);
  for (const { kernel } of [one, other]) kernel.hears = true;
  end();
  await soon();
  assert.deepEqual([one.kernel, other.kernel].map((kernel) => [kernel.asked("checkout").length, kernel.asked("switch").length]), [[0, 0], [0, 1]]);
});

test("what waits can be cancelled from another panel", async () => {
  const { one, other } = pair();
  await one.transport.act("checkout", { to: "7777", what: "both" });
  const done = /** @type {any} */ (await other.transport.act("cancel", {}));
  assert.equal(done.done, "Check out of [7] was cancelled.");
  assert.equal(one.states.at(-1).queued, null);
});

test("a panel that is closed takes along what it asked for, and the others say so", async () => {
  const { one, other, end } = pair();
  await one.transport.act("checkout", { to: "7777", what: "both" });
  one.transport.dispose();
  assert.equal(other.states.at(-1).queued, null);
  assert.equal(other.states.at(-1).failed.text, "Check out of [7] was cancelled: the panel that it was asked for in was closed.");
  end();
  await soon();
  assert.deepEqual(one.kernel.asked("checkout"), []);
});

test("the cells of an act that waited in the page are for one of its panels, pinned to the document", async () => {
  const { one, other, end } = pair();
  const cells = { name: "x.ipynb", saved_ms: 0, cells: [] };
  await one.transport.act("checkout", { to: "7777", what: "both", document: "work/x.ipynb" });
  for (const { kernel } of [one, other]) {
    kernel.hears = true;
    kernel.answer = (message) => ({ ok: message.op === "checkout" ? { ...DONE, cells } : null });
  }
  end();
  await soon();
  const { cells: left, done } = other.states.at(-1);
  assert.deepEqual([left.id, left.document, done.cells], ["7777", "work/x.ipynb", null]);
  assert.deepEqual(await other.transport.act("claim", { turn: left.turn }), cells);
  assert.equal(await one.transport.act("claim", { turn: left.turn }), null);
  assert.deepEqual([one.states.at(-1).cells, other.states.at(-1).cells], [null, null]);
});
