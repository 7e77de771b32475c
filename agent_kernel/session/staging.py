"""Find out what a cell changed: dump what it may have touched, regroup what shares objects, store what is new.

Each touched name is dumped alone, to see what it reaches and whether its own content changed; names that turn out to
share are dumped together. A group that looks unchanged as a whole is not looked into further. Sharing with names that
were not touched is judged by remembered ids, and settled by dumping those names too.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.repository import Change, Entry, Unsaved, Writer
from agent_kernel.session import saving
from agent_kernel.session.tracking import Group, Tracking
from agent_kernel.values import summaries
from agent_kernel.values.aliases import Reach, held_elsewhere, share
from agent_kernel.values.constants import library_constants, packages_of
from agent_kernel.values.entries import CLASS_PREFIX, class_entry
from agent_kernel.values.groups import Dumped, dump_group
from agent_kernel.values.lost import Unsavable
from agent_kernel.values.pickler import FOREIGN, explain, type_name

if TYPE_CHECKING:
    from agent_kernel.session.living import Living


LARGE_BYTES = 2_000_000_000


class Staged(msgspec.Struct):
    """What a commit will hold: new entries by name (None: gone), and what to say about them."""

    entries: dict[str, Entry | None] = msgspec.field(default_factory=dict[str, "Entry | None"])
    changes: dict[str, Change] = msgspec.field(default_factory=dict[str, Change])
    unsaved: dict[tuple[str, str], Unsaved] = msgspec.field(default_factory=dict[tuple[str, str], Unsaved])
    groups: list[Group] = msgspec.field(default_factory=list[Group])
    dropped: list[Group] = msgspec.field(default_factory=list[Group])
    unchanged: list[tuple[Group, Dumped]] = msgspec.field(default_factory=list["tuple[Group, Dumped]"])
    held_back: set[str] = msgspec.field(default_factory=set[str])


class Staging:
    """One pass over the touched names. `add` may be called again as more names come to light; then `finish`."""

    def __init__(
        self,
        namespace: dict[str, object],
        tracking: Tracking,
        living: Living,
        writer: Writer,
        allowed: Collection[str] = (),
        everything: bool = False,
    ) -> None:
        self.namespace = namespace
        self.tracking = tracking
        self.living = living
        self.writer = writer
        self.staged = Staged()
        self._allowed = allowed
        self._everything = everything  # look for sharing in all of a long container, not only where it is new
        self._removed: frozenset[str] = frozenset()
        self._rebound: set[str] = set()
        self._alone: dict[str, saving.Compared] = {}
        self._joint: dict[tuple[str, ...], saving.Compared] = {}
        self._owns: dict[str, bytes] = {}
        self._without_constants: set[str] = set()
        self._seen: set[str] = set()
        self._class_objects: dict[str, type] = {}

    def add(self, names: Iterable[str], rebound: frozenset[str] = frozenset()) -> set[str]:
        """Dump these names, and what they are grouped with; returns globals that new code uses, to be touched too."""
        follow: set[str] = set()
        self._rebound |= rebound
        todo = [name for name in names if name not in self._seen]
        while todo:
            name = todo.pop()
            if name in self._seen:
                continue
            group = self.tracking.groups.get(name)
            if group is not None and not group.stale and not rebound & set(group.members) and self._all_bound(group):
                self._seen.update(group.members)
                todo += self._check_group(group, follow)
            else:
                todo += [member for member in (group.members if group else ()) if member not in self._seen]
                self._seen.add(name)
                todo += self._dump_alone(name, follow)
        return follow

    def _all_bound(self, group: Group) -> bool:
        return all(self._is_there(name) for name in group.members)

    def _is_there(self, name: str) -> bool:
        if name.startswith(CLASS_PREFIX):
            return self._class(name) is not None
        return name in self.namespace

    def _class(self, entry: str) -> type | None:
        return self._class_objects.get(entry) or self.living.classes.live(entry.removeprefix(CLASS_PREFIX))

    def _value(self, name: str) -> object:
        return self._class(name) if name.startswith(CLASS_PREFIX) else self.namespace[name]

    # -- dumping

    def _check_group(self, group: Group, follow: set[str]) -> list[str]:
        """Dump a group whose names are bound as they were. Unchanged as a whole means unchanged."""
        members = {name: self._value(name) for name in group.members}
        compared = self._dump(members, group)
        if compared is None:
            return []
        follow |= compared.dumped.dump.globals_used
        if compared.signature == group.signature:
            # At once: ids may be others now, and sharing is judged by them.
            self.tracking.refresh(group, compared.dumped)
            self.staged.unchanged.append((group, compared.dumped))
            return self._new_classes(compared.dumped)
        if len(group.members) == 1:
            self._alone[group.members[0]] = compared
            return self._new_classes(compared.dumped)
        if compared.dumped.layout.long >= 0:
            return self._split_around(group, compared, follow)
        self.staged.dropped.append(group)
        self._joint[group.members] = compared
        return [name for member in group.members for name in self._dump_alone(member, follow)]

    def _split_around(self, group: Group, joint: saving.Compared, follow: set[str]) -> list[str]:
        """A long container and variables that hold parts of it changed: dump those alone, but not the long one."""
        found: list[str] = []
        long = group.members[joint.dumped.layout.long]
        cut = joint.dumped.segments
        for name in group.members:
            if name != long or cut is None:
                found += self._dump_alone(name, follow)
        if cut is not None:
            reach = Reach(set(cut.reach.ids), [], complete=False)
            self._alone[long] = saving.Compared(msgspec.structs.replace(joint.dumped, reach=reach), [], [], b"")
            self._owns[long] = joint.own
            self._joint[group.members] = joint
        return found

    def _dump_alone(self, name: str, follow: set[str]) -> list[str]:
        if not self._is_there(name):
            return []
        compared = self._dump({name: self._value(name)}, self.tracking.groups.get(name))
        if compared is None:
            return []
        follow |= compared.dumped.dump.globals_used
        self._alone[name] = compared
        return self._new_classes(compared.dumped)

    def _new_classes(self, dumped: Dumped) -> list[str]:
        """Entries of classes that the value needs: their bodies are values too, and may have changed."""
        found: list[str] = []
        for uid, kind in dumped.dump.classes.items():
            entry = class_entry(uid)
            self._class_objects.setdefault(entry, kind)
            if entry not in self._seen:
                found.append(entry)
        return found

    def _dump(self, members: Mapping[str, object], before: Group | None) -> saving.Compared | None:
        """Dump and hash; what cannot be dumped at all is dumped as lost. None: interrupted, and left for the next cell."""
        began = time.perf_counter()
        try:
            dumped = self._dump_or_lose(members, before)
            compared = saving.compare(dumped)
        except KeyboardInterrupt:
            self._interrupt(members, before)
            return None
        dumped.seconds = time.perf_counter() - began
        return compared

    def _dump_or_lose(self, members: Mapping[str, object], before: Group | None) -> Dumped:
        starts = before.starts if before else frozenset[int]()
        known = before.marks if before and not self._everything else frozenset[bytes]()
        try:
            return dump_group(members, self.living, self.namespace, starts=starts, known=known)
        except RecursionError:
            reason = "it is nested too deeply to be saved"
        except FOREIGN as error:
            reason = explain(error)
        replaced = {name: Unsavable(value, reason) for name, value in members.items()}
        return dump_group(replaced, self.living, self.namespace)

    def _interrupt(self, members: Mapping[str, object], before: Group | None) -> None:
        if before is not None:
            before.stale = True
        for name, value in members.items():
            if not name.startswith("\0"):
                unsaved = Unsaved(name, type_name(type(value)), "saving it was interrupted", "the next cell saves it")
                self.staged.unsaved[name, ""] = unsaved

    # -- grouping

    def finish(self, removed: Iterable[str]) -> Staged:
        """Regroup, store, and say what changed."""
        self._removed = frozenset(name for name in removed if name in self.tracking.groups)
        self._regroup_rest()
        self._walk_segments()
        self._settle_sharing()
        self._walk_segments()  # of the long ones that settling dumped
        for names in self._clusters():
            self._stage(sorted(names))
        for name in sorted(self._removed):
            self._remove(name)
        self._drop_unused_classes()
        for dumped in self._dumps():
            if dumped.segments is not None:
                dumped.segments.let_go()
        return self.staged

    def _regroup_rest(self) -> None:
        """A name that left a group changes how the others are stored, even if their bytes are equal."""
        for name in self._removed:
            self._dump_members(self.tracking.groups[name])

    def _settle_sharing(self) -> None:
        """Dump untouched groups that, by what was remembered, hold something in common with a dumped name."""
        unsettled = list(self._alone)
        while unsettled:
            name = unsettled.pop()
            for group in self._groups_sharing(name):
                unsettled += self._dump_members(group)

    def _groups_sharing(self, name: str) -> list[Group]:
        dumped = self._alone[name].dumped
        others = [group for group in self.tracking.sharing(dumped.reach) if name not in group.members]
        if not others:
            return [group for group in self.tracking.sharing(dumped.reach) if name in group.members]
        self._leave_constants(name)
        return list(self.tracking.sharing(dumped.reach))

    def _leave_constants(self, name: str) -> None:
        """What libraries hold is not shared by the values that use it. Looked up only where something seems shared."""
        dumped = self._alone[name].dumped
        if name in self._without_constants:
            return
        self._without_constants.add(name)
        constants = library_constants(packages_of((*dumped.dump.instances, *dumped.dump.opaque)))
        reach = dumped.reach
        shared = (constants & reach.ids) - {id(self._value(name))}
        if shared:
            reach.ids -= shared
            held = {id(use.holder): use for use in dumped.dump.memory}
            gone = {(use.space, use.low) for holder, use in held.items() if holder in shared}
            reach.memory = [use for use in reach.memory if (use.space, use.low) not in gone]

    def _dump_members(self, group: Group) -> list[str]:
        """Dump each member of a group alone, unless it was; returns those that were dumped."""
        fresh = [name for name in group.members if name not in self._alone and name not in self._removed]
        for name in fresh:
            self._seen.add(name)
            self.add(self._dump_alone(name, set()))
        return [name for name in fresh if name in self._alone]

    def _walk_segments(self) -> None:
        """Walk all of a long container when another dumped name may hold a part of it."""
        for name, dumped in self._long_ones():
            if dumped.segments is None or not dumped.segments.unwalked or not self._others_are_held(name):
                continue
            if dumped.segments.walk_rest():
                dumped.reach.ids |= dumped.segments.reach.ids
                group = self.tracking.groups.get(name)
                if group is not None and name not in self._alone:
                    self.tracking.refresh(group, dumped)
            else:
                whole = dump_group({name: self._value(name)}, self.living, self.namespace, whole=True)
                self._alone[name] = saving.compare(whole)

    def _dumps(self) -> Iterable[Dumped]:
        yield from (found.dumped for found in (*self._alone.values(), *self._joint.values()))
        yield from (dumped for _, dumped in self.staged.unchanged)

    def _long_ones(self) -> list[tuple[str, Dumped]]:
        dumped = [(name, found.dumped) for name, found in self._alone.items()]
        dumped += [(group.members[found.layout.long], found) for group, found in self.staged.unchanged]
        return [(name, found) for name, found in dumped if found.segments is not None]

    def _others_are_held(self, name: str) -> bool:
        # Whoever was dumped together with the long one was looked for in it already.
        beside = {member for members in self._joint if name in members for member in members}
        for other, compared in self._alone.items():
            if other == name or not compared.dumped.reach.ids or other in beside:
                continue
            # Held by the namespace, and by what remembers small values.
            if held_elsewhere([self._value(other)], compared.dumped.dump, holders=2):
                return True
        return False

    def _tell_constants(self) -> None:
        """Where two dumped names that were not saved together seem to share, leave out what libraries hold."""
        first: dict[int, str] = {}
        for name, compared in self._alone.items():
            group = self.tracking.groups.get(name)
            for item in compared.dumped.reach.ids:
                other = first.setdefault(item, name)
                if other != name and (group is None or other not in group.members):
                    self._leave_constants(name)
                    self._leave_constants(other)
                    break

    def _clusters(self) -> list[list[str]]:
        """Names that share an object or memory, by union-find over what each reaches."""
        parent = {name: name for name in self._alone}

        def find(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        self._tell_constants()
        holder: dict[int, str] = {}
        with_memory: list[str] = []
        for name, compared in self._alone.items():
            reach = compared.dumped.reach
            for item in reach.ids:
                first = holder.setdefault(item, name)
                if first != name:
                    parent[find(name)] = find(first)
            if reach.memory:
                with_memory.append(name)
        for position, name in enumerate(with_memory):
            for other in with_memory[:position]:
                if find(name) != find(other) and share(self._alone[name].dumped.reach, self._alone[other].dumped.reach):
                    parent[find(name)] = find(other)
        clusters: dict[str, list[str]] = {}
        for name in self._alone:
            clusters.setdefault(find(name), []).append(name)
        return list(clusters.values())

    # -- storing

    def _stage(self, names: list[str]) -> None:
        names = [name for name in names if self._is_there(name)]  # a reducer may have deleted it
        if not names:
            return
        before = {name: self.tracking.groups.get(name) for name in names}
        group = before[names[0]]
        same_members = group is not None and list(group.members) == names
        members = {name: self._value(name) for name in names}
        compared = self._joint.get(tuple(names))
        if compared is None and len(names) == 1 and names[0] not in self._owns:
            compared = self._alone[names[0]]
        compared = compared or self._dump(members, self._longest(names))
        if compared is None:
            return
        if same_members and group is not None and compared.signature == group.signature and not group.stale:
            self.staged.unchanged.append((group, compared.dumped))
            return
        if self._hold_back(names, members, compared):
            return
        own = {name: self._owns.get(name) or self._alone[name].own for name in names}
        try:
            made = saving.save(self.writer, compared, members, group if same_members else None, own)
        except KeyboardInterrupt:
            self._interrupt(members, group)
            return
        made.cost_s = compared.dumped.seconds
        self._record(names, before, made, compared.dumped)

    def _hold_back(self, names: list[str], members: Mapping[str, object], compared: saving.Compared) -> bool:
        """A value of gigabytes is asked about once, before it fills the disk."""
        size = compared.size
        if size <= LARGE_BYTES or any(name in self.tracking.groups or name in self._allowed for name in names):
            return False
        for name in names:
            self.staged.held_back.add(name)
            reason = f"it takes {summaries.size_text(size)}"
            remedy = "%agent commit --full stores it, %agent ignore leaves it out"
            self.staged.unsaved[name, ""] = Unsaved(name, type_name(type(members[name])), reason, remedy)
        return True

    def _longest(self, names: list[str]) -> Group | None:
        """The group whose cuts to keep: that of the long container among the names, if there is one."""
        groups = [group for name in names if (group := self.tracking.groups.get(name)) is not None]
        return max(groups, key=lambda group: len(group.starts), default=None)

    def _record(self, names: list[str], before: Mapping[str, Group | None], made: Group, dumped: Dumped) -> None:
        self.staged.groups.append(made)
        for group in before.values():
            if group is not None and all(group is not dropped for dropped in self.staged.dropped):
                self.staged.dropped.append(group)
        regrouped = any(group is None or set(group.members) != set(names) for group in before.values())
        moved: list[str] = []
        for name in names:
            self.staged.entries[name] = made.entries[name]
            group = before[name]
            if group is None:
                self._note_change(name, "+", made)
            elif group.own.get(name) != made.own[name] or (name in self._rebound and len(group.members) != len(names)):
                moved.append(name)  # another content, or bound to an object that is shared in another way
        if not moved and not regrouped:  # same contents, but shared in another way
            moved = [name for name in names if before[name] is not None]
        for name in moved:
            self._note_change(name, "~", made)
        for unsaved in saving.unsaved_of(dumped, names):
            self.staged.unsaved[unsaved.name, unsaved.type + unsaved.reason] = unsaved

    def _note_change(self, name: str, how: str, made: Group) -> None:
        if not name.startswith(CLASS_PREFIX):
            self.staged.changes[name] = Change(name, how, made.size)
        elif how == "~":  # told of under the names that the class is bound to
            for bound in self._names_of_class(name):
                self.staged.changes.setdefault(bound, Change(bound, "~", made.size))

    def _names_of_class(self, entry: str) -> list[str]:
        kind = self._class(entry)
        bound = [name for name, value in list(self.namespace.items()) if value is kind and name in self.tracking.groups]
        uid = entry.removeprefix(CLASS_PREFIX)
        users = [member for group in self.tracking if uid in group.classes for member in group.members]
        return bound or [name for name in users if not name.startswith(CLASS_PREFIX)]

    def _remove(self, name: str) -> None:
        group = self.tracking.groups[name]
        if all(group is not dropped for dropped in self.staged.dropped):
            self.staged.dropped.append(group)
        self.staged.entries[name] = None
        self.staged.changes[name] = Change(name, "-", 0)

    def _drop_unused_classes(self) -> None:
        """Entries of classes that nothing saved needs any more leave the tree."""
        if not self.tracking.class_entries:
            return
        uses = dict(self.tracking.class_uses)
        dropped = list({id(group): group for group in self.staged.dropped}.values())
        for group in dropped:
            for uid in group.classes:
                uses[uid] = uses.get(uid, 0) - 1
        for group in self.staged.groups:
            for uid in group.classes:
                uses[uid] = uses.get(uid, 0) + 1
        for group, dumped in self.staged.unchanged:
            for uid in set(dumped.dump.classes) - group.classes:
                uses[uid] = uses.get(uid, 0) + 1
        for name in sorted(self.tracking.class_entries):
            group = self.tracking.groups[name]
            uid = name.removeprefix(CLASS_PREFIX)
            own = uid in group.classes
            if uses.get(uid, 0) <= int(own) and len(group.members) == 1 and name not in self.staged.entries:
                self.staged.entries[name] = None
                if all(group is not other for other in dropped):
                    self.staged.dropped.append(group)
