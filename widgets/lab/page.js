/**
 * Tell the kernel what the whole notebook looks like, just before a cell runs: a commit then holds the page as the person
 * saw it, saved or not. The kernel itself sees only the code that it is given.
 */

/** @import { Comm, Kernel } from "./jupyter.js" */
/** @import { OpenNotebook } from "./notebooks.js" */

const TARGET = "agent_kernel.notebook";

export class PageTeller {
  constructor() {
    /** @type {WeakMap<Kernel, { comm: Comm, told: string }>} */
    this.lines = new WeakMap();
    /** @type {WeakSet<Kernel>} those that did not know what this is about */
    this.deaf = new WeakSet();
  }

  /** @param {OpenNotebook} notebook */
  tell(notebook) {
    const { kernel } = notebook.link;
    const { content, context } = notebook.panel;
    if (!kernel || kernel.isDisposed || !notebook.isLoaded || !content.model) return;
    if (this.deaf.has(kernel) && notebook.link.standing !== "open") return;
    const cells = content.model.sharedModel.cells.map((cell) => ({ id: cell.getId(), type: cell.cell_type, source: cell.getSource() }));
    const name = context.localPath.slice(context.localPath.lastIndexOf("/") + 1);
    const page = { name, language: content.model.defaultKernelLanguage, cells };
    const line = this.#line(kernel);
    const told = JSON.stringify(page);
    if (told === line.told) return;
    line.told = told;
    line.comm.send(page);
  }

  /** @param {Kernel} kernel */
  #line(kernel) {
    const known = this.lines.get(kernel);
    if (known && !known.comm.isDisposed && !this.deaf.has(kernel)) return known;
    this.deaf.delete(kernel);
    const comm = kernel.createComm(TARGET);
    // On the main thread, before the cell that follows: a subshell might hear of it after the cell has begun.
    comm.commsOverSubshells = "disabled";
    comm.onClose = () => void this.deaf.add(kernel);
    comm.open({});
    const line = { comm, told: "" };
    this.lines.set(kernel, line);
    return line;
  }
}
