"""Every Python example in the README and the docs runs as it stands, cell by cell, in a fresh IPython.

A `text` block under an example is what the cell prints, but for ids and times. A page that needs a package which only
`make test-integrations` installs says so in a comment, and is left out where it is missing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"^<!-- needs ([\w-]+) -->$", re.MULTILINE)
CHANGES = re.compile(r"\b[0-9a-f]{8}\b|\b\d+\.\d\d s\b")  # ids, and how long a cell took
PAGES = sorted(page for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if BLOCK.search(page.read_text()))
END = "\N{END OF TEXT}\n"
RUNNER = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    result = shell.run_cell(cell, store_history=True)
    if not result.success:
        sys.exit(f"this cell failed:\\n{cell}")
    print(end="\\N{END OF TEXT}\\n")
shell.run_cell("%unload_ext agent_kernel")
"""


def elsewhere(home: Path) -> dict[str, str]:
    """The environment, with every folder that the examples may write to under `home`."""
    folders = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {**os.environ, **{name: str(home / name.lower()) for name in folders}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run_and_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    for package in NEEDS.findall(page.read_text()):
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed (make test-integrations)")
    examples = BLOCK.findall(page.read_text())
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([cell for cell, _ in examples]),
        cwd=tmp_path,
        env=elsewhere(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    *printed, rest = done.stdout.split(END)
    assert len(printed) == len(examples), rest
    for (cell, said), out in zip(examples, printed, strict=True):
        assert not said or CHANGES.sub("…", out.strip()) == CHANGES.sub("…", said.strip()), cell
