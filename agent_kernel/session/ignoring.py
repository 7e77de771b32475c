"""The variables that are never stored, as `%agent ignore` names them. The list belongs to the store."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from agent_kernel.repository import Repository

_SETTING = "ignored"


class IgnoreList:
    """A set of names that survives the session."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        stored = repo.setting(_SETTING)
        self._names: set[str] = set() if stored is None else set(msgspec.msgpack.decode(stored, type=list[str]))

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, name: str) -> None:
        self._names.add(name)
        self._save()

    def remove(self, name: str) -> None:
        self._names.discard(name)
        self._save()

    def _save(self) -> None:
        self._repo.set_setting(_SETTING, msgspec.msgpack.encode(sorted(self._names)))
