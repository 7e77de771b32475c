"""Which names of a namespace are bound to another object than at the last commit, whatever bound them.

The namespace is a plain dict, so this compares addresses. One can be used again after its object is gone, so each object
is also kept where it is small, or watched by a weak reference. A long list, dict or text can be neither kept nor watched:
its address is believed until its content is verified.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agent_kernel.values.addresses import addresses, differences, ids_in

HELD_BYTES = 4_096
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
BUILTIN_IDS = frozenset(map(id, (list, dict, set, tuple, frozenset, bytearray)))


class Look(NamedTuple):
    """The whole namespace at one moment: its names, and where they and their values lie."""

    keys: tuple[str, ...] = ()
    names_at: bytes = b""
    values_at: bytes = b""

    @classmethod
    def at(cls, namespace: Mapping[str, object]) -> Look:
        keys = tuple(namespace)
        return cls(keys, addresses(keys), addresses(namespace.values()))

    def goes_on_from(self, before: Look) -> bool:
        """Whether the names of an earlier look are the first of these. (A dict keeps a name's object as long as the name.)"""
        return self.names_at.startswith(before.names_at) and len(self.names_at) == len(self.values_at)


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
        self._noted = Look()
        self._bound: dict[str, int] = {}
        self._held: dict[str, object] = {}
        self._watched: dict[str, weakref.ref[object]] = {}
        self._dead: set[str] = set()
        self._names: list[str] = []
        self._is_whole = False  # the names that were versioned at the last note are those that are bound
        self._look: Look | None = None
        self._looked: dict[str, int] = {}  # what names that moved were bound to at that look
        self.containers: dict[str, None] = {}  # names bound to builtin containers, in the order in which they were
        self.unwritable: set[str] = set()  # names that are no text UTF-8 could hold

    def forget_rules(self) -> None:
        """The rule for which names are versioned changed."""
        self._versioned.clear()
        self._noted, self._names, self._is_whole = Look(), [], False

    def is_versioned(self, name: str) -> bool:
        """Whether the session saves what is bound to this name."""
        verdict = self._versioned.get(name)
        if verdict is None:
            verdict = self._versioned[name] = type(name) is str and self._is_versioned(name)
            if verdict and not _can_be_written(name):
                self._versioned[name] = verdict = False
                self.unwritable.add(name)
        return bool(verdict)

    def names(self, namespace: Mapping[str, object]) -> list[str]:
        """The versioned names, in the namespace's order."""
        return self._names_among(tuple(namespace))

    def _names_among(self, keys: Sequence[str]) -> list[str]:
        known = len(self._noted.keys)
        if keys[:known] != self._noted.keys:
            return list(filter(self.is_versioned, keys))
        return self._names + list(filter(self.is_versioned, keys[known:]))

    def changed(self, namespace: Mapping[str, object]) -> Rebound:
        """Compare with the last `note`. Costs a tenth of a millisecond for 5,000 names that stayed."""
        look = Look.at(namespace)
        self._look = None
        if not self._is_whole or not look.goes_on_from(self._noted):
            return self._changed_anywhere(look.keys, namespace)
        # Names of its own, which IPython binds at every cell, come last.
        ids = ids_in(look.values_at)
        suspects = [(look.keys[place], ids[place]) for place in differences(self._noted.values_at, look.values_at)]
        self._look = look
        self._looked = {name: found for name, found in suspects if self.is_versioned(name)}
        moved = {name for name, found in self._looked.items() if self._bound.get(name) != found}
        new = moved - self._bound.keys()
        return Rebound(frozenset(new), frozenset((moved - new) | (self._dead & self._bound.keys())), frozenset())

    def _changed_anywhere(self, keys: Sequence[str], namespace: Mapping[str, object]) -> Rebound:
        current = self._names_among(keys)
        bound = self._bound
        new = frozenset(name for name in current if name not in bound)
        rebound = {name for name in current if name in bound and bound[name] != id(namespace.get(name))}
        removed = frozenset(bound.keys() - set(current))
        # The dead are emptied name by name as they are saved again.
        return Rebound(new, frozenset(rebound | ((self._dead & bound.keys()) - removed)), removed)

    def note(self, namespace: Mapping[str, object], *, as_looked: bool = False) -> None:
        """Remember the order and ids of the whole namespace, so that the next look can be one comparison.

        Args:
            as_looked: what the last look saw is what was saved; what moved after it, the next one finds.
        """
        look, self._look = self._look, None
        if not as_looked or look is None:
            look = Look.at(namespace)
            self._names = self._names_among(look.keys)
            self._is_whole = self._bound.keys() == set(self._names)
        elif len(look.keys) > len(self._noted.keys):  # a look that is kept goes on from the one before
            self._names += filter(self.is_versioned, look.keys[len(self._noted.keys) :])
            self._is_whole = len(self._bound) == len(self._names)
        self._noted = look

    def is_settled(self, name: str) -> bool:
        """Whether the name is bound to an immutable builtin that is kept: only another binding can change it."""
        return id(type(self._held.get(name, self))) in _ATOM_IDS

    def bind(self, name: str, value: object, *, small: bool) -> None:
        """The name's value was saved. `small`: it is builtin data of at most `HELD_BYTES`, which may be kept."""
        if self._look is not None and self._looked.get(name, self._bound.get(name)) != id(value):
            self._look = None  # it moved after the look
        watch = self._watched.get(name)
        # Nothing watches None: a watch that gives it has lost what it watched.
        watched = watch() if watch is not None else None
        if (name in self._held and self._held[name] is value) or (watched is not None and watched is value):
            return
        self.unbind(name)
        self._bound[name] = id(value)
        if id(type(value)) in BUILTIN_IDS:
            self.containers[name] = None
        if small or (id(type(value)) in _ATOM_IDS and _size(value) <= HELD_BYTES):
            self._held[name] = value
            return
        if _is_array(value):  # numpy refuses to resize an array that is watched
            return
        try:
            self._watched[name] = weakref.ref(value, lambda _, name=name: self._dead.add(name))  # type: ignore[misc]
        except TypeError:
            return

    def miss(self, name: str) -> None:
        """Let the next look find that the name was deleted, unless it is bound by then."""
        self._bound.setdefault(name, 0)

    def unbind(self, name: str) -> None:
        self._bound.pop(name, None)
        self.containers.pop(name, None)
        self._held.pop(name, None)
        self._watched.pop(name, None)
        self._dead.discard(name)


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
