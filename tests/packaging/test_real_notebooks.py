"""The runner of real notebooks: what it finds of two small ones, and what its fingerprints see or say that they do not."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import pickle
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets import HasTraits, Int

from benchmarks.fingerprints import differences, fingerprints, uncompared
from benchmarks.real_notebooks.report import dearest, line_of, problems, summarize
from benchmarks.real_notebooks.runs import Result, Runner, cells_of, find


def a_notebook(path: Path, *sources: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"cell_type": "code", "source": source.splitlines(keepends=True)} for source in sources]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "text"}, *cells], "nbformat": 4}))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("notebooks")
    a_notebook(
        folder / "first" / "plain" / "words.ipynb",
        "words = open('../data/words.txt').read().split()",
        "rows = [{'word': word} for word in words]\nshared = rows",
        "1 / 0",
        "rows.append({'word': 'more'})\n!rm -r ../data",
        "open('../data/words.txt').read()",
    )
    (folder / "first" / "data").mkdir()
    (folder / "first" / "data" / "words.txt").write_text("one two three")
    fonts = tmp_path_factory.mktemp("fonts")
    (fonts / "fontlist.json").write_text("{}")
    seen = "import os, pathlib\nplace = pathlib.Path(os.environ['MPLCONFIGDIR'])"
    listed = "assert [one.name for one in place.iterdir()] == ['fontlist.json']\n(place / 'own').touch()"
    a_notebook(folder / "fonts.ipynb", seen, listed, "del place")
    a_notebook(folder / "holds.ipynb", "count = 1", "lines = (line for line in 'abc')", "count += 1", "%%bash\nexit 1")
    runner = Runner(folder, limit_s=60, rounds=1, matplotlib=fonts)
    return {path.stem: runner.run(path, turn) for turn, path in enumerate(find(folder))}


def test_a_notebook_runs_beside_its_data_and_changes_nothing_outside(results: dict[str, Result]) -> None:
    words = results["words"]
    assert (words.stopped, words.failed, words.errors, words.complaints) == ("", 1, [], {})
    assert (len(words.plain), len(words.ours), words.variables) == (5, 5, 3)


def test_it_goes_to_three_earlier_commits_and_back_and_restarts(results: dict[str, Result]) -> None:
    words = results["words"]
    assert [one["cell"] for one in words.checkouts] == [1, 2, 3, 5]
    assert [(one["refused"], one["wrong"]) for one in words.checkouts] == [("", [])] * 4
    assert words.restart["exact"]
    assert problems(words) == []


def test_each_run_finds_the_fonts_of_the_machine_listed_and_what_no_other_run_wrote(results: dict[str, Result]) -> None:
    assert (results["fonts"].stopped, results["fonts"].failed, results["fonts"].errors) == ("", 0, [])


def test_what_is_not_saved_counts_as_said(results: dict[str, Result]) -> None:
    holds = results["holds"]
    assert holds.restart["said"] == ["lines"]
    assert not holds.restart["exact"]
    assert problems(holds) == []
    assert "restart said" in line_of(holds)


def test_the_table_says_what_is_missed() -> None:
    good = {"refused": "", "wrong": [], "cell": 2}
    restart = {"wrong": [], "error": "", "said": [], "exact": True, "text": ""}
    one = Result("one", sources=["a", "b"], plain=[1.0, 1.0], ours=[1.1, 2.2], checkouts=[good], restart=restart)
    wrong = {**restart, "wrong": ["x"], "exact": False}
    two = Result("two", sources=["c"], plain=[1.0], ours=[1.0], complaints={1: ["no"]}, restart=wrong)
    two.checkouts = [{**good, "wrong": ["x"]}]
    table = summarize([one, two, Result("three", stopped="ended")])
    assert table.title.startswith("2 notebooks, 3 cells")
    assert {row.what: row.ours for row in table.rows if row.ok is False} == {
        "whole notebook, 2 of 1 s and more: median": "1.33×",
        "… 90th percentile": "1.59×",
        "cells that cost 100 ms more": "66.7% (2)",
        "… 1 s more": "33.33% (1)",
        "cells whose commit failed, or that show a traceback of ours": "1 in 1 notebooks",
        "checkouts exact": "1 of 2",
        "a new process brings everything back, or says what not": "1 of 2",
        "first cell, median": "50.0 ms",
    }
    assert dearest([one, two], 1)[0].endswith("one cell 2: b")
    assert len(problems(two)) == 3


def test_a_notebook_of_an_old_format_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["a = 1"]}]}]}))
    assert cells_of(path) == ["a = 1"]


class Slotted:
    __slots__ = ("content",)

    def __init__(self, content: object) -> None:
        self.content = content


class Named(list[object]):
    name = ""


def a_named_list(name: str) -> Named:
    made = Named([1])
    made.name = name
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda n: defaultdict(int, {"a": n}),
        lambda n: Counter(a=n),
        lambda n: OrderedDict(a=n),
        lambda n: deque([n]),
        lambda n: {"a": [{n}]},
        lambda n: Slotted(n),
        lambda n: Named([n]),
        lambda n: a_named_list(str(n)),
        lambda n: Fraction(n, 7),
        lambda n: SimpleNamespace(a=n),
        lambda n: iter([n]),
        lambda n: ValueError(n),
        lambda n: [].append if n == 1 else [1].append,
        lambda n: property([].append if n == 1 else [1].append),
    ],
)
def test_a_fingerprint_sees_the_content(make: Callable[[int], object]) -> None:
    one, same, other = (fingerprints({"value": make(n)}, set()) for n in (1, 1, 2))
    assert differences(one, same) == []
    assert differences(one, other) == ["value"]


class Shape:
    def __init__(self, sides: int) -> None:
        self.sides = sides

    @functools.cached_property
    def corners(self) -> list[int]:
        return [*range(self.sides)]


def test_what_a_cached_property_keeps_is_no_content() -> None:
    asked, other = Shape(3), Shape(4)
    assert asked.corners == [0, 1, 2]
    found = [fingerprints({"value": value}, set()) for value in (asked, Shape(3), other)]
    assert differences(found[0], found[1]) == []
    assert differences(found[0], found[2]) == ["value"]


class cache_readonly:  # as the one of statsmodels, which keeps the answers of all in one dict
    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def __get__(self, of: Any, _: type) -> object:
        return vars(of).setdefault("_cache", {}).setdefault(self.function.__name__, self.function(of))


class Fit:
    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    @cache_readonly
    def mean(self) -> float:
        return sum(self.numbers) / len(self.numbers)


def test_what_statsmodels_keeps_of_cached_properties_is_no_content() -> None:
    asked, other = Fit([1, 3]), Fit([2, 2])
    assert asked.mean == 2
    found = [fingerprints({"value": value}, set()) for value in (asked, Fit([1, 3]), other)]
    assert differences(found[0], found[1]) == []
    assert differences(found[0], found[2]) == ["value"]


def test_arrays_that_lie_between_each_other_share_nothing_and_those_with_one_element_in_common_do() -> None:
    np = pytest.importorskip("numpy")
    table, other = np.zeros((3, 4)), np.zeros((3, 4))
    column, next_one, row = table[:, 0], table[:, 1], table[1]
    apart = fingerprints({"a": column, "b": other[:, 1]}, set())
    assert differences(fingerprints({"a": column, "b": next_one}, set()), apart) == []
    assert "(sharing) a~b" in differences(fingerprints({"a": column, "b": row}, set()), apart)


def test_for_which_levels_a_logger_was_asked_is_no_content_and_its_level_is() -> None:
    logger = logging.getLogger("tests.asked")
    logger.setLevel(logging.ERROR)
    before = fingerprints({"logger": logger}, set())
    logger.info("asks")
    assert fingerprints({"logger": logger}, set()) == before
    logger.setLevel(logging.INFO)
    assert fingerprints({"logger": logger}, set()) != before


def test_which_loggers_the_process_has_is_no_content_of_one_and_what_an_outer_one_is_set_to_is() -> None:
    logger = logging.getLogger("tests.outer.inner")
    outer = logging.getLogger("tests.outer")
    before = fingerprints({"logger": logger}, set())
    logging.getLogger("tests.another")
    assert fingerprints({"logger": logger}, set()) == before
    outer.setLevel(logging.CRITICAL)
    assert fingerprints({"logger": logger}, set()) != before


class Marked(bytearray):
    """Not all of its content is in attributes, so it is compared by what pickle is told."""


def _marked(**attributes: int) -> Marked:
    made = Marked(b"ab")
    vars(made).update(attributes)
    return made


def test_in_which_order_an_object_got_its_attributes_is_no_content() -> None:
    values = (_marked(a=1, b=2), _marked(b=2, a=1), _marked(a=1, b=3))
    found = [fingerprints({"value": value}, set()) for value in values]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"]]


def test_a_transform_is_what_it_gives_whether_or_not_it_was_asked() -> None:
    transforms: Any = pytest.importorskip("matplotlib.transforms")

    def make(shift: float) -> Any:
        box = transforms.Bbox.from_bounds(shift, 0, 2, 2)
        blended = transforms.blended_transform_factory(transforms.BboxTransformTo(box), transforms.IdentityTransform())
        return transforms.Affine2D().scale(2) + transforms.TransformWrapper(blended)

    asked, same, other = make(1), make(1), make(2)
    for ask in (asked.inverted, asked.get_affine, asked.get_matrix):
        ask()
    found = [fingerprints({"value": value}, set()) for value in (asked, same, other)]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"]]
    moved = fingerprints({"value": asked + transforms.Affine2D().translate(1, 0)}, set())
    assert differences(found[0], moved) == ["value"]


def test_what_pandas_keeps_of_its_answers_is_content_where_the_keys_were_written_over() -> None:
    pd: Any = pytest.importorskip("pandas")

    def group() -> Any:
        return pd.DataFrame({"k": [1, 1, 2], "v": [1, 2, 3]}).groupby("k")

    asked, old = group(), group()
    asked.sum()
    old.sum()
    for groups in (old, other := group()):
        groups._grouper.groupings[0].grouping_vector = groups.obj["v"]._values  # as by a write before pandas 3
    found = [fingerprints({"value": value}, set()) for value in (group(), asked, old, other)]
    assert differences(found[0], found[1]) == []
    assert differences(found[2], found[3]) == ["value"]


def test_a_colormap_is_the_colours_that_it_gives_whether_or_not_one_was_looked_up() -> None:
    colors: Any = pytest.importorskip("matplotlib.colors")
    asked, same, other = (colors.ListedColormap(["red", last]) for last in ("blue", "blue", "black"))
    bad = same.with_extremes(bad="green")
    assert asked(0) == (1, 0, 0, 1)
    found = [fingerprints({"value": value}, set()) for value in (asked, same, other, bad)]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"], ["value"]]


def _last_group(items: Any) -> Any:
    *_, (_, last) = itertools.groupby(items)
    return last


@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")  # from Python 3.12
@pytest.mark.parametrize("make", [iter, lambda items: iter(dict.fromkeys(items)), _last_group, itertools.chain])
@pytest.mark.parametrize("items", [[1, 2], (1, 2), "12"])
def test_an_iterator_at_its_end_is_what_it_is_when_it_was_saved_there(items: Any, make: Callable[[Any], Any]) -> None:
    ended = make(items)
    list(ended)
    places = [ended, pickle.loads(pickle.dumps(ended)), iter(items)]
    found = [fingerprints({"value": zip(place, items, strict=False)}, set()) for place in places]
    assert [differences(found[0], one) for one in found] == [[], [], ["value"]]


def test_a_tensor_is_its_content_wherever_that_lies_and_whatever_shares_it() -> None:
    torch: Any = pytest.importorskip("torch")

    def made(first: float, *, shared: bool) -> dict[str, str]:
        whole = torch.tensor([[first, 2.0], [3.0, 4.0]], requires_grad=True)
        part = whole.detach()[1] if shared else whole.detach()[1].clone()
        return fingerprints({"value": [whole, part, torch.nn.Parameter(part), whole.untyped_storage()]}, set())

    kept = torch.zeros(1_000)
    was = made(1.0, shared=True)
    assert kept.numel()
    found = [made(1.0, shared=True), made(5.0, shared=True), made(1.0, shared=False)]
    assert [differences(was, one) for one in found] == [[], ["value"], ["value"]]


def test_a_gradient_of_a_tensor_is_content() -> None:
    torch: Any = pytest.importorskip("torch")
    value = torch.ones(2, requires_grad=True)
    was = fingerprints({"value": value}, set())
    (value * 3).sum().backward()
    assert differences(was, fingerprints({"value": value}, set())) == ["value"]
    found = [fingerprints({"value": one}, set()) for one in (value * 3, (value * 3).detach().requires_grad_())]
    assert differences(*found) == []
    assert [uncompared(one) for one in found] == [["value: the graph of a torch.Tensor"], []]


def test_a_look_at_callbacks_changes_them_as_little_as_the_number_of_the_next_one_changes_a_colorbar() -> None:
    figure: Any = pytest.importorskip("matplotlib.figure").Figure()
    image = figure.add_subplot().imshow([[1, 2]])
    bar = figure.colorbar(image)
    given = next(image.norm.callbacks._cid_gen)
    found = [fingerprints({"bar": bar}, set()) for _ in range(2)]
    assert next(image.norm.callbacks._cid_gen) == given + 1
    found.append(fingerprints({"bar": bar}, set()))
    figure.canvas.callbacks._connect_picklable("pick_event", bar.update_ticks)
    found.append(fingerprints({"bar": bar.ax.figure._canvas_callbacks}, set()))
    found.append(fingerprints({"bar": type(figure)()._canvas_callbacks}, set()))
    assert [differences(found[0], one) for one in found[:3]] == [[], [], []]
    assert differences(found[3], found[4]) == ["bar"]


def test_what_a_library_holds_under_a_name_is_compared_by_that_name() -> None:
    matplotlib: Any = pytest.importorskip("matplotlib")
    was = fingerprints({"settings": matplotlib.rcParams, "own": [1]}, set())
    with matplotlib.rc_context({"font.size": 23}):
        now = fingerprints({"settings": matplotlib.rcParams, "own": [2]}, set())
    copied = fingerprints({"settings": matplotlib.rcParams.copy(), "own": [1]}, set())
    assert differences(was, now) == ["own"]
    assert differences(was, copied) == ["settings"]


def test_a_fingerprint_says_what_it_cannot_compare() -> None:
    found = fingerprints({"both": [1, threading.Lock()], "lines": (line for line in "ab"), "sure": {1: 2}}, set())
    assert uncompared(found) == ["both: _thread.lock", "lines: builtins.generator"]


def test_which_of_two_equal_types_or_dates_a_name_has_does_not_count() -> None:
    point, day = tuple[int, ...], date(2026, 1, 1)
    was = fingerprints({"a": point, "b": point, "c": day, "d": day}, set())
    now = fingerprints({"a": tuple[int, ...], "b": tuple[int, ...], "c": day, "d": date(2026, 1, 1)}, set())
    other = fingerprints({"a": point, "b": tuple[str, ...], "c": day, "d": date(2026, 1, 2)}, set())
    assert differences(was, now) == []
    assert differences(was, other) == ["b", "d"]


def test_which_of_two_equal_numbers_of_numpy_a_list_has_does_not_count_and_its_type_does() -> None:
    np: Any = pytest.importorskip("numpy")
    one = np.float64(1.5)
    found = [fingerprints({"value": value}, set()) for value in ([one, one], [one, np.float64(1.5)], [one, 1.5])]
    assert [differences(found[0], other) for other in found[1:]] == [[], ["value"]]
    row = np.zeros(1, [("a", int)])[0]
    found = [fingerprints({"value": value}, set()) for value in ([row, row], [row, row.copy()])]
    assert differences(*found) == ["value"]  # such a one can be changed


def test_which_of_two_equal_symbols_of_sympy_a_list_has_does_not_count() -> None:
    sympy: Any = pytest.importorskip("sympy")
    one, same = (sympy.Symbol.__xnew__(sympy.Symbol, "x") for _ in range(2))
    other = sympy.Symbol("x", positive=True)
    lists = ([one, one], [one, same], [one, other], [one, sympy.Function("f")(one)])
    found = [fingerprints({"value": value}, set()) for value in lists]
    assert [differences(found[0], other) for other in found[1:]] == [[], ["value"], ["value"]]
    assert not uncompared(found[-1])


def test_contours_are_compared_by_what_they_show() -> None:
    pyplot: Any = pytest.importorskip("matplotlib.pyplot")
    figures: list[Any] = []
    for high in (1.0, 1.0, 2.0):
        figure, axes = pyplot.subplots()
        axes.contour([[0.0, 1.0], [1.0, high]])
        figures.append(fingerprints({"figure": figure}, set()))
        pyplot.close(figure)
    assert [differences(figures[0], other) for other in figures[1:]] == [[], ["figure"]]
    assert not uncompared(figures[0])


def test_in_which_order_traits_got_their_values_is_no_content() -> None:
    class Slider(HasTraits):
        low, high = Int(0), Int(9)

    asked, same, other = Slider(), Slider(), Slider(high=8)
    assert (asked.high, asked.low, same.low, same.high, other.low, other.high) == (9, 0, 0, 9, 0, 8)
    found = [fingerprints({"value": value}, set()) for value in (asked, same, other)]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"]]


def test_who_no_longer_observes_and_what_a_widget_has_for_the_front_end_is_no_content() -> None:
    ipywidgets: Any = pytest.importorskip("ipywidgets")
    slider = ipywidgets.IntSlider()
    try:
        before = fingerprints({"slider": slider}, set())
        slider.observe(print, "value")
        assert fingerprints({"slider": slider}, set()) != before
        slider.unobserve(print, "value")
        assert slider.keys
        assert fingerprints({"slider": slider}, set()) == before
    finally:
        slider.close()
    assert fingerprints({"slider": slider}, set()) != before


def test_a_trait_of_a_librarys_class_is_the_one_that_it_is_whatever_it_made_of_itself() -> None:
    class Slider(HasTraits):
        low = Int(0)

    Slider.__module__ = "__main__"
    own: Any = vars(Slider)["low"]
    before = fingerprints({"trait": own}, set())
    own.tag(seen=True)  # no library's: what it holds counts
    assert fingerprints({"trait": own}, set()) != before
    ipywidgets: Any = pytest.importorskip("ipywidgets")
    trait: Any = vars(ipywidgets.Widget)["comm"]
    before = fingerprints({"trait": trait}, set())
    trait.metadata["seen"] = True
    try:
        assert fingerprints({"trait": trait}, set()) == before
    finally:
        del trait.metadata["seen"]
    assert fingerprints({"trait": vars(ipywidgets.Widget)["keys"]}, set()) != before


def test_a_type_of_numba_is_what_it_is_called_whatever_its_number_in_this_process() -> None:
    types: Any = pytest.importorskip("numba.types")
    found = [fingerprints({"value": value}, set()) for value in (types.int8[:], types.int8[:], types.int16[:])]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"]]


def test_a_column_of_objects_is_what_they_hold_wherever_they_are_in_memory() -> None:
    pd: Any = pytest.importorskip("pandas")
    columns = [pd.Series(["a", Shape(sides)], dtype=object) for sides in (3, 3, 4)]
    found = [fingerprints({"value": value}, set()) for value in columns]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"]]


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_a_figure_of_plotly_is_what_it_shows_and_not_the_texts_that_stand_for_its_arrays() -> None:
    go: Any = pytest.importorskip("plotly.graph_objects")
    np: Any = pytest.importorskip("numpy")
    shown, same, other = (go.Figure(go.Scatter(y=np.arange(n)), {"title": "T"}) for n in (3, 3, 4))
    assert str(shown)
    assert shown.layout.xaxis.title
    texts = pickle.loads(pickle.dumps(same))
    found = [fingerprints({"value": value}, set()) for value in (shown, same, other, texts)]
    assert [differences(found[0], one) for one in found[1:]] == [[], ["value"], ["value"]]


def test_what_is_excused_does_not_count_and_neither_does_what_it_shares() -> None:
    one: list[int] = []
    was = fingerprints({"a": one, "b": one, "c": 1}, set())
    now = fingerprints({"a": [], "b": [1], "c": 2}, set())
    assert differences(was, now) == ["b", "c", "(sharing) a=b"]
    assert differences(was, now, {"b"}) == ["c"]
