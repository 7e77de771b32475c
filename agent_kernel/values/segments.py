"""Cut a long list, tuple, set or dict into segments, each pickled with a memo of its own.

Most of the time of pickling a large container goes into one huge memo. Segments of about a thousand items take a third
of it, and a changed row changes one of them. Cuts stay where they were: a segment starts at the item that started one
before (by identity), so deleting the first row does not move all the others.

An object held by two segments would come back twice, so a container with more references than its segment explains is
looked for in the others; when it is there too, the value is pickled whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from xxhash import xxh3_128_digest

from agent_kernel.values import aliases
from agent_kernel.values.pickler import Dump, LiveNames, Pickler

LENGTH = 1_000
SHORTEST, LONGEST = 250, 2_000
FROM_LENGTH = 2 * LENGTH
_FORMS = frozenset({list, dict, set, tuple})


@dataclass(slots=True)
class Segments:
    """The segments of one container. `starts` are the ids of the items that begin one."""

    dump: Dump
    buffer_counts: list[int]
    reach: aliases.Reach
    starts: frozenset[int]
    digests: frozenset[bytes]
    unwalked: list[tuple[Any, Dump]]

    def walk_rest(self) -> bool:
        """Look for objects shared between any two segments; False when there are some."""
        todo, self.unwalked = self.unwalked, []
        return all(_stands_alone(items, dump, self.reach) for items, dump in todo)


def dump_segments(
    value: Any,
    names: LiveNames,
    namespace: dict[str, object],
    starts: frozenset[int] = frozenset(),
    known: frozenset[bytes] = frozenset(),
) -> Segments | None:
    """Pickle a long container in segments, or say (None) that it has to be pickled whole.

    Args:
        starts: where segments began the last time.
        known: digests of the segments of the last time. Only others are walked for shared objects at once; the rest
            when a new one holds an object that something else holds too, or when the caller asks (`walk_rest`).
    """
    if type(value) not in _FORMS or len(value) < FROM_LENGTH:
        return None
    keys = list(value)
    cuts = _cuts(list(map(id, keys)), starts)
    made = Segments(Dump(), [], aliases.Reach(), frozenset(id(keys[start]) for start, _ in cuts), frozenset(), [])
    del keys
    made.reach.ids.add(id(value))
    made.reach.complete = False
    digests: list[bytes] = []
    for items in _slices(value, cuts):
        try:
            dump = _dump_one(items, names, namespace)
        except Exception:  # something needs care, which only a whole dump takes
            return None
        digests.append(xxh3_128_digest(dump.streams[0]))
        if dump.memory:
            return None
        if digests[-1] in known:
            made.unwalked.append((items, dump))
        elif not _stands_alone(items, dump, made.reach):
            return None
        _append(made.dump, dump)
        made.buffer_counts.append(len(dump.buffers))
    made.digests = frozenset(digests)
    if len(made.reach.ids) > 1 and not made.walk_rest():
        return None
    return made


def _cuts(ids: list[int], starts: frozenset[int]) -> list[tuple[int, int]]:
    """Where segments begin and end: at the items that began one before, else every `LENGTH` items."""
    total = len(ids)
    marks = [position for position, item in enumerate(ids) if item in starts] if starts else []
    bounds = [0]
    for mark in [*marks, total]:
        while mark - bounds[-1] > LONGEST:
            bounds.append(bounds[-1] + LENGTH)
        if mark - bounds[-1] >= SHORTEST:
            bounds.append(mark)
    if bounds[-1] != total:
        if len(bounds) > 1 and total - bounds[-1] < SHORTEST:
            bounds.pop()
        bounds.append(total)
    return list(zip(bounds, bounds[1:], strict=False))


def _slices(value: Any, cuts: list[tuple[int, int]]) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        yield from (value[start:end] for start, end in cuts)
        return
    items = iter(value.items() if isinstance(value, dict) else value)
    for start, end in cuts:
        some = islice(items, end - start)
        yield dict(some) if isinstance(value, dict) else list(some)


def _dump_one(items: Any, names: LiveNames, namespace: dict[str, object]) -> Dump:
    sink = io.BytesIO()
    dump = Dump()
    pickler = Pickler(sink, dump, names, namespace)
    pickler.dump(items)
    dump.kept = pickler.kept
    dump.streams.append(sink.getvalue())
    return dump


def _stands_alone(items: Any, dump: Dump, so_far: aliases.Reach) -> bool:
    """Whether nothing below these items is also held by the container itself or by an earlier segment."""
    held = aliases.held_below(items, dump)
    if not so_far.ids.isdisjoint(held):
        return False
    so_far.ids |= held
    return True


def _append(whole: Dump, part: Dump) -> None:
    whole.streams += part.streams
    whole.foreign += [len(whole.buffers) + position for position in part.foreign]
    whole.buffers += part.buffers
    whole.steps += part.steps
    whole.globals_used |= part.globals_used
    whole.classes.update(part.classes)
    whole.definitions.update(part.definitions)
    whole.losses.update(part.losses)
    whole.live.update(part.live)
