"""Comms as panels use them: messages in, messages out, on whichever thread the front end sent them to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Desk
    from agent_kernel.panels.hub import Hub

__all__ = ["Channel", "Comm", "keep_thread"]

logger = logging.getLogger(__name__)


class Comm(Protocol):
    """What Jupyter's comms do, as far as it is used here."""

    comm_id: str

    def send(self, data: object) -> None: ...
    def on_msg(self, callback: object) -> None: ...
    def on_close(self, callback: object) -> None: ...
    def close(self) -> None: ...


def keep_thread(comm: object) -> None:
    """Have the messages of this comm handed over on the thread that the front end chose.

    ipykernel 7.4 sends them to the thread that spoke last on the comm, so that after a cell has told of itself they
    would wait for the end of the next one.
    """
    if hasattr(comm, "_reply_subshell_for"):
        vars(comm)["_reply_subshell_for"] = _as_it_came


def _as_it_came(_message: object, subshell: object) -> object:
    return subshell


class Channel:
    """A front end that asks as a panel does without being one: the side panel, the line under a cell."""

    desk: Desk | None = None  # it follows the notebook from store to store

    def __init__(self, hub: Hub, comm: Comm, hung_up: Callable[[Channel], None]) -> None:
        self._hub = hub
        self._hung_up = hung_up
        self._comm = comm
        keep_thread(comm)
        comm.on_msg(self._hear)
        comm.on_close(self._closed)
        hub.add(self)

    def send(self, message: Mapping[str, object]) -> None:
        try:
            self._comm.send(message)
        except Exception:
            logger.debug("a message reached no panel", exc_info=True)

    def close(self) -> None:
        """Hang up."""
        self._hub.remove(self)
        self._comm.on_msg(None)
        self._comm.on_close(None)
        self._comm.close()

    def _hear(self, message: Mapping[str, object]) -> None:
        content = cast("Mapping[str, object]", message["content"])
        self._hub.hear(self, content["data"])

    def _closed(self, _message: object) -> None:
        self._hub.remove(self)
        self._hung_up(self)
