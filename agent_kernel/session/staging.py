"""Turn what a cell touched into what its commit holds: serialize, find names that share, store, and say what changed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, cast

import msgspec

from agent_kernel.repository import (
    Blob,
    Change,
    Entry,
    Kind,
    Manifest,
    ObjectId,
    Pieces,
    Unsaved,
    Writer,
    address,
    encode,
    store_blob,
)
from agent_kernel.session.provenance import version_now
from agent_kernel.session.serialization import (
    Compared,
    Dumps,
    Staged,
    compare,
    compare_plain,
    own_of,
    roots_of,
    view_of,
)
from agent_kernel.session.tracking import (
    MANY,
    NO_CUTS,
    NO_IDS,
    NO_MARKS,
    NO_NAMES,
    NO_OWN,
    NO_OWN_MARKS,
    NO_PIECES,
    NO_RANGES,
    NO_ROOTS,
    Group,
    Roots,
    Tracking,
    without,
)
from agent_kernel.values import CLASS_PREFIX, class_entry, list_for_person, previews
from agent_kernel.values.aliases import (
    OPEN,
    MemoryUse,
    Reach,
    can_meet,
    common_item,
    find_possibly_shared,
    join_reaches,
)
from agent_kernel.values.definitions import DefinitionId
from agent_kernel.values.groups import Dumped, dump_group, dump_plain, encode_layout, reach_of
from agent_kernel.values.introspection import module_name, types_of
from agent_kernel.values.pickler import type_name
from agent_kernel.values.references import is_library, is_own, name_in, source_digest

if TYPE_CHECKING:
    from agent_kernel.session.tracking import Living
    from agent_kernel.values.segments import Cuts
    from agent_kernel.values.surface import Holdings


# -- which dumped names share objects or memory, and so have to be saved as one value
#
# What was dumped in this commit is judged by what it reaches. Sharing with names that were not touched is judged by
# remembered ids, and settled by dumping those names too.


class AliasGrouping:
    """Settles what shares with what; `settle` first, then `clusters`."""

    def __init__(self, dumps: Dumps, removed: frozenset[str]) -> None:
        self._dumps = dumps
        self._removed = removed
        self._libraries: dict[str, list[str]] = {}  # by name: those whose constants are not left out yet
        self._partners: dict[str, set[str]] = {}

    def dump_sharing(self) -> None:
        """Dump whatever has to be looked at again before names can be grouped."""
        self._regroup_rest()
        self._dump_moved()
        known = -1
        while known != len(self._dumps.by_name):  # settling dumps long containers, which have to be walked in turn
            known = len(self._dumps.by_name)
            self._dump_newly_savable()
            self._dump_newly_held()
            self._pair_long_ones()
            self._walk_segments()
            self._walk_deferred()
            self._dump_remembered_sharing()

    def _regroup_rest(self) -> None:
        """A name that left a group changes how the others are stored, even if their bytes are equal."""
        for name in self._removed:
            self._dump_members(self._dumps.tracking.groups[name])

    def _dump_moved(self) -> None:
        """What is equal to what was saved may be another object, and another name's: `rows[0] = row` for an equal row."""
        tracking = self._dumps.tracking
        for group, fresh in list(tracking.moved.values()):
            is_there = tracking.groups.get(group.members[0]) is group
            if is_there and tracking.may_share(group, fresh):
                self._dump_members(group)

    def _dump_newly_savable(self) -> None:
        """Other names for an object that can be saved from now on: what is not saved of a value is nothing that it reaches."""
        tracking = self._dumps.tracking
        gone: set[str] = set()
        for name, compared in list(self._dumps.by_name.items()):
            group = tracking.groups.get(name)
            if group is not None and group.save_failures:
                gone.update(failure.token for failure in group.save_failures)
                gone -= compared.dumped.dump.save_failures.keys()
        if gone:
            for group in list(tracking):
                if any(failure.token in gone for failure in group.save_failures):
                    self._dump_members(group)

    def _dump_newly_held(self) -> None:
        """What has come to be held by an object that cannot be saved is stored anew, so that it can be set back in place."""
        holdings = self._dumps.find_live_holdings()
        for group in self._dumps.tracking.find_groups_sharing(holdings) if holdings else ():
            if group.pins != holdings.find_shared(group.reach) and group.placeholders is None:
                self._dump_members(group)

    def _dump_remembered_sharing(self) -> None:
        """Dump untouched groups that, by what was remembered, hold something in common with a dumped name."""
        unsettled = list(self._dumps.by_name)
        while unsettled:
            name = unsettled.pop()
            for group in self._find_groups_sharing(name):
                if not self._dumps.join(group):
                    unsettled += self._dump_members(group)

    def _find_groups_sharing(self, name: str) -> list[Group]:
        find_sharing, reach = self._dumps.tracking.find_sharing, self._dumps.by_name[name].dumped.reach
        if not self._dumps.tracking.may_be_held(reach):
            return []
        found = list(find_sharing(reach))
        if all(name in group.members for group in found):
            return found
        self._leave_constants(name, lambda: any(name not in group.members for group in find_sharing(reach)))
        return list(find_sharing(reach))

    def _leave_constants(self, name: str, seems_shared: Callable[[], bool]) -> None:
        """What libraries hold is not shared by the values that use it. Looked up only where something seems shared."""
        dumped = self._dumps.find(name)
        reach, dumps = dumped.reach, [dumped.dump, *(component.dump for component in dumped.dump.met)]
        while seems_shared():
            from agent_kernel.values.libraries import library_constants, packages_of

            if name not in self._libraries:
                found = packages_of(chain.from_iterable((*dump.instances, *dump.opaque) for dump in dumps))
                # First that of a figure: when it was looked into, most often nothing seems shared any more.
                first = packages_of(component.root for component in dumped.dump.met)
                self._libraries[name] = sorted(found, key=first.__contains__)
            if not self._libraries[name]:
                break
            package = self._libraries[name].pop()
            constants = library_constants([package], reach.ids)
            if package in packages_of(component.root for component in dumped.dump.met):
                constants |= self._settings_of_figures(package, reach.ids)
            shared = constants - set(map(id, (self._dumps.values([name]) or {}).values()))
            if shared:
                reach.ids -= shared
                uses = {id(use.holder): use for dump in dumps for use in dump.memory}
                left_out = {(use.space, use.low) for holder, use in uses.items() if holder in shared}
                reach.memory = [use for use in reach.memory if (use.space, use.low) not in left_out]

    def _settings_of_figures(self, package: str, reached: set[int]) -> set[int]:
        """Settings that were made after the import, and that figures alone hold: what else has one may change it."""
        from agent_kernel.values.libraries import find_in_settings

        found = find_in_settings([package], reached)
        if not found:
            return found
        groups = self._dumps.tracking.find_holders(found)
        others = [group.reach.ids for group in groups if not group.roots.keys() >= set(group.members)]
        others += [one.reach.ids for one in self._dumps.by_group_or_name().values() if not one.dump.met]
        for ids in others:
            found = found - ids  # not in place: that would go through all of the other set
        return found

    def _dump_members(self, group: Group) -> list[str]:
        """Dump each member of a group alone, unless it was; returns those that were dumped."""
        fresh = [name for name in group.members if name not in self._dumps.by_name and name not in self._removed]
        for name in fresh:
            self._dumps.seen.add(name)
            self._dumps.add(self._dumps.dump_alone(name, set()))
        return [name for name in fresh if name in self._dumps.by_name]

    def _pair_long_ones(self) -> None:
        """Long containers that hold the same rows, as a list and an index of it do, need not be walked to know it."""
        for (name, one), (other, another) in combinations(self._long_ones(), 2):
            if other in self._partners.get(name, ()):
                continue
            values = self._dumps.values([name, other])
            if not values or values[name] is values[other]:
                continue
            item = common_item(values[name], values[other], one.dump)
            if item is not None:
                self._partners.setdefault(name, set()).add(other)
                self._partners.setdefault(other, set()).add(name)
                for paired, dumped in ((name, one), (other, another)):
                    self._dump_unchanged(paired, dumped)
                    if paired in self._dumps.by_name:
                        found = self._dumps.by_name[paired].dumped
                        # Not the set that the segments go on collecting in: they would take it for one of their own.
                        found.reach = msgspec.structs.replace(found.reach, ids=found.reach.ids | {item})

    def _dump_unchanged(self, name: str, dumped: Dumped) -> None:
        """Of a group that looked unchanged, take what it was dumped as for what its one member is alone."""
        group = self._dumps.tracking.groups.get(name)
        if name not in self._dumps.by_name and group is not None:
            if len(group.members) == 1:
                self._dumps.by_name[name] = compare(dumped)
            else:
                self._dump_members(group)

    def _walk_deferred(self) -> None:
        """Walk a large group that looked unchanged when another dumped name may hold a part of it."""
        for group, dumped in self._dumps.staged.unchanged:
            if not dumped.reach.deferred or not self._may_share_parts(*group.members):
                continue
            members = self._dumps.values(group.members)
            if members is not None:
                dumped.reach = reach_of(members, dumped.dump)
                self._dumps.tracking.refresh(group, dumped)

    def _walk_segments(self) -> None:
        """Walk all of what is cut into segments when another dumped name may hold a part of it."""
        for names, dumped in self._list_segmented():
            if dumped.segments is None or not dumped.segments.unwalked or not self._may_share_parts(*names):
                continue
            name = names[0]
            group = self._dumps.tracking.groups.get(name)
            if dumped.segments.walk_rest():
                dumped.reach.ids |= dumped.segments.reach.ids
                if group is not None and name not in self._dumps.by_name:
                    self._dumps.tracking.refresh(group, dumped)
            elif group is not None and len(names) > 1:
                self._dump_members(group)
            else:
                whole = dump_group(
                    {name: self._dumps.value(name)}, self._dumps.living, self._dumps.namespace, whole=True
                )
                self._dumps.by_name[name] = compare(whole)

    def _list_segmented(self) -> list[tuple[tuple[str, ...], Dumped]]:
        """What was cut into segments, and its names: of a long container and what holds its rows, that of the container."""
        dumped: list[tuple[tuple[str, ...], Dumped]] = []
        dumped += (
            ((name,), found.dumped) for name, found in self._dumps.by_name.items() if found.dumped.segments is not None
        )
        for group, found in self._dumps.staged.unchanged:
            if found.segments is not None:
                dumped.append((group.members if found.layout.within else (group.members[found.layout.long],), found))
        return dumped

    def _long_ones(self) -> list[tuple[str, Dumped]]:
        """Those that may hold rows that another one holds, too: not where all items are numbers and texts."""
        longs = ((names[0], found) for names, found in self._list_segmented() if not found.layout.within)
        return [(name, found) for name, found in longs if found.segments is None or not found.segments.are_of_atoms]

    def _may_share_parts(self, *names: str) -> bool:
        # Whoever was dumped together with the long one was looked for in it already.
        together = (members for members, found in self._dumps.by_group.items() if found.dumped.layout.long >= 0)
        own_group = {member for members in together if names[0] in members for member in members}
        own_group.update(names, self._partners.get(names[0], ()))
        for other, compared in self._dumps.by_name.items():
            if not compared.dumped.reach.ids or other in own_group:
                continue
            values = list((self._dumps.values([other]) or {}).values())
            # Held by the namespace and by `values`; and by what remembers small values, if it was bound before.
            holders = (1 if other in self._dumps.rebound else 2) + sum(map(self._dumps.count_holds, values))
            if compared.dumped.dump.met or find_possibly_shared(values, compared.dumped.dump, holders):
                return True
        return False

    def _leave_shared_constants(self) -> None:
        """Where two dumped names seem to share that were not saved together as they are, leave out what libraries hold."""
        for name, other in dict.fromkeys(self._find_pairs()):
            one, another = self._dumps.find(name), self._dumps.find(other)
            roots, others = _roots_of(one), _roots_of(another)
            if roots & others:  # they share a figure, whatever else
                continue
            group = self._dumps.tracking.groups.get(name)
            was_saved_with = group is not None and other in group.members
            # Names of two figures that were saved together led to one and the same before.
            if not was_saved_with or (roots and others) or not self._dumps.rebound.isdisjoint((name, other)):
                for each in (name, other):
                    self._leave_constants(each, partial(share, one.reach, another.reach))

    def _find_pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs of names that reach an object in common: enough of them to tell which names belong together."""
        first: dict[int, str] = {}
        wide: list[str] = []
        reaches = {name: dumped.reach for name, dumped in self._dumps.by_group_or_name().items()}
        for name, reach in reaches.items():
            ids = reach.ids
            for other in wide:  # an index of very many ids costs more than asking each of their few holders
                if not ids.isdisjoint(reaches[other].ids):
                    yield name, other
            if len(ids) > MANY:
                yield from ((name, first[item]) for item in first.keys() & ids)
                wide.append(name)
                continue
            for item in ids:
                other = first.setdefault(item, name)
                if other != name:
                    yield name, other

    def alias_groups(self) -> list[list[str]]:
        """Names that share an object or memory, by union-find over what each reaches."""
        parent = {name: name for name in self._dumps.by_name}
        parent |= {name: first for first, (group, _) in self._dumps.joined.items() for name in group.members}

        def find(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        self._leave_shared_constants()
        for name, other in self._find_pairs():
            parent[find(name)] = find(other)
        dumped = self._dumps.by_group_or_name()
        for name, other in memory_pairs({name: found.reach.memory for name, found in dumped.items()}):
            parent[find(name)] = find(other)
        clusters: dict[str, list[str]] = {}
        for name in parent:
            clusters.setdefault(find(name), []).append(name)
        return list(clusters.values())


def _roots_of(dumped: Dumped) -> set[int]:
    return {component.root_id for component in dumped.dump.met}


LARGE_BYTES = 2_000_000_000


def share(one: Reach, other: Reach) -> bool:
    """Whether two values hold an object or memory in common."""
    small, large = sorted((one.ids, other.ids), key=len)
    return not small.isdisjoint(large) or any(memory_pairs({"one": one.memory, "other": other.memory}))


def memory_pairs(uses: Mapping[str, Sequence[MemoryUse]]) -> Iterator[tuple[str, str]]:
    """Names that look at the same memory, as pairs that connect all of those that do. One pass from low to high."""
    uses = {name: found for name, found in uses.items() if found}
    if len(uses) < 2:
        return
    rows = sorted((use.space, use.low, use.high, use.written, name) for name in uses for use in uses[name])
    current = ""
    tops: dict[str, list[int]] = {}  # by name: how far what was met reaches, OPEN, COPIED and CONSTANT
    for space, low, high, written, name in rows:
        if space != current:
            current, tops = space, {}
        for other, reaches in list(tops.items()):
            if max(reaches) <= low:
                del tops[other]
            elif other != name and any(low < reach and can_meet(kind, written) for kind, reach in enumerate(reaches)):
                yield name, other
                if written == OPEN:  # one of those that meet here stands for all from now on
                    tops[name] = list(map(max, tops.get(name, reaches), reaches))
                    del tops[other]
        mine = tops.setdefault(name, [low, low, low])
        mine[written] = max(mine[written], high)


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
    def skipped(self) -> AbstractSet[str]:
        """Names that were not looked at, because code names only data that they are grouped with."""
        return self._dumps.skipped

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
        removed_names = frozenset(name for name in removed if name in self.tracking.groups)
        grouping = AliasGrouping(self._dumps, removed_names)
        grouping.dump_sharing()
        holdings = self._dumps.find_live_holdings()
        for names in grouping.alias_groups():
            self._stage(sorted(names), holdings)
        for name, value in self._dumps.atoms.items():
            dumped = dump_plain(value, self.namespace)
            assert dumped is not None  # of an atom there is always a stream
            self._stage_plain(name, value, compare_plain(dumped))
        for name in sorted(removed_names):
            self._remove(name)
        self._keep_placeholders()
        self._drop_unused_classes(needed)
        self._dumps.let_go()
        return self.staged

    def _stage(self, names: list[str], holdings: Holdings) -> None:
        names = [name for name in names if self._dumps.is_bound(name)]  # a reducer may have deleted it
        members = self._dumps.values(names)
        if not members:
            return
        before = {name: self.tracking.groups.get(name) for name in names}
        group = before[names[0]]
        same_members = group is not None and list(group.members) == names
        compared = self._dumps.by_group.get(tuple(names))
        if compared is None and len(names) == 1 and names[0] not in self._dumps.owns:
            compared = self._whole(names[0])
        compared = compared or self._dumps.dump(members, self._longest(names), defer=True)
        if compared is None:
            return
        if compared.dumped.reach.deferred:  # each member was walked, or is known to share with one that was
            compared.dumped.reach = join_reaches(self._dumps.reaches_of(names))
        shared = holdings.find_shared(compared.dumped.reach) if holdings else NO_IDS
        if compared.is_plain and not shared:
            self._stage_plain(names[0], members[names[0]], compared)
            return
        same = same_members and group is not None and compared.signature == group.signature and group.pins == shared
        if same and group is not None and not group.stale:
            self.staged.unchanged.append((group, compared.dumped))
            return
        if self._hold_back(names, members, compared):
            return
        own = {name: self._dumps.owns.get(name) or self._own_of(name, members[name]) for name in names}
        try:
            sizes = {name: alone.size for name in names if (alone := self._dumps.by_name.get(name)) is not None}
            roots = {name: roots_of(alone.dumped.dump) for name in names if (alone := self._dumps.by_name.get(name))}
            pins = self._dumps.pins_of(members, compared, shared) if shared else {}
            whole = self._dumps.as_stored(members, compared, pins)
            before_it = group if same_members else None
            failures = {name: self._failures_of(name) for name in names} if compared.dumped.dump.save_failures else {}
            made = save(
                self.writer, compared, members, before_it, own, sizes, roots, failures, whole, self._previews(names)
            )
        except KeyboardInterrupt:
            self._dumps.interrupt(members, group)
            return
        made.pins = frozenset(shared) or NO_IDS
        made.cost_s = compared.dumped.seconds
        made.data = self._dumps.data_among(members)
        if compared.dumped.segments is None and len(names) > 1:  # each long one was cut for its own content alone
            for name in self._dumps.by_name.keys() & set(names):
                dumped = self._dumps.by_name[name].dumped
                if dumped.segments is not None:
                    # Not in place: groups that were not cut have one dict in common.
                    made.cuts = made.cuts | cuts_of(dumped, {name: members[name]})
                    made.own_marks = {**made.own_marks, name: dumped.segments.marks}
        self._record(names, before, made)

    def _stage_plain(self, name: str, value: object, compared: Compared) -> None:
        """Stage what leads to nothing, and shares nothing: its stream is all that is to be stored."""
        group = self.tracking.groups.get(name)
        alone = group is not None and len(group.members) == 1 and not (group.stale or group.pins)
        if group is not None and alone and group.signature == compared.signature:
            self.staged.unchanged.append((group, compared.dumped))
            return
        try:
            made = save_plain(self.writer, name, value, compared)
        except KeyboardInterrupt:
            self._dumps.interrupt({name: value}, group)
            return
        made.cost_s = compared.dumped.seconds
        self._record([name], {name: group}, made)

    def _hold_back(self, names: list[str], members: Mapping[str, object], compared: Compared) -> bool:
        """A value of gigabytes is asked about once, before it fills the disk."""
        size = compared.size
        if self._stores_large or size <= LARGE_BYTES or any(name in self.tracking.groups for name in names):
            return False
        for name in names:
            reason = f"it takes {previews.size_text(size)}"
            remedy = "%agent commit --full stores it, %agent ignore leaves it out"
            self.staged.unsaved[name, ""] = Unsaved(name, type_name(type(members[name])), reason, remedy)
        return True

    def _longest(self, names: list[str]) -> Group | None:
        """The group whose segments are known: that of the long container among the names, if there is one."""
        groups = [group for name in names if (group := self.tracking.groups.get(name)) is not None]
        return max(groups, key=lambda group: len(group.marks), default=None)

    def _record(self, names: list[str], before: Mapping[str, Group | None], made: Group) -> None:
        self.staged.groups.append(made)
        self.staged.entries |= made.entries
        for group in before.values():
            if group is not None:
                self.staged.drop(group)
        regrouped = any(group is None or set(group.members) != set(names) for group in before.values())
        moved: list[str] = []
        for name in names:
            group = before[name]
            if group is None:
                self._note_change(name, "+", made)
            elif self._is_another(name, group, made) or (
                name in self._dumps.rebound and len(group.members) != len(names)
            ):
                moved.append(name)  # another content, or bound to an object that is shared in another way
        stored = before[names[0]]
        again = stored is not None and stored.stale and stored.signature == made.signature
        again = again or (stored is not None and stored.pins != made.pins)
        if not moved and not regrouped and not again:  # same contents, but shared in another way
            moved = [name for name in names if before[name] is not None]
        for name in moved:
            self._note_change(name, "~", made)
        for unsaved in self._living.describe_failures(made.unsaved, made.save_failures):
            self.staged.unsaved[unsaved.name, unsaved.type + unsaved.reason] = unsaved

    def _own_of(self, name: str, value: object) -> bytes:
        return own_of(value, self._dumps.by_name[name])

    def _previews(self, names: Collection[str]) -> dict[str, bytes]:
        """The previews of those that are as they were, and are only joined by others."""
        joined = (group.entries for group, _ in self._dumps.joined.values())
        return {name: entry.preview for entries in joined for name, entry in entries.items() if name in names}

    def _failures_of(self, name: str) -> set[str]:
        """Tokens of what cannot be saved, and a name leads to by itself."""
        alone = self._dumps.by_name.get(name)
        if alone is None:
            return set()
        dump = alone.dumped.dump
        return set(dump.save_failures).union(*(component.dump.save_failures for component in dump.met))

    def _whole(self, name: str) -> Compared | None:
        """What the name was dumped as by itself, if that can be stored."""
        alone = self._dumps.by_name[name]
        return None if alone.dumped.dump.met else alone

    def _is_another(self, name: str, group: Group, made: Group) -> bool:
        return group.own_of(name) != made.own_of(name) and not self._dumps.is_as_before(name, group)

    def _note_change(self, name: str, how: str, made: Group) -> None:
        if not name.startswith(CLASS_PREFIX):
            self.staged.changes[name] = Change(name, how, self._size_of(name, made))
        elif how == "~":  # told of under the names that the class is bound to
            for bound_name in self._names_of_class(name):
                self.staged.changes.setdefault(bound_name, Change(bound_name, "~", made.size))

    def _size_of(self, name: str, made: Group) -> int:
        """Bytes of the name's own value, where it is saved together with others."""
        alone = self._dumps.by_name.get(name)
        return made.size if alone is None or len(made.members) == 1 else min(alone.size, made.size)

    def _names_of_class(self, entry: str) -> list[str]:
        names = self._names_by_class.get(id(self._dumps.class_of(entry)))
        users = names or self.tracking.users_of(entry.removeprefix(CLASS_PREFIX))
        return [name for name in users if not name.startswith(CLASS_PREFIX)]

    @functools.cached_property
    def _names_by_class(self) -> dict[int, list[str]]:
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

    def _keep_placeholders(self) -> None:
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
            is_dropped = id(group) in dropped  # it was saved with others, which are saved without it from now on
            if uid in needed or name in self.staged.entries or (len(group.members) > 1 and not is_dropped):
                continue
            if uses.get(uid, 0) > int(uid in group.classes and not is_dropped):
                continue
            self.staged.entries[name] = None
            if is_dropped:
                continue
            self.staged.drop(group)
            for base in group.classes:  # it may have been the last that needed these
                uses[base] -= 1
            waiting += sorted(self.tracking.class_entries.intersection(map(class_entry, group.classes)))


# -- store what is new of a group

INLINE_MANIFEST = 320
_OWN_BYTES = 8
_NOTHING_LOST: Mapping[str, Collection[str]] = {}
_NO_PREVIEWS: Mapping[str, bytes] = {}


def save(
    writer: Writer,
    compared: Compared,
    members: Mapping[str, object],
    before: Group | None,
    own: Mapping[str, bytes],
    sizes: Mapping[str, int],
    roots: Mapping[str, Roots],
    failures: Mapping[str, Collection[str]] = _NOTHING_LOST,
    whole: Compared | None = None,
    kept_previews: Mapping[str, bytes] = _NO_PREVIEWS,
) -> Group:
    """Store the group and return what to remember of it.

    Args:
        failures: by member the tokens of what it leads to that cannot be saved.
        sizes: bytes of each member, dumped without the others.
        whole: what to store, where that is more than what is compared.
    """
    stores = whole or compared
    dumped = stores.dumped
    known = before.pieces if before is not None else []
    # A column that is set moves others to another place among the buffers.
    same = {found.digests: found for found in known if found.ids}
    blobs: list[Blob] = []
    pieces: list[Pieces] = []
    for position, blob in enumerate(dumped.blobs):
        earlier = same.get(tuple(stores.digests[position]), known[position] if position < len(known) else None)
        cuts, digests = stores.cuts[position], stores.digests[position]
        stored, stored_pieces = store_blob(writer, partial(view_of, blob), cuts, digests, earlier)
        blobs.append(stored)
        pieces.append(stored_pieces)
    manifest = _make_manifest(writer, dumped, blobs, tuple(members), failures)
    entries = _entries(writer, manifest, members, sizes, own, kept_previews)
    made = _group(compared, members, entries, pieces, manifest.size, own, roots)
    made.unsaved = manifest.unsaved
    # Where another thread wrote to a buffer while it was saved, the next cell saves it again.
    made.stale = any(tuple(seen) != piece.digests for seen, piece in zip(stores.digests, pieces, strict=True))
    return made


def save_plain(writer: Writer, name: str, value: object, compared: Compared) -> Group:
    """Store a value of which a short stream is all that there is to say; returns what to remember of it, as `save` does."""
    (stream,) = cast("list[bytes]", compared.dumped.blobs)
    manifest = Manifest(blobs=(Blob(len(stream), inline=stream),), size=len(stream))
    return Group(
        members=(name,),
        signature=compared.signature,
        own=NO_OWN,
        stored=_entries(writer, manifest, {name: value}, {}, {name: compared.signature})[name],
        pieces=NO_PIECES,
        reach=compared.dumped.reach,
        globals_used=NO_NAMES,
        classes=NO_NAMES,
        save_failures=(),
        size=manifest.size,
        roots=NO_ROOTS,
        held_ids=NO_IDS,
        held_memory=NO_RANGES,
        holders=NO_NAMES,
        cuts=NO_CUTS,
        marks=NO_MARKS,
        own_marks=NO_OWN_MARKS,
        data=NO_OWN,
        is_plain=True,
    )


def _make_manifest(
    writer: Writer,
    dumped: Dumped,
    blobs: list[Blob],
    names: tuple[str, ...],
    losing: Mapping[str, Collection[str]],
) -> Manifest:
    for payload in dumped.dump.definitions.values():
        writer.add(Kind.DEFINITION, payload)
    size = sum(blob.size for blob in blobs)
    return Manifest(
        layout=encode_layout(dumped.layout),
        blobs=tuple(blobs),
        definitions=tuple(ObjectId(address_of(found)) for found in sorted(dumped.dump.definitions)),
        classes=tuple(sorted(class_entry(uid) for uid in dumped.dump.classes if class_entry(uid) not in names)),
        slots=len(names),
        size=size,
        packages=packages_of(dumped),
        unsaved=describe_unsaved(dumped, names, losing),
    )


def address_of(definition: DefinitionId) -> bytes:
    """The repository's id of a definition: both hash the same bytes the same way."""
    return definition + _ALGORITHM


_ALGORITHM = address(b"")[32:]


def describe_unsaved(
    dumped: Dumped, names: Sequence[str], losing: Mapping[str, Collection[str]] = _NOTHING_LOST
) -> tuple[Unsaved, ...]:
    """Describe what cannot be saved, under the names that lead to it; all where none is known to."""
    found: list[Unsaved] = []
    for failure in dumped.dump.save_failures.values():
        leading = [name for name in names if failure.token in losing.get(name, ())]
        found.append(Unsaved(list_for_person(leading or names), failure.type, failure.reason, failure.remedy))
    return tuple(found)


def _entries(
    writer: Writer,
    manifest: Manifest,
    members: Mapping[str, object],
    sizes: Mapping[str, int],
    own: Mapping[str, bytes],
    kept_previews: Mapping[str, bytes] = _NO_PREVIEWS,
) -> dict[str, Entry]:
    payload = encode(manifest)
    inline = len(payload) <= INLINE_MANIFEST and len(members) == 1
    id = None if inline else writer.add(Kind.MANIFEST, payload)
    alias_group = min(members) if len(members) > 1 else ""
    return {
        name: Entry(
            value=payload if inline else b"",
            manifest=id,
            slot=slot,
            alias_group=alias_group,
            preview=kept_previews.get(name)
            or _preview(writer, name, value, min(sizes.get(name, manifest.size), manifest.size)),
            own=b"" if name.startswith(CLASS_PREFIX) else own.get(name, b"")[:_OWN_BYTES],
        )
        for slot, (name, value) in enumerate(members.items())
    }


def _preview(writer: Writer, name: str, value: object, size: int) -> bytes:
    if name.startswith(CLASS_PREFIX):
        return b""
    preview = previews.make_preview(value, name)
    if preview.size_bytes:  # what is stored of it, as in the history; not all types tell what they take in memory
        preview = msgspec.structs.replace(preview, size_bytes=size)
    return writer.add_preview(previews.encode(preview))


def _group(
    compared: Compared,
    members: Mapping[str, object],
    entries: dict[str, Entry],
    pieces: list[Pieces],
    size: int,
    own: Mapping[str, bytes],
    roots: Mapping[str, Roots],
) -> Group:
    dumped = compared.dumped
    names = tuple(members)
    return Group(
        members=names,
        signature=compared.signature,
        own=NO_OWN if all(own.get(name) == compared.signature for name in names) else dict(own),
        roots={name: found for name, found in roots.items() if found} or NO_ROOTS,
        stored=entries if len(names) > 1 else next(iter(entries.values())),
        pieces=pieces if any(piece.ids for piece in pieces) else NO_PIECES,
        reach=dumped.reach,
        globals_used=frozenset(dumped.dump.globals_used) or NO_NAMES,
        held_ids=frozenset(dumped.dump.held_ids) or NO_IDS,
        held_memory=frozenset(dumped.dump.held_memory) or NO_RANGES,
        holders=frozenset(dumped.dump.holders) or NO_NAMES,
        classes=frozenset(dumped.dump.classes) or NO_NAMES,
        save_failures=tuple(dumped.dump.save_failures.values()),
        size=size,
        cuts=cuts_of(dumped, members) or NO_CUTS,
        marks=dumped.segments.marks if dumped.segments else NO_MARKS,
        own_marks=NO_OWN_MARKS,
        met=dumped.met,
        digest=dumped.digest,
        data=NO_OWN,
        place=_place(dumped, members),
    )


def cuts_of(dumped: Dumped, members: Mapping[str, object]) -> dict[str | int, Cuts]:
    """Where long containers were cut: of a member by its name, of one within the members by its id."""
    cut = dumped.segments
    if cut is None:
        return {}
    if dumped.layout.within:
        return dict(zip(map(id, cut.values), cut.cuts, strict=True))
    names = tuple(members)  # of what was dumped beside others, perhaps the long container's alone
    return {names[dumped.layout.long if len(names) > 1 else 0]: cut.cuts[0]}


def _place(dumped: Dumped, members: Mapping[str, object]) -> tuple[str, str]:
    """The name of a module, if that is all that was saved: then the value cannot change by its content."""
    dump = dumped.dump
    noted = (dump.instances, dump.opaque, dump.roots, dump.memory, dump.classes, dump.globals_used, dump.save_failures)
    if len(members) > 1 or len(dump.streams) != 1 or any(noted) or dump.held_ids or dump.holders or dumped.reach.ids:
        return "", ""
    stream = dump.streams[0]
    module, name = name_in(stream) if len(stream) < _LONGEST_NAME else ("", "")
    # A module of the person's own that holds nothing may come to hold something.
    return ("", "") if module and not name and not is_library(module) else (module, name)


_LONGEST_NAME = 600


def make_group(
    compared: Compared,
    members: Mapping[str, object],
    entries: dict[str, Entry],
    stored: Sequence[Pieces],
    own: Mapping[str, bytes],
    roots: Mapping[str, Roots],
) -> Group:
    """Note what to remember of a group that was just loaded: its live bytes now, the chunks that it came from."""
    pieces: list[Pieces] = []
    for position, (cuts, digests) in enumerate(zip(compared.cuts, compared.digests, strict=True)):
        same = (
            position < len(stored) and stored[position].cuts == tuple(cuts) and len(stored[position].ids) == len(cuts)
        )
        read = stored[position] if same and position >= compared.dumped.streams else None
        if read is None or (read.exact and read.digests != tuple(digests)):  # loading made something else of it
            pieces.append(Pieces(tuple(cuts), (), ()))
        else:
            pieces.append(Pieces(tuple(cuts), tuple(digests), read.ids, exact=read.exact))
    return _group(compared, members, entries, pieces, compared.size, own, roots)


def packages_of(dumped: Dumped) -> dict[str, str]:
    """Versions of the packages that the streams import from, so that a failed load can name them."""
    kinds = types_of((*dumped.dump.instances, *dumped.dump.opaque))  # once, for there may be ten thousand objects
    found: dict[str, str] = {}
    for package in sorted(_list_packages(kinds, dumped)):
        version = _version(package)
        if version:
            found[package] = version
    return found | _own_sources(kinds)


_SOURCE = " source"  # behind the name of a module, where else a package stands with its version


def _own_sources(kinds: Collection[type]) -> dict[str, str]:
    """What the source was of the modules of the person's own whose classes are saved as their names."""
    from agent_kernel.values.reducers import is_importable

    own = {module for module in set(map(module_name, kinds)) if is_own(module)}
    named = {module_name(kind) for kind in kinds if module_name(kind) in own and is_importable(kind)}
    digests = {module: source_digest(module) for module in named}
    return {f"{module}{_SOURCE}": digest for module, digest in sorted(digests.items()) if digest}


def is_source(package: str) -> bool:
    """Whether what a manifest says under this name is of the source of a module of the person's own."""
    return package.endswith(_SOURCE)


def find_changed_modules(packages: Mapping[str, str]) -> list[str]:
    """The modules of the person's own whose source is another one than these packages say."""
    own = {package.removesuffix(_SOURCE): digest for package, digest in packages.items() if is_source(package)}
    return [module for module, digest in own.items() if source_digest(module) not in ("", digest)]


def _list_packages(kinds: Collection[type], dumped: Dumped) -> Iterable[str]:
    if not (kinds or dumped.dump.packages):
        return ()
    names = {name.partition(".")[0] for kind in kinds if isinstance(name := getattr(kind, "__module__", None), str)}
    return (names | dumped.dump.packages) - {"builtins", "__main__", "agent_kernel"} - sys.stdlib_module_names


_versions: dict[str, str] = {}


def _version(package: str) -> str:
    if package not in _versions:
        _versions[package] = version_now(package)
    return _versions[package]
