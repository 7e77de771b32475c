"""A gigabyte of arrays is committed and changed with a few megabytes beside it (Linux tells what a process holds)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST = 64_000_000
NOTEBOOK = """
import sys
from agent_kernel.session import Repository
from tests.support.notebooks import Notebook

with Notebook(Repository.open(sys.argv[1])) as nb:
    nb.run("import numpy as np\\nrng = np.random.default_rng(0)\\nwarm = rng.random(2_000_000)")
    for cell in ("arrays = [rng.random(32_000_000) for _ in range(4)]", "arrays[1][5] = 0.0"):
        input()
        nb.execute(cell)
        print("made", flush=True)
        input()
        nb.session.commit(full=True)
        print("committed", flush=True)
"""


def held_bytes(pid: int) -> int:
    """What the process has for itself, without the pages of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_committing_a_gigabyte_takes_less_than_64_megabytes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    store = tmp_path / "store"
    command = [sys.executable, "-c", NOTEBOOK, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        for _ in ("all of it", "one element"):
            assert ask(child) == "made\n"
            before = held_bytes(child.pid)
            assert most_held_while_asking(child) - before < MOST
    assert sum(path.stat().st_size for path in store.iterdir()) > 900_000_000


def ask(child: subprocess.Popen[str]) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return child.stdout.readline() if os.get_blocking(child.stdout.fileno()) else ""


def most_held_while_asking(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    ask(child)
    most = 0
    while not (said := child.stdout.readline()):
        most = max(most, held_bytes(child.pid))
        time.sleep(0.0005)
    os.set_blocking(child.stdout.fileno(), True)
    assert said == "committed\n"
    return most
