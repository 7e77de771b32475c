"""How large a repository is, and what takes the room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.repository.ids import KIND_NAMES, Kind
from agent_kernel.repository.runs import EVENTS
from agent_kernel.repository.sweeping import stored_sizes

if TYPE_CHECKING:
    from agent_kernel.repository.commits import Entry
    from agent_kernel.repository.ids import ObjectId
    from agent_kernel.repository.repository import Repository


@dataclass(frozen=True)
class Stats:
    """Counts and bytes of one store."""

    commits: int
    branches: int
    tags: int
    names: int  # at HEAD
    objects: dict[str, int]  # how many, by kind
    stored: dict[str, int]  # their bytes as stored, by kind
    disk_bytes: int | None  # of the whole store, free pages included; None where the engine cannot tell
    head_bytes: int  # of the values at HEAD, before pieces are shared and compressed

    events: int = 0  # of agents' runs
    event_bytes: int = 0

    @property
    def stored_bytes(self) -> int:
        return sum(self.stored.values())

    @property
    def chunk_bytes(self) -> int:
        return self.stored[KIND_NAMES[Kind.CHUNK]]


def measure(repo: Repository, head: ObjectId | None) -> Stats:
    """See `Repository.stats`."""
    counts: dict[str, int] = {}
    stored: dict[str, int] = {}
    for kind, name in KIND_NAMES.items():
        sizes = stored_sizes(repo.store, repo.pointers.keys(kind))
        counts[name], stored[name] = len(sizes), sum(sizes.values())
    sizes = stored_sizes(repo.store, repo.pointers.keys(EVENTS))
    size = getattr(repo.store, "size", None)
    tree = repo.tree_at(head)
    return Stats(
        commits=counts[KIND_NAMES[Kind.COMMIT]],
        branches=len(repo.branches()),
        tags=len(repo.tags()),
        names=sum(not name.startswith("\0") for name in tree.names()),
        objects=counts,
        stored=stored,
        disk_bytes=None if size is None else size().disk_bytes,
        events=len(sizes),
        event_bytes=sum(sizes.values()),
        head_bytes=_value_bytes(repo, (entry for _, entry in tree.items())),
    )


def _value_bytes(repo: Repository, entries: Iterable[Entry]) -> int:
    # Names that share a value count once; names that are alone count each, even where equal values share bytes.
    values = {(entry.leader or index, entry.manifest, entry.value): entry for index, entry in enumerate(entries)}
    return sum(repo.read_manifest(entry).size for entry in values.values() if entry.value or entry.manifest)
