/** What stands in place of the list when there is nothing to list: not yet, not found, not reached, still coming. */

import { textButton } from "../shared/buttons.js";
import { el, fill, svg } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { formsFor } from "../shared/tokens.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { HistoryModel } from "./state.js" */

const WAITING_ROWS = 6;

/** To whoever was sent a notebook, or copied it. */
export const COPIED = "A copied notebook leaves its history behind: copy the folder .agent-kernel/NAME as well.";

export class EmptyState {
  /** @param {HistoryModel} model @param {{ commit: () => void }} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.element = el("div", { class: "ak-empty" });
    model.on(["rows", "state"], () => this.draw());
    this.draw();
  }

  /** Something stands in place of the list. */
  get shown() {
    const { phase, total } = this.model;
    return phase === "failed" || !total;
  }

  draw() {
    // While another search is looked for, what stood here stays.
    if (this.model.phase === "loading" && this.model.head && this.shown) return;
    this.element.hidden = !this.shown;
    this.element.classList.toggle("ak-coming", this.model.phase === "loading");
    fill(this.element, ...(this.shown ? this.#content() : []));
  }

  /** @returns {Child[]} */
  #content() {
    const { model } = this;
    if (model.phase === "loading") {
      return [
        el("p", { class: "ak-vh", role: "status" }, "Loading the history"),
        ...Array.from({ length: WAITING_ROWS }, () =>
          el("div", { class: "ak-bone", "aria-hidden": "true" }, el("i"), el("i"), el("i")),
        ),
      ];
    }
    if (model.phase === "failed") {
      return [
        el("h4", {}, "The history could not be read"),
        el("p", { role: "alert" }, model.failure),
        textButton("Try again", () => void model.open()),
      ];
    }
    return model.pages.commits ? this.#noMatch() : this.#nothingYet();
  }

  #noMatch() {
    const { model } = this;
    const { text, show } = model.query;
    const clear = () => model.search({ text: "", show: "all" });
    if (!text) {
      return [
        el(
          "p",
          {},
          show === "errors" ? "No cell failed or was interrupted." : "No commit has a tag, a branch or a message.",
        ),
        textButton("Show all commits", clear),
      ];
    }
    return [
      el("p", {}, "No commit matches ", el("span", { class: "ak-mono" }, text), "."),
      ...formsFor(text).map((form) => el("p", { class: "ak-muted" }, form)),
      textButton("Clear search", clear),
    ];
  }

  #nothingYet() {
    const { model } = this;
    const commit =
      model.unsaved > 0 && model.canAct
        ? el(
            "button",
            { class: "ak-b", type: "button", onclick: this.doings.commit },
            `Commit the ${plural(model.unsaved, "variable")} you have now`,
          )
        : null;
    return [
      svg(
        "svg",
        { class: "ak-g ak-seed", viewBox: "0 0 24 40", "aria-hidden": "true" },
        svg("path", { class: "ak-l0 ak-dash", d: "M12 4v32" }),
        svg("circle", { class: "ak-l0 ak-hole", cx: 12, cy: 20, r: 5 }),
      ),
      el("h4", {}, "No history yet"),
      el("p", {}, "Run a cell. Every cell from here on becomes a commit of the variables it changed."),
      el("p", { class: "ak-muted" }, COPIED),
      commit,
    ];
  }
}
