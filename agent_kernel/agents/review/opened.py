"""What is open already and reached without its name: by functions of the notebook, by modules of the user's, by loggers.

Writing to what is open tells no audit event, so it is found by looking: at what a function of the notebook names, at what
a module holds that no package installed, at what `logging` writes to. What only reads is passed over.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from agent_kernel.agents.review.meaning import kind_of_open
from agent_kernel.agents.review.reaching import READ_OF_OPEN, READS, SQL_LEAVES, SQL_READS, SQL_WRITES, STATEMENTS
from agent_kernel.values.references import is_library
from agent_kernel.values.summaries.reading import (
    bases_of,
    class_dict,
    derives_from,
    exact_str,
    instance_dict,
    is_of_notebook,
    module_dict,
)

__all__ = ["kind_of_register", "kind_reached", "named_in_modules"]

_MOST: Final = 300  # functions that are looked at for one name
_REGISTERS: Final = frozenset({"handlers", "_handlers", "_handlerList"})  # where `logging` keeps what it writes to


def kind_reached(value: object, attribute: str = "") -> str:
    """What using a value writes to by the functions of the notebook that it is, has or calls; "": nothing that is open.

    Args:
        attribute: of the value, that alone is used. "": whatever it has.
    """
    todo: list[object] = [value]
    met: set[int] = set()
    while todo and len(met) < _MOST:
        one = todo.pop()
        if id(one) in met:
            continue
        met.add(id(one))
        for function in _functions_of(one, attribute if one is value else ""):
            for held, is_written in _used_by(function):
                if is_written and (kind := kind_of_open(held)):
                    return kind
                todo.append(held)
    return ""


def _functions_of(value: Any, attribute: str = "") -> Iterator[FunctionType]:
    """The functions of the notebook's or of a module of the user's that run where somebody uses this value, or that of it."""
    kind = type(cast("object", value))
    if kind is FunctionType:
        if not is_library(exact_str(value.__module__)):
            yield value
    elif kind is MethodType:
        yield from _functions_of(value.__func__)
    elif kind is functools.partial:
        yield from _functions_of(functools.partial.func.__get__(value))
    elif (wrapped := instance_dict(value).get("__wrapped__")) is not None:
        yield from _functions_of(wrapped)
    else:
        classes = bases_of(cast("type", value)) if derives_from(kind, type) else bases_of(kind)
        members = [item for one in classes if is_of_notebook(one) for item in class_dict(one).items()]
        names = {attribute} if any(name == attribute for name, _ in members) else {name for name, _ in members}
        before = 0
        while len(names) > before:  # methods call others
            before = len(names)
            functions = (each for name, held in members if name in names for each in _bare(held))
            names = names.union(*(each.__code__.co_names for each in functions))
        for name, member in members:
            yield from _bare(member) if name in names else ()


def _bare(member: Any) -> Iterator[FunctionType]:
    """The function of a method, a static one or a property."""
    found: list[object] = [member]
    if type(member) is staticmethod or type(member) is classmethod:
        found = [cast("Any", member).__func__]
    elif type(member) is property:
        found = [member.fget, member.fset]
    yield from (one for one in found if type(one) is FunctionType)


def _used_by(function: FunctionType) -> Iterator[tuple[object, bool]]:
    """What a function names and holds, and whether it may write to it."""
    there: Mapping[str, object] = function.__globals__
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    held = {name: _content(cell) for name, cell in cells}
    for given in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield given, True
    for code in _codes(function.__code__):
        for name, is_written in _uses(code):
            if name in held or name in there:
                yield held[name] if name in held else there[name], is_written


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if type(one) is CodeType:
            yield from _codes(one)


def _uses(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names that code looks up outside itself, and whether it does more with each than to read."""
    steps = list(dis.get_instructions(code))
    asks = any(READS.fullmatch(name) for name in code.co_names) and not any(
        SQL_WRITES.search(text) for text in code.co_consts if type(text) is str
    )
    for at, step in enumerate(steps):
        if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            continue
        following = steps[at + 1] if at + 1 < len(steps) else step
        if following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            yield step.argval, not asks
        else:
            given = steps[at + 2].argval if at + 2 < len(steps) else None
            yield step.argval, not _reads(following.argval, given)


def _reads(method: str, given: object) -> bool:
    """Whether a method of what is open only reads. `given`: what it is given first, where that is written there."""
    if method not in STATEMENTS:
        return method in READ_OF_OPEN
    if type(given) is not str:
        return False
    return bool(SQL_READS.match(given)) and not (SQL_WRITES.search(given) or SQL_LEAVES.search(given))


# -- modules


def named_in_modules(dotted: str) -> object | None:
    """What a dotted name stands for in a loaded module that no package installed; None: nothing."""
    parts = dotted.split(".")
    if parts[0] not in sys.modules or parts[0] == "__main__" or is_library(parts[0]):
        return None
    held: object = sys.modules[parts[0]]
    for name in parts[1:]:
        entries = module_dict(held) if derives_from(type(held), ModuleType) else instance_dict(held)
        if name not in entries:
            return held
        held = entries[name]
    return None if derives_from(type(held), ModuleType) else held


def kind_of_register(attribute: str) -> str:
    """What somebody reaches by an attribute under which `logging` keeps its handlers; "": nothing that is open."""
    logging: Any = sys.modules.get("logging")
    if attribute not in _REGISTERS or logging is None:
        return ""
    handlers = [found for one in list(logging._handlerList) if (found := one()) is not None]
    open_ones = (kind_of_open(held) for one in handlers for held in instance_dict(one).values())
    return next(filter(None, open_ones), "")
