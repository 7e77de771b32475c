/**
 * One row's piece of the graph.
 *
 * Lanes stand 11 px apart; the first six keep a colour of their own (their branch's), and all beyond them share one grey
 * line. A node's shape says who ran the cell and what came of it, its colour only which branch it is on.
 */

import { svg } from "../shared/dom.js";

/** @import { CommitRow, Graph } from "./protocol.js" */
/** @typedef {CommitRow["node"] | "fold" | "run" | "wait" | "none"} NodeShape */
/** @typedef {{ tag: "path" | "rect" | "circle", class: string, [attribute: string]: string | number }} Shape */

const LANES = 6;
const STEP = 11;
const FIRST = 14;
const MID = 14;
const END = 28;

/** The centre of a lane. @param {number} lane */
export function laneX(lane) {
  return FIRST + Math.min(lane, LANES) * STEP;
}

/** How wide the graph must be: three lanes at least. @param {Graph} graph */
export function graphWidth(graph) {
  const lanes = graph.lines.flatMap(([from, to]) => [from ?? 0, to ?? 0]);
  return laneX(Math.max(2, graph.node ?? 0, ...lanes)) + 8;
}

/** @param {number} colour @param {number} lane */
const ofColour = (colour, lane) => (lane >= LANES ? "rest" : String(colour % LANES));

/**
 * The lines, lowest first.
 *
 * @param {Graph} graph
 * @returns {Shape[]}
 */
export function graphLines(graph) {
  const home = graph.node ?? 0;
  return graph.lines.map(([from, to, colour, dashed]) => {
    const lane = Math.max(from ?? home, to ?? home);
    const dash = dashed ? " ak-dash" : "";
    return { tag: "path", class: `ak-l${ofColour(colour, lane)}${dash}`, d: linePath(from, to, home) };
  });
}

/** @param {number | null} from @param {number | null} to @param {number} home */
function linePath(from, to, home) {
  const node = laneX(home);
  const top = from === null ? node : laneX(from);
  const bottom = to === null ? node : laneX(to);
  if (top === bottom) return `M${top} ${from === null ? MID : 0}V${to === null ? MID : END}`;
  const side = bottom > top ? 1 : -1;
  const corner = Math.min(7, Math.abs(bottom - top));
  if (to === null) return `M${top} 0V${MID - corner}q0 ${corner} ${side * corner} ${corner}H${bottom}`;
  if (from === null)
    return `M${top} ${MID}H${bottom - side * corner}q${side * corner} 0 ${side * corner} ${corner}V${END}`;
  return `M${top} 0C${top} ${MID} ${bottom} ${MID} ${bottom} ${END}`;
}

/**
 * The node, drawn over the lines.
 *
 * @param {Graph} graph @param {NodeShape} node
 * @param {boolean} head where the reader is: a ring
 * @returns {Shape[]}
 */
export function graphNode(graph, node, head) {
  if (graph.node === null || node === "none") return [];
  const x = laneX(graph.node);
  const hue = ofColour(graph.colour, graph.node);
  const [line, solid] = [`ak-l${hue}`, `ak-n${hue}`];
  switch (node) {
    case "failed":
      return [
        { tag: "circle", class: head ? `${line} ak-hole` : "ak-hole", cx: x, cy: MID, r: 7 },
        { tag: "path", class: "ak-bad", d: head ? `M${x - 3} 11l6 6m0-6l-6 6` : `M${x - 4} 10l8 8m0-8l-8 8` },
      ];
    case "interrupted":
      return [
        { tag: "circle", class: "ak-cut ak-hole", cx: x, cy: MID, r: head ? 6 : 5 },
        { tag: "path", class: "ak-cut", d: `M${x - 2.5} ${MID}h5` },
      ];
    case "fold":
      return [
        { tag: "path", class: "ak-hole", d: `M${x - 3} 5h6v18h-6z` },
        { tag: "path", class: `${line} ak-dots`, d: `M${x} 7v16` },
      ];
    case "run":
      return [
        { ...square(`${line} ak-hole ak-thin`, x + 2.5, 9), y: MID - 7 },
        { ...square(`${solid} ak-gap`, x - 0.5, 10), y: MID - 4, rx: 1.5 },
      ];
    case "wait":
      return [square("ak-wait ak-hole ak-dash", x, 10)];
    case "agent":
      return head ? [square(`${line} ak-hole`, x, 11), square(solid, x, 5)] : [square(solid, x, 8)];
    case "merge":
      return [disc(`${line} ak-hole`, x, head ? 6 : 4), ...(head ? [disc(solid, x, 2.5)] : [])];
    case "cell":
      return head ? [disc(`${line} ak-hole`, x, 6), disc(solid, x, 2.5)] : [disc(solid, x, 4)];
  }
}

/** @param {string} kind @param {number} x @param {number} r @returns {Shape} */
const disc = (kind, x, r) => ({ tag: "circle", class: kind, cx: x, cy: MID, r });

/** @param {string} kind @param {number} x @param {number} side @returns {Shape} */
const square = (kind, x, side) => ({
  tag: "rect",
  class: kind,
  x: x - side / 2,
  y: MID - side / 2,
  width: side,
  height: side,
  rx: side > 5 ? 1 : 0,
});

/** @param {Graph} graph @param {NodeShape} node @param {boolean} head */
export function graphPicture(graph, node, head) {
  const shapes = [...graphLines(graph), ...graphNode(graph, node, head)];
  return svg("svg", { class: "ak-g", "aria-hidden": "true" }, ...shapes.map(({ tag, ...rest }) => svg(tag, rest)));
}

/** A branch's mark in a list of branches. @param {number | null} lane @param {boolean} here */
export function branchMark(lane, here) {
  const hue = lane === null ? "rest" : ofColour(lane, lane);
  const circles = here
    ? [
        svg("circle", { class: `ak-l${hue} ak-hole`, cx: 6, cy: 6, r: 4.5 }),
        svg("circle", { class: `ak-n${hue}`, cx: 6, cy: 6, r: 2 }),
      ]
    : [svg("circle", { class: `ak-n${hue}`, cx: 6, cy: 6, r: 4 })];
  return svg("svg", { class: "ak-g ak-dot", viewBox: "0 0 12 12", "aria-hidden": "true" }, ...circles);
}
