"""Functions whose calls are recorded: what they were called with, what came of it, how long it took; cached, and tried again.

`@repo.tool` makes a `Tool` of a function. Each call is a record beside all branches, stored at once whatever becomes of a
transaction around it, so neither a checkout nor an error forgets a call that was paid for, and statistics are computed from these records as they are asked for. Arguments and results that JSON does not hold
are recorded as text, and such a call is not cached. A result is cached under the arguments and what the function does: one that
changed computes anew.

A function with a parameter `agent_state` is given a state (see `State`), of which no model is told: that of the call, of the tool, or
of all tools. What it returned for one state is not cached for another, and a call is tried again with the state that it had.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import BuiltinFunctionType, CellType, CodeType, EllipsisType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

import msgspec

from agent_kernel.errors import RecordError, RecordNotFoundError, RecordStateError, StoreUnavailableError
from agent_kernel.records.collection import Records, together
from agent_kernel.records.documents import (
    as_document,
    checks_arguments,
    is_alive,
    is_plain,
    new_id,
    not_negative,
    now_s,
    require_mapping,
    require_text,
    require_yes_or_no,
    seconds,
    shown,
    this_process,
)
from agent_kernel.records.schema import Record

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

P = ParamSpec("P")
logger = logging.getLogger(__name__)
R = TypeVar("R")
T = TypeVar("T")
RunStatus: TypeAlias = Literal["running", "completed", "failed", "cancelled", "timeout", "waiting"]

STATE: Final = "agent_state"  # a parameter of this name is given the state, and no model is told of it
_NEWEST: Final = 10**20
_MOST_NAME: Final = 100
_ALL: Final = 1_000_000_000
_ARGUMENTS: Final = "arguments recorded as text"
_WAITING: Final = "\0waiting\0"
_NOT_ARGUMENTS: Final = "#"  # stands before what tells the code, and then the state, in the id of a cached result
_DEEPEST: Final = 50
_MOST_ITEMS: Final = 10_000
_KINDS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE


class ToolRun(Record):
    """One call of a tool. `waiting`: it failed, and is to be tried again at `next_retry_s`."""

    collection = "ToolRun"
    plane = "store"
    transitions: ClassVar[Mapping[str, Any]] = {"completed": (), "cancelled": ()}

    tool: str
    status: RunStatus = "running"
    arguments: Any = None
    result: Any = None
    error: str = ""
    note: str = ""  # why it was not cached, and what is recorded as text
    is_cached: bool = False  # the result came from the cache, and nothing was called
    attempts: int = 0
    most_attempts: int = 1
    backoff_s: float = 0.0
    next_retry_s: float = 0.0  # seconds since 1970
    started_s: float = 0.0
    duration_ms: float = 0.0
    process: str = ""
    state: str = ""  # whose state it was given


class CachedResult(Record):
    """What a tool returned, for as long as it counts."""

    collection = "CachedResult"
    plane = "store"

    tool: str
    arguments: Any = None
    result: Any = None
    hits: int = 0


class ToolStats(msgspec.Struct, frozen=True):
    """How well a tool does. Rates are of all calls, those that the cache answered among them; the duration is of the others."""

    total: int
    success_rate: float
    error_rate: float
    avg_duration_ms: float
    cache_hit_rate: float
    cache_hits: int


@checks_arguments
class Tools:
    """The tools of a store. Calling it decorates a function.

    >>> import agent_kernel as ak
    >>> repo = ak.open("memory:")
    >>> @repo.tool(cache=60)
    ... def double(n: int) -> int:
    ...     '''Twice as much.'''
    ...     return 2 * n
    >>> double(21), double(21)
    (42, 42)
    >>> repo.tools.stats("double").cache_hits
    1
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.records: Records[ToolRun] = Records(repo, ToolRun, index=_index_of)
        self.cache: Records[CachedResult] = Records(repo, CachedResult)
        self.first_calls = _FirstCalls()
        self._state: object = None
        self._known: dict[str, Tool[..., Any]] = {}

    @property
    def state(self) -> Any:
        """What tools are given that take a state, where nobody gives them another; by default `repo.state("default")`.

        Set it to a state (`repo.state("ada")`), a mapping, or a function that is called for one at each call.
        """
        if self._state is not None:
            return self._state
        from agent_kernel.records.state import State

        return State(self.repo, "default")

    @state.setter
    def state(self, state: object) -> None:
        self._state = state

    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str = "",
        cache: float = 0.0,
        retries: int = 0,
        backoff: float = 1.0,
        timeout_s: float = 0.0,
        defer: bool = False,
        state: object = None,
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        """Make a tool of a function, plain or async.

        Args:
            name: by default the function's.
            cache: seconds for which a result counts for calls with equal arguments. Equal calls of several threads at once run
                the function once: the others wait for its result, and run it themselves where it raises. A state counts by whose it is, not by what it
                holds: `invalidate` forgets what was computed from values that changed.
            retries: how often a call that raised is tried again.
            backoff: seconds before the first of these, and doubled for each after it.
            timeout_s: seconds for a call; 0: any. A plain function cannot be stopped: its thread goes on, and nobody waits for it.
            defer: raise at once, and leave it to `due` and `retry` to try again.
            state: what a parameter `agent_state` is given, a state of `repo.state` or a mapping; a function is called for it. By
                default the `state` of all tools.
        """

        def decorate(target: Callable[..., Any]) -> Tool[..., Any]:
            return Tool(self, target, **options)

        return decorate if function is None else decorate(function)

    def enter(self, tool: Tool[..., Any]) -> None:
        """Know a tool by its name, to try its calls again."""
        self._known[tool.name] = tool

    # -- what was called

    def runs(self, tool: str | None = None, limit: int | None = None) -> list[ToolRun]:
        """The calls of a tool, or of all, the newest first. One whose process died meanwhile has failed."""
        if limit is not None:
            not_negative(limit, "limit")
        waiting = self.records.first(_WAITING, _ALL)
        tools = self.names() if tool is None else [tool]
        ids = [id for id in waiting if tool in (None, _tool_of(id))]
        ids += [id for name in tools for id in self.records.first(f"{name}\0", _ALL if limit is None else limit)]
        ids = sorted(ids, key=_time_of, reverse=True)[:limit]
        found = [run for id in ids if (run := self.records.get(id)) is not None]
        return [self._as_it_is(run) for run in sorted(found, key=lambda run: run.started_s, reverse=True)[:limit]]

    def names(self) -> list[str]:
        """The tools that were called."""
        return sorted({*self.records.groups(), *map(_tool_of, self.records.first(_WAITING, _ALL))})

    def stats(self, tool: str, *, limit: int | None = None) -> ToolStats:
        """How well a tool does, computed from its calls, or from the newest of them."""
        ended = [run for run in self.runs(tool, limit) if run.status not in ("running", "waiting")]
        total = len(ended) or 1
        called = [run.duration_ms for run in ended if not run.is_cached]
        hits = sum(run.is_cached for run in ended)
        return ToolStats(
            total=len(ended),
            success_rate=sum(run.status == "completed" for run in ended) / total,
            error_rate=sum(run.status in ("failed", "timeout") for run in ended) / total,
            avg_duration_ms=sum(called) / len(called) if called else 0.0,
            cache_hit_rate=hits / total,
            cache_hits=hits,
        )

    def _as_it_is(self, run: ToolRun) -> ToolRun:
        if run.status != "running" or is_alive(run.process, self.repo):
            return run
        return run.model_copy(update={"status": "failed", "error": "its process ended before it did"})

    def clear(self, older_s: float) -> int:
        """Delete calls that began more than so many seconds ago; how many. What they cost is no longer known then."""
        before = now_s() - seconds(older_s, "older_s")
        return sum(self.records.delete(run.id) for run in self.records.find(where=lambda run: run.started_s < before))

    # -- cached results

    def invalidate(self, tool: str, args: Mapping[str, object] | None = None) -> int:
        """Forget what a tool returned, or what it returned for these arguments; of any code and state. How many results."""
        known = self._known.get(tool)
        wanted = None if args is None else known.key_of(args) if known is not None else _key_of(tool, args)
        found = [id for id in self.cache if _is_of(id, tool) and wanted in (None, id.partition(_NOT_ARGUMENTS)[0])]
        return sum(self.cache.delete(id) for id in found)

    def clear_expired(self) -> int:
        """Delete results whose time is over; how many. They count as gone before."""
        return self.cache.purge()

    def hits(self, tool: str) -> int:
        """How often the results that are cached now were used."""
        return sum(found.hits for id, found in self.cache.items() if _is_of(id, tool))

    # -- trying again

    def due(self) -> list[ToolRun]:
        """The calls that failed and whose time to be tried again has come, the longest due first.

        Those that another living process waits for are its own.
        """
        return [run for run in self.waiting() if run.next_retry_s <= now_s() and not self._is_waited_for(run)]

    def waiting(self) -> list[ToolRun]:
        """The calls that failed and will be tried again, the next one first."""
        return [run for id in self.records.first(_WAITING, _ALL) if (run := self.records.get(id)) is not None]

    def _is_waited_for(self, run: ToolRun) -> bool:
        return bool(run.process) and is_alive(run.process, self.repo)

    def retry(self, run: str | ToolRun, *, state: object = None) -> Any:
        """Try a call again that waits for it, and return its result. Exactly one caller gets to try it.

        Args:
            state: the state that it was called with, where that is neither the tool's nor that of all tools.

        Raises:
            RecordNotFoundError: this process has no tool of its name. RecordStateError: it does not wait, its arguments
                are recorded as text, or it was called with another state. What the tool raises is raised too.
        """
        found = self.records[_id_of(run)]
        tool = self._known.get(found.tool)
        if tool is None:
            raise RecordNotFoundError("tool", found.tool)
        return tool.again(found, state)

    def cancel(self, run: str | ToolRun) -> ToolRun:
        """Stop trying a call that failed. Raises: TransitionError: it is over."""
        return self.records.update(_id_of(run), status="cancelled", process="", next_retry_s=0.0)


class _Options(msgspec.Struct, frozen=True):
    """How a tool is called. See `Tools.__call__`."""

    cache: float
    retries: int
    backoff: float
    timeout_s: float
    defer: bool


@checks_arguments
class Tool(Generic[P, R]):
    """A function whose calls are recorded. It is called as the function is, and can be given to an agent."""

    __name__: str

    def __init__(
        self,
        tools: Tools,
        function: Callable[P, R],
        *,
        name: str = "",
        cache: float = 0.0,
        retries: int = 0,
        backoff: float = 1.0,
        timeout_s: float = 0.0,
        defer: bool = False,
        state: object = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a tool is made of a function, not of {shown(function)}")
        self.name = require_text(name, "a tool's name") or getattr(function, "__name__", type(function).__name__)
        if "/" in self.name or "\0" in self.name or len(self.name.encode()) > _MOST_NAME:
            raise ValueError(f"a tool has a name of at most {_MOST_NAME} bytes, without /, and not {shown(self.name)}")
        for duration, what in ((cache, "cache"), (backoff, "backoff"), (timeout_s, "timeout_s")):
            seconds(duration, what)
        not_negative(retries, "retries")
        require_yes_or_no(defer, "defer")
        self.function = function
        self._tools = tools
        self._options = _Options(cache, retries, backoff, timeout_s, defer)
        self._state = state
        self._code = _digest(_form(function, {}))[:20] if cache else ""
        forms = (function, getattr(function, "__call__", None))  # noqa: B004 - of an object its own method counts
        if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in forms):
            raise TypeError(f"{self.name} yields: a tool returns its whole result, for example a list")
        self.is_async = any(map(inspect.iscoroutinefunction, forms))
        functools.update_wrapper(self, function)
        self.__name__ = self.name
        self._whole = _signature_of(function, self.name)
        self.takes_state = STATE in self._whole.parameters
        visible = [one for one in self._whole.parameters.values() if one.name != STATE]
        self.__signature__ = self._whole.replace(parameters=visible)  # what a model is told of
        tools.enter(self)

    def __repr__(self) -> str:
        return f"<tool {self.name}{self.__signature__}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"the tool {self.name} belongs to a store that is open here: decorate its function again")

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(cast("Callable[..., Any]", self), instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it.

        Raises:
            TimeoutError: it took longer than its timeout. Otherwise what the function raises, the last time that it is tried.
        """
        keywords = dict(kwargs)
        state = keywords.pop(STATE, None) if self.takes_state else None
        try:
            bound_arguments = self.__signature__.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.__signature__} cannot be called so: {error}") from None
        bound_arguments.apply_defaults()
        return cast("R", self._start(bound_arguments.arguments, None, state))

    def again(self, run: ToolRun, state: object = None) -> Any:
        """See `Tools.retry`."""
        if run.note.startswith(_ARGUMENTS):
            reason = "its arguments are recorded as text, which the tool cannot take; call the tool again"
            raise RecordStateError(ToolRun.collection, run.id, reason)
        if self.takes_state and _address_of(self._state_for(state)) != run.state:
            whose = f"the state {run.state}" if run.state else "a state that is in no store"
            raise RecordStateError(
                ToolRun.collection, run.id, f"it was called with {whose}: retry(…, state=…) takes it"
            )
        return self._start(cast("dict[str, Any]", run.arguments), run, state)

    def key_of(self, arguments: Mapping[str, object]) -> str:
        """How the ids of the results begin that are cached for these arguments, of any code and state."""
        try:
            bound_arguments = self.__signature__.bind(**require_mapping(arguments, "args"))
        except TypeError as error:
            raise TypeError(f"args names the arguments of {self.name}: {error}") from None
        bound_arguments.apply_defaults()
        return _key_of(self.name, self._as_lists(bound_arguments.arguments))

    def _start(self, arguments: Mapping[str, Any], run: ToolRun | None, state: object = None) -> object:
        found = self._state_for(state) if self.takes_state else None
        call = _Call(self._tools, self.name, self._options, self._code, self._as_lists(arguments), run, found)
        work = functools.partial(self._apply, arguments, found)
        return self._run_async(call, work) if self.is_async else self._run(call, work)

    def _state_for(self, call_state: object) -> object:
        """The state that was given with the call, or else to the tool, or else to all tools."""
        for state in (call_state, self._state, self._tools.state):
            if state is not None:
                return state() if callable(state) else state
        return None

    def _as_lists(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        rest = next((one.name for one in self._whole.parameters.values() if one.kind is one.VAR_POSITIONAL), "")
        return {name: list(value) if name == rest else value for name, value in arguments.items()}

    def _apply(self, arguments: Mapping[str, Any], state: object) -> object:
        found = {**arguments, STATE: state} if self.takes_state else arguments
        bound_arguments = inspect.BoundArguments(
            self._whole, cast("Any", {n: found[n] for n in self._whole.parameters if n in found})
        )
        bound_arguments.apply_defaults()
        return self.function(*bound_arguments.args, **bound_arguments.kwargs)

    def _run(self, call: _Call, work: Callable[[], object]) -> object:
        while not call.is_cached():
            if (first := call.first()) is None:
                with call.others_wait():
                    return call.result if call.is_cached() else self._attempt(call, work)
            call.waits = first.result()
        return call.result

    def _attempt(self, call: _Call, work: Callable[[], object]) -> object:
        wait_s: float | None = 0.0
        while True:
            try:
                call.begin(wait_s or 0.0, time.sleep)
                result = _within(work, self._options.timeout_s, self.name)
            except BaseException as error:
                wait_s = call.fail(error)
                if wait_s is None:
                    raise
            else:
                return call.complete(result)

    async def _run_async(self, call: _Call, work: Callable[[], object]) -> object:
        while not call.is_cached():
            if (first := call.first()) is None:
                with call.others_wait():
                    return call.result if call.is_cached() else await self._attempt_async(call, work)
            call.waits = await asyncio.shield(asyncio.wrap_future(first))  # who gives up does not end the first call
        return call.result

    async def _attempt_async(self, call: _Call, work: Callable[[], object]) -> object:
        wait_s: float | None = 0.0
        while True:
            try:
                if wait_s:
                    await asyncio.sleep(wait_s)
                call.begin()
                doing = cast("Coroutine[Any, Any, object]", work())
                result = await asyncio.wait_for(doing, self._options.timeout_s or None)
            except BaseException as error:
                wait_s = call.fail(error)
                if wait_s is None:
                    raise
            else:
                return call.complete(result)


_COMPUTES: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("agent_kernel_tool_computes", default=False)


class _FirstCalls:
    """The cached calls that are computed just now, by what their results are cached under. Equal calls wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, Future[bool]] = {}

    def enter(self, key: str) -> Future[bool] | None:
        """What the first call ends, with whether its result is cached; None: this one is the first."""
        with self._lock:
            found = self._ends.get(key)
            if found is None:
                self._ends[key] = Future()
            return found

    def leave(self, key: str, *, is_cached: bool) -> None:
        with self._lock:
            ended = self._ends.pop(key)
        ended.set_result(is_cached)


class _Call:
    """One call as it is recorded, from looking into the cache to its end."""

    def __init__(
        self,
        tools: Tools,
        name: str,
        options: _Options,
        code: str,
        arguments: dict[str, Any],
        run: ToolRun | None,
        state: object,
    ) -> None:
        self._tools = tools
        self._options = options
        self._arguments = arguments
        address = _address_of(state)
        self._is_secret = _is_sealed(state)
        self._is_plain = is_plain(arguments) and (bool(address) or is_plain(state))
        whose = _branch_of(state) + address or state
        self._key = "" if not self._is_plain else _key_of(name, arguments, code, whose)
        self.result: object = None
        # One within another does not wait: two that call each other would wait for each other.
        self.waits = bool(options.cache) and self._is_plain and not self._is_secret and not _COMPUTES.get()
        self._has_cached = False
        texts = [one for one, value in arguments.items() if not is_plain(value)]
        self._is_recorded = run is not None
        self._began = time.perf_counter()
        self._run = run or ToolRun(
            id=f"{name}/{new_id()}",
            tool=name,
            arguments={one: as_document(value) for one, value in arguments.items()},
            note=f"{_ARGUMENTS}: {', '.join(texts)}" if texts else "",
            most_attempts=1 + options.retries,
            backoff_s=options.backoff,
            started_s=now_s(),
            state=address,
        )

    def is_cached(self) -> bool:
        """Whether an earlier result counts; the call is recorded then, and is over."""
        if not self._options.cache or not self._is_plain:
            return False
        return _outside_transaction(self._use_cached)

    def _use_cached(self) -> bool:
        key = self._key
        if key not in self._tools.cache:
            return False

        def use() -> ToolRun:
            found = self._tools.cache.update(key, lambda old: setattr(old, "hits", old.hits + 1))
            self.result = found.result
            took_ms = 1e3 * (time.perf_counter() - self._began)
            fields = {"status": "completed", "result": found.result, "is_cached": True, "duration_ms": took_ms}
            return self._tools.records.put(self._run.model_copy(update=fields))

        try:
            together(self._tools.records, use, f"{self._run.tool}: cached")
        except RecordNotFoundError:  # its time was over just now
            return False
        self._has_cached = True
        return True

    def first(self) -> Future[bool] | None:
        """What an equal call ends that is computed just now; None: this one is to compute."""
        return self._tools.first_calls.enter(self._key) if self.waits else None

    @contextmanager
    def others_wait(self) -> Generator[None]:
        """Equal calls wait until the block ends. Without a result in the cache each of them computes its own."""
        if not self.waits:
            yield
            return
        token = _COMPUTES.set(True)
        try:
            yield
        finally:
            _COMPUTES.reset(token)
            self._tools.first_calls.leave(self._key, is_cached=self._has_cached)

    def begin(self, wait_s: float = 0.0, sleep: Callable[[float], object] = time.sleep) -> None:
        """Record that the function is called now. A call that waited is begun by one process alone."""
        if wait_s:
            sleep(wait_s)
        _outside_transaction(self._begin)

    def _begin(self) -> None:
        process = this_process(self._tools.repo)
        fields = {"status": "running", "process": process, "next_retry_s": 0.0, "attempts": self._run.attempts + 1}
        self._began = time.perf_counter()
        if not self._is_recorded:
            self._run = self._tools.records.put(self._run.model_copy(update=fields), expect=0)
            self._is_recorded = True
            return

        def go_on(now: ToolRun) -> ToolRun:
            if now.status != "waiting" or now.attempts != self._run.attempts:
                raise RecordStateError(
                    ToolRun.collection, now.id, f"it is {now.status}, and does not wait to be tried again"
                )
            return now.model_copy(update=fields)

        self._run = self._tools.records.update(self._run.id, go_on)

    def complete(self, result: object) -> object:
        """Record the result, and keep it for equal calls where it can be."""
        is_cacheable = self._options.cache > 0 and self._is_plain and is_plain(result) and not self._is_secret
        note = self._run.note
        if self._is_secret:  # it may be a value that the state encrypts, and would lie here in plain text
            note = "; ".join(filter(None, (note, "the result is not recorded: the state of the tool has a secret")))
        elif not is_plain(result):
            note = "; ".join(filter(None, (note, "the result is recorded as text, or as what JSON makes of it")))
        if self._options.cache and not is_cacheable:
            note += ": not cached"
        fields: dict[str, Any] = {
            "status": "completed",
            "result": None if self._is_secret else as_document(result),
            "error": "",
            "note": note,
            **self._ended(),
        }

        def store() -> None:
            self._tools.records.update(self._run.id, **fields)
            if is_cacheable:
                found = CachedResult(id=self._key, tool=self._run.tool, arguments=self._arguments, result=result)
                self._tools.cache.put(found, ttl_s=self._options.cache)

        is_recorded = self._record(lambda: together(self._tools.records, store, f"{self._run.tool}: completed"))
        self._has_cached = is_recorded and is_cacheable
        return result

    def fail(self, error: BaseException) -> float | None:
        """Record what was raised. Returns the seconds after which to try again; None: not here, or not at all."""
        if not self._is_recorded or (isinstance(error, RecordError) and error.id == self._run.id):
            return None  # it could not even be recorded, or somebody else tries it
        message = type(error).__name__ if self._is_secret else f"{type(error).__name__}: {error}".rstrip(": ")
        if not isinstance(error, Exception):  # a person, or a task group, stops it
            self._end("cancelled", message)
            return None
        if self._run.attempts >= self._run.most_attempts:
            self._end("timeout" if isinstance(error, TimeoutError) else "failed", message)
            return None
        wait_s = self._run.backoff_s * 2.0 ** (self._run.attempts - 1)
        fields: dict[str, Any] = self._ended() | {
            "status": "waiting",
            "error": message,
            "next_retry_s": now_s() + wait_s,
        }
        if not self._options.defer:
            fields["process"] = self._run.process  # which waits for it itself
        is_recorded = self._record(lambda: self._tools.records.update(self._run.id, **fields))
        return wait_s if is_recorded and not self._options.defer else None

    def _end(self, status: RunStatus, error: str) -> None:
        fields: dict[str, Any] = self._ended() | {"status": status, "error": error}
        self._record(lambda: self._tools.records.update(self._run.id, **fields))

    def _record(self, store: Callable[[], object]) -> bool:
        """Store how it went. What was paid for is not withheld because that could not be stored."""
        try:
            _outside_transaction(store)
        except (RecordError, StoreUnavailableError) as error:  # cancelled meanwhile, or no room
            logger.warning("how the call %s went is not recorded: %s", self._run.id, error)
            return False
        return True

    def _ended(self) -> dict[str, Any]:
        took_ms = 1e3 * (time.perf_counter() - self._began)
        return {"process": "", "next_retry_s": 0.0, "duration_ms": took_ms}


def _signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(
            f"Python does not say what {name} takes: make a function that calls it, and a tool of that"
        ) from None


def _id_of(run: object) -> str:
    if not isinstance(run, str | ToolRun):
        raise TypeError(f"a call is given as itself or by its id, not as {shown(run)}")
    return run if isinstance(run, str) else run.id


def _within(work: Callable[[], object], timeout_s: float, name: str) -> object:
    """Do the work, on a thread of its own where nobody waits longer than so many seconds for it."""
    if not timeout_s:
        return work()
    ended: list[tuple[bool, Any]] = []
    context = contextvars.copy_context()

    def do() -> None:
        try:
            ended.append((True, context.run(work)))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            ended.append((False, error))

    thread = threading.Thread(target=do, name="tool", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not ended:
        raise TimeoutError(f"{name} took longer than {timeout_s:g} seconds")
    is_result, found = ended[0]
    if not is_result:
        raise found
    return found


def _outside_transaction(store: Callable[[], T]) -> T:
    """Store something at once, also within a transaction, which may be rolled back."""
    return contextvars.Context().run(store)


def _address_of(state: object) -> str:
    """What tells a state of a store from others: whose it is, of which session, where it lies; "": it is in no store."""
    from agent_kernel.records.state import State

    return state.address if isinstance(state, State) else ""


def _is_sealed(state: object) -> bool:
    from agent_kernel.records.state import State

    return isinstance(state, State) and state.seal is not None


def _branch_of(state: object) -> str:
    """The branch that a state follows where it was given none: it has other values on each."""
    from agent_kernel.records.lines import BranchLine
    from agent_kernel.records.sessions import SESSIONS
    from agent_kernel.records.state import State

    if not isinstance(state, State) or state.where["branch"] is not None:
        return ""
    line = state.line()
    if isinstance(line, BranchLine):
        return f"{line.branch}\0"
    return next((f"{one.branch}\0" for one in list(SESSIONS) if one.pending is line), "")


def _key_of(tool: str, arguments: Mapping[str, Any], code: str = "", state: object = None) -> str:
    parts = [f"{tool}/{_digest(arguments)[:40]}"]
    parts += [code] if code else []
    parts += [] if state is None else [_digest(state)[:20]]
    return _NOT_ARGUMENTS.join(parts)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _form(value: object, seen: dict[int, tuple[int, object]], depth: int = 0) -> object:
    """What tells a function from others, as JSON holds it: what it does, and the plain data and functions that it has from around it.

    The lines and the file where it stands do not count, and of any other object only the type does: its text may be another in the
    next process.
    """
    kind: type[Any] = type(value)
    if kind in _SIMPLE:
        return [kind.__name__, ascii(value)]
    if id(value) in seen:
        return ["again", seen[id(value)][0]]
    if depth > _DEEPEST:
        return _name_of(kind)
    seen[id(value)] = len(seen), value  # which stays, so that no other object gets its id
    return [kind.__name__, *_parts_of(value, kind, lambda one: _form(one, seen, depth + 1))]


def _parts_of(value: Any, kind: type[Any], form: Callable[[object], object]) -> list[object]:
    if kind in (list, tuple, dict, set, frozenset):
        if len(value) > _MOST_ITEMS:
            return [len(value)]
        items: list[object] = [form(one) for one in (value.items() if kind is dict else value)]
        return sorted(items, key=json.dumps) if kind in (set, frozenset) else items
    if kind is CodeType:
        names = [*value.co_names, "", *value.co_varnames]
        counts = [value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags & _KINDS]
        return [value.co_code.hex(), value.co_exceptiontable.hex(), names, counts, form(value.co_consts)]
    if kind is FunctionType:
        around = [_content_of(cell) for cell in value.__closure__ or ()]
        return [form(one) for one in (value.__code__, value.__defaults__, value.__kwdefaults__, around)]
    if kind is MethodType:
        return [form(value.__func__), form(value.__self__)]
    if kind is functools.partial:
        return [form(value.func), form(value.args), form(value.keywords)]
    if isinstance(value, type | BuiltinFunctionType):
        return _name_of(value)
    own: Mapping[str, object] = getattr(value, "__dict__", {})
    if "__wrapped__" in own:  # of a tool, or of functools.lru_cache
        return [form(own["__wrapped__"])]
    called = getattr(kind, "__call__", None)  # noqa: B004 - what its class says is wanted
    return [*_name_of(kind), form(called) if type(called) is FunctionType else ""]


def _content_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # what stands there comes later, as the function's own name does
        return ...


def _name_of(kind: Any) -> list[object]:
    return [str(kind.__module__), str(kind.__qualname__)]


_SIMPLE: Final = frozenset((str, bytes, int, float, complex, bool, type(None), EllipsisType))


def _tool_of(id: str) -> str:
    return id.rpartition("/")[0]


def _time_of(id: str) -> str:
    """What sorts calls by when they began."""
    return id.rpartition("/")[2]


def _is_of(id: str, tool: str) -> bool:
    return id.startswith(f"{tool}/")


def _index_of(run: ToolRun) -> str:
    """The calls of a tool, the newest first; those that wait, by when they are due."""
    if run.status == "waiting":
        return f"{_WAITING}{int(run.next_retry_s * 1e6):020d}{run.id}"
    return f"{run.tool}\0{_NEWEST - int(run.started_s * 1e6):020d}{run.id}"
