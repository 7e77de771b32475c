/**
 * Stored HTML and SVG, which nobody vouches for.
 *
 * They are shown in a frame of their own origin: no scripts, no forms, no way to the page around it, nothing fetched. What a
 * frame's policy does not hold (a connection opened ahead, a frame that goes elsewhere when a link in it is pressed) is taken
 * out first, in a document that is never shown. Paper is white in every theme, as pictures and tables were made for it.
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

/** What opens connections, leads elsewhere, or holds a document of its own. */
const LEADS = new Set(["base", "embed", "frame", "frameset", "iframe", "link", "meta", "noembed", "noframes", "noscript", "object", "plaintext", "portal", "script", "template", "xmp"]);
const EMPTY = new Set(["area", "br", "col", "hr", "img", "input", "param", "source", "track", "wbr"]);
const HTML = "http://www.w3.org/1999/xhtml";
const MOVES = new Set(["animate", "set"]); // SVG that changes attributes by and by
const BLOCKS = new Set(["blockquote", "dd", "details", "div", "dt", "figcaption", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "section", "summary"]);
const PICTURES = new Set(["canvas", "img", "svg", "video"]);
const OTHERS = new Set(["pre", "script", "style", "table", "template"]);
const MARGIN_PX = 10;
const LINE_PX = 20;
const ROW_PX = 25;
const PICTURE_PX = 200;
const CHARACTER_PX = 7;
const ROUNDS = 4; // what is written and read again may be other markup than before

/** @param {string} markup @param {string} label @param {boolean} [fitted] @returns {HTMLIFrameElement} */
export function framed(markup, label, fitted = false) {
  const frame = el("iframe", {
    class: "ak-frame",
    sandbox: "",
    title: label,
    referrerpolicy: "no-referrer",
    loading: "lazy",
  });
  const head = `<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><meta http-equiv="x-dns-prefetch-control" content="off"><base target="_blank">`;
  frame.srcdoc = `<!doctype html>${head}<style>${STYLE}${fitted ? FITTED : ""}</style>${harmless(markup)}`;
  return frame;
}

/**
 * A whole page that the server made, with a policy and colours of its own.
 *
 * Its links to its own parts would lead to the page around it, by whose address a document of this kind goes; so it says its own,
 * before its policy forbids that.
 *
 * @param {string} page @param {string} label
 */
export function framedPage(page, label) {
  const frame = el("iframe", { sandbox: "", title: label, referrerpolicy: "no-referrer" });
  frame.srcdoc = page.replace("<head>", '<head><base href="about:srcdoc">');
  return frame;
}

/**
 * The markup without what leads out of its frame; as text, where it is another markup each time that it is read.
 *
 * @param {string} markup
 */
export function harmless(markup) {
  let text = markup;
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = parsed(text);
    strip(page);
    const before = text;
    text = [...page.head.childNodes, ...page.body.childNodes].map(written).join("");
    if (text === before) return text;
  }
  return `<pre>${escaped(markup)}</pre>`;
}

/** As a document that runs nothing and fetches nothing. @param {string} markup */
function parsed(markup) {
  return new DOMParser().parseFromString(markup, "text/html");
}

/** A node as markup. @param {Node} node @returns {string} */
function written(node) {
  if (node.nodeType === Node.TEXT_NODE) return escaped(node.textContent ?? "");
  if (!(node instanceof Element)) return "";
  const isHtml = node.namespaceURI === HTML;
  const name = isHtml ? node.localName.toLowerCase() : node.localName;
  const attributes = [...node.attributes].map((one) => ` ${one.name}="${escaped(one.value)}"`).join("");
  if (isHtml && EMPTY.has(name)) return `<${name}${attributes}>`;
  const text = node.textContent ?? "";
  const inside = isHtml && name === "style" ? text : [...node.childNodes].map(written).join("");
  // Of a first empty line the reader of markup takes away one line break.
  return `<${name}${attributes}>${name === "pre" && text.startsWith("\n") ? "\n" : ""}${inside}</${name}>`;
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** @param {Document} page */
function strip(page) {
  for (const element of page.querySelectorAll("*")) {
    const name = element.localName.toLowerCase();
    if (LEADS.has(name) || (MOVES.has(name) && /target|href/i.test(element.getAttribute("attributeName") ?? ""))) {
      element.remove();
    } else element.removeAttribute("target");
  }
}

/**
 * About how high the markup is, in px: a frame of its own origin cannot be measured, so its rows, lines and pictures are
 * counted.
 *
 * @param {string} markup @param {number} widthPx
 */
export function roomFor(markup, widthPx) {
  const { body } = parsed(markup);
  const linesOf = (/** @type {string} */ text) => Math.ceil((text.length * CHARACTER_PX) / Math.max(widthPx, LINE_PX));
  let px = 2 * MARGIN_PX + linesOf(ownText(body)) * LINE_PX;
  for (const element of body.querySelectorAll("*")) px += heightOf(element, linesOf);
  return px;
}

/** @param {Element} element @param {(text: string) => number} linesOf */
function heightOf(element, linesOf) {
  const name = element.localName.toLowerCase();
  if (element.parentElement?.closest("tr, pre, svg")) return 0;
  if (name === "tr") return ROW_PX;
  if (name === "pre") return (element.textContent ?? "").trimEnd().split("\n").length * LINE_PX + LINE_PX;
  if (name === "br") return LINE_PX;
  if (PICTURES.has(name)) return Number.parseFloat(element.getAttribute("height") ?? "") || PICTURE_PX;
  if (!BLOCKS.has(name)) return 0;
  const gap = name === "div" || name === "li" ? 0 : LINE_PX / 2;
  const styled = /(?:^|[;\s])height:\s*(\d+)px/.exec(element.getAttribute("style") ?? "");
  return styled ? Number(styled[1]) : linesOf(ownText(element)) * LINE_PX + gap;
}

/** The text of an element without that of blocks in it. @param {Element} element */
function ownText(element) {
  return [...element.childNodes]
    .filter((node) => !(node instanceof Element) || !isBlock(node))
    .map((node) => node.textContent ?? "")
    .join("")
    .trim();
}

/** @param {Element} element */
function isBlock(element) {
  const name = element.localName.toLowerCase();
  return BLOCKS.has(name) || PICTURES.has(name) || OTHERS.has(name) || element.querySelector("table, pre, div, p") !== null;
}
