"""Servers over standard input and output are forks of one process, but for those of tests that say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="module", autouse=True)
def _servers_are_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if find_spec("mcp") is None:
        yield
        return
    from tests.outside.clients import Forks

    with Forks.wanted(tmp_path_factory.mktemp("forks")):
        yield
