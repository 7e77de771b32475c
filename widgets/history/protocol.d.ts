/**
 * What the history panel asks, and what it is answered: the same over a comm of the kernel and over REST.
 *
 * A request is `{id, op, args}`, an answer `{id, ok}` or `{id, error}`. Every text is plain text: nothing here is markup.
 * Sizes are bytes, durations seconds, times milliseconds since 1970 (UTC). `agent_kernel.queries` answers all of Reads
 * from a repository alone, without loading a value; Acts need the kernel that is bound to the notebook.
 */

export type Sign = "+" | "~" | "-" | "!" | "=";

/** Which rows are listed. `tz_s`: the reader's distance from UTC, for the days. `unfolded`: ids of folds that stand open. */
export interface Query { text: string; show: "all" | "named" | "errors"; tz_s: number; unfolded: string[] }

export interface Reads {
  /** Everything the panel shows at first, under 50 kB. */
  open(args: Query & { n: number }): Opening;
  /** Rows from..from+n of the list. `version` tells whether an older page still belongs to the same list. */
  rows(args: Query & { from: number; n: number }): Page;
  /** Where a commit stands in the list (null: it is filtered out). A commit in a fold gives the row of the fold. */
  locate(args: Query & { id: string }): { row: number | null };
  /** One commit against its first parent, or against another one ("": nothing, all is new). `id` and `against` take any revision. */
  commit(args: { id: string; against?: string }): Details;
  variable(args: { id: string; against?: string; name: string }): VariableDiff;
  /** The cell's code against its last run, or against `against`. */
  code(args: { id: string; against?: string }): CodeDiff;
  outputs(args: { id: string }): OutputView[];
  environment(args: { id: string; against?: string }): EnvironmentDiff;
  /** `a` is the left side. */
  compare(args: { a: string; b: string }): Comparison;
  /** What an action would do. Nothing is changed. */
  plan(args: { op: "checkout" | "rollback" | "merge" | "cherry_pick"; to: string }): Plan;
  /** The notebook's page that was stored with a commit; null: none was. */
  cells(args: { id: string }): NotebookDocument | null;
  /** Without those that nobody named: of candidates, of steps that were tried on a fork. */
  branches(args: {}): Branch[];
  /** One run of an agent, by its full id. */
  run(args: { id: string }): RunDetails;
  /** A race by its full id, as it stands for the session. */
  race(args: { id: string }): RaceStatus;
}

/** Acts are done by the kernel between cells. While one runs they wait: `{queued}`; a later one takes the place of the first. */
export interface Acts {
  /** `document`: where the cells are to come back, as Host.document says; an act that has to wait leaves them in State.cells. */
  checkout(args: { to: string; what: "both" | "variables"; document?: string }): Done | Queued;
  rollback(args: { to: string; what: "both" | "variables"; document?: string }): Done | Queued;
  /** The cells that State.cells tells of, for the first who claims them. */
  claim(args: { turn: string }): NotebookDocument | null;
  switch(args: { branch: string }): Done | Queued;
  /** `head`: the commit that the asker sees as HEAD; `of`: the operation that is meant. Where it is another one by then, nothing is undone. */
  undo(args: { head?: string; of?: string }): Done | Queued;
  redo(args: { head?: string; of?: string }): Done | Queued;
  merge(args: Merge): Done | Queued | Conflicts;
  /** Does here what one commit did, `branch` being that commit. */
  cherry_pick(args: Merge): Done | Queued | Conflicts;
  /** Says of the step that waits whether it runs; the run goes on until it is done or waits again. Answered as soon as it goes on, and State tells the rest. */
  decide(args: { run: string; step: number; decision: "approve" | "edit" | "deny"; code?: string; reason?: string }): Done | Queued;
  /** Answers the question of a run, if it is still this one where its number is given, or has one that was stopped go on. */
  resume(args: { run: string; answer: string; question?: number }): Done | Queued;
  /** Merges the branch of a candidate into the current one. */
  pick(args: { race: string; number: number }): Done | Queued;
  /** Deletes the branches of all candidates; what was picked stays. */
  discard(args: { race: string }): Done | Queued;
  commit_now(args: { message: string }): Done | Queued;
  branch(args: { name: string; at: string; go: boolean }): Done | Queued;
  tag(args: { name: string; at: string }): Done;
  /** Drops what is queued. */
  cancel(args: {}): Done;
  verify(args: {}): Done | Queued;
  /** Writes `<notebook>@<short id>.ipynb` beside the notebook, for front ends whose document cannot be reached. */
  write_notebook(args: { id: string }): Done;
}

/** Sent without being asked: whenever one of these changed. */
export interface Event { event: "state"; state: State }

export interface State {
  version: string;                                   // changes when a ref, a commit or a HEAD does
  busy: string | null;                               // the prompt of the running cell, "[22]"
  queued: { op: string; label: string; id: string } | null; // label: as Head.label, "[7]", "“Merge ridge into main”" or a branch's name; the view makes the sentence
  failed: { text: string; code: Failure["error"]["code"] } | null; // what a queued act that could not be done says (a whole sentence), until the next act
  done: Done | null;                                 // what a queued act did
  cells?: { turn: string; id: string; document: string } | null; // cells of commit `id` that a queued act was to bring back in `document` ("": anywhere), until somebody claims them or the next cell begins
  undo?: { of?: string; text: string; cell: boolean; to: string | null; after?: string | null } | null; // what undo would take back now, "[12] df = …", "the checkout of main"; `of`: which operation that is; `to`: the commit before it; `after`: the commit that it made, of a run its newest one; null: it was a move; null: nothing; missing: not known
  kernel: boolean;                                   // acts are possible
  store?: string;                                    // which store this is about, as saved panels name it (static.store_id); "" where gone
  gone: string | null;                               // why this panel can be asked nothing more (a sentence: the notebook was bound elsewhere, the extension unloaded); what is shown stays
}

/** `partial`: also where a value cannot be loaded. */
export interface Merge { branch: string; ours: string[]; theirs: string[]; message?: string; partial?: boolean }
export interface Opening { title: string; head: Head; state: State; page: Page; unsaved_names: number /* variables there are before the first commit */; undone?: string[] /* the runs that were taken back */ }
export interface Head { branch: string | null; id: string | null; prompt: string; label: string; lane: number | null }

export interface Page { version: string; from: number; total: number /* rows */; commits: number /* in all */; matches: number; rows: Row[] }
export type Row = DayRow | FoldRow | WaitRow | CommitRow;
export interface DayRow { kind: "day"; day: string /* 2026-11-21 */; graph: Graph; text?: string /* "kernel restarted": the line between two kernels */ }
/** Neighbours that changed nothing, repeated runs of one cell, or the steps of an agent's run: then `subject` is its task. Open, its commits follow as rows of depth 1. */
export interface FoldRow { kind: "fold"; id: string; why: "nothing" | "repeated" | "run"; n: number; matching: number; prompt: string; subject: string; unfolded: boolean; took_s: number; time_ms: number; graph: Graph; run: RunFacts | null }
/** An agent's run as a whole. `tip`: its newest commit; `part`: which of its rows this is, where others' commits lie between its own, the oldest first. `cost`: US dollars, null: not known. `chips`, `more`, `counts`, `grew`: as of a commit, of all its steps together. */
export interface RunFacts { id: string; short: string; author: CommitRow["author"]; status: "running" | "pending" | "clarify" | "interrupted" | "cancelled" | "completed" | "failed" | "undone" | "decided"; part: "" | "first" | "middle" | "last"; steps: number; tokens: number; cost: number | null; tip: string; refs: Ref[]; chips: [Sign, string, number][]; more: number; counts: Partial<Record<Sign, number>>; stopped: Stopped | null; grew?: Record<string, string> }
/** A run that stopped before it was done, and can go on. `said`: where; `code`: a line that it was at; `done`: steps that ran to their end; `refused`: why it cannot go on here, "": it can; `at`: its last event's number; `cell`: the line that lets it go on, where only a cell can; `checked`: the kernel has looked, so that `refused` and `cell` are known; `died`: its process ended in the middle of it. */
export interface Stopped { said: string; code: string; done: number; refused: string; at: number; cell: string; checked: boolean; died?: boolean }
/** A step that does not run before a person says so, an agent's question, or a run that stopped before its first commit. `depth`: 0 where its run has no row; then `subject` is its task. */
export interface WaitRow { kind: "wait"; id: string; run: string; depth: 0 | 1; prompt: string; subject: string; is_code: boolean; author: CommitRow["author"]; waits_for: "approval" | "answer" | "resume"; time_ms: number; graph: Graph; stopped: Stopped | null }
export interface CommitRow {
  kind: "commit"; id: string; short: string; depth: 0 | 1 | 2 /* a step of a sub-agent */;
  prompt: string;                                    // "[7]" or ""
  subject: string; is_code: boolean;                 // a leading comment or message: prose; else the first line that is no import
  author: { name: string; kind: "person" | "agent"; me: boolean };
  node: "cell" | "agent" | "merge" | "failed" | "interrupted";
  run: string;                                       // the agent's run that it is a step of; "": of none
  why: string;                                       // "ValueError: Input X contains NaN", "interrupted", ""
  refs: Ref[];
  chips: [Sign, string, number][];                   // largest first, four at most
  more: number;                                      // changed names beyond the chips
  counts: Partial<Record<Sign, number>>;
  took_s: number | null; time_ms: number; graph: Graph;
  grew?: Record<string, string>;                     // how much longer or wider a name among the chips became: "−17 rows"
  called?: string;                                   // "step 2 of analyst [7]": the step of an agent; "" for other commits
}
export interface Ref { kind: "branch" | "tag" | "head" | "aside" /* a branch that nobody named: `name` says what it is, `branch` is how it can be named */; name: string; head: boolean; lane: number | null; branch?: string }
/** One row's piece of the graph. `node`: the lane of the commit. A line goes from a lane at the top edge to one at the bottom edge; null: it ends at, or begins at, the node. Colours are branches. Lanes beyond the sixth are drawn as one. */
export interface Graph { node: number | null; colour: number; lines: [number | null, number | null, number, 0 | 1 /* dashed: the neighbours are filtered out */][] }

/** One run of an agent. `tip`: its newest commit, "" where it made none; `asks`, `question`: what it waits for; `result`: what it gave back, in a line; `n_steps`: also those that are not listed. */
export interface RunDetails {
  id: string; short: string; prompt: string; author: CommitRow["author"]; task: string; model: string;
  status: RunFacts["status"]; reason: string; result: string; steps: RunStep[]; n_steps: number; tokens: number; cost: number | null; took_s: number; time_ms: number;
  tip: string; refs: Ref[]; asks: Asks | null; question: string;
  questions: RunQuestion[];                          // the last one is what it waits for, where it does
  base: string;                                      // the commit before its first one; "": that is the first of all
  changed: string[];                                 // the names that its steps changed together
  chips: [Sign, string, number][]; more: number;     // as of a commit
  grew: Record<string, string>;                      // how much longer or wider a name became: "−17 rows"
  stopped: Stopped | null;
}
/** What a run asked a person in words, counted from 1. */
export interface RunQuestion { number: number; text: string; asked_ms: number; answered: boolean; answer: string; answered_by: string }
/** `id`: the commit that it became; "": none. `decided`: approve, edit or deny; "": nobody was asked. */
export interface RunStep { id: string; prompt: string; subject: string; is_code: boolean; node: CommitRow["node"] | "denied" | "running"; why: string; took_s: number | null; decided: string; decided_by: string; reason: string /* of a denial */ }
/** A step that waits for approval. `tried`: what it did where it was tried on a fork first, each with a word, the sign of a change or "", what, and a remark; `keeps`: approving takes that on, and the code does not run again; `note`: whole sentences. */
export interface Asks {
  step: number; code: ["" | "keyword" | "string" | "number" | "comment", string][]; source: string; branch: string | null; after: string; asked_ms: number;
  report: ReportRow[]; tried: [string, string, string, string][]; keeps: boolean; note: string;
}
/** No items: nothing of the kind was found. */
export interface ReportRow { word: string; items: string[]; risky: boolean; note: string }
/** A race side by side. A cell is lines of parts, each with its text and manner: strong, muted, bad, good, code, +, ~, -. */
export interface RaceStatus {
  id: string; short: string; task: string; start: string; counts: string; over: boolean; discarded: boolean; notes: string[];
  picked: number | null;                             // from which the variables here go on; null also where that was undone
  deletes: string;                                   // what is gone for good with the branches, in a sentence
  candidates: RaceCandidate[]; rows: RaceRow[];
}
export interface RaceCandidate { number: number; title: string; best: boolean; done: boolean; tip: string }
export interface RaceRow { label: string; cells: [string, string][][][] }
export interface Details {
  id: string; short: string; prompt: string; subject: string; is_code: boolean; message: string; source: string;
  author: CommitRow["author"]; time_ms: number; took_s: number | null; status: string; error: string; labels: string[];
  parents: string[]; refs: Ref[]; against: { id: string; label: string } | null;
  changes: Change[]; more_changes: number /* beyond the 500 largest */; unsaved: { name: string; type: string; reason: string; remedy: string }[];
  code: { added: number; removed: number } | null; outputs: number; environment: "same" | "changed" | "none"; cells: boolean; cwd: string;
  called?: string;                                   // as in CommitRow
}
/** Old and new in a line each; equal where only what it shares changed ("="). `opens`: `variable` has more to show. */
export interface Change { name: string; how: Sign; type: string; old: string; new: string; old_size: number | null; new_size: number | null; opens: boolean }

export interface VariableDiff { name: string; how: Sign; note: string; lines: string[]; face: Face | null }
export type Face =
  | { kind: "table"; columns: { name: string; of: string; how: Sign | "" }[]; rows: { label: string; how: Sign | ""; cells: Cell[] }[] }
  | { kind: "array"; rows: { label: string; spread: number[] /* 0..1 */; stats: [string, string, boolean /* changed */][] }[] }
  | { kind: "text"; lines: DiffLine[] }
  | { kind: "pairs"; columns: [string, string]; rows: { label: string; old: string | null; new: string | null; changed: boolean }[] }
  | { kind: "pictures"; before: string | null; after: string | null /* data: URIs */ };
export interface Cell { old: string | null; new: string | null; how: Sign | "" }

export interface DiffLine { how: "+" | "-" | " " | "…"; old: number | null; new: number | null; words: [string, boolean /* changed */][] }
export interface CodeDiff { about: string /* "Cell [7] against its last run, [6]" */; lines: DiffLine[] }
/** `html` and `svg` are untrusted: shown in a frame without scripts only. Left out for its size: `size` alone. */
export interface OutputView { kind: "text" | "error" | "image" | "html" | "svg" | "json" | "gap"; text: string; uri: string; size: number; note: string }
export interface EnvironmentDiff { about: string; facts: [string, string][]; packages: number; installed: [string, string][]; changed: { how: Sign; name: string; old: string; new: string }[] }
export interface Comparison {
  a: Side; b: Side; base: Side | null; changes: Change[]; more_changes: number; same: number; same_names: string[];
  code: { prompt: string; lines: DiffLine[]; about: string }[]; environment: EnvironmentDiff | null;
}
export interface Side { id: string; short: string; prompt: string; label: string; refs: Ref[] }
export interface Plan {
  op: string; to: Side; changes: string[]; adds: string[]; removes: string[];
  cannot: { name: string; type: string; reason: string; remedy: string; stays: boolean }[];
  loads: number; notes: string[]; conflicts: Conflict[];
}
/** `together`: the other names that a choice for this one is for too, because they share objects or a class. */
/** `ours_changed`, `theirs_changed`: what either side did since both were the same; in a plan. */
export interface Conflict { name: string; ours: string; theirs: string; together: string[]; ours_changed?: string; theirs_changed?: string }
export interface NotebookDocument { name: string; saved_ms: number; at: number | null /* which cell it was that made the commit */; cells: { id: string; type: "code" | "markdown" | "raw"; source: string }[] }
export interface Branch { name: string; id: string; lane: number | null; here: boolean; note: string /* "merged into main", "2 commits of its own" */; holder: string }

export interface Done { op?: string /* of one that was queued */; done: string /* "Checked out [7]: 3 names changed, 1 removed." */; notes: string[]; undo: boolean; of?: string /* what undo would take back next, or redo do again after an undo */; head: Head; cells: NotebookDocument | null }
export interface Queued { queued: { op: string; label: string; id: string } }
export interface Conflicts { conflicts: Conflict[]; branch: string }
export interface Failure { error: { code: "not_found" | "ambiguous" | "refused" | "damaged" | "too_large" | "gone" | "failed"; message: string } }

/** How the view reaches a store: over a comm of the kernel, or over REST. A failure rejects with an `Error` that has the `code` and `message` of Failure. */
export interface Transport {
  ask<Op extends keyof Reads>(op: Op, args: Parameters<Reads[Op]>[0]): Promise<ReturnType<Reads[Op]>>;
  act<Op extends keyof Acts>(op: Op, args: Parameters<Acts[Op]>[0]): Promise<ReturnType<Acts[Op]>>;
  /** Calls back with every state that comes; returns how to stop. */
  onState(fn: (state: State) => void): () => void;
  canAct(): boolean;
}
export interface DocumentCell { id: string; type: "code" | "markdown" | "raw"; source: string; prompt?: string /* "[7]" */ }
/** What only the place that the view stands in can do. Every member may be missing. */
export interface Host {
  cells?(): DocumentCell[] | null;                   // the open document's; null: there is none
  restoreCells?(page: NotebookDocument, of?: string | null): boolean; // one undoable step, with the operation `of` (null: with none); false: the document cannot be reached
  undoCells?(of?: string): "none" | "done" | "stay"; // takes back what came with that operation; "stay": it was written in since
  redoCells?(of?: string): boolean;                  // brings it again
  say?(done: { text: string; next: string; head?: string | null; of?: string }): void; // what was done to the document, where it is seen whatever became of this view
  document?(): string;                               // which document that is; "": not known
  open?(path: string): void;
  startKernel?(): void;
  runCell?(source: string): boolean;                 // puts a line into a new cell below and runs it; false: it cannot
  leave?(): void;                                    // closes what the view stands in: a side panel
  storageKey?: string;                               // remembers the list's height
  compact?: boolean;                                 // fills the height that it is given (a side panel)
  start?: { race: string } | { card: { run: string; step: number } } | { text: string } | { compare: { a: string; b: string; name?: string } } | { commit: string } | { conflicts: Merge & { picks?: boolean } }; // what is open at first: %agent diff, %agent show, %agent merge
  now?(): number;                                    // milliseconds; tests stop the clock
}
