"""Read a data file that came from elsewhere in a process of its own: a damaged one can kill its reader.

LMDB maps the file and believes its page numbers, so a bad one ends the process with a bus error and no exception. The
process that looks first is a small one, and says by living that the file can be read from end to end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agent_kernel.errors import StoreError, StoreUnavailableError

LOOK_S = 300.0


def probe(folder: Path, *, only_deadly: bool = False) -> None:
    """Read all of a store in another process.

    Raises:
        StoreUnavailableError: that process died of it, or (unless `only_deadly`) could not read everything.
    """
    command = [sys.executable, "-m", "agent_kernel.storage.probe", str(folder)]
    try:
        looked = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailableError(str(folder), f"reading it through took over {LOOK_S:.0f} s") from error
    if looked.returncode < 0:
        raise StoreUnavailableError(str(folder), "its data file is damaged: reading it killed the process that tried")
    if looked.returncode and not only_deadly:
        last = (looked.stderr.strip().splitlines() or ["it cannot be read"])[-1]
        raise StoreUnavailableError(str(folder), last)


def read_through(folder: Path) -> None:
    """Touch every key and value. What cannot be read raises once the rest was read."""
    from agent_kernel.storage import _environment
    from agent_kernel.storage.lmdb import LmdbStore

    _environment.checks = False
    store = LmdbStore(folder, create=False, readonly=True)
    failed: StoreError | None = None
    for first in range(256):
        after = prefix = bytes([first])
        try:
            while keys := store.keys(prefix, after):
                store.view_many(keys, lambda _, view: sum(view[::4096]))
                after = keys[-1]
        except StoreError as error:
            failed = error
    store.close()
    if failed is not None:
        raise failed


if __name__ == "__main__":
    try:
        read_through(Path(sys.argv[1]))
    except StoreError as error:
        sys.exit(str(vars(error).get("reason", error)))
