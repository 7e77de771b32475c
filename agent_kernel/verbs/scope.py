"""What a verb acts on: a repository, the live session if there is one, and the door that was used."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from agent_kernel.errors import NotBoundError, RefNotFoundError
from agent_kernel.repository import Commit, Entry, Head, ObjectId, split_path

if TYPE_CHECKING:
    from agent_kernel.agents.racing.race import Race
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.operations import Report
    from agent_kernel.verbs.output import Result

__all__ = ["Notebook", "Progress", "RowLines", "Scope", "Tasks"]

# The rows of a table that went, came and changed between two stored versions, in lines; None: that cannot be told.
RowLines: TypeAlias = Callable[["Repository", Entry, Entry], tuple[str, ...] | None]
Progress: TypeAlias = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


_VARIABLE = "it is a variable, which show takes as HEAD:{0}, and other verbs after -- ({0})"
_OF_A_COMMIT = "only show takes REF:NAME, and other verbs take the two apart ({0} -- {1})"
_RANGE = "it is a range, and every verb takes one commit; diff takes two ({0} {1})"

_PLAIN = re.compile(r"\w[\w@%+=:,./~^-]*|[\w./-]+")  # what neither a shell nor %agent takes apart


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


class Tasks(Protocol):
    """The agents that work in a notebook."""

    @property
    def model(self) -> str:
        """The name of the model that takes tasks; "" if none is named."""
        ...

    def choose(self, model: str) -> None:
        """Let another model take tasks. Raises: ModelError, MissingExtraError."""
        ...

    def decide(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> Result:
        """Answer for the step that waits, and let the run go on."""
        ...

    def resume(self, run: str, answer: str, *, force: bool = False, model: str = "", says: str = "") -> Result:
        """Let a run go on."""
        ...

    def check_code(self, code: str) -> None:
        """Raise UsageProblem if the text that replaces a step is not valid code."""
        ...

    def decide_apart(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> str:
        """Answer while no cell runs, and let the run go on under the cell that asked; returns how it stands then."""
        ...

    def resume_apart(self, run: str, answer: str) -> str:
        """Let a run go on while no cell runs; returns how it stands then."""
        ...

    def way_on(self, run: str) -> tuple[str, str]:
        """Why a run that stopped cannot go on here ("": it can), and the line to run where that takes a cell ("": it does not)."""
        ...

    def race(self, id: str) -> Race:
        """A race of this notebook, also one of an earlier kernel. Raises: RunNotFoundError."""
        ...

    def pick(self, id: str, number: int) -> Report:
        """Merge a candidate of a race, unless a restart took the variables and nobody brought them back."""
        ...

    def keep(self, race: Race) -> None:
        """A race is shown, and may be picked from where it is."""
        ...

    def offer_edit(self, run: str, code: str) -> None:
        """Put the code into a cell that lets it run."""
        ...


class Notebook(Protocol):
    """What only the door can do: change which store the notebook is bound to, and whether cells commit."""

    def bind(self, place: str | None, *, source: str | None, branch: str | None) -> tuple[str, ...]:
        """Bind the notebook to a store and return what to say about it."""
        ...

    def record(self, on: bool) -> None:
        """Let cells be commits, or stop it."""
        ...

    @property
    def tasks(self) -> Tasks:
        """What agents do here."""
        ...


@dataclass
class Scope:
    """One use of a verb. `session` is None on the command line."""

    bound_repo: Repository | None
    session: Session | None = None
    notebook: Notebook | None = None
    place: str = ""  # how the store was named, where the line names one
    command: str = "%agent"  # what a hint should tell them to type
    now_ns: int = field(default_factory=time.time_ns)
    progress: Progress | None = None
    row_lines: RowLines | None = None
    brief: bool = True  # someone reads the answer: the newest part of a long one will do

    def typed(self, *words: str) -> str:
        """What to type at this door, with these words."""
        verb, *rest = words
        return " ".join([self.command, verb, *map(_quoted, [self.place] if self.place else []), *map(_quoted, rest)])

    def step(self, doing: str) -> Callable[[int, int], None] | None:
        """What a long operation of the repository reports to, if someone wants to see it."""
        progress = self.progress
        return None if progress is None else lambda done, total: progress(doing, done, total)

    @property
    def repo(self) -> Repository:
        """The repository.

        Raises:
            NotBoundError: the notebook is bound to none.
        """
        if self.bound_repo is None:
            raise NotBoundError
        return self.bound_repo

    @property
    def session_id(self) -> str:
        """Whose HEAD counts: the session's, or, without one, where the store was used last."""
        return self.session.id if self.session is not None else ""

    def live(self) -> Session:
        """The session.

        Raises:
            NotBoundError: no notebook is bound here.
        """
        if self.session is None:
            raise NotBoundError
        return self.session

    def head(self) -> Head:
        return self.repo.head(self.session_id)

    def resolve(self, text: str) -> ObjectId:
        """The commit of this name, as whoever asks sees it.

        Raises:
            RefNotFoundError: no commit has this name. If a variable has it, the error says how to write that.
        """
        try:
            return self.repo.resolve(text, self.session_id)
        except RefNotFoundError as error:
            if not error.reason and self._is_variable(text):
                raise RefNotFoundError(text, error.known, _VARIABLE.format(text)) from None
            if not error.reason and ".." in text:
                ends = (end.strip(".") or "HEAD" for end in text.split("..", 1))
                raise RefNotFoundError(text, error.known, _RANGE.format(*ends)) from None
            if not error.reason and ":" in text:
                rev, name = split_path(text)
                raise RefNotFoundError(text, error.known, _OF_A_COMMIT.format(rev, name)) from None
            raise

    def _is_variable(self, text: str) -> bool:
        live = self.session.namespace if self.session is not None else {}
        return text.isidentifier() and (text in live or text in self.repo.tree_at(self.head().commit))

    def branch_meant(self, text: str) -> str | None:
        """The branch that the text names as a whole (`main`, `HEAD`, `@{-1}`); None: a commit, or nothing."""
        return self.repo.branch_meant(text, self.session_id)

    def commit(self, text: str) -> tuple[ObjectId, Commit]:
        found = self.resolve(text)
        return found, self.repo.commit_at(found)
