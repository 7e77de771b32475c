/** The card of a question, under its cell and in the details of its run. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { mountCard } from "../history/card.js";
import { runOf } from "./fixture/answers.js";
import { withRuns } from "./fixture/houses.js";
import { soon, withoutPage } from "./page.js";

/** @import { Done, Queued, RunDetails, State } from "../history/protocol.js" */

const page = { skip: withoutPage };
const ASKED = { number: 1, text: "Which one?", asked_ms: 0, answered: false, answer: "", answered_by: "" };
const STATE = { version: "1", busy: null, queued: null, failed: null, done: null, undo: null, cells: null, store: "s", kernel: true, gone: null };

/** The card of a run's first question, and what its kernel hears. */
async function asking({ act = async () => /** @type {Done | Queued | {}} */ ({}) } = {}) {
  const history = withRuns();
  const id = /** @type {string} */ (history.commits.find((commit) => commit.run?.status === "pending")?.run?.id);
  /** @type {{ run: RunDetails, acts: unknown[], tell: (state: Partial<State>) => void }} */
  const seen = { run: { ...runOf(id, history), status: "clarify", asks: null, question: "Which one?", questions: [ASKED] }, acts: [], tell: () => {} };
  const transport = {
    ask: async () => seen.run,
    act: async (/** @type {string} */ op, /** @type {object} */ args) => (seen.acts.push([op, args]), act()),
    canAct: () => true,
    onState: (/** @type {(state: object) => void} */ tell) => ((seen.tell = (state) => tell({ ...STATE, ...state })), tell(STATE), () => {}),
  };
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  mountCard(root, /** @type {any} */ (transport), {}, { run: id, number: 1 });
  await soon(5);
  const field = () => /** @type {HTMLInputElement} */ (root.querySelector("input"));
  const say = async (/** @type {string} */ text) => {
    field().value = text;
    field().dispatchEvent(new Event("input"));
    field().form?.dispatchEvent(new Event("submit", { cancelable: true })); // as Enter in the field does
    await soon(5);
  };
  const answered = () => (seen.run = { ...seen.run, status: "running", question: "", questions: [{ ...ASKED, answered: true, answer: "the left one", answered_by: "ada" }] });
  return { root, id, seen, field, say, answered, shows: () => root.textContent ?? "" };
}

test("the card asks by a name, and its field and its button have theirs; no focus is taken", page, async () => {
  const { root, field } = await asking();
  const card = root.querySelector("[role=group]");
  const named = (/** @type {string | null | undefined} */ id) => document.getElementById(id ?? "")?.textContent;
  assert.match(named(card?.getAttribute("aria-labelledby")) ?? "", /asks you$/);
  assert.match(field().labels?.[0]?.textContent ?? "", /^Answer to /);
  assert.equal(named(field().getAttribute("aria-describedby")), "Which one?");
  assert.equal(root.querySelector("button")?.textContent, "Answer");
  assert.equal(root.contains(document.activeElement), false);
});

test("Enter sends the answer to the question that was seen, once; an empty one is none", page, async () => {
  const { id, seen, field, say, shows } = await asking();
  await say("  ");
  assert.deepEqual(seen.acts, []);
  await say(" the left one ");
  assert.deepEqual(seen.acts, [["resume", { run: id, answer: "the left one", question: 1 }]]);
  assert.equal(field(), null);
  assert.match(shows(), /The run goes on$/);
});

test("what was answered, here or anywhere else, takes the place of the field", page, async () => {
  const { root, seen, answered, shows } = await asking();
  answered();
  seen.tell({ version: "2" });
  await soon(5);
  assert.match(shows(), /^ada answered .*The run goes onWhich one\?the left one$/);
  assert.equal(root.querySelector("input, button"), null);
});

test("an answer that is refused at once or later stays in the field, and the card says why", page, async () => {
  const refused = await asking({ act: async () => Promise.reject(new Error("somebody else drives it")) });
  await refused.say("this");
  assert.equal(refused.field().value, "this");
  assert.equal(refused.root.querySelector("[role=alert]")?.textContent, "somebody else drives it");
  const later = await asking();
  await later.say("that");
  later.seen.tell({ failed: { text: "It is not in the history here.", code: "refused" } });
  assert.equal(later.field().value, "that");
  assert.equal(later.root.querySelector("[role=alert]")?.textContent, "It is not in the history here.");
});

test("while a cell runs the answer waits, and the card says so", page, async () => {
  const { seen, say, shows } = await asking();
  await say("this");
  seen.tell({ busy: "[3]", queued: { op: "resume", label: "analyst", id: "" } });
  assert.match(shows(), /A cell is running\. The agent has your answer when it ends\.$/);
});

test("what is typed is not the notebook's, and stays while the history moves", page, async () => {
  const { root, seen, field } = await asking();
  const heard = [];
  document.body.addEventListener("keydown", (event) => heard.push(event.key), { once: true });
  field().focus();
  field().value = "th";
  field().dispatchEvent(new Event("input"));
  field().dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true }));
  seen.tell({ version: "2" });
  await soon(5);
  assert.deepEqual([heard, field().value, document.activeElement === field()], [[], "th", true]);
  assert.equal(root.querySelector(".ak-alone")?.getAttribute("data-lm-suppress-shortcuts"), "true");
});
