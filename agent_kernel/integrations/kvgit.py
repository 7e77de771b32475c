"""kvgit on our stores: `AgentKernelKV`, its `KVStore` in any engine that `ak.open` takes.

Its keys lie beside all branches of ours, under a prefix of their own: nothing of ours reads or collects them. `cas_many` is the
store's own swap, so that kvgit's commits are safe between processes where ours are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent_kernel.errors import MissingExtraError
from agent_kernel.session.snapshot import Repository
from agent_kernel.storage import MAX_KEY_BYTES

try:
    from kvgit.kv.base import KVStore
except ImportError as error:
    raise MissingExtraError("kvgit", "kvgit") from error

__all__ = ["AgentKernelKV"]

_PREFIX: Final = b"n/kvgit/"
_PAGE: Final = 1_000


class AgentKernelKV(KVStore):
    """Bytes by name, for kvgit. Safe from several threads and processes.

    Args:
        repo: a repository, or the path or URL of one. Several of these on one repository are the same.
    """

    def __init__(self, repo: Repository | str | Path) -> None:
        self.repo = repo if isinstance(repo, Repository) else Repository.open(repo)
        self._store = self.repo.store

    def get(self, key: str) -> bytes | None:
        """The value. Returns None if the key is not there."""
        return self._store.get_many([_key_of(key)]).get(_key_of(key)) if _fits(key) else None

    def set(self, key: str, value: bytes) -> None:
        """Store a value.

        Raises:
            TypeError: it is not bytes. ValueError: the key is longer than a store takes.
        """
        self.set_many({key: value})

    def get_many(self, *args: Any) -> Mapping[str, bytes]:
        """The values that are there."""
        names = {_key_of(name): name for name in self._normalize_keys(args) if _fits(name)}
        found = self._store.get_many(names)
        return {name: found[key] for key, name in names.items() if key in found}

    def set_many(self, items: Mapping[str, bytes] | None = None, /, **kwargs: bytes) -> None:
        """Store values, all or none."""
        self.cas_many({}, self._normalize_items(items, kwargs))

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All names with their values."""
        for page in self._pages(""):
            found = self._store.get_many(page)
            yield from ((_name_of(key), found[key]) for key in page if key in found)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """The names that begin so."""
        for page in self._pages(prefix):
            yield from map(_name_of, page)

    def _pages(self, prefix: str) -> Iterator[list[bytes]]:
        after = b""
        while page := self._store.keys(_key_of(prefix), after, _PAGE):
            yield page
            after = page[-1]

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def remove(self, key: str) -> None:
        """Remove a name, if it is there."""
        self.remove_many([key])

    def remove_many(self, *args: Any) -> None:
        """Remove the names that are there."""
        names = [name for name in self._normalize_keys(args) if _fits(name)]
        if names:
            self._store.swap({}, dict.fromkeys(map(_key_of, names)))

    def cas_many(
        self, expected: Mapping[str, bytes | None], writes: Mapping[str, bytes], removes: Iterable[str] = ()
    ) -> bool:
        """Write and remove, all or nothing, if every name in `expected` still has its value. Returns whether it did."""
        removed = self._check_batch(writes, removes)
        if any(not _fits(name) and value is not None for name, value in expected.items()):
            return False
        before = {_key_of(name): value for name, value in expected.items() if _fits(name)}
        new: dict[bytes, bytes | None] = {_key_of(name, must_fit=True): value for name, value in writes.items()}
        return self._store.swap(before, new | dict.fromkeys(_key_of(name) for name in removed if _fits(name)))

    def clear(self) -> None:
        """Remove all names of kvgit. What is ours stays."""
        for page in self._pages(""):
            self._store.delete_many(page)

    def close(self) -> None:
        """Let go of the store."""
        self.repo.close()


def _key_of(name: str, *, must_fit: bool = False) -> bytes:
    key = _PREFIX + name.encode("utf-8", "surrogatepass")
    if must_fit and len(key) > MAX_KEY_BYTES:
        raise ValueError(
            f"a name has at most {MAX_KEY_BYTES - len(_PREFIX)} bytes, and this one {len(key)}: {name[:40]!r}…"
        )
    return key


def _fits(name: str) -> bool:
    return len(_key_of(name)) <= MAX_KEY_BYTES


def _name_of(key: bytes) -> str:
    return key[len(_PREFIX) :].decode("utf-8", "surrogatepass")
