"""The IPython extension: which cells become commits, the `%agent` magic, the options, and what `%load_ext` registers.

Options are set in a config file (`c.AgentKernel.commits = "agent"`), on the command line (`--AgentKernel.quiet=False`)
or while it runs (`%config AgentKernel.quiet = False`). What counts only as a store is opened says so when it is set.
"""

from __future__ import annotations

import atexit
import dis
import inspect
import json
import logging
import re
import shutil
import sys
import threading
from bdb import BdbQuit
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, ClassVar, Protocol, cast
from weakref import WeakKeyDictionary

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TokenTransformBase
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Unicode
from traitlets.config import Configurable

from agent_kernel.agents.current import register_notebook
from agent_kernel.errors import (
    AgentKernelError,
    InvalidRefNameError,
    MergeConflictError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from agent_kernel.magics.binding import Binding, NoPanels, Options
from agent_kernel.repository import Author, person
from agent_kernel.text import shorten_url

if TYPE_CHECKING:
    from tokenize import TokenInfo

    from IPython.core.interactiveshell import InteractiveShell

    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.commands.describe import Json, Result
    from agent_kernel.commands.scope import Scope
    from agent_kernel.magics.agent_cell import AgentCell
    from agent_kernel.magics.binding import CellPanels
    from agent_kernel.magics.shell import CellInfo, Outcome, Shell
    from agent_kernel.magics.tasks import Tasks
    from agent_kernel.storage import Durability

logger = logging.getLogger(__name__)


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


# -- a notebook: one shell, whose cells are told to the session that it is bound to now, if any


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
        from agent_kernel.commands.scope import COMMANDS

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


# -- the `%agent` line and the `%%agent` cell
#
# A verb's answer is shown where the line stands, also in the middle of a cell, unless the code keeps it:
# `history = %agent log` gives the result itself, with `to_text`, `to_json` and `to_html`.

_SHOWN_NEXT = {"POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1"}


class PlainConflictError(MergeConflictError):
    """A merge conflict, which IPython shows as the lines that it is, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Conflict: {self}"]


# BdbQuit: the one kind of error that ends a cell, and stops those after it, without IPython showing anything of it.
class SilentUsageError(UsageError, BdbQuit):
    """A line that did nothing and said why: as JSON, with a question, or with a panel."""

    def _render_traceback_(self) -> list[str]:
        return []


class CommandInterrupted(KeyboardInterrupt):
    """A person stopped a command. Where it changes anything it does that as a whole, or not at all."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@magics_class
class AgentMagics(Magics):
    """Version control for this notebook's variables."""

    def __init__(self, shell: Shell, notebook: LiveNotebook) -> None:
        super().__init__(shell=cast("InteractiveShell", shell))
        self._shell = shell
        self._notebook = notebook

    @no_var_expand
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> object:
        """Look at, compare and restore what your variables were.

        %agent VERB …       `%agent` alone lists the commands, `%agent VERB --help` explains one
        %%agent [NAME]      the cell is that agent's: its commit names the agent as the author
        """
        from agent_kernel.commands.scope import Question, UsageProblem

        try:
            if cell is None:
                return self._line(line)
            return self._cell(line, cell)
        except MergeConflictError as conflict:
            plain = PlainConflictError(conflict.conflicts, conflict.together)
            vars(plain).update(vars(conflict))
            raise plain from None
        except Question as question:
            from agent_kernel.commands.describe import Lines

            self._show(Lines((str(question),)))
            raise SilentUsageError(str(question)) from None
        except KeyboardInterrupt as interrupt:
            if cell is not None or isinstance(interrupt, CommandInterrupted):
                raise
            verb = line.split(maxsplit=1)[0] if line.split() else "status"
            raise CommandInterrupted(f"%agent {verb} was interrupted; %agent status says where you are") from None
        except (UsageProblem, AgentKernelError, OSError) as problem:  # a folder that is gone, a path that is too long
            raise UsageError(str(problem)) from None

    def _line(self, line: str) -> Result | Json:
        from agent_kernel.commands.scope import UsageProblem, answer, error_json, wants_json, words_of

        self._notebook.bind_first()
        words = words_of(line.rstrip().removesuffix(";"))  # IPython's sign for showing nothing
        is_value_used = _is_value_used(inspect.currentframe())
        try:
            result, as_json = answer(words, self._notebook.scope())
        except (UsageProblem, AgentKernelError) as error:
            if is_value_used or not wants_json(words):
                raise
            print(json.dumps(error_json(error), ensure_ascii=False, indent=2))
            raise SilentUsageError(str(error)) from None
        stays = self._notebook.panels.show_move()
        if is_value_used:
            return result.to_json() if as_json else result
        self._notebook.mark_reported(result.unsaved)
        if as_json:
            print(json.dumps(result.to_json(), ensure_ascii=False, indent=2))
        else:
            self._show(result)
            if stays:
                from agent_kernel.commands.describe import Lines

                self._show(Lines((stays,)))
        return None

    def _show(self, result: Result) -> None:
        if not result.blocks():
            return  # what there is to see was shown as it happened
        if getattr(self._shell, "kernel", None) is None:
            self._print(result)
            return
        if self._notebook.panels.show(result):
            return
        self._shell.display_pub.publish({"text/plain": result.to_text(100), "text/html": result.to_html()})

    def _print(self, result: Result) -> None:
        """Print the answer as wide as the terminal. In a pipe or under `%%capture`, print it uncut and without colour."""
        from agent_kernel.commands.describe import colours_wanted, is_terminal

        width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
        colour = colours_wanted(sys.stdout) and str(getattr(self._shell, "colors", "")).lower() != "nocolor"
        print(result.to_text(width, colour=colour))

    def _cell(self, line: str, cell: str) -> object:
        """Do what is left of a `%%agent` cell when the input transformer did not take it: a task, above all."""
        from agent_kernel.commands.scope import Helped, UsageProblem
        from agent_kernel.magics.agent_cell import header_parser, is_python, read_header, reading_of
        from agent_kernel.magics.tasks import QUESTION, choices, in_words

        try:
            parsed = read_header(line, cell)
        except Helped as told:
            from agent_kernel.commands.describe import Lines

            self._show(Lines((str(told),)))
            return None
        if not cell.strip():
            raise UsageProblem(f"the cell is empty ({' '.join(header_parser().format_usage().split())})")
        transform = self._shell.input_transformer_manager.transform_cell
        reading = reading_of(parsed, transform, list(self._shell.user_ns))
        if reading == "code" and (parsed.python or is_python(cell, transform)):
            # Called by a program, not typed as a cell.
            self._shell.run_cell(f"%%agent {line}\n{cell}", store_history=True).raise_error()
            return None
        if reading != "task":
            offered = choices(self._shell, parsed.agent, line, cell, self._notebook.cell_id)
            if offered and self._notebook.panels.offers(QUESTION, offered):
                raise SilentUsageError(QUESTION)
            raise UsageProblem(in_words(parsed.agent))
        self._notebook.bind_first()
        return self._notebook.tasks.start(parsed)


def _open_conflicts(shell: Shell, notebook: LiveNotebook) -> Callable[[], None]:
    """Have a merge conflict that ends a cell stand open in a panel, where a person settles it. Return what ends that.

    The cell has failed all the same: those after it build on the merge.
    """
    kinds, handler = shell.custom_exceptions, shell.CustomTB

    def show_error(kind: type[BaseException], error: BaseException, trace: object, offset: int | None = None) -> object:
        if not isinstance(error, MergeConflictError):
            return handler(kind, error, trace, offset)
        from agent_kernel.agents.rights import is_within

        if not (error.rev and not is_within() and notebook.panels.chooses(error)):
            shell.showtraceback((kind, error, trace))
        return None

    def end() -> None:
        if shell.CustomTB is show_error:  # unless somebody has set another one since
            shell.custom_exceptions, shell.CustomTB = kinds, handler

    shell.custom_exceptions, shell.CustomTB = (*kinds, MergeConflictError), show_error
    return end


def _is_value_used(frame: FrameType | None) -> bool:
    """Whether the code that called the magic does something with its value."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("IPython.", __name__)):
        frame = frame.f_back
    if frame is None:
        return False
    following = (found.opname for found in dis.get_instructions(frame.f_code) if found.offset > frame.f_lasti)
    return next(following, "POP_TOP") not in _SHOWN_NEXT


def _is_verb(word: str) -> bool:
    from agent_kernel.commands.scope import COMMANDS

    return word in COMMANDS


class VerbHelp(TokenTransformBase):
    """`%agent VERB?` explains the verb; IPython alone would look for an object of that name."""

    priority = 4  # before IPython's own `?`

    def __init__(self, start: tuple[int, int]) -> None:
        super().__init__(start)  # type: ignore[no-untyped-call]  # IPython gives it no types
        self._at = start[0] - 1

    @classmethod
    def find(cls, tokens_by_line: list[list[TokenInfo]]) -> VerbHelp | None:
        for tokens in tokens_by_line:
            words = [token for token in tokens if token.string.strip()]
            strings = [token.string for token in words]
            if (
                len(strings) >= 4
                and strings[:2] == ["%", "agent"]
                and set(strings[3:]) == {"?"}
                and _is_verb(strings[2])
            ):
                return cls(words[0].start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        at = self._at
        help_line = f"{lines[at].rstrip().rstrip('?').rstrip()} --help\n"
        return [*lines[:at], help_line, *lines[at + 1 :]]


class Blanker:
    """The input transformer. IPython may run it several times for one cell: it changes nothing but the lines."""

    # Said so that IPython leaves it out where it asks whether what is typed is a whole cell. In a terminal a cell magic
    # then ends with an empty line, as they all do; a header that is blanked already would end with its first statement.
    has_side_effects = True

    def __init__(self, transform: Callable[[str], str], names: Callable[[], Iterable[str]] = tuple) -> None:
        self._transform = transform  # IPython's own, for the body
        self._names = names

    def __call__(self, lines: list[str]) -> list[str]:
        if not lines or not has_agent_header(lines[0]):
            return lines
        if not any(line.strip() for line in lines[1:]):
            # With no body at all IPython would not even ask the cell magic, which explains itself.
            return [f"{lines[0].rstrip()}\n", "\n"]
        from agent_kernel.magics.agent_cell import runs, split_cell

        try:
            cell = split_cell("".join(lines))
        except Exception:  # noqa: BLE001 - the cell magic meets the same error, and shows it
            return lines
        if cell is None or not runs(cell, self._transform, self._names()):
            return lines
        # A cell magic must stand first, so below %%agent it moves up; otherwise every line keeps its number.
        return lines[1:] if lines[1].startswith("%%") else ["\n", *lines[1:]]


# -- the options, and what loading registers


MakePanels = Callable[["Shell", LiveNotebook], "CellPanels"]


class AgentKernel(Configurable):
    """Version control for this notebook's variables."""

    store = Unicode("", help="Where the store is: a folder or URL. Empty: beside the notebook.").tag(config=True)
    commits = Enum(
        ["all", "agent", "off"], "all", help="Which cells are commits: all, those of agents (%%agent), or none."
    ).tag(config=True)
    quiet = Bool(True, help="Print nothing after a cell if all its variables were saved.").tag(config=True)
    author = Unicode("", help="Who is named as the author of your cells. Empty: the user who is logged in.").tag(
        config=True
    )
    footer = Bool(True, help="Show a line under a cell that changed something, where the front end can.").tag(
        config=True
    )
    outputs = Enum(["keep", "none"], "keep", help="Whether commits keep what their cells showed.").tag(config=True)
    on_restart = Enum(
        ["offer", "restore"], "offer", help="What a fresh kernel does with the variables of the last one."
    ).tag(config=True)
    model = Unicode(
        "", help="The model that takes tasks: openai:NAME, anthropic:NAME … Empty: AGENT_KERNEL_MODEL."
    ).tag(config=True)
    durability = cast(
        "Durability",
        Enum(["default", "full"], "default", help="full: a power loss takes not even the last commit.").tag(
            config=True
        ),
    )

    _of: ClassVar[WeakKeyDictionary[Shell, AgentKernel]] = WeakKeyDictionary()

    def __init__(self, shell: Shell) -> None:
        super().__init__(parent=shell)
        self._shell = shell
        self._loaded = False
        self.notebook = LiveNotebook(shell, cast("Options", self))
        self._hooks = CellHooks(self.notebook)
        self._blanker = Blanker(shell.input_transformer_manager.transform_cell, lambda: list(shell.user_ns))
        self._magics: AgentMagics | None = None
        self._close_conflicts: Callable[[], None] = lambda: None
        self._matcher = _matcher(self.notebook)
        # Not before: what a config file says is set while the notebook is not there yet.
        self.observe(self._author_was_set, "author")
        self.observe(self._store_was_set, ["store", "durability"])

    def _author_was_set(self, _change: object) -> None:
        self.notebook.set_author(self.author)

    def _store_was_set(self, _change: object) -> None:
        self.notebook.report_pending_bind()

    @classmethod
    def of(cls, shell: Shell) -> AgentKernel:
        """The extension of this shell, loaded or not."""
        if shell not in cls._of:
            cls._of[shell] = cls(shell)
        return cls._of[shell]

    def load(self, make_panels: MakePanels | None = None) -> None:
        """Register everything and bind the notebook; harmless when repeated."""
        if self._loaded:
            return
        self._loaded = True
        shell = self._shell
        shell.events.register("pre_execute", self._hooks.pre_execute)
        shell.events.register("pre_run_cell", self._hooks.pre_run_cell)
        shell.events.register("post_run_cell", self._hooks.post_run_cell)
        shell.input_transformers_cleanup.append(self._blanker)
        shell.input_transformer_manager.token_transformers.append(VerbHelp)
        self._magics = AgentMagics(shell, self.notebook)
        shell.register_magics(self._magics)
        self._close_conflicts = _open_conflicts(shell, self.notebook)
        shell.Completer.custom_matchers.append(self._matcher)
        shell.configurables.append(self)
        atexit.register(self._end)
        register_notebook(self._open_context, self._guard)
        if make_panels is not None and getattr(getattr(shell, "kernel", None), "comm_manager", None) is not None:
            self.notebook.panels = make_panels(shell, self.notebook)
            self.notebook.panels.load()
        if not starts_with_the_kernel(shell) and self.commits != "off":
            self.notebook.bind_first()

    def unload(self) -> None:
        """Take everything away; harmless when repeated."""
        if not self._loaded:
            return
        self._loaded = False
        shell = self._shell
        shell.events.unregister("pre_execute", self._hooks.pre_execute)
        shell.events.unregister("pre_run_cell", self._hooks.pre_run_cell)
        shell.events.unregister("post_run_cell", self._hooks.post_run_cell)
        shell.input_transformers_cleanup.remove(self._blanker)
        shell.input_transformer_manager.token_transformers.remove(VerbHelp)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("agent", None)
        shell.magics_manager.registry.pop(AgentMagics.__name__, None)
        shell.Completer.custom_matchers.remove(self._matcher)
        registered = (self, self._magics)
        shell.configurables[:] = [one for one in shell.configurables if not any(one is each for each in registered)]
        self._close_conflicts()
        atexit.unregister(self._end)
        register_notebook(self._open_context, is_open=False)
        self.notebook.panels.unload()
        self._end()
        self._of.pop(shell, None)

    def _open_context(self) -> ExecutionContext:
        self.notebook.bind_first()
        return self.notebook.tasks.open_context()

    def _guard(self) -> None:
        from agent_kernel.magics.display_gate import guard_page

        guard_page(self._shell)

    def _end(self) -> None:
        # As Python ends nobody is told any more: whoever shows something sees that the kernel is gone.
        self.notebook.panels = NoPanels()
        self.notebook.close()


def _matcher(notebook: LiveNotebook) -> Callable[[CompletionContext], SimpleMatcherResult]:
    def agent_matcher(context: CompletionContext) -> SimpleMatcherResult:
        """Complete a line that starts with %agent."""
        from agent_kernel.magics.completion import candidates, words_so_far

        words = words_so_far(context.text_until_cursor)
        if words is None:
            return {"completions": []}
        found = [
            SimpleCompletion(text=word, type="agent") for word in candidates(words, notebook.scope, notebook.names)
        ]
        # What gives nothing suppresses nothing: IPython would offer its own magics. So the word stays as it is.
        found = found or [SimpleCompletion(text=words[-1], type="as typed")]
        return {"completions": found, "matched_fragment": words[-1], "suppress": True}

    # What IPython's decorator for matchers does, and gives no types for.
    vars(agent_matcher).update(matcher_api_version=2, matcher_identifier="agent_kernel", matcher_priority=0)
    return agent_matcher
