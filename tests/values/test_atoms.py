"""Arrays and long containers of immutable items: what proves them unchanged, and that they come back exactly."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import gc
import uuid
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.values import atoms, references
from agent_kernel.values.introspection import set_table_and_items
from tests.values.notebook import Namespace

N = atoms.LONG


def column(items: Sequence[object]) -> Any:
    made = np.empty(len(items), object)
    for place, item in enumerate(items):
        made[place] = item
    return made


def there_and_back(value: object) -> Any:
    names = Namespace()
    names.names["value"] = value
    return names.there_and_back("value")["value"]


def spelled(item: object) -> tuple[type, str]:
    return type(item), repr(item)


def assert_same(found: Any, given: Any) -> None:
    """The same items, of the same types, and the same of them one object. (Of each single character Python has but one.)"""
    assert (found.shape, found.flags.writeable) == (given.shape, given.flags.writeable)
    assert found.flags.f_contiguous == given.flags.f_contiguous or not given.flags.contiguous
    ours, theirs = found.ravel().tolist(), given.ravel().tolist()
    assert list(map(spelled, ours)) == list(map(spelled, theirs))
    places = [{id(item): place for place, item in enumerate(items)} for items in (ours, theirs)]
    assert [places[0][id(item)] for item in ours] == [places[1][id(item)] for item in theirs]


class Marked(str):  # noqa: SLOT000  # a state is the point
    """A text with a state of its own."""

    note: str


class Number(int):
    """A number with a state of its own."""

    note: str


SHARED = ("a", (1, "b"))
MIXES: dict[str, list[object]] = {
    "texts, each its own": [f"text {n}" for n in range(N)],
    "a few texts, shared": ["ab"[n % 2] * 20 for n in range(N)],
    "numbers that are equal": [(1, 1.0, True, 0, 0.0, False, -0.0)[n % 7] for n in range(N)],
    "not a number, several of them": [*(float("nan") for _ in range(N)), np.nan, np.nan],
    "missing ones": [(None, pd.NA, pd.NaT, np.nan, "x")[n % 5] for n in range(N)],
    "decimals and dates": [
        (decimal.Decimal(n), datetime.date(2024, 1, 1 + n % 28), datetime.timedelta(n), "x")[n % 4] for n in range(N)
    ],
    "moments with and without a zone": [
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC if n % 2 else None) for n in range(N)
    ],
    "halves of surrogates": [f"\ud800{n}" for n in range(N)],
    "bytes and complex numbers": [(b"\0" * (2 + n % 300), complex(n, -0.0))[n % 2] for n in range(N)],
    "large numbers": [(-1) ** n * 2 ** (n % 200) for n in range(N)],
    "tuples, some shared": [(n, ("t", n)) if n % 2 else SHARED for n in range(N)],
    "numpy's own": [np.float64(n) if n % 2 else np.str_(n) for n in range(N)],
    "lists": [[n] for n in range(N)],
    "a list in the last tuple": [*((n,) for n in range(N)), ([1],)],
    "a list at the end": [*map(str, range(N)), ["x"]],
}


@pytest.mark.parametrize("items", MIXES.values(), ids=MIXES)
def test_what_is_in_an_array_comes_back_as_it_was(items: list[object]) -> None:
    given = column(items)
    assert_same(there_and_back(given), given)


@pytest.mark.parametrize("kind", [Marked, Number])
def test_an_item_with_a_state_of_its_own_keeps_it(kind: Any) -> None:
    odd = kind("5")
    odd.note = "mine"
    items = [str(n) for n in range(N)]
    items[N // 2] = odd
    for value in (column(items), items, tuple(items), dict.fromkeys(items), {"x": column(items)}):
        assert not atoms.digest_of(value)
    found = there_and_back(column(items))[N // 2]
    assert (type(found), found, found.note) == (kind, odd, "mine")


SHAPES: dict[str, Any] = {
    "in rows": lambda flat: flat.reshape(10, -1),
    "in columns": lambda flat: flat.reshape(10, -1, order="F"),
    "every second": lambda flat: np.repeat(flat, 2)[::2],
    "turned round": lambda flat: flat[::-1],
    "read only": lambda flat: _read_only(flat),
    "turned": lambda flat: flat.reshape(10, -1).T,
}


def _read_only(flat: Any) -> Any:
    flat.flags.writeable = False
    return flat


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_shape_of_an_array_comes_back(shape: Any) -> None:
    given = shape(column([f"text {n % 77}" for n in range(N)]))
    assert_same(there_and_back(given), given)


@pytest.mark.parametrize("given", [np.array("x", object), np.empty((0, 3), object), column(["x"] * 3)], ids=str)
def test_a_short_array_is_no_case_of_its_own(given: Any) -> None:
    assert not atoms.digest_of(given)
    assert_same(there_and_back(given), given)


@pytest.mark.parametrize("distinct", [1, 256, 257, 65_536, 65_537])
def test_codes_are_as_wide_as_they_have_to_be(distinct: int) -> None:
    texts = [f"text {n}" for n in range(distinct)]
    given = column([texts[n % distinct] for n in range(max(N, distinct + 3))])
    assert_same(there_and_back(given), given)


def test_an_array_and_views_of_it_stay_views() -> None:
    whole = column([str(n % 7) for n in range(3 * N)])
    back = there_and_back({"whole": whole, "part": whole[N:], "again": whole})
    assert back["again"] is back["whole"]
    back["part"][0] = "changed"
    assert back["whole"][N] == "changed"


def test_equal_columns_made_apart_have_equal_bytes() -> None:
    names = Namespace()
    streams: list[list[bytes]] = []
    for _ in range(2):
        names.names["value"] = column([f"name {n % 500}" if n % 3 else n + 0.5 for n in range(N)])
        texts: dict[object, object] = {}
        names.names["value"] = column([texts.setdefault(item, item) for item in names.names["value"]])
        streams.append(names.keep("value")[0].blobs)
    assert streams[0] == streams[1]


# -- what proves that nothing changed

START = datetime.datetime(2020, 1, 1)
ZONES = (datetime.UTC, datetime.timezone(datetime.timedelta(hours=2)))
LONGS: dict[str, Any] = {
    "list": lambda: [f"w{n}" for n in range(N)],
    "tuple": lambda: tuple(f"w{n}" for n in range(N)),
    "set": lambda: {f"w{n}" for n in range(N)},
    "dict": lambda: {f"w{n}": n / 2 for n in range(N)},
    "numbers": lambda: list(range(N)),
    "pairs": lambda: [(n, (str(n), None)) for n in range(N)],
    "array": lambda: column([f"w{n}" for n in range(N)]),
    "days": lambda: [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in range(N)],
    "spans": lambda: [datetime.timedelta(n, n) for n in range(N)],
    "times": lambda: [START + datetime.timedelta(0, n) for n in range(N)],
    "times of a day": lambda: [(START + datetime.timedelta(0, n)).time() for n in range(N)],
    "times in zones": lambda: [(START + datetime.timedelta(0, n)).astimezone(ZONES[n % 2]) for n in range(N)],
    "rows": lambda: [(datetime.date(2000, 1, 1 + n % 9), n / 2, (decimal.Decimal(n), None)) for n in range(N)],
    "a dict of days": lambda: {f"w{n}": datetime.date(2000, 1, 1 + n % 9) for n in range(N)},
    "decimals": lambda: [decimal.Decimal(n) / 7 for n in range(N)],
    "ids": lambda: [uuid.UUID(int=n) for n in range(N)],
    "complex numbers": lambda: [complex(n, 1) for n in range(N)],
    "numpy's numbers": lambda: list(np.arange(N) / 3),
    "several of numpy's": lambda: [(np.float32, np.int8, np.bool_, np.float64)[n % 4](n % 100) for n in range(N)],
}


@pytest.mark.parametrize("make", LONGS.values(), ids=LONGS)
def test_a_digest_stays_while_nothing_changes_and_only_then(make: Any) -> None:
    value = make()
    before = atoms.digest_of(value)
    assert before
    assert atoms.digest_of(value) == before
    if isinstance(value, set):
        value.discard("w7")
        value.add("another")
    elif isinstance(value, dict):
        value["w7"] = -1
    elif not isinstance(value, tuple):
        value[7] = value[8]
    else:
        value = (*value, 1)
    changed = atoms.digest_of(value)
    assert changed not in (b"", before)


@pytest.mark.parametrize("other", [1, 1.0, True, "1", b"1", np.int64(1), Number(1)], ids=repr)
@pytest.mark.parametrize("was", [1, 1.0, True], ids=repr)
def test_an_equal_item_of_another_type_is_another_item(was: object, other: object) -> None:
    for make in (list, column):
        value: Any = make([*range(5, N + 5), was])
        before = atoms.digest_of(value)
        value[N] = other
        assert (atoms.digest_of(value) == before) == (other is was)
    many: Any = {*range(5, N + 5), was}
    before = atoms.digest_of(many)
    many.discard(was)
    many.add(other)
    assert (atoms.digest_of(many) == before) == (other is was)


def test_a_new_item_at_the_address_of_an_old_one_is_seen() -> None:
    value = [float(n) + 0.5 for n in range(N)]
    seen = {atoms.digest_of(value)}
    for n in range(50):
        value[9] = 0.0  # frees the old one, whose place the next float takes
        value[9] = float(n)
        seen.add(atoms.digest_of(value))
    assert len(seen) == 51


class Zone(datetime.tzinfo):
    """A zone that may change."""

    def utcoffset(self, _: object) -> datetime.timedelta:
        return datetime.timedelta(0)

    def dst(self, _: object) -> datetime.timedelta:
        return datetime.timedelta(0)

    def tzname(self, _: object) -> str:
        return "mine"


ALIKE: dict[str, tuple[Any, Any]] = {
    "digits": (lambda: decimal.Decimal("1.0"), lambda: decimal.Decimal("1.00")),
    "signs": (lambda: decimal.Decimal(0), lambda: decimal.Decimal("-0")),
    "folds": (lambda: START.replace(fold=0), lambda: START.replace(fold=1)),
    "folds of a day": (lambda: datetime.time(1, fold=0), lambda: datetime.time(1, fold=1)),
    "zones": (lambda: START.replace(tzinfo=ZONES[0]), lambda: START.replace(hour=2, tzinfo=ZONES[1])),
    "a named zone": (
        lambda: START.replace(tzinfo=ZONES[0]),
        lambda: START.replace(tzinfo=datetime.timezone(datetime.timedelta(0), "mine")),
    ),
    "a day and its midnight": (lambda: datetime.date(2020, 1, 1), lambda: datetime.datetime(2020, 1, 1)),
    "bits": (lambda: np.float64(0.0), lambda: np.float64(-0.0)),
    "widths": (lambda: np.int32(1), lambda: np.int64(1)),
    "truth": (lambda: np.bool_(True), lambda: True),
    "a float": (lambda: np.float64(1.5), lambda: 1.5),
    "safety": (
        lambda: uuid.UUID(int=1),
        lambda: uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe),
    ),
}


@pytest.mark.parametrize(("make", "other"), ALIKE.values(), ids=ALIKE)
def test_a_new_item_that_is_equal_in_all_but_one_way_is_seen(make: Any, other: Any) -> None:
    value = [*(make() for _ in range(N)), None]
    value[7] = make()
    before = atoms.digest_of(value)
    for _ in range(20):
        value[7] = None  # frees the old one, whose place the next may take
        value[7] = other()
        assert atoms.digest_of(value) not in (b"", before)


def test_a_time_in_a_zone_of_a_persons_own_class_is_dumped() -> None:
    for time in (START.replace(tzinfo=Zone()), datetime.time(tzinfo=Zone())):
        value = [*(START for _ in range(N)), time]
        assert not atoms.holds_atoms(value)
        assert not atoms.digest_of(value)


def test_a_long_container_whose_items_cannot_be_read_has_no_digest() -> None:
    assert not atoms.digest_of([uuid.UUID.__new__(uuid.UUID) for _ in range(N)])


@pytest.mark.parametrize(
    "value",
    [
        [*map(str, range(N)), []],
        [*map(str, range(N)), bytearray(b"x")],
        {**{str(n): n for n in range(N)}, "x": {}},
        [(1, 2, [3]) for _ in range(N)],
        {frozenset({n}) for n in range(N)},
        [*map(str, range(N)), print],
        [*map(str, range(N)), int],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_something_that_can_change_is_dumped(value: Any) -> None:
    assert not atoms.holds_atoms(value)


def test_a_type_that_a_person_reduces_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[object] = [*map(decimal.Decimal, range(N))]
    long = [*map(decimal.Decimal, range(N))]
    assert atoms.only_atoms(items)
    assert atoms.digest_of(long)
    monkeypatch.setitem(copyreg.dispatch_table, decimal.Decimal, lambda value: (str, (str(value),)))
    assert not atoms.only_atoms(items)
    assert not atoms.holds_atoms(long)
    assert not atoms.digest_of(long)


def test_a_column_of_few_objects_has_the_codes_that_sorting_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atoms, "_STEP", 1_000)
    monkeypatch.setattr(atoms, "_SAMPLE", 64)
    texts = [f"text {n}" for n in range(900)]
    rare = [*texts[:3] * 4_000, texts[7], *texts[:3], texts[8]]
    grows = [texts[n // 40] for n in range(36_000)]
    columns: list[list[object]] = [[texts[0]] * 5_000, [*rare], [*grows], [*texts], [None, 1.0, "a", True, 1] * 900]
    few = 0
    for items in columns:
        codes, distinct = atoms._distinct(column(items))
        found = atoms._codes_of_few(atoms._pointers(column(items)))
        few += found is not None
        order = list(dict.fromkeys(map(id, items)))
        assert list(map(id, distinct)) == order
        if len(order) == len(items):
            assert codes == b""
            continue
        width = len(codes) // len(items)
        read = np.frombuffer(codes, f"u{width}").tolist()
        assert read == [order.index(id(item)) for item in items]
    assert few == 3


def test_no_more_than_the_distinct_objects_are_asked_for_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    kinds_of = atoms._kinds_of

    def noted(items: Sequence[object]) -> set[int] | None:
        asked.append(len(items))
        return kinds_of(items)

    monkeypatch.setattr(atoms, "_kinds_of", noted)
    for size in (N, 2 * N, 4 * N):
        atoms.encode_array(column(["a", "b", "c", "d"] * (size // 4)), "C", watched=False)
    assert asked == [4, 4, 4]


# -- what is kept


def test_many_nans_are_not_looked_for_in_modules_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find_object = references._find_object

    def noted(module: str, name: str) -> object:
        asked.append(name)
        return find_object(module, name)

    monkeypatch.setattr(references, "_find_object", noted)
    for many in (N, 2 * N, 4 * N):
        made = atoms.encode_array(column([np.nan, *(float("nan") for _ in range(many))]), "C", watched=False)
        assert made is not None
        assert [value is np.nan for _, value in made.nans] == [True]
        assert len(asked) <= 10
        asked.clear()


def test_what_a_frame_held_goes_with_the_frame() -> None:
    names = Namespace()
    names.run("import numpy as np, pandas as pd")
    names.run(f"df = pd.DataFrame({{'t': [f'text {{n}}' for n in range({N})]}}, dtype=object)")
    gc.collect()
    before = len(atoms._last_dumps)
    names.keep("df")
    assert len(atoms._last_dumps) == before + 1
    names.run("del df")
    gc.collect()
    assert len(atoms._last_dumps) == before


def test_what_a_set_held_goes_with_the_set() -> None:
    words = {f"word {n}" for n in range(N)}
    assert atoms.digest_of(words)
    key = id(words)
    assert key in atoms._last_dumps
    del words
    assert key not in atoms._last_dumps


def test_an_array_that_a_person_may_hold_can_still_be_resized() -> None:
    names = Namespace()
    names.run("import numpy as np")
    names.run(f"a = np.array([str(n) for n in range({N})], object)\nholder = {{'b': a.copy()}}")
    names.keep("a")
    names.keep("holder")
    assert weakref.getweakrefcount(names.names["a"]) == 0
    names.run("a.resize(5)\nholder['b'].resize(5)")
    assert names.names["a"].tolist() == list("01234")


def test_the_items_of_a_set_that_stays_as_it_was_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    value: set[object] = {f"w{n}" for n in range(N)}
    before = atoms.digest_of(value)
    read: list[object] = []

    def note(own: set[object]) -> tuple[bytes, tuple[object, ...]]:
        read.append(own)
        return set_table_and_items(own)

    monkeypatch.setattr(atoms, "set_table_and_items", note)
    assert atoms.digest_of(value) == before
    assert not read
    value |= {f"x{n}" for n in range(3 * N)}
    value -= {f"x{n}" for n in range(3 * N)}
    value.add("last")  # the table is another one
    value.discard("last")
    assert atoms.digest_of(value) != b""
    assert read


@given(st.data())
def test_a_set_has_the_digest_that_it_had_only_with_the_same_items(data: st.DataObject) -> None:
    long = N // 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atoms, "LONG", long)
        pool: list[object] = [*(f"w{n}" for n in range(2 * long)), *range(1, 9), *(float(n) for n in range(1, 9))]
        value = set(pool[:long])
        seen: dict[bytes, set[int]] = {}
        for _ in range(8):
            some = data.draw(st.lists(st.sampled_from(pool), max_size=5))
            act = data.draw(st.sampled_from(["add", "discard", "again", "grow", "clear"]))
            if act == "add":
                value.update(some)
            elif act == "discard":
                value.difference_update(some)
            elif act == "again":
                value.difference_update(some)
                value.update(reversed(some))
            elif act == "grow":
                value.update(pool[long : 2 * long])
            elif len(some) == 5:
                value.clear()
                value.update(pool[: long + 1])
            digest = atoms.digest_of(value)
            if digest:
                assert seen.setdefault(digest, set(map(id, value))) == set(map(id, value))
