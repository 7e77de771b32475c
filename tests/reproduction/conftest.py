"""Keep the user's own data directory, and whatever notebook runs the tests, out of them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _apart(nobody: None) -> None: ...
