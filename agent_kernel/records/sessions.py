"""The sessions of this process whose commits take records along. It imports nothing: each session is entered here."""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from agent_kernel.records.lines import Pending
    from agent_kernel.repository import Holder, ObjectId, Repository

logger = logging.getLogger(__name__)


class LiveBranch(Protocol):
    """A session of this process, as records see it."""

    @property
    def repo(self) -> Repository: ...
    @property
    def pending(self) -> Pending: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def head(self) -> ObjectId | None: ...
    @property
    def moves(self) -> int:
        """How often HEAD went elsewhere: by a checkout, an undo, a merge."""
        ...

    @property
    def lease(self) -> Holder:
        """Who holds the branch."""
        ...

    @property
    def runs_here_since(self) -> float:
        """When the cell or step began that this thread runs for it, on `time.perf_counter`; 0.0: it runs none."""
        ...

    @property
    def commits_records(self) -> bool:
        """Whether `commit_records` commits: no cell is running, and nothing else is being committed."""
        ...

    def alone(self) -> AbstractContextManager[object]:
        """While nobody else commits, and HEAD stays where it is."""
        ...

    def follow_rewriting(self) -> None:
        """Look HEAD up again if this process has rewritten the history."""

    def uninterrupted(self) -> AbstractContextManager[object]:
        """While Ctrl-C waits."""
        ...

    def commit_records(self) -> None:
        """Commit them now, unless a cell is running, whose commit will hold them."""

    def commit_last_records(self) -> None:
        """Commit them now: no commit will follow."""


# In the order in which they were made: of several that fit, all calls find the same one.
SESSIONS: Final[weakref.WeakKeyDictionary[LiveBranch, None]] = weakref.WeakKeyDictionary()


@atexit.register
def _commit_last_records() -> None:
    for session in list(SESSIONS):
        try:
            session.commit_last_records()
        except Exception:
            logger.warning("records that changed last were not stored", exc_info=True)
