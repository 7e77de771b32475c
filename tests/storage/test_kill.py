"""What was acknowledged survives the process that was killed, and nothing is half there."""

from __future__ import annotations

import random
import shutil
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_kernel.storage import LmdbStore
from tests.storage import history
from tests.storage.children import Child, in_child

ACK = struct.Struct("<Q")


def _write_forever(folder: Path, seed: int, report: Callable[[bytes], object]) -> None:
    rng = random.Random(seed)
    store = LmdbStore(folder, map_size=256 << 10)  # small, so that it grows under the killer's eyes
    while True:
        report(ACK.pack(history.commit(store, rng)))
        if rng.random() < 0.1:
            history.forget(store, keep=8)
        if rng.random() < 0.03:
            store.compact()


def _kill_at_random(folder: Path, rng: random.Random, longest_s: float) -> int:
    seed = rng.randrange(1 << 30)
    with Child(lambda report: _write_forever(folder, seed, report)) as child:
        time.sleep(rng.random() * longest_s)
        child.kill()
        acks, status = child.wait()
    assert status == -9, f"it ended by itself: {acks[-2000:].decode(errors='replace')}"
    whole = len(acks) // ACK.size * ACK.size
    return int(ACK.unpack(acks[whole - ACK.size : whole])[0]) if whole else 0


def _look(folder: Path, acknowledged: int) -> str:
    store = LmdbStore(folder)
    found = history.fault(store, acknowledged)
    store.close()
    return found


def _survives(folder: Path, *, kills: int, per_store: int, longest_s: float) -> int:
    rng = random.Random(11)
    commits = acknowledged = 0
    for kill in range(kills):
        if kill % per_store == 0:
            commits += acknowledged
            acknowledged = 0
            shutil.rmtree(folder, ignore_errors=True)
        acknowledged = max(acknowledged, _kill_at_random(folder, rng, longest_s))
        # In a child, for reading a broken file can kill its reader.
        assert in_child(partial(_look, folder, acknowledged)) == "", f"after kill {kill}"
    return commits + acknowledged


def test_acknowledged_commits_survive_a_few_kills(tmp_path: Path) -> None:
    assert _survives(tmp_path / "store", kills=12, per_store=4, longest_s=0.15) > 0


def test_killing_it_while_it_is_made_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    _survives(tmp_path / "store", kills=25, per_store=1, longest_s=0.012)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_acknowledged_commits_survive_a_thousand_kills(tmp_path: Path) -> None:
    commits = _survives(tmp_path / "store", kills=800, per_store=20, longest_s=0.12)
    commits += _survives(tmp_path / "new", kills=300, per_store=1, longest_s=0.02)
    assert commits > 1_000
