import assert from "node:assert/strict";
import { test } from "node:test";

import { longHistory } from "./fixture/houses.js";
import { mounted, soon, withoutPage } from "./page.js";

const page = { skip: withoutPage };

test("while one searches the panel keeps the height that its list had", page, async () => {
  const panel = await mounted();
  const rest = () => /** @type {HTMLElement} */ (panel.$(".ak-panel")).style.getPropertyValue("--ak-rest");
  assert.equal(rest(), "auto");
  const field = /** @type {HTMLInputElement} */ (panel.$("[role=searchbox]"));
  field.value = "tag:nowhere";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await soon(300);
  assert.match(panel.text, /No commit matches/);
  assert.equal(rest(), "756px", "27 rows, of which the list shows what it has room for");
  assert.equal(panel.$(".ak-grip").hidden, false);
  await panel.click(panel.$(".ak-empty .ak-b"));
  await soon(20);
  assert.equal(rest(), "auto");
});

test("the code of a cell that ran again as it was is shown, and that it is as before", page, async () => {
  const { codeView } = await import("../history/code.js");
  const view = codeView({ about: "Cell [2] against its last run, [1]: the same code", lines: [] }, "a = 1\nb = 2");
  assert.match(view.textContent ?? "", /the same code.*a = 1.*b = 2/);
  assert.equal(view.querySelectorAll(".ak-plus, .ak-minus").length, 0);
  assert.match(codeView({ about: "No cell made this commit", lines: [] }, "").textContent ?? "", /This commit has no code/);
});

test("the list shows days, commits, folds, and how many commits there are", page, async () => {
  const panel = await mounted();
  assert.match(panel.text, /Today/);
  assert.match(panel.$(".ak-count").textContent ?? "", /^26 commits$/);
  assert.equal(panel.list.getAttribute("aria-rowcount"), "27");
  assert.match(panel.row("plot_errors").textContent ?? "", /\[20\.3\].*main.*analyst.*~fig 21 kB/);
});

test("mounting takes no focus", page, async () => {
  await mounted({ host: { start: { commit: "7c1e9f2" } } });
  assert.equal(document.activeElement, document.body);
});

test("asked for, it takes the keyboard into its list as soon as that is there, and H leaves a side panel", page, async () => {
  let left = 0;
  const panel = await mounted({ host: { compact: true, leave: () => (left += 1) }, wait: false });
  panel.panel.focus();
  assert.equal(document.activeElement, document.body);
  await soon(20);
  assert.equal(document.activeElement, panel.list);
  await panel.press("ArrowDown");
  assert.match(panel.activeRow, /\[20\.2\]/);
  await panel.press("?");
  assert.match(panel.$(".ak-keys").textContent ?? "", /Shift\+HClose, and go to the notebook/);
  await panel.press("Escape", "H");
  assert.equal(left, 1);
});

test("the panel keeps Lab's shortcuts away, and its own keys from the notebook", page, async () => {
  const panel = await mounted();
  assert.equal(panel.$(".ak-panel").dataset["lmSuppressShortcuts"], "true");
  let heard = 0;
  panel.root.addEventListener("keydown", () => (heard += 1));
  await panel.press("j", "d", "Escape", "b");
  assert.equal(heard, 0);
  panel.list.dispatchEvent(new KeyboardEvent("keydown", { key: "s", ctrlKey: true, bubbles: true }));
  assert.equal(heard, 1);
});

test("of ten thousand commits fewer than forty rows stand in the page, and one page is asked for", page, async () => {
  const panel = await mounted({ store: { history: longHistory(10_000) } });
  assert.ok(panel.all(".ak-row").length < 40);
  assert.deepEqual(
    panel.store.calls.map(([op]) => op),
    ["open"],
  );
});

test("scrolling asks for the page that comes into view", page, async () => {
  const panel = await mounted({ store: { history: longHistory(1000) } });
  panel.list.scrollTop = 500 * 28;
  panel.list.dispatchEvent(new Event("scroll"));
  await soon(20);
  assert.deepEqual(
    panel.asked("rows").map((args) => args["from"]),
    [450, 500],
  );
  assert.match(panel.text, /step_49\d/);
  assert.ok(panel.all(".ak-row").length < 40);
});

test("arrows, letters, Home and End move the active row, and pass over days", page, async () => {
  const panel = await mounted();
  assert.match(panel.activeRow, /\[20\.3\]/);
  await panel.press("ArrowDown", "j");
  assert.match(panel.activeRow, /\[20\.1\]/);
  await panel.press("k");
  assert.match(panel.activeRow, /\[20\.2\]/);
  await panel.press("End");
  assert.match(panel.activeRow, /\[1\]/);
  await panel.press("Home");
  assert.match(panel.activeRow, /\[20\.3\]/);
});

test("→ opens a fold and ← closes it, and the active row stays where it is", page, async () => {
  const panel = await mounted();
  for (let at = 0; at < 16; at += 1) await panel.press("ArrowDown");
  assert.match(panel.activeRow, /3 cells that changed nothing/);
  await panel.press("ArrowRight");
  assert.match(panel.text, /df\.describe\(\)/);
  assert.match(panel.activeRow, /3 cells that changed nothing/);
  await panel.press("ArrowLeft");
  assert.doesNotMatch(panel.text, /df\.describe\(\)/);
});

test("a click opens the details, and Esc closes them", page, async () => {
  const panel = await mounted();
  await panel.click(panel.row("Merge ridge"));
  assert.match(panel.$(".ak-detail h4").textContent ?? "", /Merge ridge into main/);
  assert.equal(panel.row("Merge ridge").getAttribute("aria-selected"), "true");
  await panel.press("Escape");
  assert.equal(panel.$(".ak-detail").hidden, true);
});

test("changes show what was and what is, with a table opened", page, async () => {
  const panel = await mounted({ host: { start: { commit: "7c1e9f2" } } });
  await soon(30);
  const text = panel.$(".ak-detail").textContent ?? "";
  assert.match(text, /Changes 6.*Code.*\+6 −3.*Outputs.*6/);
  assert.match(text, /1,460 × 8→1,460 × 9DataFrame118 → 130 kB/);
  assert.match(text, /not saved: a database connection\. \[3\] makes a new one\./);
  assert.equal(panel.$("td.ak-other").textContent, "1,033.0 96.0");
  assert.equal(panel.$('[aria-label="Details of area_z"]').getAttribute("aria-expanded"), "true");
});

test("a name that is not saved stands once, as that, and a click says all of why", page, async () => {
  const panel = await mounted();
  const ask = panel.store.ask.bind(panel.store);
  const fh = { name: "fh", how: "+", type: "_io.TextIOWrapper", old: "", new: "", old_size: null, new_size: 103, opens: false };
  const gap = { name: "fh", type: "_io.TextIOWrapper", reason: "an open file on /tmp/x", remedy: "run cell [13] again to have it back" };
  panel.store.ask = async (op, args) => {
    const found = /** @type {any} */ (await ask(op, args));
    return op === "commit" ? { ...found, changes: [fh, { ...fh, name: "n" }], unsaved: [gap] } : found;
  };
  await panel.click(panel.row("Merge ridge"));
  assert.deepEqual(panel.all(".ak-v .ak-nm").map((one) => one.textContent), ["n", "fh"]);
  assert.match(panel.$(".ak-tabs").textContent ?? "", /^Changes 2/);
  const fold = panel.$('[aria-label="Details of fh"]');
  assert.equal(fold.getAttribute("aria-expanded"), "false");
  await panel.click(/** @type {HTMLElement} */ (fold.closest(".ak-v")));
  assert.equal(panel.$(".ak-x:not([hidden])").textContent, "Not saved: an open file on /tmp/x. Run cell [13] again to have it back.");
});

test("a preview that fails says so in its place, and can be tried again", page, async () => {
  const panel = await mounted({ host: { start: { compare: { a: "log-price", b: "main", name: "alpha" } } } });
  await soon(30);
  assert.match(panel.text, /This preview could not be made: the stored preview of alpha is damaged\. Try again/);
});

test("details follow the keyboard while they are open", page, async () => {
  const panel = await mounted();
  await panel.press("Enter", "ArrowDown");
  await soon(180);
  assert.match(panel.$(".ak-detail h4").textContent ?? "", /summary = scores/);
  assert.equal(panel.asked("commit").length, 2);
});

test("what another commit's details offer cannot be pressed while the next ones are on their way", page, async () => {
  const panel = await mounted();
  await panel.click(panel.row("Merge ridge"));
  const ask = panel.store.ask.bind(panel.store);
  /** @type {() => void} */
  let answer = () => {};
  const here = new Promise((resolve) => (answer = () => resolve(null)));
  panel.store.ask = async (op, args) => {
    if (op === "commit") await here;
    return /** @type {any} */ (await ask(op, args));
  };
  panel.row("summary = scores").click();
  const checkOut = () => /** @type {HTMLElement} */ (panel.all(".ak-detail .ak-acts button").find((one) => one.textContent === "Check out"));
  assert.match(panel.$(".ak-detail h4").textContent ?? "", /Merge ridge/, "it stays in view");
  assert.equal(checkOut().getAttribute("aria-disabled"), "true");
  checkOut().click();
  assert.equal(panel.all('[role="dialog"]').length, 0);
  answer();
  await soon(30);
  assert.match(panel.$(".ak-detail h4").textContent ?? "", /summary = scores/);
  await panel.click(checkOut());
  assert.match(panel.$('[role="dialog"]').getAttribute("aria-label") ?? panel.$('[role="dialog"]').textContent ?? "", /\[\d+\]|summary/);
});

test("details that are closed leave nothing behind for the next ones", page, async () => {
  const panel = await mounted();
  await panel.click(panel.row("Merge ridge"));
  await panel.press("Escape");
  panel.row("summary = scores").click();
  assert.equal(panel.all(".ak-detail:not([hidden]) .ak-acts button").length, 0);
});

test("stored markup is shown in a frame that can run nothing", page, async () => {
  const panel = await mounted({ host: { start: { commit: "7c1e9f2" } } });
  await soon(30);
  await panel.click(panel.button("Outputs"));
  const frame = panel.$("iframe");
  assert.equal(frame.getAttribute("sandbox"), "");
  assert.match(/** @type {HTMLIFrameElement} */ (frame).srcdoc, /Content-Security-Policy" content="default-src 'none'/);
  assert.equal(panel.all(".ak-panel script").length, 0);
});

test("names from a store are text, whatever they hold", page, async () => {
  const panel = await mounted();
  const commit = panel.store.history.commits[0];
  if (commit) commit.subject = "<img src=x onerror=alert(1)>";
  panel.store.history.refs = [{ name: "<b>x</b>", kind: "branch", id: commit?.id ?? "" }];
  panel.store.moved();
  await soon(30);
  assert.equal(panel.all("img, .ak-row b").length, 0);
  assert.match(panel.text, /<img src=x onerror=alert\(1\)>/);
});

test("a finished token becomes a chip, and Backspace takes it back to be edited", page, async () => {
  const panel = await mounted();
  const input = /** @type {HTMLInputElement} */ (panel.$(".ak-find input"));
  input.value = "var:df ";
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await soon(250);
  assert.equal(panel.$(".ak-tok").firstChild?.textContent, "var:df");
  assert.equal(panel.$(".ak-count").textContent, "5 of 26");
  assert.ok(panel.all("mark").length > 5);
  input.setSelectionRange(0, 0);
  input.dispatchEvent(new KeyboardEvent("keydown", { key: "Backspace", bubbles: true }));
  assert.equal(input.value, "var:df");
  assert.equal(panel.all(".ak-tok").length, 0);
});

test("what nothing matches is said, with a way back", page, async () => {
  const panel = await mounted({ host: { start: { text: "is:error conn" } } });
  assert.match(panel.text, /No commit matches is:error conn\./);
  await panel.click(panel.button("Clear search"));
  assert.match(panel.$(".ak-count").textContent ?? "", /26/);
});

test("the filters are pressed one at a time", page, async () => {
  const panel = await mounted();
  await panel.click(panel.button("Errors"));
  assert.equal(panel.$(".ak-count").textContent, "2 of 26");
  assert.deepEqual(
    panel.all(".ak-seg .ak-b").map((button) => button.getAttribute("aria-pressed")),
    ["false", "false", "true"],
  );
});

test("an open comparison calls its sides what they are called now", page, async () => {
  const panel = await mounted({ host: { start: { compare: { a: "log-price", b: "main", name: "" } } } });
  await soon(30);
  assert.equal(panel.all(".ak-compare .ak-head").length, 1);
  const asked = panel.asked("compare").length;
  const focused = panel.button("Swap sides");
  focused.focus();
  panel.store.history.refs.push({ name: "kept", kind: "branch", id: panel.store.history.refs.find(({ name }) => name === "main")?.id ?? "" });
  const main = panel.store.history.refs.find(({ name }) => name === "main");
  if (main) main.id = panel.store.history.commits.at(-1)?.id ?? "";
  panel.store.moved();
  await soon(30);
  assert.equal(panel.all(".ak-compare .ak-head").length, 0, "main is elsewhere");
  assert.match(panel.$(".ak-compare-bar").textContent ?? "", /log-price.*kept/);
  assert.equal(document.activeElement, focused);
  assert.equal(panel.asked("compare").length, asked);
});

test("all packages are listed for who asks", page, async () => {
  const panel = await mounted({ host: { start: { commit: "7c1e9f2" } } });
  await soon(30);
  await panel.click(panel.button("Environment"));
  const list = panel.$('[aria-label="All packages"]');
  assert.equal(list.hidden, true);
  await panel.click(panel.button("Show all"));
  assert.equal(list.hidden, false);
  assert.match(list.textContent ?? "", /numpy 2\.1\.0pandas 2\.2\.3/);
});

test("a mark goes with Esc, and with the comparison that it was made for", page, async () => {
  const panel = await mounted();
  await panel.press("ArrowDown", "d", "Enter", "Escape");
  assert.doesNotMatch(panel.text, /marked/);
  assert.equal(panel.$(".ak-detail").hidden, false, "the details close with the next one");
  await panel.press("Escape", "d", "ArrowDown", "d");
  await soon(20);
  assert.equal(panel.$(".ak-compare").hidden, false);
  await panel.press("Escape", "Enter");
  await soon(20);
  assert.doesNotMatch(panel.text, /marked/);
  assert.deepEqual(Object.keys(panel.asked("commit").at(-1) ?? {}), ["id"], "against its parent");
});

test("d marks, and d on a second commit compares the two", page, async () => {
  const panel = await mounted();
  panel.list.focus();
  await panel.press("d", "ArrowDown", "ArrowDown");
  assert.match(panel.row("plot_errors").textContent ?? "", /marked/);
  await panel.press("d");
  await soon(20);
  assert.equal(panel.$(".ak-compare").hidden, false);
  assert.match(panel.$(".ak-compare").textContent ?? "", /Variables 8.*11 variables are the same on both sides/);
  await panel.press("Escape");
  assert.equal(panel.$(".ak-compare").hidden, true);
});

test("x swaps the sides of a comparison", page, async () => {
  const panel = await mounted({ host: { start: { compare: { a: "log-price", b: "main" } } } });
  panel.$(".ak-compare").dispatchEvent(new KeyboardEvent("keydown", { key: "x", bubbles: true }));
  await soon(20);
  assert.deepEqual(
    panel.asked("compare").map(({ a, b }) => `${a} ${b}`),
    ["log-price main", "main log-price"],
  );
});

test("an empty store says what comes, and offers what there is already", page, async () => {
  const none = { commits: [], refs: [], head: { branch: "main", id: null } };
  const panel = await mounted({ store: { history: none, unsaved: 14 } });
  assert.match(panel.text, /No history yet.*Commit the 14 variables you have now/);
  assert.doesNotMatch((await mounted({ store: { history: none } })).text, /Commit the/);
});

test("without a kernel what needs one is left out", page, async () => {
  let started = 0;
  const panel = await mounted({ store: { kernel: false }, host: { startKernel: () => (started += 1) } });
  assert.match(panel.text, /No kernel\. You can look, search and compare; checking out needs one\./);
  assert.doesNotMatch(panel.text, /Check out/);
  await panel.press("c", "r", "u");
  assert.equal(panel.all(".ak-float").length, 0);
  await panel.click(panel.button("Start kernel"));
  assert.equal(started, 1);
});

test("a store that cannot be read says why, and is tried again", page, async () => {
  const panel = await mounted({ store: { fails: { open: "the store is not there any more" } } });
  assert.match(panel.text, /The history could not be read.*the store is not there any more/);
  panel.store.fails = {};
  await panel.click(panel.button("Try again"));
  assert.match(panel.$(".ak-count").textContent ?? "", /26 commits/);
});

test("a new commit comes at the top, and the active row stays with its commit", page, async () => {
  const panel = await mounted();
  await panel.press("ArrowDown", "ArrowDown");
  const { commits, head } = panel.store.history;
  commits.unshift({ .../** @type {any} */ (commits[0]), id: "f".repeat(40), prompt: "[21]", parents: [head.id ?? ""] });
  panel.store.history.head = { branch: "main", id: "f".repeat(40) };
  panel.store.moved();
  await soon(30);
  assert.match(panel.text, /\[21\]/);
  assert.match(panel.activeRow, /\[20\.1\]/);
});

test("a page that cannot be read says so above the list, and the rows that are here stay", page, async () => {
  const panel = await mounted({ store: { history: longHistory(1000) } });
  panel.store.fails = { rows: "the disk went away" };
  panel.list.scrollTop = 500 * 28;
  panel.list.dispatchEvent(new Event("scroll"));
  await soon(20);
  assert.match(panel.$(".ak-strip").textContent ?? "", /The history could not be read: the disk went away/);
  panel.store.fails = {};
  panel.store.moved();
  await soon(30);
  assert.equal(panel.$(".ak-strip").hidden, true);
});

test("a change that is told of while the history is being read is not missed", page, async () => {
  const panel = await mounted({ store: { delay: 30 }, wait: false });
  panel.store.history.refs.push({ name: "late", kind: "tag", id: panel.store.history.commits[1]?.id ?? "" });
  panel.store.moved();
  await soon();
  assert.match(panel.text, /late/);
  assert.equal(panel.asked("open").length, 2);
});

test("an active commit that has gone from the store leaves the top of the list", page, async () => {
  const panel = await mounted();
  await panel.press("ArrowDown", "ArrowDown");
  panel.store.fails = { locate: "no such commit" };
  panel.store.history.commits.splice(2, 1);
  panel.store.moved();
  await soon(30);
  assert.match(panel.activeRow, /\[20\.3\]/);
  assert.equal(panel.$(".ak-strip").hidden, true);
});

test("long code is in two parts only where it does not fit", page, async () => {
  const panel = await mounted();
  assert.equal(panel.row("[18]").querySelectorAll(".ak-mid").length, 0);
  const commit = panel.store.history.commits[0];
  if (commit) commit.subject = `frame = ${"merge(left, right, on='id'), ".repeat(8)}done()`;
  panel.store.history.refs.push({ name: "x", kind: "tag", id: commit?.id ?? "" });
  panel.store.moved();
  await soon(30);
  assert.equal(panel.$(".ak-mid").lastChild?.textContent?.length, 14);
});

test("the grip gives the list another height with ↑ and ↓, and the height is remembered", page, async () => {
  const panel = await mounted({ host: { storageKey: "grip-test" } });
  const grip = panel.$(".ak-grip");
  grip.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, cancelable: true }));
  const height = panel.$(".ak-panel").style.getPropertyValue("--ak-height");
  assert.equal(height, `${grip.getAttribute("aria-valuenow")}px`);
  const again = await mounted({ host: { storageKey: "grip-test" } });
  assert.equal(again.$(".ak-panel").style.getPropertyValue("--ak-height"), height);
});

test("a panel that is taken away leaves no listener and no timer behind", page, async () => {
  const panel = await mounted();
  panel.panel.dispose();
  assert.equal(panel.root.childNodes.length, 0);
  assert.equal(panel.store.listeners.size, 0);
});
