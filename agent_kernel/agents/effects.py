"""What a step did outside the variables, as Python's audit hooks tell it: files written, processes, connections.

It is a record, not a fence: C code can act without telling. Going back covers none of it, and whoever goes back is told.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

__all__ = ["Recorder", "recorded"]

_Heard: TypeAlias = "Callable[[tuple[Any, ...]], tuple[str, str]]"

_MOST: Final = 100  # different effects that one step may have recorded
_WRITE_FLAGS: Final = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # write, read and write, create, truncate, append (Linux)
# What our own store and Python itself write while code runs.
_OURS: Final = (".agent-kernel", "__pycache__", ".ipython", "/dev/null", "/dev/tty", "/dev/pts", ".cache/matplotlib")


class Recorder:
    """The effects of one step: what kind, on what, how often."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], int] = {}
        self.dropped = 0

    def note(self, what: str, target: str) -> None:
        key = (what, target[:300])
        if key not in self.found and len(self.found) >= _MOST:
            self.dropped += 1
            return
        self.found[key] = self.found.get(key, 0) + 1


_recording: list[Recorder] = []  # the innermost step last
_installed = threading.Event()
_lock = threading.Lock()
_busy = threading.local()


@contextmanager
def recorded(quiet: tuple[str, ...] = ()) -> Generator[Recorder]:
    """Record what happens from here on, on all threads, until the end.

    Args:
        quiet: paths below which files are somebody else's doing (the store's own folder).
    """
    with _lock:
        if not _installed.is_set():
            sys.addaudithook(_hear)  # there is no way to take it out again; without a step it does next to nothing
            _installed.set()
    mine = Recorder()
    mine_quiet = tuple(str(Path(path)) for path in quiet if path)
    _quiet.append(mine_quiet)
    _recording.append(mine)
    try:
        yield mine
    finally:
        _recording.remove(mine)
        _quiet.remove(mine_quiet)


_quiet: list[tuple[str, ...]] = []


def _hear(event: str, args: tuple[object, ...]) -> None:
    if not _recording or event not in _HEARD:
        return
    if getattr(_busy, "now", False):
        return
    _busy.now = True
    try:
        what, target = _HEARD[event](args)
        if what and not any(quiet in target for quiet in (*_OURS, *(one for each in _quiet for one in each))):
            for one in _recording:
                one.note(what, target)
    except Exception:  # noqa: BLE001 - a hook that raises would make the user's own call fail
        return
    finally:
        _busy.now = False


def _opened(args: tuple[Any, ...]) -> tuple[str, str]:
    path, mode, flags = (*args, None, None, None)[:3]
    writes = (
        bool(set(mode) & set("wax+"))
        if isinstance(mode, str)
        else bool(isinstance(flags, int) and flags & _WRITE_FLAGS)
    )
    if not writes or isinstance(path, int):
        return "", ""
    return "writes", _text(path)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return " ".join(map(_text, cast("Sequence[object]", value)))
    return str(value) if isinstance(value, str | int | Path) else type(value).__name__


def _named(what: str, at: int = 0) -> _Heard:
    def told(args: tuple[Any, ...]) -> tuple[str, str]:
        return what, _text(args[at]) if len(args) > at else ""

    return told


def _connected(args: tuple[Any, ...]) -> tuple[str, str]:
    address: Any = args[1] if len(args) > 1 else ""
    if isinstance(address, tuple):
        return "connects", ":".join(map(_text, cast("Sequence[object]", address)[:2]))
    return "connects", _text(address)


def _started(args: tuple[Any, ...]) -> tuple[str, str]:
    return "runs", _text(args[1] if len(args) > 1 and args[1] else args[:1])


_HEARD: Final[dict[str, _Heard]] = {
    "open": _opened,
    "os.remove": _named("deletes"),
    "os.rmdir": _named("deletes"),
    "os.rename": _named("renames"),
    "os.mkdir": _named("makes"),
    "os.truncate": _named("writes"),
    "os.chmod": _named("changes mode of"),
    "os.link": _named("links"),
    "os.symlink": _named("links"),
    "os.putenv": _named("sets environment of"),
    "os.system": _named("runs"),
    "os.exec": _named("runs"),
    "os.posix_spawn": _named("runs"),
    "os.spawn": _named("runs", 1),
    "os.fork": lambda args: ("forks", ""),
    "subprocess.Popen": _started,
    "socket.connect": _connected,
    "socket.bind": lambda args: ("listens", _connected(args)[1]),
    "socket.sendto": _connected,
    "shutil.rmtree": _named("deletes"),
    "shutil.move": _named("moves"),
    "shutil.copyfile": _named("writes", 1),
    "smtplib.send": _named("sends mail"),
    "ftplib.connect": _named("connects", 1),
}
