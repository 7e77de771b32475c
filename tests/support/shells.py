"""A notebook in a real IPython shell, with the extension loaded, for cells that need magics."""

from __future__ import annotations

import atexit
import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from agent_kernel.repository import hex_of
from agent_kernel.session import Repository

if TYPE_CHECKING:
    from agent_kernel.repository import Change, Commit, ObjectId, Unsaved


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
