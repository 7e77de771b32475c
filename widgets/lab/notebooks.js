/**
 * The notebooks that stand open, and what belongs to each: the way to its kernel, its history, its document.
 */

import { cellsOf, restoreCells } from "./cells.js";
import { Following } from "./following.js";
import { KernelLink } from "./link.js";
import { NotebookTransport } from "./transport.js";

/** @import { Host, NotebookPage } from "../history/protocol.js" */
/** @import { App, NotebookPanel, Tracker } from "./jupyter.js" */
/** @import { Rest } from "./rest.js" */

const OURS = /agent_kernel|^[ \t]*%%?agent\b/m; // code that may load the extension
const KERNELSPEC = "agent-kernel";

export class Notebooks {
  /** @param {App} app @param {Tracker} tracker @param {Rest} rest */
  constructor(app, tracker, rest) {
    this.app = app;
    this.tracker = tracker;
    this.rest = rest;
    /** @type {Map<NotebookPanel, OpenNotebook>} */
    this.known = new Map();
  }

  /** @param {NotebookPanel} panel */
  of(panel) {
    let found = this.known.get(panel);
    if (!found) {
      found = new OpenNotebook(this.app, panel, this.rest);
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
  /** @param {App} app @param {NotebookPanel} panel @param {Rest} rest */
  constructor(app, panel, rest) {
    this.app = app;
    this.panel = panel;
    this.rest = rest;
    this.link = new KernelLink(panel.sessionContext, () => app.serviceManager.sessions.refreshRunning());
    this.kernel = this.link.kernel;
    this.mayBeLoaded = false;
    this.sideIsSeen = false;
    this.transport = this.transportOf({ isSeen: () => this.sideIsSeen || panel.isVisible });
    this.following = new Following(this.transport);
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
      restoreCells: (page) => this.#restore(page),
      open: (path) => void this.app.commands.execute("docmanager:open", { path }),
      startKernel: () => void this.#startKernel(),
      storageKey: "agent-kernel-history",
      ...more,
    };
  }

  dispose() {
    this.following.dispose();
    this.transport.dispose();
    this.link.dispose();
  }

  /** @param {NotebookPage} page */
  #restore(page) {
    const model = this.panel.content.model;
    if (!model || model.readOnly || this.panel.context.model.readOnly) return false;
    restoreCells(model.sharedModel, page);
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
