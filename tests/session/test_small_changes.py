"""Changes that are easily taken for none are found too, and going back over them and forward again is exact."""

from __future__ import annotations

import builtins
import contextlib
import signal
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest

from agent_kernel.errors import StoreFullError
from agent_kernel.session import Repository, serialization
from agent_kernel.storage import MemoryStore
from agent_kernel.values import CLASS_PREFIX
from agent_kernel.values.groups import dump_group
from tests.session.changes import EQUAL_BUT_NOT_THE_SAME, LIBRARIES, METADATA, SMALL, THROUGH_THE_BACK_DOOR, Small
from tests.support.notebooks import Notebook, names_changed, rev

pytestmark = pytest.mark.filterwarnings("ignore")


def as_params(smalls: tuple[Small, ...]) -> list[object]:
    return [
        pytest.param(small, id=f"{small.make.splitlines()[-1]} | {small.change.splitlines()[-1]}") for small in smalls
    ]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, handler)
    if hasattr(builtins, "shared_list"):
        delattr(builtins, "shared_list")


@pytest.mark.sampled
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


PLAIN = """
def f(a, b=1):
    "said"
    return a + b

class Base:
    level = 1

class C(Base):
    n = 1
    def m(self, a=1):
        return a

K = C
""".strip()
# Of a plain function, and of a class of plain functions, a digest tells what was saved: one cell each, one after another.
CHANGES_OF_CODE = {
    "f": (
        "f.__code__ = (lambda a, b: a * b).__code__",
        "f.__code__ = (lambda a, b: a - b).__code__",
        "f.__code__ = (lambda a, b: a * b).__code__; f.__code__ = (lambda a, b: a / b).__code__",
        "f.__defaults__ = (True,)",
        "f.__defaults__ = (1.0,)",
        "f.__defaults__ = (-0.0,)",
        "f.__defaults__ = (0.0,)",
        "f.__defaults__ = None",
        "f.__defaults__ = ([],)",
        "f.__defaults__[0].append(1)",
        "f.__defaults__ = (1,)",
        "f.__kwdefaults__ = {'b': 2}",
        "f.__kwdefaults__ = None",
        "f.__doc__ = 'other'",
        "f.__doc__ = None",
        "f.__name__ = 'g'",
        "f.__qualname__ = 'g'",
        "f.__module__ = 'other'",
        "f.__annotations__['a'] = int",
        "f.__annotations__.clear()",
        "f.x = 1",
        "del f.x",
        "d = f.__dict__",
        "d['x'] = 1",
        "f.__dict__ = {}",
        "vars(f).update(x=1)",
    ),
    "C": (
        "K.n = True",
        "K.n = 1.0",
        "K.n = 1",
        "type(K()).n = 2",
        "C.m.__defaults__ = (2,)",
        "C.m.__code__ = (lambda self, a: -a).__code__",
        "C.m.x = 1",
        "del C.m.x",
        "C.m = lambda self: 1",
        "C.other = C.m",
        "del C.other",
        "C.items = []",
        "C.items.append(1)",
        "del C.items",
        "C.pair = (1, 2)",
        "C.pair = (1, [2])",
        "C.pair[1].append(3)",
        "del C.pair",
        "C.s = staticmethod(lambda: 1)",
        "vars(C)['s'].__func__.__defaults__ = (1,)",
        "del C.s",
        "C.__doc__ = 'said'",
        "C.__name__ = 'D'",
        "C.__qualname__ = 'D'",
        "C.__bases__ = type('Other', (), {}),",
        "C.n = C",
    ),
    "Base": ("Base.level = 2", "K.__mro__[1].level = 3", "Base.level = K"),
}


@pytest.mark.parametrize("name", CHANGES_OF_CODE)
def test_each_change_of_a_plain_function_or_class_is_reported_in_its_cell(name: str) -> None:
    with Notebook() as nb:
        nb.run(PLAIN)
        nb.run(name)
        for change in CHANGES_OF_CODE[name]:
            found = {one.name for one in nb.run(change).changed}
            assert name in found or change == "d = f.__dict__", change
            assert name not in {one.name for one in nb.run(name).changed}, change


def test_unchanged_functions_and_classes_are_not_dumped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dumped: list[list[str]] = []

    def count(members: Any, *arguments: Any, **options: Any) -> Any:
        dumped.append(list(members))
        return dump_group(members, *arguments, **options)

    with Notebook() as nb:
        nb.run(PLAIN)
        nb.run("def uses(): return f(1), K().m()")
        monkeypatch.setattr(serialization, "dump_group", count)
        nb.run("uses(), C, Base, f")
        assert not dumped
        nb.run("K.n = 2")
        assert [names for names in dumped if names[0].startswith(CLASS_PREFIX)]


WORDS = """
WORDS = {str(number) for number in range(12_000)}
PREFIXES = [number for number in range(12_000)]

def find(word: str, words=WORDS, *more) -> bool:
    return word in words

def count(words=WORDS, prefixes=PREFIXES, n=1):
    return len(words) + len(prefixes)
"""
CHANGES_OF_WORDS = {
    "WORDS.add('a')": {"WORDS"},
    "WORDS.remove('a')": {"WORDS"},
    "find.__defaults__[0].add('b')": {"WORDS"},
    "PREFIXES[5] = 5.0": {"PREFIXES"},
    "PREFIXES.reverse()": {"PREFIXES"},
    "count.__defaults__ = (WORDS, PREFIXES, True)": {"count"},
    "count.__defaults__ = (PREFIXES, WORDS, True)": {"count"},
    "count.__defaults__ = (WORDS, [1], 1)": {"count"},
    "count.__defaults__[1].append(2)": {"count"},
    "count.__defaults__ = (WORDS, PREFIXES, 1)": {"count"},
    "find.__annotations__['return'] = int": {"find"},
    "find.__annotations__['return'] = [int]": {"find"},
    "find.__annotations__['return'].append(1)": {"find"},
    "find.__annotations__ = {}": {"find"},
    "find.__code__ = (lambda word, words, *more: word not in words).__code__": {"find"},
    "find.x = 1": {"find"},
    "del find.x": {"find"},
    "find.__kwdefaults__ = {'n': []}": {"find"},
    "PREFIXES = list(PREFIXES)": {"PREFIXES"},
    "PREFIXES.append(1)": {"PREFIXES"},
    "count.__defaults__[1].append(2) # the old one": {"count"},
    "WORDS.clear()": {"WORDS"},
}


@pytest.mark.parametrize("looks", [False, True])
def test_each_change_of_functions_and_of_the_long_containers_that_are_their_defaults_is_reported(looks: bool) -> None:
    with Notebook() as nb:
        nb.run(WORDS)
        for change, names in CHANGES_OF_WORDS.items():
            if looks:
                assert not nb.run("find, count, WORDS, PREFIXES;").changed, change
            assert names <= {one.name for one in nb.run(change).changed}, change
            assert not nb.run("find, count, WORDS, PREFIXES;").changed, change


def test_functions_with_long_containers_as_defaults_are_not_dumped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dumped: list[list[str]] = []

    def count(members: Any, *arguments: Any, **options: Any) -> Any:
        dumped.append(list(members))
        return dump_group(members, *arguments, **options)

    with Notebook() as nb:
        made = nb.run(WORDS)
        monkeypatch.setattr(serialization, "dump_group", count)
        nb.run("find('7'), count(), len(WORDS);")
        assert not dumped
        nb.run("WORDS.add('a'); find('7')")
        assert dumped
        nb.checkout(made)
        assert nb.look("find.__defaults__[0] is count.__defaults__[0] is WORDS") is True
        assert nb.look("find('a')") is False
        nb.run("found = find('a'), count()")
        dumped.clear()
        nb.run("found = find('a'), count()")
        assert dumped in ([], [["found"]])
        nb.run("part = [WORDS]")  # and what shares with them is found
        nb.run("part[0].add('c')")
        nb.checkout("HEAD~1")
        assert nb.look("part[0] is WORDS is find.__defaults__[0]") is True


def test_an_ensemble_that_is_read_is_dumped_once_and_none_of_its_models_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    dumped: list[list[str]] = []

    def count(members: Any, *arguments: Any, **options: Any) -> Any:
        dumped.append(list(members))
        return dump_group(members, *arguments, **options)

    with Notebook() as nb:
        nb.run("import numpy as np\nfrom sklearn.ensemble import RandomForestClassifier, VotingClassifier")
        nb.run("X = np.arange(60.).reshape(20, 3)\ny = np.arange(20) % 2")
        for name in ("one", "two", "another"):
            nb.run(f"{name} = RandomForestClassifier(25).fit(X, y)")
        nb.run("both = [('one', one), ('two', two)]\nvote = VotingClassifier(both).fit(X, y)")
        monkeypatch.setattr(serialization, "dump_group", count)
        for _ in range(4):  # each dump makes arrays where those of the one before were
            nb.run("vote.estimators_;")
    group = ["both", "one", "two", "vote"]
    assert [names for names in dumped if not set(group).isdisjoint(names)] == [group] * 4


BYTES = {
    "a bytearray": ("data = bytearray(1_000_000)", "data[77_777] = 1"),
    "numbers": ("from array import array\ndata = array('d', bytes(8_000_000))", "data[77_777] = -0.0"),
    "numbers in a dict": (
        "from array import array\nbox = {'d': array('i', bytes(4_000_000))}\ndata = box['d']",
        "box['d'].append(3)",
    ),
    "a type of numbers": (
        "from array import array\ndata = array('i', bytes(4_000_000))",
        "data = array('I', bytes(4_000_000))",
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_long_bytes_are_not_dumped_again_and_each_change_of_them_is_reported(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, change = BYTES[name]
    dumped: list[str] = []

    def count(members: Any, *arguments: Any, **options: Any) -> Any:
        dumped.extend(members)
        return dump_group(members, *arguments, **options)

    monkeypatch.setattr(serialization, "dump_group", count)
    with Notebook() as nb:
        nb.run(made)
        tells = "bytes(data), getattr(data, 'typecode', '')"
        before = nb.look(tells)
        nb.session.repo.create_tag("before")
        dumped.clear()
        assert not names_changed(nb.run("len(data)"))
        assert not dumped
        assert names_changed(nb.run(change))
        after = nb.look(tells)
        assert after != before
        nb.session.checkout("before")
        assert nb.look(tells) == before
        nb.session.checkout("main")
        assert nb.look(tells) == after


def test_what_waits_for_the_death_of_a_plain_function_or_class_is_found_where_it_is_registered() -> None:
    with Notebook() as nb:
        nb.run(PLAIN)
        nb.run("log = []\ndef note(): log.append(1)")
        nb.run("import weakref; w = weakref.finalize(f, note); w.atexit = False")
        assert "log" in {one.name for one in nb.run("del f").changed}


@pytest.mark.sampled
@pytest.mark.parametrize("small", as_params(THROUGH_THE_BACK_DOOR))
def test_a_change_through_a_back_door_is_found_before_anything_is_replaced(small: Small) -> None:
    with Notebook() as nb:
        made = nb.run(small.make)
        nb.run(small.change)
        nb.session.verify_all()
        since = takewhile(lambda found: found[0] != made.commit, nb.repo.log(nb.repo.resolve("HEAD")))
        assert small.name in {change.name for _, commit in since for change in commit.changed}


@pytest.mark.sampled
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


def test_reading_the_results_of_a_fit_is_no_change() -> None:
    pytest.importorskip("statsmodels")
    with Notebook() as nb:
        nb.run(
            "import numpy as np, statsmodels.api as sm\nx = np.arange(12.0).reshape(6, 2) ** 2\nfit = sm.OLS(x[:, 0], x).fit()"
        )
        for asked in ("fit.rsquared", "fit.resid", "fit.pvalues, fit.aic, fit.bse"):
            assert not names_changed(nb.run(asked)), asked
        read = nb.look("(fit.rsquared, fit.aic, fit.resid.tolist())")
        nb.session.repo.create_tag("fitted")
        assert names_changed(nb.run("fit.remove_data()")) == {"fit"}
        nb.session.checkout("fitted")
        assert nb.look("(fit.rsquared, fit.aic, fit.resid.tolist())") == read


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


EQUAL_AND_SHARED: dict[str, tuple[str, str, str]] = {
    "a list": ("a = [1]; q = [[1]]", "q[0] = a", "q[0] is a"),
    "one that another holds already": ("a = [1]; p = [a]; q = [[1]]", "q[0] = a", "q[0] is a and p[0] is a"),
    "another one of two": ("a = [1]; b = [1]; h = [a]", "h[0] = b", "h[0] is b and h[0] is not a"),
    "none any more": ("a = [1]; q = [a]", "q[0] = [1]", "q[0] is not a"),
    "an entry": ("a = [1]; d = {'k': [1]}; e = (d,)", "d['k'] = a", "e[0]['k'] is a"),
    "attributes": (
        "class C:\n    def __init__(self): self.v = []\na, b = C(), C()",
        "a.__dict__ = b.__dict__",
        "vars(a) is vars(b)",
    ),
    "an object": ("class C: pass\na = C(); a.v = 1\nb = C(); b.v = 1\nh = [a]", "h[0] = b", "h[0] is b"),
    "an array": ("import numpy as np\na = np.zeros(9); d = {'k': np.zeros(9)}", "d['k'] = a", "d['k'] is a"),
    "memory": (
        "import numpy as np\na = np.zeros(99_999); d = {'k': np.zeros(99_999)}",
        "d['k'] = a[:]",
        "np.shares_memory(d['k'], a)",
    ),
    "a row of many": ("rows = [{'i': i} for i in range(1000)]; r = {'i': 7}", "rows[7] = r", "rows[7] is r"),
    "a row of two long lists": (
        "rows = [[i] for i in range(1000)]; idx = [[i] for i in range(1000)]",
        "idx[5] = rows[5]",
        "idx[5] is rows[5]",
    ),
    "a row of a very long list and of a dict": (
        "rows = [[i] for i in range(6_000)]; idx = {i: [i] for i in range(6_000)}",
        "idx[5] = rows[5]",
        "idx[5] is rows[5]",
    ),
    "a row of two very long lists": (
        "rows = [[i] for i in range(6_000)]; idx = [[i] for i in range(6_000)]",
        "idx[4_000] = rows[5]; idx[5] = rows[4_000]; idx[5], idx[4_000] = idx[4_000], idx[5]",
        "idx[5] is rows[5] and idx[4_000] is rows[4_000]",
    ),
    "what lies in rows of two long lists": (
        "rows = [{'t': [i]} for i in range(1000)]; idx = [{'t': [i]} for i in range(1000)]",
        "idx[77]['t'] = rows[77]['t']",
        "idx[77]['t'] is rows[77]['t']",
    ),
    "what lies in a row, and a name": (
        "rows = [{'t': [[i]]} for i in range(1000)]; r = [[77]]",
        "rows[77]['t'] = r",
        "rows[77]['t'] is r",
    ),
    "a row of a long list beside another name": (
        "rows = [[i] for i in range(1000)]; idx = [[i] for i in range(1000)]; one = idx[9]",
        "idx[77] = rows[77]",
        "idx[77] is rows[77]",
    ),
    "a row of two long lists with a name each": (
        "rows = [[i] for i in range(1000)]; idx = [[i] for i in range(1000)]; one = idx[9]; two = rows[3]",
        "idx[77] = rows[77]",
        "idx[77] is rows[77]",
    ),
    "a row of long lists within values": (
        "rows = {'v': [[i] for i in range(2_400)]}; idx = {'v': [[i] for i in range(2_400)]}",
        "idx['v'][77] = rows['v'][77]",
        "idx['v'][77] is rows['v'][77]",
    ),
    "a row of long lists of instances": (
        (
            "class Row:\n    def __init__(self, i): self.i = i\n"
            "rows = [Row(i) for i in range(1000)]; idx = [Row(i) for i in range(1000)]"
        ),
        "idx[77] = rows[77]",
        "idx[77] is rows[77]",
    ),
    "what instances of long lists hold": (
        (
            "class Row:\n    def __init__(self, i): self.i = [i]\n"
            "rows = [Row(i) for i in range(1000)]; idx = [Row(i) for i in range(1000)]"
        ),
        "idx[77].i = rows[77].i",
        "idx[77].i is rows[77].i",
    ),
    "a row of two long dicts of another type": (
        (
            "from collections import OrderedDict\n"
            "rows = OrderedDict((i, [i]) for i in range(1800)); idx = OrderedDict((i, [i]) for i in range(1800))"
        ),
        "idx[77] = rows[77]",
        "idx[77] is rows[77]",
    ),
    "a row that changed too": (
        "rows = [[i] for i in range(1000)]; idx = [[i] for i in range(1000)]",
        "rows[77].append(1); idx[77].append(1); idx[77] = rows[77]; idx[5] = rows[5]",
        "idx[77] is rows[77] and idx[5] is rows[5]",
    ),
    "an attribute of a function": ("def f(): return 1\nf.c = [1]\ng = [1]", "f.c = g", "f.c is g"),
    "an attribute of a class": ("class K:\n    items = [1]\ng = [1]", "K.items = g", "K.items is g"),
}


@pytest.mark.sampled
@pytest.mark.usefixtures("long_from_a_fifth")
@pytest.mark.parametrize("what", EQUAL_AND_SHARED)
def test_an_equal_object_in_the_place_of_another_is_shared_with_who_holds_it(what: str) -> None:
    make, change, look = EQUAL_AND_SHARED[what]
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        early = nb.run(make)
        assert not nb.look(look)
        later = nb.run(change)
        assert nb.look(look)
        nb.run("other = 1")
        nb.checkout(early)
        assert not nb.look(look)
        nb.checkout(later)
        assert nb.look(look)
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look(look)


def test_it_is_shared_also_where_the_commit_of_its_cell_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreFullError("memory:")

    with Notebook() as nb:
        nb.run("a = [1]; q = [[1]]")
        with monkeypatch.context() as patch:
            patch.setattr(nb.repo, "publish", full)
            with contextlib.suppress(StoreFullError):
                nb.run("q[0] = a")
        later = nb.run("other = 1")
        nb.run("del q")
        nb.checkout(later)
        assert nb.look("q[0] is a")
