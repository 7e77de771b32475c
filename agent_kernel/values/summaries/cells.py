"""A value in a few characters, as it stands in a table cell, a list preview or after `int`.

Exact types only. What none of the tables here knows is shown by its type's name and not touched.
"""

from __future__ import annotations

import datetime
import decimal
import pathlib
import re
import uuid
from collections.abc import Callable
from types import EllipsisType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.masking import holds_a_secret
from agent_kernel.values.summaries.reading import bases_of, class_dict, entry, exact_items, exact_str, type_name
from agent_kernel.values.summaries.wording import MASK, MORE, clean, cut

if TYPE_CHECKING:
    import fractions

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
    return cut(type_name(value) if write is None else write(value, room), room)


def is_plain(value: object) -> bool:
    """Whether the value is shown itself rather than by its type's name."""
    return _WRITERS.of(value) is not None


def label(value: object, room: int = 40) -> str:
    """The value as a column's name: a string without its quotes."""
    if type(value) is not str:
        return cell(value, room)
    shown = clean(value[:_WINDOW])
    return MASK if holds_a_secret(shown) else cut(shown, room)


def _integer(value: int, room: int) -> str:
    bits = value.bit_length()
    return str(value) if bits <= 200 else f"{'-' if value < 0 else ''}about 1e{int(bits * 0.30103)}"


def _text(value: str, room: int) -> str:
    return MASK if holds_a_secret(clean(value[:_WINDOW])) else _quoted(value, room)


def _octets(value: bytes | bytearray, room: int) -> str:
    begin = bytes(value[: max(room, _WINDOW)])
    return MASK if holds_a_secret(clean(begin.decode("latin-1"))) else _quoted(begin, room, len(value))


def _quoted(value: str | bytes, room: int, length: int | None = None) -> str:
    # repr of a real str or bytes shows every character that is not printable as an escape; none is cut in half.
    shown = repr(value[:room])
    if (length or len(value)) <= room and len(shown) <= room:
        return shown
    return _HALF_ESCAPE.sub("", shown[: min(room, len(shown)) - 1]) + MORE


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


def is_slot(held: object) -> bool:
    """Whether what a class holds is one of its `__slots__`."""
    return _SLOTS.of(held) is not None


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
    return moment_text(value.isoformat()) if value.tzinfo is None else _zoned_timestamp(value)


def _zoned_timestamp(value: Any) -> str:
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
