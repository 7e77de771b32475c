/** A page without a browser, for the tests of the parts that make elements. */

import { after } from "node:test";

import { houses } from "./fixture/houses.js";
import { FixtureTransport, fixtureNow } from "./fixture/transport.js";

/** @import { Host } from "../history/protocol.js" */

const happy = await import("happy-dom").catch(() => null);

/** Why these tests cannot run here; false when they can. */
export const withoutPage = happy ? false : "happy-dom is not installed: npm install in widgets/";

if (happy) {
  const window = new happy.Window({ url: "http://localhost/", width: 1000, height: 800 });
  const names = [
    "document",
    "window",
    "Node",
    "Element",
    "HTMLElement",
    "HTMLInputElement",
    "HTMLIFrameElement",
    "Event",
    "KeyboardEvent",
    "MouseEvent",
    "DOMParser",
    "getSelection",
    "getComputedStyle",
    "localStorage",
  ];
  for (const name of names) {
    const value = name === "window" ? window : /** @type {any} */ (window)[name];
    Object.defineProperty(globalThis, name, {
      value: typeof value === "function" && name.startsWith("get") ? value.bind(window) : value,
      configurable: true,
      writable: true,
    });
  }
}

/** @type {{ dispose: () => void, focus: () => void } | null} */
let shown = null;
/** @type {FixtureTransport | null} */
let asked = null;
after(() => shown?.dispose());

const turn = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Wait a while, and until the store has answered everything, on however slow a machine. */
export async function soon(ms = 0) {
  await turn(ms);
  for (let quiet = 0; quiet < 3; quiet += 1) {
    await turn(1);
    if (asked?.pending) quiet = -1;
  }
}

/**
 * A mounted panel over a store in memory.
 *
 * @param {{ store?: ConstructorParameters<typeof FixtureTransport>[0], host?: Host, wait?: boolean }} [how]
 */
export async function mounted(how = {}) {
  const { mountHistory } = await import("../history/panel.js");
  const root = document.createElement("div");
  shown?.dispose();
  document.body.replaceChildren(root);
  const store = new FixtureTransport({ history: houses(), ...how.store });
  const panel = mountHistory(root, store, { now: fixtureNow, ...how.host });
  shown = panel;
  asked = store;
  if (how.wait ?? true) await soon(20);
  return new Mounted(root, store, panel);
}

export class Mounted {
  /** @param {HTMLElement} root @param {FixtureTransport} store @param {{ dispose: () => void, focus: () => void }} panel */
  constructor(root, store, panel) {
    this.root = root;
    this.store = store;
    this.panel = panel;
  }

  /** @param {string} selector @returns {HTMLElement} */
  $(selector) {
    const found = this.root.querySelector(selector);
    if (!(found instanceof HTMLElement)) throw new Error(`nothing is ${selector}`);
    return found;
  }

  /** @param {string} selector @returns {HTMLElement[]} */
  all(selector) {
    return /** @type {HTMLElement[]} */ ([...this.root.querySelectorAll(selector)]);
  }

  get list() {
    return this.$(".ak-list");
  }

  get text() {
    return this.root.textContent ?? "";
  }

  /** @param {string} text in it */
  row(text) {
    const row = this.all(".ak-row").find((one) => one.textContent?.includes(text));
    if (!row) throw new Error(`no row has ${text}`);
    return row;
  }

  get activeRow() {
    return this.root.querySelector(`#${this.list.getAttribute("aria-activedescendant")}`)?.textContent ?? "";
  }

  /** Walk down to the row. @param {string} text in it */
  async to(text) {
    await this.press("Home");
    for (let before = ""; !this.activeRow.includes(text); ) {
      if (this.activeRow === before) throw new Error(`no row has ${text}`);
      before = this.activeRow;
      await this.press("ArrowDown");
    }
  }

  /** @param {...string} keys pressed where the focus is, in the list otherwise */
  async press(...keys) {
    for (const key of keys) {
      const focused = document.activeElement;
      const target = focused && focused !== document.body && this.root.contains(focused) ? focused : this.list;
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
      this.last = event;
      target.dispatchEvent(event);
      await soon(10);
    }
  }

  /** @param {HTMLElement} element */
  async click(element) {
    element.click();
    await soon(20);
  }

  /** @param {string} label the words on it, or its name */
  button(label) {
    const button = this.all("button, [role=menuitem], [role=option]").find(
      (one) => one.textContent?.trim().startsWith(label) || one.getAttribute("aria-label") === label,
    );
    if (!button) throw new Error(`no button says ${label}`);
    return button;
  }

  /** @param {string} op what was asked of the store, newest last */
  asked(op) {
    return this.store.calls.filter(([name]) => name === op).map(([, args]) => args);
  }
}
