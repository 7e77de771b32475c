/**
 * The line under a cell that changed something: which commit it became, what that changed, and the ways on from it.
 *
 * It is drawn from what the kernel wrote into the output. Undo stands there as long as it is what undo takes back next and a
 * kernel can do it, also after cells that only looked; Diff and History open the side panel, for which the server is enough.
 */

import { pinned } from "../history/pin.js";
import { append, become, el, setAll } from "../shared/dom.js";
import { RUN } from "../history/detail-top.js";
import { canGoOn } from "../history/row.js";
import { SIGNS, bytes, count, money, plural, took } from "../shared/format.js";
import { keepKeys } from "../shared/shortcuts.js";

/** @import { Sign, State, Stopped } from "../history/protocol.js" */
/** @import { MimeModel, WidgetClass } from "./jupyter.js" */
/** @import { Notebooks, OpenNotebook } from "./notebooks.js" */
/** @import { Child } from "../shared/dom.js" */
/** @typedef {{ commit: string, short: string, branch: string | null, author: { name: string, kind: string }, chips: [Sign, string, number][], more: number, unsaved: string, took_s: number | null, undo: boolean, run?: Run | null, grew?: Record<string, string> }} Line */
/** @typedef {{ id: string, said: string, bad: boolean, done?: boolean, steps: number, tokens: number, cost: number | null, stopped?: { code: string, done: number, at: number } | null }} Run an agent's run that ended so; `stopped`: that can go on */
/** @typedef {(notebook: OpenNotebook, commit: string | null) => void} ShowSide null: the list */

export const FOOTER = "application/vnd.agent-kernel.footer.v1+json";

// What falls away where there is little room, the first of it first. Then names go, the last of them first, and are counted. Diff,
// which shows them all, goes before the second; the first one and what became of it stay longest.
const FALLING = ["ak-hash", "ak-branch", "ak-took", "ak-spent", "ak-at", "ak-size", "ak-way", "ak-to-history", "ak-agent"];
const STAYING = ["ak-grew", "ak-to-undo"];
const PADDING = 8; // px, at the right
const WORTH_READING = 48; // px of a reason; of less only a letter or two would be seen
const CHECKS = 3; // times that a kernel is asked which does not say whether a run can go on
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
      this.node.addEventListener("click", ({ target }) => this.#pressed(target));
      /** @type {Line | null} */
      this.line = null;
      /** @type {OpenNotebook | null} */
      this.notebook = null;
      /** @type {(() => void) | null} */
      this.stop = null;
      this.said = "";
      this.isBad = false;
      this.isBusy = false;
      /** @type {Stopped | null | undefined} how the run of this line stands now: null: it went on; undefined: nobody has said */
      this.now = undefined;
      this.asked = ""; // the version of the history at which it was asked for
      this.checks = 0; // how often a kernel was asked that did not know
      /** @type {ResizeObserver | null} */
      this.watch = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => fit(this.node));
      this.watch?.observe(this.node);
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
      this.stop ??= notebook.following.listen(() => this.#followed(notebook));
      this.#draw();
    }

    /** @param {OpenNotebook} notebook */
    #followed(notebook) {
      this.#draw();
      this.checks = 0;
      if (this.line?.run?.stopped && !notebook.following.isBusy) void this.#look(notebook, this.line.run);
    }

    /** Whether the run that stopped here can go on: it may have gone on since, or lie elsewhere by now. @param {OpenNotebook} notebook @param {Run} run */
    async #look(notebook, run) {
      const { transport } = notebook;
      const asked = `${transport.state().version} ${transport.canAct()}`;
      if (asked === this.asked) return;
      this.asked = asked;
      try {
        const { stopped } = await transport.ask("run", { id: run.id });
        this.now = stopped?.at === run.stopped?.at ? stopped : null;
        if (this.now && !this.now.checked) this.asked = ""; // only the kernel knows whether it can go on
      } catch {
        this.asked = ""; // what was written under the cell is as true without it
        return;
      }
      this.#draw();
      // The server answered, since the kernel was slow to: nothing more may happen that has it asked again.
      if (!this.asked && transport.canAct() && (this.checks += 1) < CHECKS) void this.#look(notebook, run);
    }

    onBeforeDetach() {
      this.stop?.();
      this.stop = null;
    }

    dispose() {
      this.stop?.();
      this.watch?.disconnect();
      super.dispose();
    }

    #draw() {
      const { line } = this;
      if (!line) return;
      const hadFocus = this.node.contains(document.activeElement);
      const newer = /** @type {HTMLElement} */ (this.node.cloneNode(false));
      append(newer, [...this.#facts(line), el("span", { class: "ak-sp" }), ...this.#ways(line)]);
      // Drawn anew under somebody's fingers: a button that is being pressed, or has the focus, stays the same element.
      become(this.node, newer);
      fit(this.node);
      if (hadFocus && !this.node.contains(document.activeElement)) this.node.querySelector("button")?.focus();
    }

    /** @param {Line} line @returns {Child[]} */
    #facts(line) {
      if (this.said) return [el("span", { class: this.isBad ? "ak-bad" : "ak-fg", role: this.isBad ? "alert" : "status" }, this.said)];
      const lane = line.branch === null ? null : (this.notebook?.following.lanes.get(line.branch) ?? null);
      const isAgent = line.author.kind === "agent";
      return [
        el("i", { class: `ak-dot${isAgent ? " ak-square" : ""}${lane === null ? "" : ` ak-l${lane % LANES}`}`, "aria-hidden": "true" }),
        line.short ? el("span", { class: "ak-mono ak-hash" }, line.short) : null,
        line.branch === null ? null : el("span", { class: "ak-branch" }, line.branch),
        ...(line.run ? runFacts(line.author.name, line.run, this.now) : [isAgent ? el("span", { class: "ak-agent" }, line.author.name) : null]),
        line.run && this.notebook?.following.undone.has(line.run.id) ? el("span", { class: "ak-state ak-chg" }, "undone") : null,
        ...line.chips.map((chip, at) => chipOf(chip, at === 0, line.grew?.[chip[1]])),
        el("span", { class: "ak-mono ak-more", "data-more": line.more, hidden: !line.more }, `${line.more} more`),
        ...(line.unsaved ? unsavedOf(line.unsaved) : []),
        line.took_s === null ? null : el("span", { class: "ak-took" }, took(line.took_s)),
      ];
    }

    /** @param {Line} line @returns {Child[]} */
    #ways(line) {
      const { notebook } = this;
      if (!notebook) return [];
      const { following, transport } = notebook;
      const { run } = line;
      const mayUndo = line.undo && !this.said && transport.canAct() && !following.isBusy && undoes(transport.state(), line.commit, following.head);
      const hasHistory = transport.place !== null || transport.hasKernel;
      const mayResume = run?.stopped && canGoOn(this.now) && transport.canAct() && !this.said;
      return [
        mayResume ? this.#button("Resume", `Resume run ${run.id.slice(-5)} of ${line.author.name}`, "ak-go") : null,
        mayUndo && run ? this.#button("Undo run", "Undo all steps: the variables are as they were before the run", mayResume ? "ak-to-undo" : "ak-undo") : null,
        mayUndo && !run ? this.#button("Undo", "Undo this cell: the variables are as they were", "ak-undo") : null,
        hasHistory && line.chips.length ? this.#button("Diff", `What this ${run ? "run" : "cell"} changed`, "ak-to-diff") : null,
        // A run that changed nothing has its steps to show.
        hasHistory ? this.#button("History", "The history of this notebook", "ak-to-history") : null,
      ];
    }

    /** @param {string} text @param {string} title @param {string} kind */
    #button(text, title, kind) {
      return el("button", { type: "button", class: kind, title, disabled: this.isBusy }, text);
    }

    /** @param {EventTarget | null} target */
    #pressed(target) {
      const { line, notebook } = this;
      const button = target instanceof Element ? target.closest("button") : null;
      if (!line || !notebook || !button) return;
      const run = line.run ? `${RUN}${line.run.id}` : null;
      if (button.textContent === "Resume") void this.#resume(notebook);
      else if (button.textContent === "Diff") showSide(notebook, run ?? line.commit);
      else if (button.textContent === "History") showSide(notebook, line.chips.length ? null : run);
      else void this.#undo(notebook);
    }

    /** @param {OpenNotebook} notebook */
    async #undo(notebook) {
      this.isBusy = true;
      this.#draw();
      try {
        const answer = await notebook.transport.act("undo", pinned({ head: notebook.following.head ?? undefined, of: notebook.transport.state().undo?.of }));
        if ("queued" in answer) this.#say("The undo waits until the running cell ends.", false);
        else if ("done" in answer) {
          if (answer.cells) notebook.host().restoreCells?.(answer.cells);
          this.#say([answer.done, ...answer.notes].join(" "), false);
        }
      } catch (error) {
        this.#say(error instanceof Error ? error.message : String(error), true);
      }
    }

    /** What it does from here on stands under its cell, or under a new one. @param {OpenNotebook} notebook */
    async #resume(notebook) {
      const { now, line } = this;
      if (!now || !line?.run) return;
      if (now.cell && notebook.host().runCell?.(now.cell)) return;
      this.isBusy = true;
      this.#draw();
      try {
        await notebook.transport.act("resume", { run: line.run.id, answer: "" });
      } catch (error) {
        this.now = { ...now, refused: error instanceof Error ? error.message : String(error) };
      }
      this.isBusy = false;
      this.#draw();
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

/** Which names, why, and the way to have them back: where there is little room the reason gives way. @param {string} said */
function unsavedOf(said) {
  const end = said.indexOf(": ") + 1 || said.length;
  const way = said.lastIndexOf(". ") + 1 > end ? said.lastIndexOf(". ") + 1 : said.length;
  return [
    el("span", { class: "ak-fg", title: said }, el("b", { class: "ak-chg" }, "! "), said.slice(0, end)),
    el("span", { class: "ak-fg ak-reason", title: said }, said.slice(end, way).trim()),
    way < said.length ? el("span", { class: "ak-fg ak-way", title: said }, said.slice(way).trim()) : null,
  ];
}

/**
 * Whether undo takes back this commit next: cells that only looked may have come since, but nothing that changed a variable
 * and no move. Without the kernel's word for it, that is sure only while HEAD is there.
 *
 * @param {State} state @param {string} commit @param {string | null} head
 */
function undoes({ undo }, commit, head) {
  if (head === null || undo === null) return false;
  if (undo?.after !== undefined) return undo.after === commit;
  return head === commit && (undo === undefined || undo.cell);
}

/**
 * Leave out what says least until no name is cut, then names, of which the first stays. The reason why something is not saved
 * gives way by itself.
 *
 * @param {HTMLElement} line
 */
export function fit(line) {
  const all = (/** @type {string} */ kind) => /** @type {HTMLElement[]} */ ([...line.querySelectorAll(`.${kind}`)]);
  const parts = (/** @type {string[]} */ kinds) => kinds.map(all).filter((found) => found.length);
  const [falling, diff, staying] = [parts(FALLING), parts(["ak-to-diff"]), parts(STAYING)];
  const names = all("ak-chip");
  const [more] = all("ak-more");
  const isOver = () => standsOut(line);
  const count = (/** @type {number} */ hidden) => {
    if (!more) return;
    const n = hidden + Number(more.dataset["more"]);
    Object.assign(more, { hidden: !n, textContent: `${n} more` });
  };
  const [reason] = all("ak-reason");
  for (const part of [falling, diff, staying, names, all("ak-reason")].flat(2)) part.hidden = false;
  count(0);
  const drop = (/** @type {HTMLElement[][]} */ kinds) => {
    for (const parts of kinds) {
      if (!isOver()) break;
      for (const part of parts) part.hidden = true;
    }
  };
  line.classList.add("ak-natural"); // nothing is cut for a moment: what is too wide stands out
  const leave = (/** @type {number} */ least) => {
    for (let last = names.filter((name) => !name.hidden).length - 1; last >= least && isOver(); last -= 1) {
      /** @type {HTMLElement} */ (names[last]).hidden = true;
      count(names.length - last);
    }
  };
  drop(falling);
  leave(2);
  drop(diff);
  leave(1);
  drop(staying);
  line.classList.remove("ak-natural");
  if (reason && line.clientWidth && reason.clientWidth < WORTH_READING) reason.hidden = true;
}

/** In fractions of a pixel: one is enough for an ellipsis. @param {HTMLElement} line */
function standsOut(line) {
  const shown = /** @type {HTMLElement[]} */ ([...line.children]).filter((part) => !part.hidden);
  const end = Math.max(0, ...shown.map((part) => part.getBoundingClientRect().right));
  const { right } = line.getBoundingClientRect();
  return right > 0 && end > right - PADDING; // 0: it is not seen
}

/** Who, and what it took; how it ended where that is not well. @param {string} name @param {Run} run @param {Stopped | null} [now] @returns {Child[]} */
function runFacts(name, run, now) {
  const { stopped } = run;
  const spent = run.cost === null ? `${count(run.tokens)} tokens` : money(run.cost);
  const all = run.cost === null ? spent : `${count(run.tokens)} tokens, ${spent}`;
  const isDone = run.done ?? run.said.startsWith("done");
  const steps = stopped ? (stopped.done ? `${plural(stopped.done, "step")} done` : "") : plural(run.steps, "step");
  const taken = stopped && !run.tokens ? steps : [steps, spent].filter(Boolean).join(", ");
  return [
    el("span", { class: "ak-agent" }, name),
    ...(stopped ? stoppedFacts(run.said, stopped.code, now) : [isDone ? null : el("span", { class: run.bad ? "ak-bad" : "ak-chg", title: run.said }, run.said)]),
    taken ? el("span", { class: "ak-spent", title: all }, taken) : null,
  ];
}

/** Where it stopped, and that it went on, or why it does not. @param {string} said @param {string} code @param {Stopped | null} [now] @returns {Child[]} */
function stoppedFacts(said, code, now) {
  const hasGone = now === null;
  const refused = now?.refused;
  return [
    el("span", { class: hasGone ? "ak-state" : "ak-state ak-chg", title: code ? `${said}. Code of the step: ${code}` : said }, hasGone ? `${said}, then resumed` : refused ? `${said}: ` : said),
    refused ? el("span", { class: "ak-chg ak-reason", title: refused }, refused) : null,
    code && !refused && !hasGone ? el("span", { class: "ak-at", title: code }, "code: ", el("span", { class: "ak-mono" }, code)) : null,
  ];
}

/** @param {[Sign, string, number]} chip @param {boolean} isFirst @param {string} [grew] "−17 rows" */
function chipOf([sign, name, size], isFirst, grew) {
  const said = grew ?? (isFirst && size >= SIZED ? bytes(size) : "");
  const sized = said ? [el("span", { class: `ak-muted ${grew ? "ak-grew" : "ak-size"}` }, ` ${said}`)] : [];
  const { glyph, kind } = SIGNS[sign];
  return el("span", { class: "ak-mono ak-fg ak-chip" }, el("b", { class: kind }, glyph), name, ...sized);
}
