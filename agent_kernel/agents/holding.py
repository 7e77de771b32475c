"""Who drives a run: one living loop at a time, of whatever process.

A key beside the run's events, `a/` and its id, names the loop that drives it: the process, so exactly that a dead one is
told from a living one, and which of its loops. It is written before the run goes on, expected by every event that is
added, and goes with the event with which the run comes to rest. So a run that waits or is done is held by nobody, a dead
process's is taken over by whoever goes on with it, and a living one's by nobody. On another machine nothing can be told:
its loop counts as alive, until a person says otherwise (`Run.resume(force=True)`).
"""

from __future__ import annotations

import secrets
import socket

import msgspec

from agent_kernel.agents.events import ApprovalRequested, Cancelled, Clarify, Event, Fail, Success
from agent_kernel.repository import Holder
from agent_kernel.repository.runs import HOLDS

__all__ = ["begin", "comes_to_rest", "driver", "end", "is_alive", "is_driving", "is_elsewhere", "is_own", "key", "said"]

_driving: set[str] = set()  # the loops of this process that drive a run


def key(run: str) -> bytes:
    return HOLDS + run.encode()


def begin() -> bytes:
    """A new loop of this process; what is stored of it."""
    holder = Holder.here(secrets.token_hex(8))
    _driving.add(holder.session)
    return msgspec.msgpack.encode(holder)


def end(held: bytes) -> None:
    """The loop drives nothing any more."""
    _driving.discard(driver(held).session)


def is_driving(held: bytes) -> bool:
    """Whether it is a loop of this process that drives a run."""
    return driver(held).session in _driving


def driver(held: bytes) -> Holder:
    """Who it is; where that cannot be read, nobody who lives."""
    try:
        return msgspec.msgpack.decode(held, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Holder(socket.gethostname(), "", 0, "")


def is_own(held: bytes) -> bool:
    """Whether it is a loop of this process: in a fork what its parent drives is not its own."""
    return driver(held).is_this_process()


def is_alive(holder: Holder, store: object = None) -> bool:
    """Whether the loop may still be driving. `store`: where the run is."""
    return holder.session in _driving if holder.is_this_process() else holder.is_alive(store)


def is_elsewhere(holder: Holder) -> bool:
    """Whether it is on another machine, where nobody can tell whether it lives."""
    return holder.host != socket.gethostname()


def said(holder: Holder) -> str:
    """Who it is, for a person."""
    if holder.is_this_process():
        return "another loop of this process"
    lives = ", which may have ended (resume with force goes on all the same)" if is_elsewhere(holder) else ""
    return f"process {holder.pid} on {holder.host}{lives}"


def comes_to_rest(event: Event) -> bool:
    """Whether nobody drives a run behind this event, until a person does something."""
    return isinstance(event, ApprovalRequested | Clarify | Cancelled | Success | Fail)
