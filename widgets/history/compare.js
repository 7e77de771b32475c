/** Two commits side by side: left is before, right is after. It stands in place of the list until one goes back. */

import { failureNote, iconButton } from "../shared/buttons.js";
import { el, fill, prose } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { changeLines } from "./changes.js";
import { diffLines } from "./code.js";
import { environmentView } from "./environment.js";
import { refLabel } from "./refs.js";
import { Tabs } from "./tabs.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { Comparison, Side } from "./protocol.js" */
/** @import { HistoryModel } from "./state.js" */
/** @import { Tab } from "./tabs.js" */

export class CompareView {
  /** @param {HistoryModel} model @param {() => void} back */
  constructor(model, back) {
    this.model = model;
    this.back = back;
    this.turn = 0;
    this.tab = "variables";
    this.same = false;
    /** @type {Map<string, boolean>} */
    this.open = new Map();
    this.bar = el("div", { class: "ak-bar ak-compare-bar" });
    this.tabs = new Tabs("Comparison", (key) => {
      this.tab = key;
    });
    this.element = el(
      "div",
      { class: "ak-compare", role: "region", "aria-label": "Compare", hidden: true },
      this.bar,
      this.tabs.bar,
      this.tabs.panel,
    );
    /** @type {Comparison | null} */
    this.shown = null;
    this.version = "";
    /** @type {HTMLElement[]} what the two sides are called */
    this.sides = [];
    model.on(["view"], () => void this.load());
    model.on(["head"], () => void this.#refresh());
  }

  async load() {
    const { view } = this.model;
    const turn = ++this.turn;
    this.element.hidden = view.kind !== "compare";
    if (view.kind !== "compare") return;
    // The list goes, and the focus must not go with it; where the panel had none it takes none.
    const focus = this.element.parentElement?.contains(document.activeElement) ?? false;
    this.same = false;
    this.shown = null;
    this.open = new Map(view.name ? [[view.name, true]] : []);
    try {
      const comparison = await this.model.transport.ask("compare", { a: view.a, b: view.b });
      if (turn === this.turn) await this.#draw(comparison, view.name, focus);
    } catch (error) {
      if (turn === this.turn) this.#failed(error);
    }
  }

  /** The history moved: what the sides are called may be called so no more. What differs between them stays as it is. */
  async #refresh() {
    const { model, shown } = this;
    if (!shown || this.version === model.pages.version) return;
    this.version = model.pages.version;
    const { head } = model;
    const branches = await model.transport.ask("branches", {}).catch(() => null); // what stands there was true then
    if (!branches || shown !== this.shown) return;
    for (const side of [shown.a, shown.b]) {
      const here = head?.branch === null && head.id === side.id ? [{ kind: /** @type {const} */ ("head"), name: "HEAD", head: true, lane: null }] : [];
      const tips = branches.filter(({ id }) => id === side.id);
      side.refs = [
        ...here,
        ...tips.map(({ name, here: head, lane }) => ({ kind: /** @type {const} */ ("branch"), name, head, lane })),
        ...side.refs.filter(({ kind }) => kind === "tag"),
      ];
    }
    this.#drawSides(shown);
  }

  /** @param {Comparison} comparison */
  #drawSides({ a, b }) {
    const old = this.sides;
    this.sides = [a, b].map(sideLabel);
    old.forEach((label, at) => label.replaceWith(/** @type {HTMLElement} */ (this.sides[at])));
  }

  swap() {
    const { view } = this.model;
    if (view.kind === "compare") this.model.show({ ...view, a: view.b, b: view.a });
  }

  #backButton() {
    return iconButton("left", "Back to the history", "Back (Esc)", this.back);
  }

  /** @param {Comparison} comparison @param {string} name @param {boolean} focus */
  #draw(comparison, name, focus) {
    const { a, b, base } = comparison;
    const swap = iconButton("swap", "Swap sides", "Swap sides (x)", () => this.swap());
    const back = this.#backButton();
    this.shown = comparison;
    this.version = this.model.pages.version;
    this.#drawSides(comparison);
    fill(
      this.bar,
      back,
      el("strong", {}, "Compare"),
      this.sides[0] ?? null,
      el("span", { class: "ak-arr", role: "img", "aria-label": "to" }, "→"),
      this.sides[1] ?? null,
      swap,
      el("span", { class: "ak-sp" }),
      base && base.id !== a.id && base.id !== b.id ? baseLabel(base) : null,
    );
    if (focus) back.focus({ preventScroll: true });
    this.element.setAttribute("aria-label", `Compare ${a.label} with ${b.label}`);
    return this.tabs.show(this.#tabList(comparison, name), this.tab);
  }

  /** @param {Comparison} comparison @param {string} name */
  #tabList(comparison, name) {
    const { changes, code, environment } = comparison;
    /** @type {Tab[]} */
    const tabs = [
      {
        key: "variables",
        label: [`Variables ${changes.length + comparison.more_changes}`],
        show: async () => this.#variables(comparison, name),
      },
      {
        key: "code",
        label: ["Code", code.length ? el("span", { class: "ak-roomy-text" }, ` ${plural(code.length, "cell")}`) : null],
        show: async () => codeOf(code),
      },
    ];
    if (environment) {
      const label = [
        el("span", { class: "ak-roomy-text" }, "Environment"),
        el("span", { class: "ak-tight-text" }, "Env."),
      ];
      tabs.push({ key: "environment", label, show: async () => [environmentView(environment)] });
    }
    return tabs;
  }

  /** @param {Comparison} comparison @param {string} name */
  #variables(comparison, name) {
    const { a, b, changes } = comparison;
    const look = {
      ask: (/** @type {string} */ of) => this.model.transport.ask("variable", { id: b.id, against: a.id, name: of }),
      open: this.open,
      first: name ? 0 : 1,
    };
    const lines = changeLines(changes, comparison.more_changes, [], look);
    return [
      ...(lines.length ? lines : [el("p", { class: "ak-nothing" }, "Every variable is the same on both sides.")]),
      this.#sameLine(comparison),
    ];
  }

  /** @param {Comparison} comparison */
  #sameLine({ same, same_names: names }) {
    if (!same) return null;
    const list = el("span", { class: "ak-mono ak-same-names", hidden: !this.same }, names.join(", "));
    const show = el(
      "button",
      {
        class: "ak-b ak-quiet ak-small",
        type: "button",
        "aria-expanded": String(this.same),
        onclick: () => {
          this.same = list.hidden;
          list.hidden = !this.same;
          show.textContent = this.same ? "Hide them" : "Show them";
          show.setAttribute("aria-expanded", String(this.same));
        },
      },
      this.same ? "Hide them" : "Show them",
    );
    const said = same === 1 ? "1 variable is the same on both sides" : `${plural(same, "variable")} are the same on both sides`;
    return el(
      "div",
      { class: "ak-v ak-same" },
      el("span"),
      el("span", { class: "ak-sg ak-muted", "aria-hidden": "true" }, "="),
      el("span", { class: "ak-same-text ak-muted" }, said, " ", show, list),
    );
  }

  /** @param {unknown} error */
  #failed(error) {
    fill(this.bar, this.#backButton(), el("strong", {}, "Compare"));
    fill(this.tabs.bar);
    fill(
      this.tabs.panel,
      failureNote(error, () => void this.load()),
    );
  }
}

/** A side's branch or tag, and its prompt; its label where it has neither, or says more. @param {Side} side @returns {HTMLElement} */
function sideLabel(side) {
  const ref = side.refs.find(({ kind }) => kind !== "aside"); // branches of agents do not say which commit it is
  if (!ref && side.prompt !== side.label) return el("span", { class: "ak-side" }, ...prose(side.label));
  const prompt = side.prompt ? el("span", { class: "ak-mono ak-muted" }, side.prompt) : null;
  return el("span", { class: "ak-side" }, ref ? refLabel(ref) : null, prompt);
}

/** @param {Side} base */
function baseLabel(base) {
  return el("span", { class: "ak-side" }, el("span", { class: "ak-count" }, "both grew from"), sideLabel(base));
}

/** @param {Comparison["code"]} cells @returns {Child[]} */
function codeOf(cells) {
  if (!cells.length) return [el("p", { class: "ak-nothing" }, "The same cells ran on both sides.")];
  return cells.map(({ prompt, about, lines }) =>
    el(
      "div",
      { class: "ak-diff", tabindex: 0, role: "group", "aria-label": about || `Code of ${prompt}` },
      el("div", { class: "ak-hunk" }, about || `Cell ${prompt}`),
      diffLines(lines),
    ),
  );
}
