"""Which names of a namespace are bound to another object than at the last commit, whatever bound them.

The namespace is a plain dict, so this compares ids. An id can be used again after its object is gone, so each object is
also kept where it is small, or watched by a weak reference. A long list, dict or text can be neither kept nor watched:
its id is believed until its content is verified.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from itertools import compress
from operator import ne

import msgspec

HELD_BYTES = 4_096
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


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
        self._keys: list[str] = []
        self._ids: list[int] = []
        self._bound: dict[str, int] = {}
        self._held: dict[str, object] = {}
        self._watched: dict[str, weakref.ref[object]] = {}
        self._dead: set[str] = set()
        self._names: list[str] = []
        self.unwritable: set[str] = set()  # names that are no text UTF-8 could hold

    def forget_rules(self) -> None:
        """The rule for which names are versioned changed."""
        self._versioned.clear()
        self._keys = []

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
        if self._keys and list(namespace) == self._keys:
            return self._names
        return list(filter(self.is_versioned, list(namespace)))

    def changed(self, namespace: Mapping[str, object]) -> Rebound:
        """Compare with the last `note`. Costs a quarter of a millisecond for 5,000 names that stayed."""
        keys = list(namespace)
        ids = list(map(id, namespace.values()))
        dead = self._dead  # emptied name by name as they are saved again
        if keys == self._keys:
            suspects = [name for name in compress(keys, map(ne, ids, self._ids)) if self._versioned.get(name)]
            rebound = {name for name in suspects if self._bound.get(name) != id(namespace.get(name))}
            return Rebound(frozenset(), frozenset(rebound | (dead & self._bound.keys())), frozenset())
        current = self.names(namespace)
        bound = self._bound
        new = frozenset(name for name in current if name not in bound)
        rebound = {name for name in current if name in bound and bound[name] != id(namespace.get(name))}
        removed = frozenset(bound.keys() - set(current))
        return Rebound(new, frozenset(rebound | ((dead & bound.keys()) - removed)), removed)

    def seems_unmoved(self, namespace: Mapping[str, object]) -> bool:
        """Whether every name is bound to the id that it had: the quickest look."""
        return not self._dead and list(map(id, namespace.values())) == self._ids

    def note(self, namespace: Mapping[str, object]) -> None:
        """Remember the order and ids of the whole namespace, so that the next look can be one comparison."""
        keys = list(namespace)
        if keys != self._keys:
            self._names = list(filter(self.is_versioned, keys))
            self._keys = keys
        self._ids = list(map(id, namespace.values()))

    def is_settled(self, name: str) -> bool:
        """Whether the name is bound to an immutable builtin that is kept: only another binding can change it."""
        return id(type(self._held.get(name, self))) in _ATOM_IDS

    def bind(self, name: str, value: object, *, small: bool) -> None:
        """The name's value was saved. `small`: it is builtin data of at most `HELD_BYTES`, which may be kept."""
        watch = self._watched.get(name)
        if (name in self._held and self._held[name] is value) or (watch is not None and watch() is value):
            return
        self.unbind(name)
        self._bound[name] = id(value)
        if small or (id(type(value)) in _ATOM_IDS and _size(value) <= HELD_BYTES):
            self._held[name] = value
            return
        if _is_array(value):  # numpy refuses to resize an array that is watched
            return
        try:
            self._watched[name] = weakref.ref(value, lambda _, name=name: self._dead.add(name))  # type: ignore[misc]
        except TypeError:
            return

    def unbind(self, name: str) -> None:
        self._bound.pop(name, None)
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
