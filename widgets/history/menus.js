/** The menus of the panel: of a row, of Compare…, of the branches, and the rest behind ⋯. What cannot be done is left out. */

import { errorText } from "../shared/buttons.js";
import { branchMark } from "./graph.js";
import { openMenu } from "./menu.js";

/** @import { Branch } from "./protocol.js" */
/** @import { Target } from "./detail-top.js" */
/** @import { Doings } from "./doings.js" */
/** @import { HistoryModel } from "./state.js" */

export class Menus {
  /** @param {HistoryModel} model @param {HTMLElement} panel @param {Doings} doings */
  constructor(model, panel, doings) {
    this.model = model;
    this.panel = panel;
    this.doings = doings;
  }

  /** @param {Target} target @param {HTMLElement} anchor @param {{ x: number, y: number }} [at] */
  menu(target, anchor, at) {
    const { canAct, head, marked } = this.model;
    const merges = target.branches.filter((name) => name !== head?.branch);
    const acts = canAct
      ? [
          { label: "Check out", key: "c", act: () => this.doings.checkout(target, anchor) },
          { label: "Roll back to here", key: "r", act: () => this.doings.rollback(target, anchor) },
          { label: "Branch from here…", key: "b", act: () => this.doings.branch(target, anchor) },
          { label: "Tag…", key: "t", act: () => this.doings.tag(target, anchor) },
          ...merges.map((name) => ({ label: `Merge ${name}…`, act: () => this.doings.merge(name, anchor) })),
        ]
      : [];
    const mark =
      marked?.id === target.id ? "Take the mark away" : marked ? `Compare with ${marked.label}` : "Mark to compare";
    const looks = [
      { label: mark, key: "d", act: () => this.doings.mark(target) },
      { label: "Compare with HEAD", key: "D", act: () => this.doings.compareWithHead(target) },
    ];
    openMenu(this.panel, [acts, looks, [{ label: "Copy hash", key: "y", act: () => void this.doings.copy(target) }]], {
      label: `Actions for ${target.label}`,
      role: "menu",
      anchor,
      back: this.doings.back(),
      ...(at ? { at } : {}),
    });
  }

  /** @param {Target} target @param {HTMLElement} anchor */
  compareMenu(target, anchor) {
    const { marked } = this.model;
    const other =
      marked && marked.id !== target.id
        ? [{ label: `Compare with ${marked.label}`, act: () => this.doings.compare(marked.id, target.id) }]
        : [];
    const mark = marked?.id === target.id ? "Take the mark away" : "Mark to compare";
    openMenu(
      this.panel,
      [
        [...other, { label: "Compare with HEAD", key: "D", act: () => this.doings.compareWithHead(target) }],
        [
          {
            label: mark,
            key: "d",
            act: () => this.model.mark(marked?.id === target.id ? null : { id: target.id, label: target.label }),
          },
        ],
      ],
      { label: `Compare ${target.label}`, role: "menu", anchor, back: this.doings.back() },
    );
  }

  /** @param {HTMLElement} anchor */
  async branches(anchor) {
    const branches = await this.#listBranches();
    if (!branches) return;
    const { head, canAct } = this.model;
    const here = head?.id
      ? { id: head.id, label: head.label, prompt: head.prompt, short: head.id.slice(0, 8), branches: [] }
      : null;
    const others = branches.filter((branch) => !branch.here);
    const more = canAct
      ? [
          ...(here ? [{ label: "New branch…", key: "b", act: () => this.doings.branch(here, anchor) }] : []),
          ...(others.length && head?.branch
            ? [{ label: `Merge into ${head.branch}…`, act: () => this.#mergeMenu(others, anchor) }]
            : []),
        ]
      : [];
    openMenu(
      this.panel,
      [branches.map((branch) => this.#branchItem(branch, () => this.#pickBranch(branch, anchor))), more],
      { label: "Branches", role: "listbox", anchor, back: this.doings.back(), wide: true },
    );
  }

  /** @param {Branch[]} others @param {HTMLElement} anchor */
  #mergeMenu(others, anchor) {
    openMenu(
      this.panel,
      [others.map((branch) => this.#branchItem(branch, () => this.doings.merge(branch.name, anchor)))],
      { label: "Merge a branch", role: "menu", anchor, back: this.doings.back(), wide: true },
    );
  }

  /** @param {Branch} branch @param {() => void} act */
  #branchItem(branch, act) {
    return {
      label: branch.name,
      note: branch.here ? "you are here" : branch.holder || branch.note,
      mark: branchMark(branch.lane, branch.here),
      selected: branch.here,
      act,
    };
  }

  /** @param {Branch} branch @param {HTMLElement} anchor */
  #pickBranch(branch, anchor) {
    if (branch.here || !this.model.canAct) void this.model.reveal(branch.id);
    else this.doings.switchTo(branch.name, anchor);
  }

  async #listBranches() {
    try {
      return await this.model.transport.ask("branches", {});
    } catch (error) {
      this.model.complain({ text: errorText(error), code: "failed" });
      return null;
    }
  }

  /** @param {HTMLElement} anchor @param {() => void} help */
  more(anchor, help) {
    const { canAct } = this.model;
    const acts = canAct
      ? [
          { label: "Redo", act: () => this.doings.redo() },
          { label: "Commit now", act: () => this.doings.commit() },
          { label: "Check the store", act: () => this.doings.verify() },
        ]
      : [];
    const marked = this.model.marked
      ? [{ label: `Take the mark of ${this.model.marked.label} away`, act: () => this.model.mark(null) }]
      : [];
    openMenu(
      this.panel,
      [
        acts,
        [...marked, { label: "Look again", act: () => void this.model.open() }, { label: "Keys", key: "?", act: help }],
      ],
      { label: "More", role: "menu", anchor, back: this.doings.back() },
    );
  }
}
