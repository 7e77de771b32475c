"""Importing the package stays cheap: facts about `sys.modules`, because times wobble."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "IPython",
    "anywidget",
    "cloudpickle",
    "ipykernel",
    "ipywidgets",
    "jupyter_server",
    "lmdb",
    "nbformat",
    "numpy",
    "pandas",
    "pydantic",
    "rich",
    "torch",
    "traitlets",
)


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_bare_import_loads_nothing_heavy() -> None:
    assert not modules_after("import agent_kernel") & set(HEAVY)


def test_a_bare_import_loads_none_of_the_layers() -> None:
    ours = {name for name in modules_after("import agent_kernel") if name.startswith("agent_kernel")}
    assert ours == {"agent_kernel"}


def test_programs_without_a_notebook_never_load_ipython_or_a_data_library() -> None:
    loaded = modules_after("import agent_kernel as ak; ak.Versioned(ak.open('memory:'))['x'] = 1")
    used = {"cloudpickle", "lmdb"}  # the engine, and the pickler of what is not importable
    assert not loaded & (set(HEAVY) - used)
