/** What a row is about: a message, or the first line of its code, in the room that is left. */

import { el } from "../shared/dom.js";
import { cutMiddle } from "../shared/format.js";
import { markPieces } from "../shared/tokens.js";
import { chipsWidth } from "./chips.js";

/** @import { CommitRow } from "./protocol.js" */
/** @import { Marks } from "../shared/tokens.js" */

/** A character of the code font, and of a label; the graph, the prompt and what is between; took, when and theirs. */
const CODE_PX = 7.25;
const LABEL_PX = 6.5;
const LEFT_PX = 106;
const TIMES_PX = 120;

/**
 * Prose is cut at the end. Code that is longer than its room is in two parts, so that its last characters stay.
 *
 * @param {string} text @param {boolean} isCode @param {Marks} marks @param {number} room px
 */
export function subjectText(text, isCode, marks, room) {
  if (!isCode) return el("span", { class: "ak-msg", title: text }, ...marked(text, marks));
  const [first, last] = cutMiddle(text);
  if (!last || text.length * CODE_PX <= room) return el("code", { title: text }, ...marked(text, marks));
  return el(
    "code",
    { class: "ak-mid", title: text },
    el("span", {}, ...marked(first, marks)),
    el("span", {}, ...marked(last, marks)),
  );
}

/** About what is left for the subject; what is beside it is never cut. @param {CommitRow} row @param {{ widthPx: number }} look */
export function subjectRoom(row, look) {
  const shown = row.refs.filter(({ kind }) => kind !== "aside"); // whose label gives way to the subject
  const refs = shown.reduce((px, ref) => px + Math.min(140, 32 + ref.name.length * LABEL_PX), 0);
  const isQuiet = (row.author.me && row.author.kind === "person") || (row.depth === 1 && row.run);
  const who = isQuiet ? 0 : row.author.name.length * 8 + 6;
  const why = row.why ? row.why.length * LABEL_PX + 6 : 0;
  const right = look.widthPx < 600 ? 110 : chipsWidth(row, look) + TIMES_PX;
  return look.widthPx - LEFT_PX - refs - who - why - right;
}

/** @param {string} text @param {Marks} marks */
function marked(text, marks) {
  return markPieces(text, marks).map(([piece, matched]) =>
    matched ? el("mark", {}, piece) : document.createTextNode(piece),
  );
}

/** What is left in a row that has no chips and no refs. @param {{ widthPx: number }} look */
export function plainRoom(look) {
  return look.widthPx - LEFT_PX - TIMES_PX - 80;
}
