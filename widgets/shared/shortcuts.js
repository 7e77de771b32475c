/**
 * Keys that are pressed inside a panel are the panel's, and those with Ctrl or Cmd the application's: Ctrl+S saves the
 * notebook from wherever one types.
 *
 * The application takes no key from below an element with MARK, whichever it is. So for one of the others the marks are
 * taken off while that event is on its way. What edits text stays the panel's with Ctrl too: the application would copy,
 * cut, run and undo cells with it.
 *
 * A click beside the panel gives the keyboard back. The application would not: the cell around the panel has the focus for it
 * as long as anything in there has.
 */

const MARK = "data-lm-suppress-shortcuts";
const OURS = ".ak-panel, .ak-under";
const EDITS = new Set(["a", "c", "v", "x", "y", "z", "enter", "escape", "tab", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "arrowup", "arrowdown", "arrowleft", "arrowright"]);
const SHIFTED = new Set(["a", "c", "x"]); // which edit no text together with Shift

/** @type {Element[]} */
let lifted = [];

/** Keep the application's keys from what has the focus in an element. @param {HTMLElement} element */
export function keepKeys(element) {
  element.setAttribute(MARK, "true");
  element.addEventListener("focusin", (event) => {
    // Notebook 7 looks at keys before anything in the page does, and at the focused element before what is around it.
    /** @type {Element} */ (event.target).setAttribute(MARK, "true");
    window.addEventListener("keydown", lift, true); // before the application, which listens at the document
    window.addEventListener("pointerdown", leave, true);
  });
  element.addEventListener("focusout", (event) => {
    const next = /** @type {FocusEvent} */ (event).relatedTarget;
    if (next instanceof Node && element.contains(next)) return;
    window.removeEventListener("keydown", lift, true);
    window.removeEventListener("pointerdown", leave, true);
  });
}

/** @param {PointerEvent} event */
function leave({ target }) {
  const focused = document.activeElement;
  const panel = focused?.closest(OURS);
  if (panel && focused instanceof HTMLElement && target instanceof Node && !panel.contains(target)) focused.blur();
}

/** @param {KeyboardEvent} event */
function lift(event) {
  putBack();
  if (!isForAll(event) || !(event.target instanceof Element) || !event.target.closest(OURS)) return;
  for (let at = /** @type {Element | null} */ (event.target); at; at = at.parentElement) if (at.hasAttribute(MARK)) lifted.push(at);
  for (const one of lifted) one.removeAttribute(MARK);
  setTimeout(putBack); // the application may listen to what bubbles, too
}

function putBack() {
  for (const one of lifted.splice(0)) one.setAttribute(MARK, "true");
}

/** With Alt as well it is AltGr on Windows, which types a letter. @param {KeyboardEvent} event */
export function isForAll({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  const name = key.toLowerCase();
  return (ctrlKey || metaKey) && !altKey && (!EDITS.has(name) || (shiftKey && SHIFTED.has(name)));
}
