"""What a piece of code would do, read from it before it runs: a report for a person, and whether it has to be asked about.

It is read, not run: code can hide what it does from any reader (`dynamic` findings say where), so this helps somebody
who looks, and stops nobody who means harm. Names are followed through imports, aliases and constants of the same code.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from typing import Final

from agent_kernel.agents.events import Finding
from agent_kernel.agents.reaching import (
    BUILTINS,
    FUNCTIONS,
    HARMLESS,
    METHODS,
    MODULES,
    PATH_WORDS,
    QUIET,
    WRITERS,
)
from agent_kernel.agents.unmagic import without_magics

__all__ = ["is_risky", "review"]

_LONGEST: Final = 120
_READS: Final = re.compile(r"read_\w+|loadtxt|genfromtxt|imread|load_dataset|fetch_\w+|scan_\w+")
_MODE: Final = re.compile(r"[rwaxbtU+]{1,4}")
_PLACES: Final = frozenset(
    {"path_or_buf", "buf", "path", "fname", "excel_writer", "path_or_buffer", "file", "filepath"}
)
_PATHS: Final = frozenset({"Path", "pathlib.Path", "PosixPath", "pathlib.PosixPath", "os.path.join"})
_DANGEROUS_KEYS: Final = frozenset({"__builtins__", "__import__", "__loader__", "__spec__", "__globals__"})
_HARMLESS_DUNDERS: Final = frozenset(
    [
        "__init__",
        "__name__",
        "__doc__",
        "__class__",
        "__len__",
        "__version__",
        "__file__",
        "__qualname__",
        "__module__",
        "__repr__",
        "__str__",
        "__iter__",
        "__next__",
        "__enter__",
        "__exit__",
        "__post_init__",
        "__annotations__",
        "__all__",
        "__array__",
        "__dataclass_fields__",
        "__eq__",
        "__hash__",
        "__call__",
        "__getitem__",
        "__setitem__",
        "__contains__",
        "__new__",
        "__init_subclass__",
        "__add__",
        "__mul__",
        "__sub__",
    ]
)
_WHOLE: Final = frozenset({"open", "sys.modules"})  # what a name may stand for, besides what reaches outside by itself
_ENVIRON_CHANGES: Final = frozenset({"update", "pop", "setdefault", "clear", "popitem", "__setitem__"})


def review(code: str, *, names: Collection[str] = (), allowed: Collection[str] = ()) -> tuple[Finding, ...]:
    """What the code would do, in its order, each thing once.

    Args:
        names: variables that there are: writing one of these is said apart from a new one.
        allowed: modules, and calls by dotted name, that need no asking.
    """
    found: dict[tuple[str, str], Finding] = {}
    tree = _parsed(code)
    if isinstance(tree, str):
        lines, magics = without_magics(code)
        for finding in magics:
            found.setdefault((finding.kind, finding.what), finding)
        tree = _parsed(lines)
    if isinstance(tree, str):
        return (*found.values(), Finding("unreadable", f"{tree}: it will not run as Python", 0, risky=False))
    reader = _Reader(tree, frozenset(names), frozenset(allowed))
    for finding in (*reader.findings(), *_bound(tree, frozenset(names))):
        found.setdefault((finding.kind, finding.what), finding)
    return tuple(found.values())


def is_risky(findings: Collection[Finding]) -> bool:
    """Whether a person who wants to be asked about risky steps has to be asked."""
    return any(finding.risky for finding in findings)


def _parsed(code: str) -> ast.Module | str:
    """The code as a tree; or the name of the error that keeps it from being one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return type(error).__name__


class _Reader:
    """Goes through the code once, knowing what names stand for in it."""

    def __init__(self, tree: ast.Module, names: frozenset[str], allowed: frozenset[str]) -> None:
        self._tree = tree
        self._names = names
        self._allowed = allowed
        self._meant: dict[str, str] = {}  # names, and the dotted names that they stand for
        self._texts: dict[str, str] = {}  # names, and the constant texts that they are bound to
        self._paths: set[str] = set()
        self._bound = {
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in ast.walk(tree):
            self._learn(node)

    def findings(self) -> Iterator[Finding]:
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        for node in ast.walk(self._tree):
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                yield from self._handed_on(node, line)
            match node:
                case ast.Import(names=imported):
                    for alias in imported:
                        yield from self._import(alias.name, line)
                case ast.ImportFrom(module=module, names=imported):
                    yield from self._import_from(module or ".", [alias.name for alias in imported], line)
                case ast.Call():
                    yield from self._call(node, line)
                case ast.Attribute(attr=attribute) if _is_dunder(attribute):
                    yield Finding("dunder", attribute, line, risky=True)
                case ast.Name(id=name) if name in _DANGEROUS_KEYS:
                    yield Finding("dunder", name, line, risky=True)
                case ast.Subscript(slice=ast.Constant(value=str() as key)) if key in _DANGEROUS_KEYS:
                    yield Finding("dunder", key, line, risky=True)
                case ast.Subscript(value=value, slice=key) if self._dotted(value) == "sys.modules":
                    module = self._text(key)
                    if module.partition(".")[0] in ("", "os", "posix", "shutil", "builtins", *MODULES):
                        yield Finding("dynamic", _shown(node), line, risky=True)
                case ast.Subscript(ctx=ast.Store() | ast.Del()) if self._dotted(node.value) == "os.environ":
                    yield Finding("process state", _shown(node), line, risky=True)
                case _:
                    pass

    # -- what names stand for

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
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                self._assigned(name, value)
            case _:
                pass

    def _assigned(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Attribute | ast.Name):
            dotted = self._dotted(value)
            if _reaches(dotted) or dotted in BUILTINS or dotted in _WHOLE:
                self._meant[name] = dotted
        elif text := self._text(value):
            self._texts[name] = text
        if self._is_path(value):
            self._paths.add(name)

    def _dotted(self, node: ast.expr) -> str:
        """`os.remove` for whatever the code calls it; a part that is no name is `…`."""
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif _is_getattr(node) and isinstance(node, ast.Call):
                attribute = node.args[1]
                parts.append(attribute.value if isinstance(attribute, ast.Constant) else "…")  # type: ignore[arg-type]  # text
                node = node.args[0]
            else:
                break
        head = node.id if isinstance(node, ast.Name) else "…"
        head = self._meant.get(head, head)
        head = _USUAL.get(head, head) if head not in self._bound else head
        dotted = ".".join([head, *reversed(parts)])
        return dotted.removeprefix("builtins.").replace("posix.", "os.", 1) if parts else dotted

    def _text(self, node: ast.expr | None) -> str:
        """The text that an expression begins with, as far as it is known."""
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]):
                return text
            case ast.BinOp(left=left):
                return self._text(left)
            case ast.Name(id=name):
                return self._texts.get(name, "")
            case _:
                return ""

    def _is_path(self, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and self._dotted(part.func) in _PATHS:
                return True
            if isinstance(part, ast.Name) and (part.id in self._paths or any(w in part.id.lower() for w in PATH_WORDS)):
                return True
        return False

    def _handed_on(self, node: ast.expr, line: int) -> Iterator[Finding]:
        """A function that reaches outside and is not called here: somebody else will, as `map(os.remove, files)` does."""
        name = self._dotted(node)
        kind = FUNCTIONS.get(name) or (BUILTINS.get(name) if name not in self._bound | self._names else None)
        if name == "open" and name not in self._bound | self._names:
            kind = "files"  # nobody knows how it will be called
        if kind and not self._is_allowed(name):
            yield Finding(kind, name, line, risky=True)

    # -- imports

    def _import(self, module: str, line: int) -> Iterator[Finding]:
        parts = module.split(".")
        prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        yield Finding("imports", module, line)
        kind = next((MODULES[prefix] for prefix in prefixes if prefix in MODULES), None)
        if kind is not None and module not in QUIET and not any(prefix in self._allowed for prefix in prefixes):
            yield Finding(kind, f"import {module}", line, risky=True)

    def _import_from(self, module: str, imported: list[str], line: int) -> Iterator[Finding]:
        if any(f"{module}.{name}" not in QUIET for name in imported):
            yield from self._import(module, line)
        else:
            yield Finding("imports", module, line)
        for name in imported:
            kind = FUNCTIONS.get(f"{module}.{name}")
            if kind and not self._is_allowed(f"{module}.{name}"):
                yield Finding(kind, f"{module}.{name}", line, risky=True)
            if name == "*" and module in ("os", "shutil", "posix", "builtins"):
                yield Finding("dynamic", f"from {module} import *", line, risky=True)

    # -- calls

    def _call(self, node: ast.Call, line: int) -> Iterator[Finding]:
        name = self._dotted(node.func)
        if self._is_allowed(name) or name in HARMLESS or name.rpartition(".")[0] in HARMLESS:
            return
        head, _, last = name.rpartition(".")
        kind = self._kind(node, name, head, last)
        if kind:
            yield Finding(kind, _shown(node), line, risky=True)
        elif last == "open" and not name.startswith("…") and node.args:
            yield Finding("files", _shown(node), line, risky=False)
        elif name == "getattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
            yield Finding("dynamic", _shown(node), line, risky=_reaches(self._dotted(node.args[0])))
        elif name in ("globals", "locals", "vars", "setattr", "delattr"):
            yield Finding("dynamic", f"{name}()", line, risky=False)
        elif head and _READS.fullmatch(last):
            yield from self._read(node, last, line)

    def _kind(self, node: ast.Call, name: str, head: str, last: str) -> str:
        """What a call reaches that has to be asked about; "": nothing."""
        if name in FUNCTIONS or name in BUILTINS:
            return FUNCTIONS.get(name) or BUILTINS[name]
        if name.startswith("get_ipython") or (not head and name == "get_ipython"):
            return "shell"
        if head and (kind := _module_kind(name)) and name.partition(".")[0] not in self._bound:
            return kind
        if head == "os.environ" and last in _ENVIRON_CHANGES:
            return "process state"
        if last == "open":
            return "files" if self._opens_to_write(node, is_method=bool(head)) else ""
        if name in ("ZipFile", "zipfile.ZipFile", "tarfile.open", "h5py.File"):
            return "files" if self._opens_to_write(node, is_method=False) else ""
        if name == "sqlite3.connect":
            return "" if self._text(node.args[0] if node.args else None) == ":memory:" else "files"
        if head and last in METHODS:
            return METHODS[last]
        if head and last in WRITERS:
            return "files" if _is_given_a_place(node, last) else ""
        if (
            last in ("rename", "replace", "chmod")
            and isinstance(node.func, ast.Attribute)
            and self._is_path(node.func.value)
        ):
            return "files"
        if isinstance(node.func, ast.Call) and "…" in name and _is_getattr(node.func):
            return "dynamic"  # what is called is not to be read
        if head.startswith("globals") or (
            head == "…" and isinstance(node.func, ast.Attribute) and _is_globals(node.func.value)
        ):
            return "deletes" if last in ("pop", "clear", "popitem", "__delitem__") else ""
        return ""

    def _opens_to_write(self, node: ast.Call, *, is_method: bool) -> bool:
        given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
        given = given or (node.args[:2] if is_method else node.args[1:2])
        for mode in given:
            text = self._text(mode)
            if not isinstance(mode, ast.Constant) and not text and not is_method:
                return True  # nobody knows before it runs
            if _MODE.fullmatch(text) and set(text) & set("wax+"):
                return True
        return False

    def _read(self, node: ast.Call, last: str, line: int) -> Iterator[Finding]:
        given = node.args[0] if node.args else next((k.value for k in node.keywords), None)
        address = self._text(given)
        remote = ("://" in address and not address.startswith("file:")) or last.startswith("fetch_")
        risky = remote or last == "read_pickle"
        yield Finding("network" if remote else "files", _shown(node), line, risky=risky)

    def _is_allowed(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:end]) in self._allowed for end in range(1, len(parts) + 1))


# As people import them, where a cell before did so.
_USUAL: Final = {"np": "numpy", "sns": "seaborn", "sa": "sqlalchemy"}


def _module_kind(name: str) -> str:
    """What the module reaches that a dotted name begins with, where its name cannot well be a variable's."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in MODULES and prefix not in ("sh", "code", "http", "imp", "websocket"):
            return MODULES[prefix]
    return ""


def _reaches(dotted: str) -> bool:
    return (
        dotted in FUNCTIONS
        or dotted in ("os", "shutil", "builtins", "sys", "pathlib", "importlib")
        or dotted in MODULES
        or bool(_module_kind(dotted))
    )


def _is_getattr(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and (not isinstance(node.args[1], ast.Constant) or isinstance(node.args[1].value, str))
    )


def _is_globals(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("globals", "vars", "locals")
    )


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _HARMLESS_DUNDERS


def _is_given_a_place(node: ast.Call, method: str) -> bool:
    """Whether a method that may write or return what it makes was given a place to write to."""
    if method == "dump":  # json.dump(value, file): the file was opened, and that was asked about
        return False
    first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in _PLACES), None)
    return first is not None and not (isinstance(first, ast.Constant) and first.value is None)


def _bound(tree: ast.Module, names: frozenset[str]) -> Iterator[Finding]:
    """What the code binds and deletes at its top level, not within functions, classes and comprehensions."""
    for node in _own_scope(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield Finding("changes" if name in names else "writes", name, line)
            case ast.Name(id=name, ctx=ast.Del()):
                yield Finding("deletes", name, line, risky=name in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Finding("changes" if name in names else "writes", name, line)
            case ast.Delete(targets=[ast.Subscript(value=held)]) if _is_globals(held):
                yield Finding("deletes", _shown(node), line, risky=True)
            case _:
                pass


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
_ALL_SCOPES = _SCOPES | ast.GeneratorExp


def _own_scope(tree: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _ALL_SCOPES):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
