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

let lastId = 0;

/** An id that no other element of the page has. @param {string} what */
export function freshId(what) {
  lastId += 1;
  return `ak-${what}-${lastId}`;
}
