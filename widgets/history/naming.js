/** Asks for one name: of a branch, of a tag. */

import { textButton } from "../shared/buttons.js";
import { el, fill, freshId, prose } from "../shared/dom.js";
import { floatOver } from "../shared/popover.js";

/**
 * @typedef {object} Naming
 * @property {string} title "Branch from [7]"
 * @property {string} label "Name"
 * @property {string} button
 * @property {string} [option] a choice beside the name
 * @property {(name: string, chosen: boolean) => Promise<string | null>} go null: done; else why not
 */

/** @param {HTMLElement} panel @param {Naming} naming @param {{ anchor: Element, back: HTMLElement }} from */
export function askName(panel, naming, from) {
  const title = el("h4", { id: freshId("naming") }, ...prose(naming.title));
  const input = el("input", {
    type: "text",
    class: "ak-input",
    id: freshId("name"),
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const option = el("input", { type: "checkbox", checked: true });
  const why = el("p", { class: "ak-del", role: "alert", hidden: true });
  const go = el("button", { class: "ak-b ak-main", type: "submit", disabled: true }, naming.button);
  const form = el(
    "form",
    { novalidate: true },
    title,
    el("div", { class: "ak-field" }, el("label", { for: input.id }, naming.label), input),
    naming.option ? el("label", { class: "ak-check" }, option, naming.option) : null,
    why,
    el(
      "div",
      { class: "ak-foot" },
      go,
      textButton("Cancel", () => floating.close()),
    ),
  );
  const pop = el("div", { class: "ak-pop ak-pop-small", role: "dialog", "aria-labelledby": title.id }, form);
  const floating = floatOver(panel, pop, { anchor: from.anchor, back: from.back, focus: input });
  input.addEventListener("input", () => {
    go.disabled = input.value.trim() === "";
    why.hidden = true;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    go.disabled = true;
    const refused = await naming.go(input.value.trim(), Boolean(naming.option) && option.checked);
    if (refused === null) return floating.close();
    go.disabled = false;
    why.hidden = false;
    fill(why, refused);
    floating.place();
    input.focus();
  });
}
