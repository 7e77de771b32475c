"""Trust in a bundle is trust in its manifest: nothing is loaded that this does not name, and nothing is laundered."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent_kernel.bundle import keys, opening
from agent_kernel.cli import main
from agent_kernel.commands import places
from agent_kernel.errors import AgentKernelError, BundleError, NotAStoreError
from agent_kernel.repository import Kind, address
from agent_kernel.repository.objects import SEALED
from agent_kernel.session import Repository, Snapshot
from agent_kernel.storage.archive import INDEX, MANIFEST, OBJECTS, RECORDS, ROW
from tests.bundle.bundles import bundle_of, changed, members_of, with_members
from tests.bundle.studies import Ran, make_study


class Evil:
    """Its pickle makes a folder when it is loaded."""

    where = ""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (os.mkdir, (Evil.where,)) if Evil.where else (Evil, ())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a user of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


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


# -- nothing is laundered


@pytest.fixture
def own_key() -> keys.Key:
    return keys.make_key("Me")


def command(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main([*map(str, words)])
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return status, told.out + told.err


@pytest.mark.usefixtures("own_key")
def test_what_its_user_does_not_trust_is_not_signed_by_default(
    evil: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = opening.open_bundle(evil, tmp_path, name="theirs").notebook
    for number, source in enumerate((evil, notebook)):
        again = tmp_path / f"again-{number}.agentnb"
        status, said = command("export", source, again, capsys=capsys)
        assert status == 0
        assert "Not signed: somebody else made this history" in said
        with opening.opened(again) as bundle:
            assert keys.check(bundle.store).state == "unsigned"
        assert not opening.open_bundle(again, tmp_path, name=f"again-{number}").is_trusted


@pytest.mark.usefixtures("own_key")
def test_to_sign_what_somebody_else_made_it_has_to_be_trusted_first(
    evil: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.agentnb"
    status, said = command("export", evil, again, "--sign", capsys=capsys)
    assert status == 2
    assert "look through it first, then trust it: agent-kernel trust" in said
    assert not again.exists()
    command("trust", evil, capsys=capsys)
    assert command("export", evil, again, "--sign", capsys=capsys)[0] == 0
    with opening.opened(again) as bundle:
        assert keys.check(bundle.store).is_trusted


READING = ("log", "show REV", "diff HEAD", "notebook", "export", "reproduce", "branch", "trust", "stats")


def asking(reading: str, path: Path, folder: Path) -> list[object]:
    verb, _, rest = reading.partition(" ")
    more: dict[str, list[object]] = {"notebook": ["-o", folder / "out.ipynb"], "export": [folder / "out.agentnb"]}
    return [verb, path, *(["HEAD"] if rest else []), *more.get(verb, [])]


@pytest.mark.parametrize("reading", READING)
def test_a_bundle_with_the_signature_of_another_is_read_by_no_command(
    evil: Path, own_key: keys.Key, tmp_path: Path, capsys: pytest.CaptureFixture[str], reading: str
) -> None:
    other = bundle_of(make_study(tmp_path / "o", "y = 1"), tmp_path / "other.agentnb")
    with opening.opened(other) as bundle:
        signature = keys.load_signer().sign(bundle.store.manifest_bytes)
    bad = with_members(tmp_path / "bad.agentnb", members_of(evil) | {"signature.json": signature})
    status, said = command(*asking(reading, bad, tmp_path), capsys=capsys)
    assert status == 1
    assert "signature does not fit" in said
    assert not [*tmp_path.glob("out.*")]
    assert own_key.is_trusted


@pytest.mark.parametrize("member", ["README.txt", "data/x.json", "store/objects", "notebook.ipynb"])
@pytest.mark.parametrize("reading", ["export", "reproduce"])
def test_what_is_run_again_or_leaves_is_verified_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reading: str, member: str
) -> None:
    path = bundle_of(make_study(tmp_path / "s", "x = 1"), tmp_path / "b.agentnb")
    bad = changed(path, member, lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    status, said = command(*asking(reading, bad, tmp_path), capsys=capsys)
    assert status == 1
    assert "not a sound bundle" in said
    assert not [*tmp_path.glob("out.*")]


def test_reproduce_says_who_signed(tmp_path: Path, own_key: keys.Key, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle_of(make_study(tmp_path / "s", "x = 1"), tmp_path / "b.agentnb")
    assert "Not signed" in command("reproduce", path, capsys=capsys)[1]
    command("export", tmp_path / "s", path, "--force", capsys=capsys)
    assert f"Signed by you ({own_key.fingerprint})" in command("reproduce", path, capsys=capsys)[1]


def test_a_bundle_is_no_store_to_start_a_copy_from(evil: Path, tmp_path: Path) -> None:
    with closing(Repository.open(tmp_path / "mine")) as mine, pytest.raises(NotAStoreError, match="agent-kernel open"):
        places.copy_store(f"bundle://{evil}", mine.store)
