"""What a model is to a run: a name, and a stream of its answer to one request; and from a name to the model.

Models that need no network are here: `ScriptedModel` plays answers written beforehand, `FunctionModel` asks a Python
function. They are for tests, demonstrations and docs, and need no package beyond the core (`scripted:NAME`). Those of
providers have pydantic-ai's names and are in `provided`, which wraps it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from agent_kernel.agents.events import Usage
from agent_kernel.errors import MissingExtraError, ModelError, NoModelError, UnknownPriceError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

__all__ = [
    "ENVIRONMENT",
    "SCRIPTS",
    "Answer",
    "AssistantMessage",
    "Delta",
    "FunctionModel",
    "Message",
    "Model",
    "Request",
    "ScriptedModel",
    "ToolResult",
    "Turn",
    "UserMessage",
    "check_model",
    "check_price",
    "is_free",
    "is_own",
    "model_named",
    "register",
]


_CHARS_A_TOKEN = 4  # what counts are made of where nobody counts


class UserMessage(msgspec.Struct, frozen=True, tag="Told"):
    """What the model is told: the task, or an answer of a person."""

    text: str


class AssistantMessage(msgspec.Struct, frozen=True, tag="Said"):
    """What the model answered before."""

    text: str = ""
    code: str | None = None
    call: str = ""
    response: str = ""  # as in `Answer`


class ToolResult(msgspec.Struct, frozen=True, tag="Returned"):
    """What came of the code that it sent."""

    call: str
    text: str


Message: TypeAlias = UserMessage | AssistantMessage | ToolResult


class Request(msgspec.Struct, frozen=True):
    """One question to a model.

    Attributes:
        turn: its answers within this run so far.
        settings: how it is asked (temperature, max_tokens …), by pydantic-ai's names.
    """

    instructions: str
    messages: tuple[Message, ...]
    turn: int = 0
    timeout_s: float | None = None
    settings: dict[str, object] = {}

    @property
    def text(self) -> str:
        """All that the model is sent, for counting and for looking at."""
        parts = [self.instructions]
        for message in self.messages:
            parts += [message.text, getattr(message, "code", None) or ""]
        return "\n".join(filter(None, parts))


class Delta(msgspec.Struct, frozen=True):
    """A piece of an answer as it comes in. It is shown, and never stored."""

    kind: Literal["thinking", "text", "code"]
    text: str


class Answer(msgspec.Struct, frozen=True):
    """A whole answer. `code` None: words alone; `in_words`: of a model that can call no tool, so code may stand in them.

    `refused`: why nothing of it runs, as the model is told; `is_cut`: it is not whole, at its largest size; `response`: all of
    it in the JSON of pydantic-ai's `ModelResponse`, where the provider wants more of it back than words and code.
    """

    thinking: str = ""
    text: str = ""
    code: str | None = None
    call: str = ""
    usage: Usage = Usage(requests=1)
    in_words: bool = False
    refused: str = ""
    is_cut: bool = False
    response: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything that answers. Called on the run's own event loop, never on the thread that runs code.

    One that costs nothing says so with `is_free = True`. Of others each answer's usage says what it cost; where it does not,
    a run with a limit on its cost ends.
    """

    @property
    def name(self) -> str:
        """The name under which `model_named` finds it again, if it can."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        """The answer in pieces, and at last as a whole.

        Raises:
            ModelError: it cannot answer; `retry_after_s` says whether asking again may help.
        """
        ...


class Turn(msgspec.Struct, frozen=True):
    """One answer of a scripted model: code, words, or an error; after `delay_s` seconds."""

    code: str | None = None
    text: str = ""
    thinking: str = ""
    delay_s: float = 0.0
    error: Exception | None = None
    usage: Usage | None = None


Scripted: TypeAlias = "Turn | str"


class FunctionModel:
    """A model that is a function: from the request to a turn, or to code.

    >>> model = FunctionModel(lambda request: "task.success(1 + 1)")
    >>> model.name
    'function'
    """

    is_free = True  # as far as this package knows; a function that pays says so in `Turn.usage`

    def __init__(self, function: Callable[[Request], Scripted], name: str = "function") -> None:
        self._function = function
        self.name = name

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        returned = cast("object", self._function(request))  # foreign code: it may return anything
        if not isinstance(returned, str | Turn):
            raise ModelError(self.name, f"its function returned {_kind(returned)}, which is neither code nor a Turn")
        turn = Turn(returned) if isinstance(returned, str) else returned
        async for piece in _play(turn, request):
            yield piece


class ScriptedModel:
    """Answers that were written beforehand, played in order; a run that asks for more fails.

    What it plays depends on nothing but how often the run has asked: it can be resumed in another process.

    >>> ScriptedModel(["x = 1", "task.success(x)"], name="demo").name
    'scripted:demo'
    """

    is_free = True

    def __init__(self, turns: Sequence[Scripted], name: str = "script") -> None:
        self.turns = tuple(Turn(turn) if isinstance(turn, str) else turn for turn in turns)
        self.name = f"scripted:{name}"

    async def stream(self, request: Request) -> AsyncIterator[Delta | Answer]:
        if request.turn >= len(self.turns):
            many = len(self.turns)
            raise ModelError(
                self.name, f"the script has {many} answer{'s' * (many != 1)}; the agent asked for {_one_more(many)}"
            )
        async for piece in _play(self.turns[request.turn], request):
            yield piece


def _one_more(many: int) -> str:
    ordinals = ("a first", "a second", "a third", "a fourth", "a fifth")
    return ordinals[many] if many < len(ordinals) else "another"


async def _play(turn: Turn, request: Request) -> AsyncIterator[Delta | Answer]:
    """The turn as a provider would stream it: in a few pieces, with its time spread over them."""
    pieces = [("thinking", turn.thinking), ("text", turn.text), ("code", turn.code or "")]
    deltas = [Delta(kind, part) for kind, text in pieces for part in _lines(text)]  # type: ignore[arg-type]
    pause = turn.delay_s / max(1, len(deltas))
    for delta in deltas:
        await asyncio.sleep(pause)
        yield delta
    if not deltas:
        await asyncio.sleep(turn.delay_s)
    if turn.error is not None:
        raise turn.error
    used = turn.usage or Usage(
        1, len(request.text) // _CHARS_A_TOKEN, sum(len(d.text) for d in deltas) // _CHARS_A_TOKEN
    )
    call = f"call-{request.turn}" if turn.code is not None else ""
    yield Answer(turn.thinking, turn.text, turn.code, call, used)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


ENVIRONMENT = "AGENT_KERNEL_MODEL"
_MOST = 8  # models that an error names
_registered: dict[str, Model] = {}


def register(model: Model) -> Model:
    """Let a model be found by its name, so that a run that it began can go on with it. Returns it.

    >>> register(ScriptedModel(["task.success(1)"], name="one")).name
    'scripted:one'
    >>> model_named("scripted:one").name
    'scripted:one'
    """
    _registered[model.name] = model
    return model


def check_model(model: object) -> None:
    """Raise TypeError where this can be no model: neither a name nor an object that is one."""
    ours = isinstance(model, str | Model)
    if not ours and not any(kind.__module__.startswith("pydantic_ai.") for kind in type(model).__mro__):
        raise TypeError(f"model is a name, a Model, or one of pydantic-ai's, not {type(model).__name__}")


def is_free(model: Model) -> bool:
    """Whether asking it costs nothing."""
    return getattr(model, "is_free", False) is True


def is_own(model: Model) -> bool:
    """Whether it is an object of the program's whose name does not make it again, so that another model may have it."""
    kind = model.name.partition(":")[0]
    return kind not in ("scripted", "outside") and not getattr(model, "is_named", False)


def check_price(model: Model, cost: float | None) -> None:
    """Raise UnknownPriceError where a run is to be kept under a cost that nobody can count."""
    priced: Callable[[], bool] | None = getattr(model, "has_price", None)
    if cost is not None and priced is not None and not priced():
        raise UnknownPriceError(model.name, cost)


def model_named(name: object = "", namespace: Mapping[str, object] | None = None, stored: Container[str] = ()) -> Model:
    """The model that is meant: an object that is one, a name, or what the environment names.

    Args:
        namespace: where `NAME`, or `scripted:NAME`, may be a variable: any model, or a list of answers.
        stored: the variables that the branch has, in memory or not, for saying where that one is.

    Raises:
        NoModelError: none is named. ModelError: no model has this name. MissingExtraError: its package is missing.
        TypeError: the object can be no model.
    """
    if not isinstance(name, str):
        if isinstance(name, Model):
            return register(name)
        check_model(name)
        from agent_kernel.agents.models.provided import wrap_model

        return wrap_model(name)  # not registered: its name may be another server's model too
    name = name or os.environ.get(ENVIRONMENT, "")
    if not name:
        raise NoModelError
    kind, colon, rest = name.partition(":")
    if kind == "outside":
        from agent_kernel.agents.agent_undo import external_model

        return external_model(rest)
    # What a variable holds now goes before a model of the same name that another run began with.
    found = _find_in_variable(name, rest if kind == "scripted" else "" if colon else name, namespace or {})
    if found is not None:
        return found
    if name in _registered:
        return _registered[name]
    if kind != "scripted":
        return _load_provider_model(name, None if colon else namespace, stored)

    if rest not in SCRIPTS and rest in stored:
        raise ModelError(name, f"{rest} is not in memory, and the branch has it: %agent checkout brings it back")
    if rest not in SCRIPTS:
        raise ModelError(
            name, f"no script is called {rest!r}; the scripts that come along: {', '.join(sorted(SCRIPTS))}"
        )
    return SCRIPTS[rest]


def _find_in_variable(name: str, variable: str, namespace: Mapping[str, object]) -> Model | None:
    """The model that a variable holds, or that its list of answers makes.

    Raises:
        ModelError: there is such a variable, and it holds neither.
    """
    value = namespace.get(variable)
    if value is None:
        return None
    if _is_model(value):
        return value if isinstance(value, Model) else model_named(value)
    if isinstance(value, list | tuple):
        turns = cast("Sequence[object]", value)
        if all(isinstance(turn, str | Turn) for turn in turns):
            return ScriptedModel(cast("Sequence[Scripted]", turns), name=variable)
        raise ModelError(name, f"{variable} is a {type(turns).__name__} here, and not one of answers: code, or Turns")
    if name != variable:
        return None  # scripts that come along may be called as a variable is
    remedy = f"; FunctionModel({variable}) makes one of it" if callable(value) else ""
    raise ModelError(name, f"{variable} is not a model here, but {_a(type(value).__name__)}{remedy}")


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def _is_model(value: object) -> bool:
    kinds = type(value).__mro__
    theirs = any(kind.__module__ == "pydantic_ai.models" and kind.__name__ == "Model" for kind in kinds)
    return not isinstance(value, type) and (theirs or isinstance(value, Model))


def _load_provider_model(name: str, namespace: Mapping[str, object] | None, stored: Container[str]) -> Model:
    """A provider's model. Where its name could be a variable's (`namespace`), the error begins with what the variable is here."""
    from agent_kernel.agents.models.provided import make_model

    if namespace is None or not name.isidentifier():
        return make_model(name)
    try:
        return make_model(name)
    except (ModelError, MissingExtraError) as error:
        if name in stored:
            reason = f"{name} is not in memory, and the branch has it: %agent checkout brings it back"
            raise ModelError(name, reason) from error
        known_models = sorted(one for one, value in namespace.items() if not one.startswith("_") and _is_model(value))
        models = f"models here are {', '.join(known_models[:_MOST])}" if known_models else "no variable here is a model"
        rest = error.reason if isinstance(error, ModelError) else "others are named PROVIDER:NAME"
        raise ModelError(name, f"{models}; {rest}") from error


# -- scripted models that come along, so that a run can be seen from end to end without a network or a key

_TOUR = ScriptedModel(
    [
        Turn(
            thinking="Means hide how a delay is made up, so I look at the spread first.",
            text="First a look at how late flights are, by carrier.",
            code='late = flights.groupby("carrier").arr_delay.agg(["count", "mean", "median"]).round(1)\nlate.head()',
            delay_s=0.2,
        ),
        Turn(
            thinking="Carriers with a few hundred flights say little.",
            text="Carriers with few flights say little: they go.",
            code='late = late[late["count"] >= 1_000].sort_values("median")\nlate.tail(3)',
            delay_s=0.2,
        ),
        Turn(
            text="Of those that are left, the latest one:",
            code="task.success(f\"{late.index[-1]}: half of its flights are {late['median'].iloc[-1]:.0f} min late or more\")",
            delay_s=0.2,
        ),
    ],
    name="tour",
)

_HELLO = ScriptedModel(
    [
        Turn(text="I make a list of squares.", code="squares = [n * n for n in range(10)]\nsquares"),
        Turn(text="And give back their sum.", code="task.success(sum(squares))"),
    ],
    name="hello",
)

SCRIPTS: Final[dict[str, ScriptedModel]] = {"tour": _TOUR, "hello": _HELLO}
