"""A slider that a person moves is a change, found with the next cell, whatever that is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.magics.shells import Shell

pytest.importorskip("ipywidgets")


def move(slider: Any, value: int) -> None:
    data = {"method": "update", "state": {"value": value}, "buffer_paths": []}
    slider.comm.handle_msg({"content": {"comm_id": slider.model_id, "data": data}, "metadata": {}, "buffers": []})


def test_with_all_that_its_handlers_changed(shell: Shell) -> None:
    shell.run("import ipywidgets\nmoves, slider, other = [], ipywidgets.IntSlider(value=3), ipywidgets.IntSlider()")
    shell.run("def note(change):\n    moves.append(change.new)\nslider.observe(note, 'value')")
    move(shell.ip.user_ns["slider"], 8)
    shell.run("x = 1")
    shell.run("y = 1")
    names = [{change["name"] for change in commit["changed"]} for commit in shell.log()[:2]]
    assert names == [{"y"}, {"x", "slider", "moves"}]
    shell.run("%agent rollback HEAD~2")
    assert (shell.ip.user_ns["slider"].value, shell.ip.user_ns["moves"]) == (3, [])


def test_also_where_the_next_thing_is_a_checkout(shell: Shell) -> None:
    shell.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
    shell.run("x = 1")
    move(shell.ip.user_ns["slider"], 8)
    shell.run("%agent checkout HEAD~1")
    assert shell.ip.user_ns["slider"].value == 3
    shell.run("%agent undo")
    assert shell.ip.user_ns["slider"].value == 8
