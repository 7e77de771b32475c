"""Attributes and slots that a class of the notebook's adds to a library's come back, whatever the library saves of itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.errors import LostValueError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

IMPORTS = (
    "import array, collections, datetime, decimal, fractions, functools, io, itertools, pathlib, random, types\n"
    "import numpy as np, pandas as pd\n"
)
PLAIN = "class Mine({base}): pass"
WITH_INIT = """class Mine({base}):
    def __init__(self, *args, log=None, **options):
        try:
            super().__init__(*args, **options)
        except TypeError:
            super().__init__()
        self.log = log"""
WITH_SLOT = "class Mine({base}):\n    __slots__ = ('log',)"

MADE = {
    "random.Random": "Mine(5)",
    "array.array": "Mine('i', [1])",
    "io.StringIO": "Mine('abc')",
    "io.BytesIO": "Mine(b'abc')",
    "functools.partial": "Mine(len)",
    "types.SimpleNamespace": "Mine(a=1)",
    "itertools.cycle": "Mine('ab')",
    "decimal.Context": "Mine(9)",
    "decimal.Decimal": "Mine(1)",
    "fractions.Fraction": "Mine(1, 2)",
    "datetime.timedelta": "Mine(1)",
    "collections.deque": "Mine([1])",
    "collections.defaultdict": "Mine(list)",
    "collections.OrderedDict": "Mine(a=1)",
    "np.random.Generator": "Mine(np.random.PCG64(1))",
    "np.random.RandomState": "Mine(1)",
    "np.random.PCG64": "Mine(1)",
    "np.ndarray": "Mine((2,))",
    "np.ma.MaskedArray": "Mine([1, 2])",
    "np.float64": "Mine(1.5)",
    "pd.DataFrame": "Mine({'a': [1]})",
    "pd.Series": "Mine([1])",
    "pd.Interval": "Mine(1, 2)",
}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:Pandas doesn't allow columns")
@pytest.mark.parametrize("body", [PLAIN, WITH_INIT, WITH_SLOT], ids=["plain", "init", "slot"])
@pytest.mark.parametrize("base", MADE)
def test_what_a_class_adds_comes_back_and_stays_shared(base: str, body: str) -> None:
    store = MemoryStore()
    shown = "(made.log is log, log, type(made) is Mine, isinstance(made, base))"
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"{IMPORTS}base = {base}\n{body.format(base=base)}")
        first = nb.run(f"log = [1]; made = {MADE[base]}; made.log = log")
        assert first.unsaved == ()
        nb.run("made.log.append(2)")
        nb.checkout(first)
        assert nb.look(shown) == (True, [1], True, True)
        nb.run("made.log.append(3)")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == (True, [1], True, True)


def test_what_a_library_sets_and_leaves_out_is_not_added() -> None:
    with Notebook() as nb:
        made = nb.run(
            "import random, io\n"
            "class Dice(random.Random):\n    def roll(self): return self.randrange(6)\n"
            "dice = Dice(3); dice.gauss(0, 1); dice.rolled = []\nexpected = dice.getstate()"
        )
        nb.run("dice.rolled.append(dice.roll()); dice.gauss(0, 1); dice.name = 'd'")
        nb.checkout(made)
        assert nb.look("(dice.rolled, dice.getstate() == expected, vars(dice).keys() - {'gauss_next'})") == (
            [],
            True,
            {"rolled"},
        )


def test_an_object_whose_library_loads_another_class_is_named() -> None:
    with Notebook() as nb:
        told = nb.run("import zoneinfo\nclass Zone(zoneinfo.ZoneInfo): pass\nzone = Zone('UTC'); zone.log = [1]")
        assert [(lost.name, lost.reason) for lost in told.unsaved] == [
            ("zone", "its library would load it as an object of its own, not as Zone")
        ]


@pytest.mark.parametrize("above", ["collections.abc.Sized", "collections.abc.Hashable", "abc.ABC"])
def test_an_object_comes_back_whose_class_has_an_abstract_one_before_the_one_that_makes_it(above: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(
            f"import abc, collections.abc, random, io\nclass Above({above}):\n    def __len__(self): return 3\n"
            "    def __hash__(self): return 1\n"
            "class Dice(Above, random.Random): pass\nclass Text(Above, io.StringIO): pass\nclass Rows(Above, list): pass\n"
            "dice, text, rows = Dice(2), Text('abc'), Rows([1])\ndice.log = text.log = rows.log = log = [1]\n"
            "drawn = dice.getstate()"
        )
        assert first.unsaved == ()
        nb.run("log.append(2); dice.random(); text.read(); rows.append(2)")
        nb.checkout(first)
        shown = "(dice.log is text.log is rows.log is log, log, dice.getstate() == drawn, text.read(), list(rows))"
        assert nb.look(shown) == (True, [1], True, "abc", [1])
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == (True, [1], True, "abc", [1])


@pytest.mark.filterwarnings("ignore:Pandas doesn't allow columns")
@pytest.mark.parametrize("held", ["x", "[x]", "(x, x.columns)", "partial(print, x)"])
def test_a_table_comes_back_though_something_that_was_set_on_it_cannot_be_saved(held: str) -> None:
    """As patsy does with the frames that it makes: `design_info` of a matrix refuses to be pickled."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"{IMPORTS}from functools import partial\nx = pd.DataFrame({{'a': [1, 2]}})")
        made = nb.run(f"x.note = (i for i in range(3)); holder = {held}")
        assert {(one.name, one.type) for one in made.unsaved} == {("holder, x", "generator")}
        note = nb.look("x.note")
        nb.run("x.loc[0, 'a'] = 9")
        nb.checkout(made)
        assert nb.look("(x.a.tolist(), x.note)") == ([1, 2], note)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert nb.look("x.a.tolist()") == [1, 2]
        assert nb.look("x.a.sum() + len(x.copy())") == 5
        with pytest.raises(LostValueError, match="a generator cannot be saved"):
            nb.look("next(x.note)")


@pytest.mark.parametrize(
    "made",
    [
        "collections.Counter('aab')",
        "collections.Counter(f'w{n}' for n in range(20_000))",
        "random.Random(1)",
    ],
)
def test_attributes_that_a_cell_sets_on_a_counter_or_a_generator_come_back(made: str) -> None:
    with Notebook() as nb:
        nb.run(f"import collections, random\nx = {made}\nholder = [x]\nnotes = ['first']")
        first = nb.run("x.label = 'raw'; x.notes = notes")
        for change in ("x.label = 'done'", "notes.append('second')"):
            assert names_changed(nb.run(change)) >= {"x", "holder"}
        last = nb.run("x.made = made = x.__reduce__()")
        nb.checkout(first)
        assert nb.look("(x.label, notes, x.notes is notes, holder[0] is x)") == ("raw", ["first"], True, True)
        nb.checkout(last)
        now = nb.look("(x.label, x.notes, x.made == made, x.__reduce__() == made)")
        assert now == ("done", ["first", "second"], True, True)


LIBRARY = """
class Rows:
    def __init__(self, rows):
        self.rows, self.total = list(rows), sum(rows)
        self.cache = {}
    def look(self):
        setattr(self, "looked", [1])
    def __reduce__(self):
        return Rows, (self.rows,)

class Store:
    def __init__(self):
        self.rows = [1]
        self.lock = (one for one in ())
    def __getstate__(self):
        return {"rows": self.rows}
    def __setstate__(self, state):
        self.__init__()
        self.rows = state["rows"]

class Template:
    def __new__(cls, source):
        return cls.make(source)
    @classmethod
    def make(cls, source):
        made = object.__new__(cls)
        made.source = source
        return made
"""


@pytest.fixture
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "fillable.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("fillable", None)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("made", ["Rows([1, 2])", "Store()"])
def test_attributes_that_a_cell_sets_on_a_librarys_object_come_back_though_its_library_leaves_them_out(
    made: str,
) -> None:
    store = MemoryStore()
    shown = "(x.notes, x.notes is notes, held[0] is x, x.rows, x.itself is x)"
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"import fillable\nx = fillable.{made}; held = [x]; notes = [1]; rows = list(x.rows)")
        first = nb.run("x.notes = notes; x.itself = x")
        assert first.unsaved == ()
        assert "x" in names_changed(nb.run("notes.append(2)"))
        nb.checkout(first)
        assert nb.look(shown) == ([1], True, True, nb.look("rows"), True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look(shown) == ([1], True, True, nb.look("rows"), True)


@pytest.mark.usefixtures("_library")
def test_what_a_library_sets_on_its_objects_and_leaves_out_is_no_change() -> None:
    with Notebook() as nb:
        nb.run("import fillable\nx = fillable.Rows([1])")
        assert nb.run("x.look(); x.cache['a'] = 1; x.total = 5").changed == ()


@pytest.mark.usefixtures("_library")
def test_what_cannot_be_saved_of_what_a_cell_set_is_named_and_the_rest_comes_back() -> None:
    with Notebook() as nb:
        made = nb.run("import fillable\nx = fillable.Store(); x.note = (one for one in ()); x.rows.append(2)")
        assert [(lost.name, lost.type) for lost in made.unsaved] == [("x", "generator")]
        nb.run("x.rows.append(3)")
        nb.checkout(made)
        assert nb.look("x.rows") == [1, 2]


@pytest.mark.usefixtures("_library")
def test_an_object_comes_back_that_its_library_makes_past_a_constructor_that_wants_arguments() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run("import fillable\nx = fillable.Template(['a']); held = [x, x.source]")
        assert first.unsaved == ()
        assert names_changed(nb.run("x.source.append('b')")) == {"x", "held"}
        nb.checkout(first)
        assert nb.look("(x.source, held[0] is x, held[1] is x.source)") == (["a"], True, True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look("(x.source, held[0] is x, held[1] is x.source)") == (["a"], True, True)


def test_a_cached_property_of_a_class_of_attrs_with_slots_is_saved_and_no_hash_is() -> None:
    """attrs saves the fields alone; the properties of the notebook's own classes are stored."""
    pytest.importorskip("attrs")
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        early = nb.run(
            "import attrs\nfrom functools import cached_property\n@attrs.define\nclass A:\n    x: int\n    @cached_property\n"
            "    def v(self): return [self.x]\n@attrs.define\nclass B(A):\n    @cached_property\n    def w(self): return self.v\n"
            "@attrs.frozen(cache_hash=True)\nclass Key:\n    name: str\nb = B(1); b.w; key = Key('k')\nhash(key); table = {Key('k'): b.v}"
        )
        late = nb.run("table[key].append(2)")
        assert {"b", "table"} <= names_changed(late)
        nb.checkout(early)
        assert nb.look("(b.v, b.w is b.v, table[key] is b.v)") == ([1], True, True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(late)
        assert nb.look("(b.v, b.w is b.v, table[Key('k')] is b.v)") == ([1, 2], True, True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(late, names=["key"])
        assert nb.look("key._attrs_cached_hash") is None  # another process has other hashes of texts
