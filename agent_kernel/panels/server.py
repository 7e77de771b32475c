"""Answers what panels ask, has done what they want done, and tells them what changed.

A message is `{id, op, args}`, its answer `{id, ok}` or `{id, error}`. It may come on any thread. Questions are answered
there; acts go through `JobQueue` and are answered on the main thread, or with `queued` where a cell is running: then what
came of them is told to all panels as a state.

What panels of one binding share is the notebook's repository to look into, for as long as the notebook is bound to it.
Once the notebook has let go of the store nobody is let in any more, and whoever lets go waits until nobody is inside.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.actions import (
    ACTS,
    Act,
    ActJob,
    Claimed,
    ContextClosedError,
    Outcome,
    SharedState,
    act_of,
    describe_question_failure,
)
from agent_kernel.queries.reader import Reader
from agent_kernel.queries.wording import store_id
from agent_kernel.repository.refs import EPOCH

if TYPE_CHECKING:
    from agent_kernel.magics.extension import LiveNotebook
    from agent_kernel.panels import JobQueue
    from agent_kernel.session import Repository, Session

logger = logging.getLogger(__name__)

Answer = dict[str, object]

_PATIENCE_S: Final = 0.02  # for which a cell may wait for a panel


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


# -- who asks, and the answer that each question gets: once, whoever gives it


class Listener(Protocol):
    """One panel, or whatever else asks as one."""

    @property
    def context(self) -> PanelContext | None:
        """The binding that it shows; None: whatever the notebook is bound to."""
        ...

    def send(self, content: Mapping[str, object], /) -> None:
        """Give it a message. Whoever is not there any more hears nothing; nothing is raised."""
        ...


class Reply:
    """The answer to one message."""

    def __init__(self, listener: Listener, id: int | str) -> None:
        self._listener = listener
        self._id = id
        self._lock = threading.Lock()
        self._answered = False

    def ok(self, answer: object) -> bool:
        """Give the answer, unless one was given before; return whether it was given now."""
        return self._give("ok", answer)

    def error(self, failed: Mapping[str, str]) -> bool:
        """Say why there is no answer, unless one was given before."""
        return self._give("error", failed)

    def _give(self, key: str, value: object) -> bool:
        with self._lock:
            answered, self._answered = self._answered, True
        if not answered:
            self._listener.send({"id": self._id, key: value})
        return not answered


NO_STORE = "This notebook is bound to no store."


class _Message(msgspec.Struct):
    id: int | str
    op: str
    args: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class PanelServer:
    """The panels of one notebook."""

    def __init__(self, notebook: LiveNotebook, jobs: JobQueue) -> None:
        self._notebook = notebook
        self._jobs = jobs
        self._context: PanelContext | None = None
        self._last_states: dict[Listener, Answer] = {}  # who listens, and the state that each was told last
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._shared = SharedState()
        self._version = ""

    def context(self) -> PanelContext:
        """The present binding; raises ContextClosedError if no notebook is bound."""
        repo, session = self._notebook.repo, self._notebook.session
        with self._lock:
            if repo is None or session is None:
                raise ContextClosedError(NO_STORE)
            if self._context is not None and self._context.is_of(repo, session):
                return self._context
            context = self._context = PanelContext(repo, session)
        self.look_back()
        return context

    def leave(self, why: str) -> None:
        """The notebook lets go of its store."""
        dropped = self._jobs.drop()
        with self._lock:
            context, self._context = self._context, None
        self._shared.leave(dropped.act if isinstance(dropped, ActJob) else None)
        if context is not None:
            context.close(why)
        self.publish_state()

    # -- who listens

    def add(self, listener: Listener) -> None:
        """Tell it the state from now on, beginning with the present one."""
        with self._telling:
            with self._lock:
                self._last_states[listener] = {}
            self._send_state(listener, self.state_for(listener))

    def remove(self, listener: Listener) -> None:
        """Tell it nothing any more."""
        with self._lock:
            self._last_states.pop(listener, None)

    def publish_state(self) -> None:
        """Tell every listener the state, if it is another than it knows."""
        with self._telling:  # or a thread that was slower would have the last word with an older state
            with self._lock:
                listeners = list(self._last_states)
            # One look at each store, however many panels there are: a cell waits for this.
            seen: dict[PanelContext | None, Answer] = {}
            for listener in listeners:
                context = listener.context or self._present()
                if context not in seen:
                    seen[context] = self.state_for(listener)
                self._send_state(listener, seen[context])

    def _present(self) -> PanelContext | None:
        try:
            return self.context()
        except ContextClosedError:
            return None

    def _send_state(self, listener: Listener, state: Answer) -> None:
        with self._lock:
            if self._last_states.get(listener) in (None, state):  # it has gone, or knows
                return
            self._last_states[listener] = state
        listener.send({"event": "state", "state": state})

    def state_for(self, listener: Listener) -> Answer:
        """The state as this listener sees it."""
        try:
            context = listener.context or self.context()
        except ContextClosedError as closed:
            return self._describe_closed(closed.reason, "")
        return self.state(context)

    def state(self, context: PanelContext) -> Answer:
        """What changes without being asked for."""
        version = context.version()
        if context.closed_reason:
            return self._describe_closed(context.closed_reason, version)
        self._version = version
        waiting = self._jobs.waiting
        return {
            "version": version,
            "busy": self._jobs.prompt or None,
            "queued": waiting.act.description if isinstance(waiting, ActJob) else None,
            **self._shared.fields,
            "store": context.store,
            "kernel": True,
            "gone": None,
        }

    def _describe_closed(self, why: str, version: str) -> Answer:
        return {
            "version": version,
            "busy": None,
            "queued": None,
            **self._shared.fields,
            "store": "",
            "kernel": False,
            "gone": why,
        }

    # -- what is asked

    def hear(self, listener: Listener, message: object) -> None:
        """Answer a message, from any thread."""
        try:
            request = msgspec.convert(message, _Message)
        except msgspec.ValidationError as error:
            logger.warning("a panel sent an invalid message: %s", error)
            return
        answer = Reply(listener, request.id)
        try:
            context = listener.context or self.context()
            if request.op in ACTS:
                self._act(context, request.op, request.args, answer)
                return
            answer.ok(self.look(context, request.op, request.args))
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and the kernel goes on
            answer.error(describe_question_failure(error))
        self._notice(listener)

    def look(self, context: PanelContext, op: str, args: Mapping[str, object]) -> Answer:
        found = context.ask(op, args)
        if op in _OPS_WITH_RUNS and not self._jobs.is_running:  # else the variables are the cell's
            found = with_ways_on(found, self._notebook)
        if op == "open":
            return complete_opening(found, self.state(context), self._notebook)
        if op == "plan" and self._jobs.is_free:
            from agent_kernel.panels.actions import complete_plan

            return complete_plan(context, args, found)
        return found

    def _notice(self, listener: Listener) -> None:
        """Another kernel may work in the same store: who asks finds out, and all others with it."""
        context = listener.context or self._context
        if (
            context is not None
            and not context.closed_reason
            and self._last_states
            and context.version() != self._version
        ):
            self._version = context.version()
            self.publish_state()

    # -- what is wanted

    def _act(self, context: PanelContext, op: str, args: Mapping[str, object], answer: Reply) -> None:
        act = act_of(context, op, args)
        if op == "cancel":
            answer.ok(self._cancel(context))
        elif isinstance(act.args, Claimed):
            answer.ok(self._shared.claim(act.args.turn))
            self.publish_state()
        elif op in _AT_ONCE:
            from agent_kernel.panels import actions

            answer.ok(getattr(actions, op)(context, self._notebook, act))
            self.publish_state()
        else:
            self._shared.act_begins()
            self._jobs.take(ActJob(act, context, self._notebook.scope, answer, self._report_act))

    def cell_begins(self) -> None:
        """On the main thread: a cell runs from now on."""
        self._shared.cell_begins()

    def look_back(self, *, is_typed: bool = False) -> str:
        """See what undo would take back now, where that can be seen.

        Args:
            is_typed: a cell has moved something, and not a panel. Returns what to say of the notebook's cells then.
        """
        self._shared.look_back(self._notebook.repo, self._notebook.session)
        context = self._context
        notice = "" if context is None else self._shared.note_moves(context, self._notebook.session, is_typed=is_typed)
        return notice if is_typed and not self._last_states else ""

    def _cancel(self, context: PanelContext) -> Answer:
        dropped = self._jobs.drop()
        self.publish_state()
        message = f"{dropped.act.subject} was cancelled." if isinstance(dropped, ActJob) else "Nothing was waiting."
        return {"done": message, "notes": [], "undo": False, "head": context.head(), "cells": None}

    def _report_act(self, act: Act, outcome: Outcome | None) -> None:
        """Tell how an act stands, and keep for all panels what came of one that was queued."""
        if outcome is not None:
            self._shared.act_ends(act, outcome)
        self.look_back()
        self.publish_state()


_OPS_WITH_RUNS = frozenset({"open", "rows", "run"})
_AT_ONCE = frozenset({"tag", "write_notebook"})


# -- what the kernel knows beyond the store of what a panel shows at first


def complete_opening(found: Answer, state: Answer, notebook: LiveNotebook) -> Answer:
    """Complete the answer to `open`."""
    path = notebook.path()
    title = found["title"] if path is None else path.name
    is_empty = cast("Answer", found["page"])["commits"] == 0
    # Only the thread that cells run on may look at the variables.
    on_main_thread = threading.current_thread() is threading.main_thread()
    return {
        **found,
        "title": title,
        "state": state,
        "unsaved_names": len(notebook.names()) if is_empty and on_main_thread else 0,
    }


def with_ways_on(found: Answer, notebook: LiveNotebook) -> Answer:
    """An answer that may tell of runs that stopped, with what the kernel knows of how they go on."""
    for run, stopped in list(_find_stopped(found)):
        tasks = notebook.scope().notebook
        if tasks is not None:
            stopped["refused"], stopped["cell"] = tasks.tasks.way_on(run)
            stopped["checked"] = True
    return found


def _find_stopped(found: object) -> Iterator[tuple[str, Answer]]:
    """Find the runs that stopped, by their ids, wherever an answer names them."""
    answer = cast("Answer", found)
    if stopped := answer.get("stopped"):
        yield str(answer.get("run") or answer["id"]), cast("Answer", stopped)
    for row in cast("list[Answer]", answer.get("rows") or []):
        yield from _find_stopped(row["run"] if row["kind"] == "fold" and row["run"] else row)
    if "page" in answer:
        yield from _find_stopped(answer["page"])


# -- comms as panels use them: messages in, messages out, on whichever thread the front end sent them to


class Comm(Protocol):
    """What Jupyter's comms do, as far as it is used here."""

    comm_id: str

    def send(self, data: object) -> None: ...
    def on_msg(self, callback: object) -> None: ...
    def on_close(self, callback: object) -> None: ...
    def close(self) -> None: ...


def keep_thread(comm: object) -> None:
    """Have the messages of this comm handed over on the thread that the front end chose.

    ipykernel 7.4 sends them to the thread that spoke last on the comm, so that after a cell has told of itself they
    would wait for the end of the next one.
    """
    if hasattr(comm, "_reply_subshell_for"):
        vars(comm)["_reply_subshell_for"] = _as_it_came


def _as_it_came(_message: object, subshell: object) -> object:
    return subshell


class Channel:
    """A front end that asks as a panel does without being one: the side panel, the line under a cell."""

    context: PanelContext | None = None  # it follows the notebook from store to store

    def __init__(self, server: PanelServer, comm: Comm, hung_up: Callable[[Channel], None]) -> None:
        self._server = server
        self._hung_up = hung_up
        self._comm = comm
        keep_thread(comm)
        comm.on_msg(self._hear)
        comm.on_close(self._on_close)
        server.add(self)

    def send(self, message: Mapping[str, object]) -> None:
        try:
            self._comm.send(message)
        except Exception:
            logger.debug("a message reached no panel", exc_info=True)

    def close(self) -> None:
        """Hang up."""
        self._server.remove(self)
        self._comm.on_msg(None)
        self._comm.on_close(None)
        self._comm.close()

    def _hear(self, message: Mapping[str, object]) -> None:
        content = cast("Mapping[str, object]", message["content"])
        self._server.hear(self, content["data"])

    def _on_close(self, _message: object) -> None:
        self._server.remove(self)
        self._hung_up(self)
