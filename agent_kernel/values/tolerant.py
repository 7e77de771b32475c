"""Read a stream in which an object fails: it is marked, and all that does not hold it comes out as ever.

Python's own unpickler, for the one in C stops at the first error. What is made of something that failed has failed, too.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# The steps of Python's unpickler are no part of its interface, and have no types.

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from agent_kernel.values.streams import Finding

_python: Any = pickle
_Python: Any = _python._Unpickler


class Missing:
    """In the place of what could not be made."""


class TolerantUnpickler(Finding, _Python):  # type: ignore[misc]
    """`broken` are the objects that failed: placeholders for those that could not be made, and those half made."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)
        self.broken: list[object] = []
        self._ids: set[int] = set()

    def is_broken(self, value: object) -> bool:
        if not self._ids:
            return False
        return any(id(part) in self._ids for part in (value if type(value) is tuple else (value,)))

    def note(self, broken: object) -> None:
        self.broken.append(broken)
        self._ids.add(id(broken))


def _making(step: Callable[[Any], None], taken: int) -> Callable[[Any], None]:
    """A step that takes these many parts and leaves the object that is made of them."""

    def load(self: Any) -> None:
        parts = self.stack[-taken:]
        before = len(self.stack) - taken
        if not any(map(self.is_broken, parts)):
            try:
                step(self)
            except Exception:  # noqa: BLE001  # foreign code runs here
                # A function that was to set the state of what it is given first.
                given = parts[-1] if parts and type(parts[-1]) is tuple else ()
                for one in given[:1]:
                    if type(one).__module__ != "builtins":
                        self.note(one)
            else:
                return
        del self.stack[before:]
        missing = Missing()
        self.note(missing)
        self.stack.append(missing)

    return load


for _code, _taken in ((pickle.REDUCE, 2), (pickle.NEWOBJ, 2), (pickle.NEWOBJ_EX, 3), (pickle.STACK_GLOBAL, 2)):
    TolerantUnpickler.dispatch[_code[0]] = _making(_Python.dispatch[_code[0]], _taken)


def _load_build(self: Any) -> None:
    target = self.stack[-2]
    depth = len(self.stack)
    try:
        if self.is_broken(target):
            raise TypeError
        _Python.dispatch[pickle.BUILD[0]](self)
    except Exception:  # noqa: BLE001  # foreign code runs here
        self.note(target)
        del self.stack[depth - 1 :]


TolerantUnpickler.dispatch[pickle.BUILD[0]] = _load_build
