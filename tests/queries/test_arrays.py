"""An array on both sides, read where it differs: its values, how they are spread, and how many differ."""

from __future__ import annotations

import pytest

from tests.queries.histories import Notebook


def test_a_long_array_is_compared_exactly_by_the_pieces_that_differ(nb: Notebook) -> None:
    nb.cells("import numpy as np\nz = np.arange(600_000.0)", "z[5] = 1\nz[599_999] = 0", "z = z + 1")
    few, all_ = (nb.ask("variable", id=at, name="z")["lines"] for at in ("HEAD~1", "HEAD"))
    assert few == ["2 of 600,000 values differ, between rows 5 and 599,999"]
    assert all_ == ["600,000 of 600,000 values differ, between rows 0 and 599,999"]


def test_where_comparing_takes_long_it_is_said_what_is_left(nb: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_kernel.commands.contents._MOST_COMPARED", 2_000_000)
    nb.cells("import numpy as np\nz = np.arange(600_000.0)", "z = z + 1")
    (line,) = nb.ask("variable", id="HEAD", name="z")["lines"]
    assert line.startswith("at least ")
    assert line.endswith(" more lie in pieces that differ and were not compared)")
    monkeypatch.setattr("agent_kernel.commands.contents._LONGEST_S", -1.0)
    (line,) = nb.ask("variable", id="HEAD", name="z")["lines"]
    assert line.startswith("at least 0 of 600,000 values differ (600,000 more lie")


def test_an_array_shows_how_its_values_are_spread(nb: Notebook) -> None:
    nb.cells("import numpy as np\nz = np.array([0.0, 1, 2, 3, 40])", "z[4] = 4\nz[0] = np.nan")
    answer = nb.ask("variable", id="HEAD", name="z")
    before, after = answer["face"]["rows"]
    assert (before["label"], after["label"]) == ("before", "after")
    assert len(before["spread"]) == len(after["spread"]) == 16
    assert max(before["spread"]) == max(after["spread"]) == 1
    assert [stat[:2] for stat in before["stats"]] == [["min", "0"], ["mean", "9.2"], ["max", "40"], ["sd", "15.43"]]
    assert after["stats"] == [
        ["min", "1", True],
        ["mean", "2.5", True],
        ["max", "4", True],
        ["sd", "1.118", True],
        ["missing", "1", True],
    ]
    assert answer["lines"] == ["2 of 5 values differ, between rows 0 and 4"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", ">f8", ">i2"])
def test_numbers_of_every_kind_are_read(nb: Notebook, dtype: str) -> None:
    nb.run(f"import numpy as np\nz = np.array([0, 1, 1, 0, 1]).astype('{dtype}').reshape(5, 1)")
    (after,) = nb.ask("variable", id="HEAD", name="z")["face"]["rows"]
    assert [stat[1] for stat in after["stats"]] == ["0", "0.6", "1", "0.4899"]


def test_booleans_are_counted(nb: Notebook) -> None:
    nb.run("import numpy as np, pandas as pd\nz = np.array([0, 1, 1, 0, 1]).astype(bool)\ns = pd.Series([*z, False])")
    (array,), (series,) = (nb.ask("variable", id="HEAD", name=name)["face"]["rows"] for name in "zs")
    assert [stat[:2] for stat in array["stats"]] == [["True", "3"], ["False", "2"]]
    assert [stat[:2] for stat in series["stats"]] == [["True", "3"], ["False", "3"]]


def test_a_long_array_is_sampled_and_it_is_said(nb: Notebook) -> None:
    nb.run("import numpy as np\nz = np.arange(2_000_000.0)")
    answer = nb.ask("variable", id="HEAD", name="z")
    assert answer["note"] == "Worked out from 262,144 of 2,000,000 values."
    stats = {name: said for name, said, _ in answer["face"]["rows"][0]["stats"]}
    assert stats["min"] == "0"
    assert stats["max"] == "1,999,999"


def test_series_and_tensors_are_arrays_too(nb: Notebook) -> None:
    pytest.importorskip("torch")
    nb.cells("import pandas as pd, torch\ns = pd.Series([1, 2, 3])\nt = torch.arange(4.0)", "s[0] = 9\nt[0] = 5")
    for name in ("s", "t"):
        assert nb.ask("variable", id="HEAD", name=name)["face"]["kind"] == "array"
