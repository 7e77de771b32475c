"""Code that runs too long is interrupted, again if it does not heed it, and nobody else is."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from textwrap import dedent

import pytest

from agent_kernel.agents import Agent, Limits, Run, ScriptedModel, limits
from agent_kernel.agents.events import Output
from agent_kernel.agents.execution import PlainExecutor
from agent_kernel.agents.limits import Interruptible, StepTimeout, within


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is interrupted again sooner than people would have it."""
    monkeypatch.setattr(limits, "_FIRST_AGAIN_S", 0.1)
    monkeypatch.setattr(limits, "_AGAIN_S", 0.05)


def on_thread(act: Callable[[], object]) -> None:
    """Do it on another thread than the main one, and raise here what it raises there."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def on_main(act: Callable[[], object]) -> None:
    act()


THREADS = pytest.mark.parametrize("where", [on_main, on_thread])


def timed_out(code: str, seconds: float = 0.1) -> float:
    """How long code took that is interrupted."""
    began = time.monotonic()
    done = PlainExecutor({}).run(code, timeout_s=seconds)
    assert done.status == "timeout", done
    return time.monotonic() - began


def test_waiting_on_the_main_thread_ends_at_once() -> None:
    assert timed_out("import time\ntime.sleep(30)") < 5


@THREADS
def test_a_loop_ends(where: Callable[[Callable[[], object]], None]) -> None:
    where(lambda: timed_out("while True: pass"))


def test_a_call_into_c_ends_when_it_returns() -> None:
    """`sum` over a range looks at no signal before it is done."""
    assert timed_out("for _ in range(1000): sum(range(3_000_000))", 0.05) < 10


def test_what_other_threads_of_the_code_do_does_not_keep_it() -> None:
    code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(0.5,))\nt.start()\nwhile True: time.sleep(1)"
    assert timed_out(code) < 5


@THREADS
@pytest.mark.usefixtures("impatient")
def test_code_that_swallows_its_interrupts_is_stopped_by_something_else(
    where: Callable[[Callable[[], object]], None],
) -> None:
    code = "import time\nwhile True:\n    try:\n        while True: time.sleep(0.001)\n    except (KeyboardInterrupt, Exception): pass"
    where(lambda: timed_out(code))


STUBBORN = {
    "handlers in handlers": """
        def outer():
            while True:
                try: inner()
                except BaseException: pass
        def inner():
            while True:
                try:
                    while True: n = 1
                except BaseException: outer_again()
        def outer_again():
            while True:
                try: inner()
                except BaseException: pass
        outer()""",
    "a generator that goes on": """
        def endless():
            while True:
                try: yield 1
                except BaseException: pass
        while True:
            try:
                for _ in endless(): pass
            except BaseException: pass""",
}
SWITCHED_OFF = {
    "waits again": "import time\nwhile True:\n    try: time.sleep(30)\n    except BaseException: pass",
    "ignores the signal": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "keeps the signal away": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass",
}


@THREADS
@pytest.mark.timeout(60)
@pytest.mark.usefixtures("impatient")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <generator")
@pytest.mark.parametrize("way", STUBBORN)
def test_code_that_swallows_whatever_comes_ends(where: Callable[[Callable[[], object]], None], way: str) -> None:
    before = sys.gettrace()
    where(lambda: timed_out(dedent(STUBBORN[way])))
    assert sys.gettrace() is before
    assert not lines_are_monitored()


def lines_are_monitored() -> bool:
    """Whether Python calls something for each line, which makes all code slow."""
    if sys.version_info < (3, 12):
        return False
    monitoring = sys.monitoring
    return any(monitoring.get_tool(tool) and monitoring.get_events(tool) for tool in limits._TOOLS)


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("impatient")
def test_other_threads_go_on_while_code_that_swallows_whatever_comes_is_ended() -> None:
    is_done = threading.Event()
    lines: list[int] = []

    def other() -> None:
        while not is_done.is_set():
            lines.append(1)
            time.sleep(0.0001)

    thread = threading.Thread(target=other)
    thread.start()
    timed_out(dedent(STUBBORN["handlers in handlers"]))
    assert thread.is_alive()
    before = len(lines)
    time.sleep(0.05)
    assert len(lines) > before
    is_done.set()
    thread.join()


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", SWITCHED_OFF)
def test_code_on_the_main_thread_that_heeds_no_signal_ends(way: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    timed_out(SWITCHED_OFF[way])
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("impatient")
def test_code_that_swallowed_one_interrupt_and_ended_has_still_run_too_long() -> None:
    code = "import time\ntry: time.sleep(30)\nexcept KeyboardInterrupt: partial = 1"
    namespace: dict[str, object] = {}
    done = PlainExecutor(namespace).run(code, timeout_s=0.05)
    assert done.status == "timeout"
    assert "interrupted once" in str(done.error)
    assert namespace["partial"] == 1


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_code_cannot_be_stopped_fails_and_says_so() -> None:
    loop = "for n in range(8):\n    try: time.sleep(5)\n    except BaseException: pass"
    run = Agent(model=ScriptedModel([f"import time\n{loop}"] * 3), limits=Limits(step_s=0.05)).start("Loop")
    list(run.stream())
    assert run.outcome.limit == "step_s"
    assert "went on after it was interrupted" in run.outcome.reason
    assert sum(isinstance(event, Output) for event in run.events) == 1


def failed(code: str, limits: Limits) -> Run[object]:
    run: Run[object] = Agent(model=ScriptedModel([code] * 9), limits=limits).start("Go on for ever")
    list(run.stream())
    assert run.outcome.status == "failed"
    return run


def test_steps_that_are_too_long_one_after_the_other_end_the_run() -> None:
    run = failed("kept = 1\nwhile True: pass", Limits(step_s=0.05, retries=2))
    assert run.outcome.limit == "step_s"
    assert [event.status for event in run.events if isinstance(event, Output)] == ["timeout"] * 3
    assert run._run_executor.context.namespace["kept"] == 1


def test_steps_that_show_too_much_one_after_the_other_end_the_run() -> None:
    run = failed("print('x' * 500)", Limits(output_chars=100, retries=1))
    assert run.outcome.limit == "output_chars"
    outputs = [event for event in run.events if isinstance(event, Output)]
    assert len(outputs) == 2
    assert all(event.dropped > 300 and len(event.sent) <= 100 for event in outputs)


def test_values_that_never_fit_end_the_run() -> None:
    run: Run[int] = Agent(model=ScriptedModel(["task.success('no')"] * 9), limits=Limits(retries=2)).start(
        "n", returns=int
    )
    list(run.stream())
    assert run.outcome.limit == "retries"


@THREADS
@pytest.mark.parametrize("times", [100, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.timeout(240)
def test_steps_about_as_long_as_their_deadline_never_interrupt_the_caller(
    where: Callable[[Callable[[], object]], None], times: int
) -> None:
    chance = random.Random(1)

    def steps() -> None:
        executor = PlainExecutor({})
        outcomes: set[str] = set()
        for _ in range(times):
            takes = chance.uniform(0.0005, 0.012)  # a busy thread lets another one run every 5 ms
            code = f"import time\nend = time.perf_counter() + {takes}\nwhile time.perf_counter() < end: pass"
            outcomes.add(executor.run(code, timeout_s=0.002).status)
            for _ in range(200):  # where a late interrupt would show
                pass
        assert outcomes == {"ok", "timeout"}

    where(steps)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler or sys.gettrace() is not None


@THREADS
def test_an_interrupt_that_python_ignores_is_sent_again_and_nothing_is_said_of_it(
    where: Callable[[Callable[[], object]], None], impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[type[BaseException] | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: ignored.append(unraisable.exc_type))

    class Slow:
        def __del__(self) -> None:
            while not has_arrived:
                has_arrived.extend(wait())

    def wait() -> list[bool]:
        try:
            time.sleep(0.01)
        except KeyboardInterrupt:
            has_arrived.append(True)
            raise
        return []

    has_arrived: list[bool] = []

    def work() -> None:
        Slow()
        while True:
            pass

    def act() -> None:
        with pytest.raises(StepTimeout) as stopped:
            within(0.05, work)
        assert (has_arrived, stopped.value.swallowed) == ([True], 1)

    where(act)
    assert ignored == []


def test_python_still_tells_of_other_errors_that_it_ignores(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[type[BaseException] | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: ignored.append(unraisable.exc_type))

    class Failing:
        def __del__(self) -> None:
            raise ZeroDivisionError

    within(5, Failing)
    assert ignored == [ZeroDivisionError]


def test_nothing_of_a_deadline_stays_in_the_process() -> None:
    """Else Python looks for an interrupt at every jump of every thread, and on 3.11 nothing that is traced goes on."""
    code = """
        import sys, threading
        from agent_kernel.agents.limits import StepTimeout, within

        def endless():
            while True:
                pass

        def run():
            within(60, lambda: None)
            try:
                within(0.01, endless)
            except StepTimeout as error:
                print(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        sys.settrace(lambda *_: None)
        (lambda: None)()
        sys.settrace(None)
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "it ran longer than 0.01 s\n"


def test_a_person_s_own_interrupt_goes_through_a_deadline() -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        within(30, interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_error_goes_first_and_no_deadline_is_none() -> None:
    def other() -> None:
        try:
            time.sleep(5)
        except KeyboardInterrupt:
            raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        within(0.5, other)  # long enough for a busy machine to be asleep by then
    assert within(None, lambda: 5) == within(60, lambda: 5) == 5
    with pytest.raises(StepTimeout, match=r"0\.01 s"):
        within(0.01, lambda: time.sleep(5))


@pytest.mark.timeout(120)
def test_a_stretch_that_others_may_interrupt_ends_where_it_ends() -> None:
    code = Interruptible()
    hits = 0
    for number in range(200):

        def interrupt() -> None:
            time.sleep(0.002)
            code.interrupt()

        def work(number: int = number) -> None:
            time.sleep(0.001 * (number % 5))

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            code.run(work)
        except KeyboardInterrupt:
            hits += 1
        thread.join()
    assert 0 < hits < 200
    assert not code.interrupt()
