"""Tasks for agents in this notebook: the cell that gives one, and the lines that go on with one."""

from __future__ import annotations

import ast
import os
import signal
import warnings
from bdb import BdbQuit
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from IPython.core.error import UsageError

from agent_kernel.agents import approval, race_comparison
from agent_kernel.agents.agent import Agent, model_of_run, reopen_run, start_run
from agent_kernel.agents.agent_undo import find_elsewhere_error, is_external, is_next_a_step, refuse_if_elsewhere
from agent_kernel.agents.approval import status_text
from agent_kernel.agents.event_log import new_run_id, short_run
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.models import ENVIRONMENT, model_named
from agent_kernel.commands.describe import Lines, Result
from agent_kernel.commands.scope import UsageProblem
from agent_kernel.errors import (
    AgentKernelError,
    MergeConflictError,
    MissingExtraError,
    ModelError,
    NoModelError,
    RunElsewhereError,
    TaskInterruptedError,
)
from agent_kernel.magics.binding import can_ask
from agent_kernel.magics.steps import (
    Notebook,
    OwnNamespace,
    RunDisplay,
    ShellExecutor,
    Terminal,
    find_open_step,
    show_events,
)
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import person
from agent_kernel.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_kernel.agents.events import Event, TaskStart
    from agent_kernel.agents.models import Delta
    from agent_kernel.agents.races import Race
    from agent_kernel.agents.run import Run
    from agent_kernel.magics.agent_cell import AgentCell
    from agent_kernel.magics.binding import OutputRecorder
    from agent_kernel.magics.extension import LiveNotebook
    from agent_kernel.magics.shell import Shell
    from agent_kernel.session.committing import Report


# -- let a run go on while no cell runs, as if the cell that gave the task ran on
#
# A front end shows what is published under the cell whose request it answers, also when that was answered long ago: so the
# request is kept as long as the run may go on. The hooks around cells are told of a cell, so that nothing else has its turn
# meanwhile, and an interrupt reaches the run, which a kernel that rests does not heed.

_SOURCE = "%agent resume"  # the cell that the hooks see; it makes no commit of its own

Request = dict[str, Any]
_NOBODYS: Request = {"header": {}, "metadata": {}}


class CellRequests:
    """The requests of the cells in which runs were driven last."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._requests: dict[str, Request] = {}
        self._counts: dict[str, int] = {}  # what IPython had counted to in the middle of that cell

    def remember(self, run: str) -> None:
        """The run is driven in the cell that runs now."""
        request = self._kernel_request()
        if request:
            self._requests[run] = request
            self._counts[run] = self._shell.execution_count

    def can_show(self, run: str) -> bool:
        """Whether what the run publishes finds its cell.

        Not after a restart, as the request is not known any more; and VS Code listens to a request only until it is
        answered.
        """
        request = self._requests.get(run)
        return request is not None and not _cell_of(request).startswith("vscode-")

    @contextmanager
    def as_if_in_cell(self, run: str) -> Generator[None]:
        """What is published here stands under the run's cell, and nowhere where no cell began it.

        On the main thread, while no cell runs.
        """
        count = self._shell.execution_count
        with self.under_cell(run) as request:
            self._shell.execution_count = self._counts.get(run, count)
            try:
                with self._as_a_cell(_cell_of(request)):
                    yield
            finally:
                self._shell.execution_count = count

    @contextmanager
    def under_cell(self, run: str) -> Generator[Request]:
        """The same, without telling the hooks of a cell: for what runs a cell itself."""
        kernel = self._shell.kernel
        before, request = self._kernel_request(), self._requests.get(run, _NOBODYS)
        kernel.set_parent([], request)
        try:
            with _interruptible():
                yield request
        finally:
            kernel.set_parent([], before)

    def _kernel_request(self) -> Request:
        kernel = getattr(self._shell, "kernel", None)
        return cast("Request", kernel.get_parent() or {}) if kernel is not None else {}

    @contextmanager
    def _as_a_cell(self, cell: str) -> Generator[None]:
        from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

        # IPython gives these no types.
        info = ExecutionInfo(_SOURCE, store_history=True, silent=False, shell_futures=True, cell_id=cell)  # type: ignore[no-untyped-call]
        result = ExecutionResult(info)  # type: ignore[no-untyped-call]
        self._shell.events.trigger("pre_run_cell", info)
        try:
            yield
        except BaseException as error:
            result.error_in_exec = error
            raise
        finally:
            self._shell.events.trigger("post_run_cell", result)


def _cell_of(request: Request) -> str:
    metadata = cast("Request", request.get("metadata") or {})
    return str(metadata.get("cellId") or "")


@contextmanager
def _interruptible() -> Generator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- whether code that a person typed for a step reads as code at all: asked before it is taken for a decision


def check_code(code: str, transformed: Callable[[str], str]) -> None:
    """Raise UsageProblem if the text is not valid code.

    Args:
        transformed: what turns magics and shell lines into Python.
    """
    if not code.strip():
        raise UsageProblem("the code is empty; nothing was decided")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(
                transformed(code),
                "<step>",
                "exec",
                ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                dont_inherit=True,
            )
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise UsageProblem(f"{at}{type(error).__name__}: {error.msg}; nothing was decided") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null characters, too deep
        raise UsageProblem(f"{type(error).__name__}: {error}; nothing was decided") from None


_NOT_BACK: Final = (
    "its variables are not in memory since the restart: %agent checkout brings them back, "
    "%agent checkout --fresh leaves them behind"
)
_RACE_S: Final = 600.0  # a candidate of a race takes no longer, unless its cell says so
_ENDED: Final = {"failed": "failed", "cancelled": "was given up"}


class TaskEnded(UsageError):  # noqa: N818 - how it ended is shown already; this only ends the cell
    """The run of this cell is not done: later cells must not take it for that.

    Args:
        reason: for programs that run the notebook; a person has read it under the cell.
        shown: what a page shows in place of a traceback. Without this, it would show the reason a second time.
    """

    def __init__(self, reason: str, traceback: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self._traceback = traceback

    def _render_traceback_(self) -> list[str]:
        return list(self._traceback)


# BdbQuit: what ends a cell without IPython showing anything of it.
class TaskStopped(TaskEnded, BdbQuit):
    """The run of this cell stopped and can go on: the line under the cell says so, and nothing failed."""


class Tasks:
    """The agents that work in one notebook."""

    def __init__(self, shell: Shell, notebook: LiveNotebook, outputs: OutputRecorder) -> None:
        self._shell = shell
        self._notebook = notebook
        self._outputs = outputs
        self._executor = ShellExecutor(shell, outputs)
        self._cell_requests = CellRequests(shell)
        self._displays: dict[str, RunDisplay] = {}  # where the runs of this kernel are shown
        self._contexts: dict[str, ExecutionContext] = {}  # where the runs act that began in this kernel
        self.runs: dict[str, Run[Any]] = {}
        self.races: dict[str, Race] = {}

    def open_context(self, cell: tuple[str, int | None] | None = None) -> ExecutionContext:
        """This notebook's namespace, as agents see it.

        Args:
            cell: the cell that the steps are part of, also where they run later: its id and number.
        """
        notebook = self._notebook
        return ExecutionContext(
            notebook.namespace,
            notebook.session if notebook.options.commits != "off" else None,
            executor=self._executor,
            names=notebook.names,
            cell=lambda: cell or (notebook.cell_id, notebook.cell_number),
            moved=notebook.panels.show_move,
            on_main=True,
        )

    def _open_cell_context(self, cell: AgentCell) -> ExecutionContext:
        """Where the task of a cell acts."""
        session = self._notebook.session
        if cell.branch and session is not None and cell.branch != session.branch:
            session.switch(cell.branch, create=cell.branch not in session.repo.branches())
        context = self.open_context((self._notebook.cell_id, self._notebook.cell_number))
        if cell.state == "none":
            own: dict[str, object] = {"__name__": "__agent__"}
            return ExecutionContext(own, event_store=context.event_store, executor=OwnNamespace(own, self._outputs))
        if cell.state == "live":
            return ExecutionContext(
                context.namespace, event_store=context.event_store, executor=self._executor, names=self._notebook.names
            )
        return context

    @property
    def model(self) -> str:
        """The model that takes tasks if a cell names none."""
        return self._notebook.options.model or os.environ.get(ENVIRONMENT, "")

    def choose(self, model: str) -> None:
        """Let another model take tasks, if there is one of this name."""
        model_named(model, self._notebook.namespace)
        self._notebook.options.model = model

    def start(self, cell: AgentCell) -> object:
        """Begin the task of a cell, drive it as far as it goes, and return its result.

        Raises:
            AgentError: it could not begin.
            TaskEnded: it began and is not done; how it ended is shown.
        """
        if cell.edits:
            found = self._find(self._require_loaded(cell.edits))
            self.check_code(cell.body)
            return self._value(self._drive(found.edit(cell.body, by=person().name)))
        if cell.fork:
            return self._race(cell)
        agent, named = self._agent(cell)
        # Named here: a namespace of its own knows no script of the notebook's.
        model = model_named(named, self._notebook.namespace)
        returns = self._type(cell.returns) if cell.returns else None
        context = self._open_cell_context(cell)
        asks = self.can_ask()
        task = cell.body.strip()
        run = new_run_id()
        self._contexts[run] = context
        try:
            begun = start_run(
                agent,
                task,
                context,
                returns=returns,
                can_ask=asks,
                model=model,
                model_name=named if isinstance(named, str) else "",
                approve=cell.approve or agent.approve or "risky",
                limits=_limits(cell, agent),
                preview=cell.preview,
                run=run,
            )
            return self._value(self._drive(begun))
        except (KeyboardInterrupt, TaskInterruptedError):
            return self._value(self._halt_run(run))

    def _race(self, cell: AgentCell) -> Race:
        """Try the task several times at once. With a judge the best is picked as soon as all have ended."""
        from agent_kernel.agents.races import race

        context = self._open_cell_context(cell)
        names = [] if cell.fork.isdecimal() else [name.strip() for name in cell.fork.split(",") if name.strip()]
        agent, named = self._agent(msgspec.structs.replace(cell, model=names[0]) if names else cell)
        models: list[object] = [*names] or [named]  # by their names: a provider's model is made where it is asked
        for model in models:
            model_named(model, self._notebook.namespace)
        seconds = _RACE_S if cell.seconds is None else cell.seconds
        begun = race(
            cell.body.strip(),
            n=int(cell.fork) if not names else None,
            models=models,
            agent=agent,
            state=context.session,
            judge=cell.judge or None,
            approve=cell.approve or agent.approve or "risky",  # nobody can be asked there: what would ask is denied
            limits=_limits(cell, agent),
            deadline_s=seconds,
            returns=self._type(cell.returns) if cell.returns else None,
        )
        self.races[begun.id] = begun
        follow_race(begun, self._make_display())
        self._notebook.panels.show_move()
        return begun

    def _agent(self, cell: AgentCell) -> tuple[Agent, object]:
        """The agent that a cell means, and its model: a variable that holds one, one that is called so, or a bare one.

        Raises:
            NoModelError: no model is named.
        """
        agent = self._find_agent(cell.agent) or Agent(cell.agent)
        named = cell.model or agent.model or self.model
        if not named:
            raise NoModelError(in_notebook=True)
        return agent, named

    def _find_agent(self, name: str) -> Agent | None:
        """The agent that the notebook holds under this name. Raises: UsageProblem: several agents are called so."""
        agents: dict[str, Agent] = {
            key: cast("Agent", value)
            for key, value in self._notebook.namespace.items()
            if issubclass(type(value), Agent)  # whose `__class__` is not asked
        }
        if name in agents:
            return agents[name]
        called = {id(agent): agent for agent in agents.values() if agent.name == name}
        if len(called) > 1:
            variables = " and ".join(sorted(key for key, agent in agents.items() if agent.name == name))
            raise UsageProblem(
                f"{variables} hold different agents called {name}: put the variable's name after %%agent"
            )
        return next(iter(called.values()), None)

    def race(self, id: str) -> Race:
        """A race of this notebook, to pick a candidate of it or to discard them; one of an earlier kernel as it is stored.

        Raises:
            RunNotFoundError: no run has this id. RaceError: the notebook has no history.
        """
        from agent_kernel.agents.races import Race

        return self.races.get(id) or Race.again(self.open_context(), id)

    def pick(self, id: str, number: int) -> Report:
        """Merge a candidate of a race, as `Race.pick`. Not before the variables are back that a restart took."""
        session = self._notebook.session
        if id not in self.races and session is not None and session.carried():
            raise UsageProblem(_NOT_BACK)
        return self.race(id).pick(number)

    def keep(self, race: Race) -> None:
        """It is shown, and may be picked from where it is."""
        self.races[race.id] = race

    def decide(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> Result:
        """Answer for the step that waits, and let the run go on, if it is here that it acts."""
        noted = self._note_decision(run, decision, reason, code)
        if noted:
            return Lines((noted,), {"run": run, "status": "decided"})
        return self._show_result(self._drive(self._decide(self._require_loaded(run), decision, reason, code)))

    def check_code(self, code: str) -> None:
        """Raise UsageProblem if the text that replaces a step is not valid code."""
        check_code(code, self._shell.transform_cell)

    def _decide(self, run: str, decision: str, reason: str, code: str | None) -> Run[Any]:
        found = self._find(run)
        by = person().name
        if decision == "deny":
            return found.deny(reason, by=by)
        return found.approve(by=by) if code is None else found.edit(code, by=by)

    def decide_between_cells(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> str:
        """The same while no cell runs, on the main thread: what the run shows stands under the cell that asked.

        Returns:
            How the run stands then, as a sentence.
        """
        noted = self._note_decision(run, decision, reason, code)
        return noted or self._drive_between_cells(self._decide(run, decision, reason, code))

    def _note_decision(self, run: str, decision: str, reason: str, code: str | None) -> str:
        """Only note what was decided, and say so, where the run does not go on here now; else "".

        That is so of a step of an agent outside that acts on another branch, and of a denial where the model is gone, or
        where the state does not go on from the steps before it.
        """
        log = approval.log_of(self.open_context().event_store, run)
        branch = self._external_branch(log.start)
        away = None if branch else find_elsewhere_error(self._notebook.session, log.events)
        if not branch and not away and (decision != "deny" or self._has_model(log.start)):
            return ""
        if away is not None and log.state == "pending" and decision != "deny":
            raise away
        approval.decide(log, decision, code=code, reason=reason, by=person().name)
        self._notebook.panels.show_decision(log.run)
        if branch:
            return f"Noted. {log.start.agent} goes on with it on branch {branch}, when it asks for the result."
        if away is not None:
            return f"Denied. {away.lies.capitalize()}: %agent resume there lets it go on."
        return f"Denied. Its model is gone: %agent resume --run {short_run(run)} --model NAME lets another go on."

    def _has_model(self, start: TaskStart) -> bool:
        """Whether the model of a run is available here."""
        known = self.runs.get(start.run)
        if known is not None and known.is_current():
            return True
        try:
            model_named(model_of_run(start, self._find_agent(start.agent)), self._notebook.namespace)
        except (ModelError, MissingExtraError):
            return False
        return True

    def _external_branch(self, start: TaskStart) -> str:
        """The branch on which an agent outside acts by a server of its own; "": it acts here."""
        session = self._notebook.session
        is_here = session is None or start.branch in ("", session.branch)
        return "" if is_here or not is_external(start.model) else start.branch

    def resume_between_cells(self, run: str, answer: str) -> str:
        """Let a run go on while no cell runs; returns how it stands then."""
        self._refuse_if_elsewhere(run)
        return self._drive_between_cells(self._find(run).resume(answer, by=person().name))

    def way_on(self, run: str) -> tuple[str, str]:
        """Why a run that stopped cannot go on here ("": it can), and the line to run where that takes a cell ("": it does not).

        This only looks, and loads no provider's package: whether its model answers shows when it is asked.
        """
        event_store = self.open_context().event_store
        try:
            known = self.runs.get(self._require_loaded(run))
            start = event_store.first(run)
            if known is None or not known.is_current():
                if run not in self._contexts:
                    self._reopen_context(start)
                self._check_model(start)
        except RunElsewhereError as error:
            return f"{error.lies}: {error.way}", ""
        except (AgentKernelError, UsageProblem) as error:
            return str(error), ""
        can_show = is_external(start.model) or self._cell_requests.can_show(run)
        return "", "" if can_show else f"%agent resume --run {short_run(run)}"

    def _check_model(self, start: TaskStart) -> None:
        """Raise ModelError where the model of a run was an object of this notebook, or a script, that is gone."""
        kind, colon, _ = start.model.partition(":")
        try:
            model = model_of_run(start, self._find_agent(start.agent))
            if model == start.model and (kind == "scripted" or not colon):
                model_named(model, self._notebook.namespace)
        except ModelError as error:
            way = f"To use another model: %agent resume --run {short_run(start.run)} --model NAME"
            raise ModelError(error.model, f"{error.reason}. {way}") from None

    def _drive_between_cells(self, run: Run[Any]) -> str:
        has_cell = not is_external(run.model)  # else no cell gave it its task
        if has_cell and not self._cell_requests.can_show(run.id):
            self._notebook.panels.show_decision(run.id)
            return f"%agent resume --run {short_run(run.id)} in a cell lets the run go on."
        with self._cell_requests.as_if_in_cell(run.id):
            driven = self._drive(run)
            if has_cell:
                self._show_result(driven)
        return f"The run of {run.agent} is {'done' if run.status == 'completed' else status_text(run.status)}."

    def resume(self, run: str, answer: str, *, force: bool = False, model: str = "", says: str = "") -> Result:
        """Let a run go on.

        Args:
            force: also where a process on another machine drove it.
            model: another one from here on.
            says: which run it is, where nobody named it; shown above what it does.
        """
        found = self._find(self._require_loaded(run), model).resume(answer, by=person().name, force=force)
        if says:
            self._find_display(found).line(says)
        return self._show_result(self._drive(found))

    def offer_edit(self, run: str, code: str) -> None:
        """Put the code into a cell that lets it run."""
        self._refuse_if_elsewhere(run)
        self._shell.set_next_input(f"%%agent --edit {run[-5:]}\n{code}")

    def _find(self, run_id: str, model: str = "") -> Run[Any]:
        """The run of this id; one that is in memory knows its model and its result's type, unless another model is named."""
        event_store = self.open_context().event_store
        found = event_store.find(run_id)
        known = self.runs.get(found)
        if model or known is None or not known.is_current():
            start = event_store.first(found)
            context = self._contexts.get(found) or self._reopen_context(start)
            agent = self._find_agent(start.agent)
            if not model:
                self._check_model(start)
            known = self.runs[found] = reopen_run(context, found, agent=agent, can_ask=self.can_ask(), model=model)
        return known

    def _reopen_context(self, start: TaskStart) -> ExecutionContext:
        """Where a run goes on that another kernel began."""
        context = self.open_context((start.cell, start.number))
        branch = self._external_branch(start)
        if branch:
            raise UsageProblem(f"run {short_run(start.run)} acts on branch {branch}: %agent switch {branch} goes there")
        if start.state == "live" and context.session is not None:
            raise UsageProblem(f"run {short_run(start.run)} acted on what was in memory alone, and that kernel is gone")
        return context

    def _require_loaded(self, run: str) -> str:
        """The run, unless it lies elsewhere, or began before a restart, and what it acts on was not brought back yet."""
        self._refuse_if_elsewhere(run)
        session = self._notebook.session
        if session is not None and session.carried() and self.open_context().event_store.find(run) not in self.runs:
            raise UsageProblem(_NOT_BACK)
        return run

    def _refuse_if_elsewhere(self, run: str) -> None:
        """Raise RunElsewhereError where its steps lie elsewhere, unless they were made here, and its model is asked first."""
        event_store = self.open_context().event_store
        found = event_store.find(run)
        events = tuple(event_store.of(found))
        if found not in self.runs or is_next_a_step(events):
            refuse_if_elsewhere(self._notebook.session, events)

    def _drive(self, run: Run[Any]) -> Run[Any]:
        """Let it go on as far as it can, and show it."""
        self.runs[run.id] = run
        self._cell_requests.remember(run.id)
        try:
            self._show(run, run.stream())
        except KeyboardInterrupt:
            self._show(run, run.halt())
        return self._rests(run)

    def _halt_run(self, run: str) -> Run[Any]:
        """The run of a cell that was interrupted just as it began: it is shown as any that was."""
        if run not in self.open_context().event_store.runs():
            del self._contexts[run]
            raise KeyboardInterrupt
        with uninterrupted():
            found = self._find(run)
            self._show(found, found.halt() or found.events[-1:])
            return self._rests(found)

    def _show(self, run: Run[Any], items: Iterable[Event | Delta]) -> None:
        panels = self._notebook.panels
        show_events(
            iter(items),
            self._find_display(run),
            panels.asks,
            panels.show_end,
            find_open_step(run.events),
            self._describe_changes,
        )

    def _describe_changes(self, run: str) -> str:
        """What the run changed, as its line in a panel says it; "" where that is nothing, or not known."""
        from agent_kernel.queries import agents, listing, reader

        session = self._notebook.session
        if session is None:
            return ""
        try:
            details = agents.run(listing.QueryContext(session.repo, session.id), reader.OfRun(id=run))
        except AgentKernelError:  # it is kept nowhere that can be looked into
            return ""
        names = [
            f"{'−' if sign == '-' else sign}{name} {details.grew.get(name, '')}".strip()
            for sign, name, _ in details.chips
        ]
        more = [f"{details.more} more"] if details.more else []
        return f"changed: {', '.join([*names, *more])}" if names else ""

    def _find_display(self, run: Run[Any]) -> RunDisplay:
        if run.id not in self._displays:
            self._displays[run.id] = self._make_display()
            self._displays[run.id].open(run.id)
        return self._displays[run.id]

    def _rests(self, run: Run[Any]) -> Run[Any]:
        self._notebook.panels.show_decision(run.id)
        self._notebook.panels.show_move()
        return run

    def _make_display(self) -> RunDisplay:
        return Terminal() if getattr(self._shell, "kernel", None) is None else Notebook(self._shell)

    def _value(self, run: Run[Any]) -> object:
        if run.status in ("completed", "pending", "clarify"):
            return _find_display_value(run)
        outcome, has_page = run.outcome, getattr(self._shell, "kernel", None) is not None
        if has_page and (run.status == "interrupted" or outcome.limit):
            raise TaskStopped(outcome.reason)
        lines = (f"The run of {run.agent} {_ENDED.get(run.status, 'was stopped')}.",)
        raise TaskEnded(outcome.reason, lines if has_page else ())

    def _show_result(self, run: Run[Any]) -> Result:
        value = _find_display_value(run)
        if run.status == "completed" and value is not None:
            self._shell.displayhook(value)
        return Lines((), {"run": run.id, "status": run.status, "reason": run.outcome.reason})

    def _type(self, text: str) -> object:
        """What stands after `--returns`: an expression in the notebook's namespace."""
        try:
            return eval(text, self._notebook.namespace)
        except Exception as error:  # noqa: BLE001 - whatever the expression raises, it is no type
            raise UsageProblem(f"--returns {text}: {type(error).__name__}: {error}") from None

    def can_ask(self) -> bool:
        """Whether a person is there to be asked."""
        return can_ask(self._shell)


def _limits(cell: AgentCell, agent: Agent) -> Limits:
    """The agent's own limits, but for those that its cell names."""
    named = {"steps": cell.steps, "run_s": cell.seconds, "tokens": cell.tokens, "cost": cell.cost}
    chosen: dict[str, Any] = {name: most for name, most in named.items() if most is not None}
    return msgspec.structs.replace(agent.limits, **chosen)


def _find_display_value(run: Run[Any]) -> object:
    """What is shown as the value of the cell. An agent outside gives nothing back here: its last word is shown already."""
    return None if is_external(run.model) else run.outcome.value


# -- A `%%agent` cell that could be a task or code: whoever typed it says which, and it runs again as that

QUESTION: Final = "Is this cell a task or Python?"
_CELL: Final = "cell"


def choices(shell: Shell, agent: str, line: str, body: str, cell_id: str) -> list[tuple[str, Callable[[], None]]]:
    """What each button says, and what it does; none where the cell's output would not show what it does."""
    requests = CellRequests(shell)
    requests.remember(_CELL)
    if not requests.can_show(_CELL):
        return []
    says = {"--task": f"Give it to {agent}", "--py": "Run it as Python"}
    return [
        (label, partial(_run_again, shell, requests, f"%%agent {line} {flag}\n{body}", cell_id))
        for flag, label in says.items()
    ]


def in_words(agent: str) -> str:
    """The same where there are no buttons."""
    return f"{QUESTION} %%agent --task gives it to {agent}, %%agent --py runs it as Python"


def _run_again(shell: Shell, requests: CellRequests, source: str, cell_id: str) -> None:
    with requests.under_cell(_CELL):
        shell.run_cell(source, store_history=True, cell_id=cell_id or None)


# -- follow a race in the cell that began it: a line that says how far it is, and the pick of its judge


def follow_race(race: Race, display: RunDisplay) -> None:
    """Wait until all candidates have ended; an interrupt ends the race, and keeps what they did."""
    many = plural(len(race.candidates), "candidate")
    display.progress(f"{many} running")
    for ended, _ in enumerate(race, 1):
        with_result = sum(one.is_done for one in race.candidates)
        display.progress(f"{ended} of {many} ended, {with_result} with a result")
    best = race.best
    failed = race_comparison.failure(race.candidates)
    if race.judge is not None and failed:
        display.line(f"{failed[:1].upper()}{failed[1:]}.", strong=True)
    if race.judge is None or best is None or race.is_interrupted:
        return
    try:
        race.pick()
    except MergeConflictError as conflict:
        display.line(f"candidate {best.number} is the best and was not picked: {conflict}", strong=True)
