"""What happened in an agent's run, as records that are only ever added.

The events of a run are its record: the conversation with the model is rebuilt from them (`conversation`), so what the
model was sent stands in them word for word. An event is stored before it is shown (`encoding` has its bytes). The names
of the classes and of their fields are a stored format: a new field needs a default.

The words are agex's (TaskStart, Action, Output, Success, Fail, Clarify), with what it lacks beside them.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final, TypeVar, cast

import msgspec

from agent_kernel.session.history import escape_surrogates

SCHEMA: Final = 1
_MOST_TOKENS: Final = 2**53


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What asking a model took. `cost` is in US dollars; None: the price of the model is not known.

    A server may say what it likes: less than nothing counts as nothing, or limits would never be reached.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    @property
    def tokens(self) -> int:
        return max(0, self.input_tokens) + max(0, self.output_tokens)

    def clamp(self) -> Usage:
        """The same within what can be stored and added: a cost that is not a number is unknown."""
        cost = self.cost if self.cost is None or math.isfinite(self.cost) else None
        sent, received = (min(max(0, one), _MOST_TOKENS) for one in (self.input_tokens, self.output_tokens))
        return Usage(self.requests, sent, received, cost)

    def __add__(self, other: Usage) -> Usage:
        known = [max(0.0, one.cost) for one in (self, other) if one.cost is not None]
        return Usage(
            max(0, self.requests) + max(0, other.requests),
            max(0, self.input_tokens) + max(0, other.input_tokens),
            max(0, self.output_tokens) + max(0, other.output_tokens),
            sum(known) if known else None,
        )


class Finding(msgspec.Struct, frozen=True, array_like=True):
    """One thing that a piece of code would do, read from it."""

    kind: str  # writes, deletes, imports, files, network, processes, shell, magic, dynamic, dunder
    what: str
    line: int = 0
    risky: bool = False


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One piece of what a step showed: its MIME type, and its text if it has one."""

    mime: str
    text: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all events say.

    Attributes:
        run: whose event it is; `seq` counts from 0 within the run.
        namespace: the agents from the outermost down to this one, with slashes between.
        parent_run: the run that started this one, if an agent did.
        time_ns: since 1970; within a store later events never have an earlier time.
        before, after: hex ids of the commits that the event stands between; "" where there is no history.
    """

    schema: ClassVar[int] = SCHEMA

    run: str = ""
    seq: int = 0
    step: int | None = None
    agent: str = ""
    namespace: str = ""
    parent_run: str = ""
    time_ns: int = 0
    before: str = ""
    after: str = ""

    @property
    def id(self) -> str:
        """`RUN/SEQ`, unique in a store."""
        return f"{self.run}/{self.seq}"

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self).__name__

    def _repr_html_(self) -> str:
        from agent_kernel.agents.listing import html_of

        return html_of([self])


class TaskStart(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A run begins. `prompt` is what the model is sent, `instructions` what it is told about its place."""

    task: str = ""
    prompt: str = ""
    instructions: str = ""
    inputs: dict[str, str] = {}
    returns: str = ""
    model: str = ""
    own_model: str = ""  # the server of an object of the program's, "-" where it names none: the model's name tells neither it nor a key
    approve: str = "auto"
    limits: dict[str, float | None] = {}
    settings: dict[str, str | int | float | bool | None] = {}  # of the model, the plain ones
    state: str = "versioned"
    context: str = "values"  # how much of a variable the model is told unasked: names, schema, values
    earlier: tuple[tuple[str, int], ...] = ()  # runs whose conversation this one goes on with, each up to this event
    preview: bool = False  # each step is tried on a fork first
    cell: str = ""  # id of the notebook cell that it was started in
    number: int | None = None  # and its prompt number
    branch: str = ""  # that it began on
    arguments: tuple[str, ...] = ()  # the names of those that the commit `before` has as variables
    replaced: tuple[
        str, ...
    ] = ()  # those of them that were somebody's variables: what these were comes back at the end
    left_out: tuple[str, ...] = ()  # of a race: variables that its candidates are without, since they cannot be saved


GIVEN: Final = frozenset({"setup", "given"})  # the sources of code that is run before the model is asked


class Action(Event, frozen=True, kw_only=True, omit_defaults=True):
    """What the model answered: code to run as a step, or words alone (`code` is None).

    `source` is "setup" where the program gave the code, to be run before the model is asked, "given" where the step of another
    run did, which has no more rights than that step, and "move" where the code says what is to be undone or checked out
    (`moves`).
    """

    source: str = "model"
    thinking: str = ""
    text: str = ""
    code: str | None = None
    call: str = ""  # the provider's id of the call
    # The answer as pydantic-ai writes a ModelResponse in JSON, where its provider wants more of it back than words and code:
    # what it thought, with a signature.
    response: str = ""
    said: str = ""  # all its words, where the code stood in them between fences: it is told in words what came of that
    usage: Usage = Usage()
    duration_s: float = 0.0
    waited_s: float = 0.0  # before it, since an answer failed


class ApprovalRequested(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A person is asked whether the step may run."""

    code: str = ""
    findings: tuple[Finding, ...] = ()
    # What the step did where it was tried on a fork first.
    preview: str = ""  # ok, failed, interrupted, timeout, crashed, killed; refused: it was not tried; "": nobody asked
    told: str = ""  # what to say of that: why it was not tried, or what approving would do beyond keeping what it did
    changed: tuple[tuple[str, str, str], ...] = ()  # how, name, what it is then
    output: str = ""
    error: str = ""  # why it did not come to its end there, in one line
    settled: str = ""  # success, fail, clarify: it ended its run; `result` says with what
    result: str = ""
    effects: tuple[tuple[str, str, int], ...] = ()  # what, target, how often: these have happened already
    # What the step was stopped from doing as it began to: what, target. Its variables were taken back.
    stopped: tuple[tuple[str, str], ...] = ()
    branch: str = ""  # holds what it changed until somebody decides
    held: bytes = b""  # the rest, for whoever approves it


class ApprovalDecided(Event, frozen=True, kw_only=True, omit_defaults=True):
    """And answered: approve, edit (with the code that runs instead) or deny."""

    decision: str = "approve"
    by: str = ""
    reason: str = ""
    code: str | None = None


class StepStart(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Code begins to run. Where no Output follows, the process died, and what the step did is not known."""

    code: str = ""


class TryStart(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A step begins to run on a fork. Where no ApprovalRequested follows, the process died, and it is not tried again."""


class Output(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A step has run. `sent` is what the model is told of it, `parts` what it showed."""

    status: str = "ok"  # ok, failed, interrupted, timeout, denied, unknown
    sent: str = ""
    dropped: int = 0  # characters that it was too long by, and that the model is not told
    parts: tuple[Part, ...] = ()
    duration_s: float = 0.0


class StateChange(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The variables that a step added, changed or removed: (how, name, what it is now)."""

    changed: tuple[tuple[str, str, str], ...] = ()
    unsaved: tuple[tuple[str, str], ...] = ()  # name, reason


class Effect(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Something outside the variables, which going back does not cover."""

    what: str = ""  # writes, deletes, process, connection …
    target: str = ""
    count: int = 1

    @property
    def text(self) -> str:
        """`writes out.csv`. A fork was stored without saying of what, before it was known what a terminal runs."""
        target = "this process" if self.what == "forks" and not self.target else self.target
        return f"{self.what} {target}".strip()


class Error(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Something went wrong: in the step's code, with the model, or with a value that was given back."""

    source: str = "code"  # code, model, value
    message: str = ""
    fatal: bool = False
    duration_s: float = 0.0  # that the model took
    waited_s: float = 0.0  # as of an Action


class Retry(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The model is told what was not right with its answer, and asked again."""

    sent: str = ""


class Clarify(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The agent asks; the run goes on when it is answered."""

    question: str = ""


class Success(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The run is done. The value itself is in memory and, if it was bound, in the state; this is what it is."""

    result: str = ""
    type: str = ""


class Fail(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The run has failed; all that it did is kept. `limit` names the limit that ended it, if one did."""

    reason: str = ""
    limit: str = ""
    waited_s: float = 0.0  # as of an Action


class Cancelled(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The run was interrupted, and can be resumed. `during`: model, code, or a word of the one who cancelled it."""

    during: str = ""
    reason: str = ""
    final: bool = False  # given up, not merely stopped


class Resumed(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The run goes on; `sent` is what the model is told, if anything."""

    sent: str = ""
    by: str = ""


class Compaction(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Older parts of the conversation are left out from here on; `sent` stands for them."""

    dropped: int = 0  # messages
    sent: str = ""


class Rewound(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The run goes on where `steps` of it do not lie behind it: the model is not told of them, from here on."""

    steps: tuple[int, ...] = ()


class SubRun(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Another run belongs to this one: a sub-agent's, or a candidate of a race. `usage` is known once that has ended.

    `model`, `reason` and `score` are a candidate's: why it came to no result, or has no score, and how its judge found it.
    """

    child: str = ""
    child_agent: str = ""
    task: str = ""
    branch: str = ""
    status: str = "running"
    usage: Usage = Usage()
    model: str = ""
    reason: str = ""
    score: float | None = None


class Unknown(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An event that a newer release wrote."""

    name: str = ""


EVENTS: Final[dict[str, type[Event]]] = {
    kind.__name__: kind
    for kind in (
        TaskStart,
        Action,
        ApprovalRequested,
        ApprovalDecided,
        StepStart,
        TryStart,
        Output,
        StateChange,
        Effect,
        Error,
        Retry,
        Clarify,
        Success,
        Fail,
        Cancelled,
        Resumed,
        Compaction,
        Rewound,
        SubRun,
    )
}


# -- the bytes of events, to store them, and of what is handed to another process
#
# They are msgpack with the name of the event's class, and a reader ignores fields that it does not know; an event of a
# class that a newer release made is read as `Unknown`.

S = TypeVar("S", bound=msgspec.Struct)


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    schema: int
    kind: str
    body: msgspec.Raw


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)
_BODIES: dict[str, msgspec.msgpack.Decoder[Event]] = {}


def encode_event(event: Event) -> bytes:
    """The bytes that are stored."""
    return _ENCODER.encode(_Envelope(SCHEMA, event.kind, msgspec.Raw(_ENCODER.encode(event))))


def pack(record: msgspec.Struct) -> bytes:
    """The bytes in which it is handed to another process."""
    try:
        return msgspec.msgpack.encode(record)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(escape_all_texts(record))


def escape_all_texts(record: S) -> S:
    """An event, or another record, with what no bytes can hold spelled out in all its texts: halves of surrogate pairs."""

    def legible(value: object) -> object:
        match value:
            case str():
                return escape_surrogates(value)
            case dict():
                return {legible(key): legible(item) for key, item in cast("dict[object, object]", value).items()}
            case list() | tuple():
                return [legible(item) for item in cast("list[object]", value)]
            case _:
                return value

    return msgspec.convert(legible(msgspec.to_builtins(record, builtin_types=(bytes,))), type(record))


def decode_event(stored: bytes) -> Event:
    """The event; of a kind that this release does not know, what all events say."""
    envelope = _ENVELOPE.decode(stored)
    kind = EVENTS.get(envelope.kind)
    if kind is None:
        common = msgspec.msgpack.decode(envelope.body, type=Event)
        fields = {name: getattr(common, name) for name in Event.__struct_fields__}
        return Unknown(name=envelope.kind, **fields)
    if envelope.kind not in _BODIES:
        _BODIES[envelope.kind] = msgspec.msgpack.Decoder(kind)
    return _BODIES[envelope.kind].decode(envelope.body)
