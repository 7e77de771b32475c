"""Errors of records say what is wrong, where, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import agent_kernel as ak


class Sized(BaseModel):
    width: int = 0


class Job(ak.Record):
    n: int = 0
    s: str = ""
    size: Sized = Sized()
    kind: Literal["a", "b"] | None = None
    details: dict[str, int] | None = None
    whatever: Any = None


class Beside(ak.Record):
    plane = "store"
    n: int = 0


MISTAKES: dict[str, tuple[type[Exception], str, Callable[[ak.Repository], object]]] = {
    "a dict for a record": (
        ak.InvalidRecordError,
        "Job 'j3' is not valid: it is of the type dict, and must be a Job",
        lambda repo: repo.records(Job).put({"id": "j3"}),  # type: ignore[arg-type]
    ),
    "nothing for a record": (
        ak.InvalidRecordError,
        "Job is not valid: it is None, and must be a Job",
        lambda repo: repo.records(Job).put(None),  # type: ignore[arg-type]
    ),
    "a list for the arguments of a task": (
        TypeError,
        "args is a mapping of names to values, not ['a']",
        lambda repo: repo.queue("web").push("x", ["a"]),  # type: ignore[arg-type]
    ),
    "a label for a number of steps": (
        TypeError,
        (
            "steps is a whole number of checkpoints to go back, not 'label'; checkpoints() lists the labels by number, and "
            "values_at(number) returns the values of one"
        ),
        lambda repo: repo.state("ada").rollback("label"),  # type: ignore[arg-type]
    ),
    "an order by several fields": (
        TypeError,
        (
            "order is a field, '-' and a field, or a function, not ['s', '-n']; for several fields give a function that returns "
            "a tuple"
        ),
        lambda repo: repo.records(Job).find(order=["s", "-n"]),  # type: ignore[arg-type]
    ),
    "a list of conditions": (
        TypeError,
        "where is a mapping of fields to values, or a function, not ['n']",
        lambda repo: repo.records(Job).find(where=["n"]),  # type: ignore[arg-type]
    ),
    "a condition on a number": (
        ValueError,
        "n of Job never equals a dict such as {'gt': 2}; give a function that compares: where=lambda one: one.n > 2",
        lambda repo: repo.records(Job).find(where={"n": {"gt": 2}}),
    ),
    "a condition on a text": (
        ValueError,
        "s of Job never equals a dict such as {'in': ['a']}; give a function that compares: where=lambda one: one.s > 2",
        lambda repo: repo.records(Job).find(where={"s": {"in": ["a"]}}),
    ),
    "a condition on a model": (
        ValueError,
        "size of Job never equals a dict such as {'width': 0}; give a function that compares: where=lambda one: one.size > 2",
        lambda repo: repo.records(Job).find(where={"size": {"width": 0}}),
    ),
    "a branch and what lies beside it": (
        ValueError,
        (
            "one transaction cannot change both Job of the branch main and Beside beside all branches; use two transactions, or open "
            "one of them on the other's plane (plane=…)"
        ),
        lambda repo: change_both(repo),
    ),
}


def change_both(repo: ak.Repository) -> None:
    with repo.transaction():
        repo.records(Job).put(Job(id="a"))
        repo.records(Beside).put(Beside(id="a"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_with_what_to_do(name: str, memory: ak.Repository) -> None:
    kind, said, act = MISTAKES[name]
    memory.records(Job).put(Job(id="first", n=3))
    with pytest.raises(kind, match=f"^{re.escape(said)}$"):
        act(memory)


def test_a_dict_is_looked_for_where_a_field_may_hold_one(memory: ak.Repository) -> None:
    jobs = memory.records(Job)
    jobs.put(Job(id="a", details={"x": 1}, whatever={"y": 2}))
    jobs.put(Job(id="b"))
    assert [job.id for job in jobs.find(where={"details": {"x": 1}})] == ["a"]
    assert [job.id for job in jobs.find(where={"whatever": {"y": 2}})] == ["a"]


def test_what_holds_records_is_iterated_as_its_list(memory: ak.Repository) -> None:
    queue, flows, teams = memory.queue("web"), memory.workflows, memory.teams
    queue.push("one", id="one")
    queue.push("two", id="two")
    flows.start("nightly", ["a"])
    teams.create("web")
    assert [task.name for task in queue] == ["one", "two"]
    assert ("one" in queue, queue["two"] in queue, "three" in queue, 5 in queue) == (True, True, False, False)
    assert ([*flows], "nightly" in flows, flows["nightly"] in flows, "zz" in flows) == (flows.list(), True, True, False)
    assert ([*teams], "web" in teams, teams["web"] in teams, "zz" in teams) == (teams.list(), True, True, False)
    memory.agents.status("ada", "idle")
    assert ([*memory.agents], "ada" in memory.agents, "bob" in memory.agents) == (memory.agents.list(), True, False)
    spoken = memory.speech.open()
    assert [session.id for session in memory.speech] == [spoken.id]
    assert (spoken.id in memory.speech, "zz" in memory.speech) == (True, False)


def test_a_store_without_commits_has_an_empty_log(memory: ak.Repository) -> None:
    assert list(memory.log()) == []
    memory.records(Beside).put(Beside(id="a"))
    assert list(memory.log()) == []
    with pytest.raises(ak.RefNotFoundError):
        list(memory.log("nowhere"))


def test_what_is_encrypted_says_how_to_give_its_key(memory: ak.Repository) -> None:
    memory.records(Job, secret="a secret").put(Job(id="a"))
    with pytest.raises(
        ak.SealedRecordError, match=r"^Job 'a' is encrypted: open its collection with the key \(secret=…\)$"
    ):
        _ = memory.records(Job)["a"]
