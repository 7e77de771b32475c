"""matplotlib: figures come back detached from pyplot, and pickling one does not change it."""

# What is looked through here is of any type.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import copyreg
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import islice
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from agent_kernel.values.pickler import reduce
from agent_kernel.values.previews.reading import find_loaded, instance_dict
from agent_kernel.values.reducers import Handler, dispatch_table
from agent_kernel.values.references import MODULE_OBJECTS

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

# Puts small arrays into the state of their holder: see `arrays.pack`.
Pack = Callable[["Pickler", Any, dict[str, Any], Iterable[str]], tuple[object, ...]]

NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def handler_for(kind: type) -> Handler | None:
    names = {(base.__module__, base.__name__) for base in kind.__mro__}
    if ("matplotlib.cbook", "CallbackRegistry") in names:
        return reduce_callbacks
    if ("matplotlib.figure", "Figure") in names:
        return reduce_figure
    if ("matplotlib.axes._base", "_AxesBase") in names or ("matplotlib.figure", "FigureBase") in names:
        return reduce_part
    if ("matplotlib.colors", "Colormap") in names and kind.__module__ == "matplotlib.colors":
        return reduce_colormap
    if kind.__module__ == "matplotlib.markers" and kind.__name__ == "MarkerStyle" and _is_saved_by_attributes(kind):
        from agent_kernel.values.reducers.figure_parts import reduce_marker

        return reduce_marker
    is_line = ("matplotlib.lines", "Line2D") in names
    if _is_reduced_as(kind, ("matplotlib.artist", "Artist") if is_line else ("matplotlib.transforms", "TransformNode")):
        from agent_kernel.values.reducers.arrays import pack
        from agent_kernel.values.reducers.figure_parts import reduce_transform

        return partial(_reduce_packed_line, pack) if is_line else partial(reduce_transform, pack)
    return reduce_line if is_line else None


def reduce_colormap(pickler: Pickler, colormap: Any) -> Any:
    """Drawing fills the table that a colormap looks colours up in. It is saved where a person holds or changed it."""
    parts = pickler.instance(colormap)
    parts = reduce(colormap) if parts is NotImplemented else parts
    attributes: dict[str, Any] = vars(colormap)
    table: Any = attributes.get("_lut")
    if table is None or len(parts) < 3 or type(parts[2]) is not dict:
        return parts
    count = sum(found is table for found in parts[2].values()) if parts[2] is not attributes else 0
    if sys.getrefcount(table) > _OF_A_TABLE + count:
        return parts
    undrawn: dict[str, Any] = dict(parts[2]) | {"_isinit": False, "_lut": None}
    if not _has_empty_table():
        del undrawn["_lut"]
    functions = any(map(callable, getattr(colormap, "_segmentdata", {}).values()))
    twin: Any = NEW(type(colormap))
    twin.__dict__.update(undrawn)
    if functions or (twin._init() is None and twin._lut.tobytes() != table.tobytes()):
        return parts
    return *parts[:2], undrawn, *parts[3:]


_OF_A_TABLE = 3  # its colormap, `table`, and getrefcount's argument


@cache
def _has_empty_table() -> bool:
    """Whether a colormap has a place for its table before that is made: not in releases before 3.11."""
    colors: Any = sys.modules["matplotlib.colors"]
    return "_lut" in vars(colors.Colormap("", 2))


def root_of(artist: object) -> object | None:
    """The figure that an artist leads to, by the attributes that it is saved with; None for anything else."""
    found: Any = artist
    if not issubclass(type(found), class_of("matplotlib.artist", "Artist")):
        return None
    for _ in range(_MOST_NESTED):
        attributes = object.__getattribute__(found, "__dict__")
        above = (attributes.get(name) for name in ("_root_figure", "_parent_figure", "figure"))
        figure = next((one for one in above if one is not None), found)
        if figure is found:
            break
        found = figure
    return found if issubclass(type(found), class_of("matplotlib.figure", "Figure")) else None


def is_saved_with_root(artist: object) -> bool:
    """Whether all that an artist is saved with is what matplotlib says: then that leads to its `root_of`."""
    kind: Any = type(artist)
    hooks = (getattr(kind, name, None) for name in ("__getstate__", "__reduce__", "__reduce_ex__"))
    own = all(getattr(hook, "__module__", None) is None or _is_of_matplotlib(hook) for hook in hooks)
    return own and kind not in dispatch_table() and id(artist) not in MODULE_OBJECTS


def _is_of_matplotlib(hook: Any) -> bool:
    return type(hook) is FunctionType and hook.__module__.partition(".")[0] == "matplotlib"


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
        todo.extend(islice(_items_of(value), _MOST_LOOKS))
    return None


_MOST_LOOKS = 30


def _items_of(value: Any) -> Iterable[object]:
    kind: Any = type(value)
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


def class_of(module: str, name: str) -> Any:
    """A class of matplotlib, or an empty tuple, which nothing is an instance of, where that is not imported yet."""
    return getattr(sys.modules.get(module), name, ())


def reduce_figure(pickler: Pickler, figure: Any) -> Any:
    _work_out_size(figure)
    parts = reduce(figure)
    pickler.dump_record.instances.append(figure)
    state = dict(parts[2])
    # With this key a figure registers itself with pyplot when it is loaded, and opens a window.
    state.pop("_restore_to_pylab", None)
    state["_stale"] = True  # as it is when it was loaded, and after a tick was asked for
    pickler.keepalive.append(state)
    from agent_kernel.values.restore.figures import drawn_figure

    return *parts[:2], state, None, None, drawn_figure


def reduce_part(pickler: Pickler, part: Any) -> Any:
    """Whether axes, or a figure within a figure, were drawn as they are now is no content."""
    parts = pickler.instance(part)
    if parts is not NotImplemented:  # something shares its attributes
        return parts
    parts = reduce(part)
    if len(parts) < 3 or type(parts[2]) is not dict or "_stale" not in parts[2] or parts[2] is part.__dict__:
        return parts
    parts[2]["_stale"] = True
    return parts


def _work_out_size(figure: Any) -> None:
    """A figure works out its size when it is first shown, and keeps it: that is to make no difference."""
    box = object.__getattribute__(figure, "__dict__").get("bbox")
    if type(box) is class_of("matplotlib.transforms", "TransformedBbox"):
        box.get_points()


def _is_saved_by_attributes(kind: type) -> bool:
    """Whether pickle saves an object of this type by its attribute dict."""
    hooks = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    return kind not in dispatch_table() and all(
        getattr(kind, hook, None) is getattr(object, hook, None) for hook in hooks
    )


def _is_reduced_as(kind: type, base: tuple[str, str]) -> bool:
    """Whether this is a class of matplotlib's whose objects are saved as that base class says."""
    says: Any = class_of(*base)
    if not issubclass(kind, says) or not kind.__module__.startswith("matplotlib.") or kind in dispatch_table():
        return False
    hooks = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    return all(getattr(kind, hook, None) is getattr(says, hook, None) for hook in hooks)


def reduce_line(pickler: Pickler, line: Any) -> Any:
    """It holds the two columns of an array, and then the array."""
    points = object.__getattribute__(line, "__dict__").get("_xy")
    if getattr(points, "base", line) is None and points.flags.c_contiguous:
        pickler.spanning.add(id(points))
    return pickler.instance(line)


def _reduce_packed_line(pack: Pack, pickler: Pickler, line: Any) -> Any:
    noted: Any = reduce_line(pickler, line)
    kind: Any = type(line)
    if not pickler.packs or noted is not NotImplemented:  # something shares its attributes
        return noted
    state = kind.__getstate__(line)
    if _is_tick_mark(line.__dict__):
        return with_arrays(kind, state | _UNDRAWN, ())
    state["_transformed_path"] = None  # made anew when the line is drawn
    return with_arrays(kind, state, pack(pickler, line, state, _OF_LINE))


def _is_tick_mark(attributes: dict[str, Any]) -> bool:
    """Whether a line is the mark of a tick, and all that it keeps follows from its place: it is set whenever ticks are asked for."""
    path, points = attributes.get("_path"), attributes.get("_xy")
    marker: Any = getattr(attributes.get("_marker"), "_marker", None)
    if type(marker) is not int or attributes.get("_linestyle") != "None" or attributes.get("_drawstyle") != "default":
        return False
    if path is not None and (path._vertices is not points or path._codes is not None or path._interpolation_steps != 1):
        return False
    return _is_place(attributes, "x", 0) and _is_place(attributes, "y", 1)


def _is_place(attributes: dict[str, Any], axis: str, column: int) -> bool:
    """Whether a line has at most one number on an axis, and what it keeps of its points there is that, or known to be old."""
    place: Any = attributes.get(f"_{axis}orig")
    if type(place) not in (list, tuple) or len(place) > 1 or not all(isinstance(one, (int, float)) for one in place):
        return False
    points: Any = attributes.get("_xy")
    return bool(attributes.get(f"_invalid{axis}")) or (points is not None and points[:, column].tolist() == [*place])


_UNDRAWN: dict[str, object] = {
    "_path": None,
    "_xy": None,
    "_x": None,
    "_y": None,
    "_transformed_path": None,
    "_invalidx": True,
    "_invalidy": True,
    "_subslice": False,
}


def with_arrays(kind: type, state: Any, packed: Any) -> Any:
    from agent_kernel.values.restore.arrays import packed_arrays

    return NEW, (kind,), (state, packed), None, None, packed_arrays


_OF_LINE = ("_xorig", "_yorig", "_x", "_y")


def reduce_callbacks(pickler: Pickler, registry: Any) -> Any:
    """Its own `__getstate__` takes the next number from a counter: reading the state changed it."""
    pickler.dump_record.instances.append(registry)
    attributes = object.__getattribute__(registry, "__dict__")
    if not attributes["callbacks"] or not any(attributes["callbacks"].values()):  # in no variable: holders are counted
        idle = _idle(type(registry), attributes)
        if idle is not None:
            return idle
        state = {**attributes, "callbacks": {signal: {} for signal in attributes["callbacks"]}}
        return NEW, (type(registry),), _with_number(state | {"_func_cid_map": None}, 0)
    following = registry._cid_gen.__reduce__()[1][0]
    parts = registry.__reduce_ex__(5)
    registry._cid_gen = itertools.count(following)
    # Of those that are saved: pyplot's own, which go when it closes the figure, are not.
    used = (number for signal in parts[2]["callbacks"].values() for number in signal)
    return *parts[:2], _with_number(parts[2], max(used, default=-1) + 1), *parts[3:]


def _with_number(state: dict[str, Any], following: int) -> dict[str, Any]:
    """With the next number last, where one that was loaded has it."""
    return {name: value for name, value in state.items() if name != "_cid_gen"} | {"_cid_gen": following}


def _idle(kind: type, attributes: dict[str, Any]) -> tuple[object, ...] | None:
    """How one is saved that calls nobody, as each of the thousand artists of a figure has one; None if it is another."""
    if attributes.keys() != _OF_CALLBACKS:
        return None
    callbacks, numbers, signals = attributes["callbacks"], attributes["_pickled_cids"], attributes["_signals"]
    if type(callbacks) is not dict or type(numbers) is not set or type(signals) is not list or callbacks or numbers:
        return None
    if _holds(callbacks) > _OWN_HOLDS or _holds(numbers) > _OWN_HOLDS or _holds(signals) > _OWN_HOLDS:
        return None
    handler = attributes["exception_handler"]
    key = (id(kind), id(handler), *signals) if all(type(signal) is str for signal in signals) else ()
    known = _idles.get(key)
    if known is None and key:
        from agent_kernel.values.restore.figures import idle_callbacks

        # The handler is kept with it, so that no other comes to have its id.
        if len(_idles) >= _MOST_IDLE:
            _idles.clear()
        known = _idles[key] = idle_callbacks, (kind, tuple(map(sys.intern, signals)), handler)
    return known


_OF_CALLBACKS = {"_signals", "exception_handler", "callbacks", "_cid_gen", "_func_cid_map", "_pickled_cids"}
_idles: dict[tuple[object, ...], tuple[object, ...]] = {}
_MOST_IDLE = 100
_holds = sys.getrefcount


def _holds_of_callbacks() -> int:
    attributes: dict[str, Any] = {"callbacks": {}, "_pickled_cids": set[int](), "_signals": []}
    callbacks, numbers, signals = attributes["callbacks"], attributes["_pickled_cids"], attributes["_signals"]
    return max(_holds(callbacks), _holds(numbers), _holds(signals))


_OWN_HOLDS = _holds_of_callbacks()
