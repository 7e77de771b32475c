"""Futures of any executor as those of `concurrent.futures`, which alone can be waited for together.

Executors of clusters differ in what they know. Some give futures of a kind of their own; most say of work that is on its
way that it was cancelled, and let it go on. So what became of a worker is looked up in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Protocol, TypeVar, cast

__all__ = ["AnyExecutor", "submitted"]

T = TypeVar("T")
J = TypeVar("J")


class AnyFuture(Protocol):
    """What a future has to have."""

    def add_done_callback(self, fn: Callable[..., object], /) -> object: ...
    def cancel(self) -> object: ...
    def result(self) -> object: ...


class AnyExecutor(Protocol):
    """What an executor has to have: no `map`, no `shutdown`."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> AnyFuture: ...


class _Followed(Future[T]):
    """Ends as another one does."""

    def __init__(self, of: AnyFuture) -> None:
        super().__init__()
        self._of = of
        of.add_done_callback(self._ended)

    def cancel(self) -> bool:
        self._of.cancel()
        return super().cancel()

    def _ended(self, of: AnyFuture) -> None:
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            try:
                found = of.result()
            except BaseException as error:  # noqa: BLE001 - it belongs to who asks for the result
                self.set_exception(error)
            else:
                self.set_result(found)  # type: ignore[arg-type]  # what the function returned


def submitted(executor: AnyExecutor, function: Callable[[J], T], job: J) -> Future[T]:
    """Have an executor do a job."""
    future = executor.submit(function, job)
    return cast("Future[T]", future) if isinstance(future, Future) else _Followed(future)
