"""Which saved names a cell may have changed in place: every one that its code could reach by a name.

Words of the source that are names; then the globals used by the notebook functions and classes that those values
reach, and theirs in turn; what running threads and event callbacks use; where Python can tell (3.12), the functions that
really ran. Code that looks names up at run time touches everything. What none of this sees, rolling verification finds.
"""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from types import FrameType, FunctionType, MethodType
from typing import Any, cast

from agent_kernel.session.tracking import Tracking
from agent_kernel.values.definitions import names_used
from agent_kernel.values.entries import class_entry

_WORD = re.compile(r"[^\W\d]\w*")
# Words after which any name may have been read or bound.
# fmt: off
_DYNAMIC_WORDS = frozenset({
    "globals", "locals", "vars", "eval", "exec", "__dict__", "__main__", "get_ipython", "user_ns", "setattr", "getattr",
    "run", "store", "debug", "rerun", "macro", "run_cell", "import_module", "__builtins__", "builtins", "inspect",
    "ctypes", "gc", "pdb", "breakpoint",
})
# fmt: on
_MAGIC_ONLY = frozenset(["run", "store", "debug", "rerun", "macro"])
_PLAIN_USES = frozenset({"getattr", "setattr", "inspect", "ctypes", "gc", "import_module", "builtins"})
_DYNAMIC_CODE = frozenset({"globals", "locals", "vars", "eval", "exec", "__main__", "user_ns"})
_OUTPUTS = re.compile(r"(?<!\w)(?:_{1,3}|_\d+|Out|_oh)(?!\w)")


def words_of(source: str) -> set[str]:
    """Every identifier-like word of the source, normalised as Python does."""
    if not source.isascii():
        source = unicodedata.normalize("NFKC", source)
    return set(_WORD.findall(source))


def looks_up_names(source: str, words: set[str]) -> bool:
    """Whether the code can reach names that its words do not show."""
    dynamic = words & (_DYNAMIC_WORDS - _MAGIC_ONLY - _PLAIN_USES)
    return bool(dynamic) or any(re.search(rf"^\s*%+\s*{word}\b", source, re.MULTILINE) for word in words & _MAGIC_ONLY)


def mentions_outputs(source: str) -> bool:
    """Whether `_`, `_3` or `Out` occurs: the objects behind them may be anyone's."""
    return _OUTPUTS.search(source) is not None


class Closure:
    """Grows a set of touched entries by what their values can reach through code."""

    def __init__(self, namespace: Mapping[str, object], tracking: Tracking) -> None:
        self.namespace = namespace
        self.tracking = tracking
        self.touched: set[str] = set()
        self.everything = False

    def add(self, names: Iterable[str]) -> None:
        """Touch these names and what follows from them; only names that are bound count."""
        todo = [name for name in names if name not in self.touched]
        while todo:
            name = todo.pop()
            if name in self.touched or not self._exists(name):
                continue
            self.touched.add(name)
            todo.extend(self._reached_from(name))

    def add_code_names(self, names: Iterable[str]) -> None:
        """Names used by code that ran or may run."""
        names = set(names)
        if not names.isdisjoint(_DYNAMIC_CODE):
            self.everything = True
        self.add(names)

    def _exists(self, name: str) -> bool:
        return name in self.namespace or name in self.tracking.groups

    def _reached_from(self, name: str) -> Iterable[str]:
        used: set[str] = set()
        group = self.tracking.groups.get(name)
        if group is not None:
            used |= group.globals_used
            used.update(group.members)
            used.update(class_entry(uid) for uid in group.classes)
        value = self.namespace.get(name)
        if type(value) is FunctionType:  # a function that was just made is not tracked yet
            used |= names_used(value.__code__)
        elif group is None and issubclass(type(value), type):
            used |= _class_names(cast("type", value))
        if not used.isdisjoint(_DYNAMIC_CODE):
            self.everything = True
        return used


def _class_names(kind: type) -> set[str]:
    members = type.__getattribute__(kind, "__dict__").values()
    return {name for member in members if type(member) is FunctionType for name in names_used(member.__code__)}


def running_code_names(namespace: Mapping[str, object]) -> set[str]:
    """Names used by notebook code that other threads are in the middle of."""
    if threading.active_count() < 2:
        return set()
    found: set[str] = set()
    for frame in frames_of_threads().values():
        found |= _names_of_frames(frame, namespace)
    return found


def _names_of_frames(frame: FrameType | None, namespace: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    while frame is not None:
        if frame.f_globals is namespace:
            found |= names_used(frame.f_code)
        frame = frame.f_back
    return found


def draws(namespace: Mapping[str, object], touched: Iterable[str]) -> bool:
    """Whether pyplot was touched, which changes the current figure without naming it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return pyplot is not None and any(namespace.get(name) is pyplot for name in touched)


def pyplot_figures() -> set[int]:
    """The ids of the figures that pyplot holds."""
    helpers: Any = sys.modules["matplotlib._pylab_helpers"]
    return {id(manager.canvas.figure) for manager in helpers.Gcf.get_all_fig_managers()}


def frames_of_threads() -> dict[int, FrameType]:
    """What each other thread runs now, by the thread's number."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # the documented way to see other threads
    # Ours leads to whoever keeps the answer: all that its callers hold would stay alive until the next collection.
    del frames[threading.get_ident()]
    return frames


def runs_notebook_code(frame: FrameType | None, namespace: Mapping[str, object]) -> bool:
    while frame is not None:
        if frame.f_globals is namespace:
            return True
        frame = frame.f_back
    return False


def callback_names(callbacks: Iterable[object], namespace: Mapping[str, object]) -> set[str]:
    """Names used by notebook functions that something outside calls, such as event handlers."""
    found: set[str] = set()
    for callback in callbacks:
        function: Any = callback.__func__ if type(callback) is MethodType else callback
        if type(function) is FunctionType and function.__globals__ is namespace:
            found |= names_used(function.__code__)
    return found
