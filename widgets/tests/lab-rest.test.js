/** Questions become addresses, answers become data, and whatever else comes becomes an error with a code. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Rest, queryOf } from "../lab/rest.js";

const json = (status, body) => async () => new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
const store = { id: "f".repeat(32), name: "houses", history: "h" };

/** What was asked for. */
function asked(answer) {
  const paths = [];
  const rest = new Rest((path) => {
    paths.push(path);
    return answer();
  });
  return { rest, paths };
}

test("arguments are written once each, lists as often as they have entries", () => {
  assert.equal(queryOf({ text: "var:df a&b", from: 20, unfolded: ["x", "y"], against: undefined, n: 0 }), "text=var%3Adf+a%26b&from=20&unfolded=x&unfolded=y&n=0");
});

test("a question goes to the address of its store", async () => {
  const { rest, paths } = asked(json(200, { row: 3 }));
  assert.deepEqual(await rest.ask(store, "locate", { id: "7c1e", text: "" }), { row: 3 });
  assert.deepEqual(paths, [`agent-kernel/api/v1/stores/${store.id}/locate?id=7c1e&text=`]);
});

test("a notebook's store, or none", async () => {
  assert.deepEqual(await new Rest(json(200, { path: "a b.ipynb", store })).notebook("a b.ipynb"), store);
  const { rest, paths } = asked(json(200, { path: "a b.ipynb", store: null }));
  assert.equal(await rest.notebook("a b.ipynb"), null);
  assert.deepEqual(paths, ["agent-kernel/api/v1/notebooks?path=a+b.ipynb"]);
});

test("panels that look at the same moment share one look", async () => {
  const { rest, paths } = asked(json(200, { version: "v1" }));
  assert.deepEqual(await Promise.all([rest.version(store), rest.version(store), rest.version({ ...store, id: "0".repeat(32) })]), ["v1", "v1", "v1"]);
  assert.equal(paths.length, 2);
});

test("what the server says against it is what is raised", async () => {
  const rest = new Rest(json(409, { error: { code: "refused", message: "the history has moved on" } }));
  await assert.rejects(rest.version(store), { code: "refused", message: "the history has moved on", status: 409 });
});

for (const [what, fetch] of [
  ["a server without the extension", async () => new Response("<html>404</html>", { status: 404 })],
  ["a page of something in between", async () => new Response("<html>Sign in</html>", { status: 200 })],
  ["no server at all", async () => Promise.reject(new TypeError("Failed to fetch"))],
]) {
  test(`${what} is an extension that is absent`, async () => {
    await assert.rejects(new Rest(fetch).notebook("a.ipynb"), { code: "absent" });
  });
}

test("a server without the extension is asked once", async () => {
  const { rest, paths } = asked(async () => new Response("<html>404</html>", { status: 404 }));
  for (let round = 0; round < 3; round += 1) await assert.rejects(rest.notebook("a.ipynb"), { code: "absent" });
  assert.equal(paths.length, 1);
});
