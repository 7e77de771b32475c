"""Whether a value is of the type that was asked for, and how such a type is written for a model and in an event."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import numbers
import sys
import typing
import warnings
from collections.abc import Mapping
from types import ModuleType, NoneType
from typing import Any, cast

import msgspec

__all__ = ["Misfit", "TypeText", "check", "fit", "type_of_text", "type_text"]


_SCALARS = (str, bytes, bool, int, float)


class Misfit(Exception):  # noqa: N818 - it is told to the model, which tries again
    """The value is not of the type; the text says what is wrong with it."""


class TypeText(msgspec.Struct, frozen=True):
    """A type of which nothing but its text is known here."""

    text: str


def type_text(wanted: object) -> str:
    """The type as people write it: `int`, `list[str]`, `pandas.DataFrame`; "" for anything goes."""
    if isinstance(wanted, TypeText):
        return wanted.text
    if wanted is None or wanted is object or wanted is typing.Any:
        return ""
    if wanted is NoneType:
        return "None"
    if isinstance(wanted, type) and not typing.get_args(wanted):
        module = wanted.__module__.partition(".")[0]
        hidden = wanted.__module__ in ("builtins", "__main__")
        return wanted.__qualname__ if hidden else f"{module}.{wanted.__qualname__}"
    return str(wanted).replace("typing.", "")


def check(wanted: object) -> None:
    """Raises TypeError if values cannot be checked against this type."""
    is_plain = isinstance(wanted, type) and not _is_of_pydantic(wanted)
    if not type_text(wanted) or is_plain or isinstance(wanted, TypeText):
        return
    from pydantic import PydanticSchemaGenerationError, PydanticUserError
    from pydantic.warnings import ArbitraryTypeWarning

    try:
        if inspect.isroutine(wanted):
            raise TypeError("it is a function")
        with warnings.catch_warnings():
            warnings.simplefilter("error", ArbitraryTypeWarning)
            if not getattr(_adapter(wanted), "pydantic_complete", True):
                raise TypeError("it is not known here")
    except (ArbitraryTypeWarning, PydanticUserError, NameError, TypeError) as error:
        if _is_dataclass(wanted) and isinstance(error, PydanticSchemaGenerationError):
            return  # a field is of a type that pydantic does not know, such as a table: each is checked by itself
        reason = str(error).partition("\n")[0].partition(". To get rid")[0]
        raise TypeError(f"`returns` must be a type, not {wanted!r}: {reason}") from None


def type_of_text(text: str, namespace: Mapping[str, object]) -> object:
    """The type that `type_text` wrote. Nothing is run to find it; what is not to be found is known by its text.

    >>> type_of_text("list[int] | None", {})
    list[int] | None
    """
    if not text:
        return None
    try:
        found = _resolve(ast.parse(text, mode="eval").body, namespace)
        check(found)
    except (LookupError, SyntaxError, TypeError, AttributeError):
        return TypeText(text)
    return NoneType if found is None else found


def _resolve(node: ast.expr, namespace: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            for scope in (vars(builtins), vars(typing), namespace):
                if isinstance(scope.get(name), type) or (scope is vars(typing) and name in scope):
                    return scope[name]
            raise LookupError(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return getattr(sys.modules[module], name)
        case ast.Attribute(value=value, attr=name):
            found = _resolve(value, namespace)
            if not isinstance(found, type | ModuleType):
                raise LookupError(name)
            return getattr(found, name)
        case ast.Subscript(value=value, slice=inner):
            return _resolve(value, namespace)[_resolve(inner, namespace)]
        case ast.Tuple(elts=parts):
            return tuple(_resolve(part, namespace) for part in parts)
        case ast.List(elts=parts):
            return [_resolve(part, namespace) for part in parts]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            either: object = _resolve(left, namespace) | _resolve(right, namespace)
            return either
        case _:
            raise LookupError(type(node).__name__)


def _adapter(wanted: Any) -> Any:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(wanted, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a model or dataclass brings its own configuration
        return TypeAdapter(wanted)


def _is_called(value: object, text: str) -> bool:
    kinds = {type_text(kind) for kind in type(value).__mro__}
    return any(one.partition("[")[0].strip() in kinds for one in text.split("|"))


def fit(value: object, wanted: object) -> object:
    """The value, made fit where that loses nothing (a dict for a model of pydantic).

    Raises:
        Misfit: it is of another type, or a field of a dataclass in it is.
    """
    return _fit(value, wanted, set())


def _fit(value: object, wanted: object, checked: set[int]) -> object:
    if not type_text(wanted):
        return value
    if isinstance(wanted, TypeText):
        if _is_called(value, wanted.text):
            return value
        raise Misfit(f"it must be {wanted.text}, and is {type_text(type(value))}")
    if isinstance(wanted, type) and not _is_of_pydantic(wanted) and not typing.get_args(wanted):
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            return value
        if wanted is float and type(value) is int:
            return float(value)
        raise Misfit(f"it must be {type_text(wanted)}, and is {type_text(type(value))}")
    if _is_dataclass(wanted) and isinstance(value, cast("type", wanted)):
        _check_fields(value, checked)
        return value
    from pydantic import PydanticUserError, ValidationError

    try:
        made = _adapter(wanted).validate_python(value, strict=None)
        if not _is_same(made, value):
            raise Misfit(f"it must be {type_text(wanted)}, and a value in it is of another type")
        _check_fields(made, checked)
        return made
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:5])
        raise Misfit(f"it must be {type_text(wanted)}: {reasons}") from None
    except PydanticUserError:  # a dataclass of what pydantic does not know: only an instance will do
        raise Misfit(f"it must be {type_text(wanted)}, and is {type_text(type(value))}") from None


def _check_fields(value: object, checked: set[int]) -> None:
    """Check what the dataclasses in a value hold: pydantic takes an instance of one as it is.

    Args:
        checked: the ids of those that are checked already, as one may hold itself.
    """
    kind = type(value)
    if kind in (list, tuple):
        for one in cast("list[object]", value):
            _check_fields(one, checked)
    elif kind is dict:
        for one in cast("dict[object, object]", value).values():
            _check_fields(one, checked)
    elif _is_dataclass(kind) and id(value) not in checked:
        checked.add(id(value))
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except (NameError, TypeError):  # an annotation that is not known here: nothing can be said of any
            return
        for field in dataclasses.fields(cast("Any", kind)):
            _check_field(value, field.name, hints[field.name], checked)


def _check_field(value: object, name: str, wanted: object, checked: set[int]) -> None:
    try:
        check(wanted)
    except TypeError:
        return
    try:
        _fit(getattr(value, name, None), wanted, checked)
    except Misfit as misfit:
        raise Misfit(f"{type(value).__name__}.{name}: {misfit}") from None


def _type_of(value: object) -> type:
    return type(value)


def _is_same(made: Any, original: Any) -> bool:
    """Whether pydantic has turned no text into a number, no number into a truth, and the like."""
    kind, before = _type_of(made), _type_of(original)
    if issubclass(kind, list | tuple) and issubclass(before, list | tuple):
        return all(map(_is_same, made, original))
    if kind is dict and before is dict:
        return all(
            _is_same(one, original[key]) if key in original else type(key) not in _SCALARS for key, one in made.items()
        )
    if kind not in _SCALARS or (issubclass(before, kind) and issubclass(before, bool) == (kind is bool)):
        return True
    number = numbers.Integral if kind is int else numbers.Real
    return kind in (int, float) and before is not bool and issubclass(before, number)


def _is_dataclass(wanted: object) -> bool:
    """Whether it is a dataclass of the standard library."""
    return (
        isinstance(wanted, type) and dataclasses.is_dataclass(wanted) and not hasattr(wanted, "__pydantic_validator__")
    )


def _is_of_pydantic(wanted: type) -> bool:
    return (
        hasattr(wanted, "__pydantic_validator__")
        or hasattr(wanted, "__dataclass_fields__")
        or (hasattr(wanted, "__required_keys__") or (hasattr(wanted, "_fields") and issubclass(wanted, builtins.tuple)))
    )
