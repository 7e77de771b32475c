"""What an agent's code finds beside the variables: its `task`, and what was registered for it.

These are no variables. They stand among the builtins while a step runs, so that nothing of them is ever committed, code
of the notebook finds them too when it is called, and a variable of the same name goes first. Where steps on several
threads are offered different objects under one name, each thread finds its own.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

__all__ = ["offered"]

_ABSENT: Any = object()
_lock = threading.Lock()
_stacks: dict[int, list[Mapping[str, object]]] = {}  # by thread: of steps within steps the innermost counts
_before: dict[str, object] = {}  # what stood there without us


@contextmanager
def offered(objects: Mapping[str, object], namespace: Mapping[str, object] | None = None) -> Generator[None]:
    """Let the code that runs on this thread find these objects, and none that an outer step was offered.

    Args:
        namespace: in which it runs; where that has builtins of its own, the objects stand there.
    """
    own: Any = (namespace or {}).get("__builtins__")
    if type(own) is dict:
        with _in(cast("dict[str, object]", own), objects):
            yield
        return
    thread = threading.get_ident()
    with _lock:
        stack = _stacks.setdefault(thread, [])
        hidden: Mapping[str, object] = stack[-1] if stack else {}
        stack.append(objects)
        _put({*hidden, *objects})
    try:
        yield
    finally:
        with _lock:
            stack.pop()
            if not stack:
                del _stacks[thread]
            _put({*hidden, *objects})


@contextmanager
def _in(place: dict[str, object], objects: Mapping[str, object]) -> Generator[None]:
    before = {name: place[name] for name in objects if name in place}
    place.update(objects)
    try:
        yield
    finally:
        for name in objects:
            place.pop(name, None)
        place.update(before)


def _put(names: Iterable[str]) -> None:
    place = builtins.__dict__
    for name in names:
        _before.setdefault(name, place.get(name, _ABSENT))
        found = [stack[-1][name] for stack in _stacks.values() if name in stack[-1]]
        if found:
            is_same = all(one is found[0] for one in found)
            place[name] = found[0] if is_same else _ByThread(name)
        elif (before := _before.pop(name)) is _ABSENT:
            place.pop(name, None)
        else:
            place[name] = before


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
