"""Hear what a cell shows on its way to the front end, hold it in bounded memory, and make of it what its commit stores.

The first half of the room keeps what came first, the other half what came last; what falls out in the middle is counted.
Whoever prints a gigabyte costs no more than whoever prints a page. Called from several threads at once: kernels print
from a thread of their own.
"""

from __future__ import annotations

import binascii
import functools
import json
import logging
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TextIO, TypeAlias, cast

from agent_kernel.queries import FOOTER, RUN
from agent_kernel.repository import Blob, Output, Outputs, Representation
from agent_kernel.repository.objects import OUTPUTS_VERSION
from agent_kernel.session.history import escape_surrogates

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell


# -- one output as it was published, before it is stored: nothing of it is asked for twice, or made again

ROOM: Final = 256 << 10  # bytes of text a cell
PICTURE_ROOM: Final = 16 << 20  # bytes of pictures a cell, as base64
ITEM: Final = 64  # bytes that an output takes besides what it says

ItemFace: TypeAlias = tuple[str, str, str | bytes | None, int]  # MIME type, form, content, bytes


class OutputTarget(NamedTuple):
    """Where an output appears: in an output widget, or under an earlier cell."""

    widget: str = ""
    under: int | None = None


HERE: Final = OutputTarget()


class Item:
    """One output on its way into the store."""

    __slots__ = ("display", "faces", "kind", "metadata", "name", "number", "parts", "pictures", "size", "target")

    def __init__(self, kind: str, target: OutputTarget, name: str = "") -> None:
        self.kind = kind
        self.target = target
        self.name = name
        self.parts: deque[str] = deque()  # of a stream; of an error what it says, and the traceback
        self.faces: list[ItemFace] = []
        self.metadata = ""
        self.number: int | None = None
        self.display = ""
        self.size = ITEM
        self.pictures = 0

    def show(self, data: Mapping[str, object], metadata: object) -> None:
        """Take over a MIME bundle as it was published; what cannot be stored is left out."""
        named = [(mime, value) for mime, value in data.items() if type(mime) is str]
        self.faces = [face for mime, value in named if (face := _face(mime, value)) is not None]
        self.metadata = _json(metadata) or "" if metadata else ""
        self._measure()
        while self.size > ROOM:
            if not self._drop_largest(text=True):
                self.metadata = ""
                break
        while self.pictures > PICTURE_ROOM and self._drop_largest(text=False):
            pass
        self._measure()

    def _drop_largest(self, *, text: bool) -> bool:
        present = [at for at, face in enumerate(self.faces) if face[2] is not None and _is_text(face) == text]
        if not present:
            return False
        largest = max(present, key=lambda at: self.faces[at][3])
        mime, form, _, size = self.faces[largest]
        self.faces[largest] = (mime, form, None, size)
        self._measure()
        return True

    def _measure(self) -> None:
        present = [face for face in self.faces if face[2] is not None]
        self.size = ITEM + len(self.metadata) + sum(face[3] for face in present if _is_text(face))
        self.pictures = sum(len(face[2]) for face in present if face[2] is not None and not _is_text(face))


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def fit_lines(lines: list[str], room: int) -> list[str]:
    """The lines, without some from the middle if they are too long together."""
    if sum(map(len, lines)) <= room:
        return lines
    first, *rest = lines
    tail: deque[str] = deque()
    room -= len(first)
    for line in reversed(rest):
        if room <= 0:
            break
        tail.appendleft(line[-room:])
        room -= len(line)
    return [first, *tail]


def _face(mime: str, value: object) -> ItemFace | None:
    if type(value) is bytes:
        return mime, "bytes", value, len(value)
    if type(value) is str:
        if is_base64(mime):
            return mime, "bytes", value, len(value) * 3 // 4
        return mime, "text", value, bytes_of(value)
    text = _json(value)
    return None if text is None else (mime, "json", text, bytes_of(text))


def _is_text(face: ItemFace) -> bool:
    """Whether the content counts as text: drawings are pictures too."""
    return face[1] != "bytes" and not face[0].startswith("image/")


def is_base64(mime: str) -> bool:
    """Whether messages carry this MIME type in base64."""
    kind = mime.partition(";")[0].lower()
    if kind.startswith(("image/", "audio/", "video/", "font/")):
        return not kind.endswith("+xml")
    return kind in ("application/pdf", "application/octet-stream", "application/zip")


def _json(value: object) -> str | None:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None  # nothing that a front end could have got


# -- text as a terminal shows it: carriage returns and backspaces type over what stands on the line
#
# A progress bar prints its line anew ten thousand times; only the last one is to be kept.

# What begins a line anew, and what erases (a part of) it.
_TYPES_OVER: Final = re.compile("[\r\b]|\x1b\\[[012]?K")
_MOVES: Final = re.compile("\r+|\b+|\x1b\\[[012]?K")


class Line:
    """The last line of a stream, which may still be typed over."""

    __slots__ = ("column", "text")

    def __init__(self) -> None:
        self.text = ""
        self.column = 0

    def take(self) -> str:
        """What stands on the line; it is empty then."""
        text, self.text, self.column = self.text, "", 0
        return text

    def type(self, text: str) -> str:
        r"""Print the text here; return the lines that are finished by it.

        >>> line = Line()
        >>> line.type("10 %\r20 %\rdone\n1"), line.text
        ('done\n', '1')
        """
        if _TYPES_OVER.search(text) is None and self.column == len(self.text):
            end = text.rfind("\n") + 1
            finished = self.take() + text[:end] if end else ""
            self.text += text[end:]
            self.column = len(self.text)
            return finished
        *lines, rest = text.split("\n")
        finished = ""
        if lines:
            done: list[str] = []
            for line in lines:
                self._overtype(line)
                done.append(self.take())
            finished = "\n".join(done) + "\n"
        self._overtype(rest)
        return finished

    def _overtype(self, text: str) -> None:
        start = 0
        for move in _MOVES.finditer(text):
            self._put(text[start : move.start()])
            start = move.end()
            kind = move[0][0]
            if kind == "\r":
                self.column = 0
            elif kind == "\b":
                self.column = max(0, self.column - len(move[0]))
            elif move[0][2] == "K" or move[0][2] == "0":
                self.text = self.text[: self.column]
            elif move[0][2] == "2":
                self.text, self.column = "", 0
            else:
                self.text = " " * self.column + self.text[self.column :]
        self._put(text[start:])

    def _put(self, text: str) -> None:
        if not text:
            return
        end = self.column + len(text)
        # Colours take characters but no columns: what they are in is replaced rather than mixed.
        rest = "" if "\x1b" in text or "\x1b" in self.text else self.text[end:]
        self.text = self.text[: self.column] + text + rest
        self.column = end


_LONGEST_LINE: Final = 32 << 10  # characters that can still be typed over


class Collector:
    """The outputs of one cell after the other."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Let go of everything."""
        self._head: list[Item] = []
        self._tail: deque[Item] = deque()
        self._used = [0, 0]  # bytes of text and of pictures at the head,
        self._last = [0, 0]  # and at the tail
        self._open = True  # the head still takes outputs
        self._dropped = [0, 0]  # outputs, and bytes
        self._line = Line()
        self._typing = ("", HERE)  # on which stream, and where, the line stands
        self._clears: set[OutputTarget] = set()  # what the next output is to replace
        self.is_empty = True

    # -- what taps call

    def text(self, name: str, text: str, target: OutputTarget = HERE) -> None:
        """A stream printed something."""
        if not text:
            return
        with self._lock:
            self.is_empty = False
            self._clear_waiting(target)
            if self._typing != (name, target):
                self._finish_line()
                self._typing = name, target
            if len(text) > 4 * ROOM:  # only its ends can stay
                middle = text[ROOM:-ROOM]
                self._keep_text(self._line.type(text[:ROOM]) + self._line.take())
                self._open = False
                self._dropped[1] += bytes_of(middle)
                text = text[-ROOM:]
            self._keep_text(self._line.type(text))
            if len(self._line.text) > _LONGEST_LINE:
                self._finish_line()

    def show(
        self,
        kind: str,
        data: Mapping[str, object],
        metadata: object = None,
        *,
        display: object = None,
        number: object = None,
        target: OutputTarget = HERE,
    ) -> None:
        """Something was displayed, or what a display id stands for was replaced."""
        with self._lock:
            self.is_empty = False
            self._clear_waiting(target)
            item = Item(kind, target)
            item.number = number if isinstance(number, int) else None
            item.display = display if isinstance(display, str) else ""
            item.show(data, metadata)
            if kind == "update_display_data" and self._update(item):
                return
            self._finish_line()
            self._keep(item)

    def error(self, name: str, text: str, traceback: Iterable[object], target: OutputTarget = HERE) -> None:
        """An error was shown."""
        with self._lock:
            self.is_empty = False
            self._clear_waiting(target)
            self._finish_line()
            item = Item("error", target, name[:200])
            lines = [line for line in traceback if isinstance(line, str)]
            item.parts.extend(fit_lines([text[: ROOM // 8], *lines], ROOM // 4))
            item.size += sum(map(bytes_of, item.parts))
            self._keep(item)

    def clear(self, *, wait: bool, target: OutputTarget = HERE) -> None:
        """The outputs shown at this place so far go; with `wait` when the next one comes."""
        with self._lock:
            if wait:
                self._clears.add(target)
                return
            self._clears.discard(target)
            if self._typing[1] == target:
                self._line.take()
            for items, used in ((self._head, self._used), (self._tail, self._last)):
                stay = [item for item in items if item.target != target]
                items.clear()
                items.extend(stay)
                used[:] = [sum(item.size for item in stay), sum(item.pictures for item in stay)]
            if not self._head and not self._tail:
                self._open, self._dropped = True, [0, 0]

    def take(self) -> Outputs | None:
        """All that was kept, for the store; None if there was nothing. The collector is empty then."""
        if self.is_empty:
            return None
        with self._lock:
            self._finish_line()
            head, last, dropped = self._head, list(self._tail), tuple(self._dropped)
            self.forget()

        return _seal(head, last, dropped[0], dropped[1])

    # -- keeping

    def _clear_waiting(self, target: OutputTarget) -> None:
        if self._clears and target in self._clears:
            self.clear(wait=False, target=target)
            self.is_empty = False

    def _finish_line(self) -> None:
        self._keep_text(self._line.take())

    def _keep_text(self, text: str) -> None:
        if not text:
            return
        name, target = self._typing
        size = bytes_of(text)
        if self._open:
            room = max(0, ROOM // 2 - self._used[0])
            if size <= room:
                self._used[0] += _append(self._head, name, target, text, size)
                return
            self._open = False
            first = (
                text[:room]
                if size == len(text)
                else text.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
            )
            if first:
                self._used[0] += _append(self._head, name, target, first, bytes_of(first))
                text, size = text[len(first) :], size - bytes_of(first)
        self._last[0] += _append(self._tail, name, target, text, size)
        self._trim()

    def _keep(self, item: Item) -> None:
        size = item.size, item.pictures
        fits = self._used[0] + size[0] <= ROOM // 2 and self._used[1] + size[1] <= PICTURE_ROOM // 2
        self._open = self._open and fits
        items, used = (self._head, self._used) if self._open else (self._tail, self._last)
        items.append(item)
        used[0] += size[0]
        used[1] += size[1]
        self._trim()

    def _trim(self) -> None:
        """Let go of what came after the head and is not among the last."""
        while self._tail:
            over = self._used[0] + self._last[0] - ROOM
            if over <= 0 and self._used[1] + self._last[1] <= PICTURE_ROOM:
                return
            first = self._tail[0]
            if first.kind == "stream" and over < first.size - ITEM:
                while over > 0:
                    over -= self._cut(first, over)
                return
            self._tail.popleft()
            self._last[0] -= first.size
            self._last[1] -= first.pictures
            self._dropped[0] += 1
            self._dropped[1] += first.size - ITEM + first.pictures

    def _cut(self, stream: Item, over: int) -> int:
        part = stream.parts.popleft()
        size = bytes_of(part)
        if size > over:
            rest = part[over:]  # of text that is not ASCII a little more than needed
            stream.parts.appendleft(rest)
            size -= bytes_of(rest)
        stream.size -= size
        self._last[0] -= size
        self._dropped[1] += size
        return size

    def _update(self, new: Item) -> bool:
        """Replace what is shown under a display id; False: it was not shown by this cell."""
        found = False
        for items, used in ((self._head, self._used), (self._tail, self._last)):
            for item in items:
                if item.display == new.display and new.display:
                    found = True
                    used[0] += new.size - item.size
                    used[1] += new.pictures - item.pictures
                    item.faces, item.metadata, item.size, item.pictures = (
                        new.faces,
                        new.metadata,
                        new.size,
                        new.pictures,
                    )
        self._trim()
        while self._used[0] > ROOM or self._used[1] > PICTURE_ROOM:
            self._forget(max(self._head, key=lambda item: item.size + item.pictures))
        return found

    def _forget(self, item: Item) -> None:
        self._head.remove(item)
        self._used[0] -= item.size
        self._used[1] -= item.pictures
        self._dropped[0] += 1
        self._dropped[1] += item.size - ITEM + item.pictures
        self._open = False


def _append(items: list[Item] | deque[Item], name: str, target: OutputTarget, text: str, size: int) -> int:
    """Add to the stream that stands last, or begin one; return the bytes that it takes."""
    last = items[-1] if items else None
    added = 0
    if last is None or last.kind != "stream" or last.name != name or last.target != target:
        last = Item("stream", target, name)
        items.append(last)
        added = ITEM
    last.parts.append(text)
    last.size += size
    return size + added


# -- turn what a cell showed into the form that is stored

_INLINE_DRAWING = 4 << 10


def _seal(first: Sequence[Item], last: Sequence[Item], dropped_outputs: int, dropped_bytes: int) -> Outputs | None:
    """The outputs, with a gap between the first and the last ones if anything was dropped there."""
    gap = [Output(kind="gap", size=dropped_bytes)] if dropped_bytes or dropped_outputs else []
    outputs = (*map(_output, first), *gap, *map(_output, last))
    left_out = [face for output in outputs for face in output.representations if not face.is_kept]
    if not outputs:
        return None
    return Outputs(
        version=OUTPUTS_VERSION,
        outputs=outputs,
        dropped_outputs=dropped_outputs,
        dropped_bytes=dropped_bytes + sum(face.size for face in left_out),
    )


def _output(item: Item) -> Output:
    texts = [escape_surrogates(part) for part in item.parts]
    is_error = item.kind == "error"
    return Output(
        kind=item.kind,
        name=escape_surrogates(item.name),
        text=texts[0] if is_error else "".join(texts),
        traceback=tuple(texts[1:]) if is_error else (),
        representations=tuple(_faces(item.faces)),
        metadata=escape_surrogates(item.metadata),
        number=item.number,
        display=escape_surrogates(item.display),
        widget=escape_surrogates(item.target.widget),
        under=item.target.under,
    )


def _faces(found: Iterable[ItemFace]) -> Iterable[Representation]:
    for mime, form, content, size in found:
        if content is None:
            yield Representation(mime, form, size)
        elif isinstance(content, bytes):
            yield Representation(mime, form, size, blob=Blob(size, inline=content))
        elif form == "bytes":
            yield _picture(mime, content)
        elif mime.startswith("image/") and size > _INLINE_DRAWING:
            payload = escape_surrogates(content).encode()
            yield Representation(mime, form, len(payload), blob=Blob(len(payload), inline=payload))
        else:
            yield Representation(mime, form, size, escape_surrogates(content))


def _picture(mime: str, content: str) -> Representation:
    try:
        payload = binascii.a2b_base64(content)
    except (binascii.Error, ValueError):  # a library that does not keep to the protocol: as it stands
        payload = escape_surrogates(content).encode()
        return Representation(mime, "text", len(payload), blob=Blob(len(payload), inline=payload))
    return Representation(mime, "bytes", len(payload), blob=Blob(len(payload), inline=payload))


# -- listen to what the cells of a kernel show, and change nothing of it
#
# Every output, whichever thread or subprocess it comes from, passes `Session.send` as a finished message; each says which
# cell it belongs to. What `%%capture`, `redirect_stdout` and the like keep for themselves is shown to nobody, and is not
# heard here either. An error of ours is logged, and never reaches the cell. Methods of ours stand in the places of theirs
# meanwhile, and are taken away again without a trace.


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


def _put_back(undo: list[Callable[[], None]]) -> None:
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
        self._readers: dict[object, Callable[[Mapping[str, object], OutputTarget], None]] = {
            "stream": self._stream,
            "display_data": functools.partial(self._collect_display, "display_data"),
            "update_display_data": functools.partial(self._collect_display, "update_display_data"),
            "execute_result": functools.partial(self._collect_display, "execute_result"),
            "error": self._error,
            "clear_output": self._clear,
        }

    def install(self) -> None:
        session, own = self._session, vars(self._session).get("send")
        # By its class each time: what steps send is looked at there, from the first one on.
        send = self._session.send if own is not None else functools.partial(_send, session)

        @functools.wraps(session.send)
        def send_and_read(*args: object, **kwargs: object) -> object:
            message = send(*args, **kwargs)
            try:
                self._read(_mapping(message))
            except Exception:
                logger.exception("an output was not kept")
            return message

        replace(self._undo, self._session, "send", send_and_read)

    def remove(self) -> None:
        _put_back(self._undo)
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
            widget = next((model for model, taken_request in reversed(self._widgets) if taken_request == request), "")
            reader(content, OutputTarget(widget, under) if widget or under is not None else HERE)

    def _route(self, content: Mapping[str, object]) -> None:
        """Note where an output widget begins to take what a cell shows, and where it stops."""
        state = _mapping(_mapping(content.get("data")).get("state"))
        if "msg_id" not in state:
            return
        model, request = str(content.get("comm_id", "")), state["msg_id"]
        self._widgets = [one for one in self._widgets if one[0] != model]
        if isinstance(request, str) and request:
            self._widgets.append((model, request))

    def _stream(self, content: Mapping[str, object], target: OutputTarget) -> None:
        if not self._muted:
            self._collector.text(str(content["name"]), str(content["text"]), target)

    def _collect_display(self, kind: str, content: Mapping[str, object], target: OutputTarget) -> None:
        data = _mapping(content.get("data"))
        if FOOTER in data:  # what we say of the cell is no output of it
            return
        self._collector.show(
            kind,
            {mime: value for mime, value in data.items() if mime != RUN},
            content.get("metadata"),
            display=_mapping(content.get("transient")).get("display_id"),
            number=content.get("execution_count"),
            target=target,
        )

    def _error(self, content: Mapping[str, object], target: OutputTarget) -> None:
        lines = content.get("traceback")
        traceback = cast("list[object]", lines) if isinstance(lines, list) else []
        self._collector.error(str(content.get("ename", "")), str(content.get("evalue", "")), traceback, target)

    def _clear(self, content: Mapping[str, object], target: OutputTarget) -> None:
        self._collector.clear(wait=bool(content.get("wait")), target=target)


def _send(session: _Session, *args: object, **kwargs: object) -> object:
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
        self._streams: list[_Stream] = []
        self._pending: list[str | tuple[str]] = []  # what stdout printed, and in a tuple what stderr did
        self._undo: list[Callable[[], None]] = []
        self._stops: list[Callable[[], None]] = []
        self._loud: list[Callable[[], None]] = []

    def install(self) -> None:
        hook = self._shell.displayhook
        self._wrap(self._undo, self._shell.display_pub, "publish", self._publish)
        self._wrap(self._undo, hook, "write_output_prompt", None)
        self._wrap(self._undo, hook, "write_format_data", self._result)
        self._wrap(self._undo, hook, "finish_displayhook", None)
        self._wrap(self._undo, self._shell, "_showtraceback", self._traceback)

    def remove(self) -> None:
        self.end()
        _put_back(self._undo)

    def begin(self, number: int | None) -> None:
        self._pending = []
        self._listening = True
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if name == "stdout" or stream is not sys.stdout:
                self._listen(name, stream)

    def end(self) -> None:
        self.mute(False)
        _put_back(self._stops)
        self.settle()
        self._streams, self._listening = [], False

    def mute(self, muted: bool) -> None:
        self._muted = muted
        _put_back(self._loud)
        for one in self._streams if muted else ():
            replace(self._loud, one.stream, "write", one.quiet(threading.get_ident()), only=one.record)

    def settle(self) -> None:
        self._fold(self._pending)

    def _fold(self, pending: list[str | tuple[str]]) -> None:
        texts = pending[:]
        del pending[: len(texts)]
        if not self._listening or pending is not self._pending:
            return  # heard for a cell before this one, whose listening somebody else kept in place
        try:
            for stream, text in _join_streams(texts):
                self._collector.text(stream, text)
        except Exception:
            logger.exception("what was printed was not kept")

    def _listen(self, name: str, stream: object) -> None:
        """Hear what the stream is asked to write. The stream itself stays, for whoever holds it."""
        write = cast("Callable[[str], object]", getattr(stream, "write", None))
        pending, fold = self._pending, self._fold
        append = pending.append

        # Every print of a cell passes here twice, so it does as little as can be.
        def record(text: str) -> object:
            append(text)
            if len(pending) > _MANY or len(text) > _LONG:
                fold(pending)
            return write(text)

        def record_error(text: str) -> object:
            append((text,))
            if len(pending) > _MANY or len(text) > _LONG:
                fold(pending)
            return write(text)

        record = record_error if name == "stderr" else record
        if replace(self._stops, stream, "write", record):
            self._streams.append(_Stream(stream, record, write))

    def _wrap(self, undo: list[Callable[[], None]], owner: object, name: str, note: Callable[..., None] | None) -> None:
        """Let a method of one object tell what it shows, and not be heard while it prints that."""
        method = cast("Callable[..., object] | None", getattr(owner, name, None))
        if method is None:
            return

        @functools.wraps(method)
        def call_and_note(*args: object, **kwargs: object) -> object:
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

        replace(undo, owner, name, call_and_note)

    def _publish(
        self,
        data: object,
        metadata: object = None,
        *_: object,
        transient: object = None,
        update: bool = False,
        **__: object,
    ) -> None:
        if isinstance(data, dict):
            details = cast("dict[str, object]", transient) if isinstance(transient, dict) else {}
            kind = "update_display_data" if update else "display_data"
            bundle = cast("dict[str, object]", data)
            self._collector.show(kind, bundle, metadata, display=details.get("display_id"))

    def _result(self, data: object, metadata: object = None, *_: object, **__: object) -> None:
        if isinstance(data, dict):
            number = getattr(self._shell.displayhook, "prompt_count", None)
            bundle = cast("Mapping[str, object]", data)
            self._collector.show("execute_result", bundle, metadata, number=number)

    def _traceback(self, kind: type, error: BaseException, lines: object, *_: object, **__: object) -> None:
        # `str` of a notebook's own error is its code; the traceback says the same, and was made already.
        message = next((text for text in error.args[:1] if type(text) is str), "")
        traceback = cast("list[object]", lines) if isinstance(lines, list) else []
        self._collector.error(_type_name(kind), message, traceback)


def _join_streams(written: list[str | tuple[str]]) -> Iterator[tuple[str, str]]:
    """What was printed without a change of the stream, as one text."""
    try:
        yield "stdout", "".join(cast("list[str]", written))
    except TypeError:  # stderr printed too
        for is_error, texts in groupby(written, lambda one: type(one) is tuple):
            words = (one[0] if isinstance(one, tuple) else one for one in texts)
            yield "stderr" if is_error else "stdout", "".join(words)


class _Stream(NamedTuple):
    """A stream that is listened to."""

    stream: object
    record: Callable[[str], object]
    write: Callable[[str], object]

    def quiet(self, thread: int) -> Callable[[str], object]:
        """Write unrecorded what this thread writes: it is heard in another way."""

        def write(text: str) -> object:
            return self.write(text) if threading.get_ident() == thread else self.record(text)

        return write
