/**
 * What can be done from the panel, each with its question first and its way back after.
 *
 * The kernel does the acts; while a cell runs it queues one. Bringing back the notebook's cells is the one thing that only
 * the place around the panel can do: where it cannot, the same cells are written to a file beside the notebook.
 */

import { errorText } from "../shared/buttons.js";
import { DocumentCells } from "./cells.js";
import { askName } from "./naming.js";
import { pinned } from "./pin.js";
import { askFirst } from "./plan.js";
import { actName } from "./strip.js";

/** @import { Decision } from "./approval.js" */
/** @import { Acts, Conflicts, Done, Merge, NotebookDocument, Queued, RunDetails, Stopped } from "./protocol.js" */
/** @import { Target } from "./detail-top.js" */
/** @import { Pin } from "./pin.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { Question, What } from "./plan.js" */

/** After which undo takes back something else than the cells that were brought. */
const MOVES = new Set(["checkout", "rollback", "switch", "merge", "cherry_pick", "undo", "redo"]);

export class Doings {
  /** @param {HistoryModel} model @param {HTMLElement} panel @param {() => HTMLElement} back what has the focus afterwards */
  constructor(model, panel, back) {
    this.model = model;
    this.panel = panel;
    this.back = back;
    this.cells = new DocumentCells(model);
  }

  /** @param {Element} anchor */
  #from(anchor) {
    return { anchor, back: this.back() };
  }

  // Acts ----------------------------------------------------------------------------------------------------------------

  /**
   * @template {keyof Acts} Op
   * @param {Op} op @param {Parameters<Acts[Op]>[0]} args @param {string} label
   * @param {(done: Done) => void} [after]
   * @returns {Promise<string | null>} why it could not be done
   */
  async #act(op, args, label, after) {
    const { model } = this;
    model.complain(null);
    model.acting = true;
    try {
      const answer = /** @type {Done | Queued | Conflicts} */ (await model.transport.act(op, args));
      if ("queued" in answer) model.takeState({ ...model.state, queued: answer.queued });
      else if ("conflicts" in answer) model.show({ .../** @type {Merge} */ (args), kind: "conflicts", picks: op === "cherry_pick" });
      else this.#done(op, answer, after);
      return null;
    } catch (error) {
      const message = errorText(error);
      const code = error instanceof Error && "code" in error ? String(error.code) : "failed";
      model.complain({ text: `${actName(op, label)} failed: ${message.replace(/([^.!?])$/, "$1.")}`, code });
      return message;
    } finally {
      model.acting = false;
    }
  }

  /** @param {keyof Acts} op @param {Done} done @param {((done: Done) => void) | undefined} after */
  #done(op, done, after) {
    const { model } = this;
    if (op !== "write_notebook") model.head = done.head;
    if (op !== "cancel") model.made = done.head.id;
    const cells = op === "undo" ? this.cells.takeBack(done) : op === "redo" ? this.cells.bringAgain(done) : [];
    if (MOVES.has(op)) this.cells.brought = false;
    if (done.done) model.say({ text: [done.done, ...done.notes, ...cells].join(" "), next: done.undo ? "undo" : op === "undo" ? "redo" : "", head: done.head.id, of: done.of });
    after?.(done);
    if (op !== "cancel") void model.open();
  }

  /** @param {Target} target @param {Element} anchor */
  checkout(target, anchor) {
    this.#question("checkout", target, anchor, `Check out ${target.label}?`, "Check out");
  }

  /** @param {Target} target @param {Element} anchor */
  rollback(target, anchor) {
    this.#question("rollback", target, anchor, `Roll back to ${target.label}?`, "Roll back");
  }

  /** @param {"checkout" | "rollback"} op @param {Target} target @param {Element} anchor @param {string} title @param {string} button */
  #question(op, target, anchor, title, button) {
    const go = (/** @type {What} */ what, /** @type {NotebookDocument | null} */ page) => {
      if (what === "code") return void (page && this.cells.bring(target, page));
      // Where it waits for a cell, a panel of this document brings the cells back, this one or another.
      const document = (what === "both" && this.model.host.document?.()) || undefined;
      void this.#act(op, { to: target.id, what, document }, target.label, (done) => this.cells.after(target, done));
    };
    this.#ask({ op, to: target.id, title, button, cells: true, go }, anchor);
  }

  /** @param {Question} question @param {Element} anchor */
  #ask(question, anchor) {
    askFirst(this.panel, this.model, question, this.#from(anchor));
  }

  /** @param {string} branch @param {Element} anchor */
  switchTo(branch, anchor) {
    const go = () => void this.#act("switch", { branch }, branch);
    this.#ask({ op: "checkout", to: branch, title: `Switch to ${branch}?`, button: "Switch", cells: false, go }, anchor);
  }

  /** @param {string} branch @param {Element} anchor */
  merge(branch, anchor) {
    const into = this.model.head?.branch ?? "what you have now";
    const go = () => void this.mergeWith({ branch, ours: [], theirs: [] });
    const resolve = () => this.model.show({ kind: "conflicts", branch });
    const title = `Merge ${branch} into ${into}?`;
    this.#ask({ op: "merge", to: branch, title, button: "Merge", cells: false, go, resolve }, anchor);
  }

  /** @param {Merge} merge @param {boolean} [picks] it is a cherry-pick */
  mergeWith(merge, picks = false) {
    return this.#act(picks ? "cherry_pick" : "merge", merge, merge.branch);
  }

  /** Undo what is next: a move is taken back as it was made, the work of a cell is asked for first. @param {Element} anchor */
  undoNext(anchor) {
    const { model } = this;
    const { undo } = model.state;
    const pin = { head: model.head?.id, of: undo?.of };
    if (!model.canAct || undo === null) return;
    if (!undo?.cell) return this.undo(pin);
    const go = () => this.undo(pin);
    const isStale = () => model.state.undo?.text !== undo.text || model.state.undo.to !== undo.to || model.state.undo.of !== undo.of;
    const title = `Undo ${undo.text}?`;
    this.#ask({ op: "checkout", to: undo.to, title, button: "Undo", cells: false, notes: false, isStale, go }, anchor);
  }

  /** @param {Pin} [pin] as it was when it was offered; else as the panel shows it */
  undo(pin = { head: this.model.head?.id, of: this.model.state.undo?.of }) {
    if (this.model.canAct) void this.#act("undo", pinned(pin), "");
  }

  /** @param {Pin} [pin] */
  redo(pin = { head: this.model.head?.id }) {
    if (this.model.canAct) void this.#act("redo", pinned(pin), "");
  }

  /** @param {RunDetails} run @param {Decision} decision */
  decide(run, decision) {
    const step = run.asks?.step ?? 0;
    return this.#act("decide", { run: run.id, step, ...decision }, `step ${step}`);
  }

  /** @param {RunDetails} run @param {string} answer */
  answer(run, answer) {
    return this.#act("resume", { run: run.id, answer, question: run.questions.length }, `the answer to ${run.author.name}`);
  }

  /** Let a run go on that stopped: under its own cell, or in a new one where that is not known any more. @param {{ id: string, short: string, author: { name: string }, stopped: Stopped | null }} run */
  async resume({ id, short, author, stopped }) {
    if (stopped?.cell && this.model.host.runCell?.(stopped.cell)) return null;
    return this.#act("resume", { run: id, answer: "" }, `resuming run ${short} of ${author.name}`);
  }

  commit() {
    void this.#act("commit_now", { message: "" }, "");
  }

  cancel() {
    void this.#act("cancel", {}, "");
  }

  verify() {
    void this.#act("verify", {}, "");
  }

  // Names ---------------------------------------------------------------------------------------------------------------

  /** @param {Target} target @param {Element} anchor */
  branch(target, anchor) {
    askName(
      this.panel,
      {
        title: `Branch from ${target.label}`,
        label: "Name",
        button: "Create branch",
        option: "Switch to it",
        go: (name, go) => this.#named(() => this.#act("branch", { name, at: target.id, go }, name)),
      },
      this.#from(anchor),
    );
  }

  /** @param {Target} target @param {Element} anchor */
  tag(target, anchor) {
    askName(
      this.panel,
      {
        title: `Tag ${target.label}`,
        label: "Name",
        button: "Tag",
        go: (name) => this.#named(() => this.#act("tag", { name, at: target.id }, name)),
      },
      this.#from(anchor),
    );
  }

  /** The question itself says why a name was refused, so the strip need not. @param {() => Promise<string | null>} act */
  async #named(act) {
    const refused = await act();
    if (refused !== null) this.model.complain(null);
    return refused;
  }

  // Looking -------------------------------------------------------------------------------------------------------------

  /** Mark a commit; on a second one, compare the two. @param {Target} target */
  mark(target) {
    const { marked } = this.model;
    if (marked?.id === target.id) return this.model.mark(null);
    if (!marked) return this.model.mark({ id: target.id, label: target.label });
    this.compare(marked.id, target.id);
  }

  /** @param {Target} target */
  compareWithHead(target) {
    this.compare(target.id, "HEAD");
  }

  /** @param {string} a @param {string} b */
  compare(a, b) {
    if (this.model.marked) this.model.mark(null); // it was marked for this, or for something else before
    this.model.show({ kind: "compare", a, b, name: "" });
  }

  /** @param {Target} target */
  async copy(target) {
    const text = target.short;
    try {
      await navigator.clipboard.writeText(target.id);
      this.model.say({ text: `Copied ${text}.`, next: "" });
    } catch {
      // A page that is not served over https, or a frame without leave, has no clipboard: the whole id is there to be selected.
      this.model.say({ text: `This page may not write to the clipboard. The hash is ${target.id}`, next: "" });
    }
  }
}
