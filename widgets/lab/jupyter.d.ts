/**
 * What this extension uses of JupyterLab and Notebook 7, as far as it uses it.
 *
 * The packages themselves come from the application at run time; nothing of them is installed to check or test this.
 */

export interface Signal<Sender, Args> {
  connect(slot: (sender: Sender, args: Args) => void): boolean;
  disconnect(slot: (sender: Sender, args: Args) => void): boolean;
}

export interface CommMessage { content: { data: any } }
export interface Comm {
  onMsg: (message: CommMessage) => void;
  onClose: (message: CommMessage) => void;
  readonly isDisposed: boolean;
  commsOverSubshells?: "disabled" | "perCommTarget" | "perComm";
  open(data?: object): unknown;
  send(data: object): unknown;
  close(data?: object): unknown;
  dispose(): void;
}
export interface Kernel {
  readonly id: string;
  readonly name: string;
  readonly isDisposed: boolean;
  readonly status: string;
  readonly connectionStatus: string;
  readonly statusChanged: Signal<Kernel, string>;
  readonly connectionStatusChanged: Signal<Kernel, string>;
  createComm(target: string): Comm;
  hasComm(id: string): boolean;
  requestCommInfo(content: { target_name?: string }): Promise<{ content: { comms?: Record<string, unknown> } }>;
}
export interface SessionContext {
  readonly session: { readonly kernel: Kernel | null } | null;
  readonly kernelChanged: Signal<SessionContext, unknown>;
  readonly isDisposed: boolean;
  startKernel(): Promise<boolean>;
  restartKernel(): Promise<void>;
}

export interface SharedCell {
  readonly cell_type: "code" | "markdown" | "raw";
  execution_count?: number | null; // of code, as setOutputs
  getId(): string;
  getSource(): string;
  setSource(source: string): void;
  setOutputs?(outputs: object[]): void;
  toJSON(): object;
}
export interface SharedNotebook {
  readonly cells: SharedCell[];
  transact(change: () => void, undoable?: boolean): void;
  deleteCellRange(from: number, to: number): void;
  insertCells(index: number, cells: object[]): unknown;
  undo?(): void;
}
export interface NotebookModel {
  readonly sharedModel: SharedNotebook;
  readonly readOnly: boolean;
  readonly defaultKernelLanguage: string;
}

export interface Widget {
  readonly node: HTMLElement;
  readonly isVisible: boolean;
  readonly isDisposed: boolean;
  readonly disposed: Signal<Widget, unknown>;
  readonly parent: Widget | null;
  fit(): void;
  readonly title: { label: string; caption: string; icon: unknown };
  id: string;
  addClass(name: string): void;
  activate(): void;
  dispose(): void;
}
export interface NotebookPanel extends Widget {
  readonly content: Widget & { readonly model: NotebookModel | null; readonly rendermime: RenderMime; activeCellIndex: number; readonly mode: "edit" | "command"; scrollToItem(at: number, align: "smart"): Promise<void> };
  readonly context: { readonly path: string; readonly localPath: string; readonly pathChanged: Signal<unknown, string>; readonly model: { readOnly: boolean } };
  readonly sessionContext: SessionContext;
}
export interface Tracker {
  readonly currentWidget: NotebookPanel | null;
  readonly currentChanged: Signal<Tracker, NotebookPanel | null>;
  readonly widgetAdded: Signal<Tracker, NotebookPanel>;
  find(test: (panel: NotebookPanel) => boolean): NotebookPanel | undefined;
}
export interface ExecutedCell { readonly model: { readonly sharedModel: SharedCell } }
export interface NotebookActions {
  readonly executionScheduled: Signal<unknown, { notebook: unknown; cell: ExecutedCell }>;
  readonly executed: Signal<unknown, { notebook: unknown; cell: ExecutedCell }>;
}

export interface MimeModel { readonly data: Record<string, any>; readonly trusted: boolean }
export interface Renderer extends Widget { renderModel(model: MimeModel): Promise<void> }
export interface RenderMime {
  addFactory(factory: { safe: boolean; mimeTypes: string[]; createRenderer: (options: RendererOptions) => Renderer }, rank: number): void;
  createRenderer(mimeType: string): Renderer;
  readonly mimeTypes: readonly string[];
}
export interface RendererOptions { mimeType: string; resolver: unknown }

export interface Checkpoint { id: string; last_modified: string }
/** A document of which only the path is read. */
export interface FileContext {
  readonly path: string;
  readonly localPath: string;
  readonly pathChanged: Signal<unknown, string>;
  listCheckpoints(): Promise<Checkpoint[]>;
  createCheckpoint(): Promise<Checkpoint>;
}
export interface Themes {
  readonly theme: string | null;
  readonly themeChanged: Signal<unknown, unknown>;
  isLight(name: string): boolean;
}

export interface App {
  readonly docRegistry: { addFileType(type: object): unknown; addModelFactory(factory: object): unknown; addWidgetFactory(factory: object): unknown };
  readonly shell: { add(widget: Widget, area: string, options?: object): void; activateById(id: string): void; collapseRight(): void };
  readonly commands: {
    addCommand(id: string, options: { label: string; caption?: string; execute: (args: any) => unknown }): unknown;
    addKeyBinding(options: { command: string; keys: string[]; selector: string; args?: object }): unknown;
    execute(id: string, args?: object): Promise<unknown>;
    hasCommand(id: string): boolean;
  };
  readonly restored: Promise<void>;
  readonly serviceManager: { readonly sessions: { refreshRunning(): Promise<void> } };
}
export interface Notifications {
  success(text: string, options: NotificationOptions): string;
  error(text: string, options: NotificationOptions): string;
}
export interface NotificationOptions { autoClose: number | false; actions?: { label: string; callback: () => void }[] }
export interface WidgetClass { new (options?: { node?: HTMLElement }): Widget }
export interface PanelClass { new (): Widget & { addWidget(child: Widget): void } }
