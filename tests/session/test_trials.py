"""An object of a library's new type is loaded aside before it counts as saved."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.values import reducers, trials
from tests.support.notebooks import Notebook, names_changed

LIBRARY = """
import random, sys, weakref
loads = []
class Fine:
    def __init__(self, part=None):
        self.part = part
    def __setstate__(self, state):
        loads.append(type(self).__name__)
        self.__dict__.update(state)
class Other(Fine): pass
class Large(Fine): pass
class Holder(Fine): pass
class Bad(Fine):
    error = ValueError
    def __setstate__(self, state):
        raise self.error("not again")
class Leaves(Bad):
    error = SystemExit
class Deep(Fine):
    def __setstate__(self, state):
        self.__setstate__(state)
def remake(kind, state):
    made = object.__new__(type(kind.__name__, (kind,), {}))
    made.__dict__.update(state)
    return made
class Remade(Fine):
    def __reduce__(self):
        return remake, (type(self), self.__dict__)
class WantsArguments(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))
    def __reduce__(self):
        return type(self), (tuple(self),)
class RaisingMeta(type):
    def __call__(cls, *args):
        if args:
            raise GeneratorExit("no")
        return super().__call__()
class OfMeta(metaclass=RaisingMeta):
    def __reduce__(self):
        return OfMeta, (1,)
class WithDel(Fine):
    def __del__(self):
        loads.append("died")
class WithFinalizer(Fine):
    def __init__(self, part=None):
        self.part = part
        weakref.finalize(self, loads.append, "died")
class Draws(Fine):
    def __setstate__(self, state):
        random.random()
        super().__setstate__(state)
class Answers:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
class Calls:
    def __init__(self, function):
        self.function = function
    def __reduce__(self):
        return _called, (self.function,)
def _called(function):
    function()
    return Calls(function)
"""


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which objects of the library `oddlib` were loaded."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "oddlib.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    import oddlib  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

    yield oddlib.loads  # pyright: ignore[reportUnknownMemberType]
    del sys.modules["oddlib"]


@pytest.mark.usefixtures("loads")
class TestWhatCannotBeLoaded:
    @pytest.mark.parametrize(
        ("made", "why"),
        [
            ("Bad()", "ValueError: not again"),
            ("Leaves()", "SystemExit: not again"),
            ("Deep()", "RecursionError: maximum recursion depth exceeded"),
            ("WantsArguments(1, 2)", "TypeError: WantsArguments.__new__() missing 1 required positional argument"),
            ("OfMeta()", "GeneratorExit: no"),
        ],
    )
    def test_is_not_saved_and_stays_alive_and_all_else_in_its_group_is_saved(self, made: str, why: str) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("import oddlib\nn = 1")
            told = nb.run(f"bad = oddlib.{made}\nx = [1]\nbox = {{'x': x, 'bad': bad}}")
            assert {lost.type for lost in told.unsaved} == {f"oddlib.{made.partition('(')[0]}"}
            assert all(lost.reason.startswith(f"it cannot be loaded again: {why}") for lost in told.unsaved)
            bad = nb.look("bad")
            nb.run("x.append(2)\nn = 2")
            nb.session.undo()
            assert nb.look("(box['x'] is x, x, n)") == (True, [1], 1)
            assert nb.look("box['bad'] is bad") is True
            assert nb.look("bad") is bad
        with Notebook(Repository.open(store)) as nb:
            nb.session.checkout()
            assert nb.look("(box['x'] is x, x, n)") == (True, [1], 1)

    def test_is_replaced_with_the_outermost_object_of_a_library_that_holds_it(self) -> None:
        with Notebook() as nb:
            told = nb.run(
                "import oddlib\nclass Mine: pass\nm = Mine(); m.x = [1]; h = m.h = oddlib.Holder([oddlib.Bad()])"
            )
            assert [(lost.name, lost.type) for lost in told.unsaved] == [(name, "oddlib.Holder") for name in "mh"]
            nb.run("m.x.append(2); m.h = None; keep = h")
            nb.checkout(told)
            assert nb.look("(m.x, type(m.h).__name__, type(m.h.part[0]).__name__)") == ([1], "Holder", "Bad")

    def test_is_tried_again_each_time_and_its_type_is_not_given_up(self) -> None:
        with Notebook() as nb:
            nb.run("import oddlib\nh = oddlib.Holder(oddlib.Bad())")
            assert nb.run("h = oddlib.Holder(1)").unsaved == ()
            assert nb.run("h = oddlib.Holder(oddlib.Bad())").unsaved


class TestWhatIsTried:
    def test_each_type_of_a_library_once(self, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            nb.run("import oddlib\na = oddlib.Fine([oddlib.Fine(), oddlib.Other(1)])")
            assert sorted(loads) == ["Fine", "Fine", "Other"]
            monkeypatch.setattr(trials, "try_out", None)  # nothing is tried from here on
            nb.run("a.part.append(2)\nb = [oddlib.Other(a) for _ in range(100)]")
            assert len(loads) == 3

    def test_nothing_that_says_goodbye_or_calls_the_notebook(self, loads: list[str]) -> None:
        with Notebook() as nb:
            nb.run("import oddlib\nseen = []\ndef note():\n    seen.append(1)")
            for _ in range(trials.MOST_TRIES + 1):
                nb.run("d, f = oddlib.Other(oddlib.WithDel()), oddlib.Holder(oddlib.WithFinalizer())")
                nb.run("c = oddlib.Calls(note)")
                assert nb.look("seen") == []
            nb.run("keep = d, f")
            assert "Holder" not in loads
            assert "Other" not in loads
            assert loads.count("died") == 2 * trials.MOST_TRIES  # those that the cells dropped

    def test_nothing_large_but_what_is_small_in_it(self, loads: list[str]) -> None:
        with Notebook() as nb:
            nb.run("import oddlib\na = oddlib.Large([b'x' * 2_000_000, oddlib.Other()])")
            assert loads == ["Other"]
            nb.run("a = oddlib.Large()")
            assert loads == ["Other", "Large"]

    @pytest.mark.parametrize("cells", [10, 20, 40])
    def test_a_large_object_seldom(self, loads: list[str], monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
        tried: list[str] = []
        dump_alone = trials._dump_alone  # pyright: ignore[reportPrivateUsage]

        def counted(pickler: Any, value: object, *rest: Any) -> None:
            tried.append(type(value).__name__)
            dump_alone(pickler, value, *rest)

        monkeypatch.setattr(trials, "_dump_alone", counted)
        with Notebook() as nb:
            nb.run("import oddlib\na = oddlib.Large([b'x' * 2_000_000])")
            for number in range(cells):
                nb.run(f"a.part.append({number})")
            assert 1 <= tried.count("Large") <= 3
            nb.run("b = oddlib.Large()")  # another one
            assert loads == ["Large"]

    def test_a_large_object_again_when_it_is_smaller(self, loads: list[str]) -> None:
        with Notebook() as nb:
            nb.run("import oddlib\na = oddlib.Large([b'x' * 2_000_000])\na.part.clear()\nn = 1")
            nb.run("a.part.append(b'x' * 2_000_000)")
            nb.run("a.part.clear()")
            for number in range(40):
                nb.run(f"a.part.append({number})")
            assert loads == ["Large"]

    @pytest.mark.usefixtures("loads")
    def test_and_no_number_is_drawn(self) -> None:
        with Notebook() as nb:
            nb.run("import oddlib, random\nrandom.seed(1)\nd = oddlib.Draws()")
            drawn = nb.look("random.random()")
            nb.run("random.seed(1)")
            assert nb.look("random.random()") == drawn


@pytest.mark.parametrize("library", ["numpy", "pandas", "scipy"])
def test_a_type_of_a_known_library_is_tried_unless_it_has_a_handler(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType(f"{library}.ak_odd")
    module.__file__ = pytest.importorskip(library).__file__
    exec(LIBRARY, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with Notebook() as nb:
        told = nb.run(f"import sys\nodd = sys.modules['{module.__name__}']\nbad, fine = odd.Bad(), odd.Fine()")
        assert [(lost.name, lost.type) for lost in told.unsaved] == [("bad", f"{library}.ak_odd.Bad")]
        assert nb.look("odd.loads") == ["Fine"]
        monkeypatch.setattr(trials, "try_out", None)  # nothing is tried from here on
        nb.run(
            "import numpy as np, pandas as pd\na = np.ma.array([1]); t = pd.DataFrame({'a': ['x']}); s = t.a; i = t.index"
        )


@pytest.mark.usefixtures("loads")
def test_an_object_of_a_library_that_answers_for_any_name_comes_back() -> None:
    with Notebook() as nb:
        made = nb.run("import oddlib\na = oddlib.Answers([1])")
        assert made.unsaved == ()
        nb.run("del a")
        nb.checkout(made)
        assert nb.look("(a.inner, a.count(1))") == ([1], 1)


def test_a_used_mock_comes_back_with_its_calls() -> None:
    store = MemoryStore()
    used = "m.f.call_args_list[0].args, m.f.call_count, m.x.y, tuple(m.call_args), m.f() is m.f.return_value"
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(
            "from unittest.mock import MagicMock, call\nm = MagicMock()\n_ = m.f(1), m.f([2]), m(1)\nm.x.y = 3"
        )
        assert made.unsaved == ()
        nb.run("m.f(3)\nn = 1")
        nb.session.undo()
        assert nb.look(f"({used})") == ((1,), 2, 3, ((1,), {}), True)
    with Notebook(Repository.open(store)) as nb:
        nb.session.checkout()
        assert nb.look(f"({used})") == ((1,), 2, 3, ((1,), {}), True)


def test_a_mock_has_the_class_that_it_had() -> None:
    with Notebook() as nb:
        first = nb.run("from unittest.mock import Mock\nm = Mock()\n_ = m.f(1)\nbases = len(type(m).__mro__)")
        nb.run("_ = m.f(2)")
        nb.checkout(first)
        assert nb.look("len(type(m).__mro__) == bases and len(type(m.f).__mro__) == bases")
        assert names_changed(nb.run("m.f.call_count")) == set()


@pytest.mark.usefixtures("loads")
def test_what_a_library_loads_as_another_class_keeps_the_class_that_it_is_stored_with() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import oddlib\na = oddlib.remake(oddlib.Remade, {'part': 1})\nb = 1")
        first = nb.run("a.part = 2")
        nb.run("a.part = 3")
        nb.checkout(first)
        nb.session.undo()
        nb.checkout("main")
        last = nb.run("b = 2")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(last)
        assert nb.look("(a.part, b)") == (3, 2)


def test_what_the_standard_library_cannot_load_keeps_nobody_from_a_checkout() -> None:
    with Notebook() as nb:
        made = nb.run(
            "import codecs\nc = codecs.CodecInfo(len, len, name='mine')\nknown = codecs.lookup('utf8')\nx = 1"
        )
        assert [(lost.name, lost.type) for lost in made.unsaved] == [("c", "codecs.CodecInfo")]
        codec = nb.look("c")
        assert names_changed(nb.run("x = 2")) == {"x"}
        nb.session.undo()
        assert nb.look("c") is codec
        nb.run("del known")
        nb.checkout(made)
        assert nb.look("known.decode(b'a')[0]") == "a"


def test_how_a_type_is_saved_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    find = reducers._find

    def noted(kind: type) -> reducers.Handler:
        found.append(kind.__name__)
        return find(kind)

    monkeypatch.setattr(reducers, "_find", noted)
    with Notebook() as nb:
        nb.run("class Shape:\n    pass\nshape, other = Shape(), Shape()\ndef area(s):\n    return s")
        for _ in range(3):
            nb.run("shape, other, area")
            nb.run("shape.x = area(1)")
    assert found.count("Shape") == 1
    assert found.count("function") <= 1


def test_what_python_would_refuse_to_load_of_a_notebooks_class_does_not_count_as_saved() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "class TooFew:\n    def __init__(self, a, b): self.a = a\n    def __reduce__(self): return TooFew, (self.a,)\n"
            "class Listed:\n    def __init__(self): self.a = 1\n    def __getstate__(self): return [self.a]\n"
            "def make(a): return Made(a)\n"
            "class Made:\n    def __init__(self, a): self.a = a\n    def __reduce__(self): return make, (self.a, 2)\n"
            "class Right:\n    def __init__(self, a, *, b=1): self.a = a\n"
            "    def __reduce__(self): return Right, (self.a,), {'c': 1}\n"
            "class Given:\n    def __getstate__(self): return [1]\n    def __setstate__(self, state): self.got = state\n"
            "class Slotted:\n    __slots__ = ('a',)\n    def __getstate__(self): return None, {'a': 5}\n"
            "class Empty:\n    def __getstate__(self): return ()"
        )
        told = nb.run(
            "few, listed, made, right, given, slotted, empty = TooFew(1, 2), Listed(), Made(1), Right(1), Given(), Slotted(), Empty()\n"
            "box, x = [few], [1]"
        )
        assert {lost.name for lost in told.unsaved} == {"box, few", "listed", "made", "empty"}
        assert {lost.name: lost.reason for lost in told.unsaved}["listed"] == (
            "it cannot be loaded again: its state is of the type list, and Listed has no __setstate__"
        )
        nb.run("x.append(2)")
        nb.session.undo()
        assert nb.look("(box[0] is few, few.a, x)") == (True, 1, [1])
    with Notebook(Repository.open(store)) as nb:
        assert {lost.name for lost in nb.session.checkout().unsaved} == {"box, few", "listed", "made", "empty"}
        assert nb.look("(right.a, right.c, given.got, slotted.a, x)") == (1, 1, [1], 5, [1])


RAISES = """
class State:
    def __init__(self): self.a = 1
    def __setstate__(self, state): raise ValueError("not again")
class Key(State):
    def __setstate__(self, state): self.b = state["b"]
def remake(a):
    if a: raise RuntimeError("no")
class Remade:
    def __reduce__(self): return remake, (1,)
class Checked:
    def __init__(self, size=1):
        if not size: raise ValueError("too small")
    def __reduce__(self): return Checked, (0,)
class Helped:
    def __setstate__(self, state): self._fill(state)
    def _fill(self, state): self.rows = [float(row) for row in state["text"].split(",")]
    text = "1,x"
    def __getstate__(self): return {"text": self.text}
"""


@pytest.mark.parametrize("made", ["State()", "Key()", "Remade()", "Checked()", "Helped()"])
def test_what_a_notebooks_class_cannot_load_again_does_not_count_as_saved(made: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(RAISES)
        told = nb.run(f"bad = {made}\nx = [1]\nbox = {{'x': x, 'bad': bad}}")
        assert {lost.type for lost in told.unsaved} == {made.partition("(")[0]}
        assert all(lost.reason.startswith("it cannot be loaded again: ") for lost in told.unsaved)
        bad = nb.look("bad")
        nb.run("x.append(2)")
        nb.session.undo()
        assert nb.look("(box['x'] is x, x)") == (True, [1])
        assert nb.look("box['bad']") is bad
    with Notebook(Repository.open(store)) as nb:
        nb.session.checkout()
        assert nb.look("(box['x'] is x, x)") == (True, [1])


def test_trying_an_object_of_a_notebooks_class_leaves_nothing_behind() -> None:
    with Notebook() as nb:
        nb.run(
            "log, count = [], 0\nclass Counted:\n    made, n = [], 0\n    def __setstate__(self, state):\n"
            "        global count\n        count += 1\n        log.append(1); Counted.made.append(2); Counted.n += 1\n"
            "        Counted.last = self; self.__dict__.update(state)"
        )
        assert nb.run("c = Counted(); c.a = 1").unsaved == ()
        assert nb.look("(log, count, Counted.made, Counted.n, hasattr(Counted, 'last'), c.a)") == (
            [],
            0,
            [],
            0,
            False,
            1,
        )
        assert names_changed(nb.run("x = 1")) == {"x"}


def test_trying_what_a_function_makes_leaves_nothing_behind() -> None:
    with Notebook() as nb:
        nb.run(
            "log = []\ndef build(v):\n    log.append(v)\n    return Built(v)\n"
            "class Built:\n    n = 0\n    made = []\n"
            "    def __init__(self, v): Built.n += 1; Built.made.append(v); Built.last = v; self.v = v\n"
            "    def __reduce__(self): return build, (self.v,)\n"
        )
        told = nb.run("one = Built([1])")
        assert told.unsaved == ()
        assert nb.look("(log, Built.n, Built.made, Built.last is one.v)") == ([], 1, [[1]], True)
        nb.run("one.v.append(2)")
        nb.checkout(told)
        assert nb.look("(log, Built.n, Built.made, one.v, Built.last is one.v)") == ([], 1, [[1]], [1], True)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "does",
    [
        "print('again')",
        "open(path, 'w').write('')",
        "__import__('os').mkdir(path)",
        "import pathlib; pathlib.Path(path).mkdir()",
        "os.mkdir(path)",
        "home(path)",
        "(lambda: touch())()",
        "self.touch()",
        "state['path'].mkdir()",
        "tracker.n += 1",
        "held[0].n += 1",
        "self.shared.n += 1",
        "touch.n = 2",
        "state['make'](path)",
        "self.__class__.__init__.__globals__['os'].mkdir(path)",
        "super().__setstate__(state)",
    ],
)
def test_no_code_is_tried_that_may_do_more_than_compute(
    does: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made"
    with Notebook() as nb:
        nb.run(
            f"import os, pathlib\nfrom os import mkdir as home\npath = {str(path)!r}\n"
            "def touch(): os.mkdir(path)\ntouch.n = 1\n"
            "class Tracker: n = 0\ntracker = Tracker(); tracker.n = 1; held = [tracker]\n"
            "class Above:\n    def __setstate__(self, state): os.mkdir(path)\n"
            "class Does(Above):\n    shared = tracker\n    def touch(self): touch()\n"
            f"    def __setstate__(self, state):\n        self.__dict__.update(state)\n        {does}"
        )
        for _ in range(trials.MOST_TRIES + 1):
            nb.run("d = Does(); d.path = pathlib.Path(path); d.make = os.mkdir")
            nb.run("e = Does(); e.path = 1; e.make = touch")
            nb.run("f = Does(); f.make = f.path = 1")
        assert not path.exists()
        assert nb.look("(tracker.n, touch.n, held[0].n)") == (1, 1, 1)
    assert capsys.readouterr() == ("", "")


def test_what_a_later_cell_defines_does_not_count_as_lost() -> None:
    with Notebook() as nb:
        nb.run("class Late:\n    def __setstate__(self, state): self.__dict__.update(helped(state))\n")
        assert nb.run("late = Late(); late.a = 1").unsaved == ()
        nb.run("def helped(state): return state")
        nb.run("late.a = 2")
        nb.session.undo()
        assert nb.look("late.a") == 1
