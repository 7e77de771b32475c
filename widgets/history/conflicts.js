/**
 * A merge that cannot decide by itself: names that both sides changed.
 *
 * Each name shows both values, in a line each, and one of them is picked. Nothing is merged before every name has been
 * decided, and leaving the view leaves everything as it was. Where nothing is left to decide, the list stands there.
 */

import { failureNote, iconButton, textButton } from "../shared/buttons.js";
import { el, fill, freshId, prose } from "../shared/dom.js";
import { nameList, plural } from "../shared/format.js";
import { thumbnail } from "./faces.js";

/** @import { Conflict, Merge, Plan } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @typedef {"ours" | "theirs"} Pick */

export class ConflictsView {
  /** @param {HistoryModel} model @param {{ back: () => void, merge: (merge: Merge, picks: boolean) => Promise<string | null> }} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.turn = 0;
    /** @type {Map<string, Pick>} */
    this.picks = new Map();
    /** @type {Map<string, HTMLInputElement>} by pick and name */
    this.inputs = new Map();
    this.bar = el("div", { class: "ak-bar" });
    this.body = el("div", { class: "ak-conflicts-body" });
    this.said = el("span", { class: "ak-muted", role: "status" });
    this.go = textButton("Merge", () => void this.#merge(), "ak-main");
    this.foot = el("div", { class: "ak-foot" }, this.go, textButton("Cancel", doings.back), this.said);
    this.element = el(
      "div",
      { class: "ak-conflicts", role: "region", "aria-label": "Conflicts", hidden: true },
      this.bar,
      this.body,
      this.foot,
    );
    /** @type {Conflict[]} */
    this.conflicts = [];
    this.isOwed = false; // the kernel was busy when it was asked: with the cell that showed this, for one
    this.into = ""; // the branch that it was drawn for
    /** @type {Plan | null} */
    this.plan = null;
    model.on(["view"], () => void this.load());
    model.on(["head"], () => this.#headMoved());
    model.on(["state"], () => this.#stateMoved());
  }

  /** Where it was open at first, the panel comes to know its branch a little later. */
  #headMoved() {
    const { view } = this.model;
    if (view.kind !== "conflicts" || !this.plan || this.into === this.#ours) return;
    const { picks } = this;
    const of = (/** @type {Pick} */ pick) => [...picks].filter(([, other]) => other === pick).map(([name]) => name);
    this.#draw(this.plan, view.branch);
    this.#chosen(of("ours"), of("theirs"));
  }

  get #ours() {
    return this.model.head?.branch ?? "HEAD";
  }

  get #picks() {
    const { view } = this.model;
    return view.kind === "conflicts" && view.picks === true;
  }

  #stateMoved() {
    const { busy, gone } = this.model.state;
    if (this.isOwed && !busy && !gone) void this.load();
    else if (this.model.view.kind === "conflicts") this.#count();
  }

  async load() {
    const { view } = this.model;
    const turn = ++this.turn;
    // The list goes, and the focus must not go with it; where the panel had none, as under a cell, it takes none.
    const focus = this.element.parentElement?.contains(document.activeElement) ?? false;
    this.element.hidden = view.kind !== "conflicts";
    if (view.kind !== "conflicts") return;
    this.picks = new Map();
    this.plan = null;
    this.isOwed = false;
    try {
      const plan = await this.model.transport.ask("plan", { op: view.picks ? "cherry_pick" : "merge", to: view.branch });
      if (turn !== this.turn) return;
      if (!plan.conflicts.length) return this.doings.back();
      this.#draw(plan, view.branch);
      this.#chosen(view.ours ?? [], view.theirs ?? []);
      if (focus) this.#focus();
    } catch (error) {
      if (turn !== this.turn) return;
      this.isOwed = error instanceof Error && "code" in error && error.code === "busy";
      this.#drawBar(view.branch);
      fill(
        this.body,
        failureNote(error, () => void this.load()),
      );
      this.foot.hidden = true;
      if (focus) this.#focus();
    }
  }

  #focus() {
    const back = this.bar.querySelector("button");
    if (back instanceof HTMLElement) back.focus({ preventScroll: true });
  }

  /** @param {string} branch */
  #drawBar(branch) {
    const back = iconButton("left", "Back to the history", "Back (Esc)", this.doings.back);
    const had = this.bar.contains(document.activeElement);
    fill(
      this.bar,
      back,
      el("strong", {}, this.#picks ? `Cherry-pick ${branch} into ${this.#ours}` : `Merge ${branch} into ${this.#ours}`),
      el("span", { class: "ak-sp" }),
      el(
        "span",
        { class: "ak-count" },
        this.conflicts.length ? `${plural(this.conflicts.length, "variable")} changed on both sides` : "",
      ),
    );
    if (had) back.focus({ preventScroll: true });
  }

  /** @param {Plan} plan @param {string} branch */
  #draw(plan, branch) {
    this.conflicts = plan.conflicts;
    this.inputs = new Map();
    this.foot.hidden = false;
    this.#drawBar(branch);
    const ours = this.#ours;
    fill(this.go, this.#picks ? "Cherry-pick" : "Merge");
    this.plan = plan;
    this.into = ours;
    const rest = plan.changes.length + plan.adds.length + plan.removes.length;
    fill(
      this.body,
      el(
        "div",
        { class: "ak-cf ak-cf-head", "aria-hidden": "true" },
        el("span", {}, "Name"),
        el("span", {}, `${ours} (ours)`),
        el("span", {}, `${branch} (theirs)`),
      ),
      ...plan.conflicts.map((conflict) => this.#conflict(conflict, ours, branch)),
      ...[...plan.notes, rest ? `${plural(rest, "other variable")} merge${rest === 1 ? "s" : ""} without a question.` : ""]
        .filter(Boolean)
        .map((note) => el("p", { class: "ak-cf-rest ak-muted" }, ...prose(note))),
    );
    this.#count();
    for (const conflict of plan.conflicts) void this.#addPictures(conflict.name, plan.to.id, this.turn);
  }

  /** Of figures what they show, as a comparison has it. @param {string} name @param {string} theirs @param {number} turn */
  async #addPictures(name, theirs, turn) {
    const against = this.model.head?.id;
    if (!against) return;
    // What cannot be looked into keeps its line, which says what it is.
    const diff = await this.model.transport.ask("variable", { id: theirs, against, name }).catch(() => null);
    if (turn !== this.turn || diff?.face?.kind !== "pictures") return;
    const { before, after } = diff.face;
    for (const [pick, uri] of /** @type {const} */ ([["ours", before], ["theirs", after]])) {
      const value = this.inputs.get(`${pick} ${name}`)?.parentElement?.querySelector(".ak-choice-value");
      if (uri) value?.append(thumbnail(uri, `${name}, ${pick}`));
    }
  }

  /** @param {Conflict} conflict @param {string} ours @param {string} theirs */
  #conflict(conflict, ours, theirs) {
    const group = freshId("pick");
    const { together } = conflict;
    /** @param {Pick} pick @param {string} value @param {string} changed @param {string} words */
    const choice = (pick, value, changed, words) => {
      const input = el("input", {
        type: "radio",
        name: group,
        "aria-label": `${words} of ${conflict.name}: ${[value, changed].filter(Boolean).join(", ")}`,
        onchange: () => this.#pick(conflict, pick),
      });
      this.inputs.set(`${pick} ${conflict.name}`, input);
      return el(
        "label",
        { class: "ak-choice" },
        input,
        el("span", { class: "ak-choice-value ak-mono", title: value }, value),
        changed ? el("span", { class: "ak-choice-changed ak-mono", title: changed }, changed) : null,
        el("span", { class: "ak-choice-words" }, words),
      );
    };
    return el(
      "fieldset",
      { class: "ak-cf", "aria-label": conflict.name },
      el(
        "span",
        { class: "ak-nm", title: conflict.name },
        el("span", { class: "ak-sg ak-chg", "aria-hidden": "true" }, "!"),
        conflict.name,
        together.length ? el("span", { class: "ak-cf-with ak-muted" }, `with ${nameList(together, 3)}: they share objects`) : null,
      ),
      choice("ours", conflict.ours, conflict.ours_changed ?? "", `Keep ${ours}'s`),
      choice("theirs", conflict.theirs, conflict.theirs_changed ?? "", `Take ${theirs}'s`),
    );
  }

  /** What was chosen where the merge was asked for. @param {string[]} ours @param {string[]} theirs */
  #chosen(ours, theirs) {
    for (const conflict of this.conflicts) {
      const names = [conflict.name, conflict.name.replace(/\[.*/s, "")]; // of prices['tea'] also prices
      if (names.some((name) => ours.includes(name))) this.#pick(conflict, "ours");
      if (names.some((name) => theirs.includes(name))) this.#pick(conflict, "theirs");
    }
  }

  /** What shares objects comes from one side. @param {Conflict} conflict @param {Pick} pick */
  #pick({ name, together }, pick) {
    for (const one of [name, ...together]) {
      const input = this.inputs.get(`${pick} ${one}`);
      if (!input) continue;
      input.checked = true;
      this.picks.set(one, pick);
    }
    this.#count();
  }

  #count() {
    const left = this.conflicts.length - this.picks.size;
    const { canAct } = this.model;
    this.go.disabled = left > 0 || !canAct;
    fill(this.said, !canAct ? `${this.#picks ? "Cherry-picking" : "Merging"} needs a kernel.` : left ? `${plural(left, "variable")} still to decide` : `Undo takes the ${this.#picks ? "cherry-pick" : "merge"} back.`);
  }

  async #merge() {
    const { view } = this.model;
    if (view.kind !== "conflicts") return;
    const of = (/** @type {Pick} */ pick) =>
      this.conflicts.map(({ name }) => name).filter((name) => this.picks.get(name) === pick);
    this.go.disabled = true;
    const { branch, message, partial } = view;
    const more = { ...(message ? { message } : {}), ...(partial ? { partial } : {}) };
    const refused = await this.doings.merge({ branch, ours: of("ours"), theirs: of("theirs"), ...more }, this.#picks);
    if (refused === null) this.doings.back();
    else this.#count();
  }
}
