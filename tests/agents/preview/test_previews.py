"""A preview runs on a fork: what it did is shown, taken on without running again, or gone; the parent is never harmed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.agents import preview as previews
from agent_kernel.agents.agent import open_context
from agent_kernel.agents.current import register_notebook
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.preview import Preview, preview
from agent_kernel.repository import hex_of
from agent_kernel.session import Versioned
from tests.agents.preview.seen import told
from tests.agents.races import children, is_alive, opened

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]


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
    monkeypatch.setattr(previews, "GRACE_S", 0.1)
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(600)"
    seen = preview(code, state, deadline_s=0.3)
    assert (seen.status, seen.seen.why) == ("killed", "it did not end within 0.3 s, and was killed")
    assert state["rows"] == [3, 1, 2]


@pytest.mark.sampled
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
    while time.monotonic() < end and is_alive(int(note.read_text())):
        time.sleep(0.01)
    assert not is_alive(int(note.read_text()))


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


def test_classes_of_the_notebook_are_its_own_in_what_comes_back(state: Versioned) -> None:
    seen = preview("class Point:\n    def __init__(self, x): self.x = x\npoint = Point(2)", state)
    seen.accept()
    assert type(state["point"]) is state["Point"]
    preview("point.x = 3", state).accept()
    assert getattr(state["point"], "x", None) == 3


@pytest.mark.sampled
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


def test_a_name_that_a_preview_never_had_is_no_conflict_and_the_error_says_what_to_do(state: Versioned) -> None:
    state["t"] = [1, 2]
    seen = preview("t.append(3)", state)
    state["t0"] = state["t"]
    with pytest.raises(ak.MergeConflictError) as raised:
        seen.accept()
    assert raised.value.variables == ("t",)
    said = str(raised.value)
    assert "removed" not in said
    assert "--ours" not in said
    assert said.endswith("; reject() discards this preview")
    assert "preview the code again" in said
    seen.reject()


def test_without_a_state_it_acts_on_the_notebook_that_is_bound(state: Versioned) -> None:
    with pytest.raises(ak.NotBoundError):
        preview("n = 4")
    context = open_context(state)

    def interface() -> ExecutionContext:
        return context

    register_notebook(interface)
    try:
        seen = preview("n = 4")
    finally:
        register_notebook(interface, is_open=False)
    assert told(seen) == [("+", "n")]
    seen.reject()
