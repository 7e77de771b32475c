"""Version control for a live notebook's memory.

Public names load when they are first used: a bare `import agent_kernel` costs a few milliseconds and pulls in neither
IPython nor any data library, so that a program pays only for what it asks for.

    >>> import agent_kernel as ak
    >>> repo = ak.open("memory:")
    >>> state = ak.Versioned(repo)
    >>> state["answer"] = 42
    >>> _ = state.commit("the answer")
    >>> repo.at("HEAD")["answer"]
    42
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from agent_kernel.agents import Agent as Agent
    from agent_kernel.agents import Candidate as Candidate
    from agent_kernel.agents import Events as Events
    from agent_kernel.agents import FunctionModel as FunctionModel
    from agent_kernel.agents import Limits as Limits
    from agent_kernel.agents import Member as Member
    from agent_kernel.agents import Outcome as Outcome
    from agent_kernel.agents import Race as Race
    from agent_kernel.agents import Run as Run
    from agent_kernel.agents import ScriptedModel as ScriptedModel
    from agent_kernel.agents import Task as Task
    from agent_kernel.agents import Turn as Turn
    from agent_kernel.agents import here as here
    from agent_kernel.agents import pprint_events as pprint_events
    from agent_kernel.agents import race as race
    from agent_kernel.agents import view as view
    from agent_kernel.agents.listing import events as events
    from agent_kernel.agents.namespace import Namespace as Namespace
    from agent_kernel.agents.namespace import Ran as Ran
    from agent_kernel.agents.preview import Preview as Preview
    from agent_kernel.agents.preview import preview as preview
    from agent_kernel.errors import AgentError as AgentError
    from agent_kernel.errors import AgentKernelError as AgentKernelError
    from agent_kernel.errors import AmbiguousRefError as AmbiguousRefError
    from agent_kernel.errors import BranchInUseError as BranchInUseError
    from agent_kernel.errors import BranchMovedError as BranchMovedError
    from agent_kernel.errors import BundleError as BundleError
    from agent_kernel.errors import CellThreadError as CellThreadError
    from agent_kernel.errors import DamagedObjectError as DamagedObjectError
    from agent_kernel.errors import FileNotWrittenError as FileNotWrittenError
    from agent_kernel.errors import InvalidRecordError as InvalidRecordError
    from agent_kernel.errors import InvalidRefNameError as InvalidRefNameError
    from agent_kernel.errors import KernelStartError as KernelStartError
    from agent_kernel.errors import LoadError as LoadError
    from agent_kernel.errors import LockHeldError as LockHeldError
    from agent_kernel.errors import LostValueError as LostValueError
    from agent_kernel.errors import MergeChoiceError as MergeChoiceError
    from agent_kernel.errors import MergeCommitError as MergeCommitError
    from agent_kernel.errors import MergeConflictError as MergeConflictError
    from agent_kernel.errors import MissingCodeError as MissingCodeError
    from agent_kernel.errors import MissingExtraError as MissingExtraError
    from agent_kernel.errors import ModelError as ModelError
    from agent_kernel.errors import MoveNotMadeError as MoveNotMadeError
    from agent_kernel.errors import NameNotFoundError as NameNotFoundError
    from agent_kernel.errors import NewerFormatError as NewerFormatError
    from agent_kernel.errors import NewerRecordError as NewerRecordError
    from agent_kernel.errors import NoModelError as NoModelError
    from agent_kernel.errors import NotAStoreError as NotAStoreError
    from agent_kernel.errors import NotBoundError as NotBoundError
    from agent_kernel.errors import NotFoundError as NotFoundError
    from agent_kernel.errors import NothingToUndoError as NothingToUndoError
    from agent_kernel.errors import PreviewNotAcceptedError as PreviewNotAcceptedError
    from agent_kernel.errors import PreviewRefusedError as PreviewRefusedError
    from agent_kernel.errors import RaceError as RaceError
    from agent_kernel.errors import RecordAccessError as RecordAccessError
    from agent_kernel.errors import RecordError as RecordError
    from agent_kernel.errors import RecordNotFoundError as RecordNotFoundError
    from agent_kernel.errors import RecordStateError as RecordStateError
    from agent_kernel.errors import RefExistsError as RefExistsError
    from agent_kernel.errors import RefNotFoundError as RefNotFoundError
    from agent_kernel.errors import RequestError as RequestError
    from agent_kernel.errors import RunBusyError as RunBusyError
    from agent_kernel.errors import RunElsewhereError as RunElsewhereError
    from agent_kernel.errors import RunNotFoundError as RunNotFoundError
    from agent_kernel.errors import RunStateError as RunStateError
    from agent_kernel.errors import SealedRecordError as SealedRecordError
    from agent_kernel.errors import SessionClosedError as SessionClosedError
    from agent_kernel.errors import SigningKeyError as SigningKeyError
    from agent_kernel.errors import StaleRecordError as StaleRecordError
    from agent_kernel.errors import StepBusyError as StepBusyError
    from agent_kernel.errors import StoreError as StoreError
    from agent_kernel.errors import StoreFullError as StoreFullError
    from agent_kernel.errors import StoreReadOnlyError as StoreReadOnlyError
    from agent_kernel.errors import StoreUnavailableError as StoreUnavailableError
    from agent_kernel.errors import TaskClarifyError as TaskClarifyError
    from agent_kernel.errors import TaskFailedError as TaskFailedError
    from agent_kernel.errors import TaskInterruptedError as TaskInterruptedError
    from agent_kernel.errors import TaskPendingError as TaskPendingError
    from agent_kernel.errors import TooLargeError as TooLargeError
    from agent_kernel.errors import TransactionConflictError as TransactionConflictError
    from agent_kernel.errors import TransitionError as TransitionError
    from agent_kernel.errors import UnknownPriceError as UnknownPriceError
    from agent_kernel.errors import UnmergedBranchError as UnmergedBranchError
    from agent_kernel.errors import UnrelatedHistoriesError as UnrelatedHistoriesError
    from agent_kernel.errors import UntrustedStoreError as UntrustedStoreError
    from agent_kernel.errors import UntrustedValueError as UntrustedValueError
    from agent_kernel.errors import WithinStepError as WithinStepError
    from agent_kernel.magics.extension import LiveNotebook
    from agent_kernel.magics.shell import Shell
    from agent_kernel.panels import Panels
    from agent_kernel.records import Record as Record
    from agent_kernel.records import Records as Records
    from agent_kernel.records import migration as migration
    from agent_kernel.repository import Author as Author
    from agent_kernel.repository import Commit as Commit
    from agent_kernel.session import Live as Live
    from agent_kernel.session import Repository as Repository
    from agent_kernel.session import Session as Session
    from agent_kernel.session import Snapshot as Snapshot
    from agent_kernel.session import Versioned as Versioned
    from agent_kernel.session import bind as bind
    from agent_kernel.session import open as open

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentError",
    "AgentKernelError",
    "AmbiguousRefError",
    "Author",
    "BranchInUseError",
    "BranchMovedError",
    "BundleError",
    "Candidate",
    "CellThreadError",
    "Commit",
    "DamagedObjectError",
    "Events",
    "FileNotWrittenError",
    "FunctionModel",
    "InvalidRecordError",
    "InvalidRefNameError",
    "KernelStartError",
    "Limits",
    "Live",
    "LoadError",
    "LockHeldError",
    "LostValueError",
    "Member",
    "MergeChoiceError",
    "MergeCommitError",
    "MergeConflictError",
    "MissingCodeError",
    "MissingExtraError",
    "ModelError",
    "MoveNotMadeError",
    "NameNotFoundError",
    "Namespace",
    "NewerFormatError",
    "NewerRecordError",
    "NoModelError",
    "NotAStoreError",
    "NotBoundError",
    "NotFoundError",
    "NothingToUndoError",
    "Outcome",
    "Preview",
    "PreviewNotAcceptedError",
    "PreviewRefusedError",
    "Race",
    "RaceError",
    "Ran",
    "Record",
    "RecordAccessError",
    "RecordError",
    "RecordNotFoundError",
    "RecordStateError",
    "Records",
    "RefExistsError",
    "RefNotFoundError",
    "Repository",
    "RequestError",
    "Run",
    "RunBusyError",
    "RunElsewhereError",
    "RunNotFoundError",
    "RunStateError",
    "ScriptedModel",
    "SealedRecordError",
    "Session",
    "SessionClosedError",
    "SigningKeyError",
    "Snapshot",
    "StaleRecordError",
    "StepBusyError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "Task",
    "TaskClarifyError",
    "TaskFailedError",
    "TaskInterruptedError",
    "TaskPendingError",
    "TooLargeError",
    "TransactionConflictError",
    "TransitionError",
    "Turn",
    "UnknownPriceError",
    "UnmergedBranchError",
    "UnrelatedHistoriesError",
    "UntrustedStoreError",
    "UntrustedValueError",
    "Versioned",
    "WithinStepError",
    "bind",
    "events",
    "here",
    "migration",
    "open",
    "pprint_events",
    "preview",
    "race",
    "view",
]

_SESSION = ("Live", "Repository", "Session", "Snapshot", "Versioned", "bind", "open")
_HOME = (
    dict.fromkeys(__all__, "agent_kernel.agents")  # but for those that follow
    | {name: "agent_kernel.errors" for name in __all__ if name.endswith("Error")}
    | dict.fromkeys(("Author", "Commit"), "agent_kernel.repository")
    | dict.fromkeys(_SESSION, "agent_kernel.session")
    | dict.fromkeys(("Record", "Records", "migration"), "agent_kernel.records")
    | {"events": "agent_kernel.agents.listing"}  # `agents.events` is the module of their classes
    | dict.fromkeys(("Namespace", "Ran"), "agent_kernel.agents.namespace")
    | dict.fromkeys(("Preview", "preview"), "agent_kernel.agents.preview")  # whose name is the function's too
)


# Not `import_lazily`, which would be one more module to load for who only imports the package.
def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access skips this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make every cell of this IPython a commit (`%load_ext agent_kernel`)."""
    from agent_kernel import magics

    magics.load_ipython_extension(shell, _panels)


def _panels(shell: Shell, notebook: LiveNotebook) -> Panels:
    # Interfaces do not import each other, so they are joined here.
    from agent_kernel.panels import Panels

    return Panels(shell, notebook)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Leave the variables as they are, and the store closed (`%unload_ext agent_kernel`)."""
    from agent_kernel import magics

    magics.unload_ipython_extension(shell)


def _jupyter_server_extension_points() -> list[dict[str, object]]:  # pyright: ignore[reportUnusedFunction]
    """What jupyter-server loads: the extension with which histories can be looked at without a kernel."""
    from agent_kernel.server import AgentKernelServer

    return [{"module": "agent_kernel", "app": AgentKernelServer}]
