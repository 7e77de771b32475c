"""Conformance kits: inherit one, return your backend from its fixture, and run pytest.

Needs pytest, which loads when a kit is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_kernel.testing.stores import StoreConformance as StoreConformance

__all__ = ["StoreConformance"]

_HOME = {"StoreConformance": "agent_kernel.testing.stores"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access skips this function
    return value
