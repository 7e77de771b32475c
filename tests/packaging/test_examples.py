"""Every Python example in the README and the docs runs as it stands, cell by cell, in a fresh IPython.

A `text` block under an example is what the cell prints, but for ids and times. A page that needs a package which only
`make test-integrations` installs says so in a comment, and is left out where it is missing.
"""

from __future__ import annotations

import json
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
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell

import agent_kernel.agents, agent_kernel.magics.extension, agent_kernel.session.loading, agent_kernel.storage.lmdb

def run(cells):
    shell = InteractiveShell.instance()
    for cell in cells:
        result = shell.run_cell(cell, store_history=True)
        if not result.success:
            sys.exit(f"this cell failed:\\n{cell}")
        print(end="\\N{END OF TEXT}\\n")
    shell.run_cell("%unload_ext agent_kernel")

for folder, environment, cells in json.load(sys.stdin):
    if not (fork := os.fork()):
        os.chdir(folder)
        os.environ.update(environment)
        for number, name in enumerate(("out", "err"), start=1):
            os.dup2(os.open(f"said.{name}", os.O_WRONLY | os.O_CREAT), number)
        run(cells)
        break
    with open(f"{folder}/status", "w") as status:
        status.write(str(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])))
"""
Ran = tuple[str, str, str]


def elsewhere(home: Path) -> dict[str, str]:
    """Every folder that the examples may write to, under `home`."""
    folders = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {name: str(home / name.lower()) for name in folders}


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Ran]:
    """How each page that is asked about ended, and what it printed. Each runs in a fork of one process, which has IPython already."""
    mine = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    ]
    asked = [page for page in PAGES if any(item.callspec.params["page"] == page for item in mine)]
    folders = {page: tmp_path_factory.mktemp("page") for page in asked if not missing_of(page)}
    sheets = [
        (str(folder), elsewhere(folder), [cell for cell, _ in BLOCK.findall(page.read_text())])
        for page, folder in folders.items()
    ]
    subprocess.run([sys.executable, "-c", RUNNER], input=json.dumps(sheets), text=True, check=True)
    return {
        page: ((folder / "status").read_text(), (folder / "said.out").read_text(), (folder / "said.err").read_text())
        for page, folder in folders.items()
    }


def missing_of(page: Path) -> list[str]:
    """The packages that a page needs and that are not installed."""
    missing: list[str] = []
    for package in NEEDS.findall(page.read_text()):
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    return missing


@pytest.mark.timeout(300)  # the first one waits for all
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run_and_print_what_the_page_says(page: Path, request: pytest.FixtureRequest) -> None:
    for package in missing_of(page):
        pytest.skip(f"{package} is not installed (make test-integrations)")
    ran: dict[Path, Ran] = request.getfixturevalue("ran")
    status, out, err = ran[page]
    examples = BLOCK.findall(page.read_text())
    assert status == "0", out[-4000:] + err[-4000:]
    *printed, rest = out.split(END)
    assert len(printed) == len(examples), rest
    for (cell, said), shown in zip(examples, printed, strict=True):
        assert not said or CHANGES.sub("…", shown.strip()) == CHANGES.sub("…", said.strip()), cell
