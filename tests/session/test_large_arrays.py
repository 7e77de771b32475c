"""Large arrays on their way back: what lives and is the same is copied, and only what differs is read from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent_kernel.repository import AtHand, ObjectId, Objects
from agent_kernel.testing.notebooks import Notebook

np: Any = pytest.importorskip("numpy")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """For each read of more than one chunk: how many there are, and how many of them are at hand."""
    seen: list[tuple[int, int]] = []
    read_into = Objects.read_into

    def counted(
        self: Objects, kind: bytes, targets: Mapping[ObjectId, list[memoryview]], at_hand: Mapping[ObjectId, AtHand]
    ) -> dict[ObjectId, bytes]:
        if len(targets) > 1:
            seen.append((len(targets), len(targets.keys() & at_hand.keys())))
        return read_into(self, kind, targets, at_hand)

    monkeypatch.setattr(Objects, "read_into", counted)
    return seen


@pytest.mark.parametrize("rows", [2_000, 4_000])
def test_only_changed_chunks_are_read_there_and_back_and_there_again(rows: int, taken: list[tuple[int, int]]) -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run(f"a = np.random.default_rng(0).random(({rows}, 1024)); b = a[1:]")
        before = nb.look("a.copy()")
        changed = nb.run("a[7] = 5.5")
        after = nb.look("a.copy()")
        for target, expected in ((made, before), (changed, after), (made, before)):
            nb.checkout(target)
            assert np.array_equal(nb.look("a"), expected)
            assert nb.look("np.shares_memory(a, b)") is True
        chunks = {total for total, _ in taken}
        assert len(chunks) == 1
        assert all(total - near == 1 for total, near in taken)


def test_an_array_that_changes_while_it_is_taken_comes_back_as_it_was_stored(taken: list[tuple[int, int]]) -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run("a = np.random.default_rng(0).random((2000, 1024))")
        before = nb.look("a.copy()")
        nb.run("a[7] = 5.5")
        live: Any = nb.look("a")
        began = Objects.read_into

        def interfere(self: Objects, kind: bytes, targets: Any, at_hand: Any) -> dict[ObjectId, bytes]:
            live[900:] = 0
            return began(self, kind, targets, at_hand)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Objects, "read_into", interfere)
            nb.checkout(made)
        assert np.array_equal(nb.look("a"), before)
        assert taken
