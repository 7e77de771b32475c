"""Summaries say what a value is, mask what looks secret, stay small and fast, and never run the value's code."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import gc
import mmap
import pathlib
import subprocess
import sys
import textwrap
import timeit
import types
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from agent_kernel.values.summaries import (
    MASK,
    MOST_BYTES,
    Column,
    Summary,
    decode,
    encode,
    line,
    lines_diff,
    names_a_secret,
    size_text,
    summarize,
)

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")

KEY = "sk-" + "abcdEFGH1234" * 3
TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def told(value: object, name: str = "") -> str:
    return line(summarize(value, name))


# What a value is, in one line.


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

    shown = summarize(Colour.RED)
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
        assert summarize(array).text == ""
        assert summarize(array[3:9]).text == ""
        assert summarize(np.memmap(file, mode="r")).text == ""
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
    shown = summarize(pd.DataFrame(np.zeros((1_000_000, 12))))
    assert line(shown) == "DataFrame 1,000,000 × 12, 96 MB"
    assert len(shown.rows) == 3
    assert shown.columns[0] == Column("0", "float64")


def test_a_frames_summary_keeps_dtypes_and_first_rows() -> None:
    shown = summarize(everyday_frame())
    of = {column.name: column.of for column in shown.columns}
    assert of["count"] == "int64"
    assert of["day"].startswith("datetime64[")
    assert of["moment"].endswith(", UTC]")
    assert (of["kind"], of["maybe"], of["small"], of["flag"]) == ("category", "Int64", "UInt8", "boolean")
    assert shown.rows[0] == ("1", "'x'", "2020-01-01", "2020-01-01", "'u'", "1", "1", "True", "1/2", "…")
    assert shown.rows[1][5:9] == ("<NA>", "2", "<NA>", "object")


def test_a_frame_with_several_levels_of_labels_is_told() -> None:
    frame = pd.DataFrame(np.eye(2), columns=pd.MultiIndex.from_product([["a"], [1, 2]]), index=pd.to_datetime([0, 1]))
    shown = summarize(frame)
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
    shown = summarize(pl.DataFrame({"n": [1, 2], "s": ["x", "y"], "o": [object(), 1]}))
    assert line(shown).startswith("polars.DataFrame 2 × 3")
    assert [column.of for column in shown.columns] == ["Int64", "String", "Object"]
    assert shown.rows == (("1", "'x'", "…"), ("2", "'y'", "…"))
    assert told(pl.Series("n", [1.5])) == "polars.Series Float64 1, 8 B, name 'n', [1.5]"
    assert told(pl.LazyFrame({"n": [1]})) == "polars.LazyFrame"


def test_an_arrow_table_is_told() -> None:
    pa: Any = pytest.importorskip("pyarrow")
    shown = summarize(pa.table({"n": [1, None], "t": pa.array([0, 86_400_000_000_000], pa.timestamp("ns"))}))
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


# No code of the value runs.

touched: list[str] = []
trapped: list[type] = []
is_watched = False

HOOKS = (
    "__reduce__ __reduce_ex__ __getstate__ __repr__ __str__ __format__ __len__ __length_hint__ __iter__ __next__ __eq__ "
    "__ne__ __lt__ __hash__ __bool__ __contains__ __getitem__ __index__ __int__ __float__ __complex__ __sizeof__ "
    "__dir__ __call__ __bytes__ __fspath__ __getattr__ __getattribute__ __array__ __array_finalize__ __array_ufunc__ "
    "__array_function__ __dataframe__ __arrow_c_stream__ __missing__ __copy__ __deepcopy__ __get__ "
    "_repr_html_ _repr_mimebundle_ _repr_pretty_ _ipython_display_ __instancecheck__ __subclasscheck__ "
    "isoformat utcoffset tzname item tolist keys items values take head"
)
PROPERTIES = "__doc__ __module__ shape dtype dtypes columns index size nbytes ndim name flat _mgr _data"
META_HOOKS = (
    "__getattribute__ __getattr__ __hash__ __eq__ __repr__ __bool__ __len__ __iter__ __instancecheck__ __subclasscheck__ "
    "__call__ __or__"
)


def trap(name: str) -> Callable[..., Any]:
    def sprung(*args: object, **named: object) -> Any:
        touched.append(name)
        raise RuntimeError(name)

    return sprung


def guarded(name: str, otherwise: Callable[[Any], Any]) -> property:
    """A trap for what can only be defined in a class body, and is needed to build a value."""
    return property(lambda owner: trap(name)() if is_watched else otherwise(owner))


def of_type(name: str) -> Any:
    return guarded(name, type.__dict__[name].__get__)


# A metaclass whose every answer is a trap while it is watched.
HostileMeta: Any = type(
    "HostileMeta",
    (type,),
    {
        "__class__": guarded("meta __class__", type),
        **{name: of_type(name) for name in ("__name__", "__dict__", "__mro__", "__flags__")},
    },
)


def hostile(base: type = object) -> Any:
    """A subclass of `base` that overrides everything it can with traps while it is watched."""
    kind = HostileMeta if type(base) is type else type(base)
    made = kind("Hostile", (base,), {"__class__": guarded("__class__", type)})
    trapped.append(made)
    return made


@contextmanager
def watched() -> Generator[None]:
    """Set the traps, which nothing but the code inside can spring."""
    global is_watched
    touched.clear()
    planned: list[tuple[Any, str, object]] = [(made, name, trap(name)) for made in trapped for name in HOOKS.split()]
    planned += [(made, name, property(trap(name))) for made in trapped for name in PROPERTIES.split()]
    planned += [(HostileMeta, name, trap(f"meta {name}")) for name in META_HOOKS.split()]
    before = [(made, name, type.__dict__["__dict__"].__get__(made).get(name)) for made, name, _ in planned]
    try:
        is_watched = True
        for made, name, held in planned:
            type.__setattr__(made, name, held)
        yield
    finally:
        is_watched = False
        for made, name, held in before:
            if held is None:
                type.__delattr__(made, name)
            else:
                type.__setattr__(made, name, held)


@pytest.fixture(autouse=True)
def no_traps_left() -> Iterator[None]:
    yield
    trapped.clear()


def assert_untouched(value: object, name: str = "value") -> Summary:
    touched.clear()
    with watched():
        shown = summarize(value, name)
        line(shown)
        lines_diff(shown, summarize(value, name))
        encode(shown)
    assert touched == []
    return shown


def test_the_traps_spring() -> None:
    asks: list[Callable[[Any], object]] = [repr, len, bool, iter, hash, vars, dir, lambda value: value == 1]
    for ask in asks:
        value = hostile()()
        with watched(), suppress(Exception):
            ask(value)
        assert touched, ask
    for ask in (repr, hash, bool, lambda kind: kind.__name__, lambda kind: kind == 1, lambda kind: kind.__mro__):
        kind = hostile()
        with watched(), suppress(Exception):
            ask(kind)
        assert touched, ask


BUILTIN_MADE: list[tuple[type, tuple[Any, ...]]] = [
    (object, ()),
    (list, ([1, 2, 3],)),
    (dict, ({"a": 1},)),
    (tuple, ((1, 2),)),
    (set, ({1},)),
    (frozenset, ({1},)),
    (collections.deque, ([1],)),
    (collections.OrderedDict, ({"a": 1},)),
    (collections.defaultdict, (int,)),
    (str, ("secret text",)),
    (bytes, (b"abc",)),
    (bytearray, (b"abc",)),
    (int, (5,)),
    (float, (5.0,)),
    (complex, (1,)),
    (ValueError, ("private",)),
    (datetime.datetime, (2020, 1, 1)),
    (datetime.tzinfo, ()),
    (decimal.Decimal, ("1.5",)),
    (fractions.Fraction, (1, 2)),
    (uuid.UUID, ("00000000-0000-0000-0000-000000000005",)),
    (types.ModuleType, ("fake",)),
    (functools.partial, (len,)),
]


@pytest.mark.parametrize(("base", "arguments"), BUILTIN_MADE, ids=[base.__name__ for base, _ in BUILTIN_MADE])
def test_no_code_of_a_subclass_runs(base: type, arguments: tuple[Any, ...]) -> None:
    value = hostile(base)(*arguments)
    shown = assert_untouched(value)
    assert shown.type.endswith("Hostile")
    assert shown.text == ""


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: [value],
        lambda value: (value, value),
        lambda value: {"k": value},
        lambda value: {value: 1},
        lambda value: {(value, 1): 1},
        lambda value: {value},
        lambda value: collections.OrderedDict({value: value}),
        lambda value: collections.defaultdict(lambda: value, {value: value}),
        lambda value: collections.Counter({value: 2}),
        lambda value: collections.deque([value]),
        lambda value: [[{"k": [value]}]],
        lambda value: functools.partial(value),
        lambda value: types.MethodType(value, value),
        lambda value: ValueError(value),
        lambda value: types.SimpleNamespace(a=value),
        lambda value: np.array([value, None], dtype=object),
        lambda value: pd.Series([value, value], dtype=object),
        lambda value: pd.DataFrame({"a": [value], "b": [1]}),
        lambda value: pd.DataFrame([[1]], columns=pd.Index([value], dtype=object)),
        lambda value: pd.Series([1], name=value),
        lambda value: pd.Categorical([value], categories=pd.Index([value], dtype=object)),
        lambda value: pd.DataFrame({"a": pd.Categorical([value], categories=pd.Index([value], dtype=object))}),
    ],
)
def test_no_code_of_a_value_inside_another_runs(wrap: Callable[[Any], object]) -> None:
    class Callable:
        def __call__(self) -> None: ...

    assert_untouched(wrap(hostile(Callable)()))


def test_no_code_of_a_hostile_class_runs_when_the_class_is_the_value() -> None:
    shown = assert_untouched(hostile())
    assert shown.kind == "class"
    assert shown.text.endswith("Hostile")


def test_no_code_of_an_array_or_frame_subclass_runs_and_its_shape_is_told() -> None:
    array = np.arange(6).reshape(2, 3).view(hostile(np.ndarray))
    shown = assert_untouched(array)
    assert (shown.kind, shown.shape, shown.dtype) == ("array", (2, 3), "int64")
    frame = hostile(pd.DataFrame)({"a": [1, 2]})
    assert assert_untouched(frame).shape == (2, 1)
    assert assert_untouched(hostile(pd.Series)([1, 2])).shape == (2,)


def test_no_code_of_an_array_type_that_a_notebook_wrote_for_pandas_runs() -> None:
    array = hostile(pd.arrays.IntegerArray)(np.arange(3), np.zeros(3, dtype=bool))
    frame = pd.DataFrame({"a": [1, 2, 3], "b": array})
    shown = assert_untouched(frame)
    assert shown.shape == (3, 2)
    assert shown.columns[1].of.endswith("Hostile")
    assert shown.rows[1] == ("2", "…")
    assert_untouched(pd.Series(array))
    assert_untouched(pd.DataFrame([[1, 2, 3]], columns=pd.Index(array), index=pd.Index(array[:1])))


def test_no_code_of_a_tensor_subclass_runs() -> None:
    torch: Any = pytest.importorskip("torch")

    class Traced(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            touched.append("__torch_function__")
            return super().__torch_function__(func, kinds, args, kwargs)

    assert_untouched(torch.zeros(3).as_subclass(Traced))


def test_no_mode_that_a_notebook_switched_on_for_torch_runs() -> None:
    torch: Any = pytest.importorskip("torch")
    overrides: Any = pytest.importorskip("torch.overrides")
    dispatch: Any = pytest.importorskip("torch.utils._python_dispatch")

    class Functions(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            touched.append("function mode")
            return func(*args, **(kwargs or {}))

    class Dispatches(dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            touched.append("dispatch mode")
            return func(*args, **(kwargs or {}))

    tensor = torch.ones(3)
    with Functions():
        assert assert_untouched(tensor).shape == (3,)
    with Dispatches():
        assert_untouched(tensor)


def test_no_code_of_an_arrow_extension_type_runs() -> None:
    pa: Any = pytest.importorskip("pyarrow")

    def extension() -> Any:
        class Extension(pa.ExtensionType):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(pa.int64(), "test.extension")

            def __arrow_ext_serialize__(self) -> bytes:
                touched.append("serialize")
                return b""

            @classmethod
            def __arrow_ext_deserialize__(cls, storage: object, serialized: object) -> Any:
                touched.append("deserialize")
                return cls()

            def __arrow_ext_class__(self) -> Any:
                touched.append("class")
                return pa.ExtensionArray

            def __str__(self) -> str:
                touched.append("str")
                return ""

        return pa.table({"e": pa.ExtensionArray.from_storage(Extension(), pa.array([1, 2])), "n": [1, 2]})

    made = extension()
    series = pd.Series(pd.arrays.ArrowExtensionArray(made.column(0)))
    values = (made, made.to_batches()[0], made.column(0), made.column(1).chunk(0), series, pd.DataFrame({"a": series}))
    shown = [assert_untouched(value) for value in values]
    assert [column.name for column in shown[0].columns] == ["e", "n"]
    assert shown[0].shape == (2, 2)
    assert summarize(pa.table({"n": [1]})).columns == (Column("n", "int64"),)
    del made, series, values
    gc.collect()  # the class too: while it lives, arrow arrays are told by length only


def test_no_code_of_a_polars_extension_type_runs() -> None:
    pl: Any = pytest.importorskip("polars")
    if not hasattr(pl, "register_extension_type"):
        pytest.skip("this polars has no extension types")

    class Extension(pl.BaseExtension):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("test.extension", pl.Int64)

        @classmethod
        def ext_from_params(cls, *params: object) -> Any:
            touched.append("from_params")
            return cls()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.register_extension_type("test.extension", Extension)
        try:
            frame = pl.DataFrame({"n": [1, 2]}).with_columns(e=pl.col("n").ext.to(Extension()))
            assert assert_untouched(frame).shape == (2, 2)
            assert_untouched(frame.get_column("e"))
        finally:
            pl.unregister_extension_type("test.extension")


def test_no_code_of_a_time_zone_runs() -> None:
    zone = hostile(datetime.tzinfo)()
    value = datetime.datetime(2020, 1, 1, tzinfo=zone)
    assert assert_untouched(value).text.startswith("2020-01-01T00:00:00 ")
    assert_untouched(datetime.time(1, 2, tzinfo=zone))


def test_names_that_are_instances_of_a_string_subclass_are_copied() -> None:
    Text = hostile(str)

    def plain() -> None: ...

    plain.__name__ = Text("renamed")
    plain.__qualname__ = Text("renamed")
    assert assert_untouched(plain).text == "renamed()"
    kind = type(Text("Odd"), (), {"__module__": Text("somewhere"), "__qualname__": Text("Odd")})
    assert assert_untouched(kind()).type == "somewhere.Odd"
    module = types.ModuleType("m")
    module.__dict__["__name__"] = Text("odd")
    assert assert_untouched(module).text == "odd"


def test_a_key_planted_to_collide_is_not_compared() -> None:
    class Key(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return hash("__module__")

        def __eq__(self, other: object) -> bool:
            touched.append("Key.__eq__")
            return False

    kind = type("Planted", (), {Key("other"): 1})
    assert assert_untouched(kind()).type.endswith("Planted")


def test_a_class_that_calls_itself_a_library_type_is_not_taken_for_one() -> None:
    fake = HostileMeta("DataFrame", (), {"__module__": "pandas", "_mgr": property(trap("_mgr"))})
    shown = assert_untouched(fake())
    assert (shown.kind, shown.type) == ("object", "pandas.DataFrame")


def test_a_path_made_of_a_string_subclass_is_not_joined() -> None:
    assert_untouched(pathlib.PurePosixPath(hostile(str)("a"), hostile(str)("b")))


def test_an_accessor_that_fails_costs_the_details_and_not_the_commit() -> None:
    view = memoryview(b"abc")
    view.release()
    assert summarize(view).type == "memoryview"
    torn = pd.DataFrame({"a": [1]})
    torn._mgr = None
    assert summarize(torn).type == "pandas.DataFrame"
    bare = pd.DataFrame.__new__(pd.DataFrame)
    assert summarize(bare).type == "pandas.DataFrame"
    assert summarize(uuid.UUID.__new__(uuid.UUID)).type == "uuid.UUID"


def test_no_library_is_imported() -> None:
    code = """
        import sys
        from agent_kernel.values.summaries import summarize
        class DataFrame: pass
        DataFrame.__module__ = "pandas"
        for value in (1, "a", [1], {"a": 1}, DataFrame(), print, sys):
            summarize(value)
        print(sorted({"numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "IPython", "inspect"} & set(sys.modules)))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True,
        capture_output=True,
        text=True,
        cwd=pathlib.Path.cwd(),
    )
    assert run.stdout.strip() in ("[]", "['inspect']")


# What looks like a secret is masked.


TELLING = (
    "password db_password PASSWD mysqlPwd OPENAI_API_KEY apiKey access_token authToken client_secret private_key "
    "AWS_SECRET_ACCESS_KEY ssh_key smtp_pass credentials Authorization cookie api_tokens token"
)
EVERYDAY = "tokens n_tokens max_tokens tokenizer author keyboard monkey compass secretary key token_count x"


@pytest.mark.parametrize("name", TELLING.split())
def test_a_value_under_a_telling_name_is_masked(name: str) -> None:
    assert names_a_secret(name)
    for value in ("hunter2", 1234, ["hunter2"], {"x": "hunter2"}, b"hunter2", {"hunter2"}, np.array(["hunter2"])):
        shown = summarize(value, name)
        assert shown.masked
        assert b"hunter2" not in encode(shown)
        assert b"1234" not in encode(shown)
    assert told("hunter2", name) == f"str {MASK}"


@pytest.mark.parametrize("name", EVERYDAY.split())
def test_an_everyday_name_is_not_masked(name: str) -> None:
    assert not names_a_secret(name)
    assert told(7, name) == "int 7"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        TOKEN,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "AIza" + "a1B2c3D4e5" * 4,
        "xoxb-123456789-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "postgres://me:hunter2@db.example/x",
        "Authorization: Bearer abcdef0123456789",
        'config = {"password": "hunter2"}',
        "export API_KEY=abcdef",
        "sk-\x1b[31mabcdEFGH1234abcdEFGH",
        "x" * 90 + " " + TOKEN,
    ],
)
def test_a_text_that_looks_like_a_secret_is_masked_wherever_it_lies(text: str) -> None:
    frame = pd.DataFrame({"note": [text], "n": [1]})
    for value in (text, text.encode(), [text], {"k": text}, {text: 1}, (1, [text]), frame, pd.Series([text]), {text}):
        stored = encode(summarize(value))
        for part in (text, text[:20], text[-8:], "hunter2"):
            assert part.encode() not in stored
        assert summarize(value).masked


def test_an_ordinary_text_is_not_masked() -> None:
    for text in ("https://example.org/a?b=c", "a-b_c: d=e", "risk-averse-people-are-here", "the token is nice"):
        assert told(text) == f"str {text!r}"


def test_entries_columns_and_parameters_under_telling_names_are_masked() -> None:
    shown = summarize({"user": "bob", "password": "hunter2"})
    assert shown.columns == (Column("'user'", "'bob'"), Column("'password'", MASK))
    frame = summarize(pd.DataFrame({"user": ["bob"], "api_key": ["hunter2"]}))
    assert frame.rows == (("'bob'", MASK),)
    assert line(frame).startswith("DataFrame 1 × 2")
    assert "hunter2" not in told(("password", "hunter2"))
    assert "hunter2" not in told([("password", "hunter2")])
    assert "hunter2" not in told({"name": "password", "value": "hunter2"})
    assert "hunter2" not in str(summarize(pd.DataFrame({"key": ["password"], "value": ["hunter2"]})))
    assert told(pd.Series(["hunter2"], name="password")).endswith(MASK)


# Stored bytes.


@pytest.mark.parametrize("value", [0, 42, -1, 2**62, 1.5, 3.141592653589793, True, None, "hello", "x" * 20, b"abc"])
def test_a_small_value_takes_few_bytes(value: object) -> None:
    assert len(encode(summarize(value))) <= 64


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.datetimes(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers())
        | st.tuples(inner, inner)
    ),
    max_leaves=30,
)


@given(plain_values, st.text())
def test_what_is_stored_is_what_was_made_and_bounded(value: object, name: str) -> None:
    shown = summarize(value, name)
    stored = encode(shown)
    assert len(stored) <= MOST_BYTES
    assert decode(stored) == shown
    assert line(shown).isprintable()
    assert len(line(shown)) <= 160


texts = st.text(max_size=400)
summaries = st.builds(
    Summary,
    kind=st.sampled_from(["scalar", "frame", "mapping", "array", "series", "container", "unheard of"]) | texts,
    type=texts,
    text=texts,
    shape=st.lists(st.integers(-1, 2**63 - 1), max_size=60).map(tuple),
    dtype=texts,
    size_bytes=st.integers(0, 2**63 - 1),
    columns=st.lists(st.builds(Column, texts, texts), max_size=50).map(tuple),
    rows=st.lists(st.lists(texts, max_size=50).map(tuple), max_size=5).map(tuple),
    note=texts,
    masked=st.booleans(),
)


@given(summaries, summaries)
def test_any_summary_is_bounded_and_shown_in_printable_lines(one: Summary, other: Summary) -> None:
    stored = encode(one)
    assert len(stored) <= MOST_BYTES
    assert encode(decode(stored)) == stored
    for shown in (line(one), *lines_diff(one, other), *lines_diff(one, one)):
        assert shown.isprintable()
        assert len(shown) <= 400
    assert len(lines_diff(one, other)) <= 10


def test_a_wide_frame_stays_within_its_bytes() -> None:
    wide = pd.DataFrame(np.zeros((3, 5_000)), columns=[f"a_rather_long_name_{n}" * 3 for n in range(5_000)])
    shown = summarize(wide)
    assert len(encode(shown)) <= MOST_BYTES
    assert decode(encode(shown)) == shown
    assert shown.shape == (3, 5_000)


def test_fields_of_a_newer_release_are_ignored() -> None:
    stored = msgspec.msgpack.encode({"k": "scalar", "t": "int", "x": "42", "new": [1, 2], "c": [["a", "b", "c"]]})
    assert decode(stored) == Summary("scalar", "int", "42", columns=(Column("a", "b"),))


def test_bytes_that_are_no_summary_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b"\x93abc")


def test_escape_sequences_from_another_store_do_not_reach_the_terminal() -> None:
    odd = Summary("frame", "pandas.DataFrame\x1b[2J", shape=(1, 1), columns=(Column("a\u202eb\r\n", "x\x9b31m"),))
    assert line(odd) == "DataFrame 1 × 1"
    assert lines_diff(odd, Summary("frame", odd.type, shape=(1, 0))) == ["columns 1 → 0 (−1)", "− ab   x"]


# What differs.


def test_a_scalar_that_changed_is_told_old_and_new() -> None:
    assert lines_diff(summarize(42), summarize(43)) == ["42 → 43"]
    assert lines_diff(summarize("a"), summarize(1)) == ["str 'a' → int 1"]
    assert lines_diff(None, summarize(1)) == ["+ int 1"]
    assert lines_diff(summarize(1), None) == ["− int 1"]
    assert lines_diff(None, None) == []


def test_a_long_text_that_changed_is_told_on_two_lines() -> None:
    told_lines = lines_diff(summarize("a" * 100), summarize("b" * 100))
    assert [shown[:4] for shown in told_lines] == ["− 'a", "+ 'b"]


def test_a_frame_that_changed_is_told_by_rows_columns_and_first_cells() -> None:
    old = pd.DataFrame({"price": [1.5, 2.5], "gone": [1, 2], "n": [1, 2]})
    new = pd.DataFrame({"price": [1.5, 3.5, 1], "n": ["1", "2", "3"], "price_eur": [1.0, 2.0, 3.0]})
    assert lines_diff(summarize(old), summarize(new))[:7] == [
        "rows 2 → 3 (+1)",
        "− gone int64",
        "+ price_eur float64",
        f"~ n: int64 → {summarize(new).columns[1].of}",
        "row 0, n: 1 → '1'",
        "row 1, price: 2.5 → 3.5",
        "row 1, n: 2 → '2'",
    ]


def test_an_array_that_changed_is_told_by_shape_dtype_and_values() -> None:
    assert lines_diff(summarize(np.arange(3)), summarize(np.array([0, 9, 2]))) == ["values [0, 1, 2] → [0, 9, 2]"]
    told_lines = lines_diff(summarize(np.zeros((2, 3))), summarize(np.zeros((3, 2), "f4")))
    assert told_lines == ["shape (2, 3) → (3, 2)", "dtype float64 → float32", "size 48 B → 24 B"]


def test_a_dict_that_changed_is_told_by_its_keys() -> None:
    old, new = {"lr": 0.1, "gone": 1, "same": 1}, {"lr": 0.01, "same": 1, "new": 2}
    assert lines_diff(summarize(old), summarize(new)) == ["− 'gone' 1", "+ 'new' 2", "~ 'lr': 0.1 → 0.01"]


def test_what_the_summaries_cannot_tell_is_said() -> None:
    old, new = np.zeros(1000), np.zeros(1000)
    new[999] = 1
    assert lines_diff(summarize(old), summarize(new)) == ["ndarray float64 (1000,), 8 kB: contents may differ"]
    hidden = lines_diff(summarize("one", "password"), summarize("two", "password"))
    assert hidden == [f"str {MASK}: what is hidden may differ"]


def test_columns_beyond_those_kept_are_not_called_missing() -> None:
    old = pd.DataFrame(np.zeros((1, 60)), columns=[f"c{n}" for n in range(60)])
    new = old[old.columns[5:]]
    assert not any(shown.startswith(("+ ", "− ")) for shown in lines_diff(summarize(old), summarize(new)))


# Time does not grow with the data. Ratios within one run, because machines differ.


def best_s(value: object) -> float:
    return min(timeit.repeat(lambda: summarize(value), number=20, repeat=7)) / 20


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (lambda: pd.DataFrame(np.zeros((10, 20))), lambda: pd.DataFrame(np.zeros((1_000_000, 20)))),
        (lambda: np.zeros((10, 10)), lambda: np.zeros((3_000, 3_000))),
        (lambda: np.zeros((10, 10)).T, lambda: np.zeros((3_000, 3_000)).T),
        (lambda: [{"a": 1}] * 40, lambda: [{"a": 1}] * 300_000),
        (lambda: dict.fromkeys(range(100), 1), lambda: dict.fromkeys(range(300_000), 1)),
        (lambda: "x" * 1_000, lambda: "x" * 10_000_000),
        (lambda: set(range(100)), lambda: set(range(300_000))),
        (lambda: pd.Series(["x"] * 10), lambda: pd.Series(["x"] * 300_000)),
    ],
)
def test_a_large_value_takes_no_longer_than_a_small_one(
    small: Callable[[], object], large: Callable[[], object]
) -> None:
    assert best_s(large()) <= 4 * best_s(small()) + 20e-6


def test_a_number_is_summarized_in_the_time_of_a_few_calls() -> None:
    reference = min(timeit.repeat(lambda: [repr(n) for n in range(20)], number=200, repeat=5)) / 200
    assert best_s(42) <= 20 * reference


def test_a_frame_is_summarized_faster_than_pandas_writes_its_first_rows() -> None:
    frame = pd.DataFrame(np.zeros((100_000, 20)))
    reference = min(timeit.repeat(lambda: repr(frame.head(3)), number=2, repeat=3)) / 2
    assert best_s(frame) <= reference
