/**
 * The board as a widget: a table for each kind of thing that goes on, drawn anew where it changes.
 *
 * What the kernel sends is texts, shares and times; what a line was before is asked for when it is opened. Rows stay where they
 * are as long as their line is there: who reads one, or stands on it with the keyboard, is not disturbed by the others.
 */

import { errorText } from "../shared/buttons.js";
import { el } from "../shared/dom.js";
import { count, plural } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { keepKeys } from "../shared/shortcuts.js";
import { fill, passed } from "./cells.js";

/** @import { Cell } from "./cells.js" */
/**
 * @typedef {{ title: string, right: boolean, flexible: boolean, rank: number }} Column
 * @typedef {{ line: string, cells: Cell[] }} Line
 * @typedef {{ name: string, title: string, count: number, columns: Column[], rows: Line[] }} Part
 * @typedef {{ at: number, by: string, changed: string }} Change
 * @typedef {{ parts: Part[], time_s: number, ended: string }} State
 * @typedef {{ get(name: string): any, send(message: object): void, on(event: string, fn: (...args: any[]) => void): void,
 *   off(event: string, fn: (...args: any[]) => void): void, comm_live?: boolean }} Model
 * @typedef {{ row: HTMLTableRowElement, more: HTMLTableRowElement | null, seen: string }} Drawn
 */

const TICK_MS = 1_000;
let asked = Math.floor(Math.random() * 2 ** 32) * 2 ** 16; // views of one model hear each other's answers

class Board {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.note = el("span", { class: "ak-live" });
    this.body = el("div", { class: "ak-parts" });
    const bar = el("div", { class: "ak-bar ak-board-bar" }, el("b", {}, "Board"), el("span", { class: "ak-sp" }), this.note);
    this.element = el("div", { class: "ak-panel ak-board", role: "region", "aria-label": "Board" }, bar, this.body);
    keepKeys(this.element);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("focusin", (event) => this.keepTab(/** @type {Element} */ (event.target)));
    /** @type {Map<string, { table: HTMLTableElement, head: string, rows: Map<string, Drawn> }>} */
    this.parts = new Map();
    /** @type {Map<number, (answer: any) => void>} */
    this.waiting = new Map();
    this.heard = (/** @type {any} */ message) => this.hear(message);
    this.changed = () => this.draw();
    model.on("change:board", this.changed);
    model.on("msg:custom", this.heard);
    this.clock = setInterval(() => this.tick(), TICK_MS);
    this.draw(true);
  }

  dispose() {
    clearInterval(this.clock);
    this.model.off("change:board", this.changed);
    this.model.off("msg:custom", this.heard);
  }

  // -- drawing

  draw(first = false) {
    /** @type {State} */
    const state = this.model.get("board");
    const names = new Set(state.parts.map((part) => part.name));
    for (const [name, part] of this.parts) {
      if (names.has(name)) continue;
      part.table.remove();
      this.parts.delete(name);
    }
    this.empty?.remove();
    if (!state.parts.length) {
      this.empty = el("p", { class: "ak-nothing" }, "Nothing goes on here yet: no workflow, queue, tool, agent, indexing or speech.");
      this.body.append(this.empty);
    }
    state.parts.forEach((part, at) => this.drawPart(part, at, first));
    if (!this.element.querySelector("tr[tabindex='0']")) this.element.querySelector("tr[data-line]")?.setAttribute("tabindex", "0");
    this.tick();
  }

  /** @param {Part} part @param {number} at @param {boolean} first */
  drawPart(part, at, first) {
    const head = JSON.stringify([part.title, part.count, part.rows.length, part.columns]);
    let drawn = this.parts.get(part.name);
    if (!drawn) {
      const table = el("table", { class: "ak-part", role: "treegrid", "aria-label": part.title, "data-part": part.name }, el("thead"), el("tbody"));
      drawn = { table, head: "", rows: new Map() };
      this.parts.set(part.name, drawn);
    }
    if (drawn.head !== head) drawn.table.tHead?.replaceChildren(heading(part));
    drawn.head = head;
    place(this.body, drawn.table, at);
    const body = /** @type {HTMLElement} */ (drawn.table.tBodies[0]);
    const lines = new Set(part.rows.map((row) => row.line));
    for (const [line, { row, more }] of drawn.rows) {
      if (lines.has(line)) continue;
      if (row.contains(document.activeElement)) this.step(row, 1) || this.step(row, -1);
      row.remove();
      more?.remove();
      drawn.rows.delete(line);
    }
    let place_ = 0;
    for (const line of part.rows) {
      const one = this.drawRow(drawn.rows.get(line.line), part, line, first);
      drawn.rows.set(line.line, one);
      place(body, one.row, place_++);
      if (one.more) place(body, one.more, place_++);
    }
  }

  /** @param {Drawn | undefined} drawn @param {Part} part @param {Line} line @param {boolean} first @returns {Drawn} */
  drawRow(drawn, part, line, first) {
    const seen = JSON.stringify(line.cells);
    if (drawn?.seen === seen) return drawn;
    const row = drawn?.row ?? el("tr", { tabindex: "-1", "aria-expanded": "false", "data-line": line.line, title: "Show what happened to it" });
    if (!drawn) row.addEventListener("click", () => this.toggle(part.name, line.line));
    const cells = line.cells.map((cell, at) => {
      const column = /** @type {Column} */ (part.columns[at]);
      return fill(el("td", { class: look(column), role: "gridcell" }), cell, at === 0 ? icon("right", "ak-fold") : null);
    });
    if (!part.columns.some((column) => column.flexible)) cells.splice(gapOf(part), 0, el("td", { class: "ak-flex", role: "presentation" }));
    row.replaceChildren(...cells);
    if (!first) {
      row.classList.remove("ak-new");
      void row.offsetWidth; // begins the animation anew
      row.classList.add("ak-new");
    }
    const made = { row, more: drawn?.more ?? null, seen };
    if (made.more) this.ask(line.line, made.more);
    return made;
  }

  tick() {
    /** @type {State} */
    const { time_s, ended } = this.model.get("board");
    const gone = ended || (this.model.comm_live === false ? "No kernel" : "");
    const at = new Date(1000 * time_s).toTimeString().slice(0, 5);
    this.note.textContent = gone ? `${gone}. As of ${at}` : "live";
    this.note.classList.toggle("ak-over", Boolean(gone));
    const now_s = gone ? time_s : Date.now() / 1000;
    for (const time of this.element.querySelectorAll("time")) {
      const text = passed(time, now_s);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // -- what happened to a line

  /** @param {string} name @param {string} line @param {boolean} [open] */
  toggle(name, line, open) {
    const drawn = this.parts.get(name)?.rows.get(line);
    if (!drawn || open === Boolean(drawn.more)) return;
    drawn.row.setAttribute("aria-expanded", String(!drawn.more));
    if (drawn.more) {
      if (drawn.more.contains(document.activeElement)) drawn.row.focus();
      drawn.more.remove();
      drawn.more = null;
      return;
    }
    const box = el("div", { class: "ak-changes", tabindex: "0", role: "group", "aria-label": `What happened to ${line}` }, el("p", { class: "ak-muted" }, "Loading…"));
    drawn.more = el("tr", { class: "ak-more" }, el("td", { colspan: String(drawn.row.cells.length) }, box));
    drawn.row.after(drawn.more);
    this.ask(line, drawn.more);
  }

  /** @param {string} line @param {HTMLTableRowElement} into */
  ask(line, into) {
    const id = ++asked;
    const box = /** @type {HTMLElement} */ (into.querySelector(".ak-changes"));
    this.waiting.set(id, (answer) => {
      if (answer.error) box.replaceChildren(el("p", { class: "ak-muted", role: "alert" }, errorText(new Error(answer.error))));
      else box.replaceChildren(changesTable(answer.ok));
      this.tick();
    });
    this.model.send({ id, op: "history", line });
  }

  /** @param {any} message */
  hear(message) {
    const then = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    then?.(message);
  }

  // -- keys: one tab stop, and arrows from there

  /** @param {Element} target */
  keepTab(target) {
    const row = target.closest("tr[data-line]");
    if (!row) return;
    for (const other of this.element.querySelectorAll("tr[tabindex='0']")) other.setAttribute("tabindex", "-1");
    row.setAttribute("tabindex", "0");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = /** @type {HTMLTableRowElement | null} */ (target.closest("tr[data-line]") ?? target.closest("tr.ak-more")?.previousElementSibling ?? null);
    if (!row) return;
    const name = row.closest("table")?.getAttribute("data-part") ?? "";
    const line = row.getAttribute("data-line") ?? "";
    const isOpen = row.getAttribute("aria-expanded") === "true";
    /** @type {Record<string, () => unknown>} */
    const does = {
      Enter: () => this.toggle(name, line),
      " ": () => this.toggle(name, line),
      ArrowRight: () => this.toggle(name, line, true),
      ArrowLeft: () => this.toggle(name, line, false),
      Escape: () => (isOpen ? this.toggle(name, line, false) : target.blur()),
      ...(target === row && {
        ArrowDown: () => this.step(row, 1),
        j: () => this.step(row, 1),
        ArrowUp: () => this.step(row, -1),
        k: () => this.step(row, -1),
        Home: () => this.step(row, -Infinity),
        End: () => this.step(row, Infinity),
      }),
    };
    const act = does[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** @param {HTMLElement} row @param {number} by */
  step(row, by) {
    const rows = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll("tr[data-line]")]);
    const next = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + by))];
    if (!next || next === row) return false;
    next.focus();
    return true;
  }
}

/** @param {Part} part */
function heading(part) {
  const many = part.count > part.rows.length ? `${part.rows.length} of ${count(part.count)}` : count(part.count);
  const first = el("th", { class: look(/** @type {Column} */ (part.columns[0])), scope: "col" }, el("b", {}, part.title), " ", el("span", { class: "ak-muted" }, many));
  const cells = [first, ...part.columns.slice(1).map((column) => el("th", { class: look(column), scope: "col" }, column.title))];
  if (!part.columns.some((column) => column.flexible)) cells.splice(gapOf(part), 0, el("td", { class: "ak-flex", role: "presentation" }));
  return el("tr", {}, ...cells);
}

/** Where the room goes that no column needs: before a time at the end. @param {Part} part */
function gapOf(part) {
  const last = part.rows[0]?.cells.at(-1);
  const isTime = typeof last === "object" && ("at" in last || "span" in last);
  return part.columns.length - (isTime ? 1 : 0);
}

/** @param {Column} column */
function look({ right, flexible, rank }) {
  return [right ? "ak-right" : "", flexible ? "ak-flex" : "", rank ? `ak-rank${rank}` : ""].filter(Boolean).join(" ");
}

/** @param {Change[]} changes */
function changesTable(changes) {
  const rows = changes.map(({ at, by, changed }) => el("tr", {}, fill(el("td"), { at }), el("td", { class: "ak-what" }, changed), el("td", { class: "ak-muted ak-by" }, by)));
  return el("table", { "aria-label": plural(changes.length, "change") }, el("tbody", {}, ...rows));
}

/** Have a node at a place, and leave it alone where it is there already. @param {Element} around @param {Element} node @param {number} at */
function place(around, node, at) {
  const there = around.children[at] ?? null;
  if (there === node) return;
  const focused = node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  around.insertBefore(node, there);
  focused?.focus();
}

/** @param {{ model: Model, el: HTMLElement }} context */
function render({ model, el: around }) {
  const board = new Board(model);
  around.append(board.element);
  return () => board.dispose();
}

export default { render };
