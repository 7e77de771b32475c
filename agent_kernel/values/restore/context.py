"""The loader that streams loaded in this thread refer to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from types import CodeType
from typing import Any, Protocol

import msgspec


class Later(msgspec.Struct):
    """What an object gets once all is loaded, and takes its place."""

    def give(self, made: Any) -> None:
        raise NotImplementedError


class Context(Protocol):
    """What rebuilding needs from the loader that runs it."""

    namespace: dict[str, object]

    @property
    def takes_place(self) -> bool:
        """Whether what is loaded takes the place of what is there, and is not only looked at."""
        ...

    def code(self, definition: bytes) -> CodeType: ...

    def code_with_cells(self, definition: bytes, cells: int) -> CodeType: ...

    def find_class(self, uid: str) -> type: ...

    def fills(self, made: type) -> bool:
        """Whether this stream has the class as it is now, and not as it was before it left the group."""
        ...

    def live(self, token: str, surface: bytes = b"") -> object: ...

    def once(self, key: tuple[int, str], make: Callable[[], object]) -> Any: ...

    def held(self, module: str, name: str, kind: type) -> object: ...

    def set_content(self, made: object, content: Any) -> None: ...

    def pinned(
        self, token: str, kind: type | None, make: Callable[..., object], arguments: tuple[Any, ...]
    ) -> object: ...

    def taken(self, token: str, make: Callable[..., object], arguments: tuple[Any, ...]) -> object: ...

    def held_as(
        self, module: str, name: str, kind: type | None, make: Callable[..., object], arguments: tuple[Any, ...]
    ) -> object: ...

    def refill(self, made: object, content: Later) -> None: ...

    def note_registers(self, bases: tuple[type, ...], meta: type) -> None: ...

    def set_later(self, made: object, content: Later) -> None: ...

    def note_attribute(self, made: type, name: str, value: object) -> None: ...

    def live_or(self, token: str, make: Callable[[], object]) -> object: ...


class _Active(threading.local):
    context: Context | None = None


_active = _Active()


@contextlib.contextmanager
def restoring(context: Context) -> Generator[None]:
    """Make `context` the one that streams loaded in this thread refer to."""
    before, _active.context = _active.context, context
    try:
        yield
    finally:
        _active.context = before


def current() -> Context:
    """The loader at work in this thread.

    Raises:
        RuntimeError: no loader is at work: someone unpickled this stream by hand.
    """
    if _active.context is None:
        raise RuntimeError("this stream belongs to an agent_kernel store; load it with Repository.at or a session")
    return _active.context


def is_loading() -> bool:
    """Whether a loader is at work in this thread."""
    return _active.context is not None
