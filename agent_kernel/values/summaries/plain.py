"""Summaries of numbers, texts, dates and the built-in containers.

A container is shown by its length, its first few items and, for a dict, its first keys; never by a walk over all of
it. Iterating goes through the base type's own iterator, which neither hashes nor compares what it finds
(OrderedDict's would hash its keys, so every dict is read as a plain one).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, cast

from agent_kernel.values.summaries.cells import CELL, cell
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.masking import labels_a_secret, names_a_secret, names_its_neighbours
from agent_kernel.values.summaries.model import LONGEST_TEXT, Column, Summary
from agent_kernel.values.summaries.reading import type_name
from agent_kernel.values.summaries.wording import MASK, MORE, cut

_FEW = 3  # items of a preview
_SAMPLED = 16  # items whose type is looked at
_KEYS = 40  # keys of a dict that are kept
_DEPTH = 2


class _Brackets(NamedTuple):
    opening: str
    closing: str
    is_mapping: bool = False


_BRACKETS: ExactTypes[_Brackets] = ExactTypes(
    [
        (list, _Brackets("[", "]")),
        (tuple, _Brackets("(", ")")),
        (set, _Brackets("{", "}")),
        (frozenset, _Brackets("frozenset({", "})")),
        (deque, _Brackets("deque([", "])")),
        (dict, _Brackets("{", "}", is_mapping=True)),
        (OrderedDict, _Brackets("OrderedDict({", "})", is_mapping=True)),
        (defaultdict, _Brackets("defaultdict({", "})", is_mapping=True)),
        (Counter, _Brackets("Counter({", "})", is_mapping=True)),
    ]
)
_entries_of = dict[object, object].items
_SLICED: ExactTypes[bool] = ExactTypes([(list, True), (tuple, True)])


def scalar(value: object, hide: bool) -> Summary:
    """A value that fits into a cell."""
    if hide and value is not None and type(value) is not bool:
        return Summary("scalar", type_name(value), MASK, masked=True)
    shown = cell(value, LONGEST_TEXT)
    return Summary("scalar", type_name(value), shown, masked=shown == MASK)


def text(value: str | bytes | bytearray, hide: bool) -> Summary:
    """A text or bytes; its length stands beside it only where the text is cut, and never beside a masked one."""
    shown = MASK if hide else cell(value, LONGEST_TEXT)
    length = (len(value),) if shown.endswith(MORE) else ()
    return Summary("text", type_name(value), shown, length, masked=shown == MASK)


def view(value: memoryview, hide: bool) -> Summary:
    """A memoryview by its shape and format; what it looks at belongs to another value."""
    shape = () if value.shape is None else value.shape
    return Summary("array", "memoryview", "", shape, value.format, value.nbytes, masked=hide)


def sequence(value: Collection[object], hide: bool) -> Summary:
    """A list, tuple, set or deque of any length."""
    preview = MASK if hide else preview_of(value, LONGEST_TEXT)
    return Summary("container", type_name(value), preview, (len(value),), _common_type(value), masked=MASK in preview)


def mapping(value: dict[object, object], hide: bool) -> Summary:
    """A dict by its first keys, each with its value in short."""
    entries = _first_entries(value, _KEYS)
    hide = hide or any(names_its_neighbours(key, held) for key, held in entries)
    shown = tuple(
        Column(_key(key), MASK if hide or labels_a_secret(key) else preview_of(held, CELL, depth=1))
        for key, held in entries
    )
    masked = any(MASK in column.of or MASK in column.name for column in shown)
    return Summary("mapping", type_name(value), "", (len(value),), columns=shown, masked=masked)


def preview_of(value: object, room: int, depth: int = _DEPTH) -> str:
    """A cell for a plain value, the first items of a container, the type's name of all else."""
    brackets = _BRACKETS.of(value)
    if brackets is None:
        return cell(value, room)
    if depth == 0:
        inner = MORE
    elif brackets.is_mapping:
        inner = ", ".join(_entries(cast("dict[object, object]", value), depth - 1))
    else:
        items = cast("Collection[object]", value)
        inner = ", ".join(_items(items, depth - 1)) + ("," if brackets.opening == "(" and len(items) == 1 else "")
    return cut(f"{brackets.opening}{inner}{brackets.closing}", room)


def _entries(value: dict[object, object], depth: int) -> Iterator[str]:
    first = _first_entries(value, _FEW)
    hide = any(names_its_neighbours(key, held) for key, held in first)
    for key, held in first:
        yield f"{_key(key)}: {MASK if hide or labels_a_secret(key) else preview_of(held, CELL, depth)}"
    if len(value) > _FEW:
        yield MORE


def _first_entries(value: dict[object, object], count: int) -> list[tuple[object, object]]:
    return list(islice(_entries_of(value), count))


def _items(value: Collection[object], depth: int) -> Iterator[str]:
    first: list[object] = list(islice(value, _FEW))
    # The first item of a pair may say what the second one is: ("password", "hunter2").
    hide = len(value) == 2 and type(first[0]) is str and names_a_secret(first[0])
    for place, held in enumerate(first):
        yield MASK if hide and place else preview_of(held, CELL, depth)
    if len(value) > _FEW:
        yield MORE


def _key(key: object) -> str:
    return preview_of(key, CELL, depth=1)


def _common_type(value: Collection[object]) -> str:
    sampled = list(islice(value, _SAMPLED))
    if _SLICED.of(value):
        items = cast("Sequence[object]", value)
        sampled += items[len(items) // 2 :: max(1, len(items) // _SAMPLED)]  # and to the end in even steps
    if not sampled or any(type(held) is not type(sampled[0]) for held in sampled):
        return ""
    return type_name(sampled[0])
