"""What code does on a fork of this process, as the child tells it.

The child takes on the session without a name for its commits, runs the code as a step, and sends what came of it. In a
store in memory it sends along the objects that only it can see.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import msgspec

from agent_kernel.agents.events import Part, pack
from agent_kernel.agents.execution import CodeResult, Executor, PlainExecutor, TaskEnd, offer_objects
from agent_kernel.agents.gate import Allowed, Gate, collect_codes
from agent_kernel.agents.side_effects import record_side_effects
from agent_kernel.agents.workers import Changed, describe_changes, pickle_value
from agent_kernel.quiet import none_at_work
from agent_kernel.repository import Author, Change, Outputs, Unsaved
from agent_kernel.session.history import capture_generators, try_generators

if TYPE_CHECKING:
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.storage import Store

__all__ = ["Attempt", "Ended", "PreviewResult", "Status", "in_process", "refusal", "run_in_fork", "run_preview"]


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


def refusal() -> str:
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
    if pid < 0:  # it began since `refusal` was asked
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
    context.executor = _executor(context)
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


def _executor(context: ExecutionContext) -> Executor:
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
