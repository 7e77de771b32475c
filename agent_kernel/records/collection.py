"""`Records`: the records of one model as a mapping, with compare-and-swap, time to live, history, watching and users.

Every change is one call of `Line.change`, which calls its function again where somebody else was faster. So what is checked in
such a function (the version that was expected, the transition, the owner) holds at the moment of storing.
"""

from __future__ import annotations

import contextvars
import fnmatch
import functools
import heapq
import itertools
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, ItemsView, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar, cast

import msgspec
from pydantic import BaseModel
from xxhash import xxh3_128_digest

from agent_kernel.errors import (
    InvalidRecordError,
    RecordError,
    RecordNotFoundError,
    SealedRecordError,
    StaleRecordError,
    TransactionConflictError,
)
from agent_kernel.quiet import Repeated, uncollected
from agent_kernel.records.documents import (
    call_with,
    checks_arguments,
    functions,
    not_negative,
    require_mapping,
    require_text,
    require_watcher,
    require_whole,
    seconds,
    shown,
)
from agent_kernel.records.lines import (
    WHOLE_S,
    BranchLine,
    Edit,
    Line,
    PastLine,
    Pending,
    StoreLine,
    last_deleted_version,
    line_of,
    note_deleted_version,
)
from agent_kernel.records.schema import ROWS, Plane, Schema, Validator, as_rows, as_table
from agent_kernel.records.trees import Row, Version, decode_row
from agent_kernel.repository import Author, ObjectId, Repository, hex_of, person

if TYPE_CHECKING:
    from agent_kernel.records.documents import Seal, Secret
    from agent_kernel.records.lines import Look

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
Where: TypeAlias = "Mapping[str, object] | Callable[[Any], object]"
Order: TypeAlias = "str | Callable[[Any], Any]"

_POLL_S: Final = 0.2
MOST_KEY: Final = 400  # bytes of a key that every engine takes, with what stands before and behind it
_ANY: Final = "*"
_PAGE: Final = 1_000  # records that are read together
_FEW: Final = 8


class Change(msgspec.Struct, Generic[T], frozen=True):
    """What a record was before and after a change; None where it was not there."""

    id: str
    old: T | None
    new: T | None
    version: int
    time_ns: int
    actor: str = ""
    commit: str = ""  # 64 digits, where the change is part of a commit


@checks_arguments
class Records(Mapping[str, M]):
    """The records of one model. Safe from several threads, coroutines and processes.

    >>> import agent_kernel as ak
    >>> class Note(ak.Record):
    ...     text: str
    >>> notes = ak.open("memory:").records(Note)
    >>> _ = notes.put(Note(id="a", text="draft"))
    >>> notes.update("a", text="final").text
    'final'
    >>> {change.version: change.new.text for change in notes.history("a")}
    {2: 'final', 1: 'draft'}
    """

    def __init__(
        self,
        repo: Repository,
        model: type[M],
        *,
        key: str = "id",
        plane: Plane | None = None,
        branch: str | None = None,
        validators: Sequence[Validator] = (),
        secret: Secret | Seal | None = None,
        actor: str = "",
        index: Callable[[M], str | Sequence[str] | None] | None = None,
        index_marker: str = "",
        at: ObjectId | None = None,
        time_ns: int | None = None,
    ) -> None:
        self.repo = repo
        if branch is not None:
            require_text(branch, "branch")
        require_text(actor, "actor")
        validators = functions(validators, "validators")
        self.schema: Schema[M] = Schema(model, key=key, validators=validators, plane=plane)
        self.schema.claim(repo.__dict__.setdefault("_record_models", {}))
        self._branch = branch
        self._actor = actor
        self._index = index
        self._index_marker = (
            index_marker  # of an index that is newer than the first records: whether these have entries
        )
        self._past = PastLine(repo, at) if at is not None and self.schema.plane == "branch" else None
        self._time_ns = time_ns  # of the store's plane: the moment that is looked at
        self._options = {
            "key": key,
            "plane": plane,
            "branch": branch,
            "validators": validators,
            "actor": actor,
            "index": index,
            "index_marker": index_marker,
        }
        self._seal: Seal | None = None
        if secret is not None:
            from agent_kernel.records.documents import Seal

            self._seal = secret if isinstance(secret, Seal) else Seal(secret)

    def __repr__(self) -> str:
        return f"<Records of {self.schema.collection} in {self.repo.store.url}>"

    def _repr_html_(self) -> str:
        """A table, in a notebook. Where a record cannot be read, it says why."""
        try:
            return as_table(self.schema.collection, self.find(limit=ROWS), len(self))
        except RecordError as error:
            many, ids = len(self), [[id] for id in itertools.islice(self.ids(), ROWS)]
            omitted = [f"{many - ROWS:,} more records"] if many > ROWS else []
            about = f"{many:,} record{'s' if many != 1 else ''}"
            return as_rows(self.schema.collection, [self.schema.key], ids, about, omitted, str(error))

    # -- reading

    def __getitem__(self, id: str) -> M:
        """The record.

        Raises:
            RecordNotFoundError: no record has this id. NewerRecordError, SealedRecordError: it cannot be read.
        """
        return self.require(id)

    def require(self, id: str, *, user: str = "") -> M:
        """The record, where it is this user's; raises RecordNotFoundError else."""
        found: M | None = self.get(id, user=user)
        if found is None:
            raise RecordNotFoundError(self.schema.collection, id)
        return found

    def get(self, id: str, default: Any = None, *, user: str = "") -> Any:
        """The record, or `default` where nobody put one, or it is another user's. Raises: TypeError: the user is no text."""
        row = self._row(id)
        return default if row is None or not _is_of(row, user) else self.load(row, id)

    def version(self, id: str, *, user: str = "") -> int:
        """A number that grows with each change of the record; 0: it is not there, or another user's. `expect` takes it.

        The first one is 1, or more where records of the collection were deleted: a number of one of these never comes again.
        """
        row = self._row(id)
        return 0 if row is None or not _is_of(row, user) else row.version

    def mark(self, id: str) -> tuple[int, int]:
        """What differs whenever the record does: its version, and when it changed. (0, 0): it is not there."""
        row = self._row(id)
        return (0, 0) if row is None else (row.version, row.time_ns)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._row(id) is not None

    def __iter__(self) -> Iterator[str]:
        return self.ids()

    def __len__(self) -> int:
        return sum(1 for _ in self._rows(at_once=True))

    def find(
        self,
        pattern: str = _ANY,
        *,
        where: Where | None = None,
        order: Order | None = None,
        limit: int | None = None,
        user: str = "",
    ) -> list[M]:
        """The records whose ids fit a pattern as file names do (`run-*`).

        Args:
            where: values that fields have, or a function that says whether a record is wanted.
            order: a field, with `-` before it from the largest down, or a function as for `sorted`; by default the ids. None is
                smaller than any value.
            limit: how many at most.
            user: only theirs, and everybody's: those that were put without a user.

        Raises:
            TypeError: the pattern is no text, values of the field have no order, `where` is neither a mapping nor a function, or
                `order` neither a field nor a function.
            ValueError: the model has no such field, a field never has that value, or the limit is no number of records.
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ValueError(f"limit is 0 or more, not {shown(limit)}")
        _require_search(where, order)
        named: list[str] = [] if where is None or callable(where) else [*where]
        if isinstance(order, str):
            named.append(order.removeprefix("-"))
        for name in named:
            self.schema.require_field(name)
        if where is not None and not callable(where):
            where = {name: self.schema.require_value(name, value) for name, value in where.items()}
        wanted = None if where is None else _compiled(where)
        fits = re.compile(fnmatch.translate(pattern)).match if pattern != _ANY else None
        rows = self._rows(_literal(pattern), at_once=limit is None or order is not None)
        if fits is not None or user:
            rows = (one for one in rows if (fits is None or fits(one[0])) and _is_of(one[1], user))
        enough = limit if order is None else None
        found: list[M] = []
        for page in self._pages(rows, enough if wanted is None else None):
            records = self._load_many(page)
            found += records if wanted is None else [record for record in records if wanted(record)]
            if enough is not None and len(found) >= enough:
                break
        if isinstance(order, str):
            _sort(found, order.removeprefix("-"), is_reverse=order.startswith("-"))
        elif order is not None:
            _sort_by(found, order)
        return found[:limit]

    def _pages(self, rows: Iterator[tuple[str, Row]], limit: int | None = None) -> Iterator[list[tuple[str, Row]]]:
        """The rows in pages. Who wants a few has read no more."""
        size = _PAGE if limit is None else max(min(limit, _PAGE), 1)
        while page := _page(rows, size):
            yield page

    def _load_many(self, rows: list[tuple[str, Row]]) -> list[M]:
        if any(row.is_sealed for _, row in rows):
            return [self.load(row, id) for id, row in rows]
        with uncollected():
            return self.schema.load_many(rows)

    def read_all(self) -> Iterator[tuple[str, M]]:
        """All records with their ids, each page read when it is asked for."""
        for page in self._pages(self._rows()):
            yield from zip((id for id, _ in page), self._load_many(page), strict=True)

    def values(self) -> ValuesView[M]:
        """All records, in order of their ids, read together."""
        return _Values(self)

    def items(self) -> ItemsView[str, M]:
        """All records with their ids, read together."""
        return _Items(self)

    def readable(self, pattern: str = _ANY) -> Iterator[tuple[str, M | None, int]]:
        """The ids that fit a pattern, with their records and how many bytes each is in the store; None: it cannot be read here."""
        fits = re.compile(fnmatch.translate(pattern)).match
        for id, row in self._rows(_literal(pattern), at_once=True):
            if fits(id):
                try:
                    record = self.load(row, id)
                except RecordError:
                    record = None
                yield id, record, len(row.document)

    def ids(self, pattern: str = _ANY, *, unchanged_since_ns: int | None = None, user: str = "") -> Iterator[str]:
        """The ids that fit a pattern, in order, each read when it is asked for. No record is decrypted for it.

        Args:
            unchanged_since_ns: only those of records that were not changed after that time.
            user: only theirs.
        """
        fits = re.compile(fnmatch.translate(pattern)).match
        if unchanged_since_ns is not None:
            require_whole(unchanged_since_ns, "unchanged_since_ns")
        for id, row in self._rows(_literal(pattern)):
            if fits(id) and _is_of(row, user) and (unchanged_since_ns is None or row.time_ns <= unchanged_since_ns):
                yield id

    def ids_back(self, start: str = "") -> Iterator[str]:
        """The ids that begin with this text, the last one first, each read when it is asked for."""
        prefix, within, line = self.prefix + start, _current(), self.line()
        new: dict[str, Row | None] = {}
        if within is not None and not line.is_readonly:
            new = {key: row for key, row in within.edit_of(line).new.items() if key.startswith(prefix)}
        stored = (key for key in line.keys_back(prefix) if key not in new)
        present = sorted((key for key, row in new.items() if row is not None), reverse=True)
        ids = (key[len(self.prefix) :] for key in heapq.merge(stored, present, reverse=True))
        return (id for id in ids if self._row(id) is not None)

    def end(self, id: str) -> int:
        """When a record is gone that has a time to live, in nanoseconds since 1970; 0: it has none, or is not there."""
        row = self._row(id)
        return 0 if row is None else row.expires_ns

    def ends(self, pattern: str = _ANY) -> dict[str, int]:
        """When records are gone that have a time to live, by id; in nanoseconds since 1970."""
        fits = re.compile(fnmatch.translate(pattern)).match
        return {id: row.expires_ns for id, row in self._rows(_literal(pattern)) if row.expires_ns and fits(id)}

    def names(self, start: str = "") -> list[str]:
        """The ids that begin so, in order, also of records whose time is over. No record is read for it."""
        line, prefix = self.line(), self.prefix + start
        found, within = set(line.keys(prefix)), _current()
        if within is not None and not line.is_readonly:
            edit = within.edit_of(line)
            edit.listed.setdefault(prefix, set(found))
            found |= {key for key, row in edit.new.items() if row is not None and key.startswith(prefix)}
            found -= {key for key, row in edit.new.items() if row is None}
        return sorted(key[len(self.prefix) :] for key in found)

    def ids_beside(self, least_bytes: int) -> list[str]:
        """The ids of the records that lie beside the commits of the branch or change in this transaction.

        Returns none where fewer bytes lie there.
        """
        line, within = self.line(), _current()
        if line.bytes_beside() < least_bytes:
            return []
        keys = line.keys_beside(self.prefix)
        if within is not None and not line.is_readonly:
            new = within.edit_of(line).new
            keys |= {key for key, row in new.items() if row is not None and key.startswith(self.prefix)}
            keys -= {key for key, row in new.items() if row is None}
        return sorted(key[len(self.prefix) :] for key in keys)

    def history(self, id: str, *, user: str = "") -> Iterator[Change[M]]:
        """What happened to a record, the newest change first. Of a user's it ends where it was another user's."""
        newer: Version | None = None
        for version in self.line().history(self._key(id)):
            if self._time_ns is not None and self._past is None and version.time_ns > self._time_ns:
                continue  # it came after the moment that is looked at
            if version.row is not None and not _is_of(version.row, user):
                break
            if newer is not None:
                yield self._change_between(id, version, newer)
            newer = version
        if newer is not None:
            yield self._change_between(id, None, newer)

    def _change_between(self, id: str, old: Version | None, new: Version) -> Change[M]:
        before, after = (None if one is None or one.row is None else self.load(one.row, id) for one in (old, new))
        row = new.row or (old.row if old is not None else None)
        number = 0 if row is None else row.version + (new.row is None)
        return Change(id, before, after, number, new.time_ns, new.actor, new.commit)

    def at(self, ref: str | float) -> Records[M]:
        """The records as they were at a commit, or (of the store's plane) at a time in seconds since 1970. They are only read.

        Of a model with `keeps_past = False` only what did not change since is there.

        Raises:
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        """
        if isinstance(ref, str):
            commit = self.repo.resolve(require_text(ref, "ref"))
            moment = self.repo.commit_at(commit).time_ns
        else:
            moment_s = cast("object", ref)
            if isinstance(moment_s, bool) or not isinstance(moment_s, int | float) or not 0 <= moment_s < 9e9:
                raise ValueError(f"a time is a number of seconds since 1970, not {shown(ref)}")
            commit, moment = None, int(moment_s * 1e9)
            if self.schema.plane == "branch":
                raise ValueError("records of a branch are looked at by a commit, and not by a time")
        return Records(self.repo, self.schema.model, at=commit, time_ns=moment, secret=self._seal, **self._options)  # type: ignore[arg-type]

    # -- changing

    def make(self, **fields: object) -> M:
        """A record of these values, which is not stored yet.

        Raises:
            InvalidRecordError: they do not fit the model, or it has no such field.
        """
        return self.schema.make(fields)

    def put(
        self,
        record: M,
        *,
        expect: int | None = None,
        ttl_s: float | None = None,
        user: str = "",
        merge: bool = False,
    ) -> M:
        """Store a record, new or in the place of the one that has its id.

        Args:
            expect: the version that must be there (0: none); by default whatever is there.
            ttl_s: seconds after which it is gone (above 0); by default as the model says, and else never.
            user: whose it is. Another user's record of this id is not there for them, and cannot be overwritten.
            merge: set the fields that were given to this one, and leave the others of the stored one as they are.

        Returns:
            The record as it is stored.

        Raises:
            InvalidRecordError, TransitionError, StaleRecordError: nothing was stored.
            RecordNotFoundError: it is another user's. ValueError: `ttl_s` is no number of seconds.
        """
        self.schema.require_model(record)
        id = self.schema.id_of(record)

        def build(before: M | None) -> M:
            if not merge or before is None:
                return record
            return before.model_copy(update={name: getattr(record, name) for name in record.model_fields_set})

        return self._store(id, build, expect, ttl_s, user, "put")

    def update(
        self,
        id: str,
        change: Callable[[M], M | None] | None = None,
        /,
        *,
        expect: int | None = None,
        ttl_s: float | None = None,
        user: str = "",
        **fields: object,
    ) -> M:
        """Change a record that is there: set fields, or call a function with a copy, which it changes or returns another of.

        The function is called again where somebody else changed the record meanwhile. Unless `ttl_s` or the model says otherwise,
        the record is gone when it would have been. A field called `expect`, `ttl_s` or `user` is changed by a function.

        Raises:
            RecordNotFoundError, InvalidRecordError, TransitionError, StaleRecordError: nothing was stored.
        """
        if change is not None and not callable(change):  # pyright: ignore[reportUnnecessaryComparison]
            raise TypeError(f"an update takes a function, or fields by name, not {shown(change)}")
        model = self.schema.model
        unknown = fields.keys() - model.model_fields.keys()
        if unknown and model.model_config.get("extra") != "allow":
            raise InvalidRecordError(self.schema.collection, id, f"it has no field {', '.join(sorted(unknown))}")
        for name, is_given in (("expect", expect is not None), ("ttl_s", ttl_s is not None), ("user", bool(user))):
            if is_given and name in self.schema.model.model_fields:
                reason = f"{name} is a field of it, and also what update takes: change the field by a function"
                raise InvalidRecordError(self.schema.collection, id, reason)

        def build(before: M | None) -> M:
            if before is None:
                raise RecordNotFoundError(self.schema.collection, id)
            after = before.model_copy(update=fields, deep=True)
            changed = None if change is None else call_with(change, "an update", after)
            if changed is None:
                return after
            self.schema.require_model(changed, id)
            return changed

        return self._store(id, build, expect, ttl_s, user, "update")

    def delete(self, id: str, *, expect: int | None = None, user: str = "") -> bool:
        """Delete a record; whether it was there. Its history stays.

        Raises:
            StaleRecordError: it is not at the version that was expected, or not there any more.
            SealedRecordError, NewerRecordError: it cannot be read here. It stays.
        """
        key = self._key(id)
        if expect is not None:
            not_negative(expect, "expect")

        def build(edit: Edit) -> bool:
            row = _living(edit.get(key))
            if row is None or not _is_of(row, user):
                self._expect(id, None, expect)
                return False
            self._expect(id, row, expect)
            self._require_readable(id, row)
            self._remove(edit, key, row)
            return True

        return self._write(build, f"{self.schema.collection}: delete {id}", 0.0)

    def _remove(self, edit: Edit, key: str, row: Row) -> None:
        edit.set(key, None)
        self._reindex(edit, key[len(self.prefix) :], row, None)
        if self._counts_deleted(keeps_past=row.keeps_past):
            note_deleted_version(edit, self.schema.collection, row)

    def _counts_deleted(self, *, keeps_past: bool) -> bool:
        """Whether only the collection knows of a deleted version: the plane `store` has it in its past, if it keeps one."""
        return not self.schema.is_final and not (keeps_past and isinstance(self.line(), StoreLine))

    def _last_version(self, edit: Edit, key: str) -> int:
        """The largest version that an old `expect` of a record may have which is not there."""
        line = self.line()
        version = line.last_version(key) if isinstance(line, StoreLine | Pending) else 0
        if self._counts_deleted(keeps_past=self.schema.keeps_past):
            version = max(version, last_deleted_version(edit, self.schema.collection))
        return version

    def trim(self, id: str, keeps: int) -> None:
        """Forget all but the newest changes of a record of the store's plane, whose history would grow without end."""
        self._require_present()
        self._store_line().trim(self._key(id), not_negative(keeps, "keeps"))

    def purge(self) -> int:
        """Delete the records whose time is over; how many. They count as gone before."""
        now = time.time_ns()
        self._require_present()
        found = [key for key, raw in self.line().scan(self.prefix) if decode_row(raw).is_expired(now)]

        def build(edit: Edit) -> int:
            count = 0
            for key in found:
                row = edit.get(key)
                if row is not None and row.is_expired(now):
                    self._remove(edit, key, row)
                    count += 1
            return count

        return self._write(build, f"{self.schema.collection}: purge", 0.0) if found else 0

    def _store(
        self,
        id: str,
        build: Callable[[M | None], M],
        expect: int | None,
        ttl_s: float | None,
        user: str,
        action: str,
    ) -> M:
        key = self._key(id)
        if expect is not None:
            not_negative(expect, "expect")

        def change(edit: Edit) -> M:
            row = edit.get(key)
            current = _living(row)
            if current is not None and not _is_of(current, user):
                raise RecordNotFoundError(self.schema.collection, id)
            self._expect(id, current, expect)
            before = None if current is None else self.load(current, id)
            record = self.schema.check(build(before), before)
            if self.schema.id_of(record) != id:
                raise InvalidRecordError(self.schema.collection, id, "a record keeps its id: put it under the new one")
            expires_ns = self._expiry(ttl_s, current if action == "update" else None)
            owner = user or ("" if current is None else current.user)
            edit.set(key, self._new_row(edit, key, record, row, expires_ns, owner))
            self._reindex(edit, id, row, record)
            return record

        message = f"{self.schema.collection}: {action} {id}"
        return self._write(change, message, self._waits(id, change) if expect is None else 0.0)

    def _waits(self, id: str, change: Callable[[Edit], M]) -> float:
        """The seconds for which a change may wait. One of a status does not, and only the change itself finds out."""
        wait_s = self.schema.coalesce_s
        if not wait_s or _current() is not None:
            return 0.0
        row = self._row(id)
        before = None if row is None else self.load(row, id)
        return 0.0 if self.schema.changes_status(change(Edit(self.line().read)), before) else wait_s

    def _expiry(self, ttl_s: float | None, before: Row | None) -> int:
        ttl_s = self.schema.ttl_s if ttl_s is None else ttl_s
        if ttl_s is None:
            return 0 if before is None else before.expires_ns
        return time.time_ns() + int(seconds(ttl_s, "ttl_s", is_zero_allowed=False) * 1e9)

    def _new_row(self, edit: Edit, key: str, record: M, before: Row | None, expires_ns: int, user: str) -> Row:
        document, is_packed = self.schema.dump(record)
        if self._seal is not None:
            document = self._seal.close(document, key)
        if before is not None:
            self._require_no_other_fields(key, before)
        elif (raw := edit.seen.get(key)) is not None:  # it was deleted in the same transaction
            before = decode_row(raw)
        line = self.line()
        last = self._last_version(edit, key) if before is None else before.version
        return Row(
            version=1 + max(last, line.last_version(key) if isinstance(line, Pending) else 0),
            time_ns=max(time.time_ns(), before.time_ns + 1 if before is not None else 0),
            actor=self._author.name,
            expires_ns=expires_ns,
            schema=self.schema.version,
            user=user,
            is_packed=is_packed,
            is_sealed=self._seal is not None,
            document=document,
            keeps_past=self.schema.keeps_past,
            is_final=self.schema.is_final,
            is_growing=self.schema.is_growing,
        )

    def changed_row(self, edit: Edit, record: M, before: Row) -> Row:
        """The row of a record in the place of another one of it, for who changes rows together with those of other records."""
        return self._new_row(edit, self._key(self.schema.id_of(record)), record, before, before.expires_ns, before.user)

    def _require_no_other_fields(self, key: str, row: Row) -> None:
        """Raise InvalidRecordError where the stored record has fields that this model would drop without a word."""
        if row.is_sealed or row.schema != self.schema.version:
            return
        unknown = self.schema.unknown_fields(row.text())
        if unknown:
            raise InvalidRecordError(
                self.schema.collection,
                key[len(self.prefix) :],
                f"another model stored it with {', '.join(unknown)}, and {self.schema.model.__qualname__} has no such field: give one "
                f"of the models another collection, or this one schema_version = {row.schema + 1} and a migration",
            )

    def _expect(self, id: str, row: Row | None, expect: int | None) -> None:
        found = 0 if row is None else row.version
        if expect is not None and expect != found:
            raise StaleRecordError(self.schema.collection, id, expect, found)

    def _reindex(self, edit: Edit, id: str, before: Row | None, after: M | None) -> None:
        if self._index is None:
            return
        old = [] if before is None else self._entries_of(id, before)  # also of one whose time is over
        new = [] if after is None else self._entries(after)
        if old != new:
            edit.index.update(dict.fromkeys(old))
            edit.index.update(dict.fromkeys(new, id.encode()))

    def _index_key(self, entry: str) -> bytes:
        return f"{self.schema.collection}\0{entry}".encode()

    def first(self, prefix: str, limit: int = 1) -> list[str]:
        """The ids of the first records in the order of the index, of those whose entries begin with this text."""
        line, start, within = self._indexed_line(), self._index_key(prefix), _current()
        if within is None:
            return [value.decode() for _, value in line.find(start, limit)]
        changed = {key: id for key, id in within.edit_of(line).index.items() if key.startswith(start)}
        entries: dict[bytes, bytes | None] = {**dict(line.find(start, limit + len(changed))), **changed}
        return [id.decode() for _, id in sorted(entries.items()) if id is not None][:limit]

    def below(self, prefix: str, end: str) -> list[str]:
        """The ids in the order of the index, of those whose entries begin with `prefix` and go on with less than `end`."""
        line, start, stop, within = (
            self._indexed_line(),
            self._index_key(prefix),
            self._index_key(prefix + end),
            _current(),
        )
        entries: dict[bytes, bytes | None] = {}
        after, limit = b"", _FEW
        while page := line.find(start, limit, after):
            entries.update(one for one in page if one[0] < stop)
            after, limit = page[-1][0], min(2 * limit, _PAGE)
            if after >= stop:
                break
        if within is not None:
            changed = within.edit_of(line).index
            entries |= {key: id for key, id in changed.items() if key.startswith(start) and key < stop}
        return [id.decode() for _, id in sorted(entries.items()) if id is not None]

    def groups(self) -> list[str]:
        """What stands before the first NUL in entries of the index, each once. Nothing else of them is read."""
        line, start, within = self._indexed_line(), self._index_key(""), _current()
        found: list[str] = []
        after = start
        while entries := line.find(start, 1, after):
            group = entries[0][0][len(start) :].partition(b"\0")[0]
            found.append(group.decode())
            after = start + group + b"\0\xff"  # behind all of the group: no text has this byte
        if within is not None:
            changed = within.edit_of(line).index
            found += [
                key[len(start) :].partition(b"\0")[0].decode()
                for key, id in changed.items()
                if key.startswith(start) and id
            ]
        return sorted({group for group in found if group})

    def _indexed_line(self) -> StoreLine:
        line = self._store_line()
        if self._index_marker:
            line.fill_index(self.prefix, self._entries_of, self._index_key(f"\0{self._index_marker}"))
            self._index_marker = ""
        return line

    def _entries_of(self, id: str, row: Row) -> list[bytes]:
        return self._entries(self.load(row, id))

    def _entries(self, record: M) -> list[bytes]:
        found = None if self._index is None else self._index(record)
        entries = [] if found is None else [found] if isinstance(found, str) else found
        return [self._index_key(entry) for entry in entries]

    def newest(self, start: str = "", limit: int = 1) -> list[str]:
        """The ids of the records of the store's plane that changed last, the newest change first.

        Args:
            start: what the ids begin with.
        """
        return self._store_line().newest(self.prefix, start, not_negative(limit, "limit"))

    def count(self, prefix: str) -> int:
        """How many entries of the index begin with this text."""
        return self._indexed_line().count(self._index_key(prefix))

    def _store_line(self) -> StoreLine:
        line = self.line()
        if not isinstance(line, StoreLine):
            name = self.schema.collection
            raise ValueError(f"records of {name} lie on a branch, and only those of the plane 'store' have this")
        return line

    # -- watching

    def watch(self, pattern: str, call: Callable[[Change[M]], object], *, user: str = "") -> Subscription:
        """Call a function for each change of a record whose id fits, in this process at once, by others within a second.

        What others change several times within that second is told as one change, from what was there before to what is there
        then; what they put and delete within it is not told. What a checkout makes of a record is a change too, and so is the end
        of its time to live. An error in the function goes to the log, and the next change is told all the same. Close what this
        returns to end it.

        Args:
            user: only changes of their records.

        Raises:
            TypeError: `call` is no function, or the pattern no text.
        """
        require_watcher(call)
        return Subscription(self, pattern, call, user)

    # -- where they lie

    @property
    def _author(self) -> Author:
        return Author(self._actor) if self._actor else _person()

    def line(self) -> Line:
        """Where they lie."""
        if self._past is not None:
            return self._past
        if self.schema.plane == "store":
            return _store_line(self.repo)
        return line_of(self.repo, self._branch, self._author)

    @property
    def prefix(self) -> str:
        """How the keys of their rows begin."""
        return f"{self.schema.collection}\0"

    def _key(self, id: str) -> str:
        if not isinstance(id, str) or "\0" in id or not id:  # pyright: ignore[reportUnnecessaryIsInstance]
            reason = "an id is text that is not empty and has no NUL"
            raise InvalidRecordError(self.schema.collection, _name_of(id), reason)
        key = self.prefix + id
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            raise InvalidRecordError(self.schema.collection, ascii(id), "an id is text that UTF-8 can hold") from None
        if size > MOST_KEY:
            raise InvalidRecordError(self.schema.collection, id[:20] + "…", f"its id has more than {MOST_KEY} bytes")
        return key

    def _row(self, id: str) -> Row | None:
        key = self._key(id)
        if self._time_ns is not None and self._past is None:
            return self._row_then(key, self._time_ns)
        within, line = _current(), self.line()
        if within is not None and not line.is_readonly:
            return _living(within.edit_of(line).get(key))
        raw = line.read([key]).get(key)
        return None if raw is None else _living(decode_row(raw))

    def _row_then(self, key: str, time_ns: int) -> Row | None:
        for version in self.line().history(key):
            if version.time_ns <= time_ns:
                return version.row
        return None

    def _rows(self, prefix: str = "", *, at_once: bool = False) -> Iterator[tuple[str, Row]]:
        now, start, decode = time.time_ns(), len(self.prefix), decode_row
        if self._time_ns is not None and self._past is None:
            for id in self._ids_ever(prefix):
                row = self._row_then(self.prefix + id, self._time_ns)
                if row is not None and id.startswith(prefix):
                    yield id, row
            return
        for key, raw in _overlaid(self.line(), self.prefix + prefix, at_once=at_once):
            row = decode(raw)
            if not 0 < row.expires_ns <= now:
                yield key[start:], row

    def _ids_ever(self, prefix: str) -> list[str]:
        start = len(self.prefix)
        return sorted({key[start:] for key in self._store_line().keys_ever(self.prefix + prefix)})

    def load(self, row: Row, id: str) -> M:
        """The record that a row holds."""
        return self.schema.load(row, id, self._opened(row, id) if row.is_sealed else None)

    def _opened(self, row: Row, id: str) -> bytes:
        if self._seal is None:
            raise SealedRecordError(self.schema.collection, id, has_key=False)
        opened = self._seal.open(row.document, self.prefix + id)
        if opened is None:
            raise SealedRecordError(self.schema.collection, id)
        return opened

    def _require_readable(self, id: str, row: Row) -> None:
        """Raise for what was not made to be read here. What no longer fits the model may be deleted."""
        if row.is_sealed:
            self._opened(row, id)
        self.schema.require_known(row, id)

    def _require_present(self) -> None:
        if self._time_ns is not None and self._past is None:
            from agent_kernel.errors import StoreReadOnlyError

            raise StoreReadOnlyError(self.repo.store.url, "these records are those of a past moment")

    def _write(self, build: Callable[[Edit], T], message: str, wait_s: float) -> T:
        line = self.line()
        line.require_writable()
        self._require_present()
        within = _current()
        if within is not None:
            return within.take(line, build, message)
        result = line.change(build, message, wait_s)
        _notify_watchers(self.repo)
        return result


def _name_of(id: object) -> str:
    return id if isinstance(id, str) else shown(id)


def _page(rows: Iterator[tuple[str, Row]], size: int) -> list[tuple[str, Row]]:
    with uncollected():
        return list(itertools.islice(rows, size))


class _Values(ValuesView[M]):
    _mapping: Records[M]

    def __iter__(self) -> Iterator[M]:
        return (record for _, record in self._mapping.read_all())


class _Items(ItemsView[str, M]):
    _mapping: Records[M]

    def __iter__(self) -> Iterator[tuple[str, M]]:
        return self._mapping.read_all()


_person = functools.cache(person)


def _living(row: Row | None) -> Row | None:
    return None if row is None or row.is_expired(time.time_ns()) else row


def _is_of(row: Row, user: str) -> bool:
    return not user or not row.user or row.user == user


def exactly(id: str) -> str:
    """A pattern that only this id fits."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in id)


def _literal(pattern: str) -> str:
    """What all ids that fit the pattern begin with."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def _sort(records: list[M], field: str, *, is_reverse: bool) -> None:
    def key(record: M) -> tuple[bool, Any]:
        value = getattr(record, field, None)  # a model that allows any field need not have this one
        return value is not None, value.value if isinstance(value, Enum) else value

    try:
        records.sort(key=key, reverse=is_reverse)
    except TypeError as error:
        raise TypeError(f"records cannot be ordered by {field!r}: {error}") from error


def _sort_by(records: list[M], order: Callable[[Any], Any]) -> None:
    keyed = [(call_with(order, "order", record), record) for record in records]
    try:
        keyed.sort(key=lambda one: one[0])
    except TypeError as error:
        raise TypeError(f"records cannot be ordered by what {shown(order)} returns: {error}") from error
    records[:] = [record for _, record in keyed]


def _require_search(where: object, order: object) -> None:
    if where is not None and not callable(where):
        if not isinstance(where, Mapping):
            raise TypeError(f"where is a mapping of fields to values, or a function, not {shown(where)}")
        require_mapping(cast("object", where), "where")
    if order is not None and not callable(order) and not isinstance(order, str):
        raise TypeError(
            f"order is a field, '-' and a field, or a function, not {shown(order)}; for several fields give a function that "
            "returns a tuple"
        )


def _compiled(where: Where | None) -> Callable[[Any], object]:
    if where is None:
        return lambda record: True
    if callable(where):
        return lambda record: call_with(where, "where", record)
    wanted = dict(where)
    return lambda record: all(getattr(record, name, _compiled) == value for name, value in wanted.items())


def _store_line(repo: Repository) -> StoreLine:
    """One for a repository, so that what waits in it is seen by all."""
    line: StoreLine = repo.__dict__.get("_store_line") or repo.__dict__.setdefault("_store_line", StoreLine(repo))
    return line


# -- several changes as one


class _SnapshotEdit(Edit):
    """What a block reads, which cannot be done again: all that it has read was there at one moment, or it raises."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.read)
        self._line = line
        self._mark = line.mark()

    def fetch(self, keys: Sequence[str]) -> None:
        new = [key for key in keys if key not in self.seen]
        if new:
            with self.together_with(new):
                super().fetch(new)

    @contextmanager
    def together_with(self, new: Collection[str] = ()) -> Generator[None]:
        """Raise TransactionConflictError if what was read before was changed until the block has read more: `new`, or a scan."""
        before = self._line.mark()
        yield
        if self._line.mark() == self._mark:
            return
        known = Edit(self._line.read)
        known.seen = {key: raw for key, raw in self.seen.items() if key not in new}
        known.listed = self.listed
        if (known.seen or known.listed) and self._line.is_outdated(known):
            raise _outdated(self._line)
        self._mark = before


def _outdated(line: Line) -> TransactionConflictError:
    return TransactionConflictError(line.repo.store.url)


class _Transaction:
    """What a thread has read and changed, to be stored as one. It reads wherever it likes, and changes one line.

    It belongs to the asyncio task that began it, with the threads to which that hands its context (`asyncio.to_thread`) until the
    block ends. A task that is begun in it takes the context along, may end after it, and would change what nobody stores any
    more: it stores what it changes by itself.
    """

    def __init__(self, message: str, edits: list[tuple[Line, Edit]]) -> None:
        self.message = message
        self.is_over = False
        self._runs_in = _runs_in()
        self.edits = edits
        self._of = edits[0][1] if edits else None  # what alone may change; None: what changes first

    def edit_of(self, line: Line) -> Edit:
        for one, edit in self.edits:
            if _is_same_line(one, line):
                return edit
        line.flush()  # what waits may have to be done again, and nobody here has read it yet
        edit = _SnapshotEdit(line)
        self.edits.append((line, edit))
        return edit

    def take(self, line: Line, build: Callable[[Edit], T], message: str) -> T:
        edit = self.edit_of(line)
        self.message = self.message or message
        with self._all_or_nothing(edit):
            result = build(edit)
            if sum(bool(one.new) for _, one in self.edits) > 1 or (
                self._of is not None and edit.new and edit is not self._of
            ):
                raise self._refusal()
        return result

    def _refusal(self) -> ValueError:
        places: dict[str, set[str]] = {}
        for line, edit in self.edits:
            names = {key.partition("\0")[0] for key in edit.new}
            if names:
                places.setdefault(_describe_line(line), set()).update(names)
        parts = [f"{', '.join(sorted(names))} {place}" for place, names in places.items()]
        what = f"both {' and '.join(parts)}" if len(parts) > 1 else f"{parts[0]} within a change of other records"
        remedy = "use two transactions, or open one of them on the other's plane (plane=…)"
        return ValueError(f"one transaction cannot change {what}; {remedy}")

    def run(self, line: Line, act: Callable[[], T], message: str) -> T:
        self.message = self.message or message
        self.edit_of(line)
        with self.part():
            return act()

    def is_current(self) -> bool:
        """Whether what runs now is a part of it."""
        (thread, task), (mine, my_task) = _runs_in(), self._runs_in
        return not self.is_over and (task is my_task if thread == mine else task is None)

    @contextmanager
    def part(self) -> Generator[None]:
        """If the block raises, nothing of what it changed is stored, whatever becomes of the rest."""
        before = {id(edit): (dict(edit.new), dict(edit.index)) for _, edit in self.edits}
        try:
            yield
        except BaseException:
            for _, edit in self.edits:
                edit.new, edit.index = before.get(id(edit), ({}, {}))
            raise

    @contextmanager
    def _all_or_nothing(self, edit: Edit) -> Generator[None]:
        before = dict(edit.new), dict(edit.index)
        try:
            yield
        except BaseException:
            edit.new, edit.index = before
            raise


def _describe_line(line: Line) -> str:
    if not isinstance(line, BranchLine):
        return "beside all branches"
    return f"of the branch {line.branch}"


def _is_same_line(one: Line, other: Line) -> bool:
    if isinstance(one, BranchLine) and isinstance(other, BranchLine):  # there is one for each author
        return one.repo is other.repo and one.branch == other.branch
    return one is other


_EDIT: contextvars.ContextVar[_Transaction | None] = contextvars.ContextVar("agent_kernel_records_edit", default=None)


def _current() -> _Transaction | None:
    """The transaction that what runs now is a part of."""
    found = _EDIT.get()
    return found if found is not None and found.is_current() else None


def _runs_in() -> tuple[int, object]:
    """The thread, and its asyncio task."""
    asyncio = sys.modules.get("asyncio")
    # While another thread imports it, it is there in part: then no loop runs here.
    get_loop: Callable[[], Any] | None = getattr(asyncio, "_get_running_loop", None)
    loop = None if get_loop is None else get_loop()
    return threading.get_ident(), None if loop is None or asyncio is None else asyncio.current_task(loop)


@contextmanager
def transaction(repo: Repository, message: str = "") -> Generator[None]:
    """See `Repository.transaction`.

    Raises:
        TransactionConflictError: somebody else changed one of the records that were read in it, which raises where the next one is
            read, or at its end. Nothing was stored; run it again.
    """
    require_text(message, "message")
    within = _current()
    if within is not None:
        with within.part():
            yield
        return
    mine = _Transaction(message, [])
    token = _EDIT.set(mine)
    try:
        yield
    finally:
        mine.is_over = True
        _EDIT.reset(token)
    for line, edit in mine.edits:
        if edit.new:
            line.change(lambda now, line=line, edit=edit: _repeat(line, edit, now), mine.message)  # type: ignore[misc]
    _notify_watchers(repo)


def _repeat(line: Line, edit: Edit, now: Edit) -> None:
    now.fetch(list(edit.seen))
    if line.is_outdated(edit):
        raise _outdated(line)
    now.listed.update(edit.listed)
    now.new.update(edit.new)
    now.index.update(edit.index)


def together(records: Records[Any], act: Callable[[], T], message: str = "", *, may_lie_beside: bool = False) -> T:
    """Store all that `act` changes of these records and of others beside them as one.

    It is called again where somebody else was faster, so it is written as if it were alone. No lock is held meanwhile: it may wait
    for what other threads do. Within a transaction it is a part of that.

    Args:
        may_lie_beside: it need not be a commit of its own, see `Line.change`.
    """
    within, line = _current(), records.line()
    if within is not None:
        return within.run(line, act, message)

    def build(edit: Edit) -> T:
        mine = _Transaction(message, [(line, edit)])
        token = _EDIT.set(mine)
        try:
            return act()
        finally:
            mine.is_over = True
            _EDIT.reset(token)

    result = line.change(build, message, may_lie_beside=may_lie_beside)
    _notify_watchers(records.repo)
    return result


def is_in_transaction() -> bool:
    """Whether what is read here may be stored later, or never."""
    return _current() is not None


def _overlaid(line: Line, prefix: str, *, at_once: bool) -> Iterator[tuple[str, bytes]]:
    from agent_kernel.repository import encode

    within = _current()
    if within is None or line.is_readonly:
        yield from line.scan(prefix, at_once=at_once)
        return
    edit = within.edit_of(line)
    with edit.together_with() if isinstance(edit, _SnapshotEdit) else nullcontext():
        found = dict(line.scan(prefix, at_once=True))
    edit.listed.setdefault(prefix, set(found))
    for key, raw in found.items():
        edit.seen.setdefault(key, raw)
    for key, row in edit.new.items():
        if key.startswith(prefix):
            found.pop(key, None)
            if row is not None:
                found[key] = encode(row)
    yield from sorted(found.items())


# -- watching

_WATCHERS: Final[set[Subscription]] = set()


def _notify_watchers(repo: Repository) -> None:
    for watcher in list(_WATCHERS):
        if watcher.records.repo is repo:
            watcher.look()


class Subscription:
    """A function that is called for changes, until it is closed."""

    def __init__(
        self, records: Records[Any], pattern: str, call: Callable[[Change[Any]], object], user: str = ""
    ) -> None:
        self.records = records
        self._user = user
        self._ends: dict[str, int] = {}  # when records are gone that are there
        self._ended: set[str] = set()  # records that are gone since, and were told so
        self._fits = re.compile(fnmatch.translate(pattern)).match
        self._call = call
        self._lock = threading.RLock()
        self._untold: deque[Callable[[], None]] = deque()
        self._teller = threading.Lock()  # whose thread calls the function
        self._follower = Follower(records, _literal(pattern), self._fits, keeps_rows=True)
        for id, (_, raw) in self._follower.look().items():
            row = None if raw is None else decode_row(raw)
            self._note(id, _living(row))
            if row is not None and _living(row) is None:  # it was gone before anybody watched
                self._ended.add(id)
        _WATCHERS.add(self)
        self._polls = Repeated("watch", self._poll, _POLL_S)

    def close(self) -> None:
        """Call it no more."""
        _WATCHERS.discard(self)
        self._polls.close(2 * _POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _poll(self) -> float:
        import logging

        try:
            self.look()
        except Exception:  # the store may be gone for a moment, or for good: the next look says
            logging.getLogger(__name__).debug("records could not be looked at", exc_info=True)
        return _POLL_S

    def look(self) -> None:
        """Tell what changed since the last look.

        The function is called without any lock of ours: it may write, and wait for others. Changes come in order: while one thread
        tells, others leave theirs to it.
        """
        self._find_changes()
        while self._untold and self._teller.acquire(blocking=False):
            try:
                while self._untold and not self._polls.is_closed:
                    self._untold.popleft()()
            finally:
                self._teller.release()
            if self._polls.is_closed:
                return

    def _find_changes(self) -> None:
        with self._lock:
            if not self._polls.is_closed:
                for id, (old, new) in sorted(self._follower.look().items()):
                    before = None if old is None or id in self._ended else decode_row(old)
                    after = None if new is None else _living(decode_row(new))
                    self._note(id, after)
                    self._notify(id, before, after)
                self._notify_expired()

    def _note(self, id: str, row: Row | None) -> None:
        self._ended.discard(id)
        self._ends.pop(id, None)
        if row is not None and row.expires_ns:
            self._ends[id] = row.expires_ns

    def _notify_expired(self) -> None:
        now = time.time_ns()
        for id in [id for id, end in self._ends.items() if end <= now]:
            del self._ends[id]
            self._ended.add(id)
            if (raw := self._follower.known.get(id)) is not None:
                self._notify(id, decode_row(raw), None)

    def _notify(self, id: str, old: Row | None, new: Row | None) -> None:
        import logging

        log, name = logging.getLogger(__name__), self.records.schema.collection
        before, after = (row if row is not None and _is_of(row, self._user) else None for row in (old, new))
        row = after or before
        if row is None:
            return
        try:
            was, now = (None if one is None else self.records.load(one, id) for one in (before, after))
        except RecordError as error:
            log.warning("a change is not told to a function that watches %s: %s", name, error)
            return
        moment = row.time_ns if after is not None else time.time_ns()
        change = Change(id, was, now, row.version + (after is None), moment, row.actor, _commit_of(self.records))

        def tell() -> None:
            try:
                self._call(change)
            except Exception:  # of the function, which is not ours
                log.exception("a function that watches %s raised", name)

        self._untold.append(tell)


def _commit_of(records: Records[Any]) -> str:
    line = records.line()
    found = line.tip() if isinstance(line, BranchLine) else None
    return "" if found is None else hex_of(found)


# -- following a collection: what is known of its records is brought up to date by reading those that changed
#
# A look costs what changed since the one before, and next to nothing where nothing did, however many records there are.


class Follower:
    """The rows of a collection, as they were at the last look. For one thread at a time.

    Args:
        start: what the ids begin with; `fits` says which of those are meant.
        keeps_rows: whether `known` has the rows; otherwise it has a digest of each, which says whether it changed.
    """

    def __init__(
        self,
        records: Records[Any],
        start: str = "",
        fits: Callable[[str], object] = bool,
        *,
        keeps_rows: bool = False,
    ) -> None:
        self.records = records
        self.known: dict[str, bytes] = {}
        self._prefix = records.prefix + start
        self._fits = fits
        self._keeps_rows = keeps_rows
        self._mark: object = None
        self._look: Look | None = None
        self._whole_mark: object = None  # when all was read last

    def look(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        """What changed since the last look, before and after, by id; None: it was not there."""
        line, start = self.records.line(), len(self.records.prefix)
        mark = (type(line), line.mark())
        if mark == self._mark and not self._is_due(mark):
            return {}
        look, found = line.changed(self._look, self._prefix)
        if found is None:
            rows = {key[start:]: raw for key, raw in line.scan(self._prefix, at_once=True)}
            self._whole_mark = mark
            now: dict[str, bytes | None] = {id: rows.get(id) for id in self.known.keys() | rows.keys()}
        else:
            now = {key[start:]: raw for key, raw in found.items()}
        self._mark, self._look = mark, look
        return self._learn(now)

    def _is_due(self, mark: object) -> bool:
        """Whether all is to be read once more: something changed since, and a clock that is behind hides a change."""
        look = self._look
        return look is not None and mark != self._whole_mark and time.monotonic() - look.whole_s > WHOLE_S

    def _learn(self, now: dict[str, bytes | None]) -> dict[str, tuple[bytes | None, bytes | None]]:
        changes: dict[str, tuple[bytes | None, bytes | None]] = {}
        for id, raw in now.items():
            new = raw if raw is None or self._keeps_rows else xxh3_128_digest(raw)
            old = self.known.get(id)
            if new == old or not self._fits(id):
                continue
            changes[id] = old, new
            if new is None:
                del self.known[id]
            else:
                self.known[id] = new
        return changes
