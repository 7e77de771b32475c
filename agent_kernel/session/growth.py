"""Say when a store has become large: at 10 GB, at a fifth of the free disk, and at each doubling after that."""

from __future__ import annotations

import shutil
from pathlib import Path

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import Store, SupportsSize
from agent_kernel.values.summaries import size_text

FIRST_BYTES = 10_000_000_000
SHARE_OF_FREE_DISK = 0.2


class Growth:
    """Remembers what was said, so that it is said once."""

    def __init__(self) -> None:
        self._said_at = 0

    def notice(self, store: Store) -> str:
        """A line for the person, or nothing."""
        if not isinstance(store, SupportsSize):
            return ""
        try:
            used = store.size().disk_bytes
        except StoreUnavailableError:  # the commit that follows says so better
            return ""
        if used < max(2 * self._said_at, 1):
            return ""
        path = store.url.removeprefix("lmdb://")
        free = shutil.disk_usage(path).free if Path(path).exists() else 0
        if used < FIRST_BYTES and not (free and used > SHARE_OF_FREE_DISK * free):
            return ""
        self._said_at = used
        return f"the history takes {size_text(used)}, and {size_text(free)} are free; see %agent stats and %agent prune"
