"""Which dumped names share objects or memory, and so have to be saved as one value.

What was dumped in this commit is judged by what it reaches. Sharing with names that were not touched is judged by
remembered ids, and settled by dumping those names too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, combinations

import msgspec

from agent_kernel.session import saving
from agent_kernel.session.dumping import Dumps
from agent_kernel.session.tracking import MANY, Group
from agent_kernel.values.aliases import common_item, held_elsewhere, memory_pairs, share
from agent_kernel.values.groups import Dumped, dump_group, reach_of


class Sharing:
    """Settles what shares with what; `settle` first, then `clusters`."""

    def __init__(self, dumps: Dumps, removed: frozenset[str]) -> None:
        self._dumps = dumps
        self._removed = removed
        self._libraries: dict[str, list[str]] = {}  # by name: those whose constants are not left out yet
        self._partners: dict[str, set[str]] = {}

    def settle(self) -> None:
        """Dump whatever has to be looked at again before names can be grouped."""
        self._regroup_rest()
        self._look_at_equals()
        known = -1
        while known != len(self._dumps.alone):  # settling dumps long containers, which have to be walked in turn
            known = len(self._dumps.alone)
            self._look_at_held()
            self._pair_long_ones()
            self._walk_segments()
            self._walk_deferred()
            self._settle_sharing()

    def _regroup_rest(self) -> None:
        """A name that left a group changes how the others are stored, even if their bytes are equal."""
        for name in self._removed:
            self._dump_members(self._dumps.tracking.groups[name])

    def _look_at_equals(self) -> None:
        """What is equal to what was saved may be another object, and another name's: `rows[0] = row` for an equal row."""
        tracking = self._dumps.tracking
        for group, fresh in list(tracking.moved.values()):
            is_there = tracking.groups.get(group.members[0]) is group
            if is_there and tracking.may_share(group, fresh):
                self._dump_members(group)

    def _look_at_held(self) -> None:
        """What has come to be held by an object that cannot be saved is stored anew, so that it can be set back in place."""
        held = self._dumps.held_live()
        for group in self._dumps.tracking.holding_any(held) if held else ():
            if group.pins != held.shared_with(group.reach) and group.unloaded is None:
                self._dump_members(group)

    def _settle_sharing(self) -> None:
        """Dump untouched groups that, by what was remembered, hold something in common with a dumped name."""
        unsettled = list(self._dumps.alone)
        while unsettled:
            name = unsettled.pop()
            for group in self._groups_sharing(name):
                unsettled += self._dump_members(group)

    def _groups_sharing(self, name: str) -> list[Group]:
        sharing, reach = self._dumps.tracking.sharing, self._dumps.alone[name].dumped.reach
        self._leave_constants(name, lambda: any(name not in group.members for group in sharing(reach)))
        return list(sharing(reach))

    def _leave_constants(self, name: str, seems_shared: Callable[[], bool]) -> None:
        """What libraries hold is not shared by the values that use it. Looked up only where something seems shared."""
        dumped = self._dumps.alone[name].dumped
        reach, dumps = dumped.reach, [dumped.dump, *(component.dump for component in dumped.dump.met)]
        while seems_shared():
            from agent_kernel.values.constants import library_constants, packages_of

            if name not in self._libraries:
                found = packages_of(chain.from_iterable((*dump.instances, *dump.opaque) for dump in dumps))
                # First that of a figure: when it was looked into, most often nothing seems shared any more.
                first = packages_of(component.root for component in dumped.dump.met)
                self._libraries[name] = sorted(found, key=first.__contains__)
            if not self._libraries[name]:
                break
            package = self._libraries[name].pop()
            held = library_constants([package], reach.ids)
            if package in packages_of(component.root for component in dumped.dump.met):
                held |= self._settings_of_figures(package, reach.ids)
            shared = held - set(map(id, (self._dumps.values([name]) or {}).values()))
            if shared:
                reach.ids -= shared
                uses = {id(use.holder): use for dump in dumps for use in dump.memory}
                gone = {(use.space, use.low) for holder, use in uses.items() if holder in shared}
                reach.memory = [use for use in reach.memory if (use.space, use.low) not in gone]

    def _settings_of_figures(self, package: str, reached: set[int]) -> set[int]:
        """Settings that were made after the import, and that figures alone hold: what else has one may change it."""
        from agent_kernel.values.constants import settings_held

        found = settings_held([package], reached)
        if not found:
            return found
        groups = self._dumps.tracking.holding(found)
        others = [group.reach.ids for group in groups if not group.roots.keys() >= set(group.members)]
        dumped = (compared.dumped for compared in self._dumps.alone.values())
        others += [one.reach.ids for one in dumped if not one.dump.met]
        for ids in others:
            found = found - ids  # not in place: that would go through all of the other set
        return found

    def _dump_members(self, group: Group) -> list[str]:
        """Dump each member of a group alone, unless it was; returns those that were dumped."""
        fresh = [name for name in group.members if name not in self._dumps.alone and name not in self._removed]
        for name in fresh:
            self._dumps.seen.add(name)
            self._dumps.add(self._dumps.dump_alone(name, set()))
        return [name for name in fresh if name in self._dumps.alone]

    def _pair_long_ones(self) -> None:
        """Long containers that hold the same rows, as a list and an index of it do, need not be walked to know it."""
        for (name, one), (other, another) in combinations(self._long_ones(), 2):
            if other in self._partners.get(name, ()):
                continue
            values = self._dumps.values([name, other])
            item = common_item(*values.values()) if values and values[name] is not values[other] else None
            if item is not None:
                self._partners.setdefault(name, set()).add(other)
                self._partners.setdefault(other, set()).add(name)
                for paired, dumped in ((name, one), (other, another)):
                    self._dump_beside(paired, dumped)
                    if paired in self._dumps.alone:
                        found = self._dumps.alone[paired].dumped
                        # Not the set that the segments go on collecting in: they would take it for one of their own.
                        found.reach = msgspec.structs.replace(found.reach, ids=found.reach.ids | {item})

    def _dump_beside(self, name: str, dumped: Dumped) -> None:
        """Of a group that looked unchanged, take what it was dumped as for what its one member is alone."""
        group = self._dumps.tracking.groups.get(name)
        if name not in self._dumps.alone and group is not None:
            if len(group.members) == 1:
                self._dumps.alone[name] = saving.compare(dumped)
            else:
                self._dump_members(group)

    def _walk_deferred(self) -> None:
        """Walk a large group that looked unchanged when another dumped name may hold a part of it."""
        for group, dumped in self._dumps.staged.unchanged:
            if not dumped.reach.deferred or not self._others_are_held(*group.members):
                continue
            members = self._dumps.values(group.members)
            if members is not None:
                dumped.reach = reach_of(members, dumped.dump)
                self._dumps.tracking.refresh(group, dumped)

    def _walk_segments(self) -> None:
        """Walk all of what is cut into segments when another dumped name may hold a part of it."""
        for names, dumped in self._segmented():
            if dumped.segments is None or not dumped.segments.unwalked or not self._others_are_held(*names):
                continue
            name = names[0]
            group = self._dumps.tracking.groups.get(name)
            if dumped.segments.walk_rest():
                dumped.reach.ids |= dumped.segments.reach.ids
                if group is not None and name not in self._dumps.alone:
                    self._dumps.tracking.refresh(group, dumped)
            elif group is not None and len(names) > 1:
                self._dump_members(group)
            else:
                whole = dump_group(
                    {name: self._dumps.value(name)}, self._dumps.living, self._dumps.namespace, whole=True
                )
                self._dumps.alone[name] = saving.compare(whole)

    def _segmented(self) -> list[tuple[tuple[str, ...], Dumped]]:
        """What was cut into segments, and its names: of a long container and what holds its rows, that of the container."""
        dumped: list[tuple[tuple[str, ...], Dumped]] = []
        dumped += (((name,), found.dumped) for name, found in self._dumps.alone.items())
        for group, found in self._dumps.staged.unchanged:
            dumped.append((group.members if found.layout.within else (group.members[found.layout.long],), found))
        return [(names, found) for names, found in dumped if found.segments is not None]

    def _long_ones(self) -> list[tuple[str, Dumped]]:
        return [(names[0], found) for names, found in self._segmented() if not found.layout.within]

    def _others_are_held(self, *names: str) -> bool:
        # Whoever was dumped together with the long one was looked for in it already.
        joint = (members for members, found in self._dumps.joint.items() if found.dumped.layout.long >= 0)
        beside = {member for members in joint if names[0] in members for member in members}
        beside.update(names, self._partners.get(names[0], ()))
        for other, compared in self._dumps.alone.items():
            if not compared.dumped.reach.ids or other in beside:
                continue
            values = list((self._dumps.values([other]) or {}).values())
            # Held by the namespace and by `values`; and by what remembers small values, if it was bound before.
            holders = 1 if other in self._dumps.rebound else 2
            if compared.dumped.dump.met or held_elsewhere(values, compared.dumped.dump, holders):
                return True
        return False

    def _tell_constants(self) -> None:
        """Where two dumped names seem to share that were not saved together as they are, leave out what libraries hold."""
        for name, other in dict.fromkeys(self._meeting()):
            roots, others = self._roots_of(name), self._roots_of(other)
            if roots & others:  # they share a figure, whatever else
                continue
            group = self._dumps.tracking.groups.get(name)
            was_saved_with = group is not None and other in group.members
            # Names of two figures that were saved together led to one and the same before.
            if not was_saved_with or (roots and others) or not self._dumps.rebound.isdisjoint((name, other)):
                reaches = self._dumps.alone[name].dumped.reach, self._dumps.alone[other].dumped.reach
                for one in (name, other):
                    self._leave_constants(one, partial(share, *reaches))

    def _roots_of(self, name: str) -> set[int]:
        return {component.root_id for component in self._dumps.alone[name].dumped.dump.met}

    def _meeting(self) -> Iterator[tuple[str, str]]:
        """Pairs of names that reach an object in common: enough of them to tell which names belong together."""
        first: dict[int, str] = {}
        wide: list[str] = []
        for name, compared in self._dumps.alone.items():
            ids = compared.dumped.reach.ids
            for other in wide:  # an index of very many ids costs more than asking each of their few holders
                if not ids.isdisjoint(self._dumps.alone[other].dumped.reach.ids):
                    yield name, other
            if len(ids) > MANY:
                yield from ((name, first[item]) for item in first.keys() & ids)
                wide.append(name)
                continue
            for item in ids:
                other = first.setdefault(item, name)
                if other != name:
                    yield name, other

    def clusters(self) -> list[list[str]]:
        """Names that share an object or memory, by union-find over what each reaches."""
        parent = {name: name for name in self._dumps.alone}

        def find(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        self._tell_constants()
        for name, other in self._meeting():
            parent[find(name)] = find(other)
        for name, other in memory_pairs({name: found.dumped.reach.memory for name, found in self._dumps.alone.items()}):
            parent[find(name)] = find(other)
        clusters: dict[str, list[str]] = {}
        for name in self._dumps.alone:
            clusters.setdefault(find(name), []).append(name)
        return list(clusters.values())
