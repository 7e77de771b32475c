"""Tools: calls are recorded, cached and tried again; a checkout forgets none that was paid for. Rows AAF-11 to AAF-14."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import operator
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

import agent_kernel as ak
from agent_kernel.agents import ScriptedModel
from agent_kernel.errors import InvalidRecordError


def test_a_call_is_recorded_with_arguments_result_and_duration(memory: ak.Repository) -> None:
    """AAF-11: start_execution, complete_execution, get_execution_history(tool, limit)."""

    @memory.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        time.sleep(0.01)
        return a + b

    assert add(1) == 2
    assert add(2, b=5) == 7
    last, first = memory.tools.runs("add")
    assert (first.arguments, first.result, first.status) == ({"a": 1, "b": 1}, 2, "completed")
    assert last.arguments == {"a": 2, "b": 5}
    assert first.duration_ms >= 10
    assert [run.id for run in memory.tools.runs("add", 1)] == [last.id]
    assert [run.id for run in memory.tools.runs(limit=1)] == [last.id]
    assert memory.tools.names() == ["add"]
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")


def test_async_functions_are_tools_too(memory: ak.Repository) -> None:
    """AAF-11, for coroutines: several at once."""

    @memory.tool(cache=60, retries=1, backoff=0.001)
    async def fetch(page: int) -> str:
        await asyncio.sleep(0.01)
        if page == 3 and not memory.tools.waiting():
            calls.append(page)
            if calls.count(3) == 1:
                raise OSError
        return f"page {page}"

    calls: list[int] = []

    async def all_pages() -> list[str]:
        return await asyncio.gather(*(fetch(page) for page in range(4)))

    assert asyncio.run(all_pages()) == asyncio.run(all_pages()) == [f"page {page}" for page in range(4)]
    assert memory.tools.stats("fetch").cache_hits == 4
    assert max(run.attempts for run in memory.tools.runs("fetch")) == 2


def test_what_fails_is_cancelled_or_takes_too_long_is_recorded_so(memory: ak.Repository) -> None:
    """AAF-11: fail, cancel, timeout."""
    go_on = threading.Event()

    @memory.tool(timeout_s=0.02)
    def wait(how: str) -> None:
        if how == "raise":
            raise ValueError("no")
        if how == "stop":
            raise KeyboardInterrupt
        go_on.wait(5)

    @memory.tool(timeout_s=0.02)
    async def wait_too() -> None:
        await asyncio.sleep(5)

    async def stop() -> None:
        task = asyncio.ensure_future(wait_too())
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    for how, error in (("raise", ValueError), ("stop", KeyboardInterrupt), ("slow", TimeoutError)):
        with pytest.raises(error):
            wait(how)
    go_on.set()
    assert [run.status for run in memory.tools.runs("wait")] == ["timeout", "cancelled", "failed"]
    assert memory.tools.runs("wait")[2].error == "ValueError: no"
    with pytest.raises(TimeoutError):
        asyncio.run(wait_too())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stop())
    assert [run.status for run in memory.tools.runs("wait_too")] == ["cancelled", "timeout"]


def test_a_call_whose_process_was_killed_has_failed(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    """AAF-11: nothing runs for ever."""
    worker = child("""
        @repo.tool
        def work():
            print("within", flush=True)
            input()
        work()
    """)
    assert repo.tools.runs("work")[0].status == "running"
    worker.kill()
    worker.wait()
    assert (repo.tools.runs("work")[0].status, repo.tools.stats("work").error_rate) == ("failed", 1)


def test_equal_arguments_have_the_cached_result(memory: ak.Repository) -> None:
    """AAF-12: cache_result(ttl), get_cached_result, hit_count, invalidate, clear_expired."""
    calls: list[dict[str, int]] = []

    @memory.tool(cache=60)
    def look_up(where: dict[str, int], deep: bool = False) -> dict[str, object]:
        calls.append(where)
        return {"n": len(calls), "half": 0.5, "none": None, "list": [1, "x"]}

    first = look_up({"a": 1, "b": 2})
    assert look_up({"b": 2, "a": 1}, deep=False) == first
    assert look_up({"a": 1}) != first
    assert (len(calls), memory.tools.hits("look_up")) == (2, 1)
    assert memory.tools.invalidate("look_up", {"where": {"a": 1}}) == 1
    assert memory.tools.invalidate("look", None) == 0
    look_up({"a": 1})
    look_up({"a": 1, "b": 2})
    assert len(calls) == 3
    assert memory.tools.invalidate("look_up") == 2
    assert memory.tools.hits("look_up") == 0


def test_a_function_that_changed_computes_anew(memory: ak.Repository) -> None:
    """AAF-12: the key of a cached result is also the function's code: the cell was run again with another one."""

    def make(source: str, **names: object) -> Callable[..., Any]:
        namespace = dict(names)
        exec(compile(source, f"<cell {len(source)}>", "exec"), namespace)
        return memory.tool(cache=60)(cast("Any", namespace["f"]))

    assert make("def f(n): return n + 1")(1) == 2
    assert make("def f(n): return n + 2")(1) == 3
    assert make("def f(n): return n.real")(1) == make("def f(n): return n.imag")(1) + 1  # other names, the same steps
    assert make("def f(n):\n def g(): return n * 2\n return g()")(1) == 2  # nested code
    assert make("def f(n):\n def g(): return n * 3\n return g()")(1) == 3
    assert make("def f(n, *, by=4): return n * by")(1) == 4
    assert make("def f(n): return n == 1")(1) is True  # 1, 1.0 and True are equal constants
    assert make("def f(n): return 1")(1) == 1
    one = make("def f(n): return 1.0")(1)
    assert (one, type(one)) == (1, float)
    before = memory.tools.hits("f")
    assert make("\n\n# a remark\ndef f(n): return n + 1")(1) == 2  # other lines, another file, the same code
    assert memory.tools.hits("f") == before + 1
    assert memory.tools.invalidate("f", {"n": 1}) == 9  # of any code; `by` is an argument
    assert memory.tools.invalidate("f") == 1


def test_two_functions_of_one_name_do_not_share_results(memory: ak.Repository) -> None:
    tool = memory.tool(cache=60)
    assert [tool(one)(3) for one in (lambda n: n + 1, lambda n: n * 2, lambda n: n + 1)] == [4, 6, 4]
    assert memory.tools.hits("<lambda>") == 1

    def times(factor: Any) -> Callable[[int], int]:
        return tool(lambda n: n * factor)

    assert [times(factor)(3) for factor in (2, 5, 2, [0], (1,))] == [6, 15, 6, [0, 0, 0], (1, 1, 1)]

    def noted(function: Callable[[int], int], steps: Mapping[str, int] | None = None) -> Callable[[int], int]:
        @functools.wraps(function)
        def call(n: int) -> int:
            return function(n) + (steps or {"b": 0})["b"]

        return call

    assert [tool(noted(one))(3) for one in (lambda n: n + 10, lambda n: n + 20)] == [13, 23]

    class Adds:
        def __call__(self, n: int) -> int:
            return n + 100

    class Takes:
        def __call__(self, n: int) -> int:
            return n - 100

    named = memory.tool(cache=60, name="named")
    assert [named(one)(3) for one in (Adds(), Takes(), Adds().__call__)] == [103, -97, 103]
    assert [named(functools.partial(operator.mul, one))(3) for one in (2, 5)] == [6, 15]
    assert [tool(noted(one, {"a": 1, "b": step}))(3) for step in (1, 2) for one in (abs,)] == [4, 5]
    assert [named(functools.lru_cache(one))(3) for one in (lambda n: n + 7, lambda n: n + 8)] == [10, 11]


def test_what_a_function_adds_to_around_it_does_not_change_what_it_is(memory: ak.Repository) -> None:
    calls: list[int] = []

    @memory.tool(cache=60)
    def note(n: int) -> int:
        calls.append(n)
        return sum(calls) if calls else note(n)

    assert [note(1), note(1), note(2), note(2)] == [1, 1, 3, 3]


def test_another_process_with_the_same_code_has_the_cached_result(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    """Constants that are sets come in another order in each process."""
    for _ in range(3):
        child("""
            @repo.tool(cache=60)
            def is_known(word):
                return word in {"one", "two", "three", "four", "five", "six", "seven"}
            print(is_known("six"), flush=True)
        """).wait()
    assert repo.tools.hits("is_known") == 2


def test_a_cached_result_has_its_time(memory: ak.Repository, wait: Callable[[float], None]) -> None:
    """AAF-12: ttl. A hit does not make it longer."""

    @memory.tool(cache=60)
    def now() -> float:
        return time.time()

    first = now()
    wait(40)
    assert now() == first
    wait(40)
    assert now() != first
    wait(61)
    assert memory.tools.clear_expired() == 1


CHANGED_BY_JSON: list[Any] = [
    (1, 2),
    {1: 2},
    {1, 2},
    b"x",
    float("nan"),
    object(),
    "\ud800",
    [[(1,)]],
    {"a": {2: 3}},
    1j,
]


@pytest.mark.parametrize("value", CHANGED_BY_JSON, ids=lambda value: ascii(value).partition(" at 0x")[0])
def test_what_json_would_change_is_never_cached_and_the_record_says_so(memory: ak.Repository, value: Any) -> None:
    """AAF-12: a cached result is exactly what the function returned; anything else is not cached."""

    @memory.tool(cache=60)
    def give(given: Any = None) -> Any:
        return value

    @memory.tool(cache=60)
    def take(given: Any) -> int:
        return 1

    for _ in range(2):
        assert give() is value
        assert take(value) == 1
    assert [memory.tools.stats(tool).cache_hits for tool in ("give", "take")] == [0, 0]
    assert "not cached" in memory.tools.runs("give")[0].note
    assert "arguments recorded as text: given" in memory.tools.runs("take")[0].note


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 10**30, 0.1, 1e300, 5e-324, "", "\0é😀", [], {}, [[{"a": [1.5]}]]]
)
def test_plain_results_come_from_the_cache_as_they_were(memory: ak.Repository, value: object) -> None:
    @memory.tool(cache=60)
    def give(given: object) -> object:
        return value

    give(value)
    again = give(value)
    assert memory.tools.stats("give").cache_hits == 1
    assert (again, type(again)) == (value, type(value))


def test_a_call_is_tried_again_with_longer_and_longer_waits(memory: ak.Repository) -> None:
    """AAF-13: attempts, max_attempts, last_error, next_retry_at, backoff."""
    seen: list[float] = []

    @memory.tool(retries=3, backoff=0.02)
    def flaky() -> str:
        seen.append(time.perf_counter())
        if len(seen) < 4:
            raise OSError(f"attempt {len(seen)}")
        return "at last"

    assert flaky() == "at last"
    (run,) = memory.tools.runs("flaky")
    assert (run.attempts, run.most_attempts, run.status) == (4, 4, "completed")
    gaps = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert gaps[0] >= 0.02
    assert gaps[2] >= 0.08
    history = [change.new for change in memory.tools.records.history(run.id) if change.new]
    assert [one.error for one in history if one.status == "waiting"] == [f"OSError: attempt {n}" for n in (3, 2, 1)]


def test_a_retry_can_be_left_for_later(memory: ak.Repository) -> None:
    """AAF-13: get_pending, ready, consume, cancel."""
    works = False

    @memory.tool(retries=5, backoff=0.03, defer=True)
    def send(to: str, *more: str) -> str:
        if not works:
            raise OSError("no network")
        return ", ".join((to, *more))

    for to in ("ada", "bob"):
        with pytest.raises(OSError, match="no network"):
            send(to, "cy")
    assert len(memory.tools.waiting()) == 2
    assert memory.tools.due() == []
    time.sleep(0.04)
    first, second = memory.tools.due()
    works = True
    assert memory.tools.retry(first) == "ada, cy"
    with pytest.raises(ak.InvalidRecordError, match="does not wait"):
        memory.tools.retry(first)
    memory.tools.cancel(second)
    assert memory.tools.due() == []
    assert {run.status for run in memory.tools.runs("send")} == {"completed", "cancelled"}
    assert len(memory.tools.runs("send")) == 2


def test_a_result_is_returned_although_its_call_was_cancelled_or_cannot_be_recorded(
    memory: ak.Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """What was paid for is not withheld."""

    @memory.tool(retries=3, backoff=0.001)
    def pay(fails: bool) -> int:
        memory.tools.cancel(memory.tools.runs("pay")[0])
        if fails:
            raise OSError("no network")
        return 5

    assert pay(fails=False) == 5
    with pytest.raises(OSError, match="no network"):
        pay(fails=True)
    assert [run.status for run in memory.tools.runs("pay")] == ["cancelled", "cancelled"]
    assert "is not recorded" in caplog.text


def test_statistics_are_computed_from_the_calls(memory: ak.Repository) -> None:
    """AAF-14: total, success_rate, error_rate, avg_duration_ms, cache_hit_rate."""

    @memory.tool(cache=60)
    def half(n: int) -> int:
        if n % 2:
            raise ValueError
        return n // 2

    for n in (2, 4, 2, 3):
        try:
            half(n)
        except ValueError:
            continue
    stats = memory.tools.stats("half")
    assert (stats.total, stats.success_rate, stats.error_rate, stats.cache_hit_rate) == (4, 0.75, 0.25, 0.25)
    assert stats.avg_duration_ms > 0
    assert memory.tools.stats("nothing").total == 0
    assert memory.tools.clear(older_s=0) == 4
    assert memory.tools.stats("half").total == 0


def test_a_function_can_take_the_state_and_no_model_is_told(memory: ak.Repository) -> None:
    """AGNO-4: an injected `agent_state`."""

    @memory.tool(state={"name": "own"})
    def greet(agent_state: dict[str, str], greeting: str = "hello") -> str:
        return f"{greeting} {agent_state['name']}"

    @memory.tool
    def who(agent_state: Any) -> str:
        return str(agent_state.get("name"))

    say: Any = greet
    who_is_there: Any = who
    assert say("good morning") == "good morning own"
    assert greet(agent_state={"name": "given"}) == "hello given"
    memory.tools.state.set("name", "of the store")
    assert memory.state("default").get("name") == "of the store"
    assert who_is_there() == "of the store"
    memory.tools.state = lambda: {"name": "of all tools"}
    assert who_is_there() == "of all tools"
    assert memory.tools.runs("greet")[0].arguments == {"greeting": "hello"}
    assert str(greet.__signature__) == "(greeting: 'str' = 'hello') -> 'str'"


def test_what_a_tool_returned_for_one_state_is_not_cached_for_another(memory: ak.Repository) -> None:
    @memory.tool(cache=60)
    def name(agent_state: Any, greeting: str = "hello") -> str:
        return f"{greeting} {agent_state.get('name')}"

    for user in ("ada", "bob"):
        memory.state(user).set("name", user)
        bound = memory.state(user).bind(name)
        assert str(inspect.signature(bound)) == "(greeting: 'str' = 'hello') -> 'str'"
        assert (bound(), bound("bye")) == (f"hello {user}", f"bye {user}")
        assert bound("bye") == f"bye {user}"
    assert name(agent_state={"name": "cy"}) == "hello cy"
    assert memory.tools.stats("name").cache_hits == 2
    with pytest.raises(TypeError, match="unexpected keyword"):
        bound(agent_state=memory.state("ada"))
    assert memory.tools.invalidate("name", {"greeting": "bye"}) == 2
    assert memory.tools.invalidate("name") == 3


def test_a_call_is_tried_again_with_the_state_that_it_had(memory: ak.Repository) -> None:
    seen: list[str] = []

    @memory.tool(retries=1, backoff=0, defer=True)
    def note(agent_state: Any) -> str:
        seen.append(agent_state.user)
        if len(seen) == 1:
            raise OSError("busy")
        return str(agent_state.user)

    with pytest.raises(OSError, match="busy"):
        memory.state("ada").bind(note)()
    (run,) = memory.tools.due()
    with pytest.raises(InvalidRecordError, match=r"the state ada/s/default/: retry"):
        memory.tools.retry(run)
    assert memory.tools.retry(run, state=memory.state("ada")) == "ada"
    assert seen == ["ada", "ada"]


def test_a_tool_can_be_given_to_an_agent(memory: ak.Repository) -> None:
    """The model is told of it as of the function, and what its code calls is recorded and cached."""

    @memory.tool(cache=60)
    def price_of(item: str) -> float:
        """The price of an item."""
        return {"tea": 3.5}[item]

    agent = ak.Agent("buyer", model=ScriptedModel(["task.success(price_of('tea') + price_of('tea'))"]))
    agent.fn(price_of)
    assert agent("What do two cups of tea cost?") == 7
    assert "price_of(item: str) -> float  # The price of an item." in agent.registry.text(1_000)
    assert memory.tools.stats("price_of").cache_hits == 1


def test_a_checkout_does_not_forget_a_call_that_was_paid_for(repo: ak.Repository) -> None:
    """The plane `store`."""

    @repo.tool(cache=60)
    def pay(amount: int) -> int:
        return amount

    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("one")
        pay(5)
        state["x"] = 2
        state.commit("two")
        state.rollback("HEAD~1")
        pay(5)
    assert repo.tools.stats("pay").cache_hits == 1
    assert repo.tools.stats("pay").total == 2


def test_two_processes_share_a_cache(repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]) -> None:
    worker = child("""
        import os
        @repo.tool(cache=60)
        def pid():
            return os.getpid()
        print(pid(), flush=True)
    """)

    @repo.tool(cache=60)
    def pid() -> int:
        return os.getpid()

    assert pid() == worker.pid != os.getpid()


# -- what was paid for, and what makes no sense


def test_a_call_within_a_transaction_that_fails_is_recorded(memory: ak.Repository) -> None:
    @memory.tool(cache=60)
    def pay(amount: int) -> int:
        return amount

    def fail_half_way() -> None:
        with memory.transaction():
            pay(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    (run,) = memory.tools.runs("pay")
    assert (run.status, run.result) == ("completed", 1)
    pay(1)
    assert memory.tools.stats("pay").cache_hits == 1


def test_a_call_and_a_change_of_the_branch_fit_into_one_transaction(memory: ak.Repository) -> None:
    @memory.tool
    def pay(amount: int) -> int:
        return amount

    state = memory.state("ada")
    with memory.transaction():
        pay(3)
        state.set("paid", 3)
        pay(4)
    assert (state.get("paid"), [run.result for run in memory.tools.runs("pay")]) == (3, [4, 3])


@pytest.mark.parametrize(
    "options", [{"backoff": -1}, {"cache": -1}, {"timeout_s": float("nan")}, {"cache": float("inf")}, {"retries": -1}]
)
def test_options_of_a_tool_are_numbers_of_0_or_more(memory: ak.Repository, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        memory.tool(**options)(len)


def test_a_result_counts_for_the_plane_the_branch_and_the_rights_that_it_was_made_with(memory: ak.Repository) -> None:
    @memory.tool(cache=60)
    def city(agent_state: Any) -> str:
        try:
            return str(agent_state.get("city"))
        except ak.RecordAccessError:
            return "secret"

    state = memory.state("ada")
    state.set("city", "London")
    beside = memory.state("ada", plane="store")
    beside.set("city", "Paris")
    told = [one.bind(city)() for one in (state, beside, state.restricted(read=[]), state.at("HEAD"))]
    state.set("city", "Rome")
    assert told == ["London", "Paris", "secret", "London"]
    assert [one.bind(city)() for one in (state, beside, state.restricted(read=[]))] == ["London", "Paris", "secret"]


def test_a_result_of_one_branch_of_a_session_does_not_count_on_another() -> None:
    with ak.Versioned("memory:") as variables:
        repo = variables.session.repo

        @repo.tool(cache=60)
        def city(agent_state: Any) -> str:
            return str(agent_state.get("city"))

        state = repo.state("ada")
        ask = state.bind(city)
        state.set("city", "London")
        variables.commit("one")
        assert ask() == "London"
        variables.session.switch("other", create=True)
        state.set("city", "Paris")
        variables.commit("two")
        assert ask() == "Paris"


def test_what_a_tool_returns_of_a_state_with_a_secret_is_not_recorded_in_plain_text(
    tmp_path: Path,
) -> None:
    pytest.importorskip("cryptography")
    stored = ak.open(tmp_path / "store")
    state = stored.state("ada", secret="a long passphrase", secret_keys=["card"])
    state.set("card", "4111-1111-1111-1111")

    @stored.tool(cache=60)
    def card(agent_state: object) -> object:
        """The number of the card."""
        return state.get("card")

    assert [state.bind(card)() for _ in range(2)] == ["4111-1111-1111-1111"] * 2
    runs = stored.tools.runs("card")
    assert [(run.status, run.result) for run in runs] == [("completed", None)] * 2
    assert "not recorded: the state of the tool has a secret" in runs[0].note
    assert b"4111-1111" not in (tmp_path / "store" / "data.mdb").read_bytes()


def test_a_function_that_yields_is_no_tool(memory: ak.Repository) -> None:
    """Its call was recorded as completed before any of its work was done."""

    def lines() -> Iterator[str]:
        yield "one"

    async def parts() -> AsyncIterator[str]:
        yield "one"

    for function in (lines, parts):
        with pytest.raises(TypeError, match=f"{function.__name__} yields: a tool returns its whole result"):
            memory.tool(function)
    assert list(memory.tools.records.find()) == []


def test_an_object_whose_call_is_async_is_a_tool_to_await(memory: ak.Repository) -> None:
    class Double:
        async def __call__(self, number: int) -> int:
            return 2 * number

    double: Any = memory.tool(name="double")(Double())
    assert asyncio.run(double(21)) == 42
    (run,) = memory.tools.records.find()
    assert (run.status, run.result) == ("completed", 42)


def test_a_tool_s_name_is_a_text(memory: ak.Repository) -> None:
    with pytest.raises(TypeError, match="a tool's name is text"):
        memory.tool(**cast("Any", {"name": 5}))(len)


# -- equal calls at once


def at_once(act: Callable[[], object], many: int = 8) -> list[object]:
    """What a function returns in so many threads that begin together; of one that raises the error."""
    gate = threading.Barrier(many)

    def begin(_: int) -> object:
        gate.wait()
        try:
            return act()
        except OSError as error:
            return error

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(begin, range(many)))


def test_equal_calls_of_several_threads_run_the_function_once(memory: ak.Repository) -> None:
    calls: list[int] = []

    @memory.tool(cache=60)
    def double(n: int) -> int:
        calls.append(n)
        time.sleep(0.1)
        return 2 * n

    assert at_once(lambda: double(4)) == [8] * 8
    assert calls == [4]
    stats = memory.tools.stats("double")
    assert (stats.total, stats.cache_hits) == (8, 7)
    assert sorted(cast("list[int]", at_once(lambda: double(5)))) == [10] * 8
    assert calls == [4, 5]


def test_equal_async_calls_run_the_function_once(memory: ak.Repository) -> None:
    calls: list[int] = []

    @memory.tool(cache=60)
    async def double(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0.05)
        return 2 * n

    async def run() -> list[int]:
        impatient = asyncio.create_task(asyncio.wait_for(double(4), 0.01))
        found = await asyncio.gather(*(double(4) for _ in range(5)))
        with pytest.raises(TimeoutError):
            await impatient
        return [*found, *await asyncio.gather(*(double(5) for _ in range(5)))]

    assert asyncio.run(run()) == [8] * 5 + [10] * 5
    assert calls.count(5) == 1


def test_who_waits_for_a_call_that_raises_calls_the_function(memory: ak.Repository) -> None:
    calls: list[int] = []

    @memory.tool(cache=60)
    def fetch(n: int) -> int:
        calls.append(n)
        time.sleep(0.1)
        if len(calls) == 1:
            raise OSError("no network")
        return n

    found = at_once(lambda: fetch(1), 3)
    assert sorted(map(str, found)) == ["1", "1", "no network"]
    assert fetch(1) == 1


def test_results_that_cannot_be_cached_are_computed_side_by_side(memory: ak.Repository) -> None:
    calls: list[int] = []

    @memory.tool(cache=60)
    def pair(n: int) -> tuple[int, int]:
        calls.append(n)
        time.sleep(0.2)
        return n, n

    began = time.monotonic()
    assert at_once(lambda: pair(1), 4) == [(1, 1)] * 4
    assert len(calls) == 4
    assert time.monotonic() - began < 0.75  # one after the other they take 0.8


def test_cached_tools_that_call_each_other_do_not_wait_for_each_other(memory: ak.Repository) -> None:
    gate, outer = threading.Barrier(2, timeout=5), threading.local()

    def is_outer() -> bool:
        was_outer = not hasattr(outer, "begun")
        outer.begun = True
        return was_outer

    @memory.tool(cache=60)
    def left(n: int) -> str:
        if is_outer():
            gate.wait()
            right(n)
        return "left"

    @memory.tool(cache=60)
    def right(n: int) -> str:
        if is_outer():
            gate.wait()
            left(n)
        return "right"

    @memory.tool(cache=60)
    def again(n: int) -> int:
        return again(n - 1) + 1 if n else 0

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(left, 1), pool.submit(right, 1)]
        assert [one.result(timeout=10) for one in found] == ["left", "right"]
    assert again(3) == 3


def test_a_call_with_other_arguments_names_the_tool(memory: ak.Repository) -> None:
    @memory.tool
    def double(n: int) -> int:
        return 2 * n

    call: Any = double
    with pytest.raises(
        TypeError, match=r"^double\(n: .*\) -> .* cannot be called so: missing a required argument: 'n'$"
    ):
        call()
    with pytest.raises(TypeError, match=r"^args names the arguments of double: "):
        memory.tools.invalidate("double", {"m": 1})
    assert memory.tools.runs() == []
