"""numba: a compiled function is a function of the notebook, which sees the notebook's variables and holds none of them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import LmdbStore, MemoryStore
from tests.support.notebooks import Notebook, names_changed

compiled = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")

MADE = cleandoc("""
    import numpy as np
    from numba import njit, vectorize
    table, step = np.arange(100_000), 2
    @njit
    def twice(x): return step * x
    @njit
    def total(n): return twice(table[:n].sum())
    @njit("int64(int64)")
    def early(x): return x + 1
    def make(k):
        @njit
        def inner(x): return k * x
        return inner
    inner = make(3)
""")


@compiled
def test_a_compiled_function_stores_nothing_of_the_variables_that_it_reads() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import numpy as np\nrandom = np.random.default_rng(1)")
        nb.run("table = random.integers(0, 1 << 62, 100_000)")

        def size() -> int:
            return sum(map(len, store.get_many(store.keys(b"", limit=1_000_000)).values()))

        before = size()
        nb.run("from numba import njit\n@njit\ndef total(n): return table[:n].sum()")
        assert size() - before < 50_000
        assert names_changed(nb.run("table = random.integers(0, 1 << 62, 100_000)")) == {"table", "random"}


@compiled
def test_it_comes_back_as_it_was_and_sees_the_variables_of_the_notebook() -> None:
    with Notebook() as nb:
        made = nb.run(MADE)
        assert made.unsaved == ()
        nb.run("total(5), early(1), inner(2)")
        nb.run("@njit\ndef twice(x): return x\ndel total, early, inner\nstep = 5")
        nb.checkout(made)
        assert nb.look("total(5), early(1), inner(2), twice(3)") == (20, 2, 6, 6)
        assert nb.look("all(one.py_func.__globals__ is globals() for one in (total, early, inner, twice))")
        assert nb.look("early.nopython_signatures != [] and not early._can_compile")
        assert names_changed(nb.run("total(5), early(1), inner(2), twice(3)")) == set()


@compiled
def test_a_change_of_one_is_a_change_of_that_name_alone() -> None:
    with Notebook() as nb:
        nb.run(MADE)
        assert names_changed(nb.run("step = 3")) == {"step"}
        assert names_changed(nb.run("@njit\ndef twice(x): return x")) == {"twice"}


@compiled
def test_after_a_restart_it_reads_what_the_notebook_holds_then(tmp_path: Path) -> None:
    with Notebook(Repository.open(LmdbStore(tmp_path))) as nb:
        nb.run(MADE)
    code = f"""
        from agent_kernel.session import Repository
        from agent_kernel.storage import LmdbStore
        from tests.support.notebooks import Notebook
        with Notebook(Repository.open(LmdbStore({str(tmp_path)!r}))) as nb:
            nb.checkout()
            nb.run("table = table + 1")
            assert nb.look("total(5), early(1), inner(2)") == (30, 2, 6)
            assert nb.look("total.py_func.__globals__ is globals()")
    """
    subprocess.run([sys.executable, "-c", cleandoc(code)], check=True)
