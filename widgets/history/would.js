/** What an act would do: the variables by what becomes of them, what cannot come back, and the notebook's cells. */

import { el, prose, spoken } from "../shared/dom.js";
import { SIGNS, asSentence, nameList, plural } from "../shared/format.js";
import { changedCells, isOfAnother } from "./cells.js";

/** @import { Host, NotebookDocument, Plan, Sign } from "./protocol.js" */
/** @import { Child } from "../shared/dom.js" */

/** @param {HTMLElement[]} variables @param {Child} notebook */
export function planRows(variables, notebook) {
  const rows = [...variables, ...(notebook ? [el("dt", {}, "Notebook"), el("dd", {}, notebook)] : [])];
  return rows.length ? el("dl", {}, ...rows) : el("p", {}, "No variable changes.");
}

/** @param {Plan} plan */
export function variableRows(plan) {
  /** @param {Sign} sign @param {string} word @param {string[]} names */
  const row = (sign, word, names) =>
    names.length
      ? [
          el(
            "dt",
            {},
            el("span", { class: `ak-sg ${SIGNS[sign].kind}`, "aria-hidden": "true" }, SIGNS[sign].glyph),
            `${word} ${names.length}`,
          ),
          el("dd", { class: "ak-mono" }, nameList(names)),
        ]
      : [];
  const cannot = plan.cannot.map((gap, at) => [
    el(
      "dt",
      {},
      el("span", { class: "ak-sg ak-chg", "aria-hidden": "true" }, "!"),
      at ? spoken("Can't restore") : "Can't restore",
    ),
    el("dd", {}, ...cannotText(gap)),
  ]);
  const conflicts = plan.conflicts.map((conflict) => conflict.name);
  return [
    ...row("~", "Changes", plan.changes),
    ...row("+", "Adds", plan.adds),
    ...row("-", "Removes", plan.removes),
    ...row("!", "Conflicts", conflicts),
    ...cannot.flat(),
  ];
}

/** @param {Plan["cannot"][number]} gap @returns {Child[]} */
function cannotText(gap) {
  const stays = gap.stays ? " The one open now stays" : "";
  const remedy = gap.remedy.replace(/\.$/, "");
  const rest = stays ? `${stays}${remedy ? `; ${remedy}` : ""}.` : asSentence(remedy);
  return [el("span", { class: "ak-mono" }, gap.name), ...prose(`, ${gap.reason.replace(/\.$/, "")}.${rest}`)];
}

/** What becomes of the cells. @param {NotebookDocument | null} page @param {Plan} plan @param {Host} host @returns {Child} */
export function notebookRow(page, plan, host) {
  if (!page) return "its cells were not stored with this commit, and stay";
  const now = host.restoreCells ? (host.cells?.() ?? null) : null;
  if (!now || isOfAnother(now, page))
    return el(
      "span",
      {},
      now ? "these are another notebook's cells, and go to " : "its cells go to ",
      el("span", { class: "ak-mono" }, fileName(page, plan.to.short)),
      ", beside it",
    );
  const { n, prompts } = changedCells(now, page);
  if (!n) return "no cell will change";
  const rest = n - prompts.length;
  const which = prompts.length ? `: ${nameList(prompts, 6)}${rest ? ` and ${rest} without a number` : ""}` : "";
  return el("span", {}, ...prose(`${plural(n, "cell")} will change${which}`));
}

/** @param {NotebookDocument} page @param {string} short */
function fileName(page, short) {
  return `${(page.name.split("/").pop() ?? "").replace(/\.ipynb$/, "")}@${short}.ipynb`;
}
