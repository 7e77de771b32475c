"""What the names in a piece of code stand for: functions of modules by their dotted names, texts, paths, buffers.

It follows imports, aliases and constants of the code, and what variables of the notebook are by their types. No code of
a value runs: what a type or function says of itself is read past its own attribute access.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from agent_kernel.agents.review.reaching import BUILTINS, FUNCTIONS, MODULES, PATH_WORDS, QUIET_TYPES

__all__ = ["WHOLE_MODULES", "Meanings", "is_getattr", "is_globals", "meaning_of", "module_kind", "reaches"]

_PATHS: Final = frozenset({"Path", "pathlib.Path", "PosixPath", "pathlib.PosixPath", "os.path.join"})
_BUFFERS: Final = frozenset({"io.BytesIO", "io.StringIO", "BytesIO", "StringIO"})
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
        self._buffers: Counter[str] = Counter()
        stores = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self._stores = Counter(stores)
        self.bound = frozenset(self._stores)
        for node in ast.walk(tree):
            self._learn(node)

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
        if self.is_buffer(value):
            self._buffers[name] += 1

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
            return 0 < self._stores[node.id] <= self._buffers[node.id]
        if isinstance(node, ast.Name) and self._head(node) in _BUFFERS:
            return True
        return self.dotted(node) in _STREAMS


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
