"""Tables, models, single values and figures are named first, wherever a line has no room for all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from agent_kernel.commands.scope import Scope, answer
from agent_kernel.commands.show import Differences
from agent_kernel.session import Repository, bind
from tests.commands.stores import ALL_KINDS, make_history

pytest.importorskip("pandas")
pytest.importorskip("sklearn")


def test_the_log_names_tables_models_scalars_and_figures_first(tmp_path: Path) -> None:
    make_history(tmp_path / "s", ALL_KINDS, "del df, words\nrate = 'a text'\nmodel.alpha = 1.0")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        newest, first, *_ = answer(["log"], Scope(repo))[0].to_text().splitlines()
    assert "+df" in first
    assert [first.index(f"+{name}") for name in ("df", "model", "rate", "figure")] == sorted(
        first.index(f"+{name}") for name in ("df", "model", "rate", "figure")
    )
    assert newest.index("~model") < newest.index("~rate") < min(newest.index("−df"), newest.index("−words"))


def test_arrays_come_before_figures_and_code_comes_last(tmp_path: Path) -> None:
    source = (
        "import numpy as np\nfrom matplotlib.figure import Figure\nfigure = Figure()\nax = figure.add_subplot()\n"
        "mask = np.arange(30) > 12\nthird_name_that_is_long = [1, 2]\nbig = 'x = 1\\n' * 400\n"
        "exec('def work(x):\\n    ' + '; '.join(['x += 1'] * 400))"
    )
    make_history(tmp_path / "s", "pass", source)
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        differing = cast("Differences", answer(["diff", "HEAD~1"], Scope(repo))[0])
        newest, *_ = answer(["log"], Scope(repo))[0].to_text().splitlines()
    named = [row.name for row in differing.rows]
    assert [name for name in named if name not in ("ax", "figure")] == [
        "big", "mask", "third_name_that_is_long", "work", "np", "Figure",
    ]  # fmt: skip
    assert named.index("mask") < min(named.index("ax"), named.index("figure")) < named.index("third_name_that_is_long")
    assert "np" not in newest


def test_diff_and_what_a_move_reports_have_the_same_order(tmp_path: Path) -> None:
    namespace: dict[str, object] = {}
    kinds = ["df", "model", "rate", "figure", "words"]
    with closing(Repository.open(tmp_path / "s")) as repo, closing(bind(namespace, repo)) as session:
        for number, source in enumerate(("old = [1] * 9000\nolder = 1", f"del old, older\n{ALL_KINDS}", "pass"), 1):
            session.begin_cell(source, number=number)
            exec(source, namespace)
            session.end_cell()
        scope = Scope(repo, session)
        differing = cast("Differences", answer(["diff", "HEAD~2"], scope)[0])
        undone = answer(["undo"], scope)[0].to_text()
        done = answer(["redo"], scope)[0].to_text()
    named = [row.name for row in differing.rows]
    assert [name for name in named if name in kinds] == kinds
    assert sorted(named[-2:]) == ["old", "older"]  # what was removed comes last
    assert [name for name in kinds if f"+{name}" in done] == sorted(
        (name for name in kinds if f"+{name}" in done), key=done.index
    )
    assert done.index("+df") < done.index("+model") < done.index("+rate") < done.index("+figure")
    assert undone.index("+old") < undone.index("−df")


def test_status_names_what_is_not_committed_in_the_same_order(tmp_path: Path) -> None:
    namespace: dict[str, object] = {}
    with closing(Repository.open(tmp_path / "s")) as repo, closing(bind(namespace, repo)) as session:
        session.begin_cell("pass", number=1)
        session.end_cell()
        exec(ALL_KINDS, namespace)
        said = answer(["status"], Scope(repo, session))[0].to_text()
    line = next(line for line in said.splitlines() if line.startswith("Not committed yet"))
    assert line.startswith("Not committed yet: +df +model +rate +figure")


def test_a_damaged_summary_only_costs_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_history(tmp_path / "s", ALL_KINDS)
    monkeypatch.setattr(Repository, "read_preview", lambda repo, entry: b"\xc1")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        first, *_ = answer(["log"], Scope(repo))[0].to_text().splitlines()
    assert "+words" in first
