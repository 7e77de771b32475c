"""A real kernel of "Python 3 (Agent)", for the tests of every interface that stands in one."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]


@contextmanager
def started(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[BlockingKernelClient, KernelManager]]:
    """The kernel, started for this notebook, and who talks to it. It has ended when the block has."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(notebook.parent / "ipython"))
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=agent_kernel"]
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Python 3 (Agent)", language="python")
    manager.start_kernel(cwd=str(notebook.parent))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client, manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
