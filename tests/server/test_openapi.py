"""`openapi.yaml` says what the handlers do: the same routes, the same parameters, and answers of the shapes it promises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import agent_kernel as ak
from agent_kernel import server as package
from agent_kernel.agents.agent import open_context, start_run
from agent_kernel.agents.agent_undo import is_race
from agent_kernel.agents.event_log import EventStore
from agent_kernel.commands.places import store_path_of
from agent_kernel.queries.reader import Reader
from agent_kernel.server import QUESTIONS, ROUTES
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.server.servers import Server, Written, write_notebook

FILE = Path(str(package.__file__)).parent / "openapi.yaml"
SPEC: dict[str, Any] = yaml.load(FILE.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # five times as fast
TYPES = {"text": {"string"}, "number": {"integer"}, "texts": {"array"}}
STORE = "/stores/{store}/"


def resolved(found: dict[str, Any]) -> dict[str, Any]:
    """What a reference refers to."""
    if "$ref" not in found:
        return found
    target: Any = SPEC
    for part in found["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return resolved(target)


def check(answer: object, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": SPEC["components"]}).validate(answer)


def ok(route: str) -> dict[str, Any]:
    """The schema of a route's good answer."""
    schema: dict[str, Any] = SPEC["paths"][route]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    return schema


def test_every_route_is_described_and_no_other() -> None:
    handled = [re.sub(r"\(\?P<id>.*?\}\)", "{store}", route[0]) for route in ROUTES[:-1]]
    assert sorted(SPEC["paths"]) == sorted(path.removeprefix("/agent-kernel/api/v1") for path in handled)
    assert {method for path in SPEC["paths"].values() for method in path} <= {"get", "parameters"}
    assert {name for route in ROUTES for name in ("post", "put", "patch", "delete") if name in vars(route[1])} == set()


@pytest.mark.parametrize("op", QUESTIONS)
def test_the_parameters_are_those_that_are_read(op: str) -> None:
    described = [resolved(parameter) for parameter in SPEC["paths"][STORE + op]["get"].get("parameters", [])]
    told = {(found["name"], resolved(found["schema"])["type"], found.get("required", False)) for found in described}
    read = {(name, *TYPES[kind], required) for name, kind, required in QUESTIONS[op].parameters}
    assert told == read


def test_every_question_of_a_reader_has_a_route() -> None:
    from agent_kernel.errors import RequestError

    with pytest.raises(RequestError) as raised:
        Reader(Repository.open(MemoryStore())).ask("?", {})
    assert raised.value.reason.partition("the questions are ")[2].split(", ") == sorted(QUESTIONS)


@pytest.fixture(scope="module")
def rich(server: Server) -> Written:
    """A history with something of most kinds."""
    cells = [
        "a = 1; names = ['x', 'y']; settings = {'alpha': 1.0}",
        "a = 2; text = 'one\\ntwo\\n'",
        "import numpy; array = numpy.arange(10.0); matrix = array.reshape(2, 5)",
        "import pandas; df = pandas.DataFrame({'x': [1, 2, 3], 'y': list('abc')})",
        "array = array + 1; df = df.assign(z=[1.0, 2.0, 3.0])",
        "settings['beta'] = 2.0; del names; text = 'one\\nthree\\n'; lock = __import__('threading').Lock()",
        "pass",
        "pass",
        "a = 3",
    ]
    written = write_notebook(server.root / "rich.ipynb", *cells)
    for turns in (["kept = 1", "1 / 0", "task.success(kept)"], ["late = 1", "open('out.txt', 'w')"]):
        give(store_path_of(written.path), "Do something in steps.", *turns)
    with Repository.open(store_path_of(written.path)) as repo, ak.Versioned(repo) as state:
        models = [
            ak.ScriptedModel([answer], name="play") for answer in ("won = 1; task.success(won)", "task.fail('no')")
        ]
        with ThreadPoolExecutor(1) as pool:
            ak.race("Try it", models=models, state=state, executor=pool, judge="won").wait().pick()
    return written


def give(store: Path, task: str, *turns: str) -> None:
    """Let an agent that plays these answers do a task in a store, as far as it goes."""
    with Repository.open(store) as repo, ak.Versioned(repo) as state:
        agent = ak.Agent("analyst", model=ak.ScriptedModel(turns, name="play"), approve="risky")
        run: ak.Run[object] = start_run(agent, task, open_context(state), can_ask=True)
        for _ in run:
            pass


def runs_of(store: Path) -> list[str]:
    with Repository.open(store) as repo:
        return EventStore(repo.store).runs()


def races_of(store: Path) -> list[str]:
    with Repository.open(store) as repo:
        return [start.run for start in EventStore(repo.store).starts() if is_race(start)]


def test_the_answers_have_the_shapes_that_are_promised(server: Server, rich: Written) -> None:
    store, (first, last) = server.store("rich.ipynb"), (rich.commits[0], rich.commits[-1])
    check(server.get("/notebooks", path="rich.ipynb").body, ok("/notebooks"))
    asked: dict[str, Sequence[Mapping[str, object]]] = {
        "version": [{}],
        "branches": [{}],
        "cells": [{"id": last}],
        "code": [{"id": id} for id in rich.commits],
        "commit": [{"id": id} for id in rich.commits] + [{"id": last, "against": first}],
        "compare": [{"a": first, "b": last}, {"a": rich.commits[3], "b": rich.commits[5]}],
        "environment": [{"id": last}, {"id": last, "against": first}],
        "locate": [{"id": first}],
        "open": [{}, {"n": 3, "text": "df", "tz_s": 3600}, {"show": "errors"}],
        "outputs": [{"id": last}],
        "plan": [{"op": "checkout", "to": first}, {"op": "rollback", "to": first}],
        "race": [{"id": id} for id in races_of(store_path_of(rich.path))],
        "run": [{"id": id} for id in runs_of(store_path_of(rich.path))],
        "rows": [{"from": 0, "n": 100}, {"from": 2, "n": 2}, {"text": "var:df", "n": 5}],
        "variable": [
            {"id": id, "name": change["name"], "against": first}
            for id in rich.commits[1:]
            for change in server.get(f"/stores/{store}/commit", id=id, against=first).body["changes"]
        ],
    }
    assert asked.keys() == {*QUESTIONS, "version"}
    for op, queries in asked.items():
        for query in queries:
            answer = server.get(f"/stores/{store}/{op}", **query)
            assert answer.status == 200, (op, query, answer)
            check(answer.body, ok(STORE + op))


def test_failures_have_their_shape_too(server: Server, rich: Written) -> None:
    failure = SPEC["components"]["schemas"]["Failure"]
    for answer in (server.get("/notebooks"), server.get("/none"), server.get(f"/stores/{'0' * 32}/open")):
        assert str(answer.status) in SPEC["paths"][STORE + "open"]["get"]["responses"]
        check(answer.body, failure)
