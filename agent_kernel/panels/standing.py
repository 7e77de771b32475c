"""What panels are told beyond what the store knows: what came of acts that had waited, and what undo would take back."""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import TYPE_CHECKING

from agent_kernel.agents.operations import operation_text
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.wanted import Left, Outcome
from agent_kernel.repository import hex_of

if TYPE_CHECKING:
    from agent_kernel.panels.asked import Act
    from agent_kernel.panels.desk import Answer
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.operations import Operation

__all__ = ["Standing", "name_of"]

logger = logging.getLogger(__name__)

_TEXT = 60  # characters


class Standing:
    """A part of every panel's state, kept for those that come later too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: Answer | None = None
        self._done: Answer | None = None
        self._left: Left | None = None
        self._undo: Answer | None = None
        self._turn = 0

    @property
    def told(self) -> Answer:
        """The fields of `State` that this is about."""
        with self._lock:
            left = self._left.told(self._turn) if self._left is not None else None
            return {"failed": self._failed, "done": self._done, "cells": left, "undo": self._undo}

    def act_begins(self) -> None:
        """Another act is asked for."""
        with self._lock:
            self._failed = self._done = self._left = None

    def act_ends(self, act: Act, outcome: Outcome) -> None:
        """One that had waited is done, or could not be."""
        with self._lock:
            self._done, self._failed = outcome.told(act)
            self._left = outcome.left(act)
            self._turn += 1

    def cell_begins(self) -> None:
        """All panels have heard what was done. Cells that nobody took up would replace those that are written since."""
        with self._lock:
            self._done = None
            left, self._left = self._left, None
            if left is not None:
                text = f"The notebook's cells of {left.label} were not brought back: another cell has begun first."
                self._failed = {"text": text, "code": "refused"}

    def leave(self, dropped: Act | None) -> None:
        """The notebook lets go of its store, and of what waited."""
        with self._lock:
            self._failed = self._done = self._left = self._undo = None
            if dropped is not None:
                text = f"{dropped.subject} was not done: the notebook has left the store."
                self._failed = {"text": text, "code": "gone"}

    def claim(self, turn: str) -> object:
        """The page that waits to be brought back, for the first who asks."""
        with self._lock:
            if self._left is None or turn != str(self._turn):
                return None
            left, self._left = self._left, None
            return left.page

    def look_back(self, repo: Repository | None, session: Session | None) -> None:
        """See what undo would take back now. On the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            found = None if repo is None or session is None else _undoable(repo, session)
        except AgentKernelError:  # damaged: whoever undoes is told
            logger.debug("what undo would take back cannot be read", exc_info=True)
            found = None
        with self._lock:
            self._undo = found


def name_of(operation: Operation | None) -> str:
    """What to call an operation, so that whoever wants it undone gets no other one undone; "": there is none."""
    if operation is None:
        return ""
    before, after = operation.before, operation.after
    fields = (before.branch, before.commit, after.branch, after.commit, operation.moved, operation.run)
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]


def _undoable(repo: Repository, session: Session) -> Answer | None:
    operation = session.next_undo
    if operation is None:
        return None
    before, after = operation.before.commit, operation.after.commit
    made = None if after is None or operation.moved else repo.commit_at(after)
    return {
        "of": name_of(operation),
        "text": cleaned(operation_text(repo, operation, session.id), _TEXT),
        "cell": made is not None and made.cell is not None,
        "to": None if before is None else hex_of(before),
        "after": None if after is None or operation.moved else hex_of(after),
    }
