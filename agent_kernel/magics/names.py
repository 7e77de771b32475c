"""Which names in the namespace are the shell's and not the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["is_shells_own"]

# `_`, `__`, `___`, `_3`, `_i`, `_i3`, `_ih`, `_oh`, `_dh`, `_exit_code`, and what VS Code leaves behind.
_OWN = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_exit_code|__vsc_\w*|__\w+__")
_NOTHING = object()


def is_shells_own(name: str, namespace: Mapping[str, object], hidden: Mapping[str, object]) -> bool:
    """Whether IPython put this name there. A hidden name that the user bound anew is the user's."""
    if _OWN.fullmatch(name):
        return True
    return name in hidden and any(namespace.get(name, _NOTHING) is own for own in (_NOTHING, hidden[name]))
