/**
 * The transport over a widget's model: questions as custom messages, answers by their number.
 *
 * The opening came with the model, so the first question costs no round trip. A page that is loaded anew finds the same
 * model with an old opening: the state that follows says that the history has moved.
 */

/** @import { State, Transport } from "./protocol.js" */
/**
 * @typedef {{ get(name: string): any, send(message: object): void, on(event: string, fn: (...args: any[]) => void): void, off(event: string, fn: (...args: any[]) => void): void }} CommModel
 * @typedef {{ resolve(answer: any): void, reject(error: Error): void }} Waiting
 */

/** An answer that says why there is none; `code` is a word for programs. */
export class CommFailure extends Error {
  /** @param {{ code: string, message: string }} failure */
  constructor(failure) {
    super(failure.message);
    this.code = failure.code;
  }
}

/**
 * @param {CommModel} model
 * @returns {Transport & { dispose(): void }}
 */
export function commTransport(model) {
  /** @type {Map<number, Waiting>} */
  const waiting = new Map();
  /** @type {Set<(state: State) => void>} */
  const listeners = new Set();
  // Several views of one model hear each other's answers, so each counts from a place of its own. Numbers, because
  // ipykernel remembers every text that it sees as an id.
  let next = Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
  const view = String(next);
  /** @type {State} */
  let state = model.get("opening").ok.state;
  let fresh = true; // nothing has moved since the opening

  /** @param {any} message */
  function hear(message) {
    if (message?.event === "state") {
      fresh &&= message.state.version === state.version;
      state = message.state;
      for (const fn of listeners) fn(state);
      return;
    }
    const asked = waiting.get(message?.id);
    if (asked === undefined) return;
    waiting.delete(message.id);
    if (message.error) asked.reject(new CommFailure(message.error));
    else asked.resolve(message.ok);
  }

  /**
   * @param {string} op
   * @param {object} args
   * @returns {Promise<any>}
   */
  function send(op, args) {
    const id = (next += 1);
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      model.send({ id, op, args });
    });
  }

  function watch() {
    if (document.visibilityState === "visible") model.send({ op: "watch", view });
  }

  model.on("msg:custom", hear);
  // Another kernel may have moved the same store while nobody looked.
  document.addEventListener("visibilitychange", watch);
  model.send({ op: "watch", view });

  return {
    ask(op, args) {
      const opening = model.get("opening");
      if (op === "open" && fresh && isAnswered(opening.args, args)) return Promise.resolve({ ...opening.ok, state });
      return send(op, args);
    },
    act: send,
    onState(fn) {
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
    canAct: () => state.kernel,
    dispose() {
      document.removeEventListener("visibilitychange", watch);
      model.off("msg:custom", hear);
      model.send({ op: "unwatch", view });
      for (const asked of waiting.values()) asked.reject(new CommFailure({ code: "gone", message: "The panel was closed." }));
      waiting.clear();
      listeners.clear();
    },
  };
}

/**
 * Whether the opening answers this question; how many rows it has does not matter.
 *
 * @param {any} known
 * @param {any} asked
 */
function isAnswered(known, asked) {
  return (
    known.text === asked.text &&
    known.show === asked.show &&
    known.tz_s === asked.tz_s &&
    !known.unfolded.length &&
    !asked.unfolded.length
  );
}
