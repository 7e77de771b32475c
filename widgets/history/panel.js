/**
 * The history panel: one view, wherever it stands.
 *
 * It asks a transport and acts through it, over a comm or over REST, and knows nothing of either. What only the place around
 * it can do (bring back a notebook's cells, start a kernel) it asks of the host. It takes no focus when it is mounted, and
 * lets no key that it uses reach the notebook.
 */

import { el, setAll } from "../shared/dom.js";
import { keepKeys } from "../shared/shortcuts.js";
import { CompareView } from "./compare.js";
import { ConflictsView } from "./conflicts.js";
import { RUN } from "./detail-top.js";
import { DetailsPane } from "./details.js";
import { Doings } from "./doings.js";
import { EmptyState } from "./empty.js";
import { keyLine, showKeys } from "./keys.js";
import { ListKeys } from "./list-keys.js";
import { RowList } from "./list.js";
import { Menus } from "./menus.js";
import { resizeGrip } from "./resize.js";
import { SearchField } from "./search.js";
import { HistoryModel } from "./state.js";
import { RunPane } from "./run-pane.js";
import { Strip, ToastLine } from "./strip.js";
import { Toolbar } from "./toolbar.js";
import { ROW_PX } from "./window.js";

/** @import { Host, Transport } from "./protocol.js" */

const LOW_PX = 150; // in which a sentence and a button have no room one below the other

/**
 * @param {HTMLElement} root @param {Transport} transport @param {Host} host
 * @returns {{ dispose: () => void, focus: () => void }} `focus`: the keyboard goes to the list, as soon as there is one
 */
export function mountHistory(root, transport, host) {
  const panel = new HistoryPanel(transport, host);
  root.append(panel.element);
  panel.start();
  return { dispose: () => panel.dispose(), focus: () => panel.focus() };
}

class HistoryPanel {
  /** @param {Transport} transport @param {Host} host */
  constructor(transport, host) {
    this.host = host;
    const model = new HistoryModel(transport, host);
    this.model = model;
    this.element = el("div", {
      class: `ak-panel${host.compact ? " ak-fill" : ""}`,
      role: "region",
      "aria-label": "History",
    });
    const doings = new Doings(model, this.element, () => this.#home());
    this.doings = doings;
    const menus = new Menus(model, this.element, doings);
    this.menus = menus;
    this.list = new RowList(model, {
      checkout: (target, from) => doings.checkout(target, from),
      menu: (target, from, at) => menus.menu(target, from, at),
      details: (id) => this.#openDetails(id),
      resume: (row) => {
        const run = row.kind === "wait" ? { ...row, id: row.run, short: row.run.slice(-5) } : row.kind === "fold" ? row.run : null;
        if (run) void doings.resume(run);
      },
    });
    this.details = new DetailsPane(model, {
      checkout: (target, from) => doings.checkout(target, from),
      branch: (target, from) => doings.branch(target, from),
      tag: (target, from) => doings.tag(target, from),
      compare: (target, from) => menus.compareMenu(target, from),
      menu: (target, from) => menus.menu(target, from),
      copy: (target) => void doings.copy(target),
      close: () => this.#closeDetails(),
    });
    this.run = new RunPane(model, this.details.doings, {
      decide: (run, decision) => doings.decide(run, decision),
      answer: (run, answer) => doings.answer(run, answer),
      resume: (run) => doings.resume(run),
      open: (id) => this.#openDetails(id),
    });
    this.search = new SearchField(model, () => this.list.element.focus());
    this.toolbar = new Toolbar(model, this.search, {
      branches: (from) => void menus.branches(from),
      showHead: () => void this.keys.showHead(),
      undo: (from) => doings.undoNext(from),
      more: (from) => menus.more(from, () => this.#help()),
    });
    const strips = {
      cancel: () => doings.cancel(),
      verify: () => doings.verify(),
      undo: () => doings.undo(model.toast ?? undefined),
      redo: () => doings.redo(model.toast ?? undefined),
    };
    this.strip = new Strip(model, strips);
    this.toast = new ToastLine(model, strips);
    this.empty = new EmptyState(model, { commit: () => doings.commit() });
    this.compare = new CompareView(model, () => this.#backToList());
    this.conflicts = new ConflictsView(model, {
      back: () => this.#backToList(),
      merge: (merge, picks) => doings.mergeWith(merge, picks),
    });
    this.grip = resizeGrip(this.element, host.storageKey, () => (this.empty.shown ? this.empty : this.list).element.offsetHeight);
    this.hints = keyLine();
    this.body = el("div", { class: "ak-body" }, this.list.element, this.empty.element, this.grip, this.details.element, this.run.element);
    this.main = el("div", { class: "ak-main-view" }, this.toolbar.element, this.strip.element, this.body);
    this.element.append(this.main, this.compare.element, this.conflicts.element, this.hints, this.toast.element);
    this.keys = new ListKeys({
      model,
      doings,
      menus,
      list: this.list,
      branches: () => void menus.branches(this.toolbar.branch),
      search: () => this.search.focus(),
      help: () => this.#help(),
      open: (id) => this.#openDetails(id),
      close: () => this.#closeDetails(),
    });
    this.stop = () => {};
    this.wantsFocus = false;
    this.wholePx = 0; // the height of all rows while nothing is searched for
  }

  start() {
    const { model } = this;
    this.list.element.addEventListener("keydown", (event) => this.keys.press(event));
    this.element.addEventListener("keydown", (event) => this.#panelKey(event));
    for (const event of ["focus", "keydown"]) this.list.element.addEventListener(event, () => this.#hint());
    this.element.addEventListener("focusout", (event) => this.#leaves(event));
    keepKeys(this.element);
    model.on(["rows", "selected", "view", "state"], () => this.#arrange());
    model.on(["query"], () => this.#keepHeight());
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
    if ("card" in start || "race" in start) return; // that is no panel
    if ("text" in start) this.model.query.text = start.text;
    else if ("commit" in start) this.model.select(start.commit);
    else if ("conflicts" in start) this.model.show({ kind: "conflicts", ...start.conflicts });
    else this.model.show({ kind: "compare", a: start.compare.a, b: start.compare.b, name: start.compare.name ?? "" });
    this.model.tell("query");
  }

  focus() {
    this.wantsFocus = true;
    this.#takeFocus();
  }

  #takeFocus() {
    const { empty, list, model } = this;
    if (!this.wantsFocus || (model.view.kind === "list" && model.phase === "loading")) return;
    this.wantsFocus = false;
    if (model.view.kind === "list" && !empty.shown) list.element.focus({ preventScroll: true });
    if (document.activeElement === list.element) return;
    // Something stands in the list's place: its first button, which mostly is the way back.
    const places = [this.compare.element, this.conflicts.element, this.details.element, this.toolbar.element];
    const button = places.find((place) => !place.closest("[hidden]"))?.querySelector("button:not([hidden])");
    if (button instanceof HTMLElement) button.focus({ preventScroll: true });
  }

  dispose() {
    this.stop();
    this.keys.dispose();
    this.list.dispose();
    this.search.dispose();
    this.element.remove();
  }

  #arrange() {
    const { model } = this;
    const listed = model.view.kind === "list";
    this.main.hidden = !listed;
    this.list.element.hidden = this.empty.shown;
    this.#keepHeight();
    this.body.classList.toggle("ak-open", model.selected !== null);
    this.grip.hidden = (this.empty.shown && !this.body.classList.contains("ak-held")) || Boolean(this.host.compact);
    this.element.classList.toggle("ak-readonly", !model.canAct);
    setAll(this.element, { "aria-label": model.title ? `History of ${model.title}` : "History" });
    this.#takeFocus();
  }

  /** What stands below the panel does not jump while one searches, nor until the whole list is back. */
  #keepHeight() {
    const { phase, query, total } = this.model;
    const isWhole = !query.text && query.show === "all" && phase === "ready";
    if (isWhole) this.wholePx = total * ROW_PX;
    const isHeld = !isWhole && !this.host.compact && this.wholePx > 0;
    this.body.classList.toggle("ak-held", isHeld);
    this.body.classList.toggle("ak-low", isHeld && this.wholePx < LOW_PX);
    this.element.style.setProperty("--ak-rest", isHeld ? `${this.wholePx}px` : "auto");
  }

  /** Whoever uses the list by key sees its keys from then on, in the search field too: the line below must not come and go. */
  #hint() {
    if (this.list.element.matches(":focus-visible")) this.element.classList.add("ak-keyed");
  }

  /** Only something else that takes the focus ends it: a button that goes away leaves the focus nowhere. @param {FocusEvent} event */
  #leaves({ relatedTarget }) {
    if (relatedTarget instanceof Node && !this.element.contains(relatedTarget)) this.element.classList.remove("ak-keyed");
  }

  /** Where the focus goes when what had it is gone. */
  #home() {
    return this.list.element;
  }

  /** Keys of the panel outside its list. @param {KeyboardEvent} event */
  #panelKey(event) {
    const { model } = this;
    const typing = event.target instanceof HTMLInputElement && event.target.type === "text";
    if (event.key === "Escape") {
      if (model.view.kind !== "list") this.#backToList();
      else if (model.marked) model.mark(null);
      else if (model.selected !== null) this.#closeDetails();
      else return;
      event.preventDefault();
    } else if (event.key === "x" && model.view.kind === "compare" && !typing) {
      this.compare.swap();
      event.preventDefault();
    } else if (event.key === "H" && this.host.leave && !(event.target instanceof HTMLInputElement)) {
      this.host.leave();
      event.preventDefault();
    }
    // The letters of a search or of a key are not the notebook's.
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  }

  /** Where there is no room for both, the details take the list's place, and its focus. @param {string} id */
  #openDetails(id) {
    const focused = this.list.element.contains(document.activeElement);
    const row = this.model.rowAt(this.model.active);
    // Looking at what waits is what was asked for: the keyboard goes there, and not to a button that says yes.
    if (id.startsWith(RUN) && row?.kind === "wait") this.run.focusWhenDrawn();
    this.model.select(id);
    if (focused && getComputedStyle(this.list.element).display === "none") (id.startsWith(RUN) ? this.run : this.details).focusWhenDrawn();
  }

  #closeDetails() {
    const inside = [this.details, this.run].some((pane) => pane.element.contains(document.activeElement));
    this.model.select(null);
    if (inside) this.#home().focus({ preventScroll: true });
  }

  #backToList() {
    this.model.show({ kind: "list" });
    this.list.showActive();
    this.#home().focus({ preventScroll: true });
  }

  #help() {
    showKeys(this.element, { anchor: this.toolbar.more, back: this.#home() }, this.host.leave !== undefined);
  }
}
