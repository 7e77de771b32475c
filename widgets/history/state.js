/**
 * What the panel knows and shows, and how it comes to know it.
 *
 * One object per panel. The parts of the view listen to it and never to each other; it asks the transport, and an answer
 * that comes after a newer question is dropped.
 */

import { errorText } from "../shared/buttons.js";
import { zone } from "../shared/format.js";
import { RowPages } from "./pages.js";
import { Shown } from "./shown.js";
import { actName } from "./strip.js";
import { PAGE_ROWS } from "./window.js";

/** @import { Done, Head, Host, Opening, Query, Row, State, Transport } from "./protocol.js" */
/** @type {State} */
const UNKNOWN = { version: "", busy: null, queued: null, failed: null, done: null, kernel: true, gone: null };

const LOST = "lost";
const CHECKS = 3; // times; a kernel may be too slow, or not know

/** What waited in a kernel that is not heard any more: it may be gone, and what it was to do with it. @param {NonNullable<State["queued"]>} queued */
function lost({ op, label }) {
  return { text: `${actName(op, label)} was waiting in the kernel, which does not answer any more.`, code: LOST };
}

const COMMIT = /^[0-9a-f]{40,}$/;

export class HistoryModel extends Shown {
  /** @param {Transport} transport @param {Host} host */
  constructor(transport, host) {
    super();
    this.transport = transport;
    this.host = host;
    /** @type {Query} */
    this.query = { text: "", show: "all", tz_s: zone(this.now()), unfolded: [] };
    this.pages = new RowPages();
    /** @type {Head | null} */
    this.head = null;
    this.state = UNKNOWN;
    this.title = "";
    this.unsaved = 0;
    this.turn = 0;
    /** The newest version that was told of since the last question. */
    this.latest = "";
    /** @type {"loading" | "ready" | "failed"} */
    this.phase = "loading";
    this.failure = "";
    this.active = 0;
    this.activeId = "";
    /** The reader has moved: the active row is theirs. */
    this.touched = false;
    /** The reader does something here, and it is not done yet. */
    this.acting = false;
    /** How often a kernel that is free was asked about runs that stopped. */
    this.checks = 0;
    /** @type {string | null | undefined} where HEAD was when the reader had done something here; undefined: somebody did more since */
    this.made = undefined;
  }

  now() {
    return this.host.now?.() ?? Date.now();
  }

  /** Acts are possible: there is a kernel, and a way to it. */
  get canAct() {
    return this.state.kernel && this.transport.canAct();
  }

  /** Whether the list is as the reader made it here, and not as a cell, or somebody else, has made it since. */
  get isOwn() {
    if (!this.acting && this.made !== this.head?.id) this.made = undefined;
    return this.acting || this.made !== undefined;
  }

  get total() {
    return this.pages.total;
  }

  // The list ------------------------------------------------------------------------------------------------------------

  /** Ask for what is shown at first, and again whenever the history has changed. */
  async open() {
    const turn = ++this.turn;
    this.latest = "";
    try {
      const opening = await this.transport.ask("open", { ...this.query, n: PAGE_ROWS });
      if (turn === this.turn) await this.#takeOpening(opening);
    } catch (error) {
      if (turn === this.turn) this.#fail(error);
    }
  }

  /** @param {Opening} opening */
  async #takeOpening(opening) {
    const isFollowing = this.phase === "ready" && this.activeId !== "";
    Object.assign(this, { title: opening.title, head: opening.head, unsaved: opening.unsaved_names });
    this.#takeState(opening.state);
    this.pages.expire();
    this.pages.take(opening.page);
    this.phase = "ready";
    if (this.problem?.code === "unread") this.problem = null;
    if (isFollowing) await this.#follow();
    this.#settle();
    this.tell("rows", "head", "state", "query");
    if ((this.latest && this.latest !== opening.state.version) || this.#isToCheck()) void this.open();
  }

  /** Whether to ask again: only a kernel that is free can say whether a run that stopped can go on, and the server may have answered. */
  #isToCheck() {
    const isFree = this.state.busy === null && this.canAct;
    if (!isFree) this.checks = 0;
    if (!isFree || !this.pages.hasUnchecked || this.checks === CHECKS) return false;
    this.checks += 1;
    return true;
  }

  /** Keep the active commit active, wherever it stands now; one that is gone leaves the top. */
  async #follow() {
    const turn = this.turn;
    const row = await this.#locate(this.activeId).catch(() => null);
    if (turn !== this.turn) return;
    if (row === null) {
      Object.assign(this, { active: 0, activeId: "", touched: false });
      return;
    }
    this.active = row;
  }

  /** @param {string} id @returns {Promise<number | null>} */
  async #locate(id) {
    const known = this.pages.find(id);
    // A fold, or a step that waited, is no commit: where its row is gone there is nothing to ask about.
    if (known !== null || !COMMIT.test(id)) return known;
    return (await this.transport.ask("locate", { ...this.query, id })).row;
  }

  /** The active row is one that is there, and no day. */
  #settle() {
    const { rows, total } = this.pages;
    if (!this.touched) this.active = rows.get(0)?.kind === "day" ? 1 : 0;
    this.active = Math.max(0, Math.min(this.active, total - 1));
    const row = rows.get(this.active);
    if (this.touched && row && row.kind !== "day") this.activeId = row.id;
  }

  /** Have rows `from` to `to` come, if they are not here. @param {number} from @param {number} to */
  need(from, to) {
    if (this.phase !== "ready") return;
    for (const wanted of this.pages.missing(from, to)) void this.#fetch(wanted);
  }

  /** @param {{ from: number, n: number }} wanted */
  async #fetch(wanted) {
    const turn = this.turn;
    try {
      const page = await this.transport.ask("rows", { ...this.query, ...wanted });
      if (turn !== this.turn) return;
      this.pages.take(page);
      this.#settle();
      this.tell("rows");
      if (this.#isToCheck()) void this.open();
    } catch (error) {
      if (turn === this.turn) this.#fail(error);
    }
  }

  /** What is shown stays; only where there is nothing yet does the failure take its place. @param {unknown} error */
  #fail(error) {
    if (this.phase === "ready") {
      if (!this.state.gone)
        this.complain({ text: `The history could not be read: ${errorText(error)}`, code: "unread" });
      return;
    }
    this.phase = "failed";
    this.failure = errorText(error);
    this.tell("rows", "head");
  }

  /** List other rows. @param {Partial<Query>} query */
  search(query) {
    Object.assign(this.query, query);
    this.pages.clear();
    Object.assign(this, { phase: "loading", active: 0, activeId: "", touched: false });
    this.tell("query");
    void this.open();
  }

  /** Open or close a fold. @param {string} id */
  fold(id) {
    const open = new Set(this.query.unfolded);
    if (!open.delete(id)) open.add(id);
    this.query.unfolded = [...open];
    void this.open();
  }

  /** @param {number} at @returns {Row | undefined} */
  rowAt(at) {
    return this.pages.rows.get(at);
  }

  /** @param {number} at */
  activate(at) {
    this.touched = true;
    this.active = Math.max(0, Math.min(at, this.total - 1));
    const row = this.pages.rows.get(this.active);
    this.activeId = row && row.kind !== "day" ? row.id : "";
    this.tell("active");
  }

  /** Make a commit the active one and scroll to it; false when the list does not hold it. @param {string} id */
  async reveal(id) {
    const row = await this.#locate(id).catch(() => null);
    if (row === null) return false;
    this.activate(row);
    this.tell("revealed");
    return true;
  }

  // What goes on --------------------------------------------------------------------------------------------------------

  /** @param {State} state */
  takeState(state) {
    const was = this.state;
    const isBack = (was.gone !== null && state.gone === null) || (this.problem?.code === "unread" && was.busy !== null && !state.busy);
    this.latest = state.version;
    this.#takeState(state);
    if (this.phase !== "loading" && (isBack || state.version !== was.version || this.#isToCheck())) void this.open();
  }

  /** @param {State} state */
  #takeState(state) {
    const was = this.state;
    this.state = state;
    if (state.failed && state.failed.text !== was.failed?.text) this.problem = state.failed;
    else if (was.queued && was.kernel && !state.kernel) this.problem = lost(was.queued);
    else if (this.problem?.code === LOST && (state.queued || state.done)) this.problem = null; // the kernel was only slow
    if (state.busy && state.busy !== was.busy) this.toast = null;
    if (was !== UNKNOWN && state.done && state.done.done !== was.done?.done) this.#queuedDone(state.done);
    this.tell("state", "toast");
  }

  /** @param {Done} done */
  #queuedDone(done) {
    this.say({ text: [done.done, ...done.notes].join(" "), next: done.undo ? "undo" : "", head: done.head.id, of: done.of });
  }
}
