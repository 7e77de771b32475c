/** Which keys of a panel reach the application around it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { soon, withoutPage } from "./page.js";

const page = { skip: withoutPage };

const MARK = "data-lm-suppress-shortcuts";

async function typed() {
  const { keepKeys } = await import("../shared/shortcuts.js");
  const panel = Object.assign(document.createElement("div"), { className: "ak-panel" });
  const field = document.createElement("textarea");
  panel.append(field);
  document.body.replaceChildren(panel);
  keepKeys(panel);
  field.focus();
  /** @type {string[]} the keys that the application would take */
  const heard = [];
  const listen = (/** @type {any} */ event) => void (event.target.closest(`[${MARK}]`) || heard.push(event.key));
  for (const early of [true, false]) document.addEventListener("keydown", listen, early);
  const press = (/** @type {string} */ key, /** @type {object} */ more = {}) => field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
  const stop = () => [true, false].forEach((early) => document.removeEventListener("keydown", listen, early));
  return { panel, field, heard, press, stop };
}

test("keys with Ctrl or Cmd reach the application, early and late, and plain ones do not", page, async () => {
  const { panel, field, heard, press, stop } = await typed();
  press("s", { ctrlKey: true });
  press("a");
  press("s", { metaKey: true });
  press("C", { ctrlKey: true, shiftKey: true });
  press("x");
  assert.deepEqual(heard, ["s", "s", "s", "s", "C", "C"]);
  await soon();
  assert.deepEqual([panel, field].map((one) => one.hasAttribute(MARK)), [true, true]);
  stop();
});

test("what edits text stays the panel's, and so does what AltGr types", page, async () => {
  const { heard, press, stop } = await typed();
  for (const key of ["a", "c", "v", "x", "y", "z", "Enter", "Backspace", "ArrowLeft"]) press(key, { ctrlKey: true });
  press("Z", { ctrlKey: true, shiftKey: true });
  press("@", { ctrlKey: true, altKey: true });
  assert.deepEqual(heard, []);
  stop();
});

test("a click beside a panel takes the focus out of it, and one in it does not", page, async () => {
  const { panel, field, stop } = await typed();
  const press = (/** @type {EventTarget} */ target) => target.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  press(panel);
  assert.equal(document.activeElement, field);
  press(document.body);
  assert.notEqual(document.activeElement, field);
  stop();
});

test("what stands elsewhere on the page keeps its keys", page, async () => {
  const { field, heard, stop } = await typed();
  field.blur();
  const other = document.createElement("input");
  other.setAttribute(MARK, "true");
  document.body.append(other);
  other.dispatchEvent(new KeyboardEvent("keydown", { key: "s", ctrlKey: true, bubbles: true }));
  assert.deepEqual(heard, []);
  stop();
});
