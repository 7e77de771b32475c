/** What a cell ran in: interpreter, platform, packages, and which of them are others than before. */

import { el } from "../shared/dom.js";
import { SIGNS, plural } from "../shared/format.js";

/** @import { EnvironmentDiff } from "./protocol.js" */

/** @param {EnvironmentDiff} environment */
export function environmentView(environment) {
  const { about, facts, packages, installed, changed } = environment;
  return el(
    "div",
    { class: "ak-env" },
    about ? el("p", { class: "ak-hunk" }, about) : null,
    facts.length
      ? el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", { class: "ak-mono" }, value)]))
      : null,
    changed.length ? packageTable(changed) : null,
    installed.length ? allOf(installed, restOf(packages, changed.length)) : el("p", { class: "ak-muted" }, restOf(packages, changed.length)),
  );
}

/** All packages, once somebody wants to see them. @param {EnvironmentDiff["installed"]} installed @param {string} said */
function allOf(installed, said) {
  const list = el("div", { class: "ak-scroll ak-lines", tabindex: 0, role: "group", "aria-label": "All packages", hidden: true });
  list.append(...installed.map(([name, version]) => el("div", { class: "ak-mono" }, `${name} ${version}`)));
  const show = el("button", { class: "ak-b ak-quiet ak-small", type: "button", "aria-expanded": "false" }, "Show all");
  show.addEventListener("click", () => {
    list.hidden = !list.hidden;
    show.textContent = list.hidden ? "Show all" : "Hide them";
    show.setAttribute("aria-expanded", String(!list.hidden));
  });
  return el("div", {}, el("p", { class: "ak-muted" }, said, " ", show), list);
}

/** @param {EnvironmentDiff["changed"]} changed */
function packageTable(changed) {
  const rows = changed.map(({ how, name, old, new: now }) =>
    el(
      "tr",
      {},
      el(
        "td",
        { class: `ak-sg ${SIGNS[how].kind}` },
        el("span", { role: "img", "aria-label": SIGNS[how].word }, SIGNS[how].glyph),
      ),
      el("th", { class: "ak-tx", scope: "row" }, name),
      el(
        "td",
        { class: "ak-tx" },
        old ? el("s", {}, old) : null,
        old && now ? el("span", { class: "ak-arr", role: "img", "aria-label": "becomes" }, "→") : null,
        now,
      ),
    ),
  );
  return el(
    "div",
    { class: "ak-scroll", tabindex: 0, role: "group", "aria-label": "Changed packages" },
    el("table", { class: "ak-tb" }, el("tbody", {}, ...rows)),
  );
}

/** @param {number} packages @param {number} changed */
function restOf(packages, changed) {
  if (!packages) return "No packages are recorded.";
  if (!changed) return `${plural(packages, "package")}, all as before.`;
  return `${plural(Math.max(packages - changed, 0), "other package")}, as before.`;
}
