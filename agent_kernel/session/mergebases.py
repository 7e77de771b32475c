"""Where a merge starts from, also after one that was undone.

Undo and rollback are commits of their own, so what they took back stays in the history. To a plain three-way merge it
looks merged already: the same merge could not be made again, and merging the other way would delete what it brought.
Here a side that was taken back whole counts as not merged, from where the history went back to.
"""

from __future__ import annotations

import msgspec

from agent_kernel.repository import ObjectId
from agent_kernel.session.snapshot import Repository


class Start(msgspec.Struct, frozen=True):
    """The common ancestor to merge from (None: there is none), and whether one side holds the other."""

    base: ObjectId | None
    up_to_date: bool = False
    fast_forward: bool = False


def start(repo: Repository, here: ObjectId, other: ObjectId) -> Start:
    """How to merge `other` into `here`."""
    base = repo.merge_base(here, other)
    if base == other:
        before = _before_it_was_taken_back(repo, here, other)
        return Start(base, up_to_date=True) if before is None else Start(repo.merge_base(before, other))
    if base == here:
        before = _before_it_was_taken_back(repo, other, here)
        return Start(base, fast_forward=True) if before is None else Start(repo.merge_base(before, here))
    return Start(base)


def _before_it_was_taken_back(repo: Repository, tip: ObjectId, side: ObjectId) -> ObjectId | None:
    """What the tip's line of commits went back to last, if that was to before it took `side` in."""
    for _, commit in repo.log(tip, first_parent=True):
        if any(repo.is_ancestor(side, parent) for parent in commit.parents[1:]):
            return None  # here it was taken in, and nothing after went back
        back = commit.restores
        if back is not None and repo.commit_at(back).tree == commit.tree:  # single variables are taken back otherwise
            return None if repo.is_ancestor(side, back) else back
    return None
