"""Threads that go on working while cells commit."""

from __future__ import annotations

import gc
import weakref

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
