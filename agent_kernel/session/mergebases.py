"""Where a merge starts from, also after one that was undone.

An undo is a commit of its own, so what it took back stays in the history. To a plain three-way merge that looks merged
already: the same merge could not be made again, and merging the other way would delete what it had brought. Here it
counts as not merged, from where the history went back to.
"""

from __future__ import annotations

import msgspec

from agent_kernel.repository import Commit, ObjectId
from agent_kernel.session.snapshot import Repository


class Start(msgspec.Struct, frozen=True):
    """The common ancestor to merge from (None: there is none), and whether one side holds the other."""

    base: ObjectId | None
    up_to_date: bool = False
    fast_forward: bool = False


def start(repo: Repository, here: ObjectId, other: ObjectId) -> Start:
    """How to merge `other` into `here`."""
    base = repo.merge_base(here, other)
    if base is None:
        return Start(None)
    undone_here = None if base == here else _before_it_was_undone(repo, here, base, by_merge=False)
    if undone_here is not None:
        return Start(repo.merge_base(undone_here, other))
    undone_there = None if base == other else _before_it_was_undone(repo, other, base, by_merge=True)
    if undone_there is not None:
        return Start(repo.merge_base(undone_there, here))
    return Start(base, up_to_date=base == other, fast_forward=base == here)


def _before_it_was_undone(repo: Repository, tip: ObjectId, side: ObjectId, *, by_merge: bool) -> ObjectId | None:
    """What an undo on the tip's line went back to, if that was to before the line took `side` in.

    Args:
        by_merge: `side` counts as taken in by merge commits alone, not where the line is its own continuation.
    """
    back: ObjectId | None = None
    for id, commit in repo.log(tip, first_parent=True):
        if id == side:  # from here on it is the line itself
            return None if by_merge else back
        if any(repo.is_ancestor(side, parent) for parent in commit.parents[1:]):
            return back  # here it was taken in
        to = _restored(repo, commit)
        if back is not None or to is None:
            continue
        if repo.is_ancestor(side, to):
            return None  # done again since
        if commit.kind == "undo" and repo.is_ancestor(side, commit.parents[0]):
            back = to
    return None


def _restored(repo: Repository, commit: Commit) -> ObjectId | None:
    """The commit that this one went back to; not an undo or redo, but where that went. None: to none, or not as a whole."""
    found: ObjectId | None = None
    while commit.restores is not None and (found is None or commit.kind in ("undo", "redo")):
        before = repo.commit_at(commit.restores)
        if before.tree != commit.tree:
            break
        found, commit = commit.restores, before
    return found
