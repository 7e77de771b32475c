"""The runs of agents in the list: each is one row, whatever goes on beside it, and one that waits stays open."""

from __future__ import annotations

from typing import Any

import msgspec

import agent_kernel as ak
from agent_kernel.agents import event_log
from agent_kernel.agents.agent import open_context, start_run
from agent_kernel.agents.approval import decide, log_of
from agent_kernel.agents.event_log import EventStore
from agent_kernel.queries.listing import where_stopped
from agent_kernel.queries.reader import Reader
from tests.queries.histories import Notebook


def give(nb: Notebook, task: str, *turns: str, name: str = "analyst", approve: str = "risky") -> ak.Run[object]:
    """Let an agent that plays these answers do a task, as far as it goes."""
    agent = ak.Agent(name, model=ak.ScriptedModel(turns, name=name), approve=approve)
    run: ak.Run[object] = start_run(agent, task, open_context(nb.session), can_ask=True)
    for _ in run:
        pass
    return run


def kinds(rows: list[Any]) -> list[tuple[str, int]]:
    return [(row["kind"], row.get("depth", 0)) for row in rows]


def test_a_run_is_one_row_with_its_task_and_all_that_its_steps_changed(nb: Notebook) -> None:
    nb.run("df = 1")
    _ = give(
        nb,
        "Draw the errors\nand save them",
        "df = 2\ntmp = 1",
        "del tmp\nfig = 'x' * 100",
        "task.success()",
        approve="auto",
    )
    row = nb.rows()[0]
    assert (row["kind"], row["why"], row["subject"], row["unfolded"]) == ("fold", "run", "Draw the errors", False)
    run = row["run"]
    assert run["author"] == {"name": "analyst", "kind": "agent", "me": False}
    assert (run["status"], run["steps"], run["more"]) == ("completed", 3, 0)
    assert [chip[:2] for chip in run["chips"]] == [["+", "fig"], ["~", "df"]]
    assert run["tip"] == nb.ask("open")["head"]["id"]
    assert run["refs"] == [{"kind": "branch", "name": "main", "head": True, "lane": 0}]
    assert row["graph"]["node"] == 0


def test_a_run_says_what_all_its_steps_changed_and_from_where(nb: Notebook) -> None:
    before = nb.run("import pandas as pd\ndf = pd.DataFrame({'price': range(40)})\nkept = [1]\nold = 1")
    run = give(
        nb,
        "Clean it",
        "df = df[df.price > 16]\ntmp = 1",
        "df['tax'] = 1\ndel tmp, old\nkept.append(2)",
        "task.success()",
        approve="auto",
    )
    found = nb.ask("run", id=run.id)
    assert found["base"] == before
    assert found["changed"] == ["df", "kept", "old"]
    assert found["grew"] == {"df": "−17 rows, +1 column", "kept": "+1 item"}
    assert [chip[:2] for chip in found["chips"]] == [["~", "df"], ["~", "kept"], ["-", "old"]]
    whole = nb.ask("commit", id=found["tip"], against=found["base"])
    assert [change["name"] for change in whole["changes"]] == ["df", "kept", "old"]
    row = next(row for row in nb.rows() if row["kind"] == "fold" and row["why"] == "run")
    assert row["run"]["grew"] == found["grew"]


def test_a_run_that_came_first_changed_all_that_there_is(nb: Notebook) -> None:
    run = give(nb, "Count", "a = 1", "b = 2", "task.success()")
    found = nb.ask("run", id=run.id)
    assert (found["base"], found["changed"], found["grew"]) == ("", ["a", "b"], {})
    whole = nb.ask("commit", id=found["tip"], against="")
    assert sorted((change["how"], change["name"]) for change in whole["changes"]) == [("+", "a"), ("+", "b")]
    assert whole["against"] is None
    assert nb.ask("variable", id=found["tip"], against="", name="a")["how"] == "+"
    assert nb.ask("code", id=found["tip"], against="") == nb.ask("code", id=found["tip"])


def _ran_around_a_cell(nb: Notebook) -> ak.Run[object]:
    """A run that set `a` before a cell of the person, and `b` after it."""
    agent = ak.Agent(
        "analyst", model=ak.ScriptedModel(["a = 1", "task.clarify('Go on?')", "b = 1", "task.success()"], name="two")
    )
    run: ak.Run[object] = start_run(agent, "Count", open_context(nb.session), can_ask=True)
    for _ in run:
        pass
    nb.run("mine = 1")
    for _ in run.resume("yes"):
        pass
    return run


def test_what_others_changed_between_the_steps_of_a_run_is_not_the_runs(nb: Notebook) -> None:
    run = _ran_around_a_cell(nb)
    assert nb.ask("run", id=run.id)["changed"] == ["a", "b"]


def test_it_unfolds_to_its_steps(nb: Notebook) -> None:
    _ = give(nb, "Count", "a = 1", "b = 2", "task.success()")
    fold = nb.rows()[0]
    rows = nb.rows(unfolded=[fold["id"]])
    assert kinds(rows[:4]) == [("fold", 0), ("commit", 1), ("commit", 1), ("commit", 1)]
    assert [row["prompt"] for row in rows[1:4]] == [".3", ".2", ".1"]
    assert {row["node"] for row in rows[1:4]} == {"agent"}
    assert {row["run"] for row in rows[1:4]} == {fold["run"]["id"]}
    assert rows[0]["graph"]["node"] is None


def test_a_step_is_called_by_its_number_and_its_agent_where_its_cell_has_others(nb: Notebook) -> None:
    nb.run("x = 1")
    _ = give(nb, "Count", "a = 1", "b = 2", "task.success()")
    rows = nb.rows(unfolded=[nb.rows()[0]["id"]])
    said = {row["prompt"]: row["called"] for row in rows if row["kind"] == "commit"}
    assert (said[".2"], said["[1]"]) == ("step 2 of analyst", "")
    assert nb.ask("commit", id="HEAD~1")["called"] == "step 2 of analyst"
    assert nb.ask("open", n=0)["head"]["label"] == "step 3 of analyst"


def test_head_inside_a_folded_run_is_found_in_its_row(nb: Notebook) -> None:
    _ = give(nb, "Count", "a = 1", "b = 2", "task.success()")
    fold = nb.rows()[0]
    middle = nb.rows(unfolded=[fold["id"]])[2]["id"]
    nb.session.checkout(middle)
    row = nb.rows()[0]
    assert [(ref["kind"], ref["head"]) for ref in row["run"]["refs"]] == [("branch", False), ("head", True)]
    assert nb.ask("locate", id=middle)["row"] == nb.ask("locate", id="main")["row"]


def test_a_search_counts_its_matches_inside_a_run(nb: Notebook) -> None:
    _ = give(nb, "Count", "a = 1", "b = 2", "task.success()")
    (fold,) = nb.rows("var:b")
    assert (fold["why"], fold["matching"], fold["n"]) == ("run", 1, 3)
    rows = nb.rows("var:b", unfolded=[fold["id"]])
    assert [row["prompt"] for row in rows[1:]] == [".2"]


def test_sub_agents_are_part_of_their_parents_row_and_stand_deeper_in_it(nb: Notebook) -> None:
    nb.run("base = 10")
    parent = ak.Agent("lead", model=ak.ScriptedModel(["x = helper(4)", "task.success(x)"], name="lead"))
    child = ak.Agent("helper", model=ak.ScriptedModel(["made = base + n", "task.success(made)"], name="helper"))

    @parent.fn
    @child.task
    def helper(n: int) -> int:
        """Do a part of the work."""
        raise NotImplementedError

    assert helper.agent is child
    assert parent("Work", state=nb.session) == 14
    rows = nb.rows()
    assert [row["subject"] for row in rows if row["kind"] == "fold"] == ["Work"]
    fold = rows[0]
    assert fold["run"]["author"]["name"] == "lead"
    opened = nb.rows(unfolded=[fold["id"]])[1 : 1 + fold["n"]]
    assert {(row["author"]["name"], row["depth"]) for row in opened} == {("lead", 1), ("helper", 2)}
    assert "merge" in {row["node"] for row in opened}


def test_commits_that_somebody_makes_meanwhile_do_not_part_a_run(nb: Notebook) -> None:
    nb.run("base = 1")
    head = nb.session.head
    assert head is not None
    nb.repo.create_branch("other", head)

    def meanwhile() -> str:
        with ak.Versioned(nb.repo, branch="other") as other:
            other[f"y{len(list(other))}"] = 1
            other.commit("beside it")
        return "task.success()"

    def answer(request: Any) -> str:
        return meanwhile() if request.turn == 1 else "a = 1"

    ak.Agent("analyst", model=ak.FunctionModel(answer)).start("Work", state=nb.session).result()
    assert [row["kind"] for row in nb.rows()] == ["fold", "commit", "commit"]


def test_a_run_that_was_resumed_after_others_commits_says_in_each_of_its_rows_that_it_is_one(nb: Notebook) -> None:
    run = _ran_around_a_cell(nb)
    newer, mine, older = nb.rows()[:3]
    assert mine["kind"] == "commit"
    assert [row["run"]["id"] for row in (newer, older)] == [run.id, run.id]
    assert [row["run"]["part"] for row in (newer, older)] == ["last", "first"]
    assert newer["id"] != older["id"]


def test_a_run_that_was_undone_says_so_until_it_is_done_again(nb: Notebook) -> None:
    nb.run("base = 1")
    run = give(nb, "Count", "a = 1", "b = 2", "task.success()")

    def statuses() -> set[str]:
        (row,) = [row["run"]["status"] for row in nb.rows() if row["kind"] == "fold"]
        return {row, nb.ask("run", id=run.id)["status"]}

    found = [statuses()]
    for move in (nb.session.undo, nb.session.redo, nb.session.undo):
        move()
        found.append(statuses())
    assert found == [{"completed"}, {"undone"}, {"completed"}, {"undone"}]
    nb.session.checkout("HEAD~3")  # the run's own commit: its variables are here again
    assert statuses() == {"completed"}


def test_a_run_that_waits_for_approval_stands_open_with_the_step_that_waits(nb: Notebook) -> None:
    run = give(nb, "Save it", "a = 1", "open('/nowhere/x', 'w')", "task.success()")
    assert run.status == "pending"
    rows = nb.rows()
    assert kinds(rows[:3]) == [("fold", 0), ("wait", 1), ("commit", 1)]
    fold, wait, step = rows[:3]
    assert (fold["unfolded"], fold["run"]["status"]) == (True, "pending")
    assert (wait["prompt"], wait["subject"], wait["is_code"]) == (".2", "open('/nowhere/x', 'w')", True)
    assert (wait["run"], wait["waits_for"]) == (run.id, "approval")
    node = wait["graph"]["node"]
    assert [None, node, wait["graph"]["colour"], 1] in wait["graph"]["lines"]  # dashed, down to the last step
    assert [node, None, step["graph"]["colour"], 1] in step["graph"]["lines"]


def test_a_run_that_waits_before_its_first_commit_has_a_row_too(nb: Notebook) -> None:
    _ = give(nb, "Save it", "open('/nowhere/x', 'w')", "task.success()")
    (row,) = nb.rows()
    assert (row["kind"], row["depth"], row["subject"], row["author"]["name"]) == ("wait", 0, "Save it", "analyst")


def test_a_question_waits_for_an_answer(nb: Notebook) -> None:
    _ = give(nb, "Take one", "a = 1", "task.clarify('Which one?')")
    wait = next(row for row in nb.rows() if row["kind"] == "wait")
    assert (wait["waits_for"], wait["subject"], wait["is_code"]) == ("answer", "Which one?", False)


def test_a_decision_from_anywhere_changes_the_version_and_takes_the_row_away(nb: Notebook) -> None:
    before = nb.reader.version()
    run = give(nb, "Save it", "open('/nowhere/x', 'w')", "task.success()")
    waiting = nb.reader.version()
    assert waiting != before
    decide(log_of(EventStore(nb.repo.store), run.id), "deny", reason="no", by="somebody")
    assert nb.reader.version() not in (before, waiting)
    assert nb.rows() == []


def test_a_run_that_nobody_drives_any_more_is_stopped_and_one_that_somebody_drives_is_not(nb: Notebook) -> None:
    agent = ak.Agent("analyst", model=ak.ScriptedModel(["a = 1", "task.success()"]))
    run = start_run(agent, "Count", open_context(nb.session))
    loop = run.stream()
    while not any(event.kind == "Output" for event in run.events):
        next(loop)
    driven = nb.reader.version()
    assert nb.rows()[0]["run"]["status"] == "running"
    del loop
    assert nb.reader.version() != driven
    assert nb.rows()[0]["run"]["status"] == "interrupted"


def test_a_run_that_ends_without_a_commit_changes_the_version_too(nb: Notebook) -> None:
    run = give(nb, "Take one", "a = 1", "task.clarify('Which one?')")
    before = nb.reader.version()
    run.abandon()
    assert nb.reader.version() != before
    assert nb.rows()[0]["run"]["status"] == "cancelled"


def test_a_step_that_waits_shows_no_secret(nb: Notebook) -> None:
    _ = give(nb, "Send it", "key = 'sk-ant-REDACTED'; open('/x', 'w')")
    (row,) = nb.rows()
    assert "sk-" not in str(row)
    assert "sk-" not in str(nb.ask("run", id=row["run"]))


def test_a_run_in_detail_says_its_steps_what_it_took_and_how_it_ended(nb: Notebook) -> None:
    run = give(nb, "Draw it\nin blue", "a = 1", "1 / 0", "task.fail('no data')")
    told = nb.ask("run", id=run.id)
    assert (told["task"], told["status"], told["reason"]) == ("Draw it\nin blue", "failed", "no data")
    assert [(step["prompt"], step["subject"], step["node"]) for step in told["steps"]] == [
        (".1", "a = 1", "agent"),
        (".2", "1 / 0", "failed"),
        (".3", "task.fail('no data')", "agent"),
    ]
    assert all(len(step["id"]) == 64 for step in told["steps"])
    assert told["steps"][1]["why"] == "ZeroDivisionError: division by zero"
    assert told["tip"] == told["steps"][-1]["id"]
    assert told["asks"] is None


def test_a_run_says_what_it_gave_back_and_counts_its_steps_as_its_row_does(nb: Notebook) -> None:
    run = give(nb, "Count", "a = 1", "open('/nowhere/x', 'w')", "task.success('sk-ant-REDACTED')")
    for _ in run.deny("not there"):
        pass
    told, row = nb.ask("run", id=run.id), nb.rows()[0]
    assert (told["n_steps"], row["run"]["steps"], len(told["steps"])) == (3, 3, 3)
    assert told["result"].startswith("str ")
    assert "sk-" not in told["result"]
    assert told["reason"] == ""


def test_branches_that_nobody_named_are_said_in_words_and_offered_nowhere(nb: Notebook) -> None:
    first, second = nb.cells("a = 1", "b = 1")
    for name, at in (("race/ab12c/2", first), ("preview/0123abcd-ab12c", second), ("race/mine", second)):
        nb.repo.create_branch(name, nb.repo.resolve(at))
    (newer, older) = nb.rows()
    assert [(ref["kind"], ref["name"], ref.get("branch", "")) for ref in newer["refs"]] == [
        ("branch", "main", ""),
        ("branch", "race/mine", ""),
        ("aside", "tried on a fork, waiting", "preview/0123abcd-ab12c"),
    ]
    assert [ref["name"] for ref in older["refs"]] == ["candidate 2 of race ab12c"]
    assert [one["name"] for one in nb.ask("branches")] == ["main", "race/mine"]
    assert nb.ask("commit", id="race/ab12c/2")["id"] == first  # they can be named
    nb.session.switch("race/ab12c/2")
    assert [one["name"] for one in nb.ask("branches")] == ["race/ab12c/2", "main", "race/mine"]


def test_all_candidates_at_one_commit_are_one_short_label(nb: Notebook) -> None:
    first, second = nb.cells("a = 1", "b = 1")
    for name, at in (
        ("race/ab12c/1", first),
        ("race/ab12c/2", first),
        ("race/ab12c/3", second),
        ("race/ff00a/1", second),
    ):
        nb.repo.create_branch(name, nb.repo.resolve(at))
    (newer, older) = nb.rows()
    assert [(ref["name"], ref["branch"]) for ref in older["refs"]] == [
        ("2 candidates of race ab12c", "race/ab12c/1, race/ab12c/2")
    ]
    assert [ref["name"] for ref in newer["refs"]] == ["main", "2 branches of agents"]


def test_a_run_in_detail_says_what_it_asks_with_a_row_for_each_kind_of_reach(nb: Notebook) -> None:
    nb.run("df = 1")
    code = "import smtplib\ndf\nopen('out.txt', 'w')\nsmtplib.SMTP('mail.example.org', 25)"
    run = give(nb, "Send it", code)
    asks = nb.ask("run", id=run.id)["asks"]
    assert (asks["step"], asks["branch"], asks["after"]) == (1, "main", "[1]")
    assert "".join(text for _, text in asks["code"]) == code
    assert ("keyword", "import") in [tuple(piece) for piece in asks["code"]]
    report = {row["word"]: row for row in asks["report"]}
    assert list(report)[:2] == ["Reaches", "Writes"]
    assert report["Reaches"]["risky"]
    assert report["Reads"]["items"] == ["df"]
    assert report["Deletes"]["items"] == []


def test_the_report_says_which_variables_a_step_would_change_in_place(nb: Notebook) -> None:
    nb.run("rows = [3, 1]\ndf = {}\nkept = 1")
    code = "df['twice'] = kept * 2\nrows.append(4)\nnew = []\nnew.append(1)\nopen('/nowhere/x', 'w')"
    asks = nb.ask("run", id=give(nb, "Double it", code).id)["asks"]
    report = {row["word"]: (row["items"], row["note"]) for row in asks["report"]}
    assert report["Changes"] == (["df", "rows"], "2 variables")
    assert report["Sets"] == (["new"], "1 variable")


def test_a_saved_notebook_names_the_agent_of_a_run_and_neither_its_task_nor_its_code(nb: Notebook) -> None:
    _ = give(nb, "A private task", "secret_sauce = 'x' * 40", "open('/private/path', 'w')")
    said = str(Reader(nb.repo).represent_history())
    assert "analyst" in said
    assert "private" not in said
    assert "'x' * 40" not in said


def stop(nb: Notebook, *turns: str, steps: int) -> ak.Run[object]:
    """A run whose loop is interrupted after so many steps, as its model is to answer."""
    agent = ak.Agent("analyst", model=ak.ScriptedModel(turns, name="analyst"), approve="auto")
    run: ak.Run[object] = start_run(agent, "Count the rows", open_context(nb.session), can_ask=True)
    loop = run.stream()
    while sum(event.kind == "Output" for event in run.events) < steps:
        next(loop)
    del loop
    _ = run.halt()
    return run


def stopped(nb: Notebook) -> list[Any]:
    """What the rows say of runs that stopped."""
    rows = [row.get("stopped") or (row.get("run") or {}).get("stopped") for row in nb.rows() if row["kind"] != "commit"]
    return [row for row in rows if row]


class TestStopped:
    def test_an_interrupted_run_says_where_it_stopped_and_what_was_done(self, nb: Notebook) -> None:
        run = stop(nb, "a = 1", "b = 2", "task.success()", steps=2)
        found = {
            "said": "stopped while the model answered",
            "code": "",
            "done": 2,
            "refused": "",
            "at": run.events[-1].seq,
            "cell": "",
            "checked": False,  # only the kernel knows whether it can go on
            "died": False,
        }
        assert stopped(nb) == [found]
        assert nb.ask("run", id=run.id)["stopped"] == found

    def test_one_that_was_interrupted_in_a_step_says_which_code_that_was(self, nb: Notebook) -> None:
        run = give(nb, "Count", "a = 1", "b = 2\nraise KeyboardInterrupt", "task.success()", approve="auto")
        assert run.status == "completed"  # the code's own error, and no interrupt
        agent = ak.Agent("analyst", model=ak.ScriptedModel(["a = 1", "import signal\nsignal.raise_signal(2)"]))
        run = start_run(agent, "Count", open_context(nb.session), approve="auto")
        for _ in run:
            pass
        assert run.status == "interrupted"
        (found,) = stopped(nb)
        assert (found["said"], found["code"], found["done"]) == ("stopped in step 2", "signal.raise_signal(2)", 1)

    def test_one_whose_process_died_in_a_step_says_so_also_before_its_first_commit(self, nb: Notebook) -> None:
        older = nb.run("x = 1")
        agent = ak.Agent("analyst", model=ak.ScriptedModel(["a = 1", "task.success()"]))
        run = start_run(agent, "Count the rows", open_context(nb.session))
        loop = run.stream()
        while not any(event.kind == "StepStart" for event in run.events):
            next(loop)
        del loop
        nb.repo.store.swap({}, {event_log.key(run.id): b"a process that died"})
        nb.run("y = 1")
        _, row, last = nb.rows()
        assert (row["kind"], row["waits_for"], row["run"], row["subject"]) == (
            "wait",
            "resume",
            run.id,
            "Count the rows",
        )
        assert (row["stopped"]["said"], row["stopped"]["code"]) == ("stopped in step 1 (its process ended)", "a = 1")
        assert row["stopped"]["died"]
        assert last["id"] == older
        assert (row["graph"]["node"], [line[:2] for line in row["graph"]["lines"]]) == (1, [[0, 0]])  # beside the line

    def test_one_that_reached_a_limit_can_go_on_and_one_that_gave_up_is_a_failure(self, nb: Notebook) -> None:
        agent = ak.Agent(
            "analyst", model=ak.ScriptedModel(["a = 1", "b = 2", "task.success()"]), limits=ak.Limits(steps=1)
        )
        run = start_run(agent, "Count", open_context(nb.session))
        for _ in run:
            pass
        (found,) = stopped(nb)
        assert found["said"] == "stopped after 1 step, which is the limit"
        for _ in run.resume():
            pass
        _ = give(nb, "Count", "task.fail('no data')")
        assert stopped(nb)[0]["said"].startswith("stopped after ")
        assert len(stopped(nb)) == 1

    def test_one_that_went_on_or_was_given_up_is_not_among_them(self, nb: Notebook) -> None:
        run = stop(nb, "a = 1", "task.success()", steps=1)
        for _ in run.resume():
            pass
        other = stop(nb, "a = 1", "task.success()", steps=1)
        other.abandon()
        assert stopped(nb) == []

    def test_where_its_steps_lie_on_another_branch_the_reason_is_said(self, nb: Notebook) -> None:
        nb.run("x = 1")
        nb.session.switch("aside", create=True)
        run = stop(nb, "a = 1", "task.success()", steps=1)
        nb.session.switch("main")
        (found,) = stopped(nb)
        assert found["refused"] == (
            f"step 1 of run {run.id[-5:]} is on branch aside and not in the history here: "
            "%agent checkout aside goes there, or %agent merge aside brings it here first"
        )

    def test_a_search_does_not_list_those_without_a_commit(self, nb: Notebook) -> None:
        nb.run("x = 1")
        _ = stop(nb, "a = 1", steps=0)
        assert [row["kind"] for row in nb.rows("var:x")] == ["commit"]
        assert [row["kind"] for row in nb.rows()] == ["wait", "commit"]

    def test_those_of_sub_agents_and_candidates_are_their_callers(self, nb: Notebook) -> None:
        run = stop(nb, "a = 1", steps=1)
        events = tuple(EventStore(nb.repo.store).of(run.id))
        assert where_stopped(EventStore(nb.repo.store), events)[0]
        inner = [msgspec.structs.replace(event, parent_run="019") for event in events]
        assert where_stopped(EventStore(nb.repo.store), inner) == ("", None)
