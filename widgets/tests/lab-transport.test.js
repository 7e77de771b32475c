/** A history comes from wherever it can be had, and is acted on only in the store that is shown. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { KernelLink } from "../lab/link.js";
import { RestFailure } from "../lab/rest.js";
import { LEFT, NOT_LOADED, NotebookTransport } from "../lab/transport.js";
import { FakeContext, FakeKernel, FakeRest, soon, stateOf } from "./lab-fakes.js";

/** @param {{ kernel?: boolean, only?: string, says?: object | null }} [given] */
async function stands({ kernel = true, only, says = {} } = {}) {
  const fake = kernel ? new FakeKernel() : null;
  const context = new FakeContext(fake);
  const link = new KernelLink(context);
  const rest = new FakeRest();
  const transport = new NotebookTransport({ rest, link, path: () => "houses.ipynb", isSeen: () => true, only });
  if (fake) link.open();
  const comm = fake?.comms[0];
  if (comm && says) comm.say({ event: "state", state: stateOf(says) });
  await transport.locate();
  return { transport, rest, comm, link, context, kernel: fake };
}

test("without a kernel all is read from the server, and nothing can be done", async () => {
  const { transport } = await stands({ kernel: false });
  assert.deepEqual(await transport.ask("commit", { id: "7c" }), { op: "commit", by: "server" });
  const { state } = await transport.ask("open", { n: 60 });
  assert.deepEqual([state.kernel, state.gone, state.version], [false, null, "v1"]);
  assert.equal(transport.canAct(), false);
  await assert.rejects(transport.act("undo", {}), { code: "gone" });
  transport.dispose();
});

test("with a kernel it says where HEAD is, and the server the rest", async () => {
  const { transport, comm, rest } = await stands();
  const opening = transport.ask("open", { n: 60 });
  await soon();
  comm.answer({ title: "houses.ipynb", page: { version: "v2", rows: [] }, state: stateOf(), unsaved_names: 3 });
  assert.deepEqual([(await opening).unsaved_names, (await opening).state.kernel, (await opening).state.version], [3, true, "v2"]);
  assert.deepEqual(await transport.ask("commit", { id: "7c" }), { op: "commit", by: "server" });
  assert.equal(rest.asked.at(-1)[0], "commit");
  transport.dispose();
});

test("a busy kernel is not waited for", async () => {
  const { transport, rest } = await stands({ says: { busy: "[22]" } });
  const opening = await transport.ask("open", { n: 60 });
  assert.deepEqual([opening.state.busy, opening.state.kernel], ["[22]", true]);
  assert.equal(rest.asked.at(-1)[0], "open");
  transport.dispose();
});

test("where the server cannot show the store, the kernel does", async () => {
  const { transport, comm, rest } = await stands();
  rest.failure = new RestFailure("absent", "no extension", 404);
  await transport.locate();
  const asked = transport.ask("commit", { id: "7c" });
  await soon();
  comm.answer({ by: "kernel" });
  assert.deepEqual(await asked, { by: "kernel" });
  transport.dispose();
});

test("where neither can, it says why", async () => {
  const { transport, rest } = await stands({ kernel: false });
  rest.failure = new RestFailure("refused", "this history was made elsewhere", 403);
  await transport.locate();
  await assert.rejects(transport.ask("open", {}), { code: "refused", message: "this history was made elsewhere" });
  transport.dispose();
});

test("a kernel that went on to another store does nothing to the one that is shown", async () => {
  const { transport, comm } = await stands({ only: "s" });
  assert.equal(transport.canAct(), true);
  comm.say({ event: "state", state: stateOf({ store: "other", version: "w1" }) });
  assert.equal(transport.canAct(), false);
  assert.deepEqual([transport.state().gone, transport.state().version], [LEFT, "v1"]);
  assert.deepEqual(await transport.ask("open", { n: 60 }).then((opening) => opening.state.kernel), false);
  transport.dispose();
});

test("the side panel follows the kernel to the other store", async () => {
  const { transport, comm } = await stands();
  comm.say({ event: "state", state: stateOf({ store: "other", version: "w1" }) });
  assert.deepEqual([transport.shown, transport.place, transport.canAct()], ["other", null, true]);
  const asked = transport.ask("rows", { from: 0, n: 10 });
  await soon();
  comm.answer({ by: "kernel" });
  assert.deepEqual(await asked, { by: "kernel" });
  transport.dispose();
});

test("a saved panel of another store shows nothing of this one", async () => {
  const { transport } = await stands({ only: "elsewhere" });
  assert.equal(transport.place, null);
  assert.equal(transport.canAct(), false);
  await assert.rejects(transport.ask("open", {}));
  transport.dispose();
});

test("a kernel that has not loaded the extension is said to be one", async () => {
  const { transport, comm } = await stands({ says: null });
  comm.onClose();
  assert.deepEqual([transport.state().gone, transport.state().kernel], [NOT_LOADED, false]);
  transport.dispose();
});

test("a server that was started anew is asked for the store again", async () => {
  const { transport, rest } = await stands({ kernel: false });
  rest.store = { ...rest.store, id: "2".repeat(32) };
  assert.deepEqual(await transport.ask("commit", { id: "7c" }), { op: "commit", by: "server" });
  assert.equal(rest.asked.at(-1)[2], "2".repeat(32));
  transport.dispose();
});

test("what others write is seen by looking at the version, while somebody looks", async () => {
  const { transport, rest } = await stands({ kernel: false });
  const told = [];
  transport.onState((state) => told.push(state.version));
  rest.version_ = "v2";
  await soon(1_200);
  assert.equal(told.at(-1), "v2");
  const count = rest.asked.length;
  transport.parts.isSeen = () => false;
  await soon(2_200);
  assert.equal(rest.asked.length, count);
  transport.dispose();
});

test("an act for a kernel of one thread waits here, and can be taken back", async () => {
  const { transport, comm } = await stands({ says: { busy: "[22]" } });
  const answer = await transport.act("checkout", { to: "7c1e9f2a", what: "both" });
  assert.deepEqual(answer, { queued: { op: "checkout", label: "7c1e9f2a", id: "7c1e9f2a" } });
  assert.equal(transport.state().queued.op, "checkout");
  assert.equal((await transport.act("cancel", {})).done, "Check out of 7c1e9f2a was cancelled.");
  assert.equal(transport.state().queued, null);
  await transport.act("rollback", { to: "7c1e9f2a", what: "both" });
  comm.say({ event: "state", state: stateOf({ busy: null }) });
  assert.equal(comm.sent.at(-1).op, "rollback");
  transport.dispose();
});

test("an act that waited for a kernel that went away is not done by the next one", async () => {
  const { transport, kernel } = await stands({ says: { busy: "[22]" } });
  await transport.act("checkout", { to: "7c1e9f2a", what: "both" });
  kernel.become("restarting");
  assert.equal(transport.state().queued, null);
  assert.equal(transport.state().failed.text, "Check out of 7c1e9f2a was not done: the kernel is gone.");
  kernel.become("idle");
  const [, again] = kernel.comms;
  again.say({ event: "state", state: stateOf() });
  assert.deepEqual(again.sent, [{ open: {} }]);
  transport.dispose();
});

test("every page of the rows is the kernel's, which alone knows what can go on", async () => {
  const { transport, comm } = await stands();
  const asked = transport.ask("rows", { from: 60, n: 60 });
  await soon();
  comm.answer({ by: "kernel" });
  assert.deepEqual(await asked, { by: "kernel" });
  transport.dispose();
});
