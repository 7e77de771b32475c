"""Teams and their queue: each task goes to one worker, and comes back when that one dies. Rows AAF-8 and AAF-9."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent_kernel as ak
from agent_kernel.agents import ScriptedModel
from agent_kernel.records.queue import Queue, Task
from agent_kernel.repository.refs import Holder

WORKER = """
import agent_kernel as ak, sys
with ak.open(sys.argv[1]) as repo, open(sys.argv[2], "w") as done:
    repo.queue("web").drain(lambda task: print(task.name, file=done), "worker")
"""


def claimed(queue: Queue, lease_s: float = 60.0) -> Task:
    task = queue.claim("ada", lease_s=lease_s)
    assert task is not None
    return task


def names_of(queue: Queue, lease_s: float = 60.0) -> list[str]:
    """The tasks in the order in which they are given out."""
    found: list[str] = []
    while (task := queue.claim("ada", lease_s=lease_s)) is not None:
        found.append(task.name)
    return found


def test_a_team_knows_who_is_there_and_what_each_can_do(memory: ak.Repository) -> None:
    """AAF-8: create_team, update_agent_status, get_team, get_available_agents; add, remove, shared context."""
    teams = memory.teams
    assert teams.create("web", "hierarchical").mode == "hierarchical"
    teams.join("web", "ada", ["python", "sql"])
    teams.join("web", "bob", ["css"])
    teams.status("web", "ada", "busy", current_task="the parser")
    assert teams["web"].members["ada"].current_task == "the parser"
    assert [member.agent for member in teams.available()] == ["bob"]
    assert teams.available("sql") == []
    teams.status("web", "ada", "available")
    assert [member.agent for member in teams.available("sql", "web", within_s=60)] == ["ada"]
    teams.leave("web", "bob")
    assert teams["web"].agents == ["ada"]
    teams.share("web", goal="ship it")
    assert teams.share("web", done=3) == teams.shared("web") == {"goal": "ship it", "done": 3}


@pytest.mark.parametrize("mode", ["sequential", "parallel", "hierarchical", "consensus", "broadcast"])
def test_a_team_has_one_of_five_modes(memory: ak.Repository, mode: str) -> None:
    """AAF-8: the five modes, and no other."""
    memory.teams.create("web", mode)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert memory.teams["web"].mode == mode
    with pytest.raises(ak.InvalidRecordError, match="mode"):
        memory.teams.create("other", f"{mode}ly")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("error", "act"),
    [
        (ak.RecordNotFoundError, lambda repo: repo.teams.join("nowhere", "ada")),
        (ak.RecordNotFoundError, lambda repo: repo.teams.leave("web", "nobody")),
        (ak.RecordNotFoundError, lambda repo: repo.teams.status("web", "nobody", "busy")),
        (ak.InvalidRecordError, lambda repo: repo.teams.status("web", "ada", "asleep")),
        (ak.StaleRecordError, lambda repo: repo.teams.create("web")),
        (ak.RecordNotFoundError, lambda repo: repo.queue("web").push("x", after="nowhere")),
        (ak.StaleRecordError, lambda repo: repo.queue("web").push("x", id="there")),
        (ak.InvalidRecordError, lambda repo: repo.queue("web").push("x", {"a": object()})),
        (ak.InvalidRecordError, lambda repo: repo.queue("web").push("x", id="x" * 500)),
        (ak.TransitionError, lambda repo: repo.queue("web").done("there")),
        (ak.RecordNotFoundError, lambda repo: repo.queue("web").done("nowhere")),
        (ValueError, lambda repo: repo.queue("a/b")),
    ],
)
def test_what_is_wrong_is_one_clear_error_and_changes_nothing(
    memory: ak.Repository, error: type[Exception], act: Callable[[ak.Repository], object]
) -> None:
    memory.teams.create("web")
    memory.teams.join("web", "ada")
    memory.queue("web").push("x", id="there")
    before = memory.teams["web"], memory.queue("web").find()
    with pytest.raises(error) as found:
        act(memory)
    assert "\n" not in str(found.value)
    assert (memory.teams["web"], memory.queue("web").find()) == before


# -- the queue


def test_the_highest_priority_goes_first_and_then_the_oldest(memory: ak.Repository) -> None:
    """AAF-9: enqueue with a priority."""
    queue = memory.queue("web")
    for name, priority in (("a", 0), ("b", 0), ("urgent", 5), ("later", -3), ("c", 0)):
        queue.push(name, priority=priority)
    assert names_of(queue) == ["urgent", "a", "b", "c", "later"]


def test_the_random_numbers_of_the_program_stay_as_they_are(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    for number in range(3):
        queue.push(str(number))
    before = random.getstate()
    assert len(names_of(queue)) == 3
    assert random.getstate() == before


def test_a_task_goes_from_pending_to_completed_with_its_result(memory: ak.Repository) -> None:
    """AAF-9: assign, complete with a result, get_queue_status, completion rate."""
    queue = memory.queue("web")
    first, second, third = (queue.push(f"task {number}") for number in range(3))
    assert queue.counts().pending == 3
    assert queue.assign(second, "bob").agent == "bob"
    task = claimed(queue)
    assert (task.id, task.agent, task.status) == (first.id, "ada", "in_progress")
    assert (queue.counts().pending, queue.counts().in_progress) == (1, 2)
    queue.done(task, {"lines": 40})
    queue.fail(second.id, ValueError("no"))
    assert queue[first.id].result == {"lines": 40}
    assert queue[second.id].error == "ValueError: no"
    counts = queue.counts()
    assert (counts.pending, counts.in_progress, counts.completed, counts.failed) == (1, 0, 1, 1)
    assert counts.completion_rate == pytest.approx(1 / 3)
    assert [change.new.status for change in queue.tasks.history(first.id) if change.new] == [
        "completed",
        "in_progress",
        "pending",
    ]
    with pytest.raises(ak.TransitionError):
        queue.assign(second, "bob")
    queue.cancel(third)
    assert queue.claim() is None


def test_a_task_waits_for_its_time_and_for_other_tasks(memory: ak.Repository, wait: Callable[[float], None]) -> None:
    """AAF-9: after a delay, or after other tasks."""
    queue = memory.queue("web")
    build = queue.push("build", id="build")
    queue.push("test", after=build, id="test")
    queue.push("ship", after=["build", "test"], priority=9)
    queue.push("soon", after=10)
    assert names_of(queue) == ["build"]
    queue.done(build.id)
    assert names_of(queue) == ["test"]
    wait(11)
    assert names_of(queue) == ["soon"]
    queue.done("test")
    assert names_of(queue) == ["ship"]


def test_what_needs_a_task_that_failed_fails_too(memory: ak.Repository) -> None:
    """AAF-9: fail. Nobody waits for ever."""
    queue = memory.queue("web")
    build = queue.push("build", id="build")
    test = queue.push("test", after=build)
    ship = queue.push("ship", after=test)
    queue.fail(claimed(queue), "no compiler")
    assert [queue[one.id].status for one in (build, test, ship)] == ["failed"] * 3
    assert queue[ship.id].error == f"it needs {test.id}, which is failed"
    assert queue.push("late", after=build).status == "failed"
    assert queue.retry(build).status == "pending"


def test_a_failure_is_tried_again_after_a_while(memory: ak.Repository, wait: Callable[[float], None]) -> None:
    """AAF-9: fail with a retry, AAF-13: backoff."""
    queue = memory.queue("web")
    queue.push("flaky", retries=2, backoff_s=20)
    waits: list[float] = []
    for _ in range(2):
        task = queue.fail(claimed(queue), "once more")
        waits.append(task.not_before_s - time.time())
        assert task.status == "pending"
        assert queue.claim() is None
        wait(61)
    assert waits[1] > waits[0]
    assert queue.fail(claimed(queue), "enough").status == "failed"
    queue.push("by hand")
    assert queue.fail(claimed(queue), retry=True).status == "pending"
    assert queue.fail(claimed(queue), retry=0.01).not_before_s > 0


def test_a_lease_that_ends_returns_the_task_and_the_late_worker_is_refused(memory: ak.Repository) -> None:
    """AAF-9, QA-7: expiry. What was done late is not done twice."""
    queue = memory.queue("web")
    queue.push("x")
    late = claimed(queue, lease_s=0.02)
    time.sleep(0.08)
    task = claimed(queue)
    assert (task.id, task.lost) == (late.id, 1)
    for act in (queue.done, queue.fail, queue.extend, queue.give_back):
        with pytest.raises(ak.StaleRecordError):
            act(late)
    assert queue.done(task, "mine").result == "mine"


def test_a_lease_is_extended_for_as_long_as_a_worker_takes(
    memory: ak.Repository, wait: Callable[[float], None]
) -> None:
    """AAF-9: heartbeat."""
    queue = memory.queue("web")
    queue.push("slow")
    task = claimed(queue, lease_s=4)
    queue.extend(task, lease_s=30)
    wait(5)
    assert queue.claim() is None
    queue.give_back(task)
    seen: list[Task | None] = []

    def work(task: Task) -> None:
        time.sleep(0.9)
        seen.append(queue.claim())

    assert queue.run(work, lease_s=0.4) is not None
    assert seen == [None]


def test_a_task_that_kills_its_workers_fails_in_the_end(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    task = queue.push("poison")
    for _ in range(5):
        claimed(queue, lease_s=0.001)
        time.sleep(0.06)
    assert queue.claim() is None
    assert "5 workers died with it" in queue[task.id].error


def test_a_worker_that_is_killed_returns_its_task_at_once(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    """A lease whose process is gone ends, however long it was."""
    queue = repo.queue("web")
    queue.push("x")
    worker = child("""
        print(repo.queue("web").claim("bob", lease_s=3600).id, flush=True)
        input()
    """)
    assert queue.claim() is None
    worker.kill()
    worker.wait()
    time.sleep(0.06)
    assert claimed(queue).claims == 2


@pytest.mark.parametrize(
    "gone", [{"boot": "an earlier start"}, {"host": "elsewhere", "boot": "its own"}, {"pid": 2**22}]
)
def test_a_lease_of_a_host_or_a_process_that_is_gone_ends(repo: ak.Repository, gone: dict[str, Any]) -> None:
    """The machine was started anew, or the store lies on a disk that no other machine has."""
    queue = repo.queue("web")
    queue.push("x")
    task = claimed(queue, lease_s=3600)
    holder = msgspec.structs.replace(Holder.of_this_process(), **gone)
    queue.tasks.update(task.id, process=msgspec.json.encode(holder).decode())
    time.sleep(0.06)
    assert claimed(queue).claims == 2


def test_a_function_or_an_agent_works_on_the_queue(memory: ak.Repository) -> None:
    """AAF-9: a task is run from the queue by a function, or by an agent."""
    queue = memory.queue("web")
    queue.push("double", {"n": 21})
    assert queue.run(lambda task: task.args["n"] * 2, "ada").result == 42  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    agent = ak.Agent("adder", model=ScriptedModel(["task.success(n + 1)"]))
    queue.push("Add one to n.", {"n": 41})
    done = queue.run(agent)
    assert done is not None
    assert (done.agent, done.result) == ("adder", 42)
    assert queue.run(agent) is None

    def fail(task: Task) -> None:
        raise OSError("no network")

    queue.push("bad")
    assert queue.run(fail).error == "OSError: no network"  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]

    def stop(task: Task) -> None:
        raise KeyboardInterrupt

    queue.push("stopped")
    with pytest.raises(KeyboardInterrupt):
        queue.run(stop)
    assert queue.counts().pending == 1


def test_tasks_are_pushed_together_or_not_at_all(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    assert len(queue.push_many(["a", "b", "c"], priority=2)) == 3
    with pytest.raises(ak.StaleRecordError):
        queue.push_many(["d", "e"], id="same")
    assert [task.name for task in queue.find("pending")] == ["a", "b", "c"]


def test_teams_have_queues_of_their_own(memory: ak.Repository) -> None:
    for team in ("a", "ab", "[a]"):
        memory.queue(team).push(team)
    assert [names_of(memory.queue(team)) for team in ("a", "ab", "[a]")] == [["a"], ["ab"], ["[a]"]]
    assert [task.name for task in memory.queue("[a]").find()] == ["[a]"]


def test_a_checkout_does_not_do_a_task_again(repo: ak.Repository) -> None:
    """The plane `store`: a task that is done stays done, and its team stays as it is."""
    queue = repo.queue("web")
    with ak.Versioned(repo) as state:
        state["x"] = 1
        task = queue.push("once")
        state.commit("one")
        state["x"] = 2
        queue.done(claimed(queue), "done")
        repo.teams.create("web")
        state.commit("two")
        state.rollback("HEAD~1")
        assert (state["x"], queue[task.id].status, "web" in repo.teams.records) == (1, "completed", True)
        assert queue.claim() is None


def test_threads_share_a_queue_and_no_task_is_lost_or_done_twice(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    for number in range(40):
        queue.push(str(number), after=[] if number < 20 else [queue.find()[number - 20]])
    done: list[str] = []

    def work() -> None:
        mine = memory.queue("web")
        while mine.counts().pending:
            mine.run(lambda task: done.append(task.name))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done, key=int) == [str(number) for number in range(40)]
    assert queue.counts().completed == 40


def drain(repo: ak.Repository, folder: Path, count: int) -> Counter[str]:
    """Have four processes do so many tasks; how often each was done."""
    queue = repo.queue("web")
    queue.push_many(map(str, range(count)))
    store = repo.store.url.removeprefix("lmdb://")
    files = [folder / f"done-{number}" for number in range(4)]
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, store, str(file)]) for file in files]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert queue.counts().completed == count
    return Counter(name for file in files for name in file.read_text().split())


def test_four_processes_drain_a_queue_and_no_task_is_lost_or_done_twice(repo: ak.Repository, tmp_path: Path) -> None:
    """AAF-9, QA-7: several processes on one store."""
    assert drain(repo, tmp_path, 100) == Counter(map(str, range(100)))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_processes_drain_ten_thousand_tasks(repo: ak.Repository, tmp_path: Path) -> None:
    """AAF-9, QA-7: the whole."""
    assert drain(repo, tmp_path, 10_000) == Counter(map(str, range(10_000)))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_that_are_killed_lose_no_task_and_complete_none_twice(repo: ak.Repository, tmp_path: Path) -> None:
    """AAF-9: a worker is killed every half second, wherever it is."""
    queue = repo.queue("web")
    queue.push_many(map(str, range(3_000)))
    store = repo.store.url.removeprefix("lmdb://")

    def begin(number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORKER, store, str(tmp_path / f"done-{number}")])

    workers = [begin(number) for number in range(3)]
    killed = 0
    while queue.counts().pending:
        time.sleep(0.5)
        victim = workers.pop(0)
        if victim.poll() is None:
            victim.kill()
            killed += 1
        victim.wait()
        workers.append(begin(killed % 3))
    for worker in workers:
        worker.wait()
    queue.drain(lambda task: None)
    assert killed > 2
    assert queue.counts().completed == 3_000
    for task in queue.find():
        ends = [change for change in queue.tasks.history(task.id) if change.new and change.new.status == "completed"]
        assert len(ends) == 1
    assert repo.verify().is_sound


# -- transactions, leases that end, and what makes no sense


def test_a_task_that_waits_is_released_in_the_transaction_that_pushed_it(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("A")
    task = claimed(queue)
    with memory.transaction():
        queue.push("B", after=task)
        queue.done(task)
    assert names_of(queue) == ["B"]


def test_a_transaction_claims_each_task_once(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("A")
    with memory.transaction():
        assert claimed(queue).name == "A"
        assert queue.claim("ada") is None
        assert queue.counts().in_progress == 1
    assert queue.counts().in_progress == 1


def test_a_worker_that_does_nothing_until_it_is_awaited_completes_no_task(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("A")

    async def work(task: Task) -> None:
        pass

    def works(task: Task) -> Any:
        yield task

    for worker in (work, works):
        for do in (queue.run, queue.drain):
            with pytest.raises(TypeError, match="plain function"):
                do(worker)
    assert queue.counts().pending == 1
    done = queue.run(lambda task: work(task))
    assert done is not None
    assert (done.status, "plain function" in done.error) == ("failed", True)


def test_a_task_whose_lease_ended_is_pending(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("A")
    task = claimed(queue, lease_s=60)
    assert (queue.counts().pending, queue.counts().in_progress) == (0, 1)
    queue.extend(task, lease_s=0.01)
    time.sleep(0.05)
    assert (queue.counts().pending, queue.counts().in_progress) == (1, 0)
    assert (queue.in_progress(), [one.name for one in queue.find("pending")]) == ([], ["A"])
    assert queue[task.id].status == "pending"


@pytest.mark.parametrize("is_back", [False, True])
def test_a_late_answer_counts_until_somebody_else_has_the_task(memory: ak.Repository, is_back: bool) -> None:
    queue = memory.queue("web")
    queue.push("A")
    task = claimed(queue, lease_s=0.01)
    time.sleep(0.06)
    if is_back:
        queue.push("B", after=3600.0)
        queue._take_back()
    assert queue.done(task, "late").result == "late"
    assert queue.counts().completed == 1


def test_who_has_a_task_is_said_to_who_lost_it(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    pushed = queue.push("A")
    task = claimed(queue, lease_s=0.01)
    time.sleep(0.06)
    other = queue.claim("bob")
    assert other is not None
    for answer in (queue.done, queue.fail, queue.give_back, queue.extend):
        with pytest.raises(ak.StaleRecordError, match="is not yours: your lease ended, and bob has it"):
            answer(task)
    queue.done(other)
    with pytest.raises(ak.StaleRecordError, match="is not yours: you did not claim it, and bob completed it"):
        queue.done(pushed)


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf")])
def test_numbers_of_seconds_make_sense(memory: ak.Repository, number: float) -> None:
    queue = memory.queue("web")
    queue.push("A")
    acts: tuple[Callable[[], object], ...] = (
        lambda: queue.push("B", after=number),
        lambda: queue.push("B", backoff_s=number),
        lambda: queue.claim(lease_s=number),
    )
    for act in acts:
        with pytest.raises(ValueError, match="seconds"):
            act()
    assert queue.counts() == memory.queue("web").counts()
    assert queue.counts().pending == 1


def test_one_text_is_not_several_names(memory: ak.Repository) -> None:
    memory.teams.create("web")
    for act in (lambda: memory.teams.join("web", "ada", "css"), lambda: memory.queue("web").push_many("css")):
        with pytest.raises(TypeError, match="list of text"):
            act()
    assert memory.teams["web"].agents == []


def test_what_is_wrong_with_a_team_is_said(memory: ak.Repository) -> None:
    memory.teams.create("web")
    with pytest.raises(ak.StaleRecordError, match=r"^Team 'web' is there already$"):
        memory.teams.create("web")
    with pytest.raises(ak.RecordNotFoundError, match=r"^there is no agent 'zed' in team 'web'$"):
        memory.teams.leave("web", "zed")


def test_a_task_is_answered_once(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    waiting = queue.push("later")
    for act in (queue.done, queue.fail, queue.give_back, queue.retry):
        with pytest.raises(ak.TransitionError):
            act(waiting.id)
    task = queue.claim("ada")
    assert task is not None
    with pytest.raises(ak.TransitionError):
        queue.retry(task)
    queue.done(task, "first")
    for again in (task, task.id):
        with pytest.raises(ak.TransitionError, match="from completed to completed"):
            queue.done(again, "second")
        with pytest.raises(ak.TransitionError):
            queue.fail(again, "too late")
    assert queue[task.id].result == "first"
    queue.push("fails")
    failed = queue.claim("ada")
    assert failed is not None
    queue.fail(failed, "first")
    with pytest.raises(ak.TransitionError):
        queue.fail(failed, "second")
    assert (queue[failed.id].failures, queue[failed.id].error) == (1, "first")
    other = queue.push("not wanted")
    ended_s = queue.cancel(other).ended_s
    with pytest.raises(ak.TransitionError):
        queue.cancel(other)
    assert queue[other.id].ended_s == ended_s


def test_a_task_that_waits_is_not_said_to_be_invalid(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("first", id="first")
    queue.push("second", after="first", id="second")
    with pytest.raises(ak.RecordStateError, match=r"^Task 'web/second': it waits for web/first; assign it when"):
        queue.assign("second", "ada")


@pytest.mark.parametrize("worker", [5, None, "add"])
def test_what_cannot_be_called_takes_no_task(memory: ak.Repository, worker: Any) -> None:
    queue = memory.queue("web")
    queue.push("build")
    for work in (queue.run, queue.drain, memory.agents.supervise("ada").run):
        with pytest.raises(TypeError, match="takes a function, not"):
            work(worker)
    assert queue.counts().pending == 1


# -- when a task can be claimed


def test_a_task_waits_for_a_span_or_for_a_moment_with_a_time_zone(memory: ak.Repository) -> None:
    queue, now = memory.queue("web"), datetime.now(UTC)
    waiting = queue.push("in an hour", after=timedelta(hours=1))
    dated = queue.push("at a moment", after=now + timedelta(hours=1))
    elsewhere = queue.push("in another zone", after=(now + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5))))
    past = queue.push("yesterday", after=now - timedelta(days=1))
    for task in (waiting, dated, elsewhere):
        assert task.not_before_s == pytest.approx(now.timestamp() + 3_600, abs=5)
    assert claimed(queue).id == past.id
    assert queue.claim() is None


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (datetime(2030, 1, 1), "after is a time with a time zone"),
        (date(2030, 1, 1), "after is a number of seconds, a timedelta, a datetime, a task or a list of tasks, not"),
        (timedelta(seconds=-1), "after is 0 or more seconds"),
        (None, "after is a number of seconds"),
        (b"x", "after is a number of seconds"),
        ({}, "after is a number of seconds"),
        ([5], "a task is given as itself or by its id, not as 5"),
    ],
)
def test_what_a_task_cannot_wait_for_is_said_and_nothing_is_pushed(
    memory: ak.Repository, after: Any, said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        memory.queue("web").push("x", after=after)
    assert memory.queue("web").counts().total == 0


def test_a_task_that_nobody_has_says_who_can_end_it(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    task = queue.push("x", id="x")
    ends: tuple[Callable[[], object], ...] = (
        lambda: queue.done(task),
        lambda: queue.fail("x"),
        lambda: queue.give_back("x"),
    )
    for act in ends:
        with pytest.raises(ak.TransitionError, match=r"nobody has it yet; claim\(\) it first, or assign\(\) it$"):
            act()
    queue.done(claimed(queue))
    for act in (lambda: queue.retry("x"), lambda: queue.cancel("x"), lambda: queue.assign("x", "ada")):
        with pytest.raises(ak.TransitionError, match=r"it is completed; push\(\) another one to have it done again$"):
            act()


def test_what_waits_for_a_task_that_kills_its_workers_fails_with_it_and_it_can_be_tried_again(
    memory: ak.Repository,
) -> None:
    queue = memory.queue("web")
    poison = queue.push("poison", id="poison")
    after = queue.push("after", after=poison)
    for _ in range(5):
        claimed(queue, 0.01)
        time.sleep(0.07)  # longer than the queue waits until it looks again whose lease has ended
    assert queue.claim() is None
    assert (queue["poison"].status, queue[after.id].status) == ("failed", "failed")
    assert {task.id for task in queue.find("failed")} == {after.id, poison.id}
    queue.retry("poison")
    assert (claimed(queue).id, queue["poison"].lost) == (poison.id, 0)


def test_a_worker_that_takes_something_else_takes_no_task(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("x")
    nothing: Any = lambda: 5  # noqa: E731
    for act in (lambda: queue.run(nothing), lambda: queue.drain(nothing)):
        with pytest.raises(
            TypeError, match=r"^a worker takes one value, and the function <lambda> cannot be called so"
        ):
            act()
    assert queue.counts().pending == 1


def test_of_a_result_only_what_json_does_not_hold_becomes_text(memory: ak.Repository) -> None:
    queue = memory.queue("web")
    queue.push("A")
    done = queue.done(claimed(queue), {"rows": 344, "kept": [1, {2}], "frame": Counter})
    assert done.result == {"rows": 344, "kept": [1, [2]], "frame": "<class 'collections.Counter'>"}
