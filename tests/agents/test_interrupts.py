"""A run can be stopped at any moment; what it had done is kept, and it goes on where it stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Cancelled, Event, Output, StepStart, TaskStart
from agent_kernel.agents.execution import is_raised_by_code
from agent_kernel.quiet import noted_interrupts


def soon(act: Callable[[], object], seconds: float = 0.3) -> None:
    """Do something on another thread, in a moment."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_while_the_model_answers_stops_the_run() -> None:
    run = ak.Agent(model=ak.ScriptedModel([ak.Turn("task.success(1)", delay_s=20)])).start("Wait")
    soon(interrupt)
    began = time.monotonic()
    with pytest.raises(ak.TaskInterruptedError):
        run.result()
    assert time.monotonic() - began < 5
    assert [event.during for event in run.events if isinstance(event, Cancelled)] == ["model"]


def test_code_that_was_about_to_run_when_its_run_was_stopped_does_not_run() -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = ak.Agent(
            model=ak.ScriptedModel(["y = 1\nimport time\ntime.sleep(30)", "task.success(y)"]), state=state
        ).start("Sleep")
        for event in run.stream():
            if isinstance(event, StepStart):  # that is noted, and the code runs next
                run.cancel("enough")
        assert (run.status, "y" in state) == ("interrupted", False)
        assert [(event.during, event.reason) for event in run.events if isinstance(event, Cancelled)] == [
            ("code", "enough")
        ]


def test_an_interrupt_while_code_runs_keeps_what_it_changed_and_the_run_goes_on() -> None:
    code = "import time\ny = 18\ntime.sleep(30)\ny = 19"
    with ak.Versioned(ak.open("memory:")) as state:
        run = ak.Agent(model=ak.ScriptedModel([code, "task.success(y)"]), state=state).start("Sleep")
        soon(interrupt)
        with pytest.raises(ak.TaskInterruptedError):
            run.result()
        assert (state["y"], state.history()[0][1].status) == (18, "interrupted")
        assert [event.status for event in run.events if isinstance(event, Output)] == ["interrupted"]
        assert run.resume().result() == 18


class Interrupted:
    """An agent, and a person who interrupts so many lines of ours after its run began, if its model was not asked by then."""

    FILES = frozenset(f"{name}.py" for name in ("run", "executor", "agent", "event_log", "loop"))

    def __init__(self, after: int) -> None:
        self.lines, self.after, self.began = 0, after, False
        model = ak.FunctionModel(self._asked)
        self.state = ak.Live()
        self.agent = ak.Agent(model=model, state=self.state, on_event=self._told)

    def _asked(self, request: object) -> str:
        self.began = False
        return "task.success(7)"

    def _told(self, event: Event) -> None:
        self.began = self.began or isinstance(event, TaskStart)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).name not in self.FILES or frame.f_code.co_name == "result":
            return None  # at its first line whoever calls it is interrupted, and has not begun to drive the run
        if event == "line" and self.began:
            self.lines += 1
            if self.lines == self.after:
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def do(self) -> object:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return self.agent("Give me seven")
        finally:
            sys.settrace(before)


@pytest.mark.parametrize("step", [17, pytest.param(5, marks=pytest.mark.slow)])
def test_an_interrupt_anywhere_between_the_beginning_and_the_models_answer_is_one_of_the_run(step: int) -> None:
    after, last = 1, 1_000
    while after <= last:
        one = Interrupted(after)
        try:
            assert one.do() == 7
            last = one.lines  # the model was asked before
        except ak.TaskInterruptedError:
            assert isinstance(ak.events(one.state)[-1], Cancelled), after
            assert one.agent.reopen().resume().result() == 7
        after += step
    assert after > 100


def test_the_model_is_told_that_the_step_was_interrupted() -> None:
    told: list[str] = []

    def answer(request: object) -> str:
        told.append(request.messages[-1].text)  # type: ignore[attr-defined]
        return "while True: pass" if len(told) == 1 else "task.success()"

    run = ak.Agent(model=ak.FunctionModel(answer)).start("Loop")
    soon(interrupt)
    with pytest.raises(ak.TaskInterruptedError):
        run.result()
    run.resume().result()
    assert "interrupted this step" in told[1]


def test_cancelling_from_another_thread_stops_the_models_answer() -> None:
    run = ak.Agent(model=ak.ScriptedModel([ak.Turn("task.success(1)", delay_s=20)])).start("Wait")
    soon(lambda: run.cancel("enough"))
    with pytest.raises(ak.TaskInterruptedError, match="enough"):
        run.result()


def test_cancelling_from_another_thread_stops_code() -> None:
    run = ak.Agent(model=ak.ScriptedModel(["while True: pass", "task.success(1)"])).start("Loop")
    soon(lambda: run.cancel("enough"))
    with pytest.raises(ak.TaskInterruptedError, match="enough"):
        run.result()
    assert run.resume().result() == 1


def test_code_on_another_thread_than_the_main_one_can_be_stopped() -> None:
    run = ak.Agent(model=ak.ScriptedModel(["while True: pass"])).start("Loop")
    ended: list[str] = []

    def drive() -> None:
        with pytest.raises(ak.TaskInterruptedError):
            run.result()
        ended.append(run.status)

    worker = threading.Thread(target=drive)
    worker.start()
    soon(lambda: run.cancel("enough"))
    worker.join(20)
    assert ended == ["interrupted"]


def test_cancelling_the_task_that_awaits_a_run_stops_it_resumably() -> None:
    run = ak.Agent(model=ak.ScriptedModel([ak.Turn("task.success(1)", delay_s=0.5)])).start("Wait")

    async def main() -> None:
        waiting = asyncio.ensure_future(run)
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    assert run.status == "interrupted"
    assert run.resume().result() == 1


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\nraise KeyboardInterrupt",
        "def stop():\n    raise KeyboardInterrupt('enough')\nx = 1\nstop()",
        "x = 1\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyboardInterrupt from error",
    ],
)
@pytest.mark.parametrize("is_main", [True, False])
def test_an_interrupt_that_the_code_raises_is_an_error_of_the_code(code: str, is_main: bool) -> None:
    state: dict[str, object] = {}
    run = ak.Agent(model=ak.ScriptedModel([code, "task.success(x + 1)"]), state=state).start("Work")
    if is_main:
        assert run.result() == 2
    else:
        thread = threading.Thread(target=run.result)
        thread.start()
        thread.join(20)
    assert run.status == "completed"
    outputs = [event for event in run.events if isinstance(event, Output)]
    assert outputs[0].status == "failed"
    assert "interrupted this step" not in outputs[0].sent
    assert "KeyboardInterrupt" in outputs[0].sent


def test_an_interrupt_that_the_code_catches_and_raises_again_is_a_persons() -> None:
    code = "import time\ntry:\n    time.sleep(20)\nexcept KeyboardInterrupt:\n    raise KeyboardInterrupt('stopped')"
    run = ak.Agent(model=ak.ScriptedModel([code, "task.success(1)"]), state={}).start("Work")
    soon(interrupt)
    with pytest.raises(ak.TaskInterruptedError):
        run.result()
    assert [event.status for event in run.events if isinstance(event, Output)] == ["interrupted"]


OWN = {
    "interrupt_main": "import _thread\n_thread.interrupt_main()\nfor _ in range(10**6): pass",
    "by an alias": "from _thread import interrupt_main as f\n[f() for _ in range(2)]",
    "on a thread": "import _thread, threading, time\nthreading.Thread(target=_thread.interrupt_main).start()\ntime.sleep(20)",
    "throw": "def g(): yield\nx = g(); next(x); x.throw(KeyboardInterrupt)",
    "throw at the beginning": "def g(): yield\ng().throw(KeyboardInterrupt)",
    "throw into a coroutine": "import types\n@types.coroutine\ndef g(): yield\nx = g(); x.send(None); x.throw(KeyboardInterrupt())",
    "throw through another": "def g(): yield\ndef h(): yield from g()\nx = h(); next(x); x.throw(KeyboardInterrupt)",
    "raise": "raise KeyboardInterrupt",
}


@pytest.mark.sampled
@pytest.mark.parametrize("approve", ["auto", "never"])
@pytest.mark.parametrize("way", OWN)
def test_an_interrupt_that_the_code_makes_is_an_error_of_the_step(way: str, approve: str) -> None:
    model = ak.ScriptedModel([OWN[way], "task.success(1)"])
    run = ak.Agent(model=model, state={}, approve=approve).start("Go on")
    assert run.result() == 1
    assert next(event.status for event in run.events if isinstance(event, Output)) == "failed"


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    _thread.interrupt_main()\n    for _ in range(10**6): pass\nexcept KeyboardInterrupt: pass\ntime.sleep(20)",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n_thread.interrupt_main()\nsignal.signal(signal.SIGINT, was)\ntime.sleep(20)",
        "def g():\n    while True: yield\nfor _ in g(): pass",
    ],
)
def test_an_interrupt_of_a_person_is_told_from_that_of_the_code_before_it(code: str) -> None:
    begin = "import _thread, signal, time\nwas = signal.getsignal(signal.SIGINT)\n"
    with ak.Versioned(ak.open("memory:")) as state:
        run = ak.Agent(model=ak.ScriptedModel([begin + code, "task.success(1)"]), state=state).start("Sleep")
        soon(interrupt, 0.6)
        with pytest.raises(ak.TaskInterruptedError):
            run.result()


def test_an_interrupt_of_the_code_is_none_of_a_person_s_for_those_around_it() -> None:
    import _thread

    with noted_interrupts() as outer, noted_interrupts() as inner:
        with pytest.raises(KeyboardInterrupt) as found:
            _thread.interrupt_main()
        assert is_raised_by_code(found.value)
        assert outer == inner == []
        with pytest.raises(KeyboardInterrupt) as found:
            signal.raise_signal(signal.SIGINT)
        assert not is_raised_by_code(found.value)
        assert outer == inner == [signal.SIGINT]


def test_who_sends_an_interrupt_from_a_thread_that_was_there_before_is_a_person() -> None:
    import _thread

    run = ak.Agent(
        model=ak.ScriptedModel(["import time\nfor _ in range(2000):\n    time.sleep(0.01)", "task.success(1)"])
    ).start("Sleep")
    soon(_thread.interrupt_main, 0.6)  # as front ends do where there are no signals
    with pytest.raises(ak.TaskInterruptedError):
        run.result()
