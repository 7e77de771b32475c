"""What a notebook shows beside its cells: the history panel, and the line under a cell that changed something.

A panel asks by messages over a comm, and `PanelServer` answers: looking is answered at once, on whichever thread the kernel
handed the message over; what changes the variables waits until no cell runs, and is done on the main thread (`JobQueue`).
Here stands what the extension tells of cells and commands, and what panels make of it. It is loaded with the extension, so
it loads nothing else until a panel is shown or asked for, or a cell changes something.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, cast

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.queries import FOOTER
from agent_kernel.repository import hex_of

if TYPE_CHECKING:
    from agent_kernel.agents.races import Race
    from agent_kernel.commands.describe import Opens, Result
    from agent_kernel.errors import MergeConflictError
    from agent_kernel.magics.extension import LiveNotebook
    from agent_kernel.magics.shell import Formatter, Kernel, Shell
    from agent_kernel.panels.server import Channel, Comm, PanelServer
    from agent_kernel.panels.widget import BoardPanel, Card, HistoryPanel, LiveDisplay
    from agent_kernel.repository import Unsaved
    from agent_kernel.session import Report

logger = logging.getLogger(__name__)

_RACE = ("agent_kernel.agents.races", "Race")
PANEL, NOTEBOOK = "agent_kernel.panel", "agent_kernel.notebook"  # the comm targets

_STORE_LEFT = (
    "This notebook has left the store that is shown here. %agent history shows the one that it is bound to now."
)
_UNLOADED = "agent_kernel is not loaded any more. %load_ext agent_kernel loads it again."


# -- whose turn it is on the main thread: a cell's, or that of what was asked for meanwhile
#
# A kernel may hand over messages on other threads while a cell runs, or even while none does. The user's variables are
# changed on the main thread alone, and never under a running cell; one job waits at a time, and a later one takes its place.


class Job(Protocol):
    """Something to do between cells."""

    def do(self) -> None:
        """It is its turn, on the main thread. Raises nothing."""
        ...

    def waits(self) -> None:
        """It has to wait for a running cell: told once, from any thread, before its turn or its dropping."""
        ...

    def is_dropped(self) -> None:
        """A later job took its place, or it was cancelled."""
        ...


class JobQueue:
    """Hands the main thread to one after the other: to a cell, or to what was asked for meanwhile.

    A kernel may hand over messages on other threads while a cell runs, or even while none does. The user's variables are
    changed on the main thread alone, and never under a running cell; one job waits at a time, and a later one takes its
    place.

    Args:
        wake: has a function called soon on the main thread, from whichever thread it is asked to.
    """

    def __init__(self, wake: Callable[[Callable[[], None]], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._running = False
        self._waiting: Job | None = None
        self.prompt = ""  # of the running cell

    @property
    def is_running(self) -> bool:
        """Whether the main thread is a cell's."""
        return self._running

    @property
    def is_free(self) -> bool:
        """Whether who asks may touch the variables: on the main thread, with no cell running."""
        return not self._running and threading.current_thread() is threading.main_thread()

    @property
    def waiting(self) -> Job | None:
        """What waits for a running cell to end."""
        return self._waiting if self._running else None

    def cell_begins(self, prompt: str) -> None:
        """The main thread is a cell's."""
        with self._lock:
            self._running, self.prompt = True, prompt
            job = self._waiting
        if job is not None:
            job.waits()

    def cell_ends(self) -> None:
        """The cell has ended: do what waited now."""
        with self._lock:
            self._running, self.prompt = False, ""
        self._between()

    def take(self, job: Job) -> None:
        """Do it now if that is possible here, else as soon as it is."""
        with self._lock:
            running = self._running
            runs_now = not running and threading.current_thread() is threading.main_thread()
            before, self._waiting = self._waiting, None if runs_now else job
        if before is not None:
            before.is_dropped()
        if runs_now:
            job.do()
        elif running:
            job.waits()
        else:
            self._wake(self._between)

    def drop(self) -> Job | None:
        """Forget what waits, and say what it was."""
        with self._lock:
            job, self._waiting = self._waiting, None
        if job is not None:
            job.is_dropped()
        return job

    def _between(self) -> None:
        with self._lock:
            if self._running:
                return  # a cell was quicker, and the job was told to wait for its end
            job, self._waiting = self._waiting, None
        if job is not None:
            job.do()


# -- the panels of one notebook


class Panels:
    """Stands beside the cells of one notebook."""

    def __init__(self, shell: Shell, notebook: LiveNotebook) -> None:
        self._shell = shell
        self._notebook = notebook
        self._jobs = JobQueue(self._wake)
        self._server: PanelServer | None = None
        self._lock = threading.Lock()
        self._channels: list[Channel | DocumentChannel] = []
        self._panels: list[HistoryPanel] = []
        self._live: BoardPanel | LiveDisplay | None = None
        self._cards: dict[str, Card] = {}  # of steps and questions that wait, by their runs

    def _wake(self, function: Callable[[], None]) -> None:
        self._shell.kernel.io_loop.add_callback(function)  # a kernel has its loop only once it has started

    def load(self) -> None:
        _let_no_request_wait_unread(self._shell.kernel)
        comms = self._shell.kernel.comm_manager
        comms.register_target(PANEL, self._open_panel)
        comms.register_target(NOTEBOOK, self._open_notebook)
        self._formatter().for_type_by_name(*_RACE, self._race_bundle)

    def unload(self) -> None:
        comms = self._shell.kernel.comm_manager
        self._close_live()
        comms.unregister_target(PANEL, self._open_panel)
        comms.unregister_target(NOTEBOOK, self._open_notebook)
        self._formatter().pop(".".join(_RACE), None)
        if self._server is not None:
            self._server.leave(_UNLOADED)
        for channel in self._channels:
            channel.close()
        for panel in self._panels:
            panel.retire()
        self._channels, self._panels, self._server = [], [], None
        self._cards.clear()

    def cell_begins(self, prompt: str) -> None:
        self._jobs.cell_begins(prompt)
        if self._server is not None:
            self._server.cell_begins()
        self.show_move()

    def cell_ends(self) -> None:
        self._jobs.cell_ends()
        self.show_move()

    def show_commit(self, report: Report, news: Sequence[Unsaved]) -> bool:
        session = self._notebook.session
        if not self._notebook.footer or report.commit is None or report.record is None or session is None:
            return False
        if not self._is_rich():
            return False
        from agent_kernel.queries.wording import footer

        undo = session.next_undo is not None and session.next_undo.after.commit == report.commit
        try:
            line = footer(
                session.repo,
                report.commit,
                report.record,
                report.branch,
                news,
                undo=undo,
                records=report.records,
                more_records=report.more_records,
            )
            if line is not None:
                self._shell.display_pub.publish(line)
        except Exception:
            logger.exception("the line under a cell is not shown")
            return False
        return line is not None

    def show_move(self) -> str:
        notice = ""
        if self._server is not None:
            try:
                notice = self._server.look_back(is_typed=True)
                self._server.publish_state()
                for panel in self._panels:
                    panel.renew()
            except Exception:
                logger.exception("the panels were not told")
        return notice

    def leave_store(self) -> None:
        self._close_live()
        if self._server is not None:
            self._server.leave(_STORE_LEFT)

    def asks(self, run: str) -> bool:
        from agent_kernel.panels.widget import Card

        self.show_decision(run)  # what it asked before, which the run went on from
        try:
            card = Card(self.server(), run, rich=self._is_rich(), later=not self._cell().startswith("vscode-"))
            data, metadata = card.bundle()
        except AgentKernelError:  # it is kept nowhere that a panel could look into
            return False
        except Exception:
            logger.exception("the card of a run that waits cannot be shown")
            return False
        if card.panel is not None:
            self._panels.append(card.panel)
            card.panel.when_closed(self._panel_closed)
        self._cards[run] = card
        self._shell.display_pub.publish(data, metadata, transient={"display_id": card.display_id})
        return True

    def _formatter(self) -> Formatter:
        return self._shell.display_formatter.mimebundle_formatter

    def _race_bundle(self, race: Race, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        """What a race shows of itself: its card, or the representations that it has without panels.

        These are given out here: what IPython's formatter is told of a class stands in place of the object's own bundle.
        """
        from agent_kernel.panels.widget import race_panel, represent_race

        if not self._is_rich():
            return represent_race(race), {}

        try:
            tasks = self._notebook.scope().notebook
            panel = race_panel(self.server(), race)
        except AgentKernelError:  # it is of a store that this notebook is not bound to
            return represent_race(race), {}
        if tasks is not None:
            tasks.tasks.keep(race)
        self._panels.append(panel)
        panel.when_closed(self._panel_closed)
        return panel.bundle()

    def show_end(self, run: str) -> bool:
        session = self._notebook.session
        if session is None:
            return False
        from agent_kernel.queries.wording import run_footer

        try:
            run_answer = self.server().context().ask("run", {"id": run})
            after = session.next_undo.after.commit if session.next_undo is not None else None
            undo = after is not None and hex_of(after) == run_answer["tip"]
            line = run_footer(run_answer, session.branch, undo=undo)
        except AgentKernelError:  # it is kept nowhere that a panel could look into
            return False
        if not self._is_rich():
            del line[FOOTER]
        self._shell.display_pub.publish(line)
        return True

    def offers(self, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        if not self._is_rich():
            return False
        from agent_kernel.panels.widget import Offer

        try:
            self._shell.display_pub.publish(Offer(self._jobs, question, choices).bundle())
        except Exception:  # of the libraries for widgets: a line will do
            logger.exception("the buttons of a question cannot be shown")
            return False
        return True

    def chooses(self, conflict: MergeConflictError) -> bool:
        if not self._is_rich():
            return False
        from agent_kernel.commands.checkout import ToChoose

        try:
            result = ToChoose(conflict)
            self._show_widget(self.server(), result, result.opens)
        except Exception:  # of the libraries for widgets, or of the store: the lines say it too
            logger.exception("the choice of a merge cannot be shown")
            return False
        return True

    def show_decision(self, run: str) -> None:
        card = self._cards.get(run)
        try:
            if card is None or card.waits():
                return
            data, metadata = card.bundle()
        except AgentKernelError:
            logger.debug("what was decided cannot be shown", exc_info=True)
            return
        self._cards.pop(run)
        self._shell.display_pub.publish(data, metadata, transient={"display_id": card.display_id}, update=True)

    def show(self, result: Result) -> bool:
        opens = result.opens
        if opens is None:
            return self._show_live(result)
        server = self.server()
        if self._is_rich():
            try:
                self._show_widget(server, result, opens)
                return True
            except AgentKernelError:
                raise
            except Exception:  # of the libraries for widgets: what is shown without them will do
                logger.exception("the panel cannot be shown")
        from agent_kernel.panels.widget import represent_result

        self._shell.display_pub.publish(represent_result(server.context(), result, opens))
        return True

    def _show_live(self, result: Result) -> bool:
        """Show what changes while someone looks at it. One display does at a time: the one before stays as it is."""
        if not result.is_live:
            return False
        self._close_live()
        if self._is_rich():
            try:
                self._show_board(result)
                return True
            except AgentKernelError:
                raise
            except Exception:  # of the libraries for widgets: what is shown without them will do
                logger.exception("the board cannot be shown as a widget")
        from agent_kernel.panels.widget import LiveDisplay

        self._live = LiveDisplay(self._shell, result)
        return True

    def _show_board(self, result: Result) -> None:
        from agent_kernel.commands.board import Board
        from agent_kernel.panels.widget import BoardPanel

        assert isinstance(result, Board)
        panel = BoardPanel(result)
        self._live = panel
        self._shell.display_pub.publish(*panel.bundle())

    def _close_live(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _show_widget(self, server: PanelServer, result: Result, opens: Opens) -> None:
        from agent_kernel.panels.widget import open_panel

        panel = open_panel(server, result, opens)
        self._panels.append(panel)
        panel.when_closed(self._panel_closed)
        self._shell.display_pub.publish(*panel.bundle())

    def server(self) -> PanelServer:
        """What answers the panels, made when the first one is there."""
        with self._lock:  # comms are opened on other threads too
            if self._server is None:
                from agent_kernel.panels.server import PanelServer

                self._server = PanelServer(self._notebook, self._jobs)
            return self._server

    def _is_rich(self) -> bool:
        """Whether the front end shows widgets. Those that run a whole notebook at once, and consoles, name no cell."""
        return bool(self._cell())

    def _cell(self) -> str:
        """The cell that the front end names; "": none."""
        metadata = self._shell.kernel.get_parent().get("metadata")
        return str(cast("dict[str, object]", metadata).get("cellId") or "") if isinstance(metadata, dict) else ""

    def _open_panel(self, comm: Comm, _message: dict[str, object]) -> None:
        from agent_kernel.panels.server import Channel

        self._bind_ahead()
        self._channels.append(Channel(self.server(), comm, self._hung_up))
        if self._notebook.session is None:
            self._wake(self._bind_ahead)

    def _bind_ahead(self) -> None:
        """Let a front end go on with the history of a notebook in which no cell has run yet."""
        if self._jobs.is_free and self._notebook.session is None:
            self._notebook.bind_ahead()
            self.show_move()

    def _open_notebook(self, comm: Comm, _message: dict[str, object]) -> None:

        self._channels.append(DocumentChannel(self._notebook, comm, self._hung_up))

    def _panel_closed(self, panel: HistoryPanel) -> None:
        self._panels = [one for one in self._panels if one is not panel]

    def _hung_up(self, channel: Channel | DocumentChannel) -> None:
        self._channels = [one for one in self._channels if one is not channel]


def _let_no_request_wait_unread(kernel: Kernel) -> None:
    """Have ipykernel 7.0 to 7.3 send replies by the stream that reads requests, as 7.4 does; it stays so.

    They send past it, and then it does not see a request that arrives meanwhile, as those of a panel do at the end of a
    cell: the kernel is idle, and the cell that waits behind that request never runs (ipykernel's issue 1554).
    """
    manager = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    if manager is not None and "_shell_socket" in vars(manager):
        vars(manager)["_shell_socket"] = kernel.shell_stream


# -- what the front end says of the notebook's document: its cells, as they stand in the open file
#
# The lab extension sends them before each cell runs, so that the commit holds the document as the person saw it, saved or not.


class _Cell(msgspec.Struct, frozen=True):
    id: Annotated[str, msgspec.Meta(max_length=1_000)]
    type: Literal["code", "markdown", "raw"]
    source: str


class _Document(msgspec.Struct, frozen=True):
    cells: Annotated[tuple[_Cell, ...], msgspec.Meta(max_length=100_000)]
    name: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    language: Annotated[str, msgspec.Meta(max_length=100)] = ""


class DocumentChannel:
    """Hears of the document over one comm."""

    def __init__(self, notebook: LiveNotebook, comm: Comm, hung_up: Callable[[DocumentChannel], None]) -> None:
        self._notebook = notebook
        self._comm = comm
        self._hung_up = hung_up
        comm.on_msg(self._hear)
        comm.on_close(self._on_close)

    def close(self) -> None:
        """Hang up."""
        self._comm.on_msg(None)
        self._comm.on_close(None)
        self._comm.close()

    def _hear(self, message: Mapping[str, object]) -> None:
        content = cast("Mapping[str, object]", message["content"])
        try:
            from agent_kernel.session.provenance import NotebookCell, page_of

            document = msgspec.convert(content["data"], _Document)
            cells = (NotebookCell(cell.id, cell.type, cell.source) for cell in document.cells)
            self._notebook.set_document(page_of(document.name, document.language, cells))
        except (msgspec.ValidationError, ValueError) as error:  # the file, as it was saved, has to do
            logger.warning("the document that the front end sent is not kept: %s", error)

    def _on_close(self, _message: object) -> None:
        self._hung_up(self)
