"""What stands beside the cells of a notebook: panels, and the line under a cell.

No door imports another. The extension is handed what makes them (`agent_kernel.load_ipython_extension` joins the two)
and tells it what happens; where there is nothing of the kind, in a terminal for one, `Nothing` is told instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_kernel.errors import MergeConflictError
    from agent_kernel.magics.notebook import LiveNotebook
    from agent_kernel.magics.shell import Shell
    from agent_kernel.repository import Unsaved
    from agent_kernel.session import Report
    from agent_kernel.verbs.output import Result

__all__ = ["Beside", "MakesBeside", "Nothing"]


class Beside(Protocol):
    """Told on the main thread. What is told of cells raises nothing: none is lost for what stands beside it."""

    def load(self) -> None:
        """The extension was loaded."""
        ...

    def unload(self) -> None:
        """It goes: leave nothing registered."""
        ...

    def cell_begins(self, prompt: str) -> None:
        """A cell of the notebook begins; `prompt` is "[22]", and empty for a hidden one."""
        ...

    def cell_ends(self) -> None:
        """It has ended, and its commit is made."""
        ...

    def committed(self, report: Report, news: Sequence[Unsaved]) -> bool:
        """The commit of the cell that is ending. Return whether a line under the cell tells of it.

        Args:
            news: what of it could not be saved, and was not told before.
        """
        ...

    def moved(self) -> None:
        """A verb was used, and may have moved something."""
        ...

    def left(self) -> None:
        """The notebook lets go of its store, which is closed next."""
        ...

    def asks(self, run: str) -> bool:
        """Show that an agent's run waits for a person: a step of it, or a question. Return False where only lines can be shown."""
        ...

    def ended(self, run: str) -> bool:
        """Show how an agent's run ended, or that it was stopped. Return False where only lines can be shown."""
        ...

    def offers(self, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        """Show a question with a button for each answer, which then is called between cells. Return False where only lines can be shown."""
        ...

    def chooses(self, conflict: MergeConflictError) -> bool:
        """Show what both sides of a merge changed, to be chosen from. Return False where only lines can be shown."""
        ...

    def decided(self, run: str) -> None:
        """What was asked may have been decided: what shows it says so."""
        ...

    def show(self, result: Result) -> bool:
        """Show a verb's answer as a panel. Return False where the front end cannot, or the answer has none.

        Raises:
            AgentKernelError: the history cannot be read.
        """
        ...


MakesBeside = Callable[["Shell", "LiveNotebook"], Beside]


class Nothing:
    """Stands beside the cells where nothing else does."""

    def load(self) -> None: ...
    def unload(self) -> None: ...
    def cell_begins(self, prompt: str) -> None: ...
    def cell_ends(self) -> None: ...
    def moved(self) -> None: ...
    def left(self) -> None: ...
    def asks(self, run: str) -> bool:
        return False

    def ended(self, run: str) -> bool:
        return False

    def offers(self, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        return False

    def chooses(self, conflict: MergeConflictError) -> bool:
        return False

    def decided(self, run: str) -> None: ...
    def committed(self, report: Report, news: Sequence[Unsaved]) -> bool:
        return False

    def show(self, result: Result) -> bool:
        return False
