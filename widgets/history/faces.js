/**
 * What changed inside one variable: a table's rows and columns, an array's spread, a text's lines, two pictures.
 *
 * A cell of a table that is new, gone or other has its sign's colour; what was there before is struck through.
 */

import { el, svg } from "../shared/dom.js";
import { SIGNS } from "../shared/format.js";
import { diffLines } from "./code.js";
import { framed } from "./sandbox.js";

/** @import { Cell, Face, Sign } from "./protocol.js" */
/** @template {Face["kind"]} K @typedef {Extract<Face, { kind: K }>} FaceOf */

/** @type {Record<string, string>} */
const TINT = { "+": "ak-new", "~": "ak-other", "-": "ak-gone" };
const LEFT = /^(object|str|string|category|bool|text)/i;

/** @param {Face} face @param {string} name the variable's @returns {HTMLElement} */
export function faceOf(face, name) {
  switch (face.kind) {
    case "table":
      return tableFace(face, name);
    case "array":
      return arrayFace(face, name);
    case "text":
      return el(
        "div",
        { class: "ak-scroll ak-lines", tabindex: 0, role: "group", "aria-label": `Lines of ${name}` },
        diffLines(face.lines),
      );
    case "pairs":
      return pairsFace(face, name);
    case "pictures":
      return picturesFace(face, name);
  }
}

/** @param {string} label @param {HTMLElement} table */
function scrolling(label, table) {
  return el("div", { class: "ak-scroll", tabindex: 0, role: "group", "aria-label": label }, table);
}

const UNREADABLE = "?";

/** @param {Cell["old"]} old @param {Cell["new"]} now @param {Sign | ""} how */
function cellPieces(old, now, how) {
  if (how === "~") return [el("s", {}, old ?? UNREADABLE), " ", el("b", {}, now ?? UNREADABLE)];
  return how === "-" ? [el("s", {}, old ?? UNREADABLE)] : [now ?? old ?? UNREADABLE];
}

/** A sign before the name of what came or went whole. @param {Sign | ""} how */
function signBefore(how) {
  return how === "+" || how === "-" ? el("span", { class: SIGNS[how].kind }, `${SIGNS[how].glyph} `) : null;
}

/** The columns that differ stand first, for in a narrow panel the others have the room. @param {FaceOf<"table">} face */
function changedFirst({ columns, rows }) {
  const differs = columns.map(({ how }, at) => how !== "" || rows.some((row) => row.cells[at]?.how === "~"));
  const order = [...columns.keys()].sort((a, b) => Number(differs[b]) - Number(differs[a]));
  /** @template T @param {T[]} all */
  const sorted = (all) => order.flatMap((at) => all.slice(at, at + 1));
  return { columns: sorted(columns), rows: rows.map((row) => ({ ...row, cells: sorted(row.cells) })) };
}

/** @param {FaceOf<"table">} given @param {string} name */
function tableFace(given, name) {
  const face = changedFirst(given);
  const left = face.columns.map((column) => (LEFT.test(column.of) ? "ak-tx" : ""));
  const head = face.columns.map((column, at) =>
    el(
      "th",
      { class: `${left[at]} ${wholeTint(column.how)}`, scope: "col", title: column.of },
      signBefore(column.how),
      column.name,
    ),
  );
  return scrolling(
    `Changed rows of ${name}`,
    el(
      "table",
      { class: "ak-tb" },
      el("thead", {}, el("tr", {}, el("td"), ...head)),
      el("tbody", {}, ...face.rows.map((row) => tableRow(row, left))),
    ),
  );
}

/** @param {Sign | ""} how */
const wholeTint = (how) => (how === "+" || how === "-" ? TINT[how] : "");

/** @param {FaceOf<"table">["rows"][number]} row @param {string[]} left */
function tableRow(row, left) {
  const whole = row.how === "+" || row.how === "-" ? row.how : "";
  const cells = row.cells.map((cell, at) => {
    const how = cell.how || whole;
    return el("td", { class: `${left[at] ?? ""} ${TINT[how] ?? ""}` }, ...cellPieces(cell.old, cell.new, how));
  });
  return el("tr", {}, el("th", { scope: "row", class: wholeTint(row.how) }, signBefore(row.how), row.label), ...cells);
}

/** @param {FaceOf<"array">} face @param {string} name */
function arrayFace(face, name) {
  const stats = face.rows[0]?.stats.map(([stat]) => el("th", { scope: "col" }, stat)) ?? [];
  const spread = face.rows.some((row) => row.spread.length);
  const body = face.rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { class: "ak-tx", scope: "row" }, row.label),
      spread ? el("td", { class: "ak-tx" }, histogram(row.spread)) : null,
      ...row.stats.map(([, value, changed]) =>
        el("td", { class: changed ? "ak-other" : "" }, changed ? el("b", {}, value) : value),
      ),
    ),
  );
  return scrolling(
    `Spread of ${name}`,
    el(
      "table",
      { class: "ak-tb" },
      el(
        "thead",
        {},
        el("tr", {}, el("td"), spread ? el("th", { class: "ak-tx", scope: "col" }, "spread") : null, ...stats),
      ),
      el("tbody", {}, ...body),
    ),
  );
}

/** @param {number[]} spread 0..1 */
function histogram(spread) {
  const step = 72 / Math.max(spread.length, 1);
  const bars = spread.map((part, at) => {
    const high = part > 0 ? Math.max(1, Math.round(part * 19)) : 0;
    return `M${(at * step).toFixed(1)} 20v-${high}h${(step - 1).toFixed(1)}v${high}z`;
  });
  return svg(
    "svg",
    { class: "ak-hist", viewBox: "0 0 72 20", "aria-hidden": "true" },
    svg("path", { d: bars.join("") }),
  );
}

/** @param {FaceOf<"pairs">} face @param {string} name */
function pairsFace(face, name) {
  const body = face.rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { class: "ak-tx", scope: "row" }, row.label),
      el("td", {}, row.old ?? ""),
      el(
        "td",
        { class: row.changed ? (row.old === null ? "ak-new" : row.new === null ? "ak-gone" : "ak-other") : "" },
        row.changed ? el("b", {}, row.new ?? "") : (row.new ?? ""),
      ),
    ),
  );
  const [old, now] = face.columns;
  return scrolling(
    `Parts of ${name}`,
    el(
      "table",
      { class: "ak-tb ak-pairs" },
      el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, old), el("th", { scope: "col" }, now))),
      el("tbody", {}, ...body),
    ),
  );
}

/** @param {FaceOf<"pictures">} face @param {string} name */
function picturesFace(face, name) {
  const pictures = [picture(face.before, "before", name), picture(face.after, "after", name)].filter(
    (part) => part !== null,
  );
  const arrow = el("span", { class: "ak-arr", "aria-label": "becomes", role: "img" }, "→");
  return el("div", { class: "ak-figs" }, pictures[0] ?? null, pictures.length > 1 ? arrow : null, pictures[1] ?? null);
}

/** @param {string | null} uri @param {string} when @param {string} name */
function picture(uri, when, name) {
  if (uri === null) return null;
  const label = `${name} ${when}`;
  return el("figure", {}, thumbnail(uri, label), el("figcaption", {}, when));
}

/** An image of pixels as it is; one of markup in a frame that can do nothing. @param {string} uri @param {string} label */
export function thumbnail(uri, label) {
  if (/^data:image\/(png|jpeg|gif|webp);/.test(uri)) return el("img", { class: "ak-thumb", src: uri, alt: label });
  const svgText = /^data:image\/svg\+xml(;charset=[\w-]+)?(;base64)?,(.*)$/s.exec(uri);
  if (!svgText) return el("span", { class: "ak-thumb ak-muted" }, "This picture has no form that can be shown.");
  const text = svgText[2]
    ? new TextDecoder().decode(Uint8Array.from(atob(svgText[3] ?? ""), (c) => c.charCodeAt(0)))
    : decodeURIComponent(svgText[3] ?? "");
  const frame = framed(text, label, true);
  frame.classList.add("ak-thumb");
  return frame;
}
