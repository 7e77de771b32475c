import assert from "node:assert/strict";
import { test } from "node:test";

import { money } from "../shared/format.js";
import { ApprovalCard } from "../history/approval.js";
import { runName } from "../history/row.js";
import { runOf } from "./fixture/answers.js";
import { NOW, withRuns, withStopped } from "./fixture/houses.js";
import { listRows } from "./fixture/rows.js";
import { mounted, soon, withoutPage } from "./page.js";

/** @import { Asks, CommitRow, FoldRow, RunFacts } from "../history/protocol.js" */

const page = { skip: withoutPage };
const withHistory = () => mounted({ store: { history: withRuns() } });
/** @param {Awaited<ReturnType<typeof withHistory>>} panel @param {string} label */
const button = (panel, label) => /** @type {HTMLButtonElement} */ (panel.all("button").find((one) => one.textContent === label));

test("a run is one row: who, the task, how many steps, the chips of all steps without sizes", page, async () => {
  const panel = await withHistory();
  await panel.press("End");
  const row = panel.row("Drop the outliers");
  assert.match(row.textContent ?? "", /^\[12\]baselineanalystDrop the outliers and fit a model of price4 steps/);
  assert.equal(row.getAttribute("aria-expanded"), "false");
  assert.equal(row.querySelectorAll(".ak-g rect").length, 2);
  assert.doesNotMatch(row.querySelector(".ak-c")?.textContent ?? "", /kB/);
});

test("a run's name says that it is one, and what its steps changed", () => {
  const all = { text: "", show: /** @type {const} */ ("all"), tz_s: 0, unfolded: [] };
  const row = /** @type {FoldRow} */ (listRows(withRuns(), all).rows.find((one) => one.kind === "fold" && one.prompt === "[12]"));
  assert.match(
    runName(row, /** @type {RunFacts} */ (row.run), NOW),
    /^Cell 12, run of analyst, Drop the outliers and fit a model of price, 4 steps, tag baseline, added outliers.*, changed /,
  );
});

test("each row of a run that others' commits part names the run, and the newest alone how it ended", () => {
  const all = { text: "", show: /** @type {const} */ ("all"), tz_s: 0, unfolded: [] };
  const row = /** @type {FoldRow} */ (listRows(withRuns(), all).rows.find((one) => one.kind === "fold" && one.prompt === "[12]"));
  const run = /** @type {RunFacts} */ (row.run);
  /** @param {RunFacts["part"]} part */
  const name = (part) => runName(row, { ...run, part, status: "undone" }, NOW);
  assert.match(name(""), /4 steps, undone, tag/);
  assert.match(name("first"), new RegExp(`4 steps, run ${run.short} goes on above, tag`));
  assert.match(name("last"), new RegExp(`4 steps, run ${run.short} continued, undone, tag`));
});

test("→ unfolds a run to its steps, which do not say again whose they are, and ← folds it", page, async () => {
  const panel = await withHistory();
  await panel.to("Drop the outliers");
  await panel.press("ArrowRight");
  assert.match(panel.row("outliers = df").textContent ?? "", /^\.1outliers = df\.nlargest/);
  assert.ok(panel.row("outliers = df").querySelector(".ak-g rect"));
  await panel.press("ArrowLeft");
  assert.ok(!panel.text.includes("outliers = df"));
});

test("what is asked about a step names its agent and its cell, which has other steps", async () => {
  const all = { text: "", show: /** @type {const} */ ("all"), tz_s: 0, unfolded: [] };
  const rows = listRows(withRuns(), all).rows;
  const row = /** @type {CommitRow} */ (rows.find((one) => one.kind === "commit"));
  const { targetOfRow } = await import("../history/detail-top.js");
  assert.equal(targetOfRow({ ...row, prompt: ".1", called: "step 1 of analyst [12]" })?.label, "step 1 of analyst [12]");
  assert.equal(targetOfRow({ ...row, prompt: "[12]", called: "" })?.label, "[12]");
});

test("Enter unfolds a run and opens its details: task, state, steps, tokens, cost", page, async () => {
  const panel = await withHistory();
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  const meta = panel.$(".ak-detail:not([hidden]) .ak-meta").textContent ?? "";
  for (const part of ["[12]", "analyst", "done", "4 steps", "12,400 tokens", "$0.04", "openai:gpt-5.2"]) assert.ok(meta.includes(part), part);
  assert.match(meta, /Returned float 0\.91$/);
  button(panel, "Steps 4").click();
  await soon();
  assert.equal(panel.all(".ak-step-line").length, 4);
  assert.match(panel.text, /\.1outliers = df/);
});

test("what a run changed is the first tab, against the commit before it, and what others changed is not in it", page, async () => {
  const history = withRuns();
  const last = /** @type {import("./fixture/rows.js").FixtureCommit} */ (history.commits.find((commit) => commit.prompt === "[12.4]"));
  last.changes.push(["~", "foreign", 0]);
  const panel = await mounted({ store: { history } });
  const ask = panel.store.ask.bind(panel.store);
  panel.store.ask = /** @type {any} */ (async (/** @type {any} */ op, /** @type {any} */ args) => {
    const answer = /** @type {any} */ (await ask(op, args));
    return op === "run" ? { ...answer, changed: answer.changed.filter((/** @type {string} */ name) => name !== "foreign") } : answer;
  });
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  const tabs = panel.all(".ak-detail:not([hidden]) [role=tab]");
  assert.deepEqual(tabs.map((tab) => [tab.textContent, tab.getAttribute("aria-selected")]), [["Changes 5", "true"], ["Steps 4", "false"]]);
  const before = history.commits.find((commit) => commit.prompt === "[11]")?.id;
  assert.deepEqual(panel.asked("commit").at(-1), { id: last.id, against: before });
  assert.deepEqual(panel.all(".ak-detail:not([hidden]) .ak-v .ak-nm").map((one) => one.textContent), ["model"]);
  assert.deepEqual(panel.asked("variable").at(-1), { id: last.id, against: before, name: "model" });
});

test("what is done with a run is done with its newest commit", page, async () => {
  const panel = await withHistory();
  const tip = withRuns().commits.find((commit) => commit.prompt === "[12.4]")?.id;
  await panel.to("Drop the outliers");
  await panel.press("c");
  await soon();
  assert.deepEqual(panel.asked("plan").map((args) => args["to"]), [tip]);
  await panel.press("Escape", "D");
  await soon();
  assert.deepEqual(panel.asked("compare").map((args) => args["a"]), [tip]);
});

test("a step in the details opens its commit", page, async () => {
  const panel = await withHistory();
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  button(panel, "Steps 4").click();
  await soon();
  /** @type {HTMLElement} */ (panel.all(".ak-step-line")[0]).click();
  await soon();
  assert.match(panel.$(".ak-detail:not([hidden]) h4").textContent ?? "", /nlargest/);
});

test("a run that waits does not fold, and its next step waits above its last one", page, async () => {
  const panel = await withHistory();
  await panel.to("Draw the errors");
  await panel.press("ArrowLeft");
  const row = panel.row("to_parquet");
  assert.match(row.textContent ?? "", /^\.4df\.to_parquet\(.*\)waiting for youReview$/);
  assert.ok(row.querySelector(".ak-wait.ak-dash"));
});

test("Review opens the card, with the keyboard on it and not on a button", page, async () => {
  const panel = await withHistory();
  button(panel, "Review").click();
  await soon();
  assert.equal(document.activeElement, panel.$(".ak-card"));
  assert.match(panel.$(".ak-card h4").textContent ?? "", /^analyst wants to run step 4$/);
  const words = panel.all(".ak-rep dt").map((one) => one.textContent?.replace(/, look at this$/, ""));
  assert.deepEqual(words, ["Reaches", "Writes", "Imports", "Reads"]);
  assert.match(panel.$(".ak-rep").textContent ?? "", /Does not delete\.$/);
});

test("no key approves while the card has the keyboard", page, async () => {
  const panel = await withHistory();
  button(panel, "Review").click();
  await soon();
  for (const key of ["Enter", " ", "a", "y", "c"])
    panel.$(".ak-card").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  await soon();
  assert.deepEqual(panel.asked("decide"), []);
});

test("approving says which step was seen, and the buttons go", page, async () => {
  const panel = await withHistory();
  button(panel, "Review").click();
  await soon();
  button(panel, "Approve and run").click();
  assert.equal(button(panel, "Approve and run"), undefined);
  await soon();
  assert.deepEqual(panel.asked("decide"), [{ run: "019a0c5f00b3d20e", step: 4, decision: "approve" }]);
});

test("denying asks for a reason first, and editing for the code", page, async () => {
  const panel = await withHistory();
  button(panel, "Review").click();
  await soon();
  button(panel, "Edit…").click();
  const area = /** @type {HTMLTextAreaElement} */ (panel.$(".ak-card textarea"));
  assert.match(area.value, /^import pyarrow/);
  button(panel, "Cancel").click();
  button(panel, "Deny…").click();
  /** @type {HTMLInputElement} */ (panel.$(".ak-card input")).value = "not outside";
  button(panel, "Deny").click();
  await soon();
  assert.deepEqual(panel.asked("decide"), [{ run: "019a0c5f00b3d20e", step: 4, decision: "deny", reason: "not outside" }]);
});

test("a step that was tried on a fork is accepted, with what it did there", page, () => {
  const history = withRuns();
  const waits = /** @type {string} */ (history.commits.find((commit) => commit.run?.status === "pending")?.run?.id);
  const run = runOf(waits, history);
  const asks = /** @type {Asks} */ (run.asks);
  asks.tried = [["Changed", "~", "df DataFrame 4 × 2 → 4 × 3", "on the fork"], ["Changed", "-", "old", "on the fork"], ["Returned", "", "int 4", "ends the run"]];
  asks.keeps = true;
  asks.note = "It ran to its end in a process of its own.";
  const card = new ApprovalCard(() => {}, () => {});
  card.show(run, { now: NOW, canAct: true, waits: "", step: asks.step, isGoing: false });
  assert.equal(card.element.querySelector("h4")?.textContent, "analyst tried step 4 beforehand");
  assert.match(card.element.querySelector(".ak-rep")?.textContent ?? "", /Changed~df DataFrame 4 × 2 → 4 × 3on the forkChanged−oldReturnedint 4ends the runDoes not delete\.$/);
  assert.equal(card.element.querySelector(".ak-card-note")?.textContent, asks.note);
  assert.equal(card.element.querySelector("button.ak-main")?.textContent, "Accept");
});

test("code that was typed stays while it is refused, and a denial's reason stays on the card", page, () => {
  const history = withRuns();
  const waits = /** @type {string} */ (history.commits.find((commit) => commit.run?.status === "pending")?.run?.id);
  const run = runOf(waits, history);
  const card = new ApprovalCard(() => {}, () => {});
  const look = { now: NOW, canAct: true, waits: "", step: 4, isGoing: false };
  card.show(run, look);
  /** @param {string} text */
  const press = (text) => [...card.element.querySelectorAll("button")].find((one) => one.textContent === text)?.click();
  press("Edit…");
  const field = () => /** @type {HTMLTextAreaElement} */ (card.element.querySelector("textarea"));
  field().value = "x = (";
  field().dispatchEvent(new Event("input"));
  card.show(run, { ...look, isGoing: true });
  card.show(run, look);
  assert.equal(field().value, "x = (");
  press("Cancel");
  press("Edit…");
  assert.match(field().value, /^import pyarrow/);
  const step = { ...run.steps[0], prompt: ".4", decided: "deny", decided_by: "ada", reason: "not on this disk" };
  card.show({ ...run, asks: null, steps: [/** @type {import("../history/protocol.js").RunStep} */ (step)] }, look);
  assert.match(card.element.textContent ?? "", /Step 4 of analyst was denied by ada.*not on this disk$/);
});

test("a run that was decided in another process is resumed from its card", page, () => {
  const history = withRuns();
  const waits = /** @type {string} */ (history.commits.find((commit) => commit.run?.status === "pending")?.run?.id);
  const run = runOf(waits, history);
  const step = /** @type {import("../history/protocol.js").RunStep} */ ({ ...run.steps[0], prompt: ".4", decided: "approve", decided_by: "ada", reason: "" });
  const stopped = { said: "step 4 was approved, but the run has not resumed", code: "", done: 3, refused: "", cell: "", at: 9, checked: true, died: false };
  const decided = { ...run, asks: null, status: /** @type {const} */ ("decided"), steps: [step], stopped };
  /** @type {string[]} */
  const resumed = [];
  const card = new ApprovalCard(() => {}, (one) => resumed.push(one.id));
  const look = { now: NOW, canAct: true, waits: "", step: 4, isGoing: false };
  card.show(decided, look);
  assert.match(card.element.textContent ?? "", /The run has not gone on yet; %agent resume lets it go on/);
  card.element.querySelector("button")?.click();
  assert.deepEqual(resumed, [run.id]);
  card.show(decided, { ...look, canAct: false });
  assert.equal(card.element.querySelector("button"), null);
});

test("a branch that nobody named is said in words, and is no branch to go to", page, async () => {
  const { refLabel } = await import("../history/refs.js");
  const label = refLabel({ kind: "aside", name: "candidate 2 of race ab12c", head: false, lane: 3, branch: "race/ab12c/2" });
  assert.equal(label.textContent, "candidate 2 of race ab12c");
  assert.equal(label.title, "On branch race/ab12c/2");
  assert.equal(label.querySelector("svg"), null);
});

test("a commit that candidates begin at is called by its cell where two are compared", page, async () => {
  const panel = await mounted();
  const ask = panel.store.ask.bind(panel.store);
  panel.store.ask = async (op, args) => {
    const found = /** @type {any} */ (await ask(op, args));
    const refs = [{ kind: "aside", name: "2 candidates of race ab12c", head: false, lane: 1, branch: "race/ab12c/1, race/ab12c/2" }];
    return op === "compare" ? { ...found, a: { ...found.a, refs }, b: { ...found.b, refs } } : found;
  };
  panel.list.focus();
  await panel.press("d", "ArrowDown", "ArrowDown", "d");
  await soon(30);
  const said = panel.all(".ak-compare-bar > .ak-side").slice(0, 2).map((side) => side.textContent ?? "");
  assert.equal(said.length, 2);
  for (const side of said) assert.match(side, /\[/);
  assert.doesNotMatch(said.join(" "), /candidates/);
});

test("what was decided elsewhere takes the place of the card", page, async () => {
  const panel = await withHistory();
  button(panel, "Review").click();
  await soon();
  for (const commit of panel.store.history.commits) if (commit.run?.status === "pending") commit.run.status = "completed";
  panel.store.moved();
  await soon(20);
  assert.equal(button(panel, "Approve and run"), undefined);
  assert.match(panel.$(".ak-detail:not([hidden]) .ak-meta").textContent ?? "", /done/);
});

test("a cost is told to the cent, and below that in two digits", () => {
  assert.deepEqual([0.0412, 1.5, 0, 0.00042].map(money), ["$0.04", "$1.50", "$0.00", "$0.00042"]);
});

test("a run that stopped is one amber row that says where, and Resume names it", page, async () => {
  const panel = await mounted({ store: { history: withStopped() } });
  await panel.to("Drop the outliers");
  const row = panel.row("Drop the outliers");
  assert.ok(row.classList.contains("ak-stopped"));
  assert.ok(row.querySelector(".ak-g .ak-cut"));
  assert.match(row.querySelector(".ak-s")?.textContent ?? "", /3 steps donestopped in step 4code: model\.fit/);
  assert.match(row.getAttribute("aria-label") ?? "", /3 steps done, stopped in step 4, tag/);
  assert.equal(row.querySelector(".ak-del"), null);
  const resume = /** @type {HTMLElement} */ (row.querySelector('[data-do="resume"]'));
  assert.equal(resume.title, "Resume run a7c12 of analyst");
  resume.click();
  await soon();
  assert.deepEqual(panel.asked("resume"), [{ run: "019a0c4e2b1a7c12", answer: "" }]);
});

test("where a run cannot go on its row and its details say why, and neither has a button", page, async () => {
  const refused = "step 3 of run a7c12 is on branch aside and not in the history here: %agent checkout aside goes there";
  const panel = await mounted({ store: { history: withStopped({ refused }) } });
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  assert.equal(panel.row("Drop the outliers").querySelector(".ak-refused")?.textContent, refused);
  assert.equal(panel.row("Drop the outliers").querySelector('[data-do="resume"]'), null);
  const meta = panel.$(".ak-detail:not([hidden]) .ak-meta").textContent ?? "";
  assert.ok(meta.includes("Stopped in step 4. Code of the step: model.fit"), meta);
  assert.ok(meta.includes(`You cannot resume it here. S${refused.slice(1)}.`), meta);
  assert.equal(button(panel, "Resume"), undefined);
});

test("Resume stands first in the details, and goes as it is pressed", page, async () => {
  const panel = await mounted({ store: { history: withStopped() } });
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  const resume = /** @type {HTMLElement} */ (panel.$(".ak-detail:not([hidden]) .ak-acts button"));
  assert.equal(resume.textContent, "Resume");
  resume.click();
  await soon();
  assert.deepEqual(panel.asked("resume"), [{ run: "019a0c4e2b1a7c12", answer: "" }]);
});

test("a run whose cell is not known any more goes on in a new one, where there is a notebook", page, async () => {
  /** @type {string[]} */
  const ran = [];
  const host = { runCell: (/** @type {string} */ source) => ran.push(source) > 0 };
  const panel = await mounted({ store: { history: withStopped({ cell: "%agent resume --run a7c12" }) }, host });
  await panel.to("Drop the outliers");
  /** @type {HTMLElement} */ (panel.row("Drop the outliers").querySelector('[data-do="resume"]')).click();
  await soon();
  assert.deepEqual(ran, ["%agent resume --run a7c12"]);
  assert.deepEqual(panel.asked("resume"), []);
});

test("without a kernel there is nothing to press", page, async () => {
  const panel = await mounted({ store: { history: withStopped(), kernel: false } });
  await panel.to("Drop the outliers");
  assert.equal(panel.row("Drop the outliers").querySelector('[data-do="resume"]'), null);
  assert.match(panel.row("Drop the outliers").textContent ?? "", /stopped in step 4/);
});

test("Resume is offered only where the kernel has looked whether the run can go on, on every page", page, async () => {
  const panel = await mounted({ store: { history: withStopped({ checked: false }) } });
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  assert.equal(panel.row("Drop the outliers").querySelector('[data-do="resume"]'), null);
  assert.equal(button(panel, "Resume"), undefined);
  assert.match(panel.row("Drop the outliers").textContent ?? "", /stopped in step 4/);
});

test("Resume comes where the kernel became free while somebody else answered", page, async () => {
  const panel = await mounted({ store: { history: withStopped({ checked: false }), delay: 5 }, wait: false });
  panel.store.history = withStopped(); // what was asked before is answered without it
  await soon(20);
  await panel.to("Drop the outliers");
  assert.ok(panel.row("Drop the outliers").querySelector('[data-do="resume"]'));
  assert.equal(panel.asked("open").length, 2);
});

test("a kernel that does not know whether a run can go on is not asked for ever, and again after the next cell", page, async () => {
  const panel = await mounted({ store: { history: withStopped({ checked: false }) } });
  await soon(20);
  assert.equal(panel.asked("open").length, 4);
  panel.store.tell({ busy: "[21]" });
  panel.store.history = withStopped();
  panel.store.tell({ busy: null });
  await soon();
  assert.equal(panel.asked("open").length, 5);
  await panel.to("Drop the outliers");
  assert.ok(panel.row("Drop the outliers").querySelector('[data-do="resume"]'));
});

test("the details of a run that was looked at under a busy kernel offer Resume once it is free", page, async () => {
  const panel = await mounted({ store: { history: withStopped({ checked: false }), busy: "[21]" } });
  await panel.to("Drop the outliers");
  await panel.press("Enter");
  await soon();
  assert.equal(button(panel, "Resume"), undefined);
  panel.store.history = withStopped();
  panel.store.tell({ busy: null });
  await soon(20);
  assert.ok([...panel.$(".ak-detail .ak-acts").querySelectorAll("button")].some((one) => one.textContent === "Resume"));
});
