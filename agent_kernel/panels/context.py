"""What panels of one binding share: the notebook's repository to look into, for as long as the notebook is bound to it.

Several threads ask. Once the notebook has let go of the store nobody is let in any more, and whoever lets go waits
until nobody is inside.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol, cast

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.queries import Reader
from agent_kernel.queries.reader import store_id
from agent_kernel.repository.refs import EPOCH
from agent_kernel.session.notebooks import NotebookCell, page_of

if TYPE_CHECKING:
    from agent_kernel.commands.scope import Scope
    from agent_kernel.panels.widget import Comm
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.notebooks import NotebookSnapshot

__all__ = ["Answer", "ContextClosedError", "DocumentChannel", "Notebook", "PanelContext"]


logger = logging.getLogger(__name__)

Answer = dict[str, object]

_PATIENCE_S: Final = 0.02  # for which a cell may wait for a panel


class ContextClosedError(AgentKernelError):
    """The panel belongs to a store that the notebook has left."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class PanelContext:
    """A repository and the session that works in it, as panels see them."""

    def __init__(self, repo: Repository, session: Session) -> None:
        self._binding: tuple[Repository, Session] | None = (repo, session)
        self._reader: Reader | None = Reader(repo, session.id)
        self._lock = threading.RLock()
        self._version = ""
        self._epoch = repo.pointers.read([EPOCH])
        self.store = store_id(repo)
        self.closed_reason = ""  # why it is closed
        # Moves that cells came back with, by their names, and whether they are undone now.
        self.with_cells: dict[str, bool] = {}

    def is_of(self, repo: Repository | None, session: Session | None) -> bool:
        """Whether it belongs to this binding."""
        binding = self._binding
        return binding is not None and binding[0] is repo and binding[1] is session

    def check(self) -> None:
        """Raise ContextClosedError if the notebook has left this store."""
        if self._binding is None:
            raise ContextClosedError(self.closed_reason)

    @contextmanager
    def inside(self) -> Generator[tuple[Repository, Session]]:
        """The repository and the session, which stay open meanwhile. Off the main thread the session is only a name.

        Raises:
            ContextClosedError: the notebook has left this store.
        """
        with self._lock:
            if self._binding is None:
                raise ContextClosedError(self.closed_reason)
            yield self._binding

    def ask(self, op: str, args: Mapping[str, object]) -> Answer:
        """What the reader answers.

        Raises:
            AgentKernelError: it cannot, or the notebook has left this store.
        """
        with self.inside() as (repo, _):
            epoch = repo.pointers.read([EPOCH])
            assert self._reader is not None
            try:
                return cast("Answer", self._reader.ask(op, args))
            except AgentKernelError:
                # What the main thread deletes meanwhile (prune, forget) is no damage: look again at what is left.
                if repo.pointers.read([EPOCH]) == epoch:
                    raise
                return cast("Answer", self._reader.ask(op, args))

    def represent_history(self) -> Answer:
        """What of the history stays in a saved notebook, by MIME type."""
        with self.inside():
            assert self._reader is not None
            return self._reader.represent_history()

    def version(self) -> str:
        """The history's version, or, while somebody looks something up that takes long, the last one that was seen."""
        if self.closed_reason or not self._lock.acquire(timeout=_PATIENCE_S):
            return self._version
        try:
            if self._reader is not None:
                self._version = self._reader.version()
                with self.inside() as (repo, _):
                    self._epoch = repo.pointers.read([EPOCH])
        except AgentKernelError:  # the store cannot be read just now: whoever asks something is told why
            logger.debug("the version of a history cannot be read", exc_info=True)
        finally:
            self._lock.release()
        return self._version

    @property
    def epoch(self) -> object:
        """Changes when something was deleted from the store; as seen with the last version."""
        return self._epoch

    def head(self) -> Answer:
        """Where the session is."""
        return cast("Answer", self.ask("open", {"n": 0})["head"])

    def close(self, why: str) -> None:
        """Let nobody in any more."""
        with self._lock:
            self._binding = self._reader = None
            self.closed_reason = why


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

    def __init__(self, notebook: Notebook, comm: Comm, hung_up: Callable[[DocumentChannel], None]) -> None:
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
            document = msgspec.convert(content["data"], _Document)
            cells = (NotebookCell(cell.id, cell.type, cell.source) for cell in document.cells)
            self._notebook.set_document(page_of(document.name, document.language, cells))
        except (msgspec.ValidationError, ValueError) as error:  # the file, as it was saved, has to do
            logger.warning("the document that the front end sent is not kept: %s", error)

    def _on_close(self, _message: object) -> None:
        self._hung_up(self)


# -- what panels need of the notebook that they stand in; the extension gives it


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

    def set_document(self, document: NotebookSnapshot) -> None:
        """The front end says what the notebook's cells are now."""
        ...
