"""Drive a session the way a kernel drives it, with no kernel.

`Notebook` runs cells in a namespace that is a real `__main__`: functions and classes made in a cell have it as their
globals and their module. `shells` puts a real IPython shell in front, `elsewhere` runs notebooks in another process.
"""

from __future__ import annotations

import builtins
import contextlib
import linecache
import sys
from collections.abc import Generator, Sequence
from itertools import count
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Self, cast

from agent_kernel.repository import hex_of
from agent_kernel.session import Report, Repository, Session, bind
from agent_kernel.storage import MemoryStore

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId

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
            except BaseException as raised:
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
