/**
 * The transport over a widget's model: questions as custom messages, answers by their number.
 *
 * The opening came with the model, so the first question costs no round trip. A page that is loaded anew finds the same
 * model with an old opening: the state that follows says that the history has moved.
 */

import { HeldAct } from "./holding.js";

/** @import { Act } from "./holding.js" */
/** @import { State, Transport } from "./protocol.js" */
/**
 * @typedef {{ get(name: string): any, send(message: object): void,
 *   on(event: string, fn: (...args: any[]) => void): void, off(event: string, fn: (...args: any[]) => void): void }} CommModel
 * @typedef {{ resolve(answer: any): void, reject(error: Error): void }} Waiting
 */

/** What a kernel of one thread can say of a move while its cell runs. */
const LATER = { code: "busy", message: "What it changes can be told only when the cell that runs has ended." };

/** An answer that says why there is none; `code` is a word for programs. */
export class CommFailure extends Error {
  /** @param {{ code: string, message: string }} failure */
  constructor(failure) {
    super(failure.message);
    this.code = failure.code;
  }
}

/** @implements {Transport} */
export class CommTransport {
  /** @param {CommModel} model @param {number} [patience] milliseconds in which a kernel answers that can while it is busy */
  constructor(model, patience = 500) {
    this.model = model;
    this.patience = patience;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    /** @type {Set<(state: State) => void>} */
    this.listeners = new Set();
    // Several views of one model hear each other's answers, so each counts from a place of its own. Numbers, because
    // ipykernel remembers every text that it sees as an id.
    this.last = Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
    this.view = String(this.last);
    /** @type {State} */
    this.state = model.get("opening").ok.state;
    this.fresh = true; // nothing has moved since the opening
    this.held = new HeldAct((op, args) => this.send(op, args), () => this.tell());
    this.held.look(model.get("opening").ok);
    this.hear = this.hear.bind(this);
    this.watch = this.watch.bind(this);
    model.on("msg:custom", this.hear);
    // Another kernel may have moved the same store while nobody looked.
    document.addEventListener("visibilitychange", this.watch);
    this.watch();
  }

  /** @type {Transport["ask"]} */
  async ask(op, args) {
    const { args: known, ok } = this.model.get("opening");
    if (op === "open" && this.fresh && isAnswered(known, args)) return { ...ok, state: this.shown };
    // Somebody wants to do something: they need not wait to be told what it would do.
    if (op === "plan" && this.state.busy !== null && !(await this.answers())) throw new CommFailure(LATER);
    return this.send(op, args);
  }

  /** @type {Transport["act"]} */
  async act(op, args) {
    const act = /** @type {Act} */ ({ op, args });
    if (op === "cancel" && this.held.waits) return /** @type {any} */ (this.held.cancel());
    this.held.forget();
    if (this.state.busy !== null && op !== "cancel" && !(await this.answers())) return /** @type {any} */ (this.held.hold(act));
    return this.send(op, args);
  }

  /** @type {Transport["onState"]} */
  onState(fn) {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  canAct() {
    return this.state.kernel;
  }

  dispose() {
    document.removeEventListener("visibilitychange", this.watch);
    this.model.off("msg:custom", this.hear);
    this.model.send({ op: "unwatch", view: this.view });
    for (const asked of this.waiting.values()) asked.reject(new CommFailure({ code: "gone", message: "The panel was closed." }));
    this.waiting.clear();
    this.listeners.clear();
  }

  /** The state, with what is kept here for a busy kernel. */
  get shown() {
    return this.held.over(this.state);
  }

  tell() {
    for (const fn of this.listeners) fn(this.shown);
  }

  watch() {
    if (document.visibilityState !== "hidden") this.model.send({ op: "watch", view: this.view });
  }

  /**
   * Whether the kernel takes up messages while its cell runs. One with a single thread does not, and what it was once sent
   * cannot be taken back.
   *
   * @returns {Promise<boolean>}
   */
  async answers() {
    /** @type {Promise<boolean>} */
    const late = new Promise((resolve) => setTimeout(() => resolve(this.state.busy === null), this.patience));
    const answered = this.send("rows", { n: 0 }).then(() => true, () => true);
    return Promise.race([answered, late]);
  }

  /** @param {string} op @param {object} args @returns {Promise<any>} */
  send(op, args) {
    const id = (this.last += 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.model.send({ id, op, args });
    });
  }

  /** @param {any} message */
  hear(message) {
    if (message?.event === "state") {
      this.fresh &&= message.state.version === this.state.version;
      this.state = message.state;
      if (this.state.busy === null) this.held.release();
      this.tell();
      return;
    }
    const asked = this.waiting.get(message?.id);
    if (asked === undefined) return;
    this.waiting.delete(message.id);
    if (message.error) asked.reject(new CommFailure(message.error));
    else {
      this.held.look(message.ok);
      asked.resolve(message.ok);
    }
  }
}

/**
 * Whether the opening answers this question; how many rows it has does not matter.
 *
 * @param {any} known @param {any} asked
 */
function isAnswered(known, asked) {
  return (
    known.text === asked.text &&
    known.show === asked.show &&
    known.tz_s === asked.tz_s &&
    known.unfolded.length + asked.unfolded.length === 0
  );
}
