"""What a stored array or table is made of, told from its pickle stream without building anything.

The stream is read as a description (`values.peeking`): which calls with which arguments, and which of the buffers stored
beside it is the memory of which array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, prod
from typing import Final, TypeAlias, cast

import msgspec

from agent_kernel.repository import Blob, Entry, Manifest
from agent_kernel.repository.blobs import read_blob
from agent_kernel.session import Repository
from agent_kernel.values.groups import decode_layout
from agent_kernel.values.peeking import Buffer, Call, Name, calls, peek

__all__ = [
    "ARRAY",
    "OBJECTS",
    "Part",
    "Stored",
    "atoms_of",
    "code_size",
    "columns_of",
    "dense_array",
    "integers",
    "items_of",
    "only_call",
    "same",
    "stored",
]

ARRAY: Final = "agent_kernel.values.restore.arrays.array"
OBJECTS: Final = "agent_kernel.values.restore.arrays.object_column"
_BLOCK: Final = "pandas._libs.internals._unpickle_block"
_SHARED_BLOCK: Final = "agent_kernel.values.restore.frames.block"
_SERIES: Final = "pandas.core.internals.managers.SingleBlockManager"
_MOST_STREAM: Final = 1_000_000  # bytes
_MOST_PLACES: Final = 100_000  # columns of one block
_MOST_ATOMS: Final = 16_000_000  # bytes
_MOST_ATOM_STEPS: Final = 400_000

Part: TypeAlias = "tuple[Call, int]"  # a block of a table, and which row of it is the column


class Stored(msgspec.Struct, frozen=True):
    """One stored version."""

    repo: Repository
    blobs: tuple[Blob, ...]  # of the buffers
    value: object  # its description
    atoms: dict[int, tuple[object, ...]] = msgspec.field(default_factory=dict[int, "tuple[object, ...]"])  # once read


def stored(repo: Repository, entry: Entry) -> Stored | None:
    """The value of an entry as it is stored; None where it is in several parts, or of a kind that is not read."""
    manifest: Manifest = repo.read_manifest(entry)
    layout = decode_layout(manifest.layout)
    if layout.skeletons or layout.streams != 1 or layout.form or not manifest.blobs:
        return None
    stream = manifest.blobs[0]
    if stream.size > _MOST_STREAM:
        return None
    value = peek(bytes(read_blob(repo.objects, stream)), layout.lead + (layout.names > 0))
    if manifest.slots > 1:  # the values of all names that share something
        values = items_of(value)
        value = values[entry.slot] if 0 <= entry.slot < len(values) == manifest.slots else None
    return None if value is None else Stored(repo, manifest.blobs[1:], value)


def columns_of(side: Stored) -> dict[int, Part] | None:
    """By position: the block that holds the column. None: it is no table as pandas stores it."""
    if calls(side.value, _SERIES):
        return _single(side)
    found: dict[int, Part] = {}
    for block in _blocks(side.value):
        if len(block.args) != 3:
            return None
        places = _placement(side, block.args[1])
        if places is None:
            return None
        found |= {place: (block, row) for row, place in enumerate(places)}
    return found or None


def _blocks(value: object) -> list[Call]:
    """The blocks of a table; those that share memory with others are made by a function of their own."""
    shared = [
        Call(_BLOCK, items_of(block.args[1]))
        for block in calls(value, _SHARED_BLOCK)
        if len(block.args) == 3 and block.args[0] == Name(_BLOCK)
    ]
    return calls(value, _BLOCK) + shared


def _single(side: Stored) -> dict[int, Part] | None:
    """The one array of a series: of its block, or as earlier releases wrote it, in the state of its manager."""
    managers = calls(side.value, _SERIES)
    if len(managers) != 1:
        return None
    if managers[0].args:
        blocks = _blocks(managers[0])
        return {0: (blocks[0], 0)} if len(blocks) == 1 and blocks[0].args else None
    state = items_of(managers[0].state[0]) if managers[0].state else ()
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
    return only_call(values, ARRAY)


def only_call(values: object, name: str) -> Call | None:
    """The only call of this name. Returns None if there are several, or no such call."""
    found = calls(values, name)
    return found[0] if len(found) == 1 else None


def atoms_of(side: Stored, array: Call) -> tuple[object, ...] | None:
    """The distinct objects of a long array of them, described; None where they are too many, or cannot be read."""
    codes, atoms = array.args[:2]
    shape = integers(array.args[2])
    if not isinstance(codes, Buffer) or not isinstance(atoms, Buffer) or not shape or min(shape) < 0:
        return None
    if atoms.position not in side.atoms:
        blob = side.blobs[atoms.position]
        stream = bytes(read_blob(side.repo.objects, blob)) if blob.size <= _MOST_ATOMS else b""
        side.atoms[atoms.position] = items_of(peek(stream, most_steps=_MOST_ATOM_STEPS) if stream else None)
    found, size = side.atoms[atoms.position], side.blobs[codes.position].size
    fits = size == prod(shape) * code_size(len(found)) if size else prod(shape) == len(found)
    return found if found and fits else None


def code_size(distinct: int) -> int:
    """The bytes of a code of so many objects, as `restore.arrays.code_type` says."""
    return next((size for size in (1, 2, 4) if distinct <= 1 << 8 * size), 8)


def items_of(found: object) -> tuple[object, ...]:
    """The items of a tuple or list in a description; nothing for anything else."""
    return tuple(cast("Sequence[object]", found)) if isinstance(found, (tuple, list)) else ()


def integers(found: object) -> tuple[int, ...]:
    """The whole numbers among the items."""
    return tuple(one for one in items_of(found) if isinstance(one, int))


def same(before: Stored, after: Stored, old: object, new: object, but: frozenset[int] = frozenset()) -> bool:
    """Whether two descriptions, and the buffers that they speak of, are equal. `but`: calls to pass over, by identity."""
    return _same(before, after, old, new, but, set())


def _same(
    before: Stored, after: Stored, old: object, new: object, but: frozenset[int], seen: set[tuple[int, int]]
) -> bool:
    """`seen`: pairs that are equal if all else is. A stream may speak of the same tuple very often."""
    if isinstance(old, (Call, tuple, list)):
        pair = id(cast("object", old)), id(new)
        if pair in seen:
            return True
        seen.add(pair)
    if isinstance(old, Buffer) and isinstance(new, Buffer):
        # The same content is stored under the same ids, cut at the same places.
        return before.blobs[old.position] == after.blobs[new.position]
    if isinstance(old, Call) and isinstance(new, Call):
        if id(old) in but and id(new) in but:
            return True
        parts = ((old.args, new.args), (old.state, new.state))
        return old.name == new.name and all(_same(before, after, one, other, but, seen) for one, other in parts)
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        one, other = items_of(cast("object", old)), items_of(cast("object", new))
        return len(one) == len(other) and all(
            _same(before, after, *both, but, seen) for both in zip(one, other, strict=True)
        )
    if isinstance(old, float) and isinstance(new, float) and isnan(old):
        return isnan(new)  # the missing value of a column
    return old == new
