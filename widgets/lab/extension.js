/**
 * The extension of JupyterLab and Notebook 7: a side panel, saved panels that live again, the line under a cell, bundles to
 * look at, and the notebook's page told to the kernel. Where the server's extension is absent all of it goes through the kernel.
 */

import { addBundles } from "./bundles.js";
import { CARD, savedCard } from "./cards.js";
import { FOOTER, footerLine } from "./footer.js";
import { COMMAND, Notebooks } from "./notebooks.js";
import { PageTeller } from "./page.js";
import { Rest } from "./rest.js";
import { RUN, runStep } from "./run-step.js";
import { HISTORY, savedPanel } from "./saved.js";
import { ID, sidePanel } from "./side.js";

/** @import { App, ExecutedCell, NotebookActions, RenderMime, Themes, Tracker } from "./jupyter.js" */
/** @import { ShowSide } from "./footer.js" */
/** @import { OpenNotebook } from "./notebooks.js" */

const COMMAND_MODE = ".jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus";
const RANK = 900; // among the side panels
const BEFORE_WIDGETS = -20; // which have -10
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
<g class="jp-icon3" stroke="#616161" fill="none" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">
<circle class="jp-icon3" stroke="#616161" cx="4.5" cy="3.5" r="1.75"/><circle class="jp-icon3" stroke="#616161" cx="4.5" cy="12.5" r="1.75"/>
<circle class="jp-icon3" stroke="#616161" cx="11.5" cy="5" r="1.75"/><path class="jp-icon3" stroke="#616161" d="M4.5 5.25v5.5M11.5 6.75c0 2.5-3.5 2.25-6 3.5"/></g></svg>`;

/**
 * What the application loads.
 *
 * @param {(name: string) => Promise<any>} shared packages of the application @param {string} style the address of the style sheet
 */
export async function plugins(shared, style) {
  const names = ["@jupyterlab/notebook", "@jupyterlab/services", "@jupyterlab/coreutils", "@jupyterlab/rendermime", "@jupyterlab/ui-components", "@jupyterlab/apputils", "@lumino/widgets", "@jupyterlab/docregistry", "@jupyterlab/application"];
  const [notebook, services, core, rendermime, ui, utils, lumino, docs, application] = await Promise.all(names.map(shared));
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: style }));
  const settings = services.ServerConnection.makeSettings();
  const rest = new Rest((path) =>
    services.ServerConnection.makeRequest(core.URLExt.join(settings.baseUrl, path), { cache: "no-cache" }, settings),
  );
  const icon = new ui.LabIcon({ name: "agent-kernel:history", svgstr: ICON });
  const { Panel, Widget } = lumino;
  return [
    {
      id: "@agent-kernel/lab:history",
      description: "The history of a notebook's variables.",
      autoStart: true,
      requires: [notebook.INotebookTracker, rendermime.IRenderMimeRegistry],
      optional: [utils.ICommandPalette],
      /** @param {App} app @param {Tracker} tracker @param {RenderMime} registry @param {any} palette */
      activate(app, tracker, registry, palette) {
        const notebooks = new Notebooks(app, tracker, rest, utils.Notification);
        const side = addSide(app, tracker, notebooks, new (sidePanel(Widget))(), icon);
        palette?.addItem({ command: COMMAND, category: "Notebook Operations" });
        addRenderers(registry, { Panel, Widget }, notebooks, side);
        tellPages(notebook.NotebookActions, notebooks);
        // Panels in a widget of their own ask for the document that they stand in.
        Object.assign(globalThis, { agentKernelHost: (/** @type {Element} */ at) => notebooks.around(at)?.host() ?? null });
      },
    },
    {
      id: "@agent-kernel/lab:bundles",
      description: "Bundles as pages, without loading anything of them.",
      autoStart: true,
      requires: [],
      optional: [utils.IThemeManager, application.ILayoutRestorer],
      /** @param {App} app @param {Themes | null} themes @param {any} restorer */
      activate(app, themes, restorer) {
        addBundles({ docs, ui, utils, Widget }, { app, rest, themes, restorer });
      },
    },
  ];
}

/**
 * @param {App} app @param {Tracker} tracker @param {Notebooks} notebooks @param {InstanceType<ReturnType<typeof sidePanel>>} side @param {unknown} icon
 */
function addSide(app, tracker, notebooks, side, icon) {
  Object.assign(side.title, { caption: "History", icon });
  app.shell.add(side, "right", { rank: RANK, type: "History" });
  side.leave = () => {
    app.shell.collapseRight();
    side.current?.panel.content.activate();
  };
  const follow = () => side.follow(tracker.currentWidget ? notebooks.of(tracker.currentWidget) : null);
  tracker.currentChanged.connect(follow);
  void app.restored.then(follow);
  app.commands.addCommand(COMMAND, {
    label: "Show History",
    caption: "Show the history of this notebook's variables",
    execute: () => app.shell.activateById(ID),
  });
  // Beside a cell that has the focus, not in one: Ctrl+Alt is AltGr on Windows, and letters are somebody's text.
  app.commands.addKeyBinding({ command: COMMAND, keys: ["Shift H"], selector: COMMAND_MODE });
  return (/** @type {OpenNotebook} */ notebook, /** @type {string | null} */ commit) => {
    app.shell.activateById(ID);
    if (commit) side.open(notebook, { commit });
  };
}

/** @param {RenderMime} registry @param {{ Panel: any, Widget: any }} lumino @param {Notebooks} notebooks @param {ShowSide} showSide */
function addRenderers(registry, { Panel, Widget }, notebooks, showSide) {
  const Saved = savedPanel(Panel, () => notebooks, (mime) => registry.createRenderer(mime));
  const Card = savedCard(Panel, () => notebooks, (mime) => registry.createRenderer(mime));
  const Line = footerLine(Widget, () => notebooks, showSide);
  registry.addFactory({ safe: true, mimeTypes: [HISTORY], createRenderer: () => new Saved() }, BEFORE_WIDGETS);
  registry.addFactory({ safe: true, mimeTypes: [CARD], createRenderer: () => new Card() }, BEFORE_WIDGETS);
  const Step = runStep(Panel, Line, () => notebooks, (mime) => registry.createRenderer(mime));
  registry.addFactory({ safe: true, mimeTypes: [RUN], createRenderer: () => new Step() }, BEFORE_WIDGETS);
  registry.addFactory({ safe: true, mimeTypes: [FOOTER], createRenderer: () => new Line() }, BEFORE_WIDGETS);
}

/** @param {NotebookActions} actions @param {Notebooks} notebooks */
function tellPages(actions, notebooks) {
  const teller = new PageTeller();
  actions.executionScheduled.connect((_, { notebook }) => {
    const found = notebooks.with(notebook);
    if (found) teller.tell(found);
  });
  actions.executed.connect((_, /** @type {{ notebook: unknown, cell: ExecutedCell }} */ { notebook, cell }) => {
    notebooks.with(notebook)?.ran(cell.model.sharedModel.getSource());
  });
}
