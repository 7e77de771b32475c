"""Two texts, line by line, with the words that changed within a line; and code in pieces that a panel colours."""

from __future__ import annotations

import io
import keyword
import re
import token
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from difflib import Match, SequenceMatcher
from html import escape
from typing import Final, Literal, TypeAlias

import msgspec

from agent_kernel.text import clean

# -- find what two texts have in common, and spend no more than a bounded time on all texts of one question
#
# Python's matcher takes time by the cube of the length where texts repeat themselves, as rows of zeros and ones do. So it is
# counted what each search costs, and once the budget is spent whatever was not matched by then counts as changed.

_WORD: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_PER_PAIR, _PER_ELEMENT, _PER_LOOK = (
    10,
    10,
    40,
)  # steps: for two equal elements, for an element of a search, for one in a quick look
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
        return self._for_words.spend(_PER_LOOK * (len(old) + len(new)))


def words_of(text: str) -> list[str]:
    """Words, and what stands between them; joined, they are the text."""
    return _WORD.findall(text)


class _Purse:
    def __init__(self) -> None:
        self._remaining = _MOST_STEPS

    def spend(self, steps: int) -> bool:
        self._remaining -= steps
        return self._remaining >= 0


class _Matcher(SequenceMatcher[str]):
    """A matcher that pays for each search before it makes it."""

    def __init__(self, old: Sequence[str], new: Sequence[str], purse: _Purse) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._old, self._many = old, Counter(new)
        self._purse = purse

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        end = len(self._old) if ahi is None else ahi
        pairs = sum(self._many[self._old[at]] for at in range(alo, end))
        if not self._purse.spend(_PER_PAIR * pairs + _PER_ELEMENT * (end - alo)):
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


_AROUND = 3  # equal lines that are shown beside a change
_MOST_LINES = 2_000  # of each side; of more the beginning is compared
_MOST_RESULT_LINES = 600
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
                found += _diff_replaced(before[i1:i2], after[j1:j2], i1, j1, budget)
    ends = groups[-1][-1] if groups else None
    if cut or (ends is not None and ends[2] < len(before)):
        found.append(_gap())
    return tuple(found) if len(found) <= _MOST_RESULT_LINES else (*found[:_MOST_RESULT_LINES], _gap())


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
    return DiffLine(how, old, new, _shorten(((text, False),)))


def _diff_replaced(
    removed: Sequence[str], added: Sequence[str], old: int, new: int, budget: Budget
) -> Iterator[DiffLine]:
    """Lines that stand for each other come in pairs; the others as they are."""
    pairs = _pairs(removed, added, budget)
    at = 0
    for place, text in enumerate(removed):
        mate = pairs.get(place)
        while mate is not None and at < mate:
            yield _line("+", None, new + at + 1, added[at])
            at += 1
        if mate is None:
            yield _line("-", old + place + 1, None, text)
            continue
        before, after = _words(text, added[mate], budget)
        yield DiffLine("-", old + place + 1, None, _shorten(before))
        yield DiffLine("+", None, new + mate + 1, _shorten(after))
        at = mate + 1
    for place in range(at, len(added)):
        yield _line("+", None, new + place + 1, added[place])


def _pairs(removed: Sequence[str], added: Sequence[str], budget: Budget) -> dict[int, int]:
    """Which of the lines that went is which of those that came, in order."""
    if len(removed) * len(added) > 10_000:
        return {}
    found: dict[int, int] = {}
    after = 0
    for place, text in enumerate(removed):
        best, share = -1, _ALIKE
        for mate in range(after, len(added)):
            left, right = text[:_COMPARED], added[mate][:_COMPARED]
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


def _shorten(words: Words) -> Words:
    room = _LONGEST
    found: list[tuple[str, bool]] = []
    for text, changed in words:
        if len(text) > room:
            found.append((f"{text[: room - 1]}…", changed))
            break
        room -= len(text)
        found.append((text, changed))
    return tuple(found)


# -- python in pieces that a panel colours: keywords, strings, numbers, comments, and the rest
#
# The pieces together are the code as it was given. Code that is no Python (magics, a step cut short) is coloured as far as
# it can be read, and the rest of it is one plain piece.

Kind: TypeAlias = Literal["", "keyword", "string", "number", "comment"]
Piece: TypeAlias = "tuple[Kind, str]"

_STRINGS = {token.STRING} | {
    kind
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if (kind := getattr(token, name, None)) is not None
}


# For what stays in a saved notebook, where no style sheet is: mixed with the page's text, to read on light and on dark.
_COLOURS: Final = {
    "keyword": "color:color-mix(in srgb,#2e9d42 76%,currentColor)",
    "string": "color:color-mix(in srgb,#d33c3c 80%,currentColor)",
    "number": "color:color-mix(in srgb,#2e9d42 76%,currentColor)",
    "comment": "opacity:.7",
}


def html_of(pieces: Iterable[Piece]) -> str:
    """The pieces as HTML that needs no style sheet, everything escaped.

    >>> html_of([("", "a < "), ("comment", "# b")])
    'a &lt; <span style="opacity:.7"># b</span>'
    """
    return "".join(
        f'<span style="{_COLOURS[kind]}">{escape(text)}</span>' if kind else escape(text) for kind, text in pieces
    )


def pieces_of(code: str) -> tuple[Piece, ...]:
    """The code in its order.

    >>> pieces_of("import x")
    (('keyword', 'import'), ('', ' x'))
    """
    found: list[Piece] = []
    done = 0
    starts = _line_starts(code)
    for kind, (from_row, from_column), (to_row, to_column) in _highlight(code):
        start, end = starts[from_row - 1] + from_column, starts[to_row - 1] + to_column
        if start < done:
            continue
        _add_piece(found, "", code[done:start])
        _add_piece(found, kind, code[start:end])
        done = end
    _add_piece(found, "", code[done:])
    return tuple(found)


def _add_piece(found: list[Piece], kind: Kind, text: str) -> None:
    if not text:
        return
    if found and found[-1][0] == kind:
        text = found.pop()[1] + text
    found.append((kind, text))


def _highlight(code: str) -> Iterator[tuple[Kind, tuple[int, int], tuple[int, int]]]:
    try:
        for found in tokenize.generate_tokens(io.StringIO(code).readline):
            kind = _kind_of(found)
            if kind:
                yield kind, found.start, found.end
    except (tokenize.TokenError, SyntaxError):
        return


def _kind_of(found: tokenize.TokenInfo) -> Kind:
    if found.type in _STRINGS:
        return "string"
    if found.type == token.COMMENT:
        return "comment"
    if found.type == token.NUMBER:
        return "number"
    return "keyword" if found.type == token.NAME and keyword.iskeyword(found.string) else ""


def _line_starts(code: str) -> list[int]:
    # As the tokenizer counts lines: str.splitlines would also break at a form feed.
    starts = [0]
    for line in io.StringIO(code):
        starts.append(starts[-1] + len(line))
    return starts
