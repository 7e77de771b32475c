"""Read how a stored stream is built, without building it: no name in it is looked up and nothing of it runs.

A pickle is a program for a small stack machine. Here it is run on descriptions instead of objects: a call is noted with
its arguments and not made. That is enough to tell which buffer is which column of a table.
"""

from __future__ import annotations

import io
import pickletools
from typing import Final, cast

import msgspec

__all__ = ["MOST_STEPS", "Buffer", "Call", "Name", "calls", "peek"]

MOST_STEPS: Final = 40_000  # there are two for each text


class Buffer(msgspec.Struct, frozen=True):
    """Memory that is stored beside the stream, by its position."""

    position: int


class Call(msgspec.Struct):
    """What would be called, with what, and the state it would be given."""

    name: str
    args: tuple[object, ...]
    state: list[object] = msgspec.field(default_factory=list[object])


class Name(msgspec.Struct, frozen=True):
    """Something that is found under a name: a class, a function, a constant."""

    text: str


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """The stream does something that tables and arrays do not need."""


_BY_NAME: Final = "agent_kernel.values.restore.code.by_name"
_LITERALS: Final = ("BININT", "LONG1", "LONG4", "BINFLOAT", "SHORT_BIN", "BINUNICODE", "BINBYTES")


def peek(stream: bytes, after: int = 0, most_steps: int = MOST_STEPS) -> object:
    """A description of a value in the stream; None where it holds what is not understood.

    Args:
        after: how many values to pass over. Later ones may speak of what they hold.
        most_steps: instructions of all these values; the stream of a table has a few hundred.
    """
    machine, source = _Machine(most_steps), io.BytesIO(stream)
    try:
        for _ in range(after):
            machine.run(source)
        return machine.run(source)
    except (_Unreadable, IndexError, KeyError, TypeError, ValueError):
        return None


def calls(found: object, name: str) -> list[Call]:
    """All calls of this name in a description, in the order of the stream."""
    made: list[Call] = []
    seen: set[int] = set()
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Call):
            if one.name == name:
                made.append(one)
            waiting += [*reversed(one.state), *reversed(one.args)]
        elif isinstance(one, (tuple, list)):
            waiting += reversed(cast("tuple[object, ...]", one))
    return made


class _Machine:
    def __init__(self, most_steps: int) -> None:
        self._steps_left = most_steps
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: list[object] = []
        self._buffers = 0

    def run(self, source: io.BytesIO) -> object:
        for code, argument, _ in pickletools.genops(source):
            if code.name == "STOP":
                return self._stack.pop()
            self._steps_left -= 1
            if self._steps_left < 0:
                break
            self._step(code.name, argument)
        raise _Unreadable

    def _step(self, code: str, argument: object) -> None:
        stack = self._stack
        match code:
            case "PROTO" | "FRAME" | "READONLY_BUFFER":
                pass
            case "POP":  # what a call was made for is its effect on what it was given: a state, as a rule
                (made,) = self._pop(1)
                if isinstance(made, Call) and len(made.args) == 2 and isinstance(made.args[0], Call):
                    made.args[0].state.append(made.args[1])
            case "MEMOIZE":
                self._memo.append(stack[-1])
            case "BINGET" | "LONG_BINGET":
                assert isinstance(argument, int)
                stack.append(self._memo[argument])
            case "NEXT_BUFFER":
                stack.append(Buffer(self._buffers))
                self._buffers += 1
            case "MARK":
                self._marks.append(len(stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[code])
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_SET":
                stack.append(list[object]())
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop(("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3").index(code))))
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "APPENDS" | "SETITEMS" | "ADDITEMS":
                items = self._since_mark()
                self._fill(items)
            case "APPEND" | "SETITEM":
                self._fill(self._pop(1 if code == "APPEND" else 2))
            case "STACK_GLOBAL":
                module, name = self._pop(2)
                stack.append(Name(f"{module}.{name}"))
            case "REDUCE" | "NEWOBJ":
                called, args = self._pop(2)
                if not isinstance(called, Name) or not isinstance(args, tuple):
                    raise _Unreadable
                stack.append(_called(called.text, cast("tuple[object, ...]", args)))
            case "BUILD":
                (state,) = self._pop(1)
                made = stack[-1]
                if not isinstance(made, Call):
                    raise _Unreadable
                made.state.append(state)
            case _ if code.startswith(_LITERALS):
                stack.append(argument)
            case _:
                raise _Unreadable

    def _fill(self, items: list[object]) -> None:
        into = self._stack[-1]
        if isinstance(into, Call):
            into.state.extend(items)
        elif isinstance(into, list):
            into.extend(items)  # pyright: ignore[reportUnknownMemberType]  # made above, of objects
        else:
            raise _Unreadable

    def _pop(self, count: int) -> list[object]:
        if not count:
            return []
        if len(self._stack) < count:
            raise _Unreadable
        taken = self._stack[-count:]
        del self._stack[-count:]
        return taken

    def _since_mark(self) -> list[object]:
        return self._pop(len(self._stack) - self._marks.pop())


def _called(name: str, args: tuple[object, ...]) -> Call | Name:
    """What a call makes: of a function that only looks a name up, what stands under that name."""
    return Name(".".join(map(str, args))) if name == _BY_NAME else Call(name, args)
