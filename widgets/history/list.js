/**
 * The list: as many rows in the page as can be seen, however long the history is.
 *
 * It is one tab stop. The active row is named by `aria-activedescendant` and always stands in the page, also when it has
 * been scrolled away; the buttons of a row are reached with →.
 */

import { become, el, freshId, inOrder, setAll } from "../shared/dom.js";
import { when } from "../shared/format.js";
import { queryMarks } from "../shared/tokens.js";
import { Anchor } from "./anchor.js";
import { CHAR_PX } from "./chips.js";
import { detailId, targetOfRow } from "./detail-top.js";
import { graphWidth } from "./graph.js";
import { buildRow, waitingRow } from "./row.js";
import { ROW_PX, rowsInView, scrollTo } from "./window.js";

/** @import { Row } from "./protocol.js" */
/** @import { Target } from "./detail-top.js" */
/** @import { RowLook } from "./row.js" */
/** @import { HistoryModel } from "./state.js" */
/**
 * @typedef {object} RowDoings what the list asks for when a row is used
 * @property {(target: Target, from: HTMLElement) => void} checkout
 * @property {(target: Target, from: HTMLElement, at?: { x: number, y: number }) => void} menu
 * @property {(id: string) => void} details of a commit, or of a run
 * @property {(row: Row) => void} resume the run of a row
 */

const CLOCK_MS = 30_000;
const HEIGHT_UNKNOWN = 320;
const WIDTH_UNKNOWN = 820;

export class RowList {
  /** @param {HistoryModel} model @param {RowDoings} doings */
  constructor(model, doings) {
    this.model = model;
    this.doings = doings;
    this.id = freshId("list");
    this.sizer = el("div", { class: "ak-rows", role: "rowgroup" });
    this.element = el(
      "div",
      { class: "ak-list", role: "treegrid", tabindex: 0, "aria-label": "History", "aria-readonly": "true" },
      this.sizer,
    );
    /** @type {Map<string, { node: HTMLElement, at: number, row: Row | undefined, look: string }>} by what they are of, so that each keeps its element wherever it stands */
    this.drawn = new Map();
    this.anchor = new Anchor(this.element, this.sizer, model);
    this.version = "";
    this.graphPx = 44;
    this.promptPx = 48;
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("click", (event) => this.#click(event));
    this.element.addEventListener("contextmenu", (event) => this.#contextMenu(event));
    this.element.addEventListener("copy", (event) => copyWhole(event));
    model.on(["rows"], () => this.#relay());
    model.on(["revealed"], () => this.showActive());
    model.on(["query"], () => {
      if (model.phase === "loading") this.version = ""; // other rows are sought: none of them has a place yet
    });
    model.on(["active", "selected", "marked", "state"], () => this.draw());
    this.timer = setInterval(() => this.#tick(), CLOCK_MS);
    this.watch = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => this.draw());
    this.watch?.observe(this.element);
  }

  dispose() {
    clearInterval(this.timer);
    this.watch?.disconnect();
  }

  /** The list has changed: keep what was seen where it was. */
  #relay() {
    const { model, element } = this;
    const heightPx = element.clientHeight;
    setAll(this.sizer, { style: `height: ${model.total * ROW_PX}px; min-height: ${this.sizer.style.minHeight || "0"}` });
    setAll(element, { "aria-rowcount": model.total, "aria-busy": String(model.phase === "loading") });
    if (this.version) this.anchor.hold(this.drawn, heightPx, model.isOwn);
    this.version = model.pages.version;
    this.draw();
  }

  /** Have exactly the rows in view, and the active one, in the page. */
  draw() {
    const { model, element } = this;
    if (this.version && this.version !== model.pages.version) return this.#relay(); // they have come, and are told of next
    const height = element.clientHeight || HEIGHT_UNKNOWN;
    const { from, to } = rowsInView(element.scrollTop, height, model.total);
    model.need(from, to);
    const places = new Set(Array.from({ length: to - from }, (_, at) => from + at));
    if (model.total) places.add(model.active);
    const wanted = this.#named([...places].sort((a, b) => a - b));
    for (const [name, { node }] of this.drawn) {
      if (wanted.has(name)) continue;
      node.remove();
      this.drawn.delete(name);
    }
    const look = this.#look();
    // In the order of the list, as a screen reader goes by the order of the page.
    inOrder(this.sizer, [...wanted].map(([name, at]) => this.#drawRow(name, at, look)));
    this.#point();
  }

  #look() {
    const { model, element } = this;
    return {
      now: model.now(),
      marks: queryMarks(model.query.text),
      canAct: model.canAct,
      widthPx: element.clientWidth || WIDTH_UNKNOWN,
    };
  }

  /** What stands in these places, by what it is of. @param {number[]} places @returns {Map<string, number>} */
  #named(places) {
    /** @type {Map<string, number>} */
    const found = new Map();
    for (const at of places) {
      const row = this.model.pages.rows.get(at);
      const name = row ? `${row.kind} ${row.kind === "day" ? `${row.day} ${row.text ?? ""}` : row.id}` : "";
      // While older rows stand beside newer ones a commit may be in two places.
      found.set(name && !found.has(name) ? name : `${name} at ${at}`, at);
    }
    return found;
  }

  /** @param {string} name @param {number} at @param {Omit<RowLook, "marked" | "queued">} look */
  #drawRow(name, at, look) {
    const { model } = this;
    const row = model.pages.rows.get(at);
    const id = targetOfRow(row)?.id ?? "";
    const own = {
      ...look,
      marked: id !== "" && id === model.marked?.id,
      queued: id !== "" && id === model.state.queued?.id,
    };
    const key = `${own.marked} ${own.queued} ${own.canAct} ${own.widthPx} ${model.query.text}`;
    const had = this.drawn.get(name);
    const isSame = had && had.look === key && (had.row === row || JSON.stringify(had.row) === JSON.stringify(row));
    let node = had?.node;
    if (!node || !isSame) {
      const newer = row ? buildRow(row, own) : waitingRow();
      if (node) become(node, newer);
      node ??= newer;
      if (row) this.#widen(row);
    }
    if (had?.at !== at || !isSame) {
      setAll(node, { id: `${this.id}-${at}`, "data-at": at, "aria-rowindex": at + 1 });
      node.style.top = `${at * ROW_PX}px`;
    }
    this.#dress(at, node);
    this.drawn.set(name, { node, at, row, look: key });
    return node;
  }

  /** @param {number} at @param {HTMLElement} node */
  #dress(at, node) {
    const row = this.model.pages.rows.get(at);
    node.classList.toggle("ak-active", at === this.model.active);
    const id = detailId(row);
    if (id) node.setAttribute("aria-selected", String(id === this.model.selected && row?.kind !== "wait"));
  }

  /** More lanes, or longer prompts, make their columns wider for all rows, and these stay so. @param {Row} row */
  #widen(row) {
    const graphPx = graphWidth(row.graph);
    const promptPx = row.kind === "day" ? 0 : Math.ceil(row.prompt.length * CHAR_PX) + 9;
    if (graphPx > this.graphPx) this.element.style.setProperty("--ak-graph", `${(this.graphPx = graphPx)}px`);
    if (promptPx > this.promptPx) this.element.style.setProperty("--ak-prompt", `${(this.promptPx = promptPx)}px`);
  }

  #point() {
    const active = this.model.total ? `${this.id}-${this.model.active}` : null;
    setAll(this.element, { "aria-activedescendant": active });
  }

  #tick() {
    for (const { node, row } of this.drawn.values()) {
      const cell = node.querySelector(".ak-t");
      if (cell && row && row.kind !== "day") cell.textContent = when(row.time_ms, this.model.now());
    }
  }

  /** Scroll no further than is needed to see the active row. */
  showActive() {
    const { element, model } = this;
    element.scrollTop = scrollTo(model.active, element.scrollTop, element.clientHeight || HEIGHT_UNKNOWN);
    this.draw();
  }

  /** The active row's element, if it stands in the page. */
  get activeNode() {
    return [...this.drawn.values()].find(({ at }) => at === this.model.active)?.node ?? null;
  }

  /** @param {Event} event @returns {{ at: number, row: Row | undefined, node: HTMLElement } | null} */
  #hit(event) {
    const node = event.target instanceof Element ? event.target.closest(".ak-row") : null;
    if (!(node instanceof HTMLElement)) return null;
    const at = Number(node.dataset["at"]);
    return { at, row: this.model.pages.rows.get(at), node };
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const hit = this.#hit(event);
    if (!hit?.row || hit.row.kind === "day") return;
    const button = /** @type {Element} */ (event.target).closest("[data-do]");
    this.model.activate(hit.at);
    const does = button instanceof HTMLElement ? button.dataset["do"] : "";
    const id = detailId(hit.row);
    if (does === "fold" || !id) return this.model.fold(hit.row.id);
    if (does === "resume") return this.doings.resume(hit.row);
    const target = targetOfRow(hit.row);
    if (!(button instanceof HTMLElement) || !target) return this.doings.details(id);
    const from = button.offsetParent ? button : hit.node;
    if (does === "checkout") this.doings.checkout(target, from);
    else this.doings.menu(target, from);
  }

  /** @param {MouseEvent} event */
  #contextMenu(event) {
    const hit = this.#hit(event);
    const target = targetOfRow(hit?.row);
    if (!hit || !target) return;
    event.preventDefault();
    event.stopPropagation();
    this.model.activate(hit.at);
    this.doings.menu(target, hit.node, { x: event.clientX, y: event.clientY });
  }
}

/** Code that is cut in the middle stands in two boxes; copied, it is one line. @param {ClipboardEvent} event */
function copyWhole(event) {
  const chosen = getSelection();
  const [from, to] = [chosen?.anchorNode?.parentElement, chosen?.focusNode?.parentElement];
  const code = from?.closest(".ak-mid");
  if (!chosen || !code || !event.clipboardData || to?.closest(".ak-mid") !== code) return;
  event.clipboardData.setData("text/plain", chosen.toString().replaceAll("\n", ""));
  event.preventDefault();
}
