"""Drive a session the way a kernel drives it, with no kernel.

Three stages. `Notebook` runs cells in a namespace that is a real `__main__`: functions and classes made in a cell have
it as their globals and their module. `ShellNotebook` puts a real IPython shell in front, for cells that need magics.
`elsewhere` runs notebooks in another process, which is what a restarted kernel is.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import io
import linecache
import subprocess
import sys
import traceback
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from agent_kernel.repository import hex_of
from agent_kernel.session import Report, Repository, Session, bind
from agent_kernel.storage import MemoryStore

if TYPE_CHECKING:
    from agent_kernel.repository import Change, Commit, ObjectId, Unsaved

_notebooks = count(1)


@contextlib.contextmanager
def as_main(module: ModuleType) -> Generator[None]:
    """Let `module` be the `__main__` that pickle, inspect and user code find."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before


class Main:
    """A namespace that stands in for `__main__`, with nothing watching it.

    Use it as a context manager: until the end of the block it is the `__main__` in `sys.modules`.
    """

    def __init__(self) -> None:
        self.module = ModuleType("__main__")
        self.namespace: dict[str, object] = vars(self.module)
        self.namespace["__builtins__"] = builtins
        self._title = f"notebook {next(_notebooks)}"
        self._sources = count(1)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(as_main(self.module))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def look(self, expression: str) -> object:
        """Evaluate an expression as a debugger would: outside of any cell."""
        with as_main(self.module):
            return cast(object, eval(expression, self.namespace))

    def execute(self, source: str) -> None:
        """Run statements in the namespace, outside of any cell."""
        filename = f"<{self._title}, source {next(self._sources)}>"
        # inspect.getsource and tracebacks find the source here, as they do under IPython.
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        with as_main(self.module):
            exec(compile(source, filename, "exec", dont_inherit=True), self.namespace)

    def variables(self) -> set[str]:
        """The names that a user would list."""
        return {name for name in self.namespace if not name.startswith("__")}


class Notebook(Main):
    """Cells that run between a session's `begin_cell` and `end_cell`."""

    def __init__(
        self, repo: Repository | None = None, *, branch: str | None = None, session_id: str | None = None
    ) -> None:
        super().__init__()
        self._cells = count(1)
        self.repo = Repository.open(MemoryStore()) if repo is None else repo
        with as_main(self.module):
            self.session: Session = bind(
                self.namespace, self.repo, branch=branch, session_id=session_id, skip=_belongs_to_the_module
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.session.close()
        super().__exit__(kind, error, at)

    def run(self, source: str, *, fails: type[BaseException] | None = None) -> Report:
        """Run one cell and return what its commit reports; the cell must raise `fails`, if that is given."""
        number = next(self._cells)
        error: BaseException | None = None
        with as_main(self.module):
            self.session.begin_cell(source, cell_id=f"{self._title}-{number}", number=number)
            try:
                self.execute(source)
            except BaseException as raised:  # noqa: BLE001  the cell is foreign code
                error = raised
            report = self.session.end_cell(error=error)
        if error is not None and (fails is None or not isinstance(error, fails)):
            raise error
        if error is None and fails is not None:
            raise AssertionError(f"the cell was to raise {fails.__name__}")
        if report is None:
            raise AssertionError("the cell made no commit")
        return report

    def checkout(
        self,
        target: Report | ObjectId | str | None = None,
        *,
        names: Sequence[str] = (),
        partial: bool = False,
    ) -> Report:
        """`session.checkout`, which also takes the report of the commit to go to."""
        with as_main(self.module):
            return self.session.checkout(None if target is None else rev(target), names=names, partial=partial)

    def rollback(self, target: Report | ObjectId | str, *, partial: bool = False) -> Report:
        """`session.rollback`, which also takes the report of the commit to go to."""
        with as_main(self.module):
            return self.session.rollback(rev(target), partial=partial)


def _belongs_to_the_module(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def rev(target: Report | ObjectId | str) -> str:
    """What to type for the commit of this report."""
    if isinstance(target, str):
        return target
    if isinstance(target, bytes):
        return hex_of(target)
    if target.commit is None:
        raise AssertionError("nothing was committed")
    return hex_of(target.commit)


def names_changed(report: Report) -> set[str]:
    """The names that a report says were added, changed or removed."""
    return {change.name for change in report.changed}


@dataclass(frozen=True)
class ShellCell:
    """A cell that an IPython shell ran: what it printed, what it raised, and the commit it left behind."""

    printed: str
    error: BaseException | None
    commit: ObjectId | None
    record: Commit | None

    @property
    def changed(self) -> tuple[Change, ...]:
        """What the commit says has changed."""
        return self.record.changed if self.record else ()

    @property
    def unsaved(self) -> tuple[Unsaved, ...]:
        """What the commit says could not be saved."""
        return self.record.unsaved if self.record else ()


class ShellNotebook:
    """A real IPython shell in this process, with the extension loaded and bound to `store`, a folder."""

    def __init__(self, store: Path) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        config.AgentKernel.store = str(store)
        # get_ipython() answers with the instance, and must not answer with the shell of an earlier test.
        InteractiveShell.clear_instance()
        self._main = sys.modules["__main__"]
        self.shell: Any = InteractiveShell.instance(config=config)  # IPython says little about its types
        self.namespace: dict[str, object] = self.shell.user_ns
        self._store = store
        try:
            self._silently("%load_ext agent_kernel")
        except BaseException:
            self._leave()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._silently("%unload_ext agent_kernel")
        finally:
            self._leave()

    def _leave(self) -> None:
        atexit.unregister(self.shell.atexit_operations)
        self.shell.atexit_operations()
        self.shell.restore_sys_module_state()
        self.shell.clear_instance()
        sys.modules["__main__"] = self._main

    def run(self, source: str, *, fails: type[BaseException] | None = None) -> ShellCell:
        """Run one cell; it must raise `fails`, if that is given, and nothing otherwise."""
        cell = self._run(source)
        if cell.error is not None and (fails is None or not isinstance(cell.error, fails)):
            raise cell.error
        if cell.error is None and fails is not None:
            raise AssertionError(f"the cell was to raise {fails.__name__}")
        return cell

    def look(self, expression: str) -> object:
        """Evaluate an expression as a debugger would: outside of any cell."""
        return cast(object, eval(expression, self.namespace))

    def checkout(self, commit: ObjectId | str) -> None:
        """`%agent checkout`, in a cell."""
        target = commit if isinstance(commit, str) else hex_of(commit)
        self.run(f"%agent checkout {target}")

    def head(self) -> ObjectId | None:
        """The commit that the store was left at."""
        repo = Repository.open(self._store)
        try:
            return repo.head().commit
        finally:
            repo.close()

    def _run(self, source: str) -> ShellCell:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = self.shell.run_cell(source, store_history=True)
        error: BaseException | None = result.error_before_exec or result.error_in_exec
        repo = Repository.open(self._store)
        try:
            commit = repo.head().commit
            record = repo.commit_at(commit) if commit is not None else None
        finally:
            repo.close()
        return ShellCell(printed.getvalue(), error, commit, record)

    def _silently(self, source: str) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = self.shell.run_cell(source, silent=True)
        error: BaseException | None = result.error_before_exec or result.error_in_exec
        if error is not None:
            raise error


class Sheet(msgspec.Struct, frozen=True):
    """One notebook's worth of work for another process."""

    store: str
    cells: tuple[str, ...] = ()
    checkout: bool = False
    checks: tuple[str, ...] = ()


class SheetResult(msgspec.Struct, frozen=True):
    """What became of a sheet. `error` is a traceback, if anything but a check failed."""

    error: str = ""
    failed: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    tip: str = ""


def elsewhere(
    sheets: Mapping[str, Sheet], *, timeout_s: float = 300.0, python: str = sys.executable
) -> dict[str, SheetResult]:
    """Work through `sheets` in one new process: bind, check out if asked, run the cells, then the checks."""
    # Results come line by line, so that a crash of the interpreter costs one sheet and not all of them.
    script = "from agent_kernel.testing.notebooks import work_through; work_through()"
    process = subprocess.run(
        [python, "-c", script],
        input=msgspec.json.encode(sheets),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(b"{")]
    results: dict[str, SheetResult] = {}
    for line in lines:
        results |= msgspec.json.decode(line, type=dict[str, SheetResult])
    crash = SheetResult(error=f"the process ended with {process.returncode}\n{process.stderr.decode()}")
    return {name: results.get(name, crash) for name in sheets}


def work_through() -> None:
    """The other process: read sheets from standard input, write a result a line."""
    sheets = msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, Sheet])
    for name, sheet in sheets.items():
        result = _work(sheet)
        sys.stdout.buffer.write(msgspec.json.encode({name: result}) + b"\n")
        sys.stdout.buffer.flush()


def _work(sheet: Sheet) -> SheetResult:
    failed: list[str] = []
    unsaved: list[str] = []
    tip = ""
    try:
        opened = contextlib.closing(Repository.open(sheet.store))
        with opened as repo, Notebook(repo) as nb, contextlib.redirect_stdout(sys.stderr):
            if sheet.checkout:
                nb.checkout()
            for cell in sheet.cells:
                report = nb.run(cell)
                tip = rev(report)
                unsaved += [f"{lost.name}: {lost.reason}" for lost in report.unsaved]
            for check in sheet.checks:
                failed += _what_fails(nb, check)
    except Exception:  # noqa: BLE001  it is told to the process that asked
        return SheetResult(traceback.format_exc(), tuple(failed), tuple(unsaved), tip)
    return SheetResult("", tuple(failed), tuple(unsaved), tip)


def _what_fails(nb: Notebook, check: str) -> list[str]:
    try:
        nb.execute(check)
    except Exception:  # noqa: BLE001  the check is foreign code
        return [traceback.format_exc()]
    return []
