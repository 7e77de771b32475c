"""How a run is shown as it goes: each answer of the model in a place of its own, and nothing twice."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent_kernel.agents import FunctionModel, Turn
from agent_kernel.errors import ModelError
from agent_kernel.magics import steps
from agent_kernel.magics.steps import Notebook
from agent_kernel.magics.tasks import TaskEnded, Tasks
from tests.magics.shells import Shell


class Display:
    """Keeps what it showed last."""

    each: list[Display]
    html: str = ""
    text: str = ""

    def display(self, data: Any, *, raw: bool) -> None:
        self.each.append(self)
        self.update(data, raw=raw)

    def update(self, data: Any, *, raw: bool) -> None:
        self.html, self.text = data["text/html"], data["text/plain"]


@pytest.fixture
def displays(monkeypatch: pytest.MonkeyPatch) -> list[Display]:
    """What a notebook shows of steps."""
    shown: list[Display] = []
    monkeypatch.setattr(Display, "each", shown, raising=False)
    monkeypatch.setattr(steps, "_new_handle", Display)
    monkeypatch.setattr(steps, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(Tasks, "_make_display", lambda tasks: Notebook(tasks._shell))
    return shown


def give(shell: Shell, *turns: Turn) -> Any:
    """Give a task to a model that answers so, one after the other, whatever went before."""
    left = list(turns)
    shell.ip.user_ns["_model"] = FunctionModel(lambda request: left.pop(0))
    shell.run("%agent model scripted:_model")
    return shell.run("%%agent analyst\nDo something please.")


BROKEN = Turn("x = 1\ny = ", text="I begin.", error=ModelError("m", "the stream broke", retry_after_s=0.001))


def test_an_answer_that_broke_off_is_struck_and_the_next_one_begins_by_itself(
    shell: Shell, displays: list[Display]
) -> None:
    give(shell, BROKEN, BROKEN, Turn("task.success(5)"))
    first, second, whole = displays
    assert first.text == second.text == "I begin.\nx = 1\ny = \nstep 1 · broken off\nm: the stream broke; trying again"
    assert first.html.count("line-through") == 2
    assert whole.text == "task.success(5)"
    assert "line-through" not in whole.html


def test_an_answer_that_never_began_leaves_its_note_with_the_next_one(shell: Shell, displays: list[Display]) -> None:
    give(shell, Turn(error=ModelError("m", "HTTP 429", retry_after_s=0.001)), Turn("task.success(5)"))
    assert [one.text for one in displays] == ["task.success(5)\nm: HTTP 429; trying again"]


def test_the_error_of_a_model_is_said_once(shell: Shell) -> None:
    typed = give(shell, Turn(text="Well.", error=ModelError("m", "HTTP 401: no key")))
    assert (typed.out + typed.err).count("HTTP 401") == 1
    typed = give(shell, BROKEN, Turn("task.success(5)"))
    assert (typed.out + typed.err).count("the stream broke") == 1


def test_the_cell_of_a_run_that_failed_says_that_alone_and_programs_are_told_why() -> None:
    ended = TaskEnded("HTTP 401", ("The run of analyst failed.",))
    assert str(ended) == "HTTP 401"
    assert ended._render_traceback_() == ["The run of analyst failed."]


def test_what_is_to_be_typed_stands_in_the_font_of_code(
    shell: Shell, displays: list[Display], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(shell.ip.display_pub, "publish", lambda data, *_, **__: lines.append(data["text/html"]))
    give(shell, Turn("task.clarify('Rounded, <b>or not</b>?')"))
    asks, goes_on = lines[-2:]
    assert "analyst asks: Rounded, &lt;b&gt;or not&lt;/b&gt;?" in asks
    assert re.search(r"<code [^>]*>%agent resume ANSWER</code> goes on", goes_on)
    assert displays[0].text.startswith("task.clarify")
