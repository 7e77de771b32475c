"""The variables that are never stored, and those of which no model is told, as `%agent ignore` and `%agent hide` name them. The list belongs to the store.

An entry is a name, or a pattern as shells write it (`tmp_*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from typing import ClassVar

import msgspec

from agent_kernel.repository import Repository


def is_pattern(text: str) -> bool:
    """Whether an entry of the list stands for many names."""
    return any(sign in text for sign in "*?[")


class NameList:
    """A set of names and patterns that a store remembers."""

    setting: ClassVar[str]

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self.reread()

    def reread(self) -> None:
        """Take up what another list of the same store has set since."""
        stored = self._repo.setting(self.setting)
        self._names: set[str] = set() if stored is None else set(msgspec.msgpack.decode(stored, type=list[str]))
        self._patterns = self._compile()

    def __contains__(self, name: str) -> bool:
        # Asked for every name of the namespace after every cell: without patterns it stays a look into a set.
        return name in self._names or (self._patterns is not None and self._patterns.match(name) is not None)

    def select(self, names: Iterable[str]) -> list[str]:
        """Those of the names that it says. Without names and patterns on the list it looks at none."""
        return list(filter(self.__contains__, names)) if self._names else []

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def add(self, name: str) -> None:
        self._set(self._names | {name})

    def remove(self, name: str) -> None:
        """Take it off the list; nothing happens where it is not there."""
        self._set(self._names - {name})

    def add_unstored(self, names: Iterable[str]) -> None:
        """Take names up here alone, until whoever has them stores what `to_store` gives, or asks to `reread`."""
        self._names = self._names.union(names)
        self._patterns = self._compile()

    def to_store(self) -> dict[str, bytes | None]:
        """The setting that holds this list."""
        return {self.setting: msgspec.msgpack.encode(sorted(self._names))}

    def _set(self, names: set[str]) -> None:
        self._repo.set_setting(self.setting, msgspec.msgpack.encode(sorted(names)))
        self._names = names  # only now: a store that refuses has changed nothing
        self._patterns = self._compile()

    def _compile(self) -> re.Pattern[str] | None:
        patterns = sorted(filter(is_pattern, self._names))
        return re.compile("|".join(map(translate, patterns))) if patterns else None


class IgnoreList(NameList):
    """The variables that are never stored."""

    setting = "ignored"

    def remove(self, name: str) -> None:
        """Store it again, and what code says of it, too."""
        super().remove(name)
        masked = self._repo.masked_names()
        if name in masked:
            self._repo.mask_from_now_on(masked - {name})


# -- the variables of which no model is told, as `%agent hide` names them. The list belongs to the store


class HideList(NameList):
    """A set of names and patterns that survives the session."""

    setting = "hidden"
