"""Summaries of models: what scikit-learn's estimators were made with, read without running a line of theirs.

An estimator keeps each parameter of `__init__` under the same name in its own attributes; that is scikit-learn's rule for all of
them. So the parameters are the names in the code of `__init__`, the values lie in the instance's dict, and those that differ from
the defaults of `__init__` are told: `Ridge(alpha=3.0)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from types import CodeType, FunctionType
from typing import Final, cast

from agent_kernel.values.summaries.cells import cell, is_plain
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.masking import labels_a_secret
from agent_kernel.values.summaries.model import LONGEST_TEXT
from agent_kernel.values.summaries.plain import preview_of
from agent_kernel.values.summaries.reading import (
    bases_of,
    class_dict,
    derives_from,
    entry,
    exact_items,
    instance_dict,
    loaded,
    qualified_name,
)
from agent_kernel.values.summaries.wording import MASK, MORE, clean, cut

__all__ = ["is_model", "made_with"]


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
    return any(base is not None and derives_from(kind, base) for base in (loaded(*place) for place in _BASES))


def made_with(value: object) -> str:
    """`Ridge(alpha=3.0)` for an estimator of scikit-learn; nothing for anything else."""
    return _written(value, _DEPTH, LONGEST_TEXT) if _is_estimator(value) else ""


def _is_estimator(value: object) -> bool:
    base = loaded(*_ESTIMATOR)
    return base is not None and derives_from(type(value), base)


def _written(value: object, depth: int, room: int) -> str:
    name = clean(qualified_name(type(value)).rpartition(".")[2])
    if depth < 0:
        return f"{name}({MORE})"
    told = ", ".join(f"{clean(param)}={_param(param, held, depth - 1)}" for param, held in _changed(value))
    return cut(f"{name}({told})", room)


def _changed(value: object) -> Iterator[tuple[str, object]]:
    """The parameters whose values differ from their defaults, in the order of `__init__`."""
    held = instance_dict(value)
    for name, default in _parameters(type(value)):
        found = entry(held, name) if name in set(islice(held, _MOST_NAMES)) else _MISSING
        if found is not _MISSING and not _is_default(found, default):
            yield name, found


def _parameters(kind: type) -> Iterator[tuple[str, object]]:
    """What `__init__` takes, with the defaults."""
    found = next((held for base in bases_of(kind) if (held := entry(class_dict(base), "__init__")) is not None), None)
    function = _unwrapped(found)
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


def _unwrapped(found: object) -> FunctionType | None:
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


def _param(name: str, held: object, depth: int) -> str:
    return MASK if labels_a_secret(name) else _held(held, depth)


def _held(held: object, depth: int) -> str:
    if _is_estimator(held):
        return _written(held, depth, 2 * _ROOM)
    items = exact_items(held)
    if items and depth >= 0 and any(map(_holds_an_estimator, items[:_FEW])):
        parts = [_held(item, depth) for item in items[:_FEW]] + [MORE] * (len(items) > _FEW)
        return f"({', '.join(parts)})" if type(held) is tuple else f"[{', '.join(parts)}]"
    return preview_of(held, _ROOM, depth=1)


def _holds_an_estimator(item: object) -> bool:
    return _is_estimator(item) or any(map(_is_estimator, exact_items(item)[:_FEW]))
