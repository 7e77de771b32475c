"""NumPy: what is in an array, how it lies in memory, who shares that memory, and whether it may be written."""

from tests.fidelity.kinds.kind import Kind

ARRAYS = (
    Kind(
        "arrays of every number type",
        """
        import numpy as np

        codes = "?bBhHiIlLqQefdgFDG"
        by_code = {code: np.array([0, 1, 3]).astype(code) for code in codes}
        """,
        """
        for code, array in by_code.items():
            assert array.dtype == np.dtype(code) and array.flags.writeable
            assert np.array_equal(array, np.array([0, 1, 3]).astype(code))
            array[0] = 1
        """,
        needs=("numpy",),
    ),
    Kind(
        "a large array",
        """
        import numpy as np

        large = np.arange(400_000, dtype="f8").reshape(200, 2000)
        """,
        """
        assert np.array_equal(large, np.arange(400_000, dtype="f8").reshape(200, 2000)) and large.flags.c_contiguous
        large[3, 4] = -1
        assert large[3, 4] == -1 and large.flags.writeable
        """,
        needs=("numpy",),
    ),
    Kind(
        "an array with nan, infinity and minus zero",
        """
        import numpy as np

        odd = np.array([np.nan, np.inf, -np.inf, -0.0])
        """,
        """
        assert odd.tobytes() == np.array([np.nan, np.inf, -np.inf, -0.0]).tobytes()
        """,
        needs=("numpy",),
    ),
    Kind(
        "arrays with no dimension and with no elements",
        """
        import numpy as np

        scalar_array = np.array(3.5)
        empty = np.empty((0, 3), dtype="i4")
        hollow = np.empty((2, 0, 4))
        """,
        """
        assert scalar_array.shape == () and scalar_array == 3.5
        scalar_array[...] = 4
        assert scalar_array == 4
        assert empty.shape == (0, 3) and empty.dtype == np.dtype("i4") and hollow.shape == (2, 0, 4)
        """,
        needs=("numpy",),
    ),
    Kind(
        "numpy scalars keep their type",
        """
        import numpy as np

        scalars = [np.float32(0.1), np.int8(-3), np.bool_(True), np.datetime64("2024-01-01"), np.str_("s"), np.uint64(2**63)]
        """,
        """
        assert [type(s).__name__ for s in scalars] == ["float32", "int8", "bool", "datetime64", "str_", "uint64"]
        assert scalars[0] == np.float32(0.1) and scalars[5] == 2**63 and scalars[3] == np.datetime64("2024-01-01")
        """,
        needs=("numpy",),
    ),
    Kind(
        "a view and its base share memory",
        """
        import numpy as np

        base = np.arange(12.0)
        view = base[2:5]
        every_other = base[::2]
        """,
        """
        assert np.shares_memory(view, base) and np.shares_memory(every_other, base) and base.flags.owndata
        view[0] = 99
        assert base[2] == 99 and every_other[1] == 99
        """,
        needs=("numpy",),
    ),
    Kind(
        "a reversed view and a transposed view",
        """
        import numpy as np

        line = np.arange(6)
        backwards = line[::-1]
        grid = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        turned = grid.T
        """,
        """
        assert backwards.strides == (-line.itemsize,) and backwards[0] == 5
        line[5] = -5
        assert backwards[0] == -5
        assert np.shares_memory(grid, turned) and grid.flags.f_contiguous and turned.flags.c_contiguous
        turned[0, 1] = 50
        assert grid[1, 0] == 50
        """,
        needs=("numpy",),
    ),
    Kind(
        "a view whose base has no name",
        """
        import numpy as np

        lonely = np.arange(100_000)[10:20]
        """,
        """
        assert lonely.tolist() == list(range(10, 20))
        lonely[0] = 1
        assert lonely[0] == 1
        """,
        needs=("numpy",),
    ),
    Kind(
        "two views of a base that was dropped",
        """
        import numpy as np

        whole = np.arange(1000)
        left, right = whole[10:20], whole[15:30]
        del whole
        """,
        """
        assert np.shares_memory(left, right)
        left[5] = -1
        assert right[0] == -1 and right[14] == 29
        """,
        needs=("numpy",),
    ),
    Kind(
        "columns of a matrix, apart and together",
        """
        import numpy as np

        matrix = np.arange(20.0).reshape(4, 5)
        column = matrix[:, 2]
        parts = [matrix[0], matrix[:, 2], matrix]
        """,
        """
        assert parts[2] is matrix and np.shares_memory(parts[0], matrix)
        column[1] = 77
        assert matrix[1, 2] == 77 and parts[1][1] == 77
        """,
        needs=("numpy",),
    ),
    Kind(
        "strided arrays without their base",
        """
        import numpy as np

        skipping = np.arange(30).reshape(5, 6)[::2, 1::3]
        """,
        """
        assert skipping.tolist() == [[1, 4], [13, 16], [25, 28]]
        skipping[0, 0] = 0
        """,
        needs=("numpy",),
    ),
    Kind(
        "column order stays",
        """
        import numpy as np

        by_column = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        """,
        """
        assert by_column.flags.f_contiguous and not by_column.flags.c_contiguous
        assert by_column.tolist() == [[0, 1, 2], [3, 4, 5]]
        by_column[0, 0] = 9
        """,
        needs=("numpy",),
    ),
    Kind(
        "a broadcast array is small and read-only",
        """
        import numpy as np

        wide = np.broadcast_to(np.arange(3), (1000, 3))
        """,
        """
        assert wide.shape == (1000, 3) and wide.strides[0] == 0 and not wide.flags.writeable
        assert wide[999].tolist() == [0, 1, 2]
        """,
        needs=("numpy",),
    ),
    Kind(
        "a read-only array stays read-only",
        """
        import numpy as np

        fixed = np.arange(4)
        fixed.flags.writeable = False
        window = fixed[1:3]
        """,
        """
        assert not fixed.flags.writeable and not window.flags.writeable and np.shares_memory(fixed, window)
        """,
        needs=("numpy",),
    ),
    Kind(
        "structured arrays and a field of one",
        """
        import numpy as np

        table = np.zeros(3, dtype=[("id", "<i4"), ("xy", "f8", (2,)), ("name", "U5")])
        table["name"] = ["a", "b", "c"]
        ids = table["id"]
        records = np.rec.array([(1, 2.5)], names="a,b")
        """,
        """
        assert np.shares_memory(table, ids) and table.dtype.names == ("id", "xy", "name")
        ids[1] = 7
        assert table[1]["id"] == 7 and table["name"].tolist() == ["a", "b", "c"]
        assert records.a.tolist() == [1] and type(records) is np.recarray
        """,
        needs=("numpy",),
    ),
    Kind(
        "other byte orders and padded records",
        """
        import numpy as np

        swapped = np.array([1, 2**40], dtype=">i8")
        padded = np.ones(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True))
        """,
        """
        assert swapped.dtype.str == ">i8" and swapped.tolist() == [1, 2**40]
        assert padded.dtype.isalignedstruct and padded.dtype.itemsize == 16 and padded["b"].tolist() == [1, 1]
        """,
        needs=("numpy",),
    ),
    Kind(
        "arrays of objects share their elements",
        """
        import numpy as np

        inner = [1]
        objects = np.array([inner, None, {"k": inner}], dtype=object)
        first_two = objects[:2]
        """,
        """
        assert objects[0] is inner and objects[2]["k"] is inner and np.shares_memory(objects, first_two)
        inner.append(2)
        first_two[1] = "set"
        assert objects[0] == [1, 2] and objects[1] == "set"
        """,
        needs=("numpy",),
    ),
    Kind(
        "an array of objects that holds itself",
        """
        import numpy as np

        snake = np.empty(2, dtype=object)
        snake[0] = snake
        """,
        """
        assert snake[0] is snake and snake[1] is None
        """,
        needs=("numpy",),
    ),
    Kind(
        "dates and durations, with gaps",
        """
        import numpy as np

        days = np.array(["2024-01-01", "NaT"], dtype="M8[D]")
        nanos = np.array(["2024-01-01T12:00:00.123456789"], dtype="M8[ns]")
        waits = np.array([5, -3], dtype="m8[h]")
        """,
        """
        assert days.dtype == "M8[D]" and np.isnat(days[1]) and str(days[0]) == "2024-01-01"
        assert str(nanos[0]) == "2024-01-01T12:00:00.123456789"
        waits[0] += 1
        assert waits.tolist() == np.array([6, -3], dtype="m8[h]").tolist()
        """,
        needs=("numpy",),
    ),
    Kind(
        "arrays of text and bytes",
        """
        import numpy as np

        words = np.array(["ä", "longer"])
        codes = np.array([b"a", b"bc"])
        loose = np.array(["x" * 50, ""], dtype=np.dtypes.StringDType())
        """,
        """
        assert words.dtype == "<U6" and words.tolist() == ["ä", "longer"] and codes.tolist() == [b"a", b"bc"]
        assert loose.dtype == np.dtypes.StringDType() and loose[0] == "x" * 50
        loose[1] = "set"
        """,
        needs=("numpy",),
    ),
    Kind(
        "masked arrays share their data",
        """
        import numpy as np

        masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0], fill_value=-1)
        values = masked.data
        """,
        """
        assert masked.sum() == 4 and masked.fill_value == -1 and masked.mask.tolist() == [False, True, False]
        values[0] = 10
        assert masked.sum() == 13
        """,
        needs=("numpy",),
    ),
    Kind(
        "an array over a bytearray",
        """
        import numpy as np

        raw = bytearray(16)
        numbers = np.frombuffer(raw, "u1")
        """,
        """
        raw[0] = 7
        assert numbers[0] == 7
        numbers[1] = 8
        assert raw[1] == 8
        """,
        needs=("numpy",),
    ),
    Kind(
        "a subclass of ndarray",
        """
        import numpy as np


        class Measured(np.ndarray):
            def __array_finalize__(self, source):
                self.unit = getattr(source, "unit", None)

            def __reduce__(self):
                rebuild, arguments, state = super().__reduce__()
                return rebuild, arguments, (state, self.unit)

            def __setstate__(self, state):
                super().__setstate__(state[0])
                self.unit = state[1]


        lengths = np.arange(3.0).view(Measured)
        lengths.unit = "m"
        """,
        """
        assert type(lengths) is Measured and lengths.unit == "m" and lengths.tolist() == [0, 1, 2]
        assert lengths[1:].unit == "m"
        """,
        needs=("numpy",),
    ),
    Kind(
        "generators of random numbers",
        """
        import numpy as np

        modern = np.random.default_rng(5)
        modern.random(3)
        classic = np.random.RandomState(5)
        classic.normal()
        streams = modern.spawn(2)
        """,
        """
        same = np.random.default_rng(5)
        same.random(3)
        again = same.spawn(2)
        assert np.array_equal(modern.random(4), same.random(4)) and streams[1].random() == again[1].random()
        old = np.random.RandomState(5)
        old.normal()
        assert classic.normal() == old.normal()
        """,
        needs=("numpy",),
    ),
    Kind(
        "dtypes, ufuncs and polynomials",
        """
        import numpy as np

        dtype, add = np.dtype([("a", "i4")]), np.add
        parabola = np.polynomial.Polynomial([1, 0, 2])
        """,
        """
        assert dtype == np.dtype([("a", "i4")]) and add is np.add
        assert parabola(3) == 19 and parabola == np.polynomial.Polynomial([1, 0, 2])
        """,
        needs=("numpy",),
    ),
    Kind(
        "one array under many names and in many places",
        """
        import numpy as np

        weights = np.ones(5)
        layers = {"first": weights, "all": [weights, weights[1:3]]}


        class Holder:
            def __init__(self, array):
                self.array = array


        holder = Holder(weights)
        """,
        """
        assert layers["first"] is weights and layers["all"][0] is weights and holder.array is weights
        weights[1] = 4
        assert layers["all"][1][0] == 4
        """,
        needs=("numpy",),
    ),
    Kind(
        "sparse matrices of scipy",
        """
        import numpy as np
        import scipy.sparse as sp

        csr = sp.random(50, 40, density=0.1, format="csr", random_state=1)
        formats = [csr.asformat(name) for name in ("csc", "coo", "lil", "dok", "dia", "bsr")]
        array = sp.csr_array(np.eye(3))
        """,
        """
        assert csr.format == "csr" and csr.nnz == 200
        for other, name in zip(formats, ("csc", "coo", "lil", "dok", "dia", "bsr")):
            assert other.format == name and (other.asformat("csr") != csr).nnz == 0
        array[0, 0] = 5
        assert array[0, 0] == 5 and type(array) is sp.csr_array
        csr.data[0] = 3
        """,
        needs=("scipy",),
    ),
    Kind(
        "records with objects in them, their columns and rows",
        """
        import numpy as np

        inner = [1]
        records = np.array([(1, inner), (2, "s")], dtype=[("n", "i8"), ("o", "O")])
        first, numbers, held = records[:1], records["n"], records["o"]
        row = records[1]
        deep = np.zeros((2, 2), dtype=[("p", [("o", "O"), ("x", "f4")]), ("q", "O", (2,))], order="F")
        deep["p"]["o"][1, 0] = inner
        deep["q"][0, 1] = [inner, 3]
        corner, deepest = deep["q"][..., 1], deep["p"]["o"]
        fixed = records.copy()
        fixed.flags.writeable = False
        itself = np.zeros(1, dtype=[("o", "O")])
        itself["o"][0] = itself
        """,
        """
        assert records["o"][0] is inner and held[0] is inner and deep["p"]["o"][1, 0] is inner
        assert records.dtype == np.dtype([("n", "i8"), ("o", "O")]) and fixed["o"][0] is inner
        first["n"][0] = 7
        assert records["n"][0] == 7 and numbers[0] == 7
        numbers[1], held[1] = 8, "w"
        assert row.item() == (8, "w") and type(row) is np.void
        row["o"] = "through the row"
        assert records["o"][1] == held[1] == "through the row"
        assert deep.flags.f_contiguous and deep["q"].shape == (2, 2, 2) and deep["q"][0, 1, 0] is inner
        corner[0, 1] = "corner"
        deepest[0, 0] = "deepest"
        assert deep["q"][0, 1, 1] == "corner" and deep["p"]["o"][0, 0] == "deepest"
        assert not fixed.flags.writeable and itself["o"][0] is itself
        """,
        needs=("numpy",),
    ),
    Kind(
        "rows of a structured array, with it and without",
        """
        import numpy as np

        table = np.array([(1, 2.5), (2, 3.5)], dtype=[("n", "i8"), ("f", "f8")])
        row, rows = table[0], list(table)
        lost = np.array([(1, 2.5)], dtype=table.dtype)
        alone = same = lost[0]
        other = lost[0]
        del lost
        owner = np.void((1, 2.0), dtype=table.dtype)
        """,
        """
        row["n"] = 9
        rows[1]["f"] = 77
        assert table.tolist() == [(9, 2.5), (2, 77)] and rows[0]["n"] == 9 and type(row) is np.void
        assert alone is same
        alone["n"] = 4
        assert other["n"] == 4 and owner.item() == (1, 2.0)
        """,
        needs=("numpy",),
    ),
    Kind(
        "record arrays",
        """
        import numpy as np

        inner = [1]
        plain = np.rec.array([(1, 2.5), (2, 3.5)], dtype=[("a", "i8"), ("b", "f8")])
        held = np.rec.array([(1, inner), (2, "s")], dtype=[("a", "i8"), ("o", "O")])
        column, row, base, below = plain.a, plain[0], plain.view(np.ndarray), held.view(np.ndarray)
        typed = np.zeros(2, dtype=(np.record, [("a", "i4")]))
        """,
        """
        assert type(plain) is type(held) is np.recarray and type(row) is type(typed[0]) is np.record
        column[0] = 9
        assert plain.a[0] == base["a"][0] == row.a == 9
        row.b = 4
        assert plain.b[0] == 4 and held.o[0] is inner
        held.o[1] = "q"
        assert below["o"][1] == "q" and type(held[0]) is np.record
        """,
        needs=("numpy",),
    ),
    Kind(
        "texts of any length, and views of them",
        """
        import numpy as np

        texts = same = np.array(["x" * 50, "b", "c"], dtype=np.dtypes.StringDType())
        tail, ends = texts[1:], texts[::2]
        lonely = np.array(["x" * 50, "b", "c"], dtype=np.dtypes.StringDType())[::-1][:2]
        grid = np.array([["x", "b"], ["c", "d"]], dtype=np.dtypes.StringDType())
        turned = grid.T
        gaps = np.array(["x", np.nan], dtype=np.dtypes.StringDType(na_object=np.nan))
        nones = np.array([["a", None]], dtype=np.dtypes.StringDType(na_object=None, coerce=False), order="F")
        fixed = np.array(["x"], dtype=np.dtypes.StringDType())
        fixed.flags.writeable = False
        """,
        """
        assert texts is same and texts[0] == "x" * 50 and np.shares_memory(texts, tail)
        tail[0], ends[1] = "set" * 20, "z"
        assert texts.tolist() == ["x" * 50, "set" * 20, "z"] and tail[1] == "z"
        assert lonely.tolist() == ["c", "b"]
        turned[0, 1] = "q"
        assert grid[1, 0] == "q" and not fixed.flags.writeable
        assert gaps[1] != gaps[1] and gaps.dtype == np.dtypes.StringDType(na_object=np.nan)
        assert nones[0, 1] is None and nones.dtype.coerce is False
        """,
        needs=("numpy",),
    ),
    Kind(
        "arrays over other owners of bytes",
        """
        import array
        import numpy as np

        raw = array.array("d", [1, 2, 3])
        numbers, tail, window = np.frombuffer(raw), np.asarray(raw)[1:], memoryview(raw)
        lost = array.array("i", [1, 2, 3])
        left, right = np.frombuffer(lost, "i4"), np.frombuffer(lost, "i4")[1:]
        del lost
        bytes_ = bytearray(33)
        unaligned, bytes_window = np.frombuffer(bytes_, "f8", 4, 1), memoryview(bytes_)
        fixed = b"0123456789"
        codes, later = np.frombuffer(fixed, "u1"), np.frombuffer(fixed, "u1")[2:]
        """,
        """
        assert type(raw) is array.array and raw.typecode == "d" and numbers.flags.writeable
        raw[1] = 9
        assert numbers[1] == 9 and tail[0] == 9 and window[1] == 9
        tail[1] = 8
        assert raw[2] == 8
        window[0] = 7
        assert raw[0] == 7 == numbers[0]
        left[1] = 5
        assert right[0] == 5
        unaligned[0] = 1.5
        assert bytes_[7:9] == bytes_window[7:9] != b"\\0\\0"
        assert not codes.flags.writeable and codes[2] == later[0] == 50
        """,
        needs=("numpy",),
    ),
    Kind(
        "windows that overlap, each by itself and with what they look at",
        """
        import numpy as np

        windows = np.lib.stride_tricks.sliding_window_view
        line = np.arange(6.0)
        over = windows(line, 3, writeable=True)
        alone = windows(np.arange(6.0), 3, writeable=True)
        fixed = windows(np.arange(6.0), 3)
        backwards = np.lib.stride_tricks.as_strided(np.arange(10.0)[5:], (3, 3), (-8, 8))
        objects = np.lib.stride_tricks.as_strided(np.array([[1], 2, 3, 4], dtype=object), (3, 2), (8, 8))
        repeated = np.lib.stride_tricks.as_strided(np.arange(3.0), (4, 3), (0, 8))
        inner = [1]
        wide = np.broadcast_to(np.array([inner, 2], dtype=object), (3, 2))
        """,
        """
        over[0, 2] = 99
        assert line[2] == over[1, 1] == over[2, 0] == 99
        alone[0, 2] = 98
        assert alone[1, 1] == alone[2, 0] == 98 and alone.shape == (4, 3)
        assert not fixed.flags.writeable and fixed[3, 2] == 5 and np.shares_memory(fixed[0], fixed[1])
        assert backwards.tolist() == [[5, 6, 7], [4, 5, 6], [3, 4, 5]]
        backwards[0, 0] = 9
        assert backwards[1, 1] == 9
        objects[0, 1] = "k"
        assert objects[1, 0] == "k"
        repeated[0, 1] = 7
        assert repeated[3, 1] == 7
        assert wide[2, 0] is inner and wide.strides[0] == 0 and not wide.flags.writeable
        """,
        needs=("numpy",),
    ),
    Kind(
        "views keep their own leave to write",
        """
        import numpy as np

        base = np.arange(4.0)
        part, full = base[1:3], base[:]
        base.flags.writeable = False
        objects = np.array([1, [2], 3], dtype=object)
        held = objects[1:]
        objects.flags.writeable = False
        free = np.arange(4.0)
        fixed = free[:]
        fixed.flags.writeable = False
        """,
        """
        assert not base.flags.writeable and part.flags.writeable and full.flags.writeable and base.flags.owndata
        part[0] = 9
        full[0] = 8
        assert base[:2].tolist() == [8, 9]
        assert not objects.flags.writeable
        held[0] = 9
        assert objects[1] == 9 and free.flags.writeable and not fixed.flags.writeable
        free[0] = 5
        assert fixed[0] == 5
        """,
        needs=("numpy",),
    ),
    Kind(
        "masked arrays of objects, and what was set on one",
        """
        import numpy as np

        inner = [1]
        masked = np.ma.array([inner, 2, "x"], mask=[0, 1, 0], dtype=object)
        values = masked.data
        marked = np.ma.array([1.0, 2.0], mask=[0, 1])
        marked._optinfo["k"], marked.note = 1, "n"
        first, second = (shared := np.ma.array([1.0, 2.0], mask=[0, 1])), shared[:]
        del shared
        """,
        """
        assert type(masked) is np.ma.MaskedArray and masked[0] is inner and masked.mask.tolist() == [False, True, False]
        values[2] = "y"
        assert masked[2] == "y" and marked._optinfo == {"k": 1} and marked.note == "n"
        second[0] = np.ma.masked
        assert first.mask[0] and np.shares_memory(first.data, second.data)
        """,
        needs=("numpy",),
    ),
    Kind(
        "what a dtype says beside its type",
        """
        import numpy as np

        metres = np.dtype("i8", metadata={"unit": "m"})
        plain, lengths = np.zeros(3, "i8"), np.zeros(3, metres)
        tail = lengths[1:]
        table = np.zeros(3, [("a", metres), ("b", "f8")])
        texts = np.array(["x", None], dtype=np.dtype("O", metadata={"vlen": str}))
        head = texts[:1]
        titled = np.zeros(2, np.dtype([(("Title", "t"), "i4"), ("b", "f8")]))
        """,
        """
        for dtype in (metres, lengths.dtype, tail.dtype, table.dtype["a"]):
            assert dict(dtype.metadata) == {"unit": "m"}
        assert plain.dtype.metadata is None and texts.dtype.metadata["vlen"] is head.dtype.metadata["vlen"] is str
        head[0] = "n"
        assert texts[0] == "n" and titled.dtype.fields["t"][2] == "Title"
        """,
        needs=("numpy",),
    ),
    Kind(
        "axes in an order of their own",
        """
        import numpy as np

        image = np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2).copy(order="K")
        layout = image.strides
        gaps = np.arange(48.0).reshape(2, 3, 8).transpose(1, 0, 2)[..., ::2]
        """,
        """
        assert image.strides == layout == (32, 96, 8) and image[1, 1, 1] == 17
        assert np.array_equal(gaps, np.arange(48.0).reshape(2, 3, 8).transpose(1, 0, 2)[..., ::2])
        image[0, 0, 0] = gaps[0, 0, 0] = 5
        """,
        needs=("numpy",),
    ),
    Kind(
        "subclasses of ndarray that say how they are pickled",
        """
        import numpy as np


        class Quantity(np.ndarray):
            def __array_finalize__(self, source):
                self.unit = getattr(source, "unit", None)

            def __reduce__(self):
                rebuild, arguments, state = super().__reduce__()
                return rebuild, arguments, (state, self.__dict__)

            def __setstate__(self, state):
                super().__setstate__(state[0])
                self.__dict__.update(state[1])


        class Slotted(np.ndarray):
            __slots__ = ("unit",)

            def __reduce__(self):
                rebuild, arguments, state = super().__reduce__()
                return rebuild, arguments, ((self.unit,), *state)

            def __setstate__(self, state):
                super().__setstate__(state[1:])
                self.unit = state[0][0]


        class Counted(np.ndarray):
            def __setstate__(self, state):
                super().__setstate__(state)
                self.loaded = True


        class Marked(np.ma.MaskedArray):
            pass


        unit = ["km"]
        long, short, line = (np.arange(n).view(kind) for n, kind in ((5e3, Quantity), (3.0, Quantity), (5e3, Slotted)))
        long.unit = short.unit = line.unit = unit
        same, part, memory = long, long[1:], long.view(np.ndarray)
        part.unit = long
        cut = line[::2]
        cut.unit = cut
        grid = np.asfortranarray(np.arange(5000.0).reshape(50, 100)).view(Quantity)
        turned = grid.T
        counted = np.arange(9.0).view(Counted)
        objects = np.array([unit, 2], dtype=object).view(Quantity)
        marked = Marked(np.arange(5000.0), mask=[True] + [False] * 4999)
        below = marked.data
        """,
        """
        assert type(long) is type(part) is type(objects) is Quantity and type(line) is type(cut) is Slotted
        assert same is long and long.unit is short.unit is line.unit is unit and part.unit is long and cut.unit is cut
        assert long.tolist() == list(range(5000)) and short.tolist() == [0, 1, 2] and cut[1] == 2
        part[0], cut[1], turned[0, 1], below[1] = 9, 8, 7, 6
        assert long[1] == memory[1] == 9 and line[2] == 8 and grid[1, 0] == 7 and grid.flags.f_contiguous
        assert type(counted) is Counted and counted[8] == 8 and objects[0] is unit
        assert type(marked) is Marked and marked[1] == 6 and marked.mask[:2].tolist() == [True, False]
        """,
        needs=("numpy",),
    ),
)
