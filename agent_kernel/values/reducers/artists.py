"""matplotlib: markers, with the small objects that each has for itself, as a few constants.

Each line has a marker, and each marker a transform, a function and a path. They are a third of all the objects of a
figure, and pickling one takes longer than to see that nobody else holds it. What someone else may hold, or what is not
as matplotlib makes it, is pickled as any object.
"""

# What is looked through here is of any type.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import getweakrefcount

import numpy as np

from agent_kernel.values.reducers import ordinary
from agent_kernel.values.reducers.arrays import bytes_of
from agent_kernel.values.restore.figures import marker_style
from agent_kernel.values.summaries.reading import module_name

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_attributes_of = object.__getattribute__


def _count_holds() -> tuple[int, int, int]:
    """How many references are counted to what one dict alone holds: in a variable here, and as an argument."""
    held: dict[str, object] = {"a": np.zeros(1)}

    def count(value: object) -> int:
        return getrefcount(value)

    given = count(held["a"])
    value = held["a"]
    return getrefcount(value), count(value), given


OF_VARIABLE, OF_VARIABLE_GIVEN, OF_GIVEN = _count_holds()

# One object is written once, and equal ones are made one. The types tell apart what is equal, but not the same: 1 and True.
_constants: dict[tuple[object, ...], tuple[object, ...]] = {}
_MOST_CONSTANTS = 5_000


def constant(made: tuple[object, ...]) -> tuple[object, ...]:
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
    made = _told_of_marker(style, attributes) if getrefcount(attributes) <= OF_VARIABLE else None
    if made is None:
        return ordinary(pickler, style)
    if not pickler.muted or id(style) not in pickler.muted:
        pickler.dump_record.instances.append(style)
    return marker_style, made


def _told_of_marker(style: Any, attributes: dict[str, Any]) -> tuple[object, ...] | None:
    """The names of a marker's attributes, its constants, and the paths of matplotlib that it shares with other markers."""
    told: list[object] = []
    shared: list[object] = []
    for value in attributes.values():
        kind = type(value)
        how = _HOW.get(id(kind)) or _find_how(kind)
        if how is _PLAIN:
            told.append(value)
            continue
        found: tuple[object, ...] | None = how(style, value)
        if found is None and how is _told_of_path:
            shared.append(value)
            found = _SHARED
        if found is None:
            return None
        told.append(found)
    return type(style), constant(tuple(attributes)), constant(tuple(told)), *shared


def _find_how(kind: type) -> Any:
    """How an attribute of this type is told of: as it is, or by a function that gives None where it is not only the marker's."""
    plain = kind in _ATOMS or module_name(kind) == "matplotlib._enums"
    how = _PLAIN if plain else _BY_NAME.get((module_name(kind), kind.__name__), _not_told)
    if module_name(kind).partition(".")[0] in ("builtins", "matplotlib"):
        _HOW[id(kind)] = how
    return how


def _told_of_number(_: object, number: float) -> tuple[object, ...] | None:
    # Other zeros equal it, and nothing equals what is no number.
    return ("number", number) if number and number == number else None


def _not_told(_: object, __: object) -> None:
    return None


def _told_of_method(style: Any, method: Any) -> tuple[object, ...] | None:
    """The name of a method of the marker itself, or of an empty one: in copying a marker matplotlib makes one of those."""
    name, bound = method.__func__.__name__, method.__self__
    if getattr(type(style), name, None) is not method.__func__ or getrefcount(method) > OF_VARIABLE_GIVEN:
        return None
    if bound is style:
        return "method", name, True
    if type(bound) is not type(style) or getrefcount(bound) > OF_VARIABLE or getweakrefcount(bound):
        return None
    return None if _attributes_of(bound, "__dict__") else ("method", name, False)


def _told_of_transform(_: object, transform: Any) -> tuple[object, ...] | None:
    """The constants of a transform that is one matrix, or none, and that nothing follows."""
    name = type(transform).__name__
    attributes = _attributes_of(transform, "__dict__")
    if name not in _OF_MATRIX or attributes.keys() != _OF_MATRIX[name]:
        return None
    if attributes["_parents"] or attributes["_inverted"] is not None or not _is_plain_state(attributes):
        return None
    if getrefcount(transform) > OF_VARIABLE_GIVEN or getweakrefcount(transform):
        return None
    matrix = bytes_of(attributes["_mtx"], OF_GIVEN) if name == "Affine2D" else b""
    if matrix is None or (matrix and attributes["_mtx"].shape != (3, 3)):
        return None
    return "transform", name, attributes["_invalid"], attributes["_shorthand_name"], matrix


def _is_plain_state(attributes: dict[str, Any]) -> bool:
    return type(attributes["_invalid"]) is int and type(attributes["_shorthand_name"]) is str


_OF_MATRIX = {
    "IdentityTransform": {"_parents", "_invalid", "_shorthand_name", "_inverted"},
    "Affine2D": {"_parents", "_invalid", "_shorthand_name", "_inverted", "_mtx"},
}


def _told_of_path(_: object, path: Any) -> tuple[object, ...] | None:
    """The constants of a path that only its marker has."""
    attributes = _attributes_of(path, "__dict__")
    if attributes.keys() != _OF_PATH or getrefcount(path) > OF_VARIABLE_GIVEN or getweakrefcount(path):
        return None
    vertices, codes = attributes["_vertices"], attributes["_codes"]
    points = bytes_of(vertices, OF_VARIABLE_GIVEN)
    rest = tuple(attributes[name] for name in _PLAIN_OF_PATH)
    if points is None or codes is not None or not all(type(one) in (int, float, bool) for one in rest):
        return None
    return "path", points, vertices.shape, *rest, *map(type, rest)


_PLAIN_OF_PATH = ("_interpolation_steps", "_simplify_threshold", "_should_simplify", "_readonly")
_OF_PATH = {"_vertices", "_codes", *_PLAIN_OF_PATH}


_ATOMS = (type(None), str, bool, int)
_PLAIN = object()
_SHARED = ("shared",)
_HOW: dict[int, Any] = {}
_BY_NAME: dict[tuple[str, str], Any] = {
    ("builtins", "float"): _told_of_number,
    ("builtins", "method"): _told_of_method,
    ("matplotlib.transforms", "IdentityTransform"): _told_of_transform,
    ("matplotlib.transforms", "Affine2D"): _told_of_transform,
    ("matplotlib.path", "Path"): _told_of_path,
}
