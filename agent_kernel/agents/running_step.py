"""Which step runs right here: what is begun within it is a sub-agent's, and what only a person may do is refused."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from agent_kernel.agents import rights
from agent_kernel.agents.side_effects import current_gate, is_left_over_from_step, is_on_step_thread
from agent_kernel.errors import WithinStepError

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.executor import RunExecutor

__all__ = [
    "enter_step",
    "is_within",
    "last_step",
    "may_change",
    "only_by_person",
    "parent_executor",
    "refuse_within_step",
    "running_executor",
    "was_changed",
    "was_made",
    "was_made_by_a_step",
]

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# Code of a step can read every context variable, so this one says nothing by itself.
_key: ContextVar[str] = ContextVar("agent_kernel_step", default="")
_executors: dict[str, RunExecutor] = {}
_last: list[object] = [object()]  # another one after each step
_made: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()  # agents that a step made, by the key of the step


@contextmanager
def enter_step(run_executor: RunExecutor) -> Generator[rights.PutBack]:
    """While code of a step of this run runs. What it gives puts back the rights that it changed, and says whether it did."""
    key = secrets.token_hex(8)
    _executors[key] = run_executor
    token = _key.set(key)
    try:
        with rights.protect() as put_back:
            yield put_back
    finally:
        _key.reset(token)
        del _executors[key]
        _last[0] = object()


def last_step() -> object:
    """Stands for the step that ran last in this process, whosever it was."""
    return _last[0]


def running_executor() -> RunExecutor | None:
    """The run whose step runs right here."""
    return _executors.get(_key.get())


def parent_executor(what: str) -> RunExecutor | None:
    """The run whose sub-agent begins here, if one does.

    Args:
        what: begins, for the error.

    Raises:
        WithinStepError: the step changed what an agent may do. It is as it was again.
        RuntimeError: this is code of a step, on a thread or in a context of its own. Nobody would know whose rights hold.
    """
    if is_within() and rights.put_back():
        raise WithinStepError("change an agent")
    run_executor = running_executor()
    if run_executor is None and (is_within() or current_gate() is not None):
        raise RuntimeError(f"{what}: call it on the step's own thread, one after the other")
    return run_executor


def is_within() -> bool:
    """Whether this is code of a step, also on a thread that it started."""
    return running_executor() is not None or is_on_step_thread()


def _whose() -> str:
    """The key of the step whose code acts here, or left behind what does; "": a person's code."""
    return _key.get() or ("left" if is_within() or is_left_over_from_step() else "")


def refuse_within_step(what: str) -> None:
    """Raise WithinStepError where this is code of a step, or what one left behind.

    Args:
        what: what only a person may do, as in "approve a step".
    """
    if _whose():
        raise WithinStepError(what)


class OnlyByPerson(Generic[P, R]):
    """A method that decides: code of a step cannot even take hold of it, to hand it to somebody who calls it later.

    Raises:
        WithinStepError: code of a step, or what one left behind, reads or calls it.
    """

    def __init__(self, what: str, method: Callable[P, R]) -> None:
        self._what = what
        functools.update_wrapper(cast("Callable[P, R]", self), method)
        self.__wrapped__ = method

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        refuse_within_step(self._what)
        return self.__wrapped__ if instance is None else MethodType(self.__wrapped__, instance)


def only_by_person(what: str) -> Callable[[F], F]:
    """For methods that only a person may call. `what` they do, as in "approve a step"."""
    return lambda method: cast("Any", OnlyByPerson(what, method))


def was_made(agent: Agent) -> None:
    """An agent was made; by a step, perhaps."""
    if whose := _whose():
        _made[agent] = whose


def was_made_by_a_step(agent: Agent) -> bool:
    """Whether code of a step made the agent, and so chose all that it has."""
    return agent in _made


def was_changed(agent: Agent) -> None:
    """An agent was made or changed; by a person, unless a step made it."""
    if agent not in _made:
        rights.note_again(agent)


def may_change(agent: Agent) -> None:
    """Raise WithinStepError where code of a step changes an agent that it has not made itself."""
    whose = _whose()
    if whose and _made.get(agent) != whose:
        raise WithinStepError("change an agent")
