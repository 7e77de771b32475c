/** The grip under the list: pull it, or press ↑ and ↓ on it, to give the list another height. */

import { el } from "../shared/dom.js";

const LEAST_PX = 140;
const MOST_PX = 1400;
const STEP_PX = 28;

/**
 * @param {HTMLElement} panel carries the height, as `--ak-height`
 * @param {string | undefined} storageKey
 * @param {() => number} height the list's height now
 */
export function resizeGrip(panel, storageKey, height) {
  const grip = el("div", {
    class: "ak-grip",
    role: "separator",
    "aria-orientation": "horizontal",
    "aria-label": "Resize the list",
    "aria-valuemin": LEAST_PX,
    "aria-valuemax": MOST_PX,
    tabindex: 0,
  });
  /** @param {number} px */
  const set = (px) => {
    const next = Math.round(Math.max(LEAST_PX, Math.min(MOST_PX, px)));
    panel.style.setProperty("--ak-height", `${next}px`);
    panel.style.setProperty("--ak-wide-height", `${next}px`);
    grip.setAttribute("aria-valuenow", String(next));
    remember(storageKey, next);
  };
  grip.setAttribute("aria-valuenow", "320");
  const before = recall(storageKey);
  if (before) set(before);
  grip.addEventListener("keydown", (event) => {
    const step = { ArrowDown: STEP_PX, ArrowUp: -STEP_PX }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    set(height() + step);
  });
  grip.addEventListener("pointerdown", (event) => {
    const [from, y] = [height(), event.clientY];
    event.preventDefault();
    grip.setPointerCapture(event.pointerId);
    const pull = (/** @type {PointerEvent} */ moved) => set(from + moved.clientY - y);
    grip.addEventListener("pointermove", pull);
    grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", pull), { once: true });
  });
  return grip;
}

/** @param {string | undefined} key @param {number} px */
function remember(key, px) {
  if (!key) return;
  try {
    localStorage.setItem(`${key}:height`, String(px));
  } catch {
    // A frame may have no storage: then the height is not remembered.
  }
}

/** @param {string | undefined} key */
function recall(key) {
  if (!key) return 0;
  try {
    return Number(localStorage.getItem(`${key}:height`)) || 0;
  } catch {
    return 0;
  }
}
