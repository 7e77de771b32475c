"""A hash of what can be read of an unpicklable object without running any code.

It notices that a connection or a parser changed; it cannot bring it back.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What is read here is of any type.

from __future__ import annotations

import types
from typing import Any

import xxhash

_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})
# What runs the cells notes each of them in itself: to hold the shell is not to change it.
_RUNS_CELLS = frozenset({"IPython", "ipykernel"})
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def surface_digest(value: object) -> bytes:
    """Eight bytes over the C attributes and the instance dict, plain values only; none of what runs the cells."""
    bases: tuple[type, ...] = type.__getattribute__(type(value), "__mro__")
    if any(_package(base) in _RUNS_CELLS for base in bases):
        return b""
    seen: list[tuple[str, object]] = []
    for base in bases:
        for name, descriptor in type.__getattribute__(base, "__dict__").items():
            if type(descriptor) in _DESCRIPTORS and not name.startswith("__"):
                found = _read(descriptor, value)
                if _is_plain(found):
                    seen.append((name, found))
    try:
        attributes: Any = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = None
    if type(attributes) is dict:  # exactly: a subclass would run its own code
        seen.extend((name, found) for name, found in attributes.items() if _is_plain(found))
    return xxhash.xxh3_64_digest(repr(seen).encode("utf-8", "surrogatepass"))


def _package(kind: type) -> str:
    module: object = type.__getattribute__(kind, "__module__")
    return module.partition(".")[0] if type(module) is str else ""


def _read(descriptor: Any, value: object) -> object:
    try:
        return type(descriptor).__get__(descriptor, value)
    except Exception:  # noqa: BLE001  # a C getter of a closed or half-made object
        return _read


def _is_plain(found: Any) -> bool:
    if type(found) in _PLAIN:
        return True
    return type(found) in (list, tuple) and all(type(item) in _PLAIN for item in found)
