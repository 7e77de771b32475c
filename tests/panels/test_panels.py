"""Panels in a notebook: what they are shown with, what they are told, and what is left when the notebook moves on."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agent_kernel
from agent_kernel.errors import MergeConflictError
from agent_kernel.panels.server import PanelContext
from agent_kernel.queries import HISTORY
from tests.panels.fronts import VIEW, Channel, Front, Panel, elsewhere

SECRET = "only_in_the_code"


@pytest.fixture
def front(front: Front) -> Front:
    front.run(f"x = 1  # {SECRET}")
    front.run("x = 2; y = [3]")
    return front


class TestShowing:
    def test_a_display_has_four_faces(self, front: Front) -> None:
        assert set(front.show("%agent history")) == {VIEW, HISTORY, "text/html", "text/plain"}

    def test_only_the_widget_holds_code(self, front: Front) -> None:
        shown = front.show("%agent history")
        assert SECRET not in json.dumps(shown)
        assert "x = 1" not in json.dumps(shown)

    def test_the_opening_travels_with_the_widget_and_is_small(self, front: Front) -> None:
        for number in range(70):
            front.run(f"a_name_that_is_long_{number} = {number}")
        panel = front.panel()
        opening = panel.model["opening"]
        assert opening["args"] == {"text": "", "show": "all", "unfolded": [], "tz_s": opening["args"]["tz_s"]}
        assert opening["ok"]["title"] == "study.ipynb"
        assert opening["ok"]["page"]["commits"] == 72
        assert opening["ok"]["state"]["kernel"]
        assert len(json.dumps(opening)) < 50_000

    def test_a_search_opens_the_list_searched(self, front: Front) -> None:
        panel = front.panel("%agent history -- y")
        assert panel.model["start"] == {"text": "var:y"}
        assert panel.model["opening"]["ok"]["page"]["matches"] == 1

    def test_diff_and_show_are_panels_that_stand_open_there(self, front: Front) -> None:
        head = front.channel().ask("open")["head"]["id"]
        compared = front.panel("%agent diff HEAD~1 HEAD").model["start"]["compare"]
        assert compared["b"] == head
        assert "name" not in compared
        assert front.panel("%agent diff HEAD~1 HEAD x").model["start"]["compare"]["name"] == "x"
        assert front.panel("%agent show HEAD").model["start"] == {"commit": head}
        assert front.panel("%agent show HEAD~1").model["start"] == {"commit": compared["a"]}

    @pytest.mark.parametrize("line", ["diff HEAD~1 HEAD", "diff HEAD~1 HEAD x", "show HEAD~1", "show HEAD~1 --outputs"])
    def test_only_their_widget_holds_code_as_well(self, front: Front, line: str) -> None:
        shown = json.dumps(front.show(f"%agent {line}"))
        assert SECRET not in shown
        assert "x = 1" not in shown
        assert "x = 2" not in shown

    def test_their_text_tells_variables_without_what_they_hold(self, front: Front) -> None:
        front.run(f"def f(a='{SECRET}'): return a\nword = '{SECRET}'\nwords = ['{SECRET}']\nkeys = {{'{SECRET}': 1}}")
        front.run(f"def f(a='{SECRET}', b=1): return b\nword += '{SECRET}'; words += [1]; keys['{SECRET}'] = 2")
        for line in ("diff HEAD~1 HEAD", "diff HEAD~1 HEAD f", "show HEAD", "show HEAD~1"):
            shown = front.show(f"%agent {line}")
            assert SECRET not in json.dumps(shown)
            assert "function" in shown["text/plain"]
        assert "~ words: list of 1 str" in front.show("%agent diff HEAD~1 HEAD")["text/plain"]

    def test_their_text_says_what_is_not_saved(self, front: Front) -> None:
        front.run("rows = (i for i in range(3)); box = {'rows': rows, 'one': 1}")
        shown = front.show("%agent diff HEAD~1 HEAD")["text/plain"]
        assert "+ rows: generator (not saved)\n" in shown
        assert "(not all of it is saved)\n" in shown

    def test_their_text_calls_commits_by_their_cells(self, front: Front) -> None:
        compared = front.show("%agent diff HEAD~1 HEAD x")["text/plain"]
        assert "~ x: int" in compared
        assert [line.partition("[")[2] for line in compared.splitlines()[:2]] == ["1] cell", "2] cell"]
        shown = front.show("%agent show HEAD~1")["text/plain"]
        assert "    cell\n" in shown
        assert shown.endswith("+  x  int")

    def test_of_an_error_their_text_says_only_what_kind_it_is(self, front: Front) -> None:
        front.run(f"1 / 0  # {SECRET}")
        front.run("z = 1")
        for line in ("show HEAD~1", "show HEAD~1 --outputs"):
            shown = front.show(f"%agent {line}")["text/plain"]
            assert "ZeroDivisionError" in shown
            assert "division by zero" not in shown
            assert SECRET not in shown

    def test_an_answer_that_the_code_keeps_tells_the_code(self, front: Front) -> None:
        front.run("kept = %agent show HEAD~1")
        assert SECRET in front.ns["kept"].to_text()

    def test_json_and_what_the_code_keeps_are_no_panels(self, front: Front) -> None:
        before = len(front.display.shown)
        assert json.loads(front.run("%agent history --json"))[0]["changed"]
        front.run("kept = %agent history")
        assert not [shown for shown in front.display.shown[before:] if VIEW in shown]
        assert front.ns["kept"].to_json()

    def test_a_merge_with_a_conflict_opens_where_it_is_settled(self, front: Front) -> None:
        front.run("%agent switch -c try")
        front.run("x = 22; y = 22")
        front.run("%agent switch main")
        front.run("x = 33; y = 33")
        before = len(front.display.shown)
        printed = front.run("%agent merge try --ours y\nreached = 1")
        assert printed == ""
        assert "reached" not in front.ns  # cells after it build on the merge
        face = next(shown for shown in front.display.shown[before:] if VIEW in shown)
        panel = Panel(front.kernel.comm_manager.comms[face[VIEW]["model_id"]])
        assert front.widget(panel).start == {"conflicts": {"branch": "try", "ours": ["y"], "theirs": []}}
        assert face[HISTORY]["start"] == front.widget(panel).start
        assert "Choose: %agent merge try --ours NAME --theirs NAME" in face["text/plain"]
        assert "22" not in face["text/plain"] + face["text/html"]
        assert front.ns["x"] == 33
        left = panel.ask("merge", branch="try", ours=["y"], theirs=[])
        assert [one["name"] for one in left["conflicts"]] == ["x"]
        panel.ask("merge", branch="try", ours=["y"], theirs=["x"])
        assert (front.ns["x"], front.ns["y"]) == (22, 33)

    def opened(self, front: Front, code: str) -> Panel:
        """The panel that opened in place of an error."""
        before = len(front.display.shown)
        printed = front.run(f"{code}\nreached = 1")
        assert "Traceback" not in printed
        assert "reached" not in front.ns
        face = next(shown for shown in front.display.shown[before:] if VIEW in shown)
        return Panel(front.kernel.comm_manager.comms[face[VIEW]["model_id"]])

    def test_the_chooser_keeps_the_message_that_was_typed(self, front: Front) -> None:
        front.run("%agent switch -c try")
        front.run("x = 22")
        front.run("%agent switch main")
        front.run("x = 33")
        panel = self.opened(front, "%agent merge try -m 'take what was tried' --partial")
        start = front.widget(panel).start["conflicts"]
        assert (start["message"], start["partial"]) == ("take what was tried", True)
        panel.ask("merge", branch="try", ours=[], theirs=["x"], message=start["message"], partial=True)
        repo = front.extension.notebook.repo
        assert repo is not None
        assert repo.commit_at(repo.branches()["main"]).message == "take what was tried"

    def test_a_cherry_pick_with_a_conflict_opens_the_same_chooser(self, front: Front) -> None:
        front.run("import agent_kernel as ak")
        front.run("%agent switch -c try")
        front.run("x = 22; z = 1")
        front.run("%agent switch main")
        front.run("x = 33")
        panel = self.opened(front, "ak.here().session.cherry_pick('try')")
        assert front.widget(panel).start == {"conflicts": {"branch": "try", "ours": [], "theirs": [], "picks": True}}
        plan = panel.ask("plan", op_="cherry_pick", to="try")
        assert [one["name"] for one in plan["conflicts"]] == ["x"]
        assert plan["adds"] == ["z"]
        done = panel.ask("cherry_pick", branch="try", ours=[], theirs=["x"])
        assert done["done"] == "Cherry-picked try: 1 variable changed, 1 added."
        assert (front.ns["x"], front.ns["z"]) == (22, 1)
        again = panel.ask("cherry_pick", branch="try", ours=[], theirs=[])
        assert again["done"] == "Nothing to cherry-pick: the changes of try are here already."

    def test_a_merge_from_python_opens_it_too_unless_choices_could_not_ask_for_the_same(self, front: Front) -> None:
        front.run("import agent_kernel as ak")
        front.run("%agent switch -c try")
        front.run("x = 22")
        front.run("%agent switch main")
        front.run("x = 33")
        self.opened(front, "ak.here().session.merge('try')")
        before = len(front.display.shown)
        front.run("ak.here().session.merge('try', fast_forward=False)")
        assert not [shown for shown in front.display.shown[before:] if VIEW in shown]

    def test_without_the_extension_a_conflict_is_an_error_again(self, front: Front) -> None:
        assert MergeConflictError in front.ip.custom_exceptions
        front.extension.unload()
        assert MergeConflictError not in front.ip.custom_exceptions

    def test_a_conflict_is_an_error_for_code_and_where_no_panel_can_be_shown(self, front: Front) -> None:
        front.run("%agent switch -c try")
        front.run("x = 22")
        front.run("%agent switch main")
        front.run("x = 33")
        front.run(
            "try:\n    kept = %agent merge try\nexcept Exception as error:\n    said = type(error).__mro__[1].__name__"
        )
        assert front.ns["said"] == "MergeConflictError"
        front.kernel.metadata = {}
        assert "Conflict: both sides changed one variable" in front.run("%agent merge try")

    def test_where_no_widget_can_be_shown_the_other_faces_are(self, front: Front) -> None:
        front.kernel.metadata = {}
        assert set(front.show("%agent history")) == {HISTORY, "text/html", "text/plain"}

    def test_where_a_widget_cannot_be_made_the_other_faces_are_shown(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import anywidget

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("no widgets here")

        monkeypatch.setattr(anywidget.AnyWidget, "__init__", broken)
        assert set(front.show("%agent history")) == {HISTORY, "text/html", "text/plain"}

    def test_variables_there_are_before_the_first_commit_are_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Front(tmp_path, monkeypatch, commits="off") as front:
            front.run("a = 1; b = 2")
            opening = front.panel().model["opening"]["ok"]
            assert (opening["unsaved_names"], opening["page"]["commits"]) == (2, 0)
            done = front.panel().ask("commit_now", message="")
            assert done["done"] == "Committed: 2 variables added."


class TestTelling:
    def test_a_cell_is_told_as_it_begins_and_as_it_has_ended(self, front: Front) -> None:
        panel = front.panel()
        known = len(panel.states)
        front.run("z = 1")
        began, ended = panel.states[known:]
        assert began["busy"] == "[4]"
        assert ended["busy"] is None
        assert ended["version"] != began["version"]
        assert panel.ask("rows", n=3)["version"] == ended["version"]

    def test_a_verb_in_the_middle_of_a_cell_is_told_at_once(self, front: Front) -> None:
        panel = front.panel()
        known = len(panel.states)
        front.run("%agent tag v1\nz = 1")
        assert len({state["version"] for state in panel.states[known:]}) == 3

    def test_an_act_of_one_panel_is_told_to_all(self, front: Front) -> None:
        panel, other = front.panel(), front.panel()
        panel.ask("tag", name="v1", at="HEAD")
        assert other.state["version"] == panel.ask("rows", n=1)["version"]

    def test_what_another_kernel_did_is_noticed_when_somebody_asks(self, front: Front) -> None:
        panel, other = front.panel(), front.panel()
        repo = front.extension.notebook.repo
        assert repo is not None
        with agent_kernel.open(repo.store.url) as theirs:  # another handle, as another process has one
            theirs.create_tag("theirs")
        known = other.state["version"]
        version = panel.ask("rows", n=1)["version"]
        assert version != known
        assert other.state["version"] == version

    def test_a_store_that_is_gone_stops_no_cell(self, front: Front) -> None:
        panel = front.panel()
        shutil.rmtree(front.folder / ".agent-kernel" / "study")
        said = front.run("z = 1")
        assert "this cell is not committed" in said
        assert "Error in callback" not in said
        assert front.ns["z"] == 1
        assert panel.ask("rows", n=1)["commits"] == 2, "what is open can still be looked at"

    def test_nobody_is_told_who_is_not_looking(self, front: Front) -> None:
        panel = front.panel()
        panel.send({"op": "unwatch", "view": "1"})
        known = len(panel.states)
        front.run("z = 1")
        assert len(panel.states) == known

    def test_the_same_state_is_told_once(self, front: Front) -> None:
        panel = front.panel()
        known = len(panel.states)
        for _ in range(3):
            panel.ask("rows", n=1)
        assert len(panel.states) == known

    def test_what_is_no_message_is_answered_by_nobody_and_breaks_nothing(self, front: Front) -> None:
        panel = front.panel()
        known = len(panel.heard())
        panel.send({"nothing": 1})
        panel.send({"id": [], "op": "rows"})
        assert len(panel.heard()) == known
        assert panel.ask("rows", n=1)["commits"] == 2

    def test_a_cell_looks_at_the_store_once_however_many_panels_there_are(
        self, front: Front, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        panels = [front.panel() for _ in range(8)]
        channels = [front.channel() for _ in range(8)]
        looked: list[PanelContext] = []
        version = PanelContext.version

        def counted(context: PanelContext) -> str:
            looked.append(context)
            return version(context)

        monkeypatch.setattr(PanelContext, "version", counted)
        front.run("x = 9")
        assert len(looked) <= 3  # as it begins, as its commit is made, and as it has ended
        assert len({one.state["version"] for one in (*panels, *channels)}) == 1

    def test_what_is_forgotten_is_not_kept_by_the_panels_that_showed_it(self, front: Front) -> None:
        front.run("key = 'x'  # WASAKEY")
        front.run("x = 3")
        panel = front.panel()
        assert "WASAKEY" in json.dumps(panel.model["opening"])
        front.run("%agent forget HEAD~1 --yes")
        widget = front.widget(panel)
        assert "WASAKEY" not in json.dumps(widget.get_state())
        assert widget.opening["ok"]["page"]["commits"]
        assert "WASAKEY" not in json.dumps(panel.updates["opening"])
        assert widget.opening["ok"]["state"]["version"] == panel.state["version"]

    @pytest.mark.parametrize("by_front_end", [True, False])
    def test_a_panel_that_is_closed_is_let_go(self, front: Front, by_front_end: bool) -> None:
        panel = front.panel()
        gone = weakref.ref(front.widget(panel))
        heard = len(panel.heard())
        if by_front_end:
            panel.comm.handle_close({})
        else:
            front.widget(panel).close()
        front.run("x = 8")
        gc.collect()
        assert gone() is None
        assert len(panel.heard()) == heard


class TestLeaving:
    def test_a_panel_of_a_store_that_was_left_says_so(self, front: Front) -> None:
        panel = front.panel()
        front.run("%agent bind elsewhere")
        assert panel.state["gone"].startswith("This notebook has left the store")
        assert not panel.state["kernel"]
        assert panel.ask("rows", n=1) == {"code": "gone", "message": panel.state["gone"]}
        assert panel.ask("checkout", to="HEAD")["code"] == "gone"
        new = front.panel()
        assert new.state["kernel"]
        assert panel.state["gone"]

    def test_a_panel_keeps_no_store_open(self, front: Front) -> None:
        panel = front.panel()
        panel.ask("rows", n=5)
        store = weakref.ref(front.extension.notebook.scope().repo.store)
        front.run("%agent bind elsewhere")
        gc.collect()
        assert store() is None
        assert panel.state["gone"]

    def test_what_follows_the_notebook_goes_on_with_the_new_store(self, front: Front) -> None:
        channel = front.channel()
        front.run("%agent bind elsewhere")
        assert channel.state["kernel"]
        front.run("only_here = 1")
        assert channel.ask("rows", n=9)["commits"] == channel.ask("open")["page"]["commits"]

    @pytest.mark.parametrize("line", ["%agent prune --keep 1", "%agent forget y", "%agent gc"])
    def test_a_panel_survives_what_rewrites_the_history(self, front: Front, line: str) -> None:
        panel = front.panel()
        panel.ask("rows", n=9)
        front.run(line)
        assert panel.ask("rows", n=9)["commits"] >= 1
        assert panel.state["kernel"]

    def test_unloading_leaves_nothing_registered(self, front: Front) -> None:
        panel, channel = front.panel(), front.channel()
        before = dict(front.kernel.comm_manager.targets)
        assert {"agent_kernel.panel", "agent_kernel.notebook"} <= set(before)
        agent_kernel.unload_ipython_extension(front.ip)
        assert not {"agent_kernel.panel", "agent_kernel.notebook"} & set(front.kernel.comm_manager.targets)
        assert channel.comm.sent[-1][0] == "comm_close"
        assert panel.state["gone"].startswith("agent_kernel is not loaded any more.")
        assert panel.ask("rows", n=1)["code"] == "gone"
        hooks = [hook for hooks in front.ip.events.callbacks.values() for hook in hooks]
        assert not [hook for hook in hooks if "agent_kernel" in getattr(hook, "__module__", "")]

    def test_it_can_be_loaded_again(self, front: Front) -> None:
        panel = front.panel()
        agent_kernel.unload_ipython_extension(front.ip)
        agent_kernel.load_ipython_extension(front.ip)
        front.run("x = 5")
        assert front.panel().ask("rows", n=3)["commits"] == 3
        assert panel.state["gone"]

    def test_what_waits_is_dropped_with_the_store(self, front: Front) -> None:
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"), source="meanwhile()\n%agent bind elsewhere")
        assert front.ns["x"] == 2


class TestTheSidePanel:
    def test_it_asks_and_acts_without_a_widget(self, front: Front) -> None:
        channel = front.channel()
        assert channel.state["kernel"]
        assert channel.ask("open", n=5)["title"] == "study.ipynb"
        assert channel.ask("undo")["done"].startswith("Undone [2]")
        assert front.ns["x"] == 1

    def test_a_front_end_that_hangs_up_is_told_nothing_more(self, front: Front) -> None:
        channel = front.channel()
        channel.comm.handle_close({"content": {"data": {}}})
        known = len(channel.comm.sent)
        front.run("z = 1")
        assert len(channel.comm.sent) == known

    def test_its_thread_is_the_one_that_the_front_end_chose(self, front: Front) -> None:
        for comm in (front.channel().comm, front.panel().comm):
            assert comm._reply_subshell_for({}, "theirs") == "theirs"

    def test_replies_of_ipykernel_7_3_go_by_the_stream_that_reads_requests_or_it_would_miss_some(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        front = Front(tmp_path, monkeypatch)
        older: Any = front.kernel
        older.shell_stream = object()
        older.shell_channel_thread = SimpleNamespace(manager=SimpleNamespace(_shell_socket=object()))
        with front:
            assert older.shell_channel_thread.manager._shell_socket is older.shell_stream


def test_several_threads_may_ask_at_once(front: Front) -> None:
    panel: Panel = front.panel()
    answers: list[int] = []
    for _ in range(3):
        elsewhere(lambda: answers.append(panel.ask("rows", n=9)["commits"]))
    assert answers == [2, 2, 2]


class TestBeforeTheFirstCell:
    def test_a_channel_goes_on_with_a_history_that_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Front(tmp_path, monkeypatch) as front:
            front.run("x = 1")
            front.run("x = 2")
        with Front(tmp_path, monkeypatch) as front:
            channel = front.channel()
            assert channel.state["kernel"]
            assert channel.ask("checkout", to="HEAD~1", what="variables")["done"].startswith("Checked out [1]")
            assert front.ns["x"] == 1
            assert "Every cell is now a commit" in front.run("y = 1")
            assert "Every cell is now a commit" not in front.run("y = 2")

    def test_from_another_thread_it_does_so_on_the_main_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Front(tmp_path, monkeypatch) as front:
            front.run("x = 1")
        with Front(tmp_path, monkeypatch) as front:
            channels: list[Channel] = []
            elsewhere(lambda: channels.append(front.channel()))
            assert channels[0].state["gone"] == "This notebook is bound to no store."
            front.between()
            assert channels[0].state["kernel"]

    def test_where_there_is_no_history_none_is_begun(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Front(tmp_path, monkeypatch) as front:
            assert not front.channel().state["kernel"]
            assert not (tmp_path / ".agent-kernel").exists()

    def test_with_commits_off_nothing_is_bound(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Front(tmp_path, monkeypatch) as front:
            front.run("x = 1")
        with Front(tmp_path, monkeypatch, commits="off") as front:
            assert not front.channel().state["kernel"]
