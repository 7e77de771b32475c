import assert from "node:assert/strict";
import { test } from "node:test";

import { graphLines, graphNode, graphWidth, laneX } from "../history/graph.js";

/** @import { Graph } from "../history/protocol.js" */

/** @param {Graph["lines"]} lines @param {number | null} [node] @returns {Graph} */
const graph = (lines, node = 0) => ({ node, colour: 0, lines });
const paths = (/** @type {Graph} */ one) => graphLines(one).map((line) => line["d"]);

test("a lane runs straight through, ends at the node, or begins there", () => {
  assert.deepEqual(
    paths(
      graph([
        [0, 0, 0, 0],
        [0, null, 0, 0],
        [null, 0, 0, 0],
      ]),
    ),
    ["M14 0V28", "M14 0V14", "M14 14V28"],
  );
});

test("a branch that begins here comes from its lane with a corner of seven", () => {
  assert.deepEqual(paths(graph([[1, null, 1, 0]])), ["M25 0V7q0 7 -7 7H14"]);
});

test("a merge leaves the node towards the other lane", () => {
  assert.deepEqual(paths(graph([[null, 1, 1, 0]])), ["M14 14H18q7 0 7 7V28"]);
});

test("a line takes its branch's colour and is dashed over what is filtered out", () => {
  assert.deepEqual(
    graphLines(graph([[1, 1, 1, 1]])).map((line) => line.class),
    ["ak-l1 ak-dash"],
  );
});

test("the seventh lane and all beyond it are one grey line", () => {
  assert.equal(laneX(6), laneX(9));
  assert.deepEqual(
    graphLines(graph([[8, 8, 8, 0]])).map((line) => line.class),
    ["ak-lrest"],
  );
});

test("three lanes have room without asking, more of them widen the graph", () => {
  assert.equal(graphWidth(graph([[2, 2, 2, 0]])), 44);
  assert.equal(graphWidth(graph([[5, 5, 5, 0]])), 77);
  assert.equal(graphWidth(graph([[40, 40, 40, 0]])), 88);
});

test("the shape of a node says what happened, a ring that one is here", () => {
  const kinds = (/** @type {import("../history/graph.js").NodeShape} */ node, head = false) =>
    graphNode(graph([]), node, head).map((shape) => `${shape.tag} ${shape.class}`);
  assert.deepEqual(kinds("cell"), ["circle ak-n0"]);
  assert.deepEqual(kinds("agent"), ["rect ak-n0"]);
  assert.deepEqual(kinds("merge"), ["circle ak-l0 ak-hole"]);
  assert.deepEqual(kinds("failed"), ["circle ak-hole", "path ak-bad"]);
  assert.deepEqual(kinds("interrupted"), ["circle ak-cut ak-hole", "path ak-cut"]);
  assert.deepEqual(kinds("fold"), ["path ak-hole", "path ak-l0 ak-dots"]);
  assert.deepEqual(kinds("cell", true), ["circle ak-l0 ak-hole", "circle ak-n0"]);
  assert.deepEqual(kinds("agent", true), ["rect ak-l0 ak-hole", "rect ak-n0"]);
});

test("a day has lines but no node", () => {
  assert.deepEqual(graphNode(graph([[0, 0, 0, 0]], null), "none", false), []);
});
