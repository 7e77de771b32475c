"""Two things that make loading fail: `Fragile` while the file `broken` is there, and the library `demo` while it is away.

And smaller bounds, so that tests of long containers need fewer rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import staging, tracking, workspace
from agent_kernel.values import aliases, atoms, classes, groups, libraries, pickler, segments, trials
from tests.session.breaking import Breaks

# All that says from when on a container is long, and each length that goes with it.
_BOUNDS = {
    segments: ("LENGTH", "SHORTEST", "LONGEST", "FROM_LENGTH", "FROM_LENGTH_WITHIN", "_MOST_LOOKED_AT"),
    aliases: ("LARGE", "_LOOKS"),
    atoms: ("LONG",),
    classes: ("_MOST_ITEMS",),
    groups: ("_LARGE_BYTES", "_WALKED_BYTES"),
    pickler: ("_MANY",),
    libraries: ("_MOST_OBJECTS",),
    staging: ("MANY",),
    tracking: ("MANY",),
    trials: ("MOST_BYTES",),
    workspace: ("_SMALL_BYTES",),
}


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


@pytest.fixture
def long_from_a_fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers are long from a fifth of the length on, in proportion in all respects."""
    for module, names in _BOUNDS.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name) // 5)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the streams that are written, of all dumps."""
    sizes: list[int] = []
    dump: Callable[..., Any] = pickler.Pickler.dump

    def noted(self: Any, value: object) -> None:
        before = self.sink.tell() if hasattr(self.sink, "tell") else 0
        dump(self, value)
        sizes.append((self.sink.tell() if hasattr(self.sink, "tell") else 0) - before)

    monkeypatch.setattr(pickler.Pickler, "dump", noted)
    dump_alone = atoms.dump_alone

    def noted_alone(items: object) -> bytes:
        stream = dump_alone(items)
        sizes.append(len(stream))
        return stream

    monkeypatch.setattr(atoms, "dump_alone", noted_alone)
    return sizes
