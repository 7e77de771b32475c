"""In real kernels: what only they do (displays, interrupts, subprocesses that start with the extension)."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.kernels import started


@contextmanager
def kernel(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[BlockingKernelClient]:
    """The kernel "Python 3 (Agent)", started for this notebook."""
    with started(notebook, monkeypatch) as (client, _):
        yield client


def run(client: BlockingKernelClient, source: str, *, interrupt: Any = None) -> list[dict[str, Any]]:
    """Run a cell; what it published."""
    published: list[dict[str, Any]] = []

    def note(message: dict[str, Any]) -> None:
        published.append(message)
        if interrupt is not None and message["msg_type"] == "stream":
            interrupt()

    client.execute_interactive(source, timeout=60, output_hook=note, store_history=True)
    return published


def text(published: list[dict[str, Any]]) -> str:
    return "".join(message["content"].get("text", "") for message in published if message["msg_type"] == "stream")


def test_a_notebook_is_bound_from_its_first_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        assert "commit on branch main of .agent-kernel/study" in text(run(client, "x = 1"))
        run(client, "%%agent analyst\nimport asyncio\ny = await asyncio.sleep(0, x)")
        history = json.loads(text(run(client, "%agent log --json")))
        assert [commit["author"]["name"] for commit in history[:1]] == ["analyst"]
        assert [change["name"] for change in history[1]["changed"]] == ["x"]
        shown = [message for message in run(client, "%agent log") if message["msg_type"] == "display_data"]
        assert set(shown[0]["content"]["data"]) == {"text/plain", "text/html"}
        assert "<table>" in shown[0]["content"]["data"]["text/html"]
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        assert "%agent checkout" in text(run(client, "%agent status"))
        run(client, "%agent checkout")
        assert "1 1" in text(run(client, "print(x, y)"))


def test_a_kernel_that_is_restarted_goes_on_where_it_was_and_not_where_a_second_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = tmp_path / "study.ipynb"
    with started(notebook, monkeypatch) as (client, manager), kernel(notebook, monkeypatch) as second:
        run(client, "hours = ['first']")
        run(second, "toy = 1")
        run(client, "hours.append('of work')")
        run(second, "toy = 2")
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=60)
        assert "on branch main " in text(run(client, "%agent status"))
        run(client, "%agent checkout")
        assert "['first', 'of work']" in text(run(client, "print(hours)"))


def test_a_figure_that_came_back_draws_in_a_kernel_that_has_opened_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # a kernel draws in the page unless told otherwise
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        run(client, "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nplt.close(fig)")
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        run(client, "%agent checkout")
        (shown,) = [message for message in run(client, "fig") if message["msg_type"] == "execute_result"]
        assert set(shown["content"]["data"]) == {"text/plain", "image/png"}
        assert text(run(client, "print(plt.get_fignums())")) == "[]\n"  # it is still detached from pyplot


@pytest.mark.parametrize(
    "waiting",
    [
        "import time\nprint('go', flush=True)\ntime.sleep(30)",
        "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(3)",  # ipykernel's loop hears of it as the time is over
    ],
)
def test_an_interrupt_commits_what_the_cell_had_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: str
) -> None:
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        run(client, "import os; pid = os.getpid()")
        pid = int(text(run(client, "print(pid)")))

        def interrupt() -> None:
            import os
            import signal

            time.sleep(0.3)
            os.kill(pid, signal.SIGINT)

        run(client, f"done = 'so far'\n{waiting}", interrupt=interrupt)
        newest = json.loads(text(run(client, "%agent log --json -n 1")))[0]
        assert newest["status"] == "interrupted"
        assert "done" in {change["name"] for change in newest["changed"]}
