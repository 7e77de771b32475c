"""Who asks, and the answer that each question gets: once, whoever gives it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Desk

__all__ = ["Listener", "Reply"]


class Listener(Protocol):
    """One panel, or whatever else asks as one."""

    @property
    def desk(self) -> Desk | None:
        """The binding that it shows; None: whatever the notebook is bound to."""
        ...

    def send(self, content: Mapping[str, object], /) -> None:
        """Give it a message. Whoever is not there any more hears nothing; nothing is raised."""
        ...


class Reply:
    """The answer to one message."""

    def __init__(self, listener: Listener, id: int | str) -> None:
        self._listener = listener
        self._id = id
        self._lock = threading.Lock()
        self._given = False

    def ok(self, answer: object) -> bool:
        """Give the answer, unless one was given before; return whether it was given now."""
        return self._give("ok", answer)

    def error(self, failed: Mapping[str, str]) -> bool:
        """Say why there is none, unless one was given before."""
        return self._give("error", failed)

    def _give(self, key: str, value: object) -> bool:
        with self._lock:
            given, self._given = self._given, True
        if not given:
            self._listener.send({"id": self._id, key: value})
        return not given
