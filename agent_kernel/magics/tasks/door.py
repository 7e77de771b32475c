"""Tasks for agents in this notebook: the cell that gives one, and the lines that go on with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.agents.agent import Agent, reopened, started
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.place import Place
from agent_kernel.magics.tasks.running import ShellExecutor
from agent_kernel.magics.tasks.showing import Notebook, Terminal, shown

if TYPE_CHECKING:
    from agent_kernel.agents.run import Run
    from agent_kernel.magics.agent_cell import AgentCell
    from agent_kernel.magics.notebook import LiveNotebook
    from agent_kernel.magics.outputs.recorder import OutputRecorder
    from agent_kernel.magics.shell import Shell

__all__ = ["Tasks"]


class Tasks:
    """The agents that work in one notebook."""

    def __init__(self, shell: Shell, notebook: LiveNotebook, outputs: OutputRecorder) -> None:
        self._shell = shell
        self._notebook = notebook
        self._executor = ShellExecutor(shell, outputs)
        self.runs: dict[str, Run[Any]] = {}

    def place(self) -> Place:
        """This notebook's namespace, as agents see it."""
        notebook = self._notebook
        return Place(
            notebook.namespace,
            notebook.session,
            executor=self._executor,
            names=notebook.names,
            cell=lambda: (notebook.cell_id, notebook.number()),
        )

    def start(self, cell: AgentCell, model: str) -> Run[Any]:
        """Begin the task of a cell, and drive it as far as it goes."""
        limits = Limits() if cell.steps is None else msgspec.structs.replace(Limits(), steps=cell.steps)
        agent = Agent(cell.agent, model=cell.model or model, limits=limits, approve=cell.approve or "risky")
        run = started(agent, cell.body.strip(), self.place(), can_ask=self.can_ask())
        return self.drive(run)

    def go_on(self, run_id: str, model: str) -> Run[Any]:
        """The run of this id, or the newest one; one that is in memory knows its model and its result type."""
        place = self.place()
        found = place.journal.find(run_id)
        if found not in self.runs:
            self.runs[found] = reopened(place, found, model=model, can_ask=self.can_ask())
        return self.runs[found]

    def drive(self, run: Run[Any]) -> Run[Any]:
        """Let it go on as far as it can, and show it."""
        self.runs[run.id] = run
        kernel = getattr(self._shell, "kernel", None)
        shown(run.stream(), Terminal() if kernel is None else Notebook(self._shell))
        self._notebook.beside.moved()
        return run

    def can_ask(self) -> bool:
        """Whether a person is there to be asked: not where a program runs the notebook without one."""
        kernel = getattr(self._shell, "kernel", None)
        return kernel is None or bool(getattr(kernel, "_allow_stdin", True))
