/** Menus and lists that open over the panel: arrows move, a key beside an item does it, Esc closes. */

import { append, el } from "../shared/dom.js";
import { floatOver } from "../shared/popover.js";

/** @import { Child } from "../shared/dom.js" */
/** @typedef {{ label: Child, key?: string, note?: string, mark?: Node, selected?: boolean, act: () => void }} Item */
/**
 * @typedef {object} MenuLook
 * @property {string} label
 * @property {"menu" | "listbox"} role
 * @property {Element} anchor
 * @property {{ x: number, y: number }} [at]
 * @property {HTMLElement} back
 * @property {boolean} [wide]
 */

/**
 * @param {HTMLElement} panel
 * @param {Item[][]} groups a line stands between them
 * @param {MenuLook} look
 */
export function openMenu(panel, groups, look) {
  const itemRole = look.role === "menu" ? "menuitem" : "option";
  const items = groups.flat();
  const nodes = items.map((item) => itemNode(item, itemRole));
  const menu = el("div", {
    class: `ak-menu${look.wide ? " ak-menu-wide" : ""}`,
    role: look.role,
    "aria-label": look.label,
  });
  let next = 0;
  for (const [at, group] of groups.filter((those) => those.length).entries()) {
    if (at) append(menu, [el("div", { class: "ak-rule", role: look.role === "menu" ? "separator" : "presentation" })]);
    append(menu, nodes.slice(next, (next += group.length)));
  }
  const start = Math.max(
    0,
    items.findIndex((item) => item.selected),
  );
  const floating = floatOver(panel, menu, {
    anchor: look.anchor,
    back: look.back,
    ...(look.at ? { at: look.at } : {}),
    ...(nodes[start] ? { focus: nodes[start] } : {}),
  });
  /** @param {number} at */
  const run = (at) => {
    floating.close();
    items[at]?.act();
  };
  nodes.forEach((node, at) => node.addEventListener("click", () => run(at)));
  menu.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = nodes.findIndex((node) => node === document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: nodes.length - 1 }[event.key];
    const keyed = items.findIndex((item) => item.key === event.key);
    if (to !== undefined) nodes[(to + nodes.length) % nodes.length]?.focus();
    else if (event.key === "Enter" || event.key === " ") run(at);
    else if (keyed >= 0) run(keyed);
    else if (event.key === "Tab") floating.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return floating;
}

/** @param {Item} item @param {string} role */
function itemNode(item, role) {
  return el(
    "div",
    {
      class: "ak-item",
      role,
      tabindex: -1,
      "aria-selected": role === "option" ? String(Boolean(item.selected)) : null,
    },
    item.mark ?? null,
    el("span", { class: "ak-text" }, item.label),
    el("span", { class: "ak-sp" }),
    item.note ? el("span", { class: "ak-muted ak-item-note" }, item.note) : null,
    item.key ? el("span", { class: "ak-k", "aria-hidden": "true" }, item.key) : null,
  );
}
