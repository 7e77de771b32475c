/**
 * The way to the kernel of one notebook: the comm target `agent_kernel.panel`, for the side panel and all saved panels.
 *
 * It is opened when somebody needs it, and only where the kernel has probably loaded the extension: a kernel that does not
 * know the target writes a warning into its log. A message is `{id, op, args}`, its answer `{id, ok}` or `{id, error}`.
 */

/** @import { State } from "../history/protocol.js" */
/** @import { Comm, Kernel, SessionContext } from "./jupyter.js" */
/** @typedef {"none" | "asking" | "open" | "unknown"} Standing no kernel · asked · answers · has not loaded agent_kernel */
/** @typedef {{ resolve(answer: any): void, reject(error: Error): void }} Waiting */

const TARGET = "agent_kernel.panel";
const CHECK_MS = 1_500; // after which a kernel that has not answered is looked for
const AWAY = new Set(["dead", "restarting", "autorestarting", "terminating"]);

/** Why the kernel did not do it; `code` is a word for programs. */
export class LinkFailure extends Error {
  /** @param {{ code: string, message: string }} failure */
  constructor(failure) {
    super(failure.message);
    this.code = failure.code;
  }
}

export class KernelLink {
  /**
   * @param {SessionContext} context
   * @param {() => Promise<unknown>} [look] have the application ask the server which kernels there are: by itself it does
   *   so every ten seconds
   */
  constructor(context, look = async () => {}) {
    this.context = context;
    this.look = look;
    this.isLooking = false;
    /** @type {Standing} */
    this.standing = "none";
    /** @type {State | null} what the kernel said last */
    this.state = null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {Kernel | null} */
    this.kernel = null;
    /** @type {Comm | null} */
    this.comm = null;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    this.next = 0;
    this.wanted = false;
    this.onKernel = () => this.#follow();
    this.onStatus = () => this.#look();
    context.kernelChanged.connect(this.onKernel);
    this.#follow();
  }

  /** Have the kernel answer, unless it was asked before. `again`: something was run that may have loaded the extension. */
  open(again = false) {
    this.wanted = true;
    if (again && this.standing === "unknown") this.standing = "none";
    this.#connect();
  }

  /** Whether there is a kernel, whatever it has loaded. */
  get hasKernel() {
    return this.kernel !== null && !this.kernel.isDisposed && this.kernel.status !== "dead";
  }

  /** @param {string} op @param {object} args @returns {Promise<any>} */
  send(op, args) {
    const { comm } = this;
    if (!comm || comm.isDisposed) return Promise.reject(new LinkFailure({ code: "gone", message: "The kernel is gone." }));
    // Numbers: ipykernel keeps every text that it sees as an id for ever.
    const id = (this.next += 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      comm.send({ id, op, args });
      setTimeout(() => this.waiting.has(id) && void this.#lookForKernel(), CHECK_MS);
    });
  }

  /** Calls back whenever `standing` or `state` changed; returns how to stop. @param {() => void} fn */
  listen(fn) {
    this.listeners.add(fn);
    return () => void this.listeners.delete(fn);
  }

  dispose() {
    this.context.kernelChanged.disconnect(this.onKernel);
    this.#watch(null);
    if (this.comm && !this.comm.isDisposed) this.comm.close();
    this.#drop("none");
    this.listeners.clear();
  }

  #tell() {
    for (const fn of [...this.listeners]) fn();
  }

  /** Another kernel, or none. */
  #follow() {
    const kernel = this.context.isDisposed ? null : (this.context.session?.kernel ?? null);
    if (kernel !== this.kernel) {
      this.#watch(kernel);
      this.#drop("none");
    }
    this.#connect();
    this.#tell();
  }

  /** @param {Kernel | null} kernel */
  #watch(kernel) {
    for (const signal of [this.kernel?.statusChanged, this.kernel?.connectionStatusChanged]) signal?.disconnect(this.onStatus);
    this.kernel = kernel;
    for (const signal of [kernel?.statusChanged, kernel?.connectionStatusChanged]) signal?.connect(this.onStatus);
  }

  async #lookForKernel() {
    if (this.isLooking) return;
    this.isLooking = true;
    try {
      await this.look();
    } catch {
      // The server does not answer either, which the application itself says.
    } finally {
      this.isLooking = false;
    }
  }

  /** The kernel's status changed: a restarted one knows nothing of the comm. */
  #look() {
    const { comm, kernel } = this;
    if (kernel && !kernel.isDisposed && kernel.connectionStatus !== "connected") void this.#lookForKernel();
    if (!kernel || kernel.isDisposed || AWAY.has(kernel.status) || comm?.isDisposed) this.#drop("none");
    else this.#connect();
    this.#tell();
  }

  #connect() {
    const { kernel } = this;
    if (!this.wanted || this.standing !== "none" || !kernel || kernel.isDisposed) return;
    if (kernel.connectionStatus !== "connected" || AWAY.has(kernel.status) || kernel.status === "starting") return;
    const comm = kernel.createComm(TARGET);
    comm.onMsg = (message) => {
      if (comm === this.comm) this.#hear(message.content.data);
    };
    comm.onClose = () => {
      if (comm !== this.comm) return;
      this.#drop("unknown");
      this.#tell();
    };
    this.comm = comm;
    this.standing = "asking";
    comm.open({});
  }

  /** @param {any} message */
  #hear(message) {
    if (message?.event === "state") {
      this.standing = "open";
      this.state = message.state;
      this.#tell();
      return;
    }
    const asked = this.waiting.get(message?.id);
    if (!asked) return;
    this.waiting.delete(message.id);
    if (message.error) asked.reject(new LinkFailure(message.error));
    else asked.resolve(message.ok);
  }

  /** @param {Standing} standing */
  #drop(standing) {
    this.comm = null;
    this.state = null;
    this.standing = standing;
    for (const asked of this.waiting.values()) asked.reject(new LinkFailure({ code: "gone", message: "The kernel is gone." }));
    this.waiting.clear();
  }
}
