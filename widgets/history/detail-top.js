/** The top of a commit's details: its name, what can be done with it, and who ran it when. */

import { iconButton, textButton } from "../shared/buttons.js";
import { el, prose, spoken } from "../shared/dom.js";
import { shortStamp, stamp, took } from "../shared/format.js";
import { refLabel } from "./refs.js";

/** @import { Details, Row } from "./protocol.js" */
/**
 * @typedef {object} Target a commit that something is done with
 * @property {string} id
 * @property {string} label "[7]", or its subject in quotes
 * @property {string} prompt
 * @property {string} short
 * @property {string[]} branches whose tip it is
 */
/**
 * @typedef {object} DetailDoings
 * @property {(target: Target, from: HTMLElement) => void} checkout
 * @property {(target: Target, from: HTMLElement) => void} branch
 * @property {(target: Target, from: HTMLElement) => void} tag
 * @property {(target: Target, from: HTMLElement) => void} compare
 * @property {(target: Target, from: HTMLElement) => void} menu
 * @property {(target: Target) => void} copy
 * @property {() => void} close
 */

/**
 * @param {Details} details @param {DetailDoings} doings
 * @param {{ canAct: boolean, now: number, marked: boolean }} look
 * @returns {HTMLElement[]}
 */
export function detailTop(details, doings, look) {
  const target = targetOf(details);
  /** @param {(target: Target, from: HTMLElement) => void} act */
  const press = (act) => (/** @type {MouseEvent} */ event) =>
    act(target, /** @type {HTMLElement} */ (event.currentTarget));
  const acts = el(
    "span",
    { class: "ak-acts" },
    look.canAct ? textButton("Check out", press(doings.checkout), "ak-main") : null,
    look.canAct ? textButton("Branch", press(doings.branch), "ak-roomy") : null,
    look.canAct ? textButton("Tag", press(doings.tag), "ak-roomy") : null,
    textButton("Compare…", press(doings.compare)),
    el("span", { class: "ak-sp" }),
    iconButton("more", "More actions", "More actions (m)", press(doings.menu), "ak-rest"),
  );
  const kind = details.is_code ? "ak-mono" : "";
  return [
    iconButton("left", "Back to the list", "Back (Esc)", doings.close, "ak-back"),
    el("h4", { title: details.message || details.subject, class: kind }, details.subject || details.short),
    acts,
    iconButton("close", "Close details", "Close (Esc)", doings.close, "ak-shut"),
    metaLine(details, target, doings, look),
  ];
}

/** @param {Details} details @param {Target} target @param {DetailDoings} doings @param {{ now: number, marked: boolean }} look */
function metaLine(details, target, doings, look) {
  const { author } = details;
  const bad = details.error && details.status !== "ok";
  return el(
    "div",
    { class: "ak-meta" },
    details.prompt ? el("span", {}, el("span", { class: "ak-roomy-text" }, "Cell"), el("code", {}, details.prompt)) : null,
    el("span", {}, author.kind === "agent" || !author.me ? author.name : "you"),
    el(
      "span",
      {},
      el("span", { class: "ak-roomy-text" }, stamp(details.time_ms, look.now)),
      el("span", { class: "ak-tight-text" }, shortStamp(details.time_ms, look.now)),
    ),
    details.took_s === null ? null : el("span", {}, el("span", { class: "ak-roomy-text" }, "took"), took(details.took_s)),
    el(
      "span",
      {},
      el("code", {}, details.short),
      iconButton("copy", "Copy hash", "Copy hash (y)", () => doings.copy(target), "ak-small"),
    ),
    ...details.refs.map(refLabel),
    ...details.labels.map((label) => el("span", {}, label)),
    details.against && look.marked ? el("span", {}, ...prose(`against ${details.against.label}`)) : null,
    bad ? el("p", { class: "ak-derr ak-del" }, spoken(`${details.status}: `), details.error) : null,
  );
}

/** What is meant by a row: of a run its newest commit; of days and other folds nothing. @param {Row | undefined} row @returns {Target | null} */
export function targetOfRow(row) {
  if (row?.kind === "commit") return targetOf(row);
  if (row?.kind !== "fold" || !row.run) return null;
  const { tip: id, refs } = row.run;
  return targetOf({ id, short: id.slice(0, 8), prompt: row.prompt, subject: row.subject, refs });
}

/** What stands in the details where this row is chosen; "": the row has none. @param {Row | undefined} row */
export function detailId(row) {
  if (row?.kind === "commit") return row.id;
  const run = row?.kind === "wait" ? row.run : row?.kind === "fold" ? (row.run?.id ?? "") : "";
  return run && `${RUN}${run}`;
}

/** Before a run's id, where a commit's could stand. */
export const RUN = "run:";

/**
 * @param {{ id: string, short: string, prompt: string, subject: string, called?: string, refs: { kind: string, name: string }[] }} commit
 * @returns {Target}
 */
export function targetOf(commit) {
  const { id, short, prompt, subject, called } = commit;
  const branches = commit.refs.filter((ref) => ref.kind === "branch").map((ref) => ref.name);
  return { id, short, prompt, label: called || prompt || (subject ? `“${subject}”` : short), branches };
}
