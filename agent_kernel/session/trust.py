"""Which stores this user may load values from: those that they made, and those that they said they trust.

Loading a pickle runs code. Each store has a random secret, and the secrets of trusted stores are listed in the user's
data directory, so a store that comes from elsewhere is not trusted however it is named, and one that was moved still is.
A copy has the secret of its original: both are trusted, or neither.

The list has a line for each place where a store was: its secret, a space, its URL. A bundle has no secret; its line begins with
`bundle:` and its fingerprint, which anybody may know, so that no store can use it as a secret.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_kernel.errors import StoreReadOnlyError, UntrustedStoreError

if TYPE_CHECKING:
    from agent_kernel.repository import Repository


# -- small files of the user's own: written whole or not at all, by one process at a time


_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def user_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path() / "agent-kernel"


@contextlib.contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Read this file, change it and write it back while no other process does. Its folder is made.

    Raises:
        OSError: nothing can be written there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file beside it is locked, because the file itself is replaced.
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Closing would not do: a process that was forked meanwhile has the file open too.
            _lock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _lock(handle: int, how: int) -> None:
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # there, on some network file systems, nothing better can be done
            raise


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, which nobody else may read, once the new one is on the disk. A link stays one.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# -- what the user trusts


_SETTING = "secret"
_BUNDLE = "bundle:"


def _mark(repo: Repository) -> str | None:
    """By what a store is known: its secret; a bundle, which never changes, by what it holds."""
    fingerprint: bytes | None = getattr(repo.store, "fingerprint", None)
    if fingerprint is not None:
        return _BUNDLE + fingerprint.hex()
    secret = repo.setting(_SETTING)
    return None if secret is None else secret.hex()


# Marks of stores that are trusted as long as this process lives, because the list cannot be written.
_trusted_in_process: set[str] = set()
# By secret, where stores lie that this process made for itself alone: they are gone before it ends, and nobody lists them.
_temporary: dict[str, str] = {}


def _list() -> Path:
    return user_folder() / "trusted"


def register(repo: Repository) -> None:
    """Trust a store: give it a secret if it has none, and list it; where that is impossible, until this process ends."""
    mark = _mark(repo)
    if mark is None:
        secret = secrets.token_bytes(16)
        repo.set_setting(_SETTING, secret)
        mark = secret.hex()
    if repo.store.url.startswith("memory:"):  # trusted as long as it lives
        return
    line = f"{mark} {_spell(repo.store.url)}"
    if mark in _temporary or line in _lines():
        return
    try:
        with exclusive(_list()):
            _add(line)
    except OSError:  # a home that is read-only, or full: `notice` says so
        _trusted_in_process.add(mark)
    else:
        _trusted_in_process.discard(mark)


def note_place(repo: Repository) -> None:
    """A trusted store is opened here: list this place too, unless trust is revoked meanwhile."""
    mark = _mark(repo)
    if mark in _trusted_in_process:
        register(repo)
        return
    line = f"{mark} {_spell(repo.store.url)}"
    if mark is None or mark in _temporary or repo.store.url.startswith("memory:") or line in _lines():
        return
    with contextlib.suppress(OSError), exclusive(_list()):
        if mark in _read_known():
            _add(line)


def create_secret(repo: Repository) -> str:
    """Give a store that was just made a secret that no list has, and return it: `trust_temporarily` trusts it by that."""
    secret = secrets.token_bytes(16)
    repo.set_setting(_SETTING, secret)
    return secret.hex()


def trust_temporarily(secret: str, url: str) -> None:
    """Trust the store with this secret until the process ends, without a trace in the list.

    For a store that goes away with whoever made it. Every process that is to load its values says so itself.
    """
    _temporary[secret] = url


def secret_to_pass_on(repo: Repository) -> str:
    """The secret of a store that is trusted by this process alone, for a process that works for it; "" where the list has it."""
    mark = _mark(repo)
    return mark if mark is not None and (mark in _temporary or mark in _trusted_in_process) else ""


def _add(line: str) -> None:
    handle = os.open(_list(), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        # A line that a full disk cut off must not take this one with it.
        begin = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{begin}{line}\n".encode("utf-8", "surrogateescape"))


def _spell(url: str) -> str:
    """A place on one line: the name of a folder must not add lines to the list."""
    return url if url.splitlines() == [url] else repr(url)


def revoke(repo: Repository) -> bool:
    """Take a store off the list, with all copies of it, and return whether it was trusted. What is in memory stays.

    Raises:
        StoreReadOnlyError: the list cannot be written, so the store stays trusted.
    """
    mark = _mark(repo)
    if mark is None:
        return False
    was_here = mark in _trusted_in_process
    _trusted_in_process.discard(mark)
    if mark not in _read_known():
        return was_here
    try:
        with exclusive(_list()):
            lines = _list().read_bytes().split(b"\n")
            remaining = [line for line in lines if line.partition(b" ")[0] != mark.encode()]
            write_whole(_list(), b"\n".join(remaining))
    except OSError as error:
        raise StoreReadOnlyError(str(_list()), error.strerror or str(error)) from error
    return True


def list_places() -> list[str]:
    """Where the stores and bundles that this user trusts are, or were once, by their URLs."""
    return sorted({place for place in _places() if place})


def notice(repo: Repository) -> str:
    """What to tell a person of a store whose trust ends with this process; nothing of any other."""
    if not _trusted_in_process or _mark(repo) not in _trusted_in_process:
        return ""
    return f"{_list()} cannot be written: after a restart, run %agent trust before you load values of this store"


def is_trusted(repo: Repository) -> bool:
    """Whether this user made the store or trusted it. What lives in memory was made by this process."""
    if repo.store.url.startswith("memory:"):
        return True
    mark = _mark(repo)
    return mark is not None and mark in _read_known()


def look_first(place: str | Path) -> None:
    """Before a store that came from elsewhere is opened here, have another process read it through.

    Raises:
        StoreUnavailableError: its data file is damaged in a way that kills its reader.
    """
    # As stores write their own place: reached by a link, a trusted one is not read through again each time.
    folder = Path(os.path.realpath(Path(str(place).removeprefix("lmdb://")).expanduser()))
    if (folder / "data.mdb").is_file() and f"lmdb://{folder}" not in _places():
        from agent_kernel.storage.lmdb import probe

        probe(folder)


def is_registered(folder: Path) -> bool:
    """Whether a trusted store lay at this path when it was trusted or last opened. Opens nothing."""
    return f"lmdb://{folder.as_posix()}" in _places()


def require(repo: Repository) -> None:
    """Raise UntrustedStoreError unless the store is trusted."""
    if not is_trusted(repo):
        raise UntrustedStoreError(repo.store.url)


def _read_known() -> set[str]:
    return {line.partition(" ")[0] for line in _lines()} | _trusted_in_process | _temporary.keys()


def _places() -> set[str]:
    """Where trusted stores were when they were trusted."""
    return {line.partition(" ")[2] for line in _lines()} | set(_temporary.values())


def _lines() -> list[str]:
    try:
        text = _list().read_text(encoding="utf-8", errors="surrogateescape")
        return [line for line in text.split("\n") if line.strip()]
    except OSError:  # no list trusts nothing, nor does one that cannot be read
        return []
