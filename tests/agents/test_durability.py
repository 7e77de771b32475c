"""What was shown of a run survives the death of its process, and no step is ever run twice by itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import Agent, FunctionModel, Run, ScriptedModel, Turn, models
from agent_kernel.agents.agent import reopen_run
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Action, ApprovalRequested, Cancelled, Event, Output, StateChange, StepStart
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.errors import ModelError, TaskInterruptedError, UntrustedStoreError
from agent_kernel.session import Repository, Session, bind
from agent_kernel.session.versioned import Versioned
from agent_kernel.storage import MemoryStore

# A step says in a file that it runs, so that whoever looks can count how often it did.
CHILD = """
import os, signal, sys
from agent_kernel.agents import Agent, FunctionModel, Turn
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.session.versioned import Versioned

store, marks, where = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

end = ExecutionContext.end
def dying_end(self, done, refuses):
    if where == "before the commit" and STEP == 2:
        die()
    found = end(self, done, refuses)
    if where == "after the commit" and STEP == 2:
        die()
    return found
ExecutionContext.end = dying_end

STEP = 0
def answer(request):
    global STEP
    STEP = request.turn + 1
    if where == "model" and STEP == 2:
        die()
    if STEP == 6:
        return Turn("task.success(seen)", delay_s=0.01)
    inside = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)" if where == "code" and STEP == 2 else ""
    return Turn(
        f"with open({marks!r}, 'a') as file: file.write('{STEP}\\\\n')\\nseen = globals().get('seen', []) + [{STEP}]\\nprint('step {STEP}')\\n{inside}",
        delay_s=0.01,
    )

state = Versioned(store)
run = Agent("ada", model=FunctionModel(answer), state=state).start("count")
print("run", run.id, flush=True)
for event in run:
    print(event.seq, event.kind, flush=True)
    if where == "after the output" and event.kind == "Output" and event.step == 2:
        die()
"""


def go_on(request: Any) -> Turn:
    """The model of the process that takes the run up: it goes on with the step that was asked for last."""
    step = request.turn + 1
    return Turn("task.success(seen)" if step >= 6 else f"seen = globals().get('seen', []) + [{step}]")


def die(tmp_path: Path, where: str, after_s: float | None = None) -> tuple[str, list[int]]:
    """Let a run begin in a process that dies; returns its id, and the numbers of the events that were shown."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(tmp_path / "marks"), where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        run = child.stdout.readline().split()[1]
        if after_s is not None:
            time.sleep(after_s)
            child.send_signal(signal.SIGKILL)
        shown = [int(line.split()[0]) for line in child.stdout.read().splitlines()]
    return run, shown


def taken_up(tmp_path: Path, run: str) -> tuple[Run[Any], tuple[Event, ...], Versioned]:
    """The run in this process, and its events as it was found."""
    state = Versioned(tmp_path / "store")
    found = reopen_run(ExecutionContext(state.session.namespace, state.session), run, model=FunctionModel(go_on))
    return found, found.events, state


def marks(tmp_path: Path) -> list[str]:
    return (tmp_path / "marks").read_text().split() if (tmp_path / "marks").exists() else []


@pytest.mark.parametrize("where", ["model", "code", "before the commit", "after the commit", "after the output"])
def test_a_run_whose_process_is_killed_goes_on_in_another(tmp_path: Path, where: str) -> None:
    run, shown = die(tmp_path, where)
    found, before, state = taken_up(tmp_path, run)
    with state:
        assert [event.seq for event in before][: len(shown)] == shown, "something that was shown was lost"
        assert found.status == "running"
        assert found.resume().result() is not None
        ran = marks(tmp_path)
        assert len(ran) == len(set(ran)), "a step was run twice"
        second = next((e for e in found.events if isinstance(e, Output) and e.step == 2), None)
        match where:
            case "code" | "before the commit":
                assert second is not None
                assert (second.status, second.parts) == ("unknown", ())
            case "after the commit":
                assert second is not None
                assert second.status == "ok"
                assert "step 2" in second.sent
                assert "~ seen: list of 2 int" in second.sent
                assert second.parts[0].text == "step 2"
                change = next(e for e in found.events if isinstance(e, StateChange) and e.step == 2)
                assert ("~", "seen") in [said[:2] for said in change.changed]
                assert second.after == change.after != second.before
            case _:
                assert where == "model" or "step 2" in (second.sent if second is not None else "")


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 8))])
def test_nothing_that_was_shown_is_lost_whenever_the_process_is_killed(tmp_path: Path, seed: int) -> None:
    run, shown = die(tmp_path, "", random.Random(seed).uniform(0.0, 0.25))
    found, before, state = taken_up(tmp_path, run)
    with state:
        assert [event.seq for event in before][: len(shown)] == shown
        if found.status == "running":
            found.resume().result()
        assert found.status == "completed"
        ran = marks(tmp_path)
        assert len(ran) == len(set(ran)), "a step was run twice"
        for at, event in enumerate(found.events):
            assert event.seq == at


def run_of(code: str | list[str], **more: Any) -> Run[Any]:
    """A run whose state is versioned, in memory."""
    turns = [code] if isinstance(code, str) else code
    session = Session({}, Repository.open(MemoryStore()))
    return Agent("ada", model=ScriptedModel(turns), state=session, **more).start("go")


def interrupting(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once, as the place ends its first step: before its commit, or behind it."""
    real: Callable[..., Any] = ExecutionContext.end
    left = [1]

    def end(self: ExecutionContext, done: Any, refuses: Callable[[], bool]) -> Any:
        if left and when == "before":
            left.pop()
            real(self, done, refuses)  # the step is over for the session, but nothing of it was committed
            raise KeyboardInterrupt
        found = real(self, done, refuses)
        if left:
            left.pop()
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(ExecutionContext, "end", end)


def test_an_interrupt_between_the_end_of_the_code_and_its_output_keeps_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupting("behind", monkeypatch)
    run = run_of(["x = 1; print('hello')", "task.success(x)"])
    with pytest.raises(TaskInterruptedError):
        run.result()
    output = next(event for event in run.events if isinstance(event, Output))
    assert output.status == "ok"
    assert "hello" in output.sent
    assert "+ x: int 1" in output.sent
    assert [event.kind for event in run.events[-3:]] == ["Output", "StateChange", "Cancelled"]
    assert run.resume().result() == 1


def test_an_interrupt_that_leaves_no_commit_is_known_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting("before", monkeypatch)
    monkeypatch.setattr("agent_kernel.agents.executor.find_step_commit", lambda *_: None)
    run = run_of(["x = 1", "task.success(x)"])
    with pytest.raises(TaskInterruptedError):
        run.result()
    assert [event.status for event in run.events if isinstance(event, Output)] == ["interrupted"]
    assert run.resume().result() == 1


def test_an_answer_that_was_stored_but_not_begun_is_asked_about_again() -> None:
    store = MemoryStore()
    session = Session({}, Repository.open(store))
    run = Agent("ada", model=ScriptedModel(["import os\nos.remove('x')"]), state=session, approve="risky").start("go")
    for event in run:
        if isinstance(event, Action):
            break
    again = reopen_run(ExecutionContext(session.namespace, session), run.id)
    kinds = [event.kind for event in again]
    assert kinds[-1] == "ApprovalRequested"
    assert again.outcome.status == "pending"
    assert not any(isinstance(event, StepStart | Output) for event in again.events)
    # Nor does a request that was stored change its mind.
    assert reopen_run(ExecutionContext(session.namespace, session), run.id).status == "pending"
    assert sum(isinstance(event, ApprovalRequested) for event in EventStore(store).of(run.id)) == 1


def test_a_step_that_ends_the_run_is_stored_with_its_end_in_one_go() -> None:
    run = run_of(["task.success(7)"])
    for event in run:
        if isinstance(event, Output):
            break
    stored = list(EventStore(run._run_executor.context.event_store._store).of(run.id))
    assert [event.kind for event in stored[-2:]] == ["Output", "Success"]


def test_an_interrupt_while_the_model_answers_leaves_no_step_behind() -> None:
    def answer(_: Any) -> Turn:
        os.kill(os.getpid(), signal.SIGINT)
        return Turn("task.success(1)", delay_s=0.2)

    session = Session({}, Repository.open(MemoryStore()))
    run = Agent("ada", model=FunctionModel(answer), state=session).start("go")
    with pytest.raises(TaskInterruptedError):
        run.result()
    last = run.events[-1]
    assert isinstance(last, Cancelled)
    assert last.during == "model"
    assert not any(isinstance(event, Action) for event in run.events)


def test_a_script_that_the_branch_has_and_memory_has_not_is_said_to_come_back_by_a_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    with Repository.open(store) as repo:
        session = Session({"s1": ["task.clarify('Which?')", "task.success(task)"]}, repo)
        session.commit("a script")
        run = Agent("ada", model=ScriptedModel(["task.clarify('Which?')"], name="s1"), state=session).start("go")
        list(run.stream())
        later = Session({}, repo, branch=session.branch)
        monkeypatch.setattr(models, "_registered", {})  # another process knows none
        with pytest.raises(
            ModelError, match="s1 is not in memory, and the branch has it: %agent checkout brings it back"
        ):
            _ = reopen_run(ExecutionContext(later.namespace, later), run.id)


def test_halves_of_characters_that_no_bytes_can_hold_are_spelled_out(tmp_path: Path) -> None:
    half = "\ud83d"
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    code = [f"word = {half!r}  # {half}", "print(word)", "raise ValueError(word)", f"open({name!r}, 'w').close()"]
    with Versioned(tmp_path / "store") as state:
        agent = Agent("ada", model=ScriptedModel([*code, "task.fail(word)"]), state=state)
        run = agent.start(f"look {half}")
        list(run.stream())
        assert run.outcome.reason == "\\ud83d"
        assert state["word"] == half
        assert "\\ud83d" in "".join(event.sent for event in run.events if isinstance(event, Output))
        assert list(agent.reopen(run.id).events) == list(run.events)


@pytest.mark.parametrize("at", range(1, 10))
def test_an_interrupt_while_an_event_is_stored_stops_the_run_and_it_goes_on(at: int) -> None:
    store = MemoryStore()
    swap, stored = store.swap, 0

    def interrupted(expected: Any, new: Any, *more: Any, **named: Any) -> bool:
        nonlocal stored
        done = swap(expected, new, *more, **named)
        stored += any(key.startswith(b"e/") for key in new)
        if stored == at and any(key.startswith(b"e/") for key in new):
            signal.raise_signal(signal.SIGINT)
        return done

    session = Session({"ran": []}, Repository.open(store))
    model = FunctionModel(lambda request: f"ran.append({request.turn})" if request.turn < 2 else "task.success()")
    agent = Agent("ada", model=model, state=session)
    run = agent.start("work")
    store.swap = interrupted  # type: ignore[method-assign]
    try:
        list(run.stream())
    except KeyboardInterrupt:
        run.halt()
    if run.status != "completed":
        assert run.status == "interrupted"
        run.resume().result()
    assert session.namespace["ran"] in ([0, 1], [0], [1])  # a step is not repeated that was stopped as it began
    assert list(agent.reopen(run.id).events) == list(run.events)


def test_a_run_of_a_store_that_somebody_else_made_goes_on_only_once_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "theirs"))
    with Versioned(tmp_path / "store") as state:
        model = ScriptedModel(["theirs = 1", "task.success()"], name="theirs")
        run = Agent("ada", model=model, state=state).start("work")
        next(event for event in run.stream() if isinstance(event, Action))
        run.halt()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    with Repository.open(tmp_path / "store") as repo, closing(bind({}, repo)) as session:
        with pytest.raises(UntrustedStoreError):
            _ = reopen_run(ExecutionContext(session.namespace, session), run.id)
        assert "theirs" not in session.namespace
        session.trust()
        reopen_run(ExecutionContext(session.namespace, session), run.id).resume().result()
        assert session.namespace["theirs"] == 1
