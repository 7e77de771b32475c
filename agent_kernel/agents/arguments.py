"""The arguments of a run: variables while it goes on. What stood under their names before comes back as it ends.

As with the parameters of a function, what the run does to a name that was somebody's counts for the run alone; an
argument whose name nobody had stays as a variable. Where there is a history they are a commit by the agent before the
first step, and what they stand for is committed before: so another process finds both, and undo takes the whole back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import Author, ObjectId
from agent_kernel.session.interrupts import uninterrupted
from agent_kernel.session.snapshot import Snapshot
from agent_kernel.values.surface import load_failure_of

if TYPE_CHECKING:
    from agent_kernel.agents.events import TaskStart
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.repository import Commit

__all__ = ["Arguments", "Inputs"]

_ABSENT: Final = object()
_active: dict[str, Arguments] = {}  # by run: what no history has, as long as the run is not done


class Inputs(dict[str, object]):
    """`task.inputs`. An argument that is no longer available says so."""

    def __init__(self, known: Mapping[str, object], unavailable: frozenset[str] = frozenset()) -> None:
        super().__init__(known)
        self._gone = unavailable

    def copy(self) -> Inputs:
        """Another with the same: code may change what it is given."""
        return Inputs(self, self._gone)

    def __missing__(self, name: str) -> object:
        if name in self._gone:
            raise KeyError(
                f"{name!r} was an input of this task and is no longer available: it was not stored, or it was deleted. "
                "Start the task again with it"
            )
        raise KeyError(name)


class Arguments:
    """Those of one run, and what stood under their names."""

    def __init__(
        self, context: ExecutionContext, agent: str, run: str, inputs: Inputs, *, in_history: bool = True
    ) -> None:
        self._context = context
        self._agent = agent
        self._run = run
        self._keeps = in_history and context.session is not None
        self.inputs = inputs
        self.replaced: tuple[str, ...] = ()
        self._old: dict[str, object] = {}
        self._paused: dict[str, object] = {}  # how the run left its names, when it paused
        self._are_bound = False

    @classmethod
    def bind(
        cls, context: ExecutionContext, agent: str, run: str, inputs: Mapping[str, object], *, in_history: bool
    ) -> Arguments:
        """Make variables of them.

        Args:
            in_history: in the history too, if there is one.
        """
        made = cls(context, agent, run, Inputs(inputs), in_history=in_history)
        names = context.namespace
        made.replaced = tuple(name for name in inputs if name in names and names[name] is not inputs[name])
        made._enter(inputs)
        return made

    @classmethod
    def bind_in_fork(cls, context: ExecutionContext, agent: str, run: str, inputs: Mapping[str, object]) -> Arguments:
        """Those of a sub-agent on a branch of its own, which puts them away itself."""
        context.namespace.update(inputs)
        return cls(context, agent, run, Inputs(inputs), in_history=False)

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The names of those that the history has."""
        return tuple(self.inputs) if self._keeps else ()

    @classmethod
    def restore(cls, context: ExecutionContext, start: TaskStart, *, is_over: bool) -> Arguments:
        """Those of a run that was begun before: in this process, or as the history has them."""
        active = _active.get(start.run)
        if active is not None and active._context.namespace is context.namespace:
            active._context = context
            return active
        known = {
            name: value for name in start.arguments if (value := _read_argument(context, start, name)) is not _ABSENT
        }
        unavailable = frozenset(start.arguments) - set(known)
        # Runs of earlier releases say the names of those that a model was told of, and kept none apart.
        known |= {
            name: context.namespace[name] for name in start.inputs if name not in known and name in context.namespace
        }
        made = cls(context, start.agent, start.run, Inputs(known, (unavailable | set(start.inputs)) - set(known)))
        made.replaced = tuple(name for name in start.replaced if is_over or made._is_the_runs(start, name))
        made._are_bound = not is_over
        made.pause()
        return made

    def resume(self) -> None:
        """The run goes on: its arguments are variables again, and what a person made of them meanwhile is the person's."""
        if self._are_bound:
            names = self._context.namespace
            theirs = {name for name, value in self._paused.items() if names.get(name, _ABSENT) is not value}
            self.replaced = tuple(name for name in self.replaced if name not in theirs)
            self._paused = {}
        elif self.replaced:
            self._enter({name: self.inputs[name] for name in self.replaced if name in self.inputs})

    def pause(self) -> None:
        """Nobody drives the run."""
        if self._are_bound:
            self._paused = {name: self._context.namespace.get(name, _ABSENT) for name in self.replaced}

    def unbind(self) -> None:
        """The run is over: what stood under their names comes back."""
        if self._are_bound and self.replaced:
            with uninterrupted():
                old = {name: self._before(name) for name in self.replaced}
                self._change(
                    f"what the arguments stood for comes back: {', '.join(old)}", lambda: self._restore_values(old)
                )
                self._are_bound = False
        _active.pop(self._run, None)

    def _enter(self, values: Mapping[str, object]) -> None:
        names = self._context.namespace
        if self.replaced and self._keeps and self._context.session is not None:
            self._context.wait_turn()
            self._context.session.save_step()  # what they stand for is in the history from now on
        new = {name: value for name, value in values.items() if names.get(name, _ABSENT) is not value}
        with uninterrupted():
            self._old = {name: names[name] for name in self.replaced if name in names}
            if new:
                self._change(f"arguments: {', '.join(values)}", lambda: names.update(new))
            self._are_bound = True
            self.pause()
            if self.replaced:
                _active[self._run] = self

    def _change(self, title: str, change: Callable[[], None]) -> None:
        session = self._context.session
        if session is None or not self._keeps:
            change()
            return
        cell, number = self._context.cell()
        author = Author(self._agent, "agent")
        session.begin_step(f"# {title}", author=author, run=self._run, step=None, cell_id=cell, number=number)
        try:
            change()
        finally:
            session.end_step()

    def _restore_values(self, old: Mapping[str, object]) -> None:
        for name, value in old.items():
            if value is _ABSENT:
                self._context.namespace.pop(name, None)
            else:
                self._context.namespace[name] = value

    def _before(self, name: str) -> object:
        if name in self._old:
            return self._old[name]
        start = self._context.event_store.first(self._run)
        commit = _commit_of(self._context, start)
        if commit is None or commit.run != self._run or not commit.parents:
            return _ABSENT
        return _load_argument(self._context, commit.parents[0], name)

    def _is_the_runs(self, start: TaskStart, name: str) -> bool:
        """Whether the variable is as the run left it: what a person made of it since stays."""
        session = self._context.session
        if session is None:
            return False  # nothing is known any more of what stood there
        last = next(
            (one.after for one in reversed(list(self._context.event_store.of(start.run))) if one.after), start.before
        )
        try:
            stored = session.repo.tree_at(_id(last)).get(name)
        except AgentKernelError:
            return False
        now = session.repo.tree_at(session.head).get(name)
        return stored is now or (stored is not None and stored.is_same_value(now))


def _read_argument(context: ExecutionContext, start: TaskStart, name: str) -> object:
    """An argument as the history has it; the variable itself where that is the same still."""
    if context.session is None or not start.before:
        return _ABSENT
    repo = context.session.repo
    entry = repo.tree_at(_id(start.before)).get(name) if _commit_of(context, start) is not None else None
    if entry is None:
        return _ABSENT
    value = context.namespace.get(name, _ABSENT)
    is_loaded = value is not _ABSENT and load_failure_of(value) is None
    if is_loaded and entry.is_same_value(repo.tree_at(context.session.head).get(name)):
        return value
    return _load_argument(context, _id(start.before), name)


def _load_argument(context: ExecutionContext, commit: ObjectId, name: str) -> object:
    assert context.session is not None
    try:
        return Snapshot(context.session.repo, commit, context.namespace)[name]
    except (AgentKernelError, KeyError):
        return _ABSENT


def _commit_of(context: ExecutionContext, start: TaskStart) -> Commit | None:
    """The commit that made variables of them, if it is in the history still."""
    if context.session is None or not start.before:
        return None
    try:
        return context.session.repo.commit_at(_id(start.before))
    except AgentKernelError:
        return None


def _id(digits: str) -> ObjectId:
    return ObjectId(bytes.fromhex(digits) + b"\x01")
