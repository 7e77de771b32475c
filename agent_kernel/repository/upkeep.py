"""Follow all that the refs of a store reach: delete the rest, read it back and compare it, measure it.

Nothing is unpickled: the repository's own structures say what refers to what.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from agent_kernel.errors import DamagedObjectError, StoreUnavailableError
from agent_kernel.repository.commits import (
    KIND_NAMES,
    Blob,
    Commit,
    Inner,
    Kind,
    Leaf,
    Manifest,
    ObjectId,
    decode_commit,
    decode_entry,
    decode_manifest,
    decode_node,
    hex_of,
    id_of,
    kind_of,
    preview_id,
)
from agent_kernel.repository.objects import (
    Fetched,
    base_of,
    blobs_of,
    decode_list,
    decode_outputs,
    is_genuine,
    make_damaged_error,
    unwrap,
    version_of,
    view_stored,
    wrap,
)
from agent_kernel.repository.refs import (
    BRANCHES,
    EPOCH,
    FORMAT,
    GARBAGE,
    HEADS,
    LOGS,
    ROSTER,
    TAGS,
    HeadRecord,
    LogRecord,
    Move,
    Ref,
    Stamp,
    decode_record,
    encode_record,
    refuse_newer,
    stamp_of_log,
)
from agent_kernel.repository.runs import EVENTS, count_damaged_events, let_go

if TYPE_CHECKING:
    from agent_kernel.repository.commits import Entry
    from agent_kernel.repository.objects import Objects
    from agent_kernel.repository.repository import Repository
    from agent_kernel.storage import Store


# -- what an object refers to, and everything that some objects reach
#
# `restores` of a commit is a remark, not a reference: it keeps nothing alive.

STRUCTURAL: Final = frozenset({Kind.COMMIT, Kind.TREE, Kind.MANIFEST, Kind.LIST, Kind.OUTPUTS})
_BATCH: Final = 256


def references(key: bytes, payload: bytes) -> Iterator[bytes]:
    """The keys of all objects that this one names.

    Raises:
        DamagedObjectError: it cannot be decoded.
    """
    try:
        yield from _REFERENCES[kind_of(key)](payload) if kind_of(key) in STRUCTURAL else ()
    except (msgspec.MsgspecError, ValueError) as error:
        raise make_damaged_error(key, f"it cannot be decoded ({error})") from error


def of_commit(commit: Commit, *, parents: bool = True) -> Iterator[bytes]:
    yield Kind.TREE + commit.tree
    if commit.records is not None:
        yield Kind.TREE + commit.records
    for _, row in commit.recent:
        yield from of_row(row) if row is not None else ()
    if parents:
        yield from (Kind.COMMIT + parent for parent in commit.parents)
    if commit.cell is not None and commit.cell.outputs is not None:
        yield Kind.OUTPUTS + commit.cell.outputs
    for id in (commit.random, commit.environment, commit.notebook):
        if id is not None:
            yield Kind.SMALL + id
    if commit.document is not None and commit.document.cells is not None:
        yield Kind.LIST + commit.document.cells


def of_manifest(manifest: Manifest) -> Iterator[bytes]:
    yield from _of_blobs(manifest.blobs)
    for id in manifest.definitions:
        yield Kind.DEFINITION + id


def _of_blobs(blobs: Iterable[Blob]) -> Iterator[bytes]:
    for blob in blobs:
        if blob.deep is not None:
            yield Kind.LIST + blob.deep
        for id, _ in blob.chunks:
            yield Kind.CHUNK + id


def of_row(row: bytes) -> Iterator[bytes]:
    entry = decode_entry(row)
    if entry.manifest is not None:
        yield Kind.MANIFEST + entry.manifest
    if entry.value:
        yield from of_manifest(decode_manifest(entry.value))
    preview = preview_id(entry)
    if preview is not None:
        yield Kind.SMALL + preview


def _of_node(payload: bytes) -> Iterator[bytes]:
    node = decode_node(payload)
    if isinstance(node, Inner):
        yield from (Kind.TREE + ref.id for ref in node.refs())
    else:
        for row in node.rows:
            yield from of_row(row)


def _of_list(payload: bytes) -> Iterator[bytes]:
    node = decode_list(payload)
    kind = Kind.LIST if node.level else Kind.CHUNK
    yield from (kind + id for id, _ in node.children())


def _of_commit(payload: bytes) -> Iterator[bytes]:
    return of_commit(decode_commit(payload))


def _of_manifest(payload: bytes) -> Iterator[bytes]:
    return of_manifest(decode_manifest(payload))


def _of_outputs(payload: bytes) -> Iterator[bytes]:
    return _of_blobs(blobs_of(decode_outputs(payload)))


_REFERENCES: Final = {
    Kind.COMMIT: _of_commit,
    Kind.TREE: _of_node,
    Kind.MANIFEST: _of_manifest,
    Kind.LIST: _of_list,
    Kind.OUTPUTS: _of_outputs,
}


class Reach:
    """The keys of all objects that some keys lead to.

    Args:
        missing: where to note objects that are not there. Without it their absence raises: what they would lead to
            is not known, and must not be taken for garbage.
    """

    def __init__(self, objects: Objects, *, missing: list[bytes] | None = None) -> None:
        self._objects = objects
        self._missing = missing
        self.seen: set[bytes] = set()
        self.bases: dict[bytes, list[bytes]] = {}  # objects, reached or not, and what is stored as differing from them

    def extend(self, keys: Iterable[bytes]) -> None:
        """Add what these keys lead to."""
        waiting = self._new(keys)
        while waiting:
            batch, waiting = waiting[-_BATCH:], waiting[:-_BATCH]
            found = self._objects.fetch(batch)
            for key in batch:
                if key in found:
                    if (base := found[key].base) is not None:
                        self.bases.setdefault(base, []).append(key)
                    waiting += self._new(references(key, found[key].payload))
                elif self._missing is None:
                    raise make_damaged_error(key, "it is missing")
                else:
                    self._missing.append(key)

    def _new(self, keys: Iterable[bytes]) -> list[bytes]:
        structural: list[bytes] = []
        for key in keys:
            if key not in self.seen:
                self.seen.add(key)
                if kind_of(key) in STRUCTURAL:
                    structural.append(key)
        return structural


def missing_for(objects: Objects, store: Store, id: ObjectId, commit: Commit) -> list[bytes]:
    """What is not there of a commit that was stored: itself, its parents, and all that its state needs."""
    missing: list[bytes] = []
    reach = Reach(objects, missing=missing)
    reach.extend(of_commit(commit, parents=False))
    ends = [key for key in reach.seen if kind_of(key) not in STRUCTURAL]
    ends += [Kind.COMMIT + each for each in (id, *commit.parents)]
    look = getattr(store, "present", None)
    present: set[bytes] = look(ends) if look is not None else set(store.get_many(ends))
    return missing + [key for key in ends if key not in present]


def commit_keys(ids: Iterable[ObjectId | None]) -> list[bytes]:
    return [Kind.COMMIT + id for id in ids if id is not None]


# -- garbage collection: delete objects that no branch, tag, HEAD or reflog reaches. Mark, wait, sweep
#
# Objects carry no time of writing, so a collection writes down what it finds unreachable, and a later one deletes what
# is on that list, is still unreachable, and has been so for the grace. The list holds eight bytes of each id: were two
# to agree, one object would be collected younger than it should, which only costs its writer a second write.
#
# A writer stores objects first and moves its branch last, so what it is just writing looks like garbage. Three rules
# keep that safe without anybody waiting. A deletion is a transaction that expects every ref to be where it was when the
# reachable objects were marked; it changes the epoch, which every publishing transaction expects; and what a writer then finds
# gone it writes again, or refuses to publish. Objects go children before parents' history: newest commits first, so that
# a commit that is still there has all its ancestors.

Progress: TypeAlias = Callable[[int, int], None]  # done, of how many

_SLICE: Final = 2000
# What leads nowhere and may be stored as a difference: chunks that are parts of others, states of random generators.
_BASED_ENDS: Final = frozenset({Kind.CHUNK, Kind.SMALL})
_ATTEMPTS: Final = 100
_ORDER: Final = (
    Kind.COMMIT,
    Kind.TREE,
    Kind.MANIFEST,
    Kind.OUTPUTS,
    Kind.LIST,
    Kind.DEFINITION,
    Kind.SMALL,
    Kind.CHUNK,
)


class Sweeper:
    """One marking of everything reachable, kept true while refs move, and deletions that rely on it."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self.reach = Reach(repo.objects)
        self._roots: dict[bytes, bytes | None] = {}
        self.mark()

    def mark(self) -> None:
        """Look where the refs are now, and mark what they reach."""
        pointers = self._repo.pointers
        # The roster first: a ref that appears after it was read changes it, and the deletion fails.
        roots = pointers.read([EPOCH, ROSTER, FORMAT])
        # What a newer release wrote may refer to more than is known here.
        refuse_newer(self._repo.store, None if (raw := roots[FORMAT]) is None else decode_record(raw, Stamp))
        roots |= pointers.read([key for prefix in (BRANCHES, TAGS, HEADS) for key in pointers.keys(prefix)])
        refs = (
            decode_record(raw, Ref).commit for key, raw in roots.items() if raw and key.startswith((BRANCHES, TAGS))
        )
        heads = (decode_record(raw, HeadRecord).commit for key, raw in roots.items() if raw and key.startswith(HEADS))
        logged = (line.commit for line in pointers.all(LOGS, LogRecord).values())
        self._roots = roots
        self.reach.extend([Kind.TREE + self._repo.tree(None).id, *commit_keys([*refs, *heads, *logged])])

    def unreachable(self) -> list[bytes]:
        """The keys of all objects that nothing reaches."""
        seen = self.reach.seen
        return [key for kind in _ORDER for key in self._repo.pointers.keys(kind) if key not in seen]

    def delete(self, doomed: Iterable[bytes], progress: Progress | None = None) -> tuple[int, int]:
        """Delete those of the objects that nothing reaches; return how many, and their bytes."""
        waiting = self._order(doomed)
        total, count, freed, failures = len(waiting), 0, 0, 0
        self._add_bases_of_garbage(set(waiting))
        while waiting:
            part = [key for key in waiting[:_SLICE] if key not in self.reach.seen]
            sizes = measure_stored(self._repo.store, part)
            if self._delete_slice(list(sizes)):
                count, freed = count + len(sizes), freed + sum(sizes.values())
                waiting = waiting[_SLICE:]
                if progress is not None:
                    progress(total - len(waiting), total)
                continue
            failures += 1
            if failures == _ATTEMPTS:
                raise StoreUnavailableError(self._repo.store.url, "it is too busy to collect garbage; try again later")
            self.mark()
            self._add_bases_of_garbage(set(waiting))
        self._repo.objects.forget_cached()
        return count, freed

    def _delete_slice(self, part: list[bytes]) -> bool:
        raw = self._roots[EPOCH]
        last = 0 if raw is None else decode_record(raw, Stamp).number
        epoch = encode_record(Stamp(0, last + 1))
        new: dict[bytes, bytes | None] = {EPOCH: epoch, **self._whole_again(set(part))}
        new.update(dict.fromkeys(part))
        if not self._repo.store.swap(self._roots, new):
            return False
        self._roots[EPOCH] = epoch
        return True

    def _order(self, doomed: Iterable[bytes]) -> list[bytes]:
        keys = [key for key in doomed if key not in self.reach.seen]
        commits = [key for key in keys if kind_of(key) == Kind.COMMIT]
        found = self._repo.objects.fetch(commits)
        age = {key: -decode_commit(found[key].payload).time_ns for key in commits if key in found}
        rank = {kind: place for place, kind in enumerate(_ORDER)}
        return sorted(keys, key=lambda key: (rank[kind_of(key)], age.get(key, 0)))

    def _add_bases_of_garbage(self, doomed: set[bytes]) -> None:
        staying = [
            key
            for kind in (Kind.TREE, Kind.COMMIT)
            for key in self._repo.pointers.keys(kind)
            if key not in self.reach.seen and key not in doomed
        ]
        for kind in _BASED_ENDS & {kind_of(key) for key in doomed}:  # marking looks at none of them
            staying += [key for key in self._repo.pointers.keys(kind) if key not in doomed]

        def visit(key: bytes, stored: memoryview) -> None:
            base = base_of(key, stored)
            if base is not None and key not in (known := self.reach.bases.setdefault(base[0], [])):
                known.append(key)

        _view(self._repo.store, staying, visit)

    def _whole_again(self, doomed: set[bytes]) -> dict[bytes, bytes]:
        """Objects stored as differences from what is about to go, to be stored whole."""
        keys = [key for base in doomed & self.reach.bases.keys() for key in self.reach.bases[base] if key not in doomed]
        found = self._repo.objects.fetch(keys)
        return {
            key: b"".join(wrap(id_of(key), stored.payload, version=version_of(kind_of(key))))
            for key, stored in found.items()
        }


def _view(store: Store, keys: Iterable[bytes], visit: Callable[[bytes, memoryview], object]) -> None:
    wanted = list(keys)
    for start in range(0, len(wanted), _BATCH):
        view_stored(store, wanted[start : start + _BATCH], visit)


def measure_stored(store: Store, keys: Iterable[bytes]) -> dict[bytes, int]:
    """Measure how many bytes are stored under each key that is there, without reading them where the engine can."""
    sizes: dict[bytes, int] = {}

    def visit(key: bytes, view: memoryview) -> None:
        sizes[key] = len(view)

    _view(store, keys, visit)
    return sizes


KEEP_REFLOG_S: Final = 90 * 86_400.0
_SIGNS = 8
_LOG_SLICE: Final = 1000


@dataclass(frozen=True)
class GcReport:
    """What a collection did, or would have done."""

    objects_deleted: int
    bytes_freed: int
    kept: int  # objects that something reaches
    waiting: int = 0  # unreachable ones that a later collection will delete


class _Garbage(msgspec.Struct, frozen=True, array_like=True):
    stamp: int
    signs: bytes


def collect(
    repo: Repository,
    grace_s: float = 3600.0,
    dry_run: bool = False,
    progress: Progress | None = None,
    keep_reflog_s: float = KEEP_REFLOG_S,
) -> GcReport:
    """See `Repository.gc`."""
    refuse_newer(repo.store, repo.pointers.get(FORMAT, Stamp))
    if grace_s <= 0:
        repo.leases.refuse_others()
    if not dry_run:
        _expire_reflogs(repo, keep_reflog_s)
        let_go(repo)
    sweeper = Sweeper(repo)
    garbage = sweeper.unreachable()
    doomed = garbage if grace_s <= 0 else _old_enough(repo, garbage, grace_s)
    waiting = len(garbage) - len(doomed)
    if dry_run:
        freed = sum(measure_stored(repo.store, doomed).values())
        return GcReport(len(doomed), freed, len(sweeper.reach.seen), waiting)
    count, freed = sweeper.delete(doomed, progress)
    _write_down(repo, set(garbage) - set(doomed), grace_s)
    return GcReport(count, freed, len(sweeper.reach.seen), waiting)


def _sign(key: bytes) -> bytes:
    return key[1 : 1 + _SIGNS]


def _old_enough(repo: Repository, garbage: list[bytes], grace_s: float) -> list[bytes]:
    listed = repo.pointers.get(GARBAGE, _Garbage)
    if listed is None or time.time_ns() - listed.stamp < grace_s * 1e9:
        return []
    signs = {listed.signs[at : at + _SIGNS] for at in range(0, len(listed.signs), _SIGNS)}
    return [key for key in garbage if _sign(key) in signs]


def _write_down(repo: Repository, garbage: set[bytes], grace_s: float) -> None:
    def build(move: Move) -> None:
        listed = move.get(GARBAGE, _Garbage)
        if not garbage:
            move.set(GARBAGE, None)
        elif listed is None or grace_s <= 0 or time.time_ns() - listed.stamp >= grace_s * 1e9:
            # A list that is still waiting stays, or frequent collections would put off its day for ever.
            move.set(GARBAGE, _Garbage(time.time_ns(), b"".join(sorted(map(_sign, garbage)))))

    repo.pointers.change(build)


def _expire_reflogs(repo: Repository, keep_s: float) -> None:
    oldest = time.time_ns() - int(keep_s * 1e9)
    stale = [key for key in repo.pointers.keys(LOGS) if stamp_of_log(key) < oldest]
    for start in range(0, len(stale), _LOG_SLICE):
        repo.store.swap({}, dict.fromkeys(stale[start : start + _LOG_SLICE]))


# -- verification: read back everything that any ref reaches, compare it with its id, and say whom each fault concerns

_READ_BATCH: Final = 64


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
            batch, waiting = waiting[-_READ_BATCH:], waiting[:-_READ_BATCH]
            structural = [key for key in batch if kind_of(key) in STRUCTURAL]
            self._check_leaves([key for key in batch if kind_of(key) not in STRUCTURAL])
            for key, found in self._fetch(structural).items():
                waiting += self._new(self._follow(key, found))
            done += len(batch)
            if self._progress is not None:
                self._progress(done, len(self._seen))
        count, size, unreadable = count_damaged_events(self._repo)
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

    def _follow(self, key: bytes, found: Fetched) -> list[bytes]:
        self._bytes += len(found.payload)
        try:
            if not is_genuine(key, found.payload):
                raise make_damaged_error(key)
            return list(references(key, found.payload))
        except DamagedObjectError as error:
            self._faults[key] = error.reason
            return []

    def _check_leaves(self, keys: list[bytes]) -> None:
        present: set[bytes] = set()
        based: list[bytes] = []

        def visit(key: bytes, view: memoryview) -> None:
            present.add(key)
            try:
                if kind_of(key) in _BASED_ENDS and base_of(key, view) is not None:
                    based.append(key)
                    return
                if base_of(key, view) is not None:
                    raise make_damaged_error(key, "its header is not one that any release wrote")
                payload = unwrap(key, view)
                self._bytes += len(payload)
                if not is_genuine(key, payload):
                    raise make_damaged_error(key)
            except DamagedObjectError as error:
                self._faults[key] = error.reason

        _view(self._repo.store, keys, visit)
        for key, found in self._fetch(based).items():
            self._follow(key, found)
        for key in keys:
            if key not in present:
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
            for name, below in _list_references(key, payload):
                for fault, names in self._faults_in(below).items():
                    found.setdefault(fault, set()).update(names, {name} if name else ())
        return found


def _list_references(key: bytes, payload: bytes) -> list[tuple[str, bytes]]:
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


def measure(repo: Repository, head: ObjectId | None) -> Stats:
    """See `Repository.stats`."""
    counts: dict[str, int] = {}
    stored: dict[str, int] = {}
    for kind, name in KIND_NAMES.items():
        sizes = measure_stored(repo.store, repo.pointers.keys(kind))
        counts[name], stored[name] = len(sizes), sum(sizes.values())
    sizes = measure_stored(repo.store, repo.pointers.keys(EVENTS))
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
    values = {(entry.alias_group or index, entry.manifest, entry.value): entry for index, entry in enumerate(entries)}
    return sum(repo.read_manifest(entry).size for entry in values.values() if entry.value or entry.manifest)
