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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from agent_kernel.magics.outputs.collecting import Collector

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["TerminalTap"]

logger = logging.getLogger(__name__)

_PENDING = 64 << 10  # characters heard before they are folded
_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__  # past what a metaclass may define


class TerminalTap:
    """Listens to the streams of a terminal while a cell runs, and to IPython's own ways of showing things."""

    def __init__(self, collector: Collector, shell: Shell) -> None:
        self._collector = collector
        self._shell = shell
        self._muted = 0  # the thread that shows what is heard in another way
        self._listening = False
        self._heard: list[tuple[str, str]] = []
        self._size = 0
        self._undo: list[Callable[[], None]] = []
        self._streams: list[Callable[[], None]] = []

    def install(self) -> None:
        hook = self._shell.displayhook
        self._wrap(self._undo, self._shell.display_pub, "publish", self._published)
        self._wrap(self._undo, hook, "write_output_prompt", None)
        self._wrap(self._undo, hook, "write_format_data", self._result)
        self._wrap(self._undo, hook, "finish_displayhook", None)
        self._wrap(self._undo, self._shell, "_showtraceback", self._traceback)

    def remove(self) -> None:
        self.end()
        _call_all(self._undo)

    def begin(self, number: int | None) -> None:
        self._listening = True
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if name == "stdout" or stream is not sys.stdout:
                self._listen(name, stream)

    def end(self) -> None:
        self._listening = False
        _call_all(self._streams)
        self.settle()

    def mute(self, muted: bool) -> None:
        self.settle()
        self._muted = threading.get_ident() if muted else 0

    def settle(self) -> None:
        heard, self._heard, self._size = self._heard, [], 0
        texts: list[str] = []
        stream = ""
        try:
            for name, text in heard:
                if name != stream:
                    self._collector.text(stream, "".join(texts))
                    stream, texts = name, []
                texts.append(text)
            self._collector.text(stream, "".join(texts))
        except Exception:
            logger.exception("what was printed was not kept")

    def _listen(self, name: str, stream: object) -> None:
        """Hear what the stream is asked to write. The stream itself stays, for whoever holds it."""
        write = cast("Callable[..., object]", getattr(stream, "write", None))
        get_ident = threading.get_ident

        def heard(text: str, *args: object) -> object:
            result = write(text, *args)
            if self._listening and type(text) is str and not (self._muted and self._muted == get_ident()):
                self._heard.append((name, text))
                self._size += len(text)
                if self._size > _PENDING:
                    self.settle()
            return result

        _replace(self._streams, stream, "write", heard)

    def _wrap(self, undo: list[Callable[[], None]], owner: object, name: str, note: Callable[..., None] | None) -> None:
        """Let a method of one object tell what it shows, and not be heard while it prints that."""
        method = cast("Callable[..., object] | None", getattr(owner, name, None))
        if method is None:
            return

        @functools.wraps(method)
        def shown(*args: object, **kwargs: object) -> object:
            before, self._muted = self._muted, threading.get_ident()
            try:
                result = method(*args, **kwargs)
            finally:
                self._muted = before
            if note is not None and self._listening and not before:
                self.settle()
                try:
                    note(*args, **kwargs)
                except Exception:
                    logger.exception("an output was not kept")
            return result

        _replace(undo, owner, name, shown)

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


def _replace(undo: list[Callable[[], None]], owner: object, name: str, ours: object) -> None:
    before: object = vars(owner).get(name) if hasattr(owner, "__dict__") else None
    try:
        setattr(owner, name, ours)
    except AttributeError:
        return  # a stream of a kind that cannot be listened to

    def put_back() -> None:
        if vars(owner).get(name) is not ours:
            return  # somebody else listens here too by now, and still calls us
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    undo.append(put_back)


def _call_all(undo: list[Callable[[], None]]) -> None:
    while undo:
        undo.pop()()
