"""What was taken back: it is in the history, and no state there is goes on from it any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import NO_CHAT

if TYPE_CHECKING:
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = ["Point", "goes_on_from", "is_held", "undone_in", "undone_since"]


class Point(Protocol):
    """What there is to know of a commit. `goes_on`: as `goes_on_from` says."""

    @property
    def id(self) -> ObjectId: ...
    @property
    def parents(self) -> tuple[ObjectId, ...]: ...
    @property
    def goes_on(self) -> tuple[ObjectId, ...]: ...
    @property
    def run(self) -> str: ...


def goes_on_from(commit: Commit) -> tuple[ObjectId, ...]:
    """The commits from which the variables of this one go on: its parents, or what it went back to as a whole.

    Where the conversation alone went back, or single variables were taken from elsewhere, they go on from the parents.
    """
    if commit.kind not in ("undo", "redo", "rollback"):
        return commit.parents
    if commit.restores is None:
        is_before_all = commit.chat == NO_CHAT and all(one.how == "-" for one in commit.changed) and commit.changed
        return () if is_before_all else commit.parents
    is_part = commit.kind == "rollback" and commit.chat is not None
    return commit.parents if is_part else (commit.restores,)


def is_held(repo: Repository, head: ObjectId | None, commit: ObjectId) -> bool:
    """Whether the variables at `head` go on from a commit: nobody went back behind it, or elsewhere."""
    try:
        since_ns = repo.commit_at(commit).time_ns
        waiting = [] if head is None else [head]
        seen = set(waiting)
        while waiting:
            at = waiting.pop()
            if at == commit:
                return True
            found = repo.commit_at(at)
            further = [one for one in goes_on_from(found) if one not in seen] if found.time_ns >= since_ns else []
            seen.update(further)
            waiting += further
    except DamagedObjectError:  # it was forgotten, or what came after it
        return False
    return False


def undone_in(history: Iterable[Point], tips: Iterable[ObjectId]) -> frozenset[str]:
    """The runs that the tips lead to and that none of them goes on from. The history is newest first."""
    reached = set(tips)
    kept = set(reached)
    gone: set[str] = set()
    stays: set[str] = set()
    for one in history:
        if one.id in reached:
            reached.update(one.parents)
            if one.run:
                (stays if one.id in kept else gone).add(one.run)
        if one.id in kept:
            kept.update(one.goes_on)
    return frozenset(gone - stays)


def undone_since(repo: Repository, since_ns: int) -> frozenset[str]:
    """The runs of a repository that were taken back, of those that began after a moment."""
    heads = [head.commit for head in repo.heads().values() if head.branch is None and head.commit is not None]
    tips = list(dict.fromkeys([*repo.branches().values(), *heads]))
    return undone_in(_since(repo, tips, since_ns), tips)


class _Point:
    __slots__ = ("goes_on", "id", "parents", "run")

    def __init__(self, id: ObjectId, commit: Commit) -> None:
        self.id = id
        self.parents = commit.parents
        self.goes_on = goes_on_from(commit)
        self.run = commit.run


def _since(repo: Repository, tips: list[ObjectId], since_ns: int) -> Iterator[_Point]:
    for id, commit in repo.log(tips):
        if commit.time_ns < since_ns:
            return
        yield _Point(id, commit)
