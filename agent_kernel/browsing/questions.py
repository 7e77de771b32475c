"""What may be asked: one structure for each question, with bounds, so that no question costs more than it should."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar

import msgspec

from agent_kernel.errors import RequestError

__all__ = [
    "At",
    "Between",
    "Listed",
    "Located",
    "Nothing",
    "OfRun",
    "OfVariable",
    "Opened",
    "Planned",
    "Revision",
    "in_words",
    "read",
]


Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Other = Annotated[str, msgspec.Meta(max_length=300)]  # a revision; "": nothing, as before the first commit
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=500)]
Row = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
Fold = Annotated[str, msgspec.Meta(max_length=80)]
Folds = Annotated[tuple[Fold, ...], msgspec.Meta(max_length=500)]
Zone = Annotated[int, msgspec.Meta(ge=-86_400, le=86_400)]  # seconds

A = TypeVar("A", bound=msgspec.Struct)


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """Which rows are listed, and which of them are wanted."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0  # the reader's distance from UTC
    unfolded: Folds = ()
    start: Row = 0
    n: Count = 100


class Opened(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rows, with all that stands around them."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    n: Count = 60


class Located(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit in a list."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    id: Revision


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit, against its first parent or another one."""

    id: Revision
    against: Other | None = None


class One(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: Revision


class OfRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of an agent, by its full id."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class OfVariable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable of one commit."""

    id: Revision
    against: Other | None = None
    name: Name


class Between(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two commits."""

    a: Revision
    b: Revision


class Planned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that may be done."""

    op: Literal["checkout", "rollback", "merge", "cherry_pick"]
    to: Revision


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


def read(op: str, args: Mapping[str, object], shape: type[A]) -> A:
    """The arguments, checked.

    Raises:
        RequestError: one is missing, unknown, of another type or out of bounds.
    """
    try:
        return msgspec.convert(args, shape)
    except msgspec.ValidationError as error:
        raise RequestError(op, in_words(error)) from None


def in_words(error: msgspec.ValidationError) -> str:
    """What is wrong with an argument, as it is told to the person who gave it.

    >>> in_words(msgspec.ValidationError("Expected `str` of length >= 1 - at `$.name`"))
    'the name is empty'
    """
    said = str(error)
    for pattern, words in _WORDS:
        if found := pattern.fullmatch(said):
            return words(found)
    return said


def _kind(found: re.Match[str]) -> str:
    return f"the {_field(found[2])} is not {_KINDS.get(found[1], found[1])}"


def _field(name: str) -> str:
    return _FIELDS.get(name, name)


_FIELDS = {
    "against": "other commit",
    "from": "first row",
    "id": "commit",
    "n": "number of rows",
    "show": "choice of rows",
    "to": "commit",
    "tz_s": "time zone",
}
_KINDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "an object"}
_AT = r" - at `\$\.(\w+).*`"
_WORDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"Expected `str` of length >= 1{_AT}"), lambda found: f"the {_field(found[1])} is empty"),
    (
        re.compile(rf"Expected `str` of length <= (\d+){_AT}"),
        lambda found: f"the {_field(found[2])} has more than {int(found[1]):,} characters",
    ),
    (
        re.compile(rf"Expected `array` of length <= (\d+){_AT}"),
        lambda found: f"there are more than {int(found[1]):,} {found[2]}",
    ),
    (
        re.compile(rf"Expected `int` ([<>])= (-?\d+){_AT}"),
        lambda found: f"the {_field(found[3])} is {'less' if found[1] == '>' else 'more'} than {int(found[2]):,}",
    ),
    (re.compile(rf"Expected `(\w+)(?: \| null)?`, got `.*`{_AT}"), _kind),
    (re.compile(rf"Invalid enum value (.*?){_AT}"), lambda found: f"the {_field(found[2])} cannot be {found[1]}"),
    (re.compile(r"Object missing required field `(\w+)`"), lambda found: f"the {_field(found[1])} is missing"),
    (re.compile(r"Object contains unknown field `(.*)`"), lambda found: f"there is no argument {found[1]!r}"),
)
