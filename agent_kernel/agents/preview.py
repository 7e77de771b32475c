"""Run code on a fork of this process, look at what it did to the variables, and take that on, or leave it.

The fork sees all that is live here, also what no store can hold, and nothing that it does to memory comes back by itself.
It commits what it changed to commits that nothing names; the parent gives them a branch, and merges that if the preview
is accepted: the code does not run a second time. Where a fork is not safe, a fresh process loads the state from the store,
and does the same (`run_fresh_preview`). What could not be saved has no such way back, so then it does run again,
and that is said beforehand. What the code does outside the variables is real the first time.

    seen = preview("prices.sort(); lowest = prices[0]", state)
    seen.changed      # lowest is new, prices is another: in the fork, not here
    seen.accept()     # now here too

(It runs as an example in docs/how-to/race-and-preview.md. As a doctest it would run in a process that has loaded whatever the
tests before it did, beside some of which a fork is refused.)
"""

from __future__ import annotations

import functools
import os
import pickle
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NoReturn, cast

import msgspec

from agent_kernel.agents.event_log import PREVIEWS, short_run
from agent_kernel.agents.events import ApprovalRequested, Part, pack
from agent_kernel.agents.execution import CodeResult, Executor, PlainExecutor, TaskEnd, offer_objects
from agent_kernel.agents.gate import Allowed, Gate, collect_codes, finding
from agent_kernel.agents.limits import StepTimeout
from agent_kernel.agents.messages import redact
from agent_kernel.agents.side_effects import record_side_effects
from agent_kernel.agents.workers import (
    BEGUN,
    Changed,
    describe_changes,
    describe_death,
    kill_process,
    pickle_value,
    take_output,
    wait_for_end,
)
from agent_kernel.errors import (
    AgentKernelError,
    LoadError,
    MergeConflictError,
    PreviewNotAcceptedError,
    PreviewRefusedError,
    RefNotFoundError,
)
from agent_kernel.quiet import none_at_work
from agent_kernel.repository import ASIDE, Author, Change, Holder, Outputs, Unsaved
from agent_kernel.session import trust
from agent_kernel.session.history import capture_generators, try_generators

if TYPE_CHECKING:
    from agent_kernel.agents.agent import State
    from agent_kernel.agents.execution import ExecutionContext, Executor
    from agent_kernel.agents.executor import RunExecutor
    from agent_kernel.session import Session
    from agent_kernel.session.committing import Report
    from agent_kernel.storage import Store


# -- what code does on a fork of this process, as the child tells it
#
# The child takes on the session without a name for its commits, runs the code as a step, and sends what came of it. In a
# store in memory it sends along the objects that only it can see.


# -- whether this process can be forked, and a fork that is watched until it has ended
#
# A child has all memory of its parent and only the thread that forked. A lock that another thread held then is held in the
# child for ever, and the threads of OpenMP and of CUDA are not there though their libraries believe so: their next use
# hangs, or worse. So a fork is refused where such threads are, and nothing here guesses that it will go well.

GRACE_S = 2.0  # for ending in good order, beyond the deadline
_QUIET_S: Final = 1.0  # that threads of ours which are at work have to come to an end
_PR_SET_PDEATHSIG = 1
_MOST_OUTPUT = 1_000_000
# Threads that are known to hold nothing that a child needs: ours, and those of the kernel and of IPython.
_OURS: Final = re.compile(
    r"agent-kernel\b.*|IOPub|Heartbeat|Control|Shell channel|subshell-.*|IPythonHistorySavingThread"
    r"|Thread-\d+ \(_watch_pipe_fd\)|Thread-\d+ \(_watch_streams\)|pydevd.*|execnet.*|pytest_timeout.*"
)
_THEIRS: Final = frozenset({"ipykernel", "IPython", "zmq"})
_POOLS: Final = ("jax", "tensorflow", "cupy", "polars", "duckdb")
_OPENMP: Final = re.compile(r"/(?:lib(?:[gi]omp5?|omp)\b[^/]*\.so[^/]*|lib(?:i?omp5?|omp)[^/]*\.dylib)$")


def fork_refusal() -> str:
    """Why this process must not be forked now, in one line; "" if nothing is known against it."""
    if not hasattr(os, "fork") or sys.platform in ("emscripten", "wasi"):
        return "this system cannot fork"
    if threading.current_thread() is not threading.main_thread():
        return f"the step would run on thread {threading.current_thread().name!r}, and only the main one can be forked from"
    with none_at_work(_QUIET_S) as busy:
        return _cuda() or _pools() or _openmp() or _threads() or (_of_threads([busy]) if busy else "")


def _cuda() -> str:
    torch: Any = sys.modules.get("torch")
    with suppress(AttributeError):
        if torch is not None and torch.cuda.is_initialized():
            return "CUDA is in use, which a forked process cannot use"
    return ""


def _pools() -> str:
    """Libraries with thread pools of their own that nothing tells apart from harmless ones once they are loaded."""
    found = next((name for name in _POOLS if name in sys.modules), "")
    return f"{found} is loaded, whose own threads do not survive a fork" if found else ""


def _openmp() -> str:
    """OpenMP with threads that run: a fork's next use of it waits for them, and they are not there."""
    paths = _find_mapped_openmp()
    if not paths or not _native_threads():
        return ""
    many = max((_most_threads(path) for path in paths), default=1)
    if many <= 1:
        return ""
    users = [
        name for name in ("torch", "sklearn", "xgboost", "lightgbm", "faiss", "mkl", "numba") if name in sys.modules
    ]
    of = f" ({', '.join(users)})" if users else ""
    return f"OpenMP runs {many} threads in this process{of}, and a fork's next use of it would hang"


def _find_mapped_openmp() -> set[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # no Linux: what loads OpenMP is known by name
        return {""} if {"torch", "sklearn", "xgboost", "lightgbm"} & sys.modules.keys() else set()
    return {path for line in lines if _OPENMP.search(path := line[line.find("/") :])}


def _most_threads(path: str) -> int:
    if not path:
        return os.cpu_count() or 1
    import ctypes

    try:
        return int(ctypes.CDLL(path).omp_get_max_threads())
    except (OSError, AttributeError):
        return os.cpu_count() or 1


def _native_threads() -> bool:
    """Whether there are threads that Python knows nothing of, and that are not of ZMQ."""
    known = {thread.native_id for thread in threading.enumerate()}
    try:
        tasks = list(Path("/proc/self/task").iterdir())
    except OSError:
        return True
    for task in tasks:
        with suppress(OSError):
            if int(task.name) not in known and not (task / "comm").read_text().startswith("ZMQbg"):
                return True
    return False


def _threads() -> str:
    """Python's other threads, but for those that are known."""
    others = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and thread.is_alive() and not _is_known(thread)
    ]
    return _of_threads(others) if others else ""


def _of_threads(others: list[str]) -> str:
    named = ", ".join(repr(name) for name in others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    is_one = len(others) == 1
    return f"{'thread' if is_one else 'threads'} {named} {'runs' if is_one else 'run'}, and may hold a lock that a fork would wait for"


def _is_known(thread: threading.Thread) -> bool:
    """Ours by its name (see `quiet`), the kernel's own by its class (some of those have no name), or one of a pool, without work."""
    is_theirs = type(thread).__module__.partition(".")[0] in _THEIRS
    return _OURS.fullmatch(thread.name) is not None or is_theirs or _is_idle(thread)


def _is_idle(thread: threading.Thread) -> bool:
    """Whether it is a pool's and waits for work: where it waits it holds nothing."""
    frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
    if frame is None or frame.f_globals.get("__name__") != "concurrent.futures.thread":
        return False
    return frame.f_code.co_name == "_worker"  # not `run`, which may be within a function of C


# -- the fork


class Ended(msgspec.Struct, frozen=True):
    """What became of a child: what it answered, what it printed past Python, and how it died, if it did."""

    answer: bytes
    printed: str
    died: str = ""  # crashed or killed
    why: str = ""
    seconds: float = 0.0


def run_in_fork(work: Callable[[Callable[[bytes], None]], None], deadline_s: float) -> Ended:
    """Run `work` on a fork of this process, and wait until it has ended; at the latest it is killed after the deadline.

    `work` is given what sends its answer. Nothing is left of the child, nor of what it started in its process group.
    """
    reading, answering = os.pipe()
    hearing, printing = os.pipe()
    follow, parent = _following(), os.getpid()
    with warnings.catch_warnings(), none_at_work(_QUIET_S) as busy:
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside other threads, which were looked at
        pid = -1 if busy else os.fork()
    if pid < 0:  # it began since `fork_refusal` was asked
        for one in (reading, answering, hearing, printing):
            os.close(one)
        return Ended(b"", "", "killed", f"it was not started: {_of_threads([busy])}")
    if pid == 0:
        follow()
        if os.getppid() != parent:  # it died in between
            os._exit(1)
        _child(work, answering, printing)
    os.close(answering)
    os.close(printing)
    began = time.monotonic()
    with suppress(OSError):
        os.setpgid(pid, pid)  # the child does so too: whoever comes first
    try:
        return _watch_child(pid, reading, hearing, began, deadline_s)
    finally:
        _end(pid)
        os.close(reading)
        os.close(hearing)


@functools.cache
def _following() -> Callable[[], object]:
    """What lets a child die with its parent, where the system knows of that; elsewhere its deadline ends it."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # here: a child should load nothing

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _child(work: Callable[[Callable[[bytes], None]], None], answering: int, printing: int) -> NoReturn:
    status = 1
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        _forget_parent(printing)

        def send(answer: bytes) -> None:
            view = memoryview(answer)
            while view:
                view = view[os.write(answering, view) :]

        work(send)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent's code must not go on in the child
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)  # no exit function, no buffer, no thread of the parent's


def _forget_parent(printing: int) -> None:
    """Take the child off what it shares with its parent: its output, its signals, its input."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)  # else a signal of the child would wake the parent's event loop
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.dup2(printing, 1)
    os.dup2(printing, 2)
    if "faulthandler" in sys.modules and sys.modules["faulthandler"].is_enabled():
        sys.modules["faulthandler"].enable(2)  # it kept the parent's own stream
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _watch_child(pid: int, reading: int, hearing: int, began: float, deadline_s: float) -> Ended:
    received: dict[int, bytearray] = {reading: bytearray(), hearing: bytearray()}
    open_ones = {reading, hearing}
    for one in open_ones:
        os.set_blocking(one, False)
    status: int | None = None
    is_late = False
    while status is None:
        if not open_ones:
            time.sleep(0.005)
        for one in select.select(list(open_ones), [], [], 0.02)[0] if open_ones else ():
            _drain(one, received, open_ones, reading)
        found, code = os.waitpid(pid, os.WNOHANG)
        if found:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() - began > deadline_s + GRACE_S:
            is_late = True
            _kill(pid)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for one in tuple(open_ones):  # what it sent last; what its own children still print is not waited for
        _drain(one, received, open_ones, reading)
    printed = received[hearing].decode("utf-8", "replace")
    seconds = time.monotonic() - began
    answer = bytes(received[reading])
    if is_late:
        return Ended(b"", printed, "killed", f"it did not end within {deadline_s:g} s, and was killed", seconds)
    if status < 0:
        return Ended(b"", printed, "crashed", f"it crashed: {_name(-status)}", seconds)
    if not answer or status:
        last = printed.strip().splitlines()[-1:] if status == 1 else []
        why = f"it ended with exit status {status}, and said nothing" + (f": {last[0][:300]}" if last else "")
        return Ended(b"", printed, "crashed", why, seconds)
    return Ended(answer, printed, seconds=seconds)


def _drain(one: int, received: dict[int, bytearray], open_ones: set[int], reading: int) -> None:
    with suppress(BlockingIOError):
        while True:
            piece = os.read(one, 1 << 16)
            if not piece:
                open_ones.discard(one)
                return
            if one == reading or len(received[one]) < _MOST_OUTPUT:
                received[one] += piece


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _end(pid: int) -> None:
    """End it and its group, and take its status, if nobody did yet."""
    try:
        found, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # it has ended: what it left in its group goes
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        return
    _kill(pid)
    if not found:
        os.waitpid(pid, 0)


Status = Literal["ok", "failed", "interrupted", "timeout", "crashed", "killed", "stopped"]
STOPPED: Final = "it was stopped before this happened: approving runs it here"

_PAGE = 10_000


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Code to be tried, as a step of a run or by itself.

    Attributes:
        offers: what the code finds beside the variables.
        allowed: names that need no asking; what else would happen outside is stopped. None: nothing is.
    """

    code: str
    author: Author
    run: str = ""
    step: int = 0
    deadline_s: float
    offers: dict[str, object] = {}
    allowed: Collection[str] | None = None


class PreviewResult(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"task_end": "settled", "result_text": "said", "side_effects": "effects"},
):
    """What a fork did, as it says so itself; `tip` is the commit that it led to, in hex digits.

    Attributes:
        again: why accepting it would run the code again; "": it does not.
        task_end, value, result_text: how the code ended its run, with what, pickled, or in words.
        stopped: what it would have done outside, before which it was ended: what, target.
        items: objects that the fork stored where only it can see them.
    """

    status: Status
    text: str = ""
    parts: tuple[Part, ...] = ()
    outputs: Outputs | None = None
    error: tuple[str, str] | None = None
    task_end: Literal["", "success", "fail", "clarify"] = ""
    value: bytes | None = None
    result_text: str = ""
    changed: tuple[Changed, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    side_effects: tuple[tuple[str, str, int], ...] = ()
    stopped: tuple[tuple[str, str], ...] = ()
    tip: str = ""
    again: str = ""
    why: str = ""
    seconds: float = 0.0
    items: dict[bytes, bytes] = {}


def run_preview(attempt: Attempt, context: ExecutionContext) -> PreviewResult:
    """Run code on a fork of this process, and say what it did there. All that is here has to be committed."""
    drawn = capture_generators()

    def work(send: Callable[[bytes], None]) -> None:
        try_generators(drawn)()  # Python seeds its generator anew in a fork
        send(pack(_in_child(attempt, context)))

    ended = run_in_fork(work, attempt.deadline_s)
    printed = _redact_environment(context, ended.printed)
    if not ended.answer:
        return PreviewResult(
            status="killed" if ended.died == "killed" else "crashed",
            text=printed,
            parts=(Part("text/plain", printed),) if printed else (),
            why=ended.why,
            again=f"{ended.why}: approving runs it here",
            seconds=ended.seconds,
        )
    result = msgspec.msgpack.decode(ended.answer, type=PreviewResult)
    if printed:  # past Python: C code, other programs
        parts = (*result.parts, Part("text/plain", printed))
        result = msgspec.structs.replace(result, text=result.text + printed, parts=parts)
    return _store_items(context, result)


def _redact_environment(context: ExecutionContext, text: str) -> str:
    context.redactor.learn_environment()
    return context.redactor.without_environment(text)


def _store_items(context: ExecutionContext, result: PreviewResult) -> PreviewResult:
    """Store what only the child could see."""
    if result.items and context.session is not None:
        context.session.repo.store.put_many(result.items)
    return msgspec.structs.replace(result, items={})


# -- in the child


def _in_child(attempt: Attempt, context: ExecutionContext) -> PreviewResult:
    session = context.session
    stored = _keys(session.repo.store) if session is not None and _is_in_memory(context) else None
    context.executor = _executor_in_child(context)
    if session is not None:
        session.in_fork()
    result = in_process(attempt, context)
    items = _new(session.repo.store, stored) if session is not None and stored is not None else {}
    return msgspec.structs.replace(result, items=items)


def in_process(attempt: Attempt, context: ExecutionContext) -> PreviewResult:
    """Run code as a step in this process, which is there for nothing else, and say what it did."""
    start = context.head
    gate = None
    if attempt.allowed is not None:
        codes = collect_codes(attempt.offers.values())
        url = context.session.repo.store.url if context.session is not None else ""
        gate = Gate(Allowed(names=frozenset(attempt.allowed), codes=codes), url)
    context.begin(attempt.code, attempt.author, attempt.run, attempt.step)
    executed: CodeResult | None = None
    with record_side_effects(context.quiet_paths(), gate) as recorder:
        try:
            with offer_objects(attempt.offers, context.namespace):
                executed = context.redact_environment(context.executor.run(attempt.code, timeout_s=attempt.deadline_s))
        finally:
            with gate.committing() if gate is not None else nullcontext():
                changes, unsaved, _ = context.end(executed)
    assert executed is not None  # else an error goes on its way already
    result = PreviewResult(
        status=executed.status,
        text=executed.text,
        parts=executed.parts,
        outputs=executed.outputs,
        error=_error(executed.error),
        changed=_describe_changes(context, start, changes),
        unsaved=tuple(unsaved),
        side_effects=tuple((what, target, count) for (what, target), count in recorder.found.items()),
        tip=context.head,
        seconds=executed.seconds,
    )
    if gate is not None and gate.stopped:
        return msgspec.structs.replace(result, status="stopped", stopped=tuple(gate.stopped), again=STOPPED, changed=())
    return _with_end(result, executed.task_end, context)


def _executor_in_child(context: ExecutionContext) -> Executor:
    """What runs code here without touching a connection to a front end."""
    own: Callable[[], Executor] | None = getattr(context.executor, "in_fork", None)
    return own() if own is not None else PlainExecutor(context.namespace)


def _error(error: BaseException | None) -> tuple[str, str] | None:
    if error is None:
        return None
    messages = [argument for argument in error.args[:1] if type(argument) is str]
    return type(error).__name__, messages[0][:2_000] if messages else ""


def _describe_changes(context: ExecutionContext, start: str, changes: list[Change]) -> tuple[Changed, ...]:
    session = context.session
    if session is None or session.head is None:
        return tuple(Changed(one.how, one.name, "" if one.how == "-" else context.summary(one.name)) for one in changes)
    return describe_changes(session.repo, session.repo.resolve(start) if start else None, session.head)


def _with_end(result: PreviewResult, task_end: TaskEnd | None, context: ExecutionContext) -> PreviewResult:
    """With how the code ended its run, and why its changes could not be taken on as they are, if so."""
    unsaved = sorted({one.name for one in result.unsaved} & {one.name for one in result.changed})
    again = f"{', '.join(unsaved)} cannot be saved: approving runs the code again" if unsaved else ""
    if context.session is None:
        again = "this state has no history to merge into: approving runs the code again"
    if task_end is None:
        return msgspec.structs.replace(result, again=again)
    if task_end.how != "success":
        return msgspec.structs.replace(
            result, again=again, task_end=task_end.how, result_text=str(task_end.value)[:4_000]
        )
    value = _by_name_or_value(task_end.value)
    if value is None:
        again = again or "its result cannot be pickled: approving runs the code again"
    text = preview_line(task_end.value)
    return msgspec.structs.replace(result, again=again, task_end="success", value=value, result_text=text)


def preview_line(value: object) -> str:
    """One line about a value that no name is bound to."""
    from agent_kernel.values import previews

    return previews.line(previews.make_preview(value, "result"))


def _by_name_or_value(value: object) -> bytes | None:
    """The value as bytes; where it can be, classes go by their names, so that the parent finds its own."""
    with suppress(Exception):
        return pickle.dumps(value)
    return pickle_value(value)


def _is_in_memory(context: ExecutionContext) -> bool:
    return context.session is not None and context.session.repo.store.url.startswith("memory:")


def _keys(store: Store) -> set[bytes]:
    found: set[bytes] = set()
    last = b""
    while keys := store.keys(b"", last, _PAGE):
        found.update(keys)
        last = keys[-1]
    return found


def _new(store: Store, before: set[bytes]) -> dict[bytes, bytes]:
    return store.get_many(_keys(store) - before)


_DEADLINE_S = 60.0
_PREVIEW_AGAIN = "preview the code again to run it on the variables as they are now; reject() discards this preview"


def preview(
    code: str,
    state: State | None = None,
    *,
    deadline_s: float = _DEADLINE_S,
    offers: Mapping[str, object] | None = None,
) -> Preview:
    """Run code on a fork of this process; see what it did, then `accept` or `reject` it.

    Args:
        state: None: the notebook that this runs in.
        offers: what the code finds beside the variables.

    Raises:
        NotBoundError: no state is given, and no notebook is bound in this process.
        PreviewRefusedError: a fork is not safe now, and a fresh process would not have what it needs; it says why. Nothing ran.
    """
    from agent_kernel.agents.agent import open_context
    from agent_kernel.agents.current import here

    context = here() if state is None else open_context(state)
    return preview_code(code, context, deadline_s=deadline_s, offers=offers)


def preview_code(
    code: str,
    context: ExecutionContext,
    *,
    author: Author | None = None,
    run: str = "",
    step: int = 0,
    deadline_s: float = _DEADLINE_S,
    offers: Mapping[str, object] | None = None,
    allowed: Collection[str] | None = None,
) -> Preview:
    """The same for a step of a run.

    Args:
        allowed: names that need no asking; what else would happen outside is stopped. None: nothing is.

    Raises:
        PreviewRefusedError: it cannot be tried.
    """
    session = context.session
    if session is not None:
        session.before_fork()
    reason = refusal(code, context)  # only a commit tells what cannot be saved
    if reason:
        raise PreviewRefusedError(reason, lacks(context, code))
    by = author or (session.author if session is not None else Author("agent", "agent"))
    try_it = run_fresh_preview if fork_refusal() else run_preview
    attempt = Attempt(
        code=code, author=by, run=run, step=step, deadline_s=deadline_s, offers=dict(offers or {}), allowed=allowed
    )
    return Preview(context, code, try_it(attempt, context), run=run)


def refusal(code: str, context: ExecutionContext) -> str:
    """Why the code can be tried neither on a fork nor in a fresh process; "" if nothing is known against one of them."""
    fork = fork_refusal()
    if not fork:
        return ""
    other = fresh_refusal(context, code)
    return f"{fork}, and {other}" if other else ""


class Preview:
    """Code that ran on a fork, and what it did there. It holds nothing but a branch, until it is accepted or rejected."""

    def __init__(
        self, context: ExecutionContext, code: str, result: PreviewResult, branch: str = "", run: str = ""
    ) -> None:
        self.code = code
        self.seen = result
        self._context = context
        self._decided = ""
        self.branch = branch
        session = context.session
        self._lease: Holder | None = None
        if not branch and session is not None and result.tip and not result.again:
            self._name(session, run)

    def _name(self, session: Session, run: str) -> None:
        """Give what it did a branch. One of a run is looked after by that; any other is this process's as long as it lives."""
        named = f"{PREVIEWS}{secrets.token_hex(4)}"
        if run:
            named = f"{named}-{short_run(run)}"
        else:
            self._lease = Holder.of_this_process(ASIDE + secrets.token_hex(4))
            session.repo.acquire_lease(named, self._lease)
        session.repo.create_branch(named, session.repo.resolve(self.seen.tip))
        self.branch = named

    def __repr__(self) -> str:
        names = ", ".join(f"{one.how}{one.name}" for one in self.changed) or "nothing changed"
        return f"<Preview, {self.status}{f' ({self.error})' if self.error else ''}: {names}>"

    @property
    def status(self) -> Status:
        """How it ended: `ok`, `failed`, `interrupted`, `timeout`, or without an answer: `crashed`, `killed`."""
        return self.seen.status

    @property
    def error(self) -> str:
        """Why it did not come to its end, in one line: what it raised, or what ended it."""
        if self.status == "ok":
            return ""
        if self.seen.why or self.seen.error is None:
            return self.seen.why or self.status
        name, message = self.seen.error
        return ": ".join(filter(None, (name, message.partition("\n")[0][:200])))

    @property
    def text(self) -> str:
        """What it printed and showed."""
        return self.seen.text

    @property
    def changed(self) -> tuple[Changed, ...]:
        """The variables that are others then."""
        return self.seen.changed

    @property
    def effects(self) -> tuple[tuple[str, str, int], ...]:
        """What it did outside the variables, which has happened: what, target, how often."""
        return self.seen.side_effects

    @property
    def told(self) -> str:
        """What somebody has to know before they accept it, if anything: that the code would run again, and why.

        Of code that did not come to its end: what ended it. That cannot be accepted.
        """
        return self.error or self.seen.again

    def accept(self, run: str = "") -> Report | None:
        """Take on what it did, as if it had run here. Where that cannot be (`told`), the code runs here, now.

        Raises:
            MergeConflictError: the same variables were changed here meanwhile. Nothing was changed; preview the code again.
            PreviewNotAcceptedError: it failed or was ended, or it was accepted or rejected before. Nothing was changed.
        """
        if self._decided:
            raise PreviewNotAcceptedError(f"it was {self._decided} before")
        if self.status != "ok":
            raise PreviewNotAcceptedError(f"its code did not come to its end ({self.error})")
        session = self._context.session
        with session.taking("the preview") if session is not None and not run else nullcontext():
            report = self._run_again(run) if self.seen.again else self.take(run)
        self._decided = "accepted"
        return report

    def take(self, run: str = "") -> Report:
        """Merge what it did; the branch goes. Raises: MergeConflictError, LoadError: nothing was changed."""
        session = self._context.session
        if session is None or not self.branch:
            raise RefNotFoundError(self.branch or "preview", ())
        try:
            report = session.take_step(self.branch, run)
        except MergeConflictError as error:
            error.remedy = _PREVIEW_AGAIN
            raise
        self._drop()
        return report

    def _run_again(self, run: str) -> Report | None:
        context = self._context
        author = context.session.author if context.session is not None else Author("agent", "agent")
        context.begin(self.code, author, run, 0)
        result: CodeResult | None = None
        try:
            result = context.executor.run(self.code, timeout_s=None)
        finally:
            context.end(result)
        assert result is not None  # else an error goes on its way already
        if result.error is not None:
            raise result.error
        return None

    def reject(self) -> None:
        """Leave what it did; nothing stays of it but what it did outside the variables."""
        self._decided = self._decided or "rejected"
        self._drop()

    def _drop(self) -> None:
        session = self._context.session
        if self.branch and session is not None:
            if self._lease is not None:
                session.repo.release_lease(self.branch, self._lease)
            with suppress(RefNotFoundError):
                session.repo.delete_branch(self.branch, force=True)
        self.branch = ""

    # -- as a step of a run

    def to_code_result(self) -> CodeResult:
        """What running it came to, as of code that ran here."""
        result = self.seen
        return CodeResult(
            result.text, result.parts, result.outputs, _rebuild_error(result), _rebuild_task_end(result), result.seconds
        )

    def pack(self) -> bytes:
        """What somebody who accepts it elsewhere has to have."""
        return msgspec.msgpack.encode(self.seen)

    @classmethod
    def restore(cls, context: ExecutionContext, code: str, payload: bytes, branch: str) -> Preview:
        """A preview that was made before, perhaps in another process.

        Raises:
            UntrustedStoreError: the store was made by someone else: what it holds is not unpickled.
        """
        from agent_kernel.session import trust

        if context.session is not None:
            trust.require(context.session.repo)
        result = msgspec.msgpack.decode(payload, type=PreviewResult)
        session = context.session
        if not result.again and (session is None or session.repo.branches().get(branch) is None):
            result = msgspec.structs.replace(result, again="what it changed is not there any more: the code runs again")
        return cls(context, code, result, branch)

    # -- faces

    def __str__(self) -> str:
        lines = [f"preview: {self.status}{f', {self.error}' if self.error else ''}"]
        lines += [f"  {one.how} {one.name}{f': {one.summary}' if one.summary else ''}" for one in self.changed]
        lines += [] if self.changed else ["  no variable changed"]
        lines += [f"  has happened already: {what} {target}" for what, target, _ in self.effects]
        lines += [f"  {self.seen.again}"] if self.seen.again and not self.error else []
        output = redact(self.text, 2_000).rstrip()
        return "\n".join([*lines, *(["output:", output] if output else [])])

    def _repr_html_(self) -> str:
        from html import escape

        return f'<pre class="agent-kernel-preview">{escape(str(self))}</pre>'


def _rebuild_error(result: PreviewResult) -> BaseException | None:
    """An error like the one that was raised there: its own class may be known there alone."""
    match result.status:
        case "ok":
            return None
        case "interrupted":
            return KeyboardInterrupt()
        case "timeout":
            return StepTimeout(result.seconds)
        case _:
            name, message = result.error or ("Error", result.why)
            return cast("BaseException", type(name, (Exception,), {})(message))


def _rebuild_task_end(result: PreviewResult) -> TaskEnd | None:
    if not result.task_end:
        return None
    value: Any = result.result_text if result.value is None else pickle.loads(result.value)
    return TaskEnd(result.task_end, value)


# -- a step of a run, tried on a fork before anybody is asked about it


_STEP_S = 60.0  # that a step has on the fork where no limit says anything
_MOST_HELD = 4 << 20


def step_refusal_reason(request: ApprovalRequested, context: ExecutionContext) -> str:
    """Why the step cannot be tried; "" if nothing is known against it."""
    if any(one.kind == "agent" for one in request.findings):
        return "no preview: it lets other agents work, whose runs would be lost with a fork"
    return refusal(request.code, context)


def try_step(run_executor: RunExecutor, request: ApprovalRequested, step: int) -> ApprovalRequested:
    """What is asked, with what the step did on a fork; where there can be none, why."""
    log = run_executor.log
    seconds = run_executor.step_s()
    try:
        tried = preview_code(
            request.code,
            run_executor.context,
            author=Author(log.start.agent, "agent"),
            run=log.run,
            step=step,
            deadline_s=_STEP_S if seconds is None else seconds,
            offers=run_executor.offers,
            allowed=None if run_executor.setup.approve == "auto" else run_executor.setup.allowed,
        )
    except PreviewRefusedError as refused:
        return msgspec.structs.replace(request, preview="refused", told=str(refused))
    payload = tried.pack() if tried.branch else b""
    note = tried.seen.again or tried.seen.why
    stopped = tuple((what, run_executor.context.redact(target, 300)) for what, target in tried.seen.stopped)
    if len(payload) > _MOST_HELD:
        tried.reject()
        payload, note = b"", "what it gave back is too large to be kept: approving runs the code again"
    return msgspec.structs.replace(
        request,
        preview=tried.status,
        told=note,
        changed=tuple((one.how, one.name, one.summary) for one in tried.changed),
        output=run_executor.context.redact_output(tried.text, run_executor.setup.limits.output_chars),
        error="" if tried.error == note else run_executor.context.redact_output(tried.error, 500),
        settled=tried.seen.task_end,
        result=run_executor.context.redact_output(tried.seen.result_text, 2_000),
        effects=tuple((what, run_executor.context.redact(target, 300), count) for what, target, count in tried.effects),
        stopped=stopped,
        findings=(*request.findings, *(finding(*one) for one in stopped)),
        branch=tried.branch,
        held=payload,
    )


AcceptedStep = tuple[CodeResult, list[Change], list[Unsaved], dict[tuple[str, str], int]]


def accept_step(context: ExecutionContext, request: ApprovalRequested, run: str) -> AcceptedStep | None:
    """Merge what a step did on a fork, and say what it came to; None: what is here now does not go with it."""
    tried = Preview.restore(context, request.code, request.held, request.branch)
    try:
        if tried.seen.again:
            return None
        report = tried.take(run)
    except (MergeConflictError, LoadError, RefNotFoundError):
        return None
    finally:
        tried.reject()
    side_effects = {(what, target): count for what, target, count in tried.effects}
    return tried.to_code_result(), list(report.changed), list(tried.seen.unsaved), side_effects


def drop_preview(context: ExecutionContext, request: ApprovalRequested) -> None:
    """Let go of what a step did on a fork."""
    if request.branch and context.session is not None:
        with suppress(RefNotFoundError):
            context.session.repo.delete_branch(request.branch, force=True)


# -- a fresh process, where a fork would not do
#
# Its state comes from the store, as a worker's does.
#
# It is started, not forked: no lock, no thread and no library's pool comes along, and no variable that the store does not
# have. So it is slower than a fork, and code that uses such a variable has no preview. What it did is committed on a branch
# of its own, and is taken on as what a fork did.


_NAME = re.compile(r"[^\W\d]\w*")
_LOADING_S = 60.0  # for the variables, before the code begins
_BEGIN = """\
import pickle, sys
given = open(0, "rb", closefd=False)
sys.path[:] = pickle.load(given)
from agent_kernel.agents.preview import main
main(given)
"""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """All that the process has to know.

    Attributes:
        branch: which it works on; it points at where the code begins.
        offers: pickled, what the code finds beside the variables.
        executor: `MODULE:FUNCTION`, which makes of a namespace what runs code in it; "": as a script.
        allowed: as of `Attempt`.
        secret: of a store that only the process that asks trusts.
    """

    url: str
    branch: str
    session: str
    code: str
    author: str
    kind: str
    run: str
    step: int
    deadline_s: float
    offers: bytes
    executor: str
    allowed: tuple[str, ...] | None
    secret: str = ""


def fresh_refusal(context: ExecutionContext, code: str) -> str:
    """Why a fresh process cannot try this code; "" if nothing is known against it."""
    session = context.session
    if session is None:
        return "this state has no history that another process could load"
    if session.repo.store.url.startswith("memory:"):
        return "a store in memory is seen by this process alone"
    used = lacks(context, code)
    return f"{', '.join(used)} cannot be saved, so that another process does not have it" if used else ""


def lacks(context: ExecutionContext, code: str) -> tuple[str, ...]:
    """The variables that the code uses and a fresh process does not have."""
    session = context.session
    return () if session is None else tuple(sorted(_find_unsaved(session) & set(_NAME.findall(code))))


def _find_unsaved(session: Session) -> set[str]:
    return {name for one in session.status(names=False).lost for name in one.name.split(", ")}


def run_fresh_preview(attempt: Attempt, context: ExecutionContext) -> PreviewResult:
    """Run code in a fresh process, and say what it did there. All that is here has to be committed."""
    session = context.session
    assert session is not None
    if session.head is None:  # a branch begins at a commit
        session.commit("before a preview", full=True)
    assert session.head is not None
    name, offers = secrets.token_hex(4), _pickle_offers(attempt.offers, attempt.code)
    trial = Trial(
        url=session.repo.store.url,
        branch=f"{PREVIEWS}{name}{f'-{short_run(attempt.run)}' if attempt.run else ''}",
        session=ASIDE + name,
        code=attempt.code,
        author=attempt.author.name,
        kind=attempt.author.kind,
        run=attempt.run,
        step=attempt.step,
        deadline_s=attempt.deadline_s,
        offers=offers,
        executor=str(getattr(context.executor, "in_worker", "")),
        allowed=None if attempt.allowed is None else tuple(attempt.allowed),
        secret=trust.secret_to_pass_on(session.repo),
    )
    repo = session.repo
    repo.create_branch(trial.branch, session.head)
    try:
        result = _supervise(trial)
    finally:
        repo.drop_head(trial.session)
        with suppress(RefNotFoundError):
            repo.delete_branch(trial.branch, force=True)
    unsaved = sorted(_find_unsaved(session))
    if result.status == "failed" and unsaved and not result.again:
        why = f"it ran in another process, which does not have {', '.join(unsaved)}: approving runs it here"
        return msgspec.structs.replace(result, again=why)
    return result


def _pickle_offers(offers: dict[str, object], code: str) -> bytes:
    """What the code finds beside the variables, less what cannot travel. Raises: PreviewRefusedError: the code names that."""
    import cloudpickle

    found: dict[str, bytes] = {}
    for name, value in offers.items():
        try:
            found[name] = cloudpickle.dumps(value)
        except Exception as error:
            if name in set(_NAME.findall(code)):
                reason = f"{fork_refusal()}, and {name} cannot be given to another process"
                raise PreviewRefusedError(f"{reason} ({type(error).__name__})", (name,)) from error
    return msgspec.msgpack.encode(found)


def _supervise(trial: Trial) -> PreviewResult:
    began = time.monotonic()
    with (
        tempfile.TemporaryFile() as input_file,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as error_file,
    ):
        pickle.dump(sys.path, input_file)
        input_file.write(pack(trial))
        input_file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _BEGIN],
            stdin=input_file,
            stdout=answer,
            stderr=error_file,
            start_new_session=True,
        )
        try:
            late = wait_for_end(process, answer.fileno(), trial.deadline_s + _LOADING_S, None)
        finally:
            kill_process(process)
        answer.seek(len(BEGUN))
        try:
            return msgspec.msgpack.decode(answer.read(), type=PreviewResult)
        except msgspec.DecodeError:
            why = late or describe_death(process.returncode, error_file)
    return PreviewResult(
        status="killed" if late else "crashed",
        why=why,
        again=f"{why}: approving runs it here",
        seconds=time.monotonic() - began,
    )


# -- in the process


def main(input_file: BinaryIO) -> None:
    """What the process does: read what to try, try it, write what came of it, and end."""
    answer = take_output()
    trial = msgspec.msgpack.decode(input_file.read(), type=Trial)
    answer.write(BEGUN)
    answer.flush()
    # Functions and classes of the notebook say that they are from here.
    module = sys.modules["__main__"] = ModuleType("__main__")
    answer.write(pack(_run_trial(trial, module)))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and exit functions that the code left must not keep it


def _run_trial(trial: Trial, module: ModuleType) -> PreviewResult:
    import cloudpickle

    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.session.session import Session as Joined
    from agent_kernel.session.snapshot import Repository

    namespace = module.__dict__
    if trial.secret:
        trust.trust_temporarily(trial.secret, trial.url)
    try:
        with Repository.open(trial.url, create=False) as repo:
            executor = _executor(trial.executor, module)
            skip: Callable[[str], bool] | None = getattr(executor, "skip", None)
            session = Joined(namespace, repo, branch=trial.branch, session_id=trial.session, skip=skip)
            try:
                session.checkout(partial=True)
                offers = msgspec.msgpack.decode(trial.offers, type=dict[str, bytes])
                attempt = Attempt(
                    code=trial.code,
                    author=Author(trial.author, "agent" if trial.kind == "agent" else "person"),
                    run=trial.run,
                    step=trial.step,
                    deadline_s=trial.deadline_s,
                    offers={name: cloudpickle.loads(value) for name, value in offers.items()},
                    allowed=trial.allowed,
                )
                return in_process(attempt, ExecutionContext(namespace, session, executor=executor))
            finally:
                session.close()
    except AgentKernelError as error:
        return PreviewResult(status="crashed", why=str(error), again=f"{error}: approving runs it here")


def _executor(name: str, module: ModuleType) -> Executor | None:
    if not name:
        return None
    where, _, what = name.partition(":")
    make: Callable[[ModuleType], Executor] = getattr(import_module(where), what)
    return make(module)
