"""What was indexed of which sources: sources with their documents and embeddings, and how far indexing is.

It lies beside all branches: a checkout does not make an indexed document one that was not. Progress is told at once and stored
about twice a second; who kills the process loses what came since, and the next one goes on from there.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias

import msgspec
from pydantic import Field

from agent_kernel.errors import InvalidRecordError, RecordStateError
from agent_kernel.records.collection import Records, together
from agent_kernel.records.documents import (
    checks_arguments,
    is_alive,
    not_negative,
    now_s,
    require_mapping,
    require_text,
    seconds,
    shown,
    sortable,
    this_process,
)
from agent_kernel.records.lines import Edit
from agent_kernel.records.schema import Record
from agent_kernel.records.trees import Row

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

IndexStatus: TypeAlias = Literal["running", "paused", "completed", "failed"]
SourceStatus: TypeAlias = Literal["pending", "indexing", "indexed", "failed"]

_COUNTS: Final = ("documents", "embeddings", "size")
_MOST_VERSIONS: Final = 100  # versions of a progress that stay in its history


class Source(Record):
    """Where documents of a knowledge base come from. Its id is `KB/…`."""

    collection = "Source"
    plane = "store"

    kb: str
    location: str = ""
    status: SourceStatus = "pending"
    documents: int = 0
    embeddings: int = 0
    size: int = 0  # bytes
    digest: str = ""  # of its content, where that is known: the same digest need not be indexed again
    error: str = ""
    synced_s: float = 0.0  # seconds since 1970
    details: dict[str, Any] = Field(default_factory=dict[str, Any])


class _Totals(Record):
    """What the sources of a knowledge base have together. Its id is that of the base."""

    collection = "Source totals"
    plane = "store"
    keeps_past = False

    sources: int = 0
    documents: int = 0
    embeddings: int = 0
    size: int = 0
    last_s: float = 0.0  # when the newest of them was indexed

    def with_change(self, old: Source | None, new: Source | None) -> _Totals | None:
        """The totals after a change of one source; None: only all sources together say."""
        if old is not None and old.synced_s == self.last_s > (0.0 if new is None else new.synced_s):
            return None  # it was the newest, and no longer is
        fields = {name: getattr(self, name) + getattr(new, name, 0) - getattr(old, name, 0) for name in _COUNTS}
        fields["sources"] = self.sources + (new is not None) - (old is not None)
        return self.model_copy(update={**fields, "last_s": max(self.last_s, getattr(new, "synced_s", 0.0))})


class _Sources(Records[Source]):
    """The sources, whose totals change with them: to add them up each time would cost more with each source."""

    def __init__(self, repo: Repository) -> None:
        super().__init__(repo, Source, index=_index_of, index_marker="filled 2")
        self.totals: Records[_Totals] = Records(repo, _Totals)

    def _reindex(self, edit: Edit, id: str, before: Row | None, after: Source | None) -> None:
        super()._reindex(edit, id, before, after)
        old = None if before is None else self.load(before, id)
        if old is not None and after is not None and old.kb != after.kb:
            self._add(edit, old.kb, old, None)
            self._add(edit, after.kb, None, after)
        elif (one := after or old) is not None:
            self._add(edit, one.kb, old, after)

    def _add(self, edit: Edit, kb: str, old: Source | None, new: Source | None) -> None:
        key = f"{self.totals.prefix}{kb}"
        row = edit.get(key)
        if row is None:  # whoever asks for them first adds them up
            return
        found = self.totals.load(row, kb)
        totals = found.with_change(old, new)
        if totals != found:
            edit.set(key, None if totals is None else self.totals.changed_row(edit, totals, row))


def _require_named(what: str, name: object, id: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidRecordError(Source.collection, id, f"{what} has a name, not {shown(name)}")


def _index_of(source: Source) -> tuple[str, str]:
    """By their knowledge base, and within it by when they were indexed."""
    return f"{source.kb}\0{source.id}", f"{_age(source.kb)}{sortable(source.synced_s)}{source.id}"


def _age(kb: str) -> str:
    return f"\0age\0{kb}\0"


class IndexProgress(Record):
    """How far indexing of a knowledge base is. Its id is that of the base."""

    collection = "IndexProgress"
    plane = "store"
    coalesce_s = 0.5  # with the time between two looks of a watcher, less than a second
    transitions: ClassVar[Mapping[str, Any]] = {
        "running": ("paused", "completed", "failed"),
        "paused": ("running", "failed"),
        "completed": ("running",),
        "failed": ("running",),
    }

    status: IndexStatus = "running"
    total: int = 0
    processed: int = 0
    failed: int = 0
    reason: str = ""
    started_s: float = 0.0  # seconds since 1970
    updated_s: float = 0.0
    process: str = ""

    @property
    def fraction(self) -> float:
        return (self.processed + self.failed) / self.total if self.total else 0.0


class KnowledgeBase(msgspec.Struct, frozen=True):
    """A knowledge base as a whole. `size` is in bytes, `last_updated_s` in seconds since 1970 (0: never)."""

    name: str
    sources: int
    documents: int
    embeddings: int
    size: int
    last_updated_s: float
    progress: IndexProgress | None


@checks_arguments
class Knowledge:
    """The knowledge bases of a store.

    >>> import agent_kernel as ak
    >>> knowledge = ak.open("memory:").knowledge
    >>> with knowledge.indexing("docs", total=2) as progress:
    ...     for page in ("a", "b"):
    ...         _ = knowledge.source("docs", page, documents=1, embeddings=8, size=100, status="indexed")
    ...         progress.advance()
    >>> base = knowledge.overview("docs")
    >>> base.documents, base.embeddings, base.progress.status
    (2, 16, 'completed')
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self._sources = _Sources(repo)
        self.records: Records[Source] = self._sources
        self.runs: Records[IndexProgress] = Records(repo, IndexProgress)

    # -- sources

    def source(self, kb: str, id: str, **fields: Any) -> Source:
        """Say how a source is: what is given is set, and the rest stays. `synced_s` becomes now if it is indexed.

        Raises:
            InvalidRecordError: a value does not fit, a source has no such field, or another knowledge base has a source of this id
                (`a` of `b/c` and `c/a` of `b` share one). Nothing was stored.
        """
        for what, name in (("a knowledge base", kb), ("a source", id)):
            _require_named(what, name, f"{kb}/{id}")
        if "details" in fields:
            fields["details"] = require_mapping(fields["details"], "details")
        unknown = fields.keys() - Source.model_fields.keys()
        if unknown:
            raise InvalidRecordError(Source.collection, f"{kb}/{id}", f"it has no field {', '.join(sorted(unknown))}")
        if fields.get("status") == "indexed":
            fields.setdefault("synced_s", now_s())
        source = self.records.make(id=f"{kb}/{id}", kb=kb, **fields)
        negative = [name for name in _COUNTS if getattr(source, name) < 0]
        if negative:
            raise InvalidRecordError(Source.collection, source.id, f"{' and '.join(negative)} is 0 or more")

        def act() -> Source:
            current: Source | None = self.records.get(source.id)
            if current is not None and current.kb != kb:
                raise InvalidRecordError(
                    Source.collection, source.id, f"it is one of the knowledge base {current.kb!r}"
                )
            return self.records.put(source, merge=True)

        return together(self.records, act, f"Source: put {source.id}")

    def sources(self, kb: str, status: SourceStatus | None = None) -> list[Source]:
        """The sources of a knowledge base."""
        if status is not None:
            self.records.schema.require_value("status", status)
        found = self.records.find(f"{glob.escape(kb)}/*")
        return [one for one in found if one.kb == kb and status in (None, one.status)]

    def forget(self, kb: str, id: str) -> bool:
        """Delete a source; whether it was there."""
        require_text(id, "id")

        def act() -> bool:
            current: Source | None = self.records.get(f"{kb}/{id}")
            return current is not None and current.kb == kb and self.records.delete(current.id)

        return together(self.records, act, f"Source: delete {kb}/{id}")

    def stale(self, max_age_s: float, kb: str | None = None) -> list[Source]:
        """The sources that were not indexed during the last so many seconds, the oldest first."""
        before = now_s() - seconds(max_age_s, "max_age_s")
        names = self.records.groups() if kb is None else [kb]
        ids = (id for name in names for id in self.records.below(_age(name), sortable(before, up=True)))
        found = [one for id in ids if (one := self.records.get(id)) is not None and one.synced_s < before]
        return sorted(found, key=lambda one: one.synced_s)

    def overview(self, kb: str) -> KnowledgeBase:
        """A knowledge base as a whole."""
        found: _Totals | None = self._sources.totals.get(kb)
        if found is None:
            found = together(self.records, lambda: self._add_up(kb), f"Source: totals of {kb}")
        return KnowledgeBase(
            name=kb,
            sources=found.sources,
            documents=found.documents,
            embeddings=found.embeddings,
            size=found.size,
            last_updated_s=found.last_s,
            progress=self.progress(kb),
        )

    def _add_up(self, kb: str) -> _Totals:
        found = self.sources(kb)
        counts = {name: sum(getattr(one, name) for one in found) for name in _COUNTS}
        last_s = max((one.synced_s for one in found), default=0.0)
        totals = _Totals(id=kb, sources=len(found), last_s=last_s, **counts)
        return self._sources.totals.put(totals) if found else totals

    def names(self) -> list[str]:
        """All knowledge bases."""
        return sorted({*self.records.groups(), *self.runs})

    # -- indexing

    def progress(self, kb: str) -> IndexProgress | None:
        """How far indexing is; None: it never began. It has failed where the process that did it is gone."""
        found: IndexProgress | None = self.runs.get(kb)
        if found is None or found.status != "running" or is_alive(found.process, self.repo):
            return found
        return found.model_copy(update={"status": "failed", "reason": "its process ended before it did"})

    def indexing(self, kb: str, total: int) -> Indexing:
        """Begin to index so many documents: a context manager, with `advance` for each. It is completed as the block ends.

        What the block raises fails it. After `pause` from elsewhere it stays paused.

        Raises:
            RecordStateError: somebody indexes it already, in this process or another one that lives.
        """
        not_negative(total, "total")
        started, process = now_s(), this_process(self.repo)
        progress = self.runs.make(id=kb, total=total, started_s=started, updated_s=started, process=process)

        def begin() -> None:
            self._require_nobody_at_it(kb)
            self.runs.put(progress)

        together(self.runs, begin, f"IndexProgress: begin {kb}")
        return Indexing(self, kb)

    def _require_nobody_at_it(self, kb: str) -> None:
        found = self.progress(kb)
        if found is not None and found.status == "running":
            reason = (
                f"somebody indexes it already ({found.processed + found.failed:,} of {found.total:,}): wait until that ends, or say "
                f"that it is over with fail({kb!r}, reason)"
            )
            raise RecordStateError(IndexProgress.collection, kb, reason)

    def resume(self, kb: str) -> Indexing:
        """Go on where indexing was paused or failed, as `indexing` does.

        Raises:
            TransitionError: it is completed. RecordNotFoundError: it never began. RecordStateError: somebody is at it.
        """
        fields: dict[str, Any] = {
            "status": "running",
            "reason": "",
            "updated_s": now_s(),
            "process": this_process(self.repo),
        }

        def go_on() -> None:
            self._require_nobody_at_it(kb)
            self.runs.update(kb, **fields)

        together(self.runs, go_on, f"IndexProgress: resume {kb}")
        return Indexing(self, kb)

    def pause(self, kb: str, reason: str = "") -> IndexProgress:
        """Ask whoever indexes to stop for now: `Indexing.is_paused`. Raises: TransitionError, RecordNotFoundError."""
        return self.runs.update(kb, status="paused", reason=reason)

    def fail(self, kb: str, reason: str) -> IndexProgress:
        """Say that indexing failed. Raises: TransitionError, RecordNotFoundError."""
        return self.runs.update(kb, status="failed", reason=reason)


@checks_arguments
class Indexing:
    """Indexing while it goes on."""

    def __init__(self, knowledge: Knowledge, kb: str) -> None:
        self._knowledge = knowledge
        self.kb = kb

    @property
    def progress(self) -> IndexProgress:
        """How far it is."""
        return self._knowledge.runs[self.kb]

    @property
    def is_paused(self) -> bool:
        """Whether somebody asked to stop for now. From another process it is seen within about a second."""
        return self.progress.status == "paused"

    def advance(self, count: int | None = None, *, failed: int = 0) -> None:
        """Count documents that were processed (by default one), or that failed. 60 times a second costs one write a second.

        Raises:
            TypeError, ValueError: a number is not one, or negative.
        """
        if count is not None:
            not_negative(count, "count")
        not_negative(failed, "failed")

        def add(now: IndexProgress) -> None:
            now.processed += count if count is not None else int(not failed)
            now.failed += failed
            now.updated_s = now_s()

        self._knowledge.runs.update(self.kb, add)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        def end(now: IndexProgress) -> None:
            now.process, now.updated_s = "", now_s()
            if now.status != "running":
                return
            if error is None:
                now.status = "completed"
            else:
                is_fault = isinstance(error, Exception)
                now.status = "failed" if is_fault else "paused"
                now.reason = f"{type(error).__name__}: {error}".rstrip(": ")

        records = self._knowledge.runs
        records.update(self.kb, end)
        records.trim(self.kb, _MOST_VERSIONS)
