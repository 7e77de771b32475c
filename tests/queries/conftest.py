"""A notebook whose history is looked at; the user's own data directory, and their name, stay out of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.queries.histories import Notebook, notebook


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "ada")
    return data


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with notebook() as made:
        yield made
