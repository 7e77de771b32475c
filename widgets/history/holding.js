/**
 * An act for a kernel that hears nothing while its cell runs: kept here until the cell has ended.
 *
 * Kernels with one thread (ipykernel before 7, and front ends that use no other) take messages up only between cells. Sent at
 * once, an act could be neither shown as waiting nor taken back.
 */

import { actName } from "./strip.js";

/** @import { Conflicts, Done, Head, Queued, State } from "./protocol.js" */
/** @typedef {{ op: string, args: any }} Act */
/** @typedef {{ done: Done | null, failed: State["failed"] }} Outcome */

/** @type {Outcome} */
const NOTHING = { done: null, failed: null };

export class HeldAct {
  /** @param {(op: string, args: object) => Promise<any>} send @param {() => void} tell the state that is shown has changed */
  constructor(send, tell) {
    this.send = send;
    this.tell = tell;
    /** @type {(Act & { told: Queued["queued"] }) | null} */
    this.act = null;
    this.sent = false;
    this.outcome = NOTHING;
    /** @type {Map<string, string>} what commits are called, as far as they were shown */
    this.labels = new Map();
    /** @type {Head | null} */
    this.head = null;
  }

  /** Whether one waits that the kernel knows nothing of. */
  get waits() {
    return this.act !== null && !this.sent;
  }

  /** Keep it, in the place of an earlier one. @param {Act} act @returns {Queued} */
  hold(act) {
    const id = act.args.to ?? act.args.at ?? "";
    const label = act.args.branch ?? act.args.name ?? this.labels.get(id) ?? id.slice(0, 8);
    this.act = { ...act, told: { op: act.op, label, id } };
    this.sent = false;
    this.tell();
    return { queued: this.act.told };
  }

  /** @returns {Done} */
  cancel() {
    const { op, label } = /** @type {Act & { told: Queued["queued"] }} */ (this.act).told;
    this.act = null;
    this.tell();
    const head = this.head ?? { branch: null, id: null, prompt: "", label: "", lane: null };
    return { done: `${actName(op, label)} was cancelled.`, notes: [], undo: false, head, cells: null };
  }

  /** The cell has ended. */
  release() {
    if (!this.act || this.sent) return;
    this.sent = true;
    const { op, args, told } = this.act;
    this.send(op, args).then(
      (answer) => this.settle("queued" in answer ? NOTHING : "conflicts" in answer ? clash(told, answer) : { done: answer, failed: null }),
      (error) => this.settle({ done: null, failed: { text: `${actName(told.op, told.label)} failed: ${error.message}`, code: error.code ?? "failed" } }),
    );
  }

  /** @param {Outcome} outcome */
  settle(outcome) {
    this.act = null;
    this.outcome = outcome;
    this.tell();
  }

  /** What waits for a kernel that went away is not done by the next one. */
  lose() {
    if (!this.act || this.sent) return;
    const { op, label } = this.act.told;
    this.settle({ done: null, failed: { text: `${actName(op, label)} was not done: the kernel is gone.`, code: "gone" } });
  }

  /** Another act begins. */
  forget() {
    this.outcome = NOTHING;
  }

  /** The state as it is shown. @param {State} state @returns {State} */
  over(state) {
    const { done, failed } = this.outcome;
    return { ...state, queued: this.act?.told ?? state.queued, done: done ?? state.done, failed: failed ?? state.failed };
  }

  /** Learn from an answer what commits are called. @param {any} answer */
  look(answer) {
    if (answer?.head) this.head = answer.head;
    for (const row of (answer?.page ?? answer)?.rows ?? []) {
      if (row.kind === "commit") this.labels.set(row.id, row.prompt || `“${row.subject}”`);
    }
  }
}

/** @param {Queued["queued"]} told @param {Conflicts} found @returns {Outcome} */
function clash(told, found) {
  const names = [...new Set(found.conflicts.map((one) => one.name.replace(/\[.*/, "")))].join(", ");
  return { done: null, failed: { text: `${actName(told.op, told.label)} failed: both sides changed ${names}. Nothing was changed.`, code: "refused" } };
}
