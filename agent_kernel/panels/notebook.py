"""What panels need of the notebook that they stand in; the extension gives it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.notebooks import NotebookSnapshot
    from agent_kernel.verbs.scope import Scope

__all__ = ["Notebook"]


class Notebook(Protocol):
    """A kernel's namespace, and the store that it is bound to now, if any."""

    @property
    def session(self) -> Session | None: ...
    @property
    def repo(self) -> Repository | None: ...
    @property
    def footer(self) -> bool:
        """Whether a line under a cell may say what it changed."""
        ...

    def path(self) -> Path | None:
        """The notebook's file, if it is one."""
        ...

    def names(self) -> list[str]:
        """The user's variables."""
        ...

    def scope(self) -> Scope:
        """What a verb acts on when it is used here."""
        ...

    def bind_ahead(self) -> None:
        """Bind before the first cell, if there is a history already."""
        ...

    def tell_page(self, page: NotebookSnapshot) -> None:
        """The front end says what the notebook's cells are now."""
        ...
