"""What a model is to a run: a name, and a stream of its answer to one request; how it is asked, and where its code stands in the answer.

Models that need no network are here: `ScriptedModel` plays answers written beforehand, `FunctionModel` asks a Python
function. They are for tests, demonstrations and docs, and need no package beyond the core (`scripted:NAME`). Those of
providers have pydantic-ai's names and are in `provided`, which wraps it.
"""

from __future__ import annotations

import ast
import asyncio
import logging
import os
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from agent_kernel.agents.events import Usage
from agent_kernel.agents.limits import SentAgain, put_into
from agent_kernel.errors import MissingExtraError, ModelError, NoModelError, UnknownPriceError
from agent_kernel.quiet import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Container, Coroutine, Mapping

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
        if not callable(function):
            raise TypeError(f"a FunctionModel takes a function, not {function!r}")
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
        if isinstance(turns, str):
            raise TypeError(f"a script is a list of answers: [{turns!r}]")
        for turn in turns:
            if not isinstance(turn, str | Turn):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
                raise TypeError(f"an answer of a script is code or a Turn, not {turn!r}")
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


# -- the threads on which models are asked, so that the caller's own thread can run code, be interrupted, and stop waiting
#
# An agent's code has to run where the notebook's code runs, and an interrupt reaches only that thread. So what waits for
# the network is on an event loop of its own, and hands its pieces over as futures: the caller may wait for them, or await
# them.
#
# A model is foreign code: it may block its loop, or catch its cancellation. So nothing that a run waits for depends on that
# loop. A second loop, the clock, runs no foreign code: it ends each answer at its time, and then the model is only told. What
# it gives later goes nowhere, and a loop that does not turn is left: whoever asks next has a new one.


logger = logging.getLogger(__name__)

_TURN_S: Final = 0.25  # in which a loop turns that nothing blocks
_AGAIN_S: Final = 1.0
_MOST_CANCELS: Final = 600  # times that a model is told to end

_lock = threading.Lock()


class Abandoned(SentAgain, BaseException):
    """Raised in a model that blocks its loop, where nobody waits for its answer any more."""


class _LoopThread:
    """An event loop on a daemon thread of its own. It turns on whatever is raised there."""

    def __init__(self, name: str) -> None:
        self.owner = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.streams: set[Stream] = set()  # whose answers somebody waits for
        self.thread = threading.Thread(target=self._run, name=f"agent-kernel {name}", daemon=True)
        self.thread.start()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def _run(self) -> None:
        has_ended = False
        while not has_ended:
            try:
                self.loop.run_forever()
                has_ended = True
            except BaseException as error:  # noqa: BLE001 - a task of foreign code that raises SystemExit ends that task
                logger.debug("raised in the loop of models: %s", type(error).__name__)
        self.loop.close()

    def turns(self) -> bool:
        """Whether nothing blocks it."""
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        return turned.wait(_TURN_S)

    def leave(self) -> None:
        """Nothing more is asked on it. It ends as soon as nothing runs there."""
        self.start(_stop_when_idle())


async def _stop_when_idle() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    asyncio.get_running_loop().stop()


_threads: dict[str, _LoopThread] = {}


def _clock() -> _LoopThread:
    """The loop that runs nothing but this module."""
    with uninterrupted(), _lock:
        return _find_loop("clock") or _begin_loop("clock")


def _models() -> _LoopThread:
    """The loop on which models are asked: a new one where a model blocks the last."""
    with uninterrupted(), _lock:  # a loop that never runs would answer nobody
        found = _find_loop("models")
        if found is not None and found.turns():
            return found
        if found is not None:
            found.leave()
        return _begin_loop("models")


def _find_loop(name: str) -> _LoopThread | None:
    """The loop of this process, if it has one: a forked child has its own."""
    found = _threads.get(name)
    return found if found is not None and found.owner == os.getpid() else None


def _begin_loop(name: str) -> _LoopThread:
    _threads[name] = found = _LoopThread(name)
    return found


def later(seconds: float) -> Future[None]:
    """A future that is done after so many seconds."""
    return _clock().start(asyncio.sleep(seconds))


class Stream:
    """One answer of a model, piece by piece, until it is whole, its time is up, or nobody wants it any more."""

    def __init__(self, model: Model, request: Request) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Delta | Answer | BaseException | None] = deque()
        self._waiting: Future[Delta | Answer | None] | None = None
        self._is_over = False  # the last piece has come: later ones are dropped
        self._task: asyncio.Task[Any] | None = None
        self._limit: Future[None] | None = None
        self._home = _models()
        self._home.streams.add(self)
        self._name = model.name
        self._reading = self._home.start(self._read(model, request))
        if request.timeout_s is not None:
            self._limit = _clock().start(self._expire(request.timeout_s))

    def next(self) -> Future[Delta | Answer | None]:
        """The next piece; None: there are no more. Its error is the model's.

        Cancelling it cancels nothing but the waiting: `cancel` ends the request.
        """
        future: Future[Delta | Answer | None] = Future()
        with self._lock:
            if self._pieces:
                _settle(future, self._pieces.popleft())
            else:
                self._waiting = future
        return future

    def cancel(self) -> None:
        """Ask no further: no more pieces come, and the connection is closed."""
        if self._limit is not None:
            self._limit.cancel()
        self._end(None)

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._end(ModelError(self._name, f"it did not answer within {seconds:g} s", timed_out=True))

    def _end(self, last: BaseException | None) -> None:
        """Take this for the last piece, from whatever thread, and have the model told."""
        if self._put(last) and not self._reading.done():
            _clock().start(self._request_end())

    def _put(self, piece: Delta | Answer | BaseException | None) -> bool:
        """Give the piece to whoever waits for it; returns whether it is taken."""
        with self._lock:
            if self._is_over:
                return False
            if piece is None or isinstance(piece, BaseException):
                self._is_over = True
                self._home.streams.discard(self)
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                self._pieces.append(piece)
                return True
        if waiting.set_running_or_notify_cancel():
            _settle(waiting, piece)
        return True

    async def _read(self, model: Model, request: Request) -> None:
        self._task = asyncio.current_task()
        try:
            # Models are told to give an iterator; those that are generators are closed at once.
            stream: Any = model.stream(request)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    if not self._put(piece):
                        break
        except asyncio.CancelledError:
            self._put(None)
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the run, which waits for it, also SystemExit
            self._put(error if isinstance(error, ModelError) else _model_error(self._name, error))
        else:
            self._put(None)
        finally:
            if self._limit is not None:
                self._limit.cancel()

    async def _request_end(self) -> None:
        """Cancel the request, on the clock; again, where the model catches that, and harder, where it blocks its loop."""
        self._reading.cancel()
        for _ in range(_MOST_CANCELS):
            has_turned = threading.Event()
            with suppress(RuntimeError):  # the loop has ended, and all that ran there
                self._home.loop.call_soon_threadsafe(has_turned.set)
            await asyncio.sleep(_TURN_S)
            if self._task is None or self._task.done():
                if has_turned.is_set() or self._task is not None:
                    return
            elif has_turned.is_set():
                with suppress(RuntimeError):
                    self._home.loop.call_soon_threadsafe(self._task.cancel)
            elif not self._home.streams or asyncio.current_task(self._home.loop) is self._task:
                # It meets this when its call returns: nothing that it would have done then is done.
                put_into(self._home.thread, Abandoned)
            await asyncio.sleep(_AGAIN_S - _TURN_S)
        logger.warning("a model does not end although nobody waits for its answer")


def _model_error(name: str, error: BaseException) -> ModelError:
    """An error that nobody foresaw, as the one that runs know; its own text, and where it came from."""
    kind = type(error).__name__
    try:
        text = f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - an error of the model's own class says of itself what it likes
        text = kind
    failed = ModelError(name, text)
    failed.__cause__ = error
    return failed


def _settle(future: Future[Delta | Answer | None], piece: Delta | Answer | BaseException | None) -> None:
    if isinstance(piece, BaseException):
        future.set_exception(piece)
    else:
        future.set_result(piece)


# -- code that a model wrote into its words, because it calls no tools: what stands in ```python fences
#
# Local models often know no tools, or are behind a server that knows none. What they write between fences is their action then,
# and what is around it their words. A fence without a language may hold anything: it counts where it is Python that does
# something, and no fence beside it says that it is Python.

CAME: Final = "What came of your code:\n"
_INSTRUCTIONS: Final = """\
You cannot call run_python here. Wherever you would, answer with one fence of Python instead, and its code is run in the
same way:
```python
print("what you want to see")
```
What came of it is told to you in the next message. An answer without a fence ends the task, and is its result."""

_PYTHON: Final = frozenset({"python", "py", "python3", "ipython", "ipython3"})
_OPENS: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\{?\.?([^\s`{}]*)[^`\n]*")
_BETWEEN: Final = "\n\n"  # the code of several fences


class Fenced(msgspec.Struct, frozen=True):
    """The words of an answer and the code that stood among them."""

    text: str
    code: str


class _Fence(msgspec.Struct, frozen=True):
    first: int  # its lines: from the one that opens it up to behind the one that closes it
    end: int
    language: str
    code: str


def split(answer: str) -> Fenced | None:
    """The code in the fences of an answer, and the words around them; None if it has no code."""
    lines = answer.splitlines()
    found = _fences(lines)
    blocks = [one for one in found if one.language in _PYTHON] or [
        one for one in found if not one.language and _does_something(one.code)
    ]
    code = _BETWEEN.join(one.code for one in blocks if one.code)
    if not code:
        return None
    code_lines = {at for one in blocks for at in range(one.first, one.end)}
    words = "\n".join(line for at, line in enumerate(lines) if at not in code_lines)
    return Fenced(re.sub(r"\n{3,}", "\n\n", words).strip(), code)


def in_words(request: Request) -> Request:
    """The same question to a model that can call no tool. Some want two sides that take turns, so nobody says two things."""
    found: list[UserMessage | AssistantMessage] = []
    for message in map(_plain, request.messages):
        last = found[-1] if found else None
        if type(last) is type(message) and last is not None:
            found[-1] = type(last)(f"{last.text}{_BETWEEN}{message.text}")
        else:
            found.append(message)
    instructions = _BETWEEN.join(filter(None, (request.instructions, _INSTRUCTIONS)))
    return msgspec.structs.replace(request, instructions=instructions, messages=tuple(found))


def _plain(message: Message) -> UserMessage | AssistantMessage:
    if isinstance(message, ToolResult):
        return UserMessage(f"{CAME}{message.text}")
    if isinstance(message, AssistantMessage) and message.code is not None:
        return AssistantMessage(_in_fence(message.text, message.code))
    return message


def _in_fence(text: str, code: str) -> str:
    """An answer as a model writes it that calls no tools."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n\n".join(filter(None, (text, f"{fence}python\n{code}\n{fence}")))


def _fences(lines: list[str]) -> list[_Fence]:
    """All fences; the last one may lack its end, where the model had nothing more to say."""
    found: list[_Fence] = []
    at = 0
    while at < len(lines):
        opened = _OPENS.fullmatch(lines[at])
        if opened is None:
            at += 1
            continue
        closed = next((end for end in range(at + 1, len(lines)) if _closes(lines[end], opened[1])), len(lines))
        code = dedent("\n".join(lines[at + 1 : closed])).strip("\n")
        found.append(_Fence(at, closed + 1, opened[2].lower(), code))
        at = closed + 1
    return found


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and not text.strip(fence[0])


def _does_something(code: str) -> bool:
    """Whether this is Python that is more than a value or a name: a result is shown in such fences too."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(one, ast.Expr) or any(map(_acts, ast.walk(one))) for one in body)


def _acts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call | ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom)


# -- the code of a call, read from its JSON as it comes in, cut wherever the provider cut it

_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN: Final = re.compile(r'[^"\\]+')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)


def without_surrogates(text: str) -> str:
    """The text with halves of characters, which no encoding can carry, replaced."""
    return _SURROGATE.sub("\ufffd", text)


class CodeReader:
    r"""Gives the text of one key of a JSON object, as far as its pieces go.

    What is no such object gives what it can; only the whole answer is ever run.

    >>> reader = CodeReader()
    >>> [reader.feed(piece) for piece in ('{"co', 'de": "a', ' = 1', chr(92), 'n', 'b"}')]
    ['', 'a', ' = 1', '', '\n', 'b']
    """

    def __init__(self) -> None:
        self._rest = ""  # the beginning of an escape that is not whole yet
        self._high = 0  # the first half of a character of two
        self._depth = 0
        self._string: list[str] | None = None  # the string that is being read
        self._named = ""  # the last string of the outermost object
        self._is_value = False  # behind a colon of the outermost object

    def feed(self, piece: str) -> str:
        """What this piece adds to the text."""
        text, self._rest = self._rest + piece, ""
        found: list[str] = []
        at = 0
        while at < len(text):
            if self._string is None:
                self._read_structure(text[at])
                at += 1
                continue
            at = self._read_string(text, at, found)
        return "".join(found)

    @property
    def _wanted(self) -> bool:
        return self._depth == 1 and self._is_value and self._named == "code"

    def _read_structure(self, char: str) -> None:
        if char == '"':
            self._string = []
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        elif char == ":" and self._depth == 1:
            self._is_value = True
        elif char == "," and self._depth == 1:
            self._is_value = False

    def _read_string(self, text: str, at: int, found: list[str]) -> int:
        """Read on in a string, and return where it stopped."""
        if plain := _PLAIN.match(text, at):
            self._take(plain[0], found)
            return plain.end()
        if text[at] == '"':
            self._take("", found)
            self._close()
            return at + 1
        size = 6 if text[at + 1 : at + 2] == "u" else 2
        if len(text) - at < size:
            self._rest = text[at:]
            return len(text)
        self._escape(text[at + 1 : at + size], found)
        return at + size

    def _escape(self, escape: str, found: list[str]) -> None:
        if escape[0] != "u":
            self._take(_ESCAPES.get(escape, escape), found)
            return
        try:
            code = int(escape[1:], 16)
        except ValueError:
            self._take("\ufffd", found)
            return
        if self._high and code in _LOW:
            whole = 0x10000 + ((self._high - _HIGH.start) << 10) + (code - _LOW.start)
            self._high = 0
            self._take(chr(whole), found)
        elif code in _HIGH:
            self._take("", found)
            self._high = code
        else:
            self._take(without_surrogates(chr(code)), found)

    def _take(self, text: str, found: list[str]) -> None:
        """Text of the string that is being read; a half that stands alone before it is no character."""
        if self._high:
            text, self._high = "\ufffd" + text, 0
        if self._wanted:
            found.append(text)
        elif self._string is not None:
            self._string.append(text)

    def _close(self) -> None:
        if self._depth == 1 and not self._is_value:
            self._named = "".join(self._string or ())
        self._string = None
