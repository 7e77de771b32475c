"""Read back everything that any ref reaches, compare it with its id, and say whom each fault concerns.

Nothing is unpickled: a payload is hashed, and only the repository's own structures are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository.commits import KIND_NAMES, Kind, ObjectId, decode_commit, hex_of, id_of, kind_of
from agent_kernel.repository.garbage_collection import STRUCTURAL, of_commit, of_row, references, stored_sizes
from agent_kernel.repository.objects import Fetched, base_of, damaged, is_genuine, unwrap
from agent_kernel.repository.runs import EVENTS, damaged_events
from agent_kernel.repository.tree import Leaf, decode_node

if TYPE_CHECKING:
    from agent_kernel.repository.commits import Entry
    from agent_kernel.repository.garbage_collection import Progress
    from agent_kernel.repository.repository import Repository


_BATCH: Final = 64


@dataclass(frozen=True)
class Problem:
    """One object that is missing or damaged."""

    kind: str
    id: ObjectId
    reason: str
    reachable_from: tuple[ObjectId, ...]  # commits that need it
    names: tuple[str, ...]  # variables that need it; none if it is a node of a tree, or belongs to the commit itself

    def __str__(self) -> str:
        if not self.id:  # an event of an agent's run, on which nothing depends
            return f"{self.kind}: {self.reason}"
        names = f" of {', '.join(self.names[:5])}" if self.names else ""
        many = len(self.reachable_from)
        commits = "one commit" if many == 1 else f"{many:,} commits"
        return f"{self.kind} {hex_of(self.id)[:16]}{names}, in {commits}: {self.reason}"


@dataclass(frozen=True)
class VerifyReport:
    """What a verification read, and what is wrong."""

    checked: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        return not self.problems


class Verifier:
    """One pass over everything reachable."""

    def __init__(self, repo: Repository, progress: Progress | None = None) -> None:
        self._repo = repo
        self._progress = progress
        self._seen: set[bytes] = set()
        self._bytes = 0
        self._faults: dict[bytes, str] = {}
        self._names_in: dict[bytes, dict[bytes, set[str]]] = {}

    def run(self, roots: Iterable[bytes]) -> VerifyReport:
        waiting = self._new(roots)
        done = 0
        while waiting:
            batch, waiting = waiting[-_BATCH:], waiting[:-_BATCH]
            structural = [key for key in batch if kind_of(key) in STRUCTURAL]
            self._check_leaves([key for key in batch if kind_of(key) not in STRUCTURAL])
            for key, found in self._fetch(structural).items():
                waiting += self._new(self._followed(key, found))
            done += len(batch)
            if self._progress is not None:
                self._progress(done, len(self._seen))
        count, size, unreadable = damaged_events(self._repo)
        events = [Problem(f"event {name}", ObjectId(b""), "it cannot be read", (), ()) for name in unreadable]
        return VerifyReport(len(self._seen) + count, self._bytes + size, (*self._problems(), *events))

    def _new(self, keys: Iterable[bytes]) -> list[bytes]:
        fresh = [key for key in dict.fromkeys(keys) if key not in self._seen]
        self._seen.update(fresh)
        return fresh

    def _fetch(self, keys: list[bytes]) -> dict[bytes, Fetched]:
        try:
            found = self._repo.objects.fetch(keys)
        except DamagedObjectError:
            found = dict[bytes, Fetched]()
            for key in keys:  # one by one, to find which
                try:
                    found |= self._repo.objects.fetch([key])
                except DamagedObjectError as error:
                    self._faults[key] = error.reason
        for key in keys:
            if key not in found:
                self._faults.setdefault(key, "it is missing")
        return found

    def _followed(self, key: bytes, found: Fetched) -> list[bytes]:
        self._bytes += len(found.payload)
        try:
            if not is_genuine(key, found.payload):
                raise damaged(key)
            return list(references(key, found.payload))
        except DamagedObjectError as error:
            self._faults[key] = error.reason
            return []

    def _check_leaves(self, keys: list[bytes]) -> None:
        there: set[bytes] = set()

        def visit(key: bytes, view: memoryview) -> None:
            there.add(key)
            try:
                if base_of(key, view) is not None:
                    raise damaged(key, "its header is not one that any release wrote")
                payload = unwrap(key, view)
                self._bytes += len(payload)
                if not is_genuine(key, payload):
                    raise damaged(key)
            except DamagedObjectError as error:
                self._faults[key] = error.reason

        view_many = getattr(self._repo.store, "view_many", None)
        if view_many is not None:
            view_many(keys, visit)
        else:
            for key, stored in self._repo.store.get_many(keys).items():
                visit(key, memoryview(stored))
        for key in keys:
            if key not in there:
                self._faults[key] = "it is missing"

    def _problems(self) -> list[Problem]:
        concerned: dict[bytes, tuple[set[ObjectId], set[str]]] = {key: (set(), set()) for key in self._faults}
        commits = [key for key in self._seen if kind_of(key) == Kind.COMMIT and key not in self._faults]
        for key in commits if self._faults else ():
            commit = decode_commit(self._repo.objects.fetch([key])[key].payload)
            direct = {below: set[str]() for below in of_commit(commit) if below in self._faults}
            if commit.cell is not None and commit.cell.outputs is not None:
                direct |= self._faults_in(Kind.OUTPUTS + commit.cell.outputs)
            if commit.document is not None and commit.document.cells is not None:
                direct |= self._faults_in(Kind.LIST + commit.document.cells)
            for fault, names in (direct | self._faults_in(Kind.TREE + commit.tree)).items():
                concerned[fault][0].add(id_of(key))
                concerned[fault][1].update(names)
        return [
            Problem(
                KIND_NAMES[kind_of(key)],
                id_of(key),
                reason,
                tuple(sorted(concerned[key][0])),
                tuple(sorted(concerned[key][1])),
            )
            for key, reason in self._faults.items()
        ]

    def _faults_in(self, key: bytes) -> dict[bytes, set[str]]:
        """Faults in what an object leads to, with the names that lead there."""
        known = self._names_in.get(key)
        if known is not None:
            return known
        found: dict[bytes, set[str]] = {}
        self._names_in[key] = found
        if key in self._faults:
            found[key] = set()
        elif kind_of(key) in STRUCTURAL:
            payload = self._repo.objects.fetch([key])[key].payload
            for name, below in _named_references(key, payload):
                for fault, names in self._faults_in(below).items():
                    found.setdefault(fault, set()).update(names, {name} if name else ())
        return found


def _named_references(key: bytes, payload: bytes) -> list[tuple[str, bytes]]:
    if kind_of(key) == Kind.TREE:
        node = decode_node(payload)
        if isinstance(node, Leaf):
            rows = zip(node.names, node.rows, strict=True)
            return [(name, below) for name, row in rows for below in of_row(row)]
    return [("", below) for below in references(key, payload)]


# -- how large a repository is, and what takes the room


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
