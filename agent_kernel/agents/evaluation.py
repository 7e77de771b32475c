"""How well agents do: the same tasks, several times on each of several models, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import msgspec

from agent_kernel.agents import event_log
from agent_kernel.agents.run import Run, drive_together
from agent_kernel.agents.tasks import Task

__all__ = ["Measured", "Measures", "Trial", "measure"]


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
            drive_together([run.held_going() for run in runs], at_once)
            measured.append(_measured(name, trial, runs))
    return Measures(measured)


def _measured(name: str, trial: Trial, runs: Sequence[Run[Any]]) -> Measured:
    many = max(1, len(runs))
    costs = [run.usage.cost for run in runs if run.usage.cost is not None]
    return Measured(
        trial=name,
        model=runs[0].model if runs else "",
        runs=len(runs),
        passed=sum(_passed(trial, run) for run in runs),
        steps=sum(event_log.steps_of(run.events) for run in runs) / many,
        tokens=sum(run.usage.tokens for run in runs) / many,
        seconds=sum(event_log.seconds_taken(run.events) for run in runs) / many,
        cost=sum(costs) if costs else None,
    )


def _passed(trial: Trial, run: Run[Any]) -> bool:
    outcome = run.outcome
    return outcome.status == "completed" and (trial.passes is None or bool(trial.passes(outcome.value)))


def _cells(one: Measured) -> tuple[str, ...]:
    cost = "" if one.cost is None else f"${one.cost:.4f}"
    numbers = (f"{one.steps:.1f}", f"{one.tokens:,.0f}", f"{one.seconds:.2f}")
    return (one.trial, one.model, f"{one.passed}/{one.runs}", *numbers, cost)
