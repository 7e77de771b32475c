"""An agent: a name, a model, what it is told and given, and what it may take; how a `Run` of a task begins, and is found again."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeGuard,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import msgspec
from msgspec import structs

from agent_kernel.agents import messages, rights
from agent_kernel.agents.approval import MODES
from agent_kernel.agents.arguments import Arguments, check_type, type_of_text, type_text
from agent_kernel.agents.current import MissingNotebook
from agent_kernel.agents.event_log import OVER, EventStore, Listener, Log, new_run_id
from agent_kernel.agents.events import Action, TaskStart
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.executor import RunExecutor, Setup, delete_unneeded_branches
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.messages import POLICIES
from agent_kernel.agents.models import ScriptedModel, check_model, check_price, is_own, model_named
from agent_kernel.agents.rights import may_change, parent_executor, was_changed, was_made, was_made_by_a_step
from agent_kernel.agents.run import Run, Task, caller_names
from agent_kernel.agents.side_effects import current_gate
from agent_kernel.agents.subagents import ChildRun, Fork, approval_within, limits_within, stricter, subagent_context
from agent_kernel.errors import ModelError, NotBoundError, TaskInterruptedError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import ASIDE
from agent_kernel.repository.refs import check_ref_name
from agent_kernel.session import trust
from agent_kernel.session.versioned import Live, Versioned
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.models import Message, Model
    from agent_kernel.session import Session


# -- what a program gives its agents to use: functions, classes, modules, live objects, and other agents' tasks
#
# An agent's code finds them under their names (`offering`), its model is told of them, and using them needs no asking. It
# is not a fence: code can reach what it was not given.


Visibility: TypeAlias = Literal["high", "medium", "low"]
Patterns: TypeAlias = "str | Iterable[str] | None"
_CHARS_A_TOKEN = 4


class Member(msgspec.Struct, frozen=True):
    """How one member of a class or module is told of, where that differs from the rest; `doc` is said instead of its own."""

    visibility: Visibility | None = None
    doc: str = ""


class _Given(msgspec.Struct, frozen=True):
    """One thing that was given. `lines` are told in order, as far as there is room."""

    name: str
    value: object
    lines: tuple[str, ...]
    allowed: tuple[str, ...]
    is_agent: bool = False


class Registry:
    """All that one agent was given, by name."""

    def __init__(self) -> None:
        self._given: dict[str, _Given] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def copy(self) -> Registry:
        """Another with the same, to give more to one run."""
        made = Registry()
        made._given.update(self._given)
        return made

    @property
    def objects(self) -> dict[str, object]:
        """What the agent's code finds beside the variables."""
        return {name: registered.value for name, registered in self._given.items()}

    @property
    def allowed(self) -> frozenset[str]:
        """Names that code may use without asking."""
        return frozenset(name for registered in self._given.values() for name in registered.allowed)

    @property
    def agents(self) -> frozenset[str]:
        """Those that are sub-agents."""
        return frozenset(name for name, registered in self._given.items() if registered.is_agent)

    def function(
        self,
        value: object,
        name: str,
        visibility: Visibility,
        doc: str = "",
        *,
        about: object = None,
        agent: bool = False,
    ) -> None:
        """Give a function. `about` is what its signature and docstring are read from, by default itself."""
        line = _line(name, value if about is None else about, _check_visibility(visibility), doc)
        self._given[name] = _Given(name, value, (line,), (name,), agent)

    def kind(
        self,
        value: type,
        name: str,
        visibility: Visibility,
        include: Patterns,
        exclude: Patterns,
        configure: Mapping[str, Member],
    ) -> None:
        """Give a class; `include` and `exclude` say which of its members are told of."""
        lines = [_line(name, value, _check_visibility(visibility))]
        for member, found in _members(value, include, exclude, configure):
            how = configure.get(member, Member())
            lines.append("  " + _line(f".{member}", found, _least(how, visibility), how.doc))
        self._given[name] = _Given(name, value, tuple(lines), (name,))

    def module(
        self,
        value: object,
        name: str,
        visibility: Visibility,
        include: Patterns,
        exclude: Patterns,
        configure: Mapping[str, Member],
        *,
        recursive: bool,
    ) -> None:
        """Give a module, or a live object; with `include` or `exclude` only those members of it."""
        members = dict(_members(value, include, exclude, configure, modules=recursive))
        is_whole = include is None and exclude is None
        kind = f"module {value.__name__}" if isinstance(value, ModuleType) else type(value).__name__
        lines = [f"{name}: {kind}" + (f"  # {doc}" if (doc := _first_line(value)) and visibility == "high" else "")]
        for member, found in members.items():
            how = configure.get(member, Member())
            how_much = _least(how, visibility)
            if how_much != "low" or member in configure:
                lines.append("  " + _line(f"{name}.{member}", found, how_much, how.doc))
        own = (value.__name__,) if isinstance(value, ModuleType) else ()
        allowed = (name, *own) if is_whole else tuple(f"{name}.{member}" for member in members)
        offered = value if is_whole else _narrow(value, members)
        self._given[name] = _Given(name, offered, tuple(lines), allowed)

    def text(self, budget_tokens: int) -> str:
        """What the model is told of all this. Where the budget is too small, it is told the names alone."""
        if not self._given:
            return ""
        lines = ["Given to you, to be used as they are (nothing has to be imported for them):"]
        room = budget_tokens * _CHARS_A_TOKEN - len(lines[0])
        short: list[str] = []
        for registered in self._given.values():
            size = sum(len(line) + 3 for line in registered.lines)
            if size <= room:
                lines += [f"  {line}" for line in registered.lines]
                room -= size
            else:
                short.append(registered.name)
        return "\n".join([*lines, *([f"  and {', '.join(short)}"] if short else [])])

    def lines(self) -> list[str]:
        """All of it, a line each."""
        return [line for registered in self._given.values() for line in registered.lines]


def _check_visibility(visibility: Visibility) -> Visibility:
    if visibility not in get_args(Visibility):
        raise ValueError(f"visibility is one of {', '.join(get_args(Visibility))}, not {visibility!r}")
    return visibility


def _least(how: Member, visibility: Visibility) -> Visibility:
    return _check_visibility(how.visibility or visibility)


def _line(name: str, value: object, visibility: Visibility, doc: str = "") -> str:
    """`name(signature)  # first line of its docstring`, or less of it."""
    if visibility == "low":
        return name
    comment = doc or _first_line(value) if visibility == "high" else ""
    return f"{name}{_signature(value)}" + (f"  # {comment}" if comment else "")


def _signature(value: object) -> str:
    if not callable(value):
        return f": {type(value).__name__}"
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):  # written in C, without a signature
        return "(…)"
    shown_parameters = [
        one for at, one in enumerate(found.parameters.values()) if at or one.name not in ("self", "cls")
    ]
    parameters = [one.replace(annotation=_bare(one.annotation)) for one in shown_parameters]
    returns = inspect.Signature.empty if isinstance(value, type) else _bare(found.return_annotation)
    text = str(found.replace(parameters=parameters, return_annotation=returns))
    return text if len(text) <= 200 else "(…)"


class _Bare(str):
    """An annotation that is text already."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: object) -> object:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").strip().partition("\n")[0]


def _members(
    value: object, include: Patterns, exclude: Patterns, configure: Mapping[str, Member], *, modules: bool = False
) -> Iterator[tuple[str, object]]:
    """The members that are meant: by default all public ones that are no modules."""
    wanted, unwanted = _patterns(include), _patterns(exclude) or ()
    listed = getattr(value, "__all__", None) if isinstance(value, ModuleType) else None
    for member in sorted(listed or dir(value)):
        named = member in configure or (wanted is not None and _fits(member, wanted))
        if _fits(member, unwanted) or not (named or (wanted is None and not member.startswith("_"))):
            continue
        # Not getattr: a property of a live object is code of its own.
        found = inspect.getattr_static(value, member, None)
        found = getattr(value, member, None) if callable(found) or isinstance(value, ModuleType) else found
        if isinstance(found, ModuleType) and not named:
            if modules and found.__name__.startswith(f"{getattr(value, '__name__', '')}."):
                yield member, found
                yield from ((f"{member}.{inner}", one) for inner, one in _members(found, None, exclude, {}))
            continue
        if isinstance(value, ModuleType) and not named and getattr(found, "__module__", value.__name__) is None:
            continue
        yield member, found


def _patterns(patterns: Patterns) -> tuple[str, ...] | None:
    return None if patterns is None else (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _narrow(value: object, members: Mapping[str, object]) -> object:
    """Something of the same name that has these members alone."""
    direct = {name: getattr(value, name) for name in members if "." not in name}
    if not isinstance(value, ModuleType):
        return SimpleNamespace(**direct)
    module = _Narrowed(value.__name__, value.__doc__)
    module.__dict__.update(direct)
    return module


class _Narrowed(ModuleType):
    """A module with some of its members."""

    def __reduce__(self) -> tuple[object, ...]:
        members = tuple(name for name in vars(self) if not (name.startswith("__") and name.endswith("__")))
        return narrowed_again, (self.__name__, members)


def narrowed_again(name: str, members: tuple[str, ...]) -> object:
    """A module with these members alone. The name of this function is stored."""
    module = import_module(name)
    return _narrow(module, {member: getattr(module, member) for member in members})


# -- agents, and how each begins tasks

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M")


class Decorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Run[R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class Agent:
    """An agent that acts by running Python.

    Args:
        name: what its commits are signed with.
        model: a name (`openai:…`, `scripted:hello`), a model, or "" for what AGENT_KERNEL_MODEL names.
        primer: what it is told of itself and its task, before everything else.
        state: what it acts on if a task says nothing else: a `Versioned` (each step a commit), a `Live` or a dict (kept
            in memory, any object, no history), or None: a fresh namespace for each task, of which nothing survives.
        approve: `auto`, `risky`, `always` or `never`. By default `auto`, but `risky` for a task that a cell gives.
        on_event: is told of every event, also of its sub-agents'.
        context_tokens: how long its first message may be, besides the task.
        context: how much of a variable it is told unasked: `names` alone, `schema` (types, shapes, columns) or `values`.
            What its code prints is sent in any case.
        model_settings: how its model is asked, by pydantic-ai's names (temperature, max_tokens …). A run that goes on in
            another process keeps the plain ones; others, such as headers, are never stored.

    >>> agent = Agent("counter", model="scripted:hello")
    >>> agent.start("Sum up some squares").result()
    285
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        rights.track(self)
        return self

    def __init__(
        self,
        name: str = "agent",
        *,
        model: object = "",
        primer: str = "",
        state: State = None,
        limits: Limits | None = None,
        approve: str = "",
        on_event: Listener | None = None,
        context_tokens: int = 2_000,
        context: str = "values",
        model_settings: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(cast("object", name), str):
            raise TypeError(f"an agent's name is text, not {name!r}")
        check_ref_name(name, "an agent and its branches")
        if not isinstance(cast("object", limits), Limits | None):
            raise TypeError(f"limits= takes ak.Limits(…), not {limits!r}")
        if approve and approve not in MODES:
            raise ValueError(f"approve is one of {', '.join(MODES)}, not {approve!r}")
        check_model(model)
        was_made(self)
        self.name = name
        self.model = model
        self.primer = primer
        self.state = state
        self.limits = limits or Limits()
        self.approve = approve
        self.on_event = on_event
        self.context_tokens = context_tokens
        if context not in POLICIES:
            raise ValueError(f"context is one of {', '.join(POLICIES)}, not {context!r}")
        self.context = context
        self.model_settings = dict(model_settings or {})
        self.registry = Registry()

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "registry"):  # it is made
            may_change(self)
        with rights.changing():
            super().__setattr__(name, value)
            was_changed(self)

    def __delattr__(self, name: str) -> None:
        may_change(self)
        with rights.changing():
            super().__delattr__(name)
            was_changed(self)

    def __repr__(self) -> str:
        named = self.model if isinstance(self.model, str) else getattr(self.model, "name", type(self.model).__name__)
        return f"<Agent {self.name}, {named or 'no model named'}>"

    @overload
    def start(
        self, task: str, *, returns: type[T], inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> Run[T]: ...
    @overload
    def start(
        self, task: str, *, returns: object = None, inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> Run[Any]: ...
    def start(
        self, task: str, *, returns: object = None, inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> Run[Any]:
        """Begin a task. Nothing runs until the run is driven: iterate over it, await it, or ask for its `result()`.

        Args:
            returns: the type that the result must have; a value that does not fit goes back to the model.
            inputs: values for the task; its code finds them as variables, and as `task.inputs[NAME]`.
            options: see `Options`.

        Raises:
            NoModelError, ModelError, MissingExtraError: no model can take it.
            TaskInterruptedError: a person stopped it as it had just begun; `reopen().resume()` goes on.
            RuntimeError: code of a step begins it on another thread than the step's own.
        """
        if not isinstance(cast("object", task), str):
            raise TypeError(f"a task is text, not {task!r}")
        parent = parent_executor(f"{self.name} is an agent")
        if parent is not None:
            return start_within_step(parent, self, task, returns, inputs or {}, options)
        return start_run(
            self, task, open_context(options.get("state", self.state)), returns=returns, inputs=inputs, **options
        )

    @overload
    def __call__(
        self, task: str, *, returns: type[T], inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> T: ...
    @overload
    def __call__(
        self, task: str, *, returns: object = None, inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> Any: ...
    def __call__(
        self, task: str, *, returns: object = None, inputs: Inputs | None = None, **options: Unpack[Options]
    ) -> Any:
        """Do a task, and return its result: `start(task, …).result()`."""
        return self.start(task, returns=returns, inputs=inputs, **options).result()

    def reopen(self, run: str = "", *, returns: object = None, **options: Unpack[Options]) -> Run[Any]:
        """A run of this agent that was begun before, perhaps in another process; "" is the newest in its state.

        Raises:
            RunNotFoundError: no run, or more than one, has an id that begins or ends so.
        """
        context = open_context(options.get("state", self.state))
        return reopen_run(context, run, agent=self, returns=returns, **options)

    # -- tasks as functions

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Run[R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, text: str = "", /, **options: Unpack[Options]) -> Decorator: ...
    def task(self, function_or_text: Any = "", /, **options: Unpack[Options]) -> Any:
        """Make a task of a typed, documented, empty function: `@agent.task`, or `@agent.task(setup="import math")`.

        Its docstring, or the text given here, says what is to be done; its arguments are validated and passed as
        variables, and what it returns is of the annotated type.

        >>> agent = Agent("counter", model="scripted:hello")
        >>> @agent.task
        ... def squares(below: int) -> int:
        ...     '''Sum up the squares below a number.'''
        >>> squares(10)
        285

        Raises:
            TypeError: the function has a body, says nothing, or is annotated with what is not known.
        """
        names = caller_names()
        if not isinstance(function_or_text, str):
            return self._task(function_or_text, "", options, names)

        def decorate(function: Any) -> Task[..., Any, Any]:
            return self._task(function, function_or_text, options, names)

        return decorate

    def _task(self, function: Any, text: str, options: Options, names: Mapping[str, object]) -> Task[..., Any, Any]:
        return Task(self, function, text, options, names)

    # -- what its code may use

    @overload
    def fn(self, function: F, /) -> F: ...
    @overload
    def fn(self, /, *, name: str = "", visibility: Visibility = "high", doc: str = "") -> Callable[[F], F]: ...
    def fn(self, function: Any = None, /, *, name: str = "", visibility: Visibility = "high", doc: str = "") -> Any:
        """Give the agent a function, also a method of a live object, or another agent's task: `@parent.fn @child.task`.

        Args:
            visibility: whether its model is told of its signature and what it does (high), of its signature alone
                (medium), or of its name (low).
            doc: said instead of the first line of its docstring.
        """

        def give(function: Any) -> Any:
            may_change(self)
            if not callable(function):
                raise TypeError(f"an agent is given a function, not {function!r}")
            named = name or _name_of(function)
            if not isinstance(function, Task):
                with rights.changing():
                    self.registry.function(function, named, visibility, doc)
                    was_changed(self)
                return function
            task = cast("Task[..., Any, Any]", function)
            with rights.changing():
                self.registry.function(task.blocking, named, visibility, doc, about=task.function, agent=True)
                was_changed(self)
            return task

        return give if function is None else give(function)

    def cls(
        self,
        kind: type[T],
        /,
        *,
        name: str = "",
        visibility: Visibility = "high",
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        configure: Mapping[str, Member] | None = None,
    ) -> type[T]:
        """Give the agent a class. `include` and `exclude` are patterns of the members that its model is told of."""
        may_change(self)
        with rights.changing():
            self.registry.kind(kind, name or kind.__name__, visibility, include, exclude, configure or {})
            was_changed(self)
        return kind

    def module(
        self,
        value: M,
        /,
        *,
        name: str = "",
        visibility: Visibility = "low",
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        configure: Mapping[str, Member] | None = None,
        recursive: bool = False,
    ) -> M:
        """Give the agent a module, or a live object under a name.

        Args:
            visibility: as for `fn`, of its members; low tells of the module, and of no members but configured ones.
            include: patterns of member names; with it, the agent's code finds only those.
            exclude: patterns of member names that the agent's code does not find.
            configure: by name, how single members are told of.
            recursive: its submodules too.
        """
        may_change(self)
        with rights.changing():
            self.registry.module(
                value, name or _name_of(value), visibility, include, exclude, configure or {}, recursive=recursive
            )
            was_changed(self)
        return value


def _name_of(value: object) -> str:
    name: str = getattr(value, "__name__", "") or type(value).__name__
    return name.rpartition(".")[2]


# -- begin a run of an agent, and find one again that was begun before

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
        delete_unneeded_branches(context.session.repo, context.event_store, context.session)
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
        called = _named_by(made.model, model_name or options.get("model") or agent.model, context)
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


def _named_by(model: Model, named: object, context: ExecutionContext) -> str:
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
