/**
 * Whether a kernel is still at the other end of a comm.
 *
 * No message says that a kernel has died, and a widget's model outlives a restart. What the front end knows it tells by the
 * model's events; where it tells nothing, a kernel that owes an answer and says nothing at all counts as gone until it is
 * heard again. A kernel of one thread says nothing while its cell runs, so that alone is no sign.
 */

/** @typedef {"alive" | "silent" | "closed"} Pulse */
/** @typedef {{ on(event: string, fn: () => void): void, off(event: string, fn: () => void): void }} Events */

export const SILENT = "The kernel does not answer. If it was ended or restarted, %agent history shows the history again.";
export const CLOSED = "The kernel of this panel is gone. %agent history shows the history again.";

const ENDS = ["comm:close", "destroy"];
const DOUBTS = "comm_live_update"; // the connection was lost, or came back

export class Heart {
  /**
   * @param {Events} model
   * @param {{ ping: () => void, owesMs: () => number, isBusy: () => boolean, moved: () => void, late: () => void }} kernel
   *   `owesMs`: how long it may take to say something; 0: it owes nothing. `late`: it took longer, but a cell runs.
   *   `moved`: it is alive, or no longer.
   * @param {number} doubtMs that it may take after a sign that it has gone
   */
  constructor(model, kernel, doubtMs) {
    this.model = model;
    this.kernel = kernel;
    this.doubtMs = doubtMs;
    /** @type {Pulse} */
    this.pulse = "alive";
    this.timer = 0;
    this.doubted = false;
    this.end = () => this.become("closed");
    this.doubt = this.doubt.bind(this);
    for (const event of ENDS) model.on(event, this.end);
    model.on(DOUBTS, this.doubt);
  }

  dispose() {
    clearTimeout(this.timer);
    for (const event of ENDS) this.model.off(event, this.end);
    this.model.off(DOUBTS, this.doubt);
  }

  /** Why nothing can be asked; null: it can. */
  get gone() {
    return { alive: null, silent: SILENT, closed: CLOSED }[this.pulse];
  }

  /** Wait for what it owes. */
  expect() {
    const owedMs = this.kernel.owesMs();
    if (this.timer || !owedMs || this.pulse === "closed") return;
    const ms = this.doubted || this.pulse === "silent" ? this.doubtMs : owedMs;
    this.timer = Number(setTimeout(() => this.missed(), ms));
  }

  /** The kernel said something, whatever it was. */
  heard() {
    this.rest();
    this.doubted = false;
    if (this.pulse === "silent") this.become("alive");
    this.expect();
  }

  doubt() {
    if (this.pulse === "closed") return;
    this.rest();
    this.doubted = true;
    this.kernel.ping();
  }

  missed() {
    this.rest();
    if (!this.kernel.isBusy() || this.doubted) return this.become("silent");
    this.kernel.late();
    this.expect();
  }

  rest() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  /** @param {Pulse} pulse */
  become(pulse) {
    if (this.pulse === "closed") return;
    this.rest();
    this.pulse = pulse;
    this.kernel.moved();
  }
}
