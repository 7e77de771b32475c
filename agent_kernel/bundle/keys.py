"""Who made a bundle: signatures with Ed25519, your own key, and the keys of others that you trust.

A signature is a member of the bundle beside its manifest, `signature.json`. It covers the bytes of the manifest, which holds
the digests of all else, and the name by which the signer goes. The name is a claim: what you trust is a key, and you say
what its owner is called here.

Your key lies in your data directory, in `keys/own.json`, which only you can read; what you know of others in
`keys/known.json`. A key that you revoked stays there, so that it is told of and not taken for a new one.

Source: the key line and the permissions are those of OpenSSH; the prefix of what is signed follows age and minisign.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

import msgspec

from agent_kernel.errors import BundleError, MissingExtraError, SigningKeyError, StoreReadOnlyError
from agent_kernel.session.trust import exclusive, user_folder, write_whole
from agent_kernel.storage.archive import SIGNATURE
from agent_kernel.text import clean

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from agent_kernel.storage.archive import ArchiveStore

_ALGORITHM: Final = "ed25519"
_VERSION: Final = 1
_PREFIX: Final = b"agent-kernel bundle signature 1\0"
_LINE: Final = "agent-kernel-ed25519"
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_FINGERPRINT: Final = 32  # hex digits: enough that nobody makes a second key that has them
_LEAST_PREFIX: Final = 8  # of them that name a key
_MOST_NAME: Final = 100  # characters
_MOST_SIGNATURE: Final = 4096  # bytes of `signature.json`
_MOST_FILE: Final = 1 << 20  # bytes of a file of keys
_FIELDS: Final = frozenset({"version", "algorithm", "key", "name", "signature"})
_HEX: Final = re.compile(r"[0-9a-f]+")


class Key(msgspec.Struct, frozen=True):
    """A public key, what its owner is called here, and whether bundles that it signed are trusted."""

    public: bytes
    name: str
    is_trusted: bool
    is_own: bool = False

    @property
    def fingerprint(self) -> str:
        """What two people compare: the first half of the SHA-256 of the key, in hex."""
        return fingerprint_of(self.public)


def fingerprint_of(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:_FINGERPRINT]


# -- texts from elsewhere
#
# What is wrong with them is a ValueError here; whoever asked for them says of what file it is.


def check_name(name: str) -> str:
    """Return a name by which a signer can go.

    Raises:
        ValueError: it is empty or long, would move a terminal's cursor, or looks like a fingerprint.
    """
    if not name or len(name) > _MOST_NAME:
        raise ValueError(f"the name has {len(name):,} characters, and must have 1 to {_MOST_NAME}")
    if not name.isprintable() or name != name.strip():
        raise ValueError("the name holds characters that cannot be shown, or begins or ends with a space")
    if len(name) >= _LEAST_PREFIX and _HEX.fullmatch(name.casefold()):
        raise ValueError("the name looks like a fingerprint")
    return name


def _decode(text: object, size: int, what: str) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"the {what} is not text")
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise ValueError(f"the base64 of the {what} is damaged or cut off") from None
    if len(raw) != size or base64.b64encode(raw).decode() != text:
        raise ValueError(f"the {what} has {len(raw)} bytes, and must have {size}, in base64 as usual")
    return raw


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def key_line(key: Key) -> str:
    """A public key in one line, to send to somebody."""
    return f"{_LINE} {_encode(key.public)} {key.name}"


def is_key_line(text: str) -> bool:
    return text.split(maxsplit=1)[:1] == [_LINE]


def read_key_line(text: str) -> tuple[bytes, str]:
    """The public key of a line that `key show` printed, and the name by which its owner goes; "" if it has none.

    Raises:
        SigningKeyError: it is not such a line.
    """
    parts = text[: _MOST_SIGNATURE + 1].split(None, 2)
    try:
        if len(text) > _MOST_SIGNATURE:
            raise ValueError("it is too long")
        if len(parts) < 2 or parts[0] != _LINE:
            raise ValueError(f"it must be {_LINE}, the key in base64 and a name")
        public = _decode(parts[1], _KEY_BYTES, "key")
        name = check_name(parts[2].rstrip()) if len(parts) > 2 else ""
    except ValueError as error:
        raise SigningKeyError("the key line", str(error)) from None
    return public, name


# -- what a bundle says of who made it


class _Signature(msgspec.Struct, frozen=True):
    public: bytes
    name: str
    signature: bytes


def _read_signature(store: ArchiveStore) -> _Signature | None:
    """The signature of a bundle, which may be wrong; None where it has none.

    Raises:
        BundleError: what it says cannot be read.
    """
    archive = store.archive
    if SIGNATURE not in archive.members:
        return None
    raw = archive.read(SIGNATURE, _MOST_SIGNATURE)
    try:
        return _parse_signature(raw)
    except (ValueError, RecursionError) as error:
        raise archive.refuse(f"its signature cannot be read: {error}") from error


def _parse_signature(raw: bytes) -> _Signature:
    try:
        found: object = json.loads(raw.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it is not JSON ({error})") from None
    fields = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError("it does not say which format it has")
    if version > _VERSION:
        raise ValueError(f"it has format {version}, which a newer release of agent-kernel reads")
    if fields.get("algorithm") != _ALGORITHM:
        raise ValueError(f"its algorithm is not {_ALGORITHM}")
    if fields.keys() != _FIELDS:
        raise ValueError(f"it must have {', '.join(sorted(_FIELDS))}, and nothing else")
    name = fields["name"]
    if not isinstance(name, str):
        raise ValueError("the name is not text")
    return _Signature(
        _decode(fields["key"], _KEY_BYTES, "key"),
        check_name(name),
        _decode(fields["signature"], _SIGNATURE_BYTES, "signature"),
    )


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("it says something twice")
    return dict(pairs)


def _signed_bytes(public: bytes, name: str, manifest: bytes) -> bytes:
    # The length before the name: no part of a name can be taken for a part of a manifest.
    encoded = name.encode()
    return b"".join([_PREFIX, public, len(encoded).to_bytes(4, "big"), encoded, manifest])


class Check(msgspec.Struct, frozen=True):
    """What became of checking a bundle's signature."""

    state: Literal["unsigned", "valid", "unchecked", "wrong"]
    reason: str = ""  # why it is wrong, or was not checked
    name: str = ""  # by which the signer goes: a claim
    public: bytes = b""
    known: Key | None = None  # what this user knows of the key
    problem: str = ""  # why it cannot be said what this user knows of it

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.public) if self.public else ""

    @property
    def is_trusted(self) -> bool:
        """Whether it was signed with a key that this user trusts."""
        return self.state == "valid" and self.known is not None and self.known.is_trusted

    def to_json(self) -> dict[str, str | bool | None]:
        """For programs."""
        return {
            "signature": self.state,
            "name": self.known.name if self.known is not None else self.name or None,
            "key": self.fingerprint or None,
            "trusted": self.is_trusted,
            "reason": self.reason or None,
        }


def check(store: ArchiveStore) -> Check:
    """Check the signature of a bundle's manifest. That all else matches the manifest is for `opening.verify` to say."""
    try:
        found = _read_signature(store)
    except BundleError as error:
        return Check("wrong", error.reason)
    if found is None:
        return Check("unsigned")
    problem, known = "", None
    try:
        known = next((key for key in list_keys() if key.public == found.public), None)
    except SigningKeyError as error:
        problem = str(error)
    result = Check("valid", "", found.name, found.public, known, problem)
    try:
        fits = _fits(found, store.manifest_bytes)
    except (MissingExtraError, SigningKeyError) as error:
        return msgspec.structs.replace(result, state="unchecked", reason=str(error))
    if not fits:
        return msgspec.structs.replace(
            result, state="wrong", reason="its signature does not fit it: it, or its signature, was changed"
        )
    return result


def _fits(found: _Signature, manifest: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtraError("cryptography", "sign") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(found.public)
        key.verify(found.signature, _signed_bytes(found.public, found.name, manifest))
    except UnsupportedAlgorithm as error:
        raise SigningKeyError("Ed25519", f"this build of cryptography lacks it ({error})") from error
    except (InvalidSignature, ValueError):
        return False
    return True


def require_sound(store: ArchiveStore) -> Check:
    """Check the signature of a bundle. One that is unsigned passes, and one by an unknown key.

    Raises:
        BundleError: the signature is wrong.
    """
    found = check(store)
    if found.state == "wrong":
        raise store.archive.refuse(found.reason)
    return found


def signer_of(store: ArchiveStore) -> tuple[bytes, str]:
    """The key that signed a bundle, and the name by which its owner goes.

    Raises:
        BundleError: nobody signed it, or the signature is wrong. MissingExtraError, SigningKeyError: it cannot be checked.
    """
    found = _read_signature(store)
    if found is None:
        raise store.archive.refuse("it is not signed")
    if not _fits(found, store.manifest_bytes):
        raise store.archive.refuse("its signature does not fit it: it, or its signature, was changed")
    return found.public, found.name


def describe(store: ArchiveStore) -> tuple[str, ...]:
    """Who signed a bundle, in lines for a person: all of them printable."""
    return describe_check(check(store))


def describe_check(found: Check) -> tuple[str, ...]:
    """The lines of `describe` for a check that was made."""
    return tuple(map(clean, _lines_of(found)))


def _lines_of(found: Check) -> tuple[str, ...]:
    if found.state == "unsigned":
        return ("Not signed",)
    if found.state == "wrong":
        return (f"The signature is wrong: {found.reason}",)
    if found.state == "unchecked":
        return (f"Signed in the name of {found.name} ({found.fingerprint}), and not checked here: {found.reason}",)
    problem = (f"Whether you trust the key cannot be said: {found.problem}",) if found.problem else ()
    known = found.known
    if known is None:
        whose = "" if found.problem else ", with a key that you have not trusted"
        return (f"Signed in the name of {found.name} ({found.fingerprint}){whose}", *problem)
    who = "you" if known.is_own else known.name
    claim = "" if found.name == known.name else f", in the name of {found.name}"
    trust = "a key that you trust" if known.is_trusted else "a key whose trust you revoked"
    return (f"Signed by {who} ({found.fingerprint}){claim}, with {trust}",)


# -- your own key, and those of others


class _Own(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    name: str
    public: str
    private: str


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    name: str
    trusted: bool


class _Known(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    keys: list[_Entry]


def _folder() -> Path:
    return user_folder() / "keys"


def _own_file() -> Path:
    return _folder() / "own.json"


def _known_file() -> Path:
    return _folder() / "known.json"


_T = TypeVar("_T", _Own, _Known)


def _read(path: Path, kind: type[_T]) -> _T | None:
    """What a file of keys says; None where there is no such file.

    Raises:
        SigningKeyError: it cannot be read, or is damaged.
    """
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SigningKeyError(str(path), "it is not a regular file")
            raw = file.read(_MOST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SigningKeyError(str(path), error.strerror or str(error)) from error
    if len(raw) > _MOST_FILE:
        raise SigningKeyError(str(path), f"it has more than {_MOST_FILE:,} bytes")
    try:
        found = msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SigningKeyError(str(path), f"it is damaged ({error})") from error
    if found.version != _VERSION:
        raise SigningKeyError(str(path), f"it has format {found.version}, and this release reads {_VERSION}")
    return found


def _own() -> Key | None:
    found = _read(_own_file(), _Own)
    if found is None:
        return None
    try:
        return Key(_decode(found.public, _KEY_BYTES, "key"), check_name(found.name), is_trusted=True, is_own=True)
    except ValueError as error:
        raise SigningKeyError(str(_own_file()), f"it is damaged: {error}") from error


def _known() -> dict[bytes, Key]:
    found = _read(_known_file(), _Known)
    keys: dict[bytes, Key] = {}
    for entry in [] if found is None else found.keys:
        try:
            public, name = _decode(entry.key, _KEY_BYTES, "key"), check_name(entry.name)
        except ValueError as error:
            raise SigningKeyError(str(_known_file()), f"it is damaged: {error}") from error
        if public in keys:
            raise SigningKeyError(str(_known_file()), f"it names the key {keys[public].fingerprint} twice")
        keys[public] = Key(public, name, entry.trusted)
    return keys


def stamp() -> list[tuple[str, int, int]]:
    """What changes when a key is made, trusted or revoked."""
    found: list[tuple[str, int, int]] = []
    for path in (_own_file(), _known_file()):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((path.name, status.st_mtime_ns, status.st_size))
    return found


def has_own_key() -> bool:
    """Whether this user made a key, even one that cannot be read."""
    return os.path.lexists(_own_file())


def own_problem() -> str:
    """Why your own key cannot be read; "" where it can, or you have made none."""
    try:
        _own()
    except SigningKeyError as error:
        return str(error)
    return ""


def list_keys() -> list[Key]:
    """Your own key first, then those of others by their names. Your own is left out where its file is damaged.

    Raises:
        SigningKeyError: the file of known keys cannot be read. No key is trusted then: each may have been revoked.
    """
    own, known = None, _known()
    with contextlib.suppress(SigningKeyError):  # `own_problem` says so; trust in others does not depend on it
        own = _own()
    listed = sorted(known.values(), key=lambda key: (key.name.casefold(), key.fingerprint))
    if own is None:
        return listed
    noted = known.get(own.public)
    mine = own if noted is None else msgspec.structs.replace(own, is_trusted=noted.is_trusted)
    return [mine, *(key for key in listed if key.public != own.public)]


def find_key(word: str) -> Key:
    """The key of this name, or with this fingerprint or the first digits of it.

    Raises:
        SigningKeyError: no key is called so, or several may be meant.
    """
    keys = list_keys()
    digits = word.casefold()
    by_digits = [key for key in keys if len(digits) >= _LEAST_PREFIX and key.fingerprint.startswith(digits)]
    found = by_digits or [key for key in keys if key.name == word]
    if len(found) > 1:
        several = ", ".join(key.fingerprint for key in found[:5])
        raise SigningKeyError(f"the key {word!r}", f"it may be one of several: {several}")
    if not found:
        known = ", ".join(key.name for key in keys[:8]) or "none"
        raise SigningKeyError(
            f"the key {word[:_MOST_NAME]!r}", f"you know no key of this name or fingerprint (known: {known})"
        )
    return found[0]


@contextlib.contextmanager
def _changing() -> Generator[None]:
    try:
        with exclusive(_known_file()):
            yield
    except OSError as error:
        raise StoreReadOnlyError(str(_folder()), error.strerror or str(error)) from error


def _write_known(keys: Iterable[Key]) -> None:
    entries = [_Entry(_encode(key.public), key.name, key.is_trusted) for key in keys]
    write_whole(_known_file(), _as_json(_Known(_VERSION, entries)))


def _as_json(value: _Own | _Known) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _private_key() -> type[Ed25519PrivateKey]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtraError("cryptography", "sign") from error
    return Ed25519PrivateKey


def make_key(name: str, *, replace: bool = False) -> Key:
    """Make your own key.

    Args:
        replace: take the place of a key that there is. What it signed is trusted as before; it signs nothing any more.

    Raises:
        MissingExtraError: cryptography is not installed. SigningKeyError: there is a key, or the name cannot be one.
        StoreReadOnlyError: the data directory cannot be written.
    """
    kind = _private_key()
    _require_name(name)
    with _changing():
        if has_own_key() and not replace:
            raise SigningKeyError("your key", "you have one already; --replace makes another and deletes it")
        _require_free(name, [key for key in list_keys() if not key.is_own])
        _keep_earlier(_known())
        private = kind.generate()
        public = private.public_key().public_bytes_raw()
        own = _Own(_VERSION, name, _encode(public), _encode(private.private_bytes_raw()))
        write_whole(_own_file(), _as_json(own))
    return Key(public, name, is_trusted=True, is_own=True)


def _keep_earlier(known: dict[bytes, Key]) -> None:
    """Let a key of one's own that is replaced be one among those that are known, under a name of its own."""
    try:
        before = _own()
    except SigningKeyError:  # damaged: nothing of it can be kept
        return
    if before is None:
        return
    noted = known.get(before.public, before)
    taken = {key.name.casefold() for key in known.values()}
    base = before.name[: _MOST_NAME - 20].rstrip()
    endings = ("earlier", *(f"earlier {number}" for number in range(2, len(taken) + 3)))
    names = (f"{base} ({ending})" for ending in endings)
    name = next(name for name in names if name.casefold() not in taken)
    known[before.public] = Key(before.public, name, noted.is_trusted)
    _write_known(known.values())


def _require_name(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise SigningKeyError("the name", str(error)) from None


def _require_free(name: str, others: Iterable[Key]) -> None:
    """Two keys of one name would let somebody pass for somebody else."""
    for key in others:
        if key.name.casefold() == name.casefold():
            raise SigningKeyError(
                f"the name {name!r}", f"the key {key.fingerprint} has it; --name gives this one another"
            )


def trust_key(public: bytes, name: str) -> Key:
    """Trust all bundles that this key signed, and will sign.

    Args:
        name: what its owner is called here; "" for a key that has a name already.

    Raises:
        SigningKeyError: another key has this name, or the name cannot be one. StoreReadOnlyError: it cannot be written down.
    """
    with _changing():
        keys = list_keys()
        before = next((key for key in keys if key.public == public), None)
        name = name or (before.name if before is not None else "")
        _require_name(name)
        _require_free(name, [key for key in keys if key.public != public])
        return _note(Key(public, name, is_trusted=True))


def revoke_key(word: str) -> Key:
    """Trust no bundle any more because this key signed it.

    Raises:
        SigningKeyError: there is no such key, or several. StoreReadOnlyError: it cannot be written down.
    """
    with _changing():
        return _note(msgspec.structs.replace(find_key(word), is_trusted=False))


def _note(key: Key) -> Key:
    known = _known()
    known[key.public] = key
    _write_known(known.values())
    return key


# -- signing


class Signer:
    """Your own key, to sign with."""

    def __init__(self, key: Key, private: Ed25519PrivateKey) -> None:
        self.key = key
        self._private = private

    def __repr__(self) -> str:
        return f"<Signer {self.key.fingerprint}>"

    def sign(self, manifest: bytes) -> bytes:
        """The member of a bundle that says who made it. The same manifest gives the same bytes."""
        key = self.key
        fields = {
            "version": _VERSION,
            "algorithm": _ALGORITHM,
            "key": _encode(key.public),
            "name": key.name,
            "signature": _encode(self._private.sign(_signed_bytes(key.public, key.name, manifest))),
        }
        return (json.dumps(fields, ensure_ascii=False, indent=1) + "\n").encode()


def load_signer() -> Signer:
    """Your own key.

    Raises:
        MissingExtraError: cryptography is not installed.
        SigningKeyError: there is no key, it is damaged, others can read it, or you revoked it.
    """
    kind, path = _private_key(), _own_file()
    found, _ = _read(path, _Own), _own()
    own = next((key for key in list_keys() if key.is_own), None)
    if found is None or own is None:
        raise SigningKeyError("your key", "you have made none; agent-kernel key new makes one")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise SigningKeyError(str(path), f"others can read or write it (mode {mode:04o}); chmod 600 keeps them out")
    if not own.is_trusted:
        raise SigningKeyError("your key", "you revoked it; agent-kernel key new --replace makes another")
    try:
        private = kind.from_private_bytes(_decode(found.private, _KEY_BYTES, "private key"))
    except ValueError as error:
        raise SigningKeyError(str(path), f"it is damaged: {error}") from None
    if private.public_key().public_bytes_raw() != own.public:
        raise SigningKeyError(str(path), "it is damaged: its two halves do not belong together")
    return Signer(own, private)
