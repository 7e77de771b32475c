/**
 * The question before an act: what it would change, what it cannot bring back, and one button.
 *
 * Nothing is lost either way, so there is no red button and no "Are you sure". The numbers come first, then the names.
 */

import { errorText, textButton } from "../shared/buttons.js";
import { el, fill, freshId, prose, spoken } from "../shared/dom.js";
import { SIGNS, asSentence, bytes, nameList, plural } from "../shared/format.js";
import { floatOver } from "../shared/popover.js";
import { changedCells, isOfAnother } from "./cells.js";

/** @import { Host, NotebookPage, Plan, Sign } from "./protocol.js" */
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
 * @property {(what: What, page: NotebookPage | null) => void} go
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
    this.chosen = question.cells ? options() : null;
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

  /** @returns {Promise<[Plan | null, NotebookPage | null]>} */
  #found() {
    const { op, to, cells } = this.question;
    const { transport } = this.model;
    if (to === null) return Promise.resolve([null, null]);
    return Promise.all([transport.ask("plan", { op, to }), cells ? transport.ask("cells", { id: to }) : null]);
  }

  /** @param {Plan | null} plan @param {NotebookPage | null} page */
  #say(plan, page) {
    const { chosen, parts, question } = this;
    const { host } = this.model;
    const notes = plan && question.notes !== false ? plan.notes : [];
    fill(
      parts.body,
      plan ? planRows(plan, question.cells ? notebookRow(page, plan, host) : null) : el("p", {}, "It made the first commit: what it made goes."),
      ...notes.map((note) => el("p", {}, ...prose(note))),
      page ? chosen?.element : null,
    );
    fill(parts.loads, plan?.loads ? `loads ${bytes(plan.loads)}` : "");
    fill(parts.go, plan?.conflicts.length ? "Choose…" : question.button);
    parts.go.hidden = false;
    const what = () => (page && chosen?.what()) || "variables";
    this.#offer(() => (plan?.conflicts.length ? question.resolve?.() : question.go(what(), page)));
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
    this.floating.close();
    act();
  }
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

/** @param {Plan} plan @param {Child} notebook */
function planRows(plan, notebook) {
  /** @param {Sign} sign @param {string} word @param {string[]} names */
  const row = (sign, word, names) =>
    names.length
      ? [
          el(
            "dt",
            {},
            el("span", { class: `ak-sg ${SIGNS[sign].kind}`, "aria-hidden": "true" }, SIGNS[sign].glyph),
            `${word} ${names.length}`,
          ),
          el("dd", { class: "ak-mono" }, nameList(names)),
        ]
      : [];
  const cannot = plan.cannot.map((gap, at) => [
    el(
      "dt",
      {},
      el("span", { class: "ak-sg ak-chg", "aria-hidden": "true" }, "!"),
      at ? spoken("Can't restore") : "Can't restore",
    ),
    el("dd", {}, ...cannotText(gap)),
  ]);
  const conflicts = plan.conflicts.map((conflict) => conflict.name);
  const rows = [
    ...row("~", "Changes", plan.changes),
    ...row("+", "Adds", plan.adds),
    ...row("-", "Removes", plan.removes),
    ...row("!", "Conflicts", conflicts),
    ...cannot.flat(),
    ...(notebook ? [el("dt", {}, "Notebook"), el("dd", {}, notebook)] : []),
  ];
  return rows.length ? el("dl", {}, ...rows) : el("p", {}, "No variable changes.");
}

/** @param {Plan["cannot"][number]} gap @returns {Child[]} */
function cannotText(gap) {
  const stays = gap.stays ? " The one open now stays" : "";
  const remedy = gap.remedy.replace(/\.$/, "");
  const rest = stays ? `${stays}${remedy ? `; ${remedy}` : ""}.` : asSentence(remedy);
  return [el("span", { class: "ak-mono" }, gap.name), ...prose(`, ${gap.reason.replace(/\.$/, "")}.${rest}`)];
}

/** What becomes of the cells. @param {NotebookPage | null} page @param {Plan} plan @param {Host} host @returns {Child} */
function notebookRow(page, plan, host) {
  if (!page) return "its cells were not stored with this commit, and stay";
  const now = host.restoreCells ? (host.cells?.() ?? null) : null;
  if (!now || isOfAnother(now, page))
    return el(
      "span",
      {},
      now ? "these are another notebook's cells, and go to " : "its cells go to ",
      el("span", { class: "ak-mono" }, fileName(page, plan.to.short)),
      ", beside it",
    );
  const { n, prompts } = changedCells(now, page);
  if (!n) return "no cell will change";
  return el(
    "span",
    {},
    ...prose(`${plural(n, "cell")} will change${prompts.length ? `: ${nameList(prompts, 6)}` : ""}`),
  );
}

/** @param {NotebookPage} page @param {string} short */
function fileName(page, short) {
  return `${(page.name.split("/").pop() ?? "").replace(/\.ipynb$/, "")}@${short}.ipynb`;
}

function options() {
  const name = freshId("what");
  const inputs = WHATS.map(([value], at) => el("input", { type: "radio", name, value, checked: at === 0 }));
  const element = el(
    "fieldset",
    { class: "ak-opt" },
    el("legend", { class: "ak-vh" }, "What to bring back"),
    ...WHATS.map(([, label], at) => el("label", {}, inputs[at], el("span", { class: "ak-b" }, label))),
  );
  return { element, what: () => WHATS[inputs.findIndex((input) => input.checked)]?.[0] ?? "both" };
}
