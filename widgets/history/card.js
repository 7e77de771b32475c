/**
 * The card of a step or of a question that waits, alone under the cell that gave the task.
 *
 * It asks again whenever the history has moved, so that what is decided anywhere else is said here too.
 */

import { errorText } from "../shared/buttons.js";
import { el, fill } from "../shared/dom.js";
import { keepKeys } from "../shared/shortcuts.js";
import { ApprovalCard } from "./approval.js";
import { QuestionCard } from "./question.js";

/** @import { Host, RunDetails, State, Transport } from "./protocol.js" */
/** @typedef {{ run: string, step: number }} Step */
/** @typedef {{ run: string, number: number }} Question one that the run asks in words, counted from 1 */
/** @typedef {{ now: number, canAct: boolean, waits: string, isGoing: boolean }} Look */
/** @typedef {(act: () => Promise<unknown>) => void} Say */
/**
 * @typedef {object} Topic what is asked
 * @property {HTMLElement} element
 * @property {"decide" | "resume"} op the act that says what a person said
 * @property {string} later why that is not done yet
 * @property {(run: RunDetails) => boolean} waits
 * @property {(run: RunDetails, look: Look) => void} show
 */

/**
 * @param {HTMLElement} root @param {Transport} transport @param {Host} host @param {Step | Question} of
 * @returns {{ dispose: () => void }}
 */
export function mountCard(root, transport, host, of) {
  const card = new AloneCard(transport, host, of);
  root.append(card.element);
  return { dispose: () => card.dispose() };
}

/** @param {Step} of @param {Say} say @param {Transport} transport @param {Host} host @returns {Topic} */
function aboutStep(of, say, transport, host) {
  const resume = (/** @type {RunDetails} */ { id, stopped }) => {
    if (stopped?.cell && host.runCell?.(stopped.cell)) return;
    say(() => transport.act("resume", { run: id, answer: "" }));
  };
  const card = new ApprovalCard((decision) => say(() => transport.act("decide", { ...of, ...decision })), resume);
  return {
    element: card.element,
    op: "decide",
    later: "A cell is running. The step runs when it ends.",
    waits: (run) => run.asks?.step === of.step,
    show: (run, look) => card.show(run, { ...look, step: of.step }),
  };
}

/** @param {Question} of @param {Say} say @param {Transport} transport @returns {Topic} */
function aboutQuestion({ run: id, number }, say, transport) {
  const card = new QuestionCard((answer) => say(() => transport.act("resume", { run: id, answer, question: number })));
  return {
    element: card.element,
    op: "resume",
    later: "A cell is running. The agent has your answer when it ends.",
    waits: (run) => run.questions[number - 1]?.answered === false,
    show: (run, look) => card.show(run, { ...look, number }),
  };
}

class AloneCard {
  /** @param {Transport} transport @param {Host} host @param {Step | Question} of */
  constructor(transport, host, of) {
    this.transport = transport;
    this.host = host;
    this.id = of.run;
    /** @type {Say} */
    const say = (act) => void this.#say(act);
    this.topic = "number" in of ? aboutQuestion(of, say, transport) : aboutStep(of, say, transport, host);
    this.note = el("p", { class: "ak-card-note ak-del", role: "alert", hidden: true });
    this.element = el("div", { class: "ak-panel ak-alone" }, this.topic.element, this.note);
    keepKeys(this.element);
    /** @type {RunDetails | null} */
    this.run = null;
    /** @type {State | null} */
    this.state = null;
    this.going = false;
    this.turn = 0;
    this.stop = transport.onState((state) => this.#take(state));
    void this.#load();
  }

  dispose() {
    this.stop();
    this.element.remove();
  }

  /** @param {State} state */
  #take(state) {
    const was = this.state;
    this.state = state;
    if (state.failed && state.failed.text !== was?.failed?.text && this.going) this.#complain(state.failed.text);
    if (!was || was.version !== state.version || (was.busy && !state.busy) || (was.gone && !state.gone)) void this.#load();
    else this.#draw();
  }

  async #load() {
    const turn = ++this.turn;
    try {
      const run = await this.transport.ask("run", { id: this.id });
      if (turn !== this.turn) return;
      this.run = run;
      if (!this.topic.waits(run)) this.going = false;
      this.#draw();
    } catch (error) {
      if (turn === this.turn && !this.run) this.#complain(errorText(error));
    }
  }

  #draw() {
    const { run, state, topic } = this;
    if (!run) return;
    const waits = state?.queued?.op === topic.op && this.going ? topic.later : "";
    const now = this.host.now?.() ?? Date.now();
    topic.show(run, { now, canAct: this.transport.canAct(), waits, isGoing: this.going });
  }

  /** @param {() => Promise<unknown>} act */
  async #say(act) {
    this.going = true;
    this.note.hidden = true;
    this.#draw();
    try {
      await act();
    } catch (error) {
      this.#complain(errorText(error));
    }
    await this.#load();
  }

  /** @param {string} text */
  #complain(text) {
    this.going = false;
    this.note.hidden = false;
    fill(this.note, text);
    this.#draw();
  }
}
