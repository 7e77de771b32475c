"""agent_kernel without a shell: `agent_kernel.session.bind` on a plain dict, to see the raw overhead of a commit."""

from __future__ import annotations

import sys
import time
import types
from pathlib import Path
from typing import Any

from benchmarks.drivers.shell import Ran
from benchmarks.fingerprints import fingerprints, is_users
from benchmarks.memory import disk_bytes


class Driver:
    restores = True

    def __init__(self, folder: Path) -> None:
        from agent_kernel.session import Repository, bind

        self.folder = folder
        self.kept = folder / "kept"
        self.kept.mkdir(parents=True, exist_ok=True)
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.namespace: dict[str, Any] = vars(module)
        self.before = set(self.namespace)
        self._repo = Repository.open(str(self.kept / "store"))
        self.session = bind(self.namespace, self._repo)
        self._states: dict[str, str] = {}
        self._number = 0

    def run(self, source: str) -> Ran:
        self._number += 1
        error: BaseException | None = None
        code = compile(source, f"<cell {self._number}>", "exec")
        began, all_cpu = time.perf_counter(), time.process_time()
        self.session.begin_cell(source, number=self._number)
        entered, cpu = time.perf_counter(), time.thread_time()
        try:
            exec(code, self.namespace)
        except Exception as raised:  # noqa: BLE001 - the cell's own
            error = raised
        left, spent = time.perf_counter(), time.thread_time() - cpu
        self.session.end_cell(error=error)
        said = "" if error is None else repr(error)
        return Ran(time.perf_counter() - began, left - entered, spent, said, time.process_time() - all_cpu)

    def variables(self) -> dict[str, Any]:
        return {name: value for name, value in self.namespace.items() if is_users(name, self.before)}

    def mark(self, label: str) -> None:
        if self.session.head is not None:
            self._states[label] = bytes(self.session.head)[:32].hex()

    def checkout(self, label: str) -> float:
        began = time.perf_counter()
        self.session.checkout(self._states[label])
        return time.perf_counter() - began

    def start_branch(self, name: str) -> None:
        self.session.switch(name, create=True)

    def disk(self) -> int:
        return disk_bytes(self.kept)

    def look(self) -> dict[str, str]:
        return fingerprints(self.namespace, self.before)

    def close(self) -> None:
        self.session.close()
        self._repo.close()
