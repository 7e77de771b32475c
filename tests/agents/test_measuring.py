"""The same tasks on several models, several times each, are tabulated."""

from __future__ import annotations

import agent_kernel as ak
from agent_kernel.agents.events import Usage
from agent_kernel.agents.run import Trial, measure


def test_a_table_says_for_each_task_and_model_how_it_went() -> None:
    agent = ak.Agent("counter")

    @agent.task
    def double(n: int) -> int:
        """Double it."""
        raise NotImplementedError

    good = ak.ScriptedModel(["x = n", ak.Turn("task.success(2 * x)", usage=Usage(1, 100, 20, 0.5))], name="good")
    bad = ak.ScriptedModel(["task.success(0)"], name="bad")
    trials = {"double 4": Trial(double, (4,), lambda value: value == 8), "any": Trial(double, (1,))}
    found = measure(trials, [good, bad], times=2)
    assert [(one.trial, one.model, one.passed, one.runs, one.steps) for one in found] == [
        ("double 4", "scripted:good", 2, 2, 2.0),
        ("any", "scripted:good", 2, 2, 2.0),
        ("double 4", "scripted:bad", 0, 2, 1.0),
        ("any", "scripted:bad", 2, 2, 1.0),
    ]
    assert found[0].cost == 1.0
    assert found[2].cost is None
    lines = str(found).splitlines()
    assert lines[0].split() == ["trial", "model", "passed", "steps", "tokens", "seconds", "cost"]
    assert "2/2" in lines[1]
    assert "<td>scripted:good</td>" in found._repr_html_()
