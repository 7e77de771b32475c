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


def probe(folder: Path) -> None:
    """Read all of a store in another process.

    Raises:
        StoreUnavailableError: that process died of it, or could not read everything.
    """
    command = [sys.executable, "-m", "agent_kernel.storage.probe", str(folder)]
    try:
        looked = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailableError(str(folder), f"reading it through took over {LOOK_S:.0f} s") from error
    if looked.returncode < 0:
        raise StoreUnavailableError(str(folder), "its data file is damaged: reading it killed the process that tried")
    if looked.returncode:
        last = (looked.stderr.strip().splitlines() or ["it cannot be read"])[-1]
        raise StoreUnavailableError(str(folder), last)


def read_through(folder: Path) -> None:
    """Touch every key and value."""
    from agent_kernel.storage.lmdb import LmdbStore

    store = LmdbStore(folder, create=False, readonly=True)
    after = b""
    while keys := store.keys(b"", after):
        store.view_many(keys, lambda _, view: sum(view[::4096]))
        after = keys[-1]
    store.close()


if __name__ == "__main__":
    try:
        read_through(Path(sys.argv[1]))
    except StoreError as error:
        sys.exit(str(vars(error).get("reason", error)))
