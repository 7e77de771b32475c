"""What the summaries of pandas, polars and arrow tables have in common: columns, a few rows, and what is masked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from agent_kernel.values.summaries.arrays import number_text, values_text
from agent_kernel.values.summaries.cells import Verbatim, cell
from agent_kernel.values.summaries.lines import is_whole
from agent_kernel.values.summaries.masking import labels_a_secret, names_a_secret, names_its_neighbours
from agent_kernel.values.summaries.model import Column, Summary
from agent_kernel.values.summaries.wording import MASK, MORE, count_text, cut

MOST_COLUMNS: Final = 40
ROWS: Final = 3
CELLS: Final = 12  # columns whose first values are kept
MOST_COUNTED: Final = 500_000  # Booleans of one table that are counted: microseconds
BIGGEST_HEAD: Final = 65_536  # bytes of the first rows of a column that are converted
_DTYPE_ROOM = 40


class Field(NamedTuple):
    """A column: its name, its dtype, its first values (none where they may not be read), and how often each Boolean occurs."""

    name: str
    of: str
    first: Sequence[object] = ()
    counts: str = ""


def table(
    type_: str,
    shape: tuple[int, int],
    fields: Sequence[Field],
    *,
    hide: bool,
    size_bytes: int = 0,
    note: str = "",
    labels: Sequence[object] = (),
) -> Summary:
    """The summary of a table whose first columns are `fields`, and whose first rows go by `labels`."""
    secret = [hide or names_a_secret(field.name) for field in fields[:CELLS]]
    named = [*map(labels_a_secret, labels[:ROWS]), *(False,) * ROWS]
    rows = tuple(
        _row(fields[:CELLS], [one or named[place] for one in secret], place)
        for place in range(min(ROWS, max(shape[0], 0)) if fields else 0)
    )
    masked = hide or any(MASK in text for row in rows for text in row) or any(MASK in field.name for field in fields)
    return Summary(
        "frame",
        type_,
        shape=shape,
        size_bytes=size_bytes,
        columns=tuple(Column(field.name, cut(field.of, _DTYPE_ROOM)) for field in fields),
        rows=rows,
        note=note,
        masked=masked,
        counts={} if hide else _counts(fields),
    )


def _counts(fields: Sequence[Field]) -> dict[str, str]:
    names = [field.name for field in fields]  # a table may have two columns of one name: of these nothing is told
    return {
        field.name: field.counts
        for field in fields
        if field.counts and names.count(field.name) == 1 and MASK not in field.name and not names_a_secret(field.name)
    }


def counts_text(true: int, false: int, missing: int = 0) -> str:
    """`True 12, False 3`, and how many are missing where some are."""
    told = [("True", true), ("False", false), ("missing", missing)]
    return ", ".join(f"{what} {count_text(count)}" for what, count in told if count or what != "missing")


def _row(fields: Sequence[Field], secret: list[bool], place: int) -> tuple[str, ...]:
    found = [field.first[place] if place < len(field.first) else _MISSING for field in fields]
    hide = any(names_its_neighbours(field.name, value) for field, value in zip(fields, found, strict=True))
    return tuple(
        MASK if hide or hidden else MORE if value is _MISSING else number_text(value)
        for hidden, value in zip(secret, found, strict=True)
    )


_MISSING = object()


def column(
    kind: str,
    type_: str,
    length: int,
    field: Field,
    *,
    hide: bool,
    size_bytes: int = 0,
    note: str = "",
    labels: Sequence[object] = (),
    is_read: bool = True,
) -> Summary:
    """The summary of a single named column: a series, an index, an arrow array.

    Args:
        labels: what its first values go by.
        is_read: its values can be read from what is stored, so that they need no place in the summary.
    """
    hide = hide or names_a_secret(field.name) or any(map(names_its_neighbours, labels, field.first))
    values = [Verbatim(MASK) if labels_a_secret(label) else one for label, one in zip_longest(labels, field.first)]
    shown = MASK if hide else values_text(values[: len(field.first)], (max(length, 0),))
    if field.counts and not hide and MASK not in shown and not is_whole(shown):
        shown = field.counts
    return Summary(
        kind,
        type_,
        shown,
        (length,),
        cut(field.of, _DTYPE_ROOM),
        size_bytes,
        rows=() if is_read or hide else tuple((number_text(one),) for one in values[: len(field.first)]),
        note=note or (f"name {cell(field.name)}" if field.name else ""),
        masked=MASK in shown or any(map(labels_a_secret, labels)),
    )
