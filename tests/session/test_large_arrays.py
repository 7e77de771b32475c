"""Large arrays on their way back: what lives and is the same is copied, and only what differs is read from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_kernel.repository import AtHand, Kind, ObjectId, Objects, address, digest_pieces
from agent_kernel.repository.objects import PIECE
from agent_kernel.session import serialization
from agent_kernel.session.workspace import Loaded, Workspace
from agent_kernel.storage import Buffer
from tests.support.notebooks import Notebook, names_changed

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


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each buffer of live memory that is hashed to see whether it changed."""
    seen: list[int] = []

    def counted(buffer: Buffer, cuts: Sequence[int]) -> list[bytes]:
        seen.append(memoryview(buffer).nbytes)
        return digest_pieces(buffer, cuts)

    monkeypatch.setattr(serialization, "digest_pieces", counted)
    return seen


@pytest.mark.parametrize("rows", [1_000, 2_000])
def test_memory_that_was_checked_as_it_was_read_is_not_hashed_again(rows: int, hashed: list[int]) -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run(f"a = np.random.default_rng(0).random(({rows}, 1024)); b = {{'a': a}}")
        nb.run("a[7] = 5.5")
        hashed.clear()
        nb.checkout(made)
        assert sum(hashed) == rows * 1024 * 8  # what lives, before it is let go of
        assert not nb.run("a, b").changed
        nb.run("b['a'][-1, -1] = 0")
        hashed.clear()
        nb.checkout(made)
        assert sum(hashed) == rows * 1024 * 8
        assert nb.look("a[-1, -1]") != 0


@pytest.mark.parametrize("items", [1_000, 1_000_000])
def test_what_a_thread_writes_just_after_a_checkout_is_found(items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run(f"a = np.random.default_rng(0).random({items})")
        nb.run("a[7] = 5.5")
        take_on = Workspace.take_on

        def interfere(self: Workspace, loaded: Loaded) -> None:
            take_on(self, loaded)
            self.namespace["a"][:10] = 99  # type: ignore[index]  # pyright: ignore[reportIndexIssue]

        with monkeypatch.context() as patch:
            patch.setattr(Workspace, "take_on", interfere)
            nb.checkout(made)
        found = nb.run("a")
        assert names_changed(found) == {"a"}
        nb.run("a[:] = 0")
        nb.checkout(found)
        assert nb.look("a[:11].tolist()")[:10] == [99.0] * 10  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
        assert nb.look("a[10]") != 99


SCALED = """
class Scaled:
    def __init__(self, values):
        self.values = values
    def __getstate__(self):
        return {"values": self.values}
    def __setstate__(self, state):
        self.__dict__ |= state
        self.values[0] += 1
s = Scaled(np.zeros(1_100_000))
"""


def test_bytes_that_a_class_alters_as_it_loads_are_not_taken_for_the_stored_ones() -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run(SCALED)
        nb.run("s.values[1:] = 1")
        nb.checkout(made)
        assert nb.look("s.values[0]") == 1
        assert not nb.run("s").changed  # nobody changed it
        later = nb.run("s.values[5] = 7")
        nb.run("s = None")
        nb.checkout(later)
        assert nb.look("s.values[:6].tolist()") == [2, 0, 0, 0, 0, 7]  # one more each time it is loaded


def test_numbers_beside_texts_are_taken_from_the_live_frame(taken: list[tuple[int, int]]) -> None:
    pytest.importorskip("pandas")
    with Notebook() as nb:
        nb.run("import numpy as np, pandas as pd")
        nb.run("df = pd.DataFrame({c: np.random.default_rng(ord(c)).random(400_000) for c in 'xyz'})")
        made = nb.run("df['t'] = pd.Series(['a', 'b', 'c', 'd'] * 100_000, dtype=object)")
        nb.run("df.loc[5, 'x'] = 5.5")
        before = nb.look("df.y.sum()")
        taken.clear()
        nb.checkout(made)
        assert nb.look("df.y.sum()") == before
        assert nb.look("df.x[5]") != 5.5
        assert sum(total - near for total, near in taken) <= 4
        assert sum(near for _, near in taken) > 30


def test_verify_finds_a_missing_chunk_that_a_checkout_did_not_need() -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        made = nb.run("a = np.random.default_rng(0).random((2000, 1024))")
        before: Any = nb.look("a.copy()")
        second = before.reshape(-1).view(np.uint8)[PIECE : 2 * PIECE].tobytes()
        nb.run("a[7] = 5.5")
        assert nb.repo.verify().is_sound
        nb.repo.store.delete_many([Kind.CHUNK + address(second)])
        nb.checkout(made)
        assert np.array_equal(nb.look("a"), before)
        assert not nb.repo.verify().is_sound
