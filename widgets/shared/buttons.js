/** Buttons in the panel's look: 24 px high, one filled one at most per surface. */

import { el } from "./dom.js";
import { icon } from "./icons.js";

/** @typedef {(event: MouseEvent) => void} Press */

/** @param {string} label @param {Press} press @param {string} [kind] "ak-main", "ak-quiet", "ak-small" */
export function textButton(label, press, kind = "") {
  return el("button", { class: `ak-b ${kind}`.trim(), type: "button", onclick: press }, label);
}

/**
 * A button that shows an icon alone.
 *
 * @param {Parameters<typeof icon>[0]} name
 * @param {string} label what a screen reader says
 * @param {string} title the tooltip
 * @param {Press} press
 * @param {string} [kind]
 */
export function iconButton(name, label, title, press, kind = "") {
  const look = { class: `ak-b ak-quiet ak-icon ${kind}`.trim(), type: "button", "aria-label": label, title };
  return el("button", { ...look, onclick: press }, icon(name));
}

/** What happened in place of what was asked for, and another try. @param {unknown} error @param {() => void} again */
export function failureNote(error, again) {
  return el(
    "div",
    { class: "ak-nothing", role: "alert" },
    el("p", {}, errorText(error)),
    textButton("Try again", again),
  );
}

/** @param {unknown} error */
export function errorText(error) {
  return error instanceof Error ? error.message : String(error);
}
