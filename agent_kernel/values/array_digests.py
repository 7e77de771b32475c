"""Tell of thousands of small arrays at once that each is the object that it was, looks where it looked, and sees what it saw.

To dump them takes a reducer for each. Here what an array is comes from numpy's own getters, called for all in C, and the
memory that they look at is digested range by range: rows of a matrix lie side by side, and are one range.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# numpy says little of arrays whose dtype is known at run time only.

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import getweakrefcount

import numpy as np
from xxhash import xxh3_128

from agent_kernel.values.atoms import dump_alone
from agent_kernel.values.introspection import addresses, ids_of, ids_of_types
from agent_kernel.values.reducers.arrays import addresses_of, bounds, has_plain_memory

MANY = 1_000  # arrays, from which it pays
MOST_BYTES = 1 << 25  # of all ranges: where an array changes, each is gone through once more
_form = attrgetter("shape", "strides", "flags.num")
_sizes, _bases, _dtypes = attrgetter("nbytes"), attrgetter("base"), attrgetter("dtype")
_CONTIGUOUS = 1  # numpy's flag


def are_arrays(values: Sequence[object]) -> bool:
    """Whether all are exact arrays of numpy."""
    return bool(values) and type(values[0]) is np.ndarray and ids_of_types(values) == {id(np.ndarray)}


def digest_of(arrays: Sequence[Any]) -> bytes:
    """Covers how arrays lie in memory, and what is there, but not which objects they are; empty where only a dump can tell.

    That is of arrays of objects, those over memory of something else than numpy, and those whose death somebody waits for.
    """
    dtypes = list(map(_dtypes, arrays))
    bases = [base for base in map(_bases, arrays) if base is not None]
    owners = list(dict(zip(ids_of(bases), bases, strict=True)).values())
    if not _are_plain(dtypes) or any(map(getweakrefcount, arrays)):
        return b""
    if owners and not (ids_of_types(owners) == {id(np.ndarray)} and _own_their_memory(owners)):
        return b""
    forms = list(map(_form, arrays))
    lows = addresses_of(arrays)
    ranges = _join(lows, _ends_of(arrays, lows, forms))
    if sum(high - low for low, high in ranges) > MOST_BYTES:
        return b""
    whole = xxh3_128(dump_alone([forms, ranges]))
    whole.update(np.array(lows, np.uintp).tobytes())
    whole.update(addresses(dtypes))
    whole.update(addresses(map(_bases, arrays)))
    for low, high in ranges:
        whole.update((ctypes.c_char * (high - low)).from_address(low))
    return whole.digest()


def _are_plain(dtypes: list[Any]) -> bool:
    distinct = dict(zip(ids_of(dtypes), dtypes, strict=True)).values()
    return all(has_plain_memory(dtype) and dtype.metadata is None for dtype in distinct)


def _own_their_memory(owners: list[Any]) -> bool:
    return all(owner.base is None and owner.flags.owndata for owner in owners) and _are_plain(
        list(map(_dtypes, owners))
    )


def _ends_of(arrays: Sequence[Any], lows: list[int], forms: list[Any]) -> list[int]:
    """Where the last byte of each array ends; those that go backwards begin there, so theirs are the bounds."""
    ends = [low + size for low, size in zip(lows, map(_sizes, arrays), strict=True)]
    for place, (_, _, flags) in enumerate(forms):
        if not flags & _CONTIGUOUS:
            lows[place], ends[place] = bounds(arrays[place])
    return ends


def _join(lows: list[int], ends: list[int]) -> list[tuple[int, int]]:
    """The ranges that these make up: of those that overlap or touch, one. No byte is in them that no array looks over."""
    if not lows:
        return []
    low, high = np.array(lows, np.uintp), np.array(ends, np.uintp)
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    first = np.flatnonzero(np.concatenate(([True], low[1:] > high[:-1])))
    last = np.append(first[1:], len(low)) - 1
    return [(start, end) for start, end in zip(low[first].tolist(), high[last].tolist(), strict=True) if end > start]
