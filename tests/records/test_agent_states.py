"""Agents: snapshots and checkpoints that come back, and supervision that tries again. Rows AAF-3, AAF-4 and AS-5."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

import agent_kernel as ak
from agent_kernel.records.agent_states import Agents


class Counter:
    """An agent as other libraries make them: `state_dict()` and `load_state_dict()`."""

    def __init__(self) -> None:
        self.name = "counter"
        self.count = 0
        self.resumed = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]

    def resume(self) -> None:
        self.resumed += 1


def test_a_snapshot_has_all_parts_of_an_agent(memory: ak.Repository) -> None:
    """AAF-3: AgentSnapshot, save, list_snapshots, load, delete, latest."""
    agents = memory.agents
    first = agents.snapshot(
        "analyst",
        memory_state={"facts": ["a"]},
        tool_state={"search": {"calls": 3}},
        conversation_history=[{"role": "user", "content": "hello"}],
        metadata={"model": "x"},
    )
    second = agents.snapshot("analyst", memory_state={"facts": ["a", "b"]})
    agents.snapshot("analyst2")
    assert [one.id for one in agents.list_snapshots("analyst")] == [first.id, second.id]
    assert agents.latest("analyst") == second == agents.restore("analyst")
    assert agents.restore("analyst", at=1) == agents.restore("analyst", at=first.id) == first
    assert first.conversation_history == [{"role": "user", "content": "hello"}]
    assert first.timestamp == pytest.approx(time.time(), abs=5)
    assert agents.delete("analyst", 2)
    assert not agents.delete("analyst", 2)
    assert agents.latest("analyst") == first


def test_an_object_with_a_state_dict_is_kept_and_brought_back(memory: ak.Repository) -> None:
    """AS-5: state_dict and load_state_dict."""
    counter = Counter()
    counter.count = 5
    memory.agents.snapshot(counter)
    counter.count = 9
    memory.agents.snapshot(counter)
    memory.agents.restore(counter, at=1)
    assert counter.count == 5
    memory.agents.restore(counter)
    assert counter.count == 9


def test_a_checkpoint_belongs_to_a_step_and_may_be_one_to_go_on_from(memory: ak.Repository) -> None:
    """AAF-3: AgentCheckpoint with its recoverable flag, list_checkpoints, recover(from_step)."""
    agents, counter = memory.agents, Counter()
    for step in range(3):
        counter.count = step * 10
        agents.checkpoint(counter, step, recoverable=step < 2)
    assert [(one.step, one.recoverable) for one in agents.list_checkpoints(counter)] == [
        (0, True),
        (1, True),
        (2, False),
    ]
    assert agents.recover(counter).step == 1
    assert counter.count == 10
    assert agents.recover(counter, from_step=0).state == {"count": 0}
    with pytest.raises(ak.RecordNotFoundError):
        agents.recover(counter, from_step=2)
    assert [agents.should_checkpoint(counter, step, every=3) for step in (3, 4, 5)] == [False, False, True]


def test_an_agent_has_one_of_seven_statuses(memory: ak.Repository) -> None:
    """AAF-3: the statuses and their transitions."""
    agents = memory.agents
    for status in (
        "initializing",
        "idle",
        "running",
        "paused",
        "running",
        "failed",
        "recovering",
        "running",
        "completed",
    ):
        agents.status("analyst", status, task="sums")
    assert (agents["analyst"].status, agents["analyst"].task) == ("completed", "sums")
    with pytest.raises(ak.TransitionError):
        agents.status("analyst", "initializing")
    with pytest.raises(ak.InvalidRecordError):
        agents.status("analyst", "asleep")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert [one.id for one in agents.list()] == ["analyst"]


@pytest.mark.parametrize(
    ("error", "act"),
    [
        (ak.RecordNotFoundError, lambda agents: agents.restore("nobody")),
        (ak.RecordNotFoundError, lambda agents: agents["nobody"]),
        (ak.RecordNotFoundError, lambda agents: agents.recover("nobody")),
        (ak.InvalidRecordError, lambda agents: agents.snapshot("a/b")),
        (ak.InvalidRecordError, lambda agents: agents.snapshot(object())),
        (ak.InvalidRecordError, lambda agents: agents.snapshot("a", memory_state={"when": (1, 2)})),
        (ak.InvalidRecordError, lambda agents: agents.checkpoint("a", 1, {"x": {1: 2}})),
    ],
)
def test_what_would_not_come_back_is_refused(
    memory: ak.Repository, error: type[Exception], act: Callable[[Agents], object]
) -> None:
    with pytest.raises(error) as found:
        act(memory.agents)
    assert "\n" not in str(found.value)
    assert memory.agents.list_snapshots("a") == []


def test_a_supervised_agent_goes_on_from_its_last_checkpoint(memory: ak.Repository) -> None:
    """AAF-4: register, recover("latest"), agent.resume(), backoff, on_failure, callbacks, stats."""
    counter, heard, seen = Counter(), [], []
    supervisor = memory.agents.supervise(counter, attempts=3, backoff=0.02)
    supervisor.on_failure(lambda error, record: heard.append((str(error), record.status)))
    supervisor.on_recovery(lambda record: heard.append(("back", record.status)))

    def work(goal: int) -> str:
        seen.append((counter.count, time.perf_counter()))
        counter.count += 1
        memory.agents.checkpoint(counter, counter.count)
        counter.count = -1
        if len(seen) < goal:
            raise OSError(f"attempt {len(seen)}")
        return "done"

    assert supervisor.run(work, 3) == "done"
    assert [count for count, _ in seen] == [0, 1, 2]
    assert seen[2][1] - seen[1][1] >= 0.04
    assert heard == [("attempt 1", "failed"), ("back", "recovering"), ("attempt 2", "failed"), ("back", "recovering")]
    assert counter.resumed == 2
    stats = supervisor.stats()
    assert (stats.failures, stats.recoveries, stats.attempts, stats.last_error) == (2, 1, 0, "OSError: attempt 2")
    assert supervisor.record.status == "idle"


def test_attempts_are_bounded_until_somebody_resets_them(memory: ak.Repository) -> None:
    """AAF-4: max_recovery_attempts, can_recover, reset."""
    supervisor = memory.agents.supervise("analyst", attempts=2, backoff=0.001)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise OSError("again")

    with pytest.raises(OSError, match="again"):
        supervisor.run(fail)
    assert len(calls) == 3
    assert not supervisor.can_recover()
    with pytest.raises(OSError, match="again"):
        supervisor.run(fail)
    assert len(calls) == 4  # no attempts are left
    supervisor.reset()
    assert supervisor.can_recover()
    assert (supervisor.stats().failures, supervisor.record.status) == (4, "failed")


def test_a_checkout_takes_an_agents_memory_back_and_gives_it_no_new_attempts(repo: ak.Repository) -> None:
    """Both planes: a snapshot belongs to a line of history, a failure that happened does not."""
    supervisor = repo.agents.supervise("analyst", attempts=0)
    with ak.Versioned(repo) as state:
        state["x"] = 1
        repo.agents.snapshot("analyst", memory_state={"x": 1})
        state.commit("one")
        repo.create_tag("one", repo.resolve("HEAD"))
        state["x"] = 2
        repo.agents.snapshot("analyst", memory_state={"x": 2})
        with pytest.raises(OSError, match="no"):
            supervisor.run(_raise)
        state.commit("two")
        state.checkout("one")
        assert repo.agents.restore("analyst").memory_state == {"x": 1} == {"x": state["x"]}
        assert supervisor.stats().failures == 1


def _raise() -> None:
    raise OSError("no")


# -- order, and what makes no sense


def test_checkpoints_are_in_order_of_their_steps(memory: ak.Repository) -> None:
    agents = memory.agents
    for step in (99_999_999, 100_000_000):
        agents.checkpoint("ada", step, {"step": step})
    assert [one.step for one in agents.list_checkpoints("ada")] == [99_999_999, 100_000_000]
    assert agents.recover("ada").step == 100_000_000
    with pytest.raises(ValueError, match="step is 0 or more"):
        agents.checkpoint("ada", -1, {})


def test_supervision_takes_no_function_that_does_nothing_until_it_is_awaited(memory: ak.Repository) -> None:
    async def work_later() -> None:
        pass

    work = cast("Callable[[], object]", work_later)
    supervisor = memory.agents.supervise("ada", attempts=1, backoff=0.0)
    with pytest.raises(TypeError, match="plain function"):
        supervisor.run(work)
    with pytest.raises(TypeError, match="did not do its work"):
        supervisor.run(lambda: work())
    assert supervisor.record.status == "failed"


def test_what_an_agent_lacks_is_said(memory: ak.Repository) -> None:
    with pytest.raises(ak.RecordNotFoundError, match="there is no snapshot 'latest' of agent 'zz'"):
        memory.agents.latest("zz")
    with pytest.raises(ak.RecordNotFoundError, match="there is no recoverable checkpoint '3' of agent 'zz'"):
        memory.agents.recover("zz", 3)


def test_a_function_that_hears_of_a_failure_does_not_keep_the_agent_from_coming_back(
    memory: ak.Repository, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = memory.agents.supervise("ada", attempts=1, backoff=0)

    def hear(*what: object) -> None:
        raise RuntimeError("no telephone")

    supervisor.on_failure(hear)
    supervisor.on_recovery(hear)
    errors = [ValueError("once")]

    def work() -> int:
        if errors:
            raise errors.pop()
        return 5

    assert supervisor.run(work) == 5
    assert caplog.text.count("RuntimeError: no telephone") == 2


def test_an_agent_that_cannot_be_brought_back_has_so_many_attempts(memory: ak.Repository) -> None:
    class Broken:
        name = "broken"

        def resume(self) -> None:
            raise OSError("no network")

    supervisor = memory.agents.supervise(Broken(), attempts=2, backoff=0)

    def work() -> None:
        raise ValueError("at work")

    with pytest.raises(OSError, match="no network"):
        supervisor.run(work)
    assert (supervisor.record.status, supervisor.stats().failures, supervisor.record.attempts) == ("failed", 3, 2)


def test_a_step_to_recover_from_is_a_number(memory: ak.Repository) -> None:
    with pytest.raises(TypeError, match="from_step is a whole number, not '1'"):
        memory.agents.recover("ada", from_step="1")  # type: ignore[arg-type]


def test_work_that_does_not_take_what_it_is_given_is_not_tried_again(memory: ak.Repository) -> None:
    supervisor = memory.agents.supervise("ada", attempts=3, backoff=60.0)
    nothing: Any = lambda: 5  # noqa: E731
    with pytest.raises(TypeError, match=r"^supervision calls the function <lambda> with what run was given: too many"):
        supervisor.run(nothing, 6)
    assert (supervisor.stats().failures, supervisor.record.status) == (0, "initializing")


@pytest.mark.parametrize("agent", [5, None, "", "a/b", "a\0b", "\ud800", object()])
def test_an_agent_is_its_name_or_an_object_that_has_one(memory: ak.Repository, agent: Any) -> None:
    said = r"an agent is its name \(text without / and NUL\) or an object that has one, not "
    acts: tuple[Callable[[], object], ...] = (
        lambda: memory.agents.supervise(agent),
        lambda: memory.agents.snapshot(agent),
        lambda: memory.agents.status(agent, "idle"),
        lambda: memory.agents.latest(agent),
    )
    for act in acts:
        with pytest.raises(ak.InvalidRecordError, match=said):
            act()
    assert memory.agents.list() == []


def test_a_status_that_no_agent_has_stores_nothing(memory: ak.Repository) -> None:
    with pytest.raises(ak.InvalidRecordError, match="status: Input should be"):
        memory.agents.status("ada", "asleep")  # type: ignore[arg-type]
    assert memory.agents.list() == []
