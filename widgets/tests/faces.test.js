/** What a face shows first. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { faceOf } from "../history/faces.js";
import { withoutPage } from "./page.js";

test("of a table the columns that differ stand first, each with its cells", { skip: withoutPage }, () => {
  const cell = (/** @type {string} */ old, now = old) => ({ old, new: now, how: /** @type {"" | "~"} */ (old === now ? "" : "~") });
  const face = faceOf(
    {
      kind: "table",
      columns: ["day", "store", "price", "new"].map((name) => ({ name, of: "float64", how: name === "new" ? "+" : "" })),
      rows: [
        { label: "0", how: "", cells: [cell("mo"), cell("K"), cell("9", "10"), cell("x")] },
        { label: "1", how: "-", cells: [cell("tu"), cell("G"), cell("8"), cell("y")] },
      ],
    },
    "sales",
  );
  const texts = (/** @type {string} */ selector) => [...face.querySelectorAll(selector)].map((one) => one.textContent);
  assert.deepEqual(texts("thead th"), ["price", "+ new", "day", "store"]);
  assert.deepEqual(texts("tbody tr:first-child td"), ["9 10", "x", "mo", "K"]);
  assert.deepEqual(texts("tbody tr:last-child td"), ["8", "y", "tu", "G"]);
});
