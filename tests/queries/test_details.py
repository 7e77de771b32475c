"""One commit, two commits, and what an action would do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import RefNotFoundError, UnrelatedHistoriesError
from agent_kernel.queries.reader import Reader
from agent_kernel.repository import ObjectId
from agent_kernel.session import Repository
from tests.queries.histories import Notebook, notebook
from tests.support.repositories import add_commit


def words(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line["how"], "".join(text for text, _ in line["words"])) for line in lines]


def changed_words(lines: list[Any]) -> list[str]:
    return [text for line in lines for text, changed in line["words"] if changed]


def test_a_commit_says_everything_about_itself(nb: Notebook) -> None:
    first = nb.run("x = [1, 2, 3]\ntmp = 'a'")
    second = nb.run("# Grow it\nx.append(4)\ndel tmp\nrate = 0.92", id="grow")
    found = nb.ask("commit", id="HEAD")
    assert (found["id"], found["short"], found["prompt"]) == (second, second[:8], "[2]")
    assert (found["subject"], found["is_code"]) == ("Grow it", False)
    assert found["source"] == "# Grow it\nx.append(4)\ndel tmp\nrate = 0.92"
    assert (found["status"], found["error"], found["parents"]) == ("ok", "", [first])
    assert found["against"] == {"id": first, "label": "[1]"}
    assert found["code"] == {"added": 4, "removed": 0}
    assert (found["outputs"], found["environment"], found["cells"], found["unsaved"]) == (0, "same", False, [])
    assert found["cwd"] == str(Path.cwd())
    assert found["refs"][0]["name"] == "main"


def test_changes_are_told_in_a_line_each_numbers_before_lists_and_what_is_gone_last(nb: Notebook) -> None:
    nb.run("x = [1, 2, 3]\ntmp = 'a'\nrate = 0.9")
    nb.run("x.append('a longer text')\ndel tmp\nrate = 0.92")
    changes = nb.ask("commit", id="HEAD")["changes"]
    assert [(one["how"], one["name"], one["type"], one["old"], one["new"]) for one in changes] == [
        ("~", "rate", "float", "0.9", "0.92"),
        ("~", "x", "list", "[1, 2, 3]", "4 items, [1, 2, 3, …]"),
        ("-", "tmp", "str", "'a'", ""),
    ]
    assert changes[1]["old_size"] < changes[1]["new_size"]
    assert changes[2]["new_size"] is None


def test_where_both_sides_read_the_same_the_new_one_says_what_differs(nb: Notebook) -> None:
    nb.run("import numpy as np\na = np.zeros(1000)\nd = {n: [n] for n in range(50)}")
    nb.run("a[17] = 1\nd[45].append(0)")
    changes = {one["name"]: one for one in nb.ask("commit", id="HEAD")["changes"]}
    assert (changes["a"]["old"], changes["a"]["new"]) == ("", "(1000,), 1 of 1,000 values differs: row 17")
    assert (changes["d"]["old"], changes["d"]["new"]) == ("", "50 items, {0: [0], 1: [1], 2: [2], …}, contents differ")


def test_only_what_a_name_shares_may_have_changed(nb: Notebook) -> None:
    nb.run("a = [1]\nb = [a, 'x']")
    nb.run("a.append(2)")
    hows = {one["name"]: one["how"] for one in nb.ask("commit", id="HEAD")["changes"]}
    assert hows["a"] == "~"


def test_thousands_of_changes_are_cut_and_counted(nb: Notebook) -> None:
    nb.run("for n in range(700):\n    globals()[f'v{n}'] = n\ndel n")
    found = nb.ask("commit", id="HEAD")
    assert len(found["changes"]) == 500
    assert found["more_changes"] == 200


def test_a_commit_can_be_held_against_any_other(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "y = 2", "x = 3")
    found = nb.ask("commit", id=ids[2], against=ids[0])
    assert found["against"] == {"id": ids[0], "label": "[1]"}
    assert {one["name"]: one["how"] for one in found["changes"]} == {"x": "~", "y": "+"}
    with pytest.raises(RefNotFoundError):
        nb.ask("commit", id="HEAD", against="nowhere")


def test_code_is_held_against_the_cells_last_run(nb: Notebook) -> None:
    nb.run("# Repair it\nrate = 0.9\nx = 1", id="seven")
    nb.run("other = 1")
    nb.run("# Convert, repair it\nrate = 0.92\nx = 1\ny = 2", id="seven")
    found = nb.ask("code", id="HEAD")
    assert found["about"] == "Cell [3] against its last run, [1]"
    assert words(found["lines"]) == [
        ("-", "# Repair it"),
        ("+", "# Convert, repair it"),
        ("-", "rate = 0.9"),
        ("+", "rate = 0.92"),
        (" ", "x = 1"),
        ("+", "y = 2"),
    ]
    assert [(line["old"], line["new"]) for line in found["lines"]][-2:] == [(3, 3), (None, 4)]
    assert "92" in changed_words(found["lines"])
    assert "rate" not in changed_words(found["lines"])
    assert nb.ask("commit", id="HEAD")["code"] == {"added": 3, "removed": 2}


def test_a_cell_that_ran_again_as_it_was_says_so(nb: Notebook) -> None:
    nb.run("x = 1", id="same")
    nb.run("x = 1", id="same")
    assert nb.ask("code", id="HEAD") == {"about": "Cell [2] against its last run, [1]: the same code", "lines": []}


def test_a_cell_that_never_ran_before_is_all_new(nb: Notebook) -> None:
    nb.run("x = 1\ny = 2")
    found = nb.ask("code", id="HEAD")
    assert found["about"] == "Cell [1], its first run"
    assert words(found["lines"]) == [("+", "x = 1"), ("+", "y = 2")]


def test_where_a_front_end_gives_cells_no_ids_the_run_that_is_most_alike_is_taken(nb: Notebook) -> None:
    for number, source in enumerate(["x = fit(table, folds=10)", "y = 1", "x = fit(table, folds=12)", "z = 3"], 1):
        nb.session.begin_cell(source, number=number)
        nb.namespace["x"] = number
        nb.session.end_cell()
    assert nb.ask("code", id="HEAD~1")["about"] == "Cell [3] against its last run, [1]"
    assert nb.ask("code", id="HEAD")["about"] == "Cell [4], its first run"


def test_code_can_be_held_against_another_commits(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "y = 1")
    found = nb.ask("code", id=ids[1], against=ids[0])
    assert found["about"] == "Cell [2] against [1]"
    assert words(found["lines"]) == [("-", "x = 1"), ("+", "y = 1")]


def test_equal_lines_far_from_a_change_are_left_out(nb: Notebook) -> None:
    body = "\n".join(f"x{n} = {n}" for n in range(40))
    nb.run(f"{body}\nlast = 1", id="long")
    nb.run(f"{body}\nlast = 2", id="long")
    lines = nb.ask("code", id="HEAD")["lines"]
    assert words(lines)[0] == ("…", "")
    assert len(lines) == 6


def test_a_commit_that_no_cell_made_has_no_code(nb: Notebook) -> None:
    nb.cells("x = 1", "x = 2")
    nb.session.rollback("HEAD~1")
    assert nb.ask("code", id="HEAD") == {"about": "No cell made this commit", "lines": []}
    found = nb.ask("commit", id="HEAD")
    assert found["code"] is None
    assert found["prompt"] == ""


def test_two_commits_are_compared_with_where_both_grew_from(nb: Notebook) -> None:
    base = nb.run("x = 1\nsame = 2", id="a")
    left = nb.run("x = 2\nonly_left = 1", id="b")
    nb.session.checkout(base)
    nb.session.switch("side", create=True)
    right = nb.run("x = 3\nonly_right = [1]", id="b")
    found = nb.ask("compare", a=left, b="side")
    assert (found["a"]["id"], found["b"]["id"], found["base"]["id"]) == (left, right, base)
    assert (found["a"]["label"], found["b"]["prompt"], found["b"]["refs"][0]["name"]) == ("[2]", "[3]", "side")
    assert {one["name"]: one["how"] for one in found["changes"]} == {"x": "~", "only_left": "-", "only_right": "+"}
    assert (found["same"], found["same_names"], found["environment"]) == (1, ["same"], None)
    (cell,) = found["code"]
    assert (cell["prompt"], cell["about"]) == ("[3]", "[2] and [3]")
    assert ("-", "x = 2") in words(cell["lines"])


def test_a_commit_and_its_ancestor_have_no_third_side(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    found = nb.ask("compare", a=ids[0], b=ids[1])
    assert found["base"] is None
    assert [(cell["about"], words(cell["lines"])) for cell in found["code"]] == [
        ("only on the right", [("+", "x = 2")])
    ]


def test_the_environment_and_what_changed_in_it(nb: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, installed in enumerate(["thing-1.0", "thing-2.0", "other-3"]):
        (tmp_path / str(number) / f"{installed}.dist-info").mkdir(parents=True)
        monkeypatch.setattr(sys, "path", [str(tmp_path / str(number))])
        nb.run(f"x = {number}")
    monkeypatch.undo()
    found = nb.ask("environment", id="HEAD~1")
    assert found["about"] == "Environment of [2], against that of [1]"
    assert found["changed"] == [{"how": "~", "name": "thing", "old": "1.0", "new": "2.0"}]
    assert (found["packages"], found["installed"]) == (1, [["thing", "2.0"]])
    assert ["python", ".".join(map(str, sys.version_info[:3]))] in found["facts"]
    assert nb.ask("commit", id="HEAD~1")["environment"] == "changed"
    assert nb.ask("environment", id="HEAD~2")["about"] == "Environment of [1]"
    assert nb.ask("environment", id="HEAD", against="HEAD")["about"] == "Environment of [3], the same as [3]"
    compared = nb.ask("compare", a="HEAD~2", b="HEAD")["environment"]
    assert [(one["how"], one["name"]) for one in compared["changed"]] == [("+", "other"), ("-", "thing")]


def test_a_plan_says_what_a_checkout_would_do(nb: Notebook) -> None:
    ids = nb.cells("x = 1\ny = [1] * 100\nold = 1", "x = 2\nnew = 1\ndel old")
    found = nb.ask("plan", op="checkout", to=ids[0])
    assert (found["changes"], found["adds"], found["removes"]) == (["x"], ["old"], ["new"])
    assert (found["op"], found["to"]["id"], found["to"]["label"]) == ("checkout", ids[0], "[1]")
    assert 0 < found["loads"] < 100  # y is the same, so it is not loaded
    assert found["notes"] == ["What you have now stays on main. The next change starts a new branch."]
    assert (found["cannot"], found["conflicts"]) == ([], [])


def test_a_plan_does_nothing(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    version = nb.reader.version()
    for op in ("checkout", "rollback", "merge"):
        nb.ask("plan", op=op, to=ids[0])
    assert nb.reader.version() == version
    assert nb.namespace["x"] == 2


def test_a_plan_of_a_branch_names_where_one_goes(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    nb.repo.create_branch("side", ids[0])
    assert nb.ask("plan", op="checkout", to="side")["notes"] == [
        "What you have now stays on main. You go to branch side."
    ]
    assert nb.ask("plan", op="checkout", to="main")["notes"] == []
    assert "A new commit on main" in nb.ask("plan", op="rollback", to=ids[0])["notes"][0]


def test_what_cannot_come_back_is_named_with_the_reason_and_whether_it_stays(nb: Notebook) -> None:
    ids = nb.cells("gen = (n for n in ())", "x = 1", "gen = 2")
    (lost,) = nb.ask("plan", op="checkout", to=ids[1])["cannot"]
    assert lost["name"] == "gen"
    assert lost["type"] == "generator"
    assert lost["reason"]
    assert not lost["stays"]
    (lost,) = nb.ask("plan", op="checkout", to=ids[0])["cannot"]
    nb.session.checkout(ids[1])
    (lost,) = nb.ask("plan", op="checkout", to=ids[0])["cannot"]
    assert lost["stays"]  # the same one is there now


def test_nothing_stays_that_only_a_session_of_before_had(tmp_path: Path) -> None:
    with notebook(Repository.open(tmp_path / "s")) as nb:
        (id,) = nb.cells("gen = (n for n in ())")
        assert [one["stays"] for one in nb.ask("plan", op="checkout", to=id)["cannot"]] == [True]
        assert [one["stays"] for one in Reader(nb.repo).ask("plan", {"op": "checkout", "to": id})["cannot"]] == [True]
    with notebook(Repository.open(tmp_path / "s")) as nb:
        nb.session.checkout()
        nb.run("x = 1; copied = gen")
        for reader in (Reader(nb.repo, nb.session.id), Reader(nb.repo)):
            for to, stays in ((id, [False]), ("HEAD", [False, False])):
                plan = reader.ask("plan", {"op": "checkout", "to": to})
                assert [one["stays"] for one in plan["cannot"]] == stays


def test_a_merge_says_what_clashes(nb: Notebook) -> None:
    base = nb.run("x = 1\ny = 1\nd = {'a': 1}")
    nb.run("x = 2\nd['b'] = 1")
    nb.session.checkout(base)
    nb.session.switch("side", create=True)
    nb.run("x = 3\ny = 2\nz = 1\nd['c'] = 1")
    nb.session.switch("main")
    found = nb.ask("plan", op="merge", to="side")
    assert (found["changes"], found["adds"]) == (["y"], ["z"])
    assert {one["name"]: (one["ours"], one["theirs"]) for one in found["conflicts"]}["x"] == ("int 2", "int 3")
    assert "d merges key by key: you decide only about keys that both sides changed." in found["notes"]
    assert not any(one["together"] for one in found["conflicts"])


def test_a_merge_says_how_either_side_filtered_a_table(nb: Notebook) -> None:
    base = nb.run("import pandas as pd\ndf = pd.DataFrame({'a': range(1384)})")
    nb.run("df = df[df.a >= 278].copy()")
    nb.session.checkout(base)
    nb.session.switch("side", create=True)
    nb.run("df = df[df.a < 1000].copy()\ndf['c'] = 1")
    nb.session.switch("main")
    (found,) = nb.ask("plan", op="merge", to="side")["conflicts"]
    assert (found["ours_changed"], found["theirs_changed"]) == (
        "rows 1,384 → 1,106 (−278)",
        "rows 1,384 → 1,000 (−384), + c int64",
    )


def test_a_merge_says_what_clashes_together(nb: Notebook) -> None:
    base = nb.run("a = [1]\nd = {'l': a}\nx = 1")
    nb.run("a.append(2)\nx = 2")
    nb.session.checkout(base)
    nb.session.switch("side", create=True)
    nb.run("a.append(3)\nx = 3")
    nb.session.switch("main")
    found = nb.ask("plan", op="merge", to="side")
    assert {one["name"]: one["together"] for one in found["conflicts"]} == {"a": ["d"], "d": ["a"], "x": []}
    assert found["notes"] == []  # of what shares objects no key is merged


def test_a_merge_of_what_is_here_already_has_nothing_to_do(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    found = nb.ask("plan", op="merge", to=ids[0])
    assert found["notes"] == [f"Already up to date with {ids[0]}."]
    assert not found["changes"] + found["adds"] + found["removes"]


def test_a_merge_that_only_moves_the_branch_says_so(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    nb.repo.create_branch("ahead", ids[1])
    nb.session.checkout(ids[0])
    found = nb.ask("plan", op="merge", to="ahead")
    assert found["changes"] == ["x"]
    assert "moves forward" in found["notes"][0]


def test_unrelated_histories_cannot_be_merged(nb: Notebook) -> None:
    nb.run("x = 1")
    apart = add_commit(nb.repo, [], 1)
    nb.repo.create_tag("apart", apart)
    with pytest.raises(UnrelatedHistoriesError):
        nb.ask("plan", op="merge", to="apart")
    assert nb.ask("compare", a="apart", b="HEAD")["base"] is None


def test_a_store_that_somebody_else_made_says_so_in_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_kernel.session import Repository

    with notebook(Repository.open(tmp_path / "s")) as nb:
        ids = nb.cells("x = 1", "x = 2")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another"))
        assert "made by someone else" in nb.ask("plan", op="checkout", to=ids[0])["notes"][-1]


def test_of_a_long_dict_the_line_says_what_differs(nb: Notebook) -> None:
    nb.run("config = {'alpha': 0.95, 'stores': ['Utrecht', 'Gent', 'Cologne'], 'nested': {'depth': 3}, 'x': 'y' * 30}")
    nb.run("config['alpha'] = 0.5; config['new'] = 1")
    (change,) = nb.ask("commit", id="HEAD")["changes"]
    assert (change["old"], change["new"]) == ("", "+ 'new' 1, 'alpha': 0.95 → 0.5")
    nb.run("config.update(a=1, b=2, c=3, d=4)")
    assert nb.ask("commit", id="HEAD")["changes"][0]["new"] == "+ 'a' 1, + 'b' 2, + 'c' 3 and 1 more"
    nb.cells("short = {'a': 1}", "short = {'a': 2}")
    (change,) = nb.ask("commit", id="HEAD")["changes"]
    assert (change["old"], change["new"]) == ("{'a': 1}", "{'a': 2}")


def test_the_page_that_was_stored_comes_back_as_it_was(nb: Notebook, tmp_path: Path) -> None:
    path = tmp_path / "houses.ipynb"
    cells = '[{"cell_type":"markdown","id":"m","source":["# Title\\n","text"]},{"cell_type":"code","id":"c","source":"x=1"}]'
    path.write_text(f'{{"cells":{cells},"metadata":{{}}}}')
    nb.session.watch_notebook(path)
    nb.run("x = 1")
    page = nb.ask("cells", id="HEAD")
    assert page["name"] == "houses.ipynb"
    assert page["saved_ms"] == path.stat().st_mtime_ns // 1_000_000
    assert page["cells"] == [
        {"id": "m", "type": "markdown", "source": "# Title\ntext"},
        {"id": "c", "type": "code", "source": "x=1"},
    ]
    assert nb.ask("open", n=1)["title"] == "houses.ipynb"
    assert nb.ask("commit", id="HEAD")["cells"]


def test_the_page_says_which_cell_made_the_commit(nb: Notebook, tmp_path: Path) -> None:
    path = tmp_path / "houses.ipynb"
    code = '{"cell_type":"code","id":"%s","source":"%s"}'
    path.write_text(f'{{"cells":[{code % ("a", "x = 1")},{code % ("b", "x = 2")}],"metadata":{{}}}}')
    nb.session.watch_notebook(path)
    nb.run("x = 2", id="b")
    assert nb.ask("cells", id="HEAD")["at"] == 1
    nb.run("x = 1")  # a front end that tells no ids
    assert nb.ask("cells", id="HEAD")["at"] == 0
    nb.run("x = 3")
    assert nb.ask("cells", id="HEAD")["at"] is None


def test_no_page_is_none(nb: Notebook) -> None:
    nb.run("x = 1")
    assert nb.ask("cells", id="HEAD") is None


def test_a_commit_outside_of_the_list_can_still_be_looked_at(nb: Notebook) -> None:
    ids = nb.cells("x = 1", "x = 2")
    nb.session.rollback(ids[0])
    lost = ObjectId(bytes.fromhex(nb.run("y = 1", id="cell-1")) + b"\x01")
    nb.session.undo()
    nb.repo.move_branch("main", nb.repo.resolve(ids[1]), "back", nb.repo.branches()["main"])
    for op in ("commit", "code"):
        assert nb.ask(op, id=lost[:-1].hex())
    assert nb.ask("locate", id=lost[:-1].hex()) == {"row": None}


def test_a_comparison_says_that_a_variable_is_not_saved_and_no_size_of_its_placeholder(nb: Notebook) -> None:
    nb.run("x = 1")
    nb.run("import os\nlog = open(os.devnull)\nboth = [1, (n for n in 'ab')]")
    changes = {one["name"]: one for one in nb.ask("compare", a="HEAD~1", b="HEAD")["changes"]}
    log, both = changes["log"], changes["both"]
    assert (log["how"], log["new"], log["new_size"], log["opens"]) == (
        "+",
        f"not saved: an open file on {os.devnull} cannot be saved",
        None,
        False,
    )
    assert "not all of it is saved: a generator cannot be saved" in both["new"]
    assert both["new_size"] is not None
    nb.run("log.close(); log = open(os.devnull)")
    (log,) = nb.ask("compare", a="HEAD~1", b="HEAD")["changes"]
    assert (log["old"], log["new"], log["old_size"]) == (
        "",
        f"not saved: an open file on {os.devnull} cannot be saved",
        None,
    )
    nb.run("log.close()")
