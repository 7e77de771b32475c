"""A shell on a store of its own; the user's own data directory, and whatever notebook runs the tests, stay out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.shells import Shell


@pytest.fixture(autouse=True)
def _apart(nobody: None) -> None: ...


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        yield shell
