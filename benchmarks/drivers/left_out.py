"""Find the variables that a system refuses, as its user would: after a failure, one by one."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any


class LeftOut:
    """Names that a system cannot save. What was refused once is not tried again until it is bound anew."""

    def __init__(self, encode: Callable[[str, Any], object]) -> None:
        self._encode = encode
        self._refused: dict[str, int] = {}

    def savable(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in variables.items()
            if not isinstance(value, types.ModuleType) and self._refused.get(name) != id(value)
        }

    def find(self, variables: Mapping[str, Any], failure: Exception) -> None:
        """Try each of them alone, and remember those that fail.

        Raises:
            Exception: each can be saved alone, so the failure was not for one of them.
        """
        found = False
        for name, value in variables.items():
            try:
                self._encode(name, value)
            except Exception:  # noqa: BLE001 - picklers raise anything
                self._refused[name] = id(value)
                found = True
        if not found:
            raise failure
