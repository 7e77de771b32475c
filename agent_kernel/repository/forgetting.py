"""Take a variable, or a commit, out of all history, and its bytes out of the store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.errors import NameNotFoundError, RefNotFoundError, StoreFullError, StoreUnavailableError
from agent_kernel.repository.ids import ObjectId, hex_of
from agent_kernel.repository.rewriting import Plan, Rewrite, rewrite, tips

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.tree import Tree


@dataclass(frozen=True)
class ForgetReport:
    """What was forgotten, and where more of it may be."""

    moved: dict[ObjectId, ObjectId]  # new ids by old ones
    objects_deleted: int
    bytes_freed: int
    erased: bool  # whether the store's file was rewritten too, so that its free space holds nothing of it
    shared_with: tuple[str, ...] = ()  # names that hold the same value, or did
    mentioned_in: tuple[ObjectId, ...] = ()  # commits, by their new ids, whose code speaks of the name


def forget_name(repo: Repository, name: str) -> ForgetReport:
    """See `Repository.forget_name`."""
    shared: set[str] = set()
    mentioned: set[ObjectId] = set()
    word = re.compile(rf"\b{re.escape(name)}\b")
    found = False
    for id, commit in repo.history.walk(tips(repo)):
        tree = repo.tree(commit.tree)
        mentions = {change.name for change in commit.changed} | {unsaved.name for unsaved in commit.unsaved}
        found |= name in tree or name in mentions
        shared |= _sharing(tree, name)
        if commit.cell is not None and word.search(commit.cell.source):
            mentioned.add(id)
    if not found:
        raise NameNotFoundError(name, "any commit")
    plan = Plan(edit=lambda writer, tree: tree.edit_rows(writer, {name: None}), drops=frozenset([name]))
    result = rewrite(repo, plan)
    places = tuple(sorted(result.moved.get(id, id) for id in mentioned))
    return _report(repo, result, tuple(sorted(shared)), places)


def forget_commit(repo: Repository, id: ObjectId) -> ForgetReport:
    """See `Repository.forget_commit`."""
    if id not in {found for found, _ in repo.history.walk(tips(repo))}:
        raise RefNotFoundError(hex_of(id), repo.refs.known())
    return _report(repo, rewrite(repo, Plan(keeps=lambda found, commit: found != id)))


def _sharing(tree: Tree, name: str) -> set[str]:
    entry = tree.get(name)
    if entry is None or not entry.leader:
        return set()
    value = (entry.leader, entry.manifest, entry.value)
    return {other for other, it in tree.items() if other != name and (it.leader, it.manifest, it.value) == value}


def _report(
    repo: Repository, result: Rewrite, shared: tuple[str, ...] = (), mentioned: tuple[ObjectId, ...] = ()
) -> ForgetReport:
    return ForgetReport(
        result.moved,
        result.objects_deleted,
        result.bytes_freed,
        _erase(repo),
        shared_with=shared,
        mentioned_in=mentioned,
    )


def _erase(repo: Repository) -> bool:
    compact = getattr(repo.store, "compact", None)
    if compact is None:
        return False
    try:
        compact()
    except (StoreUnavailableError, StoreFullError):
        return False
    return True
