/** What the keys of the list do: move, open, and ask for an act on the active row. */

import { detailId, targetOfRow } from "./detail-top.js";
import { keyMap, pressKey } from "./keys.js";

/** @import { Target } from "./detail-top.js" */
/** @import { Doings } from "./doings.js" */
/** @import { RowList } from "./list.js" */
/** @import { Menus } from "./menus.js" */
/** @import { HistoryModel } from "./state.js" */
/**
 * @typedef {object} Around the rest of the panel
 * @property {HistoryModel} model
 * @property {RowList} list
 * @property {Doings} doings
 * @property {Menus} menus
 * @property {() => void} branches
 * @property {() => void} search
 * @property {() => void} help
 * @property {(id: string) => void} open a commit's details
 * @property {() => void} close
 */

/** Walking fast asks for no details on the way. */
const FOLLOW_MS = 120;

export class ListKeys {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.model = around.model;
    this.list = around.list;
    this.follow = 0;
    this.keys = this.#map();
  }

  dispose() {
    clearTimeout(this.follow);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const inside = event.target instanceof HTMLElement && event.target !== this.list.element ? event.target : null;
    if (!inside || !this.#pressInside(event, inside)) pressKey(event, this.keys);
  }

  /** A button of a row has the focus: ← and Esc lead back to the list. @param {KeyboardEvent} event @param {HTMLElement} button */
  #pressInside(event, button) {
    if (event.key === "Enter" || event.key === " ") {
      event.stopPropagation();
      return true;
    }
    const side = { ArrowLeft: button.previousElementSibling, ArrowRight: button.nextElementSibling }[event.key];
    const back = event.key === "ArrowLeft" || event.key === "Escape" ? this.list.element : null;
    const next = side instanceof HTMLElement ? side : back;
    if (!next) return event.key === "ArrowRight";
    event.preventDefault();
    event.stopPropagation();
    next.focus({ preventScroll: true });
    return true;
  }

  #map() {
    const { around, model } = this;
    const { doings, menus } = around;
    /** @param {(target: Target, anchor: HTMLElement) => void} act */
    const onCommit = (act) => () => {
      const target = targetOfRow(model.rowAt(model.active));
      this.list.showActive();
      if (target) act(target, this.#anchor());
    };
    /** @param {(target: Target, anchor: HTMLElement) => void} act */
    const onActing = (act) => () => model.canAct && onCommit(act)();
    return keyMap({
      move: (step) => this.#move(step),
      jump: (end) => this.#move(end ? Infinity : -Infinity),
      unfold: (open) => this.#unfold(open),
      details: () => this.#details(),
      checkout: onActing((target, at) => doings.checkout(target, at)),
      rollback: onActing((target, at) => doings.rollback(target, at)),
      branch: onActing((target, at) => doings.branch(target, at)),
      tag: onActing((target, at) => doings.tag(target, at)),
      mark: onCommit((target) => doings.mark(target)),
      compareWithHead: onCommit((target) => doings.compareWithHead(target)),
      copy: onCommit((target) => void doings.copy(target)),
      showHead: () => void this.showHead(),
      undo: () => doings.undoNext(this.list.element),
      menu: onCommit((target, at) => menus.menu(target, at)),
      branches: around.branches,
      search: around.search,
      help: around.help,
      back: () => this.#back(),
    });
  }

  /** What a question about the active row opens from. */
  #anchor() {
    const node = this.list.activeNode;
    const button = node?.querySelector(".ak-a .ak-b:last-child");
    return button instanceof HTMLElement && button.offsetParent ? button : (node ?? this.list.element);
  }

  /** Days are passed over. @param {number} step */
  #move(step) {
    const { model } = this;
    const isDay = (/** @type {number} */ at) => model.pages.rows.get(at)?.kind === "day";
    const last = model.total - 1;
    const way = step < 0 ? -1 : 1;
    let to = Math.max(0, Math.min(last, model.active + step));
    if (isDay(to)) to += to + way < 0 || to + way > last ? -way : way;
    if (isDay(to) || to < 0 || to > last) return;
    model.activate(to);
    this.list.showActive();
    const id = detailId(model.rowAt(to));
    if (model.selected === null || !id) return;
    clearTimeout(this.follow);
    this.follow = window.setTimeout(() => model.select(id), FOLLOW_MS);
  }

  /** @param {boolean} open */
  #unfold(open) {
    const { model } = this;
    const row = model.rowAt(model.active);
    const stays = row?.kind === "fold" && (row.run?.status === "pending" || row.run?.status === "clarify");
    if (row?.kind === "fold" && row.unfolded !== open && !stays) return model.fold(row.id);
    if (row?.kind === "fold" && !row.run) return;
    const first = open ? this.list.activeNode?.querySelector(":is(.ak-a, .ak-end) .ak-b") : null;
    if (first instanceof HTMLElement) first.focus({ preventScroll: true });
  }

  #details() {
    const { model } = this;
    const row = model.rowAt(model.active);
    const id = detailId(row);
    if (row?.kind === "fold" && (!id || !row.unfolded)) model.fold(row.id);
    if (id) this.around.open(id);
  }

  #back() {
    const { model } = this;
    if (model.marked) model.mark(null);
    else if (model.selected !== null) this.around.close();
    else if (model.query.text) model.search({ text: "" });
  }

  async showHead() {
    const { model } = this;
    if (!model.head?.id) return;
    if (!(await model.reveal(model.head.id))) model.say({ text: `${model.head.label} is filtered out.`, next: "" });
  }
}
