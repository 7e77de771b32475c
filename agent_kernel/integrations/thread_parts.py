"""Records of threads, of which the older ones lie together in parts.

A step of a graph is several small records: stored one by one, what belongs to each (its key, its place in a tree) takes more room
than what it says. So a record begins as one of its own, and when a thread has enough of them, all move into a part: one record,
compressed as a whole, in which the same message is there once whoever says it. A record of its own counts before one in a part.
"""

from __future__ import annotations

import heapq
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import zstandard
from pydantic import ConfigDict

from agent_kernel.errors import RecordNotFoundError
from agent_kernel.records.collection import Records, exactly
from agent_kernel.records.schema import Record
from agent_kernel.session.snapshot import Repository

__all__ = ["BESIDE_BYTES", "PART_BYTES", "Fields", "Parts", "Rows", "cut"]

R = TypeVar("R", bound=Record)
Fields: TypeAlias = dict[str, Any]

PART_BYTES: Final = 256 << 10  # of records on their own from which a thread gets another part
BESIDE_BYTES: Final = 384 << 10  # of records beside the branch from which all threads get one
_MOST_AT_ONCE: Final = 4  # parts that one change makes
_MOST_BYTES: Final = 2 << 20  # of a part before it is compressed
_LEVEL: Final = 6
_KEPT: Final = 32  # parts whose records stay in memory
_VERSION: Final = 1


class _PartRecord(Record):
    collection = "langgraph part"
    is_final: ClassVar[bool] = True  # or its parts are other records
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    form: int = _VERSION
    rows: bytes


class _Part(NamedTuple):
    ids: list[str]
    rows: Mapping[str, Fields]


_ROWS: Final = msgspec.msgpack.Decoder(list[tuple[list[str], dict[str, Any]]])


class Parts:
    """The parts of all threads of a branch. Ids of records begin with their thread and a dot."""

    def __init__(self, repo: Repository, branch: str | None) -> None:
        self._records = Records(repo, _PartRecord, branch=branch)
        self._ids: dict[str, list[str]] = {}  # by part: a part never changes
        self._loaded: dict[str, _Part] = {}

    def get(self, id: str) -> Fields | None:
        """The fields of a record that is in a part."""
        for part in reversed(self._parts_of(id)):
            ids = self._ids_in(part)
            place = bisect_left(ids, id)
            if place < len(ids) and ids[place] == id:
                return self._load(part).rows[id]
        return None

    def ids(self, start: str) -> list[Iterator[str]]:
        """The ids in each part that begin so, in order."""
        found: list[Iterator[str]] = []
        for part in self._parts_of(start):
            ids = self._ids_in(part)
            first = bisect_left(ids, start)
            last = bisect_left(ids, start + "\U0010ffff", first)
            if first < last:
                found.append(iter(ids[first:last]))
        return found

    def add(self, thread: str, rows: Mapping[str, Fields]) -> None:
        """Put records of a thread together."""
        encoded = msgspec.msgpack.encode(
            [(_plain(id), fields) for id, fields in sorted(rows.items(), key=_by_plain_id)]
        )
        id = f"{thread}.{time.time_ns():016x}{os.urandom(3).hex()}"
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
        self._records.put(_PartRecord(id=id, rows=compressor.compress(encoded)), expect=0)

    def delete(self, ids: Collection[str]) -> None:
        """Delete records from the parts that have them."""
        wanted = set(ids)
        for thread in {id.partition(".")[0] for id in wanted}:
            for part in self._parts_of(thread + "."):
                if wanted.isdisjoint(self._ids_in(part)):
                    continue
                rest = {id: fields for id, fields in self._load(part).rows.items() if id not in wanted}
                self._records.delete(part)
                if rest:
                    self.add(thread, rest)

    def copy(self, old: str, new: str, change: Callable[[Fields], Fields]) -> None:
        """Copy the parts of a thread to another one."""
        for part in self._parts_of(old + "."):
            rows = self._load(part).rows
            self.add(new, {new + id.removeprefix(old): change(fields) for id, fields in rows.items()})

    def _parts_of(self, start: str) -> list[str]:
        thread, dot, _ = start.partition(".")
        return self._records.names(thread + dot)

    def _ids_in(self, part: str) -> list[str]:
        found = self._ids.get(part)
        return self._load(part).ids if found is None else found

    def _load(self, part: str) -> _Part:
        found = self._loaded.get(part)
        if found is None:
            thread = part.partition(".")[0]
            rows = _ROWS.decode(zstandard.decompress(self._records[part].rows))
            by_id = {_id_of(thread, plain): fields for plain, fields in rows}
            found = _Part(sorted(by_id), by_id)
            if len(self._loaded) >= _KEPT:
                self._loaded.clear()
            self._loaded[part] = found
            self._ids[part] = found.ids
        return found


class Rows(Generic[R]):
    """Records of one model, wherever they lie."""

    def __init__(
        self,
        parts: Parts,
        records: Records[R],
        pack: Callable[[Fields], Fields] = dict,
        unpack: Callable[[Fields], Fields] = dict,
    ) -> None:
        self._parts = parts
        self._records = records
        self._pack = pack
        self._unpack = unpack

    def get(self, id: str) -> R | None:
        found: R | None = self._records.get(id)
        if found is None and (fields := self._parts.get(id)) is not None:
            return self._records.schema.model.model_construct(id=id, **self._unpack(fields))
        return found

    def __getitem__(self, id: str) -> R:
        found = self.get(id)
        if found is None:
            raise RecordNotFoundError(self._records.schema.collection, id)
        return found

    def __contains__(self, id: str) -> bool:
        return id in self._records or self._parts.get(id) is not None

    def put(self, record: R, expect: int | None = None) -> None:
        self._records.put(record, expect=expect)

    def ids(self, start: str = "") -> Iterator[str]:
        """The ids that begin so, in order, of whatever model of the collection."""
        return merged([self._records.ids(exactly(start) + "*"), *self._parts.ids(start)])

    def own_fields(self, id: str) -> Fields | None:
        """The fields, as a part has them, of a record that lies on its own."""
        found: R | None = self._records.get(id)
        return None if found is None else self._pack(found.model_dump(exclude={"id"}))


def merged(ids: Iterable[Iterator[str]]) -> Iterator[str]:
    """Several sequences of ids in order as one, each id once."""
    return (id for id, _ in groupby(heapq.merge(*ids)))


def cut(rows: Mapping[str, Fields], size_of: Callable[[Fields], int]) -> Iterator[dict[str, Fields]]:
    """Records for parts of about the same size, at most as many as one change makes."""
    part: dict[str, Fields] = {}
    size = made = 0
    for id, fields in rows.items():
        part[id] = fields
        size += size_of(fields)
        if size >= _MOST_BYTES:
            yield part
            part, size, made = {}, 0, made + 1
            if made == _MOST_AT_ONCE:
                return
    if part:
        yield part


# Within a part an id stands as what it was made of: a text that a record says too costs next to nothing.


def _plain(id: str) -> list[str]:
    """An id without its thread, and with the checkpoint's own id in place of the one turned around."""
    _, *parts = id.split(".")
    if len(parts) > 2 and parts[1].endswith("g"):
        try:
            parts[1] = bytes(255 - byte for byte in bytes.fromhex(parts[1][:-1])).decode()
        except ValueError:
            return ["", *parts]
        return parts
    return ["", *parts]


def _by_plain_id(row: tuple[str, Fields]) -> list[str]:
    plain = _plain(row[0])
    return plain[1:] if plain[0] else plain[2:]


def _id_of(thread: str, plain: list[str]) -> str:
    if not plain[0]:
        return ".".join([thread, *plain[1:]])
    namespace, checkpoint, *rest = plain
    turned = "".join(f"{255 - byte:02x}" for byte in checkpoint.encode()) + "g"
    return ".".join([thread, namespace, turned, *rest])
