"""Load an object of a new type aside before it counts as saved: some pickle well and can never be loaded.

Types of libraries that nobody here knows are tried when one of their objects is first saved: it is dumped alone and
loaded again, and so are all the types below it. One that loaded is known for the life of the process, and costs nothing
more. What does not load is not saved: the object stays alive, and is named with the reason.

A copy that dies may do what the original would: close a file, delete a folder. So nothing is tried that has `__del__` or
a finalizer. Objects of the notebook's classes are tried where the class says how they are loaded, and all code that then
runs only computes (`harmless`). Of what cannot be tried nothing is said.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import contextlib
import dis
import pickletools
import sys
import types
import weakref
from abc import ABCMeta
from collections.abc import Callable, Generator, Iterable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agent_kernel.quiet import unwarned
from agent_kernel.values.aliases import Dump, SaveFailure
from agent_kernel.values.definitions import find_nested_codes
from agent_kernel.values.introspection import bases_of, class_dict, module_name, root_of
from agent_kernel.values.references import is_library
from agent_kernel.values.surface import Placeholder

if TYPE_CHECKING:
    from agent_kernel.values.aliases import Memory
    from agent_kernel.values.pickler import Pickler
    from agent_kernel.values.reducers import Handler


# Any library's objects are looked at here, so nothing is known of their types.


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

    new: list[tuple[type, TrialHandler]] = msgspec.field(default_factory=list["tuple[type, TrialHandler]"])
    is_forbidden: bool = False


class TrialHandler:
    """The handler of a type of which no object was loaded yet, around its own one."""

    def __init__(self, handler: Handler, *, is_forbidden: bool = False) -> None:
        self.handler, self.is_forbidden = handler, is_forbidden
        self.remaining_tries = MOST_TRIES

    def __call__(self, pickler: Pickler, value: Any) -> Any:
        if pickler.trial is not None:
            pickler.trial.new.append((type(value), self))
            pickler.trial.is_forbidden |= self.is_forbidden
        elif not self.is_forbidden and id(type(value)) not in pickler.untried_types and not _is_postponed(value):
            failed = try_out(pickler, value, self)
            if failed:
                return pickler.refuse(value, failed)
        return self.handler(pickler, value)


def own_handler(handler: Handler) -> Handler:
    return handler.handler if isinstance(handler, TrialHandler) else handler


def with_trial(kind: type[Any], handler: Handler) -> Handler:
    """The handler of a new type; it tries its objects where that can be done, and says something."""
    module = module_name(kind)
    package = module.partition(".")[0]
    if package in _KNOWN_LIBRARIES or package in _KNOWN or _is_handled_by_name(kind, handler):
        return handler
    if any("__del__" in vars(base) for base in bases_of(kind)):
        return TrialHandler(handler, is_forbidden=True)
    if package == "__main__":
        return TrialHandler(handler) if _runs_own_code(kind) else handler
    return TrialHandler(handler, is_forbidden=not is_library(module) and _runs_own_code(kind))


def _is_handled_by_name(kind: type[Any], handler: Handler) -> bool:
    from agent_kernel.values.reducers import exact_handler, leaf

    if handler is leaf or issubclass(kind, type) or exact_handler(kind) is not None:
        return True
    return module_name(kind).partition(".")[0] in _HANDLED_LIBRARIES and _is_of_family(handler)


def _is_of_family(handler: Handler) -> bool:
    """Whether a handler is made for types of a library: the others do what pickle does with any object."""
    from agent_kernel.values.reducers import custom, immutable, ordinary, slotted, transparent, without_dict

    if handler in (immutable, transparent):  # which is said of types by name
        return True
    if handler in (ordinary, without_dict, slotted, custom):
        return False
    general = ("objects", "instances", "copying")
    return getattr(handler, "__module__", "").rpartition(".")[2] not in general


def _runs_own_code(kind: type) -> bool:
    """Whether loading an object of a module of the person's own runs code of that module."""
    return any(isinstance(vars(base).get(hook), types.FunctionType) for base in bases_of(kind) for hook in _LOAD_HOOKS)


def try_out(pickler: Pickler, value: object, handler: TrialHandler) -> str:
    """Dump an object alone and load it aside: why it cannot be loaded, or nothing if it can, or cannot be tried."""
    from agent_kernel.values.pickler import FOREIGN

    trial, probe = Trial(), Dump()
    try:
        _dump_alone(pickler, value, trial, probe)
        is_small = sum(blob.raw().nbytes for blob in probe.buffers) <= MOST_MEMORY
    except (*FOREIGN, _TooLargeError):  # what cannot be dumped is told of by the dump that asked
        is_small = False
    if not is_small:
        _postpone(value)
        pickler.untried_types.add(id(type(value)))
        return ""
    runs = None if trial.is_forbidden or _has_finalizer(probe) else _what_runs(pickler, probe)
    if runs is None:
        handler.remaining_tries -= 1
        if handler.remaining_tries <= 0:
            _keep_known(type(value), handler)
        pickler.untried_types.add(id(type(value)))
        return ""
    failed = _load(pickler, value, probe, runs)
    if failed is None:
        pickler.untried_types.add(id(type(value)))
        return ""
    if not failed:
        for kind, untried in trial.new:
            _keep_known(kind, untried)
    return failed


def _keep_known(kind: type, untried: TrialHandler) -> None:
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
    remaining_passes: int


_FIRST_PASSES = 32
_MOST_LARGE = 1_000
_large: dict[int, _Large] = {}


def _is_postponed(value: object) -> bool:
    thing = _whole_of(value)
    found = _large.get(id(thing))
    if found is None or found.thing() is not thing:
        return False
    found.remaining_passes -= 1
    return found.remaining_passes >= 0


def _postpone(value: object) -> None:
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
    return root_of(value) or value


def _dump_alone(pickler: Pickler, value: object, trial: Trial, probe: Dump) -> None:
    from agent_kernel.values.pickler import Pickler, write_phases

    inner = Pickler(_Sink(), probe, pickler.names, pickler.namespace, pickler.clusters)
    inner.shared_owners = pickler.shared_owners
    inner.trial = trial
    write_phases(inner, [value], pickler.dump_record.named)


def _what_runs(pickler: Pickler, probe: Dump) -> Run | None:
    """What loading runs of the notebook's own; None where that may do more than compute."""
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

    def find_pinned(self, token: str) -> None:
        return None

    def placeholder(self, token: str, failure: SaveFailure) -> Placeholder:
        return Placeholder(failure)


class _Bytes:
    def __init__(self, blob: Memory) -> None:
        self._view = blob.raw()
        self.size = self._view.nbytes

    def read_into(self, target: memoryview) -> None:
        target.cast("B")[:] = self._view.cast("B") if self._view.format != "B" else self._view


def _load(pickler: Pickler, value: object, probe: Dump, runs: Run) -> str | None:
    """Why it cannot be loaded, or nothing if it can; None: that is not known yet."""
    from agent_kernel.values.groups import assemble
    from agent_kernel.values.hash_cycles import is_filled_too_early
    from agent_kernel.values.loader import Loader
    from agent_kernel.values.pickler import explain
    from agent_kernel.values.streams import Failure, StoredGroup

    made = assemble({"": value}, (), probe)
    layout = msgspec.structs.replace(made.layout, fills_last=is_filled_too_early(probe))
    buffers = [_Bytes(blob) for blob in probe.buffers]

    def buffer(position: int) -> _Bytes:
        return buffers[position - 1]

    group = StoredGroup(("",), (0,), 1, layout, lambda _: probe.streams[0], buffer)
    loader = Loader(pickler.namespace, _Source(probe), _Live(probe), dict(probe.classes))
    loader.put_back(runs.kinds, runs.codes)
    with unwarned(), _same_random_numbers():
        (loaded,) = loader.load([group])
    if not isinstance(loaded, Failure):
        return ""
    if isinstance(loaded.error, (NameError, MemoryError)):  # a later cell may give the name, or have more memory
        return None
    error = loaded.error
    reason = explain(error).removeprefix("it raises ")
    return f"it cannot be loaded again: {reason if reason.startswith(type(error).__name__) else f'{type(error).__name__}: {reason}'}"


@contextlib.contextmanager
def _same_random_numbers() -> Generator[None]:
    """Let code that runs next draw the numbers that it would have drawn."""
    from agent_kernel.values.loader import RandomNumbers

    numbers = RandomNumbers()
    try:
        yield
    finally:
        numbers.put_back()


# -- tell whether what is loaded runs only code of the notebook's that computes: then it can be loaded on trial
#
# A `__setstate__` may open a file again, print, write to a server; on trial it must do none of that. So all code that can
# run is read first, and has to keep to what is known: builtins that only compute, modules that do the same, atoms, and
# other code of the notebook's of which this holds too. What it counts and registers is put back (`Guard`). Where anything
# else is used, nothing is said: it may be harmless all the same.

# What classes and variables hold is of any type.


MOST_BYTES_READ = 100_000  # of streams that are read: some 30 ms
_MOST_ITEMS = 1_000

_ERRORS = (name for name, found in vars(builtins).items() if isinstance(found, type) and issubclass(found, Exception))
# fmt: off
_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "bytearray", "bytes", "callable", "chr", "classmethod", "complex", "dict", "divmod",
    "enumerate", "filter", "float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "id", "int", "isinstance",
    "issubclass", "iter", "len", "list", "map", "max", "memoryview", "min", "next", "object", "oct", "ord", "pow",
    "property", "range", "repr", "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum",
    "super", "tuple", "type", "zip", "NotImplemented", "Ellipsis", "__build_class__", "__debug__",
    *(name for name in _ERRORS if name != "MemoryError"),  # of which nobody knows whether it comes again
})
_MODULES = frozenset({
    "abc", "array", "bisect", "cmath", "collections", "copy", "datetime", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "math", "numbers", "operator", "re", "statistics", "string", "textwrap", "types", "typing", "uuid",
})
# What streams may name and hold beside these, since it does nothing by being loaded.
_DATA = _MODULES | {"_collections", "_datetime", "_decimal", "_operator", "copyreg", "numpy", "agent_kernel", "__main__"}
_REFERENCES = frozenset({"by_name", "module", "held", "main_module"})
# Attributes by which code gets out of what it was given, or writes a file.
_WAYS_OUT = frozenset({
    "__globals__", "__builtins__", "__subclasses__", "__code__", "__closure__", "__import__", "__loader__", "__spec__",
    "f_globals", "f_back", "f_locals", "tb_frame", "gi_frame", "tofile", "dump", "ctypes", "memmap", "save",
})
# fmt: on
_ATOMS = (int, float, complex, bool, str, bytes, types.NoneType, types.EllipsisType, range)
_SHOWING = frozenset({"__repr__", "__str__", "__format__", "__dir__", "__sizeof__", "__getstate__", "__del__"})
_MAKING = frozenset({"__init__", "__post_init__", "__new__", "__init_subclass__", "__call__"})
_SAYING = frozenset({"__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"})
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class Run(NamedTuple):
    """What loading may run: the code, and the classes that it may call and change."""

    codes: list[types.CodeType]
    kinds: list[type[Any]]


def what_runs(probe: Dump, namespace: dict[str, object]) -> Run | None:
    """What loading runs of the notebook's, if nobody could notice that once it is put back; else None."""
    if probe.named or probe.live or sum(map(len, probe.streams)) > MOST_BYTES_READ:
        return None
    met = [*probe.instances, *probe.opaque]
    kinds = {id(type(value)): type(value) for value in met}
    if not all(_is_data(kind) for kind in kinds.values()):
        return None
    requested = _Globals()
    if not all(map(requested.are_harmless, probe.streams)):
        return None
    reading = _Reading(namespace)
    for value in met:
        if type(value) is types.FunctionType:
            reading.add_function(value)
    for kind in (*kinds.values(), *probe.classes.values()):
        if module_name(kind) == "__main__":
            reading.add_class(kind)
    return reading.run if reading.is_harmless() else None


def _is_data(kind: type) -> bool:
    package = module_name(kind).partition(".")[0]
    return package in _DATA or package == "builtins"


class _Globals:
    """Reads which objects of modules streams name. The memo goes on from one stream to the next."""

    def __init__(self) -> None:
        self._memo: dict[int, str] = {}
        self._count = 0

    def are_harmless(self, stream: bytes) -> bool:
        recent: list[str] = ["", ""]
        argument: Any
        for operation, argument, _ in pickletools.genops(stream):
            name = operation.name
            if name.endswith("UNICODE"):
                recent.append(argument)
            elif name in ("BINGET", "LONG_BINGET"):
                recent.append(self._memo.get(argument, ""))
            elif name == "MEMOIZE":
                self._memo[self._count] = recent[-1]
                self._count += 1
            elif name == "STACK_GLOBAL":
                if not _may_be_named(*recent[-2:]):
                    return False
                recent.append("")
            elif name in ("GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PUT", "BINPUT", "LONG_BINPUT"):
                return False  # nothing of ours writes these
        return True


def _may_be_named(module: str, name: str) -> bool:
    if module.startswith("agent_kernel."):
        return name not in _REFERENCES
    if module == "builtins":
        return name in _BUILTINS
    return module.partition(".")[0] in _DATA


class _Reading:
    """Reads code, and what that leads to, until all of it is known to be harmless, or some is not."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._seen: dict[int, object] = {}
        self._todo: list[types.FunctionType] = []
        self.run = Run([], [])
        self._called: set[int] = set()
        self._names: set[str] = set()
        self._is_refused = False

    def add_function(self, function: types.FunctionType) -> None:
        if id(function) not in self._seen:
            self._seen[id(function)] = function
            self._todo.append(function)

    def add_class(self, kind: type[Any], *, called: bool = False) -> None:
        if called:
            self._called.add(id(kind))
        if id(kind) not in self._seen:
            self._seen[id(kind)] = kind
            self.run.kinds.append(kind)
            self._is_refused |= not _is_plain_class(kind)

    def is_harmless(self) -> bool:
        before = -1
        while not self._is_refused and before != len(self._seen) + len(self._names) + len(self._called):
            before = len(self._seen) + len(self._names) + len(self._called)
            while self._todo and not self._is_refused:
                self._read(self._todo.pop())
            for kind in list(self.run.kinds):
                self._read_class(kind)
        return not self._is_refused

    def _read_class(self, kind: type[Any]) -> None:
        says = any(not _SAYING.isdisjoint(class_dict(base)) for base in _own_bases(kind))
        makes = says or id(kind) in self._called or not self._names.isdisjoint(("type", "__class__"))
        for base in _own_bases(kind):
            for name, attribute in list(class_dict(base).items()):
                is_special = name.startswith("__") and name.endswith("__")
                if name in _SHOWING or (name in _MAKING and not makes):
                    continue
                for function in _functions(attribute):
                    if is_special or name in self._names:
                        self.add_function(function)
                if name in self._names and not is_special and not list(_functions(attribute)):
                    self._is_refused |= not isinstance(attribute, _DESCRIPTORS) and not self._may_use(
                        attribute, guarded=True
                    )

    def _read(self, function: types.FunctionType) -> None:
        own = function.__globals__ is self._namespace
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        values = [*defaults, *(content for cell in function.__closure__ or () for content in _content(cell))]
        self._is_refused |= not all(self._may_use(value, guarded=False) for value in values)
        for code in find_nested_codes(function.__code__):
            self.run.codes.append(code)
            self._read_code(code, function.__globals__, own=own)

    def _read_code(self, code: types.CodeType, variables: dict[str, object], *, own: bool) -> None:
        last: object = None
        for step in dis.get_instructions(code):
            does, name = step.opname, step.argval
            if does in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                last = variables.get(name)
                self._names.add(name)
                if name in variables:
                    self._is_refused |= not self._may_use(last, guarded=own)
                else:
                    self._is_refused |= hasattr(builtins, name) and name not in _BUILTINS
                continue
            if does in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self._is_refused |= not own
            elif does == "IMPORT_NAME":
                self._is_refused |= str(name).partition(".")[0] not in _MODULES
            elif does in ("STORE_ATTR", "DELETE_ATTR") and last is not None:
                self._is_refused |= not isinstance(last, type)
            if does.endswith(("_ATTR", "_METHOD")) or does == "IMPORT_FROM":
                self._names.add(name)
                self._is_refused |= name in _WAYS_OUT
            last = None

    def _may_use(self, value: Any, *, guarded: bool) -> bool:
        """Whether code may use this object.

        Args:
            guarded: what is put into it, and taken from it, is put back.
        """
        if isinstance(value, type):
            if module_name(value) == "__main__":
                self.add_class(value, called=True)
                return True
            return module_name(value) == "builtins" or module_name(value).partition(".")[0] in _MODULES
        if type(value) is types.FunctionType:
            self.add_function(value)
            return True
        if type(value) is types.ModuleType:
            return value.__name__.partition(".")[0] in _MODULES
        if type(value) is types.BuiltinFunctionType:
            module = getattr(value, "__module__", None) or ""
            return value.__name__ in _BUILTINS if module == "builtins" else module.lstrip("_") in _MODULES
        return type(value) in _ATOMS or (_holds_atoms(value) and (guarded or type(value) in (tuple, frozenset)))


def _is_plain_class(kind: type[Any]) -> bool:
    if type(kind) not in (type, ABCMeta):
        return False
    foreign = [base for base in bases_of(kind) if module_name(base) != "__main__"]
    return all(module_name(base).partition(".")[0] in _MODULES | {"builtins"} for base in foreign)


def _own_bases(kind: type[Any]) -> Iterable[type]:
    return [base for base in bases_of(kind) if module_name(base) == "__main__"]


def _functions(value: Any) -> Iterator[types.FunctionType]:
    if type(value) in (staticmethod, classmethod):
        found: tuple[Any, ...] = (value.__func__,)
    elif type(value) is property:
        found = (value.fget, value.fset, value.fdel)
    else:
        found = (value,)
    return (one for one in found if type(one) is types.FunctionType)


def _content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not filled yet
        return ()


def _holds_atoms(value: Any, most: int = _MOST_ITEMS) -> bool:
    if type(value) is dict:
        items: list[Any] = [*value, *value.values()] if len(value) <= most else [value]
    elif type(value) in (list, set, tuple, frozenset):
        items = list(value) if len(value) <= most else [value]
    else:
        return False
    return all(type(item) in _ATOMS or (item is not value and _holds_atoms(item, most // 10)) for item in items)
