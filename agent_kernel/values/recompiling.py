"""Compile again, for this Python, what another one compiled; or stand in for it where its source is not known.

A code object is found again by its qualified name and its place. Names differ between versions: from 3.12 on, the body
of a comprehension belongs to the code around it, so a lambda in one has no `<listcomp>` in its name.

One function never keeps the others from loading: a stand-in has its name, defaults and closure, is saved again as what
it stands for, and raises when it is called.
"""

from __future__ import annotations

import ast
import re
from functools import partial
from types import CodeType
from typing import NoReturn

from agent_kernel.errors import MissingCodeError
from agent_kernel.values.definitions import Definition, NoSourceError, column_of, decode, remember

_COMPREHENSIONS = re.compile(r"<(?:list|set|dict)comp>\.(?:<locals>\.)?")


def recompile(definition: Definition, filename: str) -> CodeType:
    """The code object of the definition, made by this Python.

    Raises:
        NoSourceError: no source was kept, or it does not compile to such a code object.
    """
    made_by = ".".join(map(str, definition.python))
    if not definition.source:
        raise NoSourceError(f"{definition.name} was compiled by Python {made_by} and its source is not known")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | definition.future
    try:
        module = compile(definition.source, filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NoSourceError(f"{definition.name} was written for Python {made_by}: {error}") from error
    wanted = _COMPREHENSIONS.sub("", definition.name)
    matches = [code for code in _nested(module) if _COMPREHENSIONS.sub("", code.co_qualname) == wanted]
    if not matches:
        raise NoSourceError(f"{definition.name} is not in the source that Python {made_by} compiled it from")

    def distance(code: CodeType) -> tuple[int, int]:
        column = column_of(code, definition.source)
        return abs(code.co_firstlineno - definition.line), abs(column - definition.column)

    return min(matches, key=distance)


def _nested(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if type(constant) is CodeType]
    return [*inner, *(deeper for child in inner for deeper in _nested(child))]


def stand_in(payload: bytes, cells: int = 0) -> CodeType:
    """Code in the place of a definition that this Python cannot run.

    Args:
        cells: how many cells of a closure the function has, which its code has to name.
    """
    definition = decode(payload)
    name = definition.name.replace("<locals>.", "")
    refuse = partial(refuse_to_run, name, ".".join(map(str, definition.python)))
    template = _template.__code__
    made = template.replace(
        co_name=definition.name.rpartition(".")[2],
        co_qualname=definition.name,
        co_consts=tuple(refuse if constant == _MARK else constant for constant in template.co_consts),
        co_freevars=tuple(f"cell_{number}" for number in range(cells)),
    )
    remember(made, payload)
    return made


def is_stand_in(code: CodeType) -> bool:
    return any(type(constant) is partial and constant.func is refuse_to_run for constant in code.co_consts)


def refuse_to_run(name: str, made_by: str) -> NoReturn:
    raise MissingCodeError(name, made_by)


_MARK = "what refuses to run"


def _template(*_: object, **__: object) -> object:
    refuse = "what refuses to run"
    return refuse()  # type: ignore[operator]  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
