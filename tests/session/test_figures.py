"""What many names lead to, such as a figure, is dumped once in a commit; what changed is told as if each were dumped alone.

pyplot changes figures that a cell does not name: those that it was asked for, and no others, are looked at.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import dependencies, serialization
from agent_kernel.session.serialization import Components
from agent_kernel.session.tracking import Living
from agent_kernel.session.workspace import Detector
from agent_kernel.values import aliases, groups, pickler
from agent_kernel.values.reducers import arrays, figures
from tests.support.notebooks import Notebook, names_changed
from tests.support.shells import ShellNotebook

matplotlib: Any = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore")

START = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nimport copy\n"


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with matplotlib.rc_context(), Notebook() as notebook:
        notebook.run(START)
        yield notebook
        notebook.run("plt.close('all')")


def changed(notebook: Notebook, source: str) -> set[str]:
    return {change.name for change in notebook.run(source).changed}


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often objects of each type are pickled, by the name of the type."""
    counts: dict[str, int] = {}
    reduce = pickler.Pickler.reducer_override

    def counted(self: pickler.Pickler, value: object, /) -> object:
        counts[type(value).__name__] = counts.get(type(value).__name__, 0) + 1
        return reduce(self, value)

    monkeypatch.setattr(pickler.Pickler, "reducer_override", counted)
    monkeypatch.setattr(
        Detector, "choose_for_verification", lambda *_: []
    )  # nor is anything looked at in the background
    return counts


@pytest.mark.parametrize("names", [10, 20, 40])
def test_a_figure_is_pickled_at_most_twice_however_many_names_hold_its_parts(
    nb: Notebook, visited: dict[str, int], names: int
) -> None:
    nb.run("fig, axes = plt.subplots(1, 4)\nfor ax in axes: ax.plot([1, 2])")
    rectangles = int(str(nb.look("len(fig.findobj(matplotlib.patches.Rectangle))")))
    lines = "\n".join(f"bar{number}, = axes[{number} % 4].bar([{number}], [2])" for number in range(names))
    visited.clear()
    new = changed(nb, f"{lines}\nholder = {{'first': bar0, 'rest': [bar1, axes]}}\nbars = axes[0].containers")
    assert {f"bar{names - 1}", "holder", "bars", "fig", "axes"} <= new
    # A name that leads to the figure is followed until it arrives there: that is not a dump.
    assert visited["Rectangle"] <= 2 * (rectangles + names) + 2 * names
    visited.clear()
    nb.run("fig")
    assert visited["Rectangle"] <= rectangles + names


@pytest.mark.parametrize("style", ["plt.style.use('classic')", "plt.rcParams['axes.formatter.limits'] = -3, 3"])
def test_figures_are_not_saved_as_one_though_they_hold_a_setting_that_was_made_after_the_import(
    nb: Notebook, visited: dict[str, int], style: str
) -> None:
    nb.run("first, axes = plt.subplots()")
    nb.run(style)
    nb.run("second, (left, right) = plt.subplots(1, 2)")
    nb.run("third, left = plt.subplots()")
    visited.clear()
    assert changed(nb, "fourth, right = plt.subplots()") == {"fourth", "right"}
    groups = nb.session.workspace.tracking.groups
    assert [set(groups[name].members) for name in ("second", "third", "fourth")] == [
        {"second"},
        {"third", "left"},
        {"fourth", "right"},
    ]
    assert visited["Figure"] <= 4


def test_what_a_class_of_matplotlib_makes_at_its_first_use_ties_no_figures_together(nb: Notebook) -> None:
    """The paths of round markers are parts of one circle, which the class of paths makes with the first of them."""
    nb.run("from matplotlib.path import Path")
    nb.run("Path._unit_circle = None\nfirst, left = plt.subplots()\ndots = left.scatter([1, 2], [3, 4])")
    nb.run("first = left = None\nsecond, right = plt.subplots()\nothers = right.scatter([1, 2], [3, 4])")
    groups = nb.session.workspace.tracking.groups
    assert set(groups["dots"].members) == {"dots"}
    assert set(groups["others"].members) == {"second", "right", "others"}


def test_what_classes_of_matplotlib_come_to_hold_one_after_another_ties_no_figures_together(nb: Notebook) -> None:
    nb.run(
        "from matplotlib.path import Path\nfrom matplotlib.text import Text\nfirst, second = plt.figure(), plt.figure()"
    )
    for kind in ("Path", "Text", "Path"):  # a class counts as looked into as it was then, and no other
        nb.run(f"{kind}.shared = Path([(0, 0), (1, 1)])\nfirst.held = second.held = {kind}.shared")
        groups = nb.session.workspace.tracking.groups
        assert set(groups["first"].members) == {"first"}
        assert set(groups["second"].members) == {"second"}
    nb.run("mine = Path([(0, 0), (2, 2)])\nfirst.held = second.held = mine")  # which no class holds
    assert set(nb.session.workspace.tracking.groups["first"].members) == {"first", "second", "mine"}
    nb.run("del Path.shared, Text.shared")


def test_figures_that_share_what_a_person_put_into_both_are_saved_as_one(nb: Notebook) -> None:
    nb.run("plt.style.use('classic')\nfirst, second = plt.figure(), plt.figure()")
    nb.run("first.notes = second.notes = [1]")
    there = nb.run("second.notes.append(2)")
    nb.rollback(nb.session.branch or "main")
    assert nb.look("first.notes is second.notes and first.notes == [1, 2]")
    nb.run("first = second = None")
    nb.checkout(there)
    assert nb.look("first.notes is second.notes and first.notes == [1, 2]")


def test_a_figure_that_only_an_array_of_its_axes_holds_is_pickled_once(nb: Notebook, visited: dict[str, int]) -> None:
    nb.run("fig, axes = plt.subplots(1, 4)")
    rectangles = int(str(nb.look("len(fig.findobj(matplotlib.patches.Rectangle))")))
    visited.clear()
    there = nb.run("fig = None")
    assert visited["Rectangle"] <= rectangles + 4
    nb.run("axes[0].set_title('other')")
    nb.rollback(there)
    assert nb.look("axes[0].get_title() == '' and axes[3].figure.axes == axes.tolist()")


def test_a_setting_that_a_name_holds_too_is_shared_with_the_figures_that_hold_it(nb: Notebook) -> None:
    nb.run("plt.rcParams['axes.formatter.limits'] = -3, 3\nlimits = plt.rcParams['axes.formatter.limits']")
    nb.run("first, one = plt.subplots()")
    there = nb.run("second, other = plt.subplots()")
    nb.run("limits[0] = -4")
    nb.rollback(there)
    held = "all(ax.yaxis.get_major_formatter()._powerlimits is limits for ax in (one, other))"
    assert nb.look(f"limits == [-3, 3] and {held}")


def test_a_new_figure_with_all_its_names_is_pickled_once_though_it_holds_what_a_module_holds(
    nb: Notebook, visited: dict[str, int]
) -> None:
    nb.run("first, (left, right) = plt.subplots(1, 2)")
    visited.clear()
    nb.run("grid, axes = plt.subplots(2, 2)\nfor one in axes.flat: one.imshow([[1, 2], [3, 4]])")
    images = visited["AxesImage"]
    assert images <= 4 + 1  # and `one`, which is followed until it leads to the figure
    held = "axes[0, 0].images[0].cmap.colors is matplotlib._cm_listed._viridis_data"
    nb.run(f"import matplotlib._cm_listed\nkept = grid\nassert {held}")
    visited.clear()
    nb.run("last, ax = plt.subplots()")  # which holds none of it, though others do
    assert visited["Figure"] == 1
    visited.clear()
    changed(nb, "axes[0, 0].set_title('a')")
    assert visited["AxesImage"] <= 4


def test_a_new_figure_is_pickled_once_though_it_stands_where_another_one_died(
    nb: Notebook, visited: dict[str, int]
) -> None:
    nb.run("import matplotlib._cm_listed, matplotlib.figure\nfig, ax = plt.subplots()\nax.imshow([[1]])\nplt.close()")
    known = vars(serialization)["_named_in"]
    made = nb.look("matplotlib.figure.Figure()")
    known[id(made)] = known[id(nb.look("fig"))]  # as if that had died, and this one had its address
    nb.namespace["made"] = made
    visited.clear()
    assert changed(nb, "1") == {"made"}
    assert visited["Figure"] == 1


@pytest.mark.parametrize(("before", "after"), [(4, 4), (4, 1), (1, 4), (4, 0), (0, 4)])
def test_a_new_figure_is_pickled_once_though_another_one_that_held_the_same_has_died(
    nb: Notebook, visited: dict[str, int], before: int, after: int
) -> None:
    source = "grid, axes = plt.subplots(2, 2)\nfor place in range({}): axes.flat[place].imshow([[1, 2], [3, 4]])"
    nb.run("import gc, matplotlib._cm_listed\ngc.collect()")
    nb.run(f"{source.format(0)}\nplt.close('all')")  # with it, what other tests left to die is counted
    for images in (before, before, after, after):
        visited.clear()
        nb.run(source.format(images))
        assert visited["Figure"] == 1
        assert visited.get("AxesImage", 0) == images
        nb.run("plt.close('all')\ndel grid, axes\ngc.collect()")


def test_a_new_figure_is_pickled_once_while_others_with_and_without_images_live_and_die(
    nb: Notebook, visited: dict[str, int]
) -> None:
    nb.run("import gc, matplotlib._cm_listed\nplt.rcParams['figure.max_open_warning'] = 0\ngc.collect()")
    nb.run("first, ax = plt.subplots()\nplt.close()")  # with it, what other tests left to die is counted
    for turn, images in enumerate([2, 0, 3, 2, 0, 1, 0, 2]):
        visited.clear()
        nb.run(f"f{turn}, ax{turn} = plt.subplots()\nfor _ in range({images}): ax{turn}.imshow([[1, 2]])")
        assert visited["Figure"] == 1, turn
        if turn >= 2:
            nb.run(f"plt.close(f{turn - 2})\ndel f{turn - 2}, ax{turn - 2}\ngc.collect()")


class TestAnObjectThatHoldsAFigureAndTablesWithOneMemory:
    MADE = """
    import numpy as np, pandas as pd
    class Grid: pass
    def draw(values):
        grid = Grid()
        grid.fig, ax = plt.subplots(); ax.plot([1, 2]); plt.close()
        frame = pd.DataFrame({"a": values, "t": ["x", "y"]})
        grid.frame, grid.view, grid.column = frame, frame[:], frame["a"]
        return grid
    """

    def test_is_written_behind_the_figure_which_is_pickled_once(self, nb: Notebook, visited: dict[str, int]) -> None:
        nb.run(cleandoc(self.MADE))
        for name in ("one", "two"):
            visited.clear()
            assert changed(nb, f"{name} = draw([1.5, 2.5])") == {name}
            assert visited["Figure"] == 1

    def test_comes_back_with_its_memory_and_its_figure(self, nb: Notebook) -> None:
        nb.run(cleandoc(self.MADE))
        made = nb.run("nan = float('nan'); grid = draw([1.5, nan]); grid.nans = [nan, nan]; more = [grid.fig, nan]")
        nb.run("before = grid.frame; grid.frame.iloc[0, 0] = 9; grid.fig.note = 1; grid.nans.clear(); more.clear()")
        nb.checkout(made)
        assert nb.look("(grid.frame.a[0], grid.view.a[0], grid.column[0])") == (1.5, 1.5, 1.5)
        assert nb.look("np.shares_memory(grid.frame.a, grid.view.a) and np.shares_memory(grid.frame.a, grid.column)")
        assert nb.look("more[0] is grid.fig and not hasattr(grid.fig, 'note')")
        assert nb.look("grid.nans[0] is grid.nans[1] is more[1] is nan")
        nb.run("grid.view.iloc[0, 0] = 7")
        assert nb.look("(grid.frame.a[0], grid.view.a[0])") == (1.5, 7.0)

    def test_is_no_change_where_another_name_for_the_figure_changes_or_looks(self, nb: Notebook) -> None:
        nb.run(cleandoc(self.MADE))
        nb.run("grid = draw([1.5, 2.5]); pair = [grid.fig, grid.view]; alone = [grid.fig, [0]]")
        for source in ("grid, pair, alone", "grid.frame.sum(), pair[1].sum(), alone[1][0]"):
            assert changed(nb, source) == set()
        assert changed(nb, "alone[1].append(1)") == {"alone"}
        assert changed(nb, "grid.fig.note = 1") == {"grid", "pair", "alone"}
        assert changed(nb, "grid, pair, alone") == set()

    def test_comes_back_whole_where_the_figure_holds_a_table_of_that_memory_too(self, nb: Notebook) -> None:
        nb.run(cleandoc(self.MADE))
        made = nb.run("grid = draw([1.5, 2.5]); grid.fig.table = grid.frame[:]; held = [grid.fig, grid.frame.a]")
        nb.run("grid.fig.table = None; grid.frame = grid.view = None; held = None")
        nb.checkout(made)
        assert nb.look("np.shares_memory(grid.fig.table.a, grid.view.a) and np.shares_memory(held[1], grid.frame.a)")
        assert nb.look("held[0] is grid.fig")


def test_names_of_one_figure_are_apart_when_one_moves_to_another_figure(nb: Notebook, visited: dict[str, int]) -> None:
    made = nb.run("fig, ax = plt.subplots()\nax.plot([1, 2])")
    apart = nb.run("ax = plt.figure().add_subplot()\nax.bar([1, 2, 3], [1, 2, 3])")
    visited.clear()
    assert changed(nb, "fig.axes[0].set_title('a')") == {"fig"}
    assert visited["Figure"] == 1
    assert changed(nb, "ax.set_title('b')") == {"ax"}
    assert changed(nb, "x = [1]\nfig.note = ax.note = x") == {"fig", "ax", "x"}
    assert changed(nb, "ax.note.append(2)") == {"fig", "ax", "x"}
    nb.checkout(apart)
    assert nb.look("(ax.figure is fig, len(ax.patches), len(fig.axes[0].lines))") == (False, 3, 1)
    nb.checkout("main")
    assert nb.look("(fig.note is ax.note is x, x)") == (True, [1, 2])
    nb.checkout(made)
    assert nb.look("ax.figure is fig")


def test_names_that_move_to_a_new_figure_have_the_old_one_dumped_once(nb: Notebook, visited: dict[str, int]) -> None:
    made = nb.run("fig, ax = plt.subplots()\nbar = ax.bar(range(20), range(20))[3]\nplt.close()")
    visited.clear()
    assert changed(nb, "fig, ax = plt.subplots()\nplt.close()") == {"fig", "ax"}
    assert visited["Rectangle"] < 2 * 20
    assert nb.look("bar.figure is not fig")
    nb.checkout(made)
    assert nb.look("bar.figure is fig and bar.axes is ax")


class TestAFigureInSpace:
    """Its grid lines are views of small arrays that nothing else holds, each of some of their numbers."""

    SURFACE = """
import numpy as np
grid = np.linspace(0, 6, 12)
X, Y = np.meshgrid(grid, grid)
fig = plt.figure()
ax = fig.add_subplot(projection='3d')
ax.plot_surface(X, Y, np.sin(X) * Y)
fig.canvas.draw()
"""

    def test_is_dumped_as_seldom_as_a_plain_one(self, nb: Notebook, visited: dict[str, int]) -> None:
        nb.run(self.SURFACE)
        nb.run("fig.set_label('a')")
        visited.clear()
        nb.run("fig.set_label('b')")
        assert visited["Poly3DCollection"] == 1
        visited.clear()
        nb.run("ax.set_zlim(0, 9)")
        assert visited["Poly3DCollection"] <= 2

    def test_shares_memory_with_whoever_holds_that_of_its_lines(self, nb: Notebook) -> None:
        nb.run(self.SURFACE)
        made = nb.run("path, other = ax.xaxis.gridlines.get_paths()[:2]\nbase = path.vertices.base")
        assert nb.look("base is not None and np.shares_memory(other.vertices, base)")
        seen = nb.look("path.vertices.tolist()")
        assert changed(nb, "base += 1") >= {"fig", "ax", "path", "other", "base"}
        nb.checkout(made)
        shared = "np.shares_memory(path.vertices, base) and ax.xaxis.gridlines.get_paths()[0] is path"
        assert nb.look(f"{shared} and np.shares_memory(other.vertices, base)")
        assert nb.look("path.vertices.tolist()") == seen
        assert changed(nb, "other.vertices[0, 0] = 7") >= {"fig", "ax", "other", "base"}

    def test_is_found_changed_in_any_of_its_parts(self, nb: Notebook) -> None:
        made = nb.run(self.SURFACE)
        assert changed(nb, "ax.collections[0].get_paths()[3].vertices[1, 1] += 1") == {"fig", "ax"}
        assert changed(nb, "ax.xaxis.gridlines.get_paths()[1].vertices[0, 0] += 1") == {"fig", "ax"}
        assert changed(nb, "ax.collections[0].set_cmap('plasma')") == {"fig", "ax"}
        held = "import matplotlib._cm_listed as listed; ok = ax.collections[0].cmap.colors is listed._plasma_data"
        again = nb.run("fig.set_label('c')")
        nb.checkout(made)
        nb.checkout(again)
        nb.run(held)
        assert nb.look("ok") is True


@pytest.mark.parametrize("count", [10, 20, 40])
def test_objects_that_lead_to_one_another_are_pickled_twice_however_many_names_hold_one(
    nb: Notebook, visited: dict[str, int], count: int
) -> None:
    nb.run("class Node:\n    pass")
    nodes = "\n".join(f"node{number} = Node()" for number in range(count))
    ring = "\n".join(f"node{number}.next = node{(number + 1) % count}" for number in range(count))
    visited.clear()
    assert len(changed(nb, f"{nodes}\n{ring}")) == count
    assert visited["Node"] <= 2 * count + count * (count + 1) // 2 + count


def test_all_that_leads_to_a_change_is_reported_and_nothing_else(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2, 3])\nbp = ax.boxplot([1, 2, 3])\nplt.close()")
    nb.run("other, ax2 = plt.subplots()\nplt.close()\nx = [1]")
    assert changed(nb, "line.set_color('red')") == {"fig", "ax", "line", "bp"}
    assert changed(nb, "bp['boxes'].append(3)") == {"bp"}
    assert changed(nb, "line._x[0] = 5") == {"fig", "ax", "line", "bp"}
    assert changed(nb, "ax.lines[0].get_xdata()[0] = 7") == {"fig", "ax", "line", "bp"}
    assert changed(nb, "fig.note = x") >= {"fig", "ax", "line", "bp"}
    assert changed(nb, "x.append(2)") == {"fig", "ax", "line", "bp", "x"}


def test_a_name_that_is_new_changes_no_other(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nax.plot([1, 2])\nplt.close()")
    assert changed(nb, "aline = ax.lines[0]") == {"aline"}
    assert changed(nb, "held = [aline, ax]") == {"held"}
    assert changed(nb, "del fig") == {"fig"}
    assert changed(nb, "del aline") == {"aline"}
    assert changed(nb, "ax.set_title('t')") == {"ax", "held"}


def test_a_name_that_moves_to_another_artist_is_the_only_one_reported(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\none, two = ax.plot([1, 2], [1, 2], [3, 4], [3, 4])\nplt.close()\npick = one")
    assert changed(nb, "pick = two") == {"pick"}


def test_a_separate_copy_that_is_equal_is_a_change_and_comes_back_apart(nb: Notebook) -> None:
    made = nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nplt.close()\nheld = [line]")
    assert "line" in changed(nb, "import pickle\nline = pickle.loads(pickle.dumps(fig)).axes[0].lines[0]")
    assert nb.look("line in ax.lines") is False
    nb.checkout(made)
    assert nb.look("ax.lines[0] is line and held[0] is line and ax.figure is fig")
    nb.checkout("main")
    assert nb.look("ax.lines[0] is held[0] and line is not held[0] and line.axes is not ax")


def test_an_artist_that_moves_to_another_figure_joins_that_one(nb: Notebook) -> None:
    made = nb.run("a, ax = plt.subplots()\nb, bx = plt.subplots()\nline, = ax.plot([1, 2])\nplt.close('all')")
    nb.run("x = 1")
    assert changed(nb, "line.remove()\nbx.add_line(line) if line.figure is None else None") >= {"a", "ax"}
    nb.run("y = 1")
    there = nb.look("(len(ax.lines), len(bx.lines), line in list(bx.lines))")
    nb.checkout(made)
    assert nb.look("ax.lines[0] is line and not bx.lines")
    nb.checkout("main")
    assert nb.look("(len(ax.lines), len(bx.lines), line in list(bx.lines))") == there


def test_figures_that_share_a_norm_are_saved_together(nb: Notebook) -> None:
    nb.run("a, ax = plt.subplots()\nb, bx = plt.subplots()\nplt.close('all')")
    assert changed(nb, "ax.set_title('apart')") == {"a", "ax"}
    made = nb.run(
        "norm = matplotlib.colors.Normalize(0, 1)\nax.imshow([[1, 2]], norm=norm)\nbx.imshow([[3]], norm=norm)"
    )
    assert changed(nb, "norm.vmax = 5") == {"norm", "a", "ax", "b", "bx"}
    nb.checkout(made)
    assert nb.look("norm.vmax == 1 and ax.images[0].norm is norm and bx.images[0].norm is norm")


def test_a_holder_that_cannot_be_saved_keeps_what_names_share_together(nb: Notebook) -> None:
    nb.run("class Holder:\n    pass\n\nholder = Holder()\nother = Holder()")
    made = nb.run("holder.waiting = other.waiting = (part for part in [1])\nfig, ax = plt.subplots()\nplt.close()")
    made = nb.run("holder.shown = other.shown = ax")
    assert changed(nb, "ax.set_title('t')") == {"fig", "ax", "holder", "other"}
    assert changed(nb, "holder.note = 1") == {"holder"}
    nb.checkout(made)
    assert nb.look("holder.shown is ax and other.shown is ax and ax.figure is fig and ax.get_title() == ''")


def test_the_rest_of_a_group_stays_one_after_its_figure_is_deleted(nb: Notebook) -> None:
    made = nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nplt.close()")
    nb.run("del fig")
    gone = nb.run("x = 1")
    nb.checkout(made)
    assert nb.look("ax.figure is fig and ax.lines[0] is line")
    assert changed(nb, "y = 2") == {"y"}
    nb.checkout(gone)
    assert nb.look("'fig' not in globals() and ax.lines[0] is line")
    assert changed(nb, "line.set_color('red')") == {"ax", "line"}


def test_what_leads_to_one_another_in_a_notebook_is_told_exactly(nb: Notebook) -> None:
    nb.run("class Node:\n    def __init__(self, above=None):\n        self.above, self.below = above, []\n")
    nb.run("root = Node()\nleaf = Node(root)\nroot.below.append(leaf)\nbare = Node()")
    assert changed(nb, "branch = Node(root)\nroot.below.append(branch)") == {"root", "leaf", "branch"}
    assert changed(nb, "also = leaf") == {"also"}
    assert changed(nb, "del leaf") == {"leaf"}
    assert changed(nb, "apart = Node(root)") == {"apart"}
    assert changed(nb, "apart.note = 1") == {"apart"}
    assert changed(nb, "del also\na_first = branch") == {"also", "a_first"}
    assert changed(nb, "bare.below.append(1)") == {"bare"}
    assert changed(nb, "branch.note = 1") == {"root", "branch", "a_first", "apart"}


def test_a_commit_keeps_nothing_of_a_figure_that_was_deleted(nb: Notebook) -> None:
    nb.run(
        "import weakref, gc\nfig, ax = plt.subplots()\nplt.close()\nalive = []\nweakref.finalize(fig, alive.append, 1)"
    )
    nb.run("ax.set_title('t')")
    nb.run("del fig, ax")
    nb.run("gc.collect()")
    assert nb.look("alive") == [1]


BY_PYPLOT = {
    "the current one": ("plt.title('t')", {"b"}),
    "one that becomes the current one": ("plt.figure(1)\nplt.title('t')", {"a"}),
    "all of them, in the order that they were in": (
        "for number in plt.get_fignums():\n    plt.figure(number)\n    plt.title('t')",
        {"a", "b"},
    ),
    "one in passing, with a new one after it": ("plt.figure(1)\nplt.title('t')\nplt.figure(2)\nplt.figure()", {"a"}),
    "one that is closed in the same cell": ("plt.title('t')\nplt.close()", {"b"}),
    "from a function of a library": ("drawing.draw_title()", {"b"}),
    "from the registry": (
        "from matplotlib._pylab_helpers import Gcf\nlist(Gcf.figs.values())[0].canvas.figure.suptitle('t')",
        {"a"},
    ),
    "none": ("plt.figure()\nplt.plot([1, 2])\nplt.close()", set[str]()),
    "none, only closed": ("plt.close('all')", set[str]()),
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", BY_PYPLOT)
def test_a_figure_is_found_that_pyplot_changed_without_its_name(nb: Notebook, what: str) -> None:
    source, expected = BY_PYPLOT[what]
    nb.run(
        "a = plt.figure()\nplt.plot([1])\nb = plt.figure()\nplt.plot([1])\nimport types\ndrawing = types.ModuleType('drawing')\n"
        "exec('import matplotlib.pyplot as plot\\ndef draw_title(): plot.title(\"t\")', vars(drawing))\n"
        "import sys\nsys.modules['drawing'] = drawing"
    )
    try:
        assert changed(nb, source) & {"a", "b"} == expected
    finally:
        nb.run("del sys.modules['drawing']")


def test_open_figures_that_a_cell_leaves_alone_are_not_looked_at(nb: Notebook, visited: dict[str, int]) -> None:
    nb.run("a, ax = plt.subplots()\nb, bx = plt.subplots()")
    visited.clear()
    nb.run("plt.figure()\nplt.plot([1, 2])\nplt.close()")
    assert "Figure" not in visited
    nb.run("bx.set_title('t')")
    assert visited["Figure"] >= 1


def test_pyplots_figures_are_left_as_they_were_when_a_session_ends() -> None:
    with Notebook() as notebook:
        notebook.run(START + "from matplotlib._pylab_helpers import Gcf")
        notebook.run("fig = plt.figure()")
        registry: Any = notebook.namespace["Gcf"]
        there = dict(registry.figs)
    assert type(registry.figs) is OrderedDict
    assert dict(registry.figs) == there
    registry.destroy_all()


def ask_pyplot(plt: Any, registry: Any) -> list[object]:
    """What pyplot and its registry answer to all that is asked of them; ends with no figure open."""
    found: list[object] = []
    for number in (1, 2, 7, "named"):
        plt.figure(number)
    figures = registry.figs
    found += [plt.get_fignums(), plt.get_figlabels(), list(figures), len(figures), 7 in figures, plt.fignum_exists(99)]
    found += [registry.get_active() is figures[next(reversed(figures))], plt.figure(2).number, list(figures)]
    found += [[manager.num for manager in figures.values()], [manager.num for manager in reversed(figures.values())]]
    found += [[number == manager.num for number, manager in figures.items()], figures == OrderedDict(figures.items())]
    found += [
        isinstance(figures, OrderedDict),
        type(figures.copy()) is OrderedDict,
        figures.get(99),
        figures.pop(99, ""),
    ]
    found += [pickle.loads(pickle.dumps(OrderedDict(a=1))), type(copy.copy(figures)) is OrderedDict]
    figures.move_to_end(1)
    found += [registry.get_active().num, [manager.num for manager in registry.get_all_fig_managers()]]
    closed: list[int] = []
    for manager in list(figures.values()):
        manager.canvas.mpl_connect("close_event", lambda event: closed.append(event.canvas.manager.num))
    plt.close(2)
    plt.close(plt.figure(7))
    plt.close("named")
    found += [plt.get_fignums(), list(closed)]
    plt.figure()
    plt.switch_backend("svg")
    found += [plt.get_fignums(), type(plt.figure().canvas.manager).__name__, plt.get_fignums(), repr(figures)[:12]]
    plt.switch_backend("agg")
    plt.close("all")
    found += [plt.get_fignums(), list(closed), len(registry.figs), figures is registry.figs]
    return found


def test_pyplot_answers_while_it_is_watched_as_it_does_before_and_afterwards() -> None:
    import matplotlib.pyplot as plt
    from matplotlib._pylab_helpers import Gcf

    plt.switch_backend("agg")
    plt.close("all")
    before = ask_pyplot(plt, Gcf)
    with Notebook() as outer:
        outer.run(START)
        assert type(Gcf.figs) is not OrderedDict
        assert ask_pyplot(plt, Gcf) == before
        with Notebook() as inner:
            inner.run(START)
            assert ask_pyplot(plt, Gcf) == before
        assert ask_pyplot(plt, Gcf) == before
        outer.run("x = 1")
        assert ask_pyplot(plt, Gcf) == before
    assert type(Gcf.figs) is OrderedDict
    assert ask_pyplot(plt, Gcf) == before


def test_a_cell_of_another_session_takes_nothing_from_what_this_one_is_told(nb: Notebook) -> None:
    with Notebook() as other:
        nb.run("a = plt.figure()\nplt.plot([1])\nfrom matplotlib._pylab_helpers import Gcf")
        other.run("y = 1")
        nb.namespace["run_other"] = other.run
        assert changed(nb, "plt.title('t')\nrun_other('y = 2')") & {"a"} == {"a"}
        nb.namespace["end_other"] = dependencies.leave_figures
        assert changed(nb, "plt.title('u')\nend_other()") & {"a"} == {"a"}
    assert changed(nb, "getattr(plt, 'title')('v')") & {"a"} == {"a"}


def test_a_figure_that_is_only_shown_is_not_looked_at(visited: dict[str, int], tmp_path: Path) -> None:
    with ShellNotebook(tmp_path / "store") as nb:
        nb.run(START + "fig, ax = plt.subplots()\nplt.close()")
        visited.clear()
        assert nb.run("fig").changed == ()
        assert "Figure" not in visited
        assert {change.name for change in nb.run("ax.set_title('t')\nfig").changed} == {"ax", "fig"}
        nb.run("drawn = []\nax.xaxis.set_major_formatter(lambda value, place: drawn.append(value) or '')")
        visited.clear()
        nb.run("fig")  # there is code of the notebook's in it now
        assert visited["Figure"] >= 1
        nb.run(
            "class Mine(type(fig)):\n    def __repr__(self):\n        self.times = 1\n        return ''\n\nmine = Mine()"
        )
        assert {change.name for change in nb.run("mine").changed} == {"mine"}


def test_a_dump_that_others_go_on_from_does_not_count_as_a_holder(nb: Notebook) -> None:
    nb.run("grid, axes = plt.subplots(1, 2)\nimage = axes[0].imshow([[1, 2], [3, 4]])\ncmap = image.cmap")
    assert changed(nb, "other = image.norm") == {"other"}
    assert changed(nb, "axes[1].set_title('t')") >= {"grid", "axes", "image"}
    assert "cmap" not in changed(nb, "axes[1].set_title('u')")


# Arrays that a figure holds in thousands of transforms and lines: how each is reached by a name, and by which attribute.
INNER_ARRAYS = {
    "points of a box": ("ax.dataLim.get_points()", "ax.dataLim._points"),
    "a matrix": ("fig.dpi_scale_trans.get_matrix()", "fig.dpi_scale_trans._mtx"),
    "what a line was given": ("line.get_xdata()", "line._xorig"),
    "a column of what a line draws": ("line.get_ydata(orig=False)", "line._y"),
    "the base of the points of a box": ("held._points.base", "held._points.base"),
    "points that two boxes share": ("ax._position._points", "ax._originalPosition._points"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", INNER_ARRAYS)
def test_a_small_array_inside_a_figure_is_found_and_comes_back_shared_when_a_name_takes_it(
    nb: Notebook, what: str
) -> None:
    taken, inside = INNER_ARRAYS[what]
    nb.run(
        "fig, ax = plt.subplots()\nline, = ax.plot([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])\nfig.canvas.draw()\nplt.close()"
    )
    nb.run("held = fig.held = matplotlib.transforms.Bbox.from_extents(1.0, 2.0, 3.0, 4.0)")
    assert changed(nb, f"points = {taken}") == {"points"}
    whole = nb.run("x = 1")
    before = nb.look("points.tolist()")
    assert changed(nb, "points += 1") >= {"points", "fig", "ax"}
    nb.checkout(whole)
    assert nb.look(f"points.tolist() == {before} and {inside} is points")
    assert changed(nb, "points[...] = 7") >= {"points", "fig", "ax"}
    assert nb.look(f"{inside}.ravel()[0] == 7")
    nb.checkout(whole)
    assert changed(nb, "del points") == {"points"}
    assert nb.look(f"{inside}.tolist() == {before}")
    assert changed(nb, "y = fig") == {"y"}


def test_what_shares_memory_inside_a_figure_still_does_when_it_comes_back(nb: Notebook) -> None:
    made = nb.run(
        "import numpy as np, weakref\nfig, ax = plt.subplots()\nline, = ax.plot([1.0, 2.0], [3.0, 4.0])\n"
        "fig.canvas.draw()\nplt.close()\none, two = (matplotlib.transforms.Bbox.unit() for _ in range(2))\n"
        "base = np.zeros(4)\none._points, two._points = base.reshape(2, 2), base.reshape(2, 2)\n"
        "three = matplotlib.transforms.Bbox.unit()\nthree._points = one._minpos = np.ones((2, 2))\n"
        "fig.boxes = [one, two, three]\nseen = weakref.ref(three._points)\ndel one, two, three, base"
    )
    nb.run("fig = ax = line = seen = None")
    nb.checkout(made)
    assert nb.look("np.shares_memory(fig.boxes[0]._points, fig.boxes[1]._points)")
    assert nb.look("fig.boxes[2]._points is fig.boxes[0]._minpos is seen()")
    assert nb.look("np.shares_memory(line._x, line._xy) and np.shares_memory(line._path.vertices, line._y)")
    assert nb.look("ax.get_position(original=True)._points.tolist() == ax.get_position()._points.tolist()")
    assert changed(nb, "fig.boxes[0]._points[0] = 5") == {"fig", "ax", "line"}
    assert nb.look("fig.boxes[1]._points[0, 0] == 5")


def test_a_line_with_new_data_that_was_not_drawn_yet_is_drawn_as_it_would_have_been(nb: Notebook) -> None:
    nb.run(
        "fig, ax = plt.subplots(subplot_kw={'projection': 'polar'})\nline, = ax.plot([0.0, 3.0], [1.0, 2.0])\n"
        "line.get_path()._interpolation_steps = 50  # an arc, as lines of the grid are\nfig.canvas.draw()\nplt.close()"
    )
    made = nb.run("line.set_data([0.0, 2.0], [1.0, 2.0])")
    pixels = "matplotlib.backends.backend_agg.FigureCanvasAgg(fig).print_to_buffer()[0]"
    drawn = nb.look(pixels)
    nb.run("line.set_data([0.0, 1.0], [1.0, 1.0])")
    assert nb.look(pixels) != drawn
    nb.run("fig = ax = line = None")
    nb.checkout(made)
    assert nb.look("line.get_path()._interpolation_steps") == 50
    assert nb.look(pixels) == drawn


def test_an_array_of_a_figure_that_something_unsaved_holds_is_no_change(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1.0, 2.0])\nplt.close()")
    held = [nb.look("[ax.dataLim._points, line._x, line._yorig]")]
    assert changed(nb, "fig\nax") == set()
    assert changed(nb, "ax.dataLim._points[0] = 0") == {"fig", "ax", "line"}
    held.clear()
    assert changed(nb, "fig\nax") == set()


@pytest.mark.parametrize("held", ["fig", "ax", "line", "held"])
def test_a_list_that_a_figure_holds_is_found_whatever_leads_to_it(nb: Notebook, held: str) -> None:
    nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nplt.close()\nheld = fig.held = {'a': ax.transData}")
    nb.run(f"words = ['a']\n{held}{'[0] = ' if held == 'held' else '.words = '}words")
    made = nb.run("ax.transData.words = words")
    assert changed(nb, "words.append('b')") == {"words", "fig", "ax", "line", "held"}
    nb.checkout(made)
    assert nb.look("words == ['a'] and ax.transData.words is words and fig.held is held")


def test_names_classes_segments_and_a_figure_in_one_group_come_back_as_one(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nplt.plot([1, 2])\nstyles = matplotlib.rcParams")
    nb.run("class Report:\n    shown = [fig]\n    def __init__(self, rows): self.rows, self.ax = rows, ax\n")
    made = nb.run(
        "rows = [{'n': n, 'at': [n]} for n in range(5_000)]\nreport = Report(rows)\nfirst = rows[0]\nax.rows = first['at']"
    )
    one_cause = {
        "plt.title('t')": {"fig", "ax", "report", "Report"},
        "first['at'].append(1)": {"rows", "first", "report", "fig", "ax", "Report"},
        "rows.append({})": {"rows", "report"},
        "Report.shown.append(first)": {"Report"},
    }
    for source, names in one_cause.items():
        assert changed(nb, source) >= names, source
        nb.checkout(made)
        assert nb.look("report.rows is rows and rows[0] is first and ax.rows is first['at'] and report.ax is ax")
        assert nb.look("Report.shown[0] is fig is ax.figure and type(report) is Report and len(rows) == 5_000")
        assert nb.look("styles is matplotlib.rcParams and ax.get_title() == '' and len(Report.shown) == 1")


@pytest.mark.parametrize("names", ["fig, ax", "fig, ax, lines"])
def test_a_look_at_the_names_of_a_figure_is_reckoned_to_take_as_long_as_the_figure(
    nb: Notebook, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """Whichever of them it was dumped for: else the background would look at it as often as at a short list."""
    plain: Any = vars(serialization)["dump_group"]

    def slow(*given: Any, **options: Any) -> Any:
        if options.get("packs"):
            time.sleep(0.05)
        return plain(*given, **options)

    monkeypatch.setattr(serialization, "dump_group", slow)
    nb.run("fig, ax = plt.subplots()\nlines = [*ax.plot([1, 2]), *ax.plot([2, 1])]\nplt.close()")
    groups = nb.session.workspace.tracking.groups
    assert 0.05 <= groups["lines"].cost_s < 0.5
    nb.run(names)  # unchanged
    assert 0.05 <= groups["lines"].cost_s < 0.5


def test_what_the_first_figure_needs_is_loaded_by_the_cell_that_imports_matplotlib() -> None:
    code = (
        "import sys\nfrom tests.support.notebooks import Notebook\nwith Notebook() as notebook:\n"
        f"    notebook.run({START!r})\n    before = set(sys.modules)\n"
        "    notebook.run('fig, ax = plt.subplots()\\nfor i in range(99): ax.plot([i, 2])\\nfig.canvas.draw()')\n"
        "    new = set(sys.modules) - before\n"
        "print(sorted(name for name in new if name.partition('.')[0] in ('agent_kernel', 'pyfastcdc')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_names_that_are_written_behind_a_figure_cost_no_look_through_all_that_was_written_of_it(
    nb: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    list_saved = pickler.Pickler.list_saved

    def counted(self: pickler.Pickler) -> list[object]:
        found = list_saved(self)
        looked.append(len(found))
        return found

    monkeypatch.setattr(pickler.Pickler, "list_saved", counted)
    nb.run("fig, ax = plt.subplots()\nlines = [ax.plot([i, 2])[0] for i in range(20)]\nplt.close()")
    assert sum(length > 500 for length in looked) <= 1  # to find what it shares with others


@pytest.mark.parametrize("names", [200, 400, 800])
def test_the_type_of_many_artists_is_asked_for_how_it_is_saved_once(
    nb: Notebook, monkeypatch: pytest.MonkeyPatch, names: int
) -> None:
    asked: list[object] = []
    names_its_figure: Any = vars(serialization)["_names_its_figure"]

    def counted(kind: Any) -> Any:
        asked.append(kind)
        return names_its_figure(kind)

    monkeypatch.setattr(serialization, "_names_its_figure", counted)
    nb.run(f"fig, ax = plt.subplots()\nbars = [*ax.bar(range({names}), 1)]\nplt.close()")
    assert len(asked) <= 5
    assert set(nb.session.workspace.tracking.groups["bars"].members) == {"fig", "ax", "bars"}


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_what_a_commit_does_for_a_figure_grows_with_its_artists(
    nb: Notebook, visited: dict[str, int], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    calls: dict[str, int] = {}

    def count(module: Any, name: str) -> None:
        plain = getattr(module, name)

        def counted(*given: Any, **options: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return plain(*given, **options)

        monkeypatch.setattr(module, name, counted)

    count(arrays, "find_cluster")
    count(aliases, "_place")
    found: list[int] = []
    draw = "ax.plot([i, 2.0, 3.0])" if kind == "lines" else "ax.bar([i], [2])"
    for number in (20, 40, 80):
        visited.clear()
        calls.clear()
        nb.run(f"fig, ax = plt.subplots()\nfor i in range({number}): {draw}\nplt.close()")
        nb.run("ax.set_title('t')")
        found.append(sum(visited.values()) + sum(calls.values()))
    assert found[2] - found[1] <= 2.2 * (found[1] - found[0])


def test_what_stands_where_a_figure_died_is_not_taken_for_it(nb: Notebook, visited: dict[str, int]) -> None:
    nb.run("other = matplotlib.figure.Figure()\nfig = matplotlib.figure.Figure()\nax = fig.subplots()")
    there = id(nb.look("other.patch"))
    for group in (nb.session.workspace.tracking.groups[name] for name in ("fig", "ax")):
        # As if it had been given the address since.
        group.roots = {
            name: tuple((there, digest, weakref.ref(set[int]())) for _, digest, _ in roots)
            for name, roots in group.roots.items()
        }
    visited.clear()
    nb.run("fig, ax = other, other.subplots()\nax.set_title('t')\nother = None")
    assert visited["Figure"] == 1


def test_of_an_ordinary_figure_nothing_is_written_twice(nb: Notebook) -> None:
    """Only arrays that matplotlib itself shares are held by more than one: the position of each of the axes."""
    nb.run("fig, axes = plt.subplots(2, 2)\nfor ax in axes.flat: ax.plot([1, 2])\nfig.canvas.draw()\nplt.close()")
    components = Components(Living(), nb.namespace)
    component = components.component_of(nb.look("fig"))
    assert component is not None
    found = {f"{type(holder).__name__}.{name}" for holder, name, _ in component.dump.loose}
    assert found <= {"Bbox._points", "BlendedAffine2D._mtx"}
    assert len(component.dump.loose) <= 3 * 4


DRAWN = {
    "an image with its colours": "im = ax.imshow(np.arange(12.).reshape(3, 4))\nfig.colorbar(im)",
    "bars with a legend": "ax.bar(['a', 'b'], [1, 2], label='x')\nax.legend()",
    "three dimensions": "ax = fig.add_subplot(projection='3d')\nax.plot_surface(*np.meshgrid([0., 1.], [0., 1.]), np.eye(2))",
    "two axes in one place": "ax.plot([1., 2.], [3., 4.])\nother = ax.twinx()\nother.plot([1., 2.], [30., 4.], 'r--')",
    "dates": "import datetime\nax.plot([datetime.datetime(2020, 1, day) for day in (1, 5)], [1, 2])\nfig.autofmt_xdate()",
    "boxes": "ax.boxplot([np.arange(9.), np.arange(5.)])\nax.inset_axes([.5, .5, .4, .4]).hist([1, 2, 2])",
}


def test_figures_come_back_as_they_were_drawn(nb: Notebook) -> None:
    nb.run(
        "import numpy as np\nfrom matplotlib.backends.backend_agg import FigureCanvasAgg\n\n"
        "def pixels(figure):\n    canvas = FigureCanvasAgg(figure)\n    canvas.draw()\n"
        "    return np.asarray(canvas.buffer_rgba()).copy()\n"
    )
    for what, source in DRAWN.items():
        made = nb.run(f"fig, ax = plt.subplots(figsize=(3, 2))\n{source}\nplt.close('all')\nbefore = pixels(fig)")
        nb.run("fig = ax = other = im = None")
        nb.checkout(made)
        assert nb.look("np.array_equal(before, pixels(fig))"), what


def test_what_else_comes_to_hold_what_a_module_holds_changes_no_figure(
    nb: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_LARGE_BYTES", 1_000)
    nb.run("import matplotlib._cm_listed\nfig, ax = plt.subplots()\nax.plot([1, 2])\nplt.close()")
    held = [nb.look("matplotlib._cm_listed._viridis_data")]
    assert changed(nb, "fig") == set()
    held *= 2
    assert changed(nb, "x = fig.number if False else 0\nax") == {"x"}


def test_looking_up_colours_changes_no_colormap_but_writing_to_its_table_does() -> None:
    with Notebook() as nb:
        nb.run(
            "import matplotlib.pyplot as plt, matplotlib.colors as mc\n"
            "listed, mixed = plt.get_cmap('viridis').copy(), mc.LinearSegmentedColormap.from_list('m', ['r', 'b'])"
        )
        assert names_changed(nb.run("listed(0.5), mixed([0.1, 0.2])")) == set()
        assert names_changed(nb.run("listed.set_bad('k')")) == {"listed"}
        made = nb.run("mixed(0); mixed._lut[:, -1] = 0.5")
        assert names_changed(made) == {"mixed"}
        nb.run("mixed._lut[:, -1] = 1")
        nb.checkout(made)
        assert nb.look("(mixed(0)[3], listed.get_bad().tolist())") == (0.5, [0, 0, 0, 1])
        held = nb.run("table = mixed._lut")
        nb.run("table[0, 0] = 0.25")
        nb.checkout(held)
        assert nb.look("table is mixed._lut")


PIXELS = "(plt.gcf() is fig, fig.canvas.draw(), bytes(fig.canvas.buffer_rgba()))"
KINDS = {
    "a colorbar": "im = ax.imshow([[1, 2], [3, 4]])\nbar = fig.colorbar(im)",
    "a legend": "ax.plot([1, 2], label='a')\nlegend = ax.legend()",
    "a second scale": "ax.plot([1, 2])\nother = ax.twinx()\nother.plot([30, 10], 'r')",
    "an inset": "ax.plot([1, 2])\nother = ax.inset_axes([0.5, 0.5, 0.4, 0.4])\nax.indicate_inset_zoom(other)",
    "an annotation": "ax.annotate('x', (0.5, 0.5), (0.2, 0.7), arrowprops={'arrowstyle': '->'})",
    "logarithms": "ax.loglog([1, 10, 100], [1, 2, 3])\nax.grid(True, which='both')",
    "bars": "bars = ax.bar(list('abc'), [1, 2, 3])\nax.bar_label(bars)",
    "contours": "lines = ax.contour([[1, 2, 3], [3, 4, 9], [4, 6, 7]])\nax.clabel(lines)",
    "a clipped image": "im = ax.imshow([[1, 2], [3, 4]])\nim.set_clip_path(plt.Circle((0.5, 0.5), 0.3, transform=ax.transData))",
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_that_comes_back_draws_what_it_drew_and_is_the_one_that_pyplot_goes_on_with(
    nb: Notebook, kind: str
) -> None:
    made = nb.run(
        f"fig, ax = plt.subplots()\n{KINDS[kind]}\nfig.canvas.draw()\nplt.figure()\nplt.figure(fig)\nplt.sca(ax)"
    )
    drawn = nb.look(PIXELS)
    nb.run("plt.title('changed')\nax.set_xlim(0.5, 9)\nax.set_yscale('linear')")
    assert nb.look(PIXELS) != drawn
    nb.checkout(made)
    assert nb.look(PIXELS) == drawn
    assert changed(nb, "plt.title('changed')") >= {"fig", "ax"}
    assert nb.look("fig.axes[0] is ax is plt.gca() and ax.get_title()") == "changed"


READINGS = [
    "fig",
    "ax.get_xlim(), ax.get_ylim(), ax.get_xticks(), ax.get_yticks()",
    "[one.get_text() for one in (*ax.get_xticklabels(), *ax.get_yticklabels())]",
    "ax.get_position(), ax.get_window_extent(), ax.viewLim, ax.dataLim, fig.get_size_inches(), ax.bbox.bounds",
    "ax.transData.transform((1, 2)), ax.transData.inverted(), ax.transAxes.inverted().transform((3, 4))",
    "fig.canvas.draw()",
    "fig.canvas.draw()",
    "fig.savefig(__import__('io').BytesIO())",
    "plt.close('all')",
]


@pytest.mark.parametrize("kind", ["a colorbar", "a legend", "a second scale", "logarithms", "bars"])
def test_reading_and_drawing_a_figure_that_was_drawn_changes_nothing(nb: Notebook, kind: str) -> None:
    made = nb.run(f"fig, ax = plt.subplots()\n{KINDS[kind]}\nfig.canvas.draw()\nfig.canvas.draw()")
    assert {source: changed(nb, source) for source in READINGS} == {source: set[str]() for source in READINGS}
    nb.run("ax.set_title('a')")
    nb.checkout(made)
    assert {source: changed(nb, source) for source in READINGS} == {source: set[str]() for source in READINGS}


def test_to_save_a_figure_that_was_shown_changes_nothing_whatever_the_resolution(nb: Notebook) -> None:
    shown = "fig.savefig(__import__('io').BytesIO(), dpi=72, bbox_inches='tight')"
    nb.run(f"fig, ax = plt.subplots()\nax.plot([1, 2e7])\nax.set_xlabel('x')\nlabel = ax.set_ylabel('y')\n{shown}")
    for saved in ("fig.savefig(__import__('io').BytesIO(), dpi=200)", shown, "fig.canvas.draw()"):
        assert changed(nb, saved) == set()
    for change in (
        "fig.patch.set_facecolor('red')",
        "fig.patch.set_edgecolor((0, 0, 1, 0.5))",
        "ax.xaxis.set_label_coords(0.3, -0.2)",
        "label.set_y(0.1)",
        "ax.yaxis.get_offset_text().set_x(0.5)",
    ):
        made = nb.run(change)
        assert names_changed(made) >= {"fig", "ax"}, change
        drawn = nb.look(PIXELS)
        nb.run("ax.clear()\nfig.patch.set_facecolor('green')")
        nb.checkout(made)
        assert nb.look(PIXELS) == drawn, change


# What a figure shows, and changes of it, each of which is seen and undone.
PLACED = {
    "a legend": (
        "ax.plot([1, 2], label='a'); ax.bar([1, 2], [3, 4], label='b'); ax.errorbar([1, 2], [2, 3], yerr=[0.1, 0.2], label='c'); ax.legend(title='t', ncols=2)",
        ("ax.get_legend().set_loc('lower left')", "ax.get_legend().get_texts()[0].set_text('longer')", "ax.get_legend().set_title('new')",
         "ax.get_legend().get_frame().set_linewidth(5)", "ax.get_legend().get_lines()[0].set_linewidth(9)", "ax.get_legend().set_visible(False)"),
    ),
    "a legend as wide as its axes": (
        "ax.plot([1, 2], label='a'); ax.legend(mode='expand', ncols=3, bbox_to_anchor=(0, 1, 1, 0.1), shadow=True)",
        ("ax.get_legend().set_bbox_to_anchor((0, 0.5, 1, 0.1))",),
    ),
    "a legend of a figure": ("ax.plot([1, 2], label='a'); fig.legend()", ("fig.legends[0].set_frame_on(False)",)),
    "a scatter plot": (
        "marks = ax.scatter(range(5), range(5), s=[50, 60, 70, 80, 900])",
        ("marks.set_sizes([9, 900])", "marks.set_offsets([[1, 2], [3, 4]])", "marks.set_linewidth(5)"),
    ),
    "arrows": (
        "for place, more in ((20, {}), (50, {'arrowstyle': '->'})): ax.annotate('a', (0.2, 0.3), (place, 20), textcoords='offset points', arrowprops=more)",
        ("ax.texts[0].set_position((60, 40))", "ax.texts[1].xy = (0.5, 0.9)", "ax.texts[0].arrow_patch.set_facecolor('red')"),
    ),
    "texts in boxes": (
        "ax.annotate('c', (0.2, 0.3), (0.8, 0.1), arrowprops={'arrowstyle': '-|>', 'shrinkB': 9}, bbox={}); ax.text(0.5, 0.9, 'd', bbox={'boxstyle': 'round'}, rotation=20)",
        ("ax.texts[0].arrow_patch.shrinkB = 0", "ax.texts[1].set_rotation(70)", "ax.texts[1].get_bbox_patch().set_facecolor('red')"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("shows", "changes"), PLACED.values(), ids=PLACED)
def test_where_marks_and_texts_are_in_pixels_is_no_content_of_a_figure(
    nb: Notebook, shows: str, changes: tuple[str, ...]
) -> None:
    nb.run(f"fig, ax = plt.subplots()\n{shows}\nfig.canvas.draw(); fig.canvas.draw()")
    for saved in ("fig.savefig(__import__('io').BytesIO(), dpi=200)", "fig.savefig(__import__('io').BytesIO(), dpi=50)", "fig.canvas.draw()"):  # fmt: skip
        assert changed(nb, saved) == set(), saved
    for change in changes:
        before, drawn = nb.session.head, nb.look(PIXELS)
        made = nb.run(change)
        assert names_changed(made) >= {"fig", "ax"}, change
        drawn_after = nb.look(PIXELS)
        assert drawn_after != drawn, change
        nb.checkout(before)
        assert nb.look(PIXELS) == drawn, change
        nb.checkout(made)
        assert nb.look(PIXELS) == drawn_after, change


def test_the_sizes_of_marks_that_a_variable_holds_too_stay_what_the_figure_has(nb: Notebook) -> None:
    made = nb.run(
        "fig, ax = plt.subplots()\nmarks = ax.scatter([1], [2], s=50)\nfig.canvas.draw()\nheld = marks.get_transforms()"
    )
    nb.run("ax.clear(); held = None")
    nb.checkout(made)
    assert nb.look("marks.get_transforms() is held")


def test_drawing_figures_within_a_figure_again_changes_nothing(nb: Notebook) -> None:
    made = nb.run(
        "fig = plt.figure()\nleft, right = fig.subfigures(1, 2)\nax = left.subplots()\nax.plot([1, 2])\nright.suptitle('a')\n"
        "fig.canvas.draw()\nfig.canvas.draw()"
    )
    nb.run("ax.set_title('a')")
    nb.checkout(made)
    assert changed(nb, "fig.canvas.draw()") == set()
    assert changed(nb, "right.suptitle('b')") >= {"fig", "right"}


def test_a_new_figure_changes_no_name_of_an_older_one(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nbars = ax.bar(range(3), range(3))")
    assert changed(nb, "plt.subplots()") == set()
    assert changed(nb, "fig, ax = plt.subplots()") == {"fig", "ax"}


HIDDEN = {
    "through pyplot": "plt.xlim(0, 3)",
    "by an artist held elsewhere": "held[0].set_linewidth(7)",
    "by its attributes": "vars(ax)['_gridOn'] = True",
    "by data in place": "line.get_xydata()[0] = 5",
    "by a matrix in place": "turned._mtx[0, 0] = 3",
    "by points in place": "ax.dataLim._points[0, 0] = -7",
    "by a path in place": "patch.get_path().vertices[0] = 5",
    "by a limit": "ax.set_xbound(0, 50)",
    "by an equal artist in its place": "ax.lines[0].remove(); line, = ax.plot([1, 2, 3], color='C0')",
    "by a setting that is read as it is drawn": "with plt.rc_context({'lines.linewidth': 9}): ax.plot([3, 2, 1])",
    "by a callback that is told": "ax.callbacks._connect_picklable('xlim_changed', line.set_xdata)",
    "by a clip path": "line.set_clip_path(None)",
    "by a tick": "ax.xaxis.get_major_ticks()[0].label1.set_color('r')",
    "by the points of a tick's mark, in place": "ax.xaxis.get_major_ticks()[0].tick1line.get_xydata()[0, 1] = 0.5",
    "by the points of a mark like a tick's, in place": "mark.get_xydata()[0] = 1.5",
    "by the path of a mark like a tick's": "mark.get_path()._interpolation_steps = 9",
    "by the place of a tick's line": "ax.xaxis.get_major_ticks()[0].tick1line.set_ydata([0.5])",
    "by a marker": "mark.set_marker('^')",
    "by the matrix of a marker, in place": "mark._marker._transform._mtx[0, 0] = 3",
    "by the state of a marker": "mark._marker._filled = not mark._marker._filled",
    "by a clip box": "line.set_clip_box(mt.TransformedBbox(mt.Bbox([[0, 0], [0.5, 0.5]]), ax.transAxes))",
    "by the points of a clip box, in place": "line.clipbox._bbox._points[1, 1] = 0.5; line.clipbox.invalidate()",
    "by what a clip box follows": "line.clipbox._transform._a = mt.Affine2D().scale(0.5); line.clipbox._transform.invalidate()",
    "by the attributes of a clip box": "line.clipbox._transform.note = 1",
}


@pytest.mark.sampled
@pytest.mark.parametrize("how", HIDDEN)
def test_what_is_worked_out_when_a_figure_is_drawn_hides_no_change(nb: Notebook, how: str) -> None:
    nb.run(
        "import matplotlib.transforms as mt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2, 3])\nheld = [line]\n"
        "turned = mt.Affine2D().rotate(1)\npatch = ax.add_patch(plt.Polygon([(0, 0), (1, 1), (1, 0)]))\n"
        "mark, = ax.plot([1], [2], ls='none', marker=3)\n"
        "note = ax.text(0, 0, 'a', transform=turned + ax.transData)\nfig.canvas.draw()"
    )
    before = nb.run("fig.canvas.draw()\nx = 0")
    drawn = nb.look(PIXELS)
    assert "fig" in changed(nb, HIDDEN[how])
    after = nb.look(PIXELS)
    there = nb.run("x = 1")
    nb.checkout(before)
    assert nb.look(PIXELS) == drawn
    nb.checkout(there)
    assert nb.look(PIXELS) == after


def test_lines_and_clip_paths_that_came_back_follow_their_transforms(nb: Notebook) -> None:
    made = nb.run(
        "fig, ax = plt.subplots()\nax.plot([1, 20, 300])\nim = ax.imshow([[1, 2], [3, 4]])\n"
        "from matplotlib.transforms import TransformedPath\nfrom matplotlib.path import Path\n"
        "im.set_clip_path(Path.circle((0.5, 0.5), 0.4), ax.transData)\nfig.canvas.draw()"
    )
    source = "ax.set_yscale('symlog')\nax.set_xlim(-3, 3)\nfig.canvas.draw()"
    nb.run(source)
    drawn = nb.look(PIXELS)
    nb.checkout(made)
    assert nb.look("fig.canvas.draw()") is None
    nb.run(source)
    assert nb.look(PIXELS) == drawn


@pytest.mark.parametrize("lines", [10, 20, 40])
def test_of_markers_and_clip_boxes_what_only_they_have_is_not_pickled(
    nb: Notebook, visited: dict[str, int], lines: int
) -> None:
    nb.run("fig, ax = plt.subplots()\nfig.canvas.draw()\nplt.close()")
    visited.clear()
    nb.run(f"for i in range({lines}): ax.plot([i, 2.0, 3.0], 'o-')\nfig.canvas.draw()")
    assert visited["MarkerStyle"] <= int(str(nb.look("len(fig.findobj(matplotlib.lines.Line2D))")))
    assert visited["TransformedBbox"] > lines
    few = ("Bbox", "BboxTransformTo", "CompositeGenericTransform", "Affine2D", "IdentityTransform")
    assert sum(visited.get(name, 0) for name in few) < 100


def test_markers_and_clip_boxes_that_are_alike_are_described_once_however_many_there_are(
    nb: Notebook, visited: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, int] = {}

    def count(name: str) -> None:
        plain = getattr(figures, name)

        def counted(*given: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return plain(*given)

        monkeypatch.setattr(figures, name, counted)

    for name in ("_describe_node", "_describe_method"):
        count(name)
    for kind in ("IdentityTransform", "Affine2D"):
        monkeypatch.setitem(figures._BY_NAME, ("matplotlib.transforms", kind), figures._describe_transform)
    nb.run("fig, ax = plt.subplots()")
    found: list[dict[str, int]] = []
    for number in (20, 40, 80):
        calls.clear()
        visited.clear()
        nb.run(f"for i in range({number}): ax.plot([i, 2.0, 3.0], 'o-')\nfig.canvas.draw()")
        assert visited["MarkerStyle"] > number
        found.append(dict(calls))
    assert found[1].get("_describe_node", 0) <= found[0].get("_describe_node", 0) + 7
    assert found[2].get("_describe_node", 0) < 40
    assert found[2].get("_describe_method", 0) < 40


# What one of many lines that are alike is changed by, and what tells that it is another one.
NOT_ALIKE = {
    "points of its clip box": ("box._bbox._points[1, 1] = 0.5", "box._bbox._points[1, 1] == 0.5"),
    "points that only look alike": (
        "box._bbox._points = np.zeros((2, 2), 'i8'); box._bbox._points_orig[...] = 0",
        "box._bbox._points.dtype == 'i8'",
    ),
    "another shape": ("box._bbox._points = np.array([0., 0., 1., 1.])", "box._bbox._points.shape == (4,)"),
    "read-only points": (
        "box._bbox._points.flags.writeable = False",
        "box._bbox._points.flags.writeable is False",
    ),
    "the order of points": (
        "box._bbox._points = np.asfortranarray(np.eye(2)[::-1] * [[0, 0], [1, 1]])",
        "box._bbox._points.tolist() == [[0, 0], [1, 0]]",
    ),
    "its smallest points": ("box._bbox._minpos[0] = 3", "box._bbox._minpos[0] == 3"),
    "a flag": ("box._bbox._ignore = 1", "type(box._bbox._ignore) is int"),
    "its matrix": ("box._transform._a._b._mtx[0, 2] = 7", "box._transform._a._b._mtx[0, 2] == 7"),
    "a name for a part": ("box._transform._a._shorthand_name = 'mine'", "box._transform._a._shorthand_name == 'mine'"),
    "dimensions": ("box._transform.input_dims = 2.0", "type(box._transform.input_dims) is float"),
    "an attribute more": ("box._transform._a._a.note = [1]", "vars(box._transform._a._a).get('note') == [1]"),
    "a path of its own": ("mark._path = Path([(0, 0), (1, 1)])", "mark._path._vertices.tolist() == [[0, 0], [1, 1]]"),
    "what a marker is turned by": ("mark._transform._mtx[0, 0] = 9", "mark._transform._mtx[0, 0] == 9"),
    "another transform of a marker": (
        "mark._transform = mt.Affine2D().scale(4)",
        "mark._transform._mtx[0, 0] == 4",
    ),
    "whether a marker is filled": ("mark._filled = 0", "type(mark._filled) is int"),
    "where a marker snaps": ("mark._snap_threshold = 0.25", "mark._snap_threshold == 0.25"),
    "the function of a marker": (
        "mark._marker_function = mark._set_square",
        "mark._marker_function.__func__ is type(mark)._set_square and mark._marker_function.__self__ is mark",
    ),
    "the function of another marker": (
        "mark._marker_function = lines[0]._marker._set_circle",
        "mark._marker_function.__self__ is lines[0]._marker",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("how", NOT_ALIKE)
def test_one_of_many_markers_and_clip_boxes_that_becomes_unlike_the_others_is_found_and_comes_back(
    nb: Notebook, how: str
) -> None:
    act, seen = NOT_ALIKE[how]
    nb.run(
        "import numpy as np, matplotlib.transforms as mt\nfrom matplotlib.path import Path\nfig, ax = plt.subplots()\n"
        "lines = [ax.plot([i, 2.0], 'o-')[0] for i in range(6)]\nfig.canvas.draw()"
    )
    before = nb.run("x = 0")
    parts = "box, mark = lines[3].clipbox, lines[3]._marker"
    assert {"fig", "lines"} <= changed(nb, f"{parts}\n{act}\ndel box, mark")
    there = nb.run("x = 1")
    nb.checkout(before)
    nb.execute(parts)
    assert not nb.look(seen)
    nb.checkout(there)
    nb.execute(parts)
    assert nb.look(seen)
    nb.execute("box, mark = lines[2].clipbox, lines[2]._marker")
    assert not nb.look(seen)


@pytest.mark.parametrize(
    "part",
    ["clipbox._bbox", "clipbox._transform", "clipbox._transform._a._a", "clipbox._bbox._points", "_marker._transform"],
)
def test_a_part_of_one_of_many_that_are_alike_stays_what_a_name_holds(nb: Notebook, part: str) -> None:
    nb.run("fig, ax = plt.subplots()\nlines = [ax.plot([i, 2], 's')[0] for i in range(6)]\nfig.canvas.draw()")
    nb.run("x = 0")
    made = nb.run(f"held = lines[3].{part}")
    nb.run("fig = ax = lines = held = None")
    nb.checkout(made)
    assert nb.look(f"held is lines[3].{part} and held is not lines[2].{part} and lines[3].axes is ax")


def test_a_marker_whose_class_has_another_function_by_now_keeps_its_own(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nlines = [ax.plot([i, 2], 's')[0] for i in range(3)]\nfig.canvas.draw()")
    kind: Any = nb.look("type(lines[0]._marker)")
    old = kind._set_square
    kind._set_square = lambda self: old(self)
    try:
        made = nb.run("ax.set_title('a')")
        nb.run("fig = ax = lines = None")
        nb.checkout(made)
        assert nb.look("lines[0]._marker._marker_function.__func__") is not kind._set_square
    finally:
        kind._set_square = old


@pytest.mark.parametrize("part", ["_transform._a", "_transform", "_bbox"])
def test_a_clip_box_that_was_taken_apart_is_saved_as_it_is(nb: Notebook, part: str) -> None:
    nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nfig.canvas.draw()")
    assert changed(nb, f"line.clipbox.{part} = None") >= {"fig", "ax", "line"}
    there = nb.run("x = 1")
    nb.run("fig = ax = line = None")
    nb.checkout(there)
    assert nb.look(f"line.clipbox.{part} is None and line.axes is ax and ax.figure is fig")


def test_what_a_marker_or_clip_box_has_for_itself_stays_what_a_name_holds_of_it(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2], 'o-')\nother, = ax.plot([2, 1], 's')\nfig.canvas.draw()")
    assert changed(nb, "style, box = line._marker, line.clipbox") == {"style", "box"}
    made = nb.run("turn, follows = other._marker._transform, other.clipbox._transform")
    assert nb.look("turn is other._marker._transform and follows is other.clipbox._transform")
    assert changed(nb, "turn.scale(3)") >= {"turn", "fig", "ax", "other"}
    nb.checkout(made)
    held = "style is line._marker and box is line.clipbox and turn is other._marker._transform"
    assert nb.look(f"{held} and follows is other.clipbox._transform")
    assert nb.look("[type(style).__name__, style._marker_function.__self__ is style]") == ["MarkerStyle", True]
    assert changed(nb, "style._filled = None") >= {"style", "fig", "ax", "line"}


def test_transforms_that_came_back_follow_those_below_them_whoever_holds_them(nb: Notebook) -> None:
    made = nb.run(
        "import matplotlib.transforms as mt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2], 'o-')\n"
        "both = mt.Affine2D().translate(1, 0) + ax.transData\nfig.canvas.draw()\nseen = both.transform((0, 0))"
    )
    assert changed(nb, "fig.canvas.draw()") == set()
    nb.run("fig = ax = line = both = None")
    nb.checkout(made)
    assert nb.look("both.transform((0, 0)).tolist() == seen.tolist()")
    nb.run("ax.set_xlim(0, 50)\nax.set_position([0, 0, 0.5, 0.5])\nfig.canvas.draw()")
    assert nb.look("both.transform((0, 0)).tolist() == ax.transData.transform((1, 0)).tolist()")
    assert nb.look(
        "line.clipbox.extents.tolist() == ax.bbox.extents.tolist() == ax.patch.get_window_extent().extents.tolist()"
    )
    assert changed(nb, "fig.canvas.draw()") == set()


def test_a_figure_that_changes_and_gets_another_name_is_pickled_once(nb: Notebook, visited: dict[str, int]) -> None:
    made = nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nplt.close()")
    visited.clear()
    assert changed(nb, "bars = ax.bar([1, 2], [3, 4])\nheld = {'notes': [1], 'bars': bars}") >= {"fig", "ax", "bars"}
    assert visited["Figure"] == 1
    after = nb.run("x = 1")
    nb.checkout(made)
    assert nb.look("(ax.figure is fig, len(ax.patches))") == (True, 0)
    nb.checkout(after)
    assert nb.look("held['bars'] is bars and bars[0] is ax.patches[0] and ax.lines[0] is line and held['notes'] == [1]")


def test_callbacks_come_back_as_those_of_a_plain_copy_and_each_artist_has_its_own(nb: Notebook) -> None:
    made = nb.run("fig, ax = plt.subplots()\nline, = ax.plot([1, 2])\nim = ax.imshow([[1, 2]])\nbar = fig.colorbar(im)")
    nb.run("ax.set_title('a')")
    nb.checkout(made)
    nb.execute("calls = []\nline.add_callback(calls.append)\nline.set_visible(False)\nax.title.set_color('r')")
    assert nb.look("calls == [line]")
    nb.execute("ax.callbacks.connect('xlim_changed', calls.append)\nax.set_xlim(0, 7)")
    assert nb.look("calls == [line, ax]")
    assert nb.look("sorted(vars(line._callbacks)) == sorted(vars(type(fig)()._callbacks))")
    nb.run("del calls")


def test_registries_that_call_nobody_are_written_as_one(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()\nfor i in range(20): ax.plot([i, 2])\nfig.canvas.draw()\nplt.close()")
    component = Components(Living(), nb.namespace).component_of(nb.look("fig"))
    assert component is not None
    stream = component.dump.streams[0]
    opened = [registry for registry in component.dump.instances if type(registry).__name__ == "CallbackRegistry"]
    assert len(opened) > 40
    assert stream.count(b"idle_callbacks") == 1
    # One with a state of its own writes two dicts and an empty set.
    assert stream.count(b"\x8f\x94") < len(opened) / 4


def test_a_list_that_a_name_holds_of_an_idle_registry_stays_one(nb: Notebook) -> None:
    made = nb.run("fig, ax = plt.subplots()\nsignals = ax._callbacks._signals")
    assert changed(nb, "signals.append('other')") >= {"signals", "fig"}
    nb.checkout(made)
    assert nb.look("signals is ax._callbacks._signals and signals") == ["pchanged"]


@pytest.mark.parametrize("columns", [1, 3])
def test_of_clip_boxes_that_were_never_drawn_one_is_worked_out_for_each_of_the_axes(
    nb: Notebook, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    worked_out: list[str] = []
    plain: Any = vars(figures)["_work_out"]

    def counted(node: Any, *given: Any) -> Any:
        worked_out.append(type(node).__name__)
        return plain(node, *given)

    monkeypatch.setattr(figures, "_work_out", counted)
    found: list[int] = []
    for number in (20, 40, 80):
        worked_out.clear()
        lines = f"for ax in axes.flat:\n    for i in range({number}): ax.plot([i, 2.0])"
        nb.run(f"plt.close('all')\nfig, axes = plt.subplots(1, {columns}, squeeze=False)\n{lines}")
        found.append(worked_out.count("TransformedBbox"))
    assert found[0] == found[1] == found[2] <= 12 * columns


# What one of many boxes that were not drawn yet is changed by, and what tells that it is another one.
NEVER_DRAWN = {
    "points": ("box._bbox._points[1, 1] = 0.5", "box._bbox._points[1, 1] == 0.5"),
    "its matrix": ("box._transform._a._b._mtx[0, 2] = 7", "box._transform._a._b._mtx[0, 2] == 7"),
    "what it follows": (
        "box._transform._b = mt.BboxTransformTo(mt.Bbox.unit())",
        "box._transform._b is not other._transform._b and box._transform._b._boxout.width == 1",
    ),
    "an attribute more": ("box.note = [1]", "vars(box).get('note') == [1]"),
    "points that it has already": (
        "box._points = np.zeros((2, 2)); box._invalid = 2",
        "(box.get_points() == other.get_points()).all()",
    ),
}


@pytest.mark.parametrize("how", NEVER_DRAWN)
def test_one_of_many_clip_boxes_that_were_never_drawn_is_found_unlike_the_others_and_comes_back(
    nb: Notebook, how: str
) -> None:
    act, seen = NEVER_DRAWN[how]
    parts = "box, other = lines[3].clipbox, lines[4].clipbox"
    nb.run(
        "import numpy as np, matplotlib.transforms as mt\nfig, axes = plt.subplots(1, 2)\n"
        "lines = [axes[0].plot([i, 2.0], 'o-')[0] for i in range(6)]\naxes[1].plot([1, 2])"
    )
    made = nb.run(f"{parts}\n{act}\nx = 1\ndel box, other")
    nb.execute(parts)
    assert nb.look(seen)
    nb.run("fig = axes = lines = box = other = None")
    nb.checkout(made)
    nb.execute(parts)
    assert nb.look(f"({seen}) and lines[3].figure is fig")
    assert nb.look("axes[1].lines[0].clipbox.get_points().tolist() == axes[1].bbox.get_points().tolist()")
    assert nb.look("lines[5].clipbox.get_points().tolist() == axes[0].bbox.get_points().tolist()")


def test_working_out_clip_boxes_that_were_never_drawn_changes_nothing(nb: Notebook) -> None:
    nb.run("fig, axes = plt.subplots(1, 2)\nlines = [axes[i % 2].plot([i / 9, 0.5], 'o-')[0] for i in range(8)]")
    assert changed(nb, "lines[5].clipbox.get_points()\nlines[6].clipbox.get_points()") == set()
    assert changed(nb, "[line.clipbox.get_points() for line in lines]") == set()


def test_the_names_of_the_attributes_of_artists_are_written_once_for_all(nb: Notebook) -> None:
    nb.run("fig, ax = plt.subplots()")
    sizes: list[int] = []
    for _ in range(2):
        nb.run("ax.bar(range(40), 1)\nfor i in range(40): ax.plot([i, 2]), ax.text(i, 1, 'a')")
        component = Components(Living(), nb.namespace).component_of(nb.look("fig"))
        assert component is not None
        sizes.append(len(component.dump.streams[0]))
    # pickle writes a text once, and a number of one to five bytes wherever it stands again: each of these has fifty names.
    assert sizes[1] - sizes[0] < 120 * 400


@pytest.mark.parametrize("held", ["vars(artist)", "artist"])
@pytest.mark.parametrize("kind", ["ax.patches[7]", "ax.texts[7]", "ax.collections[0]", "ax.xaxis.get_major_ticks()[1]"])
def test_a_change_through_an_artist_or_its_attributes_that_a_name_holds_is_found_and_comes_back(
    nb: Notebook, kind: str, held: str
) -> None:
    nb.run(
        "fig, ax = plt.subplots()\nax.bar(range(9), 1)\nax.scatter([1, 2], [3, 4])\n"
        f"for i in range(9): ax.text(i, 1, 'a')\nartist = {kind}\nheld = {held}\nfig.canvas.draw()"
    )
    before = nb.run("x = 0")
    act = "held['_gid'] = 'changed'" if held != "artist" else "held.set_gid('changed')"
    assert {"fig", "ax", "artist", "held"} <= changed(nb, act)
    there = nb.run("x = 1")
    nb.checkout(before)
    assert nb.look("artist.get_gid() is None and artist.figure is fig")
    nb.checkout(there)
    assert nb.look("artist.get_gid() == 'changed' and artist.figure is fig")
    assert nb.look("held['_gid'] == 'changed'" if held != "artist" else "held is artist")


# What artists of other kinds than lines hold, and what a change of it through the name is told by.
HELD_BY_ARTISTS = {
    "the points of a polygon": (
        "ax.fill([0, 1, 1], [0, 0, 1])[0].get_path().vertices",
        "held[0, 0] = 7",
        "held[0, 0] == 7",
    ),
    "the pixels of an image": ("ax.imshow(np.eye(40)).get_array()", "held[0, 0] = 7", "held[0, 0] == 7"),
    "the places of a scatter": ("ax.scatter(range(40), range(40)).get_offsets()", "held[0, 0] = 7", "held[0, 0] == 7"),
    "the paths of a violin": (
        "ax.violinplot([np.arange(9.)])['bodies'][0].get_paths()",
        "held[0].vertices[0, 0] = 7",
        "held[0].vertices[0, 0] == 7",
    ),
}


@pytest.mark.parametrize("what", HELD_BY_ARTISTS)
def test_what_an_artist_holds_is_found_changed_through_a_name_and_stays_what_the_name_holds(
    nb: Notebook, what: str
) -> None:
    made, act, seen = HELD_BY_ARTISTS[what]
    nb.run(f"import numpy as np\nfig, ax = plt.subplots()\nheld = {made}\nfig.canvas.draw()")
    before = nb.run("x = 0")
    assert {"held", "fig", "ax"} <= changed(nb, act)
    there = nb.run("x = 1")
    nb.checkout(before)
    assert not nb.look(seen)
    nb.checkout(there)
    assert nb.look(seen)
    assert {"held", "fig"} <= changed(nb, act.replace("7", "8"))


@pytest.mark.parametrize("part", ["_bbox._points", "_bbox._points_orig", "_bbox._minpos", "_transform._a._b._mtx"])
def test_an_array_of_one_of_many_clip_boxes_stays_what_a_name_holds(nb: Notebook, part: str) -> None:
    nb.run("fig, ax = plt.subplots()\nlines = [ax.plot([i, 2], 's')[0] for i in range(6)]\nfig.canvas.draw()")
    nb.run("x = 0")
    made = nb.run(f"held = lines[3].clipbox.{part}")
    nb.run("fig = ax = lines = held = None")
    nb.checkout(made)
    assert nb.look(f"held is lines[3].clipbox.{part} and lines[2].clipbox.{part} is not held")
