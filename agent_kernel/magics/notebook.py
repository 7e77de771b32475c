"""One IPython shell, whose cells are told to the session that it is bound to now, if any."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from agent_kernel.errors import AgentKernelError, InvalidRefNameError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.magics.binding import Binding, Options
from agent_kernel.magics.cells import has_agent_header
from agent_kernel.repository import Author
from agent_kernel.session.branches import person
from agent_kernel.verbs.text import place_text

if TYPE_CHECKING:
    from agent_kernel.magics.agent_cell import AgentCell
    from agent_kernel.magics.shell import Shell
    from agent_kernel.magics.tasks.door import Tasks
    from agent_kernel.verbs.scope import Scope

__all__ = ["LiveNotebook", "starts_with_the_kernel"]

logger = logging.getLogger(__name__)


class LiveNotebook(Binding):
    """Tells the session of each cell."""

    def __init__(self, shell: Shell, options: Options) -> None:
        super().__init__(shell, options)
        self._tasks: Tasks | None = None
        self.cell_id = ""  # of the cell that runs
        self.cell_number: int | None = None
        self._is_agents = False  # whether that is an agent's, taken for Python

    @property
    def tasks(self) -> Tasks:
        """What agents do here; what they need loads with the first task."""
        if self._tasks is None:
            from agent_kernel.magics.tasks.door import Tasks

            self._tasks = Tasks(self._shell, self, self._outputs)
        return self._tasks

    @property
    def options(self) -> Options:
        """What the user configured."""
        return self._options

    @property
    def footer(self) -> bool:
        """Whether a line under a cell may say what it changed."""
        return self._options.footer

    def scope(self) -> Scope:
        """What a verb acts on when it is used here."""
        from agent_kernel.verbs.scope import Scope

        return Scope(self.repo, self.session, self)

    def record(self, on: bool) -> None:
        """Let cells be commits, or stop it; the session stays."""
        self._options.commits = "all" if on else "off"

    def sign(self, author: str) -> None:
        """Another author was configured: theirs are the cells from the next one on."""
        if self.session is not None:
            self.session.author = Author(author) if author else person()

    def starts(self, shown: bool) -> None:
        """A cell has the main thread."""
        self.beside.cell_begins(f"[{self.number()}]" if shown else "")

    def rests(self) -> None:
        """No cell runs any more."""
        self.beside.cell_ends()

    def begin(self, source: str, cell_id: str) -> bool:
        """A cell that counts begins."""
        self.cell_id, self.cell_number = cell_id, self.number()
        if self._options.commits == "off":
            return False
        self.bind_first()
        is_agents = has_agent_header(source)
        agent = self._agent_of(source) if is_agents else None
        if is_agents and agent is None:
            return False
        if self.session is None or (self._options.commits == "agent" and agent is None):
            return False
        self._is_agents = agent is not None and not agent.python
        if agent is not None:
            self._warn_of_a_verb(agent.agent)
        author = Author(agent.agent, "agent") if agent else None
        try:
            if self._options.commits == "agent":
                self.session.commit()  # what the person's cells changed is not the agent's doing
            number = self.number()
            found = self.session.begin_cell(source, cell_id=cell_id, number=number, author=author)
            self._outputs.begin(number)
        except KeyboardInterrupt:
            self._notices.warn("interrupted while committing what was there before; the next cell commits it")
            return False
        except Exception as error:  # noqa: BLE001 - a cell is never lost for its commit
            self._failed(error)
            return False
        if found is not None:
            self._notices.report(found)
        return True

    def _agent_of(self, source: str) -> AgentCell | None:
        """The agent whose Python this cell is; None where none of it runs."""
        from agent_kernel.magics.agent_cell import runs, split_cell
        from agent_kernel.verbs.parsing import Helped, UsageProblem

        try:
            agent = split_cell(source)
        except (UsageProblem, Helped, InvalidRefNameError):
            return None  # the magic meets the same problem, and says so
        is_python = agent is not None and runs(agent, self._shell.transform_cell, list(self._shell.user_ns))
        return agent if is_python else None

    def _warn_of_a_verb(self, agent: str) -> None:
        from agent_kernel.verbs.table import VERBS

        if agent in VERBS:
            self._notices.warn(f"{agent!r} is taken for the agent's name here; the verb is a line, %agent {agent}")

    def ran_between(self) -> None:
        """A widget's message was handled: what that may have changed is looked at with the cell that ends now."""
        if self.session is not None:
            self.session.workspace.ran_between = True

    def end(self, error: BaseException | None) -> None:
        """It has ended: commit what it did."""
        if self.session is None:
            return
        try:
            report = self.session.end_cell(error=error, outputs=self._outputs.end())
        except KeyboardInterrupt:
            self._notices.warn("interrupted while committing; the next cell commits what is missing")
            return
        except Exception as failure:  # noqa: BLE001 - a cell is never lost for its commit
            self._failed(failure)
            return
        if report is not None:
            self._notices.report(report, self.beside.committed)
        self.spare_modules(report)
        if self._is_agents and isinstance(error, SyntaxError | NameError):
            self._notices.say("if this was meant as a task, not as Python: %%agent --task")

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, AgentKernelError):
            logger.debug("a cell was not committed", exc_info=error)
        said = str(error) if isinstance(error, AgentKernelError) else f"{type(error).__name__}: {error}"
        here = place_text(self.repo.store.url) if self.repo is not None else "PLACE"
        gone = isinstance(error, StoreUnavailableError) and not isinstance(error, StoreReadOnlyError)
        way = f"%agent bind {here} opens it or makes it anew" if gone else "%agent bind PLACE puts the store elsewhere"
        hint = f"; {way}" if isinstance(error, StoreUnavailableError) else ""
        if not isinstance(error, AgentKernelError):
            hint = "; the next cell's commit takes these changes along"
        self._notices.warn(f"this cell is not committed: {said}{hint}")

    def number(self) -> int:
        # Of the cell that begins: IPython counts up before it calls the hook, older releases after; the inputs so far say
        # the same in both.
        history = self._shell.history_manager
        return len(history.input_hist_parsed) if history is not None else self._shell.execution_count


def starts_with_the_kernel(shell: Shell) -> bool:
    """Whether this kernel is being started just now, so that no cell of a notebook is running yet."""
    if getattr(shell, "kernel", None) is None:
        return False
    get_parent = cast("Callable[[], object]", getattr(shell, "get_parent", dict))
    return not get_parent()
