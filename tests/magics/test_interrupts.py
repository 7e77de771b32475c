"""A run is stopped, by a person or by the time that a step may take, and is driven in one place at a time."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from agent_kernel.agents import Turn
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Event, TaskStart
from agent_kernel.magics.tasks import Tasks
from tests.magics.shells import Shell, Typed
from tests.magics.tasks import runs, use


def test_an_interrupt_while_the_model_answers_stops_the_run_and_resume_goes_on(shell: Shell) -> None:
    use(shell, "x = 1", Turn("task.success(x)", delay_s=2.0))
    timer = threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    began = time.monotonic()
    typed = shell.run("%%agent analyst\nCount up to one please.")
    assert time.monotonic() - began < 1.9
    assert not typed.result.success
    assert "stopped" in typed.out
    assert [run["status"] for run in runs(shell)] == ["interrupted"]
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_an_interrupt_right_behind_the_beginning_of_a_run_is_one_of_the_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(shell, "task.success(1)", "task.success(1)")
    append, drive = EventStore.append, Tasks._drive

    def appended(event_store: EventStore, *events: Event, claim: bytes | None = None) -> tuple[Event, ...]:
        stored = append(event_store, *events, claim=claim)
        if isinstance(events[0], TaskStart):
            signal.raise_signal(signal.SIGINT)
        return stored

    def driven(tasks: Tasks, run: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return drive(tasks, run)

    for broken, name, put in ((EventStore, "append", appended), (Tasks, "_drive", driven)):
        with monkeypatch.context() as patched:
            patched.setattr(broken, name, put)
            typed = shell.run("%%agent analyst\nCount up to one please.")
        assert "stopped; %agent resume goes on" in typed.out
        assert "KeyboardInterrupt" not in typed.out + typed.err
        assert not typed.result.success
        assert runs(shell)[0]["status"] == "interrupted"
        shell.run("%agent resume")
        assert runs(shell)[0]["status"] == "completed"


def test_a_run_that_a_loop_of_the_notebook_drives_is_not_resumed_and_one_that_nobody_drives_is(shell: Shell) -> None:
    use(shell, "task.success(1)")
    shell.run("import agent_kernel as ak")
    shell.run("run = ak.Agent('analyst', model='scripted:_model', state=ak.here()).start('Count up to one please.')")
    shell.run("loop = run.stream(); _ = next(loop)")
    (listed,) = runs(shell)
    assert listed["status"] == "running"
    assert "or go on elsewhere" in shell.run("%agent resume").err
    refused = shell.run(f"%agent resume --run {listed['run']}")
    assert "is being driven by another loop of this process" in refused.err
    shell.run("loop.close()")
    assert runs(shell)[0]["status"] == "stopped"
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_an_interrupt_while_code_runs_keeps_what_it_had_done(shell: Shell) -> None:
    shell.ns["interrupt"] = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    use(shell, "import time\nx = 1\ninterrupt.start()\ntime.sleep(30)\nx = 2", "task.success(x)")
    typed = shell.run("%%agent analyst --approve auto\nCount up to one please.")
    assert not typed.result.success
    assert "Traceback" not in typed.out + typed.err
    assert shell.ns["x"] == 1
    assert shell.log()[0]["status"] == "interrupted"
    shell.run("%agent resume")
    assert [run["status"] for run in runs(shell)] == ["completed"]


def test_a_step_that_awaits_for_too_long_is_interrupted_and_leaves_nothing_pending(shell: Shell) -> None:
    shell.run("import agent_kernel as ak, asyncio")
    use(
        shell,
        "ended = []\nasync def late():\n    try:\n        await asyncio.sleep(60)\n    finally:\n"
        "        ended.append(1)\nlater = asyncio.create_task(late())\nawait asyncio.sleep(60)",
        "task.success(ended)",
    )

    async def as_a_kernel_does() -> Typed:
        limits = "ak.Limits(step_s=0.3)"
        return shell.run(f"ak.Agent('a', model=_model, limits={limits}, state=ak.here())('Wait.')")

    typed = asyncio.run(as_a_kernel_does())
    assert typed.result.result == [1]
    assert "CancelledError" not in typed.out + typed.err  # it met the interrupt where it waited


def test_a_thread_beside_the_cells_drives_no_agent_on_their_variables(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; from concurrent.futures import ThreadPoolExecutor")
    shell.run("run = ak.Agent('ada', model=ak.ScriptedModel(['x = 1; task.success(x)']), state=ak.here()).start('Go')")
    shell.run("with ThreadPoolExecutor(1) as pool: error = pool.submit(run.result).exception()")
    assert "on the thread of its cells" in str(shell.ns["error"])
    assert "x" not in shell.ns
    assert [(run["status"], run["steps"]) for run in runs(shell)] == [("stopped", 0)]
    assert shell.run("run.resume().result()").result.result == 1
    assert [(run["status"], run["steps"]) for run in runs(shell)] == [("completed", 1)]
