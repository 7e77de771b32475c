"""Hidden texts, found again wherever they stand in another text, whole or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from agent_kernel.values import summaries

__all__ = ["RedactedTexts", "faces"]

_SHORTEST: Final = 4  # characters of a text that is looked for
_TELLING: Final = 8  # of a longer one, so many at its beginning tell it, where it is cut off behind them
_MOST_LINES: Final = 1_000

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)[/?#]?")
_CUT = re.compile(r"…|\.{3}|[\s'\"`,;)\]}|>]|\Z")  # what stands behind a text that was cut off


def faces(text: str) -> set[str]:
    """A text as it may stand in another: as it is, as Python writes it, line by line."""
    found = {text.strip(), repr(text)[1:-1]}
    if "\n" in text:
        found |= {line.strip() for line in islice(text.splitlines(), _MOST_LINES) if len(line.strip()) >= _TELLING}
    return {face for face in found if len(face) >= _SHORTEST and summaries.MASK not in face}


class RedactedTexts:
    """The texts that no model is told. However many there are, a text is gone through once."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._all: set[str] = set()
        self._by_start: dict[str, list[str]] = {}
        self.update(texts)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, text: str) -> bool:
        return text in self._all

    def update(self, texts: Iterable[str]) -> None:
        """Take these too; none may have fewer than four characters."""
        for text in texts:
            if text not in self._all:
                self._all.add(text)
                self._by_start.setdefault(text[:_SHORTEST], []).append(text)

    def masked(self, text: str) -> str:
        """The text without these."""
        if not self._all:
            return text
        pieces: list[str] = []
        at = done = 0
        starts = self._by_start
        while at <= len(text) - _SHORTEST:
            found = starts.get(text[at : at + _SHORTEST])
            end = max(_end(text, at, one) for one in found) if found is not None else at
            if end > at:
                pieces += [text[done:at], summaries.MASK]
                at = done = end
            else:
                at += 1
        return "".join([*pieces, text[done:]]) if pieces else text


def _end(text: str, at: int, value: str) -> int:
    """Where the value ends that stands here, whole or cut off; `at`: it does not."""
    if text.startswith(value, at):
        end = at + len(value)
        return at if len(value) < _TELLING and _goes_on(text, at, end, value) else end
    least = _least(value)
    if not text.startswith(value[:least], at):
        return at
    end = at + least
    while end < len(text) and end - at < len(value) and text[end] == value[end - at]:
        end += 1
    return end if _CUT.match(text, end) else at


def _goes_on(text: str, at: int, end: int, value: str) -> bool:
    """Whether a short word or number is a part of a longer one here."""
    before, after = text[at - 1 : at], text[end : end + 1]
    if value.isalpha():
        return before.isalpha() or after.isalpha()
    return value.isdigit() and (before.isdigit() or after.isdigit())


def _least(value: str) -> int:
    """So many characters tell a value that is cut off. An address begins as others of its host do."""
    address = _ADDRESS.match(value)
    if address is None:
        return _TELLING
    return (address.start(1) if "@" in address[1] else address.end()) + _TELLING
