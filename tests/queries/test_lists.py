"""The list: rows, days, folds, refs, and where HEAD is."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from agent_kernel.errors import RefNotFoundError, RequestError
from agent_kernel.session import Repository, bind
from tests.commands.stores import ALL_KINDS
from tests.queries.histories import Notebook


def test_an_empty_history_says_so(nb: Notebook) -> None:
    opening = nb.ask("open", n=50)
    assert opening["page"]["rows"] == []
    assert opening["page"]["commits"] == 0
    assert opening["head"] == {"branch": "main", "id": None, "prompt": "", "label": "", "lane": None}
    assert nb.ask("branches") == []


def test_a_row_says_what_a_cell_did(nb: Notebook) -> None:
    id = nb.run("# Fit it\nmodel = [1] * 1000\nsmall = 1")
    day, row = nb.ask("open", n=50)["page"]["rows"]
    assert day["kind"] == "day"
    assert (row["kind"], row["id"], row["short"]) == ("commit", id, id[:8])
    assert (row["prompt"], row["subject"], row["is_code"]) == ("[1]", "Fit it", False)
    assert row["author"] == {"name": "ada", "kind": "person", "me": True}
    assert [chip[:2] for chip in row["chips"]] == [["+", "small"], ["+", "model"]]  # a number, then a list
    assert row["chips"][1][2] > row["chips"][0][2]
    assert (row["node"], row["why"], row["counts"], row["more"]) == ("cell", "", {"+": 2}, 0)
    assert row["took_s"] >= 0
    assert row["refs"] == [{"kind": "branch", "name": "main", "head": True, "lane": 0}]


def test_four_chips_are_shown_and_the_others_counted(nb: Notebook) -> None:
    nb.run("\n".join(f"v{n} = 'x' * {n * 100}" for n in range(7)))
    (row,) = nb.rows()
    assert [name for _, name, _ in row["chips"]] == ["v6", "v5", "v4", "v3"]
    assert row["more"] == 3
    assert row["counts"] == {"+": 7}


def test_the_most_interesting_changes_come_first(nb: Notebook) -> None:
    pytest.importorskip("sklearn")
    id = nb.run(ALL_KINDS)
    (row,) = nb.rows()
    assert [name for _, name, _ in row["chips"]] == ["df", "model", "rate", "figure"]
    assert [change["name"] for change in nb.ask("commit", id=id)["changes"]][:5] == [
        "df",
        "model",
        "rate",
        "figure",
        "words",
    ]
    nb.run("del df\nrate = 'a text'")
    assert [name for _, name, _ in nb.rows()[0]["chips"]] == ["rate", "df"]  # what is gone comes last


def test_many_changed_names_are_ordered_without_reading_them_all(nb: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def look(repo: Repository, entry: object) -> int:
        looked.append(entry)
        return 4

    monkeypatch.setattr("agent_kernel.session.history.rank_of", look)
    nb.run("for n in range(3000): globals()[f'v{n}'] = [n]")
    (row,) = nb.rows()
    assert len(row["chips"]) == 4
    assert 0 < len(looked) <= 64


def test_of_a_table_the_row_says_how_many_rows_came_or_went(nb: Notebook) -> None:
    pytest.importorskip("pandas")
    nb.run("import pandas as pd\ndf = pd.DataFrame({'a': range(9)}); rate = 1")
    nb.run("df = df[df.a > 3].reset_index(drop=True); rate = 2")
    assert [row["grew"] for row in nb.rows()[:2]] == [{"df": "−4 rows"}, {}]


def test_what_is_not_saved_is_among_the_chips(nb: Notebook) -> None:
    nb.run("big = {n: n for n in range(9)}\na, b, c, d = range(4)\ngen = (n for n in ())")
    (row,) = nb.rows()
    assert ["!", "gen", 0] in row["chips"]
    assert len(row["chips"]) == 4
    assert row["counts"]["!"] == 1


def test_code_and_prose_are_told_apart(nb: Notebook) -> None:
    nb.cells("import os\nx = 1", "# Prose\ny = 1")
    nb.session.commit("by hand")
    assert [(row["subject"], row["is_code"]) for row in nb.rows()][-2:] == [("Prose", False), ("x = 1", True)]


def test_a_cell_that_failed_says_why(nb: Notebook) -> None:
    nb.run("x = 1", raises=ValueError("Input X contains NaN"))
    nb.run("y = 1", raises=KeyboardInterrupt())
    assert [(row["node"], row["why"]) for row in nb.rows()] == [
        ("interrupted", "interrupted"),
        ("failed", "ValueError: Input X contains NaN"),
    ]


def test_cells_that_changed_nothing_fold_into_one_row(nb: Notebook) -> None:
    nb.cells("x = 1", "x", "x", "x", "y = 1")
    rows = nb.rows()
    assert [row["kind"] for row in rows] == ["commit", "fold", "commit"]
    fold = rows[1]
    assert (fold["why"], fold["n"], fold["prompt"]) == ("nothing", 3, "[2–4]")
    assert fold["subject"] == "3 cells that changed nothing"
    assert fold["matching"] == 0  # nothing is searched for
    opened = nb.rows(unfolded=[fold["id"]])
    assert [(row["kind"], row.get("depth")) for row in opened[1:5]] == [("fold", None)] + [("commit", 1)] * 3
    assert opened[1]["unfolded"]
    assert opened[1]["graph"]["node"] is None


def test_one_cell_that_changed_nothing_stays_a_row(nb: Notebook) -> None:
    nb.cells("x = 1", "x", "y = 1")
    assert [row["kind"] for row in nb.rows()] == ["commit"] * 3


def test_repeated_runs_of_one_cell_fold(nb: Notebook) -> None:
    nb.run("x = 1")
    for _ in range(3):
        nb.run("x += 1", id="again")
    nb.run("y = 1")
    fold = nb.rows()[1]
    assert (fold["why"], fold["n"], fold["subject"], fold["prompt"]) == ("repeated", 3, "x += 1", "[2–4]")


def test_a_fold_keeps_its_id_while_it_grows(nb: Notebook) -> None:
    nb.cells("x = 1", "x", "x", "x")
    fold = nb.rows()[1]
    nb.run("x")
    assert nb.rows()[1]["id"] == fold["id"]
    assert nb.rows()[1]["n"] == fold["n"] + 1


def test_what_a_name_points_at_does_not_fold(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x", "x", "x", "y = 1")
    nb.repo.create_tag("mark", ids[2])
    assert [row["kind"] for row in nb.rows()] == ["commit"] * 5


def test_days_are_those_of_the_reader(nb: Notebook) -> None:
    nb.run("x = 1")
    for hours in (-11, 0, 13):
        day = nb.ask("rows", n=1, tz_s=hours * 3600)["rows"][0]["day"]
        assert day == (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%d")


def test_pages_join_to_the_whole_list(nb: Notebook) -> None:
    nb.cells(*(f"x{n} = {n}" for n in range(12)))
    whole = nb.ask("rows", n=100)
    assert whole["total"] == len(whole["rows"]) == 13
    pages = [nb.ask("rows", from_=start, n=5) for start in range(0, 20, 5)]
    assert [row for page in pages for row in page["rows"]] == whole["rows"]
    assert {page["version"] for page in pages} == {whole["version"]}
    assert pages[-1]["rows"] == []


def test_a_commit_is_found_in_the_list_also_inside_a_fold(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x", "x", "y = 1")
    rows = nb.ask("rows", n=100)["rows"]
    assert rows[nb.ask("locate", id=ids[0])["row"]]["id"] == ids[0]
    assert rows[nb.ask("locate", id="HEAD")["row"]]["id"] == ids[3]
    fold = rows[nb.ask("locate", id=ids[1])["row"]]
    assert fold["kind"] == "fold"
    opened = nb.ask("rows", n=100, unfolded=[fold["id"]])["rows"]
    assert opened[nb.ask("locate", id=ids[1], unfolded=[fold["id"]])["row"]]["id"] == ids[1]
    assert nb.ask("locate", id=ids[0], text="var:y")["row"] is None


def test_the_version_changes_with_a_commit_a_ref_and_a_head_and_with_nothing_else(nb: Notebook) -> None:
    seen = [nb.reader.version()]
    ids = nb.cells("x = 1", "x = 2")
    seen.append(nb.reader.version())
    nb.repo.create_tag("mark", ids[0])
    seen.append(nb.reader.version())
    nb.repo.create_branch("side", ids[0])
    seen.append(nb.reader.version())
    nb.session.checkout(ids[0])
    seen.append(nb.reader.version())
    assert len(set(seen)) == len(seen)
    nb.repo.set_setting("anything", b"at all")
    assert nb.reader.version() == seen[-1]


def test_head_is_shown_on_its_branch_or_by_itself(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    assert nb.ask("open", n=1)["head"] == {
        "branch": "main",
        "id": ids[1],
        "prompt": "[2]",
        "label": "[2]",
        "lane": 0,
    }
    nb.session.checkout(ids[0])
    head = nb.ask("open", n=1)["head"]
    assert (head["branch"], head["id"], head["lane"]) == (None, ids[0], None)
    assert nb.rows()[1]["refs"] == [{"kind": "head", "name": "HEAD", "head": True, "lane": None}]
    assert nb.rows()[0]["refs"] == [{"kind": "branch", "name": "main", "head": False, "lane": 0}]


def test_each_branch_has_a_colour_and_main_has_the_first(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    nb.session.checkout(ids[0])
    nb.session.switch("a-side", create=True)
    side = nb.run("y = 1")
    rows = {row["id"]: row for row in nb.rows()}
    assert [rows[id]["graph"]["colour"] for id in (*ids, side)] == [0, 0, 1]
    assert rows[side]["graph"]["lines"] == [[None, 1, 1, 0]]  # main keeps its lane, though the other is newer
    assert rows[ids[0]]["graph"] == {"node": 0, "colour": 0, "lines": [[0, None, 0, 0], [1, None, 1, 0]]}
    assert [(one["name"], one["lane"], one["here"]) for one in nb.ask("branches")] == [
        ("a-side", 1, True),
        ("main", 0, False),
    ]


def test_branches_say_how_they_stand_to_where_one_is(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    nb.repo.create_branch("old", ids[0])
    nb.session.checkout(ids[0])
    nb.session.switch("side", create=True)
    nb.cells("y = 1", "y = 2")
    nb.session.switch("main")
    notes = {one["name"]: one["note"] for one in nb.ask("branches")}
    assert notes == {"main": "you are here", "old": "merged into main", "side": "2 commits of its own"}


def test_a_branch_says_who_else_writes_to_it(nb: Notebook) -> None:
    nb.run("x = 1")
    with closing(bind({}, nb.repo, branch="main", session_id="other")) as other:
        held = {one["name"]: one["holder"] for one in nb.ask("branches")}
        assert held["main"] == ""  # that is where one is
        assert other.branch is not None
        assert held[other.branch].startswith("session other, process ")


def test_the_opening_stays_small_however_long_the_rows_are(nb: Notebook) -> None:
    for n in range(60):
        nb.run(f"# {'long words ' * 100}\n" + "\n".join(f"{'name' * 20}_{n}_{m} = {m}" for m in range(6)))
    opening = nb.ask("open", n=500)
    assert len(msgspec.json.encode(opening)) < 50_000
    page = opening["page"]
    assert page["total"] == 61
    assert 20 < len(page["rows"]) < 61
    rest = nb.ask("rows", from_=len(page["rows"]), n=500)["rows"]
    assert len(page["rows"]) + len(rest) == page["total"]


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("rows", {"n": 501}),
        ("rows", {"n": -1}),
        ("rows", {"n": "many"}),
        ("rows", {"text": "x" * 1001}),
        ("rows", {"show": "some"}),
        ("rows", {"unfolded": ["f"] * 501}),
        ("rows", {"surprise": 1}),
        ("commit", {}),
        ("commit", {"id": "x" * 301}),
        ("shutdown", {}),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_one_line(nb: Notebook, op: str, args: dict[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        nb.reader.ask(op, args)
    assert op in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_commit_that_is_not_there_is_not_found(nb: Notebook) -> None:
    nb.run("x = 1")
    for op in ("commit", "code", "cells", "locate"):
        with pytest.raises(RefNotFoundError):
            nb.ask(op, id="nowhere")


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("code", {"id": ""}, "the commit is empty"),
        ("code", {"id": "x" * 301}, "the commit has more than 300 characters"),
        ("code", {"id": 3}, "the commit is not a text"),
        ("code", {"id": "x", "against": 3}, "the other commit is not a text"),
        ("code", {}, "the commit is missing"),
        ("code", {"id": "x", "way": 1}, "there is no argument 'way'"),
        ("rows", {"n": -1}, "the number of rows is less than 0"),
        ("rows", {"n": 501}, "the number of rows is more than 500"),
        ("rows", {"n": "x"}, "the number of rows is not a whole number"),
        ("rows", {"show": "some"}, "the choice of rows cannot be 'some'"),
        ("rows", {"unfolded": ["x"] * 501}, "there are more than 500 unfolded"),
        ("rows", {"unfolded": ["x" * 81]}, "the unfolded has more than 80 characters"),
        ("fly", {}, "there is no such question; the questions are branches, cells"),
    ],
)
def test_arguments_that_do_not_fit_are_said_in_words(nb: Notebook, op: str, args: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError) as caught:
        nb.reader.ask(op, args)
    assert str(caught.value).startswith(f"{op}: {said}")
    assert "`" not in str(caught.value)


def test_a_name_that_is_not_saved_is_told_once_in_a_row(nb: Notebook) -> None:
    nb.run("import threading")
    nb.run("lock = threading.Lock(); a = 1; b = 2; c = 3; d = 4; e = 5")
    row = next(row for row in nb.rows() if row["kind"] == "commit")
    assert [(sign, name) for sign, name, _ in row["chips"]][-1] == ("!", "lock")
    assert (len(row["chips"]), row["more"]) == (4, 2)
    assert row["counts"] == {"+": 5, "!": 1}


def test_a_divider_stands_between_two_kernels(tmp_path: Path) -> None:
    with Repository.open(tmp_path / "store") as repo:
        for session in ("0a1b2c3d.11111111", "0a1b2c3d.22222222"):
            nb = Notebook(repo, session)
            nb.cells("x = 1", "y = 2", "pass", "pass", "pass", "z = 3")
            page = nb.ask("rows", n=50)
            nb.session.close()
        rows = page["rows"]
        between = [at for at, row in enumerate(rows) if row["kind"] == "day" and row.get("text")]
        assert [rows[at]["text"] for at in between] == ["kernel restarted"]
        newer, older = rows[: between[0]], rows[between[0] + 1 :]
        assert [row["prompt"] for row in newer if row["kind"] == "commit"] == ["[6]", "[1]"]
        assert [row["prompt"] for row in older if row["kind"] == "commit"] == ["[6]", "[2]", "[1]"]
        assert page["total"] == len(rows)
