/**
 * The notebooks that stand open, and what belongs to each: the way to its kernel, its history, its document.
 */

import { CELLS_STAY, CELLS_TOO } from "../history/cells.js";
import { pinned } from "../history/pin.js";
import { errorText } from "../shared/buttons.js";
import { cellsOf, restoreCells } from "./cells.js";
import { Following } from "./following.js";
import { KernelLink } from "./link.js";
import { isHere } from "./models.js";
import { NotebookTransport } from "./transport.js";

/** @import { DocumentCell, Done, Host, NotebookDocument } from "../history/protocol.js" */
/** @import { Pin } from "../history/pin.js" */
/** @import { App, MimeModel, NotebookPanel, Notifications, SharedNotebook, Tracker } from "./jupyter.js" */
/** @import { Rest } from "./rest.js" */

export const COMMAND = "agent-kernel:show-history";

const SAID_MS = 20_000; // after which it stands among the application's notifications, with its buttons
const OURS = /agent_kernel|^[ \t]*%%?agent\b/m; // code that may load the extension
const KERNELSPEC = "agent-kernel";

/** @param {DocumentCell[]} cells */
const written = (cells) => JSON.stringify(cells.map(({ id, type, source }) => [id, type, source]));

/** @param {SharedNotebook} notebook */
const textOf = (notebook) => written(cellsOf(notebook));

export class Notebooks {
  /** @param {App} app @param {Tracker} tracker @param {Rest} rest @param {Notifications} notifications */
  constructor(app, tracker, rest, notifications) {
    this.app = app;
    this.tracker = tracker;
    this.rest = rest;
    this.notifications = notifications;
    /** @type {Map<NotebookPanel, OpenNotebook>} */
    this.known = new Map();
  }

  /** @param {NotebookPanel} panel */
  of(panel) {
    let found = this.known.get(panel);
    if (!found) {
      found = new OpenNotebook(this.app, panel, this.rest, this.notifications);
      this.known.set(panel, found);
      panel.disposed.connect(() => this.#close(panel));
    }
    return found;
  }

  /** The notebook whose document holds an element. @param {Element} element */
  around(element) {
    const panel = this.tracker.find((one) => one.node.contains(element));
    return panel ? this.of(panel) : null;
  }

  /** The notebook whose kernel has the widget that an output is: it may stand in a view of its own. @param {MimeModel} model */
  withWidget(model) {
    const panel = this.tracker.find((one) => isHere(one.sessionContext.session?.kernel ?? null, model));
    return panel ? this.of(panel) : null;
  }

  /** The notebook of a document's widget. @param {unknown} content */
  with(content) {
    const panel = this.tracker.find((one) => one.content === content);
    return panel ? this.of(panel) : null;
  }

  /** @param {NotebookPanel} panel */
  #close(panel) {
    this.known.get(panel)?.dispose();
    this.known.delete(panel);
  }
}

export class OpenNotebook {
  /** @param {App} app @param {NotebookPanel} panel @param {Rest} rest @param {Notifications} notifications */
  constructor(app, panel, rest, notifications) {
    this.app = app;
    this.panel = panel;
    this.rest = rest;
    this.notifications = notifications;
    this.link = new KernelLink(panel.sessionContext, () => app.serviceManager.sessions.refreshRunning());
    this.kernel = this.link.kernel;
    this.mayBeLoaded = false;
    this.sideIsSeen = false;
    /** @type {{ of: string | null | undefined, page: NotebookDocument, before: DocumentCell[], after: string, isUndone: boolean, isSaid: boolean } | null} the cells that came back last */
    this.brought = null;
    this.transport = this.transportOf({ isSeen: () => this.sideIsSeen || panel.isVisible });
    this.following = new Following(this.transport, (done) => this.#follow(done));
    this.link.listen(() => this.#kernelMoved());
    panel.context.pathChanged.connect(() => void this.transport.locate());
  }

  /** Whether the kernel has probably loaded agent_kernel. */
  get isLoaded() {
    const { kernel, standing } = this.link;
    return standing !== "unknown" && (standing === "open" || this.mayBeLoaded || kernel?.name === KERNELSPEC);
  }

  /** Something shows that agent_kernel is, or was, at work here. */
  seen() {
    this.mayBeLoaded = true;
    this.link.open();
  }

  /** A cell ran. @param {string} source */
  ran(source) {
    if (!OURS.test(source)) return;
    this.mayBeLoaded = true;
    if (this.link.wanted) this.link.open(true);
  }

  /** @param {{ isSeen: () => boolean, only?: string }} options */
  transportOf(options) {
    return new NotebookTransport({ rest: this.rest, link: this.link, path: () => this.panel.context.localPath, ...options });
  }

  /** What the document can do for a panel. @param {Partial<Host>} [more] @returns {Host} */
  host(more = {}) {
    return {
      cells: () => {
        const model = this.panel.content.model;
        return model ? cellsOf(model.sharedModel) : null;
      },
      document: () => this.panel.context.path,
      restoreCells: (page, of) => this.#restore(page, of),
      undoCells: (of) => this.#undoCells(of),
      redoCells: (of) => this.#redoCells(of),
      say: (done) => this.#say(done),
      open: (path) => void this.app.commands.execute("docmanager:open", { path }),
      startKernel: () => void this.#startKernel(),
      runCell: (source) => this.#runCell(source),
      storageKey: "agent-kernel-history",
      ...more,
    };
  }

  dispose() {
    this.following.dispose();
    this.transport.dispose();
    this.link.dispose();
  }

  /** The document's cells, where they may be changed. */
  #cells() {
    const model = this.panel.content.model;
    return !model || model.readOnly || this.panel.context.model.readOnly ? null : model.sharedModel;
  }

  /** @param {NotebookDocument} page @param {string | null} [of] the operation that it comes with */
  #restore(page, of) {
    const notebook = this.#cells();
    if (!notebook) return false;
    const before = cellsOf(notebook);
    restoreCells(notebook, page);
    this.brought = of === null ? null : { of, page, before, after: textOf(notebook), isUndone: false, isSaid: false };
    this.#show(page.at);
    return true;
  }

  /** Take back the cells that came with an operation, with what they showed. @param {string} [of] @returns {"none" | "done" | "stay"} */
  #undoCells(of) {
    const { brought } = this;
    if (!brought || brought.isUndone || brought.of !== of) return "none";
    const notebook = this.#cells();
    brought.isSaid = true;
    if (!notebook || textOf(notebook) !== brought.after) return "stay"; // or what was written since would be lost
    const before = written(brought.before);
    notebook.undo?.(); // the document's own: outputs come back with it
    if (textOf(notebook) !== before) restoreCells(notebook, { ...brought.page, cells: brought.before });
    brought.isUndone = true;
    return "done";
  }

  /** @param {string} [of] */
  #redoCells(of) {
    const { brought } = this;
    const notebook = this.#cells();
    if (!notebook || !brought?.isUndone || brought.of !== of || textOf(notebook) !== written(brought.before)) return false;
    return this.#restore(brought.page, of);
  }

  /** Where cells went away the notebook may stand scrolled past its end. @param {number | null} at the cell to be seen */
  #show(at) {
    const { content } = this.panel;
    // Cells may come back while somebody types in another one, and the active cell takes the keyboard.
    if (content.mode === "edit" && content.node.contains(document.activeElement)) return;
    if (at !== null) content.activeCellIndex = at;
    void content.scrollToItem(content.activeCellIndex, "smart").catch(() => {}); // rejects when it is asked for another one
  }

  /** @param {{ text: string, next: string, head?: string | null, of?: string }} done */
  #say({ text, next, head, of }) {
    const undo = next === "undo" ? [{ label: "Undo", callback: () => void this.#undo({ head, of }) }] : [];
    const history = { label: "History", callback: () => void this.app.commands.execute(COMMAND) };
    this.notifications.success(text, { autoClose: SAID_MS, actions: [...undo, history] });
  }

  /** @param {Pin} pin as it was when this was offered */
  async #undo(pin) {
    this.seen();
    try {
      const answer = await this.transport.act("undo", pinned(pin));
      const cells = "done" in answer ? this.#undoCells(answer.of) : "none";
      const ours = cells === "done" ? CELLS_TOO : CELLS_STAY;
      const said = "done" in answer ? [answer.done, ...answer.notes, ours] : ["The undo waits until the running cell ends."];
      this.notifications.success(said.join(" "), { autoClose: SAID_MS });
    } catch (error) {
      this.notifications.error(`Undo failed: ${errorText(error)}`, { autoClose: false });
    }
  }

  /** A cell has undone what brought cells, or done it again, and no panel has taken care of these. @param {Done} done */
  #follow({ op, done, of }) {
    if (op === "redo" && this.#redoCells(of)) return;
    const did = op === "undo" && !this.brought?.isSaid ? this.#undoCells(of) : "none";
    if (did !== "none") this.notifications.success(`${done} ${did === "done" ? CELLS_TOO : CELLS_STAY}`, { autoClose: SAID_MS });
  }

  /** Below the active cell, as what is seen there belongs together. @param {string} source */
  #runCell(source) {
    const notebook = this.#cells();
    const { content } = this.panel;
    if (!notebook) return false;
    const at = content.activeCellIndex + 1;
    notebook.insertCells(at, [{ cell_type: "code", source, metadata: {} }]);
    this.#show(at);
    content.activeCellIndex = at;
    void this.app.commands.execute("notebook:run-cell");
    return true;
  }

  async #startKernel() {
    const { sessionContext } = this.panel;
    if (sessionContext.session?.kernel) return sessionContext.restartKernel();
    const mustAsk = await sessionContext.startKernel();
    if (mustAsk) await this.app.commands.execute("notebook:change-kernel");
  }

  /** A kernel that is new, or was restarted, has loaded nothing yet. */
  #kernelMoved() {
    const { kernel, standing } = this.link;
    if (kernel !== this.kernel || (standing === "none" && kernel?.status.includes("restarting"))) this.mayBeLoaded = false;
    if (standing === "unknown") this.mayBeLoaded = false;
    this.kernel = kernel;
  }
}
