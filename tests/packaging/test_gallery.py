"""Every study of the gallery runs in a kernel, and its bundle is whole and comes out the same when it is run again."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from agent_kernel.__main__ import main

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
PAGE = ROOT / "docs" / "tutorial" / "gallery.md"
STUDIES = sorted({path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {"tour"})
# Branches whose cells are not on the line that leads to the newest state: they are run again as well.
BRANCHES = {"model-selection": ("trees",), "simulation": ("halved",)}
# What the studies hold that nothing saves: a race and a run work on the open store. Their steps and results are compared.
UNSAVED = {"approvals": {"run"}, "race": {"tries"}}
DEMO = {"agent_kernel", "numpy", "pandas", "sklearn"}


@cache
def gallery() -> ModuleType:
    """What runs the studies for a reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(NOTEBOOKS))
        return import_module("run_gallery")


def read(study: str) -> Any:
    return nbformat.read(NOTEBOOKS / f"{study}.ipynb", as_version=4)


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, with the user's own data and settings out of reach."""
    for name in ("XDG_DATA_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("JPY_SESSION_NAME", "AGENT_KERNEL_AUTHOR", "AGENT_KERNEL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "study"
    folder.mkdir()
    return folder


def reproduce(bundle: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The report of a second run, whose status says that nothing differs and nothing failed."""
    capsys.readouterr()
    status = main(["reproduce", str(bundle), "--json", *options])
    out = capsys.readouterr().out
    assert status == 0, out
    report: dict[str, Any] = json.loads(out)
    return report


def compared(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each variable and output with its outcome, those at the end and those of each cell."""
    for one in report["variables"]:
        yield one["name"], one["outcome"]
    for cell in report["cells"]:
        for one in cell["variables"]:
            yield one["name"], one["outcome"]
        if cell["outputs"]:
            yield f"the output of cell {cell['cell']}", cell["outputs"]["outcome"]


@pytest.mark.sampled
@pytest.mark.parametrize("study", STUDIES)
def test_a_study_runs_and_its_bundle_comes_out_the_same(
    study: str, apart: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook: Path = gallery().execute(study, apart)
    *first, again = gallery().commands(notebook)
    for words in first:
        assert main(words) == 0, capsys.readouterr().out
    bundle = Path(again[1])
    found: set[tuple[str, str]] = set()
    for options in ((), *(("--ref", branch) for branch in BRANCHES.get(study, ()))):
        found.update(compared(reproduce(bundle, capsys, *options)))
    assert {name for name, outcome in found if outcome == "not comparable"} == UNSAVED.get(study, set())
    assert {outcome for _, outcome in found} <= {"same", "equal within tolerance", "not comparable"}
    assert [name for name, _ in found if name.startswith("the output")]


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_kept_without_outputs_and_needs_only_the_demo_packages(study: str) -> None:
    cells = read(study).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count is not None]
    plain = "\n".join(line for cell in code for line in cell.source.splitlines() if not line.startswith("%"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(plain))
        for name in (
            [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - {"importlib", "pathlib"} <= DEMO


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_has_each_study_with_its_commands(study: str) -> None:
    sections = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    section = sections[sections.index(study.replace("-", " ").capitalize()) + 1]
    assert f"python notebooks/run_gallery.py {study}\n" in section
    assert f"agent-kernel reproduce build/gallery/{study}/{study}.agentnb\n" in section
    assert f"<!-- the cells of {study} -->" in section


def test_what_no_study_is_called_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert gallery().main(["nothing"]) == 2
    assert "no study is called nothing" in capsys.readouterr().err
