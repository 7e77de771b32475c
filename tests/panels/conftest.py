"""Keep the user's own data directory, and whatever notebook runs the tests, out of them; and comms off the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.panels.fronts import Front


@pytest.fixture(autouse=True)
def _apart(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "ada")


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """A notebook in front of a shell, whose cells are commits."""
    with Front(tmp_path, monkeypatch) as front:
        yield front
