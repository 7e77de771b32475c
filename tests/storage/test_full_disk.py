"""A full disk is an error and not a loss: what was stored can be read, and writing goes on once there is room."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from agent_kernel.errors import StoreFullError
from agent_kernel.storage import LmdbStore
from tests.storage import history
from tests.storage.children import in_child

ROOT = Path(__file__).parents[2]


def _fill(folder: Path, seed: int) -> tuple[int, int]:
    """Commit until the disk is full; return the commits made and how often writing was refused."""
    rng = random.Random(seed)
    acknowledged = refused = 0
    try:
        store = LmdbStore(folder)
    except StoreFullError:
        return 0, 1
    while refused < 3:
        try:
            acknowledged = history.commit(store, rng, largest=100_000)
        except StoreFullError:
            refused += 1
        assert history.fault(store, acknowledged) == ""
    with pytest.raises(StoreFullError):
        store.put_many({b"huge": [bytes(1 << 20)] * 20})
    assert history.fault(store, acknowledged) == ""
    store.close()
    return acknowledged, refused


def _go_on(folder: Path, acknowledged: int) -> None:
    store = LmdbStore(folder)
    assert history.fault(store, acknowledged) == ""
    for seed in range(3):
        assert history.commit(store, random.Random(1000 + seed)) == acknowledged + seed + 1
    assert history.fault(store, acknowledged + 3) == ""
    store.close()


def _fill_to_a_file_limit(folder: Path, limit: int) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # Python ignores SIGXFSZ, so writing fails with EFBIG
    acknowledged, refused = _fill(folder, limit)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    _go_on(folder, acknowledged)
    return refused


@pytest.mark.parametrize("limit", [0, 5_000, 8_192, 65_536, 300_000, 777_777, 2_000_000])
def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path, limit: int) -> None:
    assert int(in_child(lambda: _fill_to_a_file_limit(tmp_path / "store", limit))) > 0


def test_a_store_that_was_full_goes_on_without_being_reopened(tmp_path: Path) -> None:
    def work() -> int:
        store = LmdbStore(tmp_path / "store")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(StoreFullError):
            store.swap({}, {b"ref": b"1"}, {b"big": bytes(1_000_000)})
        assert store.get_many([b"ref", b"big"]) == {}
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert store.swap({b"ref": None}, {b"ref": b"1"}, {b"big": bytes(1_000_000)})
        return len(store.get_many([b"big"])[b"big"])

    assert in_child(work) == "1000000"


def can_mount() -> bool:
    try:
        mount = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(mount, capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def fill_a_small_disk(disk: Path, free: list[int]) -> None:
    for nbytes in free:
        folder, filler = disk / "store", disk / "filler"
        with filler.open("wb") as file:
            file.write(bytes(_free(disk) - nbytes))
        acknowledged, refused = _fill(folder, nbytes)
        assert refused
        filler.unlink()
        _go_on(folder, acknowledged)
        for path in sorted(folder.iterdir()):
            path.unlink()
        folder.rmdir()


def _free(disk: Path) -> int:

    stat = os.statvfs(disk)
    return stat.f_bavail * stat.f_frsize


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="no mount namespace here")
def test_a_disk_that_is_full_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    free = [4096 * pages for pages in (*range(40), *range(41, 1200, 29))]
    _on_a_small_disk(tmp_path, f"fill_a_small_disk(disk, {free})")


def _on_a_small_disk(place: Path, call: str) -> None:
    source = (
        "import sys; from pathlib import Path; from tests.storage.test_full_disk import *\n"
        f"disk = Path(sys.argv[1]); {call}"
    )
    script = 'mount -t tmpfs -o size=24m tmpfs "$1" && cd "$2" && exec "$3" -c "$4" "$1"'
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(place), str(ROOT), sys.executable, source],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_the_engine_maps_no_file_for_writing_that_has_no_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of such a file that finds no room as it is written to ends the process: there is no error to catch."""
    engine_open, rooms = lmdb.open, []

    def watched(path: str, **options: object) -> object:
        lock = (Path(path) / "lock.mdb").stat()
        rooms.append((lock.st_blocks * 512, lock.st_size))
        return engine_open(path, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(lmdb, "open", watched)
    LmdbStore(tmp_path / "store").close()
    (tmp_path / "store" / "lock.mdb").unlink()  # as in a copy of a store
    LmdbStore(tmp_path / "store").close()
    os.truncate(tmp_path / "store" / "lock.mdb", 0)  # what a process leaves that a full disk ended
    os.truncate(tmp_path / "store" / "lock.mdb", 64_128)
    LmdbStore(tmp_path / "store").close()
    readers = (tmp_path / "store" / "lock.mdb").stat()
    LmdbStore(tmp_path / "store", readonly=True).close()
    assert len(rooms) == 5
    assert all(found >= size > 60_000 for found, size in rooms)
    assert (tmp_path / "store" / "lock.mdb").stat().st_ino == readers.st_ino


def open_without_room(disk: Path) -> None:
    """Make and open stores on a disk with a few free blocks at most; what cannot be is an error."""
    whole = disk / "whole"
    LmdbStore(whole).close()
    filler = disk / "filler"
    for pages in range(40):
        for damage in (None, _lose_the_lock, _empty_the_lock):
            if damage is not None:
                damage(whole)
            filler.write_bytes(bytes(_free(disk) - 4096 * pages))
            for folder in (whole, disk / "new"):
                with contextlib.suppress(StoreFullError):
                    store = LmdbStore(folder)
                    assert store.keys(b"") == []
                    store.close()
            filler.unlink()
            shutil.rmtree(disk / "new", ignore_errors=True)
            LmdbStore(whole).close()
            assert not list(whole.glob(".new*"))


def _lose_the_lock(folder: Path) -> None:
    (folder / "lock.mdb").unlink()


def _empty_the_lock(folder: Path) -> None:
    os.truncate(folder / "lock.mdb", 0)
    os.truncate(folder / "lock.mdb", 64_128)


@pytest.mark.skipif(not can_mount(), reason="no mount namespace here")
def test_opening_a_store_where_the_disk_has_no_free_block_is_an_error(tmp_path: Path) -> None:
    _on_a_small_disk(tmp_path, "open_without_room(disk)")
