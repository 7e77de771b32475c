/** The toolbar: branch, search, filters, how many commits, where the reader is, undo, and the rest. */

import { iconButton } from "../shared/buttons.js";
import { el, fill, setAll } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { icon } from "../shared/icons.js";

/** @import { State } from "./protocol.js" */
/** @import { SearchField } from "./search.js" */
/** @import { HistoryModel } from "./state.js" */
/**
 * @typedef {object} ToolDoings
 * @property {(from: HTMLElement) => void} branches
 * @property {() => void} showHead
 * @property {(from: HTMLElement) => void} undo
 * @property {(from: HTMLElement) => void} more
 */

/** @type {["all" | "named" | "errors", string, string][]} */
const FILTERS = [
  ["all", "All", "Every commit"],
  ["named", "Named", "Tags, branch tips and messages"],
  ["errors", "Errors", "Failed and interrupted cells"],
];

/** What the button would take back now. @param {State["undo"]} undo */
function undoTitle(undo) {
  if (undo === null) return "There is nothing to undo";
  return `Undo ${undo ? undo.text : "the last cell, checkout or rollback"} (u)`;
}

export class Toolbar {
  /** @param {HistoryModel} model @param {SearchField} search @param {ToolDoings} doings */
  constructor(model, search, doings) {
    this.model = model;
    this.branchName = el("span", { class: "ak-text" });
    this.branch = el(
      "button",
      {
        class: "ak-b",
        type: "button",
        "aria-haspopup": "listbox",
        title: "Switch branch (g)",
        onclick: () => doings.branches(this.branch),
      },
      icon("branch"),
      this.branchName,
      icon("down"),
    );
    this.filters = FILTERS.map(([show, label, title]) =>
      el("button", { class: "ak-b", type: "button", title, onclick: () => model.search({ show }) }, label),
    );
    this.segments = el("span", { class: "ak-seg ak-wide", role: "group", "aria-label": "Show" }, ...this.filters);
    this.number = el("span", { class: "ak-count", role: "status" });
    this.headPrompt = el("span", { class: "ak-mono" });
    this.head = el(
      "button",
      {
        class: "ak-b ak-quiet ak-wide ak-where",
        type: "button",
        title: "Where you are. Show it (h)",
        onclick: doings.showHead,
      },
      icon("head"),
      this.headPrompt,
    );
    this.undo = iconButton("undo", "Undo", undoTitle(undefined), () => doings.undo(this.undo));
    this.more = iconButton("more", "More", "More", () => doings.more(this.more));
    this.more.setAttribute("aria-haspopup", "menu");
    this.space = el("span", { class: "ak-sp" });
    this.search = search;
    this.element = el(
      "div",
      { class: "ak-bar", role: "toolbar", "aria-label": "History" },
      this.branch,
      search.element,
      this.space,
      this.segments,
      this.number,
      this.head,
      this.undo,
      this.more,
    );
    model.on(["rows", "head", "query", "state"], () => this.draw());
  }

  draw() {
    const { model } = this;
    const empty = model.phase === "ready" && model.pages.commits === 0;
    const name = model.head ? (model.head.branch ?? "no branch") : "";
    this.branch.hidden = !model.head;
    this.branchName.textContent = name;
    this.branch.setAttribute("aria-label", `Branch: ${name}`);
    this.filters.forEach((button, at) =>
      button.setAttribute("aria-pressed", String(FILTERS[at]?.[0] === model.query.show)),
    );
    this.#count();
    const where = model.head?.prompt || model.head?.id?.slice(0, 8) || "";
    fill(this.headPrompt, where);
    setAll(this.head, { "aria-label": `${where}: where you are. Show it` });
    const nothing = empty || (model.phase === "failed" && !model.head);
    this.element.hidden = nothing && !model.head;
    for (const part of [this.search.element, this.segments, this.more]) part.hidden = nothing;
    this.space.hidden = !nothing;
    this.head.hidden = empty || !where;
    this.undo.hidden = empty || !model.head || !model.canAct;
    this.undo.disabled = model.state.undo === null;
    this.undo.title = undoTitle(model.state.undo);
  }

  #count() {
    const { model } = this;
    if (model.phase !== "ready" && !model.head) return fill(this.number);
    const narrowed = model.query.text !== "" || model.query.show !== "all";
    if (narrowed) return fill(this.number, `${count(model.pages.matches)} of ${count(model.pages.commits)}`);
    const { commits } = model.pages;
    fill(this.number, count(commits), el("span", { class: "ak-wide" }, commits === 1 ? " commit" : " commits"));
  }
}
