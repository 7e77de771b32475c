"""Summaries of functions, classes, modules and exceptions: what they are called, never what they would say.

Signatures come from the code object; `inspect` would follow `__wrapped__`, `__signature__` and `__text_signature__`
into foreign attributes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from agent_kernel.values.summaries.model import LONGEST_TEXT, Summary
from agent_kernel.values.summaries.plain import cell, is_plain
from agent_kernel.values.summaries.reading import (
    class_dict,
    entry,
    exact_str,
    instance_dict,
    module_dict,
    type_name,
    type_text,
)
from agent_kernel.values.summaries.redaction import names_a_secret
from agent_kernel.values.summaries.wording import MASK, MORE, clean, counted, cut

_MOST_LINES = 20_000  # entries of a line table that are read
_MOST_PARAMETERS = 12
_VARARGS, _VARKEYWORDS = 0x04, 0x08


def function(value: FunctionType, hide: bool) -> Summary:
    """A function by its signature and number of lines."""
    shown = cut(clean(f"{exact_str(value.__name__)[:LONGEST_TEXT]}({_signature(value)})"), LONGEST_TEXT)
    return Summary(
        "function", "function", shown, note=counted(line_count(value.__code__), "line"), masked=MASK in shown
    )


def method(value: MethodType, hide: bool) -> Summary:
    """A bound method by its function and the type of what it is bound to."""
    bound = type_name(value.__self__)
    name = exact_str(value.__func__.__name__) if type(value.__func__) is FunctionType else MORE
    return Summary("function", "method", cut(clean(f"{bound}.{name}"), LONGEST_TEXT))


def builtin(value: BuiltinFunctionType, hide: bool) -> Summary:
    """A function written in C."""
    owner = value.__self__
    prefix = "" if owner is None or type(owner) is ModuleType else f"{type_name(owner)}."
    return Summary("function", type_name(value), cut(clean(prefix + value.__name__), LONGEST_TEXT))


def partial(value: functools.partial[Any], hide: bool) -> Summary:
    """A partial by the name of the function under it."""
    return Summary("function", "functools.partial", cut(_callable_name(value.func), LONGEST_TEXT))


def cached(value: object, hide: bool) -> Summary:
    """A `functools.lru_cache` wrapper by the function that it caches."""
    wrapped = entry(instance_dict(value), "__wrapped__")
    note = counted(line_count(wrapped.__code__), "line") if type(wrapped) is FunctionType else ""
    return Summary("function", "functools.lru_cache", cut(_callable_name(wrapped), LONGEST_TEXT), note=note)


def class_(value: type, hide: bool = False) -> Summary:
    """A class by its name and the number of methods in its body."""
    methods = sum(type(held) is FunctionType for held in class_dict(value).values())
    return Summary("class", type_name(value), type_text(value), note=counted(methods, "method") if methods else "")


def module(value: ModuleType, hide: bool) -> Summary:
    """A module by its name."""
    return Summary("module", "module", cut(clean(exact_str(entry(module_dict(value), "__name__"))), LONGEST_TEXT))


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
    shown = list(islice(_parameters(value), _MOST_PARAMETERS + 1))
    return ", ".join([*shown[:_MOST_PARAMETERS], MORE] if len(shown) > _MOST_PARAMETERS else shown)


def _parameters(value: FunctionType) -> Iterator[str]:
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
    given = {name: held for name, held in keyword_defaults.items() if type(name) is str}
    for name in names[positional : positional + keyword]:
        yield _with_default(name, given[name]) if name in given else name
    if code.co_flags & _VARKEYWORDS:
        yield f"**{names[positional + keyword + takes_any]}"


def _with_default(name: str, default: object) -> str:
    if names_a_secret(name) and default is not None:
        return f"{name}={MASK}"
    return f"{name}={cell(default, 16) if is_plain(default) else MORE}"
