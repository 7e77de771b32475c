"""A module of canaries: classes of somebody else's that note every one of their methods that runs.

The tests copy it to a folder of its own, so that loading a canary in another process imports it, which leaves a mark.
"""

from __future__ import annotations

import os
from pathlib import Path

RAN: list[str] = []

if mark := os.environ.get("CANARY_MARK"):
    Path(mark).touch()


def _noting(name: str, answer: object) -> object:
    def method(*_: object, **__: object) -> object:
        RAN.append(name)
        return answer

    method.__name__ = name
    return method


class LoudType(type):
    """A metaclass that talks too: asking for the class's name or attributes is running code."""

    def __repr__(cls) -> str:
        RAN.append("type.__repr__")
        return "loud"

    def __getattribute__(cls, name: str) -> object:
        if not name.startswith("__") or name in ("__qualname__", "__name__", "__module__"):
            RAN.append(f"type.{name}")
        return super().__getattribute__(name)

    def __instancecheck__(cls, instance: object) -> bool:
        RAN.append("type.__instancecheck__")
        return False

    def __subclasscheck__(cls, subclass: type) -> bool:
        RAN.append("type.__subclasscheck__")
        return False


ANSWERS: dict[str, object] = {
    "__repr__": "canary",
    "__str__": "canary",
    "__format__": "canary",
    "__len__": 3,
    "__bool__": True,
    "__iter__": iter(()),
    "__getitem__": 0,
    "__contains__": False,
    "__sizeof__": 1,
    "__dir__": [],
    "__call__": None,
    "__array__": None,
    "__index__": 1,
    "__float__": 1.0,
    "_repr_html_": "<b>canary</b>",
    "_repr_mimebundle_": {},
    "_ipython_display_": None,
    "keys": [],
    "items": [],
}


class Canary:
    """An object of a foreign type. Saving it may reduce it; nothing else may run anything."""

    def __reduce__(self) -> tuple[object, ...]:
        RAN.append("__reduce__")
        return (Canary, ())

    def __getattr__(self, name: str) -> object:
        RAN.append(f"__getattr__ {name}")
        raise AttributeError(name)

    @property
    def shape(self) -> tuple[int, ...]:
        """What a careless preview asks for."""
        RAN.append("shape")
        return (1,)

    @property
    def dtype(self) -> str:
        """What a careless preview asks for, too."""
        RAN.append("dtype")
        return "f8"


class CanaryList(list[object]):
    """A list whose subclass would like to be asked."""


class CanaryDict(dict[object, object]):
    """A dict whose subclass would like to be asked."""


class CanaryText(str):
    """A string whose subclass would like to be asked."""

    __slots__ = ()


class CanaryNumber(int):
    """An int whose subclass would like to be asked."""


class Loud(metaclass=LoudType):
    """An instance of a class that talks."""


for _class in (Canary, CanaryList, CanaryDict, CanaryText, CanaryNumber):
    for _name, _answer in ANSWERS.items():
        setattr(_class, _name, _noting(_name, _answer))
