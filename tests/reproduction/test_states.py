"""Variables of two runs: which are the same, and which cannot be compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_kernel.reproduction.assessment import Settings
from agent_kernel.reproduction.equality import Tolerance, compare_values
from tests.reproduction.histories import cell, reproduced, variable


def test_runs_with_seeds_come_out_the_same(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path,
        "import random, numpy as np\nrandom.seed(1); np.random.seed(2)",
        "a = random.random(); b = np.random.normal(size=4); rng = np.random.default_rng(3); c = rng.normal(size=4)",
    )
    assert found.ok
    assert {one.verdict.outcome for one in found.variables} == {"same"}
    assert found.headline == "2 of 2 cells reproduced"


def test_classes_functions_and_instances_are_compared_by_what_they_are_made_of(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path,
        "class Point:\n    unit = 'm'\n    def __init__(self, x): self.x = x\n    def far(self): return self.x > 9",
        "here = Point([1.0, 2.0]); there = Point({3}); nested = {'here': here}; norm = lambda v: v + 1",
    )
    assert found.ok
    assert {one.verdict.outcome for one in found.variables} == {"same"}


def test_an_object_without_equality_is_different_where_its_content_is(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path,
        "class Box:\n    pass\nbox = Box(); box.size = 1",
        others=["class Box:\n    pass\nbox = Box(); box.size = 2"],
    )
    assert variable(found, "box")[0].outcome == "different"
    assert not found.ok


def test_the_order_of_a_set_is_no_difference(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path,
        "tags = {'a', 'b', 'c'}; deep = [{'x': {'p', 'q'}}]; f = {0.3, 2.5}; n = {float('nan'), 'a'}",
        others=["tags = {'c', 'b', 'a'}; deep = [{'x': {'q', 'p'}}]; f = {2.5, 0.3}; n = {'a', float('nan')}"],
    )
    assert {one.verdict.outcome for one in found.variables} == {"same"}


# By name: the code, and what stands in place of `@@`. All are told apart in one history, for each takes a while to make.
_APART = {
    "mask": ("np.ma.array([1.0, 2.0], mask=[@@, 0])", 0, 1),
    "fill": ("np.ma.array([1.0, 2.0], fill_value=@@)", 7, 8),
    "index_name": ("pd.DataFrame({'a': [1, 2]}, index=pd.Index([0, 1], name=@@))", "'n'", "'m'"),
    "columns_name": ("pd.DataFrame([[1]], columns=pd.Index(['a'], name=@@))", "'n'", "'m'"),
    "levels": ("pd.Series([1], index=pd.MultiIndex.from_tuples([(1, 2)], names=@@))", "['a', 'b']", "['a', 'c']"),
    "attrs": ("(f := pd.DataFrame({'a': [1]}), f.attrs.update(k=@@))[0]", 1, 2),
    "freq": ("pd.DatetimeIndex(['2020-01-01', '2020-01-02'], freq=@@)", "'D'", "None"),
    "categories": ("pd.Series(pd.Categorical(['a'], categories=@@))", "['a', 'y']", "['a', 'z']"),
    "order": ("pd.Series(pd.Categorical(['a'], categories=@@))", "['a', 'y']", "['y', 'a']"),
    "ordered": ("pd.Series(pd.Categorical(['a'], ordered=@@))", "True", "False"),
    "ordered_dict": ("OrderedDict(@@)", "[('a', 1), ('b', 2)]", "[('b', 2), ('a', 1)]"),
    "plain_dict": ("@@", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    "counter": ("Counter(@@)", "['a', 'b']", "['b', 'a']"),
    "factory": ("defaultdict(@@)", "list", "dict"),
    "maxlen": ("deque([1], @@)", 2, 3),
    "one": ("@@", "{1}", "{1.0}"),
    "key": ("@@", "{1: 'a'}", "{True: 'a'}"),
    "nested_key": ("[@@]", "{(1, 2)}", "{(1, 2.0)}"),
    "uncompared": ("Uncompared(1, @@)", 1, 2),
    "by_id": ("ById(@@)", 1, 2),
    "odd": ("Odd(@@)", 1, 2),
    "of_float": ("with_unit(Length(1.5), @@)", "'m'", "'km'"),
    "of_set": ("with_unit(Group({1}), @@)", "'m'", "'km'"),
    "of_int": ("with_unit(Count(1), @@)", "'m'", "'km'"),
    "of_str": ("with_unit(Word('a'), @@)", "'m'", "'km'"),
    "of_array": ("with_unit(np.zeros(2).view(Grid), @@)", "'m'", "'km'"),
    "of_list": ("with_unit(Row([1]), @@)", "'m'", "'km'"),
    "annotated": ("annotated(@@)", "int", "str"),
    "two_lists": ("@@", "[[0], [0]]", "[z := [0], z]"),
    "in_dict": ("@@", "{'a': [0], 'b': [0]}", "{'a': (z := [0]), 'b': z}"),
    "two_arrays": ("@@", "[np.zeros(2), np.zeros(2)]", "[z := np.zeros(2), z]"),
    "view": ("(z := np.zeros(2), [z, @@])[1]", "z[:1]", "z[:1].copy()"),
    "a_property": ("type('P', (), {'p': property(@@)})", "lambda s: 1", "lambda s: 2"),
    "clock": ("@@", "1.7e9", "1.7e9 + 1"),
    "fortran": ("np.array([[1, 2], [3, 4]], order=@@)", "'C'", "'F'"),
}  # fmt: skip
_BEFORE = """
import numpy as np, pandas as pd, dataclasses
from collections import OrderedDict, Counter, defaultdict, deque
@dataclasses.dataclass
class Uncompared:
    a: int
    b: int = dataclasses.field(compare=False)
class ById:
    def __init__(self, n): self.id, self.n = 1, n
    def __eq__(self, other): return self.id == other.id
    def __hash__(self): return self.id
class Odd:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return [True]
class Length(float): pass
class Group(set): pass
class Count(int): pass
class Word(str): pass
class Row(list): pass
class Grid(np.ndarray): pass
def with_unit(value, unit):
    value.unit = unit
    return value
def annotated(kind):
    def f(x): return x
    f.__annotations__ = {'x': kind}
    return f
"""


def test_what_pickle_would_save_otherwise_is_different_whatever_equality_says(tmp_path: Path) -> None:
    first, second = (
        "".join(f"{name} = {code.replace('@@', str(sides[at]))}\n" for name, (code, *sides) in _APART.items())
        for at in (0, 1)
    )
    found = reproduced(tmp_path, _BEFORE, first + "del z, f", others=[_BEFORE, second + "del z, f"])
    outcomes = {one.name: one.verdict.outcome for one in found.variables}
    assert {name: outcomes[name] for name in _APART} == dict.fromkeys(_APART, "different")
    assert {outcome for name, outcome in outcomes.items() if name not in _APART} == {"same"}


def test_what_is_the_same_in_each_run_is_the_same(tmp_path: Path) -> None:
    lines = [
        "nat = [np.datetime64('NaT'), {'a', 'b', 'c'}]", "box = Box(); box.nat = np.datetime64('NaT'); box.s = {'a', 'b', 'c'}",
        "nan = [decimal.Decimal('NaN'), {'a', 'b'}]", "nans = {decimal.Decimal('NaN'), float('nan'), 'b'}",
        "arrow = Box(); arrow.a = pa.array([float('nan'), 1.5]); arrow.t = pa.table({'x': [float('nan')]}); arrow.s = {'a', 'b'}",
        "frame = Box(); frame.f = pd.DataFrame({'a': [None, 'x'], 'b': pd.array([1, None])}); frame.c = pd.Categorical(['a'])",
        "same = Box(); same.z = [1]; same.y = same.z; same.me = same; cats = Box(); cats.i = pd.date_range('2020', periods=2)",
    ]  # fmt: skip
    before = "import numpy as np, pandas as pd, pyarrow as pa, decimal\nclass Box: pass"
    found = reproduced(tmp_path, before, "\n".join(lines))
    assert {one.name: one.verdict.outcome for one in found.variables if one.verdict.outcome != "same"} == {}


def test_an_equality_of_a_library_is_asked_where_the_content_differs(tmp_path: Path) -> None:
    code = (
        "import decimal, pyarrow as pa\nn = decimal.Decimal('{}'); t = pa.table({{'x': [1]}}, metadata={{'k': '{}'}})"
    )
    found = reproduced(tmp_path, code.format("1.0", "a"), others=[code.format("1.00", "b")])
    assert {variable(found, name)[0].outcome for name in "nt"} == {"equal within tolerance"}


@pytest.mark.parametrize("change", ["C.n = {}", "setattr(C, 'n', {})", "C.m = [{}]"])
def test_a_class_that_a_later_cell_changes_is_another_one(tmp_path: Path, change: str) -> None:
    cells = ["class C: n = 1", "c = C()"]
    found = reproduced(tmp_path, *cells, change.format(5), others=[*cells, change.format(6)])
    assert variable(found, "C")[0].outcome == "different"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 0.1 + 0.2", "x = 0.3"),
        ("import numpy as np; x = np.array([1.0, 2.0])", "import numpy as np; x = np.array([1.0, 2.0 + 1e-13])"),
        (
            "import pandas as pd; x = pd.DataFrame({'a': [1.0, None], 'b': ['u', 'v']})",
            "import pandas as pd; x = pd.DataFrame({'a': [1.0 + 1e-13, None], 'b': ['u', 'v']})",
        ),
        ("x = {'k': [0.1 + 0.2]}", "x = {'k': [0.3]}"),
    ],
)
def test_numbers_may_differ_within_the_tolerance(tmp_path: Path, first: str, second: str) -> None:
    found = reproduced(tmp_path, first, others=[second])
    assert variable(found, "x")[0].outcome == "equal within tolerance"
    assert found.ok


def test_the_tolerance_can_be_none(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 0.1 + 0.2", others=["x = 0.3"], settings=Settings(Tolerance(rtol=0)))
    assert variable(found, "x")[0].outcome == "different"


def test_a_frame_says_where_it_differs(tmp_path: Path) -> None:
    frame = "import pandas as pd; df = pd.DataFrame({{'a': [1, 2, {}], 'b': ['u', 'v', 'w']}})"
    found = reproduced(tmp_path, frame.format(3), others=[frame.format(4)])
    verdict, _ = variable(found, "df")
    assert verdict.outcome == "different"
    assert "column a: 1 of 3 rows differs: row 2" in verdict.details


def test_a_value_whose_content_cannot_be_read_is_not_comparable(tmp_path: Path) -> None:
    odd = "class Odd:\n    n = 0\n    def __reduce__(self):\n        Odd.n += 1\n        if Odd.n > 1: raise ValueError('no')\n        return Odd, ()"
    verdict = compare_values(*_made_twice(f"{odd}\nOdd.n = 9\nodd = Odd()", "odd"), tolerance=Tolerance())
    assert verdict == (None, True, "the content of Odd cannot be read")


def _made_twice(code: str, name: str) -> tuple[object, object]:
    spaces: list[dict[str, object]] = [{"__name__": "__main__"}, {"__name__": "__main__"}]
    for namespace in spaces:
        exec(code, namespace)
    return spaces[0][name], spaces[1][name]


def test_a_value_whose_comparison_ends_the_process_leaves_the_others_compared(tmp_path: Path) -> None:
    bad = "import os\nclass Bad:\n    def __setstate__(self, state): os._exit(1)\nbad = Bad(); bad.n = 1"
    found = reproduced(tmp_path, bad, "class Good:\n    pass\ngood = Good(); good.x = 1; last = {good.x: good}")
    assert variable(found, "bad")[0].reason == "comparing it ended the process"
    assert variable(found, "good")[0].outcome == variable(found, "last")[0].outcome == "same"


def test_what_is_not_saved_is_not_comparable(tmp_path: Path) -> None:
    verdict, _ = variable(reproduced(tmp_path, "rows = (n for n in range(3))"), "rows")
    assert verdict.outcome == "not comparable"
    assert "not saved" in verdict.reason


def test_a_variable_that_only_one_run_has_is_different(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "kept = 1; gone = 2", others=["kept = 1; new = 3"])
    assert variable(found, "gone")[0].reason == "the second run does not have it"
    assert variable(found, "new")[0].reason == "only the second run has it"


def test_of_an_untrusted_store_nothing_but_plain_data_is_loaded(tmp_path: Path) -> None:
    seen: list[str] = []

    def hear(event: str, args: tuple[object, ...]) -> None:
        if event == "pickle.find_class" and hearing:
            seen.append(str(args))

    hearing: list[bool] = []
    sys.addaudithook(hear)
    cells = [
        "import numpy as np",
        "class A:\n    pass\na = A(); a.x = 1",
        "x = 1.5; y = np.arange(3.0); s = {'u'}; z = {'k': a}",
    ]
    others = [cells[0], cells[1].replace("= 1", "= 2"), "x = 2.5; y = np.arange(3.0) + 1; s = {'v'}; z = {'k': a}"]
    from tests.reproduction import histories

    def without_trust(*given: object, **named: object) -> object:
        hearing.append(True)
        try:
            return assess(*given, **named)
        finally:
            hearing.clear()

    assess = vars(histories)["assess"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "assess", without_trust)
        found = reproduced(tmp_path, *cells, others=others, trusted=False)
    assert seen == []
    outcomes = {name: variable(found, name)[0].outcome for name in "axysz"}
    assert outcomes == {
        "a": "not comparable", "x": "different", "y": "different", "s": "different", "z": "not comparable",
    }  # fmt: skip
    assert all("the class A" in variable(found, name)[0].reason for name in "az")
    assert any("not trusted" in note for note in found.notes)


def test_each_cell_says_what_it_changed(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "a = 1", "b = a + 1", others=["a = 2", "b = a + 1"])
    assert [one.name for one in cell(found, 2).variables] == ["b"]
    assert cell(found, 2).variables[0].causes[0].text == "follows from a in cell 1"


@pytest.mark.parametrize("pair", [("b = a", "b = [1]"), ("b = [1]", "b = a")])
def test_names_that_share_an_object_in_one_run_only_are_different(tmp_path: Path, pair: tuple[str, str]) -> None:
    found = reproduced(tmp_path, "a = [1]", pair[0], others=["a = [1]", pair[1]])
    assert variable(found, "a")[0].reason == "it shares its object with b in one run only"
    assert variable(found, "b")[0].outcome == "different"
    assert cell(found, 2).outcome == "different"
    assert not found.ok


def test_a_shared_part_is_told_from_a_copy_of_it(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "a = [1]", "b = {'k': a}", others=["a = [1]", "b = {'k': [1]}"])
    assert variable(found, "b")[0].reason == "it shares its object with a in one run only"


def test_names_that_share_in_both_runs_are_the_same(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path, "class A: pass", "a = [1]; b = a; c = {'k': a}; d = A(); e = [d, d]; f = A", "import math; m = math"
    )
    assert {one.verdict.outcome for one in found.variables} == {"same"}


def test_numbers_of_numpy_are_told_apart(tmp_path: Path) -> None:
    numbers = [("np.float64({})", 1.5, 2.5), ("np.complex128({})", 1.5, 2.5), ("np.float32({})", 1.5, 2.5)]
    first, second = (
        "import numpy as np\n"
        + "\n".join(f"n{at} = {code.format(pair[side])}" for at, (code, *pair) in enumerate(numbers))
        for side in (0, 1)
    )
    found = reproduced(tmp_path, first, others=[second])
    assert {one.name: one.verdict.outcome for one in found.variables if one.name != "np"} == dict.fromkeys(
        ("n0", "n1", "n2"), "different"
    )
