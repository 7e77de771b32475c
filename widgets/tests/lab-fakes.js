/** A kernel with comms, and a server with a store, as far as the lab extension uses them. */

import { RestFailure } from "../lab/rest.js";

export class FakeSignal {
  slots = new Set();

  connect(slot) {
    this.slots.add(slot);
    return true;
  }

  disconnect(slot) {
    return this.slots.delete(slot);
  }

  emit(args) {
    for (const slot of [...this.slots]) slot(null, args);
  }
}

export class FakeComm {
  isDisposed = false;
  sent = [];
  onMsg = () => {};
  onClose = () => {};

  constructor(target) {
    this.target = target;
  }

  open(data) {
    this.sent.push({ open: data });
  }

  send(data) {
    this.sent.push(data);
  }

  close() {
    this.isDisposed = true;
  }

  /** The kernel says something. */
  say(data) {
    this.onMsg({ content: { data } });
  }

  /** The kernel answers the last question. */
  answer(ok) {
    this.say({ id: this.sent.at(-1).id, ok });
  }
}

export class FakeKernel {
  isDisposed = false;
  status = "idle";
  connectionStatus = "connected";
  statusChanged = new FakeSignal();
  connectionStatusChanged = new FakeSignal();
  comms = [];

  constructor(name = "python3") {
    this.name = name;
  }

  createComm(target) {
    const comm = new FakeComm(target);
    this.comms.push(comm);
    return comm;
  }

  become(status) {
    this.status = status;
    this.statusChanged.emit(status);
  }
}

export class FakeContext {
  isDisposed = false;
  kernelChanged = new FakeSignal();

  constructor(kernel = null) {
    this.session = kernel ? { kernel } : null;
  }

  change(kernel) {
    this.session = kernel ? { kernel } : null;
    this.kernelChanged.emit();
  }
}

export const stateOf = (more = {}) => ({ version: "v1", busy: null, queued: null, failed: null, done: null, kernel: true, store: "s", gone: null, ...more });

/** A server that has one store, or none, or is not there. */
export class FakeRest {
  store = { id: "1".repeat(32), name: "houses", history: "s" };
  failure = null;
  version_ = "v1";
  asked = [];

  async notebook(path) {
    this.asked.push(["notebook", path]);
    if (this.failure) throw this.failure;
    return this.store;
  }

  async version() {
    this.asked.push(["version"]);
    return this.version_;
  }

  async ask(store, op, args) {
    this.asked.push([op, args, store.id]);
    if (this.store && store.id !== this.store.id) throw new RestFailure("gone", "ask again", 404);
    return op === "open" ? { title: "houses", head: { id: "h" }, state: stateOf({ kernel: false }), page: { version: this.version_, rows: [] }, unsaved_names: 0 } : { op, by: "server" };
  }
}

export const soon = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));
