"""bokeh: a figure that was shown belongs to bokeh's current document, which is bokeh's own and of no commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import LmdbStore
from tests.support.notebooks import Notebook, names_changed, rev

state = pytest.importorskip("bokeh.io.state")

SHOW = """
from bokeh.io import curdoc
from bokeh.plotting import figure
def show(plot):
    if plot not in curdoc().roots: curdoc().add_root(plot)
def draw(width):
    plot = figure(width=width); plot.line([1, 2], [3, 4]); return plot
"""


@pytest.fixture(autouse=True)
def fresh_document() -> Iterator[None]:
    state.curstate().reset()
    yield
    state.curstate().reset()


class TestAFigureThatWasShown:
    def test_is_still_one_of_the_current_document_after_a_checkout_and_can_be_shown_again(self) -> None:
        with Notebook() as nb:
            nb.run(SHOW)
            first = nb.run("plot = draw(400); show(plot)")
            nb.run("plot = draw(300); show(plot); plot.width = 200")
            nb.checkout(rev(first))
            assert nb.look("plot.width, plot.document is curdoc()") == (400, True)
            nb.run("show(plot); show(draw(100))")
            assert nb.look("plot in curdoc().roots and all(one.document is curdoc() for one in plot.references())")

    def test_is_no_change_of_those_that_were_shown_before(self) -> None:
        with Notebook() as nb:
            nb.run(SHOW)
            nb.run("one = draw(400); show(one)")
            assert names_changed(nb.run("two = draw(300); show(two)")) == {"two"}
            assert names_changed(nb.run("one.width = 200")) == {"one"}
            assert names_changed(nb.run("one, two, curdoc().roots")) == set()

    def test_in_a_document_of_ones_own_comes_back_with_that(self) -> None:
        with Notebook() as nb:
            nb.run(SHOW)
            first = nb.run(
                "from bokeh.document import Document\npage = Document(); plot = draw(400); page.add_root(plot)"
            )
            nb.run("page.clear(); plot.width = 200")
            nb.checkout(rev(first))
            assert nb.look("page.roots == [plot] and plot.document is page and page is not curdoc(), plot.width") == (
                True,
                400,
            )

    def test_and_the_document_by_a_name_are_the_ones_that_bokeh_works_with(self) -> None:
        with Notebook() as nb:
            nb.run(SHOW)
            first = nb.run("document = curdoc(); plot = draw(400)")
            nb.run("del document; show(plot)")
            nb.checkout(rev(first))
            assert nb.look("document is curdoc(), plot.document") == (True, None)


def test_after_a_restart_it_can_be_shown_and_no_new_figure_gets_its_ids(tmp_path: Path) -> None:
    with Notebook(Repository.open(LmdbStore(tmp_path / "store"))) as nb:
        nb.run(SHOW)
        nb.run("from bokeh.models import Range1d; unused = [Range1d() for _ in range(2_000)]")
        nb.run("plot = draw(400); show(plot); del unused")
    again = cleandoc("""
        import sys
        from pathlib import Path
        from agent_kernel.session import Repository
        from agent_kernel.storage import LmdbStore
        from tests.support.notebooks import Notebook
        with Notebook(Repository.open(LmdbStore(Path(sys.argv[1]) / "store"))) as nb:
            nb.checkout()
            assert nb.look("plot.width, plot.document is curdoc()") == (400, True)
            nb.run("show(plot); show(draw(100))")
            nb.run("more = {Range1d().id for _ in range(3_000)}")
            assert nb.look("more & {one.id for one in plot.references()}") == set()
    """)
    done = subprocess.run([sys.executable, "-c", again, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
