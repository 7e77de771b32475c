"""Parts of matplotlib's figures."""
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# What was told of them is of any type.

from __future__ import annotations

import sys
import weakref
from typing import Any

from agent_kernel.values.restore.arrays import packed_values


def drawn_figure(figure: Any, state: dict[str, Any]) -> None:
    """Give a figure its attributes, and a canvas that draws to memory, whatever window it was shown in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.__setstate__(state)
    FigureCanvasAgg(figure)


def idle_callbacks(kind: Any, signals: tuple[str, ...], handler: object) -> Any:
    """A registry of callbacks that has none."""
    made = kind.__new__(kind)
    made.__setstate__(
        {
            "_signals": [*signals],
            "exception_handler": handler,
            "callbacks": {},
            "_func_cid_map": None,
            "_pickled_cids": set(),
            "_cid_gen": 0,
        }
    )
    return made


def marker_style(kind: Any, names: tuple[str, ...], told: tuple[Any, ...], *shared: Any) -> Any:
    """A marker with the transform, the function and the paths that it has for itself, and those that it shares."""
    made = kind.__new__(kind)
    paths = iter(shared)
    for name, value in zip(names, told, strict=True):
        if type(value) is tuple:
            what, *parts = value
            if what == "method":
                bound = made if parts[1] else kind.__new__(kind)
                value = getattr(bound, parts[0])
            elif what == "shared":
                value = next(paths)
            elif what == "number":
                value = parts[0]
            else:
                value = _path(*parts[:6]) if what == "path" else _transform(*parts)
        made.__dict__[name] = value
    return made


def _path(points: bytes, shape: tuple[int, ...], steps: int, threshold: float, simplifies: bool, readonly: bool) -> Any:
    from matplotlib.path import Path

    made: Any = Path.__new__(Path)
    made.__dict__.update(
        _vertices=_floats(points, shape),
        _codes=None,
        _interpolation_steps=steps,
        _simplify_threshold=threshold,
        _should_simplify=simplifies,
        _readonly=readonly,
    )
    return made


def _transform(name: str, invalid: int, shorthand: str, matrix: bytes) -> Any:
    from matplotlib import transforms

    kind: Any = getattr(transforms, name)
    made = kind.__new__(kind)
    made.__dict__.update(_parents={}, _invalid=invalid, _shorthand_name=shorthand, _inverted=None)
    if matrix:
        made.__dict__["_mtx"] = _floats(matrix, (3, 3))
    return made


def _floats(payload: bytes, shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.frombuffer(bytearray(payload), np.float64).reshape(shape).copy()


# The attributes in which parts of transforms hold those that they follow.
CHILDREN = frozenset(
    {"_bbox", "_transform", "_boxin", "_boxout", "_a", "_b", "_x", "_y", "_child", "_scale_trans", "_base_transform"}
)


def told_box(box: Any, told: tuple[Any, ...]) -> None:
    """Give a box its attributes, and make what it has for itself of the transforms below it."""
    _tell(box, told[0], told[1:])


def _tell(node: Any, told: tuple[Any, ...], shared: tuple[Any, ...]) -> None:
    from matplotlib import transforms

    names, *values, _ = told
    rest = iter(values)
    attributes = node.__dict__
    followed = attributes.get("_parents", {})
    attributes.clear()
    for name in names:
        if name == "_parents":
            attributes[name] = followed
            continue
        value = next(rest)
        if name in CHILDREN:
            if len(value) == 1:
                child = shared[value[0]]
            else:
                kind: Any = getattr(transforms, value[-1])
                child = kind.__new__(kind)
                _tell(child, value, shared)
            follow(node, child)
            value = child
        elif type(value) is tuple:
            value = _floats(*value)
        attributes[sys.intern(name)] = value


def follow_children(node: Any) -> None:
    """Let what a part of a transform follows tell it of changes: it is saved without those that follow it."""
    from matplotlib.transforms import TransformNode

    for name, value in list(node.__dict__.items()):
        if name in CHILDREN and isinstance(value, TransformNode):
            follow(node, value)


def follow(parent: Any, child: Any) -> None:
    """Let a part of a transform tell another one of changes. After it gets its attributes, tell it again."""
    key = id(parent)
    parents: dict[int, Any] = child.__dict__.setdefault("_parents", {})
    # No weak reference to what is followed: how many there are says who follows that.
    parents[key] = weakref.ref(parent, lambda _: parents.pop(key, None) and None)


def undrawn_line(line: Any, state: tuple[Any, ...]) -> None:
    """Give a line its attributes, of which one says in how many steps its path is drawn: the path is made when it is drawn."""
    import numpy as np
    from matplotlib.path import Path

    packed_values(line, state)
    line._path = Path(np.empty((0, 2)), _interpolation_steps=line._path)


def transformed_path(path: Any, state: dict[str, Any]) -> None:
    """Give a transformed path its attributes, and let the transform that it follows tell it of changes."""
    path.__setstate__({sys.intern(name): value for name, value in state.items()})
    follow(path, state["_transform"])
