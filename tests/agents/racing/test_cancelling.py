"""A race that is cancelled ends all of its candidates, and keeps what they committed."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.models import FunctionModel, Turn
from agent_kernel.agents.races import race
from agent_kernel.agents.workers import runs_in_thread
from agent_kernel.errors import RaceError
from agent_kernel.session import Versioned
from tests.agents.races import children, opened, scripted, until
from tests.agents.racing.racers import GOOD


def test_a_candidate_that_takes_no_interrupt_is_not_waited_for(
    state: Versioned, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.agents.races.GRACE_S", 0.3)
    gate = threading.Event()
    state["rows"] = []
    model = FunctionModel(lambda _: Turn("import sys\nsys.modules['gate'].wait()\ntask.success(1)"), "deaf")
    monkeypatch.setitem(__import__("sys").modules, "gate", gate)
    tries = race("go", n=1, models=[model], state=state, executor=pool, deadline_s=0.2)
    with pytest.raises(RaceError, match="what runs it goes on, and is not waited for"):
        tries.wait()
    with pytest.raises(RaceError, match="goes on in a thread"):
        tries.discard()
    gate.set()


def test_an_interrupt_ends_all_and_keeps_what_they_committed(tmp_path: Path) -> None:
    before = children()
    with opened(tmp_path, rows=[1]) as state:
        model = scripted("kept = 1", "import time\nwhile True:\n    time.sleep(0.01)", name="endless")
        tries = race("go", n=2, models=[model], state=state)
        event_store = EventStore(state.repo.store)

        def interrupt() -> None:
            runs = [one.run for one in tries.candidates]
            until(lambda: all(sum(e.kind == "StepStart" for e in event_store.of(run)) == 2 for run in runs))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        ended = list(tries)
        thread.join()
        assert [one.status for one in ended] == ["interrupted", "interrupted"]
        assert [state.repo.at(one.branch)["kept"] for one in tries.candidates] == [1, 1]
        assert [event.kind for event in event_store.of(tries.id)][-1] == "Cancelled"
        with pytest.raises(RaceError, match="came to a result"):
            tries.wait()
        tries.discard()
    assert children() == before


def test_what_has_not_begun_when_the_race_is_cancelled_never_begins(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        blocker = pool.submit(gate.wait)
        tries = race("lowest", models=[GOOD], n=2, state=state, executor=pool)
        tries.cancel("never mind")
        gate.set()
        assert blocker.result()
    assert [(one.status, one.reason) for one in tries.candidates] == [
        ("interrupted", "it was stopped before it began")
    ] * 2
    assert tries.is_over


def test_what_a_thread_does_that_nobody_waits_for_goes_into_no_store(state: Versioned, pool: Executor) -> None:
    gate = threading.Event()
    state["rows"] = [1]
    model = scripted(
        "kept = 1", "sys = __import__('sys')\nsys.modules['gate'].wait()\nlate = 1", "late = 2", name="deaf"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "gate", gate)
        tries = race("go", n=1, models=[model], state=state, executor=pool, deadline_s=1.0)
        began = time.monotonic()
        (one,) = list(tries)
        assert time.monotonic() - began < 1 + 3
        assert one.status == "failed"
        branches = dict(state.repo.branches())
        events = len(list(EventStore(state.repo.store).of(one.run)))
        gate.set()
        until(lambda: not runs_in_thread(one.run))
        assert state.repo.branches() == branches
        assert len(list(EventStore(state.repo.store).of(one.run))) == events
        assert "late" not in state.repo.at(one.branch)
        assert state.repo.at(one.branch)["kept"] == 1
