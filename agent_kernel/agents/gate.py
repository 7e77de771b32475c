"""Stop what a step would do outside the variables, as it begins to happen.

The audit hook that records side effects (`side_effects`) asks the gate of the step, which raises `EffectStopped` where nobody allowed
this effect. The code may catch that, so the gate remembers it and stays shut: whoever ran the step looks at `stopped`.

Who acts is read from the frames between the effect and the code of the step. An installed module that is being imported may
write its caches, a library may run a command that stands word for word in its own code, what the program gave to the agent
may do what it likes, and so may the machinery of a sub-agent's run. Where something is written counts too: a temporary
file or folder that Python made for the step is the step's own.

It is a gate in this process, no fence: code that opens files without Python (C++, Rust) is not seen.
"""

from __future__ import annotations

import gc
import math
import os
import site
import socket
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from agent_kernel.agents.events import ApprovalDecided, ApprovalRequested, Event, Finding
from agent_kernel.agents.review.meaning import BUILTINS, FUNCTIONS, SINKS
from agent_kernel.agents.side_effects import (
    MODE_OF_NEW,
    STEP,
    TEMPORARY,
    TO,
    had_gate,
    is_own,
    pause_recording,
    real_path,
    register_outside_file,
    register_own_file,
)

SideEffect: TypeAlias = tuple[str, str]  # what, and on what

_FILES: Final = frozenset(
    {"writes", "logs to", "makes", "renames", "links", "opens database"}
    | {f"changes {what} of" for what in ("mode", "owner", "times", "attributes")}
)
_NETWORK: Final = frozenset({"connects", "listens", "sends to", "requests", "sends mail", "looks up"})
_PROCESSES: Final = frozenset({"runs", "forks", "signals", "starts a thread of", "starts", "ends"})
_STATE: Final = frozenset(
    {"sets environment of", "unsets environment of", "changes folder to", "changes rights of", "hooks", "limits"}
    | {"closes", "changes"}
)
_C_CODE: Final = frozenset({"loads", "calls"})
# What a person allowed with a step, by the kind of what the review of its code had found.
_VERBS: Final[Mapping[str, frozenset[str]]] = {
    "files": _FILES,
    "network": _NETWORK | {"opens in the browser"},
    "database": _FILES | _NETWORK,
    "processes": _PROCESSES,
    "clipboard": _PROCESSES,
    "shell": _FILES | _NETWORK | _PROCESSES | _STATE | {"deletes"},
    "magic": _FILES | _NETWORK | _PROCESSES | _STATE | {"deletes"},
    "process state": _STATE,
    "kernel": frozenset({"ends"}),
    "browser": frozenset({"shows"}),
}
_DELETING: Final = ("remove", "unlink", "rmdir", "rmtree", "delete", "move", "rename", "replace", "empor")
_IMPORTING: Final = frozenset({"_find_and_load", "_find_and_load_unlocked"})
_IMPORTS: Final = vars(sys.modules["_frozen_importlib"])
_NO_PACKAGE: Final = frozenset({"frozen", "standard", "ours", "storage"})
_LOADERS: Final = frozenset({"CDLL", "PyDLL", "LoadLibrary", "cdll", "pythonapi", "find_library"})
_RUN: Final = frozenset({"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"})
_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/opt", "/nix", "/snap", "/System", "/Library")
_TRIES: Final = ("::1:0", "127.0.0.1:0")  # to see whether this computer has addresses of a kind
_PIPE: Final = -1
_LONGEST: Final = 300
# What a library may do with a file and those that belong to it, where its own code says one of these.
_BESIDES: Final[Mapping[str, frozenset[str]]] = {
    "writes": frozenset({"open"}),
    "makes": frozenset({"mkdir", "makedirs"}),
    "renames": frozenset({"rename", "replace", "move"}),
    "changes mode of": frozenset({"chmod", "copymode", "copystat", "copy", "copy2"}),
    "changes owner of": frozenset({"chown"}),
    "changes times of": frozenset({"utime", "copystat", "copy2"}),
    "changes attributes of": frozenset({"setxattr", "copystat", "copy2"}),
}
_MAKING: Final = frozenset({"writes", "makes", "renames"})
_PATIENCE_S: Final = 3.0  # what a step has for coming to its end by itself, once something was stopped
_AGAIN_S: Final = 0.5  # what a step that was interrupted has for tidying up
THAT: Final = " that "  # between what is shown and what that does


class EffectStopped(BaseException):
    """A step was about to do something outside the variables that nobody had allowed. Raised before it happens."""

    def __init__(self, what: str, target: str) -> None:
        super().__init__(f"{what} {target}".strip())
        self.effect: SideEffect = (what, target)


class SavingStopped(RuntimeError):  # noqa: N818 - as above
    """Saving a variable was about to do something outside that nobody had allowed: the variable is not saved."""

    def __init__(self, what: str, target: str) -> None:
        super().__init__(f"saving it {what} {target}".strip())


def finding(what: str, target: str) -> Finding:
    """An effect that was stopped, as what a person is asked about."""
    kinds = (kind for kind in ("files", "network", "processes", "process state", "browser") if what in _VERBS[kind])
    kind = "files" if what == "deletes" else "dynamic" if what in _C_CODE else next(kinds, "processes")
    return Finding(kind, f"{what} {target}".strip(), 0, risky=True)


class Allowed(msgspec.Struct, frozen=True):
    """What a step may do outside.

    Attributes:
        findings: what the review had found in its code, as a person approved it.
        side_effects: those that were stopped before, and that a person then allowed.
        shows: what may run in the page: MIME types, and what else it was called.
        names: modules and functions that need no asking, by dotted name.
        codes: the code of what the program gave to the agent.
    """

    findings: tuple[Finding, ...] = ()
    side_effects: frozenset[SideEffect] = frozenset()
    shows: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    codes: frozenset[CodeType] = frozenset()

    @property
    def verbs(self) -> frozenset[str]:
        """The kinds of effects that were reported."""
        risky = [one for one in self.findings if one.risky]
        found = {verb for one in risky for verb in _VERBS.get(one.kind, ())}
        found |= {"deletes" for one in risky if one.kind == "files" and any(word in one.what for word in _DELETING)}
        is_c_code = any(one.kind == "dynamic" and ("ctypes" in one.what or "cffi" in one.what) for one in risky)
        found |= _C_CODE if is_c_code else frozenset()
        kinds = (FUNCTIONS.get(name) or BUILTINS.get(name, "") for name in self.names)
        return frozenset(found | {verb for kind in kinds for verb in _VERBS.get(kind, ())})


def collect_codes(offers: Iterable[object]) -> frozenset[CodeType]:
    """The code of functions, of methods of classes and of live objects."""
    return frozenset(code for one in offers for code in _codes_of(one))


def _codes_of(value: object) -> Iterator[CodeType]:
    bare = value.__func__ if isinstance(value, MethodType) else value
    if isinstance(bare, FunctionType):
        yield bare.__code__
        return
    kind: type = bare if isinstance(bare, type) else type(bare)
    for one in kind.__mro__[:-1]:
        for member in vars(one).values():
            inner = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(inner, FunctionType):
                yield inner.__code__


class Gate:
    """Lets pass what one step may do, and stops the rest.

    Args:
        store: the url of the store that the run itself writes to.
        mask: what is stored of an effect, without secrets. What a person allowed reads so.
        withholds: nobody is asked about what the step shows: what runs in the page is left out.
    """

    def __init__(
        self,
        allowed: Allowed,
        store: str = "",
        mask: Callable[[str, int], str] = lambda text, _: text,
        *,
        withholds: bool = False,
    ) -> None:
        self.withholds = withholds
        self._mask = mask
        self.stopped: dict[SideEffect, None] = {}
        self._allowed = allowed
        self._verbs = allowed.verbs
        self._hosts = {host for one in allowed.side_effects if (host := _host_of(one))}
        self._store = store
        self.files: set[str] = set()  # what the code of the step is called
        self._made: set[str] = set()  # files and folders that were not there before the step
        self._process = os.getpid()
        self._collection_hooks = list(gc.callbacks)
        self._lock = threading.Lock()
        self.when_stopped: Callable[[], bool] | None = None  # interrupts the step; whether it ran still
        self.interrupts = 0  # so many times
        self._ending = threading.Lock()  # held while the step is interrupted, so that no interrupt reaches its next try
        self._has_ended = threading.Event()
        self._is_waiting = False
        self._is_committing = False
        self._interrupted_at = -math.inf
        self._thread = threading.get_ident()
        self._temporary = real_path(tempfile.gettempdir())  # which tries what it may write to, the first time

    def may_show(self, what: str, frame: FrameType | None) -> bool:
        """Whether the step may show what runs or loads something in the page.

        Args:
            what: a MIME type, or what else it is.
        """
        is_allowed = "shows" in self._verbs or what in self._allowed.shows
        return (is_allowed and not self.stopped) or self._actor(frame).is_free

    def note_temporary(self, path: str, frame: FrameType | None) -> None:
        """Python makes a temporary file or folder: what is in there is the step's own."""
        made_by = frame.f_globals if frame is not None else None
        target = real_path(path)
        if made_by is tempfile.__dict__ and not os.path.lexists(target):
            (register_own_file if _is_below(target, self._temporary) else register_outside_file)(target)

    def check(self, what: str, target: str, paths: Sequence[str], frame: FrameType | None) -> BaseException | None:
        """What to raise where this must not happen; None: it may.

        Args:
            paths: of files that are written, removed, made.
        """
        try:
            passes = self._passes(what, target, paths, frame)
            if passes and paths:
                self._note_created(what, paths)
        except Exception:  # noqa: BLE001 - who cannot tell lets nothing pass
            passes = False
        return None if passes else self.stop(what, target)

    def is_acting(self, frame: FrameType | None) -> bool:
        """Whether code that the step defined is what calls here, on whatever thread."""
        while frame is not None and not self.is_step_code(frame):
            frame = frame.f_back
        return frame is not None

    def is_step_code(self, frame: FrameType | None) -> bool:
        """Whether this very code is the step's."""
        name = frame.f_code.co_filename if frame is not None else ""
        return name in self.files or name.startswith(STEP)

    def stop(self, what: str, target: str) -> EffectStopped | SavingStopped:
        """Remember that this was stopped. A pool may lose it on its way from another thread, and wait for ever.

        So may an event loop on the thread of the step, which has a while to end by itself.
        """
        with self._lock:
            self.stopped[what, target] = None
        if threading.get_ident() != self._thread:
            self._interrupt()
        elif self.when_stopped is not None and not self._is_waiting:
            self._is_waiting = True
            with pause_recording(), suppress(RuntimeError):  # no thread begins any more as Python ends
                threading.Thread(target=self._await_end, name="agent-kernel stopped step", daemon=True).start()
        is_saving = self._is_committing and threading.get_ident() == self._thread
        return SavingStopped(what, target) if is_saving else EffectStopped(what, target)

    def _await_end(self) -> None:
        while not self._has_ended.wait(_PATIENCE_S):
            self._interrupt()

    def _interrupt(self) -> None:
        """Interrupt the step, if its code runs still, unless that has been done just now."""
        with self._ending:
            if self.when_stopped is not None and self._is_time():
                self.interrupts += bool(self.when_stopped())

    @contextmanager
    def committing(self) -> Generator[Callable[[], bool]]:
        """While what the step made is saved, after its code has run. Gives what says whether anything was stopped."""
        with self._ending:
            self.when_stopped = None
        self._has_ended.set()
        self._is_committing = True
        try:
            yield lambda: bool(self.stopped)
        finally:
            self._is_committing = False

    def _is_time(self) -> bool:
        """Whether to interrupt the step, again if it went on: another interrupt at once would arrive as the first is told."""
        with self._lock:
            now = time.monotonic()
            is_time = now - self._interrupted_at > _AGAIN_S
            if is_time:
                self._interrupted_at = now
            return is_time

    def _passes(self, what: str, target: str, paths: Sequence[str], frame: FrameType | None) -> bool:
        if what == "ends" and os.getpid() != self._process:
            return True  # that of a fork, which was allowed
        if what == "writes" and paths and all(map(os.path.isdir, paths)):
            return True  # no folder is written to: what an `opener` opens in it tells of itself
        if what == "hooks" and target.startswith("the end") and not self.is_step_code(frame):
            return True  # a library tidies up
        if paths and all(path.startswith(SINKS) or is_own(path) for path in paths):
            return True
        if _comes_to_nothing(what, target, paths) or (what == "limits" and _asks_for_mode(target, frame)):
            return True
        if what == "deletes" and len(paths) == 1 and _has_only(paths[0], self._made):
            return True  # also once something was stopped: it tidies up
        if not self.stopped and (
            what in self._verbs or self._is_approved(what, target, paths) or self._is_part(what, paths, frame)
        ):
            return True
        actor = self._actor(frame)
        if actor.is_free:
            return True
        if what == "logs to":
            return _is_of_a_library(frame)
        if what == "calls":  # of what was loaded, which was looked at
            return actor.imports or bool(actor.library)
        if what == "loads":
            is_of_others = _is_foreign(target.removeprefix("C code of "))
            return not is_of_others and (actor.imports or not _LOADERS.isdisjoint(actor.names))
        if what == "starts a thread of":
            return "start_new_thread" in actor.names
        if what == "runs":
            return actor.imports or actor.says_command
        if actor.imports:
            if what == "listens" and target in _TRIES:
                return True
            return what in _STATE or (bool(paths) and all(map(_is_cache, paths)))
        return bool(paths) and bool(actor.library) and all(_is_cache_of(actor.library, path) for path in paths)

    def _note_created(self, what: str, paths: Sequence[str]) -> None:
        """Remember what was not there before the step. What was there is so under another name, too."""
        *moved, target = paths
        if what == "links" or not all(one in self._made or is_own(one) for one in moved):
            self._made.discard(target)
        elif what in _MAKING and not os.path.lexists(target):
            self._made.add(target)

    def _is_part(self, what: str, paths: Sequence[str], frame: FrameType | None) -> bool:
        """Whether this is part of an act that was approved: nothing that was there before is lost by it, but what is approved.

        That is what happens within a folder that the step made; a file of the step's that takes the place of one that it may
        write; and what a library does besides with a file that it may write, and with those that belong to it.
        """
        if not paths or not all(paths):
            return False
        written, put = self._list_approved_files()
        mine = [path in self._made or any(_is_below(path, one) for one in self._made) for path in paths]
        free = [path in self._made or not os.path.lexists(path) for path in paths]
        if what == "writes" and paths[0] in put:
            return True
        if what == "renames" and len(paths) == 2:
            is_steps = (mine[0] and free[0]) or is_own(paths[0])
            may_take = paths[1] in put or paths[1] in written or (mine[1] and free[1])
            if is_steps and may_take:
                return True
        if what in _MAKING and free[-1] and all(any(_is_below(path, one) for one in self._made) for path in paths):
            return True  # in a folder that the step made, or that file itself
        if what.startswith("changes ") and all(mine) and all(free):
            return True
        if what not in _BESIDES or (what == "renames" and not free[-1]) or not _is_by_a_library(frame, _BESIDES[what]):
            return False
        theirs = [any(_belongs_to(path, one) for one in written) for path in paths]
        return theirs[-1] and all(one or is_mine for one, is_mine in zip(theirs, mine, strict=True))

    def _list_approved_files(self) -> tuple[list[str], list[str]]:
        """The files that a person let be written, and those that another file may take the place of."""
        written, put = list[str](), list[str]()
        for what, target in self._allowed.side_effects:
            if what == "writes" and not target.startswith(TEMPORARY):
                written.append(real_path(target))
            elif what == "renames" and target.count(TO) == 1:
                put.append(real_path(target.partition(TO)[2]))
        return written, put

    def _is_approved(self, what: str, target: str, paths: Collection[str]) -> bool:
        if (what, self._mask(target, _LONGEST)) in self._allowed.side_effects:
            return True
        if what in _NETWORK:
            return bool(self._hosts) and _is_one_of(_host_of((what, target)), self._hosts)
        if what in ("renames", "links"):  # only onto what was approved
            return False
        named = [other for verb, other in self._allowed.side_effects if verb == what and paths]
        approved = [real_path(other) for other in named if not other.startswith(TEMPORARY)]
        if what == "deletes":  # a folder and what is in it
            return bool(approved) and all(any(_is_below(path, one) for one in approved) for path in paths)
        folders = {os.path.dirname(one) for one in approved}  # noqa: PTH120 - texts
        return bool(folders) and all(os.path.dirname(path) in folders for path in paths)  # noqa: PTH120

    def _actor(self, frame: FrameType | None) -> _Actor:
        """Who acts: read outwards from the effect, up to the first code that is nobody's but the step's."""
        library, names, says_command = "", frozenset[str](), False
        begins: Mapping[str, object] = {}
        while frame is not None:
            code = frame.f_code
            if code in self._allowed.codes or self._is_named(frame):
                return _Actor(is_free=True)
            kind = _kind_of(code.co_filename)
            if kind == "" and code.co_filename.startswith("<"):
                kind = _kind_of(_file_of_globals(frame))
            if kind in ("machinery", "storage") and not _is_of_its_module(frame):
                kind = ""  # code that only says so
            if code in SPEAKING_CODES or (kind == "machinery" and library and not code.co_filename.startswith(_MODELS)):
                break  # it lets a value of the step say what it is: what that does is the step's
            if kind == "machinery" or (kind == "storage" and self._is_own_store(frame)):
                return _Actor(is_free=True)
            if kind == "":
                break
            if frame.f_globals is _IMPORTS and code.co_name in _IMPORTING:
                return _Actor(library=library, names=names, says_command=says_command, imports=True)
            if kind == "standard" and code.co_qualname == "Popen.__init__":
                begins = frame.f_locals
            says_command = says_command or (bool(begins) and _says_command(code, begins))
            if kind not in _NO_PACKAGE and not library:
                library, names = kind, frozenset(code.co_names)
            frame = frame.f_back
        return _Actor(library=library, names=names, says_command=says_command)

    def drop_collection_hooks(self) -> None:
        """Take back what the step would have called as garbage is collected, at any time and by whoever does something."""
        for hook in [one for one in gc.callbacks if one not in self._collection_hooks]:
            code = getattr(hook, "__code__", None)
            if not isinstance(code, CodeType) or _kind_of(code.co_filename) == "":
                gc.callbacks.remove(hook)

    def _is_named(self, frame: FrameType) -> bool:
        names = self._allowed.names
        if not names:
            return False
        dotted = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}".split(".")
        return any(".".join(dotted[:end]) in names for end in range(1, len(dotted) + 1))

    def _is_own_store(self, frame: FrameType) -> bool:
        return bool(self._store) and getattr(frame.f_locals.get("self"), "url", None) == self._store


class _Actor(msgspec.Struct, frozen=True):
    """Who acts. `library`: the installed package that is nearest; `says_command`: what is run stands in its code."""

    library: str = ""
    names: frozenset[str] = frozenset()  # what its code names
    is_free: bool = False
    imports: bool = False
    says_command: bool = False


# -- whose code it is

_PACKAGE: Final = str(Path(__file__).parent.parent)
_MACHINERY: Final = tuple(
    os.path.join(_PACKAGE, "agents", name)  # noqa: PTH118 - to compare with file names as they are spelled
    for name in ("executor.py", "subagents.py", "run.py", "limits.py", "models")
)
_MODELS: Final = os.path.join(_PACKAGE, "agents", "models")  # noqa: PTH118
SPEAKING_CODES: Final[set[CodeType]] = set()  # of functions that write what the step's own values say of themselves
_STORAGE: Final = os.path.join(_PACKAGE, "storage") + os.sep  # noqa: PTH118
_VALUES: Final = os.path.join(_PACKAGE, "values") + os.sep  # noqa: PTH118
_CTYPES: Final = os.path.join(os.path.dirname(os.__file__), "ctypes") + os.sep  # noqa: PTH118, PTH120


@lru_cache(maxsize=1)
def _find_install_paths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where packages are installed, and where Python's own modules are."""
    paths = sysconfig.get_paths()
    packages = {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}
    standard = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}  # noqa: PTH120
    return tuple(f"{one}{os.sep}" for one in packages), tuple(f"{one}{os.sep}" for one in standard)


@lru_cache(maxsize=4096)
def _kind_of(file: str) -> str:
    """Whose code a file has: `machinery`, `storage` or `ours`, `frozen`, `standard`, a package's name; "": the step's or the user's."""
    if file.startswith("<frozen "):
        return "frozen"
    if file.startswith(_CTYPES) or f"{os.sep}site-packages{os.sep}cffi{os.sep}" in file:
        return "ours"  # it acts for whoever calls it
    if file.startswith(_PACKAGE + os.sep):
        if file.startswith(_VALUES):
            return ""  # what it calls as it saves a value is that value's doing
        return "machinery" if file.startswith(_MACHINERY) else "storage" if file.startswith(_STORAGE) else "ours"
    packages, standard = _find_install_paths()
    for prefix in packages:
        if file.startswith(prefix):
            return file[len(prefix) :].partition(os.sep)[0].removesuffix(".py")
    return "standard" if file.startswith(standard) else ""


def _is_foreign(file: str) -> bool:
    """Whether compiled code lies neither with an installed package nor with the system."""
    if os.sep not in file:
        return False  # the system looks for it where it has its libraries
    target = real_path(file)
    roots = (*sum(_find_install_paths(), ()), sys.prefix, sys.base_prefix, *_SYSTEM)
    return not any(_is_below(target, real_path(one)) for one in roots)


def _is_of_its_module(frame: FrameType) -> bool:
    """Whether code has the variables of the module whose file it says that it is of."""
    module = sys.modules.get(str(frame.f_globals.get("__name__")))
    is_loaded = module is not None and getattr(module, "__dict__", None) is frame.f_globals
    return is_loaded and getattr(module, "__file__", None) == frame.f_code.co_filename


def _file_of_globals(frame: FrameType) -> str:
    """The file of the module whose code was made at run time, as the methods of a dataclass are."""
    module = sys.modules.get(str(frame.f_globals.get("__name__")))
    if module is None or getattr(module, "__dict__", None) is not frame.f_globals:
        return ""
    return str(frame.f_globals.get("__file__") or "")


def _says_command(code: CodeType, begins: Mapping[str, object]) -> bool:
    """Whether a command that begins stands in the code that runs it, and is given no input.

    Args:
        begins: what `subprocess` was asked for.
    """
    command: Any = begins.get("args")
    if (
        begins.get("stdin") == _PIPE
        or code.co_filename.endswith("subprocess.py")
        or not _RUN.intersection(code.co_names)
    ):
        return False
    words = command.split() if isinstance(command, str) else [str(one) for one in command or ()]
    known = {word for text in _texts(code.co_consts) for word in (text, *text.split())}
    return bool(words) and known.issuperset(words)


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for one in constants:
        if isinstance(one, str):
            yield one
        elif isinstance(one, tuple):
            yield from _texts(cast("tuple[object, ...]", one))


def _is_of_a_library(frame: FrameType | None) -> bool:
    """Whether it is a library that logs here: whoever set up the log wants to have that."""
    while frame is not None and _kind_of(frame.f_code.co_filename) in ("standard", "frozen"):
        frame = frame.f_back
    return frame is not None and _kind_of(frame.f_code.co_filename) != ""


_PASSING_ON: Final = frozenset({"os", "pathlib", "shutil", "tempfile", "functools", "codecs"})


def _is_by_a_library(frame: FrameType | None, names: Collection[str]) -> bool:
    """Whether a library does this of its own, and no code that called `os`, or one of the modules that pass on to it.

    Args:
        names: its code says one of these. A pool does what it is given.
    """
    while frame is not None and frame.f_globals.get("__name__") in _PASSING_ON and _is_library(frame):
        frame = frame.f_back
    return frame is not None and _is_library(frame) and not frozenset(names).isdisjoint(frame.f_code.co_names)


def _is_library(frame: FrameType) -> bool:
    """Whether this very code is Python's or of an installed package, and does not only say so."""
    kind = _kind_of(frame.f_code.co_filename)
    return kind not in ("", "frozen", "machinery", "ours", "storage") and _is_of_its_module(frame)


def _asks_for_mode(target: str, frame: FrameType | None) -> bool:
    """Whether a library asks for the mode of new files, for which it has to set that."""
    return target == MODE_OF_NEW and frame is not None and _is_library(frame) and "umask" in frame.f_code.co_names


# -- places


def _comes_to_nothing(what: str, target: str, paths: Sequence[str]) -> bool:
    """Whether Python's own error is all that comes of it: nothing is there to be deleted, or the folder is there already."""
    if len(paths) != 1 or not paths[0]:
        return False
    exists = os.path.lexists(paths[0])
    if what == "makes":
        return os.path.isdir(paths[0])  # noqa: PTH112
    # A link that leads nowhere is there; and a name may be meant within an open folder, as that of the file is not.
    return what == "deletes" and not exists and not os.path.lexists(target) and real_path(target) == paths[0]


def _has_only(path: str, made: Collection[str]) -> bool:
    """Whether all that is deleted with this was made meanwhile."""
    if not os.path.isdir(path):  # noqa: PTH112
        return path in made
    contents = (os.path.join(at, one) for at, folders, files in os.walk(path) for one in (*folders, *files))  # noqa: PTH118
    return path in made and all(one in made for one in contents)


def _belongs_to(path: str, other: str) -> bool:
    """Whether one of two files in a folder is made for the other, by its name: `x.dir` and `x.bak` for `x.dat`.

    >>> _belongs_to("/a/x.bak", "/a/x.dat"), _belongs_to("/a/x.dat.part", "/a/x.dat"), _belongs_to("/a/xy.dat", "/a/x.dat")
    (True, True, False)
    """
    folder, _, name = path.rpartition(os.sep)
    others, _, other_name = other.rpartition(os.sep)
    if folder != others or not name or not other_name:
        return False
    stems = [one.rpartition(".")[0] for one in (name, other_name)]
    return (
        name == other_name
        or (stems[0] == stems[1] != "")
        or name.startswith(f"{other_name}.")
        or other_name.startswith(f"{name}.")
    )


def _is_below(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))


def _caches() -> tuple[str, ...]:
    home = os.path.expanduser("~")  # noqa: PTH111
    named = (os.environ.get(name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"))
    return tuple(real_path(one) for one in (f"{home}/.cache", f"{home}/.config", tempfile.gettempdir(), *named) if one)


def _is_cache(path: str) -> bool:
    """Whether this is where modules keep what they make for themselves as they are imported."""
    if os.path.basename(os.path.dirname(path)) == "__pycache__" or os.path.basename(path) == "__pycache__":  # noqa: PTH119, PTH120
        return True
    return any(_is_below(path, one) for one in _caches())


def _is_cache_of(library: str, path: str) -> bool:
    """Whether this is a library's own cache: `~/.cache/matplotlib`."""
    return any(_is_below(path, os.path.join(one, library)) for one in _caches()[:2])  # noqa: PTH118


# -- the network


def _host_of(side_effect: SideEffect) -> str:
    what, target = side_effect
    if what not in _NETWORK:
        return ""
    if "://" in target:
        return urlsplit(target).hostname or ""
    return target.rpartition(":")[0] if what in ("connects", "sends to") else target


def _is_one_of(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is one of these, by name or by address."""
    if host in hosts:
        return True
    for name in hosts:
        try:
            if any(found[4][0] == host for found in socket.getaddrinfo(name, None)):
                return True
        except OSError:
            continue
    return False


_CALLING: Final = frozenset({"IPython.core.events", "asyncio.events", "ipykernel.kernelbase"})


def is_left_callback(frame: FrameType | None) -> bool:
    """Whether a function acts here that a step with a gate left to be called, and no code of a person's calls it."""
    is_steps = False
    while frame is not None and not (is_steps and frame.f_globals.get("__name__") in _CALLING):
        code = frame.f_code
        if code.co_name != "<module>" and had_gate(code):
            is_steps = True
        elif is_steps and _kind_of(code.co_filename) == "" and not code.co_filename.startswith("<"):
            return False
        frame = frame.f_back
    return is_steps


def find_approved_renderers(events: Iterable[Event]) -> frozenset[str]:
    """What a person let a run show that runs in the page, and which is the same every time: renderers of MIME types."""
    found: set[str] = set()
    request: ApprovalRequested | None = None
    for event in events:
        if isinstance(event, ApprovalRequested):
            request = event
        elif isinstance(event, ApprovalDecided) and request is not None and event.decision != "deny":
            found |= {kind for kind in map(find_mime_type, request.stopped) if kind.startswith("application/")}
    return frozenset(found)


def find_mime_type(side_effect: SideEffect) -> str:
    """Of something that was to be shown, what it is: `text/html`."""
    return side_effect[1].partition(THAT)[0] if side_effect[0] == "shows" else ""


def package_folder(name: str) -> str:
    """The folder of a loaded package. Returns "" if no loaded package has the name."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str) or os.path.basename(file) != "__init__.py":  # noqa: PTH119
        return ""
    return os.path.dirname(file) if _kind_of(file) not in ("", "standard") else ""  # noqa: PTH120
