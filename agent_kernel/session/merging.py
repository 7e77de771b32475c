"""Three-way merges: by variable in the repository, and here also inside dicts, key by key.

The values of a merge are dumped and stored aside before anything live changes, so that a merge happens whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agent_kernel.errors import MergeConflictError, NameNotFoundError, UnrelatedHistoriesError
from agent_kernel.repository import Conflict, Entry, ObjectId, Tree, Writer, short
from agent_kernel.session import saving
from agent_kernel.session.snapshot import Repository, Snapshot
from agent_kernel.session.workspace import Workspace
from agent_kernel.values import summaries
from agent_kernel.values.groups import dump_group


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
    ours: set[str],
    theirs: set[str],
) -> Outcome:
    """Compute the merge of `other` into `here`.

    Raises:
        UnrelatedHistoriesError, MergeConflictError, NameNotFoundError: nothing was changed.
    """
    if here is None:
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    base = repo.merge_base(here, other)
    if base is None:
        raise UnrelatedHistoriesError("HEAD", rev)
    if base == other:
        return Outcome(None, f"already up to date with {rev}")
    if base == here and not (ours or theirs):
        return Outcome(repo.tree_at(other), f"fast-forward to {short(other)}", fast_forward=True)
    mine = repo.tree_at(here)
    trees = (repo.tree_at(base), mine, repo.tree_at(other))
    plain = repo.merge_trees(*trees)
    _check_names(ours | theirs, plain.conflicts, mine, rev)
    merged = repo.merge_trees(*trees, choose_ours=ours, choose_theirs=theirs)
    by_key = _merge_dicts(repo, writer, workspace, base, here, other, merged.conflicts)
    left = {name: found for name, found in merged.conflicts.items() if name not in by_key}
    if left:
        raise MergeConflictError(tuple(_described(repo, name, found) for name, found in sorted(left.items())))
    changes: dict[str, Entry | None] = {**merged.changes, **by_key}
    return Outcome(mine.edit(writer, changes) if changes else mine)


def _check_names(chosen: set[str], conflicts: Mapping[str, Conflict], mine: Tree, rev: str) -> None:
    for name in chosen:
        if name not in conflicts and name not in mine:
            raise NameNotFoundError(name, f"the conflicts with {rev}")


def _described(repo: Repository, name: str, conflict: Conflict) -> tuple[str, str, str]:
    return name, _summary(repo, conflict.ours), _summary(repo, conflict.theirs)


def _summary(repo: Repository, entry: Entry | None) -> str:
    return "deleted" if entry is None else summaries.line(summaries.decode(repo.read_summary(entry)))


def _merge_dicts(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    base: ObjectId,
    here: ObjectId,
    other: ObjectId,
    conflicts: Mapping[str, Conflict],
) -> dict[str, Entry]:
    """Merge dicts that both sides changed, where they changed different keys."""
    found: dict[str, Entry] = {}
    snapshots = [Snapshot(repo, commit, workspace.namespace) for commit in (base, here, other)]
    for name, conflict in conflicts.items():
        sides = (conflict.base, conflict.ours, conflict.theirs)
        if any(side is None or side.leader for side in sides) or not all(_is_dict(repo, side) for side in sides):
            continue
        merged = _by_key(workspace, *(snapshot[name] for snapshot in snapshots))
        if merged is not None:
            compared = saving.compare(dump_group({name: merged}, workspace.living, workspace.namespace))
            group = saving.save(writer, compared, {name: merged}, None, {})
            found[name] = group.entries[name]
    return found


def _is_dict(repo: Repository, entry: Entry | None) -> bool:
    return entry is not None and summaries.decode(repo.read_summary(entry)).type == "dict"


_GONE = object()


def _by_key(workspace: Workspace, *sides: Any) -> dict[object, object] | None:
    """The merged dict in our order, or None where both changed a key in different ways."""
    if not all(type(side) is dict for side in sides):
        return None
    prints = [_fingerprints(workspace, side) for side in sides]
    base, ours, theirs = sides
    merged: dict[object, object] = dict(ours)
    for key in [*base, *theirs]:
        was, mine, new = (found.get(key) for found in prints)
        if new in (was, mine):
            continue
        if mine != was:
            return None
        if new is None:
            merged.pop(key, None)
        else:
            merged[key] = theirs[key]
    return merged


def _fingerprints(workspace: Workspace, side: dict[object, object]) -> dict[object, bytes]:
    return {
        key: saving.compare(dump_group({"": value}, workspace.living, workspace.namespace)).signature
        for key, value in side.items()
    }
