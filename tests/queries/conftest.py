"""A notebook whose history is looked at; the user's own data directory, and their name, stay out of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.queries.histories import Notebook, notebook


@pytest.fixture(autouse=True)
def _apart(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "ada")


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with notebook() as made:
        yield made
