/**
 * What stays in view while something else is chosen and on its way: nothing of it can be pressed until that is here, as what
 * is pressed would be done with another commit than the chosen one. Going back and closing stay.
 */

import { setAll } from "../shared/dom.js";

const STAYS = ".ak-back, .ak-shut";

/** @param {HTMLElement} element */
export function guard(element) {
  for (const kind of ["click", "submit"]) {
    element.addEventListener(kind, (event) => stop(element, event), { capture: true });
  }
}

/** @param {HTMLElement} element @param {boolean} isStale */
export function hold(element, isStale) {
  setAll(element, { "aria-busy": isStale ? "true" : null });
  for (const button of element.querySelectorAll(`button:not(${STAYS})`)) {
    setAll(button, { "aria-disabled": isStale ? "true" : null });
  }
}

/** @param {HTMLElement} element @param {Event} event */
function stop(element, event) {
  const stays = event.target instanceof Element && event.target.closest(STAYS);
  if (element.getAttribute("aria-busy") !== "true" || stays) return;
  event.preventDefault();
  event.stopPropagation();
}
