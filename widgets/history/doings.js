/**
 * What can be done from the panel, each with its question first and its way back after.
 *
 * The kernel does the acts; while a cell runs it queues one. Bringing back the notebook's cells is the one thing that only
 * the place around the panel can do: where it cannot, the same cells are written to a file beside the notebook.
 */

import { el } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { branchMark } from "./graph.js";
import { openMenu } from "./menu.js";
import { askName } from "./naming.js";
import { askFirst, changedCells } from "./plan.js";
import { actName } from "./strip.js";

/** @import { Acts, Branch, Conflicts, Done, NotebookPage, Queued } from "./protocol.js" */
/** @import { Target } from "./details.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { What } from "./plan.js" */

export class Doings {
  /** @param {HistoryModel} model @param {HTMLElement} panel @param {() => HTMLElement} back what has the focus afterwards */
  constructor(model, panel, back) {
    this.model = model;
    this.panel = panel;
    this.back = back;
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
    try {
      const answer = /** @type {Done | Queued | Conflicts} */ (await model.transport.act(op, args));
      if ("queued" in answer) this.#queued(answer, after);
      else if ("conflicts" in answer) model.show({ kind: "conflicts", branch: answer.branch });
      else this.#done(op, answer, after);
      return null;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && "code" in error ? String(error.code) : "failed";
      model.complain({ text: `${actName(op, label)} failed: ${message.replace(/([^.!?])$/, "$1.")}`, code });
      return message;
    }
  }

  /** @param {Queued} answer @param {((done: Done) => void) | undefined} after */
  #queued(answer, after) {
    this.model.waiting = after ?? null;
    this.model.takeState({ ...this.model.state, queued: answer.queued });
  }

  /** @param {keyof Acts} op @param {Done} done @param {((done: Done) => void) | undefined} after */
  #done(op, done, after) {
    const { model } = this;
    if (op !== "write_notebook") model.head = done.head;
    model.say({ text: [done.done, ...done.notes].join(" "), next: done.undo ? "undo" : op === "undo" ? "redo" : "" });
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
    const go = (/** @type {What} */ what, /** @type {NotebookPage | null} */ page) => {
      if (what === "code") return void this.#bringCode(target, page);
      void this.#act(op, { to: target.id, what }, target.label, (done) => this.#bringCells(target, done));
    };
    void askFirst(this.panel, this.model.transport, this.model.host, { op, to: target.id, title, button, cells: true, go }, this.#from(anchor));
  }

  /** @param {string} branch @param {Element} anchor */
  switchTo(branch, anchor) {
    const go = () => void this.#act("switch", { branch }, branch, (done) => this.#bringCells({ id: done.head.id ?? branch }, done));
    void askFirst(this.panel, this.model.transport, this.model.host, { op: "checkout", to: branch, title: `Switch to ${branch}?`, button: "Switch", cells: false, go }, this.#from(anchor));
  }

  /** @param {string} branch @param {Element} anchor */
  merge(branch, anchor) {
    const into = this.model.head?.branch ?? "what you have now";
    const go = () => void this.mergeWith(branch, [], []);
    const resolve = () => this.model.show({ kind: "conflicts", branch });
    void askFirst(this.panel, this.model.transport, this.model.host, { op: "merge", to: branch, title: `Merge ${branch} into ${into}?`, button: "Merge", cells: false, go, resolve }, this.#from(anchor));
  }

  /** @param {string} branch @param {string[]} ours @param {string[]} theirs */
  mergeWith(branch, ours, theirs) {
    return this.#act("merge", { branch, ours, theirs }, branch);
  }

  undo() {
    if (this.model.canAct) void this.#act("undo", {}, "", (done) => this.#bringCells({ id: done.head.id ?? "" }, done));
  }

  redo() {
    if (this.model.canAct) void this.#act("redo", {}, "", (done) => this.#bringCells({ id: done.head.id ?? "" }, done));
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

  // The notebook's cells ------------------------------------------------------------------------------------------------

  /** @param {{ id: string }} target @param {Done} done */
  #bringCells(target, done) {
    if (done.cells && !this.#restore(done.cells)) void this.#writeNotebook(target);
  }

  /** @param {NotebookPage} page */
  #restore(page) {
    return this.model.host.restoreCells?.(page) ?? false;
  }

  /** @param {{ id: string }} target */
  async #writeNotebook(target) {
    const before = this.model.toast;
    try {
      const { done } = await this.model.transport.act("write_notebook", { id: target.id });
      this.model.say({ text: [before?.text, done].filter(Boolean).join(" "), next: before?.next ?? "" });
    } catch (error) {
      this.model.complain({ text: `The notebook's cells could not be written: ${error instanceof Error ? error.message : error}`, code: "failed" });
    }
  }

  /** @param {Target} target @param {NotebookPage | null} page */
  async #bringCode(target, page) {
    if (!page) return;
    const n = changedCells(this.model.host.cells?.() ?? [], page).n;
    this.model.say(null);
    if (!this.#restore(page)) return this.#writeNotebook(target);
    this.model.say({ text: `Brought back the code of ${target.label}: ${plural(n, "cell")} changed. The notebook's own Undo takes it back.`, next: "" });
  }

  // Names ---------------------------------------------------------------------------------------------------------------

  /** @param {Target} target @param {Element} anchor */
  branch(target, anchor) {
    askName(this.panel, {
      title: `Branch from ${target.label}`, label: "Name", button: "Create branch", option: "Switch to it",
      go: (name, go) => this.#named(() => this.#act("branch", { name, at: target.id, go }, name)),
    }, this.#from(anchor));
  }

  /** @param {Target} target @param {Element} anchor */
  tag(target, anchor) {
    askName(this.panel, {
      title: `Tag ${target.label}`, label: "Name", button: "Tag",
      go: (name) => this.#named(() => this.#act("tag", { name, at: target.id }, name)),
    }, this.#from(anchor));
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

  // Menus ---------------------------------------------------------------------------------------------------------------

  /** @param {Target} target @param {HTMLElement} anchor @param {{ x: number, y: number }} [at] */
  menu(target, anchor, at) {
    const { canAct, head, marked } = this.model;
    const merges = target.branches.filter((name) => name !== head?.branch);
    const acts = canAct ? [
      { label: "Check out", key: "c", act: () => this.checkout(target, anchor) },
      { label: "Roll back to here", key: "r", act: () => this.rollback(target, anchor) },
      { label: "Branch from here…", key: "b", act: () => this.branch(target, anchor) },
      { label: "Tag…", key: "t", act: () => this.tag(target, anchor) },
      ...merges.map((name) => ({ label: `Merge ${name}…`, act: () => this.merge(name, anchor) })),
    ] : [];
    const mark = marked?.id === target.id ? "Take the mark away" : marked ? `Compare with ${marked.label}` : "Mark to compare";
    const looks = [{ label: mark, key: "d", act: () => this.mark(target) }, { label: "Compare with HEAD", key: "D", act: () => this.compareWithHead(target) }];
    openMenu(this.panel, [acts, looks, [{ label: "Copy hash", key: "y", act: () => void this.copy(target) }]],
      { label: `Actions for ${target.label}`, role: "menu", anchor, back: this.back(), align: "right", ...(at ? { at } : {}) });
  }

  /** @param {Target} target @param {HTMLElement} anchor */
  compareMenu(target, anchor) {
    const { marked } = this.model;
    const other = marked && marked.id !== target.id ? [{ label: `Compare with ${marked.label}`, act: () => this.compare(marked.id, target.id) }] : [];
    const mark = marked?.id === target.id ? "Take the mark away" : "Mark to compare";
    openMenu(this.panel, [[...other, { label: "Compare with HEAD", key: "D", act: () => this.compareWithHead(target) }],
      [{ label: mark, key: "d", act: () => this.model.mark(marked?.id === target.id ? null : { id: target.id, label: target.label }) }]],
      { label: `Compare ${target.label}`, role: "menu", anchor, back: this.back() });
  }

  /** @param {HTMLElement} anchor */
  async branches(anchor) {
    const branches = await this.#listBranches();
    if (!branches) return;
    const { head, canAct } = this.model;
    const here = head?.id ? { id: head.id, label: head.label, prompt: head.prompt, short: head.id.slice(0, 7), branches: [] } : null;
    const others = branches.filter((branch) => !branch.here);
    const more = canAct ? [
      ...(here ? [{ label: "New branch…", key: "b", act: () => this.branch(here, anchor) }] : []),
      ...(others.length && head?.branch ? [{ label: `Merge into ${head.branch}…`, act: () => this.#mergeMenu(others, anchor) }] : []),
    ] : [];
    openMenu(this.panel, [branches.map((branch) => this.#branchItem(branch, () => this.#pickBranch(branch, anchor))), more],
      { label: "Branches", role: "listbox", anchor, back: this.back(), wide: true });
  }

  /** @param {Branch[]} others @param {HTMLElement} anchor */
  #mergeMenu(others, anchor) {
    openMenu(this.panel, [others.map((branch) => this.#branchItem(branch, () => this.merge(branch.name, anchor)))],
      { label: "Merge a branch", role: "menu", anchor, back: this.back(), wide: true });
  }

  /** @param {Branch} branch @param {() => void} act */
  #branchItem(branch, act) {
    return { label: branch.name, note: branch.here ? "you are here" : branch.holder || branch.note, mark: branchMark(branch.lane, branch.here), selected: branch.here, act };
  }

  /** @param {Branch} branch @param {HTMLElement} anchor */
  #pickBranch(branch, anchor) {
    if (branch.here || !this.model.canAct) void this.model.reveal(branch.id);
    else this.switchTo(branch.name, anchor);
  }

  async #listBranches() {
    try {
      return await this.model.transport.ask("branches", {});
    } catch (error) {
      this.model.complain({ text: error instanceof Error ? error.message : String(error), code: "failed" });
      return null;
    }
  }

  /** @param {HTMLElement} anchor @param {() => void} help */
  more(anchor, help) {
    const { canAct } = this.model;
    const acts = canAct ? [
      { label: "Redo", act: () => this.redo() },
      { label: "Commit now", act: () => this.commit() },
      { label: "Check the store", act: () => this.verify() },
    ] : [];
    const marked = this.model.marked ? [{ label: `Take the mark of ${this.model.marked.label} away`, act: () => this.model.mark(null) }] : [];
    openMenu(this.panel, [acts, [...marked, { label: "Look again", act: () => void this.model.open() }, { label: "Keys", key: "?", act: help }]],
      { label: "More", role: "menu", anchor, back: this.back(), align: "right" });
  }

  /** A button in the page's own look. @param {"close" | "left"} name @param {string} label @param {string} title @param {() => void} act */
  static iconButton(name, label, title, act) {
    return el("button", { class: "ak-b ak-quiet ak-icon", type: "button", "aria-label": label, title, onclick: act }, icon(name));
  }
}
