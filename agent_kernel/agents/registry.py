"""What a program gives its agents to use: functions, classes, modules, live objects, and other agents' tasks.

An agent's code finds them under their names (`offering`), its model is told of them, and using them needs no asking. It
is not a fence: code can reach what it was not given.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Literal, TypeAlias, get_args

import msgspec

__all__ = ["Member", "Registry", "Visibility"]


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
