/** What a cell printed and showed, as it was stored. */

import { el } from "../shared/dom.js";
import { bytes } from "../shared/format.js";
import { thumbnail } from "./faces.js";
import { framed, roomFor } from "./sandbox.js";

const LEAST_PX = 48;
const MOST_PX = 400;
const AROUND_PX = 42; // beside what is in a frame

/** @import { OutputView } from "./protocol.js" */

/** @param {OutputView[]} outputs @param {number} widthPx of the page that they stand in */
export function outputsView(outputs, widthPx) {
  if (!outputs.length) return el("p", { class: "ak-nothing" }, "This cell showed nothing.");
  return el("div", { class: "ak-outs" }, ...outputs.map((shown, at) => output(shown, `Output ${at + 1}`, widthPx)));
}

/** @param {OutputView} shown @param {string} label @param {number} widthPx */
function output(shown, label, widthPx) {
  const note = shown.note ? el("p", { class: "ak-out-note" }, shown.note) : null;
  return el("div", { class: `ak-out ak-out-${shown.kind}` }, outputBody(shown, label, widthPx), note);
}

/** @param {OutputView} shown @param {string} label @param {number} widthPx */
function outputBody(shown, label, widthPx) {
  if (shown.kind !== "image" && !shown.text)
    return shown.note ? null : el("p", { class: "ak-out-note" }, `Not shown for its size, ${bytes(shown.size)}.`);
  switch (shown.kind) {
    case "html":
    case "svg":
      return tall(framed(shown.text, label), shown.text, widthPx - AROUND_PX);
    case "image":
      return shown.uri
        ? largePicture(shown.uri, label)
        : el("p", { class: "ak-out-note" }, `A picture of ${bytes(shown.size)}, not shown for its size.`);
    case "gap":
      return el("p", { class: "ak-out-note" }, shown.text);
    default:
      return el(
        "pre",
        { tabindex: 0, role: "group", "aria-label": label, class: shown.kind === "error" ? "ak-out-err" : "" },
        shown.text,
      );
  }
}

/** As high as what is in it, or so; a reader can draw it higher. @param {HTMLIFrameElement} frame @param {string} markup @param {number} widthPx */
function tall(frame, markup, widthPx) {
  frame.style.height = `${Math.min(MOST_PX, Math.max(LEAST_PX, roomFor(markup, widthPx)))}px`;
  return frame;
}

/** @param {string} uri @param {string} label */
function largePicture(uri, label) {
  const picture = thumbnail(uri, label);
  picture.classList.replace("ak-thumb", "ak-paper");
  return picture;
}
