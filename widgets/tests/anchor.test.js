/** What stands under the pointer, or has the keyboard, stays where it is when commits come. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { become } from "../shared/dom.js";
import { longHistory } from "./fixture/houses.js";
import { mounted, soon, withoutPage } from "./page.js";

/** @import { Mounted } from "./page.js" */

const page = { skip: withoutPage };
const ROW_PX = 28;

/** A cell runs: its commit comes at the top. @param {Mounted} panel @param {string} prompt */
async function commit(panel, prompt) {
  const { history } = panel.store;
  const id = prompt.replace(/\D/g, "").padStart(40, "f");
  const [newest] = history.commits;
  history.commits.unshift({ .../** @type {any} */ (newest), id, prompt, parents: [history.head.id ?? ""], took_s: 0.5 });
  history.head = { branch: "main", id };
  for (const ref of history.refs) if (ref.name === "main") ref.id = id;
  panel.store.moved();
  await soon(30);
}

/** @param {Element} element @param {string} kind */
const point = (element, kind = "pointerover") => element.dispatchEvent(new Event(kind, { bubbles: true }));
const nodes = (/** @type {Mounted} */ panel) => new Map(panel.all(".ak-row").map((row) => [row.querySelector(".ak-n")?.textContent || row.textContent, row]));

test("a row keeps its element, and its buttons, when a commit comes above it", page, async () => {
  const panel = await mounted();
  const before = nodes(panel);
  const button = panel.row("[20.3]").querySelector("[data-do=checkout]"); // its branch goes on, so this row says less
  await commit(panel, "[21]");
  for (const [name, row] of nodes(panel)) if (name !== "[21]" && before.has(name)) assert.equal(row, before.get(name), name ?? "");
  assert.equal(panel.row("[20.3]").querySelector("[data-do=checkout]"), button);
  assert.equal(panel.row("[20.3]").querySelector(".ak-ref"), null);
  const order = panel.all(".ak-row").map((row) => Number(row.dataset["at"]));
  assert.deepEqual(order, [...order].sort((a, b) => a - b), "in the order of the list");
  const click = button instanceof HTMLElement ? panel.click(button) : null;
  await click;
  assert.match(panel.text, /Check out \[20\.3\]/, "what the button is of is what it is about");
});

test("at its top the list shows what comes, as long as nobody points at it", page, async () => {
  const panel = await mounted();
  await commit(panel, "[21]");
  assert.equal(panel.list.scrollTop, 0);
  assert.equal(panel.$(".ak-newer").hidden, true);
});

test("under the pointer nothing moves: what comes is above, a button says so, and leaving the list shows it", page, async () => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  const row = panel.all(".ak-row")[4];
  assert.ok(row);
  point(row);
  await commit(panel, "[900]");
  await commit(panel, "[901]");
  assert.equal(panel.list.scrollTop, 2 * ROW_PX);
  assert.match(panel.$(".ak-newer").textContent ?? "", /2 new rows/);
  assert.equal(panel.$(".ak-newer").hidden, false);
  point(panel.list, "pointerleave");
  assert.equal(panel.list.scrollTop, 0);
  assert.equal(panel.$(".ak-newer").hidden, true);
});

test("a pointer that lies still holds nothing: cells are run by key", page, async (context) => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  const row = panel.all(".ak-row")[4];
  assert.ok(row);
  point(row);
  await commit(panel, "[900]");
  assert.equal(panel.list.scrollTop, ROW_PX);
  const later = Date.now() + 6_000;
  context.mock.method(Date, "now", () => later);
  point(panel.all(".ak-row")[5] ?? row); // the rows moved under it
  await commit(panel, "[901]");
  assert.equal(panel.list.scrollTop, 0);
  assert.equal(panel.$(".ak-newer").hidden, true);
  point(row, "pointerdown");
  await commit(panel, "[902]");
  context.mock.method(Date, "now", () => later + 60_000);
  await commit(panel, "[903]");
  assert.equal(panel.list.scrollTop, 2 * ROW_PX, "a button that is held down is held");
});

test("the button leads to what came, and does not lie on the row that is pointed at", page, async () => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  const row = panel.all(".ak-row")[1];
  assert.ok(row);
  point(row);
  await commit(panel, "[900]");
  assert.equal(panel.$(".ak-newer").hidden, true, "that row is the first one seen");
  const lower = panel.all(".ak-row")[6];
  assert.ok(lower);
  point(lower);
  await panel.click(panel.$(".ak-newer"));
  assert.equal(panel.list.scrollTop, 0);
});

test("the active row stays where it is seen while the list has the keyboard", page, async () => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  panel.list.focus();
  await panel.press("ArrowDown", "ArrowDown");
  const { activeRow } = panel;
  await commit(panel, "[900]");
  assert.equal(panel.activeRow, activeRow);
  assert.equal(panel.list.scrollTop, ROW_PX);
  panel.list.blur();
  await soon(5);
  assert.equal(panel.list.scrollTop, 0);
});

test("what the reader did by themselves is seen at once", page, async () => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  panel.list.focus();
  const row = panel.all(".ak-row")[4];
  assert.ok(row);
  point(row);
  const act = panel.store.act.bind(panel.store);
  panel.store.act = async (/** @type {any} */ op, /** @type {any} */ args) => {
    if (op === "checkout") await commit(panel, "[900]");
    return act(op, args);
  };
  await panel.press("ArrowDown", "ArrowDown", "c");
  const answer = panel.all(".ak-float button").find((one) => one.textContent === "Check out");
  assert.ok(answer);
  await panel.click(answer);
  await soon(60);
  assert.match(panel.text, /\[900\]/);
  assert.equal(panel.list.scrollTop, 0);
  await commit(panel, "[901]");
  assert.equal(panel.list.scrollTop, ROW_PX, "what comes later is held again");
});

test("a list that was scrolled by hand stays at its place", page, async () => {
  const panel = await mounted({ store: { history: longHistory(200) } });
  panel.list.scrollTop = 20 * ROW_PX;
  panel.list.dispatchEvent(new Event("scroll"));
  await soon(20);
  await commit(panel, "[900]");
  assert.equal(panel.list.scrollTop, 21 * ROW_PX);
  assert.equal(panel.$(".ak-newer").hidden, true);
});

test("an element becomes a newer one and keeps what is the same", page, () => {
  const from = document.createElement("div");
  const to = document.createElement("div");
  from.innerHTML = '<i class="a" data-held title="x">one<b class="c">1</b></i><button class="b">go</button>';
  to.innerHTML = '<u class="n">new</u><i class="a">two<b class="c">2</b></i><button class="b">go</button>';
  const [a, b] = [...from.children];
  const c = from.querySelector(".c");
  become(from, to);
  assert.deepEqual([...from.children].slice(1), [a, b]);
  assert.equal(from.querySelector(".c"), c);
  assert.equal(from.innerHTML, '<u class="n">new</u><i class="a" data-held="">two<b class="c">2</b></i><button class="b">go</button>');
});
