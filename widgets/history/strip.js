/**
 * One line about the whole panel, never more than one: what failed, what waits, that there is no kernel. And at the bottom
 * what was just done, with the way back.
 */

import { el, fill, prose } from "../shared/dom.js";
import { icon } from "../shared/icons.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { HistoryModel } from "./state.js" */
/** @typedef {{ cancel: () => void, verify: () => void, undo: () => void, redo: () => void }} StripDoings */

/** @type {Record<string, string>} */
const NAMES = {
  checkout: "Check out of", rollback: "Roll back to", switch: "Switch to", merge: "Merge of", branch: "New branch", undo: "Undo", redo: "Redo",
  commit_now: "Commit", verify: "Check of the store",
};
/** @type {Record<string, string>} */
const CANCEL = { checkout: "Cancel check out", rollback: "Cancel roll back", switch: "Cancel switch", merge: "Cancel merge" };

/** "Check out of [7]". @param {string} op @param {string} label */
export function actName(op, label) {
  return [NAMES[op] ?? op, label].filter(Boolean).join(" ");
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
    const key = JSON.stringify([problem, state.queued, state.busy, state.kernel, state.gone, this.model.canAct]);
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
    if (model.phase !== "loading" && !model.canAct) return ["calm", this.#noKernel()];
    return ["none", []];
  }

  /** @param {{ text: string, code: string }} problem */
  #problem(problem) {
    const check = problem.code === "damaged" && this.model.canAct;
    return [icon("close"), el("span", {}, ...prose(problem.text)), el("span", { class: "ak-sp" }),
      check ? el("button", { class: "ak-b", type: "button", onclick: this.doings.verify }, "Check the store") : null,
      el("button", { class: "ak-b ak-quiet ak-icon", type: "button", "aria-label": "Dismiss", title: "Dismiss", onclick: () => this.model.complain(null) }, icon("close"))];
  }

  /** @param {{ op: string, label: string }} queued */
  #queue({ op, label }) {
    const { busy } = this.model.state;
    const text = `${busy ? `Cell ${busy}` : "A cell"} is running. ${actName(op, label)} starts when it ends.`;
    return [el("span", { class: "ak-spin", "aria-hidden": "true" }), el("span", {}, ...prose(text)), el("span", { class: "ak-sp" }),
      el("button", { class: "ak-b", type: "button", onclick: this.doings.cancel }, CANCEL[op] ?? "Cancel")];
  }

  #noKernel() {
    const { host, state } = this.model;
    const text = state.gone ?? "No kernel. You can look, search and compare; checking out needs one.";
    const start = !state.kernel && !state.gone && host.startKernel;
    return [icon("plug"), el("span", {}, text), el("span", { class: "ak-sp" }),
      start ? el("button", { class: "ak-b", type: "button", onclick: () => start.call(host) }, "Start kernel") : null];
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
    const next = toast.next === "undo" ? ["Undo", this.doings.undo] : toast.next === "redo" ? ["Redo", this.doings.redo] : null;
    fill(this.element, el("span", { class: "ak-add" }, icon("ok")), el("span", {}, ...prose(toast.text)), el("span", { class: "ak-sp" }),
      next && this.model.canAct ? el("button", { class: "ak-b", type: "button", onclick: next[1] }, String(next[0])) : null,
      el("button", { class: "ak-b ak-quiet ak-icon", type: "button", "aria-label": "Dismiss", title: "Dismiss", onclick: () => this.model.say(null) }, icon("close")));
  }
}
