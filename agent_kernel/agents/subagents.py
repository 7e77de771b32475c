"""Agents that work for agents: what an agent's code begins is a run within its run.

In a versioned state the sub-agent acts on a branch of its own, forked from where the parent's step is, and what it made
is merged into the parent's by a commit of two parents; what both changed is an error that the parent sees. Elsewhere it
acts in a namespace of its own. Either way it has its arguments, no more budget than its parent has left, and the
stricter approval of the two.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from agent_kernel.agents.event_log import short_run, since_resumed, usage_of
from agent_kernel.agents.events import Cancelled, SubRun
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.run import Run
from agent_kernel.errors import MergeConflictError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import Author, Holder
from agent_kernel.repository.refs import ASIDE
from agent_kernel.session.session import Session

if TYPE_CHECKING:
    from agent_kernel.agents.events import Event
    from agent_kernel.agents.executor import RunExecutor
    from agent_kernel.agents.limits import Limits
    from agent_kernel.agents.models import Delta
    from agent_kernel.repository import ObjectId

T = TypeVar("T")
_STRICTNESS = ("auto", "risky", "never", "always")  # where nobody can be asked


def limits_within(parent: RunExecutor, own: Limits) -> Limits:
    """A sub-agent's limits: its own, no more steps than its parent may take, and of the rest no more than that has left."""
    return own.bound_by(parent.setup.limits, usage_of(since_resumed(parent.log.events)), parent.seconds)


def approval_within(parent: RunExecutor, own: str) -> str:
    """A sub-agent's approval: the stricter one of its own and its parent's.

    Nobody can be asked within a step, so what would ask is denied. Where each of the parent's steps is asked about, this one was: what is risky in it is asked about no less.
    """
    return stricter("risky" if parent.setup.approve == "always" else parent.setup.approve, own)


def stricter(one: str, other: str) -> str:
    """The stricter of two ways to approve. An unknown word counts as the strictest."""
    return max(one, other, key=lambda mode: _STRICTNESS.index(mode) if mode in _STRICTNESS else len(_STRICTNESS))


def subagent_context(
    parent: ExecutionContext, namespace: dict[str, object], session: Session | None = None
) -> ExecutionContext:
    """The execution context of a sub-agent: what its parent's model is not told, its own is not told either."""
    context = ExecutionContext(namespace, session, event_store=parent.event_store, hidden=parent.is_hidden)
    context.policy, context.redactor = parent.policy, parent.redactor
    return context


class Fork:
    """A branch of a sub-agent's own, from where its parent's step is."""

    def __init__(
        self, parent: ExecutionContext, session: Session, agent: str, run: str, inputs: Mapping[str, object]
    ) -> None:
        at = session.save_step()
        self.branch = f"{agent}-{short_run(run)}"
        session_id = ASIDE + secrets.token_hex(4)
        session.repo.acquire_lease(
            self.branch, Holder.of_this_process(session_id)
        )  # before it is there: should this process die now
        session.repo.create_branch(self.branch, at)
        self._at: ObjectId = at
        self._parent = session
        self._outer = parent
        self._by_parent = parent.find_own_changes(at)
        self._inputs = dict(inputs)
        namespace: dict[str, object] = {}
        author = Author(agent, "agent")
        self.session = Session(namespace, session.repo, branch=self.branch, author=author, session_id=session_id)
        self.session.bring_back(partial=True)
        self._before = {name: namespace[name] for name in inputs if name in namespace}
        self.context = subagent_context(parent, namespace, self.session)

    def merge(self, message: str) -> None:
        """Take what was made on the branch into the parent's state, less the arguments, and drop the branch.

        Raises:
            MergeConflictError: both changed the same. The branch is kept.
        """
        namespace = self.context.namespace
        arguments = [name for name, value in self._inputs.items() if name in namespace and namespace[name] is value]
        for name in arguments:
            del namespace[name]
        namespace.update({name: self._before[name] for name in arguments if name in self._before})
        self.session.commit(f"removed the arguments {', '.join(arguments)}" if arguments else "", full=True)
        self.leave()
        if self.session.head == self._at:
            return
        self._check()
        report = self._parent.merge(self.branch, message=message, fast_forward=False, partial=True)
        now = self._parent.repo.tree_at(self._parent.head)
        self._outer.merged_entries |= {change.name: now.get(change.name) for change in report.changed}
        self._parent.repo.delete_branch(self.branch, force=True)

    def _check(self) -> None:
        """Raise where the parent's step had changed by itself what was then changed on the branch as well.

        A merge alone would let the branch win: it began after the parent's change.
        """
        from agent_kernel.repository import Conflict
        from agent_kernel.session.merge import conflict_of

        repo = self._parent.repo
        was, ours, theirs = map(repo.tree_at, (self._outer.start_commit, self._at, self.session.head))
        both = {
            name: Conflict(was.get(name), mine, found)
            for name, mine, found in ours.diff(theirs)
            if name in self._by_parent and not (mine is not None and mine.is_same_value(found))
        }
        if both:
            raise conflict_of(repo, both)

    def leave(self) -> None:
        """Give the branch back as it is."""
        self.session.close()
        if self.session.head == self._at:  # nothing was done on it
            self._parent.repo.delete_branch(self.branch, force=True)


class ChildRun(Run[T]):
    """The run of a sub-agent. As it ends, what it made comes to its parent."""

    def __init__(self, run_executor: RunExecutor, parent: RunExecutor, fork: Fork | None) -> None:
        super().__init__(run_executor)
        self._parent = parent
        self._fork = fork
        self._is_open = True
        parent.children.append(self)
        self._note_status("running")

    def stream(self) -> Iterator[Event | Delta]:
        yield from super().stream()
        self._finish()

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in super().__aiter__():
            yield event
        self._finish()

    def _result(self) -> T:
        if self._is_open:
            self._end()
        if self.status == "interrupted":
            self._stop_parent()
        return super()._result()

    def _finish(self) -> None:
        """Whoever drove it to its end has what it made, whether they ask for its result or not."""
        if self._is_open and self.status == "completed":
            self._end()
        elif self.status == "interrupted":
            self._stop_parent()

    def _stop_parent(self) -> NoReturn:
        # Not an error that the parent's code could handle: who interrupts a sub-agent means the whole.
        raise KeyboardInterrupt(self.outcome.reason)

    def _end(self) -> None:
        status: str = self.status
        try:
            if self._fork is not None and status == "completed":
                with uninterrupted():  # or what it made would stay behind on its branch
                    self._fork.merge(f"merge what {self.agent} did: {self.task.partition(chr(10))[0][:60]}")
            elif self._fork is not None:
                self._fork.leave()
        except MergeConflictError:
            status = "conflict"
            raise
        finally:
            self._close(status)

    def leave(self) -> None:
        """The step in which it was begun has ended: nobody can drive it any more."""
        if not self._is_open:
            return
        if self.status == "completed":
            with suppress(MergeConflictError):  # the event says so
                self._end()
            return
        if self._fork is not None:
            self._fork.leave()
        self._run_executor.log.release()  # a loop over it that was left halfway may still be there
        if self.status == "running":  # it was begun, and never driven to where it rests
            self._run_executor.log.note(Cancelled(during="pause", reason="the step that began it has ended"))
        self._close(self.status)

    def _close(self, status: str) -> None:
        self._is_open = False
        self._run_executor.log.release()
        self._parent.children.remove(self)
        self._note_status(status)

    def _parent_branches(self) -> Collection[str]:
        session = self._parent.context.session
        return session.repo.branches() if session is not None else ()

    def _note_status(self, status: str) -> None:
        branch = self._fork.branch if self._fork is not None else ""
        if status == "interrupted" and branch not in self._parent_branches():
            branch = ""  # nothing was done on it
        note = SubRun(child=self.id, child_agent=self.agent, task=self.task, branch=branch, status=status)
        if status != "running":
            note = SubRun(
                child=note.child,
                child_agent=note.child_agent,
                task=note.task,
                branch=branch,
                status=status,
                usage=self.usage,
            )
        context: Any = self._parent.context
        self._parent.log.note(note, step=self._parent.step, before=context.head)
