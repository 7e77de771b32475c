"""Dump what a cell may have touched, each name alone, and tell which groups look as they did.

A group that looks unchanged as a whole is not looked into further. Of one that changed each member is dumped alone, to
see what it reaches now and whether its own content is another.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.repository import Change, Entry, Unsaved
from agent_kernel.session import saving
from agent_kernel.session.tracking import LEAST_COST_S, Group, Tracking
from agent_kernel.values.aliases import Reach, ids_of_items
from agent_kernel.values.dump import Dump
from agent_kernel.values.entries import CLASS_PREFIX, class_entry
from agent_kernel.values.groups import Dumped, Layout, dump_group, is_same
from agent_kernel.values.lost import Unsavable
from agent_kernel.values.pickler import FOREIGN, explain, type_name
from agent_kernel.values.segments import is_long

if TYPE_CHECKING:
    from agent_kernel.session.living import Living


class Staged(msgspec.Struct):
    """What a commit will hold: new entries by name (None: gone), and what to say about them."""

    entries: dict[str, Entry | None] = msgspec.field(default_factory=dict[str, "Entry | None"])
    changes: dict[str, Change] = msgspec.field(default_factory=dict[str, Change])
    unsaved: dict[tuple[str, str], Unsaved] = msgspec.field(default_factory=dict[tuple[str, str], Unsaved])
    groups: list[Group] = msgspec.field(default_factory=list[Group])
    dropped: dict[int, Group] = msgspec.field(default_factory=dict[int, Group])  # by their ids: each once
    unchanged: list[tuple[Group, Dumped]] = msgspec.field(default_factory=list["tuple[Group, Dumped]"])
    interrupted: bool = False

    def drop(self, group: Group) -> None:
        """What was remembered of the group is no longer true."""
        self.dropped[id(group)] = group


class VanishedError(LookupError):
    """A name was bound when the look began and is not any more; the next commit sees that it was removed."""


class Dumps:
    """The dumps of one commit: `alone` by name, `joint` by the members of a group that was dumped together."""

    def __init__(
        self, namespace: dict[str, object], tracking: Tracking, living: Living, staged: Staged, everything: bool
    ) -> None:
        self.namespace = namespace
        self.tracking = tracking
        self.living = living
        self.staged = staged
        self.alone: dict[str, saving.Compared] = {}
        self.joint: dict[tuple[str, ...], saving.Compared] = {}
        self.owns: dict[str, bytes] = {}
        self.seen: set[str] = set()
        self.rebound: set[str] = set()
        self._everything = everything  # look for sharing in all of a long container, not only where it is new
        self._class_objects: dict[str, type] = {}

    def add(self, names: Iterable[str], rebound: frozenset[str] = frozenset()) -> set[str]:
        """Dump these names, and what they are grouped with; returns globals that new code uses, to be touched too."""
        follow: set[str] = set()
        self.rebound |= rebound
        todo = [name for name in names if name not in self.seen]
        while todo:
            name = todo.pop()
            if name in self.seen:
                continue
            if self.stays_unloaded(name):
                self.seen.add(name)
                continue
            group = self.tracking.groups.get(name)
            if group is not None and self._can_compare(group, rebound):
                self.seen.update(group.members)
                todo += self._check_group(group, follow)
            else:
                todo += [member for member in (group.members if group else ()) if member not in self.seen]
                self.seen.add(name)
                todo += self.dump_alone(name, follow)
        return follow

    def _can_compare(self, group: Group, rebound: frozenset[str]) -> bool:
        """Whether the group is bound as it was when it was dumped."""
        if group.stale or group.unloaded is not None or rebound & set(group.members):
            return False
        return all(self.is_there(name) for name in group.members)

    def stays_unloaded(self, name: str) -> bool:
        """Whether the name is still bound to what stands for a value that could not be loaded: its entry stays."""
        group = self.tracking.groups.get(name)
        if group is None or group.unloaded is None:
            return False
        if name.startswith(CLASS_PREFIX):
            return True
        return self.namespace.get(name, self) is group.unloaded.placeholders[name]

    def is_there(self, name: str) -> bool:
        if name.startswith(CLASS_PREFIX):
            return self.class_of(name) is not None
        return name in self.namespace

    def class_of(self, entry: str) -> type | None:
        return self._class_objects.get(entry) or self.living.classes.live(entry.removeprefix(CLASS_PREFIX))

    def value(self, name: str) -> object:
        """What the name is bound to; raises VanishedError if a thread or a reducer took it away meanwhile."""
        if name.startswith(CLASS_PREFIX):
            return self.class_of(name)
        value = self.namespace.get(name, self)
        if value is self:
            raise VanishedError(name)
        return value

    def values(self, names: Iterable[str]) -> dict[str, object] | None:
        """The values of all these names; None if one of them is gone by now."""
        try:
            return {name: self.value(name) for name in names}
        except VanishedError:
            return None

    def _check_group(self, group: Group, follow: set[str]) -> list[str]:
        """Dump a group whose names are bound as they were. Unchanged as a whole means unchanged."""
        members = self.values(group.members)
        if members is not None and self._is_same(group, members):
            return []
        together = len(group.members) > 1
        compared = None if members is None else self.dump(members, group, defer=together)
        if compared is None:
            return []
        used = compared.dumped.dump.globals_used
        # What known code uses was followed when the cell named it, and is not followed from a look in the background.
        follow |= used - group.globals_used if compared.signature == group.signature else used
        if compared.signature == group.signature:
            if not compared.dumped.reach.deferred:
                # At once: ids may be others now, and sharing is judged by them.
                self.tracking.refresh(group, compared.dumped)
            group.digest = compared.dumped.digest
            self.staged.unchanged.append((group, compared.dumped))
            return self._new_classes(compared.dumped)
        if not together:
            self.alone[group.members[0]] = compared
            return self._new_classes(compared.dumped)
        if compared.dumped.layout.long >= 0:
            return self._split_around(group, compared, follow)
        self.staged.drop(group)
        self.joint[group.members] = compared
        return [name for member in group.members for name in self.dump_alone(member, follow)]

    def _is_same(self, group: Group, members: Mapping[str, object]) -> bool:
        """Whether this is a long container of atoms with the items that were saved: then it is not dumped."""
        if not group.digest:
            return False
        busy = time.thread_time()
        (value,) = members.values()
        if not is_same(value, group.digest, self.namespace):
            return False
        seconds = time.thread_time() - busy
        self.staged.unchanged.append((group, Dumped(Layout(), [], [], Dump(), group.reach, seconds=seconds)))
        return True

    def _split_around(self, group: Group, joint: saving.Compared, follow: set[str]) -> list[str]:
        """A long container and variables that hold parts of it changed: dump those alone, but not the long one."""
        found: list[str] = []
        long = group.members[joint.dumped.layout.long]
        cut = joint.dumped.segments
        for name in group.members:
            if name != long or cut is None or cut.shares:
                found += self.dump_alone(name, follow)
        if cut is None:
            return found
        if not cut.shares:  # alone it would be cut the same way
            reach = Reach(set(cut.reach.ids), [], complete=False)
            self.alone[long] = saving.Compared(msgspec.structs.replace(joint.dumped, reach=reach), [], [], b"")
            self.owns[long] = joint.own
        self.joint[group.members] = joint
        return found

    def dump_alone(self, name: str, follow: set[str]) -> list[str]:
        if not self.is_there(name) or self.stays_unloaded(name):
            return []
        members = self.values([name])
        compared = None if members is None else self.dump(members, self.tracking.groups.get(name))
        if compared is None:
            return []
        follow |= compared.dumped.dump.globals_used
        self.alone[name] = compared
        return self._new_classes(compared.dumped)

    def _new_classes(self, dumped: Dumped) -> list[str]:
        """Entries of classes that the value needs: their bodies are values too, and may have changed."""
        found: list[str] = []
        for uid, kind in dumped.dump.classes.items():
            entry = class_entry(uid)
            self._class_objects.setdefault(entry, kind)
            if entry not in self.seen:
                found.append(entry)
        return found

    def dump(
        self, members: Mapping[str, object], before: Group | None, *, defer: bool = False
    ) -> saving.Compared | None:
        """Dump and hash; what cannot be dumped at all is dumped as lost. None: interrupted, and left for the next cell."""
        began, busy = time.perf_counter(), time.thread_time()
        try:
            dumped = self._dump_or_lose(members, before, defer=defer and not self._everything)
            compared = saving.compare(dumped)
        except KeyboardInterrupt:
            self.interrupt(members, before)
            return None
        # No code of anyone else's ran for plain containers, so they waited for nothing but a busy machine.
        took = time.perf_counter() - began
        if took > LEAST_COST_S and not (dumped.dump.instances or dumped.dump.opaque):
            took = time.thread_time() - busy
        dumped.seconds = took
        return compared

    def _dump_or_lose(self, members: Mapping[str, object], before: Group | None, *, defer: bool) -> Dumped:
        groups = ((name, self.tracking.groups.get(name)) for name in members)
        cuts = {name: group.cuts[name] for name, group in groups if group is not None and name in group.cuts}
        known = before.marks if before and not self._everything else frozenset[bytes]()
        anchors = self._items_beside(members, before) if before is not None and known else ()
        named = before.reach.named if before is not None else ()
        try:
            return dump_group(
                members, self.living, self.namespace, cuts=cuts, known=known, anchors=anchors, named=named, defer=defer
            )
        except RecursionError:
            reason = "it is nested too deeply to be saved"
        except FOREIGN as error:
            reason = explain(error)
        replaced = {name: Unsavable(value, reason) for name, value in members.items()}
        return dump_group(replaced, self.living, self.namespace)

    def _items_beside(self, members: Mapping[str, object], group: Group) -> AbstractSet[int]:
        """What the long containers hold with which this one was saved: it is no news that they hold the same rows."""
        beside = [name for name in group.members if name not in members]
        if len(members) != 1 or not beside or not is_long(*members.values()):
            return frozenset()
        values = (self.values(beside) or {}).values()
        return set[int]().union(*(ids_of_items(value) for value in values if is_long(value)))

    def interrupt(self, members: Mapping[str, object], before: Group | None) -> None:
        self.staged.interrupted = True
        if before is not None:
            self.tracking.mark_stale(before)
        for name, value in members.items():
            if not name.startswith("\0"):
                unsaved = Unsaved(name, type_name(type(value)), "saving it was interrupted", "the next cell saves it")
                self.staged.unsaved[name, ""] = unsaved

    def let_go(self) -> None:
        """The commit is staged: drop copies of the items of long containers."""
        for dumped in (*(found.dumped for found in (*self.alone.values(), *self.joint.values())), *self._unchanged()):
            if dumped.segments is not None:
                dumped.segments.let_go()

    def _unchanged(self) -> Iterable[Dumped]:
        return (dumped for _, dumped in self.staged.unchanged)
