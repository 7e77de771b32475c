"""Listen to what the cells of a kernel or a terminal show, and change nothing of it.

Every output, whichever thread or subprocess it comes from, passes `Session.send` as a finished message; each says which
cell it belongs to. What `%%capture`, `redirect_stdout` and the like keep for themselves is shown to nobody, and is not
heard here either. An error of ours is logged, and never reaches the cell.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, cast

from agent_kernel.browsing import FOOTER, RUN
from agent_kernel.magics.outputs.collecting import HERE, Collector, OutputPlace

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["KernelTap", "TerminalTap", "put_back", "replace"]


# -- put a method of ours in the place of one object's, and take it away again without a trace


def replace(undo: list[Callable[[], None]], owner: object, name: str, ours: object, *, only: object = None) -> bool:
    """Put our method in the place of an object's, if that is `only`; False: there is no place for it."""
    before: object = vars(owner).get(name) if hasattr(owner, "__dict__") else None
    if only is not None and before is not only:
        return False  # somebody else listens here too by now, and still calls us
    try:
        setattr(owner, name, ours)
    except AttributeError:
        return False  # a stream of a kind that cannot be listened to

    def restore() -> None:
        if vars(owner).get(name) is not ours:
            return
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    undo.append(restore)
    return True


def put_back(undo: list[Callable[[], None]]) -> None:
    """Take back, last first, what was replaced."""
    while undo:
        undo.pop()()


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
        self._readers: dict[object, Callable[[Mapping[str, object], OutputPlace], None]] = {
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
            reader(content, OutputPlace(widget, under) if widget or under is not None else HERE)

    def _route(self, content: Mapping[str, object]) -> None:
        """Note where an output widget begins to take what a cell shows, and where it stops."""
        state = _mapping(_mapping(content.get("data")).get("state"))
        if "msg_id" not in state:
            return
        model, request = str(content.get("comm_id", "")), state["msg_id"]
        self._widgets = [one for one in self._widgets if one[0] != model]
        if isinstance(request, str) and request:
            self._widgets.append((model, request))

    def _stream(self, content: Mapping[str, object], place: OutputPlace) -> None:
        if not self._muted:
            self._collector.text(str(content["name"]), str(content["text"]), place)

    def _shown(self, kind: str, content: Mapping[str, object], place: OutputPlace) -> None:
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

    def _error(self, content: Mapping[str, object], place: OutputPlace) -> None:
        lines = content.get("traceback")
        traceback = cast("list[object]", lines) if isinstance(lines, list) else []
        self._collector.error(str(content.get("ename", "")), str(content.get("evalue", "")), traceback, place)

    def _clear(self, content: Mapping[str, object], place: OutputPlace) -> None:
        self._collector.clear(wait=bool(content.get("wait")), place=place)


def _sent(session: _Session, *args: object, **kwargs: object) -> object:
    kind: Any = type(session)
    return kind.send(session, *args, **kwargs)


def _mapping(found: object) -> Mapping[str, object]:
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


# -- listen to what the cells of a terminal show, and change nothing of it
#
# There are no messages here: the streams are listened to while a cell runs, and IPython's display publisher, display hook
# and traceback printer are told apart from what they print. What `%%capture` and the like keep for themselves is shown
# to nobody, and is not heard here either; nor is what a subprocess writes to the terminal past Python. An error of ours
# is logged, and never reaches the cell.

_MANY, _LONG = 4_096, 4_096  # texts, and characters of one, after which what was heard is folded
_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__  # past what a metaclass may define


class TerminalTap:
    """Listens to the streams of a terminal while a cell runs, and to IPython's own ways of showing things."""

    def __init__(self, collector: Collector, shell: Shell) -> None:
        self._collector = collector
        self._shell = shell
        self._listening = False
        self._muted = False
        self._streams: list[_Heard] = []
        self._pending: list[str | tuple[str]] = []  # what stdout printed, and in a tuple what stderr did
        self._undo: list[Callable[[], None]] = []
        self._stops: list[Callable[[], None]] = []
        self._loud: list[Callable[[], None]] = []

    def install(self) -> None:
        hook = self._shell.displayhook
        self._wrap(self._undo, self._shell.display_pub, "publish", self._published)
        self._wrap(self._undo, hook, "write_output_prompt", None)
        self._wrap(self._undo, hook, "write_format_data", self._result)
        self._wrap(self._undo, hook, "finish_displayhook", None)
        self._wrap(self._undo, self._shell, "_showtraceback", self._traceback)

    def remove(self) -> None:
        self.end()
        put_back(self._undo)

    def begin(self, number: int | None) -> None:
        self._pending = []
        self._listening = True
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if name == "stdout" or stream is not sys.stdout:
                self._listen(name, stream)

    def end(self) -> None:
        self.mute(False)
        put_back(self._stops)
        self.settle()
        self._streams, self._listening = [], False

    def mute(self, muted: bool) -> None:
        self._muted = muted
        put_back(self._loud)
        for one in self._streams if muted else ():
            replace(self._loud, one.stream, "write", one.quiet(threading.get_ident()), only=one.heard)

    def settle(self) -> None:
        self._fold(self._pending)

    def _fold(self, pending: list[str | tuple[str]]) -> None:
        heard = pending[:]
        del pending[: len(heard)]
        if not self._listening or pending is not self._pending:
            return  # heard for a cell before this one, whose listening somebody else kept in place
        try:
            for stream, text in _joined(heard):
                self._collector.text(stream, text)
        except Exception:
            logger.exception("what was printed was not kept")

    def _listen(self, name: str, stream: object) -> None:
        """Hear what the stream is asked to write. The stream itself stays, for whoever holds it."""
        write = cast("Callable[[str], object]", getattr(stream, "write", None))
        pending, fold = self._pending, self._fold
        append = pending.append

        # Every print of a cell passes here twice, so it does as little as can be.
        def heard(text: str) -> object:
            append(text)
            if len(pending) > _MANY or len(text) > _LONG:
                fold(pending)
            return write(text)

        def heard_apart(text: str) -> object:
            append((text,))
            if len(pending) > _MANY or len(text) > _LONG:
                fold(pending)
            return write(text)

        heard = heard_apart if name == "stderr" else heard
        if replace(self._stops, stream, "write", heard):
            self._streams.append(_Heard(stream, heard, write))

    def _wrap(self, undo: list[Callable[[], None]], owner: object, name: str, note: Callable[..., None] | None) -> None:
        """Let a method of one object tell what it shows, and not be heard while it prints that."""
        method = cast("Callable[..., object] | None", getattr(owner, name, None))
        if method is None:
            return

        @functools.wraps(method)
        def shown(*args: object, **kwargs: object) -> object:
            if self._muted or not self._listening:
                return method(*args, **kwargs)
            self.mute(True)
            try:
                result = method(*args, **kwargs)
            finally:
                self.mute(False)
            if note is not None:
                self.settle()
                try:
                    note(*args, **kwargs)
                except Exception:
                    logger.exception("an output was not kept")
            return result

        replace(undo, owner, name, shown)

    def _published(
        self,
        data: object,
        metadata: object = None,
        *_: object,
        transient: object = None,
        update: bool = False,
        **__: object,
    ) -> None:
        if isinstance(data, dict):
            told = cast("dict[str, object]", transient) if isinstance(transient, dict) else {}
            kind = "update_display_data" if update else "display_data"
            bundle = cast("dict[str, object]", data)
            self._collector.show(kind, bundle, metadata, display=told.get("display_id"))

    def _result(self, data: object, metadata: object = None, *_: object, **__: object) -> None:
        if isinstance(data, dict):
            number = getattr(self._shell.displayhook, "prompt_count", None)
            bundle = cast("Mapping[str, object]", data)
            self._collector.show("execute_result", bundle, metadata, number=number)

    def _traceback(self, kind: type, error: BaseException, lines: object, *_: object, **__: object) -> None:
        # `str` of a notebook's own error is its code; the traceback says the same, and was made already.
        said = next((text for text in error.args[:1] if type(text) is str), "")
        traceback = cast("list[object]", lines) if isinstance(lines, list) else []
        self._collector.error(_type_name(kind), said, traceback)


def _joined(heard: list[str | tuple[str]]) -> Iterator[tuple[str, str]]:
    """What was printed without a change of the stream, as one text."""
    try:
        yield "stdout", "".join(cast("list[str]", heard))
    except TypeError:  # stderr printed too
        for is_error, texts in groupby(heard, lambda one: type(one) is tuple):
            words = (one[0] if isinstance(one, tuple) else one for one in texts)
            yield "stderr" if is_error else "stdout", "".join(words)


class _Heard(NamedTuple):
    """A stream that is listened to."""

    stream: object
    heard: Callable[[str], object]
    write: Callable[[str], object]

    def quiet(self, thread: int) -> Callable[[str], object]:
        """Write unheard what this thread writes: it is heard in another way."""

        def write(text: str) -> object:
            return self.write(text) if threading.get_ident() == thread else self.heard(text)

        return write
