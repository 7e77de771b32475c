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


def test_an_array_of_a_bound_notebook_can_be_resized() -> None:
    with Notebook() as nb:
        nb.run("import numpy as np\narray = np.arange(5)")
        nb.run("array.resize(3, refcheck=False)")
        assert nb.look("list(array)") == [0, 1, 2]


def test_a_class_that_was_registered_with_an_abstract_one_stays_so() -> None:
    with Notebook() as nb:
        before = nb.run("import abc\nclass Shape(abc.ABC):\n    pass\nclass Square:\n    pass\nsquare = Square()")
        after = nb.run("Shape.register(Square)")
        assert "Shape" in {change.name for change in after.changed}
        nb.checkout(before)
        assert not nb.look("isinstance(square, Shape)")
        nb.checkout(after)
        assert nb.look("isinstance(square, Shape)")


def test_a_masked_array_without_a_mask_has_none_afterwards() -> None:
    with Notebook() as nb:
        made = nb.run("import numpy as np\nmasked = np.ma.array([1, 2])")
        nb.run("del masked")
        nb.checkout(made)
        assert nb.look("masked.mask is np.ma.nomask")


def test_a_value_that_takes_long_to_look_at_does_not_keep_others_waiting() -> None:
    with Notebook() as nb:
        nb.run(
            "inner = [1]\nouter = {'inner': inner}\nslow = {'x': [1]}\ndel inner\nkept = outer['inner']\nkeep = [kept]"
        )
        nb.run("del kept\nimport builtins\nbuiltins.hidden = keep[0]\ndel keep")
        for group in nb.session.workspace.tracking:
            if "slow" in group.members:
                group.cost_s = 10.0
        reports = [nb.run("import builtins as b\nb.hidden.append(2)")]
        reports += [nb.run(f"y = {number}") for number in range(40)]
        nb.run("del builtins.hidden")
    assert any("outer" in {change.name for change in report.changed} for report in reports)


def test_models_are_not_grouped_by_what_an_abstract_class_of_their_library_holds() -> None:
    with Notebook() as nb:
        nb.run("import numpy as np\nfrom sklearn.ensemble import HistGradientBoostingClassifier as Model")
        nb.run("rows = np.random.default_rng(0).random((200, 3))\nlabels = rows[:, 0] > 0.5")
        nb.run("one = Model(max_iter=2).fit(rows, labels)")
        nb.run("other = Model(max_iter=3).fit(rows, labels)")
        assert [group.members for group in nb.session.workspace.tracking if "other" in group.members] == [("other",)]
