/**
 * What a commit changed, in the room that its row has: the largest names, or how many of each kind.
 *
 * Chips are never cut: as many are shown as fit, and the last says how many more there are. What is not saved is not among
 * those that are left out before what is.
 */

import { el } from "../shared/dom.js";
import { SIGNS, bytes } from "../shared/format.js";

/** @import { CommitRow, Sign } from "./protocol.js" */
/** @import { Marks } from "../shared/tokens.js" */
/** @typedef {Record<string, string>} Grew how much longer or wider a name became: "−17 rows" */

export const SIGN_ORDER = /** @type {const} */ (["+", "~", "-", "!"]);
/** A character of the code font at 11 px. */
export const CHAR_PX = 6.65;
const GAP_PX = 10;

/**
 * How many chips have room, and whether the size of the first one, and what became of the others, have.
 *
 * @param {CommitRow["chips"]} all @param {number} more @param {number} room px @param {Grew} [grew]
 * @returns {{ shown: number, sized: boolean, more: number }}
 */
export function fitChips(all, more, room, grew) {
  const most = more + all.length > 4 ? 3 : 4;
  for (const sized of [true, false]) {
    for (let shown = Math.min(most, all.length); shown > 0; shown -= 1) {
      const rest = more + all.length - shown;
      const px = widthOf(shownOf(all, shown), sized, rest, grew);
      if (px <= room && (shown > 1 || all.length === 1 || !sized)) return { shown, sized, more: rest };
    }
  }
  const shown = Math.min(1, all.length);
  return { shown, sized: false, more: more + all.length - shown };
}

/** So many of them, in their order. @param {CommitRow["chips"]} all @param {number} n @returns {CommitRow["chips"]} */
function shownOf(all, n) {
  const saved = all.filter(([sign]) => sign !== "!");
  const not = all.filter(([sign]) => sign === "!").slice(0, n);
  return [...saved.slice(0, n - not.length), ...not];
}

/** @param {CommitRow["chips"]} chips @param {boolean} sized @param {number} rest @param {Grew} [grew] */
function widthOf(chips, sized, rest, grew) {
  const texts = chips.map((chip, at) => `+${chip[1]} ${remark(chip, at, sized, grew)}`.trim());
  if (rest) texts.push(`${rest} more`);
  return texts.reduce((px, text) => px + text.length * CHAR_PX + GAP_PX, 0);
}

/** Chips take half a row at most. @param {number} widthPx */
const roomOf = (widthPx) => Math.round(widthPx / 2) - 8;

/** @param {Pick<CommitRow, "chips" | "more" | "grew">} row @param {{ widthPx: number }} look */
export function chipsWidth(row, look) {
  const { shown, sized, more } = fitChips(row.chips, row.more, roomOf(look.widthPx), row.grew);
  return widthOf(shownOf(row.chips, shown), sized, more, row.grew);
}

/** What stands after a name. @param {[Sign, string, number]} chip @param {number} at @param {boolean} sized @param {Grew} [grew] */
function remark([sign, name, size], at, sized, grew) {
  if (sign === "!") return " not saved"; // and a space after its sign
  if (!sized) return "";
  return grew?.[name] ?? (at === 0 && size ? bytes(size) : "");
}

/** @param {Pick<CommitRow, "chips" | "more" | "grew">} row @param {{ widthPx: number, marks: Marks }} look */
export function chipList(row, look) {
  const { shown, sized, more } = fitChips(row.chips, row.more, roomOf(look.widthPx), row.grew);
  const list = shownOf(row.chips, shown).map((chip, at) => {
    const [sign, name] = chip;
    const matches = look.marks.names.includes(name);
    const after = remark(chip, at, sized, row.grew).trim();
    const { glyph, kind } = SIGNS[sign];
    return el(
      "span",
      { class: "ak-chip", title: name },
      el("i", { class: kind }, sign === "!" ? "! " : glyph),
      matches ? el("mark", {}, name) : name,
      after ? el("small", {}, ` ${after}`) : null,
    );
  });
  return [...list, more ? el("small", {}, `${more} more`) : null];
}

/** @param {Pick<CommitRow, "counts">} row */
export function countList(row) {
  return SIGN_ORDER.filter((sign) => row.counts[sign]).map((sign) =>
    el("span", {}, el("i", { class: SIGNS[sign].kind }, SIGNS[sign].glyph), String(row.counts[sign])),
  );
}
