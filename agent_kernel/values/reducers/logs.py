"""Loggers of the notebook's with their settings, which go back into the same logger, and handlers of log records.

A logger is found by its name. Those of libraries belong to these, and are saved as names alone; so do the handlers that the
root logger had when the session began.
"""

# pyright: reportUnknownMemberType=false
# Streams of handlers are of any type.

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

from agent_kernel.values import references
from agent_kernel.values.restore import logs as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_LOCKS = (type(threading.RLock()), type(None))


def reduce_logger(pickler: Pickler, logger: logging.Logger) -> Any:
    """By name. A logger that does not belong to a library is saved with its level, its handlers and its filters."""
    if logging.getLogger(logger.name) is not logger or _is_of_library(logger):
        return NotImplemented
    handlers = tuple(handler for handler in logger.handlers if not references.was_there(handler))
    filters = tuple(logger.filters)
    pickler.dump_record.opaque.append(logger)
    pickler.dump_record.roots.append((*handlers, *filters))
    state = (logger.level, logger.propagate, logger.disabled, handlers, filters)
    return restore.logger, (logger.name,), state, None, None, restore.logger_state


def _is_of_library(logger: logging.Logger) -> bool:
    package = logger.name.partition(".")[0]
    return package in sys.modules and references.is_library(package)


def reduce_file_handler(pickler: Pickler, handler: logging.FileHandler) -> Any:
    """With its settings, and without its open file, which is not ours to open."""
    attributes: dict[str, object] = vars(handler).copy()
    lock, _ = attributes.pop("lock", None), attributes.pop("stream", None)
    path = attributes.get("baseFilename")
    if not isinstance(path, str) or not any(type(lock) is kind for kind in _LOCKS):
        return pickler.lose(handler, "a handler of log records without its file cannot be saved")
    pickler.lose(
        handler, f"its open file {path} cannot be saved; after a restart it appends to that file if there is one"
    )
    pickler.kept.append(attributes)
    pickler.dump_record.instances.append(handler)
    made = (pickler.names.token_of(handler), type(handler), path)
    return restore.file_handler, made, attributes, None, None, restore.file_handler_state


def reduce_log_handler(pickler: Pickler, handler: logging.Handler) -> Any:
    """With a lock of its own: nobody waits for it between two cells."""
    attributes: dict[str, object] = vars(handler).copy()
    lock = attributes.pop("lock", None)
    if not any(type(lock) is kind for kind in _LOCKS):
        return pickler.instance(handler)
    pickler.kept.append(attributes)
    pickler.dump_record.instances.append(handler)
    return restore.log_handler, (type(handler),), attributes, None, None, restore.log_handler_state
