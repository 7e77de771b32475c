"""Say when a store has become large: at 10 GB, at a fifth of the free disk, and at each doubling after that."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import Store, SupportsSize
from agent_kernel.values.summaries import size_text

FIRST_BYTES = 10_000_000_000
SHARE_OF_FREE_DISK = 0.2
# Asking the store and the disk costs a tiny cell a tenth of its time.
_LOOK_AFTER_S, _LOOK_AFTER_BYTES = 10.0, 1_000_000


class Growth:
    """Remembers what was said, so that it is said once."""

    def __init__(self) -> None:
        self._said_at = 0
        self._look_at = 0.0
        self._unlooked = 0

    def notice(self, store: Store, written_bytes: int) -> str:
        """A line for the person, or nothing; `written_bytes` is what the commit that was just made stored."""
        self._unlooked += written_bytes
        now = time.monotonic()
        if self._unlooked < _LOOK_AFTER_BYTES and now < self._look_at:
            return ""
        self._unlooked, self._look_at = 0, now + _LOOK_AFTER_S
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
