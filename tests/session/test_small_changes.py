"""Changes that are easily taken for none are found too, and going back over them and forward again is exact."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from itertools import takewhile

import pytest

from agent_kernel.testing.notebooks import Notebook, rev
from tests.session.changes import EQUAL_BUT_NOT_THE_SAME, LIBRARIES, METADATA, SMALL, THROUGH_THE_BACK_DOOR, Small

pytestmark = pytest.mark.filterwarnings("ignore")


def as_params(smalls: tuple[Small, ...]) -> list[object]:
    return [
        pytest.param(small, id=f"{small.make.splitlines()[-1]} | {small.change.splitlines()[-1]}") for small in smalls
    ]


@pytest.fixture(autouse=True)
def clean_builtins() -> Iterator[None]:
    yield
    if hasattr(builtins, "shared_list"):
        delattr(builtins, "shared_list")


@pytest.mark.parametrize("small", as_params((*EQUAL_BUT_NOT_THE_SAME, *METADATA, *LIBRARIES)))
def test_a_small_change_is_reported_in_the_same_cell(small: Small) -> None:
    if small.needs:
        pytest.importorskip(small.needs)
    with Notebook() as nb:
        nb.run(small.make)
        before = repr(nb.look(small.look))
        report = nb.run(small.change)
        assert repr(nb.look(small.look)) != before
        assert small.name in {change.name for change in report.changed}


@pytest.mark.parametrize("small", as_params(THROUGH_THE_BACK_DOOR))
def test_a_change_through_a_back_door_is_found_before_anything_is_replaced(small: Small) -> None:
    with Notebook() as nb:
        made = nb.run(small.make)
        nb.run(small.change)
        nb.session.verify_all()
        since = takewhile(lambda found: found[0] != made.commit, nb.repo.log(nb.repo.resolve("HEAD")))
        assert small.name in {change.name for _, commit in since for change in commit.changed}


@pytest.mark.parametrize("small", as_params(SMALL))
def test_going_back_and_forward_is_exact(small: Small) -> None:
    if small.needs:
        pytest.importorskip(small.needs)
    with Notebook() as nb:
        made = nb.run(small.make)
        before = repr(nb.look(small.look))
        nb.run(small.change)
        after = repr(nb.look(small.look))
        nb.checkout(made)
        assert repr(nb.look(small.look)) == before
        nb.checkout("main")
        assert repr(nb.look(small.look)) == after
        nb.checkout(rev(made))
        assert repr(nb.look(small.look)) == before


def test_a_figure_that_only_pyplot_names_is_found_in_the_same_cell() -> None:
    with Notebook() as nb:
        nb.run(
            "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()"
        )
        nb.run("x = 1")
        report = nb.run("plt.title('drawn')")
        nb.run("plt.close('all')")
    assert {"figure", "axes"} <= {change.name for change in report.changed}


def test_a_widget_is_named_as_unsaved_and_stays_where_it_is() -> None:
    with Notebook() as nb:
        report = nb.run("import ipywidgets\nslider = ipywidgets.IntSlider(3)\nx = [1]")
        assert [unsaved.name for unsaved in report.unsaved] == ["slider"]
        slider = nb.look("slider")
        nb.run("x.append(2)")
        nb.checkout(report)
        assert nb.look("slider") is slider
        assert nb.look("x") == [1]


def test_an_empty_database_in_memory_comes_back() -> None:
    with Notebook() as nb:
        made = nb.run("import sqlite3\ndb = sqlite3.connect(':memory:')")
        assert made.unsaved == ()
        nb.run("db.close()\ndel db")
        nb.checkout(made)
        assert nb.look("db.execute('select 1').fetchall()") == [(1,)]
        nb.run("db.close()")


def test_reading_a_column_of_dates_is_no_change() -> None:
    with Notebook() as nb:
        nb.run("import pandas as pd\nframe = pd.DataFrame({'d': pd.date_range('2020', periods=50)})")
        report = nb.run("frame.sample(5)\nframe.d.dt.year.sum()\nframe.d.values\nframe.describe()")
        assert report.changed == ()
