"""What the store costs beside the bare engine, in one run: ratios, because a busy machine slows both alike."""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import lmdb
import pytest

from agent_kernel.storage import LmdbStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PIECE = 262_128
BATCH = 32  # pieces in a transaction of 8 MB


def _bare(folder: Path) -> lmdb.Environment:
    folder.mkdir()
    return lmdb.open(str(folder), map_size=1 << 40, metasync=False, lib_version=0)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _quiet(seconds: list[float]) -> float:
    # The fastest tenth: the rest says what else the disk was doing.
    return statistics.quantiles(seconds, n=10)[0]


def _peak_bytes() -> int:
    # Without the pages of files, which are the system's cache and are counted here once they are looked at.
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines() if "kB" in line)
    status = {line[0]: int(line[1]) * 1024 for line in lines}
    return status["VmHWM:"] - status["RssFile:"]


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def test_a_small_commit_costs_about_one_transaction(tmp_path: Path) -> None:
    rng = random.Random(1)
    store, bare = LmdbStore(tmp_path / "store"), _bare(tmp_path / "bare")
    ours: list[float] = []
    theirs: list[float] = []
    refs: list[bytes | None] = [None, *(b"%d" % i for i in range(600))]
    for old, new in pairwise(refs):
        objects = {b"o" + rng.randbytes(32): rng.randbytes(400) for _ in range(10)}
        order = [(partial(_swap, store, old, new, objects), ours), (partial(_commit, bare, old, new, objects), theirs)]
        rng.shuffle(order)
        for work, seconds in order:
            seconds.append(_seconds(work))
    store.close()
    bare.close()
    ratio = _quiet(ours) / _quiet(theirs)
    print(f"a swap {_quiet(ours) * 1e3:.3f} ms, bare {_quiet(theirs) * 1e3:.3f} ms: {ratio:.2f}")
    assert ratio <= 1.3


def _swap(store: LmdbStore, old: bytes | None, new: bytes | None, objects: dict[bytes, bytes]) -> None:
    assert store.swap({b"ref": old}, {b"ref": new}, objects)


def _commit(bare: lmdb.Environment, old: bytes | None, new: bytes | None, objects: dict[bytes, bytes]) -> None:
    with bare.begin(write=True) as txn:
        assert txn.get(b"ref") == old
        for key, value in objects.items():
            txn.put(key, value)
        txn.put(b"ref", new or b"")


def _put_bare(bare: lmdb.Environment, items: dict[bytes, bytes]) -> None:
    names = list(items)
    for start in range(0, len(names), BATCH):
        with bare.begin(write=True) as txn:
            for name in names[start : start + BATCH]:
                txn.put(name, items[name], overwrite=False)


@pytest.mark.parametrize("joined", [False, True])
def test_putting_256_mb_costs_what_it_costs_the_engine(tmp_path: Path, joined: bool) -> None:
    rng = random.Random(2)
    pieces = [rng.randbytes(PIECE) for _ in range(16)]
    ours: list[float] = []
    theirs: list[float] = []
    peaks: list[int] = []
    for round_ in range(7):
        items = {b"b" + rng.randbytes(32): pieces[i % 16] for i in range(1024)}
        split = {key: (value[:2], memoryview(value)[2:]) for key, value in items.items()}
        store, bare = LmdbStore(tmp_path / f"store{round_}"), _bare(tmp_path / f"bare{round_}")
        _reset_peak()
        before = _peak_bytes()
        ours.append(_seconds(partial(store.put_many, split if joined else items)))
        peaks.append(_peak_bytes() - before)
        theirs.append(_seconds(partial(_put_bare, bare, items)))
        store.close()
        bare.close()
        for made in ("store", "bare"):
            shutil.rmtree(tmp_path / f"{made}{round_}")
    ratio = min(ours) / min(theirs)
    print(f"256 MB {min(ours):.3f} s, bare {min(theirs):.3f} s: {ratio:.2f}; memory +{max(peaks) / 1e6:.0f} MB")
    assert ratio <= (1.3 if joined else 1.15)  # joining is one more copy, within the processor's cache
    assert max(peaks) < 40e6
