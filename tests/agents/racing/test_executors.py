"""Anything with `submit` can run the candidates of a race, in any process and at any time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from agent_kernel.agents.agent import Agent, open_context
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.races import list_entries, race
from agent_kernel.agents.workers import model_of, stop_key
from agent_kernel.errors import ModelError
from agent_kernel.session import Versioned
from tests.agents.races import scripted, until
from tests.agents.racing.racers import BAD, BETTER, GOOD


class Elsewhere:
    """A future of a cluster: none of `concurrent.futures`, and work that is on its way is cancelled, and goes on."""

    def __init__(self, inner: Future[Any]) -> None:
        self.inner = inner

    def add_done_callback(self, fn: Callable[[Elsewhere], object]) -> None:
        self.inner.add_done_callback(lambda _: fn(self))

    def result(self) -> object:
        return self.inner.result()

    def cancel(self) -> None:
        """It says nothing of what came of that."""


class Cluster:
    """An executor as a cluster's client is: `submit` with options of its own, no `map`, and jobs that travel as bytes."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def submit(self, fn: Callable[..., object], *args: object, pure: bool = True, key: str | None = None) -> Elsewhere:
        assert pure
        assert key is None
        sent = pickle.dumps((fn, args))

        def done() -> object:
            function, given = pickle.loads(sent)
            return function(*given)

        return Elsewhere(self.pool.submit(done))


def test_an_executor_needs_no_more_than_submit(state: Versioned, pool: ThreadPoolExecutor) -> None:
    tries = race("lowest", models=[GOOD, BETTER, BAD], state=state, executor=Cluster(pool)).wait()
    assert [(one.status, one.result) for one in tries.candidates] == [
        ("completed", "1"),
        ("completed", "1"),
        ("failed", ""),
    ]


def test_what_an_executor_calls_cancelled_and_lets_go_on_is_stopped(state: Versioned, pool: ThreadPoolExecutor) -> None:
    endless = scripted("kept = 1", "import time\nwhile True:\n    time.sleep(0.01)", name="endless")
    tries = race("go", models=[endless], n=2, state=state, executor=Cluster(pool))
    event_store = EventStore(state.repo.store)
    runs = [one.run for one in tries.candidates]
    until(lambda: all(sum(event.kind == "StepStart" for event in event_store.of(run)) == 2 for run in runs))
    tries.cancel("enough")
    assert [(one.status, one.reason) for one in tries.candidates] == [("interrupted", "enough")] * 2
    assert [state.repo.lease_of(one.branch) for one in tries.candidates] == [None, None]
    assert [state.repo.at(one.branch)["kept"] for one in tries.candidates] == [1, 1]
    assert state.repo.setting(stop_key(tries.id)) is None
    tries.discard()


def test_a_job_that_an_executor_begins_after_its_race_was_cancelled_does_nothing(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        _ = pool.submit(gate.wait)
        tries = race("lowest", models=[GOOD], n=1, state=state, executor=Cluster(pool))
        tries.cancel("never mind")
        gate.set()
    (one,) = tries.candidates
    assert (one.status, one.reason) == ("interrupted", "it was stopped before it began")
    assert list(EventStore(state.repo.store).of(one.run)) == []


def test_an_executor_that_takes_no_work_leaves_nothing_behind(state: Versioned) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        race("lowest", models=[GOOD], n=2, state=state, executor=pool)
    assert list(state.repo.branches()) == ["main"]


def test_a_model_object_is_in_no_payload_and_another_process_refuses_to_ask_its_name(
    state: Versioned, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="sk-own-key")
    model = openai.OpenAIChatModel("gpt-x", provider=provider)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")  # the name alone could be asked
    (entry,) = list_entries(["go"], [Agent("x", model=model)], [], 1, open_context(state), None, None)
    assert b"sk-own-key" not in entry.payload
    monkeypatch.setattr("agent_kernel.agents.workers._shared_models", {})  # as it is in another process
    task = pickle.loads(entry.payload)
    with pytest.raises(ModelError, match="this model is an object, and it cannot be sent to another process"):
        model_of(task.agent)
