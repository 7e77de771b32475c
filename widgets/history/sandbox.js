/**
 * Stored HTML and SVG, which nobody vouches for.
 *
 * They are shown in a frame of their own origin: no scripts, no forms, no way to the page around it, nothing fetched. Paper
 * is white in every theme, as pictures and tables were made for it.
 */

import { el } from "../shared/dom.js";

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'";
const STYLE =
  "html{color-scheme:light;background:#fff;color:#111;font:13px/20px system-ui,sans-serif}body{margin:8px;overflow:auto}" +
  "table{border-collapse:collapse;font-size:12px;border:0}th,td{padding:2px 8px;text-align:right;border:0;border-bottom:1px solid #e0e0e0}" +
  "svg,img{max-width:100%;height:auto}";

/** For a picture that is shown small: all of it, as large as it fits. */
const FITTED =
  "html,body{height:100%;margin:0;overflow:hidden}svg,img{display:block;width:100%;height:100%;object-fit:contain}";

/** @param {string} markup @param {string} label @param {boolean} [fitted] @returns {HTMLIFrameElement} */
export function framed(markup, label, fitted = false) {
  const frame = el("iframe", {
    class: "ak-frame",
    sandbox: "",
    title: label,
    referrerpolicy: "no-referrer",
    loading: "lazy",
  });
  frame.srcdoc = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><base target="_blank"><style>${STYLE}${fitted ? FITTED : ""}</style>${markup}`;
  return frame;
}
