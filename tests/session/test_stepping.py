"""What undo takes back where agents work: a run as a whole, also one that only looked, and a cell with all that ran in it."""

from __future__ import annotations

import agent_kernel as ak
from agent_kernel.repository import Author
from agent_kernel.session import Session

AGENT = Author("analyst", "agent")


def bound(**names: object) -> tuple[dict[str, object], Session]:
    namespace = dict(names)
    return namespace, ak.bind(namespace, ak.open("memory:"))


def cell(namespace: dict[str, object], session: Session, source: str) -> None:
    session.begin_cell(source)
    exec(source, namespace)
    session.end_cell()


def step(namespace: dict[str, object], session: Session, run: str, number: int, source: str) -> None:
    session.begin_step(source, author=AGENT, run=run, step=number)
    exec(source, namespace)
    session.end_step()


def test_a_run_that_only_looked_is_what_undo_takes_back() -> None:
    namespace, session = bound()
    cell(namespace, session, "mine = 'my own work'")
    step(namespace, session, "r1", 1, "len(mine)")
    assert session.next_undo is not None
    assert session.next_undo.run == "r1"
    session.undo()
    assert namespace["mine"] == "my own work"
    session.undo()
    assert "mine" not in namespace


def test_the_steps_of_a_run_are_one_operation_and_two_runs_are_two() -> None:
    namespace, session = bound()
    cell(namespace, session, "x = 0")
    step(namespace, session, "r1", 1, "x = 1")
    step(namespace, session, "r1", 2, "x = 2")
    step(namespace, session, "r2", 1, "x = 3")
    found: list[object] = []
    for move in (session.undo, session.undo, session.redo):
        move()
        found.append(namespace["x"])
    assert found == [2, 0, 2]


def test_a_cell_in_which_an_agent_works_is_one_operation() -> None:
    namespace, session = bound()
    cell(namespace, session, "x = 0")
    session.begin_cell("other = 5; one(); other = 6")
    namespace["other"] = 5
    step(namespace, session, "r1", 1, "x = 1")
    namespace["other"] = 6
    session.end_cell()
    session.undo()
    assert namespace["x"] == 0
    assert "other" not in namespace
    session.redo()
    assert (namespace["x"], namespace["other"]) == (1, 6)


def test_what_a_cell_did_before_a_step_is_committed_apart_from_the_step() -> None:
    namespace, session = bound()
    session.begin_cell("before = 1; one()")
    namespace["before"] = 1
    step(namespace, session, "r1", 1, "made = 2")
    session.end_cell()
    assert session.head is not None
    told = [
        (commit.author.name == "analyst", [one.name for one in commit.changed])
        for _, commit in session.repo.log(session.head)
    ]
    assert told == [(False, []), (True, ["made"]), (False, ["before"])]


def test_a_cell_that_takes_on_what_an_agent_made_is_one_operation_and_says_what_it_took() -> None:
    namespace, session = bound()
    cell(namespace, session, "x = 0")
    session.switch("elsewhere", create=True)
    cell(namespace, session, "x = 1")
    session.switch("main")
    session.begin_cell("before = 1; pick(); after = 1")
    namespace["before"] = 1
    with session.taking("candidate 1"):
        session.merge("elsewhere")
    namespace["after"] = 1
    session.end_cell()
    assert namespace["x"] == 1
    assert session.next_undo is not None
    assert session.next_undo.took == ("candidate 1",)
    session.undo()
    assert {name: value for name, value in namespace.items() if name != "__builtins__"} == {"x": 0}
    session.redo()
    assert (namespace["x"], namespace["before"], namespace["after"]) == (1, 1, 1)
