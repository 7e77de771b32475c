"""Keep fewer commits, by a policy that says which matter."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from agent_kernel.repository.commits import Commit
from agent_kernel.repository.ids import ObjectId
from agent_kernel.repository.rewriting import Plan, rewrite, tips

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository


@dataclass(frozen=True)
class Retention:
    """Which commits to keep. The last commit of every branch stays in any case."""

    keep_last: int | None = None  # of every branch
    keep_days: float | None = None  # the younger ones
    keep_tagged: bool = True  # if not, tags whose commits go are deleted
    keep_named: bool = True  # those that somebody gave a message


@dataclass(frozen=True)
class PruneReport:
    """What was pruned, or would have been."""

    kept: int
    dropped: int
    moved: dict[ObjectId, ObjectId] = field(default_factory=dict[ObjectId, ObjectId])  # new ids by old ones
    objects_deleted: int = 0
    bytes_freed: int = 0


def prune(repo: Repository, policy: Retention, dry_run: bool = False) -> PruneReport:
    """See `Repository.prune`."""
    wanted = _wanted(repo, policy)

    def keeps(id: ObjectId, commit: Commit) -> bool:
        return id in wanted or _is_wanted(policy, commit)

    if dry_run:
        commits = list(repo.history.walk(tips(repo)))
        kept = sum(keeps(id, commit) for id, commit in commits)
        return PruneReport(kept, len(commits) - kept)
    result = rewrite(repo, Plan(keeps=keeps, renews=True))
    kept = len(result.places) - len(result.dropped)
    return PruneReport(kept, len(result.dropped), result.moved, result.objects_deleted, result.bytes_freed)


def _is_wanted(policy: Retention, commit: Commit) -> bool:
    if policy.keep_named and commit.message:
        return True
    return policy.keep_days is not None and time.time_ns() - commit.time_ns < policy.keep_days * 86_400e9


def _wanted(repo: Repository, policy: Retention) -> set[ObjectId]:
    wanted = {head.commit for head in repo.heads().values() if head.commit is not None}
    for tip in repo.branches().values():
        last = repo.history.walk([tip], first_parent=True)
        wanted.update(id for id, _ in islice(last, max(policy.keep_last or 1, 1)))
    if policy.keep_tagged:
        wanted.update(repo.tags().values())
    return wanted
