"""Where a run acts: a namespace, what runs code in it, what keeps its history, and the journal of its events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from agent_kernel.agents import messages
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.execution import Executor, PlainExecutor
from agent_kernel.agents.messages import Redactor
from agent_kernel.errors import AgentKernelError, CellThreadError
from agent_kernel.repository import hex_of
from agent_kernel.session.tracking import HideList
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.execution import CodeResult
    from agent_kernel.repository import Author, Change, Entry, ObjectId, Unsaved
    from agent_kernel.session import Session
    from agent_kernel.session.operations import Report
    from agent_kernel.storage import Store

__all__ = ["ExecutionContext"]


class ExecutionContext:
    """One namespace in which agents act.

    Args:
        session: keeps its history; None: it has no history.
        journal: keeps the events; by default in the session's store, or in memory.
        executor: by default code runs as in a script.
        names: those that are the user's; by default all that a session would version.
        on_main: code runs where the cells run, on the main thread alone.
        moved: tells whoever shows the history here that something happened, where no cell does.
        hidden: says which names no model is told of; by default those that the store's list has, and those that were
            forgotten with what code says of them.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        session: Session | None = None,
        *,
        event_store: EventStore | None = None,
        executor: Executor | None = None,
        names: Callable[[], Iterable[str]] | None = None,
        hidden: Callable[[str], bool] | None = None,
        cell: Callable[[], tuple[str, int | None]] = lambda: ("", None),
        on_main: bool = False,
        moved: Callable[[], object] = lambda: None,
    ) -> None:
        self.namespace = namespace
        self.session = session
        self.executor = executor or PlainExecutor(namespace)
        self.event_store = event_store or EventStore(session.repo.store if session is not None else _in_memory())
        self._hide_list = HideList(session.repo) if session is not None and hidden is None else None
        self._forgotten = frozenset[str]()  # later commits mask them, so events do not keep them either
        self._hides = hidden
        self.policy = "values"  # how much of a variable models are told unasked
        self.redactor = Redactor(self.is_hidden)
        self.cell = cell
        self.moved = moved
        self._on_main = on_main
        self._names = names
        self.is_notebook = False  # it is the notebook's own, which a program asked for (`current.here`)
        self.start_commit: ObjectId | None = None  # the commit at which the step began that runs
        self.merged_entries: dict[str, Entry | None] = {}  # what merges of sub-agents changed in it, as they left it

    def __reduce__(self) -> tuple[object, ...]:
        from agent_kernel.agents.current import here_again

        if not self.is_notebook:
            raise TypeError("an execution context holds an open store")
        return here_again, ()

    def is_hidden(self, name: str) -> bool:
        """Whether no model is told of this name."""
        if self._hides is not None:
            return self._hides(name)
        return self._hide_list is not None and (name in self._hide_list or name in self._forgotten)

    def is_visible(self, name: str) -> bool:
        """Whether a model may be told of this name: it is not hidden, and no secret by itself."""
        return not self.is_hidden(name) and not self.redactor.knows(name)

    def learn_secrets(self, names: Iterable[str] | None = None) -> None:
        """Learn which values must not be sent: of these variables, by default of all."""
        if self._hide_list is not None:
            self._hide_list.reread()
            self._forgotten = self.session.repo.masked_names() if self.session is not None else self._forgotten
        if names is None:
            self.redactor.learn_environment()
            names = {*self._users(), *filter(self.is_hidden, list(self.namespace))}
        self.redactor.learn(self.namespace, names)

    def redact(self, text: str, most_chars: int = 100_000) -> str:
        """The text as it may be sent and kept, no longer than so many characters."""
        return messages.cut(self.redactor.redact(text), most_chars)

    def redact_output(self, text: str, most_chars: int = 100_000) -> str:
        """What code gave, as it may be sent and kept: nothing where hidden values may be left in it."""
        return self.redact(text, most_chars) if self.redactor.is_complete or not text else self.redactor.withheld

    def redact_environment(self, result: CodeResult) -> CodeResult:
        """What running code came to as it is stored: without the environment that it may have shown."""
        self.redactor.learn_environment()
        mask = self.redactor.without_environment
        parts = tuple(structs.replace(part, text=mask(part.text)) for part in result.parts)
        outputs = None if result.outputs is None else result.outputs.with_texts(mask)
        return structs.replace(result, text=mask(result.text), parts=parts, outputs=outputs)

    def names(self) -> list[str]:
        """The variables that a model may be told of."""
        return [name for name in self._users() if self.is_visible(name)]

    def _users(self) -> Iterable[str]:
        """The variables, less those of the front end."""
        if self._names is not None:
            return self._names()
        if self.session is not None:
            return self.session.workspace.bindings.names(self.namespace)
        return [name for name in self.namespace if not name.startswith("__")]

    def read_stored_names(self) -> Container[str]:
        """The variables that the branch has, whether they are in memory or not."""
        return self.session.repo.tree_at(self.session.head) if self.session is not None else ()

    @property
    def head(self) -> str:
        """The commit that the namespace is at, in hex digits; "" without a history. Whoever asks may refer to it."""
        if self.session is not None:
            self.session.keep_record_commits()
        at = self.session.head if self.session is not None else None
        return "" if at is None else hex_of(at)

    def wait_turn(self) -> None:
        """Wait until no other thread runs a step here.

        Raises:
            StepBusyError: one runs for long. CellThreadError: the cells of a notebook run on another thread than this.
        """
        if self._on_main and threading.current_thread() is not threading.main_thread():
            raise CellThreadError
        if self.session is not None:
            self.session.wait_turn()

    def begin(self, code: str, author: Author, run: str, step: int) -> None:
        """Code of an agent is about to run."""
        if self.session is not None:
            cell, number = self.cell()
            self.session.begin_step(code, author=author, run=run, step=step, cell_id=cell, number=number)
            self.start_commit, self.merged_entries = self.session.head, {}
        else:
            self._before = dict(self.namespace)

    def take_back(self) -> str:
        """Put the variables back to where the step began that runs; what to say of what stays."""
        if self.session is None:
            for name in [name for name in self.namespace if name not in self._before and not name.startswith("__")]:
                del self.namespace[name]
            self.namespace.update(self._before)
            return "names stand for what they did before, but what it changed within an object stays"
        try:
            unsaved = self.session.take_back(self.start_commit)
        except AgentKernelError as error:
            return f"its variables could not be taken back: {error}"
        return f"what {', '.join(unsaved)} held before could not be saved, and is gone" if unsaved else ""

    def end(
        self, result: CodeResult | None, refuses: Callable[[], bool] = lambda: False
    ) -> tuple[list[Change], list[Unsaved], str]:
        """It has run: what it changed, what of it could not be saved, and what to say of what stays of one that is taken back.

        Args:
            refuses: whether to take it back: asked as it begins, and once its variables were looked at.
        """
        from agent_kernel.repository import Change

        is_refused = refuses()
        notes = [self.take_back()] if is_refused else []
        if self.session is not None:
            report: Report | None = self.session.end_step(
                error=result.error if result is not None else KeyboardInterrupt(),
                outputs=result.outputs if result else None,
                refuses=(lambda: False) if is_refused else refuses,
                take_back=lambda: notes.append(self.take_back()),
            )
            unsaved = list(report.unsaved) if report is not None else []
            return self._find_changes(self.session, report), unsaved, "".join(notes)
        now, before = self.namespace, self._before
        self._before = {}
        new = [Change(name, "+") for name in now if name not in before and not name.startswith("__")]
        rebound = [Change(name, "~") for name, value in now.items() if name in before and before[name] is not value]
        return [*new, *rebound, *(Change(name, "-") for name in before if name not in now)], [], "".join(notes)

    def _find_changes(self, session: Session, report: Report | None) -> list[Change]:
        """What the step changed: by its last commit, or by all, where it was committed for sub-agents in its midst."""
        record = report.record if report is not None and report.commit is not None else None
        if session.head in (None, self.start_commit) or (
            record is not None and record.parents[:1] == (self.start_commit,)
        ):
            return list(report.changed) if report is not None else []
        from agent_kernel.session.history import changes_between

        repo = session.repo
        return list(changes_between(repo, repo.tree_at(self.start_commit), repo.tree_at(session.head)))

    def find_own_changes(self, at: ObjectId) -> set[str]:
        """What the step had changed by this commit, less what its sub-agents did and it left as it was then."""
        assert self.session is not None
        repo, found = self.session.repo, set[str]()
        for name, _, after in repo.tree_at(self.start_commit).diff(repo.tree_at(at)):
            brought = self.merged_entries.get(name)
            is_brought = name in self.merged_entries and (
                brought is after or (brought and brought.is_same_value(after))
            )
            if not is_brought and not name.startswith("\0"):
                found.add(name)
        return found

    def summary(self, name: str) -> str:
        """One line about a variable as it is now, without running any of its code."""
        policy = self.policy if self.redactor.is_complete or self.policy == "names" else "schema"
        return self.redact(messages.value_text(previews.make_preview(self.namespace.get(name), name), policy))

    def describe(self, task: str, room: int) -> str:
        """The namespace for a model, in no more than so many characters."""
        return messages.describe(self.names(), self.summary, task=task, recent=self._recent(), room=room)

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
