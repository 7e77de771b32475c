"""A worker does one task on a branch of its own, in a process that is bounded; what becomes of it harms nobody."""

from __future__ import annotations

import functools
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec
import pytest

from agent_kernel.agents.agent import Agent
from agent_kernel.agents.event_log import EventStore, new_run_id
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.models import Model
from agent_kernel.agents.workers import (
    Candidate,
    Job,
    Processes,
    Task,
    pickle_value,
    redact_environment,
    run_job,
    stop_key,
    supervise_job,
)
from agent_kernel.repository import Holder, hex_of
from agent_kernel.session import Versioned, trust
from tests.agents.races import children, is_alive, opened, scripted, until


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with opened(tmp_path, rows=[3, 1, 2]) as state:
        yield state


def job_for(state: Versioned, model: Model, *, deadline_s: float = 60, memory_bytes: int | None = None) -> Job:
    head = state.session.head
    assert head is not None
    run = new_run_id()
    branch = f"try/{run[-5:]}"
    state.repo.create_branch(branch, head)
    candidate = Candidate(
        number=1, branch=branch, run=run, agent="analyst", model=model.name, task="sort", start=hex_of(head)
    )
    task = pickle_value(Task(Agent("analyst", model=model), "sort"))
    assert task is not None
    return Job(
        url=state.repo.store.url,
        candidate=candidate,
        task=task,
        approve="auto",
        limits=Limits(),
        deadline_s=deadline_s,
        memory_bytes=memory_bytes,
        race="r" * 16,
        home=Holder("elsewhere", "", 0, ""),
    )


def test_a_worker_commits_to_its_branch_and_gives_back_a_candidate(state: Versioned) -> None:
    code = "rows.sort()\nclass Point:\n    x = 1\npoint = Point()\ntask.success([type(point).__module__, rows])"
    job = job_for(state, scripted(code))
    found = pickle.loads(pickle.dumps(run_job(job)))
    assert (found.status, found.value) == ("completed", ["__main__", [1, 2, 3]])
    assert state["rows"] == [3, 1, 2]
    assert state.repo.at(found.tip)["rows"] == [1, 2, 3]
    assert hex_of(state.repo.branches()[found.branch]) == found.tip
    commit = state.repo.show(found.tip)
    assert (commit.author.name, commit.author.kind, commit.run) == ("analyst", "agent", found.run)
    kinds = [event.kind for event in EventStore(state.repo.store).of(found.run)]
    assert (kinds[0], kinds[-1]) == ("TaskStart", "Success")


def test_a_worker_trusts_a_store_that_only_the_one_who_asks_trusts(
    state: Versioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state["word"] = functools.partial(re.match, "[a-z]+")  # plain data would load without trust
    state.commit()
    model = scripted("task.success(word('one two')[0])", "task.fail('it cannot be loaded')")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))  # its list has no store
    assert not trust.is_trusted(state.repo)
    assert run_job(job_for(state, model)).reason == "it cannot be loaded"
    trust.trust_temporarily(trust.create_secret(state.repo), state.repo.store.url)
    job = job_for(state, model)
    found = run_job(msgspec.structs.replace(job, secret=trust.secret_to_pass_on(state.repo)))
    assert (found.status, found.reason, found.value) == ("completed", "", "one")


def test_where_the_store_was_used_last_is_where_the_person_was(state: Versioned) -> None:
    run_job(job_for(state, scripted("rows.append(4); task.success()")))
    assert state.repo.head().branch == "main"
    assert set(state.repo.heads()) == {"", state.session.id}


def test_a_value_that_cannot_be_pickled_comes_as_a_line_about_it(state: Versioned) -> None:
    found = run_job(job_for(state, scripted("import threading\ntask.success(threading.Lock())")))
    assert found.status == "completed"
    assert found.payload is None


def test_a_crash_is_a_failed_candidate_that_says_so(state: Versioned) -> None:
    found = run_job(job_for(state, scripted("kept = 1", "import ctypes\nctypes.string_at(0)")))
    assert (found.status, found.reason) == ("failed", "its process was ended by SIGSEGV")
    assert state.repo.at(found.branch)["kept"] == 1  # the step before it is a commit


def test_one_that_exits_gives_no_answer_and_says_with_what_status(state: Versioned) -> None:
    found = run_job(job_for(state, scripted("import os\nos._exit(3)")))
    assert found.status == "failed"
    assert "exit status 3" in found.reason


def test_an_endless_loop_ends_at_the_deadline_in_good_order(state: Versioned) -> None:
    found = run_job(job_for(state, scripted("while True:\n    pass"), deadline_s=1.0))
    assert (found.status, found.limit) == ("failed", "run_s")


def test_one_that_does_not_listen_is_killed_with_its_children(
    state: Versioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.agents.workers.GRACE_S", 0.5)
    note = tmp_path / "pid"
    code = f"""
import signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(str(child.pid))
while True:
    time.sleep(0.1)
"""
    pool = Processes(1)
    future = pool.submit(run_job, job_for(state, scripted(code)))
    until(lambda: note.exists() and bool(note.read_text()))
    pool.shutdown(cancel_futures=True)
    found = future.result()
    assert (found.status, found.reason) == ("failed", "it was stopped, did not end by itself, and was killed")
    pid = int(note.read_text())
    until(lambda: not is_alive(pid))


def test_one_that_does_not_listen_at_its_deadline_is_killed(
    state: Versioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.agents.workers.GRACE_S", 0.1)
    note = tmp_path / "begun"
    code = f"""
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
open({str(note)!r}, "w").close()
while True:
    time.sleep(0.1)
"""
    # On a busy machine its process takes seconds to start, and a step does not begin after the deadline.
    deadline_s = 2.0
    found = run_job(job_for(state, scripted(code), deadline_s=deadline_s))
    while not note.exists() and deadline_s < 60:
        deadline_s *= 3
        found = run_job(job_for(state, scripted(code), deadline_s=deadline_s))
    assert (found.status, found.reason) == ("failed", f"it did not end within {deadline_s:g} s, and was killed")


def test_nothing_is_left_of_a_worker(state: Versioned) -> None:
    before, files = children(), len(list(Path("/proc/self/fd").iterdir()))
    run_job(job_for(state, scripted("import subprocess, sys\nsubprocess.Popen(['sleep', '600'])\ntask.success(1)")))
    assert children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) <= files


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound what a process allocates")
def test_the_memory_of_a_worker_is_bounded(state: Versioned) -> None:
    code = "try:\n    big = bytearray(2_000_000_000)\nexcept MemoryError:\n    task.success('refused')\ntask.success('got it')"
    assert run_job(job_for(state, scripted(code), memory_bytes=600_000_000)).value == "refused"


def test_a_worker_does_not_get_what_looks_like_a_secret(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "abc")
    monkeypatch.setenv("HARMLESS", "postgres://me:hunter2@db/x")
    monkeypatch.setenv("COLOUR", "blue")
    code = "import os\ntask.success([os.environ.get(n) for n in ('GROQ_API_KEY', 'HARMLESS', 'COLOUR')])"
    assert run_job(job_for(state, scripted(code))).value == [None, None, "blue"]


def test_a_worker_gets_the_keys_of_its_own_provider_alone() -> None:
    environment = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b", "PATH": "/bin", "MY_TOKEN": "c"}
    assert redact_environment(environment, "openai:gpt-5") == {"OPENAI_API_KEY": "a", "PATH": "/bin"}
    assert redact_environment(environment, "scripted:x", ["MY_TOKEN"]) == {"PATH": "/bin", "MY_TOKEN": "c"}


def test_nobody_is_asked_in_a_worker_and_what_would_ask_is_denied(state: Versioned) -> None:
    import msgspec

    job = job_for(state, scripted("open('x', 'w')", "task.success('went on')"))
    found = run_job(msgspec.structs.replace(job, approve="risky"))
    assert found.value == "went on"
    denied = [e for e in EventStore(state.repo.store).of(found.run) if getattr(e, "status", "") == "denied"]
    assert len(denied) == 1


def test_a_setting_of_the_store_stops_it_and_keeps_what_it_committed(state: Versioned) -> None:
    pool = Processes(1)
    job = job_for(state, scripted("kept = 1", "import time\nwhile True:\n    time.sleep(0.01)"))
    future = pool.submit(run_job, job)
    event_store = EventStore(state.repo.store)
    until(lambda: sum(event.kind == "StepStart" for event in event_store.of(job.candidate.run)) == 2)
    state.repo.set_setting(stop_key(job.race), b"1")
    found = future.result(30)
    pool.shutdown()
    assert (found.status, found.reason) == ("interrupted", "the race was stopped")
    assert state.repo.at(found.branch)["kept"] == 1


def test_a_worker_ends_when_the_process_that_waits_for_it_has_died(state: Versioned, tmp_path: Path) -> None:
    job = job_for(state, scripted("while True:\n    pass"))
    (tmp_path / "job").write_bytes(pickle.dumps(job))
    code = (
        "import pickle, sys; from agent_kernel.agents.workers import supervise_job; "
        f"supervise_job(pickle.load(open({str(tmp_path / 'job')!r}, 'rb')))"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    event_store = EventStore(state.repo.store)
    until(lambda: any(event.kind == "StepStart" for event in event_store.of(job.candidate.run)))
    asking.kill()
    asking.wait()
    until(lambda: any(event.kind == "Cancelled" for event in event_store.of(job.candidate.run)))


def test_a_job_in_another_process_of_a_pool_is_again_a_process_of_its_own(state: Versioned) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(run_job, job_for(state, scripted("import ctypes\nctypes.string_at(0)"))).result()
        again = pool.submit(run_job, job_for(state, scripted("task.success(7)"))).result()
    assert found.reason == "its process was ended by SIGSEGV"
    assert again.value == 7


def test_a_store_that_is_not_there_is_a_failed_candidate(state: Versioned, tmp_path: Path) -> None:
    import msgspec

    job = msgspec.structs.replace(job_for(state, scripted("task.success(1)")), url=f"lmdb://{tmp_path}/nothing")
    found = supervise_job(job)
    assert found.status == "failed"
    assert "nothing" in found.reason


def test_a_branch_that_somebody_works_on_is_left_alone(state: Versioned) -> None:
    job = job_for(state, scripted("task.success(1)"))
    with Versioned(state.repo, branch=job.candidate.branch):
        found = supervise_job(job)
    assert found.status == "failed"
    assert "in use" in found.reason
