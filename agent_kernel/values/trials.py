"""Load an object of a new type aside before it counts as saved: some pickle well and can never be loaded.

Types of libraries that nobody here knows are tried when one of their objects is first saved: it is dumped alone and
loaded again, and so are all the types below it. One that loaded is known for the life of the process, and costs nothing
more. What does not load is not saved: the object stays alive, and is named with the reason.

A copy that dies may do what the original would: close a file, delete a folder. So nothing is tried that has `__del__` or
a finalizer. Objects of the notebook's classes are tried where the class says how they are loaded, and all code that then
runs only computes (`harmless`). Of what cannot be tried nothing is said.
"""

# Any library's objects are looked at here, so nothing is known of their types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import random
import sys
import types
import weakref
from collections.abc import Callable, Generator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.values.dump import Dump, Loss
from agent_kernel.values.lost import Lost
from agent_kernel.values.quiet import unwarned
from agent_kernel.values.references import is_library
from agent_kernel.values.summaries.reading import bases_of, module_name

if TYPE_CHECKING:
    from agent_kernel.values.dump import Memory
    from agent_kernel.values.harmless import Run
    from agent_kernel.values.pickler import Pickler
    from agent_kernel.values.reducers import Handler

MOST_BYTES = 1_000_000  # of pickles: some 30 ms
MOST_MEMORY = 16_000_000  # bytes of arrays beside it, which are only copied
MOST_TRIES = 3  # that say nothing, before a type counts as known

# Of these many objects were saved and loaded in the tests, or they are looked into like the builtin containers.
_KNOWN = frozenset({"builtins", "collections", "types", "functools", "itertools", "weakref", "typing", "agent_kernel"})
_KNOWN_LIBRARIES = frozenset({"polars", "pyarrow", "torch", "matplotlib", "mpl_toolkits", "sklearn"})
# Of these some types have handlers of their own, and the others are tried like those of any library.
_HANDLED_LIBRARIES = frozenset({"numpy", "pandas", "scipy"})
_LOAD_HOOKS = ("__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__new__")


class Trial(msgspec.Struct, eq=False):
    """What the dump of one object on trial met: types that are new, and whether it has to be left alone."""

    new: list[tuple[type, Untried]] = msgspec.field(default_factory=list["tuple[type, Untried]"])
    is_forbidden: bool = False


class Untried:
    """The handler of a type of which no object was loaded yet, around its own one."""

    def __init__(self, handler: Handler, *, is_forbidden: bool = False) -> None:
        self.handler, self.is_forbidden = handler, is_forbidden
        self.tries_left = MOST_TRIES

    def __call__(self, pickler: Pickler, value: Any) -> Any:
        if pickler.trial is not None:
            pickler.trial.new.append((type(value), self))
            pickler.trial.is_forbidden |= self.is_forbidden
        elif not self.is_forbidden and id(type(value)) not in pickler.left_untried and not _is_put_off(value):
            failed = try_out(pickler, value, self)
            if failed:
                return pickler.lose(value, failed)
        return self.handler(pickler, value)


def own_handler(handler: Handler) -> Handler:
    return handler.handler if isinstance(handler, Untried) else handler


def with_trial(kind: type[Any], handler: Handler) -> Handler:
    """The handler of a new type; it tries its objects where that can be done, and says something."""
    module = module_name(kind)
    package = module.partition(".")[0]
    if package in _KNOWN_LIBRARIES or package in _KNOWN or _is_told_by_name(kind, handler):
        return handler
    if any("__del__" in vars(base) for base in bases_of(kind)):
        return Untried(handler, is_forbidden=True)
    if package == "__main__":
        return Untried(handler) if _runs_own_code(kind) else handler
    return Untried(handler, is_forbidden=not is_library(module) and _runs_own_code(kind))


def _is_told_by_name(kind: type[Any], handler: Handler) -> bool:
    from agent_kernel.values.reducers import code, leaf, objects

    if handler is leaf or issubclass(kind, type) or id(kind) in code.EXACT or id(kind) in objects.EXACT:
        return True
    return module_name(kind).partition(".")[0] in _HANDLED_LIBRARIES and _is_of_family(handler)


def _is_of_family(handler: Handler) -> bool:
    """Whether a handler is made for types of a library: the others do what pickle does with any object."""
    from agent_kernel.values.reducers import custom, immutable, ordinary, transparent, without_dict

    if handler in (immutable, transparent):  # which is said of types by name
        return True
    if handler in (ordinary, without_dict, custom):
        return False
    general = ("objects", "instances", "containers")
    return getattr(handler, "__module__", "").rpartition(".")[2] not in general


def _runs_own_code(kind: type) -> bool:
    """Whether loading an object of a module of the person's own runs code of that module."""
    return any(isinstance(vars(base).get(hook), types.FunctionType) for base in bases_of(kind) for hook in _LOAD_HOOKS)


def try_out(pickler: Pickler, value: object, handler: Untried) -> str:
    """Dump an object alone and load it aside: why it cannot be loaded, or nothing if it can, or cannot be tried."""
    from agent_kernel.values.pickler import FOREIGN

    trial, probe = Trial(), Dump()
    try:
        _dump_alone(pickler, value, trial, probe)
        is_small = sum(blob.raw().nbytes for blob in probe.buffers) <= MOST_MEMORY
    except (*FOREIGN, _TooLargeError):  # what cannot be dumped is told of by the dump that asked
        is_small = False
    if not is_small:
        _put_off(value)
        pickler.left_untried.add(id(type(value)))
        return ""
    runs = None if trial.is_forbidden or _has_finalizer(probe) else _what_runs(pickler, probe)
    if runs is None:
        handler.tries_left -= 1
        if handler.tries_left <= 0:
            _keep_known(type(value), handler)
        pickler.left_untried.add(id(type(value)))
        return ""
    failed = _load(pickler, value, probe, runs)
    if failed is None:
        pickler.left_untried.add(id(type(value)))
        return ""
    if not failed:
        for kind, untried in trial.new:
            _keep_known(kind, untried)
    return failed


def _keep_known(kind: type, untried: Untried) -> None:
    from agent_kernel.values.reducers import HANDLERS

    if HANDLERS.get(kind) is untried:
        HANDLERS.keep(kind, untried.handler)


class _TooLargeError(BaseException):
    """More was written than is tried; no foreign code is to catch it."""


class _Sink(BytesIO):
    def write(self, part: Any, /) -> int:
        if self.tell() + len(part) > MOST_BYTES:
            raise _TooLargeError
        return super().write(part)


class _Large(msgspec.Struct, eq=False):
    """What was too large to be tried; and how often it is passed over until it is tried again: it may be smaller then."""

    thing: weakref.ref[Any]
    passes: int
    passes_left: int


_FIRST_PASSES = 32
_MOST_LARGE = 1_000
_large: dict[int, _Large] = {}


def _is_put_off(value: object) -> bool:
    thing = _whole_of(value)
    found = _large.get(id(thing))
    if found is None or found.thing() is not thing:
        return False
    found.passes_left -= 1
    return found.passes_left >= 0


def _put_off(value: object) -> None:
    thing: Any = _whole_of(value)
    found = _large.get(id(thing))
    passes = _FIRST_PASSES if found is None or found.thing() is not thing else 2 * found.passes
    if len(_large) >= _MOST_LARGE:
        _large.clear()
    with contextlib.suppress(TypeError):  # no weak reference can lead to it
        _large[id(thing)] = _Large(weakref.ref(thing), passes, passes)


def _whole_of(value: object) -> object:
    """What is dumped with an object in any case: an artist's figure, of which each kind of artist would be tried."""
    if "matplotlib.artist" not in sys.modules:
        return value
    from agent_kernel.values.reducers.figures import root_of

    return root_of(value) or value


def _dump_alone(pickler: Pickler, value: object, trial: Trial, probe: Dump) -> None:
    from agent_kernel.values.pickler import Pickler, write_phases

    inner = Pickler(_Sink(), probe, pickler.names, pickler.namespace, pickler.clusters)
    inner.shared_owners = pickler.shared_owners
    inner.trial = trial
    write_phases(inner, [value], pickler.dump_record.named)


def _what_runs(pickler: Pickler, probe: Dump) -> Run | None:
    """What loading runs of the notebook's own; None where that may do more than compute."""
    from agent_kernel.values.harmless import Run, what_runs

    if not probe.definitions and all(module_name(kind) != "__main__" for kind in _kinds_of(probe)):
        return Run([], [])
    return what_runs(probe, pickler.namespace)


def _kinds_of(probe: Dump) -> Generator[type]:
    yield from probe.classes.values()
    for value in (*probe.instances, *probe.opaque):
        yield type(value)


def _has_finalizer(probe: Dump) -> bool:
    registry: dict[Any, Any] = weakref.finalize._registry  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    if not registry:
        return False
    waiting = {id(info.weakref()) for info in list(registry.values())}
    return any(id(value) in waiting for value in (*probe.instances, *probe.opaque))


class _Source:
    def __init__(self, probe: Dump) -> None:
        self._definitions = {bytes(definition): payload for definition, payload in probe.definitions.items()}

    def definition(self, definition: bytes) -> bytes:
        return self._definitions[definition]


class _Live:
    """What the trial's own dump met stands for itself."""

    def __init__(self, probe: Dump) -> None:
        self._live = probe.live

    def live_object(self, token: str) -> object | None:
        return self._live.get(token)

    def live_or_new(self, token: str, make: Callable[[], object]) -> object:
        return self._live[token] if token in self._live else make()

    def has_lived(self, uid: str) -> bool:
        return True

    def pinned(self, token: str) -> None:
        return None

    def placeholder(self, token: str, loss: Loss) -> Lost:
        return Lost(loss)


class _Bytes:
    def __init__(self, blob: Memory) -> None:
        self._view = blob.raw()
        self.size = self._view.nbytes

    def read_into(self, target: memoryview) -> None:
        target.cast("B")[:] = self._view.cast("B") if self._view.format != "B" else self._view


def _load(pickler: Pickler, value: object, probe: Dump, runs: Run) -> str | None:
    """Why it cannot be loaded, or nothing if it can; None: that is not known yet."""
    from agent_kernel.values.groups import assemble
    from agent_kernel.values.loader import Loader
    from agent_kernel.values.pickler import explain
    from agent_kernel.values.streams import Failure, StoredGroup

    made = assemble({"": value}, (), probe)
    buffers = [_Bytes(blob) for blob in probe.buffers]

    def buffer(position: int) -> _Bytes:
        return buffers[position - 1]

    group = StoredGroup(("",), (0,), 1, made.layout, lambda _: probe.streams[0], buffer)
    loader = Loader(pickler.namespace, _Source(probe), _Live(probe), dict(probe.classes))
    loader.put_back(runs.kinds, runs.codes)
    with unwarned(), _same_random_numbers():
        (loaded,) = loader.load([group])
    if not isinstance(loaded, Failure):
        return ""
    if isinstance(loaded.error, (NameError, MemoryError)):  # a later cell may give the name, or have more memory
        return None
    error = loaded.error
    said = explain(error).removeprefix("it raises ")
    return f"it cannot be loaded again: {said if said.startswith(type(error).__name__) else f'{type(error).__name__}: {said}'}"


@contextlib.contextmanager
def _same_random_numbers() -> Generator[None]:
    """Let code that runs next draw the numbers that it would have drawn."""
    python = random.getstate()
    numpy: Any = sys.modules.get("numpy.random")
    before = numpy.get_state(legacy=False) if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.set_state(before)
