"""Which stores this user may load values from: those that they made, and those that they said they trust.

Loading a pickle runs code. Each store has a random secret, and the secrets of trusted stores are listed in the user's
data directory, so a store that comes from elsewhere is not trusted however it is named, and one that was moved still is.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.errors import UntrustedStoreError

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

_SETTING = "secret"


def _mark(repo: Repository) -> bytes | None:
    """By what a store is known: its secret; a bundle, which never changes, by what it holds."""
    secret = repo.setting(_SETTING)
    return secret if secret is not None else getattr(repo.store, "fingerprint", None)


# Secrets of stores that are trusted as long as this process lives, because the list cannot be written.
_only_here: set[str] = set()
# By secret, where stores lie that this process made for itself alone: they are gone before it ends, and nobody lists them.
_temporary: dict[str, str] = {}


def _list() -> Path:
    from platformdirs import user_data_path

    return user_data_path() / "agent-kernel" / "trusted"


def register(repo: Repository) -> None:
    """Trust a store: give it a secret if it has none, and list it; where that is impossible, until this process ends."""
    secret = _mark(repo)
    if secret is None:
        secret = secrets.token_bytes(16)
        repo.set_setting(_SETTING, secret)
    if repo.store.url.startswith("memory:"):  # trusted as long as it lives
        return
    line = f"{secret.hex()} {repo.store.url}"
    if secret.hex() in _temporary or line in _lines():
        return
    try:
        _add(line)
    except OSError:  # a home that is read-only, or full: `notice` says so
        _only_here.add(secret.hex())
    else:
        _only_here.discard(secret.hex())


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


def _add(line: str) -> None:
    path = _list()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "a") as file:
        file.write(f"{line}\n")


def notice(repo: Repository) -> str:
    """What to tell a person of a store whose trust ends with this process; nothing of any other."""
    secret = _mark(repo) if _only_here else None
    if secret is None or secret.hex() not in _only_here:
        return ""
    return f"{_list()} cannot be written: after a restart, run %agent trust before you load values of this store"


def is_trusted(repo: Repository) -> bool:
    """Whether this user made the store or trusted it. What lives in memory was made by this process."""
    if repo.store.url.startswith("memory:"):
        return True
    secret = _mark(repo)
    return secret is not None and secret.hex() in _read_known()


def look_first(place: str | Path) -> None:
    """Before a store that came from elsewhere is opened here, have another process read it through.

    Raises:
        StoreUnavailableError: its data file is damaged in a way that kills its reader.
    """
    # As stores write their own place: reached by a link, a trusted one is not read through again each time.
    folder = Path(os.path.realpath(Path(str(place).removeprefix("lmdb://")).expanduser()))
    if (folder / "data.mdb").is_file() and f"lmdb://{folder}" not in _places():
        from agent_kernel.storage.urls import probe

        probe(folder)


def is_registered(folder: Path) -> bool:
    """Whether a trusted store lay at this path when it was trusted or last opened. Opens nothing."""
    return f"lmdb://{folder.as_posix()}" in _places()


def require(repo: Repository) -> None:
    """Raise UntrustedStoreError unless the store is trusted."""
    if not is_trusted(repo):
        raise UntrustedStoreError(repo.store.url)


def _read_known() -> set[str]:
    return {line.partition(" ")[0] for line in _lines()} | _only_here | _temporary.keys()


def _places() -> set[str]:
    """Where trusted stores were when they were trusted."""
    return {line.partition(" ")[2] for line in _lines()} | set(_temporary.values())


def _lines() -> list[str]:
    try:
        return [line for line in _list().read_text(errors="replace").splitlines() if line.strip()]
    except OSError:  # no list trusts nothing, nor does one that cannot be read
        return []
