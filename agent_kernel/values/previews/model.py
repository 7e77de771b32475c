"""A preview: its stored bytes, its line of plain text, two compared; and from a value to its preview, by exact type.

Stored as a msgpack map with one-letter keys whose defaults are left out: a small number takes about twenty bytes, no
preview takes more than two kilobytes, and a reader ignores the keys of a newer release. A preview is trimmed when it
is made, so what is stored is what was made.

Numbers, texts, dates and the built-in containers are previewed here. A container is shown by its length, its first few items and,
for a dict, its first keys; never by a walk over all of it. Iterating goes through the base type's own iterator, which neither
hashes nor compares what it finds (OrderedDict's would hash its keys, so every dict is read as a plain one).
"""

from __future__ import annotations

import datetime
import decimal
import functools
import pathlib
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from operator import eq
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from agent_kernel.text import MASK, MORE, clean, count_noun, count_text, plural, shape_text, shorten, size_text
from agent_kernel.values.introspection import (
    ExactTypes,
    bases_of,
    class_dict,
    entry,
    exact_items,
    exact_str,
    shallow_size,
    type_name,
    type_text,
)
from agent_kernel.values.previews.redaction import (
    holds_a_secret,
    labels_a_secret,
    names_a_secret,
    names_its_neighbours,
)

if TYPE_CHECKING:
    import fractions

MOST_BYTES = 2_048
LONGEST_TEXT = 120
MODEL = "model"


class Column(msgspec.Struct, frozen=True, array_like=True):
    """One column of a table with its dtype, or one key of a dict with its value in short."""

    name: str
    of: str


class Preview(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "kind": "k",
        "type": "t",
        "text": "x",
        "shape": "s",
        "dtype": "d",
        "size_bytes": "z",
        "columns": "c",
        "rows": "r",
        "note": "n",
        "masked": "m",
        "attributes": "a",
        "counts": "b",
    },
):
    """What may be shown of a value without loading it.

    Attributes:
        kind: scalar, text, container, mapping, array, frame, series, index, tensor, sparse, function, class, module,
            exception or object. A reader treats a kind that it does not know as object.
        type: qualified name of the exact type.
        text: the value in short, the first values of an array, or what an estimator was made with.
        shape: rows and columns, an array's shape, a container's length; -1 where it could not be read.
        dtype: element type; for a list the type of its items, if the sampled ones share it; `model` for an object that is one.
        size_bytes: memory of the value as far as it is known without a deep scan, or, where it is stored, the bytes of
            that before packing; 0: unknown.
        columns: the first columns of a table, the first keys of a dict, or the first attributes of an object.
        rows: the first rows of a table, for as many columns as fit, or the first values of a series that no one reads.
        note: device, index type, number of stored elements, lines of code.
        masked: something was hidden because it looks like a secret.
        attributes: how many an object has, whether they are among the columns or not.
        counts: of Boolean columns, by their names, how often each value occurs: `True 12, False 3`.
    """

    kind: str
    type: str
    text: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    size_bytes: int = 0
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    masked: bool = False
    attributes: int = 0
    counts: dict[str, str] = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Preview)


def encode(preview: Preview) -> bytes:
    """The stored bytes: at most `MOST_BYTES`, and equal previews give equal bytes."""
    stored = _encoder.encode(preview)
    return stored if len(stored) <= MOST_BYTES else _encoder.encode(fit(preview))


def decode(stored: bytes) -> Preview:
    """The preview that was stored.

    Raises:
        msgspec.DecodeError: the bytes are no preview.
    """
    try:
        return _decoder.decode(stored)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text in it is not UTF-8 ({error})") from error


def fit(preview: Preview) -> Preview:
    """The preview itself if it is small enough, else with the least telling parts left out."""
    if len(_encoder.encode(preview)) <= MOST_BYTES:
        return preview
    for trim in _trims():
        preview = trim(preview)
        if len(_encoder.encode(preview)) <= MOST_BYTES:
            break
    return preview


def _trims() -> Iterator[Callable[[Preview], Preview]]:
    yield _short_texts
    yield lambda s: replace(s, rows=s.rows[:1])
    yield from (partial(_fewer_columns, keep=keep) for keep in (24, 12, 8))
    yield lambda s: replace(s, rows=())
    yield lambda s: replace(s, columns=(), counts={}, shape=s.shape[:32])


def _fewer_columns(preview: Preview, *, keep: int) -> Preview:
    columns = preview.columns[:keep]
    counts = {column.name: preview.counts[column.name] for column in columns if column.name in preview.counts}
    return replace(preview, columns=columns, rows=tuple(row[:keep] for row in preview.rows), counts=counts)


def _short_texts(preview: Preview) -> Preview:
    return replace(
        preview,
        kind=preview.kind[:16],
        type=preview.type[:LONGEST_TEXT],
        text=preview.text[:LONGEST_TEXT],
        dtype=preview.dtype[:40],
        note=preview.note[:60],
        columns=tuple(Column(column.name[:32], column.of[:24]) for column in preview.columns[:64]),
        rows=tuple(tuple(cell[:16] for cell in row[:64]) for row in preview.rows[:3]),
        counts={name[:32]: counts for name, counts in preview.counts.items()},
    )


# -- on one line, and two compared
#
# The text is cleaned once more on the way out: a preview may come from a store that somebody else made.


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


# What the lengths of a value count, by its kind.
_UNITS: Final = {
    "container": ("item",),
    "frame": ("row", "column"),
    "mapping": ("key",),
    "series": ("value",),
}


def growth(old: Preview, new: Preview) -> str:
    """How much longer or wider a value became: `−17 rows`, `+2 columns`; "": neither, or it is another kind of value.

    >>> growth(Preview("frame", "DataFrame", shape=(40, 2)), Preview("frame", "DataFrame", shape=(23, 3)))
    '−17 rows, +1 column'
    """
    if old.kind != new.kind or -1 in (*old.shape, *new.shape):
        return ""
    grown = zip(_UNITS.get(old.kind, ()), old.shape, new.shape, strict=False)
    return ", ".join(
        f"{'+' if now > was else '−'}{plural(abs(now - was), unit)}" for unit, was, now in grown if now != was
    )


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


# -- a value in a few characters, as it stands in a table cell, a list preview or after `int`
#
# Exact types only. What none of the tables here knows is shown by its type's name and not touched.

CELL = 24  # characters of one cell in a table or a list
_WINDOW = 400  # characters of a long text that are looked at

_HALF_ESCAPE = re.compile(r"\\(?:x.?|u.{0,3}|U.{0,7})?$")

Write = Callable[[Any, int], str]


class Verbatim(NamedTuple):
    """Text that is shown without quotes: a date that a library's array holds as a number."""

    text: str


def cell(value: object, room: int = CELL) -> str:
    """The value in at most `room` characters, masked if it looks like a secret."""
    write = _WRITERS.of(value)
    return shorten(type_name(value) if write is None else write(value, room), room)


def number_text(value: object) -> str:
    """A cell of a numeric table: six digits tell two floats apart well enough there."""
    return f"{value:.6g}" if type(value) is float else cell(value)


def is_plain(value: object) -> bool:
    """Whether the value is shown itself rather than by its type's name."""
    return _WRITERS.of(value) is not None


def label(value: object, room: int = 40) -> str:
    """The value as a column's name: a string without its quotes."""
    if type(value) is not str:
        return cell(value, room)
    cleaned = clean(value[:_WINDOW])
    return MASK if holds_a_secret(cleaned) else shorten(cleaned, room)


def _integer(value: int, room: int) -> str:
    bits = value.bit_length()
    return str(value) if bits <= 200 else f"{'-' if value < 0 else ''}about 1e{int(bits * 0.30103)}"


def _text(value: str, room: int) -> str:
    return MASK if holds_a_secret(clean(value[:_WINDOW])) else _quote(value, room)


def _octets(value: bytes | bytearray, room: int) -> str:
    begin = bytes(value[: max(room, _WINDOW)])
    return MASK if holds_a_secret(clean(begin.decode("latin-1"))) else _quote(begin, room, len(value))


def _quote(value: str | bytes, room: int, length: int | None = None) -> str:
    # repr of a real str or bytes shows every character that is not printable as an escape; none is cut in half.
    quoted = repr(value[:room])
    if (length or len(value)) <= room and len(quoted) <= room:
        return quoted
    return _HALF_ESCAPE.sub("", quoted[: min(room, len(quoted)) - 1]) + MORE


def _moment(value: datetime.datetime | datetime.time, room: int) -> str:
    # Asking for an offset runs the zone's code, and anyone can write a zone.
    zone = value.tzinfo
    if zone is None or has_known_zone(zone):
        return value.isoformat()
    return f"{value.replace(tzinfo=None).isoformat()} {type_name(zone)}"


def has_known_zone(zone: datetime.tzinfo) -> bool:
    """Whether the zone is the standard library's, so that its offset may be asked for."""
    return _ZONES.of(zone) is not None


def _decimal(value: decimal.Decimal, room: int) -> str:
    return str(value) if value.__sizeof__() <= 400 else f"about 1e{value.adjusted()}"


def _fraction(value: fractions.Fraction, room: int) -> str:
    top, bottom = (entry_of_slot(value, name) for name in ("_numerator", "_denominator"))
    if type(top) is not int or type(bottom) is not int:
        return "Fraction"
    return f"{_integer(top, room)}/{_integer(bottom, room)}"


def _uuid(value: uuid.UUID, room: int) -> str:
    number = entry_of_slot(value, "int")
    if type(number) is not int or not 0 <= number < 1 << 128:
        return "UUID"
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _path(value: pathlib.PurePath, room: int) -> str:
    # A path keeps what it was made of, which may be instances of a string subclass: joining would call them.
    parts = exact_items(entry_of_slot(value, "_raw_paths") or entry_of_slot(value, "_parts"))
    if not parts or not all(type(part) is str for part in parts):
        return type_name(value)
    return _text(exact_str(str(value)), room)


def entry_of_slot(value: object, name: str) -> Any:
    """What a `__slots__` entry of a standard library class holds; None if it is not set or no longer a slot."""
    for base in bases_of(type(value)):
        slot: Any = entry(class_dict(base), name)
        if is_slot(slot):
            try:
                return slot.__get__(value)
            except AttributeError:
                return None
    return None


def is_slot(attribute: object) -> bool:
    """Whether what a class holds is one of its `__slots__`."""
    return _SLOTS.of(attribute) is not None


def _range(value: range, room: int) -> str:
    step = "" if value.step == 1 else f", {_integer(value.step, room)}"
    return f"range({_integer(value.start, room)}, {_integer(value.stop, room)}{step})"


def _number(value: Any, room: int) -> str:
    """A numpy scalar; one that stays numpy's own (a long double, say) is shown by its type's name."""
    plain = value.item()
    return cell(plain, room) if type(plain) in (int, float, complex, bool, str, bytes) else type_name(value)


def _numpy_date(value: Any, room: int) -> str:
    return moment_text(str(value))


def moment_text(text: str) -> str:
    """An ISO moment without the zeros at its end: `2020-01-01T00:00:00.000000` is `2020-01-01`."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix("T00:00:00").replace("T", " ")


def _timestamp(value: Any, room: int) -> str:
    return moment_text(value.isoformat()) if value.tzinfo is None else _timestamp_text(value)


def _timestamp_text(value: Any) -> str:
    known = has_known_zone(value.tzinfo)
    return value.isoformat().replace("T", " ") if known else type_name(value)


class _Slotted:
    __slots__ = ("slot",)


_SLOTS: ExactTypes[bool] = ExactTypes([(type(class_dict(_Slotted)["slot"]), True)])


_ZONES: ExactTypes[bool] = ExactTypes([(datetime.timezone, True)], {"zoneinfo:ZoneInfo": True})

_NUMPY_NUMBERS = (
    "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 longlong ulonglong float16 float32 float64 "
    "longdouble complex64 complex128 str_ bytes_"
)

_WRITERS: ExactTypes[Write] = ExactTypes(
    [
        (NoneType, lambda value, room: "None"),
        (bool, lambda value, room: "True" if value else "False"),
        (EllipsisType, lambda value, room: "..."),
        (NotImplementedType, lambda value, room: "NotImplemented"),
        (int, _integer),
        (float, lambda value, room: float.__repr__(value)),
        (complex, lambda value, room: complex.__repr__(value)),
        (str, _text),
        (bytes, _octets),
        (bytearray, _octets),
        (Verbatim, lambda value, room: value.text),
        (datetime.datetime, _moment),
        (datetime.time, _moment),
        (datetime.date, lambda value, room: value.isoformat()),
        (datetime.timedelta, lambda value, room: str(value)),
        (datetime.timezone, lambda value, room: clean(str(value)[:_WINDOW])),
        (decimal.Decimal, _decimal),
        (uuid.UUID, _uuid),
        (pathlib.PosixPath, _path),
        (pathlib.PurePosixPath, _path),
        (pathlib.WindowsPath, _path),
        (pathlib.PureWindowsPath, _path),
        (range, _range),
    ],
    {
        "fractions:Fraction": _fraction,
        **{f"numpy:{name}": _number for name in _NUMPY_NUMBERS.split()},
        "numpy:datetime64": _numpy_date,
        "numpy:timedelta64": lambda value, room: str(value),
        "pandas:Timestamp": _timestamp,
        "pandas:Timedelta": lambda value, room: str(value),
        "pandas.api.typing:NaTType": lambda value, room: "NaT",
        "pandas.api.typing:NAType": lambda value, room: "<NA>",
        "torch:dtype": lambda value, room: str(value),
        "torch:device": lambda value, room: str(value),
    },
)


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


def scalar(value: object, hide: bool) -> Preview:
    """A value that fits into a cell."""
    if hide and value is not None and type(value) is not bool:
        return Preview("scalar", type_name(value), MASK, masked=True)
    shown_text = cell(value, LONGEST_TEXT)
    return Preview("scalar", type_name(value), shown_text, masked=shown_text == MASK)


def text(value: str | bytes | bytearray, hide: bool) -> Preview:
    """A text or bytes; its length stands beside it only where the text is cut, and never beside a masked one."""
    shown = MASK if hide else cell(value, LONGEST_TEXT)
    length = (len(value),) if shown.endswith(MORE) else ()
    return Preview("text", type_name(value), shown, length, masked=shown == MASK)


def view(value: memoryview, hide: bool) -> Preview:
    """A memoryview by its shape and format; what it looks at belongs to another value."""
    shape = () if value.shape is None else value.shape
    return Preview("array", "memoryview", "", shape, value.format, value.nbytes, masked=hide)


def sequence(value: Collection[object], hide: bool) -> Preview:
    """A list, tuple, set or deque of any length."""
    items = MASK if hide else short_text(value, LONGEST_TEXT)
    return Preview("container", type_name(value), items, (len(value),), _common_type(value), masked=MASK in items)


def mapping(value: dict[object, object], hide: bool) -> Preview:
    """A dict by its first keys, each with its value in short."""
    entries = _first_entries(value, _KEYS)
    hide = hide or any(names_its_neighbours(key, held) for key, held in entries)
    columns = tuple(
        Column(_key(key), MASK if hide or labels_a_secret(key) else short_text(item, CELL, depth=1))
        for key, item in entries
    )
    masked = any(MASK in column.of or MASK in column.name for column in columns)
    return Preview("mapping", type_name(value), "", (len(value),), columns=columns, masked=masked)


def short_text(value: object, room: int, depth: int = _DEPTH) -> str:
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
    return shorten(f"{brackets.opening}{inner}{brackets.closing}", room)


def _entries(value: dict[object, object], depth: int) -> Iterator[str]:
    first = _first_entries(value, _FEW)
    hide = any(names_its_neighbours(key, held) for key, held in first)
    for key, item in first:
        yield f"{_key(key)}: {MASK if hide or labels_a_secret(key) else short_text(item, CELL, depth)}"
    if len(value) > _FEW:
        yield MORE


def _first_entries(value: dict[object, object], count: int) -> list[tuple[object, object]]:
    return list(islice(_entries_of(value), count))


def _items(value: Collection[object], depth: int) -> Iterator[str]:
    first: list[object] = list(islice(value, _FEW))
    # The first item of a pair may say what the second one is: ("password", "hunter2").
    hide = len(value) == 2 and type(first[0]) is str and names_a_secret(first[0])
    for place, item in enumerate(first):
        yield MASK if hide and place else short_text(item, CELL, depth)
    if len(value) > _FEW:
        yield MORE


def _key(key: object) -> str:
    return short_text(key, CELL, depth=1)


def _common_type(value: Collection[object]) -> str:
    sampled = list(islice(value, _SAMPLED))
    if _SLICED.of(value):
        items = cast("Sequence[object]", value)
        sampled += items[len(items) // 2 :: max(1, len(items) // _SAMPLED)]  # and to the end in even steps
    if not sampled or any(type(item) is not type(sampled[0]) for item in sampled):
        return ""
    return type_name(sampled[0])


# -- from any value to its preview. What another kind of value needs loads when the first of them is previewed

MakePreview = Callable[[Any, bool], Preview]


def make_preview(value: object, name: str = "") -> Preview:
    """What may be shown of a value, made in microseconds whatever its size and without running its class's code.

    Args:
        value: anything; it is read, never changed.
        name: the variable's name; one that names a secret hides the value.
    """
    hide = names_a_secret(exact_str(name))
    kind = type(value)
    try:
        if is_plain(value) and _TEXTS.find(kind) is None:
            return scalar(value, hide)
        return fit((_BY_TYPE.find(kind) or _FOREIGN)(value, hide))
    except Exception:  # noqa: BLE001
        # A library's object in a state that its own accessors refuse (released, half built, another release's
        # layout), or a container that another thread changes. A preview is never worth failing a commit.
        return Preview("object", type_text(kind), size_bytes=shallow_size(value), masked=hide)


def _lazily(home: str) -> MakePreview:
    """The function `module:name` beside this module."""
    module, _, name = home.partition(":")

    def make_as(value: object, hide: bool) -> Preview:
        found: MakePreview = getattr(import_module(f"agent_kernel.values.previews.{module}"), name)
        return found(value, hide)

    return make_as


_FOREIGN = _lazily("objects:foreign")
_ARROW_NAMES = (
    "Boolean Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 HalfFloat Float Double String LargeString StringView "
    "Binary LargeBinary Date32 Date64 Timestamp Decimal128 Null List LargeList Struct Dictionary"
)
_SPARSE_LAYOUTS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_TEXT_TYPES: tuple[tuple[type, MakePreview], ...] = (
    (str, text),
    (bytes, text),
    (bytearray, text),
)
_TEXTS: ExactTypes[MakePreview] = ExactTypes(_TEXT_TYPES)

_BY_TYPE: ExactTypes[MakePreview] = ExactTypes(
    [
        *_TEXT_TYPES,
        (memoryview, view),
        *((kind, sequence) for kind in (list, tuple, set, frozenset, deque)),
        *((kind, mapping) for kind in (dict, OrderedDict, defaultdict, Counter)),
        (FunctionType, _lazily("objects:function")),
        (MethodType, _lazily("objects:method")),
        (BuiltinFunctionType, _lazily("objects:builtin")),
        (functools.partial, _lazily("objects:partial")),
        (type(functools.lru_cache(make_preview)), _lazily("objects:cached")),
        (ModuleType, _lazily("objects:module")),
        (type, _lazily("objects:class_")),
    ],
    {
        "numpy:ndarray": _lazily("arrays:ndarray"),
        **{f"scipy.sparse:{layout}_array": _lazily("arrays:sparse") for layout in _SPARSE_LAYOUTS},
        **{f"scipy.sparse:{layout}_matrix": _lazily("arrays:sparse") for layout in _SPARSE_LAYOUTS},
        "pandas:DataFrame": _lazily("arrays:dataframe"),
        "pandas:Series": _lazily("arrays:series"),
        **{
            f"pandas:{kind}Index": _lazily("arrays:index")
            for kind in ("", "Range", "Multi", "Datetime", "Timedelta", "Period", "Categorical", "Interval")
        },
        "polars:DataFrame": _lazily("arrays:polars_frame"),
        "polars:Series": _lazily("arrays:polars_series"),
        "polars:LazyFrame": _lazily("arrays:polars_lazy"),
        "pyarrow:Table": _lazily("arrays:arrow_table"),
        "pyarrow:RecordBatch": _lazily("arrays:arrow_table"),
        "pyarrow:ChunkedArray": _lazily("arrays:arrow_array"),
        **{f"pyarrow:{name}Array": _lazily("arrays:arrow_array") for name in _ARROW_NAMES.split()},
        "torch:Tensor": _lazily("arrays:tensor"),
        "torch.nn:Parameter": _lazily("arrays:tensor"),
    },
)
