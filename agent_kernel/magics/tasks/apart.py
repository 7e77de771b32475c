"""Let a run go on while no cell runs, as if the cell that gave the task ran on.

A front end shows what is published under the cell whose request it answers, also when that was answered long ago: so the
request is kept as long as the run may go on. The hooks around cells are told of a cell, so that nothing else has its turn
meanwhile, and an interrupt reaches the run, which a kernel that rests does not heed.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["Apart", "Request"]

_SOURCE = "%agent resume"  # to the hooks it is a cell of this line, which is no commit of its own

Request = dict[str, Any]
_NOBODYS: Request = {"header": {}, "metadata": {}}


class Apart:
    """The requests of the cells in which runs were driven last."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._requests: dict[str, Request] = {}
        self._counts: dict[str, int] = {}  # what IPython had counted to in the middle of that cell

    def remember(self, run: str) -> None:
        """The run is driven in the cell that runs now."""
        request = self._kernel_request()
        if request:
            self._requests[run] = request
            self._counts[run] = self._shell.execution_count

    def can_show(self, run: str) -> bool:
        """Whether what the run publishes finds its cell.

        Not after a restart, as the request is not known any more; and VS Code listens to a request only until it is
        answered.
        """
        request = self._requests.get(run)
        return request is not None and not _cell_of(request).startswith("vscode-")

    @contextmanager
    def under_its_cell(self, run: str) -> Generator[None]:
        """What is published here stands under the run's cell, and nowhere where no cell began it.

        On the main thread, while no cell runs.
        """
        count = self._shell.execution_count
        with self.beneath_its_cell(run) as request:
            self._shell.execution_count = self._counts.get(run, count)
            try:
                with self._as_a_cell(_cell_of(request)):
                    yield
            finally:
                self._shell.execution_count = count

    @contextmanager
    def beneath_its_cell(self, run: str) -> Generator[Request]:
        """The same, without telling the hooks of a cell: for what runs a cell itself."""
        kernel = self._shell.kernel
        before, request = self._kernel_request(), self._requests.get(run, _NOBODYS)
        kernel.set_parent([], request)
        try:
            with _interruptible():
                yield request
        finally:
            kernel.set_parent([], before)

    def _kernel_request(self) -> Request:
        kernel = getattr(self._shell, "kernel", None)
        return cast("Request", kernel.get_parent() or {}) if kernel is not None else {}

    @contextmanager
    def _as_a_cell(self, cell: str) -> Generator[None]:
        from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

        # IPython gives these no types.
        info = ExecutionInfo(_SOURCE, store_history=True, silent=False, shell_futures=True, cell_id=cell)  # type: ignore[no-untyped-call]
        result = ExecutionResult(info)  # type: ignore[no-untyped-call]
        self._shell.events.trigger("pre_run_cell", info)
        try:
            yield
        except BaseException as error:
            result.error_in_exec = error
            raise
        finally:
            self._shell.events.trigger("post_run_cell", result)


def _cell_of(request: Request) -> str:
    metadata = cast("Request", request.get("metadata") or {})
    return str(metadata.get("cellId") or "")


@contextmanager
def _interruptible() -> Generator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
