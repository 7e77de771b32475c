"""One server for all these tests: to start one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.server.servers import Server, Written, write_notebook


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    started = Server(tmp_path_factory.mktemp("server"))
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="package")
def study(server: Server) -> Written:
    """A notebook with a history of four cells."""
    cells = ("df = [1, 2, 3]", "# Convert to euros\ndf = [n * 0.92 for n in df]", "tmp = 'x' * 5000", "del tmp")
    return write_notebook(server.root / "houses" / "study.ipynb", *cells)
