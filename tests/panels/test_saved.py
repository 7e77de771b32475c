"""What stays in a notebook that was run as a whole and saved: no widget, no line under a cell, no code of the history."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from agent_kernel.browsing.mime import HISTORY
from tests.kernels import ROOT

pytestmark = pytest.mark.filterwarnings(
    # zmq and jupyter_client leave sockets and loops to the garbage collector.
    "ignore::ResourceWarning",
    "ignore:There is no current event loop:DeprecationWarning",
)

SOURCES = ["%load_ext agent_kernel", "x = 1  # only_in_the_code", "y = 2", "%agent history"]


def test_the_history_is_a_table_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "study.ipynb"))
    manager = AsyncKernelManager()
    manager.client_class = f"{AsyncKernelClient.__module__}.{AsyncKernelClient.__qualname__}"
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Python 3", language="python")
    notebook = new_notebook(cells=[new_code_cell(source) for source in SOURCES])
    client = NotebookClient(notebook, km=manager, timeout=60)
    ran = client.execute(cwd=str(tmp_path), cleanup_kc=True)
    assert [len(cell.outputs) for cell in ran.cells] == [1, 0, 0, 1]
    shown = ran.cells[3].outputs[0].data
    assert set(shown) == {HISTORY, "text/html", "text/plain"}
    assert [row["prompt"] for row in shown[HISTORY]["rows"] if row["kind"] == "commit"] == ["[3]", "[2]"]
    assert "widgets" not in ran.metadata
    saved = nbformat.writes(ran)
    assert saved.count("only_in_the_code") == 1, "in the cell itself, and nowhere else"
    assert "<table" in json.dumps(shown)
