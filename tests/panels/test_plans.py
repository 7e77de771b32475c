"""What a panel says before something is done, where the kernel knows more than the store."""

from __future__ import annotations

from typing import Any

from tests.panels.fronts import Front, elsewhere


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
