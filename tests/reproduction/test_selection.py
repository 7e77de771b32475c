"""Which cells run again after an edit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.reproduction.causes import Selection, read_changed
from agent_kernel.reproduction.line import read_document, read_line
from agent_kernel.session import Repository
from tests.reproduction.histories import make_history, write_notebook


def select(tmp_path: Path, old: Sequence[str], new: Sequence[str], ids: Sequence[int] = ()) -> Selection:
    make_history(tmp_path / "s", *old)
    cells = [{"source": code, "id": f"id-{id}"} for id, code in zip(ids or range(1, len(new) + 1), new, strict=True)]
    document = read_document(write_notebook(tmp_path / "n.ipynb", *cells))
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        return read_changed(read_line(repo, None), document, repo)


def sources(selection: Selection) -> list[str]:
    return [cell.source for cell in selection.line.cells]


def test_edited_cells_run_with_what_depends_on_them(tmp_path: Path) -> None:
    old = ["a = 1", "b = a + 1", "c = a * 10", "d = b + c", "e = 5"]
    found = select(tmp_path, old, ["a = 1", "b = a + 2", *old[2:]])
    assert sources(found) == ["b = a + 2", "d = b + c"]
    assert found.line.moved == {"b", "d"}
    assert [cell.is_edited for cell in found.line.cells] == [True, False]
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        assert found.line.start == read_line(repo, None).cells[0].commit
    assert [(one.position, one.names) for one in found.line.all_brought] == [(4, ("c",)), (0, ("e",))]


def test_a_document_as_it_ran_has_nothing_edited(tmp_path: Path) -> None:
    found = select(
        tmp_path, ["a = 1", "b = a + 1"], ["%load_ext agent_kernel", "a = 1", "b = a + 1\n", "%agent log"], [9, 1, 2, 8]
    )
    assert (sources(found), found.is_edited) == ([], False)


@pytest.mark.parametrize("ids", [(7, 8), (2, 1)])
def test_cells_are_known_by_their_code_where_their_ids_are_others(tmp_path: Path, ids: tuple[int, int]) -> None:
    if ids == (2, 1):  # ids of other cells of the history, with other code: then these were edited
        assert select(tmp_path, ["a = 1", "b = 2"], ["a = 1", "b = 2"], ids).is_edited
    else:
        assert not select(tmp_path, ["a = 1", "b = 2"], ["a = 1", "b = 2"], ids).is_edited


SEEDED = ["from random import seed, random", "seed(1)", "r = random()"]
FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "at", "edit", "wanted"),
    [
        (["a = [1]", "b = a", "z = 1", "c = sum(a)"], 3, "b.append(3)", "c = sum(a)"),
        (["a = [1]", "b = {'k': a}", "z = 1", "c = sum(a)"], 3, "b['k'].append(3)", "c = sum(a)"),
        (["a = [1]", "b = [2]", "b.append(3)", "c = sum(a)"], 2, "b = a", "c = sum(a)"),
        (["L = [1]", "def f(): return 0", "_ = f()", "s = sum(L)"], 2, "def f(): L.append(5)", "s = sum(L)"),
        (["L = [1]", "def g(): L.append(1)", "def f(): g()", "z = 1", "s = sum(L)"], 4, "f()", "s = sum(L)"),
        (["L = [3, 1]", "z = 1", "s = L[0]"], 2, "list.sort(L)", "s = L[0]"),
        (["L = [3, 1]", "z = 1", "s = L[0]"], 2, "for i in L: i; L[0] = 2", "s = L[0]"),
        (["class A: n = 1", "a = A()", "z = 1", "s = a.n"], 3, "setattr(A, 'n', 2)", "s = a.n"),
        (["class A: n = 1", "a = A()", "A.n = 5", "s = a.n"], 3, "A.n = 6", "s = a.n"),
        (["def mk():\n    n = []\n    return lambda: n.append(1) or len(n)", "i = mk()", "z = 1", "s = i()"], 3, "i()", "s = i()"),
        (SEEDED, 2, "seed(2)", "r = random()"),
        (SEEDED, 2, "x = 1", "r = random()"),
        (["import random as r, numpy as np", "np.random.seed(1)", "a = 1", "x = np.random.rand()"], 3, "np.random.rand()", "x = np.random.rand()"),
        (["import os", "os.environ['ZQ14'] = 'a'", "x = os.environ['ZQ14']"], 2, "os.environ['ZQ14'] = 'b'", "x = os.environ['ZQ14']"),
        (["x = 1", "y = globals()['x']"], 1, "x = 2", "y = globals()['x']"),
        (["x = 1", "y = eval('x + 1')"], 1, "x = 2", "y = eval('x + 1')"),
        (["x = 1", "y = f'{x}'"], 1, "x = 2", "y = f'{x}'"),
        ([FRAME, "t = 1", "r = len(df.query('a > @t'))"], 2, "t = 2", "r = len(df.query('a > @t'))"),
        (["x = 1", "!echo {x}"], 1, "x = 2", "!echo {x}"),
        (["x = 1", "exec('x = 3')", "y = x"], 2, "exec('x = 4')", "y = x"),
        (["x = 1", "%time y = x"], 1, "x = 2", "%time y = x"),
        (["x = 1", "x = 7", "y = x"], 1, "x = 2", "y = x"),
    ],
)  # fmt: skip
def test_what_may_come_out_otherwise_runs_again(
    tmp_path: Path, old: list[str], at: int, edit: str, wanted: str
) -> None:
    found = select(tmp_path, old, [*old[: at - 1], edit, *old[at:]])
    assert edit in sources(found)
    assert wanted in sources(found)


def test_what_is_apart_from_the_edit_does_not_run(tmp_path: Path) -> None:
    old = [
        "import math\nimport numpy as np", "k = 2", "def twice(x): return 2 * x", "class P:\n    def __init__(self, x): self.x = x",
        "a = twice(k)", "b = twice(3)", "p = P(k)", "q = P(4)", "s = math.sqrt(9)", "m = np.ones(3)", "t = np.zeros(2).sum()",
    ]  # fmt: skip
    found = select(tmp_path, old, [old[0], "k = 3", *old[2:]])
    assert sources(found) == ["k = 3", "a = twice(k)", "p = P(k)"]


@pytest.mark.parametrize(
    ("old", "ids", "wanted"),
    [
        (["x = 1", "x = x + 1", "y = x * 10"], [1, 3], ["y = x * 10"]),
        (["x = 1", "x = 5", "y = x"], [2, 1, 3], ["x = 1", "y = x"]),
        (["L = []", "L.append(1)", "n = len(L)"], [1, 3], ["n = len(L)"]),
        (["import random", "random.seed(1)", "r = random.random()"], [1, 3], ["r = random.random()"]),
        (["x = 1", "y = 2"], [1], []),
    ],
)
def test_a_deleted_or_moved_cell_is_an_edit_at_its_place(
    tmp_path: Path, old: list[str], ids: list[int], wanted: list[str]
) -> None:
    found = select(tmp_path, old, [old[id - 1] for id in ids], ids)
    assert found.is_edited
    assert [code for code in sources(found) if code in wanted] == wanted
    assert sources(found) or not wanted


@pytest.mark.parametrize(
    "code",
    [
        "with open('d.txt') as f:\n    v = f.read()",
        "import pathlib; v = pathlib.Path('d.txt').read_text()",
        "def load(p):\n    with open(p) as f: return f.read()\nv = load('d.txt')",
        "v = [open(p, closefd=True).close() for p in ['d.txt']]",
        "class D:\n    def load(self, p):\n        with open(p) as f: return f.read()\nv = D().load('d.txt')",
        "import time; v = time.time()",
        "from datetime import datetime as d; v = d.now()",
        "import hmod14; v = hmod14.V",
    ],
)
def test_a_cell_that_reads_a_file_or_a_clock_always_runs(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "d.txt").write_text("1")
    (tmp_path / "hmod14.py").write_text("V = 1")
    found = select(tmp_path, ["z = 1", code, "w = v", "u = z"], ["z = 1", code, "w = v", "u = z"])
    assert (sources(found), found.is_edited) == ([code, "w = v"], False)


def test_a_file_that_is_read_again_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [
        "import pathlib\np = pathlib.Path('f.txt')",
        "_ = pathlib.Path('f.txt').write_text('1')",
        "v = pathlib.Path('f.txt').read_text()",
    ]
    assert cells[1] in sources(select(tmp_path, cells, cells))
