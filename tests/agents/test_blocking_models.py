"""A model that blocks its event loop, or catches its cancellation, holds nobody: limits and interrupts end its run in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Cancelled, Fail
from agent_kernel.agents.models import Answer, Delta, Request
from tests.agents.test_interrupts import interrupt, soon

LATE_S = 1.0  # that a run may take beyond its limit


class Stubborn:
    """A model that answers, then does not; asked again after that, it answers again."""

    name = "stubborn"
    is_free = True

    def __init__(self, holds_on: Callable[[Stubborn], AsyncIterator[object]], turns: int = 1) -> None:
        self.holds_on, self.turns = holds_on, turns
        self.has_held = False
        self.let_go = threading.Event()
        self.ended = threading.Event()

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        if request.turn < self.turns:
            yield Answer(code=f"x = {request.turn + 1}")
            return
        if not self.has_held:
            self.has_held = True
            try:
                async for _ in self.holds_on(self):
                    yield Delta("text", "late")
            finally:
                self.ended.set()
        yield Answer(code="task.success(x)")


async def blocks(model: Stubborn) -> AsyncIterator[object]:
    while not model.let_go.is_set():
        time.sleep(0.05)  # noqa: ASYNC251 - it is what a model must not do
    yield 1


async def blocks_in_c(model: Stubborn) -> AsyncIterator[object]:
    model.let_go.wait(60)
    yield 1


async def blocks_in_a_finalizer(model: Stubborn) -> AsyncIterator[object]:
    class Slow:
        def __del__(self) -> None:
            model.let_go.wait(60)

    Slow()
    yield 1


async def blocks_a_task(model: Stubborn) -> AsyncIterator[object]:
    async def work() -> None:
        model.let_go.wait(60)

    await asyncio.gather(work(), asyncio.sleep(0))
    yield 1


async def blocks_a_thread(model: Stubborn) -> AsyncIterator[object]:
    await asyncio.to_thread(model.let_go.wait, 60)
    yield 1


async def swallows(model: Stubborn) -> AsyncIterator[object]:
    while not model.let_go.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
    yield 1


async def shields(model: Stubborn) -> AsyncIterator[object]:
    async def work() -> None:
        await asyncio.to_thread(model.let_go.wait, 60)

    await asyncio.shield(asyncio.ensure_future(work()))
    yield 1


async def talks_on(model: Stubborn) -> AsyncIterator[object]:
    while not model.let_go.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        yield 1


async def spins(model: Stubborn) -> AsyncIterator[object]:
    while not model.let_go.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    yield 1


async def blocks_and_swallows(model: Stubborn) -> AsyncIterator[object]:
    while not model.let_go.is_set():
        with suppress(BaseException):
            time.sleep(0.05)  # noqa: ASYNC251 - it is what a model must not do
    yield 1


HOLDS = [
    blocks,
    blocks_in_c,
    blocks_in_a_finalizer,
    blocks_a_task,
    blocks_a_thread,
    swallows,
    shields,
    talks_on,
    spins,
    blocks_and_swallows,
]


@pytest.fixture(autouse=True, scope="module")
def what_the_first_run_imports() -> None:
    """Load it now: how long a limit takes to end a run is measured, and not how long a process takes to load agents."""
    with ak.Versioned(ak.open("memory:")) as state:
        ak.Agent(model=ak.ScriptedModel(["x = 1", "task.success(1)"]), state=state)("Go on")


@pytest.fixture(params=HOLDS, ids=lambda one: one.__name__)
def model(request: pytest.FixtureRequest) -> Iterator[Stubborn]:
    model = Stubborn(request.param)
    yield model
    model.let_go.set()
    assert not model.has_held or model.ended.wait(10)


def seconds_of(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def run_of(model: Stubborn, state: ak.Versioned, limits: ak.Limits) -> ak.Run[object]:
    return ak.Agent(model=model, limits=limits, state=state).start("Go on")


@pytest.mark.sampled
@pytest.mark.parametrize(("limit", "limits"), [("run_s", ak.Limits(run_s=0.3)), ("model_s", ak.Limits(model_s=0.2))])
def test_a_limit_ends_a_run_in_time_keeps_its_steps_and_lets_it_go_on(
    model: Stubborn, limit: str, limits: ak.Limits
) -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = run_of(model, state, limits)

        def fails() -> None:
            with pytest.raises(ak.TaskFailedError):
                run.result()

        assert seconds_of(fails) < (getattr(limits, limit) or 0) + LATE_S
        assert (run.outcome.limit, state["x"]) == (limit, 1)
        assert run.outcome.reason.count("\n") == 0
        assert isinstance(run.events[-1], Fail)
        assert run.resume().result() == 1


@pytest.mark.sampled
def test_an_interrupt_ends_a_run_in_time(model: Stubborn) -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = run_of(model, state, ak.Limits())
        soon(interrupt)

        def stops() -> None:
            with pytest.raises(ak.TaskInterruptedError):
                run.result()

        assert seconds_of(stops) < 0.3 + LATE_S
        assert isinstance(run.events[-1], Cancelled)
        assert run.resume().result() == 1


@pytest.mark.sampled
def test_another_thread_ends_a_run_in_time(model: Stubborn) -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = run_of(model, state, ak.Limits())
        soon(lambda: run.cancel("enough"))

        def stops() -> None:
            with pytest.raises(ak.TaskInterruptedError, match="enough"):
                run.result()

        assert seconds_of(stops) < 0.3 + LATE_S
        assert run.resume().result() == 1


@pytest.mark.sampled
def test_a_limit_ends_an_awaited_run_in_time(model: Stubborn) -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        run = run_of(model, state, ak.Limits(run_s=0.3))

        async def main() -> None:
            with pytest.raises(ak.TaskFailedError):
                await run

        assert seconds_of(lambda: asyncio.run(main())) < 0.3 + LATE_S
        assert run.outcome.limit == "run_s"


@pytest.mark.sampled
def test_a_model_that_blocks_holds_no_other_model(model: Stubborn) -> None:
    with ak.Versioned(ak.open("memory:")) as state:
        held = threading.Thread(target=lambda: ended(run_of(model, state, ak.Limits(run_s=3))))
        held.start()
        while not model.has_held:
            time.sleep(0.01)
        other = ak.Agent(model=ak.ScriptedModel(["task.success(2)"]), state={})
        assert seconds_of(lambda: other("Two")) < LATE_S
        model.let_go.set()
        held.join(20)


def ended(run: ak.Run[object]) -> str:
    with suppress(ak.TaskFailedError):
        run.result()
    return run.status


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
def test_whatever_a_model_raises_is_an_error_of_the_model(kind: type[BaseException]) -> None:
    class Raises:
        name = "raises"
        is_free = True

        async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
            raise kind("over")
            yield

    state: dict[str, object] = {}
    run = ak.Agent(model=Raises(), state=state).start("Go")
    with pytest.raises(ak.TaskFailedError, match=rf"raises: {kind.__name__}: over"):
        run.result()
    assert ak.Agent(model=ak.ScriptedModel(["task.success(1)"]), state=state)("And on") == 1


def test_what_blocked_does_nothing_any_more_once_its_call_returns() -> None:
    wrote: list[int] = []

    async def blocks_then_writes(model: Stubborn) -> AsyncIterator[object]:
        model.let_go.wait(60)
        wrote.append(1)
        yield 1

    model = Stubborn(blocks_then_writes)
    with ak.Versioned(ak.open("memory:")) as state:
        run = run_of(model, state, ak.Limits(run_s=0.3))
        with pytest.raises(ak.TaskFailedError):
            run.result()
        events = len(run.events)
        time.sleep(0.6)  # it is told a moment after the run has ended
        model.let_go.set()
        assert model.ended.wait(10)
        assert (wrote, len(list(run.event_store.of(run.id)))) == ([], events)


def test_loops_that_were_left_end_with_what_ran_there() -> None:
    def loops() -> int:
        return sum(thread.name == "agent-kernel models" for thread in threading.enumerate())

    before = loops()
    for _ in range(3):
        model = Stubborn(blocks_in_c)
        with ak.Versioned(ak.open("memory:")) as state:
            assert ended(run_of(model, state, ak.Limits(run_s=0.3))) == "failed"
            assert ended(ak.Agent(model=ak.ScriptedModel(["task.success(2)"]), state={}).start("Two")) == "completed"
        model.let_go.set()
        assert model.ended.wait(10)
    end = time.monotonic() + 10
    while loops() > max(before, 1) and time.monotonic() < end:
        time.sleep(0.05)
    assert loops() <= max(before, 1)
