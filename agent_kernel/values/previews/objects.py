"""Previews of objects whose type is not exactly known, and of functions, classes, modules and exceptions.

An object is shown by a base type, its attributes, or the parameters of a model.

Its class may define anything, so only the interpreter's own slots and the base types' own methods are used, and only
for what a built-in or library base keeps outside the class's reach: a length, a shape, a block manager.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from msgspec.structs import replace

from agent_kernel.text import MASK, MORE, clean, count_noun, shorten
from agent_kernel.values.introspection import (
    ExactTypes,
    bases_of,
    class_dict,
    derives_from,
    entry,
    exact_items,
    exact_str,
    find_loaded,
    instance_dict,
    is_of_notebook,
    module_dict,
    qualified_name,
    shallow_size,
    type_name,
    type_text,
)
from agent_kernel.values.previews.arrays import dataframe, ndarray, series
from agent_kernel.values.previews.model import (
    CELL,
    LONGEST_TEXT,
    MODEL,
    Column,
    Preview,
    cell,
    entry_of_slot,
    is_plain,
    is_slot,
    label,
    short_text,
)
from agent_kernel.values.previews.redaction import labels_a_secret, names_a_secret, names_its_neighbours

# -- previews of functions, classes, modules and exceptions: what they are called, never what they would say
#
# Signatures come from the code object; `inspect` would follow `__wrapped__`, `__signature__` and `__text_signature__`
# into foreign attributes.

_MOST_LINES = 20_000  # entries of a line table that are read
_MOST_PARAMETERS = 12
_VARARGS, _VARKEYWORDS = 0x04, 0x08


def function(value: FunctionType, hide: bool) -> Preview:
    """A function by its signature and number of lines."""
    text = shorten(clean(f"{exact_str(value.__name__)[:LONGEST_TEXT]}({_signature(value)})"), LONGEST_TEXT)
    return Preview(
        "function", "function", text, note=count_noun(line_count(value.__code__), "line"), masked=MASK in text
    )


def method(value: MethodType, hide: bool) -> Preview:
    """A bound method by its function and the type of what it is bound to."""
    owner = type_name(value.__self__)
    name = exact_str(value.__func__.__name__) if type(value.__func__) is FunctionType else MORE
    return Preview("function", "method", shorten(clean(f"{owner}.{name}"), LONGEST_TEXT))


def builtin(value: BuiltinFunctionType, hide: bool) -> Preview:
    """A function written in C."""
    owner = value.__self__
    prefix = "" if owner is None or type(owner) is ModuleType else f"{type_name(owner)}."
    return Preview("function", type_name(value), shorten(clean(prefix + value.__name__), LONGEST_TEXT))


def partial(value: functools.partial[Any], hide: bool) -> Preview:
    """A partial by the name of the function under it."""
    return Preview("function", "functools.partial", shorten(_callable_name(value.func), LONGEST_TEXT))


def cached(value: object, hide: bool) -> Preview:
    """A `functools.lru_cache` wrapper by the function that it caches."""
    wrapped = entry(instance_dict(value), "__wrapped__")
    note = count_noun(line_count(wrapped.__code__), "line") if type(wrapped) is FunctionType else ""
    return Preview("function", "functools.lru_cache", shorten(_callable_name(wrapped), LONGEST_TEXT), note=note)


def class_(value: type, hide: bool = False) -> Preview:
    """A class by its name and the number of methods in its body."""
    methods = sum(type(attribute) is FunctionType for attribute in class_dict(value).values())
    return Preview("class", type_name(value), type_text(value), note=count_noun(methods, "method") if methods else "")


def module(value: ModuleType, hide: bool) -> Preview:
    """A module by its name."""
    return Preview("module", "module", shorten(clean(exact_str(entry(module_dict(value), "__name__"))), LONGEST_TEXT))


def line_count(code: CodeType) -> int:
    """Lines from the first one of a function to its last, those of nested functions included."""
    return 1 + max(_lines(code, 3), default=code.co_firstlineno) - code.co_firstlineno


def _lines(code: CodeType, depth: int) -> Iterator[int]:
    yield from (line for _, _, line in islice(code.co_lines(), _MOST_LINES) if line is not None)
    if depth:
        for constant in islice(code.co_consts, _MOST_LINES):
            if type(constant) is CodeType:
                yield from _lines(constant, depth - 1)


def _callable_name(value: object) -> str:
    if type(value) is FunctionType:
        return clean(exact_str(value.__name__))
    return clean(value.__name__) if type(value) is BuiltinFunctionType else type_name(value)


def _signature(value: FunctionType) -> str:
    parameters = list(islice(_code_parameters(value), _MOST_PARAMETERS + 1))
    return ", ".join([*parameters[:_MOST_PARAMETERS], MORE] if len(parameters) > _MOST_PARAMETERS else parameters)


def _code_parameters(value: FunctionType) -> Iterator[str]:
    code = value.__code__
    names = [exact_str(name) for name in code.co_varnames]
    positional, keyword = code.co_argcount, code.co_kwonlyargcount
    defaults = value.__defaults__ or ()
    for place, name in enumerate(names[:positional]):
        from_end = place - positional + len(defaults)
        yield name if from_end < 0 else _with_default(name, defaults[from_end])
        if place + 1 == code.co_posonlyargcount:
            yield "/"
    takes_any = bool(code.co_flags & _VARARGS)
    if takes_any:
        yield f"*{names[positional + keyword]}"
    elif keyword:
        yield "*"
    # Keyword defaults lie in a dict that anyone may have filled: it is read by walking, not by looking up.
    keyword_defaults: dict[str, object] = value.__kwdefaults__ or {}
    defaults_by_name = {name: default for name, default in keyword_defaults.items() if type(name) is str}
    for name in names[positional : positional + keyword]:
        yield _with_default(name, defaults_by_name[name]) if name in defaults_by_name else name
    if code.co_flags & _VARKEYWORDS:
        yield f"**{names[positional + keyword + takes_any]}"


def _with_default(name: str, default: object) -> str:
    if names_a_secret(name) and default is not None:
        return f"{name}={MASK}"
    return f"{name}={cell(default, 16) if is_plain(default) else MORE}"


# -- the attributes of objects whose class a cell made, of dataclasses and of widgets: what their slots and dicts hold
#
# Such a class is stored apart from its instances, and its instances together, so that nobody can tell from what is stored
# which attribute is which. Only what the interpreter itself keeps is looked at: no property, no `__getattr__` runs.

_MOST = 40
_MOST_COUNTED = 10_000
_item_of: Callable[[object, int], object] = class_dict(tuple)["__getitem__"]  # type: ignore[assignment]  # its own slot


def with_attributes(preview: Preview, value: object) -> Preview:
    """The preview with the object's attributes, if it has any that may be told."""
    kind = type(value)
    is_widget = derives_from(kind, find_loaded("ipywidgets", "Widget"))
    is_data = is_of_notebook(kind) or entry(class_dict(kind), "__dataclass_fields__") is not None
    if preview.masked or not (is_data or is_widget):
        return preview
    attributes = _traits(value) if is_widget else _attributes(value, preview)
    found = list(islice(attributes, _MOST_COUNTED))
    first = found[:_MOST]
    hide = any(names_its_neighbours(name, attribute) for name, attribute in first)
    hide = hide or (is_widget and (labels_a_secret(kind.__name__) or labels_a_secret(dict(found).get("description"))))
    columns = tuple(
        Column(label(name, CELL), MASK if hide or labels_a_secret(name) else short_text(held, CELL, depth=1))
        for name, held in first
    )
    masked = any(MASK in part for column in columns for part in (column.name, column.of))
    return replace(preview, columns=columns, masked=masked, attributes=len(found))


def _traits(widget: object) -> Iterator[tuple[str, object]]:
    """What a widget shows, without how it looks."""
    traits = entry(instance_dict(widget), "_trait_values")
    for name, held in list(cast("dict[object, object]", traits).items()) if type(traits) is dict else ():
        says_nothing = held is None or held is False or (type(held) is str and not held)
        if type(name) is str and not name.startswith("_") and name not in _LOOKS and not says_nothing:
            yield name, held


_LOOKS = frozenset(
    [
        "box_style",
        "button_style",
        "comm",
        "continuous_update",
        "description_allow_html",
        "disabled",
        "icon",
        "keys",
        "layout",
        "log",
        "orientation",
        "readout",
        "readout_format",
        "step",
        "style",
        "tabbable",
        "tooltip",
    ]
)


def _attributes(value: object, preview: Preview) -> Iterator[tuple[str, object]]:
    kind = type(value)
    if derives_from(kind, tuple):  # a named tuple
        names = exact_items(entry(class_dict(kind), "_fields"))
        for place, name in enumerate(names[: preview.shape[0] if preview.shape else 0]):
            if type(name) is str:
                yield name, _item_of(value, place)
    for base in reversed(bases_of(kind)):
        for name, slot in islice(class_dict(base).items(), _MOST_COUNTED):
            if type(name) is str and is_slot(slot) and is_of_notebook(base) and not name.startswith("__"):
                yield name, entry_of_slot(value, name)
    for name, held in instance_dict(value).items():
        if type(name) is str and not name.startswith("__"):
            yield name, held


# -- previews of models: what scikit-learn's estimators were made with, read without running a line of theirs
#
# An estimator keeps each parameter of `__init__` under the same name in its own attributes; that is scikit-learn's rule for all of
# them. So the parameters are the names in the code of `__init__`, the values lie in the instance's dict, and those that differ from
# the defaults of `__init__` are told: `Ridge(alpha=3.0)`.

_ESTIMATOR: Final = ("sklearn.base", "BaseEstimator")
_BASES: Final = (
    _ESTIMATOR,
    ("torch.nn.modules.module", "Module"),
    ("xgboost.core", "Booster"),
    ("lightgbm.basic", "Booster"),
    ("catboost.core", "CatBoost"),
    ("statsmodels.base.model", "Model"),
    ("statsmodels.base.model", "Results"),
    ("statsmodels.base.wrapper", "ResultsWrapper"),
    ("keras.src.layers.layer", "Layer"),
)
_ROOM = 40  # characters of a parameter
_DEPTH = 2  # estimators within estimators
_FEW = 4  # of these in a list
_MOST_WRAPPERS = 8
_MOST_NAMES = 200
_MISSING = object()
_FUNCTIONS: ExactTypes[bool] = ExactTypes([(FunctionType, True)])


def is_model(kind: type) -> bool:
    """Whether instances of the class are models of a library that is loaded."""
    return any(base is not None and derives_from(kind, base) for base in (find_loaded(*place) for place in _BASES))


def constructor_text(value: object) -> str:
    """`Ridge(alpha=3.0)` for an estimator of scikit-learn; nothing for anything else."""
    return _write_estimator(value, _DEPTH, LONGEST_TEXT) if _is_estimator(value) else ""


def _is_estimator(value: object) -> bool:
    base = find_loaded(*_ESTIMATOR)
    return base is not None and derives_from(type(value), base)


def _write_estimator(value: object, depth: int, room: int) -> str:
    name = clean(qualified_name(type(value)).rpartition(".")[2])
    if depth < 0:
        return f"{name}({MORE})"
    parameters = ", ".join(
        f"{clean(param)}={_param(param, value_of_param, depth - 1)}" for param, value_of_param in _find_changed(value)
    )
    return shorten(f"{name}({parameters})", room)


def _find_changed(value: object) -> Iterator[tuple[str, object]]:
    """The parameters whose values differ from their defaults, in the order of `__init__`."""
    attributes = instance_dict(value)
    for name, default in _parameters(type(value)):
        found = entry(attributes, name) if name in set(islice(attributes, _MOST_NAMES)) else _MISSING
        if found is not _MISSING and not _is_default(found, default):
            yield name, found


def _parameters(kind: type) -> Iterator[tuple[str, object]]:
    """What `__init__` takes, with the defaults."""
    found = next(
        (attribute for base in bases_of(kind) if (attribute := entry(class_dict(base), "__init__")) is not None), None
    )
    function = _unwrap(found)
    if function is None:
        return
    code: CodeType = function.__code__
    positional = code.co_varnames[1 : code.co_argcount]
    defaults = function.__defaults__ or ()
    known = dict(zip(reversed(positional), reversed(defaults), strict=False))
    named: dict[str, object] = function.__kwdefaults__ or {}
    for name in positional:
        yield name, known.get(name, _MISSING)
    for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
        yield name, named.get(name, _MISSING)


def _unwrap(found: object) -> FunctionType | None:
    """The function under its decorators, as `functools.wraps` notes it."""
    for _ in range(_MOST_WRAPPERS):
        if _FUNCTIONS.of(found) is None:
            return None
        function = cast("FunctionType", found)
        found = entry(function.__dict__, "__wrapped__")
        if found is None:
            return function
    return None


def _is_default(found: object, default: object) -> bool:
    if found is default:
        return True
    return type(found) is type(default) and is_plain(found) and cell(found, 1_000) == cell(default, 1_000)


def _param(name: str, value: object, depth: int) -> str:
    return MASK if labels_a_secret(name) else _write_parameter(value, depth)


def _write_parameter(value: object, depth: int) -> str:
    if _is_estimator(value):
        return _write_estimator(value, depth, 2 * _ROOM)
    items = exact_items(value)
    if items and depth >= 0 and any(map(_holds_an_estimator, items[:_FEW])):
        parts = [_write_parameter(item, depth) for item in items[:_FEW]] + [MORE] * (len(items) > _FEW)
        return f"({', '.join(parts)})" if type(value) is tuple else f"[{', '.join(parts)}]"
    return short_text(value, _ROOM, depth=1)


def _holds_an_estimator(item: object) -> bool:
    return _is_estimator(item) or any(map(_is_estimator, exact_items(item)[:_FEW]))


_SIZED: tuple[type, ...] = (list, dict, tuple, set, frozenset, deque)
_LIBRARY_BASES: tuple[tuple[str, str, Callable[[Any, bool], Preview]], ...] = (
    ("numpy", "ndarray", ndarray),
    ("pandas", "DataFrame", dataframe),
    ("pandas", "Series", series),
)


def foreign(value: object, hide: bool) -> Preview:
    """The type's qualified name and what a base type can say; no line of the class's own code runs."""
    kind = type(value)
    if derives_from(kind, type):
        return class_(value)  # type: ignore[arg-type]  # every instance of a metaclass is a class
    if derives_from(kind, BaseException):
        return Preview("exception", type_text(kind))
    for module, name, make_as in _LIBRARY_BASES:
        base = find_loaded(module, name)
        if base is not None and derives_from(kind, base):
            return make_as(value, hide)
    text = "" if hide else constructor_text(value)
    preview = Preview(
        "object",
        type_text(kind),
        text,
        _length(value),
        MODEL if is_model(kind) else "",
        shallow_size(value),
        masked=hide or MASK in text,
    )
    return with_attributes(preview, value)


def _length(value: object) -> tuple[int, ...]:
    for base in _SIZED:
        if derives_from(type(value), base):
            length: Callable[[object], int] = class_dict(base)["__len__"]  # type: ignore[assignment]  # its own slot
            return (length(value),)
    return ()
