"""Which cells change the state of a module or of the process, and which cells use it.

`random.seed(4)` changes no variable, so no commit tells of it: only the code does. A state has the full name of the module or
attribute that holds it (`numpy.random`, `os.environ`); "" is that of the whole process, which any cell may use. A generator of
random numbers is a state of its own: each draw uses and changes it. In doubt a cell changes a state, and uses it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from agent_kernel.cells.cell_code import code_of

__all__ = ["StateLine", "StateUse"]

_PROCESS: Final = ""
# What code that does not name them depends on.
_OF_THE_PROCESS: Final = (
    "os.chdir", "os.fchdir", "os.umask", "os.putenv", "os.unsetenv", "os.environ", "sys.path", "sys.modules", "sys.set*",
    "sys.stdout", "sys.stderr", "locale.setlocale", "decimal.getcontext", "decimal.setcontext", "decimal.DefaultContext",
    "numpy.seterr", "numpy.set_printoptions", "pandas.set_option", "pandas.options", "pandas.reset_option", "warnings",
    "matplotlib.rc*", "matplotlib.use", "matplotlib.style", "matplotlib.pyplot.rc*", "matplotlib.pyplot.style", "seaborn.set*",
    "builtins", "importlib.reload", "torch.set_default*", "site.addsitedir", "time.tzset",
)  # fmt: skip
_SETTERS: Final = ("seed", "setstate", "set", "use", "enable", "disable", "register", "manual", "reset", "add", "init")
_SEEDS: Final = ("seed", "setstate", "set_state", "manual_seed", "manual_seed_all", "set_seed", "set_rng_state",
    "set_random_seed", "seed_everything",
)  # fmt: skip
_WITHOUT_EFFECT: Final = ("time.sleep", "pprint", "matplotlib.pyplot.show", "IPython.display", "gc.collect")
# By generator, the names of what draws from it; and attributes of objects that do.
_DRAWS: Final = {
    "random": ("random",),
    "numpy.random": ("numpy.random", "sklearn", "scipy", "seaborn", "networkx", "statsmodels", "xgboost", "lightgbm", "imblearn"),
    "torch": ("torch.rand*", "torch.nn", "torch.normal", "torch.bernoulli", "torch.multinomial", "torch.poisson", "torch.utils",
        "torchvision", "transformers", "lightning", "pytorch_lightning"),
    "tensorflow.random": ("tensorflow", "keras"),
}  # fmt: skip
_DRAWING: Final = frozenset({
    "sample", "shuffle", "rvs", "fit", "fit_transform", "fit_predict", "fit_resample", "uniform_", "normal_", "random_",
    "bernoulli_", "exponential_", "train", "parameters", "split",
})  # fmt: skip
_ROOTS: Final = {"torch": "torch", "tensorflow": "tensorflow.random", "keras": "tensorflow.random"}


class StateUse(NamedTuple):
    """What code does with states.

    Attributes:
        uses: full names of modules, and of what is in them, that it uses; "": it uses something.
        changes: the states that it changes.
        draws: the generators that it may draw from.
        seeds: the generators that it seeds.
    """

    uses: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    draws: frozenset[str] = frozenset()
    seeds: frozenset[str] = frozenset()

    def join(self, other: StateUse) -> StateUse:
        return StateUse(*(one | two for one, two in zip(self, other, strict=True)))

    def depends_on(self, changes: Iterable[str]) -> bool:
        return any(_are_related(use, change) for change in changes for use in self.uses)


class StateLine:
    """The cells of a line, one after another: the names of modules and functions carry on from cell to cell."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._modules: dict[str, str] = {}
        self._functions: dict[str, tuple[StateUse, frozenset[str]]] = {}
        self._classes: set[str] = set()  # names of classes, and of what may be an instance of one
        self._resets: list[set[str]] = []  # by cell, the generators that it seeds in any case
        self.uses = [self._look_at(source) for source in sources]

    def find_needed(self, at: int) -> Iterator[int]:
        """The places of the earlier cells whose changes of states the cell at a place may depend on, newest first."""
        mine = self.uses[at]
        pending = {one: list[int]() for one in mine.draws}  # draws count only if there is a seed before them
        found: set[int] = set()
        for position in range(at - 1, -1, -1):
            other = self.uses[position]
            if mine.depends_on(other.changes):
                found.add(position)
            for generator in list(pending):
                if generator in other.seeds:
                    found.update([*pending.pop(generator), position])
                    if generator not in self._resets[position]:
                        pending[generator] = []
                elif generator in other.draws:
                    pending[generator].append(position)
        yield from sorted(found, reverse=True)

    def _look_at(self, source: str) -> StateUse:
        found = StateUse()
        resets: set[str] = set()
        own: set[str] = set()  # those that it seeds before it draws from them
        for statement in _statements(source):
            self._note_names(statement)
            reader = _Reader(self._modules)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                reader.read(statement)
                self._functions[statement.name] = reader.found, frozenset(reader.names)
                self._classes.discard(statement.name)
                if not isinstance(statement, ast.ClassDef):
                    continue
                self._classes.add(statement.name)
            else:
                reader.read(statement)
                for name in _lambdas(statement):
                    self._functions[name] = reader.found, frozenset(reader.names)
                self._note_instances(statement, reader.names)
            if _is_plain_call(statement) and reader.found.seeds:
                first = reader.found.seeds - found.draws
                reader.found = reader.found._replace(draws=reader.found.draws - reader.found.seeds)
                own |= first
                resets |= reader.found.seeds
            found = found.join(reader.found).join(self._of_functions(reader.names))
        self._resets.append(resets)
        return found._replace(draws=found.draws - own)

    def _note_instances(self, statement: ast.stmt, names: Iterable[str]) -> None:
        """What is made of a class calls its methods."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        classes = self._reach(names) & self._classes if targets else set[str]()
        for target in targets:
            for node in ast.walk(target) if classes else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._functions[node.id] = StateUse(), frozenset(classes)
                    self._classes.add(node.id)

    def _of_functions(self, names: Iterable[str]) -> StateUse:
        """What the functions of the notebook do that a statement names, and those that they name."""
        found = StateUse()
        for name in self._reach(names):
            found = found.join(self._functions[name][0])
        return found

    def _reach(self, names: Iterable[str]) -> set[str]:
        todo, found = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name not in found and name in self._functions:
                found.add(name)
                todo.extend(self._functions[name][1])
        return found

    def _note_names(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    self._modules[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                members = vars(sys.modules[node.module]) if node.module in sys.modules else {}
                for alias in node.names:
                    names = (one for one in members if one[0] != "_") if alias.name == "*" else [alias.name]
                    self._modules |= {alias.asname or name: f"{node.module}.{name}" for name in names}
        if isinstance(statement, ast.Assign):
            module_name = dotted(statement.value, self._modules)
            if isinstance(statement.value, ast.Call) and not _begins(module_name, _OF_THE_PROCESS):
                module_name = ""
            for target in statement.targets:
                if isinstance(target, ast.Name) and module_name:
                    self._modules[target.id] = module_name
                elif isinstance(target, ast.Name):
                    self._modules.pop(target.id, None)
                    self._functions.pop(target.id, None)
                    self._classes.discard(target.id)


@lru_cache(maxsize=4096)  # a slice looks at every cell of a history
def _statements(source: str) -> tuple[ast.stmt, ...]:
    code = code_of(source)
    try:
        return tuple(ast.parse(code.text).body) if code.is_python else ()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


class _Reader:
    """Reads one statement, with all that is in it."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self.names: set[str] = set()
        self.found = StateUse()

    def read(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            match node:
                case ast.Name(ctx=ast.Load()):
                    self.names.add(node.id)
                    self._use(dotted(node, self._modules))
                case ast.Attribute():
                    self._use(dotted(node, self._modules))
                    if node.attr in _DRAWING:
                        self._add(draws=set(_DRAWS) - {"random"})
                case ast.Import() | ast.ImportFrom():
                    self._add(uses={_PROCESS})
                case _:
                    pass
            match node:
                case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                    self._call(call, is_statement=True)
                case ast.Call():
                    self._call(node, is_statement=False)
                case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                    self._change(dotted(node.value, self._modules))
                case _:
                    pass

    def _use(self, name: str) -> None:
        self._add(uses={name, _PROCESS} if name else {_PROCESS})
        for generator, prefixes in _DRAWS.items():
            if name and (_begins(name, prefixes) or _is_within(generator, name)):
                self._add(draws={generator})

    def _call(self, call: ast.Call, *, is_statement: bool) -> None:
        name = dotted(call.func, self._modules)
        if not name and isinstance(call.func, ast.Name) and call.func.id in ("setattr", "delattr") and call.args:
            self._change(dotted(call.args[0], self._modules))
        holder, _, last = name.rpartition(".")
        if not name or _begins(name, _WITHOUT_EFFECT):
            return
        if last in _SEEDS:
            generator = _ROOTS.get(name.partition(".")[0], "numpy.random" if holder == "numpy" else holder)
            self._add(seeds={generator} if generator in _DRAWS else set(_DRAWS))
        elif is_statement or last.partition("_")[0] in _SETTERS or _begins(name, _OF_THE_PROCESS):
            self._change(name if _begins(name, _OF_THE_PROCESS) else holder)

    def _change(self, name: str) -> None:
        if not name or _begins(name, _DRAWS["random"] + _DRAWS["numpy.random"][:1]):
            return  # a draw, whose number nobody keeps
        self._add(changes={_PROCESS if _begins(name, _OF_THE_PROCESS) else name})

    def _add(self, **more: set[str]) -> None:
        self.found = self.found.join(StateUse(**{field: frozenset(names) for field, names in more.items()}))


def dotted(node: ast.expr, modules: Mapping[str, str]) -> str:
    """The full name of what an expression names in a module, as far as it can be told; "": it names nothing in one."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Subscript():
                parts.clear()
                node = node.value
            case ast.Call():
                parts.clear()
                node = node.func
            case ast.Name():
                return ".".join([modules[node.id], *reversed(parts)]) if node.id in modules else ""
            case _:
                return ""


def _is_plain_call(statement: ast.stmt) -> bool:
    """Whether a statement is one call, whose arguments call nothing."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Expr) and len(calls) == 1 and statement.value is calls[0]


def _lambdas(statement: ast.stmt) -> list[str]:
    if not isinstance(statement, ast.Assign) or not any(isinstance(node, ast.Lambda) for node in ast.walk(statement)):
        return []
    return [target.id for target in statement.targets if isinstance(target, ast.Name)]


def _begins(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a full name is one of these or is in it; after `*` anything may follow."""
    return any(_is_within(name, one) or (one[-1] == "*" and name.startswith(one[:-1])) for one in prefixes)


def _is_within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _are_related(use: str, change: str) -> bool:
    """Whether one is in the other: a cell that uses `numpy` may use `numpy.random`, and the other way round."""
    if not change or not use:
        return not change
    return _is_within(use, change) or _is_within(change, use)
