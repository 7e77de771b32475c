/**
 * A history panel that stands in a saved notebook: live again where its store can be reached, else the page that was saved.
 *
 * JupyterLab keeps no widgets without their kernel, so this goes before the widget: the same view over REST, which acts
 * through the kernel where there is one. Only where the store that the panel was saved with is not the notebook's (or not to
 * be had by the server), the widget is shown if its kernel still has it, else what was saved as HTML.
 */

import { mountHistory } from "../history/panel.js";
import { el, fill } from "../shared/dom.js";
import { WIDGET, isAlive } from "./models.js";

/** @import { Host } from "../history/protocol.js" */
/** @import { MimeModel, PanelClass, Renderer } from "./jupyter.js" */
/** @import { Notebooks, OpenNotebook } from "./notebooks.js" */
/** @import { NotebookTransport } from "./transport.js" */

export const HISTORY = "application/vnd.agent-kernel.history.v1+json";
const PATIENCE_MS = 2_000; // for which a kernel may think about which widgets it has
const FORMAT = 1;

/**
 * @param {PanelClass} Panel @param {() => Notebooks} notebooks
 * @param {(mime: string) => Renderer} standard renderers of the application's own
 */
export function savedPanel(Panel, notebooks, standard) {
  return class SavedPanel extends Panel {
    constructor() {
      super();
      this.addClass("ak-saved");
      /** @type {MimeModel | null} */
      this.model = null;
      /** @type {(() => void)[]} */
      this.undo = [];
      this.turn = 0;
      this.attached = false;
      /** @type {OpenNotebook | null} */
      this.notebook = null;
    }

    /** @param {MimeModel} model */
    async renderModel(model) {
      this.model = model;
      if (this.attached) await this.#begin();
    }

    onAfterAttach() {
      this.attached = true;
      if (this.model && !this.undo.length) void this.#begin();
    }

    onBeforeDetach() {
      this.attached = false;
    }

    dispose() {
      if (this.isDisposed) return;
      this.#clear();
      super.dispose();
    }

    async #begin() {
      const turn = this.#clear();
      const { model } = this;
      const data = model?.data[HISTORY];
      this.notebook = notebooks().around(this.node);
      if (!model) return;
      if (!this.notebook || data?.version !== FORMAT || typeof data.store !== "string") return this.#preview(model);
      const isSeen = () => this.attached && this.isVisible;
      const transport = this.notebook.transportOf({ isSeen, only: data.store });
      this.undo.push(() => transport.dispose());
      this.notebook.seen();
      await transport.locate();
      if (turn !== this.turn) return;
      if (transport.place || transport.hasKernel) return this.#mount(transport, data.start);
      const late = new Promise((resolve) => setTimeout(() => resolve(false), PATIENCE_MS));
      const hasWidget = await Promise.race([isAlive(this.notebook.link.kernel, model), late]);
      if (turn !== this.turn) return;
      if (hasWidget) return this.#delegate(this.notebook.panel.content.rendermime.createRenderer(WIDGET), model);
      this.#preview(model);
      const stop = transport.onState(() => {
        if (!transport.place && !transport.hasKernel) return;
        stop();
        this.#empty();
        this.#mount(transport, data.start);
      });
      this.undo.push(stop);
    }

    /** @param {NotebookTransport} transport @param {Host["start"]} start */
    #mount(transport, start) {
      if (!this.notebook) return;
      const place = el("div", {});
      this.node.append(place);
      const { dispose } = mountHistory(place, transport, this.notebook.host(start && Object.keys(start).length ? { start } : {}));
      this.undo.push(dispose);
    }

    /** What was saved, as the application shows HTML of this notebook. @param {MimeModel} model */
    #preview(model) {
      this.#delegate(standard("text/html"), model);
    }

    /** @param {Renderer} renderer @param {MimeModel} model */
    #delegate(renderer, model) {
      this.addWidget(renderer);
      this.undo.push(() => renderer.dispose());
      void renderer.renderModel(model);
    }

    #clear() {
      this.#empty();
      this.turn += 1;
      return this.turn;
    }

    #empty() {
      for (const undo of this.undo.splice(0).reverse()) undo();
      fill(this.node);
    }
  };
}
