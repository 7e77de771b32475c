"""Turn what a cell touched into what its commit holds: dump, group, store, and say what changed."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from agent_kernel.repository import Change, Unsaved, Writer
from agent_kernel.session import saving
from agent_kernel.session.components import roots_of
from agent_kernel.session.dumping import Dumps, Staged
from agent_kernel.session.sharing import Sharing
from agent_kernel.session.tracking import NO_IDS, Group, Tracking, without
from agent_kernel.values import summaries
from agent_kernel.values.aliases import joined
from agent_kernel.values.dump import Dump
from agent_kernel.values.entries import CLASS_PREFIX, class_entry
from agent_kernel.values.groups import Dumped, Layout
from agent_kernel.values.pickler import type_name

if TYPE_CHECKING:
    from agent_kernel.session.living import Living
    from agent_kernel.values.surface import Held

LARGE_BYTES = 2_000_000_000


class Staging:
    """One pass over the touched names. `add` may be called again as more names come to light; then `finish`."""

    def __init__(
        self,
        namespace: dict[str, object],
        tracking: Tracking,
        living: Living,
        writer: Writer,
        everything: bool = False,
        stores_large: bool = False,
    ) -> None:
        self.namespace = namespace
        self.tracking = tracking
        self.writer = writer
        self.staged = Staged()
        self._stores_large = stores_large
        self._living = living
        self._dumps = Dumps(namespace, tracking, living, self.staged, everything)

    def leave_out(self, names: Iterable[str]) -> None:
        """Dump none of these, whatever they are grouped with: names that are gone, or ignored by now though still bound."""
        self._dumps.seen.update(names)

    @property
    def left_alone(self) -> AbstractSet[str]:
        """Names that were not looked at, because code names only data that they are grouped with."""
        return self._dumps.left_alone

    def add(
        self, names: Iterable[str], rebound: frozenset[str] = frozenset(), grouped: frozenset[str] = frozenset()
    ) -> set[str]:
        """Dump these names, and what they are grouped with; returns globals that new code uses, to be touched too.

        Args:
            grouped: of the names those that no code names.
        """
        return self._dumps.add(names, rebound, grouped)

    def finish(self, removed: Iterable[str], needed: Collection[str] = ()) -> Staged:
        """Regroup, store, and say what changed. `needed`: ids of classes that stay, whatever becomes of their instances."""
        gone = frozenset(name for name in removed if name in self.tracking.groups)
        sharing = Sharing(self._dumps, gone)
        sharing.settle()
        held = self._dumps.held_live()
        for names in sharing.clusters():
            self._stage(sorted(names), held)
        for name, value in self._dumps.atoms.items():
            self._stage_atom(name, value)
        for name in sorted(gone):
            self._remove(name)
        self._keep_unloaded()
        self._drop_unused_classes(needed)
        self._dumps.let_go()
        return self.staged

    def _stage(self, names: list[str], held: Held) -> None:
        names = [name for name in names if self._dumps.is_there(name)]  # a reducer may have deleted it
        members = self._dumps.values(names)
        if not members:
            return
        before = {name: self.tracking.groups.get(name) for name in names}
        group = before[names[0]]
        same_members = group is not None and list(group.members) == names
        compared = self._dumps.joint.get(tuple(names))
        if compared is None and len(names) == 1 and names[0] not in self._dumps.owns:
            compared = self._whole(names[0])
        compared = compared or self._dumps.dump(members, self._longest(names), defer=True)
        if compared is None:
            return
        if compared.dumped.reach.deferred:  # each member was walked, or is known to share with one that was
            compared.dumped.reach = joined([self._dumps.alone[name].dumped.reach for name in names])
        shared = held.shared_with(compared.dumped.reach) if held else NO_IDS
        same = same_members and group is not None and compared.signature == group.signature and group.pins == shared
        if same and group is not None and not group.stale:
            self.staged.unchanged.append((group, compared.dumped))
            return
        if self._hold_back(names, members, compared):
            return
        own = {name: self._dumps.owns.get(name) or self._own_of(name, members[name]) for name in names}
        try:
            sizes = {name: alone.size for name in names if (alone := self._dumps.alone.get(name)) is not None}
            roots = {name: roots_of(alone.dumped.dump) for name in names if (alone := self._dumps.alone.get(name))}
            pins = self._dumps.pins_of(members, compared, shared) if shared else {}
            whole = self._dumps.as_stored(members, compared, pins)
            before_it = group if same_members else None
            losing = {name: self._losses_of(name) for name in names} if compared.dumped.dump.losses else {}
            made = saving.save(self.writer, compared, members, before_it, own, sizes, roots, losing, whole)
        except KeyboardInterrupt:
            self._dumps.interrupt(members, group)
            return
        made.pins = frozenset(shared) or NO_IDS
        made.cost_s = compared.dumped.seconds
        made.data = self._dumps.data_among(members)
        if compared.dumped.segments is None and len(names) > 1:  # each long one was cut for its own content alone
            for name in names:
                dumped = self._dumps.alone[name].dumped
                if dumped.segments is not None:
                    # Not in place: groups that were not cut have one dict in common.
                    made.cuts = made.cuts | saving.cuts_of(dumped, {name: members[name]})
                    made.marks |= dumped.segments.marks
        self._record(names, before, made)

    def _stage_atom(self, name: str, value: object) -> None:
        group = self.tracking.groups.get(name)
        try:
            made = saving.save_atom(self.writer, name, value)
        except KeyboardInterrupt:
            self._dumps.interrupt({name: value}, group)
            return
        if group is not None and group.signature == made.signature and not group.stale:
            self.staged.unchanged.append((group, Dumped(Layout(), [], [], Dump(), group.reach)))
        else:
            self._record([name], {name: group}, made)

    def _hold_back(self, names: list[str], members: Mapping[str, object], compared: saving.Compared) -> bool:
        """A value of gigabytes is asked about once, before it fills the disk."""
        size = compared.size
        if self._stores_large or size <= LARGE_BYTES or any(name in self.tracking.groups for name in names):
            return False
        for name in names:
            reason = f"it takes {summaries.size_text(size)}"
            remedy = "%agent commit --full stores it, %agent ignore leaves it out"
            self.staged.unsaved[name, ""] = Unsaved(name, type_name(type(members[name])), reason, remedy)
        return True

    def _longest(self, names: list[str]) -> Group | None:
        """The group whose segments are known: that of the long container among the names, if there is one."""
        groups = [group for name in names if (group := self.tracking.groups.get(name)) is not None]
        return max(groups, key=lambda group: len(group.marks), default=None)

    def _record(self, names: list[str], before: Mapping[str, Group | None], made: Group) -> None:
        self.staged.groups.append(made)
        for group in before.values():
            if group is not None:
                self.staged.drop(group)
        regrouped = any(group is None or set(group.members) != set(names) for group in before.values())
        moved: list[str] = []
        for name in names:
            self.staged.entries[name] = made.entries[name]
            group = before[name]
            if group is None:
                self._note_change(name, "+", made)
            elif self._is_another(name, group, made) or (
                name in self._dumps.rebound and len(group.members) != len(names)
            ):
                moved.append(name)  # another content, or bound to an object that is shared in another way
        stored = next(iter(before.values()))
        again = stored is not None and stored.stale and stored.signature == made.signature
        again = again or (stored is not None and stored.pins != made.pins)
        if not moved and not regrouped and not again:  # same contents, but shared in another way
            moved = [name for name in names if before[name] is not None]
        for name in moved:
            self._note_change(name, "~", made)
        for unsaved in self._living.told_now(made.lost, made.losses):
            self.staged.unsaved[unsaved.name, unsaved.type + unsaved.reason] = unsaved

    def _own_of(self, name: str, value: object) -> bytes:
        return saving.own_of(value, self._dumps.alone[name])

    def _losses_of(self, name: str) -> set[str]:
        """Tokens of what cannot be saved, and a name leads to by itself."""
        alone = self._dumps.alone.get(name)
        if alone is None:
            return set()
        dump = alone.dumped.dump
        return set(dump.losses).union(*(component.dump.losses for component in dump.met))

    def _whole(self, name: str) -> saving.Compared | None:
        """What the name was dumped as by itself, if that can be stored."""
        alone = self._dumps.alone[name]
        return None if alone.dumped.dump.met else alone

    def _is_another(self, name: str, group: Group, made: Group) -> bool:
        return group.own_of(name) != made.own_of(name) and not self._dumps.is_as_before(name, group)

    def _note_change(self, name: str, how: str, made: Group) -> None:
        if not name.startswith(CLASS_PREFIX):
            self.staged.changes[name] = Change(name, how, self._size_of(name, made))
        elif how == "~":  # told of under the names that the class is bound to
            for bound in self._names_of_class(name):
                self.staged.changes.setdefault(bound, Change(bound, "~", made.size))

    def _size_of(self, name: str, made: Group) -> int:
        """Bytes of the name's own value, where it is saved together with others."""
        alone = self._dumps.alone.get(name)
        return made.size if alone is None or len(made.members) == 1 else min(alone.size, made.size)

    def _names_of_class(self, entry: str) -> list[str]:
        bound = self._bound_classes.get(id(self._dumps.class_of(entry)))
        users = bound or self.tracking.users_of(entry.removeprefix(CLASS_PREFIX))
        return [name for name in users if not name.startswith(CLASS_PREFIX)]

    @functools.cached_property
    def _bound_classes(self) -> dict[int, list[str]]:
        """The names that each class is bound to, by the class's id: one look at the namespace, however many changed."""
        found: dict[int, list[str]] = {}
        for name, value in list(self.namespace.items()):
            if name in self.tracking.groups and issubclass(type(value), type):
                found.setdefault(id(value), []).append(name)
        return found

    def _remove(self, name: str) -> None:
        group = self.tracking.groups[name]
        self.staged.drop(group)
        self.staged.entries[name] = None
        self.staged.changes[name] = Change(name, "-", 0)

    def _keep_unloaded(self) -> None:
        """Names that could not be loaded keep their entries when another of their group is bound anew, or removed."""
        for group in self.staged.dropped.values():
            rest = without(group, self.staged.entries)
            if rest is not None:
                self.staged.groups.append(rest)

    def _drop_unused_classes(self, needed: Collection[str]) -> None:
        """Entries of classes that nothing saved needs any more leave the tree."""
        if not self.tracking.class_entries:
            return
        uses = self.tracking.class_uses()
        dropped = frozenset(self.staged.dropped)
        for group in self.staged.dropped.values():
            for uid in group.classes:
                uses[uid] = uses.get(uid, 0) - 1
        for group in self.staged.groups:
            for uid in group.classes:
                uses[uid] = uses.get(uid, 0) + 1
        for group, dumped in self.staged.unchanged:
            for uid in set(dumped.dump.classes) - group.classes:
                uses[uid] = uses.get(uid, 0) + 1
        waiting = sorted(self.tracking.class_entries)
        while waiting:
            name = waiting.pop()
            group = self.tracking.groups[name]
            uid = name.removeprefix(CLASS_PREFIX)
            if uid in needed or len(group.members) > 1 or name in self.staged.entries:
                continue
            if uses.get(uid, 0) > int(uid in group.classes):
                continue
            self.staged.entries[name] = None
            if id(group) in dropped:
                continue
            self.staged.drop(group)
            for base in group.classes:  # it may have been the last that needed these
                uses[base] -= 1
            waiting += sorted(self.tracking.class_entries.intersection(map(class_entry, group.classes)))
