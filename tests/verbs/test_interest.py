"""Tables, models, single values and figures are named first, wherever a line has no room for all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.session import Repository, bind
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.table import answer
from tests.verbs.stores import make_history

pytest.importorskip("pandas")
pytest.importorskip("sklearn")

ALL_KINDS = """import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge
words = ["a long list"] * 1000
figure = Figure()
rate = 0.25
model = Ridge(alpha=3.0)
df = pd.DataFrame({"a": [1, 2]})"""


def test_the_log_names_tables_models_scalars_and_figures_first(tmp_path: Path) -> None:
    make_history(tmp_path / "s", ALL_KINDS, "del df, words\nrate = 'a text'\nmodel.alpha = 1.0")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        newest, first, *_ = answer(["log"], Scope(repo))[0].to_text().splitlines()
    assert "+df" in first
    assert [first.index(f"+{name}") for name in ("df", "model", "rate", "figure")] == sorted(
        first.index(f"+{name}") for name in ("df", "model", "rate", "figure")
    )
    assert newest.index("~model") < newest.index("~rate") < min(newest.index("−df"), newest.index("−words"))


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
    monkeypatch.setattr(Repository, "read_summary", lambda repo, entry: b"\xc1")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        first, *_ = answer(["log"], Scope(repo))[0].to_text().splitlines()
    assert "+words" in first
