/**
 * The changed variables, a line each; a line that has more to show opens.
 *
 * The same lines stand in the details of a commit and in a comparison. What is inside a variable is asked for when its line
 * is opened, and only then.
 */

import { errorText, textButton } from "../shared/buttons.js";
import { el, fill, prose } from "../shared/dom.js";
import { SIGNS, asSentence, byteChange, plural } from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { faceOf } from "./faces.js";

/** @import { Change, Details, VariableDiff } from "./protocol.js" */
/**
 * @typedef {object} ChangeLook
 * @property {(name: string) => Promise<VariableDiff>} ask
 * @property {Map<string, boolean>} open which ones the reader opened or closed
 * @property {number} first how many stand open that the reader did not touch
 */

/** @param {Change[]} changes @param {number} more that are not listed @param {Details["unsaved"]} unsaved @param {ChangeLook} look */
export function changeLines(changes, more, unsaved, look) {
  let first = look.first;
  const gone = namesOf(unsaved);
  // A name that is not saved stands there once, as that.
  const lines = changes.filter((change) => !gone.has(change.name)).flatMap((change) => {
    const open = change.opens && (look.open.get(change.name) ?? first-- > 0);
    return changeLine(change, open, look);
  });
  const rest = more
    ? el(
        "div",
        { class: "ak-v" },
        el("span"),
        el("span"),
        el("span", { class: "ak-same-text ak-muted" }, `${plural(more, "more variable")}, smaller than these`),
      )
    : null;
  return [...lines, ...(rest ? [rest] : []), ...unsaved.flatMap((gap) => unsavedLine(gap, changes, look))];
}

/** The variables that are not saved; some that are saved together are told as one. @param {Details["unsaved"]} unsaved */
const namesOf = (unsaved) => new Set(unsaved.flatMap((gap) => gap.name.split(", ")));

/** How many names a commit changed, one that is not saved among them. @param {Details} details */
export function countOf({ changes, more_changes, unsaved }) {
  const gone = namesOf(unsaved);
  return changes.filter((change) => change.how !== "=" && !gone.has(change.name)).length + more_changes + gone.size;
}

/** @param {Change} change @param {boolean} open @param {ChangeLook} look */
function changeLine(change, open, look) {
  const sign = SIGNS[change.how];
  const cells = [
    el("span", { class: `ak-sg ${sign.kind}`, role: "img", "aria-label": sign.word }, sign.glyph),
    el("span", { class: "ak-nm", title: change.name }, change.name),
    values(change),
    el("span", { class: "ak-ty", title: change.type }, change.type),
    el("span", { class: "ak-sz" }, byteChange(change.old_size, change.new_size)),
  ];
  if (!change.opens) return [el("div", { class: "ak-v" }, el("span"), ...cells)];
  return opening(change.name, cells, open, look, (inside) => void openVariable(change.name, inside, look));
}

/**
 * A line that opens, and what it opens.
 *
 * @param {string} name @param {HTMLElement[]} cells @param {boolean} open @param {ChangeLook} look @param {(inside: HTMLElement) => void} show
 */
function opening(name, cells, open, look, show) {
  const inside = el("div", { class: "ak-x", hidden: true });
  const fold = el(
    "button",
    { class: "ak-fold", type: "button", "aria-label": `Details of ${name}`, "aria-expanded": "false" },
    icon("right"),
  );
  const turn = (/** @type {boolean} */ on) => {
    fold.setAttribute("aria-expanded", String(on));
    inside.hidden = !on;
    if (on && !inside.childNodes.length) show(inside);
  };
  fold.addEventListener("click", () => {
    look.open.set(name, inside.hidden);
    turn(inside.hidden);
  });
  const line = el("div", { class: "ak-v" }, fold, ...cells);
  line.addEventListener("click", (event) => {
    if (event.target instanceof Element && !event.target.closest("button") && !String(getSelection())) fold.click();
  });
  if (open) turn(true);
  return [line, inside];
}

/** @param {Change} change */
function values(change) {
  const arrow = () => el("span", { class: "ak-arr", role: "img", "aria-label": "becomes" }, "→");
  if (change.how === "-") return el("span", { class: "ak-va", title: change.old }, el("s", {}, change.old));
  if (change.how === "=")
    return el("span", { class: "ak-va ak-say" }, change.new || "equal; what it shares with others changed");
  if (change.how !== "~" || !change.old || change.old === change.new)
    return el("span", { class: `ak-va${isSaying(change.new) ? " ak-say" : ""}`, title: change.new }, change.new);
  if (!change.new) return el("span", { class: "ak-va" }, change.old);
  return el(
    "span",
    { class: "ak-va", title: `${change.old} → ${change.new}` },
    el("s", {}, change.old),
    arrow(),
    change.new,
  );
}

/** "the pictures differ": words about a value, and no value. @param {string} text */
const isSaying = (text) => /^[a-z]+( [a-z]+)+$/.test(text);

/** Why it is not saved, and of what is kept of it the change. @param {Details["unsaved"][number]} gap @param {Change[]} changes @param {ChangeLook} look */
function unsavedLine(gap, changes, look) {
  const said = `not saved: ${gap.reason}.${asSentence(gap.remedy)}`;
  const cells = [
    el("span", { class: "ak-sg ak-chg", role: "img", "aria-label": "not saved" }, "!"),
    el("span", { class: "ak-nm", title: gap.name }, gap.name),
    el("span", { class: "ak-va ak-say", title: said }, ...prose(said)),
    el("span", { class: "ak-ty", title: gap.type }, gap.type),
    el("span", { class: "ak-sz" }),
  ];
  return opening(gap.name, cells, look.open.get(gap.name) ?? false, look, (inside) => {
    const names = namesOf([gap]);
    const kept = changes.filter((change) => change.opens && names.has(change.name)).map(({ name }) => [name, el("div")]);
    fill(inside, el("p", {}, ...prose(asSentence(said).trim())), ...kept.map(([, place]) => place));
    for (const [name, place] of kept) void openVariable(/** @type {string} */ (name), /** @type {HTMLElement} */ (place), look);
  });
}

/** @param {string} name @param {HTMLElement} inside @param {ChangeLook} look */
async function openVariable(name, inside, look) {
  fill(inside, el("p", { class: "ak-loading" }, "Loading…"));
  try {
    const diff = await look.ask(name);
    fill(
      inside,
      diff.face ? faceOf(diff.face, name) : null,
      ...diff.lines.map((line) => el("p", { class: "ak-mono" }, line)),
      diff.note ? el("p", {}, diff.note) : null,
    );
    if (!inside.childNodes.length) fill(inside, el("p", {}, "Nothing more is known of it."));
  } catch (error) {
    const again = textButton("Try again", () => void openVariable(name, inside, look), "ak-small");
    fill(inside, el("p", { class: "ak-failed" }, `This preview could not be made: ${errorText(error)} `, again));
  }
}
