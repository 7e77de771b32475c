"""Tell whether what is loaded runs only code of the notebook's that computes: then it can be loaded on trial.

A `__setstate__` may open a file again, print, write to a server; on trial it must do none of that. So all code that can
run is read first, and has to keep to what is known: builtins that only compute, modules that do the same, atoms, and
other code of the notebook's of which this holds too. What it counts and registers is put back (`guard`). Where anything
else is used, nothing is said: it may be harmless all the same.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# What classes and variables hold is of any type.

from __future__ import annotations

import builtins
import dis
import pickletools
import types
from abc import ABCMeta
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_kernel.values.guard import nested_codes
from agent_kernel.values.summaries.reading import bases_of, class_dict, module_name

if TYPE_CHECKING:
    from agent_kernel.values.dump import Dump

MOST_BYTES = 100_000  # of streams that are read: some 30 ms
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
    if probe.named or probe.live or sum(map(len, probe.streams)) > MOST_BYTES:
        return None
    met = [*probe.instances, *probe.opaque]
    kinds = {id(type(value)): type(value) for value in met}
    if not all(_is_data(kind) for kind in kinds.values()):
        return None
    asked = _Globals()
    if not all(map(asked.are_harmless, probe.streams)):
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
            for name, held in list(class_dict(base).items()):
                is_special = name.startswith("__") and name.endswith("__")
                if name in _SHOWING or (name in _MAKING and not makes):
                    continue
                for function in _functions(held):
                    if is_special or name in self._names:
                        self.add_function(function)
                if name in self._names and not is_special and not list(_functions(held)):
                    self._is_refused |= not isinstance(held, _DESCRIPTORS) and not self._may_use(held, guarded=True)

    def _read(self, function: types.FunctionType) -> None:
        own = function.__globals__ is self._namespace
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        held = [*defaults, *(content for cell in function.__closure__ or () for content in _content(cell))]
        self._is_refused |= not all(self._may_use(value, guarded=False) for value in held)
        for code in nested_codes(function.__code__):
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


def _functions(held: Any) -> Iterator[types.FunctionType]:
    if type(held) in (staticmethod, classmethod):
        found: tuple[Any, ...] = (held.__func__,)
    elif type(held) is property:
        found = (held.fget, held.fset, held.fdel)
    else:
        found = (held,)
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
