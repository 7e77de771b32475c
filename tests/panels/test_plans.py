"""What a panel says before something is done, where the kernel knows more than the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.panels.fronts import Front, elsewhere


@pytest.fixture
def restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """A new kernel on a history of two cells, which nobody has brought back yet."""
    with Front(tmp_path, monkeypatch) as before:
        before.run("rate = 1")
        before.run("rate = 2; extra = 5")
    with Front(tmp_path, monkeypatch) as front:
        front.channel()  # a panel that stands open
        yield front


def plan(front: Front, to: str, op: str = "checkout") -> Any:
    return front.channel().ask("plan", op_=op, to=to)


def test_it_counts_what_would_change(front: Front) -> None:
    front.run("x = 1; y = 2")
    front.run("x = 2; z = 3; del y")
    found = plan(front, "HEAD~1")
    assert (found["changes"], found["adds"], found["removes"]) == (["x"], ["y"], ["z"])
    assert "The next change starts a new branch." in found["notes"][-1]


def test_what_is_not_committed_yet_is_committed_first(front: Front) -> None:
    front.run("x = 1")
    front.run("x = 2")
    front.ns["made_by_a_callback"] = 1
    assert plan(front, "HEAD~1")["notes"][0] == "made_by_a_callback is committed first."
    front.ns.update(b=2, c=3, d=4)
    assert plan(front, "HEAD~1")["notes"][0].endswith(" and 1 more are committed first.")


def test_what_cannot_be_restored_stays_where_it_is_alive(front: Front) -> None:
    front.run("numbers = (one for one in [1])")
    front.run("x = 2")
    cannot = plan(front, "HEAD~1")["cannot"]
    assert [(one["name"], one["stays"]) for one in cannot] == [("numbers", True)]
    front.run("del numbers")
    assert [one["stays"] for one in plan(front, "HEAD~2")["cannot"]] == [False]


def test_what_a_checkout_put_aside_comes_back_and_is_told_so(front: Front) -> None:
    front.run("x = 1")
    front.run("numbers = (one for one in [1, 2])")
    panel = front.panel()
    at = panel.ask("open")["head"]["id"]
    panel.ask("checkout", to="HEAD~1")
    assert "numbers" not in front.ns
    assert [(one["name"], one["stays"]) for one in plan(front, at)["cannot"]] == [("numbers", True)]
    panel.ask("checkout", to=at)
    assert next(front.ns["numbers"]) == 1


def test_off_the_main_thread_the_variables_are_left_alone(front: Front) -> None:
    front.run("x = 1")
    front.run("x = 2")
    front.ns["unseen"] = 1
    found: list[Any] = []
    elsewhere(lambda: found.append(plan(front, "HEAD~1")))
    assert found[0]["changes"] == ["x"]
    assert "unseen" not in str(found[0]["notes"])


def test_a_merge_says_what_clashes(front: Front) -> None:
    front.run("x = 1")
    front.run("%agent switch -c side")
    front.run("x = 'theirs'")
    front.run("%agent switch main")
    front.run("x = 'ours'")
    assert [one["name"] for one in plan(front, "side", "merge")["conflicts"]] == ["x"]


def test_where_both_sides_of_a_clash_read_alike_it_says_what_either_did(front: Front) -> None:
    pytest.importorskip("pandas")
    front.run("import pandas as pd\nrows = pd.DataFrame({'a': [1, 2]}); number = 1")
    front.run("%agent switch -c side")
    front.run("rows['b'] = 2; number = 2")
    front.run("%agent switch main")
    front.run("rows['c'] = 3; number = 3")
    found = {one["name"]: one for one in plan(front, "side", "merge")["conflicts"]}
    assert found["rows"]["ours"].startswith("DataFrame 2 × 2, ")  # as theirs does
    assert found["rows"]["theirs"].startswith("DataFrame 2 × 2, ")
    assert (found["rows"]["ours_changed"], found["rows"]["theirs_changed"]) == ("+ c int64", "+ b int64")
    assert (found["number"]["ours_changed"], found["number"]["theirs_changed"]) == ("", "")


class TestAfterARestart:
    @pytest.mark.parametrize(
        ("to", "adds"), [("HEAD", ["extra", "rate"]), ("main", ["extra", "rate"]), ("HEAD~1", ["rate"])]
    )
    @pytest.mark.parametrize("op", ["checkout", "rollback"])
    def test_what_is_not_in_memory_is_added_and_nothing_else_changes(
        self, restarted: Front, op: str, to: str, adds: list[str]
    ) -> None:
        found = plan(restarted, to, op)
        assert (found["changes"], found["adds"], found["removes"]) == ([], adds, [])
        assert found["loads"] > 0
        done = restarted.channel().ask(op, to=to)["done"]
        assert done.endswith(f": {len(adds)} variable{'s' if len(adds) > 1 else ''} added.")

    @pytest.mark.parametrize("to", ["HEAD", "main", "HEAD~1", "HEAD~2"])
    def test_what_was_made_since_is_changed(self, restarted: Front, to: str) -> None:
        restarted.run("rate = 3")
        found = plan(restarted, to)
        restarted.channel().ask("checkout", to=to)
        assert found["changes"] == (["rate"] if restarted.ns["rate"] != 3 else [])
        assert found["adds"] == (["extra"] if "extra" in restarted.ns else [])
        again = plan(restarted, "HEAD")
        assert (again["changes"], again["adds"], again["removes"]) == ([], [], [])
