"""What an agent outside may take back: its own work as it likes, that of others where a person allows it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent_kernel as ak
from agent_kernel.agents.agent_undo import Move
from agent_kernel.cli import main
from agent_kernel.errors import MoveNotMadeError
from agent_kernel.mcp.tools import ToolCall, answered, open_store
from tests.panels.fronts import Front


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "ada")
    with Front(tmp_path, monkeypatch) as front:
        front.run("mine = 1")
        yield front


def use(tool: str, approve: str = "risky", **arguments: object) -> str:
    """The answer to a call of the agent `visitor` in this kernel."""
    asked = ToolCall(tool, arguments, "visitor", approve, None, time.time() + 60)
    return answered(msgspec.json.encode(asked).decode()).text


def run_of(told: str) -> str:
    """The run that an answer says a person has to allow."""
    assert "has not run yet" in told, told
    return told.split("(run ")[1][:5]


def test_its_own_work_it_takes_back_unasked_and_in_its_own_name(front: Front) -> None:
    use("run_python", code="theirs = 2")
    assert "Undone the run of visitor" in use("undo")
    assert "theirs" not in front.ip.user_ns
    session = front.extension.notebook.session
    assert session is not None
    assert session.head is not None
    assert session.repo.commit_at(session.head).author == ak.Author("visitor", "agent")
    front.run("mine = 3")
    assert session.repo.commit_at(session.head).author.name == "ada"


@pytest.mark.parametrize("run", ["", "  "])
def test_a_result_without_a_run_is_an_error(front: Front, run: str) -> None:
    use("run_python", code="theirs = 2")
    asked = ToolCall("result", {"run": run}, "visitor", "risky", None, time.time() + 60)
    answer = answered(msgspec.json.encode(asked).decode())
    assert answer.failed
    assert "the id of a run" in answer.text


def test_the_work_of_a_person_is_asked_about_and_named(front: Front) -> None:
    told = use("undo")
    assert "goes back: " in told
    assert "[1] mine = 1, by ada" in told
    assert front.ip.user_ns["mine"] == 1
    front.run(f"%agent approve --run {run_of(told)}")
    assert "mine" not in front.ip.user_ns
    assert "Undone: -mine" in use("result", run=run_of(told))
    front.run("%agent redo")
    assert front.ip.user_ns["mine"] == 1


def test_the_last_word_on_code_that_was_allowed_is_no_value_which_would_say_it_again(
    front: Front, tmp_path: Path
) -> None:
    told = use(
        "run_python", code=f"import pathlib; size = pathlib.Path({str(tmp_path / 'note.txt')!r}).write_text('hi')"
    )
    printed = front.run(f"%agent approve --run {run_of(told)}")
    assert front.ip.user_ns["size"] == 2
    assert "The agent outside is told what came of it" in printed
    assert "Out[" not in printed


@pytest.mark.parametrize("reason", ["not today", ""])
def test_what_was_denied_reads_as_given_up_and_says_why(front: Front, reason: str) -> None:
    use("run_python", code="theirs = 2")
    for told in (use("undo", approve="always"), use("run_python", code="import os\nos.system('true')")):
        run = run_of(told)
        front.display.shown.clear()
        front.run(f"%agent deny --run {run} {reason}")
        said = f"given up: it was denied{': ' if reason else ''}{reason}"
        (line,) = [one["text/plain"] for one in front.display.shown if said in one["text/plain"]]
        assert line.startswith(f"■ visitor {said} ")
        table = front.show("%agent runs")["text/plain"].splitlines()
        assert [line for line in table if run in line and said in line]
        panel = front.panel()
        full = next(one["run"] for one in json.loads(front.run("%agent runs --json")) if one["run"].endswith(run))
        answer = panel.ask("run", id=full)
        assert (answer["status"], answer["reason"]) == ("cancelled", said.removeprefix("given up: "))
        assert "denied" in use("result", run=run)
    assert front.ip.user_ns["theirs"] == 2


def test_so_is_a_checkout_that_leaves_it_behind_and_one_of_a_variable(front: Front) -> None:
    use("run_python", code="theirs = 2")
    front.run("mine = 5")
    assert "mine = 5, by ada" in use("checkout", ref="HEAD~1")
    told = use("checkout", ref="HEAD~1", name="mine")
    assert "Loaded theirs" in use("checkout", ref="HEAD~1", name="theirs")
    assert "was not done" in answer_to(front, told)  # something was loaded since
    told = use("checkout", ref="HEAD~2", name="mine")
    assert "Checked out: ~mine" in answer_to(front, told)
    assert (front.ip.user_ns["mine"], front.ip.user_ns["theirs"]) == (1, 2)


def answer_to(front: Front, told: str) -> str:
    """What came of a move that the person allows; the person is told the same under the cell."""
    before = len(front.display.shown)
    front.run(f"%agent approve --run {run_of(told)}")
    found = use("result", run=run_of(told))
    shown = "".join(one.get("text/plain", "") for one in front.display.shown[before:])
    assert found.partition("\n")[0].partition(":")[2] in shown
    return found


def test_what_was_allowed_is_not_done_to_what_came_after_it(front: Front) -> None:
    told = use("undo")
    front.run("later = 1")
    assert "something else was done since" in answer_to(front, told)
    assert (front.ip.user_ns["mine"], front.ip.user_ns["later"]) == (1, 1)


def test_always_asks_about_its_own_work_too_never_refuses_and_auto_does_it(front: Front) -> None:
    use("run_python", code="theirs = 2")
    assert "has not run yet" in use("undo", approve="always")
    assert "has not run yet" in use("checkout", approve="always", ref="HEAD~1")
    use("undo", approve="never")
    assert "theirs" not in front.ip.user_ns
    assert "that is not allowed" in use("undo", approve="never")
    assert front.ip.user_ns["mine"] == 1
    use("undo", approve="auto")
    assert "mine" not in front.ip.user_ns


def test_what_is_asked_about_says_what_would_be_taken_back_and_which_variables_change(front: Front) -> None:
    use("run_python", code="theirs = 2; mine = 3")
    told = use("undo", approve="always")
    assert "goes back: the run of visitor (" in told
    assert "theirs = 2; mine = 3, by visitor" in told
    assert "would change: ~mine, -theirs" in told
    assert "would change: ~mine, -theirs" in use("checkout", approve="always", ref="HEAD~1")
    assert "would change: ~mine\n" in use("checkout", approve="always", ref="HEAD~1", name="mine")
    assert "  changes: ~mine\n  changes: -theirs\n" in front.show("%agent runs")["text/plain"]
    front.run("also = 1")
    told = use("undo")
    assert "also = 1, by ada" in told
    assert "would change: -also" in told
    use("undo", approve="auto")
    use("undo", approve="auto")
    use("undo", approve="auto")
    assert "nothing to undo" in use("undo", approve="always")


def test_panels_are_told_of_what_it_did_without_asking(front: Front) -> None:
    panel = front.panel()
    before = panel.state["version"]
    use("run_python", code="theirs = 2")
    assert panel.state["version"] != before
    assert panel.ask("rows")["rows"][1]["run"]["author"]["name"] == "visitor"


def test_what_a_person_allows_in_a_panel_runs_at_once(front: Front, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    told = use("run_python", code=f"import pathlib; pathlib.Path({str(note)!r}).write_text('hi')")
    panel = front.panel()
    waits: Any = next(row for row in panel.ask("rows")["rows"] if row["kind"] == "wait")
    panel.ask("decide", run=waits["run"], step=1, decision="approve")
    assert note.read_text() == "hi"
    assert "note.txt" in use("result", run=run_of(told))


def test_what_an_agent_asks_for_on_a_branch_of_its_own_is_allowed_here_and_runs_there(front: Front) -> None:
    session = front.extension.notebook.session
    assert session is not None
    with open_store(str(front.notebook), agent="visitor", approve="always", step_s=None, branch=None) as served:
        told = served.call("run_python", {"code": "theirs = mine + 1"}).text
        said = front.show(f"%agent approve --run {run_of(told)}")["text/plain"]
        assert "Noted. visitor goes on with it on branch main-2" in said
        assert "theirs" not in front.ip.user_ns
        assert "acts on branch main-2" in front.run(f"%agent resume --run {run_of(told)}")
        assert "+ theirs" in served.call("result", {"run": run_of(told)}).text
    assert session.repo.at("main-2")["theirs"] == 2
    assert "theirs" not in front.ip.user_ns


def test_what_was_allowed_and_nobody_went_on_with_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store = str(tmp_path / "store")
    with ak.Versioned(store) as state:
        state["x"] = 1
        state.commit("x")
    with open_store(store, agent="visitor", approve="always", step_s=None, branch=None) as served:
        waiting = run_of(served.call("run_python", {"code": "y = 1"}).text)
        assert main(["approve", store, "--run", waiting]) == 0
        assert main(["runs", store]) == 0
        assert "decided, but has not gone on" in capsys.readouterr().out
        assert "+ y" in served.call("result", {"run": waiting}).text
        assert main(["runs", store]) == 0
        assert "completed" in capsys.readouterr().out


@pytest.mark.parametrize("code", ["undo(1)", "print()", "checkout()", "checkout(ref)", "undo(); undo()", "a b"])
def test_what_is_no_move_is_none(code: str) -> None:
    with pytest.raises(MoveNotMadeError):
        Move.read(code)
    assert Move.read("checkout('main')") == Move("main")
