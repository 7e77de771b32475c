/**
 * What of a panel stays in the notebook's file where widgets are saved with it (a setting of JupyterLab, off by default).
 *
 * The opening travels with the widget's state, and it tells commits by their code. The cells may be deleted by then, and the
 * file is given to others: as in the other faces that are saved, "cell" stands for their code.
 */

/** @import { CommModel } from "./comm.js" */
/** @import { Opening, Row } from "./protocol.js" */

const CELL = "cell";
const RUN = "run"; // whose task may say anything

const WHOLE = Symbol("the opening with the code");

/** Have the model keep for its file what it may. @param {CommModel} model @returns {() => void} how to stop */
export function keepNoCode(model) {
  const keep = () => {
    const opening = model.get("opening");
    if (opening[WHOLE]) return;
    // Set and not sent: the kernel keeps its own. What copies or writes a model's state leaves out what goes by a symbol.
    const kept = { args: opening.args, ok: withoutCode(opening.ok) };
    model.set("opening", Object.defineProperty(kept, WHOLE, { value: opening }));
  };
  keep();
  model.on("change:opening", keep);
  return () => model.off("change:opening", keep);
}

/** The opening as it came. @param {CommModel} model @returns {{ args: any, ok: any }} */
export function openingOf(model) {
  const opening = model.get("opening");
  return opening[WHOLE] ?? opening;
}

/** @param {Opening} opening @returns {Opening} */
function withoutCode(opening) {
  const { head, page, state } = opening;
  const label = head.prompt || (head.id === null ? head.label : CELL);
  const untold = { queued: null, failed: null, done: null, undo: null };
  return { ...opening, head: { ...head, label }, state: { ...state, ...untold }, page: { ...page, rows: page.rows.map(rowWithoutCode) } };
}

/** @param {Row} row @returns {Row} */
function rowWithoutCode(row) {
  if (row.kind === "day") return row;
  if (row.kind === "fold") return { ...row, subject: row.why === "run" ? RUN : CELL };
  if (row.kind === "wait") return { ...row, subject: RUN, is_code: false, stopped: row.stopped && { ...row.stopped, code: "" } };
  // A comment at the head of a cell is no code to the view, and is not told from a message.
  const subject = row.prompt || row.is_code || row.author.kind === "agent" ? CELL : row.subject;
  return { ...row, subject, is_code: false, why: row.why.split(":", 1)[0] ?? "" };
}
