"""An agent: a name, a model, what it is told and given, and what it may take; each task that it is given is a `Run`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

from agent_kernel.agents import rights
from agent_kernel.agents.approval import MODES
from agent_kernel.agents.event_log import Listener
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.messages import POLICIES
from agent_kernel.agents.models import check_model
from agent_kernel.agents.registry import Member, Registry, Visibility
from agent_kernel.agents.rights import may_change, parent_executor, was_changed, was_made
from agent_kernel.agents.run import Run
from agent_kernel.agents.starting import Inputs, Options, State, open_context, reopen_run, start_run, start_within_step
from agent_kernel.agents.tasks import Task, caller_names
from agent_kernel.repository.refs import check_ref_name

__all__ = ["Agent", "Options", "State", "open_context", "reopen_run", "start_run"]

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
        check_ref_name(name)
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
        names = caller_names(2)
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
