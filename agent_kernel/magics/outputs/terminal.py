"""Listen to what the cells of a terminal show, and change nothing of it.

There are no messages here: the streams are listened to while a cell runs, and IPython's display publisher, display hook
and traceback printer are told apart from what they print. What `%%capture` and the like keep for themselves is shown
to nobody, and is not heard here either; nor is what a subprocess writes to the terminal past Python. An error of ours
is logged, and never reaches the cell.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from agent_kernel.magics.outputs.collecting import Collector
from agent_kernel.magics.outputs.replacing import put_back, replace

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["TerminalTap"]

logger = logging.getLogger(__name__)

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
