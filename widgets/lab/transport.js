/**
 * A notebook's history from wherever it can be had: over REST, and through the kernel what only the kernel can do.
 *
 * The server answers while the kernel is busy or gone; the kernel knows which session's HEAD counts, and acts. Both must
 * speak of the same store: what is shown is never acted on in another one.
 */

import { heldFor } from "../history/holding.js";

/** @import { Panel } from "../history/holding.js" */
/** @import { Acts, Reads, State, Transport } from "../history/protocol.js" */
/** @import { KernelLink } from "./link.js" */
/** @import { Rest, RestFailure, Store } from "./rest.js" */

export const NOT_LOADED = "agent_kernel is not loaded in this kernel. %load_ext agent_kernel loads it.";
export const LEFT = "This notebook has left the store that is shown here. %agent history shows the one that it is bound to now.";
export const WAITING = "The kernel has not answered yet. You can look, search and compare.";

const POLL_MS = 1_000;
const SLOW_MS = 5_000; // where there is nothing to poll yet, no answer, or a kernel that tells by itself what it does
const PATIENCE_MS = 1_500; // for which the kernel may think before the server is asked instead
const BUSY_MS = 500; // in which a kernel answers that can while it is busy

/** Questions to which the kernel knows the better answer. */
const KERNEL_FIRST = new Set(["open", "rows", "plan", "branches", "run"]);

/** @implements {Transport} */
export class NotebookTransport {
  /**
   * @param {{ rest: Rest, link: KernelLink, path: () => string, isSeen: () => boolean, only?: string }} parts
   *   `isSeen`: whether anybody looks, for else nothing is polled. `only`: the one store that this may show.
   */
  constructor(parts) {
    this.parts = parts;
    /** @type {Store | null | undefined} the store of the notebook's path; undefined: not known yet */
    this.store = undefined;
    /** @type {RestFailure | null} why it is not known */
    this.failure = null;
    /** @type {Set<(state: State) => void>} */
    this.listeners = new Set();
    this.version = "";
    this.timer = 0;
    this.told = "";
    this.disposed = false;
    this.held = heldFor(parts.link);
    /** @type {Panel} */
    this.panel = { send: (op, args) => parts.link.send(op, args), tell: () => this.#tell() };
    this.held.join(this.panel);
    this.unlisten = parts.link.listen(() => {
      if (this.hasKernel && parts.link.state) this.version = parts.link.state.version;
      if (parts.link.state === null) this.held.lose(this.panel);
      this.#tell();
    });
    this.#poll(POLL_MS);
  }

  dispose() {
    this.disposed = true;
    clearTimeout(this.timer);
    this.unlisten();
    this.held.part(this.panel);
    this.listeners.clear();
  }

  /** The id of the store that is shown; "": none is known. */
  get shown() {
    return this.parts.only ?? (this.parts.link.state?.store || this.store?.history || "");
  }

  /** Whether the server can be asked. @returns {Store | null} */
  get place() {
    return this.store && this.store.history === this.shown ? this.store : null;
  }

  /** Whether the kernel can be asked, and speaks of what is shown. */
  get hasKernel() {
    const { state } = this.parts.link;
    return state !== null && state.kernel && (state.store === undefined || state.store === this.shown);
  }

  /** Look again which store is the notebook's. */
  async locate() {
    try {
      this.store = await this.parts.rest.notebook(this.parts.path());
      this.failure = null;
    } catch (error) {
      this.store = null;
      this.failure = /** @type {RestFailure} */ (error);
    }
    return this.place;
  }

  /**
   * @template {keyof Reads} Op
   * @param {Op} op @param {Parameters<Reads[Op]>[0]} args
   * @returns {Promise<ReturnType<Reads[Op]>>}
   */
  async ask(op, args) {
    if (this.store === undefined) await this.locate();
    const { link } = this.parts;
    const isFree = this.hasKernel && !link.state?.busy;
    if (isFree && (KERNEL_FIRST.has(op) || !this.place)) {
      const found = await this.#fromKernel(op, args);
      if (found !== LATE) return this.#completed(op, found);
    }
    if (this.place) return this.#completed(op, await this.#fromServer(op, args));
    if (this.hasKernel) return this.#completed(op, await link.send(op, args));
    throw this.failure ?? Object.assign(new Error("There is no history here yet."), { code: "gone" });
  }

  /**
   * @template {keyof Acts} Op
   * @param {Op} op @param {Parameters<Acts[Op]>[0]} args
   * @returns {Promise<any>}
   */
  async act(op, args) {
    const { link } = this.parts;
    if (!this.hasKernel) throw Object.assign(new Error(this.state().gone ?? "There is no kernel."), { code: "gone" });
    if (op === "cancel" && this.held.waits) return this.held.cancel();
    if (op === "claim") return this.held.claim(/** @type {{ turn: string }} */ (args).turn) ?? link.send(op, args);
    this.held.forget();
    if (link.state?.busy && op !== "cancel" && !(await this.#answersBusy())) return this.held.hold({ op, args }, this.panel);
    return link.send(op, args);
  }

  /** @param {(state: State) => void} fn */
  onState(fn) {
    this.listeners.add(fn);
    return () => void this.listeners.delete(fn);
  }

  canAct() {
    return this.hasKernel;
  }

  /** @returns {State} */
  state() {
    const { link } = this.parts;
    const version = this.version || link.state?.version || "";
    if (this.hasKernel && link.state) return this.held.over({ ...link.state, version });
    const { failed } = this.held.outcome;
    return { version, busy: null, queued: null, failed, done: null, kernel: false, store: this.shown, gone: this.#gone() };
  }

  /** Why a kernel that is there is of no use. */
  #gone() {
    const { link } = this.parts;
    if (!link.hasKernel) return null;
    if (link.state) return link.state.gone ?? LEFT;
    return link.standing === "unknown" || !link.wanted ? NOT_LOADED : WAITING;
  }

  /** Whether the kernel takes up messages while its cell runs; what one with a single thread was sent cannot be taken back. */
  #answersBusy() {
    const { link } = this.parts;
    const late = new Promise((resolve) => setTimeout(() => resolve(!link.state?.busy), BUSY_MS));
    return Promise.race([link.send("rows", { n: 0 }).then(() => true, () => true), late]);
  }

  /** @param {string} op @param {object} args */
  async #fromKernel(op, args) {
    let timer = 0;
    const late = new Promise((resolve) => {
      timer = Number(setTimeout(() => resolve(LATE), this.place ? PATIENCE_MS : 2 ** 30));
    });
    try {
      return await Promise.race([this.parts.link.send(op, args), late]);
    } catch (error) {
      // It went away meanwhile: the server knows as much.
      if (/** @type {{ code?: string }} */ (error).code === "gone" && this.place) return LATE;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} op @param {object} args */
  async #fromServer(op, args) {
    const { rest } = this.parts;
    try {
      return await rest.ask(/** @type {Store} */ (this.place), op, args);
    } catch (error) {
      // A server that was started anew knows its stores by other ids.
      if (/** @type {{ code?: string }} */ (error).code !== "gone" || !(await this.locate())) throw error;
      return rest.ask(/** @type {Store} */ (this.place), op, args);
    }
  }

  /** An opening says with which state it is shown. @param {string} op @param {any} answer */
  #completed(op, answer) {
    this.held.look(answer);
    if (op !== "open") return answer;
    this.version = answer.page.version;
    return { ...answer, state: { ...this.state(), version: this.version } };
  }

  #tell() {
    const { link } = this.parts;
    if (this.hasKernel && link.state) this.held.cell(link.state.busy !== null);
    const state = this.state();
    const told = JSON.stringify(state);
    if (told === this.told) return;
    this.told = told;
    for (const fn of [...this.listeners]) fn(state);
  }

  /** @param {number} wait */
  #poll(wait) {
    if (this.disposed) return;
    this.timer = Number(setTimeout(() => void this.#pollNow(), wait));
  }

  async #pollNow() {
    const { state } = this.parts.link;
    let wait = this.hasKernel && !state?.busy ? SLOW_MS : POLL_MS;
    if (this.parts.isSeen() && this.store !== undefined) {
      try {
        if (this.place) this.version = await this.parts.rest.version(this.place);
        else {
          await this.locate();
          wait = SLOW_MS;
        }
      } catch (error) {
        if (/** @type {{ code?: string }} */ (error).code === "gone") await this.locate();
        wait = SLOW_MS;
      }
      if (!this.disposed) this.#tell();
    }
    this.#poll(wait);
  }
}

const LATE = Symbol("late");
