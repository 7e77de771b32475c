/** What stands in a cell of the board: a text, a word with a meaning, a share of a whole, a time. */

import { el } from "../shared/dom.js";

/**
 * @typedef {"" | "active" | "good" | "warn" | "bad" | "quiet"} Tone
 * @typedef {string | { text: string, tone: Tone, sign: string } | { bar: [number, Tone][] } | { at: number } | { span: number }} Cell
 */

/** @param {HTMLTableCellElement} cell @param {Cell} content @param {Node | null} before @returns {HTMLTableCellElement} */
export function fill(cell, content, before = null) {
  if (typeof content === "string") {
    const text = el("span", { class: "ak-cut" }, content);
    cell.append(before ? el("span", { class: "ak-name" }, before, text) : text);
    if (content.length > 20) cell.title = content;
  } else if ("bar" in content) {
    cell.append(bar(content.bar));
  } else if ("at" in content || "span" in content) {
    cell.classList.add("ak-muted", "ak-right");
    cell.append(el("time", "at" in content ? { "data-at": content.at } : { "data-span": content.span }));
  } else {
    if (content.tone) cell.classList.add(`ak-t-${content.tone}`);
    if (content.sign && content.text) cell.append(el("span", { class: "ak-sign", "aria-hidden": "true" }, content.sign));
    cell.append(content.text);
  }
  return cell;
}

/** @param {[number, Tone][]} parts */
function bar(parts) {
  const done = Math.round(100 * (parts[0]?.[0] ?? 0));
  const pieces = parts.map(([share, tone]) => el("i", { class: `ak-t-${tone || "active"}`, style: `width:${100 * share}%` }));
  return el("span", { class: "ak-meter", role: "img", "aria-label": `${done}%` }, ...pieces);
}

/** How long ago, or when, as the panel says it. @param {Element} time @param {number} now_s */
export function passed(time, now_s) {
  const span = time.getAttribute("data-span");
  if (span !== null) return lasting(Math.max(0, now_s - Number(span)));
  const at = Number(time.getAttribute("data-at"));
  if (!at) return "";
  const ago = now_s - at;
  if (ago < 60) return "now";
  if (ago < 3_600) return `${Math.floor(ago / 60)} min`;
  const then = new Date(1_000 * at);
  const isToday = then.toDateString() === new Date(1_000 * now_s).toDateString();
  const day = then.toDateString().slice(4, 10);
  return isToday ? then.toTimeString().slice(0, 5) : day;
}

/** 130 → "2m 10s". @param {number} seconds */
export function lasting(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3_600)}h ${String(Math.floor((whole % 3_600) / 60)).padStart(2, "0")}m`;
}
