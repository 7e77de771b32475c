/**
 * The side panel: the history of the notebook that is looked at.
 *
 * Each notebook keeps its view while it is open, so that a search or an opened commit is still there when one comes back.
 */

import { COPIED } from "../history/empty.js";
import { mountHistory } from "../history/panel.js";
import { el, fill } from "../shared/dom.js";
import { asSentence } from "../shared/format.js";
import { icon } from "../shared/icons.js";

/** @import { Host } from "../history/protocol.js" */
/** @import { WidgetClass } from "./jupyter.js" */
/** @import { OpenNotebook } from "./notebooks.js" */

export const ID = "agent-kernel-history";

const LEAST_PX = 300;
const LINE_PX = 1; // that Notebook 7 draws beside the panel, within its place, once the theme is there

/**
 * @param {WidgetClass} Widget the application's own class of widgets
 */
export function sidePanel(Widget) {
  return class SidePanel extends Widget {
    constructor() {
      super();
      this.id = ID;
      this.addClass("ak-lab-side");
      this.node.style.minWidth = `${LEAST_PX}px`; // the application measures before the style sheet is there
      /** @type {Map<OpenNotebook, SideView>} */
      this.views = new Map();
      /** @type {OpenNotebook | null} */
      this.current = null;
      /** @type {() => void} */
      this.leave = () => {};
      this.none = note("No notebook is open", "Open one to see the history of its variables.");
      this.node.append(this.none);
    }

    /** @param {OpenNotebook | null} notebook */
    follow(notebook) {
      this.current = notebook;
      for (const view of this.views.values()) view.element.hidden = view.notebook !== notebook;
      this.none.hidden = notebook !== null;
      if (notebook && this.isVisible) this.#view(notebook);
      this.#seen();
    }

    /** Open something in the view of the notebook. @param {OpenNotebook} notebook @param {Host["start"]} [start] */
    open(notebook, start) {
      this.follow(notebook);
      this.#view(notebook).mount(start);
    }

    /** Somebody asked for the panel: the keyboard goes with them. */
    onActivateRequest() {
      this.follow(this.current);
      if (this.current) this.#view(this.current).focus();
    }

    onAfterShow() {
      this.follow(this.current);
    }

    onAfterAttach() {
      this.#makeRoom();
      this.follow(this.current);
    }

    onAfterHide() {
      this.#seen();
    }

    /** In Notebook 7 what stands around the panels does not ask them how wide they are, and cuts off what is wider than itself. */
    #makeRoom() {
      const place = /** @type {HTMLElement | null} */ (this.node.closest("#jp-right-stack"));
      if (!place || place === this.node.parentElement) return;
      place.style.minWidth = `${LEAST_PX + LINE_PX}px`;
      for (let around = this.parent; around; around = around.parent) around.fit();
    }

    /** @param {OpenNotebook} notebook */
    #view(notebook) {
      let view = this.views.get(notebook);
      if (!view) {
        view = new SideView(notebook, () => this.leave());
        this.views.set(notebook, view);
        this.node.append(view.element);
        notebook.panel.disposed.connect(() => {
          view?.dispose();
          this.views.delete(notebook);
        });
      }
      return view;
    }

    #seen() {
      for (const notebook of this.views.keys()) notebook.sideIsSeen = this.isVisible && notebook === this.current;
    }
  };
}

class SideView {
  /** @param {OpenNotebook} notebook @param {() => void} leave */
  constructor(notebook, leave) {
    this.notebook = notebook;
    this.leave = leave;
    this.wantsFocus = false;
    this.element = el("div", { class: "ak-lab-view" });
    /** @type {{ dispose: () => void, focus: () => void } | null} */
    this.mounted = null;
    this.store = ""; // that is shown
    this.stop = notebook.transport.onState(() => this.#arrange());
    void notebook.transport.locate().then(() => this.#begin());
  }

  /** @param {Host["start"]} [start] what is open at first */
  mount(start) {
    this.mounted?.dispose();
    fill(this.element);
    this.store = this.notebook.transport.shown;
    const host = this.notebook.host({ compact: true, leave: this.leave, storageKey: "agent-kernel-side", ...(start ? { start } : {}) });
    this.mounted = mountHistory(this.element, this.notebook.transport, host);
    if (this.wantsFocus) this.focus();
  }

  /** Once there is something to have it. */
  focus() {
    this.wantsFocus = this.mounted === null;
    this.mounted?.focus();
  }

  dispose() {
    this.stop();
    this.mounted?.dispose();
    this.element.remove();
  }

  #begin() {
    if (this.notebook.transport.store || this.notebook.isLoaded) this.notebook.link.open();
    this.#arrange();
  }

  /** Show the history once there is one to show, and until then why not. */
  #arrange() {
    const { transport } = this.notebook;
    if (transport.store === undefined || (this.mounted && transport.shown === this.store)) return;
    if (transport.place || transport.hasKernel) this.mount();
    else if (!this.mounted) fill(this.element, whyNot(this.notebook));
  }
}

/** @param {OpenNotebook} notebook */
function whyNot({ link, transport }) {
  const { failure } = transport;
  if (link.standing === "open") return note("No history yet", `Run a cell. Every cell from here on becomes a commit of the variables it changed. ${COPIED}`);
  if (failure?.code === "absent") return note("No history here", `${failure.message} A kernel that has loaded agent_kernel shows it as well.`);
  if (failure) return note("No history here", asSentence(failure.message).trim());
  return note("No history yet", `%load_ext agent_kernel in a cell begins one: every cell from there on becomes a commit of the variables it changed. ${COPIED}`);
}

/** @param {string} title @param {string} text */
function note(title, text) {
  return el("div", { class: "ak-panel ak-fill" }, el("div", { class: "ak-empty" }, icon("branch"), el("h4", {}, title), el("p", {}, text)));
}
