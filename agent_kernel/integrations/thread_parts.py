"""How a thread of LangGraph is stored so that a step costs what is new in it: long lists in pages, older records together in parts."""

from __future__ import annotations

import heapq
import os
import re
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import zstandard
from blake3 import blake3
from pydantic import ConfigDict

from agent_kernel.errors import RecordNotFoundError
from agent_kernel.records.collection import Records, exactly
from agent_kernel.records.lines import Line
from agent_kernel.records.lists import RecordList, names_of_lists
from agent_kernel.records.schema import Record
from agent_kernel.session.snapshot import Repository

# -- lists that grow
#
# They are stored so that each version costs what is new in it.
#
# A list of messages is a new list at every step. Its items are put into pages, cut by content, so that equal stretches of two
# versions are equal pages; pages that are there already are used again. The ids of pages are cut into pages in the same way, level
# by level, and what is not enough for a page yet stays in the value itself: the spine. Appending to 10,000 messages writes one
# page and a spine of some 40 ids.


_PAGE: Final = 4_096  # bytes at which a page of small items is full
_ALONE: Final = 1_024  # bytes from which an item is a page of its own
_SMALL: Final = 512  # bytes below which a page is not cut
_FAN_OUT: Final = 8  # ids of a page of ids, on average
_MOST_IDS: Final = 64

PageId = bytes  # the time in milliseconds and chance: new pages lie beside each other in the store
Page = tuple[int, list[bytes]]  # height, items (0) or ids of pages (1 and more)


class Spine(msgspec.Struct, frozen=True, array_like=True):
    """A list as a value holds it: ids of pages from the highest level down, and the last items."""

    ids: list[tuple[int, PageId]] = []
    tail: list[bytes] = []


class Pages(NamedTuple):
    """Where pages are read and written."""

    read: Callable[[PageId], Page]
    write: Callable[[PageId, Page], None]


def write_items(
    items: Sequence[bytes], find: Callable[[bytes], PageId | None], pages: Pages
) -> tuple[Spine, dict[bytes, PageId]]:
    """Store a list. Returns the value and, by their digests, its pages.

    Args:
        find: tells, by its digest, a page that is there.
    """
    used: dict[bytes, PageId] = {}

    def store(page: Page) -> PageId:
        digest = _digest_of(page)
        id = used.get(digest) or find(digest)
        if id is None:
            id = (time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(4)
            pages.write(id, page)
        used[digest] = id
        return id

    full, tail = _cut_items(items)
    spine: list[tuple[int, PageId]] = []
    ids = [store((0, part)) for part in full]
    height = 0
    while ids:
        parts, rest = _cut_ids(ids)
        spine[:0] = [(height, id) for id in rest]
        height += 1
        ids = [store((height, part)) for part in parts]
    return Spine(spine, tail), used


def read_items(spine: Spine, pages: Pages) -> Iterator[bytes]:
    """The items of a list, in order."""
    for height, id in spine.ids:
        yield from _read_page(height, id, pages)
    yield from spine.tail


def _read_page(height: int, id: PageId, pages: Pages) -> Iterator[bytes]:
    _, parts = pages.read(id)
    if height == 0:
        yield from parts
    for part in parts if height else ():
        yield from _read_page(height - 1, part, pages)


def pages_of(spine: Spine, pages: Pages) -> dict[bytes, PageId]:
    """The pages of a list, by their digests."""
    found: dict[bytes, PageId] = {}
    waiting = [id for _, id in spine.ids]
    while waiting:
        id = waiting.pop()
        page = pages.read(id)
        found[_digest_of(page)] = id
        if page[0]:
            waiting.extend(page[1])
    return found


def _digest_of(page: Page) -> bytes:
    digest = blake3(bytes([page[0]]))
    for part in page[1]:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest(16)


def _cut_items(items: Sequence[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    full: list[list[bytes]] = []
    part: list[bytes] = []
    size = 0
    for item in items:
        if len(item) >= _ALONE and part:
            full.append(part)
            part, size = [], 0
        part.append(item)
        size += len(item)
        is_cut = size >= _SMALL and blake3(item).digest(1)[0] % 4 == 0
        if len(item) >= _ALONE or size >= _PAGE or is_cut:
            full.append(part)
            part, size = [], 0
    return full, part


def _cut_ids(ids: Sequence[PageId]) -> tuple[list[list[PageId]], list[PageId]]:
    full: list[list[PageId]] = []
    part: list[PageId] = []
    for id in ids:
        part.append(id)
        if id[-1] % _FAN_OUT == 0 or len(part) == _MOST_IDS:
            full.append(part)
            part = []
    return full, part


# -- older records together
#
# A step of a graph is several small records: stored one by one, what belongs to each (its key, its place in a tree) takes more room
# than what it says. So a record begins as one of its own, and when a thread has enough of them, all move into a part: one record,
# compressed as a whole, in which the same message is there once whoever says it. A record of its own counts before one in a part.


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


_Encoded: TypeAlias = tuple[list[str], Fields]  # an id as `_plain` makes it, and the fields

_ROWS: Final = msgspec.msgpack.Decoder(list[_Encoded])
_ROW: Final = msgspec.msgpack.Decoder(_Encoded)
_LOG_PART_BYTES: Final = 128 << 10  # they are some 28 KB compressed: a message is in several records
_LOG: Final = re.compile(r"langgraph\.[0-9a-f]+\.[0-9a-f]{22}")  # a list of a user's may begin so too
_MOST_LOGS: Final = 16  # of a thread: more become parts
_Begun: TypeAlias = tuple[int, int, str]  # how often HEAD had moved, in which process, and the name
_BEGUN: Final[weakref.WeakKeyDictionary[Line, dict[str, _Begun]]] = weakref.WeakKeyDictionary()


class _Logs:
    """Records that commits of a session moved together, in lists. Of several with one id the last counts.

    A commit for each turn of a conversation stores one piece so, which a full part of the list takes in later. A log only grows, from
    one commit to the next: whoever goes back to an earlier commit, or deletes a log, begins another one. So what was read of
    one stays true, and no two branches change the same one.
    """

    def __init__(self, repo: Repository, branch: str | None) -> None:
        self._repo = repo
        self._branch = branch
        self._tails: dict[str, tuple[object, int, Mapping[str, Fields]]] = {}
        self._ids: dict[tuple[str, int], frozenset[str]] = {}
        self._loaded: dict[tuple[str, int], Mapping[str, Fields]] = {}

    def names(self, start: str) -> list[str]:
        """The logs of a thread, by how its ids begin, the oldest first; of all threads, if with nothing."""
        thread, dot, _ = start.partition(".")
        found = names_of_lists(self._repo, f"langgraph.{thread}{dot}", plane="branch", branch=self._branch)
        return [name for name in found if _LOG.fullmatch(name)]

    def get(self, id: str) -> Fields | None:
        for name in reversed(self.names(id)):
            parts, rows = self._tail(name)
            if id in rows:
                return rows[id]
            for number in range(parts - 1, -1, -1):
                if id in self._ids_in(name, number):
                    return self._load(name, number)[id]
        return None

    def ids(self, start: str) -> list[Iterator[str]]:
        """The ids in each log that begin so, in order."""
        return [iter(sorted(id for id in self._all_ids(name) if id.startswith(start))) for name in self.names(start)]

    def append(self, line: Line, thread: str, rows: Mapping[str, Fields]) -> None:
        if rows:
            self._list(self._growing(line, thread)).extend(map(_text_of, rows.items()))

    def take(self, line: Line, thread: str, ids: Collection[str] | None = None) -> dict[str, Fields]:
        """Delete the logs of a thread, if they have any of these records, and return the others in them."""
        names = self.names(thread + ".")
        if ids is not None and all(self._all_ids(name).isdisjoint(ids) for name in names):
            return {}
        rows = self.rows(thread)
        _BEGUN.get(line, {}).pop(thread, None)
        for name in names:
            self._list(name).delete()
        return {id: fields for id, fields in rows.items() if ids is None or id not in ids}

    def rows(self, thread: str) -> dict[str, Fields]:
        return {id: fields for name in self.names(thread + ".") for id, fields in self._rows(name).items()}

    def _growing(self, line: Line, thread: str) -> str:
        """The log of a thread that the next commit of a session adds to."""
        begun = _BEGUN.setdefault(line, {})
        moves, process, name = begun.get(thread, (-1, -1, ""))
        if (moves, process) != (line.moves, os.getpid()):
            name = f"langgraph.{thread}.{time.time_ns():016x}{os.urandom(3).hex()}"
            begun[thread] = line.moves, os.getpid(), name
        return name

    def _list(self, name: str) -> RecordList:
        return RecordList(self._repo, name, plane="branch", branch=self._branch, part_bytes=_LOG_PART_BYTES)

    def _tail(self, name: str) -> tuple[int, Mapping[str, Fields]]:
        log = self._list(name)
        mark = log.mark()
        known = self._tails.get(name)
        if known is None or known[0] != mark:
            parts, items = log.tail()
            if len(self._tails) >= _KEPT:
                self._tails.clear()
            known = self._tails[name] = mark, parts, _rows_of(name, items)
        return known[1:]

    def _ids_in(self, name: str, number: int) -> frozenset[str]:
        found = self._ids.get((name, number))
        return frozenset(self._load(name, number)) if found is None else found

    def _load(self, name: str, number: int) -> Mapping[str, Fields]:
        found = self._loaded.get((name, number))
        if found is None:
            found = _rows_of(name, self._list(name).part(number))
            if len(self._loaded) >= _KEPT:
                self._loaded.clear()
            self._loaded[name, number] = found
            self._ids[name, number] = frozenset(found)
        return found

    def _all_ids(self, name: str) -> set[str]:
        parts, rows = self._tail(name)
        return {*rows}.union(*(self._ids_in(name, number) for number in range(parts)))

    def _rows(self, name: str) -> dict[str, Fields]:
        parts, rows = self._tail(name)
        found: dict[str, Fields] = {}
        for number in range(parts):
            found |= self._load(name, number)
        return found | dict(rows)


def _text_of(row: tuple[str, Fields]) -> str:
    """A record as an item of a list: each byte of it is a character, so that texts within stay what they are."""
    id, fields = row
    return msgspec.msgpack.encode((_plain(id), fields)).decode("latin-1")


def _rows_of(name: str, items: Iterable[str]) -> dict[str, Fields]:
    thread = name.split(".")[1]
    decoded = (_ROW.decode(item.encode("latin-1")) for item in items)
    return {_id_of(thread, plain): fields for plain, fields in decoded}


class Parts:
    """The parts of all threads of a branch. Ids of records begin with their thread and a dot."""

    def __init__(self, repo: Repository, branch: str | None) -> None:
        self._records = Records(repo, _PartRecord, branch=branch)
        self._logs = _Logs(repo, branch)
        self._ids: dict[str, list[str]] = {}  # by part: a part never changes
        self._loaded: dict[str, _Part] = {}

    def get(self, id: str) -> Fields | None:
        """The fields of a record that is in a log or a part."""
        found = self._logs.get(id)
        if found is not None:
            return found
        for part in reversed(self._parts_of(id)):
            ids = self._ids_in(part)
            place = bisect_left(ids, id)
            if place < len(ids) and ids[place] == id:
                return self._load(part).rows[id]
        return None

    def ids(self, start: str) -> list[Iterator[str]]:
        """The ids in each log and part that begin so, in order."""
        found = self._logs.ids(start)
        for part in self._parts_of(start):
            ids = self._ids_in(part)
            first = bisect_left(ids, start)
            last = bisect_left(ids, start + "\U0010ffff", first)
            if first < last:
                found.append(iter(ids[first:last]))
        return found

    def append(self, thread: str, rows: Mapping[str, Fields]) -> None:
        """Put records of a thread, which the next commit of a session brings, together in a log."""
        line = self._records.line()
        if len(self._logs.names(thread + ".")) > _MOST_LOGS:
            self._add_all(thread, self._logs.take(line, thread))
        self._logs.append(line, thread, rows)

    def add(self, thread: str, rows: Mapping[str, Fields]) -> None:
        """Put records of a thread together in a part. They count before those of the logs."""
        self._add_all(thread, self._logs.take(self._records.line(), thread, rows.keys()))
        self._add(thread, rows)

    def _add_all(self, thread: str, rows: Mapping[str, Fields]) -> None:
        if rows:
            self._add(thread, rows)

    def _add(self, thread: str, rows: Mapping[str, Fields]) -> None:
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
            self._add_all(thread, self._logs.take(self._records.line(), thread, wanted))
            for part in self._parts_of(thread + "."):
                if wanted.isdisjoint(self._ids_in(part)):
                    continue
                rest = {id: fields for id, fields in self._load(part).rows.items() if id not in wanted}
                self._records.delete(part)
                self._add_all(thread, rest)

    def copy(self, old: str, new: str, change: Callable[[Fields], Fields]) -> None:
        """Copy the parts of a thread to another one."""
        for part in self._parts_of(old + "."):
            rows = self._load(part).rows
            self._add_all(new, {new + id.removeprefix(old): change(fields) for id, fields in rows.items()})
        rows = self._logs.rows(old)
        self._add_all(new, {new + id.removeprefix(old): change(fields) for id, fields in rows.items()})

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
