"""Data frames: pandas, polars and Arrow."""

from tests.fidelity.kinds.kind import Kind

FRAMES = (
    Kind(
        "a data frame of the usual columns",
        """
        import numpy as np
        import pandas as pd

        df = pd.DataFrame({
            "id": [1, 2, 3],
            "price": [1.5, np.nan, 3.0],
            "name": ["a", None, "c"],
            "ok": [True, False, True],
            "when": pd.to_datetime(["2024-01-01", None, "2024-03-01"]),
        })
        """,
        """
        expected = pd.DataFrame({
            "id": [1, 2, 3],
            "price": [1.5, np.nan, 3.0],
            "name": ["a", None, "c"],
            "ok": [True, False, True],
            "when": pd.to_datetime(["2024-01-01", None, "2024-03-01"]),
        })
        pd.testing.assert_frame_equal(df, expected, check_exact=True)
        df.loc[0, "price"] = 9.0
        df["new"] = df["id"] * 2
        assert df["price"].tolist()[0] == 9.0 and df["new"].tolist() == [2, 4, 6]
        """,
        needs=("pandas",),
    ),
    Kind(
        "values of a column can be written in place",
        """
        import pandas as pd

        df = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
        """,
        """
        df.iloc[0, 0] = 10.0
        df.at[1, "b"] = 40
        df.sort_values("a", inplace=True)
        assert df["a"].tolist() == [2.0, 10.0] and df["b"].tolist() == [40, 3]
        """,
        needs=("pandas",),
    ),
    Kind(
        "empty frames",
        """
        import pandas as pd

        nothing = pd.DataFrame()
        no_rows = pd.DataFrame({"a": pd.Series(dtype="i4"), "b": pd.Series(dtype="str")})
        no_columns = pd.DataFrame(index=[1, 2])
        """,
        """
        assert nothing.shape == (0, 0) and no_columns.shape == (2, 0) and no_columns.index.tolist() == [1, 2]
        pd.testing.assert_frame_equal(no_rows, pd.DataFrame({"a": pd.Series(dtype="i4"), "b": pd.Series(dtype="str")}))
        """,
        needs=("pandas",),
    ),
    Kind(
        "series with names, indexes and attributes",
        """
        import pandas as pd

        s = pd.Series([1, 2, 3], index=pd.Index(["x", "y", "x"], name="key"), name="count", dtype="i2")
        s.attrs["unit"] = "kg"
        """,
        """
        assert s["x"].tolist() == [1, 3] and s.name == "count" and s.index.name == "key"
        assert s.dtype == "int16" and s.attrs == {"unit": "kg"}
        s.iloc[1] = 20
        assert s["y"] == 20
        """,
        needs=("pandas",),
    ),
    Kind(
        "strings of both kinds",
        """
        import pandas as pd

        arrow = pd.Series(["a", None, "ß" * 100])
        boxed = pd.Series(["a", None, "c"], dtype=object)
        """,
        """
        pd.testing.assert_series_equal(arrow, pd.Series(["a", None, "ß" * 100]))
        assert boxed.dtype == object and boxed.tolist() == ["a", None, "c"]
        assert arrow.str.upper()[0] == "A"
        """,
        needs=("pandas",),
    ),
    Kind(
        "categories, ordered and with unused ones",
        """
        import pandas as pd

        sizes = pd.Categorical(["s", "l", None], categories=["s", "m", "l"], ordered=True)
        df = pd.DataFrame({"size": sizes})
        """,
        """
        assert df["size"].cat.ordered and df["size"].cat.categories.tolist() == ["s", "m", "l"]
        assert df["size"].max() == "l" and sizes.codes.tolist() == [0, 2, -1]
        """,
        needs=("pandas",),
    ),
    Kind(
        "times with zones, durations, periods and intervals",
        """
        import pandas as pd

        local = pd.Series(pd.date_range("2024-03-30 12:00", periods=3, freq="D", tz="Europe/Berlin"))
        waits = pd.Series(pd.to_timedelta(["1 days", "3 h"]))
        months = pd.period_range("2024-01", periods=2, freq="M")
        bins = pd.cut([1, 5], bins=[0, 2, 10])
        index = pd.date_range("2024-01-01", periods=4, freq="h")
        """,
        """
        assert str(local.dtype).endswith("Europe/Berlin]") and local[2].utcoffset().total_seconds() == 7200
        assert waits[1] == pd.Timedelta("3h") and months.freqstr == "M" and months[1] == pd.Period("2024-02", "M")
        assert 5 in bins[1] and index.freq == pd.tseries.frequencies.to_offset("h")
        """,
        needs=("pandas",),
    ),
    Kind(
        "indexes of several levels",
        """
        import pandas as pd

        rows = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["letter", "number"])
        columns = pd.MultiIndex.from_tuples([("x", "mean"), ("x", "std")])
        table = pd.DataFrame([[1, 2], [3, 4], [5, 6], [7, 8]], index=rows, columns=columns)
        """,
        """
        assert table.loc[("b", 1), ("x", "std")] == 6 and table.index.names == ["letter", "number"]
        assert table.columns.equals(columns) and table.index.equals(rows)
        assert table["x"]["mean"].unstack().shape == (2, 2)
        """,
        needs=("pandas",),
    ),
    Kind(
        "nullable and Arrow-backed columns",
        """
        import pandas as pd

        df = pd.DataFrame({
            "i": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "f": pd.array([1.5, None], dtype="Float32"),
            "d": pd.array([1, None], dtype="int32[pyarrow]"),
        })
        """,
        """
        assert [str(t) for t in df.dtypes] == ["Int64", "boolean", "Float32", "int32[pyarrow]"]
        assert df["i"][1] is pd.NA and df["i"].sum() == 1 and df["d"].isna().tolist() == [False, True]
        df.loc[1, "i"] = 5
        assert df["i"].sum() == 6
        """,
        needs=("pandas", "pyarrow"),
    ),
    Kind(
        "sparse columns and duplicate names",
        """
        import pandas as pd

        sparse = pd.DataFrame({"s": pd.arrays.SparseArray([0, 0, 1, 0])})
        twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
        """,
        """
        assert sparse["s"].sparse.density == 0.25 and sparse["s"].sum() == 1
        assert twice.columns.tolist() == ["a", "a"] and twice.iloc[0].tolist() == [1, 2]
        """,
        needs=("pandas",),
    ),
    Kind(
        "a column of objects shares them",
        """
        import pandas as pd

        tags = ["x"]
        df = pd.DataFrame({"tags": [tags, [], tags]})
        """,
        """
        assert df["tags"][0] is tags and df["tags"][2] is tags
        """,
        needs=("pandas",),
    ),
    Kind(
        "pandas scalars",
        """
        import pandas as pd

        stamp = pd.Timestamp("2024-01-01 10:00:00.123456789", tz="UTC")
        gap, missing, delta = pd.NaT, pd.NA, pd.Timedelta("1ns")
        """,
        """
        assert stamp.nanosecond == 789 and stamp.tz is not None and gap is pd.NaT and missing is pd.NA
        assert delta == pd.Timedelta(1, "ns")
        """,
        needs=("pandas",),
    ),
    Kind(
        "a frame over an array shares it when it was told to",
        """
        import numpy as np
        import pandas as pd

        grid = np.zeros((3, 2))
        df = pd.DataFrame(grid, columns=["a", "b"], copy=False)
        """,
        """
        assert np.shares_memory(grid, df.to_numpy())
        grid[0, 0] = 5
        assert df.loc[0, "a"] == 5
        """,
        needs=("pandas",),
    ),
    Kind(
        "a frame and what was taken from it",
        """
        import pandas as pd

        df = pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]})
        column = df["v"]
        top = df.head(2)
        groups = df.groupby("k")
        """,
        """
        assert column.tolist() == [1, 2, 3] and top.shape == (2, 2)
        assert groups["v"].sum().to_dict() == {"a": 4, "b": 2}
        """,
        needs=("pandas",),
    ),
    Kind(
        "polars frames and series",
        """
        import datetime as dt

        import polars as pl

        df = pl.DataFrame({
            "i": [1, None, 3],
            "s": ["a", "ß", None],
            "d": [dt.date(2024, 1, 1), None, dt.date(2024, 1, 3)],
            "l": [[1], [], None],
            "c": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "e": pl.Series(["lo", "hi", "lo"], dtype=pl.Enum(["lo", "hi"])),
            "n": [{"a": 1}, {"a": 2}, {"a": 3}],
        })
        series = pl.Series("x", [1.5, None], dtype=pl.Float32)
        empty = pl.DataFrame(schema={"a": pl.Int8})
        """,
        """
        from polars.testing import assert_frame_equal

        assert df["i"].to_list() == [1, None, 3] and df["l"].to_list() == [[1], [], None]
        assert df["d"][2] == dt.date(2024, 1, 3) and df["n"].to_list()[1] == {"a": 2}
        assert df["c"].to_list() == ["x", "y", "x"] and df["e"].dtype == pl.Enum(["lo", "hi"])
        assert series.dtype == pl.Float32 and series.to_list() == [1.5, None] and series.name == "x"
        assert_frame_equal(empty, pl.DataFrame(schema={"a": pl.Int8}))
        assert df.with_columns(pl.col("i") + 1)["i"][0] == 2
        """,
        needs=("polars",),
    ),
    Kind(
        "polars plans and expressions",
        """
        import polars as pl

        lazy = pl.LazyFrame({"a": [1, 2, 3]}).filter(pl.col("a") > 1)
        expression = (pl.col("a") * 2).alias("double")
        """,
        """
        assert lazy.collect()["a"].to_list() == [2, 3]
        assert pl.DataFrame({"a": [4]}).select(expression)["double"].to_list() == [8]
        """,
        needs=("polars",),
    ),
    Kind(
        "Arrow tables and a slice of a long array",
        """
        import pyarrow as pa

        table = pa.table({"a": [1, None], "s": ["x", "y"], "m": pa.array(["p", "q"]).dictionary_encode()})
        table = table.replace_schema_metadata({"k": "v"})
        tail = pa.array(range(100_000))[5:15]
        chunked = pa.chunked_array([[1], [2, 3]])
        batch = pa.record_batch({"z": [1.0]})
        """,
        """
        assert table["a"].to_pylist() == [1, None] and table.schema.metadata == {b"k": b"v"}
        assert pa.types.is_dictionary(table.schema.field("m").type)
        assert tail.to_pylist() == list(range(5, 15)) and chunked.num_chunks == 2
        assert batch.to_pydict() == {"z": [1.0]}
        """,
        needs=("pyarrow",),
    ),
    Kind(
        "Arrow types, scalars and buffers",
        """
        import pyarrow as pa

        schema = pa.schema([("a", pa.list_(pa.int8())), ("t", pa.timestamp("us", tz="UTC"))])
        scalar = pa.scalar(1.5)
        buffer = pa.py_buffer(b"abc")
        """,
        """
        assert schema.field("t").type.tz == "UTC" and scalar.as_py() == 1.5 and buffer.to_pybytes() == b"abc"
        """,
        needs=("pyarrow",),
    ),
    Kind(
        "one array of pandas under many names, and what it looks at",
        """
        import pandas as pd

        kinds = {
            "category": pd.Categorical(["a", "b", "a"]),
            "masked": pd.array([1, 2, None], dtype="Int64"),
            "boolean": pd.array([True, False, None], dtype="boolean"),
            "text": pd.array(["a", "b", None], dtype=pd.StringDtype("python")),
            "interval": pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3]),
            "date": pd.array(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])),
            "zoned": pd.array(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).tz_localize("UTC")),
            "wait": pd.array(pd.to_timedelta([1, 2, 3], unit="s")),
            "month": pd.array(pd.period_range("2024-01", periods=3, freq="M")),
            "numpy": pd.arrays.NumpyExtensionArray(pd.Series([1, 2, 3]).to_numpy(copy=True)),
            "sparse": pd.arrays.SparseArray([0, 0, 1]),
        }
        again = dict(kinds)
        parts = {name: array[:2] for name, array in kinds.items() if name != "sparse"}
        category, codes = kinds["category"], kinds["category"]._codes
        masked, data = kinds["masked"], kinds["masked"]._data
        series = pd.Series(pd.array([1, 2, None], dtype="Int64"))
        column = series.array
        """,
        """
        for name, array in kinds.items():
            assert again[name] is array, name
        for name, part in parts.items():
            part[0] = kinds[name][1]
            assert kinds[name][0] == kinds[name][1] == again[name][0], name
        assert category is kinds["category"] and codes.tolist() == [1, 1, 0] and data[0] == 2 and masked is kinds["masked"]
        series[0] = 9
        assert column[0] == 9
        """,
        needs=("pandas",),
    ),
    Kind(
        "one array of Arrow texts under many names",
        """
        import pandas as pd

        texts = same = pd.array(["a", "b", None], dtype="str")
        apart = texts[:2]
        numbers = pd.array([1, 2, None], dtype="int64[pyarrow]")
        box = [texts, numbers]
        """,
        """
        assert texts is same and box[0] is texts and box[1] is numbers
        texts[0], numbers[0] = "z", 9
        assert same[0] == "z" and box[1][0] == 9 and apart[0] == "a"
        """,
        needs=("pandas", "pyarrow"),
    ),
    Kind(
        "one index under many names",
        """
        import pandas as pd

        labels = same = pd.Index([1, 2, 3])
        levels = pd.MultiIndex.from_product([[1, 2], [3, 4]])
        dates = pd.date_range("2024", periods=3)
        spans = {"in": [pd.interval_range(0, 3), pd.RangeIndex(3), pd.CategoricalIndex(list("aab")), levels, dates]}
        again = list(spans["in"])
        df = pd.DataFrame({"a": [1, 2, 3]}, index=list("xyz"))
        rows, columns = df.index, df.columns
        """,
        """
        assert labels is same and levels is again[3] and dates is again[4] and dates.freq is not None
        assert all(one is other for one, other in zip(again, spans["in"]))
        assert df.index is rows and df.columns is columns
        labels.name = columns.name = "n"
        levels.names = ["p", "q"]
        assert same.name == "n" == df.columns.name and again[3].names == ["p", "q"]
        """,
        needs=("pandas",),
    ),
    Kind(
        "an index with attributes of a person's",
        """
        import pandas as pd

        index, several = pd.Index([1, 2], name="n"), pd.MultiIndex.from_tuples([(1, 2)])
        index._mine, several._mine, index.shown = [1], 2, index.max()
        days = pd.date_range("2020-01-01", periods=2)
        days._mine, held = "d", index._mine
        """,
        """
        assert index._mine is held and held == [1] and several._mine == 2 and index.shown == 2 and days._mine == "d"
        """,
        needs=("pandas",),
    ),
)
