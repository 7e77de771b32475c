"""From the name of a model to the model. Names of providers are pydantic-ai's; `scripted:NAME` are models without a network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.agents.models import Model, ScriptedModel
from agent_kernel.errors import ModelError, NoModelError, UnknownPriceError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from agent_kernel.agents.models import Scripted

__all__ = ["ENVIRONMENT", "check_model", "check_price", "is_free", "model_named", "register"]

ENVIRONMENT = "AGENT_KERNEL_MODEL"
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


def check_price(model: Model, cost: float | None) -> None:
    """Raise UnknownPriceError where a run is to be kept under a cost that nobody can count."""
    priced: Callable[[], bool] | None = getattr(model, "has_price", None)
    if cost is not None and priced is not None and not priced():
        raise UnknownPriceError(model.name, cost)


def model_named(name: object = "", namespace: Mapping[str, object] | None = None, stored: Container[str] = ()) -> Model:
    """The model that is meant: an object that is one, a name, or what the environment names.

    Args:
        namespace: where `scripted:NAME` may be a variable: a ScriptedModel, or a list of answers.
        stored: the variables that the branch has, in memory or not, for saying where that one is.

    Raises:
        NoModelError: none is named. ModelError: there is none of this name. MissingExtraError: its package is missing.
    """
    if not isinstance(name, str):
        if isinstance(name, Model):
            return register(name)
        from agent_kernel.agents.providers import wrapped

        return register(wrapped(name))
    name = name or os.environ.get(ENVIRONMENT, "")
    if not name:
        raise NoModelError
    kind, _, rest = name.partition(":")
    if kind == "outside":
        from agent_kernel.agents.outside import outside

        return outside(rest)
    # What a variable holds now goes before a model of the same name that another run began with.
    found: Any = (namespace or {}).get(rest) if kind == "scripted" else None
    if isinstance(found, Model):
        return found
    if isinstance(found, list | tuple):
        return ScriptedModel(cast("Sequence[Scripted]", found), name=rest)
    if name in _registered:
        return _registered[name]
    if kind != "scripted":
        from agent_kernel.agents.providers import provided

        return provided(name)
    from agent_kernel.agents.scripts import SCRIPTS

    if rest not in SCRIPTS and rest in stored:
        raise ModelError(name, f"{rest} is not in memory, and the branch has it: %agent checkout brings it back")
    if rest not in SCRIPTS:
        raise ModelError(
            name, f"no script is called {rest!r}; the scripts that come along: {', '.join(sorted(SCRIPTS))}"
        )
    return SCRIPTS[rest]
