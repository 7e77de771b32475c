/** The history panel as a widget in a cell's output: what anywidget mounts. */

import { CommTransport } from "./comm.js";
import { mountCard } from "./card.js";
import { keepNoCode } from "./kept.js";
import { mountHistory } from "./panel.js";
import { mountRace } from "./race.js";

/** @import { CommModel } from "./comm.js" */
/** @import { Host } from "./protocol.js" */

/**
 * What only the notebook around the panel can do. The lab extension knows the document that an element stands in; other
 * front ends have none of this.
 *
 * @param {Element} element
 * @returns {Host | null}
 */
function documentAround(element) {
  const find = /** @type {any} */ (globalThis).agentKernelHost;
  return typeof find === "function" ? find(element) : null;
}

/** @param {{ model: CommModel, el: HTMLElement }} context */
function render({ model, el }) {
  const transport = new CommTransport(model);
  /** @type {Host | null} */
  let known = null;
  // Asked each time: the element is put into the document only after this, and its cell may be one that a checkout takes away.
  const around = () => (known = documentAround(el) ?? known);
  /** @type {Host} */
  const host = {
    cells: () => around()?.cells?.() ?? null,
    document: () => around()?.document?.() ?? "",
    restoreCells: (page, of) => around()?.restoreCells?.(page, of) ?? false,
    undoCells: (of) => around()?.undoCells?.(of) ?? "none",
    redoCells: (of) => around()?.redoCells?.(of) ?? false,
    say: (done) => around()?.say?.(done),
    storageKey: "agent-kernel-history",
  };
  const start = model.get("start");
  if (Object.keys(start).length) host.start = start;
  const view = "race" in start ? mountRace(el, transport, host, start.race) : "card" in start || "question" in start ? mountCard(el, transport, host, start.card ?? start.question) : mountHistory(el, transport, host);
  return () => {
    view.dispose();
    transport.dispose();
  };
}

/** @param {{ model: CommModel }} context */
function initialize({ model }) {
  return keepNoCode(model);
}

export default { initialize, render };
