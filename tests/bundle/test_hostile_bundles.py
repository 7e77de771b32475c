"""A bundle comes from anyone: what is not as its maker wrote it is refused in one line, quickly, and leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from agent_kernel.bundle import opening
from agent_kernel.cli import main
from agent_kernel.errors import AgentKernelError, BundleError, NewerFormatError, StoreUnavailableError
from agent_kernel.repository import Kind, ObjectId, Repository, address
from agent_kernel.repository.commits import decode_commit
from agent_kernel.repository.objects import unwrap, version_of, wrap
from agent_kernel.repository.refs import Holder
from agent_kernel.session import Repository as LoadingRepository
from agent_kernel.storage import archive
from agent_kernel.storage.archive import INDEX, OBJECTS, RECORDS, ROW, Archive, ArchiveStore, Member
from tests.bundle.bundles import changed, make_bundle, members_of, with_members

REFUSED = (BundleError, NewerFormatError)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("sound"))


def refused(path: Path, folder: Path) -> str:
    """Why a bundle is refused; opening it leaves nothing behind."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(REFUSED) as found:
        opening.open_bundle(path, folder)
    assert not list(folder.rglob("*")), list(folder.rglob("*"))
    said = str(found.value)
    assert "\n" not in said
    assert "Traceback" not in said
    return said


# -- the zip


def _zip_with(sound: Path, path: Path, *infos: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    members = members_of(sound)
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
        for info, content in infos:
            made.writestr(info, content)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/etc/evil",
        "C:/evil",
        "c:evil",
        "a\\..\\evil",
        "a//b",
        "./a",
        "a/./b",
        "bad\x1bname",
        "\u202egnp",
        "data/NUL",
        "CON",
        "data/aux.json",
        "data/x.json ",
        "data/x.json.",
        "data/a:b",
        "data/a b.json",
        "data/\u0130.json",
        "data/" + "a" * 300,
        "data/a/b.json",
        "data/x.exe",
        ".git/hooks/post-checkout",
        "desktop.ini",
        "setup.py",
        "-rf",
    ],
)
def test_members_that_leave_their_folder_are_refused(sound: Path, tmp_path: Path, name: str) -> None:
    assert "member" in refused(_zip_with(sound, tmp_path / "b.agentnb", (name, b"x")), tmp_path / "out")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_are_refused(sound: Path, tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("data/link")
    info.external_attr = (kind | 0o777) << 16
    refused(_zip_with(sound, tmp_path / "b.agentnb", (info, b"/etc/passwd")), tmp_path / "out")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["manifest.json", "MANIFEST.JSON", "store/Objects"])
def test_two_members_of_one_name_are_refused(sound: Path, tmp_path: Path, name: str) -> None:
    assert "twice" in refused(_zip_with(sound, tmp_path / "b.agentnb", (name, b"{}")), tmp_path / "out")


def test_members_in_one_place_are_refused(sound: Path, tmp_path: Path) -> None:
    content = bytearray(sound.read_bytes())
    with zipfile.ZipFile(sound) as opened:
        infos = opened.infolist()
    # The second entry of the directory points to where the first member lies, under the first one's name.
    at = content.index(b"PK\x01\x02")
    first = content[at : content.index(b"PK\x01\x02", at + 4)]
    second = content.index(b"PK\x01\x02", at + 4)
    third = content.index(b"PK\x01\x02", second + 4)
    (tmp_path / "b.agentnb").write_bytes(content[:second] + first + content[third:])
    assert len(infos) > 2
    refused(tmp_path / "b.agentnb", tmp_path / "out")


@pytest.mark.parametrize("compress", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_is_compressed_as_bundles_are_not_is_refused(sound: Path, tmp_path: Path, compress: int) -> None:
    info = zipfile.ZipInfo("data/odd")
    info.compress_type = compress
    assert "compressed" in refused(_zip_with(sound, tmp_path / "b.agentnb", (info, b"x")), tmp_path / "out")


@pytest.mark.parametrize(("packed", "size"), [(1 << 10, 4 << 20), (4 << 20, (1 << 30) + 1)])
def test_a_member_that_unpacks_to_far_more_is_refused_unread(
    sound: Path, tmp_path: Path, packed: int, size: int
) -> None:
    info = zipfile.ZipInfo("data/bomb")
    info.compress_type = zipfile.ZIP_DEFLATED
    content = bytearray(
        _zip_with(sound, tmp_path / "b.agentnb", (info, random.Random(0).randbytes(packed))).read_bytes()
    )
    at = content.rindex(b"PK\x01\x02")
    struct.pack_into("<L", content, at + 24, size)
    (tmp_path / "b.agentnb").write_bytes(content)
    assert "unpack" in refused(tmp_path / "b.agentnb", tmp_path / "out")


def test_a_directory_of_very_many_members_is_refused_before_it_is_read(sound: Path, tmp_path: Path) -> None:
    content = bytearray(sound.read_bytes())
    at = content.rfind(b"PK\x05\x06")
    struct.pack_into("<HH", content, at + 8, 60_000, 60_000)
    (tmp_path / "b.agentnb").write_bytes(content)
    assert "members" in refused(tmp_path / "b.agentnb", tmp_path / "out")


def test_a_member_that_claims_another_size_is_refused(sound: Path, tmp_path: Path) -> None:
    members = members_of(sound)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in members.items():
            written.writestr(name, content, zipfile.ZIP_STORED if name.startswith("store/") else zipfile.ZIP_DEFLATED)
    written_bytes = bytearray(made.getvalue())
    at = written_bytes.index(b"PK\x01\x02")
    (size,) = struct.unpack_from("<L", written_bytes, at + 24)
    struct.pack_into("<L", written_bytes, at + 24, size + 100)
    (tmp_path / "b.agentnb").write_bytes(written_bytes)
    refused(tmp_path / "b.agentnb", tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: b"#!/bin/sh\nexit\n" + raw,
        lambda raw: raw + b"more",
        lambda raw: raw + raw,
        lambda raw: raw[:-2] + b"\4\0more",
    ],
    ids=["before", "behind", "twice", "comment"],
)
def test_bytes_that_belong_to_no_member_are_refused(
    sound: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "b.agentnb").write_bytes(change(sound.read_bytes()))
    refused(tmp_path / "b.agentnb", tmp_path / "out")


def test_a_byte_between_the_members_and_one_in_any_header_is_covered_too(sound: Path, tmp_path: Path) -> None:
    raw = sound.read_bytes()
    with zipfile.ZipFile(sound) as opened:
        infos = opened.infolist()
        directory = opened.start_dir
    heads = [at for info in infos for at in range(info.header_offset, info.header_offset + 50 + len(info.filename))]
    for at in [*heads[::7], *range(directory, len(raw), 11)]:
        bad = bytearray(raw)
        bad[at] ^= 0x40
        (tmp_path / "b.agentnb").write_bytes(bad)
        with pytest.raises(REFUSED):
            ArchiveStore(tmp_path / "b.agentnb")


def test_a_file_beyond_4_gb_has_the_directory_that_zipfile_reads(tmp_path: Path) -> None:
    """Its objects are a hole in the file, so it is quick."""
    far = 5 << 30
    members = [Member("README.txt", 0, 60, 5, 5, False, zlib.crc32(b"hello"))]
    members += [Member(OBJECTS, 65, 128, far, far, False, 7)]
    members += [Member(RECORDS, 128 + far, 191 + far, 1, 1, False, zlib.crc32(b"x"))]
    headers = [archive._header_of(member) for member in members]  # pyright: ignore[reportPrivateUsage]
    with (tmp_path / "b.agentnb").open("wb") as file:
        file.write(headers[0] + b"hello" + headers[1])
        file.seek(far, io.SEEK_CUR)
        file.write(headers[2] + b"x")
        file.write(archive._directory_of(members))  # pyright: ignore[reportPrivateUsage]
    with zipfile.ZipFile(tmp_path / "b.agentnb") as opened:
        assert [info.file_size for info in opened.infolist()] == [5, far, 1]
        assert opened.read(RECORDS) == b"x"
    with closing(Archive(tmp_path / "b.agentnb")) as found:
        assert found.read(RECORDS) == b"x"


# -- the manifest


def test_a_member_that_does_not_match_its_digest_is_refused(sound: Path, tmp_path: Path) -> None:
    for name in members_of(sound):
        if name != "manifest.json" and not name.startswith("store/"):
            bad = changed(sound, name, lambda content: content[:-1] + bytes([content[-1] ^ 1]))
            assert name in refused(bad, tmp_path / "out")


def test_members_that_the_manifest_does_not_name_and_names_without_members_are_refused(
    sound: Path, tmp_path: Path
) -> None:
    members = members_of(sound)
    refused(with_members(tmp_path / "more.agentnb", members | {"data/more.json": b"1"}), tmp_path / "out")
    refused(
        with_members(tmp_path / "less.agentnb", {k: v for k, v in members.items() if k != "data/a.npy"}),
        tmp_path / "out",
    )


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{", b"null", b'{"bundle": "1"}', b'{"bundle": true}', b'{"bundle": 0}', b'{"bundle": 1}', b"[" * 100_000, b"\xff\xfe",
     b'{"bundle": 1, "members": []}', b'{"bundle": 1e400}', b"NaN"],
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(sound: Path, tmp_path: Path, manifest: bytes) -> None:
    refused(changed(sound, "manifest.json", lambda _: manifest), tmp_path / "out")


def test_a_newer_bundle_says_that_it_is_newer(sound: Path, tmp_path: Path) -> None:
    def newer(content: bytes) -> bytes:
        return json.dumps(json.loads(content) | {"bundle": 99}).encode()

    assert "upgrade" in refused(changed(sound, "manifest.json", newer), tmp_path / "out")


def test_a_manifest_that_names_other_branches_than_the_history_is_refused(sound: Path, tmp_path: Path) -> None:
    def other(content: bytes) -> bytes:
        return json.dumps(json.loads(content) | {"branches": {"main": "0" * 64}}).encode()

    assert "branches" in refused(changed(sound, "manifest.json", other), tmp_path / "out")


# -- the store, by someone who seals what they change


Rows = list[tuple[bytes, bytes]]


def with_objects(sound: Path, path: Path, change: Callable[[Rows], Rows | None]) -> Path:
    members = members_of(sound)
    rows = [(key, members[OBJECTS][start : start + length]) for key, start, length in ROW.iter_unpack(members[INDEX])]
    rows = change(rows) or rows
    index, place = [], 0
    for key, stored in rows:
        index.append(ROW.pack(key, place, len(stored)))
        place += len(stored)
    members |= {OBJECTS: b"".join(stored for _, stored in rows), INDEX: b"".join(index)}
    return with_members(path, members, sealed=True)


def with_records(sound: Path, path: Path, change: Callable[[dict[bytes, bytes]], None]) -> Path:
    members = members_of(sound)
    records = dict(msgspec.msgpack.decode(members[RECORDS], type=list[tuple[bytes, bytes]]))
    change(records)
    return with_members(path, members | {RECORDS: msgspec.msgpack.encode(list(records.items()))}, sealed=True)


def test_a_bundle_that_is_sealed_again_without_a_change_opens(sound: Path, tmp_path: Path) -> None:
    opening.open_bundle(with_objects(sound, tmp_path / "b.agentnb", lambda rows: None), tmp_path)


def test_an_object_that_is_not_what_its_id_says_is_refused(sound: Path, tmp_path: Path) -> None:
    members = members_of(sound)
    count = len(members[INDEX]) // ROW.size
    for at in range(0, count, 3):

        def flip(rows: Rows, at: int = at) -> None:
            key, stored = rows[at]
            rows[at] = key, stored[:-1] + bytes([stored[-1] ^ 0x10])

        refused(with_objects(sound, tmp_path / "b.agentnb", flip), tmp_path / "out")


@pytest.mark.parametrize("kind", [Kind.COMMIT, Kind.TREE, Kind.CHUNK, Kind.SMALL])
def test_a_missing_object_is_refused(sound: Path, tmp_path: Path, kind: bytes) -> None:
    with opening.opened(sound) as bundle:
        unneeded = Kind.TREE + bundle.repo.tree(None).id  # the empty one, which no commit of it has

    def drop(rows: Rows) -> Rows:
        last = max(at for at, (key, _) in enumerate(rows) if key[:1] == kind and key != unneeded)
        return rows[:last] + rows[last + 1 :]

    refused(with_objects(sound, tmp_path / "b.agentnb", drop), tmp_path / "out")


def test_an_object_that_belongs_to_no_commit_is_refused(sound: Path, tmp_path: Path) -> None:
    def smuggle(rows: Rows) -> Rows:
        payload = b"smuggled"
        return sorted([*rows, (Kind.CHUNK + address(payload), b"\x01\x00" + payload)])

    assert "belong" in refused(with_objects(sound, tmp_path / "b.agentnb", smuggle), tmp_path / "out")


def test_an_object_that_unpacks_to_far_more_is_refused_before_memory_is_taken(sound: Path, tmp_path: Path) -> None:
    body = zstandard.ZstdCompressor().compress(bytes(200 << 20))

    def bomb(rows: Rows) -> Rows:
        return sorted([*rows, (Kind.SMALL + b"\0" * 32 + b"\1", b"\x01\x01" + body)])

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "unpack" in refused(with_objects(sound, tmp_path / "b.agentnb", bomb), tmp_path / "out")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize(
    "record",
    [b"x/secret", b"x/masked", b"k/main", b"a/run", b"g/main\0aaaaaaaa", b"h/session", b"w/run", b"c" + b"1" * 33],
)
def test_a_record_that_no_bundle_has_is_refused(sound: Path, tmp_path: Path, record: bytes) -> None:
    bad = with_records(sound, tmp_path / "b.agentnb", lambda records: records.update({record: b"\x92\x00\xc4\x01x"}))
    assert "record" in refused(bad, tmp_path / "out")


@pytest.mark.parametrize("name", [b"../../evil", b"a b", b"-x", b"", b"a..b", b"\xff", b"x.lock", b"a\x00b"])
def test_a_branch_whose_name_git_would_refuse_is_refused(sound: Path, tmp_path: Path, name: bytes) -> None:
    def rename(records: dict[bytes, bytes]) -> None:
        records[b"r/heads/" + name] = records[b"r/heads/main"]

    refused(with_records(sound, tmp_path / "b.agentnb", rename), tmp_path / "out")


def test_a_branch_that_leads_nowhere_and_a_head_that_is_elsewhere_are_refused(sound: Path, tmp_path: Path) -> None:
    def nowhere(records: dict[bytes, bytes]) -> None:
        records[b"r/heads/main"] = msgspec.msgpack.encode([0, b"\0" * 32 + b"\1"])

    def elsewhere(records: dict[bytes, bytes]) -> None:
        records[b"h/"] = msgspec.msgpack.encode([0, "other", b"\0" * 32 + b"\1", ""])

    def newer(records: dict[bytes, bytes]) -> None:
        records[b"x/format"] = msgspec.msgpack.encode([0, 99])

    for change in (nowhere, elsewhere, newer, dict.clear):
        refused(with_records(sound, tmp_path / "b.agentnb", change), tmp_path / "out")


def test_a_history_that_goes_in_a_circle_cannot_be_made(sound: Path) -> None:
    """A commit names its parents by digests of them, so a circle would need a digest that holds itself."""
    with closing(Repository.open(sound, create=False)) as repo:
        for _, commit in repo.log():
            assert all(
                isinstance(decode_commit(repo.objects.get(Kind.COMMIT, parent)).time_ns, int)
                for parent in commit.parents
            )


# -- a history that is whole, and not in its form


def rebuilt(sound: Path, path: Path, key: bytes, payload: bytes) -> Path:
    """The bundle with another object in the place of one, and all that names it changed with it, up to the branches."""
    members = members_of(sound)
    payloads = {
        found: unwrap(found, members[OBJECTS][start : start + length])
        for found, start, length in ROW.iter_unpack(members[INDEX])
    }
    records, manifest = members[RECORDS], members["manifest.json"]
    waiting = [(key, payload)]
    while waiting:
        old, changed_to = waiting.pop()
        new = old[:1] + address(changed_to)
        del payloads[old]
        payloads[new] = changed_to
        records = records.replace(old[1:], new[1:])
        manifest = manifest.replace(old[1:-1].hex().encode(), new[1:-1].hex().encode())
        waiting = [(at, to.replace(old[1:], new[1:])) for at, to in waiting]
        named = [at for at, found in payloads.items() if old[1:] in found]
        waiting += [(at, payloads[at].replace(old[1:], new[1:])) for at in named if at not in dict(waiting)]

    def all_of_them(_: Rows) -> Rows:
        return sorted((at, b"".join(map(bytes, wrap(ObjectId(at[1:]), found, compress=False, version=version_of(at[:1])))))
                      for at, found in payloads.items())  # fmt: skip

    with_members(path, members | {RECORDS: records, "manifest.json": manifest}, sealed=True)
    return with_objects(path, path, all_of_them)


def _tip(sound: Path) -> tuple[bytes, dict[str, Any]]:
    with closing(Repository.open(sound, create=False)) as repo:
        id = repo.branches()["main"]
        return Kind.COMMIT + id, msgspec.msgpack.decode(repo.objects.get(Kind.COMMIT, id))


def _with_commit(**fields: object) -> Callable[[Path], tuple[bytes, bytes]]:
    def change(sound: Path) -> tuple[bytes, bytes]:
        key, commit = _tip(sound)
        return key, msgspec.msgpack.encode(commit | fields)

    return change


def _with_environment(payload: bytes) -> Callable[[Path], tuple[bytes, bytes]]:
    return lambda sound: (Kind.SMALL + _tip(sound)[1]["e"], payload)


def _with_leaf(change: Callable[[list[str], list[bytes]], None]) -> Callable[[Path], tuple[bytes, bytes]]:
    def changed_leaf(sound: Path) -> tuple[bytes, bytes]:
        id = ObjectId(_tip(sound)[1]["t"])
        with closing(Repository.open(sound, create=False)) as repo:
            tag, names, rows = msgspec.msgpack.decode(repo.objects.get(Kind.TREE, id))
        change(names, rows)
        return Kind.TREE + id, msgspec.msgpack.encode([tag, names, rows])

    return changed_leaf


def _with_summary(rows: list[bytes], summary: bytes) -> None:
    at = max(range(len(rows)), key=lambda at: len(rows[at]))
    entry = msgspec.msgpack.decode(rows[at])
    rows[at] = msgspec.msgpack.encode([*entry[:4], summary, *entry[5:]])


FORMLESS = {
    "a change of no known kind": _with_commit(d=[["q", "X", 20]]),
    "a time beyond the calendar": _with_commit(n=-1),
    "an offset of a year": _with_commit(z=10**7),
    "a cell that took forever": _with_commit(c={"s": "x", "d": float("inf")}),
    "packages that are no texts": _with_environment(msgspec.msgpack.encode({"packages": [5]})),
    "an environment that is a list": _with_environment(b"\x91\x01"),
    "a summary that is no UTF-8": _with_leaf(lambda names, rows: _with_summary(rows, b"\x81\xa1k\xa2\xff\xff")),
    "a summary of another type": _with_leaf(lambda names, rows: _with_summary(rows, b"\x81\xa4kind\x05")),
    "a row that is no entry": _with_leaf(lambda names, rows: rows.__setitem__(0, b"\xc1")),
    "a row too few": _with_leaf(lambda names, rows: rows.__delitem__(0)),
    "names that are not in order": _with_leaf(lambda names, rows: names.reverse()),
}


@pytest.mark.parametrize("case", FORMLESS)
def test_a_whole_history_that_is_not_in_its_form_is_refused_and_breaks_no_command(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    bad = rebuilt(sound, tmp_path / "b.agentnb", *FORMLESS[case](sound))
    refused(bad, tmp_path / "out")
    for words in (["verify"], ["show"], ["log"], ["show", "HEAD"], ["diff", "HEAD~1"], ["reproduce"], ["status"],
                  ["notebook", "-o", tmp_path / "o.ipynb"], ["export", tmp_path / "o.html", "--html"]):  # fmt: skip
        status = main([str(words[0]), str(bad), *map(str, words[1:])])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        assert told.err.count("\n") <= 1
        assert status == 1 or words[0] not in ("verify", "show", "export", "reproduce") or "HEAD" in words


def test_a_history_that_is_rebuilt_without_a_change_opens(sound: Path, tmp_path: Path) -> None:
    key, commit = _tip(sound)
    opening.open_bundle(
        rebuilt(sound, tmp_path / "b.agentnb", key, msgspec.msgpack.encode(commit | {"m": "x"})), tmp_path
    )


def test_an_event_that_cannot_be_read_is_refused(sound: Path, tmp_path: Path) -> None:
    def smuggle(records: dict[bytes, bytes]) -> None:
        records[b"e/run\0\0\0\0\0\0\0\0\1"] = b"\x93\x01\xa5start\x05"

    assert "event" in refused(with_records(sound, tmp_path / "b.agentnb", smuggle), tmp_path / "out")


# -- a pickle that runs code


def test_a_pickle_that_would_run_code_is_never_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither where it is looked at nor where it is opened, loaded as plain data, or exported again."""
    ran = tmp_path / "ran"
    (tmp_path / "evil").mkdir()
    code = f"class Evil:\n    def __reduce__(self):\n        import os\n        return (os.mkdir, ({str(ran)!r},)) if armed else (Evil, ())\narmed = False"
    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_DATA_HOME", str(tmp_path / "their-data"))
        bundle = make_bundle(
            tmp_path / "evil",
            code,
            "e = [1, Evil()]",
            "import os, functools\nf = functools.partial(os.mkdir, 'x')\nn = 1",
        )
    made = opening.open_bundle(bundle, tmp_path)
    with closing(LoadingRepository.open(made.store, create=False)) as repo:
        snapshot = repo.at("HEAD")
        for name in ("e", "f", "Evil"):
            with pytest.raises(AgentKernelError, match="needs"):
                snapshot[name]
        assert snapshot["n"] == 1
    assert not ran.exists()
    assert capsys.readouterr().out == ""


# -- noise


def _noise(content: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    made = bytearray(content)
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.randrange(1, 8)):
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del made[rng.randrange(len(made)) :]
    elif kind == 2:
        at = rng.randrange(len(made))
        made[at:at] = rng.randbytes(rng.randrange(1, 64))
    elif kind == 3:
        at = rng.randrange(len(made))
        del made[at : at + rng.randrange(1, 64)]
    elif kind == 4:
        at = rng.randrange(len(made))
        made[at : at + 64] = rng.randbytes(64)
    else:
        one, other = sorted(rng.randrange(len(made)) for _ in range(2))
        made[one : one + 40], made[other : other + 40] = made[other : other + 40], made[one : one + 40]
    return bytes(made)


def _sealed_noise(sound: Path, path: Path, seed: int) -> Path:
    """Noise within one member, sealed again: the digests match, so what lies below has to hold."""
    rng = random.Random(seed)
    members = members_of(sound)
    name = rng.choice([OBJECTS, INDEX, RECORDS])
    members[name] = _noise(members[name], seed)
    return with_members(path, members, sealed=True)


def _opens_or_refuses(path: Path, sound: Path, folder: Path) -> None:
    folder.mkdir()
    began = time.perf_counter()
    why, store = "", Path()
    try:
        store = opening.open_bundle(path, folder).store
    except REFUSED as error:
        why = str(error)
    if why:
        assert "\n" not in why
        assert not list(folder.rglob("*"))
    else:  # it holds what it held: what changed says nothing
        with (
            closing(Repository.open(store, create=False)) as repo,
            closing(Repository.open(sound, create=False)) as whole,
        ):
            assert repo.verify().is_sound
            assert repo.branches() == whole.branches()
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_noise(sound: Path, tmp_path: Path, start: int) -> None:
    _go_through_noise(sound, tmp_path, range(start, start + 50))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_much_noise(sound: Path, tmp_path: Path, start: int) -> None:
    _go_through_noise(sound, tmp_path, range(start, start + 250))


def _go_through_noise(sound: Path, folder: Path, seeds: range) -> None:
    whole = sound.read_bytes()
    for seed in seeds:
        path = folder / f"{seed}.agentnb"
        if seed % 2:
            _sealed_noise(sound, path, seed)
        else:
            path.write_bytes(_noise(whole, seed))
        _opens_or_refuses(path, sound, folder / f"out{seed}")


# -- what happens meanwhile


def test_what_somebody_else_makes_meanwhile_is_left_alone(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = opening.copy_objects

    def and_write(*given: object) -> None:
        copied(*given)  # type: ignore[arg-type]
        (tmp_path / "out" / "study.ipynb").write_text("my own")

    monkeypatch.setattr(opening, "copy_objects", and_write)
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreUnavailableError, match="there already"):
        opening.open_bundle(sound, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["study.ipynb"]
    assert (tmp_path / "out" / "study.ipynb").read_text() == "my own"


def test_a_file_that_is_changed_after_it_was_verified_is_refused(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "study.agentnb"
    bundle.write_bytes(sound.read_bytes())
    verified = opening.verify

    def and_change(found: opening.OpenBundle, *rest: object) -> None:
        verified(found, *rest)  # type: ignore[arg-type]
        member = found.store.archive.members[OBJECTS]
        with bundle.open("r+b") as file:
            file.seek(member.start + member.size // 2)
            file.write(b"\xff" * 64)

    monkeypatch.setattr(opening, "verify", and_change)
    assert "in it" in refused(bundle, tmp_path / "out")


def test_a_file_that_is_cut_off_after_it_was_verified_is_refused(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "study.agentnb"
    bundle.write_bytes(sound.read_bytes())
    verified = opening.verify

    def and_cut(found: opening.OpenBundle, *rest: object) -> None:
        verified(found, *rest)  # type: ignore[arg-type]
        os.truncate(bundle, found.store.archive.members[OBJECTS].start + 1)

    monkeypatch.setattr(opening, "verify", and_cut)
    assert "cut off" in refused(bundle, tmp_path / "out")


def test_a_large_directory_is_found_in_either_record_of_the_zip(sound: Path, tmp_path: Path) -> None:
    content = bytearray(sound.read_bytes())
    at = content.rfind(b"PK\x05\x06")
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 600_000, 600_000, 100 << 20, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    (tmp_path / "b.agentnb").write_bytes(content[:at] + record + locator + content[at:])
    assert "600,000 members" in refused(tmp_path / "b.agentnb", tmp_path / "out")


def test_a_store_is_not_made_through_a_link(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".agent-kernel").symlink_to(tmp_path / "other", target_is_directory=True)
    with pytest.raises(StoreUnavailableError, match="link"):
        opening.open_bundle(sound, tmp_path / "out")
    assert not list((tmp_path / "other").iterdir())


# -- a process that is ended while it opens one


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that takes a while to open."""
    cells = ("import numpy as np", *(f"a{n} = np.random.default_rng({n}).random(2_000_000)" for n in range(4)))
    return make_bundle(tmp_path_factory.mktemp("large"), *cells)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_an_ended_process_left_goes_away(tmp_path: Path, large: Path, how: signal.Signals) -> None:
    """Of SIGTERM nothing is left; what SIGKILL leaves goes with the next bundle that is opened there."""
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "agent_kernel", "open", str(large), "--folder", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not list(out.glob(".agent-kernel/.opening-*/store/*")) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(how)
        _, said = process.communicate()
    assert process.returncode == (130 if how == signal.SIGTERM else -how), said
    assert "Traceback" not in said
    if how == signal.SIGTERM:
        assert not list(out.iterdir())
    else:
        assert list(out.glob(".agent-kernel/.opening-*"))
    opening.open_bundle(large, out)
    assert [path.name for path in (out / ".agent-kernel").iterdir()] == ["study"]


def test_what_a_living_process_makes_is_left_alone_and_what_has_its_number_is_not(sound: Path, tmp_path: Path) -> None:
    hidden = tmp_path / ".agent-kernel"
    here = Holder.of_this_process()
    for name, maker in (("living", here), ("reused", msgspec.structs.replace(here, started="0"))):
        (hidden / f".opening-{os.getpid()}-00000000-{name}").mkdir(parents=True)
        (hidden / f".opening-{os.getpid()}-00000000-{name}" / "maker").write_bytes(msgspec.msgpack.encode(maker))
    (hidden / ".opening-4194305-00000000-study").mkdir()  # no system counts so far
    opening.open_bundle(sound, tmp_path)
    left = sorted(path.name for path in hidden.iterdir())
    assert left == [f".opening-{os.getpid()}-00000000-living", "study"]
