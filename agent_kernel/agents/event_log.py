"""Where events are kept: an append-only list for each run, beside the history and never rewound.

A key is `e/`, the run's id, NUL, and the event's number; each is written by a swap that expects it to be absent, so that
two processes that go on with one run cannot both write its next event. `e/` keys are no objects: collecting garbage
leaves them alone. Beside them a key `a/` says who drives a run (`EventStore.claim`), and a run that waits for a person has a key `w/`,
as has one that stopped before it was done, written by the same swaps: whoever lists what waits or stopped, or looks whether
that has changed, need not read how every run of the store stands.

At the end: what the name of a branch says of the run that it was made for.
"""

from __future__ import annotations

import logging
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import msgspec

from agent_kernel.agents import rights
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Error,
    Event,
    Fail,
    Output,
    Resumed,
    Retry,
    StepStart,
    SubRun,
    Success,
    TaskStart,
    TryStart,
    Unknown,
    Usage,
    decode_event,
    encode_event,
    escape_all_texts,
)
from agent_kernel.errors import RunBusyError, RunNotFoundError, StoreError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import Holder, hex_of
from agent_kernel.repository.runs import HOLDS

if TYPE_CHECKING:
    from agent_kernel.session.snapshot import Repository
    from agent_kernel.storage import Store


# -- who drives a run: one living loop at a time, of whatever process
#
# A key beside the run's events, `a/` and its id, names the loop that drives it: the process, so exactly that a dead one is
# told from a living one, and which of its loops. It is written before the run goes on, expected by every event that is
# added, and goes with the event with which the run comes to rest. So a run that waits or is done is claimed by nobody, a dead
# process's is taken over by whoever goes on with it, and a living one's by nobody. On another machine nothing can be told:
# its loop counts as alive, until a person says otherwise (`Run.resume(force=True)`).

_active_loops: set[str] = set()  # the loops of this process that drive a run


def key(run: str) -> bytes:
    return HOLDS + run.encode()


def make_claim() -> bytes:
    """Begin a loop of this process, and return the claim that is stored of it."""
    holder = Holder.of_this_process(secrets.token_hex(8))
    _active_loops.add(holder.session)
    return msgspec.msgpack.encode(holder)


def end_claim(claim: bytes) -> None:
    """The loop of this claim drives nothing any more."""
    _active_loops.discard(decode_claim(claim).session)


def is_claim_active(claim: bytes) -> bool:
    """Whether it is that of a loop of this process that drives a run."""
    return decode_claim(claim).session in _active_loops


def decode_claim(claim: bytes) -> Holder:
    """Who it is; where that cannot be read, nobody who lives."""
    try:
        return msgspec.msgpack.decode(claim, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Holder(socket.gethostname(), "", 0, "")


def is_own_claim(claim: bytes) -> bool:
    """Whether it is that of a loop of this process: in a fork what its parent drives is not its own."""
    return decode_claim(claim).is_this_process()


def is_alive(holder: Holder, store: object = None) -> bool:
    """Whether the loop may still be driving. `store`: where the run is."""
    return holder.session in _active_loops if holder.is_this_process() else holder.is_alive(store)


def is_remote(holder: Holder) -> bool:
    """Whether it is on another machine, where nobody can tell whether it lives."""
    return holder.host != socket.gethostname()


def describe_holder(holder: Holder) -> str:
    """Who it is, for a person."""
    if holder.is_this_process():
        return "another loop of this process"
    lives = ", which may have ended (resume with force goes on all the same)" if is_remote(holder) else ""
    return f"process {holder.pid} on {holder.host}{lives}"


def comes_to_rest(event: Event) -> bool:
    """Whether nobody drives a run behind this event, until a person does something."""
    return isinstance(event, ApprovalRequested | Clarify | Cancelled | Success | Fail)


PREFIX: Final = b"e/"
WAITING: Final = b"w/"
MOVED: Final = b"w!"  # changes whenever a run begins, ends or goes on
_WAITS, _STOPPED = b"\1", b"\2"  # what the key of a run says: it asks a person, or it stopped and can go on
_PAGE: Final = 500


def short_run(run: str) -> str:
    """The part of a run's id that people see and type."""
    return run[-5:]


def new_run_id() -> str:
    """An id that sorts by the time it was made: 11 hex digits of milliseconds, 5 of chance."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(3)[:5]}"


class EventStore:
    """The events of all runs in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_ns = 0

    def append(self, *events: Event, claim: bytes | None = None) -> tuple[Event, ...]:
        """Store events as the next ones of their run, all or none, and return them as they were stored.

        Args:
            claim: what `claim` returned to whoever drives the run. It is released where the run comes to rest with the events.

        Raises:
            RunBusyError: somebody else drives the run, or wrote such a number meanwhile.
            StoreError: they are not stored, and must not be shown.
        """
        stamped: list[Event] = []
        for event in events:
            self._last_ns = max(time.time_ns(), self._last_ns + 1)
            stamped.append(msgspec.structs.replace(event, time_ns=self._last_ns))
        try:
            bodies = [encode_event(event) for event in stamped]
        except UnicodeEncodeError:
            stamped = [escape_all_texts(event) for event in stamped]
            bodies = [encode_event(event) for event in stamped]
        new: dict[bytes, bytes | None] = {
            _key(event.run, event.seq): body for event, body in zip(stamped, bodies, strict=True)
        }
        expected: dict[bytes, bytes | None] = dict.fromkeys(new)
        for marker, mark in _marks_after(stamped).items():
            before = self._store.get_many([marker]).get(marker)
            expected[marker] = None if before is None else bytes(before)
            new[marker] = mark
        run = events[0].run
        claim_key = key(run)
        expected[claim_key] = self._read_free_claim(run) if claim is None else claim
        if comes_to_rest(stamped[-1]):
            new[claim_key] = None
        if any(isinstance(event, TaskStart | Resumed | Cancelled | Success | Fail) for event in stamped):
            # Expected to be nothing: runs beside each other are not in each other's way, and the last word will do.
            new[MOVED] = self._last_ns.to_bytes(8, "big")
        if not self._store.swap(expected, new):
            driver = self.find_driver(run)
            raise RunBusyError(run, "" if driver is None else describe_holder(driver))
        return tuple(stamped)

    # -- who drives a run

    def find_driver(self, run: str) -> Holder | None:
        """Who drives a run now; None: nobody, or a process that died meanwhile."""
        stored = self._store.get_many([key(run)])
        found = next((decode_claim(claim) for claim in stored.values()), None)
        return found if found is not None and is_alive(found, self._store) else None

    def is_abandoned(self, run: str) -> bool:
        """Whether the process that drove a run ended without letting it go."""
        claim = self._store.get_many([key(run)]).get(key(run))
        return claim is not None and not is_alive(decode_claim(claim), self._store)

    def claim(self, run: str, seq: int) -> bytes:
        """Drive a run from here on, whose next event has this number. What it returns says so, and is for `append`.

        Raises:
            RunBusyError: somebody else drives it, or has gone on with it meanwhile. Nothing was written.
        """
        before = self._read_free_claim(run)
        claim = make_claim()
        try:
            if self._store.swap({key(run): before, _key(run, seq): None}, {key(run): claim}):
                return claim
        except BaseException:
            end_claim(claim)
            raise
        end_claim(claim)
        driver = self.find_driver(run)
        raise RunBusyError(run, "" if driver is None else describe_holder(driver))

    def release(self, run: str, claim: bytes) -> None:
        """Drive it no more; nothing happens where it was released already."""
        end_claim(claim)
        self._store.swap({key(run): claim}, {key(run): None})

    def revoke(self, run: str, *, only_remote: bool = False) -> None:
        """Take a run from whoever drives it: what they would add from then on is refused.

        Args:
            only_remote: only where that is on another machine.
        """
        driver = self.find_driver(run)
        if driver is not None and (not only_remote or is_remote(driver)):
            self._store.swap({}, {key(run): None})

    def _read_free_claim(self, run: str) -> bytes | None:
        """What stands where the driver of a run does, if that is nobody who lives. Raises: RunBusyError."""
        claim = self._store.get_many([key(run)]).get(key(run))
        if claim is None:
            return None
        holder = decode_claim(claim)
        if is_alive(holder, self._store):
            raise RunBusyError(run, describe_holder(holder))
        return bytes(claim)

    def of(self, run: str, after: int = -1) -> Iterator[Event]:
        """The events of a run in order, from the one behind number `after` on.

        One that cannot be read is an `Unknown` in its place: it costs nothing but itself.
        """
        prefix = _prefix(run)
        last = b"" if after < 0 else _key(run, after)
        while keys := self._store.keys(prefix, last, _PAGE):
            found = self._store.get_many(keys)
            yield from (_decode(key, found[key]) for key in keys if key in found)
            last = keys[-1]

    def first(self, run: str) -> TaskStart:
        """How a run began.

        Raises:
            RunNotFoundError: there is no such run.
        """
        found = self._store.get_many([_key(run, 0)])
        start = next((_decode(*one) for one in found.items()), None)
        if not isinstance(start, TaskStart):
            raise RunNotFoundError(run)
        return start

    def starts(self) -> list[TaskStart]:
        """How all runs began, oldest first; of those of which it can be read."""
        found = self._store.get_many([_key(run, 0) for run in self.runs()])
        starts = (_decode(*one) for one in sorted(found.items()))
        return [start for start in starts if isinstance(start, TaskStart)]

    def runs(self) -> list[str]:
        """The ids of all runs, oldest first."""
        found: list[str] = []
        last = b""
        while keys := self._store.keys(PREFIX, last, 1):
            run = keys[0][len(PREFIX) :].partition(b"\0")[0]
            found.append(run.decode())
            last = PREFIX + run + b"\1"  # behind every event of this run: their keys go on with NUL
        return found

    def waiting(self) -> list[str]:
        """The ids of the runs that wait for a person, to approve a step or to answer, oldest first."""
        return self._find_marked(_WAITS)

    def find_stopped(self) -> list[str]:
        """The ids of the runs that stopped before they were done, oldest first: interrupted, at a limit, or with their process.

        Those that went on since are not among them. Stores of earlier releases mark only the last kind.
        """
        claimed = [key[len(HOLDS) :].decode() for key in self._keys(HOLDS)]
        return sorted({*self._find_marked(_STOPPED), *(run for run in claimed if self.find_driver(run) is None)})

    def _find_marked(self, mark: bytes) -> list[str]:
        found = self._store.get_many(list(self._keys(WAITING)))
        return sorted(key[len(WAITING) :].decode() for key, stored in found.items() if bytes(stored) == mark)

    def _keys(self, prefix: bytes) -> Iterator[bytes]:
        last = b""
        while keys := self._store.keys(prefix, last, _PAGE):
            yield from keys
            last = keys[-1]

    def find(self, part: str) -> str:
        """The run whose id begins or ends so; "" is the newest one. Ids begin with the time, so they differ at the end.

        Raises:
            RunNotFoundError: no run, or more than one, fits.
        """
        runs = self.runs()
        fits = runs[-1:] if not part else [run for run in runs if run.startswith(part) or run.endswith(part)]
        if len(fits) != 1:
            raise RunNotFoundError(part, tuple(fits))
        return fits[0]


def _decode(key: bytes, stored: bytes) -> Event:
    try:
        return decode_event(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        run, _, number = key[len(PREFIX) :].partition(b"\0")
        return Unknown(name="damaged", run=run.decode("utf-8", "replace"), seq=int.from_bytes(number, "big"))


def _marks_after(events: Sequence[Event]) -> dict[bytes, bytes | None]:
    """The keys of the runs that begin to wait or stop with these events, or do neither any more."""
    found: dict[bytes, bytes | None] = {}
    mark: bytes | None
    for event in events:
        match event:
            case ApprovalRequested() | Clarify():
                mark = _WAITS
            case Cancelled(final=False):
                mark = _STOPPED
            case Fail(limit=limit) if limit:
                mark = _STOPPED
            case ApprovalDecided() | Resumed() | Cancelled() | Success() | Fail():
                mark = None
            case _:
                continue
        found[WAITING + event.run.encode()] = mark
    return found


def _prefix(run: str) -> bytes:
    return PREFIX + run.encode() + b"\0"


def _key(run: str, seq: int) -> bytes:
    return _prefix(run) + seq.to_bytes(8, "big")


# -- the events of one run as it goes on: stored first, then told to whoever listens

logger = logging.getLogger(__name__)
E = TypeVar("E", bound=Event)
Listener: TypeAlias = Callable[[Event], object]
State: TypeAlias = Literal["running", "pending", "clarify", "interrupted", "cancelled", "completed", "failed"]


OVER: Final = frozenset({"completed", "failed", "cancelled"})  # a failed one can be taken up again


class Log:
    """One run's events: those that are stored, and the next one.

    Args:
        events: what is stored of the run already.
        common: what every event of it says: agent, namespace, parent_run.
    """

    def __init__(
        self,
        event_store: EventStore,
        run: str,
        events: Sequence[Event] = (),
        listeners: Sequence[Listener] = (),
        **common: str,
    ) -> None:
        self.run = run
        self._events = list(events)
        self._read_after = rights.last_step()
        self.listeners = list(listeners)
        self.event_store = event_store
        self._common = common
        self._claim: bytes | None = None  # while this is what drives the run
        self.when_over: Callable[[], None] = lambda: None  # called once it is stored that the run is over

    @property
    def events(self) -> list[Event]:
        """Those that are stored. Code of a step can change what is in memory: after one they are read again, unless this drives the run."""
        if self._read_after is not rights.last_step() and not self.is_claimed and self._events:
            with suppress(StoreError):  # a closed store: what was read is all there is
                self.read_again()
        return self._events

    def claim(self) -> None:
        """Drive the run from here on, if it can go on at all.

        Raises:
            RunBusyError: somebody else drives it, or went on with it meanwhile. Nothing was written.
        """
        if not self.is_claimed and self.state == "running":
            with uninterrupted():
                self._claim = self.event_store.claim(self.run, self._next_number())

    @property
    def is_claimed(self) -> bool:
        """Whether this is what drives the run."""
        return self._claim is not None and is_claim_active(self._claim)

    def release(self) -> None:
        """Drive it no more. Where it stopped halfway, whoever comes may go on with it."""
        claim = self._claim
        if claim is None or not is_own_claim(claim):
            return
        with uninterrupted():
            try:
                self.event_store.release(self.run, claim)
            except StoreError as error:  # a loop may be collected after its store was closed
                logger.warning("run %s stays held until this process ends: %s", self.run, error)
            self._claim = None

    def catch_up(self) -> bool:
        """Take in what others have added since it was looked at here; returns whether they had. While it is claimed, nobody can."""
        if self.is_claimed:
            return False
        with uninterrupted():
            found = list(self.event_store.of(self.run, self._next_number() - 1))
            self.events.extend(found)
        return bool(found)

    def read_again(self) -> None:
        """Know the events as they are stored: with commits called as they are since the history was rewritten.

        Code of a step can change what is in memory: what a person approves is what was stored as they were asked.
        """
        known = sorted({event.seq for event in self._events})
        with uninterrupted():
            stored = {event.seq: event for event in self.event_store.of(self.run)} if known else {}
            self._events = [stored[seq] for seq in known if seq in stored]
            self._read_after = rights.last_step()

    def _next_number(self) -> int:
        return self.events[-1].seq + 1 if self.events else 0

    def note(self, event: E, *, step: int | None = None, before: str = "", after: str = "") -> E:
        """Store an event as the run's next, tell the listeners, and return it as it is stored.

        Raises:
            RunBusyError: somebody else drives this run, or went on with it.
            StoreError: it is not stored; nobody was told.
        """
        return self.note_all([event], step=step, before=before, after=after)[0]  # type: ignore[return-value]  # it is the same class

    def note_all(
        self, events: Sequence[Event], *, step: int | None = None, before: str = "", after: str = ""
    ) -> tuple[Event, ...]:
        """Store what belongs together, all of it or nothing, then tell of it in order; raises as `note`."""
        decided = [event for event in events if isinstance(event, ApprovalDecided)]
        if any(event.by != "policy" or event.decision != "deny" for event in decided):
            rights.refuse_within_step("decide about a step")
        first = self._next_number()
        common = {"run": self.run, "step": step, "before": before, "after": after or before, **self._common}
        numbered = [msgspec.structs.replace(event, seq=first + at, **common) for at, event in enumerate(events)]
        with uninterrupted():  # what is stored has to be known here: its numbers are taken
            stored = self.event_store.append(*numbered, claim=self._claim)
            if self._claim is not None and comes_to_rest(stored[-1]):
                end_claim(self._claim)
                self._claim = None
            self.events.extend(stored)
            if self.state in OVER:
                self.when_over()
        for event in stored:
            for listener in self.listeners:
                listener(event)
        return stored

    @property
    def state(self) -> State:
        return state_of(self.events)

    @property
    def start(self) -> TaskStart:
        first = self.events[0]
        assert isinstance(first, TaskStart)
        return first


def state_of(events: Sequence[Event]) -> State:
    """Where a run stands, judging from its events alone; `running` also says: the process died meanwhile."""
    for event in reversed(events):
        match event:
            case Success():
                return "completed"
            case Fail():
                return "failed"
            case Clarify():
                return "clarify"
            case Cancelled(final=final):
                return "cancelled" if final else "interrupted"
            case ApprovalRequested():
                return "pending"
            case ApprovalDecided() | StepStart() | Action() | TaskStart() | Output() | Resumed():
                return "running"
            case _:
                pass
    return "running"


def usage_of(events: Sequence[Event]) -> Usage:
    """What the models of a run took so far, and those of its sub-agents."""
    return sum((event.usage for event in events if isinstance(event, Action | SubRun)), Usage())


# -- how often something went wrong one time after the other, counted from the events of a run

_OF_A_STEP: Final = (ApprovalRequested, StepStart, TryStart, Output)


def since_resumed(events: Sequence[Event]) -> Sequence[Event]:
    """The events since a person let the run go on although it had failed: what it may take is counted anew from there."""
    failed = next((at for at in range(len(events) - 1, -1, -1) if isinstance(events[at], Fail)), -1)
    return events[failed + 1 :]


def steps_of(events: Sequence[Event]) -> int:
    """How many pieces of code the model has sent."""
    return sum(isinstance(event, Action) and event.code is not None and event.source == "model" for event in events)


def steps_in(events: Sequence[Event]) -> int:
    """All steps of a run, also those that its program gave it, that were denied, and the one that waits.

    Code that was stopped or refused before it began does not count.
    """
    met = {(event.run, event.step) for event in events if isinstance(event, _OF_A_STEP)}
    return sum(
        isinstance(event, Action) and event.code is not None and (event.run, event.step) in met for event in events
    )


def has_called_tool(events: Sequence[Event]) -> bool:
    """Whether the model has sent code by calling the tool, and not only between its words."""
    return any(
        isinstance(event, Action) and event.source == "model" and event.code is not None and not event.said
        for event in events
    )


def active_seconds(events: Sequence[Event]) -> float:
    """How long the run took already: what its answers and steps took, not the time that a person let it wait.

    Answers that failed count too, and the time before they were asked for again.
    """
    answering = sum(event.duration_s for event in events if isinstance(event, Action | Output | Error))
    return answering + sum(event.waited_s for event in events if isinstance(event, Action | Error | Fail))


def has_unpriced(events: Sequence[Event]) -> bool:
    """Whether the model gave an answer of which nobody knows what it cost."""
    return any(isinstance(event, Action) and event.source == "model" and event.usage.cost is None for event in events)


def retries_in_a_row(events: Sequence[Event]) -> int:
    """Of the answers before the last one, how many up to it were told that they do not fit."""
    return _in_a_row(events, lambda after: any(isinstance(event, Retry) for event in after))


def outputs_in_a_row(events: Sequence[Event], holds: Callable[[Output], bool]) -> int:
    """Of the answers before the last one, how many up to it were steps with such an output."""
    return _in_a_row(events, lambda after: any(isinstance(event, Output) and holds(event) for event in after))


def model_errors(events: Sequence[Event]) -> int:
    """How often the model failed since it answered last, or since a person let the run go on."""
    many = 0
    for event in reversed(events):
        if isinstance(event, Action | Resumed):
            break
        many += isinstance(event, Error) and event.source == "model"
    return many


def _in_a_row(events: Sequence[Event], holds: Callable[[list[Event]], bool]) -> int:
    many = 0
    for number, after in enumerate(_turns(events)):
        if number and not holds(after):
            break
        many += bool(number)
    return many


def _turns(events: Sequence[Event]) -> Iterator[list[Event]]:
    """What followed on each of the model's answers, the last one first."""
    after: list[Event] = []
    for event in reversed(events):
        if isinstance(event, Action):
            yield after
            after = []
        else:
            after.append(event)


# -- branches that agents have for a while
#
# Nobody named them: they are of a step tried on a fork, a candidate of a race, a sub-agent.
#
# They can be named as any other. But they are no lines of work, so nothing offers them where a person chooses a branch.


PREVIEWS: Final = "preview/"
RACES: Final = "race/"
_PREVIEW: Final = re.compile(rf"{PREVIEWS}[0-9a-f]{{8}}(-(?P<run>[0-9a-f]{{5}}))?")
_SUB_AGENT: Final = re.compile(r"(?P<agent>.+)-(?P<run>[0-9a-f]{5})")
_CANDIDATE: Final = re.compile(rf"{RACES}(?P<race>[0-9a-f]{{5}})/(?P<number>\d+)")


def previewed_run(branch: str) -> str | None:
    """The run, as its id ends, of which a step was tried on a fork ("": the branch does not say), whose branch this is; None for other branches."""
    found = _PREVIEW.fullmatch(branch)
    return None if found is None else found["run"] or ""


def candidate_on(branch: str) -> tuple[str, int]:
    """The race, as its id ends, and the number of the candidate whose branch this is; "" and 0 for other branches."""
    found = _CANDIDATE.fullmatch(branch)
    return ("", 0) if found is None else (found["race"], int(found["number"]))


def may_be_sub_agents(branch: str) -> bool:
    """Whether a branch is called as those of sub-agents are: people may call theirs so as well."""
    return _SUB_AGENT.fullmatch(branch) is not None


def find_sub_agent(event_store: EventStore, branch: str) -> TaskStart | None:
    """How the run of the sub-agent began whose branch this was made as; None for other branches."""
    found = _SUB_AGENT.fullmatch(branch)
    if found is None:
        return None
    for run in event_store.runs():
        if run.endswith(found["run"]):
            with suppress(RunNotFoundError):  # what it began with is damaged
                start = event_store.first(run)
                if start.parent_run and start.agent == found["agent"]:
                    return start
    return None


def describe_temporary(repo: Repository, event_store: EventStore) -> dict[str, str]:
    """Those of a repository's branches, each with what it is in words. What a person went on with is theirs."""
    found: dict[str, str] = {}
    for name, tip in repo.branches().items():
        purpose = purpose_text(name)
        start = None if purpose else find_sub_agent(event_store, name)
        is_theirs = start is not None and hex_of(tip) != start.before and repo.commit_at(tip).author.kind == "person"
        if start is not None and not is_theirs:
            purpose = f"sub-agent {start.agent} of run {short_run(start.parent_run)}"
        if purpose:
            found[name] = purpose
    return found


def is_temporary(branch: str) -> bool:
    """Whether its name alone says that it is such a branch."""
    return bool(purpose_text(branch))


def purpose_text(branch: str) -> str:
    """What such a branch is, in words; "" of any other, and of those of sub-agents, which no name tells from others."""
    race, number = candidate_on(branch)
    if number:
        return f"candidate {number} of race {race}"
    return "tried on a fork, waiting" if previewed_run(branch) is not None else ""
