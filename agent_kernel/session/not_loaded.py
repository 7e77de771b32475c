"""Variables that the branch holds and memory does not: what a restarted kernel has not brought back.

Every commit keeps the entries of such names as they are, until the person binds the name anew, loads it, or leaves it
behind. The functions here say what else of a tree changes with one of them:
names that shared a value with it, and notebook classes that only it needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec

from agent_kernel.errors import DamagedObjectError, NewerFormatError
from agent_kernel.repository import Change, Entry, ObjectId, Repository, Tree
from agent_kernel.session.history import changes_between, size_of, sort_changes
from agent_kernel.values import CLASS_PREFIX

NOTHING: frozenset[str] = frozenset()
ClassGroups: TypeAlias = dict[tuple[str, "ObjectId | None"], list[str]]


class NotLoaded:
    """What a branch held and memory did not, at one moment of a session.

    A session remembers one of these at each commit. So one keeps only how it differs from the one before it, and equal
    ones are the same object.
    """

    __slots__ = ("_added", "_before", "_removed")

    def __init__(
        self, names: frozenset[str] = NOTHING, before: NotLoaded | None = None, removed: frozenset[str] = NOTHING
    ) -> None:
        self._before, self._added, self._removed = before, names, removed

    def names(self) -> frozenset[str]:
        """The names that are not loaded."""
        moments: list[NotLoaded] = []
        moment: NotLoaded | None = self
        while moment is not None:
            moments.append(moment)
            moment = moment._before
        found: set[str] = set()
        for moment in reversed(moments):
            found -= moment._removed
            found |= moment._added
        return frozenset(found)

    def then(self, names: frozenset[str], was: frozenset[str] | None = None) -> NotLoaded:
        """The moment after this one, with these names. `was`: what `names` gives now, if that is known."""
        was = self.names() if was is None else was
        if names is was or names == was:
            return self
        added, removed = names - was, was - names
        return NotLoaded(added, self, removed) if len(added) + len(removed) < len(names) else NotLoaded(names)


ALL_LOADED = NotLoaded()


def variables(names: Iterable[str]) -> list[str]:
    """Those of the names that a person would list."""
    return sorted(name for name in names if not name.startswith("\0"))


def tree_edits(
    repo: Repository,
    tree: Tree,
    not_loaded: frozenset[str],
    staged: Mapping[str, Entry | None],
    ignored: Iterable[str],
) -> tuple[dict[str, Entry | None], frozenset[str]]:
    """What to edit in a tree that also holds what is not in memory, and which names that is from then on."""
    entries: dict[str, Entry | None] = dict(staged)
    dropped = [name for name, entry in entries.items() if entry is None and name.startswith(CLASS_PREFIX)]
    needed = find_needed_classes(repo, tree, not_loaded - staged.keys()).intersection(dropped) if dropped else NOTHING
    for name in needed:  # nothing in memory needs this class, but what is not loaded does
        del entries[name]
    entries |= dict.fromkeys(ignored)
    entries |= further_edits(repo, tree, not_loaded, entries)
    replaced = {name for name, entry in entries.items() if entry is None} | staged.keys()
    if not_loaded.isdisjoint(replaced) and not_loaded.issuperset(needed):
        return entries, not_loaded  # the same object: nothing has to find out again that it is equal
    return entries, (not_loaded - replaced) | needed


def compare_not_loaded(
    tree: Tree, not_loaded: frozenset[str], entries: Mapping[str, Entry | None], changes: Mapping[str, Change]
) -> tuple[Change, ...]:
    """The changes, with names that were not loaded compared with what the branch holds of them."""
    found = dict(changes)
    for name in not_loaded.intersection(entries):
        entry, before = entries[name], tree.get(name)
        if name not in found and entry is None and not name.startswith("\0"):
            found[name] = Change(name, "-", 0)
        elif name in found and before is not None:
            change = found.pop(name)
            if not before.is_same_value(entry):
                found[name] = Change(name, "~", change.size)
    return sort_changes(found.values())


def further_edits(
    repo: Repository, tree: Tree, not_loaded: frozenset[str], replaced: Collection[str]
) -> dict[str, Entry | None]:
    """What else to edit in the tree when `replaced` names are set or removed: nothing unless one of them was not loaded."""
    removed = not_loaded.intersection(replaced)
    if not removed:
        return {}
    rest = not_loaded - removed
    edits: dict[str, Entry | None] = dict(_regroup(tree, removed, rest))
    classes = find_needed_classes(repo, tree, removed) & rest
    if classes:
        edits |= dict.fromkeys(classes - find_needed_classes(repo, tree, rest))
    return edits


def _regroup(tree: Tree, removed: Iterable[str], rest: Iterable[str]) -> dict[str, Entry]:
    """Entries of what shared a value with a name that is gone.

    An alias group is named after one of its own members: a name that comes to mean something else cannot be taken for one of them.
    """
    entries = (tree.get(name) for name in removed)
    torn = {(entry.alias_group, entry.manifest) for entry in entries if entry is not None and entry.alias_group}
    if not torn:
        return {}
    groups: dict[object, dict[str, Entry]] = {}
    for name in rest:
        entry = tree.get(name)
        if entry is not None and (entry.alias_group, entry.manifest) in torn:
            groups.setdefault((entry.alias_group, entry.manifest), {})[name] = entry
    return {
        name: msgspec.structs.replace(entry, alias_group=min(members) if len(members) > 1 else "")
        for members in groups.values()
        for name, entry in members.items()
    }


def class_groups(tree: Tree) -> ClassGroups:
    """The class entries of each value that several names share: all are read."""
    grouped: ClassGroups = {}
    for name, of_class in tree.items(CLASS_PREFIX):
        if of_class.alias_group:
            grouped.setdefault((of_class.alias_group, of_class.manifest), []).append(name)
    return grouped


def find_needed_classes(
    repo: Repository, tree: Tree, names: Iterable[str], grouped: ClassGroups | None = None
) -> set[str]:
    """Find the class entries that loading these variables takes; all there are where it cannot be told.

    Args:
        grouped: the `class_groups` of the tree, for who asks of many names one by one.
    """
    if grouped is None:
        grouped = class_groups(tree)
    needed: set[str] = set()
    todo = [name for name in names if not name.startswith(CLASS_PREFIX)]
    while todo:
        entry = tree.get(todo.pop())
        if entry is not None:
            partners = grouped.get((entry.alias_group, entry.manifest), []) if entry.alias_group else []
            try:
                classes = repo.read_manifest(entry).classes
            except (DamagedObjectError, NewerFormatError):
                return {name for name, _ in tree.items(CLASS_PREFIX)}
            found = {*classes, *partners} - needed
            needed |= found
            todo += found
    return needed


def live_changes(
    repo: Repository, old: Tree, new: Tree, before: Collection[str], after: Collection[str]
) -> tuple[Change, ...]:
    """What a move changes among the live variables, given what is not loaded before and after it."""
    changed = {change.name for change in changes_between(repo, old, new)}
    found: list[Change] = []
    for name in sorted(changed.union(variables(set(before).symmetric_difference(after)))):
        entry = new.get(name)
        was_live = name not in before and name in old
        if entry is None or name in after:
            if was_live:
                found.append(Change(name, "-", 0))
        elif not was_live or name in changed:
            found.append(Change(name, "~" if was_live else "+", size_of(repo, entry)))
    return tuple(found)
