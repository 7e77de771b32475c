/**
 * The question before an act: what it would change, what it cannot bring back, and one button.
 *
 * Nothing is lost either way, so there is no red button and no "Are you sure". The numbers come first, then the names.
 */

import { errorText, textButton } from "../shared/buttons.js";
import { el, fill, freshId, prose } from "../shared/dom.js";
import { bytes } from "../shared/format.js";
import { floatOver } from "../shared/popover.js";
import { notebookRow, planRows, variableRows } from "./would.js";

/** @import { NotebookDocument, Plan } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { Child } from "../shared/dom.js" */
/** @typedef {"both" | "variables" | "code"} What what is brought back */
/**
 * @typedef {object} Question
 * @property {"checkout" | "rollback" | "merge"} op
 * @property {string | null} to null: before the first commit
 * @property {string} title "Check out [7]?"
 * @property {string} button "Check out"
 * @property {boolean} cells the notebook's cells can be brought back too
 * @property {(what: What, page: NotebookDocument | null) => void} go
 * @property {boolean} [notes] false: what a plan says of branches is not true of this act
 * @property {() => boolean} [isStale] the history has moved: what was asked is no question any more
 * @property {() => void} [resolve] names were changed on both sides: choose
 */

const WHATS = /** @type {const} */ ([
  ["both", "Variables and code"],
  ["variables", "Variables"],
  ["code", "Code"],
]);

/**
 * @param {HTMLElement} panel @param {HistoryModel} model @param {Question} question
 * @param {{ anchor: Element, back: HTMLElement }} from
 */
export function askFirst(panel, model, question, from) {
  new OpenQuestion(panel, model, question, from);
}

/** A question while it is open: what it says is worked out again whenever the history moves, as cells may run meanwhile. */
class OpenQuestion {
  /**
   * @param {HTMLElement} panel @param {HistoryModel} model @param {Question} question
   * @param {{ anchor: Element, back: HTMLElement }} from
   */
  constructor(panel, model, question, from) {
    this.model = model;
    this.question = question;
    this.parts = questionParts(question);
    this.turn = 0;
    this.version = model.state.version;
    /** Says again what would be done, when something else is chosen. */
    this.draw = () => {};
    /** What was said of the notebook's cells, and what is to be said of them now. */
    this.said = "";
    this.cellsNow = () => "";
    this.isAgain = false; // they had changed when it was to be done
    this.chosen = question.cells
      ? options(() => {
          this.draw();
          this.floating.place();
        })
      : null;
    /** @type {(() => void) | null} */
    this.act = null;
    const { cancel, go, pop } = this.parts;
    const stop = model.on(["state"], () => this.#moved());
    this.floating = floatOver(panel, pop, { anchor: from.anchor, back: from.back, focus: cancel, onClose: stop });
    cancel.addEventListener("click", () => this.floating.close());
    go.addEventListener("click", () => this.#go());
    void this.#work();
  }

  #moved() {
    const { version } = this.model.state;
    if (version === this.version) return;
    this.version = version;
    if (this.question.isStale?.()) this.floating.close();
    else void this.#work();
  }

  async #work() {
    const { question, parts } = this;
    const turn = ++this.turn;
    this.act = null;
    this.cellsNow = () => this.said; // nothing is said of them before there is an answer
    if (document.activeElement === parts.go) parts.cancel.focus({ preventScroll: true });
    parts.go.disabled = true;
    try {
      const found = await this.#found();
      if (turn === this.turn) this.#say(...found);
    } catch (error) {
      if (turn !== this.turn) return;
      const later = error instanceof Error && "code" in error && error.code === "busy";
      fill(parts.body, el("p", { role: later ? "status" : "alert" }, errorText(error)));
      parts.go.hidden = !later;
      // It waits for the running cell, and what it changed is said then.
      if (later) this.#offer(() => question.go(question.cells ? "both" : "variables", null));
    }
    this.floating.place();
  }

  /** @returns {Promise<[Plan | null, NotebookDocument | null]>} */
  #found() {
    const { op, to, cells } = this.question;
    const { transport } = this.model;
    if (to === null) return Promise.resolve([null, null]);
    return Promise.all([transport.ask("plan", { op, to }), cells ? transport.ask("cells", { id: to }) : null]);
  }

  /** @param {Plan | null} plan @param {NotebookDocument | null} page */
  #say(plan, page) {
    const { chosen, parts, question } = this;
    const would = el("div", { class: "ak-would" });
    fill(parts.body, would, page ? chosen?.element : null);
    this.isAgain = false;
    this.cellsNow = () => (page && plan && question.cells ? textOf(notebookRow(page, plan, this.model.host)) : "");
    this.draw = () => {
      this.said = this.cellsNow();
      const again = this.isAgain ? el("p", { role: "status" }, "The notebook has changed since you were asked.") : null;
      fill(would, ...this.#would(plan, page), again);
      fill(parts.loads, plan?.loads && this.#what(page) !== "code" ? `loads ${bytes(plan.loads)}` : "");
    };
    this.draw();
    fill(parts.go, plan?.conflicts.length ? "Choose…" : question.button);
    parts.go.hidden = false;
    this.#offer(() => (plan?.conflicts.length ? question.resolve?.() : question.go(this.#what(page), page)));
  }

  /** @param {NotebookDocument | null} page @returns {What} */
  #what(page) {
    return (page && this.chosen?.what()) || "variables";
  }

  /** What it would do of that which is chosen, and no more. @param {Plan | null} plan @param {NotebookDocument | null} page @returns {Child[]} */
  #would(plan, page) {
    const { question } = this;
    if (!plan) return [el("p", {}, "It made the first commit: what it made goes.")];
    const what = this.#what(page);
    const notebook = question.cells && (!page || what !== "variables") ? notebookRow(page, plan, this.model.host) : null;
    if (what === "code") return [planRows([], notebook), el("p", {}, "The variables stay as they are.")];
    const notes = question.notes === false ? [] : plan.notes;
    return [planRows(variableRows(plan), notebook), ...notes.map((note) => el("p", {}, ...prose(note)))];
  }

  /** @param {() => void} act */
  #offer(act) {
    const { cancel, go } = this.parts;
    this.act = act;
    go.disabled = false;
    if (document.activeElement === cancel) go.focus({ preventScroll: true });
  }

  #go() {
    const { act } = this;
    if (!act) return;
    // Somebody may have typed in the document since: other cells would be replaced than those that were told.
    this.isAgain = this.chosen?.what() !== "variables" && this.cellsNow() !== this.said;
    if (this.isAgain) {
      this.draw();
      this.floating.place();
      return;
    }
    this.floating.close();
    act();
  }
}

/** @param {Child} child */
function textOf(child) {
  return child instanceof Node ? (child.textContent ?? "") : String(child ?? "");
}

/** @param {Question} question */
function questionParts(question) {
  const title = el("h4", { id: freshId("question") }, ...prose(question.title));
  const body = el("div", { class: "ak-pop-body" }, el("p", { class: "ak-loading" }, "Working out what would change…"));
  const go = textButton(question.button, () => {}, "ak-main");
  const cancel = textButton("Cancel", () => {});
  const loads = el("span", { class: "ak-muted" });
  const foot = el("div", { class: "ak-foot" }, go, cancel, el("span", { class: "ak-sp" }), loads);
  const look = { class: "ak-pop", role: "dialog", "aria-modal": "true", "aria-labelledby": title.id };
  const pop = el("div", look, title, body, foot);
  go.disabled = true;
  // The one filled button is what Enter does, wherever in the question one is.
  pop.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
    event.preventDefault();
    go.click();
  });
  return { pop, body, go, cancel, loads };
}

/** @param {() => void} onchange */
function options(onchange) {
  const name = freshId("what");
  const inputs = WHATS.map(([value], at) => el("input", { type: "radio", name, value, checked: at === 0, onchange }));
  const element = el(
    "fieldset",
    { class: "ak-opt" },
    el("legend", { class: "ak-vh" }, "What to bring back"),
    ...WHATS.map(([, label], at) => el("label", {}, inputs[at], el("span", { class: "ak-b" }, label))),
  );
  return { element, what: () => WHATS[inputs.findIndex((input) => input.checked)]?.[0] ?? "both" };
}
