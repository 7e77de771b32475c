"""Objects whose library saves copies of what they hold stay one with the names for their parts: figures of plotly, documents of bs4."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

LIBRARY = """
class Part:
    def __init__(self, whole, label):
        self.whole, self.label = whole, label
    def __reduce__(self):
        return Part, (None, self.label)

class Whole:
    made = 0
    def __init__(self, labels):
        self.parts = tuple(Part(self, label) for label in labels)
        self.style = STYLE
        Whole.made += 1
    def __reduce__(self):
        return Whole, ([part.label for part in self.parts],)

class Locked(Whole):
    def __init__(self, labels):
        super().__init__(labels)
        self.going_on = (one for one in ())
    def __reduce__(self):
        return Locked, ([part.label for part in self.parts],)

class Style:
    def __init__(self):
        self.colors = ["red"]
    def __reduce__(self):
        return Style, ()

STYLE = Style()
"""


@pytest.fixture(autouse=True)
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "wholes.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("wholes", None)


@pytest.mark.parametrize(
    ("made", "whole", "part"),
    [
        ("w = wholes.Whole('ab'); p = w.parts[0]", "w", "p"),
        ("p = wholes.Whole('ab').parts[0]; w = p.whole", "w", "p"),
        ("w = {'w': wholes.Whole('ab')}; p = [w['w'].parts[0]]", "w['w']", "p[0]"),
        ("w = wholes.Locked('ab'); p = w.parts[0]", "w", "p"),
    ],
)
def test_a_change_through_a_part_is_a_change_of_the_whole_in_the_same_cell(made: str, whole: str, part: str) -> None:
    shown = f"({whole}.parts[0].label, {part}.label)"
    with Notebook() as nb:
        first = nb.run(f"import wholes\n{made}")
        through_part = nb.run(f"{part}.label = 'c'")
        assert names_changed(through_part) == {"w", "p"}
        through_whole = nb.run(f"{whole}.parts[0].label = 'd'")
        assert names_changed(through_whole) == {"w", "p"}
        for commit, label in ((first, "a"), (through_whole, "d"), (through_part, "c")):
            nb.checkout(commit)
            assert nb.look(shown) == (label, label)


@pytest.mark.parametrize(
    "made",
    [
        ("w = wholes.Whole('ab'); p = w.parts[0]",),
        ("w = wholes.Whole('ab')", "p = w.parts[0]"),
        ("w = wholes.Whole('ab')\nparts = [w]", "p = parts[0].parts[0]"),
    ],
)
def test_the_whole_and_the_part_come_back_as_they_were(made: tuple[str, ...]) -> None:
    store = MemoryStore()
    shown = "(w.parts[0] is p, p.whole is w, [part.label for part in w.parts], w.style is wholes.STYLE)"
    with Notebook(Repository.open(store)) as nb:
        *_, first = [nb.run(cell) for cell in ("import wholes", *made)]
        assert first.unsaved == ()
        nb.run("p.label = 'c'")
        nb.checkout(first)
        assert nb.look(shown) == (True, True, ["a", "b"], True)
        assert names_changed(nb.run("p.label = 'd'")) >= {"w", "p"}
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == (True, True, ["a", "b"], True)


def test_wholes_that_share_what_their_library_holds_are_values_of_their_own() -> None:
    with Notebook() as nb:
        nb.run("import wholes\nw = wholes.Whole('ab'); v = wholes.Whole('ab'); p = v.parts[0]")
        assert names_changed(nb.run("w.parts[0].label = 'c'")) == {"w"}
        assert names_changed(nb.run("p.label = 'c'")) == {"v", "p"}


def test_a_whole_without_names_for_its_parts_is_saved_as_its_library_says() -> None:
    with Notebook() as nb:
        first = nb.run("import wholes\nw = wholes.Whole('ab')")
        nb.run("w.parts[0].label = 'c'\nmade = wholes.Whole.made")
        nb.checkout(first)
        assert nb.look("(w.parts[0].label, wholes.Whole.made > 1)") == ("a", True)


def test_a_look_at_a_part_is_no_change() -> None:
    with Notebook() as nb:
        nb.run("import wholes\nw = wholes.Whole('ab'); p = w.parts[0]")
        assert nb.run("p.label, w.parts").changed == ()
        assert nb.run("p.seen = w.looked = None; del p.seen, w.looked").changed == ()


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_a_figure_of_plotly_and_its_trace() -> None:
    pytest.importorskip("plotly")
    store = MemoryStore()
    shown = "(list(f.data[0].y), f.data[0] is t, f.layout is layout, f.layout.title.text)"
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(
            "import plotly.graph_objects as go\nf = go.Figure(go.Scatter(y=[1, 2])); t = f.data[0]; layout = f.layout"
        )
        assert names_changed(nb.run("t.y = [3, 4]")) >= {"f", "t"}
        last = nb.run("layout.title.text = 'T'")
        assert names_changed(last) >= {"f", "layout"}
        nb.checkout(first)
        assert nb.look(shown) == ([1, 2], True, True, None)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(last)
        assert nb.look(shown) == ([3, 4], True, True, "T")


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_arrays_in_a_figure_of_plotly_stay_arrays() -> None:
    """plotly pickles texts in their place, as it sends them to the page, and a figure made of those keeps the texts."""
    pytest.importorskip("plotly")
    store = MemoryStore()
    shown = "([f.data[0].y.mean() for f in (plain, own, held['f'])], own.kept, list(frames.frames[0].data[0].x))"
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(
            "import numpy as np\nimport plotly.graph_objects as go\nclass Own(go.Figure):\n    kept = 0\n"
            "line = go.Scatter(y=np.arange(3.0))\nplain, own, held = go.Figure(line), Own(line), {'f': go.Figure(line)}\n"
            "own.kept = [1]\nframes = go.Figure(line, frames=[go.Frame(data=[go.Bar(x=np.arange(2))])])"
        )
        nb.run("plain = own = held = frames = None")
        nb.checkout(made)
        assert nb.look(shown) == ([1.0, 1.0, 1.0], [1], [0, 1])
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert nb.look(shown) == ([1.0, 1.0, 1.0], [1], [0, 1])
        assert names_changed(nb.run("plain.data[0].y = plain.data[0].y + 1")) == {"plain"}
        assert not names_changed(nb.run("text = None; plain.layout.xaxis.title; str(plain)")) - {"text"}


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_what_functions_of_plotly_set_on_a_figure_comes_back() -> None:
    pytest.importorskip("plotly")
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(
            "import plotly.graph_objects as go\nf = go.Figure(go.Scatter(y=[1])); f._px_trendlines = fits = [2.5]"
        )
        nb.run("f = fits = None")
        nb.checkout(made)
        assert nb.look("f._px_trendlines is fits")
        assert names_changed(nb.run("fits.append(3.5)")) == {"f", "fits"}
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert nb.look("f._px_trendlines is fits and fits == [2.5]")


def test_a_document_of_bs4_and_its_elements() -> None:
    pytest.importorskip("bs4")
    store = MemoryStore()
    shown = "(str(soup), soup.p is p, found[0] is p, p.parent is soup.div)"
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(
            "from bs4 import BeautifulSoup\nsoup = BeautifulSoup('<div><p>x</p></div>', 'html.parser')\n"
            "p = soup.p; found = soup.find_all('p')"
        )
        assert names_changed(nb.run("p['id'] = 'q'")) >= {"soup", "p", "found"}
        nb.checkout(first)
        assert nb.look(shown) == ("<div><p>x</p></div>", True, True, True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == ("<div><p>x</p></div>", True, True, True)


def test_what_is_found_again_in_a_document_of_bs4_after_restarts_leaves_it_unchanged() -> None:
    pytest.importorskip("bs4")
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("from bs4 import BeautifulSoup\nsoup = BeautifulSoup('<tr><td>1</td></tr>', 'html.parser')")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout("main")
        nb.run("cells = soup.select('td')")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout("main")
        assert names_changed(nb.run("rows = soup.select('tr')")) == {"rows"}
        assert names_changed(nb.run("cells = soup.select('td')")) == set()
