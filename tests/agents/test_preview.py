"""A preview runs on a fork: what it did is shown, taken on without running again, or gone; the parent is never harmed."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import Agent
from agent_kernel.agents.events import ApprovalRequested, Effect, Output, StateChange
from agent_kernel.agents.models.loop import model_loop
from agent_kernel.agents.preview import Preview, forking, preview
from agent_kernel.agents.run import Run
from agent_kernel.agents.starting import place_of, reopened, started
from agent_kernel.errors import PreviewRefusedError
from agent_kernel.repository import hex_of
from agent_kernel.session import Versioned
from tests.agents.races import children, opened, scripted

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture(params=["folder", "memory"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Versioned]:
    model_loop()  # which has files of its own
    before = children()
    place = ak.open(tmp_path / "store" if request.param == "folder" else "memory:")
    with place, Versioned(place) as state:
        state["rows"] = [3, 1, 2]
        state.commit("start")
        files = open_files()
        yield state
        left = {name for name in state.repo.branches() if name != "main"}
        assert not left
        assert set(state.repo.heads()) == {"", state.session.id}
        assert open_files() <= files
    assert children() == before


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest) -> None:
    if "refused" not in request.node.name:
        request.getfixturevalue("safe_forks")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def told(seen: Preview) -> list[tuple[str, str]]:
    return [(one.how, one.name) for one in seen.changed]


def test_what_the_code_did_is_shown_and_nothing_here_has_changed(state: Versioned) -> None:
    head = state.session.head
    state["gone"] = 1
    seen = preview("rows.sort()\nnew = len(rows)\ndel gone\nprint('hello')\nnew", state)
    assert told(seen) == [("-", "gone"), ("+", "new"), ("~", "rows")]
    assert seen.changed[2].summary == "list of 3 int, [1, 2, 3]"
    assert (seen.status, seen.text) == ("ok", "hello\n3\n")
    assert state["rows"] == [3, 1, 2]
    assert "new" not in state
    assert head != state.session.head  # what was not committed yet is now
    seen.reject()


def test_accepting_takes_it_on_without_running_it_again(state: Versioned, tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen = preview(f"rows.sort()\nwith open({str(log)!r}, 'a') as f: _ = f.write('ran ')\ndel f\nsame = rows", state)
    assert seen.told == ""
    seen.accept()
    assert log.read_text() == "ran "
    assert state["rows"] == [1, 2, 3]
    assert state["same"] is state["rows"]
    commit = state.repo.show(hex_of(state.session.head or state.repo.resolve("HEAD")))
    assert commit.cell is not None
    assert commit.cell.source.startswith("rows.sort()")
    state.undo()
    assert dict(state) == {"rows": [3, 1, 2]}


def test_an_accepted_preview_is_merged_with_what_happened_since(state: Versioned) -> None:
    seen = preview("best = min(rows)", state)
    state["mine"] = 1
    seen.accept()
    assert (state["best"], state["mine"]) == (1, 1)


def test_a_conflict_with_what_happened_since_changes_nothing(state: Versioned) -> None:
    seen = preview("rows.sort()", state)
    state["rows"] = [9]
    with pytest.raises(ak.MergeConflictError):
        seen.accept()
    assert state["rows"] == [9]
    seen.reject()


def test_rejecting_leaves_nothing_behind(state: Versioned) -> None:
    head, commits = state.session.head, len(state.history(50))
    seen = preview("rows.clear()\nbig = bytearray(100_000)", state)
    assert [name for name in state.repo.branches() if name.startswith("preview/")] == [seen.branch]
    seen.reject()
    seen.reject()
    assert (state.session.head, len(state.history(50))) == (head, commits)
    assert list(state.repo.branches()) == ["main"]


def test_an_endless_loop_ends_with_what_it_had_done(state: Versioned) -> None:
    seen = preview("begun = 1\nwhile True:\n    pass", state, deadline_s=0.3)
    assert (seen.status, told(seen)) == ("timeout", [("+", "begun")])
    seen.reject()


def test_one_that_does_not_listen_is_killed(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "GRACE_S", 0.1)
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(600)"
    seen = preview(code, state, deadline_s=0.3)
    assert (seen.status, seen.seen.why) == ("killed", "it did not end within 0.3 s, and was killed")
    assert state["rows"] == [3, 1, 2]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import ctypes\nctypes.string_at(0)", "it crashed: SIGSEGV"),
        ("import os\nos.abort()", "it crashed: SIGABRT"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it crashed: SIGKILL"),
        ("import os\nos._exit(7)", "it ended with exit status 7, and said nothing"),
    ],
)
def test_a_crash_is_told_and_harms_nothing_here(state: Versioned, code: str, why: str) -> None:
    seen = preview(code, state)
    assert (seen.status, seen.seen.why) == ("crashed", why)
    assert why in seen.told
    state["after"] = 1
    state.commit("it goes on")


def test_what_it_leaves_running_is_ended(state: Versioned, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import subprocess\nopen({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))"
    preview(code, state).reject()
    end = time.monotonic() + 10
    while time.monotonic() < end and _is_alive(int(note.read_text())):
        time.sleep(0.01)
    assert not _is_alive(int(note.read_text()))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_an_error_is_what_it_came_to(state: Versioned) -> None:
    seen = preview("half = 1\n1 / 0", state)
    assert (seen.status, told(seen)) == ("failed", [("+", "half")])
    assert "ZeroDivisionError" in seen.text
    assert repr(seen) == "<Preview, failed (ZeroDivisionError: division by zero): +half>"
    assert seen.told == "ZeroDivisionError: division by zero"
    with pytest.raises(ak.PreviewNotAcceptedError, match=r"did not come to its end \(ZeroDivisionError"):
        seen.accept()
    assert "half" not in state
    seen.reject()


def test_a_preview_that_was_ended_cannot_be_accepted(state: Versioned) -> None:
    seen = preview("begun = 1\nwhile True:\n    pass", state, deadline_s=0.3)
    with pytest.raises(ak.PreviewNotAcceptedError, match="did not come to its end"):
        seen.accept()
    assert "begun" not in state
    seen.reject()


def test_a_preview_is_decided_about_once(state: Versioned) -> None:
    once, never = preview("one = 1", state), preview("two = 2", state)
    once.accept()
    with pytest.raises(ak.PreviewNotAcceptedError, match="it was accepted before; nothing was changed"):
        once.accept()
    never.reject()
    with pytest.raises(ak.PreviewNotAcceptedError, match="it was rejected before"):
        never.accept()
    assert (state["one"], "two" in state) == (1, False)


def test_an_interrupt_while_it_runs_ends_it(state: Versioned) -> None:
    before = children()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.name = "agent-kernel test"
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        preview("import time\ntime.sleep(600)", state)
    timer.join()
    assert children() == before


def test_what_it_prints_past_python_is_heard(state: Versioned) -> None:
    seen = preview("import os\nos.system('echo from outside')\nos.write(2, b'raw')", state)
    assert "from outside\n" in seen.text
    assert "raw" in seen.text
    assert ("runs", "echo from outside", 1) in seen.effects
    seen.reject()


def test_halves_of_characters_that_it_prints_are_spelled_out(state: Versioned) -> None:
    seen = preview("total = sum(rows)\nprint('\\ud83d', total)", state)
    assert (seen.status, seen.text) == ("ok", "\\ud83d 6\n")
    seen.accept()
    assert state["total"] == 6


def test_it_sees_what_no_store_can_hold(state: Versioned) -> None:
    state["handle"] = lock = threading.Lock()
    seen = preview("was = handle.acquire(blocking=False)", state)
    assert told(seen) == [("+", "was")]
    assert seen.told == ""
    seen.accept()
    assert state["was"] is True
    assert state["handle"] is lock
    assert not lock.locked()


def test_what_cannot_be_saved_is_said_to_run_again(state: Versioned, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"import threading\nlock = threading.Lock()\nwith open({str(log)!r}, 'a') as f: _ = f.write('ran ')\ndel f"
    seen = preview(code, state)
    assert seen.told == "lock cannot be saved: approving runs the code again"
    seen.accept()
    assert log.read_text() == "ran ran "
    assert isinstance(state["lock"], type(threading.Lock()))


def test_a_state_without_history_is_shown_and_accepting_runs_the_code() -> None:
    state: dict[str, object] = {"rows": [2, 1]}
    seen = preview("lowest = min(rows)", state)
    assert told(seen) == [("+", "lowest")]
    assert "no history" in seen.told
    assert "lowest" not in state
    seen.accept()
    assert state["lowest"] == 1


def test_numbers_that_were_drawn_are_not_drawn_again(state: Versioned) -> None:
    random.seed(1)
    expected = [random.random() for _ in range(2)]
    random.seed(1)
    preview("import random\nfirst = random.random()", state).accept()
    assert [state["first"], random.random()] == expected


def test_a_thread_that_nobody_knows_is_named_and_the_fork_denied(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="downloader")
    thread.start()
    try:
        with pytest.raises(PreviewRefusedError) as caught:
            preview("x = 1", state)
    finally:
        gate.set()
        thread.join()
    assert "thread 'downloader' runs" in str(caught.value)
    assert "agent_kernel.race" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_threads_of_our_own_do_not_stand_in_the_way(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="agent-kernel models")
    thread.start()
    try:
        preview("x = 1", state).reject()
    finally:
        gate.set()
        thread.join()


def test_a_pool_without_work_does_not_either_but_one_at_work_does(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1, "pool") as pool:
        pool.submit(int).result()
        preview("x = 1", state).reject()
        begun = threading.Event()

        def work() -> bool:
            begun.set()
            return gate.wait()

        working = pool.submit(work)
        begun.wait()
        try:
            with pytest.raises(PreviewRefusedError, match="'pool_0'"):
                preview("x = 1", state)
        finally:
            gate.set()
        assert working.result()


def test_a_library_with_a_pool_of_its_own_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", type(sys)("jax"))
    with pytest.raises(PreviewRefusedError, match="jax is loaded"):
        preview("x = 1", state)


def test_from_a_thread_there_is_no_preview(state: Versioned) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(forking.refusal()), name="aside")
    thread.start()
    thread.join()
    assert "'aside'" in found[0]


def test_openmp_with_several_threads_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_pools", lambda: "")
    monkeypatch.setattr(forking, "_mapped_openmp", lambda: {"/lib/libgomp.so.1"})
    monkeypatch.setattr(forking, "_native_threads", lambda: True)
    monkeypatch.setattr(forking, "_most_threads", lambda _: 4)
    with pytest.raises(PreviewRefusedError, match="OpenMP runs 4 threads"):
        preview("x = 1", state)
    monkeypatch.setattr(forking, "_most_threads", lambda _: 1)
    preview("x = 1", state).reject()


def test_cuda_in_use_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": Cuda}))
    with pytest.raises(PreviewRefusedError, match="CUDA is in use"):
        preview("x = 1", state)


def test_a_system_that_cannot_fork_says_so(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(PreviewRefusedError, match="this system cannot fork"):
        preview("x = 1", state)


# -- as steps of a run


def begun(state: Versioned, *turns: str, **options: object) -> Run[object]:
    agent = Agent("analyst", model=scripted(*turns), state=state, **options)  # type: ignore[arg-type]
    return started(agent, "go", place_of(state), preview=True)


def asked(run: Run[object]) -> ApprovalRequested:
    found = run.events[-1]
    assert isinstance(found, ApprovalRequested)
    return found


def drive(run: Run[object]) -> None:
    for _ in run.stream():
        pass


def driven(run: Run[object]) -> Run[object]:
    drive(run)
    return run


def test_a_run_asks_about_each_step_with_what_it_did(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\nprint('sorted')", "task.success(rows[0])"))
    first = asked(run)
    assert (run.status, first.preview, first.output, first.told) == ("pending", "ok", "sorted\n", "")
    assert first.changed == (("~", "rows", "list of 3 int, [1, 2, 3]"),)
    assert state["rows"] == [3, 1, 2]
    drive(run.approve())
    assert (state["rows"], run.status) == ([1, 2, 3], "pending")
    drive(run.approve())
    assert (run.status, run.outcome.value) == ("completed", 1)
    assert next(e.sent for e in run.events if isinstance(e, Output)).startswith("sorted")
    assert [e.changed for e in run.events if isinstance(e, StateChange)] == [first.changed]
    state.undo()
    assert dict(state) == {"rows": [3, 1, 2]}


def test_a_denied_step_leaves_nothing_and_the_model_is_told(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()", "task.success('kept')"))
    drive(run.deny("not those"))
    assert state["rows"] == [3, 1, 2]
    assert "Reason: not those." in next(e.sent for e in run.events if isinstance(e, Output))
    assert driven(run.approve()).result() == "kept"


def test_what_a_person_writes_instead_runs_instead(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()", "task.success()"))
    drive(run.edit("rows.append(4)"))
    assert state["rows"] == [3, 1, 2, 4]
    run.abandon()


def test_a_run_that_is_given_up_leaves_no_branch(state: Versioned) -> None:
    run = driven(begun(state, "rows.clear()"))
    assert asked(run).branch
    run.abandon()
    assert list(state.repo.branches()) == ["main"]


def test_somebody_else_may_approve_it_later(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\ntask.success(len(rows))"))
    again = reopened(place_of(state), run.id, model=scripted("task.fail('asked again')"))
    assert driven(again.approve()).outcome.value == 3
    assert state["rows"] == [1, 2, 3]


def test_a_step_that_crashed_on_the_fork_is_asked_about_and_the_model_told(state: Versioned) -> None:
    run = driven(begun(state, "import ctypes\nctypes.string_at(0)", "task.success('other way')"))
    first = asked(run)
    assert (first.preview, first.told) == ("crashed", "it crashed: SIGSEGV: approving runs it here")
    drive(run.deny("it crashes"))
    assert driven(run.approve()).result() == "other way"


def test_where_there_can_be_no_preview_the_question_says_why(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="downloader")
    thread.start()
    try:
        run = driven(begun(state, "rows.sort()\ntask.success()"))
    finally:
        gate.set()
        thread.join()
    assert asked(run).preview == "refused"
    assert "'downloader'" in asked(run).told
    assert state["rows"] == [3, 1, 2]
    drive(run.approve())
    assert state["rows"] == [1, 2, 3]


def test_what_changed_meanwhile_makes_the_step_run_again(state: Versioned) -> None:
    run = driven(begun(state, "rows.sort()\ntask.success(rows[0])"))
    state["rows"] = [9, 8]
    drive(run.approve())
    assert state["rows"] == [8, 9]
    assert "so it was run again" in next(e.sent for e in run.events if isinstance(e, Output))
    assert run.outcome.value == 8


def test_effects_on_the_fork_have_happened_and_are_told_once(state: Versioned, tmp_path: Path) -> None:
    run = driven(begun(state, f"open({str(tmp_path / 'x')!r}, 'w').close()", "task.success()"))
    assert asked(run).effects == (("writes", str(tmp_path / "x"), 1),)
    drive(run.approve())
    assert [e.count for e in run.events if isinstance(e, Effect)] == [1]
    run.abandon()


def test_where_nobody_can_be_asked_a_previewed_step_is_denied(state: Versioned) -> None:
    agent = Agent("analyst", model=scripted("rows.clear()", "task.success()"), state=state)
    run = driven(started(agent, "go", place_of(state), preview=True, can_ask=False))
    assert state["rows"] == [3, 1, 2]
    assert "nobody is there to ask" in next(e.sent for e in run.events if isinstance(e, Output))


def test_classes_of_the_notebook_are_its_own_in_what_comes_back(state: Versioned) -> None:
    seen = preview("class Point:\n    def __init__(self, x): self.x = x\npoint = Point(2)", state)
    seen.accept()
    assert type(state["point"]) is state["Point"]
    preview("point.x = 3", state).accept()
    assert getattr(state["point"], "x", None) == 3


@pytest.mark.parametrize(
    "code", ["rows = [rows, rows]\nother = rows[0]", "def f(): return rows\nrows.append(f())", "rows[0] = {'a': rows}"]
)
def test_what_is_shared_stays_shared(state: Versioned, code: str) -> None:
    with Versioned(ak.open("memory:")) as plain:
        plain["rows"] = [3, 1, 2]
        exec(code, plain.session.namespace)
        plain.session.namespace.pop("__builtins__", None)
        preview(code, state).accept()
        assert set(state) == set(plain)
        assert repr(state["rows"]) == repr(plain["rows"])
        if "other" in plain:
            assert state["other"] is state["rows"][0]  # type: ignore[index]


def test_a_fork_of_much_memory_is_quick(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    with opened(tmp_path, x=numpy.ones(25_000_000)) as state:
        began = time.monotonic()
        preview("y = 1", state).accept()
        assert time.monotonic() - began < 5


def test_a_preview_that_is_bound_to_a_name_takes_nothing_along_into_the_history(state: Versioned) -> None:
    state["seen"] = preview("best = 1", state)
    report = state.commit("look at it")
    assert [(one.name, one.reason) for one in report.unsaved] == [("seen", "it holds an open store")]
    assert [change.name for change in report.changed] == ["seen"]
    seen = state["seen"]
    assert isinstance(seen, Preview)
    seen.accept()
    assert state["best"] == 1
    assert state["seen"] is seen


def test_what_was_undone_meanwhile_does_not_come_back_with_a_preview(state: Versioned) -> None:
    state["n"] = 1
    state.commit("one")
    state["n"] = 2
    state.commit("two")
    seen = preview("n = n * 10", state)
    state.undo()
    with pytest.raises(ak.MergeConflictError):
        seen.accept()
    assert state["n"] == 1
    seen.reject()
