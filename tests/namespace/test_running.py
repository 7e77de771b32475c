"""`Namespace.run`: what it answers, what it commits, and that code of any kind leaves the program around it alone."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agent_kernel.agents.execution import BoundedText
from agent_kernel.agents.namespace import MOST_OUTPUT, Namespace
from agent_kernel.errors import LostValueError, NameNotFoundError, RefNotFoundError, SessionClosedError, StepBusyError


@pytest.fixture
def ns() -> Iterator[Namespace]:
    with Namespace() as namespace:
        yield namespace


def test_a_run_says_what_it_did_and_is_a_commit(ns: Namespace) -> None:
    first = ns.run("print('hello')\nx, y = 1, 2\nx + y")
    assert (first.output, first.result, first.error, first.status) == ("hello\n", "3", None, "ok")
    assert first.changed == {"x": "added", "y": "added"}
    second = ns.run("x = 5\ndel y")
    assert second.changed == {"x": "changed", "y": "removed"}
    ids = [id.hex() for id, _ in ns.history()]
    assert len(ids) == 2
    assert all(one.startswith(found.commit) for one, found in zip(ids, (second, first), strict=True))
    assert {one.name for one in ns.diff()} == {"x", "y"}


def test_code_that_fails_keeps_and_commits_what_it_did_before(ns: Namespace) -> None:
    ran = ns.run("x = 1\nprint('so far')\n1 / 0\nx = 2")
    assert ran.status == "failed"
    assert ran.error is not None
    assert ran.error.splitlines()[-3:] == ["    1 / 0", "    ~~^~~", "ZeroDivisionError: division by zero"]
    assert (ns["x"], ran.changed, ran.output) == (1, {"x": "added"}, "so far\n")
    assert ns.history()[0][1].status == "failed"


def test_the_text_of_a_run_is_what_a_model_reads(ns: Namespace) -> None:
    lines = str(ns.run("print('seen')\ngen = (i for i in ())\n7")).splitlines()
    assert lines[:2] == ["seen", "7"]
    assert lines[2].startswith("Not saved: gen (generator): a generator cannot be saved; run the code of run 1 again")


@pytest.mark.parametrize("other", ["None", "io.StringIO()", "sys.stderr"])
def test_output_that_code_leads_elsewhere_is_the_program_s_again_afterwards(ns: Namespace, other: str) -> None:
    before = sys.stdout, sys.stderr
    assert ns.run(f"import io, sys\nsys.stdout = sys.stderr = {other}").status == "ok"
    assert (sys.stdout, sys.stderr) == before
    assert ns.run("print('still')").output == "still\n"


def test_bytes_that_code_prints_are_output_too(ns: Namespace) -> None:
    ran = ns.run(
        """
import sys
sys.stdout.reconfigure(line_buffering=True)
print("text", flush=True)
for part in (b"h\\xc3", b"\\xa9", b"llo ", bytearray(b"\\xff"), memoryview(b"!\\n")):
    assert sys.stdout.buffer.write(part) == len(part)
sys.stdout.buffer.flush()
sys.stderr.buffer.write(b"error")
"""
    )
    assert (ran.status, ran.output) == ("ok", "text\nhéllo \ufffd!\nerror")


def test_what_stopped_the_code_is_none_of_its_traceback(ns: Namespace) -> None:
    for code, last in (
        ("import time\ntime.sleep(9)", "    time.sleep(9)"),
        ("import asyncio\nawait asyncio.sleep(9)", None),
    ):
        error = ns.run(code, timeout_s=0.1).error
        assert error is not None
        *rest, kind = error.splitlines()
        assert kind == "TimeoutError: it ran longer than 0.1 s"
        lines = [line for line in rest if line.strip("~^ ")]  # from Python 3.13 on marks stand below a call
        assert not last or lines[-1] == last
        assert "agent_kernel" not in error


def test_the_code_that_brings_a_lost_value_back_is_there(tmp_path: Path) -> None:
    """An agent is told to run the code of a commit again: it can ask for that code."""
    with Namespace(tmp_path / "store") as ns:
        ran = ns.run("rows = [1, 2]\nstream = (row for row in rows)")
        assert ran.commit is not None
    with Namespace(tmp_path / "store") as ns:
        assert f"run the code of {ran.commit[:8]}" in ns.came_back
        ns.run(ns.code(ran.commit[:8]))
        assert list(cast("Iterator[int]", ns["stream"])) == [1, 2]
        ns["x"] = 1
        ns.commit("by hand")
        assert ns.code() == ""
        with pytest.raises(RefNotFoundError):
            ns.code("nothing")


def test_undo_redo_checkout_and_rollback_move_the_variables(ns: Namespace) -> None:
    first = ns.run("steps = ['look']").commit
    ns.run("steps.append('act')")
    ns.undo()
    assert ns["steps"] == ["look"]
    ns.redo()
    assert ns["steps"] == ["look", "act"]
    ns.checkout(first)
    assert ns["steps"] == ["look"]
    ns.checkout("main")
    ns.rollback(first)
    assert ns["steps"] == ["look"]
    with pytest.raises(RefNotFoundError):
        ns.checkout("nowhere")


def test_it_is_a_mapping_of_the_variables_alone(ns: Namespace) -> None:
    ns["given"] = [1]
    ns.run("given.append(2)\n_private = 3")
    assert dict(ns) == {"given": [1, 2], "_private": 3}
    assert len(ns) == 2
    assert ns.show("given") == "list of 2 int, [1, 2]"
    with pytest.raises(NameNotFoundError, match="did you mean given"):
        ns.show("givn")


@pytest.mark.parametrize("leave", ["exit()", "quit()", "import sys; sys.exit(3)", "raise SystemExit('bye')"])
def test_code_that_leaves_ends_its_run_and_nothing_else(ns: Namespace, leave: str) -> None:
    ran = ns.run(f"x = 1\n{leave}\nx = 2")
    assert "Only this run has ended" in (ran.error or "")
    assert ns.run("x").result == "1"
    assert not sys.stdin.closed


@pytest.mark.parametrize("asks", ["input('name? ')", "import sys; sys.stdin.read()", "import sys; list(sys.stdin)"])
def test_nobody_is_waited_for(ns: Namespace, asks: str) -> None:
    assert "nobody can answer input() here: put the value into the code" in (ns.run(asks).error or "")


def test_a_debugger_ends_at_once(ns: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    assert "BdbQuit" in (ns.run("breakpoint()").error or "")


BAD = ["def f(:", "x = 'a", "\0", "x = '\ud800'", "return 1", "  x = 1\n y = 2", "x = 1\n\ty = 2", "(" * 300, "1 +"]


@pytest.mark.parametrize("code", BAD)
def test_code_that_is_none_is_an_error_and_changes_nothing(ns: Namespace, code: str) -> None:
    ns.run("kept = 1")
    ran = ns.run(code)
    assert ran.status == "failed"
    assert "Error" in (ran.error or "")
    assert (dict(ns), ran.changed) == ({"kept": 1}, {})


def test_line_ends_of_all_kinds_tabs_and_any_script_run(ns: Namespace) -> None:
    ran = ns.run("größe = 1\r\nif größe:\r\n\t变 = '\f\u2028'\r\n\tprint(größe)\r\n1/0 # here")
    assert (ran.output, ns["变"]) == ("1\n", "\f\u2028")
    assert "1/0 # here" in (ran.error or "")
    assert "line 5" in (ran.error or "")
    assert ns.run("").error is None
    assert ns.run("# no code").result is None


def test_a_module_s_names_are_those_of_a_script_in_no_file(ns: Namespace) -> None:
    assert ns.run("__name__ == '__main__'").result == "True"
    assert "use Path.cwd()" in (ns.run("__file__").error or "")
    assert ns.run("import sys\nvars(sys.modules['__main__']) is globals()").result == "True"


def test_imports_from_the_future_hold_for_later_runs_and_go_back_with_the_variables(ns: Namespace) -> None:
    ns.run("from __future__ import annotations")
    assert ns.run("def f(a: nothing): ...\nf.__annotations__").result == "{'a': 'nothing'}"
    ns.undo()
    ns.undo()
    assert "NameError" in (ns.run("def f(a: nothing): ...").error or "")


def test_await_needs_no_function_and_tasks_go_on_in_the_next_one(ns: Namespace) -> None:
    assert ns.run("import asyncio\nawait asyncio.sleep(0, 'slept')").result == "'slept'"
    ns.run(
        "done = asyncio.Event()\nasync def set_it(): done.set()\ntask = asyncio.ensure_future(set_it())\nawait asyncio.sleep(0)"
    )
    assert ns.run("await asyncio.wait_for(done.wait(), 5)").result == "True"
    assert ns.run("async def g():\n    return 4\nasyncio.run(g())").result == "4"


def test_it_runs_within_the_event_loop_of_the_program_around_it(ns: Namespace) -> None:
    async def agent() -> list[str | None]:
        code = "import asyncio\nawait asyncio.sleep(0, 1)"
        on_thread = await asyncio.to_thread(ns.run, code)
        return [ns.run(code).result, ns.run("asyncio.run(asyncio.sleep(0, 2))").result, on_thread.result]

    assert asyncio.run(agent()) == ["1", "2", "1"]


def test_a_timeout_ends_the_code_and_what_it_did_stays(ns: Namespace) -> None:
    ran = ns.run("import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)", timeout_s=0.2)
    assert ran.status == "timeout"
    assert "it ran longer than 0.2 s" in (ran.error or "")
    assert cast("int", ns["n"]) > 0
    waits = ns.run("import asyncio\ntry:\n    await asyncio.sleep(60)\nfinally:\n    left = True", timeout_s=0.1)
    assert (waits.status, ns["left"]) == ("timeout", True)


def test_an_interrupt_ends_the_code_and_is_committed(ns: Namespace) -> None:
    ran = ns.run("x = 1\nimport _thread, time\n_thread.interrupt_main()\nfor _ in range(500): time.sleep(0.01)")
    assert (ran.status, ns["x"]) == ("interrupted", 1)
    assert ns.history()[0][1].status == "interrupted"
    assert ns.run("x").result == "1"


def test_deep_recursion_is_an_error_with_a_short_traceback(ns: Namespace) -> None:
    ran = ns.run("def down(n):\n    return down(n + 1)\ndown(0)")
    assert "RecursionError" in (ran.error or "")
    assert len(ran.error or "") < 4_100
    deep = ns.run("deep = []\nfor _ in range(20_000): deep = [deep]")
    assert (deep.error, ns.run("1").result) == (None, "1")


def test_threads_of_the_code_print_into_its_run(ns: Namespace) -> None:
    ran = ns.run("import threading\nt = threading.Thread(target=print, args=('from a thread',))\nt.start(); t.join()")
    assert ran.output == "from a thread\n"


def test_what_other_threads_of_the_program_print_is_not_taken(
    ns: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    go, went = threading.Event(), threading.Event()

    def others() -> None:
        go.wait()
        print("mine")
        went.set()

    thread = threading.Thread(target=others)
    thread.start()
    ns["go"], ns["went"] = go, went
    assert ns.run("go.set(); went.wait(5)").output == ""
    thread.join()
    assert capsys.readouterr().out == "mine\n"


def test_output_is_bounded_and_says_what_was_left_out(ns: Namespace) -> None:
    ran = ns.run("print('begin')\nfor _ in range(100): print('z' * 1_000_000)\nprint('end')")
    assert ran.output.startswith("begin\nzzz")
    assert ran.output.endswith("zzz\nend\n")
    assert len(ran.output) < MOST_OUTPUT + 100
    assert "99,900,1" in ran.output
    assert "characters left out" in ran.output


def test_bounded_text_keeps_no_more_than_it_gives() -> None:
    text = BoundedText(30)
    for at in range(10_000):
        text.write(f"{at};")
    assert text.getvalue().startswith("0;1;2;")
    assert text.getvalue().endswith("9998;9999;")
    assert sum(map(len, text._tail)) <= 20
    for short in ("", "abc"):
        small = BoundedText(3)
        small.write(short)
        assert small.getvalue() == short


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("list(range(10**5))", " … 99,000 more items"),
        ("dict.fromkeys(range(10**5))", " … 99,000 more items"),
        ("'ä' * 10**7", " … 9,980,000 more"),
        ("[['x' * 50_000]]", "characters left out"),
    ],
)
def test_a_long_result_is_cut_before_all_of_it_is_text(ns: Namespace, code: str, says: str) -> None:
    result = ns.run(code).result or ""
    assert says in result
    assert len(result) < 21_000


def test_a_repr_that_fails_is_the_code_s_error(ns: Namespace) -> None:
    ran = ns.run("class A:\n    def __repr__(self): raise ValueError('no face')\nA()")
    assert (ran.result, "ValueError: no face" in (ran.error or "")) == (None, True)


def test_code_pickles_its_own_classes_and_the_program_its_own(ns: Namespace) -> None:
    code = "import pickle\nclass P:\n    def __init__(self): self.v = 3\npickle.loads(pickle.dumps(P())).v"
    assert ns.run(code).result == "3"
    before = sys.modules["__main__"]
    assert ns.run("import pickle, __main__\n__main__ is before", timeout_s=5).error is not None  # it sees its own alone
    assert sys.modules["__main__"] is before
    assert pickle.loads(pickle.dumps(before.__name__)) == "__main__"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forks_of_the_code_end_with_it_and_never_commit(ns: Namespace) -> None:
    code = "import os\nmine = os.fork()\nif mine == 0:\n    other = 1\n    raise SystemExit(7)\n_, left = os.waitpid(mine, 0)\n"
    ran = ns.run(code + "os.waitstatus_to_exitcode(left)")
    assert (ran.result, "other" in ns) == ("7", False)
    pool = "import multiprocessing as mp\ndef square(a): return a * a\nwith mp.get_context('fork').Pool(2) as pool:"
    assert ns.run(f"{pool}\n    found = pool.map(square, [1, 2, 3])\ndel pool\nfound").result == "[1, 4, 9]"
    assert [commit.kind for _, commit in ns.history()] == ["cell", "cell"]


def test_star_imports_are_variables_that_come_and_go(ns: Namespace) -> None:
    assert ns.run("from math import *\nfloor(pi)").result == "3"
    assert ns.run("pi").changed == {}
    ns.undo()
    assert "pi" not in ns


def test_runs_of_several_threads_go_one_after_the_other(ns: Namespace) -> None:
    ns.run("n = 0")
    code = "import time\nseen = n\ntime.sleep(0.002)\nn = seen + 1"
    threads = [threading.Thread(target=ns.run, args=(code,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ns["n"] == 8


def test_code_cannot_run_code_in_the_namespace_that_runs_it(ns: Namespace) -> None:
    ns.run("import types")
    ns.session.ignore("own")
    ns.namespace["own"] = ns
    assert StepBusyError.__name__ in (ns.run("own.run('1')").error or "")
    assert ns.run("1").result == "1"


def test_a_closed_one_runs_nothing(ns: Namespace) -> None:
    ns.run("x = 1")
    ns.close()
    with pytest.raises(SessionClosedError):
        ns.run("x = 2")
    assert ns.namespace["x"] == 1


def test_two_processes_cannot_write_one_branch_and_the_second_is_told(tmp_path: Path) -> None:
    with Namespace(tmp_path / "state") as first:
        first.run("x = 1")
        with Namespace(first.repo) as second:
            assert "main is in use" in second.came_back
            second.run("x = 2")
        assert first.run("x").result == "1"


def test_what_cannot_be_saved_says_why_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    code = "import threading, sqlite3\ngen = (i for i in range(3))\nnext(gen)\nrows = [1]\nfile = open(__import__('os').devnull)"
    with Namespace(tmp_path / "state") as ns:
        ran = ns.run(code)
        assert set(ran.unsaved) == {"gen", "file"}
        assert ran.unsaved["gen"].reason == "a generator cannot be saved"
        assert ran.unsaved["gen"].remedy == "run the code of run 1 again to have it back"
        assert ns.run("rows.append(next(gen))").unsaved.keys() <= {"gen"}
        ns.run("file.close()")
    with Namespace(tmp_path / "state") as ns:
        assert ns["rows"] == [1, 1]
        assert "Not back: gen (generator): a generator cannot be saved; run the code of" in ns.came_back
        with pytest.raises(LostValueError):
            next(cast("Any", ns["gen"]))


@pytest.mark.parametrize("timeout_s", ["a", float("nan"), 0, -1])
def test_a_timeout_is_more_than_0_seconds(timeout_s: Any) -> None:
    with Namespace() as ns, pytest.raises((TypeError, ValueError), match="timeout_s is"):
        ns.run("x = 1", timeout_s=timeout_s)


def test_code_is_text() -> None:
    with Namespace() as ns, pytest.raises(TypeError, match="code is text"):
        ns.run(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["__builtins__ = {}", "del __builtins__", "__builtins__ = None", "globals().clear()"])
def test_code_that_takes_the_builtins_away_takes_them_from_its_own_run_alone(ns: Namespace, code: str) -> None:
    ns.run(code)
    ran = ns.run("import os\nprint(len([__name__]))")
    assert (ran.output, ran.error, ran.status) == ("1\n", None, "ok")
