"""A preview on one line, and two previews compared, in plain text.

The text is cleaned once more on the way out: a preview may come from a store that somebody else made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import eq
from typing import Final

import msgspec

from agent_kernel.text import MASK, MORE, clean, count_noun, count_text, shape_text, shorten, size_text
from agent_kernel.values.previews.model import MODEL, Column, Preview

__all__ = ["LEAST", "content", "interest", "is_picture", "noun"]


LONGEST_LINE: Final = 160
MOST_LINES: Final = 10
_MOST_ITEMS_TEXT = 60
_SHORT_VALUES = 40
_FEW_NAMES = 6  # of columns that went or came, where there may be many
_MOST_CELLS = 3  # differing cells of the first rows that are told

# Libraries whose type names are at home in a notebook.
_HOUSEHOLD = ("numpy.", "pandas.")


def line(preview: Preview) -> str:
    """What the value is, in one line: `DataFrame 1,000,000 × 12, 96 MB`."""
    return shorten(clean(", ".join(part for part in (_head(preview), *_details(preview)) if part)), LONGEST_LINE)


def outline(preview: Preview) -> str:
    """What kind of value it is and how large, and nothing that it holds: `DataFrame 1,000,000 × 12, 96 MB`, `function`."""
    is_name = preview.kind in ("class", "module") or preview.type == "NoneType"
    text = preview.text if is_name else ""
    return line(msgspec.structs.replace(preview, text=text, columns=(), rows=(), note="", masked=False)).strip()


def short_type(preview: Preview) -> str:
    """The type without the modules of numpy, pandas and scipy."""
    name = preview.type
    if name.startswith(_HOUSEHOLD) or preview.kind == "sparse":
        return name.rpartition(".")[2]
    return name


def _head(preview: Preview) -> str:
    name, count = short_type(preview), preview.shape[0] if preview.shape else None
    match preview.kind:
        case "scalar":
            return preview.text if preview.type == "NoneType" else f"{name} {preview.text}"
        case "text":
            return f"{name} {preview.text}" if count is None else f"{name} of {count_text(count)} {preview.text}"
        case "container" | "mapping" if count is not None:
            return f"{name} of {count_text(count)} {preview.dtype}".rstrip() if count else f"empty {name}"
        case "frame" if len(preview.shape) == 2:
            return f"{name} {count_text(preview.shape[0])} × {count_text(preview.shape[1])}"
        case "series" | "index" if count is not None:
            return " ".join(filter(None, (name, preview.dtype, count_text(count))))
        case "array" | "tensor" | "sparse" if preview.dtype or preview.shape:
            return " ".join(filter(None, (name, preview.dtype, shape_text(preview.shape))))
        case "function":
            return f"{'function' if name.startswith('builtin') else name} {preview.text}"
        case "class" | "module":
            return f"{preview.kind} {preview.text}"
        case _ if preview.dtype == MODEL and preview.text:
            return preview.text
        case _:
            return f"{name} of {count_text(count)}" if count is not None else name


def _details(preview: Preview) -> Iterator[str]:
    if preview.size_bytes > 0:
        yield size_text(preview.size_bytes)
    if preview.kind not in ("frame", "scalar", "text"):
        yield preview.note
    if preview.kind == "container" and any(preview.shape):
        yield shorten(preview.text, _MOST_ITEMS_TEXT)
    elif preview.kind == "mapping" and preview.columns:
        yield mapping_text(preview)
    elif preview.kind in ("array", "series", "tensor", "index") and is_whole(preview.text):
        yield preview.text
    elif preview.masked and MASK not in preview.text:
        yield MASK if not preview.columns else ""


def is_whole(values: str) -> bool:
    """Whether the first values of an array are all of them, and few enough to stand in a line."""
    return MASK in values or (len(values) <= _SHORT_VALUES and MORE not in values)


def mapping_text(preview: Preview) -> str:
    """The first keys of a dict with their values."""
    entries = [f"{column.name}: {column.of}" for column in preview.columns[:3]]
    more = [MORE] if max(preview.shape, default=0) > len(entries) else []
    return shorten(f"{{{', '.join([*entries, *more])}}}", _MOST_ITEMS_TEXT)


def lines_diff(old: Preview | None, new: Preview | None) -> list[str]:
    """A few lines saying what differs, judging from the two previews alone.

    Args:
        old: None if the value is new.
        new: None if the value is gone.
    """
    if old is None or new is None:
        return [f"{sign} {line(side)}" for sign, side in (("−", old), ("+", new)) if side is not None]
    if (old.kind, old.type) != (new.kind, new.type):
        return _change("", line(old), line(new))
    lines = list(_differences(old, new))
    if not lines:
        hidden = "what is hidden" if new.masked else "contents"
        lines = [f"{line(new)}: {hidden} may differ" if line(old) == line(new) else f"{line(old)} → {line(new)}"]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"{MORE} and {len(lines) - MOST_LINES + 1} more"]
    return [shorten(clean(found), 2 * LONGEST_LINE) for found in lines]


def _differences(old: Preview, new: Preview) -> Iterator[str]:
    yield from _extents(old, new)
    if old.dtype != new.dtype and MODEL not in (old.dtype, new.dtype):
        yield from _change("items" if new.kind == "container" else "dtype", old.dtype or "mixed", new.dtype or "mixed")
    yield from _columns(old, new)
    yield from _cells(old, new)
    if old.text != new.text:
        yield from _change("values" if new.kind in ("array", "series", "tensor", "index") else "", old.text, new.text)
    if old.note != new.note:
        yield from _change("", old.note or "none", new.note or "none")
    if size_text(old.size_bytes) != size_text(new.size_bytes) and old.size_bytes and new.size_bytes:
        yield f"size {size_text(old.size_bytes)} → {size_text(new.size_bytes)}"


def _change(what: str, old: str, new: str) -> list[str]:
    prefix = f"{what} " if what else ""
    if len(old) + len(new) <= 100:
        return [clean(f"{prefix}{old} → {new}")]
    return [clean(f"{prefix}− {old}"), clean(f"{prefix}+ {new}")]


def _extents(old: Preview, new: Preview) -> Iterator[str]:
    if old.shape == new.shape:
        return
    if new.kind == "frame" and len(old.shape) == len(new.shape) == 2:
        for noun, before, after in zip(("rows", "columns"), old.shape, new.shape, strict=True):
            yield from _count_change(noun, before, after)
    elif len(old.shape) == len(new.shape) == 1:
        yield from _count_change("length", old.shape[0], new.shape[0])
    elif new.kind != "text":
        yield f"shape {shape_text(old.shape)} → {shape_text(new.shape)}"


def _count_change(noun: str, before: int, after: int) -> Iterator[str]:
    if before != after:
        by = f" ({'+' if after > before else '−'}{count_text(abs(after - before))})" if min(before, after) >= 0 else ""
        yield f"{noun} {count_text(before)} → {count_text(after)}{by}"


def _columns(old: Preview, new: Preview) -> Iterator[str]:
    before, after = ({column.name: column for column in side.columns} for side in (old, new))
    removed = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    # A column beyond what a preview keeps is not known to be missing.
    if _shows_all_columns(new):
        yield from (f"− {_column(before[name])}" for name in removed)
    else:
        yield from _among_the_first("no longer", removed, old, new)
    if _shows_all_columns(old):
        yield from (f"+ {_column(after[name])}" for name in come)
    else:
        yield from _among_the_first("now", come, new, old)
    for name, column in after.items():
        if name in before and before[name].of != column.of:
            yield f"~ {name}: {before[name].of} → {column.of}"
    yield from (f"~ {change}" for change in count_changes(old, new))


def count_changes(old: Preview, new: Preview) -> Iterator[str]:
    """`sold: True 12, False 3 → True 9, False 6`, of each Boolean column whose counts are others."""
    for name, counts in new.counts.items():
        if old.counts.get(name, counts) != counts:
            yield f"{name}: {old.counts[name]} → {counts}"


def _among_the_first(how: str, names: list[str], side: Preview, other: Preview) -> Iterator[str]:
    """Of wide tables the first columns are known, and of the others only how many they are."""
    first = min(len(side.columns), len(other.columns))
    known = {column.name for column in side.columns[:first]}
    found = [name for name in names if name in known]
    if found:
        more = f" and {len(found) - _FEW_NAMES} more" if len(found) > _FEW_NAMES else ""
        noun = noun_of_columns(side, "s")
        yield f"{how} among the first {first} {noun} (of others the number is known): {', '.join(found[:_FEW_NAMES])}{more}"


def _shows_all_columns(preview: Preview) -> bool:
    return len(preview.columns) >= count_of_columns(preview)


def count_of_columns(preview: Preview) -> int:
    """How many columns a table has, keys a dict, or attributes an object, whether the preview names them or not."""
    if preview.kind == "object":
        return max(preview.attributes, len(preview.columns))
    return preview.shape[1] if preview.kind == "frame" and len(preview.shape) == 2 else sum(preview.shape[:1])


def noun_of_columns(preview: Preview, plural: str = "") -> str:
    """What the columns are."""
    return {"frame": "column", "object": "attribute"}.get(preview.kind, "key") + plural


def _column(column: Column) -> str:
    return f"{column.name} {column.of}"


def _cells(old: Preview, new: Preview) -> Iterator[str]:
    before = {column.name: place for place, column in enumerate(old.columns)}
    shared = [
        (before[column.name], place, column.name) for place, column in enumerate(new.columns) if column.name in before
    ]
    lines = list(islice(_differing(old, new, shared), _MOST_CELLS + 1))
    yield from lines[:_MOST_CELLS]
    if len(lines) > _MOST_CELLS:
        yield f"{MORE} and more in the first rows"


_Shared = list[tuple[int, int, str]]  # the place of a column before and now, and its name
_Rows = Sequence[Sequence[str]]


def _differing(old: Preview, new: Preview, shared: _Shared) -> Iterator[str]:
    """Cells that differ; of a table with fewer or more rows than before those that are gone or new, if that says less."""
    if old.shape[:1] == new.shape[:1]:
        return _by_place(old.rows, new.rows, shared, 0)
    from difflib import SequenceMatcher  # loads slowly, and few need it

    before = [tuple(row[place] for place, _, _ in shared if place < len(row)) for row in old.rows]
    now = [tuple(row[place] for _, place, _ in shared if place < len(row)) for row in new.rows]
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    if sum(block.size for block in matcher.get_matching_blocks()) <= sum(map(eq, before, now)):
        return _by_place(old.rows, new.rows, shared, 0)
    return _by_content(before, now, [name for _, _, name in shared], matcher.get_opcodes())


def _by_place(old: _Rows, new: _Rows, shared: _Shared, first: int) -> Iterator[str]:
    """Cells that differ; `first` is the number of the first row."""
    for number, (old_row, new_row) in enumerate(zip(old, new, strict=False), first):
        for old_place, new_place, name in shared:
            if old_place < len(old_row) and new_place < len(new_row) and old_row[old_place] != new_row[new_place]:
                yield f"row {number}, {name}: {_cell(old_row[old_place])} → {_cell(new_row[new_place])}"


def _by_content(
    before: _Rows, now: _Rows, names: list[str], steps: Iterable[tuple[str, int, int, int, int]]
) -> Iterator[str]:
    """Rows that are gone or new among the first ones, whatever number the others have by now.

    Where the rows that are told of end, nothing says whether a row is gone or moved beyond.
    """
    places = [(place, place, name) for place, name in enumerate(names)]
    for does, low, high, new_low, new_high in steps:
        if high == len(before) or new_high == len(now):
            return
        if does == "replace" and high - low == new_high - new_low:
            yield from _by_place(before[low:high], now[new_low:new_high], places, new_low)
        elif does != "equal":
            yield from (f"row {number} is gone: {_row(names, before[number])}" for number in range(low, high))
            yield from (f"row {number} is new: {_row(names, now[number])}" for number in range(new_low, new_high))


def _row(names: list[str], cells: Sequence[str]) -> str:
    return ", ".join(f"{name} {_cell(cell)}" for name, cell in zip(names, cells, strict=False))


def _cell(text: str) -> str:
    """A cell as panels word it. A text is quoted where it could be taken for something else."""
    return "missing" if text in ("nan", "NaT", "<NA>") else text


# -- A preview in two columns: what kind of value it is, and what it holds. `line` says both in one

_LONGEST_NOUN, _LONGEST_CONTENT = 60, 120


def noun(preview: Preview) -> str:
    """The kind of value: `DataFrame`, `ndarray float64`, `list`, `function`; of a library's class `ipywidgets.IntSlider`."""
    name = short_type(preview)
    package, _, rest = name.partition(".")
    if "." in rest:
        name = f"{package}.{rest.rpartition('.')[2]}"  # the modules between say where it is written, and not what it is
    match preview.kind:
        case "scalar" if preview.type == "NoneType":
            name = "None"
        case "function":
            name = "function" if name.startswith("builtin") else name
        case "class" | "module":
            name = preview.kind
        case "array" | "tensor" | "sparse" | "series" | "index" if preview.dtype:
            name = f"{name} {preview.dtype}"
        case _:
            pass
    return shorten(clean(name), _LONGEST_NOUN)


def content(preview: Preview) -> str:
    """What it holds, without its size: `1,460 × 8`, `(1460,)`, `[12, 57, 233]`, `fit(X, y)`."""
    return shorten(clean(", ".join(part for part in _parts(preview) if part)), _LONGEST_CONTENT)


def _parts(preview: Preview) -> Iterator[str]:
    count = preview.shape[0] if preview.shape else None
    match preview.kind:
        case "scalar" | "text" | "class" | "module":
            yield preview.text
        case "function":
            yield preview.text
            yield preview.note
        case "container" | "mapping":
            text = preview.text if preview.kind == "container" else mapping_text(preview)
            yield "empty" if count == 0 else count_noun(count, "item") if count is not None and MORE in text else ""
            yield text if count else ""
        case "frame" if len(preview.shape) == 2:
            yield f"{count_text(preview.shape[0])} × {count_text(preview.shape[1])}"
        case "series" | "index":
            yield count_text(count) if count is not None else ""
            yield from _values(preview)
        case "array" | "tensor" | "sparse":
            yield shape_text(preview.shape)
            yield preview.note
            yield from _values(preview)
        case _:
            yield count_noun(count, "item") if count is not None else ""
            yield preview.text if preview.dtype == MODEL else ""
            yield preview.note
    if preview.masked and not preview.columns and preview.kind in ("object", "exception"):
        yield MASK


def _values(preview: Preview) -> Iterator[str]:
    if preview.text and is_whole(preview.text):
        yield preview.text


# -- which values a person looks for first: tables, models, single values, arrays, figures, everything else, and last code

_ARRAYS: Final = ("array", "tensor", "sparse", "index")
_CODE: Final = ("module", "function", "class")
_MODEL, _FIGURE, _OTHER, LEAST = 1, 4, 5, 7
_KINDS: Final = {
    **dict.fromkeys(("frame", "series"), 0),
    **dict.fromkeys(("scalar", "text"), 2),
    **dict.fromkeys(_ARRAYS, 3),
    **dict.fromkeys(_CODE, 6),
}
_PICTURES: Final = frozenset({"Axes", "AxesSubplot", "Figure", "FigureWidget"})


def interest(preview: Preview) -> int:
    """The rank of a value, the most interesting first."""
    if preview.kind != "object":
        return _KINDS.get(preview.kind, _OTHER)
    return _MODEL if preview.dtype == MODEL else _FIGURE if is_picture(preview) else _OTHER


def is_picture(preview: Preview) -> bool:
    """Whether the value is a figure, of which its cell may have shown a picture."""
    return preview.kind == "object" and preview.type.rpartition(".")[2] in _PICTURES
