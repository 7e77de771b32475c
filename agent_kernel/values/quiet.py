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
from typing import ClassVar, cast

from agent_kernel.values.previews.reading import derives_from, exact_str, is_of_notebook

_IGNORE_ALL = ("ignore", None, Warning, None, 0)
# New containers between two collections of them, and collections before the older ones are walked too.
_MANY, _SELDOM = 200_000, 1_000
# By id: to hash or compare a type runs its metaclass.
_NO_DATA_IDS = frozenset(map(id, (int, float, complex, bool, str, bytes, types.NoneType, types.BuiltinFunctionType)))
_MANY_MODULES = 50
# Python 3.12 itself starts with some hundreds of frozen objects.
_FROZEN_BY_PYTHON = 1_000


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
def uncollected() -> Generator[None]:
    """Let Python look for no garbage in the block: nothing that is made there is garbage, and looking takes longer than making it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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

    A look of the collector at the modules of pandas, matplotlib and scikit-learn takes it tens of milliseconds, and it looks
    again each time that the heap has grown by a quarter. `gc.freeze` is made for this. It also spares garbage and what becomes
    garbage later, so it is used only until there is data: as long as the variables are modules, what modules define, and
    numbers and text. Where others froze what they hold, nothing is done: `gc.unfreeze` would undo theirs too.
    """

    _do_others_freeze: ClassVar[bool] = False

    def __init__(self) -> None:
        self._count = 0  # of modules, when they were last spared
        self._was_data = False

    def spare(self, new: Iterable[object], everything: Callable[[], Iterable[object]]) -> None:
        """Spare what is there now, if there was never data, many modules are new, and the collector is on.

        Args:
            new: the values of the variables that the last cell changed. Call it after each cell: of data that came and
                went something may be left.
            everything: gives the values of all variables, and of whatever else can be data.
        """
        self._was_data = self._was_data or not all(map(_is_no_data, new))
        count = len(sys.modules)
        if self._was_data or count < self._count + _MANY_MODULES or not gc.isenabled() or self._others_froze():
            return
        self._was_data = not all(map(_is_no_data, everything()))
        if self._was_data:
            return
        gc.collect(1)  # else the garbage of the imports would stay
        gc.freeze()
        self._count = count

    def _others_froze(self) -> bool:
        # Asked once in a process: Python counts them one by one.
        if not self._count and not ModulesSpared._do_others_freeze:
            ModulesSpared._do_others_freeze = gc.get_freeze_count() > _FROZEN_BY_PYTHON
        return self._do_others_freeze

    def unspare(self) -> None:
        """Let the collector look at everything again."""
        if self._count:
            gc.unfreeze()
            self._count = 0


def _is_no_data(value: object) -> bool:
    kind = type(value)
    if id(kind) in _NO_DATA_IDS or derives_from(kind, types.ModuleType):
        return True
    if kind is types.FunctionType:
        return exact_str(cast("types.FunctionType", value).__globals__.get("__name__")) != "__main__"
    return derives_from(kind, type) and not is_of_notebook(cast("type", value))
