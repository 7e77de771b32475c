"""Every error that the package raises on purpose, in one tree.

Subclass for what a handler would do differently, not for each message. An error names the thing, says what is
known, and offers the next step; it survives pickling, because errors come back from worker processes. Its module is
the layer that raises it, and its name is `agent_kernel.errors.<its name>` all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.errors.base import (
    AgentKernelError,
    AmbiguousRefError,
    BranchInUseError,
    BranchMovedError,
    DamagedObjectError,
    InvalidRefNameError,
    LoadError,
    LostValueError,
    MergeChoiceError,
    MergeCommitError,
    MergeConflictError,
    MissingCodeError,
    MissingExtraError,
    NameNotFoundError,
    NewerFormatError,
    NotAStoreError,
    NotBoundError,
    NotFoundError,
    NothingToUndoError,
    RefExistsError,
    RefNotFoundError,
    RequestError,
    SessionClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    TooLargeError,
    UnmergedBranchError,
    UnrelatedHistoriesError,
    UntrustedStoreError,
)
from agent_kernel.errors.base import _bare as _bare  # pyright: ignore[reportPrivateUsage]  # its pickled name

if TYPE_CHECKING:
    from agent_kernel.errors.agents import (
        AgentError,
        CellThreadError,
        ModelError,
        MoveNotMadeError,
        NoModelError,
        PreviewNotAcceptedError,
        PreviewRefusedError,
        RaceError,
        RunBusyError,
        RunElsewhereError,
        RunNotFoundError,
        RunStateError,
        StepBusyError,
        TaskClarifyError,
        TaskFailedError,
        TaskInterruptedError,
        TaskPendingError,
        UnknownPriceError,
        WithinStepError,
    )

__all__ = [
    "AgentError",
    "AgentKernelError",
    "AmbiguousRefError",
    "BranchInUseError",
    "BranchMovedError",
    "CellThreadError",
    "DamagedObjectError",
    "InvalidRefNameError",
    "LoadError",
    "LostValueError",
    "MergeChoiceError",
    "MergeCommitError",
    "MergeConflictError",
    "MissingCodeError",
    "MissingExtraError",
    "ModelError",
    "MoveNotMadeError",
    "NameNotFoundError",
    "NewerFormatError",
    "NoModelError",
    "NotAStoreError",
    "NotBoundError",
    "NotFoundError",
    "NothingToUndoError",
    "PreviewNotAcceptedError",
    "PreviewRefusedError",
    "RaceError",
    "RefExistsError",
    "RefNotFoundError",
    "RequestError",
    "RunBusyError",
    "RunElsewhereError",
    "RunNotFoundError",
    "RunStateError",
    "SessionClosedError",
    "StepBusyError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "TaskClarifyError",
    "TaskFailedError",
    "TaskInterruptedError",
    "TaskPendingError",
    "TooLargeError",
    "UnknownPriceError",
    "UnmergedBranchError",
    "UnrelatedHistoriesError",
    "UntrustedStoreError",
    "WithinStepError",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_kernel.errors import agents

    value: object = getattr(agents, name)
    globals()[name] = value  # the next access skips this function
    return value
