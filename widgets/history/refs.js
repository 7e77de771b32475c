/** Branches, tags, and where the reader is: a label each, in the colour of its lane. */

import { el } from "../shared/dom.js";
import { icon } from "../shared/icons.js";

/** @import { Ref } from "./protocol.js" */

const MOST_REFS = 3;

/** @param {Ref[]} refs */
export function refList(refs) {
  const rest = refs.slice(MOST_REFS);
  return [
    ...refs.slice(0, MOST_REFS).map(refLabel),
    rest.length
      ? el("span", { class: "ak-note ak-muted", title: rest.map((ref) => ref.name).join(", ") }, `+${rest.length}`)
      : null,
  ];
}

/** A branch, a tag, or where the reader is. @param {Ref} ref */
export function refLabel(ref) {
  const lane = ref.lane === null ? "" : ` ak-ref${ref.lane % 6}`;
  if (ref.kind === "head") {
    return el("span", { class: "ak-ref ak-head ak-off", title: "You are here, on no branch" }, icon("head"), "HEAD");
  }
  if (ref.head)
    return el(
      "span",
      { class: `ak-ref ak-head${lane}`, title: `HEAD, on branch ${ref.name}` },
      icon("head"),
      el("span", { class: "ak-text" }, ref.name),
    );
  if (ref.kind === "aside") return el("span", { class: "ak-note ak-aside ak-muted", title: `${ref.branch?.includes(", ") ? "On branches" : "On branch"} ${ref.branch ?? ""}` }, ref.name);
  const what = ref.kind === "tag" ? "Tag" : "Branch";
  return el(
    "span",
    { class: `ak-ref${ref.kind === "tag" ? " ak-tag" : lane}`, title: `${what} ${ref.name}` },
    icon(ref.kind),
    el("span", { class: "ak-text" }, ref.name),
  );
}
