"""Which changes to name first: those of tables, models, single values and figures, then the others. See `summaries.interest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.errors import StoreError
from agent_kernel.repository import Change, Commit, Entry
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Rank", "by_name", "live_ranks", "rank_of", "ranks", "ranks_of"]

Rank = Callable[[str], int]

_MOST: Final = 64  # names whose kind is looked at, the largest first


def by_name(known: Mapping[str, int]) -> Rank:
    """The rank of a name; of one that is not known the last."""
    return lambda name: known.get(name, summaries.LEAST)


def ranks_of(repo: Repository, commit: Commit) -> dict[str, int]:
    """The ranks of what a commit changed."""
    return ranks(repo, commit.changed, commit)


def ranks(repo: Repository, changes: Sequence[Change], after: Commit) -> dict[str, int]:
    """The ranks of changed names. What was removed is not among them, and so comes last.

    Nothing is read where there is nothing to sort.
    """
    if len(changes) < 2:
        return {}
    looked_at = sorted(changes, key=lambda change: -change.size)[:_MOST]
    tree = repo.tree(after.tree)
    return {change.name: rank_of(repo, tree.get(change.name)) for change in looked_at if change.how != "-"}


def rank_of(repo: Repository, entry: Entry | None) -> int:
    """The rank of a stored value, by what was noted about it when it was committed."""
    try:
        stored = b"" if entry is None else repo.read_summary(entry)
        return summaries.interest(summaries.decode(stored)) if stored else summaries.LEAST
    except (StoreError, msgspec.MsgspecError):
        return summaries.LEAST


def live_ranks(namespace: Mapping[str, object], names: Iterable[str]) -> dict[str, int]:
    """The ranks of variables that are in memory."""
    first = [name for name, _ in zip(names, range(_MOST), strict=False)]
    return {name: summaries.interest(summaries.summarize(namespace[name], name)) for name in first if name in namespace}
