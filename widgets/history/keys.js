/**
 * The keys of the list, and the words for them.
 *
 * A key that is used here goes no further: the notebook around the panel has keys of its own for the same letters. No key
 * does an act that asks no question first, undo of a move apart, which is itself the way back.
 */

import { textButton } from "../shared/buttons.js";
import { el } from "../shared/dom.js";
import { floatOver } from "../shared/popover.js";

/**
 * @typedef {object} KeyDoings
 * @property {(step: number) => void} move
 * @property {(end: boolean) => void} jump
 * @property {(open: boolean) => void} unfold → and ←
 * @property {() => void} details
 * @property {() => void} checkout
 * @property {() => void} rollback
 * @property {() => void} branch
 * @property {() => void} tag
 * @property {() => void} mark
 * @property {() => void} compareWithHead
 * @property {() => void} copy
 * @property {() => void} showHead
 * @property {() => void} undo
 * @property {() => void} menu
 * @property {() => void} branches
 * @property {() => void} search
 * @property {() => void} help
 * @property {() => void} back
 */

const PAGE = 10;

/** @param {KeyDoings} doings @returns {Record<string, () => void>} */
export function keyMap(doings) {
  return {
    ArrowDown: () => doings.move(1),
    j: () => doings.move(1),
    ArrowUp: () => doings.move(-1),
    k: () => doings.move(-1),
    PageDown: () => doings.move(PAGE),
    PageUp: () => doings.move(-PAGE),
    Home: () => doings.jump(false),
    End: () => doings.jump(true),
    ArrowRight: () => doings.unfold(true),
    ArrowLeft: () => doings.unfold(false),
    Enter: doings.details,
    c: doings.checkout,
    r: doings.rollback,
    b: doings.branch,
    t: doings.tag,
    d: doings.mark,
    D: doings.compareWithHead,
    y: doings.copy,
    h: doings.showHead,
    u: doings.undo,
    m: doings.menu,
    g: doings.branches,
    "/": doings.search,
    "?": doings.help,
    Escape: doings.back,
  };
}

/** @param {KeyboardEvent} event @param {Record<string, () => void>} keys */
export function pressKey(event, keys) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** @type {[string, string][]} */
const LINE = [
  ["↑↓", "move"],
  ["↵", "details"],
  ["c", "check out"],
  ["d", "mark, compare"],
  ["b", "branch"],
  ["t", "tag"],
  ["/", "search"],
  ["?", "all keys"],
];

/** The line that shows while the list has the keyboard. */
export function keyLine() {
  return el(
    "div",
    { class: "ak-hints", "aria-hidden": "true" },
    ...LINE.map(([key, word]) => el("span", {}, el("span", { class: "ak-k" }, key), " ", word)),
  );
}

/** @type {[string[], string][]} */
const ALL = [
  [["↑", "↓", "j", "k"], "Move"],
  [["Home", "End"], "Newest, oldest"],
  [["→", "←"], "Unfold, fold; the row's buttons"],
  [["Enter"], "Details"],
  [["c"], "Check out"],
  [["r"], "Roll back to here"],
  [["b"], "Branch from here"],
  [["t"], "Tag"],
  [["d"], "Mark; on a second commit, compare"],
  [["D"], "Compare with HEAD"],
  [["x"], "Swap the sides of a comparison"],
  [["y"], "Copy hash"],
  [["h"], "Show where you are"],
  [["u"], "Undo the last cell, checkout or rollback"],
  [["m"], "Actions"],
  [["g"], "Branches"],
  [["/"], "Search"],
  [["Esc"], "Back"],
];

/** @type {[string[], string]} */
const LEAVE = [["Shift+H"], "Close, and go to the notebook"];

/** @param {HTMLElement} panel @param {{ anchor: Element, back: HTMLElement }} from @param {boolean} leaves the panel can be left by a key */
export function showKeys(panel, from, leaves) {
  const rows = [...ALL, ...(leaves ? [LEAVE] : [])].flatMap(([keys, word]) => [
    el("dt", {}, ...keys.map((key) => el("span", { class: "ak-k" }, key))),
    el("dd", {}, word),
  ]);
  const close = textButton("Close", () => floating.close());
  const pop = el(
    "div",
    { class: "ak-pop ak-keys", role: "dialog", "aria-label": "Keys" },
    el("h4", {}, "Keys"),
    el("div", { class: "ak-keys-all", tabindex: 0, role: "group", "aria-label": "All keys" }, el("dl", {}, ...rows)),
    el("div", { class: "ak-foot" }, close),
  );
  const floating = floatOver(panel, pop, { anchor: from.anchor, back: from.back, focus: close });
}
