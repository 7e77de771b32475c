"""Why something comes out different, from the code and from what differs before it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel.reproduction.assessment import Settings, assess
from agent_kernel.reproduction.causes import Cause, Tracer
from agent_kernel.reproduction.comparison import Side
from agent_kernel.reproduction.line import Line, LineCell
from tests.reproduction.histories import again, cell, reproduced, variable


def causes(tmp_path: Path, *cells: str) -> list[str]:
    """Of what the last cell shows."""
    tracer = Tracer(tmp_path)
    found = [tracer.look_at(LineCell(at, source)).of_outputs for at, source in enumerate(cells, 1)]
    return [cause.text for cause in found[-1]]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import time; t = time.time()", "reads the clock: time.time()"),
        ("from datetime import datetime as dt\nt = dt.now()", "reads the clock: datetime.datetime.now()"),
        ("import pandas as pd; t = pd.Timestamp.now()", "reads the clock: pandas.Timestamp.now()"),
        ("%time sum(range(9))", "shows how long it took: %time"),
        ("%%time\nx = 1", "shows how long it took: %%time"),
        ("import uuid; u = uuid.uuid4()", "draws from the system's random source, which has no seed: uuid.uuid4()"),
        ("import os; u = os.urandom(3)", "draws from the system's random source, which has no seed: os.urandom()"),
        ("import random; r = random.random()", "draws random numbers without a seed: random.random()"),
        ("import numpy as np; r = np.random.rand(3)", "draws random numbers without a seed: numpy.random.rand()"),
        ("from numpy.random import default_rng as make\nr = make()", "makes a random generator without a seed: numpy.random.default_rng()"),
        ("import torch; r = torch.randn(3)", "draws random numbers without a seed: torch.randn()"),
        (
            "from sklearn.model_selection import train_test_split\na, b = train_test_split(x)",
            "draws random numbers without a seed: train_test_split() without random_state",
        ),
        ("import requests; r = requests.get(url)", "reads the network: requests.get()"),
        ("import pandas as pd; d = pd.read_csv('https://example.org/a.csv')", "reads the network: https://example.org/a.csv"),
        ("d = open('gone.txt').read()", "reads a file that is not there: gone.txt"),
        ("h = hash('a')", "hash() is another number in each process"),
        ("names = {'a', 'b'}\nfirst = list(names)[0]", "goes through a set, whose order is another one in each process"),
        ("a = [*{'a', 'b'}]", "goes through a set, whose order is another one in each process"),
        ("s = {'a', 'b'} - {'a'}\na = list(s)", "goes through a set, whose order is another one in each process"),
        ("a = sorted({'aa', 'b'}, key=len)", "goes through a set, whose order is another one in each process"),
        ("a = max({'aa', 'b'}.union('c'), key=len)", "goes through a set, whose order is another one in each process"),
        ("print({'a', 'b'})", "goes through a set, whose order is another one in each process"),
        (
            "from sklearn.model_selection import train_test_split as tts\na, b = tts(x)",
            "draws random numbers without a seed: train_test_split() without random_state",
        ),
        (
            "import sklearn.cluster as cl\nm = cl.KMeans(2).fit(x)",
            "draws random numbers without a seed: KMeans() without random_state",
        ),
        ("r = __import__('random').random()", "draws random numbers without a seed: random.random()"),
        ("import importlib\nrd = importlib.import_module('random')\nr = rd.random()", "draws random numbers without a seed: random.random()"),
        ("import numpy as np\ng = np.random\nr = g.rand()", "draws random numbers without a seed: numpy.random.rand()"),
        ("import threading\nt = threading.Thread(target=f)", "runs things side by side, in another order each time: threading.Thread()"),
        ("u = open('/proc/sys/kernel/random/uuid').read()", "reads what this machine or process is: /proc/sys/kernel/random/uuid"),
        (
            "import time, random\nrandom.seed(time.time())\nprint(random.random())",
            "draws random numbers with a seed that reads the clock: time.time()",
        ),
        ("!date", "shows what a command of the shell says: !date"),
    ],
)  # fmt: skip
def test_a_call_that_differs_in_each_run_is_a_cause(tmp_path: Path, code: str, cause: str) -> None:
    assert causes(tmp_path, code) == [cause]


@pytest.mark.parametrize(
    "code",
    [
        "import random; random.seed(1); r = random.random()",
        "import numpy as np; np.random.seed(1); r = np.random.rand(3)",
        "import numpy as np; r = np.random.default_rng(0).normal()",
        "from sklearn.model_selection import train_test_split\na = train_test_split(x, random_state=0)",
        "import torch; torch.manual_seed(0); r = torch.randn(3)",
        "time = 3; x = time",
        "open('made.txt', 'w').write('x')",
        "this is no Python",
    ],
)
def test_code_that_is_the_same_each_time_has_no_cause(tmp_path: Path, code: str) -> None:
    assert causes(tmp_path, code) == []


def test_a_seed_from_the_clock_makes_nothing_else_of_the_module(tmp_path: Path) -> None:
    seed = "import numpy as np, time\nnp.random.seed(int(time.time()))"
    assert causes(tmp_path, seed, "a = np.zeros(3)") == []
    assert causes(tmp_path, seed, "b = np.random.rand()") == [
        "draws random numbers with a seed that reads the clock: time.time()"
    ]
    assert causes(tmp_path, seed, "np.random.seed(1); b = np.random.rand()") == []


@pytest.mark.parametrize("code", ["sorted({'a', 'b'})", "len({'a'})", "max({1, 2})", "{'a'} <= {'b'}", "sum({1, 2})"])
def test_what_needs_no_order_of_a_set_has_no_cause(tmp_path: Path, code: str) -> None:
    assert causes(tmp_path, f"x = {code}") == []


def test_a_function_brings_its_cause_where_it_is_called(tmp_path: Path) -> None:
    assert causes(tmp_path, "import time\ndef now():\n    return time.time()") == []
    assert causes(tmp_path, "import time\ndef now():\n    return time.time()", "x = 1", "t = now()") == [
        "reads the clock: time.time()"
    ]


def test_only_the_names_that_a_statement_sets_have_its_cause(tmp_path: Path) -> None:
    found = Tracer(tmp_path).look_at(LineCell(1, "import time\na = 1\nt = time.time()\nlater = t + a"))
    assert found.of_names["a"] == ()
    assert [cause.text for cause in found.of_names["later"]] == ["reads the clock: time.time()"]


def test_what_depends_on_a_different_variable_follows_from_it(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path,
        "import time; began = time.time_ns(); fixed = 1",
        "later = began + fixed",
        "square = later ** 2; same = fixed",
    )
    assert variable(found, "began")[1] == "reads the clock: time.time_ns()"
    assert variable(found, "later")[1] == "follows from began in cell 1"
    assert variable(found, "square")[1] == "follows from later in cell 2"
    assert variable(found, "same")[0].outcome == "same"


def test_what_a_cell_shows_follows_too(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "import random; n = random.random()", "print('drawn', n)")
    shown = cell(found, 2).output
    assert shown is not None
    assert shown.outcome == "different"
    assert [cause.text for cause in cell(found, 2).causes] == ["follows from n in cell 1"]


def test_a_file_that_changed_since_is_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.txt").write_text("1")
    os.utime(tmp_path / "n.txt", (2e9, 2e9))
    found = reproduced(tmp_path, "import pathlib; n = pathlib.Path('n.txt').read_text()", others=["n = '2'"])
    assert variable(found, "n")[1] == "reads a file that changed since the cell ran: n.txt"


def test_a_cell_that_needs_a_variable_of_no_cell_says_so(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "y = x + 1", others=["x = 1", "y = hidden + 1"])
    failure = cell(found, 2).failure
    assert failure is not None
    assert failure.text == "reads hidden, which no cell sets: its code was deleted or changed"
    assert cell(found, 2).outcome == "failed"


def test_a_cell_that_needs_a_later_one_says_so(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "y = 2", others=["x = y", "y = 2"])
    failure = cell(found, 1).failure
    assert failure is not None
    assert failure.text == "reads y, which only a later cell sets: the cells ran in another order"


def test_a_cell_that_needs_what_a_failed_one_did_not_set_says_so(tmp_path: Path) -> None:
    failure = _second_run(tmp_path, "1 / 0\nb = 1", "y = b")
    assert failure.text == "reads b, which cell 1 did not set this time"


def _second_run(tmp_path: Path, *cells: str) -> Cause:
    """Why the last cell of a document fails, whose cells fail in both runs."""
    line = Line(tuple(LineCell(at, source, saved=()) for at, source in enumerate(cells, 1)))
    with again(line, tmp_path / "one") as first, again(line, tmp_path / "two") as second:
        made = tuple(
            replace(cell, commit=first.commits[cell.position][0], record=first.commits[cell.position][1])
            for cell in line.cells
        )
        recorded = replace(line, cells=made, tip=first.head)
        found = assess(recorded, Side(first.repo), second, tmp_path, Settings(), "", first)
    failure = found.cells[-1].failure
    assert failure is not None
    return failure


@pytest.mark.parametrize("code", ["t = {}", "t = {}; u = t / 2", "t = {}; print(t)"])
def test_what_a_clock_changes_is_different_however_little(tmp_path: Path, code: str) -> None:
    clock = "import time\nreal = time.time\ntime.time = lambda: {} + 0.25\n"
    first, second = (
        clock.format(at) + code.format("time.time()") + "\ntime.time = real; del real"
        for at in (1700000000, 1700000001)
    )
    found = reproduced(tmp_path, first, others=[second])
    assert {one.verdict.outcome for one in found.variables if one.name != "time"} == {"different"}
    shown = cell(found, 1).output
    assert shown is None or shown.outcome == "different"


def test_a_cell_after_a_failed_one_follows_from_it(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "y = x + 1", others=["x = nowhere", "y = x + 1"])
    failure = cell(found, 2).failure
    assert failure is not None
    assert failure.text == "reads x, which cell 1 did not set this time"


def test_a_missing_package_and_a_missing_file_are_named(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "y = 1", others=["import no_such_package", "open('none.csv')"])
    first, second = (cell(found, position).failure for position in (1, 2))
    assert first is not None
    assert second is not None
    assert first.text == "imports no_such_package, which is not installed"
    assert second.kind == "missing file"


def test_a_difference_without_evidence_says_that_there_is_none(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", others=["x = 2"])
    assert variable(found, "x")[1] == "the code does not show why"
