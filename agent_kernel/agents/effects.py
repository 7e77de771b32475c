"""What a step did outside the variables, as Python's audit hooks tell it: files written, processes, connections.

It is a record, not a fence: C code can act without telling. Going back covers none of it, and whoever goes back is told.

A hook can never be taken out again, so without a step it must cost next to nothing: one look at a list. What happens
belongs to the step on whose thread it happens, and to the one whose code started that thread. On a thread that nobody
started within a step it belongs to the only step that there is; of several, to none.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

__all__ = ["Recorder", "ancestors", "is_on_a_steps_thread", "recorded", "threads_followed"]

_MOST: Final = 100  # different effects that one step may have recorded
_LONGEST: Final = 300
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What our own stores, Python itself and libraries write by the way while code runs.
_QUIET_FOLDERS: Final = frozenset({".agent-kernel", "__pycache__", ".ipython", ".matplotlib"})
_QUIET_PARTS: Final = ("/.cache/matplotlib", "/.cache/fontconfig", "/.config/matplotlib", "/.local/share/jupyter")
_LIBRARIES_OWN: Final = ("OPENBLAS_", "OMP_", "KMP_", "MKL_", "NUMEXPR_", "VECLIB_")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_QUIET_STARTS: Final = ("/dev/null", "/dev/tty", "/dev/pts", "/dev/shm", "/proc/self")

Told: TypeAlias = tuple[str, str]
Args: TypeAlias = tuple[Any, ...]

_THREAD_STARTS: Final = ("_thread.start_new_thread", "_thread.start_joinable_thread")  # the second from 3.13 on

# Not current_thread(): that makes an object for a thread that has none.
_THREADS: Final[dict[int, threading.Thread]] = vars(threading)["_active"]


class Recorder:
    """The effects of one step: what kind, on what, how often."""

    def __init__(self, quiet: tuple[str, ...] = ()) -> None:
        self.found: dict[Told, int] = {}
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


class _Ear:
    """The one hook of this process, and who listens by it."""

    def __init__(self) -> None:
        self.wanted: list[object] = []  # for whom it listens; empty most of the time
        self.recording: list[Recorder] = []  # the innermost step last
        self.started: WeakKeyDictionary[threading.Thread, tuple[Recorder, ...]] = WeakKeyDictionary()
        self.parents: WeakKeyDictionary[threading.Thread, threading.Thread] = WeakKeyDictionary()
        self.lock = threading.Lock()
        self.busy = threading.local()
        self.is_installed = False

    def install(self) -> None:
        with self.lock:
            if not self.is_installed:
                sys.addaudithook(_hook(self.wanted, self.hear))
                if sys.version_info < (3, 12):
                    _tell_of_threads(self.wanted, self.hear)
                self.is_installed = True

    def hear(self, event: str, args: Args) -> None:
        """Something happens, and a step is going on."""
        told = _HEARD.get(event)
        if (told is None and event not in _THREAD_STARTS) or getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            if told is None:
                self._thread_starts(args)
                return
            what, target = told(args)
            if what and not _is_quiet(target):
                for one in self._theirs():
                    one.note(what, target)
        except Exception:  # noqa: BLE001 - a hook that raises would make the user's own call fail
            return
        finally:
            self.busy.now = False

    def _theirs(self) -> tuple[Recorder, ...]:
        """The steps that what happens on this thread belongs to."""
        here = threading.get_ident()
        mine = tuple(one for one in self.recording if one.thread == here)
        if mine:
            return mine
        thread = _THREADS.get(here)
        if thread is not None and thread in self.started:
            return tuple(one for one in self.started[thread] if one in self.recording)
        return tuple(self.recording) if len({one.thread for one in self.recording}) == 1 else ()

    def _thread_starts(self, args: Args) -> None:
        thread = getattr(args[0], "__self__", None)
        if isinstance(thread, threading.Thread):
            self.started[thread] = self._theirs()
            parent = _THREADS.get(threading.get_ident())
            if parent is not None:
                self.parents[thread] = parent


def _hook(wanted: list[object], hear: Callable[[str, Args], None]) -> Callable[[str, Args], None]:
    def hook(event: str, args: Args) -> None:
        if wanted:
            hear(event, args)

    return hook


def _tell_of_threads(wanted: list[object], hear: Callable[[str, Args], None]) -> None:
    """Python 3.11 has no audit event for a thread that starts: its `start` says so instead, as little to be taken out."""
    start = threading.Thread.start

    @functools.wraps(start)
    def told(self: threading.Thread) -> None:
        if wanted:
            hear(_THREAD_STARTS[0], (vars(threading.Thread)["_bootstrap"].__get__(self),))
        start(self)

    threading.Thread.start = told  # type: ignore[method-assign]  # on purpose


_ear = _Ear()


@contextmanager
def recorded(quiet: tuple[str, ...] = ()) -> Generator[Recorder]:
    """Record what happens from here on, on this thread and on those that it starts, until the end.

    Args:
        quiet: paths below which files are somebody else's doing (the store's own folder).
    """
    _ear.install()
    mine = Recorder(quiet)
    _ear.recording.append(mine)
    _ear.wanted.append(mine)
    try:
        yield mine
    finally:
        _ear.wanted.remove(mine)
        _ear.recording.remove(mine)


@contextmanager
def threads_followed() -> Generator[None]:
    """Notice which thread starts which, until the end."""
    _ear.install()
    mine = object()
    _ear.wanted.append(mine)
    try:
        yield
    finally:
        _ear.wanted.remove(mine)


def ancestors(thread: int) -> Iterator[int]:
    """The threads that started a thread, the next one first, as far as that was followed."""
    found = _THREADS.get(thread)
    while found is not None and (found := _ear.parents.get(found)) is not None:
        if found.ident is not None:
            yield found.ident


def is_on_a_steps_thread() -> bool:
    """Whether the code of a step that is being recorded started this thread."""
    thread = _THREADS.get(threading.get_ident())
    started = _ear.started.get(thread, ()) if thread is not None else ()
    return any(one in _ear.recording for one in started)


def _is_quiet(target: str) -> bool:
    if target.startswith(_QUIET_STARTS):
        return True
    path = target.replace("\\", "/")
    return not _QUIET_FOLDERS.isdisjoint(path.split("/")) or any(part in path for part in _QUIET_PARTS)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return " ".join(map(_text, cast("list[object]", value)))
    return str(value) if isinstance(value, str | int | Path) else type(value).__name__


def _opened(args: Args) -> Told:
    path, mode, flags = args
    writes = (
        bool(set(mode) & set("wax+"))
        if isinstance(mode, str)
        else bool(isinstance(flags, int) and flags & _WRITE_FLAGS)
    )
    return ("writes", _text(path)) if writes and not isinstance(path, int) else ("", "")


def _first(what: str) -> Callable[[Args], Told]:
    return lambda args: (what, _text(args[0]) if args else "")


def _pair(what: str) -> Callable[[Args], Told]:
    return lambda args: (what, " → ".join(_text(part) for part in args[:2]))


def _address(what: str) -> Callable[[Args], Told]:
    def told(args: Args) -> Told:
        address: Any = args[1] if len(args) > 1 else ""
        parts = cast("tuple[object, ...]", address)[:2] if isinstance(address, tuple) else (address,)
        return what, ":".join(map(_text, parts))

    return told


def _started(args: Args) -> Told:
    given: list[object] = list(args)
    command = given[1] if len(given) > 1 and given[1] else given[0]
    return "runs", _command(cast("list[object]", command) if isinstance(command, list) else [command])


def _command(parts: list[object]) -> str:
    """The command as somebody typed it, without the shell that it was given to."""
    is_line = len(parts) > 2 and parts[1] == "-c" and Path(_text(parts[0])).name in _SHELLS
    return _text(parts[2:] if is_line else parts)


def _forked_terminal(args: Args) -> Told:
    """A terminal was made for a process, as IPython does for a line with `!`. Which one it is, whoever makes it knows."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "spawn" and str(frame.f_globals.get("__name__")).partition(".")[0] == "ptyprocess":
            given: object = frame.f_locals.get("argv")
            if isinstance(given, list | tuple):
                return "runs", _command([*cast("Sequence[object]", given)])
        frame = frame.f_back
    return "forks", "this process"


def _database(args: Args) -> Told:
    return ("", "") if args and args[0] in (":memory:", "") else ("opens database", _text(args[0]))


def _environment(what: str) -> Callable[[Args], Told]:
    """What libraries of numbers set for themselves as they are imported is nobody's doing."""

    def told(args: Args) -> Told:
        name = _text(args[0])
        return ("", "") if name.startswith(_LIBRARIES_OWN) else (what, name)

    return told


_HEARD: Final[dict[str, Callable[[Args], Told]]] = {
    "open": _opened,
    "os.remove": _first("deletes"),
    "os.rmdir": _first("deletes"),
    "os.rename": _pair("renames"),
    "os.mkdir": _first("makes"),
    "os.truncate": _first("writes"),
    "os.chmod": _first("changes mode of"),
    "os.chown": _first("changes owner of"),
    "os.link": _pair("links"),
    "os.symlink": _pair("links"),
    "os.putenv": _environment("sets environment of"),
    "os.unsetenv": _environment("unsets environment of"),
    "os.chdir": _first("changes folder to"),
    "os.kill": _first("signals"),
    "os.system": _first("runs"),
    "os.exec": _first("runs"),
    "os.posix_spawn": _first("runs"),
    "os.spawn": lambda args: ("runs", _text(args[1]) if len(args) > 1 else ""),
    "os.fork": lambda args: ("forks", "this process"),
    "os.forkpty": _forked_terminal,
    "subprocess.Popen": _started,
    "socket.connect": _address("connects"),
    "socket.bind": _address("listens"),
    "socket.sendto": _address("sends to"),
    "urllib.Request": _first("requests"),
    "shutil.rmtree": _first("deletes"),
    "sqlite3.connect": _database,
    "smtplib.send": lambda args: ("sends mail", ""),
    "ftplib.connect": lambda args: ("connects", _text(args[1]) if len(args) > 1 else ""),
}
