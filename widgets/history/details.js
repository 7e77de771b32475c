/**
 * One commit: what it is called, what can be done with it, and four tabs of what it did.
 *
 * It follows the selected commit. What was shown stays until the next one is here, so that walking through a history does
 * not flicker.
 */

import { el, fill, prose, spoken } from "../shared/dom.js";
import { count, stamp, took } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { changeLines } from "./changes.js";
import { codeView } from "./code.js";
import { environmentView } from "./environment.js";
import { outputsView } from "./outputs.js";
import { refLabel } from "./row.js";
import { Tabs } from "./tabs.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { Details } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @typedef {{ id: string, label: string, prompt: string, short: string, branches: string[] }} Target a commit that something is done with */
/**
 * @typedef {object} DetailDoings
 * @property {(target: Target, from: HTMLElement) => void} checkout
 * @property {(target: Target, from: HTMLElement) => void} branch
 * @property {(target: Target, from: HTMLElement) => void} tag
 * @property {(target: Target, from: HTMLElement) => void} compare
 * @property {(target: Target, from: HTMLElement) => void} menu
 * @property {(target: Target) => void} copy
 * @property {() => void} close
 */

const OPEN_AT_FIRST = 3;

export class DetailsPane {
  /** @param {HistoryModel} model @param {DetailDoings} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.turn = 0;
    /** @type {Details | null} */
    this.shown = null;
    this.tab = "changes";
    /** @type {Map<string, boolean>} */
    this.open = new Map();
    this.tabs = new Tabs("Details", (key) => { this.tab = key; });
    this.top = el("div", { class: "ak-dh" });
    this.element = el("div", { class: "ak-detail", role: "region", "aria-label": "Details", hidden: true }, this.top, this.tabs.bar, this.tabs.panel);
    model.on(["selected", "marked"], () => void this.load());
    model.on(["state", "rows"], () => this.#refresh());
  }

  /** @returns {Target | null} */
  get target() {
    return this.shown && this.model.selected === this.shown.id ? targetOf(this.shown) : null;
  }

  get #against() {
    const { marked, selected } = this.model;
    return marked && marked.id !== selected ? { against: marked.id } : {};
  }

  async load() {
    const { model } = this;
    const turn = ++this.turn;
    this.element.hidden = model.selected === null;
    if (model.selected === null) {
      this.shown = null;
      return;
    }
    try {
      const details = await model.transport.ask("commit", { id: model.selected, ...this.#against });
      if (turn === this.turn) await this.#draw(details);
    } catch (error) {
      if (turn === this.turn) this.#failed(error);
    }
  }

  /** Refs move and kernels go: the top is drawn again, the tabs are not. */
  #refresh() {
    if (this.shown && this.shown.id === this.model.selected) this.#drawTop(this.shown);
  }

  /** @param {Details} details */
  async #draw(details) {
    const other = details.id !== this.shown?.id;
    this.shown = details;
    this.#drawTop(details);
    await this.tabs.show(this.#tabList(details), this.tab);
    if (other) this.element.scrollTop = 0;
  }

  /** @param {Details} details */
  #drawTop(details) {
    const { doings, model } = this;
    const target = targetOf(details);
    const focused = document.activeElement instanceof HTMLElement && this.top.contains(document.activeElement) ? document.activeElement.dataset["key"] : undefined;
    /** @param {string} key @param {string} label @param {(target: Target, from: HTMLElement) => void} act @param {string} [kind] */
    const button = (key, label, act, kind = "") =>
      el("button", { class: `ak-b ${kind}`, type: "button", "data-key": key, onclick: (/** @type {MouseEvent} */ event) => act(target, /** @type {HTMLElement} */ (event.currentTarget)) }, label);
    const more = button("more", "", doings.menu, "ak-quiet ak-icon ak-rest");
    more.setAttribute("aria-label", "More actions");
    more.setAttribute("title", "More actions (m)");
    more.append(icon("more"));
    fill(this.top,
      el("button", { class: "ak-b ak-quiet ak-icon ak-back", type: "button", "data-key": "back", "aria-label": "Back to the list", title: "Back (Esc)", onclick: doings.close }, icon("left")),
      el("h4", { title: details.message || details.subject, class: details.is_code ? "ak-mono" : "" }, details.subject || details.short),
      el("span", { class: "ak-acts" },
        model.canAct ? button("checkout", "Check out", doings.checkout, "ak-main") : null,
        model.canAct ? button("branch", "Branch", doings.branch, "ak-roomy") : null,
        model.canAct ? button("tag", "Tag", doings.tag, "ak-roomy") : null,
        button("compare", "Compare…", doings.compare), el("span", { class: "ak-sp" }), more),
      el("button", { class: "ak-b ak-quiet ak-icon ak-shut", type: "button", "data-key": "close", "aria-label": "Close details", title: "Close (Esc)", onclick: doings.close }, icon("close")),
      this.#meta(details, target));
    this.element.setAttribute("aria-label", `Details of ${target.label}`);
    if (focused) /** @type {HTMLElement | null} */ (this.top.querySelector(`[data-key="${focused}"]`))?.focus();
  }

  /** @param {Details} details @param {Target} target */
  #meta(details, target) {
    const now = this.model.now();
    const copy = el("button", { class: "ak-b ak-quiet ak-icon ak-small", type: "button", "data-key": "copy", "aria-label": "Copy hash", title: "Copy hash (y)", onclick: () => this.doings.copy(target) }, icon("copy"));
    const who = details.author.kind === "agent" || !details.author.me ? details.author.name : "you";
    const bad = details.error && details.status !== "ok" ? el("p", { class: "ak-derr ak-del" }, spoken(`${details.status}: `), details.error) : null;
    return el("div", { class: "ak-meta" },
      details.prompt ? el("span", {}, "Cell ", el("code", {}, details.prompt)) : null, el("span", {}, who),
      el("span", {}, stamp(details.time_ms, now)), details.took_s === null ? null : el("span", {}, `took ${took(details.took_s)}`),
      el("span", {}, el("code", {}, details.short), copy), ...details.refs.map(refLabel), ...details.labels.map((label) => el("span", {}, label)),
      details.against && this.model.marked ? el("span", {}, ...prose(`against ${details.against.label}`)) : null, bad);
  }

  /** @param {Details} details */
  #tabList(details) {
    const { model } = this;
    const at = { id: details.id, ...this.#against };
    const { code } = details;
    /** @param {string} text @returns {Child} */
    const roomy = (text) => el("span", { class: "ak-roomy-text" }, text);
    const changed = details.changes.filter((change) => change.how !== "=").length + details.more_changes;
    return [
      { key: "changes", label: [`Changes ${count(changed)}`], show: async () => this.#changes(details) },
      { key: "code", label: ["Code", code ? roomy(` +${code.added} −${code.removed}`) : null], show: async () => [codeView(await model.transport.ask("code", at))] },
      { key: "outputs", label: ["Outputs", details.outputs ? roomy(` ${details.outputs}`) : null], show: async () => [outputsView(details.outputs ? await model.transport.ask("outputs", { id: details.id }) : [])] },
      {
        key: "environment", label: [el("span", { class: "ak-roomy-text" }, "Environment"), el("span", { class: "ak-tight-text" }, "Env.")],
        show: async () => [details.environment === "none" ? el("p", { class: "ak-nothing" }, "No environment is recorded with this commit.") : environmentView(await model.transport.ask("environment", at))],
      },
    ];
  }

  /** @param {Details} details */
  #changes(details) {
    const { model } = this;
    const lines = changeLines(details.changes, details.more_changes, details.unsaved, {
      ask: (name) => model.transport.ask("variable", { id: details.id, ...this.#against, name }), open: this.open, first: OPEN_AT_FIRST,
    });
    return lines.length ? lines : [el("p", { class: "ak-nothing" }, "No variable changed.")];
  }

  /** @param {unknown} error */
  #failed(error) {
    const message = error instanceof Error ? error.message : String(error);
    const again = el("button", { class: "ak-b", type: "button", onclick: () => void this.load() }, "Try again");
    const close = el("button", { class: "ak-b", type: "button", onclick: this.doings.close }, "Close");
    fill(this.top, el("div", { class: "ak-nothing", role: "alert" }, el("p", {}, message), again, " ", close));
    fill(this.tabs.bar);
    fill(this.tabs.panel);
  }
}

/** @param {{ id: string, short: string, prompt: string, subject: string, refs: { kind: string, name: string }[] }} commit @returns {Target} */
export function targetOf(commit) {
  const label = commit.prompt || (commit.subject ? `“${commit.subject}”` : commit.short);
  return { id: commit.id, label, prompt: commit.prompt, short: commit.short, branches: commit.refs.filter((ref) => ref.kind === "branch").map((ref) => ref.name) };
}
