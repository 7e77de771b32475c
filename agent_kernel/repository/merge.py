"""Merge three trees by name.

The unit of a merge is what has to move together: names that share a value on any side, and, where both sides changed
a class of the notebook differently, all names that need it. Keys in a unit are names and class entries alike (those
begin with NUL). A unit that one side changed is taken from that side; one that both changed differently is a conflict.
A variable that only one side created stays, whichever side is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_kernel.errors import DamagedObjectError, MergeChoiceError, NewerFormatError
from agent_kernel.repository.commits import Entry

if TYPE_CHECKING:
    from agent_kernel.repository.commits import Tree
    from agent_kernel.repository.repository import Repository


@dataclass(frozen=True)
class Conflict:
    """A name that both sides changed, or that is bound to one: what each of them has for it."""

    base: Entry | None
    ours: Entry | None
    theirs: Entry | None
    theirs_classes: Mapping[str, Entry | None] = field(default_factory=dict[str, "Entry | None"])  # to take along
    partners: tuple[str, ...] = ()  # other names that have to be taken from the same side


@dataclass(frozen=True)
class TreeMerge:
    """What to change in our tree; nothing of a conflict is in it."""

    changes: dict[str, Entry | None]
    conflicts: dict[str, Conflict]


def merge_trees(
    repo: Repository,
    base: Tree,
    ours: Tree,
    theirs: Tree,
    *,
    choose_ours: Collection[str] = (),
    choose_theirs: Collection[str] = (),
) -> TreeMerge:
    """See `Repository.merge_trees`."""
    merge = _Merge(repo, base, ours, theirs)
    return merge.result(set(choose_ours), set(choose_theirs))


class _Merge:
    def __init__(self, repo: Repository, base: Tree, ours: Tree, theirs: Tree) -> None:
        self._repo = repo
        self._base, self._ours, self._theirs = base, ours, theirs
        self._by_us = _changes(base, ours)
        self._by_them = _changes(base, theirs)
        self._units = _Units(self._by_us.keys() | self._by_them.keys())
        self._join_groups()
        self._join_users_of_contested_classes()

    def result(self, choose_ours: set[str], choose_theirs: set[str]) -> TreeMerge:
        changes: dict[str, Entry | None] = {}
        conflicts: dict[str, Conflict] = {}
        for unit in self._units.all():
            taken, contested = self._settle(unit, choose_ours, choose_theirs)
            changes.update((name, self._theirs.get(name)) for name in taken)
            if contested:
                conflicts.update(self._conflicts(unit, contested))
        self._bring_classes(changes)
        self._keep_classes(changes)
        for name in self._find_unused_classes(changes):
            if name in self._ours:
                changes[name] = None
            else:
                del changes[name]
        mine = {name: self._ours.get(name) for name in changes}
        return TreeMerge({name: entry for name, entry in changes.items() if entry != mine[name]}, conflicts)

    def _settle(
        self, unit: Collection[str], choose_ours: set[str], choose_theirs: set[str]
    ) -> tuple[Collection[str], Collection[str]]:
        """Returns the names of a unit that come from their side, and those in conflict."""
        made_by_us, made_by_them = self._find_new(unit, self._ours), self._find_new(unit, self._theirs)
        names = [name for name in unit if not name.startswith("\0")]
        of_both = [name for name in names if name not in made_by_us | made_by_them]
        # To choose a variable that only one side created does not settle the others, unless there are no others.
        for_ours = choose_ours.intersection(unit) - (made_by_us if of_both else set[str]())
        for_theirs = choose_theirs.intersection(unit) - (made_by_them if of_both else set[str]())
        _require_one_side(unit, for_ours, for_theirs)
        if not any(name in self._by_them for name in unit):
            return (), ()
        if for_ours:
            return made_by_them - for_ours, ()
        changed_by_us = any(name in self._by_us for name in unit)
        if changed_by_us and all(_is_same(self._ours.get(name), self._theirs.get(name)) for name in unit):
            return (), ()
        if not changed_by_us or for_theirs or self._is_classes_of_theirs(unit):
            kept = made_by_us - for_theirs
            return [name for name in unit if name not in kept], ()
        return (), of_both or names

    def _conflicts(self, unit: Iterable[str], names: Collection[str]) -> dict[str, Conflict]:
        taken = {name: self._theirs.get(name) for name in unit}
        self._bring_classes(taken)
        classes = {name: entry for name, entry in taken.items() if name.startswith("\0")}
        return {
            name: Conflict(
                self._base.get(name),
                self._ours.get(name),
                self._theirs.get(name),
                classes,
                partners=tuple(sorted(other for other in names if other != name)),
            )
            for name in names
        }

    def _find_new(self, unit: Iterable[str], side: Tree) -> set[str]:
        """The names that only this side created. They keep their values, as if a cell bound anew the names they share objects with."""
        other = self._theirs if side is self._ours else self._ours
        new = {name: side.get(name) for name in unit if name not in other and name not in self._base}
        found = {name: entry for name, entry in new.items() if entry is not None and not name.startswith("\0")}
        values = {entry.shared_value for entry in found.values()} - {None}
        # And classes that are saved together with them.
        return found.keys() | {
            name for name, entry in new.items() if entry is not None and entry.shared_value in values
        }

    def _join_groups(self) -> None:
        names = list(self._units.names())
        for tree in (self._base, self._ours, self._theirs):
            groups: dict[object, str] = {}
            for name in names:
                entry = tree.get(name)
                group = None if entry is None else entry.shared_value
                if group is not None:
                    self._units.join(name, groups.setdefault(group, name))

    def _find_contested(self) -> list[str]:
        """Class entries that both sides changed, and not to the same."""
        both = self._by_us.keys() & self._by_them.keys()
        return [name for name in both if name.startswith("\0") and not _is_same(self._by_us[name], self._by_them[name])]

    def _join_users_of_contested_classes(self) -> None:
        for contested in self._find_contested():
            ours, theirs = self._users(self._ours, contested), self._users(self._theirs, contested)
            if ours and theirs:
                for name in ours | theirs:
                    self._units.join(name, contested)

    def _is_classes_of_theirs(self, unit: Iterable[str]) -> bool:
        """Whether the unit is a contested class that no value of ours needs."""
        names = list(unit)
        return all(name.startswith("\0") for name in names) and not any(self._users(self._ours, name) for name in names)

    def _users(self, tree: Tree, needed: str) -> set[str]:
        return {name for name, entry in tree.items() if needed in self._needs(entry) and name != needed}

    def _needs(self, entry: Entry | None) -> tuple[str, ...]:
        return () if entry is None or not (entry.value or entry.manifest) else self._repo.read_manifest(entry).classes

    def _bring_classes(self, changes: dict[str, Entry | None]) -> None:
        """Take along what the values taken from them need and we do not have."""
        waiting = list(changes.values())
        while waiting:
            for needed in self._needs(waiting.pop()):
                if changes.get(needed) is None and (needed in changes or needed not in self._ours):
                    changes[needed] = self._theirs.get(needed)
                    if changes[needed] is not None:
                        waiting.append(changes[needed])

    def _keep_classes(self, changes: dict[str, Entry | None]) -> None:
        """Do not delete, as they did, a class that a value of ours needs."""
        removed = [name for name, entry in changes.items() if entry is None and name.startswith("\0")]
        if removed:
            unchanged = (
                self._ours.get(name) for name in self._by_us.keys() | self._by_them.keys() if name not in changes
            )
            needed = self._find_needed(unchanged, self._ours.get)
            for name in needed.intersection(removed):
                del changes[name]

    def _find_unused_classes(self, changes: Mapping[str, Entry | None]) -> set[str]:
        """Classes that come without the values that need them, and those of ours whose values all go."""

        def merged_entry(name: str) -> Entry | None:
            return changes[name] if name in changes else self._ours.get(name)

        try:
            freed = self._find_needed(map(self._ours.get, changes), self._ours.get) - changes.keys()
            brought = {name for name in changes if name.startswith("\0") and name not in self._ours}
            # What is saved together with a variable is that variable's too.
            alone = {
                name for name in brought | freed if (entry := merged_entry(name)) is not None and not entry.alias_group
            }
            alone -= self._find_needed((entry for name, entry in changes.items() if name not in alone), merged_entry)
            if alone & freed:
                stay = (entry for name, entry in self._ours.items() if name not in alone and name not in changes)
                alone -= self._find_needed(stay, merged_entry)
        except (DamagedObjectError, NewerFormatError):  # it cannot be told, and one too many does no harm
            return set()
        return alone

    def _find_needed(self, entries: Iterable[Entry | None], get: Callable[[str], Entry | None]) -> set[str]:
        """The classes that values need, and those that these need."""
        found: set[str] = set()
        waiting = list(entries)
        while waiting:
            more = set(self._needs(waiting.pop())) - found
            found |= more
            waiting += map(get, more)
        return found


def _require_one_side(unit: Collection[str], choose_ours: set[str], choose_theirs: set[str]) -> None:
    """Let nobody believe that what moves together could be taken from both sides."""
    ours, theirs = sorted(choose_ours.intersection(unit)), sorted(choose_theirs.intersection(unit))
    if ours and theirs:
        together = sorted(name for name in unit if not name.startswith("\0"))
        raise MergeChoiceError(tuple(together), tuple(ours), tuple(theirs))


class _Units:
    """Disjoint sets of names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def names(self) -> Collection[str]:
        return self._parent.keys()

    def join(self, one: str, other: str) -> None:
        self._parent.setdefault(one, one)
        self._parent.setdefault(other, other)
        self._parent[self._top(one)] = self._top(other)

    def all(self) -> list[list[str]]:
        units: dict[str, list[str]] = {}
        for name in sorted(self._parent):
            units.setdefault(self._top(name), []).append(name)
        return list(units.values())

    def _top(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name


def _changes(base: Tree, side: Tree) -> Mapping[str, Entry | None]:
    return {name: new for name, old, new in base.diff(side) if not _is_same(old, new)}


def _is_same(one: Entry | None, other: Entry | None) -> bool:
    return other is None if one is None else one.is_same_value(other)
