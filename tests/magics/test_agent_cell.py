"""What a `%%agent` cell is: Python, a task in words, or a mistake."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from agent_kernel.commands.scope import UsageProblem
from agent_kernel.errors import InvalidRefNameError
from agent_kernel.magics.agent_cell import is_python, read, split_cell
from agent_kernel.magics.extension import Blanker


def transform(source: str) -> str:
    manager: Any = TransformerManager
    return str(manager().transform_cell(source))


def blanked(source: str) -> str:
    return "".join(Blanker(transform)(source.splitlines(keepends=True)))


@pytest.mark.parametrize(
    "body",
    [
        "x = 1",
        "await f()",
        "%time x = 1",
        "!ls",
        "x?",
        "y = d[0] + x?",
        "for i in y:\n    pass",
        "async with a as b: ...",
        "%%time\nx = 1",
    ],
)
def test_what_a_cell_can_run_is_python(body: str) -> None:
    assert is_python(body, transform)


@pytest.mark.parametrize(
    "body",
    [
        "Drop the outliers",
        "return outliers",
        "What drives price?",
        'Why is df["a"] negative?',
        "Is it all?  \nSay why.",
        "x = = 1",
        "def f(:",
    ],
)
def test_what_a_cell_cannot_run_is_not(body: str) -> None:
    assert not is_python(body, transform)


@pytest.mark.parametrize(
    "body",
    [
        "Drop the outliers and fit a model of price.",
        "Don't drop anything",
        "\n  Was läuft schief?\nx = 1",
        "# Task\nDrop it all",
    ],
)
def test_prose_reads_as_words(body: str) -> None:
    assert read(body, (), str) == "task"


@pytest.mark.parametrize(
    "body", ["x = = 1", "f(", "d[", "# the years\ny = [1,", "print 'hello'", 'say "it"', "{", "..."]
)
def test_code_with_a_mistake_does_not(body: str) -> None:
    assert read(body, (), str) != "task"


def test_the_first_line_becomes_blank_so_that_line_numbers_stay() -> None:
    assert blanked("%%agent analyst\nx = 1\ny = 2\n") == "\nx = 1\ny = 2\n"


def test_a_cell_magic_below_moves_to_the_first_line() -> None:
    assert blanked("%%agent\n%%time\nx = 1\n") == "%%time\nx = 1\n"


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n%%agent\n",
        "%%agents\nx = 1\n",
        "%%agent?\n",
        "%%agent\nDrop the outliers\n",
        "%%agent --wrong\nx = 1\n",
        "%%agent a b\nx = 1\n",
    ],
)
def test_everything_else_is_left_as_it_is(source: str) -> None:
    assert blanked(source) == source


@pytest.mark.parametrize("source", ["%%agent", "%%agent analyst\n", "%%agent --help\n \n"])
def test_a_header_without_a_body_gets_one_so_that_the_magic_is_asked(source: str) -> None:
    """IPython refuses a cell magic without a body by itself, and offers the line magic."""
    assert blanked(source) == f"{source.strip()}\n\n"


def test_py_shows_the_mistake_in_what_reads_as_words() -> None:
    assert blanked("%%agent --py\nDrop the outliers\n") == "\nDrop the outliers\n"


def test_a_mistake_in_code_is_shown_as_in_a_plain_cell() -> None:
    assert blanked("%%agent\nx = = 1\n") == "\nx = = 1\n"


def test_the_header_names_the_agent() -> None:
    cell = split_cell("%%agent analyst\nx = 1")
    assert cell is not None
    assert (cell.agent, cell.python, cell.body) == ("analyst", False, "x = 1")
    default = split_cell("\n%%agent --py\nx")
    assert default is not None
    assert (default.agent, default.python) == ("agent", True)
    assert split_cell("x = 1") is None


def test_an_agent_is_named_as_a_branch_is() -> None:
    with pytest.raises(InvalidRefNameError, match="cannot name an agent"):
        split_cell("%%agent a..b\nx = 1")
    with pytest.raises(UsageProblem):
        split_cell('%%agent "open\nx = 1')
