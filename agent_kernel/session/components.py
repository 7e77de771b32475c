"""What many names lead to is dumped once in a commit, and looked for by identity from then on.

A figure leads to its axes and artists, and each of those leads back to the figure: whichever name holds one of them, its
dump holds all. The first such dump is kept for the rest of the commit as a `Component`. What another name holds is dumped
beside it: a number stands for each object that leads back to the component's root, so that the name's own digest still
covers all that its value leads to, and which of the objects that is.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Mapping

import msgspec

from agent_kernel.session import saving
from agent_kernel.session.tracking import Roots
from agent_kernel.values import CLASS_PREFIX, references
from agent_kernel.values.dump import Dump, LiveNames
from agent_kernel.values.groups import dump_group, reach_of
from agent_kernel.values.pickler import FOREIGN, leads_to
from agent_kernel.values.reducers.figures import is_saved_with_root, root_below, root_of
from agent_kernel.values.segments import is_long

_PACKAGE = "matplotlib"
_FIGURES = "matplotlib.figure"


# By the ids of figures, what was met of modules when each was walked last. A wrong guess costs a second dump, no more.
_named_in: dict[int, tuple[weakref.ref[object], frozenset[int]]] = {}
_MOST_NOTED = 1_000


def _note_named(root: object, dump: Dump) -> None:
    if len(_named_in) >= _MOST_NOTED:
        _named_in.clear()
    _named_in[id(root)] = weakref.ref(root), frozenset(dump.named)


def _known_of(root: object) -> frozenset[int] | None:
    figure, named = _named_in.get(id(root), (None, None))
    return named if figure is not None and figure() is root else None  # another may stand where one died


class Component(msgspec.Struct, eq=False):
    """Objects that were dumped from a root: `inside` are the ids of those that lead back to it, `outside` of those that do not."""

    root_id: int
    compared: saving.Compared
    places: dict[int, int]
    inside: set[int]
    outside: set[int] = msgspec.field(default_factory=set[int])
    is_told: bool = False  # whether what it reaches counts for one of the names

    @property
    def root(self) -> object:
        # Not held once more: how many hold an object says whether others may share it.
        return self.dump.instances[self.places[self.root_id]]

    @property
    def dump(self) -> Dump:
        return self.compared.dumped.dump

    def tell_reach(self) -> None:
        """Let what it reaches be known, now that it counts for a name."""
        self.find_reach()
        self.is_told = True

    def find_reach(self) -> None:
        dumped = self.compared.dumped
        if dumped.reach.deferred:
            dumped.reach = reach_of({"": self.root}, dumped.dump, (), dumped.pickler or dumped.remembers)
            dumped.remembers = None


class Components:
    """The components of one commit, by the ids of what they hold. They keep it alive, so that ids stay true."""

    def __init__(self, names: LiveNames, namespace: dict[str, object]) -> None:
        self._names = names
        self._namespace = namespace
        self._defer = False  # whether what is dumped now was walked before, and what was met of modules then
        self._named: Collection[int] = ()
        self._roots: dict[int, Component] = {}
        self._inside: dict[int, Component] = {}
        self._visited: dict[int, Component] = {}
        self._also: dict[int, list[Component]] = {}
        self._waiting: list[Component] = []
        self._refused: dict[int, object] = {}
        self._met_figures = False
        self._followed: list[Dump] = []  # ids stay true while these live

    def find(self, value: object) -> Component | None:
        """The component of which the value is a part that leads to all of it."""
        key = id(value)
        if self._waiting:
            self._index()
        found = self._inside.get(key)
        if found is not None:
            return found
        if key not in self._visited and self.made_of(root_of(value)) is None:
            return None
        for component in self._holding(key):
            if key not in component.outside and (
                (root_of(value) is component.root and is_saved_with_root(value)) or self._leads_back(value, component)
            ):
                self._inside[key] = component
                return component
        return None

    def _holding(self, key: int) -> list[Component]:
        if self._waiting:
            self._index()
        first = self._visited.get(key)
        return [] if first is None else [first, *self._also.get(key, ())]

    def made_of(self, root: object | None) -> Component | None:
        """The component of a root, dumped now if it was not; None if it cannot be saved as it is."""
        if root is None or id(root) in self._refused:
            return None
        found = self._roots.get(id(root))
        if found is None:
            compared = self._make(root)
            found = self.add(root, compared) if compared is not None else None
            if found is None:
                self._refused[id(root)] = root
        return found

    def let_go(self) -> None:
        """The commit ends: what figures hold of matplotlib's modules is known."""
        for component in self._roots.values():
            component.compared.dumped.spent = None
        if _FIGURES in sys.modules:
            from agent_kernel.values.constants import look_into

            # With the cell that imports it, which takes long anyway. What is noted is held once more.
            if look_into(_PACKAGE) or self._met_figures:
                references.count_holders(_PACKAGE)

    def is_led(self, members: Mapping[str, object]) -> bool:
        """Whether the members are dumped behind a component."""
        return self._lead(members) is not None

    def dump_led(
        self, members: Mapping[str, object], *, defer: bool = False, named: Collection[int] = (), expects: bytes = b""
    ) -> saving.Compared | None:
        """Dump members that lead to a figure behind it; None if they lead to none.

        Args:
            expects: their signature as it was, if these were all members.
        """
        self._defer, self._named = defer, named
        try:
            return self._dump_led(members, expects)
        finally:
            self._defer, self._named = False, ()

    def _dump_led(self, members: Mapping[str, object], expects: bytes) -> saving.Compared | None:
        lead = self._lead(members)
        if lead is None:
            return None
        # Not by `==`, which runs anyone's code: arrays answer with an array.
        if len(members) == 1 and all(value is lead.root for value in members.values()) and not lead.dump.loose:
            lead.find_reach()
            return lead.compared
        first = lead.compared.dumped
        first.reopen()
        if first.pickler is None:  # it has been gone on with
            again = self._make(lead.root)
            if again is None:
                return None
            first.pickler = again.dumped.pickler
            first.dump = again.dumped.dump
        first.is_marked = bool(expects)
        dumped = dump_group(members, self._names, self._namespace, defer=self._defer, lead=first)
        dumped.pickler = None
        compared = saving.compare(dumped)
        # What changed may have other members now. The memo holds what it met: that is to be no object beside the figure.
        if compared.signature == expects or len(dumped.dump.instances) > len(first.dump.instances):
            first.spent = None
        return compared

    def _lead(self, members: Mapping[str, object]) -> Component | None:
        if any(map(is_long, members.values())) or any(name.startswith(CLASS_PREFIX) for name in members):
            return None
        return self.made_of(root_below(members.values()))

    def add(self, root: object, compared: saving.Compared) -> Component | None:
        """Keep the dump of a value, if other values can be found in it."""
        dump = compared.dumped.dump
        if dump.losses or compared.dumped.segments is not None:
            return None
        places = {id(value): place for place, value in enumerate(dump.instances)}
        if id(root) not in places or id(root) in self._roots:
            return None
        component = Component(id(root), compared, places, {id(root)})
        self._roots[id(root)] = self._inside[id(root)] = component
        self._waiting.append(component)
        return component

    def _make(self, root: object) -> saving.Compared | None:
        try:
            self._met_figures = True
            known = None if self._defer else _known_of(root)
            guessed = references.newly_held(_PACKAGE).difference(self._named)
            dumped = dump_group(
                {"": root},
                self._names,
                self._namespace,
                whole=True,
                named=guessed.union(self._named) if known is None else known,
                defer=self._defer and not guessed,  # what was guessed wrongly would look like a change
                packs=True,
            )
            if not dumped.reach.deferred:
                _note_named(root, dumped.dump)
            return saving.compare(dumped)
        except FOREIGN:
            return None

    def _index(self) -> None:
        for component in self._waiting:
            fresh = dict.fromkeys(component.places, component)
            for key in self._visited.keys() & fresh.keys():
                self._also.setdefault(key, []).append(component)
                del fresh[key]
            self._visited |= fresh
        self._waiting = []

    def _leads_back(self, value: object, component: Component) -> bool:
        below = leads_to(value, component.inside, self._names, self._namespace)
        if below is None:
            component.inside.add(id(value))
            return True
        component.outside.update(map(id, below.instances))
        self._followed.append(below)
        return False


def roots_of(dump: Dump) -> Roots:
    """The components that a dump is compared by."""
    found: list[Component] = dump.met
    return tuple((component.root_id, component.compared.own, _watched(component.root)) for component in found)


def _watched(root: object) -> weakref.ref[object] | None:
    # Only what is known to bear it: numpy refuses to resize an array that is watched.
    return weakref.ref(root) if root_of(root) is root else None
