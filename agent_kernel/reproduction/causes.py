"""Why something comes out different, from evidence: what the code calls, and what it reads that differs already.

Each statement of each cell is looked at once, in the order in which the cells run. A name that a statement sets has the causes
of what the statement calls and reads; a name that differs already is a cause by itself, and ends the search there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_kernel.reproduction.code import TIMED, Code, names_set, reads, statements, targets
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.reproduction.line import LineCell
    from agent_kernel.reproduction.runner import Ran

__all__ = ["Cause", "CellCauses", "Tracer", "cause_of_failure"]

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
_NUMPY_LOADS: Final = ("numpy.load", "joblib.load", "pickle.load")
_MISSING_NAME: Final = re.compile(r"name '(?P<name>\w+)' is not defined")
_MISSING_MODULE: Final = re.compile(r"No module named '(?P<name>[\w.]+)'")
_URL: Final = re.compile(r"^(?:https?|ftp|s3|gs)://")


@dataclass(frozen=True)
class CellCauses:
    """What may make a cell come out different: of each name that it sets, and of what it shows."""

    of_names: dict[str, tuple[Cause, ...]]
    of_outputs: tuple[Cause, ...]


@dataclass
class Tracer:
    """Goes through the cells in order.

    Attributes:
        cwd: where their files are.
        differing: by name, the position of the cell from which on it differs.
    """

    cwd: Path
    differing: dict[str, int] = field(default_factory=dict[str, int])
    _modules: dict[str, str] = field(default_factory=dict[str, str])  # by name, what it was imported as
    _seeded: set[str] = field(default_factory=set[str])
    _latent: dict[str, Causes] = field(default_factory=dict[str, Causes])  # of functions: when they are called
    _of: dict[str, Causes] = field(default_factory=dict[str, Causes])  # of variables
    _sets: set[str] = field(
        default_factory=set[str]
    )  # variables that are sets, whose order is another one in each process

    def look_at(self, cell: LineCell) -> CellCauses:
        """Find what may make this cell come out different, given what differs before it."""
        code = Code(cell.source)
        found: dict[str, Causes] = {}
        shown: Causes = {}
        for magic in code.magics:
            if (cause := _cause_of_magic(magic)) is not None:
                shown[cause] = None
        for statement in statements(code.tree):
            causes = self._causes_of(statement, cell, found)
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
                found[name] = (
                    {**found.get(name, {}), **causes} if name in read or not _binds(statement) else dict(causes)
                )
            self._note_sets(statement)
            shown |= causes
        self._of |= found
        return CellCauses({name: _ordered(causes) for name, causes in found.items()}, _ordered(shown))

    def differs(self, names: Iterable[str], position: int) -> None:
        """These variables differ from this cell on."""
        for name in names:
            self.differing.setdefault(name, position)

    def is_same(self, names: Iterable[str]) -> None:
        """These were set again, and are the same."""
        for name in names:
            self.differing.pop(name, None)
            self._of.pop(name, None)

    def modules_of(self, cell: LineCell) -> set[str]:
        """The top-level modules that a cell uses by the names that they were imported under."""
        names = reads(Code(cell.source).tree) | names_set(Code(cell.source).tree)
        return {self._modules[name].partition(".")[0] for name in names if name in self._modules}

    def _note_sets(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
            self._sets = self._sets | names if self._is_set(statement.value) else self._sets - names

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        return isinstance(node, (ast.Set, ast.SetComp)) or (isinstance(node, ast.Name) and node.id in self._sets)

    def _causes_of(self, statement: ast.stmt, cell: LineCell, own: Collection[str]) -> Causes:
        """Those of what a statement calls and reads by the names of modules, in the order of the source."""
        found: Causes = {}
        for node in ast.walk(statement):
            self._note_import(node)
        for node in sorted(ast.walk(statement), key=_place):
            cause: Cause | None = None
            if isinstance(node, ast.Call):
                cause = self._cause_of_call(node, cell)
            elif isinstance(node, ast.Attribute) and self._dotted(node).startswith("os.environ"):
                cause = Cause("process", "reads the environment of the process: os.environ")
            elif isinstance(node, (ast.For, ast.comprehension)) and self._is_set(node.iter):
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
        if not isinstance(node, ast.Name) or node.id not in self._modules:
            return ""
        return ".".join([self._modules[node.id], *reversed(parts)])

    def _cause_of_call(self, call: ast.Call, cell: LineCell) -> Cause | None:
        name = self._dotted(call.func)
        last = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        if name in _SEEDS and (call.args or call.keywords):
            self._seeded.add(_SEEDS[name])
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
        if last in _READERS or name in _NUMPY_LOADS:
            return self._cause_of_reading(call, last, cell)
        if _begins(name, _PROCESS):
            return Cause("process", f"reads what this machine or process is: {name}()")
        if not name and last in ("id", "hash") and isinstance(call.func, ast.Name):
            return Cause("process", f"{last}() is another number in each process")
        if last in ("list", "tuple", "enumerate", "next", "iter", "join", "pop") and any(
            map(self._is_set, [*call.args, *_receiver(call)])
        ):
            return _UNORDERED
        return None

    def _cause_of_random(self, call: ast.Call, name: str, last: str) -> Cause | None:
        given = {word.arg for word in call.keywords}
        if name in _MAKERS:
            seeded = bool(call.args or call.keywords) and not any(_is_none(one) for one in call.args)
            return None if seeded else Cause("random", f"makes a random generator without a seed: {name}()")
        if _begins(name, _GENERATORS) and name not in _NO_DRAW:
            library = next(
                kind
                for kind in ("random", "numpy.random", "torch", "tensorflow.random", "jax.random")
                if name.startswith(kind)
            )
            if library in self._seeded or library == "jax.random" or "generator" in given:
                return None
            return Cause("random", f"draws random numbers without a seed: {name}()")
        takes_a_state = (
            last in _TAKE_A_STATE and (name.startswith("sklearn.") or not name) and isinstance(call.func, ast.Name)
        )
        if (
            (takes_a_state or (last == "sample" and not name))
            and "random_state" not in given
            and "numpy.random" not in self._seeded
        ):
            return Cause("random", f"draws random numbers without a seed: {last}() without random_state")
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
        file = self.cwd / Path(path).expanduser()
        try:
            changed_ns = file.stat().st_mtime_ns
        except (OSError, ValueError):
            return Cause("missing file", f"reads a file that is not there: {path}")
        if cell.record is not None and changed_ns > cell.record.time_ns:
            return Cause("file", f"reads a file that changed since the cell ran: {path}")
        return None


_UNORDERED: Final = Cause("order", "goes through a set, whose order is another one in each process")


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


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
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax")
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
        return Cause("process", f"shows what a command of the shell says: {summaries.mask_text(magic)[:40]}")
    return None


def cause_of_failure(
    ran: Ran, cell: LineCell, known: Collection[str], brought: Mapping[str, str], timeout_s: float
) -> Cause:
    """Why a cell failed when it was run again.

    Args:
        known: names that the history's cells have set at some time.
        brought: names whose values came from elsewhere.
    """
    if ran.status == "timeout":
        return Cause("limit", f"took longer than {timeout_s:g} s, so it was stopped (--timeout)")
    if ran.status == "died":
        return Cause("error", "the kernel died")
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
