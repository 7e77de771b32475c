"""Importing and loading the package stays cheap: facts about `sys.modules`, because times wobble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
ENGINE = {"IPython", "agent_kernel", "blake3", "lmdb", "msgspec", "platformdirs", "xxhash", "zstandard"}
UPKEEP = {
    "agent_kernel.repository.upkeep",
    "agent_kernel.repository.rewrite",
    "agent_kernel.repository.merge",
    "agent_kernel.session.loading",
    "agent_kernel.session.merge",
    "agent_kernel.session.versioned",
    "agent_kernel.values.loader",
}
# What only the first commit needs.
COMMITTING = {
    "agent_kernel.magics.outputs",
    "agent_kernel.session.provenance",
    "agent_kernel.session.staging",
    "agent_kernel.values.classes",
    "agent_kernel.values.aliases",
    "agent_kernel.values.groups",
    "agent_kernel.values.pickler",
    "agent_kernel.values.previews.model",
    "agent_kernel.values.previews.redaction",
}
# What only cells of agents and `%agent` lines need.
AGENTS = {
    "agent_kernel.errors.agents",
    "agent_kernel.magics.agent_cell",
    "agent_kernel.commands.scope",
}
# What only some kinds of values need, and only some commits.
BY_KIND = {
    "agent_kernel.repository.upkeep",
    "agent_kernel.values.classes",
    "agent_kernel.values.libraries",
    "agent_kernel.values.reducers.code",
    "agent_kernel.values.reducers.objects",
    "agent_kernel.values.restore.arrays",
    "agent_kernel.values.previews.arrays",
    "agent_kernel.values.previews.objects",
    "fractions",
}
# Each module costs a quarter of a millisecond, and one or two more where Python keeps no bytecode.
MOST_TO_LOAD, MOST_TO_COMMIT = 95, 30
MODELS = {"genai_prices", "httpx2", "mcp", "openai", "opentelemetry", "pydantic", "pydantic_ai"}
STANDARD = {"asyncio", "difflib", "fractions", "http", "importlib.metadata", "multiprocessing", "ssl", "urllib.request"}

A_KERNEL = """
import sys
import ipykernel.kernelapp
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("0", store_history=True)
before = set(sys.modules)
shell.run_line_magic("load_ext", "agent_kernel")
"""


def modules_after(code: str, folder: Path | None = None) -> set[str]:
    """What is loaded then; of what the code finds loaded as `before`, nothing."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(set(sys.modules) - globals().get('before', set()))))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def after_loading(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What `%load_ext agent_kernel` adds to a running kernel."""
    return modules_after(A_KERNEL, tmp_path_factory.mktemp("notebook"))


def test_a_bare_import_loads_nothing_heavy() -> None:
    assert not modules_after("import agent_kernel") & set(HEAVY)


def test_a_bare_import_loads_none_of_the_layers() -> None:
    ours = {name for name in modules_after("import agent_kernel") if name.startswith("agent_kernel")}
    assert ours == {"agent_kernel"}


def test_programs_without_a_notebook_never_load_ipython_or_a_data_library() -> None:
    loaded = modules_after("import agent_kernel as ak; ak.Versioned(ak.open('memory:'))['x'] = 1")
    used = {"cloudpickle", "lmdb"}  # the engine, and the pickler of what is not importable
    assert not loaded & (set(HEAVY) - used)


def test_loading_the_extension_adds_the_engine_and_the_standard_library_alone(after_loading: set[str]) -> None:
    packages = {name.partition(".")[0] for name in after_loading}
    assert packages - sys.stdlib_module_names <= ENGINE  # IPython: the magic itself loads when it is first used


def test_loading_the_extension_adds_nothing_costly_of_the_standard_library(after_loading: set[str]) -> None:
    assert not after_loading & STANDARD


def test_a_shell_without_a_kernel_loads_nothing_costly_either(tmp_path: Path) -> None:
    bare = A_KERNEL.replace("import ipykernel.kernelapp\n", "")
    loaded = modules_after(f'{bare}\nshell.run_cell("x = 1", store_history=True)', tmp_path)
    assert "agent_kernel.session.staging" in loaded
    assert not loaded & STANDARD


def test_loading_the_extension_leaves_commits_verbs_and_upkeep_for_later(after_loading: set[str]) -> None:
    assert "agent_kernel.session.session" in after_loading
    assert not after_loading & (UPKEEP | COMMITTING | AGENTS | BY_KIND)
    assert len([name for name in after_loading if name.startswith("agent_kernel")]) <= MOST_TO_LOAD


def test_loading_the_extension_makes_no_dataclass(tmp_path: Path) -> None:
    # Each takes a third of a millisecond, because it compiles its methods; a msgspec Struct takes a hundredth.
    loaded = modules_after(
        f"{A_KERNEL}\n"
        "held = [value for name in set(sys.modules) - before for value in vars(sys.modules[name]).values()]\n"
        "ours = [kind for kind in held if isinstance(kind, type) and kind.__module__.startswith('agent_kernel')]\n"
        "assert ours and not [kind for kind in ours if '__dataclass_fields__' in vars(kind)]",
        tmp_path,
    )
    assert loaded


def test_opening_a_panel_loads_nothing_that_answers_other_questions(tmp_path: Path) -> None:
    loaded = modules_after(
        "import agent_kernel as ak\nfrom agent_kernel.queries.reader import Reader\n"
        "from agent_kernel.session import Repository\nfrom agent_kernel.storage import MemoryStore\n"
        "reader = Reader(Repository.open(MemoryStore())); reader.ask('open', {}); reader.represent_history()",
        tmp_path,
    )
    others = ("changes", "memory", "plans", "tables", "text_diff", "variables")
    assert not loaded & {f"agent_kernel.queries.{name}" for name in others}


def test_a_first_plain_cell_loads_what_commits_need_and_no_more(after_loading: set[str], tmp_path: Path) -> None:
    loaded = modules_after(f'{A_KERNEL}\nshell.run_cell("x = 1", store_history=True)', tmp_path)
    assert "agent_kernel.session.staging" in loaded
    assert not loaded & ({*UPKEEP, *AGENTS, *BY_KIND, *HEAVY, "importlib.metadata", "ssl"} - {"lmdb"})
    assert len([name for name in loaded - after_loading if name.startswith("agent_kernel")]) <= MOST_TO_COMMIT


A_RUN = """
from agent_kernel.agents.agent import Agent
assert Agent("x", model="scripted:hello").start("Sum up some squares").result() == 285
"""


def test_a_run_of_a_scripted_model_loads_no_provider_and_no_validation() -> None:
    loaded = modules_after(A_RUN)
    assert "agent_kernel.agents.executor" in loaded
    assert not loaded & (MODELS | set(HEAVY) - {"cloudpickle", "lmdb"})


def test_a_first_run_in_a_notebook_adds_the_agents_and_what_models_are_asked_with(tmp_path: Path) -> None:
    plain = modules_after(f'{A_KERNEL}\nshell.run_cell("x = 1", store_history=True)', tmp_path)
    added = modules_after(f'{A_KERNEL}\nshell.run_cell("x = 1", store_history=True)\n{A_RUN}', tmp_path) - plain
    packages = {name.partition(".")[0] for name in added}
    assert packages - sys.stdlib_module_names == {"agent_kernel"}
    assert not added & (STANDARD | MODELS)
