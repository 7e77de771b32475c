"""Where a merge starts from, also after one that was undone.

An undo is a commit of its own, so what it took back stays in the history. To a plain three-way merge that looks merged
already: the same merge could not be made again, and merging the other way would delete what it had brought. Here it
counts as not merged, from where the history went back to.
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
        before = _before_it_was_undone(repo, here, other, by_merge=False)
        return Start(base, up_to_date=True) if before is None else Start(repo.merge_base(before, other))
    if base == here:
        before = _before_it_was_undone(repo, other, here, by_merge=True)
        return Start(base, fast_forward=True) if before is None else Start(repo.merge_base(before, here))
    return Start(base)


def _before_it_was_undone(repo: Repository, tip: ObjectId, side: ObjectId, *, by_merge: bool) -> ObjectId | None:
    """What an undo on the tip's line went back to, if that was to before the line took `side` in.

    Args:
        by_merge: `side` counts as taken in by merge commits alone, not where the line is its own continuation.
    """
    back: ObjectId | None = None
    for _, commit in repo.log(tip, first_parent=True):
        if any(repo.is_ancestor(side, parent) for parent in commit.parents[1:]):
            return back  # here it was taken in
        to = commit.restores
        if back is not None or to is None or repo.commit_at(to).tree != commit.tree:  # or single variables were
            continue
        if repo.is_ancestor(side, to):
            return None  # done again since
        if commit.kind == "undo" and repo.is_ancestor(side, commit.parents[0]):
            if not by_merge:
                return to
            back = to
    return None
