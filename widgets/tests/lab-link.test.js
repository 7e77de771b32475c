/** The kernel is asked over one comm, which is opened only where it will be understood, and again after a restart. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { KernelLink } from "../lab/link.js";
import { FakeContext, FakeKernel, stateOf } from "./lab-fakes.js";

function linked() {
  const kernel = new FakeKernel();
  const context = new FakeContext(kernel);
  return { kernel, context, link: new KernelLink(context) };
}

test("nothing is opened until somebody wants it", () => {
  const { kernel, link } = linked();
  assert.equal(kernel.comms.length, 0);
  link.open();
  link.open();
  assert.deepEqual(kernel.comms.map((comm) => comm.target), ["agent_kernel.panel"]);
  assert.equal(link.standing, "asking");
});

test("answers find their questions by number", async () => {
  const { kernel, link } = linked();
  link.open();
  const [comm] = kernel.comms;
  comm.say({ event: "state", state: stateOf() });
  assert.equal(link.standing, "open");
  const first = link.send("rows", { n: 1 });
  const second = link.send("undo", {});
  const [one, two] = comm.sent.slice(1);
  assert.equal(typeof one.id, "number");
  comm.say({ id: two.id, error: { code: "refused", message: "There is nothing to undo." } });
  comm.say({ id: one.id, ok: { rows: [] } });
  comm.say({ id: 99, ok: {} });
  assert.deepEqual(await first, { rows: [] });
  await assert.rejects(second, { code: "refused", message: "There is nothing to undo." });
});

test("a kernel that does not know the target is not asked again until a cell may have loaded the extension", () => {
  const { kernel, link } = linked();
  link.open();
  kernel.comms[0].onClose();
  assert.equal(link.standing, "unknown");
  link.open();
  kernel.become("busy");
  kernel.become("idle");
  assert.equal(kernel.comms.length, 1);
  link.open(true);
  assert.equal(kernel.comms.length, 2);
});

test("a restarted kernel is asked anew, and what waited fails", async () => {
  const { kernel, link } = linked();
  link.open();
  kernel.comms[0].say({ event: "state", state: stateOf() });
  const waiting = link.send("checkout", {});
  kernel.become("restarting");
  await assert.rejects(waiting, { code: "gone" });
  assert.equal(link.state, null);
  kernel.become("starting");
  assert.equal(kernel.comms.length, 1);
  kernel.become("idle");
  assert.equal(kernel.comms.length, 2);
  kernel.comms[0].say({ event: "state", state: stateOf() });
  assert.equal(link.state, null, "the old comm is heard no more");
});

test("the kernel of another session is another kernel", () => {
  const { kernel, context, link } = linked();
  let told = 0;
  link.listen(() => (told += 1));
  link.open();
  context.change(null);
  assert.equal(link.hasKernel, false);
  const other = new FakeKernel();
  context.change(other);
  assert.equal(other.comms.length, 1);
  assert.equal(kernel.statusChanged.slots.size, 0, "the old one is not listened to any more");
  assert.ok(told >= 2);
});

test("a dead kernel is no kernel", async () => {
  const { kernel, link } = linked();
  link.open();
  kernel.become("dead");
  assert.equal(link.hasKernel, false);
  await assert.rejects(link.send("undo", {}), { code: "gone" });
});

test("a kernel whose connection is lost, or that does not answer, is looked for at once", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const kernel = new FakeKernel();
  let looked = 0;
  const link = new KernelLink(new FakeContext(kernel), async () => void (looked += 1));
  link.open();
  kernel.connectionStatus = "connecting";
  kernel.connectionStatusChanged.emit("connecting");
  assert.equal(looked, 1);
  kernel.connectionStatus = "connected";
  kernel.connectionStatusChanged.emit("connected");
  await Promise.resolve();
  const answered = link.send("rows", { n: 1 });
  kernel.comms[0].answer({ rows: [] });
  await answered;
  link.send("undo", {});
  assert.equal(looked, 1);
  context.mock.timers.tick(2_000);
  assert.equal(looked, 2);
});
