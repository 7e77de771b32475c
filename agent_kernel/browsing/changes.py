"""What a commit did to each variable: old and new in a line each, and dicts and objects side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from agent_kernel.browsing.listing import sign_of
from agent_kernel.browsing.memory import Numbers, elements_of, is_hidden
from agent_kernel.browsing.text_diff import DiffLine
from agent_kernel.browsing.wording import Sign, cleaned, text_of
from agent_kernel.errors import StoreError
from agent_kernel.repository import Entry
from agent_kernel.session.history import size_of
from agent_kernel.values import summaries
from agent_kernel.values.streams import Call
from agent_kernel.values.summaries import Summary
from agent_kernel.values.summaries.model import MORE, counted, shape_text
from agent_kernel.verbs import describe
from agent_kernel.verbs.comparing import Differing, details_of
from agent_kernel.verbs.contents import ARRAY, Stored, integers, items_of, same, stored
from agent_kernel.verbs.describe import most_interesting_first

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = [
    "ArrayDiff",
    "ArrayRow",
    "Cell",
    "Change",
    "Column",
    "Mark",
    "Pair",
    "PairsDiff",
    "PicturesDiff",
    "TableDiff",
    "TableRow",
    "TextDiff",
    "ValueDiff",
    "attribute_rows",
    "changes_of",
    "has_attributes",
    "key_rows",
    "summary_of",
]


# -- what two versions of a variable look like side by side; dicts by their keys, objects by their attributes

Mark: TypeAlias = "Sign | str"  # "" where nothing changed


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its name, its dtype, and what became of it."""

    name: str
    of: str
    how: Mark


class Cell(msgspec.Struct, frozen=True):
    """One value on both sides; None: it is not there, or cannot be read."""

    old: str | None
    new: str | None
    how: Mark


class TableRow(msgspec.Struct, frozen=True):
    """A row with its label."""

    label: str
    how: Mark
    cells: tuple[Cell, ...]


class TableDiff(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """A table."""

    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]


class ArrayRow(msgspec.Struct, frozen=True):
    """One version of an array: how its values are spread, and what they come to."""

    label: str
    spread: tuple[float, ...]
    stats: tuple[tuple[str, str, bool], ...]


class ArrayDiff(msgspec.Struct, frozen=True, tag="array", tag_field="kind"):
    """An array of numbers."""

    rows: tuple[ArrayRow, ...]


class TextDiff(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A text, line by line."""

    lines: tuple[DiffLine, ...]


class Pair(msgspec.Struct, frozen=True):
    """A key, or an attribute, on both sides; None: it is not there."""

    label: str
    old: str | None
    new: str | None
    changed: bool


class PairsDiff(msgspec.Struct, frozen=True, tag="pairs", tag_field="kind"):
    """A dict by its keys, or an object by its attributes."""

    columns: tuple[str, str]
    rows: tuple[Pair, ...]


class PicturesDiff(msgspec.Struct, frozen=True, tag="pictures", tag_field="kind"):
    """What cells showed of a figure, as data: URIs."""

    before: str | None
    after: str | None


ValueDiff: TypeAlias = TableDiff | ArrayDiff | TextDiff | PairsDiff | PicturesDiff


# -- dicts by their keys and objects by their attributes, side by side

_MOST_ITEMS = 100
_MOST_LOOKED_AT = 1_000  # of which those that changed are told first
_FEW_ITEMS = 6  # numbers of a small array
_LONGEST = 80


def key_rows(before: Summary | None, after: Summary | None, old: Stored | None, new: Stored | None) -> tuple[Pair, ...]:
    """The first keys of a dict. Two values that read the same in short are compared as they are stored."""
    was, now = _noted(before), _noted(after)
    kept = _kept(old, was), _kept(new, now)
    rows: list[Pair] = []
    for key in islice(dict.fromkeys([*now, *was]), _MOST_ITEMS):
        differ = was.get(key) != now.get(key)
        if not differ and old is not None and new is not None and key in kept[0] and key in kept[1]:
            differ = not same(old, new, kept[0][key], kept[1][key])
        rows.append(Pair(cleaned(key), was.get(key), now.get(key), differ and before is not None and after is not None))
    return tuple(rows)


def _noted(summary: Summary | None) -> dict[str, str]:
    if summary is None:
        return {}
    return {column.name: cleaned(column.of, _LONGEST) for column in summary.columns}


def _kept(stored: Stored | None, noted: Mapping[str, str]) -> dict[str, object]:
    """The stored value of each key: a dict is described as its keys and values by turns, in order."""
    found = items_of(stored.value) if stored is not None else ()
    return dict(zip(noted, found[1::2], strict=False)) if len(found) % 2 == 0 else {}


def attribute_rows(old: Stored | None, new: Stored | None) -> tuple[Pair, ...]:
    """The attributes of an object that is stored as its class and its attributes, those that changed first; none where it is not."""
    was, now = _attributes(old), _attributes(new)
    rows: list[Pair] = []
    for name in islice(dict.fromkeys([*now, *was]), _MOST_LOOKED_AT):
        texts = [
            None if stored is None or name not in side else _said(stored, name, side[name])
            for stored, side in ((old, was), (new, now))
        ]
        both = old is not None and new is not None
        differ = both and (
            name not in was
            or name not in now
            or (old is not None and new is not None and not same(old, new, was[name], now[name]))
        )
        rows.append(Pair(cleaned(name), texts[0], texts[1], differ))
    return tuple(sorted(rows, key=lambda row: not row.changed)[:_MOST_ITEMS])


def has_attributes(stored: Stored | None) -> bool:
    """Whether there are attributes to show."""
    return bool(_attributes(stored))


def _attributes(stored: Stored | None) -> dict[str, object]:
    value = stored.value if stored is not None else None
    state = items_of(value.state[0]) if isinstance(value, Call) and len(value.state) == 1 else ()
    names = state[::2]
    if len(state) % 2 or not all(isinstance(name, str) for name in names):
        return {}
    return {str(name): held for name, held in zip(names, state[1::2], strict=True) if not str(name).startswith("__")}


def _said(stored: Stored, name: str, held: object) -> str:
    """An attribute in short."""
    if summaries.names_a_secret(name):
        return summaries.MASK
    if held is None or isinstance(held, (bool, int, float)):
        return "None" if held is None else text_of(held)
    if isinstance(held, str):
        return cleaned(f"'{text_of(held)}'", _LONGEST)
    if isinstance(held, Call):
        return cleaned(_of_call(stored, held), _LONGEST)
    return f"({MORE})" if isinstance(held, tuple) else MORE


def _of_call(stored: Stored, held: Call) -> str:
    if held.name == ARRAY:
        shape = integers(held.args[2])
        numbers = elements_of(stored, held) if len(shape) == 1 else None
        if isinstance(numbers, Numbers) and 0 < numbers.count <= _FEW_ITEMS:
            return f"[{', '.join(text_of(numbers.at(place)) for place in range(numbers.count))}]"
        return f"array {shape_text(shape)}"
    if held.name.endswith(".scalar"):
        return text_of(_scalar(held))
    if held.name.startswith(_OURS):  # how it is stored says nothing to a reader
        return _of_array(held) or MORE
    count = len(items_of(held.args[0])) if held.args else 0
    kind = held.name.rpartition(".")[2].lstrip("_")
    return f"{kind}, {counted(count, 'item')}" if kind in ("list", "set", "dict") else kind


_OURS = "agent_kernel.values.restore."
# The arrays that are stored in other ways than as bytes, and at which argument their shape stands.
_SHAPED = {"object_array_bare": 0, "object_column": 2, "object_view": 2, "view": 2}


def _of_array(held: Call) -> str:
    """An array of objects in short: its texts and numbers where they are few. "" of anything else."""
    name = held.name.rpartition(".")[2]
    at = _SHAPED.get(name)
    if at is None or len(held.args) <= at or not isinstance(held.args[at], tuple):
        return ""
    shape = integers(held.args[at])
    state = held.state[0] if name == "object_array_bare" and held.state else None
    items = items_of(cast("tuple[object, ...]", state)[0]) if isinstance(state, tuple) and state else ()
    if len(shape) == 1 and 0 < len(items) <= _FEW_ITEMS and all(isinstance(item, str | int | float) for item in items):
        said = (f"'{text_of(item)}'" if isinstance(item, str) else text_of(item) for item in items)
        return f"[{', '.join(said)}]"
    return f"array {shape_text(shape)}"


def _scalar(held: Call) -> object:
    """A number of numpy's own types: its bytes stand in the stream."""
    import struct

    dtype = held.args[0] if held.args else None
    said = str(dtype.args[0]) if isinstance(dtype, Call) and dtype.args else ""
    content = held.args[1] if len(held.args) > 1 else None
    code = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i", "b1": "<?"}.get(said)
    if code is None or not isinstance(content, bytes) or struct.calcsize(code) != len(content):
        return ...
    found: tuple[object, ...] = struct.unpack(code, content)
    return found[0]


_MOST_READ = 8_000_000  # bytes of both versions that are compared for a line; more only when the variable is opened
_MOST_TAKEN_APART = 200_000  # bytes of an object whose attributes are looked for
_OPENING = frozenset({"array", "frame", "mapping", "series", "tensor", "text"})
_LINE = 160
_FEW = 3  # keys of a dict
_MOST = 500  # variables


class Change(msgspec.Struct, frozen=True):
    """One variable. `old` is empty where both sides read the same, and `new` then says what is different."""

    name: str
    how: Sign
    type: str
    old: str
    new: str
    old_size: int | None
    new_size: int | None
    opens: bool


def changes_of(repo: Repository, found: Sequence[Differing]) -> tuple[tuple[Change, ...], int]:
    """One line for each variable that differs, the most interesting first, then what was removed; and how many there are beyond.

    Of very many the largest are told.
    """
    told = most_interesting_first(repo, found, _MOST)
    return tuple(_change(repo, one) for one in told), len(found) - len(told)


def _change(repo: Repository, one: Differing) -> Change:
    before, after = summary_of(repo, one.old), summary_of(repo, one.new)
    missing = _missing(repo, one.name, one.old), _missing(repo, one.name, one.new)
    old, new = _content(one.old, before, missing[0]), _content(one.new, after, missing[1])
    is_placeholder = [each is not None and each.is_whole for each in missing]
    if one.how == "~" and all(is_placeholder):
        old = "" if old == new else old  # how the placeholders differ says nothing of the values
    elif one.how == "~" and old == new:
        old, new = "", ", ".join(part for part in (new, _what_differs(repo, one)) if part)
    elif one.how == "~" and MORE in old + new and (elements := _elements_that_differ(repo, one, before, after)):
        old, new = "", elements  # cut, both would read the same
    known = after or before
    return Change(
        name=cleaned(one.name),
        how="=" if one.how == "=" else sign_of(one.how),
        type=summaries.noun(known) if known is not None else "",
        old=cleaned(old, _LINE),
        new=cleaned(new, _LINE),
        old_size=None if one.old is None or is_placeholder[0] else size_of(repo, one.old),
        new_size=None if one.new is None or is_placeholder[1] else size_of(repo, one.new),
        opens=one.how != "=" and not any(is_placeholder) and known is not None and _opens(repo, one, before, after),
    )


def summary_of(repo: Repository, entry: Entry | None) -> summaries.Summary | None:
    """What was noted about a value; None where nothing was, or where that is damaged: the rest can still be shown."""
    try:
        return None if entry is None else describe.summary_of(repo, entry)
    except StoreError:
        return None


def _missing(repo: Repository, name: str, entry: Entry | None) -> describe.NotSaved | None:
    try:
        return describe.not_saved(repo, name, entry)
    except StoreError:
        return None


def _content(entry: Entry | None, summary: summaries.Summary | None, missing: describe.NotSaved | None) -> str:
    if entry is None:
        return ""
    if missing is not None and missing.is_whole:
        return missing.said
    said = "not described" if summary is None else summaries.content(summary)
    return said if missing is None else f"{said} ({missing.said})".strip()


def _what_differs(repo: Repository, one: Differing) -> str:
    if one.old is None or one.new is None:
        return ""
    if not one.old.is_same_value(one.new) and size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return "contents differ"
    try:
        details = details_of(repo, one.old, one.new)
    except StoreError:  # damaged: what is known is that it is stored otherwise
        return "contents differ"
    if len(details) > 1 and all(line.startswith("~ ") and "." in line for line in details):
        return _first_of(details)  # what changed in the widgets that a widget holds
    return details[0].removeprefix("~ ") if len(details) == 1 and "may differ" not in details[0] else "contents differ"


def _first_of(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _FEW} more" if len(lines) > _FEW else ""
    return ", ".join(line.removeprefix("~ ") for line in lines[:_FEW]) + more


def _elements_that_differ(
    repo: Repository, one: Differing, before: summaries.Summary | None, after: summaries.Summary | None
) -> str:
    """Of dicts the first keys that differ, as `'alpha': 0.95 → 0.5`; nothing where that is not known."""
    if one.old is None or one.new is None or summaries.names_a_secret(one.name):
        return ""
    if any(side is None or side.kind != "mapping" or is_hidden(side) for side in (before, after)):
        return ""
    if size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return ""
    try:
        found = [line for line in details_of(repo, one.old, one.new) if line[:2] in ("~ ", "+ ", "- ")]
    except StoreError:  # damaged: what was noted of both is shown
        return ""
    return _first_of(found)


def _opens(repo: Repository, one: Differing, before: summaries.Summary | None, after: summaries.Summary | None) -> bool:
    """Whether there is more to see of it than the line says."""
    kinds = {side.kind for side in (before, after) if side is not None}
    if any(summaries.is_picture(side) for side in (before, after) if side is not None):
        return True
    if summaries.names_a_secret(one.name) or any(is_hidden(side) for side in (before, after) if side is not None):
        return False
    if kinds == {"object"} and any(side.columns for side in (before, after) if side is not None):
        return True
    if kinds == {"object"} and one.how == "~" and one.new is not None:
        return size_of(repo, one.new) <= _MOST_TAKEN_APART and _has_attributes(repo, one.new)
    if not kinds & _OPENING:
        return False
    if kinds == {"text"}:
        return one.how == "~"
    return True


def _has_attributes(repo: Repository, entry: Entry) -> bool:
    try:
        return has_attributes(stored(repo, entry))
    except (StoreError, RecursionError):
        return False
