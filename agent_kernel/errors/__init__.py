"""Every error that the package raises on purpose, in one tree.

Subclass for what a handler would do differently, not for each message. An error names the thing, says what is
known, and offers the next step; it survives pickling, because errors come back from worker processes. Its name is
`agent_kernel.errors.<its name>` wherever it is written. What only runs of agents and records raise loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from agent_kernel.errors.agents import (
        AgentError,
        CellThreadError,
        InvalidRecordError,
        LockHeldError,
        ModelError,
        MoveNotMadeError,
        NewerRecordError,
        NoModelError,
        PreviewNotAcceptedError,
        PreviewRefusedError,
        RaceError,
        RecordAccessError,
        RecordError,
        RecordNotFoundError,
        RecordStateError,
        RunBusyError,
        RunElsewhereError,
        RunNotFoundError,
        RunStateError,
        SealedRecordError,
        StaleRecordError,
        StepBusyError,
        TaskClarifyError,
        TaskFailedError,
        TaskInterruptedError,
        TaskPendingError,
        TransitionError,
        UnknownPriceError,
        WithinStepError,
    )

__all__ = [
    "AgentError",
    "AgentKernelError",
    "AmbiguousRefError",
    "BranchInUseError",
    "BranchMovedError",
    "BundleError",
    "CellThreadError",
    "DamagedObjectError",
    "FileNotWrittenError",
    "InvalidRecordError",
    "InvalidRefNameError",
    "KernelStartError",
    "LoadError",
    "LockHeldError",
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
    "NewerRecordError",
    "NoModelError",
    "NotAStoreError",
    "NotBoundError",
    "NotFoundError",
    "NothingToUndoError",
    "PreviewNotAcceptedError",
    "PreviewRefusedError",
    "RaceError",
    "RecordAccessError",
    "RecordError",
    "RecordNotFoundError",
    "RecordStateError",
    "RefExistsError",
    "RefNotFoundError",
    "RequestError",
    "RunBusyError",
    "RunElsewhereError",
    "RunNotFoundError",
    "RunStateError",
    "SealedRecordError",
    "SessionClosedError",
    "SigningKeyError",
    "StaleRecordError",
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
    "TransitionError",
    "UnknownPriceError",
    "UnmergedBranchError",
    "UnrelatedHistoriesError",
    "UntrustedStoreError",
    "UntrustedValueError",
    "WithinStepError",
]


# -- the root of the tree, and what every layer may raise: something is not there, or not installed


def _bare(cls: type[AgentKernelError], arguments: tuple[object, ...]) -> AgentKernelError:
    return cls.__new__(cls, *arguments)


@dataclass_transform(eq_default=False)
class AgentKernelError(Exception):
    """Catch this to catch everything the package raises on purpose.

    A subclass lists its fields as a dataclass does. It is not a dataclass, because `dataclass` compiles two functions for
    each, and twenty errors would take a tenth of the time that `%load_ext` may.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        # Stores and other processes know every error by this package, whichever file it is written in.
        if cls.__module__.startswith(f"{__name__}."):
            cls.__module__ = __name__
        fields = dict.fromkeys([*cls.__match_args__, *cls.__annotations__])
        cls.__match_args__ = tuple(fields)  # type: ignore[misc]  # mypy would have it in the body of the class

    def __init__(self, *values: object, **named: object) -> None:
        fields = self.__match_args__
        if not fields:
            super().__init__(*values, **named)
            return
        by_name = dict(zip(fields, values, strict=False))
        unknown = [*values[len(fields) :], *(name for name in named if name in by_name or name not in fields)]
        missing = [name for name in fields if name not in by_name | named and not hasattr(type(self), name)]
        if unknown or missing:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}: {unknown=}, {missing=}")
        by_name |= named
        for name in fields:
            setattr(self, name, by_name.get(name, getattr(type(self), name, None)))

    def __repr__(self) -> str:
        if not self.__match_args__:
            return super().__repr__()
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        # Exception replays positional arguments only, so an error built with keywords would not survive the way
        # back from a worker process.
        return _bare, (type(self), self.args), vars(self)


class NotFoundError(AgentKernelError, KeyError):
    """What was asked for by name is not there."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class MissingExtraError(AgentKernelError, ImportError):
    """An optional package is needed, and it is not installed."""

    package: str
    extra: str

    def __str__(self) -> str:
        return f'{self.package} is not installed; pip install "agent-kernel[{self.extra}]" brings it'


# -- what a store raises, and what lies in it: it cannot be opened, read or written


class StoreError(AgentKernelError):
    """The store itself cannot do what was asked."""


class NotAStoreError(StoreError):
    """The path or URL does not hold a store."""

    url: str
    reason: str = "it holds something else"

    def __str__(self) -> str:
        return f"{self.url} is not an agent_kernel store: {self.reason}"


class BundleError(StoreError):
    """The file is not a bundle, or not as its maker wrote it. Nothing of it was taken."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} is not a sound bundle: {self.reason}"


class SigningKeyError(AgentKernelError):
    """A key, a file of keys, or what should be one, cannot be used. Nothing was signed or trusted by it."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class NewerFormatError(StoreError):
    """A newer release wrote this."""

    what: str
    found: int
    known: int

    def __str__(self) -> str:
        return f"{self.what} has format {self.found} and this release reads up to {self.known}; upgrade agent-kernel"


class DamagedObjectError(StoreError):
    """A stored object is missing, or its bytes no longer match its id."""

    kind: str
    id: str
    reason: str = "its bytes do not match its id"
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" (needed by {', '.join(self.names[:5])})" if self.names else ""
        return f"{self.kind} {self.id[:16]}{of} is damaged: {self.reason}; run verify to see what is affected"


class StoreFullError(StoreError):
    """The disk under the store has no room left. Nothing was changed."""

    url: str
    reason: str = ""

    def __str__(self) -> str:
        return f"no room left for {self.url}; nothing was changed; free some space, and the next commit takes these changes along"


class StoreUnavailableError(StoreError):
    """The store cannot be opened or reached just now."""

    url: str
    reason: str

    def __str__(self) -> str:
        return f"{self.url} cannot be used: {self.reason}"


class TransactionConflictError(StoreUnavailableError):
    """Somebody else changed records that a transaction read. Nothing was stored: run the transaction again."""

    reason: str = "somebody else changed records that it read"

    def __str__(self) -> str:
        return f"the transaction stored nothing: {self.reason}; run it again"


class StoreReadOnlyError(StoreUnavailableError):
    """The store's files or folder cannot be written."""

    reason: str = "it is read-only"


class KernelStartError(AgentKernelError):
    """The fresh kernel that cells are to be run in does not start."""

    python: str
    reason: str = "it needs ipykernel, and agent-kernel of this release"

    def __str__(self) -> str:
        return f"no kernel starts with {self.python}: {self.reason}"


# -- what a variable raises: it is not there, or its value could not be saved or rebuilt


class NameNotFoundError(NotFoundError):
    """A commit, or the namespace, holds no variable of this name."""

    name: str
    where: str
    close: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.close)}?" if self.close else ""
        return f"there is no variable {self.name!r} in {self.where}{hint}"


class LoadError(AgentKernelError):
    """Stored values could not be rebuilt. Nothing was changed.

    `names` are all of them, `failures` those that failed for one reason, with it, and `way` is how to go on.
    """

    names: tuple[str, ...]
    reason: str
    failures: tuple[tuple[tuple[str, ...], str], ...] = ()
    way: str = ""

    def __str__(self) -> str:
        failures = self.failures or ((self.names, self.reason),)
        lines = [f"{_some(names)} could not be loaded: {reason}" for names, reason in failures[:20]]
        if len(failures) > 20:
            lines.append(f"… and {len(failures) - 20} more")
        rest = f"nothing was changed; {self.way}" if self.way else "nothing was changed"
        return f"{lines[0]}; {rest}" if len(lines) == 1 else "\n".join([*lines, rest])


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class LostValueError(AgentKernelError):
    """The variable stands for an object that could not be saved, or, `stored`, for one that could not be loaded."""

    name: str
    type: str
    reason: str
    remedy: str = ""
    stored: bool = False
    others: tuple[str, ...] = ()  # other variables of the same object

    def __str__(self) -> str:
        also = f" (also {', '.join(map(repr, self.others))})" if self.others else ""
        of = f"{self.name!r}{also} was a {self.type}, which" if self.type else f"{self.name!r}{also}"
        what = f"{of} could not be {'loaded' if self.stored else 'saved'}: {self.reason}"
        return f"{what}; {self.remedy}" if self.remedy else what


class MissingCodeError(AgentKernelError):
    """A function was compiled by another Python, and this one cannot make it again.

    `has_source`: its source is known, but does not give it here.
    """

    name: str
    made_by: str
    has_source: bool = False

    def __str__(self) -> str:
        if self.has_source:
            return (
                f"{self.name!r} was written for Python {self.made_by}, and this Python cannot compile its source; "
                f"define it again in another way, or use it under Python {self.made_by}"
            )
        return (
            f"{self.name!r} was compiled by Python {self.made_by} from a source that is not known; "
            f"run the code that makes it again, or use it under Python {self.made_by}"
        )


# -- what a session raises: no session is bound, or it cannot do this here


class NotBoundError(AgentKernelError):
    """No store is bound to this notebook."""

    def __str__(self) -> str:
        return "no store is bound to this namespace; run %agent bind (from Python: agent_kernel.bind)"


class SessionClosedError(NotBoundError):
    """The session was closed and gave its branch back. Nothing was changed."""

    def __str__(self) -> str:
        return "this session was closed, and gave its branch back; bind the namespace again (agent_kernel.bind), or open its Versioned or Namespace anew"


class UntrustedStoreError(AgentKernelError):
    """Loading values runs code, and this store was made by someone else."""

    url: str

    def __str__(self) -> str:
        return (
            f"{self.url} was made by someone else, and loading its values can run their code; "
            "look through it with log, show and diff, then run %agent trust (from Python: Session.trust or Repository.trust)"
        )


class UntrustedValueError(AgentKernelError):
    """The value is more than plain data, and its maker is not trusted."""

    what: str

    def __str__(self) -> str:
        return (
            f"it needs {self.what}, and loading that can run its maker's code; "
            "look through the history with log, show and diff, then run %agent trust and %agent checkout again"
        )


class NothingToUndoError(AgentKernelError):
    """This session has done nothing that could be undone (or redone)."""

    verb: str = "undo"
    reason: str = ""
    chat: bool = False  # of the conversation alone

    def __str__(self) -> str:
        if self.chat:
            return "no conversation to take back: agents remember no run here"
        return f"nothing to {self.verb} in this session" + (f": {self.reason}" if self.reason else "")


# -- what an interface answers with where it cannot give what it was asked for


class RequestError(AgentKernelError, ValueError):
    """A panel asked something that cannot be answered."""

    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op.replace('_', ' ')}: {self.reason}" if self.op else self.reason


class FileNotWrittenError(AgentKernelError):
    """A file that was asked for cannot be written. What was there stays as it was."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {self.reason}"


class TooLargeError(AgentKernelError):
    """What was asked for is larger than one answer may be."""

    what: str
    size_bytes: int
    most_bytes: int

    def __str__(self) -> str:
        return f"{self.what} has {self.size_bytes:,} bytes, and at most {self.most_bytes:,} are shown"


# -- what the history raises: what names a commit, who may move a branch, what can be merged


_AGENT_BRANCH = r"preview/[0-9a-f]{8}(-[0-9a-f]{5})?|race/[0-9a-f]{5}/\d+"  # see agents/asides.py


class RefNotFoundError(NotFoundError):
    """No branch, tag or commit has this name."""

    name: str
    known: tuple[str, ...] = ()
    reason: str = ""  # why it names nothing, where that is known
    remedy: str = ""
    said: str = ""  # all there is to say, in sentences

    def or_else(self, remedy: str) -> str:
        """Its remedy with another one behind it."""
        return "; ".join(filter(None, (self.remedy, remedy)))

    def __str__(self) -> str:
        import re
        from difflib import get_close_matches

        if self.said:
            return self.said
        # A branch and a tag may have the same one. Branches that nobody named are no way to go.
        names = tuple(name for name in dict.fromkeys(self.known) if not re.fullmatch(_AGENT_BRANCH, name))
        close = [] if self.reason else get_close_matches(self.name, names, 3)
        known = ", ".join(names[:8]) or "none yet"
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        what = f"{self.name!r} names no commit: {self.reason}" if self.reason else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        if close:
            return f"no branch, tag or commit is called {self.name!r}; did you mean {' or '.join(close)}?{remedy}"
        sentence = what or f"no branch, tag or commit is called {self.name!r}"
        return f"{sentence} (branches and tags: {known}{more}){remedy}"


class AmbiguousRefError(NotFoundError):
    """A shortened commit id fits several commits."""

    name: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        candidates = ", ".join(self.candidates[:8])
        return f"{self.name!r} fits {len(self.candidates)} commits: {candidates}; give more digits"


class InvalidRefNameError(AgentKernelError, ValueError):
    """git would refuse this branch, tag or agent name, and so do we."""

    name: str
    reason: str
    what: str = "a branch or tag"

    def __str__(self) -> str:
        return f"{self.name!r} cannot name {self.what}: {self.reason}"


class RefExistsError(AgentKernelError):
    """A branch or tag of this name is already there."""

    name: str
    remedy: str = "choose another name"

    def __str__(self) -> str:
        return f"{self.name!r} already exists; {self.remedy}"


class UnmergedBranchError(AgentKernelError):
    """Deleting this branch would drop commits that no other ref reaches."""

    name: str
    commits: int

    def __str__(self) -> str:
        many = f"{self.commits} commits" if self.commits > 1 else "a commit"
        return (
            f"branch {self.name!r} has {many} that nothing else reaches; -D (from Python: force=True) deletes it anyway"
        )


class BranchMovedError(AgentKernelError):
    """Another session moved the branch since it was read."""

    branch: str

    def __str__(self) -> str:
        return f"branch {self.branch!r} was moved by another session; read it again, or work on a branch of your own"


class BranchInUseError(AgentKernelError):
    """A living process writes to this branch."""

    branch: str
    holder: str
    remedy: str = "end that one first, or work on another branch"

    def __str__(self) -> str:
        return f"branch {self.branch!r} is in use by {self.holder}; {self.remedy}"


class MergeConflictError(AgentKernelError):
    """Both sides changed the same variables, or fields of records. Nothing was changed."""

    conflicts: tuple[
        tuple[str, str, str], ...
    ]  # (name, or name and key, our summary, their summary); a record: `Note:a`
    together: tuple[tuple[str, ...], ...] = ()  # variables of which one choice is for all, group by group
    rev: str = ""  # what was to be merged, where the same can be asked for again with choices
    ours: tuple[str, ...] = ()  # what was chosen already
    theirs: tuple[str, ...] = ()
    message: str = ""  # of the commit that it was to be
    partial: bool = False
    picks: bool = False  # it is a cherry-pick
    remedy: str = ""  # what to do where no choice can be made

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables and records in conflict: `prices` for `prices['tea']`."""
        return tuple(name.partition("[")[0] for name, _, _ in self.conflicts)

    def partners(self, variable: str) -> tuple[str, ...]:
        """The other variables that a choice for this one also decides."""
        return tuple(name for group in self.together if variable in group for name in group if name != variable)

    def __str__(self) -> str:
        lines = [f"  {name}: ours {ours} | theirs {theirs}" for name, ours, theirs in self.conflicts]
        names = list(dict.fromkeys(self.variables))
        records = sum(":" in name for name in names)
        counts = ((len(names) - records, "variable"), (records, "record"))
        many = " and ".join(f"{count} {what}s" if count > 1 else f"one {what}" for count, what in counts if count)
        groups = [
            f"{', '.join(group)} share objects or a class: one choice is for all of them" for group in self.together
        ]
        taken = {name for group in self.together for name in group[1:]}
        undecided = [name for name in names if name not in taken]
        choose = f"choose with --ours {undecided[0]} or --theirs {undecided[0]}" if undecided else ""
        if len(undecided) > 1:
            choose += f", and so for {', '.join(undecided[1:])}"
        return "\n".join([f"both sides changed {many}; nothing was merged", *lines, *groups, self.remedy or choose])


class MergeChoiceError(AgentKernelError):
    """Both sides were chosen of variables that can only be taken from one. Nothing was changed."""

    names: tuple[str, ...]  # all that go together
    ours: tuple[str, ...]
    theirs: tuple[str, ...]

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"{self.names[0]} was chosen from both sides; nothing was merged: choose either ours or theirs"
        every = " ".join(self.names)
        return (
            f"{', '.join(self.names)} share objects or a class, so they cannot be --ours {' '.join(self.ours)} and "
            f"--theirs {' '.join(self.theirs)}; nothing was merged: choose --ours {every} or --theirs {every}"
        )


class MergeCommitError(AgentKernelError):
    """A commit of several parents made no one change that could be picked. Nothing was changed."""

    name: str
    parents: int

    def __str__(self) -> str:
        return (
            f"{self.name!r} is a merge of {self.parents} commits, so it is not one change that could be picked; "
            "pick commits of the side that it merged, or merge it"
        )


class UnrelatedHistoriesError(AgentKernelError):
    """The two commits share no ancestor."""

    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.ours} and {self.theirs} have no common ancestor, so there is nothing to merge from"


# -- what runs of agents and records raise, loaded when it is first used


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_kernel.errors import agents

    value: object = getattr(agents, name)
    globals()[name] = value  # the next access skips this function
    return value
