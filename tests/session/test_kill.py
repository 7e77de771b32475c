"""A process that is killed while its cells commit loses at most the cell that was being committed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import Repository, bind

CELLS = """
import sys
from tests.support.notebooks import Notebook
from agent_kernel.session import Repository

with Notebook(Repository.open(sys.argv[1])) as nb:
    if nb.session.head is None:
        nb.run("import numpy as np\\nsteps = []\\nsame = {'steps': steps}\\nblock = np.zeros(100_000)")
    else:
        nb.session.checkout()
    print("ready", flush=True)
    while True:
        nb.run("steps.append(len(steps))\\nblock[:] = len(steps)\\nif len(steps) % 7 == 0: other = [steps[-1]] * 50")
        print(len(nb.namespace["steps"]), flush=True)
"""


def run_and_kill(store: Path, after_s: float) -> int:
    """Let cells run, kill the process, and return the last step that it said was committed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", CELLS, str(store)], stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        said = child.stdout.read().split()
    return int(said[-1]) if said else 0


def check(store: Path, said: int) -> None:
    with Repository.open(store, create=False) as repo:
        report = repo.verify()
        assert report.is_sound, report.problems
        found: dict[str, Any] = {"__name__": "__main__"}
        session = bind(found, repo)
        assert session.branch == "main", "the dead process's lease was not taken over"
        session.checkout()
        steps = found["steps"]
        assert steps == list(range(len(steps)))
        assert said <= len(steps) <= said + 1
        assert found["same"] == {"steps": steps}
        assert found["same"]["steps"] is steps
        assert set(found["block"]) == {float(len(steps))}
        session.close()


def kill_often(store: Path, times: int) -> None:
    moments = random.Random(5)
    said = 0
    for _ in range(times):
        said = run_and_kill(store, moments.uniform(0.0, 0.25)) or said
        check(store, said)


def test_a_killed_process_loses_nothing_that_it_committed(tmp_path: Path) -> None:
    kill_often(tmp_path / "store", 3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path / "store", 100)
