"""LangGraph's checkpoints and its store as records: `AgentKernelSaver` and `AgentKernelStore`.

A checkpoint is a record of the branch, so a checkout takes a graph's threads along with the variables. It holds the values of the
channels that changed in it, and for each other channel the checkpoint that has its value. Lists (messages) are cut into pages,
so that a step costs what is new in it. Records of a thread begin with the thread, then the namespace, then the checkpoint's id
turned around: the newest comes first, and what belongs to one checkpoint lies together.
"""

from __future__ import annotations

import asyncio
import json
import operator
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec
import zstandard
from blake3 import blake3
from pydantic import ConfigDict

from agent_kernel.errors import InvalidRecordError, MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.integrations.thread_parts import (
    BESIDE_BYTES,
    PART_BYTES,
    Fields,
    Page,
    PageId,
    Pages,
    Parts,
    Rows,
    Spine,
    cut,
    pages_of,
    read_items,
    write_items,
)
from agent_kernel.records.collection import Records, exactly, is_in_transaction, together
from agent_kernel.records.documents import is_plain
from agent_kernel.records.schema import Plane, Record
from agent_kernel.session.snapshot import Repository

try:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", "langgraph") from error

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.store.base import TTLConfig

__all__ = ["AgentKernelSaver", "AgentKernelStore"]

T = TypeVar("T")
R = TypeVar("R", bound=Record)

_CHECKPOINT: Final = "c"
_WRITES: Final = "w"
_PAGED_FROM: Final = 1_024  # bytes of a list from which it is cut into pages
_KNOWN: Final = 64  # lists whose pages are remembered
_READ: Final = 16_384  # pages that are remembered
_FORKED: Final = ("update", "fork")


_Version: TypeAlias = str | int | float
_PendingWrites: TypeAlias = list[tuple[str, str, Any]]
_Loaded: TypeAlias = list[Any]
_Encoded: TypeAlias = list[bytes]


class _Value(msgspec.Struct, frozen=True, array_like=True):
    """A channel's value in a checkpoint, or the checkpoint that has it."""

    version: _Version
    holder: str = ""  # the id of another checkpoint of the thread and namespace
    kind: str = ""  # "": a list in pages; otherwise the serializer's
    content: bytes = b""
    spine: Spine | None = None


class _Body(msgspec.Struct, frozen=True, array_like=True):
    checkpoint: tuple[str, bytes]  # without the values of channels
    metadata: tuple[str, bytes]
    values: dict[str, _Value]


class _Write(msgspec.Struct, frozen=True, array_like=True):
    index: int  # among the writes of its task
    channel: str
    value: tuple[str, bytes]  # ("", b""): a list in pages
    spine: Spine | None = None


class _LangGraphRecord(Record):
    collection = "langgraph"
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class _CheckpointRecord(_LangGraphRecord):
    thread: str
    namespace: str
    checkpoint: str
    parent: str | None = None
    run: str = ""
    is_remnant: bool = False  # deleted, but for values that other checkpoints point at
    body: bytes


class _WritesRecord(_LangGraphRecord):
    task: str
    path: str = ""
    writes: bytes


class _PageRecord(_LangGraphRecord):
    page: bytes


class AgentKernelSaver(BaseCheckpointSaver[str]):
    """Keeps the threads of LangGraph on a branch. Safe from several threads and coroutines.

    Args:
        repo: a repository, or the path or URL of one.
        branch: whose threads; by default those of the branch that this process works on.
        serde: how values become bytes; by default as LangGraph does.

    While a session of this process is on the branch, checkpoints are part of its next commit, and a checkout rewinds both.
    `delete_thread` and `prune` delete from the branch as it is now: earlier commits still have what was there.
    """

    def __init__(
        self,
        repo: Repository | str | Path,
        *,
        branch: str | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.repo = open_on(repo, branch, "branch")
        self._parts = Parts(self.repo, branch)
        self._checkpoints = self._rows_of(_CheckpointRecord, branch, "body")
        self._writes = self._rows_of(_WritesRecord, branch, "writes")
        self._pages = self._rows_of(_PageRecord, branch, "page")
        self._all = Records(self.repo, _LangGraphRecord, branch=branch)
        self._alone: dict[str, int] = {}  # by thread: bytes of records that are in no part
        self._known: dict[bytes, dict[bytes, PageId]] = {}
        # Pages of late, by thread and digest. A checkout may have taken them away, so each is looked for before it is used.
        self._late: dict[tuple[str, bytes], PageId] = {}
        self._read: dict[str, Page] = {}

    def _rows_of(self, model: type[R], branch: str | None, packed: str) -> Rows[R]:
        return Rows(
            self._parts,
            Records(self.repo, model, branch=branch),
            lambda fields: {**fields, packed: _unpacked(fields[packed])},
            lambda fields: {**fields, packed: _AS_IT_IS + fields[packed]},
        )

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Returns the config that names it."""
        thread, namespace = _thread_and_namespace(config)
        parent = get_checkpoint_id(config)
        bare = cast("Checkpoint", {name: value for name, value in checkpoint.items() if name != "channel_values"})
        metadata = get_checkpoint_metadata(config, metadata)
        typed = self.serde.dumps_typed(bare), self.serde.dumps_typed(metadata)

        def store() -> int:
            values = self._values_of(thread, namespace, parent, checkpoint, new_versions)
            record = _CheckpointRecord(
                id=_key(thread, namespace, checkpoint["id"], _CHECKPOINT),
                thread=thread,
                namespace=namespace,
                checkpoint=checkpoint["id"],
                parent=parent,
                run=str(metadata.get("run_id") or ""),
                body=_packed(_Body(*typed, values)),
            )
            self._checkpoints.put(record)
            return self._put_together(thread, len(record.body))

        alone = self._change(store, f"LangGraph: checkpoint of thread {thread}")
        if not alone:
            self._alone.clear()
        self._alone[_short(thread, 10)] = alone
        return _config_of(thread, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote after a checkpoint. What the task has written before stays, but for errors and interrupts."""
        thread, namespace = _thread_and_namespace(config)
        id = _key(thread, namespace, config["configurable"]["checkpoint_id"], _WRITES, _short(task_id, 8))
        new = [(WRITES_IDX_MAP.get(channel, index), channel, value) for index, (channel, value) in enumerate(writes)]
        typed = [self._items_of(value) or self.serde.dumps_typed(value) for _, _, value in new]

        def store() -> None:
            current = self._writes.get(id)
            merged = {} if current is None else {one.index: one for one in _writes_of(current)}
            known = frozenset(merged)
            for (index, channel, _), value in zip(new, typed, strict=True):
                if index < 0 or index not in known:
                    # What a task writes is in the next checkpoint, too: both have the same pages.
                    spine = self._write_list(thread, value, None) if isinstance(value, list) else None
                    merged[index] = _Write(index, channel, ("", b"") if isinstance(value, list) else value, spine)
            path = task_path if current is None else current.path
            content = list(merged.values())
            record = _WritesRecord(id=id, task=task_id, path=path, writes=_packed(content))
            if current is None or content != _writes_of(current) or path != current.path:
                self._writes.put(record)
                self._note_size(thread, record.writes)

        self._change(store, f"LangGraph: writes of thread {thread}")

    def _put_together(self, thread: str, new: int) -> int:
        """Let records lie in parts, once there are enough of them. Returns the bytes of those of the thread that lie alone."""
        short = _short(thread, 10)
        beside = self._all.ids_beside(BESIDE_BYTES)
        if beside:
            for other, ids in groupby(beside, lambda id: id.partition(".")[0]):
                self._move_to_parts(other, self._own_fields(ids))
            return 0
        alone = self._alone.get(short)
        if alone is not None and alone + new < PART_BYTES:
            return alone + new
        rows = self._own_fields(self._all.ids(exactly(f"{short}.") + "*"))
        size = sum(map(_size_of, rows.values()))
        return size - (self._move_to_parts(short, rows) if size >= PART_BYTES else 0)

    def pack(self) -> None:
        """Let records that the next commit of a session brings lie together in the logs of their threads."""
        if is_in_transaction():
            return

        def pack() -> None:
            ids = self._all.ids_beside(0)
            for short, of_thread in groupby(ids, lambda id: id.partition(".")[0]):
                rows = self._own_fields(of_thread)
                self._parts.append(short, rows)
                for id in rows:
                    self._all.delete(id)
                self._alone.pop(short, None)

        together(self._all, pack, "LangGraph: records together")

    def _own_fields(self, ids: Iterable[str]) -> dict[str, Fields]:
        rows: dict[str, Fields] = {}
        for id in ids:
            kind = _kind_of(id)
            of_kind = self._checkpoints if kind == _CHECKPOINT else self._writes if kind == _WRITES else self._pages
            fields = of_kind.own_fields(id)
            if fields is not None:
                rows[id] = fields
        return rows

    def _move_to_parts(self, short: str, rows: Mapping[str, Fields]) -> int:
        moved = 0
        for part in cut(rows, _size_of):
            self._parts.add(short, part)
            for id in part:
                self._all.delete(id)
            moved += sum(map(_size_of, part.values()))
        return moved

    def _note_size(self, thread: str, content: bytes) -> None:
        short = _short(thread, 10)
        if short in self._alone:  # a write that is tried again counts twice: then all are looked at the sooner
            self._alone[short] += len(content)

    def _values_of(
        self, thread: str, namespace: str, parent: str | None, checkpoint: Checkpoint, new_versions: ChannelVersions
    ) -> dict[str, _Value]:
        before = None if parent is None else self._checkpoints.get(_key(thread, namespace, parent, _CHECKPOINT))
        values_before = {} if before is None or before.is_remnant else _body_of(before).values
        found: dict[str, _Value] = {}
        for channel, version in checkpoint["channel_versions"].items():
            current = values_before.get(channel)
            if channel not in new_versions and current is not None and current.version == version:
                found[channel] = current if current.holder else _Value(version, holder=cast("str", parent))
            elif channel in checkpoint["channel_values"]:
                value = checkpoint["channel_values"][channel]
                if current is not None and current.holder:
                    current = self._value_in_holder(thread, namespace, channel, current)
                found[channel] = self._stored(thread, version, value, current)
        return found

    def _stored(self, thread: str, version: _Version, value: object, before: _Value | None) -> _Value:
        """A value; of a list that is long, what is new in it goes into pages."""
        items = self._items_of(value)
        if items is not None:
            return _Value(version, spine=self._write_list(thread, items, before))
        kind, content = self.serde.dumps_typed(value)
        return _Value(version, "", kind, content)

    def _items_of(self, value: object) -> _Encoded | None:
        """The items of a list that is long enough for pages."""
        if type(value) is not list:
            return None
        items = [msgspec.msgpack.encode(self.serde.dumps_typed(item)) for item in cast("list[object]", value)]
        return items if sum(map(len, items)) >= _PAGED_FROM else None

    def _write_list(self, thread: str, items: Sequence[bytes], before: _Value | None) -> Spine:
        pages = self._pages_in(thread)
        known: Mapping[bytes, PageId] = {}

        def find(digest: bytes) -> PageId | None:
            id = known.get(digest)
            if id is None:
                id = self._late.get((thread, digest))
                if id is not None and _page_id(thread, id) not in self._pages:
                    return None
            return id

        if before is not None and before.spine is not None:
            mark = _mark(thread, before.spine)
            known = self._known.get(mark) or pages_of(before.spine, pages)
        spine, used = write_items(items, find, pages)
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[_mark(thread, spine)] = used
        if len(self._late) >= _READ:
            self._late.clear()
        self._late.update(((thread, digest), id) for digest, id in used.items() if digest not in known)
        return spine

    def _value_in_holder(self, thread: str, namespace: str, channel: str, value: _Value) -> _Value | None:
        """The value that a pointer stands for."""
        holder = self._checkpoints.get(_key(thread, namespace, value.holder, _CHECKPOINT))
        return None if holder is None else _body_of(holder).values.get(channel)

    def _pages_in(self, thread: str) -> Pages:
        def read(id: PageId) -> Page:
            found = self._read.get(_page_id(thread, id))
            if found is None:
                found = _PAGE.decode(_unpacked(self._pages[_page_id(thread, id)].page))
                remember(id, found)
            return found

        def write(id: PageId, page: Page) -> None:
            record = _PageRecord(id=_page_id(thread, id), page=_packed(page))
            self._pages.put(record, expect=0)
            self._note_size(thread, record.page)
            remember(id, page)

        def remember(id: PageId, page: Page) -> None:
            if len(self._read) >= _READ:
                self._read.clear()
            self._read[_page_id(thread, id)] = page  # a page never changes

        return Pages(read, write)

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest of its thread and namespace. Returns None if nothing is there."""
        thread, namespace = _thread_and_namespace(config)
        checkpoint = get_checkpoint_id(config)
        if checkpoint:
            record = self._checkpoints.get(_key(thread, namespace, checkpoint, _CHECKPOINT))
        else:
            record = next(self._living(_start(thread, namespace)), None)
        if record is None or record.is_remnant:
            return None
        return self._as_resumable(config, self._tuple_of(record))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest of each thread and namespace first.

        Args:
            config: of this thread and, where it names them, this namespace and checkpoint; None: of all.
            filter: values that their metadata have.
            before: those that are older than the checkpoint of this config.
        """
        wanted = None if config is None else get_checkpoint_id(config)
        newest = None if before is None else get_checkpoint_id(before)
        remaining = -1 if limit is None else max(limit, 0)
        for record in self._living(_start_of(config)) if remaining else ():
            if (wanted and record.checkpoint != wanted) or (newest and record.checkpoint >= newest):
                continue
            if filter:
                metadata = self.serde.loads_typed(_body_of(record).metadata)
                if any(metadata.get(name) != value for name, value in filter.items()):
                    continue
            yield self._tuple_of(record)
            remaining -= 1
            if remaining == 0:
                return

    def _living(self, start: str) -> Iterator[_CheckpointRecord]:
        """The checkpoints whose keys begin so."""
        for id in self._checkpoints.ids(start):
            record = self._checkpoints.get(id) if _kind_of(id) == _CHECKPOINT else None
            if record is not None and not record.is_remnant:
                yield record

    def _tuple_of(self, record: _CheckpointRecord) -> CheckpointTuple:
        body = _body_of(record)
        checkpoint = self.serde.loads_typed(body.checkpoint)
        parent = None if not record.parent else _config_of(record.thread, record.namespace, record.parent)
        return CheckpointTuple(
            config=_config_of(record.thread, record.namespace, record.checkpoint),
            checkpoint=cast("Checkpoint", {**checkpoint, "channel_values": self._loaded(record, body)}),
            metadata=self.serde.loads_typed(body.metadata),
            parent_config=parent,
            pending_writes=self._pending(record),
        )

    def _loaded(self, record: _CheckpointRecord, body: _Body) -> dict[str, Any]:
        bodies = {"": body}
        found: dict[str, Any] = {}
        for channel, value in body.values.items():
            if value.holder not in bodies:
                holder = self._checkpoints.get(_key(record.thread, record.namespace, value.holder, _CHECKPOINT))
                bodies[value.holder] = body if holder is None else _body_of(holder)
            original = bodies[value.holder].values.get(channel)
            if original is not None and not original.holder:
                found[channel] = self._value_of(record.thread, original)
        return found

    def _value_of(self, thread: str, value: _Value) -> Any:
        if value.spine is None:
            return self.serde.loads_typed((value.kind, value.content))
        return self._list_in(thread, value.spine)

    def _list_in(self, thread: str, spine: Spine) -> _Loaded:
        return [self.serde.loads_typed(_TYPED.decode(item)) for item in read_items(spine, self._pages_in(thread))]

    def _pending(self, record: _CheckpointRecord) -> _PendingWrites:
        found: list[tuple[tuple[str, str, int], _Write]] = []
        for id in self._writes.ids(_start(record.thread, record.namespace, record.checkpoint) + _WRITES):
            writes = self._writes.get(id)
            if writes is not None:
                found += [(writes_sort_key(writes.path, writes.task, one.index), one) for one in _writes_of(writes)]
        found.sort(key=lambda pair: pair[0])
        return [(key[1], one.channel, self._written(record.thread, one)) for key, one in found]

    def _written(self, thread: str, write: _Write) -> Any:
        if write.spine is not None:
            return self._list_in(thread, write.spine)
        return self.serde.loads_typed(write.value)

    def _as_resumable(self, config: RunnableConfig, found: CheckpointTuple) -> CheckpointTuple:
        """Where the config names a checkpoint of a subgraph too, the parent's checkpoint is one to go on from.

        LangGraph (since 1.1.7) forks the parent when it travels back, which gives the subgraph a new namespace, where the
        checkpoint that was asked for is not: the subgraph begins from its start (langgraph#8458). A checkpoint that is a
        fork already it does not fork again, and the subgraph goes on where it was asked to. That holds while the thread's newest
        checkpoint is the parent's: one that the thread has moved past LangGraph (since 1.2) forks all the same.
        """
        options = config["configurable"]
        namespace = options.get("checkpoint_ns", "")
        inner = [one for one in options.get("checkpoint_map") or () if one != namespace and one.startswith(namespace)]
        if not inner or not options.get("checkpoint_id") or found.metadata.get("source") in _FORKED:
            return found
        return found._replace(metadata={**found.metadata, "source": "fork"})

    # -- deleting and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's checkpoints and writes."""
        self._change(
            lambda: self._delete([*self._checkpoints.ids(_start(thread_id))]),
            f"LangGraph: delete {thread_id}",
        )

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of runs. Values that other checkpoints still have are kept for them."""
        wanted = set(run_ids)

        def delete() -> None:
            deleted = [record for record in self._living("") if record.run in wanted]
            for thread in dict.fromkeys(record.thread for record in deleted):
                self._delete_from(thread, {record.id for record in deleted if record.thread == thread})

        if wanted:
            self._change(delete, "LangGraph: delete runs")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads, but for the newest of each namespace and what it is built from.

        Args:
            strategy: `keep_latest`, or `delete` for all.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")

        def delete() -> None:
            for thread in thread_ids:
                if strategy == "delete":
                    self._delete([*self._checkpoints.ids(_start(thread))])
                    continue
                records = {record.id: record for record in self._living(_start(thread))}
                newest: dict[str, _CheckpointRecord] = {}
                for record in records.values():
                    newest.setdefault(record.namespace, record)
                keep = {one.id for record in newest.values() for one in self._needed_by(record, records)}
                self._delete_from(thread, records.keys() - keep)

        self._change(delete, "LangGraph: prune")

    def _needed_by(
        self, record: _CheckpointRecord, records: Mapping[str, _CheckpointRecord]
    ) -> Iterator[_CheckpointRecord]:
        """A checkpoint and, for channels stored as differences, those before it back to one that has their values."""
        yield record
        body = _body_of(record)
        counters = self.serde.loads_typed(body.metadata).get("counters_since_delta_snapshot") or {}
        missing = set(counters) - body.values.keys()
        while missing and record.parent:
            before = records.get(_key(record.thread, record.namespace, record.parent, _CHECKPOINT))
            if before is None:
                return
            yield before
            record = before
            missing -= _body_of(before).values.keys()

    def _delete_from(self, thread: str, deleted: Collection[str]) -> None:
        """Delete checkpoints of a thread. What the others point at stays, as remnants, with the pages of their lists."""
        if not deleted:
            return
        records: dict[str, _CheckpointRecord] = {}
        for id in self._checkpoints.ids(_start(thread)):
            if _kind_of(id) == _CHECKPOINT:
                records[id] = self._checkpoints[id]
        remaining = {id: record for id, record in records.items() if id not in deleted and not record.is_remnant}
        needed: dict[str, set[str]] = {}
        for record in remaining.values():
            for channel, value in _body_of(record).values.items():
                if value.holder:
                    key = _key(thread, record.namespace, value.holder, _CHECKPOINT)
                    needed.setdefault(key, set()).add(channel)
        spines = [spine for record in remaining.values() for spine in _spines_of(record)]
        for id in records.keys() - remaining.keys():
            self._delete([*self._checkpoints.ids(id.removesuffix(_CHECKPOINT) + _WRITES)])
            remnant = _remnant_of(records[id], needed.get(id, ()))
            if remnant is None:
                self._delete([id])
            else:
                self._checkpoints.put(remnant)
                spines += _spines_of(remnant)
        for id in self._writes.ids(_start(thread)):
            writes = self._writes.get(id) if _kind_of(id) == _WRITES else None
            spines += [one.spine for one in _writes_of(writes) if one.spine is not None] if writes is not None else []
        self._delete_pages(thread, spines)

    def _delete_pages(self, thread: str, spines: Iterable[Spine]) -> None:
        pages = self._pages_in(thread)
        used = {id.hex() for spine in spines for id in pages_of(spine, pages).values()}
        start = f"{_short(thread, 10)}.p."
        self._delete([id for id in self._pages.ids(start) if id.removeprefix(start) not in used])

    def _delete(self, ids: Collection[str]) -> None:
        for id in ids:
            self._all.delete(id)
        self._parts.delete(ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another one."""
        old, new = _start(source_thread_id), _start(target_thread_id)

        def copy() -> None:
            self._parts.copy(
                _short(source_thread_id, 10),
                _short(target_thread_id, 10),
                lambda fields: {**fields, "thread": target_thread_id} if "thread" in fields else fields,
            )
            for id in [*self._all.ids(exactly(old) + "*")]:
                new_id = new + id.removeprefix(old)
                kind = _kind_of(id)
                if kind == _CHECKPOINT:
                    record = self._checkpoints[id]
                    self._checkpoints.put(record.model_copy(update={"id": new_id, "thread": target_thread_id}))
                elif kind == _WRITES:
                    self._writes.put(self._writes[id].model_copy(update={"id": new_id}))
                else:
                    self._pages.put(self._pages[id].model_copy(update={"id": new_id}))

        if source_thread_id != target_thread_id:
            self._change(copy, f"LangGraph: copy {source_thread_id} to {target_thread_id}")

    def _change(self, change: Callable[[], T], message: str) -> T:
        self._all.line().pack_with(self)
        return together(self._all, change, message, may_lie_beside=True)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that is larger, and differs from those that other branches of the thread make."""
        number = 0 if current is None else current if isinstance(current, int) else int(str(current).split(".")[0])
        return f"{number + 1:032}.{secrets.randbelow(10**8):08}"  # and the program's random numbers stay as they are

    # -- for coroutines: the same in a thread

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


_BODY: Final = msgspec.msgpack.Decoder(_Body)
_WRITE_LIST: Final = msgspec.msgpack.Decoder(list[_Write])
_TYPED: Final = msgspec.msgpack.Decoder(tuple[str, bytes])
_PAGE: Final = msgspec.msgpack.Decoder(Page)


# What most checkpoints and messages say, as they are encoded: most of a short one is this. Never change it: with other words, what
# was stored cannot be read. A new one needs a mark of its own.
_WORDS: Final = zstandard.ZstdCompressionDict(
    b"\xb9langchain_core.messages.base\xbclangchain_core.messages.tool\xabToolMessage\xactool_call_id\xa8artifact\xc0\xa6status\xa7success"
    b"\xbelangchain_core.messages.system\xadSystemMessage\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content"
    b"\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human"
    b"\xa4type\xa2ai\xa4name\xc0\xa2id\xc0\xaatool_calls\x91\x84\xa4name\xa4args\x81\xa2id\xa4type\xa9tool_call\xb2invalid_tool_calls\x90"
    b"\xaeusage_metadata\x83\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xb3model_validate_json\xb1additional_kwargs\x80"
    b"\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$\x93\x92\xa7msgpack\xc5\x86\xa1v\x04\xa2ts\xd9 "
    b"T00:00:00.000000+00:00\xa2id\xd9$\xb0channel_versions\x83\xa9__start__\xd9)00000000000000000000000000000000.\xa8messages\xd9)"
    b"00000000000000000000000000000000.\xb0branch:to:agent\xa5tools\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__"
    b"\xd9)00000000000000000000000000000000.\xb0updated_channels\x91\xa8messages\x92\xa7msgpack\xc4\x1e\x83\xa6source\xa4loop\xa5input"
    b"\xa4step\xcd\x01\xa7parents\x80\x81\xa8messages\x95\xd9)00000000000000000000000000000000.\xa0\xa0\xc4\x00\x92\x9a\x92\x02\xc4\n",
    dict_type=zstandard.DICT_TYPE_RAWCONTENT,
)
_WITH_WORDS: Final = b"\x01"  # no frame of zstd begins so
_AS_IT_IS: Final = b"\x02"  # in a part, which is compressed as a whole


def _packed(value: object) -> bytes:
    compressor = zstandard.ZstdCompressor(
        level=3, dict_data=_WORDS, write_dict_id=False, write_checksum=False, write_content_size=True
    )
    return _WITH_WORDS + compressor.compress(msgspec.msgpack.encode(value))


def _size_of(fields: Fields) -> int:
    return sum(len(value) for value in fields.values() if isinstance(value, str | bytes))


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(_AS_IT_IS):
        return packed[1:]
    if not packed.startswith(_WITH_WORDS):  # of a release that had no words yet
        return zstandard.decompress(packed)
    return zstandard.ZstdDecompressor(dict_data=_WORDS).decompress(packed[1:])


def _body_of(record: _CheckpointRecord) -> _Body:
    return _BODY.decode(_unpacked(record.body))


def _writes_of(record: _WritesRecord) -> list[_Write]:
    return _WRITE_LIST.decode(_unpacked(record.writes))


def _page_id(thread: str, id: PageId) -> str:
    return f"{_short(thread, 10)}.p.{id.hex()}"


def _spines_of(record: _CheckpointRecord) -> list[Spine]:
    return [value.spine for value in _body_of(record).values.values() if value.spine is not None]


def _remnant_of(record: _CheckpointRecord, channels: Collection[str]) -> _CheckpointRecord | None:
    """What is left of a deleted checkpoint: the values that others point at."""
    values = {channel: value for channel, value in _body_of(record).values.items() if channel in channels}
    if not values:
        return None
    body = _packed(_Body(("", b""), ("", b""), values))
    return record.model_copy(update={"is_remnant": True, "parent": None, "run": "", "body": body})


def _mark(thread: str, spine: Spine) -> bytes:
    return blake3(thread.encode() + b"\0" + msgspec.msgpack.encode(spine)).digest()


def _short(text: str, size: int) -> str:
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(size)


def _start(thread: str, namespace: str | None = None, checkpoint: str | None = None) -> str:
    """How the keys of a thread, of a namespace of it, or of a checkpoint begin."""
    start = f"{_short(thread, 10)}."
    if namespace is not None:
        start += f"{_short(namespace, 6)}."
    if checkpoint is not None:
        # Turned around, so that the newest comes first; `g` comes after all digits, so that what is longer does too.
        start += "".join(f"{255 - byte:02x}" for byte in checkpoint.encode()) + "g."
    return start


def _key(thread: str, namespace: str, checkpoint: str, kind: str, rest: str = "") -> str:
    return _start(thread, namespace, checkpoint) + kind + (f".{rest}" if rest else "")


def _kind_of(id: str) -> str:
    parts = id.split(".")
    return parts[3] if len(parts) > 3 else ""


def _start_of(config: RunnableConfig | None) -> str:
    if config is None:
        return ""
    thread, namespace = str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns")
    return _start(thread, namespace, get_checkpoint_id(config) if namespace is not None else None)


def _thread_and_namespace(config: RunnableConfig) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns") or ""


def _config_of(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


# -- the store: what is remembered across threads

_MINUTE_S: Final = 60.0
_KEY: Final = "\x1f"  # between a namespace and a key
_HASHED: Final = "\x1e"  # before ids of items whose names are too long for one
_MOST_NAME: Final = 300  # bytes

_VALUES: Final = JsonPlusSerializer()
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
}


class _ItemRecord(Record):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    collection = "langgraph store"
    plane: ClassVar[Plane] = "store"
    keeps_past = False  # what is deleted is gone; on a branch the commits keep it
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    packed: tuple[str, bytes] | None = None  # the value as LangGraph's serializer gives it, where JSON would change it
    created: datetime
    updated: datetime
    ttl_min: float | None = None


class _BranchItemRecord(_ItemRecord):
    plane: ClassVar[Plane] = "branch"


class AgentKernelStore(BaseStore):
    """LangGraph's long-term memory as records.

    Args:
        plane: `store` (the default) remembers across branches and checkouts; `branch` is rewound by a checkout.

    Values are dicts of what JSON or LangGraph's serializer holds (bytes, sets, times, decimals …); a tuple comes back as a list. A
    `query` is ignored, as `InMemoryStore` without an index does. Beside the branches no earlier values are kept.

    Raises of `put`:
        InvalidRecordError: neither holds the value, or UTF-8 does not hold a text in it (half a character). Nothing was stored.
    """

    supports_ttl = True

    def __init__(
        self,
        repo: Repository | str | Path,
        *,
        plane: Plane = "store",
        branch: str | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.repo = open_on(repo, branch, plane)
        self.ttl_config = ttl
        model = _ItemRecord if plane == "store" else _BranchItemRecord
        self._items: Records[_ItemRecord] = Records(self.repo, model, branch=branch)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations as one: all of them read what was there before."""
        operations = list(ops)
        changes = any(
            isinstance(op, PutOp) or (isinstance(op, GetOp | SearchOp) and op.refresh_ttl) for op in operations
        )
        if not changes:
            return [self._answer(op) for op in operations]
        return together(self._items, partial(self._do, operations), "LangGraph: store")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _do(self, ops: Sequence[Op]) -> list[Result]:
        answers = [self._answer(op) for op in ops]
        for op in {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}.values():
            self._put(op)
        return answers

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            record = self._items.get(_id_of(op.namespace, op.key))
            return None if record is None else Item(**self._read(record, op.refresh_ttl))
        if isinstance(op, SearchOp):
            below = _in_order(self._below(op.namespace_prefix))
            found = [record for record in below if not op.filter or _fits(_value_of(record), op.filter)]
            wanted = found[op.offset : op.offset + op.limit]
            return [SearchItem(**self._read(record, op.refresh_ttl)) for record in wanted]
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        return None

    def _below(self, prefix: tuple[str, ...]) -> Iterator[_ItemRecord]:
        starts = ["".join(f"{label}." for label in prefix)]
        for start in [*starts, _HASHED] if prefix else starts:
            for id in self._items.ids(exactly(start) + "*"):
                record = self._items.get(id)
                if record is not None and record.namespace[: len(prefix)] == prefix:
                    yield record

    def _read(self, record: _ItemRecord, refresh_ttl: bool) -> dict[str, Any]:
        if refresh_ttl and record.ttl_min is not None:
            self._items.put(record, ttl_s=record.ttl_min * _MINUTE_S)
        return {
            "namespace": record.namespace,
            "key": record.key,
            "value": _value_of(record),
            "created_at": record.created,
            "updated_at": record.updated,
        }

    def _put(self, op: PutOp) -> None:
        id = _id_of(op.namespace, op.key)
        if op.value is None:
            self._items.delete(id)
            return
        if not is_plain([*op.namespace, op.key]):
            raise InvalidRecordError("langgraph store", ascii(op.key), "UTF-8 does not hold its name")
        packed = None if is_plain(op.value) else _packed_value(op.key, op.value)
        now, current = datetime.now(UTC), self._items.get(id)
        record = self._items.schema.model(
            id=id,
            namespace=op.namespace,
            key=op.key,
            value=op.value if packed is None else {},
            packed=packed,
            created=now if current is None else current.created,
            updated=now,
            ttl_min=op.ttl,
        )
        self._items.put(record, ttl_s=None if op.ttl is None else op.ttl * _MINUTE_S)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {
            record.namespace[: op.max_depth]
            for record in self._items.values()
            if all(_matches(condition, record.namespace) for condition in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _id_of(namespace: tuple[str, ...], key: str) -> str:
    name = "".join(f"{label}." for label in namespace) + _KEY + key
    is_plain = len(name.encode("utf-8", "replace")) <= _MOST_NAME and name.count(_KEY) == 1 and "\0" not in name
    return name if is_plain and not name.startswith(_HASHED) else _HASHED + _short(repr((namespace, key)), 32)


def _packed_value(key: str, value: dict[str, Any]) -> tuple[str, bytes]:
    try:
        json.dumps(value, default=str, skipkeys=True, ensure_ascii=False).encode()  # refuses half a character
        return _VALUES.dumps_typed(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecordError("langgraph store", key, str(error)) from error


def _value_of(record: _ItemRecord) -> dict[str, Any]:
    return record.value if record.packed is None else cast("dict[str, Any]", _VALUES.loads_typed(record.packed))


def _in_order(records: Iterable[_ItemRecord]) -> list[_ItemRecord]:
    """Namespace after namespace, each and what is in it in the order in which they came."""
    found = sorted(records, key=lambda record: record.created)
    positions = {
        namespace: position for position, namespace in enumerate(dict.fromkeys(one.namespace for one in found))
    }
    return sorted(found, key=lambda record: positions[record.namespace])


def _fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_equals(value.get(name), one) for name, one in wanted.items())


def _equals(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(found == wanted)
    conditions = cast("dict[str, Any]", wanted)
    if any(name.startswith("$") for name in conditions):
        return all(_compare(name, found, condition) for name, condition in conditions.items())
    return isinstance(found, dict) and _fits(cast("dict[str, Any]", found), conditions)


def _compare(name: str, found: Any, wanted: Any) -> bool:
    if name not in _COMPARE:
        raise ValueError(f"Unsupported operator: {name}")
    return _COMPARE[name](found, wanted)


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
