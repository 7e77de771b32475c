"""Dump a group of members (names that share objects, and notebook classes) into blobs and a layout, and describe them.

A value that many agree on: members are pickled in one stream with one memo. Where members are classes, the stream has
several pickles: methods, attributes, values, so that loading can fill every class before any instance is made. A long
list, tuple, set or dict that stands alone is cut into segments, each with a memo of its own: a third of the time, and a
changed row stores one segment.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.values import CLASS_PREFIX, atoms, group_digests, references, segments
from agent_kernel.values.aliases import (
    BY_PLACE,
    Components,
    Dump,
    LiveNames,
    Memory,
    Reach,
    SaveFailure,
    clusters_of,
    find,
    find_possibly_shared,
    join_reaches,
    overlaps_itself,
    owner_of,
    reach,
    reach_of_saved,
)
from agent_kernel.values.introspection import ATOM_IDS, ids_of
from agent_kernel.values.pickler import (
    FOREIGN,
    PROTOCOL,
    Later,
    Mark,
    NamespaceMetError,
    Phases,
    Pickler,
    dump_objects,
    open_dump,
    write_with_nans,
)
from agent_kernel.values.references import Named, NanMarker, is_nan, may_hold_nan
from agent_kernel.values.segments import NOWHERE, Cuts
from agent_kernel.values.surface import find_death_callbacks, find_holdings, is_alone

if TYPE_CHECKING:
    from agent_kernel.values import classes


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the blobs of a manifest make up its values. Blobs: skeletons, then streams, then buffers.

    `buffers` counts the buffers of each skeleton and stream, in order. `form` is "" for one stream, or the type that
    segments are joined into. `fills` counts the pickles before the values in the stream:
    all but the last two of them are methods, then early and other attributes (of 2: methods, attributes). `foreign` are the positions of
    buffers that libraries want as memory. `long` is the slot of the segmented member of several: then the first stream
    holds the objects that segments refer to by number, and after them the other members. `names`: the stream begins with
    a pickle of what modules hold under names (1), and ends with one of what goes back into those of them that are in the
    person's own modules (2). `lead` counts the pickles of what the members lead to, before the members themselves.
    `within` are the long containers that lie within the members, the type and the segments of each: the first stream holds
    the objects that segments refer to by number, and then the members, which refer to those containers by number.
    `used` are variables of the group that code uses which runs while the others are loaded, and their types.
    `pins` are the tokens of what something that stays alive had hold of.
    `fills_last`: an item of a set or dict leads back to it, so its hash is known only after all objects are made.
    """

    skeletons: tuple[str, ...] = ()
    streams: int = 1
    buffers: tuple[int, ...] = ()
    form: str = ""
    fills: int = 0
    losses: tuple[tuple[str, str, str, str], ...] = ()
    foreign: tuple[int, ...] = ()
    long: int = -1
    names: int = 0
    lead: int = 0
    within: tuple[tuple[str, int], ...] = ()
    used: tuple[tuple[str, str], ...] = ()
    pins: tuple[str, ...] = ()
    fills_last: bool = False


class Dumped(msgspec.Struct):
    """A group ready to store: `blobs` in the order that the layout speaks of, `steps` for cutting its buffers."""

    layout: Layout
    blobs: list[bytes | Memory]
    steps: list[int | None]
    dump: Dump
    reach: Reach
    segments: segments.Segments | None = None
    seconds: float = 0.0
    behind_s: float = 0.0  # what the dump took that this one was written behind
    digest: bytes = b""  # of a long container of atoms alone: tells without a dump that it is unchanged
    met: bytes = b""  # which objects were pickled: where it is the same, the value reaches what it reached before
    pickler: Pickler | None = None
    remembers: Pickler | None = None  # of a figure whose reach is not known yet: it tells that
    is_marked: bool = False  # whether it is noted where it was gone on from
    spent: tuple[Pickler, Mark] | None = None  # gone on with, and where it can go on from again
    owners_behind: frozenset[int] = frozenset()  # what several objects look at that are to be written behind it
    open_again: Callable[[], bool] = bool  # makes it one that others can be written behind, though some were

    def reopen(self) -> None:
        """Let other members be dumped behind this, though some were."""
        if self.spent is not None:
            self.pickler, mark = self.spent
            self.pickler.rewind(mark)
            self.spent = None

    @property
    def streams(self) -> int:
        """How many blobs at the front are pickle streams."""
        return len(self.layout.skeletons) + self.layout.streams


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(Layout)


def encode_layout(layout: Layout) -> bytes:
    return b"" if layout == _PLAIN else _encoder.encode(layout)


def decode_layout(payload: bytes) -> Layout:
    return _decoder.decode(payload) if payload else _PLAIN


_PLAIN = Layout()
_UNCUT: Mapping[str | int, Cuts] = {}
_NONE_NAMED: Mapping[int, Named] = {}
_SHORT = 256
# By id: hashing a type runs its metaclass.
_SHORT_IDS = frozenset(map(id, (list, tuple, set, dict)))


def dump_group(
    members: Mapping[str, object],
    names: LiveNames,
    namespace: dict[str, object],
    *,
    cuts: Mapping[str | int, Cuts] = _UNCUT,
    known: frozenset[bytes] = frozenset(),
    anchors: Collection[int] = (),
    named: Collection[int] = (),
    whole: bool = False,
    defer: bool = False,
    components: Components | None = None,
    lead: Dumped | None = None,
    dumped: dict[int, segments.Parts] | None = None,
    last: tuple[bytes, Reach] | None = None,
    packs: bool = False,
    answers: bool = False,
    opens: bool = False,
    pins: Mapping[int, Named] = _NONE_NAMED,
    digest: bytes | None = None,
) -> Dumped:
    """Pickle the members together.

    Args:
        members: by entry name, in the order of their slots; a notebook class under `class_entry(uid)`.
        cuts: where the segments of long containers began the last time, by name, or by id if they lie within a value.
        known: marks of the segments of the last time, in which shared objects need not be looked for again.
        anchors: ids of objects that are saved once beside a single long container, wherever it holds them.
        named: ids of lists, dicts and sets of modules that were met the last time.
        whole: do not cut into segments.
        defer: leave the walk of a large value to the caller, who may know without it what the value shares.
        components: what was dumped before, for a dump that is only compared, and never stored where it meets one.
        lead: the dump of what the members lead to, to be gone on with.
        dumped: by id the segments of long containers that were dumped before in this commit, and are now.
        last: of these members alone, which objects were met the last time, and what was reached then.
        packs: this is such a dump, of a figure: it is quicker, and what others share with it is written behind it.
        answers: with what objects keep of their answers, which is stored, and not compared: see `Dump.answers`.
        opens: with what objects hold that are compared as a copy of it: see `Dump.copied`.
        pins: by id, objects that are stored so that the live ones are set back.
        digest: what a look at the members said in this commit; None: there was none.

    Raises:
        RecursionError: nested too deeply, and not through objects, which are then saved one by one.
    """
    references.look()
    options: dict[str, Any] = {"cuts": cuts, "known": known, "anchors": anchors, "whole": whole, "defer": defer}
    options |= {"components": components, "lead": lead, "dumped": dumped, "last": last, "packs": packs}
    options |= {"answers": answers, "opens": opens, "pins": pins, "digest": digest}
    atoms.forget_guesses()
    try:
        return _dump_members(members, names, namespace, named, options)
    except RecursionError:
        pass  # outside, for the frames of the error hold what was dumped
    finally:
        atoms.forget_guesses()
    options |= {"flat": True, "whole": True, "lead": None, "components": None, "defer": False}
    return _dump_members(members, names, namespace, named, options)


def _dump_members(
    members: Mapping[str, object],
    names: LiveNames,
    namespace: dict[str, object],
    named: Collection[int],
    options: dict[str, Any],
) -> Dumped:
    # What is changed from here on, the next look finds.
    known = group_digests.digest_first(members, names, namespace, options["digest"])
    if known is not None:
        has_long = known.longs or known.sees_memory or known.sees_bytes or known.takes_many
        options |= {"quick": known, "defer": options["defer"] and not has_long}
        if known.sees_memory:
            options["last"] = None  # what others hold of it, too, is noted each time that it is dumped
        made = _dump_naming(members, names, namespace, named=named, **options)
        if (
            _is_all_known(made, sees_memory=known.sees_memory)
            and known.shareable <= made.reach.ids
            and atoms.hold_atoms(known.sets)
        ):
            made.digest = known.digest
        return _note_used(made, members, namespace)
    with contextlib.suppress(NamespaceMetError):
        return _note_used(_dump_naming(members, names, namespace, named=named, **options), members, namespace)
    # Not while the error is handled: its frames hold what was dumped, and holders are counted.
    made = _dump_naming(members, names, namespace, named={*named, id(namespace)}, **options)
    return _note_used(made, members, namespace)


def _dump_naming(
    members: Mapping[str, object],
    names: LiveNames,
    namespace: dict[str, object],
    *,
    cuts: Mapping[str | int, Cuts],
    known: frozenset[bytes],
    anchors: Collection[int],
    named: Collection[int],
    whole: bool,
    defer: bool,
    components: Components | None,
    lead: Dumped | None,
    dumped: dict[int, segments.Parts] | None,
    last: tuple[bytes, Reach] | None,
    packs: bool,
    answers: bool,
    opens: bool,
    pins: Mapping[int, Named],
    digest: bytes | None = None,
    quick: group_digests.Known | None = None,
    flat: bool = False,
) -> Dumped:
    if len(members) == 1 and not pins:
        (value,) = members.values()
        plain = dump_plain(value, namespace)
        if plain is not None:
            return plain
        if atoms.is_long(value) and is_alone(value, namespace) and atoms.may_hold_atoms(value):
            # First: what another thread does from here on, the next look finds.
            digest = digest or atoms.guess_digest(value)
            made = _dump_atoms(members, names, namespace, cuts, dumped)
            if made is not None and atoms.holds_atoms(value):
                made.digest = digest
                return made
    own_classes = [value for name, value in members.items() if name.startswith(CLASS_PREFIX)]
    known_named = {**references.containers_among({*named, *map(id, members.values())}, namespace), **pins}
    if not own_classes and not whole and not known_named:
        cut = _cut(members, names, namespace, cuts, known, anchors, dumped)
        if cut is not None and not references.containers_among(cut.reach.ids, namespace):
            return cut
    if lead is not None and not own_classes:
        expected = lead.owners_behind
        behind = _go_on(members, lead, namespace)
        if behind is None and lead.owners_behind != expected and lead.open_again():
            behind = _go_on(members, lead, namespace)
        if behind is not None:
            return behind
    stops = quick.stops if quick is not None and atoms.hold_atoms(quick.sets) else ()
    skeletons = [_skeleton(kind, names, namespace) for kind in own_classes if isinstance(kind, type)]

    def kinds_in(value: object) -> set[int]:
        seen = dump_objects([value], names, namespace, named=known_named)
        return {id(type(item)) for item in (*seen.instances, *seen.opaque)}

    bodies = _bodies(own_classes, kinds_in) if own_classes else []

    def open_naming(named: Mapping[int, Named]) -> Pickler:
        opened = _open_shared(
            _phases(members, bodies), names, namespace, named, components, packs, answers, opens, flat
        )
        made = opened.dump_record
        _note_death_callbacks(members, made, namespace)
        # The walk notes ids of what was made to take classes apart: alive, nothing else has them in this commit.
        made.keepalive.append(bodies)
        return opened

    pickler = open_naming(known_named)
    dump = pickler.dump_record
    if defer and not own_classes and sum(map(len, dump.streams)) > _LARGE_BYTES:
        made = assemble(members, skeletons, dump)
        made.reach = Reach(complete=False, deferred=True, named=set(known_named))
        made.pickler = pickler
        return made
    is_large = sum(map(len, dump.streams)) > _WALKED_BYTES
    # Below a long container of atoms nothing is walked in any case, and to list what was pickled takes longer than that.
    met_digest = pickler.digest_met() if is_large and not (own_classes or packs or stops) else b""
    if met_digest and last is not None and last[0] == met_digest:
        made = assemble(members, skeletons, dump)
        made.met = met_digest
        # Of a large value only what others hold too was noted, and that may have become more, unless a look says no.
        before = last[1]
        is_known = before.complete or (quick is not None and quick.takes_many and quick.shareable <= before.ids)
        made.reach = msgspec.structs.replace(before, ids=set(before.ids), deferred=not is_known)
        made.pickler = pickler
        return made
    found = reach_of(members, dump, bodies, pickler if packs else None, stops)
    met = references.containers_among(found.ids.union(found.named) if found.named else found.ids, namespace)
    met |= pins
    if met.keys() != known_named.keys():  # the walk sees what pickle does not ask of
        del pickler  # it holds all attribute dicts, which would seem to be shared
        pickler = open_naming(met)
        dump = pickler.dump_record
        met_digest = b""
        found = reach_of(members, dump, bodies, pickler if packs else None, stops)
    made = assemble(members, skeletons, dump)
    made.reach = found
    made.met = met_digest
    made.pickler = pickler
    return made


def _go_on(members: Mapping[str, object], lead: Dumped, namespace: dict[str, object]) -> Dumped | None:
    """Dump the members behind what they lead to, once for each lead; None if they do not go into one stream with it."""
    pickler, lead.pickler = lead.pickler, None
    lead.remembers = pickler if lead.reach.deferred else None
    if pickler is None or lead.layout.names > 1:
        return None
    dump = lead.dump.copy()
    lead.spent = (pickler, pickler.mark()) if lead.is_marked else None
    pickler.shared_owners |= lead.owners_behind
    leads = 1
    try:
        pickler.go_on(_all_of(members), dump)
        shared = find_shared(dump)
        if shared:
            from agent_kernel.values.restore.arrays import shared_arrays

            leads = 3
            pickler.go_on(Later(shared_arrays, None, shared), dump)
            pickler.go_on(_all_of(members), dump)
    except (*FOREIGN, NamespaceMetError):
        return None
    marker = pickler.marker
    if pickler.dicts_met() or (marker is not None and marker.number_shared()):
        return None
    if len(dump.memory) > len(lead.dump.memory):
        ranges = [(found.space, found.low, found.high) for found in clusters_of(dump.memory, dump.views)]
        if ranges != [(found.space, found.low, found.high) for found in pickler.clusters]:
            return None
    owners = find_shared_owners(dump)
    if owners != pickler.shared_owners:  # of what was written before nothing may look at one of these
        behind = owners - find_shared_owners(lead.dump)
        lead.owners_behind = behind if behind.isdisjoint(_owners_in(lead.dump)) else frozenset()
        return None
    dump.streams = [pickler.sink.getvalue()]
    _note_death_callbacks(members, dump, namespace)
    made = assemble(members, (), dump)
    made.layout = msgspec.structs.replace(made.layout, lead=leads)
    added = reach_of(members, _take_difference(lead.dump, dump))
    met = references.containers_among(added.ids.union(added.named), namespace)
    if not met.keys() <= lead.dump.named.keys():
        return None
    deferred = Reach(complete=False, deferred=True, named=set(lead.dump.named))
    made.reach = deferred if lead.reach.deferred else join_reaches([lead.reach, added])
    return made


def find_shared(dump: Dump) -> list[tuple[Any, str, Any]]:
    """Of what was packed into the state of its holder that which something else in the dump holds too."""
    if not dump.loose:
        return []
    # A column of a line's points becomes a view of those in any case.
    owned = [(found, {id(found[2]), id(owner_of(found[2]))}) for found in dump.loose if id(found[2]) not in dump.views]
    owned += [(found, {id(found[2])}) for found in dump.loose if id(found[2]) in dump.views]
    holders = Counter(item for _, items in owned for item in items)
    # What was pickled as an array of its own was noted once more.
    noted = Counter(id(array) for _, _, array in dump.loose)
    seen = Counter(filter(holders.__contains__, ids_of(dump.opaque)))
    met = {item for item in seen if seen[item] > noted[item]}
    return [found for found, items in owned if any(holders[item] > 1 or item in met for item in items)]


def _take_difference(before: Dump, after: Dump) -> Dump:
    """What was met since, of what a walk goes by."""
    return Dump(
        streams=after.streams,
        instances=after.instances[len(before.instances) :],
        opaque=after.opaque[len(before.opaque) :],
        roots=after.roots[len(before.roots) :],
        memory=after.memory[len(before.memory) :],
        object_arrays=after.object_arrays[len(before.object_arrays) :],
        class_level=after.class_level,
        large_caches=after.large_caches,
        named=after.named,
        keepalive=after.keepalive,
    )


_LARGE_BYTES = 1_000_000
_WALKED_BYTES = 100_000  # of a stream, from which it pays to note what was met


_MOST_MOURNED = 1_000


def _note_death_callbacks(members: Mapping[str, object], dump: Dump, namespace: dict[str, object]) -> None:
    """What weak references call when a value dies: it may die in the cell that names it next."""
    for value in (*members.values(), *islice(dump.instances, _MOST_MOURNED)):
        if weakref.getweakrefcount(value):
            called = find_death_callbacks(value, namespace)
            if called:
                holdings = find_holdings(called, namespace)
                dump.globals_used |= holdings.names
                dump.held_ids |= holdings.ids
                dump.held_memory |= holdings.memory


def plain_stream(value: object, namespace: dict[str, object]) -> bytes | None:
    """The stream of a short container of atoms, which is all that a dump of it gives; None of anything else.

    Which NaN one is takes more than that to tell.
    """
    if not _holds_only_atoms(value) or references.may_be_container(value, namespace):
        return None
    stream = pickle.dumps(value, PROTOCOL)
    return None if may_hold_nan(stream) else stream


def dump_plain(value: object, namespace: dict[str, object]) -> Dumped | None:
    """The dump of an atom, or of a short container of atoms; None of anything else."""
    if id(type(value)) in ATOM_IDS and not is_nan(value):
        return Dumped(_PLAIN, [pickle.dumps(value, PROTOCOL)], [], Dump(), Reach())
    stream = plain_stream(value, namespace)
    if stream is None:
        return None
    return Dumped(_PLAIN, [stream], [], Dump(), Reach(set() if type(value) is tuple else {id(value)}))


def _is_all_known(dumped: Dumped, *, sees_memory: bool) -> bool:
    """Whether the dump notes nothing that is there only for now, or that was changed on the way."""
    dump = dumped.dump
    noted = (dump.save_failures, dump.held_ids, dump.holders, dump.named, dump.answers, dump.met)
    return not any(noted) and not dumped.reach.deferred and (sees_memory or not dumped.reach.memory)


def _dump_atoms(
    members: Mapping[str, object],
    names: LiveNames,
    namespace: dict[str, object],
    cuts: Mapping[str | int, Cuts],
    dumped: dict[int, segments.Parts] | None,
) -> Dumped | None:
    """Dump a value that seems to hold nothing but atoms, below which there is nothing to walk; None if it holds more."""
    (value,) = members.values()
    if segments.is_long(value):
        before = [_cuts_of(value, members, cuts)]
        cut = segments.dump_segments(
            [value], names, namespace, before, of_atoms={id(value)}, dumped=dumped, only_atoms=True
        )
        if cut is not None:
            return _join_segments(cut, [], cut.reach, form=type(value).__name__)
        if not atoms.holds_atoms(value):
            return None
    dump = _dump_shared(_phases(members, ()), names, namespace)
    made = assemble(members, (), dump)
    made.reach = reach_of(members, dump)
    return made


def _note_used(dumped: Dumped, members: Mapping[str, object], namespace: dict[str, object]) -> Dumped:
    """Note the variables among the members that code uses which runs when the others are loaded."""
    kinds = dumped.dump.classes.values()
    if not kinds:
        return dumped
    from agent_kernel.values import classes, loader

    variables = [name for name, value in members.items() if classes.is_plain_container(value)]
    used = loader.names_run(kinds, namespace).intersection(variables) if variables else ()
    if used:
        forms = tuple((name, type(members[name]).__name__) for name in sorted(used))
        dumped.layout = msgspec.structs.replace(dumped.layout, used=forms)
    return dumped


def reach_of(
    members: Mapping[str, object],
    dump: Dump,
    bodies: Sequence[classes.Body] = (),
    pickler: Pickler | None = None,
    stops: Collection[int] = (),
) -> Reach:
    """Find what these members, dumped together, reach; of classes what `bodies` hold.

    Args:
        pickler: the one that dumped them, where what it remembers tells that, and nothing has to be walked.
        stops: ids of containers below which there is nothing that can change.
    """
    if pickler is not None and pickler.muted:  # it remembers what is below immutable objects, too, which does not count
        instances = (value for value in dump.opaque if type(value).__dictoffset__)
        dump.roots.extend(object.__getattribute__(value, "__dict__") for value in instances)
    elif pickler is not None:
        own = (id(pickler.dispatch_table),)
        found = reach_of_saved(_shareable(members, bodies), dump, pickler.list_saved(), own)
        found.ids.update(pickler.doubtful_dicts)  # of which copies were saved
        return found
    return reach(_shareable(members, bodies), dump, stops)


def _holds_only_atoms(value: object) -> bool:
    """Whether this is a short list, tuple, set or dict of numbers and texts, for which nothing else needs to be noted."""
    kind = type(value)
    if id(kind) not in _SHORT_IDS or len(value) > _SHORT:  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return False
    items: Any = value
    if not all(map(ATOM_IDS.__contains__, map(id, map(type, items)))):
        return False
    return kind is not dict or all(map(ATOM_IDS.__contains__, map(id, map(type, items.values()))))


def _bodies(kinds: Iterable[object], kinds_in: Callable[[object], set[int]]) -> list[classes.Body]:
    from agent_kernel.values import classes

    return classes.in_order([classes.Body(kind) for kind in kinds if isinstance(kind, type)], kinds_in)


def _phases(members: Mapping[str, object], bodies: Sequence[classes.Body]) -> list[object] | Phases:
    if not bodies:
        return [_all_of(members)]
    from agent_kernel.values import classes

    return classes.phases(bodies, tuple(members.values()))


def _all_of(members: Mapping[str, object]) -> object:
    values = tuple(members.values())
    return values[0] if len(values) == 1 else values


def _dump_shared(phases: list[object] | Phases, names: LiveNames, namespace: dict[str, object]) -> Dump:
    return _open_shared(phases, names, namespace, _NONE_NAMED, None).dump_record


def _open_shared(
    phases: list[object] | Phases,
    names: LiveNames,
    namespace: dict[str, object],
    named: Mapping[int, Named],
    components: Components | None,
    packs: bool = False,
    answers: bool = False,
    opens: bool = False,
    flat: bool = False,
) -> Pickler:
    """Pickle once to see what shares memory, and again with that memory stored once where any does."""
    options: dict[str, Any] = {"named": named, "components": components, "packs": packs, "answers": answers}
    options |= {"opens": opens, "flat": flat}
    pickler = open_dump(phases, names, namespace, **options)
    dump = pickler.dump_record
    dump.memory.sort(key=BY_PLACE)  # whoever looks for what meets there sorts it again
    clusters = clusters_of(dump.memory, dump.views)
    owners = find_shared_owners(dump)
    if clusters or owners:
        del pickler  # it holds all attribute dicts, which would seem to be shared
        pickler = open_dump(phases, names, namespace, clusters=clusters, shared_owners=owners, **options)
    return pickler


def _owners_in(dump: Dump) -> set[int]:
    """All that visited objects look at, by one or by several."""
    arrays = (*dump.object_arrays, *dump.labels)
    return {*(id(owner_of(array)) for array in arrays), *ids_of(dump.references), *ids_of(dump.label_references)}


def find_shared_owners(dump: Dump) -> frozenset[int]:
    """The ids of what more than one visited object views: owners of object arrays, arrays of copy-on-write frames, databases, pixels."""
    seen: dict[int, set[int]] = {}
    arrays = [*dump.object_arrays, *dump.labels]
    for array in arrays:
        seen.setdefault(id(owner_of(array)), set()).add(id(array))
    windows = {id(owner_of(array)) for array in arrays if overlaps_itself(array)}
    for holder, address in dump.viewers:
        seen.setdefault(address, set()).add(id(holder))
    several = frozenset(owner for owner, arrays in seen.items() if len(arrays) > 1 or owner in windows)
    of_labels = set(ids_of(dump.label_references))
    blocks = Counter(ids_of(dump.references))
    return several.union(held for held, count in blocks.items() if count > 1 or held in of_labels)


def _skeleton(kind: type, names: LiveNames, namespace: dict[str, object]) -> Dump:
    from agent_kernel.values import classes

    return dump_objects([classes.skeleton(kind)], names, namespace)


def assemble(members: Mapping[str, object], skeletons: Sequence[Dump], dump: Dump) -> Dumped:
    parts = [*skeletons, dump]
    for skeleton in skeletons:
        _merge(dump, skeleton)
    uids = tuple(name.removeprefix(CLASS_PREFIX) for name in members if name.startswith(CLASS_PREFIX))
    counts = tuple(len(part.buffers) for part in parts)
    layout = Layout(
        skeletons=uids,
        buffers=counts if any(counts) else (),
        fills=dump.pickles - 1 if uids else 0,
        losses=_encode_failures(dump),
        foreign=_foreign(parts),
        names=_names(dump),
    )
    blobs: list[bytes | Memory] = [stream for part in parts for stream in part.streams]
    blobs += [buffer for part in parts for buffer in part.buffers]
    steps = [step for part in parts for step in part.steps]
    return Dumped(layout, blobs, steps, dump, Reach())


def _names(dump: Dump) -> int:
    if not dump.named:
        return 0
    return 2 if any(named.reference.is_own for named in dump.named.values()) else 1


def _foreign(parts: Sequence[Dump]) -> tuple[int, ...]:
    found: list[int] = []
    before = 0
    for part in parts:
        found += [before + position for position in part.foreign]
        before += len(part.buffers)
    return tuple(found)


def _shareable(members: Mapping[str, object], bodies: Sequence[classes.Body]) -> Iterable[object]:
    """The members that the walk starts from; a class is reached through what its body holds."""
    yield from (value for name, value in members.items() if not name.startswith(CLASS_PREFIX))
    yield from (fill.attributes for body in bodies for fill in body.fills)


def _cut(
    members: Mapping[str, object],
    names: LiveNames,
    namespace: dict[str, object],
    cuts: Mapping[str | int, Cuts],
    known: frozenset[bytes],
    anchors: Collection[int],
    dumped: dict[int, segments.Parts] | None,
) -> Dumped | None:
    """Dump a group in which there are long containers in segments; None if it has no long containers, or they share too much."""
    top = [name for name, value in members.items() if segments.is_long(value)]
    others = [value for name, value in members.items() if name not in top]
    within = segments.find_long(others)
    if within or (len(top) > 1 and len({id(members[name]) for name in top}) < len(top)):
        longs = {id(value): value for value in (*within, *(members[name] for name in top))}
        return _cut_within(members, list(longs.values()), names, namespace, cuts, known, dumped)
    if len(top) != 1:
        return None
    if others:
        return _cut_with_others(members, top[0], names, namespace, cuts, known, dumped)
    (value,) = members.values()
    before = [_cuts_of(value, members, cuts)]
    cut = segments.dump_segments([value], names, namespace, before, known, anchors, dumped=dumped)
    return None if cut is None else _join_segments(cut, [], cut.reach, form=type(value).__name__)


def _cuts_of(value: object, members: Mapping[str, object], cuts: Mapping[str | int, Cuts]) -> Cuts:
    named = (cuts[name] for name, member in members.items() if member is value and name in cuts)
    return cuts.get(id(value)) or next(named, NOWHERE)


def _cut_with_others(
    members: Mapping[str, object],
    long: str,
    names: LiveNames,
    namespace: dict[str, object],
    cuts: Mapping[str | int, Cuts],
    known: frozenset[bytes],
    dumped: dict[int, segments.Parts] | None,
) -> Dumped | None:
    """Dump a group whose member `long` is cut into segments; None if its parts hang together too much for that."""
    value = members[long]
    others = tuple(member for name, member in members.items() if name != long)
    others_dump = _dump_shared([others], names, namespace)
    near = reach(others, others_dump)
    shared_ids = find_possibly_shared(others, others_dump, holders=2)
    before = [_cuts_of(value, members, cuts)]
    cut = segments.dump_segments(
        [value], names, namespace, before, known, near.ids, dumped=dumped, apart=near.ids, notes_met=bool(shared_ids)
    )
    if cut is None or id(value) in near.ids or others_dump.memory:
        return None
    # Also where a new segment holds them all: a known one may hold them too, and has to name them as well.
    if shared_ids and not cut.walk_around(near.ids | shared_ids):
        return None
    shared = find(cut.reach.ids & near.ids, others, others_dump)
    _name_anchors(cut, shared, names, namespace)
    first = dump_objects([shared, others], names, namespace)
    everything = Reach(near.ids | cut.reach.ids, near.memory, complete=False)
    return _join_segments(cut, [first], everything, form=type(value).__name__, long=list(members).index(long))


def _cut_within(
    members: Mapping[str, object],
    longs: list[Any],
    names: LiveNames,
    namespace: dict[str, object],
    cuts: Mapping[str | int, Cuts],
    known: frozenset[bytes],
    dumped: dict[int, segments.Parts] | None,
) -> Dumped | None:
    """Dump a group with long containers below its members, or held by several: a number stands for each where it is met."""
    values = tuple(members.values())
    numbers = {id(long): number for number, long in enumerate(longs)}
    members_dump, leading = _dump_around([], values, numbers, names, namespace)
    met = set[int]().union(*leading)
    if len(met) < len(longs):  # what a reducer leaves out is not stored
        longs = [longs[number] for number in sorted(met)]
        numbers = {id(long): number for number, long in enumerate(longs)}
    if not longs or clusters_of(members_dump.memory, members_dump.views) or find_shared_owners(members_dump):
        return None
    near = reach(values, members_dump, stops=numbers)
    before = [_cuts_of(long, members, cuts) for long in longs]
    of_atoms = {id(long) for long in longs if atoms.may_hold_atoms(long)}
    # That an item leads to a member which leads to a container shows as that is dumped: it would lead to all of it.
    lead = {id(value) for value, found in zip(values, leading, strict=True) if found}
    shared_ids = find_possibly_shared(values, members_dump, holders=2, stops=numbers) - lead
    cut = segments.dump_segments(
        longs, names, namespace, before, known, near.ids, of_atoms, dumped, apart=near.ids, notes_met=bool(shared_ids)
    )
    if cut is None or (shared_ids and not cut.walk_around(near.ids | shared_ids)):
        return None
    shared = find(cut.reach.ids.intersection(near.ids).difference(numbers), values, members_dump, stops=numbers)
    _name_anchors(cut, shared, names, namespace)
    first, leading = _dump_around(shared, values, numbers, names, namespace, joined=True)
    if len(set[int]().union(*leading)) < len(longs):
        return None
    everything = Reach(near.ids | cut.reach.ids | numbers.keys(), near.memory, complete=False)
    counts = [len(found.starts) for found in cut.cuts]
    within = tuple((type(long).__name__, count) for long, count in zip(longs, counts, strict=True))
    _note_death_callbacks(members, first, namespace)
    return _join_segments(cut, [first], everything, within=within)


def _dump_around(
    shared: list[Any],
    values: tuple[object, ...],
    numbers: Mapping[int, int],
    names: LiveNames,
    namespace: dict[str, object],
    *,
    joined: bool = False,
) -> tuple[Dump, list[set[int]]]:
    """Dump what segments refer to, and then the values, and say which of the long containers each is seen to lead to.

    None of them if one is met too early, as segments have to be loaded before that can be, and where something needs care,
    which only a whole dump takes.
    """
    leading: list[set[int]] = []

    def write(marker: NanMarker | None) -> tuple[segments.Pointing, bytes]:
        leading.clear()
        sink = io.BytesIO()
        pickler = segments.open_pointing(sink, Dump(), names, namespace, numbers)
        pickler.shared_dicts = frozenset(numbers).union(map(id, shared))
        if marker is not None:
            pickler.mark_nans(marker)
        pickler.dump(shared)
        if pickler.met:
            return pickler, b""
        for value in [values] if joined and len(values) > 1 else values:
            before = len(pickler.met)
            pickler.dump(value)
            leading.append(set(pickler.met[before:]))
        return pickler, sink.getvalue()

    try:
        pickler = write_with_nans(write, namespace)
    except FOREIGN:
        return Dump(), []
    dump = pickler.dump_record
    if not leading or pickler.dicts_met():
        return dump, []
    dump.keepalive = pickler.keepalive
    dump.streams.append(pickler.sink.getvalue())
    return dump, leading


def _name_anchors(cut: segments.Segments, shared: list[Any], names: LiveNames, namespace: dict[str, object]) -> None:
    """Let the segments that hold a shared object refer to it by its number."""
    anchors = {id(anchor): number for number, anchor in enumerate(shared)}
    for segment in cut.segments:
        if segment.shared_ids and not anchors.keys().isdisjoint(segment.shared_ids):
            segment.dump = Dump()
            segments.pickle_items(segment.items, names, namespace, anchors, dump=segment.dump)


def _join_segments(cut: segments.Segments, first: list[Dump], found: Reach, **layout_fields: Any) -> Dumped:
    """Args: said: of the layout, what the segments are."""
    streams = [*(segments.Segment(None, dump, b"") for dump in first), *cut.segments]
    dump, counts = segments.join_dumps(streams)
    layout = Layout(
        streams=len(dump.streams),
        buffers=tuple(counts) if any(counts) else (),
        losses=_encode_failures(dump),
        foreign=tuple(dump.foreign),
        **layout_fields,
    )
    dump.keepalive += [segment.dump for segment in streams]
    return Dumped(layout, [*dump.streams, *dump.buffers], dump.steps, dump, found, cut)


def _encode_failures(dump: Dump) -> tuple[tuple[str, str, str, str], ...]:
    ordered = sorted(dump.save_failures.values(), key=lambda failure: failure.token)
    return tuple((loss.token, loss.type, loss.reason, loss.remedy) for loss in ordered)


def failures_of(layout: Layout) -> list[SaveFailure]:
    return [SaveFailure(*fields) for fields in layout.losses]


def _merge(into: Dump, other: Dump) -> None:
    into.globals_used |= other.globals_used
    into.held_ids |= other.held_ids
    into.held_memory |= other.held_memory
    into.holders |= other.holders
    into.classes.update(other.classes)
    into.definitions.update(other.definitions)
    into.save_failures.update(other.save_failures)
    into.live.update(other.live)
    into.packages |= other.packages
    into.large_caches += other.large_caches
    into.keepalive.append(other)
