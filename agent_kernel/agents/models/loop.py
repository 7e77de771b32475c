"""The threads on which models are asked, so that the caller's own thread can run code, be interrupted, and stop waiting.

An agent's code has to run where the notebook's code runs, and an interrupt reaches only that thread. So what waits for
the network is on an event loop of its own, and hands its pieces over as futures: the caller may wait for them, or await
them.

A model is foreign code: it may block its loop, or catch its cancellation. So nothing that a run waits for depends on that
loop. A second loop, the clock, runs no foreign code: it ends each answer at its time, and then the model is only told. What
it gives later goes nowhere, and a loop that does not turn is left: whoever asks next has a new one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final

from agent_kernel.agents.limits import put_into
from agent_kernel.errors import ModelError
from agent_kernel.session.interrupts import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from agent_kernel.agents.models import Answer, Delta, Model, Request

__all__ = ["Stream", "later"]

logger = logging.getLogger(__name__)

_TURN_S: Final = 0.25  # in which a loop turns that nothing blocks
_AGAIN_S: Final = 1.0
_MOST_CANCELS: Final = 600  # times that a model is told to end

_lock = threading.Lock()


class Abandoned(BaseException):
    """Raised in a model that blocks its loop, where nobody waits for its answer any more."""


class _LoopThread:
    """An event loop on a daemon thread of its own. It turns on whatever is raised there."""

    def __init__(self, name: str) -> None:
        self.owner = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.streams: set[Stream] = set()  # whose answers somebody waits for
        self.thread = threading.Thread(target=self._run, name=f"agent-kernel {name}", daemon=True)
        self.thread.start()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def _run(self) -> None:
        has_ended = False
        while not has_ended:
            try:
                self.loop.run_forever()
                has_ended = True
            except BaseException as error:  # noqa: BLE001 - a task of foreign code that raises SystemExit ends that task
                logger.debug("raised in the loop of models: %s", type(error).__name__)
        self.loop.close()

    def turns(self) -> bool:
        """Whether nothing blocks it."""
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        return turned.wait(_TURN_S)

    def leave(self) -> None:
        """Nothing more is asked on it. It ends as soon as nothing runs there."""
        self.start(_stop_when_idle())


async def _stop_when_idle() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    asyncio.get_running_loop().stop()


_threads: dict[str, _LoopThread] = {}


def _clock() -> _LoopThread:
    """The loop that runs nothing but this module."""
    with uninterrupted(), _lock:
        return _find_loop("clock") or _begin_loop("clock")


def _models() -> _LoopThread:
    """The loop on which models are asked: a new one where a model blocks the last."""
    with uninterrupted(), _lock:  # a loop that never runs would answer nobody
        found = _find_loop("models")
        if found is not None and found.turns():
            return found
        if found is not None:
            found.leave()
        return _begin_loop("models")


def _find_loop(name: str) -> _LoopThread | None:
    """The loop of this process, if it has one: a forked child has its own."""
    found = _threads.get(name)
    return found if found is not None and found.owner == os.getpid() else None


def _begin_loop(name: str) -> _LoopThread:
    _threads[name] = found = _LoopThread(name)
    return found


def later(seconds: float) -> Future[None]:
    """A future that is done after so many seconds."""
    return _clock().start(asyncio.sleep(seconds))


class Stream:
    """One answer of a model, piece by piece, until it is whole, its time is up, or nobody wants it any more."""

    def __init__(self, model: Model, request: Request) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Delta | Answer | BaseException | None] = deque()
        self._waiting: Future[Delta | Answer | None] | None = None
        self._is_over = False  # the last piece is there, and none is taken any more
        self._task: asyncio.Task[Any] | None = None
        self._limit: Future[None] | None = None
        self._home = _models()
        self._home.streams.add(self)
        self._name = model.name
        self._reading = self._home.start(self._read(model, request))
        if request.timeout_s is not None:
            self._limit = _clock().start(self._expire(request.timeout_s))

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
        """Ask no further: no more pieces come, and the connection is closed."""
        if self._limit is not None:
            self._limit.cancel()
        self._end(None)

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._end(ModelError(self._name, f"it did not answer within {seconds:g} s", timed_out=True))

    def _end(self, last: BaseException | None) -> None:
        """Take this for the last piece, from whatever thread, and have the model told."""
        if self._put(last) and not self._reading.done():
            _clock().start(self._request_end())

    def _put(self, piece: Delta | Answer | BaseException | None) -> bool:
        """Give the piece to whoever waits for it; returns whether it is taken."""
        with self._lock:
            if self._is_over:
                return False
            if piece is None or isinstance(piece, BaseException):
                self._is_over = True
                self._home.streams.discard(self)
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                self._pieces.append(piece)
                return True
        if waiting.set_running_or_notify_cancel():
            _settle(waiting, piece)
        return True

    async def _read(self, model: Model, request: Request) -> None:
        self._task = asyncio.current_task()
        try:
            # Models are told to give an iterator; those that are generators are closed at once.
            stream: Any = model.stream(request)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    if not self._put(piece):
                        break
        except asyncio.CancelledError:
            self._put(None)
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the run, which waits for it, also SystemExit
            self._put(error if isinstance(error, ModelError) else _model_error(self._name, error))
        else:
            self._put(None)
        finally:
            if self._limit is not None:
                self._limit.cancel()

    async def _request_end(self) -> None:
        """Cancel the request, on the clock; again, where the model catches that, and harder, where it blocks its loop."""
        self._reading.cancel()
        for _ in range(_MOST_CANCELS):
            has_turned = threading.Event()
            with suppress(RuntimeError):  # the loop has ended, and all that ran there
                self._home.loop.call_soon_threadsafe(has_turned.set)
            await asyncio.sleep(_TURN_S)
            if self._task is None or self._task.done():
                if has_turned.is_set() or self._task is not None:
                    return
            elif has_turned.is_set():
                with suppress(RuntimeError):
                    self._home.loop.call_soon_threadsafe(self._task.cancel)
            elif not self._home.streams or asyncio.current_task(self._home.loop) is self._task:
                # It meets this when its call returns: nothing that it would have done then is done.
                put_into(self._home.thread, Abandoned)
            await asyncio.sleep(_AGAIN_S - _TURN_S)
        logger.warning("a model does not end although nobody waits for its answer")


def _model_error(name: str, error: BaseException) -> ModelError:
    """An error that nobody foresaw, as the one that runs know; its own text, and where it came from."""
    kind = type(error).__name__
    try:
        text = f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - an error of the model's own class says of itself what it likes
        text = kind
    failed = ModelError(name, text)
    failed.__cause__ = error
    return failed


def _settle(future: Future[Delta | Answer | None], piece: Delta | Answer | BaseException | None) -> None:
    if isinstance(piece, BaseException):
        future.set_exception(piece)
    else:
        future.set_result(piece)
