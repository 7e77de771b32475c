"""Which cells count, seen in a real shell by a recorder that commits nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.magics.extension import CellHooks, cell_id_of, is_only_agent_lines
from tests.magics.shells import leave, plain_shell


class Told:
    def __init__(self) -> None:
        self.cells: list[tuple[str, str]] = []
        self.begun: list[str] = []
        self.between: list[str] = []
        self.turns: list[str] = []  # whose the main thread was

    def starts(self, is_numbered: bool) -> None:
        self.turns.append("a cell" if is_numbered else "a hidden cell")

    def rests(self) -> None:
        self.turns.append("nobody")

    def begin(self, source: str, cell_id: str) -> bool:
        self.begun.append(source)
        return not source.startswith("# refused")

    def note_widget_activity(self) -> None:
        self.between.append(self.begun[-1])

    def end(self, error: BaseException | None) -> None:
        self.cells.append((self.begun[-1], type(error).__name__ if error else "ok"))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def shell(told: Told) -> Iterator[Any]:
    shell = plain_shell()
    hooks = CellHooks(told)
    shell.events.register("pre_execute", hooks.pre_execute)
    shell.events.register("pre_run_cell", hooks.pre_run_cell)
    shell.events.register("post_run_cell", hooks.post_run_cell)
    yield shell
    leave(shell)


def test_each_cell_is_told_once_with_how_it_ended(shell: Any, told: Told) -> None:
    for source in ("x = 1", "1 / 0", "raise KeyboardInterrupt", "x ="):
        shell.run_cell(source, store_history=True)
    assert [how for _, how in told.cells] == ["ok", "ZeroDivisionError", "KeyboardInterrupt", "SyntaxError"]


def test_a_cell_inside_a_cell_is_part_of_it(shell: Any, told: Told) -> None:
    source = "ip = get_ipython()\nip.run_cell('y = 1', store_history=True)\nip.run_cell('1/0')"
    shell.run_cell(source, store_history=True)
    assert told.cells == [(source, "ok")]
    shell.run_cell("z = 1", store_history=True)
    assert told.cells[1:] == [("z = 1", "ok")]


def test_hidden_and_silent_executions_do_not_count(shell: Any, told: Told) -> None:
    shell.run_cell("x = 1", store_history=False)
    shell.run_cell("x = 1", silent=True)
    shell.run_cell("   ", store_history=True)
    assert told.begun == []


def test_other_threads_do_not_count(shell: Any, told: Told) -> None:
    thread = threading.Thread(target=lambda: shell.run_cell("x = 1", store_history=True))
    thread.start()
    thread.join()
    assert told.begun == []


def test_whose_the_main_thread_is_is_told_of_every_outermost_cell(shell: Any, told: Told) -> None:
    shell.run_cell("get_ipython().run_cell('1 / 0', store_history=True)", store_history=True)
    shell.run_cell("x = 1", store_history=False)
    shell.run_cell("# %agent log", store_history=True)
    assert told.turns == ["a cell", "nobody", "a hidden cell", "nobody", "a cell", "nobody"]


def test_a_refused_cell_is_not_ended(shell: Any, told: Told) -> None:
    shell.run_cell("# refused\nx = 1", store_history=True)
    assert told.cells == []


def test_the_cell_that_registers_the_hooks_is_left_alone(told: Told) -> None:
    shell = plain_shell()
    hooks = CellHooks(told)
    shell.user_ns["load"] = lambda: (
        shell.events.register("pre_run_cell", hooks.pre_run_cell),
        shell.events.register("post_run_cell", hooks.post_run_cell),
    )
    shell.run_cell("load()", store_history=True)
    shell.run_cell("x = 1", store_history=True)
    assert told.cells == [("x = 1", "ok")]
    leave(shell)


def test_a_cell_without_a_result_was_interrupted(shell: Any, told: Told) -> None:
    hooks = CellHooks(told)

    class Info:
        raw_cell, store_history, silent, cell_id = "await long()", True, False, None

    hooks.pre_run_cell(Info())
    hooks.post_run_cell(None)
    assert told.cells == [("await long()", "KeyboardInterrupt")]


@pytest.mark.parametrize("source", ["%agent log", "# look\n  %agent status\n%agent log?\n\n", "%agent"])
def test_cells_of_only_agent_lines(source: str) -> None:
    assert is_only_agent_lines(source)


@pytest.mark.parametrize("source", ["", "# nothing", "x = 1\n%agent log", "rows = %agent log", "%agents", "%%agent\nx"])
def test_cells_that_are_more(source: str) -> None:
    assert not is_only_agent_lines(source)


def test_cell_ids_say_nothing_of_where_the_notebook_lies() -> None:
    class Info:
        cell_id: str | None = None

    info = Info()
    ids = []
    for told in (None, "a1b2", "vscode-notebook-cell:/home/someone/x.ipynb#W0sZmlsZQ%3D%3D"):
        info.cell_id = told
        ids.append(cell_id_of(info))  # type: ignore[arg-type]  # as much of it as is read
    assert ids == ["", "a1b2", "vscode:W0sZmlsZQ%3D%3D"]


def test_a_cell_whose_error_cannot_be_shown_ends_like_any_other(shell: Any, told: Told) -> None:
    mute = "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute('a')"
    shell.run_cell(mute, store_history=True)
    shell.run_cell("x = 1", store_history=True)
    assert [source for source, _ in told.cells] == [mute, "x = 1"]
    assert told.cells[0][1] != "ok"
    assert told.cells[1][1] == "ok"


def test_what_handles_a_message_of_a_widget_is_told_with_the_next_cell_that_counts(shell: Any, told: Told) -> None:
    def message() -> None:
        shell.events.trigger("pre_execute")
        shell.events.trigger("post_execute")

    for source, store in (("a = 1", True), ("b = 1", False), ("c = 1", True), ("d = 1", True)):
        shell.run_cell(source, store_history=store)
        if source == "a = 1":
            message()
    assert told.between == ["c = 1"]
    shell.user_ns["message"] = message
    shell.run_cell("message()", store_history=True)
    assert told.between == ["c = 1", "message()"]
