"""Two texts, line by line, with the words that changed within a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from agent_kernel.browsing.matching import Budget, words_of
from agent_kernel.verbs.text import clean

__all__ = ["DiffLine", "count_of", "diff_lines"]

_AROUND = 3  # equal lines that are shown beside a change
_MOST_LINES = 2_000  # of each side; of more the beginning is compared
_MOST_SHOWN = 600
_LONGEST = 500  # characters of a line
_ALIKE = 0.4  # share of a line that has to be the same for its words to be compared
_COMPARED = 120  # characters of a line by which it is found again

Words: TypeAlias = "tuple[tuple[str, bool], ...]"


class DiffLine(msgspec.Struct, frozen=True):
    """A line with its number on either side. `…` stands for lines that are the same, or that are too many."""

    how: Literal["+", "-", " ", "…"]
    old: int | None
    new: int | None
    words: Words


def diff_lines(old: str, new: str, budget: Budget | None = None) -> tuple[DiffLine, ...]:
    """What it takes to come from one text to the other.

    Args:
        budget: what the question may still spend on diffs; of its own where it makes this one only.
    """
    budget = Budget() if budget is None else budget
    before, after = _lines(old), _lines(new)
    found: list[DiffLine] = []
    cut = len(before) > _MOST_LINES or len(after) > _MOST_LINES
    groups = list(budget.lines(before[:_MOST_LINES], after[:_MOST_LINES]).get_grouped_opcodes(_AROUND))
    for number, group in enumerate(groups):
        first = group[0]
        if number or first[1] > 0:
            found.append(_gap())
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += (_line(" ", i1 + at + 1, j1 + at + 1, text) for at, text in enumerate(before[i1:i2]))
            else:
                found += _replaced(before[i1:i2], after[j1:j2], i1, j1, budget)
    ends = groups[-1][-1] if groups else None
    if cut or (ends is not None and ends[2] < len(before)):
        found.append(_gap())
    return tuple(found) if len(found) <= _MOST_SHOWN else (*found[:_MOST_SHOWN], _gap())


def count_of(old: str, new: str, budget: Budget) -> tuple[int, int]:
    """How many lines were added and removed."""
    before, after = _lines(old)[:_MOST_LINES], _lines(new)[:_MOST_LINES]
    added = removed = 0
    for tag, i1, i2, j1, j2 in budget.lines(before, after).get_opcodes():
        if tag != "equal":
            removed, added = removed + i2 - i1, added + j2 - j1
    return added, removed


def _lines(text: str) -> list[str]:
    return [clean(line.expandtabs(4)) for line in text.splitlines()]


def _gap() -> DiffLine:
    return DiffLine("…", None, None, ())


def _line(how: Literal["+", "-", " "], old: int | None, new: int | None, text: str) -> DiffLine:
    return DiffLine(how, old, new, _bounded(((text, False),)))


def _replaced(gone: Sequence[str], come: Sequence[str], old: int, new: int, budget: Budget) -> Iterator[DiffLine]:
    """Lines that stand for each other come in pairs; the others as they are."""
    pairs = _pairs(gone, come, budget)
    at = 0
    for place, text in enumerate(gone):
        mate = pairs.get(place)
        while mate is not None and at < mate:
            yield _line("+", None, new + at + 1, come[at])
            at += 1
        if mate is None:
            yield _line("-", old + place + 1, None, text)
            continue
        before, after = _words(text, come[mate], budget)
        yield DiffLine("-", old + place + 1, None, _bounded(before))
        yield DiffLine("+", None, new + mate + 1, _bounded(after))
        at = mate + 1
    for place in range(at, len(come)):
        yield _line("+", None, new + place + 1, come[place])


def _pairs(gone: Sequence[str], come: Sequence[str], budget: Budget) -> dict[int, int]:
    """Which of the lines that went is which of those that came, in order."""
    if len(gone) * len(come) > 10_000:
        return {}
    found: dict[int, int] = {}
    after = 0
    for place, text in enumerate(gone):
        best, share = -1, _ALIKE
        for mate in range(after, len(come)):
            left, right = text[:_COMPARED], come[mate][:_COMPARED]
            if not budget.allows_a_look(left, right):
                return found
            matcher = budget.words(left, right)
            if matcher.real_quick_ratio() > share and matcher.quick_ratio() > share and matcher.ratio() > share:
                best, share = mate, matcher.ratio()
        if best >= 0:
            found[place], after = best, best + 1
    return found


def _words(old: str, new: str, budget: Budget) -> tuple[Words, Words]:
    before, after = words_of(old[:_LONGEST]), words_of(new[:_LONGEST])
    if not budget.allows_a_look(before, after):
        return ((old, True),), ((new, True),)
    first: list[tuple[str, bool]] = []
    second: list[tuple[str, bool]] = []
    for tag, i1, i2, j1, j2 in budget.words(before, after).get_opcodes():
        _add(first, "".join(before[i1:i2]), tag != "equal")
        _add(second, "".join(after[j1:j2]), tag != "equal")
    return tuple(first), tuple(second)


def _add(words: list[tuple[str, bool]], text: str, changed: bool) -> None:
    if not text:
        return
    if words and words[-1][1] == changed:
        words[-1] = (words[-1][0] + text, changed)
    else:
        words.append((text, changed))


def _bounded(words: Words) -> Words:
    room = _LONGEST
    found: list[tuple[str, bool]] = []
    for text, changed in words:
        if len(text) > room:
            found.append((f"{text[: room - 1]}…", changed))
            break
        room -= len(text)
        found.append((text, changed))
    return tuple(found)
