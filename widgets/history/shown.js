/** What is open in the panel: a commit's details, a mark, another view; and what it says of what was done. */

import { Topics } from "./topics.js";

/** @typedef {"rows" | "active" | "selected" | "marked" | "head" | "state" | "query" | "toast" | "view" | "revealed"} Topic */
/**
 * @typedef {{ kind: "list" }
 *   | { kind: "compare", a: string, b: string, name: string }
 *   | { kind: "conflicts", branch: string, ours?: string[], theirs?: string[], message?: string, partial?: boolean, picks?: boolean }} View what stands in the panel
 */
/** @typedef {{ id: string, label: string }} Mark a commit that is marked to be compared */
/** @typedef {{ text: string, next: "undo" | "redo" | "", head?: string | null, of?: string }} Toast what was done, the way back, where HEAD was then, and which operation that takes back */

/** @extends {Topics<Topic>} */
export class Shown extends Topics {
  constructor() {
    super();
    /** @type {string | null} the commit whose details are open */
    this.selected = null;
    /** @type {Mark | null} */
    this.marked = null;
    /** @type {View} */
    this.view = { kind: "list" };
    /** @type {Toast | null} what an act did, until it is dismissed or the next cell runs */
    this.toast = null;
    /** @type {{ text: string, code: string } | null} why one could not be done */
    this.problem = null;
  }

  /** Open a commit's details, or close them. @param {string | null} id */
  select(id) {
    if (id === this.selected) return;
    this.selected = id;
    this.tell("selected");
  }

  /** @param {Mark | null} mark */
  mark(mark) {
    this.marked = mark;
    this.tell("marked");
  }

  /** @param {View} view */
  show(view) {
    this.view = view;
    this.tell("view");
  }

  /** Say what was done. @param {Toast | null} toast */
  say(toast) {
    this.toast = toast;
    this.tell("toast");
  }

  /** Say why something could not be done. @param {{ text: string, code: string } | null} problem */
  complain(problem) {
    this.problem = problem;
    this.tell("state");
  }
}
