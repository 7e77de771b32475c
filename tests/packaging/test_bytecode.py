"""An editable install compiles the package, so that no start of a kernel has to, even where Python writes no bytecode."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What Python loads of the package in a process that writes no bytecode: `-v` tells where each module comes from.
A_START = [sys.executable, "-v", "-c", "import agent_kernel.errors as errors; print(errors.AgentError.__doc__)"]
NO_BYTECODE = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def copy_sources(folder: Path) -> Path:
    """The sources as a clone has them: they never ran."""
    folder.mkdir(exist_ok=True)
    for name in ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("agent_kernel", "jupyter-config", "widgets"):
        left = shutil.ignore_patterns("__pycache__", "node_modules", "tests", "static")
        shutil.copytree(ROOT / name, folder / name, ignore=left)
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An editable install; one folder, `mcp`, takes no bytecode."""
    folder = copy_sources(tmp_path_factory.mktemp("checkout"))
    # A file stands in the way: no mode of a folder would keep root from writing.
    (folder / "agent_kernel" / "mcp" / "__pycache__").write_text("")
    before = files(folder)
    install(folder)
    assert not [path for path in files(folder) - before if "__pycache__" not in path]
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# What hatchling asks of the hook; the whole build would want a package that only an isolated build installs.
BUILD = """
from hatchling.builders.wheel import WheelBuilder
builder = WheelBuilder(".")
for hook in builder.get_build_hooks("").values():
    hook.initialize("editable", builder.get_default_build_data())
    hook.finalize("editable", {}, "")
"""


def install(source: Path) -> None:
    # As distributions build: Python would then tie bytecode to a hash of its source, which each start would make.
    environment = {**NO_BYTECODE, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([sys.executable, "-c", BUILD], cwd=source, check=True, capture_output=True, env=environment)


def compiled_at_start(source: Path) -> set[str]:
    """The package's modules that this process compiles, because no bytecode fits."""
    done = subprocess.run(A_START, cwd=source, check=True, capture_output=True, text=True, env=NO_BYTECODE)
    told = [line for line in done.stderr.splitlines() if line.startswith("# code object from ") and str(source) in line]
    assert told
    return {Path(line.split()[-1].strip("'")).name for line in told if line.split()[-1].strip("'").endswith(".py")}


def test_each_module_has_bytecode_that_the_time_of_its_source_keeps_true(checkout: Path) -> None:
    for source in checkout.glob("agent_kernel/**/*.py"):
        kept = Path(cache_from_source(str(source)))
        if source.parent.name == "mcp":
            assert not kept.exists()
            continue
        assert kept.read_bytes()[:8] == MAGIC_NUMBER + bytes(4), "not by hash"
    assert Path(cache_from_source(str(checkout / "widgets" / "bundle.py"))).exists()


def test_a_start_compiles_nothing_until_a_source_changes(checkout: Path) -> None:
    assert compiled_at_start(checkout) == set()
    changed = checkout / "agent_kernel" / "errors" / "agents.py"
    changed.write_text(changed.read_text() + "\nCHANGED = True\n")
    assert compiled_at_start(checkout) == {"agents.py"}
    install(checkout)
    assert compiled_at_start(checkout) == set()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_pip_and_uv_compile_what_they_link(tmp_path: Path, installer: str) -> None:
    source, environment = copy_sources(tmp_path / "source"), tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = [str(environment / "bin" / "python"), "-m"]
    if installer == "uv":
        subprocess.run([*python, "pip", "install", "--quiet", "uv"], check=True)
        python += ["uv"]
    install = [*python, "pip", "install", "--quiet", "--no-deps", "--editable", str(source)]
    subprocess.run(install, check=True, env={**NO_BYTECODE, "VIRTUAL_ENV": str(environment)})
    assert compiled_at_start(source) == set()
