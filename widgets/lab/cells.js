/**
 * The cells of an open document: what they are, and bringing others back in their place.
 *
 * Cells are matched by id and only what differs is touched, all of it in one step of the notebook's own undo. A cell that
 * stays keeps its widget, its outputs and the cursor in it. One whose code becomes another loses what the code before it
 * showed: those outputs and that prompt are of another run.
 */

import { unmoved } from "../shared/moves.js";

/** @import { DocumentCell, NotebookDocument } from "../history/protocol.js" */
/** @import { SharedCell, SharedNotebook } from "./jupyter.js" */
/** @typedef {NotebookDocument["cells"][number]} PageCell */

const NOT_RUN = { outputs: [], execution_count: null };

/** @param {SharedNotebook} notebook @returns {DocumentCell[]} */
export function cellsOf(notebook) {
  return notebook.cells.map((cell) => ({
    id: cell.getId(),
    type: cell.cell_type,
    source: cell.getSource(),
    prompt: cell.execution_count ? `[${cell.execution_count}]` : "",
  }));
}

/** @param {SharedNotebook} notebook @param {NotebookDocument} page */
export function restoreCells(notebook, page) {
  const now = [...notebook.cells];
  const kept = matched(now, page.cells);
  const stays = new Set(unmoved(kept));
  const staying = new Set([...stays].map((at) => kept[at]));
  const olds = kept.map((at) => (at === null ? undefined : now[at]));
  // Before anything is deleted: a cell that is not in its document any more has no text, no outputs and no id.
  const inserted = page.cells.map((cell, at) => {
    const old = olds[at];
    return stays.has(at) ? null : old ? again(old, cell.source) : made(cell);
  });
  notebook.transact(() => {
    // From the end, so that the places before stay what they are.
    for (let at = now.length - 1; at >= 0; at -= 1) if (!staying.has(at)) notebook.deleteCellRange(at, at + 1);
    page.cells.forEach((cell, at) => {
      const [old, made] = [olds[at], inserted[at]];
      if (made) notebook.insertCells(at, [made]);
      else if (old && old.getSource() !== cell.source) rewrite(old, cell.source);
    });
  });
}

/**
 * For each cell of the page the place where it stands now; null: it was deleted since.
 *
 * @param {SharedCell[]} now @param {PageCell[]} page @returns {(number | null)[]}
 */
export function matched(now, page) {
  const free = new Map(now.map((cell, at) => [cell.getId(), at]));
  const found = page.map((cell) => {
    const at = cell.id ? free.get(cell.id) : undefined;
    if (at === undefined || now[at]?.cell_type !== cell.type) return null;
    free.delete(cell.id);
    return at;
  });
  const left = new Set(free.values());
  // A notebook of an older format has no ids: equal text is the same cell.
  return found.map((at, place) => {
    const cell = page[place];
    if (at !== null || !cell || cell.id) return at;
    const same = [...left].find((one) => now[one]?.cell_type === cell.type && now[one]?.getSource() === cell.source);
    if (same === undefined) return null;
    left.delete(same);
    return same;
  });
}

/** A cell that has to move, with what it showed if its code is the same. @param {SharedCell} cell @param {string} source */
function again(cell, source) {
  return { ...cell.toJSON(), source, ...(cell.cell_type === "code" && source !== cell.getSource() ? NOT_RUN : {}) };
}

/** @param {SharedCell} cell @param {string} source */
function rewrite(cell, source) {
  cell.setSource(source);
  if (cell.cell_type !== "code") return;
  cell.setOutputs?.([]);
  cell.execution_count = null;
}

/** A cell that is not there any more. One without outputs is trusted, as one that is typed is. @param {PageCell} cell */
function made(cell) {
  const id = cell.id ? { id: cell.id } : {};
  const code = cell.type === "code" ? { ...NOT_RUN, metadata: { trusted: true } } : { metadata: {} };
  return { cell_type: cell.type, source: cell.source, ...id, ...code };
}
