"""Whether a value is of the type that was asked for, and how such a type is written for a model and in an event."""

from __future__ import annotations

import builtins
import typing
from types import NoneType
from typing import Any

__all__ = ["Misfit", "fitted", "type_text"]


class Misfit(Exception):  # noqa: N818 - it is told to the model, which tries again
    """The value is not of the type; the text says what is wrong with it."""


def type_text(wanted: object) -> str:
    """The type as people write it: `int`, `list[str]`, `pandas.DataFrame`; "" for anything goes."""
    if wanted is None or wanted is object or wanted is typing.Any:
        return ""
    if wanted is NoneType:
        return "None"
    if isinstance(wanted, type) and not typing.get_args(wanted):
        module = wanted.__module__.partition(".")[0]
        hidden = wanted.__module__ in ("builtins", "__main__")
        return wanted.__qualname__ if hidden else f"{module}.{wanted.__qualname__}"
    return str(wanted).replace("typing.", "")


def fitted(value: object, wanted: object) -> object:
    """The value, made fit where that loses nothing (a dict for a model of pydantic).

    Raises:
        Misfit: it is of another type.
    """
    if not type_text(wanted):
        return value
    if isinstance(wanted, type) and not _is_of_pydantic(wanted) and not typing.get_args(wanted):
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            return value
        if wanted is float and type(value) is int:
            return float(value)
        raise Misfit(f"it must be {type_text(wanted)}, and is {type_text(type(value))}")
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

    form: Any = wanted  # a type, or what typing makes of types
    try:
        adapter: TypeAdapter[object] = TypeAdapter(form, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a model or dataclass brings its own configuration
        adapter = TypeAdapter(form)
    try:
        return adapter.validate_python(value, strict=None)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:5])
        raise Misfit(f"it must be {type_text(wanted)}: {told}") from None


def _is_of_pydantic(wanted: type) -> bool:
    return (
        hasattr(wanted, "__pydantic_validator__")
        or hasattr(wanted, "__dataclass_fields__")
        or (hasattr(wanted, "__required_keys__") or (hasattr(wanted, "_fields") and issubclass(wanted, builtins.tuple)))
    )
