"""Hidden numbers, found again however they are written: with more or fewer decimals, with commas between thousands."""

from __future__ import annotations

import math
import re
from typing import Final

from agent_kernel.values import summaries

__all__ = ["Numerals"]

_SHORTEST: Final = 4  # characters, the sign not counted
_MOST: Final = 20_000
_WRITTEN = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)")


class Numerals:
    """The numbers that are not to be told. Those of fewer than four characters are too common to be looked for."""

    def __init__(self) -> None:
        self._known: set[float] = set()  # without their signs
        self._rounded: dict[int, set[float]] = {}  # to so many decimals

    def learn(self, spelled: str) -> bool:
        """Learn a number as Python writes it; False: it is none that can be compared."""
        try:
            value = abs(float(spelled))
        except ValueError:
            return False
        if not math.isfinite(value):
            return False
        if len(spelled.lstrip("-")) >= _SHORTEST and len(self._known) < _MOST and value not in self._known:
            self._known.add(value)
            self._rounded.clear()
        return True

    def masked(self, text: str) -> str:
        """The text without these numbers."""
        return _WRITTEN.sub(self._one, text) if self._known else text

    def _one(self, found: re.Match[str]) -> str:
        written = found[0]
        if self._is_hidden(written):
            return summaries.MASK
        # A list without spaces looks like one number with commas.
        return ",".join(summaries.MASK if self._is_hidden(part) else part for part in written.split(","))

    def _is_hidden(self, written: str) -> bool:
        if len(written) < _SHORTEST:
            return False
        value = float(written.replace(",", ""))
        if value in self._known:
            return True
        if "e" in written.lower() or not math.isfinite(value):
            return False
        return value in self._with_decimals(len(written.partition(".")[2]))

    def _with_decimals(self, many: int) -> set[float]:
        if many not in self._rounded:
            self._rounded[many] = {round(value, many) for value in self._known}
        return self._rounded[many]
