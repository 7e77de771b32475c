"""kvgit 0.4.3 through its API, as its user would: set what the cell mentioned or bound, delete what went, commit.

kvgit cannot know what changed in place, so its user has to; here they never forget one that the cell names. What it
refuses (modules, functions of the notebook, open files) is left out.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.drivers.left_out import LeftOut
from benchmarks.drivers.shell import ShellDriver, words_of


class Driver(ShellDriver):
    restores = True

    def switch_on(self) -> None:
        kvgit: Any = import_module("kvgit")
        self._tree: Any = kvgit.open("disk", path=str(self.kept / "store"), codec="scientific")
        self._probe: Any = kvgit.open("memory", codec="scientific")
        self._bound: dict[str, int] = {}
        self._left_out = LeftOut(self._try)

    def after_cell(self, source: str) -> None:
        words = words_of(source)
        known = self._bound
        savable = self._left_out.savable(self.variables())
        changed = {name: value for name, value in savable.items() if name in words or known.get(name) != id(value)}
        gone = known.keys() - savable.keys()
        try:
            self._commit(changed, gone)
        except Exception as failure:  # noqa: BLE001 - whatever the codec raises
            self._tree.discard()
            self._left_out.find(changed, failure)
            savable = self._left_out.savable(savable)
            self._commit({name: value for name, value in changed.items() if name in savable}, gone)
        self._bound = {name: id(value) for name, value in savable.items()}

    def _try(self, name: str, value: Any) -> None:
        try:
            self._probe[name] = value
            self._probe.commit()
            self._probe[name]
        except Exception:
            self._probe.discard()
            raise

    def _commit(self, changed: dict[str, Any], gone: set[str]) -> None:
        for name, value in changed.items():
            self._tree[name] = value
        for name in gone & self._tree.keys():
            del self._tree[name]
        self._tree.commit()

    def state(self) -> str:
        return str(self._tree.head)

    def come_back(self, state: str) -> None:
        snapshot = self._tree.repo.snapshot(commit=state)
        values = snapshot.get_many(*snapshot)
        for name in self._left_out.savable(self.variables()).keys() - values.keys():
            del self.namespace[name]
        self.namespace.update(values)

    def close(self) -> None:
        self._tree.repo.close()
