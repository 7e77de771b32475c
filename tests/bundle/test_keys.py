"""Keys: a bundle says who made it, a person says whose bundles they trust, and can take that back."""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent_kernel.bundle import keys, opening
from agent_kernel.cli import main
from agent_kernel.errors import (
    BundleError,
    MissingExtraError,
    SigningKeyError,
    StoreReadOnlyError,
    UntrustedStoreError,
)
from agent_kernel.session import Repository, trust
from tests.bundle.bundles import members_of, with_members
from tests.support.notebooks import Notebook

NAME = "Ada Lovelace"


class Person:
    """Somebody with a data directory of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.keys = home / "agent-kernel" / "keys"

    @contextlib.contextmanager
    def here(self) -> Generator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_DATA_HOME", str(self.home))
            yield

    def run(self, *words: object) -> int:
        with self.here():
            return main([str(word) for word in words])


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    """Somebody who has a key."""
    return with_key(tmp_path)


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person(tmp_path / "bob")


@pytest.fixture
def store(ada: Person, tmp_path: Path) -> Path:
    """Where Ada works."""
    return work_of(ada, tmp_path)


@pytest.fixture
def signed(ada: Person, store: Path, tmp_path: Path) -> Path:
    """A bundle that Ada signed."""
    return export(ada, store, tmp_path / "study.agentnb")


def with_key(folder: Path) -> Person:
    found = Person(folder / "ada")
    assert found.run("key", "new", "--name", NAME) == 0
    return found


def work_of(person: Person, folder: Path) -> Path:
    with person.here(), Repository.open(folder / "store") as repo, Notebook(repo) as nb:
        nb.run("x = [1, 2, 3]")
    return folder / "store"


def export(person: Person, store: Path, path: Path, *options: str) -> Path:
    assert person.run("export", store, path, *options) == 0
    return path


def own_key(person: Person) -> keys.Key:
    with person.here():
        return keys.list_keys()[0]


def line_of(person: Person) -> str:
    return keys.key_line(own_key(person))


def changed(path: Path, members: dict[str, bytes | None]) -> Path:
    """A copy of a bundle in which some members are other ones, or missing."""
    found = {**members_of(path), **members}
    whole = {name: content for name, content in found.items() if content is not None}
    return with_members(path.with_name("changed.agentnb"), whole)


def with_signature(path: Path, **fields: object) -> Path:
    """A copy of a bundle whose signature says something else; None leaves a field out."""
    said: dict[str, object] = json.loads(members_of(path)["signature.json"]) | fields
    text = json.dumps({name: value for name, value in said.items() if value is not None})
    return changed(path, {"signature.json": text.encode()})


def verify(path: Path) -> None:
    with opening.opened(path) as bundle:
        opening.verify(bundle)


def describe(path: Path) -> tuple[str, ...]:
    with opening.opened(path) as bundle:
        return keys.describe(bundle.store)


def open_in(folder: Path, path: Path) -> opening.Opened:
    folder.mkdir()
    return opening.open_bundle(path, folder)


# -- round trip


def test_a_bundle_says_who_signed_it(ada: Person, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ada.run("verify", signed) == 0
    fingerprint = own_key(ada).fingerprint
    assert f"Signed by you ({fingerprint}), with a key that you trust" in capsys.readouterr().out
    assert json.loads(members_of(signed)["signature.json"])["name"] == NAME
    assert "signature.json" not in json.loads(members_of(signed)["manifest.json"])["members"]


def test_the_same_state_and_the_same_key_give_the_same_bytes(
    ada: Person, store: Path, signed: Path, tmp_path: Path
) -> None:
    assert export(ada, store, tmp_path / "again.agentnb").read_bytes() == signed.read_bytes()


def test_who_has_no_key_signs_nothing_unless_they_ask_for_it(
    bob: Person, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = export(bob, store, tmp_path / "plain.agentnb")
    assert "signature.json" not in members_of(plain)
    verify(plain)
    assert describe(plain) == ("Not signed",)
    capsys.readouterr()
    assert bob.run("export", store, tmp_path / "other.agentnb", "--sign") == 1
    assert "agent-kernel key new makes one" in capsys.readouterr().err
    assert not (tmp_path / "other.agentnb").exists()


def test_who_has_a_key_can_leave_a_bundle_unsigned(ada: Person, store: Path, signed: Path, tmp_path: Path) -> None:
    plain = export(ada, store, tmp_path / "plain.agentnb", "--no-sign")
    assert "signature.json" not in members_of(plain)
    assert members_of(plain)["manifest.json"] == members_of(signed)["manifest.json"]


def test_an_export_says_in_whose_name_it_is_signed(
    ada: Person, store: Path, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert ada.run("export", store, tmp_path / "b.agentnb", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["signed_by"] == {"name": NAME, "key": own_key(ada).fingerprint}
    assert ada.run("export", store, tmp_path / "c.agentnb", "--dry-run") == 0
    assert f"Would be signed with your key ({own_key(ada).fingerprint}), as {NAME}" in capsys.readouterr().out


# -- whose bundles are trusted


def test_an_unknown_key_is_told_of_and_not_trusted(bob: Person, ada: Person, signed: Path, tmp_path: Path) -> None:
    with bob.here():
        opened = open_in(tmp_path / "here", signed)
        assert not opened.is_trusted
        fingerprint = own_key(ada).fingerprint
        with bob.here():
            assert describe(signed) == (
                f"Signed in the name of {NAME} ({fingerprint}), with a key that you have not trusted",
            )
        with Repository.open(opened.store, create=False) as repo, pytest.raises(UntrustedStoreError):
            trust.require(repo)


@pytest.mark.parametrize("by", ["line", "words", "bundle", "name"])
def test_what_a_trusted_key_signed_is_opened_without_asking(
    by: str, bob: Person, ada: Person, signed: Path, tmp_path: Path
) -> None:
    line = line_of(ada)
    given: dict[str, list[str]] = {
        "line": [line],
        "words": line.split(),
        "bundle": [str(signed)],
        "name": [line, "--name", "Ada"],
    }
    assert bob.run("key", "trust", *given[by]) == 0
    with bob.here():
        opened = open_in(tmp_path / "here", signed)
        assert opened.is_trusted
        assert opened.signature.is_trusted
        with Repository.open(opened.store, create=False) as repo:
            assert repo.at("main")["x"] == [1, 2, 3]
            trust.require(repo)


def test_what_a_trusted_key_signed_is_imported_without_asking(
    bob: Person, ada: Person, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bob.here(), Repository.open(tmp_path / "bobs") as repo, Notebook(repo) as nb:
        nb.run("y = 1")
    assert bob.run("import", tmp_path / "bobs", signed) == 2
    assert bob.run("key", "trust", line_of(ada)) == 0
    capsys.readouterr()
    assert bob.run("import", tmp_path / "bobs", signed, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["signed"]["trusted"] is True
    assert told["branches"] == {"main": "main-2"}


def test_open_says_who_signed(
    bob: Person, ada: Person, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bob.run("key", "trust", line_of(ada), "--name", "Ada")
    capsys.readouterr()
    assert bob.run("open", signed, "--folder", tmp_path, "--as", "one") == 0
    said = f"Signed by Ada ({own_key(ada).fingerprint}), in the name of {NAME}, with a key that you trust"
    assert said in capsys.readouterr().out
    assert bob.run("open", signed, "--folder", tmp_path, "--as", "two", "--json") == 0
    assert json.loads(capsys.readouterr().out)["signed"] == {
        "signature": "valid",
        "name": "Ada",
        "key": own_key(ada).fingerprint,
        "trusted": True,
        "reason": None,
    }


def test_ones_own_bundles_need_no_asking(ada: Person, signed: Path, tmp_path: Path) -> None:
    with ada.here():
        assert open_in(tmp_path / "here", signed).is_trusted


# -- revoking


def test_a_revoked_key_is_told_of_and_no_longer_trusted(
    bob: Person, ada: Person, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bob.run("key", "trust", line_of(ada))
    with bob.here():
        before = open_in(tmp_path / "before", signed)
    capsys.readouterr()
    assert bob.run("key", "revoke", NAME) == 0
    assert "agent-kernel trust NOTEBOOK --revoke" in capsys.readouterr().out
    with bob.here():
        after = open_in(tmp_path / "after", signed)
        assert not after.is_trusted
        (said,) = keys.describe_check(after.signature)
        assert said.startswith(f"Signed by {NAME}")
        assert said.endswith("a key whose trust you revoked")
        with Repository.open(before.store, create=False) as repo:
            assert trust.is_trusted(repo), "it is a store of its own"
    assert bob.run("trust", before.notebook, "--revoke") == 0
    with bob.here(), Repository.open(before.store, create=False) as repo:
        assert not trust.is_trusted(repo)


def test_a_revoked_key_can_be_trusted_again_by_its_fingerprint(bob: Person, ada: Person) -> None:
    bob.run("key", "trust", line_of(ada))
    bob.run("key", "revoke", own_key(ada).fingerprint[:8])
    assert not own_key(bob).is_trusted
    assert bob.run("key", "trust", own_key(ada).fingerprint) == 0
    assert own_key(bob).is_trusted
    assert own_key(bob).name == own_key(ada).name


def test_ones_own_key_that_is_revoked_signs_nothing(
    ada: Person, store: Path, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ada.run("key", "revoke", NAME) == 0
    capsys.readouterr()
    plain = export(ada, store, tmp_path / "plain.agentnb")
    assert "Not signed: your key: you revoked it; agent-kernel key new --replace" in capsys.readouterr().out
    assert "signature.json" not in members_of(plain)
    assert ada.run("export", store, tmp_path / "other.agentnb", "--sign") == 1
    with ada.here():
        assert not open_in(tmp_path / "here", signed).is_trusted


@pytest.mark.parametrize("revoked", [False, True])
def test_a_key_that_is_replaced_stays_known(revoked: bool, ada: Person, signed: Path) -> None:
    old = own_key(ada)
    if revoked:
        ada.run("key", "revoke", NAME)
    assert ada.run("key", "new") == 1, "there is one"
    assert own_key(ada).public == old.public
    for _ in range(2):
        assert ada.run("key", "new", "--name", NAME, "--replace") == 0
    with ada.here():
        new, second, first = keys.list_keys()
        assert (new.name, first.public, first.name) == (NAME, old.public, f"{NAME} (earlier)")
        assert second.name == f"{NAME} (earlier 2)"
        assert first.is_trusted is not revoked
        with opening.opened(signed) as bundle:
            assert keys.check(bundle.store).is_trusted is not revoked


def test_a_key_that_nobody_knows_cannot_be_revoked(bob: Person, capsys: pytest.CaptureFixture[str]) -> None:
    assert bob.run("key", "revoke", "Mallory") == 1
    assert "you know no key of this name or fingerprint (known: none)" in capsys.readouterr().err


def test_another_key_cannot_take_a_known_name(bob: Person, ada: Person, tmp_path: Path) -> None:
    mallory = Person(tmp_path / "mallory")
    mallory.run("key", "new", "--name", NAME.upper())
    bob.run("key", "trust", line_of(ada))
    assert bob.run("key", "trust", line_of(mallory)) == 1
    assert bob.run("key", "trust", line_of(mallory), "--name", "Mallory") == 0
    assert bob.run("key", "new", "--name", NAME) == 1
    with bob.here():
        assert [key.name for key in keys.list_keys()] == [NAME, "Mallory"]


# -- what somebody changed on the way


def flipped(text: str) -> str:
    """Other base64 of the same length."""
    raw = bytearray(base64.b64decode(text))
    raw[0] ^= 1
    return base64.b64encode(raw).decode()


def signature_of(path: Path, field: str) -> Any:
    return json.loads(members_of(path)["signature.json"])[field]


def _other_manifest(path: Path) -> Path:
    manifest = json.loads(members_of(path)["manifest.json"])
    return changed(path, {"manifest.json": json.dumps(manifest | {"notebook": "other"}).encode()})


def _other_key(path: Path) -> Path:
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    return with_signature(path, key=base64.b64encode(other).decode())


CHANGED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "manifest": (_other_manifest, "does not fit it"),
    "signature": (
        lambda path: with_signature(path, signature=flipped(signature_of(path, "signature"))),
        "does not fit it",
    ),
    "name": (lambda path: with_signature(path, name="Bob"), "does not fit it"),
    "key": (_other_key, "does not fit it"),
    "no point of the curve": (
        lambda path: with_signature(path, key=base64.b64encode(b"\x02" + bytes(31)).decode()),
        "does not fit it",
    ),
    "cut base64": (
        lambda path: with_signature(path, signature=signature_of(path, "signature")[:-3]),
        "base64 of the signature is damaged or cut off",
    ),
    "short base64": (
        lambda path: with_signature(path, key=base64.b64encode(bytes(31)).decode()),
        "the key has 31 bytes, and must have 32",
    ),
    "second spelling of base64": (
        lambda path: with_signature(path, key=signature_of(path, "key")[:-2] + "B="),
        "in base64 as usual",
    ),
    "base64 with spaces": (
        lambda path: with_signature(path, key=" " + signature_of(path, "key")),
        "base64 of the key is damaged",
    ),
    "key of another kind": (lambda path: with_signature(path, key=3), "the key is not text"),
    "other algorithm": (lambda path: with_signature(path, algorithm="rsa"), "its algorithm is not ed25519"),
    "none as algorithm": (lambda path: with_signature(path, algorithm="none"), "its algorithm is not ed25519"),
    "newer format": (lambda path: with_signature(path, version=2), "has format 2, which a newer release"),
    "no format": (lambda path: with_signature(path, version=None), "does not say which format"),
    "true as format": (lambda path: with_signature(path, version=True), "does not say which format"),
    "further field": (lambda path: with_signature(path, more=1), "and nothing else"),
    "missing field": (lambda path: with_signature(path, name=None), "and nothing else"),
    "field twice": (
        lambda path: changed(
            path, {"signature.json": b'{"name": "Bob", ' + members_of(path)["signature.json"].lstrip()[1:]}
        ),
        "says something twice",
    ),
    "no JSON": (lambda path: changed(path, {"signature.json": b"\xff\xfe"}), "it is not JSON"),
    "empty": (lambda path: changed(path, {"signature.json": b""}), "it is not JSON"),
    "a list": (lambda path: changed(path, {"signature.json": b"[]"}), "does not say which format"),
    "deeply nested": (lambda path: changed(path, {"signature.json": b"[" * 4000}), "cannot be read"),
    "control characters": (lambda path: with_signature(path, name="Ada\x1b[2J"), "cannot be shown"),
    "text turned around": (lambda path: with_signature(path, name="Ada\u202egnp"), "cannot be shown"),
    "two lines": (lambda path: with_signature(path, name="Ada\nSigned by you"), "cannot be shown"),
    "half a character": (lambda path: with_signature(path, name="\ud800"), "cannot be shown"),
    "empty name": (lambda path: with_signature(path, name=""), "the name has 0 characters"),
    "name like a fingerprint": (lambda path: with_signature(path, name="deadbeef"), "looks like a fingerprint"),
    "long name": (lambda path: with_signature(path, name="A" * 101), "the name has 101 characters"),
    "name of 10 MB": (lambda path: with_signature(path, name="A" * 10_000_000), "at most 4,096 are read"),
}


@pytest.fixture(scope="module")
def signed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that Ada signed, for tests that change a copy of it."""
    folder = tmp_path_factory.mktemp("signed")
    ada = with_key(folder)
    return export(ada, work_of(ada, folder), folder / "study.agentnb")


@pytest.mark.sampled
@pytest.mark.parametrize("what", CHANGED)
def test_a_signature_that_was_changed_is_wrong(what: str, bob: Person, signed_once: Path, tmp_path: Path) -> None:
    change, reason = CHANGED[what]
    signed = Path(shutil.copy(signed_once, tmp_path))
    bob.run("key", "trust", signed)
    other = change(signed)
    with bob.here():
        with pytest.raises(BundleError) as caught:
            verify(other)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        (line,) = describe(other)
        assert line.startswith("The signature is wrong: ")
        assert line.isprintable()
        with pytest.raises(BundleError):
            open_in(tmp_path / "here", other)
        assert not any((tmp_path / "here").iterdir())
        with Repository.open("memory:") as repo, pytest.raises(BundleError):
            opening.import_bundle(other, repo)
    assert bob.run("verify", other) == 1
    assert bob.run("key", "trust", other) == 1


def test_the_signature_of_another_bundle_does_not_fit(ada: Person, store: Path, signed: Path, tmp_path: Path) -> None:
    with ada.here(), Repository.open(store) as repo, Notebook(repo) as nb:
        nb.run("x = 'another state'")
    other = export(ada, store, tmp_path / "other.agentnb")
    copied = changed(other, {"signature.json": members_of(signed)["signature.json"]})
    with ada.here(), pytest.raises(BundleError, match="does not fit it"):
        verify(copied)


def test_a_member_that_was_changed_is_found_under_a_valid_signature(bob: Person, signed: Path, tmp_path: Path) -> None:
    objects = bytearray(members_of(signed)["store/objects"])
    objects[-1] ^= 1
    other = changed(signed, {"store/objects": bytes(objects)})
    bob.run("key", "trust", signed)
    with bob.here(), pytest.raises(BundleError, match="does not match its digest"):
        open_in(tmp_path / "here", other)


def test_a_bundle_whose_signature_was_taken_off_is_not_signed(bob: Person, signed: Path, tmp_path: Path) -> None:
    bob.run("key", "trust", signed)
    bare = changed(signed, {"signature.json": None})
    with bob.here():
        verify(bare)
        assert describe(bare) == ("Not signed",)
        assert not open_in(tmp_path / "here", bare).is_trusted
    assert bob.run("key", "trust", bare) == 1


# -- lines that people send


@pytest.mark.parametrize(
    "line",
    [
        "agent-kernel-ed25519",
        "agent-kernel-ed25519 AAAA Ada",
        "agent-kernel-ed25519 !!!! Ada",
        f"agent-kernel-ed25519 {base64.b64encode(bytes(32)).decode()} Ada\x1b[2J",
        f"agent-kernel-ed25519 {base64.b64encode(bytes(32)).decode()} {'A' * 5000}",
    ],
    ids=["cut off", "short", "no base64", "control characters", "long"],
)
def test_a_line_that_is_no_key_is_refused(line: str, bob: Person, capsys: pytest.CaptureFixture[str]) -> None:
    assert bob.run("key", "trust", line) == 1
    said = capsys.readouterr().err.rstrip("\n")
    assert said.isprintable()
    assert "the key line" in said
    with bob.here():
        assert keys.list_keys() == []


def test_a_line_without_a_name_asks_for_one(bob: Person, ada: Person) -> None:
    bare = " ".join(line_of(ada).split()[:2])
    assert bob.run("key", "trust", bare) == 2
    assert bob.run("key", "trust", bare, "--name", "Ada") == 0
    assert own_key(bob).name == "Ada"


def test_what_show_prints_is_what_trust_takes(ada: Person, bob: Person, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert ada.run("key", "show") == 0
    assert bob.run("key", "trust", capsys.readouterr().out) == 0
    assert own_key(bob).public == own_key(ada).public


def test_the_list_says_whose_keys_are_trusted(ada: Person, bob: Person, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    bob.run("key")
    assert "agent-kernel key new makes one" in capsys.readouterr().out
    bob.run("key", "new", "--name", "Bob")
    bob.run("key", "trust", line_of(ada))
    bob.run("key", "revoke", NAME)
    capsys.readouterr()
    assert bob.run("key") == 0
    said = capsys.readouterr().out
    assert f"Bob           {own_key(bob).fingerprint}  yours, trusted" in said
    assert f"{NAME}  {own_key(ada).fingerprint}  revoked" in said
    bob.run("key", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [(key["name"], key["own"], key["trusted"]) for key in told["keys"]] == [
        ("Bob", True, True),
        (NAME, False, False),
    ]


# -- without cryptography


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Take cryptography away, once the test has what it needs."""

    def take_away() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "cryptography", None)

    return take_away


def test_without_cryptography_a_signature_is_told_of_and_not_believed(
    bare: Callable[[], None], bob: Person, ada: Person, signed: Path, tmp_path: Path
) -> None:
    bob.run("key", "trust", line_of(ada))
    bare()
    with bob.here():
        verify(signed)
        (line,) = describe(signed)
        assert line.startswith(f"Signed in the name of {NAME}")
        assert 'not checked here: cryptography is not installed; pip install "agent-kernel[sign]"' in line
        assert not open_in(tmp_path / "here", signed).is_trusted
        with pytest.raises(BundleError, match="base64 of the signature"):
            verify(with_signature(signed, signature="AA"))
    assert bob.run("key", "trust", signed) == 1
    assert bob.run("key", "revoke", NAME) == 0


def test_without_cryptography_nothing_is_signed(
    bare: Callable[[], None],
    ada: Person,
    store: Path,
    signed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare()
    capsys.readouterr()
    assert "signature.json" not in members_of(export(ada, store, tmp_path / "plain.agentnb"))
    assert "Not signed: cryptography is not installed" in capsys.readouterr().out
    assert ada.run("export", store, tmp_path / "other.agentnb", "--sign") == 1
    assert 'pip install "agent-kernel[sign]"' in capsys.readouterr().err
    with ada.here(), pytest.raises(MissingExtraError):
        keys.make_key("Ada", replace=True)
    assert ada.run("key") == 0, "looking at keys takes no cryptography"


def test_no_command_loads_cryptography_unless_it_needs_it(bare: Callable[[], None]) -> None:
    bare()
    importlib.reload(keys)
    importlib.reload(opening)


# -- the files


def test_only_you_can_read_your_key(ada: Person) -> None:
    assert stat.S_IMODE((ada.keys / "own.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(ada.keys.stat().st_mode) == 0o700
    assert sorted(path.name for path in ada.keys.iterdir()) == ["known.json.lock", "own.json"]


def test_a_key_that_others_can_read_signs_nothing(
    ada: Person, store: Path, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ada.keys / "own.json").chmod(0o644)
    capsys.readouterr()
    assert ada.run("export", store, tmp_path / "b.agentnb", "--sign") == 1
    assert "others can read or write it (mode 0644); chmod 600 keeps them out" in capsys.readouterr().err
    export(ada, store, tmp_path / "c.agentnb")
    assert "Not signed" in capsys.readouterr().out


def test_no_listing_shows_the_private_key(ada: Person, capsys: pytest.CaptureFixture[str]) -> None:
    private = json.loads((ada.keys / "own.json").read_bytes())["private"]
    for words in (["key"], ["key", "--json"], ["key", "show", "--json"]):
        ada.run(*words)
    said = capsys.readouterr()
    assert private not in said.out + said.err
    with ada.here():
        assert private not in repr(keys.load_signer())


DAMAGE = [
    b"",
    b"{",
    b"\xff",
    b"[]",
    b"{}",
    b'{"version": 1, "keys": [{"key": "AA", "name": "x", "trusted": true}]}',
    b"[" * 9999,
]


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_a_list_of_keys_that_is_damaged_trusts_nobody_and_stays_as_it_is(
    content: bytes, bob: Person, ada: Person, signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bob.run("key", "trust", line_of(ada))
    (bob.keys / "known.json").write_bytes(content)
    with bob.here():
        opened = open_in(tmp_path / "here", signed)
        assert not opened.is_trusted
        assert any("known.json: it is damaged" in line for line in keys.describe_check(opened.signature))
    for words in (["key"], ["key", "trust", line_of(ada)], ["key", "revoke", NAME]):
        capsys.readouterr()
        assert bob.run(*words) == 1
        assert "known.json: it is damaged" in capsys.readouterr().err
    assert (bob.keys / "known.json").read_bytes() == content


def test_a_list_that_a_newer_release_wrote_stays_as_it_is(bob: Person, ada: Person) -> None:
    bob.run("key", "trust", line_of(ada))
    newer = b'{"version": 2, "keys": []}'
    (bob.keys / "known.json").write_bytes(newer)
    assert bob.run("key", "revoke", NAME) == 1
    assert (bob.keys / "known.json").read_bytes() == newer


@pytest.mark.parametrize("content", [b"", b'{"version": 1, "name": "Ada", "public": "AA", "private": "AA"}'])
def test_a_damaged_key_of_ones_own_signs_nothing_and_leaves_trust_in_others(
    content: bytes, ada: Person, bob: Person, store: Path, signed: Path, tmp_path: Path
) -> None:
    bob.run("key", "new", "--name", "Bob")
    bob.run("key", "trust", line_of(ada))
    (bob.keys / "own.json").write_bytes(content)
    with bob.here():
        assert open_in(tmp_path / "here", signed).is_trusted
        with pytest.raises(SigningKeyError, match=r"own.json: it is damaged"):
            keys.load_signer()
    assert bob.run("key", "show") == 2
    assert bob.run("key", "revoke", NAME) == 0
    assert bob.run("key", "new", "--name", "Bob") == 1
    assert bob.run("key", "new", "--name", "Bob", "--replace") == 0
    assert own_key(bob).name == "Bob"


def test_two_halves_that_do_not_belong_together_sign_nothing(ada: Person) -> None:
    said = json.loads((ada.keys / "own.json").read_bytes())
    said["private"] = base64.b64encode(bytes(32)).decode()
    (ada.keys / "own.json").write_text(json.dumps(said))
    with ada.here(), pytest.raises(SigningKeyError, match="two halves"):
        keys.load_signer()


def test_a_file_that_never_ends_is_not_read(bob: Person, ada: Person) -> None:
    bob.run("key", "trust", line_of(ada))
    (bob.keys / "known.json").unlink()
    (bob.keys / "known.json").symlink_to("/dev/zero")
    with bob.here(), pytest.raises(SigningKeyError, match="not a regular file"):
        keys.list_keys()


def test_a_home_that_cannot_be_written_is_told_of(bob: Person, ada: Person, signed: Path, tmp_path: Path) -> None:
    bob.home.write_text("no folder can be made below a file, not even by root")
    with bob.here():
        verify(signed)
        assert not open_in(tmp_path / "here", signed).is_trusted
        public, name = keys.read_key_line(line_of(ada))
        with pytest.raises(StoreReadOnlyError):
            keys.make_key("Bob")
        with pytest.raises(StoreReadOnlyError):
            keys.trust_key(public, name)
    assert bob.run("key") == 0
    assert bob.run("key", "trust", line_of(ada)) == 1


_TRUSTS = """
import sys
from agent_kernel.bundle import keys
number = int(sys.argv[1])
for other in range(10):
    keys.trust_key(bytes([number, other]) + bytes(30), f"person {number}-{other}")
"""


def test_keys_that_several_processes_trust_at_once_are_all_kept(bob: Person) -> None:
    with bob.here():
        running = [subprocess.Popen([sys.executable, "-c", _TRUSTS, str(number)]) for number in range(4)]
        assert [process.wait(60) for process in running] == [0] * 4
        assert len(keys.list_keys()) == 40
