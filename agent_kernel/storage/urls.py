"""Open a store by URL, or by the path of its folder; look into a doubtful one in a process of its own.

A URL of an engine that is not there raises; it never falls back to another engine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.errors import NotAStoreError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from agent_kernel.storage.protocol import Durability, Store


_BUNDLE = ".agentnb"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def open_store(
    url: str | os.PathLike[str], *, create: bool = True, readonly: bool = False, durability: Durability = "default"
) -> Store:
    """Open the store at `lmdb:///folder`, a plain path, in a bundle (`bundle:///file`, only to read), or `memory:` (a new one).

    Args:
        create: make the store if it does not exist.
        readonly: refuse to write, and never make anything.
        durability: "full" for a store that loses nothing in a power loss; each commit then syncs twice.

    Raises:
        NotAStoreError: the store does not exist, or the folder holds something else.
        BundleError: the file is not a bundle.
        StoreUnavailableError: it cannot be opened just now, or no engine has this URL.
        ValueError: an option that this engine cannot honour.
    """
    if not os.fspath(url):
        raise NotAStoreError(repr(url), "an empty text names no place")  # as a path it would be the working directory
    match = _SCHEME.fullmatch(url) if isinstance(url, str) else None
    if match is None and os.fspath(url).endswith(_BUNDLE) and Path(url).expanduser().is_file():
        return _open_bundle(os.fspath(url))
    if match is None:
        return _open_lmdb(os.fspath(url), create, readonly, durability)
    engine, rest = match[1].lower(), match[2]
    if engine == "lmdb" and rest.strip("/"):
        return _open_lmdb(rest.removeprefix("//"), create, readonly, durability)
    if engine == "memory" and rest in ("", "//"):
        return _open_memory(readonly, durability)
    if engine == "bundle" and rest.strip("/"):
        return _open_bundle(rest.removeprefix("//"))
    known = "lmdb:///folder, bundle:///file, memory:, or a plain path"
    raise StoreUnavailableError(str(url), f"no engine has such URLs (known: {known})")


def _open_lmdb(path: str, create: bool, readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.lmdb import LmdbStore

    return LmdbStore(Path(path).expanduser(), create=create, readonly=readonly, durability=durability)


def _open_bundle(path: str) -> Store:
    from agent_kernel.storage.archive import ArchiveStore

    return ArchiveStore(Path(path).expanduser())


def _open_memory(readonly: bool, durability: Durability) -> Store:
    from agent_kernel.storage.memory import MemoryStore

    if readonly or durability != "default":
        raise ValueError("a new store in memory can be neither read-only nor durable")
    return MemoryStore()


# -- read a data file that came from elsewhere in a process of its own: a damaged one can kill its reader
#
# LMDB maps the file and believes its page numbers, so a bad one ends the process with a bus error and no exception. The
# process that looks first is a small one, and says by living that the file can be read from end to end.

LOOK_S = 300.0


def probe(folder: Path, *, only_deadly: bool = False) -> None:
    """Read all of a store in another process.

    Raises:
        StoreUnavailableError: that process died of it, or (unless `only_deadly`) could not read everything.
    """
    command = [sys.executable, "-m", "agent_kernel.storage.urls", str(folder)]
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
