/**
 * The history panel: one view, wherever it stands.
 *
 * It asks a transport and acts through it, over a comm or over REST, and knows nothing of either. What only the place around
 * it can do (bring back a notebook's cells, start a kernel) it asks of the host. It takes no focus when it is mounted, and
 * lets no key that it uses reach the notebook.
 */

import { el, setAll } from "../shared/dom.js";
import { CompareView } from "./compare.js";
import { ConflictsView } from "./conflicts.js";
import { DetailsPane, targetOf } from "./details.js";
import { Doings } from "./doings.js";
import { EmptyState } from "./empty.js";
import { keyLine, keyMap, pressKey, showKeys } from "./keys.js";
import { RowList } from "./list.js";
import { resizeGrip } from "./resize.js";
import { SearchField } from "./search.js";
import { HistoryModel } from "./state.js";
import { Strip, ToastLine } from "./strip.js";
import { Toolbar } from "./toolbar.js";

/** @import { Host, Transport } from "./protocol.js" */
/** @import { Target } from "./details.js" */

const FOLLOW_MS = 120;

/**
 * @param {HTMLElement} root @param {Transport} transport @param {Host} host
 * @returns {{ dispose: () => void }}
 */
export function mountHistory(root, transport, host) {
  const panel = new HistoryPanel(transport, host);
  root.append(panel.element);
  panel.start();
  return { dispose: () => panel.dispose() };
}

class HistoryPanel {
  /** @param {Transport} transport @param {Host} host */
  constructor(transport, host) {
    this.host = host;
    const model = new HistoryModel(transport, host);
    this.model = model;
    this.element = el("div", { class: `ak-panel${host.compact ? " ak-fill" : ""}`, role: "region", "aria-label": "History", "data-lm-suppress-shortcuts": "true" });
    const doings = new Doings(model, this.element, () => this.#home());
    this.doings = doings;
    this.list = new RowList(model, {
      checkout: (row, from) => doings.checkout(targetOf(row), from),
      menu: (row, from, at) => doings.menu(targetOf(row), from, at),
      details: (row) => model.select(row.id),
    });
    this.details = new DetailsPane(model, {
      checkout: (target, from) => doings.checkout(target, from), branch: (target, from) => doings.branch(target, from),
      tag: (target, from) => doings.tag(target, from), compare: (target, from) => doings.compareMenu(target, from),
      menu: (target, from) => doings.menu(target, from), copy: (target) => void doings.copy(target), close: () => this.#closeDetails(),
    });
    this.search = new SearchField(model, () => this.list.element.focus());
    this.toolbar = new Toolbar(model, this.search, {
      branches: (from) => void doings.branches(from), showHead: () => void this.#showHead(), undo: () => doings.undo(), more: (from) => doings.more(from, () => this.#help()),
    });
    const strips = { cancel: () => doings.cancel(), verify: () => doings.verify(), undo: () => doings.undo(), redo: () => doings.redo() };
    this.strip = new Strip(model, strips);
    this.toast = new ToastLine(model, strips);
    this.empty = new EmptyState(model, { commit: () => doings.commit() });
    this.compare = new CompareView(model, () => this.#backToList());
    this.conflicts = new ConflictsView(model, { back: () => this.#backToList(), merge: (branch, ours, theirs) => doings.mergeWith(branch, ours, theirs) });
    this.grip = resizeGrip(this.element, host.storageKey, () => this.list.element.clientHeight);
    this.hints = keyLine();
    this.body = el("div", { class: "ak-body" }, this.list.element, this.empty.element, this.grip, this.details.element);
    this.main = el("div", { class: "ak-main-view" }, this.toolbar.element, this.strip.element, this.body);
    this.element.append(this.main, this.compare.element, this.conflicts.element, this.hints, this.toast.element);
    this.follow = 0;
    this.stop = () => {};
  }

  start() {
    const { model } = this;
    const keys = this.#keys();
    this.list.element.addEventListener("keydown", (event) => this.#listKey(event, keys));
    this.element.addEventListener("keydown", (event) => this.#panelKey(event));
    model.on(["rows", "selected", "view", "state"], () => this.#arrange());
    this.#begin();
    this.stop = model.transport.onState((state) => model.takeState(state));
    this.#arrange();
    this.toolbar.draw();
    void model.open();
  }

  /** What is open at first. */
  #begin() {
    const { start } = this.host;
    if (!start) return;
    if ("text" in start) this.model.query.text = start.text;
    else if ("commit" in start) this.model.select(start.commit);
    else this.model.show({ kind: "compare", a: start.compare.a, b: start.compare.b, name: start.compare.name ?? "" });
    this.model.tell("query");
  }

  dispose() {
    this.stop();
    clearTimeout(this.follow);
    this.list.dispose();
    this.search.dispose();
    this.element.remove();
  }

  #arrange() {
    const { model } = this;
    const listed = model.view.kind === "list";
    this.main.hidden = !listed;
    this.list.element.hidden = this.empty.shown;
    this.body.classList.toggle("ak-open", model.selected !== null);
    this.grip.hidden = this.empty.shown || Boolean(this.host.compact);
    this.element.classList.toggle("ak-readonly", !model.canAct);
    setAll(this.element, { "aria-label": model.title ? `History of ${model.title}` : "History" });
  }

  /** Where the focus goes when what had it is gone. */
  #home() {
    return this.list.element;
  }

  // Keys ----------------------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event @param {Record<string, () => void>} keys */
  #listKey(event, keys) {
    const button = event.target instanceof HTMLElement && event.target !== this.list.element ? event.target : null;
    if (!button) return pressKey(event, keys);
    if (event.key === "Enter" || event.key === " ") return event.stopPropagation();
    const side = { ArrowLeft: button.previousElementSibling, ArrowRight: button.nextElementSibling }[event.key];
    if (side instanceof HTMLElement) {
      event.preventDefault();
      event.stopPropagation();
      return side.focus({ preventScroll: true });
    }
    if (event.key === "ArrowLeft" || event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      return this.list.element.focus({ preventScroll: true });
    }
    pressKey(event, keys);
  }

  /** Keys of the panel outside its list. @param {KeyboardEvent} event */
  #panelKey(event) {
    const { model } = this;
    const typing = event.target instanceof HTMLInputElement && event.target.type === "text";
    if (event.key === "Escape") {
      if (model.view.kind !== "list") this.#backToList();
      else if (model.selected !== null) this.#closeDetails();
      else return;
      event.preventDefault();
    } else if (event.key === "x" && model.view.kind === "compare" && !typing) {
      this.compare.swap();
      event.preventDefault();
    }
    // The letters of a search or of a key are not the notebook's.
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  }

  #keys() {
    const { doings, model } = this;
    /** @param {(target: Target, anchor: HTMLElement) => void} act */
    const onCommit = (act) => () => {
      const row = model.commitAt(model.active);
      if (row) act(targetOf(row), this.#anchor());
    };
    /** @param {(target: Target, anchor: HTMLElement) => void} act */
    const onActing = (act) => () => model.canAct && onCommit(act)();
    return keyMap({
      move: (step) => this.#move(step), jump: (row) => this.#move(row === 0 ? -Infinity : Infinity), unfold: (open) => this.#unfold(open),
      details: () => this.#openDetails(), checkout: onActing((target, at) => doings.checkout(target, at)), rollback: onActing((target, at) => doings.rollback(target, at)),
      branch: onActing((target, at) => doings.branch(target, at)), tag: onActing((target, at) => doings.tag(target, at)), mark: onCommit((target) => doings.mark(target)),
      compareWithHead: onCommit((target) => doings.compareWithHead(target)), copy: onCommit((target) => void doings.copy(target)), showHead: () => void this.#showHead(),
      undo: () => doings.undo(), menu: onCommit((target, at) => doings.menu(target, at)), branches: () => void doings.branches(this.toolbar.branch), search: () => this.search.focus(),
      help: () => this.#help(), back: () => this.#escape(),
    });
  }

  /** What a question about the active row opens from. */
  #anchor() {
    const node = this.list.activeNode;
    const seen = node?.querySelector(".ak-a .ak-b:last-child");
    return seen instanceof HTMLElement && seen.offsetParent ? seen : node ?? this.list.element;
  }

  /** @param {number} step */
  #move(step) {
    const { model } = this;
    const way = step < 0 ? -1 : 1;
    let to = Math.max(0, Math.min(model.total - 1, model.active + step));
    while (model.rows.get(to)?.kind === "day" && model.rows.has(to + way)) to += way;
    if (model.rows.get(to)?.kind === "day") return;
    model.activate(to);
    this.list.showActive();
    const row = model.commitAt(to);
    if (model.selected === null || !row) return;
    clearTimeout(this.follow);
    this.follow = window.setTimeout(() => model.select(row.id), FOLLOW_MS);
  }

  /** @param {boolean} open */
  #unfold(open) {
    const { model } = this;
    const row = model.rows.get(model.active);
    if (row?.kind === "fold") {
      if (row.unfolded !== open) model.fold(row.id);
      return;
    }
    const first = open ? this.list.activeNode?.querySelector(".ak-a .ak-b") : null;
    if (first instanceof HTMLElement) first.focus({ preventScroll: true });
  }

  #openDetails() {
    const { model } = this;
    const row = model.rows.get(model.active);
    if (row?.kind === "fold") model.fold(row.id);
    else if (row?.kind === "commit") model.select(row.id);
  }

  #closeDetails() {
    const inside = this.details.element.contains(document.activeElement);
    this.model.select(null);
    if (inside) this.#home().focus({ preventScroll: true });
  }

  #escape() {
    if (this.model.selected !== null) this.#closeDetails();
    else if (this.model.marked) this.model.mark(null);
    else if (this.model.query.text) this.model.search({ text: "" });
  }

  #backToList() {
    this.model.show({ kind: "list" });
    this.list.draw();
    this.#home().focus({ preventScroll: true });
  }

  async #showHead() {
    const { head } = this.model;
    if (!head?.id) return;
    if (!(await this.model.reveal(head.id))) this.model.say({ text: `${head.label} is filtered out.`, next: "" });
    else this.list.showActive();
  }

  #help() {
    showKeys(this.element, { anchor: this.toolbar.more, back: this.#home() });
  }
}
