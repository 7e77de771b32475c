"""The root of the tree of errors, and what every layer may raise: something is not there, or not installed."""

from __future__ import annotations

from typing import ClassVar, dataclass_transform


def _bare(cls: type[AgentKernelError], arguments: tuple[object, ...]) -> AgentKernelError:
    return cls.__new__(cls, *arguments)


# The module by which errors are known in stores and in other processes, whichever file they are written in.
_bare.__module__ = _KNOWN_AS = "agent_kernel.errors"


@dataclass_transform(eq_default=False)
class AgentKernelError(Exception):
    """Catch this to catch everything the package raises on purpose.

    A subclass lists what it carries as a dataclass does. It is none, because `dataclass` compiles two functions for
    each, and twenty errors would take a tenth of the time that `%load_ext` may.
    """

    __module__ = _KNOWN_AS
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(f"{_KNOWN_AS}."):
            cls.__module__ = _KNOWN_AS
        fields = dict.fromkeys([*cls.__match_args__, *cls.__annotations__])
        cls.__match_args__ = tuple(fields)  # type: ignore[misc]  # mypy would have it in the body of the class

    def __init__(self, *values: object, **named: object) -> None:
        fields = self.__match_args__
        if not fields:
            super().__init__(*values, **named)
            return
        given = dict(zip(fields, values, strict=False))
        unknown = [*values[len(fields) :], *(name for name in named if name in given or name not in fields)]
        missing = [name for name in fields if name not in given | named and not hasattr(type(self), name)]
        if unknown or missing:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}: {unknown=}, {missing=}")
        given |= named
        for name in fields:
            setattr(self, name, given.get(name, getattr(type(self), name, None)))

    def __repr__(self) -> str:
        if not self.__match_args__:
            return super().__repr__()
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({shown})"

    def __reduce__(self) -> tuple[object, ...]:
        # Exception replays positional arguments only, so an error built with keywords would not survive the way
        # back from a worker process.
        return _bare, (type(self), self.args), vars(self)


class NotFoundError(AgentKernelError, KeyError):
    """What was asked for by name is not there."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class MissingExtraError(AgentKernelError, ImportError):
    """A package that is no part of the core is needed, and not installed."""

    package: str
    extra: str

    def __str__(self) -> str:
        return f'{self.package} is not installed; pip install "agent-kernel[{self.extra}]" brings it'
