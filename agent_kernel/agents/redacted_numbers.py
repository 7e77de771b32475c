"""Hidden numbers, found again however they are written: with more or fewer decimals, with commas between thousands."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from agent_kernel.values import summaries

__all__ = ["RedactedNumbers"]

_SHORTEST: Final = 4  # characters, the sign not counted
_WRITTEN = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)")


class RedactedNumbers:
    """The numbers that no model is told. Those of fewer than four characters are too common to be looked for."""

    def __init__(self) -> None:
        self._known: set[float] = set()  # without their signs
        self._rounded: dict[int, set[float]] = {}  # to so many decimals
        self._columns: list[Any] = []  # sorted arrays of numpy's, each of numbers that those before lack
        self._rounded_columns: dict[int, list[Any]] = {}

    def learn(self, spelled: str) -> bool:
        """Learn a number as Python writes it; False: it is none that can be compared."""
        try:
            value = abs(float(spelled))
        except ValueError:
            return False
        if not math.isfinite(value):
            return False
        if len(spelled.lstrip("-")) >= _SHORTEST and value not in self._known:
            self._known.add(value)
            self._rounded.clear()
        return True

    def learn_all(self, numbers: Any) -> None:
        """Learn the numbers of an array of numpy's, of real numbers."""
        import numpy as np

        found = np.unique(np.abs(numbers.astype("float64").reshape(-1)))
        found = found[np.isfinite(found)]
        if numbers.dtype.kind in "iu":
            found = found[found >= 10 ** (_SHORTEST - 1)]
        else:
            found = found[(found >= 10) | (found * 10 != np.round(found * 10))]  # 0.5 has three characters
        for column in self._columns:
            found = found[~_are_in(column, found)]
        if len(found):
            self._columns.append(found)
            self._rounded_columns.clear()

    def masked(self, text: str) -> str:
        """The text without these numbers."""
        return _WRITTEN.sub(self._one, text) if self._known or self._columns else text

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
        if value in self._known or _is_in(self._columns, value):
            return True
        if "e" in written.lower() or not math.isfinite(value):
            return False
        return self._is_rounded(value, len(written.partition(".")[2]))

    def _is_rounded(self, value: float, decimals: int) -> bool:
        if decimals not in self._rounded:
            self._rounded[decimals] = {round(one, decimals) for one in self._known}
        if self._columns and decimals not in self._rounded_columns:
            self._rounded_columns[decimals] = [column.round(decimals) for column in self._columns]
        return value in self._rounded[decimals] or _is_in(self._rounded_columns.get(decimals, ()), value)


def _is_in(columns: Any, value: float) -> bool:
    for column in columns:
        at = int(column.searchsorted(value))
        if at < len(column) and column[at] == value:
            return True
    return False


def _are_in(column: Any, values: Any) -> Any:
    at = column.searchsorted(values)
    at[at == len(column)] = 0
    return column[at] == values
