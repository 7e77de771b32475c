"""What a stored array or table is made of, told from its pickle stream without building anything.

The stream is read as a description (`values.peeking`): which calls with which arguments, and which of the buffers stored
beside it is the memory of which array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final, TypeAlias, cast

import msgspec

from agent_kernel.repository import Blob, Entry, Manifest
from agent_kernel.repository.blobs import read_blob
from agent_kernel.session import Repository
from agent_kernel.values.groups import decode_layout
from agent_kernel.values.peeking import Buffer, Call, calls, peek

__all__ = ["ARRAY", "Part", "Stored", "columns_of", "dense_array", "integers", "items_of", "same", "stored"]

ARRAY: Final = "agent_kernel.values.restore.arrays.array"
_BLOCK: Final = "pandas._libs.internals._unpickle_block"
_SERIES: Final = "pandas.core.internals.managers.SingleBlockManager"
_MOST_STREAM: Final = 1_000_000  # bytes
_MOST_PLACES: Final = 100_000  # columns of one block

Part: TypeAlias = "tuple[Call, int]"  # a block of a table, and which row of it is the column


class Stored(msgspec.Struct, frozen=True):
    """One stored version."""

    repo: Repository
    blobs: tuple[Blob, ...]  # of the buffers
    value: object  # the description of the stream


def stored(repo: Repository, entry: Entry) -> Stored | None:
    """The value of an entry as it is stored; None where it is not alone, in several parts, or of a kind that is not read."""
    manifest: Manifest = repo.read_manifest(entry)
    layout = decode_layout(manifest.layout)
    if entry.leader or layout.skeletons or layout.lead or layout.streams != 1 or layout.form or not manifest.blobs:
        return None
    stream = manifest.blobs[0]
    if stream.size > _MOST_STREAM:
        return None
    value = peek(bytes(read_blob(repo.objects, stream)))
    return None if value is None else Stored(repo, manifest.blobs[1:], value)


def columns_of(side: Stored) -> dict[int, Part] | None:
    """By position: the block that holds the column. None: it is no table as pandas stores it."""
    found: dict[int, Part] = {}
    for block in calls(side.value, _BLOCK):
        if len(block.args) != 3:
            return None
        places = _placement(side, block.args[1])
        if places is None:
            return None
        found |= {place: (block, row) for row, place in enumerate(places)}
    return found or _single(side)


def _single(side: Stored) -> dict[int, Part] | None:
    """A series keeps its one array in the state of its manager."""
    managers = calls(side.value, _SERIES)
    state = items_of(managers[0].state[0]) if len(managers) == 1 and managers[0].state else ()
    values = items_of(state[1]) if len(state) > 1 else ()
    return {0: (Call(_BLOCK, (values[0],)), 0)} if len(values) == 1 else None


def _placement(side: Stored, where: object) -> Sequence[int] | None:
    if not isinstance(where, Call):
        return None
    if where.name == "builtins.slice":
        bounds = integers(where.args)
        places = range(bounds[0], bounds[1], bounds[2]) if len(bounds) == 3 and bounds[2] else range(0)
        return places if 0 < len(places) <= _MOST_PLACES else None
    if where.name == ARRAY and where.args[1] == "<i8" and isinstance(where.args[0], Buffer):
        blob = side.blobs[where.args[0].position]
        return list(memoryview(bytes(read_blob(side.repo.objects, blob))).cast("q"))
    return None


def dense_array(values: object) -> Call | None:
    """The one array that holds the values of a block; None where there are several (codes and categories, chunks)."""
    arrays = calls(values, ARRAY)
    return arrays[0] if len(arrays) == 1 else None


def items_of(found: object) -> tuple[object, ...]:
    """The items of a tuple or list in a description; nothing for anything else."""
    return tuple(cast("Sequence[object]", found)) if isinstance(found, (tuple, list)) else ()


def integers(found: object) -> tuple[int, ...]:
    """The whole numbers among the items."""
    return tuple(one for one in items_of(found) if isinstance(one, int))


def same(before: Stored, after: Stored, old: object, new: object, but: frozenset[int] = frozenset()) -> bool:
    """Whether two descriptions, and the buffers that they speak of, are equal. `but`: calls to pass over, by identity."""
    if isinstance(old, Buffer) and isinstance(new, Buffer):
        # The same content is stored under the same ids, cut at the same places.
        return before.blobs[old.position] == after.blobs[new.position]
    if isinstance(old, Call) and isinstance(new, Call):
        if id(old) in but and id(new) in but:
            return True
        parts = ((old.args, new.args), (old.state, new.state))
        return old.name == new.name and all(same(before, after, one, other, but) for one, other in parts)
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        one, other = items_of(cast("object", old)), items_of(cast("object", new))
        return len(one) == len(other) and all(same(before, after, *pair, but) for pair in zip(one, other, strict=True))
    if isinstance(old, float) and isinstance(new, float) and isnan(old):
        return isnan(new)  # the missing value of a column
    return old == new
