"""Work for the main thread, given to it by the thread that speaks with the client.

Code runs on the main thread, where an interrupt reaches it even while it waits; and a store is used by one thread alone.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Hands"]

T = TypeVar("T")


class Hands:
    """The main thread, at work one thing after the other.

    Args:
        stop: interrupts what runs; called from the other thread when a client takes its request back.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._current: Future[Any] | None = None
        self._failed: BaseException | None = None

    async def do(self, work: Callable[[], T]) -> T:
        """Have it done, and wait for what comes of it; where the waiting is cancelled, it is interrupted."""
        future: Future[T] = Future()
        self._jobs.put((future, work))
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if not future.cancel() and self._current is future:
                self._stop()
            raise

    def serve(self, speaks: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work until whoever speaks with the client is done. Called on the main thread; an interrupt ends it.

        Raises:
            Exception: what the other thread failed with.
        """
        thread = threading.Thread(target=self._speak, args=(speaks,), name="agent-kernel mcp", daemon=True)
        thread.start()
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            self._current = future
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - it belongs to who asked
                future.set_exception(error)
            finally:
                self._current = None
        if self._failed is not None:
            raise self._failed

    def _speak(self, speaks: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            asyncio.run(speaks())
        except BaseException as error:  # noqa: BLE001 - it is raised on the main thread
            self._failed = error
        finally:
            self._jobs.put(None)
