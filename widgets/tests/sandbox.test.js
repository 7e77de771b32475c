/** Stored markup cannot lead out of its frame, and the frame is about as high as what is in it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { withoutPage } from "./page.js";

const page = { skip: withoutPage };
const { framed, harmless, roomFor } = await import("../history/sandbox.js");

for (const [what, markup] of Object.entries({
  "a connection opened ahead": '<link rel="preconnect" href="https://evil.example"><p>kept</p>',
  "a name looked up ahead": '<p>kept</p><LINK REL=dns-prefetch HREF="//evil.example">',
  "a page that moves on": '<meta http-equiv="refresh" content="0;url=https://evil.example"><p>kept</p>',
  "another base": '<base href="https://evil.example" target="_self"><p>kept</p>',
  "a frame within the frame": '<iframe srcdoc="&lt;link rel=preconnect href=//evil.example&gt;"></iframe><p>kept</p>',
  "a shadow tree": '<div><template shadowrootmode="open"><link rel="preconnect" href="//evil.example"></template></div><p>kept</p>',
  "what stands for scripts": '<noscript><link rel="preconnect" href="//evil.example"></noscript><p>kept</p>',
  "an attribute that changes by and by": '<svg><a><set attributeName="target" to="_self"></set></a></svg><p>kept</p>',
})) {
  test(`${what} is taken out of stored markup`, page, () => {
    const left = harmless(markup);
    assert.doesNotMatch(left, /<(link|meta|base|iframe|template|noscript|set)|evil|_self/i);
    assert.match(left, /kept/);
  });
}

test("a link that would move the frame itself names no place any more", page, () => {
  const left = harmless('<a href="https://example.org/" target="_self">there</a>');
  assert.equal(left, '<a href="https://example.org/">there</a>');
  assert.match(framed(left, "Output").srcdoc, /<base target="_blank">/);
});

test("what is harmless stays as it is", page, () => {
  const table = '<table border="1" class="dataframe"><thead><tr><th>x</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>';
  assert.equal(harmless(table), table);
  assert.equal(harmless("<style>td{color:red}</style><p>1 &lt; 2</p>"), "<style>td{color:red}</style><p>1 &lt; 2</p>");
});

test("a frame has the room of its rows, its lines and its pictures", page, () => {
  const room = (/** @type {string} */ markup) => roomFor(markup, 600);
  const rows = (/** @type {number} */ n) => `<table>${"<tr><td>1</td></tr>".repeat(n)}</table>`;
  assert.ok(room(rows(3)) < 110, "three rows are no big empty box");
  assert.equal(room(rows(10)) - room(rows(3)), 175);
  assert.ok(room("<p>one line</p>") < 70);
  assert.ok(room(`<pre>${"line\n".repeat(12)}</pre>`) > 240);
  assert.ok(room("<div>a<br>b<br>c</div>") >= 60);
  const long = `<p>${"word ".repeat(60)}</p>`;
  assert.ok(roomFor(long, 280) > roomFor(long, 900) + 60, "text wraps");
  assert.equal(room('<svg height="150"><g><rect height="90"></rect></g></svg>') - room(""), 150);
});

test("attributes, pictures and empty lines come through as they were", page, () => {
  assert.equal(harmless('<img src="data:image/png;base64,AA==" alt="a &lt; &quot;b&quot;">'), '<img src="data:image/png;base64,AA==" alt="a &lt; &quot;b&quot;">');
  assert.equal(harmless('<svg viewBox="0 0 1 1"><linearGradient id="g"></linearGradient></svg>'), '<svg viewBox="0 0 1 1"><linearGradient id="g"></linearGradient></svg>');
  assert.equal(harmless("<pre>a\n\nb</pre><br>"), "<pre>a\n\nb</pre><br>");
});
