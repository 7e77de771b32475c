"""What belongs to a library and not to the values that use it: what its modules and classes hold.

Two figures share matplotlib's marker paths and identity matrix. Saved apart, each gets its own copy, and nothing that a
person does can tell; saved as one value, a change of one would store both. Only installed packages count: a module that
lies beside the notebook may well hold the person's own state.
"""

# Any library's objects are looked at here, so nothing is known of their types.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import compress
from types import ModuleType
from typing import Any

import msgspec

from agent_kernel.values.introspection import (
    Versions,
    class_dict,
    derives_from,
    find_loaded,
    ids_of,
    instance_dict,
    module_dict,
    module_name,
)

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
        entries = (
            value for settings in _by_package[package].settings for value in list(dict[Any, Any].values(settings))
        )
        found |= among.intersection(ids_of(filter(_is_plain, entries)))
    return found


def _is_plain(value: object) -> bool:
    return id(type(value)) in _PLAIN


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
    kinds: list[type] = list(map(type, values))
    kinds = list(dict(zip(ids_of(kinds), kinds, strict=True)).values())  # by id: hashing a type runs its metaclass
    return {module_name(kind).partition(".")[0] for kind in kinds} - {"", "builtins", "__main__"}


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
