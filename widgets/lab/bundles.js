/**
 * A bundle (`*.agentnb`) as a page: a double click shows it, and nothing of it is loaded.
 *
 * The server verifies the file and makes the page, which comes as text and stands in a frame of its own origin where nothing
 * runs. For the application a bundle is a document whose content is never asked for: it may be of any size.
 */

import { framedPage } from "../history/sandbox.js";
import { errorText, textButton } from "../shared/buttons.js";
import { el, fill } from "../shared/dom.js";

/** @import { App, FileContext, Themes, WidgetClass } from "./jupyter.js" */
/** @import { Rest } from "./rest.js" */

/** @typedef {{ docs: any, ui: any, utils: any, Widget: WidgetClass }} Packages of the application */

const NAME = "agent-kernel-bundle"; // of the file type, of what reads it and of what shows it
const LABEL = "Agent Kernel Bundle";
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
<path class="jp-icon3 jp-icon-selectable" fill="#616161" d="M8 1 14.2 4.3 8 7.6 1.8 4.3zM1.4 5.4l6 3.2V15l-6-3.3zM14.6 5.4l-6 3.2V15l6-3.3z"/></svg>`;

/**
 * @param {Packages} packages
 * @param {{ app: App, rest: Rest, themes: Themes | null, restorer: any }} place
 */
export function addBundles(packages, { app, rest, themes, restorer }) {
  const { docs, ui, utils } = packages;
  const icon = new ui.LabIcon({ name: "agent-kernel:bundle", svgstr: ICON });
  const Content = bundleContent(packages.Widget);
  const files = app.docRegistry;
  files.addFileType({ name: NAME, displayName: LABEL, extensions: [".agentnb"], mimeTypes: ["application/zip"], fileFormat: "base64", contentType: "file", icon });
  files.addModelFactory(new (unreadModel(docs))(false));
  const toolbarFactory = (/** @type {any} */ made) => toolbarOf(packages, made.content, made.context);
  const options = { name: NAME, label: LABEL, modelName: NAME, fileTypes: [NAME], defaultFor: [NAME], readOnly: true, toolbarFactory };
  const factory = new (pageFactory(docs, (context) => new Content(context, rest, themes)))(options);
  const tracker = new utils.WidgetTracker({ namespace: NAME });
  factory.widgetCreated.connect((/** @type {unknown} */ _, /** @type {any} */ made) => {
    made.title.icon = icon;
    made.context.pathChanged.connect(() => void tracker.save(made));
    void tracker.add(made);
  });
  files.addWidgetFactory(factory);
  void restorer?.restore(tracker, {
    command: "docmanager:open",
    args: (/** @type {any} */ made) => ({ path: made.context.path, factory: NAME }),
    name: (/** @type {any} */ made) => made.context.path,
  });
}

/** @param {any} docs @returns {any} */
function unreadModel(docs) {
  return class extends docs.Base64ModelFactory {
    get name() {
      return NAME;
    }

    /** Without a format the application asks for no content. */
    get fileFormat() {
      return null;
    }
  };
}

/** @param {any} docs @param {(context: FileContext) => unknown} contentOf @returns {any} */
function pageFactory(docs, contentOf) {
  return class extends docs.ABCWidgetFactory {
    /** @param {FileContext} context */
    createNewWidget(context) {
      // What is opened and has no checkpoint is copied as one, and to ask for them makes their folder. To look writes nothing.
      context.listCheckpoints = () => Promise.resolve([]);
      context.createCheckpoint = () => Promise.resolve({ id: "", last_modified: "" });
      return new docs.DocumentWidget({ content: contentOf(context), context });
    }
  };
}

/** @param {FileContext} context */
const fileName = (context) => context.localPath.slice(context.localPath.lastIndexOf("/") + 1);

/** What opens a bundle, for a shell. @param {string} name */
export function openCommand(name) {
  const file = name.startsWith("-") ? `./${name}` : name;
  return `agent-kernel open ${/^[\w./@%+=:,-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`}`;
}

/** @param {Packages} packages @param {{ load: () => unknown }} content @param {FileContext} context */
function toolbarOf({ ui, utils, Widget }, content, context) {
  const name = new Widget({ node: el("span", { class: "ak-bundle-name" }) });
  const draw = () => fill(name.node, fileName(context));
  context.pathChanged.connect(draw);
  draw();
  const open = new ui.ToolbarButton({
    label: "Open as notebook…",
    tooltip: "What to type to open this bundle as a notebook",
    onClick: () => void offerCommand(utils, Widget, openCommand(fileName(context))),
  });
  const reload = new ui.ToolbarButton({ icon: ui.refreshIcon, tooltip: "Verify the file again and reload the page", onClick: () => void content.load() });
  return [
    { name: "file", widget: name },
    { name: "spacer", widget: ui.Toolbar.createSpacerItem() },
    { name: "open", widget: open },
    { name: "reload", widget: reload },
  ];
}

/** Opening writes a notebook and a history, so it is for whoever looks to say where. @param {any} utils @param {WidgetClass} Widget @param {string} command */
async function offerCommand(utils, Widget, command) {
  const body = new Widget({
    node: el(
      "div",
      { class: "ak-bundle-open" },
      el("p", {}, "Type this in a terminal, in the folder of the file:"),
      el("pre", { tabindex: "0" }, command),
      el("p", {}, "It makes the notebook, with its history beside it. Values that can run code wait until you trust them."),
    ),
  });
  const buttons = [utils.Dialog.cancelButton({ label: "Close" }), utils.Dialog.okButton({ label: "Copy command" })];
  const { button } = await utils.showDialog({ title: "Open as notebook", body, buttons });
  if (!button.accept) return;
  try {
    await navigator.clipboard.writeText(command);
    utils.Notification.success("The command is copied.", { autoClose: 3000 });
  } catch {
    // A page that is not served over https, or a frame without leave, has no clipboard.
    utils.Notification.error(`This page may not write to the clipboard. The command is ${command}`, { autoClose: false });
  }
}

/** @param {WidgetClass} Widget the application's own class of widgets */
export function bundleContent(Widget) {
  return class BundleContent extends Widget {
    /** @param {FileContext} context @param {Rest} rest @param {Themes | null} themes */
    constructor(context, rest, themes) {
      super();
      this.addClass("ak-bundle");
      this.context = context;
      this.rest = rest;
      this.themes = themes;
      this.loads = 0; // begun so far
      /** @type {HTMLIFrameElement | null} */
      this.frame = null;
      this.themed = () => void this.load();
      themes?.themeChanged.connect(this.themed);
      void this.load();
    }

    /** Have the file verified, and show its page. */
    async load() {
      const load = (this.loads += 1);
      const name = fileName(this.context);
      if (!this.frame) this.#say(el("p", { role: "status" }, `Verifying ${name}…`));
      try {
        const page = await this.rest.bundle(this.context.localPath, this.#theme());
        if (load === this.loads && !this.isDisposed) this.#show(page, name);
      } catch (error) {
        if (load === this.loads && !this.isDisposed) this.#fail(name, error);
      }
    }

    onActivateRequest() {
      if (this.frame) this.frame.focus();
      else this.node.querySelector("button")?.focus();
    }

    dispose() {
      this.themes?.themeChanged.disconnect(this.themed);
      super.dispose();
    }

    /** @returns {"light" | "dark" | undefined} */
    #theme() {
      const { themes } = this;
      if (!themes?.theme) return undefined;
      return themes.isLight(themes.theme) ? "light" : "dark";
    }

    /** @param {string} page @param {string} name */
    #show(page, name) {
      const hadFocus = this.frame !== null && document.activeElement === this.frame;
      this.frame = framedPage(page, `The bundle ${name}`);
      fill(this.node, this.frame);
      if (hadFocus) this.frame.focus();
    }

    /** @param {string} name @param {unknown} error */
    #fail(name, error) {
      this.#say(el("p", { role: "alert" }, `${name} cannot be shown: ${errorText(error)}`), textButton("Try again", () => void this.load()));
    }

    /** @param {...Node} said */
    #say(...said) {
      this.frame = null;
      fill(this.node, el("div", { class: "ak-panel ak-fill" }, el("div", { class: "ak-empty" }, ...said)));
    }
  };
}
