/**
 * A step of an agent that does not run before a person says so: its code, what it would do, and what can be said.
 *
 * What leaves the machine comes first; a row with nothing stays, so that its absence is seen. No key says yes, and the card
 * takes no focus by itself. What was decided, here or anywhere else, takes the place of the buttons.
 */

import { textButton } from "../shared/buttons.js";
import { append, el, fill, freshId, prose, spoken, svg } from "../shared/dom.js";
import { when } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { canGoOn } from "./row.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { Asks, RunDetails } from "./protocol.js" */
/** @typedef {{ decision: "approve" | "edit" | "deny", code?: string, reason?: string }} Decision */
/**
 * @typedef {object} CardLook
 * @property {number} now
 * @property {boolean} canAct
 * @property {string} waits why what was decided does not go on yet: a cell runs
 * @property {number} step which step it is about
 * @property {boolean} isGoing it was decided here, and goes on
 */

/** @type {Record<string, string>} */
const DECIDED = { approve: "approved", edit: "approved with other code", deny: "denied" };
export class ApprovalCard {
  /** @param {(decision: Decision) => void} decide @param {(run: RunDetails) => void} resume */
  constructor(decide, resume) {
    this.decide = decide;
    this.resume = resume;
    this.title = freshId("approval");
    this.element = el("div", { class: "ak-card", role: "group", tabindex: 0, "aria-labelledby": this.title });
    /** @type {"" | "edit" | "deny"} */
    this.mode = "";
    this.key = "";
    this.draft = ""; // code that was typed here, which is kept until the step is another one
    /** @type {{ run: RunDetails, look: CardLook } | null} */
    this.shown = null;
    // What is typed here is not the notebook's.
    this.element.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
      if (event.key === "Escape" && this.mode) {
        event.preventDefault();
        this.#turn("");
      }
    });
  }

  /** @param {RunDetails} run @param {CardLook} look */
  show(run, look) {
    const asks = run.asks?.step === look.step ? run.asks : null;
    const key = JSON.stringify([run.id, look.step, asks?.asked_ms, run.status, look.canAct, look.waits, look.isGoing, run.stopped?.checked, run.stopped?.refused]);
    if (key === this.key) return; // a button must not go while it is being pressed, nor what is typed be lost
    if (this.shown?.look.step !== look.step || this.shown?.run.id !== run.id) Object.assign(this, { mode: "", draft: "" });
    Object.assign(this, { key, shown: { run, look } });
    this.#draw();
  }

  /** @param {"" | "edit" | "deny"} mode */
  #turn(mode) {
    this.mode = mode;
    this.#draw();
    const field = this.element.querySelector("textarea, input");
    if (field instanceof HTMLElement) field.focus({ preventScroll: true });
    else this.element.focus({ preventScroll: true });
  }

  #draw() {
    if (!this.shown) return;
    const { run, look } = this.shown;
    const asks = run.asks?.step === look.step ? run.asks : null;
    fill(this.element, ...(asks ? this.#asking(run, asks, look) : [...decidedLines(run, look.step, this.title), this.#wayOn(run, look)]));
  }

  /** What was decided in another process goes on only when somebody lets it. @param {RunDetails} run @param {CardLook} look @returns {Child} */
  #wayOn(run, look) {
    if (run.status !== "decided" || !look.canAct || look.isGoing || !canGoOn(run.stopped)) return null;
    return el("div", { class: "ak-foot" }, textButton("Resume", () => this.resume(run), "ak-main"));
  }

  /** @param {RunDetails} run @param {Asks} asks @param {CardLook} look @returns {Child[]} */
  #asking(run, asks, look) {
    const after = asks.after ? ["after ", ...prose(asks.after), " · "] : [];
    const on = asks.branch ? ["on ", el("span", { class: "ak-mono" }, asks.branch), after.length ? ", " : " · "] : [];
    const code = this.mode === "edit" ? this.#codeField(asks) : codeBlock(asks);
    return [
      el(
        "div",
        { class: "ak-dh" },
        waitingMark(),
        el("h4", { id: this.title }, `${run.author.name} ${asks.keeps ? `tried step ${asks.step} beforehand` : `wants to run step ${asks.step}`}`),
        el("span", { class: "ak-count" }, ...on, ...after, `asked ${ago(asks.asked_ms, look.now)}`),
        el("div", { class: "ak-meta" }, el("span", {}, `Task: ${run.task.trim().split("\n")[0]}`)),
      ),
      code,
      report(asks),
      el("p", { class: "ak-card-note" }, asks.note),
      this.#foot(run, look, code),
    ];
  }

  /** @param {RunDetails} run @param {CardLook} look @param {HTMLElement} code @returns {Child} */
  #foot(run, look, code) {
    const said = footWithoutButtons(look, `%agent approve --run ${run.short}`);
    if (said) return said;
    const foot = el("div", { class: "ak-foot" });
    if (this.mode === "edit") {
      const run_ = () => this.decide({ decision: "edit", code: /** @type {HTMLTextAreaElement} */ (code.querySelector("textarea")).value });
      append(foot, [textButton("Run edited", run_, "ak-main"), textButton("Cancel", () => ((this.draft = ""), this.#turn("")))]);
      return foot;
    }
    if (this.mode === "deny") return this.#denial();
    append(foot, [
      textButton(run.asks?.keeps ? "Accept" : "Approve and run", () => this.decide({ decision: "approve" }), "ak-main"),
      textButton("Edit…", () => this.#turn("edit")),
      textButton("Deny…", () => this.#turn("deny")),
      el("span", { class: "ak-sp" }),
      el("span", { class: "ak-count" }, "The run waits as long as you like"),
    ]);
    return foot;
  }

  /** @param {Asks} asks */
  #codeField(asks) {
    const code = this.draft || asks.source;
    const area = el("textarea", { class: "ak-py", rows: Math.min(24, code.split("\n").length + 1), spellcheck: "false", "aria-label": "Code of the step" });
    area.value = code;
    area.addEventListener("input", () => (this.draft = area.value));
    return el("div", { class: "ak-py-edit" }, area);
  }

  #denial() {
    const input = el("input", { type: "text", class: "ak-input", id: freshId("reason"), placeholder: "Why, for the agent to read", autocomplete: "off" });
    const form = el(
      "form",
      { class: "ak-foot", novalidate: true },
      el("label", { class: "ak-vh", for: input.id }, "Reason"),
      input,
      el("button", { class: "ak-b ak-main", type: "submit" }, "Deny"),
      textButton("Cancel", () => this.#turn("")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.decide({ decision: "deny", reason: input.value.trim() });
    });
    return form;
  }
}

/** "1 min ago". @param {number} ms @param {number} now */
export function ago(ms, now) {
  const said = when(ms, now);
  return said.endsWith("min") ? `${said} ago` : said === "now" ? said : `at ${said}`;
}

/** What stands in place of the buttons where nobody can decide now; null where somebody can. @param {{ isGoing: boolean, waits: string, canAct: boolean }} look @param {string} typed what to type instead */
export function footWithoutButtons(look, typed) {
  if (look.isGoing || look.waits)
    return el("div", { class: "ak-foot" }, el("span", { class: "ak-spin", "aria-hidden": "true" }), el("span", { class: "ak-count", role: "status" }, look.waits || "The run goes on"));
  return look.canAct ? null : el("div", { class: "ak-foot" }, el("span", { class: "ak-count" }, "In its notebook: ", el("code", {}, typed)));
}

/** The dashed square of what waits. */
export function waitingMark() {
  const box = svg("rect", { class: "ak-wait ak-dash", x: 3, y: 3, width: 10, height: 10 });
  return svg("svg", { class: "ak-g ak-mark", viewBox: "0 0 16 16", "aria-hidden": "true" }, box);
}

/** @param {Asks} asks */
function codeBlock(asks) {
  const pieces = asks.code.map(([kind, text]) => (kind ? el("span", { class: `ak-py-${kind}` }, text) : text));
  return el("pre", { class: "ak-py", tabindex: 0, "aria-label": "Code of the step" }, ...pieces);
}

/** @param {Asks} asks */
function report(asks) {
  return el(
    "dl",
    { class: "ak-rep" },
    ...asks.report.filter(isFound).flatMap((row) => [
      el("dt", {}, icon(row.risky ? "warn" : "ok", row.risky ? "ak-chg" : "ak-muted"), row.word, row.risky ? spoken(", look at this") : null),
      el("dd", { title: row.items.join(", ") }, ...commaed(row.items)),
      el("dd", { class: "ak-muted" }, row.note),
    ]),
    ...tried(asks),
    nothingOf(asks),
  );
}

/** @param {Asks["report"][number]} row */
const isFound = (row) => row.items.length > 0 || row.risky;

/** What the rows are about of which nothing was found. @type {Record<string, string>} */
const ABOUT = { Reaches: "use the network", Writes: "write files", Imports: "import", Reads: "read variables", Deletes: "delete" };

/** All that was not found, in one line. @param {Asks} asks */
function nothingOf(asks) {
  const words = asks.report.filter((row) => !isFound(row)).map((row) => ABOUT[row.word] ?? row.word.toLowerCase());
  if (!words.length) return null;
  const last = words.length > 1 ? ` or ${words.pop()}` : "";
  return el("dd", { class: "ak-muted ak-lacks" }, `Does not ${words.join(", ")}${last}.`);
}

/** What it did where it was tried on a fork: a word that stands above already is only spoken. @param {Asks} asks @returns {Child[]} */
function tried(asks) {
  return asks.tried.flatMap(([word, how, what, remark], at) => {
    const again = asks.tried[at - 1]?.[0] === word;
    return [
      el("dt", {}, again ? spoken(word) : [icon("merge", "ak-muted"), word]),
      el("dd", { title: what }, el("span", { class: "ak-mono" }, `${how === "-" ? "−" : how}${what}`)),
      el("dd", { class: "ak-muted" }, again ? "" : remark),
    ];
  });
}

/** @param {string[]} items @returns {Child[]} */
function commaed(items) {
  return items.flatMap((item, at) => [at ? ", " : "", el("span", { class: "ak-mono" }, item)]);
}

/** How the run of what was decided or answered stands. @type {Record<RunDetails["status"], string>} */
export const NOW = {
  running: "The run goes on",
  completed: "The run is done",
  failed: "The run failed",
  interrupted: "The run was stopped; %agent resume goes on",
  cancelled: "The run was given up",
  clarify: "The run has a question",
  pending: "A later step waits",
  undone: "The run was undone",
  decided: "The run has not gone on yet; %agent resume lets it go on",
};

/** What became of it. @param {RunDetails} run @param {number} number @param {string} id @returns {Child[]} */
function decidedLines(run, number, id) {
  const step = run.steps.find((one) => one.prompt === `.${number}`);
  const denied = step?.decided === "deny";
  const by = step?.decided_by ? ` by ${step.decided_by}` : "";
  const said = step?.decided ? `was ${DECIDED[step.decided] ?? step.decided}${by}` : "does not wait any more";
  return [
    el(
      "div",
      { class: "ak-dh ak-said" },
      el("span", { class: denied ? "ak-del" : "ak-add" }, icon(denied ? "close" : "ok")),
      el("h4", { id }, `Step ${number} of ${run.author.name} ${said}`),
      el("span", { class: "ak-count" }, NOW[run.status]),
      step?.reason ? el("div", { class: "ak-meta" }, el("span", {}, step.reason)) : null,
    ),
  ];
}
