"""matplotlib: figures come back detached from pyplot, and pickling one does not change it.

The many small parts of a figure are saved as a few constants: markers and boxes with all that is theirs, transforms. A part that
someone else may hold, or that is not as matplotlib makes it, is pickled as any object.
"""

# What is looked through here is of any type.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import copyreg
import itertools
import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import repeat
from operator import is_, itemgetter
from sys import getrefcount
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import getweakrefcount

import msgspec
import numpy as np

from agent_kernel.values.introspection import loaded_class, module_name
from agent_kernel.values.pickler import reduce
from agent_kernel.values.reducers import HANDLERS, Handler, dispatch_table, ordinary
from agent_kernel.values.reducers import handler_for as find_handler
from agent_kernel.values.reducers.arrays import FLOATS, bytes_of, pack
from agent_kernel.values.restore.arrays import packed_arrays, packed_values
from agent_kernel.values.restore.figures import (
    CHILDREN,
    drawn_figure,
    idle_callbacks,
    marker_style,
    told_box,
    transformed_path,
    undrawn_line,
)

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


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
        return reduce_marker
    if ("matplotlib.lines", "Line2D") in names:
        return _reduce_packed_line if _is_reduced_as(kind, ("matplotlib.artist", "Artist")) else reduce_line
    if ("matplotlib.artist", "Artist") in names:
        return _handler_for_artist(kind) if _says_its_attributes(kind) else None
    return reduce_transform if _is_reduced_as(kind, ("matplotlib.transforms", "TransformNode")) else None


def _handler_for_artist(kind: type) -> Handler:
    if kind in (loaded_class("matplotlib.axis", "XAxis"), loaded_class("matplotlib.axis", "YAxis")):
        return reduce_axis
    if kind is loaded_class("matplotlib.legend", "Legend"):
        return reduce_legend
    if kind is loaded_class("matplotlib.text", "Annotation"):
        return reduce_annotation
    if kind is loaded_class("matplotlib.text", "Text"):
        return reduce_text
    if issubclass(kind, loaded_class("matplotlib.collections", "_CollectionWithSizes")):
        return reduce_sized
    return reduce_artist


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
    twin: Any = _NEW(type(colormap))
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


def reduce_figure(pickler: Pickler, figure: Any) -> Any:
    _work_out_size(figure)
    parts = reduce(figure)
    pickler.dump_record.instances.append(figure)
    state = dict(parts[2])
    # With this key a figure registers itself with pyplot when it is loaded, and opens a window.
    state.pop("_restore_to_pylab", None)
    state["_stale"] = True  # as it is when it was loaded, and after a tick was asked for
    _note_background(pickler, state.get("patch"))
    pickler.keepalive.append(state)
    return *parts[:2], state, None, None, drawn_figure


def _note_background(pickler: Pickler, patch: Any) -> None:
    """Save the colours of the background as new tuples of numbers: to show or save a figure sets its own colours again so."""
    if type(patch) is not loaded_class("matplotlib.patches", "Rectangle"):
        return
    # One by one: to ask for `__dict__` makes one, which then looks as if something shares it.
    saved: dict[str, Any] = {"_stale": True}
    for name, given in (("_facecolor", "_original_facecolor"), ("_edgecolor", "_original_edgecolor")):
        color: Any = getattr(patch, name, None)
        original: Any = getattr(patch, given, None)
        is_name = type(original) is str and original.lower() != "none" and getattr(patch, "_alpha", 0) is None
        if type(color) is tuple and (is_name or type(original) is tuple):
            saved |= {name: (*color,), given: (*(color if is_name else original),)}
    pickler.set_when_drawn[id(patch)] = saved


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
    if type(box) is loaded_class("matplotlib.transforms", "TransformedBbox"):
        box.get_points()


def _is_saved_by_attributes(kind: type) -> bool:
    """Whether pickle saves an object of this type by its attribute dict."""
    hooks = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    return kind not in dispatch_table() and all(
        getattr(kind, hook, None) is getattr(object, hook, None) for hook in hooks
    )


def _is_reduced_as(kind: type, base: tuple[str, str]) -> bool:
    """Whether this is a class of matplotlib's whose objects are saved as that base class says."""
    says: Any = loaded_class(*base)
    if not issubclass(kind, says) or not kind.__module__.startswith("matplotlib.") or kind in dispatch_table():
        return False
    hooks = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    return all(getattr(kind, hook, None) is getattr(says, hook, None) for hook in hooks)


def _says_its_attributes(kind: type) -> bool:
    """Whether objects of this type are saved as matplotlib says: by their attributes, of which it changes some."""
    hooks = ("__setstate__", "__reduce__", "__reduce_ex__")
    plain = kind not in dispatch_table() and all(
        getattr(kind, hook, None) is getattr(object, hook, None) for hook in hooks
    )
    modules = module_name(kind), getattr(getattr(kind, "__getstate__", None), "__module__", "")
    return plain and all(type(found) is str and found.startswith("matplotlib.") for found in modules)


def reduce_axis(pickler: Pickler, axis: Any) -> Any:
    """Leave out how far its texts are from it, in pixels: each drawing computes that from the labels and the canvas."""
    if getattr(axis, "_autolabelpos", False) is True:  # nobody has set where the label is
        outwards = "_y" if type(axis).__name__ == "XAxis" else "_x"
        pickler.set_when_drawn[id(axis.label)] = {outwards: 0}
    pickler.set_when_drawn[id(getattr(axis, "offsetText", None))] = {"_y": 0}
    return reduce_artist(pickler, axis)


def reduce_legend(pickler: Pickler, legend: Any) -> Any:
    """Leave out where its parts are, in pixels: each drawing computes that from what they show and from the canvas."""
    _note_frame(pickler, getattr(legend, "legendPatch", None))
    waiting: list[Any] = [getattr(legend, "_legend_box", None)]
    is_wide = getattr(legend, "_mode", None) == "expand"
    if is_wide:
        pickler.set_when_drawn[id(waiting[0])] = {"width": None}
    kinds = tuple(loaded_class("matplotlib.offsetbox", name) for name in _PLACED)
    for box in waiting:  # it grows
        for child in getattr(box, "_children", ()):
            if any(type(child) is kind for kind in kinds):
                pickler.set_when_drawn[id(child)] = {"_offset": (0, 0)}
                if is_wide and getattr(child, "mode", None) == "expand":
                    pickler.set_when_drawn[id(child)]["width"] = None
                moved = filter(None, (getattr(child, name, None) for name in _MOVED_WITH))
                pickler.set_when_drawn.update((id(transform), _NOT_MOVED) for transform in moved)
                waiting.append(child)
    return reduce_artist(pickler, legend)


_PLACED = ("HPacker", "VPacker", "TextArea", "DrawingArea")
_MOVED_WITH = ("offset_transform", "dpi_transform", "_baseline_transform")
_NOT_MOVED: dict[str, Any] = {"_mtx": np.eye(3).tobytes()}


def _note_frame(pickler: Pickler, patch: Any) -> None:
    """Save the frame around a text or a legend as it is before its first drawing."""
    if type(patch) is loaded_class("matplotlib.patches", "FancyBboxPatch"):
        place: dict[str, Any] = {"_x": 0, "_y": 0, "_width": 1, "_height": 1, "_mutation_scale": 1}
        pickler.set_when_drawn[id(patch)] = place


def reduce_text(pickler: Pickler, text: Any) -> Any:
    frame: Any = getattr(text, "_bbox_patch", None)
    if frame is not None:
        _note_frame(pickler, frame)
        pickler.set_when_drawn.get(id(frame), {})["_transform"] = None  # to where the text is
    return reduce_artist(pickler, text)


def reduce_annotation(pickler: Pickler, annotation: Any) -> Any:
    """Leave out where its text and its arrow are, in pixels: each drawing sets that."""
    arrow: Any = getattr(annotation, "arrow_patch", None)
    wanted: Any = getattr(annotation, "arrowprops", None)
    if type(arrow) is loaded_class("matplotlib.patches", "FancyArrowPatch") and type(wanted) is dict:
        place: dict[str, Any] = {"_posA_posB": [(0, 0), (1, 1)], "_dpi_cor": 1.0}
        if "patchA" not in wanted and getattr(annotation, "_bbox_patch", None) is None:
            place["patchA"] = None
        if "arrowstyle" not in wanted:
            place |= {"shrinkA": 2.0, "shrinkB": 2.0}
        pickler.set_when_drawn[id(arrow)] = place
    pickler.set_when_drawn[id(annotation)] = {"_transform": None}
    return reduce_text(pickler, annotation)


def reduce_sized(pickler: Pickler, collection: Any) -> Any:
    """Leave out how large the marks of a scatter plot are, in pixels: each drawing computes that from the canvas."""
    transforms: Any = getattr(collection, "_transforms", None)
    if type(transforms) is np.ndarray and getrefcount(transforms) <= _OF_A_TABLE:
        pickler.set_when_drawn[id(collection)] = {"_transforms": np.empty((0, 3, 3))}
    return reduce_artist(pickler, collection)


def reduce_artist(pickler: Pickler, artist: Any) -> Any:
    kind: Any = type(artist)
    instead = pickler.set_when_drawn.get(id(artist))

    def as_drawn(artist: Any) -> Any:
        return _NEW, (kind,), kind.__getstate__(artist) | instead

    if not pickler.packs or pickler.careful or (pickler.muted and id(artist) in pickler.muted):
        return pickler.custom(artist, None if instead is None else as_drawn)
    pickler.note_class_level(kind)
    noted: Any = ordinary(pickler, artist)
    if noted is not NotImplemented:  # something shares its attributes
        return noted
    state = kind.__getstate__(artist)
    if type(state) is not dict or not state:
        return noted
    return _with_values(pickler, kind, state if instead is None else state | instead, ())


def reduce_line(pickler: Pickler, line: Any) -> Any:
    """It holds the two columns of an array, and then the array."""
    points = _attributes_of(line, "__dict__").get("_xy")
    if getattr(points, "base", line) is None and points.flags.c_contiguous:
        pickler.spanning.add(id(points))
    return ordinary(pickler, line)


def _reduce_packed_line(pickler: Pickler, line: Any) -> Any:
    if not pickler.packs:
        return reduce_line(pickler, line)
    attributes = _attributes_of(line, "__dict__")
    is_old = _is_tick_mark(attributes) or _is_worked_out_again(attributes)
    del attributes  # who holds it is counted
    noted: Any = ordinary(pickler, line) if is_old else reduce_line(pickler, line)
    if noted is not NotImplemented:  # something shares its attributes
        return noted
    kind: Any = type(line)
    state = kind.__getstate__(line)
    if not is_old:
        state["_transformed_path"] = None  # made anew when the line is drawn
        return _with_values(pickler, kind, state, pack(pickler, line, state, _OF_LINE))
    steps = getattr(state.get("_path"), "_interpolation_steps", 1)
    state.update(_UNDRAWN)
    packed = pack(pickler, line, state, _DATA_OF_LINE)
    if steps == 1:
        return _with_values(pickler, kind, state, packed)
    state["_path"] = steps
    return _with_values(pickler, kind, state, packed, undrawn_line)


def _is_worked_out_again(attributes: dict[str, Any]) -> bool:
    """Whether a line knows that all it keeps of its points is old: nothing of it is looked at again but the steps of its path."""
    path = attributes.get("_path")
    return bool(attributes.get("_invalidx") and attributes.get("_invalidy")) and (path is None or path._codes is None)


def _is_tick_mark(attributes: dict[str, Any]) -> bool:
    """Whether a line is the mark of a tick, and all that it keeps follows from its place: it is set whenever ticks are asked for."""
    if attributes.get("_linestyle") != "None" or attributes.get("_drawstyle") != "default":
        return False
    path, points = attributes.get("_path"), attributes.get("_xy")
    marker: Any = getattr(attributes.get("_marker"), "_marker", None)
    if type(marker) is not int:
        return False
    if path is not None and (path._vertices is not points or path._codes is not None or path._interpolation_steps != 1):
        return False
    return _is_place(attributes.get("_xorig"), attributes.get("_invalidx"), points, 0) and _is_place(
        attributes.get("_yorig"), attributes.get("_invalidy"), points, 1
    )


def _is_place(place: Any, is_old: Any, points: Any, column: int) -> bool:
    """Whether a line has at most one number on an axis, and what it keeps of its points there is that, or known to be old."""
    if type(place) not in (list, tuple) or len(place) > 1 or (place and not isinstance(place[0], (int, float))):
        return False
    if is_old:
        return True
    return points is not None and len(points) == len(place) and bool(not place or points[0, column] == place[0])


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


def _with_arrays(kind: type, state: Any, packed: Any) -> Any:
    return _NEW, (kind,), (state, packed), None, None, packed_arrays


def _with_values(
    pickler: Pickler, kind: type, state: dict[str, Any], packed: Any, how: Callable[..., None] = packed_values
) -> Any:
    """The same, for the thousands of artists of a figure: the names of their attributes are written once.

    pickle keeps what it wrote until the end, and a dict for each takes megabytes.
    """
    names: tuple[object, ...] = (*state,)
    key = id(kind), len(names)
    known = pickler.written.get(key)
    if known is None or known != names:  # to compare them takes a third of the time that their hash takes
        known = pickler.written[key] = pickler.written.setdefault(names, names)
    return _NEW, (kind,), (known, (*state.values(),), packed), None, None, how


_DATA_OF_LINE = ("_xorig", "_yorig")
_OF_LINE = (*_DATA_OF_LINE, "_x", "_y")


def reduce_callbacks(pickler: Pickler, registry: Any) -> Any:
    """Its own `__getstate__` takes the next number from a counter: reading the state changed it."""
    pickler.dump_record.instances.append(registry)
    attributes = _attributes_of(registry, "__dict__")
    idle = _idle(type(registry), attributes)
    if idle is not None:
        return idle
    if not any(attributes["callbacks"].values()):
        state = {**attributes, "callbacks": {signal: {} for signal in attributes["callbacks"]}}
        return _NEW, (type(registry),), _with_number(state | {"_func_cid_map": None}, 0)
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
    if len(attributes) != len(_OF_CALLBACKS):
        return None
    try:
        signals, handler, callbacks, numbers, _, _ = _get_of_callbacks(attributes)
    except KeyError:
        return None
    if type(callbacks) is not dict or type(numbers) is not set or type(signals) is not list or callbacks or numbers:
        return None
    if _holds(callbacks) > _OWN_HOLDS or _holds(numbers) > _OWN_HOLDS or _holds(signals) > _OWN_HOLDS:
        return None
    if len(signals) == 1:  # as for each artist
        (signal,) = signals
        key = (id(kind), id(handler), signal) if type(signal) is str else ()
    else:
        key = (id(kind), id(handler), *signals) if all(map(is_, map(type, signals), repeat(str))) else ()
    known = _idles.get(key)
    if known is None and key:
        # The handler is kept with it, so that no other comes to have its id.
        if len(_idles) >= _MOST_IDLE:
            _idles.clear()
        known = _idles[key] = idle_callbacks, (kind, tuple(map(sys.intern, signals)), handler)
    return known


_OF_CALLBACKS = ("_signals", "exception_handler", "callbacks", "_pickled_cids", "_cid_gen", "_func_cid_map")
_get_of_callbacks: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(*_OF_CALLBACKS)
_idles: dict[tuple[object, ...], tuple[object, ...]] = {}
_MOST_IDLE = 100
_holds = sys.getrefcount


def _holds_of_callbacks() -> int:
    attributes: dict[str, Any] = {"callbacks": {}, "_pickled_cids": set[int](), "_signals": []}
    callbacks, numbers, signals = attributes["callbacks"], attributes["_pickled_cids"], attributes["_signals"]
    return max(_holds(callbacks), _holds(numbers), _holds(signals))


_OWN_HOLDS = _holds_of_callbacks()


# -- what is like another one that was described before
#
# A figure has a thousand markers and clip boxes, each with a few objects of its own, and nearly all are alike. To see that
# takes a few looks at each of these objects; to describe one anew, a look at each attribute.


class _Part(NamedTuple):
    """What a part of something is. `above` and `name`: which part holds it, and as what; the whole is the first part.

    `watched` are the weak references to it, `followers` the parts of transforms that follow it, or less than none where
    that says nothing. Whatever follows a part of a transform holds it, too: if one object holds it and one follows it,
    these are the same.
    """

    above: int
    name: str
    kind: type
    names: list[str]
    watched: int
    followers: int
    get: Callable[[dict[str, Any]], tuple[object, ...]]
    plain: tuple[object, ...]
    arrays: tuple[tuple[str, bytes, tuple[int, ...]], ...]


_UNKNOWN = -1


class _Shared(NamedTuple):
    """Where something lies that others hold too. `can_be_own`: if nobody else holds it, it is told as a part."""

    above: int
    name: str
    kind: type
    can_be_own: bool


class _Described(NamedTuple):
    """What was described. `methods`: of which functions it holds methods, and whether these are its own or an empty object's."""

    description: tuple[object, ...]
    parts: tuple[_Part, ...]
    methods: tuple[tuple[str, object, str, bool], ...]
    shared: tuple[_Shared, ...]
    plain: tuple[object, ...]  # what is compared by identity of all parts, one behind the other

    @classmethod
    def of(
        cls,
        description: tuple[object, ...],
        parts: Iterable[_Part],
        methods: Iterable[tuple[str, object, str, bool]],
        shared: Iterable[_Shared],
    ) -> _Described:
        parts = (*parts,)
        return cls(description, parts, (*methods,), (*shared,), tuple(value for part in parts for value in part.plain))


class _Last:
    """What was described last, of each kind, as long as types are pickled as they were then. None of it is a figure's own."""

    def __init__(self) -> None:
        self.table: object = None
        self.described: dict[object, _Described | None] = {}


_last = _Last()
_MOST_DESCRIBED = 100


def _described_in(pickler: Pickler) -> dict[object, _Described | None]:
    if pickler.dispatch_table is not _last.table or len(_last.described) > _MOST_DESCRIBED:
        _last.table = pickler.dispatch_table
        _last.described = {}
    return _last.described


def _note_plain(
    values: dict[str, object],
) -> tuple[Callable[[dict[str, Any]], tuple[object, ...]], tuple[object, ...]]:
    """How to get at attributes at once, and what they were."""
    names = next(iter(values)), *values  # of one name alone `itemgetter` gives no tuple
    return itemgetter(*names), tuple(map(values.__getitem__, names))


def _find_shared_if_alike(whole: Any, attributes: dict[str, Any], before: _Described) -> list[object] | None:
    """Of something that has all that was described for itself, what it shares with others; None of anything else."""
    node = whole
    dicts = [attributes]
    plain: list[object] = []
    for above, name, kind, names, watched, followers, get, _, arrays in before.parts:
        if name:
            node = dicts[above][name]
            if type(node) is not kind or getrefcount(node) > _OF_VARIABLE:
                return None
            attributes = _attributes_of(node, "__dict__")
            dicts.append(attributes)
        elif type(whole) is not kind:
            return None
        if [*attributes] != names or (watched >= 0 and getweakrefcount(node) != watched):
            return None
        if followers >= 0 and len(attributes["_parents"]) != followers:
            return None
        plain += get(attributes)
        for one, points, shape in arrays:
            array = attributes[one]
            if type(array) is not np.ndarray or array.flags.num not in _NUMBERS_OF_OWN:
                if bytes_of(array, _OF_VARIABLE_GIVEN) != points or array.shape != shape:
                    return None
            elif (  # as `bytes_of` looks at it, in line for those in memory of their own, as most are
                getrefcount(array) > _OF_VARIABLE
                or array.dtype is not FLOATS
                or getweakrefcount(array)
                or array.tobytes() != points
                or array.shape != shape
            ):
                return None
    if not all(map(is_, plain, before.plain)):  # at once: most of these parts have three or four
        return None
    for name, function, called, is_own in before.methods:
        method = dicts[0][name]
        if type(method) is not MethodType or method.__func__ is not function or getrefcount(method) > _OF_VARIABLE:
            return None
        if getattr(type(whole), called, None) is not function:
            return None
        if (method.__self__ is not whole) if is_own else not _is_bound_to_empty(method, type(whole)):
            return None
    found: list[object] = []
    for above, name, kind, can_be_own in before.shared:
        node = dicts[above][name]
        if type(node) is not kind or (can_be_own and getrefcount(node) <= _OF_VARIABLE):
            return None
        found.append(node)
    return found


# -- markers
#
# Each line has a marker, and each marker a transform, a function and a path. They are a third of all the objects of a
# figure, and pickling one takes longer than to see that nobody else holds it.

_attributes_of = object.__getattribute__


def _count_holds() -> tuple[int, int, int]:
    """How many references are counted to what one dict alone holds: in a variable here, and as an argument."""
    holder: dict[str, object] = {"a": np.zeros(1)}

    def count(value: object) -> int:
        return getrefcount(value)

    count_of_array = count(holder["a"])
    value = holder["a"]
    return getrefcount(value), count(value), count_of_array


_OF_VARIABLE, _OF_VARIABLE_GIVEN, _OF_GIVEN = _count_holds()
# numpy's flags: contiguous in C's order or in both, owner, aligned and writable; and nothing that it is a copy of lies behind it.
_NUMBERS_OF_OWN = frozenset({0x505, 0x507})

# One object is written once, and equal ones are made one. The types tell apart what is equal, but not the same: 1 and True.
_constants: dict[tuple[object, ...], tuple[object, ...]] = {}
_MOST_CONSTANTS = 5_000


def _constant(made: tuple[object, ...]) -> tuple[object, ...]:
    """The tuple that is written for all that equal this one, and have items of the same types."""
    key = made, tuple(map(type, made))
    known = _constants.get(key)
    if known is None:
        if len(_constants) >= _MOST_CONSTANTS:
            _constants.clear()
        known = _constants[key] = made
    return known


def reduce_marker(pickler: Pickler, style: Any) -> Any:
    if pickler.careful:
        return ordinary(pickler, style)
    attributes = _attributes_of(style, "__dict__")
    made = _describe_marker(pickler, style, attributes) if getrefcount(attributes) <= _OF_VARIABLE else None
    if made is None:
        return ordinary(pickler, style)
    if not pickler.muted or id(style) not in pickler.muted:
        pickler.dump_record.instances.append(style)
    return marker_style, _once(pickler, made)


def _once(pickler: Pickler, made: tuple[object, ...]) -> tuple[object, ...]:
    """The tuple that is written, once in a dump, for all that have the same items."""
    return pickler.written.setdefault((*map(id, made),), made)


def _describe_marker(pickler: Pickler, style: Any, attributes: dict[str, Any]) -> tuple[object, ...] | None:
    """The names of a marker's attributes, its constants, and the paths of matplotlib that it shares with other markers."""
    described = _described_in(pickler)
    marker = attributes.get("_marker")  # what it shows: those that show the same, or are copies of those, are alike
    key = id(marker), getattr(attributes.get("_marker_function"), "__self__", style) is style
    before = described.get(key)
    if before is not None:
        found_shared = _find_shared_if_alike(style, attributes, before)
        if found_shared is not None:
            return *before.description, *found_shared
    parts: list[Any] = []
    shared: list[object] = []
    for value in attributes.values():
        kind = type(value)
        how = _HOW_OF_MARKERS.get(id(kind)) or _how_of_marker(kind)
        if how is _PLAIN:
            parts.append(value)
            continue
        found = how(style, value)
        if found is None and how is _describe_path:
            shared.append(value)
            found = _SHARED
        if found is None:
            return None
        parts.append(found)
    description = type(style), _constant(tuple(attributes)), _constant(tuple(parts))
    if id(marker) in map(id, parts):  # so it lives as long as what is noted of it
        described[key] = _note_marker(style, attributes, description)
    return *description, *shared


def _note_marker(style: Any, attributes: dict[str, Any], description: tuple[Any, ...]) -> _Described | None:
    plain: dict[str, object] = {}
    parts: list[_Part] = []
    methods: list[tuple[str, object, str, bool]] = []
    shared: list[_Shared] = []
    for (name, value), told in zip(attributes.items(), description[2], strict=True):
        if type(told) is not tuple or told[0] == "number":
            plain[name] = value
        elif told == _SHARED:
            shared.append(_Shared(0, name, type(value), can_be_own=True))
        elif told[0] == "method":
            methods.append((name, value.__func__, told[1], told[2]))
        else:
            parts.append(_note_part(name, value, "_vertices" if told[0] == "path" else "_mtx"))
    if not plain:
        return None
    whole = _Part(0, "", type(style), [*attributes], _UNKNOWN, _UNKNOWN, *_note_plain(plain), ())
    return _Described.of(description, (whole, *parts), methods, shared)


def _note_part(name: str, node: Any, array: str) -> _Part:
    """Note what a marker's path, or its transform, is."""
    attributes = _attributes_of(node, "__dict__")
    plain = {one: value for one, value in attributes.items() if one not in (array, "_parents")}
    found = attributes.get(array)
    arrays = () if found is None else ((array, found.tobytes(), found.shape),)
    followers = 0 if "_parents" in attributes else _UNKNOWN
    return _Part(0, name, type(node), [*attributes], 0, followers, *_note_plain(plain), arrays)


def _how_of_marker(kind: type) -> Any:
    """How an attribute of this type is told of: as it is, or by a function that gives None where it is not only the marker's."""
    plain = kind in _ATOMS or module_name(kind) == "matplotlib._enums"
    how = _PLAIN if plain else _BY_NAME.get((module_name(kind), kind.__name__), _describe_nothing)
    if module_name(kind).partition(".")[0] in ("builtins", "matplotlib"):
        _HOW_OF_MARKERS[id(kind)] = how
    return how


def _describe_number(_: object, number: float) -> tuple[object, ...] | None:
    # Other zeros equal it, and nothing equals what is no number.
    return ("number", number) if number and number == number else None


def _describe_nothing(_: object, __: object) -> None:
    return None


def _describe_method(style: Any, method: Any) -> tuple[object, ...] | None:
    """The name of a method of the marker itself, or of an empty one: in copying a marker matplotlib makes one of those."""
    name, owner = method.__func__.__name__, method.__self__
    if getattr(type(style), name, None) is not method.__func__ or getrefcount(method) > _OF_VARIABLE_GIVEN:
        return None
    if owner is style:
        return "method", name, True
    del owner
    return ("method", name, False) if _is_bound_to_empty(method, type(style)) else None


def _is_bound_to_empty(method: Any, kind: type) -> bool:
    owner = method.__self__
    if type(owner) is not kind or getrefcount(owner) > _OF_VARIABLE or getweakrefcount(owner):
        return False
    return not _attributes_of(owner, "__dict__")


def _describe_transform(_: object, transform: Any) -> tuple[object, ...] | None:
    """The constants of a transform that is one matrix, or none, and that nothing follows."""
    name = type(transform).__name__
    attributes = _attributes_of(transform, "__dict__")
    if name not in _OF_MATRIX or attributes.keys() != _OF_MATRIX[name]:
        return None
    if attributes["_parents"] or attributes["_inverted"] is not None or not _is_plain_state(attributes):
        return None
    if getrefcount(transform) > _OF_VARIABLE_GIVEN or getweakrefcount(transform):
        return None
    matrix = bytes_of(attributes["_mtx"], _OF_GIVEN) if name == "Affine2D" else b""
    if matrix is None or (matrix and attributes["_mtx"].shape != (3, 3)):
        return None
    return "transform", name, attributes["_invalid"], attributes["_shorthand_name"], matrix


def _is_plain_state(attributes: dict[str, Any]) -> bool:
    return type(attributes["_invalid"]) is int and type(attributes["_shorthand_name"]) is str


_OF_MATRIX = {
    "IdentityTransform": {"_parents", "_invalid", "_shorthand_name", "_inverted"},
    "Affine2D": {"_parents", "_invalid", "_shorthand_name", "_inverted", "_mtx"},
}


def _describe_path(_: object, path: Any) -> tuple[object, ...] | None:
    """The constants of a path that only its marker has."""
    attributes = _attributes_of(path, "__dict__")
    if attributes.keys() != _OF_PATH or getrefcount(path) > _OF_VARIABLE_GIVEN or getweakrefcount(path):
        return None
    vertices, codes = attributes["_vertices"], attributes["_codes"]
    points = bytes_of(vertices, _OF_VARIABLE_GIVEN)
    rest = tuple(attributes[name] for name in _PLAIN_OF_PATH)
    if points is None or codes is not None or not all(type(one) in (int, float, bool) for one in rest):
        return None
    return "path", points, vertices.shape, *rest, *map(type, rest)


_PLAIN_OF_PATH = ("_interpolation_steps", "_simplify_threshold", "_should_simplify", "_readonly")
_OF_PATH = {"_vertices", "_codes", *_PLAIN_OF_PATH}


_ATOMS = (type(None), str, bool, int)
_PLAIN = object()
_SHARED = ("shared",)
_HOW_OF_MARKERS: dict[int, Any] = {}
_BY_NAME: dict[tuple[str, str], Any] = {
    ("builtins", "float"): _describe_number,
    ("builtins", "method"): _describe_method,
    ("matplotlib.transforms", "IdentityTransform"): _describe_transform,
    ("matplotlib.transforms", "Affine2D"): _describe_transform,
    ("matplotlib.path", "Path"): _describe_path,
}


# -- parts of transforms, saved alike whether they were used before or not
#
# Each part knows what follows it by weak references. What it follows itself it holds, so it is saved without the others,
# and loaded so that it tells them of itself.

_HANDLERS = HANDLERS.by_id


def reduce_transform(pickler: Pickler, node: Any) -> Any:
    if pickler.careful or (pickler.muted and id(node) in pickler.muted):
        return pickler.custom(node)
    kind: Any = type(node)
    name = kind.__name__
    pickler.dump_record.opaque.append(node)
    pickler.note_class_level(kind)
    attributes: dict[str, Any] = node.__dict__
    if name == "TransformedBbox":
        description = _describe_undrawn_box(pickler, node, attributes) or _describe_box(pickler, node, attributes)
        if description is not None:
            return _NEW, (kind,), _once(pickler, description), None, None, told_box
    if attributes.get("_invalid") and name not in _PASS_ON and name not in _PATHS:
        _work_out(node, attributes, pickler.linear)
    state = _state_of_transform(name, node, attributes)
    if name in _PATHS:
        return _NEW, (kind,), state, None, None, transformed_path
    packed = () if name in _PASS_ON or not pickler.packs else pack(pickler, node, state, state)
    if packed and pickler.set_when_drawn and type(state.get("_mtx")) is bytes:
        parts = [attributes.get("_a"), attributes.get("_b")] if name == "CompositeAffine2D" else [node]
        if all(pickler.set_when_drawn.get(id(part)) is _NOT_MOVED for part in parts):
            state |= _NOT_MOVED
    return _with_arrays(kind, state, packed)


# These keep a path as it was transformed when it was drawn last.
_PATHS = frozenset({"TransformedPath", "TransformedPatchPath"})


def _follows(parent: Any, child: object) -> bool:
    """Whether a part of a transform is loaded so that it follows this one again."""
    kind = type(parent)
    if not _uses_reduce_transform(kind):
        return False
    if kind.__name__ in _PATHS:
        return True
    # One that most objects of its type have: a transform of axes has a thousand parents.
    name = _child_names.get(id(kind))
    if name is not None and getattr(parent, name, None) is child:
        return True
    attributes = _attributes_of(parent, "__dict__")
    name = next((one for one in attributes.keys() & CHILDREN if attributes[one] is child), None)
    if name is not None and not hasattr(kind, name):
        _child_names[id(kind)] = name
    return name is not None


# By the ids of types of matplotlib: what objects of each held the last one as that they were looked up for.
_child_names: dict[int, str] = {}


def _uses_reduce_transform(kind: type) -> bool:
    """Whether `reduce_transform` says how objects of this type are saved."""
    handler: Any = _HANDLERS.get(id(kind)) or find_handler(kind)
    return handler is reduce_transform


# All that changes below passes through these, whatever they say of themselves.
_PASS_ON = frozenset({"CompositeGenericTransform", "TransformWrapper", "BlendedGenericTransform"})
_UNTRANSFORMED: dict[str, object] = {"_transformed_path": None, "_transformed_points": None, "_invalid": 1}


def _state_of_transform(name: str, node: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """What a part of a transform is saved with: the same before it was drawn, or asked for anything, and afterwards.

    It keeps matrices and points until what they are worked out from changes. Those are worked out now, unless code that
    is not matplotlib's would run. Of what follows it only that is saved which does not tell of itself what it follows,
    as parts of transforms do, and transformed paths that are made when lines are drawn.
    """
    state = attributes.copy()  # as matplotlib does it, but for those that are left out
    parents = [found for known in attributes["_parents"].values() if (found := known()) is not None]
    state["_parents"] = dict(enumerate(found for found in parents if not _follows(found, node)))
    if name in _PATHS:
        state |= _UNTRANSFORMED
    elif name in _PASS_ON:
        state["_invalid"] = 1
        if "_affine" in state:
            state["_affine"] = None
    elif state.get("_inverted") is not None and sys.getrefcount(state["_inverted"]) <= _OF_AN_INVERSE:
        state["_inverted"] = None
    return state


_OF_AN_INVERSE = 3  # the transform, `state`, and getrefcount's argument


def _work_out(node: Any, attributes: dict[str, Any], linear: dict[int, bool]) -> None:
    if not _is_linear(node, attributes, linear):
        return
    ask = node.get_matrix if "_mtx" in attributes else getattr(node, "get_points", None)
    if "_boxin" in attributes:  # it may be empty, and is divided by
        numpy: Any = sys.modules["numpy"]
        with numpy.errstate(all="ignore"):
            node.get_matrix()
    elif ask is not None:
        ask()


def _is_linear(node: Any, attributes: dict[str, Any], linear: dict[int, bool]) -> bool:
    """Whether what a part of a transform is worked out from is linear, and all of matplotlib's own."""
    known = linear.get(id(node))
    if known is None:
        ours = type(node).__module__.startswith("matplotlib.")
        below = [attributes[name] for name in CHILDREN & attributes.keys()] if ours else []
        if below:
            ours = all(_is_linear(found, found.__dict__, linear) for found in below)
        else:
            leaves = (
                loaded_class("matplotlib.transforms", "Bbox"),
                loaded_class("matplotlib.transforms", "AffineBase"),
            )
            ours = ours and isinstance(node, leaves)
        known = linear[id(node)] = ours
    return known


# -- clip boxes


def _describe_box(pickler: Pickler, box: Any, attributes: dict[str, Any]) -> tuple[object, ...] | None:
    """The constants of a box that nothing follows, and the transforms that lie below it and are not its own.

    The clip box of an artist is the unit box, turned by a transform that goes to where the patch of the axes is, and from
    there to where these are. All in between is its own, and made anew with it. Nearly all boxes of a figure are alike: so
    each is held against the one before first.
    """
    if attributes["_parents"]:
        return None
    if attributes.get("_invalid"):
        _work_out(box, attributes, pickler.linear)
    described = _described_in(pickler)
    before = described.get(_BOX)
    if before is not None:
        shared = _find_shared_if_alike(box, attributes, before)
        if shared is not None:
            return *before.description, *shared
    shared = []
    told = _describe_node(box, attributes, shared, pickler.linear)
    if told is None:
        return None
    description = _constant(told)
    described[_BOX] = _note_box(box, description)
    return description, *shared


def _describe_undrawn_box(pickler: Pickler, box: Any, attributes: dict[str, Any]) -> tuple[object, ...] | None:
    """What `_describe_box` says of a box that was not worked out yet; None of any other.

    To work one out takes longer than all else. Those that are made alike, of the same transforms, come out alike: so one is enough.
    """
    if not attributes.get("_invalid") or attributes["_parents"]:
        return None
    undrawn = pickler.undrawn
    shared = _find_shared_if_alike(box, attributes, undrawn.box) if undrawn is not None else None
    if undrawn is not None and shared is not None:
        known = undrawn.descriptions.get((*map(id, shared),))
        if known is None:
            known = undrawn.descriptions[*map(id, shared),] = shared, _describe_box(pickler, box, attributes)
        return known[1]
    shared = []
    told = _describe_node(box, attributes, shared, None)
    noted = _note_box(box, _constant(told)) if told is not None else None
    description = _describe_box(pickler, box, attributes)
    if noted is not None:
        pickler.undrawn = Undrawn(noted, {(*map(id, shared),): (shared, description)})
    return description


class Undrawn(NamedTuple):
    """A box as it is before it is worked out, and what those that are alike come out as, by the ids of what they share."""

    box: _Described
    descriptions: dict[tuple[int, ...], tuple[list[object], tuple[object, ...] | None]]


_BOX = "clip box"


def _note_box(box: Any, description: tuple[Any, ...]) -> _Described | None:
    parts: list[_Part] = []
    shared: dict[int, _Shared] = {}
    waiting: list[tuple[int, str, Any, tuple[Any, ...]]] = [(0, "", box, description)]
    for above, name, node, told in waiting:  # it grows
        if len(told) == 1:
            shared[told[0]] = _Shared(above, name, type(node), type(node).__name__ in _OWN)
            continue
        form = _forms[id(type(node))]
        if form.names != told[0]:  # two parts of one type have other attributes
            return None
        values = dict(zip((one for one, _, _ in form.described), told[1:], strict=False))
        arrays = [one for one, _, how in form.described if how == "array" and values[one] is not None]
        plain = [one for one, _, how in form.described if how in ("", "inverse", "array") and one not in arrays]
        if not plain:
            return None
        attributes, place = _attributes_of(node, "__dict__"), len(parts)
        parts.append(
            _Part(
                *(above, name, type(node), [*form.names], form.followed, int(bool(name))),
                *_note_plain({one: values[one] for one in plain}),
                tuple((one, *values[one]) for one in arrays),
            )
        )
        waiting += ((place, one, attributes[one], values[one]) for one, _, how in form.described if how == "child")
    return _Described.of((description,), parts, (), (shared[place] for place in sorted(shared)))


def _is_followed_by(attributes: dict[str, Any], parent: object) -> bool:
    """Whether nothing follows a part of a transform but this one."""
    parents = attributes["_parents"]
    if len(parents) != 1:
        return False
    (known,) = parents.values()
    return known() is parent


def _describe_node(
    node: Any, attributes: dict[str, Any], shared: list[object], linear: dict[int, bool] | None
) -> tuple[object, ...] | None:
    """Args: linear: what is known of parts of transforms, to work out those below; None: they are told of as they are."""
    kind = type(node)
    form = _forms.get(id(kind))
    if form is None or form.names != (*attributes,):
        form = _note_form(kind, (*attributes,))
    parts: list[object] = [form.names]
    for name, plain, how in form.described:
        value = attributes[name]
        if plain is not None:  # first: most are None, a number or a word
            if value is not None and type(value) is not plain:
                return None
        elif how == "child":
            value = _describe_child(value, node, shared, linear)
            if value is None:
                return None
        elif how == "passed on":
            value = 1
        elif value is None:
            pass
        elif how == "array":
            points = bytes_of(value, _OF_VARIABLE_GIVEN)
            if points is None:
                return None
            value = points, value.shape
        elif getrefcount(value) > _OF_VARIABLE:  # an inverse, which is worked out again
            return None
        else:
            value = None
        parts.append(value)
    if getweakrefcount(node) != form.followed:  # its children know it by weak references
        return None
    parts.append(form.name)
    return (*parts,)


class _Form(msgspec.Struct, frozen=True):
    """How objects of a type are told of: by each attribute but those that follow it. `followed`: how many are its children."""

    kind: type  # kept, so that no other comes to have its id
    name: str
    names: tuple[str, ...]
    described: tuple[tuple[str, type | None, str], ...]  # the attribute, and its type or what it is
    followed: int


_forms: dict[int, _Form] = {}
_HOW: dict[str, Any] = {
    **dict.fromkeys(("_invalid", "input_dims", "output_dims"), int),
    **dict.fromkeys(("_points", "_points_orig", "_minpos", "_mtx"), "array"),
    **dict.fromkeys(CHILDREN, "child"),
    "_shorthand_name": str,
    "_ignore": bool,
    "_inverted": "inverse",
}


def _note_form(kind: type, names: tuple[str, ...]) -> _Form:
    hows = [(name, _HOW.get(name, type(None))) for name in names if name != "_parents"]
    if kind.__name__ in _PASS_ON:
        hows = [(name, "passed on" if name == "_invalid" else how) for name, how in hows]
    followed = sum(how == "child" for _, how in hows)
    described = tuple((name, None, how) if isinstance(how, str) else (name, how, "") for name, how in hows)
    made = _forms[id(kind)] = _Form(kind, kind.__name__, names, described, followed)
    return made


def _describe_child(
    child: Any, parent: object, shared: list[object], linear: dict[int, bool] | None
) -> tuple[object, ...] | None:
    """The constants of what only its parent has, or the number of what others have too; None if that is unknown."""
    kind = type(child)
    if not _uses_reduce_transform(kind):
        return None
    if getrefcount(child) > _OF_VARIABLE_GIVEN or kind.__name__ not in _OWN:
        shared.append(child)
        return (len(shared) - 1,)
    attributes = _attributes_of(child, "__dict__")
    if not _is_followed_by(attributes, parent):
        return None
    if attributes["_invalid"] and linear is not None and kind.__name__ not in _PASS_ON:
        _work_out(child, attributes, linear)
    return _describe_node(child, attributes, shared, linear)


_OWN = frozenset({"Bbox", "BboxTransformTo", "Affine2D", "CompositeGenericTransform", "IdentityTransform"})
