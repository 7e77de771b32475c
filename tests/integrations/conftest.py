"""What tests of the classes for other packages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ak.Repository]:
    with ak.open(tmp_path / "store") as opened:
        yield opened
