"""Read what CPython itself knows about an object, so that no class can answer in its place.

`type(v)` cannot lie, and the descriptors in `type.__dict__` read a class without asking its metaclass. Anything
looked up by name on a foreign object (`__class__`, `__dict__`, `__len__`, a property) may be the user's code, and so
may hashing or comparing a class, whose metaclass can define both: classes are told apart by identity alone.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress, islice, repeat
from operator import not_
from types import MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar, cast

from agent_kernel.text import clean, shorten
from agent_kernel.values.addresses import ids_of

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
        if is_dict_slot(slot) and base is not type:
            found: dict[str, object] = slot.__get__(value)
            return found
    return {}


def shallow_size(value: object) -> int:
    """Bytes of the object's own block as the allocator sees it, not counting what it refers to."""
    size = object.__sizeof__(value)
    # CPython 3.11 counts a generator's frame from a field that holds something else.
    return size if 0 <= size < _IMPOSSIBLE else 0


_IMPOSSIBLE = 1 << 44


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
    return [*below, *attributes, *chain.from_iterable(one.values() for one in looking)]


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
