"""What a model is to a run: a name, and a stream of its answer to one request.

Models that need no network are here: `ScriptedModel` plays answers written beforehand, `FunctionModel` asks a Python
function. They are for tests, demonstrations and docs, and need no package beyond the core. Those of providers are in
`providers`, which wraps pydantic-ai.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from agent_kernel.agents.events import Usage
from agent_kernel.errors import ModelError

__all__ = [
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
