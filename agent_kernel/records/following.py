"""Following a collection: what is known of its records is brought up to date by reading those that changed.

A look costs what changed since the one before, and next to nothing where nothing did, however many records there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_digest

from agent_kernel.records.lines import WHOLE_S

if TYPE_CHECKING:
    from agent_kernel.records.collection import Records
    from agent_kernel.records.lines import Look

__all__ = ["Follower"]


class Follower:
    """The rows of a collection, as they were at the last look. For one thread at a time.

    Args:
        start: what the ids begin with; `fits` says which of those are meant.
        keeps_rows: whether `known` has the rows; otherwise it has a digest of each, which says whether it changed.
    """

    def __init__(
        self,
        records: Records[Any],
        start: str = "",
        fits: Callable[[str], object] = bool,
        *,
        keeps_rows: bool = False,
    ) -> None:
        self.records = records
        self.known: dict[str, bytes] = {}
        self._prefix = records.prefix + start
        self._fits = fits
        self._keeps_rows = keeps_rows
        self._mark: object = None
        self._look: Look | None = None
        self._whole_mark: object = None  # when all was read last

    def look(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        """What changed since the last look, before and after, by id; None: it was not there."""
        line, start = self.records.line(), len(self.records.prefix)
        mark = (type(line), line.mark())
        if mark == self._mark and not self._is_due(mark):
            return {}
        look, found = line.changed(self._look, self._prefix)
        if found is None:
            rows = {key[start:]: raw for key, raw in line.scan(self._prefix, at_once=True)}
            self._whole_mark = mark
            now: dict[str, bytes | None] = {id: rows.get(id) for id in self.known.keys() | rows.keys()}
        else:
            now = {key[start:]: raw for key, raw in found.items()}
        self._mark, self._look = mark, look
        return self._learn(now)

    def _is_due(self, mark: object) -> bool:
        """Whether all is to be read once more: something changed since, and a clock that was set back hides a change."""
        look = self._look
        return look is not None and mark != self._whole_mark and time.monotonic() - look.whole_s > WHOLE_S

    def _learn(self, now: dict[str, bytes | None]) -> dict[str, tuple[bytes | None, bytes | None]]:
        changes: dict[str, tuple[bytes | None, bytes | None]] = {}
        for id, raw in now.items():
            new = raw if raw is None or self._keeps_rows else xxh3_128_digest(raw)
            old = self.known.get(id)
            if new == old or not self._fits(id):
                continue
            changes[id] = old, new
            if new is None:
                del self.known[id]
            else:
                self.known[id] = new
        return changes
