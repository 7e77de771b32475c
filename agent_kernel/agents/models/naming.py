"""From the name of a model to the model. Names of providers are pydantic-ai's; `scripted:NAME` are models without a network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, cast

from agent_kernel.agents.models import Model, ScriptedModel, Turn
from agent_kernel.errors import MissingExtraError, ModelError, NoModelError, UnknownPriceError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from agent_kernel.agents.models import Scripted

__all__ = ["ENVIRONMENT", "SCRIPTS", "check_model", "check_price", "is_free", "is_own", "model_named", "register"]


ENVIRONMENT = "AGENT_KERNEL_MODEL"
_MOST = 8  # models that an error names
_registered: dict[str, Model] = {}


def register(model: Model) -> Model:
    """Let a model be found by its name, so that a run that it began can go on with it. Returns it.

    >>> register(ScriptedModel(["task.success(1)"], name="one")).name
    'scripted:one'
    >>> model_named("scripted:one").name
    'scripted:one'
    """
    _registered[model.name] = model
    return model


def check_model(model: object) -> None:
    """Raise TypeError where this can be no model: neither a name nor an object that is one."""
    ours = isinstance(model, str | Model)
    if not ours and not any(kind.__module__.startswith("pydantic_ai.") for kind in type(model).__mro__):
        raise TypeError(f"model is a name, a Model, or one of pydantic-ai's, not {type(model).__name__}")


def is_free(model: Model) -> bool:
    """Whether asking it costs nothing."""
    return getattr(model, "is_free", False) is True


def is_own(model: Model) -> bool:
    """Whether it is an object of the program's whose name does not make it again, so that another model may have it."""
    kind = model.name.partition(":")[0]
    return kind not in ("scripted", "outside") and not getattr(model, "is_named", False)


def check_price(model: Model, cost: float | None) -> None:
    """Raise UnknownPriceError where a run is to be kept under a cost that nobody can count."""
    priced: Callable[[], bool] | None = getattr(model, "has_price", None)
    if cost is not None and priced is not None and not priced():
        raise UnknownPriceError(model.name, cost)


def model_named(name: object = "", namespace: Mapping[str, object] | None = None, stored: Container[str] = ()) -> Model:
    """The model that is meant: an object that is one, a name, or what the environment names.

    Args:
        namespace: where `NAME`, or `scripted:NAME`, may be a variable: any model, or a list of answers.
        stored: the variables that the branch has, in memory or not, for saying where that one is.

    Raises:
        NoModelError: none is named. ModelError: no model has this name. MissingExtraError: its package is missing.
        TypeError: the object can be no model.
    """
    if not isinstance(name, str):
        if isinstance(name, Model):
            return register(name)
        check_model(name)
        from agent_kernel.agents.models.provided import wrap_model

        return wrap_model(name)  # not registered: its name may be another server's model too
    name = name or os.environ.get(ENVIRONMENT, "")
    if not name:
        raise NoModelError
    kind, colon, rest = name.partition(":")
    if kind == "outside":
        from agent_kernel.agents.agent_undo import external_model

        return external_model(rest)
    # What a variable holds now goes before a model of the same name that another run began with.
    found = _find_in_variable(name, rest if kind == "scripted" else "" if colon else name, namespace or {})
    if found is not None:
        return found
    if name in _registered:
        return _registered[name]
    if kind != "scripted":
        return _load_provider_model(name, None if colon else namespace, stored)

    if rest not in SCRIPTS and rest in stored:
        raise ModelError(name, f"{rest} is not in memory, and the branch has it: %agent checkout brings it back")
    if rest not in SCRIPTS:
        raise ModelError(
            name, f"no script is called {rest!r}; the scripts that come along: {', '.join(sorted(SCRIPTS))}"
        )
    return SCRIPTS[rest]


def _find_in_variable(name: str, variable: str, namespace: Mapping[str, object]) -> Model | None:
    """The model that a variable holds, or that its list of answers makes.

    Raises:
        ModelError: there is such a variable, and it holds neither.
    """
    value = namespace.get(variable)
    if value is None:
        return None
    if _is_model(value):
        return value if isinstance(value, Model) else model_named(value)
    if isinstance(value, list | tuple):
        turns = cast("Sequence[object]", value)
        if all(isinstance(turn, str | Turn) for turn in turns):
            return ScriptedModel(cast("Sequence[Scripted]", turns), name=variable)
        raise ModelError(name, f"{variable} is a {type(turns).__name__} here, and not one of answers: code, or Turns")
    if name != variable:
        return None  # scripts that come along may be called as a variable is
    remedy = f"; FunctionModel({variable}) makes one of it" if callable(value) else ""
    raise ModelError(name, f"{variable} is not a model here, but {_a(type(value).__name__)}{remedy}")


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def _is_model(value: object) -> bool:
    kinds = type(value).__mro__
    theirs = any(kind.__module__ == "pydantic_ai.models" and kind.__name__ == "Model" for kind in kinds)
    return not isinstance(value, type) and (theirs or isinstance(value, Model))


def _load_provider_model(name: str, namespace: Mapping[str, object] | None, stored: Container[str]) -> Model:
    """A provider's model. Where its name could be a variable's (`namespace`), the error begins with what the variable is here."""
    from agent_kernel.agents.models.provided import make_model

    if namespace is None or not name.isidentifier():
        return make_model(name)
    try:
        return make_model(name)
    except (ModelError, MissingExtraError) as error:
        if name in stored:
            reason = f"{name} is not in memory, and the branch has it: %agent checkout brings it back"
            raise ModelError(name, reason) from error
        known_models = sorted(one for one, value in namespace.items() if not one.startswith("_") and _is_model(value))
        models = f"models here are {', '.join(known_models[:_MOST])}" if known_models else "no variable here is a model"
        rest = error.reason if isinstance(error, ModelError) else "others are named PROVIDER:NAME"
        raise ModelError(name, f"{models}; {rest}") from error


# -- scripted models that come along, so that a run can be seen from end to end without a network or a key

_TOUR = ScriptedModel(
    [
        Turn(
            thinking="Means hide how a delay is made up, so I look at the spread first.",
            text="First a look at how late flights are, by carrier.",
            code='late = flights.groupby("carrier").arr_delay.agg(["count", "mean", "median"]).round(1)\nlate.head()',
            delay_s=0.2,
        ),
        Turn(
            thinking="Carriers with a few hundred flights say little.",
            text="Carriers with few flights say little: they go.",
            code='late = late[late["count"] >= 1_000].sort_values("median")\nlate.tail(3)',
            delay_s=0.2,
        ),
        Turn(
            text="Of those that are left, the latest one:",
            code="task.success(f\"{late.index[-1]}: half of its flights are {late['median'].iloc[-1]:.0f} min late or more\")",
            delay_s=0.2,
        ),
    ],
    name="tour",
)

_HELLO = ScriptedModel(
    [
        Turn(text="I make a list of squares.", code="squares = [n * n for n in range(10)]\nsquares"),
        Turn(text="And give back their sum.", code="task.success(sum(squares))"),
    ],
    name="hello",
)

SCRIPTS: Final[dict[str, ScriptedModel]] = {"tour": _TOUR, "hello": _HELLO}
