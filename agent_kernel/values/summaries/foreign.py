"""Summaries of everything that is not of an exactly known type.

Its class may define anything, so only the interpreter's own slots and the base types' own methods are used, and only
for what a built-in or library base keeps outside the class's reach: a length, a shape, a block manager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from agent_kernel.values.summaries.arrays import ndarray
from agent_kernel.values.summaries.attributes import with_attributes
from agent_kernel.values.summaries.code import class_
from agent_kernel.values.summaries.frames import dataframe, series
from agent_kernel.values.summaries.model import MODEL, Summary
from agent_kernel.values.summaries.models import is_model, made_with
from agent_kernel.values.summaries.reading import class_dict, derives_from, loaded, shallow_size, type_text
from agent_kernel.values.summaries.wording import MASK

_SIZED: tuple[type, ...] = (list, dict, tuple, set, frozenset, deque)
_LIBRARY_BASES: tuple[tuple[str, str, Callable[[Any, bool], Summary]], ...] = (
    ("numpy", "ndarray", ndarray),
    ("pandas", "DataFrame", dataframe),
    ("pandas", "Series", series),
)


def foreign(value: object, hide: bool) -> Summary:
    """The type's qualified name and what a base type can say; no line of the class's own code runs."""
    kind = type(value)
    if derives_from(kind, type):
        return class_(value)  # type: ignore[arg-type]  # every instance of a metaclass is a class
    if derives_from(kind, BaseException):
        return Summary("exception", type_text(kind))
    for module, name, summarize_as in _LIBRARY_BASES:
        base = loaded(module, name)
        if base is not None and derives_from(kind, base):
            return summarize_as(value, hide)
    text = "" if hide else made_with(value)
    summary = Summary(
        "object",
        type_text(kind),
        text,
        _length(value),
        MODEL if is_model(kind) else "",
        shallow_size(value),
        masked=hide or MASK in text,
    )
    return with_attributes(summary, value)


def _length(value: object) -> tuple[int, ...]:
    for base in _SIZED:
        if derives_from(type(value), base):
            length: Callable[[object], int] = class_dict(base)["__len__"]  # type: ignore[assignment]  # its own slot
            return (length(value),)
    return ()
