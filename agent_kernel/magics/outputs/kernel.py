"""Listen to what the cells of a kernel show, and change nothing of it.

Every output, whichever thread or subprocess it comes from, passes `Session.send` as a finished message; each says which
cell it belongs to. What `%%capture`, `redirect_stdout` and the like keep for themselves is shown to nobody, and is not
heard here either. An error of ours is logged, and never reaches the cell.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from agent_kernel.browsing.mime import FOOTER, RUN
from agent_kernel.magics.outputs.collecting import Collector
from agent_kernel.magics.outputs.items import HERE, Place
from agent_kernel.magics.outputs.replacing import put_back, replace

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["KernelTap"]

logger = logging.getLogger(__name__)

_REMEMBERED = 200  # cells whose late outputs are still told apart
_FLUSH_S = 0.5  # for so long after a stream's last message another one may be under way
_SHORT_S = 0.1  # a cell during which no stream sends anything by itself


class _Session(Protocol):
    @property
    def send(self) -> Callable[..., object]: ...


class KernelTap:
    """Reads the messages that a kernel sends."""

    def __init__(self, collector: Collector, shell: Shell, session: _Session) -> None:
        self._collector = collector
        self._shell = shell
        self._session = session
        self._undo: list[Callable[[], None]] = []
        self._cell = ""  # the id of the request that runs it
        self._numbers: dict[str, int] = {}  # of earlier cells
        self._number: int | None = None
        self._widgets: list[tuple[str, str]] = []  # output widgets, and of which request they take what is shown
        self._muted = False
        self._began = self._streamed = 0.0
        self._readers: dict[object, Callable[[Mapping[str, object], Place], None]] = {
            "stream": self._stream,
            "display_data": functools.partial(self._shown, "display_data"),
            "update_display_data": functools.partial(self._shown, "update_display_data"),
            "execute_result": functools.partial(self._shown, "execute_result"),
            "error": self._error,
            "clear_output": self._clear,
        }

    def install(self) -> None:
        session, own = self._session, vars(self._session).get("send")
        # By its class each time: what steps send is looked at there, from the first one on.
        send = self._session.send if own is not None else functools.partial(_sent, session)

        @functools.wraps(session.send)
        def heard(*args: object, **kwargs: object) -> object:
            message = send(*args, **kwargs)
            try:
                self._read(_mapping(message))
            except Exception:
                logger.exception("an output was not kept")
            return message

        replace(self._undo, self._session, "send", heard)

    def remove(self) -> None:
        put_back(self._undo)
        self._cell, self._numbers = "", {}

    def begin(self, number: int | None) -> None:
        self._flush(self._waiting())  # what was printed before the cell
        self._cell, self._number = self._request(), number
        self._began = time.monotonic()

    def end(self) -> None:
        self.settle()
        if self._cell and self._number is not None:
            self._numbers[self._cell] = self._number
            if len(self._numbers) > _REMEMBERED:
                del self._numbers[next(iter(self._numbers))]
        self._cell = ""

    def mute(self, muted: bool) -> None:
        self._muted = muted

    def settle(self) -> None:
        # Streams are sent by a thread of their own, five times a second. A flush waits until it has sent everything, and
        # costs more than a small commit, so it is left out where nothing can be on its way.
        waiting, now = self._waiting(), time.monotonic()
        if waiting or now - self._streamed < _FLUSH_S or now - self._began > _SHORT_S:
            self._flush(waiting or [sys.stdout])

    def _waiting(self) -> list[TextIO]:
        streams = [stream for stream in (sys.stdout, sys.stderr) if hasattr(stream, "pub_thread")]
        return [stream for stream in streams if getattr(stream, "_buffers", True)]

    def _flush(self, streams: list[TextIO]) -> None:
        for stream in streams:
            stream.flush()

    def _request(self) -> str:
        parent = cast("Callable[[], object]", getattr(self._shell, "get_parent", dict))()
        return str(_mapping(_mapping(parent).get("header")).get("msg_id", ""))

    def _read(self, message: Mapping[str, object]) -> None:
        kind, content = message.get("msg_type"), _mapping(message.get("content"))
        if kind == "comm_msg":
            self._route(content)
        reader = self._readers.get(kind)
        if reader is None:
            return
        if kind == "stream":
            self._streamed = time.monotonic()
        request = str(_mapping(message.get("parent_header")).get("msg_id", ""))
        if request and (request == self._cell or request in self._numbers):
            under = None if request == self._cell else self._numbers[request]
            widget = next((model for model, taken in reversed(self._widgets) if taken == request), "")
            reader(content, Place(widget, under) if widget or under is not None else HERE)

    def _route(self, content: Mapping[str, object]) -> None:
        """Note where an output widget begins to take what a cell shows, and where it stops."""
        state = _mapping(_mapping(content.get("data")).get("state"))
        if "msg_id" not in state:
            return
        model, request = str(content.get("comm_id", "")), state["msg_id"]
        self._widgets = [one for one in self._widgets if one[0] != model]
        if isinstance(request, str) and request:
            self._widgets.append((model, request))

    def _stream(self, content: Mapping[str, object], place: Place) -> None:
        if not self._muted:
            self._collector.text(str(content["name"]), str(content["text"]), place)

    def _shown(self, kind: str, content: Mapping[str, object], place: Place) -> None:
        data = _mapping(content.get("data"))
        if FOOTER in data:  # what we say of the cell is no output of it
            return
        self._collector.show(
            kind,
            {mime: said for mime, said in data.items() if mime != RUN},
            content.get("metadata"),
            display=_mapping(content.get("transient")).get("display_id"),
            number=content.get("execution_count"),
            place=place,
        )

    def _error(self, content: Mapping[str, object], place: Place) -> None:
        lines = content.get("traceback")
        traceback = cast("list[object]", lines) if isinstance(lines, list) else []
        self._collector.error(str(content.get("ename", "")), str(content.get("evalue", "")), traceback, place)

    def _clear(self, content: Mapping[str, object], place: Place) -> None:
        self._collector.clear(wait=bool(content.get("wait")), place=place)


def _sent(session: _Session, *args: object, **kwargs: object) -> object:
    kind: Any = type(session)
    return kind.send(session, *args, **kwargs)


def _mapping(found: object) -> Mapping[str, object]:
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
