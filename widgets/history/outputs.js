/** What a cell printed and showed, as it was stored. */

import { el } from "../shared/dom.js";
import { bytes } from "../shared/format.js";
import { thumbnail } from "./faces.js";
import { framed } from "./sandbox.js";

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

/** A frame of its own origin cannot be measured: a table's height follows from its rows. @param {HTMLIFrameElement} frame @param {string} markup */
function tall(frame, markup) {
  const rows = markup.match(/<tr[\s>]/gi)?.length ?? 0;
  if (rows) frame.style.height = `${Math.min(320, 24 + rows * 25)}px`;
  return frame;
}

/** @param {string} uri @param {string} label */
function largePicture(uri, label) {
  const picture = thumbnail(uri, label);
  picture.classList.replace("ak-thumb", "ak-paper");
  return picture;
}
