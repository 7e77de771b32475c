/**
 * An act for a kernel that hears nothing while its cell runs: kept in the page until the cell has ended.
 *
 * Kernels with one thread (ipykernel before 7, and front ends that use no other) take messages up only between cells. Sent at
 * once, an act could be neither shown as waiting nor taken back. As in kernels that hear, one act waits, whichever panel of
 * the page it is from, and all of them show it.
 */

import { actName } from "./strip.js";

/** @import { Conflicts, Done, Head, NotebookDocument, Queued, State } from "./protocol.js" */
/** @typedef {{ op: string, args: any }} Act */
/** @typedef {{ done: Done | null, failed: State["failed"] }} Outcome */
/** @typedef {{ send: (op: string, args: object) => Promise<any>, tell: () => void }} Panel `tell`: what is shown has changed */
/** @typedef {NonNullable<State["cells"]> & { page: NotebookDocument }} Left a page that was asked for, and not brought back yet */

/** @type {Outcome} */
const NOTHING = { done: null, failed: null };
const PLACE = Symbol.for("agent-kernel.held");

/**
 * What waits for a kernel, the same for all panels of the page. Each of them may be a module of its own.
 *
 * @param {object} kernel what stands for it in the page
 * @returns {HeldAct}
 */
export function heldFor(kernel) {
  const page = /** @type {any} */ (globalThis);
  /** @type {WeakMap<object, HeldAct>} */
  const all = (page[PLACE] ??= new WeakMap());
  const held = all.get(kernel) ?? new HeldAct();
  all.set(kernel, held);
  return held;
}

export class HeldAct {
  constructor() {
    /** @type {Set<Panel>} */
    this.panels = new Set();
    /** @type {(Act & { told: Queued["queued"], by: Panel }) | null} */
    this.act = null;
    this.sent = false;
    this.outcome = NOTHING;
    /** @type {Left | null} */
    this.left = null;
    this.turn = 0;
    /** @type {Map<string, string>} what commits are called, as far as they were shown */
    this.labels = new Map();
    /** @type {Head | null} */
    this.head = null;
  }

  /** @param {Panel} panel */
  join(panel) {
    this.panels.add(panel);
  }

  /** A panel is closed, and what it asked for with it. @param {Panel} panel */
  part(panel) {
    this.panels.delete(panel);
    this.#drop(panel, "cancelled: the panel that it was asked for in was closed");
  }

  /** What waits for a kernel that went away is not done by the next one. @param {Panel} panel */
  lose(panel) {
    this.#drop(panel, "not done: the kernel is gone");
  }

  /** Whether one waits that the kernel knows nothing of. */
  get waits() {
    return this.act !== null && !this.sent;
  }

  /** Keep it, in the place of an earlier one. @param {Act} act @param {Panel} panel @returns {Queued} */
  hold(act, panel) {
    const id = act.args.to ?? act.args.at ?? "";
    const label = act.args.branch ?? act.args.name ?? this.labels.get(id) ?? id.slice(0, 8);
    this.act = { ...act, told: { op: act.op, label, id }, by: panel };
    this.sent = false;
    this.#tell();
    return { queued: this.act.told };
  }

  /** @returns {Done} */
  cancel() {
    const { op, label } = /** @type {Act & { told: Queued["queued"] }} */ (this.act).told;
    this.act = null;
    this.#tell();
    const head = this.head ?? { branch: null, id: null, prompt: "", label: "", lane: null };
    return { done: `${actName(op, label)} was cancelled.`, notes: [], undo: false, head, cells: null };
  }

  /** A cell has begun, or ended. @param {boolean} isRunning */
  cell(isRunning) {
    if (isRunning) this.left = null;
    else this.#release();
  }

  #release() {
    if (!this.act || this.sent) return;
    this.sent = true;
    const { op, args, told, by } = this.act;
    by.send(op, args).then(
      (answer) => this.#settle("queued" in answer ? NOTHING : "conflicts" in answer ? clash(told, answer) : this.#done(told, args, answer)),
      (error) => this.#settle({ done: null, failed: { text: `${actName(told.op, told.label)} failed: ${error.message}`, code: error.code ?? "failed" } }),
    );
  }

  /** What came of it, with the cells apart: one panel brings them back. @param {Queued["queued"]} told @param {any} args @param {Done} done */
  #done(told, args, done) {
    this.turn += 1;
    const left = { turn: `page-${this.turn}`, id: told.id, document: args.document ?? "" };
    this.left = done.cells && { ...left, page: done.cells };
    return { done: { ...done, cells: null }, failed: null };
  }

  /** @param {Panel} panel @param {string} why */
  #drop(panel, why) {
    if (!this.act || this.sent || this.act.by !== panel) return;
    const { op, label } = this.act.told;
    this.#settle({ done: null, failed: { text: `${actName(op, label)} was ${why}.`, code: "gone" } });
  }

  /** @param {Outcome} outcome */
  #settle(outcome) {
    this.act = null;
    this.outcome = outcome;
    this.#tell();
  }

  #tell() {
    for (const panel of [...this.panels]) panel.tell();
  }

  /** Another act begins. */
  forget() {
    this.outcome = NOTHING;
    this.left = null;
  }

  /** The page that was left to be brought back: for the first who asks. @param {string} turn */
  claim(turn) {
    if (this.left?.turn !== turn) return null;
    const { page } = this.left;
    this.left = null;
    this.#tell();
    return page;
  }

  /** The state as it is shown. @param {State} state @returns {State} */
  over(state) {
    const { done, failed } = this.outcome;
    const { turn = "", id = "", document = "" } = this.left ?? {};
    const cells = this.left ? { turn, id, document } : (state.cells ?? null);
    return { ...state, queued: this.act?.told ?? state.queued, done: done ?? state.done, failed: failed ?? state.failed, cells };
  }

  /** Learn from an answer what commits are called. @param {any} answer */
  look(answer) {
    if (answer?.head) this.head = answer.head;
    for (const row of (answer?.page ?? answer)?.rows ?? []) {
      if (row.kind === "commit") this.labels.set(row.id, row.called || row.prompt || `“${row.subject}”`);
    }
  }
}

/** @param {Queued["queued"]} told @param {Conflicts} found @returns {Outcome} */
function clash(told, found) {
  const names = [...new Set(found.conflicts.map((one) => one.name.replace(/\[.*/, "")))].join(", ");
  return { done: null, failed: { text: `${actName(told.op, told.label)} failed: both sides changed ${names}. Nothing was changed.`, code: "refused" } };
}
