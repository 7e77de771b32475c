"""Where the conversation with agents stands: the line of commits whose steps they remember, and what it can go back to.

The line to a commit is the line to its first parent and the commit's own step; where a commit went back to an older one,
the line to that; where it names another one for the conversation alone (`chat`), the line to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import NO_CHAT, ObjectId, hex_of
from agent_kernel.repository.ids import ALGORITHM

if TYPE_CHECKING:
    from agent_kernel.repository import Commit
    from agent_kernel.session.snapshot import Repository

__all__ = ["Talk", "last_talk", "line_to"]

_GOES_BACK: Final = frozenset({"undo", "redo", "rollback"})
_FAR: Final = 10_000  # commits that are looked at


class Talk(NamedTuple):
    """A run that agents remember, and the commit before it: None: there was none."""

    run: str
    before: ObjectId | None


def line_to(repo: Repository, head: ObjectId | None, since_ns: int = 0) -> Iterator[tuple[str, Commit | None, bool]]:
    """The commits on the line, newest first, in hex digits, and whether their own steps count; at last "" before the first.

    Where a commit is gone that the line would go on with, nothing more is known, and the line ends.
    """
    at = head
    while at is not None and at != NO_CHAT:
        try:
            commit = repo.commit_at(at)
        except DamagedObjectError:
            return
        if commit.time_ns < since_ns:
            return
        goes_back = commit.restores if commit.kind in _GOES_BACK else None
        elsewhere = goes_back if commit.chat is None else commit.chat
        yield hex_of(at), commit, elsewhere is None
        at = next(iter(commit.parents), None) if elsewhere is None else elsewhere
    if at is None:
        yield "", None, False


def last_talk(
    repo: Repository, head: ObjectId | None, begun: Mapping[str, str], until: ObjectId | None = None
) -> Talk | None:
    """The last run of those that are remembered at a commit; None: none is.

    Args:
        begun: runs without any step, by the commit, in hex digits, at which they were begun.
        until: what lies behind this commit, and its own step, is not remembered.
    """
    last = None if until is None else hex_of(until)
    line = list(islice(line_to(repo, head), _FAR))
    known = takewhile(lambda one: one[0] != last, line)
    runs = [(commit.run if commit is not None and is_own else "") or begun.get(at, "") for at, commit, is_own in known]
    run = next(filter(None, runs), "")
    if not run:
        return None
    behind = len(runs) - runs[::-1].index(run)  # the run may have gone on after other work
    before = line[behind][0] if behind < len(line) else ""
    return Talk(run, ObjectId(bytes.fromhex(before) + ALGORITHM) if before else None)
