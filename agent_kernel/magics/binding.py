"""What a shell is bound to now: the store, if any, what it keeps of a cell's outputs, and the lines that the extension prints by itself.

Binding may wait: a kernel that was started with the extension does not know its notebook yet (VS Code tells it in a
hidden cell), and what it prints then reaches nobody. It binds as its first cell begins.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import re
import secrets
import sys
import time
import types
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast
from weakref import WeakKeyDictionary

import msgspec

from agent_kernel.commands.places import (
    default_store,
    find_redirect,
    find_store,
    is_store,
    notebook_of,
    remember,
    what_is_new,
)
from agent_kernel.errors import AgentKernelError, StoreFullError, StoreUnavailableError
from agent_kernel.repository import OF_KERNEL, Author, check_ref_name, short
from agent_kernel.session import Report, Repository, Session
from agent_kernel.session import bind as bind_session
from agent_kernel.session.dependencies import Syntax
from agent_kernel.session.trust import look_first
from agent_kernel.storage import open_store
from agent_kernel.text import clean, clock, plural, shorten_url, size_text
from agent_kernel.values.introspection import derives_from, exact_str, is_of_notebook, module_dict

if TYPE_CHECKING:
    from agent_kernel.commands.describe import Result
    from agent_kernel.errors import MergeConflictError
    from agent_kernel.magics.outputs import Collector
    from agent_kernel.magics.shell import Shell
    from agent_kernel.repository import Outputs, Unsaved
    from agent_kernel.repository.objects import Output
    from agent_kernel.session.provenance import NotebookSnapshot
    from agent_kernel.session.tracking import Living
    from agent_kernel.storage import Durability

logger = logging.getLogger(__name__)


# -- which outputs belong to which cell, and its commit: what was heard of it is handed over when the cell has ended


class Tap(Protocol):
    """Tells a collector what is shown."""

    def install(self) -> None: ...
    def remove(self) -> None: ...
    def begin(self, number: int | None) -> None:
        """What is shown from now on belongs to a cell."""
        ...

    def end(self) -> None:
        """The cell has ended, and all that it showed was heard."""
        ...

    def settle(self) -> None:
        """Hear what was printed and is still on its way."""
        ...

    def mute(self, muted: bool) -> None:
        """Do not listen to the streams for a while."""
        ...


class OutputRecorder:
    """Keeps what cells show until their commits take it. Never raises: no cell is lost for its outputs."""

    def __init__(self, shell: Shell, is_on: Callable[[], bool]) -> None:
        self._shell = shell
        self._is_on = is_on
        self._listening: tuple[Tap, Collector] | None = None  # from the first cell on
        self._running = False
        self._outer: list[list[Outputs] | None] = []
        self._before: list[Outputs] = []  # what the cell showed before the steps of agents in it

    def begin(self, number: int | None) -> None:
        """A cell that will be a commit begins."""
        if not self._is_on():
            self.close()
            return
        self.end()  # of a cell whose end nobody told
        try:
            tap, _ = self._listening = self._listening or self._listen()
            tap.begin(number)
            self._running = True
        except Exception:
            logger.exception("the outputs of a cell are not kept")

    def end(self) -> Outputs | None:
        """It has ended: all that it showed."""
        if not self._running or self._listening is None:
            return None
        self._running = False
        tap, collector = self._listening
        before, self._before = self._before, []
        try:
            tap.end()
            return join_outputs([*before, collector.take()])
        except Exception:
            logger.exception("the outputs of a cell are not kept")
            return None

    def begin_step(self) -> None:
        """A step of an agent begins, in a cell or not. Its outputs are its own."""
        around, before = self._running, self._before
        self._before = []
        before_step = self.end() if around else None
        self.begin(None)
        self._outer.append((before if before_step is None else [*before, before_step]) if around else None)

    def end_step(self) -> Outputs | None:
        """It has ended: all that it showed. What is shown from now on is the cell's around it again."""
        outputs = self.end()
        before = self._outer.pop()
        if before is not None:
            self.begin(None)
            self._before = before
        return outputs

    @contextmanager
    def unrecorded(self) -> Generator[None]:
        """What is printed here is the extension's own, and no output of a cell."""
        if self._listening is None:
            yield
            return
        tap, _ = self._listening
        tap.settle()
        tap.mute(True)
        try:
            yield
        finally:
            tap.settle()
            tap.mute(False)

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening[0].remove()
            self._listening, self._running = None, False

    def _listen(self) -> tuple[Tap, Collector]:
        from agent_kernel.magics.outputs import Collector

        collector = Collector()
        session = getattr(getattr(self._shell, "kernel", None), "session", None)
        tap: Tap
        if session is None:
            from agent_kernel.magics.outputs import TerminalTap

            tap = TerminalTap(collector, self._shell)
        else:
            from agent_kernel.magics.outputs import KernelTap

            tap = KernelTap(collector, self._shell, session)
        tap.install()
        return tap, collector


def join_outputs(pieces: Sequence[Outputs | None]) -> Outputs | None:
    """What a cell showed between the steps of agents, as one; what comes behind the room of a cell is counted."""
    found = [piece for piece in pieces if piece is not None]
    if len(found) < 2:
        return found[0] if found else None
    from agent_kernel.magics.outputs import ROOM

    joined: list[Output] = []
    used = dropped = dropped_bytes = 0
    for output in (output for piece in found for output in piece.outputs):
        size = len(output.text) + sum(face.size for face in output.representations if face.form != "bytes")
        if used + size > ROOM:
            dropped, dropped_bytes = dropped + 1, dropped_bytes + size
            continue
        used += size
        joined.append(output)
    return msgspec.structs.replace(
        found[0],
        outputs=tuple(joined),
        dropped_outputs=dropped + sum(piece.dropped_outputs for piece in found),
        dropped_bytes=dropped_bytes + sum(piece.dropped_bytes for piece in found),
    )


# -- the lines that the extension prints by itself: few, one line each, and each thing once

_MARK = "[agent]"
_AT_ONCE = 3  # lines of unsaved variables that one cell may tell


class Notices:
    """Prints notices beside the output of a cell."""

    def __init__(
        self, is_quiet: Callable[[], bool], unrecorded: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._is_quiet = is_quiet
        self._unrecorded = unrecorded
        self._reported: set[tuple[str, str, str]] = set()

    def say(self, *lines: str) -> None:
        if lines:
            with self._unrecorded():
                for line in lines:
                    print(f"{_MARK} {clean(line)}")

    def warn(self, line: str) -> None:
        with self._unrecorded():
            print(f"{_MARK} {clean(line)}", file=sys.stderr)

    def report(
        self,
        report: Report,
        show_commit: Callable[[Report, Sequence[Unsaved]], bool] = lambda _report, _news: False,
        repo: Repository | None = None,
    ) -> None:
        """Tell what a cell's commit could not save, and, unless quiet, what it holds.

        Args:
            repo: that has what was committed.
            show_commit: may say beside the cell what the commit holds, and the news; whether it did.
        """
        news = [one for one in report.unsaved if (one.name, one.type, one.reason) not in self._reported]
        self.mark_reported(news)
        if show_commit(report, news):
            news = []
        elif not self._is_quiet() and report.commit is not None:
            from agent_kernel.commands.describe import chip_line, records_line

            chips = chip_line((change.how, change.name, 0) for change in report.changed)
            records = records_line(report.records, report.more_records)
            changed = ", ".join(filter(None, (chips, records))) or "no change"
            self.say(f"{short(report.commit)} {changed}, {size_text(report.written_bytes)}")
        remaining = 0
        if news:
            from agent_kernel.commands.describe import holders_among, unsaved_groups, unsaved_line
            from agent_kernel.session.history import unsaved_names

            groups = unsaved_groups(news)
            tree = None if report.record is None else report.record.tree
            holders = frozenset[str]() if repo is None else holders_among(repo, tree, news)
            self.say(*(unsaved_line(*alike, holders=holders) for alike in groups[:_AT_ONCE]))
            remaining = len(unsaved_names(one for alike in groups[_AT_ONCE:] for one in alike))
        self.say(*report.notes)
        if remaining:
            named = (
                "is not saved; %agent status names it" if remaining == 1 else "are not saved; %agent status names them"
            )
            self.say(f"{plural(remaining, 'more variable')} {named}")

    def mark_reported(self, unsaved: Iterable[Unsaved]) -> None:
        """Somebody told of these: no cell tells of them again."""
        self._reported |= {(one.name, one.type, one.reason) for one in unsaved}


# -- the panels of a notebook, and the line under a cell
#
# No interface imports another. The extension is handed what makes them (`agent_kernel.load_ipython_extension` joins the two)
# and tells it what happens; where there is nothing of the kind, in a terminal for one, `NoPanels` is told instead.


class CellPanels(Protocol):
    """What shows a notebook's history and runs beside its cells. Called on the main thread; the calls about cells raise nothing, so that no cell is lost."""

    def load(self) -> None:
        """The extension was loaded."""
        ...

    def unload(self) -> None:
        """It goes: leave nothing registered."""
        ...

    def cell_begins(self, prompt: str) -> None:
        """A cell of the notebook begins; `prompt` is "[22]", and empty for a hidden one."""
        ...

    def cell_ends(self) -> None:
        """It has ended, and its commit is made."""
        ...

    def show_commit(self, report: Report, news: Sequence[Unsaved]) -> bool:
        """The commit of the cell that is ending. Return whether a line under the cell tells of it.

        Args:
            news: what of it could not be saved, and was not told before.
        """
        ...

    def show_move(self) -> str:
        """A verb was used, and may have moved something. Return what to say of that beside its answer, if anything."""
        ...

    def leave_store(self) -> None:
        """The notebook lets go of its store, which is closed next."""
        ...

    def asks(self, run: str) -> bool:
        """Show that an agent's run waits for a person: a step of it, or a question. Return False where only lines can be shown."""
        ...

    def show_end(self, run: str) -> bool:
        """Show how an agent's run ended, or that it was stopped. Return False where only lines can be shown."""
        ...

    def offers(self, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        """Show a question with a button for each answer, which then is called between cells. Return False where only lines can be shown."""
        ...

    def chooses(self, conflict: MergeConflictError) -> bool:
        """Show what both sides of a merge changed, to be chosen from. Return False where only lines can be shown."""
        ...

    def show_decision(self, run: str) -> None:
        """What was asked may have been decided: what shows it says so."""
        ...

    def show(self, result: Result) -> bool:
        """Show a verb's answer as a panel. Return False where the front end cannot, or the answer has none.

        Raises:
            AgentKernelError: the history cannot be read.
        """
        ...


class NoPanels:
    """For a shell without panels, such as a terminal."""

    def load(self) -> None: ...
    def unload(self) -> None: ...
    def cell_begins(self, prompt: str) -> None: ...
    def cell_ends(self) -> None: ...
    def show_move(self) -> str:
        return ""

    def leave_store(self) -> None: ...
    def asks(self, run: str) -> bool:
        return False

    def show_end(self, run: str) -> bool:
        return False

    def offers(self, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        return False

    def chooses(self, conflict: MergeConflictError) -> bool:
        return False

    def show_decision(self, run: str) -> None: ...
    def show_commit(self, report: Report, news: Sequence[Unsaved]) -> bool:
        return False

    def show(self, result: Result) -> bool:
        return False


# By shell and store, what the last session there knew of the objects in memory: they outlive it, and so does the shell.
_KNOWN: WeakKeyDictionary[Shell, dict[str, Living]] = WeakKeyDictionary()


class Options(Protocol):
    """What the user configured (`c.AgentKernel.…`)."""

    store: str
    commits: str
    quiet: bool
    footer: bool
    author: str
    outputs: str
    on_restart: str
    model: str
    durability: Durability


class Binding:
    """Binds the shell's namespace to a store, to another one, or to none."""

    def __init__(self, shell: Shell, options: Options) -> None:
        self._shell = shell
        self._options = options
        self._outputs = OutputRecorder(shell, lambda: options.outputs == "keep")
        self._notices = Notices(lambda: options.quiet, self._outputs.unrecorded)
        self._is_bind_tried = False
        self._unsaid: tuple[str, ...] = ()
        self._default_stores = DefaultStores(shell, options, self.path)
        self.panels: CellPanels = NoPanels()
        self._page: NotebookSnapshot | None = None
        self._spared = ModulesSpared()
        self.session: Session | None = None
        self.repo: Repository | None = None

    def set_document(self, document: NotebookSnapshot) -> None:
        """Take the document as the front end has it now."""
        self._page = document
        if self.session is not None:
            self.session.tell_page(document)

    def path(self) -> Path | None:
        """The notebook's file, if it is one."""
        return notebook_of(os.environ, self.namespace)

    @property
    def namespace(self) -> dict[str, object]:
        return self._shell.user_ns

    def names(self) -> list[str]:
        """The user's variables."""
        return [name for name in list(self.namespace) if not self._skip(name)]

    def mark_reported(self, unsaved: Iterable[Unsaved]) -> None:
        """A verb told of these variables that are not saved or not loaded: no cell tells of them again."""
        self._notices.mark_reported(unsaved)

    def bind_first(self) -> None:
        """Bind to the configured or the default place, once, and say so in a line; say in a line what is in the way."""
        unsaid, self._unsaid = self._unsaid, ()
        self._notices.say(*unsaid)
        if self._is_bind_tried:
            return
        self._is_bind_tried = True
        try:
            self._notices.say(*self._bind_default())
        except StoreFullError as error:
            way = "free some space, then run %agent bind (%agent bind PLACE puts the store elsewhere)"
            self._notices.warn(f"cells are not committed: no room left for {error.url}; {way}")
        except (AgentKernelError, OSError) as error:
            self._notices.warn(f"cells are not committed: {error}; %agent bind PLACE puts the store elsewhere")

    def bind_ahead(self) -> None:
        """Bind before the first cell, if there is a history already and cells will be commits; that cell says so.

        A front end wants to go on with the history. Without a history, or if something is in the way, nothing happens.
        """
        if self._is_bind_tried or self._options.commits == "off" or not self._default_stores.are_known():
            return
        try:
            store_place, _ = self._default_stores.choose(adopts=False)
            if is_store(Path(store_place.removeprefix("lmdb://"))):
                self._unsaid = self._bind_default()
                self._is_bind_tried = True
        except (AgentKernelError, OSError) as error:  # the first cell meets it too, and says it where it is seen
            logger.debug("not bound ahead of the first cell: %s", error)

    def bind(self, place: str | None, *, source: str | None = None, branch: str | None = None) -> tuple[str, ...]:
        """Bind to another store, or say which it is.

        Raises:
            AgentKernelError: it cannot be opened; the notebook stays bound as it was.
        """
        self._is_bind_tried = True
        if place is None and source is None and branch is None and self.session is not None:
            self.session.status(names=False)  # a store that is gone says so
            return (self._line("Bound to"),)
        if branch is not None:
            check_ref_name(branch)
        before = self.repo.store.url if self.repo else None
        on = self.session.branch if self.session else None
        if before is not None and not self._is_store_there():
            self.close()  # opened again below, it would still be the one that is gone
        notes: tuple[str, ...] = ()
        if place is None and (source is not None or before is None):
            found, notes = self._default_stores.choose(adopts=source is None)
        else:
            found = find_store(place, create=True) if place else before or ""
            notes = (what_is_new(found),) if source is None else ()
        try:
            repo = self._open(found, source)
        except AgentKernelError:
            if before is not None and self.session is None:
                self._rebind(before, on)
            raise
        self.close()
        try:
            notes = (*self._begin(repo, branch), *filter(None, notes))
        except AgentKernelError:
            if before is not None:
                self._rebind(before, on)
            raise
        return notes if not place else (*notes, self._default_stores.remember(repo.store.url))

    def _is_store_there(self) -> bool:
        """Whether the store that is bound has not been removed."""
        try:
            return self.session is not None and bool(self.session.status(names=False))
        except StoreUnavailableError:
            return False

    def _rebind(self, before: str, branch: str | None) -> None:
        """Back to the store that was bound, as it was; if it is gone, say so."""
        try:
            self._begin(self._open(before, None, create=False), branch)
        except AgentKernelError as error:
            self._notices.warn(f"cells are no longer committed: {error}; %agent bind PLACE starts a store")

    def _bind_default(self) -> tuple[str, ...]:
        place, notes = self._default_stores.choose(adopts=True)
        return *self._begin(self._open(place, None), None), *notes

    def _open(self, place: str, source: str | None, *, create: bool = True) -> Repository:
        """The store there, made if need be. Nothing that is bound now changes."""
        origin = "" if source is None else find_store(source)
        for one in filter(None, (place, origin)):
            look_first(one)
        store = open_store(place, create=create, durability=self._options.durability)
        try:
            if origin:
                from agent_kernel.commands.places import copy_store

                session = self.session if self.repo is not None and self.repo.store.url == store.url else None
                copy_store(origin, store, session)
            return Repository.open(store)
        except BaseException:
            store.close()
            raise

    def _begin(self, repo: Repository, branch: str | None) -> tuple[str, ...]:
        author = Author(self._options.author) if self._options.author else None
        try:
            session = bind_session(
                self.namespace,
                repo,
                branch=branch,
                author=author,
                session_id=session_id(self._shell),
                skip=self._skip,
                living=_KNOWN.get(self._shell, {}).get(repo.store.url),
            )
        except BaseException:
            repo.close()
            raise
        session.runs_cells = True
        session.watch_notebook(self.path())
        if self._page is not None:
            session.tell_page(self._page)
        session.workspace.outputs = self._results
        session.workspace.callbacks = self._callbacks
        session.workspace.syntax = Syntax(self._shell.input_transformer_manager.transform_cell, self._magic)
        session.workspace.names_of_shell = self._shell.user_ns_hidden
        session.workspace.after_load = _draw_inline
        session.workspace.is_only_described = self._is_only_described
        self.repo, self.session = repo, session
        self.spare_modules()
        return self._line("Every cell is now a commit on"), *self._restart(session, repo)

    def spare_modules(self, report: Report | None = None) -> None:
        """Let the garbage collector pass over modules that were imported since, as long as there is no data.

        Args:
            report: what the last cell's commit says; None where something else may have changed every variable.
        """
        names = self.names() if report is None else [change.name for change in report.changed]
        new = [*map(self.namespace.get, (*names, "_")), *(report.unsaved if report is not None else ())]
        self._spared.spare(new, lambda: [*self._results(), *map(self.namespace.get, self.names())])

    def _skip(self, name: str) -> bool:
        return is_shells_own(name, self.namespace, self._shell.user_ns_hidden)

    def _results(self) -> Iterable[object]:
        """What cells can reach through `Out` and `_`."""
        outputs = self.namespace.get("_oh")
        values = list(cast("dict[object, object]", outputs).values()) if isinstance(outputs, dict) else []
        return [*values, *(self.namespace.get(name) for name in ("_", "__", "___"))]

    def _callbacks(self) -> Iterable[object]:
        """Functions that IPython calls around every cell."""
        return [function for functions in self._shell.events.callbacks.values() for function in functions]

    def _magic(self, name: str) -> object:
        """The function behind a magic, of a line or of a cell."""
        kinds: dict[str, dict[str, object]] = self._shell.magics_manager.magics
        return kinds["cell"].get(name) or kinds["line"].get(name)

    def _is_only_described(self, value: object) -> bool:
        """Whether this is a figure, or a part of one, that IPython shows as text: then nothing draws it."""
        kind = type(value)
        artist = getattr(sys.modules.get("matplotlib.artist"), "Artist", ())
        if not issubclass(kind, artist) or kind.__module__.partition(".")[0] != "matplotlib":
            return False
        shell: Any = self._shell
        formatter = shell.display_formatter
        kinds = (formatter.ipython_display_formatter, formatter.mimebundle_formatter, *formatter.formatters.values())
        return not any(_has_printer(one, kind) for one in kinds)

    def _restart(self, session: Session, repo: Repository) -> tuple[str, ...]:
        """What to say about, or do for, a fresh kernel on a store that holds variables."""
        unloaded = session.carried()
        if session.head is None or not unloaded:
            return tuple(session.notes)
        many = plural(len(unloaded), "variable")
        if self._options.on_restart == "restore":
            from agent_kernel.commands.describe import unsaved_lines

            report = session.bring_back(partial=True)
            self.mark_reported(one for one in report.unsaved if one.stored)
            unsaved = unsaved_lines(one for one in report.unsaved if one.stored)
            return *session.notes, f"brought back {many}", *report.notes, *unsaved
        when = clock(repo.commit_at(session.head).time_ns, time.time_ns())
        ago = "just now" if when == "now" else f"{when} ago" if when.endswith("min") else when
        of = f"branch {session.branch}" if session.branch else f"commit {short(session.head)}"
        return *session.notes, f"%agent checkout brings back {many} of {of}, last changed {ago}"

    def _line(self, start: str) -> str:
        if self.session is None or self.repo is None:
            return "bound to no store"
        branch = f"branch {self.session.branch}" if self.session.branch else "no branch"
        stop = "; %agent off stops it" if start.startswith("Every") else ""
        of = "of" if start.startswith("Every") else "at"
        where = shorten_url(self.repo.store.url)
        return f"{start} {branch} {of} {where}{stop}"

    def report_pending_bind(self) -> None:
        """Another store, or way to open it, was configured: say what takes it up, for what is open stays open."""
        if self.repo is not None:
            place = self._options.store or shorten_url(self.repo.store.url)
            self._notices.say(f"{self._line('Bound to')} as before; %agent bind {place} takes this up")

    def close(self) -> None:
        """Let go of the store; the variables stay."""
        self._outputs.close()
        self._spared.unspare()
        session, repo, self.session, self.repo = self.session, self.repo, None, None
        self.panels.leave_store()  # nobody finds the store here any more, and whoever is looking into it comes to an end
        if session is not None:
            session.close()
            _KNOWN.setdefault(self._shell, {})[session.repo.store.url] = session.workspace.living
        if repo is not None:
            repo.close()


def _has_printer(formatter: Any, kind: type) -> bool:
    try:
        formatter.lookup_by_type(kind)
    except KeyError:
        return False
    return True


class DefaultStores:
    """Which store a shell is bound to unless someone says otherwise, and what is remembered of what they said.

    The places are those of one notebook, of the terminals in one folder, or of one kernel that a program runs without
    naming the notebook. `notebook` names the notebook, if it is known.
    """

    def __init__(self, shell: Shell, options: Options, notebook: Callable[[], Path | None]) -> None:
        self._shell = shell
        self._options = options
        self._notebook = notebook
        # Without a notebook: where it was, and which kernel (none in a terminal), when it first asked.
        self._first_location: tuple[Path, str] | None = None

    def _default_path(self) -> Path:
        if self._first_location is None:
            self._first_location = Path.cwd(), self._programs_kernel()
        return default_store(self._notebook(), *self._first_location)

    def are_known(self) -> bool:
        """Whether it is known already what is bound: in a kernel without a notebook only its first cell tells who runs it."""
        return bool(self._options.store or self._notebook()) or getattr(self._shell, "kernel", None) is None

    def _programs_kernel(self) -> str:
        """The id of a kernel that a program runs; "": a person is there. Programs say that they take no input."""
        return "" if can_ask(self._shell) else kernel_id(self._shell) or secrets.token_hex(4)

    def choose(self, *, adopts: bool) -> tuple[str, tuple[str, ...]]:
        """Where to bind when nobody said where, and what to say about it.

        Args:
            adopts: take over the store of the same notebook under its old name, if there is one.

        Raises:
            StoreUnavailableError: the person bound a store that is gone by now.
            NotAStoreError, NewerFormatError: it cannot be told which they bound.
        """
        if self._options.store:
            return find_store(self._options.store, create=True), ()
        own, notebook = self._default_path(), self._notebook()
        chosen = find_redirect(own)
        if chosen is not None and not is_store(chosen):
            back = f"%agent bind {shorten_url(str(own))} goes back to the usual place"
            raise StoreUnavailableError(str(chosen), f"it was bound here, and is not there any more ({back})")
        if chosen is None and adopts and self._is_programs():
            why = "the program that runs this notebook did not name it, so its history is stored there, separate from all others"
            return str(own), (f"{why}; %agent bind PLACE puts it elsewhere",)
        if chosen is not None or notebook is None or not adopts:
            return str(chosen or own), ()
        from agent_kernel.commands.places import adopt

        return str(own), adopt(notebook)

    def _is_programs(self) -> bool:
        return self._notebook() is None and self._first_location is not None and bool(self._first_location[1])

    def remember(self, store: str) -> str:
        """Let the next session here find the store that the person bound, and say in a line whether it will."""
        if self._options.store:
            return f"the next session starts at {clean(self._options.store)} again: c.AgentKernel.store says so"
        notebook = self._notebook()
        next_one = "this kernel, once restarted," if self._is_programs() else "the next terminal in this folder"
        next_one = f"the next session of {clean(notebook.name)}" if notebook else next_one
        try:
            finds = remember(self._default_path(), store)
        except OSError as error:
            return f"{next_one} will not find it, because that cannot be noted: {error}"
        return f"{next_one} finds it here" if finds else "it ends with this session"


# -- let figures that were loaded draw, as those do that a cell makes
#
# A kernel learns to draw figures when pyplot opens its first one: that imports the backend, which sets up the shell. A
# figure that comes back never goes through pyplot, so without this it would show as `<Figure size 640x480 with 1 Axes>`.

_BACKEND = "matplotlib_inline.backend_inline"
_NAMES = ("inline", f"module://{_BACKEND}")


def _draw_inline() -> None:
    """Import the backend that draws in the page, if figures are there and it is the one that pyplot would take."""
    if "matplotlib.figure" not in sys.modules or _BACKEND in sys.modules or _find_backend() not in _NAMES:
        return
    try:
        import_module(_BACKEND)
    except Exception:  # a move must not fail for the sake of a picture
        logger.exception("loaded figures cannot be drawn in the page")


def _find_backend() -> object:
    """The backend that is set. Asking matplotlib itself would choose one where none is, and may start a window toolkit."""
    matplotlib = sys.modules.get("matplotlib")
    settings: object = module_dict(matplotlib).get("rcParams") if isinstance(matplotlib, types.ModuleType) else None
    if not isinstance(settings, dict):
        return None
    # Its own `get` would ask it: a dict's tells what it holds.
    return dict[str, object].get(cast("dict[str, object]", settings), "backend", None)


# -- what the garbage collector passes over: what imported modules hold

# By id: to hash or compare a type runs its metaclass.
_NO_DATA_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, types.NoneType, types.BuiltinFunctionType)))
_MANY_MODULES = 50
# Python 3.12 itself starts with some hundreds of frozen objects.
_FROZEN_BY_PYTHON = 1_000


class ModulesSpared:
    """Has the garbage collector pass over what imported modules hold, which lives as long as the process.

    A look of the collector at the modules of pandas, matplotlib and scikit-learn takes it tens of milliseconds, and it looks
    again each time that the heap has grown by a quarter. `gc.freeze` is made for this. It also spares garbage and what becomes
    garbage later, so it is used only until there is data: as long as the variables are modules, what modules define, and
    numbers and text. Where others froze what they hold, nothing is done: `gc.unfreeze` would undo theirs too.
    """

    _do_others_freeze: ClassVar[bool] = False

    def __init__(self) -> None:
        self._count = 0  # of modules, when they were last spared
        self._was_data = False

    def spare(self, new: Iterable[object], everything: Callable[[], Iterable[object]]) -> None:
        """Spare what is there now, if there was never data, many modules are new, and the collector is on.

        Args:
            new: the values of the variables that the last cell changed. Call it after each cell: of data that came and
                went something may be left.
            everything: gives the values of all variables, and of whatever else can be data.
        """
        self._was_data = self._was_data or not all(map(_is_no_data, new))
        count = len(sys.modules)
        if self._was_data or count < self._count + _MANY_MODULES or not gc.isenabled() or self._others_froze():
            return
        self._was_data = not all(map(_is_no_data, everything()))
        if self._was_data:
            return
        gc.collect(1)  # else the garbage of the imports would stay
        gc.freeze()
        self._count = count

    def _others_froze(self) -> bool:
        # Asked once in a process: Python counts them one by one.
        if not self._count and not ModulesSpared._do_others_freeze:
            ModulesSpared._do_others_freeze = gc.get_freeze_count() > _FROZEN_BY_PYTHON
        return self._do_others_freeze

    def unspare(self) -> None:
        """Let the collector look at everything again."""
        if self._count:
            gc.unfreeze()
            self._count = 0


def _is_no_data(value: object) -> bool:
    kind = type(value)
    if id(kind) in _NO_DATA_IDS or derives_from(kind, types.ModuleType):
        return True
    if kind is types.FunctionType:
        return exact_str(cast("types.FunctionType", value).__globals__.get("__name__")) != "__main__"
    return derives_from(kind, type) and not is_of_notebook(cast("type", value))


# -- which kernel a shell is of: one that is restarted stays the same one, and goes on where it was

# The connection file stays through restarts. Only a random name tells a kernel from all others: other names come again.
_NAMED = re.compile(r"(?:kernel-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|tmp\w{8})\.json$")


def kernel_id(shell: Shell) -> str | None:
    """An id of the shell's kernel that stays through restarts; None: it has none."""
    named = _NAMED.search(str(shell.config.get("IPKernelApp", {}).get("connection_file", "")))
    return None if named is None else hashlib.sha256(named[0].encode()).hexdigest()[:8]


def session_id(shell: Shell) -> str | None:
    """An id for a session of the shell's kernel, from which the kernel is known again; None: it has none that stays."""
    kernel = kernel_id(shell)
    return None if kernel is None else f"{kernel}{OF_KERNEL}{secrets.token_hex(4)}"


def can_ask(shell: Shell) -> bool:
    """Whether a person is there to be asked: not where a program runs the notebook without one."""
    kernel = getattr(shell, "kernel", None)
    return kernel is None or bool(getattr(kernel, "_allow_stdin", True))


# -- which names in the namespace are the shell's

# `_`, `__`, `___`, `_3`, `_i`, `_i3`, `_ih`, `_oh`, `_dh`, `_exit_code`, and what VS Code leaves behind.
_OWN = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_exit_code|__vsc_\w*|__\w+__")
_NOTHING = object()


def is_shells_own(name: str, namespace: Mapping[str, object], hidden: Mapping[str, object]) -> bool:
    """Whether IPython put this name there. A hidden name that the user bound anew is the user's."""
    if _OWN.fullmatch(name):
        return True
    return name in hidden and any(namespace.get(name, _NOTHING) is own for own in (_NOTHING, hidden[name]))
