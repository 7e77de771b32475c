/**
 * The transport over a widget's model: questions as custom messages, answers by their number.
 *
 * The opening came with the model, so the first question costs no round trip. A page that is loaded anew finds the same
 * model with an old opening: the state that follows says that the history has moved.
 */

import { heldFor } from "./holding.js";
import { openingOf } from "./kept.js";
import { Heart } from "./pulse.js";

/** @import { Act, Panel } from "./holding.js" */
/** @import { State, Transport } from "./protocol.js" */
/**
 * @typedef {{ get(name: string): any, set(name: string, value: unknown): void, send(message: object): void,
 *   on(event: string, fn: (...args: any[]) => void): void, off(event: string, fn: (...args: any[]) => void): void,
 *   widget_manager?: object }} CommModel
 * @typedef {{ resolve(answer: any): void, reject(error: Error): void, isAct: boolean }} Waiting
 */

/** What a kernel of one thread can say of a move while its cell runs. */
const LATER = { code: "busy", message: "What it changes can be told only when the cell that runs has ended." };

const NO_ANSWER = { code: "busy", message: "This kernel answers only when the cell that runs has ended." };
/** Milliseconds: in which a kernel answers that can while it is busy; that one at rest may take; after a sign that it has gone. */
const PATIENCE = { busyMs: 500, answerMs: 10_000, actMs: 120_000, doubtMs: 2_000 };

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
  /** @param {CommModel} model @param {Partial<typeof PATIENCE>} [patience] */
  constructor(model, patience = {}) {
    this.model = model;
    this.patience = { ...PATIENCE, ...patience };
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    /** @type {Set<(state: State) => void>} */
    this.listeners = new Set();
    // Several views of one model hear each other's answers, so each counts from a place of its own. Numbers, because
    // ipykernel remembers every text that it sees as an id.
    this.last = Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
    this.view = String(this.last);
    /** @type {State} */
    this.state = openingOf(model).ok.state;
    this.fresh = true; // nothing has moved since the opening
    this.known = false; // whether it was heard at all: the cell that shows the panel may run on
    this.pinged = false;
    this.held = heldFor(model.widget_manager ?? model); // one for each kernel
    /** @type {Panel} */
    this.panel = { send: (op, args) => this.send(op, args, true), tell: () => this.tell() };
    this.held.join(this.panel);
    this.held.look(openingOf(model).ok);
    this.hear = this.hear.bind(this);
    this.watch = this.watch.bind(this);
    this.heart = new Heart(
      model,
      {
        ping: () => this.ping(),
        owesMs: () => this.owesMs,
        isBusy: () => this.state.busy !== null || !this.known,
        moved: () => this.moved(),
        late: () => this.refuse(NO_ANSWER, (asked) => !asked.isAct),
      },
      this.patience.doubtMs,
    );
    model.on("msg:custom", this.hear);
    // Another kernel may have moved the same store while nobody looked.
    document.addEventListener("visibilitychange", this.watch);
    this.watch();
  }

  /** @type {Transport["ask"]} */
  async ask(op, args) {
    const { args: known, ok } = openingOf(this.model);
    if (op === "open" && this.fresh && isAnswered(known, args)) {
      this.fresh = false; // whoever asks again wants to know more
      return { ...ok, state: this.shown };
    }
    // Somebody wants to do something: they need not wait to be told what it would do.
    if (op === "plan" && this.state.busy !== null && !(await this.answers())) throw new CommFailure(LATER);
    return this.send(op, args);
  }

  /** @type {Transport["act"]} */
  async act(op, args) {
    const act = /** @type {Act} */ ({ op, args });
    if (op === "cancel" && this.held.waits) return /** @type {any} */ (this.held.cancel());
    if (op === "claim") return /** @type {any} */ (this.held.claim(act.args.turn) ?? this.send(op, args));
    if (this.heart.gone) throw new CommFailure({ code: "gone", message: this.heart.gone });
    this.held.forget();
    if (this.state.busy !== null && op !== "cancel" && !(await this.answers())) return /** @type {any} */ (this.held.hold(act, this.panel));
    return this.send(op, args, true);
  }

  /** @type {Transport["onState"]} */
  onState(fn) {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  canAct() {
    return this.shown.kernel;
  }

  dispose() {
    document.removeEventListener("visibilitychange", this.watch);
    this.heart.dispose();
    this.held.part(this.panel);
    this.model.off("msg:custom", this.hear);
    if (!this.heart.gone) this.model.send({ op: "unwatch", view: this.view });
    this.refuse({ code: "gone", message: "The panel was closed." });
    this.listeners.clear();
  }

  /** The state, with what is kept here for a busy kernel. @returns {State} */
  get shown() {
    const { gone } = this.heart;
    const state = this.held.over(this.state);
    return gone ? { ...state, busy: null, queued: null, cells: null, kernel: false, gone: this.state.gone ?? gone } : state;
  }

  /** How long the kernel may take to say something; 0: nothing is waited for. */
  get owesMs() {
    const waiting = [...this.waiting.values()];
    if (waiting.some((asked) => asked.isAct)) return this.patience.actMs;
    return waiting.length || this.pinged ? this.patience.answerMs : 0;
  }

  tell() {
    for (const fn of this.listeners) fn(this.shown);
  }

  watch() {
    if (document.visibilityState !== "hidden") this.ping();
  }

  /** Have the kernel tell the state now and from now on. */
  ping() {
    this.pinged = true;
    this.post({ op: "watch", view: this.view });
  }

  /** The kernel has gone, or is back. */
  moved() {
    const { gone } = this.heart;
    if (gone) {
      this.fresh = false;
      this.pinged = false;
      this.refuse({ code: "gone", message: gone });
      this.held.lose(this.panel);
    }
    this.tell();
  }

  /** @param {{ code: string, message: string }} failure @param {(asked: Waiting) => boolean} [which] */
  refuse(failure, which = () => true) {
    for (const [id, asked] of [...this.waiting]) {
      if (!which(asked)) continue;
      this.waiting.delete(id);
      asked.reject(new CommFailure(failure));
    }
  }

  /**
   * Whether the kernel takes up messages while its cell runs. One with a single thread does not, and what it was once sent
   * cannot be taken back.
   *
   * @returns {Promise<boolean>}
   */
  async answers() {
    /** @type {Promise<boolean>} */
    const late = new Promise((resolve) => setTimeout(() => resolve(this.state.busy === null), this.patience.busyMs));
    // Given up for a question that was asked before is no answer.
    const answered = this.send("rows", { n: 0 }).then(() => true, (error) => error.code !== NO_ANSWER.code);
    return Promise.race([answered, late]);
  }

  /** @param {string} op @param {object} args @param {boolean} [isAct] @returns {Promise<any>} */
  send(op, args, isAct = false) {
    const id = (this.last += 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, isAct });
      if (isAct) this.heart.rest(); // it may take longer than what was asked before
      this.post({ id, op, args });
    });
  }

  /** @param {object} message */
  post(message) {
    if (this.heart.pulse === "closed") return this.moved();
    try {
      this.model.send(message);
      this.heart.expect();
    } catch {
      this.heart.become("closed"); // the front end has taken the connection away
    }
  }

  /** @param {any} message */
  hear(message) {
    this.known = true;
    if (message?.event === "state") this.pinged = false;
    this.take(message);
    this.heart.heard();
  }

  /** @param {any} message */
  take(message) {
    if (message?.event === "state") {
      this.fresh &&= message.state.version === this.state.version;
      this.state = message.state;
      this.held.cell(this.state.busy !== null);
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
