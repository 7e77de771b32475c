"""Code between fences in the words of a model that calls no tools."""

from __future__ import annotations

import pytest

from agent_kernel.agents.events import Action, Event, Output, Success, TaskStart
from agent_kernel.agents.messages import messages_for_later_runs, messages_of
from agent_kernel.agents.models import AssistantMessage, Fenced, UserMessage, split


@pytest.mark.parametrize(
    "language", ["python", "py", "Python", "python title=x.py", " python", "{python}", "{.python}", "ipython3", ""]
)
def test_what_stands_between_fences_is_code_and_the_rest_words(language: str) -> None:
    assert split(f"First.\n\n```{language}\nx = 1\n```\n\nThen.") == Fenced("First.\n\nThen.", "x = 1")


def test_tildes_make_fences_as_well() -> None:
    assert split("Do:\n~~~python\ns = '```'\n~~~") == Fenced("Do:", "s = '```'")


def test_several_fences_are_one_step() -> None:
    assert split("```python\na = 1\n```\nand\n```python\nb = 2\n```") == Fenced("and", "a = 1\n\nb = 2")


def test_a_fence_in_a_list_is_indented_and_one_with_fences_in_it_is_longer() -> None:
    assert split("1. Do:\n   ```python\n   if x:\n       y = 1\n   ```") == Fenced("1. Do:", "if x:\n    y = 1")
    assert split('````python\ns = """\n```\n"""\n````') == Fenced("", 's = """\n```\n"""')


def test_a_fence_that_is_never_closed_goes_on_to_the_end() -> None:
    assert split("Now:\n```python\nx = 1\n") == Fenced("Now:", "x = 1")


@pytest.mark.parametrize(
    "said",
    [
        "It is 42.",
        "Call `f()` and see.",
        "```json\n{}\n```",
        "```\n42\n```",
        "```\n   a  b\n0  1  2\n```",
        "```python\n\n```",
        "",
    ],
)
def test_words_without_code_are_words(said: str) -> None:
    assert split(said) is None


def test_an_output_that_is_shown_beside_the_code_is_none() -> None:
    said = "```python\nprint(1)\n```\nshows\n```\nprint(2)\n```"
    assert split(said) == Fenced("shows\n```\nprint(2)\n```", "print(1)")


class TestTheConversation:
    SAID = "So.\n```python\nx\n```"
    STEP = Action(text="So.", code="x", said=SAID)

    def test_what_came_of_it_is_told_in_words(self) -> None:
        events: list[Event] = [TaskStart(prompt="Do it."), self.STEP, Output(sent="1")]
        assert messages_of(events) == [
            UserMessage("Do it."),
            AssistantMessage(self.SAID),
            UserMessage("What came of your code:\n1"),
        ]

    def test_a_step_that_came_to_nothing_is_not_told_later(self) -> None:
        events: list[Event] = [TaskStart(prompt="Do it."), self.STEP]
        assert messages_for_later_runs(events) == [
            UserMessage("Do it."),
            AssistantMessage("(stopped before it was done)"),
        ]

    def test_words_at_the_end_are_the_last_thing_that_is_told_later(self) -> None:
        events: list[Event] = [TaskStart(prompt="Do it."), self.STEP, Output(sent="1"), Action(text="One."), Success()]
        assert messages_for_later_runs(events)[-1] == AssistantMessage("One.")
