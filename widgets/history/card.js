/**
 * The card of a step that waits, alone under the cell that gave the task.
 *
 * It asks again whenever the history has moved, so that what is decided anywhere else is said here too.
 */

import { errorText } from "../shared/buttons.js";
import { el, fill } from "../shared/dom.js";
import { keepKeys } from "../shared/shortcuts.js";
import { ApprovalCard } from "./approval.js";

/** @import { Decision } from "./approval.js" */
/** @import { Host, RunDetails, State, Transport } from "./protocol.js" */

/**
 * @param {HTMLElement} root @param {Transport} transport @param {Host} host @param {{ run: string, step: number }} of
 * @returns {{ dispose: () => void }}
 */
export function mountCard(root, transport, host, of) {
  const card = new StepCard(transport, host, of);
  root.append(card.element);
  return { dispose: () => card.dispose() };
}

class StepCard {
  /** @param {Transport} transport @param {Host} host @param {{ run: string, step: number }} of */
  constructor(transport, host, of) {
    this.transport = transport;
    this.host = host;
    this.of = of;
    this.card = new ApprovalCard((decision) => void this.#decide(decision));
    this.note = el("p", { class: "ak-card-note ak-del", role: "alert", hidden: true });
    this.element = el(
      "div",
      { class: "ak-panel ak-alone" },
      this.card.element,
      this.note,
    );
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
      const run = await this.transport.ask("run", { id: this.of.run });
      if (turn !== this.turn) return;
      this.run = run;
      if (run.asks?.step !== this.of.step) this.going = false;
      this.#draw();
    } catch (error) {
      if (turn === this.turn && !this.run) this.#complain(errorText(error));
    }
  }

  #draw() {
    const { run, state } = this;
    if (!run) return;
    const waits = state?.queued?.op === "decide" && this.going ? "A cell is running. The step runs when it ends." : "";
    const now = this.host.now?.() ?? Date.now();
    this.card.show(run, { now, canAct: this.transport.canAct(), waits, step: this.of.step, isGoing: this.going });
  }

  /** @param {Decision} decision */
  async #decide(decision) {
    this.going = true;
    this.note.hidden = true;
    this.#draw();
    try {
      await this.transport.act("decide", { ...this.of, ...decision });
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
