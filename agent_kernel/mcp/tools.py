"""What agents outside can do: look at variables and their history, run code, go back. Each answer is text, for a model.

Looking loads nothing: values are told by their summaries. What looks like a secret is masked in every answer, names that
are hidden from agents are not told, and an answer has a length that a model can read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import messages
from agent_kernel.agents.moves import Move, signed
from agent_kernel.agents.redaction import HIDDEN, Redactor
from agent_kernel.browsing import row_lines
from agent_kernel.errors import AgentKernelError, NameNotFoundError
from agent_kernel.repository import split_path
from agent_kernel.session.ignoring import HideList
from agent_kernel.verbs import describe
from agent_kernel.verbs.checkout import spelled_out
from agent_kernel.verbs.parsing import UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.table import answer

if TYPE_CHECKING:
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.mcp.stepping import Steps
    from agent_kernel.repository import Entry
    from agent_kernel.session import Repository

__all__ = ["TOOLS", "Told", "Tools"]

MOST_CHARS: Final = 20_000
_MOST_NAMES: Final = 500
_WORD = re.compile(r"[^\W\d]\w*")


class Told(msgspec.Struct, frozen=True):
    """The answer of a tool."""

    text: str
    failed: bool = False


class Tools:
    """The tools, on one namespace and its history.

    Args:
        live: the namespace, opened when it is first needed; None where nothing but looking has been asked for.
        steps: runs code in it, as steps of an agent.
    """

    def __init__(
        self,
        repo: Repository | None,
        live: Callable[[], ExecutionContext | None],
        steps: Steps,
    ) -> None:
        self._repo = repo
        self._live = live
        self._steps = steps
        self._hidden = HideList(repo) if repo is not None else None

    def call(self, tool: str, arguments: dict[str, object]) -> Told:
        """Use a tool by its name. What goes wrong on purpose is an answer too."""
        if tool not in TOOLS:
            return Told(f"there is no tool {tool!r}; the tools are {', '.join(TOOLS)}", failed=True)
        use: Callable[..., str] = getattr(self, tool)
        try:
            return Told(self._clean(use(**arguments)))
        except (AgentKernelError, UsageProblem) as error:
            return Told(self._clean(str(error)), failed=True)

    # -- looking

    def list_variables(self, ref: str = "HEAD") -> str:
        """All variables, a line each: name, type, shape and a short value.

        Args:
            ref: as they were at this commit, branch or tag; HEAD is now.
        """
        place = self._live()
        if place is not None and ref == "HEAD":
            lines = {name: _live_line(place, name) for name in place.names()[:_MOST_NAMES]}
            many = len(place.names())
        else:
            repo = self._scope().repo
            tree = repo.tree(self._scope().commit(ref)[1].tree)
            names = [name for name in tree if not name.startswith("\0") and not self._is_hidden(name)]
            lines = {name: _stored_line(repo, name, tree.get(name)) for name in sorted(names)[:_MOST_NAMES]}
            many = len(names)
        more = [f"… and {many - len(lines)} more"] if many > len(lines) else []
        return "\n".join([*(f"{name}: {line}" for name, line in lines.items()), *more]) or "There are no variables yet."

    def preview(self, name: str, ref: str = "HEAD") -> str:
        """One variable: what it is, and the first rows of a table. No code of its own runs for it.

        Args:
            ref: as it was at this commit, branch or tag; HEAD is now.
        """
        if self._is_hidden(name):
            raise NameNotFoundError(name, ref)
        place = self._live()
        try:
            return self._said("show", f"{ref}:{name}")
        except NameNotFoundError:
            if place is None or ref != "HEAD" or name not in place.names():
                raise
            return f"{name}: {place.summary(name)} (not saved)"

    def history(self, limit: int = 20, name: str = "") -> str:
        """The history, newest first: commit, what ran, which variables it changed.

        Args:
            limit: at most so many commits.
            name: only those that changed this variable.
        """
        return self._said("log", "-n", str(max(1, min(limit, 200))), *(["--", name] if name else []))

    def show(self, ref: str = "HEAD") -> str:
        """One commit: its code, what it showed, and what it did to each variable.

        Args:
            ref: a commit, branch or tag; HEAD is the newest.
        """
        if split_path(ref)[1] is not None:
            raise UsageProblem("show takes a commit; preview takes a variable")
        return self._said("show", ref, "--outputs")

    def diff(self, old: str = "HEAD~1", new: str = "HEAD", name: str = "") -> str:
        """Which variables differ between two commits, and how.

        Args:
            name: only this variable.
        """
        return self._said("diff", old, new, *(["--", name] if name else []))

    # -- acting

    def run_python(self, code: str, purpose: str = "") -> str:
        """Run Python in the namespace. What it printed, the value of its last expression and what it changed come back.

        Variables stay from call to call. Each call is a commit in your name, which can be undone; files, processes and
        messages to others cannot. A call may have to wait for a person's approval: then it has not run, and the answer
        says what to do.

        Args:
            purpose: why, in a few words, for the person who reads the history.
        """
        return self._steps.run(code, purpose)

    def result(self, run: str) -> str:
        """What came of a call that had to wait for approval, once a person has decided.

        Args:
            run: the id that run_python gave.
        """
        if not run.strip():
            raise UsageProblem("result takes the id of a run, as run_python gave it")
        return self._steps.result(run.strip())

    def checkout(self, ref: str, name: str = "") -> str:
        """Load all variables as they were at a commit, branch or tag.

        Where that would take back what others did, it may have to wait for a person's approval, as run_python says.

        Args:
            name: only this variable, into what is there now.
        """
        move = Move(spelled_out(ref) or ref, name)
        return self._moved(move, "checkout", ref, *(["--", name] if name else []))

    def undo(self) -> str:
        """Take back the last operation on the variables.

        Where somebody else did it, this may have to wait for a person's approval, as run_python says.
        """
        return self._moved(Move(), "undo")

    # -- answering

    def _said(self, *words: str) -> str:
        return answer(words, self._scope())[0].to_text(120)

    def _moved(self, move: Move, *words: str) -> str:
        """Make a move in the agent's name, or say what it waits for."""
        place = self._steps.opened()
        asked = self._steps.asked(move)
        if asked or place.session is None:
            return asked or self._said(*words)
        with signed(place.session, self._steps.author):
            return self._said(*words)

    def _scope(self) -> Scope:
        place = self._live()
        session = place.session if place is not None else None
        repo = session.repo if session is not None else self._repo
        return Scope(repo, session, command="agent-kernel", row_lines=row_lines)

    def _is_hidden(self, name: str) -> bool:
        place = self._live()
        return not place.tells(name) if place is not None else self._hidden is not None and name in self._hidden

    def _clean(self, text: str) -> str:
        """The text as it may be told: masked, without hidden names, and no longer than a model can read."""
        place = self._live()
        redactor = Redactor(self._is_hidden)
        if place is not None:
            place.look()
            redactor = place.redactor
        elif self._hidden is not None:
            self._hidden.reread()
        shown = messages.cut(redactor.masked(text) if redactor.is_complete else redactor.withheld, MOST_CHARS)
        hidden = {word for word in set(_WORD.findall(shown)) if self._is_hidden(word)}
        return _WORD.sub(lambda found: HIDDEN if found[0] in hidden else found[0], shown) if hidden else shown


TOOLS: Final = (
    "list_variables",
    "preview",
    "history",
    "show",
    "diff",
    "run_python",
    "result",
    "checkout",
    "undo",
)


def _live_line(place: ExecutionContext, name: str) -> str:
    """A live variable, and that it is not saved, where that is so of what HEAD has of it."""
    line = place.summary(name)
    if place.session is None or place.session.head is None:
        return line
    repo = place.session.repo
    entry = repo.tree_at(place.session.head).get(name)
    summary = describe.summary_of(repo, entry) if entry is not None else None
    is_of_head = summary is not None and line.partition(",")[0] == summary.type  # else it changed since
    return _stored_line(repo, name, entry) if is_of_head and describe.not_saved(repo, name, entry) else line


def _stored_line(repo: Repository, name: str, entry: Entry | None) -> str:
    missing = describe.not_saved(repo, name, entry)
    if missing is None or not missing.is_whole:
        return describe.entry_said(repo, name, entry)
    summary = describe.summary_of(repo, entry) if entry is not None else None
    return f"{summary.type} ({missing.said})" if summary is not None else missing.said  # its size is a placeholder's


def about(tool: str) -> str:
    """What a model is told of a tool."""
    return inspect.getdoc(getattr(Tools, tool)) or ""
