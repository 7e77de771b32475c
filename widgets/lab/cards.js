/**
 * The card of a step or of a question and the table of a race, where they outlive their widget: in a saved notebook, after a restart.
 *
 * JupyterLab keeps no widgets without their kernel, so this goes before the widget and shows it as long as it is there.
 * Then the card, or the race, is asked of the store, from the server or from the kernel, and acts only through a kernel.
 * Where the store cannot be reached, what was saved as HTML stands there.
 */

import { mountCard } from "../history/card.js";
import { mountRace } from "../history/race.js";
import { el, fill } from "../shared/dom.js";
import { WIDGET, isAlive, isHere } from "./models.js";

/** @import { Kernel, MimeModel, PanelClass, Renderer } from "./jupyter.js" */
/** @import { Notebooks, OpenNotebook } from "./notebooks.js" */
/** @import { NotebookTransport } from "./transport.js" */
/** @import { Question, Step } from "../history/card.js" */
/** @typedef {{ version: number, store: string, card?: Step, question?: Question, race?: string }} Saved */

export const CARD = "application/vnd.agent-kernel.card.v1+json";
const FORMAT = 1;

/**
 * @param {PanelClass} Panel @param {() => Notebooks} notebooks
 * @param {(mime: string) => Renderer} standard renderers of the application's own
 */
export function savedCard(Panel, notebooks, standard) {
  return class SavedCard extends Panel {
    constructor() {
      super();
      this.addClass("ak-outlives");
      /** @type {MimeModel | null} */
      this.model = null;
      /** @type {"" | "widget" | "store" | "saved"} where what is shown comes from */
      this.from = "";
      /** What ends what is shown. */
      this.stand = () => {};
      /** @type {(() => void)[]} what else to end */
      this.undo = [];
      /** @type {Kernel | null} that was asked for its widgets */
      this.asked = null;
      /** @type {(() => void) | null} */
      this.unlisten = null;
      this.turn = 0;
      this.attached = false;
    }

    /** @param {MimeModel} model */
    async renderModel(model) {
      const isSame = JSON.stringify(this.model?.data[CARD]) === JSON.stringify(model.data[CARD]);
      this.model = model;
      // What was decided changes what is saved; the widget and the store tell it by themselves.
      if (isSame && (this.from === "widget" || this.from === "store")) return;
      if (this.attached) await this.#begin();
    }

    onAfterAttach() {
      this.attached = true;
      if (this.model && !this.from) void this.#begin();
    }

    onBeforeDetach() {
      this.attached = false;
    }

    dispose() {
      if (this.isDisposed) return;
      this.unlisten?.();
      this.#empty();
      super.dispose();
    }

    async #begin() {
      this.#empty();
      const { model } = this;
      if (!model) return;
      /** @type {Saved | undefined} */
      const saved = model.data[CARD];
      const notebook = notebooks().around(this.node) ?? notebooks().withWidget(model);
      if (!notebook || saved?.version !== FORMAT) return this.#face(model);
      this.unlisten ??= notebook.link.listen(() => void this.#look(notebook));
      if (isHere(notebook.link.kernel, model)) return this.#widget(notebook, model);
      this.#face(model);
      this.asked = null;
      await this.#find(notebook, saved);
      if (saved.race && this.from === "saved") await this.#look(notebook);
    }

    /** The kernel came, went or was restarted. @param {OpenNotebook} notebook */
    async #look(notebook) {
      const { model, turn } = this;
      const { kernel } = notebook.link;
      if (!model || !this.attached) return;
      if (this.from === "widget" ? !isHere(kernel, model) : this.from === "saved" && isHere(kernel, model)) return this.#begin();
      // A page that was loaded anew has its widgets once its kernel has told them.
      if (this.from !== "saved" || !kernel || kernel === this.asked || kernel.connectionStatus !== "connected") return;
      this.asked = kernel;
      const hasIt = await isAlive(kernel, model);
      if (hasIt && turn === this.turn && this.from === "saved") this.#widget(notebook, model);
    }

    /** The step, or the race, in its store, as soon as that can be reached. @param {OpenNotebook} notebook @param {Saved} saved */
    async #find(notebook, saved) {
      const { turn } = this;
      const { race = "" } = saved;
      const card = saved.card ?? saved.question;
      const transport = notebook.transportOf({ isSeen: () => this.attached && this.isVisible, only: saved.store });
      this.undo.push(() => transport.dispose());
      notebook.seen();
      await transport.locate();
      const show = async () => {
        if (!transport.place && !transport.hasKernel) return;
        const found = card ? transport.ask("run", { id: card.run }) : transport.ask("race", { id: race });
        const isKnown = await found.then(() => true, () => false);
        if (isKnown && turn === this.turn && this.from === "saved") this.#mount(notebook, transport, saved);
      };
      const stop = transport.onState(() => void (turn === this.turn && this.from === "saved" ? show() : stop()));
      this.undo.push(stop);
      await show();
    }

    /** @param {OpenNotebook} notebook @param {NotebookTransport} transport @param {Saved} saved */
    #mount(notebook, transport, { card, question, race = "" }) {
      this.stand();
      const place = el("div", {});
      this.node.append(place);
      const host = notebook.host();
      const of = card ?? question;
      const { dispose } = of ? mountCard(place, transport, host, of) : mountRace(place, transport, host, race);
      this.stand = dispose;
      this.from = "store";
    }

    /** @param {OpenNotebook} notebook @param {MimeModel} model */
    #widget(notebook, model) {
      this.#delegate(notebook.panel.content.rendermime.createRenderer(WIDGET), model);
      this.from = "widget";
    }

    /** What was saved, as the application shows HTML of this notebook. @param {MimeModel} model */
    #face(model) {
      this.#delegate(standard("text/html"), model);
      this.from = "saved";
    }

    /** @param {Renderer} renderer @param {MimeModel} model */
    #delegate(renderer, model) {
      this.stand();
      this.addWidget(renderer);
      this.stand = () => renderer.dispose();
      void renderer.renderModel(model);
    }

    #empty() {
      for (const undo of this.undo.splice(0).reverse()) undo();
      this.stand();
      this.stand = () => {};
      this.from = "";
      fill(this.node);
      this.turn += 1;
    }
  };
}
