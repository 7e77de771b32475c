"""`agent-kernel install`: a kernelspec with this interpreter."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent_kernel.cli import main


def test_the_kernelspec_names_this_interpreter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--prefix", str(tmp_path)]) == 0
    found = tmp_path / "share" / "jupyter" / "kernels" / "agent-kernel" / "kernel.json"
    assert str(found.parent) in capsys.readouterr().out
    spec = json.loads(found.read_text())
    assert spec["argv"][0] == sys.executable
    assert "--ext=agent_kernel" in spec["argv"]
    assert spec["display_name"] == "Python 3 (Agent)"


def test_it_agrees_with_the_one_in_the_wheel_but_for_the_interpreter(tmp_path: Path) -> None:
    main(["install", "--prefix", str(tmp_path)])
    installed = json.loads((tmp_path / "share/jupyter/kernels/agent-kernel/kernel.json").read_text())
    shipped = Path(__file__).parents[2] / "jupyter-config" / "kernels" / "agent-kernel" / "kernel.json"
    expected = json.loads(shipped.read_text())
    assert {**installed, "argv": ["python", *installed["argv"][1:]]} == expected


def test_for_one_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert main(["install", "--user"]) == 0
    assert (tmp_path / "kernels" / "agent-kernel" / "kernel.json").is_file()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "share").write_text("a file")
    assert main(["install", "--prefix", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert main(["install", "--user", "--prefix", str(tmp_path)]) == 2
