"""Which NaN a float is: dicts, sets, `in` and `is` find one by its identity alone, and nearly all of them are numpy's own.

The C pickler writes floats by itself and asks nobody. So a stream in which a NaN is found afterwards is written once more,
and this time `persistent_id` says of a NaN where it comes from: `"numpy.nan"` is the one that stands under that name of a
module, `"#3:7ff8000000000000"` the fourth of those that the stream holds several times, with its bits. Every other NaN is
written as it always was, and so is all that holds none: that costs one search through the stream.
"""

from __future__ import annotations

import gc
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import compress, repeat
from operator import is_, lt
from typing import Any, Final

from agent_kernel.values import references
from agent_kernel.values.introspection import addresses, find_loaded, ids_of, module_dict

_PATTERN: Final = re.compile(rb"G[\x7f\xff][\xf8-\xff]")
# First those that every process finds, whatever else imports them.
KNOWN: Final = (("math", "nan"), ("numpy", "nan"), ("cmath", "nan"))
NUMPYS: Final = "numpy.nan"
_LEFT_OUT: Final = frozenset({"__main__", "__mp_main__", "agent_kernel"})

Place = tuple[str, str]  # a module, and the name under which it holds the object


def may_hold(stream: bytes) -> bool:
    """Whether there may be a NaN in a stream of pickle."""
    return _PATTERN.search(stream) is not None


def is_nan(value: object) -> bool:
    return type(value) is float and value != value


def find_known(value: object) -> Place | None:
    """Where a NaN stands in the modules that every process has."""
    return next((place for place in KNOWN if references.holds(*place, value)), None)


class Marker:
    """Says of the NaNs of one stream which they are.

    `unnamed` are those that no module holds, as often as they were met; `shared` those that have a number.
    """

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.unnamed: list[float] = []
        self.shared: list[float] = []
        self._namespace = namespace
        self._marks: dict[int, str] = {}
        self._met: list[float] = []  # alive, so that no other object comes to have the id of one

    def mark(self, obj: object, /) -> str | None:
        """What pickle is to write for an object; None: the object itself."""
        if type(obj) is not float or obj == obj:
            return None
        mark = self._marks.get(id(obj))
        if mark is None:
            if not self._met:
                _scan.look()
            place = _find_in_modules(obj, self._namespace)
            mark = self._marks[id(obj)] = ".".join(place) if place is not None else ""
            self._met.append(obj)
        if not mark:
            self.unnamed.append(obj)
        return mark or None

    def number_shared(self) -> bool:
        """Give those a number that were met several times, and say whether there are any: then the stream is written again."""
        times = Counter(ids_of(self.unnamed))
        self.shared = [found for found in self._met if times[id(found)] > 1]
        for number, found in enumerate(self.shared):
            self._marks[id(found)] = f"#{number}:{struct.pack('>d', found).hex()}"
        if self.shared:
            self.unnamed = []
        return bool(self.shared)

    @property
    def is_needed(self) -> bool:
        """Whether any of them was not written as it always was."""
        return any(self._marks.values())

    def list_held(self) -> list[float]:
        """Those that no module holds, and that something outside of the stream may hold too."""
        return [
            *self.shared,
            *_list_held(self.unnamed, 4),
        ]  # what it was met in, both lists, and getrefcount's argument


def find_unmarked(stream: bytes, saved: list[object]) -> list[float] | None:
    """Of a stream whose NaNs are each there once and in no module: those that something outside of it may hold too.

    Such are most of those that came of numbers, of a table or an array. None: it takes a marker to tell.

    Args:
        saved: what the pickler holds in its memo.
    """
    found = _list_nans(gc.get_referents(*saved))
    _scan.look()
    ids = set(ids_of(found))
    if len(ids) < len(found) or len(found) < len(_PATTERN.findall(stream)) or not ids.isdisjoint(_scan.places):
        return None
    return _list_held(found, 3)  # what it was met in, the list, and getrefcount's argument


def _list_nans(values: list[object]) -> list[float]:
    flatnonzero: Any = find_loaded("numpy", "flatnonzero")
    if flatnonzero is None:
        floats: list[Any] = list(compress(values, map(is_, map(type, values), repeat(float))))
    else:  # in half of the time
        import numpy as np

        kinds = np.frombuffer(addresses(list(map(type, values))), np.uintp)
        floats = list(map(values.__getitem__, flatnonzero(kinds == id(float)).tolist()))
    return [value for value in floats if value != value]


def _list_held(found: list[float], explained: int) -> list[float]:
    counts = list(map(sys.getrefcount, found))  # not in one step: then that holds each, too
    return list(compress(found, map(lt, repeat(explained), counts)))


class _Scan:
    """The NaNs of the modules that were looked at. Of a module of the person's own they are looked for each time."""

    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        self.own: set[str] = set()
        self.places: dict[int, list[Place]] = {}

    def look(self) -> None:
        for name, module in list(sys.modules.items()):
            if self.modules.get(name) == id(module) and name not in self.own:
                continue
            if name.partition(".")[0] in _LEFT_OUT or not references.is_module(module):
                continue
            if not references.is_library(name):
                self.own.add(name)
            self.modules[name] = id(module)
            for attribute, value in list(module_dict(module).items()):
                if is_nan(value):
                    self._add(id(value), (name, attribute))

    def _add(self, item: int, place: Place) -> None:
        places = self.places.setdefault(item, [])
        if place not in places:
            places.append(place)


_scan = _Scan()


def _find_in_modules(value: float, namespace: Mapping[str, object]) -> Place | None:
    places = _scan.places.get(id(value))
    if places is None:
        return None
    known = find_known(value)
    if known is not None:
        return known
    held = [place for place in places if references.holds(*place, value) and _may_name(place, namespace)]
    return min(held, key=lambda place: (place[0].count("."), place), default=None)


def _may_name(place: Place, namespace: Mapping[str, object]) -> bool:
    module, name = place
    if module_dict(sys.modules[module]) is namespace or not name.isidentifier():
        return False
    return references.is_library(module) or references.is_importable(module)


def load(mark: str, made: dict[str, float], find: Callable[[str, str], object]) -> float:
    """The NaN that a mark stands for.

    Args:
        made: those of the same stream that have a number.
        find: gives what a module holds under a name; None if the module has none.
    """
    if not mark.startswith("#"):
        module, _, name = mark.rpartition(".")
        found = find(module, name)
        # A module that is gone or has changed holds none that this could be compared with.
        return found if type(found) is float and found != found else made.setdefault(mark, float("nan"))
    if mark not in made:
        (made[mark],) = struct.unpack(">d", bytes.fromhex(mark.partition(":")[2]))
    return made[mark]
