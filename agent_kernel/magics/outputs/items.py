"""One output as it was published, before it is stored: nothing of it is asked for twice, or made again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

ROOM: Final = 256 << 10  # bytes of text a cell
PICTURE_ROOM: Final = 16 << 20  # bytes of pictures a cell, as base64
ITEM: Final = 64  # bytes that an output takes besides what it says

Face: TypeAlias = tuple[str, str, str | bytes | None, int]  # MIME type, form, content, bytes


class Place(NamedTuple):
    """Where an output appears: in an output widget, or under an earlier cell."""

    widget: str = ""
    under: int | None = None


HERE: Final = Place()


class Item:
    """One output on its way into the store."""

    __slots__ = ("display", "faces", "kind", "metadata", "name", "number", "parts", "pictures", "place", "size")

    def __init__(self, kind: str, place: Place, name: str = "") -> None:
        self.kind = kind
        self.place = place
        self.name = name
        self.parts: deque[str] = deque()  # of a stream; of an error what it says, and the traceback
        self.faces: list[Face] = []
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
        kept = [at for at, face in enumerate(self.faces) if face[2] is not None and _is_text(face) == text]
        if not kept:
            return False
        largest = max(kept, key=lambda at: self.faces[at][3])
        mime, form, _, size = self.faces[largest]
        self.faces[largest] = (mime, form, None, size)
        self._measure()
        return True

    def _measure(self) -> None:
        kept = [face for face in self.faces if face[2] is not None]
        self.size = ITEM + len(self.metadata) + sum(face[3] for face in kept if _is_text(face))
        self.pictures = sum(len(face[2]) for face in kept if face[2] is not None and not _is_text(face))


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def fitting(lines: list[str], room: int) -> list[str]:
    """The lines, without some from the middle if they are too long together."""
    if sum(map(len, lines)) <= room:
        return lines
    first, *rest = lines
    kept: deque[str] = deque()
    room -= len(first)
    for line in reversed(rest):
        if room <= 0:
            break
        kept.appendleft(line[-room:])
        room -= len(line)
    return [first, *kept]


def _face(mime: str, value: object) -> Face | None:
    if type(value) is bytes:
        return mime, "bytes", value, len(value)
    if type(value) is str:
        if is_base64(mime):
            return mime, "bytes", value, len(value) * 3 // 4
        return mime, "text", value, bytes_of(value)
    text = _json(value)
    return None if text is None else (mime, "json", text, bytes_of(text))


def _is_text(face: Face) -> bool:
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
