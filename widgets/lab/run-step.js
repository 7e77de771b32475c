/**
 * A step of a run, which knows what nobody could write under its cell: that the kernel ended in the middle of the run.
 *
 * The last one asks the history how the run stands, from the server or from the kernel. Where its process died, the line that
 * a run has which was stopped stands below it, with Resume where the run can go on.
 */

import { FOOTER } from "./footer.js";

/** @import { MimeModel, PanelClass, Renderer, WidgetClass } from "./jupyter.js" */
/** @import { Notebooks, OpenNotebook } from "./notebooks.js" */
/** @import { RunDetails } from "../history/protocol.js" */
/** @import { Line } from "./footer.js" */

export const RUN = "application/vnd.agent-kernel.run.v1+json";
const OVER = new Set(["completed", "cancelled"]); // nothing goes on any more

/**
 * @param {PanelClass} Panel @param {WidgetClass} FooterLine @param {() => Notebooks} notebooks
 * @param {(mime: string) => Renderer} standard renderers of the application's own
 */
export function runStep(Panel, FooterLine, notebooks, standard) {
  return class RunStep extends Panel {
    constructor() {
      super();
      this.addClass("ak-run-step");
      this.run = "";
      /** @type {Renderer | null} */
      this.face = null;
      /** @type {Renderer | null} */
      this.line = null;
      /** @type {(() => void) | null} */
      this.stop = null;
      this.asked = ""; // the state of the kernel and of the history in which it was asked for
    }

    /** @param {MimeModel} model */
    async renderModel(model) {
      this.run = model.data[RUN]?.run ?? "";
      this.node.dataset["run"] = this.run;
      if (!this.face) {
        this.face = standard("text/html");
        this.addWidget(this.face);
      }
      await this.face.renderModel(model);
    }

    onAfterAttach() {
      const notebook = notebooks().around(this.node);
      if (!notebook) return;
      notebook.seen();
      this.stop ??= notebook.following.listen(() => void this.#look(notebook));
    }

    onBeforeDetach() {
      this.stop?.();
      this.stop = null;
      this.asked = "";
    }

    dispose() {
      if (this.isDisposed) return;
      this.stop?.();
      this.#show(null);
      super.dispose();
    }

    /** Whether no step of this run stands below. @param {OpenNotebook} notebook */
    #isLast({ panel }) {
      const all = /** @type {HTMLElement[]} */ ([...panel.node.querySelectorAll(".ak-run-step")]);
      return all.filter((one) => one.dataset["run"] === this.run).at(-1) === this.node;
    }

    /** @param {OpenNotebook} notebook */
    async #look(notebook) {
      const { transport, following } = notebook;
      const isLast = this.#isLast(notebook);
      if (!isLast) this.node.classList.add("ak-ended"); // whatever it says: the run is further on
      if (!isLast) return this.#show(null);
      const asked = `${transport.state().version} ${transport.canAct()} ${following.isBusy}`;
      if (asked === this.asked || !this.run) return;
      this.asked = asked;
      try {
        const run = await transport.ask("run", { id: this.run });
        if (this.isDisposed || asked !== this.asked) return;
        this.node.classList.toggle("ak-ended", run.status !== "running");
        this.#show(run.stopped?.died ? run : null);
        if (OVER.has(run.status)) this.onBeforeDetach();
      } catch {
        this.asked = ""; // what stands there is all that is known
      }
    }

    /** @param {RunDetails | null} run */
    #show(run) {
      if ((run === null) === (this.line === null)) return;
      this.line?.dispose();
      this.line = null;
      if (!run) return;
      this.line = /** @type {Renderer} */ (/** @type {unknown} */ (new FooterLine()));
      this.addWidget(this.line);
      void this.line.renderModel(/** @type {MimeModel} */ (/** @type {unknown} */ ({ data: { [FOOTER]: lineOf(run) } })));
    }
  };
}

/** What the kernel would have written under the cell. @param {RunDetails} run @returns {Line} */
function lineOf({ id, tip, author, chips, more, took_s, steps, tokens, cost, grew, stopped }) {
  const { said = "", code = "", done = 0, at = 0 } = stopped ?? {};
  const ended = { id, said, bad: false, done: false, steps: steps.length, tokens, cost, stopped: { code, done, at } };
  return { commit: tip, short: tip.slice(0, 8), branch: null, author, chips, more, unsaved: "", took_s, undo: false, grew, run: ended };
}
