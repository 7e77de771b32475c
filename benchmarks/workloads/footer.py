"""What the line under a cell costs, in a real kernel: the same cells with it and without it by turns, in one run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.bench import ROOT, Bench
from benchmarks.tables import Row, Table, ms, times

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

_WARM = 20  # cells that are not counted: the first line loads what draws it
_MOST = 1.25  # times a cell that changes one number


def run(bench: Bench) -> Table:
    """Change a number in each cell, with the line and without it by turns, and take the time until the kernel is idle."""
    pairs = 30 if bench.quick else 200
    table = Table(f"The line under a cell, {pairs} cells with it and {pairs} without")
    if find_spec("ipykernel") is None:
        table.notes.append("not measured: ipykernel is not installed (make bench installs it)")
        return table
    with tempfile.TemporaryDirectory(prefix="agent-kernel-bench-", dir=bench.folder) as home:
        found = _measure(Path(home), pairs)
    without, shown = (median(found[key]) for key in (False, True))
    cost = median(one - other for one, other in zip(found[True], found[False], strict=True))
    ratio = shown / without
    numbers = {"with": shown, "without": without, "ratio": ratio}
    table.rows += [
        Row("a cell without it, until idle", ms(without), numbers={"seconds": without}),
        Row("a cell with it", f"{ms(shown)} = {times(ratio)}", f"≤ {times(_MOST)}", ratio <= _MOST, numbers=numbers),
        Row("the line", ms(cost), numbers={"seconds": cost}),
    ]
    return table


def _measure(home: Path, pairs: int) -> dict[bool, list[float]]:
    """Seconds of each cell, by whether there was a line. Neighbours make a pair: the machine is the same to both."""
    found: dict[bool, list[float]] = {True: [], False: []}
    with _kernel(home) as client:
        _run(client, "%load_ext agent_kernel")
        for number in range(pairs + _WARM):
            for shown in (True, False) if number % 2 else (False, True):
                _run(client, f"%config AgentKernel.footer = {shown}")
                took, lines = _run(client, f"x = {2 * number + shown}")
                assert lines == shown, "the line was not where it should be"
                if number >= _WARM:
                    found[shown].append(took)
    return found


@contextmanager
def _kernel(home: Path) -> Generator[BlockingKernelClient]:
    from jupyter_client.manager import KernelManager

    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    own = {"PYTHONPATH": path, "IPYTHONDIR": str(home / "ipython"), "XDG_DATA_HOME": str(home / "data")}
    environment = {**os.environ, **own, "JPY_SESSION_NAME": str(home / "study.ipynb")}
    manager: Any = KernelManager()
    manager.start_kernel(cwd=str(home), env=environment)
    client: BlockingKernelClient = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(client: BlockingKernelClient, source: str) -> tuple[float, int]:
    """Run a cell as a notebook does. Returns the seconds until the kernel was idle again, and how often a line was shown."""
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    request = client.session.msg("execute_request", content, metadata={"cellId": "cell"})
    began = time.perf_counter()
    client.shell_channel.send(request)
    lines = 0
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            continue
        told = message["content"]
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(told["traceback"]))
        lines += message["msg_type"] == "display_data" and any("agent-kernel.footer" in kind for kind in told["data"])
        if message["msg_type"] == "status" and told["execution_state"] == "idle":
            return time.perf_counter() - began, lines
