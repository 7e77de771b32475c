"""A step that waits has a card under its cell, and what goes on after it is decided stands under that cell too."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import models
from agent_kernel.agents.approval import decide, log_of
from agent_kernel.agents.event_log import EventStore
from agent_kernel.queries import CARD, FOOTER
from tests.panels.fronts import VIEW, Front, Panel
from tests.panels.kernels import Browser, Wire, kernel

MODEL = "import agent_kernel as ak\nplay = ak.ScriptedModel({turns!r}, name='play')\n%agent model scripted:play"


def give(front: Front, *turns: str, task: str = "Write it down please.") -> list[dict[str, Any]]:
    """Give a task to an agent that plays these answers; what its cell showed."""
    front.run(MODEL.format(turns=list(turns)))
    before = len(front.display.shown)
    front.run(f"%%agent analyst\n{task}")
    return front.display.shown[before:]


def card_of(shown: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in shown if VIEW in one]
    return found


def writing(folder: Path) -> str:
    return f"import pathlib; size = pathlib.Path({str(folder / 'out.txt')!r}).write_text('x')"


def card(front: Front, shown: list[dict[str, Any]]) -> Panel:
    found = Panel(front.kernel.comm_manager.comms[card_of(shown)[VIEW]["model_id"]])
    found.send({"op": "watch", "view": "1"})
    return found


class TestTheCard:
    def test_it_is_bound_to_its_step_and_asks_for_its_run(self, front: Front, tmp_path: Path) -> None:
        shown = give(front, "a = 1", writing(tmp_path), "task.success()")
        panel = card(front, shown)
        start = front.widget(panel).start["card"]
        assert start["step"] == 2
        told = panel.ask("run", id=start["run"])
        assert told["asks"]["step"] == 2
        assert told["asks"]["source"].startswith("import pathlib")

    def test_where_its_widget_is_gone_a_front_end_knows_which_step_it_is(self, front: Front, tmp_path: Path) -> None:
        face = card_of(give(front, writing(tmp_path), "task.success()"))
        panel = Panel(front.kernel.comm_manager.comms[face[VIEW]["model_id"]])
        store = panel.ask("open", n=0)["state"]["store"]
        assert face[CARD] == {"version": 1, "store": store, "card": front.widget(panel).start["card"]}

    def test_without_a_widget_it_has_the_code_the_report_and_what_to_type(self, front: Front, tmp_path: Path) -> None:
        face = card_of(give(front, writing(tmp_path), "task.success()"))
        for text in (face["text/html"], face["text/plain"]):
            assert "analyst wants to run step 1" in text
            assert "write_text" in text
            assert "Does not use the network, read variables or delete." in text
            assert "%agent approve --run" in text
        assert "<script" not in face["text/html"]

    def test_it_shows_no_secret(self, front: Front) -> None:
        face = card_of(give(front, "key = 'sk-ant-REDACTED'; open('/x', 'w')"))
        assert "sk-" not in face["text/html"] + face["text/plain"]

    def test_a_front_end_without_widgets_gets_it_without_buttons(self, front: Front, tmp_path: Path) -> None:
        front.kernel.metadata = {}
        (face,) = [one for one in give(front, writing(tmp_path)) if "wants to run" in one["text/plain"]]
        assert VIEW not in face

    def test_approving_runs_the_step_and_the_run_goes_on(self, front: Front, tmp_path: Path) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success(size)"))
        start = front.widget(panel).start["card"]
        panel.ask("decide", **start, decision="approve")
        assert (tmp_path / "out.txt").read_text() == "x"
        assert panel.ask("run", id=start["run"])["status"] == "completed"
        assert panel.state["done"]["done"] == "Step 1 of analyst was approved. The run of analyst is done."

    def test_what_was_decided_takes_its_place_also_where_there_is_no_widget(self, front: Front, tmp_path: Path) -> None:
        give(front, writing(tmp_path), "task.success()")
        front.run("%agent deny not there")
        face = front.display.shown[-1]
        assert face["text/plain"] == "analyst: step 1 was denied by ada: not there"
        assert "write_text" not in face["text/html"]

    def test_a_second_decision_is_refused(self, front: Front, tmp_path: Path) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success()"))
        front.run("%agent approve")
        failed = panel.ask("decide", **front.widget(panel).start["card"], decision="deny")
        assert (failed["code"], failed["message"]) == ("refused", "Step 1 is approved already.")

    @pytest.mark.parametrize(("decision", "how"), [("approve", "approved"), ("deny", "denied")])
    def test_what_another_process_decided_can_go_on_from_the_card(
        self, front: Front, tmp_path: Path, decision: str, how: str
    ) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success()"))
        start = front.widget(panel).start["card"]
        session = front.extension.notebook.session
        assert session is not None
        decide(log_of(EventStore(session.repo.store), start["run"]), decision, by="ada")
        failed = panel.ask("decide", **start, decision="deny")
        assert failed["message"] == f"Step 1 is {how} already. %agent resume lets the run go on."
        told = panel.ask("run", id=start["run"])
        assert (told["status"], told["stopped"]["checked"], told["stopped"]["refused"]) == ("decided", True, "")
        panel.ask("resume", run=start["run"], answer="")
        assert panel.ask("run", id=start["run"])["status"] == "completed"

    def test_editing_runs_other_code(self, front: Front, tmp_path: Path) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success(size)"))
        panel.ask("decide", **front.widget(panel).start["card"], decision="edit", code="size = 7")
        assert front.ns["size"] == 7
        assert not (tmp_path / "out.txt").exists()

    def test_code_that_does_not_read_as_code_decides_nothing_and_says_why(self, front: Front, tmp_path: Path) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success(size)"))
        start = front.widget(panel).start["card"]
        failed = panel.ask("decide", **start, decision="edit", code="size = (7")
        assert failed["code"] == "refused"
        assert "'(' was never closed; nothing was decided." in failed["message"]
        assert panel.ask("run", id=start["run"])["status"] == "pending"
        panel.ask("decide", **start, decision="edit", code="%time size = 8")
        assert front.ns["size"] == 8

    def test_a_denied_step_says_so_in_its_block_and_the_reason_stays(
        self, front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success()"))
        start = front.widget(panel).start["card"]
        panel.ask("decide", **start, decision="deny", reason="not on this disk")
        (step, _) = panel.ask("run", id=start["run"])["steps"]
        assert (step["decided"], step["reason"], step["took_s"]) == ("deny", "not on this disk", None)
        assert "step 1 · denied" in capsys.readouterr().out  # a display that changed

    def test_while_a_cell_runs_it_waits(self, front: Front, tmp_path: Path) -> None:
        panel = card(front, give(front, writing(tmp_path), "task.success()"))
        ids: list[int] = []
        start = front.widget(panel).start["card"]
        front.during(lambda: ids.append(panel.say("decide", **start, decision="approve")))
        assert panel.answer(ids[0])["queued"]["label"] == "step 1 of analyst"
        front.between()
        assert (tmp_path / "out.txt").exists()

    def test_a_question_is_answered_from_a_panel(self, front: Front) -> None:
        give(front, "task.clarify('Which one?')", "task.success('that one')")
        panel = front.panel()
        (row,) = [row for row in panel.ask("rows", n=50)["rows"] if row["kind"] == "wait"]
        panel.ask("resume", run=row["run"], answer="the left one")
        assert panel.ask("run", id=row["run"])["status"] == "completed"

    def test_what_is_answered_twice_is_refused_the_second_time(self, front: Front) -> None:
        panel = card(front, give(front, "task.clarify('One?')", "task.clarify('Two?')", "task.success()"))
        asked = front.widget(panel).start["question"]
        front.run("%agent resume the first")
        failed = panel.ask("resume", run=asked["run"], answer="late", question=asked["number"])
        assert failed["message"].startswith("this question was answered by ada already")
        (_, second) = panel.ask("run", id=asked["run"])["questions"]
        assert (second["text"], second["answered"]) == ("Two?", False)

    def test_the_steps_of_a_run_keep_the_number_of_its_cell(self, front: Front, tmp_path: Path) -> None:
        give(front, "a = 1", writing(tmp_path), "task.success()")
        front.run("b = 1")
        front.run("%agent approve")
        (row,) = {row["prompt"] for row in front.panel().ask("rows", n=50)["rows"] if row["kind"] == "fold"}
        assert "–" not in row


class TestItsLine:
    def test_it_says_what_all_its_steps_changed(self, front: Front) -> None:
        front.run("import pandas as pd\ndf = pd.DataFrame({'price': range(40)})\nlabel = 'x'")
        line = give(front, "df = df[df.price > 16]", "label = 'y'\nmade = 1", "task.success()")[-1]
        assert [(sign, name) for sign, name, _ in line[FOOTER]["chips"]] == [("~", "df"), ("~", "label"), ("+", "made")]
        assert line[FOOTER]["grew"] == {"df": "−17 rows"}
        assert re.fullmatch(
            r"■ analyst done ~df −17 rows ~label \+made 3 steps [\d,]+ tokens [\d.]+ s", line["text/plain"]
        )

    def test_undone_it_is_named_as_a_whole_in_the_history(self, front: Front) -> None:
        id = give(front, "a = 1", "b = 2", "task.success()")[-1][FOOTER]["run"]["id"]
        front.run("%agent undo")
        newest = next(row for row in front.panel().ask("rows", n=5)["rows"] if row["kind"] == "commit")
        assert newest["subject"] == f"undo of the run of analyst ({id[-5:]})"

    def test_one_that_changed_nothing_says_how_it_ended(self, front: Front) -> None:
        line = give(front, "task.fail('no idea')")[-1]
        assert line[FOOTER]["chips"] == []
        assert line["text/plain"].startswith("■ analyst failed: no idea 1 step ")


INTERRUPT = "import signal\nsignal.raise_signal(signal.SIGINT)"  # as a person's, in the middle of the step


class TestStopped:
    def stop(self, front: Front, *turns: str, options: str = "") -> dict[str, Any]:
        """The line under the cell of a run that stopped."""
        front.run(MODEL.format(turns=list(turns)))
        front.run(f"%%agent analyst --approve auto {options}\nCount the rows, please.")
        return front.display.shown[-1]

    def test_its_line_says_where_it_stopped_and_that_is_no_error(
        self, front: Front, capsys: pytest.CaptureFixture[str]
    ) -> None:
        line = self.stop(front, "a = 1", INTERRUPT, "task.success(a)")
        run = line[FOOTER]["run"]
        assert (run["said"], run["bad"], run["done"]) == ("stopped in step 2", False, False)
        assert (run["stopped"]["code"], run["stopped"]["done"]) == ("signal.raise_signal(signal.SIGINT)", 1)
        assert re.fullmatch(
            r"⊖ analyst stopped in step 2 code: signal\.raise_signal\(signal\.SIGINT\) \+a \+signal 1 step done [\d,]+ tokens "
            r"[\d.]+ s Resume: %agent resume --run \w{5}",
            line["text/plain"],
        )
        said = capsys.readouterr()
        assert "KeyboardInterrupt" not in said.out + said.err
        assert "was stopped" not in said.out + said.err

    def test_where_nothing_was_done_nothing_is_counted(self, front: Front) -> None:
        front.run("import signal")
        front.run("stop = lambda request: signal.raise_signal(signal.SIGINT)")
        front.run("import agent_kernel as ak; m = ak.FunctionModel(stop, name='stop')")
        front.run("%%agent analyst --model m\nCount the rows, please.")
        line = front.display.shown[-1]
        assert re.fullmatch(
            r"⊖ analyst stopped while the model answered [\d.]+ s Resume: %agent resume --run \w{5}", line["text/plain"]
        )

    def test_its_cell_has_failed_all_the_same_so_that_later_ones_wait(self, front: Front) -> None:
        self.stop(front, INTERRUPT, "task.success(1)")
        result = front.ip.run_cell("%%agent analyst --approve auto --steps 1\nCount the rows, please.")
        assert not result.success

    def test_a_limit_is_no_failure_and_giving_up_is_one(self, front: Front) -> None:
        run = self.stop(front, "a = 1", "task.success(a)", options="--steps 1")[FOOTER]["run"]
        assert (run["said"], run["bad"]) == ("stopped after 1 step, which is the limit", False)
        run = self.stop(front, "task.fail('no data')")[FOOTER]["run"]
        assert (run["said"], run["bad"], run["stopped"]) == ("failed: no data", True, None)

    def test_resume_goes_on_and_names_the_run(self, front: Front) -> None:
        id = self.stop(front, "a = 1", INTERRUPT, "task.success(a)")[FOOTER]["run"]["id"]
        panel = front.panel()
        assert panel.ask("run", id=id)["stopped"]["refused"] == ""
        panel.ask("resume", run=id, answer="")
        assert panel.state["done"]["done"] == f"Resumed run {id[-5:]} of analyst. The run of analyst is done."
        assert panel.ask("run", id=id)["stopped"] is None

    def test_where_its_model_is_gone_the_reason_stands_in_its_row_and_in_its_details(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = self.stop(front, "a = 1", INTERRUPT, "task.success(a)")[FOOTER]["run"]["id"]
        front.extension.notebook.tasks.runs.clear()  # as in a kernel that did not begin it
        front.run("del play")
        monkeypatch.setattr(models, "_registered", {})
        panel = front.panel()
        (row,) = [row["run"] for row in panel.ask("open", n=50)["page"]["rows"] if row["kind"] == "fold"]
        refused = panel.ask("run", id=id)["stopped"]["refused"]
        assert row["stopped"]["refused"] == refused
        assert refused.startswith("scripted:play: no script is called 'play'")
        assert refused.endswith(f"To use another model: %agent resume --run {id[-5:]} --model NAME")
        failed = panel.ask("resume", run=id, answer="")
        assert failed["message"] == f"{refused}. Nothing was changed."

    def test_every_page_of_the_rows_says_that_the_kernel_has_looked(self, front: Front) -> None:
        self.stop(front, "a = 1", INTERRUPT, "task.success(a)")
        panel = front.panel()
        first = panel.ask("open", n=50)["page"]["rows"]
        again = panel.ask("rows", **{"from": 0, "n": 50})["rows"]
        for rows in (first, again):
            (row,) = [row["run"] for row in rows if row["kind"] == "fold"]
            assert (row["stopped"]["checked"], row["stopped"]["refused"]) == (True, "")

    def test_an_opening_names_the_runs_that_were_undone(self, front: Front) -> None:
        front.run("x = 1")
        front.run(MODEL.format(turns=["a = 1", "task.success(a)"]))
        front.run("%%agent analyst\nMake it please.")
        panel = front.panel()
        assert panel.ask("open", n=0)["undone"] == []
        front.run("%agent undo")
        (run,) = front.extension.notebook.tasks.runs
        assert panel.ask("open", n=0)["undone"] == [run]
        front.run("%agent redo")
        assert panel.ask("open", n=0)["undone"] == []

    def test_on_another_branch_its_row_says_where_it_lies(self, front: Front) -> None:
        front.run("x = 1")
        front.run("%agent switch -c aside")
        id = self.stop(front, "a = 1", INTERRUPT, "task.success(a)")[FOOTER]["run"]["id"]
        front.run("%agent switch main")
        panel = front.panel()
        assert panel.ask("run", id=id)["stopped"]["refused"] == ""  # %agent resume goes on without its steps
        front.extension.notebook.tasks.runs.clear()
        assert "are on branch aside and not in the history here" in panel.ask("run", id=id)["stopped"]["refused"]

    def test_in_another_kernel_its_steps_go_on_counting_from_the_first_word(self, front: Front) -> None:
        self.stop(front, "a = 1", INTERRUPT, "task.success(a)")
        tasks = front.extension.notebook.tasks
        for known in (tasks.runs, tasks._displays, tasks._contexts):
            known.clear()
        said = front.run("%agent resume")
        assert "step 3 ·" in said
        assert "step 1 ·" not in said

    def test_in_a_kernel_that_does_not_know_its_cell_the_line_for_one_is_said(self, front: Front) -> None:
        id = self.stop(front, "a = 1", INTERRUPT, "task.success(a)")[FOOTER]["run"]["id"]
        panel = front.panel()
        assert panel.ask("run", id=id)["stopped"]["cell"] == ""
        front.extension.notebook.tasks._cell_requests._requests.clear()
        assert panel.ask("run", id=id)["stopped"]["cell"] == f"%agent resume --run {id[-5:]}"


class TestTheQuestion:
    def test_its_output_has_a_widget_what_names_it_where_that_is_gone_and_the_line_to_type(self, front: Front) -> None:
        face = card_of(give(front, "task.clarify('Which <one>?')"))
        panel = Panel(front.kernel.comm_manager.comms[face[VIEW]["model_id"]])
        start = front.widget(panel).start
        assert start == {"question": {"run": start["question"]["run"], "number": 1}}
        assert face[CARD] == {"version": 1, "store": panel.ask("open", n=0)["state"]["store"], **start}
        assert face["text/plain"] == "analyst asks: Which <one>?\n%agent resume ANSWER goes on"
        assert "analyst asks: Which &lt;one&gt;?" in face["text/html"]
        assert "%agent resume ANSWER</code> goes on" in face["text/html"]

    @pytest.mark.parametrize("cell", ["", "vscode-notebook-cell:/x#W1"])
    def test_where_a_front_end_shows_nothing_later_it_is_the_line_alone(self, front: Front, cell: str) -> None:
        front.kernel.metadata = {"cellId": cell}
        (face,) = [one for one in give(front, "task.clarify('Which one?')") if "asks" in one["text/plain"]]
        assert set(face) == {"text/plain", "text/html"}

    def test_the_answer_lets_the_run_go_on_and_takes_the_place_of_the_line(self, front: Front) -> None:
        panel = card(front, give(front, "task.clarify('Which one?')", "task.success('that one')"))
        asked = front.widget(panel).start["question"]
        assert [step["prompt"] for step in panel.ask("run", id=asked["run"])["steps"]] == [".1"]
        panel.ask("resume", run=asked["run"], answer="the left one", question=asked["number"])
        told = panel.ask("run", id=asked["run"])
        assert told["status"] == "completed"
        (question,) = told["questions"]
        assert (question["answer"], question["answered_by"]) == ("the left one", "ada")
        assert [step["prompt"] for step in told["steps"]] == [".1", ".2"]
        assert front.display.shown[-1]["text/plain"] == "analyst asked: Which one?\nada: the left one"

    def test_a_typed_answer_is_told_on_each_card_of_the_run(self, front: Front) -> None:
        give(front, "task.clarify('One?')", "task.clarify('Two?')", "task.success()")
        front.run("%agent resume yes")
        front.run(f"%agent resume --run {next(iter(front.extension.notebook.tasks.runs))} no")
        said = [face["text/plain"] for face in front.display.shown if CARD in face]
        assert said == [
            "analyst asks: One?\n%agent resume ANSWER goes on",
            "analyst asked: One?\nada: yes",
            "analyst asks: Two?\n%agent resume ANSWER goes on",
            "analyst asked: Two?\nada: no",
        ]

    def test_where_the_run_is_not_behind_the_state_the_answer_is_refused_and_it_still_waits(self, front: Front) -> None:
        front.run("x = 1")
        front.run("%agent switch -c aside")
        panel = card(front, give(front, "y = 2", "task.clarify('Which one?')", "task.success()"))
        asked = front.widget(panel).start["question"]
        front.run("%agent switch main")
        front.extension.notebook.tasks.runs.clear()  # as in a kernel that did not begin it
        panel.ask("resume", run=asked["run"], answer="this", question=1)
        failed = panel.state["failed"]["text"]
        assert failed.startswith("The answer to analyst failed: ")
        assert "on branch aside and not in the history here, so nothing was done" in failed
        assert panel.ask("run", id=asked["run"])["status"] == "clarify"


class TestInAKernel:
    @pytest.fixture
    def browser(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
        with kernel(tmp_path / "study.ipynb", monkeypatch) as browser:
            yield browser

    def waits(self, browser: Browser, *turns: str, cell: str = "asks") -> tuple[str, Wire, dict[str, Any]]:
        """A run that waits: the request of its cell, its card, and what that is about."""
        browser.run(MODEL.format(turns=list(turns)))
        request = browser.start("%%agent analyst\nWrite it down please.", cell=cell, attended=True)
        shown = browser.finish(request)
        (found,) = [one for one in shown if VIEW in one["content"].get("data", {})]
        wire = Wire(browser, found["content"]["data"][VIEW]["model_id"])
        wire.send({"op": "watch", "view": "1"})
        plain = found["content"]["data"]["text/plain"]
        short = plain.rpartition("--run ")[2].strip()
        find = f"import agent_kernel as ak; print(ak.here().event_store.find({short!r}))"
        return request, wire, {"run": browser.text(find).strip(), "step": 1}

    def test_what_it_shows_when_it_is_approved_stands_under_its_cell(self, browser: Browser, tmp_path: Path) -> None:
        code = f"{writing(tmp_path)}\nprint('written', size)"
        request, wire, start = self.waits(browser, code, "task.success('the end')")
        wire.ask("decide", **start, decision="approve")
        said = browser.until(lambda message: "written 1" in message["content"].get("text", ""))
        assert said["parent_header"]["msg_id"] == request
        value = browser.until(
            lambda message: (
                "the end" in str(message["content"].get("data", "")) and message["msg_type"] == "execute_result"
            )
        )
        assert value["parent_header"]["msg_id"] == request
        assert value["content"]["execution_count"] == 2

    def test_an_interrupt_stops_it(self, browser: Browser, tmp_path: Path) -> None:
        code = f"{writing(tmp_path)}\nprint('go', flush=True)\nimport time; time.sleep(20)"
        _, wire, start = self.waits(browser, code, "task.success()")
        pid = int(browser.text("import os; print(os.getpid())"))
        wire.say("decide", **start, decision="approve")
        browser.until(lambda message: "go" in message["content"].get("text", ""))
        began = time.monotonic()
        os.kill(pid, signal.SIGINT)
        wire.state(lambda state: state["done"])
        assert time.monotonic() - began < 10
        assert "interrupted" in browser.text("%agent runs --json")

    def test_where_a_front_end_shows_nothing_later_the_line_to_type_is_said(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        _, wire, start = self.waits(browser, writing(tmp_path), "task.success()", cell="vscode-notebook-cell:/x#W1")
        wire.ask("decide", **start, decision="approve")
        done = wire.state(lambda state: state["done"])["done"]["done"]
        assert f"%agent resume --run {start['run'][-5:]}" in done
        assert not (tmp_path / "out.txt").exists()
        browser.run("%agent resume")
        assert (tmp_path / "out.txt").exists()


def test_a_step_that_goes_on_after_a_restart_is_shown_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Front(tmp_path, monkeypatch) as front:
        front.run("script = ['import os\\nos.system(\"true\")\\nn = 2', 'task.success(n)']")
        front.run("%%agent analyst --model scripted:script\nCount to two please.")
    with Front(tmp_path, monkeypatch) as front:
        front.run("%agent checkout")
        printed = front.run("%agent approve")
        assert front.ns["n"] == 2
        shown = 'import os\\nos.system("true")\\nn = 2\\noutside the variables: runs true'
        assert f"'text/plain': '{shown}'" in printed
        assert "task.success(n)" in printed


class TestARace:
    SCRIPTS = "from agent_kernel import ScriptedModel\n{} = ScriptedModel({!r}, name={!r})"

    @pytest.fixture
    def race(self, front: Front) -> Panel:
        """Two candidates that have ended, one well."""
        front.run("x = 1")
        front.run(self.SCRIPTS.format("good", ["y = 7", "task.success(y)"], "good"))
        front.run(self.SCRIPTS.format("bad", ["task.fail('no idea')"], "bad"))
        front.run("%%agent analyst --fork scripted:good,scripted:bad\nMake a number please.")
        data, _ = front.ip.display_formatter.format(front.ns["_"])
        assert "ak-race" not in data["text/html"]
        assert set(data[CARD]) == {"version", "store", "race"}
        return Panel(front.kernel.comm_manager.comms[data[VIEW]["model_id"]])

    def test_its_face_is_a_card_with_a_table_beside_it_for_where_there_is_no_widget(
        self, front: Front, race: Panel
    ) -> None:
        told = race.ask("race", id=front.widget(race).start["race"])
        assert (told["counts"], told["over"], told["picked"]) == ("1 done, 1 failed", True, None)
        assert [(one["title"], one["done"]) for one in told["candidates"]] == [
            ("1 · scripted:good", True),
            ("2 · scripted:bad", False),
        ]
        assert told["rows"][0]["label"] == "Returned"
        assert told["rows"][0]["cells"][0][0][0] == ["7", "strong"]

        front.kernel.metadata = {}  # as of a program that runs a whole notebook
        data, _ = front.ip.display_formatter.format(front.ns["_"])
        assert data["text/plain"] == str(front.ns["_"])
        assert "no idea" in data["text/plain"]
        assert VIEW not in data

    def test_a_candidate_is_picked_by_its_button(self, front: Front, race: Panel) -> None:
        id = front.widget(race).start["race"]
        done = race.ask("pick", race=id, number=1)
        assert done["done"] == "Picked candidate 1: 1 variable added."
        assert done["notes"] == []
        assert front.ns["y"] == 7
        assert race.ask("race", id=id)["picked"] == 1

    def test_the_others_are_discarded_by_a_button(self, front: Front, race: Panel) -> None:
        id = front.widget(race).start["race"]
        race.ask("pick", race=id, number=1)
        done = race.ask("discard", race=id)
        assert done["done"] == "Discarded the branches of 2 candidates. What candidate 1 did stays where it was merged."
        assert race.ask("race", id=id)["discarded"]
        assert front.ns["y"] == 7
        assert [one["name"] for one in race.ask("branches")] == ["main"]

    def test_a_pick_that_was_undone_holds_no_more_and_one_can_be_picked_again(self, front: Front, race: Panel) -> None:
        id = front.widget(race).start["race"]
        race.ask("pick", race=id, number=1)
        front.run("%agent undo")
        assert race.ask("race", id=id)["picked"] is None
        assert "picked" not in front.run("%agent runs")
        race.ask("pick", race=id, number=1)
        assert race.ask("race", id=id)["picked"] == 1
        race.ask("undo")
        assert race.ask("race", id=id)["picked"] is None

    def test_all_are_discarded_where_none_was_picked(self, front: Front, race: Panel) -> None:
        id = front.widget(race).start["race"]
        assert race.ask("race", id=id)["deletes"].startswith("Deletes 2 branches with 3 commits that are nowhere else.")
        assert race.ask("discard", race=id)["done"] == "Discarded the branches of 2 candidates."
        told = race.ask("race", id=id)
        assert (told["picked"], told["discarded"], told["deletes"]) == (None, True, "")
        assert race.ask("pick", race=id, number=1)["message"].startswith(
            "candidate 1 cannot be picked: its branch is gone"
        )

    def test_what_both_sides_changed_is_named_and_nothing_is_picked(self, front: Front, race: Panel) -> None:
        front.run("y = 'mine'")
        failed = race.ask("pick", race=front.widget(race).start["race"], number=1)
        assert failed["message"].startswith("both sides changed y: ")
        assert front.ns["y"] == "mine"

    def test_one_that_failed_cannot_be_picked(self, front: Front, race: Panel) -> None:
        failed = race.ask("pick", race=front.widget(race).start["race"], number=2)
        assert "candidate 2 cannot be picked" in failed["message"]

    def test_a_race_that_the_store_does_not_know_is_said_to_be_none(self, race: Panel) -> None:
        assert race.ask("race", id="none")["code"] == "not_found"
