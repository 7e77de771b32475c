"""The questions that can be asked of a store, and how their arguments are written in a URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agent_kernel.server.problems import ProblemError

__all__ = ["QUESTIONS", "Parameter", "Question", "arguments"]

# Of Jupyter's own: a token, what keeps a request from counting as activity, and its clients' way around caches.
_OTHERS = frozenset({"token", "no_track_activity"})


class Parameter(NamedTuple):
    """One argument. `texts` may be given several times."""

    name: str
    type: Literal["text", "number", "texts"] = "text"
    is_required: bool = False


class Question(NamedTuple):
    """One of the Reads that a panel makes.

    Args:
        is_versioned: the answer is the same as long as the version of the history is.
    """

    parameters: tuple[Parameter, ...]
    is_versioned: bool = True


_QUERY = (Parameter("text"), Parameter("show"), Parameter("tz_s", "number"), Parameter("unfolded", "texts"))
_ID = Parameter("id", is_required=True)
_AGAINST = Parameter("against")

QUESTIONS: Mapping[str, Question] = {
    "branches": Question((), is_versioned=False),  # who holds one depends on which processes live
    "cells": Question((_ID,)),
    "code": Question((_ID, _AGAINST)),
    "commit": Question((_ID, _AGAINST)),
    "compare": Question((Parameter("a", is_required=True), Parameter("b", is_required=True))),
    "environment": Question((_ID, _AGAINST)),
    "locate": Question((*_QUERY, _ID)),
    "open": Question((*_QUERY, Parameter("n", "number"))),
    "outputs": Question((_ID,)),
    "plan": Question((Parameter("op", is_required=True), Parameter("to", is_required=True)), is_versioned=False),
    "race": Question((_ID,), is_versioned=False),  # the events of its candidates go on between two versions
    "rows": Question((*_QUERY, Parameter("from", "number"), Parameter("n", "number"), Parameter("version"))),
    "run": Question((_ID,), is_versioned=False),  # its events go on between two versions
    "variable": Question((_ID, _AGAINST, Parameter("name", is_required=True))),
}


def arguments(given: Mapping[str, Sequence[bytes]], parameters: Sequence[Parameter]) -> dict[str, object]:
    """The arguments of a URL as data.

    Raises:
        ProblemError: one is missing, unknown, given twice, or not of its type.
    """
    known = {parameter.name: parameter for parameter in parameters}
    found: dict[str, object] = {}
    for name, values in given.items():
        if name in _OTHERS or (name.isdecimal() and values == [b""]):
            continue
        if name not in known:
            raise ProblemError(400, f"there is no parameter {name[:40]!r} (there are: {', '.join(known) or 'none'})")
        found[name] = _read(known[name], [_text(name, value) for value in values])
    missing = [name for name, parameter in known.items() if parameter.is_required and name not in found]
    if missing:
        raise ProblemError(400, f"the parameter {missing[0]!r} is missing")
    return found


def _read(parameter: Parameter, values: list[str]) -> object:
    if parameter.type == "texts":
        return values
    if len(values) != 1:
        raise ProblemError(400, f"the parameter {parameter.name!r} is given twice")
    if parameter.type == "text":
        return values[0]
    digits = values[0].removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 12):
        raise ProblemError(400, f"the parameter {parameter.name!r} is a whole number")
    return int(values[0])


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProblemError(400, f"the parameter {name!r} is not UTF-8") from error
