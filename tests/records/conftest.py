"""What tests of the verbs share."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import agent_kernel as ak


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ak.Repository]:
    with ak.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[ak.Repository]:
    """The same, without a disk: for what has nothing to do with one."""
    with ak.open("memory:") as opened:
        yield opened


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Runs code in another process on the same store, as `repo`; returns once it has printed its first line."""
    begun: list[subprocess.Popen[str]] = []

    def begin(code: str) -> subprocess.Popen[str]:
        whole = f"import agent_kernel as ak\nwith ak.open({str(tmp_path / 'store')!r}) as repo:\n"
        whole += textwrap.indent(textwrap.dedent(code), "    ")
        process = subprocess.Popen(
            [sys.executable, "-c", whole], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()
