"""Every Python example in the README and the docs runs as it stands, cell by cell, in a fresh IPython."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")] if BLOCK.search(page.read_text()))
RUNNER = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    result = shell.run_cell(cell, store_history=True)
    if not result.success:
        sys.exit(f"this cell failed:\\n{cell}")
    print("ran:", cell.splitlines()[0])
shell.run_cell("%unload_ext agent_kernel")
"""


def elsewhere(home: Path) -> dict[str, str]:
    """The environment, with every folder that the examples may write to under `home`."""
    folders = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {**os.environ, **{name: str(home / name.lower()) for name in folders}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run(page: Path, tmp_path: Path) -> None:
    cells = BLOCK.findall(page.read_text())
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(cells),
        cwd=tmp_path,
        env=elsewhere(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.count("ran: ") == len(cells)
