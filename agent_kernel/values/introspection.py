"""Read what CPython itself knows about objects, so that no class can answer in their place; and where many objects lie, at once.

`type(v)` cannot lie, and the descriptors in `type.__dict__` read a class without asking its metaclass. Anything
looked up by name on a foreign object (`__class__`, `__dict__`, `__len__`, a property) may be the user's code, and so
may hashing or comparing a class, whose metaclass can define both: classes are told apart by identity alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import io
import pickle
import struct
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, compress, islice, repeat, tee
from operator import add, attrgetter, itemgetter, mul, not_, sub
from types import BuiltinFunctionType, CellType, FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar, cast

from xxhash import xxh3_128_digest

from agent_kernel.text import clean, shorten

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, so its __module__ is an entry of its dict
_LONGEST_NAME = 100
_MOST_ENTRIES = 4_000
# These offer their types at the top and move them between inner modules from release to release.
_FLAT = frozenset({"pathlib", "pandas", "polars", "pyarrow"})

_characters: Callable[[object], str] = type.__dict__["__dict__"].__get__(str)["__str__"]
_name_of: Any = type.__dict__["__name__"].__get__
_qualname_of: Any = type.__dict__["__qualname__"].__get__
_module_of: Any = type.__dict__["__module__"].__get__
_dict_of: Any = type.__dict__["__dict__"].__get__
_mro_of: Any = type.__dict__["__mro__"].__get__
flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_module_slots: Any = type.__dict__["__dict__"].__get__(ModuleType)
module_dict: Callable[[object], dict[str, object]] = _module_slots["__dict__"].__get__


def exact_str(value: object) -> str:
    """The characters of a string or of an instance of a string subclass; nothing for anything else."""
    if type(value) is str:
        return value
    try:
        return _characters(value)
    except TypeError:
        return ""


def exact_items(value: object) -> tuple[object, ...]:
    """The items of a real list or tuple; nothing for anything else."""
    return tuple(cast("Sequence[object]", value)) if type(value) is tuple or type(value) is list else ()


def entry(mapping: Mapping[str, object] | MappingProxyType[str, object], key: str) -> object:
    """The value under `key`, found without a hash lookup: a planted key with the same hash would be asked `==`."""
    for found, value in islice(mapping.items(), _MOST_ENTRIES):
        if type(found) is str and found == key:
            return value
    return None


def class_dict(kind: type) -> MappingProxyType[str, object]:
    """What the class body left, never what a metaclass says."""
    found: MappingProxyType[str, object] = _dict_of(kind)
    return found


def bases_of(kind: type) -> tuple[type, ...]:
    """The method resolution order as the interpreter uses it."""
    found: tuple[type, ...] | None = _mro_of(kind)
    # A type of an extension that never made it ready (f2py's `fortran`) has none yet: the first attribute makes it so.
    return type.__getattribute__(kind, "__mro__") if found is None else found


def derives_from(kind: type, base: object) -> bool:
    """`issubclass` by identity: no `__subclasscheck__`, no `__eq__` of a metaclass."""
    return id(base) in map(id, bases_of(kind))


def module_name(kind: type) -> str:
    """The name of the module that made the class."""
    if flags_of(kind) & _HEAP_TYPE:
        return exact_str(entry(class_dict(kind), "__module__"))
    return exact_str(_module_of(kind))


def is_made_in_python(kind: type) -> bool:
    """Whether the class itself was made by Python code and adds nothing to its objects but attributes and slots."""
    return bool(flags_of(kind) & _HEAP_TYPE) and type(class_dict(kind).get("__new__")) is not BuiltinFunctionType


def defines_hash(kind: type) -> bool:
    """Whether a class, or a base of it, defines the hash of its objects. Otherwise the hash comes from the identity."""
    found = next((class_dict(base)["__hash__"] for base in bases_of(kind) if "__hash__" in class_dict(base)), None)
    return found is not None and found is not object.__hash__


def qualified_name(kind: type) -> str:
    """The class's own qualified name, without its module."""
    return exact_str(_qualname_of(kind)) or exact_str(_name_of(kind))


def is_of_notebook(kind: type) -> bool:
    """Whether a cell made the class: it names no module, or the one that cells run in."""
    return bool(flags_of(kind) & _HEAP_TYPE) and module_name(kind) in ("", "builtins", "__main__")


# By id: hashing a type runs its metaclass.
_BUILTIN_TEXTS = {
    id(kind): kind.__name__
    for kind in (int, float, complex, bool, str, bytes, bytearray, type(None), list, tuple, set, frozenset, dict)
}


def type_text(kind: type) -> str:
    """How a class is named to people: `int`, `Point` (the notebook's own), `sklearn.svm._classes.SVC`."""
    known = _BUILTIN_TEXTS.get(id(kind))
    if known is not None:
        return known
    module, name = module_name(kind), qualified_name(kind)
    root = module.partition(".")[0]
    if root in _FLAT:
        module = root
    plain = name if module in ("", "builtins", "__main__") else f"{module}.{name}"
    return shorten(clean(plain[: 4 * _LONGEST_NAME]), _LONGEST_NAME)


def type_name(value: object) -> str:
    """`type_text` of the value's type."""
    return type_text(type(value))


def find_loaded(module: str, attribute: str) -> object:
    """Find an attribute of a module that is imported already. Returns None otherwise: nothing is imported, no `__getattr__` runs."""
    found = sys.modules.get(module)
    if not derives_from(type(found), ModuleType):
        return None
    return module_dict(found).get(attribute)


def loaded_class(module: str, name: str) -> Any:
    """A class of a library, or an empty tuple, which nothing is an instance of, where that is not imported yet."""
    return getattr(sys.modules.get(module), name, ())


def instance_dict(value: object) -> dict[str, object]:
    """The instance's own attributes, through the interpreter's slot and past any `__dict__` that a class defines."""
    for base in reversed(bases_of(type(value))):
        slot: Any = entry(class_dict(base), "__dict__")
        if (is_dict_slot(slot) and base is not type) or slot is DICT_OF_NAMESPACES:
            with contextlib.suppress(AttributeError):  # what a proxy in C stands for may have none
                found: dict[str, object] = slot.__get__(value)
                return found
    return {}


def is_made_without_slots(kind: type[Any]) -> bool:
    """Whether a class got its `__slots__` after it was made. Then they have no effect, and its objects have a dict."""
    own: Any = class_dict(kind)
    if "__slots__" not in own or "__dict__" not in own or not is_dict_slot(own["__dict__"]):
        return False
    named = own["__slots__"]
    return "__dict__" not in ({named} if isinstance(named, str) else set(named))


def names_of_slots(kind: type[Any]) -> set[str]:
    """The names of the slots that a class was made with."""
    if is_made_without_slots(kind):
        return set()
    named: Any = class_dict(kind).get("__slots__", ())
    names = {named} if isinstance(named, str) else set(named)
    prefix = f"_{kind.__name__.lstrip('_')}"
    private = {name for name in names if name[:2] == "__" and name[-2:] != "__"}
    return names - private - {"__dict__", "__weakref__"} | {prefix + name for name in private}


def shallow_size(value: object) -> int:
    """Bytes of the object's own block as the allocator sees it, not counting what it refers to."""
    size = object.__sizeof__(value)
    # CPython 3.11 counts a generator's frame from a field that holds something else.
    return size if 0 <= size < _IMPOSSIBLE else 0


_IMPOSSIBLE = 1 << 44


# It gives the attributes of a `SimpleNamespace`, as the slot of other classes does, and cannot be set.
DICT_OF_NAMESPACES: object = class_dict(SimpleNamespace)["__dict__"]


class _Sample:
    pass


_dict_slot_type = id(type(class_dict(_Sample)["__dict__"]))


def is_dict_slot(found: object) -> bool:
    return id(type(found)) == _dict_slot_type


# Since Python 3.13 an ordinary object keeps its attributes in itself. Its attribute dict, once somebody asked for it, looks
# at them there: the collector goes from the object to the attributes, neither to the dict nor on from it.
_INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0  # Py_TPFLAGS_INLINE_VALUES


def referents(values: Iterable[Any]) -> list[Any]:
    """What these objects refer to, attribute dicts included."""
    values = list(values)
    below = gc.get_referents(*values)
    if not _INLINE_VALUES:
        return below
    types = list(ids_of(map(type, values)))
    inline = {item for item, kind in dict(zip(types, map(type, values), strict=True)).items() if _shows_inline(kind)}
    attributes = list(
        map(object.__getattribute__, compress(values, map(inline.__contains__, types)), repeat("__dict__"))
    )
    known = set(ids_of(attributes))  # what is in these was told with the object
    looking = [one for one in _find_untracked(values) if id(one) not in known]
    return [*below, *attributes, *chain.from_iterable(map(_values_of, looking))]


_values_of: Any = dict[str, object].values


def collector_tells_all(kind: type) -> bool:
    """Whether `gc.get_referents` alone gives what `referents` gives for each object of this class."""
    return not _INLINE_VALUES or id(kind) in _WITHOUT_DICT_IDS


_WITHOUT_DICT: tuple[type, ...] = (list, tuple, set, frozenset, CellType)
_WITHOUT_DICT_IDS = frozenset(map(id, _WITHOUT_DICT))


def that_lead_on(containers: list[Any]) -> list[Any]:
    """Without those that hold nothing but texts and numbers: most dicts and tuples, which the collector does not track."""
    tracked = list(compress(containers, map(gc.is_tracked, containers)))
    if not _INLINE_VALUES or len(tracked) == len(containers):
        return tracked
    # It tracks no attribute dict because of what the object was given since.
    return tracked + _find_untracked([one for one in containers if not gc.is_tracked(one)])


def _find_untracked(values: list[Any]) -> list[dict[Any, Any]]:
    """The dicts among these that hold something, though the collector finds nothing in them."""
    dicts: list[dict[Any, Any]] = list(compress(values, map(id(dict).__eq__, ids_of(map(type, values)))))
    return list(filter(None, compress(dicts, map(not_, map(gc.get_referents, dicts)))))


def _shows_inline(kind: type) -> bool:
    """Whether an object of this class has its attributes in itself, and no code of a class answers to `__dict__`."""
    if not flags_of(kind) & _INLINE_VALUES:
        return False
    known = _inline_types.get(id(kind))
    if known is None or known[0]() is not kind:
        named = (entry(class_dict(base), "__dict__") for base in bases_of(kind))
        known = weakref.ref(kind), is_dict_slot(next((found for found in named if found is not None), None))
        if len(_inline_types) >= _MOST_INLINE_TYPES:
            _inline_types.clear()
        _inline_types[id(kind)] = known
    return known[1]


_inline_types: dict[int, tuple[weakref.ref[type], bool]] = {}
_MOST_INLINE_TYPES = 10_000


# -- find what belongs to a type by the type's identity, also for libraries that may never be imported
#
# A library's type is asked for only when a value of that name turns up, and is accepted only if it is the very object
# that the loaded library holds: a class that calls itself `pandas.DataFrame` is not one.

Found = TypeVar("Found")


class TypeCache(Generic[Found]):
    """What was found out about types, for as long as each type lives: one of the notebook dies when its last user does.

    Attributes:
        by_id: by the id of the type, whose hash may be its metaclass's code.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Found] = {}
        self._alive: dict[int, weakref.ref[type]] = {}

    def get(self, kind: type) -> Found | None:
        """What is kept of this type."""
        return self.by_id.get(id(kind))

    def keep(self, kind: type, found: Found) -> Found:
        """Remember it, and give it back. It must not refer to the type."""
        key = id(kind)
        self._alive[key] = weakref.ref(kind, lambda _: self._drop(key))
        self.by_id[key] = found
        return found

    def forget(self, kind: type) -> None:
        """Let it be found out again."""
        self._drop(id(kind))

    def _drop(self, key: int) -> None:
        self._alive.pop(key, None)
        self.by_id.pop(key, None)


class ExactTypes(Generic[Found]):
    """A table from types to what belongs to them, which never hashes or compares a type.

    Args:
        builtin: types at hand, with what belongs to them.
        libraries: `"module:Name"`, where module is the one that offers the name (`scipy.sparse:csr_matrix`).
    """

    def __init__(
        self, builtin: Iterable[tuple[type, Found]] = (), libraries: Mapping[str, Found] | None = None
    ) -> None:
        # The type is kept beside its id: an id may be given to another object once its owner is gone.
        self._known: dict[int, tuple[type, Found | None]] = {id(kind): (kind, found) for kind, found in builtin}
        self._libraries: dict[tuple[str, str], list[tuple[str, Found]]] = {}
        for place, found in (libraries or {}).items():
            module, name = place.split(":")
            self._libraries.setdefault((module.split(".")[0], name), []).append((module, found))

    def find(self, kind: type) -> Found | None:
        """What belongs to exactly this type, not to its bases."""
        known = self._known.get(id(kind))
        return known[1] if known is not None else self._from_library(kind)

    def of(self, value: object) -> Found | None:
        """What belongs to exactly the type of this value."""
        kind = type(value)
        known = self._known.get(id(kind))
        return known[1] if known is not None else self._from_library(kind)

    def _from_library(self, kind: type) -> Found | None:
        name = qualified_name(kind)
        package = module_name(kind).split(".")[0]
        if package == "builtins" and not kind.__flags__ & _HEAP_TYPE:
            self._known[id(kind)] = (kind, None)  # no library will ever offer it
        for module, found in self._libraries.get((package, name), ()):
            if find_loaded(module, name) is kind:
                self._known[id(kind)] = (kind, found)
                return found
        return None


# -- where many objects lie, at once: what `id` says of each of them, in a third of the time
#
# CPython keeps the addresses of a tuple's items side by side behind its header, and those of a dict's keys and values in
# one table. Copied out as bytes they can be compared in one step, where a list of ids makes a number of each first. A
# namespace is looked at twice in every cell, so this is most of what ten thousand names cost that stayed as they were.

T = TypeVar("T")

ADDRESS_BYTES = tuple.__itemsize__
ROW_BYTES = 2 * ADDRESS_BYTES
_HEADER = tuple.__basicsize__
_value = attrgetter("value")
# Not `ctypes.string_at`: it tells audit hooks, and where one is written in Python, as that of agents is, threads take turns there.
copy_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
# Functions of CPython are looked up here, at the import. The gate stops a look-up of C code while a step of an agent runs.
allocate = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)(
    ("PyType_GenericAlloc", ctypes.pythonapi)
)
address_of_bytes = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))
add_reference = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
drop_reference = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))
_MANY = 32  # objects, from which it pays
# One number, text or None: by id, for hashing a type runs its metaclass.
ATOM_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def addresses(values: Iterable[object]) -> bytes:
    """The addresses of the objects, one after the other. An address is used again when its object is gone."""
    items = tuple(values)
    found: bytes = copy_memory(id(items) + _HEADER, len(items) * ADDRESS_BYTES)
    return found


def ids_of(values: Iterable[object]) -> Iterable[int]:
    """What `id` says of each object, for one loop. Unlike many calls of `id`, it costs nothing more once a step has run.

    Each call is an event for the audit hooks of the process, of which agents have one: that takes five times as long.
    """
    items = tuple(values)
    if len(items) < _MANY:
        return map(id, items)
    return memoryview(copy_memory(id(items) + _HEADER, len(items) * ADDRESS_BYTES)).cast("P")


def types_of(values: Iterable[object]) -> Collection[type]:
    """The types of these objects, each once: by id, for hashing a type runs its metaclass."""
    kinds = list(map(type, values))
    return dict(zip(ids_of(kinds), kinds, strict=True)).values()


def of_types(values: Sequence[T], kinds: AbstractSet[int]) -> list[T]:
    """The objects whose type has one of these ids. numpy, where it is loaded, tells of thousands in a third of the time."""
    types = map(type, values)
    frombuffer: Any = find_loaded("numpy", "frombuffer") if len(values) >= _MANY_TYPES else None
    if frombuffer is None:
        return list(compress(values, map(kinds.__contains__, ids_of(types))))
    of = frombuffer(addresses(types), "P")
    first, *others = kinds
    found = of == first
    for kind in others:
        found |= of == kind
    return list(compress(values, found.tobytes()))


_MANY_TYPES = 500


def ids_of_types(values: Sequence[object]) -> set[int]:
    """The ids of the types of these objects. A million objects have few types mostly, and numpy finds one after the other."""
    return distinct_ids(addresses(map(type, values)))


def distinct_ids(found: bytes) -> set[int]:
    """The distinct ones of these addresses."""
    frombuffer: Any = find_loaded("numpy", "frombuffer") if len(found) >= _MANY_TYPES * ADDRESS_BYTES else None
    if frombuffer is None:
        return set(ids_in(found))
    rest = frombuffer(found, "P")
    ids: set[int] = set()
    while len(rest) and len(ids) < _FEW_TYPES:
        first = int(rest[0])
        ids.add(first)
        rest = rest[rest != first]
    return ids.union(rest.tolist())


_FEW_TYPES = 8


# The memo of a C pickler is a table of addresses and places: first in the pickler lies where it is, and there its mask, how many
# entries it has, room for how many, and where these are. `Pickler.memo` makes a dict of it, in fifty times as long.
_MEMO = struct.Struct("nnnP")
_view_memory: Callable[[int, int, int], memoryview[int]] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
)(("PyMemoryView_FromMemory", ctypes.pythonapi))
_READ_ONLY = 0x100


def count_memo(pickler: pickle.Pickler) -> int:
    """How many objects the memo of a pickler holds."""
    return _look_at_memo(pickler)[1] if _knows_memo() else len(pickler.memo.copy())


def sum_memo(pickler: pickle.Pickler) -> int:
    """The sum of the addresses of all that the memo of a pickler holds, without what goes beyond 64 bits."""
    return sum(_view_of_memo(pickler).cast("P")[::2] if _knows_memo() else pickler.memo.copy()) & _LARGEST


def digest_memo(pickler: pickle.Pickler) -> bytes:
    """Covers what the memo of a pickler holds, and in which order it came; equal only where it was made alike as well."""
    if not _knows_memo():
        return xxh3_128_digest(array("Q", pickler.memo.copy()))
    return xxh3_128_digest(_view_of_memo(pickler))


def _view_of_memo(pickler: pickle.Pickler) -> memoryview[int]:
    _, _, room, where = _look_at_memo(pickler)
    return _view_memory(where, room * ROW_BYTES, _READ_ONLY)


_LARGEST = (1 << 64) - 1


def _look_at_memo(pickler: pickle.Pickler) -> tuple[int, int, int, int]:
    (table,) = struct.unpack("P", copy_memory(id(pickler) + object.__basicsize__, ADDRESS_BYTES))
    return _MEMO.unpack(copy_memory(table, _MEMO.size))


@functools.cache
def _knows_memo() -> bool:
    """Whether this is a CPython whose memos were looked at, and one that is filled here reads as it should."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info < (3, 15):
        return False
    pickler = pickle.Pickler(io.BytesIO())
    pickler.dump([[str(number)] for number in range(_MEMO_TRIED)])
    mask, count, room, _ = _look_at_memo(pickler)
    return (mask, count) == (room - 1, len(pickler.memo.copy()))


_MEMO_TRIED = 20


def ids_in(found: bytes) -> memoryview[int]:
    """The addresses as numbers: each object's `id`."""
    return memoryview(found).cast("P")


def is_among(item: int, found: bytes) -> bool:
    """Whether an id is one of these addresses. To make a number of each of a million takes a hundred times as long."""
    sought = item.to_bytes(ADDRESS_BYTES, sys.byteorder)
    place = found.find(sought)
    while place >= 0 and place % ADDRESS_BYTES:  # the end of one and the beginning of the next may look like it
        place = found.find(sought, place + 1)
    return place >= 0


class Rows:
    """Reads the addresses of each name of a namespace and of its value, in order. A row of zeros: a name was deleted there."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.namespace = namespace
        self._look: Iterator[tuple[bytes, bytes, int | None]] | None = None

    def read(self) -> bytes:
        """The rows as of one moment."""
        if type(self.namespace) is dict and _knows_tables():
            found = self._table()
            if found is not None:
                return found
        return addresses(chain.from_iterable(list(self.namespace.items())))

    def _table(self) -> bytes | None:
        """The rows in their table; None where they are kept in another form."""
        look, self._look = self._look or _tables_of(self.namespace), None
        rows, header, separate = _at_once(look)
        self._look = look  # unless it was left half way, for want of memory
        return None if separate or header[_KIND] != _OF_TEXTS else rows


# Where CPython, 3.11 to 3.14, keeps the table of a dict, and what of it: the header of the keys is followed by an index
# and then by the rows.
_KEYS_AT, _VALUES_AT, _DICT_BYTES, _OBJECT_BYTES = 32, 40, 48, 16
_KEYS_BYTES, _INDEX_SIZE, _KIND, _COUNT = 32, 9, 10, 24
_OF_TEXTS = 1  # the kind of a table with nothing but texts as keys

_index_size: Callable[[bytes], int] = itemgetter(_INDEX_SIZE)
_count: Callable[[bytes], bytes] = itemgetter(slice(_COUNT, _KEYS_BYTES))
_number_in: Callable[[bytes, str], int] = cast("Callable[[bytes, str], int]", int.from_bytes)


def _tables_of(own: dict[str, object]) -> Iterator[tuple[bytes, bytes, int | None]]:
    """The table of a dict, the header before it, and where its values are if that is elsewhere: each as it is now.

    Not of a copy, which no thread could alter: to copy ten thousand names goes to each of them, wherever it lies.
    """
    places, places_again = tee(_numbers_at(id(own) + _KEYS_AT))
    headers, for_counts, for_sizes = tee(_memory_at(places, repeat(_KEYS_BYTES)), 3)
    starts = map(add, places_again, map(_BEHIND_INDEX.__getitem__, map(_index_size, for_sizes)))
    counts: Iterator[int] = map(_number_in, map(_count, for_counts), repeat(sys.byteorder))
    rows = _memory_at(starts, map(mul, counts, repeat(ROW_BYTES)))
    return zip(rows, headers, _numbers_at(id(own) + _VALUES_AT), strict=False)


def _memory_at(places: Iterable[int], sizes: Iterable[int]) -> Iterator[bytes]:
    return map(copy_memory, places, sizes)


# By the binary logarithm of the index's size: where the rows begin.
_BEHIND_INDEX = [_KEYS_BYTES + (1 << size) for size in range(64)]


def _numbers_at(place: int) -> Iterator[Any]:
    """What stands at an address now, again and again; None for zero."""
    return map(_value, repeat(ctypes.c_void_p.from_address(place)))


def _at_once(look: Iterator[T]) -> T:
    """The first of what iterators in C give. Nothing else runs meanwhile that could move what they look at.

    That is: no bytecode, between which threads take turns, and no collection of garbage.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return next(look)
    finally:
        if collects:
            gc.enable()


@functools.cache
def _knows_tables() -> bool:
    """Whether this Python keeps dicts as we know it: tried on some, after what would make the trial itself dangerous."""
    same = (dict.__basicsize__, object.__basicsize__, ADDRESS_BYTES) == (_DICT_BYTES, _OBJECT_BYTES, 8)
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or not same:
        return False
    for size in (1, 5, 300):
        some: dict[str, object] = {f"name {number}": [number] for number in range(size)}
        tables = _tables_of(some)
        if next(tables)[0] != addresses(chain.from_iterable(list(some.items()))):
            return False
        del some["name 0"]
        if next(tables)[0] != bytes(ROW_BYTES) + addresses(chain.from_iterable(list(some.items()))):
            return False
    return True


def visit_set_table(own: set[object], visit: Callable[[bytes], object]) -> bool:
    """Give a function in C the table in which a set keeps its items, piece by piece; False where this Python is not known.

    To read the items takes five times as long: that goes to each of them, wherever it lies, to count one more reference.
    A copy of a whole table takes twice as long: it is in no cache of the processor when it is read.
    """
    if not _knows_sets():
        return False
    masks: ctypes.c_ssize_t = ctypes.c_ssize_t.from_address(id(own) + _MASK_AT)
    pieces = range(0, (masks.value + 1) * ROW_BYTES, _PIECE_BYTES)
    # Where the table is, and how long, is looked up for each piece right before it is copied: should `visit` let threads
    # take turns, a table that was moved meanwhile is read where it is now, and one that shrank no further than it goes.
    now = map(mul, map(add, map(_value, repeat(masks)), repeat(1)), repeat(ROW_BYTES))
    sizes = map(max, repeat(0), map(min, repeat(_PIECE_BYTES), map(sub, now, pieces)))
    places = map(add, _numbers_at(id(own) + _ROWS_AT), pieces)
    visited: list[Iterator[object]] = [map(visit, _memory_at(places, sizes))]
    _at_once(map(deque[object], visited, repeat(0)))
    return True


_PIECE_BYTES = 1 << 16  # it stays in the processor's cache until it is visited


# What the collector does with a tuple once it found nothing in it that leads on: with millions of items to find that takes long.
untrack = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyObject_GC_UnTrack", ctypes.pythonapi))


def set_table_and_items(own: set[object]) -> tuple[bytes, tuple[object, ...]]:
    """The table, or nothing where this Python is not known, and the items, as of one moment."""
    return _table_of_set(own, map(tuple, repeat(own))) if _knows_sets() else (b"", tuple(own))


# Where CPython, 3.11 to 3.14, keeps the number of rows of a set's table less one, and its address.
_MASK_AT, _ROWS_AT, _SET_BYTES = 32, 40, 200
_DELETED = (1 << 64) - 1  # the hash in the row of an item that was deleted


def _table_of_set(own: set[object], others: Iterator[T]) -> tuple[bytes, T]:
    """The table, and what comes from an iterator."""
    masks: Iterator[int] = map(_value, repeat(ctypes.c_ssize_t.from_address(id(own) + _MASK_AT)))
    sizes = map(mul, map(add, masks, repeat(1)), repeat(ROW_BYTES))
    tables = _memory_at(_numbers_at(id(own) + _ROWS_AT), sizes)
    return _at_once(zip(tables, others, strict=False))


@functools.cache
def _knows_sets() -> bool:
    """Whether this Python keeps sets as we know it: tried on some, after what would make the trial itself dangerous."""
    same = (set.__basicsize__, object.__basicsize__, ADDRESS_BYTES) == (_SET_BYTES, _OBJECT_BYTES, 8)
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or not same:
        return False
    for size in (1, 5, 300, 5_000):
        some: set[object] = {f"item {number}" for number in range(size)}
        some.discard("item 3")
        table, items = _table_of_set(some, map(tuple, repeat(some)))
        rows = ids_in(table)
        entries = [
            (place, mark) for place, mark in zip(rows[::2], rows[1::2], strict=True) if place and mark != _DELETED
        ]
        if entries != [(id(item), hash(item) % (_DELETED + 1)) for item in items]:
            return False
    return True


class Versions:
    """Tells whether classes are as they were: CPython gives each a number, and another one once the class has changed.

    The number stands in the class itself. To read what a class holds takes a hundred times as long.
    """

    def __init__(self, kinds: Iterable[type] = ()) -> None:
        self.kinds = tuple(kinds)
        self._tags: list[Any] = []
        if _knows_versions():
            self._tags = [ctypes.c_uint.from_address(id(kind) + _VERSION_AT) for kind in self.kinds]
            for kind in self.kinds:
                _have_numbered(kind)
        self._seen = self._read()

    def _read(self) -> list[int]:
        return list(map(_value, self._tags))

    def are_same(self) -> bool:
        """Whether no class has changed since this was made. False where nothing tells."""
        return bool(self._seen) and 0 not in self._seen and self._seen == self._read()

    def take_changed(self) -> list[type]:
        """Return the classes that have changed, and compare with them as they are now from here on. All where nothing tells."""
        now = self._read()
        if not now:
            return list(self.kinds)
        changed = [place for place, tag in enumerate(now) if not tag or tag != self._seen[place]]
        for place in changed:
            _have_numbered(self.kinds[place])
            self._seen[place] = self._tags[place].value  # before anyone looks: what changes meanwhile has changed again
        return [self.kinds[place] for place in changed]


_VERSION_AT = 384  # where CPython, 3.11 to 3.14, keeps the number of a class; 0 is none


def _have_numbered(kind: type) -> None:
    """Look for an attribute: a class gets its number with the first such look."""
    with contextlib.suppress(AttributeError):
        type.__getattribute__(kind, "_no attribute of any class_")


@functools.cache
def _knows_versions() -> bool:
    """Whether this Python numbers its classes as we know it: tried on one and on its base."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 14) or ADDRESS_BYTES != 8:
        return False
    base = type("Base", (), {})
    kind = type("Derived", (base,), {})
    seen = [0]
    for changed, value in ((kind, 1), (kind, 2), (base, 3)):
        type.__setattr__(changed, "some", value)
        for one in (base, kind):
            _have_numbered(one)
        seen.append(ctypes.c_uint.from_address(id(kind) + _VERSION_AT).value)
    return len(set(seen)) == len(seen)


def differences(before: bytes, now: bytes) -> list[int]:
    """Places at which two long rows of addresses differ. Most do at a few, so they are compared a stretch at a time."""
    found: list[int] = []
    for start in _find_differences(before, now, range(0, max(len(before), len(now)), _LONG_STRETCH)):
        for begin in _find_differences(before, now, range(start, start + _LONG_STRETCH, _STRETCH)):
            old, new = before[begin : begin + _STRETCH], now[begin : begin + _STRETCH]
            bits = int.from_bytes(old, "little") ^ int.from_bytes(new, "little")
            place = begin // ADDRESS_BYTES
            while bits:
                skipped = ((bits & -bits).bit_length() - 1) // _ADDRESS_BITS
                found.append(place + skipped)
                bits >>= (skipped + 1) * _ADDRESS_BITS
                place += skipped + 1
    return found


def _find_differences(before: bytes, now: bytes, starts: range) -> list[int]:
    """Where the stretches that differ begin."""
    size = starts.step
    if len(before) == len(now):  # of one of them no part has to be copied
        return [start for start in starts if not now.startswith(before[start : start + size], start)]
    return [start for start in starts if before[start : start + size] != now[start : start + size]]


_STRETCH, _LONG_STRETCH = 128 * ADDRESS_BYTES, 4096 * ADDRESS_BYTES
_ADDRESS_BITS = 8 * ADDRESS_BYTES


# -- figures: each artist of one leads to all of it, so that names which hold artists share the figure


def root_of(artist: object) -> object | None:
    """The figure that an artist leads to, by the attributes that it is saved with; None for anything else."""
    found: Any = artist
    if not issubclass(type(found), loaded_class("matplotlib.artist", "Artist")):
        return None
    for _ in range(_MOST_NESTED):
        figure = figure_of(found)
        if figure is found:
            break
        found = figure
    return found if issubclass(type(found), loaded_class("matplotlib.figure", "Figure")) else None


def figure_of(artist: object) -> object:
    """The figure that an artist names, which may be within another one; the artist if it names none."""
    attributes = object.__getattribute__(artist, "__dict__")
    for name in ("_root_figure", "_parent_figure", "figure"):
        above: object = attributes.get(name)
        if above is not None:
            return above
    return artist


_MOST_NESTED = 20  # figures within figures


def root_below(values: Iterable[object]) -> object | None:
    """The figure of the first artist among the values, and what the first of them hold."""
    if "matplotlib.artist" not in sys.modules:
        return None
    todo = deque(islice(values, _MOST_LOOKS))
    for _ in range(_MOST_LOOKS):
        if not todo:
            break
        value: Any = todo.popleft()
        root = root_of(value)
        if root is not None:
            return root
        todo.extend(islice(_items_below(value), _MOST_LOOKS))
    return None


_MOST_LOOKS = 30


def _items_below(value: Any) -> Iterable[object]:
    kind = cast("Any", type(value))
    if kind is dict:
        return list(islice(value.values(), _MOST_LOOKS))
    if issubclass(kind, (list, tuple)):
        base: Any = list if issubclass(kind, list) else tuple
        return islice(base.__iter__(value), _MOST_LOOKS)
    if kind is find_loaded("numpy", "ndarray"):
        return value.flat if value.dtype.hasobject else ()
    if id(kind) in _SHUT_IDS or issubclass(kind, (type, ModuleType)):
        return ()
    return list(islice(instance_dict(value).values(), _MOST_LOOKS))


# By id: hashing a type runs its metaclass.
_SHUT_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), FunctionType, BuiltinFunctionType)))
