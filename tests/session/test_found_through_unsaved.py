"""A change that goes through what cannot be saved is found under every name that it changes, in the same cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.notebooks import Notebook, names_changed


@pytest.mark.parametrize(
    ("made", "change"),
    [
        (
            (
                "import sqlite3\nx = sqlite3.connect(':memory:')\nx.execute('create table t(a)')\n"
                "x.execute('insert into t values (1)')"
            ),
            "x.commit()",
        ),
        (
            (
                "class Once:\n    ready = False\n    def __reduce__(self):\n"
                "        if not self.ready: raise TypeError('not yet')\n        return Once, (), vars(self)\nx = Once()"
            ),
            "x.ready = True",
        ),
    ],
)
def test_what_can_be_saved_from_now_on_stays_one_object_under_all_its_names(made: str, change: str) -> None:
    with Notebook() as nb:
        nb.run(made + "\ny = x; box = [x]; kept = {'x': x}")
        saved = nb.run(change)
        assert names_changed(saved) >= {"x", "y", "box", "kept"}
        nb.run("del x, y, box, kept")
        nb.checkout(saved)
        assert nb.look("x is y is box[0] is kept['x']")


_MAPS = {
    "a map of memory": "import mmap\nm = mmap.mmap(-1, 8); n = np.frombuffer(m, 'u1')",
    "a map of a file": (
        "import mmap\nwith open('f', 'w+b') as file:\n    file.truncate(8); m = mmap.mmap(file.fileno(), 8)\n"
        "n = np.frombuffer(m, 'u1')"
    ),
    "numpy's map of a file": "m = np.memmap('f', 'u1', 'w+', shape=8); n = np.asarray(m)",
    "an array of C": "import ctypes\nm = (ctypes.c_ubyte * 8)(); n = np.ctypeslib.as_array(m)",
    "part of an array of C": "import ctypes\nm = (ctypes.c_ubyte * 8)(); n = np.frombuffer(m, 'u1')[0:4]",
    "an iterator over an array": "n = np.zeros(8, 'u1'); m = n.flat",
    "numpy's iterator": "n = np.zeros(8, 'u1'); m = np.nditer(n, op_flags=['readwrite'])",
    "numpy's iterator over a part": "n = np.zeros(8, 'u1'); m = np.nditer(n[:4], op_flags=['readwrite'])",
    "a view in a queue": "import queue\nn = np.zeros(8, 'u1'); m = n[:]; q = queue.Queue(); q.put(m); del m",
}


@pytest.mark.parametrize("kind", _MAPS)
def test_memory_that_an_array_shares_with_what_is_not_saved_is_looked_at_with_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    with Notebook() as nb:
        nb.run(f"import numpy as np\n{_MAPS[kind]}")
        m = "m" if "m" in nb.namespace else "q.queue[0]"
        changed = nb.run(f"{m}[0] = 5")
        assert "n" in names_changed(changed)
        nb.run("del n")
        nb.checkout(changed)
        assert nb.look("n[0]") == 5
