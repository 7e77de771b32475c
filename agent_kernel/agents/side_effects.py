"""What a step did outside the variables, as Python's audit hooks tell it: files written, processes, connections.

It is a record, not a fence: C code can act without telling. Going back covers none of it, and whoever goes back is told.
Where the step has a `gate`, what that does not let pass is stopped here before it happens.

A hook can never be taken out again, so without a step it must cost next to nothing: one look at a list. What happens
belongs to the step on whose thread it happens, and to the one whose code started that thread. On a thread that nobody
started within a step it belongs to the only step that there is; of several, to none. The gate of a step stays shut for its
threads, and for the callbacks and tasks that it left in an event loop, when the step has ended.
"""

from __future__ import annotations

import _thread
import functools
import inspect
import io
import os
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from agent_kernel.agents.gate import Gate


# -- have methods of known libraries whose compiled code writes say so before they do: Python has no audit event for them
#
# Each is replaced in its class by one that tells the hook of `side_effects` what it was given and calls it. A library that is not
# loaded yet is met as its import ends. What other compiled code does by itself is seen by nobody.
#
# Only methods, and only of classes that let themselves be changed. A function or class that a module holds stays the object that
# it is: variables hold it too, and are saved as its name. And some functions, such as `duckdb.sql`, look for variables in the frame
# of whoever calls them.

WRITES: Final = "agent_kernel.compiled.writes"
LISTENS: Final = "agent_kernel.compiled.listens"

_Args: TypeAlias = Sequence[Any]
_Words: TypeAlias = Mapping[str, Any]
_Says: TypeAlias = Callable[[_Args, _Words], Iterator[tuple[str, str]]]  # event, and on what
_Hear: TypeAlias = Callable[[str, tuple[Any, ...]], None]


def _describe_path_write(*names: str) -> _Says:
    """A file is written where the first argument, or one of these names, is a path. What has a `write` is open already."""

    def says(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
        target: Any = args[1] if len(args) > 1 else next((words[name] for name in names if name in words), None)
        if target is None or hasattr(target, "write"):
            return
        is_path = isinstance(target, str | bytes | os.PathLike)
        yield WRITES, os.fsdecode(cast("Any", target)) if is_path else type(target).__name__

    return says


def _whenever_called(event: str, target: str, *, where: int = 0) -> _Says:
    """It happens whenever this is called. `where`: so many arguments there have to be, by place or by name."""

    def says(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
        if len(args) - 1 + len(words) >= where:  # the object itself is the first one
            yield event, target

    return says


_FRAME: Final = _describe_path_write("file", "path", "target")
_SINK: Final = _describe_path_write("where", "sink")
# By the module at the end of whose import they are there: what writes, as it is reached from which module.
_WRITERS: Final[dict[str, dict[str, _Says]]] = {
    "polars": {
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("csv", "ipc", "ipc_stream", "json", "ndjson")},
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("avro", "parquet", "delta")},
        **{f"polars:LazyFrame.sink_{kind}": _FRAME for kind in ("csv", "ipc", "ndjson", "parquet", "delta")},
        **{f"polars:{kind}.serialize": _FRAME for kind in ("DataFrame", "LazyFrame")},
    },
    "torch": {
        "torch._C:PyTorchFileWriter.__init__": _describe_path_write(),
        "torch._C:ScriptModule.save": _describe_path_write(),
        "torch._C:ScriptModule._save_for_mobile": _describe_path_write(),
        "torch._C:ScriptFunction.save": _describe_path_write(),
        "torch._C._autograd:_ProfilerResult.save": _describe_path_write(),
        "torch._C._distributed_c10d:FileStore.__init__": _describe_path_write("file_name"),
        "torch._C._distributed_c10d:TCPStore.__init__": _whenever_called(LISTENS, "a store of torch"),
        "torch.profiler.profiler:ExecutionTraceObserver.register_callback": _describe_path_write("output_file_path"),
    },
    "pandas": {f"pandas:DataFrame.to_{kind}": _describe_path_write("path") for kind in ("parquet", "feather", "orc")},
    "pyarrow.parquet.core": {"pyarrow.parquet.core:ParquetWriter.__init__": _SINK},
    "psutil": {
        f"psutil:Process.{name}": _whenever_called("os.nice", "a process", where=1)
        for name in ("nice", "ionice", "cpu_affinity")
    },
    "duckdb": {
        f"duckdb:DuckDBPyRelation.{kind}": _describe_path_write("file_name")
        for kind in ("to_csv", "write_csv", "to_parquet", "write_parquet")
    },
    "pyarrow.orc": {"pyarrow.orc:ORCWriter.__init__": _SINK},
}


def report_compiled_writes(hear: _Hear, is_listening: Callable[[], object]) -> None:
    """Have them tell from now on, those that are loaded and those that will be."""

    def wrap_writers(name: str) -> None:
        for path, says in _WRITERS[name].items():
            module, _, dotted = path.partition(":")
            *parts, last = dotted.split(".")
            holder: Any = sys.modules.get(module)
            for part in parts:
                holder = getattr(holder, part, None)
            act = getattr(holder, last, None)
            if act is not None and act not in wrapped:
                wrapper = _report_method(act, says, hear, is_listening)
                wrapped.append(wrapper)
                setattr(holder, last, wrapper)

    wrapped: list[object] = []
    for name in _WRITERS:
        if name in sys.modules and not getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False):
            wrap_writers(name)
    sys.meta_path.insert(0, _Finder(wrap_writers))


class _Finder:
    """Finds what others find, and hears when it has been imported."""

    def __init__(self, met: Callable[[str], None]) -> None:
        self._met = met

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _WRITERS else None
        loader: Any = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "__dict__"):
            return None
        execute = loader.exec_module

        def execute_and_wrap(module: ModuleType) -> None:
            execute(module)
            self._met(name)

        loader.exec_module = execute_and_wrap
        return spec


def _report_method(act: Any, says: _Says, hear: _Hear, is_listening: Callable[[], object]) -> Any:
    @functools.wraps(act)
    def report_and_call(*args: Any, **words: Any) -> Any:
        if is_listening():
            for event, target in says(args, words):
                hear(event, (target,))
        return act(*args, **words)

    report_and_call.__dict__.pop("__wrapped__", None)  # nobody is to call it past this
    return report_and_call


TEMPORARY: Final = "a temporary file"
MODE_OF_NEW: Final = "the mode of new files"
TO: Final = " → "  # between the names of a file before and after
STEP: Final = "<agent step"  # how the code of a step is called, where no notebook calls it
_MOST: Final = 100  # different effects that one step may have recorded
_LONGEST: Final = 300
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NAMELESS: Final[int] = getattr(os, "O_TMPFILE", 0)
# What our own stores, Python itself and libraries write by the way while code runs.
_QUIET_FOLDERS: Final = frozenset({".agent-kernel", "__pycache__", ".ipython", ".matplotlib"})
_QUIET_PARTS: Final = ("/.cache/matplotlib", "/.cache/fontconfig", "/.config/matplotlib", "/.local/share/jupyter")
_LIBRARY_VARIABLES: Final = ("OPENBLAS_", "OMP_", "KMP_", "MKL_", "NUMEXPR_", "VECLIB_", "POLARS_")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_COUNTING_CORES: Final = ("lscpu --parse", "sysctl -n hw.")  # joblib asks so before it starts processes, or none
_QUIET_STARTS: Final = ("/dev/null", "/dev/tty", "/dev/pts", "/dev/shm", "/proc/self", *_COUNTING_CORES)

Description: TypeAlias = tuple[str, str]
Args: TypeAlias = tuple[Any, ...]

_COMPILED: Final = tuple(EXTENSION_SUFFIXES)
_THREAD_STARTS: Final = ("_thread.start_new_thread", "_thread.start_joinable_thread")  # the second from 3.13 on

# Not current_thread(): that makes an object for a thread that has none.
_THREADS: Final[dict[int, threading.Thread]] = vars(threading)["_active"]


class EffectRecorder:
    """The effects of one step: what kind, on what, how often."""

    def __init__(self, quiet: tuple[str, ...] = (), gate: Gate | None = None) -> None:
        self.gate = gate
        self.found: dict[Description, int] = {}
        self.dropped = 0
        self.thread = threading.get_ident()
        self._quiet = tuple(str(Path(path).absolute()) for path in quiet if path)
        self._lock = threading.Lock()

    def note(self, what: str, target: str) -> None:
        if self._quiet and str(Path(target).absolute()).startswith(self._quiet):
            return
        key = (what, target[:_LONGEST])
        with self._lock:
            if key not in self.found and len(self.found) >= _MOST:
                self.dropped += 1
            else:
                self.found[key] = self.found.get(key, 0) + 1


class _Token:
    """Stands for a step in the contexts that its code makes. It says nothing by itself, and lives as long as one of them."""

    __slots__ = ("__weakref__",)


_token: ContextVar[_Token | None] = ContextVar("agent_kernel_effects", default=None)


class _AuditHook:
    """The one hook of this process, and who listens by it."""

    def __init__(self) -> None:
        self.wanted: list[object] = []  # for whom it listens; empty most of the time
        self.recording: list[EffectRecorder] = []  # the innermost step last
        self.started: WeakKeyDictionary[threading.Thread, tuple[EffectRecorder, ...]] = WeakKeyDictionary()
        self.parents: WeakKeyDictionary[threading.Thread, threading.Thread] = WeakKeyDictionary()
        self.lingering: list[EffectRecorder] = []  # steps that have ended and whose threads live
        self.gated: WeakKeyDictionary[_Token, EffectRecorder] = WeakKeyDictionary()
        self.lock = threading.Lock()
        self.busy = threading.local()
        self.is_installed = False
        self.is_guarding = False

    def install(self) -> None:
        with self.lock:
            if not self.is_installed:
                sys.addaudithook(_hook(self.wanted, self.hear))
                if sys.version_info < (3, 12):
                    _report_threads(self.wanted, self.hear)
                self.is_installed = True

    def guard(self) -> None:
        """Have also told what Python has no audit event for."""
        with self.lock:
            if not self.is_guarding:
                _report_unaudited()
                _follow_pools()
                _follow_finalizers()
                report_compiled_writes(self.hear, self.is_listening)
                self.is_guarding = True
        _keep_in_threads()
        _follow_thread_pools()
        _report_handles()

    def is_listening(self) -> bool:
        return bool(self.wanted)

    def hear(self, event: str, args: Args) -> None:
        """Something happens, and a step is going on.

        Raises:
            EffectStopped: the step must not do this.
        """
        if event == "import":
            _keep_in_threads()
            _report_handles()
        describe = _RECORDED.get(event) or _ONLY_STOPPED.get(event)
        if (describe is None and event not in _THREAD_STARTS) or getattr(self.busy, "now", False):
            return
        self.busy.now = True
        stopped: BaseException | None = None
        try:
            if event in _THREAD_STARTS:
                stopped = self._thread_starts(args)
            elif describe is not None:
                stopped = self._handle(event, args, *describe(args))
        except Exception:  # noqa: BLE001 - a hook that raises would make the user's own call fail
            stopped = self._stop_unreadable(event)
        finally:
            self.busy.now = False
        if stopped is not None:
            raise stopped

    def _stop_unreadable(self, event: str) -> BaseException | None:
        """What happens cannot be read: behind a gate it does not happen."""
        gate = self.gate()
        return None if gate is None else gate.stop("does what cannot be read", event)

    def _handle(self, event: str, args: Args, what: str, target: str) -> BaseException | None:
        """Note it, unless it must not happen: then give what is to be raised."""
        gate = self.gate() if what or event in _OWN_PATHS else None
        if gate is not None and event in _OWN_PATHS:
            gate.note_temporary(args[0], _caller())
            return None
        if gate is not None and what:
            paths = _paths(event, args)
            stopped = gate.check(what, _stable_target(event, target, paths), paths, _caller())
            if stopped is not None:
                return stopped
        if what and event in _RECORDED and not _is_quiet(target):
            for one in self._current_recorders():
                one.note(what, target)
        return None

    def gate(self) -> Gate | None:
        """What must let pass what happens on this thread: the gate of the innermost step that it belongs to."""
        thread_id = threading.get_ident()
        mine = next((one for one in reversed(self.recording) if one.thread == thread_id), None)
        token = _token.get()
        if mine is None and token is not None:  # a task, a callback, the work of a pool
            mine = self.gated.get(token)
        thread = _THREADS.get(thread_id)
        if mine is None and thread is not None:
            mine = next(iter(self.started.get(thread, ())[-1:]), None)
        if mine is None:  # of another thread only what the step defined itself
            only = self.recording[-1] if len({one.thread for one in self.recording}) == 1 else None
            mine = only if only is not None and only.gate is not None and only.gate.is_acting(_caller()) else None
        return mine.gate if mine is not None else None

    def _current_recorders(self) -> tuple[EffectRecorder, ...]:
        """The steps that what happens on this thread belongs to."""
        surely = self._find_recorders(threading.get_ident())
        if surely is not None:
            return surely
        return tuple(self.recording) if len({one.thread for one in self.recording}) == 1 else ()

    def _find_recorders(self, thread_id: int) -> tuple[EffectRecorder, ...] | None:
        """The same, of a thread that runs a step or was started by one; None of others."""
        mine = tuple(one for one in self.recording if one.thread == thread_id)
        thread = _THREADS.get(thread_id)
        if mine or thread is None or thread not in self.started:
            return mine or None
        return tuple(one for one in self.started[thread] if one in self.recording)

    def _thread_starts(self, args: Args) -> BaseException | None:
        thread = getattr(args[0], "__self__", None)
        if not isinstance(thread, threading.Thread):
            gate = self.gate()  # such a thread has no object by which it could be followed
            return None if gate is None else gate.check("starts a thread of", _text(args[0]), (), _caller())
        parent = _THREADS.get(threading.get_ident())
        if parent is not None:
            self.parents[thread] = parent
        if its := self._find_starters(parent):
            self.started[thread] = its
        return None

    def _find_starters(self, parent: threading.Thread | None) -> tuple[EffectRecorder, ...]:
        """The steps that a thread belongs to which this thread starts. A person's threads belong to none."""
        token = _token.get()
        candidates = [
            *(self.started.get(parent, ()) if parent is not None else ()),
            self.gated.get(token) if token else None,
        ]
        its = self._find_recorders(threading.get_ident()) or tuple(
            one for one in candidates if one is not None and one.gate
        )
        return its or (self._current_recorders() if _is_called_by_a_step() else ())

    def token_of(self, recorder: EffectRecorder) -> _Token:
        """What stands for a step in contexts. As long as one of them is kept, what happens is heard."""
        token, entry = _Token(), object()
        self.gated[token] = recorder
        self.wanted.append(entry)
        weakref.finalize(token, self.wanted.remove, entry).atexit = False
        return token

    def stop_recording(self, recorder: EffectRecorder) -> None:
        """A step has ended. As long as threads of it live that have a gate, what they do is heard."""
        self.recording.remove(recorder)
        if recorder.gate is not None:
            self.lingering.append(recorder)
        else:
            self.wanted.remove(recorder)
        alive = [one for thread, its in list(self.started.items()) if thread.is_alive() for one in its]
        for one in [one for one in self.lingering if not any(one is other for other in alive)]:
            self.lingering.remove(one)
            self.wanted.remove(one)


def _hook(wanted: list[object], hear: Callable[[str, Args], None]) -> Callable[[str, Args], None]:
    # Of hundreds; each `id()` is an event too.
    reported = frozenset({*_RECORDED, *_ONLY_STOPPED, *_THREAD_STARTS, "import"})

    def hook(event: str, args: Args) -> None:
        if wanted and event in reported:
            hear(event, args)

    return hook


def _report_threads(wanted: list[object], hear: Callable[[str, Args], None]) -> None:
    """Python 3.11 has no audit event for a thread that starts: what starts one says so instead, under each of its names."""
    begin = _thread.start_new_thread

    @functools.wraps(begin)
    def report_and_begin(*args: Any, **kwargs: Any) -> int:
        if wanted:
            hear(_THREAD_STARTS[0], args)
        return begin(*args, **kwargs)

    del report_and_begin.__wrapped__  # nobody is to call it past this
    for module in (_thread, threading):
        for name in [
            name
            for name, value in vars(module).items()
            if value is begin or (name == "start_new" and module is _thread)
        ]:
            setattr(module, name, report_and_begin)


def _report_unaudited() -> None:
    """Functions that act outside and that no audit event tells of: they say so themselves, as threads do."""
    for module, name in _UNAUDITED:
        with suppress(ImportError):
            import_module(module)
        act = getattr(sys.modules.get(module), name, None)
        if not callable(act):
            continue
        wrapper = _report_calls(f"{module}.{name}", act)
        if act in os.supports_dir_fd:
            os.supports_dir_fd.add(wrapper)
        for holder in (module, *_BELOW.get(module, ())):
            if holder in sys.modules:
                setattr(sys.modules[holder], name, wrapper)


def _report_handles() -> None:
    """Have what was opened before say what goes through it, as far as Python's own code is on the way: logs, sockets."""
    for module, kind, name in _METHODS:
        holder: Any = getattr(sys.modules.get(module), kind, None)
        if holder is not None and getattr(holder, name) not in _reporting_methods:
            wrapper = _report_calls(f"{module}.{kind}.{name}", getattr(holder, name))
            setattr(holder, name, wrapper)
            _reporting_methods.add(wrapper)


_reporting_methods: Final[set[Callable[..., Any]]] = set()


def _follow_pools() -> None:
    """Work that is given to a pool of threads is its giver's, also where the threads were there before."""
    from concurrent.futures import thread

    item: Any = vars(thread).get("_WorkItem")
    if item is None:
        return
    init, run = item.__init__, item.run

    @functools.wraps(init)
    def init_with_token(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.token = _token.get()

    @functools.wraps(run)
    def run_with_token(self: Any, *args: Any, **kwargs: Any) -> None:
        before = _token.set(getattr(self, "token", None))  # none: it was given before this was here
        try:
            run(self, *args, **kwargs)
        finally:
            _token.reset(before)

    item.__init__, item.run = init_with_token, run_with_token


def _follow_thread_pools() -> None:
    """The same for the older pool of threads, where a person's may be: the threads of a step's own are the step's anyway."""
    kind: Any = getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", None)
    if kind is None or kind in _followed:
        return
    _followed.add(kind)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        setattr(kind, name, _wrap_submit(getattr(kind, name)))


_followed: Final[set[type]] = set()


def _wrap_submit(give: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(give)
    def give_with_token(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        token = _token.get()
        return give(self, func if token is None else _PoolCallback(func, token), *args, **kwargs)

    del give_with_token.__wrapped__  # nobody is to give past this
    return give_with_token


def _follow_finalizers() -> None:
    """What the code of a step itself has called when an object goes is the step's, also when that has ended."""
    init: Callable[..., None] = vars(weakref.finalize)["__init__"]

    @functools.wraps(init)
    def init_with_token(self: Any, obj: Any, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        token, mine = _token.get(), current_gate()
        is_steps_own = token is not None and mine is not None and mine.is_step_code(_caller())
        init(self, obj, _StepCallback(func, token) if is_steps_own and token is not None else func, *args, **kwargs)

    weakref.finalize.__init__ = init_with_token  # type: ignore[method-assign]  # on purpose


class _StepCallback:
    """A function that a step left to be called. Its effects are those of the step."""

    def __init__(self, func: Callable[..., Any], token: _Token) -> None:
        self.func = func
        self._token = token

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = _token.set(self._token)
        try:
            return self.func(*args, **kwargs)
        finally:
            _token.reset(before)


class _PoolCallback(_StepCallback):
    """The same for a pool of `multiprocessing`. Its threads hand back only an `Exception`; any other one ends the thread, and the caller waits."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception:
            raise
        except BaseException as stopped:
            raise RuntimeError(f"{type(stopped).__name__}: {stopped}") from stopped


def _keep_in_threads() -> None:
    """Have joblib do on threads of this process, behind a gate, what it would do in processes, where no gate is."""
    backends: Any = sys.modules.get("joblib._parallel_backends")
    for name in ("LokyBackend", "MultiprocessingBackend"):
        kind = getattr(backends, name, None)
        fall_back = getattr(backends, "FallbackToBackend", None)  # the last that the module defines
        if kind is not None and fall_back is not None and not hasattr(kind.configure, "__wrapped__"):
            kind.configure = _on_threads(kind.configure, backends.ThreadingBackend, fall_back)


def _on_threads(configure: Callable[..., Any], on_threads: Any, fall_back: Any) -> Callable[..., Any]:
    @functools.wraps(configure)
    def configure_on_threads(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current_gate() is not None:
            raise fall_back(on_threads(nesting_level=self.nesting_level))
        return configure(self, *args, **kwargs)

    return configure_on_threads


def _report_calls(event: str, act: Callable[..., Any]) -> Callable[..., Any]:
    # Read once: to read the signature of a builtin takes longer than most of what is called here.
    signature = functools.cache(functools.partial(inspect.signature, act))

    @functools.wraps(act)
    def report_and_call(*args: Any, **kwargs: Any) -> Any:
        if _audit.wanted:
            _audit.hear(event, _in_order(signature, args, kwargs) if kwargs else args)
        return act(*args, **kwargs)

    del report_and_call.__wrapped__  # nobody is to call it past this
    return report_and_call


def _in_order(signature: Callable[[], inspect.Signature], args: Args, kwargs: dict[str, Any]) -> Args:
    """The arguments in the order of the parameters, as audit events have them."""
    try:
        arguments = signature().bind(*args, **kwargs)
        if len(arguments.args) == len(arguments.arguments):
            return arguments.args
        arguments.apply_defaults()  # those that are given by name alone come last
        return tuple(arguments.arguments.values())
    except (TypeError, ValueError):  # it has no signature, or refuses them
        return (*args, *kwargs.values())


_audit = _AuditHook()


def current_gate() -> Gate | None:
    """What stops the step that this thread works for, if anything does."""
    return _audit.gate() if _audit.wanted else None


@contextmanager
def record_side_effects(quiet: tuple[str, ...] = (), gate: Gate | None = None) -> Generator[EffectRecorder]:
    """Record what happens from here on, on this thread and on those that it starts, until the end.

    Args:
        quiet: paths below which files are somebody else's doing (the store's own folder).
        gate: stops what must not happen.
    """
    _audit.install()
    if gate is not None:
        _audit.guard()
    mine = EffectRecorder(quiet, gate)
    _audit.recording.append(mine)
    _audit.wanted.append(mine)
    token = _audit.token_of(mine) if gate is not None else None
    before = _token.set(token)
    del token
    try:
        yield mine
    finally:
        _token.reset(before)
        _audit.stop_recording(mine)


@contextmanager
def pause_recording() -> Generator[None]:
    """What this thread does in the block is nobody's."""
    before, _audit.busy.now = getattr(_audit.busy, "now", False), True
    try:
        yield
    finally:
        _audit.busy.now = before


@contextmanager
def follow_threads() -> Generator[None]:
    """Notice which thread starts which, until the end."""
    _audit.install()
    mine = object()
    _audit.wanted.append(mine)
    try:
        yield
    finally:
        _audit.wanted.remove(mine)


def lineage(thread: int) -> Iterator[threading.Thread]:
    """A thread, the one that started it and so on, as far as that was followed. Nothing where Python has no object for it."""
    found = _THREADS.get(thread)
    while found is not None:
        yield found
        found = _audit.parents.get(found)


def is_on_step_thread() -> bool:
    """Whether a step that is being recorded runs on this thread, or its code started it."""
    thread_id = threading.get_ident()
    if any(one.thread == thread_id for one in _audit.recording):
        return True
    thread = _THREADS.get(thread_id)
    started = _audit.started.get(thread, ()) if thread is not None else ()
    return any(one in _audit.recording for one in started)


def may_act_later() -> bool:
    """Whether something lives that a step left behind and that acts without it: a thread, a task, a callback."""
    return any(thread.is_alive() for thread in tuple(_audit.started)) or len(_audit.gated) > len(_audit.recording)


_files_of_steps: Final[set[str]] = set()  # what notebooks call the code of steps
_gated_files: Final[set[str]] = set()  # of those that had a gate


def register_step_file(file: str, *, has_gate: bool = False) -> None:
    """The code of a step is called so."""
    _files_of_steps.add(file)
    if has_gate:
        _gated_files.add(file)


def had_gate(code: CodeType) -> bool:
    """Whether code is called as that of a step that had a gate is."""
    return code.co_filename in _gated_files or (_audit.is_guarding and code.co_filename.startswith(STEP))


def has_guarded() -> bool:
    """Whether a step of this process had a gate so far."""
    return _audit.is_guarding


def is_steps_code(code: CodeType) -> bool:
    """Whether code is called as that of a step is."""
    return code.co_filename in _files_of_steps or code.co_filename.startswith(STEP)


def is_left_over_from_step() -> bool:
    """Whether code acts here that a step left behind: on its threads, in its contexts, or by functions that it defined.

    What a notebook calls a step by its text, it calls a cell of the same text, too: their top levels look the same.
    """
    thread = _THREADS.get(threading.get_ident())
    is_started = (
        thread is not None and not thread.name.startswith("agent-kernel") and _audit.started.get(thread, ()) != ()
    )
    return is_started or _is_called_by_a_step() or _token.get() is not None


def _is_called_by_a_step() -> bool:
    """Whether a function that a step defined is among what calls here."""
    frame = _caller()
    while frame is not None:
        if frame.f_code.co_name != "<module>" and is_steps_code(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _is_quiet(target: str) -> bool:
    if target.startswith(_QUIET_STARTS):
        return True
    path = target.replace("\\", "/")
    return not _QUIET_FOLDERS.isdisjoint(path.split("/")) or any(part in path for part in _QUIET_PARTS)


def _text(value: object) -> str:
    """What stands in an event, as text. No code of the value's own class runs: it would act while nobody listens."""
    value = _exact(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return " ".join(map(_text, cast("list[object]", value)))
    return str(value) if isinstance(value, str | int) else type(value).__name__


def _file(value: object) -> str:
    """A path as text. An open file may be given by its number, which is another one each time: then its own path."""
    value = _exact(value)
    is_number = isinstance(value, int) or _text(value).startswith(_BY_NUMBER)
    path: Any = value
    return (real_path(path) if is_number else "") or _text(value)


def _exact(value: object) -> object:
    """A text, bytes, a number, a list or a path as one of Python's own; anything else as it is."""
    bases = set(map(id, type.__dict__["__mro__"].__get__(type(value))))
    if id(str) in bases:
        return str.__str__(cast("str", value))
    if id(bytes) in bases:
        return b"".join((cast("bytes", value),))
    if id(int) in bases:
        return int.__index__(cast("int", value))
    if id(list) in bases:
        return _LIST_ITEM(value, slice(None))
    if id(tuple) in bases:
        return _TUPLE_ITEM(value, slice(None))
    return str(value) if type(value) in _PATH_TYPES else value


_LIST_ITEM: Final[Any] = vars(list)["__getitem__"]
_TUPLE_ITEM: Final[Any] = vars(tuple)["__getitem__"]
_PATH_TYPES: Final = frozenset({PurePosixPath, PureWindowsPath, type(Path())})


def _describe_open(args: Args) -> Description:
    path, mode, flags = map(_exact, args)
    if isinstance(flags, int) and _NAMELESS and flags & _NAMELESS == _NAMELESS:
        return "", ""  # a file that has no name, and goes with the last who has it open
    writes = (
        bool(set(mode) & set("wax+"))
        if isinstance(mode, str)
        else bool(isinstance(flags, int) and flags & _WRITE_FLAGS)
    )
    return ("writes", _text(path)) if writes and not isinstance(path, int) else ("", "")


def _describe_open_in_folder(args: Args) -> Description:
    """A file in a folder that is open: the event for `open` has its path alone, which leads elsewhere from here."""
    path, flags, _, folder = map(_exact, args) if len(args) == 4 else (None, 0, None, None)
    writes = isinstance(flags, int) and bool(flags & _WRITE_FLAGS) and isinstance(folder, int)
    return ("writes", _text(path)) if writes else ("", "")


def _first(what: str) -> Callable[[Args], Description]:
    return lambda args: (what, _text(args[0]) if args else "")


def _file_event(what: str) -> Callable[[Args], Description]:
    """The same of a file or folder, which may be given by the number that it is open under."""
    return lambda args: (what, _file(args[0]) if args else "")


def _pair(what: str) -> Callable[[Args], Description]:
    return lambda args: (what, TO.join(_file(part) for part in args[:2]))


def _address(what: str) -> Callable[[Args], Description]:
    def describe(args: Args) -> Description:
        address: Any = args[1] if len(args) > 1 else ""
        parts = cast("tuple[object, ...]", address)[:2] if isinstance(address, tuple) else (address,)
        return what, ":".join(map(_text, parts))

    return describe


def _describe_process_start(args: Args) -> Description:
    parts: list[object] = list(args)
    command = parts[1] if len(parts) > 1 and parts[1] else parts[0]
    return "runs", _command(cast("list[object]", command) if isinstance(command, list) else [command])


def _describe_signal_handler(args: Args) -> Description:
    """A handler of a signal, but for those that this package and `asyncio.run` set for themselves, and take back."""
    frame = _caller()
    wrapper: Any = vars(signal)
    if frame is not None and frame.f_globals is wrapper:
        frame = frame.f_back
    own: Iterator[Any] = (vars(sys.modules[name]) for name in _HANDLING if name in sys.modules)
    if frame is not None and any(frame.f_globals is one for one in own):
        return "", ""
    return "hooks", f"signal {_text(args[0]) if args else ''}"


def _bare_process(args: Args) -> Description:
    """A process that begins without `Popen`, which tells by itself of those that it begins."""
    frame = _caller()
    if frame is not None and frame.f_code.co_qualname == "Popen._execute_child":
        return "", ""
    return "runs", _text(args[0]) if args else ""


def _command(parts: list[object]) -> str:
    """The command as somebody typed it, without the shell that it was given to."""
    is_line = len(parts) > 2 and parts[1] == "-c" and Path(_text(parts[0])).name in _SHELLS
    return _text(parts[2:] if is_line else parts)


def _describe_terminal_fork(args: Args) -> Description:
    """A terminal was made for a process, as IPython does for a line with `!`. Which one it is, whoever makes it knows."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "spawn" and str(frame.f_globals.get("__name__")).partition(".")[0] == "ptyprocess":
            argv: object = frame.f_locals.get("argv")
            if isinstance(argv, list | tuple):
                return "runs", _command([*cast("Sequence[object]", argv)])
        frame = frame.f_back
    return "forks", "this process"


def _is_mapped_to_read(args: Args) -> bool:
    """Whether memory that is mapped from a file can change nothing of it: by its access, or as the file is open to be read."""
    number, _, access, *_ = args
    if number < 0 or access in (_ACCESS_READ, _ACCESS_COPY):
        return True
    try:
        import fcntl

        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (ImportError, OSError):
        return False


_ACCESS_READ, _ACCESS_COPY = 1, 3  # of `mmap`


def _describe_write(at: int) -> Callable[[Args], Description]:
    """Something is written to an open file by its number, which stands at this place."""

    def describe(args: Args) -> Description:
        path = real_path(args[at]) if at < len(args) and isinstance(args[at], int) else ""
        if path.startswith("socket:"):
            return "sends to", "a socket"
        is_file = path.startswith("/") and not path.endswith(_GONE) and args[at] > _LAST_STREAM
        return ("writes", path) if is_file else ("", "")

    return describe


def _describe_replacement(args: Args) -> Description:
    """A number of an open file gets another file: whoever writes by it writes there."""
    number = args[1] if len(args) > 1 else None
    if not isinstance(number, int) or number <= _LAST_STREAM:
        return "", ""
    path = real_path(number)
    return ("closes", path) if path else ("", "")


def _describe_log_record(args: Args) -> Description:
    """A record goes to a handler of `logging`, which has its file or connection open, or opens one."""
    handler = args[0]
    names = {kind.__name__ for kind in type(handler).__mro__ if kind.__module__.partition(".")[0] == "logging"}
    if "FileHandler" in names:
        return "logs to", _text(_attribute(handler, "baseFilename"))
    if not names.isdisjoint({"SocketHandler", "SysLogHandler", "QueueHandler"}):
        return "logs to", _text(_attribute(handler, "host") or _attribute(handler, "address") or "a queue")
    stream: Any = _attribute(handler, "stream")
    is_file = type(stream) is io.TextIOWrapper and not stream.closed
    what, path = _describe_write(0)((stream.fileno(),)) if is_file else ("", "")
    return ("logs to", path) if what else ("", "")


def _attribute(value: object, name: str) -> object:
    """What stands in the object itself; a property of its class would run."""
    found: dict[str, object] = object.__getattribute__(value, "__dict__")
    return found.get(name)


def _describe_send(args: Args) -> Description:
    """Something is sent by a connection that there is. Pipes within this computer's processes have no name."""
    peer: object = ""
    with suppress(OSError):
        peer = args[0].getpeername()
    return _address("sends to")((None, peer)) if peer else ("", "")


def _describe_name_lookup(args: Args) -> Description:
    """The name of a computer is sent to whoever knows its address."""
    host = _text(args[0]) if args and args[0] else ""
    is_address = not host or host == "localhost" or ":" in host or host.replace(".", "").isdigit()
    return ("", "") if is_address else ("looks up", host)


def _part_of(address: object, index: int) -> object:
    """The host (0) or the port (1) of an address; a text stands for both."""
    if not isinstance(address, tuple):
        return address
    parts = cast("Sequence[object]", address)
    return parts[index] if len(parts) > index else ""


def _describe_address_lookup(args: Args) -> Description:
    """The address of a computer is sent to whoever knows its name."""
    address: Any = _exact(args[0]) if args else ""
    host = _text(_part_of(address, 0))
    is_local = host in ("", "localhost", "::", "::1", "0.0.0.0") or host.startswith("127.")
    return ("", "") if is_local else ("looks up", host)


def _listening(args: Args) -> Description:
    """A socket opens a port that nobody named. Of one that was named, `bind` tells."""
    name: Any = ""
    with suppress(OSError):
        name = args[0].getsockname()
    is_named = bool(_part_of(name, 1))
    return ("", "") if is_named else ("listens", "all addresses")


_READ_ONLY: Final = re.compile(r"file:[^?#]*\?(?:[^#]*&)?(?:mode=ro|immutable=1)(?:&[^#]*)?")


def is_read_only(address: str) -> bool:
    """Whether SQLite opens a database at this address only to read it."""
    return _READ_ONLY.fullmatch(address) is not None


def _database(args: Args) -> Description:
    """A database is opened, and made where it is not there."""
    opened = args[0] if args else ""
    if opened in (":memory:", ""):
        return "", ""
    # Without `uri=True`, SQLite takes the text for the name of a new file: so the database has to be there.
    if type(opened) is str and is_read_only(opened) and Path(opened[len("file:") :].partition("?")[0]).is_file():
        return "", ""
    return "opens database", _text(opened)


def _describe_load(args: Args) -> Description:
    """A module is imported. In compiled code it does as it likes."""
    file: object = args[1] if len(args) > 1 else None
    return ("loads", f"C code of {file}") if isinstance(file, str) and file.endswith(_COMPILED) else ("", "")


def _environment(what: str) -> Callable[[Args], Description]:
    """What libraries of numbers set for themselves as they are imported is nobody's doing."""

    def describe(args: Args) -> Description:
        name = _text(args[0])
        return ("", "") if name.startswith(_LIBRARY_VARIABLES) else (what, name)

    return describe


_RECORDED: Final[dict[str, Callable[[Args], Description]]] = {
    "open": _describe_open,
    "os.remove": _first("deletes"),
    "os.rmdir": _first("deletes"),
    "os.rename": _pair("renames"),
    "os.mkdir": _first("makes"),
    "os.truncate": _file_event("writes"),
    "os.chmod": _file_event("changes mode of"),
    "os.chown": _file_event("changes owner of"),
    "os.link": _pair("links"),
    "os.symlink": _pair("links"),
    "os.putenv": _environment("sets environment of"),
    "os.unsetenv": _environment("unsets environment of"),
    "os.chdir": _file_event("changes folder to"),
    "os.kill": _first("signals"),
    "os.system": _first("runs"),
    "os.exec": _first("runs"),
    "os.posix_spawn": _first("runs"),
    "os.spawn": lambda args: ("runs", _text(args[1]) if len(args) > 1 else ""),
    "os.fork": lambda args: ("forks", "this process"),
    "os.forkpty": _describe_terminal_fork,
    "subprocess.Popen": _describe_process_start,
    "socket.connect": _address("connects"),
    "socket.bind": _address("listens"),
    "socket.sendto": _address("sends to"),
    "urllib.Request": _first("requests"),
    "shutil.rmtree": _first("deletes"),
    "sqlite3.connect": _database,
    "smtplib.send": lambda args: ("sends mail", ""),
    WRITES: _first("writes"),
    LISTENS: _first("listens"),
    "ftplib.connect": lambda args: ("connects", _text(args[1]) if len(args) > 1 else ""),
}
_RIGHTS: Final = (
    *("setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups"),
    *("initgroups", "chroot", "setsid", "setpgid"),
)
# Up to Python 3.12 and from 3.13. One ends the process when its audit event raises, the other has none.
_INTERPRETERS: Final = ("_xxsubinterpreters", "_interpreters")
_CRASHING: Final = (
    "dump_traceback_later",
    "_sigsegv",
    "_sigabrt",
    "_sigfpe",
    "_fatal_error_c_thread",
    "_stack_overflow",
)
_HANDLING: Final = (
    "asyncio.runners",
    "agent_kernel.quiet",
    *(f"agent_kernel.agents.{name}" for name in ("limits", "run")),
)
_SCHEDULING: Final = ("nice", "setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam")
# What changes nothing that going back would have to cover, or what other events tell of as well: only a gate asks for it.
_ONLY_STOPPED: Final[dict[str, Callable[[Args], Description]]] = {
    "tempfile.mkstemp": _first("makes"),
    "tempfile.mkdtemp": _first("makes"),
    "os.utime": _file_event("changes times of"),
    "os.setxattr": _file_event("changes attributes of"),
    "os.removexattr": _file_event("changes attributes of"),
    "os.chflags": _file_event("changes mode of"),
    "os.killpg": _first("signals"),
    "os.startfile": _first("runs"),
    "pty.spawn": _first("runs"),
    "signal.pthread_kill": _first("signals"),
    "socket.sendmsg": lambda args: _address("sends to")(args) if len(args) > 1 and args[1] else _describe_send(args),
    "socket.getaddrinfo": _describe_name_lookup,
    "socket.gethostbyname": _describe_name_lookup,
    "socket.gethostbyaddr": _describe_address_lookup,
    "socket.getnameinfo": _describe_address_lookup,
    "socket.socket.listen": _listening,
    "socket.sethostname": _first("changes name of"),
    "syslog.syslog": lambda args: ("writes", "the log of the system"),
    "sqlite3.enable_load_extension": lambda args: ("loads", "an extension of SQLite"),
    "logging.Handler.handle": _describe_log_record,
    "socket.socket.send": _describe_send,
    "socket.socket.sendall": _describe_send,
    "socket.socket.sendfile": _describe_send,
    "ssl.SSLSocket.send": _describe_send,
    "ssl.SSLSocket.sendall": _describe_send,
    **{f"os.{name}": _describe_write(0) for name in ("write", "pwrite", "writev", "pwritev", "sendfile")},
    **{f"os.{name}": _describe_write(1) for name in ("splice", "copy_file_range")},
    "os.posix_fallocate": _describe_write(0),
    "os.dup2": _describe_replacement,
    "os.closerange": lambda args: ("closes", "files of this process"),
    "time.clock_settime": lambda args: ("changes", "the clock of this computer"),
    "time.clock_settime_ns": lambda args: ("changes", "the clock of this computer"),
    "os.open": _describe_open_in_folder,
    "mmap.__new__": lambda args: ("", "") if _is_mapped_to_read(args) else _describe_write(0)(args),
    **{f"os.{name}": lambda args: ("changes rights of", "this process") for name in _RIGHTS},
    **{f"os.{name}": lambda args: ("limits", "a process") for name in _SCHEDULING},
    "os.umask": lambda args: ("limits", MODE_OF_NEW),
    "webbrowser.open": _first("opens in the browser"),
    "import": _describe_load,
    "_cffi_backend.load_library": lambda args: (
        "loads",
        f"C code of {_text(args[0]) if args and args[0] else 'this process'}",
    ),
    "atexit.register": lambda args: ("hooks", "the end of this process"),
    "ctypes.dlopen": lambda args: ("loads", f"C code of {_text(args[0]) if args and args[0] else 'this process'}"),
    "ctypes.dlsym": lambda args: ("calls", f"the C function {_text(args[1]) if len(args) > 1 else ''}"),
    "sys.addaudithook": lambda args: ("hooks", "audit events"),
    "resource.setrlimit": lambda args: ("limits", "this process"),
    "resource.prlimit": lambda args: ("limits", "a process"),
    "_posixsubprocess.fork_exec": lambda args: ("runs", _text(args[0])),
    "subprocess._fork_exec": _bare_process,
    **{f"{module}.create": lambda args: ("starts", "another interpreter") for module in _INTERPRETERS},
    "signal.pidfd_send_signal": lambda args: ("signals", "a process"),
    "signal.raise_signal": lambda args: ("signals", "this process"),
    "signal.alarm": lambda args: ("signals", "this process later"),
    "signal.setitimer": lambda args: ("signals", "this process later"),
    "_signal.signal": _describe_signal_handler,
    "_signal.pthread_sigmask": lambda args: ("hooks", "signals") if len(args) > 1 and args[1] else ("", ""),
    "signal.set_wakeup_fd": lambda args: ("", "") if args[:1] == (-1,) else ("hooks", "signals"),
    "os.register_at_fork": lambda args: ("hooks", "forks of this process"),
    **{f"faulthandler.{name}": lambda args: ("ends", "this process") for name in _CRASHING},
    "readline.write_history_file": _first("writes"),
    "readline.append_history_file": lambda args: ("writes", _text(args[1]) if len(args) > 1 else ""),
    "os.mkfifo": _first("makes"),
    "os.mknod": _first("makes"),
    "os._exit": lambda args: ("ends", "this process"),
    "os.abort": lambda args: ("ends", "this process"),
    "_posixshmem.shm_open": _first("makes"),
}
_UNAUDITED: Final = (
    ("_posixsubprocess", "fork_exec"),
    ("subprocess", "_fork_exec"),
    ("_posixshmem", "shm_open"),
    ("_cffi_backend", "load_library"),
    ("atexit", "register"),
    *((module, "create") for module in _INTERPRETERS),
    *(("os", name) for name in ("mkfifo", "mknod", "_exit", "abort", "umask", *_SCHEDULING, *_RIGHTS)),
    *(("os", name) for name in ("write", "pwrite", "writev", "pwritev", "sendfile", "splice", "copy_file_range")),
    *(("os", name) for name in ("posix_fallocate", "dup2", "closerange")),
    *(("time", name) for name in ("clock_settime", "clock_settime_ns")),
    ("os", "open"),
    *(("signal", name) for name in ("pidfd_send_signal", "raise_signal", "alarm", "setitimer", "set_wakeup_fd")),
    *(("_signal", name) for name in ("signal", "pthread_sigmask")),
    *(("faulthandler", name) for name in _CRASHING),
    ("os", "register_at_fork"),
    *(("readline", name) for name in ("write_history_file", "append_history_file")),
)
_METHODS: Final = (
    ("socket", "socket", "listen"),
    ("logging", "Handler", "handle"),
    ("socket", "socket", "send"),
    ("socket", "socket", "sendall"),
    ("socket", "socket", "sendfile"),
    ("ssl", "SSLSocket", "send"),
    ("ssl", "SSLSocket", "sendall"),
)
_BY_NUMBER: Final = ("/proc/self/fd/", "/dev/fd/", f"/proc/{os.getpid()}/fd/")
_GONE: Final = " (deleted)"  # behind the path of an open file that has no name any more
_LAST_STREAM: Final = 2  # numbers of standard input and output, and of errors
_BELOW: Final[dict[str, tuple[str, ...]]] = {"os": ("posix",), "signal": ("_signal",)}  # where the same function stands
_OWN_PATHS: Final = frozenset({"tempfile.mkstemp", "tempfile.mkdtemp"})
# Where the paths stand in what an event tells, each with the open folder that it may be relative to.
_PATHS: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "open": ((0, None),),
    "os.open": ((0, 3),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.mkfifo": ((0, 2),),
    "os.mknod": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
    "sqlite3.connect": ((0, None),),
    WRITES: ((0, None),),
    **{f"os.{name}": ((0, None),) for name in ("write", "pwrite", "writev", "pwritev", "sendfile")},
    **{f"os.{name}": ((1, None),) for name in ("splice", "copy_file_range")},
    "os.posix_fallocate": ((0, None),),
    "mmap.__new__": ((0, None),),
    "socket.connect": ((1, None),),
    "socket.bind": ((1, None),),
}


def _paths(event: str, args: Args) -> tuple[str, ...]:
    """The files that it is about, without links on the way."""
    if event == "logging.Handler.handle":
        path = _exact(_attribute(args[0], "baseFilename"))
        return (real_path(path),) if isinstance(path, str) and path else ()
    found: list[str] = []
    for at, folder in _PATHS.get(event, ()):
        value: Any = _exact(args[at]) if at < len(args) else ""
        base: Any = args[folder] if folder is not None and folder < len(args) else None
        if isinstance(value, str | bytes | int):
            found.append(real_path(value, base if isinstance(base, int) and base >= 0 else None))
    return tuple(found)


def _stable_target(event: str, target: str, paths: Sequence[str]) -> str:
    """What an effect is on, in words that are the same when the step runs again: temporary files have another name then."""
    names = target.split(TO) if event in ("os.rename", "os.link") else [target]
    if len(names) != len(paths):
        return target
    return TO.join(temporary_name(path) or name for path, name in zip(paths, names, strict=True))


_own_files: Final[set[str]] = set()  # temporary files and folders that steps of this process made
_outside_files: Final[set[str]] = set()  # those outside the folder for them, which are no more a step's own than others


def register_own_file(path: str) -> None:
    """A step made a temporary file or folder."""
    _own_files.add(path)


def register_outside_file(path: str) -> None:
    """A step is about to make a temporary file or folder where other files are."""
    _outside_files.add(path)


def temporary_name(path: str) -> str:
    """What a temporary file of a step is called, which is the same each time; "" for other paths.

    >>> register_own_file("/tmp/tmpx1y2")
    >>> temporary_name("/tmp/tmpx1y2"), temporary_name("/tmp/tmpx1y2/rows.csv"), temporary_name("/data/rows.csv")
    ('a temporary file', 'rows.csv in a temporary folder', '')
    """
    folder, _, name = path.rpartition(os.sep)
    if path.endswith(_GONE) and name.startswith("#") and name[1:].removesuffix(_GONE).isdigit():
        return f"{TEMPORARY} in {folder}"  # it has no name yet: `O_TMPFILE`
    if path in _own_files:
        return TEMPORARY
    if path in _outside_files:
        return f"{TEMPORARY} in {folder}"
    for own in _own_files:
        if path.startswith(own + os.sep):
            return f"{path[len(own) + 1 :]} in a temporary folder"
    for own in _outside_files:
        if path.startswith(own + os.sep):
            return f"{path[len(own) + 1 :]} in a temporary folder in {own.rpartition(os.sep)[0]}"
    return ""


def is_own(path: str) -> bool:
    """Whether this is a temporary file or folder of a step, or lies in one."""
    target = real_path(path) if _own_files and path else ""
    return any(target == own or target.startswith(own + os.sep) for own in _own_files)


def real_path(path: str | bytes | os.PathLike[str] | int, folder: int | None = None) -> str:
    """The path with its links followed. An open file may be given by its number. Returns "" where there is no path.

    Args:
        folder: an open folder that it may be relative to.
    """
    try:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")  # noqa: PTH115 - no object for a text
        base = "" if folder is None else os.readlink(f"/proc/self/fd/{folder}")  # noqa: PTH115
        return os.path.realpath(os.path.join(base, os.fsdecode(path)))  # noqa: PTH118
    except (OSError, TypeError, ValueError):
        return ""


def _caller() -> FrameType | None:
    """The code whose call the event tells of."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in (__file__, functools.__file__):
        frame = frame.f_back
    return frame
