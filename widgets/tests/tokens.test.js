import assert from "node:assert/strict";
import { test } from "node:test";

import { finishedTokens, formsFor, joinQuery, markPieces, parseQuery, queryMarks } from "../shared/tokens.js";

const marked = (/** @type {string} */ text, /** @type {string} */ query) =>
  markPieces(text, queryMarks(query))
    .filter(([, matched]) => matched)
    .map(([piece]) => piece);

test("a search is tokens and a text", () => {
  assert.deepEqual(parseQuery(" var:df  is:error  log price "), { tokens: ["var:df", "is:error"], text: "log price" });
  assert.equal(joinQuery(["var:df"], " log "), "var:df log");
});

test("an unknown prefix, and a prefix alone, are text", () => {
  assert.deepEqual(parseQuery("foo:bar var:"), { tokens: [], text: "foo:bar var:" });
});

test("a token is finished by the space behind it", () => {
  assert.deepEqual(finishedTokens("var:d"), { tokens: [], rest: "var:d" });
  assert.deepEqual(finishedTokens("var:df "), { tokens: ["var:df"], rest: "" });
  assert.deepEqual(finishedTokens("log var:df pri"), { tokens: ["var:df"], rest: "log pri" });
  assert.deepEqual(finishedTokens("log price"), { tokens: [], rest: "log price" });
});

test("a variable is marked as a whole word, and not as somebody's attribute", () => {
  assert.deepEqual(marked("df = df.dropna(x.df, df2, my_df)", "var:df"), ["df", "df"]);
});

test("a text is marked anywhere, in any case, and is no pattern", () => {
  assert.deepEqual(marked("Ridge(alpha=1.0).fit", "ridge ("), ["Ridge", "("]);
});

test("the pieces together are the text", () => {
  const text = "df = df.dropna(subset=['rooms'])";
  assert.equal(
    markPieces(text, queryMarks("var:df rooms"))
      .map(([piece]) => piece)
      .join(""),
    text,
  );
});

test("what cannot be understood is told how it is written, and nothing else is", () => {
  const day = "A day is written since:2026-11-01, since:today or since:yesterday.";
  for (const odd of ["since:foo", "since:", "since:2026-13-45", "var:df since:foo since:bar"]) assert.deepEqual(formsFor(odd), [day], odd);
  assert.deepEqual(formsFor("is:foo"), ["There is is:error, is:merge, is:agent, is:named and is:unsaved."]);
  assert.deepEqual(formsFor("foo:bar"), ["foo: is looked for as text. What begins a search: var: cell: tag: branch: author: is: since:"]);
  for (const plain of ["", "outliers", "var:x cell:7", "since:2030-01-01", "since:yesterday is:error", "a::b", "http"]) {
    assert.deepEqual(formsFor(plain).filter((form) => !form.startsWith("a:")), [], plain);
  }
});
