"""A state with something of everything, which one Python writes and another one opens.

    python -m tests.bundle.python_states write study.agentnb [--small]
    python -m tests.bundle.python_states read study.agentnb

`tests/fixtures/python-3.13.agentnb` is the small one that Python 3.13 wrote, in an environment with few packages. It is never
made again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import cast

from agent_kernel.agents import Agent, ScriptedModel
from agent_kernel.bundle import exporting, opening
from agent_kernel.bundle.members import environment_of
from agent_kernel.errors import LostValueError, MissingCodeError
from agent_kernel.session import Repository, Session
from tests.support.notebooks import Notebook, as_main

__all__ = ["problems", "read", "write"]

MODULES = (
    "collections",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "inspect",
    "pathlib",
    "uuid",
)
CELL = (
    f"import {', '.join(MODULES)}"
    r"""
import numpy as np, pandas as pd
numbers = [1, -2**70, 2.5, float('inf'), 3 + 4j, True, None, range(3), slice(1, 5)]
also = numbers
texts = {'é': 'ü \U0001f40d', 'b': b'\x00\xff', 'many': bytearray(b'abc')}
plain = [
    [{1, 2, 3}, frozenset({'x'}), {(1, 'a'), (2, 'b')}],
    [datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc), datetime.timedelta(hours=3)],
    [decimal.Decimal('1.10'), fractions.Fraction(2, 6), uuid.UUID(int=5)],
    [collections.Counter('aab'), collections.deque([1, 2], 5), collections.defaultdict(list, k=[1])],
    [pathlib.PurePosixPath('/a/b'), pathlib.PureWindowsPath('C:/d/e'), pathlib.Path('data') / 'rows.csv'],
]
grid = np.arange(12.0).reshape(3, 4)
window = grid[1:, ::2]
arrays = [np.arange(5, dtype='>i4'), np.array(['2024-01-01', 'NaT'], dtype='M8[D]'), np.array(['a', 'bcd']), np.float32(1.5),
          np.array([1, 'two', None, (3,)], dtype=object), np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])]
frame = pd.DataFrame({'x': [1.0, None], 'name': ['a', 'b'], 'n': pd.array([1, None], dtype='Int64'),
                      'kind': pd.Categorical(['u', 'v']), 'day': pd.to_datetime(['2024-01-01', '2024-01-02'])})
def double(x: int, *more: int, by: int = 2) -> int:
    'Twice as much.'
    return x * by + sum(more)
def counter(start=0):
    count = start
    def step():
        nonlocal count
        count += 1
        return count
    return step
counts = counter(5)
so_far = counts()
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
def endless():
    yield 1
held = {'adders': [lambda x, by=by: x + by for by in range(3)], 'plus': functools.partial(double, by=3)}
class Shape:
    def __init__(self, name): self.name = name
    @property
    def title(self): return self.name.title()
    @classmethod
    def square(cls): return cls('square')
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    @property
    def short(self): return self.name[0]
shape, colour = Shape.square(), Colour.BLUE
points = {Point(2): 'two', Point(1): 'one'}
exec('def unknown(a=1): return {}'.format(5))
compiled = compile('1 + {}'.format(1), '<made>', 'eval')
drawn = (n for n in range(3))
beside = {'rows': [1, 2], 'rest': drawn}
del np, pd, """ + ", ".join(MODULES)
)
FIGURE = """from matplotlib.figure import Figure
figure = Figure(figsize=(2, 1))
drawing = figure.add_subplot().plot([1, 2, 3])"""
STEP = "rows = [1, 2]\ndef halve(x):\n    return x / 2\ntask.success(len(rows))"
# What Python 3.11 has no syntax for.
NEW_SYNTAX = """def first[T](items: list[T]) -> T:
    return items[0]
class Box[T]:
    def __init__(self, held: T): self.held = held
boxed = Box(3)"""

# What has to hold of data, whoever made it.
DATA = (
    "numbers == [1, -2**70, 2.5, float('inf'), 3 + 4j, True, None, range(3), slice(1, 5)] and also is numbers",
    r"texts == {'é': 'ü \U0001f40d', 'b': b'\x00\xff', 'many': bytearray(b'abc')} and type(texts['many']) is bytearray",
    "plain[0] == [{1, 2, 3}, frozenset({'x'}), {(1, 'a'), (2, 'b')}]",
    "plain[1][0] == datetime.date(2024, 2, 29) and plain[1][1].tzinfo is datetime.timezone.utc",
    "plain[1][2] == datetime.timedelta(hours=3)",
    "plain[2] == [decimal.Decimal('1.10'), fractions.Fraction(1, 3), uuid.UUID(int=5)]",
    "plain[3] == [collections.Counter('aab'), collections.deque([1, 2]), {'k': [1]}] and plain[3][1].maxlen == 5",
    "plain[4] == [pathlib.PurePosixPath('/a/b'), pathlib.PureWindowsPath('C:/d/e'), pathlib.Path('data/rows.csv')]",
    "grid.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]] and window.tolist() == [[4, 6], [8, 10]]",
    "np.shares_memory(grid, window)",
    "arrays[0].dtype.str == '>i4' and arrays[0].tolist() == [0, 1, 2, 3, 4] and arrays[2].tolist() == ['a', 'bcd']",
    "arrays[1][0] == np.datetime64('2024-01-01') and np.isnat(arrays[1][1]) and arrays[3] == 1.5",
    "arrays[4].tolist() == [1, 'two', None, (3,)] and arrays[5].tolist() == [1, None, 3]",
    "frame['x'].isna().tolist() == [False, True] and frame['name'].tolist() == ['a', 'b'] and frame['n'][0] == 1",
    "frame['kind'].cat.categories.tolist() == ['u', 'v'] and frame['day'][1] == pd.Timestamp('2024-01-02')",
    "rows == [1, 2] and so_far == 6 and beside['rows'] == [1, 2]",
)
# What has to hold of code that was saved with its source.
CODE = (
    "double(5, 1, by=3) == 16 and double.__doc__ == 'Twice as much.' and held['plus'](2) == 6",
    "counts() == 7 and counter()() == 1",
    "fibonacci(20) == 6765 and [add(10) for add in held['adders']] == [10, 11, 12] and list(endless()) == [1]",
    "shape.title == 'Square' and type(Shape.square()) is Shape is type(shape)",
    "points[Point(2)] == 'two' and repr(Point(1)) == 'Point(x=1, y=0)'",
    "colour is Colour(2) is Colour.BLUE and colour.short == 'B'",
    "halve(4) == 2.0",
    "inspect.getsource(double).startswith('def double(x: int, *more: int, by: int = 2) -> int:')",
)
WITH_CODE = [
    "double",
    "counts",
    "fibonacci",
    "held",
    "shape",
    "points",
    "colour",
    "halve",
    "Shape",
    "unknown",
    "compiled",
]
WITHOUT_SOURCE = ("unknown()", "eval(compiled)")
NEW = ("first([4]) == 4", "Box(3).held == 3")
OF_FIGURE = "figure.axes[0].lines[0] is drawing[0] and drawing[0].get_ydata().tolist() == [1, 2, 3]"
OF_NEW = ("boxed.held == 3", "inspect.getsource(first).startswith('def first[T]')")


def write(target: Path, *, draws: bool = True) -> Path:
    """Write the bundle of a history with all of it; a figure alone would make it a sixth larger."""
    with tempfile.TemporaryDirectory() as folder, closing(Repository.open(Path(folder) / "store")) as repo:
        with Notebook(repo) as nb:
            nb.run(CELL)
            with as_main(nb.module):
                _run_agent(nb.session)
            if sys.version_info >= (3, 12):
                nb.run(NEW_SYNTAX)
        exporting.write(exporting.gather(repo, exporting.choose(repo, ["main"])), target)
    return target


def _run_agent(session: Session) -> None:
    assert Agent("ada", model=ScriptedModel([STEP], name="fixture"), state=session)("Count the rows") == 2


@contextlib.contextmanager
def opened(bundle: Path, *, trusts: bool) -> Generator[Notebook]:
    """A notebook with the state of a bundle: what cannot be loaded is a placeholder."""
    with tempfile.TemporaryDirectory() as folder:
        made = opening.open_bundle(bundle, Path(folder), trusts=trusts)
        with closing(Repository.open(made.store, create=False)) as repo, Notebook(repo) as nb:
            nb.checkout()
            yield nb


def problems(bundle: Path, *, trusts: bool) -> list[str]:
    """What is not as it should be where this Python opens the bundle."""
    with opened(bundle, trusts=trusts) as nb:
        # No data is stored anew by whoever has only opened it.
        changed = {change.name for change in nb.run("after = 1").changed} - {"figure", "drawing"}
        found = [] if changed == {"after"} else [f"changed: {changed}"]
        holding = list(DATA)
        raising: list[tuple[str, type[Exception], str]] = [
            (f"{one}.anything", LostValueError, "a generator cannot be saved") for one in ("drawn", "beside['rest']")
        ]
        if trusts:
            holding += [*CODE, *([OF_FIGURE] if "figure" in nb.variables() else [])]
            raising += [
                (one, MissingCodeError, "compiled by Python 3.") for one in WITHOUT_SOURCE if not _is_from_here(nb)
            ]
            if "first" in nb.variables():
                holding += OF_NEW
                if sys.version_info >= (3, 12):
                    holding += NEW
                else:
                    raising += [(one, MissingCodeError, "written for Python 3.") for one in NEW]
        else:
            raising += [(f"{one}.anything", LostValueError, "%agent trust") for one in WITH_CODE]
        return [*found, *_not_holding(nb, holding), *_not_raising(nb, raising)]


def _is_from_here(nb: Notebook) -> bool:
    said = str(environment_of(nb.repo, nb.repo.commit_at(nb.repo.resolve("main~1")))["python"])
    return said.split(".")[:2] == [str(number) for number in sys.version_info[:2]]


def _look(nb: Notebook, expression: str) -> object:
    modules = {name: import_module(name) for name in MODULES}
    known = {**modules, "np": import_module("numpy"), "pd": import_module("pandas"), **nb.namespace}
    with as_main(nb.module):
        return cast(object, eval(expression, known))


def _not_holding(nb: Notebook, expressions: Sequence[str]) -> Iterator[str]:
    for expression in expressions:
        try:
            if not _look(nb, expression):
                yield expression
        except Exception as error:
            yield f"{expression}: {type(error).__name__}: {error}"


def _not_raising(nb: Notebook, wanted: Sequence[tuple[str, type[Exception], str]]) -> Iterator[str]:
    """Those that do not raise such an error with such a text, in one line."""
    for expression, kind, text in wanted:
        try:
            yield f"{expression} gives {_look(nb, expression)!r:.80}"
        except Exception as error:
            if type(error) is not kind or text not in str(error) or "\n" in str(error):
                yield f"{expression}: {type(error).__name__}: {error}"


def read(bundle: Path) -> list[str]:
    """`problems` both ways, of a user who trusts nobody."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        return [*problems(bundle, trusts=False), *problems(bundle, trusts=True)]


if __name__ == "__main__":
    warnings.simplefilter("error")
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), draws="--small" not in sys.argv)
    else:
        print(*read(Path(sys.argv[2])), sep="\n", end="")
