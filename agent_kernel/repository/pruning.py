"""Keep fewer commits, by a policy that says which matter."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from agent_kernel.repository.commits import Commit
from agent_kernel.repository.ids import ObjectId
from agent_kernel.repository.rewriting import Plan, rewrite, tips

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository


REASONS: Final = ("newest", "HEAD", "tagged", "young", "named")
_SPEAKING: Final = frozenset({"undo", "redo", "rollback"})
_BY_ITSELF: Final = ("changes that no cell had committed yet", "forget ", "merge ")


@dataclass(frozen=True)
class Retention:
    """Which commits to keep. The last commit of every branch stays in any case."""

    keep_last: int | None = None  # of every branch
    keep_days: float | None = None  # the younger ones
    keep_tagged: bool = True  # if not, tags whose commits go are deleted
    keep_named: bool = True  # those that somebody gave a message


@dataclass(frozen=True)
class PruneReport:
    """What was pruned, or would have been.

    Attributes:
        reasons: how many commits are kept for which reason; each counts once, for the first that fits.
    """

    kept: int
    dropped: int
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    moved: dict[ObjectId, ObjectId] = field(default_factory=dict[ObjectId, ObjectId])  # new ids by old ones
    objects_deleted: int = 0
    bytes_freed: int = 0
    is_collected: bool = True  # if not, the disk was too full to delete what was dropped, and a collection has to


def prune(repo: Repository, policy: Retention, dry_run: bool = False) -> PruneReport:
    """See `Repository.prune`."""
    reasons = _reasons(repo, policy)
    counts = Counter(reasons.values())
    told = {reason: counts[reason] for reason in REASONS if counts[reason]}
    if dry_run:
        total = sum(1 for _ in repo.history.walk(tips(repo)))
        return PruneReport(len(reasons), total - len(reasons), told)
    # What is committed while this goes on is new, and stays.
    known = {id for id, _ in repo.history.walk(tips(repo))}
    result = rewrite(repo, Plan(keeps=lambda id, commit: id in reasons or id not in known, renews=True))
    kept = len(result.places) - len(result.dropped)
    return PruneReport(
        kept,
        len(result.dropped),
        told,
        result.moved,
        result.objects_deleted,
        result.bytes_freed,
        result.is_collected,
    )


def _reasons(repo: Repository, policy: Retention) -> dict[ObjectId, str]:
    """The commits to keep, each with the first reason for it."""
    found: dict[ObjectId, str] = {}
    for tip in repo.branches().values():
        last = repo.history.walk([tip], first_parent=True)
        for id, _ in islice(last, max(policy.keep_last or 1, 1)):
            found.setdefault(id, "newest")
    for head in repo.heads().values():
        if head.commit is not None:
            found.setdefault(head.commit, "HEAD")
    if policy.keep_tagged:
        for id in repo.tags().values():
            found.setdefault(id, "tagged")
    for id, commit in repo.history.walk(tips(repo)):
        if policy.keep_days is not None and time.time_ns() - commit.time_ns < policy.keep_days * 86_400e9:
            found.setdefault(id, "young")
        elif policy.keep_named and is_named(commit):
            found.setdefault(id, "named")
    return found


def is_named(commit: Commit) -> bool:
    """Whether somebody gave the commit its message: undo, rollback and the like write one by themselves."""
    return bool(commit.message) and commit.kind not in _SPEAKING and not commit.message.startswith(_BY_ITSELF)
