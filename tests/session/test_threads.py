"""Threads that go on working while cells commit."""

from __future__ import annotations

import gc
import threading
import weakref

from agent_kernel.session import Report
from tests.support.notebooks import Notebook


def test_an_array_that_a_thread_writes_to_is_never_stored_damaged() -> None:
    with Notebook() as nb:
        nb.run("import threading\nimport numpy as np\nx = np.zeros(2_000_000)\nstop = threading.Event()")
        nb.run(
            "def work():\n"
            "    step = 0\n"
            "    while not stop.is_set():\n"
            "        step += 1\n"
            "        x[:] = step\n"
            "thread = threading.Thread(target=work)\n"
            "thread.start()"
        )
        try:
            commits = [nb.run(f"y = {number}\nx.shape") for number in range(5)]
        finally:
            nb.run("stop.set()\nthread.join()")
        assert nb.repo.verify().is_sound
        last = nb.run("total = float(x.sum())")
        for commit in [*commits, last]:
            nb.checkout(commit)
        assert nb.look("float(x.sum()) == total")


def test_a_checkout_leaves_nothing_to_the_garbage_collector() -> None:
    with Notebook() as nb:
        nb.run("class Thing:\n    pass")
        made = nb.run("thing = Thing()")
        nb.run("thing = None")
        nb.checkout(made)
        gc.collect()
        gc.disable()
        try:
            restored = weakref.ref(nb.namespace["thing"])
            nb.checkout("HEAD~0")
            nb.run("thing = None")
            assert restored() is None
            nb.checkout(made)
            restored = weakref.ref(nb.namespace["thing"])
            nb.run("thing = None")
            assert restored() is None
        finally:
            gc.enable()


def test_what_a_thread_has_for_itself_is_never_stored_as_what_another_one_sees_of_it() -> None:
    with Notebook() as nb:
        made = nb.run("import threading\nmine = threading.local()\nmine.rows = [1]\nn = 0")
        reports: list[Report] = []

        def commit() -> None:
            nb.namespace["n"] = 1
            reports.append(nb.session.commit(full=True))

        thread = threading.Thread(target=commit)
        thread.start()
        thread.join()
        nb.run("mine.rows.append(2)")
        nb.checkout(reports[0])
        assert nb.look("n") == 1
        nb.checkout(made)
        assert nb.look("(mine.rows, n)") == ([1], 0)
        nb.run("mine.rows.append(2)")
        nb.checkout(made)
        assert nb.look("mine.rows") == [1]
