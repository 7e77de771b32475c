"""An agent outside works in a running kernel, between its cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kernels import started
from tests.outside.clients import is_there, over_stdio, run, take_back_once_it_runs

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient


Cell = Callable[[str], str]


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("mcp")


@pytest.fixture(scope="module")
def one_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Cell]]:
    """The connection file of a kernel, and what runs a cell in it."""
    notebook = tmp_path_factory.mktemp("kernel") / "study.ipynb"
    with pytest.MonkeyPatch.context() as patch, started(notebook, patch) as (client, manager):
        yield manager.connection_file, lambda code: ran(client, code)


@pytest.fixture
def kernel(one_kernel: tuple[str, Cell]) -> tuple[str, Cell]:
    """The kernel, with three numbers and nothing of an earlier test."""
    _, cell = one_kernel
    cell("%reset -f")
    cell("numbers = [1, 2, 3]")
    return one_kernel


def ran(client: BlockingKernelClient, code: str) -> str:
    """Run a cell, and return all that it showed."""
    shown: list[str] = []

    def note(message: dict[str, Any]) -> None:
        content = message["content"]
        shown.append(str(content.get("text", "") or content.get("data", {}).get("text/plain", "")))

    client.execute_interactive(code, output_hook=note, timeout=60)
    return "".join(shown)


def test_code_runs_between_the_cells_and_is_a_commit_of_the_agent(kernel: tuple[str, Cell]) -> None:
    connection, cell = kernel

    async def act() -> None:
        async with over_stdio("--kernel", connection, "--agent", "visitor", anew=True) as ask:
            assert "numbers: list" in await ask.use("list_variables")
            told = await ask.use("run_python", code="total = sum(numbers)\nprint('hello')\ntotal", purpose="Sum up")
            assert "hello" in told
            assert "6" in told
            assert "+ total" in told
            assert "visitor" in await ask.use("show")

    run(act)
    assert cell("total") == "6"
    assert "visitor" in cell("%agent show HEAD~1") + cell("%agent log")
    assert "Sum up" in cell("%agent runs")


def test_the_numbers_of_cells_and_their_outputs_are_left_alone(kernel: tuple[str, Cell]) -> None:
    connection, cell = kernel
    before = int(cell("get_ipython().execution_count"))

    async def act() -> None:
        async with over_stdio("--kernel", connection) as ask:
            await ask.use("list_variables")
            await ask.use("run_python", code="40 + 2")

    run(act)
    assert int(cell("get_ipython().execution_count")) == before + 1
    assert "40 + 2" not in cell("In[-2]")


def test_it_goes_back_in_the_kernel_itself(kernel: tuple[str, Cell]) -> None:
    connection, cell = kernel

    async def act() -> None:
        async with over_stdio("--kernel", connection) as ask:
            await ask.use("run_python", code="numbers.append(4)")
            await ask.use("undo")

    run(act)
    assert cell("numbers") == "[1, 2, 3]"


def test_a_kernel_at_work_says_so_and_does_nothing_later(kernel: tuple[str, Cell], tmp_path: Path) -> None:
    connection, cell = kernel
    begun, asked = tmp_path / "begun", tmp_path / "asked"
    work = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(asked)!r}).exists(): time.sleep(0.02)"
    )

    async def act() -> None:
        async with over_stdio("--kernel", connection, "--wait-s", "1") as ask:
            await ask.use("list_variables")
            working = asyncio.create_task(asyncio.to_thread(cell, work))
            await is_there(begun)
            try:
                assert "busy" in await ask.refused("run_python", code="late = 1")
            finally:
                asked.touch()
            await working
            assert "late" not in await ask.use("list_variables")

    run(act)


def test_a_risky_step_is_allowed_in_the_notebook(kernel: tuple[str, Cell], tmp_path: Path) -> None:
    connection, cell = kernel
    note = tmp_path / "note.txt"

    async def act() -> None:
        async with over_stdio("--kernel", connection) as ask:
            told = await ask.use("run_python", code=f"open({str(note)!r}, 'w').write('hi')")
            assert "%agent approve --run" in told
            assert not note.exists()
            waiting = told.split("(run ")[1][:5]
            await asyncio.to_thread(cell, f"%agent approve --run {waiting}")
            assert note.read_text() == "hi"
            assert "note.txt" in await ask.use("result", run=waiting)

    run(act)


def test_a_call_that_is_taken_back_is_interrupted(kernel: tuple[str, Cell], tmp_path: Path) -> None:
    connection, _ = kernel

    async def act() -> None:
        async with over_stdio("--kernel", connection, "--approve", "auto") as ask:
            await ask.use("list_variables")
            await take_back_once_it_runs(ask, tmp_path / "begun")
            assert "begun" in await asyncio.wait_for(ask.use("list_variables"), 30)

    run(act)


def test_a_kernel_without_the_extension_says_what_to_do(kernel: tuple[str, Cell]) -> None:
    connection, cell = kernel
    cell("%unload_ext agent_kernel")

    async def act() -> None:
        async with over_stdio("--kernel", connection) as ask:
            assert "load_ext agent_kernel" in await ask.refused("list_variables")

    try:
        run(act)
    finally:
        cell("%load_ext agent_kernel")


def test_two_clients_without_a_name_take_back_their_own_work_alone(kernel: tuple[str, Cell]) -> None:
    connection, cell = kernel

    async def act() -> None:
        async with over_stdio("--kernel", connection) as one, over_stdio("--kernel", connection) as other:
            await one.use("run_python", code="mine = 1")
            assert "has not run yet" in await other.use("undo")
            assert "Undone" in await one.use("undo")

    run(act)
    assert cell("'mine' in globals()") == "False"
