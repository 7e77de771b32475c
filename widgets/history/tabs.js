/** A row of tabs over a panel, by the pattern of the ARIA guide: one tab stop, arrows between them, shown as they are reached. */

import { failureNote } from "../shared/buttons.js";
import { el, fill, freshId, setAll } from "../shared/dom.js";

/** @import { Child } from "../shared/dom.js" */
/** @typedef {{ key: string, label: Child[], show: () => Promise<Child[]> }} Tab */

export class Tabs {
  /** @param {string} label @param {(key: string) => void} onPick */
  constructor(label, onPick) {
    this.onPick = onPick;
    this.turn = 0;
    /** @type {Tab[]} */
    this.tabs = [];
    this.picked = "";
    this.bar = el("div", {
      class: "ak-tabs",
      role: "tablist",
      "aria-label": label,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
    this.panel = el("div", { class: "ak-tab", role: "tabpanel", id: freshId("tab") });
  }

  /** @param {Tab[]} tabs @param {string} picked */
  show(tabs, picked) {
    const focused = this.bar.contains(document.activeElement);
    this.tabs = tabs;
    this.picked = tabs.some((tab) => tab.key === picked) ? picked : (tabs[0]?.key ?? "");
    fill(
      this.bar,
      ...tabs.map((tab) => {
        const on = tab.key === this.picked;
        return el(
          "button",
          {
            type: "button",
            role: "tab",
            id: `${this.panel.id}-${tab.key}`,
            "aria-selected": String(on),
            tabindex: on ? 0 : -1,
            "aria-controls": this.panel.id,
            onclick: () => this.pick(tab.key),
          },
          ...tab.label,
        );
      }),
    );
    setAll(this.panel, { "aria-labelledby": `${this.panel.id}-${this.picked}` });
    if (focused) this.#button()?.focus();
    return this.#load();
  }

  /** @param {string} key */
  pick(key) {
    this.onPick(key);
    return this.show(this.tabs, key);
  }

  #button() {
    return /** @type {HTMLElement | null} */ (this.bar.querySelector('[aria-selected="true"]'));
  }

  async #load() {
    const turn = ++this.turn;
    const tab = this.tabs.find((other) => other.key === this.picked);
    if (!tab) return;
    try {
      const children = await tab.show();
      if (turn === this.turn) fill(this.panel, ...children);
    } catch (error) {
      if (turn === this.turn)
        fill(
          this.panel,
          failureNote(error, () => void this.#load()),
        );
    }
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = this.tabs.findIndex((tab) => tab.key === this.picked);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    const next = to === undefined ? undefined : this.tabs[(to + this.tabs.length) % this.tabs.length];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    void this.pick(next.key);
    this.#button()?.focus();
  }
}
