"""Two things that make loading fail: `Fragile` while the file `broken` is there, and the library `demo` while it is away."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.session.breaking import Breaks


@pytest.fixture
def breaks(tmp_path: Path) -> Breaks:
    return Breaks(tmp_path / "broken")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """A library of version 3.1; call with False to uninstall it, with True to have it back."""
    folder = tmp_path / "library"
    (folder / "demo").mkdir(parents=True)
    code = "__version__ = '3.1'\nclass Thing:\n    def __init__(self, v):\n        self.v = v\nclass Base: pass\n"
    (folder / "demo" / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)

    def install(there: bool) -> None:
        sys.modules.pop("demo", None)
        sys.path_importer_cache.clear()
        if there:
            (folder / "away").rename(folder / "demo")
        else:
            (folder / "demo").rename(folder / "away")

    yield install
    sys.modules.pop("demo", None)
