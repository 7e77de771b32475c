"""Of 150 ordinary steps of work on data at most 3 ask."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import start_run
from agent_kernel.agents.execution import ExecutionContext, PlainExecutor
from agent_kernel.magics.display_gate import active_parts
from tests.agents.harmless_steps import FILES, HARMLESS, MORE, NEWER


class Showing(PlainExecutor):
    """Keeps the value that the last expression of a step shows."""

    shown: object = None

    def _run_codes(self, codes: Sequence[CodeType]) -> object:
        self.shown = super()._run_codes(codes)
        return None


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutionContext:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("matplotlib").use("Agg")
    namespace: dict[str, object] = {}
    return ExecutionContext(namespace, executor=Showing(namespace))


def asks(place: ExecutionContext, step: str) -> str:
    """What a step is asked about; "": nothing."""
    from IPython.core.formatters import DisplayFormatter

    agent = ak.Agent("ada", model=ak.ScriptedModel([step, "task.success(1)"]), approve="risky")
    run = start_run(agent, "work", place)
    with contextlib.redirect_stderr(io.StringIO()):
        for _ in run:
            pass
    if run.status != "completed":
        asked: Any = run.events[-1]
        return str([one.what for one in asked.findings if one.risky])
    failed = [str(event) for event in run.events if event.kind == "Error"]
    assert not failed, f"{step}: {failed}"
    executor: Any = place.executor
    formatter: Any = DisplayFormatter()
    formatter.active_types = formatter.format_types
    data, _ = formatter.format(executor.shown) if executor.shown is not None else ({}, {})
    return str(active_parts(data) or "")


def asked(place: ExecutionContext, steps: Sequence[str]) -> dict[str, str]:
    found = {step: why for step in steps if (why := asks(place, step))}
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    return found


@pytest.mark.filterwarnings("ignore")
def test_reading_and_changing_tables_is_not_asked_about(place: ExecutionContext) -> None:
    assert asked(place, HARMLESS[:50]) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_of_150_ordinary_steps_at_most_3_ask(place: ExecutionContext) -> None:
    assert len(HARMLESS) >= 150
    found = asked(place, HARMLESS)
    assert len(found) <= 3, "\n".join(f"{step}\n    {why}" for step, why in found.items())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_of_200_steps_of_other_kinds_at_most_2_percent_ask(place: ExecutionContext) -> None:
    assert len(MORE) >= 200
    found = asked(place, MORE)
    assert len(found) <= 0.02 * len(MORE), "\n".join(f"{step}\n    {why}" for step, why in found.items())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_of_150_steps_with_files_of_their_own_and_models_at_most_2_percent_ask(place: ExecutionContext) -> None:
    assert len(NEWER) >= 150
    found = asked(place, NEWER)
    assert len(found) <= 0.02 * len(NEWER), "\n".join(f"{step}\n    {why}" for step, why in found.items())


TEMPORARY = (
    "with tempfile.TemporaryDirectory() as folder:\n    for one in [Path(folder) / 'a']:\n        one.write_text('x')\n        one.unlink()",
    "handle, name = tempfile.mkstemp()\nos.close(handle)\nsales.to_csv(name)\nos.remove(name)",
    "with tempfile.NamedTemporaryFile() as file:\n    base = sqlite3.connect(file.name)\n    sales.to_sql('sales', base)\n    base.close()",
    "with tempfile.NamedTemporaryFile() as file:\n    pickle.dump(sales, file)\n    file.flush()\n    pd.read_pickle(file.name)",
)


@pytest.mark.parametrize("step", TEMPORARY)
def test_what_a_step_does_in_a_temporary_place_of_its_own_is_not_asked_about(
    place: ExecutionContext, step: str
) -> None:
    setup = "import os, pickle, sqlite3, tempfile\nfrom pathlib import Path\nimport pandas as pd\nsales = pd.DataFrame({'a': [1]})"
    assert asked(place, [setup, step]) == {}


def test_a_database_that_is_only_read_is_not_asked_about(place: ExecutionContext) -> None:
    with closing(sqlite3.connect("shop.db")) as base:
        base.executescript("create table t (a); insert into t values (5)")
    reading = "import sqlite3, pandas as pd\nbase = sqlite3.connect('file:shop.db?mode=ro', uri=True)\npd.read_sql('select * from t', base)\nbase.close()"
    assert asked(place, [reading]) == {}
    for act in ("sqlite3.connect('file:new.db?mode=ro').execute('create table t (a)')", "sqlite3.connect('shop.db')"):
        assert asks(place, f"import sqlite3\nconnect = sqlite3.connect\n{act.replace('sqlite3.', '')}") != ""
    assert not list(Path().glob("*new.db*"))


@pytest.mark.parametrize(
    "act", ["sales.to_csv('out')", "Path('sales.csv').unlink()", "os.remove('sales.csv')", "sqlite3.connect('out')"]
)
def test_a_temporary_place_is_no_excuse_for_another(place: ExecutionContext, act: str) -> None:
    setup = (
        "import os, sqlite3, tempfile\nfrom pathlib import Path\nimport pandas as pd\nsales = pd.DataFrame({'a': [1]})"
    )
    assert asked(place, [setup]) == {}
    assert asks(place, f"tempfile.mkdtemp()\n{act}") != ""
    assert not Path("out").exists()
    assert Path("sales.csv").exists()
