"""Code of agents outside, run as steps: reviewed, approved, committed in their name, with what they did outside told."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.agents import approval
from agent_kernel.agents.agent import Agent, reopened, started
from agent_kernel.agents.current import here
from agent_kernel.agents.event_log import short_run, state_of
from agent_kernel.agents.events import Action, ApprovalRequested, Effect, Event, Output, StateChange
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.moves import CHANGES, KIND, SOURCE, findings, outside
from agent_kernel.errors import AgentKernelError, MoveNotMadeError, NotBoundError, RunNotFoundError
from agent_kernel.mcp.tools import Told, Tools
from agent_kernel.repository import Author

if TYPE_CHECKING:
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.agents.moves import Move
    from agent_kernel.agents.run import Run

__all__ = ["Answer", "Asked", "Steps", "answered", "without_input"]


_MOST_TASK: Final = 120
_STOPPED = (
    "This was stopped before it did something outside the variables, and what it had changed was taken back: a person has to "
    "allow it (run {run})."
)
_UNDECIDED = "This has not run yet: a person has to allow it (run {run})."


class Steps:
    """What one agent outside does in one namespace.

    Args:
        place: opens the namespace.
        approve: `risky`, `always`, `auto` or `never`.
        step_s: seconds that one piece of code may run.
        decides: how a person decides, with {run} where the run's id goes.
    """

    def __init__(
        self, place: Callable[[], ExecutionContext], *, agent: str, approve: str, step_s: float | None, decides: str
    ) -> None:
        self._place = place
        self._agent = Agent(agent, approve=approve, limits=Limits(step_s=step_s), context_tokens=0)
        self._decides = decides
        self._running: Run[Any] | None = None

    def opened(self) -> ExecutionContext:
        """The namespace, opened now if it was not."""
        return self._place()

    def run(self, code: str, purpose: str) -> str:
        """Run code as a step, or say what it waits for."""
        task = purpose.strip() or next((line.strip() for line in code.splitlines() if line.strip()), "")
        model = outside(self._agent.name, code)
        return self._driven(started(self._agent, task[:_MOST_TASK], self._place(), model=model))

    def asked(self, move: Move) -> str:
        """What a person has to be asked before a move is made; "": nothing, it may be made now.

        Raises:
            MoveNotMadeError: it is not allowed. RefNotFoundError: there is no such commit.
        """
        place = self._place()
        if place.session is None:
            return ""
        found = findings(place.session, move, self.author)
        verdict = approval.verdict_on(self._agent.approve, found, can_ask=True)
        if verdict == "deny":
            raise MoveNotMadeError(f"it would take back what others did ({found[0].what}), and that is not allowed")
        if verdict == "run":
            return ""
        task = f"check out {move.ref} {move.name}".rstrip() if move.ref else "undo the last operation"
        run = started(self._agent, task[:_MOST_TASK], place, model=outside(self._agent.name)).id
        action = Action(source=SOURCE, code=move.code, call=SOURCE)
        approval.log_of(place.event_store, run).note(action, step=1, before=place.head)
        return self._driven(reopened(place, run))

    @property
    def author(self) -> Author:
        """Who signs what it does."""
        return Author(self._agent.name, "agent")

    def result(self, run: str) -> str:
        """What came of a step; of one that was allowed meanwhile, by running it now.

        Raises:
            RunNotFoundError: there is no such run of this agent.
        """
        place = self._place()
        found = place.event_store.find(run)
        if place.event_store.first(found).model != outside(self._agent.name).name:
            raise RunNotFoundError(run)  # another agent's: not this one's to look at, and never to go on with
        if state_of(tuple(place.event_store.of(found))) == "running":
            return self._driven(reopened(place, found))
        return self._told(tuple(place.event_store.of(found)))

    def stop(self) -> None:
        """Interrupt the code that runs, if any does; from any thread."""
        if self._running is not None:
            self._running.cancel("the agent outside took it back")

    def _driven(self, run: Run[Any]) -> str:
        self._running = run
        try:
            for _ in run.stream():
                pass
        except KeyboardInterrupt:
            run.halt()
            raise
        finally:
            self._running = None
        return self._told(run.events)

    def _told(self, events: Sequence[Event]) -> str:
        """The last step: what it showed and changed, and what it did that going back does not cover."""
        asked = approval.waiting(events)
        if asked is not None:
            return self._asks(asked)
        output = next((event for event in reversed(events) if isinstance(event, Output)), None)
        if output is None:
            return "It was stopped before its code ran."
        said = [output.sent]
        lost = [one for event in events if isinstance(event, StateChange) for one in event.unsaved]
        said += [f"Not saved: {name} ({reason})" for name, reason in lost]
        effects = [f"  {event.said}" for event in events if isinstance(event, Effect)]
        if effects:
            said.append("\n".join(["Outside the variables, so that undo does not cover it:", *effects]))
        if output.after and output.after != output.before:
            said.append(f"Commit {output.after[:8]}.")
        return "\n\n".join(said)

    def _asks(self, asked: ApprovalRequested) -> str:
        risky = [one for one in asked.findings if one.risky or one.kind == KIND] or list(asked.findings)
        changes = ", ".join(one.what for one in asked.findings if one.kind == CHANGES)
        is_move = any(one.kind == KIND for one in risky)
        run = short_run(asked.run)
        return "\n".join(
            [
                (_STOPPED if asked.stopped else _UNDECIDED).format(run=run),
                *(f"  {one.kind}: {one.what}" for one in risky),
                *([f"  would change: {changes or 'no variable'}"] if is_move else []),
                self._decides.replace("{run}", run),
                f"Then call result with run={run!r}. Until then, do without it or ask the person.",
            ]
        )


# -- nobody types anything for code that an agent outside runs: what it reads is at its end
#
# Over standard input and output the client speaks there. The transport serves it from copies of its own, with the null
# device in their place, so that no process that the code starts can read a request. Here `sys.stdin` is replaced besides,
# anew for each call, whatever it is and whatever earlier code did to it: over HTTP it would be a terminal.


@contextmanager
def without_input() -> Generator[None]:
    """While the block runs, `input()` raises EOFError, and `sys.stdin` has nothing to read."""
    # A pipe that nobody writes to, and no text in memory: code may give it to a process.
    reads, writes = os.pipe()
    os.close(writes)
    before = sys.stdin
    with os.fdopen(reads, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before


# -- what a kernel does for an agent outside. A silent execution asks it: it makes no cell and no commit

_DECIDES = (
    "The person allows it in the notebook with %agent approve --run {run}, or denies it with %agent deny --run {run}."
)
_UNBOUND = "No notebook is bound in this kernel: the person runs %load_ext agent_kernel there first."


class Asked(msgspec.Struct, frozen=True):
    """A call of a tool.

    Attributes:
        until: seconds since 1970, after which nobody waits for it any more, so that it must not begin.
    """

    tool: str
    arguments: dict[str, object]
    agent: str
    approve: str
    step_s: float | None
    until: float


class Answer(msgspec.Struct, frozen=True):
    """What came of it. `late`: it did not begin. Its repr is JSON, which is how it leaves the kernel."""

    text: str = ""
    failed: bool = False
    late: bool = False

    def __repr__(self) -> str:
        return json.dumps(msgspec.to_builtins(self))


def answered(request: str) -> Answer:
    """Do what is asked, in the notebook of this kernel."""
    asked = msgspec.json.decode(request, type=Asked)
    if time.time() > asked.until:
        return Answer(late=True)
    try:
        place = here()
    except NotBoundError:
        return Answer(_UNBOUND, failed=True)
    except AgentKernelError as error:
        return Answer(str(error), failed=True)
    steps = Steps(lambda: place, agent=asked.agent, approve=asked.approve, step_s=asked.step_s, decides=_DECIDES)
    repo = place.session.repo if place.session is not None else None
    try:
        told: Told = Tools(repo, lambda: place, steps).call(asked.tool, asked.arguments)
    finally:
        place.moved()  # this was no cell, at the end of which panels are told
    return Answer(told.text, told.failed)
