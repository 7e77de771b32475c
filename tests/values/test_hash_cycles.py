"""Which sets and dicts are filled before the hash of an item is known is found, at little cost beside thousands of objects."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.values import hash_cycles
from agent_kernel.values.aliases import Dump
from agent_kernel.values.hash_cycles import is_filled_too_early
from tests.support.notebooks import Notebook

MADE = 2_000


class Node:
    def __init__(self, name: int) -> None:
        self.name = name
        self.near: list[Any] = []
        self.seen: set[Any] = set()
        self.by: dict[Any, Any] = {}

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other


def keys_of(node: Node) -> set[Node]:
    return {*node.seen, *(key[1] for key in node.by if type(key) is tuple)}


def leads_to(node: Node) -> set[Node]:
    return {*node.near, *keys_of(node), *(value for value in node.by.values() if type(value) is Node)}


def is_reached(goal: Node, start: Node) -> bool:
    found, waiting = {start}, [start]
    while waiting:
        fresh = leads_to(waiting.pop()) - found
        found |= fresh
        waiting += fresh
    return goal in found


@pytest.mark.parametrize("seed", range(60))
def test_a_set_or_dict_to_which_an_item_of_it_leads_back_is_found_among_any_objects(seed: int) -> None:
    drawn = random.Random(seed)
    nodes = [Node(number) for number in range(drawn.choice([3, 8, 30]))]
    for _ in range(drawn.randint(1, 2 * len(nodes))):
        one, other = drawn.choices(nodes, k=2)
        if drawn.random() < 0.7 and one.name > other.name:
            one, other = other, one
        place = drawn.randrange(5)
        if place < 2:
            one.near.append(other)
        elif place == 2:
            one.seen.add(other)
        elif place == 3:
            one.by["a text"] = other
        else:
            one.by[0, other] = 1
    expected = any(is_reached(node, key) for node in nodes for key in keys_of(node))
    assert is_filled_too_early(Dump(instances=[*nodes])) is expected


LEADING: dict[str, Callable[[list[Node], int], object]] = {
    "in lists": lambda nodes, n: nodes[n].near.append(nodes[n * 7 % MADE]),
    "in sets, to what lies below": lambda nodes, n: nodes[n // 2].seen.add(nodes[n]),
    "in sets, to the next one of fifty": lambda nodes, n: nodes[n - 1].seen.add(nodes[n]) if n % 50 else None,
    "in dicts": lambda nodes, n: nodes[n // 2].by.update({nodes[n]: n}),
}


@pytest.mark.parametrize("leads", LEADING.values(), ids=LEADING)
def test_many_objects_are_gone_through_a_few_times_however_deep_sets_lie_in_sets(
    leads: Callable[[list[Node], int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [Node(number) for number in range(MADE)]
    for number in range(1, MADE):
        leads(nodes, number)
    gone_through = 0
    held_by = hash_cycles._held_by  # pyright: ignore[reportPrivateUsage]

    def noted(values: list[Any]) -> list[Any]:
        nonlocal gone_through
        gone_through += len(values)
        return held_by(values)

    monkeypatch.setattr(hash_cycles, "_held_by", noted)
    assert not is_filled_too_early(Dump(instances=[*nodes]))
    most = 12 if sys.version_info < (3, 13) else 15  # there attribute dicts are told beside their objects
    assert gone_through < most * MADE


def test_attribute_dicts_of_many_objects_are_looked_at_together() -> None:
    nodes = [Node(number) for number in range(MADE)]
    for number in range(1, MADE):
        nodes[number].near.append(nodes[number // 2])
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert not is_filled_too_early(Dump(instances=[*nodes]))
    finally:
        sys.setprofile(None)
    assert calls < MADE


def test_a_figure_is_not_walked_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = hash_cycles._walk  # pyright: ignore[reportPrivateUsage]

    def noted(level: list[Any], *rest: Any) -> dict[int, Any]:
        walked.append(len(level))
        return walk(level, *rest)

    monkeypatch.setattr(hash_cycles, "_walk", noted)
    with Notebook() as nb:
        nb.run("import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt")
        nb.run("fig, ax = plt.subplots(); ax.plot([1, 2]); fig.canvas.draw(); plt.close()")
        assert not walked
        nb.run("class N:\n    def __init__(self): self.held = {self}\n    def __hash__(self): return 1\nn = N()")
        assert walked
