/**
 * Elements from plain values.
 *
 * Whatever a store holds reaches the page through here, and here a string only ever becomes a text node or an attribute:
 * there is no way to hand over markup.
 */

/** @typedef {Node | string | number | null | undefined | false} Piece */
/** @typedef {Piece | Piece[]} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * An HTML element. A function is a listener (`onclick`), null and false leave the attribute out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  setAll(node, props);
  append(node, children);
  return node;
}

/**
 * An SVG element.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAll(node, props);
  append(node, children);
  return node;
}

/** @param {Element} node @param {Props} props */
export function setAll(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Node} node @param {Child[]} children */
export function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** @param {Element} node @param {...Child} children */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

/**
 * Make an element what a newer one is, and keep all of it that is the same: what has the focus, or is being pressed, stays.
 *
 * `data-` attributes of its own stay too. For elements whose listeners are further out: a newer one's do not come along.
 *
 * @param {Element} node @param {Element} newer which is taken apart
 */
export function become(node, newer) {
  for (const { name } of [...node.attributes]) if (!newer.hasAttribute(name) && !name.startsWith("data-")) node.removeAttribute(name);
  for (const { name, value } of [...newer.attributes]) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  const had = [...node.childNodes];
  const parts = [...newer.childNodes].map((part) => {
    const at = had.findIndex((one) => isLike(one, part));
    if (at < 0) return part;
    const [kept] = had.splice(0, at + 1).slice(-1);
    if (kept instanceof Element && part instanceof Element) become(kept, part);
    return /** @type {ChildNode} */ (kept);
  });
  const stay = new Set(parts);
  for (const one of [...node.childNodes]) if (!stay.has(one)) one.remove();
  inOrder(node, parts);
}

/** Have these, and no others, as the children; what stands where it should is not moved. @param {Element} node @param {ChildNode[]} parts */
export function inOrder(node, parts) {
  let next = node.firstChild;
  for (const part of parts) {
    if (part === next) next = next.nextSibling;
    else node.insertBefore(part, next);
  }
}

/** Whether one may become the other. @param {Node} one @param {Node} other */
function isLike(one, other) {
  if (!(one instanceof Element) || !(other instanceof Element)) return one.isEqualNode(other);
  return one.tagName === other.tagName && one.getAttribute("class") === other.getAttribute("class");
}

/** Words that only a screen reader says. @param {string} text */
export function spoken(text) {
  return el("span", { class: "ak-vh" }, text);
}

/**
 * A text with its prompts ("[7]", "[20.3]") and hashes in the code font.
 *
 * @param {string} text
 * @returns {Child[]}
 */
export function prose(text) {
  return text
    .split(/(\[[\d.–]+\])/)
    .map((part, at) => (at % 2 ? el("span", { class: "ak-mono" }, part) : part))
    .filter((part) => part !== "");
}

const OURS = Math.random().toString(36).slice(2, 10); // each widget of a page has a module of its own, which counts by itself
let lastId = 0;

/** An id that no other element of the page has. @param {string} what */
export function freshId(what) {
  lastId += 1;
  return `ak-${what}-${OURS}-${lastId}`;
}
