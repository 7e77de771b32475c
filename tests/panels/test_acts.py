"""What a panel has done: at once between cells, and after the cell while one runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from agent_kernel.repository import short
from tests.panels.fronts import Front, elsewhere

_STAY = "cells were not changed back, because no history panel is open"


@pytest.fixture
def front(front: Front) -> Front:
    for source in ("x = [1]; y = 2", "# a slip of the hand\nx.append(2); tmp = 3; del y"):
        front.run(source)
    return front


def test_a_commit_of_an_earlier_kernel_is_named_by_its_hash_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Front(tmp_path, monkeypatch) as front:
        front.run("x = [1]")
    with Front(tmp_path, monkeypatch) as front:
        front.run("%agent checkout")
        front.run("x.append(2)")
        panel = front.panel()
        older = panel.ask("open")["head"]["id"]
        repo = front.extension.notebook.repo
        assert repo is not None
        before = repo.resolve("HEAD~1")
        done = panel.ask("checkout", to="HEAD~1", what="variables")
        assert done["done"].startswith(f"Checked out [1] ({short(before)}): ")
        assert panel.state["undo"]["text"] == f"the checkout of [1] ({short(before)})"
        assert panel.ask("undo")["done"].startswith(f"Checkout of [1] ({short(before)}) undone: ")
        assert panel.ask("checkout", to=older, what="variables")["done"].startswith("Checked out [2]: ")


class TestBetweenCells:
    def test_a_checkout_loads_the_variables_and_says_what_changed(self, front: Front) -> None:
        panel = front.panel()
        done = panel.ask("checkout", to="HEAD~1", what="variables")
        assert done["done"] == "Checked out [1]: 1 variable changed, 1 added, 1 removed."
        assert (front.ns["x"], front.ns["y"], "tmp" in front.ns) == ([1], 2, False)
        assert done["undo"]
        assert done["cells"] is None
        assert (done["head"]["branch"], done["head"]["label"]) == (None, "[1]")

    def test_undo_takes_a_checkout_back_and_offers_no_undo_of_itself(self, front: Front) -> None:
        panel = front.panel()
        panel.ask("checkout", to="HEAD~1")
        done = panel.ask("undo")
        assert done["done"] == "Checkout of [1] undone: 1 variable changed, 1 added, 1 removed."
        assert not done["undo"]
        assert front.ns["tmp"] == 3
        assert panel.ask("redo")["done"].startswith("Checkout of [1] done again")

    def test_an_undo_that_is_typed_tells_the_panels_whose_cells_came_with_it(self, front: Front) -> None:
        front.channel("agent_kernel.notebook").send({"cells": [{"id": "a", "type": "code", "source": "x"}]})
        front.run("x = 3")
        front.run("x = 4")
        panel = front.panel()
        done = panel.ask("checkout", to="HEAD~1")
        assert done["cells"] is not None
        assert _STAY not in front.run("%agent undo") + str(front.display.shown)
        assert (panel.state["done"]["op"], panel.state["done"]["of"]) == ("undo", done["of"])
        front.run("%agent redo")
        assert (panel.state["done"]["op"], panel.state["done"]["of"]) == ("redo", done["of"])
        panel.send({"op": "watch", "view": ""})
        panel.comm.handle_close({"content": {"data": {}}})
        front.run("%agent undo")
        assert _STAY in str(front.display.shown)

    def test_undo_takes_back_what_its_panel_offered_and_not_what_another_did_since(self, front: Front) -> None:
        panel, other = front.panel(), front.panel()
        head = panel.ask("checkout", to="HEAD~1")["head"]["id"]
        other.ask("switch", branch="main")
        for verb in ("undo", "redo"):
            failed = panel.ask(verb, head=head)
            assert failed == {"code": "refused", "message": "HEAD is at [2] by now. Nothing was changed."}
        assert front.ns["tmp"] == 3
        assert panel.ask("undo", head=panel.ask("open")["head"]["id"])["done"].startswith("Checkout of main undone")

    def test_undo_takes_back_no_other_move_that_ended_at_the_same_commit(self, front: Front) -> None:
        panel, other = front.panel(), front.panel()
        done = panel.ask("checkout", to="HEAD~1")
        pin = {"head": done["head"]["id"], "of": done["of"]}
        assert panel.state["undo"]["of"] == done["of"]
        other.ask("branch", name="side", at="HEAD", go=True)
        assert panel.ask("undo", **pin) == {"code": "refused", "message": "HEAD is at [1] by now. Nothing was changed."}
        undone = other.ask("undo", of=other.state["undo"]["of"])
        assert undone["done"].startswith("Checkout of side undone")
        assert panel.ask("undo", **pin)["done"].startswith("Checkout of [1] undone")
        assert panel.ask("redo", of=undone["of"])["code"] == "refused"

    def test_a_rollback_is_a_new_commit(self, front: Front) -> None:
        done = front.panel().ask("rollback", to="HEAD~1")
        assert done["done"] == "Rolled back to [1]: 1 variable changed, 1 added, 1 removed."
        assert done["head"]["branch"] == "main"
        assert done["head"]["label"].startswith("“")

    def test_what_cannot_be_saved_and_is_there_stays_as_it_is(self, front: Front) -> None:
        front.run("numbers = (one for one in [1, 2])")
        front.run("x = 5")
        done = front.panel().ask("checkout", to="HEAD~1")
        assert done["done"] == "Checked out [3]: 1 variable changed. numbers stays as it is."
        assert next(front.ns["numbers"]) == 1

    def test_a_branch_is_made_and_gone_to(self, front: Front) -> None:
        panel = front.panel()
        assert panel.ask("branch", name="ridge", at="HEAD~1", go=False)["done"] == "Branch ridge starts at [1]."
        done = panel.ask("branch", name="lasso", at="HEAD~1", go=True)
        assert done["done"] == "Switched to new branch lasso: 1 variable changed, 1 added, 1 removed."
        assert front.ns["x"] == [1]
        assert panel.ask("switch", branch="main")["done"].startswith("Switched to main: ")

    def test_a_tag_a_commit_and_a_check_of_the_store(self, front: Front) -> None:
        panel = front.panel()
        assert panel.ask("tag", name="v1", at="HEAD")["done"] == "Tagged [2] as v1."
        assert panel.ask("commit_now", message="all of it")["done"] == "Committed: no variable changed."
        assert panel.ask("verify")["done"].endswith(" objects checked: all sound.")

    def test_a_merge_lists_its_conflicts_and_takes_the_sides_that_were_chosen(self, front: Front) -> None:
        panel = front.panel()
        panel.ask("branch", name="side", at="HEAD", go=True)
        front.run("x = 'theirs'; z = 1")
        panel.ask("switch", branch="main")
        front.run("x = 'ours'")
        found = panel.ask("merge", branch="side", ours=[], theirs=[])
        rows = [{"name": "x", "ours": "str 'ours'", "theirs": "str 'theirs'", "together": []}]
        assert found == {"conflicts": rows, "branch": "side"}
        assert front.ns["x"] == "ours"
        done = panel.ask("merge", branch="side", ours=[], theirs=["x"])
        assert done["done"] == "Merged side: 1 variable changed, 1 added."
        assert (front.ns["x"], front.ns["z"]) == ("theirs", 1)

    def test_what_is_asked_for_on_another_thread_is_done_on_the_main_one(self, front: Front) -> None:
        panel = front.panel()
        ids: list[int] = []
        elsewhere(lambda: ids.append(panel.say("checkout", to="HEAD~1")))
        assert front.ns["x"] == [1, 2]
        front.between()
        assert front.ns["x"] == [1]
        assert panel.answer(ids[0])["done"].startswith("Checked out [1]")

    def test_what_names_nothing_is_refused_at_once(self, front: Front) -> None:
        panel = front.panel()
        assert panel.ask("checkout", to="nowhere")["code"] == "not_found"
        assert panel.ask("checkout", to="HEAD", what="all")["code"] == "refused"
        assert panel.ask("fly")["code"] == "refused"
        assert panel.ask("branch", name="", at="HEAD") == {"code": "refused", "message": "branch: the name is empty"}


class TestWhatUndoWouldTakeBack:
    def test_it_is_named_and_whether_it_is_a_cell_said_as_acts_and_cells_go_by(self, front: Front) -> None:
        panel = front.panel()
        first = panel.ask("open")["page"]["rows"][-1]["id"]
        undo = panel.state["undo"]
        last = panel.ask("open")["head"]["id"]
        assert undo == {
            "of": undo["of"], "text": "[2] a slip of the hand", "cell": True, "to": first, "after": last
        }  # fmt: skip
        head = panel.ask("checkout", to="HEAD~1")["head"]["id"]
        undo = panel.state["undo"]
        assert (undo["text"], undo["cell"]) == ("the checkout of [1]", False)
        panel.ask("undo", head=head)
        assert panel.state["undo"]["text"] == "[2] a slip of the hand"
        panel.ask("rollback", to="HEAD~1")
        assert not panel.state["undo"]["cell"]
        front.run("z = 1")
        assert panel.state["undo"]["text"].endswith(" z = 1")

    def test_before_the_first_commit_there_is_nothing_and_nothing_to_go_back_to(self, front: Front) -> None:
        panel = front.panel()
        panel.ask("undo")
        undo = panel.state["undo"]
        assert (undo["cell"], undo["to"]) == (True, None)
        panel.ask("undo")
        assert panel.state["undo"] is None


class TestWhileACellRuns:
    def test_an_act_waits_for_the_end_of_the_cell_and_its_commit(self, front: Front) -> None:
        panel = front.panel()
        answers: list[object] = []
        front.during(
            lambda: answers.append(panel.ask("checkout", to="HEAD~1")),
            lambda: answers.append(front.ns["x"]),
            source="late = 1; meanwhile()",
        )
        assert [answer["queued"]["label"] for answer in answers[:1]] == ["[1]"]  # type: ignore[index]
        assert answers[1] == [1, 2]
        assert front.ns["x"] == [1]
        assert "late" not in front.ns
        assert panel.state["done"]["done"] == "Checked out [1]: 1 variable changed, 1 added, 2 removed."
        assert (panel.state["busy"], panel.state["queued"], panel.state["failed"]) == (None, None, None)
        assert "late" in {chip[1] for row in panel.ask("rows", n=9)["rows"] for chip in row.get("chips", ())}

    def test_panels_are_told_which_cell_runs_and_what_waits(self, front: Front) -> None:
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"))
        waiting = [state for state in panel.states if state["queued"]]
        assert waiting[0]["busy"] == "[4]"
        assert waiting[0]["queued"]["op"] == "checkout"
        assert len(waiting[0]["queued"]["id"]) == 64

    def test_looking_is_answered_at_once(self, front: Front) -> None:
        panel = front.panel()
        answers: list[int] = []
        front.during(lambda: answers.append(panel.ask("rows", n=9)["commits"]))
        assert answers == [2]

    def test_a_later_act_takes_the_place_of_the_first(self, front: Front) -> None:
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"), lambda: panel.say("commit_now", message="only this"))
        assert front.ns["x"] == [1, 2]
        assert panel.state["done"]["done"] == "Committed: no variable changed."

    def test_what_waits_can_be_cancelled(self, front: Front) -> None:
        panel = front.panel()
        said: list[str] = []
        front.during(lambda: panel.say("checkout", to="HEAD~1"), lambda: said.append(panel.ask("cancel")["done"]))
        assert said == ["Check out of [1] was cancelled."]
        assert front.ns["x"] == [1, 2]
        assert panel.state["queued"] is None
        assert panel.ask("cancel")["done"] == "Nothing was waiting."

    @pytest.mark.parametrize("end", ["1 / 0", "raise KeyboardInterrupt"])
    def test_a_cell_that_fails_or_is_interrupted_lets_it_happen_too(self, front: Front, end: str) -> None:
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"), source=f"meanwhile(); {end}")
        assert front.ns["x"] == [1]
        assert panel.state["done"]["done"].startswith("Checked out [1]")

    def test_the_cells_that_come_with_it_wait_for_the_first_panel_that_claims_them(self, front: Front) -> None:
        cells = [{"id": "a", "type": "code", "source": "long " * 50_000}]
        front.channel("agent_kernel.notebook").send({"cells": cells})
        front.run("x = 5")
        panel, other = front.panel(), front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD", document="work/study.ipynb"))
        left = other.state["cells"]
        assert (left["document"], len(left["id"])) == ("work/study.ipynb", 64)
        assert panel.state["done"]["cells"] is None
        # The panel that asked is gone: one that comes later knows as much, and no opening holds the page.
        later = front.channel()
        assert later.state["cells"] == left
        assert len(json.dumps(later.ask("open", n=60))) < 50_000
        assert later.ask("claim", turn="another") is None
        assert later.ask("claim", turn=left["turn"])["cells"] == cells
        assert other.ask("claim", turn=left["turn"]) is None
        assert [one.state["cells"] for one in (panel, other, later)] == [None, None, None]

    def test_cells_that_nobody_claimed_are_given_up_as_the_next_cell_begins(self, front: Front) -> None:
        front.channel("agent_kernel.notebook").send({"cells": [{"id": "a", "type": "code", "source": "x"}]})
        front.run("x = 5")
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD"))
        turn = panel.state["cells"]["turn"]
        front.run("x")
        later = front.panel()
        text = "The notebook's cells of [3] were not brought back: another cell has begun first."
        for one in (panel, later):
            assert one.state["cells"] is None
            assert one.state["failed"] == {"text": text, "code": "refused"}
            assert one.ask("claim", turn=turn) is None

    def test_an_act_that_is_cancelled_or_takes_its_place_leaves_no_cells(self, front: Front) -> None:
        front.channel("agent_kernel.notebook").send({"cells": [{"id": "a", "type": "code", "source": "x"}]})
        front.run("x = 5")
        panel = front.panel()
        for second in ("cancel", "undo"):
            front.during(lambda: panel.say("checkout", to="HEAD"), partial(panel.say, second))
            assert panel.state["cells"] is None

    def test_what_waits_when_the_notebook_leaves_its_store_is_told_as_not_done(self, front: Front) -> None:
        panel, side = front.panel(), front.channel()
        front.during(lambda: side.say("checkout", to="HEAD~1"), source="meanwhile()\n%agent bind ./another")
        text = "Check out of [1] was not done: the notebook has left the store."
        for one in (panel, side):
            assert [state["queued"] for state in one.states if state["queued"]]
            assert one.state["failed"] == {"text": text, "code": "gone"}
        assert front.ns["x"] == [1, 2]

    def test_an_undo_takes_back_no_cell_that_ended_only_after_it_was_asked_for(self, front: Front) -> None:
        panel = front.panel()
        head = panel.ask("open")["head"]["id"]
        front.during(lambda: panel.say("undo", head=head), source="precious = 42; meanwhile()")
        assert front.ns["precious"] == 42
        text = "Undo failed: HEAD is at [4] by now. Nothing was changed."
        assert panel.state["failed"] == {"text": text, "code": "refused"}

    def test_the_page_of_a_branch_is_that_of_the_commit_whose_variables_come(self, front: Front) -> None:
        page = front.channel("agent_kernel.notebook")
        page.send({"cells": [{"id": "a", "type": "code", "source": "old"}]})
        front.run("v = 1")
        panel = front.panel()
        page.send({"cells": [{"id": "a", "type": "code", "source": "new"}]})
        front.during(lambda: panel.say("checkout", to="main"), source="v = 2; meanwhile()")
        assert front.ns["v"] == 2
        left = panel.ask("claim", turn=panel.state["cells"]["turn"])
        assert [cell["source"] for cell in left["cells"]] == ["new"]

    def test_on_the_main_thread_a_running_cell_goes_first_too(self, front: Front) -> None:
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"), source="meanwhile(); kept = x", thread=False)
        assert panel.state["done"]["done"].startswith("Checked out [1]")

    def test_what_fails_after_the_cell_is_told_to_all_until_the_next_act(self, front: Front) -> None:
        panel, other = front.panel(), front.panel()
        panel.ask("branch", name="side", at="HEAD~1", go=False)
        front.during(
            lambda: panel.say("switch", branch="side"),
            source="meanwhile(); get_ipython().run_line_magic('agent', 'branch -D side')",
        )
        failed = other.state["failed"]
        assert failed["code"] == "not_found"
        assert failed["text"].startswith("Switch to side failed: ")
        assert failed["text"].endswith("Nothing was changed.")
        panel.ask("commit_now", message="go on")
        assert other.state["failed"] is None

    def test_the_queue_is_empty_when_a_cell_was_quicker_than_the_loop(self, front: Front) -> None:
        panel = front.panel()
        ids: list[int] = []
        elsewhere(lambda: ids.append(panel.say("checkout", to="HEAD~1")))
        front.run("quick = 1")
        assert panel.answer(ids[0])["queued"]["label"] == "[1]"
        assert front.ns["x"] == [1]
        front.between()
        assert panel.state["done"]["done"].startswith("Checked out [1]")


class TestFailing:
    def damage(self, front: Front, name: str) -> None:
        """Break the stored bytes of a variable that is no more."""
        scope = front.extension.notebook.scope()
        tree = scope.repo.tree(scope.commit("HEAD~1")[1].tree)
        entry = tree.get(name)
        assert entry is not None
        blobs = scope.repo.read_manifest(entry).blobs
        keys = [b"b" + chunk[0] for blob in blobs for chunk in blob.chunks]
        assert keys, "the value is too small to be a chunk"
        scope.repo.store.delete_many(keys)

    def test_a_damaged_variable_is_named_and_nothing_moves(self, front: Front) -> None:
        front.run("import random; df = random.Random(1).randbytes(300_000)")
        front.run("del df")
        self.damage(front, "df")
        failed = front.panel().ask("checkout", to="HEAD~1")
        assert failed == {"code": "damaged", "message": "df is damaged in the store. Nothing was changed."}
        assert front.ns["tmp"] == 3
        panel = front.panel()
        front.during(lambda: panel.say("checkout", to="HEAD~1"))
        text = "Check out of [3] failed: df is damaged in the store. Nothing was changed."
        assert panel.state["failed"] == {"text": text, "code": "damaged"}

    def test_looking_is_answered_while_an_act_is_done(self, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
        panel = front.panel()
        answers: list[int] = []
        session = front.extension.notebook.scope().live()
        checkout = session.checkout

        def slow(rev: str) -> object:
            elsewhere(lambda: answers.append(panel.ask("rows", n=1)["commits"]))
            return checkout(rev)

        monkeypatch.setattr(session, "checkout", slow)
        assert panel.ask("checkout", to="HEAD~1")["undo"]
        assert answers == [2]

    def test_an_interrupt_is_told_as_one(self, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(_rev: str) -> object:
            raise KeyboardInterrupt

        monkeypatch.setattr(front.extension.notebook.scope().live(), "rollback", interrupted)
        failed = front.panel().ask("rollback", to="HEAD~1")
        assert failed == {"code": "failed", "message": "it was interrupted."}
