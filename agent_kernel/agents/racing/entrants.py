"""Who takes part in a race: each task with each agent and each model, packed so that a worker anywhere can begin."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents.models.naming import model_named
from agent_kernel.agents.models.provided import Provided
from agent_kernel.agents.workers import Named, Task
from agent_kernel.errors import RaceError

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.place import Place

__all__ = ["Entry", "entrants"]

_MANY = 3


class Entry(msgspec.Struct, frozen=True):
    """One that takes part: its task, the agent as the worker will have it, and all of it pickled."""

    task: str
    agent: Agent
    model: str
    payload: bytes


def entrants(
    tasks: Sequence[str],
    agents: Sequence[Agent],
    models: Sequence[object],
    n: int | None,
    place: Place,
    returns: object,
    inputs: Mapping[str, object] | None,
) -> list[Entry]:
    """All candidates in order.

    Raises:
        RaceError: there are none, or one cannot be sent to a worker. ModelError and others: there is no such model.
    """
    pairs = [(task, agent, model) for task in tasks for agent in agents for model in (models or [agent.model])]
    many = n if n is not None else _MANY if len(pairs) == 1 else 1
    if many < 1 or not pairs:
        raise RaceError("a race needs a task, and n of at least 1")
    found = [
        _entry(task, agent, model, place, _sent(returns, place), dict(inputs or {})) for task, agent, model in pairs
    ]
    return list(itertools.chain.from_iterable(itertools.repeat(one, many) for one in found))


def _entry(task: str, agent: Agent, model: object, place: Place, returns: object, inputs: dict[str, object]) -> Entry:
    import cloudpickle

    known = model_named(model, place.namespace)
    sent = copy.copy(agent)
    # A provider's model is made anew from its name where it is used; what is no provider's goes along as it is.
    named = known.name if isinstance(model, str) and isinstance(known, Provided) else known
    vars(sent).update(state=None, on_event=None, model=named)
    try:
        payload = bytes(cloudpickle.dumps(Task(sent, task, returns, inputs)))
    except Exception as error:
        what = f"agent {agent.name!r} with model {known.name!r} and its inputs cannot be sent to a worker"
        way = "name the model instead of giving the object" if not isinstance(model, str) else "leave out what fails"
        raise RaceError(f"{what}: {type(error).__name__}: {error}; {way}") from error
    return Entry(task, sent, known.name, payload)


def _sent(returns: object, place: Place) -> object:
    """The type as it travels: one of the notebook's own goes by its name, since the worker has its own of it."""
    if isinstance(returns, type) and place.namespace.get(returns.__name__) is returns:
        return Named(returns.__name__)
    return returns
