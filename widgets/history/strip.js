/**
 * One line about the whole panel, never more than one: what failed, what waits, that there is no kernel. And at the bottom
 * what was just done, with the way back.
 */

import { iconButton, textButton } from "../shared/buttons.js";
import { el, fill, prose } from "../shared/dom.js";
import { icon } from "../shared/icons.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { HistoryModel } from "./state.js" */
/** @typedef {{ cancel: () => void, verify: () => void, undo: () => void, redo: () => void }} StripDoings */

/** @type {Record<string, string>} */
const NAMES = {
  checkout: "Check out of",
  rollback: "Roll back to",
  switch: "Switch to",
  merge: "Merge of",
  cherry_pick: "Cherry-pick of",
  branch: "New branch",
  undo: "Undo",
  redo: "Redo",
  commit_now: "Commit",
  verify: "Check of the store",
  decide: "The decision on",
  resume: "",
  pick: "Pick of",
};
/** @type {Record<string, string>} */
const CANCEL = {
  checkout: "Cancel check out",
  rollback: "Cancel roll back",
  switch: "Cancel switch",
  merge: "Cancel merge",
};

/** "Check out of [7]". @param {string} op @param {string} label */
export function actName(op, label) {
  const said = [NAMES[op] ?? op, label].filter(Boolean).join(" ");
  return said.slice(0, 1).toUpperCase() + said.slice(1);
}

export class Strip {
  /** @param {HistoryModel} model @param {StripDoings} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.element = el("div", { class: "ak-strip", hidden: true });
    this.key = "";
    model.on(["state", "head"], () => this.draw());
  }

  draw() {
    const { problem, state } = this.model;
    const key = JSON.stringify([
      problem,
      this.model.head !== null,
      state.queued,
      state.busy,
      state.kernel,
      state.gone,
      this.model.canAct,
    ]);
    if (key === this.key) return;
    this.key = key;
    const [kind, children] = this.#content();
    this.element.className = `ak-strip${kind === "bad" ? " ak-bad-strip" : ""}`;
    this.element.setAttribute("role", kind === "bad" ? "alert" : "status");
    this.element.hidden = kind === "none";
    fill(this.element, ...children);
  }

  /** @returns {["bad" | "calm" | "none", Child[]]} */
  #content() {
    const { model } = this;
    const { problem, state } = model;
    if (problem) return ["bad", this.#problem(problem)];
    if (state.queued) return ["calm", this.#queue(state.queued)];
    if (model.head && !model.canAct) return ["calm", this.#noKernel()];
    return ["none", []];
  }

  /** @param {{ text: string, code: string }} problem */
  #problem(problem) {
    const check = problem.code === "damaged" && this.model.canAct;
    return [
      icon("close"),
      el("span", { class: "ak-strip-text" }, ...prose(problem.text)),
      el("span", { class: "ak-sp" }),
      check ? textButton("Check the store", this.doings.verify) : null,
      iconButton("close", "Dismiss", "Dismiss", () => this.model.complain(null)),
    ];
  }

  /** @param {{ op: string, label: string }} queued */
  #queue({ op, label }) {
    const { busy } = this.model.state;
    const text = `${busy ? `Cell ${busy}` : "A cell"} is running. ${actName(op, label)} starts when it ends.`;
    return [
      el("span", { class: "ak-spin", "aria-hidden": "true" }),
      el("span", { class: "ak-strip-text" }, ...prose(text)),
      el("span", { class: "ak-sp" }),
      textButton(CANCEL[op] ?? "Cancel", this.doings.cancel),
    ];
  }

  #noKernel() {
    const { host, state } = this.model;
    const text = state.gone ?? "No kernel. You can look, search and compare; checking out needs one.";
    const start = !state.kernel && !state.gone && host.startKernel;
    return [
      icon("plug"),
      el("span", { class: "ak-strip-text" }, text),
      el("span", { class: "ak-sp" }),
      start ? textButton("Start kernel", () => start.call(host)) : null,
    ];
  }
}

export class ToastLine {
  /** @param {HistoryModel} model @param {StripDoings} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.element = el("div", { class: "ak-toast", role: "status" });
    model.on(["toast"], () => this.draw());
    this.draw();
  }

  draw() {
    const { toast } = this.model;
    this.element.classList.toggle("ak-none", !toast);
    if (!toast) return fill(this.element);
    const { canAct } = this.model;
    fill(
      this.element,
      el("span", { class: "ak-add" }, icon("ok")),
      el("span", {}, ...prose(toast.text)),
      el("span", { class: "ak-sp" }),
      canAct && toast.next === "undo" ? textButton("Undo", this.doings.undo) : null,
      canAct && toast.next === "redo" ? textButton("Redo", this.doings.redo) : null,
      iconButton("close", "Dismiss", "Dismiss", () => this.model.say(null)),
    );
  }
}
