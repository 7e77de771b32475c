/**
 * What the panel knows and shows, and how it comes to know it.
 *
 * One object per panel. The parts of the view listen to it and never to each other. Rows are held by their place in the
 * list; when the history changes, the rows already here stay shown until newer ones have come, so that nothing flickers.
 */

import { zone } from "../shared/format.js";
import { PAGE_ROWS, pagesOf } from "./window.js";

/** @import { CommitRow, Done, Head, Host, Opening, Page, Query, Row, State, Transport } from "./protocol.js" */
/** @typedef {"rows" | "active" | "selected" | "marked" | "head" | "state" | "query" | "toast" | "view"} Topic */
/**
 * @typedef {{ kind: "list" }
 *   | { kind: "compare", a: string, b: string, name: string }
 *   | { kind: "conflicts", branch: string }} View what stands in the panel
 */
/** @typedef {{ id: string, label: string }} Mark a commit that is marked to be compared */
/** @typedef {{ text: string, next: "undo" | "redo" | "" }} Toast what was done, and the way back */

/** @type {State} */
const UNKNOWN = { version: "", busy: null, queued: null, failed: null, done: null, kernel: true, gone: null };

export class HistoryModel {
  /** @param {Transport} transport @param {Host} host */
  constructor(transport, host) {
    this.transport = transport;
    this.host = host;
    /** @type {Map<Topic, Set<() => void>>} */
    this.listeners = new Map();
    /** @type {Query} */
    this.query = { text: "", show: "all", tz_s: zone(this.now()), unfolded: [] };
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Map<number, number>} pages of this version: up to which row each is here, or on its way */
    this.pages = new Map();
    /** @type {Head | null} */
    this.head = null;
    this.state = UNKNOWN;
    this.title = "";
    this.unsaved = 0;
    this.total = 0;
    this.commits = 0;
    this.matches = 0;
    this.version = "";
    this.turn = 0;
    /** @type {"loading" | "ready" | "failed"} */
    this.phase = "loading";
    this.failure = "";
    this.active = 0;
    this.activeId = "";
    /** @type {string | null} the commit whose details are open */
    this.selected = null;
    /** @type {Mark | null} */
    this.marked = null;
    /** @type {View} */
    this.view = { kind: "list" };
    /** @type {Toast | null} what an act did, until it is dismissed or the next cell runs */
    this.toast = null;
    /** @type {{ text: string, code: string } | null} why one could not be done */
    this.problem = null;
    /** @type {((done: Done) => void) | null} what to do when the act that this panel queued is done */
    this.waiting = null;
    /** How many px the rows moved when newer ones came above them. */
    this.shift = 0;
  }

  now() {
    return this.host.now?.() ?? Date.now();
  }

  /** Acts are possible: there is a kernel, and a way to it. */
  get canAct() {
    return this.state.kernel && this.transport.canAct();
  }

  /** @param {Topic[]} topics @param {() => void} fn */
  on(topics, fn) {
    for (const topic of topics) {
      const those = this.listeners.get(topic) ?? new Set();
      this.listeners.set(topic, those.add(fn));
    }
  }

  /** @param {...Topic} topics */
  tell(...topics) {
    const those = new Set(topics.flatMap((topic) => [...(this.listeners.get(topic) ?? [])]));
    for (const fn of those) fn();
  }

  /** Ask for what is shown at first, and again whenever the history has changed. */
  async open() {
    const turn = ++this.turn;
    try {
      const opening = await this.transport.ask("open", { ...this.query, n: PAGE_ROWS });
      if (turn === this.turn) await this.#takeOpening(opening);
    } catch (error) {
      if (turn === this.turn) this.#fail(error);
    }
  }

  /** @param {Opening} opening */
  async #takeOpening(opening) {
    const anchor = this.phase === "ready" && this.activeId ? this.active : null;
    Object.assign(this, { title: opening.title, head: opening.head, unsaved: opening.unsaved_names });
    this.#takeState(opening.state);
    this.pages.clear();
    this.#takePage(opening.page);
    this.phase = "ready";
    if (anchor !== null) await this.#follow(anchor);
    this.tell("rows", "head", "state", "query");
  }

  /** Keep the active commit active, wherever it stands now. @param {number} before */
  async #follow(before) {
    const turn = this.turn;
    const row = this.rowOf(this.activeId) ?? (await this.transport.ask("locate", { ...this.query, id: this.activeId })).row;
    if (turn !== this.turn || row === null) return;
    this.active = row;
    this.shift += row - before;
  }

  /** @param {Page} page */
  #takePage(page) {
    if (page.version !== this.version) {
      this.version = page.version;
      this.pages.clear();
    }
    // A page may be shorter than was asked for, where its rows are long: the rest of it is asked for when it is in view.
    this.pages.set(page.from - (page.from % PAGE_ROWS), page.rows.length ? page.from + page.rows.length : Infinity);
    this.total = page.total;
    this.commits = page.commits;
    this.matches = page.matches;
    page.rows.forEach((row, at) => this.rows.set(page.from + at, row));
    for (const at of this.rows.keys()) if (at >= page.total) this.rows.delete(at);
    if (!this.activeId) this.active = this.rows.get(0)?.kind === "day" ? 1 : 0;
    this.active = Math.max(0, Math.min(this.active, page.total - 1));
  }

  /** Have rows `from` to `to` come, if they are not here. @param {number} from @param {number} to */
  need(from, to) {
    for (const start of pagesOf(from, Math.min(to, this.total))) {
      const end = Math.min(start + PAGE_ROWS, this.total);
      const next = this.pages.get(start) ?? start;
      if (next >= Math.min(end, to) || this.phase !== "ready") continue;
      this.pages.set(start, end);
      void this.#fetch(next, end - next);
    }
  }

  /** @param {number} from @param {number} n */
  async #fetch(from, n) {
    const turn = this.turn;
    try {
      const page = await this.transport.ask("rows", { ...this.query, from, n });
      if (turn !== this.turn) return;
      this.#takePage(page);
      this.tell("rows");
    } catch (error) {
      if (turn === this.turn) this.#fail(error);
    }
  }

  /** @param {unknown} error */
  #fail(error) {
    this.phase = "failed";
    this.failure = error instanceof Error ? error.message : String(error);
    this.tell("rows");
  }

  /** List other rows. @param {Partial<Query>} query */
  search(query) {
    Object.assign(this.query, query);
    this.rows.clear();
    Object.assign(this, { active: 0, activeId: "", shift: 0 });
    this.tell("query");
    void this.open();
  }

  /** Open or close a fold; the rows above it stay where they are. @param {string} id */
  fold(id) {
    const open = new Set(this.query.unfolded);
    if (!open.delete(id)) open.add(id);
    this.query.unfolded = [...open];
    void this.open();
  }

  /** @param {State} state */
  takeState(state) {
    this.#takeState(state);
    if (state.version !== this.version && this.phase === "ready") void this.open();
  }

  /** @param {State} state */
  #takeState(state) {
    const was = this.state;
    this.state = state;
    const first = was === UNKNOWN;
    if (state.failed && state.failed.text !== was.failed?.text) this.problem = state.failed;
    if (state.busy && state.busy !== was.busy) this.toast = null;
    if (!first && state.done && state.done.done !== was.done?.done) this.#queuedDone(state.done);
    this.tell("state", "toast");
  }

  /** @param {Done} done */
  #queuedDone(done) {
    this.toast = { text: [done.done, ...done.notes].join(" "), next: done.undo ? "undo" : "" };
    this.waiting?.(done);
    this.waiting = null;
  }

  /** Say what was done. @param {Toast | null} toast */
  say(toast) {
    this.toast = toast;
    this.tell("toast");
  }

  /** Say why something could not be done. @param {{ text: string, code: string } | null} problem */
  complain(problem) {
    this.problem = problem;
    this.tell("state");
  }

  /** @param {number} row @returns {CommitRow | null} */
  commitAt(row) {
    const found = this.rows.get(row);
    return found?.kind === "commit" ? found : null;
  }

  /** @param {string} id @returns {number | null} where a row that is here stands */
  rowOf(id) {
    for (const [at, row] of this.rows) if (row.kind !== "day" && row.id === id) return at;
    return null;
  }

  /** @param {number} row */
  activate(row) {
    const found = this.rows.get(row);
    this.active = Math.max(0, Math.min(row, this.total - 1));
    this.activeId = found && found.kind !== "day" ? found.id : "";
    this.tell("active");
  }

  /** Open a commit's details, or close them. @param {string | null} id */
  select(id) {
    if (id === this.selected) return;
    this.selected = id;
    this.tell("selected");
  }

  /** @param {Mark | null} mark */
  mark(mark) {
    this.marked = mark;
    this.tell("marked");
  }

  /** @param {View} view */
  show(view) {
    this.view = view;
    this.tell("view");
  }

  /** Scroll to a commit and make it the active one, if the list holds it. @param {string} id */
  async reveal(id) {
    const row = this.rowOf(id) ?? (await this.transport.ask("locate", { ...this.query, id })).row;
    if (row === null) return false;
    this.activate(row);
    this.activeId = id;
    this.tell("active");
    return true;
  }
}
