/**
 * One row of the list: a day, a fold or a commit.
 *
 * Graph · prompt · subject with refs · chips (or counts, where it is narrow) · took · when. The actions of a row take
 * exactly the place of took and when, so that nothing else moves under the pointer. The row's name says in words what the
 * columns show in signs.
 */

import { append, el, spoken } from "../shared/dom.js";
import { SIGNS, count, dayName, plural, stamp, took, tookSpoken, when, whenSpoken } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { SIGN_ORDER, chipList, countList } from "./chips.js";
import { graphPicture } from "./graph.js";
import { refList } from "./refs.js";
import { plainRoom, subjectRoom, subjectText } from "./subject.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { CommitRow, FoldRow, Row, RunFacts, Stopped, WaitRow } from "./protocol.js" */
/** @import { Marks } from "../shared/tokens.js" */
/**
 * @typedef {object} RowLook
 * @property {number} now
 * @property {Marks} marks what a search matched
 * @property {number} widthPx of the list
 * @property {boolean} canAct
 * @property {boolean} marked it is marked to be compared
 * @property {boolean} queued it waits for the running cell
 */

/** @param {Row} row @param {RowLook} look @returns {HTMLElement} */
export function buildRow(row, look) {
  if (row.kind === "day") return dayRow(row, look);
  if (row.kind === "wait") return waitRow(row, look);
  if (row.kind === "commit") return commitRow(row, look);
  return row.run ? runRow(row, row.run, look) : foldRow(row, look);
}

/** Where a row will be that has not come yet. */
export function waitingRow() {
  return el(
    "div",
    { class: "ak-row ak-waiting", role: "row" },
    el("span", { class: "ak-g" }),
    el("span", { class: "ak-n" }),
    el("span", { role: "gridcell" }, spoken("Loading"), el("i")),
  );
}

/** @param {Extract<Row, { kind: "day" }>} row @param {RowLook} look */
function dayRow(row, look) {
  return el(
    "div",
    { class: row.text ? "ak-row ak-day ak-between" : "ak-row ak-day", role: "row" },
    graphPicture(row.graph, "none", false),
    el("span", { role: "gridcell" }, row.text || dayName(row.day, look.now)),
  );
}

/** @param {FoldRow} row @param {RowLook} look */
function foldRow(row, look) {
  const runs = row.why === "repeated" ? plural(row.n, "run") : "";
  const matching = row.matching ? `${count(row.matching)} of ${count(row.n)} match` : runs;
  const node = el("div", {
    class: "ak-row ak-fold-row",
    role: "row",
    "aria-level": 1,
    "aria-expanded": String(row.unfolded),
    "aria-label": [
      spokenPrompt(row.prompt),
      row.subject,
      matching,
      tookSpoken(row.took_s),
      whenSpoken(row.time_ms, look.now),
    ]
      .filter(Boolean)
      .join(", "),
  });
  append(node, [
    graphPicture(row.graph, row.unfolded ? "none" : "fold", false),
    el("span", { class: "ak-n", role: "gridcell" }, row.prompt),
    el(
      "span",
      { class: "ak-s", role: "gridcell" },
      el(
        "button",
        {
          class: "ak-fold",
          tabindex: -1,
          "data-do": "fold",
          "aria-label": `${row.unfolded ? "Fold" : "Unfold"} ${plural(row.n, "cell")}`,
        },
        icon("right"),
      ),
      subjectText(row.subject, row.why === "repeated", look.marks, plainRoom(look)),
      matching ? el("span", { class: "ak-steps ak-muted" }, matching) : null,
    ),
    ...times(row.took_s, row.time_ms, look.now),
  ]);
  return node;
}

/** An agent's run: what is done with it is done with its newest commit. @param {FoldRow} row @param {RunFacts} run @param {RowLook} look */
function runRow(row, run, look) {
  const taken = (run.stopped && doneSteps(run.stopped)) || plural(run.steps, "step");
  const steps = row.matching ? `${count(row.matching)} of ${count(row.n)} match` : taken;
  const waits = run.status === "pending" || run.status === "clarify";
  const state = runState(run, waits);
  const node = el("div", {
    class: `ak-row ak-run-row${run.stopped ? " ak-stopped" : ""}${look.marked ? " ak-marked" : ""}`,
    role: "row",
    "aria-level": 1,
    "aria-expanded": String(row.unfolded),
    "aria-label": runName(row, run, look.now) + (look.marked ? ", marked" : "") + (look.queued ? ", queued" : ""),
  });
  const fold = {
    class: "ak-fold",
    tabindex: -1,
    "data-do": "fold",
    "aria-label": `${row.unfolded ? "Fold" : "Unfold"} ${plural(row.n, "step")}`,
    disabled: waits,
  };
  append(node, [
    graphPicture(row.graph, row.unfolded ? "none" : run.stopped ? "interrupted" : "run", false),
    el("span", { class: "ak-n", role: "gridcell" }, row.prompt),
    el(
      "span",
      { class: "ak-s", role: "gridcell" },
      el("button", fold, icon("right")),
      refList(row.unfolded ? [] : run.refs),
      el("span", { class: "ak-who" }, run.author.name),
      subjectText(row.subject, false, look.marks, plainRoom(look)),
      el("span", { class: "ak-steps ak-muted" }, steps),
      ...stateText(run, state),
      look.marked ? el("span", { class: "ak-note ak-muted" }, "marked") : null,
    ),
    el("span", { class: "ak-c", role: "gridcell" }, ...chipList({ ...run, chips: unsized(run.chips) }, look)),
    el("span", { class: "ak-sum", "aria-hidden": "true" }, ...countList(run)),
    resumeButton(run.stopped, run.short, run.author.name, look),
    ...ending(look, row.took_s, row.time_ms),
  ]);
  return node;
}

/** @param {RunFacts} run @param {string} state @returns {Child[]} */
function stateText(run, state) {
  if (run.stopped) return stoppedText(run.stopped, state);
  return state ? [el("span", { class: `ak-why ${run.status === "failed" ? "ak-del" : "ak-chg"}` }, state)] : [];
}

/** Where it stopped, the code of that step where there is room, and why it does not go on here. @param {Stopped} stopped @param {string} said @returns {Child[]} */
function stoppedText(stopped, said) {
  const { code, refused } = stopped;
  const all = [said, code && `Code of the step: ${code}`, doneSteps(stopped), refused].filter(Boolean).join(". ");
  return [
    el("span", { class: "ak-why ak-chg", title: all }, said),
    refused ? el("span", { class: "ak-refused ak-chg", title: all }, refused) : null,
    code && !refused ? el("span", { class: "ak-at ak-muted", title: all }, "code: ", el("code", {}, code)) : null,
  ];
}

/** "2 steps done". @param {Stopped} stopped */
export function doneSteps({ done }) {
  return done ? `${plural(done, "step")} done` : "";
}

/** Whether a run that stopped is known to go on here. @param {Stopped | null | undefined} stopped */
export function canGoOn(stopped) {
  return Boolean(stopped?.checked && !stopped.refused);
}

/** Lets a run go on that stopped. @param {Stopped | null} stopped @param {string} short @param {string} name @param {RowLook} look */
function resumeButton(stopped, short, name, look) {
  if (!canGoOn(stopped) || !look.canAct || look.queued) return null;
  const title = `Resume run ${short} of ${name}`;
  return el("span", { class: "ak-go", role: "gridcell" }, el("button", { class: "ak-b", tabindex: -1, "data-do": "resume", title, "aria-label": title }, "Resume"));
}

/** What is said of a run that has not come to a result. @type {Partial<Record<RunFacts["status"], string>>} */
const STATES = {
  running: "running",
  pending: "waiting for you",
  clarify: "waiting for an answer",
  interrupted: "stopped",
  cancelled: "given up",
  failed: "failed",
  undone: "undone",
  decided: "decided, but has not gone on",
};

/** Of a run that is several rows. @type {Record<RunFacts["part"], string>} */
const PARTS = { "": "", first: "goes on above", middle: "continued, goes on above", last: "continued" };

/** How a run stands, as its row says it: how it ended stands in the newest. @param {RunFacts} run @param {boolean} waits a row below says for what */
function runState(run, waits = false) {
  const part = PARTS[run.part] && `run ${run.short} ${PARTS[run.part]}`;
  const state = !waits && (run.part === "" || run.part === "last") ? (run.stopped?.said ?? STATES[run.status]) : "";
  return [part, state].filter(Boolean).join(", ");
}

/** How a run stands, in words. @param {RunFacts["status"]} status */
export function stateName(status) {
  return STATES[status] ?? "done";
}

/** Of several steps together no size says much. @param {CommitRow["chips"]} chips @returns {CommitRow["chips"]} */
function unsized(chips) {
  return chips.map(([sign, name]) => [sign, name, 0]);
}

/** A step that waits for a person, a question, or a run that stopped before its first commit. @param {WaitRow} row @param {RowLook} look */
function waitRow(row, look) {
  if (row.stopped) return stoppedRow(row, row.stopped, look);
  const waiting = row.waits_for === "approval" ? "waiting for you" : "waiting for an answer";
  const node = el("div", {
    class: `ak-row${row.depth ? " ak-child" : ""}`,
    role: "row",
    "aria-level": row.depth + 1,
    "aria-label": [row.prompt ? `Step ${row.prompt.slice(1)}` : "", row.author.name, row.subject, waiting].filter(Boolean).join(", "),
  });
  append(node, [
    graphPicture(row.graph, "wait", false),
    el("span", { class: "ak-n", role: "gridcell" }, row.prompt),
    el(
      "span",
      { class: "ak-s", role: "gridcell" },
      row.depth ? null : el("span", { class: "ak-who" }, row.author.name),
      subjectText(row.subject, row.is_code, look.marks, plainRoom(look)),
      el("span", { class: "ak-why ak-chg" }, waiting),
    ),
    el(
      "span",
      { class: "ak-end", role: "gridcell" },
      el("button", { class: "ak-b ak-main", tabindex: -1, "data-do": "review" }, row.waits_for === "approval" ? "Review" : "Answer"),
    ),
  ]);
  return node;
}

/** A stopped run has no commit yet: the one thing to do is to resume it. @param {WaitRow} row @param {Stopped} stopped @param {RowLook} look */
function stoppedRow(row, stopped, look) {
  const name = [spokenPrompt(row.prompt), `run of ${row.author.name}`, row.subject, stopped.said, stopped.refused, whenSpoken(row.time_ms, look.now)];
  const node = el("div", { class: "ak-row ak-run-row ak-stopped", role: "row", "aria-level": 1, "aria-label": name.filter(Boolean).join(", ") });
  append(node, [
    graphPicture(row.graph, "interrupted", false),
    el("span", { class: "ak-n", role: "gridcell" }, row.prompt),
    el(
      "span",
      { class: "ak-s", role: "gridcell" },
      el("span", { class: "ak-who" }, row.author.name),
      subjectText(row.subject, false, look.marks, plainRoom(look)),
      ...stoppedText(stopped, stopped.said),
    ),
    resumeButton(stopped, row.run.slice(-5), row.author.name, look),
    ...times(null, row.time_ms, look.now),
  ]);
  return node;
}

/** @param {CommitRow} row @param {RowLook} look */
function commitRow(row, look) {
  const node = el("div", {
    class: `ak-row${row.depth ? " ak-child" : ""}${row.depth > 1 ? " ak-inner" : ""}${look.marked ? " ak-marked" : ""}`,
    role: "row",
    "aria-level": row.depth + 1,
    "aria-label": rowName(row, look.now) + (look.marked ? ", marked" : "") + (look.queued ? ", queued" : ""),
  });
  const head = row.refs.some((ref) => ref.head);
  append(node, [
    graphPicture(row.graph, row.node, head),
    el("span", { class: "ak-n", role: "gridcell" }, row.prompt),
    el(
      "span",
      { class: "ak-s", role: "gridcell" },
      refList(row.refs),
      author(row),
      subjectText(row.subject, row.is_code, look.marks, subjectRoom(row, look)),
      whyText(row),
      look.marked ? el("span", { class: "ak-note ak-muted" }, "marked") : null,
    ),
    el("span", { class: "ak-c", role: "gridcell" }, ...chipList(row, look)),
    el("span", { class: "ak-sum", "aria-hidden": "true" }, ...countList(row)),
    ...ending(look, row.took_s, row.time_ms),
  ]);
  return node;
}

/** What stands at the right: what can be done, or that it is to be done. @param {RowLook} look @param {number | null} took_s @param {number} ms */
function ending(look, took_s, ms) {
  if (!look.queued) return [actions(look), ...times(took_s, ms, look.now)];
  const waits = el("span", { class: "ak-count" }, "queued");
  return [el("span", { class: "ak-end", role: "gridcell" }, waits, el("span", { class: "ak-spin", "aria-hidden": "true" }))];
}

/** @param {RowLook} look */
function actions(look) {
  return el(
    "span",
    { class: "ak-a", role: "gridcell" },
    look.canAct ? el("button", { class: "ak-b", tabindex: -1, "data-do": "checkout" }, "Check out") : null,
    el(
      "button",
      {
        class: "ak-b ak-quiet ak-icon",
        tabindex: -1,
        "data-do": "menu",
        "aria-label": "More actions",
        title: "More actions (m)",
      },
      icon("more"),
    ),
  );
}

/** @param {number | null} took_s @param {number} ms @param {number} now */
function times(took_s, ms, now) {
  return [
    el("span", { class: "ak-d", role: "gridcell" }, took(took_s)),
    el("span", { class: "ak-t", role: "gridcell", title: stamp(ms, now) }, when(ms, now)),
  ];
}

/** A step of a run is its agent's: the row of the run says whose. @param {CommitRow} row */
function author(row) {
  if (row.depth === 1 && row.run) return null;
  return row.author.kind === "agent" || !row.author.me ? el("span", { class: "ak-who" }, row.author.name) : null;
}

/** Why a cell failed: its first word stays where there is little room. @param {CommitRow} row */
function whyText(row) {
  if (!row.why) return null;
  const [, short = "", long = ""] = /^([^\s:]+)([\s\S]*)$/.exec(row.why) ?? [];
  const kind = row.node === "failed" ? "ak-del" : "ak-chg";
  return el("span", { class: `ak-why ${kind}`, title: row.why }, short, el("span", { class: "ak-long" }, long));
}

/** "[7]" → "Cell 7", ".2" → "Step 2". @param {string} prompt */
function spokenPrompt(prompt) {
  if (prompt.startsWith(".")) return `Step ${prompt.slice(1)}`;
  return prompt ? `Cell ${prompt.replace(/[[\]]/g, "")}` : "";
}

/**
 * "Cell 7, Convert to euros, changed df and 3 more, removed tmp, 0.42 seconds, yesterday 17:12"
 *
 * @param {CommitRow} row @param {number} now
 */
export function rowName(row, now) {
  const kind = row.node === "cell" || row.node === "agent" ? "" : row.node === "interrupted" ? "" : row.node;
  const who = row.author.me && row.author.kind === "person" ? "" : row.author.name;
  return [
    spokenPrompt(row.prompt),
    who,
    row.subject,
    kind,
    row.why,
    ...spokenRefs(row.refs),
    ...spokenChanges(row),
    tookSpoken(row.took_s),
    whenSpoken(row.time_ms, now),
  ]
    .filter(Boolean)
    .join(", ");
}

/** "Cell 12, run of analyst, Drop the outliers, 4 steps, tag baseline, changed df and 2 more". @param {FoldRow} row @param {RunFacts} run @param {number} now */
export function runName(row, run, now) {
  return [
    spokenPrompt(row.prompt),
    `run of ${run.author.name}`,
    row.subject,
    (run.stopped && doneSteps(run.stopped)) || plural(run.steps, "step"),
    runState(run),
    run.stopped?.refused,
    row.matching ? `${count(row.matching)} of ${count(row.n)} match` : "",
    ...spokenRefs(run.refs),
    ...spokenChanges(run),
    tookSpoken(row.took_s),
    whenSpoken(row.time_ms, now),
  ]
    .filter(Boolean)
    .join(", ");
}

/** @param {Pick<CommitRow, "chips" | "counts">} row */
function spokenChanges(row) {
  return SIGN_ORDER.filter((sign) => row.counts[sign]).map((sign) => {
    const first = row.chips.find(([how]) => how === sign)?.[1];
    const n = row.counts[sign] ?? 0;
    const names = first === undefined ? plural(n, "variable") : n > 1 ? `${first} and ${n - 1} more` : first;
    return sign === "!" ? `${names} not saved` : `${SIGNS[sign].word} ${names}`;
  });
}

/** @param {CommitRow["refs"]} refs */
function spokenRefs(refs) {
  return refs.map((ref) =>
    ref.head ? `you are here${ref.kind === "head" ? "" : `, on ${ref.name}`}` : ref.kind === "aside" ? ref.name : `${ref.kind} ${ref.name}`,
  );
}
