/**
 * One commit: what it is called, what can be done with it, and four tabs of what it did.
 *
 * It follows the selected commit. What was shown stays until the next one is here, so that walking through a history does
 * not flicker; nothing of it can be pressed meanwhile.
 */

import { failureNote, textButton } from "../shared/buttons.js";
import { el, fill } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { changeLines, countOf } from "./changes.js";
import { codeView } from "./code.js";
import { RUN, detailTop } from "./detail-top.js";
import { environmentView } from "./environment.js";
import { outputsView } from "./outputs.js";
import { guard, hold } from "./stale.js";
import { Tabs } from "./tabs.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { DetailDoings } from "./detail-top.js" */
/** @import { Details } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { Tab } from "./tabs.js" */

const OPEN_AT_FIRST = 3;

export class DetailsPane {
  /** @param {HistoryModel} model @param {DetailDoings} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.turn = 0;
    /** @type {Details | null} */
    this.shown = null;
    this.chosen = ""; // what was selected when that came
    this.look = "";
    this.wantsFocus = false;
    this.isOwed = false; // the kernel was busy or away when it was asked
    this.version = "";
    this.tab = "changes";
    /** @type {Map<string, boolean>} */
    this.open = new Map();
    this.tabs = new Tabs("Details", (key) => {
      this.tab = key;
    });
    this.top = el("div", { class: "ak-dh" });
    this.element = el(
      "div",
      { class: "ak-detail", role: "region", "aria-label": "Details", hidden: true },
      this.top,
      this.tabs.bar,
      this.tabs.panel,
    );
    guard(this.element);
    model.on(["selected", "marked"], () => void this.load());
    model.on(["state"], () => this.#stateMoved());
    model.on(["head"], () => void this.#refresh());
  }

  get #at() {
    const { marked, selected } = this.model;
    return { id: selected ?? "", ...(marked && marked.id !== selected ? { against: marked.id } : {}) };
  }

  #stateMoved() {
    const { busy, gone } = this.model.state;
    if (this.isOwed && !busy && !gone) void this.load();
    this.#drawTop();
  }

  async load() {
    const { model } = this;
    this.isOwed = false;
    const turn = ++this.turn;
    this.element.hidden = model.selected === null || model.selected.startsWith(RUN);
    if (model.selected === null || model.selected.startsWith(RUN)) return this.#clear();
    hold(this.element, this.chosen !== model.selected);
    try {
      const details = await model.transport.ask("commit", this.#at);
      if (turn === this.turn) await this.#draw(details);
    } catch (error) {
      if (turn === this.turn) this.#failed(error);
    }
  }

  /** Nothing of it is to be seen for a moment, or pressed, as the next commit is opened. */
  #clear() {
    this.shown = null;
    this.chosen = "";
    for (const part of [this.top, this.tabs.bar, this.tabs.panel]) fill(part);
  }

  /** The history moved: a branch or a tag may stand elsewhere. What the commit did stays as it is. */
  async #refresh() {
    const { model } = this;
    if (!this.shown || this.version === model.pages.version) return;
    const turn = ++this.turn;
    this.version = model.pages.version;
    const details = await model.transport.ask("commit", this.#at).catch(() => null);
    if (turn !== this.turn || !details) return;
    this.shown = details;
    this.#drawTop();
  }

  /** @param {Details} details */
  async #draw(details) {
    const other = details.id !== this.shown?.id;
    this.shown = details;
    this.chosen = this.model.selected ?? "";
    this.version = this.model.pages.version;
    this.#drawTop();
    hold(this.element, false);
    await this.tabs.show(this.#tabList(details), this.tab);
    if (other) this.element.scrollTop = 0;
  }

  /** Only when it would be another: a button must not go while it is being pressed. */
  #drawTop() {
    if (!this.shown) return;
    const { canAct, marked } = this.model;
    const look = JSON.stringify([this.shown, canAct, marked?.id]);
    if (look === this.look && this.top.childNodes.length) return;
    this.look = look;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    const had =
      focused && this.top.contains(focused) ? (focused.getAttribute("aria-label") ?? focused.textContent) : null;
    fill(this.top, ...detailTop(this.shown, this.doings, { canAct, now: this.model.now(), marked: marked !== null }));
    this.element.setAttribute("aria-label", `Details of ${this.shown.called || this.shown.prompt || this.shown.subject}`);
    const again = [...this.top.querySelectorAll("button")].find(
      (button) => (button.getAttribute("aria-label") ?? button.textContent) === had,
    );
    if (had) again?.focus({ preventScroll: true });
    if (this.wantsFocus) this.top.querySelector("button")?.focus({ preventScroll: true });
    this.wantsFocus = false;
  }

  /** The list that had the focus has gone. */
  focusWhenDrawn() {
    this.wantsFocus = true;
  }

  /** @param {Details} details @returns {Tab[]} */
  #tabList(details) {
    const { transport } = this.model;
    const at = this.#at;
    const { code } = details;
    const environment = [roomy("Environment"), el("span", { class: "ak-tight-text" }, "Env.")];
    return [
      { key: "changes", label: [`Changes ${count(countOf(details))}`], show: async () => this.#changes(details) },
      {
        key: "code",
        label: ["Code", code ? roomy(` +${code.added} −${code.removed}`) : null],
        show: async () => [codeView(await transport.ask("code", at), details.source)],
      },
      {
        key: "outputs",
        label: ["Outputs", details.outputs ? roomy(` ${details.outputs}`) : null],
        show: async () => [outputsView(details.outputs ? await transport.ask("outputs", { id: details.id }) : [], this.element.clientWidth)],
      },
      { key: "environment", label: environment, show: async () => [await this.#environment(details)] },
    ];
  }

  /** @param {Details} details @returns {Promise<Child>} */
  async #environment(details) {
    if (details.environment === "none") {
      return el("p", { class: "ak-nothing" }, "No environment is recorded with this commit.");
    }
    return environmentView(await this.model.transport.ask("environment", this.#at));
  }

  /** @param {Details} details */
  #changes(details) {
    const { transport } = this.model;
    const at = this.#at;
    const lines = changeLines(details.changes, details.more_changes, details.unsaved, {
      ask: (name) => transport.ask("variable", { ...at, name }),
      open: this.open,
      first: OPEN_AT_FIRST,
    });
    return lines.length ? lines : [el("p", { class: "ak-nothing" }, "No variable changed.")];
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#clear();
    hold(this.element, false);
    this.isOwed = error instanceof Error && "code" in error && (error.code === "busy" || error.code === "gone");
    const note = failureNote(error, () => void this.load());
    note.append(" ", textButton("Close", this.doings.close));
    fill(this.top, note);
  }
}

/** What falls away where there is little room. @param {string} text @returns {Child} */
function roomy(text) {
  return el("span", { class: "ak-roomy-text" }, text);
}
