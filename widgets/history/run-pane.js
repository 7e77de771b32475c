/**
 * An agent's run in detail: its task, how it stands, what it took, what it asks, and in two tabs what it changed and its steps.
 *
 * It stands where the details of a commit stand, and what is done with it is done with the run's newest commit.
 */

import { failureNote, iconButton, textButton } from "../shared/buttons.js";
import { el, fill, prose } from "../shared/dom.js";
import { count, money, plural, stamp, took } from "../shared/format.js";
import { ApprovalCard } from "./approval.js";
import { changeLines } from "./changes.js";
import { RUN, targetOf } from "./detail-top.js";
import { QuestionCard } from "./question.js";
import { refLabel } from "./refs.js";
import { canGoOn, stateName } from "./row.js";
import { guard, hold } from "./stale.js";
import { Tabs } from "./tabs.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { Decision } from "./approval.js" */
/** @import { DetailDoings, Target } from "./detail-top.js" */
/** @import { RunDetails, RunStep, Stopped } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { Tab } from "./tabs.js" */
/**
 * @typedef {object} RunDoings
 * @property {(run: RunDetails, decision: Decision) => Promise<unknown>} decide
 * @property {(run: RunDetails, answer: string) => Promise<unknown>} answer
 * @property {(run: RunDetails) => Promise<unknown>} resume
 * @property {(id: string) => void} open a commit
 */

const OPEN_AT_FIRST = 3;
const NODES = { agent: "■", cell: "■", merge: "○", failed: "✕", interrupted: "⊖", denied: "⊘", running: "□" };

export class RunPane {
  /** @param {HistoryModel} model @param {DetailDoings} doings @param {RunDoings} runs */
  constructor(model, doings, runs) {
    this.model = model;
    this.doings = doings;
    this.runs = runs;
    this.turn = 0;
    this.version = "";
    this.going = ""; // the step that was decided about here, or the question that was answered
    this.wantsFocus = false;
    this.look = false; // whether it was drawn with what can be done
    /** @type {RunDetails | null} */
    this.shown = null;
    this.card = new ApprovalCard((decision) => void this.#decide(decision), (run) => void this.#resume(run));
    this.question = new QuestionCard((answer) => void this.#answer(answer));
    this.top = el("div", { class: "ak-dh" });
    this.body = el("div", { class: "ak-run" });
    this.tab = ""; // until one is picked: what it changed, or its steps where that is nothing
    /** @type {Map<string, boolean>} */
    this.open = new Map();
    this.tabs = new Tabs("Run", (key) => {
      this.tab = key;
    });
    this.element = el(
      "div",
      { class: "ak-detail", role: "region", "aria-label": "Run", hidden: true },
      this.top,
      this.body,
      this.tabs.bar,
      this.tabs.panel,
    );
    guard(this.element);
    model.on(["selected"], () => void this.load());
    model.on(["state"], () => this.#stateMoved());
    model.on(["head"], () => void this.#refresh());
  }

  get #id() {
    const { selected } = this.model;
    return selected?.startsWith(RUN) ? selected.slice(RUN.length) : "";
  }

  async load() {
    const turn = ++this.turn;
    const id = this.#id;
    this.element.hidden = !id;
    if (!id) return this.#clear();
    hold(this.element, this.shown?.id !== id);
    try {
      const run = await this.model.transport.ask("run", { id });
      if (turn === this.turn) this.#draw(run);
    } catch (error) {
      if (turn === this.turn) this.#failed(error);
    }
  }

  /** Nothing of it is to be seen for a moment, or pressed, as the next run is opened. */
  #clear() {
    this.shown = null;
    for (const part of [this.top, this.body, this.tabs.bar, this.tabs.panel]) fill(part);
  }

  #stateMoved() {
    if (this.shown) this.#draw(this.shown);
  }

  async #refresh() {
    const { shown } = this;
    const isToCheck = shown?.stopped && !shown.stopped.checked; // the kernel was busy, and the list was asked for anew since it is free
    if (shown && (isToCheck || this.version !== this.model.pages.version)) await this.load();
  }

  /** The step that waits is to be looked at: the keyboard goes to its card. */
  focusWhenDrawn() {
    this.wantsFocus = true;
  }

  /** @param {RunDetails} run */
  #draw(run) {
    const other = run.id !== this.shown?.id;
    if (!run.asks && !run.question) this.going = "";
    const same = JSON.stringify(run) === JSON.stringify(this.shown);
    if (!other && run.asks?.step !== this.shown?.asks?.step) this.going = "";
    this.shown = run;
    this.version = this.model.pages.version;
    const { canAct, state } = this.model;
    const queued = state.queued?.op === "decide" ? "A cell is running. The step runs when it ends." : "";
    const answered = state.queued?.op === "resume" ? "A cell is running. The agent has your answer when it ends." : "";
    this.card.show(run, { now: this.model.now(), canAct, waits: queued, step: run.asks?.step ?? 0, isGoing: this.going === `${run.id} ${run.asks?.step}` });
    if (run.question) this.question.show(run, { now: this.model.now(), canAct, waits: answered, number: run.questions.length, isGoing: this.going === answers(run) });
    if (same && this.look === canAct) return this.#focus();
    this.look = canAct;
    fill(this.top, ...this.#topLine(run, canAct));
    fill(this.body, ...this.#bodyLines(run));
    void this.tabs.show(this.#tabList(run), this.tab || (run.changed.length ? "changes" : "steps"));
    hold(this.element, false);
    this.element.setAttribute("aria-label", `Run of ${run.author.name}`);
    if (other) this.element.scrollTop = 0;
    this.#focus();
  }

  #focus() {
    if (!this.wantsFocus || !this.shown) return;
    this.wantsFocus = false;
    const to = this.shown.asks ? this.card.element : this.element.querySelector(".ak-run input, .ak-dh button");
    if (to instanceof HTMLElement) to.focus({ preventScroll: true });
    if (this.shown.asks) this.card.element.scrollIntoView?.({ block: "nearest" });
  }

  /** @param {RunDetails} run @param {boolean} canAct @returns {Child[]} */
  #topLine(run, canAct) {
    const [title = ""] = run.task.trim().split("\n");
    const { doings } = this;
    const target = run.tip ? targetOf({ id: run.tip, short: run.tip.slice(0, 8), prompt: run.prompt, subject: title, refs: run.refs }) : null;
    /** @param {(target: Target, from: HTMLElement) => void} act */
    const press = (act) => (/** @type {MouseEvent} */ event) => target && act(target, /** @type {HTMLElement} */ (event.currentTarget));
    const isGoing = this.going === `${run.id} resumed ${run.stopped?.at}`;
    const mayResume = canAct && canGoOn(run.stopped) && !isGoing;
    const acts = el(
      "span",
      { class: "ak-acts" },
      mayResume ? textButton("Resume", () => void this.#resume(run), "ak-main") : null,
      canAct && target ? textButton("Check out", press(doings.checkout), run.asks || run.question || mayResume ? "" : "ak-main") : null,
      canAct && target ? textButton("Branch", press(doings.branch), "ak-roomy") : null,
      canAct && target ? textButton("Tag", press(doings.tag), "ak-roomy") : null,
      target ? textButton("Compare…", press(doings.compare)) : null,
    );
    return [
      iconButton("left", "Back to the list", "Back (Esc)", doings.close, "ak-back"),
      el("h4", { title: run.task }, title || `Run ${run.short}`),
      acts,
      iconButton("close", "Close details", "Close (Esc)", doings.close, "ak-shut"),
      this.#meta(run),
    ];
  }

  /** @param {RunDetails} run */
  #meta(run) {
    const { stopped } = run;
    const bad = run.status === "failed" && !stopped;
    const open = run.status !== "completed" && !bad;
    return el(
      "div",
      { class: "ak-meta" },
      el("span", {}, el("span", { class: "ak-roomy-text" }, "Run"), run.prompt ? el("code", {}, run.prompt) : null),
      el("span", {}, run.author.name),
      el("span", { class: bad ? "ak-del" : open ? "ak-chg" : "" }, stopped ? "stopped" : stateName(run.status)),
      el("span", {}, plural(run.n_steps, "step")),
      el("span", {}, `${count(run.tokens)} tokens`),
      run.cost === null ? null : el("span", {}, money(run.cost)),
      el("span", {}, el("span", { class: "ak-roomy-text" }, "took"), took(run.took_s)),
      el("span", { class: "ak-roomy-text" }, stamp(run.time_ms, this.model.now())),
      run.model ? el("span", { class: "ak-roomy-text" }, run.model) : null,
      ...run.refs.map(refLabel),
      ...(stopped ? stoppedLines(stopped) : []),
      run.reason && !stopped ? el("p", { class: `ak-derr ${bad ? "ak-del" : "ak-muted"}` }, run.reason) : null,
      run.result ? el("p", { class: "ak-derr" }, "Returned ", el("code", {}, run.result)) : null,
    );
  }

  /** @param {RunDetails} run @returns {Child[]} */
  #bodyLines(run) {
    const rest = run.task.trim().split("\n").slice(1).join("\n").trim();
    return [
      rest ? el("p", { class: "ak-task" }, rest) : null,
      run.asks ? this.card.element : null,
      run.question ? this.question.element : null,
    ];
  }

  /** @param {RunDetails} run @returns {Tab[]} */
  #tabList(run) {
    return [
      { key: "changes", label: [`Changes ${count(run.changed.length)}`], show: () => this.#changes(run) },
      { key: "steps", label: [`Steps ${count(run.steps.length)}`], show: async () => this.#steps(run) },
    ];
  }

  /** What all its steps changed together, and nothing that somebody else changed between them. @param {RunDetails} run @returns {Promise<Child[]>} */
  async #changes(run) {
    const { transport } = this.model;
    const none = [el("p", { class: "ak-nothing" }, "No variable changed.")];
    if (!run.tip || !run.changed.length) return none;
    const at = { id: run.tip, against: run.base };
    const details = await transport.ask("commit", at);
    const its = new Set(run.changed);
    const lines = changeLines(details.changes.filter((change) => its.has(change.name)), details.more_changes, details.unsaved, {
      ask: (name) => transport.ask("variable", { ...at, name }),
      open: this.open,
      first: OPEN_AT_FIRST,
    });
    return lines.length ? lines : none;
  }

  /** @param {RunDetails} run @returns {Child[]} */
  #steps(run) {
    if (!run.steps.length) return [el("p", { class: "ak-nothing" }, "No step has run yet.")];
    return [el("div", { class: "ak-stepped", role: "list" }, ...run.steps.map((step) => this.#step(step)))];
  }

  /** @param {RunStep} step */
  #step(step) {
    const bad = step.node === "failed" || step.node === "denied";
    const line = [
      el("span", { class: "ak-n" }, step.prompt),
      el("span", { class: `ak-node ${bad ? "ak-del" : ""}`, "aria-hidden": "true" }, NODES[step.node]),
      step.is_code ? el("code", { title: step.subject }, step.subject) : el("span", { class: "ak-msg" }, step.subject),
      step.why ? el("span", { class: `ak-why ${bad ? "ak-del" : "ak-chg"}` }, step.why) : null,
      el("span", { class: "ak-d" }, step.took_s === null ? "" : took(step.took_s)),
    ];
    const { id } = step;
    const node = id ? el("button", { type: "button", class: "ak-step-line", onclick: () => this.runs.open(id) }, ...line) : el("span", { class: "ak-step-line" }, ...line);
    return el("div", { role: "listitem" }, node);
  }

  /** @param {RunDetails} run */
  async #resume(run) {
    this.going = `${run.id} resumed ${run.stopped?.at}`;
    fill(this.top, ...this.#topLine(run, this.model.canAct));
    const refused = await this.runs.resume(run);
    if (refused !== null) this.going = "";
    await this.load();
  }

  /** @param {string} answer */
  async #answer(answer) {
    const run = this.shown;
    if (!run?.question) return;
    this.going = answers(run);
    this.#draw(run);
    const refused = await this.runs.answer(run, answer);
    if (refused !== null) this.going = "";
    await this.load();
  }

  /** @param {Decision} decision */
  async #decide(decision) {
    const run = this.shown;
    if (!run?.asks) return;
    this.going = `${run.id} ${run.asks.step}`;
    this.#draw(run);
    const refused = await this.runs.decide(run, decision);
    if (refused !== null) this.going = "";
    await this.load();
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#clear();
    hold(this.element, false);
    const note = failureNote(error, () => void this.load());
    note.append(" ", textButton("Close", this.doings.close));
    fill(this.top, note);
  }
}

/** Where it stopped, and why it does not go on here. @param {Stopped} stopped @returns {Child[]} */
function stoppedLines({ said, code, refused }) {
  const big = (/** @type {string} */ text) => text.slice(0, 1).toUpperCase() + text.slice(1);
  return [
    el("p", { class: "ak-rests ak-chg" }, big(said), code ? ". Code of the step: " : ".", code ? el("code", {}, code) : null),
    refused ? el("p", { class: "ak-rests" }, ...prose(`You cannot resume it here. ${big(refused)}.`)) : null,
  ];
}

/** What stands for the question that waits. @param {RunDetails} run */
function answers(run) {
  return `${run.id} question ${run.questions.length}`;
}
