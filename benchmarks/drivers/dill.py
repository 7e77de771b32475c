"""dill 0.4.1: `dump_session` after every cell into a file of its own, `load_session` to come back."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.drivers.shell import Ran, ShellDriver


class Driver(ShellDriver):
    restores = True

    def switch_on(self) -> None:
        # After the shell: dill takes as the main module what is in its place when dill is imported.
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        self._dill: Any = import_module("dill")
        self._count = 0
        self.failure = ""

    def _path(self) -> Path:
        return self.kept / f"{self._count:05}.dill"

    def after_cell(self, source: str) -> None:
        self._count += 1
        self.failure = ""
        try:
            self._dill.dump_session(str(self._path()))
        except Exception as error:  # noqa: BLE001 - picklers raise anything
            self.failure = f"not saved: {type(error).__name__}: {error}"
            self._path().unlink(missing_ok=True)

    def run(self, source: str) -> Ran:
        ran = super().run(source)
        return ran._replace(error=ran.error or self.failure)

    def state(self) -> str:
        return str(self._path())

    def come_back(self, state: str) -> None:
        self._dill.load_session(state)
