"""Trust in a bundle is trust in its manifest: nothing is loaded that this does not name, and nothing is laundered."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent_kernel.errors import AgentKernelError, BundleError
from agent_kernel.repository import Kind, address
from agent_kernel.repository.objects import SEALED
from agent_kernel.session import Repository, Snapshot
from agent_kernel.storage.archive import INDEX, MANIFEST, OBJECTS, RECORDS, ROW
from tests.bundle.bundles import bundle_of, members_of, with_members
from tests.bundle.studies import Ran, make_study


class Evil:
    """Its pickle makes a folder when it is loaded."""

    where = ""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (os.mkdir, (Evil.where,)) if Evil.where else (Evil, ())


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A bundle that this user trusts."""
    path = bundle_of(make_study(tmp_path / "good", "x = {3}\nclass G:\n    pass\ng = G()"), tmp_path / "good.agentnb")
    with closing(Repository.open(path, create=False)) as repo:
        repo.trust()
    return path


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def evil(tmp_path: Path, ran: Path) -> Path:
    """A bundle by somebody else, with a pickle that runs code."""
    Evil.where = str(ran)
    store = make_study(tmp_path / "evil", Ran("x = {3}", (), {"x": Evil()}))
    Evil.where = ""
    ran.rmdir() if ran.exists() else None
    return bundle_of(store, tmp_path / "evil.agentnb")


def load_all(path: Path) -> None:
    with closing(Repository.open(f"bundle://{path}", create=False)) as repo:
        repo.trust()
        snapshot = Snapshot(repo, repo.resolve("HEAD"))
        for name in snapshot:
            snapshot.summary(name)
            snapshot[name]


@pytest.mark.parametrize("kept", [{MANIFEST}, {MANIFEST, RECORDS}, {MANIFEST, INDEX}, {MANIFEST, RECORDS, INDEX}])
def test_a_file_with_the_manifest_of_a_trusted_bundle_and_other_members_is_refused(
    good: Path, evil: Path, tmp_path: Path, ran: Path, kept: set[str]
) -> None:
    trusted = members_of(good)
    mixed = with_members(tmp_path / "mixed.agentnb", members_of(evil) | {name: trusted[name] for name in kept})
    with pytest.raises(BundleError) as found:
        load_all(mixed)
    assert "\n" not in str(found.value)
    assert not ran.exists()


def forged(path: Path, target: Path, kind: bytes, change: Callable[[bytes], bytes]) -> Path:
    """Objects of a kind that are others under the same keys, with the seal that a large object has."""
    members = members_of(path)
    content = bytearray(members[OBJECTS])
    for key, start, length in ROW.iter_unpack(members[INDEX]):
        if key[:1] == kind:
            changed = change(bytes(content[start : start + length]))
            assert len(changed) == length
            content[start : start + length] = changed
    return with_members(target, members | {OBJECTS: bytes(content)})


@pytest.mark.parametrize("kind", [Kind.COMMIT, Kind.TREE, Kind.SMALL, Kind.CHUNK, Kind.DEFINITION])
def test_an_object_that_is_not_what_its_id_says_is_refused_as_it_is_read(tmp_path: Path, kind: bytes) -> None:
    path = bundle_of(
        make_study(tmp_path / "s", "def f():\n    return 1\nx = b'0123456789' * 1000"), tmp_path / "b.agentnb"
    )
    bad = forged(path, tmp_path / "bad.agentnb", kind, lambda stored: stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(BundleError):
        load_all(bad)


def test_a_seal_is_no_proof(tmp_path: Path) -> None:
    """Whoever changes a large object can seal it again: it is the id that counts."""
    from xxhash import xxh3_128_digest

    path = bundle_of(make_study(tmp_path / "s", "import os\nx = os.urandom(300_000)"), tmp_path / "b.agentnb")

    def seal(stored: bytes) -> bytes:
        assert stored[1] & SEALED
        body = b"!" + stored[35:]
        return stored[:18] + xxh3_128_digest(body) + body

    bad = forged(path, tmp_path / "bad.agentnb", Kind.CHUNK, lambda s: seal(s) if len(s) > 9000 else s)
    with pytest.raises(BundleError, match="chunk in it is damaged"):
        load_all(bad)


def test_records_that_name_other_branches_than_the_manifest_are_refused_as_the_file_is_opened(
    good: Path, tmp_path: Path
) -> None:
    members = members_of(good)
    records = dict(msgspec.msgpack.decode(members[RECORDS], type=list[tuple[bytes, bytes]]))
    records[b"r/heads/other"] = records[b"r/heads/main"]
    sealed = members | {RECORDS: msgspec.msgpack.encode(sorted(records.items()))}
    with pytest.raises(BundleError, match="other branches"):
        Repository.open(with_members(tmp_path / "b.agentnb", sealed, sealed=True), create=False)


def test_a_chain_of_differences_without_end_is_refused(good: Path, tmp_path: Path) -> None:
    members = members_of(good)
    rows = [(key, members[OBJECTS][start : start + n]) for key, start, n in ROW.iter_unpack(members[INDEX])]
    chain = [(Kind.TREE + address(b"%d" % n), b"\1\4\1" + address(b"%d" % (n + 1)) + b"x") for n in range(2000)]
    index, place = b"", 0
    rows = sorted([*rows, *chain])
    for key, stored in rows:
        index += ROW.pack(key, place, len(stored))
        place += len(stored)
    members |= {OBJECTS: b"".join(stored for _, stored in rows), INDEX: index}
    path = with_members(tmp_path / "b.agentnb", members, sealed=True)
    with closing(Repository.open(path, create=False)) as repo, pytest.raises(AgentKernelError, match="difference"):
        repo.objects.get(Kind.TREE, address(b"0"))
