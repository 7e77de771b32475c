"""Hold what a cell shows, in bounded memory.

The first half of the room keeps what came first, the other half what came last; what falls out in the middle is counted.
Whoever prints a gigabyte costs no more than whoever prints a page. Called from several threads at once: kernels print
from a thread of their own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from agent_kernel.magics.outputs.items import HERE, ITEM, PICTURE_ROOM, ROOM, Item, Place, bytes_of, fitting
from agent_kernel.magics.outputs.overtyping import Line

if TYPE_CHECKING:
    from agent_kernel.repository import Outputs

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
        self._clears: set[Place] = set()  # what the next output is to replace
        self.is_empty = True

    # -- what taps call

    def text(self, name: str, text: str, place: Place = HERE) -> None:
        """A stream printed something."""
        if not text:
            return
        with self._lock:
            self.is_empty = False
            self._clear_waiting(place)
            if self._typing != (name, place):
                self._finish_line()
                self._typing = name, place
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
        place: Place = HERE,
    ) -> None:
        """Something was displayed, or what a display id stands for was replaced."""
        with self._lock:
            self.is_empty = False
            self._clear_waiting(place)
            item = Item(kind, place)
            item.number = number if isinstance(number, int) else None
            item.display = display if isinstance(display, str) else ""
            item.show(data, metadata)
            if kind == "update_display_data" and self._update(item):
                return
            self._finish_line()
            self._keep(item)

    def error(self, name: str, text: str, traceback: Iterable[object], place: Place = HERE) -> None:
        """An error was shown."""
        with self._lock:
            self.is_empty = False
            self._clear_waiting(place)
            self._finish_line()
            item = Item("error", place, name[:200])
            lines = [line for line in traceback if isinstance(line, str)]
            item.parts.extend(fitting([text[: ROOM // 8], *lines], ROOM // 4))
            item.size += sum(map(bytes_of, item.parts))
            self._keep(item)

    def clear(self, *, wait: bool, place: Place = HERE) -> None:
        """The outputs shown at this place so far go; with `wait` when the next one comes."""
        with self._lock:
            if wait:
                self._clears.add(place)
                return
            self._clears.discard(place)
            if self._typing[1] == place:
                self._line.take()
            for items, used in ((self._head, self._used), (self._tail, self._last)):
                stay = [item for item in items if item.place != place]
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
            kept, last, dropped = self._head, list(self._tail), tuple(self._dropped)
            self.forget()
        from agent_kernel.magics.outputs.sealing import seal

        return seal(kept, last, dropped[0], dropped[1])

    # -- keeping

    def _clear_waiting(self, place: Place) -> None:
        if self._clears and place in self._clears:
            self.clear(wait=False, place=place)
            self.is_empty = False

    def _finish_line(self) -> None:
        self._keep_text(self._line.take())

    def _keep_text(self, text: str) -> None:
        if not text:
            return
        name, place = self._typing
        size = bytes_of(text)
        if self._open:
            room = max(0, ROOM // 2 - self._used[0])
            if size <= room:
                self._used[0] += _append(self._head, name, place, text, size)
                return
            self._open = False
            first = (
                text[:room]
                if size == len(text)
                else text.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
            )
            if first:
                self._used[0] += _append(self._head, name, place, first, bytes_of(first))
                text, size = text[len(first) :], size - bytes_of(first)
        self._last[0] += _append(self._tail, name, place, text, size)
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


def _append(items: list[Item] | deque[Item], name: str, place: Place, text: str, size: int) -> int:
    """Add to the stream that stands last, or begin one; return the bytes that it takes."""
    last = items[-1] if items else None
    added = 0
    if last is None or last.kind != "stream" or last.name != name or last.place != place:
        last = Item("stream", place, name)
        items.append(last)
        added = ITEM
    last.parts.append(text)
    last.size += size
    return size + added
