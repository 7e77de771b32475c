"""What a record of a model is: its id, its form in the store, the states that it may take, and how older forms become newer ones.

Any pydantic model will do. `Record` adds what a model may say of itself as class variables; of a model that says nothing the
defaults hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec
import zstandard
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from agent_kernel.errors import InvalidRecordError, NewerRecordError, TransitionError
from agent_kernel.records.lines import Row

__all__ = ["Document", "Plane", "Record", "Schema", "known_schema", "migration"]

M = TypeVar("M", bound=BaseModel)
Plane: TypeAlias = Literal["branch", "store"]
Document: TypeAlias = dict[str, Any]
Migration: TypeAlias = Callable[[Document], Document]
Validator: TypeAlias = Callable[[Any], object]

_MIGRATES: Final = "__agent_kernel_migration__"
_PACK_FROM: Final = 400  # bytes of JSON from which compressing pays


class Record(BaseModel):
    """A model that says how its records are kept. All of it is optional; any other pydantic model takes the defaults."""

    id: str

    collection: ClassVar[str] = ""  # by default the name of the class
    schema_version: ClassVar[int] = 1
    transitions: ClassVar[Any] = {}  # from a status, which others may follow; no entry: all may
    status_field: ClassVar[str] = "status"
    plane: ClassVar[Plane] = "branch"  # "store": a checkout does not rewind it
    ttl_s: ClassVar[float | None] = None  # seconds until a record is gone
    coalesce_s: ClassVar[float] = 0.0  # seconds for which updates wait to be stored together
    keeps_past: ClassVar[bool] = True  # whether the plane `store` keeps what a record was before a change
    is_final: ClassVar[bool] = False  # whether records stay as they were put: a long one is stored as one piece


def migration(to: int) -> Callable[[Migration], staticmethod[[Document], Document]]:
    """Mark a function of a model that makes a document of schema `to` out of one of the schema before it.

    >>> class Note(Record):
    ...     schema_version = 2
    ...     text: str
    ...
    ...     @migration(2)
    ...     def rename(old):
    ...         return {"id": old["id"], "text": old["body"]}
    >>> from agent_kernel.records.lines import Row
    >>> Schema(Note).load(Row(version=1, time_ns=0, document=b'{"id": "a", "body": "hello"}'), "a").text
    'hello'
    """

    def mark(function: Migration) -> staticmethod[[Document], Document]:
        setattr(function, _MIGRATES, to)
        return staticmethod(function)

    return mark


class Schema(Generic[M]):
    """How records of one model are named, checked, stored and read."""

    def __init__(
        self,
        model: type[M],
        *,
        key: str = "id",
        validators: tuple[Validator, ...] = (),
        plane: Plane | None = None,
    ) -> None:
        self.model = model
        self.key = key
        self.validators = validators
        self.collection: str = getattr(model, "collection", "") or model.__name__
        self.version: int = getattr(model, "schema_version", 1)
        self.plane: Plane = getattr(model, "plane", "branch") if plane is None else plane
        if self.plane not in ("branch", "store"):
            raise ValueError(f"a plane is 'branch' or 'store', not {self.plane!r}")
        self.ttl_s: float | None = getattr(model, "ttl_s", None)
        self.coalesce_s: float = getattr(model, "coalesce_s", 0.0)
        self.keeps_past: bool = getattr(model, "keeps_past", True)
        self.is_final: bool = getattr(model, "is_final", False)
        if key not in model.model_fields:
            raise TypeError(f"{model.__name__} has no field {key!r} to name its records by")
        _KNOWN[self.collection] = self

    @cached_property
    def _migrations(self) -> dict[int, Migration]:
        found: dict[int, Migration] = {}
        for kind in reversed(self.model.__mro__):
            for value in vars(kind).values():
                function = value.__func__ if isinstance(value, staticmethod) else value
                to = getattr(function, _MIGRATES, None)
                if isinstance(to, int):
                    found[to] = function
        return found

    @property
    def status_field(self) -> str:
        """The field that transitions speak of; "" without one."""
        name: str = getattr(self.model, "status_field", "status")
        return name if name in self.model.model_fields else ""

    def id_of(self, record: M) -> str:
        """The record's id.

        Raises:
            InvalidRecordError: it is empty, or not a text.
        """
        found: object = getattr(record, self.key)
        if not isinstance(found, str) or not found or "\0" in found:
            raise InvalidRecordError(self.collection, str(found), f"{self.key} is text without NUL, and not {found!r}")
        return found

    def check(self, record: M, before: M | None) -> M:
        """The record, validated once more: pydantic does not look at what is assigned.

        Raises:
            InvalidRecordError: it does not validate. TransitionError: its status may not follow that of before.
        """
        id = self.id_of(record)
        if not isinstance(record, self.model):
            raise InvalidRecordError(
                self.collection, id, f"it is a {type(record).__name__}, not a {self.model.__name__}"
            )
        try:
            checked = self.model.model_validate(record.model_dump(warnings=False))
            for validate in self.validators:
                if validate(checked) is False:
                    raise InvalidRecordError(self.collection, id, f"{_name_of(validate)} refuses it")
        except ValidationError as error:
            raise InvalidRecordError(self.collection, id, describe(error)) from error
        except ValueError as error:
            raise InvalidRecordError(self.collection, id, str(error)) from error
        self._check_transition(id, checked, before)
        return checked

    def _check_transition(self, id: str, record: M, before: M | None) -> None:
        field, table = self.status_field, cast("Mapping[str, Any]", getattr(self.model, "transitions", {}))
        if before is None or not field:
            return
        old, new = str(getattr(before, field)), str(getattr(record, field))
        if old != new and old in table and new not in table[old]:
            raise TransitionError(self.collection, id, old, new, tuple(map(str, table[old])))

    def changes_status(self, record: M, before: M | None) -> bool:
        field = self.status_field
        return before is None or (bool(field) and getattr(record, field) != getattr(before, field))

    def dump(self, record: M) -> tuple[bytes, bool]:
        """The record's JSON, and whether it is compressed.

        Raises:
            InvalidRecordError: something in it has no form in JSON.
        """
        try:
            document = record.model_dump_json().encode("utf-8", "strict")
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InvalidRecordError(self.collection, self.id_of(record), str(error)) from error
        if (
            len(document) >= _PACK_FROM and self.plane == "store"
        ):  # in a commit only what changed is stored, and compressed
            packed = zstandard.compress(document, 3)
            if len(packed) < len(document) * 0.9:
                return packed, True
        return document, False

    def load(self, row: Row, id: str, document: bytes | None = None) -> M:
        """The record of a row, brought to the present schema.

        Args:
            document: of a sealed row, opened.

        Raises:
            NewerRecordError: a newer schema made it. InvalidRecordError: it does not fit the model.
        """
        document = row.document if document is None else document
        if row.is_packed:
            document = zstandard.decompress(document)
        self.require_known(row, id)
        try:
            if row.schema == self.version:
                return self.model.model_validate_json(document)
            return self.model.model_validate(self._migrated(row.schema, msgspec.json.decode(document), id))
        except ValidationError as error:
            raise InvalidRecordError(self.collection, id, describe(error)) from error

    def require_known(self, row: Row, id: str) -> None:
        """Raise NewerRecordError for a row that a newer schema made."""
        if row.schema > self.version:
            raise NewerRecordError(self.collection, id, row.schema, self.version)

    def load_many(self, rows: Sequence[tuple[str, Row]]) -> list[M]:
        """The records of rows that are not sealed. Raises what `load` raises."""
        if all(row.schema == self.version for _, row in rows):
            try:
                found = self._all(
                    b"[%b]" % b",".join([row.text() if row.is_packed else row.document for _, row in rows])
                )
            except ValidationError:
                found = []
            if len(found) == len(rows):
                return found
        return [self.load(row, id) for id, row in rows]  # says which one does not fit

    @cached_property
    def _all(self) -> Callable[[bytes], list[M]]:
        return TypeAdapter(list[self.model]).validate_json  # type: ignore[name-defined]  # it is a type at run time

    def _migrated(self, schema: int, document: Document, id: str) -> Document:
        for to in range(schema + 1, self.version + 1):
            change = self._migrations.get(to)
            if change is None:
                reason = f"it has schema {schema}, and nothing says how to make schema {to} of it"
                raise InvalidRecordError(self.collection, id, reason)
            document = change(document)
        return document


_KNOWN: Final[WeakValueDictionary[str, Schema[Any]]] = WeakValueDictionary()


def known_schema(collection: str) -> Schema[Any] | None:
    """The schema by which this process read or wrote the collection last; None: it does not have its model."""
    return _KNOWN.get(collection)


def describe(error: ValidationError) -> str:
    """What does not fit, in one line."""
    found = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors(include_url=False)]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _name_of(validate: Validator) -> str:
    return getattr(validate, "__name__", type(validate).__name__)
