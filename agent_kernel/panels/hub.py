"""Answers what panels ask, has done what they want done, and tells them what changed.

A message is `{id, op, args}`, its answer `{id, ok}` or `{id, error}`. It may come on any thread. Questions are answered
there; acts go through `Turns` and are answered on the main thread, or with `queued` where a cell is running: then what
came of them is told to all panels as a state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.panels.asked import ACTS, Act, Claimed, act_of
from agent_kernel.panels.desk import Answer, Desk, GoneError
from agent_kernel.panels.failing import failed_question
from agent_kernel.panels.replies import Listener, Reply
from agent_kernel.panels.standing import Standing
from agent_kernel.panels.wanted import Outcome, Wanted

if TYPE_CHECKING:
    from agent_kernel.panels.notebook import Notebook
    from agent_kernel.panels.turns import Turns

__all__ = ["Hub"]

logger = logging.getLogger(__name__)

NOT_BOUND = "This notebook is bound to no store."


class _Message(msgspec.Struct):
    id: int | str
    op: str
    args: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class Hub:
    """The panels of one notebook."""

    def __init__(self, notebook: Notebook, turns: Turns) -> None:
        self._notebook = notebook
        self._turns = turns
        self._desk: Desk | None = None
        self._told: dict[Listener, Answer] = {}  # who listens, and the state that each was told last
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._standing = Standing()
        self._version = ""

    def desk(self) -> Desk:
        """The present binding; raises GoneError where there is none."""
        repo, session = self._notebook.repo, self._notebook.session
        with self._lock:
            if repo is None or session is None:
                raise GoneError(NOT_BOUND)
            if self._desk is not None and self._desk.is_of(repo, session):
                return self._desk
            desk = self._desk = Desk(repo, session)
        self.look_back()
        return desk

    def leave(self, why: str) -> None:
        """The notebook lets go of its store."""
        dropped = self._turns.drop()
        with self._lock:
            desk, self._desk = self._desk, None
        self._standing.leave(dropped.act if isinstance(dropped, Wanted) else None)
        if desk is not None:
            desk.close(why)
        self.tell()

    # -- who listens

    def add(self, listener: Listener) -> None:
        """Tell it the state from now on, beginning with the present one."""
        with self._telling:
            with self._lock:
                self._told[listener] = {}
            self._say(listener, self.state_for(listener))

    def remove(self, listener: Listener) -> None:
        """Tell it nothing any more."""
        with self._lock:
            self._told.pop(listener, None)

    def tell(self) -> None:
        """Tell every listener the state, if it is another than it knows."""
        with self._telling:  # or a thread that was slower would have the last word with an older state
            with self._lock:
                listeners = list(self._told)
            # One look at each store, however many panels there are: a cell waits for this.
            seen: dict[Desk | None, Answer] = {}
            for listener in listeners:
                desk = listener.desk or self._present()
                if desk not in seen:
                    seen[desk] = self.state_for(listener)
                self._say(listener, seen[desk])

    def _present(self) -> Desk | None:
        try:
            return self.desk()
        except GoneError:
            return None

    def _say(self, listener: Listener, state: Answer) -> None:
        with self._lock:
            if self._told.get(listener) in (None, state):  # it has gone, or knows
                return
            self._told[listener] = state
        listener.send({"event": "state", "state": state})

    def state_for(self, listener: Listener) -> Answer:
        """The state as this listener sees it."""
        try:
            desk = listener.desk or self.desk()
        except GoneError as gone:
            return self._gone(gone.reason, "")
        return self.state(desk)

    def state(self, desk: Desk) -> Answer:
        """What changes without being asked for."""
        version = desk.version()
        if desk.gone:
            return self._gone(desk.gone, version)
        self._version = version
        waiting = self._turns.waiting
        return {
            "version": version,
            "busy": self._turns.prompt or None,
            "queued": waiting.act.told if isinstance(waiting, Wanted) else None,
            **self._standing.told,
            "store": desk.store,
            "kernel": True,
            "gone": None,
        }

    def _gone(self, why: str, version: str) -> Answer:
        return {
            "version": version,
            "busy": None,
            "queued": None,
            **self._standing.told,
            "store": "",
            "kernel": False,
            "gone": why,
        }

    # -- what is asked

    def hear(self, listener: Listener, message: object) -> None:
        """Answer a message, from any thread."""
        try:
            asked = msgspec.convert(message, _Message)
        except msgspec.ValidationError as error:
            logger.warning("a panel's message is none: %s", error)
            return
        answer = Reply(listener, asked.id)
        try:
            desk = listener.desk or self.desk()
            if asked.op in ACTS:
                self._act(desk, asked.op, asked.args, answer)
                return
            answer.ok(self.look(desk, asked.op, asked.args))
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and the kernel goes on
            answer.error(failed_question(error))
        self._notice(listener)

    def look(self, desk: Desk, op: str, args: Mapping[str, object]) -> Answer:
        found = desk.ask(op, args)
        if op in _MAY_TELL_OF_RUNS and not self._turns.is_running:  # else the variables are the cell's
            from agent_kernel.panels.opening import with_ways_on

            found = with_ways_on(found, self._notebook)
        if op == "open":
            from agent_kernel.panels.opening import opened

            return opened(found, self.state(desk), self._notebook)
        if op == "plan" and self._turns.is_free:
            from agent_kernel.panels.planning import planned

            return planned(desk, args, found)
        return found

    def _notice(self, listener: Listener) -> None:
        """Another kernel may work in the same store: who asks finds out, and all others with it."""
        desk = listener.desk or self._desk
        if desk is not None and not desk.gone and self._told and desk.version() != self._version:
            self._version = desk.version()
            self.tell()

    # -- what is wanted

    def _act(self, desk: Desk, op: str, args: Mapping[str, object], answer: Reply) -> None:
        act = act_of(desk, op, args)
        if op == "cancel":
            answer.ok(self._cancel(desk))
        elif isinstance(act.args, Claimed):
            answer.ok(self._standing.claim(act.args.turn))
            self.tell()
        elif op in _AT_ONCE:
            from agent_kernel.panels import naming

            answer.ok(getattr(naming, op)(desk, self._notebook, act))
            self.tell()
        else:
            self._standing.act_begins()
            self._turns.take(Wanted(act, desk, self._notebook.scope, answer, self._told_of))

    def cell_begins(self) -> None:
        """On the main thread: a cell runs from now on."""
        self._standing.cell_begins()

    def look_back(self) -> None:
        """See what undo would take back now, where that can be seen."""
        self._standing.look_back(self._notebook.repo, self._notebook.session)

    def _cancel(self, desk: Desk) -> Answer:
        dropped = self._turns.drop()
        self.tell()
        said = f"{dropped.act.subject} was cancelled." if isinstance(dropped, Wanted) else "Nothing was waiting."
        return {"done": said, "notes": [], "undo": False, "head": desk.head(), "cells": None}

    def _told_of(self, act: Act, outcome: Outcome | None) -> None:
        """Tell how an act stands, and keep for all panels what came of one that was queued."""
        if outcome is not None:
            self._standing.act_ends(act, outcome)
        self.look_back()
        self.tell()


_MAY_TELL_OF_RUNS = frozenset({"open", "rows", "run"})
_AT_ONCE = frozenset({"tag", "write_notebook"})
