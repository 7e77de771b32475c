"""What two values share is found, and what only looks shared is not: a false group is the costliest mistake."""

from __future__ import annotations

import enum
import functools
import math
import operator
import random
import sys
from collections import OrderedDict, defaultdict, deque
from typing import Annotated, Any, Optional

import pytest

from agent_kernel.session.staging import share
from agent_kernel.values.aliases import LARGE, Reach, find, find_possibly_shared, find_shared_below, reach
from agent_kernel.values.pickler import dump_objects
from tests.values.notebook import Namespace

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")
TREE: Any = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()


def do_share(one: object, other: object) -> bool:
    notebook = Namespace()
    dumped = [notebook.dump({"": value}) for value in (one, other)]
    return share(dumped[0].reach, dumped[1].reach)


class Colour(enum.Enum):
    RED = 1


class Box:
    def __init__(self, *held: object) -> None:
        self.held = held

    def method(self) -> None: ...


SHARED: list[object] = []
ARRAY = np.arange(10)
TEXT = "a text that is long enough not to be interned " * 3
NUMBER = 10**40
FROZEN = frozenset({"a", "b"})
PLAIN_TUPLE = ("a", 1, None)
BOX = Box()
OPTIONAL = Optional[int]  # noqa: UP045  # typing makes it once, and gives it to all


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([SHARED], {"key": SHARED}, id="a list in a list and in a dict"),
        pytest.param([[(SHARED,)]], (frozenset(), [SHARED]), id="deep below"),
        pytest.param(SHARED, [SHARED], id="the value itself"),
        pytest.param([Annotated[int, BOX]], [BOX], id="the metadata of an annotation"),
        pytest.param(Box(SHARED), Box(SHARED), id="an attribute of two instances"),
        pytest.param([BOX], {"": BOX}, id="an instance"),
        pytest.param(BOX.method, [BOX], id="the object of a bound method"),
        pytest.param(SHARED.append, [SHARED], id="the list of a bound builtin method"),
        pytest.param(functools.partial(print, SHARED), [SHARED], id="an argument of a partial"),
        pytest.param(deque([SHARED]), defaultdict(list, a=SHARED), id="library containers"),
        pytest.param(OrderedDict(a=SHARED), [SHARED], id="a dict subclass"),
        pytest.param([ARRAY], {"": ARRAY}, id="an array"),
        pytest.param(ARRAY[:6], ARRAY[4:], id="overlapping views"),
        pytest.param(ARRAY, ARRAY.reshape(2, 5), id="an array and its view"),
        pytest.param(np.array([SHARED, None], object), [SHARED], id="an item of an object array"),
        pytest.param(pd.DataFrame({"a": [SHARED]}), [SHARED], id="a cell of a frame"),
    ],
)
def test_values_that_share_an_object_are_found(one: object, other: object) -> None:
    assert do_share(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(None, [None], id="None"),
        pytest.param([True, 1, ...], [True, 1, ...], id="singletons"),
        pytest.param([TEXT], {TEXT: TEXT}, id="a text"),
        pytest.param([NUMBER], [NUMBER], id="a number"),
        pytest.param([PLAIN_TUPLE], {"": PLAIN_TUPLE}, id="a tuple of plain values"),
        pytest.param([FROZEN], (FROZEN,), id="a frozenset"),
        pytest.param([Colour.RED], {"": Colour.RED}, id="an enum member"),
        pytest.param([Box], {"": Box}, id="a class of a module"),
        pytest.param([Box()], [Box()], id="two instances of one class"),
        pytest.param([len, math.sqrt], [len, math.sqrt], id="builtin functions"),
        pytest.param([functools.reduce], {"": functools.wraps}, id="functions of one module"),
        pytest.param([functools.wraps], [functools.wraps], id="a function by name"),
        pytest.param([operator], [operator], id="a module"),
        pytest.param([OPTIONAL, list[int]], [OPTIONAL, list[int]], id="annotations"),
        pytest.param([random.choice], [random.choice], id="a function that is a method of a module's own object"),
        pytest.param([np.dtype("f8")], [np.dtype("f8")], id="a dtype"),
        pytest.param(np.zeros(3), np.zeros(3), id="arrays of one dtype"),
        pytest.param([np.sum, np.add], [np.sum, np.add], id="functions of numpy"),
        pytest.param(ARRAY[:5], ARRAY[5:], id="neighbouring slices"),
        pytest.param([pd.Timestamp(0)], [pd.Timestamp(0)], id="a timestamp"),
        pytest.param(pd.Series([1.5]).dtype, pd.Series([2.5]).dtype, id="dtypes of pandas"),
        pytest.param(pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]}), id="frames with equal columns"),
        pytest.param([pd.NA, pd.NaT], [pd.NA, pd.NaT], id="missing values"),
        pytest.param([sys.stdout.__class__], [sys.stdout.__class__], id="a class of the standard library"),
    ],
)
def test_values_that_share_nothing_that_can_change_are_not_grouped(one: object, other: object) -> None:
    assert not do_share(one, other)


class Settings:
    """Says what is saved of it as scikit-learn's estimators do: in a dict that is made for that."""

    def __init__(self, *held: object) -> None:
        self.held = held

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__, version=1)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


class Arguments(Settings):
    def __reduce__(self) -> Any:
        return Arguments, (["made", "here"], {"made": "here"}, *self.held)


class Arrays(Settings):
    """Makes arrays as it is saved, as the trees of scikit-learn do: copies, and views of what it holds."""

    def __reduce__(self) -> Any:
        return Arrays, (np.arange(3), *self.held), {"counts": [np.arange(4)], "values": np.asarray(self.held[0])[:]}


class Remembered(Settings):
    """Gives the same tuple each time, which alone holds the list."""

    parts: Any = None

    def __reduce__(self) -> Any:
        return self.parts


HELD_BY_PARTS = Remembered, ([1, 2],)


def remembered(parts: Any) -> Remembered:
    made = Remembered()
    made.parts = parts
    return made


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), id="a frame"),
        pytest.param(pd.Series([1, 2], index=["x", "y"]), id="a series"),
        pytest.param(Settings(SHARED), id="its own state"),
        pytest.param(Arguments(SHARED), id="its own arguments"),
        pytest.param(Arrays(ARRAY), id="arrays of its own state"),
        pytest.param(TREE.fit([[0], [1]], [0, 1]).tree_, id="a tree of scikit-learn"),
        pytest.param(defaultdict(list, a=SHARED), id="a library's container"),
        pytest.param(np.ma.array([1, 2], mask=[True, False]), id="a masked array"),
    ],
)
def test_what_a_dump_makes_on_its_way_counts_as_nothing_that_the_value_holds(value: object) -> None:
    notebook = Namespace()
    one, other = notebook.dump({"": value}), notebook.dump({"": value})  # both alive, so that no address is used again
    assert one.reach.ids == other.reach.ids
    assert places_of(one.reach) == places_of(other.reach)


def places_of(found: Reach) -> list[tuple[int, int]]:
    return [(use.low, use.high) for use in found.memory]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Settings(SHARED), [SHARED], id="in a state that is made anew"),
        pytest.param(Arguments(SHARED), [SHARED], id="in arguments that are made anew"),
        pytest.param(Arrays(ARRAY), [ARRAY], id="an array among arguments that are made anew"),
        pytest.param(Arrays(ARRAY), ARRAY[2:5], id="the memory of an array among them"),
        pytest.param(remembered(HELD_BY_PARTS), remembered(HELD_BY_PARTS), id="in a tuple that is given again"),
        pytest.param(
            remembered((Remembered, HELD_BY_PARTS[1])), [HELD_BY_PARTS[1]], id="in arguments that are given again"
        ),
    ],
)
def test_what_a_value_reduces_to_may_be_shared_all_the_same(one: object, other: object) -> None:
    assert do_share(one, other)


@pytest.mark.parametrize("labels", [["x", "y"], ["x", 1], [1, 2]])
def test_frames_that_share_an_index_are_not_grouped(labels: list[object]) -> None:
    index = pd.Index(labels, name="both")
    one, other = pd.DataFrame({"a": [1, 2]}, index=index), pd.Series([3, 4], index=index)
    assert one.index is index
    assert not do_share(one, other)


@pytest.mark.skipif(int(pd.__version__.partition(".")[0]) < 3, reason="frames share what they write to before pandas 3")
def test_frames_that_share_memory_until_one_is_written_to_are_not_grouped() -> None:
    frame = pd.DataFrame({"a": np.arange(1_000)})
    assert np.shares_memory(frame["a"].to_numpy(), frame.iloc[:10]["a"].to_numpy())
    assert not do_share(frame, frame.iloc[:10])


def test_functions_that_use_one_namespace_are_not_grouped() -> None:
    notebook = Namespace()
    notebook.run("table = []\ndef one():\n    return table\ndef other():\n    return one(), table\n")
    one, other = (notebook.dump({"": notebook[name]}).reach for name in ("one", "other"))
    assert not share(one, other)


def test_functions_that_close_over_one_cell_are_grouped() -> None:
    notebook = Namespace()
    notebook.run(
        "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def now():\n        return n\n"
        "    return up, now\nup, now = counter()\n"
    )
    up, now = (notebook.dump({"": notebook[name]}).reach for name in ("up", "now"))
    assert share(up, now)


def test_a_default_argument_is_reached() -> None:
    notebook = Namespace()
    notebook.run("cache = {}\ndef look(key, cache=cache):\n    return cache[key]\n")
    look, cache = (notebook.dump({"": notebook[name]}).reach for name in ("look", "cache"))
    assert share(look, cache)


def test_a_large_value_keeps_only_what_someone_else_holds() -> None:
    notebook = Namespace()
    rows: list[list[int]] = [[number] for number in range(LARGE + 1_000)]
    kept = rows[-1]
    dump = dump_objects([rows], notebook.living, notebook.names)
    found = reach([rows], dump)
    assert not found.complete
    assert id(kept) in found.ids
    assert len(found.ids) < 10


class TestHeldElsewhere:
    """The count of references says whether anything but a value's own names holds a part of it."""

    def held(self, notebook: Namespace, *names: str) -> set[int]:
        members = {name: notebook.names[name] for name in names}
        dump = dump_objects([tuple(members.values())], notebook.living, notebook.names)
        # The namespace holds each value, and `members` holds it once more.
        return find_possibly_shared(tuple(members.values()), dump, holders=2)

    @pytest.mark.parametrize(
        "source",
        [
            "value = [[1], [2], {'a': []}]",
            "value = {'deep': {'deeper': [{}]}, 'set': {1, 2}}",
            "value = ([1], (2, [3]))",
            "value = [bytearray(b'x')]",
            "class P: ...\nvalue = P()\nvalue.rows = [[1]]\ndel P",
            "value = [1, 'text', None, 2.5]",
        ],
    )
    def test_what_only_the_value_holds_is_not_flagged(self, source: str) -> None:
        notebook = Namespace()
        notebook.run(source)
        assert self.held(notebook, "value") == set()

    @pytest.mark.parametrize(
        "source",
        [
            "value = [[1], [2]]\npart = value[1]",
            "value = {'deep': {'deeper': [{}]}}\npart = value['deep']['deeper'][0]",
            "part = {1}\nvalue = (part, 2)",
            "part = bytearray(b'x')\nvalue = [part]",
            "class P: ...\npart = P()\nvalue = [part]",
            "class P: ...\nvalue = P()\nvalue.rows = part = [1]",
        ],
    )
    def test_a_part_that_another_name_holds_is_flagged(self, source: str) -> None:
        notebook = Namespace()
        notebook.run(source)
        held = self.held(notebook, "value")
        assert id(notebook["part"]) in held
        notebook.run("hidden = [part]\ndel part")
        assert id(notebook["hidden"][0]) in self.held(notebook, "value")

    def test_a_value_that_another_value_holds_is_flagged(self) -> None:
        notebook = Namespace()
        notebook.run("value = [1]\nother = [value]")
        assert id(notebook["value"]) in self.held(notebook, "value")

    def test_what_was_held_can_be_found_again_by_its_id(self) -> None:
        notebook = Namespace()
        notebook.run("value = [[1], {'a': [2]}]\npart = value[1]['a']")
        members = [notebook["value"]]
        dump = dump_objects([members], notebook.living, notebook.names)
        assert find({id(notebook["part"])}, members, dump) == [[2]]


class TestHeldBelow:
    """Of a segment, which holds a copy of a part of its container."""

    def held(self, notebook: Namespace, first: int, last: int) -> set[int]:
        items = notebook["rows"][first:last]
        dump = dump_objects([items], notebook.living, notebook.names)
        return find_shared_below(items, dump)

    def test_rows_of_their_own_are_not_flagged(self) -> None:
        notebook = Namespace()
        notebook.run("rows = [[n, {}] for n in range(10)]")
        assert self.held(notebook, 2, 5) == set()

    def test_a_row_that_another_name_holds_is_flagged(self) -> None:
        notebook = Namespace()
        notebook.run("rows = [[n, {}] for n in range(10)]\nrow = rows[3]")
        assert self.held(notebook, 2, 5) == {id(notebook["row"])}
        assert self.held(notebook, 5, 8) == set()

    OWN = "class Row:\n    def __init__(self, n): self.n, self.below = n, []\nrows = [Row(n) for n in range(10)]\n"

    def test_objects_of_their_own_are_not_flagged(self) -> None:
        notebook = Namespace()
        notebook.run(self.OWN)
        assert self.held(notebook, 2, 5) == set()

    @pytest.mark.parametrize(
        "holds", ["held = row", "held = [row]", "held = row.below.append", "rows[9].below.append(row)", "rows[9] = row"]
    )
    def test_an_object_that_is_held_elsewhere_is_flagged(self, holds: str) -> None:
        notebook = Namespace()
        notebook.run(f"{self.OWN}row = rows[3]\n{holds}\nwhere = id(row), id(row.below)\ndel row")
        assert self.held(notebook, 2, 5) & set(notebook["where"])
        assert self.held(notebook, 5, 8) == set()

    def test_an_object_with_a_weak_reference_is_flagged(self) -> None:
        notebook = Namespace()
        notebook.run(f"import weakref\n{self.OWN}held = weakref.ref(rows[3])")
        assert self.held(notebook, 2, 5) == {id(notebook["rows"][3])}

    def test_an_object_in_a_tuple_that_is_held_elsewhere_is_flagged(self) -> None:
        notebook = Namespace()
        notebook.run(f"{self.OWN}rows = [(row, row.n) for row in rows]\nheld = rows[3]")
        assert id(notebook["held"][0]) in self.held(notebook, 2, 5)

    def test_an_object_that_two_rows_hold_is_flagged(self) -> None:
        notebook = Namespace()
        notebook.run("rows = [[n, {}] for n in range(10)]\nrows[9][1] = rows[3][1]")
        assert self.held(notebook, 2, 5) == {id(notebook["rows"][3][1])}


def test_two_functions_with_one_annotation_are_not_grouped() -> None:
    notebook = Namespace()
    notebook.run("from typing import Optional\ndef one(a: Optional[int]): ...\ndef other(b: Optional[int]): ...\n")
    one, other = (notebook.dump({"": notebook[name]}).reach for name in ("one", "other"))
    assert not share(one, other)


def test_a_function_of_the_random_module_goes_on_as_its_seed_says() -> None:
    notebook = Namespace()
    notebook.run("from random import randint")
    assert notebook.there_and_back("randint")["randint"] is random.randint
