"""What lies in a store's folder, and folders that hold no store, or half of one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from agent_kernel.errors import NotAStoreError, StoreError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.storage import LmdbStore
from tests.storage.children import in_child
from tests.storage.test_full_disk import ROOT, can_mount

NOBODY = 65534


def _filled(folder: Path, nbytes: int = 200_000) -> Path:
    store = LmdbStore(folder)
    store.put_many({b"%d" % i: bytes(nbytes // 10) for i in range(10)})
    store.close()
    return folder


def _refusal(folder: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        LmdbStore(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return caught.value


def test_a_new_store_is_its_owners_alone_and_ignored_by_git(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "of" / "notebook")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "data.mdb").stat().st_mode) == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "data.mdb", "last-close", "lock.mdb"]


def test_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o755)
    folder = _filled(tmp_path / "s")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755  # it was there before, so its mode is its owner's choice
    assert (folder / ".gitignore").exists()


def test_the_file_is_in_the_older_format_that_every_lmdb_reads(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "s")
    env = lmdb.open(str(folder), readonly=True, lib_version=0)
    assert env.lib_version()[:2] == (0, 9)
    env.close()


def test_leftovers_of_a_process_that_died_while_making_it_are_swept(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    (folder / ".new-abc").mkdir(parents=True)
    (folder / ".new-abc" / "data.mdb").write_bytes(b"half")
    (folder / ".gitignore").write_text("*\n")
    _filled(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "data.mdb", "last-close", "lock.mdb"]


@pytest.mark.skipif(sys.platform == "win32", reason="names there are text, and links are rare")
def test_a_path_that_the_system_or_the_engine_cannot_follow_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "is a loop of links" in str(_refusal(tmp_path / "loop"))
    assert "too long" in str(_refusal(tmp_path / ("n" * 300)))
    if sys.platform == "linux":
        with pytest.raises(StoreUnavailableError, match="not text") as caught:
            LmdbStore(tmp_path / "\udcff")
        assert str(caught.value).isprintable()


def test_a_check_of_a_store_that_is_gone_says_so(tmp_path: Path) -> None:
    store = LmdbStore(_filled(tmp_path / "s"))
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        store.check()
    store.close()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("keep me")
    error = _refusal(path)
    assert isinstance(error, NotAStoreError)
    assert "it is a file" in str(error)
    assert isinstance(_refusal(path / "below"), NotAStoreError)
    assert path.read_text() == "keep me"


def test_a_folder_of_other_things_is_no_store_and_is_left_alone(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        (tmp_path / name).touch()
    error = _refusal(tmp_path)
    assert isinstance(error, NotAStoreError)
    assert "(a.csv, b.csv, c.csv, …)" in str(error)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_foreign_data_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"garbage " * 3000)
    assert isinstance(_refusal(tmp_path), NotAStoreError)


@pytest.mark.parametrize("kept", [0, 1, 4_095, 4_096, 8_191, 8_192, 12_288, 100_000])
def test_a_data_file_that_is_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    folder = _filled(tmp_path / "s")
    with (folder / "data.mdb").open("r+b") as file:
        file.truncate(kept)
    message = in_child(lambda: _refusal(folder))  # in a child, for a store that did open could kill its reader
    assert "cut short" in message
    assert (folder / "data.mdb").stat().st_size == kept


def test_a_file_without_its_last_free_pages_is_whole(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "s")
    file = folder / "data.mdb"
    env = lmdb.open(str(folder), map_size=1 << 30, lib_version=0)
    number, needed = 10, 0
    while needed <= file.stat().st_size:
        with env.begin(write=True) as txn:
            txn.put(b"%d" % number, bytes(500))
            txn.put(b"big", bytes(50_000))
            txn.delete(b"big")  # in the transaction that made it, so that its pages are never written
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        number += 1
    env.close()
    for readonly in (True, False):
        store = LmdbStore(folder, readonly=readonly)
        assert len(store.keys(b"")) == number
        store.close()
    assert file.stat().st_size == needed


def test_a_store_whose_folder_is_removed_refuses_to_write(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s")
    store.put_many({b"a": b"1"})
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        store.put_many({b"b": b"2"})
    fresh = LmdbStore(tmp_path / "s")
    assert fresh.keys(b"") == []
    fresh.put_many({b"c": b"3"})
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        store.swap({}, {b"d": b"4"})
    store.close()
    fresh.close()


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        for folder in path.iterdir():
            folder.chmod(0o755)


def _read_without_permission(folder: Path) -> str:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    store = LmdbStore(folder)
    assert store.is_readonly
    with pytest.raises(StoreReadOnlyError):
        store.put_many({b"x": b"1"})
    return f"{len(store.keys(b''))} entries"


@pytest.mark.parametrize("with_lock", [True, False])
def test_a_folder_without_write_permission_opens_read_only(public: Path, with_lock: bool) -> None:
    folder = _filled(public / "s")
    for path in folder.iterdir():
        path.chmod(0o444)
    if not with_lock:
        (folder / "lock.mdb").unlink()
    folder.chmod(0o555)
    assert in_child(lambda: _read_without_permission(folder)) == "10 entries"


def _refusal_without_permission(folder: Path, mode: int, path: Path) -> str:
    """What a user is told who may do no more with the path than it says."""
    for each in (folder, *folder.iterdir()):
        os.chown(each, NOBODY, NOBODY)
    path.chmod(mode)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with pytest.raises(StoreError) as caught:
        LmdbStore(folder).put_many({b"x": b"1"})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "mode", "told"),
    [
        ("data.mdb", 0o444, "data.mdb is read-only"),
        ("lock.mdb", 0o444, "lock.mdb is read-only"),
        ("data.mdb", 0o000, "you have no permission to read data.mdb"),
        ("", 0o000, "you have no permission to read its folder"),
    ],
)
def test_a_message_names_what_of_a_store_cannot_be_used(public: Path, name: str, mode: int, told: str) -> None:
    folder = _filled(public / "s")

    def refusal() -> str:
        return _refusal_without_permission(folder, mode, folder / name)

    assert in_child(refusal) == f"lmdb://{folder} cannot be used: {told}"


def test_a_store_cannot_be_made_where_nothing_may_be_written(public: Path) -> None:
    def make() -> str:
        if os.geteuid() == 0:
            os.setuid(NOBODY)
        with pytest.raises(StoreReadOnlyError) as caught:
            LmdbStore(public / "s")
        return str(caught.value)

    public.chmod(0o555)
    assert "read-only" in in_child(make)


@pytest.mark.skipif(not can_mount(), reason="no mount namespace here")
def test_a_read_only_file_system_opens_read_only(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "s")
    source = (
        "import sys; from agent_kernel.storage import LmdbStore; s = LmdbStore(sys.argv[1])\n"
        "print(s.is_readonly, len(s.keys(b'')))"
    )
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$2" && exec "$3" -c "$4" "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(folder), str(ROOT), sys.executable, source]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "True 10\n", run.stderr
