/** The icons: a grid of 16 px, strokes of 1.5 px in the colour of the text beside them. */

import { svg } from "./dom.js";

/** @type {Record<string, string[]>} Paths; one that starts with "o" is a circle: x, y, radius. */
const ICONS = {
  branch: ["o4.5 3.5 1.75", "o4.5 12.5 1.75", "o11.5 5 1.75", "M4.5 5.25v5.5M11.5 6.75c0 2.5-3.5 2.25-6 3.5"],
  tag: ["M8 2.5 13.5 8 8 13.5 2.5 8z"],
  head: ["o8 8 5.5", "o8 8 1.5"],
  search: ["o7 7 4.25", "m10.25 10.25 3.25 3.25"],
  more: ["M3.5 8h.01M8 8h.01M12.5 8h.01"],
  undo: ["M5.5 3 2.5 6l3 3M2.5 6H10a3.5 3.5 0 0 1 0 7H6"],
  down: ["m4.5 6.5 3.5 3.5 3.5-3.5"],
  up: ["m4.5 9.5 3.5-3.5 3.5 3.5"],
  right: ["m6 3.5 4.5 4.5L6 12.5"],
  left: ["M10 3.5 5.5 8l4.5 4.5"],
  close: ["m4 4 8 8m0-8-8 8"],
  copy: ["M5.5 5.5h7.5v7.5h-7.5z", "M10.5 5.5V3h-7.5v7.5h2.5"],
  swap: ["M3 5.5h10l-2.5-2.5M13 10.5H3L5.5 13"],
  ok: ["m3.5 8.5 3 3 6-7"],
  warn: ["M8 2.5 14 13H2zM8 6.5v3M8 11.2v.01"],
  plug: ["M6 2.5v3M10 2.5v3M4.5 5.5h7v2a3.5 3.5 0 0 1-7 0zM8 11v2.5"],
  merge: ["o4.5 3.5 1.75", "o4.5 12.5 1.75", "o11.5 11 1.75", "M4.5 5.25v5.5M4.5 5.25c0 3 2.5 4 5.25 5"],
};

/**
 * @param {keyof typeof ICONS} name
 * @param {string} [extra] further classes
 */
export function icon(name, extra = "") {
  const shapes = ICONS[name].map((path) => {
    if (!path.startsWith("o")) return svg("path", { d: path, "stroke-width": name === "more" ? 2.5 : null });
    const [cx, cy, r] = path.slice(1).split(" ");
    return svg("circle", { cx, cy, r, fill: name === "head" && r === "1.5" ? "currentColor" : null });
  });
  return svg("svg", { class: `ak-i ${extra}`.trim(), viewBox: "0 0 16 16", "aria-hidden": "true" }, ...shapes);
}
