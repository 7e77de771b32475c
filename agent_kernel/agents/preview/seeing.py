"""What code does on a fork of this process, as the child tells it.

The child takes on the session without a name for its commits, runs the code as a step, and sends what came of it. In a
store in memory it sends along the objects that only it can see.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent_kernel.agents.candidates import Changed, changed_between, pickled
from agent_kernel.agents.effects import recorded
from agent_kernel.agents.encoding import packed
from agent_kernel.agents.events import Part
from agent_kernel.agents.executing import Executed, Executor, PlainExecutor
from agent_kernel.agents.gate import Allowed, Gate, given_codes
from agent_kernel.agents.offering import offered
from agent_kernel.agents.preview import forking
from agent_kernel.agents.settling import Settled
from agent_kernel.repository import Author, Change, Outputs, Unsaved
from agent_kernel.session import randomness

if TYPE_CHECKING:
    from agent_kernel.agents.place import Place
    from agent_kernel.storage import Store

__all__ = ["Attempt", "Seen", "Status", "in_process", "see"]

Status = Literal["ok", "failed", "interrupted", "timeout", "crashed", "killed", "stopped"]
STOPPED: Final = "it was stopped before this happened: approving runs it here"

_PAGE = 10_000


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Code to be tried, as a step of a run or by itself.

    Attributes:
        offers: what the code finds beside the variables.
        allowed: names that need no asking; what else would happen outside is stopped. None: nothing is.
    """

    code: str
    author: Author
    run: str = ""
    step: int = 0
    deadline_s: float
    offers: dict[str, object] = {}
    allowed: Collection[str] | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a fork did, as it says so itself; `tip` is the commit that it led to, in hex digits.

    Attributes:
        again: why accepting it would run the code again; "": it does not.
        settled, value, said: how the code ended its run, with what, pickled, or in words.
        stopped: what it would have done outside, before which it was ended: what, target.
        items: objects that the fork stored where only it can see them.
    """

    status: Status
    text: str = ""
    parts: tuple[Part, ...] = ()
    outputs: Outputs | None = None
    error: tuple[str, str] | None = None
    settled: Literal["", "success", "fail", "clarify"] = ""
    value: bytes | None = None
    said: str = ""
    changed: tuple[Changed, ...] = ()
    unsaved: tuple[Unsaved, ...] = ()
    effects: tuple[tuple[str, str, int], ...] = ()
    stopped: tuple[tuple[str, str], ...] = ()
    tip: str = ""
    again: str = ""
    why: str = ""
    seconds: float = 0.0
    items: dict[bytes, bytes] = {}


def see(attempt: Attempt, place: Place) -> Seen:
    """Run code on a fork of this process, and say what it did there. All that is here has to be committed."""
    drawn = randomness.capture()

    def work(send: Callable[[bytes], None]) -> None:
        randomness.prepared(drawn)()  # Python seeds its generator anew in a fork
        send(packed(_in_child(attempt, place)))

    ended = forking.forked(work, attempt.deadline_s)
    printed = _masked(place, ended.printed)
    if not ended.answer:
        return Seen(
            status="killed" if ended.died == "killed" else "crashed",
            text=printed,
            parts=(Part("text/plain", printed),) if printed else (),
            why=ended.why,
            again=f"{ended.why}: approving runs it here",
            seconds=ended.seconds,
        )
    seen = msgspec.msgpack.decode(ended.answer, type=Seen)
    if printed:  # past Python: C code, other programs
        parts = (*seen.parts, Part("text/plain", printed))
        seen = msgspec.structs.replace(seen, text=seen.text + printed, parts=parts)
    return _kept(place, seen)


def _masked(place: Place, text: str) -> str:
    place.redactor.learn_environment()
    return place.redactor.without_environment(text)


def _kept(place: Place, seen: Seen) -> Seen:
    """Store what only the child could see."""
    if seen.items and place.session is not None:
        place.session.repo.store.put_many(seen.items)
    return msgspec.structs.replace(seen, items={})


# -- in the child


def _in_child(attempt: Attempt, place: Place) -> Seen:
    session = place.session
    stored = _keys(session.repo.store) if session is not None and _is_in_memory(place) else None
    place.executor = _executor(place)
    if session is not None:
        session.in_fork()
    seen = in_process(attempt, place)
    items = _new(session.repo.store, stored) if session is not None and stored is not None else {}
    return msgspec.structs.replace(seen, items=items)


def in_process(attempt: Attempt, place: Place) -> Seen:
    """Run code as a step in this process, which is there for nothing else, and say what it did."""
    start = place.head
    gate = None
    if attempt.allowed is not None:
        codes = given_codes(attempt.offers.values())
        gate = Gate(Allowed(names=frozenset(attempt.allowed), codes=codes))
    place.begin(attempt.code, attempt.author, attempt.run, attempt.step)
    done: Executed | None = None
    try:
        with recorded(place.quiet_paths(), gate) as effects, offered(attempt.offers, place.namespace):
            done = place.kept(place.executor.run(attempt.code, timeout_s=attempt.deadline_s))
    finally:
        changes, unsaved = place.end(done)
    assert done is not None  # else an error goes on its way already
    seen = Seen(
        status=done.status,
        text=done.text,
        parts=done.parts,
        outputs=done.outputs,
        error=_error(done.error),
        changed=_changed(place, start, changes),
        unsaved=tuple(unsaved),
        effects=tuple((what, target, count) for (what, target), count in effects.found.items()),
        tip=place.head,
        seconds=done.seconds,
    )
    if gate is not None and gate.stopped:
        return msgspec.structs.replace(seen, status="stopped", stopped=tuple(gate.stopped), again=STOPPED, changed=())
    return _with_end(seen, done.settled, place)


def _executor(place: Place) -> Executor:
    """What runs code here without touching a connection to a front end."""
    own: Callable[[], Executor] | None = getattr(place.executor, "in_fork", None)
    return own() if own is not None else PlainExecutor(place.namespace)


def _error(error: BaseException | None) -> tuple[str, str] | None:
    if error is None:
        return None
    said = [argument for argument in error.args[:1] if type(argument) is str]
    return type(error).__name__, said[0][:2_000] if said else ""


def _changed(place: Place, start: str, changes: list[Change]) -> tuple[Changed, ...]:
    session = place.session
    if session is None or session.head is None:
        return tuple(Changed(one.how, one.name, "" if one.how == "-" else place.summary(one.name)) for one in changes)
    return changed_between(session.repo, session.repo.resolve(start) if start else None, session.head)


def _with_end(seen: Seen, settled: Settled | None, place: Place) -> Seen:
    """With how the code ended its run, and why its changes could not be taken on as they are, if so."""
    lost = sorted({one.name for one in seen.unsaved} & {one.name for one in seen.changed})
    again = f"{', '.join(lost)} cannot be saved: approving runs the code again" if lost else ""
    if place.session is None:
        again = "this state has no history to merge into: approving runs the code again"
    if settled is None:
        return msgspec.structs.replace(seen, again=again)
    if settled.how != "success":
        return msgspec.structs.replace(seen, again=again, settled=settled.how, said=str(settled.value)[:4_000])
    value = _by_name_or_value(settled.value)
    if value is None:
        again = again or "its result cannot be pickled: approving runs the code again"
    said = place_line(settled.value)
    return msgspec.structs.replace(seen, again=again, settled="success", value=value, said=said)


def place_line(value: object) -> str:
    """One line about a value that no name is bound to."""
    from agent_kernel.values import summaries

    return summaries.line(summaries.summarize(value, "result"))


def _by_name_or_value(value: object) -> bytes | None:
    """The value as bytes; where it can be, classes go by their names, so that the parent finds its own."""
    with suppress(Exception):
        return pickle.dumps(value)
    return pickled(value)


def _is_in_memory(place: Place) -> bool:
    return place.session is not None and place.session.repo.store.url.startswith("memory:")


def _keys(store: Store) -> set[bytes]:
    found: set[bytes] = set()
    last = b""
    while keys := store.keys(b"", last, _PAGE):
        found.update(keys)
        last = keys[-1]
    return found


def _new(store: Store, before: set[bytes]) -> dict[bytes, bytes]:
    return store.get_many(_keys(store) - before)
