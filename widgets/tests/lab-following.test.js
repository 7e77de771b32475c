/** Where HEAD is, for the lines under cells: not known while a cell may be moving it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Following } from "../lab/following.js";
import { soon, stateOf } from "./lab-fakes.js";

/** A history that moves when it is told to. */
class FakeTransport {
  head = "two";
  now = stateOf();
  tell = () => {};

  state() {
    return this.now;
  }

  onState(fn) {
    this.tell = (more) => fn((this.now = { ...this.now, ...more }));
    return () => {};
  }

  async ask(op) {
    return op === "branches" ? [] : { head: { id: this.head }, page: { version: this.now.version } };
  }
}

test("the line of the commit before offers nothing from the moment a cell begins until it is known where HEAD is", async () => {
  const transport = new FakeTransport();
  const following = new Following(transport);
  const seen = [];
  following.listen(() => seen.push([following.isBusy, following.head]));
  await soon(90);
  assert.deepEqual(seen.at(-1), [false, "two"]);
  transport.tell({ busy: "[3]" });
  assert.deepEqual(seen.at(-1), [true, "two"]);
  transport.head = "three";
  transport.tell({ busy: null, version: "v2" });
  assert.deepEqual(seen.at(-1), [false, null]);
  await soon(90);
  assert.deepEqual(seen.at(-1), [false, "three"]);
  following.dispose();
});
