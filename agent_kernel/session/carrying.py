"""Variables that the branch holds and memory does not: what a restarted kernel has not brought back.

Such names are *carried*: every commit keeps their entries as they are, until the person binds the name anew, brings it
back, or leaves it behind. The functions here say what else of a tree has to change when one of them stops being carried:
names that shared a value with it, and notebook classes that only it needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from agent_kernel.repository import Change, Entry, Repository, Tree
from agent_kernel.session.history import changes_between
from agent_kernel.values.entries import CLASS_PREFIX

NOTHING: frozenset[str] = frozenset()


def variables(carried: Iterable[str]) -> list[str]:
    """The carried names that a person would list."""
    return sorted(name for name in carried if not name.startswith("\0"))


def left_over(
    repo: Repository, tree: Tree, carried: frozenset[str], replaced: Collection[str]
) -> dict[str, Entry | None]:
    """What else to edit in the tree when `replaced` names are set or removed: nothing unless one of them was carried."""
    gone = carried.intersection(replaced)
    if not gone:
        return {}
    rest = carried - gone
    edits: dict[str, Entry | None] = dict(_regrouped(tree, gone, rest))
    classes = [name for name in rest if name.startswith(CLASS_PREFIX)]
    if classes:
        needed = needed_classes(repo, tree, rest)
        edits |= {name: None for name in classes if name not in needed}
    return edits


def _regrouped(tree: Tree, gone: Iterable[str], rest: Iterable[str]) -> dict[str, Entry]:
    """Entries of what shared a value with a name that is gone.

    A leader is always one of its own group: a name that comes to mean something else cannot be taken for one of them.
    """
    entries = (tree.get(name) for name in gone)
    torn = {(entry.leader, entry.manifest) for entry in entries if entry is not None and entry.leader}
    if not torn:
        return {}
    groups: dict[object, dict[str, Entry]] = {}
    for name in rest:
        entry = tree.get(name)
        if entry is not None and (entry.leader, entry.manifest) in torn:
            groups.setdefault((entry.leader, entry.manifest), {})[name] = entry
    return {
        name: msgspec.structs.replace(entry, leader=min(members) if len(members) > 1 else "")
        for members in groups.values()
        for name, entry in members.items()
    }


def needed_classes(repo: Repository, tree: Tree, names: Iterable[str]) -> set[str]:
    """The class entries that loading these variables takes."""
    grouped: dict[object, list[str]] = {}
    for name, of_class in tree.items(CLASS_PREFIX):
        if of_class.leader:
            grouped.setdefault((of_class.leader, of_class.manifest), []).append(name)
    needed: set[str] = set()
    todo = [name for name in names if not name.startswith(CLASS_PREFIX)]
    while todo:
        entry = tree.get(todo.pop())
        if entry is not None:
            partners = grouped.get((entry.leader, entry.manifest), []) if entry.leader else []
            found = {*repo.read_manifest(entry).classes, *partners} - needed
            needed |= found
            todo += found
    return needed


def live_changes(
    repo: Repository, old: Tree, new: Tree, before: Collection[str], after: Collection[str]
) -> tuple[Change, ...]:
    """What a move changes among the live variables, given what is carried before and after it."""
    changed = {change.name for change in changes_between(repo, old, new)}
    found: list[Change] = []
    for name in sorted(changed.union(variables(set(before).symmetric_difference(after)))):
        entry = new.get(name)
        was_live = name not in before and name in old
        if entry is None or name in after:
            if was_live:
                found.append(Change(name, "-", 0))
        elif not was_live or name in changed:
            found.append(Change(name, "~" if was_live else "+", repo.read_manifest(entry).size))
    return tuple(found)
