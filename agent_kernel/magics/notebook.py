"""One IPython shell, whose cells are told to the session that it is bound to now, if any."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from agent_kernel.errors import AgentKernelError, InvalidRefNameError, StoreReadOnlyError, StoreUnavailableError
from agent_kernel.magics.binding import Binding, Options
from agent_kernel.repository import Author, person
from agent_kernel.text import shorten_url

if TYPE_CHECKING:
    from agent_kernel.commands.scope import Scope
    from agent_kernel.magics.agent_cell import AgentCell
    from agent_kernel.magics.shell import CellInfo, Outcome, Shell
    from agent_kernel.magics.tasks import Tasks

__all__ = [
    "CellHooks",
    "CellRecorder",
    "LiveNotebook",
    "cell_id_of",
    "has_agent_header",
    "is_only_agent_lines",
    "starts_with_the_kernel",
]


# -- which cells become commits: the two hooks around every cell, and nothing else
#
# IPython calls `pre_run_cell` and `post_run_cell` for cells inside cells, for hidden executions and, with subshells, on
# other threads. A pair counts when it is the outermost one on the main thread, of a cell that goes into the history. The
# cell that loads the extension ends without having begun, and is left alone.

_AGENT_HEADER = re.compile(r"%%agent(?:\s|$)")
_AGENT_LINE = re.compile(r"\s*%agent(?:\s|\?|$)")


class CellRecorder(Protocol):
    """What is told of the cells that run. Must not raise: a cell is never lost for its commit."""

    def starts(self, is_numbered: bool) -> None:
        """The main thread is a cell's from now on, whether it counts or not. `is_numbered`: it has a number."""
        ...

    def rests(self) -> None:
        """No cell runs any more, and the end of the one that counted has been told."""
        ...

    def begin(self, source: str, cell_id: str) -> bool:
        """A cell begins. Return whether to report its end too."""
        ...

    def end(self, error: BaseException | None) -> None:
        """It has ended, this way."""
        ...

    def note_widget_activity(self) -> None:
        """Code ran outside cells since the last cell that counted, such as a widget's handler."""
        ...


class CellHooks:
    """Finds the cells that count among all that run."""

    def __init__(self, recorder: CellRecorder, is_main: Callable[[], bool] | None = None) -> None:
        self._recorder = recorder
        self._is_main = is_main or _on_the_main_thread
        self._running: list[CellInfo] = []
        self._begun = False
        self._executions = 0  # since the last outermost cell began or ended
        self._others = 0  # of those, what was no cell, since the last that counted

    def pre_execute(self) -> None:
        """Code is about to run: of a cell, or of what handles a message of a widget."""
        self._executions += self._is_main()

    def pre_run_cell(self, info: CellInfo) -> None:
        if not self._is_main():
            return
        self._running.append(info)
        if len(self._running) == 1:
            source = info.raw_cell
            is_numbered = info.store_history and not info.silent
            self._recorder.starts(is_numbered)
            self._others += max(self._executions - 1, 0)  # one is the cell's own
            self._executions = 0
            counts = is_numbered and not is_only_agent_lines(source)
            self._begun = counts and self._recorder.begin(source, cell_id_of(info))

    def post_run_cell(self, result: Outcome | None) -> None:
        if not self._is_main() or not self._running:
            return
        # A cell that was cancelled has no result: it is the innermost one.
        info = self._running[-1] if result is None else self._find_running(result.info)
        if info is None:
            return  # it began before the extension was loaded
        while self._running.pop() is not info:
            pass
        if self._running:
            return
        if self._begun:
            self._begun = False
            if self._others or self._executions:
                self._recorder.note_widget_activity()
            self._others = self._executions = 0
            self._recorder.end(_error_of(result))
        self._recorder.rests()

    def _find_running(self, info: CellInfo) -> CellInfo | None:
        """What a cell that ended was called when it began."""
        for running in reversed(self._running):
            if running is info:
                return running
        # Where an error cannot be shown, or showing it is interrupted, IPython describes the cell a second time.
        same = (running for running in reversed(self._running) if running.raw_cell == info.raw_cell)
        return next(same, None)


def _on_the_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _error_of(result: Outcome | None) -> BaseException | None:
    if result is None:
        return KeyboardInterrupt()
    error = result.error_before_exec or result.error_in_exec
    if error is None or isinstance(error, Exception):
        return error
    from asyncio import CancelledError  # only now: it brings sockets and encryption, which a terminal may never need

    # A cell that awaits is not interrupted but cancelled.
    return KeyboardInterrupt() if isinstance(error, CancelledError) else error


def is_only_agent_lines(source: str) -> bool:
    """Whether the cell holds `%agent` lines, whoever says them, and nothing else that could change a variable."""
    lines = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if lines and _AGENT_HEADER.match(lines[0]):
        del lines[0]
    return bool(lines) and all(_AGENT_LINE.match(line) for line in lines)


def has_agent_header(source: str) -> bool:
    """Whether the cell begins with `%%agent`."""
    return _AGENT_HEADER.match(source.lstrip("\n")) is not None


def cell_id_of(info: CellInfo) -> str:
    """The cell's id as the notebook knows it, as far as the front end tells; "" where it does not.

    VS Code sends the URI of the cell, whose path says where on the disk someone works: only its fragment is kept.
    """
    id: object = getattr(info, "cell_id", None)
    if not isinstance(id, str):
        return ""
    return f"vscode:{id.rpartition('#')[2]}" if ":" in id and "#" in id else id


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
            from agent_kernel.magics.tasks import Tasks

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
        from agent_kernel.commands.scope import Scope
        from agent_kernel.queries import row_lines

        return Scope(self.repo, self.session, self, row_lines=row_lines)

    def record(self, on: bool) -> None:
        """Let cells be commits, or stop it; the session stays."""
        self._options.commits = "all" if on else "off"

    def set_author(self, author: str) -> None:
        """Another author was configured: theirs are the cells from the next one on."""
        if self.session is not None:
            self.session.author = Author(author) if author else person()

    def starts(self, is_numbered: bool) -> None:
        """A cell has the main thread."""
        self.panels.cell_begins(f"[{self.number()}]" if is_numbered else "")

    def rests(self) -> None:
        """No cell runs any more."""
        self.panels.cell_ends()

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
            self._report_failure(error)
            return False
        if found is not None:
            self._notices.report(found, repo=self.repo)
        return True

    def _agent_of(self, source: str) -> AgentCell | None:
        """The agent whose Python this cell is; None where none of it runs."""
        from agent_kernel.commands.scope import Helped, UsageProblem
        from agent_kernel.magics.agent_cell import runs, split_cell

        try:
            agent = split_cell(source)
        except (UsageProblem, Helped, InvalidRefNameError):
            return None  # the magic meets the same problem, and says so
        is_python = agent is not None and runs(agent, self._shell.transform_cell, list(self._shell.user_ns))
        return agent if is_python else None

    def _warn_of_a_verb(self, agent: str) -> None:
        from agent_kernel.commands.table import COMMANDS

        if agent in COMMANDS:
            self._notices.warn(f"{agent!r} is taken for the agent's name here; the verb is a line, %agent {agent}")

    def note_widget_activity(self) -> None:
        """A widget's message was handled: what that may have changed is looked at with the cell that ends now."""
        if self.session is not None:
            self.session.workspace.code_ran_between = True

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
            self._report_failure(failure)
            return
        if report is not None:
            self._notices.report(report, self.panels.show_commit, self.repo)
        self.spare_modules(report)
        if self._is_agents and isinstance(error, SyntaxError | NameError):
            self._notices.say("if this was meant as a task, not as Python: %%agent --task")

    def _report_failure(self, error: Exception) -> None:
        if not isinstance(error, AgentKernelError):
            logger.debug("a cell was not committed", exc_info=error)
        message = str(error) if isinstance(error, AgentKernelError) else f"{type(error).__name__}: {error}"
        place = shorten_url(self.repo.store.url) if self.repo is not None else "PLACE"
        is_gone = isinstance(error, StoreUnavailableError) and not isinstance(error, StoreReadOnlyError)
        way = (
            f"%agent bind {place} opens it or makes it anew"
            if is_gone
            else "%agent bind PLACE puts the store elsewhere"
        )
        hint = f"; {way}" if isinstance(error, StoreUnavailableError) else ""
        if not isinstance(error, AgentKernelError):
            hint = "; the next cell's commit takes these changes along"
        self._notices.warn(f"this cell is not committed: {message}{hint}")

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
