"""A preview says in one line what a value is."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import mmap
import pathlib
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.values import previews
from agent_kernel.values.previews import MASK, Column, line, make_preview, size_text
from tests.values.previewed import told

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (42, "int 42"),
        (10**100, "int about 1e100"),
        (1.5, "float 1.5"),
        (2 + 3j, "complex (2+3j)"),
        (True, "bool True"),
        (None, "None"),
        ("hello", "str 'hello'"),
        ("two\nlines\x1b[31m", r"str 'two\nlines\x1b[31m'"),
        (b"abc\0", r"bytes b'abc\x00'"),
        (decimal.Decimal("1.50"), "decimal.Decimal 1.50"),
        (fractions.Fraction(1, 3), "fractions.Fraction 1/3"),
        (uuid.UUID(int=5), "uuid.UUID 00000000-0000-0000-0000-000000000005"),
        (pathlib.PurePosixPath("/a/b"), "pathlib.PurePosixPath '/a/b'"),
        (datetime.date(2026, 11, 21), "datetime.date 2026-11-21"),
        (datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC), "datetime.datetime 2026-11-21T00:00:00+00:00"),
        (range(3, 10, 2), "range range(3, 10, 2)"),
        ([1, 2, 3, 4], "list of 4 int, [1, 2, 3, …]"),
        ([1, "a"], "list of 2, [1, 'a']"),
        ((1,), "tuple of 1 int, (1,)"),
        (set[int](), "empty set"),
        ({"a": 1, "b": [1, [2, [3]]]}, "dict of 2, {'a': 1, 'b': [1, […]]}"),
        (collections.OrderedDict(a=1), "collections.OrderedDict of 1, {'a': 1}"),
        (collections.deque([1]), "collections.deque of 1 int, deque([1])"),
        (ValueError("private"), "ValueError"),
        (len, "function len"),
        (datetime, "module datetime"),
        (datetime.date, "class datetime.date"),
        (memoryview(b"abc"), "memoryview B (3,), 3 B"),
    ],
)
def test_a_value_is_told_in_one_line(value: object, expected: str) -> None:
    assert told(value) == expected


def test_a_long_text_is_told_by_its_length_and_its_beginning() -> None:
    shown = told("x" * 10_000)
    assert shown.startswith("str of 10,000 'xxxx")
    assert shown.endswith("…")


def test_a_long_list_of_dicts_is_told_by_its_length_and_first_items() -> None:
    assert told([{"a": 1}] * 300_000) == "list of 300,000 dict, [{'a': 1}, {'a': 1}, {'a': 1}, …]"


def test_a_list_that_contains_itself_is_told() -> None:
    cycle: list[object] = [1]
    cycle.append(cycle)
    assert told(cycle) == "list of 2, [1, [1, […]]]"


def test_a_function_is_told_by_its_signature_and_lines() -> None:
    def model(a: int, b: float = 1.5, /, *rest: int, password: str = "hunter2", **more: object) -> int:
        def inner() -> int:
            return a

        return inner()

    assert told(model) == f"function model(a, b=1.5, /, *rest, password={MASK}, **more), 5 lines"


def test_a_cached_function_and_a_partial_are_told_by_the_function_under_them() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    assert told(functools.lru_cache(add)) == "functools.lru_cache add, 2 lines"
    assert told(functools.partial(add, 1)) == "functools.partial add"


def test_the_notebooks_own_class_and_its_instances_are_told_by_name() -> None:
    made: dict[str, Any] = {"__name__": "__main__"}
    exec("class Point:\n    def move(self): ...\n    def stop(self): ...", made)
    assert told(made["Point"]) == "class Point, 2 methods"
    assert told(made["Point"]()).startswith("Point, ")


def test_an_enum_member_is_told_by_its_type_name() -> None:
    class Colour(enum.Enum):
        RED = 1

    shown = make_preview(Colour.RED)
    assert shown.kind == "object"
    assert shown.type.endswith("Colour")
    assert shown.text == ""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: np.zeros((1000, 64)), "ndarray float64 (1000, 64), 512 kB"),
        (lambda: np.arange(3), "ndarray int64 (3,), 24 B, [0, 1, 2]"),
        (lambda: np.array(5.5), "ndarray float64 (), 8 B, 5.5"),
        (lambda: np.zeros((0, 3)), "ndarray float64 (0, 3), []"),
        (lambda: np.array(["2020-01-01"], dtype="M8[ns]"), "ndarray datetime64[ns] (1,), 8 B, [2020-01-01]"),
        (lambda: np.array([90], dtype="m8[s]"), "ndarray timedelta64[s] (1,), 8 B, [0:01:30]"),
        (lambda: np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]), "ndarray (a: int32, b: float64) (2,), 24 B"),
        (lambda: np.array([pathlib.Path, {}], dtype=object), "ndarray object (2,), 16 B, [type, dict]"),
        (lambda: np.float64(2.5), "float64 2.5"),
        (lambda: np.ma.masked_array([1, 2]), "MaskedArray int64 (2,), 16 B"),
    ],
)
def test_an_array_is_told_by_dtype_shape_and_size(make: Callable[[], object], expected: str) -> None:
    assert told(make()) == expected


def test_no_value_of_a_memory_map_is_read(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "numbers"
    file.write_bytes(bytes(64))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        array = np.frombuffer(mapped, dtype="u1")
        assert make_preview(array).text == ""
        assert make_preview(array[3:9]).text == ""
        assert make_preview(np.memmap(file, mode="r")).text == ""
        del array


def everyday_frame() -> Any:
    return pd.DataFrame(
        {
            "count": [1, 2],
            "label": ["x", "y"],
            "day": pd.to_datetime(["2020", "2021"]),
            "moment": pd.to_datetime(["2020", "2021"]).tz_localize("UTC"),
            "kind": pd.Categorical(["u", "v"]),
            "maybe": pd.array([1, None], dtype="Int64"),
            "small": pd.array([1, 2], dtype="UInt8"),
            "flag": pd.array([True, None], dtype="boolean"),
            "thing": [fractions.Fraction(1, 2), object()],
            "month": pd.period_range("2020", periods=2, freq="M"),
        }
    )


def test_a_frame_is_told_by_rows_columns_and_size() -> None:
    shown = make_preview(pd.DataFrame(np.zeros((1_000_000, 12))))
    assert line(shown) == "DataFrame 1,000,000 × 12, 96 MB"
    assert len(shown.rows) == 3
    assert shown.columns[0] == Column("0", "float64")


def test_a_dtype_that_came_from_a_pickle_goes_by_the_same_words() -> None:
    loaded = pickle.loads(pickle.dumps(np.dtype("f8")))
    assert loaded.isbuiltin == 0
    assert line(make_preview(np.zeros(3, loaded))) == line(make_preview(np.zeros(3)))


def test_a_frames_preview_keeps_dtypes_and_first_rows() -> None:
    shown = make_preview(everyday_frame())
    of = {column.name: column.of for column in shown.columns}
    assert of["count"] == "int64"
    assert of["day"].startswith("datetime64[")
    assert of["moment"].endswith(", UTC]")
    assert (of["kind"], of["maybe"], of["small"], of["flag"]) == ("category", "Int64", "UInt8", "boolean")
    assert shown.rows[0] == ("1", "'x'", "2020-01-01", "2020-01-01", "'u'", "1", "1", "True", "1/2", "…")
    assert shown.rows[1][5:9] == ("<NA>", "2", "<NA>", "object")


def test_a_frame_with_several_levels_of_labels_is_told() -> None:
    frame = pd.DataFrame(np.eye(2), columns=pd.MultiIndex.from_product([["a"], [1, 2]]), index=pd.to_datetime([0, 1]))
    shown = make_preview(frame)
    assert [column.name for column in shown.columns] == ["(a, 1)", "(a, 2)"]
    assert shown.note == "DatetimeIndex"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: pd.Series([1, 2, 3], name="n"), "Series int64 3, 24 B, name 'n', [1, 2, 3]"),
        (lambda: pd.RangeIndex(10), "RangeIndex int64 10"),
        (lambda: pd.Index([1.5]), "Index float64 1, 8 B, [1.5]"),
        (lambda: pd.MultiIndex.from_product([[1], ["a"]]), "MultiIndex 1, [(1, a)]"),
        (lambda: pd.Timestamp("2020-01-01"), "Timestamp 2020-01-01"),
        (lambda: pd.DataFrame(), "DataFrame 0 × 0"),
    ],
)
def test_a_series_or_index_is_told_by_dtype_and_length(make: Callable[[], object], expected: str) -> None:
    assert told(make()) == expected


def test_a_polars_frame_is_told_and_its_objects_are_not_converted() -> None:
    pl: Any = pytest.importorskip("polars")
    shown = make_preview(pl.DataFrame({"n": [1, 2], "s": ["x", "y"], "o": [object(), 1]}))
    assert line(shown).startswith("polars.DataFrame 2 × 3")
    assert [column.of for column in shown.columns] == ["Int64", "String", "Object"]
    assert shown.rows == (("1", "'x'", "…"), ("2", "'y'", "…"))
    assert told(pl.Series("n", [1.5])) == "polars.Series Float64 1, 8 B, name 'n', [1.5]"
    assert told(pl.LazyFrame({"n": [1]})) == "polars.LazyFrame"


def test_an_arrow_table_is_told() -> None:
    pa: Any = pytest.importorskip("pyarrow")
    shown = make_preview(pa.table({"n": [1, None], "t": pa.array([0, 86_400_000_000_000], pa.timestamp("ns"))}))
    assert line(shown).startswith("pyarrow.Table 2 × 2, ")
    assert shown.rows == (("1", "1970-01-01"), ("None", "1970-01-02"))
    assert told(pa.array([1, 2])) == "pyarrow.Int64Array int64 2, 16 B, [1, 2]"


def test_a_tensor_is_told_and_read_only_in_main_memory() -> None:
    torch: Any = pytest.importorskip("torch")
    assert told(torch.zeros(64, 10)) == "torch.Tensor float32 (64, 10), 2.6 kB"
    assert told(torch.arange(3, dtype=torch.int32)) == "torch.Tensor int32 (3,), 12 B, [0, 1, 2]"
    assert told(torch.ones(2, requires_grad=True)) == "torch.Tensor float32 (2,), 8 B, requires grad, [1, 1]"
    assert told(torch.zeros(3, device="meta")) == "torch.Tensor float32 (3,), 12 B, meta"
    assert told(torch.zeros(2, 3).t()) == "torch.Tensor float32 (3, 2), 24 B"


def test_a_sparse_matrix_is_told() -> None:
    sparse: Any = pytest.importorskip("scipy.sparse")
    assert told(sparse.csr_matrix(np.eye(3))) == "csr_matrix float64 (3, 3), 52 B, 3 stored elements"
    assert told(sparse.coo_array(np.eye(3))).startswith("coo_array float64 (3, 3)")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_949, "1.9 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (96_000_000, "96 MB"),
        (2_500_000_000, "2.5 GB"),
        (10**21, "1000 EB"),
    ],
)
def test_sizes_have_three_digits(size: int, expected: str) -> None:
    assert size_text(size) == expected


@pytest.mark.sampled
@pytest.mark.parametrize("first", previews.__all__)
def test_every_name_is_itself_whichever_is_used_first(first: str) -> None:
    # A module that is imported becomes an attribute of its package: under the name of a function it would replace it.
    code = (
        "from types import ModuleType\nfrom agent_kernel.values import previews\n"
        f"previews.{first}\nassert not [n for n in previews.__all__ if isinstance(getattr(previews, n), ModuleType)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
