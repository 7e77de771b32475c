"""The notebook that a program runs in, as an execution context for agents. An interface registers it; without an interface, no notebook is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_kernel.errors import NotBoundError

if TYPE_CHECKING:
    from agent_kernel.agents.execution import ExecutionContext

_interfaces: list[Callable[[], ExecutionContext]] = []
_guards: dict[Callable[[], ExecutionContext], Callable[[], None]] = {}


def here() -> ExecutionContext:
    """This notebook, for an agent to act on: `Agent("analyst", state=ak.here())`.

    Raises:
        NotBoundError: no notebook is bound in this process (`%load_ext agent_kernel`).
    """
    if not _interfaces:
        raise NotBoundError
    context = _interfaces[-1]()
    context.is_notebook = True
    return context


class MissingNotebook:
    """What `here()` was, where no notebook is: an agent that acts on it can be looked at, and started in a notebook."""

    is_notebook = True

    def __reduce__(self) -> tuple[object, ...]:
        return here_again, ()


def here_again() -> ExecutionContext | MissingNotebook:
    """What an agent acts on that was saved with its notebook. The name of this function is stored."""
    return here() if _interfaces else MissingNotebook()


def register_notebook(
    interface: Callable[[], ExecutionContext], guard: Callable[[], None] | None = None, *, is_open: bool = True
) -> None:
    """A notebook is here from now on, or no more.

    Args:
        guard: called before a step runs that must not show everything in its page; often.
    """
    if is_open:
        _interfaces.append(interface)
        if guard is not None:
            _guards[interface] = guard
    elif interface in _interfaces:
        _interfaces.remove(interface)
        _guards.pop(interface, None)


def guard_pages() -> None:
    """A step begins that must not show everything: have what is sent to the pages of notebooks here looked at."""
    for guard in tuple(_guards.values()):
        guard()
