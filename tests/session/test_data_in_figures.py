"""A figure that holds a table is not looked at for a cell that only reads the table; what the cell changes of it is found.

Whatever leads from the table to the figure, or is part of both, is a way to change the figure without its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.session.workspace import Detector
from agent_kernel.values import pickler
from tests.support.notebooks import Notebook, names_changed

matplotlib: Any = pytest.importorskip("matplotlib")
numpy: Any = pytest.importorskip("numpy")
pandas: Any = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore")

START = """
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as plt, numpy as np, pandas as pd, weakref
class Grid:
    def __init__(self, data, figure):
        self.data, self.figure = data, figure
class Quiet:
    def __init__(self, hidden):
        self.hidden = hidden
    def __getstate__(self):
        return {}
class Table(pd.DataFrame):
    _internal_names = [*pd.DataFrame._internal_names, 'kept']
    _internal_names_set = set(_internal_names)
"""
TABLE = "df = pd.DataFrame({'a': [1.0, 2.0, 3.0], 'b': [4, 5, 6], 'k': ['x', 'y', 'z']})\n"
GRID = "g = Grid(df, plt.figure())\nax = g.figure.subplots()\nax.plot(df['a'], df['b'])\ndel ax"
FIGURE = "g = plt.figure()\n"
ACCESSOR = """
@pd.api.extensions.register_dataframe_accessor('drawn')
class Drawn:
    def __init__(self, data):
        pass
    def title(self):
        g.figure.suptitle('other')
del Drawn
"""


@pytest.fixture
def nb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])  # what a cell changes is found for the cell
    with matplotlib.rc_context(), Notebook() as notebook:
        notebook.run(START)
        yield notebook
        notebook.run("plt.close('all')")
    for name in {"show", "drawn"} & vars(pandas.DataFrame).keys():
        delattr(pandas.DataFrame, name)
    pandas.reset_option("display.float_format")
    numpy.set_printoptions(formatter=None)
    numpy.seterrcall(None)
    numpy.seterr(all="warn")


def changed(notebook: Notebook, source: str) -> set[str]:
    return names_changed(notebook.run(source))


WAYS: dict[str, tuple[str, str]] = {
    "a cell of the table": (TABLE + GRID, "df.loc[0, 'a'] = 9.0"),
    "a column": (TABLE + GRID, "df['new'] = 1"),
    "a name of a column": (TABLE + GRID, "df.columns = ['l', 'm', 'n']"),
    "an attribute of the table": (TABLE + GRID, "df.attrs['unit'] = 'cm'"),
    "a flag of the table": (TABLE + GRID, "df.flags.allows_duplicate_labels = False"),
    "an array": ("df = np.zeros(4)\n" + FIGURE + "g.kept = df", "df[0] = 1"),
    "an array that becomes read-only": ("df = np.zeros(4)\n" + FIGURE + "g.kept = df", "df.flags.writeable = False"),
    "what an array is a part of": (
        "base = np.zeros(10)\ndf = base[:4]\n" + FIGURE + "g.kept = base\ndel base",
        "df.base[7] = 1",
    ),
    "what a table is a part of": (
        "base = np.zeros((9, 2))\ndf = pd.DataFrame(base[:4], copy=False)\n" + FIGURE + "g.kept = base\ndel base",
        "df._mgr.blocks[0].values.base[7, 0] = 1",
    ),
    "bytes that an array looks at": (
        "raw = bytearray(16)\ndf = np.frombuffer(raw, np.uint8, 8)\n" + FIGURE + "g.kept = raw\ndel raw",
        "memoryview(df.base)[12] = 1",
    ),
    "a figure among the attributes": (
        TABLE + FIGURE + "df.attrs['figure'] = g",
        "df.attrs['figure'].suptitle('other')",
    ),
    "a figure in a list in a list among the attributes": (
        TABLE + FIGURE + "df.attrs['all'] = [[g]]",
        "df.attrs['all'][0][0].suptitle('other')",
    ),
    "an axes among the attributes": (
        TABLE + FIGURE + "df.attrs['ax'] = g.subplots()",
        "df.attrs['ax'].set_title('other')",
    ),
    "a method of a figure among the attributes": (
        TABLE + FIGURE + "df.attrs['title'] = g.suptitle",
        "df.attrs['title']('other')",
    ),
    "a list among the attributes": (
        TABLE + FIGURE + "df.attrs['notes'] = g.notes = []",
        "df.attrs['notes'].append(1)",
    ),
    "an array among the attributes": (
        TABLE + FIGURE + "g.kept = np.zeros(4)\ndf.attrs['part'] = g.kept[:2]",
        "df.attrs['part'].base[3] = 1",
    ),
    "a list in a column": (
        "df = pd.DataFrame({'o': [[1], [2]]})\n" + FIGURE + "g.kept = df.at[0, 'o']",
        "df.at[0, 'o'].append(3)",
    ),
    "an artist in a column": (
        "df = pd.DataFrame({'o': [None, 'a']}, dtype=object)\n" + FIGURE + "df.at[0, 'o'] = g.subplots()",
        "df.at[0, 'o'].set_title('other')",
    ),
    "an artist that an object in a column does not save": (
        FIGURE + "df = pd.DataFrame({'o': [Quiet(g), 1]})\ng.kept = df",
        "df.at[0, 'o'].hidden.suptitle('other')",
    ),
    "an artist in an array of objects": (
        FIGURE + "df = np.array([g.subplots(), None], dtype=object)",
        "df[0].set_title('other')",
    ),
    "an artist in a structured array": (
        FIGURE + "df = np.zeros(2, dtype=[('o', object), ('n', int)])\ndf['o'][0] = g",
        "df['o'][0].suptitle('other')",
    ),
    "a weak reference": (
        TABLE + FIGURE + "g.kept = df\ndf.attrs['weak'] = weakref.ref(g)",
        "df.attrs['weak']().suptitle('other')",
    ),
    "an attribute that pandas does not save": (
        TABLE + FIGURE + "g.kept = df\nobject.__setattr__(df, 'kept', g)",
        "df.kept.suptitle('other')",
    ),
    "an attribute of a subclass": (
        "df = Table({'a': [1, 2]})\n" + FIGURE + "g.kept = df\ndf.kept = g",
        "df.kept.suptitle('other')",
    ),
    "what an index keeps": (
        TABLE + FIGURE + "g.kept = df\ndf.index._cache['kept'] = g",
        "df.index._cache['kept'].suptitle('other')",
    ),
    "what a range keeps as an array": (
        TABLE + FIGURE + "g.kept = df\ng.numbers = df.index._data",
        "df.index._data.flags.writeable = True\ndf.index._data[0] = 7",
    ),
    "an accessor of the notebook": (TABLE + GRID + ACCESSOR, "df.drawn.title()"),
    "a method that all tables were given": (
        TABLE + GRID + "\ndef show(data): g.figure.suptitle('other')\npd.DataFrame.show = show\ndel show",
        "df.show()",
    ),
    "a function that pandas shows numbers by": (
        TABLE + GRID + "\ndef shown(number): g.figure.suptitle('other'); return 'x'\n"
        "pd.set_option('display.float_format', shown)\ndel shown",
        "str(df)",
    ),
    "a function that numpy shows numbers by": (
        "df = np.zeros(2)\n" + FIGURE + "g.kept = df\ndef shown(number): g.suptitle('other'); return 'x'\n"
        "np.set_printoptions(formatter={'float': shown})\ndel shown",
        "str(df)",
    ),
    "a function that numpy calls where a number overflows": (
        "df = np.zeros(2)\n" + FIGURE + "g.kept = df\ndef found(*_): g.suptitle('other')\n"
        "np.seterrcall(found)\nnp.seterr(all='call')\ndel found",
        "1 / df",
    ),
    "a view of a column of dates": (
        "base = np.zeros(9, 'M8[ns]')\ndf = pd.DataFrame({'d': pd.Series(base[:4], copy=False)}, copy=False)\n"
        + FIGURE
        + "g.kept = base\ndel base",
        "df._mgr.blocks[0].values._ndarray.base.view('i8')[7] = 1",
    ),
    "a figure as the name of a column": (
        TABLE + FIGURE + "df['a'].name\ndf.columns.name = g",
        "df.columns.name.suptitle('other')",
    ),
    "the metadata of a dtype": (
        FIGURE + "df = np.zeros(2, np.dtype('f8', metadata={'figure': g}))\ng.kept = df",
        "df.dtype.metadata['figure'].suptitle('other')",
    ),
    "a class among the attributes": (
        TABLE + FIGURE + "Quiet.hidden = g\ndf.attrs['kind'] = Quiet\ng.kept = df",
        "df.attrs['kind'].hidden.suptitle('other')",
    ),
    "what waits for the death of the table": (
        TABLE + FIGURE + "g.kept = [df.attrs]\nclass Part: pass\ndf.attrs['part'] = Part()\n"
        "weakref.finalize(df.attrs['part'], lambda: g.suptitle('other'))",
        "df.attrs.clear()",
    ),
    "a function of the notebook that a table was given": (
        TABLE + GRID + "\ndef show(data): g.figure.suptitle('other')",
        "df.pipe(show)",
    ),
    "pyplot": (TABLE + GRID, "plt.title(str(len(df)))"),
    "pyplot, told of the table": (TABLE + GRID, "plt.plot(df['a'])"),
    "pandas, which draws by pyplot": (TABLE + GRID, "df['a'].plot()"),
    "an artist that a generator holds": (
        TABLE + GRID + "\nheld = (ax.set_title('other') for ax in [g.figure.axes[0]])",
        "next(held), len(df)",
    ),
    "an artist that a name holds": (TABLE + GRID + "\nline = g.figure.axes[0].lines[0]", "line.set_lw(len(df))"),
    "an artist that a default of a function holds": (
        TABLE + GRID + "\ndef title(text, ax=g.figure.axes[0]): ax.set_title(text)",
        "title(str(len(df)))",
    ),
    "the namespace": (TABLE + GRID, "globals()[chr(103)].figure.suptitle(str(len(df)))"),
    "code in a text": (TABLE + GRID, "exec('g' + '.figure.suptitle(str(len(df)))')"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("reads", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
def test_a_figure_that_is_changed_through_a_table_is_found_in_that_cell(nb: Notebook, way: str, reads: int) -> None:
    before, act = WAYS[way]
    nb.run(before)
    for _ in range(reads):
        assert changed(nb, "len(df)") == set()
    assert "g" in changed(nb, act)


@pytest.fixture
def visited(nb: Notebook, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often objects of each type are pickled, by the name of the type."""
    counts: dict[str, int] = {}
    reduce = pickler.Pickler.reducer_override

    def counted(self: pickler.Pickler, value: object, /) -> object:
        counts[type(value).__name__] = counts.get(type(value).__name__, 0) + 1
        return reduce(self, value)

    monkeypatch.setattr(pickler.Pickler, "reducer_override", counted)
    return counts


READS = ["len(df)", "df['a'].mean()", "df.head()", "df.describe()", "total = df['b'].sum()"]


@pytest.mark.parametrize("read", READS)
def test_a_figure_is_not_looked_at_for_a_cell_that_only_reads_a_table_in_it(
    nb: Notebook, visited: dict[str, int], read: str
) -> None:
    nb.run(TABLE + GRID)
    visited.clear()
    nb.run("total = 0")
    assert changed(nb, read) <= {"total"}
    assert visited.get("DataFrame", 0) <= 1
    assert not visited.keys() & {"Figure", "Axes", "Rectangle", "Line2D", "Grid"}


@pytest.mark.parametrize(
    "read", ["df.merge(df, on='k')", "df.groupby('k')['a'].mean()", "df.index.values", "df.loc[1]", "str(df)"]
)
def test_a_figure_is_looked_at_once_where_reading_a_table_leaves_something_in_it(
    nb: Notebook, visited: dict[str, int], read: str
) -> None:
    nb.run(TABLE + GRID)
    assert changed(nb, read) == set()
    visited.clear()
    assert changed(nb, read) == set()
    assert "Figure" not in visited


def test_a_figure_with_an_array_in_it_is_not_looked_at_for_the_array(nb: Notebook, visited: dict[str, int]) -> None:
    nb.run("a = np.zeros(9)\ng = plt.figure()\ng.kept = a")
    visited.clear()
    assert changed(nb, "a.mean()") == set()
    assert "Figure" not in visited
    assert changed(nb, "a[0] = 1") == {"a", "g"}


def test_a_figure_that_came_back_with_a_table_is_looked_at_once_for_it(nb: Notebook, visited: dict[str, int]) -> None:
    there = nb.run(TABLE + GRID)
    nb.run("df = g = None")
    nb.checkout(there)
    assert changed(nb, "len(df)") == set()
    visited.clear()
    assert changed(nb, "len(df)") == set()
    assert "Figure" not in visited
    assert changed(nb, "df.loc[0, 'a'] = 9.0") == {"df", "g"}


def test_a_figure_that_was_not_looked_at_counts_as_unverified(nb: Notebook) -> None:
    nb.run(TABLE + GRID)
    nb.run("g")
    assert "g" not in nb.session.workspace.find_unverified()
    nb.run("len(df)")
    assert {"g", "df"} <= set(nb.session.workspace.find_unverified())


def test_a_change_behind_the_back_of_cells_that_read_a_table_is_found_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with matplotlib.rc_context(), Notebook() as notebook:
        notebook.run(START)
        notebook.run(TABLE + GRID)
        notebook.look("g.figure.suptitle('other')")
        monkeypatch.setattr("agent_kernel.session.workspace._LEAST_ROLLING_S", 1.0)
        found = [name for _ in range(3) for name in changed(notebook, "len(df)")]
        assert "g" in found
        notebook.run("plt.close('all')")


def test_a_name_that_takes_part_of_a_table_is_saved_with_it(nb: Notebook) -> None:
    nb.run("df = np.zeros(6)\n" + FIGURE + "g.kept = df")
    nb.run("len(df)")
    there = nb.run("part = df[:2]")
    nb.run("part[0] = 5")
    nb.rollback(there)
    assert nb.look("part.base is df and g.kept is df and part[0] == 0")


def test_what_a_table_and_a_figure_share_no_longer_comes_back_apart(nb: Notebook) -> None:
    nb.run("df = pd.DataFrame({'o': [[1], [2]]})\n" + FIGURE + "g.kept = df.at[0, 'o']")
    nb.run("len(df)")
    there = nb.run("df.at[0, 'o'] = list(df.at[0, 'o'])")
    nb.run("g.kept.append(3)")
    nb.rollback(there)
    assert nb.look("df.at[0, 'o'] == g.kept == [1] and df.at[0, 'o'] is not g.kept")


@pytest.mark.parametrize("gone", ["g = None", "del g", "df = df.copy()", "del df", "g = Grid(df, plt.figure())"])
def test_a_name_that_is_bound_anew_is_reported_and_the_other_one_stays(nb: Notebook, gone: str) -> None:
    nb.run(TABLE + GRID)
    nb.run("len(df)")
    assert changed(nb, f"len(df)\n{gone}") == {"df" if "df" in gone.split()[:2] else "g"}
