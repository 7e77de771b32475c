"""What may be asked: one structure for each question, with bounds, so that no question costs more than it should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec

from agent_kernel.errors import RequestError

__all__ = ["At", "Between", "Listed", "Located", "Nothing", "OfVariable", "Opened", "Planned", "Revision", "read"]

Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
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
    against: Revision | None = None


class One(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: Revision


class OfVariable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable of one commit."""

    id: Revision
    against: Revision | None = None
    name: Name


class Between(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two commits."""

    a: Revision
    b: Revision


class Planned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that may be done."""

    op: Literal["checkout", "rollback", "merge"]
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
        raise RequestError(op, str(error)) from None
