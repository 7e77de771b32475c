"""Where a run acts: a namespace, what runs code in it, what keeps its history, and the journal of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agent_kernel.agents import context
from agent_kernel.agents.executing import Executor, PlainExecutor
from agent_kernel.agents.journal import Journal
from agent_kernel.repository import hex_of
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.agents.executing import Executed
    from agent_kernel.repository import Author, Change, Unsaved
    from agent_kernel.session import Session
    from agent_kernel.session.reports import Report
    from agent_kernel.storage import Store

__all__ = ["Place"]


class Place:
    """One namespace in which agents act.

    Args:
        session: keeps its history; None: there is none.
        journal: keeps the events; by default in the session's store, or in memory.
        executor: by default code runs as in a script.
        names: those that are the user's; by default all that a session would version.
        hidden: says which names no model is told of.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        session: Session | None = None,
        *,
        journal: Journal | None = None,
        executor: Executor | None = None,
        names: Callable[[], Iterable[str]] | None = None,
        hidden: Callable[[str], bool] = lambda _name: False,
        cell: Callable[[], tuple[str, int | None]] = lambda: ("", None),
    ) -> None:
        self.namespace = namespace
        self.session = session
        self.executor = executor or PlainExecutor(namespace)
        self.journal = journal or Journal(session.repo.store if session is not None else _in_memory())
        self.hidden = hidden
        self.cell = cell
        self._names = names

    def names(self) -> list[str]:
        """The variables that a model may be told of."""
        if self._names is not None:
            found = self._names()
        elif self.session is not None:
            found = self.session.workspace.bindings.names(self.namespace)
        else:
            found = (name for name in self.namespace if not name.startswith("__"))
        return [name for name in found if not self.hidden(name)]

    @property
    def head(self) -> str:
        """The commit that the namespace is at, in hex digits; "" without a history."""
        at = self.session.head if self.session is not None else None
        return "" if at is None else hex_of(at)

    def begin(self, code: str, author: Author, run: str, step: int) -> None:
        """Code of an agent is about to run."""
        if self.session is not None:
            cell, number = self.cell()
            self.session.begin_step(code, author=author, run=run, step=step, cell_id=cell, number=number)
        else:
            self._before = {name: id(value) for name, value in self.namespace.items()}
            self._held = list(self.namespace.values())  # as long as ids are compared

    def end(self, done: Executed | None) -> tuple[list[Change], list[Unsaved]]:
        """It has run: what it changed, and what of it could not be saved."""
        from agent_kernel.repository import Change

        if self.session is not None:
            error = done.error if done is not None else KeyboardInterrupt()
            report: Report | None = self.session.end_step(error=error, outputs=done.outputs if done else None)
            return (list(report.changed), list(report.unsaved)) if report is not None else ([], [])
        now, before = self.namespace, self._before
        self._held = []
        new = [Change(name, "+") for name in now if name not in before and not name.startswith("__")]
        rebound = [Change(name, "~") for name, value in now.items() if name in before and before[name] != id(value)]
        return [*new, *rebound, *(Change(name, "-") for name in before if name not in now)], []

    def summary(self, name: str) -> str:
        """One line about a variable as it is now, without running any of its code."""
        return summaries.line(summaries.summarize(self.namespace.get(name), name))

    def describe(self, task: str, budget_tokens: int) -> str:
        """The namespace for a model."""
        return context.describe(
            self.namespace, self.names(), task=task, recent=self._recent(), budget_tokens=budget_tokens
        )

    def _recent(self) -> list[str]:
        """Names that the last commits changed, the latest first."""
        if self.session is None or self.session.head is None:
            return []
        found: dict[str, None] = {}
        for _, commit in self.session.repo.log(self.session.head, limit=20):
            found |= dict.fromkeys(change.name for change in commit.changed)
        return list(found)

    def quiet_paths(self) -> tuple[str, ...]:
        """Where files are written by the store itself."""
        url = self.session.repo.store.url if self.session is not None else ""
        return (url.removeprefix("lmdb://"),) if url.startswith("lmdb://") else ()


def _in_memory() -> Store:
    from agent_kernel.storage import MemoryStore

    return MemoryStore()
