/**
 * What a list keeps where it is seen when rows come above it.
 *
 * Under the pointer, or with the keyboard in the list, nothing may move: somebody is about to press it. So what comes is above
 * the list then, and a button says so; as soon as nobody points there any more the list is back at its top. A pointer that has
 * been lying still is nobody's: cells are run by key. What the reader did here by themselves they want to see, so that is no
 * reason to hold anything.
 */

import { el, fill } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { ROW_PX } from "./window.js";

/** @import { Row } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @typedef {{ node: HTMLElement, at: number, row: Row | undefined }} Drawn */

const STILL_MS = 5_000;

export class Anchor {
  /** @param {HTMLElement} list that scrolls @param {HTMLElement} rows all of them @param {HistoryModel} model */
  constructor(list, rows, model) {
    this.list = list;
    this.rows = rows;
    this.model = model;
    /** @type {HTMLElement | null} the row under the pointer */
    this.under = null;
    this.movedMs = 0; // when the pointer did
    this.isPressed = false;
    /** How many rows are above only because somebody pointed at the list. */
    this.above = 0;
    this.put = 0; // where this scrolled to
    this.newer = el("button", { class: "ak-newer", type: "button", tabindex: -1, "aria-hidden": "true", hidden: true, onclick: () => this.#toTop() });
    list.prepend(this.newer);
    list.addEventListener("pointerover", (event) => this.#over(event));
    list.addEventListener("pointermove", () => this.#moves(), { passive: true });
    list.addEventListener("pointerdown", () => this.#moves(true), { passive: true });
    list.addEventListener("pointerup", () => this.#moves(), { passive: true });
    list.addEventListener("pointerleave", () => this.#leave());
    list.addEventListener("focusout", () => queueMicrotask(() => this.#release()));
    list.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /**
   * The rows stand elsewhere now: scroll so that the one that counts is where it was.
   *
   * @param {Map<string, Drawn>} drawn the rows as they still stand in the page
   * @param {number} heightPx of the list before it had other rows
   * @param {boolean} isOwn whether the reader did what moves them
   */
  hold(drawn, heightPx, isOwn) {
    const { list } = this;
    const isAtTop = list.scrollTop === this.above * ROW_PX;
    if (isAtTop && (isOwn || !this.isHeld)) return this.#rise();
    const moved = this.#moved([...drawn.values()]);
    if (!moved) return;
    if (isAtTop) this.above = Math.max(0, this.above + moved);
    const to = Math.max(0, list.scrollTop + moved * ROW_PX);
    if (isAtTop && heightPx) this.#makeRoom(to, heightPx);
    list.scrollTop = this.put = to;
    this.#say();
  }

  /** A list that is not full has nothing to scroll: as if it were. @param {number} to @param {number} heightPx */
  #makeRoom(to, heightPx) {
    this.list.style.height = `${heightPx}px`;
    this.rows.style.minHeight = `${to + heightPx}px`;
  }

  /** Whether somebody is about to press something in the list. */
  get isHeld() {
    const isPointedAt = this.isPressed || Date.now() - this.movedMs < STILL_MS;
    return (isPointedAt && Boolean(this.under?.isConnected)) || (this.model.touched && this.list.contains(document.activeElement));
  }

  /** By how many rows the one that counts stands lower now: that under the pointer, the active one, or the next one known. @param {Drawn[]} drawn */
  #moved(drawn) {
    const first = Math.floor(this.list.scrollTop / ROW_PX);
    const known = drawn.filter(({ at, row }) => at >= first && row && row.kind !== "day");
    const counts = drawn.find(({ node }) => node === this.under) ?? drawn.find(({ node }) => this.isHeld && node.classList.contains("ak-active"));
    const near = (/** @type {Drawn} */ { at }) => Math.abs(at - (counts?.at ?? first));
    for (const { at, row } of known.sort((a, b) => near(a) - near(b))) {
      const now = this.model.pages.find(/** @type {{ id: string }} */ (row).id);
      if (now !== null) return now - at;
    }
    return 0;
  }

  /** @param {Event} event */
  #over(event) {
    const row = event.target instanceof Element ? event.target.closest(".ak-row") : null;
    if (row && !this.under) this.#moves(); // where rows move under a pointer that lies still it comes over others, too
    if (row instanceof HTMLElement) this.under = row;
    this.#say();
  }

  #moves(isPressed = false) {
    this.movedMs = Date.now();
    this.isPressed = isPressed;
  }

  #leave() {
    this.under = null;
    this.isPressed = false;
    this.#release();
  }

  #release() {
    if (this.isHeld) return;
    if (this.above) this.#rise();
    this.#giveRoomBack();
  }

  #giveRoomBack() {
    this.list.style.height = this.rows.style.minHeight = "";
  }

  #scrolled() {
    if (!this.above || this.list.scrollTop === this.put) return;
    this.above = 0; // the reader has moved: the place is theirs
    this.#say();
  }

  #toTop() {
    this.under = null;
    this.#rise();
    this.list.focus({ preventScroll: true });
  }

  #rise() {
    if (this.above) {
      this.list.scrollTop = this.put = 0;
      this.#giveRoomBack();
    }
    this.above = 0;
    this.#say();
  }

  /** What waits above; not over the row that is pointed at. */
  #say() {
    const at = this.under ? Number(this.under.dataset["at"]) - this.list.scrollTop / ROW_PX : Infinity;
    this.newer.hidden = !this.above || at < 1.5;
    if (!this.newer.hidden) fill(this.newer, icon("up"), `${plural(this.above, "new row")}`);
  }
}
