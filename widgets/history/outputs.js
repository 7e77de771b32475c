/** What a cell printed and showed, as it was stored. */

import { el } from "../shared/dom.js";
import { bytes } from "../shared/format.js";
import { thumbnail } from "./faces.js";
import { framed, roomFor } from "./sandbox.js";

const LEAST_PX = 48;
const MOST_PX = 400;

/** @import { Shown } from "./protocol.js" */

/** @param {Shown[]} outputs */
export function outputsView(outputs) {
  if (!outputs.length) return el("p", { class: "ak-nothing" }, "This cell showed nothing.");
  return el("div", { class: "ak-outs" }, ...outputs.map((shown, at) => output(shown, `Output ${at + 1}`)));
}

/** @param {Shown} shown @param {string} label */
function output(shown, label) {
  const note = shown.note ? el("p", { class: "ak-out-note" }, shown.note) : null;
  return el("div", { class: `ak-out ak-out-${shown.kind}` }, outputBody(shown, label), note);
}

/** @param {Shown} shown @param {string} label */
function outputBody(shown, label) {
  if (shown.kind !== "image" && !shown.text)
    return shown.note ? null : el("p", { class: "ak-out-note" }, `Not shown for its size, ${bytes(shown.size)}.`);
  switch (shown.kind) {
    case "html":
    case "svg":
      return tall(framed(shown.text, label), shown.text);
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

/** As high as what is in it, or so; a reader can draw it higher. @param {HTMLIFrameElement} frame @param {string} markup */
function tall(frame, markup) {
  frame.style.height = `${Math.min(MOST_PX, Math.max(LEAST_PX, roomFor(markup)))}px`;
  return frame;
}

/** @param {string} uri @param {string} label */
function largePicture(uri, label) {
  const picture = thumbnail(uri, label);
  picture.classList.replace("ak-thumb", "ak-paper");
  return picture;
}
