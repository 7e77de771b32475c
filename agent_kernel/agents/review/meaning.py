"""What the names in a piece of code stand for: functions of modules by their dotted names, texts, paths, buffers.

It follows imports, aliases and constants of the code, and what variables of the notebook are by their types. No code of
a value runs: what a type or function says of itself is read past its own attribute access.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import os
import re
from collections import Counter, deque
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from agent_kernel.agents.effects import is_own
from agent_kernel.agents.review.reaching import BUILTINS, FUNCTIONS, MODULES, PATH_WORDS, QUIET_TYPES
from agent_kernel.values.redacted_values import is_in_memory
from agent_kernel.values.summaries.reading import derives_from, instance_dict, is_of_notebook, loaded, module_name

__all__ = [
    "WHOLE_MODULES",
    "Meanings",
    "is_getattr",
    "is_globals",
    "is_mapped",
    "kind_of_open",
    "meaning_of",
    "module_kind",
    "reaches",
]

_PATHS: Final = frozenset({"Path", "pathlib.Path", "PosixPath", "pathlib.PosixPath", "os.path.join"})
_BUFFERS: Final = frozenset({"io.BytesIO", "io.StringIO", "BytesIO", "StringIO", "pyarrow.BufferOutputStream"})
_STREAMS: Final = frozenset({"sys.stdout", "sys.stderr"})
_WHOLE: Final = frozenset({"open", "sys.modules"})  # what a name may stand for, besides what reaches outside by itself
# Modules all of which may be reached through one that is handed around, and through others that import them.
WHOLE_MODULES: Final = frozenset({"os", "shutil", "builtins", "sys", "subprocess", "importlib"})
_MADE: Final = frozenset({"session", "socket", "client", "resource", "connect", "create_connection", "SMTP"})
# As people import them, where a cell before did so.
_USUAL: Final = {"np": "numpy", "sns": "seaborn", "sa": "sqlalchemy", "pd": "pandas"}
# Modules in C, and those whose names are theirs.
_BEHIND: Final = {
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_pickle": "pickle",
    "_socket": "socket",
    "_ctypes": "ctypes",
    "_sqlite3": "sqlite3",
}
_PICKLED: Final = frozenset({"pickle.dumps", "cloudpickle.dumps", "dill.dumps", "joblib.dumps"})
_ON_PATHS: Final = frozenset({"joinpath", "with_suffix", "with_name", "open", "absolute", "resolve", "as_posix"})
_FILES: Final = frozenset(
    map(id, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.FileIO))
)
_DATABASES: Final = re.compile(r"sqlite3\.(?:Connection|Cursor)|_?duckdb\.DuckDBPyConnection")
_LAST_STREAM: Final = 2  # numbers of standard input and output, and of errors
_MOST_HELD: Final = 300  # objects that are looked at in a variable
_CONTAINERS: Final = frozenset(map(id, (list, tuple, dict, set, frozenset, deque)))
_HOLDERS: Final = frozenset(map(id, (functools.partial, MethodType, BuiltinFunctionType, map, filter)))
_HOLDING: Final = frozenset(
    {"_csv", "csv", "zipfile", "tarfile", "gzip", "bz2", "lzma", "codecs", "contextlib", "tempfile", "types"}
)
_QUIET_OPEN: Final = ("agent_kernel.", "ctypes.", "http.cookie", "multiprocessing.pool.ThreadPool", "ssl._")
_OWN = "\N{PRIME}"  # behind the name of a variable, so that it is taken for no module's nor builtin's


class Meanings:
    """What the names of one piece of code mean.

    Args:
        namespace: the variables there are when it runs.
    """

    def __init__(self, tree: ast.Module, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._meant: dict[str, str] = {}  # names, and the dotted names that they stand for
        self._texts: dict[str, list[str]] = {}  # names, and what the texts begin with that they are bound to
        self._modes: dict[str, list[str]] = {}  # the same, where the whole text is known
        self._paths: set[str] = set()
        self._buffers: Counter[str] = Counter()  # names, and how often each is bound to a file in memory
        self._temporary: Counter[str] = Counter()  # the same of temporary files and folders
        self._databases: Counter[str] = Counter()  # of databases in memory
        self._pickles: Counter[str] = Counter()  # of what was pickled here
        stores = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self._stores = Counter(stores)
        self.bound = frozenset(self._stores)
        for node in ast.walk(tree):
            self._learn(node)
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        self.makes_temporary = any(self.dotted(called).partition(".")[0] == "tempfile" for called in calls)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=imported):
                for alias in imported:
                    self._meant[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str() as module, names=imported, level=0):
                for alias in imported:
                    self._meant[alias.asname or alias.name] = f"{module}.{alias.name}"
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
                | ast.withitem(optional_vars=ast.Name(id=name), context_expr=value)
            ):
                self._assigned(name, value)
            case (
                ast.For(target=ast.Name(id=name), iter=several)
                | ast.comprehension(target=ast.Name(id=name), iter=several)
            ):
                if self.is_path(several):
                    self._paths.add(name)
            case _:
                pass

    def _assigned(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Attribute | ast.Name):
            dotted = self.dotted(value)
            if reaches(dotted) or dotted in BUILTINS or dotted in _WHOLE:
                self._meant[name] = dotted
        elif isinstance(value, ast.Call) and self._makes_a_talker(self.dotted(value.func)):
            self._meant[name] = self.dotted(value.func)
        elif text := self.text(value):
            self._texts.setdefault(name, []).append(text)
        self._modes.setdefault(name, []).extend(self.whole_texts(value) or ())
        if self.is_path(value):
            self._paths.add(name)
        for found, counted in (
            (self.is_buffer(value), self._buffers),
            (self.is_temporary(value), self._temporary),
            (self.is_database_in_memory(value), self._databases),
            (self.is_own_pickle(value), self._pickles),
        ):
            counted[name] += found

    def _makes_a_talker(self, dotted: str) -> bool:
        """Whether what it returns talks to somebody, as a session does and a response does not."""
        last = dotted.rpartition(".")[2]
        return bool(module_kind(dotted)) and (last[:1].isupper() or last in _MADE) and not QUIET_TYPES.fullmatch(last)

    def dotted(self, node: ast.expr) -> str:
        """`os.remove` for whatever the code calls it; a part that is no name is `…`."""
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            elif is_getattr(node) and isinstance(node, ast.Call):
                attribute = node.args[1]
                parts.append(attribute.value if isinstance(attribute, ast.Constant) else "…")  # type: ignore[arg-type]  # text
                node = node.args[0]
            else:
                break
        while parts[:1] == ["__call__"]:
            del parts[0]
        names = [*self._head(node).split("."), *reversed(parts)]
        for at in range(len(names) - 1, 0, -1):  # `pathlib.os.remove` is `os.remove`
            if names[at].lstrip("_") in WHOLE_MODULES and at < len(names) - 1:
                names = [names[at].lstrip("_"), *names[at + 1 :]]
                break
        if names[0] in _BEHIND:
            names[0] = _BEHIND[names[0]]
        return ".".join(names[1:] if names[0] == "builtins" and len(names) > 1 else names)

    def _head(self, node: ast.expr) -> str:
        name = _name_of(node)
        if not name:
            return "…"
        if name in self._meant:
            return self._meant[name]
        if name in self._namespace:
            meaning = meaning_of(self._namespace[name])
            if name not in self.bound or reaches(meaning):
                return meaning or f"{name}{_OWN}"
        return _USUAL.get(name, name) if name not in self.bound else name

    def text(self, node: ast.expr | None) -> str:
        """The text that an expression begins with, as far as it is known."""
        return next(iter(self.texts(node)), "")

    def texts(self, node: ast.expr | None) -> tuple[str, ...]:
        """All texts that it may begin with, of those that are known."""
        if isinstance(node, ast.BinOp) and (whole := self.whole_texts(node)):
            return whole
        match node:
            case ast.Constant(value=str() as text) | ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]):
                return (text,)
            case ast.JoinedStr(values=[ast.FormattedValue(value=inner), *_]) | ast.BinOp(left=inner):
                return self.texts(inner)
            case ast.Name(id=name) if name in self._texts:
                return tuple(self._texts[name])
            case ast.Name(id=name) if name not in self.bound and type(held := self._namespace.get(name)) is str:
                return (held,)
            case _:
                return ()

    def whole_texts(self, node: ast.expr) -> tuple[str, ...] | None:
        """All texts that it can be; None: nobody knows before it runs."""
        match node:
            case ast.Constant(value=str() as text):
                return (text,)
            case ast.IfExp(body=one, orelse=other):
                first, second = self.whole_texts(one), self.whole_texts(other)
                return None if first is None or second is None else first + second
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.whole_texts(left), self.whole_texts(right)
                return None if first is None or second is None else tuple(a + b for a in first for b in second)
            case ast.Name(id=name) if self._modes.get(name) and len(self._modes[name]) >= self._stores[name]:
                return tuple(self._modes[name])
            case ast.Name(id=name) if name not in self.bound and type(held := self._namespace.get(name)) is str:
                return (held,)
            case _:
                return None

    def is_path(self, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and self.dotted(part.func) in _PATHS:
                return True
            if isinstance(part, ast.Name) and (part.id in self._paths or PATH_WORDS.search(part.id)):
                return True
            if isinstance(part, ast.Name) and self._head(part).startswith("pathlib."):
                return True
        return False

    def is_buffer(self, node: ast.expr) -> bool:
        """Whether it is a file in memory, or what is shown: what is written to it reaches no file."""
        if isinstance(node, ast.NamedExpr):
            return self.is_buffer(node.value)
        if isinstance(node, ast.Call):
            return self.dotted(node.func) in _BUFFERS
        if isinstance(node, ast.Name) and node.id in self.bound:
            return self._is_only(node.id, self._buffers)
        if isinstance(node, ast.Name) and self._head(node) in _BUFFERS:
            return True
        return self.dotted(node) in _STREAMS

    def _is_only(self, name: str, counted: Counter[str]) -> bool:
        """Whether the code binds a name to nothing else than what was counted."""
        return 0 < self._stores[name] <= counted[name]

    def is_temporary(self, node: ast.expr) -> bool:
        """Whether it is a temporary file or folder, or the path of something in one."""
        match node:
            case ast.Name(id=name) if name in self.bound:
                return self._is_only(name, self._temporary)
            case ast.Name(id=name):
                return is_own_place(self._namespace.get(name))
            case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in _ON_PATHS and self.is_temporary(
                base
            ):
                return all(map(_stays_below, node.args))
            case ast.Call(func=called, args=args, keywords=words):
                if (name := self.dotted(called)).partition(".")[0] == "tempfile":
                    return not any(word.arg in ("dir", None) for word in words)
                is_path = name in _PATHS or name in ("str", "os.fspath")
                return is_path and bool(args) and self.is_temporary(args[0]) and all(map(_stays_below, args[1:]))
            case ast.BinOp(left=left, op=ast.Div() | ast.Add(), right=right):
                return self.is_temporary(left) and _stays_below(right, joins=isinstance(node.op, ast.Div))
            case ast.JoinedStr(values=[ast.FormattedValue(value=first), *rest]):
                return self.is_temporary(first) and all(_stays_below(one, joins=False) for one in rest)
            case ast.Attribute(value=base, attr="name" | "file"):
                return self.is_temporary(base)
            case ast.NamedExpr(value=value):
                return self.is_temporary(value)
            case _:
                return False

    def is_database_in_memory(self, node: ast.expr) -> bool:
        """Whether it is a connection to a database that no file holds but a temporary one, or a cursor of it."""
        match node:
            case ast.Name(id=name) if name in self.bound:
                return self._is_only(name, self._databases)
            case ast.Name(id=name) if name in self._namespace:
                return is_in_memory(self._namespace[name])
            case ast.Call(func=ast.Attribute(value=base, attr="cursor" | "execute" | "executemany" | "register")):
                return self.is_database_in_memory(base)
            case ast.Call(func=called, args=args, keywords=words):
                name = self.dotted(called)
                given = args[0] if args else next((one.value for one in words if one.arg == "database"), None)
                if name not in ("sqlite3.connect", "duckdb.connect") or (given is None and words):
                    return False
                if given is None:
                    return name[0] == "d"
                return self.whole_texts(given) == (":memory:",) or self.is_temporary(given)
            case _:
                return self.dotted(node) == "duckdb"  # the module's own one

    def is_own_pickle(self, node: ast.expr) -> bool:
        """Whether it was pickled by this code: what is loaded from it is what there was."""
        if isinstance(node, ast.Name) and node.id in self.bound:
            return self._is_only(node.id, self._pickles)
        return isinstance(node, ast.Call) and self.dotted(node.func) in _PICKLED

    def is_imported(self, node: ast.expr) -> bool:
        """Whether the name that an expression begins with is a module, or something of one, that was imported."""
        while isinstance(node, ast.Attribute):
            node = node.value
        name = _name_of(node)
        held = self._namespace.get(name) if name not in self.bound else None
        return name in self._meant or derives_from(type(held), ModuleType)


def _stays_below(node: ast.expr, *, joins: bool = True) -> bool:
    """Whether what is put behind a path leads to a place below it. `joins`: an absolute path would take its place."""
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return not any(".." in text or (joins and text.startswith(("/", "~"))) for text in texts)


def meaning_of(value: object) -> str:
    """The dotted name of a module, function or class; of another value that of its type, where that reaches outside."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return _text(object.__getattribute__(value, "__dict__").get("__name__"))
    if issubclass(kind, type):
        made = cast("type", value)
        return _named(type.__getattribute__(made, "__module__"), type.__getattribute__(made, "__qualname__"))
    if kind is MethodType:
        return meaning_of(cast("MethodType", value).__func__)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return _function(value)
    module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
    named = _named(module, name)
    if named == "os._Environ":
        return "os.environ"
    is_quiet = QUIET_TYPES.fullmatch(named.rpartition(".")[2]) or named.startswith("agent_kernel.")
    if named.startswith(("pathlib.", "io.")) or named.endswith("InteractiveShell"):
        return named
    return named if module_kind(named) and not is_quiet else ""


# -- what variables hold that is open


def is_own_place(value: object) -> bool:
    """Whether it is the path of a temporary file or folder of a step, or stands for one."""
    if type(value) is str:
        return is_own(value)
    module = module_name(type(value))
    if module == "pathlib":
        return is_own(os.fspath(cast("os.PathLike[str]", value)))
    named = instance_dict(value).get("name") if module == "tempfile" else ""
    return type(named) is str and is_own(named)


def kind_of_open(value: object) -> str:
    """What somebody who has this value reaches by what is open in it: a file that is written, a connection; "": nothing.

    Writing to what is open already tells no audit event, so nothing stops it as it happens.
    """
    todo: list[object] = [value]
    met: set[int] = set()
    while todo and len(met) < _MOST_HELD:
        one = todo.pop()
        if id(one) in met:
            continue
        met.add(id(one))
        if found := _open_kind(one):
            return found
        if _leads_on(one):
            todo += gc.get_referents(one)
    return ""


def _open_kind(value: Any) -> str:
    kind = type(cast("object", value))
    if id(kind) in _FILES:
        try:
            is_kept = not value.closed and value.writable() and value.fileno() > _LAST_STREAM
            return "files" if is_kept and value.name != os.devnull and not is_own(str(value.name)) else ""
        except (OSError, ValueError, AttributeError):
            return ""
    if derives_from(kind, type) or derives_from(kind, ModuleType):
        return ""
    named = _named(module_name(kind), type.__getattribute__(kind, "__qualname__"))
    is_quiet = QUIET_TYPES.fullmatch(named.rpartition(".")[2]) or named.startswith(_QUIET_OPEN)
    if is_quiet:
        return ""
    if named.startswith(("sqlite3.", "_duckdb.", "duckdb.")):
        return "database" if _DATABASES.fullmatch(named) and not is_in_memory(value) else ""
    root = named.rpartition(".")[0]
    return module_kind(named) or MODULES.get(root.partition(".")[0], "")


def is_mapped(value: object) -> bool:
    """Whether items that are set in it go to a file: one that is mapped to memory, or that holds keys and values."""
    kind = type(value)
    if module_name(kind) in ("mmap", "shelve", "_gdbm", "_dbm", "dbm.dumb"):
        return True
    is_array = derives_from(kind, loaded("numpy", "memmap"))
    return is_array and instance_dict(value).get("mode") in ("r+", "w+")


def _leads_on(value: object) -> bool:
    """Whether what this refers to is what it holds: a container, an object of the notebook's or of Python's own classes."""
    kind = type(value)
    if id(kind) in _CONTAINERS:
        return len(cast("list[object]", value)) <= _MOST_HELD
    module = module_name(kind)
    return id(kind) in _HOLDERS or is_of_notebook(kind) or module.partition(".")[0] in _HOLDING


def _function(value: Any) -> str:
    owner = value.__self__ if type(value) is BuiltinFunctionType else None
    if owner is not None and not issubclass(type(owner), ModuleType):
        return f"{meaning_of(owner) or '…'}.{value.__name__}"
    return _named(value.__module__, value.__qualname__)


def _named(module: object, name: object) -> str:
    if type(module) is not str or type(name) is not str or module == "__main__":
        return ""
    return f"{_BEHIND.get(module, module)}.{name}"


def _text(found: object) -> str:
    return found if type(found) is str else ""


def _name_of(node: ast.expr) -> str:
    """The name that is looked up; also `globals()['name']`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=held, slice=ast.Constant(value=str() as name)) if is_globals(held):
            return name
        case _:
            return ""


def module_kind(name: str) -> str:
    """What the module reaches that a dotted name begins with, where its name cannot well be a variable's."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in MODULES and prefix not in ("sh", "code", "http", "imp", "websocket"):
            return MODULES[prefix]
    return ""


def reaches(dotted: str) -> bool:
    """Whether what goes by this dotted name, or something in it, reaches outside."""
    return (
        dotted in FUNCTIONS
        or dotted in WHOLE_MODULES
        or dotted == "pathlib"
        or dotted in MODULES
        or bool(module_kind(dotted))
    )


def is_getattr(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and (not isinstance(node.args[1], ast.Constant) or isinstance(node.args[1].value, str))
    )


def is_globals(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("globals", "vars", "locals")
    )
