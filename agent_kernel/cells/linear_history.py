"""The commits that lead to a state, in the order in which a reader would run them.

A commit leads on from its first parent. One that goes back (`rollback`, `undo`, `redo`) has the state of an older commit, so
the line goes on with that one: what was rolled back is no part of it. A commit that only takes single variables from
elsewhere, or changes what agents remember, stays on the line.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, Literal, NamedTuple

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import Commit, ObjectId
from agent_kernel.repository.commits import ALGORITHM
from agent_kernel.session import Repository

__all__ = ["Line", "Origin", "find_origin", "line_to"]

_GOES_BACK: Final = frozenset({"rollback", "undo", "redo"})
_PICKED: Final = re.compile(r"\(cherry picked from commit ([0-9a-f]{64})\)\s*\Z")


class Line:
    """The commits that lead to a state, oldest first.

    Attributes:
        is_truncated: the store no longer holds what came before the first of them.
    """

    def __init__(self, commits: tuple[tuple[ObjectId, Commit], ...], *, is_truncated: bool) -> None:
        self.commits = commits
        self.is_truncated = is_truncated

    @cached_property
    def positions(self) -> dict[ObjectId, int]:
        """Where each commit stands."""
        return {id: at for at, (id, _) in enumerate(self.commits)}


def line_to(repo: Repository, start: ObjectId) -> Line:
    """Find the commits that lead to a state."""
    found: list[tuple[ObjectId, Commit]] = []
    at: ObjectId | None = start
    is_truncated = False
    while at is not None:
        try:
            commit = repo.commit_at(at)
            before = _before(repo, commit)
        except DamagedObjectError:
            if not found:
                raise
            is_truncated = True
            break
        if before.goes_back:
            is_truncated = before.is_missing
        else:
            found.append((at, commit))
        at = before.commit
    return Line(tuple(reversed(found)), is_truncated=is_truncated)


class _Before(NamedTuple):
    """What the line goes on with, towards the past. `goes_back`: the commit itself is no part of it."""

    commit: ObjectId | None
    goes_back: bool = False
    is_missing: bool = False


def _before(repo: Repository, commit: Commit) -> _Before:
    parent = next(iter(commit.parents), None)
    if commit.kind not in _GOES_BACK:
        return _Before(parent)
    if parent is not None and repo.commit_at(parent).tree == commit.tree:
        return _Before(parent)  # it changed what agents remember, or nothing
    if commit.restores is not None and _has_tree(repo, commit.restores, commit.tree):
        return _Before(commit.restores, goes_back=True)
    if commit.tree == repo.tree_at(None).id:
        return _Before(None, goes_back=True)  # to before the first commit
    if commit.restores is not None and _exists(repo, commit.restores):
        return _Before(parent)  # single variables were taken from there
    # What was restored was deleted from the store. Another commit may have had the same state.
    same = (id for id, older in repo.log([parent], first_parent=True) if older.tree == commit.tree) if parent else ()
    found = next(iter(same), None)
    return _Before(found, goes_back=True, is_missing=found is None)


def _exists(repo: Repository, id: ObjectId) -> bool:
    try:
        repo.commit_at(id)
    except DamagedObjectError:
        return False
    return True


def _has_tree(repo: Repository, id: ObjectId, tree: ObjectId) -> bool:
    return _exists(repo, id) and repo.commit_at(id).tree == tree


# -- where a commit without a cell has its changes from


class Origin(NamedTuple):
    """Where variables come from that no cell of the line changed.

    Attributes:
        how: a merge, a commit that was done again here, or variables that were taken from another commit.
        commit: the other side; None: the store no longer holds it.
    """

    how: Literal["merge", "cherry-pick", "taken"]
    commit: ObjectId | None


def find_origin(repo: Repository, commit: Commit) -> Origin | None:
    """Find the other commit whose changes came with this one; None: it is a cell, or nothing says where from."""
    if commit.cell is not None:
        return None
    if len(commit.parents) > 1:
        return Origin("merge", _if_present(repo, commit.parents[1]))
    if commit.kind == "cherry-pick":
        named = _PICKED.search(commit.message)
        return Origin("cherry-pick", _if_present(repo, _id(named[1])) if named else None)
    if commit.kind in _GOES_BACK and commit.changed:
        return Origin("taken", None if commit.restores is None else _if_present(repo, commit.restores))
    return None


def _id(digits: str) -> ObjectId:
    return ObjectId(bytes.fromhex(digits) + ALGORITHM)


def _if_present(repo: Repository, id: ObjectId) -> ObjectId | None:
    return id if _exists(repo, id) else None
