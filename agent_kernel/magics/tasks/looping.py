"""Let a step await while the notebook's own event loop runs, as in a kernel it does: on a loop of its own.

A cell awaits in the kernel's loop. A step runs within a cell, so that loop is busy until the cell has ended, and a loop
cannot be run from inside itself. So the thread steps out of it for as long as the step takes. What a step leaves pending in
its loop is cancelled at its end.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["Runner", "beside"]

Runner = Callable[[Coroutine[Any, Any, object]], object]


def beside(runner: Runner) -> Runner:
    """What runs coroutines as this does, also where a loop runs already."""

    def run(coroutine: Coroutine[Any, Any, object]) -> object:
        outer = asyncio._get_running_loop()
        if outer is None:
            return runner(coroutine)
        with _stepped_out(outer):
            loop = asyncio.new_event_loop()
            try:
                return _run(loop, coroutine)
            finally:
                _end(loop)

    return run


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, object]) -> object:
    """Run it to its end. An interrupt that comes while the loop waits is raised where the coroutine awaits."""
    raised: list[BaseException] = []
    task = loop.create_task(_driven(coroutine, raised))
    try:
        return loop.run_until_complete(task)
    except BaseException as error:
        if task.done():
            raise
        raised.append(error)
        task.cancel()
        return loop.run_until_complete(task)


async def _driven(coroutine: Coroutine[Any, Any, object], raised: list[BaseException]) -> object:
    return await _steps(coroutine, raised)


@types.coroutine
def _steps(coroutine: Coroutine[Any, Any, object], raised: list[BaseException]) -> Generator[Any, None, object]:
    """What it awaits, one after the other. Where that is cancelled for what was raised elsewhere, it meets that instead."""
    error: BaseException | None = None
    while True:
        try:
            waits = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as done:
            return done.value
        try:
            yield waits
            error = None
        except BaseException as thrown:  # noqa: BLE001 - it is thrown on
            error = raised.pop() if raised else thrown


@contextmanager
def _stepped_out(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """This thread, as if the loop that runs on it did not. There is no public way."""
    task: asyncio.Task[Any] | None = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
