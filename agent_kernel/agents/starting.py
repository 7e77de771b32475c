"""Beginning a run of an agent, and finding one again that was begun before."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeGuard, Unpack, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from msgspec import structs

from agent_kernel.agents import cleanup, messages, rights
from agent_kernel.agents.approval import MODES
from agent_kernel.agents.arguments import Arguments, check_type, type_of_text, type_text
from agent_kernel.agents.current import MissingNotebook
from agent_kernel.agents.event_log import OVER, EventStore, Listener, Log, new_run_id
from agent_kernel.agents.events import Action, TaskStart
from agent_kernel.agents.execution_context import ExecutionContext
from agent_kernel.agents.executor import RunExecutor, Setup
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.models import ScriptedModel, check_price, is_own, model_named
from agent_kernel.agents.rights import was_made_by_a_step
from agent_kernel.agents.run import Run
from agent_kernel.agents.side_effects import current_gate
from agent_kernel.agents.subagents import ChildRun, Fork, approval_within, limits_within, stricter, subagent_context
from agent_kernel.errors import ModelError, NotBoundError, TaskInterruptedError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import ASIDE
from agent_kernel.session import trust
from agent_kernel.session.versioned import Live, Versioned
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.models import Message, Model
    from agent_kernel.session import Session

__all__ = ["Inputs", "Options", "State", "model_of_run", "open_context", "reopen_run", "start_run", "start_within_step"]

_own_models: WeakValueDictionary[str, Any] = WeakValueDictionary()  # by the run that began with it
_DEEPEST: Final = 6  # agents that begin each other; limits of steps hold for each of them

State: TypeAlias = "ExecutionContext | Versioned | Live | Session | dict[str, object] | None"
Inputs: TypeAlias = Mapping[str, object]


class Options(TypedDict, total=False):
    """What may be said of one task; what is left out is as the agent has it.

    Attributes:
        state: what it acts on; None: a fresh namespace.
        on_event: is told of every event, besides the agent's own `on_event`.
        setup: code of yours that runs first, in the same execution context; the model sees what came of it.
        preview: try each step on a fork of this process first; the run then waits for `approve()`, which takes on what it
            did there, or `deny()`.
    """

    state: State
    on_event: Listener | None
    approve: str
    limits: Limits | None
    model: object
    setup: str
    preview: bool


def start_run(
    agent: Agent,
    task: str,
    context: ExecutionContext,
    *,
    returns: object = None,
    inputs: Inputs | None = None,
    listeners: Sequence[Listener] = (),
    can_ask: bool = True,
    parent: RunExecutor | None = None,
    fork: Fork | None = None,
    run: str = "",
    parent_run: str = "",
    namespace: str = "",
    model_name: str = "",
    **options: Unpack[Options],
) -> Run[Any]:
    """Begin a run of an agent in an execution context; `TaskStart` is stored.

    Args:
        can_ask: somebody is there who can be asked to approve a step.
        parent: the run whose step begins this one.
        fork: the branch that this one has for itself.
        run: its id; by default a new one.
        parent_run: the run that it belongs to, where no step of that begins it.
        namespace: the agents from the outermost down to this one.
        model_name: what the agent's model was named by.

    Raises:
        TaskInterruptedError: a person stopped it as it had just begun; it can be resumed.
    """
    above = parent.log.start if parent is not None else None
    if above is None and context.session is not None and not context.session.id.startswith(ASIDE):
        cleanup.delete_unneeded_branches(context.session.repo, context.event_store, context.session)
    named = namespace or (agent.name if above is None else f"{above.namespace}/{agent.name}")
    before = messages.find_remembered_runs(context, named) if parent is None else ()  # a function remembers nothing
    history = messages.messages(context.event_store, before)
    made = _setup(agent, context, returns, options, parent, history, can_ask=can_ask)
    run = run or new_run_id()
    if fork is not None:
        arguments = Arguments.bind_in_fork(context, agent.name, run, inputs or {})
    else:
        arguments = Arguments.bind(context, agent.name, run, inputs or {}, in_history=parent is None)
    log = Log(
        context.event_store,
        run,
        listeners=_listeners(agent, options, parent, listeners),
        agent=agent.name,
        namespace=named,
        parent_run=parent_run if above is None else above.run,
    )
    context.policy = agent.context
    context.learn_secrets()
    try:
        start = _task_start(agent, task, context, made, before, arguments)
        called = _name_of(made.model, model_name or options.get("model") or agent.model, context)
        own = server_of(made.model) if called == made.model.name and is_own(made.model) else ""
        if own:
            _own_models[run] = _object_of(made.model)
        log.note(structs.replace(start, model=called, own_model=own), before=context.head)
        compaction = messages.compact(history)
        if compaction is not None:
            log.note(compaction, before=context.head)
        if options.get("setup"):
            source = "setup" if parent is None else "given"
            log.note(Action(source=source, code=options.get("setup"), call="setup"), step=0, before=context.head)
        run_executor = RunExecutor(made, context, log, arguments)
        return Run(run_executor) if parent is None else ChildRun(run_executor, parent, fork)
    except KeyboardInterrupt as error:
        if not log.events:
            arguments.unbind()
            raise
        RunExecutor(made, context, log, arguments).note_interrupt()
        if parent is not None:  # the whole is meant
            raise
        raise TaskInterruptedError(run) from error
    except BaseException:
        arguments.unbind()  # there is no run that could
        raise


def start_within_step(
    parent: RunExecutor, agent: Agent, task: str, returns: object, inputs: Inputs, options: Options
) -> Run[Any]:
    """A run that the step of another begins. Without a state of its own it acts on a fork of its parent's.

    Raises:
        RecursionError: agents have begun each other too deep already.
        EffectStopped: the step chose a model, which nobody has allowed it.
    """
    _check_model(parent, agent, options)
    if parent.log.start.namespace.count("/") + 1 >= _DEEPEST:
        raise RecursionError(f"agents begin each other no more than {_DEEPEST} deep: {parent.log.start.namespace}")
    run = new_run_id()
    fork: Fork | None = None
    state = options.get("state", agent.state)
    parent.context.learn_secrets()  # its step may have given the sub-agent what no step before it had
    with uninterrupted():  # a branch that nobody has would stay in use
        if state is not None:
            context = open_context(state)
            context.redactor.include(parent.context.redactor)
        elif parent.context.session is not None:
            fork = Fork(parent.context, parent.context.session, agent.name, run, inputs)
            context = fork.context
        else:
            context = subagent_context(parent.context, {"__name__": "__agent__"})
        try:
            return start_run(
                agent, task, context, returns=returns, inputs=inputs, parent=parent, fork=fork, run=run, **options
            )
        except BaseException:
            if fork is not None:
                fork.leave()
            raise


def _check_model(parent: RunExecutor, agent: Agent, options: Options) -> None:
    """Stop a step that gives a sub-agent a model of its own choice: what it asks may be sent to any server."""
    gate = current_gate()
    chosen = options.get("model") or (agent.model if was_made_by_a_step(agent) else None)
    if gate is None or chosen is None or (isinstance(chosen, str) and not chosen) or type(chosen) is ScriptedModel:
        return
    known = [parent.setup.model, _object_of(parent.setup.model), parent.log.start.model]
    known += [] if was_made_by_a_step(agent) else [agent.model]
    if any(chosen is one or (isinstance(chosen, str) and chosen == one) for one in known):
        return
    named = chosen if isinstance(chosen, str) else model_named(chosen, parent.context.namespace).name
    stopped = gate.check("requests", f"answers of the model {named}", (), sys._getframe())  # pyright: ignore[reportPrivateUsage]
    if stopped is not None:
        raise stopped


def reopen_run(
    context: ExecutionContext,
    run: str,
    *,
    agent: Agent | None = None,
    returns: object = None,
    listeners: Sequence[Listener] = (),
    can_ask: bool = True,
    **options: Unpack[Options],
) -> Run[Any]:
    """A run that was begun before, perhaps in another process, as far as its events tell.

    Args:
        agent: whose it is; without it, its code finds nothing that was registered for it.

    Raises:
        RunNotFoundError: no run has this id. UntrustedStoreError: its code, its model and what was allowed come from a store
            that somebody else made. NoModelError, ModelError, MissingExtraError: its model is not available.
    """
    rights.put_back_between_steps()
    run = context.event_store.find(run)
    start = context.event_store.first(run)
    if context.session is not None:
        trust.require(context.session.repo)
    context.policy = start.context
    context.learn_secrets()
    model = options.get("model") or model_of_run(start, agent)
    setup = Setup(
        model=model_named(model, context.namespace, context.read_stored_names()),
        limits=options.get("limits") or Limits.of(start.limits),
        approve=options.get("approve", "") or start.approve,
        returns=type_of_text(start.returns, context.namespace) if returns is None else returns,
        settings=dict(start.settings) if agent is None else agent.model_settings,
        earlier=tuple(messages.messages(context.event_store, start.earlier)),
        can_ask=can_ask,
        offers={} if agent is None else agent.registry.objects,
        allowed=frozenset() if agent is None else agent.registry.allowed,
        agents=frozenset() if agent is None else agent.registry.agents,
        preview=options.get("preview", start.preview),
    )
    log = Log(
        context.event_store,
        run,
        tuple(context.event_store.of(run)),
        _listeners(agent, options, None, listeners),
        agent=start.agent,
        namespace=start.namespace,
        parent_run=start.parent_run,
    )
    return Run(RunExecutor(setup, context, log, Arguments.restore(context, start, is_over=log.state in OVER)))


def model_of_run(start: TaskStart, agent: Agent | None) -> object:
    """What a run goes on with: the object that it began with, its agent's object of this name and server, or the name itself.

    Raises:
        ModelError: it began with an object that is gone. The name could be asked of another server, with another key.
    """
    own = agent.model if agent is not None else None
    if own and not isinstance(own, str):
        named = model_named(own)
        if named.name == start.model and start.own_model in ("", server_of(named)):
            return own
    model = _own_models.get(start.run)
    if model is not None:
        return model
    if not start.own_model:
        return start.model
    raise ModelError(start.model, "the run began with a model object that is gone; its name may be another server's")


def open_context(state: State) -> ExecutionContext:
    """Where a run with this state acts. Raises: NotBoundError: it acts in the notebook, and no notebook is bound."""
    if isinstance(state, ExecutionContext):
        return state
    if state is None:
        return ExecutionContext({"__name__": "__agent__"})
    if isinstance(state, Versioned):
        return ExecutionContext(state.session.namespace, state.session)
    if isinstance(state, Live):
        return ExecutionContext(state.namespace, event_store=EventStore(state.beside))
    if isinstance(state, dict):
        return ExecutionContext(state)
    if isinstance(cast("object", state), MissingNotebook):
        raise NotBoundError
    from agent_kernel.session import Session

    if not isinstance(cast("object", state), Session):
        raise TypeError(f"state= takes a Versioned, a Live, a dict, a session or None, not {state!r}")
    return ExecutionContext(state.namespace, state)


def _setup(
    agent: Agent,
    context: ExecutionContext,
    returns: object,
    options: Options,
    parent: RunExecutor | None,
    history: Sequence[Message],
    *,
    can_ask: bool,
) -> Setup:
    rights.put_back_between_steps()
    approve = options.get("approve", "") or agent.approve or "auto"
    if parent is not None and agent.approve:  # a step may ask for less than its helper's own, never for more
        approve = stricter(approve, agent.approve)
    if approve not in MODES:
        raise ValueError(f"approve is one of {', '.join(MODES)}, not {approve!r}")
    check_type(returns)
    limits = options.get("limits") or agent.limits
    limits = limits if parent is None else limits_within(parent, limits)
    model = model_named(options.get("model") or agent.model, context.namespace)
    check_price(model, limits.cost)
    return Setup(
        model=model,
        limits=limits,
        approve=approve if parent is None else approval_within(parent, approve),
        returns=returns,
        settings=agent.model_settings,
        earlier=tuple(history),
        can_ask=can_ask and parent is None,
        offers=agent.registry.objects,
        allowed=agent.registry.allowed,
        agents=agent.registry.agents,
        preview=parent is None and options.get("preview", False),
    )


def _listeners(
    agent: Agent | None, options: Options, parent: RunExecutor | None, more: Sequence[Listener]
) -> list[Listener]:
    """Who is told of the events, each once: the agent's own, the task's, and those of the run that began it."""
    own = [agent.on_event if agent is not None else None, options.get("on_event")]
    above: Sequence[Listener] = parent.log.listeners if parent is not None else ()
    found: list[Listener] = []
    for one in (*own, *more, *above):
        if one is not None and one not in found:
            found.append(one)
    return found


def _task_start(
    agent: Agent,
    task: str,
    context: ExecutionContext,
    made: Setup,
    before: tuple[tuple[str, int], ...],
    arguments: Arguments,
) -> TaskStart:
    wanted = type_text(made.returns)
    cell, number = context.cell()
    named = [name for name in arguments.inputs if not context.is_hidden(name)]
    inputs_note = f"Given as variables: {', '.join(named)}." if named else ""
    prompt = "\n\n".join(filter(None, (context.redactor.redact(task.strip()), inputs_note)))
    room = agent.context_tokens * messages.CHARS_A_TOKEN - len(prompt) - 2
    tools = context.redactor.redact(agent.registry.text(agent.context_tokens))
    return TaskStart(
        task=context.redactor.redact(task, names=False),
        prompt=f"{prompt}\n\n{context.describe(task, room)}",
        instructions=messages.instructions(
            context.redactor.redact(wanted),
            primer=context.redactor.redact(agent.primer),
            is_task_taken="task" in context.namespace,
            extra=[tools] if tools else [],
        ),
        inputs={name: context.summary(name) for name in named},
        returns=wanted,
        model=made.model.name,
        approve=made.approve,
        preview=made.preview,
        limits=made.limits.as_dict(),
        settings={
            name: value for name, value in made.settings.items() if _is_plain(value) and not _is_key(name, value)
        },
        context=agent.context,
        earlier=before,
        state="versioned" if context.session is not None else "live",
        cell=cell,
        number=number,
        branch=(context.session.branch or "") if context.session is not None else "",
        arguments=arguments.stored_names,
        replaced=arguments.replaced,
    )


def _name_of(model: Model, named: object, context: ExecutionContext) -> str:
    """What finds the model again: where a variable was named that holds it, that one."""
    value = context.namespace.get(named) if isinstance(named, str) else None
    return cast("str", named) if value is not None and (value is model or value is _object_of(model)) else model.name


def server_of(model: Model) -> str:
    """Which server an object of the program's asks, without what its address may hold of a key; "-" where none is named."""
    address = urlsplit(str(getattr(_object_of(model), "base_url", None) or ""))
    return f"{address.hostname or ''}:{address.port or ''}{address.path}".strip(":") or "-"


def _object_of(model: Model) -> object:
    """The object that the program has, of a provider's model what the package made."""
    return getattr(model, "model", model)


def _is_key(name: str, value: object) -> bool:
    """Whether a setting looks like a key, which is never stored."""
    return isinstance(value, str) and (previews.names_a_secret(name) or previews.holds_a_secret(value))


def _is_plain(value: object) -> TypeGuard[str | int | float | bool | None]:
    return value is None or isinstance(value, str | int | float | bool)
