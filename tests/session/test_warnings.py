"""A commit never fails, and never warns, because it looked at something: the warnings of a cell are the person's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from agent_kernel.quiet import unwarned
from agent_kernel.values.libraries import library_constants, packages_of
from tests.support.notebooks import Notebook, names_changed

LIBRARIES = {
    "numpy": "import numpy as np\na = np.arange(9)\nv = a[2:5]\nm = np.ma.array([1, 2])\nr = np.random.default_rng(1)",
    "pandas": "import pandas as pd\na = pd.DataFrame({'x': [1, 2], 'd': pd.date_range('2020', periods=2)})\nv = a.x",
    "torch": "import torch, torch.distributed\nm = torch.nn.Linear(2, 2)\na = m.weight\nv = torch.optim.SGD(m.parameters())",
    "sklearn": "from sklearn.linear_model import LinearRegression\na = LinearRegression().fit([[1], [2]], [1, 2])\nv = [a]",
    "matplotlib": "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nf, a = plt.subplots()\n"
    "v = a.plot([1, 2])\nplt.close()",
}


@pytest.fixture(autouse=True)
def filters() -> Iterator[None]:
    """What a cell does to the filters stays in its test."""
    with warnings.catch_warnings():
        yield


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["error", "always"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_commit_says_nothing_and_saves_all(library: str, how: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(library)
    with Notebook() as nb:
        with unwarned():  # importing some of them warns by itself
            made = nb.run(LIBRARIES[library])
        assert not made.unsaved
        nb.run(f"import warnings\nwarnings.simplefilter({how!r})")
        capfd.readouterr()
        again = nb.run("w = [a, v]")
        assert "w" in names_changed(again)
        assert not again.unsaved
        assert not nb.session.commit(full=True).unsaved
    assert capfd.readouterr().err == ""


def test_looking_through_a_library_runs_nothing_of_it() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library_constants(packages_of([torch.zeros(1)]), {id(torch.float32)}) == {id(torch.float32)}


def test_a_reducer_that_warns_is_no_loss_where_warnings_are_errors() -> None:
    with Notebook() as nb:
        nb.run("import warnings\nwarnings.simplefilter('error')")
        cell = (
            "class C:\n    def __reduce__(self):\n        warnings.warn('old', FutureWarning)\n        return C, ()\n"
        )
        assert not nb.run(cell + "c = C()").unsaved


def test_warnings_of_cells_are_shown_as_often_as_without_us() -> None:
    with Notebook() as nb:
        nb.run("import warnings\nwarnings.simplefilter('default')\ndef old(): warnings.warn('old', stacklevel=1)")
        with warnings.catch_warnings(record=True) as shown:
            nb.run("warnings.simplefilter('default')\nold()")
            nb.run("old()")
            nb.run("old()")
    assert len(shown) == 1


@pytest.mark.parametrize("does", ["warnings.resetwarnings()", "warnings.filters.clear()", "warnings.filters = []"])
def test_a_reducer_that_takes_all_filters_away_takes_nothing(does: str) -> None:
    with Notebook() as nb:
        nb.run(f"import warnings\nclass Resets:\n  def __getstate__(self):\n    {does}\n    return {{}}")
        before = list(warnings.filters)
        assert not nb.run("value = Resets(); other = [1]").unsaved
        nb.run("other.append(2)")
        assert list(warnings.filters) == before
        nb.run("other.append(3)")
        nb.session.undo()
        assert nb.look("other") == [1, 2]


def test_a_filter_that_a_reducer_adds_stays() -> None:
    with unwarned():
        warnings.simplefilter("error", BytesWarning)
    assert ("error", None, BytesWarning, None, 0) in warnings.filters


@pytest.mark.parametrize("how", ["error", "always"])
def test_a_value_that_warns_as_it_is_loaded_comes_back_and_says_nothing(
    how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Notebook() as nb:
        nb.run(f"import itertools, warnings\nwarnings.simplefilter({how!r})")
        nb.run(
            "class Old:\n    def __init__(self): self.items = [1]\n"
            "    def __setstate__(self, state):\n        warnings.warn('old', FutureWarning)\n        vars(self).update(state)\n"
            "class Cycle(itertools.cycle): pass"  # from Python 3.12 on, all of itertools warn
        )
        made = nb.run("old, cycle = Old(), Cycle('ab')\ncycle.items = old.items")
        nb.run("old.items.append(2)")
        nb.checkout(made)
        assert nb.look("old.items == [1] and cycle.items is old.items and next(cycle) == 'a'")
        assert nb.look("warnings.filters[0][0]") == how
    assert capfd.readouterr().err == ""
