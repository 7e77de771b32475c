/**
 * The line under a cell that changed something: which commit it became, what that changed, and the ways on from it.
 *
 * It is drawn from what the kernel wrote into the output. Undo stands there only while the commit is where HEAD is and a
 * kernel can do it; Diff and History open the side panel, for which the server is enough.
 */

import { pinned } from "../history/pin.js";
import { el, fill, setAll } from "../shared/dom.js";
import { RUN } from "../history/detail-top.js";
import { SIGNS, bytes, count, money, plural, took } from "../shared/format.js";
import { keepKeys } from "../shared/shortcuts.js";

/** @import { Sign, State } from "../history/protocol.js" */
/** @import { MimeModel, WidgetClass } from "./jupyter.js" */
/** @import { Notebooks, OpenNotebook } from "./notebooks.js" */
/** @import { Child } from "../shared/dom.js" */
/** @typedef {{ commit: string, short: string, branch: string | null, author: { name: string, kind: string }, chips: [Sign, string, number][], more: number, unsaved: string, took_s: number | null, undo: boolean, run?: Run | null }} Line */
/** @typedef {{ id: string, said: string, bad: boolean, steps: number, tokens: number, cost: number | null }} Run an agent's run that ended so */
/** @typedef {(notebook: OpenNotebook, commit: string | null) => void} ShowSide null: the list */

export const FOOTER = "application/vnd.agent-kernel.footer.v1+json";

const LANES = 6; // colours; then they begin again
const SIZED = 1_000; // bytes; a smaller size says nothing beside a name

/**
 * @param {WidgetClass} Widget @param {() => Notebooks} notebooks @param {ShowSide} showSide
 */
export function footerLine(Widget, notebooks, showSide) {
  return class FooterLine extends Widget {
    constructor() {
      super();
      this.addClass("ak-under");
      keepKeys(this.node);
      /** @type {Line | null} */
      this.line = null;
      /** @type {OpenNotebook | null} */
      this.notebook = null;
      /** @type {(() => void) | null} */
      this.stop = null;
      this.said = "";
      this.isBad = false;
      this.isBusy = false;
    }

    /** @param {MimeModel} model */
    async renderModel(model) {
      this.line = model.data[FOOTER];
      setAll(this.node, { role: "group", "aria-label": `Commit ${this.line?.short ?? ""}` });
      this.#draw();
    }

    onAfterAttach() {
      const notebook = notebooks().around(this.node);
      if (!notebook) return;
      this.notebook = notebook;
      notebook.seen();
      this.stop ??= notebook.following.listen(() => this.#draw());
      this.#draw();
    }

    onBeforeDetach() {
      this.stop?.();
      this.stop = null;
    }

    dispose() {
      this.stop?.();
      super.dispose();
    }

    #draw() {
      const { line } = this;
      if (!line) return;
      const held = this.node.contains(document.activeElement) ? document.activeElement?.textContent : null;
      fill(this.node, ...this.#facts(line), el("span", { class: "ak-sp" }), ...this.#ways(line));
      if (!held) return;
      // Drawn anew under somebody's fingers: what they were on keeps the focus, or what stands there now.
      const buttons = [...this.node.querySelectorAll("button")];
      (buttons.find((button) => button.textContent === held) ?? buttons[0])?.focus();
    }

    /** @param {Line} line @returns {Child[]} */
    #facts(line) {
      if (this.said) return [el("span", { class: this.isBad ? "ak-bad" : "ak-fg", role: this.isBad ? "alert" : "status" }, this.said)];
      const lane = line.branch === null ? null : (this.notebook?.following.lanes.get(line.branch) ?? null);
      const isAgent = line.author.kind === "agent";
      if (line.run) return runFacts(line, line.run, lane);
      return [
        el("i", { class: `ak-dot${isAgent ? " ak-square" : ""}${lane === null ? "" : ` ak-l${lane % LANES}`}`, "aria-hidden": "true" }),
        el("span", { class: "ak-mono ak-whole" }, line.short),
        line.branch === null ? null : el("span", {}, line.branch),
        isAgent ? el("span", {}, line.author.name) : null,
        ...line.chips.map((chip, at) => chipOf(chip, at === 0)),
        line.more ? el("span", { class: "ak-mono" }, `${line.more} more`) : null,
        ...(line.unsaved ? unsavedOf(line.unsaved) : []),
        line.took_s === null ? null : el("span", {}, took(line.took_s)),
      ];
    }

    /** @param {Line} line @returns {Child[]} */
    #ways(line) {
      const { notebook } = this;
      if (!notebook) return [];
      const { following, transport } = notebook;
      const mayUndo = line.undo && !this.said && transport.canAct() && !following.isBusy && following.head === line.commit && undoesCell(transport.state());
      const hasHistory = transport.place !== null || transport.hasKernel;
      return [
        mayUndo && line.run ? this.#button("Undo run", "Undo all steps: the variables are as they were before the run", () => void this.#undo(notebook, line)) : null,
        mayUndo && !line.run ? this.#button("Undo", "Undo this cell: the variables are as they were", () => void this.#undo(notebook, line)) : null,
        hasHistory && line.chips.length ? this.#button("Diff", "What this cell changed", () => showSide(notebook, line.commit)) : null,
        hasHistory ? this.#button("History", "The history of this notebook", () => showSide(notebook, line.run ? `${RUN}${line.run.id}` : null)) : null,
      ];
    }

    /** @param {string} text @param {string} title @param {() => void} onclick */
    #button(text, title, onclick) {
      return el("button", { type: "button", title, onclick, disabled: this.isBusy }, text);
    }

    /** @param {OpenNotebook} notebook @param {Line} line */
    async #undo(notebook, line) {
      this.isBusy = true;
      this.#draw();
      try {
        const answer = await notebook.transport.act("undo", pinned({ head: line.commit, of: notebook.transport.state().undo?.of }));
        if ("queued" in answer) this.#say("The undo waits until the running cell ends.", false);
        else if ("done" in answer) {
          if (answer.cells) notebook.host().restoreCells?.(answer.cells);
          this.#say([answer.done, ...answer.notes].join(" "), false);
        }
      } catch (error) {
        this.#say(error instanceof Error ? error.message : String(error), true);
      }
    }

    /** @param {string} text @param {boolean} isBad */
    #say(text, isBad) {
      this.isBusy = false;
      this.said = text;
      this.isBad = isBad;
      this.#draw();
    }
  };
}

/** Which names, and why: where there is little room the reason gives way. @param {string} said */
function unsavedOf(said) {
  const end = said.indexOf(": ") + 1 || said.length;
  return [
    el("span", { class: "ak-fg", title: said }, el("b", { class: "ak-chg" }, "! "), said.slice(0, end)),
    el("span", { class: "ak-fg ak-reason", title: said }, said.slice(end).trim()),
  ];
}

/**
 * Whether undo takes back what a cell did: HEAD may be at its commit after a move that came back to it, which is what undo
 * takes back then, or in a session that has done nothing yet.
 *
 * @param {State} state
 */
function undoesCell({ undo }) {
  return undo === undefined || undo?.cell === true;
}


/** @param {Line} line @param {Run} run @param {number | null} lane @returns {Child[]} */
function runFacts(line, run, lane) {
  return [
    el("i", { class: `ak-dot ak-square${lane === null ? "" : ` ak-l${lane % LANES}`}`, "aria-hidden": "true" }),
    el("span", {}, line.author.name),
    el("span", { class: run.bad ? "ak-bad" : "ak-fg", title: run.said }, run.said),
    el("span", {}, plural(run.steps, "step")),
    el("span", {}, `${count(run.tokens)} tokens`),
    run.cost === null ? null : el("span", {}, money(run.cost)),
    line.took_s === null ? null : el("span", {}, took(line.took_s)),
  ];
}

/** @param {[Sign, string, number]} chip @param {boolean} isFirst */
function chipOf([sign, name, size], isFirst) {
  const sized = isFirst && size >= SIZED ? [" ", el("span", { class: "ak-muted" }, bytes(size))] : [];
  const { glyph, kind } = SIGNS[sign];
  return el("span", { class: "ak-mono ak-fg" }, el("b", { class: kind }, glyph), name, ...sized);
}
