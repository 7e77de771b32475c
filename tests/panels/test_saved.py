"""What stays in a notebook that was run as a whole and saved: no widget, no line under a cell, no code of the history."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from agent_kernel.queries import HISTORY
from agent_kernel.session import Repository
from tests.kernels import ROOT

pytestmark = pytest.mark.filterwarnings(
    # zmq and jupyter_client leave sockets and loops to the garbage collector.
    "ignore::ResourceWarning",
    "ignore:There is no current event loop:DeprecationWarning",
)

SOURCES = ["%load_ext agent_kernel", "x = 1  # only_in_the_code", "y = 2", "%agent history"]


def execute(folder: Path, *sources: str) -> NotebookNode:
    """What a program makes of a notebook with these cells."""
    manager = AsyncKernelManager()
    manager.client_class = f"{AsyncKernelClient.__module__}.{AsyncKernelClient.__qualname__}"
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Python 3", language="python")
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    return NotebookClient(notebook, km=manager, timeout=60).execute(cwd=str(folder), cleanup_kc=True)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def test_two_notebooks_whose_names_the_program_does_not_tell_have_two_histories(tmp_path: Path) -> None:
    said = [
        execute(tmp_path, "%load_ext agent_kernel", f"{name} = 1", "%agent log").cells[0].outputs[0].text
        for name in ("first", "second")
    ]
    assert "brings back" not in said[1]
    stores = sorted(tmp_path.glob("data/agent-kernel/*/*/data.mdb"))
    assert [store.parts[-3] for store in stores] == ["kernels", "kernels"]
    for text in said:
        assert any(f"kernels/{store.parent.name}" in text for store in stores)
        assert "did not name it" in text
    names = []
    for store in stores:
        with closing(Repository.open(store.parent, create=False)) as repo:
            names += [sorted(repo.tree_at(repo.resolve("main")))]
    assert sorted(names) == [["first"], ["second"]]


def test_where_such_a_notebook_binds_a_store_no_terminal_is_sent_there(tmp_path: Path) -> None:
    ran = execute(tmp_path, "%load_ext agent_kernel", "%agent bind shop.lmdb", "x = 1")
    assert "this kernel, once restarted, finds it here" in str(ran.cells[1].outputs)
    assert not (tmp_path / "data" / "agent-kernel" / "terminals").exists()


def test_the_history_is_a_table_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "study.ipynb"))
    ran = execute(tmp_path, *SOURCES)
    assert [len(cell.outputs) for cell in ran.cells] == [1, 0, 0, 1]
    shown = ran.cells[3].outputs[0].data
    assert set(shown) == {HISTORY, "text/html", "text/plain"}
    assert [row["prompt"] for row in shown[HISTORY]["rows"] if row["kind"] == "commit"] == ["[3]", "[2]"]
    assert "widgets" not in ran.metadata
    saved = nbformat.writes(ran)
    assert saved.count("only_in_the_code") == 1, "in the cell itself, and nowhere else"
    assert "<table" in json.dumps(shown)
