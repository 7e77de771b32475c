"""Rebuild handlers of log records, and give loggers back their settings once all else is in place."""

from __future__ import annotations

import functools
import logging
import pathlib
from collections.abc import Iterable
from typing import Any, TypeGuard

from agent_kernel.values.introspection import bases_of, module_name, qualified_name
from agent_kernel.values.restore.context import Later, current


def is_of_logging(kind: type, name: str) -> bool:
    """Whether a class derives from the one of this name in `logging`, by name: `reload(logging)` makes all of them anew."""
    return any((module_name(base), qualified_name(base)) == ("logging", name) for base in bases_of(kind))


def is_handler(value: object) -> TypeGuard[logging.Handler]:
    return is_of_logging(type(value), "Handler")


def logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


def logger_state(made: logging.Logger, state: tuple[Any, ...]) -> None:
    """The logger lives: it gets this when the other variables are taken on, and not where they are only looked at."""
    current().set_later(made, Settings(*state))


class Settings(Later):
    """What a notebook sets of a logger."""

    level: int
    propagate: bool
    disabled: bool
    handlers: tuple[Any, ...]
    filters: tuple[Any, ...]

    def give(self, made: logging.Logger) -> None:
        from agent_kernel.values.references import is_preexisting_handler
        from agent_kernel.values.surface import save_failure_of

        made.propagate, made.disabled = self.propagate, self.disabled
        if made.level != self.level:
            made.setLevel(self.level)
        # A placeholder of one that is not there would raise at each record.
        own = [handler for handler in self.handlers if save_failure_of(handler) is None]
        made.handlers[:] = [*filter(is_preexisting_handler, made.handlers), *own]
        made.filters[:] = [found for found in self.filters if save_failure_of(found) is None]


_logging: Any = logging  # some of it is not public
_flushed_at_the_end = _logging._addHandlerRef


def log_handler(kind: Any) -> Any:
    return kind.__new__(kind)


def log_handler_state(made: Any, attributes: dict[str, object]) -> None:
    object.__getattribute__(made, "__dict__").update(attributes)
    made.createLock()
    if current().takes_place:
        _flushed_at_the_end(made)
        if attributes.get("_name"):
            made.set_name(attributes["_name"])


def file_handler(token: str, kind: Any, path: str) -> Any:
    """The handler while it lives; afterwards one that opens the file at its first record, if that is there."""
    make = functools.partial(kind.__new__, kind)
    return current().live_or(token, make) if pathlib.Path(path).is_file() else current().live(token)


def file_handler_state(made: Any, attributes: dict[str, object]) -> None:
    if not is_handler(made):
        return  # a placeholder
    if "lock" in vars(made):
        current().set_later(made, HandlerSettings(attributes))
        return
    # Opened as it was the first time, a log that was begun anew would be begun anew again.
    log_handler_state(made, attributes | {"stream": None, "mode": "a"})


class HandlerSettings(Later):
    """What a notebook set of a handler whose file is open."""

    attributes: dict[str, object]

    def give(self, made: Any) -> None:
        attributes: dict[str, object] = object.__getattribute__(made, "__dict__")
        kept = {name: found for name, found in attributes.items() if name in ("lock", "stream", "mode")}
        attributes.clear()
        attributes.update(self.attributes | kept)


def replace_handlers(pairs: Iterable[tuple[object, object]]) -> None:
    """Let loggers go on with a handler in the place of another one; without the old one if the new one is None."""
    instead = {id(before): now for before, now in pairs}
    every = logging.root.manager.loggerDict.values()
    for one in (logging.root, *(found for found in list(every) if isinstance(found, logging.Logger))):
        if not instead.keys().isdisjoint(map(id, one.handlers)):
            now = [instead.get(id(handler), handler) for handler in one.handlers]
            one.handlers[:] = [handler for handler in now if is_handler(handler)]
