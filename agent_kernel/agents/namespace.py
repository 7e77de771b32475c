"""A Python REPL for an agent that outlives its process: `Namespace(store).run(code)`. Each run is a commit.

The variables are the dict of a module of their own, which stands as `__main__` while code runs: so code can pickle its own
classes, a forked process finds its functions, and those that were loaded read the same globals as those of now.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, cast

import msgspec

from agent_kernel.agents import messages
from agent_kernel.agents.execution import BoundedText, PlainExecutor, Status, make_outputs, own_traceback
from agent_kernel.errors import LoadError, LostValueError, NameNotFoundError, StepBusyError
from agent_kernel.repository import Change, Commit, Unsaved, hex_of, short
from agent_kernel.session.history import title
from agent_kernel.session.session import Session
from agent_kernel.session.snapshot import close_names
from agent_kernel.session.versioned import Versioned, report_for_programs, text_for_programs
from agent_kernel.text import count_noun
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import Author, ObjectId
    from agent_kernel.session.committing import Report
    from agent_kernel.session.snapshot import Repository

How: TypeAlias = Literal["added", "changed", "removed"]
_HOW: Final[Mapping[str, How]] = {"+": "added", "~": "changed", "-": "removed"}
_MOST_RESULT: Final = 20_000  # characters of the last expression's value
_MOST_ERROR: Final = 4_000  # characters of a traceback
MOST_OUTPUT: Final = 100_000  # characters of what code prints
_MOST_ITEMS: Final = 1_000  # of a container that are shown


class Ran(msgspec.Struct, frozen=True):
    """What one run did. `str()` of it is text for a model.

    Attributes:
        commit: its id, in hex digits.
        changed: variables that it added, changed or removed.
        unsaved: variables of which something could not be saved: why, and how to make them again.
        output: what it printed. Of a long text the middle is left out, and a line says how much that is.
        result: the `repr` of its last expression. None: it has no value, or the value is None.
        error: the traceback, from the code's own lines on. None: it ran to its end.
        number: of the run in this process. Remedies name it: `the code of run 3`.
        notes: what else to know: that it went to a new branch, that the store has become large.
    """

    commit: str
    number: int
    changed: dict[str, How]
    unsaved: dict[str, Unsaved]
    output: str
    result: str | None
    error: str | None
    status: Status
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.output, self.result, self.error, *(f"Not saved: {_say(one)}" for one in _each(self.unsaved))]
        return "\n".join(part.rstrip("\n") for part in (*parts, *self.notes) if part)


class Namespace(Versioned):
    r"""An agent's Python variables: `run` runs code in them and commits, and a new process has them back.

    Without a store or the path of one they are kept in memory. A value that cannot be loaded raises LoadError when it is
    asked for; `came_back` says why.

    >>> ns = Namespace()
    >>> ran = ns.run("total = sum(range(10))\ntotal")
    >>> ran.result, ran.changed
    ('45', {'total': 'added'})
    >>> ns.run("total = 1 / 0").error.splitlines()[-1]
    'ZeroDivisionError: division by zero'
    >>> _ = ns.run("del total")
    >>> _ = ns.undo()
    >>> ns["total"]
    45

    Raises:
        NotAStoreError, NewerFormatError, StoreUnavailableError: the store cannot be used.
        UntrustedStoreError: someone else made it. Nothing of it was loaded.
    """

    def __init__(
        self, store: Repository | Path | str = "memory:", branch: str | None = None, author: Author | None = None
    ) -> None:
        self._main = _Main("__main__")
        self._give_builtins()
        self._lock = threading.RLock()
        self._runs = 0
        self._process = os.getpid()
        self._namespace = self._main.__dict__
        self.executor = NamespaceExecutor(self._namespace)
        with _as_main(self._main):
            report = self._open(store, branch, author)
        self.session.runs_cells = True
        self.came_back = _describe_restart(self.session, report)

    def run(self, code: str, timeout_s: float | None = None) -> Ran:
        """Run code and commit what it changed, also where it fails half-way. It never raises what the code raises.

        A last expression is shown, `await` needs no function around it, `exit()` ends the run and nothing else, and nobody
        answers `input()`. Ctrl-C, and the end of `timeout_s` seconds, interrupt the code and not the commit.

        Raises:
            StoreFullError, StoreUnavailableError: the code ran, and the next commit saves what it changed.
            SessionClosedError: nothing ran.
            StepBusyError: this is code that runs in here.
            TypeError, ValueError: `code` is not text, or `timeout_s` is not a number of more than 0. Nothing ran.
        """
        if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise TypeError(f"code is text, not {code!r}")
        if timeout_s is not None:
            if not isinstance(timeout_s, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"timeout_s is a number of seconds, not {timeout_s!r}")
            if not timeout_s > 0:
                raise ValueError(f"timeout_s is more than 0 seconds, not {timeout_s!r}")
        with self._alone(), _as_main(self._main):
            self._give_builtins()  # the code before may have taken them away
            self._runs += 1
            executor = self.executor
            self.session.begin_cell(code, number=self._runs)
            result, error = None, cast("BaseException | None", KeyboardInterrupt())
            try:
                result = executor.run(code, timeout_s=timeout_s)
                error = result.error
            finally:
                if os.getpid() != self._process:  # whatever a fork of the code came to, it must not commit
                    os._exit(1)
                outputs = make_outputs(executor.full_output()) if result is not None else None
                ended = self.session.end_cell(error=error, outputs=outputs)
            assert result is not None
            report = None if ended is None else report_for_programs(ended)
            head = self.session.head
            return Ran(
                commit="" if head is None else hex_of(head),
                number=self._runs,
                changed=how_changed(report.changed if report else ()),
                unsaved=_by_name(one for one in report.unsaved if not one.stored) if report else {},
                output=result.text,
                result=executor.result,
                error=executor.error,
                status=result.status,
                seconds=result.seconds,
                notes=report.notes if report else (),
            )

    def _give_builtins(self) -> None:
        self._main.__dict__["__builtins__"] = sys.modules["builtins"]

    @contextmanager
    def _alone(self) -> Generator[None]:
        """One at a time, on whatever thread. Code that runs in here must not wait for itself."""
        if self.executor.is_on_running_thread or not self._lock.acquire(timeout=_TURN_S):
            raise StepBusyError(_TURN_S)
        try:
            yield
        finally:
            self._lock.release()

    def show(self, name: str) -> str:
        """What a variable is, in one line, without running any code of its own.

        Raises:
            NameNotFoundError: no variable has this name.
        """
        if name not in self._namespace:
            raise NameNotFoundError(name, "HEAD", close_names(name, list(self)))
        return messages.value_text(previews.make_preview(self._namespace[name], name), "values")

    def code(self, rev: str | ObjectId = "HEAD") -> str:
        """The code of the run whose commit this is; empty where no run made it.

        Raises:
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        """
        cell = self.repo.show(self.repo.resolve(rev, self.session.id)).cell
        return "" if cell is None else cell.source

    # -- as for any state with a history, where what is loaded finds these variables as `__main__`

    def commit(self, message: str = "") -> Report:
        with self._alone(), _as_main(self._main):
            return super().commit(message)

    def checkout(self, rev: str | ObjectId | None = None, *, partial: bool = False) -> Report:
        with self._alone(), _as_main(self._main):
            return super().checkout(rev, partial=partial)

    def rollback(self, rev: str | ObjectId, *, partial: bool = False) -> Report:
        with self._alone(), _as_main(self._main):
            return super().rollback(rev, partial=partial)

    def undo(self, *, partial: bool = False) -> Report:
        with self._alone(), _as_main(self._main):
            return super().undo(partial=partial)

    def redo(self, *, partial: bool = False) -> Report:
        with self._alone(), _as_main(self._main):
            return super().redo(partial=partial)

    def close(self) -> None:
        self.executor.close()
        super().close()

    def __iter__(self) -> Iterator[str]:
        return iter(self.session.workspace.bindings.names(self._namespace))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<Namespace on {self.session.branch or 'no branch'}: {', '.join(islice(self, 20)) or 'empty'}>"


_TURN_S: Final = 60.0  # that a run waits for another thread's


def how_changed(changes: Iterable[Change]) -> dict[str, How]:
    """Changes by name, in words."""
    return {change.name: _HOW[change.how] for change in changes}


def _by_name(unsaved: Iterable[Unsaved]) -> dict[str, Unsaved]:
    return {name: one for one in unsaved for name in one.name.split(", ")}  # several that share it come together


def _each(unsaved: Mapping[str, Unsaved]) -> list[Unsaved]:
    return list({id(one): one for one in unsaved.values()}.values())


def _say(one: Unsaved) -> str:
    kind = f" ({one.type})" if one.type else ""
    return f"{one.name}{kind}: {one.reason}" + (f"; {one.remedy}" if one.remedy else "")


# -- how code runs: as a script's, with what only a REPL has


class NamespaceExecutor(PlainExecutor):
    """Runs code in a namespace, and keeps apart what it printed, what its last expression gave, and how it failed."""

    def __init__(self, namespace: dict[str, object], most_output_chars: int = MOST_OUTPUT) -> None:
        super().__init__(namespace)
        self.result: str | None = None
        self.error: str | None = None
        self._most_output_chars = most_output_chars
        self._thread: int | None = None  # that runs code now
        self._output = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_on_running_thread(self) -> bool:
        """Whether this thread is in the middle of a run."""
        return self._thread == threading.get_ident()

    def run(self, code: str, *, timeout_s: float | None) -> Any:
        self.result = self.error = None
        self._flags = _flags_of(self._namespace)
        process = os.getpid()
        self._thread = threading.get_ident()
        try:
            with _no_running_loop():
                result = super().run(code, timeout_s=timeout_s)
        finally:
            self._thread = None
        if os.getpid() != process:
            self._leave_fork(result.error)
        self._output = result.text
        return result

    def full_output(self) -> str:
        """What the last run printed and gave, and how it failed, as the history keeps it."""
        parts = [self._output, f"{self.result}\n" if self.result is not None else "", self.error or ""]
        return "".join(parts)

    def close(self) -> None:
        """End what waits in the event loop."""
        loop, self._loop = self._loop, None
        if loop is None or loop.is_running() or loop.is_closed():
            return
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            with suppress(Exception):
                loop.run_until_complete(asyncio.wait(tasks, timeout=_CLEAN_UP_S))
        loop.close()

    def _open_output(self) -> BoundedText:
        return _OfThisProcess(self._most_output_chars)

    def _show(self, value: object) -> None:
        self.result = _bounded_repr(value)

    def _show_error(self, error: BaseException, filename: str, output: BoundedText) -> None:
        text = own_traceback(error, filename)
        if isinstance(error, LostValueError | LoadError):
            text = text.replace(str(error), text_for_programs(str(error)))
        if isinstance(error, SystemExit):
            text += "The code asked to end the process. Only this run has ended: the variables are all here.\n"
        elif isinstance(error, NameError) and error.name == "__file__":
            text += "This code is in no file. For paths, use Path.cwd() instead of __file__.\n"
        self.error = messages.cut(text, _MOST_ERROR)

    def _await(self, awaitable: Coroutine[Any, Any, object]) -> object:
        """Run it in the one event loop of this namespace: what it left waiting goes on while the next one waits."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        task = loop.create_task(awaitable)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # an interrupt: or it would go on in the next run
                task.cancel()
                with suppress(Exception):
                    loop.run_until_complete(asyncio.wait({task}, timeout=_CLEAN_UP_S))
            raise

    def _leave_fork(self, error: BaseException | None) -> NoReturn:
        """The code forked and its child came to the end, as a script does: it must not commit for its parent."""
        status = 0 if error is None else 1
        if isinstance(error, SystemExit):
            code = error.code
            status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
        elif self.error and sys.__stderr__ is not None:
            sys.__stderr__.write(self.error)
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with suppress(Exception):
                cast("Any", stream).flush()
        os._exit(status)


_CLEAN_UP_S: Final = 1.0  # that cancelled code may take to clean up


class _OfThisProcess(BoundedText):
    """Takes what this process prints; a forked one has its own output."""

    def __init__(self, most_chars: int) -> None:
        super().__init__(most_chars)
        self._process = os.getpid()

    def write(self, text: str) -> int:
        if os.getpid() == self._process:
            return super().write(text)
        return sys.__stdout__.write(text) if sys.__stdout__ is not None else len(text)

    def flush(self) -> None:
        if os.getpid() != self._process and sys.__stdout__ is not None:
            sys.__stdout__.flush()


_CUT_SHORT: Final = (list, tuple, set, frozenset, deque)


def _bounded_repr(value: object) -> str:
    """The `repr`, without making all of that of a long builtin first."""
    kind, more = type(value), ""
    if kind in (str, bytes) and len(cast("str", value)) > _MOST_RESULT:
        more = f" … {len(cast('str', value)) - _MOST_RESULT:,} more"
        value = cast("str", value)[:_MOST_RESULT]
    elif kind in _CUT_SHORT and len(cast("list[object]", value)) > _MOST_ITEMS:
        more = f" … {len(cast('list[object]', value)) - _MOST_ITEMS:,} more items"
        value = cast("type[list[object]]", kind)(islice(cast("list[object]", value), _MOST_ITEMS))
    elif kind is dict and len(cast("dict[object, object]", value)) > _MOST_ITEMS:
        more = f" … {len(cast('dict[object, object]', value)) - _MOST_ITEMS:,} more items"
        value = dict(islice(cast("dict[object, object]", value).items(), _MOST_ITEMS))
    return messages.cut(repr(value), _MOST_RESULT) + more


def _flags_of(namespace: Mapping[str, object]) -> int:
    """How to compile: with top-level await, and with the features that code of before has imported from `__future__`.

    Such an import binds a variable, so what holds comes back, and goes back, with the variables.
    """
    import __future__ as futures

    import ast

    found = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for name in futures.all_feature_names:
        feature: Any = namespace.get(name)
        if type(feature) is type(futures.annotations):
            found |= feature.compiler_flag
    return found


# -- what stands elsewhere in the process while code runs: `__main__`, a `sys.stdin` that nobody types into, and its output


class _Main(ModuleType):
    """The variables as a module. Names that it lacks are those of the program around it, which may pickle meanwhile."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for module in (*reversed(_active_mains), _before.main):
                if module is not None and name in vars(module):
                    return vars(module)[name]
        raise AttributeError(f"module '__main__' has no attribute {name!r}")


class _Nobody(io.TextIOBase):
    """In place of `sys.stdin`: raises at once instead of waiting for somebody to type."""

    def readline(self, size: int = -1, /) -> NoReturn:  # type: ignore[override]  # it gives nothing
        raise EOFError("nobody can answer input() here: put the value into the code")

    def read(self, size: int | None = -1, /) -> NoReturn:
        self.readline()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """`exit()` closes it, and the next run has it still."""


class _Before:
    main: ModuleType | None = None
    stdin: Any = None
    stdout: Any = None
    stderr: Any = None


_main_lock = threading.Lock()
_active_mains: list[ModuleType] = []  # the namespaces that run now, also on other threads
_before = _Before()
_nobody = _Nobody()


@contextmanager
def _as_main(main: ModuleType) -> Generator[None]:
    with _main_lock:
        if not _active_mains:
            _before.main, _before.stdin = sys.modules.get("__main__"), sys.stdin
            _before.stdout, _before.stderr = sys.stdout, sys.stderr
        _active_mains.append(main)
        sys.modules["__main__"], sys.stdin = main, _nobody
    try:
        yield
    finally:
        with _main_lock:
            _active_mains.reverse()
            _active_mains.remove(main)
            _active_mains.reverse()
            if _active_mains:
                sys.modules["__main__"] = _active_mains[-1]
            else:
                if _before.main is not None:
                    sys.modules["__main__"] = _before.main
                sys.stdin, _before.main, _before.stdin = _before.stdin, None, None
                # The program's, which code may have put others in the place of, and left them.
                sys.stdout, sys.stderr = _before.stdout, _before.stderr
                _before.stdout = _before.stderr = None


@contextmanager
def _no_running_loop() -> Generator[None]:
    """Let code await, or call `asyncio.run`, also where the program around it is in an event loop of its own."""
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


# -- what came back, for a model that knows the variables as they were

_MOST_NAMES: Final = 40  # that are spelled out
_MOST_LINES: Final = 10  # about what did not come back
_MOST_CHARS: Final = 300  # of such a line


def _describe_restart(session: Session, report: Report | None) -> str:
    lines = list(map(text_for_programs, session.notes))
    if session.head is None or report is None:
        return "\n".join([*lines, "Nothing was stored here before: there are no variables yet."])
    commit = session.repo.commit_at(session.head)
    missing = _by_name(report_for_programs(report).unsaved)
    back = sorted(name for name in session.workspace.bindings.names(session.namespace) if name not in missing)
    where = f"branch {session.branch}" if session.branch else "a past state"
    came = f"{count_noun(len(back), 'variable')} came back: {_list_names(back)}" if back else "no variable came back"
    lines.append(f"This is a new process. Of {where} at {short(session.head)}, {came}.")
    what = "run" if commit.cell is not None else "commit"
    lines.append(
        f"The last {what} there ({_age(commit)}): {messages.cut(title(commit), _MOST_CHARS)} ({commit.status})."
    )
    if missing:
        lines += _describe_missing(_each(missing))
    lines.append("Threads, open connections and running programs of before are gone. Files are as they are now.")
    if commit.cwd and commit.cwd != str(Path.cwd()):
        lines.append(f"The working directory is {Path.cwd()}; it was {commit.cwd}.")
    return "\n".join(lines)


def _describe_missing(unsaved: list[Unsaved]) -> list[str]:
    """One line for each reason, as many as a model reads."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for one in unsaved:
        reasons.setdefault((one.type, one.reason, one.remedy), []).append(one.name)
    rows = [
        messages.cut(f"Not back: {_say(Unsaved(_list_names(names), *why))}", _MOST_CHARS)
        for why, names in reasons.items()
    ]
    if len(rows) > _MOST_LINES:
        rest = [name for names in list(reasons.values())[_MOST_LINES - 1 :] for name in names]
        rows[_MOST_LINES - 1 :] = [f"Not back, for other reasons: {_list_names(rest)}"]
    return rows


def _list_names(names: list[str]) -> str:
    listed = ", ".join(name[:80] for name in names[:_MOST_NAMES])
    return f"{listed} and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else listed


def _age(commit: Commit) -> str:
    seconds = max(0, time.time_ns() - commit.time_ns) // 1_000_000_000
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            number = seconds // length
            return f"{number:,} {unit}{'s' * (number != 1)} ago"
    return "moments ago"
