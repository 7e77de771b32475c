"""What the run of an agent raises, or ends with."""

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
