"""The two ways to drive a run: blocking, or in an event loop. The course is the same; only the waiting differs."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent_kernel.agents.going import Wait

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event
    from agent_kernel.agents.going import Going
    from agent_kernel.agents.models import Delta

__all__ = ["drive", "drive_async", "drive_together"]

_NAP_S = 0.2


def drive(course: Going, first: BaseException | None = None) -> Iterator[Event | Delta]:
    """Go on until the run ends or waits for a person. An interrupt while waiting stops the run, which then ends so.

    Args:
        first: is raised in the course, where it stands.
    """
    item = _advance(course.send, None) if first is None else _advance(course.throw, first)
    while item is not None:
        if isinstance(item, Wait):
            try:
                found = _waited(item.future)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the course decides
                item = _advance(course.throw, error)
            else:
                item = _advance(course.send, found)
        else:
            yield item
            item = _advance(course.send, None)


async def drive_async(course: Going) -> AsyncIterator[Event | Delta]:
    """The same in an event loop. Code still runs on this thread, and blocks the loop as it does in a cell.

    Where the task is cancelled the run is stopped, so that it can be resumed, and the cancellation goes on.
    """
    item = _advance(course.send, None)
    cancelled: asyncio.CancelledError | None = None
    while item is not None:
        if isinstance(item, Wait):
            try:
                found: Any = await asyncio.wrap_future(item.future)
            except asyncio.CancelledError as error:
                cancelled = error
                item = _advance(course.throw, KeyboardInterrupt())
            except BaseException as error:  # noqa: BLE001 - whatever it is, the course decides
                item = _advance(course.throw, error)
            else:
                with _interruptible():
                    item = _advance(course.send, found)
        else:
            yield item
            with _interruptible():
                item = _advance(course.send, None)
    if cancelled is not None:
        raise cancelled


def _waited(future: Future[Any]) -> Any:
    """What the future gives. It wakes up now and then, for a signal that another thread took wakes nobody else."""
    while True:
        try:
            return future.result(timeout=_NAP_S)
        except TimeoutError:
            if future.done():
                return future.result()


def drive_together(courses: Iterable[Going], at_once: int) -> None:
    """Drive several runs to their ends on this thread: while some wait for their models, one goes on.

    An interrupt stops all that were begun.
    """
    left = iter(courses)
    waiting: dict[Future[Any], Going] = {}
    try:
        while True:
            while len(waiting) < max(1, at_once) and (course := next(left, None)) is not None:
                _until_wait(course, _advance(course.send, None), waiting)
            if not waiting:
                return
            done, _ = wait(waiting, _NAP_S, FIRST_COMPLETED)  # waking up now and then, as `_waited` does
            for future in done:
                course = waiting.pop(future)
                error = future.exception()
                item = _advance(course.throw, error) if error is not None else _advance(course.send, future.result())
                _until_wait(course, item, waiting)
    except KeyboardInterrupt:
        for course in waiting.values():
            _until_wait(course, _advance(course.throw, KeyboardInterrupt()), {})
        raise


def _until_wait(course: Going, item: object, waiting: dict[Future[Any], Going]) -> None:
    while item is not None and not isinstance(item, Wait):
        item = _advance(course.send, None)
    if isinstance(item, Wait):
        waiting[item.future] = course


def _advance(step: Any, value: Any) -> Any:
    try:
        return step(value)
    except StopIteration:
        return None


@contextmanager
def _interruptible() -> Generator[None]:
    """Let an interrupt reach code that runs in a coroutine: event loops take the signal for themselves."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
