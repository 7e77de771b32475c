"""A size in the history is that of the value it stands beside."""

from __future__ import annotations

import pytest

from agent_kernel.text import size_text
from tests.magics.shells import Shell


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


def test_log_diff_and_show_mean_the_same_size(shell: Shell) -> None:
    # In memory each text takes what Python needs for it; stored, it is little more than its characters.
    shell.run(
        "import pandas as pd\nframe = pd.DataFrame({'a': pd.Series([f'text {n}' for n in range(5_000)], dtype=object)})"
    )
    logged = size_text(sizes(shell)["frame"])
    assert f"+frame {logged}" in shell.run("%agent log").out
    assert f", {logged}" in shell.run("%agent diff").out
    shown = shell.run("%agent show HEAD:frame").out
    assert f"DataFrame 5,000 × 1, {logged}" in shown
    assert f"Size:        {logged}" in shown


def test_of_names_that_are_saved_together_all_verbs_say_the_same_too(shell: Shell) -> None:
    shell.run("import numpy as np\nbig = np.zeros(100_000); box = [big, 'x']")
    logged = size_text(sizes(shell)["big"])
    assert f"big: ndarray float64 (100000,), {logged}" in shell.run("%agent show HEAD:big").out
    assert f"+ big: ndarray float64 (100000,), {logged}" in shell.run("%agent diff").out


@pytest.mark.parametrize("verb", ["log", "diff", "show"])
def test_each_help_says_what_a_size_is(shell: Shell, verb: str) -> None:
    assert (
        "A size is that of the value as it is stored, before pieces are shared"
        in shell.run(f"%agent {verb} --help").out
    )


def test_what_counts_objects_says_which(shell: Shell) -> None:
    assert "a session or a reflog reaches" in shell.run("%agent verify --help").out
    assert "Objects are all that the store holds" in shell.run("%agent stats --help").out
