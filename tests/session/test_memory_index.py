"""Which groups look at the same memory is found without a look at each pair of places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.session.staging import memory_pairs
from agent_kernel.session.tracking import MemoryIndex
from agent_kernel.values.aliases import CONSTANT, COPIED, OPEN, MemoryUse, Reach

Place = tuple[str, int, int, int]  # space, low, length, written
PLACES = st.tuples(
    st.sampled_from(["cpu", "cuda:0"]),
    st.integers(0, 40),
    st.integers(1, 12),
    st.sampled_from([OPEN, COPIED, CONSTANT]),
)
HOLDERS = st.lists(st.lists(PLACES, max_size=5), min_size=2, max_size=7)


def uses_of(places: Sequence[Place]) -> list[MemoryUse]:
    return [MemoryUse(object(), space, low, low + length, written) for space, low, length, written in places]


def meet(one: Sequence[MemoryUse], other: Sequence[MemoryUse]) -> bool:
    return any(
        a.space == b.space
        and a.low < b.high
        and b.low < a.high
        and (a.written != b.written or OPEN in (a.written, b.written))
        for a in one
        for b in other
    )


def parts_of(count: int, pairs: set[tuple[int, int]]) -> set[frozenset[int]]:
    part = {number: frozenset({number}) for number in range(count)}
    for one, other in pairs:
        whole = part[one] | part[other]
        part |= dict.fromkeys(whole, whole)
    return set(part.values())


@given(HOLDERS)
def test_the_index_finds_those_groups_that_meet_a_reach(holders: list[list[Place]]) -> None:
    fresh, *known = [uses_of(places) for places in holders]
    groups: list[Any] = [SimpleNamespace(reach=Reach(set(), uses)) for uses in known]
    index = MemoryIndex()
    index.stale = True
    index.rebuild(groups)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    found = set(map(id, index.find_overlapping(Reach(set(), fresh))))
    assert found == {id(group) for group in groups if meet(group.reach.memory, fresh)}


@given(HOLDERS)
def test_pairs_connect_exactly_the_names_that_look_at_the_same_memory(holders: list[list[Place]]) -> None:
    uses = {str(number): uses_of(places) for number, places in enumerate(holders)}
    found = {(int(one), int(other)) for one, other in memory_pairs(uses)}
    meeting = {
        (one, other) for one, other in combinations(range(len(holders)), 2) if meet(uses[str(one)], uses[str(other)])
    }
    assert parts_of(len(holders), found) == parts_of(len(holders), meeting)
