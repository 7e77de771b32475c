"""agex's conformance corpus on our agents: its 18 scenarios of tasks, and its 10 of tasks that an agent's own code defines.

Of agex is what states a scenario and judges it: the JSON, `run`, `check` and `check_code`, and what turns its neutral values and
task definitions into Python source and back. Of ours is what they are about: the agents and their runs, validation, questions and
answers, worlds as branches, inputs and values in commits, restarts, and sub-agents on forks.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs

needs("agex.conformance", "nontainer.conformance", "numpy", "pandas")

import agex
from agex.conformance.code_tasks import MARK, CodeView, _lead_code, _untag, check_code
from agex.conformance.export import JSON_DIR
from agex.conformance.runner import OutcomeView, PlaneView, Script, applies, check, run
from agex.conformance.shape import (
    CodeCall,
    CodeScenario,
    Input,
    LiveCall,
    MethodCall,
    Step,
    TaskCall,
    TaskFail,
    TaskNeedsInput,
    TaskResume,
    TaskScenario,
    TaskSuccess,
)
from agex.conformance.tasks import _IMPORTS, _json, _python, _source, _value
from nontainer.conformance.codec import load
from nontainer.conformance.corpus import ModelStep

from agent_kernel.agents.event_log import EventStore, state_of
from agent_kernel.agents.events import Output
from agent_kernel.integrations.agex import RESULT, AgentKernelOutcome, AgentKernelTask, AgentTasks
from agent_kernel.integrations.kvgit import AgentKernelKV

ROOT = Path(__file__).parents[2]
STATUS = {"clarify": "needs_input", "completed": "success", "failed": "failed"}


def scenarios(kind: type[Any]) -> list[Any]:
    files = sorted(JSON_DIR.glob("*.json"))
    is_code = kind is CodeScenario
    return [load(kind, json.loads(file.read_text())) for file in files if file.stem.startswith("code-") == is_code]


TASKS: list[TaskScenario] = scenarios(TaskScenario)
CODE: list[CodeScenario] = scenarios(CodeScenario)


def code_of(step: Step, returns: Any, defs: Any) -> ak.Turn:
    """A step of a scenario, as our agents write it."""
    if isinstance(step, ModelStep):
        if step.fail:
            return ak.Turn(error=ak.ModelError("scripted", f"{step.fail} error"))
        return ak.Turn(text=step.text)
    if isinstance(step, TaskFail):
        return ak.Turn(f"task.fail({step.reason!r})")
    if isinstance(step, TaskNeedsInput):
        return ak.Turn(f"task.clarify({step.question!r})")
    assert isinstance(step, TaskSuccess)
    value = step.value
    if value is None:
        return ak.Turn("task.success()")
    if isinstance(value, Input):
        return ak.Turn(f"task.success({value.name})")
    if isinstance(value, MethodCall):
        return ak.Turn(f"task.success({value.input}.{value.method}({', '.join(map(repr, value.args))}))")
    uses: set[str] = set()
    text = _python(value.value, returns, defs, uses)
    return ak.Turn("\n".join([*(_IMPORTS[one] for one in sorted(uses)), f"task.success({text})"]))


# -- tasks that a program calls


class Harness:
    """agex's `TaskHarness` on `AgentKernelTask`.

    Every world is a branch, and values come from its commits: so what no store can hold is refused, as agex does off the process.
    """

    name = "agent_kernel"
    capabilities = frozenset({"tables", "arrays"})
    rungs = ("none",)

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: list[str] = []

    def in_process(self, rung: str) -> bool:
        return False  # `applies`: as far as values are concerned

    def open(self, scenario: TaskScenario, rung: str, script: Script) -> Opened:
        name = "shape_" + re.sub(r"\W", "_", scenario.name)
        (self.root / f"{name}.py").write_text(_source(scenario))
        importlib.invalidate_caches()
        self.modules.append(name)
        return Opened(scenario, script, importlib.import_module(name), self.root / f"{name}.store")


class Opened:
    """One scenario: its store, the world that calls may fork, and the task."""

    def __init__(self, scenario: TaskScenario, script: Script, module: ModuleType, place: Path) -> None:
        self.scenario, self.script, self.module, self.place = scenario, script, module, place
        self.params = {one.name: one.type for one in scenario.task.params}
        self.lives: list[tuple[Any, str]] = []
        self.outcome: AgentKernelOutcome | None = None
        self.ref = ""
        self.on_world = False
        assert not scenario.world.files  # none has any
        self.enter()

    def enter(self) -> None:
        self.repo = ak.open(self.place)
        self.world = ak.Versioned(self.repo)
        model = ak.FunctionModel(self.reply, name="scripted")
        self.agent = ak.Agent("shape", model=model)
        self.task = AgentKernelTask(self.agent, getattr(self.module, self.scenario.task.name))

    def close(self) -> None:
        self.world.close()
        self.repo.close()

    def reply(self, request: Any) -> ak.Turn:
        return code_of(self.script.next(), self.scenario.task.returns, self.scenario.task.defs)

    def restart(self) -> None:
        self.close()
        self.outcome = None
        self.enter()

    def value(self, name: str, given: Any) -> Any:
        found: list[Any] = []
        made = _value(given, self.params[name], self.scenario.task.defs, self.module, found)
        self.lives += [(one, name) for one in found]
        return made

    def call(self, act: TaskCall) -> OutcomeView:
        def start() -> AgentKernelOutcome:
            inputs = {name: self.value(name, given) for name, given in act.inputs.items()}
            return self.task.run(world=self.world if act.world else None, keep=act.keep, **inputs)

        self.on_world = act.world
        return self.view(start)

    def resume(self, act: TaskResume) -> OutcomeView:
        live = {name: self.value(name, {}) for name in act.live}
        if act.by == "outcome":
            assert self.outcome is not None
            outcome = self.outcome
            return self.view(lambda: outcome.resume(act.answer, **live))
        world = self.world if self.on_world else None
        return self.view(lambda: self.task.resume(self.ref, act.answer, world=world, keep=act.keep, **live))

    def view(self, go: Callable[[], AgentKernelOutcome]) -> OutcomeView:
        calls: list[Any] = getattr(self.module, "_CALLS", [])
        calls.clear()
        try:
            outcome = go()
        except TypeError as error:
            return OutcomeView(status="refused", error=str(error))
        self.outcome, self.ref = outcome, outcome.ref or self.ref
        task = self.scenario.task
        return OutcomeView(
            status=outcome.status,
            value=_json(outcome.value, task.returns, task.defs) if outcome.status == "success" else None,
            message=outcome.message,
            kept=outcome.ref is not None,
            plane=None if outcome.ref is None else self.plane(outcome),
            calls=tuple(
                LiveCall(
                    input=next(name for one, name in self.lives if one is called), method=method, args=tuple(given)
                )
                for called, method, given in calls
            ),
        )

    def plane(self, outcome: AgentKernelOutcome) -> PlaneView:
        """What the kept branch and the events say, read from the store."""
        repo = self.repo if outcome.branch in self.repo.branches() else self.task._scratch[outcome.run_id]
        there = repo.at(outcome.branch)
        events = list(EventStore(repo.store).of(outcome.run_id))
        return PlaneView(
            status=STATUS[state_of(events)],
            stored=tuple(sorted(name for name in self.params if name in there)),
            value=RESULT in there,
        )


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    sys.path.insert(0, str(tmp_path))
    made = Harness(tmp_path)
    yield made
    sys.path.remove(str(tmp_path))
    for name in made.modules:
        sys.modules.pop(name, None)


def test_the_corpus_is_the_one_that_is_meant() -> None:
    assert (len(TASKS), len(CODE)) == (18, 10)


@pytest.mark.parametrize("scenario", TASKS, ids=lambda one: one.name)
def test_a_scenario_of_tasks_holds(scenario: TaskScenario, harness: Harness) -> None:
    assert applies(scenario, harness, "none")  # type: ignore[arg-type]  # a protocol of names that are not read-only
    assert check(scenario, run(scenario, harness, "none")) == {}  # type: ignore[arg-type]


# -- tasks that the code of an agent defines


def play(scenario: CodeScenario) -> list[CodeView]:
    """Let a lead run the code that defines and calls the task, in one versioned state; what its code reports."""
    views: list[CodeView] = []
    with ak.Versioned() as state:
        for act in scenario.acts:
            helper = ak.Agent("helper", model=ak.FunctionModel(steps_of(scenario, act), name="scripted"))
            turns = [_lead_code(scenario, act), "task.success()"]
            lead = ak.Agent("lead", model=ak.ScriptedModel(turns), state=state)
            lead.module(AgentTasks(helper), name="agex")
            views.append(view_of(lead.start("Do it"), scenario))
    return views


def steps_of(scenario: CodeScenario, act: CodeCall) -> Callable[[Any], ak.Turn]:
    turns = [code_of(step, scenario.task.returns, scenario.task.defs) for step in act.helper]
    return lambda request: turns[request.turn]


def view_of(lead: ak.Run[Any], scenario: CodeScenario) -> CodeView:
    lead.result()
    said = "\n".join(event.sent for event in lead.events if isinstance(event, Output))
    line = next((line for line in said.splitlines() if line.startswith(MARK)), None)
    if line is None:
        return CodeView(status="unreported", message=said[-2000:])
    found = json.loads(line.removeprefix(MARK))
    returns, defs = scenario.task.returns, scenario.task.defs
    if found["status"] != "value":
        return CodeView(status=found["status"], message=found.get("message"))
    if "values" in found:
        return CodeView(status="value", values=tuple(_untag(one, returns, defs) for one in found["values"]))
    return CodeView(status="value", value=_untag(found["value"], returns, defs))


@pytest.mark.parametrize("scenario", CODE, ids=lambda one: one.name)
def test_a_scenario_of_code_holds(scenario: CodeScenario) -> None:
    assert check_code(scenario, play(scenario)) == {}


# -- what the corpus does not say


@dataclass
class Total:
    sum: int
    names: list[str]


class Printer:
    """A machine of the host."""

    def __init__(self) -> None:
        self.printed: list[str] = []

    def print(self, text: str) -> int:
        """Print a line; how many there are."""
        self.printed.append(text)
        return len(self.printed)


def add_up(rows: list[int], printer: Printer) -> Total:  # type: ignore[empty-body]  # agex takes no other
    """Add up the rows, and print the sum."""


def adding(*turns: str) -> AgentKernelTask:
    return AgentKernelTask(ak.Agent("adder", model=ak.ScriptedModel(turns)), add_up)


ADDS = "note = 'added'\nprinter.print(str(sum(rows)))\ntask.success(Total(sum(rows), [where]))"


def test_a_task_forks_its_world_and_a_kept_branch_can_be_merged(tmp_path: Path) -> None:
    printer = Printer()
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as world:
        world["where"] = "here"
        world.commit("a place")
        dropped = adding(ADDS).run([1, 2], printer, world=world)
        assert (dropped.value, dropped.ref, [*repo.branches()]) == (Total(3, ["here"]), None, ["main"])
        kept = adding(ADDS).run([3, 4], printer, world=world, keep=True)
        assert printer.printed == ["3", "7"]
        assert "note" not in world
        there = repo.at(kept.branch)
        assert (there["rows"], there["task_result"], there["note"]) == ([3, 4], Total(7, ["here"]), "added")
        assert "printer" not in there
        world.session.merge(kept.branch)
        assert world["task_result"] == Total(7, ["here"])
        world.undo()
        assert "task_result" not in world
        assert repo.verify().is_sound


def test_another_process_answers_a_task(tmp_path: Path) -> None:
    code = """
import sys
from tests.integrations.test_agex import *
with ak.open(sys.argv[1]) as repo, ak.Versioned(repo) as world:
    world["where"] = "there"
    world.commit("a place")
    print(adding("half = sum(rows)", "task.clarify('Print it?')", ADDS).run([5, 6], Printer(), world=world).ref)
"""
    place = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ref, printer = done.stdout.strip(), Printer()
    with ak.open(place) as repo, ak.Versioned(repo) as world:
        task = adding("half = sum(rows)", "task.clarify('Print it?')", "assert half == 11\n" + ADDS)
        with pytest.raises(TypeError, match="give printer again"):
            task.resume(ref, "Yes.", world=world)
        with pytest.raises(TypeError, match="'printer' does not fit"):
            task.resume(ref, "Yes.", world=world, printer="none")
        with pytest.raises(LookupError, match="name the world that it forked"):
            task.resume(ref, "Yes.", printer=printer)
        outcome = task.resume(ref, "Yes.", world=world, printer=printer)
        assert (outcome.status, outcome.value, printer.printed) == ("success", Total(11, ["there"]), ["11"])
        assert [*repo.branches()] == ["main"]
        with pytest.raises(LookupError):
            task.resume("no-such-run", "Yes.", world=world, printer=printer)


def test_a_call_returns_the_value_or_raises_as_agex_does() -> None:
    printer = Printer()
    assert adding("where = 'x'\n" + ADDS)([1], printer) == Total(1, ["x"])
    for turn, error in (("task.fail('no rows')", agex.TaskFailed), ("task.clarify('Which?')", agex.NeedsInput)):
        with pytest.raises(error, match=r"no rows|Which") as raised:
            adding(turn)([1], printer)
        assert raised.value.outcome.status in ("failed", "needs_input")
    broken = AgentKernelTask(
        ak.Agent("adder", model=ak.FunctionModel(lambda _: ak.Turn(error=OSError("down")))), add_up
    )
    with pytest.raises(agex.TaskInterrupted, match="down"):
        broken([1], printer)
    with pytest.raises(ValueError, match="keep needs a world"):
        adding(ADDS).run([1], printer, keep=True)
    with pytest.raises(ValueError, match="only a task that asked"):
        adding("task.fail('no')").run([1], printer).resume("Yes.")


def test_what_a_helper_makes_comes_to_the_branch_of_the_code_that_called_it() -> None:
    helper = ak.Agent("helper", model=ak.FunctionModel(lambda request: "seen = word\ntask.success(word.upper())"))
    turns = [
        "@agex.task\ndef shout(word: str) -> str:\n    '''Shout the word.'''",
        "loud = shout('hi')",
        "task.success((loud, seen, 'word' in globals()))",
    ]
    with ak.Versioned() as state:
        lead = ak.Agent("lead", model=ak.ScriptedModel(turns), state=state)
        lead.module(AgentTasks(helper), name="agex")
        assert lead("Shout") == ("HI", "hi", False)
        assert sum(len(commit.parents) == 2 for _, commit in state.history()) == 1


def test_its_own_worlds_lie_in_our_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of agex that stays as it is, on `Store(kv=AgentKernelKV(…))`: the corpus passes there too."""
    from agex.conformance import AgexTasks, tasks
    from nontainer import Store

    stores: list[AgentKernelKV] = []

    def open_store(place: Path) -> Store:
        stores.append(AgentKernelKV(place / "ours"))
        return Store(place, kv=stores[-1])

    monkeypatch.setattr(tasks, "Store", open_store)
    harness, done = AgexTasks(tmp_path), 0
    for scenario in TASKS:
        if applies(scenario, harness, "none"):
            assert check(scenario, run(scenario, harness, "none")) == {}, scenario.name
            done += 1
    assert done >= 14
    assert any(len(list(store.keys())) for store in stores)
