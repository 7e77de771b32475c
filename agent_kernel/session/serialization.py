"""Dump what a cell may have touched, each name alone, and tell which groups look as they did.

A group that looks unchanged as a whole is not looked into further. Of one that changed each member is dumped alone, to
see what it reaches now and whether its own content is another. What many names lead to is dumped once for all of them.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import sys
import time
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import msgspec
from xxhash import xxh3_128, xxh3_128_digest

from agent_kernel.repository import (
    Change,
    Entry,
    Pieces,
    Unsaved,
    digest_pieces,
    plan_cuts,
    stream_cuts,
)
from agent_kernel.repository.objects import INLINE
from agent_kernel.session.tracking import (
    LEAST_COST_S,
    NO_OWN,
    Group,
    Roots,
    Tracking,
)
from agent_kernel.values import CLASS_PREFIX, atoms, class_entry, references
from agent_kernel.values.aliases import (
    BYTE_OWNERS,
    OPEN,
    Dump,
    LiveNames,
    Reach,
    find,
    ids_of_items,
    join_reaches,
)
from agent_kernel.values.atoms import Part
from agent_kernel.values.group_digests import is_unchanged
from agent_kernel.values.groups import (
    Dumped,
    Layout,
    dump_group,
    dump_plain,
    find_shared_owners,
    plain_stream,
    reach_of,
)
from agent_kernel.values.hash_cycles import is_filled_too_early
from agent_kernel.values.introspection import (
    ATOM_IDS,
    derives_from,
    figure_of,
    ids_of,
    loaded_class,
    referents,
    root_below,
    root_of,
)
from agent_kernel.values.pickler import FOREIGN, ManyPartsError, explain, leads_to, type_name
from agent_kernel.values.reducers import dispatch_table
from agent_kernel.values.references import is_nan
from agent_kernel.values.segments import Parts, is_long
from agent_kernel.values.surface import Unsavable

if TYPE_CHECKING:
    from agent_kernel.session.tracking import Living
    from agent_kernel.values.aliases import Memory
    from agent_kernel.values.segments import Cuts
    from agent_kernel.values.surface import Holdings


# -- compare a dumped group with what was saved of it

_ONE_PIECE = 4096
_NOTHING_READ: Mapping[int, Pieces] = {}


class Compared(msgspec.Struct):
    """A dumped group with the digests of its blobs; `signature` covers all that is stored of it."""

    dumped: Dumped
    cuts: list[Sequence[int]]
    digests: list[Sequence[bytes]]
    signature: bytes
    is_plain: bool = False  # one short stream of numbers and texts, of which nothing else is to be noted

    @property
    def size(self) -> int:
        """Bytes of all streams and buffers."""
        own = sum(map(_bytes_in, self.dumped.blobs))
        return own + sum(component.compared.size for component in self.dumped.dump.met) if self.dumped.dump.met else own

    @property
    def own(self) -> bytes:
        """Covers the content alone: of a long container not how it refers to what other variables hold of it."""
        if self.dumped.dump.met:
            components = (component.compared.own for component in self.dumped.dump.met)
            return xxh3_128_digest(b"".join([self.signature, *components]))
        cut = self.dumped.segments
        if cut is None or self.dumped.layout.within:
            return self.signature
        buffers = (piece for pieces in self.digests[self.dumped.streams :] for piece in pieces)
        return xxh3_128_digest(b"".join([*(segment.digest for segment in cut.segments), *buffers]))


def _with_layout(compared: Compared, **fields: Any) -> Compared:
    layout = msgspec.structs.replace(compared.dumped.layout, **fields)
    return msgspec.structs.replace(compared, dumped=msgspec.structs.replace(compared.dumped, layout=layout))


def own_of(value: object, alone: Compared) -> bytes:
    """Covers what a value is by itself. What is logged changes what a handler writes to, and not the handler."""
    if not derives_from(type(value), logging.Handler) and not derives_from(type(value), logging.Logger):
        return alone.own
    attributes = {
        name: found for name, found in vars(value).items() if name not in ("_cache", "lock", "parent", "manager")
    }
    return xxh3_128_digest(repr(sorted((name, _identify(found)) for name, found in attributes.items())).encode())


def _identify(found: object) -> object:
    if type(found) in (list, tuple):
        return list(map(id, cast("list[object]", found)))
    return found if type(found) in (int, str, bool) else id(found)


def compare(dumped: Dumped, read: Mapping[int, Pieces] = _NOTHING_READ) -> Compared:
    """Hash every blob piece by piece: one fast pass over the bytes.

    Args:
        read: by address memory whose pieces were hashed when it was filled, and need not be again.
    """
    cuts: list[Sequence[int]] = []
    digests: list[Sequence[bytes]] = []
    whole = xxh3_128()
    for position, blob in enumerate(dumped.blobs):
        ends: Sequence[int]
        if isinstance(blob, Part):
            ends, pieces = _hash_part(blob)
            cuts.append(ends)
            digests.append(pieces)
            whole.update(b"".join([blob.nbytes.to_bytes(8, "little"), *pieces]))
            continue
        view = view_of(blob)
        if 0 < view.nbytes <= _ONE_PIECE:  # thousands of them in one figure
            ends, pieces = [view.nbytes], [xxh3_128_digest(view)]
        else:
            step = None if position < dumped.streams else dumped.steps[position - dumped.streams]
            ends = stream_cuts(view) if position < dumped.streams else plan_cuts(view.nbytes, step)
            known = read.get(address_in(view)) if read and not view.readonly else None
            pieces = known.digests if known is not None and known.cuts == tuple(ends) else digest_pieces(view, ends)
        cuts.append(ends)
        digests.append(pieces)
        whole.update(b"".join([view.nbytes.to_bytes(8, "little"), *pieces]))
    for definition in dumped.dump.definitions:
        whole.update(definition)
    return Compared(dumped, cuts, digests, whole.digest())


def compare_plain(dumped: Dumped) -> Compared:
    """The same of what `dump_plain` gave, which is one stream."""
    (stream,) = cast("list[bytes]", dumped.blobs)
    if len(stream) > INLINE:
        return compare(dumped)
    digest = xxh3_128_digest(stream)
    return Compared(dumped, [(len(stream),)], [(digest,)], signature_of(stream), is_plain=True)


def signature_of(stream: bytes) -> bytes:
    """The signature of a value that is one short stream and no more; nothing where the stream is long."""
    if not 0 < len(stream) <= _ONE_PIECE:
        return b""
    return xxh3_128_digest(len(stream).to_bytes(8, "little") + xxh3_128_digest(stream))


def _hash_part(part: Part) -> tuple[Sequence[int], Sequence[bytes]]:
    """Of an array that is known its bytes need not be made."""
    fact = part.fact
    if fact.cuts is None:
        view = part.raw()
        cuts = stream_cuts(view)
        fact.digests = digest_pieces(view, cuts)
        fact.cuts = cuts
    return fact.cuts, fact.digests


def address_in(view: memoryview) -> int:
    """Where the bytes of a writable view are."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def view_of(blob: bytes | Memory) -> memoryview:
    return memoryview(blob) if isinstance(blob, bytes) else blob.raw()


def _bytes_in(blob: bytes | Memory) -> int:
    if isinstance(blob, bytes):
        return len(blob)
    return blob.nbytes if isinstance(blob, Part) else view_of(blob).nbytes


# -- what many names lead to is dumped once in a commit, and looked for by identity from then on
#
# A figure leads to its axes and artists, and each of those leads back to the figure: whichever name holds one of them, its
# dump holds all. The first such dump is kept for the rest of the commit as a `Component`. What another name holds is dumped
# beside it: a number stands for each object that leads back to the component's root, so that the name's own digest still
# covers all that its value leads to, and which of the objects that is.

_PACKAGE = "matplotlib"
_FIGURES = "matplotlib.figure"
_NEEDED_BY_FIGURES = ("agent_kernel.values.reducers.figures", "pyfastcdc")  # which cuts streams as long as theirs


class _Noted(msgspec.Struct):
    """What was met of modules when a figure was walked last, and how often the figure is reckoned to hold each of these."""

    figure: weakref.ref[object]
    named: frozenset[int]
    counts: dict[int, int] = {}


# By the ids of figures. A wrong guess costs a second dump, no more.
_named_in: dict[int, _Noted] = {}
_MOST_NOTED = 1_000


def _note_named(root: object, dump: Dump) -> None:
    if root_of(root) is not root:  # not a figure; many other objects, such as named tuples, take no weak reference
        return
    if len(_named_in) >= _MOST_NOTED:
        _named_in.clear()
    known = _named_in.get(id(root))
    counts = known.counts if known is not None and known.figure() is root else {}
    _named_in[id(root)] = _Noted(weakref.ref(root), frozenset(dump.named), counts)


def _find_known(root: object) -> frozenset[int] | None:
    known = _named_in.get(id(root))
    return known.named if known is not None and known.figure() is root else None  # another may stand where one died


def _forget_dead_figures() -> None:
    """What they held does not count any more: a cell that runs again makes a figure like the one that dies."""
    for key, noted in list(_named_in.items()):
        if noted.figure() is None:
            del _named_in[key]
            references.discount_holders(noted.counts)


def _attribute(more: Mapping[int, int], roots: Iterable[int]) -> None:
    """The figures with these ids were walked: what is held more often now, they are reckoned to hold."""
    walked = [noted for root in roots if (noted := _named_in.get(root)) is not None]
    for item, count in more.items():
        holders = [noted for noted in walked if item in noted.named]
        for noted in holders:
            noted.counts[item] = noted.counts.get(item, 0) + count // len(holders)


_MOST_ASKED = 200  # to look where one object leads takes as long as to dump twenty


class Component(msgspec.Struct, eq=False):
    """Objects that were dumped from a root: `inside` are the ids of those that lead back to it, `outside` of those that do not."""

    root_id: int
    compared: Compared
    places: dict[int, int]
    inside: set[int]
    outside: set[int] = msgspec.field(default_factory=set[int])
    is_counted: bool = False  # whether what it reaches counts for one of the names
    asked: int = 0  # of how many objects it was looked for where they lead

    @property
    def is_left_alone(self) -> bool:
        """Whether to dump what leads to it takes less time than to find what does."""
        return self.asked > _MOST_ASKED

    @property
    def root(self) -> object:
        # Not held once more: how many hold an object says whether others may share it.
        return self.dump.instances[self.places[self.root_id]]

    @property
    def dump(self) -> Dump:
        return self.compared.dumped.dump

    def count_reach(self) -> None:
        """Let what it reaches be known, now that it counts for a name."""
        self.find_reach()
        self.is_counted = True

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
        self._kinds: dict[int, bool] = {}  # by the id of the type of an object that the commit keeps alive
        self._counts: dict[int, int] | None = None  # what holds matplotlib's, before a dump of this commit does
        self._followed: list[Dump] = []  # ids stay true while these live

    def may_find(self) -> bool:
        """Whether any value can be part of a component: to ask of each takes a third of the time of a dump."""
        return bool(self._roots) or _FIGURES in sys.modules

    def find(self, value: object) -> Component | None:
        """The component of which the value is a part that leads to all of it."""
        key = id(value)
        if self._waiting:
            self._index()
        found = self._inside.get(key)
        if found is not None and not found.is_left_alone:
            return found
        first = self._visited.get(key)
        if first is None and self.component_of(root_of(value)) is None:
            return None
        # There may be a thousand artists of one figure.
        if first is not None and key not in self._also and self._is_named_by(value, first):
            self._inside[key] = first
            return first
        for component in self._find_components(key):
            if component.is_left_alone:
                continue
            if self._is_named_by(value, component) or (
                key not in component.outside and self._leads_back(value, component)
            ):
                self._inside[key] = component
                return component
        return None

    def _is_named_by(self, value: object, component: Component) -> bool:
        """Whether the value is an artist that leads to the root by what it is saved with alone."""
        if id(value) in component.outside or not self._is_saved_with_root(value):
            return False
        # First what it names itself: that is the root unless there are figures within figures.
        return id(figure_of(value)) == component.root_id or id(root_of(value)) == component.root_id

    def _is_saved_with_root(self, value: object) -> bool:
        kind = type(value)
        known = self._kinds.get(id(kind))
        if known is None:  # once in a commit: there are a thousand artists of one type
            known = self._kinds[id(kind)] = _names_its_figure(kind)
        return known and id(value) not in references.MODULE_OBJECTS

    def _find_components(self, key: int) -> list[Component]:
        if self._waiting:
            self._index()
        first = self._visited.get(key)
        return [] if first is None else [first, *self._also.get(key, ())]

    def component_of(self, root: object | None) -> Component | None:
        """Return the component of a root, dumped now if it was not; None if it cannot be saved as it is."""
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
            from agent_kernel.values.libraries import look_into

            # With the cell that imports it, which takes long anyway. What is noted is held once more.
            if look_into(_PACKAGE):
                for module in _NEEDED_BY_FIGURES:
                    import_module(module)
                _attribute(references.note_holders(references.count_holders(_PACKAGE)), self._roots)
            elif self._counts is not None:
                _attribute(references.note_holders(self._counts), self._roots)

    def is_led(self, members: Mapping[str, object]) -> bool:
        """Whether the members are dumped behind a component."""
        return self._lead(members) is not None

    def dump_led(
        self,
        members: Mapping[str, object],
        *,
        defer: bool = False,
        named: Collection[int] = (),
        expects: bytes = b"",
        alone: Sequence[Dump] = (),
    ) -> Compared | None:
        """Dump members that lead to a figure behind it; None if they lead to none.

        Args:
            expects: their signature as it was, if these were all members.
            alone: the dumps of the members without the figure: behind it they share the same memory.
        """
        self._defer, self._named = defer, named
        try:
            return self._dump_led(members, expects, alone)
        finally:
            self._defer, self._named = False, ()

    def _dump_led(self, members: Mapping[str, object], expects: bytes, alone: Sequence[Dump]) -> Compared | None:
        lead = self._lead(members)
        if lead is None:
            return None
        # Not by `==`, which runs anyone's code: arrays answer with an array.
        if len(members) == 1 and all(value is lead.root for value in members.values()) and not lead.dump.loose:
            lead.find_reach()
            return lead.compared
        first = lead.compared.dumped
        if not self._open_again(lead):
            return None
        first.is_marked = bool(expects)
        first.owners_behind = frozenset[int]().union(*map(find_shared_owners, alone))
        first.open_again = lambda: self._open_again(lead)
        try:
            dumped = dump_group(members, self._names, self._namespace, defer=self._defer, lead=first)
        finally:
            first.open_again = bool  # it leads to the component itself, which is to die with the commit
        dumped.pickler = None
        dumped.behind_s = first.behind_s
        compared = compare(dumped)
        # What changed may have other members now. The memo holds what it met: that is to be no object beside the figure.
        if compared.signature == expects or len(dumped.dump.instances) > len(first.dump.instances):
            first.spent = None
        return compared

    def _open_again(self, lead: Component) -> bool:
        """Let members be dumped behind a component; whether that is possible."""
        first = lead.compared.dumped
        first.reopen()
        if first.pickler is None:  # it has been gone on with
            again = self._make(lead.root)
            if again is None:
                return False
            first.pickler = again.dumped.pickler
            first.dump = again.dumped.dump
        return True

    def _lead(self, members: Mapping[str, object]) -> Component | None:
        root = root_below(members.values())
        if (
            root is None
            or any(map(is_long, members.values()))
            or any(name.startswith(CLASS_PREFIX) for name in members)
        ):
            return None
        return self.component_of(root)

    def add(self, root: object, compared: Compared) -> Component | None:
        """Keep the dump of a value, if other values can be found in it."""
        dump = compared.dumped.dump
        if dump.save_failures or compared.dumped.segments is not None:
            return None
        places = dict(zip(ids_of(dump.instances), itertools.count(), strict=False))
        if id(root) not in places or id(root) in self._roots:
            return None
        component = Component(id(root), compared, places, {id(root)})
        self._roots[id(root)] = self._inside[id(root)] = component
        self._waiting.append(component)
        return component

    def _make(self, root: object) -> Compared | None:
        began = time.perf_counter()
        try:
            known = None if self._defer else _find_known(root)
            if self._counts is None:
                _forget_dead_figures()
                self._counts = references.count_holders(_PACKAGE)
            guessed = references.find_newly_held(self._counts).difference(self._named)
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
            made = compare(dumped)
            dumped.behind_s = time.perf_counter() - began
            return made
        except FOREIGN:
            return None

    def _index(self) -> None:
        for component in self._waiting:
            fresh = dict.fromkeys(component.places, component)
            for key in self._visited.keys() & fresh.keys() if self._visited else ():
                self._also.setdefault(key, []).append(component)
                del fresh[key]
            self._visited |= fresh
        self._waiting = []

    def _leads_back(self, value: object, component: Component) -> bool:
        """Whether saving the value would save what leads back to the root.

        Raises:
            ManyPartsError: that was asked of many objects. Of figures it may be: nearly all of their artists name them.
        """
        if root_of(component.root) is None:
            component.asked += 1
            if component.is_left_alone:
                raise ManyPartsError
        below = leads_to(value, component.inside, self._names, self._namespace)
        if below is None:
            component.inside.add(id(value))
            return True
        component.outside.update(map(id, below.instances))
        self._followed.append(below)
        return False


def _names_its_figure(kind: Any) -> bool:
    """Whether all that artists of this type are saved with is what matplotlib says: then that leads to their `root_of`."""
    if not issubclass(kind, loaded_class("matplotlib.artist", "Artist")):
        return False
    hooks = (getattr(kind, name, None) for name in ("__getstate__", "__reduce__", "__reduce_ex__"))
    own = all(getattr(hook, "__module__", None) is None or _is_of_matplotlib(hook) for hook in hooks)
    return own and kind not in dispatch_table()


def _is_of_matplotlib(hook: Any) -> bool:
    return type(hook) is FunctionType and hook.__module__.partition(".")[0] == "matplotlib"


def roots_of(dump: Dump) -> Roots:
    """The components that a dump is compared by."""
    found: list[Component] = dump.met
    return tuple((component.root_id, component.compared.own, _watch(component.root)) for component in found)


def _watch(root: object) -> weakref.ref[object] | None:
    # Only what is known to bear it: numpy refuses to resize an array that is watched.
    return weakref.ref(root) if root_of(root) is root else None


def _instances(met: Iterable[Component]) -> Iterable[object]:
    return (value for component in met for value in component.dump.instances)


def _data_of(value: object, alone: Compared) -> bytes:
    """Covers all that code gets at from a value that was dumped alone; empty where that is more than data."""
    dump = alone.dumped.dump
    more = dump.met or dump.classes or dump.globals_used or dump.held_ids or dump.holders or dump.save_failures
    if more:
        return b""
    from agent_kernel.values import libraries

    return libraries.digest_of(value, dump.memory)


def _is_table_or_array(value: object) -> bool:
    if "numpy" not in sys.modules:
        return False
    from agent_kernel.values import libraries

    return libraries.is_table_or_array(value)


def is_class_entry(name: str) -> bool:
    return name.startswith(CLASS_PREFIX)


class Staged(msgspec.Struct):
    """What a commit will hold: new entries by name (None: gone), and what to say about them."""

    entries: dict[str, Entry | None] = {}
    changes: dict[str, Change] = {}
    unsaved: dict[tuple[str, str], Unsaved] = {}
    groups: list[Group] = []
    dropped: dict[int, Group] = {}  # by their ids: each once
    unchanged: list[tuple[Group, Dumped]] = []
    same: list[Group] = []  # unchanged too, and the very objects that were saved: there is nothing to take over
    interrupted: bool = False

    def drop(self, group: Group) -> None:
        """What was remembered of the group is no longer true."""
        self.dropped[id(group)] = group


def _attributes_among(values: Iterable[Any], dump: Dump) -> set[int]:
    """The ids of what may be the attribute dicts of objects: they are set back with those."""
    if not any(type(value) is dict for value in values):
        return set()
    holders = (value for value in dump.instances if type(value).__dictoffset__)
    return {id(object.__getattribute__(value, "__dict__")) for value in holders}


def _set_back_among(
    members: Mapping[str, object], pins: Mapping[int, references.Named], dump: Dump
) -> dict[int, references.Named]:
    """Those of the objects that can be set back in place.

    Not what loading may only take the content of: what other objects are made of, classes are filled with, or look at.
    """
    from agent_kernel.values.reducers import can_be_set_back

    if not pins or any(map(is_class_entry, members)):
        return {}
    # A method is looked up in its object, whatever that holds by then.
    methods = (one for one in dump.instances if issubclass(type(one), BuiltinFunctionType))
    owners = {id(cast("BuiltinFunctionType", one).__self__) for one in methods}
    roots = cast("list[tuple[object, ...]]", dump.roots)
    level: list[Any] = [
        root for root in roots if type(root) is not tuple or len(root) != 1 or id(root[0]) not in owners
    ]
    taken = set(ids_of(level))
    while level:
        fresh = {id(one): one for one in cast("list[object]", referents(level)) if id(type(one)) in _TAKEN_IDS}
        level = [one for item, one in fresh.items() if item not in taken]
        taken |= fresh.keys()
    return {
        item: pin
        for item, pin in pins.items()
        if item not in taken and can_be_set_back(pin.value) and not (dump.memory and type(pin.value) in BYTE_OWNERS)
    }


_SHORT = 200  # characters of a text, or bits of a number
_TAKEN_IDS = frozenset(map(id, (list, tuple, dict, set, bytearray)))


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
        self.by_name: dict[str, Compared] = {}
        self.atoms: dict[str, object] = {}  # short immutable values that no other variable was saved with
        self.by_group: dict[tuple[str, ...], Compared] = {}
        self.owns: dict[str, bytes] = {}
        self.joined: dict[str, tuple[Group, Dumped]] = {}  # by their first name: unchanged groups that others may join
        self.seen: set[str] = set()
        self.skipped: set[str] = set()
        self.rebound: set[str] = set()
        self._everything = everything  # look for sharing in all of a long container, not only where it is new
        self._class_objects: dict[str, type] = {}
        self.components = Components(living, namespace)
        self._as_before: dict[frozenset[int], Components | None] = {}
        self._digests: dict[tuple[str, ...], bytes] = {}  # by members, what they are not any more: they are dumped next
        self._segments: dict[int, Parts] = {}  # of long containers, by their ids: each is dumped once

    def add(
        self, names: Iterable[str], rebound: frozenset[str] = frozenset(), grouped: frozenset[str] = frozenset()
    ) -> set[str]:
        """Dump these names, and what they are grouped with; returns globals that new code uses, to be touched too.

        Args:
            grouped: of the names those that no code names. They are left alone where nothing leads to them either.
        """
        follow: set[str] = set()
        references.look()
        self.skipped -= set(names)
        self.rebound |= rebound
        todo = [name for name in names if name not in self.seen]
        while todo:
            name = todo.pop()
            if name in self.seen or name in self.skipped:
                continue
            if self.keeps_placeholder(name):
                self.seen.add(name)
                continue
            group = self.tracking.groups.get(name)
            if group is not None and group.is_plain and name not in rebound and self._is_plain_and_same(name, group):
                self.seen.add(name)
                self.staged.same.append(group)
                continue
            if group is not None and self._can_compare(group, rebound):
                read = self._read_of(group, grouped)
                if read and read == {name: group.data.get(name) for name in read}:
                    self.skipped.update(group.members)
                    continue
                self.seen.update(group.members)
                found = self._check_group(group, follow)
                unchanged = self.staged.unchanged
                if read and unchanged and unchanged[-1][0] is group:
                    group.data = group.data | read
            else:
                todo += [member for member in (group.members if group else ()) if member not in self.seen]
                self.seen.add(name)
                found = self.dump_alone(name, follow)
            grouped = grouped.difference(found)
            self.skipped.difference_update(found)
            todo += found
        return follow

    def _is_plain_and_same(self, name: str, group: Group) -> bool:
        """Whether the name is bound to the short container that was saved, with the same content: most names of thousands are."""
        if group.stale or group.reach.ids != {id(value := self.namespace.get(name, self))}:
            return False
        stream = plain_stream(value, self.namespace)
        return stream is not None and signature_of(stream) == group.signature

    def _can_compare(self, group: Group, rebound: frozenset[str]) -> bool:
        """Whether the group is bound as it was when it was dumped."""
        if group.stale or group.placeholders is not None or rebound & set(group.members):
            return False
        return all(self.is_bound(name) for name in group.members)

    def _read_of(self, group: Group, grouped: frozenset[str]) -> dict[str, bytes]:
        """Of what code names of the group, all that code gets at from there; nothing unless that is data, saved as it is.

        Then no more than this has to be looked at. What others of the group changed meanwhile is found as it is for
        names that no code mentions.
        """
        if len(group.members) == 1 or self._everything:
            return {}
        named = [name for name in group.members if name not in grouped]
        members = self.values(named)
        if not members or len(named) == len(group.members):
            return {}
        known = (group.data.get(name) != b"" and _is_table_or_array(value) for name, value in members.items())
        if not all(known) or all(map(_is_table_or_array, (self.values(group.members) or {}).values())):
            return {}
        read: dict[str, bytes] = {}
        for name, value in members.items():
            compared = self.dump({name: value}, group, alone=True)
            if compared is None or compared.own != group.own_of(name):
                return {}
            read[name] = _data_of(value, compared)
        return read

    def data_among(self, members: Mapping[str, object]) -> dict[str, bytes]:
        """All that code gets at from those members that are tables, for as long as it is data."""
        if len(members) == 1:
            return NO_OWN
        tables = {name for name, value in members.items() if _is_table_or_array(value)}
        if not tables or len(tables) == len(members):
            return NO_OWN
        known = {name: data for group, _ in self.joined.values() for name, data in group.data.items() if name in tables}
        return known | {
            name: _data_of(members[name], alone) for name in tables if (alone := self.by_name.get(name)) is not None
        }

    def join(self, group: Group) -> bool:
        """Have a group that was dumped and is unchanged stand for its members, where other names may share with them.

        None of them is dumped alone then: they share with one another as they did. Returns whether that is possible.
        """
        first = group.members[0]
        if first in self.joined:
            return True
        together = self.by_group.get(group.members)
        if together is None or together.signature != group.signature:
            return False
        if not self.by_name.keys().isdisjoint(group.members):
            return False
        dumped, own = together.dumped, {name: group.own_of(name) for name in group.members}
        if group.stale or group.pins or group.roots or group.save_failures or dumped.dump.met or dumped.segments:
            return False
        if None in own.values() or any(map(is_class_entry, own)):
            return False
        reach = group.reach if dumped.reach.deferred else dumped.reach
        reach = msgspec.structs.replace(reach, ids=set(reach.ids), memory=list(reach.memory))
        self.joined[first] = group, msgspec.structs.replace(dumped, reach=reach)
        self.owns |= cast("dict[str, bytes]", own)
        return True

    def by_group_or_name(self) -> dict[str, Dumped]:
        """All that may share: by name what was dumped alone, and by their first name unchanged groups that others may join."""
        found = {name: compared.dumped for name, compared in self.by_name.items()}
        return found | {first: dumped for first, (_, dumped) in self.joined.items()}

    def find(self, name: str) -> Dumped:
        """What was dumped under a name, or, if it is the first of a group that others may join, what that group was dumped as."""
        return self.joined[name][1] if name in self.joined else self.by_name[name].dumped

    def reaches_of(self, names: Iterable[str]) -> list[Reach]:
        """What these names reach. A group that others may join has one reach for all its members, under its first name."""
        return [self.find(name).reach for name in names if name in self.joined or name in self.by_name]

    def keeps_placeholder(self, name: str) -> bool:
        """Whether the name is still bound to what stands for a value that could not be loaded: its entry stays."""
        group = self.tracking.groups.get(name)
        if group is None or group.placeholders is None:
            return False
        if name.startswith(CLASS_PREFIX):
            return True
        return self.namespace.get(name, self) is group.placeholders.by_name[name]

    def is_bound(self, name: str) -> bool:
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
        if members is not None and (self._is_same_name(group, members) or self._is_same(group, members)):
            # Bodies of classes are values of their own, and may have changed.
            return [entry for entry in map(class_entry, group.classes) if entry not in self.seen]
        compared = None if members is None else self.dump(members, group, defer=len(group.members) > 1)
        if members is None or compared is None:
            return []
        used = compared.dumped.dump.globals_used
        # What known code uses was followed when the cell named it, and is not followed from a look in the background.
        follow |= used - group.globals_used if compared.signature == group.signature else used
        if compared.signature == group.signature:
            if not compared.dumped.reach.deferred:
                # At once: ids may be others now, and sharing is judged by them.
                self.tracking.refresh(group, compared.dumped)
                group.met = compared.dumped.met
            group.digest = compared.dumped.digest
            self.staged.unchanged.append((group, compared.dumped))
            if len(group.members) > 1 and compared.dumped.layout.long < 0:
                self.by_group[group.members] = compared  # they may be found to share something, and be staged again
            return self._new_classes(compared.dumped)
        if len(group.members) == 1 and compared.dumped.reach.deferred:
            compared.dumped.reach = reach_of(members, compared.dumped.dump)
        if len(group.members) == 1 and not self.components.is_led(members):
            self._keep(group.members[0], members, compared)
            return [*self._new_classes(compared.dumped), *self._find_users_of_changed_slots(group.members[0])]
        if compared.dumped.layout.long >= 0:
            return self._split_around(group, compared, follow)
        self.staged.drop(group)
        self.by_group[group.members] = compared
        return [name for member in self._roots_first(group) for name in self.dump_alone(member, follow)]

    def _roots_first(self, group: Group) -> list[str]:
        """Members in an order in which they are compared by the same components as the last time: else each is dumped once more."""
        roots = {root for of_name in group.roots.values() for root, *_ in of_name}
        return sorted(group.members, key=lambda name: id(self.namespace.get(name)) not in roots)

    def _is_same_name(self, group: Group, members: Mapping[str, object]) -> bool:
        """Whether this was saved as a mere name of a module, and is what stands there: then it is not dumped."""
        if not references.is_named(*group.place, members[group.members[0]]):
            return False
        self.staged.unchanged.append((group, Dumped(Layout(), [], [], Dump(), group.reach)))
        return True

    def _is_same(self, group: Group, members: Mapping[str, object]) -> bool:
        """Whether these are containers of atoms, plain functions or classes as they were saved: then they are not dumped."""
        if len(members) > 1 and (not group.digest or group.reach.deferred):
            return False
        busy = time.thread_time() if group.digest else 0.0
        if group.digest:
            same = is_unchanged(members, group.digest, self.living, self.namespace, self._digests)
        else:
            same = self._is_short_and_same(group, next(iter(members.values())))
        if not same:
            return False
        seconds = time.thread_time() - busy if group.digest else 0.0
        self.staged.unchanged.append((group, Dumped(Layout(), [], [], Dump(), group.reach, seconds=seconds)))
        return True

    def _is_short_and_same(self, group: Group, value: object) -> bool:
        """Most of what is looked at in the background: a dump would take ten times as long, and note no more."""
        if group.classes or group.globals_used or group.held_ids or group.holders or not group.reach.ids <= {id(value)}:
            return False
        references.look()
        stream = plain_stream(value, self.namespace)
        return stream is not None and signature_of(stream) == group.signature

    def _split_around(self, group: Group, together: Compared, follow: set[str]) -> list[str]:
        """A long container and variables that hold parts of it changed: dump those alone, but not the long one."""
        found: list[str] = []
        long = group.members[together.dumped.layout.long]
        cut = together.dumped.segments
        for name in group.members:
            if name != long or cut is None or cut.shares:
                found += self.dump_alone(name, follow)
        if cut is None:
            return found
        if not cut.shares:  # alone it would be cut the same way
            reach = Reach(set(cut.reach.ids), [], complete=False)
            self.by_name[long] = Compared(msgspec.structs.replace(together.dumped, reach=reach), [], [], b"")
            self.owns[long] = together.own
        self.by_group[group.members] = together
        return found

    def dump_alone(self, name: str, follow: set[str]) -> list[str]:
        if not self.is_bound(name) or self.keeps_placeholder(name):
            return []
        members = self.values([name])
        if members is None:
            return []
        if self._is_atom(name, members[name]):
            self.living.dumps((name,), self.rebound)
            self.living.interrupted.discard(name)
            self.atoms[name] = members[name]
            return []
        if self._keep_plain(name, members):
            return []
        # First, so that what of it is found there does not depend on which names were dumped before.
        self.components.is_led(members)
        compared = self.dump(members, self.tracking.groups.get(name), alone=True)
        if compared is None:
            return []
        follow |= compared.dumped.dump.globals_used
        self._keep(name, members, compared)
        for component in compared.dumped.dump.met:
            follow |= component.dump.globals_used
        return [*self._new_classes(compared.dumped), *self._find_users_of_changed_slots(name)]

    def _is_atom(self, name: str, value: object) -> bool:
        """Whether the value is short and immutable, and was not saved together with others: then there is nothing to dump."""
        if id(type(value)) not in ATOM_IDS or is_nan(value):
            return False
        size = len(value) if isinstance(value, str | bytes) else value.bit_length() if isinstance(value, int) else 0
        if size > _SHORT:
            return False
        group = self.tracking.groups.get(name)
        return group is None or len(group.members) == 1

    def _keep_plain(self, name: str, members: Mapping[str, object]) -> bool:
        """Keep the dump of a short container of numbers and texts, as thousands of names often are: it leads to nothing."""
        began, busy = time.perf_counter(), time.thread_time()
        try:
            references.look()
            dumped = dump_plain(members[name], self.namespace)
            if dumped is None:
                return False
            self.by_name[name] = compare_plain(dumped)
        except KeyboardInterrupt:
            self.interrupt(members, self.tracking.groups.get(name))
            return True
        if time.perf_counter() - began > LEAST_COST_S:
            dumped.seconds = time.thread_time() - busy
        self.living.dumps(members, self.rebound)
        self.living.interrupted.discard(name)
        return True

    def _keep(self, name: str, members: Mapping[str, object], compared: Compared) -> None:
        """Remember what a name was dumped as by itself; others may hold parts of it."""
        self.by_name[name] = compared
        reach = compared.dumped.reach
        for component in compared.dumped.dump.met:
            reach.ids.add(component.root_id)
            if not component.is_counted:  # one name that holds it is enough to find who shares it
                component.count_reach()
                compared.dumped.reach = reach = join_reaches([reach, component.compared.dumped.reach])
        self.components.add(members[name], compared)

    def is_as_before(self, name: str, group: Group) -> bool:
        """Whether a value whose digest is worked out by other components now is what it was, worked out by the same ones."""
        if name in self.atoms:
            return False
        roots = group.roots.get(name, ())
        before = {root: digest for root, digest, _ in roots}
        now = {root: digest for root, digest, _ in roots_of(self.by_name[name].dumped.dump)}
        if any(watch is not None and watch() is None for *_, watch in roots):
            return False  # it led to an object that is gone
        changed = any(now.get(root, digest) != digest for root, digest in before.items())
        if group.own_of(name) is None or changed or before.keys() == now.keys():
            return False
        dump = self.by_name[name].dumped.dump
        if not before.keys() <= {*now, *ids_of((*dump.instances, *_instances(dump.met)))}:
            return False  # it led to an object that it does not lead to any more
        components = self._components_of(frozenset(before), dump, group.members)
        members = self.values([name])
        if components is None or members is None:
            return False
        try:
            dumped = dump_group(members, self.living, self.namespace, components=components)
            return compare(dumped).own == group.own_of(name)
        except FOREIGN:
            return False

    def _components_of(self, roots: frozenset[int], dump: Dump, partners: Iterable[str]) -> Components | None:
        """The components of these objects, which the dump of a variable met.

        Args:
            partners: the variables that may be bound to one of them.
        """
        if roots not in self._as_before:
            made = Components(self.living, self.namespace)
            found = {id(value): value for value in (*dump.instances, *_instances(dump.met))}
            # What a variable was dumped as is what others were compared by, and a dump of it as a component is another.
            for name in partners:
                value, compared = self.namespace.get(name), self.by_name.get(name)
                if compared is not None and id(value) in roots and not compared.dumped.dump.met:
                    made.add(value, compared)
            known = all(root in found and made.component_of(found[root]) is not None for root in roots)
            self._as_before[roots] = made if known else None
        return self._as_before[roots]

    def _find_users_of_changed_slots(self, entry: str) -> list[str]:
        """The names of what is made of a class, if slots of it came or went: then its objects hold more or less."""
        kind = self.class_of(entry) if is_class_entry(entry) else None
        if kind is None or not self.living.classes.note_slots(entry.removeprefix(CLASS_PREFIX), kind):
            return []
        found = {entry: None}
        waiting = [entry]
        while waiting:
            users = self.tracking.users_of(waiting.pop().removeprefix(CLASS_PREFIX))
            waiting += [user for user in users if is_class_entry(user) and user not in found]
            found.update(dict.fromkeys(users))
        return [name for name in found if name not in self.seen]

    def _new_classes(self, dumped: Dumped) -> list[str]:
        """Entries of classes that the value needs: their bodies are values too, and may have changed."""
        found: list[str] = []
        needed = dict(dumped.dump.classes)
        for component in dumped.dump.met:
            needed |= component.dump.classes
        for uid, kind in needed.items():
            entry = class_entry(uid)
            self._class_objects.setdefault(entry, kind)
            if entry not in self.seen:
                found.append(entry)
        return found

    def dump(
        self, members: Mapping[str, object], before: Group | None, *, defer: bool = False, alone: bool = False
    ) -> Compared | None:
        """Dump and hash; what cannot be dumped at all is dumped as unsaved. None: interrupted, and left for the next cell.

        Args:
            alone: only to compare, beside what was dumped before.
        """
        began, busy = time.perf_counter(), time.thread_time()
        self.living.dumps(members, self.rebound)
        try:
            defer = defer and not self._everything
            compared = self._dump_plain(members)
            if compared is None and not alone:
                compared = self._dump_led(members, before, defer=defer)
            if compared is None:
                compared = compare(self._dump_or_fail(members, before, defer=defer, alone=alone))
            dumped = compared.dumped
        except KeyboardInterrupt:
            if self.living.arrived != [] or self.living.interrupted.isdisjoint(members):
                self.interrupt(members, before)
                return None
            # Twice, and by nobody: the value's own code raises that, and would stop every checkout.
            compared = compare(self._dump_unsaved(members, "saving it is interrupted by its own code"))
            dumped = compared.dumped
        else:
            self.living.interrupted.difference_update(members)
        # No code of anyone else's ran for plain containers, so they waited for nothing but a busy machine.
        took = time.perf_counter() - began
        if took > LEAST_COST_S and not (dumped.dump.instances or dumped.dump.opaque):
            took = time.thread_time() - busy
        # The next look takes as long again as the figure took, though this time another name had it dumped before.
        dumped.seconds = took + dumped.behind_s if took < dumped.behind_s else took
        return compared

    def _dump_plain(self, members: Mapping[str, object]) -> Compared | None:
        """Dump one short container of numbers and texts, which leads to nothing; None if it is anything else."""
        if len(members) != 1:
            return None
        references.look()
        (value,) = members.values()
        dumped = dump_plain(value, self.namespace)
        return None if dumped is None else compare_plain(dumped)

    def _dump_led(self, members: Mapping[str, object], before: Group | None, *, defer: bool) -> Compared | None:
        """Dump the members behind the figure that they lead to; None if they lead to none."""
        try:
            named = before.reach.named if before is not None else ()
            expects = before.signature if before is not None and before.members == tuple(members) else b""
            alone = [compared.dumped.dump for name in members if (compared := self.by_name.get(name)) is not None]
            defer = defer and before is not None
            return self.components.dump_led(members, defer=defer, named=named, expects=expects, alone=alone)
        except FOREIGN:
            return None

    def _dump_or_fail(
        self, members: Mapping[str, object], before: Group | None, *, defer: bool, alone: bool = False
    ) -> Dumped:
        groups = [group for name in members if (group := self.tracking.groups.get(name)) is not None]
        cuts: dict[str | int, Cuts] = {}
        for group in groups:
            cuts |= group.cuts
        known = before.known_marks(members) if before and not self._everything else frozenset[bytes]()
        anchors = self._known_items(members, before) if before is not None and known else ()
        named = before.reach.named if before is not None else ()
        # Most names of a group that changed are saved together again: what each is by itself is then looked at by nobody.
        digest = (
            b"" if alone and before is not None and len(before.members) > 1 else self._digests.pop(tuple(members), None)
        )
        try:
            components = self.components if alone and not any(map(is_class_entry, members)) else None
            dumped = dump_group(
                members,
                self.living,
                self.namespace,
                cuts=cuts,
                known=known,
                anchors=anchors,
                named=named,
                defer=defer,
                components=components,
                dumped=self._segments,
                digest=digest,
                last=None if alone else self._last(members, before),
            )
            dumped.pickler = None  # its memo would hold all that it met
            return dumped
        except RecursionError:
            reason = "it is nested too deeply to be saved"
        except FOREIGN as error:
            reason = explain(error)
        return self._dump_unsaved(members, reason)

    def _last(self, members: Mapping[str, object], before: Group | None) -> tuple[bytes, Reach] | None:
        """What is known of the group from the last time, if these are all of its members and it need not be walked."""
        if before is None or not before.met or self._everything or before.members != tuple(members):
            return None
        return before.met, before.reach

    def find_live_holdings(self) -> Holdings:
        """What objects that cannot be saved have hold of: they stay as they are wherever a checkout leads."""
        found = self.tracking.find_live_holdings(self.by_name)
        for dump in (compared.dumped.dump for compared in self.by_name.values()):
            if dump.holders:
                found.ids |= dump.held_ids
                found.memory |= dump.held_memory
        return found

    def pins_of(
        self, members: Mapping[str, object], compared: Compared, shared: AbstractSet[int]
    ) -> dict[int, references.Named]:
        """The objects that members share with such ones, which stay the objects that they are wherever a checkout leads."""
        from agent_kernel.values.libraries import library_constants, packages_of
        from agent_kernel.values.reducers import is_inner

        dump = compared.dumped.dump
        ids = set(shared - library_constants(packages_of((*dump.instances, *dump.opaque)), set(shared)))
        values = [value for name, value in members.items() if not is_class_entry(name)]
        looking = {id(use.holder): use.holder for use in dump.memory if use.low in ids and use.written == OPEN}
        found = list({id(value): value for value in (*find(ids, values, dump), *looking.values())}.values())
        found = [value for value in found if references.find(value, self.namespace) is None and not is_inner(value)]
        left_out = _attributes_among(found, dump)
        return {
            id(value): references.pin(value, self.living.pin(value)) for value in found if id(value) not in left_out
        }

    def as_stored(
        self, members: Mapping[str, object], compared: Compared, pins: Mapping[int, references.Named]
    ) -> Compared:
        """What to store: also the answers that objects keep, which no longer follow from what they were asked of.

        A comparison leaves the answers out, because to ask is no change: so a commit stores them as of the last change.
        It leaves the pins out too: an object does not change because something that cannot be saved holds it.
        And it takes objects as their libraries copy them: where a part of one is in the dump by itself, they are stored as what they hold.

        Args:
            pins: what something that cannot be saved holds. It is stored so that a checkout can set it back in place.
        """
        stored = self._dump_to_store(members, compared, pins)
        dump = stored.dumped.dump
        is_early = bool(dump.instances or dump.opaque) and is_filled_too_early(dump)
        return _with_layout(stored, fills_last=True) if is_early else stored

    def _dump_to_store(
        self, members: Mapping[str, object], compared: Compared, pins: Mapping[int, references.Named]
    ) -> Compared:
        seen = compared.dumped.dump
        opens = bool(seen.copied) and not seen.copied.isdisjoint(ids_of((*seen.instances, *seen.opaque)))
        if not seen.answers and not pins and not opens:
            return compared
        set_back = _set_back_among(members, pins, seen)
        options: dict[str, Any] = {"named": seen.named, "whole": True, "answers": bool(seen.answers), "pins": set_back}
        if set_back or seen.answers or opens:
            options["opens"] = opens
            try:
                dumped = dump_group(members, self.living, self.namespace, **options)
            except (*FOREIGN, RecursionError):
                return compared
            dumped.pickler = None
            # Not if the answers lead to what the commit does not save besides.
            more = (
                dumped.dump.save_failures.keys() - seen.save_failures.keys()
                or dumped.dump.classes.keys() - seen.classes.keys()
            )
            compared = compared if more else compare(dumped)
        return _with_layout(compared, pins=tuple(sorted(pin.reference.name for pin in pins.values())))

    def _dump_unsaved(self, members: Mapping[str, object], reason: str) -> Dumped:
        """Dump the members as what cannot be saved; where even a look at them fails, as nothing that is known."""
        try:
            return dump_group(
                {name: Unsavable(value, reason) for name, value in members.items()}, self.living, self.namespace
            )
        except FOREIGN:
            nothing = {name: Unsavable(object(), reason) for name in members}
            return dump_group(nothing, self.living, self.namespace)

    def count_holds(self, value: object) -> int:
        """How often the dumps of this commit themselves hold a long container."""
        alone = {id(cut): cut for found in self.by_name.values() if (cut := found.dumped.segments) is not None}
        return (id(value) in self._segments) + sum(one is value for cut in alone.values() for one in cut.values)

    def _known_items(self, members: Mapping[str, object], group: Group) -> AbstractSet[int]:
        """What the long containers hold with which this one was saved: it is no news that they hold the same rows."""
        other_names = [name for name in group.members if name not in members]
        if len(members) != 1 or not other_names or not is_long(*members.values()):
            return frozenset()
        if all(map(atoms.holds_atoms, members.values())):
            return frozenset()
        values = (self.values(other_names) or {}).values()
        return set[int]().union(*(ids_of_items(value) for value in values if is_long(value)))

    def interrupt(self, members: Mapping[str, object], before: Group | None) -> None:
        self.staged.interrupted = True
        self.living.interrupted.update(members)
        if before is not None:
            self.tracking.mark_stale(before)
        for name, value in members.items():
            if not name.startswith("\0"):
                unsaved = Unsaved(name, type_name(type(value)), "saving it was interrupted", "the next cell saves it")
                self.staged.unsaved[name, ""] = unsaved

    def let_go(self) -> None:
        """The commit is staged: drop copies of the items of long containers, and note what figures hold of their library."""
        for dumped in (
            *(found.dumped for found in (*self.by_name.values(), *self.by_group.values())),
            *self._list_unchanged(),
        ):
            if dumped.segments is not None:
                dumped.segments.let_go()
        self._segments.clear()
        self.components.let_go()

    def _list_unchanged(self) -> Iterable[Dumped]:
        return (dumped for _, dumped in self.staged.unchanged)
