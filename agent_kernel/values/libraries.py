"""What belongs to a library and not to the values that use it; and whether code gets at nothing but data from a table.

Two figures share matplotlib's marker paths and identity matrix. Saved apart, each gets its own copy, and nothing that a
person does can tell; saved as one value, a change of one would store both. Only installed packages count: a module that
lies beside the notebook may well hold the person's own state.
"""

# Any library's objects are looked at here, so nothing is known of their types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import datetime
import decimal
import functools
import gc
import pickle
import sys
import weakref
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any, cast

import msgspec
from xxhash import xxh3_128

from agent_kernel.values import atoms
from agent_kernel.values.aliases import MemoryUse
from agent_kernel.values.introspection import (
    TypeCache,
    Versions,
    addresses,
    class_dict,
    derives_from,
    find_loaded,
    ids_of,
    instance_dict,
    module_dict,
    module_name,
    of_types,
    qualified_name,
    types_of,
)
from agent_kernel.values.references import is_library

_PLAIN = frozenset(map(id, (list, dict, set)))


class _PackageHoldings(msgspec.Struct):
    """What the modules of one package hold. The objects are kept, so that no other can come to have their ids."""

    modules: list[str] = msgspec.field(default_factory=list[str])
    ids: set[int] = msgspec.field(default_factory=set[int])
    values: list[object] = msgspec.field(default_factory=list[object])
    settings: list[dict[object, object]] = msgspec.field(default_factory=list[dict[object, object]])
    classes: list[Versions] = msgspec.field(default_factory=list[Versions])

    def take(self, values: list[Any], holdings: _Holdings) -> None:
        """Note what was found."""
        # An object keeps its attribute dict: held twice, it would look shared.
        self.values += (value for value in values if id(value) not in holdings.attributes)
        self.ids.update(ids_of(values))
        self.settings += (value for value in values if holdings.is_settings(value))


_by_package: dict[str, _PackageHoldings] = {}


def library_constants(packages: Iterable[str], among: set[int]) -> set[int]:
    """Those of the ids that are of what the loaded modules of these packages hold."""
    found: set[int] = set()
    for package in packages:
        look_into(package)
        _look_again(package)
        found |= among & _by_package[package].ids
    return found


def find_in_settings(packages: Iterable[str], among: set[int]) -> set[int]:
    """Those of the ids that are of what stands in the settings of these packages now, whoever made it."""
    found: set[int] = set()
    for package in packages:
        look_into(package)
        entries = chain.from_iterable(map(dict[Any, Any].values, _by_package[package].settings))
        found |= among.intersection(ids_of(of_types(list(entries), _PLAIN)))
    return found


def look_into(package: str) -> bool:
    """Note what the modules of a package hold. A module is looked into once; returns whether there was a new one."""
    known = _by_package.setdefault(package, _PackageHoldings())
    new = modules_of(package)[len(known.modules) :]
    if not new:
        return False
    holdings = _Holdings(package, known.ids)
    for name in new:
        known.modules.append(name)
        module = sys.modules.get(name)
        if module is not None and _is_installed(module):
            known.take(list(holdings.of(module)), holdings)
    known.classes.append(Versions(holdings.classes))
    return True


def _look_again(package: str) -> None:
    """Note also what its classes have come to hold, as that of matplotlib's paths holds a circle once it has drawn one.

    Only objects of its own types, and what hangs on them: anything else that came later may be the person's.
    """
    known = _by_package[package]
    holdings = _Holdings(package, known.ids)
    for classes in known.classes:
        for kind in classes.take_changed():
            known.take(list(holdings.find_own(kind)), holdings)


def modules_of(package: str) -> list[str]:
    """The names of all modules of a package that were ever met, in the order of their import. Each is parted once."""
    last = next(reversed(sys.modules), "")
    if _parted.last != (len(sys.modules), last):
        for name in [name for name in list(sys.modules) if name not in _parted.names]:
            _parted.names.add(name)
            _parted.by_package.setdefault(name.partition(".")[0], []).append(name)
        _parted.last = len(sys.modules), last
    return _parted.by_package.get(package, [])


class _Parted:
    """The names of modules by package, and the number and the last of the modules as of then."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.by_package: dict[str, list[str]] = {}
        self.last: tuple[int, str] = (0, "")


_parted = _Parted()


def packages_of(values: Iterable[object]) -> set[str]:
    """The libraries whose objects these are."""
    return {module_name(kind).partition(".")[0] for kind in types_of(values)} - {"", "builtins", "__main__"}


def _is_installed(module: object) -> bool:
    if not issubclass(type(module), ModuleType):  # anything may stand among the modules
        return False
    place = module_dict(module).get("__file__")
    return isinstance(place, str) and ("site-packages" in place or "dist-packages" in place)


class _Holdings:
    """Looks into the modules of one package. Most of what it meets are functions: a look at the type says all of them.

    Modules import from one another, so the same object is met many times: what is in `known` was looked into.
    """

    def __init__(self, package: str, known: set[int]) -> None:
        self._package = package
        self._known = known
        self._data = _PLAIN | {id(find_loaded("numpy", "ndarray"))}
        self._other: set[int] = set()  # types of which nothing is held
        self._own: dict[int, bool] = {}  # the package's types, and whether things may hang on their objects
        self.attributes: set[int] = set()  # ids of attribute dicts that were met
        self.classes: list[type] = []  # of the package that were met

    def of(self, module: ModuleType) -> Iterator[object]:
        """What the module and its classes hold."""
        values = list(module_dict(module).values())
        yield from self._find_values(values)
        for value in values:
            # An abstract class, say, has another metaclass than `type`; none of its code runs here.
            kind: Any = value
            if id(value) in self._known or not derives_from(type(value), type):
                continue
            if module_name(kind).partition(".")[0] == self._package:
                self._known.add(id(value))
                self.classes.append(kind)
                yield value  # to be kept
                yield from self._find_values(list(class_dict(kind).values()))

    def find_own(self, kind: type) -> Iterator[object]:
        """What a class holds of the package's own types, less what is known."""
        yield from self._find_values([value for value in class_dict(kind).values() if self._is_own(type(value))])

    def _find_values(self, values: list[Any]) -> Iterator[object]:
        """Those of the values that are held, and what hangs on them directly."""
        kinds = list(ids_of(map(type, values)))
        if self._other.issuperset(kinds):
            return
        for value in compress(values, map(self._other.isdisjoint, zip(kinds))):
            kind = type(value)
            if id(kind) in self._other or id(value) in self._known:
                continue
            if id(kind) in self._data:
                yield value
            elif self._is_own(kind):
                self._known.add(id(value))
                yield value
                if self._own[id(kind)]:
                    yield from self._parts(value)

    def _is_own(self, kind: type) -> bool:
        if id(kind) not in self._own:
            if kind is type or module_name(kind).partition(".")[0] != self._package:
                self._other.add(id(kind))
                return False
            self._own[id(kind)] = bool(kind.__dictoffset__) or derives_from(kind, dict)
        return True

    def is_settings(self, value: object) -> bool:
        """Whether this is a dict of one of the package's own types, such as `matplotlib.rcParams`."""
        return self._own.get(id(type(value)), False) and derives_from(type(value), dict)

    def _parts(self, value: Any) -> Iterator[object]:
        """What hangs on one of the package's own objects: not deeper, where the person's own objects may be.

        Nothing of its own runs: merely asking one of torch's deprecated names for its attributes makes it warn.
        """
        attributes = instance_dict(value)
        if attributes:
            self.attributes.add(id(attributes))
            yield attributes
            yield from filter(self._is_data, list(attributes.values()))
        if derives_from(type(value), dict):
            entries: dict[object, object] = value
            yield from filter(self._is_data, list(dict[object, object].values(entries)))

    def _is_data(self, value: object) -> bool:
        return id(type(value)) in self._data


# -- tell of a table or an array whether code gets at nothing but data from it, and whether all of that is as it was
#
# A dump follows what is saved of a value. Code follows each reference: from a view to the array that it is a part of, from
# an index to what that keeps, from an object to what it does not save. So here every reference is followed that the
# interpreter knows of, and anything that is neither data nor a part of a table says that there is more to it. Where there
# is not, the libraries run their own code alone, and the digest is what it was, then code that had nothing but this value
# changed nothing.
#
# First: whether the libraries of tables and arrays run nothing but code of their own
#
# A method that a notebook gave to all tables runs wherever a cell has a table, and may use any variable. So does the code of
# an accessor that was registered, of a function that shows numbers, and of one that is called where a number overflows.

_MOST = 200_000  # objects in the classes of a library
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}
_COMPILED = frozenset({"cython_function_or_method", "fused_cython_function"})
_DATA = (str, bytes, int, float, bool, NoneType, ModuleType, CodeType)
_NAMED_TUPLE = "namedtuple_"  # where `collections` makes the code of one
_TEMPLATES = "jinja2"  # they are code that was made at run time


class _LastLook(msgspec.Struct):
    """What was found in classes and settings the last time. It is kept alive, so that addresses stay its own."""

    count: int = 0  # of modules
    classes: Versions = msgspec.field(default_factory=Versions)
    settings: tuple[dict[Any, Any], ...] = ()
    setting_values: tuple[Any, ...] = ()
    ids: frozenset[int] = frozenset()
    values: tuple[Any, ...] = ()
    is_own: bool = True


_last = [_LastLook()]


def run_only_their_own() -> bool:
    """Whether pandas and numpy hold no code of anyone else's. Quick where they hold what they held the last time."""
    last, count = _last[0], len(modules_of("pandas"))
    if (
        last.count != count
        or not last.classes.are_same()
        or addresses(last.setting_values) != addresses(_find_settings(last.settings))
    ):
        last = _last[0] = _look(count, last)
    return last.is_own


def _look(count: int, last: _LastLook) -> _LastLook:
    """Look at all that the classes and the settings hold, less what was found to be their own."""
    kinds, settings = _classes("pandas", count), tuple(_settings())
    classes, setting_values = (
        Versions(kinds),
        tuple(_find_settings(settings)),
    )  # noted first: a change while we look is another the next time
    values = (*chain.from_iterable(class_dict(kind).values() for kind in kinds), *setting_values)
    known = last.ids if last.is_own else frozenset[int]()
    is_own = _is_own(value for value in values if id(value) not in known)
    return _LastLook(count, classes, settings, setting_values, frozenset(map(id, values)), values, is_own)


def _find_settings(settings: Iterable[dict[Any, Any]]) -> Iterator[Any]:
    """What stands in the settings of pandas, a dict within them too, and what numpy was told to call."""
    yield from chain.from_iterable(map(dict[Any, Any].values, settings))
    yield from _find_numpy_callbacks()


def _find_numpy_callbacks() -> Iterator[Any]:
    """What is called where a number overflows, and what shows numbers."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield numpy.geterrcall()
        yield from (numpy.get_printoptions()["formatter"] or {}).values()


def _settings() -> Iterator[dict[Any, Any]]:
    """The dicts of what pandas was told to use: some of it is called when a table is shown."""
    waiting: list[Any] = [vars(sys.modules.get("pandas._config.config", _NONE)).get("_global_config")]
    while waiting:
        setting = waiting.pop()
        if type(setting) is dict:
            yield setting
            waiting += setting.values()


_NONE = ModuleType("none")


@functools.lru_cache(maxsize=4)
def _classes(package: str, _: int) -> tuple[type, ...]:
    """The classes in the modules of the package, as of when so many of its modules were loaded."""
    modules: list[Any] = [sys.modules.get(name) for name in modules_of(package)]
    found = (module_dict(module).values() for module in modules if isinstance(module, ModuleType))
    classes = {id(value): cast("type", value) for value in chain.from_iterable(found) if issubclass(type(value), type)}
    return tuple(kind for kind in classes.values() if _top(module_name(kind)) == package)


def _top(module: object) -> str:
    return module.partition(".")[0] if type(module) is str else ""


@functools.lru_cache(maxsize=1_000)
def _is_library(top: str) -> bool:
    """As `references.is_library`, which looks at files."""
    return top in _STANDARD or is_library(top)


def _is_own(values: Iterable[Any]) -> bool:
    """Whether all code that is held here, however deep, is a library's."""
    waiting = list(values)
    seen: dict[int, object] = {}
    roles: dict[int, str] = {}  # of the values of a class, by its address
    owned: dict[int, bool] = {}  # whether a class or a module's variables are a library's, by address
    while waiting:
        value = waiting.pop()
        kind = type(value)
        role = roles.get(id(kind)) or roles.setdefault(id(kind), _role(kind))
        if role == "data" or id(value) in seen:
            continue
        seen[id(value)] = value
        if role == "function":
            home = value.__globals__
            below: Iterable[Any] = filter(
                None, (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
            )
        else:
            home = value.__globals__ if role == "compiled" else value if role == "class" else kind
            below = () if role in ("class", "template") else gc.get_referents(value)
        is_own = owned.get(id(home))
        if is_own is None:
            is_own = owned[id(home)] = _is_librarys(home)
        if not is_own or len(seen) > _MOST:
            return False
        waiting += below
    return True


def _role(kind: type) -> str:
    """What values of this class are to `_is_own`."""
    if any(kind is one for one in _DATA):
        return "data"
    if kind is FunctionType:
        return "function"
    if qualified_name(kind) in _COMPILED:
        return "compiled"
    if issubclass(kind, type):
        return "class"
    return "template" if _top(module_name(kind)) == _TEMPLATES else "object"


def _is_librarys(home: Any) -> bool:
    """Whether a class, or the module whose variables these are, is a library's."""
    if type(home) is dict:
        module = home.get("__name__")
        return _is_library(_top(module)) or str(module).startswith(_NAMED_TUPLE)
    return _is_library(_top(module_name(home))) or qualified_name(home) in _COMPILED


# Beyond these a look at the whole group is no dearer.
_MOST_OBJECTS = 20_000
_MOST_BYTES = 1 << 26
# By id: hashing a type runs its metaclass.
_ATOM_IDS = frozenset(
    map(id, (int, float, complex, bool, str, bytes, type(None), decimal.Decimal, datetime.date, datetime.timedelta))
)
_FOLLOWED_IDS = frozenset(map(id, (list, tuple, set, frozenset, slice)))
_LEAF_IDS = frozenset(map(id, (range, object, type(...), datetime.timezone)))
_MOMENTS = frozenset({"datetime.datetime", "pandas.Timestamp"})
# Who else looks at a block's memory; how to find a label quickly. Both come and go where a table is only read.
_NOTES = frozenset({"pandas._libs.internals.BlockValuesRefs"})
_ENGINES = ("pandas._libs.index", "pandas._libs.hashtable")
_ARROW = frozenset({"pyarrow.lib.ChunkedArray", "pyarrow.lib.Array", "pyarrow.lib.DataType"})


class _MoreThanDataError(Exception):
    """Something was met that may lead anywhere."""


_names: TypeCache[str] = TypeCache()


def _name_of(kind: type) -> str:
    """Where a library holds the type, by module and name; empty for any other type, whatever it calls itself."""
    found = _names.get(kind)
    if found is None:
        module, name = module_name(kind), qualified_name(kind)
        is_held = module != "__main__" and _find_object(module, name) is kind
        found = _names.keep(kind, f"{module}.{name}" if is_held else "")
    return found


def _find_object(module: str, name: str) -> object:
    """What stands there, without the code of anyone who would answer for it."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        if isinstance(found, ModuleType):
            found = module_dict(found).get(part)
        else:
            found = class_dict(cast("type", found)).get(part) if issubclass(type(found), type) else None
    return found


def is_table_or_array(value: object) -> bool:
    """Whether the value is of a type that `digest_of` looks into."""
    name = _name_of(type(value))
    return name == "numpy.ndarray" or name.startswith("pandas.")


def digest_of(value: object, uses: Iterable[MemoryUse]) -> bytes:
    """Covers all that code gets at from a table or an array; empty where that is not data alone, or too much to look at.

    Args:
        uses: memory whose content is known to be as it was, if the digest of a dump is.
    """
    if not run_only_their_own():
        return b""
    walk = _Walk({(use.low, use.high) for use in uses if use.space == "cpu" and _is_solid(use)})
    try:
        return walk.digest(value)
    except (_MoreThanDataError, RuntimeError):  # or another thread is at it
        return b""


def _is_solid(use: MemoryUse) -> bool:
    flags: Any = getattr(use.holder, "flags", None)
    return bool(getattr(flags, "forc", False)) and use.holder.nbytes == use.high - use.low  # type: ignore[attr-defined]


class _Walk:
    def __init__(self, known: set[tuple[int, int]]) -> None:
        self._known = known
        self._seen: dict[int, object] = {}  # alive, so that no address is met twice
        self._places = array("Q")
        self._atoms: list[object] = []
        self._hash = xxh3_128()
        self._remaining_bytes = _MOST_BYTES

    def digest(self, value: object) -> bytes:
        waiting: list[Any] = [value]
        while waiting:
            item = waiting.pop()
            if id(type(item)) in _ATOM_IDS:
                self._atoms.append(item)
                continue
            self._places.append(id(item))
            if id(item) in self._seen:
                continue
            self._seen[id(item)] = item
            below = self._below(item)
            if len(self._seen) + len(self._atoms) + len(below) > _MOST_OBJECTS:
                raise _MoreThanDataError
            self._places.append(len(below))
            waiting += below
        self._hash.update(self._places)
        self._hash.update(pickle.dumps(self._atoms, pickle.HIGHEST_PROTOCOL))
        return self._hash.digest()

    def _below(self, item: Any) -> list[Any]:
        kind = type(item)
        if kind is dict:
            return [*item.keys(), *item.values()]
        if id(kind) in _FOLLOWED_IDS:
            return gc.get_referents(item) if kind is slice else list(item)
        if id(kind) in _LEAF_IDS:
            return []
        if kind is weakref.ref:
            return self._referent(item)
        if issubclass(kind, type):
            self._expect(_name_of(item).startswith(("pandas.", "numpy.", "builtins.")))
            return []
        return self._in_library(item, _name_of(kind))

    def _expect(self, known: bool) -> None:
        if not known:
            raise _MoreThanDataError

    def _referent(self, item: weakref.ref[Any]) -> list[Any]:
        self._expect(item.__callback__ is None)
        return [item()]

    def _in_library(self, item: Any, name: str) -> list[Any]:
        if name == "numpy.ndarray":
            return self._below_array(item)
        if name in _MOMENTS:
            return [item.tzinfo]
        if name in _NOTES or name in _ARROW or name == "zoneinfo.ZoneInfo":
            return []
        if name.startswith("pandas."):
            return self._below_part(item)
        numpy: Any = sys.modules.get("numpy")
        self._expect(numpy is not None)
        if isinstance(item, numpy.dtype):
            self._expect(item.metadata is None and (item.fields is None or not item.hasobject))
        else:
            self._expect(name.startswith("numpy.") and isinstance(item, numpy.generic))
            self._expect(not isinstance(item, (numpy.void, numpy.object_)))
        return []

    def _below_part(self, item: Any) -> list[Any]:
        """What a part of a table holds. Its attributes first: from then on the interpreter holds them in one way."""
        kind = type(item)
        own = object.__getattribute__(item, "__dict__") if kind.__dictoffset__ else {}
        below: list[Any] = [held for held in gc.get_referents(item) if held is not own and held is not kind]
        cache = own.get("_cache") if type(own.get("_cache")) is dict else None
        below += (held for pair in own.items() for held in pair if held is not cache)
        if cache is not None:
            below = [held for held in below if held is not cache]
            below += (held for pair in cache.items() if not _is_derived(*pair) for held in pair)
        return below

    def _below_array(self, item: Any) -> list[Any]:
        """The array that this one is a part of, and the objects that it holds."""
        dtype = item.dtype
        self._expect(dtype.metadata is None and (dtype.kind == "O" or not dtype.hasobject))
        place: int = item.__array_interface__["data"][0]
        self._hash.update(repr((item.shape, item.strides, dtype, item.flags.writeable, place)).encode())
        if item.base is not None:
            # Anything else that has memory of its own may let others write to more of it.
            self._expect(_name_of(type(item.base)) == "numpy.ndarray")
        elif dtype.kind != "O":
            self._take_in(item, place)
        return [*self._items(item), *([] if item.base is None else [item.base])]

    def _items(self, item: Any) -> list[Any]:
        if item.dtype.kind != "O":
            return []
        if not atoms.is_long(item):
            return list(item.reshape(-1).tolist())
        digest = atoms.digest_of(item)
        self._expect(bool(digest))
        self._hash.update(digest)
        return []

    def _take_in(self, owner: Any, place: int) -> None:
        """Hash the memory, unless the dump did that."""
        self._expect(owner.flags.owndata and owner.flags.forc)
        if (place, place + owner.nbytes) in self._known:
            return
        self._remaining_bytes -= owner.nbytes
        self._expect(self._remaining_bytes >= 0)
        self._hash.update(owner.reshape(-1, order="A").view("u1"))


def _is_derived(key: object, value: Any) -> bool:
    """Whether an index keeps this because it was worked out from it, and nothing but it can be reached from there."""
    if type(key) is not str:
        return False
    if issubclass(type(value), type):
        return _name_of(value).startswith("pandas.")
    name = _name_of(type(value))
    return id(type(value)) in _ATOM_IDS or name in _NOTES or name == "pandas.StringDtype" or name.startswith(_ENGINES)
