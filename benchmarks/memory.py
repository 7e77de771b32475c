"""How much memory a process takes while it does something (Linux), and how much disk a folder.

Another process looks, every millisecond or so: inside the watched one a thread would wait for the interpreter's lock just
while the interesting copies are made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_WATCHER = """
import sys, time
from benchmarks.memory import anonymous, stop_asked
most, pid = 0, int(sys.argv[1])
print("ready", flush=True)
while not stop_asked():
    most = max(most, anonymous(pid))
    time.sleep(0.0005)
print(most)
"""


@dataclass
class Watch:
    """`with Watch() as watch:` … then `watch.peak` is the most that this process held for itself."""

    before: int = 0
    peak: int = 0
    resident_peak: int = 0

    def __enter__(self) -> Self:
        self._watcher = subprocess.Popen(
            [sys.executable, "-c", _WATCHER, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._watcher.stdout is not None:
            self._watcher.stdout.readline()
        _reset_peak()
        self.before = anonymous(os.getpid())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._watcher.communicate("stop")
        self.peak = max(int(said or 0), anonymous(os.getpid()))
        self.resident_peak = _field(os.getpid(), "VmHWM")


def stop_asked() -> bool:
    """Whether the watched process closed our standard input, or wrote to it."""
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


def anonymous(pid: int) -> int:
    """Bytes that a process holds for itself."""
    return _field(pid, "RssAnon")


def _reset_peak() -> None:
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _field(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status")
    for _ in range(3):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            time.sleep(0.001)
            continue
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), 0)
    return 0


def disk_bytes(folder: Path) -> int:
    """What the files below a folder take on the disk; holes in them do not count."""
    return sum(path.stat().st_blocks << 9 for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0
