"""Plan another state: load only the names whose values differ, and those whose class does.

A live class is never altered. Where a class differs between the two states it is made anew, and everything that is made
of it is loaded again, so that instances and class belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from agent_kernel.errors import DamagedObjectError, NewerFormatError
from agent_kernel.repository import Entry, Manifest, ObjectId, Pieces, Repository, Tree
from agent_kernel.session.carrying import class_groups, needed_classes
from agent_kernel.session.living import Living
from agent_kernel.session.tracking import Tracking
from agent_kernel.values.entries import CLASS_PREFIX
from agent_kernel.values.groups import decode_layout


class Plan(msgspec.Struct):
    """What to load and what to take out of the namespace."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict[str, Entry])
    removed: set[str] = msgspec.field(default_factory=set[str])
    reusable: dict[str, type] = msgspec.field(default_factory=dict[str, type])
    manifests: dict[str, Manifest] = msgspec.field(default_factory=dict[str, Manifest])
    kept: dict[str, Entry] = msgspec.field(
        default_factory=dict[str, Entry]
    )  # live, and left behind by what they shared with
    # By address what was read there: until it is in place nothing else can write to it, but code of its own group.
    read: dict[int, Pieces] = msgspec.field(default_factory=dict[int, Pieces])
    digests: dict[ObjectId, bytes] = msgspec.field(default_factory=dict[ObjectId, bytes])  # of chunks that were read
    unreadable: dict[str, Exception] = msgspec.field(default_factory=dict[str, Exception])  # names without a manifest

    def groups_by_member(self) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
        """The members of each group to load in the order of their slots, with their entries."""
        return _grouped(self.entries)

    def groups_there(self) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
        """The groups to remember anew once the state is there: those that were loaded, and what is left of others."""
        return _grouped({**self.entries, **self.kept})


def _grouped(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], dict[str, Entry]]]:
    groups: dict[tuple[str, ObjectId | None], list[str]] = {}
    for name, entry in entries.items():
        key = (entry.leader, entry.manifest) if entry.leader else (name, None)
        groups.setdefault(key, []).append(name)
    for names in groups.values():
        ordered = tuple(sorted(names, key=lambda name: entries[name].slot))
        yield ordered, {name: entries[name] for name in ordered}


def plan(
    repo: Repository,
    tracking: Tracking,
    living: Living,
    tree: Tree,
    target: Tree,
    names: Iterable[str] | None,
    absent: frozenset[str] = frozenset(),
    stay: frozenset[str] = frozenset(),
) -> Plan:
    """Find what differs between the live state and the target; `names` limits it to those variables.

    `absent` are names of the tree that are not in memory, `stay` those of the target that are not to be.
    """
    made = Plan()
    sharing = _Sharing(target)
    wanted = None if names is None else _with_partners(sharing, names)
    for name, old, new in tree.diff(target):
        if wanted is not None and name not in wanted and not name.startswith(CLASS_PREFIX):
            continue
        if new is None:
            if wanted is None:
                made.removed.add(name)
        elif name in stay:
            continue
        elif not new.is_same_value(old) or name not in tracking.groups:
            made.entries[name] = new
    _add_unloaded(made, tracking, target, stay, wanted)
    if wanted is not None:
        made.entries = {name: entry for name, entry in made.entries.items() if name in wanted}
        _add_made_of_others(repo, made, tree, target, wanted)
    _add_torn(made, sharing, stay)
    made.removed.update(name for name in stay if name in tracking.groups)
    _add_untracked(made, tracking, target, absent - stay if wanted is None else wanted)
    _add_needs(repo, made, tracking, living, sharing, whole=wanted is None)
    if wanted is None:
        made.kept = _left_of_groups(made, tracking, target)
    return made


def _left_of_groups(made: Plan, tracking: Tracking, target: Tree) -> dict[str, Entry]:
    """What stays as it is while another name of its group does not: after a restart they may have parted since."""
    moving = made.entries.keys() | made.removed
    torn = {id(group): group for name in moving if (group := tracking.groups.get(name)) is not None}
    rest = {name for group in torn.values() for name in group.members} - moving
    return {name: entry for name in rest if (entry := target.get(name)) is not None}


class _Sharing:
    """Which names of a tree share a value. The tree is read through once, however many names ask; not at all if none does."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._members: dict[tuple[str, ObjectId | None], list[str]] | None = None

    def members(self, entry: Entry) -> Sequence[str]:
        """All names that share this value; none if it is one name's alone."""
        if not entry.leader:
            return ()
        if self._members is None:
            self._members = {}
            for name, found in self.tree.items():
                if found.leader:
                    self._members.setdefault(_value(found), []).append(name)
        return self._members.get(_value(entry), ())


def _with_partners(sharing: _Sharing, names: Iterable[str]) -> set[str]:
    """The names, and those that share objects with them: they come together."""
    wanted = set(names)
    entries = [entry for name in wanted if (entry := sharing.tree.get(name)) is not None]
    return wanted.union(*map(sharing.members, entries))


def _value(entry: Entry) -> tuple[str, ObjectId | None]:
    # The leader alone does not tell: names that left a group may be in another one of the same first name.
    return entry.leader, entry.manifest


def _add_torn(made: Plan, sharing: _Sharing, stay: frozenset[str]) -> None:
    """What is to stay out of memory comes after all if there it shares objects with what does not, however equal that is."""
    for name in stay:
        entry = sharing.tree.get(name)
        if entry is not None and entry.leader and not stay.issuperset(sharing.members(entry)):
            made.entries[name] = entry


def _add_made_of_others(repo: Repository, made: Plan, tree: Tree, target: Tree, wanted: Iterable[str]) -> None:
    """What is the same but for its class, which was altered in place."""
    altered = {name for name, old, new in tree.diff(target) if name.startswith(CLASS_PREFIX) and old and new}
    grouped = class_groups(target) if altered else {}
    for name in wanted if altered else ():
        entry = target.get(name)
        if entry is not None and not altered.isdisjoint(needed_classes(repo, target, [name], grouped)):
            made.entries[name] = entry


def _add_untracked(made: Plan, tracking: Tracking, target: Tree, wanted: Iterable[str]) -> None:
    """What is not in memory has to be loaded however equal the trees are."""
    for name in wanted:
        entry = target.get(name)
        if entry is not None and name not in tracking.groups and not name.startswith(CLASS_PREFIX):
            made.entries[name] = entry


def _add_unloaded(made: Plan, tracking: Tracking, target: Tree, stay: frozenset[str], wanted: set[str] | None) -> None:
    """What could not be loaded before may be by now."""
    for group in tracking.unloaded:
        for name in group.members:
            entry = target.get(name)
            shown = not name.startswith(CLASS_PREFIX) and name not in stay
            if entry is not None and shown and (wanted is None or name in wanted):
                made.entries[name] = entry


def _add_needs(
    repo: Repository, made: Plan, tracking: Tracking, living: Living, sharing: _Sharing, *, whole: bool
) -> None:
    """Close the plan over classes: those that loading needs, and of a whole state everything made of one that is made anew."""
    target = sharing.tree
    todo = list(made.entries)
    closed: set[tuple[str, ObjectId | None]] = set()  # values all of whose names are in the plan
    anew: set[str] = set()
    while todo:
        name = todo.pop()
        own = made.entries[name]
        if own.leader and _value(own) not in closed:
            closed.add(_value(own))
            todo += _take(made, target, sharing.members(own))
        if name.startswith(CLASS_PREFIX):
            anew.add(name)
            using = tracking.users_of(name.removeprefix(CLASS_PREFIX)) if whole else ()
            todo += _take(made, target, [user for user in using if user not in made.removed])
        for needed in _classes_of(repo, made, name):
            uid = needed.removeprefix(CLASS_PREFIX)
            if needed in made.entries:
                continue
            entry = target.get(needed)
            group = tracking.groups.get(needed)
            alive = living.classes.live(uid)
            if (
                alive is not None
                and group is not None
                and entry is not None
                and entry.is_same_value(group.entries[needed])
            ):
                made.reusable[uid] = alive
            elif entry is not None:
                made.entries[needed] = entry
                todo.append(needed)
    for name in anew:
        made.reusable.pop(name.removeprefix(CLASS_PREFIX), None)


def _take(made: Plan, target: Tree, names: Iterable[str]) -> list[str]:
    """Plan to load these names too, as far as the target has them; returns those that are new in the plan."""
    missing = ((name, target.get(name)) for name in names if name not in made.entries)
    found = {name: entry for name, entry in missing if entry is not None}
    made.entries |= found
    return list(found)


def _classes_of(repo: Repository, made: Plan, name: str) -> tuple[str, ...]:
    """The class entries that loading the name needs; none where its manifest cannot be read."""
    if name in made.unreadable:
        return ()
    try:
        manifest = made.manifests[name] = made.manifests.get(name) or repo.read_manifest(made.entries[name])
        decode_layout(manifest.layout)
    except (DamagedObjectError, NewerFormatError, msgspec.MsgspecError) as error:
        made.unreadable[name] = error
        return ()
    return manifest.classes
