/**
 * Where HEAD is and which colour each branch has, for the lines under a notebook's cells: asked once for all of them, and
 * again only when the history has moved.
 */

/** @import { Done, State } from "../history/protocol.js" */
/** @import { NotebookTransport } from "./transport.js" */

const PANELS_MS = 400;
const SOON_MS = 60; // several cells that run one after the other are one question

export class Following {
  /** @param {NotebookTransport} transport @param {(done: Done) => void} [onDone] told of what a cell did, or of an act that had waited */
  constructor(transport, onDone = () => {}) {
    this.transport = transport;
    this.onDone = onDone;
    /** @type {string | null} what was done last; null: not known yet */
    this.done = null;
    /** @type {string | null} the commit that HEAD is at; null: not known */
    this.head = null;
    /** @type {Map<string, number | null>} */
    this.lanes = new Map();
    /** @type {Set<string>} the runs that were taken back */
    this.undone = new Set();
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.version = "";
    this.isBusy = false;
    this.timer = 0;
    /** @type {(() => void) | null} */
    this.stop = null;
  }

  /** Calls back when something of it changed; returns how to stop. @param {() => void} fn */
  listen(fn) {
    this.listeners.add(fn);
    this.stop ??= this.transport.onState((state) => this.#moved(state));
    this.#soon();
    return () => void this.listeners.delete(fn);
  }

  dispose() {
    clearTimeout(this.timer);
    this.stop?.();
    this.listeners.clear();
  }

  /** A cell may have put HEAD elsewhere: until it is known where, no line stands for it. @param {State} state */
  #moved({ busy, done, version }) {
    const seen = JSON.stringify(done ?? null);
    if (this.done === null || (!busy && seen !== this.done)) {
      // A panel of the notebook comes first: it says what it did where one looks.
      if (this.done !== null && done) setTimeout(() => this.onDone(done), PANELS_MS);
      this.done = seen;
    }
    const before = [this.isBusy, this.head];
    this.isBusy = busy !== null;
    if (version !== this.version) this.head = null;
    if (before[0] !== this.isBusy || before[1] !== this.head) this.#tell();
    this.#soon();
  }

  #tell() {
    for (const fn of [...this.listeners]) fn();
  }

  #soon() {
    clearTimeout(this.timer);
    this.timer = Number(setTimeout(() => void this.#look(), SOON_MS));
  }

  async #look() {
    const { version } = this.transport.state();
    if (!this.listeners.size) return;
    if (!version || version !== this.version) await this.#ask();
    this.#tell();
  }

  async #ask() {
    try {
      const none = { text: "", show: /** @type {const} */ ("all"), tz_s: 0, unfolded: [] };
      const opening = await this.transport.ask("open", { ...none, n: 0 });
      const branches = await this.transport.ask("branches", {});
      this.head = opening.head.id;
      this.lanes = new Map(branches.map((branch) => [branch.name, branch.lane]));
      this.undone = new Set(opening.undone);
      this.version = opening.page.version;
    } catch {
      this.head = null; // the line under the cell is as true without it
    }
  }
}
