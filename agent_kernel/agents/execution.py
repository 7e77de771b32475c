"""Where a run acts, and how one piece of its code runs there: on the thread that calls, so that an interrupt reaches it."""

from __future__ import annotations
import __future__ as futures

import ast
import builtins
import codecs
import dis
import io
import linecache
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Container, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from inspect import CO_COROUTINE
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, TextIO, cast
from weakref import WeakSet

import msgspec
from msgspec import structs

from agent_kernel import errors
from agent_kernel.agents import messages
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Part
from agent_kernel.agents.gate import SPEAKING_CODES, EffectStopped
from agent_kernel.agents.limits import StepTimeout, within
from agent_kernel.agents.messages import Redactor
from agent_kernel.agents.side_effects import STEP, follow_threads, lineage
from agent_kernel.errors import AgentKernelError, CellThreadError
from agent_kernel.errors import agents as agent_errors
from agent_kernel.quiet import is_sent_by_code
from agent_kernel.repository import hex_of
from agent_kernel.session.history import escape_surrogates
from agent_kernel.session.tracking import HideList
from agent_kernel.values import previews

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from agent_kernel.agents.arguments import Inputs
    from agent_kernel.repository import Author, Change, Entry, ObjectId, Outputs, Unsaved
    from agent_kernel.session import Session
    from agent_kernel.session.committing import Report
    from agent_kernel.storage import Store


# -- where a run acts: a namespace, what runs code in it, what keeps its history, and the store of its events


class ExecutionContext:
    """One namespace in which agents act.

    Args:
        session: keeps its history; None: it has no history.
        journal: keeps the events; by default in the session's store, or in memory.
        executor: by default code runs as in a script.
        names: those that are the user's; by default all that a session would version.
        on_main: code runs where the cells run, on the main thread alone.
        moved: tells whoever shows the history here that something happened, where no cell does.
        hidden: says which names no model is told of; by default those that the store's list has, and those that were
            forgotten with what code says of them.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        session: Session | None = None,
        *,
        event_store: EventStore | None = None,
        executor: Executor | None = None,
        names: Callable[[], Iterable[str]] | None = None,
        hidden: Callable[[str], bool] | None = None,
        cell: Callable[[], tuple[str, int | None]] = lambda: ("", None),
        on_main: bool = False,
        moved: Callable[[], object] = lambda: None,
    ) -> None:
        self.namespace = namespace
        self.session = session
        self.executor = executor or PlainExecutor(namespace)
        self.event_store = event_store or EventStore(session.repo.store if session is not None else _in_memory())
        self._hide_list = HideList(session.repo) if session is not None and hidden is None else None
        self._forgotten = frozenset[str]()  # later commits mask them, so events do not keep them either
        self._hides = hidden
        self.policy = "values"  # how much of a variable models are told unasked
        self.redactor = Redactor(self.is_hidden)
        self.cell = cell
        self.moved = moved
        self._on_main = on_main
        self._names = names
        self.is_notebook = False  # it is the notebook's own, which a program asked for (`current.here`)
        self.start_commit: ObjectId | None = None  # the commit at which the step began that runs
        self.merged_entries: dict[str, Entry | None] = {}  # what merges of sub-agents changed in it, as they left it

    def __reduce__(self) -> tuple[object, ...]:
        from agent_kernel.agents.current import here_again

        if not self.is_notebook:
            raise TypeError("an execution context holds an open store")
        return here_again, ()

    def is_hidden(self, name: str) -> bool:
        """Whether no model is told of this name."""
        if self._hides is not None:
            return self._hides(name)
        return self._hide_list is not None and (name in self._hide_list or name in self._forgotten)

    def is_visible(self, name: str) -> bool:
        """Whether a model may be told of this name: it is not hidden, and no secret by itself."""
        return not self.is_hidden(name) and not self.redactor.knows(name)

    def learn_secrets(self, names: Iterable[str] | None = None) -> None:
        """Learn which values must not be sent: of these variables, by default of all."""
        if self._hide_list is not None:
            self._hide_list.reread()
            self._forgotten = self.session.repo.masked_names() if self.session is not None else self._forgotten
        if names is None:
            self.redactor.learn_environment()
            names = {*self._users(), *filter(self.is_hidden, list(self.namespace))}
        self.redactor.learn(self.namespace, names)

    def redact(self, text: str, most_chars: int = 100_000) -> str:
        """The text as it may be sent and kept, no longer than so many characters."""
        return messages.cut(self.redactor.redact(text), most_chars)

    def redact_output(self, text: str, most_chars: int = 100_000) -> str:
        """What code gave, as it may be sent and kept: nothing where hidden values may be left in it."""
        return self.redact(text, most_chars) if self.redactor.is_complete or not text else self.redactor.withheld

    def redact_environment(self, result: CodeResult) -> CodeResult:
        """What running code came to as it is stored: without the environment that it may have shown."""
        self.redactor.learn_environment()
        mask = self.redactor.without_environment
        parts = tuple(structs.replace(part, text=mask(part.text)) for part in result.parts)
        outputs = None if result.outputs is None else result.outputs.with_texts(mask)
        return structs.replace(result, text=mask(result.text), parts=parts, outputs=outputs)

    def names(self) -> list[str]:
        """The variables that a model may be told of."""
        return [name for name in self._users() if self.is_visible(name)]

    def _users(self) -> Iterable[str]:
        """The variables, less those of the front end."""
        if self._names is not None:
            return self._names()
        if self.session is not None:
            return self.session.workspace.bindings.names(self.namespace)
        return [name for name in self.namespace if not name.startswith("__")]

    def read_stored_names(self) -> Container[str]:
        """The variables that the branch has, whether they are in memory or not."""
        return self.session.repo.tree_at(self.session.head) if self.session is not None else ()

    @property
    def head(self) -> str:
        """The commit that the namespace is at, in hex digits; "" without a history. Whoever asks may refer to it."""
        if self.session is not None:
            self.session.keep_record_commits()
        at = self.session.head if self.session is not None else None
        return "" if at is None else hex_of(at)

    def wait_turn(self) -> None:
        """Wait until no other thread runs a step here.

        Raises:
            StepBusyError: one runs for long. CellThreadError: the cells of a notebook run on another thread than this.
        """
        if self._on_main and threading.current_thread() is not threading.main_thread():
            raise CellThreadError
        if self.session is not None:
            self.session.wait_turn()

    def begin(self, code: str, author: Author, run: str, step: int) -> None:
        """Code of an agent is about to run."""
        if self.session is not None:
            cell, number = self.cell()
            self.session.begin_step(code, author=author, run=run, step=step, cell_id=cell, number=number)
            self.start_commit, self.merged_entries = self.session.head, {}
        else:
            self._before = dict(self.namespace)

    def take_back(self) -> str:
        """Put the variables back to where the step began that runs; what to say of what stays."""
        if self.session is None:
            for name in [name for name in self.namespace if name not in self._before and not name.startswith("__")]:
                del self.namespace[name]
            self.namespace.update(self._before)
            return "names stand for what they did before, but what it changed within an object stays"
        try:
            unsaved = self.session.take_back(self.start_commit)
        except AgentKernelError as error:
            return f"its variables could not be taken back: {error}"
        return f"what {', '.join(unsaved)} held before could not be saved, and is gone" if unsaved else ""

    def end(
        self, result: CodeResult | None, refuses: Callable[[], bool] = lambda: False
    ) -> tuple[list[Change], list[Unsaved], str]:
        """It has run: what it changed, what of it could not be saved, and what to say of what stays of one that is taken back.

        Args:
            refuses: whether to take it back: asked as it begins, and once its variables were looked at.
        """
        from agent_kernel.repository import Change

        is_refused = refuses()
        notes = [self.take_back()] if is_refused else []
        if self.session is not None:
            report: Report | None = self.session.end_step(
                error=result.error if result is not None else KeyboardInterrupt(),
                outputs=result.outputs if result else None,
                refuses=(lambda: False) if is_refused else refuses,
                take_back=lambda: notes.append(self.take_back()),
            )
            unsaved = list(report.unsaved) if report is not None else []
            return self._find_changes(self.session, report), unsaved, "".join(notes)
        now, before = self.namespace, self._before
        self._before = {}
        new = [Change(name, "+") for name in now if name not in before and not name.startswith("__")]
        rebound = [Change(name, "~") for name, value in now.items() if name in before and before[name] is not value]
        return [*new, *rebound, *(Change(name, "-") for name in before if name not in now)], [], "".join(notes)

    def _find_changes(self, session: Session, report: Report | None) -> list[Change]:
        """What the step changed: by its last commit, or by all, where it was committed for sub-agents in its midst."""
        record = report.record if report is not None and report.commit is not None else None
        if session.head in (None, self.start_commit) or (
            record is not None and record.parents[:1] == (self.start_commit,)
        ):
            return list(report.changed) if report is not None else []
        from agent_kernel.session.history import changes_between

        repo = session.repo
        return list(changes_between(repo, repo.tree_at(self.start_commit), repo.tree_at(session.head)))

    def find_own_changes(self, at: ObjectId) -> set[str]:
        """What the step had changed by this commit, less what its sub-agents did and it left as it was then."""
        assert self.session is not None
        repo, found = self.session.repo, set[str]()
        for name, _, after in repo.tree_at(self.start_commit).diff(repo.tree_at(at)):
            brought = self.merged_entries.get(name)
            is_brought = name in self.merged_entries and (
                brought is after or (brought and brought.is_same_value(after))
            )
            if not is_brought and not name.startswith("\0"):
                found.add(name)
        return found

    def summary(self, name: str) -> str:
        """One line about a variable as it is now, without running any of its code."""
        policy = self.policy if self.redactor.is_complete or self.policy == "names" else "schema"
        return self.redact(messages.value_text(previews.make_preview(self.namespace.get(name), name), policy))

    def describe(self, task: str, room: int) -> str:
        """The namespace for a model, in no more than so many characters."""
        return messages.describe(self.names(), self.summary, task=task, recent=self._recent(), room=room)

    def _recent(self) -> list[str]:
        """Names that the last commits changed, the latest first."""
        if self.session is None or self.session.head is None:
            return []
        found: dict[str, None] = {}
        for _, commit in self.session.repo.log(self.session.head, limit=20):
            found |= dict.fromkeys(change.name for change in commit.changed)
        return list(found)

    def quiet_paths(self) -> tuple[str, ...]:
        """Where files are written by the store itself."""
        url = self.session.repo.store.url if self.session is not None else ""
        return (url.removeprefix("lmdb://"),) if url.startswith("lmdb://") else ()


def _in_memory() -> Store:
    from agent_kernel.storage import MemoryStore

    return MemoryStore()


# -- the `task` object with which an agent's code ends its run: `task.success(value)`, `task.fail(…)`, `task.clarify(…)`
#
# They raise, so that nothing after them runs, and what they raise is no `Exception`, so that code that catches everything
# does not swallow the end of its own run. The words are agex's.

NAMES = ("task", "agent_task")


class TaskEnd(BaseException):
    """How the code ended the run."""

    def __init__(self, how: Literal["success", "fail", "clarify"], value: object = None) -> None:
        super().__init__(how)
        self.how = how
        self.value = value

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: nothing, since it is no error."""
        return []


class TaskHandle:
    """What an agent's code ends its run with."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs.copy()

    def success(self, value: object = None) -> NoReturn:
        """The task is done, and this is its result."""
        raise TaskEnd("success", value)

    def fail(self, reason: str) -> NoReturn:
        """The task cannot be done."""
        raise TaskEnd("fail", str(reason))

    def clarify(self, question: str) -> NoReturn:
        """Ask the person, and go on when they have answered."""
        raise TaskEnd("clarify", str(question))

    def __repr__(self) -> str:
        return "<task: .success(value), .fail(reason), .clarify(question)>"


# -- take what code prints, where several pieces of code may print at the same time on threads of their own
#
# `contextlib.redirect_stdout` swaps a global: of two threads that use it, the one that ends last puts back what the other
# had put there. Here one router stands in `sys.stdout` while anybody captures, and hands each text to its thread's taker: that
# of the thread itself, or of the one whose code started it. What other threads print goes where it would go anyway.

_lock = threading.RLock()


# Threads that were started by code whose text was taken, such as those of a pool: they print for whatever runs now.
_of_captures: WeakSet[threading.Thread] = WeakSet()


class _Capture:
    """Where a text goes, and the threads that were there before and that no such code started."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # of bytes: a character may come in two parts
        self.before = WeakSet(thread for thread in threading.enumerate() if thread not in _of_captures)

    def end(self) -> None:
        """Remember the threads that this thread's code started, and that stay."""
        this_thread = threading.current_thread()
        new = (thread for thread in threading.enumerate() if thread not in self.before and thread is not this_thread)
        _of_captures.update(thread for thread in new if this_thread in lineage(thread.ident or 0))


class _Router(io.TextIOBase):
    """Stands in place of a stream, and knows whose text is whose."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.captures: dict[int, list[_Capture]] = {}

    def stream_here(self) -> Any:
        here = self.capture_here()
        return self.stream if here is None else here.stream

    def capture_here(self) -> _Capture | None:
        thread_id = threading.get_ident()
        mine = self.captures.get(thread_id)
        if mine:
            return mine[-1]
        for child, parent in pairwise(lineage(thread_id)):
            # Threads may have been followed for others before: what this one started then is not of what it captures now.
            theirs = [one for one in self.captures.get(parent.ident or 0, ()) if child not in one.before]
            if theirs:
                return theirs[-1]
        return None

    def write(self, text: str) -> int:
        return int(self.stream_here().write(text) or len(text))

    def flush(self) -> None:
        self.stream_here().flush()

    def close(self) -> None:
        """Nothing here is its own. When it dies, Python closes it, and what it led to may be closed by then."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class calls it an attribute
        return str(getattr(self.stream, "encoding", "utf-8"))

    @property
    def buffer(self) -> _RouterBuffer:
        """As that of a terminal, for code that prints bytes."""
        return _RouterBuffer(self)

    def reconfigure(self, **options: object) -> None:
        """Code for a terminal sets its encoding or buffering. What is captured is text, and has neither."""


class _RouterBuffer(io.BufferedIOBase):
    """Takes bytes in place of a stream's buffer. Whoever captures text reads them as UTF-8."""

    def __init__(self, router: _Router) -> None:
        self._router = router

    def write(self, content: ReadableBuffer, /) -> int:
        view = memoryview(content)
        here = self._router.capture_here()
        if here is not None:
            here.stream.write(here.decoder.decode(view.cast("B")))
        elif (under := getattr(self._router.stream, "buffer", None)) is not None:
            under.write(view)
        else:
            self._router.stream.write(bytes(view).decode("utf-8", "replace"))
        return view.nbytes

    def flush(self) -> None:
        self._router.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._router.fileno()


# Of each stream's routers none ever goes: `print` holds no reference to the stream that it prints to, and another
# thread may end its capturing, and with it the last reference to a router, in the middle of a line.
_routers: dict[str, list[_Router]] = {"stdout": [], "stderr": []}


@contextmanager
def capture_output(taker: TextIO) -> Generator[None]:
    """Give what this thread writes to `sys.stdout` and `sys.stderr` to `taker`, and what threads do that its code starts.

    Those that C code started, or that were there before and that no captured code started, are no one's.
    """
    thread, entry = threading.get_ident(), _Capture(taker)
    with _lock:
        mine = {name: _install_router(name) for name in _routers}
        for router in mine.values():
            router.captures.setdefault(thread, []).append(entry)
    try:
        with follow_threads():
            yield
    finally:
        with _lock:
            for name, router in mine.items():
                router.captures[thread].remove(entry)
                if not router.captures[thread]:
                    del router.captures[thread]
                if not router.captures and getattr(sys, name) is router:
                    setattr(sys, name, router.stream)
        entry.end()


def _install_router(name: str) -> _Router:
    """The router that stands in a stream's place by now."""
    now = getattr(sys, name)
    if isinstance(now, _Router):
        return now
    router = next((one for one in _routers[name] if not one.captures), None)
    if router is None:
        router = _Router()
        _routers[name].append(router)
    router.stream = now
    setattr(sys, name, router)
    return router


Status = Literal["ok", "failed", "interrupted", "timeout"]
_MOST_KEPT = 1_000_000  # characters that a step's printing may take before the rest is dropped


class RaisedInterrupt(RuntimeError):  # noqa: N818 - it stands for what is no error by name
    """The code raised KeyboardInterrupt by itself: nobody interrupted it."""

    def __init__(self) -> None:
        super().__init__("the code raised KeyboardInterrupt itself; nobody interrupted it")


def is_raised_by_code(error: BaseException | None, arrived: Sequence[int] | None = None) -> bool:
    """Whether this is a KeyboardInterrupt that the code made, or a library: by `raise`, by `throw`, by `interrupt_main`.

    A real one arrives between two instructions, wherever the code is; this package raises it where it stopped a run.

    Args:
        arrived: the interrupts that were noted while the code ran. None: nobody noted them, and the instruction tells,
            which from Python 3.13 on looks the same for `throw` as for a real one.
    """
    if is_sent_by_code(error):
        return True
    last = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "agent_kernel":
        return False
    if arrived is not None:
        return not arrived
    code = last.tb_frame.f_code
    found = (one for one in dis.get_instructions(code) if one.offset == last.tb_lasti)
    return next((one.opname for one in found), "") in _RAISING


_RAISING: Final = frozenset({"RAISE_VARARGS", "YIELD_VALUE", "RETURN_GENERATOR"})


class CodeResult(msgspec.Struct, frozen=True):
    """What running a piece of code came to.

    Attributes:
        text: what it printed and showed, as text, the traceback too.
        parts: the same by MIME type.
        outputs: the same as the history keeps it, where the notebook knows it.
        error: what it raised, if it did; None also where it ended its run.
        task_end: how it ended its run, if it did.
    """

    text: str = ""
    parts: tuple[Part, ...] = ()
    outputs: Outputs | None = None
    error: BaseException | None = None
    task_end: TaskEnd | None = None
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        if self.error is None:
            return "ok"
        if isinstance(self.error, StepTimeout):
            return "timeout"
        return "interrupted" if isinstance(self.error, KeyboardInterrupt) else "failed"


class Executor(Protocol):
    """Runs code in one namespace."""

    def run(self, code: str, *, timeout_s: float | None) -> CodeResult:
        """Run it on the calling thread; never raises what the code raises.

        Args:
            timeout_s: seconds after which it is interrupted.
        """
        ...


class PlainExecutor:
    """Runs code in a dict, as a script would; the value of a last expression is shown.

    What it prints is taken from `sys.stdout` and `sys.stderr` while it runs, on the thread that it runs on and on those that its
    code started, in this step or in one before it on this thread. What other threads of the program print meanwhile is theirs.
    """

    _flags = 0  # with which code is compiled

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._count = 0

    # -- what others do in another way

    def _open_output(self) -> BoundedText:
        """What takes the text that code prints."""
        return BoundedText()

    def _show(self, value: object) -> None:
        """The code ended with an expression, and this is its value."""
        sys.stdout.write(f"{value!r}\n")

    def _show_error(self, error: BaseException, filename: str, output: BoundedText) -> None:
        output.write(own_traceback(error, filename))

    def _await(self, awaitable: Coroutine[Any, Any, object]) -> object:
        """Run what awaits, in an event loop of its own."""
        import asyncio

        with closing(asyncio.new_event_loop()) as loop:
            return loop.run_until_complete(awaitable)

    # -- run one piece

    def run(self, code: str, *, timeout_s: float | None) -> CodeResult:
        self._count += 1
        filename = f"{STEP} {os.getpid()}-{self._count}>"
        # Lines as the compiler counts them: `splitlines` would also end one at a form feed.
        linecache.cache[filename] = (len(code), None, list(io.StringIO(code, newline=None)), filename)
        output = self._open_output()
        began = time.perf_counter()
        error: BaseException | None = None
        task_end: TaskEnd | None = None
        try:
            with capture_output(output):
                within(timeout_s, lambda: self._run(code, filename))
        except TaskEnd as end:
            task_end = end
        except EffectStopped as stopped:  # it is said by whoever asks about it
            error = stopped
        except BaseException as raised:  # noqa: BLE001 - whatever the code raises is its outcome
            error = raised
            self._show_error(raised, filename, output)
        seconds = time.perf_counter() - began
        text = output.getvalue()
        parts = (Part("text/plain", text),) if text else ()
        return CodeResult(text, parts, make_outputs(text), error, task_end, seconds)

    def _run(self, code: str, filename: str) -> None:
        tree = ast.parse(code, filename)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        else:
            last = None
        # What code needs to run, and is nobody's variable: without a name of its module a class would have none either.
        added = {"__builtins__", "__name__"} - self._namespace.keys()
        self._namespace.setdefault("__name__", "__main__")
        try:
            self._evaluate(tree, last, filename)
        finally:
            for name in added:
                self._namespace.pop(name, None)

    def _evaluate(self, tree: ast.Module, last: ast.Expr | None, filename: str) -> None:
        codes = [compile(tree, filename, "exec", self._flags, dont_inherit=True)]
        if last is not None:
            flags = self._flags | codes[0].co_flags & _FUTURES
            codes.append(compile(ast.Expression(last.value), filename, "eval", flags, dont_inherit=True))
        value = self._run_codes(codes)
        if value is not None:
            self._show(value)

    def _run_codes(self, codes: Sequence[CodeType]) -> object:
        """Run one after the other, and return the value of the last; statements have none."""
        if any(code.co_flags & CO_COROUTINE for code in codes):
            return self._await(self._evaluate_async(codes))
        return [eval(code, self._namespace) for code in codes][-1]

    async def _evaluate_async(self, codes: Sequence[CodeType]) -> object:
        value: object = None
        for code in codes:
            value = eval(code, self._namespace)
            if code.co_flags & CO_COROUTINE:
                value = await cast("Awaitable[object]", value)
        return value


_FUTURES: Final = futures.annotations.compiler_flag  # of the features that a piece of code may still turn on


def make_outputs(text: str) -> Outputs | None:
    """The text as the history keeps what a cell showed."""
    if not text:
        return None
    from agent_kernel.repository import Output, Outputs

    return Outputs(version=1, outputs=(Output(kind="stream", name="stdout", text=escape_surrogates(text)),))


_PACKAGE: Final = str(Path(__file__).parent.parent) + os.sep


def own_traceback(error: BaseException, filename: str) -> str:
    """The traceback from the agent's own code on, and of code that ran too long where it was."""
    is_late = isinstance(error, StepTimeout)
    frames = (error.__context__ or error if is_late else error).__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != filename:
        frames = frames.tb_next
    try:
        told = traceback.TracebackException(type(error), error, frames)
        if is_late or isinstance(error, KeyboardInterrupt):
            while told.stack and told.stack[-1].filename.startswith(_PACKAGE):  # our own frames, which stopped it
                told.stack.pop()
        if is_late:
            where = "".join(told.stack.format())
            return f"{'Traceback (most recent call last):' if where else ''}\n{where}TimeoutError: {error}\n".lstrip(
                "\n"
            )
        return "".join(told.format())
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - an error of the code's own class says of itself what it likes
        return f"{_name_of(error)}, of which no traceback can be written: {_name_of(broken)}\n"


def error_line(error: BaseException) -> str:
    """`ValueError: no such column`, read past what the class of the error makes of it: no code of a step runs."""
    return f"{_name_of(error)}: {_first_line(error)}"


def _name_of(error: BaseException) -> str:
    return str(vars(type)["__name__"].__get__(type(error)))


def _first_line(error: BaseException) -> str:
    if any(
        vars(module).get(_name_of(error)) is type(error) for module in (errors, agent_errors)
    ):  # its arguments are no sentence
        return str(error).partition("\n")[0]
    found = [argument for argument in _ARGUMENTS(error)[:1] if type(argument) is str]
    return found[0].partition("\n")[0] if found else ""


def drop_locals(error: BaseException) -> None:
    """Drop what the calls that an error ended had: what comes of that comes now."""
    cleared: dict[int, BaseException] = {}
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in cleared:
            continue
        cleared[id(one)] = one
        traceback.clear_frames(_TRACEBACK(one))
        pending += [_CAUSE(one), _CONTEXT(one)]


# What an error has, whatever its class makes of these names.
_ARGUMENTS, _TRACEBACK, _CAUSE, _CONTEXT = (
    cast("Callable[[BaseException], Any]", vars(BaseException)[name].__get__)
    for name in ("args", "__traceback__", "__cause__", "__context__")
)


SPEAKING_CODES.update(function.__code__ for function in (own_traceback, drop_locals, vars(PlainExecutor)["_evaluate"]))


class BoundedText(io.StringIO):
    """Text up to a size. Of more, the middle is dropped, and a line in its place says how much that was."""

    def __init__(self, most_chars: int = _MOST_KEPT) -> None:
        super().__init__()
        self._head_chars = most_chars * 2 // 3
        self._tail_chars = most_chars - self._head_chars
        self._tail: list[str] = []
        self._in_tail = 0
        self._dropped = 0
        self._writing = threading.RLock()  # a signal handler may print in the middle of a print

    def write(self, text: str) -> int:
        with self._writing:
            written = super().write(text[: max(0, self._head_chars - self.tell())])
            if written < len(text):
                start = max(written, len(text) - self._tail_chars)
                self._dropped += start - written
                self._tail.append(text[start:])
                self._in_tail += len(text) - start
                if self._in_tail > 2 * self._tail_chars or len(self._tail) > _MOST_PIECES:
                    self._trim()
        return len(text)

    def _trim(self) -> None:
        whole = "".join(self._tail)
        tail = whole[max(0, len(whole) - self._tail_chars) :]
        self._dropped += len(whole) - len(tail)
        self._tail, self._in_tail = [tail], len(tail)

    def getvalue(self) -> str:
        with self._writing:
            self._trim()
            gap = f"\n[… {self._dropped:,} characters left out …]\n" if self._dropped else ""
            return super().getvalue() + gap + "".join(self._tail)


_MOST_PIECES: Final = 4_096


# -- what an agent's code finds beside the variables: its `task`, and what was registered for it
#
# These are no variables. They stand among the builtins while a step runs, so that nothing of them is ever committed, code
# of the notebook finds them too when it is called, and a variable of the same name goes first. Where steps on several
# threads are offered different objects under one name, each thread finds its own.

_ABSENT: Any = object()
_offers_lock = threading.Lock()
_stacks: dict[int, list[Mapping[str, object]]] = {}  # by thread: of steps within steps the innermost counts
_before: dict[str, object] = {}  # what stood there without us


@contextmanager
def offer_objects(objects: Mapping[str, object], namespace: Mapping[str, object] | None = None) -> Generator[None]:
    """Let the code that runs on this thread find these objects, and none that an outer step was offered.

    Args:
        namespace: in which it runs; where that has builtins of its own, the objects stand there.
    """
    own: Any = (namespace or {}).get("__builtins__")
    if type(own) is dict:
        with _replace_in(cast("dict[str, object]", own), objects):
            yield
        return
    thread = threading.get_ident()
    with _offers_lock:
        stack = _stacks.setdefault(thread, [])
        hidden: Mapping[str, object] = stack[-1] if stack else {}
        stack.append(objects)
        _offer_in_builtins({*hidden, *objects})
    try:
        yield
    finally:
        with _offers_lock:
            stack.pop()
            if not stack:
                del _stacks[thread]
            _offer_in_builtins({*hidden, *objects})


@contextmanager
def _replace_in(scope: dict[str, object], objects: Mapping[str, object]) -> Generator[None]:
    before = {name: scope[name] for name in objects if name in scope}
    scope.update(objects)
    try:
        yield
    finally:
        for name in objects:
            scope.pop(name, None)
        scope.update(before)


def _offer_in_builtins(names: Iterable[str]) -> None:
    scope = builtins.__dict__
    for name in names:
        _before.setdefault(name, scope.get(name, _ABSENT))
        found = [stack[-1][name] for stack in _stacks.values() if name in stack[-1]]
        if found:
            is_same = all(one is found[0] for one in found)
            scope[name] = found[0] if is_same else _ByThread(name)
        elif (before := _before.pop(name)) is _ABSENT:
            scope.pop(name, None)
        else:
            scope[name] = before


class _ByThread:
    """Stands for the object that the calling thread was offered."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _mine(self) -> Any:
        name = object.__getattribute__(self, "_name")
        stack = _stacks.get(threading.get_ident(), [{}])
        if name not in stack[-1]:
            raise NameError(
                f"several agents that run now have another {name!r} each, and none of them runs on this thread"
            )
        return stack[-1][name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._mine()(*args, **kwargs)
