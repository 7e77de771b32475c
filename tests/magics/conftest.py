"""A shell on a store of its own; the user's own data directory, and whatever notebook runs the tests, stay out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.shells import Shell


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.delenv("AGENT_KERNEL_AUTHOR", raising=False)
    return data


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        yield shell
