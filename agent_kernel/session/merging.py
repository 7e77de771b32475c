"""Three-way merges of states: by variable in the repository, and by value where both sides changed one (`settling`).

The values of a merge are dumped and stored aside before anything live changes, so that a merge happens whole or not at
all. A cherry-pick is the same merge from another base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from agent_kernel.errors import (
    MergeChoiceError,
    MergeCommitError,
    MergeConflictError,
    NameNotFoundError,
    UnrelatedHistoriesError,
)
from agent_kernel.repository import Conflict, Entry, ObjectId, Tree, Writer, short
from agent_kernel.session import settling
from agent_kernel.session.mergebases import start
from agent_kernel.session.settling import Choices, Sides
from agent_kernel.session.snapshot import Repository
from agent_kernel.session.workspace import Workspace
from agent_kernel.values import summaries


class Outcome(msgspec.Struct, frozen=True):
    """The merged tree (None: nothing to merge), and whether the branch only has to move forward."""

    tree: Tree | None
    note: str = ""
    fast_forward: bool = False


def merge(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    here: ObjectId | None,
    other: ObjectId,
    rev: str,
    choices: Choices,
) -> Outcome:
    """Compute the merge of `other`, which was called `rev`, into `here`.

    Raises:
        UnrelatedHistoriesError, MergeConflictError, MergeChoiceError, NameNotFoundError, LoadError: nothing was changed.
    """
    if here is None:
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    begin = start(repo, here, other)
    if begin.base is None:
        raise UnrelatedHistoriesError("HEAD", rev)
    if begin.up_to_date:
        return Outcome(None, f"already up to date with {rev}")
    if begin.fast_forward and choices.fast_forward and not (choices.ours or choices.theirs):
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    sides = Sides(choices.since or begin.base, here, other)
    return Outcome(_three_way(repo, writer, workspace, sides, rev, choices))


def pick(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    here: ObjectId | None,
    picked: ObjectId,
    rev: str,
    choices: Choices,
) -> Outcome:
    """Compute what `here` becomes with the change that `picked` made to its parent; a first commit's is all it holds.

    Raises:
        MergeCommitError: it has several parents.
        MergeConflictError, MergeChoiceError, NameNotFoundError, LoadError: nothing was changed.
    """
    parents = repo.commit_at(picked).parents
    if len(parents) > 1:
        raise MergeCommitError(rev, len(parents))
    sides = Sides(parents[0] if parents else None, here, picked)
    tree = _three_way(repo, writer, workspace, sides, rev, choices)
    if tree == repo.tree_at(here):
        return Outcome(None, f"nothing to cherry-pick: the changes of {rev} are here already")
    return Outcome(tree)


def _three_way(
    repo: Repository, writer: Writer, workspace: Workspace, sides: Sides, rev: str, choices: Choices
) -> Tree:
    base, mine, theirs = trees = (repo.tree_at(sides.base), repo.tree_at(sides.ours), repo.tree_at(sides.theirs))
    plain = repo.merge_trees(*trees)
    _check_choices(choices, plain.conflicts, mine, rev)
    settled = settling.settle(repo, writer, workspace, sides, plain.conflicts, choices)
    # Of a dict, a choice settles the keys that clash; of anything else, the whole value.
    done = settled.entries.keys()
    merged = repo.merge_trees(base, mine, theirs, choose_ours=choices.ours - done, choose_theirs=choices.theirs - done)
    left = {name: found for name, found in merged.conflicts.items() if name not in done}
    if left:
        raise conflict_of(repo, left, settled.clashes)
    changes: dict[str, Entry | None] = {**merged.changes, **settled.entries}
    return mine.edit(writer, changes) if changes else mine


def _check_choices(choices: Choices, conflicts: Mapping[str, Conflict], mine: Tree, rev: str) -> None:
    for name in choices.ours | choices.theirs:
        if name not in conflicts and name not in mine:
            raise NameNotFoundError(name, f"the conflicts with {rev}")
        if name in choices.ours and name in choices.theirs:
            raise MergeChoiceError((name,), (name,), (name,))


def conflict_of(
    repo: Repository,
    conflicts: Mapping[str, Conflict],
    clashes: Mapping[str, Sequence[tuple[str, str, str]]] = {},
) -> MergeConflictError:
    """The error that lists conflicts; `clashes` are rows that say more of some: the keys of a dict."""
    rows = (clashes.get(name) or [described(repo, name, found)] for name, found in sorted(conflicts.items()))
    groups = {tuple(sorted((name, *found.partners))) for name, found in conflicts.items() if found.partners}
    return MergeConflictError(tuple(row for found in rows for row in found), tuple(sorted(groups)))


def described(repo: Repository, name: str, conflict: Conflict) -> tuple[str, str, str]:
    """A conflict as an error lists it: the name, and what either side has."""
    return name, _summary(repo, conflict.ours), _summary(repo, conflict.theirs)


def _summary(repo: Repository, entry: Entry | None) -> str:
    stored = repo.read_summary(entry) if entry is not None else b""
    if not stored:
        return "removed" if entry is None else "not described"
    return summaries.line(summaries.decode(stored))
