"""Follow what differs from cell to cell: why something comes out different, and which cells of an edited notebook run again.

Each statement of each cell is looked at once, in the order in which the cells run. A name that a statement sets has the causes
of what the statement calls and reads; a name that differs already is a cause by itself, and ends the search there.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from agent_kernel.cells.cell_code import Reading, StateLine, read_code
from agent_kernel.reproduction.line import Brought, Line, LineCell
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId
    from agent_kernel.reproduction.line import LineCell, Ran
    from agent_kernel.session import Repository


# -- what a cell's code sets and reads by name, told from its syntax alone


_MAGIC: Final = re.compile(r"^(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<sign>%%?|!!?|\?)(?P<rest>.*)$")
TIMED: Final = re.compile(r"^\s*%%?(?:time|timeit|prun)\b")


class Code:
    """One cell's code as Python, with the lines of magics apart."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.magics: list[str] = []
        self.tree = self._parse(source)

    def _parse(self, source: str) -> ast.Module:
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            pass
        lines: list[str] = []
        rows = source.split("\n")
        for at, line in enumerate(rows):
            found = _MAGIC.match(line)
            if found is None:
                lines.append(line)
                continue
            self.magics.append(line.strip())
            if found["sign"] == "%%" and not TIMED.match(line) and not found["rest"].startswith("capture"):
                if found["rest"].split(" ")[0] != "agent":
                    break  # another language from here on
                lines.append("")
                continue
            timed = (
                re.match(r"(?:time|timeit)\s+(?:-\w+\s*\d*\s+)*(?P<code>.+)", found["rest"])
                if found["sign"] == "%"
                else None
            )
            lines.append(found["indent"] + (timed["code"] if timed else "pass"))
            assert at < len(rows)
        try:
            return ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError):
            return ast.Module([], [])


def names_set(tree: ast.AST) -> set[str]:
    """Names that code binds at the level of the notebook."""
    return {name for statement in statements(tree) for name in targets(statement)}


def imports(tree: ast.AST) -> set[str]:
    """The top-level modules that code imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def statements(tree: ast.AST) -> Sequence[ast.stmt]:
    return tree.body if isinstance(tree, ast.Module) else []


def targets(statement: ast.stmt) -> set[str]:
    """Names that it sets, or whose values it may change."""
    found: set[str] = set()
    for node in _without_functions(statement):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store() | ast.Del()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                found.add(_root(node))
            case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
                found.add(_root(called))  # `items.append(x)`
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
            case _:
                pass
    return found - {""}


def _without_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is in it, without what runs only when a function is called."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    if isinstance(node, (ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return  # their names are their own
    for child in ast.iter_child_nodes(node):
        yield from _without_functions(child)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def reads(statement: ast.AST) -> set[str]:
    """Names that it reads; those that its functions and comprehensions bind for themselves are not among them."""
    found: set[str] = set()
    own: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (found if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
    stored = {
        node.id
        for node in _without_functions(statement)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    augmented = {
        node.target.id
        for node in ast.walk(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    # `x = x + 1` reads what was there before; the variable of a comprehension or of a function never was.
    plain = stored & found if isinstance(statement, (ast.Assign, ast.AnnAssign)) else set[str]()
    return (found - own) | plain | augmented


# -- why something differs


Kind: TypeAlias = Literal[
    "follows", "clock", "random", "network", "process", "file", "order", "hidden state", "environment", "brought", "code",
    "missing file", "missing package", "error", "limit", "masked", "unknown",
]  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """One reason. `text` says it to a reader; `kind` to a program."""

    kind: Kind
    text: str


Causes: TypeAlias = dict[Cause, None]  # in the order in which they were found

# What differs from run to run, by how its full name begins.
_CLOCK: Final = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.process_time", "time.localtime", "time.gmtime", "time.ctime",
    "time.asctime", "time.strftime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
    "datetime.date.today", "pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.Timestamp.utcnow", "timeit.",
)  # fmt: skip
_NETWORK: Final = (
    "requests.", "urllib.request.", "urllib3.", "httpx.", "aiohttp.", "http.client.", "socket.", "ftplib.", "smtplib.",
    "boto3.", "websockets.", "yfinance.", "openai.", "anthropic.",
)  # fmt: skip
_PROCESS: Final = (
    "os.getpid", "os.getppid", "os.getlogin", "os.environ", "os.getenv", "os.listdir", "os.scandir", "os.stat", "os.path.getmtime",
    "os.cpu_count", "socket.gethostname", "platform.", "tempfile.", "getpass.", "subprocess.", "os.system", "os.popen", "psutil.",
    "threading.get_ident",
)  # fmt: skip
_THREADS: Final = (
    "threading.Thread",
    "threading.Timer",
    "concurrent.futures.",
    "multiprocessing.",
    "asyncio.as_completed",
    "joblib.Parallel",
)
_ENTROPY: Final = ("uuid.uuid1", "uuid.uuid4", "os.urandom", "secrets.", "random.SystemRandom")
_GENERATORS: Final = (
    "random.",
    "numpy.random.",
    "torch.rand",
    "torch.normal",
    "torch.multinomial",
    "tensorflow.random.",
    "jax.random.",
)
_MAKERS: Final = (
    "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.SeedSequence", "numpy.random.PCG64", "numpy.random.MT19937",
    "numpy.random.Philox", "numpy.random.SFC64", "random.Random", "torch.Generator",
)  # fmt: skip
_NO_DRAW: Final = ("random.seed", "random.getstate", "random.setstate", "numpy.random.seed", "numpy.random.get_state",
    "numpy.random.set_state", "numpy.random.Generator", "numpy.random.BitGenerator", "tensorflow.random.set_seed",
)  # fmt: skip
_SEEDS: Final = {
    "random.seed": "random",
    "numpy.random.seed": "numpy.random",
    "numpy.random.set_state": "numpy.random",
    "random.setstate": "random",
    "torch.manual_seed": "torch",
    "torch.random.manual_seed": "torch",
    "tensorflow.random.set_seed": "tensorflow.random",
}
# scikit-learn's that draw from NumPy's global generator unless they are told a seed.
_TAKE_A_STATE: Final = frozenset({
    "train_test_split", "KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit", "RandomForestClassifier",
    "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor", "GradientBoostingClassifier", "GradientBoostingRegressor",
    "HistGradientBoostingClassifier", "HistGradientBoostingRegressor", "DecisionTreeClassifier", "DecisionTreeRegressor", "KMeans",
    "MiniBatchKMeans", "MLPClassifier", "MLPRegressor", "SGDClassifier", "SGDRegressor", "TSNE", "IsolationForest", "shuffle", "resample",
    "make_blobs", "make_classification", "make_regression", "make_moons", "make_circles", "RandomizedSearchCV", "GaussianMixture",
    "BaggingClassifier", "BaggingRegressor", "AdaBoostClassifier", "AdaBoostRegressor",
})  # fmt: skip
_READERS: Final = frozenset({"open", "read_csv", "read_parquet", "read_excel", "read_json", "read_feather", "read_pickle", "read_table",
    "read_sql", "read_html", "read_xml", "read_hdf", "loadtxt", "genfromtxt", "imread", "fromfile", "scan_csv", "scan_parquet", "read_text", "read_bytes",
})  # fmt: skip
_ORDERED: Final = frozenset({"list", "tuple", "enumerate", "next", "iter", "join", "pop", "print", "str", "repr", "format", "display",
    "dict", "fromkeys", "deque", "array", "Series", "zip", "map", "filter", "extend", "reduce", "chain", "islice", "OrderedDict", "dumps",
})  # fmt: skip
_FILES: Final = frozenset({"os.path.exists", "os.path.getsize", "os.path.isfile", "os.walk", "glob.glob", "glob.iglob", "json.load",
    "csv.reader", "sqlite3.connect", "zipfile.ZipFile", "numpy.memmap", "torch.load", "yaml.safe_load", "importlib.reload",
})  # fmt: skip
_LISTS: Final = frozenset({"iterdir", "rglob", "open_dataset", "from_file", "load_workbook", "from_pretrained"})
_NUMPY_LOADS: Final = ("numpy.load", "joblib.load", "pickle.load")
_MISSING_NAME: Final = re.compile(r"name '(?P<name>\w+)' is not defined")
_MISSING_MODULE: Final = re.compile(r"No module named '(?P<name>[\w.]+)'")
_URL: Final = re.compile(r"^(?:https?|ftp|s3|gs)://")


@dataclass(frozen=True)
class CellCauses:
    """What may make a cell come out different: of each name that it sets, and of what it shows."""

    of_names: dict[str, tuple[Cause, ...]]
    of_outputs: tuple[Cause, ...]
    shows_clock: bool = False


@dataclass
class Tracer:
    """Goes through the cells in order.

    Attributes:
        cwd: where their files are.
        differing: by name, the position of the cell from which on it differs.
        clocked: those that differ because a clock does.
    """

    cwd: Path
    differing: dict[str, int] = field(default_factory=dict[str, int])
    clocked: set[str] = field(default_factory=set[str])
    _modules: dict[str, str] = field(default_factory=dict[str, str])  # by name, what it was imported as
    _seeded: dict[str, Causes] = field(default_factory=dict[str, Causes])  # by generator: why its seed is another one
    _latent: dict[str, Causes] = field(default_factory=dict[str, Causes])  # of functions: when they are called
    _of: dict[str, Causes] = field(default_factory=dict[str, Causes])  # of variables
    _sets: set[str] = field(
        default_factory=set[str]
    )  # variables that are sets, whose order is another one in each process

    def look_at(self, cell: LineCell) -> CellCauses:
        """Find what may make this cell come out different, given what differs before it."""
        code = Code(cell.source)
        found: dict[str, Causes] = {}
        of_output: Causes = {}
        rest: Causes = {}
        for magic in code.magics:
            if (cause := _cause_of_magic(magic)) is not None:
                of_output[cause] = None
        for statement in statements(code.tree):
            causes = self._causes_of(statement, cell)
            read = reads(statement)
            for name in read:
                if name in found:
                    causes |= found[name]
                elif name in self.differing:
                    causes[_follows(name, self.differing[name])] = None
                else:
                    causes |= self._latent.get(name, {})
                    causes |= self._of.get(name, {})
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._latent[statement.name] = causes  # the function is the same: what it does is not
                found.pop(statement.name, None)
                continue
            for name in targets(statement):
                if name in self._modules and not _is_import(statement):
                    continue  # `np.random.seed(1)` makes nothing of `np`
                found[name] = (
                    {**found.get(name, {}), **causes} if name in read or not _binds(statement) else dict(causes)
                )
            self._note_values(statement)
            if _shows(statement, is_last=statement is code.tree.body[-1]):
                of_output |= causes
            rest |= causes
        self._of |= found
        is_clock = any(cause.kind == "clock" for cause in self._roots(of_output))
        return CellCauses(
            {name: _ordered(causes) for name, causes in found.items()}, _ordered(of_output or rest), is_clock
        )

    def is_of_clock(self, name: str, own: Iterable[Cause]) -> bool:
        """Whether these causes of a variable lead back to a clock; remembered, for what follows from it."""
        found = any(cause.kind == "clock" for cause in self._roots(own))
        (self.clocked.add if found else self.clocked.discard)(name)
        return found

    def _roots(self, causes: Iterable[Cause]) -> Iterator[Cause]:
        for cause in causes:
            yield (
                _CLOCKED
                if cause.kind == "follows" and cause.text.split()[2:3] and cause.text.split()[2] in self.clocked
                else cause
            )

    def differs(self, names: Iterable[str], position: int) -> None:
        """These variables differ from this cell on."""
        for name in names:
            self.differing.setdefault(name, position)

    def is_same(self, names: Iterable[str]) -> None:
        """These were set again, and are the same."""
        for name in names:
            self.differing.pop(name, None)
            self._of.pop(name, None)

    def note_names(self, tree: ast.AST) -> None:
        """Learn which names stand for modules."""
        for node in ast.walk(tree):
            self._note_import(node)
        for statement in statements(tree):
            self._note_values(statement)

    def reads_environment(self, node: ast.AST) -> bool:
        """Whether it is a call that reads a file, a clock, the network, or what this machine or process is."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Attribute) and self._dotted(node).startswith("os.environ")
        name, last = self._dotted(node.func), _last(node.func)
        if last in _READERS or name in _NUMPY_LOADS or last.startswith("read_"):
            return not (last == "open" and _writes(node))
        return any(_begins(name, known) for known in (_CLOCK, _NETWORK, _PROCESS)) or name in _FILES or last in _LISTS

    def modules_of(self, cell: LineCell) -> set[str]:
        """The top-level modules that a cell uses by the names that they were imported under."""
        names = reads(Code(cell.source).tree) | names_set(Code(cell.source).tree)
        return {self._modules[name].partition(".")[0] for name in names if name in self._modules}

    def _note_values(self, statement: ast.stmt) -> None:
        """Which names stand for sets, and for modules."""
        if isinstance(statement, ast.Assign):
            names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
            self._sets = self._sets | names if self._is_set(statement.value) else self._sets - names
            module = self._dotted(statement.value)
            for name in names:
                self._modules.pop(name, None)
                if module and not isinstance(statement.value, ast.Call):
                    self._modules[name] = module
                elif _imported(statement.value):
                    self._modules[name] = _imported(statement.value)

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name():
                return node.id in self._sets
            case ast.BinOp(op=ast.Sub() | ast.BitOr() | ast.BitAnd() | ast.BitXor()):
                return self._is_set(node.left) or self._is_set(node.right)
            case ast.NamedExpr() | ast.Starred():
                return self._is_set(node.value)
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                return True
            case ast.Call(
                func=ast.Attribute(
                    value=held, attr="union" | "difference" | "intersection" | "symmetric_difference" | "copy"
                )
            ):
                return self._is_set(held)
            case _:
                return False

    def _causes_of(self, statement: ast.stmt, cell: LineCell) -> Causes:
        """Those of what a statement calls and reads by the names of modules, in the order of the source."""
        found: Causes = {}
        for node in ast.walk(statement):
            self._note_import(node)
        for node in sorted(ast.walk(statement), key=_position):
            cause: Cause | None = None
            if isinstance(node, ast.Call):
                cause = self._cause_of_call(node, cell)
            elif isinstance(node, ast.Attribute) and self._dotted(node).startswith("os.environ"):
                cause = Cause("process", "reads the environment of the process: os.environ")
            elif (isinstance(node, (ast.For, ast.comprehension)) and self._is_set(node.iter)) or (
                isinstance(node, (ast.Starred, ast.FormattedValue, ast.YieldFrom)) and self._is_set(node.value)
            ):
                cause = _UNORDERED
            if cause is not None:
                found[cause] = None
        return found

    def _note_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self._modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _dotted(self, node: ast.expr) -> str:
        """The full name of what an expression names in a module; "" if it names something else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        root = self._modules.get(node.id, "") if isinstance(node, ast.Name) else _imported(node)
        return ".".join([root, *reversed(parts)]) if root else ""

    def _cause_of_call(self, call: ast.Call, cell: LineCell) -> Cause | None:
        name = self._dotted(call.func)
        last = _last(call.func)
        if name in _SEEDS and (call.args or call.keywords):
            self._seeded[_SEEDS[name]] = self._causes_of_seed(call, cell)
            return None
        if _begins(name, _CLOCK):
            return Cause("clock", f"reads the clock: {name}()")
        if _begins(name, _ENTROPY):
            return Cause("random", f"draws from the system's random source, which has no seed: {name}()")
        random = self._cause_of_random(call, name, last)
        if random is not None:
            return random
        if _begins(name, _NETWORK):
            return Cause("network", f"reads the network: {name}()")
        if _begins(name, _THREADS):
            return Cause("order", f"runs things side by side, in another order each time: {name}()")
        if last in _READERS or name in _NUMPY_LOADS:
            return self._cause_of_reading(call, last, cell)
        if _begins(name, _PROCESS):
            return Cause("process", f"reads what this machine or process is: {name}()")
        if not name and last in ("id", "hash") and isinstance(call.func, ast.Name):
            return Cause("process", f"{last}() is another number in each process")
        is_key = last in ("sorted", "max", "min", "nlargest", "nsmallest") and any(
            word.arg == "key" for word in call.keywords
        )
        if (last in _ORDERED or is_key) and any(map(self._is_set, [*call.args, *_receiver(call)])):
            return _UNORDERED
        return None

    def _causes_of_seed(self, call: ast.Call, cell: LineCell) -> Causes:
        arguments = [node for arg in (*call.args, *(word.value for word in call.keywords)) for node in ast.walk(arg)]
        found = [self._cause_of_call(node, cell) for node in arguments if isinstance(node, ast.Call)]
        names = [node.id for node in arguments if isinstance(node, ast.Name)]
        found += [_follows(name, self.differing[name]) for name in names if name in self.differing]
        found += [cause for name in names for cause in self._of.get(name, ())]
        return {Cause(one.kind, f"draws random numbers with a seed that {one.text}"): None for one in found if one}

    def _cause_of_random(self, call: ast.Call, name: str, last: str) -> Cause | None:
        keywords = {word.arg for word in call.keywords}
        if name in _MAKERS:
            seeded = bool(call.args or call.keywords) and not any(_is_none(one) for one in call.args)
            return None if seeded else Cause("random", f"makes a random generator without a seed: {name}()")
        if _begins(name, _GENERATORS) and name not in _NO_DRAW:
            library = next(
                kind
                for kind in ("random", "numpy.random", "torch", "tensorflow.random", "jax.random")
                if name.startswith(kind)
            )
            if library in self._seeded:
                return next(iter(self._seeded[library]), None)
            if library == "jax.random" or "generator" in keywords:
                return None
            return Cause("random", f"draws random numbers without a seed: {name}()")
        is_sklearn = name.startswith("sklearn.")
        called = name.rpartition(".")[2] if is_sklearn else last
        takes_a_state = called in _TAKE_A_STATE and (is_sklearn or (not name and isinstance(call.func, ast.Name)))
        if (takes_a_state or (last == "sample" and not name)) and "random_state" not in keywords:
            if "numpy.random" in self._seeded:
                return next(iter(self._seeded["numpy.random"]), None)
            return Cause("random", f"draws random numbers without a seed: {called}() without random_state")
        return None

    def _cause_of_reading(self, call: ast.Call, last: str, cell: LineCell) -> Cause | None:
        path = next(
            (
                one.value
                for one in [*call.args, *_receiver_args(call)]
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ),
            "",
        )
        if _URL.match(path):
            return Cause("network", f"reads the network: {path}")
        if not path or (last == "open" and _writes(call)):
            return None
        if path.startswith(("/proc/", "/dev/", "/sys/")):
            return Cause("process", f"reads what this machine or process is: {path}")
        file = self.cwd / Path(path).expanduser()
        try:
            changed_ns = file.stat().st_mtime_ns
        except (OSError, ValueError):
            return Cause("missing file", f"reads a file that is not there: {path}")
        if cell.record is not None and changed_ns > cell.record.time_ns:
            return Cause("file", f"reads a file that changed since the cell ran: {path}")
        return None


_CLOCKED: Final = Cause("clock", "follows from what a clock gave")
_UNORDERED: Final = Cause("order", "goes through a set, whose order is another one in each process")


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _last(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _imported(node: ast.expr) -> str:
    """The module that `__import__("random")` or `import_module("random")` gives; "": it is something else."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute() as called, args=[ast.Constant(value=str(name)), *_]):
            return name if _last(called) in ("__import__", "import_module") else ""
        case _:
            return ""


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _shows(statement: ast.stmt, *, is_last: bool) -> bool:
    """Whether it may show something: what a method does to a variable does not, but at the end of a cell."""
    called = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if any(_last(one) in ("print", "display", "pprint") for one in called):
        return True
    return isinstance(statement, ast.Expr) and (is_last or any(isinstance(one, ast.Name) for one in called))


def _begins(name: str, known: Iterable[str]) -> bool:
    return bool(name) and any(
        name == one
        or name.startswith(one if one.endswith(".") else f"{one}.")
        or (one[-1] != "." and name.startswith(one) and one.startswith("torch.rand"))
        for one in known
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _receiver(call: ast.Call) -> list[ast.expr]:
    """What a method is called on."""
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


def _receiver_args(call: ast.Call) -> list[ast.expr]:
    """`Path("data.txt").read_text()`: what the receiver was made with."""
    return [arg for one in _receiver(call) if isinstance(one, ast.Call) for arg in one.args]


def _writes(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and set(mode.value) & set("wax")
        and "+" not in mode.value
        for mode in modes
    )


def _binds(statement: ast.stmt) -> bool:
    """Whether it gives its targets values that are new as a whole."""
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and all(
        isinstance(target, (ast.Name, ast.Tuple))
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    )


def _follows(name: str, position: int) -> Cause:
    return Cause("follows", f"follows from {name} in cell {position}")


def _ordered(causes: Mapping[Cause, None]) -> tuple[Cause, ...]:
    """What it follows from is the reason; only where it follows from nothing, the code's own."""
    follows = tuple(cause for cause in causes if cause.kind == "follows")
    return follows or tuple(causes)


def _cause_of_magic(magic: str) -> Cause | None:
    if TIMED.match(magic):
        return Cause("clock", f"shows how long it took: {magic.split(maxsplit=1)[0]}")
    if magic.startswith(("!", "%%bash", "%%sh", "%%script", "%system", "%sx")) or "!" in magic.partition("=")[2][:2]:
        return Cause("process", f"shows what a command of the shell says: {previews.mask_text(magic)[:40]}")
    return None


def cause_of_failure(ran: Ran, known: Collection[str], brought: Mapping[str, str], timeout_s: float) -> Cause:
    """Why a cell failed when it was run again.

    Args:
        known: names that the history's cells have set at some time.
        brought: names whose values came from elsewhere.
    """
    if ran.status == "timeout":
        return Cause("limit", f"took longer than {timeout_s:g} s, so it was stopped (--timeout)")
    if ran.status == "died":
        return Cause("error", "the kernel died")
    if ran.status == "exit":
        return Cause("error", "it ended the kernel")
    missing = _MISSING_NAME.search(ran.text) if ran.error in ("NameError", "UnboundLocalError") else None
    if missing is not None:
        name = missing["name"]
        if name in brought:
            return Cause("brought", f"reads {name}, which came from {brought[name]} and from no cell")
        if name in known:
            return Cause("hidden state", f"reads {name}, which only a later cell sets: the cells ran in another order")
        return Cause("hidden state", f"reads {name}, which no cell sets: its code was deleted or changed")
    module = _MISSING_MODULE.search(ran.text) if ran.error in ("ModuleNotFoundError", "ImportError") else None
    if module is not None:
        return Cause("missing package", f"imports {module['name']}, which is not installed")
    if ran.error == "FileNotFoundError":
        return Cause("missing file", f"reads a file that is not there ({ran.text})")
    return Cause("error", f"{ran.error}: {ran.text}".rstrip(": "))


# -- which cells of an edited notebook run again: those that you edited, and all that may come out otherwise because of that
#
# The document's cells, and those that were deleted from it, stand in the order of the document. A cell that runs again *moves*
# the variables that it sets, and those that it may change in place; a cell that uses or sets one that has moved runs again, too.
# Generators of random numbers, files and the state of the process count like variables. In doubt a cell runs again.


_UNCHANGING: Final = frozenset({"scalar", "text", "module"})  # kinds of values that nothing changes in place
_SETTINGS: Final = re.compile(
    r"^\s*%(?:matplotlib|config|load_ext|reload_ext|env|set_env|cd|pushd|popd|precision|pylab|autoreload|alias)\b",
    re.MULTILINE,
)
_WRITERS: Final = frozenset({
    "open", "write_text", "write_bytes", "savefig", "save", "savez", "savez_compressed", "savetxt", "dump", "to_csv", "to_parquet",
    "to_excel", "to_json", "to_pickle", "to_feather", "to_hdf", "to_sql", "write_csv", "write_parquet", "imsave", "copy", "copyfile",
    "rename", "remove", "unlink", "mkdir", "makedirs", "rmtree", "writefile",
})  # fmt: skip
_INDIRECT: Final = re.compile(r"\bcls\b|__class__|\bsetattr\b|\bnonlocal\b|\btype\(self\)|__dict__|\bvars\b")


@dataclass
class _Entry:
    """A cell at its place in the document, or what was there when the history was made.

    Attributes:
        cell: what runs there if it has to; None: it was deleted, or no cell made it.
        known: its last run.
        brought: names that came from elsewhere at this place.
        is_changed: it was edited, is new, was moved or was deleted.
    """

    cell: LineCell | None = None
    known: LineCell | None = None
    brought: Brought | None = None
    is_changed: bool = False
    runs: bool = False
    moved: frozenset[str] = frozenset()  # before it

    @property
    def source(self) -> str:
        one = self.cell or self.known
        return "" if one is None else one.source

    @property
    def commit(self) -> ObjectId | None:
        return self.brought.commit if self.brought is not None else None if self.known is None else self.known.commit

    def changed(self, *hows: str) -> set[str]:
        """Names that it changed when it ran."""
        if self.brought is not None:
            return set(self.brought.names)
        record = None if self.known is None else self.known.record
        changes = () if record is None else record.changed
        return {one.name for one in changes if not one.name.startswith("\0") and (not hows or one.how in hows)}

    @cached_property
    def reading(self) -> Reading:
        return read_code(self.source)

    @cached_property
    def tree(self) -> ast.Module:
        return Code(self.source).tree


@dataclass(frozen=True)
class Selection:
    """The cells to run, as a line, and whether anything was edited."""

    line: Line
    is_edited: bool


def read_changed(line: Line, document: Line, repo: Repository | None = None) -> Selection:
    """Find the cells of a document that have to run again, given the history's.

    They start from the state before the first of them; what the others have set since is taken from the history.

    Args:
        repo: says of which kinds values are, and which names share one; without it, what changes in place is told from code.
    """
    entries = _entries(line, document)
    found = _Selector(entries, line, repo)
    found.select()
    return Selection(found.line(), any(entry.is_changed for entry in entries))


# -- which cell of the document is which of the history


def _entries(line: Line, document: Line) -> list[_Entry]:
    runs = [cell for cell in line.cells if not _is_step(cell)]
    last = {cell.id or f"\0{cell.source.strip()}": cell for cell in runs}
    matched: dict[int, LineCell] = {}
    for cell in document.cells:
        if cell.id and cell.id in last:
            matched[cell.position] = last.pop(cell.id)
    by_code: dict[str, list[LineCell]] = {}
    for cell in last.values():
        by_code.setdefault(cell.source.strip(), []).append(cell)
    for cell in document.cells:
        same = by_code.get(cell.source.strip())
        if cell.position not in matched and same:
            matched[cell.position] = same.pop(0)
    matched_positions = {cell.position for cell in matched.values()}
    removed = [
        _Entry(known=cell, is_changed=True)
        for cell in last.values()
        if cell.position not in matched_positions and not cell.skipped
    ]
    in_order = _longest_rise([matched[cell.position].position for cell in document.cells if cell.position in matched])
    moved = [cell for cell in matched.values() if cell.position not in in_order]
    removed += [_Entry(known=cell, is_changed=True) for cell in moved]
    steps = [cell for cell in line.cells if _is_step(cell) and not cell.skipped]
    others: list[tuple[float, _Entry]] = [(entry.known.position, entry) for entry in removed if entry.known is not None]
    others += [(one.position - 0.5, _Entry(brought=one)) for one in line.all_brought]
    others += [
        (step.position, _Entry(replace(step, position=len(document.cells) + at), step))
        for at, step in enumerate(steps, 1)
    ]
    others.sort(key=lambda one: one[0])
    found: list[_Entry] = []
    for cell in document.cells:
        known = matched.get(cell.position)
        is_moved = known is not None and known.position not in in_order
        while others and known is not None and not is_moved and others[0][0] < known.position:
            found.append(others.pop(0)[1])
        is_changed = known is None or is_moved or known.source.strip() != cell.source.strip()
        found.append(_Entry(cell, known, is_changed=is_changed))
    return [*found, *(entry for _, entry in others)]


def _is_step(cell: LineCell) -> bool:
    """Whether an agent wrote it: the document has no cell of it."""
    return cell.record is not None and (bool(cell.record.run) or cell.record.author.kind == "agent")


def _longest_rise(positions: list[int]) -> set[int]:
    """The most of them that stand in rising order."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for position in positions:
        at = bisect_left(ends, position)
        before[position] = ends[at - 1] if at else None
        ends[at : at + 1] = [position]
    found: set[int] = set()
    current = ends[-1] if ends else None
    while current is not None:
        found.add(current)
        current = before[current]
    return found


# -- what has to run


@dataclass
class _Selector:
    entries: list[_Entry]
    whole: Line
    repo: Repository | None
    moved: set[str] = field(default_factory=set[str])
    _forced: set[int] = field(default_factory=set[int])  # places of cells whose effects on the process others need

    def select(self) -> None:
        """Go through the cells until no more has to run."""
        while True:
            before = set(self._forced)
            self._go_through()
            if self._forced == before:
                return

    def _go_through(self) -> None:
        self.moved = set()
        carries: dict[str, frozenset[str]] = {}
        readers: set[str] = set()  # functions that read files, a clock or the network
        begun = False
        for at, entry in enumerate(self.entries):
            entry.moved = frozenset(self.moved)
            reading = entry.reading
            used = _closed(reading.reads, carries)
            if entry.brought is None:
                own = reading.within | {name for name in used if name in carries}
                carries |= {name: frozenset(reading.defines.get(name, own)) for name in reading.may_bind}
                readers |= {name for name in reading.defines if _defines_reader(self._tracer, entry, name, readers)}
            reads_environment = entry.cell is not None and (
                _reads_environment(self._tracer, entry.tree, entry.cell)
                or not _closed(used | _named_at_once(entry.tree), carries).isdisjoint(readers)
            )
            touched = used | reading.may_bind | entry.changed()
            needed = self._needed[at]
            entry.runs = entry.cell is not None and (
                entry.is_changed
                or at in self._forced
                or reads_environment
                or not touched.isdisjoint(self.moved)
                or (bool(reading.why_unknown) and begun)
                or (begun and bool(entry.changed("-")))
                or any(self.entries[position].is_changed or self.entries[position].runs for position in needed)
            )
            if entry.runs:
                self._forced |= needed | (self._writers_before(at) if reads_environment else set())
                names = {name for name in used if self._may_change(name, entry)}
                if reading.why_unknown:
                    names |= {name for name in self._names if self._may_change(name, entry)}
                self._move(names | reading.may_bind | entry.changed())
            elif entry.is_changed:
                self._move(entry.changed())
            begun = begun or entry.runs or entry.is_changed

    def _move(self, names: Iterable[str]) -> None:
        todo = set(names) - self.moved
        self.moved |= todo
        for name in todo:
            self.moved |= self._sharing.get(name, set())

    @cached_property
    def _tracer(self) -> Tracer:
        """Knows the names of modules, whichever cell imported them."""
        from pathlib import Path

        tracer = Tracer(Path(self.whole.cwd or "."))
        for entry in self.entries:
            tracer.note_names(entry.tree)
        return tracer

    @cached_property
    def _needed(self) -> list[set[int]]:
        """By place, those of the earlier cells whose effects on modules and the process it may depend on."""
        rows: list[tuple[int, str]] = []
        for at, entry in enumerate(self.entries):
            if entry.is_changed and entry.cell is not None and entry.known is not None:
                rows.append((at, entry.known.source))
            rows.append((at, entry.source))
        states = StateLine(source for _, source in rows)
        found: list[set[int]] = [set() for _ in self.entries]
        for row, (at, _) in enumerate(rows):
            found[at] |= {rows[position][0] for position in states.find_needed(row)} - {at}
        settings = [at for at, entry in enumerate(self.entries) if _SETTINGS.search(entry.source)]
        for at, positions in enumerate(found):
            positions.update(position for position in settings if position < at)
        return found

    def _writers_before(self, at: int) -> set[int]:
        """Places of the cells that write a file which the cell at a place names."""
        files = _texts(self.entries[at].tree)
        return {
            position
            for position, entry in enumerate(self.entries[:at])
            if entry.cell is not None
            and not files.isdisjoint(_texts(entry.tree) | _written(entry.source))
            and (not _WRITERS.isdisjoint(_called(entry.tree)) or _written(entry.source))
        }

    # -- what a cell may change in place

    def _may_change(self, name: str, entry: _Entry) -> bool:
        if name in self._imported:
            return False
        set_in_it = {one for statement in statements(entry.tree) for one in targets(statement)}
        if self.repo is None or name in self._stateless:
            return name in set_in_it or ("setattr" in entry.reading.reads and name in entry.reading.reads)
        kinds = {self._kinds(commit).get(name) for commit in (self.whole.tip, entry.commit) if commit is not None} - {
            None
        }
        return not kinds or not kinds <= _UNCHANGING

    @cached_property
    def _imported(self) -> set[str]:
        nodes = [
            node for entry in self.entries for node in entry.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        return {name for node in nodes for name in targets(node)}

    @cached_property
    def _stateless(self) -> set[str]:
        """Functions and classes that keep nothing, wherever they are defined."""
        found: dict[str, bool] = {}
        for entry in self.entries:
            for node in entry.tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    found[node.name] = found.get(node.name, True) and _keeps_nothing(node)
        return {name for name, is_stateless in found.items() if is_stateless}

    def _kinds(self, commit: ObjectId) -> dict[str, str]:
        assert self.repo is not None
        if commit not in self._known_kinds:
            self._known_kinds[commit] = dict(_kinds_at(self.repo, commit))
        return self._known_kinds[commit]

    @cached_property
    def _known_kinds(self) -> dict[ObjectId, dict[str, str]]:
        return {}

    @cached_property
    def _names(self) -> set[str]:
        return {name for entry in self.entries for name in entry.changed() | entry.reading.may_bind}

    @cached_property
    def _sharing(self) -> dict[str, set[str]]:
        """By name, those that it ever shared an object with, by way of others too."""
        found: dict[str, set[str]] = {}
        commits = {entry.commit for entry in self.entries} | {self.whole.tip}
        for commit in commits if self.repo is not None else ():
            groups: dict[str, set[str]] = {}
            assert self.repo is not None
            for name, one in self.repo.tree_at(commit).items() if commit is not None else ():
                if one.alias_group and not name.startswith("\0"):
                    groups.setdefault(one.alias_group, set()).add(name)
            for group in groups.values():
                joined = group.union(*(found.get(name, set()) for name in group))
                found |= dict.fromkeys(joined, joined)
        return found

    # -- as a line

    def line(self) -> Line:
        """The cells that run, and what is taken from the history between them."""
        cells: list[LineCell] = []
        taken: list[Brought] = []
        start: ObjectId | None = None
        names: set[str] = set()
        commit: ObjectId | None = None
        begun = False
        for entry in self.entries:
            if entry.runs:
                assert entry.cell is not None
                known = entry.known
                if begun and commit is not None and (missing := names - entry.moved):
                    taken.append(Brought(entry.cell.position, commit, tuple(sorted(missing))))
                names = set()
                cells.append(
                    replace(
                        entry.cell,
                        commit=None if known is None else known.commit,
                        record=None if known is None else known.record,
                        saved=None,
                        is_edited=entry.is_changed,
                    )
                )
            elif not entry.is_changed and entry.commit is not None:
                commit = entry.commit
                names |= entry.changed("+", "~") if entry.brought is None else entry.changed()
                if not begun:
                    start, names = commit, set()
            begun = begun or entry.runs or entry.is_changed
        if begun and commit is not None and (missing := names - self.moved):
            taken.append(Brought(0, commit, tuple(sorted(missing))))
        return replace(
            self.whole,
            cells=tuple(cells),
            start=start,
            moved=frozenset(self.moved),
            all_brought=tuple(taken),
            brought={},
        )


def _kinds_at(repo: Repository, commit: ObjectId) -> Iterator[tuple[str, str]]:
    for name, entry in repo.tree_at(commit).items():
        stored = repo.read_preview(entry)
        try:
            yield name, previews.decode(stored).kind if stored else ""
        except msgspec.MsgspecError:  # somebody else's store may hold anything
            yield name, ""


def _closed(names: Iterable[str], carries: dict[str, frozenset[str]]) -> set[str]:
    """The names, and those that functions and classes use which can be reached from them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(carries.get(name, ()))
    return found


def _reads_environment(tracer: Tracer, tree: ast.Module, cell: LineCell) -> bool:
    """Whether it reads a file, a clock, the network, or a module that is no installed package, as it runs."""
    if any(map(_is_local, imports(tree))):
        return True
    shell = [
        line
        for line in Code(cell.source).magics
        if line.startswith(("!", "%run", "%%bash", "%%sh", "%%script")) or "!" in line
    ]
    return bool(shell) or any(tracer.reads_environment(node) for node in _at_once(tree))


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """What runs with the cell: all but the bodies of its functions."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for child in ast.iter_child_nodes(node):
            yield from _at_once(child)


def _named_at_once(tree: ast.Module) -> set[str]:
    return {node.id for node in _at_once(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _defines_reader(tracer: Tracer, entry: _Entry, name: str, known: set[str]) -> bool:
    nodes = [node for node in entry.tree.body if name in targets(node)]
    reads = any(tracer.reads_environment(inner) for node in nodes for inner in ast.walk(node))
    return reads or not known.isdisjoint(entry.reading.defines[name])


def _is_local(module: str) -> bool:
    """Whether a module lies beside the notebook, and not with the packages."""
    if module in sys.stdlib_module_names or module in ("agent_kernel", "__main__"):
        return False
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return True
    paths = [] if found is None else [found.origin or "", *(found.submodule_search_locations or ())]
    return not any("site-packages" in path or "dist-packages" in path for path in paths)


def _keeps_nothing(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    if _INDIRECT.search(ast.unparse(node)):
        return False
    if isinstance(node, ast.ClassDef):
        return all(
            isinstance(part, (ast.FunctionDef, ast.Pass))
            or (isinstance(part, (ast.Expr, ast.Assign, ast.AnnAssign)) and isinstance(part.value, ast.Constant | None))
            for part in node.body
        )
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return not node.decorator_list and all(isinstance(one, ast.Constant) for one in defaults)


def _texts(tree: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)} - {
        "",
        "w",
        "r",
    }


def _written(source: str) -> set[str]:
    """The file of `%%writefile`."""
    found = re.match(r"\s*%%(?:writefile|file)\s+(?:-a\s+)?(\S+)", source)
    return {found[1]} if found else set()


def _called(tree: ast.Module) -> set[str]:
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in called
        if isinstance(one, (ast.Attribute, ast.Name))
    }
