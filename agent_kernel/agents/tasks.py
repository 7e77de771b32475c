"""Tasks as functions: the signature says what goes in and comes out, the docstring what is to be done, an agent does it.

`evaluate` tells how well agents do: the same tasks, several times, on several models.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from types import CodeType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from agent_kernel.agents import event_log
from agent_kernel.agents.arguments import Misfit, fit
from agent_kernel.agents.rights import parent_executor
from agent_kernel.agents.run import Run, drive_together
from agent_kernel.errors import AgentKernelError

if TYPE_CHECKING:
    from typing import Unpack

    from agent_kernel.agents.agent import Agent, Options, State
    from agent_kernel.agents.event_log import Listener
    from agent_kernel.agents.events import Event
    from agent_kernel.agents.models import Delta

__all__ = ["Measured", "Measures", "Task", "Trial", "measure"]


P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
_NOTHING_DONE = frozenset(
    [
        "CACHE",
        "CALL_INTRINSIC_1",
        "COPY_FREE_VARS",
        "LOAD_CONST",
        "LOAD_GLOBAL",
        "MAKE_CELL",
        "NOP",
        "POP_TOP",
        "RAISE_VARARGS",
        "RERAISE",
        "RESUME",
        "RETURN_CONST",
        "RETURN_GENERATOR",
        "RETURN_VALUE",
    ]
)
_ASIDE = ("state", "on_event")  # said of a call, where the function has no parameters of these names


class Task(Generic[P, C, R]):
    """A function whose body is an agent's work. What it gives is of the type that it is annotated with.

    Calling it does the task and returns its result; that of an `async def` is awaited. `state=` and `on_event=` may be
    said beside its own arguments.
    """

    def __init__(
        self, agent: Agent, function: Callable[P, object], text: str, options: Options, localns: Mapping[str, object]
    ) -> None:
        name = getattr(function, "__name__", "the task")
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            raise TypeError(f"a task is made of a function, not of {type(function).__name__}")
        if not _is_empty(code, function.__doc__):
            raise TypeError(f"the body of {name} must be empty: the agent does what its docstring says")
        self.text = inspect.cleandoc(text or function.__doc__ or "")
        if not self.text:
            raise TypeError(f"{name} needs a docstring, which says what is to be done")
        self.agent = agent
        self.function = function
        self._options = options
        self.hints = _hints(function, name, localns)
        self._signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<task {self.__name__}{self._signature} of {self.agent.name}>"

    __name__: str
    hints: dict[str, Any]  # the types of its parameters, and of its `return`

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
    @overload
    def __call__(self, *args: Any, state: State, **kwargs: Any) -> C: ...
    @overload
    def __call__(self, *args: Any, on_event: Listener, **kwargs: Any) -> C: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do it.

        Raises:
            TypeError: the arguments do not fit the signature. Otherwise what `Run.result` raises.
        """
        overrides = {
            name: kwargs.pop(name) for name in _ASIDE if name in kwargs and name not in self._signature.parameters
        }
        run = self._start(args, kwargs, cast("Options", {**self._options, **overrides}))
        return run if self.is_async else run.result()

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Begin it; nothing runs until the run is driven. Raises: TypeError: the arguments do not fit."""
        return self._start(args, kwargs, self._options)

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Event | Delta]:
        """Do it, and see its events, and the pieces of the model's answers, as they come."""
        return self._start(args, kwargs, self._options).stream()

    def on(self, **options: Unpack[Options]) -> Task[P, C, R]:
        """The same task with another state, model, limits, approval or listener."""
        merged = cast("Options", {**self._options, **options})
        return Task(self.agent, self.function, self.text, merged, {**self.hints})

    def map(self, *arguments: Iterable[Any], at_once: int = 4) -> list[R]:
        """Do it once for each argument, as `map` would, and return the results in order.

        While one waits for its model the others go on; their code runs one after the other, on this thread. Tasks that
        share a state are done one after the other. All are done before an error of one is raised.

        Args:
            at_once: so many are begun before the first of them is done.
        """
        runs = [self._start(values, {}, self._options) for values in zip(*arguments, strict=False)]
        has_state = self._options.get("state", self.agent.state) is not None
        drive_together([run.drive_claimed() for run in runs], 1 if has_state else at_once)
        results: list[R] = []
        errors: list[AgentKernelError] = []
        for run in runs:
            try:
                results.append(run.result())
            except AgentKernelError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def blocking(self, *args: Any, **kwargs: Any) -> R:
        """Do it and return its result, also where it is an `async def`: what another agent's code calls.

        Raises:
            RuntimeError: it is called on a thread that the step started. There nobody would know whose sub-agent it is.
        """
        parent_executor(f"{self.__name__}() is an agent's task")
        return self._start(args, kwargs, self._options).result()

    def _start(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options) -> Run[R]:
        run = self.agent.start(self.text, returns=self.returns, inputs=self.bind(args, kwargs), **options)
        return cast("Run[R]", run)

    @property
    def returns(self) -> object:
        """The type that its result has; None: any."""
        return self.hints.get("return")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """The arguments of a call by name, each of the annotated type. Raises: TypeError: they do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.__name__}(): {self._unknown(kwargs) or error}") from None
        bound.apply_defaults()
        return {name: self.check_argument(name, value) for name, value in bound.arguments.items()}

    def _unknown(self, kwargs: Mapping[str, Any]) -> str:
        """What is said of an argument that the function does not take: before all, as one that it misses may be meant."""
        from difflib import get_close_matches

        known = self._signature.parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
            return ""
        unknown = next((name for name in kwargs if name not in known), "")
        close = get_close_matches(unknown, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'none'}"
        return f"it takes no argument {unknown!r}; {hint}" if unknown else ""

    def check_argument(self, name: str, value: Any) -> object:
        """An argument, as its annotation has it. Raises: TypeError: it does not fit."""
        wanted = self.hints.get(name)
        kind = self._signature.parameters[name].kind
        try:
            if kind is inspect.Parameter.VAR_POSITIONAL:
                return tuple(fit(one, wanted) for one in value)
            if kind is inspect.Parameter.VAR_KEYWORD:
                return {key: fit(one, wanted) for key, one in value.items()}
            default = self._signature.parameters[name].default
            return value if value is default else fit(value, wanted)
        except Misfit as misfit:
            raise TypeError(f"{self.__name__}(): argument {name!r} does not fit: {misfit}") from None


def _hints(function: Callable[..., object], name: str, localns: Mapping[str, object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, localns=dict(localns), include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation of {name} is not known here: {error}") from error


def _is_empty(code: CodeType, doc: str | None) -> bool:
    """Whether a function does nothing: `pass`, `...`, a docstring, or `raise NotImplementedError`."""
    consts = [one for one in code.co_consts if one is not None and one is not ... and one != doc]
    names = set(code.co_names) - {"NotImplementedError"}
    return not consts and not names and {one.opname for one in dis.get_instructions(code)} <= _NOTHING_DONE


def caller_names(depth: int) -> dict[str, object]:
    """Names of the function in which a task is defined, for its annotations."""
    return dict(sys._getframe(depth).f_locals)  # pyright: ignore[reportPrivateUsage]


# -- how well agents do: the same tasks, several times on each of several models, as a table


class Trial(msgspec.Struct, frozen=True):
    """A task with its arguments. `passes` says of a result whether it is right; without it, any result is."""

    task: Task[..., Any, Any]
    arguments: tuple[Any, ...] = ()
    passes: Callable[[Any], bool] | None = None


class Measured(msgspec.Struct, frozen=True):
    """What the runs of one trial on one model came to.

    `steps`, `tokens` and `seconds` are means; `cost` is the sum in US dollars, None where no price is known.
    """

    trial: str
    model: str
    runs: int
    passed: int
    steps: float
    tokens: float
    seconds: float
    cost: float | None = None


class Measures(tuple[Measured, ...]):
    """One row for each trial and model."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [("trial", "model", "passed", "steps", "tokens", "seconds", "cost"), *(_cells(one) for one in self)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{name}</th>" for name in ("trial", "model", "passed", "steps", "tokens", "seconds", "cost")
        )
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in _cells(one)) for one in self)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def measure(trials: Mapping[str, Trial], models: Sequence[object], *, times: int = 3, at_once: int = 4) -> Measures:
    """Do every trial so many times on every model, each time from an empty namespace.

    Args:
        models: as for `Agent`.
        at_once: so many runs wait for their models at the same time; their code runs one after the other.
    """
    measured: list[Measured] = []
    for model in models:
        for name, trial in trials.items():
            task = trial.task.on(model=model, state=None)
            runs = [task.start(*trial.arguments) for _ in range(times)]
            drive_together([run.drive_claimed() for run in runs], at_once)
            measured.append(_measure(name, trial, runs))
    return Measures(measured)


def _measure(name: str, trial: Trial, runs: Sequence[Run[Any]]) -> Measured:
    many = max(1, len(runs))
    costs = [run.usage.cost for run in runs if run.usage.cost is not None]
    return Measured(
        trial=name,
        model=runs[0].model if runs else "",
        runs=len(runs),
        passed=sum(_has_passed(trial, run) for run in runs),
        steps=sum(event_log.steps_of(run.events) for run in runs) / many,
        tokens=sum(run.usage.tokens for run in runs) / many,
        seconds=sum(event_log.active_seconds(run.events) for run in runs) / many,
        cost=sum(costs) if costs else None,
    )


def _has_passed(trial: Trial, run: Run[Any]) -> bool:
    outcome = run.outcome
    return outcome.status == "completed" and (trial.passes is None or bool(trial.passes(outcome.value)))


def _cells(one: Measured) -> tuple[str, ...]:
    cost = "" if one.cost is None else f"${one.cost:.4f}"
    numbers = (f"{one.steps:.1f}", f"{one.tokens:,.0f}", f"{one.seconds:.2f}")
    return (one.trial, one.model, f"{one.passed}/{one.runs}", *numbers, cost)
