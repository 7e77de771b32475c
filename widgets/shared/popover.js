/**
 * A small surface over the panel: a question, a menu.
 *
 * Output areas clip what leaves them, so it goes to the browser's top layer (`popover`); a browser without one shows it
 * inside the panel. It stays a child of the panel, where the theme's variables and the keyboard's fence hold. Esc, or a press
 * beside it, closes it, and the focus goes back to where it was.
 */

import { el } from "./dom.js";

/** @typedef {{ close: (refocus?: boolean) => void, element: HTMLElement, place: () => void }} Floating */
/** @typedef {{ x: number, y: number }} Spot */

const EDGE_PX = 8;

/**
 * @param {HTMLElement} panel what it is put into
 * @param {HTMLElement} content
 * @param {object} how
 * @param {Element} how.anchor what asked for it
 * @param {Spot} [how.at] where the pointer asked for it
 * @param {HTMLElement} [how.focus] what takes the focus: its first control otherwise
 * @param {HTMLElement} [how.back] what has the focus afterwards, where it had been nowhere in the panel
 * @param {() => void} [how.onClose]
 * @returns {Floating}
 */
export function floatOver(panel, content, how) {
  const before = document.activeElement;
  const element = el("div", { class: "ak-float" }, content);
  const top = typeof element.showPopover === "function";
  if (top) element.setAttribute("popover", "manual");
  panel.append(element);
  if (top) element.showPopover();
  how.anchor.setAttribute("data-held", "");
  let spot = spotOf(how.anchor, how.at);
  const place = () => {
    spot = spotOf(how.anchor, how.at) ?? spot;
    placeBeside(element, spot, panel, top);
  };
  place();
  const floating = { element, place, close };
  let open = true;

  /** @param {boolean} [refocus] */
  function close(refocus = true) {
    if (!open) return;
    open = false;
    document.removeEventListener("pointerdown", pressed, true);
    window.removeEventListener("scroll", place, true);
    window.removeEventListener("resize", place);
    how.anchor.removeAttribute("data-held");
    const inside = element.contains(document.activeElement);
    element.remove();
    if (refocus && inside) returnFocus(panel, before, how.back);
    how.onClose?.();
  }
  /** @param {Event} event */
  const pressed = (event) => {
    if (event.target instanceof Node && !element.contains(event.target)) close(false);
  };
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
    if (event.key === "Tab") keepInside(element, event);
  });
  document.addEventListener("pointerdown", pressed, true);
  window.addEventListener("scroll", place, true);
  window.addEventListener("resize", place);
  (how.focus ?? focusable(element)[0])?.focus({ preventScroll: true });
  return floating;
}

/** @param {HTMLElement} panel @param {Element | null} before @param {HTMLElement} [back] */
function returnFocus(panel, before, back) {
  const target = before instanceof HTMLElement && before.isConnected && panel.contains(before) ? before : back;
  target?.focus({ preventScroll: true });
}

/** @param {HTMLElement} root @returns {HTMLElement[]} */
function focusable(root) {
  return [...root.querySelectorAll("button, input, [tabindex='0']")]
    .filter((node) => node instanceof HTMLElement && !node.hasAttribute("disabled"))
    .map((node) => /** @type {HTMLElement} */ (node));
}

/** @param {HTMLElement} root @param {KeyboardEvent} event */
function keepInside(root, event) {
  const all = focusable(root).filter(
    (node) => !(node instanceof HTMLInputElement && node.type === "radio" && !node.checked),
  );
  const [first, last] = [all[0], all[all.length - 1]];
  const edge = event.shiftKey ? first : last;
  if (document.activeElement !== edge) return;
  event.preventDefault();
  (event.shiftKey ? last : first)?.focus();
}

/** @typedef {{ left: number, right: number, top: number, bottom: number }} Box */

/** Where the anchor stands; null when it is not shown any more. @param {Element} anchor @param {Spot | undefined} at @returns {Box | null} */
function spotOf(anchor, at) {
  if (at) return { left: at.x, right: at.x, top: at.y, bottom: at.y };
  const box = anchor.getBoundingClientRect();
  return box.width || box.height ? box : null;
}

/**
 * Under the anchor, or over it where there is no room below; always inside the window, and from the
 * anchor's edge towards the middle of the panel.
 *
 * @param {HTMLElement} element @param {Box | null} from @param {HTMLElement} panel @param {boolean} top in the top layer
 */
function placeBeside(element, from, panel, top) {
  const box = element.getBoundingClientRect();
  const { left: x, right, top: y, bottom } = from ?? { left: 0, right: 0, top: 0, bottom: 0 };
  const [width, height] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
  const around = panel.getBoundingClientRect();
  const wanted = x + right > around.left + around.right - EDGE_PX ? right - box.width : x;
  const left = Math.max(EDGE_PX, Math.min(wanted, width - box.width - EDGE_PX));
  const below = bottom + 4;
  const above = y - 4 - box.height;
  const fits = below + box.height + EDGE_PX <= height;
  const down = fits || above < EDGE_PX ? Math.max(EDGE_PX, Math.min(below, height - box.height - EDGE_PX)) : above;
  const origin = top ? { left: 0, top: 0 } : around;
  Object.assign(element.style, { left: `${left - origin.left}px`, top: `${down - origin.top}px` });
}
