"""A real IPython shell that runs the cells, and the timing of each. The other drivers switch something on in it."""

from __future__ import annotations

import contextlib
import io
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fingerprints import fingerprints, is_users
from benchmarks.memory import disk_bytes

_WORD = re.compile(r"[^\W\d]\w*")


class Ran(NamedTuple):
    """How long a cell took, how long its own code did, by the clock and on the processor, and what went wrong.

    `cpu_s`: what the processor spent on all of the cell, in every thread. `said`: what it printed.
    """

    total_s: float
    code_s: float
    code_cpu_s: float
    error: str
    cpu_s: float = 0.0
    said: str = ""


class ShellDriver:
    """Plain IPython. Subclasses say how their system is switched on, and how it comes back to a state.

    Args:
        folder: where the system may keep things; `kept` below it is what counts as its disk.
    """

    restores = False

    def __init__(self, folder: Path) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        self.folder = folder
        self.kept = folder / "kept"
        self.kept.mkdir(parents=True, exist_ok=True)
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        self.configure(config)
        self.shell: Any = InteractiveShell.instance(config=config)
        self._code_s = self._cpu_s = 0.0
        self._states: dict[str, Any] = {}
        began = time.process_time()
        self.switch_on()
        self.switched_on_cpu_s = time.process_time() - began
        self._time_code()
        self.before = set(self.shell.user_ns)

    # -- what a subclass says

    def configure(self, config: Any) -> None:
        """Set options before the shell starts."""

    def switch_on(self) -> None:
        """Start the system in the shell."""

    def after_cell(self, source: str) -> None:
        """What the system's user writes at the end of each cell; its time is the cell's."""

    def state(self) -> Any:
        """Where the system is now, as `come_back` takes it."""
        return None

    def come_back(self, state: Any) -> None:
        """Make the variables what they were at a state."""
        raise NotImplementedError(f"{type(self).__name__} brings nothing back")

    def start_branch(self, name: str) -> None:
        """Start a branch here, where there are branches; elsewhere a state is all it takes."""

    def come_to_branch(self, name: str) -> bool:
        """Go to a branch; False where the system has none."""
        return False

    def close(self) -> None:
        """Let go of the store."""

    # -- what every driver does

    @property
    def namespace(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shell.user_ns
        return found

    def variables(self) -> dict[str, Any]:
        """The user's own, as they would list them."""
        return {name: value for name, value in list(self.namespace.items()) if is_users(name, self.before)}

    def run(self, source: str) -> Ran:
        """Run a cell."""
        self._code_s = self._cpu_s = 0.0
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            began, cpu = time.perf_counter(), time.process_time()
            result = self.shell.run_cell(source, store_history=True)
            self.after_cell(source)
            total, spent = time.perf_counter() - began, time.process_time() - cpu
        error = result.error_before_exec or result.error_in_exec
        said = f"{type(error).__name__}: {error}" if error is not None else ""
        return Ran(total, self._code_s, self._cpu_s, said, spent, printed.getvalue())

    def _time_code(self) -> None:
        run_code = self.shell.run_code

        async def timed(*args: Any, **options: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return await run_code(*args, **options)
            finally:
                self._code_s += time.perf_counter() - began
                self._cpu_s += time.thread_time() - cpu

        self.shell.run_code = timed

    def mark(self, label: str) -> None:
        self._states[label] = self.state()

    def checkout(self, label: str) -> float:
        """Come back to a mark or branch; returns the seconds it took."""
        with contextlib.redirect_stdout(io.StringIO()):
            began = time.perf_counter()
            if not self.come_to_branch(label):
                self.come_back(self._states[label])
            return time.perf_counter() - began

    def disk(self) -> int:
        return disk_bytes(self.kept)

    def look(self) -> dict[str, str]:
        """What the variables are now."""
        return fingerprints(self.namespace, self.before)


def words_of(source: str) -> set[str]:
    """Names that a cell's code mentions."""
    return set(_WORD.findall(source))
