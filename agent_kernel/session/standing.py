"""Where a session stands: its namespace, its branch and HEAD, and what the branch holds that memory does not.

Nothing here writes a commit. HEAD is looked up again where something else in this process rewrote the history.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.errors import SessionClosedError, StoreError
from agent_kernel.repository import (
    ASIDE,
    Author,
    Change,
    Holder,
    Kind,
    ObjectId,
    Tree,
    Writer,
    short,
)
from agent_kernel.session import branches, carrying, growth, pyplot, trust
from agent_kernel.session.history import Recorder, sorted_changes
from agent_kernel.session.ignoring import IgnoreList
from agent_kernel.session.operations import Operations, Position
from agent_kernel.session.reports import Status
from agent_kernel.session.snapshot import Repository
from agent_kernel.session.workspace import Workspace

if TYPE_CHECKING:
    from agent_kernel.session.living import Living
    from agent_kernel.session.notebooks import NotebookSnapshot

# What Python itself puts into a module's namespace.
_MODULE_NAMES = frozenset(
    [
        "__name__",
        "__doc__",
        "__package__",
        "__loader__",
        "__spec__",
        "__file__",
        "__cached__",
        "__builtins__",
        "__annotations__",
        "__warningregistry__",
    ]
)
_DAMAGED = "a part of the store is damaged; %agent verify names the variables that it hits"


class Running(msgspec.Struct):
    """The cell that runs, or the step."""

    source: str
    id: str
    number: int | None
    author: Author
    began: float
    outside: frozenset[str]
    depth: int = 1
    run: str = ""
    step: int | None = None
    done: int = 0  # operations before it


class Standing:
    """A live namespace on a branch."""

    def __init__(
        self,
        namespace: dict[str, object],
        repo: Repository,
        *,
        branch: str | None = None,
        author: Author | None = None,
        session_id: str | None = None,
        skip: Callable[[str], bool] | None = None,
        living: Living | None = None,
    ) -> None:
        # One that goes on for another has its id: cells, and what they made, are found under it.
        self.id = (living.session if living is not None else session_id) or secrets.token_hex(4)
        self.repo = repo
        self.namespace = namespace
        self.author = author or branches.person()
        self.notes: list[str] = []
        self.ignoring = IgnoreList(repo)
        self.workspace = Workspace(namespace, repo, lambda name: not self._is_skipped(name), living)
        self.workspace.living.session = self.id
        self._skip = skip
        self._recorder = Recorder(repo, self.id)
        self._holder = Holder.here(self.id)
        self._cell: Running | None = None
        # The cells around agents' steps, and how much was done before.
        self._outer: list[tuple[Running | None, int]] = []
        self._steps = threading.RLock()  # whose thread runs a step
        self._refuses: Callable[[], bool] = lambda: False  # of the step that ends: whether it must not be committed
        self._operations = Operations()
        self._closed = False
        self._given_up = False
        self._growth = growth.Growth()
        self.branch: str | None
        self.head: ObjectId | None
        self.branch, self.head, note = branches.take(repo, branch, self._holder, self.id)
        self.notes += filter(None, (note, trust.notice(repo), _DAMAGED if repo.is_damaged() else ""))
        self._base = self.branch or "main"
        self._tree: Tree = repo.tree_at(self.head)
        # What the branch holds and this session has not loaded; and what that was at commits which this session made.
        self._carried_now, self._absent = carrying.NOTHING, carrying.NOTHING_CARRIED
        self._carried = frozenset(self._tree.names())
        self._carried_at: dict[ObjectId, carrying.Carried] = {}
        self._bound_at = self.head
        self._restarted = any(name not in namespace for name in carrying.variables(self._carried))
        self._found_names = bool(self.workspace.bindings.names(namespace))
        self._begun = False
        self._epoch: bytes | None = None  # the store's, as of which HEAD is known to be there

    def __repr__(self) -> str:
        """`<Session on main at 3f2a91c4, lmdb:///…>`"""
        at = "no commit yet" if self.head is None else short(self.head)
        closed = ", closed" if self._closed else ""
        return f"<{type(self).__name__} on {self.branch or 'no branch'} at {at}, {self.repo.store.url}{closed}>"

    @property
    def _position(self) -> Position:
        last = self._operations.done[-1].after if self._operations.done else None
        if last is not None and (last.branch, last.commit) == (self.branch, self.head) and last.absent is self._absent:
            return last
        return Position(self.branch, self.head, self._absent)

    @property
    def _carried(self) -> frozenset[str]:
        return self._carried_now

    @_carried.setter
    def _carried(self, names: frozenset[str]) -> None:
        self._absent = self._absent.then(names, self._carried_now)
        self._carried_now = names

    def _is_skipped(self, name: str) -> bool:
        return (
            "\0" in name
            or name in _MODULE_NAMES
            or name in self.ignoring
            or (self._skip is not None and self._skip(name))
        )

    def watch_notebook(self, path: Path | None) -> None:
        """Keep the cells of this notebook file with the commits, as they were on the disk at the time."""
        self._recorder.notebook = path

    def tell_page(self, page: NotebookSnapshot) -> None:
        """Keep these cells with the commits, as a front end has them open, until the file is saved after this."""
        self._recorder.told = page

    @property
    def has_page(self) -> bool:
        """Whether the cells of a notebook are kept with the commits."""
        return self._recorder.notebook is not None or self._recorder.told is not None

    def status(self, names: bool = True) -> Status:
        """Where the session stands; runs nothing and reads no value."""
        rebound = self.workspace.bindings.changed(self.namespace)
        # Bound to a store that has them already: whether they are still the same, only the next commit finds out.
        known = frozenset(name for name in rebound.new if name in self._tree)
        marks = [(rebound.new - known, "+"), (rebound.rebound, "~"), (rebound.removed, "-")]
        changed = sorted_changes(Change(name, how, 0) for found, how in marks for name in found)
        unseen = [*known, *self.workspace.unverified()] if names else []
        unverified = sorted({name for name in unseen if not name.startswith("\0")} - rebound.removed)
        size = getattr(self.repo.store, "size", None)
        carried = self.carried()
        return Status(
            branch=self.branch,
            head=self.head,
            detached=self.branch is None,
            restart_pending=bool(carried),
            names=len(self.workspace.bindings.names(self.namespace)),
            unverified=tuple(unverified),
            changed=changed,
            lost=self.workspace.losses(),
            ignored=tuple(sorted(self.ignoring)),
            store_url=self.repo.store.url,
            store_bytes=size().disk_bytes if size is not None else 0,
            carried=tuple(carried),
        )

    def carried(self) -> list[str]:
        """Variables that the branch holds and memory does not, because a restart took them and nobody brought them back."""
        return [
            name
            for name in carrying.variables(self._carried)
            if name not in self.namespace and name not in self.ignoring
        ]

    @property
    def restarted_at(self) -> ObjectId | None:
        """The commit at which a restart took variables out of memory that nobody has brought back; None: all are there."""
        return self._bound_at if self.carried() else None

    def _follow_rewriting(self, writer: Writer) -> None:
        """Where something else in this process pruned the history, or forgot of it, HEAD is another commit by now."""
        if writer.epoch == self._epoch:
            return
        self._epoch = writer.epoch
        self._recorder.masks(self.repo.masked_names(), self.namespace)
        if self.head is not None and not self.repo.store.get_many([Kind.COMMIT + self.head]):
            self._reread_head("something")
            self._compare_with_head()

    def _reread_head(self, verb: str) -> None:
        head = self.repo.head(self.id)
        self.branch, self.head = head.branch, head.commit
        self._tree = self.repo.tree_at(self.head)
        self._carried = frozenset(name for name in self._carried if name in self._tree)
        self._carried_at.clear()
        self._operations = Operations(
            begun=f"{verb} has rewritten what was done before; rollback REF goes to what is left"
        )

    def _compare_with_head(self) -> tuple[str, ...]:
        """The commit of the present state may be gone. What memory holds otherwise is uncommitted from then on."""
        uncommitted = self.workspace.compare_with(self._tree, self._carried)
        self._carried = frozenset(name for name in self._tree.names() if name not in self.workspace.tracking.groups)
        return tuple(uncommitted)

    def _require_open(self) -> None:
        # Once the lease is given back, the branch may be another session's to move.
        if self._closed or self._given_up:
            raise SessionClosedError

    def give_up(self) -> None:
        """Have it write nothing any more, from whatever thread: what works with it does not end, and nobody waits for it."""
        self._given_up = True

    def close(self) -> None:
        """Give the branch back. What is not committed stays uncommitted. Closing it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self.workspace.monitor.close()
        self.workspace.living.rest()
        pyplot.leave_figures()
        if self.branch is not None:
            with contextlib.suppress(StoreError):  # the store may be gone by now, and its leases with it
                self.repo.release_lease(self.branch, self._holder)
                if self.id.startswith(ASIDE):  # nobody goes on from where it was
                    self.repo.drop_head(self.id)
