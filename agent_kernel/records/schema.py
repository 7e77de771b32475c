"""What a record of a model is: its id, its form in the store, the states that it may take, and how older forms become newer ones.

Any pydantic model will do. `Record` adds what a model may say of itself as class variables; of a model that says nothing the
defaults hold.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property, partial
from html import escape
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)
from weakref import WeakSet

import msgspec
import zstandard
from pydantic import VERSION, BaseModel, JsonValue, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import PydanticSerializationError, from_json, to_json

from agent_kernel.errors import InvalidRecordError, NewerRecordError, RecordError, TransitionError
from agent_kernel.records.documents import (
    is_several,
    level_of_caller,
    require_choice,
    require_plain_function,
    require_result,
    require_takes,
    require_text,
    require_whole,
    require_yes_or_no,
    seconds,
    shorten,
    shown,
)
from agent_kernel.records.trees import Row

M = TypeVar("M", bound=BaseModel)
Plane: TypeAlias = Literal["branch", "store"]
Document: TypeAlias = dict[str, Any]
Migration: TypeAlias = Callable[[Document], Document]
Validator: TypeAlias = Callable[[Any], object]
_Pairs: TypeAlias = "list[tuple[object, object, object]]"
_Claim: TypeAlias = tuple[str, int, dict[str, str]]  # the name of a model, its schema version and its fields

_NO_STATUS: Final = "None"  # as text: of a record that is not there
_MIGRATES: Final = "__agent_kernel_migration__"
_MOST_VERSION: Final = 2**31
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_PARSER_DEEP: Final = 200  # levels of JSON that pydantic reads
_MOST_DEEP: Final = 150  # so that a value can be stored within others too
_HOLDERS: Final = ("state saved", "WorkflowCheckpoint")  # which hold what another record holds, a few levels deeper
_MORE_DEEP: Final = 10
TOO_DEEP: Final = f"a value in it holds itself, or is nested more than {_MOST_DEEP} levels deep"
_PACK_FROM: Final = 400  # bytes of JSON from which compressing pays
# A document has the names of the fields, whatever aliases they have. Before 2.11 only `populate_by_name` lets them be read.
_PACKAGE: Final = "agent_kernel."
_OWN: Final[dict[str, tuple[Plane, ...]]] = {
    **dict.fromkeys(
        ("AgentRecord", "CachedResult", "IndexProgress", "Source", "Source totals", "SpeechSession", "Task", "Team"),
        ("store",),
    ),
    **dict.fromkeys(("ToolRun", "Utterance", "lock"), ("store",)),
    **dict.fromkeys(("AgentCheckpoint", "AgentSnapshot", "Workflow", "WorkflowCheckpoint"), ("branch",)),
    **dict.fromkeys(
        ("list", "list part", "memory", "state", "state counts", "state saved", "tier", "tier order"),
        ("branch", "store"),
    ),
}  # what the package's own models take; these are not loaded for it
_BY_NAME: Final[dict[str, Any]] = (
    {"by_alias": True, "by_name": True} if tuple(map(int, VERSION.split(".")[:2])) >= (2, 11) else {}
)


class Record(BaseModel):
    """A model that says how its records are kept. All of it is optional; any other pydantic model takes the defaults.

    Attributes:
        id: names the record: text without NUL, of at most 400 bytes with the name of its collection.
        collection: where its records lie; by default the name of the class. Two models do not share one.
        schema_version: 1 or more. Raise it when fields change, and write a function marked `@ak.migration(version)`.
        transitions: from a status, which others may follow; any may follow a status without an entry. If every status that it
            names has an entry of its own, a record cannot have any other status. The entry for `None` lists the statuses that a new
            record may have, also one that is put anew after it was deleted; without this entry, any.
        status_field: the field that `transitions` speaks of.
        plane: `branch`: a checkout takes the records along. `store`: they lie beside all branches.
        ttl_s: seconds until a record is gone; None: it stays.
        coalesce_s: seconds for which updates wait to be stored together. What waits is lost if the process is killed (SIGKILL, or
            a SIGTERM that it does not handle); a change of the status, or one that expects a version, does not wait.
        keeps_past: whether the plane `store` keeps what a record was before a change. A branch keeps it always.
        is_final: whether records stay as they were put: a long one is then stored as one piece.
        is_growing: whether a final record of another model will hold what one holds.
    """

    id: str

    collection: ClassVar[str] = ""
    schema_version: ClassVar[int] = 1
    transitions: ClassVar[Any] = {}
    status_field: ClassVar[str] = "status"
    plane: ClassVar[Plane] = "branch"
    ttl_s: ClassVar[float | None] = None
    coalesce_s: ClassVar[float] = 0.0
    keeps_past: ClassVar[bool] = True
    is_final: ClassVar[bool] = False
    is_growing: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        settings = sorted(Record.__class_vars__ & cls.model_fields.keys())
        if settings:
            raise TypeError(
                f"{settings[0]} of {cls.__name__} would be a field of each record, and says how they are kept: write "
                f"{settings[0]} = … without a type"
            )

    def _repr_html_(self) -> str:
        """A table of its fields, in a notebook."""
        names = [*type(self).model_fields, *type(self).model_computed_fields, *(self.model_extra or {})]
        return as_rows(
            type(self).__name__, ["field", "value"], [[name, getattr(self, name)] for name in names], self.id
        )


def migration(to: int) -> Callable[[Migration], staticmethod[[Document], Document]]:
    """Mark a function of a model that makes a document of schema `to` out of one of the schema before it.

    >>> class Note(Record):
    ...     schema_version = 2
    ...     text: str
    ...
    ...     @migration(2)
    ...     def rename(old):
    ...         return {"id": old["id"], "text": old["body"]}
    >>> from agent_kernel.records.trees import Row
    >>> Schema(Note).load(Row(version=1, time_ns=0, document=b'{"id": "a", "body": "hello"}'), "a").text
    'hello'

    Raises:
        TypeError, ValueError: `to` is no schema that something can be migrated to.
    """
    if require_whole(to, "a schema to migrate to") < 2:
        raise ValueError(f"a migration makes schema 2 or a later one, not {to!r}")

    def mark(function: Migration) -> staticmethod[[Document], Document]:
        require_plain_function(function, "a migration")
        try:
            setattr(function, _MIGRATES, to)
        except (AttributeError, TypeError):
            raise TypeError(f"a migration is a function that you define, not {shown(function)}") from None
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
        if not isinstance(model, type) or not issubclass(model, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"repo.records takes a pydantic model, not {shown(model)}")
        _require_complete(model)
        self.model: type[M] = model
        self.key = key
        self.validators = validators
        self.collection: str = require_text(
            model.__name__ if getattr(model, "collection", "") == "" else getattr(model, "collection"),  # noqa: B009
            f"collection of {model.__name__}",
        )
        self.version: int = getattr(model, "schema_version", 1)
        self.plane: Plane = getattr(model, "plane", "branch") if plane is None else plane
        require_plane(self.plane)
        self.ttl_s: float | None = getattr(model, "ttl_s", None)
        self.coalesce_s: float = getattr(model, "coalesce_s", 0.0)
        self.keeps_past: bool = getattr(model, "keeps_past", True)
        self.is_final: bool = getattr(model, "is_final", False)
        self.is_growing: bool = getattr(model, "is_growing", False)
        if require_text(key, "key") not in model.model_fields:
            raise TypeError(f"{model.__name__} has no field {key!r} to name its records by")
        self._require_sound()
        _KNOWN.setdefault(self.collection, WeakSet()).add(self)

    def _require_sound(self) -> None:
        """Raise for what a model cannot say of its records."""
        name = self.model.__name__
        if "\0" in self.collection:  # which ends it in a key
            raise ValueError(f"collection of {name} has a NUL: {self.collection!r}")
        if type(self.version) is not int or not 1 <= self.version <= _MOST_VERSION:
            raise ValueError(f"schema_version of {name} is 1 or more, and not {shown(self.version)}")
        if self.ttl_s is not None:
            seconds(self.ttl_s, f"ttl_s of {name}", is_zero_allowed=False)
        if self.coalesce_s is not None:  # pyright: ignore[reportUnnecessaryComparison]  # a model may say anything
            seconds(self.coalesce_s, f"coalesce_s of {name}")
        for flag in (
            "keeps_past",
            "is_final",
            "is_growing",
        ):  # they are stored with each record, which could not be read any more
            require_yes_or_no(getattr(self, flag), f"{flag} of {name}")
            setattr(self, flag, bool(getattr(self, flag)))
        require_text(getattr(self.model, "status_field", "status"), f"status_field of {name}")
        if getattr(self.model, "transitions", None) and not self.status_field:
            field = getattr(self.model, "status_field", "status")
            raise TypeError(f"{name} has transitions, and no field {field!r} that they could speak of")
        table = getattr(self.model, "transitions", None)
        require_table({} if table is None else table, f"transitions of {name}")
        _require_statuses(table or {}, f"transitions of {name}")
        _require_migrations(self.model, self.version)
        self._warn_of_gaps()
        for validate in self.validators:
            require_validator(validate)

    def _warn_of_gaps(self) -> None:
        """Say which records no migration brings to the present schema, though others are brought there."""
        gaps = sorted(set(range(2, self.version + 1)) - self._migrations.keys()) if self._migrations else []
        if gaps and self.model not in _WARNED:
            _WARNED.add(self.model)
            missing = ", ".join(map(str, gaps))
            warnings.warn(
                f"{self.model.__name__} has schema_version {self.version} and no migration to schema {missing}: records of schema "
                f"{gaps[-1] - 1} and before cannot be read; write a function marked @ak.migration({gaps[-1]})",
                UserWarning,
                stacklevel=level_of_caller(),
            )

    def claim(self, taken: dict[tuple[str, str], _Claim]) -> None:
        """Take the collection for the model, among those that a program has of one store.

        Raises:
            TypeError: it is another model's, whose records would be overwritten.
        """
        model, key = self.model, (self.collection, self.plane)
        fields = {name: repr(field.annotation) for name, field in model.model_fields.items()}
        mine = (f"{model.__module__}.{model.__qualname__}", self.version, fields)
        other = taken.setdefault(key, mine)
        is_own = model.__module__.startswith(_PACKAGE)
        owner = _PACKAGE.rstrip(".") if self.plane in _OWN.get(self.collection, ()) and not is_own else ""
        if not owner and not is_own and other[0] != mine[0] and other[1] == mine[1] and other[2] != fields:
            owner = other[0]
        if owner:
            raise TypeError(
                f"the collection {self.collection!r} has records of {owner}: give {mine[0]} another one (`collection = …`)"
            )
        taken[key] = mine

    def unknown_fields(self, document: bytes) -> list[str]:
        """What a stored document has that the model would drop. Models of this package change with their releases."""
        model = self.model
        if model.__module__.startswith(_PACKAGE) or model.model_config.get("extra") == "allow":
            return []
        try:
            stored = msgspec.json.decode(document, type=dict[str, msgspec.Raw])  # reads no value
        except msgspec.DecodeError:  # it has infinity, which JSON has not
            stored = from_json(document)
        return sorted(stored.keys() - model.model_fields.keys() - model.model_computed_fields.keys())

    def make(self, fields: Mapping[str, object]) -> M:
        """A record of values by the names of their fields, or their aliases. Raises: InvalidRecordError: they do not fit."""
        id = str(fields.get(self.key, ""))
        if unknown := self._dropped(fields):
            raise InvalidRecordError(self.collection, id, f"it has no field {', '.join(unknown)}")
        try:
            return self.model.model_validate(fields, **_BY_NAME)
        except ValidationError as error:
            raise InvalidRecordError(self.collection, id, describe(error)) from error

    def _dropped(self, fields: Mapping[str, object]) -> list[str]:
        """The names of values that the model would leave out without a word."""
        model = self.model
        validators = model.__pydantic_decorators__.model_validators.values()
        if model.model_config.get("extra") in ("allow", "forbid") or any(
            one.info.mode != "after" for one in validators
        ):
            return []  # they are kept, or refused by the model, or made into others
        known = set(model.model_fields)
        for field in model.model_fields.values():
            aliases = (field.alias, field.validation_alias)
            if any(one is not None and not isinstance(one, str) for one in aliases):  # a way into what is given
                return []
            known.update(one for one in aliases if isinstance(one, str))
        return sorted(fields.keys() - known)

    def require_field(self, name: str) -> None:
        """Raise ValueError if the model has no such field."""
        model = self.model
        is_known = name in model.model_fields or name in model.model_computed_fields or hasattr(model, name)
        if not is_known and model.model_config.get("extra") != "allow":
            raise ValueError(f"{self.collection} has no field {name!r}")

    def require_value(self, name: str, value: object) -> object:
        """The value as the field has it: of an enum its member.

        Raises:
            ValueError: a field never has this value: it is not one of few, or a dict where no dict can be.
        """
        field = self.model.model_fields.get(name)
        choices = () if field is None else _choices_of(field.annotation)
        if (
            field is not None and _is_mapping(value) and not _takes_dict(field.annotation)
        ):  # as other databases take one: {"gt": 2}
            raise ValueError(
                f"{name} of {self.collection} never equals a dict such as {value!r}; give a function that compares: "
                f"where=lambda one: one.{name} > 2"
            )
        if not choices or value in choices:
            return value
        for one in choices:
            if isinstance(one, Enum) and one.value == value:
                return one
        shown = ", ".join(repr(getattr(one, "value", one)) for one in choices)
        raise ValueError(f"{name} of {self.collection} is one of {shown}, and not {value!r}")

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
            reason = f"its {self.key} is {shown(found)}, and must be text that is not empty and has no NUL"
            raise InvalidRecordError(self.collection, found if isinstance(found, str) else shown(found), reason)
        return found

    def check(self, record: M, before: M | None) -> M:
        """The record, validated once more: pydantic does not look at what is assigned.

        Raises:
            InvalidRecordError: it does not validate. TransitionError: its status may not follow that of before.
        """
        self.require_model(record)
        id = self.id_of(record)
        self._require_no_other_values(record, id)
        with self._named_depth(id):
            try:
                checked = self.model.model_validate(record.model_dump(warnings=False, round_trip=True), **_BY_NAME)
            except ValidationError as error:
                raise InvalidRecordError(self.collection, id, describe(error)) from error
            if not _equals(record, checked) and (omission := find_omission(record, checked)):
                raise InvalidRecordError(self.collection, id, omission)
        self.validate(checked)
        self._check_transition(id, checked, before)
        return checked

    def _require_no_other_values(self, record: M, id: str) -> None:
        """Raise InvalidRecordError for what `model_copy(update=…)` set that is no field, and that pydantic would drop."""
        values, fields = vars(record), self.model.model_fields
        if len(values) > len(fields):
            # A cached property is kept there too, and what a model hides behind an underscore.
            names = [name for name in values if name not in fields and not name.startswith("_")]
            other = [name for name in names if not hasattr(self.model, name)]
            if other:
                raise InvalidRecordError(self.collection, id, f"it has no field {', '.join(sorted(other))}")

    @contextmanager
    def _named_depth(self, id: str) -> Generator[None]:
        """What is raised for a value that holds itself, or is nested without end, says so."""
        try:
            yield
        except RecursionError as error:
            raise InvalidRecordError(self.collection, id, TOO_DEEP) from error

    def require_model(self, record: object, id: str = "") -> None:
        """Raise InvalidRecordError for what is no record of the model."""
        if not isinstance(record, self.model):
            name = id or str(_value_of(record, self.key))
            kind = "None" if record is None else f"of the type {type(record).__name__}"
            reason = f"it is {kind}, and must be a {self.model.__name__}"
            raise InvalidRecordError(self.collection, name, reason)

    def validate(self, record: M) -> None:
        """Raise InvalidRecordError where a validator refuses the record."""
        for validate in self.validators:
            require_valid(self.collection, self.id_of(record), validate, record)

    @cached_property
    def _transitions(self) -> dict[str, tuple[str, ...]]:
        table: Mapping[object, Sequence[object]] = getattr(self.model, "transitions", None) or {}
        return {_status_text(old): tuple(map(_status_text, new)) for old, new in table.items()}

    @cached_property
    def _statuses(self) -> frozenset[str]:
        """All that there are, where the transitions say so."""
        table = self._transitions
        follow = {status for new in table.values() for status in new}
        if not follow or not follow <= table.keys():
            return frozenset()
        default = self.model.model_fields[self.status_field].get_default(call_default_factory=False)
        from_nothing = {_NO_STATUS} - follow - {_status_text(default)}
        return frozenset({*table, _status_text(default)} - from_nothing)

    def _check_transition(self, id: str, record: M, before: M | None) -> None:
        field, table = self.status_field, self._transitions
        if not field or not table:
            return
        new = _status_text(getattr(record, field))
        if self._statuses and new not in self._statuses:
            known = ", ".join(status for status in table if status in self._statuses)
            raise InvalidRecordError(self.collection, id, f"{field} is one of {known}, not {new!r}")
        old = _NO_STATUS if before is None else _status_text(getattr(before, field))
        if old != new and old in table and new not in table[old]:
            is_own = self.model.__module__.startswith(_PACKAGE)
            way: str = getattr(before, "way_on", "") if is_own else ""
            if way and table[old]:
                way = f"only {', '.join(table[old])} can follow; {way}"
            raise TransitionError(self.collection, id, None if before is None else old, new, table[old], way)

    def changes_status(self, record: M, before: M | None) -> bool:
        """Whether a change of the record is one that does not wait."""
        field = self.status_field
        return before is None or (bool(field) and getattr(record, field) != getattr(before, field))

    def dump(self, record: M) -> tuple[bytes, bool]:
        """The record's JSON, and whether it is compressed.

        Raises:
            InvalidRecordError: something in it has no form in JSON.
        """
        with self._named_depth(id := self.id_of(record)):
            try:
                document = self._faithful(record)
            except (PydanticSerializationError, UnicodeEncodeError) as error:
                reason = TOO_DEEP if _is_endless(error) else _find_binary(record) or str(error)
                raise InvalidRecordError(self.collection, id, reason) from error
        extra = _MORE_DEEP if self.collection in _HOLDERS else 0
        if not self.is_growing and is_too_deep(document, extra):  # of a list, each item was looked at
            raise InvalidRecordError(self.collection, id, TOO_DEEP)
        if (
            len(document) >= _PACK_FROM and self.plane == "store"
        ):  # in a commit only what changed is stored, and compressed
            packed = zstandard.compress(document, 3)
            if len(packed) < len(document) * 0.9:
                return packed, True
        return document, False

    def _faithful(self, record: M) -> bytes:
        """JSON that is read back as the record is. Where pydantic's own is not (a secret, NaN), JSON with these as they are."""
        document = record.model_dump_json(round_trip=True).encode("utf-8", "strict")
        different = "" if self._is_exact else self._difference(record, document)
        if different:
            revealed = _revealed(record.model_dump(round_trip=True, warnings=False))
            document = self._plain_json(revealed)
            different = self._difference(record, document)
        if different:
            reason = f"{different} is not the same when it is read back from JSON"
            raise InvalidRecordError(self.collection, self.id_of(record), reason)
        return document

    def _plain_json(self, document: object) -> bytes:
        """JSON of plain values as the model reads them. Infinity and NaN, which JSON has not, stand as they are."""
        config = self.model.model_config
        return to_json(
            document,
            inf_nan_mode="constants",
            bytes_mode=config.get("ser_json_bytes", "utf8"),
            timedelta_mode=config.get("ser_json_timedelta", "iso8601"),
        )

    @cached_property
    def _is_exact(self) -> bool:
        """Whether all that the model takes is the same when it is read back: then nobody need look."""
        model = self.model
        own = model.__pydantic_decorators__
        exact: list[object] = [str, int, bool, dict[str, int]]
        if model.model_config.get("ser_json_inf_nan") == "constants":
            exact += [float, JsonValue, list[JsonValue], dict[str, JsonValue]]
        if model.model_config.get("extra") == "allow":
            return False  # a field that nobody named may hold anything
        fields = (field.annotation for field in model.model_fields.values())
        return not own.field_serializers and not own.model_serializers and all(one in exact for one in fields)

    def _difference(self, record: M, document: bytes) -> str:
        """The way to the first value that is read back as another one; "" if none is."""
        try:
            again = self.model.model_validate_json(document, **_BY_NAME)
        except ValidationError as error:
            return ".".join(map(str, error.errors(include_url=False)[0]["loc"])) or "it"
        return "" if _equals(again, record) else _different(record, again, "")

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
                return self.model.model_validate_json(document, **_BY_NAME)
            found = self._validated(self._migrated(row.schema, from_json(document), id))
            if (name := getattr(found, self.key)) != id:
                raise InvalidRecordError(self.collection, id, f"its migrations made {name!r} of its {self.key}")
            return found
        except ValidationError as error:
            raise InvalidRecordError(self.collection, id, describe(error)) from error

    def _validated(self, migrated: Document) -> M:
        """A record of a migrated document: read as what is stored is read, also by a strict model, or bytes in base64."""
        try:
            document = self._plain_json(_revealed(migrated))
        except (
            PydanticSerializationError,
            UnicodeEncodeError,
        ):  # a migration may return objects that JSON does not have
            return self.model.model_validate(migrated, **_BY_NAME)
        return self.model.model_validate_json(document, **_BY_NAME)

    def renew(self, row: Row, id: str) -> Row:
        """The row as the present schema has it. Raises what `load` raises."""
        if row.schema == self.version:
            return row
        document, is_packed = self.dump(self.load(row, id))
        return msgspec.structs.replace(row, schema=self.version, document=document, is_packed=is_packed)

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
        adapter: TypeAdapter[list[M]] = TypeAdapter(list[self.model])  # type: ignore[name-defined]  # it is a type at run time
        return partial(adapter.validate_json, **_BY_NAME)

    def _migrated(self, schema: int, document: Document, id: str) -> Document:
        for to in range(schema + 1, self.version + 1):
            change = self._migrations.get(to)
            if change is None:
                reason = f"it has schema {schema}, and nothing says how to make schema {to} of it"
                raise InvalidRecordError(self.collection, id, reason)
            try:
                document = change(document)
            except RecordError:
                raise
            except Exception as error:
                reason = f"its migration to schema {to} raised {type(error).__name__}: {error}"
                raise InvalidRecordError(self.collection, id, reason) from error
        return document


_WARNED: Final[WeakSet[type[BaseModel]]] = WeakSet()


_KNOWN: Final[dict[str, WeakSet[Schema[Any]]]] = {}


def known_schemas(collection: str) -> list[Schema[Any]]:
    """The schemas by which this process reads or writes the collection. None: it does not have its model."""
    return list(_KNOWN.get(collection, ()))


def _status_text(status: object) -> str:
    return str(status.value if isinstance(status, Enum) else status)


def find_omission(original: object, restored: object, way: str = "") -> str:
    """What pydantic's own dump loses: fields that are excluded, those that only a subclass has, a model where anything may be, keys."""
    if _is_dict(restored) and (isinstance(original, BaseModel) or is_dataclass(original)):
        return f"{way or 'it'} is a {type(original).__name__}, and would come back as a dict: put one there, or give the field its type"
    if isinstance(original, BaseModel) and isinstance(restored, BaseModel):
        if type(original).model_fields.keys() - type(restored).model_fields.keys():
            return f"{way or 'it'} is a {type(original).__name__}, of which only what a {type(restored).__name__} has can be stored: it would be lost"
        for name, field in type(restored).model_fields.items():
            one, other = getattr(original, name, None), getattr(restored, name, None)
            if field.exclude and _different(one, other, name):
                return (
                    f"{_way(way, name)} is left out of what is stored (exclude=True), and has a value: it would be lost"
                )
            if omission := find_omission(one, other, _way(way, name)):
                return omission
    if found := _find_other_key(original, restored, way):
        return found
    return next(
        (
            omission
            for one, other, at in _pairs(original, restored)
            if (omission := find_omission(one, other, _way(way, at)))
        ),
        "",
    )


def _is_dict(value: object) -> bool:
    return type(value) is dict


def _find_binary(value: object, way: str = "") -> str:
    """Where a value has bytes that are no text, which pydantic puts into JSON only where the model says how; "" if it has none."""
    if isinstance(value, bytes | bytearray):
        try:
            value.decode()
        except UnicodeDecodeError:
            return f"{way} is bytes, and not text: give the model ser_json_bytes='base64' and val_json_bytes='base64'"
    parts: object = dict(value) if isinstance(value, BaseModel) else value
    return next((found for one, _, at in _pairs(parts, parts) if (found := _find_binary(one, _way(way, at)))), "")


def _find_other_key(original: object, restored: object, way: str) -> str:
    """Where a dict has a key that is bytes, which comes back as text; "" if none has."""
    if not isinstance(original, dict) or not isinstance(restored, dict):
        return ""
    keys = cast("dict[object, object]", original).keys() - cast("dict[object, object]", restored).keys()
    found = next((key for key in keys if isinstance(key, bytes | bytearray)), None)
    return "" if found is None else f"{way or 'it'} has the key {shown(found)}, which would come back as text: use text"


def _different(one: object, other: object, way: str) -> str:
    """The way to the first difference; "" where the two are equal. NaN equals NaN here."""
    if one is other:
        return ""
    if isinstance(one, BaseModel) and type(one) is type(other):
        names = {**vars(one), **(one.model_extra or {})}
        pairs: _Pairs = [(getattr(one, name, None), getattr(other, name, None), name) for name in names]
    elif type(one) is type(other) and type(one) in (list, tuple, dict):
        if len(cast("Sequence[object]", one)) != len(cast("Sequence[object]", other)):
            return way or "it"
        pairs = _pairs(one, other)
    else:
        return "" if _is_equal(one, other) else way or "it"
    return next((found for mine, new, at in pairs if (found := _different(mine, new, _way(way, at)))), "")


def _equals(one: object, other: object) -> bool:
    """Whether all values are equal; False also where that cannot be said at once (of arrays, say)."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - the value's own code
        return False


def _is_equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if type(one) is type(other) and "__eq__" not in {name for kind in type(one).__mro__[:-1] for name in vars(kind)}:
        return True  # it is the same as nothing but itself
    if isinstance(one, datetime) and isinstance(other, datetime) and one.tzinfo and other.tzinfo:
        # In the hour that a clock goes through twice, Python says that times of two zones are never equal.
        return one.astimezone(UTC) == other.astimezone(UTC)
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - the value's own code, which does not say
        return type(one) is type(other)


def _pairs(one: object, other: object) -> _Pairs:
    """The values that stand at the same place of both, and the place."""
    if isinstance(one, dict) and isinstance(other, dict):
        mine, theirs = cast("dict[object, object]", one), cast("dict[object, object]", other)
        return [(value, theirs.get(key, _NOTHING), key) for key, value in mine.items()]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        both = zip(cast("Sequence[object]", one), cast("Sequence[object]", other), strict=False)
        return [(mine, new, number) for number, (mine, new) in enumerate(both)]
    return []


_NOTHING: Final = object()


def _way(start: str, step: object) -> str:
    return f"{start}.{step}" if start else str(step)


def _revealed(value: Any) -> Any:
    """A document in which secrets stand as they are."""
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _revealed(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple | set | frozenset):
        return [_revealed(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _place(steps: tuple[int | str, ...]) -> str:
    return shorten(".".join(map(str, steps)) or "it")


def is_too_deep(document: bytes, extra: int = 0) -> bool:
    """Whether JSON is nested so deep that it could not be read back, also within what is stored as a whole.

    Args:
        extra: levels that it may have more than others.
    """
    if _is_flat(document):
        return False
    more = _PARSER_DEEP - _MOST_DEEP - extra
    try:
        from_json(b"".join((b"[" * more, document, b"]" * more)), cache_strings=False)
    except ValueError:
        return True
    return False


def _is_flat(document: bytes) -> bool:
    """Whether it is surely not nested too deep, which is seen without parsing it: each round takes away one or two levels."""
    brackets = document.translate(None, _NOT_BRACKETS)
    for _ in range(_MOST_DEEP // 2):
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):  # there are none, or a text has some that do not match
            break
        brackets = fewer
    return not brackets


def _is_endless(error: Exception) -> bool:
    said = str(error).removeprefix("Error serializing to JSON: ValueError: ")
    return said.startswith(("Circular reference detected", "Maximum serialization depth"))


def describe(error: ValidationError) -> str:
    """What does not fit, in one line."""
    errors = error.errors(include_url=False)
    if any(one["type"] == "recursion_loop" for one in errors):
        return TOO_DEEP
    found = [f"{_place(one['loc'])}: {one['msg']}" for one in errors]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _require_complete(model: type[BaseModel]) -> None:
    """Raise TypeError for a model with an annotation that names what is not there: nothing can be made of it."""
    if model.__pydantic_complete__:
        return
    try:
        model.model_rebuild(_parent_namespace_depth=level_of_caller() + 1)
    except PydanticUndefinedAnnotation as error:
        raise TypeError(
            f"a field of {model.__name__} has a type that is not defined, {error.name!r}: define it, or give the field another type"
        ) from error


def require_plane(plane: object) -> None:
    """Raise ValueError for what is no plane."""
    require_choice(plane, "a plane", ("branch", "store"))


def require_validator(validate: object, what: str = "a validator") -> None:
    """Raise TypeError for what cannot be called with one value, or would have to be awaited."""
    if not callable(validate):
        raise TypeError(f"{what} is a function, not {shown(validate)}")
    require_plain_function(validate, "validation")
    require_takes(validate, what, 1)


def require_valid(collection: str, id: str, validate: Validator, value: object) -> None:
    """Raise InvalidRecordError where a validator refuses the value: it returns False, or raises whatever it likes."""
    name = getattr(validate, "__name__", type(validate).__name__)
    try:
        is_refused = _is_false(require_result(validate(value), f"the validator {name}"))
    except RecordError:
        raise
    except ValidationError as error:
        raise InvalidRecordError(collection, id, describe(error)) from error
    except Exception as error:
        raise InvalidRecordError(collection, id, reason_of(error, name)) from error
    if is_refused:
        raise InvalidRecordError(collection, id, f"{name} refuses it")


def _is_false(result: object) -> bool:
    """Whether it is False, or that of numpy, which comes out of comparing its numbers."""
    return type(result).__name__ in ("bool", "bool_") and not result


def reason_of(error: Exception, name: str) -> str:
    """What a function of a program says of a value that it cannot take."""
    text = str(error)
    if text and isinstance(error, ValueError | TypeError | AttributeError | AssertionError):
        return text
    return f"{name} raised {type(error).__name__}" + (f": {text}" if text else "")


def require_table(table: object, name: str) -> None:
    """Raise TypeError for transitions that do not list what follows each value: of a text, each letter would be one."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{name} is a dict, from a value to the list of those that may follow it, not {shown(table)}")
    for old, after in cast("Mapping[object, object]", table).items():
        if not is_several(after) or not isinstance(after, Collection):
            raise TypeError(
                f"{name}: what follows {shown(old)} is a list of values, not {shown(after)}: write [{shown(after)}]"
            )


def _require_statuses(table: Mapping[object, Collection[object]], name: str) -> None:
    """Raise TypeError for a status that no field of a record has as it is written here."""
    for one in (status for old, after in table.items() for status in (old, *after)):
        if one is not None and not isinstance(one, str | int | float | Enum):
            raise TypeError(f"{name}: a status is text, a number or a member of an enum, not {shown(one)}")


def _require_migrations(model: type[BaseModel], version: int) -> None:
    """Raise where a class has two migrations to one schema, or one to a schema that it does not have."""
    for kind in model.__mro__:
        found: dict[int, str] = {}
        for name, value in vars(kind).items():
            to = getattr(getattr(value, "__func__", value), _MIGRATES, None)
            if not isinstance(to, int):
                continue
            if to in found:
                raise TypeError(f"{kind.__name__} has two migrations to schema {to}: {found[to]} and {name}")
            if to > version:
                reason = f"has a migration to schema {to}, and its schema_version is {version}: raise it to {to}"
                raise ValueError(f"{kind.__name__} {reason}")
            found[to] = name


def _value_of(record: object, key: str) -> object:
    return cast("dict[str, object]", record).get(key, "") if isinstance(record, dict) else getattr(record, key, "")


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _takes_dict(kind: object) -> bool:
    """Whether a field of this type may equal a dict; also where its type does not say."""
    origin = get_origin(kind)
    if origin is Literal or kind is None:
        return False
    if origin is Annotated:
        return _takes_dict(get_args(kind)[0])
    if origin in (Union, UnionType):
        return any(map(_takes_dict, get_args(kind)))
    one = kind if origin is None else origin
    if one is Any or not isinstance(one, type):
        return True
    try:
        return issubclass(one, Mapping) or issubclass(dict, one)
    except TypeError:  # a protocol, which does not say
        return True


def _choices_of(kind: object) -> tuple[object, ...]:
    """All values that a type has, where these are few: of literals, enums, None and unions of them; else nothing."""
    if kind is None or kind is NoneType:
        return (None,)
    if isinstance(kind, type):
        return tuple(kind) if issubclass(kind, Enum) else ()
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return arguments
    if origin is Annotated:
        return _choices_of(arguments[0])
    if origin in (Union, UnionType):
        parts = [_choices_of(one) for one in arguments]
        return tuple(one for part in parts for one in part) if all(parts) else ()
    return ()


# -- records, lists and states as tables, for a notebook


ROWS: Final = 50
_MOST_COLUMNS: Final = 12
_CELL_TEXT: Final = 80  # characters of a cell
_ALIGN_LEFT: Final = ' style="text-align:left"'
_ALIGN_RIGHT: Final = ' style="text-align:right;white-space:nowrap"'
_CAPTION: Final = ' style="text-align:left;white-space:nowrap;padding:4px 0"'
_QUIET: Final = ' style="opacity:0.7"'


def as_table(title: str, records: Sequence[BaseModel], count: int | None = None) -> str:
    """HTML of the first records, a column for each field: numbers to the right, all else to the left. Everything is escaped.

    Args:
        count: how many records there are, where more than these.
    """
    many = len(records) if count is None else count
    count_text = f"{many:,} record{'s' if many != 1 else ''}"
    names = list(type(records[0]).model_fields) if records else []
    rows = [[getattr(record, name) for name in names] for record in records[:ROWS]]
    return as_rows(title, names, rows, count_text, [f"{many - ROWS:,} more records"] if many > ROWS else [])


def as_rows(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    about: str = "",
    omitted: Sequence[str] = (),
    note: str = "",
) -> str:
    """HTML of rows under the names of their columns, as `as_table` says.

    Args:
        about: what to say beside the title. `omitted`: what is not shown. `note`: what to say below.
    """
    head = f"<caption{_CAPTION}><b>{escape(title)}</b> <span{_QUIET}>{escape(about)}</span></caption>"
    below = f"<div{_QUIET}>{escape(note)}</div>" if note else ""
    if not rows:
        return f"<table>{head}</table>{below}"
    shown = columns[:_MOST_COLUMNS]
    sides = [_ALIGN_RIGHT if _are_numbers([row[at] for row in rows]) else _ALIGN_LEFT for at in range(len(shown))]
    names = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(shown, sides, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{side}>{_html_cell(value)}</td>' for value, side in zip(row, sides, strict=False))}</tr>"
        for row in rows
    )
    omitted = [*omitted, *([f"{len(columns) - len(shown):,} more fields"] if len(columns) > len(shown) else [])]
    more = f"<div{_QUIET}>and {' and '.join(omitted)}</div>" if omitted else ""
    return f"<table>{head}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}{below}"


def _are_numbers(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)


def _html_cell(value: object) -> str:
    text = _cell_text(value)
    if len(text) > _CELL_TEXT:
        return f'<span title="{escape(text[:2_000])}">{escape(text[: _CELL_TEXT - 1])}…</span>'
    return escape(text)


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, list | tuple | set | frozenset):
        items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # of whatever
        if all(isinstance(one, str | int | float) for one in items):
            return ", ".join(map(str, items))
        value = items
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
