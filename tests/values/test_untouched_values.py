"""To make_preview a value runs none of its code, and imports no library."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import functools
import gc
import pathlib
import subprocess
import sys
import textwrap
import types
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent_kernel.values.previews import Column, make_preview
from tests.values.traps import HostileMeta, assert_untouched, hostile, touched, trap, trapped, watched

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def no_traps_left() -> Iterator[None]:
    yield
    trapped.clear()


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
    assert make_preview(pa.table({"n": [1]})).columns == (Column("n", "int64"),)
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
    assert make_preview(view).type == "memoryview"
    torn = pd.DataFrame({"a": [1]})
    torn._mgr = None
    assert make_preview(torn).type == "pandas.DataFrame"
    bare = pd.DataFrame.__new__(pd.DataFrame)
    assert make_preview(bare).type == "pandas.DataFrame"
    assert make_preview(uuid.UUID.__new__(uuid.UUID)).type == "uuid.UUID"


def test_no_library_is_imported() -> None:
    code = """
        import sys
        from agent_kernel.values.previews import make_preview
        class DataFrame: pass
        DataFrame.__module__ = "pandas"
        for value in (1, "a", [1], {"a": 1}, DataFrame(), print, sys):
            make_preview(value)
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
