"""Runs scripts under systems, each in a fresh process and an empty folder, and keeps what came of them."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.peers import PEERS, python_of
from benchmarks.script import Run, Step, read_run, write_steps

ROOT = Path(__file__).resolve().parents[1]
_LIMIT_S = 1_500.0
_START = "import sys; from benchmarks.child import main; main(*sys.argv[1:])"


@dataclass
class Bench:
    """What a workload is handed. `peers` are the other systems to run it under; `quick` asks for a small version."""

    peers: tuple[str, ...] = ()
    quick: bool = False
    folder: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))

    def run(self, system: str, steps: Sequence[Step], *, like: str = "") -> Run:
        """Run the steps under a system and return what came of them.

        Args:
            like: with plain IPython: the peer in whose environment it runs.
        """
        print(f"  … {system}{f' beside {like}' if like else ''}", file=sys.stderr, flush=True)
        work = Path(tempfile.mkdtemp(prefix="agent-kernel-bench-", dir=self.folder))
        try:
            return self._run(system, steps, work, python_of(like or system))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _run(self, system: str, steps: Sequence[Step], work: Path, python: Path) -> Run:
        if system in PEERS or system == "plain":  # references are measured beside ours alone
            steps = [step for step in steps if step.do != "measure"]
        script, answer, said = work / "script.json", work / "answer.json", work / "said.txt"
        write_steps(script, steps)
        command = [str(python), "-c", _START, system, str(script), str(answer), str(work / "place")]
        (work / "place").mkdir()
        with said.open("w") as told:
            try:
                done = subprocess.run(
                    command,
                    cwd=work / "place",
                    env=environment(),
                    stdout=told,
                    stderr=told,
                    timeout=_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Run(system, error=f"not done after {_LIMIT_S:.0f} s")
        text = said.read_text(errors="replace")
        if not answer.exists():
            last = text.strip().splitlines()[-1:] or [""]
            return Run(system, error=f"ended with status {done.returncode}: {last[0][:200]}")
        run = read_run(answer)
        run.notices = sorted({line for line in text.splitlines() if "is not committed" in line})
        return run


@cache
def environment() -> dict[str, str]:
    """What measured processes are started with. The package's bytecode is there from then on, as where pip installed it."""
    compileall.compile_dir(ROOT / "agent_kernel", quiet=1)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    # One thread each for the numeric libraries: on a shared machine more make times jump, for every system alike.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": path, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}
