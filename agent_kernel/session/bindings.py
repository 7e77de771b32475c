"""Which names of a namespace are bound to another object than at the last commit, whatever bound them.

The namespace is a plain dict, so this compares addresses: those of its rows, a name and its value each, with what they
were at the last commit. A row stays in its place until the dict makes a new table, and a name that is bound anew after it
was deleted comes last. So what moved is in rows that are other ones now, or behind those that were there.

An address can be used again after its object is gone. So names are kept, and each object is also kept where it is small,
or watched by a weak reference. A long list, dict or text can be neither kept nor watched: its address is believed until
its content is verified.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from itertools import islice
from typing import ClassVar

import msgspec

from agent_kernel.repository import Repository
from agent_kernel.values.addresses import ATOM_IDS, Rows, differences, ids_in

HELD_BYTES = 4_096
# By id: hashing a type runs its metaclass.
BUILTIN_IDS = frozenset(map(id, (list, dict, set, tuple, frozenset, bytearray)))


class Rebound(msgspec.Struct, frozen=True):
    """Names by what happened to their binding since the last look."""

    new: frozenset[str]
    rebound: frozenset[str]
    removed: frozenset[str]


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
        self._behind: list[str] = []  # names of the rows behind those of the last note
        self._looked: dict[
            str, int
        ] = {}  # what versioned names whose rows moved were bound to at that look; 0: nothing
        self.containers: dict[str, None] = {}  # names bound to builtin containers, in the order in which they were
        self.unwritable: set[str] = set()  # names that are no text UTF-8 could hold

    def forget_rules(self) -> None:
        """The rule for which names are versioned changed."""
        self._versioned.clear()
        self._noted, self._names, self._is_whole = b"", [], False

    def is_versioned(self, name: str) -> bool:
        """Whether the session saves what is bound to this name."""
        verdict = self._versioned.get(name)
        if verdict is None:
            verdict = self._versioned[name] = type(name) is str and self._is_versioned(name)
            if verdict and not _can_be_written(name):
                self._versioned[name] = verdict = False
                self.unwritable.add(name)
        return bool(verdict)

    def names(self, namespace: dict[str, object]) -> list[str]:
        """The versioned names, in the namespace's order."""
        return list(filter(self.is_versioned, tuple(namespace)))

    def find_changes(self, namespace: dict[str, object]) -> Rebound:
        """Compare with the last `note`. Costs a hundredth of a microsecond for each name that stayed."""
        rows = self._read(namespace)
        self._look, self._looked, self._behind = None, {}, []
        if not self._is_whole or not self._look_at(rows, namespace):
            return self._drop_old(self._compare_all(namespace))
        self._look = rows
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

    def _look_at(self, rows: bytes, namespace: dict[str, object]) -> bool:
        """Find the rows that are other ones than at the last note; False where the namespace has another table since."""
        known = len(self._noted)
        if len(rows) < known:
            return False
        moved: dict[str, int] = {}
        if not rows.startswith(self._noted):
            before, now = ids_in(self._noted), ids_in(rows)
            for row in sorted({place // 2 for place in differences(self._noted, rows[:known])}):
                if now[2 * row] not in (before[2 * row], 0):
                    return False
                moved[self._names[row]] = now[2 * row + 1]
        if len(rows) > known:
            behind = ids_in(rows[known:])
            names = _pair_names(behind[::2].tolist(), list(islice(reversed(namespace), len(behind) // 2)))
            if names is None:
                return False
            self._behind = names
            moved.update((name, found) for name, found in zip(names, behind[1::2].tolist(), strict=True) if found)
        self._looked = {name: found for name, found in moved.items() if self.is_versioned(name)}
        return True

    def _compare_all(self, namespace: dict[str, object]) -> Rebound:
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
            return
        self._noted = self._read(namespace)
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
