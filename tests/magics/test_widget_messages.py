"""A slider that a person moves is a change, found with the next cell, whatever that is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.magics.shells import Shell

pytest.importorskip("ipywidgets")


def move(shell: Shell, value: int) -> None:
    """A message of the page arrives. As in a kernel, the shell hears that code runs which is no cell's."""
    slider: Any = shell.ns["slider"]
    data = {"method": "update", "state": {"value": value}, "buffer_paths": []}
    shell.ip.events.trigger("pre_execute")  # `comm` does so for the shell of `get_ipython`, which this one is not
    slider.comm.handle_msg({"content": {"comm_id": slider.model_id, "data": data}, "metadata": {}, "buffers": []})
    shell.ip.events.trigger("post_execute")


def test_with_all_that_its_handlers_changed(shell: Shell) -> None:
    shell.run("import ipywidgets\nmoves, slider, other = [], ipywidgets.IntSlider(value=3), ipywidgets.IntSlider()")
    shell.run("def note(change):\n    moves.append(change.new)\nslider.observe(note, 'value')")
    move(shell, 8)
    shell.run("x = 1")
    shell.run("y = 1")
    names = [{change["name"] for change in commit["changed"]} for commit in shell.log()[:2]]
    assert names == [{"y"}, {"x", "slider", "moves"}]
    shell.run("%agent rollback HEAD~2")
    assert (shell.ip.user_ns["slider"].value, shell.ip.user_ns["moves"]) == (3, [])


def test_also_where_the_next_thing_is_a_checkout(shell: Shell) -> None:
    shell.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
    shell.run("x = 1")
    move(shell, 8)
    shell.run("%agent checkout HEAD~1")
    assert shell.ip.user_ns["slider"].value == 3
    shell.run("%agent undo")
    assert shell.ip.user_ns["slider"].value == 8
