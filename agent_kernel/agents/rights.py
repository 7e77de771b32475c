"""What agents and runs may do, held while steps run, whatever way code of a step takes to change it.

That code shares a process with the objects that say what it may do, and Python hides no attribute from it. So all of
them are noted as the first step begins, compared as a sub-agent begins and as each step ends, and put back where they
differ. Where a step leaves a thread behind, which acts later, they are compared until it has ended as each run begins and
goes on. What a person changes meanwhile is noted anew.
"""

from __future__ import annotations

import functools
import gc
import secrets
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from agent_kernel.agents.side_effects import current_gate, is_left_over_from_step, is_on_step_thread, may_act_later
from agent_kernel.errors import WithinStepError

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.executor import RunExecutor

PutBack: TypeAlias = Callable[[], bool]  # puts one thing back as it was, and says whether it differed

_PACKAGE: Final = "agent_kernel.agents"
_FUNCTION: Final = ("__code__", "__defaults__", "__kwdefaults__")
_BUILTINS: Final = frozenset(vars(sys.modules["builtins"]))
_MISSING: Final = object()
_lock = threading.RLock()
_tracked: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by id: a class of the user's may not be hashable


class _Noted:
    """What was noted as the first of the steps began that run now, or that left something behind which may act."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_lingering = False  # no step runs, and what one left behind may act
        self.code: _Code | None = None  # also between steps: mostly it is the same as the next one begins
        self.objects: dict[int, list[PutBack]] = {}
        self.tools: dict[int, list[PutBack]] = {}  # only while a step runs: a person's cells change these as they like

    def put_back(self) -> bool:
        """Put everything back that differs; whether anything did."""
        is_code_same = self.code is None or self.code.is_same()
        found = [] if self.code is None or is_code_same else [one() for one in self.code.parts]
        # Lists: each is compared, also behind one that differed.
        return True in [*found, *[one() for parts in self._noted_parts() for one in parts]]

    def _noted_parts(self) -> tuple[list[PutBack], ...]:
        return (*self.objects.values(), *self.tools.values())

    def note(self) -> None:
        """Note the code, all agents and runs that are not noted yet, and what agents were given."""
        if not self.is_lingering and (self.code is None or not self.code.is_same()):
            self.code = _Code()
        for key, value in tuple(_tracked.items()):
            if _is_made(value):
                if key not in self.objects:
                    self.objects[key] = list(_of_object(value))
                if not self.is_lingering:
                    self.tools[key] = list(_list_tools(value))

    def let_go(self) -> None:
        """No step runs any more: forget what was noted, unless something may act that a step left behind."""
        may_act = may_act_later()  # asked first: what acts between the two is put back the next time
        if self.is_lingering:
            self.put_back()
        self.is_lingering = may_act
        self.tools = {}
        if not may_act:
            self.objects = {}


_noted = _Noted()


def track(value: object) -> None:
    """An agent or a run was made: note it with each step from now on."""
    with _lock:
        _tracked[id(value)] = value
        if _noted.is_lingering and _is_made(value):
            _noted.note()


def note_again(value: object) -> None:
    """A person made or changed this agent: no step that runs meanwhile takes it back."""
    with _lock:
        if (_noted.steps or _noted.is_lingering) and not is_on_step_thread():
            _noted.objects[id(value)] = list(_of_object(value))
            if _noted.steps:
                _noted.tools[id(value)] = list(_list_tools(value))


@contextmanager
def changing() -> Generator[None]:
    """While a person changes an agent: no step that ends meanwhile takes it back before it is noted.

    First goes what code of a step changed, so that it is not noted with what the person changes.
    """
    with _lock:
        if (_noted.steps or _noted.is_lingering) and not is_on_step_thread():
            _noted.put_back()
        yield


def put_back() -> bool:
    """Put back what code of a step changed; whether there was anything."""
    with _lock:
        return _noted.put_back()


def put_back_between_steps() -> None:
    """Put back what was changed since the last step ended, by a thread that a step left behind."""
    with _lock:
        if _noted.is_lingering and not _noted.steps:
            _noted.let_go()


@contextmanager
def protect() -> Generator[PutBack]:
    """While a step runs. Note everything, unless another step runs already: it may have changed some of it.

    What it gives does what `put_back` does, and no code of the step can have put another function in its place.
    """
    noted, lock = _noted, _lock

    def put_back_noted() -> bool:
        with lock:
            return noted.put_back()

    with _lock:
        put_back_between_steps()
        if not _noted.steps:
            _noted.is_lingering = False
            _noted.note()
        _noted.steps += 1
    try:
        yield put_back_noted
    finally:
        with _lock:
            _noted.steps -= 1
            if not _noted.steps:
                _noted.let_go()


# -- agents and runs


def _is_made(value: object) -> bool:
    """Whether its thread has come to the end of making it; then it is noted."""
    return not {"registry", "setup"}.isdisjoint(object.__getattribute__(value, "__dict__"))


def _of_object(value: object) -> Iterator[PutBack]:
    """An agent: its class, all its attributes and which names it was given. A run: what it is made of."""
    yield _class_of(value, type(value))
    found: dict[str, object] = object.__getattribute__(value, "__dict__")
    yield _dict_of(value, found)
    is_run = "setup" in found
    if is_run:
        yield _items(found, {"setup": found["setup"]}, is_whole=False)
    else:
        yield _items(found, dict(found))
    for inner in (found.get("setup"), found.get("limits"), getattr(found.get("setup"), "limits", None)):
        if isinstance(inner, msgspec.Struct):
            yield _fields(inner)
    registry = found.get("registry")
    if registry is not None:
        yield _class_of(registry, type(registry))
        for names in (vars(registry), *_names_in(registry)):
            yield _items(names, dict(names))


def _names_in(registry: object) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", inner) for inner in vars(registry).values() if type(inner) is dict]


def _list_tools(value: object) -> Iterator[PutBack]:
    """The functions and classes that an agent was given, which act freely, whatever their code is; and its settings."""
    found: dict[str, object] = object.__getattribute__(value, "__dict__")
    settings, registry = found.get("model_settings"), found.get("registry")
    if type(settings) is dict:
        yield _items(cast("dict[str, object]", settings), dict(cast("dict[str, object]", settings)))
    for one in (one for names in _names_in(registry) for one in names.values()) if registry is not None else ():
        tool = getattr(one, "value", None)
        bare = getattr(tool, "__func__", tool)
        if isinstance(bare, FunctionType):
            yield _function(bare)
        elif isinstance(bare, type) and bare.__module__ == "__main__":
            yield from _of_class(bare)


def _class_of(value: object, kind: type) -> PutBack:
    def put_back() -> bool:
        if type(value) is kind:
            return False
        object.__setattr__(value, "__class__", kind)
        return True

    return put_back


def _dict_of(value: object, found: dict[str, object]) -> PutBack:
    def put_back() -> bool:
        if object.__getattribute__(value, "__dict__") is found:
            return False
        object.__setattr__(value, "__dict__", found)
        return True

    return put_back


def _items(found: dict[str, object], was: dict[str, object], *, is_whole: bool = True) -> PutBack:
    def put_back() -> bool:
        is_same = all(found.get(name, _MISSING) is value for name, value in was.items())
        if is_same and not (is_whole and len(found) != len(was)):
            return False
        if is_whole:
            found.clear()
        found.update(was)
        return True

    return put_back


def _fields(value: msgspec.Struct) -> PutBack:
    was = {name: getattr(value, name) for name in value.__struct_fields__}

    def put_back() -> bool:
        changed = [name for name, one in was.items() if getattr(value, name, _MISSING) is not one]
        for name in changed:
            msgspec.structs.force_setattr(value, name, was[name])
        return bool(changed)

    return put_back


# -- the code that decides


class _Code:
    """Every module of agents, with its functions and classes: what puts each back, and in one row what they are made of.

    The row says within half a millisecond that nothing differs, by identity: no code of what stands there runs. What
    functions are made of is asked of the garbage collector, all at once: each `__code__` that is read is an audit event,
    and those of a thousand functions would take longer than everything else.
    """

    def __init__(self) -> None:
        self._count = len(sys.modules)
        self._modules = _modules_of_agents()
        self._functions: list[FunctionType] = []
        self._classes: list[type] = []
        self.parts = list(self._take())
        self._words = [words for one in self._functions if (words := one.__kwdefaults__)]
        self._row = self._list_parts()

    def _take(self) -> Iterator[PutBack]:
        yield _items(cast("dict[str, object]", sys.modules), dict(self._modules), is_whole=False)
        for name, module in self._modules.items():
            yield _module(module)
            for value in tuple(vars(module).values()):
                if getattr(value, "__module__", "") != name:
                    continue  # it is noted where it is from
                if isinstance(value, FunctionType):
                    yield self._function(value)
                elif isinstance(value, type):
                    self._classes.append(value)
                    yield _class(value)
                    for function in _functions_of(value):
                        yield self._function(function)

    def _function(self, function: FunctionType) -> PutBack:
        self._functions.append(function)
        return _function(function)

    def _list_parts(self) -> list[object]:
        made: list[object] = [*map(sys.modules.get, self._modules)]
        for one in (*self._modules.values(), *self._classes):
            found = vars(one)
            made += found
            made += found.values()
        made += _referents(*self._functions)  # also what they are made of that no step changes, such as their names
        for words in self._words:
            made += (*words, *words.values())
        made += chain.from_iterable(one.__bases__ for one in self._classes)
        return made

    def is_same(self) -> bool:
        """Whether all of it is as it was noted, and no module came."""
        if len(sys.modules) != self._count:
            if _modules_of_agents().keys() != self._modules.keys():
                return False
            self._count = len(sys.modules)
        row = self._list_parts()
        return len(row) == len(self._row) and all(map(is_, row, self._row))


_referents: Final = gc.get_referents


def _modules_of_agents() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in tuple(sys.modules.items())
        if name == "agent_kernel" or name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
    }


def _module(module: ModuleType) -> PutBack:
    """Its functions, classes and constants. What its own functions assign anew is theirs to change."""
    found = vars(module)
    was = {name: value for name, value in found.items() if not name.startswith("__")}

    def put_back() -> bool:
        changed = [name for name, value in was.items() if found.get(name, _MISSING) is not value]
        added = [name for name in found.keys() - was.keys() if name in _BUILTINS and not name.startswith("__")]
        for name in changed:
            found[name] = was[name]
        for name in added:
            del found[name]
        return bool(changed or added)

    return put_back


def _function(function: FunctionType) -> PutBack:
    was = [(name, getattr(function, name)) for name in _FUNCTION]
    words = dict(function.__kwdefaults__ or {})

    def put_back() -> bool:
        changed = [(name, value) for name, value in was if getattr(function, name) is not value]
        for name, value in changed:
            setattr(function, name, value)
        is_same = (function.__kwdefaults__ or {}) == words
        if not is_same:
            function.__kwdefaults__ = dict(words)
        return bool(changed) or not is_same

    return put_back


def _of_class(kind: type) -> Iterator[PutBack]:
    yield _class(kind)
    yield from map(_function, _functions_of(kind))


def _functions_of(kind: type) -> Iterator[FunctionType]:
    for member in tuple(vars(kind).values()):
        for one in (member, *(getattr(member, part, None) for part in ("__func__", "fget", "__wrapped__"))):
            if isinstance(one, FunctionType):
                yield one


def _class(kind: type) -> PutBack:
    was, bases = dict(vars(kind)), kind.__bases__

    def put_back() -> bool:
        now = dict(vars(kind))
        changed = [name for name, value in was.items() if now.get(name, _MISSING) is not value]
        changed = [name for name in changed if not _is_pythons(name, was[name])]
        added = [name for name, value in now.items() if name not in was and not _is_pythons(name, value)]
        for name in changed:
            type.__setattr__(kind, name, was[name])
        for name in added:
            type.__delattr__(kind, name)
        if kind.__bases__ != bases:
            type.__setattr__(kind, "__bases__", bases)
            return True
        return bool(changed or added)

    return put_back


def _is_pythons(name: str, value: object) -> bool:
    """Whether Python notes it in a class by itself, as it does annotations that were asked for."""
    return name.startswith("__") and not callable(value) and not hasattr(value, "__get__")


# -- which step runs right here: what is begun within it is a sub-agent's, and what only a person may do is refused


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# Code of a step can read every context variable, so this one says nothing by itself.
_key: ContextVar[str] = ContextVar("agent_kernel_step", default="")
_executors: dict[str, RunExecutor] = {}
_last: list[object] = [object()]  # another one after each step
_made: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()  # agents that a step made, by the key of the step


@contextmanager
def enter_step(run_executor: RunExecutor) -> Generator[PutBack]:
    """While code of a step of this run runs. What it gives puts back the rights that it changed, and says whether it did."""
    key = secrets.token_hex(8)
    _executors[key] = run_executor
    token = _key.set(key)
    try:
        with protect() as put_back:
            yield put_back
    finally:
        _key.reset(token)
        del _executors[key]
        _last[0] = object()


def last_step() -> object:
    """Stands for the step that ran last in this process, whosever it was."""
    return _last[0]


def running_executor() -> RunExecutor | None:
    """The run whose step runs right here."""
    return _executors.get(_key.get())


def parent_executor(what: str) -> RunExecutor | None:
    """The run whose sub-agent begins here, if one does.

    Args:
        what: begins, for the error.

    Raises:
        WithinStepError: the step changed what an agent may do. It is as it was again.
        RuntimeError: this is code of a step, on a thread or in a context of its own. Nobody would know whose rights hold.
    """
    if is_within() and put_back():
        raise WithinStepError("change an agent")
    run_executor = running_executor()
    if run_executor is None and (is_within() or current_gate() is not None):
        raise RuntimeError(f"{what}: call it on the step's own thread, one after the other")
    return run_executor


def is_within() -> bool:
    """Whether this is code of a step, also on a thread that it started."""
    return running_executor() is not None or is_on_step_thread()


def _whose() -> str:
    """The key of the step whose code acts here, or left behind what does; "": a person's code."""
    return _key.get() or ("left" if is_within() or is_left_over_from_step() else "")


def refuse_within_step(what: str) -> None:
    """Raise WithinStepError where this is code of a step, or what one left behind.

    Args:
        what: what only a person may do, as in "approve a step".
    """
    if _whose():
        raise WithinStepError(what)


class OnlyByPerson(Generic[P, R]):
    """A method that decides: code of a step cannot even take hold of it, to hand it to somebody who calls it later.

    Raises:
        WithinStepError: code of a step, or what one left behind, reads or calls it.
    """

    def __init__(self, method: Callable[P, R]) -> None:
        functools.update_wrapper(cast("Callable[P, R]", self), method)
        self.__wrapped__ = method

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        refuse_within_step("decide about a step")
        return self.__wrapped__ if instance is None else MethodType(self.__wrapped__, instance)


def only_by_person(method: F) -> F:
    """For methods that only a person may call: they decide about a step."""
    return cast("F", OnlyByPerson(method))


def was_made(agent: Agent) -> None:
    """An agent was made; by a step, perhaps."""
    if whose := _whose():
        _made[agent] = whose


def was_made_by_a_step(agent: Agent) -> bool:
    """Whether code of a step made the agent, and so chose all that it has."""
    return agent in _made


def was_changed(agent: Agent) -> None:
    """An agent was made or changed; by a person, unless a step made it."""
    if agent not in _made:
        note_again(agent)


def may_change(agent: Agent) -> None:
    """Raise WithinStepError where code of a step changes an agent that it has not made itself."""
    whose = _whose()
    if whose and _made.get(agent) != whose:
        raise WithinStepError("change an agent")
