"""The thread on which models are asked, so that the caller's own thread can run code and be interrupted.

An agent's code has to run where the notebook's code runs, and an interrupt reaches only that thread. So what waits for
the network is on an event loop of its own, and hands its pieces over as futures: the caller may wait for them, or await
them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agent_kernel.errors import ModelError
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from agent_kernel.agents.models import Answer, Delta, Model, Request

__all__ = ["Stream", "later", "model_loop"]

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner: int = 0


def model_loop() -> asyncio.AbstractEventLoop:
    """The event loop, which starts with the first model that is asked; a forked child has its own."""
    global _loop, _owner
    import os

    with uninterrupted(), _lock:  # a loop that never runs would answer nobody
        if _loop is None or _owner != os.getpid():
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="agent-kernel models", daemon=True).start()
        return _loop


def later(seconds: float) -> Future[None]:
    """A future that is done after so many seconds."""
    return asyncio.run_coroutine_threadsafe(asyncio.sleep(seconds), model_loop())


class Stream:
    """One answer of a model, piece by piece."""

    def __init__(self, model: Model, request: Request) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Delta | Answer | BaseException | None] = deque()
        self._waiting: Future[Delta | Answer | None] | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._read(model, request), model_loop())

    def next(self) -> Future[Delta | Answer | None]:
        """The next piece; None: there are no more. Its error is the model's.

        Cancelling it cancels nothing but the waiting: `cancel` ends the request.
        """
        future: Future[Delta | Answer | None] = Future()
        with self._lock:
            if self._pieces:
                _settle(future, self._pieces.popleft())
            else:
                self._waiting = future
        return future

    def cancel(self) -> None:
        """Ask no further: the connection is closed, and no more pieces come."""
        self._task.cancel()

    def _put(self, piece: Delta | Answer | BaseException | None) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                self._pieces.append(piece)
                return
        if waiting.set_running_or_notify_cancel():
            _settle(waiting, piece)

    async def _read(self, model: Model, request: Request) -> None:
        try:
            async with asyncio.timeout(request.timeout_s):
                # Models are told to give an iterator; those that are generators are closed at once.
                stream: Any = model.stream(request)
                async with aclosing(stream) as pieces:
                    async for piece in pieces:
                        self._put(piece)
        except TimeoutError:
            self._put(ModelError(model.name, f"it did not answer within {request.timeout_s:g} s", timed_out=True))
        except asyncio.CancelledError:
            self._put(None)
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the run, which waits for it
            self._put(error if isinstance(error, ModelError) else _model_error(model, error))
        else:
            self._put(None)


def _model_error(model: Model, error: Exception) -> ModelError:
    """An error that nobody foresaw, as the one that runs know; its own text, and where it came from."""
    failed = ModelError(model.name, f"{type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


def _settle(future: Future[Delta | Answer | None], piece: Delta | Answer | BaseException | None) -> None:
    if isinstance(piece, BaseException):
        future.set_exception(piece)
    else:
        future.set_result(piece)


def submit(coroutine: Coroutine[object, object, object]) -> Future[object]:
    """Run a coroutine on the models' loop."""
    return asyncio.run_coroutine_threadsafe(coroutine, model_loop())
