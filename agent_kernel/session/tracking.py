"""What a session remembers of a namespace: what names were bound to, what was saved, and objects that have lasting names.

The namespace is a plain dict, so `Bindings` compares addresses: those of its rows, a name and its value each, with what they
were at the last commit. A row stays in its place until the dict makes a new table, and a name that is bound anew after it
was deleted comes last. So what moved is in rows that are other ones now, or behind those that were there.

An address can be used again after its object is gone. So names are kept, and each object is also kept where it is small,
or watched by a weak reference. A long list, dict or text can be neither kept nor watched: its address is believed until
its content is verified.

`Tracking` keeps no user object, only digests, ids and addresses of each saved group. They stay true while the group is
unchanged; when an id says that two groups share something, both are dumped again before anything is concluded.
"""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
import sys
import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import translate
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Protocol
from weakref import ref

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import Repository, short
from agent_kernel.session.history import title
from agent_kernel.session.process_state import ProcessState
from agent_kernel.text import shorten
from agent_kernel.values import CLASS_PREFIX
from agent_kernel.values.introspection import ATOM_IDS, Rows, differences, ids_in
from agent_kernel.values.surface import Placeholder, is_closed, save_failure_of, surface_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_kernel.repository import Commit, Entry, ObjectId, Pieces, Unsaved
    from agent_kernel.values.aliases import MemoryUse, Reach, SaveFailure
    from agent_kernel.values.classes import ClassRegistry
    from agent_kernel.values.groups import Dumped
    from agent_kernel.values.segments import Cuts
    from agent_kernel.values.surface import Holdings

HELD_BYTES = 4_096
# By id: hashing a type runs its metaclass.
BUILTIN_IDS = frozenset(map(id, (list, dict, set, tuple, frozenset, bytearray)))


class Rebound(msgspec.Struct, frozen=True):
    """Names by what happened to their binding since the last look."""

    new: frozenset[str]
    rebound: frozenset[str]
    removed: frozenset[str]


_NOTHING_MOVED = Rebound(frozenset(), frozenset(), frozenset())


class Bindings:
    """Remembers what each versioned name was bound to."""

    def __init__(self, is_versioned: Callable[[str], bool]) -> None:
        self._is_versioned = is_versioned
        self._versioned: dict[str, bool] = {}
        self._rows = Rows({})
        self._noted = b""  # the rows at the last note
        self._names: list[str] = []  # by row; that of a row where a name was deleted does not count
        self._ids: dict[str, int] = {}
        self._values: dict[str, object] = {}
        self._watched: dict[str, weakref.ref[object]] = {}
        self._dead: set[str] = set()
        self._is_whole = False  # the names that were versioned at the last note are those that are bound
        self._look: bytes | None = None
        # The rows at the last look since the note, which the next one compares with: IPython alone moves several before each cell.
        self._seen = b""
        self._behind: list[str] = []  # names of the rows behind those of the last note
        # What versioned names whose rows moved since the note were bound to at the last look; 0: nothing.
        self._looked: dict[str, int] = {}
        self.containers: dict[str, None] = {}  # names bound to builtin containers, in the order in which they were
        self.unwritable: set[str] = set()  # names that are no text UTF-8 could hold

    def forget_rules(self) -> None:
        """The rule for which names are versioned changed."""
        self._versioned.clear()
        self._noted, self._names, self._is_whole = b"", [], False
        self._look_from_note()

    def is_versioned(self, name: str) -> bool:
        """Whether the session saves what is bound to this name."""
        verdict = self._versioned.get(name)
        if verdict is None:
            verdict = self._versioned[name] = type(name) is str and self._is_versioned(name)
            if verdict and not _can_be_written(name):
                self._versioned[name] = verdict = False
                self.unwritable.add(name)
        return bool(verdict)

    def forget_verdicts(self, names: Iterable[str]) -> None:
        """The shell took these names out, or put them there: whose they are is asked again."""
        for name in names:
            self._versioned.pop(name, None)

    def names(self, namespace: dict[str, object]) -> list[str]:
        """The versioned names, in the namespace's order."""
        return list(filter(self.is_versioned, tuple(namespace)))

    def find_changes(self, namespace: dict[str, object]) -> Rebound:
        """Compare with the last `note`. Costs a hundredth of a microsecond for each name that stayed."""
        rows = self._read(namespace)
        self._look = None
        if not self._is_whole or not self._look_at(rows, namespace):
            self._look_from_note()
            return self._drop_old(self._compare_all(namespace))
        self._look = rows
        if not (self._looked or self._dead):
            return _NOTHING_MOVED
        ids = self._ids
        new = frozenset(name for name, found in self._looked.items() if found and name not in ids)
        rebound = {name for name, found in self._looked.items() if found and ids.get(name, found) != found}
        removed = frozenset(name for name, found in self._looked.items() if not found and name in ids)
        # The dead are emptied name by name as they are saved again.
        return self._drop_old(Rebound(new, frozenset(rebound | ((self._dead & ids.keys()) - removed)), removed))

    def _read(self, namespace: dict[str, object]) -> bytes:
        if self._rows.namespace is not namespace:
            self._rows = Rows(namespace)
        return self._rows.read()

    def _drop_old(self, found: Rebound) -> Rebound:
        """Let go of what the names were bound to, so that a cache that shared it with them shares it no more."""
        if self._values:
            for name in (*found.rebound, *found.removed):
                if self._values.pop(name, self) is not self:
                    self._dead.add(name)  # its address may be another object's by now
        return found

    def _look_from_note(self) -> None:
        """Let the next look compare with the rows of the last note."""
        self._seen, self._looked, self._behind = self._noted, {}, []

    def _look_at(self, rows: bytes, namespace: dict[str, object]) -> bool:
        """Find the rows that are other ones than at the last look, or note; False where the namespace has another table since."""
        known = len(self._seen)
        if len(rows) < known:
            return False
        moved: dict[str, int] = {}
        if not rows.startswith(self._seen):
            before, now = ids_in(self._seen), ids_in(rows)
            noted = len(self._names)
            for row in sorted({place // 2 for place in differences(self._seen, rows[:known])}):
                if now[2 * row] not in (before[2 * row], 0):
                    return False
                moved[self._names[row] if row < noted else self._behind[row - noted]] = now[2 * row + 1]
        if len(rows) > known:
            behind = ids_in(rows[known:])
            names = _pair_names(behind[::2].tolist(), list(islice(reversed(namespace), len(behind) // 2)))
            if names is None:
                return False
            self._behind += names
            moved.update((name, found) for name, found in zip(names, behind[1::2].tolist(), strict=True) if found)
        self._seen = rows
        self._judge_again(moved)
        self._looked.update((name, found) for name, found in moved.items() if self.is_versioned(name))
        return True

    def _judge_again(self, names: Iterable[str]) -> None:
        """A name that a shell put there (`%pylab` puts a thousand) is the person's own as soon as it is bound anew."""
        for name in [name for name in names if self._versioned.get(name) is False and name[:1] != "_"]:
            del self._versioned[name]

    def _compare_all(self, namespace: dict[str, object]) -> Rebound:
        self._judge_again(tuple(self._versioned))
        current = self.names(namespace)
        ids = self._ids
        new = frozenset(name for name in current if name not in ids)
        rebound = {name for name in current if name in ids and ids[name] != id(namespace.get(name))}
        removed = frozenset(ids.keys() - set(current))
        return Rebound(new, frozenset(rebound | ((self._dead & ids.keys()) - removed)), removed)

    def note(self, namespace: dict[str, object], *, as_looked: bool = False) -> None:
        """Remember the rows of the whole namespace, so that the next look can be one comparison.

        Args:
            as_looked: what the last look saw is what was saved; what moved after it, the next one finds.
        """
        look, self._look = self._look, None
        if as_looked and look is not None:
            self._names += self._behind
            self._is_whole = all(self._ids.get(name, 0) == found for name, found in self._looked.items())
            self._noted = look
            self._look_from_note()
            return
        self._noted = self._read(namespace)
        self._look_from_note()
        places = ids_in(self._noted)
        names = _pair_names(places[::2].tolist(), reversed(tuple(namespace)))
        self._names = names or []
        now = {name: found for name, found in zip(self._names, places[1::2].tolist(), strict=False) if found}
        self._is_whole = names is not None and self._ids == {
            name: found for name, found in now.items() if self.is_versioned(name)
        }

    def is_settled(self, name: str) -> bool:
        """Whether the name is bound to an immutable builtin that is kept: only another binding can change it."""
        value = self._values.get(name, self)
        if type(value) is tuple:
            return all(map(ATOM_IDS.__contains__, map(id, map(type, value))))  # pyright: ignore[reportUnknownArgumentType]
        return id(type(value)) in ATOM_IDS

    def bind(self, name: str, value: object, *, small: bool) -> None:
        """The name's value was saved. `small`: it is builtin data of at most `HELD_BYTES`, which may be kept."""
        if self._look is not None and self._looked.get(name, self._ids.get(name)) != id(value):
            self._look = None  # it moved after the look
        watch = self._watched.get(name)
        # Nothing watches None: a watch that gives it has lost what it watched.
        watched = watch() if watch is not None else None
        if (name in self._values and self._values[name] is value) or (watched is not None and watched is value):
            return
        if name in self._ids:
            self._let_go(name)
        self._ids[name] = id(value)
        if id(type(value)) in BUILTIN_IDS:
            self.containers[name] = None
        if small or (id(type(value)) in ATOM_IDS and _size(value) <= HELD_BYTES):
            self._values[name] = value
            return
        if _is_array(value):  # numpy refuses to resize an array that is watched
            return
        try:
            self._watched[name] = weakref.ref(value, lambda _, name=name: self._dead.add(name))  # type: ignore[misc]
        except TypeError:
            return

    def miss(self, name: str) -> None:
        """Let the next look find that the name was deleted, unless it is bound by then."""
        self._ids.setdefault(name, 0)

    def unbind(self, name: str) -> None:
        if self._look is not None and name in self._ids and self._looked.get(name) != 0:
            self._look = None  # it is still there
        self._let_go(name)

    def _let_go(self, name: str) -> None:
        self._ids.pop(name, None)
        self.containers.pop(name, None)
        self._values.pop(name, None)
        self._watched.pop(name, None)
        self._dead.discard(name)


def _pair_names(places: Sequence[int], last_first: Iterable[str]) -> list[str] | None:
    """The name of each row, by the names from the last on; "" where one was deleted. None: a thread bound others by now."""
    found: list[str] = []
    names = iter(last_first)
    for place in reversed(places):
        name = next(names, "") if place else ""
        if place and id(name) != place:
            return None
        found.append(name)
    return found[::-1]


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(value), numpy.ndarray)


def _can_be_written(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _size(value: object) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 0


# -- the variables that are never stored, and those of which no model is told, as `%agent ignore` and `%agent hide` name them. The list belongs to the store
#
# An entry is a name, or a pattern as shells write it (`tmp_*`).


def is_pattern(text: str) -> bool:
    """Whether an entry of the list stands for many names."""
    return any(sign in text for sign in "*?[")


class NameList:
    """A set of names and patterns that a store remembers."""

    setting: ClassVar[str]

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self.reread()

    def reread(self) -> None:
        """Take up what another list of the same store has set since."""
        stored = self._repo.setting(self.setting)
        self._names: set[str] = set() if stored is None else set(msgspec.msgpack.decode(stored, type=list[str]))
        self._patterns = self._compile()

    def __contains__(self, name: str) -> bool:
        # Asked for every name of the namespace after every cell: without patterns it stays a look into a set.
        return name in self._names or (self._patterns is not None and self._patterns.match(name) is not None)

    def select(self, names: Iterable[str]) -> list[str]:
        """Those of the names that it says. Without names and patterns on the list it looks at none."""
        return list(filter(self.__contains__, names)) if self._names else []

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def add(self, name: str) -> None:
        self._set(self._names | {name})

    def remove(self, name: str) -> None:
        """Take it off the list; nothing happens where it is not there."""
        self._set(self._names - {name})

    def add_unstored(self, names: Iterable[str]) -> None:
        """Take names up here alone, until whoever has them stores what `to_store` gives, or asks to `reread`."""
        self._names = self._names.union(names)
        self._patterns = self._compile()

    def to_store(self) -> dict[str, bytes | None]:
        """The setting that holds this list."""
        return {self.setting: msgspec.msgpack.encode(sorted(self._names))}

    def _set(self, names: set[str]) -> None:
        self._repo.set_setting(self.setting, msgspec.msgpack.encode(sorted(names)))
        self._names = names  # only now: a store that refuses has changed nothing
        self._patterns = self._compile()

    def _compile(self) -> re.Pattern[str] | None:
        patterns = sorted(filter(is_pattern, self._names))
        return re.compile("|".join(map(translate, patterns))) if patterns else None


class IgnoreList(NameList):
    """The variables that are never stored."""

    setting = "ignored"

    def remove(self, name: str) -> None:
        """Store it again, and what code says of it, too."""
        super().remove(name)
        masked = self._repo.masked_names()
        if name in masked:
            self._repo.mask_from_now_on(masked - {name})


# -- the variables of which no model is told, as `%agent hide` names them. The list belongs to the store


class HideList(NameList):
    """A set of names and patterns that survives the session."""

    setting = "hidden"


# -- each saved group, and what tells at the next cell whether it changed


MANY = 2_000
LEAST_COST_S = 1e-4  # what a look at a group is counted as at least

# The components that a value's own digest is worked out by: the id of the root of each, its digest, and what tells
# whether it still lives, for another may stand where it died; None where nothing tells.
Roots = tuple[tuple[int, bytes, "ref[object] | None"], ...]

# What thousands of groups have in common, each of which would take as much by itself as one that holds something.
# Never changed in place.
NO_NAMES: frozenset[str] = frozenset()
NO_IDS: frozenset[int] = frozenset()
NO_RANGES: frozenset[tuple[int, int]] = frozenset()
NO_MARKS: frozenset[bytes] = frozenset()
NO_OWN_MARKS: dict[str, frozenset[bytes]] = {}
NO_CUTS: dict[str | int, Cuts] = {}
NO_ROOTS: dict[str, Roots] = {}
NO_PIECES: list[Pieces] = []
NO_OWN: dict[str, bytes] = {}
_NO_MEMORY: list[MemoryUse] = []
_NONE_NAMED: set[int] = set()


class Placeholders(msgspec.Struct, frozen=True):
    """What stands in the namespace for a stored value that could not be loaded, by name, and what to say of it."""

    by_name: dict[str, object]
    reports: dict[str, Unsaved]


class Group(msgspec.Struct, gc=False):  # there are thousands, and nothing that they hold leads back to one
    """Names saved together, and what their last dump was. `unloaded`: there was none, their entries stay as they are."""

    members: tuple[str, ...]
    signature: bytes
    own: dict[str, bytes]  # digests of the members alone, where they are others than the signature
    stored: Entry | dict[str, Entry]  # of a single member without its name: a dict of one takes more than what it holds
    pieces: list[Pieces]
    reach: Reach
    globals_used: frozenset[str]
    classes: frozenset[str]
    save_failures: tuple[SaveFailure, ...]
    size: int
    unsaved: tuple[Unsaved, ...] = ()  # what to say of the failures, under the names that lead to them
    held_ids: frozenset[int] = frozenset()  # ids of what lies in objects that cannot be saved
    held_memory: frozenset[tuple[int, int]] = frozenset()  # and what arrays among these look at
    holders: frozenset[str] = frozenset()  # tokens of objects that may keep functions where nobody sees them
    # What it shared, when it was stored, with objects that cannot be saved: ids, and where memory begins.
    pins: frozenset[int] = frozenset()
    cuts: dict[str | int, Cuts] = {}  # of the long containers, by name, or by id if they lie within a value
    marks: frozenset[bytes] = frozenset()  # of segments among which it was looked for shared objects
    own_marks: dict[str, frozenset[bytes]] = {}  # by member, where each was cut for its own content alone
    met: bytes = b""  # which objects the last dump met: where it is the same, the group reaches what it reached
    digest: bytes = b""  # of a long container of atoms, a plain function or class: unchanged as long as this is
    roots: dict[str, Roots] = {}
    data: dict[str, bytes] = {}  # by member: what code gets at from a table; empty where that is more than data
    place: tuple[str, str] = ("", "")  # the module and the name that are all that was saved
    is_plain: bool = False  # one short container of numbers and texts, which leads to nothing
    cost_s: float = 0.0
    checked: int = 0
    stale: bool = False
    placeholders: Placeholders | None = None

    @property
    def holdings(self) -> Holdings:
        """What lies in objects that cannot be saved."""
        from agent_kernel.values.surface import Holdings

        return Holdings(ids=set(self.held_ids), memory=set(self.held_memory))

    @property
    def entries(self) -> dict[str, Entry]:
        """What the tree holds for the members, by name."""
        return self.stored if isinstance(self.stored, dict) else {self.members[0]: self.stored}

    def own_of(self, name: str) -> bytes | None:
        """The digest of what a member is by itself; None if it is not known."""
        return self.own.get(name) or (self.signature if self.own is NO_OWN else None)

    def known_marks(self, names: Collection[str]) -> frozenset[bytes]:
        """Marks of segments of which no two share an object. Those of two members that were cut apart may."""
        (first, *others) = names
        return self.own_marks.get(first, self.marks) if not others else self.marks


class Tracking:
    """All groups of a namespace, with indexes by name, object id and memory."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.class_entries: set[str] = set()
        # Unchanged since they were saved, but they reach other objects by now, and which: until a commit looked at these.
        self.moved: dict[int, tuple[Group, Reach]] = {}
        self._stale: dict[int, Group] = {}
        self._unloaded: dict[int, Group] = {}
        # Those that can change unseen, the one not looked at for longest first.
        self._by_age: dict[int, Group] = {}
        # By token, or by module: names used by functions that were given to what may keep them unseen.
        self.handed: dict[str, frozenset[str]] = {}
        self._users: dict[str, dict[int, Group]] = {}
        self._owners: dict[int, Group | dict[int, Group]] = {}  # most objects have one
        # Groups that hold very many objects are asked one by one: an index of all of those costs more than it saves.
        self._wide: dict[int, Group] = {}
        # Of these only what others held, too, when they were walked is remembered: they may hold more.
        self._partly_known: dict[int, Group] = {}
        self._holding_parts: dict[int, Group] = {}
        self._memory: MemoryIndex = MemoryIndex()
        self._nothing_reached: Reach | None = None

    def __iter__(self) -> Iterator[Group]:
        """Each group once."""
        return iter({id(group): group for group in self.groups.values()}.values())

    def by_age(self) -> Iterator[Group]:
        """Groups that can change unseen, the one not looked at for longest first."""
        return iter(self._by_age.values())

    def mark_stale(self, group: Group) -> None:
        """What is saved of the group is not what it holds: the next cell saves it, whatever it touches."""
        group.stale = True
        self._stale[id(group)] = group

    @property
    def stale(self) -> list[Group]:
        return list(self._stale.values())

    @property
    def without_values(self) -> list[Group]:
        """Groups whose values could not be loaded."""
        return list(self._unloaded.values())

    def class_uses(self) -> dict[str, int]:
        """How many groups are made of each class, by the class's id."""
        return {uid: len(groups) for uid, groups in self._users.items()}

    def users_of(self, uid: str) -> list[str]:
        """The names that are made of a class."""
        return [name for group in self._users.get(uid, {}).values() for name in group.members]

    def settle(self, group: Group) -> None:
        """Nothing but another binding can change the group: it need not be looked at."""
        self._by_age.pop(id(group), None)

    def is_settled(self, group: Group) -> bool:
        return id(group) not in self._by_age

    def note_check(self, group: Group, turn: int) -> None:
        """Note that the group was compared in this turn."""
        group.checked = turn
        if self._by_age.pop(id(group), None) is not None:
            self._by_age[id(group)] = group

    def add(self, group: Group) -> None:
        reach = group.reach
        if reach.complete and not (reach.ids or reach.memory or reach.deferred):
            # Numbers and texts, the most of all values, share one that says nothing: it is never changed.
            group.reach = self._nothing_reached = self._nothing_reached or type(reach)()
        # An empty list or set takes as much as one of a few: most reaches hold nothing in two of three.
        group.reach.memory = group.reach.memory or _NO_MEMORY
        group.reach.named = group.reach.named or _NONE_NAMED
        if group.stale:
            self._stale[id(group)] = group
        self._by_age[id(group)] = group
        if group.placeholders is not None:
            self._unloaded[id(group)] = group
        self._note_holdings(group)
        for name in group.members:
            self.groups[name] = group
            if name.startswith(CLASS_PREFIX):
                self.class_entries.add(name)
        if len(group.reach.ids) > MANY:
            self._wide[id(group)] = group
        else:
            for item in group.reach.ids:
                self._own(item, group)
        if not group.reach.complete:
            self._partly_known[id(group)] = group
        for uid in group.classes:
            self._users.setdefault(uid, {})[id(group)] = group
        if group.reach.memory:
            self._memory.stale = True

    def remove(self, group: Group) -> None:
        self._stale.pop(id(group), None)
        self._unloaded.pop(id(group), None)
        self._by_age.pop(id(group), None)
        self._holding_parts.pop(id(group), None)
        self._partly_known.pop(id(group), None)
        for name in group.members:
            if self.groups.get(name) is group:
                del self.groups[name]
                self.class_entries.discard(name)
        if self._wide.pop(id(group), None) is None:
            for item in group.reach.ids:
                self._disown(item, group)
        for uid in group.classes:
            del self._users[uid][id(group)]
            if not self._users[uid]:
                del self._users[uid]
        if group.reach.memory:
            self._memory.stale = True

    def _own(self, item: int, group: Group) -> None:
        holder = self._owners.setdefault(item, group)
        if isinstance(holder, dict):
            holder[id(group)] = group
        elif holder is not group:
            self._owners[item] = {id(holder): holder, id(group): group}

    def _disown(self, item: int, group: Group) -> None:
        holder = self._owners.get(item)
        if isinstance(holder, dict):
            holder.pop(id(group), None)
        if holder is group or holder == {}:
            del self._owners[item]

    def refresh(self, group: Group, dumped: Dumped) -> None:
        """The group was found unchanged: take over what the new dump reaches, for ids may be others."""
        found, before = dumped.reach, group.reach
        group.globals_used = frozenset(dumped.dump.globals_used) or NO_NAMES
        group.held_ids = frozenset(dumped.dump.held_ids) or NO_IDS
        group.held_memory = frozenset(dumped.dump.held_memory) or NO_RANGES
        group.holders = frozenset(dumped.dump.holders) or NO_NAMES
        self._note_holdings(group)
        same = found.ids == group.reach.ids and found.memory == group.reach.memory
        if same and group.classes >= dumped.dump.classes.keys():  # its stored form may need more
            return
        self.remove(group)
        if dumped.segments is not None and dumped.segments.unwalked:
            from agent_kernel.values.aliases import Reach

            found = Reach(ids=found.ids | group.reach.ids, complete=False)
        group.reach = found
        group.classes = group.classes | dumped.dump.classes.keys() or NO_NAMES
        self.add(group)
        ids = found.ids - before.ids
        places = {(use.space, use.low, use.high) for use in before.memory}
        memory = [use for use in found.memory if (use.space, use.low, use.high) not in places]
        if ids or memory:
            from agent_kernel.values.aliases import Reach, join_reaches

            _, moved = self.moved.get(id(group), (group, Reach()))
            self.moved[id(group)] = group, join_reaches([moved, Reach(ids, memory)])

    def _note_holdings(self, group: Group) -> None:
        if (group.held_ids or group.held_memory) and group.holders:
            self._holding_parts[id(group)] = group
        else:
            self._holding_parts.pop(id(group), None)

    def find_live_holdings(self, except_for: Collection[str] = ()) -> Holdings:
        """What objects that cannot be saved have hold of: they stay as they are wherever a checkout leads.

        Args:
            but: names whose groups do not count.
        """
        from agent_kernel.values.surface import Holdings

        found = Holdings()
        for group in self._holding_parts.values():
            if not any(name in except_for for name in group.members):
                found.ids |= group.held_ids
                found.memory |= group.held_memory
        return found

    def find_groups_sharing(self, holdings: Holdings) -> list[Group]:
        """Groups that, by what was remembered, share an object or memory with what is held."""
        groups = {id(group): group for group in self.find_holders(holdings.ids)}
        if holdings.memory:
            groups |= {id(group): group for group in self if group.reach.memory and holdings.find_shared(group.reach)}
        return list(groups.values())

    def find_lookers(self, memory: AbstractSet[tuple[int, int]]) -> Iterable[Group]:
        """Groups that look at some of this memory."""
        if not memory:
            return ()
        from agent_kernel.values.aliases import MemoryUse, Reach

        self._memory.rebuild(self)
        return self._memory.find_overlapping(Reach(memory=[MemoryUse(None, "cpu", low, high) for low, high in memory]))

    @property
    def holding_parts(self) -> list[Group]:
        """Groups with objects that cannot be saved, and that have hold of others."""
        return list(self._holding_parts.values())

    def find_sharing(self, reach: Reach) -> Iterable[Group]:
        """Groups that may hold an object or memory in common with what was just reached."""
        found = {id(group): group for group in self.find_holders(reach.ids)}
        if reach.memory:
            self._memory.rebuild(self)
            for group in self._memory.find_overlapping(reach):
                found[id(group)] = group
        return found.values()

    def may_be_held(self, reach: Reach) -> bool:
        """Whether `find_sharing` has to be asked: of most of what is new nobody holds anything."""
        return bool(reach.memory or self._wide) or not self._owners.keys().isdisjoint(reach.ids)

    def may_share(self, group: Group, fresh: Reach) -> bool:
        """Whether another group may hold an object or memory in common with what a group has come to reach."""
        if any(other is not group for other in self.find_sharing(fresh)):
            return True
        # The parts of a class are made anew for each dump, and seem to be others each time.
        is_class = any(name.startswith(CLASS_PREFIX) for name in group.members)
        return bool(fresh.ids) and not is_class and not self._partly_known.keys() <= {id(group)}

    def find_holders(self, ids: AbstractSet[int]) -> Iterable[Group]:
        """Groups that, by what was remembered, hold one of these objects."""
        found: dict[int, Group] = {}
        for item in self._owners.keys() & ids:
            holder = self._owners[item]
            found |= holder if isinstance(holder, dict) else {id(holder): holder}
        found.update((key, group) for key, group in self._wide.items() if not group.reach.ids.isdisjoint(ids))
        return found.values()


_Range = tuple[str, int, int, int]  # space, low, high, written


def _ranges(uses: Iterable[MemoryUse]) -> list[_Range]:
    """The memory that the uses look at. Where ranges of one kind meet they are one: the rows of an array are the array."""
    found: list[_Range] = []
    for written, space, low, high in sorted((use.written, use.space, use.low, use.high) for use in uses):
        if found and found[-1][0] == space and found[-1][3] == written and low <= found[-1][2]:
            found[-1] = (space, found[-1][1], max(high, found[-1][2]), written)
        else:
            found.append((space, low, high, written))
    return found


class MemoryIndex:
    """Address ranges of tracked groups, sorted. `tops` is how far all ranges up to each one reach."""

    def __init__(self) -> None:
        self.stale = False
        self.ranges: list[tuple[str, int, int, int, int]] = []  # with the group's id
        # Of each group what it looks at, and the ranges of that: a figure looks at thousands of places.
        self._ranges_of: dict[int, tuple[list[MemoryUse], list[_Range]]] = {}
        self._asked: tuple[list[MemoryUse], list[_Range]] = ([], [])
        self.tops: list[int] = []
        self.groups: dict[int, Group] = {}

    def rebuild(self, tracking: Tracking) -> None:
        if not self.stale:
            return
        self._asked = [], []
        self.groups = {id(group): group for group in tracking if group.reach.memory}
        known = self._ranges_of
        self._ranges_of = {}
        for number, group in self.groups.items():
            uses, ranges = known.get(number, ([], []))
            if uses is not group.reach.memory:
                uses, ranges = group.reach.memory, _ranges(group.reach.memory)
            self._ranges_of[number] = uses, ranges
        self.ranges = sorted((*found, number) for number, (_, ranges) in self._ranges_of.items() for found in ranges)
        self.tops = []
        for _, rows in groupby(self.ranges, itemgetter(0)):
            self.tops += accumulate(map(itemgetter(2), rows), max)
        self.stale = False

    def find_overlapping(self, reach: Reach) -> Iterable[Group]:
        from agent_kernel.values.aliases import can_meet

        found: set[int] = set()
        ranges: Sequence[tuple[object, ...]] = self.ranges
        if ranges and self._asked[0] is not reach.memory:  # of one value it is asked several times
            self._asked = reach.memory, _ranges(reach.memory)
        for space, low, high, written in self._asked[1] if ranges else ():
            place = bisect_left(ranges, (space, high)) - 1
            # What lies further down may reach up to here for as long as anything down there does.
            while place >= 0 and self.ranges[place][0] == space and self.tops[place] > low:
                _, _, top, others, number = self.ranges[place]
                if top > low and can_meet(others, written):
                    found.add(number)
                place -= 1
        return [self.groups[number] for number in found]


def without(group: Group, names: Collection[str]) -> Group | None:
    """The group when these names have left it; None if nothing is left, or if it was loaded."""
    if group.placeholders is None:
        return None
    rest = tuple(name for name in group.members if name not in names)
    if not rest:
        return None
    by_name = {name: found for name, found in group.placeholders.by_name.items() if name in rest}
    reports = {name: found for name, found in group.placeholders.reports.items() if name in rest}
    entries = {name: group.entries[name] for name in rest}
    return msgspec.structs.replace(group, members=rest, stored=entries, placeholders=Placeholders(by_name, reports))


# -- objects of this process that have lasting names: what could not be saved, and notebook classes
#
# A token stands in stored values for an object that could not be saved. While that object lives, loading puts it back;
# afterwards a placeholder stands there, or for a lock a new one: one for each token, so that what was shared stays shared,
# also where its holders are loaded at different times. A checkout must not end a connection that the next one wants back, so what it
# takes out of the namespace is held until the session closes.


class FindCells(Protocol):
    """Finds the commits of some cells of a session, in words, by number.

    With `names`: also of the later cells that gave these names to what those cells made.
    """

    def __call__(self, session: str, numbers: Collection[int], names: Collection[str] = (), /) -> Mapping[int, str]: ...


_FURTHEST = 10_000  # commits to look through for the cell that made a value
USES = b"uses "
_NUMBERED = re.compile(r"run cells? (\[\d+\](?: and \[\d+\])*) again")


def is_of_session(token: str, session: str) -> bool:
    """Whether the object of this token was met by this session: in any other it is gone."""
    return token.rpartition("-")[0].endswith(f"-{session}")


def remedy_for(session: str, failure: SaveFailure, commits: FindCells, names: Collection[str] = ()) -> str:
    """How to have an object again, as this session says it. Numbers of another session's cells are other cells here.

    Args:
        commits: finds the commits of some cells of a session.
        names: variables that lead to the object. The cells that gave it these names have to run again, too.
    """
    numbers = cells_of(failure.remedy)
    is_own = is_of_session(failure.token, session)
    if not numbers or (is_own and not names):
        return failure.remedy
    found = commits(failure.token.rpartition("-")[0].partition("-")[2], numbers, names)
    return _with_cells(failure.remedy, {*numbers, *found}) if is_own else remedy_by_commits(failure.remedy, found)


def _with_cells(remedy: str, numbers: Collection[int]) -> str:
    cells = " and ".join(f"[{number}]" for number in sorted(numbers))
    return _NUMBERED.sub(f"run cell{'s' * (len(numbers) > 1)} {cells} again", remedy)


def remedy_by_commits(remedy: str, made: Mapping[int, str]) -> str:
    """The remedy, read where its cell numbers are other cells: each cell by its commit.

    >>> remedy_by_commits("run cell [3] again to have it back", {3: "3f2a91c4 (f = open(path))"})
    'run the cell of 3f2a91c4 (f = open(path)) again to have it back'
    >>> remedy_by_commits("run cell [3] again to have it back", {})
    'run the cell that made it again to have it back'
    """
    numbers = cells_of(remedy)
    if not numbers:
        return remedy
    texts = list(dict.fromkeys(made[number] for number in sorted(made)))
    cells = f"the cell{'s' * (len(texts) > 1)} of {' and '.join(texts)}" if texts else "the cell that made it"
    return _NUMBERED.sub(lambda _: f"run {cells} again", remedy)


def cells_of(remedy: str) -> list[int]:
    """The numbers of the cells that a remedy tells to run."""
    match = _NUMBERED.search(remedy)
    return [int(number) for number in re.findall(r"\d+", match[1])] if match is not None else []


def _numbers(cell: str) -> list[int]:
    """The number of `cell [3]`."""
    return [int(number) for number in re.findall(r"\[(\d+)\]", cell)]


def describe_failures(
    unsaved: Iterable[Unsaved],
    failures: Iterable[SaveFailure],
    remedy_of: Callable[[SaveFailure, Collection[str]], str],
) -> list[Unsaved]:
    """What to say of what could not be saved, with the remedies that hold now.

    Args:
        losses: the same, with their tokens.
        remedy_of: the remedy of one, for those who use it under these names.
    """
    known = {(loss.type, loss.reason, loss.remedy): loss for loss in failures}
    found: list[Unsaved] = []
    for one in unsaved:
        failure = known.get((one.type, one.reason, one.remedy))
        found.append(
            one if failure is None else msgspec.structs.replace(one, remedy=remedy_of(failure, one.name.split(", ")))
        )
    return found


def _find_no_cells(session: str, numbers: Collection[int], names: Collection[str] = ()) -> Mapping[int, str]:
    return {}


def commits_of_cells(
    repo: Repository, session: str, numbers: Collection[int], names: Collection[str] = ()
) -> dict[int, str]:
    """The commits of some cells of a session by number, as `3f2a91c4 (lock = Lock())`, as far as the history can be read.

    Args:
        names: variables that lead to what these cells made. The newest commit that says so of a name says which later
            cells bound it; these are found, too.
    """
    found: dict[int, str] = {}
    wanted, remaining = set(numbers), set(names)
    with contextlib.suppress(AgentKernelError):
        tips = dict.fromkeys(
            (*repo.branches().values(), *repo.tags().values(), *(head.commit for head in repo.heads().values()))
        )
        for id, commit in repo.log([tip for tip in tips if tip is not None], limit=_FURTHEST):
            if commit.session != session:
                continue
            for one in commit.unsaved if remaining else ():
                named = remaining.intersection(one.name.split(", "))
                cells = set(cells_of(one.remedy)) if named else set[int]()
                if named and cells.issuperset(numbers):
                    wanted |= cells
                    remaining -= named
            number = commit.cell.number if commit.cell is not None else None
            if number is not None and number in wanted and number not in found:
                found[number] = label_of(id, commit)
            if len(found) == len(wanted):
                break
    return found


def label_of(id: ObjectId, commit: Commit) -> str:
    """`3f2a91c4 (lock = Lock())`: asked once for each of thousands of values that one cell made."""
    known = _labels.get(id)
    if known is None:
        if len(_labels) > _MOST_LABELS:
            _labels.clear()
        known = _labels[id] = f"{short(id)} ({shorten(title(commit), _TITLE)})"
    return known


_labels: dict[ObjectId, str] = {}
_MOST_LABELS = 1_000
_TITLE = 60  # characters of what a cell is called


class Living:
    """Tokens and class ids of one session, whose id the tokens hold.

    They outlive the session where another one goes on with the same namespace and store: see `rest` and `go_on`.

    Args:
        commits: finds the commits of some cells of a session.
    """

    def __init__(self, commits: FindCells = _find_no_cells) -> None:
        self._commits = commits
        self.session = ""
        self.process = ProcessState()
        self.cell = ""  # what made a new token, for the way out: "cell [3]"
        self._tokens: dict[int, tuple[_Reference, str]] = {}
        self._objects: dict[str, _Reference] = {}
        self._origins: dict[str, tuple[str, ...]] = {}  # the cells to run again, in order
        self._makers: dict[str, str] = {}  # by variable, the cell that assigned it
        self._dumped: Collection[str] = ()  # the variables that are dumped now
        self._remade: set[str] = set()
        self._uses: Counter[str] = (
            Counter()
        )  # by token, the cells that used what shows nothing of what it is in the middle of
        self._used: Collection[str] = ()  # variables that the code of this cell uses
        self._counted: set[str] = set()
        self.interrupted: set[str] = set()  # names whose saving was interrupted the last time
        self.arrived: list[int] | None = None  # a Ctrl-C each, since a commit looks at values; None: it cannot be told
        self._pins: dict[int, str] = {}  # tokens of what can be saved, by id
        self._pinned: dict[str, tuple[int, _Reference]] = {}
        self._placeholders: weakref.WeakValueDictionary[str, Placeholder] = weakref.WeakValueDictionary()

    def rest(self) -> None:
        """The session has closed: keep nothing alive. What lives on by itself is known again if another one goes on."""
        for token, hold in tuple(self._objects.items()):
            weak = _weaken(hold)
            if weak is None:
                del self._objects[token]
            else:
                self._objects[token] = weak
        self._tokens = {id: (weak, token) for id, (hold, token) in self._tokens.items() if (weak := _weaken(hold))}
        for token, (_, hold) in tuple(self._pinned.items()):
            if isinstance(hold, _StrongReference):
                self._unpin(token)
        self._dumped, self._commits = (), _find_no_cells

    def go_on(self, commits: FindCells) -> None:
        """Another session goes on with the namespace, under the id that the tokens hold. `commits`: as it finds them."""
        self._commits = commits

    @functools.cached_property
    def classes(self) -> ClassRegistry:
        """The ids of notebook classes."""
        from agent_kernel.values.classes import ClassRegistry

        return ClassRegistry()

    def uid_of(self, kind: type) -> str:
        return self.classes.uid_of(kind)

    def save_failure_of(self, value: object) -> SaveFailure | None:
        return save_failure_of(value)

    def token_of(self, value: object) -> str:
        """The object's token; a new one at first sight."""
        known = self._tokens.get(id(value))
        if known is not None and _target(known[0]) is value:
            return known[1]
        token = f"{type.__getattribute__(type(value), '__name__')}-{self.session}-{secrets.token_hex(6)}"
        self._name(token, value)
        self._origins[token] = self._cells()
        return token

    def dumps(self, names: Collection[str], rebound: Collection[str]) -> None:
        """These variables are dumped next, of which `rebound` were assigned since the last commit."""
        self._dumped = tuple(names)  # of a mapping the names alone: its values must be free to die
        for name in names:
            if name in rebound or name not in self._makers:
                self._makers[name] = self.cell

    def begin_uses(self, names: Collection[str]) -> None:
        """These variables the code of a cell uses."""
        self._used = names
        self._counted.clear()

    def surface_of(self, token: str, value: object) -> bytes:
        """What tells whether an object that cannot be saved is as it was: how it looks, or how many cells have used it."""
        if not is_closed(value):
            return surface_digest(value)
        if token not in self._counted and not set(self._used).isdisjoint(self._dumped):
            self._counted.add(token)
            self._uses[token] += 1
        return USES + str(self._uses[token]).encode()

    def is_as_it_was(self, token: str, surface: bytes) -> bool:
        """Whether the live object of a token is as it was when this was its surface."""
        value = self.live_object(token)
        if not surface or value is None:
            return True
        if surface.startswith(USES):
            return surface == USES + str(self._uses[token]).encode()
        return surface_digest(value) == surface

    def _cells(self) -> tuple[str, ...]:
        """Which cells make what is met now: the one that assigned its variable, and this one, which put it there."""
        made = {self._makers.get(name, self.cell) for name in self._dumped}
        first = made.pop() if len(made) == 1 else self.cell
        return tuple(dict.fromkeys(one for one in (first, self.cell) if one))

    def _name(self, token: str, value: object) -> None:
        reference = _reference_to(value)
        self._tokens[id(value)] = reference, token
        self._objects[token] = reference

    def remedy_of(self, token: str) -> str:
        cells = self._origins.get(token, ())
        if len(cells) > 1:
            return f"run cells {' and '.join(cell.removeprefix('cell ') for cell in cells)} again to have it back"
        return f"run {cells[0]} again to have it back" if cells else ""

    def live_object(self, token: str) -> object | None:
        return _target(self._objects.get(token))

    def live_or_new(self, token: str, make: Callable[[], object]) -> object:
        """The object; where it is gone another in its place, which has its token from then on."""
        alive = self.live_object(token)
        if alive is None:
            alive = make()
            self._name(token, alive)
            self._remade.add(token)
        return alive

    def has_lived(self, uid: str) -> bool:
        """Whether a class of this id was made in this process."""
        return self.classes.has_lived(uid)

    def placeholder(self, token: str, failure: SaveFailure) -> Placeholder:
        """What stands for an object that is gone: one for all that held it."""
        found = self._placeholders.get(token)
        if found is None:
            found = self._placeholders[token] = Placeholder(failure, remedy=weakref.WeakMethod(self.remedy_now))
        return found

    def remedy_now(self, failure: SaveFailure, names: Collection[str] = ()) -> str:
        """How to have the object again under these names. See `remedy_for`."""
        if is_of_session(failure.token, self.session):
            return self._with_makers(failure.remedy, names)
        return remedy_for(self.session, failure, self._commits, names)

    def describe_failures(self, unsaved: Iterable[Unsaved], failures: Iterable[SaveFailure]) -> list[Unsaved]:
        """Describe what could not be saved, with the remedies that hold now."""
        return describe_failures(unsaved, failures, self.remedy_now)

    def _with_makers(self, remedy: str, names: Collection[str]) -> str:
        """The remedy with the later cells that gave an object its names: what made the object gives it no second name."""
        numbers = cells_of(remedy)
        if not numbers:
            return remedy
        makers = (self._makers.get(name, "") for name in names)
        later = {number for maker in makers for number in _numbers(maker) if number > max(numbers)}
        return _with_cells(remedy, {*numbers, *later}) if later else remedy

    def has_placeholder(self, token: str) -> bool:
        """Whether something that lives holds a placeholder for the object."""
        return token in self._placeholders

    def pin(self, value: object) -> str:
        """The token of an object that can be saved, and that something which stays alive has hold of."""
        known = self._pins.get(id(value))
        if known is not None and self.find_pinned(known) is value:
            return known
        token = f"{type.__getattribute__(type(value), '__name__')}-{self.session}-{secrets.token_hex(6)}"
        self.pin_as(token, value)
        return token

    def pin_as(self, token: str, value: object) -> None:
        """Let this object have the token: it takes the place of one that nothing holds any more."""
        self._unpin(token)
        self._unpin(self._pins.get(id(value), ""))
        self._pins[id(value)] = token
        self._pinned[token] = id(value), _reference_to(value)

    def _unpin(self, token: str) -> None:
        if token in self._pinned:
            del self._pins[self._pinned.pop(token)[0]]

    def find_pinned(self, token: str) -> object | None:
        """Find the object of such a token, as long as something that stays alive may have hold of it."""
        return _target(self._pinned[token][1]) if token in self._pinned else None

    def let_go_of_pins(self, tokens: Iterable[str], namespace: dict[str, object]) -> None:
        """Let those of these objects die of which nothing that stays alive has hold any more.

        Args:
            tokens: what stays alive, besides what is held until the session closes.
        """
        if not self._pins:
            return
        tokens_alive = {token for token, hold in self._objects.items() if isinstance(hold, _StrongReference)}.union(
            tokens
        )
        holdings = self.find_holdings(tokens_alive, namespace)
        for item in self._pins.keys() - holdings.ids:
            token = self._pins[item]
            if not (holdings.memory and holdings.meets(_holdings_of(self.find_pinned(token)))):
                self._unpin(token)

    def find_holdings(self, tokens: Iterable[str], namespace: dict[str, object]) -> Holdings:
        """Find what the objects of these tokens have hold of, as far as they are alive."""
        from agent_kernel.values.surface import Holdings, find_holdings

        found = Holdings()
        for value in map(self.live_object, tokens):
            if value is not None:
                found.update(find_holdings(value, namespace))
        return found

    def has_stayed(self, token: str) -> bool:
        """Whether the very object is still there, and nothing else in its place."""
        return token not in self._remade and self.live_object(token) is not None

    def hold(self, token: str) -> None:
        """Keep the object alive until the session closes."""
        alive = self.live_object(token)
        if alive is not None:
            self._objects[token] = _StrongReference(alive)


class _StrongReference:
    """A strong hold on what else is held weakly."""

    def __init__(self, value: object) -> None:
        self.value = value


_Reference = weakref.ref[object] | _StrongReference


def _holdings_of(value: object) -> Holdings:
    """The object itself, as what lies in another one."""
    from agent_kernel.values.surface import Holdings

    found = Holdings()
    if value is not None:
        found.add(value)
    return found


def _reference_to(value: object) -> _Reference:
    try:
        return weakref.ref(value)
    except TypeError:
        return _StrongReference(value)


def _weaken(reference: _Reference) -> _Reference | None:
    """The same hold, without keeping the object alive; None where that cannot be."""
    if not isinstance(reference, _StrongReference):
        return reference
    weak = _reference_to(reference.value)
    return None if isinstance(weak, _StrongReference) else weak


def _target(reference: _Reference | None) -> object | None:
    if reference is None:
        return None
    return reference.value if isinstance(reference, _StrongReference) else reference()
