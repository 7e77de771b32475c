"""Find what two texts have in common, and spend no more than a bounded time on all texts of one question.

Python's matcher takes time by the cube of the length where texts repeat themselves, as rows of zeros and ones do. So it is
counted what each search costs, and once the budget is spent whatever was not matched by then counts as changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Sized
from difflib import Match, SequenceMatcher
from typing import Final

__all__ = ["Budget", "words_of"]

_WORD: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_PAIR, _PLACE, _LOOK = 10, 10, 40  # steps: for two equal elements, for an element of a search, for one in a quick look
_MOST_STEPS: Final = 100_000_000  # about a second, on lines and as much on what stands within them


class Budget:
    """What one question may spend. Lines have a part of their own, so that words never leave later texts without any."""

    def __init__(self) -> None:
        self._for_lines = _Purse()
        self._for_words = _Purse()

    def lines(self, old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
        """Match whole lines."""
        return _Matcher(old, new, self._for_lines)

    def words(self, old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
        """Match words, or characters, within lines."""
        return _Matcher(old, new, self._for_words)

    def allows_a_look(self, old: Sized, new: Sized) -> bool:
        """Whether it can be afforded to look whether two lines may be alike at all."""
        return self._for_words.spend(_LOOK * (len(old) + len(new)))


def words_of(text: str) -> list[str]:
    """Words, and what stands between them; joined, they are the text."""
    return _WORD.findall(text)


class _Purse:
    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, steps: int) -> bool:
        self._left -= steps
        return self._left >= 0


class _Matcher(SequenceMatcher[str]):
    """A matcher that pays for each search before it makes it."""

    def __init__(self, old: Sequence[str], new: Sequence[str], purse: _Purse) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._old, self._many = old, Counter(new)
        self._purse = purse

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        end = len(self._old) if ahi is None else ahi
        pairs = sum(self._many[self._old[at]] for at in range(alo, end))
        if not self._purse.spend(_PAIR * pairs + _PLACE * (end - alo)):
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)
