"""Imports go downwards only, as `[tool.importlinter]` in pyproject.toml says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_layers_hold(tmp_path: Path) -> None:
    command = ["-c", "from importlinter.cli import lint_imports_command as run; run()", "--cache-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
