"""What must not be shown, learnt from values without running any code of theirs, and masked wherever it stands.

Models are not told hidden variables, and later commits keep no outputs with forgotten ones.

Texts are found whole or cut off, numbers however they are written. All of a hidden value is learnt: its texts and
numbers, keys and labels, attributes and slots, however deep. In other values a secret is learnt where a search of some
thousand objects finds one by its name.
"""

from __future__ import annotations

import array
import bisect
import contextvars
import datetime
import decimal
import gc
import html
import io
import json
import math
import os
import pathlib
import re
import stat
import sys
import types
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, cast

from agent_kernel.values import encodings, previews
from agent_kernel.values.encodings import has_encoded, spans
from agent_kernel.values.introspection import (
    ExactTypes,
    bases_of,
    class_dict,
    derives_from,
    entry,
    exact_items,
    exact_str,
    find_loaded,
    flags_of,
    instance_dict,
    is_dict_slot,
    module_dict,
    module_name,
)
from agent_kernel.values.previews.redaction import (
    NAMING,
    is_secret_under,
    labels_a_secret,
    names_its_neighbours,
    speaks_of_secrets,
)
from agent_kernel.values.references import is_library

SHORTEST: Final = 4  # characters of what is looked for; the sign of a number is not counted
_TELLING: Final = 8  # of a longer text, so many at its beginning tell it, where it is cut off behind them
_LONG_BEGINNING: Final = 24  # characters that tell a text also where they end with one of its words
_TELLING_DIGITS: Final = 5  # before the decimal point, or one more in all: such a number is masked also within a word
_MOST_TEXTS: Final = 600_000
_MOST_NUMBERS: Final = 5_000_000
_MOST_OF_ONE: Final = 1_000  # entries of a container, or rows from either end, that are searched for secrets
_DEEPEST: Final = 8  # of that search
_MOST_DECODED: Final = 1 << 26  # bytes that are decoded, and read of open files
_MOST_SOUGHT: Final = 1_000  # texts that are looked for one by one
_FEW_BYTES: Final = 1 << 16  # of numbers that are searched for texts
_FEW: Final = 200  # beginnings of texts that are looked for first

# What stands in every output, and tells nothing of the variable that holds it.
_SAID_EVERYWHERE: Final = frozenset({"True", "False", "None", "true", "false", "null", "TRUE", "FALSE", "NULL", "<NA>"})

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#]*)[/?#]?")
_OF_DIGITS = re.compile(r"\d+(?:[.:/-]\d+)+")  # `10.0.0.1`, which `10.0.0.12` is not
_ELLIPSIS = re.compile(r"\s?(?:…|\.{3})")
_CUT = re.compile(r"…|\.{3}|[\s'\"`,;)\]}|>]|\Z")  # what stands behind a text that was cut off
# A digit comes first in both, and what must not stand before it is looked at then: so they search by it, which is fast.
_WRITTEN = re.compile(r"\d(?<![\w.]\d)(?:\d{0,2}(?:,\d{3})+|\d{0,2}(?:_\d{3})+|\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)")
# A number that touches letters: `EUR48213`, `a_48213.77_b`. A short one is often another thing: `utf16`, `v1000.5`.
# `48213,77`, `48.213,77`, `48 213.77` and `48'213.77`.
_ELSEWHERE = re.compile(
    r"\d(?<![\w.,]\d)(?:\d{0,2}(?:\.\d{3})+,\d+|\d{0,2}(?:[ '\u2019\xa0\u202f]\d{3})+(?:[.,]\d+)?|\d*,\d+)(?![\w,])"
)
_LONG = r"(?:\d{4,}(?:\.\d+)?|\d{0,3}\.\d{2,}|\d{0,2}(?:,\d{3})+(?:\.\d+)?)"
_TOUCHING = re.compile(rf"\d(?<!\d\d)(?<!\d[.,]\d)(?:(?<=[\w.]\d){_LONG}(?!\d)|{_LONG}(?=[^\W\d]))")

Part = tuple[object, bool, int]  # a value, whether it is to be hidden, how deep it lies

_RUN = re.compile(rb"[ -~]{8,}")  # a text within bytes, as in a pickle
_WIDE_RUNS = (re.compile(rb"(?:[ -~]\0){8,}"), re.compile(rb"(?:[ -~]\0{3}){8,}"))  # in two or four bytes a character
_ESCAPED = re.compile(r"""[^ -~]|["'&<>\\]""")

_TYPE = re.compile(r"[\w.,\s|\[\]'\"]*")  # an annotation that is written as a text

_PLAIN = frozenset(map(id, (bool, type(None), types.FunctionType, types.BuiltinFunctionType, types.ModuleType)))
_SPELLED: ExactTypes[bool] = ExactTypes(
    [
        (kind, True)
        for kind in (
            *(decimal.Decimal, uuid.UUID),
            *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
            *(pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath),
        )
    ],
    {
        **dict.fromkeys(("pandas:Timestamp", "pandas:Timedelta", "pandas:Period", "fractions:Fraction"), True),
        **dict.fromkeys((f"ipaddress:IPv{n}{what}" for n in (4, 6) for what in ("Address", "Network")), True),
    },
)
_TABLES: ExactTypes[str] = ExactTypes(
    libraries={
        "pandas:DataFrame": "_frame",
        "pandas:Series": "_series",
        "polars:DataFrame": "_columns_of",
        "polars:Series": "_column",
        "pyarrow:Table": "_columns_of",
        "pyarrow:RecordBatch": "_columns_of",
        "pyarrow:ChunkedArray": "_column",
        "torch:Tensor": "_tensor",
        "torch.nn:Parameter": "_tensor",
        "torch:UntypedStorage": "_storage",
    }
)
_MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# How each kind of container gives what it holds, past what a class derived from it says.
_SEQUENCES: Final[list[tuple[type, Callable[[Any], Iterator[object]]]]] = [
    (list, list[object].__iter__),
    (tuple, tuple[object, ...].__iter__),
    (set, set[object].__iter__),
    (frozenset, frozenset[object].__iter__),
    (deque, deque[object].__iter__),
]
# Of this package's own objects these may hold what a person gave; others lead to everything, the environment too.
_OWN = ("agent_kernel.agents.agent", "agent_kernel.agents.models")
_entries_of = dict[object, object].items


def spellings(text: str) -> set[str]:
    """A text as it may stand in another: as it is, as Python, JSON and HTML write it, line by line."""
    found = {text.strip(), repr(text)[1:-1]}
    if _ESCAPED.search(text):
        found |= {ascii(text)[1:-1], html.escape(text, quote=False).strip(), html.escape(text).strip()}
        found |= {json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}
    found |= {spelling.replace("/", r"\/") for spelling in found if "/" in spelling}  # as pandas writes JSON
    if "\n" in text:
        found |= {line.strip() for line in text.splitlines() if len(line.strip()) >= _TELLING}
    return {face for face in found if len(face) >= SHORTEST and previews.MASK not in face}


class _Index:
    """Texts by how they begin. However many there are, another text is gone through once."""

    def __init__(self) -> None:
        self.all: set[str] = set()
        self._by_start: dict[str, list[str]] = {}

    def add(self, text: str) -> None:
        if text not in self.all:
            self.all.add(text)
            self._by_start.setdefault(text[:SHORTEST], []).append(text)

    def spans(self, text: str, least: int = SHORTEST, *, whole: bool = False) -> Iterator[tuple[int, int]]:
        """Where these stand, in order.

        Args:
            least: characters of those that are looked for.
            whole: none that are cut off.
        """
        starts = self._by_start
        if len(starts) <= _FEW and not any(start in text for start in starts):
            return
        at = 0
        while at <= len(text) - SHORTEST:
            found = starts.get(text[at : at + SHORTEST])
            end = (
                max(
                    (
                        _end(text, at, one)
                        for one in found
                        if len(one) >= least and (not whole or text.startswith(one, at))
                    ),
                    default=at,
                )
                if found
                else at
            )
            if end > at:
                yield at, end
            at = max(end, at + 1)


class RedactedTexts:
    """The texts that no model is told."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._index = _Index()
        self._words, self._folded = _Index(), _Index()  # of what these have; made when something is looked for in them
        self._new: list[str] = []
        self.update(texts)

    def __len__(self) -> int:
        return len(self._index.all)

    def __contains__(self, text: str) -> bool:
        return text in self._index.all

    def update(self, texts: Iterable[str]) -> None:
        """Take these too; none may have fewer than four characters."""
        for text in texts:
            if text not in self._index.all and text not in _SAID_EVERYWHERE and not _is_rule(text):
                self._index.add(text)
                self._new.append(text)

    def are_in(self, content: bytes) -> bool:
        """Whether bytes hold one of these as UTF-8."""
        if len(self) > _MOST_SOUGHT:
            text = content.decode("utf-8", "replace")
            return self.mask(text) != text
        return any(text.encode("utf-8", "surrogatepass") in content for text in self._index.all)

    def mask(self, text: str) -> str:
        """The text without these."""
        return _without(text, self._index.spans(text))

    def mask_encoded(self, text: str) -> str:
        """The text without what a reader could turn into one of these: base64, escapes, characters one by one."""
        return _without(text, spans(text, self)) if len(self) else text

    def is_encoded(self, word: str) -> bool:
        """Whether a word has one of these in base64 or hex."""
        return len(self) > 0 and has_encoded(word, self)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the longer ones of these stand."""
        return self._index.spans(text, _TELLING)

    def find_as_words(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand without what is neither letter nor digit."""
        self._extend()
        return self._words.spans(text, whole=True)

    def find_in_other_case(self, text: str) -> Iterator[tuple[int, int]]:
        """Where those with a digit or of several words stand in capitals, or without: a word may do so without being meant."""
        self._extend()
        lower = text.lower()
        return self._folded.spans(lower) if len(lower) == len(text) else iter(())

    def _extend(self) -> None:
        for text in self._new:
            word = "".join(filter(str.isalnum, text))
            if len(word) >= _TELLING:
                self._words.add(word)
            if len(text) >= _TELLING and (any(map(str.isdigit, text)) or len(text.split(maxsplit=1)) > 1):
                self._folded.add(text.lower())
        self._new = []


def _is_rule(text: str) -> bool:
    """Whether a text is one sign again and again, as between the parts of any table."""
    return text[0] == text[-1] and not text[0].isalnum() and text.count(text[0]) == len(text)


def _without(text: str, found: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for at, end in found:
        pieces += [text[done:at], previews.MASK]
        done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _end(text: str, at: int, value: str) -> int:
    """Where the value that stands here ends, whole or cut off. Returns `at` where it does not stand here."""
    if text.startswith(value, at):
        end = at + len(value)
        is_short = len(value) < _TELLING or (len(value) <= _LONG_BEGINNING and _OF_DIGITS.fullmatch(value) is not None)
        return at if is_short and _is_part_of_longer(text, at, end, value) else end
    least = _least(value)
    if not text.startswith(value[:least], at):
        return at
    end = at + least
    while end < len(text) and end - at < len(value) and text[end] == value[end - at]:
        end += 1
    if not _CUT.match(text, end):
        return at
    # What ends where a word or a folder does may be the beginning of another text, unless something says that it is cut.
    is_border = end - at < min(len(value), _LONG_BEGINNING) and (value[end - at] in " /" or text[end - 1] in " /")
    return at if is_border and not _ELLIPSIS.match(text, end) else end


def _is_part_of_longer(text: str, at: int, end: int, value: str) -> bool:
    """Whether a short word or number is a part of a longer one here."""
    before, after = text[at - 1 : at], text[end : end + 1]
    if value.isalpha():
        return before.isalpha() or after.isalpha()
    is_number = value.isdigit() or _OF_DIGITS.fullmatch(value) is not None
    return is_number and (before.isdigit() or after.isdigit())


def _least(value: str) -> int:
    """So many characters tell a value that is cut off. An address begins as others of its host do."""
    address = _ADDRESS.match(value)
    if address is None:
        alike = len(value) - len(value.lstrip(f"{value[0]}-"))  # zeros, with which other numbers begin, too
        return _TELLING if alike < SHORTEST else alike + _TELLING
    return (address.start(1) if "@" in address[1] else address.end()) + _TELLING


class RedactedNumbers:
    """The numbers and days that no model is told. Numbers of fewer than four characters are too common to be looked for."""

    def __init__(self) -> None:
        self._known: set[float] = set()  # without their signs
        self._days: set[tuple[int, int, int]] = set()  # year, month, day
        self._rounded: dict[int, set[float]] = {}  # to so many decimals
        self._sorted: list[float] = []
        self._columns: list[Any] = []  # sorted arrays of numpy's, each of numbers that those before lack
        self._rounded_columns: dict[int, list[Any]] = {}
        self._cut: set[float] = set()  # without their decimals
        self._cut_columns: list[Any] = []

    def learn(self, spelled: str) -> bool:
        """Learn a number as Python writes it. Returns False where it cannot be compared: not a real number, or infinite."""
        try:
            value = abs(float(spelled))
        except ValueError:
            return False
        if not math.isfinite(value):
            return False
        if len(spelled.lstrip("-")) >= SHORTEST and value not in self._known:
            self._known.add(value)
            self._rounded.clear()
            self._cut.clear()
            self._sorted = []
        return True

    def learn_day(self, year: int, month: int, day: int) -> None:
        """Learn a day, however it is written."""
        self._days.add((year, month, day))

    def learn_all(self, numbers: Any) -> None:
        """Learn the numbers of an array of numpy's, of real numbers."""
        import numpy as np

        found = np.unique(np.abs(numbers.astype("float64").reshape(-1)))
        found = found[np.isfinite(found)]
        if numbers.dtype.kind in "iu":
            found = found[found >= 10 ** (SHORTEST - 1)]
        else:
            found = found[(found >= 10) | (found * 10 != np.round(found * 10))]  # 0.5 has three characters
        for column in self._columns:
            found = found[~_are_in(column, found)]
        if len(found):
            self._columns.append(found)
            self._rounded_columns.clear()
            self._cut_columns = []

    def are_in(self, word: str) -> bool:
        """Whether a word has one of these numbers."""
        return self.mask(word) != word

    def mask(self, text: str) -> str:
        """The text without these numbers and days."""
        if self._days:
            text = _DAY.sub(self._mask_day, text)
        if not self._known and not self._columns:
            return text
        text = _ELSEWHERE.sub(self._mask_foreign_number, text)
        return _TOUCHING.sub(self._touching, _WRITTEN.sub(self._one, text))

    def _mask_day(self, found: re.Match[str]) -> str:
        return found[0] if self._days.isdisjoint(_days_of(found)) else previews.MASK

    def _mask_foreign_number(self, found: re.Match[str]) -> str:
        """A number as other languages write it: its last separator stands before the decimals, or all between thousands."""
        digits = re.sub(r"[ '\u2019\xa0\u202f]", "", found[0])
        plain = digits.replace(".", "").replace(",", ".") if "," in digits else digits
        return previews.MASK if len(plain) > _TELLING_DIGITS and self._is_hidden(plain) else found[0]

    def _touching(self, found: re.Match[str]) -> str:
        written = found[0]
        is_telling = len(written.partition(".")[0]) >= _TELLING_DIGITS or len(written) > _TELLING_DIGITS + 1
        return previews.MASK if is_telling and self._is_hidden(written, is_cut=False) else written

    def _one(self, found: re.Match[str]) -> str:
        written = found[0]
        has_decimals = re.match(r",\d", found.string[found.end() : found.end() + 2]) is not None  # as others write them
        if self._is_hidden(written, is_cut=not has_decimals):
            return previews.MASK
        if "," not in written:
            return written
        # A list without spaces looks like one number with commas.
        parts = written.split(",")
        return ",".join(previews.MASK if self._is_hidden(part, is_cut=False) else part for part in parts)

    def _is_hidden(self, written: str, *, is_cut: bool = True) -> bool:
        """Whether this is a hidden number, rounded perhaps. `is_cut`: or what stands before its decimals, as `int` gives it."""
        if len(written) < SHORTEST:
            return False
        value = float(written.replace(",", ""))
        if value in self._known or _is_in(self._columns, value):
            return True
        if not math.isfinite(value):
            return False
        if "e" in written.lower():
            return self._is_shortened(value, *written.lower().split("e"))
        decimals = len(written.partition(".")[2].rstrip("0"))
        return self._is_rounded(value, decimals) or (is_cut and not decimals and self._is_cut(value))

    def _is_rounded(self, value: float, decimals: int) -> bool:
        if decimals not in self._rounded:
            self._rounded[decimals] = {round(one, decimals) for one in self._known}
        if self._columns and decimals not in self._rounded_columns:
            self._rounded_columns[decimals] = [column.round(decimals) for column in self._columns]
        return value in self._rounded[decimals] or _is_in(self._rounded_columns.get(decimals, ()), value)

    def _is_cut(self, value: float) -> bool:
        """Whether a number without decimals is a hidden one without its own."""
        if not self._cut:
            self._cut.update(float(math.floor(one)) for one in self._known)
        if self._columns and not self._cut_columns:
            self._cut_columns = [column // 1 for column in self._columns]
        return value in self._cut or _is_in(self._cut_columns, value)

    def _is_shortened(self, value: float, mantissa: str, exponent: str) -> bool:
        """Whether a number with an exponent is a hidden one with fewer digits: `1.234568e+06`."""
        if len(mantissa) < SHORTEST:
            return False
        half = 0.5 * 10.0 ** (int(exponent) - len(mantissa.partition(".")[2])) * (1 + 1e-9)
        self._sorted = self._sorted or sorted(self._known)
        at = bisect.bisect_left(self._sorted, value - half)
        if at < len(self._sorted) and self._sorted[at] <= value + half:
            return True
        return any(
            column.searchsorted(value - half) < column.searchsorted(value + half, "right") for column in self._columns
        )


# A day in digits, in whatever order, with the name of its month, and as Python's own classes write it.
_DAY: Final = re.compile(
    r"""(?<![\w.])(?:
      (\d{1,4})([-./\s])(\d{1,2})\2(\d{2,4})
    | (\d{1,2})(?:st|nd|rd|th)?[-.\s,]{1,2}([A-Za-z]{3,9})\.?[-\s,]{1,2}(\d{2,4})
    | ([A-Za-z]{3,9})\.?[-\s](\d{1,2})(?:st|nd|rd|th)?,?[-\s](\d{4})
    | (\d{4}),\s?(\d{1,2}),\s?(\d{1,2})
    | (\d{4})(\d\d)(\d\d)
    )(?!\d)""",
    re.VERBOSE,
)
_MONTH_NUMBERS: Final = {name[:3].lower(): number for number, name in enumerate(_MONTHS) if name}


def _days_of(found: re.Match[str]) -> Iterator[tuple[int, int, int]]:
    """The days that a text may mean, each as year, month and day."""
    one, _, two, three, *named = found.groups()
    if one:
        first, second, third = int(one), int(two), int(three)
        yield from _in_centuries(one, first, second, third)
        yield from _in_centuries(three, third, second, first)
        yield from _in_centuries(three, third, first, second)
        return
    day, month, year, month_before, day_behind, year_behind, *digits = named
    if month or month_before:
        number = _MONTH_NUMBERS.get((month or month_before)[:3].lower(), 0)
        yield from _in_centuries(year or year_behind, int(year or year_behind), number, int(day or day_behind))
        return
    numbers = [int(part) for part in digits if part]
    yield numbers[0], numbers[1], numbers[2]


def _in_centuries(written: str, year: int, month: int, day: int) -> Iterator[tuple[int, int, int]]:
    yield year, month, day
    if len(written) <= 2:
        yield 1900 + year, month, day
        yield 2000 + year, month, day


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


class Reader:
    """Learns values, as far as its budget goes.

    Args:
        texts, numbers: take what is to be hidden.
        most: objects that are looked at in all.
    """

    def __init__(self, texts: RedactedTexts, numbers: RedactedNumbers, most: int) -> None:
        self._texts = texts
        self._numbers = numbers
        self._remaining = most
        self._remaining_numbers = _MOST_NUMBERS
        self._remaining_bytes = _MOST_DECODED
        self._met: dict[tuple[int, bool], object] = {}  # kept, so that no id is given to another
        self.has_closed: bool = False  # something that is to be hidden cannot be looked into

    def read(self, values: Iterable[tuple[object, bool]]) -> bool:
        """Learn these values, each of which is to be hidden, or searched for secrets. Returns whether all was read."""
        todo: list[Part] = [(value, hide, 0) for value, hide in values]
        while todo:
            value, hide, depth = todo.pop()
            if not hide and depth > _DEEPEST:
                continue
            self._remaining -= 1
            if self._is_spent():
                return False
            try:
                todo += self._parts(value, hide, depth)
            except encodings.TooLargeError:
                return False
        return not self._is_spent()  # the last value may have had more than there was room for

    def _is_spent(self) -> bool:
        return self._remaining < 0 or self._remaining_numbers < 0 or len(self._texts) > _MOST_TEXTS

    def _parts(self, value: object, hide: bool, depth: int) -> Iterable[Part]:
        """Learn what a value is by itself, and give what it consists of."""
        kind = type(value)
        if (
            hide
            and (depth == 0 or _is_of_the_notebook(value, kind))
            and (parts := _read_definition(value, kind, is_named=depth == 0)) is not None
        ):
            return self._once(value, [(part, True, depth + 1) for part in parts])
        if hide and (parts := _read_interpreter_state(value, kind)) is not None:
            return self._once(value, [(part, True, depth + 1) for part in parts])
        if _is_passed_over(kind):
            return ()
        if hide and self._learn(value, kind):
            within = [cast("memoryview", value).obj] if kind is memoryview else []
            found = [(part, True, depth + 1) for part in (*self._decode(value, kind), *within)]
            if flags_of(kind) & _HEAP and _SPELLED.find(kind) is None:  # a text or number of a class of its own
                found += self._once(value, list(_attributes(value, kind, True, depth)))
            return found
        if (id(value), hide) in self._met:
            return ()
        self._met[id(value), hide] = value
        # A proxy is asked in vain, and what a search goes through is not told by it.
        self.has_closed |= hide and (kind in weakref.ProxyTypes or _is_halfway(kind) or id(kind) == _SEARCH)
        if hide and derives_from(kind, find_loaded("sqlite3", "Connection")):
            return [(part, True, depth + 1) for part in self._rows(value)]
        if hide and derives_from(kind, io.FileIO):
            return [(part, True, depth + 1) for part in self._file(cast("io.FileIO", value))]
        if hide and (parts := _of_type(value)) is not None:
            return [(part, True, depth + 1) for part in parts]
        table = _TABLES.find(kind)
        if table is not None:
            return cast("Iterable[Part]", getattr(self, table)(value, hide, depth))
        if derives_from(kind, find_loaded("numpy", "ndarray")):
            return self._array(value, hide, depth)
        if derives_from(kind, find_loaded("pandas", "Index")):
            index: Any = value
            names = [(name, True, depth + 1) for name in (*index.names, *_levels(index))] if hide else []
            return [*names, *self._cells(index, hide, depth)]
        if hide and derives_from(kind, find_loaded("PIL.Image", "Image")):
            return [*_attributes(value, kind, hide, depth), *self._pixels(value, depth)]
        items = list(self._items(value, kind, hide, depth))
        found = [*items, *_attributes(value, kind, hide, depth)]
        if hide and not items and _is_compiled(kind):  # no attribute may show what it holds
            found += [(part, True, depth + 1) for part in (*_referents(value), *self._open(value, kind))]
        return found

    def _open(self, value: object, kind: type) -> list[object]:
        """What an object of compiled code holds and no attribute shows: by its buffer, or by how it would be copied."""
        try:
            with memoryview(cast("Any", value)) as view:
                return [bytes(view)]
        except (TypeError, BufferError, ValueError):
            pass
        if not _could_hold(kind):
            return []
        try:
            how: object = cast("Any", kind).__reduce_ex__(value, 4)
        except Exception:  # noqa: BLE001 - it is a library's own
            how = None
        parts = (
            [how]
            if type(how) is str
            else list(_flatten(cast("tuple[object, ...]", how)[1:]))
            if type(how) is tuple
            else [b""]
        )
        if any(type(part) in (bytes, bytearray) for part in parts):  # or what it holds is written in a way of its own
            self.has_closed = True
        # Its own class's name, which numpy's generators write among their numbers, says nothing of what it holds.
        named = type.__getattribute__(kind, "__name__")
        parts = [_without_value(part, named) if type(part) is dict else part for part in parts]
        return [part for part in parts if type(part) is not str or not part.replace(".", "").isidentifier()]

    def _decode(self, value: object, kind: type) -> list[object]:
        """What a text, bytes or a large number was made from, one layer below."""
        if derives_from(kind, str):
            return list(encodings.from_text(exact_str(value)))
        if derives_from(kind, int):
            return list(filter(None, [encodings.from_int(int.__index__(cast("int", value)))]))
        if not _is_bytes(kind):
            return []
        try:
            found = list(encodings.from_bytes(bytes(cast("bytes", value)), self._remaining_bytes))
        except encodings.TooLargeError:
            raise
        except Exception:  # noqa: BLE001 - a form that is not read here, or broken, and a library's own error
            self.has_closed = True
            return []
        self._take(sum(len(one) for one in found if isinstance(one, bytes)))
        return found

    def _take(self, size: int) -> None:
        """So many bytes are read."""
        self._remaining_bytes -= size
        if self._remaining_bytes < 0:
            raise encodings.TooLargeError

    def _file(self, value: io.FileIO) -> list[object]:
        """What an open file is called, and what is in it."""
        path = instance_dict(value).get("name")
        called: list[object] = [path] if isinstance(path, str | bytes) and len(path) >= _TELLING else []
        try:
            number = io.FileIO.fileno(value)
            about = os.fstat(number)
        except (OSError, ValueError):  # it is closed
            return called
        if not stat.S_ISREG(about.st_mode):
            return called
        self._take(about.st_size)
        try:
            return [*called, os.pread(number, about.st_size, 0)]
        except OSError:
            pass  # it is open for writing alone: what is in it may be read by its path
        try:
            return [*called, pathlib.Path(os.fsdecode(cast("str", path))).read_bytes()]
        except (OSError, TypeError):
            self.has_closed = about.st_size > 0
            return called

    def _rows(self, value: Any) -> list[object]:
        """What is in the files of a connection to SQLite. It stays as it is: it may have a transaction, and listeners."""
        from agent_kernel.values.reducers.databases import files_of

        self.has_closed |= is_in_memory(value)
        try:
            import sqlite3

            paths = [path for path in files_of(value) if path]
            is_midway: bool = cast("Any", sqlite3.Connection.in_transaction).__get__(value)
            self.has_closed |= bool(paths) and is_midway
            found: list[object] = []
            for path in paths:
                self._take(pathlib.Path(path).stat().st_size)
                base = sqlite3.connect(f"{pathlib.Path(path).absolute().as_uri()}?mode=ro", uri=True)
                found += encodings.rows_of(base)
                base.close()
        except encodings.TooLargeError:
            raise
        except Exception as error:  # noqa: BLE001 - it is closed, so that it shows nothing; or locked, or of another thread
            self.has_closed = self.has_closed or "closed" not in str(error)
            return []
        return found

    def _once(self, value: object, parts: list[Part]) -> list[Part]:
        """The parts, unless they were read before."""
        is_new = (id(value), True) not in self._met
        self._met[id(value), True] = value
        return parts if is_new else []

    def _learn(self, value: object, kind: type) -> bool:
        """Learn a value that has no parts. Returns False for one that has some."""
        if derives_from(kind, str):
            self._learn_texts(spellings(exact_str(value)))
        elif _is_bytes(kind):
            content = bytes(cast("bytes", value))
            for one in {content, content.strip(b"\0"), *_runs(content)}:
                self._learn_texts(spellings(one.decode("utf-8", "replace")) | spellings(repr(one)[2:-1]))
        elif derives_from(kind, find_loaded("numpy", "void")) and not cast("Any", value).dtype.names:
            return self._learn(cast("Any", value).tobytes(), bytes)
        elif (number := _spell_number(value, kind)) is not None:
            self._learn_number(number)
            if derives_from(kind, complex):
                self._learn_number(repr(float(cast("complex", value).real)))
                self._learn_number(repr(float(cast("complex", value).imag)))
        elif _SPELLED.find(kind):
            texts = {str(value), repr(value), str(value).removesuffix(" 00:00:00")}
            if derives_from(kind, datetime.date):
                texts |= self._moments(cast("Any", value), kind)
            zone: object = getattr(value, "tzinfo", None)
            if type(zone) is datetime.timezone and _may_be_value(str(zone)) and not str(zone).startswith("UTC"):
                texts.add(str(zone))
            if derives_from(kind, find_loaded("fractions", "Fraction")):
                for part in ("numerator", "denominator"):
                    self._learn_number(str(getattr(value, part)))
            if kind is uuid.UUID:
                self._learn(cast("uuid.UUID", value).bytes, bytes)
            if derives_from(kind, pathlib.PurePath):
                texts |= {part for part in cast("pathlib.PurePath", value).parts if len(part) >= _TELLING}
            self._texts.update(text for text in texts if len(text) >= SHORTEST)
        else:
            return False
        return True

    def _learn_texts(self, found: set[str]) -> None:
        if len(found) > _MOST_TEXTS:
            raise encodings.TooLargeError
        self._texts.update(found)

    def _moments(self, value: Any, kind: type) -> set[str]:
        """Other usual spellings of a date: ISO, and as numbers since 1970."""
        try:
            moment = value if derives_from(kind, datetime.datetime) else datetime.datetime(*value.timetuple()[:3])
            since = moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()
            for scale in (1, 10**3, 10**6, 10**9):
                self._numbers.learn(str(int(since * scale)))
            self._numbers.learn_day(moment.year, moment.month, moment.day)
            if (moment.hour, moment.minute, moment.second, moment.microsecond) != (0, 0, 0, 0):
                return {value.isoformat()}
            # Without the names that the machine's own language has for months.
            year, month, day, called = (
                f"{moment.year:04}",
                f"{moment.month:02}",
                f"{moment.day:02}",
                _MONTHS[moment.month],
            )
            texts = {f"{day}.{month}.{year}", f"{day}/{month}/{year}", f"{month}/{day}/{year}", f"{year}/{month}/{day}"}
            texts |= {f"{moment.day} {name} {year}" for name in (called, called[:3])}
            texts |= {f"{name} {moment.day}, {year}" for name in (called, called[:3])}
            return {value.isoformat(), year + month + day, *texts}
        except (ValueError, OverflowError, TypeError):  # no date at all
            return set()

    def _learn_number(self, spelled: str) -> None:
        if not self._numbers.learn(spelled) and len(spelled) >= SHORTEST:
            self._texts.update([spelled])  # a complex one, or one that is too large to be compared

    def _items(self, value: object, kind: type, hide: bool, depth: int) -> Iterable[Part]:
        if derives_from(kind, dict) or kind is types.MappingProxyType:
            entries = cast("dict[object, object]", value)
            found = _entries_of(entries) if derives_from(kind, dict) else entries.items()
            return self._entries(list(islice(found, self._room(hide))), hide, depth)
        for base, items in _SEQUENCES:
            if derives_from(kind, base):
                names = exact_items(entry(class_dict(kind), "_fields")) if base is tuple else ()
                first = list(islice(items(value), self._room(hide)))
                spelled = encodings.characters(first) if hide else ""
                return [*self._sequence(first, hide, depth, names), *([(spelled, True, depth + 1)] if spelled else ())]
        if derives_from(kind, find_loaded("numpy", "void")):
            fields = cast("Any", value).dtype.names
            return self._sequence(list(cast("Any", value).item()), hide, depth, fields) if fields else ()
        if hide and (parts := _parts_in_c(value, kind)) is not None:
            return [(part, True, depth + 1) for part in parts]
        if kind is array.array and hide:
            first = list(islice(cast("array.array[Any]", value), self._room(hide)))
            content = cast("array.array[Any]", value).tobytes()
            return [(one, hide, depth + 1) for one in (*first, encodings.characters(first), *_texts_in(content))]
        return ()

    def _room(self, hide: bool) -> int:
        return self._remaining + 1 if hide else _MOST_OF_ONE

    def _entries(self, entries: list[tuple[object, object]], hide: bool, depth: int) -> Iterator[Part]:
        secret = hide or any(names_its_neighbours(key, held) for key, held in entries)
        for key, value in entries:
            if hide:
                yield key, True, depth + 1
            yield value, secret or is_secret_under(exact_str(key), value), depth + 1

    def _sequence(self, items: list[object], hide: bool, depth: int, names: tuple[object, ...] = ()) -> Iterator[Part]:
        """Items. `names`: of those of a named tuple."""
        pair = len(items) == 2 and previews.names_a_secret(exact_str(items[0]))
        for at, item in enumerate(items):
            secret = hide or (pair and at > 0) or (at < len(names) and labels_a_secret(names[at]))
            if secret or id(type(item)) not in _SEARCHED_NO_FURTHER:
                yield item, secret, depth + 1

    def _frame(self, value: Any, hide: bool, depth: int) -> Iterator[Part]:
        if hide:
            yield [value.columns, *_find_table_attributes(value)], True, depth + 1
        yield entry(instance_dict(value), "_attrs"), hide, depth + 1
        yield from self._index(value.index, hide, depth)
        names: list[object] = list(islice(value.columns, self._room(hide)))
        for at, name in enumerate(names):
            if hide or labels_a_secret(name):
                yield from self._cells(value.iloc[:, at].array, True, depth, words=hide)
        if not hide:
            for row in self._secret_rows(value, names):
                yield list(value.iloc[row]), True, depth + 1

    def _secret_rows(self, frame: Any, names: list[object]) -> set[int]:
        """Rows that are of a secret by their label, or by what stands in a column called `name` or the like."""
        found = set(_of_secrets(frame.index))
        for at, name in enumerate(names[:_MOST_OF_ONE]):
            if type(name) is str and name.casefold() in NAMING:
                found.update(_of_secrets(frame.iloc[:, at].array))
        return found

    def _series(self, value: Any, hide: bool, depth: int) -> Iterator[Part]:
        if hide:
            yield [value.name, *_find_table_attributes(value)], True, depth + 1
        yield entry(instance_dict(value), "_attrs"), hide, depth + 1
        yield from self._index(value.index, hide, depth)
        if hide or labels_a_secret(value.name):
            yield from self._cells(value.array, True, depth, words=hide)
        else:
            yield [value.array[row] for row in _of_secrets(value.index)], True, depth + 1

    def _index(self, index: Any, hide: bool, depth: int) -> Iterator[Part]:
        if hide:
            yield _levels(index), True, depth + 1
        for at, name in enumerate(index.names):
            if hide or labels_a_secret(name):
                yield name, hide, depth + 1
                yield from self._cells(index.get_level_values(at).array, True, depth, words=hide)

    def _columns_of(self, value: Any, hide: bool, depth: int) -> Iterator[Part]:
        names: list[object] = list(getattr(value, "column_names", None) or value.columns)
        if hide:
            yield value.schema, True, depth + 1
        for at, name in enumerate(islice(names, self._room(hide))):
            if hide:
                yield name, True, depth + 1
            if hide or labels_a_secret(name):
                column = value.column(at) if hasattr(value, "column") else value.to_series(at)
                if hide:
                    yield _about(column), True, depth + 1
                yield from self._cells(
                    _arrays_as_lists(column, self._remaining, all_of_it=hide), True, depth, words=hide
                )

    def _column(self, value: Any, hide: bool, depth: int) -> Iterator[Part]:
        if hide:
            yield [getattr(value, "name", None), *_about(value)], True, depth + 1
        if hide or labels_a_secret(getattr(value, "name", "")):
            yield from self._cells(_arrays_as_lists(value, self._remaining, all_of_it=hide), True, depth, words=hide)

    def _tensor(self, value: Any, hide: bool, depth: int) -> Iterable[Part]:
        if not hide:
            return ()
        import torch

        plain = value.detach().cpu()
        content = plain.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        numbers = (plain.double() if plain.is_floating_point() else plain).numpy()
        return [*((text, True, depth + 1) for text in _texts_in(content)), *self._array(numbers, hide, depth)]

    def _pixels(self, value: Any, depth: int) -> list[Part]:
        picture: Any = find_loaded("PIL.Image", "Image")
        try:
            content = picture.tobytes(value)
        except Exception:  # noqa: BLE001 - it is closed, or its file is gone
            self.has_closed = True
            return []
        return [(part, True, depth + 1) for part in _texts_in(content)]

    def _storage(self, value: Any, hide: bool, depth: int) -> Iterable[Part]:
        """The bytes below a tensor, where somebody holds these by themselves."""
        if not hide:
            return ()
        import torch

        return self._tensor(torch.empty(0, dtype=torch.uint8).set_(value), hide, depth)

    def _array(self, value: Any, hide: bool, depth: int) -> Iterator[Part]:
        numpy: Any = find_loaded("numpy", "ndarray")
        plain = numpy.view(value, numpy)
        if hide:
            yield plain.dtype, True, depth + 1
        for name in plain.dtype.names or ():
            if hide or previews.names_a_secret(name):
                yield from self._array(plain[name], True, depth)
        if plain.dtype.kind == "O":
            items: list[object] = list(islice(plain.reshape(-1), self._room(hide)))
            yield from self._sequence(items, hide, depth)
        elif hide and plain.dtype.kind in "iufSUTmMc":
            if plain.dtype.kind in "iuSU" and (spelled := _spell(plain)):
                yield spelled, True, depth + 1
            if plain.dtype.kind in "iufc":
                yield list(_texts_in(numpy.tobytes(plain))), True, depth + 1
            yield from self._cells(plain.reshape(-1), hide, depth)
        yield from _attributes(value, type(cast("object", value)), hide, depth)

    def _cells(self, cells: Any, hide: bool, depth: int, *, words: bool = True) -> Iterator[Part]:
        """The cells of a column. `words`: also short words, which a column called `token` may be full of."""
        kind = getattr(getattr(cells, "dtype", None), "kind", "")
        if kind in ("i", "u", "f") and hide and words:
            self._learn_numbers(cells)
            return
        if hide and (categories := getattr(getattr(cells, "dtype", None), "categories", None)) is not None:
            yield categories, True, depth + 1  # also of those that no cell has
        if words and len(cells) > _MOST_NUMBERS:
            raise encodings.TooLargeError
        for cell in _find_distinct(cells, self._remaining + 1) if words else _ends_of(cells, 2 * _MOST_OF_ONE):
            text = exact_str(cell)
            if words or not (text and text.isalpha() and len(text) < _TELLING):
                yield cell, hide, depth + 1

    def _learn_numbers(self, cells: Any) -> None:
        import numpy as np

        numbers = cells.to_numpy(dtype="float64", na_value=np.nan) if hasattr(cells, "to_numpy") else cells
        self._remaining_numbers -= numbers.size
        if self._remaining_numbers >= 0:
            self._numbers.learn_all(numbers)


# These lead from a value to all of the program.
_LEADING_AWAY: Final = frozenset(
    map(
        id,
        (type, types.ModuleType, types.FrameType, types.TracebackType, types.CodeType, types.FunctionType),
    )
)

# What Python itself puts into classes.
_OF_ALL_CLASSES: Final = frozenset(vars(type("C", (), {"__slots__": ("__dict__", "__weakref__")}))) | {
    *("__annotations__", "__annotate_func__", "__annotations_cache__", "__type_params__", "__static_attributes__"),
    *("__match_args__", "__abstractmethods__", "__dataclass_params__", "__parameters__", "__orig_bases__"),
}
_CALLED: Final = frozenset({"__module__", "__name__", "__qualname__"})  # what a function is called is no value
# These lead to the loggers of all libraries, some of which are called as a secret is: `google.auth`.
_OF_ALL_LOGGERS: Final = frozenset({"manager", "parent", "root"})
# What runs or waits, and where it keeps its variables.
_RUNNING: Final[dict[type, str]] = {
    types.GeneratorType: "gi_frame",
    types.CoroutineType: "cr_frame",
    types.AsyncGeneratorType: "ag_frame",
}
_HEAP: Final = 1 << 9  # of a class: it was made at run time
_STANDARD: Final = frozenset(name.lstrip("_") for name in sys.stdlib_module_names)
_BOOKKEEPING: Final = ("pybind11_builtins", "pandas._libs.internals")  # of functions, and of the memory of tables
# Modules that reach over the network and to databases.
NETWORK_MODULES: Final = (
    "socket ssl http urllib urllib2 urllib3 httpx requests aiohttp ftplib smtplib imaplib poplib telnetlib "
    "websockets websocket paramiko boto3 botocore s3fs gcsfs google.cloud azure xmlrpc socketserver webbrowser nntplib "
    "openai anthropic google.generativeai google.genai huggingface_hub selenium playwright kafka slack_sdk tweepy zmq "
    "wandb mlflow pandas_datareader wikipedia yfinance sentence_transformers"
)
DATABASE_MODULES: Final = "psycopg2 psycopg pymysql pymongo redis oracledb pyodbc asyncpg"
_TALKING: Final = frozenset(name.partition(".")[0] for name in f"{NETWORK_MODULES} {DATABASE_MODULES}".split())

_WITHOUT_ATTRIBUTES: Final = frozenset(map(id, (dict, list, tuple, set, frozenset)))
_SEARCHED_NO_FURTHER = _PLAIN | frozenset(map(id, (int, float, complex, str, bytes)))


def _without_value(state: dict[object, object], text: str) -> dict[object, object]:
    return {key: value for key, value in state.items() if type(value) is not str or value != text}


def _is_bytes(kind: type) -> bool:
    return derives_from(kind, bytes) or derives_from(kind, bytearray) or kind is memoryview


_SEARCH: Final = id(type(re.compile("").scanner("")))  # type: ignore[attr-defined]  # typeshed lacks it


def _is_halfway(kind: type) -> bool:
    """Whether it is a stream that is being compressed or decompressed: what it has taken in cannot be asked of it."""
    return module_name(kind) in ("zlib", "_bz2", "_lzma", "zstd", "_zstd")


def _runs(content: bytes) -> Iterator[bytes]:
    """The texts within bytes. The length of one may stand before it, and look like a character of it."""
    for found in _RUN.finditer(content):
        yield found[0]
        if found.start():
            yield from (cut for at in (1, 2) if len(cut := found[0][at:]) >= _TELLING)
    for wide in _WIDE_RUNS:
        yield from (found[0].replace(b"\0", b"") for found in wide.finditer(content))


def _texts_in(content: bytes) -> Iterator[bytes]:
    """The texts that numbers or pixels spell byte by byte: of many numbers only where their beginning looks like text."""
    few = content[:_FEW_BYTES]
    if len(content) <= _FEW_BYTES or 2 * sum(map(len, _RUN.findall(few))) >= len(few):
        yield from _runs(content)


def _spell(array: Any) -> str:
    """The text that an array of small numbers or of single characters spells: its first ones tell whether it may be one."""
    flat = array.reshape(-1)
    few = flat[:_TELLING].tolist()
    if not encodings.characters([one.decode("latin-1") if isinstance(one, bytes) else one for one in few]):
        return ""
    return encodings.characters([one.decode("latin-1") if isinstance(one, bytes) else one for one in flat.tolist()])


def _is_passed_over(kind: type) -> bool:
    if id(kind) in _PLAIN or derives_from(kind, type):
        return True
    module = module_name(kind)
    return module == "os" or (module.startswith("agent_kernel.") and not module.startswith(_OWN))


def _is_of_the_notebook(value: object, kind: type) -> bool:
    """Whether a cell made this function or class: what a library's own ones hold is no value of a variable.

    A function that a library made while it ran, for this one object, is as good as the cell's.
    """
    if kind is types.FunctionType:
        function = cast("types.FunctionType", value)
        return _is_written(function) or _is_made_at_run_time(function)
    return derives_from(kind, type) and module_name(cast("type", value)) == "__main__"


def _is_written(function: types.FunctionType) -> bool:
    """Whether a cell has the code of a function, or no module at all: code that a library wrote, as of a template."""
    module = cast("object", function.__module__)  # of what is made at run time it is None
    return module == "__main__" or (module is None and "__name__" not in function.__globals__)


def _is_made_at_run_time(function: types.FunctionType) -> bool:
    """Whether a function of a library holds variables, and is none that its module has under its name."""
    if not function.__closure__:
        return False
    names = function.__qualname__.split(".")
    module = sys.modules.get(function.__module__)
    current: object = module_dict(module).get(names[0]) if module is not None else None
    for name in names[1:]:
        current = class_dict(cast("type", current)).get(name) if derives_from(type(current), type) else None
    return current is None


def _find_texts(code: types.CodeType) -> list[object]:
    """The longer texts in the code of a function."""
    named = [code.co_name] if _may_be_value(code.co_name) and code.co_name[:1] != "<" else []
    inner = [text for one in code.co_consts if type(one) is types.CodeType for text in _find_texts(one)]
    return [one for one in code.co_consts if type(one) in (str, bytes) and len(one) >= _TELLING] + inner + named


def _is_compiled(kind: type) -> bool:
    """Whether objects of a class have state of compiled code, by the class itself or by one that it derives from."""
    in_c = (base for base in bases_of(kind) if not _has_dict_of_python(base))
    return any(base is not object and "__slots__" not in class_dict(base) for base in in_c)


def _has_dict_of_python(kind: type) -> bool:
    """Whether a class is one of Python, with a dict: its place is counted from the end, or the interpreter keeps it.

    Since Python 3.13 it keeps those of compiled classes too, which have compiled methods.
    """
    if not kind.__flags__ & _HEAP or kind.__dictoffset__ >= 0:
        return False
    return not any(type(held) is types.MethodDescriptorType for held in class_dict(kind).values())


def _could_hold(kind: type) -> bool:
    """Whether an object of this compiled class, of which nothing is known, may hold values of a person's.

    Python's own ones that may are read otherwise; a connection holds what a server has.
    """
    module = module_name(kind)
    if kind.__dictoffset__:
        return False  # one of Python, beside what it derives from
    if module == "builtins":
        return bool(kind.__flags__ & _HEAP)  # of a library that does not say its name
    root = module.partition(".")[0].lstrip("_")
    return not module.startswith(_BOOKKEEPING) and root not in _STANDARD and root not in _TALKING


def _flatten(parts: Iterable[object]) -> Iterator[object]:
    for part in parts:
        if type(part) is tuple:
            yield from _flatten(cast("tuple[object, ...]", part))
        elif part is not None:
            yield part


def _read_definition(value: object, kind: type, *, is_named: bool) -> list[object] | None:
    """What a function holds beside its code, and a class beside its methods' names. None: it is neither.

    Args:
        is_named: the variable itself is this function, so that what its code says is hidden too.
    """
    if kind is types.FunctionType:
        function = cast("types.FunctionType", value)
        texts = _find_texts(function.__code__) if is_named or _is_written(function) else []
        texts = texts if is_named else [one for one in texts if one is not function.__doc__]
        texts += [*_find_own_texts(function), *instance_dict(function).values()]
        return [*texts, *(function.__closure__ or ()), function.__defaults__, *(function.__kwdefaults__ or {}).values()]
    if derives_from(kind, type):
        members = list(class_dict(cast("type", value)).items())
        above = [
            one
            for one in (kind, *bases_of(cast("type", value)))
            if id(one) != id(value) and _is_of_the_notebook(one, type(one))
        ]
        values = [held for name, held in members if name not in _OF_ALL_CLASSES]
        names = [type.__getattribute__(cast("type", value), name) for name in ("__name__", "__qualname__")]
        return [*above, *values, class_dict(cast("type", value)).get("__doc__"), *filter(_may_be_value, names)]
    return None


def _find_own_texts(function: types.FunctionType) -> Iterator[object]:
    """What somebody gave a function as its name, its text or an annotation, that its code does not have."""
    code = function.__code__
    yield from (name for name in (function.__name__, function.__qualname__, code.co_name) if _may_be_value(name))
    if function.__doc__ not in code.co_consts:
        yield function.__doc__
    yield from (one for one in function.__annotations__.values() if type(one) is str and not _TYPE.fullmatch(one))


def _may_be_value(name: object) -> bool:
    """Whether what something is called may be a value: names in code have letters alone, or few digits."""
    text = exact_str(name)
    if len(text) < _TELLING:
        return False
    parts = [part for part in text.split(".") if part not in ("<locals>", "<lambda>", "<module>")]
    return not all(map(str.isidentifier, parts)) or any(sum(map(str.isdigit, part)) >= SHORTEST for part in parts)


def _read_interpreter_state(value: Any, kind: type) -> list[object] | None:
    """What lies in the state of Python itself: of what runs, of modules of the person's own, of contexts. None: it is no such thing."""
    if derives_from(kind, types.ModuleType):
        entries: dict[str, object] = module_dict(value)
        name = exact_str(entries.get("__name__"))
        is_own = not ((sys.modules.get(name) is value and is_library(name)) or name.partition(".")[0] == "agent_kernel")
        own = [held for name, held in list(entries.items()) if not name.startswith("__")]
        return [*own, entries.get("__doc__"), *filter(_may_be_value, [name])] if is_own else []
    if kind in _RUNNING:
        frame = getattr(value, _RUNNING[kind])
        return [
            *filter(_may_be_value, (value.__name__, value.__qualname__)),
            *(frame.f_locals.values() if frame else ()),
        ]
    if kind is types.TracebackType:
        return [value.tb_frame, value.tb_next]
    if kind is types.FrameType:
        is_notebooks = value.f_globals.get("__name__") == "__main__" and value.f_locals is not value.f_globals
        return list(value.f_locals.values()) if is_notebooks else []
    if derives_from(kind, BaseException):
        own = [value.__cause__, value.__context__, value.__traceback__]
        held = [part for part, _, _ in _attributes(value, kind, True, 0)]
        return [BaseException.__dict__["args"].__get__(value), *held, *own]
    if kind is types.BuiltinFunctionType:
        return [] if type(value.__self__) is types.ModuleType else [value.__self__]
    if derives_from(kind, weakref.ref):
        return [cast("Any", weakref.ref).__call__(value)]
    if kind is contextvars.ContextVar:
        try:
            return [value.name, value.get()]
        except LookupError:
            return [value.name]
    if kind is contextvars.Context:
        return list(value.values())
    if kind is range:
        return _numbers_in(value)
    if kind is types.CodeType:
        return _find_texts(value)
    return None


def _numbers_in(value: range) -> list[object]:
    """The numbers of a range, in an array where there are many."""
    ends: list[object] = [value.start, value.step]  # not its stop, which a range leaves out
    if abs(value.stop - value.start) // abs(value.step) <= _MOST_OF_ONE:
        return [*ends, *value]
    if abs(value.stop - value.start) // abs(value.step) > _MOST_NUMBERS:
        raise encodings.TooLargeError
    import numpy as np

    try:
        return [*ends, np.arange(value.start, value.stop, value.step, dtype=np.int64)]
    except OverflowError as error:
        raise encodings.TooLargeError from error


def _parts_in_c(value: Any, kind: type) -> list[object] | None:
    """What an object of certain kinds holds in C, outside its dict and slots. Returns None for other kinds."""
    for buffer in (io.StringIO, io.BytesIO):
        if derives_from(kind, buffer):
            try:
                return [cast("Any", buffer).getvalue(value)]
            except ValueError:  # it is closed
                return []
    if kind is re.Pattern:
        return [value.pattern, *value.groupindex]
    if module_name(kind) == "pyarrow.lib" and derives_from(kind, find_loaded("pyarrow", "Array")):
        return [*value.to_pylist(), *_about(value)]
    if module_name(kind) == "pyarrow.lib" and derives_from(kind, find_loaded("pyarrow", "Scalar")):
        return [value.as_py()]
    return None


def _referents(value: object) -> list[object]:
    """What an object of compiled code refers to, as the garbage collector is told: iterators, views, cells, elements."""
    own, found = instance_dict(value), cast("list[object]", gc.get_referents(value))
    away = (
        held
        for held in found
        if held is not own and (id(type(held)) not in _LEADING_AWAY or _is_of_the_notebook(held, type(held)))
    )
    return [held for held in away if not derives_from(type(held), type)]


def _levels(index: Any) -> list[object]:
    """The levels of an index, which keep what no row has any more."""
    return list(getattr(index, "levels", ()))


_OF_TABLES: Final = frozenset({"_mgr", "_item_cache", "_attrs", "_flags", "_name", "_cacher"})


def _find_table_attributes(table: object) -> list[object]:
    """What somebody has put beside the cells of a table of pandas."""
    return [held for name, held in instance_dict(table).items() if name not in _OF_TABLES]


def _about(column: Any) -> list[object]:
    """What the type and the blocks of a column of polars' or pyarrow's hold beside its cells."""
    if not hasattr(column, "type"):
        return [*_categories(column), column.dtype]
    chunks: list[Any] = column.chunks if hasattr(column, "chunks") else [column]
    return [column.type, *(one.dictionary for one in chunks if hasattr(one, "dictionary"))]


def _categories(column: Any) -> list[object]:
    """The texts that a column of polars' was made with; of a new version its cells are all that there is."""
    if not derives_from(type(cast("object", column.dtype)), find_loaded("polars", "Categorical")):
        return []
    try:
        return list(column.cat.get_categories())
    except AttributeError:
        return []


def _of_type(value: Any) -> list[object] | None:
    """What a type or schema of pyarrow's, or a type of numpy's, holds as names and remarks. None: it is no such thing."""
    kind = type(cast("object", value))
    if derives_from(kind, find_loaded("polars", "Categorical")):
        return []  # it leads to the texts of all such columns that there are
    arrow, numpy_type = sys.modules.get("pyarrow"), find_loaded("numpy", "dtype")
    if derives_from(kind, numpy_type):
        fields: Any = value.fields or {}
        return [value.metadata, *fields, *(part for field in fields.values() for part in (field[0], *field[2:]))]
    if arrow is None or module_name(kind) != "pyarrow.lib":
        return None
    if derives_from(kind, arrow.Schema):
        return [value.metadata, *value]
    if derives_from(kind, arrow.Field):
        return [value.name, value.metadata, value.type]
    if derives_from(kind, arrow.DataType):
        inner = [value.field(at) for at in range(value.num_fields)] if value.num_fields else []
        return [*inner, *(getattr(value, name, None) for name in ("value_type", "tz", "extension_name"))]
    return None


def _find_distinct(cells: Any, most: int) -> Iterator[object]:
    """Cells of a column, each text once: one more than there is room for, where there are as many."""
    met: set[str] = set()
    many = 0
    for held in cells:
        if type(held) is str:
            if held in met:
                continue
            met.add(held)
        yield held
        many += 1
        if many > most:
            return


def _of_secrets(labels: Any) -> list[int]:
    """Where among labels, or among cells that name what stands beside them, a secret's stands: near either end."""
    if getattr(labels.dtype, "kind", "") not in ("O", ""):
        return []  # numbers and times
    many, half = len(labels), _MOST_OF_ONE
    cut = [(0, many)] if many <= 2 * half else [(0, half), (many - half, many)]
    # By numpy: one by one, texts of arrow take ten times as long.
    found = [one for start, end in cut for one in labels[start:end].to_numpy().tolist()]
    # Most tables have none, which is told sooner by looking at all at once.
    if not speaks_of_secrets("\n".join(one for one in found if type(one) is str)) and tuple not in map(type, found):
        return []
    rows = (row for start, end in cut for row in range(start, end))
    return [row for row, label in zip(rows, found, strict=True) if labels_a_secret(label)]


def _ends_of(cells: Any, most: int) -> Iterator[object]:
    """The first cells and the last ones."""
    for part in (cells,) if len(cells) <= most else (cells[: most - most // 2], cells[len(cells) - most // 2 :]):
        yield from part


def _arrays_as_lists(column: Any, most: int, *, all_of_it: bool) -> list[object]:
    """The cells of a column of polars' or pyarrow's, each once where there are more than there is room for."""
    if all_of_it and len(column) > most:
        try:
            column = column.unique()
        except Exception as error:  # a library's own: cells of this type are not compared
            raise encodings.TooLargeError from error
    first = column.slice(0, most + 1)
    cells: list[object] = first.to_pylist() if hasattr(first, "to_pylist") else first.to_list()
    return cells


def _number(value: object, kind: type) -> str | None:
    """A number as Python writes it."""
    if kind is int or kind is float or kind is complex:
        return repr(value)
    if derives_from(kind, find_loaded("numpy", "generic")):
        plain: object = cast("Any", value).item()
        if type(plain) is tuple:
            return None
        return _number(plain, type(plain)) if type(plain) in (int, float, complex) else str(plain)
    for base in (int, float, complex):
        if derives_from(kind, base):
            return base.__repr__(cast("Any", value))
    return None


def _spell_number(value: object, kind: type) -> str | None:
    try:
        return _number(value, kind)
    except ValueError as error:  # of more digits than Python writes
        raise encodings.TooLargeError from error


def _attributes(value: object, kind: type, hide: bool, depth: int) -> Iterator[Part]:
    """What an object has as attributes and in slots."""
    if id(kind) in _WITHOUT_ATTRIBUTES:
        return
    left_out = _OF_ALL_LOGGERS if derives_from(kind, find_loaded("logging", "Logger")) else _CALLED
    own = instance_dict(value)
    if hide and not own and _hides_its_dict(kind):
        referents: list[object] = gc.get_referents(value)
        yield [held for held in referents if not derives_from(type(held), type)], True, depth + 1
    for name, held in islice(list(own.items()), None if hide else _MOST_OF_ONE):
        if name in left_out and not (hide and name in _CALLED and _may_be_value(held)):
            continue
        if hide and not name.isidentifier():
            yield name, True, depth + 1
        if hide and type(held) is str and held in _find_words(kind):
            continue
        yield held, hide or is_secret_under(exact_str(name), held), depth + 1
    for base in bases_of(kind):
        if hide and _is_of_the_notebook(base, type(base)):
            yield base, True, depth + 1
        for name, slot in list(class_dict(base).items()):
            if type(slot) is types.MemberDescriptorType:
                try:
                    held = slot.__get__(value)
                except AttributeError:
                    continue
                yield held, hide or is_secret_under(name, held), depth + 1


_words_of: dict[int, tuple[weakref.ref[type], frozenset[str]]] = {}  # by identity: a metaclass may compare as it likes


def _find_words(kind: type) -> frozenset[str]:
    """The short words in the code of a library's class: `auto`, `solid`. An attribute that is one of them tells nothing.

    Only what code was compiled with: what a class holds in attributes, or in a list, somebody may have put there.
    """
    known, words = _words_of.get(id(kind), (None, frozenset[str]()))
    if known is None or known() is not kind:
        values = [
            one for base in bases_of(kind) if is_library(module_name(base)) for one in list(class_dict(base).values())
        ]
        words = frozenset(word for one in values if type(one) not in (str, tuple, frozenset) for word in _words_in(one))
        _words_of[id(kind)] = weakref.ref(kind), words
    return words


def _words_in(value: object) -> Iterator[str]:
    """The short words that a method's code says: a default, a choice, a constant."""
    kind = type(value)
    if kind is str:
        yield from [cast("str", value)] if len(cast("str", value)) <= _LONG_BEGINNING else []
    elif kind is property:
        yield from _words_in(cast("property", value).fset)
    elif kind is staticmethod or kind is classmethod:
        yield from _words_in(cast("Any", value).__func__)
    elif kind is types.FunctionType and not _is_written(function := cast("types.FunctionType", value)):
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for one in (*defaults, *function.__code__.co_consts, instance_dict(function).get("__wrapped__")):
            yield from _words_in(one)
    elif kind is tuple or kind is frozenset:
        for one in cast("Iterable[object]", value):
            yield from _words_in(one)


def _hides_its_dict(kind: type) -> bool:
    """Whether something else of a class stands where the interpreter's own way to the attributes would be."""
    return any(
        flags_of(base) & _HEAP and not is_dict_slot(found)
        for base in bases_of(kind)
        if (found := entry(class_dict(base), "__dict__")) is not None
    )


def is_in_memory(value: Any) -> bool:
    """Whether it is a connection to a database in memory alone, or a cursor of one."""
    kind = type(cast("object", value))
    sqlite, duck = sys.modules.get("sqlite3"), sys.modules.get("duckdb")
    try:
        if sqlite is not None and kind is sqlite.Cursor:
            value, kind = value.connection, sqlite.Connection
        if sqlite is not None and kind is sqlite.Connection:
            from agent_kernel.values.reducers.databases import files_of, has_listener

            return not has_listener(value) and not any(files_of(value))
        if duck is not None and kind is duck.DuckDBPyConnection:
            paths = value.cursor().execute("select path from duckdb_databases() where not internal").fetchall()
            return not any(path for (path,) in paths)
    except Exception:  # noqa: BLE001 - it is closed, or of another thread
        return False
    return False
