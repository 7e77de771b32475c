"""What code prints is taken from the thread that it runs on, and what others print meanwhile stays where it belongs."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import pytest

from agent_kernel.agents.execution import PlainExecutor, capture_output
from agent_kernel.agents.side_effects import follow_threads


def test_each_thread_has_what_it_printed() -> None:
    begun = threading.Barrier(4)

    def work(who: int) -> str:
        taken = io.StringIO()
        begun.wait()
        with capture_output(taken):
            for at in range(200):
                print(who, at)
        return taken.getvalue()

    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert found == ["".join(f"{who} {at}\n" for at in range(200)) for who in range(4)]
    assert sys.stdout is before


def test_while_another_thread_captures_the_main_one_prints_where_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    begun, done = threading.Event(), threading.Event()
    taken = io.StringIO()

    def work() -> None:
        with capture_output(taken):
            print("mine")
            begun.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    print("theirs")
    done.set()
    thread.join()
    assert taken.getvalue() == "mine\n"
    assert capsys.readouterr().out == "theirs\n"


def test_threads_that_the_code_of_the_main_one_starts_print_for_it() -> None:
    taken = io.StringIO()
    with capture_output(taken):
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
    assert taken.getvalue() == "from a thread\n"


@pytest.mark.parametrize("follow", [nullcontext, follow_threads], ids=["followed by nobody", "followed for others"])
def test_threads_that_are_there_already_go_on_printing_where_they_did(
    capsys: pytest.CaptureFixture[str], follow: Callable[[], AbstractContextManager[None]]
) -> None:
    begun, said = threading.Event(), threading.Event()

    def work() -> None:
        begun.wait()
        print("theirs")
        child = threading.Thread(target=print, args=("their child's",))
        child.start()
        child.join()
        said.set()

    thread = threading.Thread(target=work)
    taken = io.StringIO()
    with follow():
        thread.start()
        with capture_output(taken):
            print("mine")
            begun.set()
            said.wait()
    thread.join()
    assert taken.getvalue() == "mine\n"
    assert capsys.readouterr().out == "theirs\ntheir child's\n"


def test_threads_print_for_the_code_that_started_them_wherever_that_runs() -> None:
    begun = threading.Barrier(3)

    def child(who: int) -> None:
        grandchild = threading.Thread(target=print, args=(f"from {who}",))
        grandchild.start()
        grandchild.join()

    def work(who: int) -> str:
        taken = io.StringIO()
        with capture_output(taken):
            begun.wait()
            started = threading.Thread(target=child, args=(who,))
            started.start()
            started.join()
            begun.wait()
        return taken.getvalue()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == ["from 0\n", "from 1\n", "from 2\n"]


def test_a_pool_that_an_earlier_step_made_prints_for_the_one_that_runs() -> None:
    namespace: dict[str, object] = {}
    executor = PlainExecutor(namespace)
    first = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 'one').result()"
    try:
        assert executor.run(first, timeout_s=None).text == "one\n"
        assert executor.run("pool.submit(print, 'two').result()", timeout_s=None).text == "two\n"
    finally:
        namespace["pool"].shutdown()  # type: ignore[attr-defined]  # the pool


def test_captures_within_captures_have_their_own() -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with capture_output(outer):
        print("a")
        with capture_output(inner):
            print("b")
        print("c", file=sys.stderr)
    assert (outer.getvalue(), inner.getvalue()) == ("a\nc\n", "b\n")


def test_a_line_that_is_printed_while_another_thread_ends_its_capturing_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # `print` holds no reference to the stream: were it freed in between, this would end the process.
    interval, done = sys.getswitchinterval(), threading.Event()
    sys.setswitchinterval(1e-6)

    def work() -> None:
        while not done.is_set():
            with capture_output(io.StringIO()):
                pass
            gc.collect(0)

    threads = [threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    try:
        for at in range(3_000):
            print(at, at)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert capsys.readouterr().out == "".join(f"{at} {at}\n" for at in range(3_000))


def test_nothing_is_said_as_a_process_ends_whose_own_stream_is_closed_by_then() -> None:
    code = (
        "import io, os, sys\nfrom agent_kernel.agents.execution import capture_output\nsys.stdout = own = open(os.devnull, 'w')\n"
        "with capture_output(io.StringIO()): print(1)\nown.close()\nsys.stdout = sys.__stdout__"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
