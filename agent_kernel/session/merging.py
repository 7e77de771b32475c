"""Three-way merges: by variable in the repository, and here also inside dicts, key by key.

The values of a merge are dumped and stored aside before anything live changes, so that a merge happens whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from agent_kernel.errors import LoadError, MergeConflictError, NameNotFoundError, UnrelatedHistoriesError
from agent_kernel.repository import Conflict, Entry, ObjectId, Tree, Writer, short
from agent_kernel.session import keys, saving
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
    partial: bool,
) -> Outcome:
    """Compute the merge of `other` into `here`. `partial`: dicts that cannot be loaded are left as conflicts.

    Raises:
        UnrelatedHistoriesError, MergeConflictError, NameNotFoundError, LoadError: nothing was changed.
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
    dicts = _merge_dicts(
        repo, writer, workspace, (base, here, other), plain.conflicts, ours=ours, theirs=theirs, partial=partial
    )
    # Of a dict, a choice settles the keys that clash; of anything else, the whole value.
    settled = dicts.entries.keys()
    merged = repo.merge_trees(*trees, choose_ours=ours - settled, choose_theirs=theirs - settled)
    left = {name: found for name, found in merged.conflicts.items() if name not in dicts.entries}
    if left:
        raise MergeConflictError(
            tuple(
                row
                for name, found in sorted(left.items())
                for row in dicts.clashes.get(name) or [_described(repo, name, found)]
            )
        )
    changes: dict[str, Entry | None] = {**merged.changes, **dicts.entries}
    return Outcome(mine.edit(writer, changes) if changes else mine)


def _check_names(chosen: set[str], conflicts: Mapping[str, Conflict], mine: Tree, rev: str) -> None:
    for name in chosen:
        if name not in conflicts and name not in mine:
            raise NameNotFoundError(name, f"the conflicts with {rev}")


def _described(repo: Repository, name: str, conflict: Conflict) -> tuple[str, str, str]:
    return name, _summary(repo, conflict.ours), _summary(repo, conflict.theirs)


def _summary(repo: Repository, entry: Entry | None) -> str:
    return "deleted" if entry is None else summaries.line(summaries.decode(repo.read_summary(entry)))


class _Dicts(msgspec.Struct, frozen=True):
    """The dicts that could be merged key by key, and what clashes in the others."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    clashes: dict[str, list[tuple[str, str, str]]] = msgspec.field(
        default_factory=dict[str, "list[tuple[str, str, str]]"]
    )


def _merge_dicts(
    repo: Repository,
    writer: Writer,
    workspace: Workspace,
    commits: tuple[ObjectId, ObjectId, ObjectId],
    conflicts: Mapping[str, Conflict],
    *,
    ours: Collection[str],
    theirs: Collection[str],
    partial: bool,
) -> _Dicts:
    """Merge dicts that both sides changed: key by key, and keys that both changed as was chosen."""
    found = _Dicts()
    snapshots = [Snapshot(repo, commit, workspace.namespace) for commit in commits]
    for name, conflict in conflicts.items():
        sides = (conflict.base, conflict.ours, conflict.theirs)
        if any(side is None or side.leader for side in sides) or not all(_is_dict(repo, side) for side in sides):
            continue
        prefer: keys.Preference = "ours" if name in ours else "theirs" if name in theirs else ""
        try:
            was, mine, new = (snapshot[name] for snapshot in snapshots)
        except LoadError:
            if partial:
                continue
            raise
        made = keys.merge_keys(workspace, was, mine, new, prefer)
        if made is None:
            continue
        if made.clashes:
            found.clashes[name] = keys.described(name, made.clashes)
            continue
        compared = saving.compare(dump_group({name: made.merged}, workspace.living, workspace.namespace))
        group = saving.save(writer, compared, {name: made.merged}, None, {})
        found.entries[name] = group.entries[name]
    return found


def _is_dict(repo: Repository, entry: Entry | None) -> bool:
    return entry is not None and summaries.decode(repo.read_summary(entry)).type == "dict"
