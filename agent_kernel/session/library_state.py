"""State that libraries hold for a cell's code, which names no variable: random generators, and pyplot's figures.

Python's and numpy's global generators, and torch's, where they are loaded: running a cell again after a rollback then
gives the same numbers. The format is msgpack, not pickle, so that it can be read without trust.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import array
import functools
import random
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, ValuesView
from ctypes import string_at
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.errors import LoadError, StoreUnavailableError
from agent_kernel.repository import Kind

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId, Repository


GENERATORS = "the state of the random generators"


class RandomState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Generator states as bytes; None where the library was not loaded."""

    version: int = 3
    words: bytes = b""
    gauss: float | None = None
    numpy: tuple[str, bytes, int, int, float] | None = None
    torch: bytes | None = None


def capture() -> bytes:
    """The stored bytes of the generators' state, some 5 kB."""
    state = _python_state(), _numpy_state(), _torch_state()
    if state != _captured.state:  # most cells leave it as it is: to compare it takes a third of the time
        (version, words, gauss), (_, numpy, torch) = random.getstate(), state
        payload = msgspec.msgpack.encode(RandomState(version, array.array("I", words).tobytes(), gauss, numpy, torch))
        _captured.state, _captured.payload = state, payload
    return _captured.payload


def _python_state() -> object:
    """What tells whether Python's generator is as it was: its numbers as they lie in memory, or else its state.

    To ask for the state makes an object of each of 625 numbers.
    """
    generator = getattr(random.getstate, "__self__", None)
    if type(generator) is not random.Random or not _knows_numbers():
        return random.getstate()
    return (
        id(generator),
        string_at(id(generator) + object.__basicsize__, _NUMBERS_BYTES),
        vars(generator).get("gauss_next"),
    )


_NUMBERS_BYTES = 625 * 4  # where the next one is, and 624 words


@functools.cache
def _knows_numbers() -> bool:
    """Whether this Python keeps a generator's numbers as we know it: tried on one."""
    size: int = random.Random.__base__.__basicsize__  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    if sys.implementation.name != "cpython" or size - object.__basicsize__ not in (_NUMBERS_BYTES, _NUMBERS_BYTES + 4):
        return False
    some = random.Random(7)
    for _ in range(2):
        some.random()
        numbers = string_at(id(some) + object.__basicsize__, _NUMBERS_BYTES)
        *words, place = some.getstate()[1]
        if numbers != array.array("I", [place, *words]).tobytes():
            return False
    return True


class _Captured:
    """The state that was asked for last, and its bytes."""

    state: object = None
    payload: bytes = b""


_captured = _Captured()


def try_state(payload: bytes) -> Callable[[], None]:
    """Try a stored state on generators made for it, and return what puts the real ones into it.

    Libraries that are not loaded now are left alone.

    Raises:
        Exception: whatever a library that does not know such a state raises. Nothing was changed.
    """
    state = msgspec.msgpack.decode(payload, type=RandomState)
    words = array.array("I")
    words.frombytes(state.words)
    python = state.version, tuple(words), state.gauss
    random.Random(0).setstate(python)
    puts: list[Callable[[], object]] = [lambda: random.setstate(python)]
    numpy_random = _find_loaded("numpy.random")
    if numpy_random is not None and state.numpy is not None:
        name, keys, position, has_gauss, cached = state.numpy
        numpys = name, sys.modules["numpy"].frombuffer(keys, "uint32"), position, has_gauss, cached
        numpy_random.RandomState(0).set_state(numpys)
        puts.append(lambda: numpy_random.set_state(numpys))
    torch = _find_loaded("torch")
    if torch is not None and state.torch is not None:
        torchs = torch.frombuffer(bytearray(state.torch), dtype=torch.uint8)
        torch.Generator().set_state(torchs)
        puts.append(lambda: torch.set_rng_state(torchs))

    def put() -> None:
        for one in puts:
            one()

    return put


def leave() -> None:
    """Put nothing anywhere."""


def prepare(repo: Repository, commit: ObjectId | None, *, keep: bool, partial: bool) -> tuple[Callable[[], None], str]:
    """What puts the generators into the state of a commit, and what to say of it.

    Raises:
        LoadError: there is a state that cannot be had, and `partial` does not allow to go without. Nothing was changed.
    """
    id = None if keep or commit is None else repo.commit_at(commit).random
    if id is None:
        return leave, ""
    try:
        return try_state(repo.objects.get(Kind.SMALL, id)), ""
    except StoreUnavailableError:
        raise
    except Exception as error:
        from agent_kernel.session.history import error_line

        reason = error_line(error)
        if not partial:
            what, way = (GENERATORS,), "--keep-random leaves them as they are, and so does --partial"
            raise LoadError((), reason, ((what, reason),), way) from error
        return leave, f"{GENERATORS} stays as it is, for that of the commit could not be loaded: {reason}"


def _find_loaded(name: str) -> Any:
    """A library that the user has loaded, and finished loading."""
    module: Any = sys.modules.get(name)
    ready = {"numpy.random": "get_state", "torch": "get_rng_state"}[name]
    return module if module is not None and hasattr(module, ready) else None


def _numpy_state() -> tuple[str, bytes, int, int, float] | None:
    numpy_random = _find_loaded("numpy.random")
    if numpy_random is None:
        return None
    name, keys, position, has_gauss, cached = numpy_random.get_state()
    return name, keys.tobytes(), int(position), int(has_gauss), float(cached)


def _torch_state() -> bytes | None:
    torch = _find_loaded("torch")
    if torch is None:
        return None
    state: bytes = torch.get_rng_state().numpy().tobytes()
    return state


# -- which of pyplot's figures a cell may have changed without naming them: those that pyplot was asked for
#
# pyplot keeps its figures in a dict by number, the current one last. While a session is open that dict notes what it gives
# out, so a change is found through whatever library it is made, and open figures that a cell leaves alone cost nothing.

# matplotlib says nothing of what its dict holds.


class _Watch:
    """What pyplot was asked for since one cell began. Cells of several sessions may run at once, or one in another."""

    def __init__(self) -> None:
        self.requested: set[int] = set()


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
            watch.requested.add(figure)
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
    """Begin to note which of pyplot's figures are asked for; what to ask `find_changed_figures` with."""
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


def find_changed_figures(watch: object) -> set[int] | None:
    """The ids of the figures that may have been changed through pyplot since then; None if nobody knows."""
    figures = getattr(_registry(), "figs", None)
    if type(figures) is not _WatchedFigures or not isinstance(watch, _Watch) or watch not in figures.watches:
        return None
    return watch.requested.copy()


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
