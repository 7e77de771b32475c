"""Which changes to name first: those of tables, models, single values and figures, then the others. See `summaries.interest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.errors import StoreError
from agent_kernel.repository import Change, Commit, Entry
from agent_kernel.session.history import size_of
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.session import Repository
    from agent_kernel.verbs.comparing import Differing

__all__ = ["Rank", "by_name", "live_ranks", "most_interesting_first", "rank_of", "ranks", "ranks_of"]

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


def most_interesting_first(repo: Repository, found: Sequence[Differing], most: int | None = None) -> list[Differing]:
    """What differs, in the one order in which changes are told: by interest, and the larger first; then what was removed.

    Args:
        most: so many at most, the largest.
    """
    places = {"~": 0, "+": 0, "-": 1, "=": 2}
    sizes = {one.name: max(0 if side is None else size_of(repo, side) for side in (one.old, one.new)) for one in found}
    told = sorted(found, key=lambda one: (places[one.how], -sizes[one.name]))[:most]
    rank = {one.name: rank_of(repo, one.new or one.old) for one in told}
    return sorted(told, key=lambda one: (places[one.how], rank[one.name]))


def live_ranks(namespace: Mapping[str, object], names: Iterable[str]) -> dict[str, int]:
    """The ranks of variables that are in memory."""
    first = [name for name, _ in zip(names, range(_MOST), strict=False)]
    return {name: summaries.interest(summaries.summarize(namespace[name], name)) for name in first if name in namespace}
