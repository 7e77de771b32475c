"""Look at objects of libraries without the person hearing of it, and leave the process as it was.

A library's own reducer may warn, which nobody asked for; where warnings are errors, the object could not be saved.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
import warnings
from collections.abc import Callable, Generator, Iterable

_IGNORE_ALL = ("ignore", None, Warning, None, 0)
# New containers between two collections of them, and collections before the older ones are walked too.
_MANY, _SELDOM = 200_000, 1_000
_ATOMS = (int, float, complex, bool, str, bytes, types.NoneType)
_MANY_MODULES = 50


@contextlib.contextmanager
def unwarned() -> Generator[None]:
    """Let no warning be shown or raised in the block.

    Not `catch_warnings`: it makes Python forget what was shown already, so the person's own would be shown once a cell.
    """
    filters: list[tuple[object, ...]] = warnings.filters  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    before = list(filters)
    known = {*map(id, before), id(_IGNORE_ALL)}
    filters.insert(0, _IGNORE_ALL)
    try:
        yield
    finally:
        # What was looked at may have run anything, also `warnings.resetwarnings()`: only what it added stays.
        for found in {id(found): found for found in (filters, warnings.filters)}.values():
            added = [one for one in found if id(one) not in known]
            found[:] = [*added, *before]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


@contextlib.contextmanager
def seldom_collected() -> Generator[None]:
    """Let the garbage collector run seldom in the block: many small objects that all go again had it walk the whole heap.

    It stays on, for the code of others that runs here may leave more garbage than there is memory.
    """
    before = gc.get_threshold()
    if before[0] == 0:  # off
        yield
        return
    ours = (max(before[0], _MANY), _SELDOM, _SELDOM)
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == ours[0]:
            gc.set_threshold(*before)


class ModulesSpared:
    """Has the garbage collector pass over what imported modules hold, which lives as long as the process.

    One look of the collector at the modules of pandas, matplotlib and scikit-learn takes 60 ms, and it looks again each time
    that the heap has grown by a quarter. `gc.freeze` is made for this. It also spares garbage and what becomes garbage later,
    so it is used only where there is no data yet: the variables are modules, what modules define, and numbers and text.
    """

    def __init__(self) -> None:
        self._count = 0  # of modules, when they were last spared
        self._looked: int = 0  # … and when data was found

    def spare(self, values: Callable[[], Iterable[object]]) -> None:
        """Spare what is there now, if many modules are new, these values hold no data, and the collector is on."""
        count = len(sys.modules)
        if count < self._count + _MANY_MODULES or count == self._looked or not gc.isenabled():
            return
        if not all(map(_is_no_data, values())):
            self._looked = count  # data hardly goes again
            return
        gc.collect(1)  # else the garbage of the imports would stay
        gc.freeze()
        self._count = count

    def unspare(self) -> None:
        """Let the collector look at everything again."""
        if self._count:
            gc.unfreeze()
            self._count = 0


def _is_no_data(value: object) -> bool:
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return value.__module__ != "__main__"
    return type(value) in _ATOMS or isinstance(value, types.ModuleType)
