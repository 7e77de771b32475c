/**
 * The notebook's cells, which only the place around the panel can bring back.
 *
 * Where it can reach the document they come back there, as one step that the document's own Undo takes back. Elsewhere the
 * same cells are written to a file beside the notebook, and the panel says where it is.
 */

import { errorText } from "../shared/buttons.js";
import { plural } from "../shared/format.js";
import { unmoved } from "../shared/moves.js";

/** @import { Target } from "./detail-top.js" */
/** @import { DocumentCell, Done, NotebookDocument } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */

export const CELLS_STAY = "The cells were not changed back, because you ran or edited one since. Edit › Undo changes them back.";
export const CELLS_TOO = "The notebook's cells are as they were before, too.";
const CELLS_AGAIN = "The notebook's cells changed again, too.";

/**
 * How many cells differ from a stored page, come, go or move, and the prompts of those that have one.
 *
 * @param {DocumentCell[]} now @param {NotebookDocument} page
 */
export function changedCells(now, page) {
  const places = new Map(now.map((cell, at) => [cell.id, at]));
  const there = new Map(page.cells.map((cell) => [cell.id, cell]));
  const kept = page.cells.map((cell) => places.get(cell.id) ?? null);
  const stays = new Set(unmoved(kept).map((at) => kept[at]));
  const other = now.filter((cell, at) => {
    const stored = there.get(cell.id);
    return !stays.has(at) || stored?.source !== cell.source || stored.type !== cell.type;
  });
  const come = kept.filter((at) => at === null).length;
  return { n: other.length + come, prompts: other.map((cell) => cell.prompt ?? "").filter(Boolean) };
}

/**
 * Whether a stored page is another notebook's, as where two work in one store: nothing of it stands in this document.
 *
 * @param {DocumentCell[]} now @param {NotebookDocument} page
 */
export function isOfAnother(now, page) {
  const ids = new Set(now.map((cell) => cell.id));
  const sources = new Set(now.map((cell) => cell.source.trim()).filter(Boolean));
  const known = page.cells.some((cell) => ids.has(cell.id) || sources.has(cell.source.trim()));
  return sources.size > 0 && page.cells.length > 0 && !known;
}

export class DocumentCells {
  /** @param {HistoryModel} model */
  constructor(model) {
    this.model = model;
    /** Whether the last act changed the document. */
    this.brought = false;
    this.turn = ""; // of the last page that was claimed
    this.awaits = false; // saw an act wait that may bring cells
    this.seen = ""; // what was done last after it had waited; "": no state was seen yet
    model.on(["state"], () => this.#heed());
  }

  #heed() {
    const { busy, queued } = this.model.state;
    if (queued) this.awaits = queued.op === "checkout" || queued.op === "rollback";
    else if (busy) this.awaits = false;
    this.#followQueued();
    void this.#claim();
  }

  /** An undo or a redo that had waited, or that a cell did, is done: the cells go with it, by the first panel of the document that hears of it. */
  #followQueued() {
    const { busy, done } = this.model.state;
    const seen = JSON.stringify(done);
    const isFirst = this.seen === "";
    // While the cell that did it still runs, what it shows belongs to the cells as they are.
    if (seen === this.seen || (busy && !isFirst)) return;
    this.seen = seen;
    const cells = isFirst || !done ? [] : done.op === "undo" ? this.takeBack(done) : done.op === "redo" ? this.bringAgain(done) : [];
    const { toast } = this.model;
    if (cells.length) this.brought = false;
    if (cells.length && toast) this.model.say({ ...toast, text: [toast.text, ...cells].join(" ") });
  }

  /**
   * An act that had waited left cells to be brought back: by one panel of the document that it was asked in. One that came
   * only afterwards does not know what was written since, so it puts them beside the document.
   */
  async #claim() {
    const { model, awaits } = this;
    const { cells } = model.state;
    if (!cells || cells.turn === this.turn || (cells.document && cells.document !== model.host.document?.())) return;
    this.turn = cells.turn;
    this.awaits = false;
    const before = this.#written();
    try {
      const page = await model.transport.act("claim", { turn: cells.turn });
      if (page && awaits && this.#written() === before && this.#restore(page, model.state.done?.of)) this.#tell();
      else if (page) await this.#write(cells);
    } catch (error) {
      model.complain({ text: `The notebook's cells could not be brought back: ${errorText(error)}`, code: "failed" });
    }
  }

  /** What stands in the document, to see whether it was written in. */
  #written() {
    return JSON.stringify(this.model.host.cells?.()?.map(({ id, type, source }) => [id, type, source]) ?? null);
  }

  /** After an act that brought cells with it. @param {{ id: string }} target @param {Done} done */
  after(target, done) {
    if (!done.cells) return;
    if (this.#restore(done.cells, done.of)) this.#tell();
    else void this.#write(target);
  }

  /** After an undo: the cells that came with what was undone go with it. What to say of that. @param {Done} done @returns {string[]} */
  takeBack(done) {
    const did = this.model.host.undoCells?.(done.of) ?? (this.brought ? "stay" : "none");
    return did === "none" ? [] : [did === "done" ? CELLS_TOO : CELLS_STAY];
  }

  /** After a redo they come again. @param {Done} done @returns {string[]} */
  bringAgain(done) {
    return this.model.host.redoCells?.(done.of) ? [CELLS_AGAIN] : [];
  }

  /** The cells alone. @param {Target} target @param {NotebookDocument} page */
  async bring(target, page) {
    const { n } = changedCells(this.model.host.cells?.() ?? [], page);
    this.model.say(null);
    if (!this.#restore(page, null)) return this.#write(target);
    const text = `Brought back the code of ${target.label}: ${plural(n, "cell")} changed.`;
    this.model.say({ text: `${text} The notebook's own Undo takes it back.`, next: "" });
    this.#tell();
  }

  /** The cell that this panel stands in may have gone, or be out of sight: what was done is said where it is seen. */
  #tell() {
    const { host, toast } = this.model;
    if (toast && !host.compact) host.say?.(toast);
  }

  /** @param {NotebookDocument} page @param {string | null | undefined} of the operation that it comes with; null: with none */
  #restore(page, of) {
    const { host } = this.model;
    this.brought = !isOfAnother(host.cells?.() ?? [], page) && (host.restoreCells?.(page, of) ?? false);
    return this.brought;
  }

  /** @param {{ id: string }} target */
  async #write(target) {
    const before = this.model.toast;
    try {
      const { done } = await this.model.transport.act("write_notebook", { id: target.id });
      this.model.say({ text: [before?.text, done].filter(Boolean).join(" "), next: before?.next ?? "", head: before?.head ?? null, of: before?.of });
    } catch (error) {
      const text = `The notebook's cells could not be written: ${errorText(error)}`;
      this.model.complain({ text, code: "failed" });
    }
  }
}
