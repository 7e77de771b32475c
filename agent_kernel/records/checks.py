"""Checks of arguments that several verbs share. An argument that makes no sense raises, before anything is stored."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Final, cast

__all__ = [
    "not_negative",
    "require_plain_function",
    "require_result",
    "require_text",
    "require_watcher",
    "require_whole",
    "seconds",
    "texts",
]

_MOST_S: Final = 3e9  # about 95 years: times in nanoseconds stay within 64 bits


def require_text(value: object, what: str) -> str:
    """One text.

    Raises:
        TypeError: it is something else. ValueError: UTF-8 does not hold it (half a character).
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is text that UTF-8 holds, not {value!r}") from None
    return value


def texts(value: object, what: str) -> tuple[str, ...]:
    """Several names or patterns.

    Raises:
        TypeError: it is one text, whose letters would count as names, or it holds something else than text.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a list of text, not {value!r}")
    found = tuple(cast("Iterable[object]", value))
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} is a list of text, and {one!r} is not text")
    return cast("tuple[str, ...]", found)


def seconds(
    value: object, what: str, *, least: float = 0.0, is_zero_allowed: bool = True, unit: str = "seconds"
) -> float:
    """A number of seconds, or of another unit.

    Raises:
        TypeError: it is not a number. ValueError: it is smaller than `least`, not a number ("nan"), or more than 95 years.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number of {unit}, not {value!r}")
    if not least <= value <= _MOST_S or (value == 0 and not is_zero_allowed):
        bounds = f"{least:g} or more" if is_zero_allowed else f"more than {least:g}"
        raise ValueError(f"{what} is {bounds} {unit} (at most {_MOST_S:,.0f}), not {value!r}")
    return value


def not_negative(value: object, what: str) -> int:
    """A whole number that counts something.

    Raises:
        TypeError: it is not a whole number. ValueError: it is negative.
    """
    found = require_whole(value, what)
    if found < 0:
        raise ValueError(f"{what} is 0 or more, not {value!r}")
    return found


def require_whole(value: object, what: str) -> int:
    """A whole number. Raises TypeError: it is something else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, not {value!r}")
    return value


def require_watcher(call: object) -> None:
    """Raise TypeError for what cannot be called with a change, or would have to be awaited."""
    if not callable(call):
        raise TypeError(f"a watcher is a function, not {call!r}")
    require_plain_function(call, "watching")


def require_plain_function(function: object, what: str) -> None:
    """Raise TypeError for what cannot be called, or does no work yet where it is: it is async, or a generator."""
    if not callable(function):
        raise TypeError(f"{what} takes a function, not {function!r}")
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
