/**
 * The search field. A finished token (`var:df `) becomes a chip, and Backspace at the start takes the last one back to be
 * edited; the list follows while one types.
 */

import { iconButton } from "../shared/buttons.js";
import { el, fill } from "../shared/dom.js";
import { icon } from "../shared/icons.js";
import { finishedTokens, joinQuery, parseQuery } from "../shared/tokens.js";

/** @import { HistoryModel } from "./state.js" */

const PAUSE_MS = 150;

export class SearchField {
  /** @param {HistoryModel} model @param {() => void} leave to the list */
  constructor(model, leave) {
    this.model = model;
    this.leave = leave;
    /** @type {string[]} */
    this.tokens = [];
    this.timer = 0;
    this.input = el("input", {
      type: "text",
      role: "searchbox",
      "aria-label": "Search the history",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "Search  text, var:df, is:error",
    });
    this.chips = el("span", { class: "ak-toks" });
    this.clear = iconButton("close", "Clear search", "Clear (Esc)", () => this.reset(), "ak-small");
    this.clear.hidden = true;
    this.slash = el("span", { class: "ak-k", "aria-hidden": "true" }, "/");
    this.element = el(
      "span",
      { class: "ak-find", onclick: () => this.input.focus() },
      icon("search"),
      this.chips,
      this.input,
      this.slash,
      this.clear,
    );
    this.input.addEventListener("input", () => this.#typed());
    this.input.addEventListener("keydown", (event) => this.#key(event));
    model.on(["query"], () => this.#follow());
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  dispose() {
    clearTimeout(this.timer);
  }

  get #query() {
    return joinQuery(this.tokens, this.input.value);
  }

  #typed() {
    const { tokens, rest } = finishedTokens(this.input.value);
    if (tokens.length) {
      this.tokens.push(...tokens.filter((token) => !this.tokens.includes(token)));
      this.input.value = rest;
    }
    this.#dress();
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.#send(), PAUSE_MS);
  }

  #send() {
    clearTimeout(this.timer);
    if (this.#query !== this.model.query.text) this.model.search({ text: this.#query });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape") {
      if (this.#query) this.reset();
      else this.leave();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      this.#finish();
      if (event.key === "ArrowDown") this.leave();
    } else if (
      event.key === "Backspace" &&
      this.input.selectionStart === 0 &&
      this.input.selectionEnd === 0 &&
      this.tokens.length
    ) {
      this.input.value = joinQuery([this.tokens.pop() ?? ""], this.input.value);
      this.#typed();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #finish() {
    const { tokens, text } = parseQuery(this.input.value);
    this.tokens.push(...tokens.filter((token) => !this.tokens.includes(token)));
    this.input.value = text;
    this.#dress();
    this.#send();
  }

  reset() {
    this.tokens = [];
    this.input.value = "";
    this.#dress();
    this.#send();
    this.input.focus();
  }

  /** The query was changed elsewhere. */
  #follow() {
    if (this.#query === this.model.query.text) return;
    const { tokens, text } = parseQuery(this.model.query.text);
    this.tokens = tokens;
    this.input.value = text;
    this.#dress();
  }

  #dress() {
    const any = this.#query !== "";
    fill(this.chips, ...this.tokens.map((token) => this.#chip(token)));
    this.input.placeholder = this.tokens.length ? "" : "Search  text, var:df, is:error";
    this.clear.hidden = !any;
    this.slash.hidden = any;
  }

  /** @param {string} token */
  #chip(token) {
    const drop = () => {
      this.tokens = this.tokens.filter((other) => other !== token);
      this.#dress();
      this.#send();
      this.input.focus();
    };
    return el(
      "span",
      { class: "ak-tok" },
      token,
      el("button", { type: "button", tabindex: -1, "aria-label": `Remove filter ${token}`, onclick: drop }, "×"),
    );
  }
}
