"""Lists of thousands of arrays: a cell that reads them reduces none, and every way to change one is found."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.values import pickler as pickling
from agent_kernel.values.reducers import arrays
from tests.support.notebooks import Notebook, names_changed

N = 1_200
MADE = {
    "rows of a matrix": "import numpy as np\nm = np.arange({n} * 4.0).reshape({n}, 4)\nrows = list(m)",
    "rows of a matrix that is gone": "import numpy as np\nrows = list(np.arange({n} * 4.0).reshape({n}, 4))",
    "slices": "import numpy as np\nm = np.arange({n} * 4.0)\nrows = [m[4 * i : 4 * i + 4] for i in range({n})]",
    "arrays of their own": "import numpy as np\nrows = [np.arange(4.0) + i for i in range({n})]",
    "a tuple in a dict": "import numpy as np\nbox = {{'r': tuple(np.arange(4.0) + i for i in range({n}))}}\nrows = box['r']",
}
CHANGES = {
    "a number": "rows[7][2] = -1.0",
    "a number in place of the same one of another sign": "rows[0][0] = -0.0",
    "a flag": "rows[7].flags.writeable = False",
    "a shape": "rows[7].shape = (2, 2)",
}
LOOK = "[(row.tolist(), str(row[0]), row.flags.writeable, row.shape) for row in rows]"


@pytest.fixture
def reduced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that reducers were called for."""
    found: list[Any] = []
    reduce_array = arrays.reduce_array

    def noted(pickler: Any, array: Any) -> Any:
        found.append(id(array))
        return reduce_array(pickler, array)

    import numpy as np

    monkeypatch.setitem(pickling._HANDLERS, id(np.ndarray), noted)
    return found


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_cell_that_reads_many_arrays_reduces_none_of_them(made: str, reduced: list[Any]) -> None:
    for many in (N, 2 * N, 4 * N):
        with Notebook() as nb:
            nb.run(made.format(n=many))
            assert reduced
            reduced.clear()
            assert not names_changed(nb.run("len(rows)"))
            assert not reduced


def test_numbers_whose_bytes_look_like_a_nan_in_a_stream_are_reduced_as_often_as_others(reduced: list[Any]) -> None:
    counts: list[int] = []
    for some in (r"G\x7f\xf8", r"G\x7f\x00"):
        with Notebook() as nb:
            nb.run("import numpy as np")
            reduced.clear()
            nb.run(f"rows = [np.frombuffer(b'{some}' + bytes(5), np.int64).copy() for _ in range(200)]")
            counts.append(len(reduced))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_change_of_one_among_many_arrays_is_found_and_goes_back(made: str, change: str) -> None:
    with Notebook() as nb:
        nb.run(made.format(n=N))
        nb.run("len(rows)")
        first, before = nb.session.head, nb.look(LOOK)
        assert "rows" in names_changed(nb.run(change))
        after = nb.look(LOOK)
        assert after != before
        nb.run("len(rows)")
        nb.checkout(first)
        assert nb.look(LOOK) == before
        assert not names_changed(nb.run("len(rows)"))
        nb.checkout("main")
        assert nb.look(LOOK) == after


@pytest.mark.parametrize("made", [made for made in MADE.values() if "\nm = " in made])
def test_many_views_stay_views_of_what_they_look_at(made: str) -> None:
    with Notebook() as nb:
        nb.run(made.format(n=N))
        nb.run("len(rows)")
        first = nb.session.head
        assert names_changed(nb.run("m.reshape(-1)[4 * 9] = -5.0")) == {"m", "rows"}
        assert nb.look("rows[9][0]") == -5.0
        nb.run("one = rows[5]")
        assert names_changed(nb.run("one[1] = -6.0")) == {"m", "rows", "one"}
        nb.checkout(first)
        nb.run("rows[11][3] = -7.0")
        assert nb.look("m.reshape(-1)[4 * 11 + 3]") == -7.0


def test_an_equal_array_in_the_place_of_one_that_another_name_holds_is_shared_with_it_no_more() -> None:
    with Notebook() as nb:
        nb.run(MADE["arrays of their own"].format(n=N) + "\none = rows[5]")
        nb.run("len(rows)")
        first = nb.session.head
        nb.run("rows[5] = rows[5].copy()")
        apart = nb.session.head
        for state, value in ((first, -2.0), (apart, 5.0)):
            nb.checkout(state)
            nb.run("one[0] = -2.0")
            assert nb.look("rows[5][0]") == value


def test_a_name_for_one_of_many_arrays_that_a_function_gives_shares_it() -> None:
    with Notebook() as nb:
        nb.run(MADE["arrays of their own"].format(n=N) + "\ndef take(i):\n    return rows[i]")
        nb.run("len(rows)")
        nb.run("one = take(5)")
        first = nb.session.head
        nb.run("one[0] = -1.0\nlen(rows)")
        nb.checkout(first)
        assert nb.look("one is rows[5]")
        nb.run("one[0] = -2.0")
        assert nb.look("rows[5][0]") == -2.0


def test_many_small_arrays_in_the_order_of_fortran_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faces of a surface are such: a blob for each took longer than all else."""
    blobs: list[Any] = []
    keep = pickling.Pickler.buffer

    def noted(pickler: Any, *rest: Any) -> Any:
        blobs.append(rest)
        return keep(pickler, *rest)

    monkeypatch.setattr(pickling.Pickler, "buffer", noted)
    counts: list[int] = []
    for many in (N, 2 * N):
        blobs.clear()
        with Notebook() as nb:
            first = nb.run(
                f"import numpy as np\nrows = [np.asfortranarray(np.arange(6.0).reshape(2, 3) + i) for i in range({many})]"
            )
            counts.append(len(blobs))
            assert names_changed(nb.run("rows[7][1, 2] = -1.0; rows[9].flags.writeable = False")) == {"rows"}
            nb.checkout(first)
            assert nb.look("all(np.array_equal(row, np.arange(6.0).reshape(2, 3) + i) for i, row in enumerate(rows))")
            assert nb.look("all(row.flags.f_contiguous and row.flags.writeable for row in rows)")
    assert counts[1] < counts[0] + N // 10
