/**
 * Lines of code, old and new.
 *
 * Changed words are tinted and boxed. There are no syntax colours: Jupyter's green keywords and red strings would read as
 * added and removed.
 */

import { el, spoken } from "../shared/dom.js";

/** @import { CodeDiff, DiffLine } from "./protocol.js" */

const KINDS = { "+": "ak-plus", "-": "ak-minus", " ": "", "…": "ak-gap" };
const SPOKEN = { "+": "added: ", "-": "removed: ", " ": "", "…": "" };

/** @param {DiffLine[]} lines */
export function diffLines(lines) {
  return el("div", { class: "ak-code-lines" }, ...lines.map(diffLine));
}

/** @param {DiffLine} line */
function diffLine(line) {
  if (line.how === "…") return el("div", { class: "ak-hunk" }, line.words.map(([word]) => word).join("") || "…");
  const words = line.words.map(([word, changed]) => (changed ? el("u", {}, word) : word));
  const sign = line.how === "-" ? "−" : line.how === "+" ? "+" : "";
  return el(
    "div",
    { class: `ak-ln ${KINDS[line.how]}` },
    el("span", { "aria-hidden": "true" }, line.old ?? ""),
    el("span", { "aria-hidden": "true" }, line.new ?? ""),
    el("span", { "aria-hidden": "true" }, sign),
    el("span", {}, SPOKEN[line.how] ? spoken(SPOKEN[line.how]) : null, ...words),
  );
}

/** @param {CodeDiff} diff @param {string} source the cell's code, shown as it is where nothing of it is new */
export function codeView(diff, source) {
  const lines = diff.lines.length || !source ? diff.lines : source.split("\n").map(unchanged);
  return el(
    "div",
    { class: "ak-diff", tabindex: 0, role: "group", "aria-label": diff.about || "Code" },
    diff.about ? el("div", { class: "ak-hunk" }, diff.about) : null,
    lines.length ? diffLines(lines) : el("p", { class: "ak-nothing" }, "This commit has no code."),
  );
}

/** @param {string} text @param {number} at @returns {DiffLine} */
const unchanged = (text, at) => ({ how: " ", old: at + 1, new: at + 1, words: [[text, false]] });
