"""An agent: a name, a model, what it is told of itself, and what it may take; each task that it is given is a `Run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeGuard, TypeVar, Unpack, overload

import msgspec

from agent_kernel.agents import context, earlier, returning
from agent_kernel.agents.approving import MODES
from agent_kernel.agents.course import Course, Setup
from agent_kernel.agents.events import TaskStart
from agent_kernel.agents.journal import new_run_id
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.log import Listener, Log
from agent_kernel.agents.naming import model_named
from agent_kernel.agents.place import Place
from agent_kernel.agents.run import Run
from agent_kernel.repository.refnames import check_ref_name
from agent_kernel.session.versioned import Live, Versioned

if TYPE_CHECKING:
    from agent_kernel.session import Session

__all__ = ["Agent", "Options", "State", "place_of", "reopened", "started"]

T = TypeVar("T")
State: TypeAlias = "Place | Versioned | Live | Session | dict[str, object] | None"


class Options(TypedDict, total=False):
    """What may be said of one task; what is left out is as the agent has it.

    Attributes:
        inputs: values for the task; its code finds them as variables, and as `task.inputs[NAME]`.
        state: what it acts on; None: a fresh namespace.
        on_event: is told of every event, besides the agent's own `on_event`.
    """

    inputs: Mapping[str, object] | None
    state: State
    on_event: Listener | None
    approve: str
    limits: Limits | None
    model: object


class Agent:
    """An agent that acts by running Python.

    Args:
        name: what its commits are signed with.
        model: a name (`openai:…`, `scripted:hello`), a model, or "" for what AGENT_KERNEL_MODEL names.
        primer: what it is told of itself and its task, before everything else.
        state: what it acts on if a task says nothing else: a `Versioned` (each step a commit), a `Live` or a dict (kept
            in memory, any object, no history), or None: a fresh namespace for each task, of which nothing survives.
        approve: `auto`, `risky`, `always` or `never`.
        on_event: is told of every event, also of its sub-agents'.
        model_settings: how its model is asked, by pydantic-ai's names (temperature, max_tokens …). A run that goes on in
            another process keeps the plain ones; others, such as headers, are never stored.

    >>> agent = Agent("counter", model="scripted:hello")
    >>> agent.start("Sum up some squares").result()
    285
    """

    def __init__(
        self,
        name: str = "agent",
        *,
        model: object = "",
        primer: str = "",
        state: State = None,
        limits: Limits | None = None,
        approve: str = "auto",
        on_event: Listener | None = None,
        context_tokens: int = 2_000,
        model_settings: Mapping[str, object] | None = None,
    ) -> None:
        check_ref_name(name)
        if approve not in MODES:
            raise ValueError(f"approve is one of {', '.join(MODES)}, not {approve!r}")
        self.name = name
        self.model = model
        self.primer = primer
        self.state = state
        self.limits = limits or Limits()
        self.approve = approve
        self.on_event = on_event
        self.context_tokens = context_tokens
        self.model_settings = dict(model_settings or {})

    def __repr__(self) -> str:
        named = self.model if isinstance(self.model, str) else getattr(self.model, "name", type(self.model).__name__)
        return f"<Agent {self.name}, {named or 'no model named'}>"

    @overload
    def start(self, task: str, *, returns: type[T], **options: Unpack[Options]) -> Run[T]: ...
    @overload
    def start(self, task: str, *, returns: object = None, **options: Unpack[Options]) -> Run[Any]: ...
    def start(self, task: str, *, returns: object = None, **options: Unpack[Options]) -> Run[Any]:
        """Begin a task. Nothing runs until the run is driven: iterate over it, await it, or ask for its `result()`.

        Args:
            returns: the type that the result must have; a value that does not fit goes back to the model.
            options: see `Options`.

        Raises:
            NoModelError, ModelError, MissingExtraError: there is no model that could take it.
        """
        listeners = [listener for listener in (self.on_event, options.get("on_event")) if listener is not None]
        return started(
            self,
            task,
            place_of(options.get("state", self.state)),
            returns=returns,
            inputs=options.get("inputs"),
            listeners=listeners,
            approve=options.get("approve", ""),
            limits=options.get("limits"),
            model=options.get("model", ""),
        )

    @overload
    def __call__(self, task: str, *, returns: type[T], **options: Unpack[Options]) -> T: ...
    @overload
    def __call__(self, task: str, *, returns: object = None, **options: Unpack[Options]) -> Any: ...
    def __call__(self, task: str, *, returns: object = None, **options: Unpack[Options]) -> Any:
        """Do a task, and return its result: `start(task, …).result()`."""
        return self.start(task, returns=returns, **options).result()


def started(
    agent: Agent,
    task: str,
    place: Place,
    *,
    returns: object = None,
    inputs: Mapping[str, object] | None = None,
    listeners: Sequence[Listener] = (),
    approve: str = "",
    limits: Limits | None = None,
    model: object = "",
    can_ask: bool = True,
    run: str = "",
    parent_run: str = "",
    namespace: str = "",
) -> Run[Any]:
    """Begin a run of an agent in a place; `TaskStart` is stored.

    Args:
        run: its id; by default a new one.
        parent_run: the run that it belongs to.
        namespace: the agents from the outermost down to this one.
    """
    if approve and approve not in MODES:
        raise ValueError(f"approve is one of {', '.join(MODES)}, not {approve!r}")
    setup = Setup(
        model=model_named(model or agent.model, place.namespace),
        limits=limits or agent.limits,
        approve=approve or agent.approve,
        returns=returns,
        inputs=dict(inputs or {}),
        settings=agent.model_settings,
        can_ask=can_ask,
    )
    place.namespace.update(setup.inputs)
    before = earlier.runs_before(place, namespace or agent.name)
    heard = earlier.messages(place.journal, before)
    setup = msgspec.structs.replace(setup, earlier=tuple(heard))
    log = Log(
        place.journal,
        run or new_run_id(),
        listeners=listeners,
        agent=agent.name,
        namespace=namespace or agent.name,
        parent_run=parent_run,
    )
    wanted = returning.type_text(returns)
    cell, number = place.cell()
    log.note(
        TaskStart(
            task=task,
            prompt=_prompt(task, place, agent.context_tokens, setup.inputs),
            instructions=context.instructions(wanted, primer=agent.primer, taken="task" in place.namespace),
            inputs={name: place.summary(name) for name in setup.inputs},
            returns=wanted,
            model=setup.model.name,
            approve=setup.approve,
            limits=setup.limits.as_dict(),
            settings={name: value for name, value in setup.settings.items() if _is_plain(value)},
            state="versioned" if place.session is not None else "live",
            earlier=before,
            cell=cell,
            number=number,
        ),
        before=place.head,
    )
    left_out = earlier.too_many(heard)
    if left_out is not None:
        log.note(left_out, before=place.head)
    return Run(Course(setup, place, log))


def reopened(
    place: Place,
    run: str,
    *,
    model: object = "",
    returns: object = None,
    listeners: Sequence[Listener] = (),
    can_ask: bool = True,
) -> Run[Any]:
    """A run that was begun before, perhaps in another process, as far as its events tell.

    Raises:
        RunNotFoundError: there is none. NoModelError, ModelError, MissingExtraError: its model is not to be had.
    """
    run = place.journal.find(run)
    start = place.journal.first(run)
    setup = Setup(
        model=model_named(model or start.model, place.namespace),
        limits=Limits.of(start.limits),
        approve=start.approve,
        returns=returns,
        settings=dict(start.settings),
        earlier=tuple(earlier.messages(place.journal, start.earlier)),
        can_ask=can_ask,
    )
    log = Log(
        place.journal,
        run,
        tuple(place.journal.of(run)),
        listeners,
        agent=start.agent,
        namespace=start.namespace,
        parent_run=start.parent_run,
    )
    return Run(Course(setup, place, log))


def _prompt(task: str, place: Place, budget_tokens: int, inputs: Mapping[str, object]) -> str:
    """The first message: the task, what it is given, and the namespace."""
    given = f"Given as variables: {', '.join(inputs)}." if inputs else ""
    return "\n\n".join(filter(None, (task.strip(), given, place.describe(task, budget_tokens))))


def _is_plain(value: object) -> TypeGuard[str | int | float | bool | None]:
    return value is None or isinstance(value, str | int | float | bool)


def place_of(state: State) -> Place:
    """Where a run acts that is given this state."""
    if isinstance(state, Place):
        return state
    if state is None:
        return Place({"__name__": "__agent__"})
    if isinstance(state, Versioned):
        return Place(state.session.namespace, state.session)
    if isinstance(state, Live):
        return Place(state._namespace)  # pyright: ignore[reportPrivateUsage]
    if isinstance(state, dict):
        return Place(state)
    return Place(state.namespace, state)


def is_state(value: object) -> bool:
    """Whether a value can be what an agent acts on."""
    return value is None or isinstance(value, Place | Live | dict) or hasattr(value, "begin_step")
