"""What runs of agents raise or end with, and what records raise."""

from __future__ import annotations

from agent_kernel.errors import AgentKernelError, NotFoundError


class AgentError(AgentKernelError):
    """Catch this to catch everything that the run of an agent can end with."""


class RunNotFoundError(NotFoundError, AgentError):
    """No run of an agent has this id."""

    run: str
    fits: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.run:
            return "no agent has run here yet"
        if self.fits:
            return f"{self.run!r} could be any of the runs {', '.join(self.fits[:6])}; give more of it"
        return f"no run is called {self.run!r}"


class RunBusyError(AgentError):
    """Somebody else drives the same run, or went on with it meanwhile. Nothing was lost: its events are theirs.

    `by`: who drives it; "": nobody any more.
    """

    run: str
    by: str = ""

    def __str__(self) -> str:
        if self.by:
            return f"run {self.run[-5:]} is being driven by {self.by}; look again when that has ended, or stop it there"
        return f"run {self.run[-5:]} went on elsewhere since it was looked at here; look at it again"


class RunStateError(AgentError):
    """The run's status does not allow this."""

    run: str
    status: str
    wanted: str

    def __str__(self) -> str:
        return f"run {self.run[-5:]} is {self.status}: it cannot be {self.wanted}"


class RunElsewhereError(AgentError):
    """The history here does not include the run's earlier steps. Nothing was decided, and nothing ran.

    `what`: the part of the run that is missing here; `branch`: the branch that has it ("": no branch, only `commit`);
    `taken`: another session works on that branch; `gone`: the commit was deleted with its branch.
    """

    run: str
    what: str
    branch: str = ""
    commit: str = ""
    taken: bool = False
    gone: bool = False

    @property
    def lies(self) -> str:
        """`step 1 of run 3f2a9 is on branch main and not in the history here`"""
        are = "are" if self.what.startswith("steps") else "is"
        if self.gone:
            return f"{self.what} of run {self.run[-5:]} {are} gone with commit {self.commit}, which no branch led to"
        where = f"on branch {self.branch}" if self.branch else f"at commit {self.commit}"
        return f"{self.what} of run {self.run[-5:]} {are} {where} and not in the history here"

    @property
    def way(self) -> str:
        """What to do: `%agent checkout main goes there, or …`"""
        if self.gone:
            return "give the task again"
        to = self.branch or self.commit
        way = f"go on in the notebook that is on {to}" if self.taken else f"%agent checkout {to} goes there"
        it = "them" if self.what.startswith("steps") else "it"
        return f"{way}, or %agent merge {to} brings {it} here first"

    def __str__(self) -> str:
        return f"{self.lies}, so nothing was done: {self.way}"


class StepBusyError(AgentError):
    """Another thread has been running a step on the same variables for `waited_s` seconds. Nothing was begun."""

    waited_s: float

    def __str__(self) -> str:
        return (
            f"another thread has been running a step on these variables for {self.waited_s:g} s: agents that work beside each "
            "other need a branch each (agent_kernel.race)"
        )


class CellThreadError(AgentError):
    """A step was to run on a notebook's variables beside its cells. Nothing was begun."""

    def __str__(self) -> str:
        return (
            "agents act on a notebook's variables on the thread of its cells, one after the other: drive them in a cell, or "
            "beside it on a branch of their own (agent_kernel.race)"
        )


class WithinStepError(AgentError):
    """Code of an agent's step did what only a person may do. Nothing was done. `what`: as in "approve a step"."""

    what: str

    def __str__(self) -> str:
        return f"an agent's step cannot {self.what}: only a person can, while no step runs"


class ModelError(AgentError):
    """A model did not answer. `retry_after_s`: asking again after so many seconds may help; None: it will not."""

    model: str
    reason: str
    retry_after_s: float | None = None
    timed_out: bool = False

    def __str__(self) -> str:
        return f"{self.model or 'the model'}: {self.reason}"


class NoModelError(AgentError):
    """No model is named that could take a task."""

    in_notebook: bool = False  # where a magic names one

    def __str__(self) -> str:
        if self.in_notebook:
            return (
                "no model is named: %agent model openai:NAME (or --model, AGENT_KERNEL_MODEL, c.AgentKernel.model); "
                "scripted:hello needs no key"
            )
        return (
            'no model is named: set AGENT_KERNEL_MODEL, or give model="openai:NAME" '
            "(in a notebook: %agent model openai:NAME, --model, c.AgentKernel.model)"
        )


class UnknownPriceError(AgentError):
    """A run has a limit on its cost, and nobody knows what its model costs."""

    model: str
    cost: float

    def __str__(self) -> str:
        return (
            f"what {self.model or 'the model'} costs is not known, so a run cannot be kept under ${self.cost:.4g}: "
            "limit its tokens or steps instead of its cost"
        )


class TaskFailedError(AgentError):
    """The agent gave up, a limit ended its run, or its model failed. What it did is kept."""

    reason: str
    run: str = ""
    limit: str = ""

    def __str__(self) -> str:
        return f"{self.reason} (run {self.run[-5:]})" if self.run else self.reason


class TaskClarifyError(AgentError):
    """The agent has a question; `Run.resume(answer)` goes on with the answer."""

    question: str
    run: str = ""

    def __str__(self) -> str:
        return f"the agent asks: {self.question}"


class TaskPendingError(AgentError):
    """A step waits for somebody to approve it."""

    run: str
    code: str = ""

    def __str__(self) -> str:
        return f"run {self.run[-5:]} waits for approval: run.approve(), run.edit(code) or run.deny(reason) goes on"


class TaskInterruptedError(AgentError):
    """The run was stopped before it was done; `Run.resume()` goes on."""

    run: str
    reason: str = ""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"run {self.run[-5:]} was stopped{reason}; run.resume() or %agent resume goes on"


class RaceError(AgentError):
    """A race cannot be held, or none of its candidates can be picked. What they committed is kept."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class PreviewNotAcceptedError(AgentError):
    """A preview cannot be accepted: its code did not come to its end, or it was decided about. Nothing was changed."""

    reason: str

    def __str__(self) -> str:
        return f"this preview cannot be accepted: {self.reason}; nothing was changed"


class PreviewRefusedError(AgentError):
    """A fork of this process is not safe now, and another process could not load what the code needs. Nothing ran.

    `lacks`: the variables that the code uses and another process does not have.
    """

    reason: str
    lacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        *first, last = (f"`{name}`" for name in self.lacks or ("",))
        names = f"{', '.join(first)} and {last}" if first else last
        without = f" (it runs without {names})" if self.lacks else ""
        return f"no preview: {self.reason}; use %%agent --fork 1 instead{without}"


class MoveNotMadeError(AgentError):
    """An undo or a checkout that an agent outside asked for is not made. Nothing was changed."""

    reason: str

    def __str__(self) -> str:
        return f"this was not done: {self.reason}; nothing was changed"


# -- what records raise


class RecordError(AgentKernelError):
    """Catch this to catch everything that records raise on purpose. Nothing was stored then."""

    collection: str
    id: str

    @property
    def _what(self) -> str:
        return f"{self.collection} {self.id!r}" if self.id else self.collection

    def __str__(self) -> str:
        return f"{self._what} cannot be used"


class RecordNotFoundError(RecordError, NotFoundError):
    """There is no record of this id, or it is another user's."""

    where: str = ""  # what it is not a part of: "in team 'web'"

    def __str__(self) -> str:
        return f"there is no {self._what} {self.where}".rstrip()


class InvalidRecordError(RecordError, ValueError):
    """A value does not fit the model, or a validator refuses it."""

    reason: str

    def __str__(self) -> str:
        return f"{self._what} is not valid: {self.reason}"


class RecordStateError(InvalidRecordError):
    """The record is sound, but cannot be used in this way as it stands now. `reason` says what to do."""

    def __str__(self) -> str:
        return f"{self._what}: {self.reason}"


class TransitionError(RecordError, ValueError):
    """The status may not change in this way."""

    old: str | None  # None: there was none, as the record is new
    new: str
    allowed: tuple[str, ...] = ()
    way: str = ""  # what to do instead, where it is known: the calls that lead on

    def __str__(self) -> str:
        if self.old is None:
            first = f"only {', '.join(self.allowed)} can be first" if self.allowed else "nothing can be first"
            return f"{self._what} cannot begin with {self.new}: {first}"
        if self.way:
            return f"{self._what} cannot go from {self.old} to {self.new}: {self.way}"
        after = f"only {', '.join(self.allowed)} can follow" if self.allowed else "nothing can follow it"
        return f"{self._what} cannot go from {self.old} to {self.new}: {after}"


class StaleRecordError(RecordError):
    """The record is no longer the one that was expected: somebody changed it meanwhile. Read it again."""

    expected: int  # 0: no record
    found: int
    what: str = "version"  # of a list its length
    reason: str = ""  # what happened, where more is known than the numbers say

    def __str__(self) -> str:
        if self.reason:
            return f"{self._what} {self.reason}"
        is_record = self.what == "version"  # whose first version is 1
        if is_record and not self.expected:
            return f"{self._what} is there already, at version {self.found}: read it, or choose another id"
        now = "is not there" if is_record and not self.found else f"is at {self.what} {self.found}"
        return f"{self._what} {now}, and {self.what} {self.expected} was expected: read it again"


class NewerRecordError(RecordError):
    """A newer release of the program made the record."""

    found: int
    known: int

    def __str__(self) -> str:
        return f"{self._what} has schema {self.found}, and this program knows schemas up to {self.known}: update the program"


_OPENED_BY = {
    "list": "repo.list(…, secret=…)",
    **dict.fromkeys(
        ("state", "state backup", "tier", "memory", "round of the state", "checkpoint of the state"),
        "repo.state(…, secret=…)",
    ),
}  # the calls that take the key


class SealedRecordError(RecordError):
    """The record is encrypted, and this is not its key; or it should be encrypted, and there is no key."""

    has_key: bool = True

    def __str__(self) -> str:
        if self.has_key:
            return f"{self._what} cannot be decrypted with this key"
        call = _OPENED_BY.get(self.collection)
        return f"{self._what} is encrypted: open its collection with the key{f', {call}' if call else ' (secret=…)'}"


class RecordAccessError(RecordError):
    """Whoever asks may not read or change this record."""

    verb: str = "read"

    def __str__(self) -> str:
        return f"{self._what} may not be {'read' if self.verb == 'read' else 'changed'} here"


class LockHeldError(RecordError):
    """Somebody else has the lock. Wait for it, or try again later."""

    holder: str = ""
    is_here: bool = False  # this thread has it

    def __str__(self) -> str:
        if self.is_here:
            return f"{self._what} is held by this thread already, and cannot be taken twice"
        who = f"{self.holder} has it" if self.holder else "its lease is over"
        return f"{self._what} is not yours: {who}"
