"""A size in the history is that of the value it stands beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        yield shell


def sizes(shell: Shell) -> dict[str, int]:
    return {change["name"]: change["size"] for change in shell.log()[0]["changed"]}


def test_of_names_that_are_saved_together_each_has_its_own(shell: Shell) -> None:
    shell.run("import numpy as np\nbig = np.zeros(100_000)")
    shell.run("part = big[:10]\nbox = [part]")
    found = sizes(shell)
    assert found["part"] < 2_000
    shell.run("%agent undo")
    shell.run("%agent redo")
    assert sizes(shell)["part"] < 2_000


def test_an_object_of_a_library_has_the_size_of_what_is_stored_of_it(shell: Shell) -> None:
    shell.run("class Box: pass\nimport numpy as np\nbox = Box(); box.inside = np.zeros(100_000)")
    assert "box  Box, 800 kB" in shell.run("%agent show").out
    shell.run("import threading; lock = threading.Lock()")
    assert "lock       _thread.lock\n" in shell.run("%agent show").out


def test_small_sizes_do_not_clutter_the_log(shell: Shell) -> None:
    shell.run("import threading; lock = threading.Lock()")
    assert " B" not in shell.run("%agent log").out
    shell.run("text = 'x' * 5_000")
    assert "+text 5 kB" in shell.run("%agent log").out


def test_a_generator_has_no_size(shell: Shell) -> None:
    shell.run("g = (number for number in range(3))")
    assert "g  generator\n" in shell.run("%agent show").out


def test_help_says_whose_size_it_is(shell: Shell) -> None:
    assert "The size is that of the first variable's value" in shell.run("%agent log --help").out
