"""Numbers, text, bytes, and the constants of the language."""

from tests.fidelity.kinds.kind import Kind

PLAIN = (
    Kind(
        "integers of every size",
        """
        small, negative, word, big = 7, -1, 2**64, -(3**5000)
        """,
        """
        assert (small, negative, word) == (7, -1, 18446744073709551616)
        assert big == -(3**5000)
        """,
    ),
    Kind(
        "floats, the odd ones too",
        """
        tenth, tiny, infinite, minus_zero, undefined = 0.1, 5e-324, -float("inf"), -0.0, float("nan")
        """,
        """
        import math

        assert (tenth, tiny, infinite) == (0.1, 5e-324, -math.inf)
        assert math.copysign(1, minus_zero) == -1
        assert math.isnan(undefined)
        """,
    ),
    Kind(
        "complex numbers",
        """
        z = complex(-0.0, float("inf"))
        """,
        """
        import math

        assert math.copysign(1, z.real) == -1 and z.imag == math.inf
        """,
    ),
    Kind(
        "the constants",
        """
        yes, no, nothing, dots, unknown = True, False, None, ..., NotImplemented
        """,
        """
        assert yes is True and no is False and nothing is None and dots is Ellipsis and unknown is NotImplemented
        """,
    ),
    Kind(
        "a bool is not the int that equals it",
        """
        flags = [True, 1, False, 0, 1.0]
        """,
        """
        assert [type(flag) for flag in flags] == [bool, int, bool, int, float]
        """,
    ),
    Kind(
        "text in many scripts",
        r"""
        words = "naïve Straße 東京 🎉 e\u0301 \x00 \r\n"
        empty = ""
        long = "ab" * 300_000
        """,
        r"""
        assert words == "naïve Straße 東京 🎉 e\u0301 \x00 \r\n"
        assert empty == "" and long == "ab" * 300_000
        """,
    ),
    Kind(
        "text with lone surrogates",
        r"""
        name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
        half = "\ud83d"
        """,
        r"""
        assert name.encode("utf-8", "surrogateescape") == b"caf\xe9.csv"
        assert half == "\ud83d"
        """,
    ),
    Kind(
        "bytes and a bytearray",
        """
        raw = bytes(range(256)) * 600
        growing = bytearray(b"abc")
        """,
        """
        assert raw == bytes(range(256)) * 600
        assert growing == b"abc"
        growing.extend(b"d")
        assert growing == b"abcd"
        """,
    ),
    Kind(
        "a memoryview of a bytearray that has a name",
        """
        buffer = bytearray(b"0123456789")
        window = memoryview(buffer)[2:5]
        """,
        """
        assert bytes(window) == b"234" and not window.readonly
        window[0] = ord("x")
        assert buffer == b"01x3456789"
        """,
    ),
    Kind(
        "a read-only memoryview with a shape",
        """
        grid = memoryview(bytes(12)).cast("i", [3])
        """,
        """
        assert grid.tolist() == [0, 0, 0] and grid.readonly and grid.format == "i"
        """,
    ),
    Kind(
        "ranges and slices",
        """
        steps = range(10, 0, -3)
        part = slice(None, 5, 2)
        """,
        """
        assert list(steps) == [10, 7, 4, 1] and part == slice(None, 5, 2)
        """,
    ),
    Kind(
        "an array of machine numbers",
        """
        import array

        ints = array.array("q", [1, -2, 3])
        signs = array.array("u", "äb")
        """,
        """
        assert ints.typecode == "q" and ints.tolist() == [1, -2, 3]
        ints.append(4)
        assert ints[3] == 4 and signs.tounicode() == "äb"
        """,
    ),
    Kind(
        "decimals keep their digits",
        """
        from decimal import Context, Decimal, ROUND_UP

        price, nan, context = Decimal("1.230"), Decimal("-sNaN7"), Context(prec=7, rounding=ROUND_UP)
        """,
        """
        assert str(price) == "1.230" and str(nan) == "-sNaN7"
        assert context.prec == 7 and context.rounding == ROUND_UP
        """,
    ),
    Kind(
        "fractions",
        """
        from fractions import Fraction

        third = Fraction(-1, 3)
        """,
        """
        assert third == Fraction(-1, 3) and third * 3 == -1
        """,
    ),
    Kind(
        "types as values",
        """
        import collections.abc

        kinds = [int, type, type(None), collections.abc.Mapping, list[int], dict[str, int | None]]
        """,
        """
        assert kinds[:4] == [int, type, type(None), collections.abc.Mapping]
        assert kinds[4] == list[int] and kinds[5] == dict[str, int | None]
        """,
    ),
    Kind(
        "a sentinel is itself wherever it is used",
        """
        MISSING = object()
        settings = {"colour": MISSING, "size": 3}
        """,
        """
        assert settings["colour"] is MISSING and settings["size"] == 3
        """,
    ),
)
