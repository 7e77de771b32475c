"""Pickle a group of values, and remember what the pickler met on the way.

A subclass of the C pickler with `reducer_override`: exact builtin containers never reach Python, everything else costs
one dict lookup by exact type (`reducers.handler_for`). What was visited (instances, memory, globals, classes, code) is
what change detection and the alias walk work on, because the raw object graph reaches far more than is saved.

When something below a value cannot be pickled, the value is dumped again with care: the outermost library object that
fails is replaced by a token for the live object, and all the rest is saved.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import copyreg
import ctypes
import gc
import io
import pickle
import sys
import types
from array import array
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain, compress, filterfalse
from operator import not_, sub
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import getweakrefcount

from xxhash import xxh3_128

from agent_kernel.values import reducers, references, restore
from agent_kernel.values.aliases import (
    CONSTANT,
    COPIED,
    OBJECTS,
    OPEN,
    CannotSaveError,
    Components,
    Dump,
    LiveNames,
    MemoryUse,
    SaveFailure,
    find_cluster,
    owner_of,
)
from agent_kernel.values.introspection import (
    addresses,
    count_memo,
    digest_memo,
    find_loaded,
    ids_of,
    module_name,
    of_types,
    sum_memo,
    types_of,
)
from agent_kernel.values.references import NanMarker, find_unmarked_nans, may_hold_nan
from agent_kernel.values.restore.objects import own_dict_state
from agent_kernel.values.surface import find_holdings

if TYPE_CHECKING:
    from types import CodeType

    from agent_kernel.values.aliases import Cluster
    from agent_kernel.values.atoms import Part
    from agent_kernel.values.loader import Guard, RandomNumbers
    from agent_kernel.values.reducers.figures import Undrawn
    from agent_kernel.values.references import Named
    from agent_kernel.values.trials import Trial

PROTOCOL = 5
# What a foreign reducer may raise without it being the person's Ctrl-C.
FOREIGN = (Exception, SystemExit, GeneratorExit)


class NamespaceMetError(BaseException):
    """A value leads to the notebook's namespace. No reducer of anyone's takes this for an error of its own."""


class ManyPartsError(BaseException):
    """A value leads to many objects of a component, which is asked for no more: to dump them takes less time than to look into each."""


class Mark(NamedTuple):
    """How far a dump went: the length of the stream, how much the memo holds, and the notes that grow as it goes."""

    position: int
    saved: int
    sets: dict[str, Any]


# What later parts of a dump depend on, and earlier ones are noted in.
_GROWING = (
    "muted",
    "temporary_ids",
    "private",
    "plain_arrays",
    "watched",
    "spanning",
    "doubtful_dicts",
    "_levelled",
    "_sound",
    "derived",
    "shared_owners",
)


class Pickler(pickle.Pickler):
    """One dump. Reducers call its methods to note what they met."""

    def __init__(
        self,
        sink: Any,
        dump: Dump,
        names: LiveNames,
        namespace: dict[str, object],
        clusters: tuple[Cluster, ...] = (),
        careful: bool = False,
    ) -> None:
        # Not a method of the pickler: it would hold itself, and through its memo all that it pickled.
        steps: dict[int, int | None] = {}
        parts: dict[int, Part] = {}
        records = [dump]

        def keep_buffer(buffer: pickle.PickleBuffer) -> None:
            record = records[0]
            if id(buffer) not in steps:
                record.foreign.append(len(record.buffers))
            record.buffers.append(parts.get(id(buffer), buffer))
            record.steps.append(steps.get(id(buffer)))

        super().__init__(sink, PROTOCOL, buffer_callback=keep_buffer)
        self.dispatch_table = reducers.dispatch_table()
        self.dump_record = dump
        self.names = names
        self.namespace = namespace
        self.clusters = clusters
        self.careful = careful
        self.is_probe = False  # whether this only tells if a library's object can go in whole: see `_why_not_whole`
        self.muted: set[int] = set()
        self.temporary_ids: set[int] = set()  # what was made for this dump alone, and is no container
        self.private: set[int] = set()
        self.keepalive: list[object] = []
        self.plain_arrays: dict[int, Any] = {}  # by the id of an array of another class: its memory as a plain one
        self.globals_holders: dict[int, object] = {}
        self.cached_importable: dict[int, bool] = {}
        self.watched: dict[int, object] = {}
        self._steps_by_buffer = steps
        self._parts_by_buffer = parts
        self._records = records
        self._sound: set[int] = set()
        self._levelled: dict[int, type] = {}
        self.shared_owners: frozenset[int] = frozenset()
        # While bare functions are pickled: what they are to be given later.
        self.waiting: list[Later] | None = None
        self.spanning: set[int] = set()  # arrays that own their memory, and are in the stream in any case
        self.small_arrays = 0
        self.keeps_answers = False  # whether what is only compared without is in the stream: see `Dump.answers`
        self.opens_copies = False  # whether objects are saved with what they hold that are else saved as a copy of it
        self.packs = False  # whether small arrays go into the state of the objects of matplotlib that hold them
        self.sink = sink
        self.shared_dicts: AbstractSet[int] = frozenset()  # ids of attribute dicts that something else holds too
        self.doubtful_dicts: dict[int, set[int]] = {}  # those that something else may hold, and their owners
        self.trial: Trial | None = None  # of which this is the dump
        self.linear: dict[
            int, bool
        ] = {}  # by id, parts of transforms that were asked for what they are worked out from
        self.untried_types: set[int] = set()  # ids of types of which an object was too large to be tried
        self._guard: Guard | None = None
        self._numbers: RandomNumbers | None = None
        self._has_reduced = False
        self.module_budget = reducers.MOST_IN_MODULES
        self.derived: set[int] = set()  # ids of mappings that are filled again, and are saved empty
        self.undrawn: Undrawn | None = None  # the clip boxes that this dump met before they were worked out
        # Names of attributes, and others by the ids of their items: each is written once.
        self.written: dict[tuple[object, ...], tuple[object, ...]] = {}
        self.known_in_dump: dict[tuple[object, ...], Any] = {}  # what reducers found out, as long as this dump lasts
        # By the ids of parts of a matplotlib figure: attributes that each drawing sets, with the values to save instead.
        self.set_when_drawn: dict[int, dict[str, Any]] = {}
        self.graph_nodes: set[object] = set()  # of torch graphs whose parameters this record has
        self.marker: NanMarker | None = None  # where NaNs are met: says which they are

    def dump(self, value: object, /) -> None:
        try:
            super().dump(value)
        except KeyboardInterrupt:
            self._guard = None  # code that interrupts itself once would do it each time, were its note put back
            raise
        finally:
            if self._guard is not None:
                self._guard.put_back()
            if self._numbers is not None:
                self._numbers.put_back()

    def guard(self, kind: type) -> None:
        """Put back afterwards what the class's own code changes when it is asked how an object is saved."""
        from agent_kernel.values.loader import Guard, RandomNumbers

        if self._guard is None:
            self._guard = Guard(self.namespace)
            self._numbers = RandomNumbers()
        self._guard.keep_class(kind)
        self._guard.keep_globals(kind)

    def go_on(self, value: object, record: Dump) -> None:
        """Dump one more value with the same memo, and note in another record what is met."""
        self.dump_record = self._records[0] = record
        self.graph_nodes = set()
        if self.marker is None:
            self.mark_nans(NanMarker(self.namespace))
        self.dump(value)

    def mark_nans(self, marker: NanMarker) -> None:
        """Write of each NaN which it is, from the next value on."""
        self.marker = marker
        setattr(self, "persistent_id", marker.mark)  # noqa: B010 - to type checkers it is a method, and pickle takes any function

    def mark(self) -> Mark:
        """Where the dump is now, to come back to."""
        sets = {name: getattr(self, name).copy() for name in _GROWING}
        return Mark(self.sink.tell(), count_memo(self), sets)

    def rewind(self, mark: Mark) -> None:
        """Come back to a mark, as if nothing had been dumped since: in a tenth of the time that all before it took."""
        memo: Any = self.memo.copy()
        self.memo = {item: place for item, place in memo.items() if place[0] < mark.saved}
        self.sink.seek(mark.position)
        self.sink.truncate()
        vars(self).update(mark.sets)

    def dicts_met(self) -> frozenset[int]:
        """The attribute dicts that the dump met under other owners too, or by themselves; those known are left out."""
        doubtful = {item: owners for item, owners in self.doubtful_dicts.items() if item not in self.shared_dicts}
        if not doubtful:
            return frozenset()
        # Few among many: no set is made of all that the memo holds.
        met = set(doubtful).intersection(ids_of(self.list_saved()))
        return frozenset(item for item, owners in doubtful.items() if len(owners) > 1 or item in met)

    def memo_ids(self) -> frozenset[int]:
        """The ids of what the memo holds."""
        return frozenset(ids_of(self.list_saved()))

    def digest_met(self) -> bytes:
        """Covers which objects that can change were pickled, and where the memory is that they look at; else empty."""
        dump = self.dump_record
        if dump.definitions or dump.named or dump.met:
            return b""
        # Without what was made for this dump, which is another each time, and which no walk counts either.
        own = set(map(id, (*vars(self).values(), vars(self), *self.keepalive)))
        found = gc.get_referents(self)  # what the memo holds, first of all
        mutable = of_types(found, _MUTABLE_IDS)
        # In order, for the memo's own depends on what else was put into it, and on where that lies.
        ids = _in_order(array("Q", filterfalse(own.__contains__, ids_of(mutable))))
        uses = [(use.space, use.low, use.high, use.written) for use in dump.memory]
        others = (dump.instances, dump.opaque, dump.object_arrays, dump.references)
        parts = (ids.tobytes(), *map(addresses, others), repr(uses).encode())
        whole = xxh3_128()
        for part in parts:
            whole.update(len(part).to_bytes(8, "little") + part)
        return whole.digest()

    def sum_met(self, without: object, *, is_in_place: bool = False) -> bytes:
        """As `digest_met`, in a twentieth of the time where there are only containers; another one each time where it cannot be told.

        Args:
            without: a container that was made for this dump.
            is_in_place: it is the same each time, and so lies where it lay.
        """
        if self._has_reduced:
            of_containers = self._sum_long_lived(without)
        else:
            of_containers = digest_memo(self) if is_in_place else _sum_in_bytes(sum_memo(self) - id(without))
        dump = self.dump_record
        others = (dump.instances, dump.opaque, dump.object_arrays, dump.references)
        return of_containers + b"".join(map(addresses, others))

    def _sum_long_lived(self, without: object) -> bytes:
        """Without what reducing an object makes: nothing but the memo holds that, and tuples that only the memo holds."""
        found = gc.get_referents(self)
        mutable = of_types(found, _MUTABLE_IDS)
        has_slots = not all(kind.__dictoffset__ for kind in types_of(self.dump_record.instances))
        # What is in slots stands in a dict in a tuple.
        tuples: list[Any] = of_types(found, _TUPLE_IDS) if has_slots else []
        del found
        made = compress(tuples, _are_made(map(sys.getrefcount, tuples)))
        times = Counter(ids_of(chain.from_iterable(made)))
        counts = map(sys.getrefcount, mutable)
        others = map(sub, counts, map(times.__getitem__, ids_of(mutable))) if times else counts
        long_lived = compress(mutable, map(not_, _are_made(others)))
        own = set(map(id, (*vars(self).values(), vars(self), self.dispatch_table, without)))
        return _sum_in_bytes(sum(filterfalse(own.__contains__, ids_of(long_lived))))

    def list_saved(self) -> list[object]:
        """List what the memo holds, and some objects of the pickler's own."""
        return gc.get_referents(self)

    def reducer_override(self, obj: Any, /) -> Any:
        self._has_reduced = True
        handler = _HANDLERS.get(id(type(obj)))
        if handler is None:
            handler = reducers.handler_for(type(obj))
        if not self.careful and id(obj) not in _MODULE_OBJECTS:  # nearly all there is
            return handler(self, obj)
        reference = references.find(obj, self.namespace) if id(obj) in _MODULE_OBJECTS else None
        if reference is not None and not reference.is_own:
            return self.by_name(reference)
        if self.careful and id(obj) not in self._sound and reducers.goes_whole(type(obj), handler):
            failed = self._why_not_whole(obj)
            if failed:
                return self.refuse(obj, failed)
        if reference is not None and references.is_plain_instance(obj):
            return self.set_back(obj, reference)
        parts = handler(self, obj)
        if reference is None or isinstance(parts, str) or (parts is not NotImplemented and reducers.is_live(parts)):
            return parts
        made: Any = reduce(obj) if parts is NotImplemented else parts
        return (
            made
            if isinstance(made, str)
            else reducers.reduce_module_object_as(obj, reference.module, reference.name, made)
        )

    # -- what modules hold

    def refer_to(self, named: Mapping[int, Named]) -> None:
        """Save these lists, dicts and sets as names of modules, wherever they are met in what is dumped from now on.

        pickle does not ask of them. But what is in its memo is written as a mere number: so each gets the number of
        its name, which is written first.
        """
        if not named:
            return
        self.dump_record.named = dict(named)
        names = [name for name in named.values() if references.is_exact_container(name.value)]
        self.stand_for(names, [name.value for name in names])

    def stand_for(self, marks: list[Any], values: Sequence[object]) -> None:
        """Dump marks; wherever the values are met from now on, what the marks are loaded as is meant."""
        self.dump(marks)
        memo: Any = self.memo.copy()
        for mark, value in zip(marks, values, strict=True):
            # In the place of the mark: loading counts what it meets, so there must not be more.
            memo[id(value)] = (memo.pop(id(mark))[0], value)
        self.memo = memo
        self.keepalive += (marks, values)

    def stop_in_namespace(self) -> None:
        """Do not go on where a value led into the notebook's namespace, all of which pickle would save with it.

        pickle asks of no dict. But every namespace has `__builtins__` among its first items, and so little was saved.

        Raises:
            NamespaceMetError: the namespace has to be among the names.
        """
        if id(self.namespace) not in self.dump_record.named and id(self.namespace) in self.memo.copy():
            raise NamespaceMetError

    def by_name(self, reference: references.Reference) -> Any:
        self.dump_record.packages.add(reference.module.partition(".")[0])
        return reducers.by_name(reference.module, reference.name)

    def set_back(self, value: Any, reference: references.Reference) -> Any:
        """Save an object of the person's own module with its content, which goes back into the same object."""
        if id(value) not in self.muted:
            self.dump_record.instances.append(value)
        return reducers.reduce_module_object(reference.module, reference.name, value)

    # -- what reducers call

    def instance(self, value: Any) -> Any:
        """Note an ordinary mutable object, and let pickle reduce it; in a careful dump, find out if it can."""
        if id(value) not in self.muted:
            self.dump_record.instances.append(value)
        if is_dict_shared(self, value):
            return with_shared_dict(value, self.protect(value) if self.careful else reduce(value))
        if is_dict_doubtful(self, value):
            return with_copied_dict(self, value, self.protect(value) if self.careful else reduce(value))
        return self.protect(value) if self.careful else NotImplemented

    def custom(self, value: Any, says: Callable[[Any], Any] | None = None) -> Any:
        """Note an object that reduces itself: what it gave is what was saved, and nothing else below it counts.

        Args:
            says: what it is reduced to, in place of what its class says.
        """
        try:
            registered = self.dispatch_table.get(type(value), says)  # which is looked up anew for each dump alone
            parts = registered(value) if registered is not None else value.__reduce_ex__(PROTOCOL)
        except FOREIGN as error:
            if not self.careful:
                raise
            return self.refuse(value, explain(error))
        if isinstance(parts, str):
            if not _stands_for_variable(value):
                return parts
            noted = self.instance(value)
            return reduce(value) if noted is NotImplemented else noted
        self.note_class_level(type(value))
        self._note_maker(type(value), parts[0])
        if id(value) in self.muted:
            self.mute(parts)
        elif len(parts) > 3:  # items come from an iterator, which cannot be looked into
            self.dump_record.instances.append(value)
        else:
            self.dump_record.opaque.append(value)
            self.note_parts(parts)
        return self.protect(value) if self.careful else parts

    def _note_maker(self, kind: type, maker: object) -> None:
        """Where a function of the notebook's makes the object again, which runs code of its class, note that class."""
        if type(maker) is types.FunctionType and maker.__globals__ is self.namespace and kind.__module__ == "__main__":
            from agent_kernel.values.reducers.objects import can_be_made_bare

            if references.find_class(kind, self.namespace) is None and can_be_made_bare(kind):
                self.dump_record.classes[self.names.uid_of(kind)] = kind

    def note_parts(self, parts: tuple[Any, ...]) -> None:
        """Note what an object was reduced to, but not the containers and arrays that were made for this dump.

        Other values cannot share those, but come to have their addresses later, and would seem to share something.
        """
        if sys.getrefcount(parts) <= _OF_NEW:
            self._leave_out_temporary(parts)
        self.dump_record.roots.append(parts)

    def note_temporary(self, parts: tuple[Any, ...]) -> None:
        """The same of an object that is walked itself: only what was made for this dump is noted, to be left out."""
        if sys.getrefcount(parts) <= _OF_NEW:
            self.keepalive.append(parts)  # or ids of what stands there would be others' by the end
            self._leave_out_temporary(parts)

    def _leave_out_temporary(self, parts: tuple[Any, ...]) -> None:
        containers, others = _find_new(parts)
        self.keepalive += containers
        self.temporary_ids.update(others)

    def immutable(self, value: Any) -> Any:
        """Reduce an object that nobody changes: neither it nor anything below it can be shared in a way that shows."""
        try:
            parts = reduce(value)
        except FOREIGN as error:
            if not self.careful:
                raise
            return self.refuse(value, explain(error))
        if not isinstance(parts, str):
            self.mute(parts)
        return parts

    def note_class_level(self, kind: type) -> None:
        """What a library's class holds is not shared by its instances in a way that shows: each gets a copy anyway."""
        if id(kind) not in self._levelled:
            self._levelled[id(kind)] = kind
            self.dump_record.class_level |= reducers.class_level(kind)

    def mute(self, parts: object) -> None:
        """Do not note the objects that stand directly in `parts` when they are visited."""
        self.keepalive.append(parts)
        self.muted.update(map(id, leaves_of(parts)))

    def make_private(self, parts: object) -> None:
        """Arrays that stand directly in `parts` belong to a copy-on-write frame."""
        self.keepalive.append(parts)
        self.private.update(map(id, leaves_of(parts)))

    def buffer(self, memory: Any, step: int | None = None) -> pickle.PickleBuffer:
        """Send memory out of band; `step` is the bytes of one step along the slowest axis, for cutting chunks."""
        made = pickle.PickleBuffer(_as_writable(memory))
        self.keepalive += (made, memory)
        self._steps_by_buffer[id(made)] = step
        return made

    def part(self, part: Part) -> pickle.PickleBuffer:
        """Send a buffer out of band whose bytes are made when somebody stores them."""
        made = self.buffer(bytearray())
        self._parts_by_buffer[id(made)] = part
        return made

    def watch(self, array: object) -> None:
        """A library made this array for itself: nobody minds that weak references to it exist."""
        self.watched[id(array)] = array  # not in `kept`: a person may have a name for it

    def uses(self, holder: object, low: int, high: int, space: str = "cpu", *, owned: bool = False) -> None:
        """Note memory that an array or tensor looks at; `owned` by it alone, in whole and in order."""
        if id(holder) not in self.muted and high > low:
            self.dump_record.memory.append(MemoryUse(holder, space, low, high, self._written(holder), owned))

    def _written(self, holder: object) -> int:
        if id(holder) not in self.private:
            return OPEN
        flags: Any = getattr(holder, "flags", None)
        return COPIED if getattr(flags, "writeable", True) else CONSTANT

    def looks_at(self, holder: object, low: int, high: int) -> bool:
        """Note memory that nobody writes to through the holder; returns whether somebody else here may.

        Columns of Arrow and polars that were made of an array without a copy change with it.
        """
        if high <= low:
            return False
        self.keepalive.append(holder)
        self.dump_record.memory.append(MemoryUse(holder, "cpu", low, high, CONSTANT))
        return find_cluster(self.clusters, low) is not None

    def identify(self, value: object) -> None:
        """Note which object this is, where that alone can be shared; of private ones none with one another."""
        if id(value) not in self.muted:
            use = MemoryUse(value, OBJECTS, id(value), id(value) + 1, self._written(value))
            self.dump_record.memory.append(use)

    def note_view(self, holder: object, address: int) -> None:
        """Note what an object reads and writes, by its address: others may share it, as a database in memory or pixels."""
        self.dump_record.viewers.append((holder, address))
        self.dump_record.memory.append(MemoryUse(holder, OBJECTS, address, address + 1))

    def identify_items(self, array: Any, *, private: bool = False) -> None:
        """Note whose memory an array of objects looks at: it cannot be stored as bytes, but is shared as any array's."""
        owner = owner_of(array)
        self.dump_record.memory.append(MemoryUse(array, OBJECTS, id(owner), id(owner) + 1, COPIED if private else OPEN))

    def refuse(self, value: Any, reason: str, remedy: str = "", *, again: str = "", by_itself: bool = False) -> Any:
        """Save a token in the place of an object that cannot be saved; only a careful dump knows where that may be.

        Args:
            remedy: how to have it again, where no cell is known that makes it; `again`: where one is known, too.
            by_itself: it is what it is, whatever its attributes hold by now.
        """
        if not self.careful:
            raise CannotSaveError(reason)
        earlier = self.names.save_failure_of(value)
        token = earlier.token if earlier else self.names.token_of(value)
        failure = earlier or SaveFailure(
            token, type_name(type(value)), reason, again or self.names.remedy_of(token) or remedy
        )
        self.dump_record.save_failures[token] = failure
        self.dump_record.live[token] = value
        if earlier is None:
            self.note_holdings(value, token)
        return reducers.live_token(token, b"" if earlier or by_itself else self.names.surface_of(token, value))

    def note_holdings(self, value: Any, token: str) -> None:
        """What an object that is not saved as it is may use or change when it is used: code and values that lie in it."""
        self.dump_record.holders.add(token)
        for attribute in ("gi_code", "cr_code", "ag_code"):
            code: CodeType | None = getattr(value, attribute, None) if reducers.is_resumable(value) else None
            if code is not None:
                self.note_globals(code)
        holdings = find_holdings(value, self.namespace)
        self.dump_record.globals_used |= holdings.names
        self.dump_record.held_ids |= holdings.ids
        self.dump_record.held_memory |= holdings.memory

    def note_globals(self, code: CodeType) -> None:
        self.dump_record.globals_used.update(reducers.names_used(code))

    def protect(self, value: Any) -> Any:
        """In a careful dump: reduce an object whose parts are looked into one by one."""
        try:
            return reduce(value)
        except FOREIGN as error:
            return self.refuse(value, explain(error))

    def _why_not_whole(self, value: Any) -> str:
        """Why a library's object cannot go in whole; nothing if it can. It is never taken apart.

        A copy with a part missing may do anything when it dies: close the person's file, delete a folder. What others added to it, and
        its library does not save, is no part of it.
        """
        probe = Dump()
        try:
            pickler = Pickler(_NullSink(), probe, self.names, self.namespace, self.clusters)
            pickler.is_probe = True
            pickler.refer_to(self.dump_record.named)
            pickler.dump(value)
        except FOREIGN as error:
            return explain(error)
        self._sound.update(ids_of(probe.instances), ids_of(probe.opaque), (id(value),))
        self.keepalive.append(probe)
        return ""


def _find_new(parts: tuple[Any, ...]) -> tuple[list[object], list[int]]:
    """What stands in new tuples, lists, dicts and sets, and that nothing else holds: these containers, and ids of the rest."""
    found: list[object] = []
    others: list[int] = []
    new: list[Any] = [parts]
    for one in new:
        for item in one.values() if type(one) is dict else one:
            if sys.getrefcount(item) > _OF_ITEM:
                continue
            kind = id(type(item))
            if kind in _NEW_IDS:
                new.append(item)
            if kind in _MUTABLE_IDS:
                found.append(item)
            elif kind != id(tuple) and not getweakrefcount(item):
                others.append(id(item))
    return found, others


def _references() -> tuple[int, int]:
    """How many references to a tuple are counted in a call if only the caller has it, and to an item of only that tuple."""

    def count(made: tuple[Any, ...]) -> tuple[int, int]:
        whole, of_item = sys.getrefcount(made), 0
        for item in made:
            of_item = sys.getrefcount(item)
        return whole, of_item

    made: tuple[Any, ...] = ([],)
    return count(made)


_OF_NEW, _OF_ITEM = _references()


def _as_writable(memory: Any) -> Any:
    """The same memory as a writable buffer, which nothing writes to.

    pickle marks read-only ones, and wants those as memory when it loads.
    """
    view = memoryview(memory)
    if not view.readonly:
        return memory
    if not view.nbytes:
        return bytearray()
    return (ctypes.c_char * view.nbytes).from_address(_address_of(view))


def _address_of(view: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


class _NullSink:
    def write(self, _: object) -> None: ...


_MUTABLE_IDS = frozenset(map(id, (list, dict, set, bytearray, types.CellType)))
_TUPLE_IDS = frozenset((id(tuple),))
_NEW_IDS = frozenset(map(id, (tuple, list, dict, set)))
_MODULE_OBJECTS = references.MODULE_OBJECTS
_HANDLERS: dict[int, Callable[[Pickler, Any], Any]] = reducers.HANDLERS.by_id


def reduce(value: Any) -> Any:
    """Return what `copyreg`, `__reduce_ex__` or `__reduce__` gives, in pickle's order; no name of a variable."""
    registered = reducers.dispatch_table().get(type(value))
    parts = registered(value) if registered is not None else value.__reduce_ex__(PROTOCOL)
    return _reduce_to_content(value) if isinstance(parts, str) and _stands_for_variable(value) else parts


def _stands_for_variable(value: Any) -> bool:
    """Whether the name that an object gives for itself is one of the notebook's: the object is all that there is of it."""
    return module_name(type(value)) == "__main__"


def _reduce_to_content(value: Any) -> Any:
    """What `object.__reduce_ex__` would give, were it not for the class's own `__reduce__`."""
    kind = type(value)
    if hasattr(kind, "__getnewargs_ex__"):
        arguments, keywords = value.__getnewargs_ex__()
        made = _copyreg.__newobj_ex__, (kind, arguments, keywords)
    else:
        arguments = value.__getnewargs__() if hasattr(kind, "__getnewargs__") else ()
        made = _copyreg.__newobj__, (kind, *arguments)
    state = value.__getstate__()
    if not isinstance(value, (list, dict)):
        return *made, state
    items, pairs = (None, iter(value.items())) if isinstance(value, dict) else (iter(value), None)
    return *made, state, items, pairs


_copyreg: Any = copyreg  # typeshed lacks `__newobj__`


def is_dict_shared(pickler: Pickler, value: Any) -> bool:
    """Whether the dump meets the attribute dict of this object elsewhere, too.

    References tell that something else may hold it. Whether that is saved beside the object, only the dump can tell: a
    doubtful dict goes in as a copy, and where it was met by itself, all is dumped again with what is known now.
    """
    attributes = _attribute_dict(value)
    if attributes is None:
        return False
    if attributes is value or id(attributes) in pickler.shared_dicts:
        return True
    if sys.getrefcount(attributes) > reducers.OWN_HOLDS + 1:  # the variable here
        pickler.doubtful_dicts.setdefault(id(attributes), set()).add(id(value))
    return False


def is_dict_doubtful(pickler: Pickler, value: Any) -> bool:
    return bool(pickler.doubtful_dicts) and id(_attribute_dict(value)) in pickler.doubtful_dicts


def _attribute_dict(value: Any) -> Any:
    """The attribute dict of an object; None where it has none, or does not give it: a future of asyncio's does not."""
    if not type(value).__dictoffset__:
        return None
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def with_copied_dict(pickler: Pickler, value: Any, parts: Any) -> Any:
    """Let the dump meet a copy of the attribute dict, which is loaded as the dict itself would be."""
    if isinstance(parts, str) or len(parts) < 3:
        return parts
    attributes: dict[str, object] = object.__getattribute__(value, "__dict__")
    state: Any = parts[2]
    copied = attributes.copy()
    pickler.keepalive.append(copied)
    if state is attributes:
        state = copied
    elif type(state) is tuple:
        state = tuple(copied if part is attributes else part for part in state)
    return *parts[:2], state, *parts[3:]


def with_shared_dict(value: Any, parts: Any) -> Any:
    """Let an object be given this very attribute dict, where pickle would copy what is in it."""
    if isinstance(parts, str) or any(parts[5:]) or hasattr(type(value), "__setstate__"):
        return parts
    state = parts[2] if len(parts) > 2 else None
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    own = object.__getattribute__(value, "__dict__")
    state_method: Any = type(value).__getstate__
    if attributes is None and not own and state_method is object.__getstate__:
        attributes = own  # of an empty one pickle says nothing
    if attributes is not own:
        return parts
    return *parts[:2], (attributes, slots), *(*parts[3:5], None, None)[:2], own_dict_state


def explain(error: BaseException) -> str:
    """One line for a person. A word alone, such as the name of an attribute, says nothing without the error's type."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    if not text:
        return name
    return (text if " " in text else f"it raises {name}: {text}")[:200]


def type_name(kind: type) -> str:
    module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


_NOTHING: Mapping[int, Named] = {}


def _in_order(numbers: array[int]) -> array[int]:
    frombuffer: Any = find_loaded("numpy", "frombuffer")
    if frombuffer is None or len(numbers) < _MANY:
        return array("Q", sorted(numbers))
    frombuffer(numbers, dtype="uint64").sort()  # in place, in a twentieth of the time
    return numbers


_MANY = 1_000


def _are_made(counts: Iterable[int]) -> list[bool]:
    """Whether a reducer made each of the objects that are held so often. A list: `compress` holds the object meanwhile."""
    return list(map(_OF_MADE.__ge__, counts))


def _sum_in_bytes(total: int) -> bytes:
    return (total & _LARGEST).to_bytes(8, "little")


_LARGEST = (1 << 64) - 1
# The memo, the list, and getrefcount's argument.
_OF_MADE = 3


class Later:
    """Pickles as: give this state to that object, which is in the stream already."""

    def __init__(self, setter: Callable[[Any, Any], None], target: object, state: object) -> None:
        self.setter, self.target, self.state = setter, target, state

    def __reduce__(self) -> Any:
        return self.setter, (self.target, self.state)


Phases = Callable[[Pickler], Iterable[object]]


class ComponentPickler(Pickler):
    """Writes a number in the place of an object that leads to a component dumped before, and to all of it."""

    components: Components

    def reducer_override(self, obj: Any, /) -> Any:
        component = self.components.find(obj)
        if component is None:
            return super().reducer_override(obj)
        met = self.dump_record.met
        if met and met[0] is component:  # nearly always: a name leads to one figure
            return _standing_for, (0, component.places[id(obj)])
        number = next((number for number, other in enumerate(met) if other is component), len(met))
        if number == len(met):
            met.append(component)
        return _standing_for, (number, component.places[id(obj)])


class PinningPickler(Pickler):
    """Saves objects so that they can be set back while they live: something that stays alive has hold of them."""

    pins: Mapping[int, Named]

    def reducer_override(self, obj: Any, /) -> Any:
        parts = super().reducer_override(obj)
        pin = self.pins.get(id(obj))
        by_name = isinstance(parts, str) or (parts is NotImplemented and type(obj) is types.FunctionType)
        if pin is None or by_name or (parts is not NotImplemented and reducers.is_live(parts)):
            return parts
        made: Any = reduce(obj) if parts is NotImplemented else parts
        return made if isinstance(made, str) else reducers.reduce_pinned(obj, pin.reference.name, made)


class FlatPickler(PinningPickler):
    """Saves objects bare, and what they hold after them, one by one: however deep they lead, nothing is nested.

    Of containers in containers those are saved first that lie deepest: what holds them refers to them by a number.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pins = {}
        self.postponed: deque[Later] = deque()
        self.heights = Heights()

    def reducer_override(self, obj: Any, /) -> Any:
        if type(obj) is _Flat:
            rest = _Rest(self.postponed, self.heights)
            inner = list(self.heights.find_deep(obj.value))
            self.keepalive.append(inner)
            return (restore.flat_behind, (inner, obj.value, rest)) if inner else (restore.flat, (obj.value, rest))
        if type(obj) is _Rest:
            return list, (), None, iter(obj)
        parts = super().reducer_override(obj)
        if isinstance(parts, str) or type(obj) is Later:
            return parts
        noted = self.dump_record.instances
        is_noted = parts is NotImplemented and noted and noted[-1] is obj and type(obj) is not types.FunctionType
        made: Any = reduce(obj) if is_noted else parts
        if type(made) is not tuple or len(made) < 3 or any(made[3:5]) or made[2] is None:
            return parts
        if not any(made[0] is other for other in restore.MAKES_BARE):
            return parts
        self.postponed.append(Later(made[5] if len(made) > 5 and made[5] else restore.set_attributes, obj, made[2]))
        return made[:2]


class _Flat:
    def __init__(self, value: object) -> None:
        self.value = value


class _Rest:
    """Goes on for as long as there is something to save."""

    def __init__(self, waiting: deque[Later], heights: Heights) -> None:
        self.waiting, self.heights = waiting, heights

    def __iter__(self) -> Iterator[object]:
        while self.waiting:
            later = self.waiting.popleft()
            yield from self.heights.find_deep(later.state)
            yield later
            yield None  # pickle asks for the next one before it saves this, which may give more
            yield None


class Heights:
    """How many containers lie in one another below each container that was met; objects in them end that."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def find_deep(self, value: object) -> Iterator[object]:
        """The containers at every so many levels below the value, from the lowest up."""
        if id(type(value)) not in _NESTED_IDS:
            return
        open_ids = {id(value)}
        path: list[tuple[Any, Iterator[object]]] = [(value, _items_of(value))]
        height = [0]
        while path:
            below = next((item for item in path[-1][1] if id(type(item)) in _NESTED_IDS), None)
            if below is None:
                done, _ = path.pop()
                known = height.pop()
                self._known[id(done)] = known
                if height:
                    height[-1] = max(height[-1], known + 1)
                if known and not known % _LEVELS:
                    yield done
            elif id(below) in self._known:
                height[-1] = max(height[-1], self._known[id(below)] + 1)
            elif id(below) not in open_ids:
                open_ids.add(id(below))
                path.append((below, _items_of(below)))
                height.append(0)


_LEVELS = 50
_NESTED_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset)))


def _items_of(container: Any) -> Iterator[object]:
    if type(container) is not dict:
        return iter(container)
    return chain(container, container.values())


def _standing_for(component: int, place: int) -> object:
    raise LookupError(f"object {place} of component {component} is in another stream, and this one is only compared")


class _ArrivedError(Exception):
    pass


class _Arriving(Pickler):
    goals: Container[int]

    def reducer_override(self, obj: Any, /) -> Any:
        if id(obj) in self.goals:
            raise _ArrivedError
        return super().reducer_override(obj)


def leads_to(value: object, goals: Container[int], names: LiveNames, namespace: dict[str, object]) -> Dump | None:
    """Whether saving the value would save an object of one of these ids: None if so, else what it does lead to."""
    dump = Dump()
    pickler = _Arriving(_NullSink(), dump, names, namespace)
    pickler.goals = goals
    try:
        pickler.dump(value)
    except _ArrivedError:
        return None
    except (*FOREIGN, NamespaceMetError):  # it is looked at with care elsewhere
        dump.instances.append(value)
    dump.keepalive = pickler.keepalive
    return dump


def dump_objects(
    phases: Iterable[object] | Phases,
    names: LiveNames,
    namespace: dict[str, object],
    *,
    clusters: tuple[Cluster, ...] = (),
    shared_owners: frozenset[int] = frozenset(),
    named: Mapping[int, Named] = _NOTHING,
    components: Components | None = None,
) -> Dump:
    """Pickle the phases one after another in one stream with one memo, with care where something fails.

    Args:
        phases: or what gives them, and may ask the pickler what it met in those before.
        named: lists, dicts and sets that modules hold, by id: saved as names, which are a pickle before the phases; the
            content of those in the person's own modules is one after them.
        components: what was dumped before, for a dump that is only compared, and never stored where it meets one.

    Raises:
        RecursionError: nested too deeply for the pickler.
    """
    return open_dump(
        phases, names, namespace, clusters=clusters, shared_owners=shared_owners, named=named, components=components
    ).dump_record


def open_dump(
    phases: Iterable[object] | Phases,
    names: LiveNames,
    namespace: dict[str, object],
    *,
    clusters: tuple[Cluster, ...] = (),
    shared_owners: frozenset[int] = frozenset(),
    named: Mapping[int, Named] = _NOTHING,
    components: Components | None = None,
    packs: bool = False,
    answers: bool = False,
    opens: bool = False,
    flat: bool = False,
) -> Pickler:
    """Like `dump_objects`, and gives the pickler, which can go on."""
    if not callable(phases):
        phases = list(phases)
    given = phases, names, namespace, clusters, shared_owners, named
    options: dict[str, Any] = {"answers": answers, "opens": opens, "flat": flat}
    try:
        pickler = _dump_finding(components, given, options | {"packs": packs})
    except RecursionError:
        raise
    except FOREIGN:  # foreign reducers run here, and may raise anything
        options["careful"], components, packs = True, None, False
        pickler = _dump(*given, **options)
    shared = pickler.dicts_met()
    if shared:
        pickler = _dump_finding(components, given, options | {"packs": packs, "shared_dicts": shared})
    return pickler


def _dump_finding(components: Components | None, given: tuple[Any, ...], options: dict[str, Any]) -> Pickler:
    """Dump, and once more where much of a component was met: then nothing of it is found."""
    while True:
        with suppress(ManyPartsError):
            return _dump(*given, components=components, **options)


def _dump(
    phases: list[object] | Phases,
    names: LiveNames,
    namespace: dict[str, object],
    clusters: tuple[Cluster, ...],
    shared_owners: frozenset[int],
    named: Mapping[int, Named],
    *,
    careful: bool = False,
    components: Components | None = None,
    packs: bool = False,
    answers: bool = False,
    opens: bool = False,
    shared_dicts: frozenset[int] = frozenset(),
    flat: bool = False,
) -> Pickler:
    pins = {item: found for item, found in named.items() if not found.reference.module}

    def write(marker: NanMarker | None) -> tuple[Pickler, bytes]:
        sink = io.BytesIO()
        dump = Dump()
        pickler: Pickler
        if pins or flat:
            pickler = (FlatPickler if flat else PinningPickler)(sink, dump, names, namespace, clusters, careful)
            pickler.pins = pins
        elif components is None or not components.may_find():
            pickler = Pickler(sink, dump, names, namespace, clusters, careful)
        else:
            pickler = ComponentPickler(sink, dump, names, namespace, clusters, careful)
            pickler.components = components
        pickler.shared_owners = shared_owners
        pickler.packs = packs
        pickler.keeps_answers = answers
        pickler.opens_copies = opens
        pickler.shared_dicts = shared_dicts
        if marker is not None:
            pickler.mark_nans(marker)
        write_phases(pickler, phases, named)
        return pickler, dump.streams[0]

    return write_with_nans(write, namespace)


def write_with_nans(
    write: Callable[[NanMarker | None], tuple[Pickler, bytes]],
    namespace: Mapping[str, object],
    *,
    expects_marks: bool = False,
) -> Pickler:
    """Write a stream; where it holds NaNs, again with what says which they are, and once more if some are there twice.

    Args:
        expects_marks: most likely there are such, so they are looked for at once.
    """
    if not expects_marks:
        pickler, stream = write(None)
        if not may_hold_nan(stream):
            return pickler
        held = find_unmarked_nans(stream, pickler.list_saved())
        if held is not None:
            pickler.dump_record.opaque += held
            return pickler
        del pickler  # it holds all attribute dicts, which would seem to be shared
    marker = NanMarker(namespace)
    pickler, _ = write(marker)
    if marker.number_shared():
        del pickler
        pickler, _ = write(marker)
    pickler.dump_record.opaque += marker.list_held()
    return pickler


def write_phases(pickler: Pickler, phases: list[object] | Phases, named: Mapping[int, Named]) -> None:
    """Write one stream: what modules hold under names, the phases, and what goes back into the person's own modules."""
    dump = pickler.dump_record
    dump.is_flat = isinstance(pickler, FlatPickler)
    pickler.refer_to(named)
    for phase in phases(pickler) if callable(phases) else phases:
        pickler.dump(_Flat(phase) if isinstance(pickler, FlatPickler) else phase)
        dump.pickles += 1
    own = [found for found in named.values() if found.reference.is_own]
    if own:
        containers = [found.value for found in own if references.is_exact_container(found.value)]
        pickler.dump([references.Content(value, value.copy()) for value in containers])
    dump.keepalive = pickler.keepalive
    dump.streams.append(pickler.sink.getvalue())


def leaves_of(parts: object) -> list[object]:
    """The non-container objects directly in nested exact containers."""
    found: list[object] = []
    waiting: list[Any] = [parts]
    for item in waiting:  # it grows
        kind = type(item)
        if kind is tuple or kind is list or kind is set or kind is frozenset:
            waiting += item
        elif kind is dict:
            waiting += item.values()
        else:
            found.append(item)
    return found
