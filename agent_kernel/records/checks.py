"""Checks of arguments that several verbs share. An argument that makes no sense raises, before anything is stored."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Final, cast

__all__ = ["not_negative", "require_plain_function", "require_result", "seconds", "texts"]

_MOST_S: Final = 3e9  # about 95 years: times in nanoseconds stay within 64 bits


def texts(given: object, what: str) -> tuple[str, ...]:
    """Several names or patterns.

    Raises:
        TypeError: it is one text, whose letters would count as names, or it holds something else than text.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} is a list of text, not {given!r}")
    found = tuple(cast("Iterable[object]", given))
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} is a list of text, and {one!r} is not text")
    return cast("tuple[str, ...]", found)


def seconds(given: object, what: str, *, least: float = 0.0, is_zero_allowed: bool = True) -> float:
    """A number of seconds.

    Raises:
        TypeError: it is not a number. ValueError: it is smaller than `least`, not a number ("nan"), or more than 95 years.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{what} is a number of seconds, not {given!r}")
    if not least <= given <= _MOST_S or (given == 0 and not is_zero_allowed):
        bound = f"{least:g} or more" if is_zero_allowed else f"more than {least:g}"
        raise ValueError(f"{what} is {bound} seconds (at most {_MOST_S:,.0f}), not {given!r}")
    return given


def not_negative(given: object, what: str) -> int:
    """A whole number that counts something.

    Raises:
        TypeError: it is not a whole number. ValueError: it is negative.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{what} is a whole number, not {given!r}")
    if given < 0:
        raise ValueError(f"{what} is 0 or more, not {given!r}")
    return given


def require_plain_function(function: object, what: str) -> None:
    """Raise TypeError if calling the function does no work yet: it is async, or a generator."""
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object, whose own method may be async
    for one in (function, call):
        if inspect.iscoroutinefunction(one) or inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise TypeError(
                f"{what} takes a plain function: {function!r} does its work only when it is awaited or iterated"
            )


def require_result(result: object, what: str) -> object:
    """The result of a function. Raises TypeError if it is work that was not done yet."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        kind = type(result).__name__
        raise TypeError(f"{what} takes a plain function: this one returned a {kind}, and did not do its work")
    return result
