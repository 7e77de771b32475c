"""The notebook that a program runs in, as a place for agents. A door says where it is; without one there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_kernel.errors import NotBoundError

if TYPE_CHECKING:
    from agent_kernel.agents.place import Place

__all__ = ["here", "stands_here"]

_doors: list[Callable[[], Place]] = []


def here() -> Place:
    """This notebook, for an agent to act on: `Agent("analyst", state=ak.here())`.

    Raises:
        NotBoundError: no notebook is bound in this process (`%load_ext agent_kernel`).
    """
    if not _doors:
        raise NotBoundError
    return _doors[-1]()


def stands_here(door: Callable[[], Place], *, stands: bool = True) -> None:
    """A notebook is here from now on, or no more."""
    if stands:
        _doors.append(door)
    elif door in _doors:
        _doors.remove(door)
