"""From a value to its preview, by exact type; and the previews of numbers, texts, dates and the built-in containers.

A container is shown by its length, its first few items and, for a dict, its first keys; never by a walk over all of
it. Iterating goes through the base type's own iterator, which neither hashes nor compares what it finds
(OrderedDict's would hash its keys, so every dict is read as a plain one).
"""

from __future__ import annotations

import datetime
import decimal
import functools
import pathlib
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from itertools import islice
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_kernel.text import MASK, MORE, clean, shorten
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
from agent_kernel.values.previews.model import LONGEST_TEXT, Column, Preview, fit
from agent_kernel.values.previews.redaction import (
    holds_a_secret,
    labels_a_secret,
    names_a_secret,
    names_its_neighbours,
)

if TYPE_CHECKING:
    import fractions


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
