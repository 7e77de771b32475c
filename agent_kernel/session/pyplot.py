"""Which of pyplot's figures a cell may have changed without naming them: those that pyplot was asked for.

pyplot keeps its figures in a dict by number, the current one last. While a session is open that dict notes what it gives
out, so a change is found through whatever library it is made, and open figures that a cell leaves alone cost nothing.
"""

# matplotlib says nothing of what its dict holds.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, ValuesView
from types import FrameType
from typing import Any


class _Watch:
    """What pyplot was asked for since one cell began. Cells of several sessions may run at once, or one in another."""

    def __init__(self) -> None:
        self.asked_for: set[int] = set()


class _WatchedFigures(OrderedDict[object, Any]):
    """pyplot's figures by number, noting which of them were asked for: no others can have been changed through pyplot.

    A figure is made the current one, and the current one is found, by asking here.
    """

    def __init__(self, figures: Mapping[object, Any]) -> None:
        self.watches: weakref.WeakSet[_Watch] = weakref.WeakSet()
        super().__init__(figures)

    def note(self, manager: Any) -> Any:
        figure = id(getattr(getattr(manager, "canvas", None), "figure", None))
        for watch in self.watches:
            watch.asked_for.add(figure)
        return manager

    def __getitem__(self, key: object) -> Any:
        return self.note(super().__getitem__(key))

    def __setitem__(self, key: object, manager: Any) -> None:
        super().__setitem__(key, self.note(manager))

    def get(self, key: object, default: Any = None) -> Any:
        found = super().get(key, default)
        return found if _changes_none(sys._getframe(1)) else self.note(found)  # pyright: ignore[reportPrivateUsage]

    def values(self) -> Any:
        changes_none = _changes_none(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        return super().values() if changes_none else _WatchedValues(self)

    def items(self) -> Any:
        for manager in super().values():
            self.note(manager)
        return super().items()

    def pop(self, key: object, *default: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = super().pop(key, *default)
        # pyplot's own code, which closes figures, is known to change none.
        return found if _changes_none(sys._getframe(1)) else self.note(found)  # pyright: ignore[reportPrivateUsage]

    def popitem(self, last: bool = True) -> Any:
        key, found = super().popitem(last)
        return key, self.note(found)

    def copy(self) -> Any:
        return OrderedDict(self.items())

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)

    def __repr__(self) -> str:
        return repr(self.copy())


class _WatchedValues(ValuesView[Any]):
    """The managers, each noted as it is come to: the current figure is the last of them."""

    _mapping: _WatchedFigures

    def __iter__(self) -> Iterator[Any]:
        return map(self._mapping.note, OrderedDict.values(self._mapping))

    def __reversed__(self) -> Iterator[Any]:
        return map(self._mapping.note, reversed(OrderedDict.values(self._mapping)))


def _changes_none(frame: FrameType | None) -> bool:
    """Whether pyplot closes figures, or draws after a cell what that has changed."""
    registry = _registry()
    codes = {
        getattr(getattr(registry, name, None), "__code__", None) for name in ("destroy", "destroy_all", "destroy_fig")
    }
    if frame is None or frame.f_code in codes:
        return True
    draws = getattr(getattr(registry, "draw_all", None), "__code__", None)
    return frame.f_back is not None and frame.f_back.f_code is draws


def _registry() -> Any:
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return getattr(helpers, "Gcf", None)


def watch_figures() -> object:
    """Begin to note which of pyplot's figures are asked for; what to ask `changed_figures` with."""
    registry = _registry()
    figures = getattr(registry, "figs", None)
    if type(figures) is OrderedDict:
        figures = registry.figs = _WatchedFigures(figures)
    if type(figures) is not _WatchedFigures:
        return None
    watch = _Watch()
    figures.watches.add(watch)
    return watch


def leave_figures() -> None:
    """Let pyplot's figures be as they were before anyone watched."""
    registry = _registry()
    if type(getattr(registry, "figs", None)) is _WatchedFigures:
        registry.figs = OrderedDict(OrderedDict.items(registry.figs))


def changed_figures(watch: object) -> set[int] | None:
    """The ids of the figures that may have been changed through pyplot since then; None if nobody knows."""
    figures = getattr(_registry(), "figs", None)
    if type(figures) is not _WatchedFigures or not isinstance(watch, _Watch) or watch not in figures.watches:
        return None
    return watch.asked_for.copy()


def _activates(registry: Any, manager: object) -> Callable[[object], None]:
    """What makes a figure the current one as somebody clicks on it."""
    return lambda _event: registry.set_active(manager)


def replace_figures(replaced: Mapping[int, Any]) -> None:
    """Let pyplot go on with other figures, by the ids of those that it holds: unless they are shown in a window."""
    registry = _registry()
    figures = getattr(registry, "figs", None)
    if not isinstance(figures, OrderedDict) or not figures:
        return
    plain: Any = sys.modules["matplotlib.backend_bases"].FigureManagerBase
    for number, manager in list(OrderedDict.items(figures)):
        figure = replaced.get(id(manager.canvas.figure))
        if figure is not None and type(manager) is plain:
            made = plain(type(manager.canvas)(figure), manager.num)
            made._cidgcf = made.canvas.mpl_connect("button_press_event", _activates(registry, made))
            OrderedDict.__setitem__(figures, number, made)  # where it was: the current one stays the current one


def open_figures() -> set[int]:
    """The ids of the figures that pyplot holds."""
    figures = getattr(_registry(), "figs", None)
    managers = OrderedDict.values(figures) if isinstance(figures, OrderedDict) else ()
    return {id(getattr(getattr(manager, "canvas", None), "figure", None)) for manager in managers}
