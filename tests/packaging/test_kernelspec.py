"""Choosing "Python 3 (Agent)" binds a notebook from its first cell, and a restarted kernel finds its history again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat.v4 as v4
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings(
    # zmq and jupyter_client leave sockets and loops to the garbage collector.
    "ignore::ResourceWarning",
    "ignore:There is no current event loop:DeprecationWarning",
)


class Kernel:
    """One notebook in one kernel of ours, started from the kernelspec in this repository."""

    def __init__(self, notebook: Path) -> None:
        specs = KernelSpecManager(kernel_dirs=[str(ROOT / "jupyter-config" / "kernels")])
        manager = AsyncKernelManager(kernel_name="agent-kernel", kernel_spec_manager=specs)
        manager.client_class = f"{AsyncKernelClient.__module__}.{AsyncKernelClient.__qualname__}"
        self._path = notebook
        self._client = NotebookClient(v4.new_notebook(), km=manager, timeout=60)

    def run(self, *sources: str) -> list[str]:
        """Run the cells in a fresh kernel and return what each printed."""
        book = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
        self._client.nb = book
        env = {**os.environ, "JPY_SESSION_NAME": str(self._path), "IPYTHONDIR": str(self._path.parent / "ipython")}
        self._client.execute(env=env, cwd=str(self._path.parent), cleanup_kc=True)
        cells: list[Any] = book.cells
        return ["".join(str(output.get("text", "")) for output in cell.outputs) for cell in cells]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "study.ipynb"


def test_the_first_cell_is_already_a_commit(notebook: Path) -> None:
    *_, log = Kernel(notebook).run("x = 41", "x += 1", "%agent log --json")
    commits = json.loads(log[log.index("[") :])
    assert [commit["cell"]["source"] for commit in commits][:2] == ["x += 1", "x = 41"]
    assert (notebook.parent / ".agent-kernel" / "study").is_dir()


def test_a_restarted_kernel_offers_its_variables_and_brings_them_back(notebook: Path) -> None:
    Kernel(notebook).run("x = [1, 2]", "y = x")
    *_, shown = Kernel(notebook).run("assert 'x' not in globals()", "%agent checkout", "x.append(3)", "print(y)")
    assert shown.startswith("[1, 2, 3]")
