"""What an object refers to, and everything that some objects reach.

`restores` of a commit is a remark, not a reference: it keeps nothing alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.repository.commits import (
    Blob,
    Commit,
    Manifest,
    decode_commit,
    decode_entry,
    decode_manifest,
    summary_id,
)
from agent_kernel.repository.envelope import damaged
from agent_kernel.repository.ids import Kind, ObjectId, kind_of
from agent_kernel.repository.lists import decode_list
from agent_kernel.repository.nodes import Inner, decode_node
from agent_kernel.repository.outputs import blobs_of, decode_outputs

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Objects
    from agent_kernel.storage import Store

STRUCTURAL: Final = frozenset({Kind.COMMIT, Kind.TREE, Kind.MANIFEST, Kind.LIST, Kind.OUTPUTS})
_BATCH: Final = 256


def references(key: bytes, payload: bytes) -> Iterator[bytes]:
    """The keys of all objects that this one names.

    Raises:
        DamagedObjectError: it cannot be decoded.
    """
    try:
        yield from _REFERENCES[kind_of(key)](payload) if kind_of(key) in STRUCTURAL else ()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise damaged(key, f"it cannot be decoded ({error})") from error


def of_commit(commit: Commit, *, parents: bool = True) -> Iterator[bytes]:
    yield Kind.TREE + commit.tree
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
    summary = summary_id(entry)
    if summary is not None:
        yield Kind.SMALL + summary


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
                    raise damaged(key, "it is missing")
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
    there: set[bytes] = look(ends) if look is not None else set(store.get_many(ends))
    return missing + [key for key in ends if key not in there]


def commit_keys(ids: Iterable[ObjectId | None]) -> list[bytes]:
    return [Kind.COMMIT + id for id in ids if id is not None]
