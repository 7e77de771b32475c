import assert from "node:assert/strict";
import { test } from "node:test";

import { PAGE } from "./fixture/answers.js";
import { FixtureTransport } from "./fixture/transport.js";
import { mounted, soon, withoutPage } from "./page.js";

const page = { skip: withoutPage };

/** Merge a branch from the list of branches, and look at what both sides changed. @param {import("./page.js").Panel} panel */
async function askConflicts(panel) {
  await panel.press("g");
  await soon(20);
  await panel.click(panel.button("Merge into main…"));
  await panel.click(panel.button("log-price"));
  await soon(20);
  await panel.click(panel.button("Choose…"));
  await soon(20);
}

/** @param {import("./page.js").Mounted} panel @param {string} text of a row */
async function askCheckout(panel, text) {
  const button = panel.row(text).querySelector("[data-do=checkout]");
  await panel.click(/** @type {HTMLElement} */ (button));
  await soon(20);
}

/** @param {string[]} restored */
const notebook = (restored) => ({
  cells: () =>
    PAGE.cells.map((cell, at) => ({ ...cell, source: at === 1 ? "changed" : cell.source, prompt: `[${at + 1}]` })),
  restoreCells: (/** @type {{ name: string }} */ { name }) => restored.push(name) > 0,
});

test(
  "a check out first says what it changes, what it cannot bring back, and what becomes of the cells",
  page,
  async () => {
    const panel = await mounted({ host: notebook([]) });
    await askCheckout(panel, "Merge ridge");
    const text = panel.$(".ak-pop").textContent ?? "";
    assert.match(text, /^Check out “Merge ridge into main”\?~Changes 3df, fig, scores−Removes 1summary!Can't restore/);
    assert.match(
      text,
      /conn, a database connection\. The one open now stays; \[3\] makes a new one\.Notebook1 cell will change: \[2\]/,
    );
    assert.match(
      text,
      /What you have now stays on main\..*Variables and codeVariablesCodeCheck outCancelloads 142 kB$/,
    );
    assert.equal(document.activeElement?.textContent, "Check out");
  },
);

test("the question says what is chosen does, and no more", page, async () => {
  const panel = await mounted({ host: notebook([]) });
  await askCheckout(panel, "Merge ridge");
  const said = (/** @type {string} */ what) => {
    const choice = /** @type {HTMLInputElement} */ (panel.$(`.ak-opt input[value=${what}]`));
    choice.checked = true;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
    return panel.$(".ak-would").textContent + panel.$(".ak-pop .ak-foot").textContent;
  };
  assert.equal(said("code"), "Notebook1 cell will change: [2]The variables stay as they are.Check outCancel");
  assert.match(said("variables"), /^~Changes 3.*What you have now stays on main\..*loads 142 kB$/);
  assert.doesNotMatch(said("variables"), /Notebook|cell will change/);
  assert.match(said("both"), /^~Changes 3.*Notebook1 cell will change.*new branch.*loads 142 kB$/);
});

test("cells without a number are counted where cells are named", page, async () => {
  const cells = () => [...notebook([]).cells(), { id: "new", type: /** @type {const} */ ("code"), source: "", prompt: "" }];
  const panel = await mounted({ host: { ...notebook([]), cells } });
  await askCheckout(panel, "Merge ridge");
  assert.match(panel.$(".ak-would").textContent ?? "", /2 cells will change: \[2\] and 1 without a number/);
});

test("cells that were written in while the question stood are counted again before anything is done", page, async () => {
  /** @type {string[]} */
  const restored = [];
  let typed = "";
  const cells = () => notebook([]).cells().map((cell, at) => (at === 0 ? { ...cell, source: cell.source + typed } : cell));
  const panel = await mounted({ host: { ...notebook(restored), cells } });
  await askCheckout(panel, "Merge ridge");
  typed = "# more";
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual([panel.asked("checkout"), restored], [[], []]);
  assert.match(panel.$(".ak-pop").textContent ?? "", /2 cells will change: \[1\], \[2\].*The notebook has changed since you were asked\./);
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual([panel.asked("checkout").length, restored], [1, ["houses.ipynb"]]);
});

test("Esc leaves the question, nothing is done, and the focus goes back to the list", page, async () => {
  const panel = await mounted();
  panel.list.focus();
  await panel.press("ArrowDown", "c");
  await soon(20);
  await panel.press("Escape");
  assert.equal(panel.all(".ak-float").length, 0);
  assert.equal(document.activeElement, panel.list);
  assert.deepEqual(panel.asked("checkout"), []);
});

test(
  "variables and code: the kernel does the one, the document gets the other, and Undo is offered",
  page,
  async () => {
    /** @type {string[]} */
    const restored = [];
    const panel = await mounted({ host: notebook(restored) });
    await askCheckout(panel, "Merge ridge");
    await panel.click(panel.$(".ak-pop .ak-main"));
    assert.deepEqual(
      panel.asked("checkout").map(({ what }) => what),
      ["both"],
    );
    assert.deepEqual(restored, ["houses.ipynb"]);
    assert.match(
      panel.$(".ak-toast").textContent ?? "",
      /^Checked out “Merge ridge into main”: 3 variables changed, 1 removed\. conn stays as it is\.Undo/,
    );
    await panel.click(panel.button("Undo"));
    const [{ head } = { head: "" }] = panel.asked("undo");
    assert.match(head, /^[0-9a-f]{40,64}$/, "where HEAD was when the way back was offered");
  },
);

test("what was done is said where it stays too, for the cell of the panel may have gone", page, async () => {
  /** @type {any[]} */
  const said = [];
  for (const compact of [false, true]) {
    const host = { ...notebook([]), compact, say: (/** @type {any} */ done) => said.push(done) };
    const panel = await mounted({ host });
    await askCheckout(panel, "Merge ridge");
    await panel.click(panel.$(".ak-pop .ak-main"));
  }
  assert.deepEqual(said.map(({ text, next }) => [text.slice(0, 11), next]), [["Checked out", "undo"]], "not beside the notebook");
});

test("variables alone leave the document alone", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const panel = await mounted({ host: notebook(restored) });
  await askCheckout(panel, "Merge ridge");
  const choice = /** @type {HTMLInputElement} */ (panel.$(".ak-opt input[value=variables]"));
  choice.checked = true;
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual(
    panel.asked("checkout").map(({ what }) => what),
    ["variables"],
  );
  assert.deepEqual(restored, []);
});

test("code alone asks nothing of the kernel", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const panel = await mounted({ host: notebook(restored) });
  await askCheckout(panel, "Merge ridge");
  /** @type {HTMLInputElement} */ (panel.$(".ak-opt input[value=code]")).checked = true;
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual(panel.asked("checkout"), []);
  assert.deepEqual(restored, ["houses.ipynb"]);
  assert.match(
    panel.$(".ak-toast").textContent ?? "",
    /Brought back the code of “Merge ridge into main”: 1 cell changed\./,
  );
});

test(
  "where the document cannot be reached, its cells are written to a file, and the panel says where",
  page,
  async () => {
    const panel = await mounted();
    await askCheckout(panel, "Merge ridge");
    assert.match(panel.$(".ak-pop").textContent ?? "", /its cells go to houses@[0-9a-f]{7}\.ipynb, beside it/);
    await panel.click(panel.$(".ak-pop .ak-main"));
    await soon(20);
    assert.equal(panel.asked("write_notebook").length, 1);
    assert.match(panel.$(".ak-toast").textContent ?? "", /Wrote houses@7c1e9f2\.ipynb beside the notebook\./);
  },
);

test("another notebook's cells never take the place of this one's: they go to a file", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const host = { ...notebook(restored), cells: () => [{ id: "mine", type: "code", source: "of_my_own = 1" }] };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  await askCheckout(panel, "Merge ridge");
  assert.match(panel.$(".ak-pop").textContent ?? "", /these are another notebook's cells, and go to houses@/);
  await panel.click(panel.$(".ak-pop .ak-main"));
  await soon(20);
  assert.deepEqual(restored, []);
  assert.equal(panel.asked("write_notebook").length, 1);
});

test("undo after a check out that changed the cells says that they stay", page, async () => {
  const panel = await mounted({ host: notebook([]) });
  await askCheckout(panel, "Merge ridge");
  await panel.click(panel.$(".ak-pop .ak-main"));
  await soon(20);
  await panel.press("u");
  await soon(20);
  assert.match(panel.$(".ak-toast").textContent ?? "", /The cells were not changed back, because you ran or edited one since\. Edit › Undo changes them back\./);
  await panel.press("u");
  await soon(20);
  assert.doesNotMatch(panel.$(".ak-toast").textContent ?? "", /not changed back/);
});

test("undo after a check out that changed the cells takes these back too, and redo brings them again", page, async () => {
  /** @type {string[]} */
  const done = [];
  const host = { ...notebook([]), undoCells: () => (done.push("undo"), "done"), redoCells: () => done.push("redo") > 0 };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  await askCheckout(panel, "Merge ridge");
  await panel.click(panel.$(".ak-pop .ak-main"));
  await soon(20);
  await panel.press("u");
  await soon(20);
  assert.match(panel.$(".ak-toast").textContent ?? "", /The notebook's cells are as they were before, too\./);
  await panel.click(panel.button("Redo"));
  await soon(20);
  assert.deepEqual(done, ["undo", "redo"]);
});

test("while a cell runs a check out waits, is seen to wait, and can be cancelled", page, async () => {
  const panel = await mounted({ store: { busy: "[22]" } });
  await askCheckout(panel, "[19]");
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.match(
    panel.$(".ak-strip").textContent ?? "",
    /^Cell \[22\] is running\. Check out of \[19\] starts when it ends\.Cancel check out$/,
  );
  assert.match(panel.row("[19]").textContent ?? "", /queued/);
  await panel.click(panel.button("Cancel check out"));
  assert.equal(panel.$(".ak-strip").hidden, true);
});

const HEAD = { branch: null, id: null, prompt: "[19]", label: "[19]", lane: null };
const LEFT = { turn: "1", id: "7c1e9f2", document: "work/houses.ipynb" };
const QUEUED_DONE = {
  busy: null,
  queued: null,
  done: { done: "Checked out [19].", notes: [], undo: true, head: HEAD, cells: null },
  cells: LEFT,
};

test("an undo that had waited takes the cells back as well", page, async () => {
  /** @type {unknown[]} */
  const undone = [];
  const host = { ...notebook([]), undoCells: (/** @type {string} */ of) => (undone.push(of), "done") };
  const panel = await mounted({ store: { busy: "[22]" }, host: /** @type {any} */ (host) });
  await panel.press("u");
  const done = { op: "undo", done: "Undone.", notes: [], undo: false, of: "the checkout", head: HEAD, cells: null };
  for (const undo of [null, { of: "", text: "x", cell: false, to: null }]) panel.store.tell({ busy: null, queued: null, done: { ...done }, undo });
  await soon(20);
  assert.deepEqual(undone, ["the checkout"]);
  assert.match(panel.$(".ak-toast").textContent ?? "", /Undone\. The notebook's cells are as they were before, too\./);
});

test("an undo that a cell did takes the cells back once that cell has ended", page, async () => {
  /** @type {unknown[]} */
  const undone = [];
  const host = { ...notebook([]), undoCells: (/** @type {string} */ of) => (undone.push(of), "done") };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  const done = { op: "undo", done: "Checkout undone.", notes: [], undo: false, of: "the checkout", head: HEAD, cells: null };
  panel.store.tell({ busy: "[23]", done });
  await soon(20);
  assert.deepEqual(undone, []);
  panel.store.tell({ busy: null, done: { ...done } });
  await soon(20);
  assert.deepEqual(undone, ["the checkout"]);
  assert.match(panel.$(".ak-toast").textContent ?? "", /Checkout undone\. The notebook's cells are as they were before, too\./);
});

test("a queued act says in which document it was asked, and when it is done the cells come back there", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const host = { ...notebook(restored), document: () => "work/houses.ipynb" };
  const panel = await mounted({ store: { busy: "[22]" }, host: /** @type {any} */ (host) });
  await askCheckout(panel, "[19]");
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual(panel.asked("checkout").map(({ document }) => document), ["work/houses.ipynb"]);
  panel.store.tell(QUEUED_DONE);
  await soon(20);
  assert.deepEqual(restored, ["houses.ipynb"]);
  assert.match(panel.$(".ak-toast").textContent ?? "", /Checked out \[19\]\.Undo/);
});

const WAITS = { busy: "[22]", queued: { op: "checkout", label: "[19]", id: LEFT.id } };

test("after the page was loaded anew, a panel that saw the act wait brings the cells back, once", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const host = { ...notebook(restored), document: () => "work/houses.ipynb" };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  panel.store.tell(WAITS);
  panel.store.tell(QUEUED_DONE);
  panel.store.tell({ ...QUEUED_DONE, version: "v7" });
  await soon(20);
  assert.deepEqual(restored, ["houses.ipynb"]);
  assert.deepEqual(panel.asked("claim"), [{ turn: "1" }]);
});

test("a panel that came after the act was done replaces no document: its cells go to a file", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const host = { ...notebook(restored), document: () => "work/houses.ipynb" };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  panel.store.tell(WAITS);
  panel.store.tell({ busy: "[23]", queued: null }); // that one was cancelled
  panel.store.tell(QUEUED_DONE);
  await soon(20);
  assert.deepEqual(restored, []);
  assert.deepEqual(panel.asked("write_notebook"), [{ id: LEFT.id }]);
});

test("what is written in the document while its cells are fetched is not replaced: they go to a file", page, async () => {
  /** @type {string[]} */
  const restored = [];
  let typed = "";
  const cells = () => notebook([]).cells().map((cell) => ({ ...cell, source: cell.source + typed }));
  const host = { ...notebook(restored), cells, document: () => "work/houses.ipynb" };
  const panel = await mounted({ host: /** @type {any} */ (host) });
  panel.store.tell(WAITS);
  panel.store.tell(QUEUED_DONE);
  typed = "# more";
  await soon(20);
  assert.deepEqual(restored, []);
  assert.deepEqual(panel.asked("write_notebook"), [{ id: LEFT.id }]);
});

test("a panel in another document, or one that came second, brings no cells back", page, async () => {
  for (const [document, claimable] of /** @type {[string, boolean][]} */ ([["work/copy.ipynb", true], ["work/houses.ipynb", false]])) {
    /** @type {string[]} */
    const restored = [];
    const panel = await mounted({ host: /** @type {any} */ ({ ...notebook(restored), document: () => document }) });
    if (!claimable) panel.store.act = /** @type {any} */ (async () => null);
    panel.store.tell(QUEUED_DONE);
    await soon(20);
    assert.deepEqual(restored, []);
    assert.deepEqual(panel.asked("claim"), []);
  }
});

test("an act that was cancelled brings nothing back when another panel's is done", page, async () => {
  /** @type {string[]} */
  const restored = [];
  const panel = await mounted({ store: { busy: "[22]" }, host: notebook(restored) });
  await askCheckout(panel, "[19]");
  await panel.click(panel.$(".ak-pop .ak-main"));
  await panel.click(panel.button("Cancel check out"));
  panel.store.tell({ ...QUEUED_DONE, cells: null });
  await soon(20);
  assert.deepEqual(restored, []);
  assert.deepEqual(panel.asked("write_notebook"), []);
});

test("where no document can be reached, the cells of a queued act go to a file too", page, async () => {
  const panel = await mounted();
  panel.store.tell({ ...QUEUED_DONE, cells: { ...LEFT, document: "" } });
  await soon(20);
  assert.deepEqual(panel.asked("write_notebook"), [{ id: "7c1e9f2" }]);
});

test("the way back from a queued act names it, whatever another panel does since", page, async () => {
  const panel = await mounted({ store: { busy: "[22]" } });
  panel.store.tell({ ...QUEUED_DONE, cells: null, done: { ...QUEUED_DONE.done, of: "the checkout" } });
  panel.store.tell({ undo: { of: "another", text: "the checkout of side", cell: false, to: null } });
  await panel.click(panel.$(".ak-toast button"));
  assert.deepEqual(panel.asked("undo").map(({ of }) => of), ["the checkout"]);
});

test("what was done is said until the next cell runs", page, async () => {
  const panel = await mounted();
  await panel.press("u");
  await soon(20);
  assert.match(panel.$(".ak-toast").textContent ?? "", /Undone/);
  panel.store.tell({ busy: "[23]" });
  assert.equal(panel.$(".ak-toast").textContent, "");
});

test("an act that failed says so, and offers to check a damaged store", page, async () => {
  const panel = await mounted({ store: { fails: { checkout: "df is damaged in the store. Nothing was changed." } } });
  await askCheckout(panel, "[19]");
  await panel.click(panel.$(".ak-pop .ak-main"));
  const strip = panel.$(".ak-strip");
  assert.equal(strip.getAttribute("role"), "alert");
  assert.match(
    strip.textContent ?? "",
    /^Check out of \[19\] failed: df is damaged in the store\. Nothing was changed\.Check the store$/,
  );
  await panel.click(panel.button("Check the store"));
  assert.match(panel.$(".ak-toast").textContent ?? "", /The store is whole/);
});

test("a name that is taken is refused beside the field", page, async () => {
  const panel = await mounted();
  await panel.press("ArrowDown", "t");
  const input = /** @type {HTMLInputElement} */ (panel.$(".ak-input"));
  input.value = "raw";
  input.dispatchEvent(new Event("input"));
  panel.$("form").dispatchEvent(new Event("submit", { cancelable: true }));
  await soon(20);
  assert.match(panel.$(".ak-pop [role=alert]").textContent ?? "", /'raw' already exists/);
  input.value = "clean";
  panel.$("form").dispatchEvent(new Event("submit", { cancelable: true }));
  await soon(30);
  assert.equal(panel.all(".ak-pop").length, 0);
  assert.match(panel.text, /Tagged clean\./);
});

test("the branch list says where each stands, and picking one asks before it switches", page, async () => {
  const panel = await mounted();
  await panel.press("g");
  await soon(20);
  assert.match(
    panel.$("[role=listbox]").textContent ?? "",
    /main.*you are here.*ridge.*merged into main.*log-price.*2 commits of its own.*New branch…/,
  );
  await panel.click(panel.button("ridge"));
  await soon(20);
  assert.match(panel.$(".ak-pop").textContent ?? "", /^Switch to ridge\?/);
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual(panel.asked("switch"), [{ branch: "ridge" }]);
});

test("a menu is walked with arrows, and a letter does its item", page, async () => {
  const panel = await mounted();
  panel.list.focus();
  await panel.press("ArrowDown", "m");
  assert.equal(document.activeElement?.textContent, "Check outc");
  await panel.press("ArrowDown");
  assert.equal(document.activeElement?.textContent, "Roll back to herer");
  await panel.press("d");
  assert.equal(panel.all(".ak-menu").length, 0);
  assert.match(panel.activeRow, /marked/);
});

test("a merge with conflicts shows both values, and waits until every name is decided", page, async () => {
  const panel = await mounted();
  await askConflicts(panel);
  const view = panel.$(".ak-conflicts");
  assert.match(
    view.textContent ?? "",
    /Merge log-price into main.*2 variables changed on both sides.*Ridge\(alpha=3\.0\).*LinearRegression\(\)/,
  );
  const merge = /** @type {HTMLButtonElement} */ (panel.$(".ak-conflicts .ak-main"));
  assert.equal(merge.disabled, true);
  for (const at of [0, 3]) panel.all(".ak-choice input")[at]?.dispatchEvent(new Event("change"));
  assert.equal(merge.disabled, false);
  await panel.click(merge);
  assert.deepEqual(panel.asked("merge"), [{ branch: "log-price", ours: ["model"], theirs: ["y"] }]);
  assert.equal(view.hidden, true);
});

test("a merge chooser that opens under a cell leaves the focus where it is, and in a panel takes it from the list", page, async () => {
  const cell = document.createElement("textarea");
  const opened = mounted({ wait: false, host: { start: { conflicts: { branch: "log-price", ours: [], theirs: [] } } } });
  const panel = await opened;
  document.body.append(cell);
  cell.focus();
  await soon(30);
  assert.equal(panel.$(".ak-conflicts").hidden, false);
  assert.equal(document.activeElement, cell);
  const other = await mounted();
  await other.press("g");
  await soon(20);
  await other.click(other.button("Merge into main…"));
  await other.click(other.button("log-price"));
  await soon(20);
  other.button("Choose…").focus();
  await other.click(other.button("Choose…"));
  await soon(20);
  assert.equal(document.activeElement?.getAttribute("aria-label"), "Back to the history");
});

test("a merge that was typed opens there, with what was chosen already", page, async () => {
  const panel = await mounted({ host: { start: { conflicts: { branch: "log-price", ours: [], theirs: ["y"] } } } });
  const inputs = /** @type {HTMLInputElement[]} */ (panel.all(".ak-choice input"));
  assert.deepEqual(inputs.map((input) => input.checked), [false, false, false, true]);
  assert.match(panel.$(".ak-conflicts").textContent ?? "", /Merge log-price into main.*Keep main's.*1 variable still to decide/);
  inputs[0]?.dispatchEvent(new Event("change"));
  await panel.click(panel.$(".ak-conflicts .ak-main"));
  assert.deepEqual(panel.asked("merge"), [{ branch: "log-price", ours: ["model"], theirs: ["y"] }]);
  assert.equal(panel.$(".ak-conflicts").hidden, true);
});

test("while the cell that asked still runs it waits, and where nothing is left to decide the list stands there", page, async () => {
  const { ask } = FixtureTransport.prototype;
  let isBusy = true;
  // The first question comes as the panel is made.
  FixtureTransport.prototype.ask = /** @type {any} */ (async function (/** @type {any} */ op, /** @type {any} */ args) {
    if (op === "plan" && isBusy) throw Object.assign(new Error("later"), { code: "busy" });
    const found = /** @type {any} */ (await ask.call(/** @type {any} */ (this), op, args));
    return op === "plan" ? { ...found, conflicts: [] } : found;
  });
  try {
    const panel = await mounted({ host: { start: { conflicts: { branch: "log-price", ours: [], theirs: [] } } } });
    assert.equal(panel.$(".ak-conflicts").hidden, false);
    isBusy = false;
    panel.store.moved();
    await soon(20);
    assert.equal(panel.$(".ak-conflicts").hidden, true);
    assert.equal(panel.$(".ak-list").closest("[hidden]"), null);
  } finally {
    FixtureTransport.prototype.ask = ask;
  }
});

test("figures to choose from are seen", page, async () => {
  const panel = await mounted();
  const ask = panel.store.ask.bind(panel.store);
  const png = (/** @type {string} */ what) => `data:image/png;base64,${what}`;
  panel.store.ask = async (op, args) => {
    if (op !== "variable") return ask(op, args);
    const { name } = /** @type {any} */ (args);
    if (name === "y") throw new Error("damaged");
    return /** @type {any} */ ({ name, how: "~", note: "", lines: [], face: { kind: "pictures", before: png("b3Vycw=="), after: png("dGhlaXJz") } });
  };
  await askConflicts(panel);
  const pictures = panel.all(".ak-choice img").map((image) => [image.getAttribute("alt"), image.getAttribute("src")]);
  assert.deepEqual(pictures, [["model, ours", png("b3Vycw==")], ["model, theirs", png("dGhlaXJz")]]);
});

test("names that share objects are picked together, and say so", page, async () => {
  const panel = await mounted();
  const ask = panel.store.ask.bind(panel.store);
  panel.store.ask = async (op, args) => {
    const found = /** @type {any} */ (await ask(op, args));
    if (op !== "plan") return found;
    const [model, y] = found.conflicts;
    return { ...found, conflicts: [{ ...model, together: ["y"] }, { ...y, together: ["model"] }] };
  };
  await askConflicts(panel);
  assert.match(panel.$(".ak-conflicts").textContent ?? "", /modelwith y: they share objects/);
  const inputs = /** @type {HTMLInputElement[]} */ (panel.all(".ak-choice input"));
  inputs[1]?.dispatchEvent(new Event("change"));
  assert.deepEqual(inputs.map((input) => input.checked), [false, true, false, true]);
  await panel.click(panel.$(".ak-conflicts .ak-main"));
  assert.deepEqual(panel.asked("merge"), [{ branch: "log-price", ours: [], theirs: ["model", "y"] }]);
});

test(
  "where what it changes can be told only after the running cell, it can be asked for all the same",
  page,
  async () => {
    const panel = await mounted();
    const ask = panel.store.ask.bind(panel.store);
    panel.store.ask = async (op, args) => {
      if (op === "plan") throw Object.assign(new Error("What it changes can be told only later."), { code: "busy" });
      return ask(op, args);
    };
    await askCheckout(panel, "Merge ridge");
    assert.match(panel.$(".ak-pop").textContent ?? "", /told only later\.Check outCancel$/);
    await panel.click(panel.$(".ak-pop .ak-main"));
    await soon(20);
    assert.equal(panel.asked("checkout").length, 1);
  },
);

test("Enter does what the filled button says, also from a choice", page, async () => {
  const panel = await mounted();
  await askCheckout(panel, "Merge ridge");
  const choice = /** @type {HTMLInputElement} */ (panel.$(".ak-opt input[value=variables]"));
  choice.checked = true;
  choice.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  await soon(20);
  assert.deepEqual(
    panel.asked("checkout").map(({ what }) => what),
    ["variables"],
  );
});

const CELL = { text: "[21] df = tidy(df)", cell: true, to: "7c1e9f2" };

test("the button and the key say what they would undo, and ask first where it is a cell", page, async () => {
  const panel = await mounted();
  panel.store.tell({ undo: { of: "the move", text: "the checkout of main", cell: false, to: null } });
  const undo = /** @type {HTMLButtonElement} */ (panel.$(".ak-bar [aria-label=Undo]"));
  assert.equal(undo.title, "Undo the checkout of main (u)");
  await panel.press("u");
  assert.deepEqual(panel.asked("undo").map(({ of }) => of), ["the move"], "and nothing else that is done meanwhile");
  panel.store.tell({ undo: CELL });
  assert.equal(undo.title, "Undo [21] df = tidy(df) (u)");
  for (const ask of [() => panel.press("u"), () => panel.click(undo)]) {
    await ask();
    await soon(20);
    const text = panel.$(".ak-pop").textContent ?? "";
    assert.match(text, /^Undo \[21\] df = tidy\(df\)\?~Changes 3.*UndoCancel/);
    assert.doesNotMatch(text, /new branch/);
    assert.equal(panel.asked("undo").length, 1);
    await panel.press("Escape");
  }
  await panel.press("u");
  await soon(20);
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.equal(panel.asked("undo").length, 2);
  panel.store.tell({ undo: null });
  assert.deepEqual([undo.disabled, undo.title], [true, "There is nothing to undo"]);
  await panel.press("u");
  assert.equal(panel.asked("undo").length, 2);
});

test("to undo the first commit is a question too", page, async () => {
  const panel = await mounted();
  panel.store.tell({ undo: { ...CELL, to: null } });
  await panel.press("u");
  assert.match(panel.$(".ak-pop").textContent ?? "", /It made the first commit: what it made goes\.UndoCancel$/);
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.equal(panel.asked("undo").length, 1);
});

test("an open question is worked out again when the history moves, and keeps what was chosen", page, async () => {
  const panel = await mounted();
  await askCheckout(panel, "Merge ridge");
  /** @type {HTMLInputElement} */ (panel.$(".ak-opt input[value=variables]")).checked = true;
  const ask = panel.store.ask.bind(panel.store);
  panel.store.ask = async (op, args) => {
    const found = /** @type {any} */ (await ask(op, args));
    return op === "plan" ? { ...found, changes: ["made_meanwhile"] } : found;
  };
  panel.store.moved();
  await soon(20);
  assert.match(panel.$(".ak-pop").textContent ?? "", /Changes 1made_meanwhile/);
  await panel.click(panel.$(".ak-pop .ak-main"));
  assert.deepEqual(panel.asked("checkout").map(({ what }) => what), ["variables"]);
  const asked = panel.asked("plan").length;
  panel.store.moved();
  await soon(20);
  assert.equal(panel.asked("plan").length, asked, "a question that was answered asks nothing more");
});

test("a question about a cell that is no longer the last one closes", page, async () => {
  const panel = await mounted();
  panel.store.tell({ undo: CELL });
  await panel.press("u");
  panel.store.tell({ undo: { ...CELL, text: "[22] later" }, version: "v9" });
  await soon(20);
  assert.equal(panel.all(".ak-pop").length, 0);
});

test("a kernel that goes while an act waits in it leaves word of that, and takes it back if it was only slow", page, async () => {
  const panel = await mounted({ store: { busy: "[22]" }, host: notebook([]) });
  await askCheckout(panel, "[19]");
  await panel.click(panel.$(".ak-pop .ak-main"));
  panel.store.tell({ busy: null, queued: null, kernel: false });
  panel.store.tell({ kernel: true });
  await soon(20);
  assert.match(panel.$(".ak-strip").textContent ?? "", /^Check out of \[19\] was waiting in the kernel, which does not answer any more\./);
  panel.store.tell(QUEUED_DONE);
  await soon(20);
  assert.equal(panel.$(".ak-strip").hidden, true);
  assert.match(panel.$(".ak-toast").textContent ?? "", /Checked out \[19\]\.Undo/);
});

test("undo says that the cells stay, whatever was named or looked at since they were brought back", page, async () => {
  const panel = await mounted({ host: notebook([]) });
  await askCheckout(panel, "Merge ridge");
  await panel.click(panel.$(".ak-pop .ak-main"));
  await panel.press("ArrowDown", "t");
  const input = /** @type {HTMLInputElement} */ (panel.$(".ak-input"));
  input.value = "clean";
  input.dispatchEvent(new Event("input"));
  panel.$("form").dispatchEvent(new Event("submit", { cancelable: true }));
  await soon(30);
  assert.deepEqual(panel.asked("tag").length, 1);
  await panel.press("u");
  await soon(20);
  assert.match(panel.$(".ak-toast").textContent ?? "", /The cells were not changed back, because you ran or edited one since\. Edit › Undo changes them back\./);
});

test("a merge that was typed with a message keeps it, and a cherry-pick says that it is one", page, async () => {
  const start = { conflicts: { branch: "log-price", ours: ["model"], theirs: ["y"], message: "take both", picks: true } };
  const panel = await mounted({ host: { start } });
  assert.deepEqual(panel.asked("plan").at(-1), { op: "cherry_pick", to: "log-price" });
  assert.match(panel.$(".ak-conflicts").textContent ?? "", /Cherry-pick log-price into main.*Undo takes the cherry-pick back\./);
  await panel.click(panel.$(".ak-conflicts .ak-main"));
  assert.deepEqual(panel.asked("cherry_pick"), [{ branch: "log-price", ours: ["model"], theirs: ["y"], message: "take both" }]);
});
